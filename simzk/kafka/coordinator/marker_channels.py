"""Markers of ended transactions, sent to the leaders of their partitions (TransactionMarkerChannelManager).

Rules of this module:
  - the markers for one broker travel together in WriteTxnMarkers, a request of the protocol's form;
  - the leader is looked up in the metadata cache. While it is unknown, or cannot be reached, or rejects the marker for
    now, the marker is sent again;
  - a partition that is not in the metadata cache was deleted: it needs no marker;
  - a leader that knows a later coordinator or producer epoch ends the work for the transaction: another coordinator
    completes it;
  - with the last marker the transaction is complete. Nothing is stored here: the next coordinator sends all markers
    of a prepared transaction again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from simzk.kafka.rpc import Disconnected
from simzk.kafka.topic_partition import numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Future, Process

NO_LEADER = -1
RETRY_US = 50_000
"""Pause before a marker is sent again."""
_RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""The last two: the format of the partition is older than transactions."""
_FENCED = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)


@dataclass(eq=False)
class TransactionToMark:
    """A transaction that needs its markers.

    Args:
        producer_id, epoch: its producer.
        is_commit: whether it commits.
        coordinator_epoch: leader epoch of the coordinator's partition.
        on_marked: called with partitions that have their marker, or need none.
        is_wanted: returns whether the broker still coordinates it.
    """

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int
    on_marked: Callable[[list[TopicPartition]], None]
    is_wanted: Callable[[], bool]
    is_fenced: bool = field(default=False, init=False)


class _Marker(NamedTuple):
    transaction: TransactionToMark
    partitions: list[TopicPartition]


@dataclass(eq=False)
class MarkerChannels:
    """Markers that one broker sends.

    Args:
        leader_of: returns the leader of a partition, `NO_LEADER` while it has no live one, None if there is no such
            partition, as far as the broker knows.
        send: sends a request to a broker; the future has the response, or fails with `Disconnected`.
    """

    process: Process
    leader_of: Callable[[TopicPartition], int | None]
    send: Callable[[int, WriteTxnMarkersRequest], Future[WriteTxnMarkersResponse]]
    _queues: dict[int, list[_Marker]] = field(default_factory=dict, init=False)

    def add(self, transaction: TransactionToMark, partitions: list[TopicPartition]) -> None:
        """Send the markers of a transaction; it calls `on_marked` as often as partitions are marked."""
        if transaction.is_fenced or not transaction.is_wanted():
            return
        gone: list[TopicPartition] = []
        unknown: list[TopicPartition] = []
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self.leader_of(partition)
            if leader is None:
                gone.append(partition)
            elif leader == NO_LEADER:
                unknown.append(partition)
            else:
                by_leader.setdefault(leader, []).append(partition)
        for leader, led in by_leader.items():
            if not self._queues:
                self.process.call_later(0, self._flush)
            self._queues.setdefault(leader, []).append(_Marker(transaction, led))
        self._retry(transaction, unknown)
        if gone or not partitions:
            transaction.on_marked(gone)

    def _retry(self, transaction: TransactionToMark, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.process.call_later(RETRY_US, lambda: self.add(transaction, partitions))

    def _flush(self) -> None:
        assert self._queues, "the first marker of a request starts the timer"
        queues, self._queues = self._queues, {}
        for broker, markers in queues.items():
            self.process.spawn(self._exchange(broker, markers), "transaction markers")

    async def _exchange(self, broker: int, markers: list[_Marker]) -> None:
        try:
            response = await self.send(broker, _request(markers))
        except Disconnected:
            for marker in markers:
                self._retry(*marker)
            return
        assert len(response.markers) == len(markers), "one result for each marker"
        for marker, result in zip(markers, response.markers, strict=True):
            errors = {
                (topic.name, partition.partition_index): ErrorCode(partition.error_code)
                for topic in result.topics
                for partition in topic.partitions
            }
            self._handle(marker, [errors[partition] for partition in marker.partitions])

    def _handle(self, marker: _Marker, errors: list[ErrorCode]) -> None:
        transaction, partitions = marker
        if not transaction.is_wanted():
            return
        assert set(errors) <= _DONE | _RETRIED | _FENCED, f"a marker was answered with {errors}"
        marked = [partition for partition, error in zip(partitions, errors, strict=True) if error in _DONE]
        if marked:
            transaction.on_marked(marked)
        if not _FENCED.isdisjoint(errors):
            transaction.is_fenced = True
            return
        self._retry(transaction, [one for one, error in zip(partitions, errors, strict=True) if error in _RETRIED])


def _request(markers: list[_Marker]) -> WriteTxnMarkersRequest:
    one, of_topic = WriteTxnMarkersRequest.WritableTxnMarker, WriteTxnMarkersRequest.WritableTxnMarkerTopic
    return WriteTxnMarkersRequest(
        markers=[
            one(
                producer_id=transaction.producer_id,
                producer_epoch=transaction.epoch,
                transaction_result=transaction.is_commit,
                topics=[of_topic(name=n, partition_indexes=found) for n, found in numbers_by_topic(partitions).items()],
                coordinator_epoch=transaction.coordinator_epoch,
            )
            for transaction, partitions in markers
        ]
    )
