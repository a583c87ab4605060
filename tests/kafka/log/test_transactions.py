"""Last stable offset and aborted transactions of a log, compared with a slow search through its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.log.batches import BATCH_BYTES, RECORD_BYTES, NewBatch, ProducerStamp, RecordBatch
from simzk.kafka.log.log import Log
from simzk.kafka.log.record_batches import Record, encode_batch
from simzk.kafka.log.segments import LogConfig

if TYPE_CHECKING:
    from collections.abc import Container

INDEX_BYTES = 4096
"""`index.interval.bytes`."""


class Transaction(NamedTuple):
    """A transaction of the reference: the offset of its marker is None while it is open."""

    producer_id: int
    first_offset: int
    marker_offset: int | None
    is_aborted: bool


def transactions(batches: list[RecordBatch], *, with_empty: bool) -> list[Transaction]:
    """Return all transactions of a log, open ones last, by reading each producer's batches alone."""
    found: list[Transaction] = []
    for producer in {batch.producer.producer_id for batch in batches if batch.producer is not None}:
        first = None
        for batch in batches:
            stamp = batch.producer
            if stamp is None or stamp.producer_id != producer:
                continue
            if stamp.marker is not None:
                if first is not None or with_empty:
                    start = batch.base_offset if first is None else first
                    found.append(Transaction(producer, start, batch.base_offset, stamp.marker == "abort"))
                first = None
            elif stamp.is_transactional and first is None:
                first = batch.base_offset
        if first is not None:
            found.append(Transaction(producer, first, None, False))
    return sorted(found, key=lambda one: (one.marker_offset is None, one.marker_offset, one.first_offset))


def stable_offset(found: list[Transaction], high_watermark: int, start: int) -> int:
    """Return the offset up to which every transaction has a committed marker."""
    unstable = [one.first_offset for one in found if one.marker_offset is None or one.marker_offset >= high_watermark]
    return min([high_watermark, *(max(first, start) for first in unstable)])


def upper_bound(batches: list[RecordBatch], next_offset: int, end: int) -> int:
    """Return the offset that the index of a file of batches names for the end of a read."""
    index, position, since = [], 0, 0
    read_to = sum(batch.size_bytes for batch in batches if batch.next_offset <= next_offset)
    for batch in batches:
        if since > INDEX_BYTES:
            index.append((position, batch.next_offset - 1))
            since = 0
        position += batch.size_bytes
        since += batch.size_bytes
    return min((offset for at, offset in index if at >= read_to), default=end)


def append(log: Log, kind: str, producer: int, records: int) -> None:
    """Append a batch of a kind."""
    stamp = None
    if kind in ("commit", "abort"):
        stamp = ProducerStamp(producer, 0, -1, True, "commit" if kind == "commit" else "abort", 0)
        records = 1
    elif kind != "plain":
        stamp = ProducerStamp(producer, 0, log.end, kind == "transactional")
    log.append(records, leader_epoch=0, identity=log.end + 1, producer=stamp)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(("transactional", "transactional", "idempotent", "plain", "commit", "abort")),
            st.integers(1, 3),
            st.sampled_from((1, 2, 5, 45)),
        ),
        st.tuples(st.sampled_from(("watermark", "watermark", "truncate", "delete")), st.integers(0, 100), st.just(0)),
        st.tuples(st.sampled_from(("flush", "power lost")), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS, st.booleans(), st.data())
def test_stable_offset_and_aborted_transactions_are_those_of_the_batches(
    steps: list[tuple[str, int, int]], with_empty: bool, data: st.DataObject
) -> None:
    log = Log()
    log.lists_empty_transactions = with_empty
    known: list[RecordBatch] = []  # batches that were deleted meanwhile are in the index of transactions
    for kind, number, records in steps:
        end = log.end
        if kind == "watermark":
            log.set_high_watermark(log.high_watermark + (log.end - log.high_watermark) * number // 100)
        elif kind == "delete":
            log.delete_before(log.start + (log.high_watermark - log.start) * number // 100)
        elif kind == "truncate":
            log.truncate(log.start + (log.end - log.start) * number // 100)
        elif kind == "flush":
            log.flush()
        elif kind == "power lost":
            log.lose_unflushed()
        else:
            append(log, kind, number, records)
            known.append(log.batches[-1])
        if log.end < end:
            known = list(log.batches)
        log.check()
        found = transactions(known, with_empty=with_empty)
        assert log.last_stable_offset == stable_offset(found, log.high_watermark, log.start)
    first = data.draw(st.integers(log.start, log.end))
    read = log.read(first, max_bytes=data.draw(st.integers(1, 20_000)))
    next_offset = read[-1].next_offset if read else first
    bound = upper_bound(list(log.batches), next_offset, log.end)
    expected = [
        (one.producer_id, one.first_offset)
        for one in transactions(known, with_empty=with_empty)
        if one.is_aborted and one.marker_offset is not None and one.marker_offset >= first and one.first_offset < bound
    ]
    assert [one[:2] for one in log.aborted_transactions(first, next_offset)] == expected


def test_a_consumer_learns_of_an_aborted_transaction_up_to_the_next_entry_of_the_index() -> None:
    log = Log()
    large = INDEX_BYTES // RECORD_BYTES + 1
    append(log, "plain", 0, large)
    assert log.batches[0].size_bytes == BATCH_BYTES + large * RECORD_BYTES
    for producer in (1, 2):
        append(log, "transactional", producer, 1)
        append(log, "abort", producer, 1)
    first, second = large, large + 2
    assert [one.first_offset for one in log.aborted_transactions(0, large)] == []
    assert [one.first_offset for one in log.aborted_transactions(0, large + 1)] == [first, second]


def test_a_marker_without_records_is_listed_up_to_2_7() -> None:
    for lists_empty in (True, False):
        log = Log()
        log.lists_empty_transactions = lists_empty
        append(log, "abort", 7, 1)
        log.set_high_watermark(1)
        assert [one[:3] for one in log.aborted_transactions(0, 1)] == ([(7, 0, 0)] if lists_empty else [])
        assert log.last_stable_offset == 1


DAY_MS = 24 * 3_600_000
DATED = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3)), min_size=1, max_size=12)


def segment_starts(batches: list[tuple[RecordBatch, int]], before: Container[int] = ()) -> list[int]:
    """Return the base offsets of the segments of dated batches; one begins with a batch seven days younger.

    A segment that begins where the log was cut off stays, and is empty.
    """
    starts = [0]
    first_day: int | None = None
    for batch, day in batches:
        if batch.base_offset in before:
            first_day = None
            starts.append(batch.base_offset)
        elif first_day is not None and day - first_day > 7:
            starts.append(batch.base_offset)
            first_day = None
        first_day = day if first_day is None else first_day
    return sorted(set(starts))


@given(DATED, st.data())
def test_a_client_reads_one_segment(dated: list[tuple[int, int]], data: st.DataObject) -> None:
    log = Log()
    appended: list[tuple[RecordBatch, int]] = []

    def fill(batches: list[tuple[int, int]]) -> None:
        for day, records in batches:
            payload = encode_batch([Record(None, b"", timestamp_ms=day * DAY_MS)] * records, base_offset=log.end)
            log.make_room([NewBatch(records, payload)], LogConfig(), now_ms=0)
            log.append(records, leader_epoch=0, identity=log.end, payload=payload)
            appended.append((log.batches[-1], day))

    fill(dated)
    empty = []
    if data.draw(st.booleans()):
        cut = data.draw(st.sampled_from([batch.base_offset for batch, _ in appended]))
        empty = [one for one in segment_starts(appended) if one == cut]
        log.truncate(cut)
        del appended[len(log.batches) :]
        fill(data.draw(DATED))
    log.check()
    starts = segment_starts(appended, empty)
    for offset in range(log.end):
        assert log.segment_end(offset) == min((one for one in starts if one > offset), default=log.end)
