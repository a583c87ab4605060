"""What stands in a cluster's ZooKeeper, read as any client reads it: for expectations and for the closing table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.schemas import partition_state, topic
from simzk.kafka.topic_partition import NO_LEADER, LeaderAndIsr, ReplicaAssignment, TopicPartition

if TYPE_CHECKING:
    from simzk.kafka.cluster.zookeeper_access import KafkaTree


class PartitionView(NamedTuple):
    """A partition as its two znodes have it; `state` is None where the state znode is not there or cannot be read."""

    partition: TopicPartition
    assignment: ReplicaAssignment
    state: LeaderAndIsr | None

    @property
    def online(self) -> bool:
        """Whether it has a leader."""
        return self.state is not None and self.state.leader != NO_LEADER

    @property
    def in_sync(self) -> bool:
        """Whether every replica is in its ISR, and none is being added or removed."""
        whole = self.state is not None and set(self.state.isr) == set(self.assignment.replicas)
        return whole and not (self.assignment.adding or self.assignment.removing)

    @property
    def preferred(self) -> bool:
        """Whether its first replica leads it."""
        return self.state is not None and self.state.leader == self.assignment.replicas[0]


def topics(tree: KafkaTree) -> list[str]:
    """Return the names of all topics, sorted."""
    return sorted(_children(tree, paths.TOPICS))


def partitions(tree: KafkaTree) -> list[PartitionView]:
    """Return all partitions, by topic and number."""
    return [view for name in topics(tree) for view in _partitions_of(tree, name)]


def partition(tree: KafkaTree, wanted: TopicPartition) -> PartitionView | None:
    """Return one partition; None where its topic's znode does not have it."""
    if tree.get(paths.topic(wanted.topic)) is None:
        return None
    return next((view for view in _partitions_of(tree, wanted.topic) if view.partition == wanted), None)


def registered_brokers(tree: KafkaTree) -> list[int]:
    """Return the ids of the brokers that are registered, sorted."""
    return sorted(int(name) for name in _children(tree, paths.BROKER_IDS))


def controller_epoch(tree: KafkaTree) -> int | None:
    """Return what `/controller_epoch` holds; None where it is not there."""
    znode = tree.get(paths.CONTROLLER_EPOCH)
    return None if znode is None or not znode.data else int(znode.data)


def _partitions_of(tree: KafkaTree, name: str) -> list[PartitionView]:
    path = paths.topic(name)
    znode = tree.get(path)
    assert znode is not None, f"no {path}"
    try:
        assignments = topic.decode(path, znode.data).partitions
    except ZnodeError:
        return []
    keys = [(TopicPartition(name, number), assignment) for number, assignment in sorted(assignments.items())]
    return [PartitionView(key, assignment, _state(tree, key)) for key, assignment in keys]


def _state(tree: KafkaTree, key: TopicPartition) -> LeaderAndIsr | None:
    path = paths.state(key)
    node = tree.get(path)
    if node is None:
        return None
    try:
        return partition_state.decode(path, node.data, node.version)
    except ZnodeError:
        return None


def _children(tree: KafkaTree, path: str) -> list[str]:
    znode = tree.get(path)
    return [] if znode is None else list(znode.child_names())
