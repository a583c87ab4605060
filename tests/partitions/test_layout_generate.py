"""Drawn layouts: the same seed, the same layout; placed as Kafka's assignment places them; sizes as asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import LayoutError
from simzk.partitions.assignment import assign_topic
from simzk.partitions.java_random import JavaRandom
from simzk.partitions.layouts import Brokers, brokers_in_racks, generate_layout, summarize


@given(
    brokers=st.integers(1, 12),
    racks=st.integers(0, 4),
    topics=st.integers(1, 5),
    partitions=st.integers(1, 60),
    factor=st.integers(1, 4),
    seed=st.integers(0, 2**40),
)
def test_a_drawn_layout_is_healthy_and_spread_over_racks(
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
    placed = [assign_topic(range(6), racks, 10, 3, random=random) for _ in range(2)]
    assert layout.replicas.tolist() == np.concatenate(placed).tolist()


def test_one_broker_without_a_rack_makes_the_placement_rack_unaware() -> None:
    brokers = Brokers.from_racks({1: "a", 2: "a", 3: None})
    layout = generate_layout(brokers, topics=1, partitions=9, replication_factor=2, seed=0)
    assert layout.replicas.tolist() == assign_topic([1, 2, 3], None, 9, 2, random=JavaRandom(0)).tolist()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"partitions": 0}, "0 partitions cannot be"),
        ({"partitions": 10**9}, "1000000000 partitions cannot be; expected 1 to 100,000,000"),
        ({"topics": 0}, "cannot make 0 topics"),
        ({"topics": 21}, "20 partitions cannot make 21 topics"),
        ({"replication_factor": 7}, "replication factor 7 is larger than the 6 available brokers"),
        ({"replication_factor": 0}, "min.insync.replicas 1 cannot be"),
        ({"min_insync_replicas": 4}, "min.insync.replicas 4 cannot be; expected 1 up to the replication factor"),
    ],
)
def test_what_cannot_be_drawn_is_said(wrong: dict[str, int], told: str) -> None:
    wanted = {"topics": 2, "partitions": 20, "replication_factor": 3, "seed": 0} | wrong
    with pytest.raises(LayoutError) as caught:
        generate_layout(brokers_in_racks(6, 3), **wanted)
    assert told in str(caught.value)


@pytest.mark.parametrize(("brokers", "racks"), [(0, 0), (-1, 0), (3, 4), (3, -1), (100_001, 1)])
def test_numbers_of_brokers_and_racks_that_cannot_be(brokers: int, racks: int) -> None:
    with pytest.raises(LayoutError, match="cannot be"):
        brokers_in_racks(brokers, racks)
