"""Cluster state read from ZooKeeper as any client reads it: topics, partitions, brokers, controller epoch."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ZnodeError
from simzk.kafka.topic_partition import NO_LEADER, LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import partition_state, topic

if TYPE_CHECKING:
    from simzk.kafka.cluster.zookeeper_access import KafkaTree


class PartitionView(NamedTuple):
    """A partition according to its two znodes; `state` is None if the state znode is missing or invalid."""

    partition: TopicPartition
    assignment: ReplicaAssignment
    state: LeaderAndIsr | None

    @property
    def online(self) -> bool:
        """Whether the partition has a leader."""
        return self.state is not None and self.state.leader != NO_LEADER

    @property
    def in_sync(self) -> bool:
        """Whether all replicas are in the ISR, and no reassignment is in progress."""
        whole = self.state is not None and set(self.state.isr) == set(self.assignment.replicas)
        return whole and not (self.assignment.adding or self.assignment.removing)

    @property
    def preferred(self) -> bool:
        """Whether the leader is the first replica."""
        return self.state is not None and self.state.leader == self.assignment.replicas[0]


def topics(tree: KafkaTree) -> list[str]:
    """Return the names of all topics, sorted."""
    znode = tree.get(paths.TOPICS)
    return [] if znode is None else sorted(znode.child_names())


def partitions(tree: KafkaTree, most: int | None = None) -> list[PartitionView]:
    """Return all partitions, or the first `most`, sorted by topic and number."""
    return list(islice((view for name in topics(tree) for view in _partitions_of(tree, name)), most))


def partition(tree: KafkaTree, wanted: TopicPartition) -> PartitionView | None:
    """Return one partition; None if its topic's znode does not have it."""
    if tree.get(paths.topic(wanted.topic)) is None:
        return None
    return next((view for view in _partitions_of(tree, wanted.topic) if view.partition == wanted), None)


def controller_epoch(tree: KafkaTree) -> int | None:
    """Return the controller epoch in ZooKeeper; None if there is none."""
    znode = tree.get(paths.CONTROLLER_EPOCH)
    return None if znode is None or not znode.data else int(znode.data)


def _partitions_of(tree: KafkaTree, name: str) -> list[PartitionView]:
    path = paths.topic(name)
    znode = tree.get(path)
    assert znode is not None, f"no {path}"
    return [PartitionView(key, assignment, _state(tree, key)) for key, assignment in _assignments(name, znode.data)]


@lru_cache(maxsize=64)
def _assignments(name: str, data: bytes | None) -> tuple[tuple[TopicPartition, ReplicaAssignment], ...]:
    """Return the assignments of a topic by number; none for invalid data.

    A scenario that waits for a whole cluster reads them at every event, and they hardly change.
    """
    try:
        assignments = topic.decode(paths.topic(name), data).partitions
    except ZnodeError:
        return ()
    return tuple((TopicPartition(name, number), assignment) for number, assignment in sorted(assignments.items()))


def _state(tree: KafkaTree, key: TopicPartition) -> LeaderAndIsr | None:
    path = paths.state(key)
    node = tree.get(path)
    if node is None:
        return None
    try:
        return partition_state.decode(path, node.data, node.version)
    except ZnodeError:
        return None
