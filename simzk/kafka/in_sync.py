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
from simzk.partitions.arrays import BoolArray, IntArray, among, contained, pack

if TYPE_CHECKING:
    from simzk.partitions.table import PartitionTable
    from simzk.zookeeper.tree import DataTree


def all_in_sync(table: PartitionTable, tree: DataTree, live: BoolArray) -> bool:
    """Whether nothing is left to come into sync.

    Args:
        table: what the controller believes.
        tree: what stands in ZooKeeper.
        live: by broker id, whether it runs.
    """
    rows = table.rows()
    deleted = [index for index, topic in enumerate(table.topics) if paths.delete_topic(topic) in tree]
    rows = rows[~np.isin(table.topic[rows], deleted) & (table.version[rows] >= 0)]
    stuck = rows[_stuck(table.replicas[rows], table.isr[rows], table.leader[rows], live)]
    for row in stuck.tolist():
        path = paths.state(TopicPartition(*table.name(row)))
        node = tree.get(path)
        try:
            state = partition_state.decode(path, None if node is None else node.data)
        except ZnodeError:
            return False
        leader = np.array([state.leader], dtype=np.int32)
        if _stuck(table.replicas[[row]], pack([state.isr]), leader, live)[0]:
            return False
    return True


def _stuck(replicas: IntArray, isr: IntArray, leader: IntArray, live: BoolArray) -> BoolArray:
    """By partition: led, but a live replica is not in sync; or not led, though a member of the ISR lives."""
    missing = among(replicas, live) & ~contained(replicas, isr)
    electable = among(isr, live) & contained(isr, replicas)
    led = among(leader[:, None], live)[:, 0]
    stuck: BoolArray = led & np.any(missing, axis=1) | ~led & np.any(electable, axis=1)
    return stuck
