"""What a broker believes of the cluster: who lives, who is controller, who leads (KafkaServer's metadata cache).

Rules of the module (MetadataCache.updateCache; docs/reference/kafka.md §2.7):
  - it is filled by the controller's UpdateMetadata requests alone, so that it is as stale as the last one that came;
  - a partition of a topic that is being deleted is forgotten; up to 0.8.1 a broker that was once named never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.controller.channels import DELETED
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.requests import UpdateMetadataRequest
    from simzk.kafka.topic_partition import LeaderAndIsr


class BrokerMetadata(NamedTuple):
    """What one broker believes at one instant.

    Args:
        controller: who is controller; None where nobody has told it yet.
        live_brokers: who lives, with racks; ascending.
        partitions: who leads and who is in sync, with the epochs; by partition.
    """

    controller: int | None
    live_brokers: Mapping[int, str | None]
    partitions: Mapping[TopicPartition, LeaderAndIsr]

    def state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        """What it believes of one partition; None where it knows of none."""
        return self.partitions.get(TopicPartition(topic, partition))


class MetadataCache:
    """A broker's cache.

    Args:
        forgets: whether brokers are forgotten that the controller names no more.
    """

    def __init__(self, *, forgets: bool) -> None:
        self.controller_id: int | None = None
        self.live_brokers: dict[int, str | None] = {}
        self.partitions: dict[TopicPartition, LeaderAndIsr] = {}
        self._forgets = forgets

    def update(self, request: UpdateMetadataRequest) -> None:
        """Take over what the controller says."""
        self.controller_id = request.controller_id
        self.live_brokers = ({} if self._forgets else self.live_brokers) | dict(request.live_brokers)
        for update in request.updates:
            if update.state.leader == DELETED:
                self.partitions.pop(update.partition, None)
            else:
                self.partitions[update.partition] = update.state

    def seen(self) -> BrokerMetadata:
        """What it holds now, apart from it."""
        return BrokerMetadata(self.controller_id, dict(sorted(self.live_brokers.items())), dict(self.partitions))
