"""Segments, retention and compaction of logs: properties that hold for any records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.log.batches import NewBatch
from simzk.kafka.log.compaction import DirtyPart, compact, dirty_part
from simzk.kafka.log.log import Log
from simzk.kafka.log.record_batches import (
    GZIP,
    BatchProducer,
    Record,
    decode_entry,
    delete_horizon_ms,
    encode_batch,
    encode_marker,
    encode_messages,
    new_batches,
    stamped,
)
from simzk.kafka.log.segments import LogConfig, Segment, count_expired
from simzk.kafka.releases.versions import kafka_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.log.batches import RecordBatch

LINES = ("0.10.2", "0.11", "2.2.0", "2.4", "3.9")
CONFIG = LogConfig(segment_bytes=400, compacts=True, min_cleanable_ratio=0.01, delete_retention_ms=100)
OPEN, COMMIT, ABORT = "open", "commit", "abort"


class Step(NamedTuple):
    """A batch of a producer, or the end of its transaction."""

    records: tuple[tuple[int, int | None], ...]
    producer: int | None
    end: str


RECORDS = st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 9)), min_size=1, max_size=3).map(tuple)
STEPS = st.lists(
    st.builds(Step, RECORDS, st.none() | st.integers(1, 3), st.sampled_from((OPEN, OPEN, COMMIT, ABORT))),
    min_size=1,
    max_size=20,
)


class Filled:
    """A log that steps fill, with the records that a consumer of committed ones would get."""

    def __init__(self, line: str) -> None:
        self.log = Log()
        self.rules = kafka_version(line).log
        self.magic = kafka_version(line).api.batch_magic
        self._sequences: dict[int, int] = {}

    def fill(self, steps: Sequence[Step], now_ms: int) -> None:
        """Append batches and markers."""
        for records, producer, end in steps:
            found = [
                Record(b"%d" % key, None if value is None else b"%d" % value * 9, (), now_ms, number)
                for number, (key, value) in enumerate(records)
            ]
            if self.magic < 2:
                self._append(encode_messages(found, self.magic, GZIP if end == ABORT else 0), now_ms)
                continue
            if producer is None:
                self._append(encode_batch(found, codec=GZIP if end == ABORT else 0), now_ms)
                continue
            sequence = self._sequences.get(producer, 0)
            self._sequences[producer] = sequence + len(found)
            stamp = BatchProducer(producer, 0, sequence)
            self._append(encode_batch(found, producer=stamp, is_transactional=True), now_ms)
            if end != OPEN:
                self.end(producer, now_ms, is_commit=end == COMMIT)

    def end(self, producer: int, now_ms: int, *, is_commit: bool) -> None:
        """Write a marker."""
        stamp = BatchProducer(producer, 0)
        self._append(encode_marker(stamp, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=now_ms), now_ms)

    def _append(self, data: bytes, now_ms: int) -> None:
        batches = new_batches(data)
        self.log.make_room(batches, CONFIG, now_ms)
        for records, payload, producer, _ in batches:
            assert payload is not None
            placed = stamped(payload, self.log.end, records, 0)
            self.log.append(records, leader_epoch=0, identity=self.log.end, payload=placed, producer=producer)
        self.log.set_high_watermark(self.log.end)
        self.log.check()

    def compact(self, now_ms: int) -> bool:
        """Compact the log; return whether there was anything to do."""
        dirty = dirty_part(self.log, CONFIG, self.rules, now_ms)
        if not dirty.is_due(CONFIG):
            return False
        self.log.replace_compacted(compact(self.log, dirty, CONFIG, self.rules, now_ms))
        assert self.log.compacted_to == dirty.end
        self.log.check()
        return True

    def committed(self) -> list[Record]:
        """Return what a consumer of committed records gets, who reads one batch after the other."""
        limit, found = self.log.last_stable_offset, list[Record]()
        for batch in self.log.batches:
            stamp = batch.producer
            if batch.next_offset > limit or (stamp is not None and stamp.marker is not None):
                continue
            aborted = self.log.aborted_transactions(batch.base_offset, batch.next_offset)
            if stamp is None or not any(
                one.producer_id == stamp.producer_id and one.first_offset <= batch.base_offset < one.last_offset
                for one in aborted
            ):
                found += records_of(batch)
        return found


def records_of(batch: RecordBatch) -> list[Record]:
    """Return the records of a batch."""
    assert batch.payload is not None
    return decode_entry(batch.payload)


def table(records: Sequence[Record]) -> dict[bytes, bytes]:
    """Return what a reader makes of records: the last value of each key, none after a tombstone."""
    found: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        found.pop(record.key, None)
        if record.value is not None:
            found[record.key] = record.value
    return found


@pytest.mark.parametrize("line", LINES)
@given(rounds=st.lists(STEPS, min_size=1, max_size=3), pause_ms=st.sampled_from((1, 1000)))
def test_compaction_keeps_the_last_value_of_each_key(line: str, rounds: list[list[Step]], pause_ms: int) -> None:
    """What a reader makes of the log stays, every record that stays has its offset, and nothing comes back."""
    filled, now_ms = Filled(line), 1_000
    for steps in rounds:
        filled.fill(steps, now_ms)
        now_ms += pause_ms
        before, end, ends = filled.committed(), filled.log.end, filled.log.last_stable_offset
        while filled.compact(now_ms):
            after = filled.committed()
            assert table(after) == table(before)
            assert set(after) <= set(before)
            assert [record.offset for record in after] == sorted({record.offset for record in after})
            assert (filled.log.end, filled.log.last_stable_offset) == (end, ends)
            before = after


@pytest.mark.parametrize("line", LINES[1:])
def test_an_aborted_transaction_that_begins_in_the_clean_part_hides_no_value(line: str) -> None:
    filled, filler = Filled(line), Step(((2, 1), (2, 2), (3, 3)), None, OPEN)
    filled.fill([Step(((1, 5),), None, OPEN), Step(((0, 1),), 1, OPEN)], 1_000)
    begun = len(filled.log.segments)
    while len(filled.log.segments) == begun:
        filled.fill([filler], 1_000)
    filled.fill([Step(((1, 9),), 1, ABORT)], 1_000)
    assert filled.compact(1_001)
    begun = len(filled.log.segments)
    while len(filled.log.segments) == begun:
        filled.fill([filler], 1_002)
    assert filled.compact(1_003)
    assert table(filled.committed())[b"1"] == b"5" * 9


def test_a_tombstone_keeps_the_time_of_its_first_compaction() -> None:
    """Delete it `delete.retention.ms` after the first compaction, however many come between (KIP-534)."""
    filled, filler = Filled("3.9"), Step(((2, 1), (2, 2), (3, 3)), None, OPEN)
    filled.fill([Step(((1, 5),), None, OPEN), Step(((1, None),), None, OPEN)], 1_000)
    left: list[bool] = []
    for now_ms in (1_000, 1_060, 1_120):
        begun = len(filled.log.segments)
        while len(filled.log.segments) == begun:
            filled.fill([filler], now_ms)
        assert filled.compact(now_ms)
        left.append(any(record.key == b"1" for batch in filled.log.batches for record in records_of(batch)))
    assert left == [True, True, False]


@pytest.mark.parametrize("line", LINES)
@given(steps=STEPS, later=STEPS)
def test_producers_go_on_after_a_compaction(line: str, steps: list[Step], later: list[Step]) -> None:
    """The state of producers that follows from what is left equals the one in memory, as far as sequences go."""
    filled = Filled(line)
    filled.fill(steps, 1_000)
    while filled.compact(5_000):
        pass
    if filled.log.producers is not None:
        known = {producer: entry.last_sequence for producer, entry in filled.log.producers.entries.items()}
        again = type(filled.log.producers)(filled.log.batches)
        assert {producer: entry.last_sequence for producer, entry in again.entries.items()} == known
    filled.fill(later, 6_000)
    filled.log.check()


@given(st.lists(st.integers(1, 700), min_size=1, max_size=30), st.integers(200, 600))
def test_a_segment_is_not_larger_than_its_limit(sizes: list[int], limit: int) -> None:
    log, config = Log(), LogConfig(segment_bytes=limit)
    for number, size in enumerate(sizes):
        payload = encode_batch([Record(b"k", bytes(size))], base_offset=log.end)
        log.make_room([NewBatch(1, payload)], config, now_ms=number)
        log.append(1, leader_epoch=0, identity=number, payload=payload)
        log.check()
    for segment, begins in zip(log.segments, [*(one.base_offset for one in log.segments[1:]), log.end], strict=True):
        batches = log.batches_of(segment, begins)
        assert segment.size_bytes == sum(batch.size_bytes for batch in batches)
        assert len(batches) == 1 or segment.size_bytes <= limit


SEGMENTS = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), min_size=1, max_size=8)


@given(SEGMENTS, st.integers(-1, 25), st.integers(-1, 200), st.integers(0, 8))
def test_retention_deletes_the_first_segments(
    made: list[tuple[int, int]], retention_ms: int, retention_bytes: int, committed: int
) -> None:
    """Each deleted segment is too old, or the rest is still large enough; the next one is neither, or not committed."""
    segments = [Segment(at, 0, ms, size, ms, ms) for at, (size, ms) in enumerate(made)]
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    watermark, now_ms = min(committed, len(segments)), 20

    def may_go(place: int) -> bool:
        rest = sum(segment.size_bytes for segment in segments[place + 1 :])
        is_old = retention_ms >= 0 and now_ms - segments[place].largest_ms > retention_ms
        return watermark > place and (is_old or 0 <= retention_bytes <= rest)

    count = count_expired(segments, len(segments), watermark, config, kafka_version("3.9").log, now_ms)
    assert all(may_go(place) for place in range(count))
    assert count == len(segments) or not may_go(count)
    kept = config._replace(deletes=False)
    assert count_expired(segments, len(segments), watermark, kept, kafka_version("3.9").log, now_ms) == 0


def test_power_loss_keeps_full_segments() -> None:
    log = Log()
    for number in range(3):
        payload = encode_batch([Record(b"k", bytes(200))], base_offset=log.end)
        log.make_room([NewBatch(1, payload)], LogConfig(segment_bytes=300), now_ms=number)
        log.append(1, leader_epoch=0, identity=number, payload=payload)
    assert log.flushed == 2
    assert log.lose_unflushed() == 1
    log.check()


def left_by_cleaner(filled: Filled, dirty: DirtyPart, now_ms: int) -> tuple[list[tuple[int, list[int]]], set[int]]:
    """Return what LogCleaner of 3.9 leaves: base offset and offsets of the records of each batch, and the index.

    The index is that of aborted transactions, by the offsets of their markers.

    Read the log from its start, as Cleaner.cleanInto does with CleanedTransactionMetadata: a marker may go when no
    batch of its transaction is left, and the last batch of a producer stays without records.
    """
    batches = filled.log.batches
    aborted: set[int] = set()
    has_batches: dict[int, bool] = {}  # whether the transaction of a marker has batches, by the offset of the marker
    begun: dict[int, list[int]] = {}
    last_of: dict[int, int] = {}
    for batch in batches:
        stamp = batch.producer
        if stamp is None:
            continue
        if stamp.marker is None:
            begun.setdefault(stamp.producer_id, []).append(batch.base_offset)
            last_of[stamp.producer_id] = batch.base_offset
        else:
            ended = begun.pop(stamp.producer_id, [])
            has_batches[batch.base_offset] = bool(ended)
            if stamp.marker == "abort":
                aborted.update(ended)
    newest: dict[bytes | None, int] = {}
    for batch in batches:
        if batch.next_offset <= dirty.end and batch.base_offset not in aborted | has_batches.keys():
            newest.update({one.key: one.offset for one in records_of(batch) if one.offset >= dirty.start})
    left = []
    index: set[int] = set()
    for batch in batches:
        stamp = batch.producer
        is_abort = stamp is not None and stamp.marker == "abort"
        if batch.base_offset >= dirty.end:
            index |= {batch.base_offset} if is_abort else set()
            continue
        records = records_of(batch)
        assert batch.payload is not None
        horizon_ms = delete_horizon_ms(batch.payload)
        keeps_deletes = horizon_ms is None or now_ms < horizon_ms
        if batch.base_offset in aborted:
            offsets = []
        elif batch.base_offset in has_batches:
            is_kept = (has_batches[batch.base_offset] and bool(records)) or keeps_deletes
            offsets = [one.offset for one in records if is_kept]
            index |= {batch.base_offset} if is_abort and has_batches[batch.base_offset] and records else set()
        else:
            offsets = [
                one.offset
                for one in records
                if one.offset >= newest.get(one.key, -1) and (one.value is not None or keeps_deletes)
            ]
        if offsets or batch.base_offset in last_of.values():
            left.append((batch.base_offset, offsets))
    return left, index


@given(rounds=st.lists(STEPS, min_size=1, max_size=3), pause_ms=st.sampled_from((1, 100, 1000)))
def test_compaction_leaves_what_the_cleaner_leaves(rounds: list[list[Step]], pause_ms: int) -> None:
    """Compare each batch and record, and the sizes and times of the segments (Cleaner.cleanSegments)."""
    filled, now_ms = Filled("3.9"), 1_000
    for steps in rounds:
        filled.fill(steps, now_ms)
        now_ms += pause_ms
        log = filled.log
        dirty = dirty_part(log, CONFIG, filled.rules, now_ms)
        if not dirty.is_due(CONFIG):
            continue
        expected, index = left_by_cleaner(filled, dirty, now_ms)
        later = [batch for batch in log.batches if batch.base_offset >= dirty.end]
        modified = {one.base_offset: one.modified_ms for one in log.segments}
        assert filled.compact(now_ms)
        found = [batch for batch in log.batches if batch.base_offset < dirty.end]
        assert [(one.base_offset, [record.offset for record in records_of(one)]) for one in found] == expected
        assert [batch for batch in log.batches if batch.base_offset >= dirty.end] == later
        ends = [*(one.base_offset for one in log.segments[1:]), log.end]
        for segment, end in zip(log.segments, ends, strict=True):
            assert segment.size_bytes == sum(one.size_bytes for one in log.batches_of(segment, end))
            assert segment.modified_ms == max(
                at for base, at in modified.items() if segment.base_offset <= base < end or base == segment.base_offset
            )
        assert log.flushed >= dirty.end
        ended = [] if log.producers is None else log.producers.ended
        assert {one.last_offset for one in ended if one.is_aborted} == index


def test_a_log_is_compacted_when_more_than_its_ratio_is_dirty() -> None:
    """LogCleanerManager.grabFilthiestCompactedLog: nothing dirty is never due, overdue records are at once."""
    config = LogConfig(min_cleanable_ratio=0.5)
    for clean, dirty, is_overdue, is_due in (
        (50, 50, False, False),
        (50, 51, False, True),
        (99, 1, True, True),
        (50, 0, True, False),
        (0, 0, False, False),
    ):
        part = DirtyPart(0, 9, clean, dirty, is_overdue)
        assert part.is_due(config) == is_due
        assert part.ratio == (dirty / (clean + dirty) if dirty else 0)
    assert not DirtyPart(0, 9, 0, 0, is_overdue=False).is_due(LogConfig(min_cleanable_ratio=-1))


@pytest.mark.parametrize(("lag_ms", "end"), [(0, 6), (70, 6), (71, 4), (80, 4), (81, 2), (90, 2), (91, 0)])
def test_records_younger_than_the_lag_are_not_compacted(lag_ms: int, end: int) -> None:
    """LogCleanerManager.cleanableOffsets: the first segment with a largest timestamp after now less the lag."""
    log = Log()
    for number in range(4):
        for _ in range(2):
            payload = encode_batch([Record(b"k", b"v", (), 10 + 10 * number)], base_offset=log.end)
            log.make_room([NewBatch(1, payload)], CONFIG, 10 + 10 * number)
            log.append(1, leader_epoch=0, identity=log.end, payload=payload)
        log.roll(10 + 10 * number)
    log.set_high_watermark(log.end)
    log.segments = log.segments[:-1]
    config = CONFIG._replace(min_compaction_lag_ms=lag_ms)
    found = dirty_part(log, config, kafka_version("3.9").log, now_ms=100)
    assert (found.end, found.dirty_bytes > 0) == (end, end > 0)
