"""Invariants of a group of old consumers: at every event, and after the last rebalance.

Rules of the module (docs/reference/kafka.md §4.3, §4.6):
  - no two consumers with a live session and running fetchers own the same partition; a consumer that has not yet
    noticed the end of its session may believe so for a while (§4.6, lost commit);
  - at rest, the owners in ZooKeeper equal the assignor's result for the members, threads and partitions in ZooKeeper,
    and each live consumer owns what ZooKeeper says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.consumer import group_registry, subscriptions
from simzk.kafka.zookeeper_mode.consumer.assignors import GroupView, ThreadId
from simzk.kafka.zookeeper_mode.consumer.consumer import assignor_of
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.zookeeper_mode.consumer.consumer import Consumer
    from simzk.simulation import Event
    from simzk.zookeeper.server import Server
    from simzk.zookeeper.tree import DataTree


class OneOwner:
    """No partition has two owners.

    Args:
        server: ZooKeeper server with the sessions.
        consumers: members of one group; the list may grow later.
    """

    name = "a partition has at most one owner in a group"

    def __init__(self, server: Server, consumers: Sequence[Consumer]) -> None:
        self._server = server
        self._consumers = consumers

    def check(self, event: Event) -> str | None:
        """Return a message that names a partition with two owners."""
        if event.what != "rebalanced":  # no other event gives a consumer partitions
            return None
        owners: dict[TopicPartition, str] = {}
        for consumer in self._consumers:
            if consumer.consuming and consumer.session_id in self._server.sessions:
                for partition in consumer.owned():
                    if partition in owners:
                        return f"{partition} is owned by {owners[partition]} and by {consumer.name}"
                    owners[partition] = consumer.name
        return None


def expected_owners(tree: DataTree, group: str, like: Consumer) -> dict[TopicPartition, str]:
    """Return the owners of a group at rest, assigned from the tree.

    Args:
        tree: tree of the server.
        group: name of the group.
        like: a member; its release and settings choose the assignor.
    """
    threads: dict[str, list[ThreadId]] = {}
    internal = like.config.boolean("exclude.internal.topics")
    excluded = like.version.internal_topics if internal else frozenset()
    topics = sorted(_names(tree, paths.TOPICS))
    parent = group_registry.ids(group)
    for member in sorted(_names(tree, parent)):
        registration = subscriptions.decode(f"{parent}/{member}", _data(tree, f"{parent}/{member}"))
        counts = subscriptions.of_registration(registration, excluded).threads_by_topic(topics)
        for topic, count in counts.items():
            threads.setdefault(topic, []).extend(ThreadId(member, number) for number in range(count))
    partitions = {topic: _partitions(tree, topic) for topic in threads}
    view = GroupView(tuple(threads), partitions, {topic: sorted(found, key=str) for topic, found in threads.items()})
    if not threads:
        return {}
    return {partition: str(thread) for partition, thread in assignor_of(like.version, like.config)(view).items()}


def owners(tree: DataTree, group: str) -> dict[TopicPartition, str]:
    """Return the owners of a group in the tree."""
    parent = f"{paths.CONSUMERS}/{group}/owners"
    found = {}
    for topic in sorted(_names(tree, parent)):
        for number in sorted(_names(tree, f"{parent}/{topic}"), key=int):
            partition = TopicPartition(topic, int(number))
            found[partition] = (_data(tree, group_registry.owner(group, partition)) or b"").decode()
    return found


def _names(tree: DataTree, path: str) -> list[str]:
    node = tree.get(path)
    return [] if node is None else node.child_names()


def _data(tree: DataTree, path: str) -> bytes | None:
    node = tree.get(path)
    return None if node is None else node.data


def _partitions(tree: DataTree, topic: str) -> list[int]:
    try:
        return sorted(topic_schema.decode(paths.topic(topic), _data(tree, paths.topic(topic))).partitions)
    except ZnodeError:
        return []
