"""Iteration order of the controller's Scala maps and sets of partitions, over rows of its table.

The order of writes in ZooKeeper is that of the collections that Kafka's controller iterates.

Rules of the module (docs/reference/kafka.md §1.2, §2.3):
  - Kafka stores assignments in a map of topics to maps of partitions (1.1: in one map of partitions), all mutable;
  - a set built from such a map is immutable, in the order of `scala_columns.set_order`;
  - orders of all rows, and of the rows of a broker, are cached until the partitions change: sorting a million hashes
    costs more than a failover may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.jvm.scala_collections import SMALL
from simzk.jvm.scala_columns import (
    KEY_BITS,
    buckets_of,
    map_order,
    places_in_order,
    product_hashes,
    set_order,
    string_hashes,
)
from simzk.kafka.topic_partition import partition_hashes, replica_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from simzk.kafka.topic_partition import Collections
    from simzk.partitions.arrays import IntArray
    from simzk.partitions.table import PartitionTable


_CACHED_BROKER_ORDERS = 12
"""Each restart of a broker uses its orders a few times within seconds."""


class IterationOrder:
    """Sorts rows of the controller's table into the iteration order of Scala collections.

    Args:
        table: the controller's partitions.
        collections: Scala version and key classes.
        flat: whether assignments are one map of partitions, not a map of maps.
    """

    def __init__(self, table: PartitionTable, collections: Collections, *, flat: bool) -> None:
        self._table = table
        self._collections = collections
        self._flat = flat
        self._all_rows: dict[str, tuple[int, IntArray]] = {}
        self._broker_rows: dict[tuple[str, int], tuple[IntArray, int, IntArray]] = {}
        self._hashed_topics: Sequence[str] = ()
        self._hashes_by_topic: IntArray = np.zeros(0, dtype=np.int32)
        self._topic_hashes_are_distinct = True
        self._ranked_topics: Sequence[str] = ()
        self._name_ranks: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._hashed_rows = 0
        self._row_hashes: tuple[int, IntArray | None] = -1, None

    def all_in_map(self) -> IntArray:
        """Return all rows in the order of the map of assignments."""
        return self._cached("map", lambda: self._assignments(self._table.rows()))

    def all_in_set(self) -> IntArray:
        """Return all rows in the order of an immutable set built from the map of assignments."""
        return self._cached("set", lambda: self.in_set(self.all_in_map()))

    def _cached(self, collection: str, sort: Callable[[], IntArray]) -> IntArray:
        """Return an order of all rows, sorted again only if the partitions changed."""
        cached = self._all_rows.get(collection)
        if cached is None or cached[0] != self._table.changes:
            cached = self._all_rows[collection] = self._table.changes, sort()
            cached[1].flags.writeable = False
        return cached[1]

    def on_broker_in_map(self, broker: int) -> IntArray:
        """Return the rows with a replica on a broker in the order of a map of assignments with only them."""
        return self._cached_on("map", broker, self._assignments)

    def on_broker_in_set(self, broker: int) -> IntArray:
        """Return the same rows in the order of an immutable set built from that map."""
        return self._cached_on("set", broker, lambda _: self.in_set(self.on_broker_in_map(broker)))

    def on_broker_in_replica_set(self, broker: int) -> IntArray:
        """Return the same rows in the order of an immutable set of the broker's replicas."""

        def sort(_: IntArray) -> IntArray:
            rows = self.on_broker_in_map(broker)
            return rows[self.positions_in_replica_set(rows, np.full(len(rows), broker, dtype=np.int32))]

        return self._cached_on("replicas", broker, sort)

    def _cached_on(self, collection: str, broker: int, sort: Callable[[IntArray], IntArray]) -> IntArray:
        """Return an order of a broker's rows, sorted again only if they or the partitions changed."""
        rows, changes = self._table.rows_with_replica(broker), self._table.changes
        cached = self._broker_rows.pop((collection, broker), None)
        if cached is None or cached[0] is not rows or cached[1] != changes:
            cached = rows, changes, sort(rows)
            cached[2].flags.writeable = False
        self._broker_rows[collection, broker] = cached
        if len(self._broker_rows) > _CACHED_BROKER_ORDERS:
            del self._broker_rows[next(iter(self._broker_rows))]
        return cached[2]

    def some_in_map_of_all(self, rows: IntArray) -> IntArray:
        """Return some rows in the order of the map of all assignments."""
        if self._collections.scala != "2.13" or self._flat:
            chosen = self.all_in_map()
            return chosen[np.isin(chosen, rows)]
        if not len(rows):
            return rows
        topics = self._table.topic[self._table.topic >= 0]
        return self._in_nested_maps(rows, np.bincount(topics, minlength=len(self._table.topics)))

    def in_map_of_topic(self, rows: IntArray) -> IntArray:
        """Return the rows of one topic in the order of the map of its partitions."""
        if self._flat:
            return self.in_map(rows)
        return rows[map_order(self._table.partition[rows], self._collections.scala)]

    def in_map(self, rows: IntArray) -> IntArray:
        """Return rows in the order of a mutable map of partitions filled with them."""
        return rows[self.positions_in_map(rows)]

    def positions_in_map(self, rows: IntArray, *, in_order: bool = True) -> NDArray[np.intp]:
        """Return the positions of rows in the order of a mutable map of partitions filled with them.

        Args:
            rows: int32[k].
            in_order: whether the map was filled in the order of `rows`; otherwise in the order of partition names.
                The order of insertion shows only between entries of one bucket.
        """
        scala, hashes = self._collections.scala, self.hashes(rows)
        assert len(hashes) == len(rows)
        if in_order:
            return map_order(hashes, scala)
        if scala != "2.13":
            named = np.lexsort(self._name_keys(rows))
            return named[map_order(hashes[named], scala)]
        # From 2.13 on the order of insertion decides only between equal hashes, so only those are sorted by name.
        positions = map_order(hashes)
        hashes = hashes[positions]
        equals_next = hashes[1:] == hashes[:-1]
        tied = np.flatnonzero(np.append(equals_next, np.False_) | np.append(np.False_, equals_next))
        if len(tied):
            runs = np.cumsum(np.append(np.True_, ~equals_next))
            positions[tied] = positions[tied[np.lexsort((*self._name_keys(rows[positions[tied]]), runs[tied]))]]
        return positions

    def _name_keys(self, rows: IntArray) -> tuple[IntArray, NDArray[np.intp]]:
        """Return partition numbers, and the ranks of topics among all topics sorted by name."""
        names = self._table.topics
        if self._ranked_topics is not names or len(self._name_ranks) != len(names):
            by_name = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)
            self._ranked_topics, self._name_ranks = names, np.argsort(by_name)
        return self._table.partition.take(rows), self._name_ranks.take(self._table.topic.take(rows))

    def in_set(self, rows: IntArray, *, hashed: bool = False) -> IntArray:
        """Return rows in the order of an immutable set built from them; `hashed` forces a hash set of any size."""
        if len(rows) <= SMALL and not hashed:
            return rows
        return rows[set_order(self.hashes(rows), self._collections.scala, hashed=hashed)]

    def positions_in_replica_set(self, rows: IntArray, brokers: IntArray, *, hashed: bool = False) -> NDArray[np.intp]:
        """Return the positions of replicas in the order of an immutable set of them."""
        assert len(rows) == len(brokers)
        return set_order(self.replica_hashes(rows, brokers), self._collections.scala, hashed=hashed)

    def hashes(self, rows: IntArray) -> IntArray:
        """Return the hashes of partitions, int32[k]."""
        changes, hashes = self._row_hashes
        if changes != self._table.changes:
            self._hashed_rows, hashes = 0, None
            self._row_hashes = self._table.changes, None
        if hashes is None:
            self._hashed_rows += len(rows)
            if self._hashed_rows <= len(self._table):
                return self._hashes_of(rows)
            # More hashes than rows were computed since the last change: compute those of all rows once.
            hashes, every = np.zeros(len(self._table.topic), dtype=np.int32), self._table.rows()
            hashes[every] = self._hashes_of(every)
            self._row_hashes = self._table.changes, hashes
        return hashes.take(rows)

    def _hashes_of(self, rows: IntArray) -> IntArray:
        topics = self._topic_hashes().take(self._table.topic.take(rows))
        return partition_hashes(topics, self._table.partition.take(rows), case_classes=self._collections.case_classes)

    def replica_hashes(self, rows: IntArray, brokers: IntArray) -> IntArray:
        """Return the hashes of replicas, int32[k]."""
        scala, case_classes = self._collections
        if case_classes:
            topics = self._topic_hashes().take(self._table.topic.take(rows))
            return product_hashes(topics, self._table.partition.take(rows), brokers)
        return replica_hashes(self.hashes(rows), brokers, scala)

    def _topic_hashes(self) -> IntArray:
        names = self._table.topics
        if self._hashed_topics is not names or len(self._hashes_by_topic) != len(names):
            known = len(self._hashes_by_topic) if self._hashed_topics is names else 0
            more = string_hashes(names[known:])
            self._hashed_topics, self._hashes_by_topic = names, np.concatenate([self._hashes_by_topic[:known], more])
            self._topic_hashes_are_distinct = len(np.unique(self._hashes_by_topic)) == len(self._hashes_by_topic)
        return self._hashes_by_topic

    def _assignments(self, rows: IntArray) -> IntArray:
        """Return ascending rows in the order of a map of assignments with only them."""
        if self._flat:
            return self.in_map(rows)
        if not len(rows):
            return rows
        if self._collections.scala == "2.13":
            return self._in_nested_maps(rows, np.bincount(self._table.topic[rows], minlength=len(self._table.topics)))
        numbers = self._topics_in_map(rows)
        by_topic = {number: rows[self._table.topic[rows] == number] for number in numbers.tolist()}
        return np.concatenate([self.in_map_of_topic(by_topic[number]) for number in numbers.tolist()])

    def _topics_in_map(self, rows: IntArray) -> IntArray:
        """Return the topic numbers of rows in the order of a map filled in the order of the rows."""
        numbers, first = np.unique(self._table.topic[rows], return_index=True)
        numbers = numbers[np.argsort(first)]
        return numbers[map_order(self._topic_hashes()[numbers], self._collections.scala)]

    def _in_order_of_creation(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return topic numbers in the order in which the topics were added, if two have equal hashes.

        Without equal hashes the order of insertion does not show in a map of 2.13.
        """
        hashes = self._topic_hashes()[numbers]
        if self._topic_hashes_are_distinct or len(np.unique(hashes)) == len(numbers):
            return numbers
        ranks = {self._table.topic_number(name): rank for rank, name in enumerate(self._table.topics_as_they_came())}
        return np.array(sorted(numbers.tolist(), key=ranks.__getitem__))

    def _in_nested_maps(self, rows: IntArray, entries: NDArray[np.int64]) -> IntArray:
        """Return rows in the order of the nested maps of 2.13, sorted by one key per row.

        Args:
            rows: int32[k].
            entries: number of partitions in the map of each topic, by topic number; a topic without any is not in the
                map of topics.
        """
        table = self._table
        numbers = self._in_order_of_creation(np.flatnonzero(entries))
        numbers = numbers[map_order(self._topic_hashes()[numbers])]
        rank = np.zeros(len(entries), dtype=np.int64)
        rank[numbers] = np.arange(len(numbers))
        masks = np.zeros(int(entries.max(initial=0)) + 1, dtype=np.int64)
        for size in np.flatnonzero(np.bincount(entries)).tolist():
            masks[size] = buckets_of(size) - 1
        masks = masks.take(entries)
        topic, partition = table.topic.take(rows), table.partition.take(rows).astype(np.int64)
        # mutable.HashMap of 2.13: the low bits of the mixed hash (`improveHash`) select the bucket, and a bucket is
        # sorted by hash. One sort by (topic, bucket, hash) replaces one sort for each topic.
        mixed = partition ^ partition >> 16
        bits = int(mixed.max(initial=1)).bit_length()
        if len(numbers).bit_length() + 2 * bits <= KEY_BITS:
            return rows[places_in_order(rank.take(topic) << 2 * bits | (mixed & masks.take(topic)) << bits | mixed)]
        return rows[np.lexsort((mixed, mixed & masks.take(topic), rank.take(topic)))]
