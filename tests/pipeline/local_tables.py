"""Tables of a sweep computed in this process without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import read_layout
from simzk.pipeline.sweeps.outcomes import (
    added_up,
    count_sets,
    failure_batches,
    failures_schema,
    parts_of_slices,
    slice_batches,
    slice_schema,
)
from simzk.pipeline.sweeps.sweep import WORST_FIRST
from simzk.pipeline.sweeps.tables import WORST_SETS, estimates_table, things_tables, worst_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.partitions.failures.sets import AnyFailure
    from simzk.partitions.layouts import Layout
    from simzk.pipeline.sweeps.sweep import SweepPlan


def failures_table(layout: Layout, specs: Sequence[AnyFailure]) -> pa.Table:
    """The whole table `failures`."""
    batches = failure_batches(WhatIf(layout), specs, 0, count_sets(specs, layout.brokers))
    return pa.Table.from_batches(batches, schema=failures_schema())


def local_tables(plan: SweepPlan) -> dict[str, pa.Table]:
    """The tables beside `failures`, of one slice."""
    reported = pa.Table.from_batches(slice_batches(plan.what_if, plan.specs, 0, plan.sets), schema=slice_schema())
    _, shares = parts_of_slices(reported)
    tables = things_tables(plan.what_if, [str(spec) for spec in plan.specs], added_up(shares.to_batches()))
    failures = failures_table(read_layout(plan.layout), plan.specs)
    order = [*((name, "descending") for name in WORST_FIRST), ("failure_set", "ascending")]
    worst = failures.sort_by(order).slice(0, WORST_SETS).to_pylist()
    tables["worst"] = worst_table(plan.what_if, plan.numbers, worst)
    return {**tables, "estimates": estimates_table(failures.to_batches(), plan.populations)}
