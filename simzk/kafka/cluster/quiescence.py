"""Detection of replicas and leaders that can still change: the core of `KafkaCluster.run_until_quiet`.

Rules of this module:
  - a cluster is in sync if every partition that can have a leader has one, and every replica that can be in sync is;
  - topics marked for deletion do not count: their deletion waits for brokers that do not run;
  - the controller's table is checked first, because it is in columns. Where it shows a partition out of sync, the
    znode decides: up to 0.8.2 the controller is not notified of ISRs that leaders write.
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


def replicas_are_in_sync(
    table: PartitionTable, tree: KafkaTree, live: BoolArray, lost: Mapping[int, Collection[TopicPartition]]
) -> bool:
    """Return whether every replica that can be in sync is, and every partition that can have a leader has one.

    Args:
        table: the controller's partition table.
        tree: the znodes.
        live: bool by broker id, True for a broker that runs.
        lost: partitions in failed log directories, by broker id.
    """
    lost = {broker: partitions for broker, partitions in lost.items() if partitions}
    rows = table.rows()
    requests = tree.get(paths.DELETE_TOPICS)
    deleted = [] if requests is None else [table.topic_number(topic) for topic in requests.child_names()]
    rows = rows[~np.isin(table.topic[rows], deleted)] if deleted else rows
    rows = rows[table.version[rows] >= 0]
    offline = _lost_replicas(table, rows, lost)
    pending = rows[_out_of_sync(table.replicas[rows], table.isr[rows], table.leader[rows], live, offline)]
    for row in pending.tolist():
        path = paths.state(TopicPartition(*table.name(row)))
        node = tree.get(path)
        try:
            state = partition_state.decode(path, None if node is None else node.data)
        except ZnodeError:
            return False
        leader = np.array([state.leader], dtype=np.int32)
        offline = _lost_replicas(table, np.array([row]), lost)
        if _out_of_sync(table.replicas[[row]], pack([state.isr]), leader, live, offline)[0]:
            return False
    return True


def _lost_replicas(
    table: PartitionTable, rows: IntArray, lost: Mapping[int, Collection[TopicPartition]]
) -> IntArray | None:
    """Return, by row, the brokers whose replica is in a failed log directory; None if no directory failed."""
    if not lost:
        return None
    partitions = [TopicPartition(*table.name(row)) for row in rows.tolist()]
    return pack([[broker for broker, offline in lost.items() if partition in offline] for partition in partitions])


def _out_of_sync(
    replicas: IntArray, isr: IntArray, leader: IntArray, live: BoolArray, offline: IntArray | None
) -> BoolArray:
    """Return which partitions can still change: those with a live leader and a live replica outside the ISR, and those
    without a live leader but with a live member of the ISR."""
    missing = live_members(replicas, live, offline) & ~contained(replicas, isr)
    electable = live_members(isr, live, offline) & contained(isr, replicas)
    led = live_members(leader[:, None], live, offline)[:, 0]
    pending: BoolArray = led & np.any(missing, axis=1) | ~led & np.any(electable, axis=1)
    return pending
