"""A log: a sequence of record batches with a start, an end, a high watermark, and a part that is on disk.

Rules of this module (Log and LogSegment, later UnifiedLog and LocalLog; docs/reference/kafka.md §2.17):
  - offsets ascend; there may be gaps between batches, as after compaction or a truncation inside a batch;
  - a truncation removes every batch that reaches beyond the offset, and sets the log end offset to it;
  - the high watermark is at most the log end offset; a truncation below it lowers it;
  - the last stable offset is where the first open transaction begins, at most the high watermark. One whose marker is
    not committed yet counts as open;
  - a consumer of committed transactions gets those aborted ones that could have records in what it read. How far that
    is, the offset index says, which has an entry for every 4096 bytes; without a later entry it is the log end offset;
  - the state of idempotent producers follows from the batches, and is computed again after a truncation;
  - records with content are in segments (`segments`); those of simulated producers without it need none. The log start
    offset rises without a write: records before it stay on disk until their whole segment is deleted;
  - a read returns whole batches: at least one, and more up to the limit (KIP-74);
  - compaction removes records from segments before the active one (`compaction`);
  - what was appended is in the page cache. It is on disk once it was flushed: by Kafka, for instance when a segment is
    full, or later by the operating system. A process that is killed loses nothing of it, a machine without power all
    that was not flushed;
  - an empty log allocates nothing but itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from simzk.kafka.log.batches import NO_EPOCH, NewBatch, RecordBatch
from simzk.kafka.log.leader_epochs import EpochEnd, LeaderEpochCache
from simzk.kafka.log.producer_state import ProducerStates
from simzk.kafka.log.segments import NO_TIMESTAMP, AppendedSet, LogConfig, Segment, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.kafka.log.batches import ProducerStamp
    from simzk.kafka.log.producer_state import EndedTransaction
    from simzk.kafka.log.segments import Compacted

_NEXT_OFFSET = attrgetter("next_offset")
_TAIL = 4
"""Number of batches at the end of a log that are searched one by one."""
_INDEX_INTERVAL_BYTES = 4096
"""`index.interval.bytes`: about so many bytes of a log have one entry in its offset index."""
_BASE_OFFSET = attrgetter("base_offset")


@dataclass(slots=True, eq=False, repr=False)
class Log:
    """Log of one replica.

    Attributes:
        start: log start offset: records before it were deleted.
        end: log end offset, that of the next record.
        high_watermark: offset up to which records are committed.
        flushed: offset up to which records are on disk.
        epochs: the leader epoch cache.
        producers: state of the idempotent producers; None before the first one.
        segments: its segments, ascending; empty while it has no records with content.
        compacted_to: offset up to which it was compacted (`cleaner-offset-checkpoint`); None before the first time.
        topic_id: the id of its topic in `partition.metadata` (2.8 and later); None if it is not known.
        lists_empty_transactions: whether a marker without records is listed among aborted transactions (up to 2.7).

    >>> log = Log()
    >>> log.append(5, leader_epoch=0, identity=1).base_offset, log.append(3, leader_epoch=2, identity=2).base_offset
    (0, 5)
    >>> log.end, log.end_offset_for(1), [batch.identity for batch in log.read(5)]
    (8, EpochEnd(epoch=0, end_offset=5), [2])
    >>> log.truncate(5)
    3
    >>> log.end, log.epochs.latest
    (5, 0)
    """

    start: int = 0
    end: int = 0
    high_watermark: int = 0
    flushed: int = 0
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    producers: ProducerStates | None = None
    topic_id: str | None = None
    lists_empty_transactions: bool = False
    segments: Sequence[Segment] = ()
    compacted_to: int | None = None
    _batches: list[RecordBatch] = field(default_factory=list)
    # Bytes before the log start offset, in its segment.
    _deleted_bytes: int = 0
    # Log end offsets after appends that are not flushed, each with the time of the append.
    _unflushed: deque[tuple[int, int]] | None = None
    # Base offsets of batches of several records that this log got as they were sent, without compression.
    _as_sent: set[int] | None = None

    @property
    def batches(self) -> tuple[RecordBatch, ...]:
        """All batches, ascending."""
        return tuple(self._batches)

    @property
    def size_bytes(self) -> int:
        """Size of its segments on disk."""
        return self._deleted_bytes + sum(batch.size_bytes for batch in self._batches)

    @property
    def last_stable_offset(self) -> int:
        """Offset up to which transactions have ended: the high watermark while there are none."""
        unstable = None if self.producers is None else self.producers.first_unstable_offset(self.high_watermark)
        return self.high_watermark if unstable is None else min(self.high_watermark, max(unstable, self.start))

    @property
    def is_empty(self) -> bool:
        """Whether the log has no offsets."""
        return self.end == self.start

    # -- append and read

    def append(
        self,
        records: int,
        *,
        leader_epoch: int,
        identity: int,
        payload: bytes | None = None,
        producer: ProducerStamp | None = None,
        at_us: int = 0,
        is_as_sent: bool = False,
    ) -> RecordBatch:
        """Append records as leader, and return them as a batch with its base offset; see `RecordBatch`.

        The payload has the log end offset as its offset already.
        """
        batch = RecordBatch(self.end, records, leader_epoch, identity, payload, producer)
        self.append_fetched((batch,), at_us=at_us)
        if is_as_sent and records > 1:
            self._as_sent = self._as_sent or set()
            self._as_sent.add(batch.base_offset)
        return batch

    def was_sent(self, batch: RecordBatch) -> bool:
        """Return whether a producer sent a batch to this log as it is stored, without compression."""
        return batch.records == 1 or (self._as_sent is not None and batch.base_offset in self._as_sent)

    def append_fetched(self, batches: Iterable[RecordBatch], *, at_us: int = 0) -> None:
        """Append batches as follower, with the offsets and epochs that the leader assigned."""
        end_before = self.end
        for batch in batches:
            base_offset, records, leader_epoch, _, _, producer = batch
            assert records > 0, f"a batch of {records} records"
            assert base_offset >= self.end, f"offset {base_offset} is below the log end offset {self.end}"
            if leader_epoch != NO_EPOCH:
                self.epochs.assign(leader_epoch, base_offset)
            if producer is not None:
                if self.producers is None:
                    self.producers = ProducerStates(lists_empty=self.lists_empty_transactions)
                self.producers.append(batch)
            self._batches.append(batch)
            self.end = base_offset + records
        if self.end > end_before:
            if self._unflushed is None:
                self._unflushed = deque()
            self._unflushed.append((self.end, at_us))

    def read(
        self, offset: int, *, max_bytes: int | None = None, limit: int | None = None, is_cut: bool = False
    ) -> tuple[RecordBatch, ...]:
        """Return batches from the one on that contains an offset.

        Args:
            offset: the first offset.
            max_bytes: size of all batches together; the first one is returned whatever its size. None: no limit.
            limit: offset at which to stop, such as the high watermark for consumers. None: the log end offset.
            is_cut: whether the batch that does not fit is returned as the last one, for its beginning.
        """
        assert self.start <= offset <= self.end, f"offset {offset} is not in the log of {self.start} to {self.end}"
        end, batches = self.end if limit is None else limit, self._batches
        if not batches:
            return ()
        last = batches[-1]
        if last.base_offset <= offset:  # most reads are of the last batch
            next_offset = last.base_offset + last.records
            return (last,) if offset < next_offset <= end else ()
        found: list[RecordBatch] = []
        size_bytes = 0
        for place in range(_first_beyond(batches, offset), len(batches)):
            batch = batches[place]
            if batch.base_offset + batch.records > end:
                break
            if max_bytes is not None:
                if is_cut and found and size_bytes >= max_bytes:
                    break
                size_bytes += batch.size_bytes
                if not is_cut and found and size_bytes > max_bytes:
                    break
            found.append(batch)
        assert not found or found[0].next_offset > offset
        return tuple(found)

    def aborted_transactions(self, offset: int, end: int) -> list[EndedTransaction]:
        """Return the aborted transactions that a consumer learns of with the records that it reads.

        Args:
            offset: the first offset that it asked for.
            end: the offset after the last batch that it got, or got a part of.
        """
        assert self.start <= offset <= end <= self.end
        if self.producers is None or not self.producers.ended:
            return []
        return self.producers.aborted_between(offset, self._upper_bound(offset, end))

    def _upper_bound(self, offset: int, end: int) -> int:
        """Return the first entry of the offset index from `end` on, or the end of the segment (LogSegment.append)."""
        bytes_since_entry, until = 0, self.segment_end(offset)
        begins = {segment.base_offset for segment in self.segments}
        for batch in self._batches:
            if batch.base_offset >= until:
                break
            if batch.base_offset in begins:
                bytes_since_entry = 0
            if bytes_since_entry > _INDEX_INTERVAL_BYTES:
                if batch.base_offset >= end:
                    return batch.next_offset - 1
                bytes_since_entry = 0
            bytes_since_entry += batch.size_bytes
        return until

    # -- segments

    def make_room(
        self, batches: Sequence[NewBatch | RecordBatch], config: LogConfig, now_ms: int, *, by_timestamps: bool = True
    ) -> None:
        """Note batches that are to be appended together; begin a new segment if the active one is full (Log.maybeRoll).

        Args:
            batches: batches with content; those of a leader follow the log end offset.
            config: when a segment is full.
            now_ms: the present time.
            by_timestamps: whether the age of a segment follows from the timestamps of its records.
        """
        last, first, last_offset = batches[-1], batches[0], self.end - 1
        if isinstance(last, RecordBatch):
            last_offset = last.next_offset - 1
        else:
            last_offset += sum(batch.records for batch in batches)
        size_bytes = sum(len(batch.payload) for batch in batches if batch.payload is not None)
        added = AppendedSet(size_bytes, max(batch.max_timestamp_ms for batch in batches), last_offset)
        begins = max(self.end, first.base_offset) if isinstance(first, RecordBatch) else self.end
        if not self.segments:
            self.segments = [Segment(self.start, now_ms, now_ms)]
        if self.segments[-1].is_full(added, config, now_ms, by_timestamps=by_timestamps):
            self.roll(now_ms, begins)
        self.segments[-1].add(added, config, now_ms)

    def roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Begin a segment at the log end offset or later, and write those before it to disk."""
        base = self.end if base_offset is None else base_offset
        assert self.segments, "there is a segment before a new one"
        if base > self.segments[-1].base_offset:  # else the active one is empty, and stays
            self.segments = [*self.segments, Segment(base, now_ms, now_ms)]
            self._flush_to(self.end)

    def segment_end(self, offset: int) -> int:
        """Return where the segment ends from which a client reads an offset; at the end of one it is the next."""
        if len(self.segments) < 2:
            return self.end
        place = _first_beyond(self._batches, offset)
        if place == len(self._batches):
            return self.end
        after = place_of(self.segments, self._batches[place].base_offset) + 1
        return self.segments[after].base_offset if after < len(self.segments) else self.end

    def batches_of(self, segment: Segment, end: int) -> list[RecordBatch]:
        """Return the batches of a segment that ends, or the next of which begins, at an offset."""
        first = bisect_left(self._batches, segment.base_offset, key=_BASE_OFFSET)
        return self._batches[first : bisect_left(self._batches, end, key=_BASE_OFFSET)]

    def replace_compacted(self, compacted: Compacted) -> None:
        """Replace segments by compacted ones (Log.replaceSegments)."""
        end = compacted.end
        assert self.segments[-1].base_offset >= end, "the active segment is not compacted"
        later = [segment for segment in self.segments if segment.base_offset >= end]
        self.segments = [*compacted.segments, *later]
        self._batches = [*compacted.batches, *self._batches[bisect_left(self._batches, end, key=_BASE_OFFSET) :]]
        self._deleted_bytes = 0
        self.compacted_to = end
        if self.producers is not None:
            self.producers.forget_ended(compacted.forgotten)
        self._flush_to(end)

    def _restore_segments(self) -> None:
        """Forget the segments that were truncated, and read the batches of the last one again."""
        if not self.segments:
            return
        left = [segment for segment in self.segments if segment.base_offset <= self.end]
        last = left[-1]
        batches = self.batches_of(last, self.end)
        times = [batch.max_timestamp_ms for batch in batches]
        before = self._deleted_bytes if len(left) == 1 else 0
        restored = Segment(
            last.base_offset,
            last.created_ms,
            last.modified_ms,
            before + sum(batch.size_bytes for batch in batches),
            times[0] if times else NO_TIMESTAMP,
            max(times, default=NO_TIMESTAMP),
        )
        self.segments = [*left[:-1], restored]
        if self.compacted_to is not None:
            self.compacted_to = min(self.compacted_to, self.end)

    def is_readable(self, offset: int) -> bool:
        """Return whether an offset is in the log, or is its end."""
        return self.start <= offset <= self.end

    # -- offsets and epochs

    def set_high_watermark(self, offset: int) -> None:
        """Set the high watermark."""
        assert offset <= self.end, f"high watermark {offset} is beyond the log end offset {self.end}"
        self.high_watermark = offset

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """Return the largest cached leader epoch up to `epoch` and its end offset."""
        return self.epochs.end_offset_for(epoch, self.end)

    # -- truncation and deletion

    def truncate(self, offset: int) -> int:
        """Remove all records from an offset on; return how many offsets there were.

        An epoch without records goes, too, even if no record does: a leader that appended nothing may have noted it,
        and the log would differ from that of the next leader for ever (UnifiedLog.truncateTo; KAFKA-10706).
        """
        if offset >= self.end:
            if self.epochs.drops_empty:
                self.epochs.truncate_from_end(self.end)
            return 0
        removed = self.end - offset
        if offset < self.start:
            self.restart_at(offset)
            return removed
        del self._batches[bisect_right(self._batches, offset, key=_NEXT_OFFSET) :]
        self.end = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.flushed = min(self.flushed, offset)
        assert self.start <= self.end
        assert not self._batches or self._batches[-1].next_offset <= offset
        self.epochs.truncate_from_end(offset)
        self._restore_segments()
        if self._as_sent is not None:
            self._as_sent = {base for base in self._as_sent if base < offset}
        if self.producers is not None:
            self.producers = ProducerStates(self._batches, lists_empty=self.lists_empty_transactions)
        while self._unflushed and self._unflushed[-1][0] > offset:
            _, at_us = self._unflushed.pop()
            if self.flushed < offset and (not self._unflushed or self._unflushed[-1][0] < offset):
                self._unflushed.append((offset, at_us))
        return removed

    def restart_at(self, offset: int) -> None:
        """Remove all records and start with another offset (Log.truncateFullyAndStartAt)."""
        self._batches.clear()
        self._as_sent = None
        self._deleted_bytes = 0
        self._unflushed = self.compacted_to = None
        self.segments = ()
        self.producers = None
        self.epochs.clear()
        self.start = self.end = self.high_watermark = self.flushed = offset
        assert self.last_stable_offset == offset, "no transaction is left"

    def delete_before(self, offset: int) -> None:
        """Raise the log start offset; batches that end up to it are removed."""
        assert self.start <= offset <= self.high_watermark, f"start {offset} is beyond {self.high_watermark}"
        removed = bisect_right(self._batches, offset, key=_NEXT_OFFSET)
        over = place_of(self.segments, offset)
        if over:
            self._deleted_bytes = 0
            self.segments = self.segments[over:]
        first = self.segments[0].base_offset if self.segments else 0
        kept = (batch for batch in self._batches[:removed] if batch.base_offset >= first)
        self._deleted_bytes += sum(batch.size_bytes for batch in kept)
        self.start = offset
        del self._batches[:removed]
        self.epochs.truncate_from_start(offset)
        assert not self._batches or self._batches[0].next_offset > offset
        self._flush_to(offset)

    # -- the disk

    def flush(self) -> None:
        """Write all records to disk."""
        self.flushed = self.end
        self._unflushed = None

    def _flush_to(self, offset: int) -> None:
        """Note that the records up to an offset are on disk, or deleted."""
        self.flushed = max(self.flushed, offset)
        while self._unflushed and self._unflushed[0][0] <= offset:
            self._unflushed.popleft()

    def flush_older(self, than_us: int) -> None:
        """Write records to disk that were appended at a time or earlier."""
        while self._unflushed and self._unflushed[0][1] <= than_us:
            self.flushed = max(self.flushed, self._unflushed.popleft()[0])
        assert self.flushed <= self.end, f"{self.flushed} is on disk of a log up to {self.end}"

    def lose_unflushed(self) -> int:
        """Remove the records that are not on disk: the power was lost; return how many offsets there were."""
        assert self.start <= self.flushed <= self.end
        return self.truncate(self.flushed)

    def recover(self) -> None:
        """Prepare a log that a started process finds: an epoch without records is forgotten (Log's constructor)."""
        self.epochs.truncate_from_end(self.end)

    def check(self) -> None:
        """Assert every invariant."""
        assert 0 <= self.start <= self.end
        assert 0 <= self.high_watermark <= self.end
        assert 0 <= self.flushed <= self.end
        offset = 0
        for batch in self._batches:
            assert batch.records > 0
            assert batch.base_offset >= offset, f"{batch} overlaps offset {offset}"
            offset = batch.next_offset
        assert not self._batches or self._batches[0].next_offset > self.start
        assert offset <= self.end
        self.epochs.check()
        assert all(entry.start_offset <= self.end for entry in self.epochs.entries)
        bases = [segment.base_offset for segment in self.segments]
        assert bases == sorted(set(bases)), f"segments from {bases}"
        assert not bases or bases[0] <= self.start <= self.end >= bases[-1], f"segments from {bases}"
        # After a truncation it may be in the active segment (LogCleanerManager.maybeTruncateCheckpoint).
        assert self.compacted_to is None or not bases or self.compacted_to <= self.end
        if self.producers is not None:
            self.producers.check()
        marks = [mark for mark, _ in self._unflushed or ()]
        assert marks == sorted(set(marks)), f"unflushed appends end at {marks}"
        assert all(self.flushed < mark <= self.end for mark in marks)
        assert (marks[-1] if marks else self.flushed) == self.end or self.is_empty


def _first_beyond(batches: Sequence[RecordBatch], offset: int) -> int:
    """Return the place of the first batch that ends after an offset; most offsets are near the end of the log."""
    place = len(batches)
    least = max(0, place - _TAIL)
    while place > least:
        batch = batches[place - 1]
        if batch.base_offset + batch.records <= offset:
            break
        place -= 1
    return place if place > least else bisect_right(batches, offset, 0, least, key=_NEXT_OFFSET)


def first_difference(one: Log, other: Log, up_to: int, since: int = 0) -> int | None:
    """Return the first offset from `since` to `up_to` at which two logs have different records; None if they match.

    Only offsets that both logs contain are compared; batches that reach beyond `up_to` are left out.

    >>> one, other = Log(), Log()
    >>> for log in (one, other):
    ...     _ = log.append(5, leader_epoch=0, identity=1)
    >>> _ = one.append(1, leader_epoch=1, identity=2), other.append(1, leader_epoch=2, identity=3)
    >>> first_difference(one, other, up_to=5), first_difference(one, other, up_to=6)
    (None, 5)
    """
    start = max(one.start, other.start, since)
    up_to = min(up_to, one.end, other.end)
    if start >= up_to:
        return None
    if one._batches and other._batches:
        last = one._batches[-1]
        if last is other._batches[-1] and last.base_offset <= start:  # nearly always: logs of a cluster share batches
            return None
    ours, theirs = one.read(start, limit=up_to), other.read(start, limit=up_to)
    if ours == theirs:
        return None
    for left, right in zip(ours, theirs, strict=False):
        if left != right:
            return min(left.base_offset, right.base_offset)
    longer = max(ours, theirs, key=len)
    return longer[min(len(ours), len(theirs))].base_offset


def find_batch(log: Log, offset: int) -> RecordBatch | None:
    """Return the batch that contains an offset; None if the log has none there."""
    batches = log._batches
    if batches and (last := batches[-1]).base_offset <= offset:  # nearly always
        return last if offset < last.base_offset + last.records else None
    place = _first_beyond(batches, offset)
    if place == len(batches) or batches[place].base_offset > offset:
        return None
    assert offset < batches[place].next_offset
    return batches[place]
