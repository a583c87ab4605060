"""Metadata cache of a broker: leaders, ISRs, assignments and live brokers as the last updates had them.

Rule of this module: only updates of the metadata plane change a cache, so it is as stale as the last one that arrived.
A partition of a topic that is being deleted is removed; live brokers that an update does not name are removed, except
up to 0.8.1 (MetadataCache.updateCache; docs/reference/kafka.md §2.7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.metadata.changes import LEADER_DURING_DELETE
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.metadata.changes import PartitionUpdate
    from simzk.kafka.topic_partition import LeaderAndIsr


class BrokerMetadata(NamedTuple):
    """Copy of a broker's metadata cache at one instant.

    Args:
        controller: the controller's id; None before the first request of a controller.
        live_brokers: live brokers by ascending id, with racks.
        partitions: leader, ISR and epochs by partition.
    """

    controller: int | None
    live_brokers: Mapping[int, str | None]
    partitions: Mapping[TopicPartition, LeaderAndIsr]

    def state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        """Return the cached state of a partition; None if there is none."""
        return self.partitions.get(TopicPartition(topic, partition))


class MetadataCache:
    """Metadata cache of a broker.

    Args:
        forgets: whether brokers are removed that a request does not name.

    Attributes:
        assignments: assigned replicas by partition.
        topics: the known partitions by topic and number.
        topic_ids: id by topic, as far as topics have ids.
        topic_names: topic by id.
        observers: called after each update with the topics that it named.
        revision: number of updates so far.
        topic_revisions: by known topic, the last update that named it.
        live_revision: the last update that changed the live brokers or their racks.
    """

    def __init__(self, *, forgets: bool) -> None:
        self.controller_id: int | None = None
        self.live_brokers: dict[int, str | None] = {}
        self.partitions: dict[TopicPartition, LeaderAndIsr] = {}
        self.assignments: dict[TopicPartition, tuple[int, ...]] = {}
        self.topics: dict[str, dict[int, TopicPartition]] = {}
        self.topic_ids: dict[str, str] = {}
        self.topic_names: dict[str, str] = {}
        self.observers: list[Callable[[set[str]], None]] = []
        self.revision: int = 0
        self.topic_revisions: dict[str, int] = {}
        self.live_revision: int = 0
        self._forgets = forgets

    def update(
        self,
        controller_id: int,
        updates: Sequence[PartitionUpdate],
        live_brokers: Mapping[int, str | None],
        topic_ids: Mapping[str, str],
    ) -> None:
        """Apply an update.

        Args:
            controller_id: the controller.
            updates: states and assignments of partitions that changed.
            live_brokers: all live brokers with their racks.
            topic_ids: ids of the topics that changed, as far as topics have ids (2.8).
        """
        self.revision += 1
        self.controller_id = controller_id
        live = ({} if self._forgets else self.live_brokers) | dict(live_brokers)
        if live != self.live_brokers:
            self.live_revision = self.revision
        self.live_brokers = live
        for partition, state, assignment, _ in updates:
            self.topic_revisions[partition.topic] = self.revision
            if state.leader == LEADER_DURING_DELETE:
                self._remove(partition)
            else:
                self.partitions[partition] = state
                self.assignments[partition] = assignment.replicas
                self.topics.setdefault(partition.topic, {})[partition.partition] = partition
        assert len(self.partitions) == len(self.assignments)
        for topic, topic_id in topic_ids.items():
            if topic in self.topics:
                self._set_topic_id(topic, topic_id)
        if self.observers:
            named = {update.partition.topic for update in updates}
            for observer in list(self.observers):
                observer(named)

    def _remove(self, partition: TopicPartition) -> None:
        numbers = self.topics.get(partition.topic, {})
        assert (partition in self.partitions) == (partition.partition in numbers), f"{partition} is known by half"
        self.partitions.pop(partition, None)
        self.assignments.pop(partition, None)
        numbers.pop(partition.partition, None)
        if not numbers:
            self.topics.pop(partition.topic, None)
            self.topic_revisions.pop(partition.topic, None)
            self._forget_topic_id(partition.topic)

    def _set_topic_id(self, topic: str, topic_id: str) -> None:
        if self.topic_ids.get(topic) != topic_id:
            self._forget_topic_id(topic)
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def _forget_topic_id(self, topic: str) -> None:
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None and self.topic_names.get(topic_id) == topic:
            del self.topic_names[topic_id]

    def snapshot(self) -> BrokerMetadata:
        """Return a copy of the present content."""
        return BrokerMetadata(self.controller_id, dict(sorted(self.live_brokers.items())), dict(self.partitions))
