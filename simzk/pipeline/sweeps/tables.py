"""Tables of a sweep beside `failures`: per topic, broker and rack, and the estimates of each specification.

docs/layout.md documents the columns.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE
from simzk.pipeline.data_source import batches
from simzk.pipeline.sweeps.outcomes import BROKER, FIGURES, KINDS, LEADERS, OFFLINE, RACK, TOPIC, UNDER_MIN_ISR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from simzk.partitions.failures.what_if import WhatIf
    from simzk.pipeline.sweeps.outcomes import Shares

Z = 1.959963984540054
"""Standard deviations that contain 95 % of a normal distribution."""

ESTIMATED = ("newly_offline", "lost", "leaders_moved", "under_min_isr", "under_replicated")
"""Columns of the table `failures` whose distribution over the sets is estimated."""


WORST_SETS = 15
"""Number of the worst failure sets whose partitions are listed."""
PARTITIONS_OF_SET_MAX = 1000
"""Maximum number of listed partitions of a failure set."""


def worst_table(what_if: WhatIf, numbers: NDArray[np.int32], worst: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return the partitions that the worst failure sets take offline or below min ISR, the offline ones first.

    Args:
        what_if: the prepared layout.
        numbers: the number in its topic of each partition of the layout.
        worst: rows of `failures`.
    """
    import pyarrow as pa

    parts = []
    for row in worst:
        failed = row["brokers"]
        assert isinstance(failed, list)
        found = what_if.affected(failed)
        first = slice(0, PARTITIONS_OF_SET_MAX)
        topics = [what_if.topics[topic] for topic in found.topic[first].tolist()]
        states = ["offline" if offline else "under min ISR" for offline in found.offline[first].tolist()]
        columns = (
            pa.array([row["failure_set"]] * len(topics), pa.int64()),
            pa.array(topics, pa.string()),
            pa.array(numbers.take(found.rows[first]), pa.int32()),
            pa.array(states, pa.string()),
            pa.array(found.leader_before[first], pa.int32()),
            pa.array(found.in_sync[first], pa.int32()),
        )
        parts.append(pa.table(columns, schema=_worst_schema()))
    return pa.concat_tables([_worst_schema().empty_table(), *parts])


def _worst_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("failure_set", pa.int64()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("state", pa.string()),
            ("leader_before", pa.int32()),
            ("in_sync", pa.int32()),
        ]
    )


def things_tables(what_if: WhatIf, fails: Sequence[str], found: Shares) -> dict[str, pa.Table]:
    """Return the tables `topics`, `brokers` and `racks`, worst first in each specification.

    Args:
        what_if: the prepared layout.
        fails: the specifications.
        found: figures over all sets.
    """
    import pyarrow as pa

    brokers = what_if.brokers
    racks = {rack: place for place, rack in enumerate(brokers.rack_names)}
    rack_loads = np.zeros(len(racks), np.int64)
    for rack, load in zip(brokers.racks, what_if.leaders.tolist(), strict=True):
        if rack in racks:
            rack_loads[racks[rack]] += load
    kinds: dict[str, tuple[str, pa.Array, NDArray[np.int64] | None]] = {
        "topics": (TOPIC, pa.array(what_if.topics, pa.string()), None),
        "brokers": (BROKER, pa.array(brokers.ids, pa.int32()), what_if.leaders.astype(np.int64)),
        "racks": (RACK, pa.array(brokers.rack_names, pa.string()), rack_loads),
    }
    return {
        table: _things_table(kind, fails, names, loads, found.at(found.kind == KINDS.index(kind)))
        for table, (kind, names, loads) in kinds.items()
    }


def _things_table(
    kind: str, fails: Sequence[str], names: pa.Array, loads: NDArray[np.int64] | None, found: Shares
) -> pa.Table:
    import pyarrow as pa

    first = np.ones(len(found.thing), np.bool_)
    first[1:] = (found.spec[1:] != found.spec[:-1]) | (found.thing[1:] != found.thing[:-1])
    row_of, spec, thing = np.cumsum(first) - 1, found.spec[first], found.thing[first]

    def of(figure: str, name: str, absent: int = 0) -> NDArray[np.int64]:
        """Return a column of a figure per row."""
        column = np.full(len(thing), absent)
        some = found.figure == FIGURES.index(figure)
        column[row_of[some]] = getattr(found, name)[some]
        return column

    numbers: dict[str, pa.Array] = {"sets": pa.array(of(OFFLINE, "sets"))}
    for figure in (OFFLINE, UNDER_MIN_ISR):
        most = of(figure, "most")
        # A row without a hit has no worst set.
        worst = pa.array(of(figure, "most_set"), mask=most == 0)
        numbers |= {figure: pa.array(of(figure, "total")), f"{figure}_most": pa.array(most), f"{figure}_set": worst}
    if loads is not None:
        most = of(LEADERS, "most", NONE)
        numbers |= {"leaders_before": pa.array(loads[thing]), "leaders_most": pa.array(most, mask=most == NONE)}
        numbers |= {"leaders_set": pa.array(of(LEADERS, "most_set"), mask=most == NONE)}
    table = pa.table(
        {"fail": pa.array(fails, pa.string()).take(pa.array(spec)), kind: names.take(pa.array(thing)), **numbers}
    )
    order = np.lexsort((thing, -of(UNDER_MIN_ISR, "total"), -of(OFFLINE, "total"), spec))
    return table.take(pa.array(order))


class Sums(NamedTuple):
    """Exact sums of a count over the evaluated failure sets.

    Args:
        sets: number of evaluated sets.
        total: sum of the counts.
        squares: sum of their squares.
        hit: number of sets with a count above zero.
        most: the largest count.
    """

    sets: int
    total: int
    squares: int
    hit: int
    most: int


class Estimate(NamedTuple):
    """Estimate of a count over all sets of a specification.

    Args:
        mean, mean_low, mean_high: partitions per set with 95 % bounds; no bounds if all counts of a sample are equal.
        share, share_low, share_high: share of the sets with a count above zero, with bounds.
        most: largest observed count.
    """

    mean: float
    mean_low: float | None
    mean_high: float | None
    share: float
    share_low: float
    share_high: float
    most: int


def estimate(sums: Sums, population: int) -> Estimate:
    """Estimate a count over all sets from the sums over some; exact if all were evaluated.

    The mean's bounds are normal with the correction for a finite population. The share's bounds are Wilson's, which
    also suit rare events: if none of a thousand sets has a hit, at most 0.4 % of all sets have one.

    Args:
        sums: sums over at least one evaluated set.
        population: number of all sets.

    >>> estimate(Sums(sets=1000, total=0, squares=0, hit=0, most=0), population=10**6).share_high
    0.0038267584...
    >>> estimate(Sums(sets=4, total=8, squares=24, hit=3, most=4), population=4)
    Estimate(mean=2.0, mean_low=2.0, mean_high=2.0, share=0.75, share_low=0.75, share_high=0.75, most=4)
    """
    count, mean, share = sums.sets, sums.total / sums.sets, sums.hit / sums.sets
    if count >= population:
        return Estimate(mean, mean, mean, share, share, share, sums.most)
    low: float | None = None
    high: float | None = None
    spread = sums.squares * count - sums.total**2  # exact: count squared times the variance
    if spread:
        correction = (population - count) / (population - 1)
        error = Z * sqrt(spread / (count * (count - 1)) * correction / count)
        low, high = max(mean - error, 0.0), mean + error
    weight = Z * Z / count
    middle = (share + weight / 2) / (1 + weight)
    reach = Z / (1 + weight) * sqrt(share * (1 - share) / count + weight / (4 * count))
    # At 0 and 1 the bounds are exact but for rounding.
    least, greatest = middle - reach if sums.hit else 0.0, middle + reach if sums.hit < count else 1.0
    return Estimate(mean, low, high, share, least, greatest, sums.most)


def sums_of(failures: Iterable[pa.RecordBatch]) -> dict[tuple[str, str], Sums]:
    """Return the sums of each estimated column per specification, over rows of `failures`."""
    import pyarrow.compute as pc

    found: dict[tuple[str, str], Sums] = {}
    for batch in failures:
        for fail in pc.unique(batch["fail"]).to_pylist():
            rows = batch.filter(pc.equal(batch["fail"], fail))
            for name in ESTIMATED:
                counts = rows[name].to_pylist()
                before = found.get((fail, name), Sums(0, 0, 0, 0, 0))
                found[fail, name] = Sums(
                    before.sets + len(counts),
                    before.total + sum(counts),
                    before.squares + sum(count * count for count in counts),
                    before.hit + sum(count > 0 for count in counts),
                    max(before.most, max(counts)),
                )
    return found


def estimates_table(failures: Iterable[pa.RecordBatch], populations: Mapping[str, int]) -> pa.Table:
    """Return the table `estimates`: each estimated count of each specification.

    Args:
        failures: rows of the table `failures`.
        populations: number of sets of each specification, evaluated or not.
    """
    import pyarrow as pa

    found = sums_of(failures)
    numbers = [(name, pa.int64() if name == "most" else pa.float64()) for name in Estimate._fields]
    head = [("fail", pa.string()), ("count", pa.string()), ("population", pa.float64())]
    schema = pa.schema([*head, ("sets", pa.int64()), ("exact", pa.bool_()), *numbers])

    def rows() -> Iterator[tuple[object, ...]]:
        for fail, population in populations.items():
            for name in ESTIMATED:
                sums = found[fail, name]
                exact = sums.sets >= population
                yield (fail, name, float(population), sums.sets, exact, *estimate(sums, population))

    return pa.Table.from_batches(batches(rows(), schema), schema=schema)
