"""What becomes of markers, by the answers of the leaders (TransactionMarkerRequestCompletionHandler, 3.9)."""

from __future__ import annotations

import pytest

from simzk.kafka.coordinator.marker_channels import NO_LEADER, MarkerChannels, TransactionToMark
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from simzk.kafka.rpc import Disconnected
from simzk.kafka.topic_partition import TopicPartition
from simzk.simulation import Future, Process, Scheduler

A, B, C = (TopicPartition("orders", number) for number in range(3))


class Leaders:
    """Leaders of three partitions, which answer as a test says.

    Attributes:
        channels: sends the markers.
        of: the leaders.
        errors: answers to the next markers of a partition; else NONE.
        sent: broker, producer id and partitions of each marker, by request.
        marked: what was reported, by producer id.
        wanted: whether the coordinator wants to hear of it.
        is_reachable: whether requests arrive.
    """

    def __init__(self) -> None:
        self.scheduler = Scheduler(1)
        self.of: dict[TopicPartition, int] = {A: 1, B: 1, C: 2}
        self.channels = MarkerChannels(Process(self.scheduler, "broker"), self.of.get, self._send)
        self.errors: dict[TopicPartition, list[ErrorCode]] = {}
        self.sent: list[list[tuple[int, int, list[TopicPartition]]]] = []
        self.marked: dict[int, list[TopicPartition]] = {}
        self.requests: list[WriteTxnMarkersRequest] = []
        self.wanted = True
        self.is_reachable = True

    def transaction(self, producer_id: int = 7) -> TransactionToMark:
        """Return a transaction that commits."""

        def note(partitions: list[TopicPartition]) -> None:
            self.marked.setdefault(producer_id, []).extend(partitions)

        return TransactionToMark(producer_id, 3, True, 5, note, lambda: self.wanted)

    def _send(self, broker: int, request: WriteTxnMarkersRequest) -> Future[WriteTxnMarkersResponse]:
        answer: Future[WriteTxnMarkersResponse] = Future()
        one, in_topic = WriteTxnMarkersResponse.WritableTxnMarkerResult, WriteTxnMarkersResponse
        self.requests.append(request)
        self.sent.append([])
        markers = []
        for marker in request.markers:
            asked = [
                TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes
            ]
            self.sent[-1].append((broker, marker.producer_id, asked))
            results = [
                in_topic.WritableTxnMarkerPartitionResult(
                    partition_index=partition.partition,
                    error_code=self.errors[partition].pop(0) if self.errors.get(partition) else ErrorCode.NONE,
                )
                for partition in asked
            ]
            topics = [in_topic.WritableTxnMarkerTopicResult(name="orders", partitions=results)]
            markers.append(one(producer_id=marker.producer_id, topics=topics))
        if self.is_reachable:
            answer.set_result(WriteTxnMarkersResponse(markers=markers))
        else:
            answer.set_exception(Disconnected("the leader cannot be reached"))
        return answer

    def run_for(self, ms: int) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)


RETRIED = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT",
    "KAFKA_STORAGE_ERROR",
)
DONE = ("NONE", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "UNSUPPORTED_VERSION")
FENCED = ("INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED")


@pytest.mark.parametrize("name", [*RETRIED, *DONE, *FENCED])
def test_an_answer_ends_the_work_or_repeats_the_marker_of_one_partition(name: str) -> None:
    leaders = Leaders()
    leaders.errors[A] = [ErrorCode[name]] * 2
    transaction = leaders.transaction()
    leaders.channels.add(transaction, [A, B])
    leaders.run_for(1)
    assert leaders.sent == [[(1, 7, [A, B])]]
    assert leaders.marked == {7: [A, B] if name in DONE else [B]}
    leaders.of[A] = 2
    leaders.run_for(1000)
    if name in RETRIED:
        assert leaders.sent[1:] == [[(2, 7, [A])], [(2, 7, [A])]], "to the new leader, until it is written"
        assert leaders.marked == {7: [B, A]}
    else:
        assert leaders.sent[1:] == []
    leaders.channels.add(transaction, [C])
    leaders.run_for(1)
    assert (leaders.sent[-1] == [(2, 7, [C])]) == (name not in FENCED), "nothing follows for a fenced one"


def test_a_request_has_all_that_waits_for_its_broker() -> None:
    leaders = Leaders()
    leaders.channels.add(leaders.transaction(7), [A, C])
    leaders.channels.add(leaders.transaction(8), [B])
    leaders.run_for(1)
    assert leaders.sent == [[(1, 7, [A]), (1, 8, [B])], [(2, 7, [C])]]
    assert leaders.marked == {7: [A, C], 8: [B]}
    (marker, _) = leaders.requests[0].markers
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (3, True, 5)
    leaders.channels.add(leaders.transaction(9), [B])
    leaders.run_for(1)
    assert leaders.sent[2:] == [[(1, 9, [B])]]


def test_a_partition_without_leader_waits_and_one_that_is_gone_needs_no_marker() -> None:
    leaders = Leaders()
    leaders.of[A] = NO_LEADER
    del leaders.of[B]
    leaders.channels.add(leaders.transaction(), [A, B, C])
    assert leaders.marked == {7: [B]}
    leaders.run_for(1000)
    assert leaders.sent == [[(2, 7, [C])]]
    leaders.of[A] = 1
    leaders.run_for(51)
    assert leaders.sent[1:] == [[(1, 7, [A])]]
    assert leaders.marked == {7: [B, C, A]}
    leaders.channels.add(leaders.transaction(8), [])
    assert leaders.marked[8] == [], "a transaction without partitions is complete"


def test_markers_of_an_unreachable_broker_are_sent_again() -> None:
    leaders = Leaders()
    leaders.is_reachable = False
    for producer_id in (7, 8):
        leaders.channels.add(leaders.transaction(producer_id), [A])
    leaders.run_for(1)
    assert leaders.marked == {}
    leaders.is_reachable = True
    leaders.run_for(51)
    assert leaders.sent[0] == [(1, 7, [A]), (1, 8, [A])]
    assert [marker for request in leaders.sent[1:] for marker in request] == leaders.sent[0]
    assert leaders.marked == {7: [A], 8: [A]}


@pytest.mark.parametrize("answer", ["NONE", "REQUEST_TIMED_OUT"])
def test_a_coordinator_that_is_gone_hears_and_sends_nothing(answer: str) -> None:
    leaders = Leaders()
    leaders.errors[A] = [ErrorCode[answer]]
    leaders.channels.add(leaders.transaction(), [A])
    leaders.wanted = False
    leaders.run_for(1000)
    leaders.channels.add(leaders.transaction(), [B])
    leaders.run_for(1000)
    assert (len(leaders.sent), leaders.marked) == (1, {})
