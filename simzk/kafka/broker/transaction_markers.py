"""Transaction markers at the leaders of partitions (KafkaApis.handleWriteTxnMarkersRequest; KIP-98).

Rules of this module:
  - a marker ends the transaction of a producer in partitions: their leader appends a control batch to each, which the
    followers fetch as any other batch;
  - a partition without a log here is UNKNOWN_TOPIC_OR_PARTITION, one that is led elsewhere NOT_LEADER_OR_FOLLOWER. An
    older epoch of the producer is INVALID_PRODUCER_EPOCH, an older one of the coordinator
    TRANSACTION_COORDINATOR_FENCED;
  - the response is sent when every marker is in the logs of all in the ISR, or has failed;
  - a marker in a partition of `__consumer_offsets` commits or drops the offsets of the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from simzk.kafka.log.record_batches import BatchProducer, encode_marker
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import WriteTxnMarkersResponse
from simzk.kafka.topic_partition import TopicPartition, grouped_by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.broker.producing import Producing
    from simzk.kafka.broker.replica_logs import ReplicaLogs
    from simzk.kafka.protocol.messages import WriteTxnMarkersRequest
    from simzk.kafka.releases.settings import BrokerConfig

MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult


@dataclass(eq=False)
class TransactionMarkers:
    """Markers of transactions in the logs that one broker leads.

    Args:
        config: the timeout of an append.
        now_ms: returns the present time, in ms since 1970.
        on_marker: called with each partition whose marker is committed, the producer id, and whether it commits.
    """

    config: BrokerConfig
    replicas: ReplicaLogs
    producing: Producing
    now_ms: Callable[[], int]
    on_marker: Callable[[TopicPartition, int, bool], None]

    def serve(self, request: WriteTxnMarkersRequest, respond: Callable[[WriteTxnMarkersResponse], None]) -> None:
        """Append markers; respond with one result for each marker when all partitions have an outcome."""
        asked = [marker_partitions(marker) for marker in request.markers]
        errors: list[dict[TopicPartition, ErrorCode]] = [{} for _ in asked]

        def finish(place: int, partition: TopicPartition, code: ErrorCode) -> None:
            marker = request.markers[place]
            assert partition not in errors[place], f"two outcomes of a marker in {partition}"
            if code == ErrorCode.NONE:
                self.on_marker(partition, marker.producer_id, marker.transaction_result)
            errors[place][partition] = code
            respond_if_done()

        def respond_if_done() -> None:
            if all(len(found) == len(wanted) for found, wanted in zip(errors, asked, strict=True)):
                results = [
                    marker_result(marker.producer_id, found)
                    for marker, found in zip(request.markers, errors, strict=True)
                ]
                respond(WriteTxnMarkersResponse(markers=results))

        if not any(asked):
            respond_if_done()
        for place, marker in enumerate(request.markers):
            for partition in asked[place]:
                self._append(marker, partition, partial(finish, place, partition))

    def _append(
        self,
        marker: WriteTxnMarkersRequest.WritableTxnMarker,
        partition: TopicPartition,
        finish: Callable[[ErrorCode], None],
    ) -> None:
        if partition not in self.replicas.replicas:
            finish(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        data = encode_marker(
            BatchProducer(marker.producer_id, marker.producer_epoch),
            is_commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=self.now_ms(),
        )
        timeout_ms = self.config.integer("request.timeout.ms")
        self.producing.append_as_broker(partition, data, timeout_ms, lambda response: finish(response.error))


def marker_partitions(marker: WriteTxnMarkersRequest.WritableTxnMarker) -> list[TopicPartition]:
    """Return the partitions of a marker, each once."""
    named = (TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes)
    return list(dict.fromkeys(named))


def marker_result(producer_id: int, errors: Mapping[TopicPartition, ErrorCode]) -> MarkerResult:
    """Return the results of a marker, by topic."""
    response = WriteTxnMarkersResponse
    one = response.WritableTxnMarkerPartitionResult
    topics = [
        response.WritableTxnMarkerTopicResult(
            name=name,
            partitions=[one(partition_index=of.partition, error_code=errors[of]) for of in found],
        )
        for name, found in grouped_by_topic(errors).items()
    ]
    return MarkerResult(producer_id=producer_id, topics=topics)
