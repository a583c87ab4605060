"""Scala's immutable sets as far as their order goes: the order in which the controller reads and writes.

Rule: a set of up to four keeps the order of insertion; a larger one is a hash set and stays one when it is filtered
(docs/reference/kafka.md §1.2, §2.4). What comes from a mutable map or set is in the order of `mutable_order`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from simzk.jvm.scala_maps import SMALL, Scala, hash_order, mutable_order
from simzk.kafka.topic_partition import Collections, PartitionAndReplica, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Key = TypeVar("Key")


class ScalaSet(Generic[Key]):
    """Distinct keys in the order in which a Scala immutable Set iterates.

    Args:
        keys: in the order of insertion.
        hash_of: the JVM's hash of a key.
        scala: the Scala line.
        hashed: whether it is a hash set whatever its size, as one that was filtered is.

    >>> list(ScalaSet([3, 1, 2], hash, "2.13"))
    [3, 1, 2]
    """

    def __init__(
        self, keys: Iterable[Key], hash_of: Callable[[Key], int], scala: Scala, *, hashed: bool = False
    ) -> None:
        self._keys = dict.fromkeys(keys)
        self._hash_of = hash_of
        self._scala = scala
        self._hashed = hashed or len(self._keys) > SMALL

    def __iter__(self) -> Iterator[Key]:
        if self._hashed:
            return iter(hash_order(list(self._keys), self._scala, self._hash_of))
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def filter(self, wanted: Callable[[Key], bool]) -> ScalaSet[Key]:
        """The keys that are wanted, in a set of the same kind."""
        return ScalaSet((key for key in self if wanted(key)), self._hash_of, self._scala, hashed=self._hashed)

    @property
    def hashed(self) -> bool:
        """Whether it is a hash set."""
        return self._hashed


def partition_set(
    partitions: Iterable[TopicPartition], collections: Collections, *, hashed: bool = False
) -> ScalaSet[TopicPartition]:
    """A set of partitions."""
    return ScalaSet(partitions, collections.partition_hash, collections.scala, hashed=hashed)


def replica_set(
    replicas: Iterable[PartitionAndReplica], collections: Collections, *, hashed: bool = False
) -> ScalaSet[PartitionAndReplica]:
    """A set of replicas."""
    return ScalaSet(replicas, collections.replica_hash, collections.scala, hashed=hashed)


def replicas_on(
    partitions: ScalaSet[TopicPartition], broker: int, collections: Collections
) -> ScalaSet[PartitionAndReplica]:
    """The replicas on a broker of a set of partitions, as mapping the set makes them."""
    replicas = [PartitionAndReplica(partition, broker) for partition in partitions]
    return replica_set(replicas, collections, hashed=partitions.hashed)


def mutable_partitions(partitions: Iterable[TopicPartition], collections: Collections) -> list[TopicPartition]:
    """Partitions in the order of a mutable map or set of them."""
    return mutable_order(partitions, collections.scala, collections.partition_hash)


def mutable_replicas(replicas: Iterable[PartitionAndReplica], collections: Collections) -> list[PartitionAndReplica]:
    """Replicas in the order of a mutable map or set of them."""
    return mutable_order(replicas, collections.scala, collections.replica_hash)
