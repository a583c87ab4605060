"""Figures of unions of sets equal enumeration and simulated years within the expected error."""

from __future__ import annotations

import os
from math import sqrt
from random import Random
from statistics import fmean, median, stdev

import numpy as np
import pytest
from hypothesis import example, given

from simzk.partitions.risk.assess import background, union_sampled
from simzk.partitions.risk.cut_sets import (
    MOST_COMPONENTS,
    EstimatedFigure,
    Union,
    bounds,
    cut_sets,
    union_exact,
    yearly,
)
from simzk.partitions.risk.rates import Rate
from tests.partitions.risk.reference import Cluster, clusters, falls_per_year, offline_share, play, share_down

pytestmark = pytest.mark.slow

BUSY = Cluster(
    racks=[0, 0, 1, 1, None],
    broker_rates=[Rate(6.0, 100.0), Rate(9.0, 60.0), Rate(3.0, 200.0), Rate(5.0, 90.0), Rate(12.0, 40.0)],
    rack_rates=[Rate(1.0, 70.0), Rate(0.5, 150.0)],
    sets=[(0, 1), (0, 2), (1, 3), (2, 3, 4), (0, 4)],
)

RARE_AND_LONG = Cluster(
    racks=[None] * 4,
    broker_rates=[Rate(4.0, 7.0), Rate(1.0, 92.0), Rate(1.0, 0.5), Rate(1.0, 0.5)],
    rack_rates=[],
    sets=[(0, 1, 2), (0, 2), (3,)],
)
"""One fall in 4,400, of broker 0 while broker 2 is down, brings a 300th of the time: seven hours, not half an hour."""


def sampled(cluster: Cluster, samples: int, seed: int = 0) -> Union:
    """Return the estimate for a cluster's union."""
    rates = cluster.rates
    return union_sampled(rates, cut_sets(rates, cluster.places), background(rates, seed, samples), seed)


@given(clusters(most_sets=6))
def test_union_exact_equals_enumeration(cluster: Cluster) -> None:
    found = union_exact(cluster.rates, cut_sets(cluster.rates, cluster.places))
    every = set(range(len(cluster.sets)))
    assert found.exact
    assert found.per_year.value == pytest.approx(falls_per_year(cluster, every), rel=1e-9, abs=1e-15)
    if len(cluster.sets) == 1:
        assert found.offline.value == pytest.approx(cut_sets(cluster.rates, cluster.places).offline[0], abs=1e-12)


@given(clusters(most_sets=6))
@example(RARE_AND_LONG)
def test_samples_estimate_the_enumerated_union(cluster: Cluster) -> None:
    exact, drawn = union_exact(cluster.rates, cut_sets(cluster.rates, cluster.places)), sampled(cluster, 4000)
    for name in ("per_year", "offline"):
        truth, found = getattr(exact, name), getattr(drawn, name)
        # Of 10,000 such comparisons one or none is five standard errors off; two steps more for skew.
        assert abs(found.value - truth.value) <= 7 / 1.96 * (found.high - found.value) + 1e-15
        assert found.low <= found.value <= found.high


def any_cluster(chance: Random, failures_per_year: tuple[float, float], hours: tuple[float, float]) -> Cluster:
    """Return a random cluster that can be enumerated, with log-uniform rates."""

    def drawn(least: float, most: float) -> float:
        return float(least * (most / least) ** chance.random())

    of_racks = chance.choice([0, 0, 1, 2, 3])
    count = chance.randint(3, MOST_COMPONENTS - of_racks)
    racks = [chance.randrange(of_racks) if of_racks and chance.random() < 0.9 else None for _ in range(count)]
    rates = [Rate(drawn(*failures_per_year), drawn(*hours)) for _ in range(count + of_racks)]
    width, sets = chance.choice([1, 2, 2, 3, 3]), chance.choice([1, 2, 4, 8, 20])
    # One set in four is of another size.
    sizes = [chance.choice([width, width, width, chance.randint(1, 3)]) for _ in range(sets)]
    chosen = sorted({tuple(sorted(chance.sample(range(count), size))) for size in sizes})
    return Cluster(racks, rates[:count], rates[count:], chosen)


@pytest.mark.parametrize("samples", [128, 400, 4000])
@pytest.mark.parametrize(
    ("failures_per_year", "hours"),
    [
        ((0.01, 5.0), (0.1, 24.0)),
        ((1.0, 20.0), (1.0, 500.0)),
        ((0.001, 50.0), (0.05, 3000.0)),
        ((2.0, 2.0), (4.0, 4.0)),
    ],
    ids=["rare", "busy", "any", "alike"],
)
def test_confidence_intervals_cover(
    failures_per_year: tuple[float, float], hours: tuple[float, float], samples: int
) -> None:
    """Run more clusters with `SIMZK_RISK_CLUSTERS=3000` (a minute)."""
    count = int(os.environ.get("SIMZK_RISK_CLUSTERS", "150"))
    held, widths = {"per_year": 0, "offline": 0}, []
    for seed in range(count):
        cluster = any_cluster(Random(seed), failures_per_year, hours)
        exact = union_exact(cluster.rates, cut_sets(cluster.rates, cluster.places))
        drawn = sampled(cluster, samples, seed)
        for name in held:
            truth, found = getattr(exact, name).value, getattr(drawn, name)
            assert abs(found.value - truth) <= 7 / 1.96 * (found.high - found.value)
            held[name] += found.low * (1 - 1e-9) <= truth <= found.high * (1 + 1e-9)
            widths.append((found.high - found.low) / 2 / truth)
    assert min(held.values()) >= 0.93 * count
    # Honest by saying little is no art: a fiftieth of the figure by 400 draws, mostly.
    assert median(widths) < 0.03 * sqrt(400 / samples)


def test_confidence_intervals_of_disjoint_sets_cover() -> None:
    """Sets of large clusters without a common broker are down independently."""
    held, count = 0, 200
    for seed in range(count):
        chance = Random(seed)
        rates = [Rate(10 ** chance.uniform(-1, 1.5), 10 ** chance.uniform(-1, 1.5)) for _ in range(60)]
        cluster = Cluster([None] * 60, rates, [], [(at, at + 1) for at in range(0, 60, 2)])
        cuts = cut_sets(cluster.rates, cluster.places)
        truth = float((cuts.per_year * (1 - cuts.down).prod() / (1 - cuts.down)).sum())
        found = sampled(cluster, 400, seed).per_year
        held += found.low <= truth <= found.high
        assert abs(found.value - truth) <= 7 / 1.96 * (found.high - found.value)
    assert held >= 0.93 * count


@given(clusters(most_sets=6))
def test_bounds_contain_the_exact_figures(cluster: Cluster) -> None:
    cuts = cut_sets(cluster.rates, cluster.places)
    sure, often = bounds(cuts), falls_per_year(cluster, set(range(len(cluster.sets))))
    # Numbers below 1e-308 have lost digits.
    assert yearly(often) <= sure.probability_most * (1 + 1e-9) + 1e-300
    alone = range(len(cluster.sets))
    assert sure.offline_least == pytest.approx(max(share_down(cluster, number) for number in alone), abs=1e-15)
    assert sure.offline_most >= max(offline_share(cluster, number) for number in alone) * (1 - 1e-9) - 1e-300


def test_simulated_years_agree_with_the_figures() -> None:
    years = 2500
    played = play(BUSY, years, Random(5))
    reported = union_exact(BUSY.rates, cut_sets(BUSY.rates, BUSY.places))
    error = stdev(played.falls) / years**0.5
    # A further failure within an outage is no new outage of the union: the estimate is rather too high than too low.
    assert fmean(played.falls) - 4 * error <= reported.per_year.value <= fmean(played.falls) * 1.15
    error = stdev(played.offline) / years**0.5
    assert reported.offline.value == pytest.approx(fmean(played.offline), rel=0.1, abs=4 * error)
    sure = bounds(cut_sets(BUSY.rates, BUSY.places))
    assert sure.offline_least <= fmean(played.offline) <= sure.offline_most


def test_probability_of_a_year_agrees_with_simulated_years() -> None:
    rare = BUSY._replace(broker_rates=[Rate(rate.per_year / 3, rate.hours / 3) for rate in BUSY.broker_rates])
    years = 6000
    played = play(rare, years, Random(6))
    share = fmean(falls > 0 for falls in played.falls)
    cuts = cut_sets(rare.rates, rare.places)
    reported, sure = yearly(union_exact(rare.rates, cuts).per_year.value), bounds(cuts)
    error = (share * (1 - share) / years) ** 0.5
    assert reported == pytest.approx(share, abs=4 * error)
    assert sure.probability_least - 4 * error <= share <= sure.probability_most + 4 * error


def test_large_clusters_agree_with_simulated_years() -> None:
    """Run more years with `SIMZK_RISK_YEARS=20000` (half a minute)."""
    years = int(os.environ.get("SIMZK_RISK_YEARS", "300"))
    chance = Random(3)
    large = Cluster(
        racks=[number % 4 for number in range(20)],
        broker_rates=[Rate(chance.uniform(1, 6), chance.uniform(5, 60)) for _ in range(20)],
        rack_rates=[Rate(chance.uniform(0.2, 1), chance.uniform(5, 40)) for _ in range(4)],
        sets=sorted({tuple(sorted(chance.sample(range(20), 2))) for _ in range(30)}),
    )
    played, reported = play(large, years, chance), sampled(large, 4000)
    assert len(large.broker_rates) + len(large.rack_rates) > MOST_COMPONENTS
    falls, shares = fmean(played.falls), fmean(played.offline)
    error = 4 * stdev(played.falls) / years**0.5 + 2 * (reported.per_year.high - reported.per_year.value)
    assert reported.per_year.value == pytest.approx(falls, rel=0.02, abs=error)
    error = 4 * stdev(played.offline) / years**0.5 + 2 * (reported.offline.high - reported.offline.value)
    assert reported.offline.value == pytest.approx(shares, rel=0.03, abs=error)


def test_sets_in_one_rack_fail_in_one_outage() -> None:
    """A thousand sets in a rack that fails are one outage, not a thousand."""
    racks: list[int | None] = [number // 50 for number in range(100)]
    rates = Cluster(racks, [Rate(0.5, 0.1)] * 100, [Rate(0.3, 2.0), Rate(0.0, 1.0)], [(0,)]).rates
    pairs = np.array([(one, other) for one in range(50) for other in range(one)], np.intp)
    cuts = cut_sets(rates, pairs)
    found = union_sampled(rates, cuts, background(rates, 0, 400), 0)
    assert bounds(cuts).probability_most == pytest.approx(1.0)
    by_chance = 0.5 * 50 * 49 * 0.5 * 0.1 / 8766  # one fails while another is down
    assert found.per_year.value == pytest.approx(0.3 + by_chance, rel=2e-3)
    assert found.per_year.high - found.per_year.low < 0.03 * found.per_year.value


def test_samples_depend_on_sets_and_seed_only() -> None:
    assert sampled(BUSY, 500) == sampled(BUSY, 500)
    assert sampled(BUSY, 500) != sampled(BUSY, 500, seed=1)


def test_components_that_never_fail_have_no_risk() -> None:
    still = Cluster([0, 1], [Rate(0.0, 1.0)] * 2, [Rate(0.0, 1.0)] * 2, [(0,), (0, 1)])
    nothing = EstimatedFigure(0.0, 0.0, 0.0)
    assert sampled(still, 128) == Union(nothing, nothing, exact=True)
    assert union_exact(still.rates, cut_sets(still.rates, still.places)).per_year == nothing


def test_sets_are_counted_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sampled(BUSY, 300)
    monkeypatch.setattr("simzk.partitions.risk.assess._ROWS_AT_ONCE", 2)
    monkeypatch.setattr("simzk.partitions.risk.assess._SETS_AT_ONCE", 2)
    assert sampled(BUSY, 300) == whole


def test_wide_sets_give_an_interval_from_none_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Cluster(list(range(9)), [Rate(20.0, 300.0)] * 9, [Rate(9.0, 200.0)] * 9, [tuple(range(9))])
    alone = cut_sets(wide.rates, wide.places)
    often, share = alone.per_year[0], alone.offline[0]
    assert sampled(wide, 400) == Union(
        EstimatedFigure(often, 0.0, often), EstimatedFigure(share, 0.0, share), exact=False
    )
    truth = union_exact(BUSY.rates, cut_sets(BUSY.rates, BUSY.places))
    drawn = sampled(BUSY, 4000)
    monkeypatch.setattr("simzk.partitions.risk.assess.MOST_RACKS", 1)
    found = sampled(BUSY, 4000)
    for name in ("per_year", "offline"):
        figure, known = getattr(found, name), getattr(truth, name).value
        assert 0 < figure.low <= known <= figure.high
        assert figure.high - figure.low > getattr(drawn, name).high - getattr(drawn, name).low


def test_sampled_states_follow_the_rates() -> None:
    found = background(BUSY.rates, 3, 20_000)
    brokers = len(BUSY.racks)
    assert found[:brokers].mean(axis=1) == pytest.approx(BUSY.rates.down[:-1], abs=0.01)
    assert found[brokers + 1 :].mean(axis=1) == pytest.approx(BUSY.rates.rack_down, abs=0.01)
    assert found[brokers].all()
