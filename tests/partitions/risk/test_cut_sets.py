"""Figures of single sets of replicas equal enumeration, the full Markov chain and simulated years."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from simzk.partitions.risk.cut_sets import CutSets, cut_sets
from simzk.partitions.risk.rates import HOURS_PER_YEAR, Rate
from tests.partitions.risk.reference import Cluster, clusters, falls_per_year, offline_share, share_down


@settings(max_examples=2 * settings().max_examples)  # a planted mistake is found among a hundred
@given(clusters())
def test_share_of_time_and_frequency_equal_enumeration(cluster: Cluster) -> None:
    found = cut_sets(cluster.rates, cluster.places)
    for number in range(len(cluster.sets)):
        assert found.down[number] == pytest.approx(share_down(cluster, number), rel=1e-9, abs=1e-15)
        assert found.per_year[number] == pytest.approx(falls_per_year(cluster, {number}), rel=1e-9, abs=1e-15)


@given(clusters(most_sets=1))
def test_offline_time_is_within_bounds_and_near_the_upper(cluster: Cluster) -> None:
    found = cut_sets(cluster.rates, cluster.places)
    exact = offline_share(cluster, 0)
    assert found.down[0] * (1 - 1e-9) - 1e-15 <= exact <= found.offline[0] * (1 + 1e-9) + 1e-15
    # A second fall within the first is as rare as anything that is down at all.
    rare = sum(rate.per_year * rate.hours / HOURS_PER_YEAR for rate in cluster.components)
    assert found.offline[0] <= exact * (1 + 4 * rare) + 1e-15


def test_clean_elections_wait_for_the_last_replica_unclean_for_the_first() -> None:
    cluster = Cluster([None] * 3, [Rate(1.0, 1.0)] * 3, [], [(0, 1, 2)])
    found = cut_sets(cluster.rates, cluster.places)
    assert found.offline[0] / found.down[0] == pytest.approx(3, rel=1e-3)
    assert found.offline[0] == pytest.approx(offline_share(cluster, 0), rel=1e-3)


def test_rack_with_all_replicas_takes_the_set_down() -> None:
    cluster = Cluster([0, 0, 1], [Rate(0.0, 1.0)] * 3, [Rate(2.0, 3.0), Rate(4.0, 5.0)], [(0, 1), (0, 2)])
    found = cut_sets(cluster.rates, cluster.places)
    assert found.per_year[0] == pytest.approx(2 / (1 + 2 * 3 / HOURS_PER_YEAR))
    assert found.offline[0] == pytest.approx(found.down[0]) == pytest.approx(share_down(cluster, 0))


def test_many_sets_are_processed_in_chunks_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([0, 1, 0], [Rate(at + 1.0, 5.0) for at in range(3)], [Rate(1.0, 1.0)] * 2, [(0,), (0, 1), (1, 2)])
    whole = cut_sets(cluster.rates, cluster.places)
    monkeypatch.setattr("simzk.partitions.risk.cut_sets._AT_ONCE", 1)
    parts = cut_sets(cluster.rates, cluster.places)
    assert all(np.array_equal(getattr(whole, name), getattr(parts, name)) for name in CutSets._fields)
    assert cut_sets(cluster.rates, cluster.places[:0]).per_year.shape == (0,)
