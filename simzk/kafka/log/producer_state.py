"""Idempotent producers: which batches a leader appends, answers as duplicates, or rejects; open transactions (KIP-98).

Rules of this module (ProducerAppendInfo, ProducerStateEntry, ProducerStateManager; recorded 0.11 to 3.9):
  - the batches of one producer id and epoch have consecutive sequence numbers, which wrap to 0 after 2^31 - 1;
  - a batch that is one of the last five (one in 0.11) of its producer is a duplicate: it is not appended, and the
    answer has the offset of the first time;
  - any other gap is OUT_OF_ORDER_SEQUENCE_NUMBER, as are older duplicates; an older epoch is INVALID_PRODUCER_EPOCH;
  - a new epoch starts with sequence 0;
  - a producer that the log does not know starts with 0 up to 2.4: else the error is OUT_OF_ORDER_SEQUENCE_NUMBER in
    0.11, and UNKNOWN_PRODUCER_ID up to 2.4 (KIP-360). Later releases accept any first sequence;
  - the state follows from the log alone: a follower, or a leader after a truncation, computes the same;
  - a transaction is open from its first batch to its marker. The last stable offset is where the first open one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.requests import Error

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
    def last_sequence(self) -> int:
        """The last sequence number of this epoch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1


class SequenceRules(NamedTuple):
    """Rules of sequence numbers that differ between releases.

    Args:
        kept: batches of a producer that are recognized as duplicates.
        unknown: error for a producer that the log does not know and that does not start with 0; NONE accepts it.
    """

    kept: int = KEPT
    unknown: Error = Error.NONE


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
    return (first + records - 1) & MAX_SEQUENCE


def check_sequence(
    entry: ProducerEntry | None, stamp: ProducerStamp, records: int, rules: SequenceRules = NEWEST_RULES
) -> KeptBatch | Error | None:
    """Return the batch that this one duplicates, the error that rejects it, or None if it is to be appended.

    Args:
        entry: the producer's state; None if the log does not know it.
        stamp: producer, epoch and first sequence number of the batch.
        records: number of records.
        rules: rules of the release.

    >>> from simzk.kafka.log.batches import ProducerStamp
    >>> first = ProducerStamp(7, 0, 0)
    >>> entry = after_append(None, first, records=2, first_offset=10)
    >>> check_sequence(entry, first, 2), check_sequence(entry, ProducerStamp(7, 0, 2), 1)
    (KeptBatch(first_sequence=0, last_sequence=1, first_offset=10, last_offset=11, timestamp_ms=-1), None)
    >>> check_sequence(entry, ProducerStamp(7, 0, 4), 1)
    <Error.OUT_OF_ORDER_SEQUENCE_NUMBER: 'OUT_OF_ORDER_SEQUENCE_NUMBER'>
    """
    first = stamp.sequence
    if entry is None:
        return rules.unknown if first and rules.unknown != Error.NONE else None
    if stamp.epoch < entry.epoch:
        return Error.INVALID_PRODUCER_EPOCH
    if stamp.epoch > entry.epoch:
        return Error.OUT_OF_ORDER_SEQUENCE_NUMBER if first else None
    last = last_sequence(first, records)
    for kept in entry.batches[-rules.kept :]:
        if (kept.first_sequence, kept.last_sequence) == (first, last):
            return kept
    expected = 0 if entry.last_sequence in (-1, MAX_SEQUENCE) else entry.last_sequence + 1
    return None if first == expected else Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def after_append(
    entry: ProducerEntry | None, stamp: ProducerStamp, records: int, first_offset: int, timestamp_ms: int = -1
) -> ProducerEntry:
    """Return the state of a producer after a batch, or after a transaction marker, was appended.

    Args:
        entry: the state before; None if the log did not know the producer.
        stamp: of the batch.
        records: number of records.
        first_offset: offset of the first one.
        timestamp_ms: the largest timestamp.
    """
    same_epoch = entry is not None and entry.epoch == stamp.epoch
    before = entry if entry is not None else ProducerEntry(stamp.epoch)
    kept = before.batches if same_epoch else ()
    if stamp.marker is not None:
        return ProducerEntry(stamp.epoch, kept, None, stamp.coordinator_epoch, timestamp_ms)
    added = KeptBatch(
        stamp.sequence,
        last_sequence(stamp.sequence, records),
        first_offset,
        first_offset + records - 1,
        timestamp_ms,
    )
    opened = before.transaction_from
    if stamp.is_transactional and opened is None:
        opened = first_offset
    return ProducerEntry(stamp.epoch, (*kept, added)[-KEPT:], opened, before.coordinator_epoch, timestamp_ms)


class ProducerStates:
    """Producers of one log, their open transactions, and those that have ended.

    Args:
        batches: the batches of the log; those without a producer are skipped.
    """

    __slots__ = ("ended", "entries")

    def __init__(self, batches: Iterable[RecordBatch] = ()) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.ended: list[EndedTransaction] = []
        for batch in batches:
            self.append(batch)

    def append(self, batch: RecordBatch) -> None:
        """Note a batch that was appended."""
        stamp = batch.producer
        if stamp is None:
            return
        producer, entry = stamp.producer_id, self.entries.get(stamp.producer_id)
        if stamp.marker is not None and entry is not None and entry.transaction_from is not None:
            last_offset = batch.next_offset - 1
            ended = EndedTransaction(producer, entry.transaction_from, last_offset, stamp.marker == "abort")
            self.ended.append(ended)
        self.entries[producer] = after_append(entry, stamp, batch.records, batch.base_offset, batch.max_timestamp_ms)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where the first transaction begins that is open, or has a marker that is not committed yet."""
        found = [one.transaction_from for one in self.entries.values() if one.transaction_from is not None]
        for ended in reversed(self.ended):
            if ended.last_offset < high_watermark:
                break
            found.append(ended.first_offset)
        return min(found, default=None)

    def aborted_between(self, start: int, end: int) -> list[EndedTransaction]:
        """Return the aborted transactions with records from `start` up to, not including, `end`."""
        return [one for one in self.ended if one.is_aborted and one.last_offset >= start and one.first_offset < end]
