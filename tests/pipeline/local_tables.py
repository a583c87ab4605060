"""Tables of a sweep computed in this process without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from simzk.partitions.layouts import read_layout
from simzk.pipeline.sweeps.outcomes import added_up, failures_table, parts_of_slices, slice_batches, slice_schema
from simzk.pipeline.sweeps.tables import estimates_table, things_tables

if TYPE_CHECKING:
    from simzk.pipeline.sweeps.sweep import Plan


def local_tables(plan: Plan) -> dict[str, pa.Table]:
    """The tables beside `failures`, of one slice."""
    reported = pa.Table.from_batches(slice_batches(plan.what_if, plan.specs, 0, plan.sets), schema=slice_schema())
    _, shares = parts_of_slices(reported)
    tables = things_tables(plan.what_if, [str(spec) for spec in plan.specs], added_up(shares.to_batches()))
    failures = failures_table(read_layout(plan.layout), plan.specs)
    return {**tables, "estimates": estimates_table(failures.to_batches(), plan.populations)}
