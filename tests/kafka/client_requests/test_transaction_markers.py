"""Transactional batches and their markers at leaders, for clients and in the logs of followers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

import simzk
from simzk.kafka.log.record_batches import BatchProducer, Record, decode_records, encode_batch
from simzk.kafka.metadata.entities import AclEntry
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.clusters import FOR_EVER

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = TopicPartition("orders", 0)
PRODUCER = 7
READ_COMMITTED = 1
CONFIG = FOR_EVER | {"transaction.partition.verification.enable": False, "offsets.topic.num.partitions": 1}


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    with simzk.KafkaCluster("3.9", 3, config=CONFIG) as made:
        made.create_topic("orders", assignment={0: [1, 2, 3]})
        made.create_topic("__consumer_offsets", assignment={0: [2, 3, 1]})
        made.run_until_quiet()
        yield made


def leader_of(cluster: simzk.KafkaCluster, partition: TopicPartition = ORDERS) -> MemoryClient:
    """Return a client of the leader of a partition."""
    return MemoryClient(cluster, cluster.state(*partition).leader)


def produce_request(
    value: bytes,
    sequence: int,
    *,
    producer_id: int = PRODUCER,
    is_transactional: bool = True,
    timestamp_ms: int = 5,
) -> ProduceRequest:
    """Return a request with one record."""
    producer, record = BatchProducer(producer_id, 0, sequence), Record(None, value, timestamp_ms=timestamp_ms)
    data = encode_batch([record], producer=producer, is_transactional=is_transactional)
    part = ProduceRequest.PartitionProduceData(index=0, records=data)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[part])
    return ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=3000, topic_data=[topic])


def produce(
    client: MemoryClient, value: bytes, sequence: int, *, producer_id: int = PRODUCER, is_transactional: bool = True
) -> ErrorCode:
    """Produce one record; return the error."""
    request = produce_request(value, sequence, producer_id=producer_id, is_transactional=is_transactional)
    return ErrorCode(client.call(request, 9, ProduceResponse).responses[0].partition_responses[0].error_code)


def end(
    client: MemoryClient,
    *,
    is_commit: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    partition: TopicPartition = ORDERS,
    producer_id: int = PRODUCER,
) -> ErrorCode:
    """Write a marker; return the error."""
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=is_commit,
        topics=[topic],
        coordinator_epoch=coordinator_epoch,
    )
    response = client.call(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
    assert [one.producer_id for one in response.markers] == [producer_id]
    return ErrorCode(response.markers[0].topics[0].partitions[0].error_code)


def fetch(client: MemoryClient, offset: int = 0, isolation: int = READ_COMMITTED) -> FetchResponse.PartitionData:
    """Fetch from an offset."""
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[part])
    request = FetchRequest(max_bytes=1 << 20, isolation_level=isolation, topics=[topic])
    return client.call(request, 12, FetchResponse).responses[0].partitions[0]


def latest(client: MemoryClient, isolation: int) -> int:
    """Return the latest offset that ListOffsets names."""
    code, offset = list_offset(client, -1, isolation)
    assert code == ErrorCode.NONE
    return offset


def list_offset(
    client: MemoryClient, timestamp: int, isolation: int = READ_COMMITTED, version: int = 6
) -> tuple[ErrorCode, int]:
    """Return error and offset of ListOffsets."""
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[part])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
    found = client.call(request, version, ListOffsetsResponse).topics[0].partitions[0]
    return ErrorCode(found.error_code), found.offset


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_transaction_is_read_after_its_marker(
    cluster: simzk.KafkaCluster, outcome: Literal["commit", "abort"]
) -> None:
    client = leader_of(cluster)
    assert produce(client, b"plain", 0, producer_id=8, is_transactional=False) == ErrorCode.NONE
    assert [produce(client, b"in transaction", number) for number in (0, 1)] == [ErrorCode.NONE] * 2
    assert (latest(client, READ_COMMITTED), latest(client, 0)) == (1, 3)
    before = fetch(client)
    assert (before.last_stable_offset, before.high_watermark, before.aborted_transactions) == (1, 3, [])
    assert [one.value for one in decode_records(bytes(before.records or b""))] == [b"plain"]
    assert produce(client, b"outside", 2, is_transactional=False) == ErrorCode.INVALID_TXN_STATE
    assert end(client, is_commit=outcome == "commit") == ErrorCode.NONE
    after = fetch(client)
    assert (after.last_stable_offset, after.high_watermark) == (4, 4)
    aborted = [(one.producer_id, one.first_offset) for one in after.aborted_transactions or ()]
    assert aborted == ([(PRODUCER, 1)] if outcome == "abort" else [])
    assert fetch(client, isolation=0).aborted_transactions is None
    assert produce(client, b"outside", 2, is_transactional=False) == ErrorCode.NONE


def test_a_fetch_waits_for_the_marker(cluster: simzk.KafkaCluster) -> None:
    client, consumer = leader_of(cluster), leader_of(cluster)
    produce(client, b"in transaction", 0)
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[part])
    request = FetchRequest(max_wait_ms=5000, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=[topic])
    consumer.send_request(request, 12)
    cluster.run_for(1)
    assert not consumer.frames
    end(client, is_commit=True)
    cluster.run_for(1)
    assert consumer.frames


def test_stale_markers_are_fenced(cluster: simzk.KafkaCluster) -> None:
    client = leader_of(cluster)
    assert end(client, is_commit=True, epoch=3, coordinator_epoch=2) == ErrorCode.NONE
    assert end(client, is_commit=True, epoch=2, coordinator_epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(client, is_commit=True, epoch=3, coordinator_epoch=1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end(client, is_commit=True, epoch=4, coordinator_epoch=2) == ErrorCode.NONE
    assert produce(client, b"old", 0) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_needs_the_leader(cluster: simzk.KafkaCluster) -> None:
    follower = MemoryClient(cluster, 2)
    assert end(follower, is_commit=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    unknown = TopicPartition("nosuch", 0)
    assert end(follower, is_commit=True, partition=unknown) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert follower.call(WriteTxnMarkersRequest(), 1, WriteTxnMarkersResponse).markers == []


def test_followers_and_the_next_leader_have_the_same_transactions(cluster: simzk.KafkaCluster) -> None:
    client = leader_of(cluster)
    produce(client, b"aborted", 0)
    end(client, is_commit=False, coordinator_epoch=4)
    produce(client, b"open", 1)
    cluster.run_for(2)
    logs = [broker.replicas.replicas[ORDERS].log for broker in cluster.brokers.values()]
    states = [log.producers for log in logs if log.producers is not None]
    assert len(states) == 3
    assert all(
        (one.entries, one.open, one.ended) == (states[0].entries, {PRODUCER: 2}, states[0].ended) for one in states
    )
    cluster.kill(1)
    cluster.run_for(60)
    client = leader_of(cluster)
    read = fetch(client)
    assert (read.last_stable_offset, read.high_watermark) == (2, 3)
    assert (latest(client, READ_COMMITTED), latest(client, 0)) == (2, 3)
    assert [(one.producer_id, one.first_offset) for one in read.aborted_transactions or ()] == [(PRODUCER, 0)]
    topic = DescribeProducersRequest.TopicRequest(name="orders", partition_indexes=[0])
    described = client.call(DescribeProducersRequest(topics=[topic]), 0, DescribeProducersResponse)
    (producer,) = described.topics[0].partitions[0].active_producers
    assert (producer.last_sequence, producer.coordinator_epoch, producer.current_txn_start_offset) == (1, 4, 2)
    assert end(client, is_commit=True, coordinator_epoch=4) == ErrorCode.NONE
    cluster.restart(1)
    cluster.run_for(60)
    again = cluster.brokers[1].replicas.replicas[ORDERS].log
    again.check()
    assert again.last_stable_offset == again.high_watermark == 4
    cluster.check()


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_a_new_leader_names_no_offset_that_may_be_too_low(cluster: simzk.KafkaCluster, isolation: int) -> None:
    # Partition.fetchOffsetForTimestamp compares the start of the epoch with the high watermark at either isolation
    # level (KIP-207); the start of the log, and the last tiered offset of a log without tiers, are named all the same.
    assert produce(leader_of(cluster), b"committed", 0, producer_id=8, is_transactional=False) == ErrorCode.NONE
    cluster.run_for(1)
    cluster.pause(3, 20)
    cluster.run_for(0.1)
    leader_of(cluster).send_request(produce_request(b"on two of three", 0, timestamp_ms=9), 9)
    cluster.run_for(1)
    assert list_offset(leader_of(cluster), -3, isolation, 7) == (ErrorCode.NONE, -1), "the newest is not committed"
    cluster.shutdown(1)
    assert cluster.run_until(lambda: cluster.state(*ORDERS).leader == 2, 5)
    cluster.run_for(0.1)
    client = leader_of(cluster)
    log = cluster.brokers[2].replicas.replicas[ORDERS].log
    assert (log.high_watermark, log.end) == (1, 2)
    unsure = ErrorCode.OFFSET_NOT_AVAILABLE, -1
    assert [list_offset(client, asked, isolation, 7) for asked in (-1, -3, 6)] == [unsure] * 3
    assert list_offset(client, -1, isolation, 4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert list_offset(client, 5, isolation) == list_offset(client, -2, isolation) == (ErrorCode.NONE, 0)
    assert list_offset(client, -4, isolation, 8) == (ErrorCode.NONE, 0)
    assert list_offset(client, -5, isolation, 9) == (ErrorCode.NONE, -1)
    cluster.run_for(60)
    stable = 2 if isolation == 0 else 1
    assert [list_offset(client, asked, isolation) for asked in (-1, 6)] == [
        (ErrorCode.NONE, stable),
        (ErrorCode.NONE, 1 if isolation == 0 else -1),
    ]


def offset_commit(client: MemoryClient, offset: int, *, version: int = 4, topic: str = "orders") -> ErrorCode:
    """Commit an offset of a group with the transaction; return the error."""
    part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    named = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])
    request = TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=PRODUCER, producer_epoch=0, topics=[named]
    )
    response = client.call(request, version, TxnOffsetCommitResponse)
    return ErrorCode(response.topics[0].partitions[0].error_code)


def offset_fetch(client: MemoryClient) -> tuple[int, ErrorCode]:
    """Return the committed offset of the group, and the error."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    request = OffsetFetchRequest(group_id="g", topics=[topic], require_stable=True)
    found = client.call(request, 7, OffsetFetchResponse).topics[0].partitions[0]
    return found.committed_offset, ErrorCode(found.error_code)


def test_offsets_of_a_transaction_survive_their_coordinator(cluster: simzk.KafkaCluster) -> None:
    offsets = TopicPartition("__consumer_offsets", 0)
    client = leader_of(cluster, offsets)
    assert offset_commit(client, 5, topic="nosuch") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offset_commit(client, 5) == ErrorCode.NONE
    assert offset_fetch(client) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    cluster.kill(2)
    cluster.run_for(60)
    client = leader_of(cluster, offsets)
    assert offset_fetch(client) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert end(client, is_commit=True, partition=offsets) == ErrorCode.NONE
    assert offset_fetch(client) == (5, ErrorCode.NONE)
    assert offset_commit(client, 6) == ErrorCode.NONE
    assert end(client, is_commit=False, partition=offsets) == ErrorCode.NONE
    assert offset_fetch(client) == (5, ErrorCode.NONE)
    assert end(client, is_commit=True, epoch=1, partition=offsets) == ErrorCode.NONE
    assert offset_commit(client, 7) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert offset_fetch(client) == (5, ErrorCode.NONE)
    cluster.check()


@pytest.mark.parametrize(
    ("version", "allowed", "expected"),
    [("2.8", "Alter", 31), ("3.7", "Alter", 31), ("3.9", "Alter", 0), ("2.8", "ClusterAction", 0)],
)
def test_a_client_needs_cluster_action_or_since_3_8_alter(version: str, allowed: str, expected: int) -> None:
    config = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    with simzk.KafkaCluster(version, 1, config=config | {"allow.everyone.if.no.acl.found": "true"}) as cluster:
        cluster.create_topic("orders", assignment={0: [1]})
        cluster.run_until_quiet()
        client = leader_of(cluster)
        cluster.add_acls("cluster", "kafka-cluster", [AclEntry("User:ANONYMOUS", allowed)])
        cluster.run_until_quiet()
        assert end(client, is_commit=True) == expected
