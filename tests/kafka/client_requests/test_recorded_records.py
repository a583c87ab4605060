"""Answers of simulated brokers to producers and consumers, compared with those of real brokers of the same release."""

from __future__ import annotations

import json

import pytest

import simzk
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded import RELEASES
from tests.kafka.client_requests.recorded_records import NO_ID, TOPICS, Replay, compared, exchanges, of_release
from tests.kafka.clusters import FOR_EVER

WITHOUT_RACKS = ("0.8.2.2", "0.9.0.1")
NULLS = (range(10), "the broker answers a request with null records twice, at times in versions of other requests")
ALLOWED = {
    ("0.9.0.1", "fetch: as broker 9"): (range(1, 2), "the recorded answer cannot be decoded"),
    ("2.8.2", "produce: records null"): NULLS,
    ("3.4.1", "produce: records null"): NULLS,
    ("3.9.1", "init-producer-id: none"): (range(6), "the first block of ids arrives after 2 ms, not after 30"),
}
"""Steps with other answers, by release and step: versions, and the reason."""


def cluster_of(release: str) -> simzk.KafkaCluster:
    """Return three brokers with the topics of the recorded cluster."""
    racks = None if release in WITHOUT_RACKS else {number: f"rack{number}" for number in (1, 2, 3)}
    config = {"auto.create.topics.enable": False, "default.replication.factor": 2, "delete.topic.enable": True}
    config |= {} if release.startswith("0.8") else FOR_EVER  # 0.8 does not know -1
    cluster = simzk.KafkaCluster(release, 3, racks, config=config, boot=False)
    for broker in cluster.brokers:  # broker 1 is the controller
        cluster.restart(broker)
        cluster.run_until(lambda: cluster.controller == 1)
    cluster.run_until_quiet()
    for name, (assignment, settings) in TOPICS.items():
        cluster.create_topic(name, assignment=dict(enumerate(assignment)), config=settings)
    cluster.run_until_quiet()
    return cluster


@pytest.mark.parametrize("release", RELEASES)
def test_answers_are_those_of_real_brokers(release: str) -> None:
    steps = of_release(release)
    assert len(steps) > 50
    with cluster_of(release) as cluster:
        replay = Replay(
            lambda broker: MemoryClient(cluster, broker),
            lambda topic: cluster.brokers[1].metadata.topic_ids.get(topic, NO_ID),
        )
        found: list[str] = []
        allowed: set[tuple[str, str]] = set()
        for exchange in steps:
            got, wanted = compared(exchange, replay.play(exchange)), compared(exchange, exchange)
            cluster.run_for(0.002)
            key = release, exchange["step"]
            if got != wanted and exchange["version"] in ALLOWED.get(key, ((), ""))[0]:
                allowed.add(key)
            elif got != wanted:
                asked = f"{exchange['step']} | {exchange['api']} v{exchange['version']}"
                found.append(f"{asked}: expected\n  {json.dumps(wanted)}\n, got\n  {json.dumps(got)}")
        cluster.check()
    assert found == []
    assert allowed == {key for key in ALLOWED if key[0] == release}


def test_every_release_is_compared() -> None:
    assert {one["release"] for one in exchanges()} == set(RELEASES)
