"""Compaction of a log: which part of it is compacted, and what is left of its records.

Rules of this module (LogCleaner, LogCleanerManager, MemoryRecords.filterTo; docs/reference/kafka.md §2.21):
  - the part that was compacted before is clean, the rest up to the first segment that may not be compacted is dirty.
    The active segment may not, nor one with an open transaction (0.11 and later), with records beyond the high
    watermark (3.1 and later), or with a timestamp that is younger than `min.compaction.lag.ms`;
  - a log is compacted if its dirty part is more than `min.cleanable.dirty.ratio` of both, by bytes; or at once, if the
    first records of a dirty segment are older than `max.compaction.lag.ms` (2.3 and later);
  - of the records with one key only the last one before the end of the dirty part is left, with its offset. Records
    without a key go, and those of aborted transactions;
  - a tombstone, a record without a value, goes later. So does the marker of a transaction without records. In batches,
    from 3.1 on, the first compaction writes a time into the batch, after `delete.retention.ms`, and a compaction after
    this time deletes them. Otherwise those go whose segment was last appended to `delete.retention.ms` before the last
    clean one was, or earlier;
  - a batch of which records are left has its first and last offset, sequence numbers and leader epoch as before. The
    last batch of a producer stays without records, so that the next sequence number stays known;
  - neighbouring segments become one, as far as they are not larger than `segment.bytes` together.
Compressed batches whose codec is not installed stay as they are; a real broker has all codecs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.log.producer_state import last_sequence
from simzk.kafka.log.record_batches import (
    NEWEST,
    NO_SEQUENCE,
    RecordDataError,
    decode_entry,
    delete_horizon_ms,
    emptied,
    entry_header,
    with_records,
)
from simzk.kafka.log.segments import AppendedSet, Compacted, LogConfig, Segment, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simzk.kafka.log.batches import RecordBatch
    from simzk.kafka.log.log import Log
    from simzk.kafka.log.producer_state import EndedTransaction, ProducerEntry
    from simzk.kafka.log.record_batches import Record
    from simzk.kafka.releases.profile import LogRules

NOT_FOUND = -1
"""Offset of a key without a record in the dirty part."""


class DirtyPart(NamedTuple):
    """Part of a log that can be compacted.

    Args:
        start, end: its first offset, and the offset after it.
        clean_bytes: size of the segments before.
        dirty_bytes: its own size.
        is_overdue: whether it is to be compacted at once.
    """

    start: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """How much of the log up to its end is dirty; 0 for an empty log."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Return whether it is to be compacted (LogCleanerManager.grabFilthiestCompactedLog).

        >>> [DirtyPart(0, 9, 50, dirty, is_overdue=False).is_due(LogConfig()) for dirty in (50, 51)]
        [False, True]
        >>> DirtyPart(0, 9, 50, 1, is_overdue=True).is_due(LogConfig())
        True
        """
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_ratio)


def dirty_part(log: Log, config: LogConfig, rules: LogRules, now_ms: int) -> DirtyPart:
    """Return the part of a log with segments that can be compacted, maybe an empty one.

    >>> from simzk.kafka.log.log import Log
    >>> from simzk.kafka.releases.versions import kafka_version
    >>> log = Log()
    >>> log.segments = [Segment(base, 1, 1, size_bytes=size) for base, size in ((0, 70), (4, 30), (9, 9))]
    >>> log.end = log.high_watermark = 10
    >>> dirty_part(log, LogConfig(), kafka_version("3.9").log, now_ms=5)
    DirtyPart(start=0, end=9, clean_bytes=0, dirty_bytes=100, is_overdue=False)
    >>> log.compacted_to = 4
    >>> dirty_part(log, LogConfig(), kafka_version("3.9").log, now_ms=5).ratio
    0.3
    """
    segments, active = log.segments, log.segments[-1]
    start = log.start if log.compacted_to is None else max(log.start, log.compacted_to)
    inactive = segments[place_of(segments, start) : -1]
    limits = [active.base_offset]
    if rules.compaction_stops_at == "last stable offset":
        limits.append(log.last_stable_offset)
    elif rules.compaction_stops_at == "open transaction" and log.producers is not None:
        unstable = log.producers.first_unstable_offset(log.high_watermark)
        limits += [] if unstable is None else [unstable]
    if config.min_compaction_lag_ms > 0:
        oldest_kept_ms = now_ms - config.min_compaction_lag_ms
        limits += [one.base_offset for one in inactive if one.dated_ms(by_timestamps=True) > oldest_kept_ms]
    end = segments[place_of(segments, max(start, min(limits)))].base_offset
    dirty = [one for one in inactive if one.base_offset < end]
    oldest_ms = min((one.first_ms for one in inactive if one.first_ms > 0), default=now_ms)
    return DirtyPart(
        start,
        end if dirty else start,
        sum(one.size_bytes for one in segments if one.base_offset < start),
        sum(one.size_bytes for one in dirty),
        rules.has_max_compaction_lag and oldest_ms < now_ms - config.max_compaction_lag_ms,
    )


# -- what is left


def compact(log: Log, dirty: DirtyPart, config: LogConfig, rules: LogRules, now_ms: int) -> Compacted:
    """Return what is left of a log up to the end of its dirty part (Cleaner.doClean).

    Args:
        log: the log.
        dirty: its dirty part, which is not empty.
        config, rules: what is left.
        now_ms: the present time.
    """
    assert dirty.dirty_bytes > 0, "there is nothing to compact"
    bounds = [segment.base_offset for segment in log.segments]
    old = [one for one in log.segments if one.base_offset < dirty.end]
    ends = bounds[1 : len(old) + 1]
    contents = [log.batches_of(segment, end) for segment, end in zip(old, ends, strict=True)]
    ended = () if log.producers is None else log.producers.ended
    aborted = [one for one in ended if one.is_aborted and one.first_offset < dirty.end]
    entries = {} if log.producers is None else log.producers.entries
    first_dirty = place_of(old, dirty.start)
    later = [one for one in aborted if one.last_offset >= dirty.start]
    newest = _newest_offsets(contents[first_dirty:], dirty.start, later)
    clean = [one for one in old if one.base_offset < dirty.start]
    horizon_ms = clean[-1].modified_ms - config.delete_retention_ms if clean else 0
    compactor = _Compactor(newest, rules, config.delete_retention_ms, now_ms, entries)
    compactor.transactions.restart(aborted)
    segments: list[Segment] = []
    batches: list[RecordBatch] = []
    group_bytes = index_bytes = 0
    for segment, content in zip(old, contents, strict=True):
        group_bytes, index_bytes = group_bytes + segment.size_bytes, index_bytes + segment.index_bytes
        if not segments or group_bytes > config.segment_bytes or index_bytes > config.segment_index_bytes:
            segments.append(Segment(segment.base_offset, segment.created_ms, segment.modified_ms))
            group_bytes, index_bytes = segment.size_bytes, segment.index_bytes
        if not rules.follows_transactions_across_segments:
            compactor.transactions.restart([one for one in aborted if one.last_offset >= segment.base_offset])
        kept = list(compactor.kept(content, keeps_deletes=segment.modified_ms > horizon_ms))
        for batch in kept:
            added = AppendedSet(batch.size_bytes, batch.max_timestamp_ms, batch.next_offset - 1)
            segments[-1].add(added, config, segment.modified_ms)
        segments[-1].modified_ms = segment.modified_ms
        batches += kept
    forgotten = frozenset(one for one in aborted if one.last_offset < dirty.end) - compactor.transactions.kept
    return Compacted(dirty.end, segments, batches, forgotten)


def _newest_offsets(
    contents: Iterable[Iterable[RecordBatch]], start: int, aborted: Sequence[EndedTransaction]
) -> dict[bytes, int]:
    """Return the offset of the last record of each key from an offset on (Cleaner.buildOffsetMap)."""
    transactions, newest = _Transactions(), dict[bytes, int]()
    transactions.restart(aborted)
    for batch in chain.from_iterable(contents):
        if transactions.discards(batch) or (batch.producer is not None and batch.producer.marker is not None):
            continue
        for record in _records_of(batch) or ():
            if record.key is not None and record.offset >= start:
                newest[record.key] = record.offset
    return newest


def _records_of(batch: RecordBatch) -> list[Record] | None:
    """Return the records of a batch; None if its codec is not installed, or they have no content."""
    try:
        return None if batch.payload is None else decode_entry(batch.payload)
    except RecordDataError:
        return None


@dataclass(eq=False)
class _Transactions:
    """Transactions of a log that is read from its start: whose records and markers are left out.

    Attributes:
        kept: aborted transactions of which there still are batches.
    """

    kept: set[EndedTransaction] = field(default_factory=set, init=False)
    _waiting: deque[EndedTransaction] = field(default_factory=deque, init=False)
    # By producer id, with whether a batch of the transaction was read.
    _aborting: dict[int, tuple[EndedTransaction, bool]] = field(default_factory=dict, init=False)
    _committing: set[int] = field(default_factory=set, init=False)

    def restart(self, aborted: Iterable[EndedTransaction]) -> None:
        """Read from another place on, with the aborted transactions from there on."""
        self._waiting = deque(sorted(aborted, key=attrgetter("first_offset")))
        self._aborting.clear()
        self._committing.clear()

    def discards(self, batch: RecordBatch) -> bool:
        """Return whether the records of a batch go, or those of a marker may (CleanedTransactionMetadata)."""
        stamp = batch.producer
        while self._waiting and self._waiting[0].first_offset < batch.next_offset:
            one = self._waiting.popleft()
            self._aborting.setdefault(one.producer_id, (one, False))
        if stamp is None or not stamp.is_transactional:
            return False
        producer = stamp.producer_id
        if stamp.marker is None:
            if producer in self._aborting:
                self._aborting[producer] = self._aborting[producer][0], True
                return True
            self._committing.add(producer)
            return False
        if batch.payload is None or not entry_header(batch.payload).records:
            return True
        if stamp.marker == "commit":
            is_empty = producer not in self._committing
            self._committing.discard(producer)
            return is_empty
        transaction, has_batches = self._aborting.pop(producer, (None, False))
        if transaction is not None and has_batches:
            self.kept.add(transaction)
        return not has_batches


@dataclass(eq=False)
class _Compactor:
    """Decisions about batches in one compaction of a log.

    Args:
        newest: by key, the offset of its last record in the dirty part.
        rules: rules of the release.
        delete_retention_ms: how long a tombstone stays after the first compaction.
        now_ms: the present time.
        entries: the producers of the log.

    Attributes:
        transactions: the transactions up to the batch that is next.
    """

    newest: Mapping[bytes, int]
    rules: LogRules
    delete_retention_ms: int
    now_ms: int
    entries: Mapping[int, ProducerEntry]
    transactions: _Transactions = field(default_factory=_Transactions, init=False)

    def kept(self, batches: Iterable[RecordBatch], *, keeps_deletes: bool) -> Iterator[RecordBatch]:
        """Yield what is left of the batches of a segment (Cleaner.cleanInto).

        Args:
            batches: the batches.
            keeps_deletes: whether tombstones and markers stay that have no time of their own.
        """
        for batch in batches:
            left = self._left(batch, keeps_deletes=keeps_deletes)
            if left is not None:
                yield left

    def _left(self, batch: RecordBatch, *, keeps_deletes: bool) -> RecordBatch | None:
        """Return what is left of a batch; None if nothing is."""
        is_discardable = self.transactions.discards(batch)
        records = _records_of(batch)
        if batch.payload is None or records is None:
            return batch
        header = entry_header(batch.payload)
        dated = self.rules.batches_have_delete_horizons and header.magic == NEWEST
        horizon_ms = delete_horizon_ms(batch.payload) if dated else None
        if dated:
            keeps_deletes = horizon_ms is None or self.now_ms < horizon_ms
        if is_discardable and not (header.is_control and keeps_deletes):
            left = []
        elif header.is_control:
            left = records
        else:
            left = [record for record in records if self._is_left(record, keeps_deletes=keeps_deletes)]
        if not left:
            return batch._replace(payload=emptied(batch.payload)) if self._is_last_of_producer(batch) else None
        has_deletes = any(record.value is None for record in left) or (is_discardable and header.is_control)
        if dated and has_deletes and horizon_ms is None:
            horizon_ms = self.now_ms + self.delete_retention_ms
        elif len(left) == len(records):
            return batch
        payload = with_records(batch.payload, left, horizon_ms)
        if header.magic == NEWEST:
            return batch._replace(payload=payload)
        first, last = left[0].offset, left[-1].offset
        return batch._replace(base_offset=first, records=last - first + 1, payload=payload)

    def _is_left(self, record: Record, *, keeps_deletes: bool) -> bool:
        """Return whether a record stays (Cleaner.shouldRetainRecord)."""
        if record.key is None:
            return False
        is_newest = record.offset >= self.newest.get(record.key, NOT_FOUND)
        return is_newest and (record.value is not None or keeps_deletes)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        """Return whether a batch has the last sequence number of its producer, or only its epoch."""
        stamp = batch.producer
        entry = None if stamp is None else self.entries.get(stamp.producer_id)
        if stamp is None or entry is None:
            return False
        if self.rules.keeps_last_batch_by == "sequence":
            last = NO_SEQUENCE if stamp.sequence < 0 else last_sequence(stamp.sequence, batch.records)
            return entry.last_sequence == last
        if entry.batches:
            return entry.batches[-1].last_offset == batch.next_offset - 1
        return stamp.marker is not None and stamp.epoch == entry.epoch
