"""Whether anything is left to come into sync: what a simulation that waits for rest asks.

Rules of the module:
  - every partition that can have a leader has one, and every replica that can be in sync is;
  - topics that are to be deleted are not looked at: they wait for brokers that are gone;
  - what the controller believes comes first; where that is not at rest the znodes are asked: up to 0.8.2 it
    does not hear of the ISRs that leaders write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.schemas import partition_state
from simzk.kafka.topic_partition import TopicPartition
from simzk.partitions.arrays import BoolArray, IntArray, contained, pack
from simzk.partitions.transitions import live_members

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from simzk.kafka.cluster.zookeeper_access import KafkaTree
    from simzk.partitions.table import PartitionTable


def all_in_sync(
    table: PartitionTable, tree: KafkaTree, live: BoolArray, lost: Mapping[int, Collection[TopicPartition]]
) -> bool:
    """Whether nothing is left to come into sync.

    Args:
        table: what the controller believes.
        tree: what stands in ZooKeeper.
        live: by broker id, whether it runs.
        lost: by broker, the partitions that are in log directories that failed.
    """
    lost = {broker: partitions for broker, partitions in lost.items() if partitions}
    rows = table.rows()
    requests = tree.get(paths.DELETE_TOPICS)
    deleted = [] if requests is None else [table.topic_number(topic) for topic in requests.child_names()]
    rows = rows[~np.isin(table.topic[rows], deleted)] if deleted else rows
    rows = rows[table.version[rows] >= 0]
    stuck = rows[_stuck(table.replicas[rows], table.isr[rows], table.leader[rows], live, _of(table, rows, lost))]
    for row in stuck.tolist():
        path = paths.state(TopicPartition(*table.name(row)))
        node = tree.get(path)
        try:
            state = partition_state.decode(path, None if node is None else node.data)
        except ZnodeError:
            return False
        leader = np.array([state.leader], dtype=np.int32)
        offline = _of(table, np.array([row]), lost)
        if _stuck(table.replicas[[row]], pack([state.isr]), leader, live, offline)[0]:
            return False
    return True


def _of(table: PartitionTable, rows: IntArray, lost: Mapping[int, Collection[TopicPartition]]) -> IntArray | None:
    """Of each partition the brokers that have lost its replica."""
    if not lost:
        return None
    partitions = [TopicPartition(*table.name(row)) for row in rows.tolist()]
    return pack([[broker for broker, offline in lost.items() if partition in offline] for partition in partitions])


def _stuck(replicas: IntArray, isr: IntArray, leader: IntArray, live: BoolArray, offline: IntArray | None) -> BoolArray:
    """By partition: led, but a live replica is not in sync; or not led, though a member of the ISR lives."""
    missing = live_members(replicas, live, offline) & ~contained(replicas, isr)
    electable = live_members(isr, live, offline) & contained(isr, replicas)
    led = live_members(leader[:, None], live, offline)[:, 0]
    stuck: BoolArray = led & np.any(missing, axis=1) | ~led & np.any(electable, axis=1)
    return stuck
