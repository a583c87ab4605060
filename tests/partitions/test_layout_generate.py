"""Generated layouts: reproducible by seed, placed by Kafka's assignment, with the requested sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import LayoutError
from simzk.jvm.numbers import JavaRandom
from simzk.partitions.assignment import assign_replicas
from simzk.partitions.layouts import Brokers, brokers_in_racks, generate_layout, summarize


@given(
    brokers=st.integers(1, 12),
    racks=st.integers(0, 4),
    topics=st.integers(1, 5),
    partitions=st.integers(1, 60),
    factor=st.integers(1, 4),
    seed=st.integers(0, 2**40),
)
def test_generated_layout_is_healthy_and_spread_over_racks(
    brokers: int, racks: int, topics: int, partitions: int, factor: int, seed: int
) -> None:
    racks, topics, factor = min(racks, brokers), min(topics, partitions), min(factor, brokers)
    layout = generate_layout(
        brokers_in_racks(brokers, racks), topics=topics, partitions=partitions, replication_factor=factor, seed=seed
    )
    layout.check()
    summary = summarize(layout)
    assert (summary.partitions, summary.topics) == (partitions, topics)
    assert summary.replication_factors == {factor: partitions}
    assert summary.preferred_led == partitions
    assert summary.offline == summary.under_replicated == summary.under_min_isr == summary.rack_violations == 0
    sizes = np.bincount(layout.topic)
    assert sizes.max() - sizes.min() <= 1


def test_each_topic_is_placed_by_kafkas_rule_from_one_stream() -> None:
    brokers = brokers_in_racks(6, 3)
    layout = generate_layout(brokers, topics=2, partitions=20, replication_factor=3, seed=42)
    random = JavaRandom(42)
    racks = {int(broker): rack for broker, rack in zip(brokers.ids, brokers.racks, strict=True) if rack}
    placed = [assign_replicas(range(6), racks, 10, 3, random=random) for _ in range(2)]
    assert layout.replicas.tolist() == [row for rows in placed for row in rows.values()]


def test_one_broker_without_a_rack_makes_the_placement_rack_unaware() -> None:
    brokers = Brokers.from_racks({1: "a", 2: "a", 3: None})
    layout = generate_layout(brokers, topics=1, partitions=9, replication_factor=2, seed=0)
    placed = assign_replicas([1, 2, 3], None, 9, 2, random=JavaRandom(0))
    assert layout.replicas.tolist() == list(placed.values())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"partitions": 0}, "number of partitions 0 is out of range"),
        ({"partitions": 10**9}, "number of partitions 1000000000 is out of range; expected 1 to 100,000,000"),
        ({"topics": 0}, "number of topics 0 is out of range"),
        ({"topics": 21}, "number of topics 21 is out of range; expected 1 to 20, one per partition"),
        ({"replication_factor": 7}, "replication factor 7 is larger than the 6 available brokers"),
        ({"replication_factor": 0}, "replication factors [0] are out of range; expected 1 or more"),
        ({"replication_factor": [3, 0]}, "replication factors [3, 0] are out of range"),
        ({"replication_factor": []}, "replication factors [] are out of range"),
        ({"topic_skew": -1.0}, "topic skew -1 is out of range; expected 0 (even) to 10"),
        ({"topic_skew": float("nan")}, "topic skew nan is out of range"),
        ({"isr_gaps": 1.5}, "share of partitions with ISR gaps 1.5 is out of range; expected 0 to 1"),
        ({"min_insync_replicas": 4}, "min.insync.replicas 4 is out of range; expected 1 to the replication factor"),
    ],
)
def test_invalid_arguments_raise(wrong: dict[str, Any], message: str) -> None:
    wanted: dict[str, Any] = {"topics": 2, "partitions": 20, "replication_factor": 3, "seed": 0} | wrong
    with pytest.raises(LayoutError) as caught:
        generate_layout(brokers_in_racks(6, 3), **wanted)
    assert message in str(caught.value)


@pytest.mark.parametrize(("brokers", "racks"), [(0, 0), (-1, 0), (3, 4), (3, -1), (100_001, 1)])
def test_invalid_numbers_of_brokers_and_racks_raise(brokers: int, racks: int) -> None:
    with pytest.raises(LayoutError, match="is out of range"):
        brokers_in_racks(brokers, racks)


@given(
    factors=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    topics=st.integers(1, 12),
    more=st.integers(0, 200),
    skew=st.floats(0, 10),
    gaps=st.floats(0, 1),
    least=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_mixed_and_uneven_topics_with_gaps(
    factors: list[int], topics: int, more: int, skew: float, gaps: float, least: int, seed: int
) -> None:
    least = min(least, max(factors))
    layout = generate_layout(
        brokers_in_racks(6, 3),
        topics=topics,
        partitions=topics + more,
        replication_factor=factors,
        seed=seed,
        min_insync_replicas=least,
        topic_skew=skew,
        isr_gaps=gaps,
    )
    layout.check()
    sizes = np.bincount(layout.topic, minlength=topics)
    assert len(layout) == topics + more
    assert (sizes >= 1).all()
    assert (np.diff(sizes) <= 0).all(), "an earlier topic is no smaller"
    held, in_sync = (layout.replicas >= 0).sum(axis=1), (layout.isr >= 0).sum(axis=1)
    assert held.tolist() == [factors[topic % len(factors)] for topic in layout.topic]
    assert layout.min_insync_replicas.tolist() == np.minimum(held, least).tolist()
    assert (layout.leader == layout.replicas[:, 0]).all()
    assert set((held - in_sync).tolist()) <= {0, 1}
    assert (in_sync[held == 1] == 1).all()
    if gaps in (0, 1):
        assert (held - in_sync).tolist() == ((held > 1) * gaps).tolist()
    assert summarize(layout).rack_violations == 0


def test_topic_sizes_follow_the_requested_skew() -> None:
    layout = generate_layout(
        brokers_in_racks(3, 0), topics=4, partitions=1004, replication_factor=1, seed=0, topic_skew=1.0
    )
    assert np.bincount(layout.topic).tolist() == [481, 241, 161, 121], "480, 240, 160, 120, and one each"


def test_isr_gaps_have_the_requested_share_and_depend_on_the_seed() -> None:
    short = []
    for seed in (1, 2):
        layout = generate_layout(
            brokers_in_racks(6, 3), topics=10, partitions=20_000, replication_factor=3, seed=seed, isr_gaps=0.1
        )
        gaps = (layout.isr >= 0).sum(axis=1) == 2
        assert 1_850 < np.count_nonzero(gaps) < 2_150
        second = np.count_nonzero(layout.isr[gaps, 1] == layout.replicas[gaps, 2])
        assert 850 < second < 1_150, "either follower"
        short.append(gaps)
    assert (short[0] != short[1]).any()


def test_mixed_factors_are_placed_from_one_stream_factor_by_factor() -> None:
    layout = generate_layout(brokers_in_racks(6, 0), topics=4, partitions=20, replication_factor=[3, 2], seed=9)
    random = JavaRandom(9)
    threes = [assign_replicas(range(6), None, 5, 3, random=random) for _ in range(2)]
    twos = [assign_replicas(range(6), None, 5, 2, random=random) for _ in range(2)]
    by_topic = [threes[0], twos[0], threes[1], twos[1]]
    assert [row[row >= 0].tolist() for row in layout.replicas] == [row for rows in by_topic for row in rows.values()]


def test_before_kip_36_racks_do_not_matter() -> None:
    blind = generate_layout(
        brokers_in_racks(6, 3), topics=1, partitions=9, replication_factor=3, seed=0, rack_aware=False
    )
    placed = assign_replicas(range(6), None, 9, 3, random=JavaRandom(0))
    assert blind.replicas.tolist() == list(placed.values())
    assert blind.brokers.rack_names == ("rack1", "rack2", "rack3")
