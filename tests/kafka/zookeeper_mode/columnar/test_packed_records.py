"""Packed records return the numbers that were written, for any numbers and many forms."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simzk.kafka.zookeeper_mode.columnar import packed_records
from simzk.kafka.zookeeper_mode.columnar.packed_records import PackedRecords

if TYPE_CHECKING:
    import pytest

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 2**33), min_size=2, max_size=2)
RECORDS = st.tuples(NUMBERS, st.sampled_from("abcdef"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 6), RECORDS | st.none()), max_size=40))
def test_record_is_read_back(
    steps: list[tuple[int, tuple[list[int], str] | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_records, "_BESIDE", 6)  # room for five kinds, so that others stand beside
    records: PackedRecords[str] = PackedRecords(2)
    expected: dict[int, tuple[list[int], str]] = {}
    for row, record in steps:
        if record is None:
            records.clear(row)
            expected.pop(row, None)
        else:
            records.put(row, *record)
            expected[row] = record
        records.check()
    assert {row: found for row in range(8) if (found := records.get(row))} == expected
    assert [records.form(row) for row in range(8)] == [expected.get(row, (None, None))[1] for row in range(8)]
    assert records.rows().tolist() == sorted(expected)
    assert tally(records, None) == Counter(form for _, form in expected.values())
    assert tally(records, np.array([1, 2, 9])) == Counter(form for row, (_, form) in expected.items() if row in (1, 2))


def tally(records: PackedRecords[str], rows: np.ndarray[tuple[int], np.dtype[np.int64]] | None) -> Counter[str]:
    found: Counter[str] = Counter()
    for form, count in records.forms(rows):
        found[form] += count
    return +found


def test_fill_writes_consecutive_rows() -> None:
    records: PackedRecords[str] = PackedRecords(2)
    numbers = np.stack([np.arange(5), np.arange(5) + 2**40], axis=1)
    records.fill(3, numbers, "filled")
    assert records.rows().tolist() == [3, 4, 5, 6, 7]
    assert records.get(5) == ([2, 2 + 2**40], "filled")
    records.check()
