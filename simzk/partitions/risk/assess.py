"""Risk figures of topics and of a cluster under one assignment, exact or estimated; docs/risk.md defines each figure.

Large unions of sets of replicas are estimated from sampled outages. Minimal cuts:

1. A component is a broker or a rack; components are up or down independently. Brokers are numbered by position, racks
   after them.
2. A cut is a set of components whose failure takes a set of replicas down: for each of its racks, either the rack or
   all of the set's brokers in it. Sets share cuts, such as a rack with a thousand sets.
3. A cut goes down as often as it comes back: the share of time in which it is down times the repairs of its components
   per year (Barlow, Proschan 1975).

Estimation:

4. Outages of one cut are rare, but the distribution of the cluster's state at an outage is known exactly. A sample is a
   cut, the component of it that fails last, drawn by frequency, and then the state of all other components. If n cuts
   go down at that moment the sample counts as 1/n, so each outage counts once (Karp, Luby 1983). The relative error is
   small however rare the union is.
5. The same samples estimate two figures, frequency and share of time. A rare, long outage is a small part of the first
   and may be most of the second, so half of the samples are drawn by frequency, half by frequency times maximum
   duration, and each is weighted in both figures; no weight exceeds 2 (Owen, Zhou 2000: mixture importance sampling).
6. A figure is the exact sum over all cuts times the share that samples keep; overlap between cuts is removed. The share
   is a mean of numbers from 0 to 1. Its interval is that of such a mean with four additional samples, two of 0 and two
   of 1, each of maximum weight (Agresti, Coull 1998), so that it has a width even if all samples are equal.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.draws import Draws
from simzk.partitions.risk.cut_sets import (
    MOST_COMPONENTS,
    Bounds,
    EstimatedFigure,
    Union,
    bounds,
    components_of,
    cut_sets,
    distinct,
    union_exact,
    yearly,
)
from simzk.partitions.risk.rates import MINUTES_PER_YEAR, Rates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray
    from simzk.partitions.risk.cut_sets import CutSets, ReplicaSets

SAMPLES = 400
"""Default number of samples per union."""


class ClusterRates(NamedTuple):
    """The rates of both kinds of failure.

    Args:
        outage: a broker or rack is unreachable until it is back.
        loss: its disks are lost until their data is replicated again.
    """

    outage: Rates
    loss: Rates


class Risk(NamedTuple):
    """Risk of some partitions in a year; times in minutes per year.

    `_low` and `_high` are the 95 % confidence interval, `_least` and `_most` limits that hold in any case.

    Args:
        partitions: number of partitions.
        replica_sets: number of distinct sets of brokers.
        exact: whether all states were enumerated; sampled otherwise.
        outages_per_year: a partition goes offline while none is.
        outage_probability: of a year with such an outage.
        offline_minutes: with at least one partition offline.
        partition_minutes: offline minutes summed over all partitions; a tight upper bound.
        dark_minutes: those of them without any live replica: they remain with unclean elections.
        losses_per_year: all replicas of a partition are lost while none is.
        loss_probability: of a year with such a loss.
        partitions_lost: per year.
    """

    partitions: int
    replica_sets: int
    exact: bool
    outages_per_year: float
    outages_per_year_low: float
    outages_per_year_high: float
    outage_probability: float
    outage_probability_low: float
    outage_probability_high: float
    outage_probability_least: float
    outage_probability_most: float
    offline_minutes: float
    offline_minutes_low: float
    offline_minutes_high: float
    offline_minutes_least: float
    offline_minutes_most: float
    partition_minutes: float
    dark_minutes: float
    losses_per_year: float
    losses_per_year_low: float
    losses_per_year_high: float
    loss_probability: float
    loss_probability_low: float
    loss_probability_high: float
    loss_probability_least: float
    loss_probability_most: float
    partitions_lost: float


class Assessor:
    """An assignment with rates, prepared to return the risk of any topic.

    Args:
        rates: of the cluster.
        sets: the assignment.
        samples: samples per union that is not enumerated.
        seed: of the samples.

    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> from simzk.partitions.risk.rates import Rate, rates_of
    >>> from simzk.partitions.risk.cut_sets import replica_sets
    >>> layout = generate_layout(brokers_in_racks(3, 3), topics=1, partitions=6, replication_factor=2, seed=1)
    >>> racks = dict.fromkeys(layout.brokers.rack_names, Rate(0.1, 4.0))
    >>> rates = rates_of(layout.brokers, [Rate(2.0, 1.0)] * 3, racks)
    >>> sets = replica_sets(layout.brokers, 1, layout.topic, layout.replicas)
    >>> risk = Assessor(ClusterRates(rates, rates), sets).topic(0)
    >>> risk.replica_sets, risk.exact, round(risk.outage_probability, 5), round(risk.offline_minutes, 3)
    (3, True, 0.00344, 0.236)
    """

    def __init__(self, rates: ClusterRates, sets: ReplicaSets, samples: int = SAMPLES, seed: int = 0) -> None:
        assert len(rates.outage.fail) == len(rates.loss.fail)
        self._sets = sets
        self._seed = seed
        self._rates = rates
        self._cuts = [cut_sets(some, sets.places) for some in rates]
        self._background = [background(some, seed, samples) for some in rates]
        self._found: dict[bytes, tuple[Union, Union]] = {}

    def topic(self, number: int) -> Risk:
        """Return the risk of a topic, by its number."""
        return self._risk(*self._sets.of_topic(number))

    def cluster(self) -> Risk:
        """Return the risk of all partitions together."""
        return self._risk(np.arange(len(self._sets.places)), self._sets.partitions)

    def _risk(self, chosen: NDArray[np.intp], partitions: NDArray[np.int64]) -> Risk:
        assert len(chosen) == len(partitions)
        outage, loss = (cuts.take(chosen) for cuts in self._cuts)
        outages, losses = self._unions(chosen)
        sure, sure_loss = bounds(outage), bounds(loss)
        least, most = sure.offline_least, sure.offline_most
        within = (min(max(share, least), most) for share in outages.offline)
        figures: list[float] = [
            *outages.per_year,
            *_probability(outages, sure),
            *(MINUTES_PER_YEAR * share for share in (*within, least, most)),
            MINUTES_PER_YEAR * float((outage.offline * partitions).sum()),
            MINUTES_PER_YEAR * float((outage.down * partitions).sum()),
            *losses.per_year,
            *_probability(losses, sure_loss),
            float((loss.per_year * partitions).sum()),
        ]
        return Risk(int(partitions.sum()), len(chosen), outages.exact and losses.exact, *figures)

    def _unions(self, chosen: NDArray[np.intp]) -> tuple[Union, Union]:
        """Return the unions of outages and of losses; cached, because topics often share their sets."""
        key = chosen.tobytes()
        if key not in self._found:
            self._found[key] = self._union(0, chosen), self._union(1, chosen)
        return self._found[key]

    def _union(self, kind: int, chosen: NDArray[np.intp]) -> Union:
        rates, cuts = self._rates[kind], self._cuts[kind].take(chosen)
        if sum(map(len, components_of(rates, cuts))) <= MOST_COMPONENTS:
            return union_exact(rates, cuts)
        return union_sampled(rates, cuts, self._background[kind], self._seed)


def _probability(union: Union, sure: Bounds) -> tuple[float, float, float, float, float]:
    """Return the probability of a year with such an event and its interval, limited by the bounds, and the bounds."""
    least, most = sure.probability_least, sure.probability_most
    value, low, high = (min(max(yearly(often), least), most) for often in union.per_year)
    return value, low, high, least, most


MOST_RACKS = 8
"""Maximum racks that can fail in a set that is split into cuts: more would give more than 256 cuts each."""

_MIN_FREQUENCY = float(np.finfo(np.float64).tiny)
"""Rarer cuts are omitted: floating-point numbers lose precision below."""

_SETS_AT_ONCE = 1 << 16


class Components(NamedTuple):
    """Brokers, the padding and racks: c components.

    Args:
        down: float64[c], share of time that each is down; 1 for the padding.
        repair: float64[c], repairs per year of downtime; 0 for the padding.
        wait: float64[c], maximum years offline after an outage that its failure causes; 0 if it causes none.
        least_wait: float64[c], minimum years: brokers of a rack may have different repair times.
    """

    down: NDArray[np.float64]
    repair: NDArray[np.float64]
    wait: NDArray[np.float64]
    least_wait: NDArray[np.float64]


class MinimalCuts(NamedTuple):
    """The k distinct cuts of some sets that can go down.

    Args:
        parts: intp[k, w], the components of each, ascending, padded.
        per_year: float64[k], outages per year.
        share: float64[k], outages per year times their maximum duration.
    """

    parts: NDArray[np.intp]
    per_year: NDArray[np.float64]
    share: NDArray[np.float64]


def components(rates: Rates, cuts: CutSets) -> Components:
    """Return the components of a cluster, with the waiting times of these sets."""
    brokers = len(rates.fail)
    count = brokers + len(rates.rack_fail)
    racks = (brokers + rates.rack[cuts.places]).ravel()
    wait, least = np.zeros(count), np.full(count, np.inf)
    wait[cuts.places.ravel()] = least[cuts.places.ravel()] = cuts.wait_broker.ravel()
    np.maximum.at(wait, racks, cuts.wait_rack.ravel())
    np.minimum.at(least, racks, cuts.wait_rack.ravel())
    repair = np.concatenate([rates.repair, rates.rack_repair])
    repair[brokers - 1] = wait[brokers - 1] = 0.0
    assert len(rates.down) == brokers, "the racks are numbered after the brokers"
    return Components(np.concatenate([rates.down, rates.rack_down]), repair, wait, np.minimum(wait, least))


def is_wide(rates: Rates, cuts: CutSets) -> BoolArray:
    """Return which sets have more racks that can fail than `MOST_RACKS`, bool[m]."""
    wide: BoolArray = _failing_heads(rates, cuts).sum(axis=1) > MOST_RACKS
    return wide


def minimal_cuts(rates: Rates, cuts: CutSets, of: Components) -> MinimalCuts:
    """Return the cuts of sets of replicas.

    Args:
        rates: of the cluster.
        cuts: distinct sets, none wide.
        of: the components of the cluster.

    >>> from simzk.partitions.layouts import brokers_in_racks
    >>> from simzk.partitions.risk.cut_sets import cut_sets
    >>> from simzk.partitions.risk.rates import Rate, rates_of
    >>> racks = {"rack1": Rate(0.1, 4.0), "rack2": Rate(0.1, 4.0)}
    >>> rates = rates_of(brokers_in_racks(4, 2), [Rate(2.0, 1.0)] * 4, racks)
    >>> rates.rack.tolist()
    [0, 1, 0, 1, 2]
    >>> sets = cut_sets(rates, np.array([[0, 1], [0, 3]]))  # one in each rack; the racks are 5 and 6
    >>> minimal_cuts(rates, sets, components(rates, sets)).parts.tolist()
    [[0, 1], [0, 3], [0, 6], [1, 5], [3, 5], [5, 6]]
    """
    base = len(of.down)
    assert not is_wide(rates, cuts).any()
    heads = _failing_heads(rates, cuts)
    found = [
        distinct(_all_cuts(rates, cuts, heads, slice(start, start + _SETS_AT_ONCE)), base)
        for start in range(0, len(cuts.places), _SETS_AT_ONCE)
    ]
    parts = found[0] if len(found) == 1 else distinct(np.concatenate(found), base)
    down = of.down[parts].prod(axis=1)
    often = down * of.repair[parts].sum(axis=1)
    share = down * (of.repair * of.wait)[parts].sum(axis=1)
    ever = np.minimum(often, share) >= _MIN_FREQUENCY
    return MinimalCuts(parts[ever], often[ever], share[ever])


def _failing_heads(rates: Rates, cuts: CutSets) -> BoolArray:
    """Return the first places in racks that can fail, bool[m, w]."""
    heads: BoolArray = (cuts.first == np.arange(cuts.first.shape[1])) & (rates.rack_fail[rates.rack[cuts.places]] > 0)
    return heads


def _all_cuts(rates: Rates, cuts: CutSets, heads: BoolArray, some: slice) -> NDArray[np.intp]:
    """Return all cuts of some sets; shared cuts are repeated."""
    padding = len(rates.fail) - 1
    first, heads = cuts.first[some], heads[some]
    racks = padding + 1 + rates.rack[cuts.places[some]]
    parts, sets = cuts.places[some], np.arange(len(first))
    for place in np.flatnonzero(heads.any(axis=0)):
        by_rack = sets[heads[sets, place]]
        more = np.where(first[by_rack] == place, padding, parts[heads[sets, place]])
        more[:, place] = racks[by_rack, place]
        parts, sets = np.concatenate([parts, more]), np.concatenate([sets, by_rack])
    return np.sort(parts, axis=1)


_ROWS_AT_ONCE = 1 << 15
_WORD = 64
_Z = 1.959963984540054
_NO_RISK = Union(EstimatedFigure(0.0, 0.0, 0.0), EstimatedFigure(0.0, 0.0, 0.0), exact=True)


def background(rates: Rates, seed: int, samples: int) -> BoolArray:
    """Sample states of a cluster.

    Returns:
        bool[c, s], whether a component is down in a sample.
    """
    down = np.concatenate([rates.down, rates.rack_down])
    assert samples > 0
    return Draws(b"background %d" % seed).uniforms(len(down), samples) < down[:, None]


def union_sampled(rates: Rates, cuts: CutSets, background_states: BoolArray, seed: int) -> Union:
    """Estimate the risk of a union of sets.

    Args:
        rates: of the cluster.
        cuts: one or more distinct sets.
        background_states: bool[c, s], sampled states of the other components, from `background`.
        seed: of the samples; equal sets get equal samples.
    """
    wide = is_wide(rates, cuts)
    if wide.any():
        return _union_with_wide(rates, cuts, wide, background_states, seed)
    of = components(rates, cuts)
    minimal = minimal_cuts(rates, cuts, of)
    if not len(minimal.parts):
        return _NO_RISK
    draws = Draws(b"union %d " % seed + cuts.places.astype("<i8").tobytes())
    outages = _sample_outages(of, minimal, background_states.shape[1], draws)
    before, after = _states(outages, background_states)
    down_before, down_after = _counts(minimal.parts, before, after)
    assert (down_after > down_before).all(), "each sampled outage takes a cut down"
    counted = 1.0 / (down_after - down_before)
    new = counted * (down_before == 0)
    waited = counted * _waited(rates, cuts, of, outages.cause, before, after)
    offline = _estimate(float(minimal.share.sum()), outages.long, waited)
    return Union(
        _estimate(float(minimal.per_year.sum()), outages.often, new),
        offline._replace(value=min(offline.value, 1.0), low=min(offline.low, 1.0)),
        exact=False,
    )


def _union_with_wide(rates: Rates, cuts: CutSets, wide: BoolArray, background_states: BoolArray, seed: int) -> Union:
    """Estimate a union with wide sets: from none of them counted to each counted as disjoint from all others."""
    assert len(wide) == len(cuts.places)
    narrow, others = (cuts.take(np.flatnonzero(which)) for which in (~wide, wide))
    drawn = union_sampled(rates, narrow, background_states, seed) if len(narrow.places) else _NO_RISK
    up = max(1 - float(others.down.sum()), 0.0)

    def added(figure: EstimatedFigure, most: NDArray[np.float64]) -> EstimatedFigure:
        more = float(most.sum())
        return EstimatedFigure(figure.value + more, figure.low * up, figure.high + more)

    return Union(added(drawn.per_year, others.per_year), added(drawn.offline, others.offline), exact=False)


class _Weight(NamedTuple):
    """Weights of samples in a figure.

    Args:
        of: float64[s], of each sample; 1 for all if they were drawn for that figure alone.
        most: the maximum of any possible sample.
    """

    of: NDArray[np.float64]
    most: float


class _Outages(NamedTuple):
    """The s sampled outages.

    Args:
        parts: intp[s, w], the cut.
        cause: intp[s], the component that fails last.
        often: weights in the frequency.
        long: weights in the share of time.
    """

    parts: NDArray[np.intp]
    cause: NDArray[np.intp]
    often: _Weight
    long: _Weight


def _sample_outages(of: Components, minimal: MinimalCuts, samples: int, draws: Draws) -> _Outages:
    """Draw cuts and causes, half by frequency, half by share of time (rule 5)."""
    often, share = float(minimal.per_year.sum()), float(minimal.share.sum())
    assert often > 0
    assert share > 0
    mean = share / often
    edges = np.cumsum(minimal.per_year / often + minimal.share / share)
    even = (np.arange(samples) + draws.uniforms(samples)) / samples * edges[-1]
    # A product rounded up to the total would be after the last cut.
    parts = minimal.parts[np.minimum(np.searchsorted(edges, even, side="right"), len(edges) - 1)]
    likely = np.cumsum((of.repair * (1 + of.wait / mean))[parts], axis=1)
    place = (likely <= (draws.uniforms(samples) * likely[:, -1])[:, None]).sum(axis=1)
    cause = parts[np.arange(samples), np.minimum(place, parts.shape[1] - 1)]
    assert (of.repair[cause] > 0).all(), "a component that fails last was repaired before"
    causes = np.bincount(minimal.parts.ravel(), minlength=len(of.wait)) > 0
    waits = of.wait[causes & (of.wait > 0)]
    return _Outages(
        parts,
        cause,
        _Weight(2 / (1 + of.wait[cause] / mean), 2 / (1 + float(waits.min()) / mean)),
        _Weight(2 / (1 + mean / of.wait[cause]), 2 / (1 + mean / float(waits.max()))),
    )


def _states(outages: _Outages, background_states: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Return which components are down right before and right after the outages: bool[c, s] each."""
    every = np.arange(background_states.shape[1])
    after = background_states.copy()
    after[outages.parts, every[:, None]] = True
    before = after.copy()
    before[outages.cause, every] = False
    return before, after


def _waited(
    rates: Rates, cuts: CutSets, of: Components, cause: NDArray[np.intp], before: BoolArray, after: BoolArray
) -> NDArray[np.float64]:
    """Return the mean duration of each outage over all sets that are down, relative to the maximum."""
    brokers = len(rates.fail)
    before, after = (state[:brokers] | state[brokers + rates.rack] for state in (before, after))
    down_before, down_after = _counts(cuts.places, before, after)
    waited = down_after - down_before
    # The sets matter only if the brokers of a rack have different repair times.
    for rack in np.intersect1d(cause, np.flatnonzero(of.least_wait < of.wait)):
        some = np.flatnonzero(cause == rack)
        waits = np.where(rates.rack[cuts.places] == rack - brokers, cuts.wait_rack, 0.0).max(axis=1) / of.wait[rack]
        were_down, are_down = _counts(cuts.places, before[:, some], after[:, some], waits)
        waited[some] = are_down - were_down
    return waited / down_after


def _counts(
    rows: NDArray[np.intp], before: BoolArray, after: BoolArray, worth: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count the rows, intp[k, w], that are entirely down before and after, float64[s] each; or sum their `worth`.

    Components that are down before are down after. States are processed 64 at a time, one bit each.
    """
    words = [_words(state) for state in (before, after)]
    assert before.shape == after.shape
    assert worth is None or len(worth) == len(rows)
    samples, width = after.shape[1], words[0].shape[1]
    counts = np.zeros((2, width * _WORD))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        down = words[1][some[:, 0]]
        for column in some.T[1:]:
            down &= words[1][column]
        found, at = np.nonzero(down)
        was_down = np.bitwise_and.reduce([words[0][column[found], at] for column in some.T])
        for total, bits in zip(counts, (was_down, down[found, at]), strict=True):
            ones = np.flatnonzero(np.unpackbits(bits.view(np.uint8)))
            hit = ones // _WORD
            values = None if worth is None else worth[start + found[hit]]
            total += np.bincount(at[hit] * _WORD + ones % _WORD, values, len(total))
    were_down, are_down = counts[:, :samples]
    return were_down, are_down


def _words(states: BoolArray) -> NDArray[np.uint64]:
    """Pack states of c components into bits: uint64[c, s / 64]."""
    bits = np.packbits(states, axis=1)
    packed = np.zeros((len(bits), -(-bits.shape[1] * 8 // _WORD) * _WORD // 8), np.uint8)
    packed[:, : bits.shape[1]] = bits
    assert packed.shape[1] % 8 == 0
    return packed.view(np.uint64)


def _estimate(total: float, weight: _Weight, kept: NDArray[np.float64]) -> EstimatedFigure:
    """Return the total times the kept share, with its interval (rule 6).

    >>> _estimate(2.0, _Weight(np.ones(400), 1.0), np.ones(400))
    EstimatedFigure(value=2.0, low=1.986..., high=2.013...)
    """
    share = float((weight.of * kept).sum() / weight.of.sum())
    assert len(weight.of) == len(kept)
    spread = float(((weight.of * (kept - share)) ** 2).sum()) + 2 * weight.most**2 * (share**2 + (1 - share) ** 2)
    error = _Z * sqrt(spread) / float(weight.of.sum())
    return EstimatedFigure(total * share, total * max(share - error, 0.0), total * (share + error))
