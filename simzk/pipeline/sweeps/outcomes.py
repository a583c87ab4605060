"""Table `failures` of a sweep as Arrow batches: the outcome of each failure set.

The failure sets of all specifications are numbered consecutively, so any slice gives the same rows in any process.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

from simzk.partitions.failures.sets import parse_failures
from simzk.partitions.failures.what_if import Outcome, WhatIf
from simzk.pipeline.spark.columns import batches
from simzk.pipeline.sweeps.tallies import Tally, shares_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from simzk.partitions.failures.sets import AnyFailure, FailureSet
    from simzk.partitions.layouts import Brokers, Layout

ROWS_PER_BATCH = 4096


class NumberedSet(NamedTuple):
    """A failure set with its number in the sweep, its specification, and the specification's index."""

    number: int
    place: int
    spec: AnyFailure
    failed: FailureSet


def parse_specs(text: str, seed: int = 0) -> tuple[AnyFailure, ...]:
    """Parse specifications separated by commas; the seed decides which sets are drawn.

    >>> [str(spec) for spec in parse_specs("brokers:1,racks:1")]
    ['brokers:1', 'racks:1']
    """
    return tuple(spec for part in text.split(",") for spec in parse_failures(part, seed))


def count_sets(specs: Sequence[AnyFailure], brokers: Brokers) -> int:
    """Return the number of failure sets of all specifications.

    Raises:
        ConfigError: a specification does not fit the cluster, or has too many sets.
    """
    return sum(spec.size(brokers) for spec in specs)


def numbered_sets(specs: Sequence[AnyFailure], brokers: Brokers, start: int, stop: int) -> Iterator[NumberedSet]:
    """Yield the failure sets with the numbers `start` to `stop`."""
    sizes = [spec.size(brokers) for spec in specs]
    bounds = zip(specs, accumulate([0, *sizes]), accumulate(sizes), strict=False)
    for place, (spec, first, end) in enumerate(bounds):
        begin, finish = max(start, first), min(stop, end)
        if begin < finish:
            for number, failed in enumerate(spec.sets(brokers, begin - first, finish - first), start=begin):
                yield NumberedSet(number, place, spec, failed)


def failures_schema() -> pa.Schema:
    """Return the Arrow schema of `failures`; `Outcome` documents the counts."""
    import pyarrow as pa

    return pa.schema(
        [
            ("failure_set", pa.int64()),
            ("fail", pa.string()),
            ("brokers", pa.list_(pa.field("element", pa.int32()))),
            ("racks", pa.list_(pa.field("element", pa.string()))),
            *((name, pa.int64()) for name in Outcome._fields),
        ]
    )


def failure_batches(what_if: WhatIf, specs: Sequence[AnyFailure], start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows `start` to `stop` of `failures` in batches."""
    rows = (
        failure_row(row, what_if.fail(row.failed.brokers)) for row in numbered_sets(specs, what_if.brokers, start, stop)
    )
    return batches(rows, failures_schema(), ROWS_PER_BATCH)


def failure_row(one: NumberedSet, outcome: Outcome) -> tuple[object, ...]:
    """Return a row of `failures`."""
    return (one.number, str(one.spec), one.failed.brokers, one.failed.racks, *outcome)


@cache
def slice_schema() -> pa.Schema:
    """Return the schema of a task's output: rows of `failures`, or figures per topic, broker and rack."""
    import pyarrow as pa

    return pa.schema([("failure", pa.struct(list(failures_schema()))), ("share", pa.struct(list(shares_schema())))])


def slice_batches(what_if: WhatIf, specs: Sequence[AnyFailure], start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the sets `start` to `stop`, then their figures per topic, broker and rack."""
    import pyarrow as pa

    shares: list[pa.RecordBatch] = []

    def rows() -> Iterator[tuple[object, ...]]:
        for place, sets in groupby(numbered_sets(specs, what_if.brokers, start, stop), key=lambda one: one.place):
            tally = Tally(what_if)
            for one in sets:
                found = what_if.consequences(one.failed.brokers)
                tally.add(one.number, one.failed, found)
                yield failure_row(one, found.outcome)
            shares.append(tally.shares(place))

    failure, share = slice_schema()
    for batch in batches(rows(), failures_schema(), ROWS_PER_BATCH):
        told = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
        yield pa.RecordBatch.from_arrays([told, pa.nulls(len(batch), share.type)], schema=slice_schema())
    for batch in shares:
        told = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
        yield pa.RecordBatch.from_arrays([pa.nulls(len(batch), failure.type), told], schema=slice_schema())


def parts_of_slices(told: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split rows of `slice_schema` into rows of `failures` and figures."""
    import pyarrow as pa

    failures, shares = (
        pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(chunk.drop_null()) for chunk in column.chunks], schema=schema
        )
        for column, schema in zip(told.columns, (failures_schema(), shares_schema()), strict=True)
    )
    return failures, shares


def failures_table(layout: Layout, specs: Sequence[AnyFailure]) -> pa.Table:
    """Compute the whole table `failures` in this process, without Spark.

    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> layout = generate_layout(brokers_in_racks(3, 3), topics=1, partitions=6, replication_factor=2, seed=0)
    >>> failures_table(layout, parse_specs("brokers:1"))["under_replicated"].to_pylist()
    [4, 4, 4]
    """
    import pyarrow as pa

    batches = failure_batches(WhatIf(layout), specs, 0, count_sets(specs, layout.brokers))
    return pa.Table.from_batches(batches, schema=failures_schema())
