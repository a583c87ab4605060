"""What a broker holds is handled as it lies in memory where nobody sees it: the tree and the history are the same.

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

from simzk.kafka import cluster as cluster_module
from simzk.kafka.controller.context import ControllerContext
from simzk.partitions.scala_orders import partition_hashes, string_hashes
from tests.kafka.columnar.cluster_arms import BROKERS, BY_BATCHES, LIMIT_SECONDS, layout_of, made

if TYPE_CHECKING:
    from simzk.kafka.cluster import KafkaCluster

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


def told(story: list[tuple[str, int]], seed: int) -> KafkaCluster:
    cluster = made(BY_BATCHES, LAYOUT, "3.9", seed)
    for step, broker in story:
        if cluster.brokers[broker].alive != (step == "restart"):
            getattr(cluster, step)(broker)
            cluster.run_until_quiet(LIMIT_SECONDS)
    return cluster


@given(story=STEPS, seed=st.integers(0, 9))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nobody_sees_how_it_lies(story: list[tuple[str, int]], seed: int) -> None:
    lying = told(story, seed)
    with mock.patch.object(ControllerContext, "may_lie", return_value=False):
        ordered = told(story, seed)
    assert list(lying.history) == list(ordered.history)
    trees = [{path: (node.data, node.stat()) for path, node in one.server.tree.walk()} for one in (lying, ordered)]
    assert trees[0] == trees[1]
