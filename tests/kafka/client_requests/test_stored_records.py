"""What a leader does with records by the configuration of their topic, and how much of them a fetch returns.

Codes, texts and sizes are those of real brokers 2.8.2 and 3.9.1 with the same requests, unless a class is named.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from crc32c import crc32c

import simzk
from simzk.kafka.coordinator.coordinator_log import OFFSETS_TOPIC
from simzk.kafka.log.record_batches import (
    GZIP,
    SNAPPY,
    ZSTD,
    BatchProducer,
    Record,
    RecordDataError,
    decode_entry,
    encode_batch,
    encode_messages,
    entry_header,
    entry_size,
)
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.memory_client import MemoryClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PRODUCE = {"0.8.2": 0, "0.9": 1, "0.10.2": 2, "0.11": 3, "2.3": 7, "2.4": 8, "2.8": 8, "3.5": 9, "3.9": 9}
LIMIT_MS = 10_000
NEVER_MS = 2**63 - 1
APPEND_TIME, CONTROL = 8, 32
REJECTED = "One or more records have been rejected"
CUT_BYTES = 471
"""Size of each batch that is cut."""


def cluster_of(
    release: str, topic: Mapping[str, str] | None = None, settings: Mapping[str, str | int] | None = None
) -> simzk.KafkaCluster:
    """Return a cluster of one broker with a topic `orders` of one partition."""
    cluster = simzk.KafkaCluster(release, 1, config={"offsets.topic.replication.factor": 1, **(settings or {})})
    cluster.create_topic("orders", assignment={0: [1]}, config=dict(topic or {}))
    cluster.run_for(1)
    return cluster


def now_ms(cluster: simzk.KafkaCluster) -> int:
    """Return the time of the broker."""
    return cluster.brokers[1].replicas.now_ms()


def batch(*times_ms: int, key: bytes | None = b"k", codec: int = 0, size: int = 1) -> bytes:
    """Return a batch with a record for each timestamp."""
    return encode_batch([Record(key, b"x" * size, timestamp_ms=one) for one in times_ms], codec=codec)


def changed(entry: bytes, attributes: int) -> bytes:
    """Return a batch with more attributes."""
    data = bytearray(entry)
    data[22] |= attributes
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def produce(
    cluster: simzk.KafkaCluster, data: bytes, version: int, *, topic: str = "orders", acks: int = -1, client: str = "me"
) -> ProduceResponse.PartitionProduceResponse:
    """Produce to the first partition of a topic; return its result."""
    part = ProduceRequest.PartitionProduceData(index=0, records=data)
    named = ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
    request = ProduceRequest(acks=acks, timeout_ms=3000, topic_data=[named])
    response = MemoryClient(cluster, 1, client).call(request, version, ProduceResponse)
    return response.responses[0].partition_responses[0]


def fetch(
    cluster: simzk.KafkaCluster, version: int, offset: int = 0, *, max_bytes: int = 1 << 20, of_partition: int = 1 << 20
) -> tuple[int, bytes]:
    """Fetch from `orders`; return the error and the record data."""
    one = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=of_partition)
    topics = [FetchRequest.FetchTopic(topic="orders", partitions=[one])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=topics)
    response = MemoryClient(cluster, 1).call(request, version, FetchResponse)
    data = response.responses[0].partitions[0]
    return data.error_code, bytes(data.records or b"")


def entries(data: bytes) -> list[bytes]:
    """Return the whole entries of record data."""
    found, at = list[bytes](), 0
    while True:
        try:
            size = entry_size(data, at)
        except RecordDataError:
            return found
        found.append(data[at : at + size])
        at += size


# -- timestamps


@pytest.mark.parametrize("release", ["0.11", "2.3", "2.4", "2.8", "3.9"])
def test_records_out_of_the_range_of_timestamps_are_rejected(release: str) -> None:
    with cluster_of(release, {"message.timestamp.difference.max.ms": str(LIMIT_MS)}) as cluster:
        now, version = now_ms(cluster), PRODUCE[release]
        text = (
            "Timestamp {} of message with offset {} is out of range. The timestamp should be within "
            f"[{now - LIMIT_MS}, {now + LIMIT_MS}]"
        )
        late, early = now - LIMIT_MS - 1, now + LIMIT_MS + 1
        result = produce(cluster, batch(late, now, early), version)
        assert result.error_code == ErrorCode.INVALID_TIMESTAMP
        assert result.base_offset == -1
        errors = [(one.batch_index, one.batch_index_error_message) for one in result.record_errors]
        if version >= 8:
            listed = [(0, text.format(late, 0)), (2, text.format(early, 2))]
            assert errors == (listed if release != "2.4" else [(0, None)])
            message = REJECTED + " due to invalid timestamp" if release != "2.4" else text.format(late, 0)
            assert (result.error_message, result.log_start_offset) == (message, 0)
        else:
            assert (errors, result.log_start_offset) == ([], -1)
        assert produce(cluster, batch(late, codec=GZIP), version).error_code == ErrorCode.INVALID_TIMESTAMP
        assert produce(cluster, batch(now - LIMIT_MS, now + LIMIT_MS, -1), version).base_offset == 0


@pytest.mark.parametrize(("key", "distance_ms"), [("before", -LIMIT_MS - 1), ("after", LIMIT_MS + 1)])
def test_one_side_is_limited(key: str, distance_ms: int) -> None:
    with cluster_of("3.9", {f"message.timestamp.{key}.max.ms": str(LIMIT_MS)}) as cluster:
        now = now_ms(cluster)
        result = produce(cluster, batch(now + distance_ms), 9)
        assert result.error_code == ErrorCode.INVALID_TIMESTAMP
        # The other end overflows, as in the real texts.
        ends = (now + NEVER_MS) % 2**64 - 2**64, now - NEVER_MS
        shown = f"[{now - LIMIT_MS}, {ends[0]}]" if key == "before" else f"[{ends[1]}, {now + LIMIT_MS}]"
        assert (result.record_errors[0].batch_index_error_message or "").endswith(shown)
        assert produce(cluster, batch(now - distance_ms), 9).error_code == ErrorCode.NONE


def test_the_broker_limits_timestamps_of_all_topics() -> None:
    settings = {"log.message.timestamp.difference.max.ms": LIMIT_MS}
    with cluster_of("2.8", settings=settings) as cluster:
        assert produce(cluster, batch(5), 8).error_code == ErrorCode.INVALID_TIMESTAMP


def test_messages_without_timestamps() -> None:
    old = encode_messages([Record(None, b"x")], magic=0)
    limit = {"message.timestamp.difference.max.ms": str(LIMIT_MS)}
    with cluster_of("0.10.2", limit) as cluster:  # LogValidator of 0.10 compares their -1
        assert produce(cluster, old, 0).error_code == ErrorCode.INVALID_TIMESTAMP
    with cluster_of("3.9", limit) as cluster:
        assert produce(cluster, old, 0).error_code == ErrorCode.NONE
        dated = encode_messages([Record(None, b"x", timestamp_ms=5)], magic=1)
        assert produce(cluster, dated, 2).error_code == ErrorCode.INVALID_TIMESTAMP


def test_the_append_time_has_no_range() -> None:
    topic = {"message.timestamp.difference.max.ms": "1", "message.timestamp.type": "LogAppendTime"}
    with cluster_of("3.9", topic) as cluster:
        assert produce(cluster, batch(5), 9).error_code == ErrorCode.NONE


def test_records_without_key_are_listed_before_their_timestamps() -> None:
    topic = {"message.timestamp.difference.max.ms": str(LIMIT_MS), "cleanup.policy": "compact"}
    for release, end in (("2.8", "."), ("3.5", "")):
        with cluster_of(release, topic) as cluster:
            result = produce(cluster, batch(5, 6, key=None), PRODUCE[release])
            assert result.error_code == ErrorCode.INVALID_RECORD
            text = f"Compacted topic cannot accept message without key in topic partition orders-0{end}"
            assert [one.batch_index_error_message for one in result.record_errors] == [text] * 2


@pytest.mark.parametrize("release", ["2.8", "3.9"])
def test_a_producer_that_marks_its_timestamps_as_those_of_the_append(release: str) -> None:
    with cluster_of(release) as cluster:
        result = produce(cluster, changed(batch(5), APPEND_TIME), 8)
        if release == "2.8":
            text = (
                "Invalid timestamp type in message DefaultRecord(offset=0, timestamp=5, key=1 bytes, value=1 bytes). "
                "Producer should not set timestamp type to LogAppendTime."
            )
            assert result.error_code == ErrorCode.INVALID_TIMESTAMP
            assert [one.batch_index_error_message for one in result.record_errors] == [text]
            return
        assert (result.error_code, result.log_append_time_ms) == (0, -1)
        (stored,) = entries(fetch(cluster, 12)[1])
        assert not entry_header(stored).has_append_time


@pytest.mark.parametrize("release", ["2.3", "3.9"])
def test_headers_that_clients_must_not_send(release: str) -> None:
    code = ErrorCode.CORRUPT_MESSAGE if release == "2.3" else ErrorCode.INVALID_RECORD
    numbered = encode_batch([Record(b"k", b"v")], producer=BatchProducer(5, 0, 0))
    unnumbered = encode_batch([Record(b"k", b"v")], producer=BatchProducer(5, 0, -1))
    with cluster_of(release) as cluster:
        for data in (changed(numbered, CONTROL), changed(batch(5), CONTROL), unnumbered):
            result = produce(cluster, data, PRODUCE[release])
            assert (result.error_code, result.error_message) == (code, None)


# -- internal topics


@pytest.mark.parametrize("release", ["0.8.2", "0.9", "2.8", "3.9"])
def test_only_the_admin_client_appends_to_internal_topics(release: str) -> None:
    version = PRODUCE[release]
    data = encode_messages([Record(b"k", b"v")], 0) if version < 3 else batch(5)
    with cluster_of(release) as cluster:
        cluster.create_topic(OFFSETS_TOPIC, assignment={0: [1]})
        cluster.run_for(1)
        result = produce(cluster, data, version, topic=OFFSETS_TOPIC)
        refused = ErrorCode.INVALID_TOPIC_EXCEPTION
        assert (result.error_code, result.base_offset, result.log_start_offset) == (refused, -1, -1)
        assert cluster.brokers[1].replicas.replicas[first_of(OFFSETS_TOPIC)].log_end == 0
        result = produce(cluster, data, version, topic=OFFSETS_TOPIC, client="__admin_client")
        assert result.error_code == (refused if release == "0.8.2" else 0)
        if release != "0.8.2":
            result = produce(cluster, data, version, topic=OFFSETS_TOPIC, acks=5)
            assert result.error_code == ErrorCode.INVALID_REQUIRED_ACKS


def first_of(topic: str) -> TopicPartition:
    """Return the first partition of a topic."""
    return TopicPartition(topic, 0)


@pytest.mark.parametrize("acks", [1, 5])
@pytest.mark.parametrize(
    ("release", "code"),
    [
        ("0.8.1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("0.8.2", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("0.10.0", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("0.10.1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_whether_an_internal_topic_is_refused_before_it_is_looked_for(release: str, code: ErrorCode, acks: int) -> None:
    """ReplicaManager.appendToLocalLog; from 0.10.1 on KafkaApis asks the metadata cache before."""
    with simzk.KafkaCluster(release, 1) as cluster:
        one = ProduceRequest.PartitionProduceData(index=0, records=encode_messages([Record(b"k", b"v")], 0))
        topic = ProduceRequest.TopicProduceData(name="__consumer_offsets", partition_data=[one])
        request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])
        response = MemoryClient(cluster, 1).call(request, 0, ProduceResponse)
    if acks == 5 and release == "0.10.0":  # isValidRequiredAcks comes first
        code = ErrorCode.INVALID_REQUIRED_ACKS
    assert response.responses[0].partition_responses[0].error_code == code


def test_records_of_internal_topics_are_not_deleted() -> None:
    """ReplicaManager.deleteRecordsOnLocalLog of all releases refuses it before it looks for the leader."""
    with cluster_of("3.9") as cluster:
        cluster.create_topic(OFFSETS_TOPIC, assignment={0: [1]})
        cluster.run_for(1)
        one, kind = DeleteRecordsRequest.DeleteRecordsPartition, DeleteRecordsRequest.DeleteRecordsTopic
        parts = [one(partition_index=number, offset=0) for number in (0, 1)]
        request = DeleteRecordsRequest(topics=[kind(name=OFFSETS_TOPIC, partitions=parts)], timeout_ms=1000)
        response = MemoryClient(cluster, 1).call(request, 1, DeleteRecordsResponse)
        codes = [found.error_code for found in response.topics[0].partitions]
        assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# -- compression


@pytest.mark.parametrize("release", ["0.9", "0.10.2", "2.8", "3.9"])
@pytest.mark.parametrize(("kind", "stored"), [("gzip", GZIP), ("snappy", SNAPPY), ("uncompressed", 0)])
def test_records_are_stored_in_the_compression_of_their_topic(release: str, kind: str, stored: int) -> None:
    version = PRODUCE[release]
    magic = {"0.9": 0, "0.10.2": 1}.get(release, 2)
    with cluster_of(release, {"compression.type": kind}) as cluster:
        records = [Record(b"k", b"x" * 500, timestamp_ms=5, offset=number) for number in range(3)]
        for codec in (0, GZIP):
            data = encode_batch(records, codec=codec) if magic == 2 else encode_messages(records, magic, codec)
            assert produce(cluster, data, version).error_code == 0
        found = entries(fetch(cluster, {0: 1, 1: 2}.get(magic, 4))[1])
        assert {entry_header(one).codec for one in found} == {stored}
        assert len(found) == (6 if not stored and magic < 2 else 2)
        assert [(one.offset, one.value) for entry in found for one in decode_entry(entry)] == [
            (number, b"x" * 500) for number in range(6)
        ]


def test_a_recompressed_batch_keeps_its_producer() -> None:
    producer = BatchProducer(7, 0, 4)
    data = encode_batch([Record(b"k", b"v")] * 2, producer=producer)
    with cluster_of("3.9", {"compression.type": "gzip"}) as cluster:
        assert produce(cluster, data, 9).error_code == 0
        (stored,) = entries(fetch(cluster, 12)[1])
        header = entry_header(stored)
        assert (header.codec, *header[8:11]) == (GZIP, *producer)
        assert produce(cluster, data, 9).base_offset == 0  # it is recognized as sent again


def test_records_that_are_too_large_when_they_are_unpacked() -> None:
    topic = {"compression.type": "uncompressed", "max.message.bytes": "1000"}
    with cluster_of("3.9", topic) as cluster:
        result = produce(cluster, batch(5, 5, 5, codec=GZIP, size=500), 9)
        assert (result.error_code, result.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


@pytest.mark.parametrize(("release", "code"), [("2.3", 0), ("2.4", ErrorCode.INVALID_RECORD)])
def test_compressed_messages_beside_others(release: str, code: int) -> None:
    data = encode_messages([Record(None, b"a")], 1) + encode_messages([Record(None, b"b")], 1, GZIP)
    with cluster_of(release) as cluster:
        assert produce(cluster, data, 2).error_code == code
        if not code:  # LogValidator of 2.3 stores them as one batch
            (stored,) = entries(fetch(cluster, 4)[1])
            assert (entry_header(stored).codec, entry_header(stored).records) == (GZIP, 2)


def test_a_topic_with_zstd_is_for_new_clients() -> None:
    with cluster_of("3.9", {"compression.type": "zstd"}) as cluster:
        assert [fetch(cluster, version)[0] for version in (1, 9, 10)] == [
            *[ErrorCode.UNSUPPORTED_COMPRESSION_TYPE] * 2,
            0,
        ]


# -- sizes of fetches


@pytest.fixture(scope="module")
def cut() -> Iterator[simzk.KafkaCluster]:
    """A cluster whose brokers return at most 2,000 bytes, with eight batches of 471."""
    with cluster_of("3.9", settings={"fetch.max.bytes": 2000}) as cluster:
        for _ in range(8):
            produce(cluster, batch(5, size=400), 9)
        yield cluster


@pytest.mark.parametrize(
    ("version", "max_bytes", "of_partition", "size", "whole"),
    [
        *((12, 1 << 20, 1 << 20, 2000, 4), (12, 1000, 1 << 20, 1000, 2), (12, 1 << 20, 1000, 1000, 2)),
        *((12, 100, 1 << 20, 471, 1), (12, 1 << 20, 471, 471, 1), (12, 1 << 20, 470, 471, 1)),
        *((12, 1 << 20, 942, 942, 2), (12, 0, 1 << 20, 471, 1), (12, 1 << 20, 0, 471, 1)),
        *((3, 1 << 20, 1 << 20, 2000, 4), (3, 1000, 1 << 20, 1000, 2), (3, 100, 1 << 20, 471, 1)),
        *((2, 1000, 1 << 20, 2000, 4), (2, 1 << 20, 1000, 1000, 2), (2, 1 << 20, 470, 0, 0), (2, 1 << 20, 0, 0, 0)),
    ],
)
def test_a_fetch_is_filled_up_to_its_limit(
    cut: simzk.KafkaCluster, version: int, max_bytes: int, of_partition: int, size: int, whole: int
) -> None:
    code, data = fetch(cut, version, max_bytes=max_bytes, of_partition=of_partition)
    assert (code, len(data), len(entries(data))) == (0, size, whole)


def test_older_brokers_have_no_limit_of_their_own() -> None:
    with cluster_of("2.4") as cluster:
        for _ in range(3):
            produce(cluster, batch(5, size=400), 8)
        assert len(fetch(cluster, 11, max_bytes=2**31 - 1)[1]) == 3 * CUT_BYTES


def test_a_fetch_waits_for_no_more_than_it_may_return(cut: simzk.KafkaCluster) -> None:
    one = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic="orders", partitions=[one])]
    request = FetchRequest(max_wait_ms=5000, min_bytes=3000, max_bytes=1 << 20, session_epoch=-1, topics=topics)
    began_us = cut.scheduler.now_us
    MemoryClient(cut, 1).call(request, 12, FetchResponse)
    assert cut.scheduler.now_us - began_us < 1_000_000


# -- conversions for old clients


@pytest.mark.parametrize("release", ["2.8", "3.9"])
def test_a_conversion_ends_before_what_cannot_be_converted(release: str) -> None:
    with cluster_of(release) as cluster:
        written = [
            *(batch(5, size=400, codec=GZIP), batch(5, size=400)),
            *(changed(batch(5, size=400), ZSTD), batch(5, size=400)),
        ]
        for data in written:
            produce(cluster, data, 8)
        sizes = list(map(len, written))
        for version, magic in ((3, 1), (1, 0)):
            # The first batch alone; the next ones are converted together, which fails.
            for offset in (0, 1):
                code, data = fetch(cluster, version, offset)
                assert (code, len(data)) == (0, sum(sizes[offset:]))
                (first,) = entries(data)
                assert (entry_header(first).magic, decode_entry(first)[0].value) == (magic, b"x" * 400)
                assert struct.unpack_from(">qi", data, len(first)) == (-1, len(data) - len(first) + 1)
            assert fetch(cluster, version, 2) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, b"")
            assert len(entries(fetch(cluster, version, 3)[1])) == 1


def test_chunks_that_are_converted_together() -> None:
    with cluster_of("3.9") as cluster:
        for _ in range(3):  # three chunks: the first batch, and two that do not fit into one
            produce(cluster, batch(5, size=100_000), 9)
        produce(cluster, changed(batch(5), ZSTD), 9)
        code, data = fetch(cluster, 3)
        assert (code, len(entries(data))) == (0, 2)


@pytest.mark.parametrize(("release", "code_at_end"), [("2.8", 0), ("3.9", ErrorCode.UNSUPPORTED_VERSION)])
def test_a_topic_that_must_not_be_converted(release: str, code_at_end: int) -> None:
    with cluster_of(release, {"message.downconversion.enable": "false"}) as cluster:
        produce(cluster, batch(5), 8)
        assert fetch(cluster, 3) == (ErrorCode.UNSUPPORTED_VERSION, b"")
        assert fetch(cluster, 3, 1)[0] == code_at_end
        assert fetch(cluster, 4)[0] == 0
