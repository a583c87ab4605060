"""Scala's sets against the order in which a real 3.9.1 controller read and wrote partition states.

The orders were seen on the wire of the recorded cluster: each list is what the controller asked for, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.jvm.scala_collections import mutable_order
from simzk.kafka.topic_partition import (
    Collections,
    PartitionAndReplica,
    TopicPartition,
    mutable_partitions,
    partition_set,
    replica_set,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COLLECTIONS = Collections("2.13")
NAMES = {"t1": "t1", "t2": "t2", "co": "__consumer_offsets"}


def _partitions(text: str) -> list[TopicPartition]:
    return [TopicPartition(NAMES[name[:2]], int(name[3:])) for name in text.split()]


def _replicas_in_set(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [r.topic_partition for r in replica_set([PartitionAndReplica(p, 3) for p in partitions], COLLECTIONS)]


def _replicas_in_mutable_set(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    replicas = [PartitionAndReplica(p, 1) for p in partitions]
    return [r.topic_partition for r in mutable_order(replicas, COLLECTIONS.scala, COLLECTIONS.replica_hash)]


def _replicas_mapped(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    mapped = partition_set(partitions, COLLECTIONS)
    replicas = [PartitionAndReplica(p, 3) for p in mapped]
    return [r.topic_partition for r in replica_set(replicas, COLLECTIONS, hashed=mapped.hashed)]


def _in_set(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return list(partition_set(partitions, COLLECTIONS))


def _filtered(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return list(partition_set(partitions, COLLECTIONS, hashed=True))


def _in_mutable_map(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return mutable_partitions(partitions, COLLECTIONS)


@pytest.mark.parametrize(
    ("order_of", "seen"),
    [
        pytest.param(_in_set, "t2-1 t2-0 t1-1 t2-2 t2-3 t1-2 t1-0", id="failover reads all states"),
        pytest.param(
            _in_set,
            "t2-0 t1-1 t2-2 t2-3 t1-2 t2-4 co-2 t1-0 co-0 co-1 t2-1 t2-5",
            id="the next failover reads all states",
        ),
        pytest.param(_replicas_in_mutable_set, "t1-1 t2-3 t2-0 t1-0 t2-2 t1-2", id="failover finds dead replicas"),
        pytest.param(_in_set, "t2-0 t1-1 t2-2 t2-3 t1-2 t1-0", id="and writes their states"),
        pytest.param(
            _replicas_in_set, "co-1 t2-1 t2-2 t1-0 co-0 t2-5 t2-4 t1-2 t2-3 co-2", id="a dead broker's replicas"
        ),
        pytest.param(_filtered, "t2-5 t2-2 t1-2 co-1", id="led by a broker that shuts down"),
        pytest.param(_replicas_mapped, "t2-4 t2-1 t1-0 co-0 t2-3 co-2", id="followed by it"),
        pytest.param(_filtered, "t2-5 t2-4", id="added partitions"),
        pytest.param(_in_mutable_map, "t2-5 t2-3 t2-2 t2-0", id="deletion: up to four states, from a mutable map"),
        pytest.param(_in_set, "t2-2 t2-3 t2-4 t2-1 t2-5", id="deletion: more than four"),
    ],
)
def test_the_order_of_the_wire(order_of: Callable[[Iterable[TopicPartition]], list[TopicPartition]], seen: str) -> None:
    assert order_of(sorted(_partitions(seen))) == _partitions(seen)


def test_a_set_of_up_to_four_keeps_the_order_of_insertion_and_is_a_set() -> None:
    keys = _partitions("t2-3 t1-0 t2-3 t1-1")
    small = partition_set(keys, COLLECTIONS)
    assert list(small) == _partitions("t2-3 t1-0 t1-1")
    assert len(small) == 3
    assert keys[1] in small
    assert list(small.filter(lambda partition: partition.topic == "t1")) == _partitions("t1-0 t1-1")
