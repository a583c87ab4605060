"""The table `failures` without Spark: slices put together are the whole, and each row is its set's outcome."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ConfigError
from simzk.partitions.failures.what_if import Outcome, WhatIf
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.pipeline.sweeps.outcomes import (
    count_sets,
    failure_batches,
    failures_schema,
    numbered_sets,
    parse_specs,
)
from tests.partitions.layout_strategies import Cluster, clusters, layout_of
from tests.partitions.test_what_if import brute_force
from tests.pipeline.local_tables import failures_table

SPECS = st.lists(st.sampled_from(["brokers:1", "brokers:2", "racks:1"]), min_size=1, max_size=3).map(",".join)


@given(clusters(), SPECS)
def test_every_row_of_the_table_equals_brute_force(cluster: Cluster, fail: str) -> None:
    layout, specs = layout_of(cluster), parse_specs(fail)
    try:
        count_sets(specs, layout.brokers)
    except ConfigError:
        with pytest.raises(ConfigError):
            failures_table(layout, specs)
        return
    rows = failures_table(layout, specs).to_pylist()
    assert [row["failure_set"] for row in rows] == list(range(len(rows)))
    assert len(rows) == count_sets(specs, layout.brokers)
    for row in rows:
        outcome = Outcome(**{name: row[name] for name in Outcome._fields})
        assert outcome == brute_force(cluster, set(row["brokers"]))


@given(st.lists(st.sampled_from(["brokers:1", "brokers:2", "brokers:3", "racks:1", "racks:2"]), min_size=1), st.data())
def test_slices_put_together_are_the_whole(specs: list[str], data: st.DataObject) -> None:
    brokers, parsed = brokers_in_racks(6, 3), parse_specs(",".join(specs))
    total = count_sets(parsed, brokers)
    cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=5)))
    bounds = [0, *cuts, total]
    whole = list(numbered_sets(parsed, brokers, 0, total))
    sliced = [row for start, stop in itertools.pairwise(bounds) for row in numbered_sets(parsed, brokers, start, stop)]
    assert sliced == whole
    assert [row.number for row in whole] == list(range(total))
    assert len({(row.spec, row.failed) for row in whole}) * len(specs) >= total


def test_batches_end_where_they_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simzk.pipeline.sweeps.outcomes.ROWS_PER_BATCH", 2)
    layout = layout_of(Cluster([], {}))
    assert list(failure_batches(WhatIf(layout), (), 0, 0)) == []
    layout = generate_layout(brokers_in_racks(3, 3), topics=1, partitions=6, replication_factor=2, seed=0)
    batches = list(failure_batches(WhatIf(layout), parse_specs("brokers:1,brokers:2"), 1, 6))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert all(batch.schema.equals(failures_schema()) for batch in batches)
    assert pa.Table.from_batches(batches)["failure_set"].to_pylist() == [1, 2, 3, 4, 5]
