"""Idempotent producers: which batches a leader appends, answers as duplicates, or rejects; transactions (KIP-98).

Rules of this module (ProducerAppendInfo, ProducerStateEntry, ProducerStateManager; recorded 0.11 to 3.9):
  - the batches of one producer id and epoch have consecutive sequence numbers, which wrap to 0 after 2^31 - 1;
  - a batch that is one of the last five (one in 0.11) of its producer is a duplicate: it is not appended, and the
    answer has the offset of the first time;
  - any other gap is OUT_OF_ORDER_SEQUENCE_NUMBER, as are older duplicates; an older epoch is INVALID_PRODUCER_EPOCH;
  - a new epoch starts with sequence 0;
  - a producer that the log does not know starts with 0 up to 2.4: else the error is OUT_OF_ORDER_SEQUENCE_NUMBER in
    0.11, and UNKNOWN_PRODUCER_ID up to 2.4 (KIP-360). Later releases accept any first sequence;
  - if only a marker of the producer is left, its sequence number is unknown: another first one than 0 is
    UNKNOWN_PRODUCER_ID in 2.0 to 2.4, else OUT_OF_ORDER_SEQUENCE_NUMBER;
  - the state follows from the log alone: a follower, or a leader after a truncation, computes the same;
  - a transaction is open from its first batch to its marker. A batch outside of transactions is INVALID_TXN_STATE
    until then. The last stable offset is where the first open transaction begins;
  - a marker may have a new epoch of its producer, but no older one, and no older epoch of its coordinator than the
    last marker had (TRANSACTION_COORDINATOR_FENCED);
  - an aborted transaction is listed for consumers from its first offset to its marker. Up to 2.7 a marker without
    records counts as a transaction, too;
  - a producer without a transaction is forgotten when its last batch is older than a setting says. A truncation or a
    restart computes the state from the log again, so it comes back until the next look;
  - coordinators number their batches not at all: only the epoch of the producer is checked.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.log.batches import ProducerStamp, RecordBatch

MAX_SEQUENCE = 2**31 - 1
KEPT = 5
"""Batches of a producer that are recognized as duplicates (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""


class KeptBatch(NamedTuple):
    """Sequence numbers and offsets of a batch, by which a duplicate is recognized."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int = -1


class ProducerEntry(NamedTuple):
    """State of one producer in one log.

    Args:
        epoch: the latest epoch.
        batches: its latest batches in this epoch, at most `KEPT`.
        transaction_from: first offset of its open transaction; None without one.
        coordinator_epoch: of the last transaction marker; -1 without one.
        timestamp_ms: of the last batch.
    """

    epoch: int
    batches: tuple[KeptBatch, ...] = ()
    transaction_from: int | None = None
    coordinator_epoch: int = -1
    timestamp_ms: int = -1

    @property
    def is_in_transaction(self) -> bool:
        """Whether the producer has an open transaction."""
        return self.transaction_from is not None

    @property
    def last_sequence(self) -> int:
        """The last sequence number of this epoch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1


class SequenceRules(NamedTuple):
    """Rules of sequence numbers that differ between releases.

    Args:
        kept: batches of a producer that are recognized as duplicates.
        unknown: error for a producer that the log does not know and that does not start with 0; NONE accepts it.
        after_marker: error for a producer of which the log has only a marker, and that does not start with 0.
    """

    kept: int = KEPT
    unknown: ErrorCode = ErrorCode.NONE
    after_marker: ErrorCode = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


NEWEST_RULES = SequenceRules()
"""Rules of the newest release."""


class EndedTransaction(NamedTuple):
    """Transaction with a marker: producer, first offset, offset of the marker, whether it was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


def last_sequence(first: int, records: int) -> int:
    """Return the sequence number of the last of some records.

    >>> last_sequence(4, 3), last_sequence(MAX_SEQUENCE, 2)
    (6, 0)
    """
    assert records > 0
    return (first + records - 1) & MAX_SEQUENCE


def check_sequence(
    entry: ProducerEntry | None, stamp: ProducerStamp, records: int, rules: SequenceRules = NEWEST_RULES
) -> KeptBatch | ErrorCode | None:
    """Return the batch that this one duplicates, the error that rejects it, or None if it is to be appended.

    The producer's state is None if the log does not know it.

    >>> from simzk.kafka.log.batches import ProducerStamp
    >>> first = ProducerStamp(7, 0, 0)
    >>> entry = after_append(None, first, records=2, first_offset=10)
    >>> check_sequence(entry, first, 2), check_sequence(entry, ProducerStamp(7, 0, 2), 1)
    (KeptBatch(first_sequence=0, last_sequence=1, first_offset=10, last_offset=11, timestamp_ms=-1), None)
    >>> check_sequence(entry, ProducerStamp(7, 0, 4), 1)
    <ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: 45>
    """
    first = stamp.sequence
    if entry is None:
        return rules.unknown if first and rules.unknown != ErrorCode.NONE else None
    if stamp.epoch < entry.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    expected = 0
    if stamp.epoch == entry.epoch:
        last = last_sequence(first, records)
        for kept in entry.batches[-rules.kept :]:
            if (kept.first_sequence, kept.last_sequence) == (first, last):
                return kept
        if not entry.batches and first:
            return rules.after_marker
        expected = 0 if entry.last_sequence in (-1, MAX_SEQUENCE) else entry.last_sequence + 1
    if first != expected:
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return ErrorCode.INVALID_TXN_STATE if entry.is_in_transaction and not stamp.is_transactional else None


def check_coordinator_batch(entry: ProducerEntry | None, stamp: ProducerStamp) -> ErrorCode | None:
    """Return the error that rejects a marker, or another batch of a coordinator; None if it is to be appended.

    >>> from simzk.kafka.log.batches import ProducerStamp
    >>> marker = ProducerStamp(7, 1, -1, True, "abort", coordinator_epoch=4)
    >>> entry = after_append(None, marker, records=1, first_offset=3)
    >>> check_coordinator_batch(entry, marker), check_coordinator_batch(entry, marker._replace(epoch=0))
    (None, <ErrorCode.INVALID_PRODUCER_EPOCH: 47>)
    >>> check_coordinator_batch(entry, marker._replace(coordinator_epoch=3))
    <ErrorCode.TRANSACTION_COORDINATOR_FENCED: 52>
    """
    if entry is None:
        return None
    if stamp.epoch < entry.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if stamp.marker is not None and stamp.coordinator_epoch < entry.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return None


def after_append(
    entry: ProducerEntry | None, stamp: ProducerStamp, records: int, first_offset: int, timestamp_ms: int = -1
) -> ProducerEntry:
    """Return the state of a producer after a batch, or after a transaction marker, was appended.

    The state before is None if the log did not know the producer; the timestamp is the largest of the records.
    """
    same_epoch = entry is not None and entry.epoch == stamp.epoch
    before = entry if entry is not None else ProducerEntry(stamp.epoch)
    kept = before.batches if same_epoch else ()
    if stamp.marker is not None:
        return ProducerEntry(stamp.epoch, kept, None, stamp.coordinator_epoch, timestamp_ms)
    last, last_offset = last_sequence(stamp.sequence, records), first_offset + records - 1
    added = KeptBatch(stamp.sequence, last, first_offset, last_offset, timestamp_ms)
    opened = before.transaction_from
    if stamp.is_transactional and opened is None:
        opened = first_offset
    return ProducerEntry(stamp.epoch, (*kept, added)[-KEPT:], opened, before.coordinator_epoch, timestamp_ms)


class ProducerStates:
    """Producers of one log, their open transactions, and those that have ended.

    Args:
        batches: the batches of the log; those without a producer are skipped.
        lists_empty: whether a marker without records counts as a transaction.

    Attributes:
        entries: the state of each producer, by its id.
        open: first offsets of the open transactions, by producer id, ascending.
        ended: transactions with a marker, in the order of the markers.
    """

    __slots__ = ("ended", "entries", "lists_empty", "open")

    def __init__(self, batches: Iterable[RecordBatch] = (), *, lists_empty: bool = False) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.open: dict[int, int] = {}
        self.ended: list[EndedTransaction] = []
        self.lists_empty: bool = lists_empty
        for batch in batches:
            self.append(batch)

    def append(self, batch: RecordBatch) -> None:
        """Note a batch that was appended."""
        stamp = batch.producer
        if stamp is None:
            return
        producer, entry = stamp.producer_id, self.entries.get(stamp.producer_id)
        if stamp.marker is not None:
            marker_offset = batch.base_offset
            first_offset = self.open.pop(producer, marker_offset if self.lists_empty else None)
            if first_offset is not None:
                assert first_offset <= marker_offset
                ended = EndedTransaction(producer, first_offset, marker_offset, stamp.marker == "abort")
                self.ended.append(ended)
        elif stamp.is_transactional:
            self.open.setdefault(producer, batch.base_offset)
        self.entries[producer] = after_append(entry, stamp, batch.records, batch.base_offset, batch.max_timestamp_ms)

    def expire(self, until_ms: int) -> int:
        """Forget producers without a transaction whose last batch has this timestamp or an older one; return how many.

        Batches without a timestamp are those of simulated producers, who never end
        (ProducerStateManager.removeExpiredProducers).
        """
        old = [
            producer
            for producer, entry in self.entries.items()
            if not entry.is_in_transaction and 0 <= entry.timestamp_ms <= until_ms
        ]
        for producer in old:
            del self.entries[producer]
        return len(old)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where the first transaction begins that is open, or has a marker that is not committed yet."""
        first = next(iter(self.open.values()), None)
        for ended in reversed(self.ended):
            if ended.last_offset < high_watermark:
                break
            first = ended.first_offset if first is None else min(first, ended.first_offset)
        return first

    def aborted_between(self, start: int, end: int) -> list[EndedTransaction]:
        """Return the aborted transactions with records or the marker from `start` up to, not including, `end`."""
        assert start <= end
        since = bisect_left(self.ended, start, key=attrgetter("last_offset"))
        return [one for one in self.ended[since:] if one.is_aborted and one.first_offset < end]

    def forget_ended(self, transactions: frozenset[EndedTransaction]) -> None:
        """Forget aborted transactions of which compaction has removed all records."""
        self.ended = [one for one in self.ended if one not in transactions]

    def check(self) -> None:
        """Assert every invariant."""
        opened = {producer: entry.transaction_from for producer, entry in self.entries.items()}
        assert self.open == {producer: first for producer, first in opened.items() if first is not None}
        assert list(self.open.values()) == sorted(self.open.values())
        ends = [one.last_offset for one in self.ended]
        assert ends == sorted(set(ends)), f"markers at {ends}"
