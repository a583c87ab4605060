"""Real brokers live through the recorded story on `simzk serve`, and after each step the tree is the recorded one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.observation import recording
from tests.conformance.real_kafka.cluster import RealCluster, until
from tests.conformance.real_kafka.comparison import differences
from tests.conformance.real_kafka.releases import jars, releases, why_not
from tests.conformance.real_kafka.story import Story

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.kafka.observation.recording import RecordedZnode
    from tests.conformance.real_kafka.releases import Release

pytestmark = pytest.mark.slow

STORY_S = 900
WHY_NOT = why_not()


@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.xdist_group("real_kafka")
@pytest.mark.timeout(STORY_S)
@pytest.mark.parametrize("release", releases(), ids=lambda release: str(release.version))
def test_real_brokers_leave_the_recorded_tree(release: Release, tmp_path: Path) -> None:
    recorded = recording.load(release.recording)
    trees = {step: recorded.tree(step) for step in recorded.steps}
    with RealCluster(release, jars(release), tmp_path) as cluster:
        story = Story(cluster, trees)
        for step, wanted in trees.items():
            story.play(step)
            # What is not equal yet may still come: brokers go on after a tool has ended.
            until(partial(_equal, cluster, wanted), partial(_told, cluster, step, wanted))


def _equal(cluster: RealCluster, wanted: dict[str, RecordedZnode]) -> bool:
    return differences(cluster.tree(), wanted, cluster.release.number) == []


def _told(cluster: RealCluster, step: str, wanted: dict[str, RecordedZnode]) -> str:
    return "\n".join((step, *differences(cluster.tree(), wanted, cluster.release.number)))
