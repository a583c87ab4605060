"""State of one transactional id, and the transitions that requests ask for (KIP-98, KIP-360).

Rules of this module (TransactionMetadata, TransactionState; recorded 0.11 to 3.9):
  - a transition is prepared, appended to the log, and takes effect when all in the ISR have its record. Until then the
    transactional id has a pending state, and other requests get CONCURRENT_TRANSACTIONS;
  - each InitProducerId bumps the epoch of the producer, so that an older producer of the same id is fenced. With the
    last epoch but one a new producer id follows;
  - a producer that names its id and epoch (KIP-360) gets the next epoch. If it repeats its request it gets that epoch
    again, and if another producer came between it is fenced;
  - an open transaction is aborted with a bumped epoch before a new producer may begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.topic_partition import TopicPartition

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = NO_START = -1
MAX_EPOCH = (1 << 15) - 1


class TransactionState(Enum):
    """State of a transactional id; the value is its name in responses."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The transaction has ended, and markers are being written."""
WITHOUT_TRANSACTION = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""No transaction is open."""
COMPLETED_BY = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
"""The state after all markers are written."""
_PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: WITHOUT_TRANSACTION,
    TransactionState.ONGOING: WITHOUT_TRANSACTION | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.ONGOING}),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: WITHOUT_TRANSACTION,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""States from which each state may be entered (TransactionState.validPreviousStates)."""


class ProducerIdentity(NamedTuple):
    """Id and epoch of a producer."""

    producer_id: int
    epoch: int


class TransactionSnapshot(NamedTuple):
    """State of a transactional id in the log.

    Args:
        producer_id: its producer id.
        epoch: the epoch of its present producer; `NO_PRODUCER_EPOCH` before the first one.
        last_epoch: the epoch before, if the present producer bumped it itself (KIP-360).
        last_producer_id: the producer id before the present one, in the same sense.
        timeout_ms: how long a transaction may stay open.
        state: its state.
        partitions: the partitions of the transaction, ascending in time.
        start_ms: when the transaction began; `NO_START` without one.
        updated_ms: time of the last transition.
    """

    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = NO_START
    updated_ms: int = NO_START
    last_epoch: int = NO_PRODUCER_EPOCH
    last_producer_id: int = NO_PRODUCER_ID

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer needs a new producer id: the last epoch is left for fencing."""
        return self.epoch >= MAX_EPOCH - 1


@dataclass(eq=False)
class TransactionMetadata:
    """A transactional id at its coordinator.

    Args:
        stored: what its log says, except for partitions that already have their marker.
        pending: the state of a transition that is not appended yet; None without one.
        has_failed_fence: whether the epoch was bumped by a transition that could not be appended.

    >>> new = TransactionMetadata("payments", TransactionSnapshot(7, NO_PRODUCER_EPOCH, 60_000))
    >>> first = new.with_next_epoch(60_000, None, now_ms=5)
    >>> first.epoch, new.pending
    (0, <TransactionState.EMPTY: 'Empty'>)
    >>> new.complete(first)
    >>> new.stored.epoch, new.pending
    (0, None)
    """

    transactional_id: str
    stored: TransactionSnapshot
    pending: TransactionState | None = None
    has_failed_fence: bool = False

    @property
    def state(self) -> TransactionState:
        """The state."""
        return self.stored.state

    # -- transitions

    def accepts(self, expected: ProducerIdentity) -> bool:
        """Return whether a producer that names its id may be the present one; its epoch is compared later."""
        stored = self.stored
        return (
            stored.epoch == NO_PRODUCER_EPOCH
            or expected.producer_id == stored.producer_id
            or (expected.producer_id == stored.last_producer_id and expected.epoch >= MAX_EPOCH - 1)
        )

    def with_next_epoch(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TransactionSnapshot | ErrorCode:
        """Prepare the next epoch for a producer that begins or goes on.

        Args:
            timeout_ms: of its transactions.
            expected_epoch: the epoch that it names; None for a new producer.
            now_ms: the present time.

        Returns:
            The transition, or PRODUCER_FENCED; UNKNOWN_SERVER_ERROR if no epoch is left (IllegalStateException).
        """
        stored = self.stored
        if stored.is_epoch_exhausted:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        bumped = stored.epoch + 1
        if expected_epoch is None:
            epoch, last = bumped, NO_PRODUCER_EPOCH
        elif stored.epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            epoch, last = bumped, stored.epoch
        elif expected_epoch == stored.last_epoch:  # the producer did not get the answer to its request
            epoch, last = stored.epoch, stored.last_epoch
        else:
            return ErrorCode.PRODUCER_FENCED
        begun = TransactionSnapshot(stored.producer_id, epoch, timeout_ms, updated_ms=now_ms, last_epoch=last)
        return self._prepared(begun)

    def with_producer_id(
        self, producer_id: int, timeout_ms: int, *, keeps_epoch: bool, now_ms: int
    ) -> TransactionSnapshot:
        """Prepare a new producer id after the last epoch; `keeps_epoch` lets the producer repeat its request."""
        last = self.stored.epoch if keeps_epoch else NO_PRODUCER_EPOCH
        return self._prepared(TransactionSnapshot(producer_id, 0, timeout_ms, updated_ms=now_ms, last_epoch=last))

    def with_fence(self) -> TransactionSnapshot:
        """Prepare the epoch with which the open transaction is aborted; it is never given to a producer."""
        stored = self.stored
        epoch = stored.epoch if self.has_failed_fence else stored.epoch + 1
        return self._prepared(
            stored._replace(epoch=epoch, last_epoch=NO_PRODUCER_EPOCH, state=TransactionState.PREPARE_EPOCH_FENCE)
        )

    def with_partitions(self, added: Iterable[TopicPartition], now_ms: int) -> TransactionSnapshot:
        """Prepare more partitions, which begin a transaction unless one is open."""
        stored = self.stored
        is_open = stored.state == TransactionState.ONGOING
        return self._prepared(
            stored._replace(
                state=TransactionState.ONGOING,
                partitions=tuple(dict.fromkeys((*stored.partitions, *added))),
                start_ms=stored.start_ms if is_open else now_ms,
                updated_ms=now_ms,
            )
        )

    def with_end(self, *, is_commit: bool, now_ms: int) -> TransactionSnapshot:
        """Prepare the end of the open transaction."""
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        return self._prepared(self.stored._replace(state=state, updated_ms=now_ms))

    def with_completion(self, now_ms: int) -> TransactionSnapshot:
        """Prepare the state after all markers are written."""
        self.has_failed_fence = False
        return self._prepared(self.stored._replace(state=COMPLETED_BY[self.state], partitions=(), updated_ms=now_ms))

    def begin_fence(self, epoch: int) -> None:
        """Let the epoch that fences the present producer count at once, before the abort is prepared."""
        assert self.pending == TransactionState.PREPARE_EPOCH_FENCE
        self.pending = None
        self.stored = self.stored._replace(epoch=epoch, last_epoch=NO_PRODUCER_EPOCH)

    def begin_removal(self) -> None:
        """Let no other transition begin: the id has expired."""
        assert self.pending is None
        assert self.state in WITHOUT_TRANSACTION
        self.pending = TransactionState.DEAD

    def _prepared(self, transition: TransactionSnapshot) -> TransactionSnapshot:
        assert self.pending is None, f"{self.transactional_id}: a transition to {self.pending} is not appended yet"
        assert self.state in _PREVIOUS[transition.state], f"{self.state} to {transition.state}"
        self.pending = transition.state
        return transition._replace(last_producer_id=self.stored.producer_id)

    def complete(self, transition: TransactionSnapshot) -> None:
        """Let a transition take effect that is appended."""
        assert self.pending == transition.state, f"{self.transactional_id}: {self.pending}, not {transition.state}"
        self.stored, self.pending = transition, None

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that partitions have their marker, or need none."""
        assert self.state in PREPARED
        done = set(partitions)
        left = tuple(partition for partition in self.stored.partitions if partition not in done)
        self.stored = self.stored._replace(partitions=left)

    def check(self) -> None:
        """Assert every invariant."""
        stored = self.stored
        assert NO_PRODUCER_EPOCH <= stored.last_epoch <= stored.epoch or stored.epoch == 0, stored
        assert stored.epoch <= MAX_EPOCH
        assert len(set(stored.partitions)) == len(stored.partitions)
        assert not (stored.partitions and stored.state in WITHOUT_TRANSACTION), stored
        assert (stored.start_ms == NO_START) == (stored.state == TransactionState.EMPTY), stored
        assert stored.state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
