"""Formats of records of simulated brokers, compared with those of real brokers that were told the same stories."""

from __future__ import annotations

import pytest

import simzk
from tests.kafka.client_requests import format_stories
from tests.kafka.client_requests.log_stories import Stage
from tests.kafka.client_requests.recorded_formats import comparable, looks
from tests.kafka.security.test_recorded_logins import SimulatedWire

RELEASES = tuple(dict.fromkeys(one["release"] for one in looks()))
CASES = tuple(dict.fromkeys((one["release"], one["story"]) for one in looks()))


def number_of(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def test_every_story_was_recorded() -> None:
    for release in RELEASES:
        expected = [name for name in format_stories.STORIES if number_of(release) >= format_stories.since(name)]
        assert [story for one, story in CASES if one == release] == expected


@pytest.mark.parametrize(("release", "story"), CASES)
def test_formats_are_those_of_real_brokers(release: str, story: str) -> None:
    number = number_of(release)
    topic = format_stories.topic_of(story)
    with simzk.KafkaCluster(release, 1, config=format_stories.settings(number)) as cluster:
        cluster.create_topic(topic, config=format_stories.topics(number)[topic])
        cluster.run_until_quiet()
        stage = Stage(number, SimulatedWire(cluster), lambda topic, config: None)
        seen = list(format_stories.play(stage, story))
        cluster.check()
    recorded = [one for one in looks() if (one["release"], one["story"]) == (release, story)]
    assert [one["look"] for one in seen] == [one["look"] for one in recorded]
    for got, wanted in zip(seen, recorded, strict=True):
        assert comparable(got) == comparable(wanted), f"{got['look']}: {got}, recorded {wanted}"
