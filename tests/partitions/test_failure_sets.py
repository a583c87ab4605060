"""The language of failure sets: what it means, in which order, and what it refuses."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ConfigError
from simzk.partitions.failure_sets import FailureSpec
from simzk.partitions.layouts import brokers_in_racks
from tests.partitions.layout_strategies import Cluster, clusters, layout_of


@given(clusters(), st.sampled_from(["brokers", "racks"]), st.integers(1, 4))
def test_the_sets_are_all_combinations_of_what_is_live(cluster: Cluster, kind: str, count: int) -> None:
    live = {broker: state.rack for broker, state in cluster.brokers.items() if state.live}
    candidates: list[tuple[set[int], tuple[str, ...]]]
    if kind == "brokers":
        candidates = [({broker}, ()) for broker in sorted(live)]
    else:
        names = sorted({rack for rack in live.values() if rack is not None})
        candidates = [({broker for broker, rack in live.items() if rack == name}, (name,)) for name in names]
    brokers, spec = layout_of(cluster).brokers, FailureSpec(kind, count)
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


@pytest.mark.parametrize(
    "text", ["", "brokers", "brokers:", ":1", "brokers:0", "brokers:-1", "brokers:1.5", "hosts:1", "brokers:²", "1"]
)
def test_what_is_no_failure_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected brokers:N or racks:N"):
        FailureSpec.parse(text)


def test_an_absurd_number_of_sets_is_refused_with_the_number() -> None:
    brokers = brokers_in_racks(300, 3)
    assert FailureSpec("brokers", 3).size(brokers) == 4_455_100
    with pytest.raises(ConfigError, match=r"brokers:4 of 300 brokers is 330,791,175 failure sets; expected at most"):
        FailureSpec("brokers", 4).size(brokers)
