"""In which order a follower's fetch names partitions, and in which a leader looks for late followers.

Leaders that write ISRs themselves write them in these orders.

Rules of the module (AbstractFetcherThread, ReplicaFetcherThread, FetchRequest; equal to the recordings of each line):
  - what a broker is told to follow at once goes through an immutable map of all of it;
  - 0.8: the fetcher's mutable map, the request's, its groups by topic as they travel, and an immutable map at the
    leader, all keyed by the case class;
  - 0.9 and 0.10.0: the request travels as Java's maps, topic by topic;
  - 0.10.1 to 2.4: topic by topic, in the order of an immutable map (PartitionStates);
  - 2.5 and later: topic by topic, in the order of a mutable map;
  - late followers are looked for in a set of the partitions that are led (up to 0.8.1), later in a ConcurrentHashMap of
    all that the broker has (ReplicaManager.maybeShrinkIsr).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.concurrent_hash_map import concurrent_order
from simzk.jvm.hash_map import hash_map_order
from simzk.jvm.scala_collections import immutable_order, mutable_order, mutable_set_order
from simzk.kafka.topic_partition import Collections, TopicPartition, cluster_partition_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.jvm.scala_collections import Scala
    from simzk.kafka.releases.profile import FetchOrder, OrderRules


def order_told(partitions: Iterable[TopicPartition], naming: FetchOrder, scala: Scala) -> list[TopicPartition]:
    """Partitions that a broker is told to follow in one request, in the order in which its fetchers take them on."""
    return immutable_order(partitions, scala, _keys(naming, scala).partition_hash)


def order_named(followed: Sequence[TopicPartition], naming: FetchOrder, scala: Scala) -> list[TopicPartition]:
    """Partitions of one leader, given as the fetcher took them on, in the order in which the leader looks at them.

    >>> followed = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    >>> [str(partition) for partition in order_named(followed, "by topic", "2.12")]
    ['b-1', 'b-0', 'a-0']
    """
    keys = _keys(naming, scala)
    if naming == "by topic":
        return _by_topic(immutable_order(followed, scala, keys.partition_hash))
    fetched = mutable_order(followed, scala, keys.partition_hash)
    if naming == "by topic, hashed":
        return _by_topic(fetched)
    if naming == "java's maps":
        grouped = _grouped(mutable_order(fetched, scala, Collections(scala).partition_hash))
        travels = [
            TopicPartition(topic, partition)
            for topic in hash_map_order(list(grouped))
            for partition in hash_map_order([of.partition for of in grouped[topic]])
        ]
    else:
        named = immutable_order(mutable_order(fetched, scala, keys.partition_hash), scala, keys.partition_hash)
        grouped = _grouped(named)
        topics = immutable_order(mutable_order(grouped, scala), scala)
        travels = [of for topic in topics for of in immutable_order(grouped[topic], scala, keys.partition_hash)]
    return immutable_order(travels, scala, keys.partition_hash)


def order_checked(
    partitions: Iterable[TopicPartition], led: Callable[[TopicPartition], bool], orders: OrderRules
) -> list[TopicPartition]:
    """Partitions of a broker, given as it came to have them, in the order in which it looks for late followers."""
    if orders.checks_set_of_led:
        return mutable_set_order(filter(led, partitions), orders.scala, cluster_partition_hash)
    ordered = concurrent_order(
        partitions, Collections(orders.scala, orders.brokers_have_case_class_keys).partition_hash
    )
    return list(filter(led, ordered))


def _keys(naming: FetchOrder, scala: Scala) -> Collections:
    return Collections(scala, naming in ("scala's maps", "java's maps"))


def _grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    groups: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(partition.topic, []).append(partition)
    return groups


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [partition for group in _grouped(partitions).values() for partition in group]
