"""Where rows lie, and orders that are made anew, are of no consequence: the tree and the history are the same.

Only among equal hashes do the sets and maps of Scala 2.13 ask what came first; so many here are equal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simzk.jvm.scala_columns import string_hashes
from simzk.kafka.cluster import cluster as cluster_module
from simzk.kafka.controller.context import ControllerContext
from simzk.kafka.topic_partition import partition_hashes
from tests.kafka.columnar.cluster_arms import ALL, BROKERS, BY_BATCHES, LIMIT_SECONDS, Arms, layout_of, made

if TYPE_CHECKING:
    from simzk.kafka.cluster.cluster import KafkaCluster

NAMES = ("bC", "zz", "ab", "cb", "bc", "bb")
"""Two are of one hash, and a partition of theirs is of the hash of another one's, whose number is one less."""
LAYOUT = replace(layout_of(48), topics=NAMES)
STEPS = st.lists(
    st.tuples(st.sampled_from(["kill", "shutdown", "shutdown", "restart", "restart"]), st.integers(0, BROKERS - 1)),
    min_size=3,
    max_size=9,
)


@pytest.fixture(autouse=True)
def constant_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "LATENCY_US", (400, 400))


def test_hashes_are_equal() -> None:
    hashes = partition_hashes(string_hashes(NAMES).take(LAYOUT.topic), LAYOUT.partition)
    assert len(np.unique(hashes)) < len(hashes) - 12


@pytest.mark.parametrize("step", ["kill", "shutdown"])
def test_batches_and_objects_lie_otherwise(step: str) -> None:
    arms = Arms(LAYOUT, seed=1, kinds=ALL)
    for broker in [one for one in range(BROKERS) if one != arms.arms[0].controller]:  # who wins an election is chance
        arms.play(step, broker, 0)
        arms.play("restart", broker, 0)


def told(story: list[tuple[str, int]], seed: int) -> KafkaCluster:
    cluster = made(BY_BATCHES, LAYOUT, "3.9", seed)
    for step, broker in story:
        if cluster.brokers[broker].alive != (step == "restart"):
            getattr(cluster, step)(broker)
            cluster.run_until_quiet(LIMIT_SECONDS)
    return cluster


@given(story=STEPS, seed=st.integers(0, 9))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_ordered_again_needs_no_order(story: list[tuple[str, int]], seed: int) -> None:
    short = told(story, seed)
    with mock.patch.object(ControllerContext, "is_ordered_again", new=False):
        ordered = told(story, seed)
    assert list(short.history) == list(ordered.history)
    trees = [{path: (node.data, node.stat()) for path, node in one.server.tree.walk()} for one in (short, ordered)]
    assert trees[0] == trees[1]
