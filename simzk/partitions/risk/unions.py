"""What many sets of replicas risk together: that one of them, any one, is down.

A topic is whole while all its partitions are, so what it risks is a union over its sets of replicas. Where few brokers
and racks are concerned, all states are enumerated (`union_exact`); else states are drawn (`union_sampled`). Either way
stand beside it what is certain whatever was drawn (`Bounds`).

A union of sets of replicas where few brokers and racks are concerned: every state of them is looked at.

A state is a number, a bit a component, set where it is down. How many sets are down in a state is a sum over the
subsets of the brokers that are out of reach, for all states at once (Yates' algorithm).
"""

from __future__ import annotations

from math import exp, expm1
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.risk.cut_sets import CutSets
    from simzk.partitions.risk.rates import Rates


class Figure(NamedTuple):
    """A figure with its interval of 95 % confidence; all three are the same where it is exact."""

    value: float
    low: float
    high: float


class Union(NamedTuple):
    """What some sets risk together.

    Args:
        per_year: how often a year the first of them goes down while none is.
        offline: the share of time in which one at least is offline.
        exact: whether all states were looked at.
    """

    per_year: Figure
    offline: Figure
    exact: bool


class Bounds(NamedTuple):
    """What is certain of a union.

    Args:
        probability_least: of a year in which one of them goes down: that of the worst set alone.
        probability_most: as if the sets were independent, of what goes down together the most that can be
            (Esary, Proschan 1963: states that only failures make worse are associated).
        offline_least: the share of time in which the worst set has no broker up.
        offline_most: the sum over all sets of the time until one that was in sync last is back.
    """

    probability_least: float
    probability_most: float
    offline_least: float
    offline_most: float


def bounds(cuts: CutSets) -> Bounds:
    """What is certain of the union of these sets; one at least."""
    often = cuts.per_year
    return Bounds(
        probability_least=yearly(float(often.max())),
        probability_most=yearly(float(often.sum())),
        offline_least=float(cuts.down.max()),
        offline_most=min(float(cuts.offline.sum()), 1.0),
    )


def yearly(per_year: float) -> float:
    """The probability of one event or more in a year, where they come independently of each other.

    >>> yearly(0.0), round(yearly(1e-9), 12), round(yearly(2.0), 3)
    (0.0, 1e-09, 0.865)
    """
    assert per_year >= 0
    return -expm1(-per_year) if per_year < 1 else 1 - exp(-per_year)


MOST_COMPONENTS = 12
"""More brokers and racks than these are not enumerated: 4,096 states cost about a millisecond."""


def components_of(rates: Rates, cuts: CutSets) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The brokers of these sets, and those of their racks that ever fail."""
    held = np.zeros(len(rates.fail), np.bool_)
    held[cuts.places] = True
    brokers = np.flatnonzero(held[:-1])
    racks = np.unique(rates.rack[brokers])
    return brokers, racks[rates.rack_fail[racks] > 0]


def union_exact(rates: Rates, cuts: CutSets) -> Union:
    """The union of some sets, by enumeration.

    Args:
        rates: of the cluster.
        cuts: the sets; one at least, none twice.
    """
    brokers, racks = components_of(rates, cuts)
    states = np.arange(1 << (len(brokers) + len(racks)))
    likely = np.ones(len(states))
    downs = [*rates.down[brokers].tolist(), *rates.rack_down[racks].tolist()]
    for component, down in enumerate(downs):
        likely *= np.where(states >> component & 1, down, 1 - down)
    reach = _out_of_reach(rates, brokers, racks, states)
    masks = _masks(brokers, cuts.places)
    fallen = _over_subsets(masks, np.ones(len(masks)), len(brokers))[reach]
    often = share = 0.0
    for component in range(len(downs)):
        before = states[states >> component & 1 == 0]
        after = before | 1 << component
        if component < len(brokers):
            broker = brokers[component]
            rate, wait = rates.fail[broker], _wait_of(cuts, broker)
            waits = wait * (fallen[after] - fallen[before])
        else:
            rack = racks[component - len(brokers)]
            rate = rates.rack_fail[rack]
            of_rack = np.where(rates.rack[cuts.places] == rack, cuts.wait_rack, 0.0).max(axis=1)
            waited = _over_subsets(masks, of_rack, len(brokers))[reach]
            waits = waited[after] - waited[before]
        worse = fallen[after] > fallen[before]
        weight = likely[before] * rate
        often += float(weight[worse & (fallen[before] == 0)].sum())
        share += float((weight[worse] * waits[worse] / fallen[after][worse]).sum())
    share = min(share, 1.0)
    return Union(Figure(often, often, often), Figure(share, share, share), exact=True)


def _wait_of(cuts: CutSets, broker: np.intp) -> float:
    return float(cuts.wait_broker[cuts.places == broker][0])


def _out_of_reach(
    rates: Rates, brokers: NDArray[np.intp], racks: NDArray[np.intp], states: NDArray[np.intp]
) -> NDArray[np.intp]:
    """In each state, which brokers are down by themselves or with their racks, a bit each."""
    reach = states & ((1 << len(brokers)) - 1)
    for number, rack in enumerate(racks):
        inside = int(sum(1 << at for at, broker in enumerate(brokers) if rates.rack[broker] == rack))
        reach |= np.where(states >> (len(brokers) + number) & 1, inside, 0)
    return reach


def _masks(brokers: NDArray[np.intp], places: NDArray[np.intp]) -> NDArray[np.intp]:
    known = np.isin(places, brokers)
    bits = np.where(known, 1 << np.minimum(np.searchsorted(brokers, places), len(brokers) - 1), 0)
    masks: NDArray[np.intp] = bits.sum(axis=1)
    return masks


def _over_subsets(masks: NDArray[np.intp], values: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """For every set of bits the sum of the values whose masks lie in it."""
    sums = np.bincount(masks, weights=values, minlength=1 << bits).astype(np.float64)
    for bit in range(bits):
        halves = sums.reshape(-1, 2, 1 << bit)
        halves[:, 1] += halves[:, 0]
    return sums
