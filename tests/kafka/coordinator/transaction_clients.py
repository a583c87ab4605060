"""Producers with a transactional id, brokers that coordinate it with one replicated log, and a leader of their data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simzk.kafka.coordinator.coordinator_log import TRANSACTIONS_TOPIC
from simzk.kafka.coordinator.marker_channels import MarkerChannels
from simzk.kafka.coordinator.transaction import ProducerIdentity
from simzk.kafka.coordinator.transaction_coordinator import TransactionCoordinator
from simzk.kafka.metadata.plane import MetadataUnavailableError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import WriteTxnMarkersResponse
from simzk.kafka.releases.settings import BrokerConfig
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.rpc import Disconnected
from simzk.kafka.topic_partition import TopicPartition
from simzk.simulation import Future, Process, Scheduler
from tests.kafka.coordinator.replicated_log import LogOfBroker, ReplicatedLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.protocol.messages import WriteTxnMarkersRequest

ID = "payments"
TIMEOUT_MS = 60_000
ORDERS = [TopicPartition("orders", number) for number in range(3)]
LEADER = 9
"""The broker that leads all data partitions."""
NETWORK_US = 1_000


@dataclass
class Marker:
    """A marker in the log of a partition."""

    producer: ProducerIdentity
    is_commit: bool
    coordinator_epoch: int


class Brokers:
    """Brokers with one partition of `__transaction_state`, and the leader of the data partitions.

    Args:
        version: their release.
        count: how many.
        config: settings, with `_` for each dot.

    Attributes:
        log: the log of the partition.
        markers: by data partition.
        leaders: leaders of the data partitions, as far as the brokers know.
        is_reachable: whether requests to the leader of the data partitions arrive.
        session_expires: whether the sessions of the brokers expire while they read in ZooKeeper.
        has_ids: whether there are producer ids.
        recorded: what the coordinators recorded.
    """

    def __init__(self, version: str = "3.9", count: int = 2, **config: int) -> None:
        profile = kafka_version(version)
        self.scheduler = Scheduler(1)
        self.process = Process(self.scheduler, "brokers")
        self.log = ReplicatedLog(self.process)
        self.markers: dict[TopicPartition, list[Marker]] = {partition: [] for partition in ORDERS}
        self.is_reachable = True
        self.session_expires = False
        self.has_ids = True
        self.recorded: list[str] = []
        self.next_id = 100
        self.leaders: dict[TopicPartition, int] = dict.fromkeys(ORDERS, LEADER)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.coordinators = [
            TransactionCoordinator(
                self.process,
                profile.transactions,
                BrokerConfig(profile, settings),
                LogOfBroker(self.log, broker),
                self._take_id,
                markers=MarkerChannels(self.process, self.leaders.get, self._send),
                partitions=lambda: 1,
                read_count=self._read_count,
                now_ms=lambda: self.scheduler.now_us // 1000,
                record=lambda what, _partition, after: self.recorded.append(f"{what}: {after}"),
            )
            for broker in range(count)
        ]
        self.move(0)

    @property
    def coordinator(self) -> TransactionCoordinator:
        """The coordinator of the id."""
        return self.coordinators[self.log.leader]

    async def _read_count(self) -> object:
        """Return the number of partitions, unless the session expires."""
        if self.session_expires:
            raise MetadataUnavailableError
        return 1

    def _take_id(self, answer: Callable[[int | None], None]) -> None:
        """Call back with the next producer id, later."""
        self.next_id += 1
        producer_id = self.next_id if self.has_ids else None
        self.process.call_later(NETWORK_US, lambda: answer(producer_id))

    def move(self, leader: int) -> None:
        """Let another broker lead, or the same one again."""
        self.log.move(leader)
        for coordinator in self.coordinators:
            coordinator.on_leadership(TopicPartition(TRANSACTIONS_TOPIC, 0))

    def _send(self, broker: int, request: WriteTxnMarkersRequest) -> Future[WriteTxnMarkersResponse]:
        assert broker == LEADER
        answer: Future[WriteTxnMarkersResponse] = Future()

        def arrive() -> None:
            if self.is_reachable:
                response = self._append_markers(request)
                self.process.call_later(NETWORK_US, lambda: answer.set_result(response))
            else:
                answer.set_exception(Disconnected("the leader cannot be reached"))

        self.process.call_later(NETWORK_US, arrive)
        return answer

    def _append_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        one = WriteTxnMarkersResponse.WritableTxnMarkerResult
        topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
        partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
        results = []
        for marker in request.markers:
            topics = []
            for asked in marker.topics:
                errors = [
                    partition(
                        partition_index=number,
                        error_code=self._append_marker(
                            TopicPartition(asked.name, number),
                            Marker(
                                ProducerIdentity(marker.producer_id, marker.producer_epoch),
                                marker.transaction_result,
                                marker.coordinator_epoch,
                            ),
                        ),
                    )
                    for number in asked.partition_indexes
                ]
                topics.append(topic(name=asked.name, partitions=errors))
            results.append(one(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=results)

    def _append_marker(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        """Append a marker as a leader does: no older epoch of the producer, nor of the coordinator."""
        before = [one for one in self.markers[partition] if one.producer.producer_id == marker.producer.producer_id]
        if before and marker.producer.epoch < before[-1].producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if before and marker.coordinator_epoch < before[-1].coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.markers[partition].append(marker)
        return ErrorCode.NONE

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + round(seconds * 1_000_000))

    def check(self) -> None:
        """Assert every invariant."""
        for coordinator in self.coordinators:
            coordinator.check()


@dataclass(eq=False, repr=False)
class Producer:
    """A producer that sends one request after the other, and repeats none.

    Args:
        brokers: the brokers.
        transactional_id: its id.

    Attributes:
        identity: its id and epoch; None before the first.
    """

    brokers: Brokers
    transactional_id: str = ID
    identity: ProducerIdentity | None = None
    _answers: list[Any] = field(default_factory=list)

    def _answer(self) -> Any:
        """Wait for the answer to the request; a coordinator that has lost its partition may give none."""
        for _ in range(200):
            if self._answers:
                return self._answers.pop()
            self.brokers.run_for(0.001)
        raise AssertionError("no answer")

    def init(self, *, names_itself: bool = False, timeout_ms: int = TIMEOUT_MS) -> ErrorCode:
        """Begin; or go on with the next epoch after an error (KIP-360)."""
        expected = self.identity if names_itself else None
        self.brokers.coordinator.init_producer_id(self.transactional_id, timeout_ms, expected, self._answers.append)
        answer = self._answer()
        if isinstance(answer, ErrorCode):
            return answer
        self.identity = answer
        return ErrorCode.NONE

    def add(self, *partitions: TopicPartition) -> ErrorCode:
        """Add partitions to the transaction."""
        assert self.identity is not None
        coordinator = self.brokers.coordinator
        coordinator.add_partitions(self.transactional_id, self.identity, partitions, self._answers.append)
        answer: ErrorCode = self._answer()
        return answer

    def end(self, *, is_commit: bool) -> ErrorCode:
        """Commit or abort."""
        assert self.identity is not None
        coordinator = self.brokers.coordinator
        coordinator.end(self.transactional_id, self.identity, is_commit=is_commit, respond=self._answers.append)
        answer: ErrorCode = self._answer()
        return answer

    def begin(self) -> Producer:
        """Begin, as clients do: repeat InitProducerId while a transaction completes; return the producer."""
        for _ in range(50):
            if (error := self.init()) == ErrorCode.NONE:
                return self
            assert error in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), error
            self.brokers.run_for(0.1)
        raise AssertionError("the id is never free")
