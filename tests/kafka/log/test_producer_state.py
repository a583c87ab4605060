"""Idempotent producers: the recorded answers of real leaders, and what holds for any traffic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.log.batches import ProducerStamp, RecordBatch
from simzk.kafka.log.log import Log
from simzk.kafka.log.producer_state import (
    KEPT,
    MAX_SEQUENCE,
    KeptBatch,
    ProducerEntry,
    ProducerStates,
    SequenceRules,
    after_append,
    check_coordinator_batch,
    check_sequence,
)
from simzk.kafka.protocol.errors import ErrorCode


def appended(*stamps: ProducerStamp, records: int = 1) -> ProducerEntry:
    """Return the state of a producer after batches."""
    entry = None
    for number, stamp in enumerate(stamps):
        entry = after_append(entry, stamp, records, number * records)
    assert entry is not None
    return entry


def test_a_new_epoch_starts_with_sequence_0() -> None:
    entry = appended(ProducerStamp(7, 3, 0))
    assert check_sequence(entry, ProducerStamp(7, 4, 1), 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check_sequence(entry, ProducerStamp(7, 4, 0), 1) is None
    assert check_sequence(entry, ProducerStamp(7, 2, 1), 1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequence_numbers_wrap() -> None:
    entry = appended(ProducerStamp(7, 0, MAX_SEQUENCE - 1), records=2)
    assert entry.last_sequence == MAX_SEQUENCE
    assert check_sequence(entry, ProducerStamp(7, 0, 0), 1) is None
    crossing = ProducerStamp(7, 0, MAX_SEQUENCE)
    entry = after_append(appended(ProducerStamp(7, 0, MAX_SEQUENCE - 1)), crossing, 3, 1)
    assert check_sequence(entry, ProducerStamp(7, 0, 2), 1) is None
    assert check_sequence(entry, crossing, 3) == KeptBatch(MAX_SEQUENCE, 1, 1, 3)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_each_recent_batch_is_recognized_and_each_older_one_rejected(sizes: list[int], data: st.DataObject) -> None:
    entry, sent, sequence = None, [], 0
    for size in sizes:
        stamp = ProducerStamp(7, 0, sequence)
        assert check_sequence(entry, stamp, size) is None
        entry = after_append(entry, stamp, size, sequence)
        sent.append((stamp, size))
        sequence += size
    place = data.draw(st.integers(0, len(sent) - 1))
    stamp, size = sent[place]
    again = check_sequence(entry, stamp, size)
    if place >= len(sent) - KEPT:
        assert isinstance(again, KeptBatch)
        assert again.first_offset == stamp.sequence
    else:
        assert again == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    gap = data.draw(st.integers(1, 9))
    assert check_sequence(entry, ProducerStamp(7, 0, sequence + gap), 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


BATCHES = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from([None, None, None, "commit", "abort"])), max_size=12
)


@given(BATCHES, st.data())
def test_a_truncated_log_has_the_state_of_its_batches(
    batches: list[tuple[int, int, None]], data: st.DataObject
) -> None:
    log = Log()
    for number, (producer, records, marker) in enumerate(batches):
        stamp = ProducerStamp(producer, 0, number, True, marker)
        log.append(1 if marker else records, leader_epoch=0, identity=number, producer=stamp)
    log.set_high_watermark(data.draw(st.integers(0, log.end)))
    assert log.last_stable_offset <= log.high_watermark
    log.truncate(data.draw(st.integers(0, log.end)))
    log.check()
    if batches:
        assert log.producers is not None
        again = ProducerStates(log.batches)
        assert (log.producers.entries, log.producers.ended) == (again.entries, again.ended)


@pytest.mark.parametrize("marker", ["commit", "abort"])
def test_the_last_stable_offset_waits_for_the_marker(marker: str) -> None:
    log = Log()
    log.append(4, leader_epoch=0, identity=1)
    log.append(2, leader_epoch=0, identity=2, producer=ProducerStamp(7, 0, 0, True))
    log.append(3, leader_epoch=0, identity=3)
    log.set_high_watermark(9)
    assert log.last_stable_offset == 4
    ends = ProducerStamp(7, 0, -1, True, "commit" if marker == "commit" else "abort", 0)
    log.append(1, leader_epoch=0, identity=4, producer=ends)
    assert log.last_stable_offset == 4  # the marker is not committed yet
    log.set_high_watermark(10)
    assert log.last_stable_offset == 10
    assert log.producers is not None
    aborted = [one[:3] for one in log.producers.aborted_between(0, 10)]
    assert aborted == ([(7, 4, 9)] if marker == "abort" else [])


def test_a_batch_outside_of_the_open_transaction_is_rejected() -> None:
    opened = appended(ProducerStamp(7, 0, 0, is_transactional=True))
    assert check_sequence(opened, ProducerStamp(7, 0, 1), 1) == ErrorCode.INVALID_TXN_STATE
    assert check_sequence(opened, ProducerStamp(7, 1, 0), 1) == ErrorCode.INVALID_TXN_STATE
    assert check_sequence(opened, ProducerStamp(7, 0, 1, is_transactional=True), 1) is None
    assert check_sequence(opened, ProducerStamp(7, 0, 3), 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_of_which_only_a_marker_is_left_starts_with_sequence_0() -> None:
    entry = appended(ProducerStamp(7, 1, -1, True, "abort", 2))
    rules = SequenceRules(after_marker=ErrorCode.UNKNOWN_PRODUCER_ID)
    assert check_sequence(entry, ProducerStamp(7, 1, 4), 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check_sequence(entry, ProducerStamp(7, 1, 4), 1, rules) == ErrorCode.UNKNOWN_PRODUCER_ID
    assert check_sequence(entry, ProducerStamp(7, 1, 0), 1) is None
    assert check_sequence(entry, ProducerStamp(7, 0, 0), 1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_is_fenced_by_the_epochs_of_producer_and_coordinator() -> None:
    marker = ProducerStamp(7, 3, -1, True, "commit", 5)
    entry = appended(ProducerStamp(7, 3, 0, is_transactional=True), marker)
    assert check_coordinator_batch(entry, marker) is None
    assert check_coordinator_batch(entry, marker._replace(epoch=4, coordinator_epoch=6)) is None
    assert check_coordinator_batch(entry, marker._replace(epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (
        check_coordinator_batch(entry, marker._replace(coordinator_epoch=4)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    assert check_coordinator_batch(None, marker) is None


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_a_producer_that_the_log_does_not_know_starts_with_0_up_to_2_4(error: ErrorCode) -> None:
    """KIP-360: ProducerAppendInfo.checkSequence accepts any first sequence since then."""
    old = SequenceRules(unknown=error)
    for first in (0, 1, MAX_SEQUENCE):
        stamp = ProducerStamp(7, 0, first)
        assert check_sequence(None, stamp, 1) is None
        assert check_sequence(None, stamp, 1, old) == (error if first else None)


def test_a_duplicate_is_one_of_the_same_epoch() -> None:
    """A new epoch forgets the batches of the one before (ProducerStateEntry.maybeUpdateProducerEpoch)."""
    entry = appended(ProducerStamp(7, 3, 0), ProducerStamp(7, 3, 1), ProducerStamp(7, 4, 0))
    again = check_sequence(entry, ProducerStamp(7, 4, 0), 1)
    assert again == KeptBatch(0, 0, 2, 2)
    assert check_sequence(entry, ProducerStamp(7, 4, 1), 1) is None
    assert check_sequence(entry, ProducerStamp(7, 4, 2), 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    ended = after_append(entry, ProducerStamp(7, 5, -1, True, "abort", 1), 1, 3)
    assert (ended.epoch, ended.batches, ended.last_sequence) == (5, (), -1)


def test_a_batch_of_a_coordinator_that_is_no_marker_has_no_coordinator_epoch() -> None:
    """Only ProducerAppendInfo.checkCoordinatorEpoch compares it, and only for markers."""
    entry = appended(ProducerStamp(7, 3, -1, True, "commit", 5))
    assert check_coordinator_batch(entry, ProducerStamp(7, 3, -1)) is None
    assert check_coordinator_batch(entry, ProducerStamp(7, 2, -1)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_expire_when_their_last_batch_is_as_old_as_the_limit() -> None:
    """ProducerStateManager.isProducerExpired: not before, not in a transaction, and never without a timestamp."""
    states = ProducerStates()
    for producer, (timestamp_ms, is_transactional) in enumerate(
        [(-1, False), (0, False), (9, False), (10, False), (11, False), (10, True)]
    ):
        stamp = ProducerStamp(producer, 0, 0, is_transactional)
        states.entries[producer] = after_append(None, stamp, 1, producer, timestamp_ms)
    assert (states.expire(10), list(states.entries)) == (3, [0, 4, 5])
    assert (states.expire(10), list(states.entries)) == (0, [0, 4, 5])


def marker(producer: int, kind: str) -> ProducerStamp:
    return ProducerStamp(producer, 0, -1, True, "abort" if kind == "abort" else "commit", 0)


def test_the_first_unstable_offset_is_the_smallest_of_all() -> None:
    """It is that of an open transaction, or of one with a marker that is not committed (firstUnstableOffset)."""
    begun = [ProducerStamp(producer, 0, 0, True) for producer in range(3)]
    stamps = [None, *begun, marker(1, "commit"), None, marker(0, "abort"), marker(2, "commit"), None]
    batches = [RecordBatch(offset, 1, 0, offset, producer=stamp) for offset, stamp in enumerate(stamps)]
    # With the last stable offset after each batch, by the high watermark.
    for appended_to, by_watermark in (
        (4, [1, 1, 1, 1, 1]),
        (5, [1, 1, 1, 1, 1, 1]),
        (7, [1, 1, 1, 1, 1, 1, 1, 3]),
        (9, [1, 1, 1, 1, 1, 1, 1, 3, None, None]),
    ):
        states = ProducerStates(batches[:appended_to])
        assert [states.first_unstable_offset(mark) for mark in range(appended_to + 1)] == by_watermark
    states = ProducerStates(batches[:7])
    states.forget_ended(frozenset(states.aborted_between(0, 7)))
    assert [one.producer_id for one in states.ended] == [1]
    assert states.aborted_between(0, 7) == []
