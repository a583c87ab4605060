"""States of partitions and replicas: valid transitions by release, and the present states as columns.

Rules of the module (PartitionState, ReplicaState; docs/reference/kafka.md §2.4, §2.5):
  - `TRANSITIONS` has one row for each range of releases, copied from their `validPreviousStates`; a state that a
    release does not have cannot be entered;
  - a partition's state is stored by its row of the controller's table, a replica's by row and position in the
    assignment; the state of a replica that is not assigned (no longer, or not yet) is stored by name;
  - partitions keep the order of their first states, because Kafka's maps of up to four entries iterate in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from simzk.kafka.topic_partition import PartitionAndReplica, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.table import PartitionTable


class PartitionState(Enum):
    """State of a partition in the controller's partition state machine."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaState(Enum):
    """State of a replica in the controller's replica state machine."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"


class Transitions(NamedTuple):
    """Transitions of both state machines in one range of releases.

    Args:
        partitions: valid previous states of each partition state.
        replicas: valid previous states of each replica state.
        dead_at_start: state of a replica on a dead broker after a controller failover.
        stops_at_end: a replica's log is deleted on the transition to NON_EXISTENT; later releases have states for it.
        leaderless_stay: the transition to OFFLINE fails for a replica of a partition that never had a leader.
        deleted_leave_first: partitions become NON_EXISTENT when their topic's deletion starts, not when it ends.
    """

    partitions: Mapping[PartitionState, frozenset[PartitionState]]
    replicas: Mapping[ReplicaState, frozenset[ReplicaState]]
    dead_at_start: ReplicaState
    stops_at_end: bool
    leaderless_stay: bool
    deleted_leave_first: bool


_P, _R = PartitionState, ReplicaState
_PARTITIONS: Final = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}
_RUNNING: Final = frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE})
_REPLICAS: Final = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: _RUNNING,
    _R.OFFLINE: _RUNNING,
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}
_2_3: Final = Transitions(
    partitions=_PARTITIONS,
    replicas=_REPLICAS,
    dead_at_start=_R.DELETION_INELIGIBLE,
    stops_at_end=False,
    leaderless_stay=False,
    deleted_leave_first=True,
)
_2_2: Final = _2_3._replace(replicas=_REPLICAS | {_R.DELETION_INELIGIBLE: frozenset({_R.DELETION_STARTED})})
_2_0: Final = _2_2._replace(deleted_leave_first=False)
_0_8_1: Final = _2_0._replace(leaderless_stay=True)  # KAFKA-6650
_0_8_0: Final = _0_8_1._replace(
    partitions=_PARTITIONS | {_P.OFFLINE: frozenset({_P.NEW, _P.ONLINE})},
    replicas=dict.fromkeys(_R, frozenset[ReplicaState]())
    | {
        _R.NEW: frozenset({_R.NON_EXISTENT}),
        _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE}),
        _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE}),
        _R.NON_EXISTENT: frozenset({_R.OFFLINE}),
    },
    dead_at_start=_R.OFFLINE,
    stops_at_end=True,
)

TRANSITIONS: Final[Mapping[tuple[int, int, int], Transitions]] = {
    (0, 8, 0): _0_8_0,
    (0, 8, 1): _0_8_1,
    (2, 0, 0): _2_0,
    (2, 2, 0): _2_2,
    (2, 3, 0): _2_3,
}
"""Transitions by the first version of each range, ascending."""


def transitions_of(version: tuple[int, int, int]) -> Transitions:
    """Return the transitions of a Kafka version, such as `(3, 9, 0)`.

    >>> transitions_of((2, 2, 2)).replicas[ReplicaState.DELETION_INELIGIBLE]
    frozenset({<ReplicaState.DELETION_STARTED: 'deletion started'>})
    """
    assert version >= (0, 8, 0), f"no controller states before 0.8.0: {version}"
    return TRANSITIONS[max(first for first in TRANSITIONS if first <= version)]


_ABSENT: Final = 0
_CODES: Final = 8
_REPLICA_STATES: Final[tuple[ReplicaState | None, ...]] = (None, *ReplicaState)
_PARTITION_CODE: Final = {state: code for code, state in enumerate(PartitionState, start=1)}
_REPLICA_CODE: Final = {state: code for code, state in enumerate(_REPLICA_STATES)}


def _codes_in(codes: Sequence[int], *, absent: bool = False) -> BoolArray:
    """Return a mask over codes."""
    assert max(codes, default=0) < _CODES, "a code beyond the mask"
    mask = np.zeros(_CODES, dtype=np.bool_)
    mask[codes] = True
    mask[_ABSENT] |= absent
    return mask


class PartitionStates:
    """Present states of partitions by row."""

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        self._codes = np.zeros(0, dtype=np.int8)
        self._ranks = np.zeros(0, dtype=np.int64)
        self._next = 0
        # Rows in each state: most searches are for a state without rows, and end here.
        self._counts = np.zeros(_CODES, dtype=np.int64)

    def _grow(self) -> None:
        """Make room for all rows of the table."""
        missing = len(self._table.topic) - len(self._codes)
        if missing > 0:
            missing = max(missing, len(self._codes) // 4)
            self._codes = np.pad(self._codes, (0, missing))
            self._ranks = np.pad(self._ranks, (0, missing))
        assert len(self._codes) == len(self._ranks) >= len(self._table.topic)

    def are_in(self, rows: IntArray, wanted: Collection[PartitionState]) -> BoolArray:
        """Return which rows are in one of some states; a row without a state counts as NON_EXISTENT."""
        self._grow()
        mask = _codes_in([_PARTITION_CODE[state] for state in wanted], absent=PartitionState.NON_EXISTENT in wanted)
        found: BoolArray = mask.take(self._codes.take(rows))
        return found

    def rows_in(self, *wanted: PartitionState) -> IntArray:
        """Return the rows in some states, in the order of their first states."""
        codes = [_PARTITION_CODE[state] for state in wanted]
        if not self._counts[codes].any():
            return np.empty(0, dtype=np.int32)
        rows = np.flatnonzero(_codes_in(codes).take(self._codes))
        assert len(rows) == self._counts[codes].sum()
        return rows[np.argsort(self._ranks[rows], kind="stable")].astype(np.int32)

    def put(self, rows: IntArray, state: PartitionState) -> None:
        """Set the state of rows."""
        self._grow()
        before = self._codes.take(rows)
        self._counts -= np.bincount(before, minlength=_CODES)
        self._counts[_PARTITION_CODE[state]] += len(rows)
        assert (self._counts[1:] >= 0).all(), "a row is repeated"
        new = rows[before == _ABSENT]
        self._ranks[new] = self._next + np.arange(len(new))
        self._next += len(new)
        self._codes[rows] = _PARTITION_CODE[state]

    def remove(self, row: int) -> None:
        """Remove the state of a row."""
        self._grow()
        assert row >= 0, "a partition without a row has no state"
        self._counts[self._codes[row]] -= 1
        assert (self._counts[1:] >= 0).all()
        self._codes[row] = _ABSENT

    def clear(self) -> None:
        """Remove all states."""
        self._codes[:] = _ABSENT
        self._counts[:] = 0

    def __len__(self) -> int:
        return int(np.count_nonzero(self._codes))

    def check(self) -> None:
        """Assert that the counts equal the states."""
        counts = np.bincount(self._codes, minlength=_CODES)
        assert counts[1:].tolist() == self._counts[1:].tolist()
        assert len(self._codes) == len(self._ranks)
        assert self._ranks.max(initial=-1) < self._next, "a rank is given once"


class BrokerReplicas(NamedTuple):
    """Some replicas of one broker with their states.

    Args:
        broker: the broker.
        rows: int32[k], the partitions.
        positions: intp[k], the broker's position in each assignment; the width of the table where it is not assigned.
        codes: int8[k], the states.
    """

    broker: int
    rows: IntArray
    positions: NDArray[np.intp]
    codes: NDArray[np.int8]

    def are_in(self, wanted: Collection[ReplicaState]) -> BoolArray:
        """Return which of them are in one of some states; a replica without a state counts as NON_EXISTENT."""
        mask = _codes_in([_REPLICA_CODE[state] for state in wanted], absent=ReplicaState.NON_EXISTENT in wanted)
        found: BoolArray = mask.take(self.codes)
        return found

    def where(self, mask: BoolArray) -> BrokerReplicas:
        """Return those of a mask; the same object if the mask selects all."""
        assert len(mask) == len(self.rows)
        if mask.all():
            return self
        return BrokerReplicas(self.broker, self.rows[mask], self.positions[mask], self.codes[mask])


class ReplicaStates(Mapping[PartitionAndReplica, ReplicaState]):
    """Present states of replicas, by row for batches and as a mapping by name for single replicas."""

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        self._codes: NDArray[np.int8] = np.zeros((0, table.width), dtype=np.int8)
        self._unassigned: dict[PartitionAndReplica, int] = {}

    def _grow(self) -> None:
        """Make room for all rows and the widest assignment of the table."""
        rows, width = self._codes.shape
        missing = len(self._table.topic) - rows
        if missing > 0 or width < self._table.width:
            missing = max(missing, rows // 4) if missing > 0 else 0
            self._codes = np.pad(self._codes, ((0, missing), (0, self._table.width - width)))
        assert self._codes.shape[1] == self._table.width, "positions in the table are those of the codes"

    def _positions(self, rows: IntArray, broker: int) -> NDArray[np.intp]:
        """Return the position of a broker in each assignment; the width where it is not assigned."""
        self._grow()
        replicas = self._table.replicas_at(rows)
        width = self._codes.shape[1]
        positions = np.full(len(rows), width, dtype=np.intp)
        for position in range(replicas.shape[1]):
            positions += (replicas[:, position] == broker) * np.intp(position - width)
        return positions

    def of_broker(self, broker: int, rows: IntArray) -> BrokerReplicas:
        """Return replicas of one broker with their states; valid until one of the assignments changes."""
        positions = self._positions(rows, broker)
        return BrokerReplicas(broker, rows, positions, self._at(rows, broker, positions))

    def distinct(self, rows: IntArray) -> set[ReplicaState | None]:
        """Return the distinct states of the assigned replicas of some rows, None for a replica without one."""
        self._grow()
        replicas = self._table.replicas_at(rows)
        codes = self._codes[rows][:, : replicas.shape[1]][replicas >= 0]
        return {_REPLICA_STATES[code] for code in np.unique(codes).tolist()}

    def _at(self, rows: IntArray, broker: int, positions: NDArray[np.intp]) -> NDArray[np.int8]:
        assigned = positions < self._table.width
        codes = self._codes.ravel().take(rows * np.intp(self._codes.shape[1]) + positions * assigned)
        if not assigned.all():
            for at in np.flatnonzero(~assigned).tolist():
                replica = PartitionAndReplica(TopicPartition(*self._table.name(int(rows[at]))), broker)
                codes[at] = self._unassigned.get(replica, _ABSENT)
        return codes

    def put(self, rows: IntArray, broker: int, state: ReplicaState | None) -> None:
        """Set the state of replicas of a broker; None removes it."""
        self._write(rows, broker, self._positions(rows, broker), _REPLICA_CODE[state])

    def put_found(self, found: BrokerReplicas, state: ReplicaState) -> None:
        """Set the state of replicas that `of_broker` returned."""
        self._write(found.rows, found.broker, found.positions, _REPLICA_CODE[state])

    def _write(self, rows: IntArray, broker: int, positions: NDArray[np.intp], code: int) -> None:
        assert len(rows) == len(positions)
        assert self._codes.shape[1] == self._table.width, "the positions are of another width"
        assigned = positions < self._table.width
        if assigned.all():
            self._codes.ravel()[rows * np.intp(self._codes.shape[1]) + positions] = code
            return
        self._codes[rows[assigned], positions[assigned]] = code
        for row in rows[~assigned].tolist():
            replica = PartitionAndReplica(TopicPartition(*self._table.name(row)), broker)
            self._unassigned[replica] = code
            if code == _ABSENT:
                del self._unassigned[replica]

    def put_all(self, online: BoolArray, yes: ReplicaState, no: ReplicaState) -> None:
        """Set the state of every assigned replica: to `yes` where `online`, bool[n, w], is true, otherwise to `no`."""
        assert online.shape == self._table.replicas.shape
        self._unassigned.clear()
        self._grow()
        self._codes[:] = _ABSENT
        assigned = self._table.replicas >= 0
        codes = np.where(online, np.int8(_REPLICA_CODE[yes]), np.int8(_REPLICA_CODE[no]))
        self._codes[: len(codes), : codes.shape[1]] = np.where(assigned, codes, np.int8(_ABSENT))

    def pop_row(self, row: int) -> dict[int, int]:
        """Remove the states of a row's replicas before its assignment changes, and return their codes by broker."""
        self._grow()
        codes = self._codes[row]
        found = dict(zip(self._table.replicas_of(row), codes.tolist(), strict=False))
        codes[:] = _ABSENT
        return found

    def restore_row(self, row: int, codes: dict[int, int]) -> None:
        """Set the states that `pop_row` returned, at the positions of the present assignment."""
        rows = np.array([row], dtype=np.int32)
        assert not self._codes[row].any(), "the states of a row are removed before they are restored"
        partition = TopicPartition(*self._table.name(row))
        for broker in self._table.replicas_of(row):
            code = self._unassigned.pop(PartitionAndReplica(partition, broker), _ABSENT)
            if code:
                self.put(rows, broker, _REPLICA_STATES[code])
        for broker, code in codes.items():
            if code:
                self.put(rows, broker, _REPLICA_STATES[code])

    def __getitem__(self, replica: PartitionAndReplica) -> ReplicaState:
        row = self._table.find(*replica.topic_partition)
        code = self._unassigned.get(replica, _ABSENT)
        if row is not None and code == _ABSENT:
            code = int(self.of_broker(replica.replica, np.array([row], dtype=np.int32)).codes[0])
        state = _REPLICA_STATES[code]
        if state is None:
            raise KeyError(replica)
        return state

    def __iter__(self) -> Iterator[PartitionAndReplica]:
        self._grow()
        for row, position in np.argwhere(self._codes[: len(self._table.topic)] != _ABSENT).tolist():
            partition = TopicPartition(*self._table.name(row))
            yield PartitionAndReplica(partition, int(self._table.replicas[row, position]))
        yield from self._unassigned

    def __len__(self) -> int:
        return int(np.count_nonzero(self._codes)) + len(self._unassigned)


def group_by_broker(rows: IntArray, brokers: IntArray) -> list[tuple[int, IntArray]]:
    """Group replicas by broker: brokers in the order of their first replica, rows in the order given.

    >>> [(broker, rows.tolist()) for broker, rows in group_by_broker(np.array([5, 6, 7]), np.array([2, 1, 2]))]
    [(2, [5, 7]), (1, [6])]
    """
    assert len(rows) == len(brokers)
    if len(brokers) and (brokers == brokers[0]).all():
        return [(int(brokers[0]), rows)]
    distinct, first, inverse = np.unique(brokers, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse, minlength=len(distinct)))
    groups = np.split(rows[order], ends[:-1]) if len(distinct) else []
    return [(int(distinct[group]), groups[group]) for group in np.argsort(first).tolist()]


def rows_and_brokers(replicas: Sequence[PartitionAndReplica], table: PartitionTable) -> tuple[IntArray, IntArray]:
    """Return rows and brokers of replicas, without those of unknown partitions."""
    found = [(row, r.replica) for r in replicas if (row := table.find(*r.topic_partition)) is not None]
    rows, brokers = np.array(found, dtype=np.int32).reshape(len(found), 2).T
    return rows, brokers
