"""Changes of partitions that a broker learns of or proposes: values, one by one and as columns.

Rules of this module:
  - changes of many partitions are columns, copied when they are made: later changes of the controller's table do not
    show in them;
  - one set of columns is sent to many brokers. It is converted to one object per partition on first access.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar, overload

import numpy as np

from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition, named
from simzk.partitions.arrays import pack, taken, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.partitions.table import Partitions, PartitionTable

LEADER_DURING_DELETE = -2
"""The leader, and the leader epoch, of a partition whose topic is being deleted (LeaderAndIsr.LeaderDuringDelete)."""


class PartitionUpdate(NamedTuple):
    """State and assignment of one partition in a control request."""

    partition: TopicPartition
    state: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool = False


class ReplicaStop(NamedTuple):
    """One replica to stop; `delete` deletes its log, too."""

    partition: TopicPartition
    delete: bool
    leader_epoch: int


class IsrProposal(NamedTuple):
    """ISR that a leader proposes, with the leader epoch and znode version that it knows."""

    partition: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]
    version: int
    recovering: bool = False


ItemT = TypeVar("ItemT")


class _PartitionColumns(Sequence[ItemT]):
    """One item for each of k partitions, converted from columns on first access."""

    partitions: Partitions

    @property
    @abstractmethod
    def _items(self) -> list[ItemT]: ...

    def __len__(self) -> int:
        return self.partitions.size

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self._items)

    @overload
    def __getitem__(self, place: int) -> ItemT: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ItemT]: ...
    def __getitem__(self, place: int | slice) -> ItemT | Sequence[ItemT]:
        return self._items[place]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._items})"


@dataclass(eq=False, repr=False)
class PartitionUpdates(_PartitionColumns[PartitionUpdate]):
    """Updates of k partitions.

    Args:
        partitions: the partitions.
        states: k states.
        replicas: int32[k, w], assigned replicas, padded.
        moving: assignments of partitions that are being reassigned, by place.
        is_new: bool[k], or one for all.
        source: the controller's table, and its count of assignment changes when these were copied.
    """

    partitions: Partitions
    states: States
    replicas: IntArray
    _moving: dict[int, ReplicaAssignment]
    _is_new: BoolArray | bool
    source: tuple[PartitionTable, int]

    def __post_init__(self) -> None:
        assert self.partitions.size == len(self.states.leader) == len(self.replicas)
        assert isinstance(self._is_new, bool) or len(self._is_new) == self.partitions.size

    @classmethod
    def of_table(cls, table: PartitionTable, rows: IntArray, is_new: BoolArray | bool) -> PartitionUpdates:
        """Return updates with the present state of some rows."""
        moving = {}
        under_way = table.reassigning()
        for place in np.flatnonzero(np.isin(rows, under_way)).tolist() if under_way else ():
            row = int(rows[place])
            moving[place] = ReplicaAssignment(table.replicas_of(row), *table.moves_of(row))
        replicas, states = table.replicas_and_states(rows)
        return cls(table.partitions(rows), states, replicas, moving, is_new, (table, table.assignments))

    def at(self, places: NDArray[np.integer]) -> PartitionUpdates:
        """Return some of the updates, as far as `ReplicaManager` reads them: without `moving` and `is_new`."""
        replicas = taken(self.replicas, places)
        return PartitionUpdates(self.partitions.at(places), self.states.at(places), replicas, {}, False, self.source)

    @cached_property
    def _items(self) -> list[PartitionUpdate]:
        is_new = np.broadcast_to(np.asarray(self._is_new), len(self)).tolist()
        assigned = [ReplicaAssignment(replicas) for replicas in unpack(self.replicas)]
        for place, assignment in self._moving.items():
            assigned[place] = assignment
        states = map(self.states.one, range(len(self)))
        names = (TopicPartition(*name) for name in self.partitions.names())
        return [PartitionUpdate(*update) for update in zip(names, states, assigned, is_new, strict=True)]


@dataclass(eq=False, repr=False)
class ReplicaStops(_PartitionColumns[ReplicaStop]):
    """Replicas of k partitions that a broker stops.

    Args:
        partitions: the partitions.
        delete: bool[k], whether to delete the log, too.
        leader_epoch: int32[k].
    """

    partitions: Partitions
    delete: BoolArray
    leader_epoch: IntArray

    def __post_init__(self) -> None:
        assert self.partitions.size == len(self.delete) == len(self.leader_epoch)

    @cached_property
    def _items(self) -> list[ReplicaStop]:
        columns = zip(self.partitions.names(), self.delete.tolist(), self.leader_epoch.tolist(), strict=True)
        return [ReplicaStop(TopicPartition(*name), delete, epoch) for name, delete, epoch in columns]


class Proposals(NamedTuple):
    """ISRs that leaders propose for k distinct partitions.

    Args:
        partitions: the partitions.
        leader: int32[k], the proposing broker.
        broker_epoch: int64[k], its broker epoch.
        leader_epoch: int32[k], the leader epoch that it knows.
        isr: int32[k, w], the proposed ISR, padded.
        version: int32[k], the znode version that it knows.
        recovering: bool[k].
    """

    partitions: Partitions
    leader: IntArray
    broker_epoch: NDArray[np.int64]
    leader_epoch: IntArray
    isr: IntArray
    version: IntArray
    recovering: BoolArray

    @classmethod
    def of_one(cls, broker: int, broker_epoch: int, proposals: Sequence[IsrProposal]) -> Proposals:
        """Return the proposals of one broker as columns."""
        count = len(proposals)
        assert len({proposal.partition for proposal in proposals}) == count, "a partition has one proposed ISR"
        numbers = np.array([(p.leader_epoch, p.version) for p in proposals], dtype=np.int32).reshape(count, 2)
        return cls(
            named([proposal.partition for proposal in proposals]),
            np.full(count, broker, dtype=np.int32),
            np.full(count, broker_epoch, dtype=np.int64),
            numbers[:, 0],
            pack([proposal.isr for proposal in proposals]),
            numbers[:, 1],
            np.array([proposal.recovering for proposal in proposals], dtype=np.bool_),
        )

    def at(self, places: NDArray[np.integer]) -> Proposals:
        """Return some of the proposals."""
        return Proposals(
            self.partitions.at(places),
            self.leader[places],
            self.broker_epoch[places],
            self.leader_epoch[places],
            taken(self.isr, places),
            self.version[places],
            self.recovering[places],
        )
