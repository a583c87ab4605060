"""Minimal cuts: a set is down if and only if one of its cuts is; frequencies equal enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from simzk.partitions.risk.assess import components, minimal_cuts
from simzk.partitions.risk.cut_sets import cut_sets
from simzk.partitions.risk.rates import Rate
from tests.partitions.risk.reference import Cluster, clusters, states


def cuts_of(cluster: Cluster) -> dict[frozenset[int], tuple[float, float]]:
    """Return frequency and share of each cut, by its component numbers in `Cluster.components`."""
    sets = cut_sets(cluster.rates, cluster.places)
    found = minimal_cuts(cluster.rates, sets, components(cluster.rates, sets))
    padding = len(cluster.racks)
    named = [frozenset(part - (part > padding) for part in row if part != padding) for row in found.parts.tolist()]
    assert len(set(named)) == len(named)
    return dict(zip(named, zip(found.per_year.tolist(), found.share.tolist(), strict=True), strict=True))


@given(clusters(most_sets=6))
def test_sets_are_down_where_a_cut_is_with_enumerated_frequencies(cluster: Cluster) -> None:
    cuts = cuts_of(cluster)
    often, offline = dict.fromkeys(cuts, 0.0), dict.fromkeys(cuts, 0.0)
    by_broker, by_rack = (times.tolist() for times in cluster.rates.until_back())
    concerned = {broker for some in cluster.sets for broker in some}
    racks = range(len(cluster.rack_rates))
    longest = [max((by_rack[at] for at in concerned if cluster.racks[at] == rack), default=0.0) for rack in racks]
    waits = [*by_broker[:-1], *longest]
    for state, likely in states(cluster):
        down = {at for at, is_up in enumerate(state) if not is_up}
        # What is rarer than numbers can say is left out.
        assert bool(cluster.fallen(state)) == any(cut <= down for cut in cuts) or likely < 1e-280
        for cut in often:
            if len(cut - down) == 1:
                (last,) = cut - down
                often[cut] += likely * cluster.components[last].per_year
                offline[cut] += likely * cluster.components[last].per_year * waits[last]
    for cut, (per_year, share) in cuts.items():
        assert per_year == pytest.approx(often[cut], rel=1e-9, abs=1e-15)
        assert share == pytest.approx(offline[cut], rel=1e-9, abs=1e-15)


def test_rack_shared_by_a_thousand_sets_is_one_cut() -> None:
    pairs: list[tuple[int, ...]] = [(one, other) for one in range(46) for other in range(one)]
    cluster = Cluster([0] * 46, [Rate(1.0, 1.0)] * 45 + [Rate(1.0, 9.0)], [Rate(2.0, 3.0)], pairs)
    cuts = cuts_of(cluster)
    assert len(cuts) == len(pairs) + 1
    often, share = cuts[frozenset({46})]
    assert often == pytest.approx(2.0, rel=1e-3)
    # A set waits for the slower of its two, and somebody may be away when the rack is back.
    slowest = cluster.rates.until_back()[1][:-1].max()
    assert share == pytest.approx(often * slowest)
    assert slowest > np.median(cluster.rates.until_back()[1])


def test_broker_that_never_fails_is_in_no_cut() -> None:
    cluster = Cluster([0, 1], [Rate(0.0, 1.0), Rate(1.0, 1.0)], [Rate(1.0, 1.0), Rate(0.0, 1.0)], [(0, 1)])
    assert cuts_of(cluster).keys() == {frozenset({1, 2})}
