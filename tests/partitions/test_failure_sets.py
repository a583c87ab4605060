"""Specifications of failure sets: sets, order, samples and errors."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ConfigError
from simzk.partitions.failures.sets import FailureSpec
from simzk.partitions.layouts import brokers_in_racks
from tests.partitions.layout_strategies import Cluster, clusters, layout_of


@given(clusters(), st.sampled_from(["brokers", "racks"]), st.integers(1, 4))
def test_sets_are_all_combinations_of_live_brokers_and_racks(cluster: Cluster, kind: str, count: int) -> None:
    live = {broker: state.rack for broker, state in cluster.brokers.items() if state.live}
    candidates: list[tuple[set[int], tuple[str, ...]]]
    if kind == "brokers":
        candidates = [({broker}, ()) for broker in sorted(live)]
    else:
        names = sorted({rack for rack in live.values() if rack is not None})
        candidates = [({broker for broker, rack in live.items() if rack == name}, (name,)) for name in names]
    brokers, spec = layout_of(cluster).brokers, FailureSpec(**{kind: count})
    if count > len(candidates):
        with pytest.raises(ConfigError, match=f"{kind}:{count} cannot fail: there are {len(candidates)} "):
            spec.size(brokers)
        return
    expected = [
        (sorted(set().union(*(ids for ids, _ in chosen))), [name for _, names in chosen for name in names])
        for chosen in combinations(candidates, count)
    ]
    assert spec.size(brokers) == len(expected)
    found = [(list(failed.brokers), list(failed.racks)) for failed in spec.sets(brokers, 0, len(expected))]
    assert found == expected
    middle = len(expected) // 2
    assert [list(failed.brokers) for failed in spec.sets(brokers, middle, len(expected))] == [
        ids for ids, _ in expected[middle:]
    ]


NO_FAILURES = (
    ["", "brokers", "brokers:", ":1", "brokers:0", "brokers:-1", "brokers:1.5", "hosts:1", "brokers:²", "1"],
    ["brokers:1~", "brokers:1~0", "brokers:1~x", "brokers:1+brokers:1", "racks:1+hosts:1", "racks:1+", "+brokers:1"],
)


@pytest.mark.parametrize("text", [*NO_FAILURES[0], *NO_FAILURES[1], "racks:1+brokers:0"])
def test_invalid_specification_raises(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected brokers:N, racks:N or racks:N\+brokers:M"):
        FailureSpec.parse(text)


def test_too_many_sets_raise_with_their_number() -> None:
    brokers = brokers_in_racks(300, 3)
    assert FailureSpec(brokers=3).size(brokers) == 4_455_100
    message = r"brokers:4 of 300 brokers has 330,791,175 failure sets; expected at most 10,000,000, .*: brokers:4~10000"
    with pytest.raises(ConfigError, match=message):
        FailureSpec(brokers=4).size(brokers)


@given(clusters(), st.integers(1, 3), st.integers(1, 3))
def test_racks_fail_with_brokers_of_other_racks(cluster: Cluster, racks: int, count: int) -> None:
    live = {broker: state.rack for broker, state in sorted(cluster.brokers.items()) if state.live}
    names = sorted({rack for rack in live.values() if rack is not None})
    expected = [
        (sorted([broker for broker, rack in live.items() if rack in chosen] + list(beside)), list(chosen))
        for chosen in combinations(names, racks)
        for beside in combinations([broker for broker, rack in live.items() if rack not in chosen], count)
    ]
    brokers, spec = layout_of(cluster).brokers, FailureSpec(brokers=count, racks=racks)
    if not expected:
        with pytest.raises(ConfigError, match="cannot fail"):
            spec.size(brokers)
        return
    assert spec.size(brokers) == spec.population(brokers) == len(expected)
    found = [(list(failed.brokers), list(failed.racks)) for failed in spec.sets(brokers, 0, len(expected))]
    assert found == expected
    middle = len(expected) // 2
    assert [list(failed.brokers) for failed in spec.sets(brokers, middle, middle + 1)] == [expected[middle][0]]


@pytest.mark.parametrize("text", ["brokers:3", "racks:2", "racks:1+brokers:2"])
def test_samples_are_distinct_sets_and_the_same_in_any_slice(text: str) -> None:
    brokers = brokers_in_racks(12, 4)
    every = set(FailureSpec.parse(text).sets(brokers, 0, FailureSpec.parse(text).size(brokers)))
    few = FailureSpec.parse(f"{text}~5", seed=3)
    assert (few.size(brokers), few.population(brokers)) == (5, len(every))
    drawn = list(few.sets(brokers, 0, 5))
    assert len(set(drawn)) == 5
    assert set(drawn) <= every
    assert [*few.sets(brokers, 0, 2), *few.sets(brokers, 2, 5)] == drawn
    assert list(FailureSpec.parse(f"{text}~5", seed=4).sets(brokers, 0, 5)) != drawn
    # As many as there are, or more: all of them, in their order.
    for samples in (len(every), 10**9):
        whole = FailureSpec.parse(f"{text}~{samples}", seed=3)
        assert whole.size(brokers) == len(every)
        ordered = FailureSpec.parse(text).sets(brokers, 0, len(every))
        assert list(whole.sets(brokers, 0, len(every))) == list(ordered)


def test_samples_of_more_sets_than_can_be_listed() -> None:
    brokers = brokers_in_racks(300, 3)
    spec = FailureSpec.parse("brokers:20~1000")
    assert spec.size(brokers) == 1000
    assert {len(failed.brokers) for failed in spec.sets(brokers, 990, 1000)} == {20}


def test_too_many_sets_of_racks_raise() -> None:
    with pytest.raises(ConfigError, match="has 161,700 sets of racks; expected at most 100,000"):
        FailureSpec.parse("racks:3+brokers:1~10").size(brokers_in_racks(200, 100))
