"""Leaders that ask the coordinator whether a partition was added to a transaction (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.coordinator.coordinator_log import partition_of
from simzk.kafka.log.record_batches import BatchProducer, Record, encode_batch
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.memory_client import MemoryClient

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME, GROUP = "tx", "g"
OLD, NEW = 10, 11
"""Versions of Produce without and with TRANSACTION_ABORTABLE."""
COORDINATOR, GROUP_COORDINATOR = 2, 3


class Story:
    """A transactional producer of one cluster.

    Args:
        version: the release.
    """

    def __init__(self, version: str) -> None:
        self.cluster = simzk.KafkaCluster(version, 3)
        self.cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        self.cluster.create_topic("__transaction_state", assignment={0: [COORDINATOR, 3, 1]})
        self.cluster.create_topic("__consumer_offsets", assignment={0: [GROUP_COORDINATOR, 1, 2]})
        self.cluster.run_until_quiet()
        request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
        found = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        while found.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # the block of producer ids is not there yet
            found = self.of(COORDINATOR).call(request, 0, InitProducerIdResponse)
            self.cluster.run_for(0.1)
        assert found.error_code == 0
        self.producer_id = found.producer_id

    def of(self, broker: int) -> MemoryClient:
        """Return a client of a broker."""
        return MemoryClient(self.cluster, broker)

    def produce(self, sequence: int = 0, version: int = NEW) -> tuple[ErrorCode, str | None]:
        """Produce one record; return the error and its text."""
        producer = BatchProducer(self.producer_id, 0, sequence)
        data = encode_batch([Record(None, b"v", timestamp_ms=5)], producer=producer, is_transactional=True)
        part = ProduceRequest.PartitionProduceData(index=0, records=data)
        topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[part])
        request = ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=3000, topic_data=[topic])
        (result,) = self.of(1).call(request, version, ProduceResponse).responses[0].partition_responses
        return ErrorCode(result.error_code), result.error_message

    def add_partition(self) -> None:
        """Add the partition to the transaction."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="orders", partitions=[0])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=NAME,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[topic],
        )
        found = self.of(COORDINATOR).call(request, 3, AddPartitionsToTxnResponse)
        assert found.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0

    def end(self) -> None:
        """Abort the transaction, and wait for its markers."""
        request = EndTxnRequest(transactional_id=NAME, producer_id=self.producer_id, producer_epoch=0, committed=False)
        assert self.of(COORDINATOR).call(request, 3, EndTxnResponse).error_code == 0
        self.cluster.run_for(2)

    def commit_offset(self, version: int = 4) -> ErrorCode:
        """Commit an offset of a group with the transaction; return the error."""
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=4)
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="orders", partitions=[part])
        request = TxnOffsetCommitRequest(
            transactional_id=NAME, group_id=GROUP, producer_id=self.producer_id, producer_epoch=0, topics=[topic]
        )
        found = self.of(GROUP_COORDINATOR).call(request, version, TxnOffsetCommitResponse)
        return ErrorCode(found.topics[0].partitions[0].error_code)

    def add_offsets(self) -> None:
        """Add the group to the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=NAME, producer_id=self.producer_id, producer_epoch=0, group_id=GROUP
        )
        assert self.of(COORDINATOR).call(request, 3, AddOffsetsToTxnResponse).error_code == 0


@pytest.fixture
def story() -> Iterator[Story]:
    found = Story("3.9")
    with found.cluster:
        yield found


def test_a_batch_needs_a_partition_of_the_transaction(story: Story) -> None:
    assert partition_of(NAME, 1) == partition_of(GROUP, 1) == 0
    text = "Partition was not added to the transaction"
    assert story.produce(version=OLD) == (ErrorCode.INVALID_TXN_STATE, text)
    assert story.produce() == (ErrorCode.TRANSACTION_ABORTABLE, None)
    story.add_partition()
    assert story.produce(sequence=1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None)  # the first one was sequence 0
    assert story.produce() == (ErrorCode.NONE, None)
    assert story.produce(sequence=1) == (ErrorCode.NONE, None)
    story.end()
    assert story.produce(sequence=2)[0] == ErrorCode.TRANSACTION_ABORTABLE
    log = story.cluster.brokers[1].replicas.replicas[TopicPartition("orders", 0)].log
    assert log.last_stable_offset == log.end == 3


def test_a_coordinator_that_is_gone_is_an_error_that_passes(story: Story) -> None:
    story.add_partition()
    story.cluster.kill(COORDINATOR)
    code, text = story.produce()
    assert code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert text is not None
    assert text.endswith("Underlying error: NETWORK_EXCEPTION")
    story.cluster.run_for(60)
    assert story.produce() == (ErrorCode.NONE, None)


def test_offsets_need_a_group_of_the_transaction(story: Story) -> None:
    assert story.commit_offset(version=3) == ErrorCode.INVALID_TXN_STATE
    assert story.commit_offset() == ErrorCode.TRANSACTION_ABORTABLE
    story.add_offsets()
    assert story.commit_offset() == ErrorCode.NONE
    story.end()
    assert story.commit_offset() == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize(("version", "batches", "offsets"), [("3.5", False, False), ("3.6", True, False)])
def test_older_releases_verify_less(version: str, batches: bool, offsets: bool) -> None:
    story = Story(version)
    with story.cluster:
        assert (story.produce(version=9)[0] != ErrorCode.NONE) == batches
        assert (story.commit_offset(version=3) != ErrorCode.NONE) == offsets
