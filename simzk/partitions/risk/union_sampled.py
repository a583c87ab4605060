"""A union of many sets of replicas, estimated from drawn states: every draw is one in which a set goes down.

The moments at which one given set goes down are rare, but what the cluster looks like at such a moment is known
exactly, and can be drawn. So a draw is: a set and what takes its last broker down, by how often that happens, and then
the state of all else. Where n sets go down or are down at that moment, the draw counts as one n-th: so each moment
counts once, however many sets share it (Karp, Luby 1983, for unions of rare events). The estimate has no bias, and
its error is small against what it estimates however rare that is.
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.risk.draws import Draws
from simzk.partitions.risk.unions import Figure, Union
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray
    from simzk.partitions.risk.cut_sets import CutSets
    from simzk.partitions.risk.rates import Rates

SAMPLES = 400
"""Draws a union where nobody says otherwise."""

MOST_STRATA = 32
LEAST_SAMPLES = 4 * MOST_STRATA
"""Fewer draws would leave some strata without."""

_SETS_AT_ONCE = 1 << 15
_Z = 1.959963984540054


class Background(NamedTuple):
    """States of a whole cluster at moments when nothing is known of it, one a draw.

    Args:
        down: bool[s, b + 1], which brokers are down by themselves.
        rack_down: bool[s, r + 1].
    """

    down: BoolArray
    rack_down: BoolArray


def background(rates: Rates, seed: int, samples: int) -> Background:
    """Draw states of a cluster."""
    draws = Draws(b"background %d" % seed)
    down = draws.uniforms(samples, len(rates.fail)) < rates.down
    return Background(down, draws.uniforms(samples, len(rates.rack_fail)) < rates.rack_down)


def union_sampled(rates: Rates, cuts: CutSets, elsewhere: Background, seed: int) -> Union:
    """The union of some sets, estimated.

    Args:
        rates: of the cluster.
        cuts: the sets; one at least, none twice.
        elsewhere: states of what the draws do not decide.
        seed: of the draws; the same sets get the same ones.
    """
    width = cuts.places.shape[1]
    draws = Draws(b"union %d " % seed + cuts.places.astype("<i8").tobytes())
    chosen, strata = _chosen(rates, cuts, len(elsewhere.down), draws)
    if not strata:
        return Union(Figure(0.0, 0.0, 0.0), Figure(0.0, 0.0, 0.0), exact=True)
    sets, cause = np.divmod(chosen, 2 * width)
    fall = _Fall(cuts.places[sets], cuts.first[sets], cause % width, cause >= width)
    before, after = _states(rates, fall, elsewhere, draws)
    counted = 1.0 / _fallen(cuts.places, after)
    news = counted * (_fallen(cuts.places, before) == 0)
    waits = np.where(fall.by_rack, cuts.wait_rack[sets, fall.place], cuts.wait_broker[sets, fall.place])
    return Union(_estimate(news, strata), _estimate(counted * waits, strata), exact=False)


class _Stratum(NamedTuple):
    """Falls of one kind, which are drawn by themselves.

    Args:
        per_year: how many there are, of all sets.
        draws: how many of them are drawn.
    """

    per_year: float
    draws: int


def _chosen(rates: Rates, cuts: CutSets, samples: int, draws: Draws) -> tuple[NDArray[np.intp], list[_Stratum]]:
    """Falls, drawn by how often they happen: a number each, of its set and its cause, stratum by stratum.

    The failures of brokers are a stratum, those of a rack are one: a rack may take a thousand sets at once, and these
    thousand falls are one fall of the union, as a single one by brokers is. Half of the draws go to strata alike, half
    by how many falls of the union each can bring at most.
    """
    causes = np.concatenate([cuts.by_broker, cuts.by_rack], axis=1)
    falls = np.flatnonzero(causes)
    often = causes.ravel()[falls]
    width = cuts.places.shape[1]
    sets, cause = np.divmod(falls, 2 * width)
    brokers = cuts.places[sets, cause % width]
    number = np.where(cause < width, 0, 1 + rates.rack[brokers] % (MOST_STRATA - 1)).astype(np.uint8)
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(MOST_STRATA + 1))
    filled = [at for at, (start, end) in enumerate(pairwise(ends.tolist())) if end > start]
    weights, most = {}, {}
    for at in filled:
        of_stratum = order[ends[at] : ends[at + 1]]
        weights[at] = float(often[of_stratum].sum())
        failing = np.unique(brokers[of_stratum])
        can = rates.rack_fail[np.unique(rates.rack[failing])] if at else rates.fail[failing]
        most[at] = min(weights[at], float(can.sum()))
    strata: list[_Stratum] = []
    chosen: list[NDArray[np.intp]] = []
    left = samples
    for rank, at in enumerate(filled):
        share = 0.5 / len(filled) + 0.5 * most[at] / sum(most.values())
        count = (
            left if rank == len(filled) - 1 else min(max(round(samples * share), 2), left - 2 * (len(filled) - rank))
        )
        left -= count
        strata.append(_Stratum(weights[at], count))
        of_stratum = order[ends[at] : ends[at + 1]]
        edges = np.cumsum(often[of_stratum])
        even = (np.arange(count) + draws.uniforms(count)) / count * edges[-1]
        # A product that is rounded up to the total is behind the last one.
        picked = np.minimum(np.searchsorted(edges, even, side="right"), len(of_stratum) - 1)
        chosen.append(falls[of_stratum[picked]])
    return np.concatenate([*chosen, falls[:0]]), strata


class _Fall(NamedTuple):
    """The falls that were drawn, one a draw.

    Args:
        places: intp[s, w], the set.
        first: intp[s, w], as of `CutSets`.
        place: intp[s], whose broker fails, or a broker of the rack that does.
        by_rack: bool[s], whether it is the rack.
    """

    places: NDArray[np.intp]
    first: NDArray[np.intp]
    place: NDArray[np.intp]
    by_rack: BoolArray


def _states(rates: Rates, fall: _Fall, elsewhere: Background, draws: Draws) -> tuple[BoolArray, BoolArray]:
    """Which brokers are out of reach, right before the falls and right after: bool[s, b + 1] each."""
    down, rack_down = elsewhere.down.copy(), elsewhere.rack_down.copy()
    samples, width = fall.places.shape
    every = np.arange(samples)
    racks, alone = rates.rack[fall.places], rates.down[fall.places]
    falling = fall.first[every, fall.place]
    chance = draws.uniforms(samples, width)
    for head in range(width):
        inside = fall.first == head
        some = inside[:, head]
        share = rates.rack_down[racks[:, head]]
        all_down = np.where(inside, alone, 1.0).prod(axis=1)
        # Of another rack of the set: it is down, or each of the set's brokers in it is.
        fell = chance[:, head] * (share + (1 - share) * all_down) < share
        is_cause = some & (falling == head)
        rack_down[every[some], racks[some, head]] = fell[some] & ~is_cause[some]
        for place in range(head, width):
            forced = inside[:, place] & np.where(is_cause, ~fall.by_rack, some & ~fell)
            down[every[forced], fall.places[forced, place]] = True
        _some_up(down, fall, is_cause & fall.by_rack, inside, alone, chance[:, head] * (1 - all_down))
    by_broker = ~fall.by_rack
    broker = fall.places[every, fall.place]
    down[every[by_broker], broker[by_broker]] = False
    before = down | rack_down[:, rates.rack]
    down[every[by_broker], broker[by_broker]] = True
    rack_down[every[fall.by_rack], rates.rack[broker[fall.by_rack]]] = True
    return before, down | rack_down[:, rates.rack]


def _some_up(
    down: BoolArray,
    fall: _Fall,
    concerned: BoolArray,
    inside: BoolArray,
    alone: NDArray[np.float64],
    chance: NDArray[np.float64],
) -> None:
    """In a rack that fails, not all brokers of the set were down: which was the first that was not, by `chance`."""
    rows = np.flatnonzero(concerned)
    left = np.ones(len(rows))  # the probability that all so far are down
    passed = np.zeros(len(rows))
    found = np.zeros(len(rows), np.bool_)
    last = inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)
    for place in range(inside.shape[1]):
        here = inside[rows, place] & ~found
        passed = np.where(here, passed + left * (1 - alone[rows, place]), passed)
        is_up = here & ((chance[rows] < passed) | (last[rows] == place))
        down[rows[here], fall.places[rows[here], place]] = ~is_up[here]
        left = np.where(here, left * alone[rows, place], left)
        found |= is_up


def _fallen(places: NDArray[np.intp], out_of_reach: BoolArray) -> NDArray[np.int64]:
    """How many of the sets are down in each state, int64[s]; eight states are looked at in one byte."""
    samples = len(out_of_reach)
    packed = np.packbits(out_of_reach.T, axis=1)
    counts = np.zeros(samples, np.int64)
    for start in range(0, len(places), _SETS_AT_ONCE):
        some = places[start : start + _SETS_AT_ONCE]
        fallen = packed[some[:, 0]]
        for column in some.T[1:]:
            fallen &= packed[column]
        fallen = fallen[fallen.any(axis=1)]
        counts += np.unpackbits(fallen, axis=1, count=samples).sum(axis=0, dtype=np.int64)
    return counts


def _estimate(values: NDArray[np.float64], strata: list[_Stratum]) -> Figure:
    """The sum over strata of falls a year times the mean of what was drawn, and its bounds.

    In each stratum two more draws, of nothing and of twice the mean, keep a spread of zero from claiming more than so
    many draws can tell.

    >>> _estimate(np.full(400, 2.0), [_Stratum(1.0, 400)])
    Figure(value=2.0, low=1.986..., high=2.013...)
    """
    total = variance = 0.0
    start = 0
    for stratum in strata:
        some = values[start : start + stratum.draws]
        start += stratum.draws
        mean = float(some.mean())
        spread = (float(((some - mean) ** 2).sum()) + 2 * mean**2) / (stratum.draws + 1)
        total += stratum.per_year * mean
        variance += stratum.per_year**2 * spread / stratum.draws
    error = _Z * sqrt(variance)
    return Figure(total, max(total - error, 0.0), total + error)
