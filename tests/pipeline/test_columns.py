"""Rows to Arrow batches: how many go into one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from simzk.pipeline import data_source as columns

SCHEMA = pa.schema([("number", pa.int32()), ("data", pa.binary())])


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [([1] * 10, [4, 4, 2]), ([100, 1, 1, 1, 1, 1], [1, 4, 1]), ([60, 60, 60], [2, 1]), ([], [])],
)
def test_a_batch_is_full_by_rows_or_by_bytes(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], lengths: list[int]
) -> None:
    monkeypatch.setattr(columns, "BYTES_PER_BATCH", 100)
    rows = [(number, bytes(size)) for number, size in enumerate(sizes)]
    batches = list(columns.batches(rows, SCHEMA, 4))
    assert [len(batch) for batch in batches] == lengths
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == rows


def test_where_the_bytes_are_not_wanted_their_size_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "BYTES_PER_BATCH", 100)
    (batch,) = columns.batches([(1, bytes(99)), (2, None), (3, bytes(99))], SCHEMA, 4, wanted=["number"])
    assert batch.to_pydict() == {"number": [1, 2, 3]}
