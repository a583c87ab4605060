"""Batches and single requests write the same tree and history for partitions with equal hashes.

In Scala 2.13 the order of insertion shows in sets and maps only between equal hashes, so many hashes are equal here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simzk.jvm.scala_columns import string_hashes
from simzk.kafka.cluster import cluster as cluster_module
from simzk.kafka.topic_partition import partition_hashes
from tests.kafka.zookeeper_mode.columnar.cluster_arms import ALL, BROKERS, Arms, layout_of

NAMES = ("bC", "zz", "ab", "cb", "bc", "bb")
"""Two names with equal hashes, and one whose partition n has the hash of another's partition n - 1."""
LAYOUT = replace(layout_of(48), topics=NAMES)


@pytest.fixture(autouse=True)
def constant_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "LATENCY_US", (400, 400))


def test_hashes_are_equal() -> None:
    hashes = partition_hashes(string_hashes(NAMES).take(LAYOUT.topic), LAYOUT.partition)
    assert len(np.unique(hashes)) < len(hashes) - 12


@pytest.mark.parametrize("step", ["kill", "shutdown"])
def test_batches_and_single_requests_write_the_same(step: str) -> None:
    arms = Arms(LAYOUT, seed=1, kinds=ALL)
    for broker in [one for one in range(BROKERS) if one != arms.arms[0].controller]:  # who wins an election is chance
        arms.play(step, broker, 0)
        arms.play("restart", broker, 0)
