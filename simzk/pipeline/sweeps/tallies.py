"""Figures of failure sets per topic, broker and rack: sums and maxima, computed beside the sets.

Rules of this module:
  - tallies can be added in any order with the same result: all figures are integer sums, or a maximum with the lowest
    number of a set that has it;
  - a topic counts the sets that take one of its partitions offline or below min ISR; a broker or rack counts the sets
    in which it (or a broker of the rack) fails, and its load in the sets that it survives.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from simzk.partitions.failures.sets import FailureSet
    from simzk.partitions.failures.what_if import Consequences, WhatIf

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


def added_up(told: Iterable[pa.RecordBatch], before: Shares | None = None) -> Shares:
    """Sum rows of `shares_schema`.

    Args:
        told: rows to add.
        before: earlier sum to add to.

    >>> import pyarrow as pa
    >>> rows = [(0, 0, 7, 0, 1, 3, 3, 8), (0, 0, 7, 0, 2, 5, 3, 4)]
    >>> columns = [pa.array(column, type) for column, type in zip(zip(*rows), shares_schema().types)]
    >>> added = added_up([pa.RecordBatch.from_arrays(columns, schema=shares_schema())])
    >>> [column.item() for column in added]
    [0, 0, 7, 0, 3, 8, 3, 4]
    """
    parts = [] if before is None else [before]
    parts += [Shares(*(np.asarray(column, np.int64) for column in batch.columns)) for batch in told]
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
