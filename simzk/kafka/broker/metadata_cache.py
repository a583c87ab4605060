"""What a broker believes of the cluster: who lives, who is controller, who leads (KafkaServer's metadata cache)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.controller.channels import DELETED

if TYPE_CHECKING:
    from simzk.kafka.protocol import UpdateMetadataRequest
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition


class MetadataCache:
    """Filled by the controller's UpdateMetadata requests alone."""

    def __init__(self) -> None:
        self.controller_id: int | None = None
        self.live_brokers: dict[int, str | None] = {}
        self.partitions: dict[TopicPartition, LeaderAndIsr] = {}

    def update(self, request: UpdateMetadataRequest) -> None:
        """Take over what the controller says."""
        self.controller_id = request.controller_id
        self.live_brokers = dict(request.live_brokers)
        for update in request.updates:
            if update.state.leader == DELETED:
                self.partitions.pop(update.partition, None)
            else:
                self.partitions[update.partition] = update.state
