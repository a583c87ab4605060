"""What the controller tells brokers of many partitions, as columns; read one by one it is what a request lists.

Rules of the module:
  - the columns are of the moment in which they were made: nothing that happens later to the controller's table shows;
  - one set of columns goes to many brokers, and is made into single updates once, when somebody first reads them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, overload

import numpy as np

from simzk.kafka.protocol import PartitionUpdate, ReplicaStop
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.partitions.arrays import taken, unpack
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.names import Partitions
    from simzk.partitions.states import States
    from simzk.partitions.table import PartitionTable

ItemT = TypeVar("ItemT")


class _InColumns(Sequence[ItemT]):
    """Something of each of k partitions, made of columns when somebody first reads it."""

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


class PartitionUpdates(_InColumns[PartitionUpdate]):
    """Updates of k partitions.

    Args:
        partitions: which.
        states: k states.
        replicas: int32[k, w], who is assigned, padded.
        moving: by place, the assignments of those that are being reassigned.
        is_new: bool[k], or one for all.
        source: the table that says who is assigned, and how often that had been changed.
    """

    def __init__(
        self,
        partitions: Partitions,
        states: States,
        replicas: IntArray,
        moving: dict[int, ReplicaAssignment],
        is_new: BoolArray | bool,
        source: tuple[PartitionTable, int],
    ) -> None:
        self.source = source
        self.partitions = partitions
        self.states = states
        self.replicas = replicas
        self._moving = moving
        self._is_new = is_new

    @classmethod
    def of_table(cls, table: PartitionTable, rows: IntArray, is_new: BoolArray | bool) -> PartitionUpdates:
        """Of some rows of a table, as they are now."""
        moving = {}
        under_way = table.reassigning()
        for place in np.flatnonzero(np.isin(rows, under_way)).tolist() if under_way else ():
            row = int(rows[place])
            moving[place] = ReplicaAssignment(table.replicas_of(row), table.adding_of(row), table.removing_of(row))
        replicas, states = table.replicas_and_states(rows)
        return cls(table.partitions(rows), states, replicas, moving, is_new, (table, table.assignments))

    def at(self, places: NDArray[np.integer]) -> PartitionUpdates:
        """Some of them, as far as light replicas ask: who moves, and who is new, is left out."""
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


class ReplicaStops(_InColumns[ReplicaStop]):
    """Replicas of k partitions that a broker is to stop.

    Args:
        partitions: which.
        delete: bool[k], whether the log goes too.
        leader_epoch: int32[k].
    """

    def __init__(self, partitions: Partitions, delete: BoolArray, leader_epoch: IntArray) -> None:
        self.partitions = partitions
        self.delete = delete
        self.leader_epoch = leader_epoch

    @cached_property
    def _items(self) -> list[ReplicaStop]:
        columns = zip(self.partitions.names(), self.delete.tolist(), self.leader_epoch.tolist(), strict=True)
        return [ReplicaStop(TopicPartition(*name), delete, epoch) for name, delete, epoch in columns]


class Orders(NamedTuple):
    """What a controller tells many brokers at once.

    Args:
        controller_id: who sends.
        controller_epoch: its epoch.
        brokers: whom it is meant for, int32[b].
        broker_epochs: their lives that are meant, int64[b].
        live_brokers: who lives, with racks.
        parts: updates of k distinct partitions each, and which of their assigned replicas are told to lead or follow,
            bool[k, w]; one after the other.
        stops: by broker, replicas to stop.
    """

    controller_id: int
    controller_epoch: int
    brokers: IntArray
    broker_epochs: NDArray[np.int64]
    live_brokers: Mapping[int, str | None]
    parts: Sequence[tuple[PartitionUpdates, BoolArray]]
    stops: Mapping[int, ReplicaStops]
