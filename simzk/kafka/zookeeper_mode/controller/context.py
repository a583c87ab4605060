"""State of a controller, which caches what ZooKeeper stores, and the order in which Kafka iterates it.

Rules of the module (ControllerContext; docs/reference/kafka.md §1.2, §2.3):
  - a `PartitionTable` stores assignments and partition states; the columns of `states` store the states of both state
    machines; a batch of partitions is int32[k] rows of the table, a single partition a `TopicPartition`;
  - a broker that is shutting down is registered, but not live;
  - writes in ZooKeeper have the order of the Scala collections that Kafka's controller iterates, so methods return
    partitions in that order. Kafka stores assignments in a map of topics to maps of partitions (1.1: in one map of
    partitions), all mutable; a set built from such a map is immutable, in the order of `scala_columns.set_order`;
  - a mutable map up to 2.12 lists the newest of the keys in one bucket first. Up to 1.1 each change of the topics, and
    up to 0.10.1 each search for a broker's replicas, filters the map into a new one, which reverses such keys;
  - orders of all rows, and of the rows of a broker, are cached until the partitions change: sorting a million hashes
    costs more than a failover may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.errors import LayoutError
from simzk.jvm.scala_collections import SMALL, Scala, ScalaSet, buckets_of, immutable_order, mutable_order
from simzk.jvm.scala_columns import KEY_BITS, map_order, places_in_order, product_hashes, set_order, string_hashes
from simzk.kafka.topic_partition import (
    LeaderAndIsr,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
    partition_hashes,
    partition_set,
    replica_hashes,
    replica_set,
)
from simzk.kafka.zookeeper_mode.controller.states import PartitionStates, ReplicaStates
from simzk.partitions.arrays import BoolArray, IntArray, broker_mask, pack, sorted_distinct
from simzk.partitions.table import FREE_TOPIC, PartitionTable
from simzk.partitions.transitions import live_members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from simzk.kafka.releases.profile import OrderRules
    from simzk.kafka.zookeeper_mode.columnar.batches import Assigned
    from simzk.kafka.zookeeper_mode.controller.states import PartitionState
    from simzk.kafka.zookeeper_mode.schemas.broker_registration import BrokerRegistration

_CACHED_BROKER_ORDERS = 12
"""Each restart of a broker uses its orders a few times within seconds."""


class IterationOrder:
    """Sorts rows of the controller's table into the iteration order of Scala collections."""

    def __init__(self, table: PartitionTable, rules: OrderRules) -> None:
        self._table = table
        self._collections = rules.collections
        self._flat = rules.has_flat_assignments
        self._filtered = rules.filters_assignments_of_broker
        self._insertions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._inserted = 0
        self._rebuilt = 0
        self._all_rows: dict[str, tuple[tuple[int, int], IntArray]] = {}
        self._broker_rows: dict[tuple[str, int], tuple[IntArray, tuple[int, int], IntArray]] = {}
        self._hashed_topics: Sequence[str] = ()
        self._hashes_by_topic: IntArray = np.zeros(0, dtype=np.int32)
        self._topic_hashes_are_distinct = True
        self._ranked_topics: Sequence[str] = ()
        self._name_ranks: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._hashed_rows = 0
        self._row_hashes: tuple[int, IntArray | None] = -1, None

    def note_inserted(self, rows: IntArray) -> None:
        """Record that rows were inserted into the map of assignments, in this order."""
        assert rows.min(initial=0) >= 0, "a partition without a row"
        self._numbered_insertions()[rows] = self._inserted + 1 + np.arange(len(rows))
        self._inserted += len(rows)
        self._rebuilt += 1

    def note_filtered(self) -> None:
        """Record that a change of the topics filtered the map of assignments into a new one."""
        if self._flat:
            self.note_inserted(self.all_in_map())

    @property
    def _changes(self) -> tuple[int, int]:
        """Numbers that grow with every change of the map of assignments."""
        return self._table.changes, self._rebuilt

    def _numbered_insertions(self) -> NDArray[np.int64]:
        """Return the number of the insertion of each row, 0 for a row whose insertion was not recorded."""
        missing = len(self._table.topic) - len(self._insertions)
        if missing > 0:
            self._insertions = np.pad(self._insertions, (0, max(missing, len(self._insertions) // 4)))
        assert len(self._insertions) >= len(self._table.topic)
        return self._insertions

    def _in_map_of_all(self, rows: IntArray) -> IntArray:
        """Return some rows in the order of the map of all partitions (up to 1.1)."""
        assert self._flat, "there is no map of all partitions"
        every = self.all_in_map()
        places = self._cached("places", lambda: _places(every, len(self._table.topic)))
        return rows[np.argsort(places.take(rows))]

    def all_in_map(self) -> IntArray:
        """Return all rows in the order of the map of assignments."""
        return self._cached("map", lambda: self._assignments(self._table.rows()))

    def all_in_set(self) -> IntArray:
        """Return all rows in the order of an immutable set built from the map of assignments."""
        return self._cached("set", lambda: self.in_set(self.all_in_map()))

    def _cached(self, collection: str, sort: Callable[[], IntArray]) -> IntArray:
        """Return an order of all rows, sorted again only if the partitions changed."""
        cached = self._all_rows.get(collection)
        if cached is None or cached[0] != self._changes:
            cached = self._all_rows[collection] = self._changes, sort()
            assert len(cached[1]) in (len(self._table), len(self._table.topic)), "an order has each partition once"
            cached[1].flags.writeable = False
        return cached[1]

    def on_broker_in_map(self, broker: int) -> IntArray:
        """Return the rows with a replica on a broker in the order of a map of assignments with only them."""
        return self._cached_on("map", broker, self._of_broker)

    def _of_broker(self, rows: IntArray) -> IntArray:
        if not self._flat or not len(rows):
            return self._assignments(rows)
        rows = self._in_map_of_all(rows)
        return self.in_map(rows) if self._filtered else rows

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
        rows, changes = self._table.rows_with_replica(broker), self._changes
        cached = self._broker_rows.pop((collection, broker), None)
        if cached is None or cached[0] is not rows or cached[1] != changes:
            cached = rows, changes, sort(rows)
            assert len(cached[2]) == len(rows), "an order has each of the rows once"
            cached[2].flags.writeable = False
        self._broker_rows[collection, broker] = cached
        if len(self._broker_rows) > _CACHED_BROKER_ORDERS:
            del self._broker_rows[next(iter(self._broker_rows))]
        return cached[2]

    def some_in_map_of_all(self, rows: IntArray) -> IntArray:
        """Return some rows in the order of the map of all assignments."""
        if self._collections.scala != "2.13" or self._flat:
            every = self.all_in_map()
            chosen = every[np.isin(every, rows)]
            assert len(chosen) == len(rows), "a row is repeated or has no partition"
            return chosen
        if not len(rows):
            return rows
        topics = self._table.topic[self._table.topic >= 0]
        return self._in_nested_maps(rows, np.bincount(topics, minlength=len(self._table.topics)))

    def in_map_of_topic(self, rows: IntArray) -> IntArray:
        """Return the rows of one topic in the order of the map of its partitions."""
        if self._flat:
            return self.in_map(self._in_map_of_all(rows))
        return rows[map_order(self._table.partition[rows], self._collections.scala)]

    def in_map(self, rows: IntArray) -> IntArray:
        """Return rows in the order of a mutable map of partitions filled with them."""
        return rows[self.positions_in_map(rows)]

    def in_cleared_map(self, rows: IntArray, most: int) -> IntArray:
        """Return rows in the order of a mutable map filled with them, which had some entries before it was cleared."""
        assert most >= 0, "a map has had no entries or more"
        return rows[map_order(self.hashes(rows), self._collections.scala, most=most)]

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
        assert rows.ndim == 1, "rows of the controller's table"
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
        assert len(rows) == len(brokers), "a replica is a partition and a broker"
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
            assert len(self._hashes_by_topic) == len(names), "each topic has a hash"
            self._topic_hashes_are_distinct = len(sorted_distinct(self._hashes_by_topic)) == len(names)
        return self._hashes_by_topic

    def _assignments(self, rows: IntArray) -> IntArray:
        """Return ascending rows in the order of a map of assignments with only them."""
        if self._flat:
            return self.in_map(rows[np.argsort(self._numbered_insertions().take(rows), kind="stable")])
        if not len(rows):
            return rows
        if self._collections.scala == "2.13":
            return self._in_nested_maps(rows, np.bincount(self._table.topic[rows], minlength=len(self._table.topics)))
        topics = self._table.topic[rows]
        numbers, first = np.unique(topics, return_index=True)
        numbers = numbers[np.argsort(first)]  # as the map of topics was filled
        numbers = numbers[map_order(self._topic_hashes()[numbers], self._collections.scala)]
        return np.concatenate([self.in_map_of_topic(rows[topics == number]) for number in numbers.tolist()])

    def _in_order_of_creation(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return topic numbers in the order in which the topics were added, if two have equal hashes.

        Without equal hashes the order of insertion does not show in a map of 2.13.
        """
        hashes = self._topic_hashes()[numbers]
        assert len(hashes) == len(numbers)
        if self._topic_hashes_are_distinct or len(sorted_distinct(hashes)) == len(numbers):
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
        assert len(entries) == len(table.topics)
        numbers = self._in_order_of_creation(np.flatnonzero(entries))
        assert self._collections.scala == "2.13", "nested maps of earlier releases are sorted one by one"
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


def _places(rows: IntArray, length: int) -> IntArray:
    """Return the place of each of `length` rows in an order of some of them."""
    assert len(rows) <= length
    places = np.zeros(length, dtype=np.int32)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    return places


class LiveBroker(NamedTuple):
    """A registered broker: its registration and broker epoch."""

    registration: BrokerRegistration
    epoch: int


class Registered(NamedTuple):
    """Registered brokers as columns, ascending by id.

    Args:
        ids: int32[b].
        epochs: int64[b], broker epochs.
        racks: rack by broker, None for a broker without one.
        mask: bool[m], by broker id.
    """

    ids: IntArray
    epochs: NDArray[np.int64]
    racks: dict[int, str | None]
    mask: BoolArray

    @classmethod
    def of(cls, brokers: Mapping[int, LiveBroker]) -> Registered:
        """Return the columns of brokers by id."""
        ids = sorted(brokers)
        assert not ids or ids[0] >= 0, "a registration has the id of a broker"
        live = [brokers[broker] for broker in ids]
        return cls(
            np.array(ids, dtype=np.int32),
            np.array([epoch for _, epoch in live], dtype=np.int64),
            {broker: registration.rack for broker, (registration, _) in zip(ids, live, strict=True)},
            broker_mask(ids),
        )


class ControllerContext:
    """State of one controller; empty while its broker is not the controller.

    Attributes:
        rules, collections, scala: what fixes the iteration order of partitions in the release.
        has_term: whether the broker is the controller, or was when a failover failed.
        epoch: the controller epoch, 0 without a term; negative if somebody wrote such a number to the znode.
        epoch_version: version of `/controller_epoch`, which fences the controller's writes.
        brokers: registered brokers by id.
        registered_at: czxid of their registrations, which controllers before 2.2 do not compare.
        shutting_down: brokers that requested a controlled shutdown (shuttingDownBrokerIds).
        on_failed_dirs: partitions in failed log directories, by broker (replicasOnOfflineDirs).
        topic_ids: topic id by topic, None for a topic without one.
        table: assignments and partition states.
        order: iteration order of Kafka's collections over rows of `table`.
        znode_lists: replica lists of topic znodes that the table cannot store: empty ones, and ones with a duplicate.
        being_reassigned: target replicas by partition (partitionsBeingReassigned).
        pending_elections: partitions of preferred elections that have not ended, up to 0.10
            (partitionsUndergoingPreferredReplicaElection).
        to_be_deleted: topics to be deleted (topicsToBeDeleted).
        deletion_started: topics with a deletion in progress (topicsWithDeletionStarted).
        ineligible_for_deletion: topics with a halted deletion (topicsIneligibleForDeletion).
        terms: how often this broker has been controller since it started.
        deletes_topics: whether the failover has come as far as the deletion of topics.
    """

    def __init__(self, rules: OrderRules) -> None:
        self.rules = rules
        self.collections = rules.collections
        self.scala: Scala = rules.scala
        self.being_reassigned: dict[TopicPartition, tuple[int, ...]] = {}
        self.pending_elections: dict[TopicPartition, None] = {}
        self.terms = 0
        self.reset()

    def reset(self, *, keeps_requests: bool = False) -> None:
        """Clear all state, at a resignation.

        Args:
            keeps_requests: whether preferred elections and reassignments stay, as up to 0.10.
        """
        if not keeps_requests:
            self.being_reassigned = {}
            self.pending_elections = {}
        self.has_term = False
        self.epoch = 0
        self.epoch_version = 0
        self.brokers: dict[int, LiveBroker] = {}
        self.registered_at: dict[int, int] = {}
        self._registered: tuple[dict[int, LiveBroker], Registered] = {}, Registered.of({})
        self.shutting_down: dict[int, None] = {}
        self.on_failed_dirs: dict[int, dict[TopicPartition, None]] = {}
        self.topic_ids: dict[str, str | None] = {}
        self.table = PartitionTable()
        self.order = IterationOrder(self.table, self.rules)
        self.partition_states = PartitionStates(self.table)
        self.replica_states = ReplicaStates(self.table)
        self.znode_lists: dict[TopicPartition, tuple[int, ...]] = {}
        self.to_be_deleted: dict[str, None] = {}
        self.deletion_started: dict[str, None] = {}
        self.ineligible_for_deletion: dict[str, None] = {}
        self.deletes_topics = False
        self._removed_leaders: dict[TopicPartition, int] = {}

    # -- brokers

    def is_live(self, broker: int) -> bool:
        """Return whether a broker is registered and not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    def is_online(self, broker: int, partition: TopicPartition) -> bool:
        """Return whether a broker is live and its replica of a partition is not in a failed log directory."""
        return self.is_live(broker) and partition not in self.on_failed_dirs.get(broker, {})

    def replicas_on_failed_dirs(self, rows: IntArray) -> IntArray | None:
        """Return the brokers with a replica in a failed log directory, int32[k, v]; None if no directory failed."""
        if not any(self.on_failed_dirs.values()):
            return None
        return pack([[b for b, offline in self.on_failed_dirs.items() if p in offline] for p in self.names(rows)])

    def begin_term(self, epoch: int, version: int) -> None:
        """Store the epoch of a new term, and the version of its znode."""
        assert version >= 0, "the znode of the epoch exists"
        self.terms += 1
        self.has_term = True
        self.epoch, self.epoch_version = epoch, version

    def live_mask(self) -> BoolArray:
        """Return a mask of the live brokers."""
        registered = self.registered().mask
        if not self.shutting_down:
            return registered
        assert self.shutting_down.keys() <= self.brokers.keys(), "only a registered broker shuts down"
        live = registered.copy()
        live[[broker for broker in self.shutting_down if broker < len(live)]] = False
        return live

    def registered(self) -> Registered:
        """Return the registered brokers as columns, which callers must not change."""
        if self._registered[0] != self.brokers:
            self._registered = dict(self.brokers), Registered.of(self.brokers)
        return self._registered[1]

    # -- rows

    def names(self, rows: IntArray) -> list[TopicPartition]:
        """Return the partitions of some rows."""
        return [TopicPartition(*name) for name in self.table.partitions(rows).names()]

    def rows_of(self, partitions: Iterable[TopicPartition]) -> IntArray:
        """Return the rows of partitions, without unknown partitions."""
        found = [self.table.find(*partition) for partition in partitions]
        return np.array([row for row in found if row is not None], dtype=np.int32)

    def of_topics(self, rows: IntArray, topics: Iterable[str]) -> BoolArray:
        """Return which rows belong to some topics."""
        assert rows.ndim == 1, "rows of the controller's table"
        numbers = [self.table.topic_number(topic) for topic in topics]
        found: BoolArray = np.isin(self.table.topic.take(rows), numbers) if numbers else np.zeros(len(rows), np.bool_)
        return found

    # -- topics and partitions

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return the replica assignment of a partition; an empty one for an unknown partition."""
        if partition not in self.table:
            return ReplicaAssignment(())
        row = self.table.row(*partition)
        return ReplicaAssignment(self.table.replicas_of(row), *self.table.moves_of(row))

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Store the assignment of a partition.

        Duplicates of a broker are removed, and a partition without replicas is removed; `znode_lists` then keeps the
        list of the znode.

        Returns:
            whether the assignment was stored; false if it is invalid, as in a znode that was edited by hand.
        """
        replicas = tuple(dict.fromkeys(assignment.replicas))
        self.znode_lists.pop(partition, None)
        if replicas != assignment.replicas or not replicas:
            self.znode_lists[partition] = assignment.replicas
        if not replicas:
            self._remove_partition(partition)
            return False
        assignment = assignment._replace(replicas=replicas)
        try:
            if partition not in self.table:
                self.table.add(partition.topic, {partition.partition: assignment.replicas})
            if partition in self.table and self.assignment(partition) != assignment:
                row = self.table.row(*partition)
                codes = self.replica_states.pop_row(row)
                try:
                    self.table.set_assignment(row, *assignment)
                finally:
                    self.replica_states.restore_row(row, codes)
        except LayoutError:
            return False
        assert partition in self.table
        return True

    def add_topic(self, topic: str, assignments: Mapping[int, ReplicaAssignment]) -> bool:
        """Store the assignments of a new topic at once; return false, and store nothing, if one needs `set_assignment`.

        That is: a reassignment, an empty list or a list with duplicates, or a topic that has partitions already.
        """
        if topic in self.table.topics or any(one.being_reassigned for one in assignments.values()):
            return False
        # Orders of 2.13 do not depend on the order of insertion, and consecutive rows are found faster.
        if self.scala == "2.13":
            assignments = dict(sorted(assignments.items()))
        lists = [one.replicas for one in assignments.values()]
        if not lists or not all(lists) or any(len(set(replicas)) < len(replicas) for replicas in lists):
            return False
        try:
            self.table.add(topic, {number: one.replicas for number, one in assignments.items()})
        except LayoutError:
            return False
        return True

    def add_topics(self, assigned: Assigned) -> None:
        """Store the assignments of many new topics without reassignments."""
        assert not len(self.table), "many topics are stored first, at a failover"
        self.topic_ids.update(assigned.ids)
        (topics, topic, partition), replicas = assigned.partitions.columns, assigned.replicas
        # Otherwise no iteration order depends on the order of insertion.
        if self.scala != "2.13" or self.rules.has_flat_assignments:
            as_read = np.argsort(topic, kind="stable")
            topic, partition, replicas = topic[as_read], partition[as_read], replicas[as_read]
        self.table.extend(topics, topic, partition, replicas)

    def note_inserted(self, partitions: Iterable[TopicPartition]) -> None:
        """Record the order in which new partitions were inserted into the map of assignments."""
        if self.rules.has_flat_assignments:
            self.order.note_inserted(self.rows_of(partitions))

    def znode_assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        """Return a topic's assignment in the form and order of its znode."""
        lists = {p.partition: self.assignment(p) for p in self.mutable_partitions_of(topic)}
        for partition, replicas in self.znode_lists.items():
            if partition.topic == topic:
                lists[partition.partition] = self.assignment(partition)._replace(replicas=replicas)
        return lists

    def _remove_partition(self, partition: TopicPartition) -> None:
        self.being_reassigned.pop(partition, None)
        row = self.table.find(*partition)
        if row is not None:
            self.partition_states.remove(row)
            self.replica_states.pop_row(row)
            self.table.remove([row])
        assert partition not in self.table

    def leadership(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """Return the partition state that was last read or written; None for a partition without one."""
        if partition not in self.table:
            return None
        return self.table.leader_and_isr(self.table.row(*partition))

    def put_leadership(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """Store the state of a partition."""
        assert state.version >= 0, f"the state of {partition} was neither read nor written"
        if partition in self.table:
            self.table.put(self.table.row(*partition), state)

    def partitions_of(self, topic: str) -> ScalaSet[TopicPartition]:
        """Return the partitions of a topic as an immutable set."""
        return partition_set(self.mutable_partitions_of(topic), self.collections)

    def replicas_on(self, brokers: Iterable[int]) -> tuple[IntArray, IntArray]:
        """Return rows and brokers of the replicas on some brokers, in the order of an immutable set of replicas."""
        brokers = list(brokers)
        assert len({*brokers}) == len(brokers), "a broker is named twice"
        if len(brokers) == 1:
            rows = self.order.on_broker_in_replica_set(brokers[0])
            return rows, np.full(len(rows), brokers[0], dtype=np.int32)
        rows_on = [self.order.on_broker_in_map(broker) for broker in brokers]
        rows = np.concatenate([np.empty(0, dtype=np.int32), *rows_on])
        of_rows = np.repeat(np.array(brokers, dtype=np.int32), [len(rows) for rows in rows_on])
        order = self.order.positions_in_replica_set(rows, of_rows)
        assert len(order) == len(rows), "a broker is named twice"
        return rows[order], of_rows[order]

    def partitions_as_read(self, broker: int) -> list[TopicPartition]:
        """Return the partitions with a replica on a broker in the order in which Kafka 0.8.0 reads topic znodes.

        That is a mutable map of topics, and for each topic an immutable map of the partition numbers in its znode.
        """
        assert self.collections.case_classes, "later releases do not read them again"
        read: list[TopicPartition] = []
        for topic in mutable_order(self.topic_ids, self.scala):
            numbers = {str(partition.partition): partition for partition in self.mutable_partitions_of(topic)}
            parsed = [numbers[number] for number in immutable_order(sorted(numbers), self.scala)]
            read += immutable_order(parsed, self.scala, lambda partition: partition.partition)
        return [partition for partition in read if broker in self.assignment(partition).replicas]

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> ScalaSet[PartitionAndReplica]:
        """Return the replicas of some partitions as an immutable set."""
        found = [PartitionAndReplica(p, broker) for p in partitions for broker in self.assignment(p).replicas]
        return replica_set(found, self.collections)

    def replicas_of_topic(self, topic: str) -> ScalaSet[PartitionAndReplica]:
        """Return the replicas of a topic as an immutable set."""
        return self.replicas_of(self.mutable_partitions_of(topic))

    def online_replicas(self) -> BoolArray:
        """Return which replicas are online: bool[n, w], by row and position in the assignment."""
        online = live_members(self.table.replicas, self.live_mask())
        assert online.shape == self.table.replicas.shape
        for broker, partitions in self.on_failed_dirs.items():
            rows = self.rows_of(partitions)
            online[rows] &= self.table.replicas[rows] != broker
        return online

    def rows_with_offline_leader(self, *, deleted_too: bool = False) -> IntArray:
        """Return the rows without an online leader in the order of the map of assignments.

        Topics to be deleted are left out unless `deleted_too`.
        """
        rows = self.table.rows_not_led_by(self.live_mask())
        for broker, partitions in self.on_failed_dirs.items():
            failed = self.rows_of(partitions)
            rows = sorted_distinct(np.concatenate([rows, failed[self.table.leader[failed] == broker]]))
        if self.to_be_deleted and not deleted_too:
            rows = rows[~self.of_topics(rows, self.to_be_deleted)]
        return self.order.some_in_map_of_all(rows)

    def rows_in(self, *wanted: PartitionState, hashed: bool = False) -> IntArray:
        """Return the rows in some states; `hashed` if Kafka filters them from an immutable map of all partitions."""
        hashed = hashed and len(self.partition_states) > SMALL
        return self.order.in_set(self.order.in_map(self.partition_states.rows_in(*wanted)), hashed=hashed)

    @property
    def orphaned_leaders(self) -> dict[TopicPartition, int]:
        """The leaders of partitions of topics that were removed by their znodes, unless a topic is there again.

        Kafka up to 1.0 keeps them, and fails at them when a broker starts, and when the leader stops (recorded).
        """
        return {partition: leader for partition, leader in self._removed_leaders.items() if partition not in self.table}

    def remove_topic(self, topic: str, *, by_znodes: bool = False) -> None:
        """Remove a topic and its partitions; `by_znodes` if somebody else has deleted its znodes."""
        partitions = self.names(self.table.rows_of(topic))
        for partition in partitions if by_znodes else ():
            state = self.leadership(partition)
            if state is not None:
                self._removed_leaders[partition] = state.leader
        self.to_be_deleted.pop(topic, None)
        self.deletion_started.pop(topic, None)
        self.topic_ids.pop(topic, None)
        for partition in partitions:
            self._remove_partition(partition)
        assert self.table.topic_number(topic) == FREE_TOPIC, f"topic {topic} was removed and has partitions"
        self.znode_lists = {
            partition: replicas for partition, replicas in self.znode_lists.items() if partition.topic != topic
        }

    def check(self) -> None:
        """Assert that the parts of the state are consistent."""
        self.table.check()
        self.partition_states.check()
        assert self.has_term or not (self.brokers or self.topic_ids), "an inactive controller has state"
        assert self.deletion_started.keys() <= self.to_be_deleted.keys()
        assert all(partition.topic in self.topic_ids for partition in self.znode_lists)
        assert self.shutting_down.keys() <= self.brokers.keys() or not self.brokers
        assert not self.has_term or all(partition in self.table for partition in self.being_reassigned)

    def mutable_partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic in the order of the map of its partitions."""
        return self.names(self.order.in_map_of_topic(self.table.rows_of(topic)))
