"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: offsets of the logs that a broker leads.

Rules of this module (Partition.fetchOffsetForTimestamp, KafkaApis; recorded 0.8 to 3.9):
  - the latest offset is the high watermark, with isolation "read committed" the last stable offset, for replica id -2
    the log end offset. Only replica id -2 may ask followers;
  - a time is answered by the first record that is not older; version 0 knows segments only, and names the offsets of
    those that were not appended to later, and the end of the log (Log.legacyFetchOffsetsBefore);
  - the largest timestamp (-3) is known since 3.0, the local start (-4) since 3.4, the last tiered offset (-5) since
    3.9; releases before these read such a number as a time;
  - until its high watermark reaches the start of its epoch, a leader does not know the latest offset (KIP-207);
  - a time is not answered by a record that the client may not read, nor is the largest timestamp;
  - records are deleted by raising the log start offset, up to the high watermark. Followers are told with fetches, and
    the answer waits until all live ones have deleted them too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.broker.request_handlers import INTERNAL_TOPICS
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.client_requests.records.fetch import CONSUMER, DEBUGGER, READ_COMMITTED, leader_epoch_error
from simzk.kafka.log.leader_epochs import UNDEFINED
from simzk.kafka.log.record_batches import NEWEST, NO_TIMESTAMP, RecordDataError, decode_entry
from simzk.kafka.log.segments import Segment
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import DeleteRecordsResponse, ListOffsetsResponse, OffsetForLeaderEpochResponse
from simzk.kafka.topic_partition import TopicPartition, grouped_by_topic

if TYPE_CHECKING:
    from simzk.kafka.broker.replica_logs import Replica
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.log.log import Log
    from simzk.kafka.protocol.messages import DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
    from simzk.simulation import Timer

LIST_OFFSETS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH = 2, 21, 23
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_WITHOUT_TIMESTAMPS = (LATEST, EARLIEST, EARLIEST_LOCAL)
"""What needs no timestamps of records, which logs in the format of 0.9 do not have (Log.fetchOffsetByTimestamp)."""
_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""Versions of ListOffsets from which on these numbers are no times."""
_LEADER_EPOCHS_SINCE, _NOT_AVAILABLE_SINCE = 4, 5
NO_OFFSET, NO_EPOCH = -1, -1


class FoundOffset(NamedTuple):
    """Offset, timestamp and leader epoch of a record; -1 for unknown ones."""

    offset: int = NO_OFFSET
    timestamp_ms: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH


@dataclass(eq=False)
class _Deletion:
    """A DeleteRecords request: results by partition, and offsets that not all replicas have reached."""

    results: dict[TopicPartition, tuple[ErrorCode, int]]
    waiting: dict[TopicPartition, int]
    answer: Answer
    timer: Timer | None = None


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return LogOffsetsApi(broker.serving_broker).handlers


@dataclass(eq=False)
class LogOffsetsApi(ClientApi):
    """Requests of clients about offsets to one broker."""

    _deletions: dict[_Deletion, None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.broker.replicas.on_start = self._go_on_deleting

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            LIST_OFFSETS: self.serve_list_offsets,
            DELETE_RECORDS: self.serve_delete_records,
            OFFSET_FOR_LEADER_EPOCH: self.serve_offset_for_leader_epoch,
        }

    def _error(self, partition: TopicPartition, leader_epoch: int = -1, *, may_follow: bool = False) -> ErrorCode:
        """Return the error of a partition that is not led here."""
        if partition not in self.broker.cache.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self.broker.replicas.replicas.get(partition)
        if replica is None:
            return self.broker.version.api.without_replica
        code = leader_epoch_error(leader_epoch, replica.state.leader_epoch)
        if code == ErrorCode.NONE and not may_follow and not self.broker.replicas.leads(partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code

    # -- ListOffsets

    def serve_list_offsets(self, context: Context, request: ListOffsetsRequest, answer: Answer) -> None:
        """Answer ListOffsets."""
        named = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
        twice = {name for name in named if named.count(name) > 1} if len(set(named)) < len(named) else set()
        topics, done = [], set()
        for topic in request.topics:
            found = []
            for one in topic.partitions:
                name = topic.name, one.partition_index
                if name not in done or self.broker.version.api.lists_each_duplicate:
                    done.add(name)
                    partition = TopicPartition(*name)
                    found.append(self._offsets(context.version, request, partition, one, is_twice=name in twice))
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=found))
        answer(ListOffsetsResponse(topics=topics))

    def _offsets(
        self,
        version: int,
        request: ListOffsetsRequest,
        partition: TopicPartition,
        one: ListOffsetsRequest.ListOffsetsPartition,
        *,
        is_twice: bool,
    ) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
        """Return the result of one partition."""
        result = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=partition.partition)
        if is_twice and version:
            result.error_code = ErrorCode.INVALID_REQUEST
            return result
        timestamp, rules = one.timestamp, self.broker.version.api
        if timestamp < EARLIEST and rules.rejects_unknown_times and version < _VERSION_OF.get(timestamp, 1 << 15):
            result.error_code = ErrorCode.UNSUPPORTED_VERSION
            return result
        may_follow = request.replica_id == DEBUGGER
        result.error_code = self._error(partition, one.current_leader_epoch, may_follow=may_follow)
        if result.error_code != ErrorCode.NONE:
            return result
        replica = self.broker.replicas.replicas[partition]
        last = replica.log.end
        if request.replica_id == CONSUMER:
            is_committed = request.isolation_level == READ_COMMITTED
            last = replica.log.last_stable_offset if is_committed else replica.log.high_watermark
        if version == 0:
            offsets = segment_offsets(replica.log, timestamp, self.broker.now_ms())[: one.max_num_offsets]
            above = [offset for offset in offsets if offset > last]
            result.old_style_offsets = [last, *offsets[len(above) :]] if above else offsets
            return result
        if timestamp not in _WITHOUT_TIMESTAMPS and self.broker.topic_configs.of_log(partition.topic).magic == 0:
            result.error_code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            return result
        found = self._found(replica, timestamp, last)
        names_start = timestamp == EARLIEST or (timestamp == EARLIEST_LOCAL and rules.knows_local_start)
        if found is not None and not names_start and timestamp != LATEST and found.offset >= last:
            found = None
        # The start of the epoch is compared with the high watermark at either isolation level: the last stable offset
        # stays below it for as long as a transaction is open.
        is_unsure = rules.knows_unavailable_offsets and replica.high_watermark < replica.epoch_start
        if request.replica_id == CONSUMER and is_unsure and (found is None or timestamp == LATEST):
            result.error_code = (
                ErrorCode.OFFSET_NOT_AVAILABLE if version >= _NOT_AVAILABLE_SINCE else ErrorCode.LEADER_NOT_AVAILABLE
            )
            return result
        if found is not None:
            result.offset, result.timestamp = found.offset, found.timestamp_ms
            # Logs in an older format have no leader epoch cache (KAFKA-7897); the latest offset has that of the leader.
            has_epochs = self.broker.topic_configs.of_log(partition.topic).magic == NEWEST or timestamp == LATEST
            if version >= _LEADER_EPOCHS_SINCE and has_epochs:
                result.leader_epoch = found.leader_epoch
        return result

    def _found(self, replica: Replica, timestamp: int, last: int) -> FoundOffset | None:
        """Return the record that a time names; None if there is none."""
        log, rules = replica.log, self.broker.version.api
        if timestamp == LATEST:
            return FoundOffset(last, leader_epoch=replica.state.leader_epoch)
        if timestamp == EARLIEST or (timestamp == EARLIEST_LOCAL and rules.knows_local_start):
            entries = log.epochs.entries
            epoch = entries[0].epoch if entries and entries[0].start_offset <= log.start else NO_EPOCH
            return FoundOffset(log.start, leader_epoch=epoch)
        if timestamp == LATEST_TIERED and rules.knows_tiered_offset:
            return FoundOffset()
        if timestamp == MAX_TIMESTAMP and rules.knows_max_timestamp:
            return newest_record(log) if rules.reads_newest_record else noted_as_newest(log)
        return first_since(log, timestamp)

    # -- OffsetForLeaderEpoch

    def serve_offset_for_leader_epoch(
        self, _context: Context, request: OffsetForLeaderEpochRequest, answer: Answer
    ) -> None:
        """Answer where leader epochs end (KIP-101, KIP-320)."""
        one = OffsetForLeaderEpochResponse.EpochEndOffset
        topics = []
        for topic in request.topics:
            found = []
            named = topic.partitions
            if not self.broker.version.api.lists_each_duplicate:
                named = list({asked.partition: asked for asked in named}.values())
            for asked in named:
                partition = TopicPartition(topic.topic, asked.partition)
                code = self._error(partition, asked.current_leader_epoch)
                end = UNDEFINED
                if code == ErrorCode.NONE:
                    end = self.broker.replicas.replicas[partition].log.end_offset_for(asked.leader_epoch)
                found.append(
                    one(partition=asked.partition, error_code=code, leader_epoch=end.epoch, end_offset=end.end_offset)
                )
            topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=found))
        answer(OffsetForLeaderEpochResponse(topics=topics))

    # -- DeleteRecords

    def serve_delete_records(self, _context: Context, request: DeleteRecordsRequest, answer: Answer) -> None:
        """Delete records before offsets, and answer when all live replicas have deleted them (KIP-107)."""
        deletion = _Deletion({}, {}, answer)
        for topic in request.topics:
            for asked in topic.partitions:
                partition = TopicPartition(topic.name, asked.partition_index)
                result = self._delete(partition, asked.offset)
                if isinstance(result, ErrorCode):
                    deletion.results[partition] = result, NO_OFFSET
                else:
                    deletion.waiting[partition] = result
        self._deletions[deletion] = None
        if not self._is_deleted(deletion):
            after_us = max(request.timeout_ms, 0) * 1000
            deletion.timer = self.broker.process.call_later(after_us, lambda: self._end_deletion(deletion))

    def _go_on_deleting(self, partition: TopicPartition) -> None:
        for deletion in list(self._deletions):
            if partition in deletion.waiting:
                self._is_deleted(deletion)

    def _is_deleted(self, deletion: _Deletion) -> bool:
        """Note which partitions of a request need not wait any more; answer if that are all."""
        for partition, wanted in list(deletion.waiting.items()):
            code = self._error(partition)
            low = NO_OFFSET
            if code == ErrorCode.NONE:
                low = self.broker.replicas.low_watermark(partition, self.broker.cache.live_brokers)
            if code != ErrorCode.NONE or low >= wanted:
                del deletion.waiting[partition]
                deletion.results[partition] = code, low
        if not deletion.waiting:
            self._end_deletion(deletion)
        return not deletion.waiting

    def _end_deletion(self, deletion: _Deletion) -> None:
        """Answer a request; partitions that still wait have timed out."""
        assert deletion.results.keys().isdisjoint(deletion.waiting), "a partition waits, or has a result"
        del self._deletions[deletion]
        if deletion.timer is not None:
            deletion.timer.cancel()
        for partition in deletion.waiting:
            deletion.results[partition] = ErrorCode.REQUEST_TIMED_OUT, NO_OFFSET
        one, kind = DeleteRecordsResponse.DeleteRecordsPartitionResult, DeleteRecordsResponse.DeleteRecordsTopicResult
        results = {
            at: one(partition_index=at.partition, low_watermark=low, error_code=code)
            for at, (code, low) in deletion.results.items()
        }
        topics = [
            kind(name=name, partitions=[results[at] for at in of]) for name, of in grouped_by_topic(results).items()
        ]
        deletion.answer(DeleteRecordsResponse(topics=topics))

    def _delete(self, partition: TopicPartition, offset: int) -> int | ErrorCode:
        """Raise the log start offset of a partition; return the offset that all replicas are to have, or the error."""
        if partition in self.broker.cache.partitions and partition.topic in INTERNAL_TOPICS:
            return ErrorCode.INVALID_TOPIC_EXCEPTION  # deleteRecordsOnLocalLog, before it looks for the leader
        code = self._error(partition)
        if code != ErrorCode.NONE:
            return code
        if not self.broker.topic_configs.of_log(partition.topic).deletes:
            return ErrorCode.POLICY_VIOLATION
        log = self.broker.replicas.replicas[partition].log
        wanted = log.high_watermark if offset == LATEST else offset
        if not 0 <= wanted <= log.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.broker.replicas.delete_records(partition, wanted)
        assert wanted <= log.start <= log.high_watermark, f"{partition} begins at {log.start}"
        return wanted


def segment_offsets(log: Log, timestamp: int, now_ms: int) -> list[int]:
    """Return the offsets of segments that were not appended to after a time, and of the end of the log; descending."""
    segments = log.segments or (Segment(log.start, now_ms, now_ms, size_bytes=log.end - log.start),)
    dated = [(max(one.base_offset, log.start), one.modified_ms) for one in segments]
    if segments[-1].size_bytes:
        dated.append((log.end, now_ms))
    if timestamp == EARLIEST:
        dated = dated[:1]
    while dated and timestamp not in (EARLIEST, LATEST) and dated[-1][1] > timestamp:
        dated.pop()
    return sorted((offset for offset, _ in dated), reverse=True)


def first_since(log: Log, timestamp_ms: int) -> FoundOffset | None:
    """Return the first record with a timestamp that is not smaller; None if there is none."""
    for batch in log.batches:
        if batch.payload is None or batch.max_timestamp_ms < timestamp_ms:
            continue
        try:
            for record in decode_entry(batch.payload):
                if record.timestamp_ms >= timestamp_ms and record.offset >= log.start:
                    return FoundOffset(record.offset, record.timestamp_ms, batch.leader_epoch)
        except RecordDataError:  # its codec is not installed
            return FoundOffset(batch.base_offset, batch.max_timestamp_ms, batch.leader_epoch)
    return None


def newest_record(log: Log) -> FoundOffset | None:
    """Return the first record with the largest timestamp (KIP-734), also if that is none; None without records."""
    return first_since(log, max((batch.max_timestamp_ms for batch in log.batches), default=NO_TIMESTAMP))


def noted_as_newest(log: Log) -> FoundOffset:
    """Return what a log noted of its largest timestamp when it appended records (3.0 to 3.7; KAFKA-16310).

    This is the first record with the timestamp if a producer sent its batch to this log as it is stored, without
    compression. Else it is the last record of the batch (LogValidator, MemoryRecordsBuilder.info; followers:
    UnifiedLog.analyzeAndValidateRecords). Records without timestamps leave the base offset of the first segment.
    """
    newest = max((batch.max_timestamp_ms for batch in log.batches), default=NO_TIMESTAMP)
    epoch = log.epochs.latest
    batch = next((one for one in log.batches if one.max_timestamp_ms == newest != NO_TIMESTAMP), None)
    if batch is None:
        return FoundOffset(log.segments[0].base_offset if log.segments else log.start, leader_epoch=epoch)
    found = first_since(log, newest) if log.was_sent(batch) else None
    return FoundOffset(batch.next_offset - 1 if found is None else found.offset, newest, epoch)
