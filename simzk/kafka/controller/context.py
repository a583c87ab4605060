"""What a controller knows of the cluster: live brokers, assignments, leaders, states; a cache of ZooKeeper.

Rules of the module (ControllerContext; docs/reference/kafka.md §2.3):
  - assignments and leaders stand in a `PartitionTable`; states of partitions and replicas in dictionaries beside it;
  - a broker that is shutting down is not live, though registered;
  - sets of partitions are handed out in the order in which Kafka's collections iterate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import LayoutError
from simzk.kafka.controller.scala_set import (
    ScalaSet,
    mutable_partitions,
    mutable_replicas,
    partition_set,
    replica_set,
)
from simzk.kafka.topic_partition import (
    Collections,
    LeaderAndIsr,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from simzk.partitions.arrays import BoolArray, IntArray, broker_mask, pack
from simzk.partitions.scala_order import SMALL, Scala, mutable_order
from simzk.partitions.table import PartitionTable
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simzk.kafka.controller.states import PartitionState, ReplicaState
    from simzk.kafka.schemas.broker_registration import BrokerRegistration


class LiveBroker(NamedTuple):
    """A registered broker: what it says of itself, and the epoch of its registration."""

    registration: BrokerRegistration
    epoch: int


class ControllerContext:
    """The controller's view. Empty while a broker is not controller.

    Args:
        collections: decide the order of what is handed out.
        flat: assignments stand in one map of partitions (1.1), not in a map of topics to maps of partitions.
    """

    def __init__(self, collections: Collections, *, flat: bool = False) -> None:
        self.collections = collections
        self.scala: Scala = collections.scala
        self._flat = flat
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.epoch = 0
        self.epoch_version = 0
        self.brokers: dict[int, LiveBroker] = {}
        self.shutting_down: dict[int, None] = {}
        self.on_failed_dirs: dict[int, dict[TopicPartition, None]] = {}
        self.topic_ids: dict[str, str | None] = {}
        self.table = PartitionTable()
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[PartitionAndReplica, ReplicaState] = {}
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

    def on_offline_dirs(self, partitions: Sequence[TopicPartition]) -> IntArray | None:
        """The replicas of partitions in log directories that failed, int32[k, v]; None where there are none."""
        if not self.on_failed_dirs:
            return None
        return pack([[b for b, offline in self.on_failed_dirs.items() if p in offline] for p in partitions])

    def live_ids(self) -> list[int]:
        """The live brokers, ascending."""
        return sorted(broker for broker in self.brokers if broker not in self.shutting_down)

    def live_mask(self) -> BoolArray:
        """The live brokers as the rules of partitions take them."""
        return broker_mask(self.live_ids())

    def registered_mask(self) -> BoolArray:
        """The live brokers and those shutting down."""
        return broker_mask(sorted(self.brokers))

    def shutting_down_mask(self) -> BoolArray:
        """The brokers that are shutting down."""
        return broker_mask(sorted(self.shutting_down))

    def racks(self) -> dict[int, str | None]:
        """The registered brokers and their racks."""
        return {broker: live.registration.rack for broker, live in sorted(self.brokers.items())}

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
                self.table.set_assignment(self.table.row(*partition), *assignment)
        except LayoutError:
            return False
        return True

    def written(self, topic: str) -> dict[int, ReplicaAssignment]:
        """A topic's assignment as it stands in the znode."""
        lists = {p.partition: self.assignment(p) for p in self.mutable_partitions_of(topic)}
        for partition, replicas in self.odd.items():
            if partition.topic == topic:
                lists[partition.partition] = self.assignment(partition)._replace(replicas=replicas)
        return lists

    def _forget(self, partition: TopicPartition) -> None:
        self.being_reassigned.pop(partition, None)
        self.partition_states.pop(partition, None)
        for broker in self.assignment(partition).replicas:
            self.replica_states.pop(PartitionAndReplica(partition, broker), None)
        if partition in self.table:
            self.table.remove([self.table.row(*partition)])

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

    def all_partitions(self) -> ScalaSet[TopicPartition]:
        """All partitions."""
        return partition_set(self.in_map_order(), self.collections)

    def partitions_on(self, broker: int) -> ScalaSet[TopicPartition]:
        """The partitions with a replica on a broker."""
        return partition_set(self.in_map_order(only_on=broker), self.collections)

    def replicas_on(self, brokers: Iterable[int]) -> ScalaSet[PartitionAndReplica]:
        """The replicas on some brokers."""
        found = [
            PartitionAndReplica(partition, broker)
            for broker in brokers
            for partition in self.in_map_order(only_on=broker)
        ]
        return replica_set(found, self.collections)

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[PartitionAndReplica]:
        """The replicas of some partitions, partition by partition."""
        found = [PartitionAndReplica(p, broker) for p in partitions for broker in self.assignment(p).replicas]
        return list(replica_set(found, self.collections))

    def replicas_of_topic(self, topic: str) -> ScalaSet[PartitionAndReplica]:
        """The replicas of a topic."""
        partitions = self.mutable_partitions_of(topic)
        found = [PartitionAndReplica(p, broker) for p in partitions for broker in self.assignment(p).replicas]
        return replica_set(found, self.collections)

    def online_and_offline_replicas(self) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
        """All replicas, those that are online and the others."""
        found: tuple[list[PartitionAndReplica], list[PartitionAndReplica]] = ([], [])
        for partition in self.in_map_order():
            for broker in self.assignment(partition).replicas:
                found[0 if self.is_online(broker, partition) else 1].append(PartitionAndReplica(partition, broker))
        return mutable_replicas(found[0], self.collections), mutable_replicas(found[1], self.collections)

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """The partitions whose leader is not online, topics that are to be deleted left out."""
        return [
            partition
            for partition in self.in_map_order()
            if partition.topic not in self.to_be_deleted
            and (state := self.leadership(partition)) is not None
            and not self.is_online(state.leader, partition)
        ]

    def partitions_in(self, *wanted: PartitionState, hashed: bool = False) -> ScalaSet[TopicPartition]:
        """The partitions in some states; `hashed` where they come from an immutable map of all (of more than four)."""
        found = [partition for partition, state in self.partition_states.items() if state in wanted]
        hashed = hashed and len(self.partition_states) > SMALL
        return partition_set(mutable_partitions(found, self.collections), self.collections, hashed=hashed)

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
        assert self.shutting_down.keys() <= self.brokers.keys() or not self.brokers
        assert all(partition in self.table for partition in self.being_reassigned)

    def numbers_of(self, topic: str) -> Sequence[int]:
        """The numbers of the partitions of a topic."""
        numbers: Sequence[int] = self.table.partition[self.table.rows_of(topic)].tolist()
        return numbers

    def mutable_partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic as the map of them iterates."""
        numbers = self.numbers_of(topic)
        if self._flat:
            return mutable_partitions([TopicPartition(topic, number) for number in numbers], self.collections)
        return [TopicPartition(topic, number) for number in mutable_order(numbers, self.scala)]

    def in_map_order(self, only_on: int | None = None) -> list[TopicPartition]:
        """All partitions, or those with a replica on a broker, as Kafka's map of them iterates."""
        rows = self.table.rows() if only_on is None else self.table.rows_with_replica(only_on)
        if self._flat:
            return mutable_partitions(
                [TopicPartition(*self.table.name(row)) for row in rows.tolist()], self.collections
            )
        by_topic: dict[str, list[int]] = {}
        for row in rows.tolist():
            topic, number = self.table.name(row)
            by_topic.setdefault(topic, []).append(number)
        return [
            TopicPartition(topic, number)
            for topic in mutable_order(by_topic, self.scala)
            for number in mutable_order(by_topic[topic], self.scala)
        ]
