"""Logs beside a slow model: a list of records, one entry for each offset."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from simzk.kafka.log.batches import NO_EPOCH, NewBatch, RecordBatch
from simzk.kafka.log.leader_epochs import UNDEFINED, EpochEnd, EpochStart, LeaderEpochCache
from simzk.kafka.log.log import Log, find_batch, first_difference
from simzk.kafka.log.record_batches import Record, encode_batch
from simzk.kafka.log.segments import LogConfig
from simzk.kafka.log.truncation import Truncation, truncation_after


@dataclass
class ListLog:
    """The model: batches as they were appended, and when, and the epoch of each record.

    Every question is answered by going through all of them. The epoch of a record that a truncation removed together
    with its batch, because the batch reached beyond the offset, stays known: the cache is truncated by offset.
    """

    start: int = 0
    end: int = 0
    flushed: int = 0
    batches: list[tuple[RecordBatch, int]] = field(default_factory=list)
    epoch_of: dict[int, int] = field(default_factory=dict)

    def append(self, batch: RecordBatch, at_us: int) -> None:
        self.batches.append((batch, at_us))
        self.epoch_of.update(dict.fromkeys(range(batch.base_offset, batch.next_offset), batch.leader_epoch))
        self.end = batch.next_offset

    def truncate(self, offset: int) -> None:
        self.batches = [(batch, at) for batch, at in self.batches if batch.next_offset <= offset]
        self.epoch_of = {where: epoch for where, epoch in self.epoch_of.items() if where < offset}
        self.end = offset
        self.flushed = min(self.flushed, offset)

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """Answer from the records alone, as KIP-279 puts it, for a log of which nothing was deleted."""
        epochs = list(self.epoch_of.values())
        if not epochs or epoch > epochs[-1] or epoch < 0:
            return UNDEFINED
        later = [offset for offset, one in self.epoch_of.items() if one > epoch]
        found = [one for one in epochs if one <= epoch]
        end = later[0] if later else self.end
        return EpochEnd(found[-1] if found else epoch, end)


class LogBesideList(RuleBasedStateMachine):
    """Appends, truncations, deletions, flushes and power losses on a log and on the model."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.model = ListLog()
        self.identity = 0
        self.epoch = 0
        self.now_us = 0

    @initialize(epoch=st.integers(0, 3))
    def first_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    @rule(count=st.integers(1, 4), newer=st.integers(0, 2))
    def append(self, count: int, newer: int) -> None:
        self.identity += 1
        self.epoch += newer
        batch = self.log.append(count, leader_epoch=self.epoch, identity=self.identity, at_us=self.now_us)
        assert batch.base_offset == self.model.end
        self.model.append(batch, self.now_us)

    @rule(gap=st.integers(0, 2), counts=st.lists(st.integers(1, 3), max_size=3))
    def append_fetched(self, gap: int, counts: list[int]) -> None:
        batches, offset = [], self.model.end + gap
        for count in counts:
            self.identity += 1
            batches.append(RecordBatch(offset, count, self.epoch, self.identity))
            offset += count
        self.log.append_fetched(batches, at_us=self.now_us)
        for batch in batches:
            self.model.append(batch, self.now_us)

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        offset = round(part * self.model.end)
        assert self.log.truncate(offset) == self.model.end - offset
        self.model.truncate(offset)

    @rule(part=st.floats(0, 1))
    def commit(self, part: float) -> None:
        self.log.set_high_watermark(round(part * self.model.end))

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.model.flushed = self.model.end

    @rule(after_us=st.integers(0, 3))
    def time_passes(self, after_us: int) -> None:
        self.now_us += after_us

    @rule(age_us=st.integers(0, 4))
    def power_off(self, age_us: int) -> None:
        old = [batch.next_offset for batch, at in self.model.batches if at <= self.now_us - age_us]
        self.log.flush_older(self.now_us - age_us)
        assert self.log.flushed >= max([self.model.flushed, *old])
        later = [batch.base_offset for batch, at in self.model.batches if at > self.now_us - age_us]
        assert self.log.flushed <= max(self.model.flushed, later[0] if later else self.model.end)
        self.model.flushed = self.log.flushed
        self.log.lose_unflushed()
        self.model.truncate(self.log.end)

    @invariant()
    def same_records(self) -> None:
        self.log.check()
        assert list(self.log.batches) == [batch for batch, _ in self.model.batches]
        assert (self.log.start, self.log.end, self.log.flushed) == (
            self.model.start,
            self.model.end,
            self.model.flushed,
        )
        assert self.log.last_stable_offset == self.log.high_watermark <= self.log.end

    @invariant()
    def same_epoch_ends(self) -> None:
        for epoch in range(-1, self.epoch + 2):
            assert self.log.end_offset_for(epoch) == self.model.end_offset_for(epoch), f"epoch {epoch}"

    @invariant()
    def same_reads(self) -> None:
        for offset in range(self.model.start, self.model.end + 1):
            expected = [batch for batch, _ in self.model.batches if batch.next_offset > offset]
            assert list(self.log.read(offset)) == expected
            containing = [batch for batch in expected if batch.base_offset <= offset]
            assert find_batch(self.log, offset) == (containing[0] if containing else None)


TestLogBesideList = LogBesideList.TestCase
TestLogBesideList.settings = settings(stateful_step_count=20)


@given(
    counts=st.lists(st.integers(1, 5), max_size=8),
    part=st.floats(0, 1),
    max_bytes=st.integers(0, 3000),
    limit=st.none() | st.integers(0, 40),
)
def test_a_read_returns_whole_batches_and_always_one(
    counts: list[int], part: float, max_bytes: int, limit: int | None
) -> None:
    log = Log()
    for identity, count in enumerate(counts):
        log.append(count, leader_epoch=0, identity=identity)
    offset = round(part * log.end)
    found = log.read(offset, max_bytes=max_bytes, limit=limit)
    everything = [batch for batch in log.read(offset) if limit is None or batch.next_offset <= limit]
    assert list(found) == everything[: len(found)]
    assert bool(found) == bool(everything)
    assert sum(batch.size_bytes for batch in found) <= max_bytes or len(found) == 1
    if len(found) < len(everything):
        assert sum(batch.size_bytes for batch in everything[: len(found) + 1]) > max_bytes
    # With the batch that is cut, the read is the shortest beginning that fills the limit.
    cut = log.read(offset, max_bytes=max_bytes, limit=limit, is_cut=True)
    sizes = [batch.size_bytes for batch in everything]
    filled = [count for count in range(1, len(sizes) + 1) if sum(sizes[:count]) >= max_bytes]
    assert list(cut) == everything[: min(filled, default=len(sizes))]


@given(
    shared=st.lists(st.integers(0, 2), max_size=5),
    ours=st.lists(st.integers(0, 3), max_size=5),
    theirs=st.lists(st.integers(0, 3), max_size=5),
)
def test_a_follower_that_asks_until_it_is_done_has_a_prefix_of_its_leader(
    shared: list[int], ours: list[int], theirs: list[int]
) -> None:
    """KIP-279: whatever epochs both logs went through alone, after the truncation one is the beginning of the other.

    Each list gives how much the leader epoch rises before a batch. Both leaders of an epoch never are the same broker:
    the leader's epochs are even, the follower's odd after the shared part.
    """
    leader, follower = Log(), Log()
    epoch = 0
    for identity, rise in enumerate(shared):
        epoch += 2 * rise
        for log in (leader, follower):
            log.append(2, leader_epoch=epoch, identity=identity)
    for log, rises, parity in ((leader, theirs, 2), (follower, ours, 1)):
        own = epoch + parity
        for identity, rise in enumerate(rises):
            own += 2 * rise
            log.append(1, leader_epoch=own, identity=100 * parity + identity)
    # The present leader epoch is above all others (KAFKA-7415).
    leader.epochs.assign(max(leader.epochs.latest, follower.epochs.latest) + 1, leader.end)
    for _ in range(20):
        if follower.epochs.latest == NO_EPOCH:
            follower.truncate(follower.high_watermark)
            break
        found = truncation_after(follower, leader.end_offset_for(follower.epochs.latest))
        follower.truncate(found.offset)
        if found.is_complete:
            break
    else:
        pytest.fail("the follower asks forever")
    follower.check()
    assert follower.end <= leader.end
    assert first_difference(leader, follower, follower.end) is None
    assert follower.end >= 2 * len(shared), "shared records were removed"


def log_of(*epochs: int) -> Log:
    """Return a log with one record of each leader epoch in turn; equal ones are equal records in all logs."""
    log = Log()
    for epoch in epochs:
        log.append(1, leader_epoch=epoch, identity=epoch)
    return log


def test_without_an_epoch_in_the_answer_logs_stay_different() -> None:
    """KAFKA-6361, the example of KIP-279: up to 1.1 the follower keeps a record that its leader does not have."""
    leader, follower = log_of(0, 2), log_of(0, 1)
    leader.epochs.resolves_conflicts = False
    asked = leader.end_offset_for(follower.epochs.latest)
    assert asked == EpochEnd(0, 1)
    assert truncation_after(follower, asked) == Truncation(1, is_complete=True)
    # The leader of epoch 2 has appended two records meanwhile, and the follower had two of epoch 1.
    leader, follower = log_of(0, 0, 3), log_of(0, 1, 2)
    asked = leader.end_offset_for(2)
    assert asked == EpochEnd(0, 2)
    assert truncation_after(follower, asked._replace(epoch=NO_EPOCH)) == Truncation(2, is_complete=True)
    assert truncation_after(follower, asked) == Truncation(1, is_complete=True)
    assert first_difference(leader, follower, 2) == 1


@pytest.mark.parametrize(
    ("epoch", "up_to_2_0_0", "later"),
    [
        (NO_EPOCH, UNDEFINED, UNDEFINED),
        (1, UNDEFINED, EpochEnd(1, 10)),
        (2, EpochEnd(2, 20), EpochEnd(2, 20)),
        (4, EpochEnd(2, 20), EpochEnd(2, 20)),
        (5, EpochEnd(5, 30), EpochEnd(5, 30)),
        (6, UNDEFINED, UNDEFINED),
    ],
)
def test_an_epoch_ends_where_the_release_says(epoch: int, up_to_2_0_0: EpochEnd, later: EpochEnd) -> None:
    """LeaderEpochFileCache.endOffsetFor of 2.0.0 and 2.0.1 (KAFKA-7415)."""
    for resolves, expected in ((False, up_to_2_0_0), (True, later)):
        cache = LeaderEpochCache(resolves_conflicts=resolves)
        cache.assign(2, 10)
        cache.assign(5, 20)
        assert cache.end_offset_for(epoch, log_end=30) == expected


def test_a_contradicting_epoch_is_ignored_or_replaces_what_it_contradicts() -> None:
    """LeaderEpochFileCache.assign of 2.0.0 and 2.0.1 (KAFKA-7415)."""
    for resolves, expected in ((False, [(2, 10), (5, 20)]), (True, [(2, 10), (4, 15)])):
        cache = LeaderEpochCache(resolves_conflicts=resolves)
        for epoch, offset in ((2, 10), (5, 20), (4, 15)):
            cache.assign(epoch, offset)
        assert list(cache.entries) == [EpochStart(*entry) for entry in expected]
        cache.check()


def test_deleted_records_take_their_epochs_with_them() -> None:
    log = log_of(0, 0, 1, 1, 3)
    log.set_high_watermark(5)
    log.delete_before(3)
    log.check()
    assert log.epochs.entries == (EpochStart(1, 3), EpochStart(3, 4))
    assert [batch.base_offset for batch in log.batches] == [3, 4]
    log.delete_before(5)
    log.check()
    assert log.is_empty
    assert list(log.epochs.entries) == [EpochStart(3, 5)]
    log.restart_at(9)
    log.check()
    assert [log.start, log.end, *log.epochs.entries] == [9, 9]


def test_deleted_records_stay_on_disk_with_their_segment() -> None:
    """A real broker deletes whole segments, and never the last one (recorded 1.1 to 3.9)."""
    log = Log()
    for number in range(4):
        day_ms = 24 * 3_600_000 * (8 if number > 1 else 0)
        payload = encode_batch([Record(b"k", b"v", (), day_ms + number)])
        log.make_room([NewBatch(1, payload)], LogConfig(), now_ms=0)
        log.append(1, leader_epoch=0, identity=number, payload=payload)
    log.set_high_watermark(4)
    size = log.size_bytes
    log.delete_before(1)
    assert log.size_bytes == size
    log.delete_before(3)
    assert log.size_bytes == size // 2, "the first segment is over"
    log.delete_before(4)
    assert (log.size_bytes, log.is_empty) == (size // 2, True)
    log.restart_at(9)
    assert log.size_bytes == 0


def test_a_truncation_inside_a_batch_removes_all_of_it() -> None:
    log = Log()
    log.append(4, leader_epoch=0, identity=1)
    log.append(4, leader_epoch=0, identity=2)
    assert log.truncate(6) == 2
    assert (log.end, [batch.identity for batch in log.batches]) == (6, [1])
    assert log.append(1, leader_epoch=0, identity=3).base_offset == 6
    assert [batch.base_offset for batch in log.read(4)] == [6]
    log.check()


def test_a_started_process_forgets_an_epoch_without_records() -> None:
    log = log_of(0)
    log.epochs.assign(1, 1)
    assert log.epochs.latest == 1
    log.recover()
    assert log.epochs.latest == 0


def test_what_an_impossible_append_or_high_watermark_says() -> None:
    log = log_of(0, 0)
    with pytest.raises(AssertionError, match="offset 1 is below the log end offset 2"):
        log.append_fetched([RecordBatch(1, 1, 0, 9)])
    with pytest.raises(AssertionError, match="high watermark 3 is beyond the log end offset 2"):
        log.set_high_watermark(3)
    with pytest.raises(AssertionError, match="offset 3 is not in the log of 0 to 2"):
        log.read(3)


def test_a_truncation_that_removes_nothing_removes_an_epoch_without_records() -> None:
    log = log_of(0)
    log.epochs.assign(1, 1)
    assert log.truncate(1) == 0
    assert log.epochs.latest == 0


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "append", "commit", "truncate", "delete", "roll", "clean", "flush", "restart"]
        ),
        st.integers(1, 4),
        st.floats(0, 1),
    ),
    max_size=25,
)


@settings(max_examples=200)
@given(OPERATIONS)
@example([("append", 4, 0), ("roll", 1, 0), ("append", 4, 0), ("clean", 1, 0), ("truncate", 1, 0.25)])
def test_segments_and_sizes_follow_from_what_was_appended(operations: list[tuple[str, int, float]]) -> None:
    """Beside a list of all batches on disk and of the base offsets of segments (UnifiedLog, LocalLog.truncateTo).

    A segment stays on disk until all of it is below the log start offset; a truncation below that restarts the log.
    """
    log = Log()
    on_disk: list[tuple[RecordBatch, int, bool]] = []
    bases: list[int] = []
    start = end = flushed = watermark = 0
    clean: int | None = None
    for now, (kind, count, part) in enumerate(operations):
        if kind == "append":
            payload = encode_batch([Record(b"k", bytes(number), (), now) for number in range(count)], base_offset=end)
            log.make_room([NewBatch(count, payload)], LogConfig(), now)
            is_sent = part > 0.5
            batch = log.append(count, leader_epoch=0, identity=now, payload=payload, at_us=now, is_as_sent=is_sent)
            bases = bases or [start]
            on_disk.append((batch, now, is_sent or count == 1))
            end += count
        elif kind == "commit":
            watermark = watermark + round(part * (end - watermark))
            log.set_high_watermark(watermark)
        elif kind == "truncate":
            offset = round(part * end)
            assert log.truncate(offset) == end - offset
            if offset < start:
                on_disk, bases, clean, start, flushed = [], [], None, offset, offset
            elif offset < end:
                bases = [base for base in bases if base <= offset]
                clean = clean if clean is None else min(clean, offset)
            on_disk = [one for one in on_disk if one[0].next_offset <= offset]
            end, flushed, watermark = offset, min(flushed, offset), min(watermark, offset)
        elif kind == "delete":
            start += round(part * (watermark - start)) if watermark > start else 0
            if watermark < start:
                continue
            log.delete_before(start)
            bases = [base for base in bases if base > start or base == max(one for one in bases if one <= start)]
            flushed = max(flushed, start)
        elif kind == "roll" and bases:
            log.roll(now)
            if end > bases[-1]:
                bases.append(end)
                flushed = end
        elif kind == "clean" and len(bases) > 1:
            clean = log.compacted_to = bases[-1]
        elif kind == "flush":
            before = now - count
            log.flush_older(before)
            flushed = max([flushed, *(min(one.next_offset, end) for one, at, _ in on_disk if at <= before)])
            assert log.flushed >= flushed  # a part of a batch that a truncation removed may be older
            flushed = log.flushed
        elif kind == "restart":
            offset = end + count
            log.restart_at(offset)
            on_disk, bases, clean = [], [], None
            start = end = flushed = watermark = offset
        on_disk = [one for one in on_disk if one[0].base_offset >= (bases[0] if bases else start)]
        log.check()
        assert (log.start, log.end, log.high_watermark, log.flushed) == (start, end, watermark, flushed)
        assert log.last_stable_offset == watermark
        live = [(one, is_sent) for one, _, is_sent in on_disk if one.next_offset > start]
        assert list(log.batches) == [one for one, _ in live]
        assert [log.was_sent(one) for one, _ in live] == [is_sent for _, is_sent in live]
        assert log.size_bytes == sum(one.size_bytes for one, _, _ in on_disk)
        assert ([segment.base_offset for segment in log.segments], log.compacted_to) == (bases, clean)
        for segment, until in zip(log.segments, [*bases[1:], end][: len(bases)], strict=True):
            inside = [one for one, _, _ in on_disk if segment.base_offset <= one.base_offset < until]
            assert segment.size_bytes == sum(one.size_bytes for one in inside)
            assert segment.largest_ms == max((one.max_timestamp_ms for one in inside), default=-1)
            assert log.batches_of(segment, until) == [one for one in inside if one.next_offset > start]
        for offset in range(start, end):
            beyond = [one for one, _ in live if one.next_offset > offset]
            after = [base for base in bases if beyond and base > beyond[0].base_offset]
            assert log.segment_end(offset) == (after[0] if after else end)
