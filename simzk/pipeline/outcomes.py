"""What failure sets leave, as Arrow batches: the table `failures` of a sweep, computed in whichever process is asked.

The failure sets of several specifications stand in one row, one specification after the other, and a set's place in it
is its number, so that any slice is the same set of rows wherever it is computed.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from simzk.partitions.failure_sets import FailureSpec
from simzk.partitions.what_if import Outcome, WhatIf
from simzk.pipeline.columns import batches
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from simzk.partitions.failure_sets import FailureSet
    from simzk.partitions.layouts import Brokers, Layout

ROWS_PER_BATCH = 4096


class NumberedSet(NamedTuple):
    """A failure set, its number in the sweep, and the specification that it comes from."""

    number: int
    spec: FailureSpec
    failed: FailureSet


def parse_specs(text: str) -> tuple[FailureSpec, ...]:
    """Specifications separated by commas.

    >>> [str(spec) for spec in parse_specs("brokers:1,racks:1")]
    ['brokers:1', 'racks:1']
    """
    return tuple(FailureSpec.parse(part) for part in text.split(","))


def count_sets(specs: Sequence[FailureSpec], brokers: Brokers) -> int:
    """How many failure sets the specifications have in all.

    Raises:
        ConfigError: a specification does not fit the cluster, or has too many sets.
    """
    return sum(spec.size(brokers) for spec in specs)


def numbered_sets(specs: Sequence[FailureSpec], brokers: Brokers, start: int, stop: int) -> Iterator[NumberedSet]:
    """The failure sets with the numbers `start` to `stop`."""
    sizes = [spec.size(brokers) for spec in specs]
    for spec, first, end in zip(specs, accumulate([0, *sizes]), accumulate(sizes), strict=False):
        begin, finish = max(start, first), min(stop, end)
        if begin < finish:
            for number, failed in enumerate(spec.sets(brokers, begin - first, finish - first), start=begin):
                yield NumberedSet(number, spec, failed)


def failures_schema() -> pa.Schema:
    """The Arrow schema of the table `failures`; what each count means stands at `Outcome`."""
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


def failure_batches(what_if: WhatIf, specs: Sequence[FailureSpec], start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """The rows `start` to `stop` of the table `failures`, in batches."""
    rows = (
        (
            row.number,
            str(row.spec),
            row.failed.brokers,
            row.failed.racks,
            *what_if.fail(row.failed.brokers),
        )
        for row in numbered_sets(specs, what_if.layout.brokers, start, stop)
    )
    return batches(rows, failures_schema(), ROWS_PER_BATCH)


def failures_table(layout: Layout, specs: Sequence[FailureSpec]) -> pa.Table:
    """The whole table `failures` in this process, without Spark.

    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> layout = generate_layout(brokers_in_racks(3, 3), topics=1, partitions=6, replication_factor=2, seed=0)
    >>> failures_table(layout, parse_specs("brokers:1"))["under_replicated"].to_pylist()
    [4, 4, 4]
    """
    import pyarrow as pa

    batches = failure_batches(WhatIf(layout), specs, 0, count_sets(specs, layout.brokers))
    return pa.Table.from_batches(batches, schema=failures_schema())
