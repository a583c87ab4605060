"""Clients with continuous traffic: producers that send batches at a steady rate, consumers that read what is committed.

Rules of this module (Kafka's producer and consumer; docs/reference/kafka.md §2.8):
  - a client believes in a leader until that broker refuses a request or does not answer. Then it asks a broker, chosen
    at random, for the leader in its metadata cache, which may be stale;
  - a producer has one batch in flight. A batch that is refused, or gets no answer, is sent again after
    `retry.backoff.ms`, as often as `retries` says, with the same identity. It may have been appended before;
  - an idempotent producer numbers its batches, so that a leader recognizes one that it has appended already. If the
    leader misses a batch before, or does not know the producer, the producer begins a new epoch (KIP-360; before 2.5
    an application opens another producer, which comes to the same);
  - with acks 0 a batch is sent once and counts as acknowledged; it is lost if no leader has appended it;
  - a consumer reads from the beginning, in order. If its offset is not in the log of the leader, it goes on at the high
    watermark (`auto.offset.reset=latest`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.log.batches import NewBatch, ProducerStamp
from simzk.kafka.log.producer_state import MAX_SEQUENCE, last_sequence
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import (
    AppendRequest,
    AppendResponse,
    FindLeaderRequest,
    FindLeaderResponse,
    ReadRequest,
    ReadResponse,
)
from simzk.kafka.rpc import Connections, Disconnected
from simzk.simulation import Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simzk.kafka.observation.records import RecordLedger
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Future, History, RandomStream, Scheduler

BACKOFF_US = 100_000
"""`retry.backoff.ms` of clients: 100 ms by default."""
METADATA_TIMEOUT_MS = 2_000
"""How long a client waits for metadata before it asks another broker."""
READ_MAX_BYTES = 1_048_576
"""`max.partition.fetch.bytes`: 1 MiB by default."""
_NEW_EPOCH = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""Errors after which an idempotent producer begins a new epoch."""
_FINAL = frozenset({ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.UNSUPPORTED_VERSION})
"""Errors after which a producer does not retry."""


class ProducerSettings(NamedTuple):
    """Settings of one producer.

    Args:
        partition: where it sends its batches.
        acks: 0, 1 or -1 (all in the ISR).
        gap_us: time between two batches; a batch that takes longer delays the next one.
        records: records of a batch.
        retries: how often a batch is sent again.
        timeout_ms: how long it waits for an answer (`request.timeout.ms`).
        is_idempotent: whether it numbers its batches (`enable.idempotence`, 0.11).
    """

    partition: TopicPartition
    acks: int
    gap_us: int
    records: int
    retries: int
    timeout_ms: int
    is_idempotent: bool = False


class ConsumerSettings(NamedTuple):
    """Settings of one consumer.

    Args:
        partition: what it reads.
        gap_us: time between two requests.
        timeout_ms: how long it waits for an answer.
    """

    partition: TopicPartition
    gap_us: int
    timeout_ms: int


class _Client(ABC):
    """A client process that believes in a leader."""

    def __init__(self, process: Process, partition: TopicPartition, traffic: Traffic) -> None:
        self.process: Process = process
        self.partition: TopicPartition = partition
        self.traffic: Traffic = traffic
        self.leader: int | None = None
        self._stream: RandomStream = process.scheduler.stream(process.name)
        traffic.connections.register(process, _reject_request)
        process.spawn(self._run(), "traffic")

    @abstractmethod
    async def _run(self) -> None:
        """Send requests until the process ends."""

    def call(self, request: AppendRequest | ReadRequest, timeout_ms: int) -> Future[object]:
        """Send a request to the leader that the client believes in."""
        assert self.leader is not None
        return self.traffic.connections.call(self.process, f"broker {self.leader}", request, timeout_ms)

    async def find_leader(self) -> bool:
        """Ask a broker for the leader, unless the client believes in one; return whether it does now."""
        if self.leader is None:
            broker = self._stream.choice(self.traffic.brokers)
            asked = FindLeaderRequest(self.partition)
            try:
                response: FindLeaderResponse = await self.traffic.connections.call(
                    self.process, f"broker {broker}", asked, METADATA_TIMEOUT_MS
                )
            except Disconnected:
                return False
            self.leader = response.leader if response.leader >= 0 else None
        return self.leader is not None


class SteadyProducer(_Client):
    """A producer.

    Attributes:
        sent: number of records of all batches, each counted once.
        failed: number of records that were given up.
        unanswered: identities of the batches with acks 0.
    """

    leader: int | None

    def __init__(self, process: Process, settings: ProducerSettings, traffic: Traffic) -> None:
        self.settings: ProducerSettings = settings
        self._next = ProducerStamp(len(traffic.producers) + 1, 0, 0) if settings.is_idempotent else None
        self.sent: int = 0
        self.failed: int = 0
        self.unanswered: list[int] = []
        super().__init__(process, settings.partition, traffic)

    async def _run(self) -> None:
        scheduler = self.process.scheduler
        while True:
            next_us = scheduler.now_us + self.settings.gap_us
            await self._deliver()
            await self.process.sleep(max(0, next_us - scheduler.now_us))

    async def _deliver(self) -> None:
        """Send one batch until it is acknowledged, or give it up."""
        _, acks, _, records, retries, timeout_ms, _ = self.settings
        identity = next(self.traffic.identities)
        request = self._stamped(AppendRequest(self.partition, records, acks, timeout_ms, identity))
        self.sent += records
        error = ErrorCode.LEADER_NOT_AVAILABLE
        for _ in range(retries + 1):
            if await self.find_leader():
                if acks == 0:
                    self.unanswered.append(request.identity)
                    self.call(request, timeout_ms).add_done_callback(self._note_refusal)
                    return
                response = await self._send(request)
                error = response.error
                if error == ErrorCode.NONE:
                    self._record("acknowledged", f"from {response.base_offset} on")
                    return
                if error in _FINAL:
                    break
                if error in _NEW_EPOCH and self._next is not None:
                    self._begin_epoch()
                    request = self._stamped(request)
                else:
                    self.leader = None
            await self.process.sleep(BACKOFF_US)
        self.failed += records
        assert self.failed <= self.sent, "a batch is given up once"
        if self._next is not None:
            self._begin_epoch()  # the next batch must not follow one that may be missing
        self._record("given up", error.name)

    def _stamped(self, request: AppendRequest) -> AppendRequest:
        """Return a request with the next sequence numbers; the same request if the producer is not idempotent."""
        if self._next is None:
            return request
        stamp, records = self._next, request.records
        self._next = stamp._replace(sequence=(last_sequence(stamp.sequence, records) + 1) & MAX_SEQUENCE)
        return request._replace(batches=(NewBatch(records, None, stamp),))

    def _begin_epoch(self) -> None:
        assert self._next is not None
        self._next = ProducerStamp(self._next.producer_id, self._next.epoch + 1, 0)

    async def _send(self, request: AppendRequest) -> AppendResponse:
        try:
            response = await self.call(request, self.settings.timeout_ms)
        except Disconnected:
            return AppendResponse(ErrorCode.NETWORK_EXCEPTION)
        assert isinstance(response, AppendResponse)
        return response

    def _note_refusal(self, answer: Future[object]) -> None:
        """Ask for the leader again if a batch with acks 0 is refused: the broker closes the connection then."""
        assert self.settings.acks == 0, "other batches have an answer that is awaited"
        response = None if answer.exception() is not None else answer.result()
        if not isinstance(response, AppendResponse) or response.error != ErrorCode.NONE:
            self.leader = None

    def _record(self, what: str, how: str) -> None:
        self.traffic.history.record(
            self.process.name, what, str(self.partition), f"{self.settings.records} records", how
        )


class SteadyConsumer(_Client):
    """A consumer.

    Attributes:
        position: offset of the next record.
        resets: how often the leader did not have that offset.
    """

    leader: int | None

    def __init__(self, process: Process, settings: ConsumerSettings, traffic: Traffic) -> None:
        self.settings: ConsumerSettings = settings
        self.position: int = 0
        self.resets: int = 0
        super().__init__(process, settings.partition, traffic)

    async def _run(self) -> None:
        while True:
            if await self.find_leader():
                await self._read()
            await self.process.sleep(self.settings.gap_us)

    async def _read(self) -> None:
        request = ReadRequest(self.partition, self.position, READ_MAX_BYTES)
        try:
            response = await self.call(request, self.settings.timeout_ms)
        except Disconnected:
            self.leader = None
            return
        assert isinstance(response, ReadResponse)
        if response.batches:
            self._move("records read", response.batches[-1].next_offset)
        elif response.readable is None:
            self.leader = None
        elif response.error != ErrorCode.NONE:
            self.resets += 1
            self._move("offset reset", response.readable.end)

    def _move(self, what: str, offset: int) -> None:
        assert what == "offset reset" or offset > self.position, "a consumer reads in order"
        before, self.position = self.position, offset
        history, name = self.traffic.history, self.process.name
        history.record(name, what, str(self.partition), f"offset {before}", f"offset {offset}")


@dataclass(eq=False)
class Traffic:
    """Producers and consumers of a cluster that run until they are stopped.

    Args:
        scheduler, connections: of the cluster.
        history: records acknowledged and given up batches, and reads.
        ledger: the acknowledged records.
        brokers: ids of the brokers that clients may ask for metadata.
        identities: numbers of batches, each used once in the cluster.

    Attributes:
        producers, consumers: all that were started, also those that were stopped.
    """

    scheduler: Scheduler
    connections: Connections
    history: History
    ledger: RecordLedger
    brokers: Sequence[int]
    identities: Iterator[int]
    producers: list[SteadyProducer] = field(default_factory=list)
    consumers: list[SteadyConsumer] = field(default_factory=list)

    def start_producer(self, settings: ProducerSettings) -> SteadyProducer:
        """Start a producer."""
        process = Process(self.scheduler, f"producer {len(self.producers) + 1}")
        self.producers.append(SteadyProducer(process, settings, self))
        return self.producers[-1]

    def start_consumer(self, settings: ConsumerSettings) -> SteadyConsumer:
        """Start a consumer."""
        process = Process(self.scheduler, f"consumer {len(self.consumers) + 1}")
        self.consumers.append(SteadyConsumer(process, settings, self))
        return self.consumers[-1]

    def stop(self) -> None:
        """Stop all clients; requests in flight may still be served."""
        for client in (*self.producers, *self.consumers):
            client.process.kill()

    def counts(self) -> dict[str, int]:
        """Return what became of the records, by name, without zeros.

        Losses are named by their cause. Records with acks 0 that no leader has appended are lost by the request.
        """
        ledger = self.ledger
        counts = {f"acknowledged, {acks}": count for acks, count in sorted(ledger.by_acks.items())}
        counts["given up by producers"] = sum(producer.failed for producer in self.producers)
        counts["appended twice"] = ledger.duplicates
        counts["read by consumers"] = ledger.read
        counts["offsets reset"] = sum(consumer.resets for consumer in self.consumers)
        counts["lost, acks=0: no leader had them"] = sum(
            producer.settings.records
            for producer in self.producers
            for identity in producer.unanswered
            if not ledger.was_appended(producer.partition, identity)
        )
        for loss in sorted(ledger.losses, key=lambda loss: (loss.acks, loss.cause, loss.is_read)):
            read = " and read" if loss.is_read else ""
            name = f"lost, {loss.acks or 'not acknowledged'}{read}: {loss.cause}"
            counts[name] = counts.get(name, 0) + loss.batch.records
        return {name: count for name, count in counts.items() if count}


def _reject_request(request: object, _respond: object) -> None:
    raise AssertionError(f"clients serve no requests, but one received {request!r}")
