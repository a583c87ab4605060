"""Transactional ids that one broker coordinates: those of the partitions of `__transaction_state` that it leads.

Rules of this module (TransactionCoordinator, TransactionStateManager; recorded 0.11 to 3.9):
  - the hash of a transactional id decides its partition, and the leader of that is its coordinator;
  - a broker that becomes leader of a partition reads its log; until then its ids answer COORDINATOR_LOAD_IN_PROGRESS.
    Then it sends the markers of all prepared transactions again. A log without records is loaded at once;
  - a broker that ceases to lead forgets the ids. A leader with a new leader epoch keeps them, and the coordinator epoch
    with which it began (Partition.makeLeader: it is no new leader);
  - from 1.1 to 2.4.0 a broker that ceases to lead first reads in ZooKeeper how many partitions there are
    (validateTransactionTopicPartitionCountIsStable). If its session expires meanwhile, it keeps the ids, and when it
    leads again, it answers COORDINATOR_LOAD_IN_PROGRESS until it restarts (KAFKA-9307). Here only the ids wait for that
    read; real brokers handle no other request of the controller meanwhile;
  - a producer is known by its id and epoch: another id is INVALID_PRODUCER_ID_MAPPING, another epoch is fenced;
  - EndTxn is answered when the decision is in the log. Then the markers are written, and after them the completion.
    Until then other requests get CONCURRENT_TRANSACTIONS;
  - a transaction that is open for longer than its timeout is aborted with a bumped epoch; an id without a transaction
    is removed after `transactional.id.expiration.ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.kafka.coordinator.coordinator_log import (
    ERRORS_OF_APPEND,
    LOAD_US,
    TRANSACTIONS_TOPIC,
    CoordinatorLog,
    CoordinatorRecord,
    partition_of,
)
from simzk.kafka.coordinator.marker_channels import MarkerChannels, TransactionToMark
from simzk.kafka.coordinator.record_fields import RecordError, fits
from simzk.kafka.coordinator.transaction import (
    NO_PRODUCER_EPOCH,
    PREPARED,
    WITHOUT_TRANSACTION,
    ProducerIdentity,
    TransactionMetadata,
    TransactionSnapshot,
    TransactionState,
)
from simzk.kafka.coordinator.transaction_records import (
    decode_transaction,
    decode_transaction_key,
    encode_transaction,
    encode_transaction_key,
)
from simzk.kafka.metadata.plane import MetadataUnavailableError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence

    from simzk.kafka.releases.profile import TransactionRules
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.simulation import Future, Process, Timer

    Done = Callable[[ErrorCode], None]
    """Called with the result of a request or transition."""
    AnswerProducer = Callable[[ProducerIdentity | ErrorCode], None]
    """Called with id and epoch of a producer, or an error."""

AFTER_REQUEST_US = 3_000
"""From a request to the deferred completions: the next request of a fast client still comes before them (recorded)."""
_ABORT_INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_EXPIRY_INTERVAL = "transaction.remove.expired.transaction.cleanup.interval.ms"
APPEND_RETRY_US = 100_000
"""Pause before a completion is appended again."""
_OF_APPEND = ERRORS_OF_APPEND | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE}


class TransactionOverview(NamedTuple):
    """A transactional id in a list."""

    transactional_id: str
    stored: TransactionSnapshot


class _InitRequest(NamedTuple):
    """Request for a producer id; see `TransactionCoordinator.init_producer_id`."""

    timeout_ms: int
    expected: ProducerIdentity | None
    respond: AnswerProducer


@dataclass(eq=False)
class _Shard:
    """Transactional ids of one partition; `loading` is the timer of its load."""

    partition: TopicPartition
    epoch: int
    transactions: dict[str, TransactionMetadata] = field(default_factory=dict)
    loading: Timer | None = None


def _read(records: Iterable[CoordinatorRecord]) -> dict[str, TransactionSnapshot]:
    """Return the states of a log by transactional id.

    Raises:
        RecordError: a record is malformed.
    """
    found: dict[str, TransactionSnapshot] = {}
    for record in records:
        transactional_id = decode_transaction_key(record.key)
        if transactional_id is not None:
            found.pop(transactional_id, None)
            if record.value is not None:
                found[transactional_id] = decode_transaction(record.value)
    return found


@dataclass(eq=False)
class TransactionCoordinator:
    """Coordinator of the transactions of one broker, from the start of its process to the end.

    Args:
        process: the broker's process; its end cancels all timers.
        take_id: calls back, now or later, with a new producer id; None if there is none now.
        markers: sends markers.
        partitions: returns how many partitions `__transaction_state` has, or will have.
        read_count: reads the same from the cluster's metadata; raises MetadataUnavailableError.
        now_ms: returns the present time, in ms since 1970.
        record: records what happened to a partition in the history.
    """

    process: Process
    rules: TransactionRules
    config: BrokerConfig
    log: CoordinatorLog
    take_id: Callable[[Callable[[int | None], None]], None]
    markers: MarkerChannels
    partitions: Callable[[], int]
    read_count: Callable[[], Coroutine[Future[Any], None, object]]
    now_ms: Callable[[], int]
    record: Callable[[str, TopicPartition, str], None]
    _shards: dict[int, _Shard] = field(default_factory=dict, init=False)
    _kept: dict[int, int] = field(default_factory=dict, init=False)  # leader epochs of what could not be unloaded
    _loading_for_ever: set[int] = field(default_factory=set, init=False)
    _has_timers: bool = field(default=False, init=False)
    _deferred: list[Callable[[], None]] = field(default_factory=list, init=False)

    # -- partitions

    def on_leadership(self, partition: TopicPartition) -> None:
        """Load or unload the ids of a partition that this broker began or ceased to lead."""
        assert partition.topic == TRANSACTIONS_TOPIC
        number = partition.partition
        if not self.log.leads(partition):
            if (shard := self._shards.pop(number, None)) is not None:
                self._unload(shard)
        elif number in self._kept:
            self._loading_for_ever.add(number)
            epoch = self._kept[number]
            self.record("cannot load transactions", partition, f"those of leader epoch {epoch} are still there")
        elif number not in self._shards:
            loaded = self._shards[number] = _Shard(partition, self.log.leader_epoch(partition))
            if not self.log.is_empty(partition):
                loaded.loading = self.process.call_later(LOAD_US, lambda: self._load(loaded))

    def _unload(self, shard: _Shard) -> None:
        if shard.loading is not None:
            shard.loading.cancel()
        if self.rules.reads_count_to_unload:
            self.process.spawn(self._read_to_unload(shard), "unload transactions")

    async def _read_to_unload(self, shard: _Shard) -> None:
        """Read the number of partitions; keep a partition whose read fails, unless this broker leads it again."""
        number = shard.partition.partition
        try:
            await self.read_count()
        except MetadataUnavailableError:
            if number not in self._shards:
                self._kept.setdefault(number, shard.epoch)

    def _load(self, shard: _Shard) -> None:
        """Load the ids of a partition, and go on with their prepared transactions."""
        assert self._shards[shard.partition.partition] is shard, "a broker that ceases to lead cancels the load"
        assert not shard.transactions
        shard.loading = None
        try:
            found = _read(self.log.read(shard.partition))
        except RecordError:  # a log that is malformed has no ids (TransactionStateManager.loadTransactionMetadata)
            return
        shard.transactions = {name: TransactionMetadata(name, stored) for name, stored in found.items()}
        if shard.transactions:
            self._start_timers()
        for transaction in shard.transactions.values():
            if transaction.state in PREPARED:
                self._send_markers(shard, transaction)

    def _is_coordinated(self, shard: _Shard, transaction: TransactionMetadata) -> bool:
        """Return whether the broker still coordinates a transaction, in the same leader epoch."""
        if self._shards.get(shard.partition.partition) is not shard:
            return False
        return shard.transactions.get(transaction.transactional_id) is transaction

    def _shard_of(self, transactional_id: str) -> _Shard | ErrorCode:
        """Return the loaded partition of an id, or the error of requests for it."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not fits(transactional_id):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        number = partition_of(transactional_id, self.partitions())
        if number in self._loading_for_ever:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shard = self._shards.get(number)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.loading is None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _find(
        self, transactional_id: str, producer: ProducerIdentity
    ) -> tuple[_Shard, TransactionMetadata] | ErrorCode:
        """Return a transaction of a producer, or the error of requests for it; the epoch is not compared."""
        shard = self._shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        transaction = shard.transactions.get(transactional_id)
        if transaction is None or transaction.stored.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return shard, transaction

    def _append(
        self,
        shard: _Shard,
        transaction: TransactionMetadata,
        transition: TransactionSnapshot,
        done: Done,
        *,
        is_retried: bool = False,
    ) -> None:
        """Append a prepared transition; it takes effect when all in the ISR have it.

        If it `is_retried`, it stays pending while the coordinator is not available.
        """
        assert self._is_coordinated(shard, transaction), f"{transaction.transactional_id} is not coordinated here"
        assert shard.loading is None

        def finish(error: ErrorCode) -> None:
            code = _OF_APPEND.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
            if not self._is_coordinated(shard, transaction):
                code = ErrorCode.NOT_COORDINATOR
            elif code == ErrorCode.NONE:
                transaction.complete(transition)
            elif not (is_retried and code == ErrorCode.COORDINATOR_NOT_AVAILABLE):
                transaction.pending = None
            done(code)

        key, value = encode_transaction_key(transaction.transactional_id), encode_transaction(transition)
        self.log.append(shard.partition, [CoordinatorRecord(key, value)], finish)

    # -- producers

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None, respond: AnswerProducer
    ) -> None:
        """Give a producer its id and the next epoch, and fence older producers of the same transactional id.

        Args:
            transactional_id: the id; empty is INVALID_REQUEST.
            timeout_ms: how long its transactions may stay open.
            expected: id and epoch that the producer has (KIP-360); None for a new one.
            respond: called with id and epoch, or an error.
        """
        self._complete_soon()
        if transactional_id and not 0 < timeout_ms <= self.config.integer("transaction.max.timeout.ms"):
            respond(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            return
        shard, request = self._shard_of(transactional_id), _InitRequest(timeout_ms, expected, respond)
        if isinstance(shard, ErrorCode):
            respond(shard)
        elif (known := shard.transactions.get(transactional_id)) is not None:
            self._begin_producer(shard, known, request)
        else:

            def create(producer_id: int | None) -> None:
                if producer_id is None:
                    respond(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                elif self._shards.get(shard.partition.partition) is not shard:
                    respond(ErrorCode.NOT_COORDINATOR)
                else:
                    stored = TransactionSnapshot(producer_id, NO_PRODUCER_EPOCH, timeout_ms, updated_ms=self.now_ms())
                    # Another request may have made it meanwhile.
                    found = shard.transactions.setdefault(
                        transactional_id, TransactionMetadata(transactional_id, stored)
                    )
                    self._start_timers()
                    self._begin_producer(shard, found, request)

            self.take_id(create)

    def _begin_producer(self, shard: _Shard, transaction: TransactionMetadata, request: _InitRequest) -> None:
        stored, (timeout_ms, expected, respond) = transaction.stored, request
        if transaction.pending is not None:
            respond(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif expected is not None and not transaction.accepts(expected):
            respond(ErrorCode.PRODUCER_FENCED)
        elif transaction.state in PREPARED:
            respond(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif transaction.state == TransactionState.ONGOING:

            def ask_again(error: ErrorCode) -> None:
                respond(ErrorCode.CONCURRENT_TRANSACTIONS if error == ErrorCode.NONE else error)

            self._fence(shard, transaction, ask_again)
        elif stored.is_epoch_exhausted and (expected is None or expected.epoch == stored.epoch):
            self._rotate_id(shard, transaction, request)
        else:
            epoch = None if expected is None else expected.epoch
            transition = transaction.with_next_epoch(timeout_ms, epoch, self.now_ms())
            if isinstance(transition, ErrorCode):
                respond(transition)
            else:
                self._answer_with(shard, transaction, transition, respond)

    def _rotate_id(self, shard: _Shard, transaction: TransactionMetadata, request: _InitRequest) -> None:
        """Give a producer a new producer id, because the epochs of the old one are used up."""
        timeout_ms, expected, respond = request

        def rotate(producer_id: int | None) -> None:
            if producer_id is None:
                respond(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            elif not self._is_coordinated(shard, transaction):
                respond(ErrorCode.NOT_COORDINATOR)
            elif transaction.pending is not None:
                respond(ErrorCode.CONCURRENT_TRANSACTIONS)
            else:
                keeps_epoch, now_ms = expected is not None, self.now_ms()
                transition = transaction.with_producer_id(
                    producer_id, timeout_ms, keeps_epoch=keeps_epoch, now_ms=now_ms
                )
                self._answer_with(shard, transaction, transition, respond)

        self.take_id(rotate)

    def _answer_with(
        self, shard: _Shard, transaction: TransactionMetadata, transition: TransactionSnapshot, respond: AnswerProducer
    ) -> None:
        """Append a transition, and answer with its producer."""

        def finish(error: ErrorCode) -> None:
            respond(ProducerIdentity(transition.producer_id, transition.epoch) if error == ErrorCode.NONE else error)

        self._append(shard, transaction, transition, finish)

    def add_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition], respond: Done
    ) -> None:
        """Add partitions to the open transaction of a producer, or begin one."""
        self._complete_soon()
        if isinstance(found := self._find(transactional_id, producer), ErrorCode):
            respond(found)
            return
        shard, transaction = found
        if transaction.stored.epoch != producer.epoch:
            respond(ErrorCode.PRODUCER_FENCED)
        elif transaction.pending is not None or transaction.state in PREPARED:
            respond(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif transaction.state == TransactionState.ONGOING and set(partitions) <= set(transaction.stored.partitions):
            respond(ErrorCode.NONE)
        else:
            self._append(shard, transaction, transaction.with_partitions(partitions, self.now_ms()), respond)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition]
    ) -> list[ErrorCode]:
        """Return for each partition whether it belongs to the open transaction of a producer (KIP-890)."""
        found = self._find(transactional_id, producer)
        if isinstance(found, ErrorCode):
            return [found] * len(partitions)
        _, transaction = found
        if transaction.stored.epoch != producer.epoch:
            return [ErrorCode.PRODUCER_FENCED] * len(partitions)
        if transaction.state in PREPARED:
            return [ErrorCode.CONCURRENT_TRANSACTIONS] * len(partitions)
        added = set(transaction.stored.partitions)
        return [ErrorCode.NONE if one in added else ErrorCode.INVALID_TXN_STATE for one in partitions]

    # -- the end of transactions

    def end(self, transactional_id: str, producer: ProducerIdentity, *, is_commit: bool, respond: Done) -> None:
        """Commit or abort the open transaction of a producer."""
        self._complete_soon()
        if isinstance(found := self._find(transactional_id, producer), ErrorCode):
            respond(found)
            return
        shard, transaction = found
        epoch = transaction.stored.epoch
        accepts_epoch = producer.epoch >= epoch if self.rules.accepts_later_epochs else producer.epoch == epoch
        if not accepts_epoch:
            respond(ErrorCode.PRODUCER_FENCED)
        elif transaction.pending is not None:
            respond(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif transaction.state == TransactionState.ONGOING:
            self._end(shard, transaction, producer.epoch, respond, is_commit=is_commit)
        else:
            respond(_ANSWER_TO_END.get((transaction.state, is_commit), ErrorCode.INVALID_TXN_STATE))

    def _end(
        self, shard: _Shard, transaction: TransactionMetadata, epoch: int, respond: Done, *, is_commit: bool
    ) -> None:
        """Append the decision, answer, and send the markers."""
        assert epoch >= transaction.stored.epoch, f"epoch {epoch} of {transaction.transactional_id} is fenced"

        def finish(error: ErrorCode) -> None:
            assert error != ErrorCode.NONE or transaction.state in PREPARED
            if error == ErrorCode.NONE and transaction.stored.epoch != epoch:
                # Up to 2.4 a later epoch is noticed only now, and nobody sends the markers (recorded).
                respond(ErrorCode.PRODUCER_FENCED)
                return
            respond(error)
            if error == ErrorCode.NONE:
                self._send_markers(shard, transaction)

        self._append(shard, transaction, transaction.with_end(is_commit=is_commit, now_ms=self.now_ms()), finish)

    def _fence(self, shard: _Shard, transaction: TransactionMetadata, respond: Done) -> None:
        """Abort an open transaction with a bumped epoch, so that its producer is fenced."""
        assert transaction.state == TransactionState.ONGOING
        epoch = transaction.with_fence().epoch
        transaction.begin_fence(epoch)

        def finish(error: ErrorCode) -> None:
            if error != ErrorCode.NONE:  # the next try does not bump the epoch again
                transaction.has_failed_fence = True
            respond(error)

        self._end(shard, transaction, epoch, finish, is_commit=False)

    def _send_markers(self, shard: _Shard, transaction: TransactionMetadata) -> None:
        """Send the markers of a prepared transaction, and complete it when all are written."""
        assert transaction.state in PREPARED
        stored, is_commit = transaction.stored, transaction.state == TransactionState.PREPARE_COMMIT
        completion = transaction.with_completion(self.now_ms())

        def on_marked(partitions: list[TopicPartition]) -> None:
            assert transaction.pending == completion.state, "a transaction is completed once"
            transaction.remove_partitions(partitions)
            if not transaction.stored.partitions:
                self._defer(lambda: self._complete(shard, transaction, completion))

        is_wanted = partial(self._is_coordinated, shard, transaction)
        ended = TransactionToMark(stored.producer_id, stored.epoch, is_commit, shard.epoch, on_marked, is_wanted)
        self.markers.add(ended, list(stored.partitions))

    def _defer(self, complete: Callable[[], None]) -> None:
        """Complete a transaction now; since 2.7 with the next request, or when the followers' long polls end."""
        if not self.rules.defers_completion:
            complete()
            return
        self._deferred.append(complete)
        self._call_after("replica.fetch.wait.max.ms", self._complete_deferred)

    def _call_after(self, setting: str, callback: Callable[[], None]) -> None:
        self.process.call_later(self.config.integer(setting) * 1000, callback)

    def _complete_soon(self) -> None:
        """Complete the deferred transactions after the request that arrives now."""
        if self._deferred:
            self.process.call_later(AFTER_REQUEST_US, self._complete_deferred)

    def _complete_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for complete in deferred:
            complete()

    def _complete(self, shard: _Shard, transaction: TransactionMetadata, completion: TransactionSnapshot) -> None:
        """Append the completion, until it succeeds or another broker coordinates the id."""

        def finish(error: ErrorCode) -> None:
            if error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self.process.call_later(APPEND_RETRY_US, lambda: self._complete(shard, transaction, completion))

        if self._is_coordinated(shard, transaction):
            self._append(shard, transaction, completion, finish, is_retried=True)

    # -- descriptions

    def describe(self, transactional_id: str) -> TransactionSnapshot | ErrorCode:
        """Return the state of an id, or an error."""
        shard = self._shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        found = shard.transactions.get(transactional_id)
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if found is None else found.stored

    def transactions(self) -> list[TransactionOverview] | ErrorCode:
        """Return all ids with their states; an error while some are not loaded yet."""
        if any(shard.loading is not None for shard in self._shards.values()):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [TransactionOverview(one.transactional_id, one.stored) for one in self._all()]

    def without_markers(self) -> Iterator[tuple[TopicPartition, int, TransactionOverview]]:
        """Yield each transaction that needs markers, with the partition and leader epoch in which it is coordinated."""
        for shard in self._shards.values():
            for one in shard.transactions.values():
                if one.state in PREPARED and one.stored.partitions:
                    yield shard.partition, shard.epoch, TransactionOverview(one.transactional_id, one.stored)

    def _all(self) -> Collection[TransactionMetadata]:
        return [one for shard in self._shards.values() for one in shard.transactions.values()]

    @property
    def has_pending(self) -> bool:
        """Whether a transition is prepared and not in the log yet, such as the completion of a transaction."""
        return any(one.pending is not None for one in self._all())

    # -- timeouts

    def _start_timers(self) -> None:
        if not self._has_timers:
            self._has_timers = True
            self._call_after(_ABORT_INTERVAL, self._abort_timed_out)
            self._call_after(_EXPIRY_INTERVAL, self._remove_expired)

    def _abort_timed_out(self) -> None:
        """Abort transactions that are open for too long, periodically."""
        now_ms = self.now_ms()
        for shard in list(self._shards.values()):
            for one in list(shard.transactions.values()):
                is_open = one.state == TransactionState.ONGOING and one.pending is None
                if is_open and one.stored.start_ms + one.stored.timeout_ms < now_ms:
                    self._fence(shard, one, lambda _error: None)
        self._call_after(_ABORT_INTERVAL, self._abort_timed_out)

    def _remove_expired(self) -> None:
        """Remove ids without a transaction that nobody has used for long, periodically."""
        last_ms = self.now_ms() - self.config.integer("transactional.id.expiration.ms")
        for shard in self._shards.values():
            unused = [one for one in shard.transactions.values() if one.stored.updated_ms <= last_ms]
            expired = [one for one in unused if one.pending is None and one.state in WITHOUT_TRANSACTION]
            if expired:
                self._remove(shard, expired)
        self._call_after(_EXPIRY_INTERVAL, self._remove_expired)

    def _remove(self, shard: _Shard, expired: list[TransactionMetadata]) -> None:
        for one in expired:
            one.begin_removal()

        def finish(error: ErrorCode) -> None:
            for one in expired:
                if error != ErrorCode.NONE:
                    one.pending = None
                elif self._is_coordinated(shard, one):
                    assert one.pending == TransactionState.DEAD
                    del shard.transactions[one.transactional_id]

        tombstones = [CoordinatorRecord(encode_transaction_key(one.transactional_id), None) for one in expired]
        self.log.append(shard.partition, tombstones, finish)

    def check(self) -> None:
        """Assert every invariant."""
        producers = [one.stored.producer_id for one in self._all()]
        assert len(set(producers)) == len(producers), "two transactional ids have one producer id"
        for number, shard in self._shards.items():
            assert shard.partition == TopicPartition(TRANSACTIONS_TOPIC, number)
            assert self.log.leads(shard.partition)
            assert shard.loading is None or not shard.transactions
            for transactional_id, transaction in shard.transactions.items():
                assert transaction.transactional_id == transactional_id
                transaction.check()


_ANSWER_TO_END = {
    (TransactionState.COMPLETE_COMMIT, True): ErrorCode.NONE,
    (TransactionState.COMPLETE_ABORT, False): ErrorCode.NONE,
    (TransactionState.PREPARE_COMMIT, True): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.PREPARE_ABORT, False): ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Answers to EndTxn without an open transaction, by state and decision; else INVALID_TXN_STATE."""
