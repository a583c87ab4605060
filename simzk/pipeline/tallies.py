"""What failure sets do to each topic, broker and rack: sums and extremes, gathered where the sets are computed.

Rules of this module:
  - a tally of some sets can be added to a tally of others, in any order, and the whole is the same: all figures are
    integers, sums of them, or the largest with the lowest number of a set that shows it;
  - a topic has figures of the sets that take one of its partitions offline, or under min ISR; a broker or a rack of the
    sets in which it fails (a rack: at least one broker of it), and its load in those in which any of it is left.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from simzk.partitions.failure_sets import FailureSet
    from simzk.partitions.what_if import Consequences, WhatIf

TOPIC, BROKER, RACK = "topic", "broker", "rack"

FIGURES = ("offline", "under_min_isr", "leaders")
"""What is tallied: newly offline partitions, those newly under min ISR, leaders after."""

NO_SET = np.iinfo(np.int64).max


class Figure:
    """One figure of many things: over some sets, its sum, how many sets had it, the most of it and the set of that."""

    def __init__(self, things: int) -> None:
        self.sets = np.zeros(things, np.int64)
        self.total = np.zeros(things, np.int64)
        self.most = np.full(things, NONE, np.int64)
        self.most_set = np.full(things, NO_SET, np.int64)

    def add(self, number: int, things: NDArray[np.intp], values: NDArray[np.int64] | int) -> None:
        """Take in a set; the sets come by ascending number, and each thing once."""
        self.sets[things] += 1
        self.total[things] += values
        more = self.most[things] < values
        worse = things[more]
        self.most[worse] = values if isinstance(values, int) else values[more]
        self.most_set[worse] = number


class Tally:
    """The figures of every topic, broker and rack over some of the sets of one specification.

    Args:
        what_if: the cluster.
    """

    def __init__(self, what_if: WhatIf) -> None:
        brokers = what_if.brokers
        self._brokers = brokers
        self._rack_names = brokers.rack_names
        self._rack_of = np.array([self._rack_names.index(rack) if rack else NONE for rack in brokers.racks], np.intp)
        sizes = {TOPIC: len(what_if.topics), BROKER: len(brokers.ids), RACK: len(self._rack_names)}
        self.figures = {kind: {name: Figure(size) for name in FIGURES} for kind, size in sizes.items()}

    def add(self, number: int, failed: FailureSet, found: Consequences) -> None:
        """Take in a set and what it leaves."""
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

    def rows(self, fail: str) -> Iterator[tuple[object, ...]]:
        """What was taken in, as rows of `shares_schema`."""
        for kind, figures in self.figures.items():
            for name, figure in figures.items():
                for thing in np.flatnonzero(figure.sets).tolist():
                    numbers = (figure.sets, figure.total, figure.most, figure.most_set)
                    yield (fail, kind, thing, name, *(int(column[thing]) for column in numbers))


@cache
def shares_schema() -> pa.Schema:
    """One figure of one thing over some sets; rows of the same figure are to be added up."""
    import pyarrow as pa

    return pa.schema(
        [
            ("fail", pa.string()),
            ("kind", pa.string()),
            ("thing", pa.int32()),
            ("figure", pa.string()),
            *((name, pa.int64()) for name in ("sets", "total", "most", "most_set")),
        ]
    )


Merged = dict[tuple[str, str], dict[int, dict[str, tuple[int, int, int, int]]]]
"""By specification and kind, then by thing and figure: sets, total, most, most_set."""


def merged(rows: Sequence[tuple[str, str, int, str, int, int, int, int]]) -> Merged:
    """Rows of `shares_schema`, added up.

    >>> rows = [("brokers:1", "topic", 0, "offline", 1, 3, 3, 8), ("brokers:1", "topic", 0, "offline", 2, 5, 3, 4)]
    >>> merged(rows)
    {('brokers:1', 'topic'): {0: {'offline': (3, 8, 3, 4)}}}
    """
    added: Merged = {}
    for fail, kind, thing, figure, sets, total, most, most_set in rows:
        figures = added.setdefault((fail, kind), {}).setdefault(thing, {})
        before = figures.get(figure, (0, 0, NONE, int(NO_SET)))
        top = min((-before[2], before[3]), (-most, most_set))
        figures[figure] = (before[0] + sets, before[1] + total, -top[0], top[1])
    return added
