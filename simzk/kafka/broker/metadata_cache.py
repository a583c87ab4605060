"""Metadata cache of a broker: live brokers, controller, and partition states.

Rules of this module (MetadataCache.updateCache; docs/reference/kafka.md §2.7):
  - only UpdateMetadata requests of the controller change it, so it is as stale as the last one that arrived;
  - a partition of a topic that is being deleted is removed;
  - live brokers that a request does not name are removed, except up to 0.8.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.requests import LEADER_DURING_DELETE
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.requests import UpdateMetadataRequest
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
    """

    def __init__(self, *, forgets: bool) -> None:
        self.controller_id: int | None = None
        self.live_brokers: dict[int, str | None] = {}
        self.partitions: dict[TopicPartition, LeaderAndIsr] = {}
        self._forgets = forgets

    def update(self, request: UpdateMetadataRequest) -> None:
        """Apply an UpdateMetadata request."""
        self.controller_id = request.controller_id
        self.live_brokers = ({} if self._forgets else self.live_brokers) | dict(request.live_brokers)
        for update in request.updates:
            if update.state.leader == LEADER_DURING_DELETE:
                self.partitions.pop(update.partition, None)
            else:
                self.partitions[update.partition] = update.state

    def snapshot(self) -> BrokerMetadata:
        """Return a copy of the present content."""
        return BrokerMetadata(self.controller_id, dict(sorted(self.live_brokers.items())), dict(self.partitions))
