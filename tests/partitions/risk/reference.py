"""Risk by brute force: enumeration of all states, full Markov chains, and simulated years.

It shares no formula with `simzk.partitions.risk`.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import strategies as st

from simzk.partitions.layouts import Brokers
from simzk.partitions.risk.rates import HOURS_PER_YEAR, Rate, Rates, rates_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random


class Cluster(NamedTuple):
    """A small cluster: brokers and racks by number, and sets of replicas."""

    racks: list[int | None]
    broker_rates: list[Rate]
    rack_rates: list[Rate]
    sets: list[tuple[int, ...]]

    @property
    def rates(self) -> Rates:
        """Return the rates as `Rates`."""
        names = {at: None if rack is None else f"r{rack}" for at, rack in enumerate(self.racks)}
        of_racks = {f"r{at}": rate for at, rate in enumerate(self.rack_rates)}
        return rates_of(Brokers.from_racks(names), self.broker_rates, of_racks)

    @property
    def places(self) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
        """Return the sets as an array."""
        width = max(map(len, self.sets))
        return np.array([[*some, *[len(self.racks)] * (width - len(some))] for some in self.sets], np.intp)

    @property
    def components(self) -> list[Rate]:
        """Return brokers, then racks."""
        return [*self.broker_rates, *self.rack_rates]

    def up(self, state: tuple[bool, ...]) -> set[int]:
        """Return the reachable brokers if these components are up."""
        count = len(self.racks)
        return {at for at, rack in enumerate(self.racks) if state[at] and (rack is None or state[count + rack])}

    def fallen(self, state: tuple[bool, ...]) -> set[int]:
        """Return the sets without a reachable broker."""
        up = self.up(state)
        return {number for number, some in enumerate(self.sets) if not up & set(some)}


@st.composite
def clusters(draw: st.DrawFn, *, most_brokers: int = 4, most_sets: int = 4) -> Cluster:
    """Generate clusters with few enough states to enumerate; failures are frequent, so that no figure is tiny."""
    count = draw(st.integers(1, most_brokers))
    racks = draw(st.integers(0, 2))
    rate = st.builds(Rate, st.floats(0, 20), st.floats(0.5, 500))
    broker = st.integers(0, count - 1)
    some = st.sets(broker, min_size=1, max_size=3).map(lambda ids: tuple(sorted(ids)))
    cluster = Cluster(
        racks=[draw(st.integers(0, racks - 1) | st.none()) if racks else None for _ in range(count)],
        broker_rates=draw(st.lists(rate, min_size=count, max_size=count)),
        rack_rates=draw(st.lists(rate, min_size=racks, max_size=racks)),
        sets=sorted(draw(st.sets(some, min_size=1, max_size=most_sets))),
    )
    # No rack is empty.
    used = sorted({rack for rack in cluster.racks if rack is not None})
    dense = [None if rack is None else used.index(rack) for rack in cluster.racks]
    return cluster._replace(racks=dense, rack_rates=[cluster.rack_rates[rack] for rack in used])


def states(cluster: Cluster) -> Iterator[tuple[tuple[bool, ...], float]]:
    """Yield every state with its probability."""
    # Down for each up: what is down once in a billion years is not lost in 1 - up.
    odds = [rate.per_year * rate.hours / HOURS_PER_YEAR for rate in cluster.components]
    for state in product((False, True), repeat=len(odds)):
        yield state, prod((1 if is_up else down) / (1 + down) for down, is_up in zip(odds, state, strict=True))


def share_down(cluster: Cluster, number: int) -> float:
    """Return the share of time in which a set is down."""
    return sum(likely for state, likely in states(cluster) if number in cluster.fallen(state))


def falls_per_year(cluster: Cluster, sets: set[int]) -> float:
    """Return how often one of these sets goes down while none of them is."""
    often = 0.0
    for state, likely in states(cluster):
        if cluster.fallen(state) & sets:
            continue
        for component, rate in enumerate(cluster.components):
            after = (*state[:component], False, *state[component + 1 :])
            if state[component] and cluster.fallen(after) & sets:
                often += likely * rate.per_year
    return often


def offline_share(cluster: Cluster, number: int) -> float:
    """Return the share of time without a reachable in-sync member, from the full chain with the last ISR."""
    wanted = frozenset(cluster.sets[number])
    rates = [(rate.per_year, HOURS_PER_YEAR / rate.hours) for rate in cluster.components]
    numbers: dict[tuple[tuple[bool, ...], frozenset[int]], int] = {}
    moves: list[tuple[int, int, float]] = []
    start = (True,) * len(rates)
    todo = [(start, wanted)]
    numbers[start, wanted] = 0
    while todo:
        state, in_sync = todo.pop()
        for component, (fail, repair) in enumerate(rates):
            after = (*state[:component], not state[component], *state[component + 1 :])
            up = frozenset(cluster.up(after)) & wanted
            # Whoever is in sync and in reach leads, and all others in reach follow; without any, all wait for them.
            then = (after, up if up & in_sync else in_sync)
            if then not in numbers:
                numbers[then] = len(numbers)
                todo.append(then)
            moves.append((numbers[state, in_sync], numbers[then], fail if state[component] else repair))
    generator = np.zeros((len(numbers), len(numbers)))
    for one, other, rate in moves:
        generator[one, other] += rate
        generator[one, one] -= rate
    generator[:, 0] = 1.0
    steady = np.linalg.solve(generator.T, np.eye(len(numbers))[0])
    return float(sum(steady[at] for (state, in_sync), at in numbers.items() if not cluster.up(state) & in_sync))


class Played(NamedTuple):
    """Events in simulated years.

    Args:
        falls: by year, how often one of the sets went offline while none was.
        offline: by year, the share of time with at least one set offline.
    """

    falls: list[int]
    offline: list[float]


def play(cluster: Cluster, years: int, random: Random) -> Played:
    """Simulate alternating renewal processes and clean elections of each set."""
    rates = [(rate.per_year, HOURS_PER_YEAR / rate.hours) for rate in cluster.components]
    state = [True] * len(rates)
    next_at = [random.expovariate(fail) if fail else float("inf") for fail, _ in rates]
    in_sync = [set(some) for some in cluster.sets]
    falls, offline = [0] * years, [0.0] * years
    was_offline, since = False, 0.0
    while (now := min(next_at)) < years:
        component = next_at.index(now)
        state[component] = not state[component]
        fail, repair = rates[component]
        next_at[component] = now + random.expovariate(fail if state[component] else repair)
        up = cluster.up(tuple(state))
        is_offline = False
        for some, members in zip(cluster.sets, in_sync, strict=True):
            if members & up:
                members.clear()
                members.update(up.intersection(some))
            else:
                is_offline = True
        if is_offline and not was_offline:
            falls[int(now)] += 1
            since = now
        elif was_offline and not is_offline:
            _add(offline, since, now)
        was_offline = is_offline
    if was_offline:
        _add(offline, since, float(years))
    return Played(falls, offline)


def _add(shares: list[float], since: float, until: float) -> None:
    for year in range(int(since), min(int(until) + 1, len(shares))):
        shares[year] += min(until, year + 1) - max(since, year)
