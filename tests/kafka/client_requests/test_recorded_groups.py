"""Answers of simulated brokers to consumer groups, compared with those of real brokers of the same release."""

from __future__ import annotations

from functools import partial

import pytest

import simzk
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded import RELEASES
from tests.kafka.client_requests.recorded_groups import Replay, exchanges, leaders_of, of_release

BROKERS = (1, 2, 3)
CONFIG = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 2,
}
"""Settings of the recorded brokers."""
WITH_BROKEN_GROUPS = ("0.9.0.1", "0.10.2.2", "0.11.0.3")
DIFFERING = ("join-group: no protocols", "join-group: unknown member of no group", "list-groups: all")
"""Steps that differ up to 0.11, where a client without protocols breaks its group: an exception leaves a member in a
rebalance that never ends. The simulated group rejects such a client, as 1.0 and later do."""


def config_of(release: str) -> dict[str, int]:
    """Return the settings that a release has."""
    known = kafka_version(release).defaults
    return {key: value for key, value in CONFIG.items() if key in known}


def make_topics(cluster: simzk.KafkaCluster | simzk.KafkaServer, release: str) -> None:
    """Create the topic that the groups read, and their coordinators where they were."""
    cluster.create_topic("m0", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    leaders = leaders_of(of_release(release))
    assignment = {number: [leader, leader % 3 + 1] for number, leader in sorted(leaders.items())}
    cluster.create_topic("__consumer_offsets", assignment=assignment)
    cluster.run_until_quiet()


def unexpected(release: str, differing: list[str]) -> list[str]:
    """Return the exchanges that differ although nothing allows it."""
    allowed = DIFFERING if release in WITH_BROKEN_GROUPS else ()
    assert all(any(text.startswith(step) for text in differing) for step in allowed), "an allowance that is not needed"
    return [text for text in differing if not text.startswith(allowed)]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", RELEASES)
def test_answers_are_those_of_real_brokers(release: str) -> None:
    compared = of_release(release)
    assert len(compared) > 20
    with simzk.KafkaCluster(release, 3, config=config_of(release)) as cluster:
        make_topics(cluster, release)
        differing = Replay(partial(MemoryClient, cluster), cluster.scheduler).play(compared)
        for broker in BROKERS:
            cluster.brokers[broker].groups.check()
    assert unexpected(release, differing) == []


def test_every_release_is_compared() -> None:
    assert {one["release"] for one in exchanges()} == set(RELEASES)
