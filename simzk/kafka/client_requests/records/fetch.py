"""Fetch: record data for clients, from leaders and followers, with long polls and sessions.

Rules of this module (KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, DelayedFetch; recorded 0.8 to 3.9):
  - a consumer reads up to the high watermark, with isolation "read committed" up to the last stable offset, a client
    with replica id -2 up to the log end offset;
  - from version 11 on a consumer may read from followers (KIP-392). With a rack, and `replica.selector.class` set to
    the rack-aware one, the leader names an in-sync replica of that rack instead of records;
  - a response waits for `min_bytes` or for the time of the request; errors of replicas are answered at once. Partitions
    that the metadata cache does not know, and since version 13 unknown topic ids, are at the end of a response and make
    it come no earlier since 0.10.1, unless nothing else is asked for (`erroneous` of KafkaApis);
  - since version 13 a request names topics by id. If the log of that name has another id, the topic was made again:
    INCONSISTENT_TOPIC_ID;
  - records are cut at the limits. From version 3 on the first batch is sent whole, whatever its size (KIP-74), and a
    batch of which the beginning does not fit is left out;
  - records newer than what the version can carry are converted down: magic 0 up to version 1, magic 1 up to version 3.
    Their headers, control batches and producer ids are lost. In 0.11 a record with headers fails the whole request
    (KAFKA-6739). From 2.0 on they are converted while they are sent: `_sent_in_chunks`. A topic may forbid it
    (`message.downconversion.enable`), and clients before version 10 cannot read one that is stored with zstd;
  - records without content, which only the simulation's own producers send, have empty values;
  - what a consumer gets is noted as read: a later leader must have it (observation/records.py). A client with replica
    id -2 knows that it reads what may be lost.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.broker.replica_logs import epoch_error
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.client_requests.records.current_leader import endpoints, name_leader
from simzk.kafka.client_requests.records.fetch_sessions import (
    NO_SESSION,
    SLOTS,
    AskedPartition,
    Fetching,
    FetchKey,
    FetchSessionCache,
    Sent,
)
from simzk.kafka.log.batches import NO_EPOCH
from simzk.kafka.log.leader_epochs import UNDEFINED, EpochEnd
from simzk.kafka.log.record_batches import (
    NEWEST,
    ZSTD,
    Record,
    RecordDataError,
    decode_entry,
    encode_batch,
    encode_messages,
    entry_header,
)
from simzk.kafka.metadata.entities import AclResource
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import FetchResponse
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.broker.replica_logs import Replica
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.log.batches import RecordBatch
    from simzk.kafka.protocol.messages import FetchRequest
    from simzk.simulation import Timer

FETCH = 1
CONSUMER, DEBUGGER = -1, -2
"""Replica ids of clients: a consumer, and a tool that reads beyond the high watermark."""
READ_COMMITTED = 1
_MAX_BYTES = "fetch.max.bytes"
"""A setting of 2.5 and later."""
_CHUNK_BYTES = 128 * 1024
"""Size of batches that are converted down together (LazyDownConversionRecordsSend.MAX_READ_SIZE)."""
_OVERFLOW = struct.Struct(">qi")
_OVERFLOW_MIN, _BATCH_MIN = _OVERFLOW.size, 61
_ZSTD_SINCE = 10
_WHOLE_BATCH_SINCE, _FOLLOWERS_SINCE, _DIVERGING_SINCE, _IDS_SINCE = 3, 11, 12, 13
_LEADERS_SINCE = 16
"""Version of the response from which on it names the leader after an error (KIP-951)."""
_MAGIC_OF_VERSION = {0: 0, 1: 0, 2: 1, 3: 1}
"""Newest format that a version of the request carries; 2 for all others."""
_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
_ERRONEOUS = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)
"""Errors of partitions that are not read (`erroneous` in KafkaApis.handleFetchRequest)."""
_NAMES_REFUSED = (1, 0)
_RACK_AWARE = "RackAwareReplicaSelector"

PartitionData = FetchResponse.PartitionData


class _Read(NamedTuple):
    """Records read of one partition: an error, or offsets with record data.

    Args:
        code: the error.
        data: record data; cut at the limit.
        size_bytes: size of the records before a conversion.
        replica: the replica that was read; None with an error.
        aborted: producer id and first offset of aborted transactions; None if the client reads uncommitted records.
        diverging: where the client's log differs.
        preferred: the replica that the client is to read from; -1 for none.
        batches: the batches of which all records are in `data`.
    """

    code: ErrorCode
    data: bytes = b""
    size_bytes: int = 0
    replica: Replica | None = None
    aborted: tuple[tuple[int, int], ...] | None = None
    diverging: EpochEnd | None = None
    preferred: int = -1
    batches: tuple[RecordBatch, ...] = ()


@dataclass(eq=False)
class _Client:
    """Fields of a request that hold for all its partitions.

    `refused` are partitions without a topic, that are not in the metadata cache, or that the client may not read, with
    the error of each.
    """

    version: int
    replica_id: int
    isolation: int
    rack: str
    max_bytes: int
    min_bytes: int
    fetching: Fetching
    refused: Mapping[FetchKey, ErrorCode]
    answer: Answer
    listener: str
    timer: Timer | None = None


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return FetchApi(broker.serving_broker).handlers


@dataclass(eq=False)
class FetchApi(ClientApi):
    """Fetch requests of clients to one broker."""

    _waiting: dict[TopicPartition, dict[_Client, None]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        rules = self.broker.version.api
        slots = self.broker.config.integer(SLOTS) if rules.has_fetch_sessions else 0
        self.sessions = FetchSessionCache(slots, rules.fetch_session_caches, count(1).__next__, self._name_of)
        self.broker.replicas.on_readable = self.complete_waiting

    @property
    def handlers(self) -> dict[int, Handler]:
        return {FETCH: self.serve}

    def _name_of(self, topic_id: str) -> str | None:
        return self.broker.cache.topic_names.get(topic_id)

    # -- requests

    def serve(self, context: Context, request: FetchRequest, answer: Answer) -> None:
        """Answer a fetch now, or when there are enough records, an error, or its time is over."""
        version, has_ids = context.version, context.version >= _IDS_SINCE
        asked = {
            ((topic.topic_id if has_ids else topic.topic), one.partition): AskedPartition(
                self._name_of(topic.topic_id) if has_ids else topic.topic,
                one.fetch_offset,
                one.partition_max_bytes,
                one.current_leader_epoch,
                one.last_fetched_epoch,
                topic.topic_id if has_ids else "",
            )
            for topic in request.topics
            for one in topic.partitions
        }
        forgotten = [
            ((topic.topic_id if has_ids else topic.topic), number)
            for topic in request.forgotten_topics_data
            for number in topic.partitions
        ]
        session = request.session_id, request.session_epoch
        fetching = self.sessions.begin(*session, asked, forgotten, self.broker.now_ms(), uses_topic_ids=has_ids)
        if isinstance(fetching, ErrorCode):
            answer(FetchResponse(error_code=fetching))
            return
        replica_id = request.replica_id if version < 15 else request.replica_state.replica_id
        max_bytes, min_bytes = request.max_bytes, request.min_bytes
        if self.broker.version.api.caps_min_bytes:
            max_bytes = min(max_bytes, self.broker.config.integer(_MAX_BYTES))
            min_bytes = min(min_bytes, max_bytes)
        client = _Client(
            *(version, replica_id, request.isolation_level, request.rack_id, max_bytes, min_bytes),
            *(fetching, self._refused(fetching, self._permission(context, replica_id)), answer, context.listener),
        )
        reads = self._read_all(client)
        if request.max_wait_ms <= 0 or not reads or self._is_enough(client, reads):
            self._answer(client, reads)
            return
        for partition in _partitions_of(client.fetching):
            self._waiting.setdefault(partition, {})[client] = None
        client.timer = self.broker.process.call_later(request.max_wait_ms * 1000, lambda: self._end(client))

    def _refused(self, fetching: Fetching, permission: Callable[[str], ErrorCode]) -> dict[FetchKey, ErrorCode]:
        """Return the errors of partitions that are not looked for among the replicas.

        All partitions of a session are looked at with each request: the permission may have changed.
        """
        refused = {}
        for key, asked in fetching.partitions.items():
            if asked.topic is None:
                refused[key] = ErrorCode.UNKNOWN_TOPIC_ID
            elif (code := permission(asked.topic)) != ErrorCode.NONE:
                refused[key] = code
            elif (
                self.broker.version.api.fetch_names_unknown_last
                and TopicPartition(asked.topic, key[1]) not in self.broker.cache.partitions
            ):
                refused[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refused

    def _permission(self, context: Context, replica_id: int) -> Callable[[str], ErrorCode]:
        """Return a function from the name of a topic to the error of a client that may not read it.

        Who fetches as a broker needs to act for the cluster. Up to 0.11 a topic that a client may not describe is
        unknown to it.
        """
        authorizer, principal = self.broker.authorizer, context.principal
        if not authorizer.is_enabled:
            return lambda _name: ErrorCode.NONE
        hides_names = self.broker.version.number < _NAMES_REFUSED
        if replica_id >= 0:
            may = self.broker.allows_on_cluster("ClusterAction", principal)
            refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if hides_names else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return lambda _name: ErrorCode.NONE if may else refusal

        def code_of(name: str) -> ErrorCode:
            topic = AclResource("Topic", name)
            if authorizer.allows("Read", topic, principal):
                return ErrorCode.NONE
            if hides_names and not authorizer.allows("Describe", topic, principal):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED

        return code_of

    def complete_waiting(self, partition: TopicPartition) -> None:
        """Answer the requests that wait for a partition and now have enough, or an error."""
        for client in list(self._waiting.get(partition, ())):
            reads = self._read_all(client)
            if self._is_enough(client, reads):
                self._end(client, reads)

    def _end(self, client: _Client, reads: dict[FetchKey, _Read] | None = None) -> None:
        """Answer a request that waits."""
        assert client.timer is not None
        client.timer.cancel()
        for partition in _partitions_of(client.fetching):
            waiting = self._waiting.get(partition)
            if waiting is not None and waiting.pop(client, 0) is None and not waiting:
                del self._waiting[partition]
        self._answer(client, self._read_all(client) if reads is None else reads)

    def _is_enough(self, client: _Client, reads: Mapping[FetchKey, _Read]) -> bool:
        """Return whether a request need not wait (any more)."""
        if any(read.code or read.diverging is not None or read.preferred >= 0 for read in reads.values()):
            return True
        return sum(read.size_bytes for read in reads.values()) >= client.min_bytes

    # -- reads

    def _read_all(self, client: _Client) -> dict[FetchKey, _Read]:
        """Read the partitions of a request, but for the unknown ones, up to its limit."""
        left, has_records, found = max(client.max_bytes, 0), False, {}
        for key, asked in client.fetching.partitions.items():
            if key in client.refused or asked.topic is None:
                continue
            is_first = client.version >= _WHOLE_BATCH_SINCE and not has_records
            try:
                read = self._read(client, TopicPartition(asked.topic, key[1]), asked, left, is_first=is_first)
            except _HeadersError:
                return dict.fromkeys(client.fetching.partitions, _Read(ErrorCode.UNKNOWN_SERVER_ERROR))
            has_records = has_records or read.size_bytes > 0
            left = max(0, left - read.size_bytes)
            found[key] = read
        return found

    def _read(
        self, client: _Client, partition: TopicPartition, asked: AskedPartition, left: int, *, is_first: bool
    ) -> _Read:
        code = self._error(client, partition, asked)
        if code != ErrorCode.NONE:
            return _Read(code)
        replica = self.broker.replicas.replicas[partition]
        log, offset = replica.log, asked.offset
        if asked.last_epoch != NO_EPOCH and client.version >= _DIVERGING_SINCE:
            end = log.end_offset_for(asked.last_epoch)
            if end == UNDEFINED:
                return _Read(ErrorCode.OFFSET_OUT_OF_RANGE)
            if end.epoch < asked.last_epoch or end.end_offset < offset:
                return _Read(ErrorCode.NONE, replica=replica, diverging=end)
        if not log.is_readable(offset):
            return _Read(ErrorCode.OFFSET_OUT_OF_RANGE)
        is_committed = client.isolation == READ_COMMITTED
        preferred = self._preferred(client, replica, offset)
        if preferred >= 0:
            return _Read(ErrorCode.NONE, replica=replica, aborted=() if is_committed else None, preferred=preferred)
        limit = log.last_stable_offset if is_committed else log.high_watermark
        if client.replica_id != CONSUMER:  # a broker that has no replica gets nothing
            limit = log.end if client.replica_id < 0 or client.replica_id in replica.followers else offset
        assert limit <= log.end or limit == offset, "nothing is read beyond the end"
        max_bytes = max(0, min(asked.max_bytes, left))
        batches: tuple[RecordBatch, ...] = ()
        if offset < limit:
            read_end = min(limit, log.segment_end(offset))
            batches = log.read(offset, max_bytes=max_bytes, limit=read_end, is_cut=True)
        entries = [self._entry(batch) for batch in batches]
        data = b"".join(entries)
        if entries and len(data) > max_bytes:
            if len(entries[0]) > max_bytes and client.version >= _WHOLE_BATCH_SINCE:
                entries = entries[:1] if is_first else []
                data = b"".join(entries)
            else:
                data = data[:max_bytes]
        aborted: tuple[tuple[int, int], ...] | None = None
        if is_committed:
            read_to = batches[len(entries) - 1].next_offset if entries else offset
            known = log.aborted_transactions(offset, read_to) if offset < limit else []
            aborted = tuple((one.producer_id, one.first_offset) for one in known)
        try:
            converted = self._converted(client, partition.topic, data, entries, offset)
        except RecordDataError:
            return _Read(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if converted is None:
            return _Read(ErrorCode.UNSUPPORTED_VERSION)
        # The batches of which the entries are in the first bytes of the record data that was read.
        ends = accumulate(map(len, entries))
        sent = tuple(batch for batch, end in zip(batches, ends, strict=False) if end <= len(data))
        return _Read(ErrorCode.NONE, converted, len(data), replica, aborted, batches=sent)

    def _converted(
        self, client: _Client, topic: str, data: bytes, entries: Sequence[bytes], offset: int
    ) -> bytes | None:
        """Return record data in a format that the client knows; None if the topic forbids to convert it.

        Args:
            client, topic: who reads what.
            data: the data as it is stored; if its last entry is cut, that is left out of a conversion.
            entries: its entries, whole.
            offset: records before it are left out where they are not compressed.

        Raises:
            RecordDataError: the codec is not installed, or unknown to the client.
            _HeadersError: a record has headers, which are not dropped.
        """
        rules, config = self.broker.version.api, self.broker.topic_configs.of_log(topic)
        if config.codec == ZSTD and client.version < _ZSTD_SINCE and rules.rejects_zstd_topics:
            raise RecordDataError("the client does not know zstd")
        magic = _MAGIC_OF_VERSION.get(client.version, NEWEST)
        if magic >= config.magic:
            return data
        ends = accumulate(map(len, entries))
        whole = [entry for entry, end in zip(entries, ends, strict=True) if end <= len(data)]
        if not rules.converts_by_version and all(entry_header(entry).magic <= magic for entry in whole):
            return data
        if not config.down_converts:
            return None
        if rules.converts_in_chunks:
            return _sent_in_chunks(whole, magic, offset, len(data))
        if rules.converts_together:
            return _converted_together(whole, magic) if whole else data
        return _down_converted(whole, magic, offset, drops_headers=rules.drops_headers)

    def _error(self, client: _Client, partition: TopicPartition, asked: AskedPartition) -> ErrorCode:
        """Return the error of a partition that cannot be read here."""
        if partition not in self.broker.cache.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rules, replica = self.broker.version.api, self.broker.replicas.replicas.get(partition)
        may_follow = client.version >= _FOLLOWERS_SINCE and client.replica_id == CONSUMER
        if replica is None:
            return rules.follower_without_replica if may_follow else rules.without_replica
        if asked.topic_id and replica.log.topic_id not in (None, asked.topic_id):  # ReplicaManager.hasConsistentTopicId
            return ErrorCode.INCONSISTENT_TOPIC_ID
        code = leader_epoch_error(asked.leader_epoch, replica.state.leader_epoch)
        if code != ErrorCode.NONE:
            return code
        if not self.broker.replicas.leads(partition) and not may_follow:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if client.replica_id >= 0 and client.replica_id not in replica.followers:
            return rules.unknown_follower
        return ErrorCode.NONE

    def _entry(self, batch: RecordBatch) -> bytes:
        """Return a batch as bytes; records without content get empty values."""
        if batch.payload is not None:
            return batch.payload
        records = [Record(None, b"", offset=batch.base_offset + number) for number in range(batch.records)]
        if self.broker.version.api.batch_magic < 2:
            return encode_messages(records, self.broker.version.api.batch_magic)
        return encode_batch(records, base_offset=batch.base_offset, leader_epoch=batch.leader_epoch)

    def _preferred(self, client: _Client, replica: Replica, offset: int) -> int:
        """Return the replica in the client's rack that it is to read from; -1 for this one (KIP-392)."""
        if client.version < _FOLLOWERS_SINCE or not client.rack or not self.broker.replicas.leads(replica.partition):
            return -1
        if client.replica_id != CONSUMER or not self.broker.config.text("replica.selector.class").endswith(_RACK_AWARE):
            return -1
        live = self.broker.cache.live_brokers
        ends = {broker: progress.log_end for broker, progress in replica.followers.items()}
        ends[self.broker.replicas.broker_id] = replica.log_end
        fitting = [broker for broker in ends if live.get(broker) == client.rack and ends[broker] >= offset]
        if not fitting or self.broker.replicas.broker_id in fitting:
            return -1
        return max(fitting, key=lambda broker: ends[broker])

    # -- responses

    def _answer(self, client: _Client, reads: Mapping[FetchKey, _Read]) -> None:
        fetching = client.fetching
        session, session_id = fetching.session, NO_SESSION
        if session is not None:
            session_id = session.id
            if session.epoch != fetching.epoch:  # another request of the session came while this one waited
                client.answer(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session_id))
                return
        topics: list[FetchResponse.FetchableTopicResponse] = []
        leaders: list[int] = []
        last: str | None = None
        all_reads = {**reads, **{key: _Read(code) for key, code in client.refused.items()}}
        sent = {key: _offsets_of(read) for key, read in all_reads.items()}
        if fetching.opens:
            session_id = self.sessions.open(
                fetching.partitions,
                sent,
                self.broker.now_ms(),
                is_privileged=client.replica_id >= 0,
                uses_topic_ids=client.version >= _IDS_SINCE,
            )
        for key, read in all_reads.items():
            asked = client.fetching.partitions[key]
            partition = TopicPartition(asked.topic or "", key[1])
            assert read.replica is None or read.replica.partition == partition, f"{partition} is read from another one"
            if read.replica is not None and client.replica_id == CONSUMER:
                self.broker.replicas.note_read(read.replica, read.batches)
            has_news = bool(read.code or read.data or read.diverging is not None or read.preferred >= 0)
            if session and not session.is_due(key, sent[key], has_news=has_news, has_records=bool(read.data)):
                continue
            if key[0] != last:
                last = key[0]
                topics.append(FetchResponse.FetchableTopicResponse(topic=partition.topic))
                if asked.topic_id:
                    topics[-1].topic_id = asked.topic_id
            topics[-1].partitions = [*topics[-1].partitions, self._data(client, partition, read, leaders)]
        addresses = endpoints(FetchResponse.NodeEndpoint, leaders, self.broker, client.listener)
        client.answer(FetchResponse(session_id=session_id, responses=topics, node_endpoints=addresses))

    def _data(self, client: _Client, partition: TopicPartition, read: _Read, leaders: list[int]) -> PartitionData:
        """Return a partition of the response; note the leader that it names."""
        assert (read.replica is None) == (read.code != ErrorCode.NONE), "a replica is read, or there is an error"
        data = PartitionData(partition_index=partition.partition, error_code=read.code, high_watermark=-1)
        data.aborted_transactions = (
            [] if read.code in _ERRONEOUS and self.broker.version.api.lists_no_transactions else None
        )
        data.records = read.data
        if read.replica is not None:
            log = read.replica.log
            data.high_watermark, data.log_start_offset = log.high_watermark, log.start
            if client.isolation == READ_COMMITTED or self.broker.version.api.fetch_names_stable_offset:
                data.last_stable_offset = log.last_stable_offset
            data.preferred_read_replica = read.preferred
        if read.aborted is not None:
            one = FetchResponse.AbortedTransaction
            data.aborted_transactions = [one(producer_id=producer, first_offset=at) for producer, at in read.aborted]
        if read.diverging is not None:
            data.diverging_epoch.epoch, data.diverging_epoch.end_offset = read.diverging
        if client.version >= _LEADERS_SINCE and read.code in _LEADER_ERRORS:
            leaders += name_leader(data.current_leader, partition, self.broker)
        return data


def _partitions_of(fetching: Fetching) -> dict[TopicPartition, None]:
    """Return the partitions of a fetch by name; an old and a new id of a topic may have the same."""
    named = ((asked.topic, number) for (_, number), asked in fetching.partitions.items())
    return {TopicPartition(topic, number): None for topic, number in named if topic is not None}


def _offsets_of(read: _Read) -> Sent:
    """Return the offsets that a response names."""
    return Sent(-1, -1) if read.replica is None else Sent(read.replica.log.high_watermark, read.replica.log.start)


def leader_epoch_error(named: int, own: int) -> ErrorCode:
    """Return the error for a leader epoch that a client names; -1 for none (KIP-320).

    >>> [leader_epoch_error(named, 3).name for named in (-1, 2, 3, 4)]
    ['NONE', 'FENCED_LEADER_EPOCH', 'NONE', 'UNKNOWN_LEADER_EPOCH']
    """
    return ErrorCode.NONE if named in (-1, own) else epoch_error(named, own)


class _HeadersError(Exception):
    """A record has headers, which the format that the client knows does not have."""


def _down_converted(entries: Sequence[bytes], magic: int, offset: int, *, drops_headers: bool = True) -> bytes:
    """Return entries in an older format (RecordsUtil.downConvert).

    Raises:
        RecordDataError: the codec is not installed, or unknown in that format.
        _HeadersError: a record has headers, which are not dropped.
    """
    parts = []
    for entry in entries:
        header = entry_header(entry)
        if header.is_control:
            continue
        if header.magic <= magic:
            parts.append(entry)
            continue
        if header.codec == ZSTD:
            raise RecordDataError("zstd is unknown in formats before magic 2")
        records = [one for one in decode_entry(entry) if header.codec or one.offset >= offset]
        if not drops_headers and any(one.headers for one in records):
            raise _HeadersError
        parts.append(encode_messages(records, magic, header.codec))
    return b"".join(parts)


def _converted_together(entries: Sequence[bytes], magic: int) -> bytes:
    """Return all entries in an older format and in the compression of the first one (AbstractRecords.toMessageFormat).

    Raises:
        RecordDataError: a codec is not installed.
    """
    records = [record for entry in entries for record in decode_entry(entry)]
    return encode_messages(records, magic, entry_header(entries[0]).codec)


def _sent_in_chunks(entries: Sequence[bytes], magic: int, offset: int, size_bytes: int) -> bytes:
    """Return entries in an older format as a broker sends them from 2.0 on (LazyDownConversionRecordsSend).

    The size is that of the stored data, or of the first batch that has records in the older format, if that is larger.
    The others follow in chunks. The rest of the size is filled with the beginning of a batch that is too large, which
    clients ignore; so it is from a chunk on that cannot be converted. The client gets the error when it fetches that.

    Raises:
        RecordDataError: the first batch cannot be converted.
    """
    first, place = b"", 0
    while not first and place < len(entries):
        first = _down_converted(entries[place : place + 1], magic, offset)
        place += 1
    size_bytes = max(size_bytes, len(first)) if first else _OVERFLOW_MIN if entries else 0
    sent, chunk = first, list[bytes]()
    try:
        for entry in entries[place:]:
            if chunk and sum(map(len, chunk)) + len(entry) > _CHUNK_BYTES:
                sent += _down_converted(chunk, magic, offset)
                chunk = []
            chunk.append(entry)
        sent += _down_converted(chunk, magic, offset)
    except RecordDataError:
        pass
    while len(sent) < size_bytes:
        left = size_bytes - len(sent)
        head = _OVERFLOW.pack(-1, max(left + 1, _BATCH_MIN))
        sent += head[:left].ljust(min(left, _CHUNK_BYTES), b"\0")
    return sent[:size_bytes]
