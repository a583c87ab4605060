"""What a controller knows of the cluster: live brokers, assignments, leaders, states; a cache of ZooKeeper.

Rules of the module (ControllerContext; docs/reference/kafka.md §2.3):
  - assignments and leaders stand in a `PartitionTable`, states of partitions and replicas in columns beside it; many
    partitions are rows of it, int32[k], one is a `TopicPartition`;
  - a broker that is shutting down is not live, though registered;
  - partitions are handed out in the order in which Kafka's collections iterate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.errors import LayoutError
from simzk.jvm.scala_collections import SMALL, Scala, ScalaSet
from simzk.kafka.controller.map_order import MapOrder
from simzk.kafka.controller.state_columns import PartitionStates, ReplicaStates
from simzk.kafka.topic_partition import (
    Collections,
    LeaderAndIsr,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
    partition_set,
    replica_set,
)
from simzk.partitions.arrays import BoolArray, IntArray, broker_mask, pack
from simzk.partitions.table import PartitionTable
from simzk.partitions.transitions import live_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from simzk.kafka.columnar.batches import Assigned
    from simzk.kafka.controller.states import PartitionState, ReplicaState
    from simzk.kafka.schemas.broker_registration import BrokerRegistration
    from simzk.partitions.names import Partitions


class LiveBroker(NamedTuple):
    """A registered broker: what it says of itself, and the epoch of its registration."""

    registration: BrokerRegistration
    epoch: int


class Registered(NamedTuple):
    """The registered brokers, ascending: ids, int32[b], epochs, int64[b], racks, and a mask over broker ids."""

    ids: IntArray
    epochs: NDArray[np.int64]
    racks: dict[int, str | None]
    mask: BoolArray

    @classmethod
    def of(cls, brokers: Mapping[int, LiveBroker]) -> Registered:
        """The columns of brokers by id."""
        ids = sorted(brokers)
        live = [brokers[broker] for broker in ids]
        return cls(
            np.array(ids, dtype=np.int32),
            np.array([epoch for _, epoch in live], dtype=np.int64),
            {broker: registration.rack for broker, (registration, _) in zip(ids, live, strict=True)},
            broker_mask(ids),
        )


class ControllerContext:
    """The controller's view. Empty while a broker is not controller.

    Args:
        collections: decide the order of what is handed out.
        flat: assignments stand in one map of partitions (1.1), not in a map of topics to maps of partitions.
        tells_as_one: all brokers are told in one message, so that nobody sees the order in it.
    """

    def __init__(self, collections: Collections, *, flat: bool = False, tells_as_one: bool = False) -> None:
        self.collections = collections
        self.scala: Scala = collections.scala
        self._flat = flat
        self._tells_as_one = tells_as_one
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.epoch = 0
        self.epoch_version = 0
        self.brokers: dict[int, LiveBroker] = {}
        self._registered: tuple[dict[int, LiveBroker], Registered] = {}, Registered.of({})
        self.shutting_down: dict[int, None] = {}
        self.on_failed_dirs: dict[int, dict[TopicPartition, None]] = {}
        self.topic_ids: dict[str, str | None] = {}
        self.table = PartitionTable()
        self.orders = MapOrder(self.table, self.collections, flat=self._flat)
        self.partition_states = PartitionStates(self.table)
        self.replica_states = ReplicaStates(self.table)
        self.odd: dict[TopicPartition, tuple[int, ...]] = {}
        self.being_reassigned: dict[TopicPartition, tuple[int, ...]] = {}
        self.to_be_deleted: dict[str, None] = {}
        self.deletion_started: dict[str, None] = {}
        self.ineligible_for_deletion: dict[str, None] = {}
        self.haunted = False

    # -- brokers

    def is_live(self, broker: int) -> bool:
        """Whether a broker is registered and not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    def is_online(self, broker: int, partition: TopicPartition) -> bool:
        """Whether a broker is live and its replica of a partition not in a log directory that failed."""
        return self.is_live(broker) and partition not in self.on_failed_dirs.get(broker, {})

    def on_offline_dirs(self, rows: IntArray) -> IntArray | None:
        """The replicas of partitions in log directories that failed, int32[k, v]; None where there are none."""
        if not any(self.on_failed_dirs.values()):
            return None
        return pack([[b for b, offline in self.on_failed_dirs.items() if p in offline] for p in self.names(rows)])

    def live_mask(self) -> BoolArray:
        """The live brokers as the rules of partitions take them."""
        registered = self.registered().mask
        if not self.shutting_down:
            return registered
        live = registered.copy()
        live[[broker for broker in self.shutting_down if broker < len(live)]] = False
        return live

    def registered_mask(self) -> BoolArray:
        """The live brokers and those shutting down."""
        return self.registered().mask

    def shutting_down_mask(self) -> BoolArray:
        """The brokers that are shutting down."""
        return broker_mask(sorted(self.shutting_down))

    def registered(self) -> Registered:
        """The registered brokers as they are told; nobody changes what is handed out."""
        if self._registered[0] != self.brokers:
            self._registered = dict(self.brokers), Registered.of(self.brokers)
        return self._registered[1]

    # -- rows

    def names(self, rows: IntArray) -> list[TopicPartition]:
        """The partitions of some rows."""
        return [TopicPartition(*name) for name in self.table.partitions(rows).names()]

    def rows_of(self, partitions: Iterable[TopicPartition]) -> IntArray:
        """The rows of partitions, those that are not known left out."""
        found = [self.table.find(*partition) for partition in partitions]
        return np.array([row for row in found if row is not None], dtype=np.int32)

    def partitions(self, rows: IntArray) -> Partitions:
        """The partitions of some rows as requests name them."""
        return self.table.partitions(rows)

    def of_topics(self, rows: IntArray, topics: Iterable[str]) -> BoolArray:
        """Which of the rows are of some topics."""
        numbers = [self.table.topic_number(topic) for topic in topics]
        found: BoolArray = np.isin(self.table.topic.take(rows), numbers) if numbers else np.zeros(len(rows), np.bool_)
        return found

    # -- topics and partitions

    @property
    def topics(self) -> Mapping[str, str | None]:
        """All topics with their ids."""
        return self.topic_ids

    def knows(self, partition: TopicPartition) -> bool:
        """Whether the partition has an assignment."""
        return partition in self.table

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Who holds a partition; nobody where it is unknown."""
        if partition not in self.table:
            return ReplicaAssignment(())
        row = self.table.row(*partition)
        return ReplicaAssignment(self.table.replicas_of(row), self.table.adding_of(row), self.table.removing_of(row))

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Note who holds a partition; false, and nothing noted, where that cannot be (a znode edited by hand).

        A broker named twice counts once, and a partition that nobody holds is not known; how the list stands in the
        znode is kept in `odd`.
        """
        replicas = tuple(dict.fromkeys(assignment.replicas))
        self.odd.pop(partition, None)
        if replicas != assignment.replicas or not replicas:
            self.odd[partition] = assignment.replicas
        if not replicas:
            self._forget(partition)
            return False
        assignment = assignment._replace(replicas=replicas)
        try:
            if partition not in self.table:
                self.table.add(partition.topic, {partition.partition: assignment.replicas})
            if partition in self.table and self.assignment(partition) != assignment:
                row = self.table.row(*partition)
                states = self.replica_states.taken_of(row)
                try:
                    self.table.set_assignment(row, *assignment)
                finally:
                    self.replica_states.put_back(row, states)
        except LayoutError:
            return False
        return True

    def add_topic(self, topic: str, assignments: Mapping[int, ReplicaAssignment]) -> bool:
        """Note who holds the partitions of a topic that has none yet; false, and nothing noted, where one cannot be."""
        if topic in self.table.topics or any(one.being_reassigned for one in assignments.values()):
            return False
        if self.scala == "2.13":  # no order depends on that of a text, and rows in turn are found at once
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
        """Note who holds the partitions of topics that are new here and are not being reassigned."""
        self.topic_ids.update(assigned.ids)
        (topics, topic, partition), replicas = assigned.partitions.columns, assigned.replicas
        if self.scala != "2.13" or self._flat:  # else no order depends on where they lie, and they are found at once
            as_read = np.argsort(topic, kind="stable")
            topic, partition, replicas = topic[as_read], partition[as_read], replicas[as_read]
        self.table.extend(topics, topic, partition, replicas)

    def written(self, topic: str) -> dict[int, ReplicaAssignment]:
        """A topic's assignment as it stands in the znode."""
        lists = {p.partition: self.assignment(p) for p in self.mutable_partitions_of(topic)}
        for partition, replicas in self.odd.items():
            if partition.topic == topic:
                lists[partition.partition] = self.assignment(partition)._replace(replicas=replicas)
        return lists

    def _forget(self, partition: TopicPartition) -> None:
        self.being_reassigned.pop(partition, None)
        row = self.table.find(*partition)
        if row is not None:
            self.partition_states.forget(row)
            self.replica_states.taken_of(row)
            self.table.remove([row])

    def leadership(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """The state of a partition as last read or written; None where it has none."""
        if partition not in self.table:
            return None
        return self.table.leader_and_isr(self.table.row(*partition))

    def put_leadership(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """Note the state of a partition."""
        if partition in self.table:
            self.table.put(self.table.row(*partition), state)

    def partitions_of(self, topic: str) -> ScalaSet[TopicPartition]:
        """The partitions of a topic."""
        return partition_set(self.mutable_partitions_of(topic), self.collections)

    def all_partitions(self) -> list[TopicPartition]:
        """All partitions."""
        return self.names(self.all_rows())

    def all_rows(self) -> IntArray:
        """All partitions, as an immutable set of them."""
        return self.orders.everything_in_set()

    def rows_on(self, broker: int) -> IntArray:
        """The partitions with a replica on a broker, as an immutable set of them."""
        return self.orders.on_in_set(broker)

    @property
    def is_ordered_again(self) -> bool:
        """Whether the order in which a broker's replicas are handled is seen only in writes, which 2.13 orders anew.

        There sets and maps order what they are made of by hash; only equal hashes keep the order in which they came,
        which is that of the map in each set that is made of it.
        """
        return self._tells_as_one and self.scala == "2.13" and not self.to_be_deleted

    def replicas_on(self, brokers: Iterable[int]) -> tuple[IntArray, IntArray]:
        """The replicas on some brokers, as an immutable set of them, or as good as that: rows, and brokers."""
        brokers = list(brokers)
        if len(brokers) == 1:
            rows = (self.orders.on if self.is_ordered_again else self.orders.replicas_on)(brokers[0])
            return rows, np.full(len(rows), brokers[0], dtype=np.int32)
        found = [(self.orders.on(broker), broker) for broker in brokers]
        rows = np.concatenate([np.empty(0, dtype=np.int32), *(rows for rows, _ in found)])
        held = np.repeat(np.array([b for _, b in found], dtype=np.int32), [len(rows) for rows, _ in found])
        order = self.orders.of_replicas(rows, held)
        return rows[order], held[order]

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[PartitionAndReplica]:
        """The replicas of some partitions, partition by partition."""
        found = [PartitionAndReplica(p, broker) for p in partitions for broker in self.assignment(p).replicas]
        return list(replica_set(found, self.collections))

    def replicas_of_topic(self, topic: str) -> ScalaSet[PartitionAndReplica]:
        """The replicas of a topic."""
        partitions = self.mutable_partitions_of(topic)
        found = [PartitionAndReplica(p, broker) for p in partitions for broker in self.assignment(p).replicas]
        return replica_set(found, self.collections)

    def online_replicas(self) -> BoolArray:
        """Which replicas are online: bool[n, w], by row and place."""
        online = live_members(self.table.replicas, self.live_mask())
        for broker, partitions in self.on_failed_dirs.items():
            rows = self.rows_of(partitions)
            online[rows] &= self.table.replicas[rows] != broker
        return online

    def rows_with_offline_leader(self, *, deleted_too: bool = False) -> IntArray:
        """The partitions whose leader is not online, as the map of all; without topics that are to be deleted."""
        rows = self.table.rows_not_led_by(self.live_mask())
        for broker, partitions in self.on_failed_dirs.items():
            failed = self.rows_of(partitions)
            rows = np.union1d(rows, failed[self.table.leader[failed] == broker])
        if self.to_be_deleted and not deleted_too:
            rows = rows[~self.of_topics(rows, self.to_be_deleted)]
        return self.orders.some_of_everything(rows)

    def rows_in(self, *wanted: PartitionState, hashed: bool = False) -> IntArray:
        """The partitions in some states; `hashed` where they come from an immutable map of all (of more than four)."""
        hashed = hashed and len(self.partition_states) > SMALL
        return self.orders.in_set(self.orders.in_map(self.partition_states.rows_in(*wanted)), hashed=hashed)

    def replicas_in(self, topic: str, state: ReplicaState) -> ScalaSet[PartitionAndReplica]:
        """The replicas of a topic that are in a state."""
        return self.replicas_of_topic(topic).filter(lambda replica: self.replica_states.get(replica) == state)

    def remove_topic(self, topic: str) -> None:
        """Forget a topic; that its partitions had leaders is forgotten with it, but for 0.8.0 (`haunted`)."""
        led = [p for p in self.mutable_partitions_of(topic) if self.leadership(p) is not None]
        self.haunted = self.haunted or bool(led)
        self.to_be_deleted.pop(topic, None)
        self.deletion_started.pop(topic, None)
        self.topic_ids.pop(topic, None)
        for partition in self.mutable_partitions_of(topic):
            self._forget(partition)
        self.odd = {partition: replicas for partition, replicas in self.odd.items() if partition.topic != topic}

    def check(self) -> None:
        """Assert that what belongs together agrees."""
        self.table.check()
        self.partition_states.check()
        assert self.shutting_down.keys() <= self.brokers.keys() or not self.brokers
        assert all(partition in self.table for partition in self.being_reassigned)

    def numbers_of(self, topic: str) -> Sequence[int]:
        """The numbers of the partitions of a topic."""
        numbers: Sequence[int] = self.table.partition[self.table.rows_of(topic)].tolist()
        return numbers

    def mutable_partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic as the map of them iterates."""
        return self.names(self.orders.of_topic(self.table.rows_of(topic)))
