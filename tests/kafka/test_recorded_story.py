"""The recorded stories, taken up at any step, and which releases are recorded (each whole one: `test_stories.py`)."""

from __future__ import annotations

import json

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation import recording
from simzk.kafka.releases.versions import VERSIONS, kafka_version
from tests.kafka.recorded_story import RELEASES, Story, play

STORIES = {release: Story(release) for release in RELEASES}


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_step_is_played(release: str) -> None:
    story = STORIES[release]
    assert story.recorded.steps == ("a0-empty", *(name for name, _ in story.steps))


ALONE = frozenset({("0.8.0", "j-restart-broker3"), ("0.8.0", "k-delete-t2")})
"""Starts after which nothing can be compared: the controller of 0.8.0 learns of no leader's ISRs."""
UNANNOUNCED = ("/isr_change_notification", "cversion"), (0, 9, 0), (1, 0, 2)
"""The recorder went on before leaders announced their ISR changes, and no znode has them."""


def number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(
    ("release", "start"),
    [
        (release, step)
        for release in RELEASES
        for step, _ in STORIES[release].steps[2:-1]
        if (release, step) not in ALONE
    ],
)
def test_a_cluster_goes_on_from_any_recorded_tree(release: str, start: str) -> None:
    story = STORIES[release]
    names = [name for name, _ in story.steps]
    after, act = story.steps[names.index(start) + 1]
    with story.cluster_from(story.recorded.tree(start)) as c:
        assert recording.differences(c.server.tree, story.recorded.tree(start)) == []
        if start == "h1-produce" and start not in story.transactions:  # what was produced stands in no tree
            play(c, story.steps[names.index(start)][1])
        play(c, act, story.lasts_s(after))
        found = recording.differences(c.server.tree, story.recorded.tree(after))
        if story.lasts_s(start) is not None:
            field, since, until = UNANNOUNCED
            found = [d for d in found if (d.path, d.field) != field or not since <= number(release) <= until]
        assert [str(d) for d in found] == []


def test_one_leader_epoch_changed_by_hand_is_reported_with_znode_and_field() -> None:
    path = "/brokers/topics/t1/partitions/2/state"
    story = STORIES["3.9.1"]
    tree = story.recorded.tree("b2-create-t2")
    fields = json.loads(tree[path].data or "")
    fields["leader_epoch"] += 1
    tree[path] = tree[path]._replace(data=json.dumps(fields, separators=(",", ":")))
    with story.cluster_from(story.recorded.tree("b2-create-t2")) as c:
        (difference,) = recording.differences(c.server.tree, tree)
    assert str(difference) == f"{path}: leader_epoch is 0, recorded was 1"


BY_HAND = {
    "3.8": "3.8.1: all equal, but that step e was over before the replicas were in sync again",
    "3.6": "3.6.2: all equal",
    "3.3": "3.3.2: all equal, but that step j3 was over before the replicas were in sync again",
    "3.2": "3.2.3: all equal",
    "2.5": "2.5.1: all equal",
    "2.1": "2.1.1: all equal, but for two late fetches of the broker that stops in step i",
    "2.0": "2.0.1: all equal, but for leaders' timers in the steps e and j, which were late",
    "0.10.1": "0.10.1.1: all equal, but for a leader's timer in step e, which was late",
}
"""Lines whose recordings are not kept here, with what was found when one was compared step by step."""
READ = frozenset({"3.7", "3.5", "3.1"})
"""Lines made from the sources alone: what their neighbours do, but for what a release is known to have changed."""


def test_every_line_that_is_offered_was_compared_or_read() -> None:
    recorded = [kafka_version(release).name for release in RELEASES]
    assert recorded == [line for line in VERSIONS if line in recorded]
    assert [line for line in VERSIONS if line not in recorded and line not in BY_HAND and line not in READ] == []


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("version", ["4.0", "0.7", "2", "3.9.x", "3.10", ""])
def test_a_line_that_is_not_offered_is_refused_with_those_that_are(version: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)is not simulated.*3\.9, 3\.8, .*, 0\.10\.2, 0\.10\.1"):
        KafkaCluster(version)
