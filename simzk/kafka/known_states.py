"""Partitions as somebody who follows a server's transactions knows them: by name, and else as columns have them.

Rules of the module:
  - a transaction is told when it is done: what it changes in columns is noted by name right before, once;
  - what was told one by one stands by name;
  - what was told as a batch, or never, is what the columns show: a batch takes the names of its rows away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka.schemas.topic import TopicZnode
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.partitions.arrays import unpack

if TYPE_CHECKING:
    from simzk.kafka.columnar import ColumnarTopics
    from simzk.kafka.columnar.batches import Written
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.partitions.arrays import IntArray
    from simzk.partitions.names import Partitions


class KnownStates:
    """States by partition."""

    def __init__(self) -> None:
        self._named: dict[TopicPartition, LeaderAndIsr | None] = {}
        self._topics: ColumnarTopics | None = None

    def load(self, topics: ColumnarTopics) -> None:
        """Know what columns hold now, and what they will."""
        assert topics.partitions.before_change is None, "one follower of each"
        self._topics = topics
        topics.partitions.before_change = self._note

    def _note(self, row: int) -> None:
        assert self._topics is not None
        table = self._topics.table
        self._named.setdefault(TopicPartition(*table.name(row)), table.leader_and_isr(row))

    def get(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """The state of a partition, None where none is known."""
        return self._named[partition] if partition in self._named else self._shown(partition)

    def _shown(self, partition: TopicPartition) -> LeaderAndIsr | None:
        row = None if self._topics is None else self._topics.table.find(*partition)
        return None if row is None or self._topics is None else self._topics.table.leader_and_isr(row)

    def put(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """A state was written."""
        self._named[partition] = state

    def pop(self, partition: TopicPartition) -> None:
        """A state was deleted."""
        self._named.pop(partition, None)
        if self._shown(partition) is not None:  # the same transaction made it anew
            self._named[partition] = None

    def put_batch(self, written: Written) -> None:
        """Many states were written at once."""
        assert written.topics is self._topics
        if self._named:
            table, rows = written.topics.table, set(written.rows.tolist())
            for partition in [p for p in self._named if table.find(*p) in rows]:
                del self._named[partition]


class KnownTopics:
    """The assignments of topics by name; of those that were in columns from the beginning, what they were then."""

    def __init__(self) -> None:
        self._named: dict[str, TopicZnode] = {}
        self._gone: set[str] = set()
        self._loaded: tuple[Partitions, IntArray] | None = None
        self._moving: dict[TopicPartition, ReplicaAssignment] = {}

    def load(self, topics: ColumnarTopics) -> None:
        """Know what columns hold now."""
        table, rows = topics.table, topics.table.rows()
        self._loaded = table.partitions(rows), table.replicas[rows].copy()
        moving = np.array(table.reassigning(), dtype=np.int32)
        lists = zip(table.partitions(moving).names(), *map(unpack, table.assignment(moving)), strict=True)
        self._moving = {TopicPartition(*name): ReplicaAssignment(*one) for name, *one in lists}

    def get(self, name: str) -> TopicZnode | None:
        """What is known of a topic, None where nothing is."""
        known = self._named.get(name)
        if known is not None or self._loaded is None or name in self._gone:
            return known
        partitions, replicas = self._loaded
        if name not in partitions.topics:
            return None
        places = np.flatnonzero(partitions.topic == partitions.topics.index(name))
        numbers, lists = partitions.partition[places].tolist(), unpack(replicas[places])
        still = {number: ReplicaAssignment(ids) for number, ids in zip(numbers, lists, strict=True)}
        return TopicZnode({n: self._moving.get(TopicPartition(name, n), one) for n, one in still.items()})

    def put(self, name: str, topic: TopicZnode) -> None:
        """A topic was written."""
        self._named[name] = topic

    def pop(self, name: str) -> None:
        """A topic was deleted."""
        self._named.pop(name, None)
        self._gone.add(name)
