"""The recorded stories with topics as columns: same trees as real clusters after each step, same history."""

from __future__ import annotations

import pytest

from simzk.kafka.observation import recording
from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics
from tests.kafka.recorded_story import Story, play

RELEASES = ("3.9.1", "2.4.1", "1.1.1")


@pytest.mark.parametrize("release", RELEASES)
def test_brokers_live_the_same_life_on_columns(release: str) -> None:
    story, backing = Story(release), ColumnarTopics()
    with story.empty_cluster() as plain, story.empty_cluster() as columnar:
        columnar.server.tree.mount(backing)
        states = 0
        for name, act in story.steps:
            for cluster in (plain, columnar):
                play(cluster, act, story.paces_s[name])
            ours, theirs = (recording.differences(c.server.tree, story.recorded.tree(name)) for c in (columnar, plain))
            assert ours == theirs, name
            paths = [path for path, _ in columnar.server.tree.walk() if path.endswith("/state")]
            assert all(map(backing.holds, paths)), "every state is in the columns"
            states = max(states, len(paths))
        assert columnar.history.to_text() == plain.history.to_text()
        assert columnar.server.zxid == plain.server.zxid
        columnar.check()
    assert states >= 12
