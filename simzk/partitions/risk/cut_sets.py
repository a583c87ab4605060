"""Distinct sets of replicas, the exact figures of each, and of unions of few sets.

Rules of the module:

1. Partitions on the same brokers fail together. A set is a row of positions in `Brokers.ids`, ascending, padded with
   the number of brokers, the position of the broker that is always down (`rates`).
2. A set is down while each of its brokers is unreachable. Racks are independent, so the share of time is a product over
   racks; the frequency is that of minimal cut sets (Barlow, Proschan 1975): the sum over the components that can fail
   last of their rate times the share of time in which all others of the set are down. docs/risk.md has the formulas.
3. A topic is available while all its partitions are, so its risk is that of a union of sets. `union_exact` enumerates
   all states of few brokers and racks; larger unions are sampled (`simzk.partitions.risk.assess`). `bounds` returns
   limits that hold in any case.
4. In `union_exact` a state is a number with one bit per component, set if it is down. The number of sets that are down
   in every state is a sum over subsets of the unreachable brokers (Yates' algorithm).
"""

from __future__ import annotations

from math import exp, expm1, isclose
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, sorted_distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray
    from simzk.partitions.layouts import Brokers
    from simzk.partitions.risk.rates import Rates


class ReplicaSets(NamedTuple):
    """The sets of an assignment, and the topics with partitions on them.

    Args:
        places: intp[m, w], the brokers of each set.
        partitions: int64[m], number of partitions on each set.
        by_topic: intp[k], the sets of each topic, ascending, topic by topic.
        partitions_by_topic: int64[k], number of the topic's partitions on each set.
        starts: intp[t + 1], index in `by_topic` of each topic's first set.
    """

    places: NDArray[np.intp]
    partitions: NDArray[np.int64]
    by_topic: NDArray[np.intp]
    partitions_by_topic: NDArray[np.int64]
    starts: NDArray[np.intp]

    def of_topic(self, topic: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the sets of a topic and the number of its partitions on each."""
        assert 0 <= topic < len(self.starts) - 1
        some = slice(self.starts[topic], self.starts[topic + 1])
        return self.by_topic[some], self.partitions_by_topic[some]

    def scatter_widths(self, brokers: int) -> NDArray[np.int64]:
        """Return how many brokers share partitions with each broker, int64[b] (Cidon et al., USENIX ATC 2013)."""
        assert self.places.max(initial=0) <= brokers
        pairs = np.zeros((brokers + 1, brokers + 1), np.bool_)
        pairs[self.places[:, :, None], self.places[:, None, :]] = True
        np.fill_diagonal(pairs, val=False)
        widths: NDArray[np.int64] = pairs[:brokers, :brokers].sum(axis=1)
        return widths


def replica_sets(brokers: Brokers, topics: int, topic: IntArray, replicas: IntArray) -> ReplicaSets:
    """Return the distinct sets of replicas.

    Args:
        brokers: of the layout.
        topics: number of topics.
        topic: int32[n], of each partition.
        replicas: int32[n, w], broker ids, padded.
    """
    assert len(topic) == len(replicas)
    base = len(brokers.ids) + 1
    positions = brokers.positions_of(replicas).astype(np.int64)
    positions[positions == NONE] = base - 1
    positions.sort(axis=1)
    places, number = _distinct(positions, base)
    counts = np.bincount(number, minlength=len(places))
    keys, of_topics = np.unique(topic.astype(np.int64) * len(places) + number, return_counts=True)
    starts = np.searchsorted(keys // max(len(places), 1), np.arange(topics + 1))
    assert starts[-1] == len(keys), "a partition belongs to one of the topics"
    assert of_topics.sum() == counts.sum() == len(replicas)
    return ReplicaSets(places.astype(np.intp), counts, keys % max(len(places), 1), of_topics, starts.astype(np.intp))


def distinct(rows: NDArray[np.intp], base: int) -> NDArray[np.intp]:
    """Return the distinct rows of numbers below `base`, in order.

    >>> distinct(np.array([[2, 1], [0, 2], [2, 1]]), 3).tolist()
    [[0, 2], [2, 1]]
    """
    if not _fit(rows, base):
        return np.unique(rows, axis=0)
    keys = sorted_distinct(_keys(rows, base))
    found = np.empty((len(keys), rows.shape[1]), np.intp)
    for place in reversed(range(rows.shape[1])):
        keys, found[:, place] = np.divmod(keys, base)
    return found


def _distinct(rows: NDArray[np.int64], base: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the distinct rows in order, and the index of each row among them."""
    if _fit(rows, base):
        _, first, number = np.unique(_keys(rows, base), return_index=True, return_inverse=True)
        return rows[first], number.reshape(-1)
    found, number = np.unique(rows, axis=0, return_inverse=True)
    return found, number.reshape(-1)


def _fit(rows: NDArray[np.int64], base: int) -> bool:
    """Return whether a row fits one integer: integers sort ten times as fast as rows."""
    return bool(base ** rows.shape[1] < 1 << 62)


def _keys(rows: NDArray[np.int64], base: int) -> NDArray[np.int64]:
    assert rows.max(initial=0) < base
    keys = np.zeros(len(rows), np.int64)
    for column in rows.T:
        keys = keys * base + column
    return keys


_AT_ONCE = 1 << 19
"""Pairs of places per chunk: they fit a processor cache."""


class CutSets(NamedTuple):
    """Figures of m sets of w places each.

    Args:
        places: intp[m, w], as in `ReplicaSets`.
        first: intp[m, w], the first place of the set in the same rack; figures of a rack are stored at that place.
        down: float64[m], share of time in which all brokers of the set are down.
        by_broker: float64[m, w], failures per year of that broker that take the last replica down.
        by_rack: float64[m, w], likewise of the rack of that place; 0 except at its first place.
        wait_broker: float64[m, w], years until that broker is back.
        wait_rack: float64[m, w], maximum years until the brokers of that rack are back.
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
        """float64[m], outages of the set per year."""
        often: NDArray[np.float64] = self.by_broker.sum(axis=1) + self.by_rack.sum(axis=1)
        return often

    @property
    def offline(self) -> NDArray[np.float64]:
        """float64[m], share of time until a replica that was in sync last is back; a tight upper bound.

        The bound counts a second outage during the first one twice, which is as rare as the share of time that a broker
        is down; `down` is a lower bound.
        """
        waits = self.by_broker * self.wait_broker + self.by_rack * self.wait_rack
        share: NDArray[np.float64] = np.minimum(waits.sum(axis=1), 1.0)
        return share

    def take(self, sets: NDArray[np.intp]) -> CutSets:
        """Return some of the sets."""
        places, first, *figures = self
        return CutSets(places[sets], first[sets], *(figure[sets] for figure in figures))


def cut_sets(rates: Rates, places: NDArray[np.intp]) -> CutSets:
    """Return the exact figures of sets of replicas.

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
    assert places.max(initial=0) < len(rates.fail)
    rows = max(_AT_ONCE // places.shape[1] ** 2, 1)
    until_back = rates.until_back()
    found = [
        _cut_sets(rates, until_back, places[start : start + rows]) for start in range(0, max(len(places), 1), rows)
    ]
    return CutSets(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _cut_sets(
    rates: Rates, until_back: tuple[NDArray[np.float64], NDArray[np.float64]], places: NDArray[np.intp]
) -> CutSets:
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
        wait_broker=until_back[0][places],
        wait_rack=np.where(same, until_back[1][places][:, None, :], 0.0).max(axis=2),
    )


class EstimatedFigure(NamedTuple):
    """A figure with its 95 % confidence interval; all three are equal if it is exact."""

    value: float
    low: float
    high: float


class Union(NamedTuple):
    """Risk of a union of sets.

    Args:
        per_year: outages per year: one set goes down while none is.
        offline: share of time in which at least one set is offline.
        exact: whether all states were enumerated.
    """

    per_year: EstimatedFigure
    offline: EstimatedFigure
    exact: bool


class Bounds(NamedTuple):
    """Limits of the risk of a union.

    Args:
        probability_least: of an outage in a year, for the worst set alone.
        probability_most: as if the sets were independent, which is an upper bound for sets that share components
            (Esary, Proschan 1963: such states are associated).
        offline_least: share of time in which no broker of the worst set is up.
        offline_most: sum over all sets of the time until a replica that was in sync last is back.
    """

    probability_least: float
    probability_most: float
    offline_least: float
    offline_most: float


def bounds(cuts: CutSets) -> Bounds:
    """Return limits of the risk of the union of one or more sets."""
    assert len(cuts.places), "a union has one or more sets"
    often = cuts.per_year
    return Bounds(
        probability_least=yearly(float(often.max())),
        probability_most=yearly(float(often.sum())),
        offline_least=float(cuts.down.max()),
        offline_most=min(float(cuts.offline.sum()), 1.0),
    )


def yearly(per_year: float) -> float:
    """Return the probability of at least one event in a year, for independent events.

    >>> yearly(0.0), round(yearly(1e-9), 12), round(yearly(2.0), 3)
    (0.0, 1e-09, 0.865)
    """
    assert per_year >= 0
    return -expm1(-per_year) if per_year < 1 else 1 - exp(-per_year)


MOST_COMPONENTS = 12
"""Maximum brokers and racks to enumerate: 4,096 states take about a millisecond."""


def components_of(rates: Rates, cuts: CutSets) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the brokers of these sets, and those of their racks that can fail."""
    used = np.zeros(len(rates.fail), np.bool_)
    used[cuts.places] = True
    brokers = np.flatnonzero(used[:-1])
    racks = np.unique(rates.rack[brokers])
    return brokers, racks[rates.rack_fail[racks] > 0]


def union_exact(rates: Rates, cuts: CutSets) -> Union:
    """Return the risk of a union of sets, by enumeration.

    Args:
        rates: of the cluster.
        cuts: one or more distinct sets.
    """
    brokers, racks = components_of(rates, cuts)
    states = np.arange(1 << (len(brokers) + len(racks)))
    likely = np.ones(len(states))
    downs = [*rates.down[brokers].tolist(), *rates.rack_down[racks].tolist()]
    for component, down in enumerate(downs):
        likely *= np.where(states >> component & 1, down, 1 - down)
    assert isclose(likely.sum(), 1.0), "the cluster is in one of the states"
    reach = _out_of_reach(rates, brokers, racks, states)
    assert len(brokers) < 63, "a set is a 64-bit mask"
    known = np.isin(cuts.places, brokers)
    bits = np.where(known, 1 << np.minimum(np.searchsorted(brokers, cuts.places), len(brokers) - 1), 0)
    masks: NDArray[np.intp] = bits.sum(axis=1)
    sets_down = _over_subsets(masks, np.ones(len(masks)), len(brokers))[reach]
    often = share = 0.0
    for component in range(len(downs)):
        before = states[states >> component & 1 == 0]
        after = before | 1 << component
        if component < len(brokers):
            broker = brokers[component]
            rate, wait = rates.fail[broker], cuts.wait_broker[cuts.places == broker][0]
            waits = wait * (sets_down[after] - sets_down[before])
        else:
            rack = racks[component - len(brokers)]
            rate = rates.rack_fail[rack]
            of_rack = np.where(rates.rack[cuts.places] == rack, cuts.wait_rack, 0.0).max(axis=1)
            waited = _over_subsets(masks, of_rack, len(brokers))[reach]
            waits = waited[after] - waited[before]
        assert (sets_down[after] >= sets_down[before]).all(), "a failure brings no set up"
        worse = sets_down[after] > sets_down[before]
        weight = likely[before] * rate
        often += float(weight[worse & (sets_down[before] == 0)].sum())
        share += float((weight[worse] * waits[worse] / sets_down[after][worse]).sum())
    share = min(share, 1.0)
    return Union(EstimatedFigure(often, often, often), EstimatedFigure(share, share, share), exact=True)


def _out_of_reach(
    rates: Rates, brokers: NDArray[np.intp], racks: NDArray[np.intp], states: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return for each state the brokers that are down themselves or with their rack, one bit each."""
    reach = states & ((1 << len(brokers)) - 1)
    for number, rack in enumerate(racks):
        inside = int(sum(1 << at for at, broker in enumerate(brokers) if rates.rack[broker] == rack))
        reach |= np.where(states >> (len(brokers) + number) & 1, inside, 0)
    return reach


def _over_subsets(masks: NDArray[np.intp], values: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Return for every set of bits the sum of the values with masks inside it."""
    assert len(masks) == len(values)
    assert masks.max(initial=0) < 1 << bits
    sums = np.bincount(masks, weights=values, minlength=1 << bits).astype(np.float64)
    for bit in range(bits):
        halves = sums.reshape(-1, 2, 1 << bit)
        halves[:, 1] += halves[:, 0]
    return sums
