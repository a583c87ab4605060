"""Logs of simulated brokers, compared with those of real brokers that were told the same stories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests import log_stories
from tests.kafka.client_requests.recorded_logs import comparable, looks
from tests.kafka.security.test_recorded_logins import SimulatedWire

if TYPE_CHECKING:
    from collections.abc import Mapping

RELEASES = tuple(dict.fromkeys(one["release"] for one in looks()))
CASES = tuple(dict.fromkeys((one["release"], one["story"]) for one in looks()))


def test_every_story_was_recorded() -> None:
    for release in RELEASES:
        number = tuple(map(int, release.split(".")))
        expected = [name for name, story in log_stories.STORIES.items() if number >= story.since]
        assert [story for one, story in CASES if one == release] == expected


@pytest.mark.parametrize(("release", "story"), CASES)
def test_logs_are_those_of_real_brokers(release: str, story: str) -> None:
    number = tuple(map(int, release.split(".")))
    first = log_stories.STORIES[story].config
    topic = log_stories.topic_of(story)
    settings = {
        key: value for key, value in log_stories.settings(number).items() if key in kafka_version(release).defaults
    }
    with simzk.KafkaCluster(release, 1, config=settings) as cluster:
        cluster.create_topic(topic, config=first)
        cluster.run_until_quiet()
        configured = dict(first)

        def configure(topic: str, config: Mapping[str, str]) -> None:
            changes = {key: config.get(key) for key in {**configured, **config}}
            cluster.alter_config(f"topics/{topic}", changes)
            configured.clear()
            configured.update(config)

        stage = log_stories.Stage(number, SimulatedWire(cluster), configure)
        seen = list(log_stories.play(stage, story))
        cluster.check()
    recorded = [one for one in looks() if (one["release"], one["story"]) == (release, story)]
    assert [one["look"] for one in seen] == [one["look"] for one in recorded]
    for got, wanted in zip(map(comparable, seen), map(comparable, recorded), strict=True):
        for name in wanted:
            shown = f"{json.dumps(got[name])}, recorded {json.dumps(wanted[name])}"
            assert got[name] == wanted[name], f"{name}: {shown}"
