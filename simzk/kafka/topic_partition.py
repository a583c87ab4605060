"""The nouns of a partition: which one, who holds it, who leads it. Values only, called as Kafka calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.jvm.scala_maps import Scala, product_hash, string_hash, topic_partition_hash
from simzk.partitions.names import Partitions
from simzk.partitions.states import LeaderAndIsr

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_LEADER = -1

__all__ = [
    "NO_LEADER",
    "Collections",
    "LeaderAndIsr",
    "PartitionAndReplica",
    "ReplicaAssignment",
    "TopicPartition",
    "hash_of_partition",
    "hash_of_replica",
    "named",
]


class TopicPartition(NamedTuple):
    """A partition of a topic.

    >>> str(TopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionAndReplica(NamedTuple):
    """One replica: a partition, and the broker that holds a copy of it."""

    topic_partition: TopicPartition
    replica: int


class ReplicaAssignment(NamedTuple):
    """Who holds a partition, in preference order, and what a reassignment adds and removes (KIP-455).

    `replicas` contains `adding` and `removing`; both are empty unless a reassignment is under way.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that will be left when the reassignment is done."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas from before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def being_reassigned(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)


def named(partitions: Sequence[tuple[str, int]]) -> Partitions:
    """Partitions as columns.

    >>> named([TopicPartition("b", 1), TopicPartition("a", 0)]).name(1)
    ('a', 0)
    """
    topics = {topic: place for place, topic in enumerate(dict.fromkeys(topic for topic, _ in partitions))}
    columns = [(topics[topic], number) for topic, number in partitions]
    topic, partition = np.array(columns, dtype=np.int32).reshape(len(columns), 2).T
    return Partitions(list(topics), topic, partition)


def hash_of_partition(partition: TopicPartition) -> int:
    """The JVM's hash of `org.apache.kafka.common.TopicPartition`."""
    return topic_partition_hash(partition.topic, partition.partition)


class Collections(NamedTuple):
    """What decides the order in which a release's maps and sets of partitions and replicas iterate.

    Args:
        scala: the Scala line.
        case_classes: the controller's key is the case class `TopicAndPartition(topic, partition)`, and a replica is
            `PartitionAndReplica(topic, partition, replica)`: up to 1.0. Later the key is the clients' TopicPartition.
    """

    scala: Scala
    case_classes: bool = False

    def partition_hash(self, partition: TopicPartition) -> int:
        """The JVM's hash of a partition as the controller names it."""
        if self.case_classes:
            return product_hash(string_hash(partition.topic), partition.partition)
        return hash_of_partition(partition)

    def replica_hash(self, replica: PartitionAndReplica) -> int:
        """The JVM's hash of a replica."""
        if self.case_classes:
            topic, partition = replica.topic_partition
            return product_hash(string_hash(topic), partition, replica.replica)
        return hash_of_replica(replica, self.scala)


def hash_of_replica(replica: PartitionAndReplica, scala: Scala = "2.13") -> int:
    """The JVM's hash of the case class `PartitionAndReplica(topicPartition, replica)` as a Scala line compiles it.

    From 2.13 on the name of the class is mixed in before the fields.
    """
    partition_hash = hash_of_partition(replica.topic_partition)
    class_name = "PartitionAndReplica" if scala == "2.13" else ""
    return product_hash(partition_hash, replica.replica, class_name=class_name)
