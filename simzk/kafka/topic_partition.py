"""Partitions, replicas and assignments as values, named as in Kafka, with the JVM hash codes that order them.

Rules of the module (docs/reference/kafka.md §1.2):
  - the iteration order of a Scala collection follows from the hash codes of its keys; up to 1.0 the keys of the
    controller are case classes, later the clients' `TopicPartition`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.jvm.hash_codes import (
    java_map_hash,
    product_hash,
    scala_map_hash,
    signed_32,
    string_hash,
    wrapped_map_hash,
)
from simzk.jvm.scala_collections import Scala, ScalaSet, mutable_order
from simzk.jvm.scala_columns import product_hashes
from simzk.partitions.states import LeaderAndIsr as LeaderAndIsr
from simzk.partitions.table import Partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.partitions.arrays import IntArray

NO_LEADER = -1


class TopicPartition(NamedTuple):
    """A partition of a topic.

    >>> str(TopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def grouped_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Return partitions by topic; topics and partitions keep their order.

    >>> grouped_by_topic([TopicPartition("orders", 1), TopicPartition("orders", 0)])["orders"][0].partition
    1
    """
    groups: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(partition.topic, []).append(partition)
    return groups


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic; topics and numbers keep their order.

    >>> numbers_by_topic([TopicPartition("b", 0), TopicPartition("a", 1), TopicPartition("b", 2)])
    {'b': [0, 2], 'a': [1]}
    """
    return {topic: [one.partition for one in found] for topic, found in grouped_by_topic(partitions).items()}


class PartitionAndReplica(NamedTuple):
    """Replica of a partition on one broker."""

    topic_partition: TopicPartition
    replica: int


class ReplicaAssignment(NamedTuple):
    """Replica assignment of a partition, with the progress of a reassignment (KIP-455).

    Args:
        replicas: brokers in preference order, adding and removing ones included.
        adding: brokers that the reassignment adds; empty without a reassignment.
        removing: brokers that the reassignment removes; empty without a reassignment.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """Replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """Replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def to_text(self) -> str:
        """Return the assignment as histories show it.

        >>> ReplicaAssignment((3, 1, 2), adding=(3,)).to_text()
        '[3, 1, 2] adding [3]'
        """
        text = str(list(self.replicas))
        if self.adding:
            text += f" adding {list(self.adding)}"
        if self.removing:
            text += f" removing {list(self.removing)}"
        return text

    @property
    def being_reassigned(self) -> bool:
        """Whether a reassignment is in progress."""
        return bool(self.adding or self.removing)


def named(partitions: Sequence[tuple[str, int]]) -> Partitions:
    """Return partitions as columns.

    >>> named([TopicPartition("b", 1), TopicPartition("a", 0)]).name(1)
    ('a', 0)
    """
    topics = {topic: place for place, topic in enumerate(dict.fromkeys(topic for topic, _ in partitions))}
    columns = [(topics[topic], number) for topic, number in partitions]
    topic, partition = np.array(columns, dtype=np.int32).reshape(len(columns), 2).T
    return Partitions(list(topics), topic, partition)


def topic_partition_hash(topic: str, partition: int) -> int:
    """Return the `hashCode` of `org.apache.kafka.common.TopicPartition`.

    >>> topic_partition_hash("t", 0)
    1077
    """
    return signed_32(31 * (31 + partition) + string_hash(topic))


def topic_and_partition_hash(partition: TopicPartition) -> int:
    """Return the `hashCode` of the case class `kafka.common.TopicAndPartition`, the key of Kafka up to 1.0."""
    return product_hash(string_hash(partition.topic), partition.partition)


def cluster_partition_hash(partition: TopicPartition) -> int:
    """Return the `hashCode` of `kafka.cluster.Partition`, a broker's own replica of a partition."""
    return signed_32(31 + string_hash(partition.topic) + 17 * partition.partition)


def json_partition_hash(partition: tuple[str, int], *, byteswapped: bool = False) -> int:
    """Return the `hashCode` of the Java map `{"topic": t, "partition": p}` that Kafka makes for JSON.

    Args:
        partition: topic and number.
        byteswapped: True for the wrapper of Scala before 2.12.8, which mixes the bits of its entries.

    >>> json_partition_hash(("t1", 0))
    -1689266692
    """
    return (wrapped_map_hash if byteswapped else java_map_hash)(_json_fields(partition))


def scala_json_partition_hash(partition: tuple[str, int]) -> int:
    """Return the `hashCode` of the Scala map `Map("topic" -> t, "partition" -> p)` that Kafka up to 1.0 makes."""
    return scala_map_hash(_json_fields(partition))


def _json_fields(partition: tuple[str, int]) -> tuple[tuple[int, int], ...]:
    return (string_hash("topic"), string_hash(partition[0])), (string_hash("partition"), partition[1])


class Collections(NamedTuple):
    """Scala version and key classes of a release, which fix the iteration order of partitions and replicas.

    Args:
        scala: the Scala version.
        case_classes: whether the controller's keys are the case classes `TopicAndPartition(topic, partition)` and
            `PartitionAndReplica(topic, partition, replica)` (up to 1.0). Later the key is the clients' TopicPartition.
    """

    scala: Scala
    case_classes: bool = False

    def partition_hash(self, partition: TopicPartition) -> int:
        """Return the `hashCode` of a partition as a key of the controller."""
        if self.case_classes:
            return topic_and_partition_hash(partition)
        return topic_partition_hash(*partition)

    def replica_hash(self, replica: PartitionAndReplica) -> int:
        """Return the `hashCode` of a replica as a key of the controller: of a case class.

        From Scala 2.13 on it mixes in the class name before the fields.
        """
        if self.case_classes:
            topic, partition = replica.topic_partition
            return product_hash(string_hash(topic), partition, replica.replica)
        class_name = "PartitionAndReplica" if self.scala == "2.13" else ""
        return product_hash(topic_partition_hash(*replica.topic_partition), replica.replica, class_name=class_name)


def partition_hashes(topic: IntArray, partition: IntArray, *, case_classes: bool = False) -> IntArray:
    """Return the hash codes of partitions as the controller names them: int32[k].

    Args:
        topic: int32[k], hash codes of the topics.
        partition: int32[k], ids.
        case_classes: the key is the case class `TopicAndPartition` (up to Kafka 1.0).

    >>> partition_hashes(np.array([116], np.int32), np.array([0], np.int32)).tolist()
    [1077]
    """
    if case_classes:
        return product_hashes(topic, partition)
    wrapped: IntArray = (np.uint32(31) * (np.uint32(31) + partition.view(np.uint32)) + topic.view(np.uint32)).view(
        np.int32
    )
    return wrapped


def replica_hashes(partition: IntArray, broker: IntArray, scala: Scala) -> IntArray:
    """Return the hash codes of `PartitionAndReplica(topicPartition, replica)`, int32[k], by those of the partitions."""
    return product_hashes(partition, broker, class_name="PartitionAndReplica" if scala == "2.13" else "")


def partition_set(
    partitions: Iterable[TopicPartition], collections: Collections, *, hashed: bool = False
) -> ScalaSet[TopicPartition]:
    """Return an immutable Set of partitions."""
    return ScalaSet(partitions, collections.partition_hash, collections.scala, hashed=hashed)


def replica_set(
    replicas: Iterable[PartitionAndReplica], collections: Collections, *, hashed: bool = False
) -> ScalaSet[PartitionAndReplica]:
    """Return an immutable Set of replicas."""
    return ScalaSet(replicas, collections.replica_hash, collections.scala, hashed=hashed)


def mutable_partitions(partitions: Iterable[TopicPartition], collections: Collections) -> list[TopicPartition]:
    """Return partitions in the order of a mutable map or set."""
    return mutable_order(partitions, collections.scala, collections.partition_hash)
