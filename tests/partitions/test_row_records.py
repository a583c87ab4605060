"""Row records equal the columns that they were written from, with more rows than one chunk."""

from __future__ import annotations

import numpy as np
import pytest

from simzk.partitions.arrays import NONE, IntArray, pack
from simzk.partitions.states import LeaderAndIsr, States
from simzk.partitions.table import RowRecords

ROWS = 20_000
STATE = LeaderAndIsr(leader=7, leader_epoch=2**31 - 1, isr=(7, 0), controller_epoch=3, version=9, recovering=True)


def columns(rows: int, seed: int) -> States:
    drawn = np.random.default_rng(seed)
    numbers = drawn.integers(-1, 2**31 - 1, (4, rows), dtype=np.int32)
    lists = drawn.integers(-1, 2**20, (rows, 2), dtype=np.int32)
    return States(numbers[0], numbers[1], lists, numbers[2], numbers[3], drawn.random(rows) < 0.5)


def equal(left: States, right: States) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(left, right, strict=True))


@pytest.fixture
def filled() -> tuple[RowRecords, IntArray, States]:
    records, replicas, states = RowRecords(2), pack([[5, 6], [7]] * (ROWS // 2)), columns(ROWS, 1)
    records.reserve(ROWS + 1)
    records.fill(np.arange(ROWS), replicas, states)
    return records, replicas, states


def test_written_rows_are_read(filled: tuple[RowRecords, IntArray, States]) -> None:
    records, replicas, states = filled
    rows = np.random.default_rng(2).permutation(ROWS)[: ROWS // 2]
    read_replicas, read = records.read(rows)
    assert np.array_equal(read_replicas, replicas[rows])
    assert equal(read, states.at(rows))
    assert np.array_equal(records.isr[:ROWS], states.isr)
    assert np.array_equal(records.read(np.arange(ROWS))[1].recovering, states.recovering)


def test_replace_returns_old_states_and_keeps_other_rows(filled: tuple[RowRecords, IntArray, States]) -> None:
    records, replicas, states = filled
    rows, new = np.arange(0, ROWS, 2, dtype=np.int32), columns(ROWS // 2, 3)
    before_replicas, before = records.replace(rows, new)
    assert np.array_equal(before_replicas, replicas[rows])
    assert equal(before, states.at(rows))
    assert equal(records.read(rows)[1], new)
    assert equal(records.read(rows + 1)[1], states.at(rows + 1))
    assert np.array_equal(records.replicas[:ROWS], replicas)


def test_widen_and_reserve_keep_rows(filled: tuple[RowRecords, IntArray, States]) -> None:
    records, replicas, states = filled
    records.put_state(ROWS, STATE)
    records.widen(4)
    records.reserve(2 * ROWS)
    assert (records.width, len(records.replicas), records.row_bytes) == (4, 2 * ROWS, 4 * (5 + 4 + 4))
    assert records.state(ROWS) == STATE
    assert np.array_equal(records.replicas[:ROWS, :2], replicas)
    assert np.array_equal(records.isr[:ROWS, :2], states.isr)
    assert (records.isr[:ROWS, 2:] == NONE).all()
    assert records.state(ROWS + 1) == LeaderAndIsr(NONE, 0, (), 0, version=-1)
    records.clear(np.array([ROWS]))
    assert records.state(ROWS) == records.state(ROWS + 1)
