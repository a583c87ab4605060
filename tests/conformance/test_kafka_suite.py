"""Kafka's own tests of its tools, unmodified, on simulated clusters: those of `simzk kafka`, and of `simzk clusters`.

    SIMZK_JAVA_SUITES=~/.cache/simzk-java-suites pytest tests/conformance/test_kafka_suite.py

It fetches Kafka 3.9.2 and its tests into that folder, and needs a JDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.test_clusters import running
from tests.conformance.java_suites.jars import CACHE
from tests.conformance.java_suites.kafka import HELD_CLUSTER, play

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SUITE_S = 1500
CLASSES = {
    "ClusterToolTest": (6, ""),
    "LeaderElectionCommandTest": (7, ""),
    "GetOffsetShellTest": (21, ".*testGetOffsetsBy(LatestTiered|EarliestLocal)Spec.*"),
    "LogDirsCommandTest": (8, ""),
}
"""Classes with the number of their tests, and a pattern of methods that load a remote storage plugin into a broker."""


@pytest.mark.by_hand(CACHE)
@pytest.mark.timeout(SUITE_S)
@pytest.mark.parametrize("name", CLASSES)
def test_kafkas_own_tests_of_its_tools_pass(name: str, tmp_path: Path) -> None:
    number, without = CLASSES[name]
    outcomes = play(f"org.apache.kafka.tools.{name}", tmp_path, without)
    assert (outcomes.failed, outcomes.skipped, outcomes.passed) == ([], [], number)


@pytest.mark.by_hand(CACHE)
@pytest.mark.timeout(SUITE_S)
@pytest.mark.parametrize("name", CLASSES)
def test_they_pass_on_clusters_on_request(name: str, tmp_path: Path) -> None:
    number, without = CLASSES[name]
    with running() as (url, _):
        outcomes = play(f"org.apache.kafka.tools.{name}", tmp_path, without, HELD_CLUSTER.format(url=url))
    assert (outcomes.failed, outcomes.skipped, outcomes.passed) == ([], [], number)
