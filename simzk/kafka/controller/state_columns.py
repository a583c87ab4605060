"""What the controller knows of partitions and replicas, as columns beside its table: the states of both state machines.

Rules of the module:
  - a partition's state stands by its row, a replica's by row and place in the assignment; a replica that is not
    assigned (any more, or not yet) is kept by name;
  - partitions are remembered in the order in which they got their first state: Kafka's maps of few entries keep it;
  - both are mappings by name too, for what concerns a few.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from simzk.kafka.controller.states import PartitionState, ReplicaState
from simzk.kafka.topic_partition import PartitionAndReplica, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.table import PartitionTable

_ABSENT: Final = 0
_CODES: Final = 8
_PARTITION_STATES: Final[tuple[PartitionState | None, ...]] = (None, *PartitionState)
_REPLICA_STATES: Final[tuple[ReplicaState | None, ...]] = (None, *ReplicaState)
_PARTITION_CODE: Final = {state: code for code, state in enumerate(_PARTITION_STATES)}
_REPLICA_CODE: Final = {state: code for code, state in enumerate(_REPLICA_STATES)}


def _codes_in(wanted: Collection[int]) -> BoolArray:
    """Which codes are wanted, by code."""
    mask = np.zeros(_CODES, dtype=np.bool_)
    mask[list(wanted)] = True
    return mask


class PartitionStates(MutableMapping[TopicPartition, PartitionState]):
    """The states of partitions.

    Args:
        table: whose rows they are.
    """

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        self._codes = np.zeros(0, dtype=np.int8)
        self._turns = np.zeros(0, dtype=np.int64)
        self._next = 0
        # How many rows there are in each state, so that a state that no row is in is not looked for.
        self._counts = np.zeros(_CODES, dtype=np.int64)

    def _reach(self) -> None:
        missing = len(self._table.topic) - len(self._codes)
        if missing > 0:
            missing = max(missing, len(self._codes) // 4)
            self._codes = np.pad(self._codes, (0, missing))
            self._turns = np.pad(self._turns, (0, missing))

    def are_in(self, rows: IntArray, wanted: Collection[PartitionState]) -> BoolArray:
        """Which of the rows are in one of some states; one without a state is non-existent."""
        self._reach()
        codes = {_PARTITION_CODE[state] for state in wanted}
        if PartitionState.NON_EXISTENT in wanted:
            codes.add(_ABSENT)
        found: BoolArray = _codes_in(codes).take(self._codes.take(rows))
        return found

    def rows_in(self, *wanted: PartitionState) -> IntArray:
        """The rows in some states, in the order of their first states."""
        codes = [_PARTITION_CODE[state] for state in wanted]
        if not self._counts[codes].any():
            return np.empty(0, dtype=np.int32)
        rows = np.flatnonzero(_codes_in(codes).take(self._codes))
        return rows[np.argsort(self._turns[rows], kind="stable")].astype(np.int32)

    def put(self, rows: IntArray, state: PartitionState) -> None:
        """Give rows a state."""
        self._reach()
        before = self._codes.take(rows)
        self._counts -= np.bincount(before, minlength=_CODES)
        self._counts[_PARTITION_CODE[state]] += len(rows)
        new = rows[before == _ABSENT]
        self._turns[new] = self._next + np.arange(len(new))
        self._next += len(new)
        self._codes[rows] = _PARTITION_CODE[state]

    def forget(self, row: int) -> None:
        """A row has no state any more."""
        self._reach()
        self._counts[self._codes[row]] -= 1
        self._codes[row] = _ABSENT

    def clear(self) -> None:
        """No row has one."""
        self._codes[:] = _ABSENT
        self._counts[:] = 0

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        row = self._table.find(*partition)
        self._reach()
        state: PartitionState | None = None if row is None else _PARTITION_STATES[int(self._codes[row])]
        if state is None:
            raise KeyError(partition)
        return state

    def __setitem__(self, partition: TopicPartition, state: PartitionState) -> None:
        self.put(np.array([self._table.row(*partition)], dtype=np.int32), state)

    def __delitem__(self, partition: TopicPartition) -> None:
        self.forget(self._table.row(*partition))

    def __iter__(self) -> Iterator[TopicPartition]:
        return (TopicPartition(*self._table.name(row)) for row in self.rows_in(*PartitionState).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._codes))

    def check(self) -> None:
        """Assert that the counts agree with the states."""
        counts = np.bincount(self._codes, minlength=_CODES)
        assert counts[1:].tolist() == self._counts[1:].tolist()


class ReplicasOn(NamedTuple):
    """Some replicas of one broker, looked up once.

    Args:
        broker: whose.
        rows: int32[k], of which partitions.
        places: intp[k], in each assignment; its width where the broker is not assigned.
        codes: int8[k], their states.
    """

    broker: int
    rows: IntArray
    places: NDArray[np.intp]
    codes: NDArray[np.int8]

    def are_in(self, wanted: Collection[ReplicaState]) -> BoolArray:
        """Which of them are in one of some states; one without a state is non-existent."""
        codes = {_REPLICA_CODE[state] for state in wanted}
        if ReplicaState.NON_EXISTENT in wanted:
            codes.add(_ABSENT)
        found: BoolArray = _codes_in(codes).take(self.codes)
        return found

    def where(self, mask: BoolArray) -> ReplicasOn:
        """Those of a mask: these very ones where they are all."""
        if mask.all():
            return self
        return ReplicasOn(self.broker, self.rows[mask], self.places[mask], self.codes[mask])


class ReplicaStates(MutableMapping[PartitionAndReplica, ReplicaState]):
    """The states of replicas.

    Args:
        table: whose rows and assignments they are.
    """

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        self._codes: NDArray[np.int8] = np.zeros((0, table.width), dtype=np.int8)
        self._unassigned: dict[PartitionAndReplica, int] = {}

    def _reach(self) -> None:
        rows, width = self._codes.shape
        missing = len(self._table.topic) - rows
        if missing > 0 or width < self._table.width:
            missing = max(missing, rows // 4) if missing > 0 else 0
            self._codes = np.pad(self._codes, ((0, missing), (0, self._table.width - width)))

    def _places(self, rows: IntArray, broker: int) -> NDArray[np.intp]:
        """The place of a broker in each assignment; the width where it is not assigned."""
        self._reach()
        replicas = self._table.replicas_at(rows)
        width = self._codes.shape[1]
        places = np.full(len(rows), width, dtype=np.intp)
        for place in range(replicas.shape[1]):
            places += (replicas[:, place] == broker) * np.intp(place - width)
        return places

    def on(self, broker: int, rows: IntArray) -> ReplicasOn:
        """Replicas of one broker and their states, as long as no assignment of theirs is another."""
        places = self._places(rows, broker)
        return ReplicasOn(broker, rows, places, self._at(rows, broker, places))

    def among(self, rows: IntArray) -> set[ReplicaState | None]:
        """The states that some assigned replica of these rows is in, None for one that has none."""
        self._reach()
        replicas = self._table.replicas_at(rows)
        codes = self._codes[rows][:, : replicas.shape[1]][replicas >= 0]
        return {_REPLICA_STATES[code] for code in np.unique(codes).tolist()}

    def _at(self, rows: IntArray, broker: int, places: NDArray[np.intp]) -> NDArray[np.int8]:
        assigned = places < self._table.width
        codes = self._codes.ravel().take(rows * np.intp(self._codes.shape[1]) + places * assigned)
        if not assigned.all():
            for at in np.flatnonzero(~assigned).tolist():
                replica = PartitionAndReplica(TopicPartition(*self._table.name(int(rows[at]))), broker)
                codes[at] = self._unassigned.get(replica, _ABSENT)
        return codes

    def put(self, rows: IntArray, broker: int, state: ReplicaState) -> None:
        """Give replicas of a broker a state."""
        self._put(rows, broker, _REPLICA_CODE[state])

    def put_on(self, held: ReplicasOn, state: ReplicaState) -> None:
        """Give replicas that were looked up a state."""
        self._write(held.rows, held.broker, held.places, _REPLICA_CODE[state])

    def _put(self, rows: IntArray, broker: int, code: int) -> None:
        self._write(rows, broker, self._places(rows, broker), code)

    def _write(self, rows: IntArray, broker: int, places: NDArray[np.intp], code: int) -> None:
        assigned = places < self._table.width
        if assigned.all():
            self._codes.ravel()[rows * np.intp(self._codes.shape[1]) + places] = code
            return
        self._codes[rows[assigned], places[assigned]] = code
        for row in rows[~assigned].tolist():
            replica = PartitionAndReplica(TopicPartition(*self._table.name(row)), broker)
            self._unassigned[replica] = code
            if code == _ABSENT:
                del self._unassigned[replica]

    def put_all(self, online: BoolArray, yes: ReplicaState, no: ReplicaState) -> None:
        """Give every assigned replica one of two states.

        Args:
            online: bool[n, w], by row and place.
            yes: where `online` is set.
            no: where it is not.
        """
        self._unassigned.clear()
        self._reach()
        self._codes[:] = _ABSENT
        held = self._table.replicas >= 0
        codes = np.where(online, np.int8(_REPLICA_CODE[yes]), np.int8(_REPLICA_CODE[no]))
        self._codes[: len(codes), : codes.shape[1]] = np.where(held, codes, np.int8(_ABSENT))

    def taken_of(self, row: int) -> dict[int, int]:
        """The codes of a row's replicas by broker, which have none from here on: its assignment is about to change."""
        self._reach()
        codes = self._codes[row]
        found = dict(zip(self._table.replicas_of(row), codes.tolist(), strict=False))
        codes[:] = _ABSENT
        return found

    def put_back(self, row: int, codes: dict[int, int]) -> None:
        """What was taken, under the assignment of now."""
        rows = np.array([row], dtype=np.int32)
        partition = TopicPartition(*self._table.name(row))
        for broker in self._table.replicas_of(row):
            code = self._unassigned.pop(PartitionAndReplica(partition, broker), _ABSENT)
            if code:
                self._put(rows, broker, code)
        for broker, code in codes.items():
            if code:
                self._put(rows, broker, code)

    def __getitem__(self, replica: PartitionAndReplica) -> ReplicaState:
        row = self._table.find(*replica.topic_partition)
        code = self._unassigned.get(replica, _ABSENT)
        if row is not None and code == _ABSENT:
            code = int(self.on(replica.replica, np.array([row], dtype=np.int32)).codes[0])
        state = _REPLICA_STATES[code]
        if state is None:
            raise KeyError(replica)
        return state

    def __setitem__(self, replica: PartitionAndReplica, state: ReplicaState) -> None:
        self.put(self._row_of(replica), replica.replica, state)

    def __delitem__(self, replica: PartitionAndReplica) -> None:
        self._put(self._row_of(replica), replica.replica, _ABSENT)

    def _row_of(self, replica: PartitionAndReplica) -> IntArray:
        return np.array([self._table.row(*replica.topic_partition)], dtype=np.int32)

    def __iter__(self) -> Iterator[PartitionAndReplica]:
        self._reach()
        for row, place in np.argwhere(self._codes[: len(self._table.topic)] != _ABSENT).tolist():
            partition = TopicPartition(*self._table.name(row))
            yield PartitionAndReplica(partition, int(self._table.replicas[row, place]))
        yield from self._unassigned

    def __len__(self) -> int:
        return int(np.count_nonzero(self._codes)) + len(self._unassigned)


def grouped(rows: IntArray, brokers: IntArray) -> list[tuple[int, IntArray]]:
    """Replicas by broker: the brokers in the order of their first replica, the rows of each in the order given."""
    if len(brokers) and (brokers == brokers[0]).all():
        return [(int(brokers[0]), rows)]
    distinct, first, inverse = np.unique(brokers, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse, minlength=len(distinct)))
    groups = np.split(rows[order], ends[:-1]) if len(distinct) else []
    return [(int(distinct[place]), groups[place]) for place in np.argsort(first).tolist()]


def replicas_of(pairs: Sequence[PartitionAndReplica], table: PartitionTable) -> tuple[IntArray, IntArray]:
    """Rows and brokers of replicas, those of unknown partitions left out."""
    known = [(row, r.replica) for r in pairs if (row := table.find(*r.topic_partition)) is not None]
    rows, brokers = np.array(known, dtype=np.int32).reshape(len(known), 2).T
    return rows, brokers
