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
  - the log start offset rises without a write: records before it stay on disk until their whole segment is deleted, and
    the last segment never is;
  - a read returns whole batches: at least one, and more up to the limit (KIP-74);
  - what was appended is in the page cache. It is on disk once it was flushed: by Kafka, or later by the operating
    system. A process that is killed loses nothing of it, a machine without power all that was not flushed;
  - an empty log allocates nothing but itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from simzk.kafka.log.batches import NO_EPOCH, RecordBatch
from simzk.kafka.log.leader_epochs import EpochEnd, LeaderEpochCache
from simzk.kafka.log.producer_state import ProducerStates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.kafka.log.batches import ProducerStamp
    from simzk.kafka.log.producer_state import EndedTransaction

_NEXT_OFFSET = attrgetter("next_offset")
_TAIL = 4
"""Number of batches at the end of a log that are searched one by one."""
_INDEX_INTERVAL_BYTES = 4096
"""`index.interval.bytes`: about so many bytes of a log have one entry in its offset index."""
_SEGMENT_MS = 7 * 24 * 3_600_000
"""`log.roll.hours`: seven days."""
_EMPTY = -2
"""Time of the first batch of a segment without batches."""


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
    _batches: list[RecordBatch] = field(default_factory=list)
    # Bytes before the log start offset, in its segment.
    _deleted_bytes: int = 0
    # Base offsets of the segments after the first one, and the time of the first batch of the last one.
    _segments: list[int] | None = None
    _segment_ms: int = _EMPTY
    # Log end offsets after appends that are not flushed, each with the time of the append.
    _unflushed: deque[tuple[int, int]] | None = None

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
    ) -> RecordBatch:
        """Append records as leader, and return them as a batch with its base offset; see `RecordBatch`.

        The payload has the log end offset as its offset already.
        """
        batch = RecordBatch(self.end, records, leader_epoch, identity, payload, producer)
        self.append_fetched((batch,), at_us=at_us)
        return batch

    def append_fetched(self, batches: Iterable[RecordBatch], *, at_us: int = 0) -> None:
        """Append batches as follower, with the offsets and epochs that the leader assigned."""
        end_before = self.end
        for batch in batches:
            assert batch.records > 0, f"a batch of {batch.records} records"
            assert batch.base_offset >= self.end, f"offset {batch.base_offset} is below the log end offset {self.end}"
            if batch.leader_epoch != NO_EPOCH:
                self.epochs.assign(batch.leader_epoch, batch.base_offset)
            if batch.producer is not None:
                if self.producers is None:
                    self.producers = ProducerStates(lists_empty=self.lists_empty_transactions)
                self.producers.append(batch)
            if batch.payload is not None:
                self._roll_if_due(batch)
            self._batches.append(batch)
            self.end = batch.next_offset
        if self.end > end_before:
            if self._unflushed is None:
                self._unflushed = deque()
            self._unflushed.append((self.end, at_us))

    def read(self, offset: int, *, max_bytes: int | None = None, limit: int | None = None) -> tuple[RecordBatch, ...]:
        """Return batches from the one on that contains an offset.

        Args:
            offset: the first offset.
            max_bytes: size of all batches together; the first one is returned whatever its size. None: no limit.
            limit: offset at which to stop, such as the high watermark for consumers. None: the log end offset.
        """
        assert self.start <= offset <= self.end, f"offset {offset} is not in the log of {self.start} to {self.end}"
        end = self.end if limit is None else limit
        found: list[RecordBatch] = []
        size_bytes = 0
        for place in range(_first_beyond(self._batches, offset), len(self._batches)):
            batch = self._batches[place]
            if batch.base_offset + batch.records > end:
                break
            if max_bytes is not None:
                size_bytes += batch.size_bytes
                if found and size_bytes > max_bytes:
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
        bytes_since_entry, begins, until = 0, self._segments or (), self.segment_end(offset)
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

    def _roll_if_due(self, batch: RecordBatch) -> None:
        """Begin a new segment with a batch if the present one is too old for it (LogSegment.shouldRoll)."""
        newest_ms = batch.max_timestamp_ms
        if self._segment_ms >= 0 and newest_ms - self._segment_ms > _SEGMENT_MS:
            self._segments = [*(self._segments or ()), batch.base_offset]
            self._segment_ms = _EMPTY
        if self._segment_ms == _EMPTY:
            self._segment_ms = newest_ms

    def segment_end(self, offset: int) -> int:
        """Return where the segment ends from which a client reads an offset; at the end of one it is the next."""
        for base in self._segments or ():
            place = _first_beyond(self._batches, offset)
            if base > offset and place < len(self._batches) and self._batches[place].base_offset < base:
                return base
        return self.end

    def _restore_segments(self) -> None:
        """Forget the segments that were truncated, and read the first batch of the last one again."""
        if self._segments is not None:
            self._segments = [base for base in self._segments if self.start < base < self.end] or None
        first = _first_beyond(self._batches, self._segments[-1] if self._segments else self.start)
        self._segment_ms = self._batches[first].max_timestamp_ms if first < len(self._batches) else _EMPTY

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
        self._deleted_bytes = 0
        self._unflushed = self._segments = None
        self._segment_ms = _EMPTY
        self.producers = None
        self.epochs.clear()
        self.start = self.end = self.high_watermark = self.flushed = offset
        assert self.last_stable_offset == offset, "no transaction is left"

    def delete_before(self, offset: int) -> None:
        """Raise the log start offset; batches that end up to it are removed."""
        assert self.start <= offset <= self.high_watermark, f"start {offset} is beyond {self.high_watermark}"
        removed = bisect_right(self._batches, offset, key=_NEXT_OFFSET)
        segment = max((base for base in self._segments or () if base <= offset), default=0)
        if segment > self.start:
            self._deleted_bytes = 0
        kept = (batch for batch in self._batches[:removed] if batch.base_offset >= segment)
        self._deleted_bytes += sum(batch.size_bytes for batch in kept)
        self.start = offset
        del self._batches[:removed]
        self.epochs.truncate_from_start(offset)
        assert not self._batches or self._batches[0].next_offset > offset
        self.flushed = max(self.flushed, offset)
        while self._unflushed and self._unflushed[0][0] <= offset:
            self._unflushed.popleft()

    # -- the disk

    def flush(self) -> None:
        """Write all records to disk."""
        self.flushed = self.end
        self._unflushed = None

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
        assert self._segments is None or self._segments == sorted(set(self._segments)), f"segments {self._segments}"
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
    place = _first_beyond(batches, offset)
    if place == len(batches) or batches[place].base_offset > offset:
        return None
    assert offset < batches[place].next_offset
    return batches[place]
