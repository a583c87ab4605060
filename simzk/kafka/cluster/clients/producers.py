"""Idempotent and transactional producers in virtual time, which speak Kafka's requests.

Rules of this module (Sender, TransactionManager; KIP-98):
  - a producer numbers its batches. It has up to three in flight to one partition; if one fails, all that are not
    acknowledged are sent again, in order, with the same numbers;
  - a batch is sent again until it is acknowledged: how often does not matter, its number tells it from others;
  - a former leader that does not know it may lack batches, and finds a number out of order: the producer asks for the
    leader, and sends again. When everything has healed, what it could not deliver is delivered (`ResumedProducer`);
  - a transactional producer adds partitions before it sends to them, and ends the transaction when all batches are
    acknowledged. It aborts by chance, or leaves the transaction to its timeout;
  - a fenced producer waits, and begins anew: so producers with one transactional id fence each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from simzk.kafka.cluster.clients.wire import (
    GROUP_COORDINATOR,
    TIMEOUT_MS,
    TRANSACTION_COORDINATOR,
    CoordinatorLostError,
    WireClient,
)
from simzk.kafka.log.record_batches import BatchProducer, Record, encode_batch
from simzk.kafka.observation.client_ledger import Outcome, ProducerEpoch, SentRecord
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
from simzk.kafka.protocol.structs import Message
from simzk.kafka.rpc import Disconnected
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.kafka.cluster.clients.wire import Ports
    from simzk.kafka.observation.client_ledger import ClientLedger, SentTransaction
    from simzk.simulation import Future, Process

M = TypeVar("M", bound=Message)

IN_FLIGHT: Final = 3
"""Batches of a window; `max.in.flight.requests.per.connection` is 5 by default."""
KEYS: Final = 4
"""Number of keys of a producer that writes to a compacted topic."""
TOMBSTONE_IN: Final = 6
"""One in so many writes of a key deletes it."""
FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
"""Errors that tell a producer of another one with its transactional id, or that its transaction has timed out."""
_PRODUCE, _INIT, _ADD, _ADD_OFFSETS, _END, _COMMIT_OFFSETS = 11, 4, 3, 3, 3, 3
"""Highest versions that the producers speak."""
_NO_SEQUENCE_LIMIT = 2**31 - 1


class FencedError(Exception):
    """Another producer has taken the transactional id, or the transaction has timed out."""


class StateError(Exception):
    """The coordinator has no transaction in the state for the request: it may be a former one."""


@dataclass(slots=True)
class _Batch:
    """A batch: its bytes, and the values in it, or what stands for a tombstone."""

    data: bytes
    names: list[bytes]
    offset: int | None = None
    is_done: bool = False


def produce_request(
    partition: TopicPartition, data: bytes, *, transactional_id: str | None = None, timeout_ms: int = TIMEOUT_MS
) -> ProduceRequest:
    """Return the request that appends one batch with acks of all."""
    part = ProduceRequest.PartitionProduceData(index=partition.partition, records=data)
    topic = ProduceRequest.TopicProduceData(name=partition.topic, partition_data=[part])
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=timeout_ms, topic_data=[topic])


class _NumberingProducer(WireClient):
    """A producer with an id and sequence numbers."""

    def __init__(self, process: Process, ports: Ports, ledger: ClientLedger, transactional_id: str | None) -> None:
        super().__init__(process, ports)
        self.ledger: ClientLedger = ledger
        self.transactional_id: str | None = transactional_id
        self.producer: ProducerEpoch | None = None
        self.sequences: dict[TopicPartition, int] = {}

    def new_batch(self, partition: TopicPartition, records: Sequence[Record], names: list[bytes]) -> _Batch:
        """Return a batch with the next sequence numbers."""
        assert self.producer is not None
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(records)
        assert sequence + len(records) < _NO_SEQUENCE_LIMIT, "a producer of the simulation sends fewer records"
        stamp = BatchProducer(self.producer.producer_id, self.producer.epoch, sequence)
        data = encode_batch(records, producer=stamp, is_transactional=self.transactional_id is not None)
        return _Batch(data, names)

    async def deliver(self, partition: TopicPartition, batches: Sequence[_Batch], limit_us: int | None = None) -> None:
        """Send batches until all are acknowledged.

        Raises:
            FencedError: the broker does not take the producer's batches any more.
            TimeoutError: the limit is over.
        """
        while left := [one for one in batches if not one.is_done]:
            if limit_us is not None and self.now_us > limit_us:
                raise TimeoutError
            broker = await self.leader(partition)
            if broker is None:
                await self.backoff()
                continue
            request = [produce_request(partition, one.data, transactional_id=self.transactional_id) for one in left]
            answers = [self.call(broker, one, ProduceResponse, _PRODUCE, 2 * TIMEOUT_MS) for one in request]
            for batch, answer in zip(left, answers, strict=True):
                await self._note_answer(partition, batch, answer)
            if any(not one.is_done for one in batches):
                self.forget_leader(partition)
                await self.backoff()

    async def _note_answer(self, partition: TopicPartition, batch: _Batch, answer: Future[ProduceResponse]) -> None:
        try:
            (found,) = (await answer).responses[0].partition_responses
        except Disconnected:
            return
        error = ErrorCode(found.error_code)
        if error in FENCED:
            raise FencedError(f"{error.name} of {partition}")
        if error is ErrorCode.NONE and found.base_offset >= 0:
            batch.is_done, batch.offset = True, found.base_offset
        elif error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            batch.is_done = True


class IdempotentProducer(_NumberingProducer):
    """A producer of unique values, or of the values of some keys, to one partition.

    Args:
        process, ports, ledger: as of every client.
        partition: where it sends to.
        gap_us: time between two windows of batches.
        has_keys: whether its records have keys, as a compacted topic needs them; some of them are tombstones.

    Attributes:
        window: the batches that are sent and not acknowledged.
    """

    def __init__(
        self,
        process: Process,
        ports: Ports,
        ledger: ClientLedger,
        *,
        partition: TopicPartition,
        gap_us: int,
        has_keys: bool,
    ) -> None:
        super().__init__(process, ports, ledger, None)
        self.partition = partition
        self._gap_us = gap_us
        self._has_keys = has_keys
        self.window: list[_Batch] = []
        self._lives = 0
        self._sent = 0
        process.spawn(self._run(), "idempotent producer")

    async def _run(self) -> None:
        while True:
            try:
                while self.producer is None:
                    await self._begin()
                await self._send_window()
            except FencedError:
                self.producer = None
            except Disconnected:
                await self.backoff()
            await self.process.sleep(self._gap_us)

    async def _begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self.call(self.any_broker(), request, InitProducerIdResponse, _INIT)
        if answer.error_code:
            await self.backoff()
            return
        self.producer = ProducerEpoch(answer.producer_id, answer.producer_epoch)
        self.sequences.clear()
        self._lives += 1

    async def _send_window(self) -> None:
        self.window = [self._next_batch() for _ in range(self.stream.between(1, IN_FLIGHT))]
        await self.deliver(self.partition, self.window)
        self.note_delivered()

    def note_delivered(self) -> None:
        """Note that the whole window is acknowledged."""
        window, self.window = self.window, []
        for batch in window:
            for number, name in enumerate(batch.names):
                self.ledger.on_acknowledged(name, None if batch.offset is None else batch.offset + number)

    def _next_batch(self) -> _Batch:
        records: list[Record] = []
        names: list[bytes] = []
        life = f"{self.process.name}/{self._lives}"
        for _ in range(self.stream.between(1, 3)):
            self._sent += 1
            name = f"{life}/{self._sent}".encode()
            key = f"{life}/key {self.stream.below(KEYS)}".encode() if self._has_keys else None
            is_tombstone = key is not None and not self.stream.below(TOMBSTONE_IN)
            sent = SentRecord(self.partition, life, self._sent, key=key, is_tombstone=is_tombstone)
            self.ledger.on_sent(name, sent)
            records.append(Record(key, None if is_tombstone else name, timestamp_ms=self.ports.now_ms()))
            names.append(name)
        return self.new_batch(self.partition, records, names)


class ResumedProducer(_NumberingProducer):
    """The in-flight window of an idempotent producer that was stopped, which this client delivers.

    Attributes:
        is_done: whether the window is delivered.
    """

    def __init__(self, process: Process, ports: Ports, stopped: IdempotentProducer) -> None:
        super().__init__(process, ports, stopped.ledger, None)
        self.is_done: bool = False
        self._stopped = stopped
        process.spawn(self._run(), "resumed producer")

    async def _run(self) -> None:
        await self.deliver(self._stopped.partition, self._stopped.window)
        self._stopped.note_delivered()
        self.is_done = True


class TransactionSettings(NamedTuple):
    """Settings of a transactional producer.

    Args:
        transactional_id: its transactional id, which others may have too.
        topic, partitions: where it sends to.
        gap_us: time between two transactions.
        timeout_ms: after which the coordinator aborts a transaction.
        aborts_in: one in so many transactions is aborted.
        leaves_in: one in so many transactions is left to its timeout.
        left_us: how long beyond the timeout it is left; 0 draws up to 20 s.
        held_us: how long a transaction stays open when its records are acknowledged, within its timeout.
        commits_offsets: whether transactions commit offsets of a group too, named as the transactional id: each one
            that is held, else every second.
    """

    transactional_id: str
    topic: str
    partitions: int
    gap_us: int
    timeout_ms: int = 10_000
    aborts_in: int = 4
    leaves_in: int = 10
    left_us: int = 0
    held_us: int = 0
    commits_offsets: bool = True


class TransactionalProducer(_NumberingProducer):
    """A producer of transactions over several partitions.

    Attributes:
        transaction: the transaction that is open.
        committed: number of transactions that were committed.
        fenced: how often it was fenced.
    """

    def __init__(self, process: Process, ports: Ports, ledger: ClientLedger, settings: TransactionSettings) -> None:
        super().__init__(process, ports, ledger, settings.transactional_id)
        self.settings: TransactionSettings = settings
        self.transaction: SentTransaction | None = None
        self.committed: int = 0
        self.fenced: int = 0
        process.spawn(self._run(), "transactional producer")

    async def _run(self) -> None:
        while True:
            try:
                await self._begin()
                while True:
                    await self._transact()
                    await self.process.sleep(self.settings.gap_us)
            except FencedError:
                self.ledger.counts["producers fenced"] += 1
                self.fenced += 1
            except (StateError, TimeoutError):
                self.ledger.counts["transactions given up"] += 1
            if self.transaction is not None:
                self._end(Outcome.ABORTED, self.ledger.moment())  # its commit was not sent
            self.producer = None
            await self.process.sleep(self.stream.between(1, 4) * self.settings.gap_us)

    async def _until_accepted(self, ask: Callable[[int], Future[M]], codes_of: Callable[[M], list[int]]) -> M:
        """Send a request to the coordinator until it is accepted; return the answer.

        Raises:
            FencedError: the producer is fenced.
            StateError: its transaction is not in the state for the request.
        """
        while True:
            try:
                broker = await self.coordinator(self.settings.transactional_id, TRANSACTION_COORDINATOR)
                answer = await ask(broker)
            except (CoordinatorLostError, Disconnected):
                await self.backoff()
                continue
            errors = [ErrorCode(code) for code in codes_of(answer) if code]
            if not errors:
                return answer
            if not FENCED.isdisjoint(errors):
                raise FencedError(errors[0].name)
            if ErrorCode.INVALID_TXN_STATE in errors:
                raise StateError(errors[0].name)
            await self.backoff()

    async def _begin(self) -> None:
        """Ask for an identity, which fences all producers before and aborts their transaction."""
        request = InitProducerIdRequest(
            transactional_id=self.settings.transactional_id, transaction_timeout_ms=self.settings.timeout_ms
        )
        sent = 0

        def ask(broker: int) -> Future[InitProducerIdResponse]:
            nonlocal sent
            sent = self.ledger.moment()
            return self.call(broker, request, InitProducerIdResponse, _INIT, 2 * TIMEOUT_MS)

        found = await self._until_accepted(ask, lambda answer: [answer.error_code])
        self.producer = ProducerEpoch(found.producer_id, found.producer_epoch)
        self.ledger.on_producer(self.settings.transactional_id, self.producer, sent=sent)
        self.sequences.clear()

    async def _transact(self) -> None:
        assert self.producer is not None
        settings, stream = self.settings, self.stream
        self.transaction = self.ledger.begin(settings.transactional_id, self.producer)
        numbers = stream.shuffled(range(settings.partitions))[: stream.between(1, 3)]
        one_by_one = bool(stream.below(2))
        if not one_by_one:
            await self._add_partitions(numbers)
        limit_us = self.now_us + settings.timeout_ms * 1000
        for number in numbers:
            if one_by_one:
                await self._add_partitions([number])
            await self._send_to(TopicPartition(settings.topic, number), limit_us)
        if settings.commits_offsets and (settings.held_us or stream.below(2)):
            await self._commit_offset(TopicPartition(settings.topic, numbers[0]))
        if settings.held_us:
            await self.process.sleep(settings.held_us)
        if not stream.below(settings.leaves_in):
            await self.process.sleep(settings.timeout_ms * 1000 + (settings.left_us or stream.below(20_000_000)))
            if settings.leaves_in > 1 and stream.below(2):
                raise TimeoutError  # another process begins instead
        await self._end_transaction(is_commit=bool(stream.below(settings.aborts_in)))

    async def _add_partitions(self, numbers: Sequence[int]) -> None:
        assert self.producer is not None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.settings.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=self.settings.topic, partitions=list(numbers))
            ],
        )

        await self._until_accepted(
            lambda broker: self.call(broker, request, AddPartitionsToTxnResponse, _ADD),
            lambda answer: [
                one.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ],
        )

    async def _send_to(self, partition: TopicPartition, limit_us: int) -> None:
        assert self.transaction is not None
        transaction, batches = self.transaction, []
        for number in range(self.stream.between(1, 2)):
            value = f"transaction {transaction.number}/{partition}/{number}".encode()
            sent = SentRecord(partition, f"{self.process.name}/{transaction.producer}", transaction.number, transaction)
            self.ledger.on_sent(value, sent)
            batches.append(self.new_batch(partition, [Record(None, value, timestamp_ms=self.ports.now_ms())], [value]))
        await self.deliver(partition, batches, limit_us)
        for batch in batches:
            self.ledger.on_acknowledged(batch.names[0], batch.offset)

    async def _commit_offset(self, partition: TopicPartition) -> None:
        """Commit the number of the transaction as the offset of a partition."""
        assert self.producer is not None
        assert self.transaction is not None
        group, number = self.settings.transactional_id, self.transaction.number
        adding = AddOffsetsToTxnRequest(
            transactional_id=group, producer_id=self.producer[0], producer_epoch=self.producer[1], group_id=group
        )
        await self._until_accepted(
            lambda broker: self.call(broker, adding, AddOffsetsToTxnResponse, _ADD_OFFSETS),
            lambda answer: [answer.error_code],
        )
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=number
        )
        request = TxnOffsetCommitRequest(
            transactional_id=group,
            group_id=group,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=partition.topic, partitions=[part])],
        )
        while True:
            try:
                broker = await self.coordinator(group, GROUP_COORDINATOR)
                answer = await self.call(broker, request, TxnOffsetCommitResponse, _COMMIT_OFFSETS)
            except (CoordinatorLostError, Disconnected):
                await self.backoff()
                continue
            code = answer.topics[0].partitions[0].error_code
            if not code:
                break
            if ErrorCode(code) in FENCED:
                raise FencedError(ErrorCode(code).name)
            await self.backoff()
        self.transaction.offsets[partition] = number

    async def _end_transaction(self, *, is_commit: bool) -> None:
        assert self.producer is not None
        request = EndTxnRequest(
            transactional_id=self.settings.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=is_commit,
        )
        sent, attempts = 0, 0

        def ask(broker: int) -> Future[EndTxnResponse]:
            nonlocal sent, attempts
            assert self.transaction is not None
            attempts += 1
            if is_commit:
                self.transaction.outcome = Outcome.IN_DOUBT
            sent = self.ledger.moment()
            return self.call(broker, request, EndTxnResponse, _END, 2 * TIMEOUT_MS)

        try:
            await self._until_accepted(ask, lambda answer: [answer.error_code])
        except (FencedError, StateError):
            self._end(Outcome.IN_DOUBT if is_commit and attempts > 1 else Outcome.ABORTED, sent)
            raise
        self._end(Outcome.COMMITTED if is_commit else Outcome.ABORTED, sent)
        self.committed += is_commit

    def _end(self, outcome: Outcome, sent: int) -> None:
        assert self.transaction is not None
        transaction, self.transaction = self.transaction, None
        self.ledger.on_ended(transaction, outcome, sent=sent)
