"""Results of tasks form one sorted table and one sum, in any order and in pieces of any size."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.pipeline.sweeps import sweep
from simzk.pipeline.sweeps import sweep as module
from simzk.pipeline.sweeps.outcomes import FIGURES, count_sets, parse_specs, slice_batches, slice_schema
from simzk.pipeline.sweeps.sweep import WORST_FIRST, Gathered

FAIL = "brokers:2,racks:1,brokers=1+2"


@given(st.data())
def test_however_it_comes_in_it_comes_out_worst_first(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    seed = data.draw(st.integers(0, 9))
    layout = generate_layout(brokers_in_racks(7, 3), topics=2, partitions=9, replication_factor=2, seed=seed)
    what_if, specs = WhatIf(layout), parse_specs(FAIL)
    sets = count_sets(specs, what_if.brokers)
    bounds = [0, *sorted(data.draw(st.lists(st.integers(0, sets), max_size=5))), sets]
    whole, pieces = Gathered(tmp_path_factory.mktemp("whole")), Gathered(tmp_path_factory.mktemp("pieces"))
    slices = [slice_batches(what_if, specs, start, stop) for start, stop in pairwise(bounds)]
    reported = [pa.Table.from_batches(batches, schema=slice_schema()) for batches in slices]
    whole.add(pa.concat_tables(reported), 1)
    for piece in data.draw(st.permutations(reported)):
        pieces.add(piece, 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_PER_PART", data.draw(st.integers(1, sets)))
        parts = list(pieces.parts())
        assert all(len(part) == module.ROWS_PER_PART for part in parts[:-1])
    rows = pa.concat_tables(parts).to_pylist()
    assert rows == sorted(rows, key=lambda row: ([-row[name] for name in WORST_FIRST], row["failure_set"]))
    assert {row["failure_set"] for row in rows} == set(range(sets))
    assert pa.concat_tables(whole.parts()).to_pylist() == rows
    assert sorted(row["failure_set"] for batch in pieces.failures() for row in batch.to_pylist()) == list(range(sets))
    assert [column.tolist() for column in pieces.shares] == [column.tolist() for column in whole.shares]


@given(sets=st.integers(1, 3_000_000), specs=st.integers(1, 3), things=st.integers(2, 99), cores=st.integers(1, 64))
def test_every_task_is_in_one_job_and_no_job_tells_too_much(sets: int, specs: int, things: int, cores: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "MOST_ROWS_PER_JOB", 20_000)
        jobs = list(sweep.jobs_of(sets, specs, things, cores))
    assert [first for first, _, _ in jobs] == [0, *(end for _, end, _ in jobs[:-1])]
    assert {tasks for *_, tasks in jobs} == {jobs[-1][1]}
    of_task = -(-sets // jobs[-1][1])
    assert of_task <= sweep.MOST_SETS_PER_TASK
    for first, end, _ in jobs:
        rows = (end - first) * (of_task + len(FIGURES) * things * min(specs, of_task))
        assert first < end
        assert rows <= 20_000 or end - first <= cores
