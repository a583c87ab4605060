"""What many sets of replicas risk together: that one of them, any one, is down.

A topic is whole while all its partitions are, so what it risks is a union over its sets of replicas. Where few brokers
and racks are concerned, all states are enumerated (`union_exact`); else states are drawn (`union_sampled`). Either way
stand beside it what is certain whatever was drawn (`Bounds`).
"""

from __future__ import annotations

from math import exp, expm1
from typing import TYPE_CHECKING

from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from simzk.partitions.risk.cut_sets import CutSets


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
