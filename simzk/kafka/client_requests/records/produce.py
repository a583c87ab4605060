"""Produce and DescribeProducers: records of clients, validated, converted and appended, and who appended them.

Rules of this module (KafkaApis.handleProduceRequest, LogValidator; recorded 0.8 to 3.9):
  - from version 3 on a partition has one batch of magic 2; before, messages. A request that breaks this closes the
    connection up to 2.3, later the partition gets an error;
  - records in an older format are converted to the broker's: messages of magic 0 up to 0.9, of magic 1 in 0.10, batches
    since 0.11. So are those in another compression than the topic's `compression.type`, and compressed ones beside
    others. The rest is stored as it came;
  - a topic may restrict the timestamps that producers set (`message.timestamp.*.max.ms`);
  - internal topics are for coordinators, and for clients that call themselves `__admin_client`;
  - sizes are checked before checksums, checksums before contents;
  - with acks 0 there is no response; an error closes the connection;
  - since 3.6 the leader verifies that the partition of a transactional batch was added to the transaction, unless the
    transaction is open in the log. While batches are not verified, one after the first is rejected (KIP-890).

DescribeProducers lists the producers in the log of a replica, a leader or a follower (KIP-664; recorded 2.8 to 3.9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from simzk.jvm.numbers import wrapped_long
from simzk.kafka.broker.request_handlers import INTERNAL_TOPICS
from simzk.kafka.broker.transaction_verification import VERIFICATION_KEY, TransactionBatch
from simzk.kafka.client_requests.broker_faults import Silence
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.client_requests.records.current_leader import endpoints, name_leader
from simzk.kafka.log.log import find_batch
from simzk.kafka.log.record_batches import (
    NEWEST,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ZSTD,
    BatchProducer,
    InvalidRecordsError,
    RecordDataError,
    decode_entry,
    encode_batch,
    encode_messages,
    entry_header,
    entry_size,
    is_intact,
    new_batches,
    with_append_time,
    without_append_time,
)
from simzk.kafka.log.segments import NEVER_MS
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import DescribeProducersResponse, ProduceResponse
from simzk.kafka.requests import AppendRequest
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.broker.producing import Producing
    from simzk.kafka.broker.transaction_verification import TransactionVerification
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.client_requests.handlers import ServingBroker
    from simzk.kafka.log.batches import NewBatch
    from simzk.kafka.log.producer_state import ProducerEntry
    from simzk.kafka.log.record_batches import EntryHeader, Record
    from simzk.kafka.log.segments import LogConfig
    from simzk.kafka.protocol.messages import DescribeProducersRequest, ProduceRequest
    from simzk.kafka.requests import AppendResponse

PRODUCE, DESCRIBE_PRODUCERS = 0, 61
ADMIN_CLIENT = "__admin_client"
"""Id of clients that can append to internal topics (AdminUtils)."""
_VALID_ACKS = (-1, 0, 1)
_BATCHES_SINCE, _ZSTD_SINCE = 3, 7
"""Versions of the request from which on it has batches of magic 2, and may have zstd."""
_LEADERS_SINCE = 10
"""Version of the response from which on it names the leader after NOT_LEADER_OR_FOLLOWER (KIP-951)."""
_ABORTABLE_SINCE = 11
"""Version of the request from which on a client understands TRANSACTION_ABORTABLE."""
_PASSING = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of a coordinator that may be gone with the next try."""
_NO_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)
"""Errors that are answered without the log start offset (ReplicaManager.appendToLocalLog)."""

Result = ProduceResponse.PartitionProduceResponse
DescribedPartition = DescribeProducersResponse.PartitionResponse


@dataclass(eq=False)
class _RejectedError(Exception):
    """Record data that the leader rejects; also the outcome of a partition.

    Args:
        code: the error.
        names_start: whether the result names the log start offset.
        message: the text of the error.
        records: places of the rejected records, each with its text.
    """

    code: ErrorCode
    names_start: bool = True
    message: str | None = None
    records: tuple[tuple[int, str | None], ...] = ()


class _Unverified(NamedTuple):
    """Record data of a transaction that is not open in the log.

    Args:
        entries: the entries of the data.
        batch: the first batch.
        entry: the producer's state in the log when the verification began; another one is a newer state.
    """

    entries: Sequence[memoryview]
    batch: EntryHeader
    entry: ProducerEntry | None


class _BrokenRequestError(Exception):
    """Record data for which the release closes the connection, or does not answer."""


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    serving = broker.serving_broker
    verifies = serving.version.api.verifies_transactions and serving.config.boolean(VERIFICATION_KEY)
    return ProduceApi(serving, broker.producing, broker.verification, verifies).handlers


@dataclass(eq=False)
class ProduceApi(ClientApi):
    """Produce requests of clients to one broker.

    Args:
        replicas, producing: its replicas, and how producers append to them.
        verification: asks the coordinators of transactions.
        verifies: whether it is asked: a setting of the broker.
    """

    producing: Producing
    verification: TransactionVerification
    verifies: bool
    _verifying: dict[tuple[TopicPartition, int], tuple[int, int]] = field(default_factory=dict, init=False)
    """Transactions that begin, by partition and producer id: the epoch, and the lowest sequence number."""

    @property
    def handlers(self) -> dict[int, Handler]:
        return {PRODUCE: self.serve, DESCRIBE_PRODUCERS: partial(describe_producers, self.broker)}

    def serve(self, context: Context, request: ProduceRequest, answer: Answer) -> None:
        """Append record data, and answer when all partitions have an outcome."""
        appends: dict[TopicPartition, Sequence[NewBatch] | _RejectedError | _Unverified] = {}
        try:
            for topic in request.topic_data:
                for one in topic.partition_data:
                    partition = TopicPartition(topic.name, one.index)
                    appends[partition] = self._checked(context, partition, one.records, request)
        except _BrokenRequestError:
            answer(Silence.NO_RESPONSE if self.broker.version.api.ignores_null_records else None)
            return
        results: dict[TopicPartition, Result] = {}

        def finish(partition: TopicPartition, result: Result) -> None:
            assert partition in appends, f"{partition} was not asked for"
            assert partition not in results, f"{partition} has two outcomes"
            results[partition] = result
            if len(results) == len(appends):
                answer(self._response(context, request, results))

        if not appends:
            answer(Silence.NO_RESPONSE if request.acks == 0 else ProduceResponse())

        def append_all(verified: Mapping[TopicPartition, Sequence[NewBatch] | _RejectedError]) -> None:
            for partition, batches in {**appends, **verified}.items():
                assert not isinstance(batches, _Unverified), f"{partition} has no outcome"
                self._append(partition, batches, request, finish)

        unverified = {partition: one for partition, one in appends.items() if isinstance(one, _Unverified)}
        if unverified:
            self._verify(context.version, request.transactional_id or "", unverified, append_all)
        else:
            append_all({})

    def _append(
        self,
        partition: TopicPartition,
        batches: Sequence[NewBatch] | _RejectedError,
        request: ProduceRequest,
        finish: Callable[[TopicPartition, Result], None],
    ) -> None:
        if not batches:
            batches = _RejectedError(ErrorCode.NONE, names_start=False)
        if isinstance(batches, _RejectedError):
            finish(partition, self._refused(partition, batches))
            return
        before = self.broker.replicas.replicas[partition].log_end

        def respond(appended: AppendResponse) -> None:
            code = appended.error
            offset = appended.base_offset
            finish(partition, self._result(partition, code, offset, is_duplicate=0 <= offset < before))

        records = sum(batch.records for batch in batches)
        self.producing.serve(
            AppendRequest(partition, records, request.acks, max(0, request.timeout_ms), batches=tuple(batches)), respond
        )

    # -- validation

    def _checked(
        self,
        context: Context,
        partition: TopicPartition,
        data: bytes | bytearray | memoryview | None,
        request: ProduceRequest,
    ) -> Sequence[NewBatch] | _RejectedError | _Unverified:
        """Return the batches to be appended to a partition, in the broker's format; or the error.

        Raises:
            _BrokenRequestError: the connection is to be closed.
        """
        if data is None:
            raise _BrokenRequestError
        entries = whole_entries(data)
        try:
            self._check_form(context.version, entries)
            is_unknown = partition not in self.broker.cache.partitions
            unknown = _RejectedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, names_start=False)
            if is_unknown and self.broker.version.api.looks_for_topics_first:
                return unknown
            self._check_transaction(entries, request.transactional_id)
            if not self.broker.version.broker.accepts_any_acks and request.acks not in _VALID_ACKS:
                return _rejection(ErrorCode.INVALID_REQUIRED_ACKS)
            if partition.topic in INTERNAL_TOPICS and not self._may_append_internally(context.client_id):
                return _rejection(ErrorCode.INVALID_TOPIC_EXCEPTION)
            if is_unknown:
                return unknown
            error = self.broker.replicas.refuses_append(partition, to_all=request.acks == -1)
            if error == ErrorCode.NOT_LEADER_OR_FOLLOWER and partition not in self.broker.replicas.replicas:
                return _RejectedError(self.broker.version.api.without_replica, names_start=False)
            if error is not None:
                return _rejection(error)
            unverified = self._unverified(partition, entries) if entries else None
            return self._validated(partition, entries) if unverified is None else unverified
        except _RejectedError as rejected:
            return rejected
        except RecordDataError:  # of an unknown format
            return _rejection(ErrorCode.CORRUPT_MESSAGE)

    def _may_append_internally(self, client_id: str | None) -> bool:
        """Return whether a client can append to internal topics."""
        rules = self.broker.version.api
        return not rules.rejects_internal_topics or (rules.admin_client_appends and client_id == ADMIN_CLIENT)

    def _check_form(self, version: int, entries: Sequence[memoryview]) -> None:
        """Check what a request of this version may contain (ProduceRequest.validateRecords)."""
        rules = self.broker.version.api
        if version < _BATCHES_SINCE:
            if not entries and rules.closes_at_empty_records:
                raise _BrokenRequestError
            return
        headers = [entry_header(entry) for entry in entries[:2]]
        if len(headers) != 1 or headers[0].magic != 2:
            if rules.closes_at_invalid_records or (not headers and rules.closes_at_empty_records):
                raise _BrokenRequestError
            raise _RejectedError(ErrorCode.INVALID_RECORD, names_start=False)
        if headers[0].codec == ZSTD and version < _ZSTD_SINCE:
            raise _RejectedError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, names_start=False)

    def _check_transaction(self, entries: Sequence[memoryview], transactional_id: str | None) -> None:
        """Check that a request with transactional batches names the transaction."""
        rules = self.broker.version.api
        for entry in entries:
            header = entry_header(entry)
            if header.magic < NEWEST or not header.is_transactional:
                continue
            if transactional_id is None and rules.requires_transactional_id:
                code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                raise _RejectedError(code, names_start=False)

    # -- verification

    def _unverified(self, partition: TopicPartition, entries: Sequence[memoryview]) -> _Unverified | None:
        """Return record data to be verified, or None if it need not (UnifiedLog.maybeStartTransactionVerification)."""
        first = entry_header(entries[0])
        if not self.verifies or first.magic < NEWEST or not first.is_transactional:
            return None
        entry = self.broker.replicas.producer_entry(partition, first.producer_id)
        if entry is not None and entry.is_in_transaction:
            return None
        key, lowest = (partition, first.producer_id), (first.producer_epoch, first.base_sequence)
        epoch, sequence = self._verifying.get(key, lowest)
        if first.producer_epoch > epoch or (first.producer_epoch == epoch and first.base_sequence < sequence):
            epoch, sequence = lowest
        self._verifying[key] = epoch, sequence
        return _Unverified(entries, first, entry)

    def _verify(
        self,
        version: int,
        transactional_id: str,
        unverified: Mapping[TopicPartition, _Unverified],
        done: Callable[[Mapping[TopicPartition, Sequence[NewBatch] | _RejectedError]], None],
    ) -> None:
        """Ask the coordinator for partitions of a transaction; go on with their batches, or why they are rejected."""
        batches = {(one.batch.producer_id, one.batch.producer_epoch) for one in unverified.values()}
        if len(batches) > 1:
            done(dict.fromkeys(unverified, _rejection(ErrorCode.INVALID_PRODUCER_ID_MAPPING)))
            return

        def go_on(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            done(
                {partition: self._verified(partition, one, errors[partition]) for partition, one in unverified.items()}
            )

        transaction = TransactionBatch(transactional_id, *batches.pop())
        knows_abortable = version >= _ABORTABLE_SINCE
        self.verification.verify(transaction, list(unverified), go_on, knows_abortable=knows_abortable)

    def _verified(
        self, partition: TopicPartition, unverified: _Unverified, code: ErrorCode
    ) -> Sequence[NewBatch] | _RejectedError:
        """Return the batches of a partition after the coordinator has answered, or why they are rejected."""
        if code != ErrorCode.NONE:
            return _not_in_transaction(code)
        first = unverified.batch
        key, entry = (partition, first.producer_id), self.broker.replicas.producer_entry(partition, first.producer_id)
        error = self.broker.replicas.refuses_append(partition, to_all=False)
        if error is not None:
            return _rejection(error)
        if entry is not unverified.entry and not (entry is not None and entry.is_in_transaction):
            return _rejection(ErrorCode.INVALID_TXN_STATE)  # a marker came between
        if first.base_sequence > self._verifying.get(key, (0, first.base_sequence))[1]:
            return _rejection(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self._verifying.pop(key, None)
        try:
            return self._validated(partition, unverified.entries)
        except _RejectedError as rejected:
            return rejected

    # -- contents

    def _validated(self, partition: TopicPartition, entries: Sequence[memoryview]) -> Sequence[NewBatch]:
        """Check contents, and convert them to the broker's format (LogValidator)."""
        rules, config = self.broker.version.api, self.broker.topic_configs.of_log(partition.topic)
        invalid = ErrorCode.INVALID_RECORD if rules.has_invalid_record_error else ErrorCode.CORRUPT_MESSAGE
        headers = [entry_header(entry) for entry in entries]
        for entry, header in zip(entries, headers, strict=True):
            if header.size_bytes > config.max_message_bytes:
                raise _rejection(ErrorCode.MESSAGE_TOO_LARGE)
            if not is_intact(entry):
                raise _rejection(ErrorCode.CORRUPT_MESSAGE)
            if header.magic == NEWEST and (header.base_offset or not _is_valid_batch(header)):
                raise _rejection(invalid)
        try:
            self._check_records(partition, entries, config, invalid)
            stored, is_rebuilt = self._stored(entries, headers, config, invalid)
            batches: Sequence[NewBatch] = new_batches(stored)
            if is_rebuilt:
                batches = [batch._replace(is_as_sent=False) for batch in batches]
        except InvalidRecordsError:  # DeepRecordsIterator (AbstractLegacyRecordBatch)
            raise _rejection(invalid) from None
        except RecordDataError:
            raise _rejection(ErrorCode.CORRUPT_MESSAGE) from None
        sizes = [len(batch.payload) for batch in batches if batch.payload is not None]
        if any(size_bytes > config.max_message_bytes for size_bytes in sizes):  # after a conversion
            raise _rejection(ErrorCode.MESSAGE_TOO_LARGE)
        if sum(sizes) > config.segment_bytes:
            raise _rejection(ErrorCode.RECORD_LIST_TOO_LARGE)
        if not config.has_append_time:
            return batches
        now_ms = self.broker.now_ms()
        return [
            batch._replace(payload=None if batch.payload is None else with_append_time(batch.payload, now_ms))
            for batch in batches
        ]

    def _check_records(
        self, partition: TopicPartition, entries: Sequence[memoryview], config: LogConfig, invalid: ErrorCode
    ) -> None:
        """Check keys and timestamps of records where the topic restricts them (LogValidator.validateRecord)."""
        needs_keys = config.compacts and self.broker.version.api.rejects_keyless_records
        is_limited = not config.has_append_time and min(config.before_max_ms, config.after_max_ms) < NEVER_MS
        rejected: list[tuple[int, str]] = []
        is_mistimed = False
        first = 0
        for entry in entries:
            header = entry_header(entry)
            if not (needs_keys or is_limited or _is_marked(header)):
                continue
            records = decode_entry(entry)
            for place, record in enumerate(records, first):
                if needs_keys and record.key is None:
                    rejected.append((place, self.broker.version.texts.keyless_record.format(partition=partition)))
                elif (text := self._timestamp_problem(header, record, config)) is not None:
                    is_mistimed = True
                    rejected.append((place, text))
            first += len(records)
        if rejected:
            raise self._rejected_records(rejected, ErrorCode.INVALID_TIMESTAMP if is_mistimed else invalid)

    def _timestamp_problem(self, header: EntryHeader, record: Record, config: LogConfig) -> str | None:
        """Return why the timestamp of a record is invalid; None if it is not (LogValidator.validateTimestamp)."""
        rules, texts, timestamp_ms = self.broker.version.api, self.broker.version.texts, record.timestamp_ms
        is_dated = timestamp_ms != NO_TIMESTAMP
        if not is_dated and not rules.exempts_undated_records:
            is_dated = header.magic > 0 or not header.codec
        if not config.has_append_time and is_dated:
            now_ms = self.broker.now_ms()
            ago_ms = wrapped_long(now_ms - timestamp_ms)
            if ago_ms > config.before_max_ms or -ago_ms > config.after_max_ms:
                first, last = wrapped_long(now_ms - config.before_max_ms), wrapped_long(now_ms + config.after_max_ms)
                return texts.mistimed_record.format(
                    timestamp=timestamp_ms, offset=record.offset, first=first, last=last
                )
        if _is_marked(header) and (rules.rejects_append_time or config.has_append_time or not is_dated):
            return texts.append_time_record.format(record=_described(record))
        return None

    def _rejected_records(self, rejected: Sequence[tuple[int, str]], code: ErrorCode) -> _RejectedError:
        """Return the rejection of some records, each with its place in the batch and its text."""
        texts = self.broker.version.texts
        errors = ", ".join(f"RecordError(batchIndex={place}, message='{text}')" for place, text in rejected[:3])
        is_mistimed = code == ErrorCode.INVALID_TIMESTAMP
        message = (texts.rejected_timestamps if is_mistimed else texts.rejected_records).format(
            text=rejected[0][1], count=len(rejected), errors=errors
        )
        # Before 2.4 INVALID_TIMESTAMP is among the errors without a log start offset, like CORRUPT_MESSAGE.
        names_start = code not in _NO_LOG_START and self.broker.version.api.has_invalid_record_error
        if texts.lists_rejected_records:
            return _RejectedError(code, names_start, message, tuple(rejected))
        return _RejectedError(code, names_start, message, ((rejected[0][0], None),))

    def _stored(
        self, entries: Sequence[memoryview], headers: Sequence[EntryHeader], config: LogConfig, invalid: ErrorCode
    ) -> tuple[bytes, bool]:
        """Return record data in the format and compression of the log, and whether they had others before.

        This is LogValidator.validateMessagesAndAssignOffsets.
        Records that are compressed, or are to be, become one batch or message unless they have that form already.
        """
        rules = self.broker.version.api
        codecs = [header.codec for header in headers if header.codec]
        source = codecs[-1] if codecs else 0
        target = source if config.codec is None else config.codec
        is_other = any(header.magic != config.magic and header.magic <= rules.batch_magic for header in headers)
        if codecs and len(entries) > 1 and rules.stores_single_batch:
            raise _rejection(invalid)
        is_one = len(entries) == 1 or not source | target
        if source == target and is_one and not is_other:
            is_marked = not config.has_append_time and any(map(_is_marked, headers))
            return b"".join(map(without_append_time, entries) if is_marked else entries), False
        if config.magic < NEWEST and any(header.producer_id >= 0 for header in headers):
            raise _rejection(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        records = [record for entry in entries for record in decode_entry(entry)]
        if config.magic < NEWEST:
            if any(record.headers for record in records):  # MemoryRecordsBuilder.appendWithOffset
                raise _rejection(ErrorCode.UNKNOWN_SERVER_ERROR)
            numbered = [record._replace(offset=number) for number, record in enumerate(records)]
            return encode_messages(numbered, config.magic, target), True
        first = headers[0]
        producer = BatchProducer(first.producer_id, first.producer_epoch, first.base_sequence)
        stored = encode_batch(records, codec=target, producer=producer, is_transactional=_is_transactional(first))
        return stored, True

    # -- response

    def _refused(self, partition: TopicPartition, rejection: _RejectedError) -> Result:
        """Return the result of a partition whose records are rejected."""
        result = Result(index=partition.partition, error_code=rejection.code, base_offset=-1)
        replica = self.broker.replicas.replicas.get(partition)
        if rejection.names_start and replica is not None:
            result.log_start_offset = replica.log.start
        one = ProduceResponse.BatchIndexAndErrorMessage
        result.error_message = rejection.message
        result.record_errors = [one(batch_index=at, batch_index_error_message=text) for at, text in rejection.records]
        return result

    def _result(
        self, partition: TopicPartition, code: ErrorCode, base_offset: int = -1, *, is_duplicate: bool = False
    ) -> Result:
        """Return the result of a partition."""
        result = Result(index=partition.partition, error_code=code, base_offset=base_offset)
        replica = self.broker.replicas.replicas.get(partition)
        if replica is None:
            return result
        if code not in _NO_LOG_START:
            result.log_start_offset = replica.log.start
        batch = find_batch(replica.log, base_offset) if code == ErrorCode.NONE and base_offset >= 0 else None
        is_shown = batch is not None and is_duplicate and batch.producer is not None
        if batch is not None and batch.payload is not None and not is_shown:
            is_shown = entry_header(batch.payload).has_append_time
        if batch is not None and is_shown:
            result.log_append_time_ms = batch.max_timestamp_ms
        return result

    def _response(
        self, context: Context, request: ProduceRequest, results: dict[TopicPartition, Result]
    ) -> ProduceResponse | Silence | None:
        """Return the response; None closes the connection."""
        if request.acks == 0:
            failed = any(result.error_code for result in results.values())
            return None if failed else Silence.NO_RESPONSE
        topics: dict[str, list[Result]] = {}
        leaders: list[int] = []
        for partition, result in results.items():
            topics.setdefault(partition.topic, []).append(result)
            if context.version >= _LEADERS_SINCE and result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leaders += name_leader(result.current_leader, partition, self.broker)
        kind = ProduceResponse.TopicProduceResponse
        return ProduceResponse(
            responses=[kind(name=name, partition_responses=found) for name, found in topics.items()],
            node_endpoints=endpoints(ProduceResponse.NodeEndpoint, leaders, self.broker, context.listener),
        )


def _is_valid_batch(header: EntryHeader) -> bool:
    """Return whether a client may send a batch with this header (LogValidator.validateBatch)."""
    counts = header.records > 0 and header.last_offset_delta == header.records - 1
    is_numbered = header.producer_id == NO_PRODUCER_ID or header.base_sequence >= 0
    return counts and is_numbered and not header.is_control


def _is_transactional(header: EntryHeader) -> bool:
    """Return whether a batch belongs to a transaction; messages of older formats cannot."""
    return header.magic == NEWEST and header.is_transactional


def _is_marked(header: EntryHeader) -> bool:
    """Return whether timestamps are marked as those of the append; the oldest format has none."""
    return header.magic > 0 and header.has_append_time


def _described(record: Record) -> str:
    """Return a record as its class shows it in texts (DefaultRecord.toString)."""
    return (
        f"DefaultRecord(offset={record.offset}, timestamp={record.timestamp_ms}, key={len(record.key or b'')} bytes, "
        f"value={len(record.value or b'')} bytes)"
    )


def _not_in_transaction(code: ErrorCode) -> _RejectedError:
    """Return the rejection by an error of the coordinator; one that passes is an error that old clients retry."""
    if code in _PASSING:
        reason = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return _RejectedError(ErrorCode.NOT_ENOUGH_REPLICAS, names_start=False, message=reason)
    text = "Partition was not added to the transaction" if code == ErrorCode.INVALID_TXN_STATE else None
    return _RejectedError(code, names_start=False, message=text)


def _rejection(code: ErrorCode) -> _RejectedError:
    """Return the rejection by an error, as it is answered after the log was found."""
    return _RejectedError(code, names_start=code not in _NO_LOG_START)


def whole_entries(data: bytes | bytearray | memoryview) -> list[memoryview]:
    """Return the entries up to the first one that is cut short, as brokers read them."""
    view, at, found = memoryview(data), 0, []
    while at < len(view):
        try:
            size = entry_size(view, at)
        except RecordDataError:
            break
        found.append(view[at : at + size])
        at += size
    return found


# -- DescribeProducers


def describe_producers(
    broker: ServingBroker, _context: Context, request: DescribeProducersRequest, answer: Answer
) -> None:
    """Answer DescribeProducers."""
    kind = DescribeProducersResponse.TopicResponse
    topics = [
        kind(name=topic.name, partitions=[_producers_of(broker, topic.name, one) for one in topic.partition_indexes])
        for topic in request.topics
    ]
    answer(DescribeProducersResponse(topics=topics))


def _producers_of(broker: ServingBroker, topic: str, number: int) -> DescribedPartition:
    """Return the producers of a partition, or the error."""
    partition, result = TopicPartition(topic, number), DescribedPartition(partition_index=number)
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
