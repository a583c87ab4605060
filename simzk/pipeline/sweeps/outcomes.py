"""Results of a slice of failure sets as Arrow batches: rows of `failures`, and figures per topic, broker and rack.

Rules of this module:
  - the failure sets of all specifications are numbered consecutively, so any slice gives the same rows in any process;
  - tallies can be added in any order with the same result: all figures are integer sums, or a maximum with the lowest
    number of a set that has it;
  - a topic counts the sets that take one of its partitions offline or below min ISR; a broker or rack counts the sets
    in which it (or a broker of the rack) fails, and its load in the sets that it survives.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE
from simzk.partitions.failures.sets import parse_failures
from simzk.partitions.failures.what_if import Outcome, WhatIf
from simzk.pipeline.data_source import batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from simzk.partitions.failures.sets import AnyFailure, FailureSet
    from simzk.partitions.failures.what_if import Consequences
    from simzk.partitions.layouts import Brokers

TOPIC, BROKER, RACK = KINDS = ("topic", "broker", "rack")

OFFLINE, UNDER_MIN_ISR, LEADERS = FIGURES = ("offline", "under_min_isr", "leaders")
"""Figures: partitions newly offline, partitions newly below min ISR, leaders after the failure."""

NO_SET = np.iinfo(np.int64).max


class Figure:
    """One figure of many topics, brokers or racks: number of sets, sum, maximum, and the set with the maximum."""

    def __init__(self, things: int) -> None:
        self.sets = np.zeros(things, np.int64)
        self.total = np.zeros(things, np.int64)
        self.most = np.full(things, NONE, np.int64)
        self.most_set = np.full(things, NO_SET, np.int64)

    def add(self, number: int, things: NDArray[np.intp], values: NDArray[np.int64] | int) -> None:
        """Add a set; sets arrive in ascending order, each thing once."""
        self.sets[things] += 1
        self.total[things] += values
        more = self.most[things] < values
        worse = things[more]
        self.most[worse] = values if isinstance(values, int) else values[more]
        self.most_set[worse] = number


class Tally:
    """Figures of every topic, broker and rack over some sets of one specification.

    Args:
        what_if: the prepared layout.
    """

    def __init__(self, what_if: WhatIf) -> None:
        brokers = what_if.brokers
        self._brokers = brokers
        self._rack_names = brokers.rack_names
        self._rack_of = np.array([self._rack_names.index(rack) if rack else NONE for rack in brokers.racks], np.intp)
        sizes = {TOPIC: len(what_if.topics), BROKER: len(brokers.ids), RACK: len(self._rack_names)}
        self.figures = {kind: {name: Figure(size) for name in FIGURES} for kind, size in sizes.items()}

    def add(self, number: int, failed: FailureSet, found: Consequences) -> None:
        """Add a set and its outcome."""
        for name, topics in (("offline", found.offline), ("under_min_isr", found.under_min_isr)):
            hit, counts = np.unique(topics, return_counts=True)
            self.figures[TOPIC][name].add(number, hit.astype(np.intp), counts.astype(np.int64))
        down = self._brokers.positions_of(np.array(failed.brokers, np.int32)).astype(np.intp)
        racks = np.unique(self._rack_of[down])
        for kind, things in ((BROKER, down), (RACK, racks[racks != NONE])):
            for name in ("offline", "under_min_isr"):
                self.figures[kind][name].add(number, things, len(getattr(found, name)))
        up = self._brokers.live.copy()
        up[down] = False
        leaders = found.leaders.astype(np.int64)
        self.figures[BROKER]["leaders"].add(number, np.flatnonzero(up), leaders[up])
        self.figures[RACK]["leaders"].add(number, *self._loads(leaders, up))

    def _loads(self, leaders: NDArray[np.int64], up: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        racked = up & (self._rack_of != NONE)
        loads = np.zeros(len(self._rack_names), np.int64)
        np.add.at(loads, self._rack_of[racked], leaders[racked])
        some = np.unique(self._rack_of[racked])
        return some, loads[some]

    def shares(self, spec: int) -> pa.RecordBatch:
        """Return the figures as rows of `shares_schema`.

        Args:
            spec: index of the specification in the sweep.
        """
        import pyarrow as pa

        found: list[tuple[NDArray[np.intp], ...]] = []
        for kind, figures in enumerate(self.figures.values()):
            for name, figure in enumerate(figures.values()):
                things = np.flatnonzero(figure.sets)
                whose = (np.full(len(things), spec), np.full(len(things), kind), things, np.full(len(things), name))
                numbers = (figure.sets, figure.total, figure.most, figure.most_set)
                found.append((*whose, *(column[things] for column in numbers)))
        columns = map(np.concatenate, zip(*found, strict=True))
        arrays = [pa.array(column, kind) for column, kind in zip(columns, shares_schema().types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=shares_schema())


@cache
def shares_schema() -> pa.Schema:
    """Return the schema of one figure of one thing over some sets; rows of the same figure are summed.

    Specifications are indices in the sweep, kinds and figures indices in `KINDS` and `FIGURES`.
    """
    import pyarrow as pa

    whose = [("spec", pa.int32()), ("kind", pa.int8()), ("thing", pa.int32()), ("figure", pa.int8())]
    return pa.schema([*whose, *((name, pa.int64()) for name in ("sets", "total", "most", "most_set"))])


class Shares(NamedTuple):
    """Columns of `shares_schema` with unique figures, sorted by spec, kind, thing and figure."""

    spec: NDArray[np.int64]
    kind: NDArray[np.int64]
    thing: NDArray[np.int64]
    figure: NDArray[np.int64]
    sets: NDArray[np.int64]
    total: NDArray[np.int64]
    most: NDArray[np.int64]
    most_set: NDArray[np.int64]

    def at(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Shares:
        """Return the rows selected by a mask or by indices."""
        return Shares(*(column[rows] for column in self))


def added_up(rows_to_add: Iterable[pa.RecordBatch], before: Shares | None = None) -> Shares:
    """Sum rows of `shares_schema`.

    Args:
        rows_to_add: batches of rows.
        before: earlier sum to add to.

    >>> import pyarrow as pa
    >>> rows = [(0, 0, 7, 0, 1, 3, 3, 8), (0, 0, 7, 0, 2, 5, 3, 4)]
    >>> columns = [pa.array(column, type) for column, type in zip(zip(*rows), shares_schema().types)]
    >>> added = added_up([pa.RecordBatch.from_arrays(columns, schema=shares_schema())])
    >>> [column.item() for column in added]
    [0, 0, 7, 0, 3, 8, 3, 4]
    """
    parts = [] if before is None else [before]
    parts += [Shares(*(np.asarray(column, np.int64) for column in batch.columns)) for batch in rows_to_add]
    empty = Shares(*(np.zeros(0, np.int64) for _ in Shares._fields))
    rows = Shares(*map(np.concatenate, zip(empty, *parts, strict=True)))
    # Sort the maximum of each figure first, ties by the lowest number of a set.
    order = np.lexsort((rows.most_set, -rows.most, rows.figure, rows.thing, rows.kind, rows.spec))
    rows = rows.at(order)
    first = np.ones(len(order), np.bool_)
    first[1:] = np.any([column[1:] != column[:-1] for column in rows[:4]], axis=0)
    begins = np.flatnonzero(first)
    if not len(begins):
        return rows
    sums = {name: np.add.reduceat(getattr(rows, name), begins) for name in ("sets", "total")}
    return rows.at(begins)._replace(**sums)


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
        columns = [batch.to_struct_array(), pa.nulls(len(batch), share.type)]
        yield pa.RecordBatch.from_arrays(columns, schema=slice_schema())
    for batch in shares:
        columns = [pa.nulls(len(batch), failure.type), batch.to_struct_array()]
        yield pa.RecordBatch.from_arrays(columns, schema=slice_schema())


def parts_of_slices(slices: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split rows of `slice_schema` into rows of `failures` and figures."""
    import pyarrow as pa

    failures, shares = (
        pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(chunk.drop_null()) for chunk in column.chunks], schema=schema
        )
        for column, schema in zip(slices.columns, (failures_schema(), shares_schema()), strict=True)
    )
    return failures, shares
