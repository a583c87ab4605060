"""Answers of simulated brokers to clients, compared with those of real brokers of the same release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.releases.config_keys import broker_keys
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded import NO_ID, RELEASES, TOPICS, exchanges, masked, of_release, replayed
from tests.kafka.clusters import FOR_EVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kafka.client_requests.recorded import Client, Exchange

LENGTHS = ("frame cut short", "huge length", "length just over", "negative length")
"""Bytes that are no frame: tests/serve/test_broker_ports.py."""
BYTES_OF_FRAME = 4
SILENT_S = 1.0
ALLOWED = {
    ("0.8.2", "auto-create: asked"): "the first UpdateMetadata of 0.8.2 is sent with the first topic",
}
"""Steps of which the brokers are not compared: the simulation sends an UpdateMetadata before there is a topic."""
OF_LOGS = FOR_EVER | {"log.flush.scheduler.interval.ms": 3000000}
"""Settings of the recorded brokers that the configurations of new topics show."""
WITHOUT_RACKS = ("0.8.2.2", "0.9.0.1")


def cluster_of(release: str) -> simzk.KafkaCluster:
    """Return three brokers with the topics of the recorded cluster."""
    racks = {number: f"rack{number}" for number in (1, 2, 3)}
    config = {"auto.create.topics.enable": False, "default.replication.factor": 2, "delete.topic.enable": True}
    config |= OF_LOGS if broker_keys(kafka_version(release).number) else {}
    cluster = simzk.KafkaCluster(release, 3, None if release in WITHOUT_RACKS else racks, config=config, boot=False)
    for broker in cluster.brokers:  # broker 1 is the controller
        cluster.restart(broker)
        cluster.run_until(lambda: cluster.controller == 1)
    cluster.run_until_quiet()
    for name, assignment in TOPICS.items():
        cluster.create_topic(name, assignment=dict(enumerate(assignment)))
    cluster.run_until_quiet()
    return cluster


@pytest.fixture(scope="module", params=RELEASES)
def recorded(request: pytest.FixtureRequest) -> Iterator[tuple[str, simzk.KafkaCluster]]:
    """A release and its cluster."""
    with cluster_of(request.param) as cluster:
        yield request.param, cluster


def differences(cluster: simzk.KafkaCluster, compared: list[Exchange]) -> list[str]:
    """Return the exchanges that differ from the recorded ones."""
    return differing(
        compared,
        cluster.version,
        lambda exchange: MemoryClient(cluster, exchange["broker"]),
        lambda: cluster.brokers[1].metadata.topic_ids.get("one", NO_ID),
    )


def differing(
    compared: list[Exchange], version: str, connect: Callable[[Exchange], Client], topic_id: Callable[[], str]
) -> list[str]:
    """Return the exchanges that differ from the recorded ones.

    Args:
        compared: the recorded exchanges.
        version: release of the simulated brokers.
        connect: returns a new connection to the broker of an exchange.
        topic_id: returns the id of the topic `one`.
    """
    found = []
    for exchange in compared:
        client = connect(exchange)
        got = masked(replayed(client, exchange, topic_id))
        client.connection.hang_up()
        wanted = {name: exchange[name] for name in ("response", "closed", "no_answer") if name in exchange}
        wanted = masked(wanted)
        if (version, exchange["step"]) in ALLOWED:
            for answer in (wanted, got):
                answer["response"]["Brokers"] = []
        if got != wanted:
            asked = f"{exchange['step']} | {exchange['api']} v{exchange['version']}"
            found.append(f"{asked}: expected\n  {json.dumps(wanted)}\n, got\n  {json.dumps(got)}")
    return found


@pytest.mark.slow_but_for_some_releases
def test_answers_are_those_of_real_brokers(recorded: tuple[str, simzk.KafkaCluster]) -> None:
    release, cluster = recorded
    compared = [one for one in of_release(release) if "raw" not in one]
    assert len(compared) > 5
    assert differences(cluster, compared) == []


@pytest.mark.slow_but_for_some_releases
def test_bytes_that_are_no_request(recorded: tuple[str, simzk.KafkaCluster]) -> None:
    release, cluster = recorded
    raw = [one for one in of_release(release) if "raw" in one and not one["raw"].startswith(LENGTHS)]
    assert raw
    for one in raw:
        sent = bytes.fromhex(one["sent_hex"])
        if int.from_bytes(sent[:BYTES_OF_FRAME], "big") != len(sent) - BYTES_OF_FRAME:
            continue  # HTTP, TLS
        client = MemoryClient(cluster, one["broker"])
        answer = client.exchange(sent[BYTES_OF_FRAME:], SILENT_S)
        client.connection.hang_up()
        got = "closed" if client.closed else "silent" if answer is None else "answers"
        wanted = "closed" if "closed" in one else "silent" if "no_answer" in one else "answers"
        assert got == wanted, one["raw"]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", RELEASES)
def test_topics_created_on_demand(release: str) -> None:
    config = {"offsets.topic.num.partitions": 3, "offsets.topic.replication.factor": 1}
    racks = None if release in WITHOUT_RACKS else {1: "rack1"}
    with simzk.KafkaCluster(release, 1, racks, config=config) as cluster:
        steps = of_release(release, "second")
        found = []
        for one, following in zip(steps, [*steps[1:], None], strict=True):
            found += differences(cluster, [one])
            if following is None or one["step"] != following["step"] or one["request"] == following["request"]:
                cluster.run_until_quiet()
        assert found == []


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", [release for release in RELEASES if of_release(release, "reassign")])
def test_reassignments(release: str) -> None:
    with cluster_of(release) as cluster:
        cluster.create_topic("move", assignment={0: [1, 2]})
        cluster.run_until_quiet()
        assert differences(cluster, of_release(release, "reassign")) == []


def test_every_release_is_compared() -> None:
    assert {one["release"] for one in exchanges()} == set(RELEASES)
