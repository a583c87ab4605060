"""Alternative assignments: invariants, distribution of replicas, and number of moved replicas."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simzk.errors import ConfigError
from simzk.partitions.arrays import pack, sizes, unpack
from simzk.partitions.layouts import Brokers, Layout, brokers_in_racks, generate_layout
from simzk.partitions.risk.alternatives import alternative, copysets, moved, with_replicas
from tests.partitions.layout_strategies import Cluster, clusters, layout_of


def made(brokers: int, racks: int, partitions: int, rf: int, topics: int = 1) -> Layout:
    return generate_layout(
        brokers_in_racks(brokers, racks), topics=topics, partitions=partitions, replication_factor=rf, seed=3
    )


@given(
    clusters(), st.sampled_from(["rack-aware", "copysets", "copysets:1", "copysets:99", "random"]), st.integers(0, 9)
)
def test_alternative_keeps_topics_numbers_and_replication_factors(cluster: Cluster, name: str, seed: int) -> None:
    layout = layout_of(cluster)
    live = {broker for broker, one in cluster.brokers.items() if one.live}
    assume(len(live) >= int(sizes(layout.replicas).max(initial=0)))
    assume(name != "rack-aware" or all(cluster.brokers[broker].rack for broker in live))
    assume(live)
    replicas = alternative(layout, name, seed)
    with_replicas(layout, replicas).check()
    assert sizes(replicas).tolist() == sizes(layout.replicas).tolist()
    assert {broker for some in unpack(replicas) for broker in some} <= live
    assert np.array_equal(alternative(layout, name, seed), replicas)


def test_rack_aware_equals_a_new_assignment_by_kafka() -> None:
    layout = made(12, 4, 240, 3, topics=3)
    replicas = alternative(layout, "rack-aware", seed=3)
    assert np.array_equal(replicas, layout.replicas)  # it was made so, with this seed
    assert all(len({broker % 4 for broker in some}) == 3 for some in unpack(replicas))


@pytest.mark.parametrize(("brokers", "racks", "factor"), [(12, 4, 3), (13, 4, 3), (20, 5, 2), (9, 3, 3), (10, 0, 3)])
def test_copysets_cover_every_broker_with_the_requested_scatter_width(brokers: int, racks: int, factor: int) -> None:
    cluster = brokers_in_racks(brokers, racks)
    groups = unpack(copysets(cluster, factor, 4, seed=1))
    assert {broker for group in groups for broker in group} == set(range(brokers))
    if racks:
        assert all(len({broker % racks for broker in group}) == factor for group in groups)
    neighbours = {
        broker: {other for group in groups if broker in group for other in group} for broker in range(brokers)
    }
    widths = [len(of_broker) - 1 for of_broker in neighbours.values()]
    leftover = brokers % factor * (factor - 1) * 2
    assert max(widths) <= 4 + leftover
    assert sum(widths) / brokers > 2.5


def test_copysets_have_fewer_sets_that_lose_data_than_random() -> None:
    layout = made(30, 0, 3000, 3)
    few = {tuple(sorted(some)) for some in unpack(alternative(layout, "copysets:4", seed=0))}
    many = {tuple(sorted(some)) for some in unpack(alternative(layout, "random", seed=0))}
    assert len(few) == 20  # two shuffles of ten groups
    assert len(many) > 0.4 * comb(30, 3)


def test_copysets_spread_replicas_and_leaders_evenly() -> None:
    replicas = alternative(made(12, 3, 2400, 3, topics=10), "copysets:4", seed=2)
    held = Counter(replicas.ravel().tolist())
    led = Counter(replicas[:, 0].tolist())
    assert max(held.values()) - min(held.values()) <= 30
    assert max(led.values()) < 2 * min(led.values())


def test_random_chooses_every_set_with_equal_probability() -> None:
    replicas = alternative(made(5, 0, 20_000, 2), "random", seed=4)
    found = Counter(map(tuple, replicas.tolist()))
    assert len(found) == 20
    assert all(abs(found[one, other] - 1000) < 160 for one, other in combinations(range(5), 2))


def test_moved_counts_replicas_on_new_brokers() -> None:
    assert moved(pack([[1, 2], [3]]), pack([[2, 1], [4]])) == 1
    assert moved(pack([[1, 2, 3]]), pack([[4, 5, 6]])) == 3


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("best", "unknown assignment 'best'; expected rack-aware, copysets, copysets:SCATTER_WIDTH or random"),
        ("random:3", "unknown assignment 'random:3'; expected "),
        ("copysets:", "missing scatter width in 'copysets:'; expected a number, such as copysets:10"),
        ("copysets:0", "missing scatter width in 'copysets:0'"),
    ],
)
def test_unknown_alternative_raises(name: str, what: str) -> None:
    with pytest.raises(ConfigError) as refused:
        alternative(made(3, 0, 3, 2), name, 0)
    assert str(refused.value).startswith(what)


def test_missing_racks_or_brokers_raise() -> None:
    layout = made(3, 0, 3, 3)
    with pytest.raises(ConfigError, match="needs racks, but some live brokers have none"):
        alternative(layout, "rack-aware", 0)
    ids = layout.brokers.ids
    down = Layout(**{**vars(layout), "brokers": Brokers(ids, layout.brokers.racks, ids != 1)})
    with pytest.raises(ConfigError, match="3 replicas need 3 live brokers, there are 2"):
        alternative(down, "random", 0)
