"""What is exact of each set of replicas by itself: how often all of it goes down, and for how long.

A set is down while each of its brokers is, by itself or with its rack. Racks are independent, so the share of time is a
product over racks; the frequency is that of minimal cut sets (Barlow, Proschan 1975; the sum over what can fail last
of its rate times the share of time in which nothing else of the set is up). docs/risk.md has the formulas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.risk.rates import Rates

_AT_ONCE = 1 << 19
"""So many pairs of places are looked at in one go: they fit a processor's cache."""


class CutSets(NamedTuple):
    """Figures of m sets of w places each.

    Args:
        places: intp[m, w], as of `ReplicaSets`.
        first: intp[m, w], the first place of the set in the same rack; a rack is spoken of at that place.
        down: float64[m], the share of time in which all brokers of the set are down.
        by_broker: float64[m, w], how often a year the failure of that broker takes the last one down.
        by_rack: float64[m, w], how often the failure of the rack of that place does; 0 but at its first place.
        wait_broker: float64[m, w], how long that broker is away then, in years.
        wait_rack: float64[m, w], how long those of that rack are at most.
    """

    places: NDArray[np.intp]
    first: NDArray[np.intp]
    down: NDArray[np.float64]
    by_broker: NDArray[np.float64]
    by_rack: NDArray[np.float64]
    wait_broker: NDArray[np.float64]
    wait_rack: NDArray[np.float64]

    @property
    def per_year(self) -> NDArray[np.float64]:
        """float64[m], how often a year the set goes down."""
        often: NDArray[np.float64] = self.by_broker.sum(axis=1) + self.by_rack.sum(axis=1)
        return often

    @property
    def offline(self) -> NDArray[np.float64]:
        """float64[m], the share of time until one that was in sync last is back: a bound from above, and a close one.

        It counts the time of a second fall of the whole set within the first twice, of which there are as few as the
        share of time that a broker is down; `down` is a bound from below.
        """
        waits = self.by_broker * self.wait_broker + self.by_rack * self.wait_rack
        share: NDArray[np.float64] = np.minimum(waits.sum(axis=1), 1.0)
        return share

    def take(self, sets: NDArray[np.intp]) -> CutSets:
        """Some of the sets."""
        places, first, *figures = self
        return CutSets(places[sets], first[sets], *(figure[sets] for figure in figures))


def cut_sets(rates: Rates, places: NDArray[np.intp]) -> CutSets:
    """The exact figures of sets of replicas.

    Args:
        rates: of the cluster.
        places: intp[m, w].

    >>> from simzk.partitions.layouts import brokers_in_racks
    >>> from simzk.partitions.risk.rates import Rate, rates_of
    >>> never = Rate(0.0, 1.0)
    >>> rates = rates_of(brokers_in_racks(2, 2), [Rate(2.0, 1.0)] * 2, {"rack1": never, "rack2": never})
    >>> found = cut_sets(rates, np.array([[0, 1]]))
    >>> found.per_year.round(9).tolist()  # twice: one fails, 2 a year, while the other is down, 1 hour of 4384
    [0.000912...]
    """
    rows = max(_AT_ONCE // places.shape[1] ** 2, 1)
    away = rates.until_back()
    found = [_cut_sets(rates, away, places[start : start + rows]) for start in range(0, max(len(places), 1), rows)]
    return CutSets(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _cut_sets(rates: Rates, away: tuple[NDArray[np.float64], NDArray[np.float64]], places: NDArray[np.intp]) -> CutSets:
    width = places.shape[1]
    rack = rates.rack[places]
    same = rack[:, :, None] == rack[:, None, :]
    first = same.argmax(axis=2)
    heads = first == np.arange(width)
    down, rack_down = rates.down[places], rates.rack_down[rack]
    all_of_rack = np.where(same, down[:, None, :], 1.0).prod(axis=2)
    block = np.where(heads, rack_down + (1 - rack_down) * all_of_rack, 1.0)
    beside_rack = np.empty_like(down)
    others_of_rack = np.empty_like(down)
    for place in range(width):
        others = np.arange(width) != place
        others_of_rack[:, place] = np.where(same[:, place] & others, down, 1.0).prod(axis=1)
        beside_rack[:, place] = np.where(same[:, place], 1.0, block).prod(axis=1)
    rack_up = (1 - rack_down) * beside_rack
    return CutSets(
        places=places,
        first=first,
        down=block.prod(axis=1),
        by_broker=rates.fail[places] * (1 - down) * others_of_rack * rack_up,
        by_rack=np.where(heads, rates.rack_fail[rack] * (1 - all_of_rack) * rack_up, 0.0),
        wait_broker=away[0][places],
        wait_rack=np.where(same, away[1][places][:, None, :], 0.0).max(axis=2),
    )
