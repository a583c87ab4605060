"""Order of partitions in fetches, and in a leader's check for lagging followers.

Leaders that write ISRs to ZooKeeper write them in these orders.

Rules of this module (AbstractFetcherThread, ReplicaFetcherThread, FetchRequest; equal to recordings of each release):
  - the new partitions of one LeaderAndIsr pass through an immutable map;
  - 0.8: the mutable map of the fetcher, that of the request, its groups by topic on the wire, and an immutable map at
    the leader, all with the case class as key;
  - 0.9 and 0.10.0: the request is encoded from Java maps, topic by topic;
  - 0.10.1 to 2.4: topic by topic, in the order of an immutable map (PartitionStates);
  - 2.5 and later: topic by topic, in the order of a mutable map;
  - the check for lagging followers iterates a set of the led partitions (up to 0.8.1), later a ConcurrentHashMap of all
    partitions of the broker (ReplicaManager.maybeShrinkIsr).
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


def order_added(partitions: Iterable[TopicPartition], fetches: FetchOrder, scala: Scala) -> list[TopicPartition]:
    """Return the partitions to follow of one LeaderAndIsr, in the order in which fetchers add them."""
    return immutable_order(partitions, scala, _keys(fetches, scala).partition_hash)


def order_fetched(followed: Sequence[TopicPartition], fetches: FetchOrder, scala: Scala) -> list[TopicPartition]:
    """Return the followed partitions of one leader, in the order in which it handles them in a fetch.

    They are given in the order in which the fetcher added them.

    >>> followed = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    >>> [str(partition) for partition in order_fetched(followed, "by topic", "2.12")]
    ['b-1', 'b-0', 'a-0']
    """
    keys = _keys(fetches, scala)
    if fetches == "by topic":
        return _by_topic(immutable_order(followed, scala, keys.partition_hash))
    fetched = mutable_order(followed, scala, keys.partition_hash)
    if fetches == "by topic, hashed":
        return _by_topic(fetched)
    if fetches == "java's maps":
        grouped = _grouped(mutable_order(fetched, scala, Collections(scala).partition_hash))
        on_wire = [
            TopicPartition(topic, partition)
            for topic in hash_map_order(list(grouped))
            for partition in hash_map_order([of.partition for of in grouped[topic]])
        ]
    else:
        named = immutable_order(mutable_order(fetched, scala, keys.partition_hash), scala, keys.partition_hash)
        grouped = _grouped(named)
        topics = immutable_order(mutable_order(grouped, scala), scala)
        on_wire = [of for topic in topics for of in immutable_order(grouped[topic], scala, keys.partition_hash)]
    return immutable_order(on_wire, scala, keys.partition_hash)


def order_checked(
    partitions: Iterable[TopicPartition], is_led: Callable[[TopicPartition], bool], orders: OrderRules
) -> list[TopicPartition]:
    """Return the led ones of a broker's partitions, in the order of the check for lagging followers."""
    if orders.checks_set_of_led:
        return mutable_set_order(filter(is_led, partitions), orders.scala, cluster_partition_hash)
    ordered = concurrent_order(
        partitions, Collections(orders.scala, orders.brokers_have_case_class_keys).partition_hash
    )
    return list(filter(is_led, ordered))


def _keys(fetches: FetchOrder, scala: Scala) -> Collections:
    return Collections(scala, fetches in ("scala's maps", "java's maps"))


def _grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    groups: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(partition.topic, []).append(partition)
    return groups


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [partition for group in _grouped(partitions).values() for partition in group]
