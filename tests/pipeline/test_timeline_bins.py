"""Timelines cut into stretches: equal to looking at every interval in every stretch."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.pipeline.saved import Saved
from simzk.pipeline.timelines.bins import BINS, STATES, bins_of

BEGIN_S = 1_700_000_000.0


class Interval(NamedTuple):
    """An interval of a partition, in seconds after the beginning; `until_s` None for what still held."""

    topic: str
    partition: int
    from_s: float
    until_s: float | None
    state: str


@st.composite
def stories(draw: st.DrawFn) -> list[Interval]:
    """Intervals of some partitions."""
    found = []
    for topic, partition in draw(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=1)):
        ends = sorted(draw(st.sets(st.integers(0, 1000), min_size=2, max_size=6)))
        for begin, end in zip(ends, [*ends[1:], None], strict=True):
            until = None if end is None else end / 10
            if end is None and not draw(st.booleans()):
                continue
            found.append(Interval(topic, partition, begin / 10, until, draw(st.sampled_from(STATES))))
    return found


def instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(BEGIN_S + seconds, UTC)


def write(folder: Path, story: list[Interval], last_s: float) -> Saved:
    """The tables that are read, as `simzk timelines` would write them."""
    partitions = {
        "topic": [one.topic for one in story],
        "partition": [one.partition for one in story],
        "from": [instant(one.from_s) for one in story],
        "until": pa.array([instant(one.until_s) for one in story], pa.timestamp("us", "UTC")),
        **{state: [one.state == state for one in story] for state in STATES[:-1]},
    }
    keys = sorted({(one.topic, one.partition) for one in story})
    totals: dict[str, list[object]] = {
        "topic": [topic for topic, _ in keys],
        "partition": [partition for _, partition in keys],
        "leader_moves": [0] * len(keys),
    }
    for state in STATES[:-1]:
        totals[f"{state}_s"] = [
            sum(
                (last_s if one.until_s is None else one.until_s) - one.from_s
                for one in story
                if (one.topic, one.partition, one.state) == (*key, state)
            )
            for key in keys
        ]
    writers = {"last": [instant(last_s)]}
    for name, columns in (("partitions", partitions), ("totals", totals), ("writers", writers)):
        (folder / name).mkdir()
        pq.write_table(pa.table(columns), folder / name / "part-0.parquet")
    return Saved("timelines", folder, {})


@given(stories(), st.sampled_from([1, 2, 60]))
def test_every_stretch_has_what_reaches_into_it(story: list[Interval], most_rows: int) -> None:
    if not story:
        return
    last_s = 120.0
    with TemporaryDirectory() as folder:
        bins = bins_of(write(Path(folder), story, last_s), most_rows)
    one_by_one = len({(one.topic, one.partition) for one in story}) <= most_rows
    edges = bins.edges - BEGIN_S
    assert (edges[0], edges[-1]) == pytest.approx((min(one.from_s for one in story), last_s), abs=1e-5)
    wanted = np.zeros((len(bins.rows) + 1, len(STATES), BINS))
    for one in story:
        name = f"{one.topic}-{one.partition}" if one_by_one else one.topic
        until = last_s if one.until_s is None else one.until_s
        overlap = np.clip(np.minimum(until, edges[1:]) - np.maximum(one.from_s, edges[:-1]), 0, None)
        rows = [len(bins.rows), *([bins.rows.index(name)] if name in bins.rows else [])]
        wanted[rows, STATES.index(one.state)] += overlap
    assert bins.seconds == pytest.approx(wanted[:-1], abs=1e-4)
    assert bins.all == pytest.approx(wanted[-1], abs=1e-4)


def test_the_worst_topics_are_kept(tmp_path: Path) -> None:
    story = [Interval(f"t{number}", 0, 0.0, float(number), "offline") for number in range(1, 8)]
    bins = bins_of(write(tmp_path, story, 10.0), 3)
    assert (bins.rows, bins.left, bins.partitions) == (("t7", "t6", "t5"), 4, (1, 1, 1))


def test_where_nothing_was_seen_there_are_no_rows(tmp_path: Path) -> None:
    bins = bins_of(write(tmp_path, [], 10.0), 3)
    assert (len(bins.rows), bins.left, float(bins.all.sum())) == (0, 0, 0.0)
