"""Formats of records that `message.format.version` chooses (KIP-32, KIP-98, KIP-724): LogValidator, Log, LogConfig."""

from __future__ import annotations

import pytest

import simzk
from simzk.kafka.log.record_batches import BatchProducer, Record, entry_header
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.log_stories import MS
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.test_log_cleaner import client

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


def offset_of(cluster: simzk.KafkaCluster, timestamp: int, version: int = 4, *, broker: int = 1) -> tuple[int, int]:
    """Return the error and the offset that ListOffsets answers."""
    one = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[one])
    answer = MemoryClient(cluster, broker).call(ListOffsetsRequest(topics=[topic]), version, ListOffsetsResponse)
    (result,) = answer.topics[0].partitions
    return result.error_code, result.offset


@pytest.mark.parametrize("of_topic", [True, False])
@pytest.mark.parametrize(
    ("release", "version", "protocol", "magic"),
    [
        ("2.4", "0.9.0", None, 0),
        ("2.4", "0.10.2", None, 1),
        ("2.4", "0.11.0", None, 2),
        ("3.9", "0.10.2", None, 2),  # ignored from the protocol 3.0 on
        ("3.9", "0.10.2", "2.8", 1),
    ],
)
def test_records_are_stored_in_the_format_that_is_set(
    release: str, version: str, protocol: str | None, magic: int, of_topic: bool
) -> None:
    config = {} if of_topic else {"log.message.format.version": version}
    if protocol is not None:
        config["inter.broker.protocol.version"] = protocol
    with simzk.KafkaCluster(release, 1, config=config) as cluster:
        cluster.create_topic("orders", 1, 1, config={"message.format.version": version} if of_topic else {})
        cluster.run_until_quiet()
        stage = client(cluster, release=(2, 4))
        stage.produce("orders", stage.entries([Record(b"k", b"v", timestamp_ms=MS)]))
        (batch,) = cluster.brokers[1].replicas.replicas[TopicPartition("orders", 0)].log.read(0)
        assert batch.payload is not None
        assert entry_header(batch.payload).magic == magic
        assert offset_of(cluster, LATEST) == (ErrorCode.NONE, 1)
        assert offset_of(cluster, EARLIEST) == (ErrorCode.NONE, 0)
        wanted = (ErrorCode.NONE, 0) if magic else (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1)
        assert offset_of(cluster, MS) == wanted
        if release == "3.9":
            assert offset_of(cluster, MAX_TIMESTAMP, 7) == wanted


def test_old_formats_have_no_producer_ids() -> None:
    with simzk.KafkaCluster("2.4", 1) as cluster:
        cluster.create_topic("orders", 1, 1, config={"message.format.version": "0.10.2"})
        cluster.run_until_quiet()
        stage = client(cluster, release=(2, 4))
        data = stage.entries([Record(b"k", b"v", timestamp_ms=MS)], producer=BatchProducer(7, 0, 0))
        assert stage.append("orders", data) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize(("release", "noted"), [("3.7", 2), ("3.8", 1)])
def test_a_follower_notes_the_last_record_of_a_batch_as_the_latest(release: str, noted: int) -> None:
    """UnifiedLog.analyzeAndValidateRecords; from 3.8 on the batch is read (KAFKA-16310)."""
    with simzk.KafkaCluster(release, 2) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]}, config={"retention.ms": "-1"})
        cluster.run_until_quiet()
        stage = client(cluster, release=(3, 7))
        times = (MS, MS + 2, MS + 1)
        stage.produce("orders", stage.entries(Record(b"k", b"v", timestamp_ms=time) for time in times))
        assert offset_of(cluster, MAX_TIMESTAMP, 7) == (ErrorCode.NONE, 1)
        cluster.kill(1)
        cluster.run_for(30)
        assert offset_of(cluster, MAX_TIMESTAMP, 7, broker=2) == (ErrorCode.NONE, noted)
