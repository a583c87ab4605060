"""Chance as a function: the same numbers for the same key on every machine and in every release of numpy.

SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014) over a counter, so that any
run of numbers can be computed by itself, all at once.

Minimal cuts: in how many ways sets of replicas go down, where brokers and racks fail each by itself.

Rules of the module:

1. A component is a broker by itself, or a rack; each is up or down independently of all others. Brokers are numbered by
   position, racks behind them.
2. A cut is some components that take a set of replicas down: for each of its racks, either the rack or all of the set's
   brokers in it. What many sets share, as a rack that holds a thousand, is one cut.
3. A cut goes down as often as it comes back: the share of time in which all of it is down × the repairs of its
   components a year (Barlow, Proschan 1975).

A union of many sets of replicas, estimated from drawn states: every draw is one in which a cut goes down.

The moments at which one given cut (`minimal_cuts`) goes down are rare, but what the cluster looks like at such a moment
is known exactly, and can be drawn. So a draw is: a cut and which of its components fails last, by how often that
happens, and then the state of all else. Where n cuts go down at that moment, the draw counts as one n-th: so each
moment counts once, however many cuts share it (Karp, Luby 1983, for unions of rare events). The estimate's error is
small against what it estimates however rare that is.

Rules of the module:

1. Two figures are estimated of the same draws: how often, and the share of time. A fall that is rare and lasts long is
   little of the one and may be most of the other, so half of the draws are by how often, half by how often × how long
   it lasts at most. Each draw counts in either figure by how much more seldom it should be drawn for that one alone: no
   more than twice (Owen, Zhou 2000: a mixture of importances).
2. A figure is what all cuts add up to, which is known exactly, × the share of it that the draws keep: what is shared,
   or within another outage, is left out. That share is a mean of numbers from 0 to 1, so what was not drawn cannot be
   larger than what is known. The interval is that of such a mean with four more draws, two of nothing and two of all,
   each as heavy as a draw can be (Agresti, Coull 1998): where all draws are alike, it allows for what 19 of 20 series
   of draws would have met.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.draws import Draws
from simzk.partitions.risk.cut_sets import Figure, Union, distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray
    from simzk.partitions.risk.cut_sets import CutSets
    from simzk.partitions.risk.rates import Rates

MOST_RACKS = 8
"""Sets over more racks that fail are not taken apart: of each there would be more than 256 cuts."""

_LEAST = float(np.finfo(np.float64).tiny)
"""What is rarer is never: its numbers have lost their digits."""

_SETS_AT_ONCE = 1 << 16


class Components(NamedTuple):
    """Brokers, the padding, racks: c components.

    Args:
        down: float64[c], the share of time that each is down; 1 for the padding.
        repair: float64[c], how many are repaired a year of time that it is down; 0 for the padding.
        wait: float64[c], how long what goes down by its failure is offline at most, in years; 0 where nothing does.
        least_wait: float64[c], and at least: a rack's brokers may be repaired each at its own pace.
    """

    down: NDArray[np.float64]
    repair: NDArray[np.float64]
    wait: NDArray[np.float64]
    least_wait: NDArray[np.float64]


class MinimalCuts(NamedTuple):
    """The distinct cuts of some sets that ever go down, k of them.

    Args:
        parts: intp[k, w], the components of each, ascending, padded.
        per_year: float64[k], how often it goes down.
        share: float64[k], that × how long what goes down is offline at most.
    """

    parts: NDArray[np.intp]
    per_year: NDArray[np.float64]
    share: NDArray[np.float64]


def components(rates: Rates, cuts: CutSets) -> Components:
    """The components of a cluster, and what waits for them of these sets."""
    brokers = len(rates.fail)
    count = brokers + len(rates.rack_fail)
    racks = (brokers + rates.rack[cuts.places]).ravel()
    wait, least = np.zeros(count), np.full(count, np.inf)
    wait[cuts.places.ravel()] = least[cuts.places.ravel()] = cuts.wait_broker.ravel()
    np.maximum.at(wait, racks, cuts.wait_rack.ravel())
    np.minimum.at(least, racks, cuts.wait_rack.ravel())
    repair = np.concatenate([rates.repair, rates.rack_repair])
    repair[brokers - 1] = wait[brokers - 1] = 0.0
    return Components(np.concatenate([rates.down, rates.rack_down]), repair, wait, np.minimum(wait, least))


def is_wide(rates: Rates, cuts: CutSets) -> BoolArray:
    """Which sets are over more racks that fail than are taken apart, bool[m]."""
    wide: BoolArray = _failing_heads(rates, cuts).sum(axis=1) > MOST_RACKS
    return wide


def minimal_cuts(rates: Rates, cuts: CutSets, of: Components) -> MinimalCuts:
    """The cuts of sets of replicas.

    Args:
        rates: of the cluster.
        cuts: the sets; none wide, none twice.
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
    heads = _failing_heads(rates, cuts)
    found = [
        distinct(_taken_apart(rates, cuts, heads, slice(start, start + _SETS_AT_ONCE)), base)
        for start in range(0, len(cuts.places), _SETS_AT_ONCE)
    ]
    parts = found[0] if len(found) == 1 else distinct(np.concatenate(found), base)
    down = of.down[parts].prod(axis=1)
    often = down * of.repair[parts].sum(axis=1)
    share = down * (of.repair * of.wait)[parts].sum(axis=1)
    ever = np.minimum(often, share) >= _LEAST
    return MinimalCuts(parts[ever], often[ever], share[ever])


def _failing_heads(rates: Rates, cuts: CutSets) -> BoolArray:
    """Of each set, the first places in racks that fail."""
    heads: BoolArray = (cuts.first == np.arange(cuts.first.shape[1])) & (rates.rack_fail[rates.rack[cuts.places]] > 0)
    return heads


def _taken_apart(rates: Rates, cuts: CutSets, heads: BoolArray, some: slice) -> NDArray[np.intp]:
    """All cuts of some sets, those that they share more than once."""
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


SAMPLES = 400
"""Draws a union where nobody says otherwise."""

_ROWS_AT_ONCE = 1 << 15
_WORD = 64
_Z = 1.959963984540054


def background(rates: Rates, seed: int, samples: int) -> BoolArray:
    """Draw states of a cluster at moments when nothing is known of it, one a draw.

    Returns:
        bool[c, s], which components (`minimal_cuts`) are down.
    """
    down = np.concatenate([rates.down, rates.rack_down])
    return Draws(b"background %d" % seed).uniforms(len(down), samples) < down[:, None]


def union_sampled(rates: Rates, cuts: CutSets, elsewhere: BoolArray, seed: int) -> Union:
    """The union of some sets, estimated.

    Args:
        rates: of the cluster.
        cuts: the sets; one at least, none twice.
        elsewhere: bool[c, s], states of what the draws do not decide, of `background`.
        seed: of the draws; the same sets get the same ones.
    """
    wide = is_wide(rates, cuts)
    if wide.any():
        return _with_wide(rates, cuts, wide, elsewhere, seed)
    of = components(rates, cuts)
    known = minimal_cuts(rates, cuts, of)
    if not len(known.parts):
        return Union(Figure(0.0, 0.0, 0.0), Figure(0.0, 0.0, 0.0), exact=True)
    draws = Draws(b"union %d " % seed + cuts.places.astype("<i8").tobytes())
    falls = _drawn(of, known, elsewhere.shape[1], draws)
    before, after = _states(falls, elsewhere)
    down_before, down_after = _counts(known.parts, before, after)
    counted = 1.0 / (down_after - down_before)
    news = counted * (down_before == 0)
    waited = counted * _waited(rates, cuts, of, falls.cause, before, after)
    offline = _estimate(float(known.share.sum()), falls.long, waited)
    return Union(
        _estimate(float(known.per_year.sum()), falls.often, news),
        offline._replace(value=min(offline.value, 1.0), low=min(offline.low, 1.0)),
        exact=False,
    )


def _with_wide(rates: Rates, cuts: CutSets, wide: BoolArray, elsewhere: BoolArray, seed: int) -> Union:
    """With sets that are not taken apart: from none of them counted, to each as if it shared nothing."""
    narrow, others = (cuts.take(np.flatnonzero(which)) for which in (~wide, wide))
    nothing = Figure(0.0, 0.0, 0.0)
    drawn = union_sampled(rates, narrow, elsewhere, seed) if len(narrow.places) else Union(nothing, nothing, exact=True)
    up = max(1 - float(others.down.sum()), 0.0)

    def added(figure: Figure, most: NDArray[np.float64]) -> Figure:
        more = float(most.sum())
        return Figure(figure.value + more, figure.low * up, figure.high + more)

    return Union(added(drawn.per_year, others.per_year), added(drawn.offline, others.offline), exact=False)


class _Weight(NamedTuple):
    """How heavy draws count in a figure.

    Args:
        of: float64[s], of each draw; 1 where the draws are those for that figure alone.
        most: of any draw that there can be.
    """

    of: NDArray[np.float64]
    most: float


class _Falls(NamedTuple):
    """The falls that were drawn, s of them.

    Args:
        parts: intp[s, w], the cut.
        cause: intp[s], which of its components falls last.
        often: their weights in how often something falls,
        long: and in the share of time.
    """

    parts: NDArray[np.intp]
    cause: NDArray[np.intp]
    often: _Weight
    long: _Weight


def _drawn(of: Components, known: MinimalCuts, samples: int, draws: Draws) -> _Falls:
    """Draw cuts and causes, half by how often they fall, half by the share of time (rule 1)."""
    often, share = float(known.per_year.sum()), float(known.share.sum())
    mean = share / often
    edges = np.cumsum(known.per_year / often + known.share / share)
    even = (np.arange(samples) + draws.uniforms(samples)) / samples * edges[-1]
    # A product that is rounded up to the total is behind the last one.
    parts = known.parts[np.minimum(np.searchsorted(edges, even, side="right"), len(edges) - 1)]
    likely = np.cumsum((of.repair * (1 + of.wait / mean))[parts], axis=1)
    place = (likely <= (draws.uniforms(samples) * likely[:, -1])[:, None]).sum(axis=1)
    cause = parts[np.arange(samples), np.minimum(place, parts.shape[1] - 1)]
    causes = np.bincount(known.parts.ravel(), minlength=len(of.wait)) > 0
    waits = of.wait[causes & (of.wait > 0)]
    return _Falls(
        parts,
        cause,
        _Weight(2 / (1 + of.wait[cause] / mean), 2 / (1 + float(waits.min()) / mean)),
        _Weight(2 / (1 + mean / of.wait[cause]), 2 / (1 + mean / float(waits.max()))),
    )


def _states(falls: _Falls, elsewhere: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Which components are down, right before the falls and right after: bool[c, s] each."""
    every = np.arange(elsewhere.shape[1])
    after = elsewhere.copy()
    after[falls.parts, every[:, None]] = True
    before = after.copy()
    before[falls.cause, every] = False
    return before, after


def _waited(
    rates: Rates, cuts: CutSets, of: Components, cause: NDArray[np.intp], before: BoolArray, after: BoolArray
) -> NDArray[np.float64]:
    """Of each fall, the mean wait over all sets that are down then, none for those that were, against the longest."""
    brokers = len(rates.fail)
    before, after = (state[:brokers] | state[brokers + rates.rack] for state in (before, after))
    down_before, down_after = _counts(cuts.places, before, after)
    waited = down_after - down_before
    # Only where the brokers of a rack are not repaired alike it matters which sets fell.
    for rack in np.intersect1d(cause, np.flatnonzero(of.least_wait < of.wait)):
        some = np.flatnonzero(cause == rack)
        waits = np.where(rates.rack[cuts.places] == rack - brokers, cuts.wait_rack, 0.0).max(axis=1) / of.wait[rack]
        were_down, are_down = _counts(cuts.places, before[:, some], after[:, some], waits)
        waited[some] = are_down - were_down
    return waited / down_after


def _counts(
    rows: NDArray[np.intp], before: BoolArray, after: BoolArray, worth: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many of the rows are all down in each state before and after, float64[s] each; or what they are worth.

    What is down before is down after. So many states are looked at at once as a word has bits.
    """
    words = [_words(state) for state in (before, after)]
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
    """States of c parts, a bit each: uint64[c, s / 64]."""
    bits = np.packbits(states, axis=1)
    packed = np.zeros((len(bits), -(-bits.shape[1] * 8 // _WORD) * _WORD // 8), np.uint8)
    packed[:, : bits.shape[1]] = bits
    return packed.view(np.uint64)


def _estimate(total: float, weight: _Weight, kept: NDArray[np.float64]) -> Figure:
    """What all cuts add up to × the share that is kept, and its bounds (rule 2).

    >>> _estimate(2.0, _Weight(np.ones(400), 1.0), np.ones(400))
    Figure(value=2.0, low=1.986..., high=2.013...)
    """
    share = float((weight.of * kept).sum() / weight.of.sum())
    spread = float(((weight.of * (kept - share)) ** 2).sum()) + 2 * weight.most**2 * (share**2 + (1 - share) ** 2)
    error = _Z * sqrt(spread) / float(weight.of.sum())
    return Figure(total * share, total * max(share - error, 0.0), total * (share + error))
