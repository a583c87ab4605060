"""Minimal cuts: in how many ways sets of replicas go down, where brokers and racks fail each by itself.

Rules of the module:

1. A component is a broker by itself, or a rack; each is up or down independently of all others. Brokers are numbered by
   position, racks behind them.
2. A cut is some components that take a set of replicas down: for each of its racks, either the rack or all of the set's
   brokers in it. What many sets share, as a rack that holds a thousand, is one cut.
3. A cut goes down as often as it comes back: the share of time in which all of it is down × the repairs of its
   components a year (Barlow, Proschan 1975).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.risk.replica_sets import distinct
from simzk.tuples import NamedTuple

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
