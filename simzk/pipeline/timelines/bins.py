"""Timelines in bins of equal length: the time that each topic's partitions spent in each state, per bin.

An interval adds to every bin that it overlaps but costs two numbers whatever its length: the cumulative sum of starts
minus ends gives the time in each bin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from simzk.pipeline.saved import Saved

STATES = ("offline", "under_min_isr", "under_replicated", "in_sync")
"""States of a partition, worst first; an interval counts as the first that applies, else as the last."""

BINS = 160


class Bins(NamedTuple):
    """Observed time per bin.

    Args:
        edges: float64[b + 1], seconds since 1970.
        rows: topics or partitions, worst first.
        partitions: number of partitions per row.
        seconds: float64[rows, 4, b], seconds in each state, summed over the row's partitions.
        all: float64[4, b], the same for all partitions.
        left: number of topics without a row.
    """

    edges: NDArray[np.float64]
    rows: tuple[str, ...]
    partitions: tuple[int, ...]
    seconds: NDArray[np.float64]
    all: NDArray[np.float64]
    left: int


def bins_of(saved: Saved, most_rows: int) -> Bins:
    """Return the binned timelines of a directory.

    Args:
        saved: tables of the kind `timelines`.
        most_rows: maximum number of rows; with more partitions than this, the rows are the worst topics.
    """
    totals = saved.table("totals")
    if not len(totals):
        none = np.zeros((len(STATES), BINS))
        return Bins(np.linspace(0.0, 1.0, BINS + 1), (), (), none[None][:0], none, 0)
    one_by_one = len(totals) <= most_rows
    rows, partitions, left = _worst_rows(totals, most_rows, one_by_one=one_by_one)
    edges = np.linspace(*_range(saved), BINS + 1)
    begun = np.zeros((len(rows) + 1, len(STATES), BINS + 1))
    parts = np.zeros_like(begun)
    for batch in _batches(saved):
        start, end = _seconds(batch["from"]), _seconds(batch["until"])
        state = _states(batch)
        row = _rows(batch, rows, one_by_one=one_by_one)
        lasting = np.nan_to_num(end, nan=edges[-1])
        for at, sign in ((lasting, 1.0), (start, -1.0)):
            place = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, BINS)
            for target in (row, np.full(len(row), len(rows))):
                known = target >= 0
                index = (target[known], state[known], place[known])
                np.add.at(begun, index, sign)
                np.add.at(parts, index, sign * (at - edges[place])[known])
    # Of a stretch, what ends later took all of it, and what ends in it the part before.
    later = begun[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] - begun
    seconds = (later * (edges[1] - edges[0]) + parts)[:, :, :BINS]
    seconds[seconds < 1e-6] = 0.0
    return Bins(edges, rows, partitions, seconds[:-1], seconds[-1], left)


def _worst_rows(totals: pa.Table, most: int, *, one_by_one: bool) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    """Return the names of the rows, their numbers of partitions, and the number of omitted topics."""
    import pyarrow as pa
    import pyarrow.compute as pc

    name = totals["topic"]
    if one_by_one:
        name = pc.binary_join_element_wise(name, totals["partition"].cast(pa.string()), "-")
    keys = ["offline_s", "under_min_isr_s", "under_replicated_s", "leader_moves"]
    grouped = totals.append_column("name", name).group_by("name")
    sums = grouped.aggregate([*((key, "sum") for key in keys), ("partition", "count"), ("partition", "min")])
    topic_order = ("name", "ascending") if not one_by_one else ("partition_min", "ascending")
    order = [*((f"{key}_sum", "descending") for key in keys), topic_order, ("name", "ascending")]
    worst = sums.sort_by(order).slice(0, most)
    return tuple(worst["name"].to_pylist()), tuple(worst["partition_count"].to_pylist()), len(sums) - len(worst)


def _range(saved: Saved) -> tuple[float, float]:
    """Return the time range from the first state to the last write."""
    starts = _seconds(saved.table("partitions", "from")["from"])
    ends = [
        _seconds(saved.table(name, column)[column]) for name, column in (("partitions", "until"), ("writers", "last"))
    ]
    first = float(starts.min())
    last = max((float(np.nanmax(end)) for end in ends if np.isfinite(end).any()), default=first)
    return first, max(last, first + 1e-3)


def _batches(saved: Saved) -> Iterator[pa.RecordBatch]:
    table = saved.table("partitions", "topic", "partition", "from", "until", *STATES[:-1])
    yield from table.to_batches(max_chunksize=1 << 20)


def _seconds(column: Any) -> NDArray[np.float64]:
    """Convert timestamps to seconds since 1970; null becomes nan."""
    import pyarrow as pa

    exact = column.cast(pa.timestamp("us", "UTC"), safe=False)
    found: NDArray[np.float64] = exact.cast(pa.int64()).cast(pa.float64()).to_numpy(zero_copy_only=False) / 1e6
    return found


def _states(batch: pa.RecordBatch) -> NDArray[np.intp]:
    """Return the index in `STATES` of each row."""
    found = np.full(len(batch), len(STATES) - 1)
    for number in reversed(range(len(STATES) - 1)):
        found[batch[STATES[number]].fill_null(False).to_numpy(zero_copy_only=False)] = number
    return found


def _rows(batch: pa.RecordBatch, rows: Sequence[str], *, one_by_one: bool) -> NDArray[np.intp]:
    """Return the row index of each interval's topic or partition; -1 if it has no row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    name = batch["topic"]
    if one_by_one:
        name = pc.binary_join_element_wise(name, batch["partition"].cast(pa.string()), "-")
    found: NDArray[np.intp] = pc.index_in(name, value_set=pa.array(rows, pa.string())).fill_null(-1).to_numpy()
    return found
