"""The order in which the controller's maps and sets of partitions iterate, over rows of its table.

Rules of the module (docs/reference/kafka.md §1.2, §2.3):
  - the assignments stand in a map of topics to maps of partitions (1.1: in one map of partitions), all of them mutable;
  - a set that is made of what such a map gives is immutable: its order is that of `scala_orders.set_order`;
  - hashes of topics' names are worked out once, as long as the topics are the same.
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


_KEPT_AT_MOST = 12
"""A broker that stops and starts is asked for a few times in a row."""


class MapOrder:
    """Puts rows in order.

    Args:
        table: whose rows they are.
        collections: which Scala, and which keys.
        flat: assignments stand in one map of partitions, not in a map of maps.
    """

    def __init__(self, table: PartitionTable, collections: Collections, *, flat: bool) -> None:
        self._table = table
        self._collections = collections
        self._flat = flat
        self._of_everything: dict[str, tuple[int, IntArray]] = {}
        self._on_broker: dict[tuple[str, int], tuple[IntArray, int, IntArray]] = {}
        self._hashed: Sequence[str] = ()
        self._hashes: IntArray = np.zeros(0, dtype=np.int32)
        self._are_distinct = True
        self._named: Sequence[str] = ()
        self._name_places: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._asked = 0
        self._row_hashes: tuple[int, IntArray | None] = -1, None

    def everything(self) -> IntArray:
        """All rows, as the map of them iterates."""
        return self._kept("map", lambda: self._listed(self._table.rows()))

    def everything_in_set(self) -> IntArray:
        """All rows, as an immutable set that was made of what the map gives iterates."""
        return self._kept("set", lambda: self.in_set(self.everything()))

    def _kept(self, name: str, work: Callable[[], IntArray]) -> IntArray:
        """What is the same as long as the partitions are."""
        kept = self._of_everything.get(name)
        if kept is None or kept[0] != self._table.changes:
            kept = self._of_everything[name] = self._table.changes, work()
            kept[1].flags.writeable = False
        return kept[1]

    def on(self, broker: int) -> IntArray:
        """The rows with a replica on a broker, as the map of them iterates."""
        return self._kept_on("map", broker, self._listed)

    def on_in_set(self, broker: int) -> IntArray:
        """The same rows as an immutable set that was made of what the map gives iterates."""
        return self._kept_on("set", broker, lambda _: self.in_set(self.on(broker)))

    def replicas_on(self, broker: int) -> IntArray:
        """The same rows as an immutable set of the broker's replicas iterates."""

        def ordered(_: IntArray) -> IntArray:
            rows = self.on(broker)
            return rows[self.of_replicas(rows, np.full(len(rows), broker, dtype=np.int32))]

        return self._kept_on("replicas", broker, ordered)

    def _kept_on(self, name: str, broker: int, work: Callable[[IntArray], IntArray]) -> IntArray:
        """What is the same as long as the partitions are, and those that the broker holds; of the last few brokers."""
        rows, changes = self._table.rows_with_replica(broker), self._table.changes
        kept = self._on_broker.pop((name, broker), None)
        if kept is None or kept[0] is not rows or kept[1] != changes:
            kept = rows, changes, work(rows)
            kept[2].flags.writeable = False
        self._on_broker[name, broker] = kept
        if len(self._on_broker) > _KEPT_AT_MOST:
            del self._on_broker[next(iter(self._on_broker))]
        return kept[2]

    def some_of_everything(self, rows: IntArray) -> IntArray:
        """Some rows, as the map of all iterates."""
        if self._collections.scala != "2.13" or self._flat:
            chosen = self.everything()
            return chosen[np.isin(chosen, rows)]
        if not len(rows):
            return rows
        topics = self._table.topic[self._table.topic >= 0]
        return self._ranked(rows, np.bincount(topics, minlength=len(self._table.topics)))

    def of_topic(self, rows: IntArray) -> IntArray:
        """The rows of one topic, as the map of them iterates."""
        return (
            self.in_map(rows) if self._flat else rows[map_order(self._table.partition[rows], self._collections.scala)]
        )

    def in_map(self, rows: IntArray) -> IntArray:
        """Rows as a mutable map of partitions that was filled with them iterates."""
        return rows[self.places_in_map(rows)]

    def places_in_map(self, rows: IntArray, *, in_order: bool = True) -> NDArray[np.intp]:
        """Where rows stand in a mutable map of partitions that was filled with them.

        Args:
            rows: int32[k].
            in_order: whether it was filled in their order, or in that of their names.
        """
        scala, hashes = self._collections.scala, self.hashes(rows)
        if in_order:
            return map_order(hashes, scala)
        if scala != "2.13":
            named = np.lexsort(self._name_keys(rows))
            return named[map_order(hashes[named], scala)]
        places = map_order(hashes)
        hashes = hashes[places]
        alike = hashes[1:] == hashes[:-1]
        tied = np.flatnonzero(np.append(alike, np.False_) | np.append(np.False_, alike))
        if len(tied):  # in 2.13 only what is of one hash stays as it came
            runs = np.cumsum(np.append(np.True_, ~alike))
            places[tied] = places[tied[np.lexsort((*self._name_keys(rows[places[tied]]), runs[tied]))]]
        return places

    def _name_keys(self, rows: IntArray) -> tuple[IntArray, NDArray[np.intp]]:
        """Partition ids, and the places of topics among all when sorted by name."""
        names = self._table.topics
        if self._named is not names or len(self._name_places) != len(names):
            by_name = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)
            self._named, self._name_places = names, np.argsort(by_name)
        return self._table.partition.take(rows), self._name_places.take(self._table.topic.take(rows))

    def in_set(self, rows: IntArray, *, hashed: bool = False) -> IntArray:
        """Rows as an immutable set of partitions that was made of them iterates."""
        if len(rows) <= SMALL and not hashed:
            return rows
        return rows[set_order(self.hashes(rows), self._collections.scala, hashed=hashed)]

    def of_replicas(self, rows: IntArray, brokers: IntArray, *, hashed: bool = False) -> NDArray[np.intp]:
        """Where replicas stand in an immutable set of them."""
        return set_order(self.replica_hashes(rows, brokers), self._collections.scala, hashed=hashed)

    def hashes(self, rows: IntArray) -> IntArray:
        """The hashes of partitions, int32[k]."""
        changes, hashes = self._row_hashes
        if changes != self._table.changes:
            self._asked, hashes = 0, None
            self._row_hashes = self._table.changes, None
        if hashes is None:
            self._asked += len(rows)
            if self._asked <= len(self._table):
                return self._hashes_of(rows)
            # So often asked for, they are worked out of all rows once and for all.
            hashes, every = np.zeros(len(self._table.topic), dtype=np.int32), self._table.rows()
            hashes[every] = self._hashes_of(every)
            self._row_hashes = self._table.changes, hashes
        return hashes.take(rows)

    def _hashes_of(self, rows: IntArray) -> IntArray:
        topics = self._topic_hashes().take(self._table.topic.take(rows))
        return partition_hashes(topics, self._table.partition.take(rows), case_classes=self._collections.case_classes)

    def replica_hashes(self, rows: IntArray, brokers: IntArray) -> IntArray:
        """The hashes of replicas, int32[k]."""
        scala, case_classes = self._collections
        if case_classes:
            topics = self._topic_hashes().take(self._table.topic.take(rows))
            return product_hashes(topics, self._table.partition.take(rows), brokers)
        return replica_hashes(self.hashes(rows), brokers, scala)

    def _topic_hashes(self) -> IntArray:
        names = self._table.topics
        if self._hashed is not names or len(self._hashes) != len(names):
            known = len(self._hashes) if self._hashed is names else 0
            more = string_hashes(names[known:])
            self._hashed, self._hashes = names, np.concatenate([self._hashes[:known], more])
            self._are_distinct = len(np.unique(self._hashes)) == len(self._hashes)
        return self._hashes

    def _listed(self, rows: IntArray) -> IntArray:
        """Rows, given ascending, as a map that has only them iterates."""
        if self._flat:
            return self.in_map(rows)
        if not len(rows):
            return rows
        if self._collections.scala == "2.13":
            return self._ranked(rows, np.bincount(self._table.topic[rows], minlength=len(self._table.topics)))
        numbers = self._in_order(rows)
        by_topic = {number: rows[self._table.topic[rows] == number] for number in numbers.tolist()}
        return np.concatenate([self.of_topic(by_topic[number]) for number in numbers.tolist()])

    def _in_order(self, rows: IntArray) -> IntArray:
        """The topics of rows, by number, as a map that was filled in the order of the rows iterates."""
        numbers, first = np.unique(self._table.topic[rows], return_index=True)
        numbers = numbers[np.argsort(first)]
        return numbers[map_order(self._topic_hashes()[numbers], self._collections.scala)]

    def _as_they_came(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Topics in the order in which they came, where two are of one hash: nothing else depends on it."""
        hashes = self._topic_hashes()[numbers]
        if self._are_distinct or len(np.unique(hashes)) == len(numbers):
            return numbers
        came = {self._table.topic_number(name): place for place, name in enumerate(self._table.topics_as_they_came())}
        return np.array(sorted(numbers.tolist(), key=came.__getitem__))

    def _ranked(self, rows: IntArray, entries: NDArray[np.int64]) -> IntArray:
        """Rows as maps of 2.13 iterate.

        Args:
            rows: int32[k].
            entries: by topic number, how many partitions its map has; the map of topics has those that have any.
        """
        table = self._table
        numbers = self._as_they_came(np.flatnonzero(entries))
        numbers = numbers[map_order(self._topic_hashes()[numbers])]
        rank = np.zeros(len(entries), dtype=np.int64)
        rank[numbers] = np.arange(len(numbers))
        masks = np.zeros(int(entries.max(initial=0)) + 1, dtype=np.int64)
        for size in np.flatnonzero(np.bincount(entries)).tolist():
            masks[size] = buckets_of(size) - 1
        masks = masks.take(entries)
        topic, partition = table.topic.take(rows), table.partition.take(rows).astype(np.int64)
        mixed = partition ^ partition >> 16
        bits = int(mixed.max(initial=1)).bit_length()
        if len(numbers).bit_length() + 2 * bits <= KEY_BITS:
            return rows[places_in_order(rank.take(topic) << 2 * bits | (mixed & masks.take(topic)) << bits | mixed)]
        return rows[np.lexsort((mixed, mixed & masks.take(topic), rank.take(topic)))]
