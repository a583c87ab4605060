"""Epochs and leaders that all brokers and their replicas have accepted: one table for a cluster of any size.

Rules of this module (KafkaApis.isBrokerEpochStale, ReplicaManager.becomeLeaderOrFollower and stopReplicas, Partition;
docs/reference/kafka.md §2.7):
  - a control request names the broker epoch of its target; one for an earlier epoch of the broker is stale (KIP-380).
    A controller before 2.2 names none, and its requests are never stale;
  - a broker accepts control requests only of the highest controller epoch that it has seen since its process started;
  - a replica accepts a LeaderAndIsr only with a higher leader epoch than it has;
  - a StopReplica with a lower leader epoch than the replica has is fenced, from 2.6 to 3.4.0 also one with the same; a
    negative one is never fenced;
  - a stopped replica has no leader. It keeps its leader epoch, which fences late requests, unless its log is deleted;
  - a replica loses both when the process of its broker ends;
  - a replica belongs to its broker: it survives a reassignment until it is stopped.

Whether a replica has a log is no concern of this module, nor of `isr_changes`: `replica_logs` has replicas with logs,
`empty_replicas` those without records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import UNKNOWN_BROKER_EPOCH
from simzk.partitions.arrays import NONE, any_of, taken, unpack, widen
from simzk.partitions.table import PartitionTable, columns_at, packed_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from simzk.kafka.metadata.changes import PartitionUpdates, ReplicaStops
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States

NO_EPOCH = np.iinfo(np.int64).min
"""The broker epoch of an id that no broker has."""
_NO_LEADER = NONE, NONE


class BrokerEpochs:
    """Liveness, broker epoch and last accepted controller epoch of each broker, by id.

    The last element of each array stands for ids that no broker has.

    Attributes:
        alive: whether the process of each broker runs, as a mask over ids.
        starting: ids of live brokers that handle no requests yet.
        on_controller_epoch: called when brokers have accepted a controller epoch, or forgotten it.

    >>> epochs = BrokerEpochs([1, 2])
    >>> epochs.set(1, alive=True, epoch=40)
    >>> epochs.fence(1, broker_epoch=40, controller_epoch=3), epochs.fence(1, broker_epoch=40, controller_epoch=2)
    (<ErrorCode.NONE: 0>, <ErrorCode.STALE_CONTROLLER_EPOCH: 11>)
    """

    def __init__(self, brokers: Iterable[int]) -> None:
        size = max(brokers, default=-1) + 2
        self.alive: BoolArray = np.zeros(size, dtype=np.bool_)
        self.starting: set[int] = set()
        self.on_controller_epoch: list[Callable[[], None]] = []
        self._epoch: NDArray[np.int64] = np.full(size, NO_EPOCH, dtype=np.int64)
        self._controller_epoch: NDArray[np.int64] = np.zeros(size, dtype=np.int64)

    def set(self, broker: int, *, alive: bool, epoch: int) -> None:
        """Set the liveness and epoch of a broker; a dead one forgets the controller epoch."""
        assert self.has_place_for(broker), f"broker {broker} does not exist"
        self.alive[broker] = alive
        self._epoch[broker] = epoch
        if not alive:
            self._controller_epoch[broker] = 0
            self.starting.discard(broker)
            self._note_controller_epoch()

    def has_place_for(self, broker: int) -> bool:
        """Return whether an id is not beyond those of the brokers."""
        return 0 <= broker < len(self.alive) - 1

    def of(self, brokers: IntArray) -> NDArray[np.int64]:
        """Return the broker epochs, int64[k]; `NO_EPOCH` for an id that no broker has."""
        known = (brokers >= 0) & (brokers < len(self._epoch))
        return self._epoch.take(np.where(known, brokers, len(self._epoch) - 1))

    @property
    def controller_epoch(self) -> int:
        """The highest controller epoch that a live broker has accepted."""
        return int(self._controller_epoch.max())

    def controller_epochs(self) -> NDArray[np.int64]:
        """Return a copy of the highest controller epochs that brokers have accepted, by id; 0 for none."""
        return self._controller_epoch.copy()

    def fence_all(
        self, brokers: IntArray, broker_epochs: NDArray[np.int64], controller_epoch: int
    ) -> NDArray[np.int16]:
        """Check control requests to live brokers, and record the controller epoch at those that accept.

        Args:
            brokers: int32[k], distinct targets.
            broker_epochs: int64[k], the epochs that the requests name.
            controller_epoch: the epoch of the sender.

        Returns:
            An error code of each, int16[k]; 0 where the request is accepted.
        """
        assert len(brokers) == len(broker_epochs)
        assert self.alive.take(brokers, mode="clip").all(), "a dead broker handles no request"
        codes = np.zeros(len(brokers), dtype=np.int16)
        codes[controller_epoch < self._controller_epoch.take(brokers, mode="clip")] = ErrorCode.STALE_CONTROLLER_EPOCH
        is_older = broker_epochs < self._epoch.take(brokers, mode="clip")
        codes[is_older & (broker_epochs != UNKNOWN_BROKER_EPOCH)] = ErrorCode.STALE_BROKER_EPOCH
        self._controller_epoch[brokers[codes == 0]] = controller_epoch
        self._note_controller_epoch()
        return codes

    def _note_controller_epoch(self) -> None:
        for observer in self.on_controller_epoch:
            observer()

    def fence(self, broker: int, broker_epoch: int, controller_epoch: int) -> ErrorCode:
        """Check one control request as `fence_all` does."""
        epochs = np.array([broker_epoch], dtype=np.int64)
        return ErrorCode(self.fence_all(np.array([broker], dtype=np.int32), epochs, controller_epoch)[0])

    def accepting(self, brokers: IntArray, broker_epochs: NDArray[np.int64], controller_epoch: int) -> BoolArray:
        """Return the brokers that live and accept a batch of control requests, as a mask over ids; see `fence_all`."""
        live = np.flatnonzero(self.alive.take(brokers, mode="clip"))
        brokers, broker_epochs = brokers[live], broker_epochs[live]
        accepted = self.fence_all(brokers, broker_epochs, controller_epoch) == 0
        mask = np.zeros_like(self.alive)
        mask[brokers[accepted]] = True
        return mask

    def check(self) -> None:
        """Assert that ids without a broker are not alive."""
        assert not self.alive[-1], "an id without a broker is alive"
        assert not self._controller_epoch[~self.alive].any(), "a dead broker has accepted a controller epoch"
        starting = sorted(self.starting)
        assert self.alive[starting].all(), "a dead broker is starting"
        assert not self._controller_epoch[starting].any(), "a starting broker has accepted a controller epoch"


def is_newer(leader_epoch: IntArray, accepted: IntArray) -> BoolArray:
    """Return whether a LeaderAndIsr is accepted, given the leader epoch that the replica has accepted before."""
    newer: BoolArray = leader_epoch > accepted
    return newer


StopEpochs: TypeAlias = Literal["ignored", "higher", "not lower"]
"""Leader epochs at which a StopReplica is accepted (`BrokerRules.stop_epochs`)."""


def is_fenced(leader_epoch: IntArray, accepted: IntArray, allowed: StopEpochs = "not lower") -> BoolArray:
    """Return whether a StopReplica is fenced, given the leader epoch that the replica has accepted before."""
    fenced: BoolArray = leader_epoch < accepted if allowed != "higher" else leader_epoch <= accepted
    return fenced & (leader_epoch >= 0) & (allowed != "ignored")


class AcceptedLeaders(NamedTuple):
    """Leader epochs and leaders of k rows, int32[k, w] by place in the assignment, and pending ISR changes, int32[k].

    `pending` is 1 while the leader waits for the answer to an ISR that it proposed.
    """

    epoch: IntArray
    leader: IntArray
    pending: IntArray

    def at(self, places: NDArray[np.integer]) -> AcceptedLeaders:
        """Return a copy of some of the rows."""
        return AcceptedLeaders(taken(self.epoch, places), taken(self.leader, places), taken(self.pending, places))

    def by(self, brokers: IntArray, replicas: IntArray) -> tuple[IntArray, IntArray]:
        """Return what one replica of each row has accepted; -1 where the broker has no replica.

        Args:
            brokers: int32[k], the broker of the replica.
            replicas: int32[k, w], the assignments.

        Returns:
            Leader and leader epoch, int32[k] each.
        """
        assert len(brokers) == len(replicas) == len(self.leader)
        leader, epoch = (np.full(len(brokers), NONE, dtype=np.int32) for _ in range(2))
        for place in range(replicas.shape[1]):
            mine = replicas[:, place] == brokers
            np.copyto(leader, self.leader[:, place], where=mine)
            np.copyto(epoch, self.epoch[:, place], where=mine)
        return leader, epoch


class LeaderRecords:
    """Storage of `AcceptedLeaders` by row.

    The numbers of one row are adjacent in memory, as in `partitions.row_records`: brokers touch scattered rows. With a
    word of padding a row takes 32 bytes at three replicas, and is copied whole.

    Args:
        width: replicas of the longest assignment.
    """

    def __init__(self, width: int) -> None:
        self._records = _no_records(0, width)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def width(self) -> int:
        """Replicas of the longest assignment that fits."""
        return (int(self._records.shape[1]) - 2) // 2

    @property
    def leader(self) -> IntArray:
        """int32[n, w], a view."""
        return _columns(self._records).leader

    def at(self, rows: NDArray[np.integer]) -> AcceptedLeaders:
        """Return a copy of some rows."""
        return _columns(columns_at(self._records, rows).T)

    def put(self, rows: NDArray[np.integer], leaders: AcceptedLeaders) -> None:
        """Overwrite some rows."""
        assert len(rows) == len(leaders.epoch)
        assert leaders.epoch.shape == leaders.leader.shape == (len(rows), self.width)
        records = np.empty((len(rows), self._records.shape[1]), dtype=np.int32)
        records[:, -1] = 0
        for column, values in zip(_columns(records), leaders, strict=True):
            column[:] = values
        packed_of(self._records).put(rows, packed_of(records))

    def set_pending(self, rows: NDArray[np.integer], pending: bool) -> None:
        """Set or clear the pending flag of some rows."""
        _columns(self._records).pending[rows] = pending

    def grow(self, rows: int, width: int) -> None:
        """Make room for more rows or longer assignments."""
        before = _columns(self._records)
        if rows > len(self) or width > self.width:
            self._records = _no_records(max(rows, len(self)), max(width, self.width))
            for column, values in zip(_columns(self._records), before, strict=True):
                column[tuple(map(slice, values.shape))] = values
        assert rows <= len(self)
        assert width <= self.width


def _no_records(rows: int, width: int) -> IntArray:
    records = np.full((rows, 2 * width + 2), NONE, dtype=np.int32)
    records[:, 2 * width :] = 0
    return records


def _columns(records: IntArray) -> AcceptedLeaders:
    width = (records.shape[1] - 2) // 2
    return AcceptedLeaders(records[:, :width], records[:, width : 2 * width], records[:, 2 * width])


class NewLeaders(NamedTuple):
    """Replicas that accepted a LeaderAndIsr.

    Args:
        places: int[k], places in the request.
        rows: int32[k], rows of the table.
        replicas: int32[k, w], the assignments.
        accepted: bool[k, w], by place in the assignment, which replicas accepted.
        states: k states.
    """

    places: NDArray[np.intp]
    rows: IntArray
    replicas: IntArray
    accepted: BoolArray
    states: States


class ReplicaManager:
    """All replicas of all brokers of a cluster.

    Args:
        epochs: liveness and epochs of the brokers.

    Attributes:
        table: the assignments that brokers were sent last. Its states are used by replicas without logs only.
        leaders: the leaders and leader epochs that replicas have accepted.
        on_accepted: called with the replicas that accepted a LeaderAndIsr.
        on_forgotten: called with a broker whose process ended, and the rows where logs were deleted, None for all.
    """

    def __init__(self, epochs: BrokerEpochs) -> None:
        self.epochs = epochs
        self.table = PartitionTable()
        self.on_accepted: list[Callable[[NewLeaders], None]] = []
        self.on_forgotten: list[Callable[[int, IntArray | None], None]] = []
        self.leaders = LeaderRecords(self.table.width)
        # Replicas that are not in the assignment (any more): by broker and row, leader epoch and leader.
        self._unassigned: dict[int, dict[int, tuple[int, int]]] = {}
        # The controller's table with the same assignments in all rows, and the change counts of both at that time.
        # Comparing a million assignments with every request would cost more than all else that a broker's death does.
        self._agreed: tuple[tuple[PartitionTable, int], int] | None = None

    def forget(self, broker: int) -> None:
        """Clear what the replicas of a broker have accepted: its process has ended."""
        assert not self.epochs.alive[broker], f"the process of broker {broker} has not ended"
        rows = self.table.rows_with_replica(broker)
        leaders, mine = self.leaders.at(rows), self.table.replicas_at(rows) == broker
        for column in (leaders.epoch, leaders.leader):
            np.copyto(column, np.int32(NONE), where=mine)
        self.leaders.put(rows, leaders)
        self._unassigned.pop(broker, None)
        for observer in self.on_forgotten:
            observer(broker, None)

    # -- LeaderAndIsr

    def accept(self, updates: PartitionUpdates, named: BoolArray) -> NewLeaders | None:
        """Accept updates at the replicas that have a lower leader epoch.

        Args:
            updates: updates of k distinct partitions.
            named: bool[k, w], by place in the assignment, which replicas the request is for.

        Returns:
            The replicas that accepted; None where none did.
        """
        assert named.shape == updates.replicas.shape, "a mark for each assigned replica"
        places = np.flatnonzero(any_of(named))
        if not len(places):
            return None
        if len(places) < len(named):
            updates, named = updates.at(places), taken(named, places)
        rows, replicas = self._rows_of(updates)
        states, leaders = updates.states, self.leaders.at(rows)
        accepted = _resized(named, replicas.shape[1]) & is_newer(states.leader_epoch[:, None], leaders.epoch)
        changed = np.flatnonzero(any_of(accepted))
        if len(changed) < len(rows):
            rows, replicas, accepted = rows[changed], taken(replicas, changed), taken(accepted, changed)
            states, leaders, places = states.at(changed), leaders.at(changed), places[changed]
        if not len(rows):
            return None
        np.copyto(leaders.epoch, states.leader_epoch[:, None], where=accepted)
        np.copyto(leaders.leader, states.leader[:, None], where=accepted)
        leaders.pending[any_of(accepted & (replicas == states.leader[:, None]))] = False
        self.leaders.put(rows, leaders)
        assert len(places) == len(rows) == len(replicas) == len(accepted)
        new = NewLeaders(places, rows, replicas, accepted, states)
        for observer in self.on_accepted:
            observer(new)
        return new

    def accept_on(self, broker: int, updates: PartitionUpdates, allowed: BoolArray) -> BoolArray:
        """Accept updates at the replicas of one broker.

        Args:
            broker: the broker.
            updates: updates of k distinct partitions.
            allowed: bool[k], where the broker has, or may have, a replica.

        Returns:
            Whether the replica accepted, bool[k].
        """
        assert len(allowed) == len(updates)
        mine = updates.replicas == broker
        result = np.zeros(len(updates), dtype=np.bool_)
        changed = self.accept(updates, mine & allowed[:, None])
        if changed is not None:
            result[changed.places] = True
        # Up to 2.3 a reassignment sends the old replicas, too, the leader of an assignment without them.
        for place in np.flatnonzero(allowed & ~any_of(mine)).tolist():
            one = updates.at(np.array([place]))
            result[place] = self._accept_unassigned(broker, int(self._rows_of(one)[0][0]), one.states)
        return result

    def _accept_unassigned(self, broker: int, row: int, states: States) -> bool:
        assert broker not in self.table.replicas_of(row), f"broker {broker} is assigned"
        unassigned = self._unassigned.setdefault(broker, {})
        accepted, _ = unassigned.get(row, _NO_LEADER)
        newer = bool(is_newer(states.leader_epoch, np.array([accepted]))[0])
        if newer:
            unassigned[row] = int(states.leader_epoch[0]), int(states.leader[0])
        return newer

    def _rows_of(self, updates: PartitionUpdates) -> tuple[IntArray, IntArray]:
        """Return rows and assignments of partitions; add new ones and take over assignments that changed."""
        rows = self.table.find_all(updates.partitions)
        new = np.flatnonzero(rows == NONE)
        if len(new):
            names = updates.partitions.at(new)
            numbers, topic = np.unique(names.topic, return_inverse=True)
            topics = [names.topics[number] for number in numbers.tolist()]
            rows[new] = self.table.extend(topics, topic.astype(np.int32), names.partition, updates.replicas[new])
        assert (rows >= 0).all(), "each partition of a request has a row"
        self.leaders.grow(len(self.table.topic), self.table.width)
        assigned = widen(updates.replicas, self.table.width)  # wider if one has more replicas than any had here
        if self._agreed == (updates.source, self.table.assignments):
            return rows, assigned[:, : self.table.width]
        moved = np.flatnonzero(any_of(widen(self.table.replicas_at(rows), assigned.shape[1]) != assigned))
        for place, replicas in zip(moved.tolist(), unpack(updates.replicas[moved]), strict=True):
            self._reassign(int(rows[place]), replicas)
        if len(rows) == len(self.table):
            self._agreed = updates.source, self.table.assignments
        return rows, self.table.replicas_at(rows) if len(moved) else assigned[:, : self.table.width]

    def _reassign(self, row: int, replicas: tuple[int, ...]) -> None:
        """Change an assignment; every replica keeps what it has accepted."""
        rows = np.array([row], dtype=np.int32)
        before, leaders = self.table.replicas_of(row), self.leaders.at(rows)
        for place, broker in enumerate(before):
            if leaders.epoch[0, place] != NONE:
                kept = int(leaders.epoch[0, place]), int(leaders.leader[0, place])
                self._unassigned.setdefault(broker, {})[row] = kept
        self.table.set_assignment(row, replicas)
        self.leaders.grow(len(self.table.topic), self.table.width)
        leaders = self.leaders.at(rows)
        leaders.epoch[:] = leaders.leader[:] = NONE
        for place, broker in enumerate(replicas):
            kept = self._unassigned.get(broker, {}).pop(row, _NO_LEADER)
            leaders.epoch[0, place], leaders.leader[0, place] = kept
        self.leaders.put(rows, leaders)
        assert all(row not in self._unassigned.get(broker, {}) for broker in replicas), f"two epochs at row {row}"

    # -- StopReplica

    def stop(self, broker: int, stops: ReplicaStops, allowed: StopEpochs = "not lower") -> BoolArray:
        """Stop replicas of one broker.

        Args:
            broker: the broker.
            stops: the replicas to stop.
            allowed: the leader epochs at which its release stops a replica.

        Returns:
            Whether the request is fenced by the leader epoch, bool[k].
        """
        assert len(stops.delete) == len(stops.leader_epoch) == len(stops)
        fenced = np.zeros(len(stops), dtype=np.bool_)
        rows = self.table.find_all(stops.partitions)
        known = np.flatnonzero(rows != NONE)
        rows, epochs, delete = rows[known], stops.leader_epoch[known], stops.delete[known]
        leaders = self.leaders.at(rows)
        mine = self.table.replicas_at(rows) == broker
        late = mine & is_fenced(epochs[:, None], leaders.epoch, allowed)
        fenced[known] = any_of(late)
        mine &= ~late
        deleted = mine & delete[:, None]
        if (mine & (leaders.leader != NONE)).any() or deleted.any():  # else all have stopped before
            np.copyto(leaders.leader, np.int32(NONE), where=mine)
            np.copyto(leaders.epoch, np.int32(NONE), where=deleted)
            self.leaders.put(rows, leaders)
        if unassigned := self._unassigned.get(broker):
            outside = np.flatnonzero(np.isin(rows, list(unassigned)))
            for place, row in zip(known[outside].tolist(), rows[outside].tolist(), strict=True):
                accepted, _ = unassigned[row]
                fenced[place] = is_fenced(stops.leader_epoch[[place]], np.array([accepted]), allowed)[0]
                if not fenced[place]:
                    unassigned[row] = accepted, NONE
                    if stops.delete[place]:
                        del unassigned[row]
        for observer in self.on_forgotten:
            observer(broker, rows[delete & ~fenced[known]])
        return fenced

    def check(self) -> None:
        """Assert every invariant."""
        self.table.check()
        self.epochs.check()
        leader = self.leaders.leader[: len(self.table.topic)]
        assert (leader[self.table.replicas[: len(leader)] == NONE] == NONE).all(), "a leader where there is no replica"
        for broker, rows in self._unassigned.items():
            assert all(broker not in self.table.replicas_of(row) for row in rows), f"broker {broker} is assigned"


def _resized(mask: BoolArray, width: int) -> BoolArray:
    missing = width - mask.shape[1]
    return mask[:, :width] if missing <= 0 else np.pad(mask, ((0, 0), (0, missing)))
