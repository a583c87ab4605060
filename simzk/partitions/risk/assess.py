"""Risk figures of topics and of a cluster under one assignment; docs/risk.md defines each figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.risk.cut_sets import (
    MOST_COMPONENTS,
    Bounds,
    Union,
    bounds,
    components_of,
    cut_sets,
    union_exact,
    yearly,
)
from simzk.partitions.risk.rates import MINUTES_PER_YEAR, Rates
from simzk.partitions.risk.sampled import SAMPLES, background, union_sampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.risk.cut_sets import ReplicaSets


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
            outage, loss = (self._union(kind, chosen) for kind in range(2))
            self._found[key] = outage, loss
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
