"""DescribeProducers: the producers in the log of a replica, a leader or a follower (KIP-664; recorded 2.8 to 3.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import DescribeProducersResponse
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from simzk.kafka.client_requests.handlers import Answer, Context, ServingBroker
    from simzk.kafka.protocol.messages import DescribeProducersRequest

DESCRIBE_PRODUCERS = 61

Partition = DescribeProducersResponse.PartitionResponse


def describe_producers(
    broker: ServingBroker, _context: Context, request: DescribeProducersRequest, answer: Answer
) -> None:
    """Answer DescribeProducers."""
    kind = DescribeProducersResponse.TopicResponse
    topics = [
        kind(name=topic.name, partitions=[_described(broker, topic.name, one) for one in topic.partition_indexes])
        for topic in request.topics
    ]
    answer(DescribeProducersResponse(topics=topics))


def _described(broker: ServingBroker, topic: str, number: int) -> Partition:
    """Return the producers of a partition, or the error."""
    partition, result = TopicPartition(topic, number), Partition(partition_index=number)
    replica = broker.replicas.replicas.get(partition)
    if partition not in broker.cache.partitions:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic not in broker.cache.topics and broker.version.api.explains_unknown_topics:
            result.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text
    elif replica is None:
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif replica.log.producers is not None:
        result.active_producers = [
            DescribeProducersResponse.ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=-1 if entry.transaction_from is None else entry.transaction_from,
            )
            for producer_id, entry in replica.log.producers.entries.items()
        ]
    return result
