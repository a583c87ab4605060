"""Configurations that clients describe and alter, compared with those of real brokers of the same release."""

from __future__ import annotations

import json

import pytest

import simzk
from simzk.kafka.releases.config_keys import broker_keys
from simzk.kafka.releases.settings import broker_defaults
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded import NO_ID, TOPICS, replayed
from tests.kafka.client_requests.recorded_admin import LAGS, PROPERTIES, comparable, exchanges, of_release

CONFIGS = {"small": {"max.message.bytes": "2000"}, "compacted": {"cleanup.policy": "compact"}}
TWO_LOG_DIRS = (1, 0, 0)
"""First release of which broker 3 had two log directories: the first with DescribeLogDirs."""
RELEASES = list(dict.fromkeys(one["release"] for one in exchanges()))


def cluster_of(release: str) -> simzk.KafkaCluster:
    """Return three brokers with the settings and topics of the recorded cluster; broker 1 is the controller."""
    number = kafka_version(release).number
    known = {*broker_keys(number), *broker_defaults(number)}
    config = PROPERTIES | ({"replica.lag.time.max.ms": LAGS[release]} if release in LAGS else {})
    config = {key: value for key, value in config.items() if key in known}
    own = {3: {"log.dirs": "/kafka/b3,/kafka/b3-second"}} if number >= TWO_LOG_DIRS else None
    cluster = simzk.KafkaCluster(
        release, 3, {broker: f"rack{broker}" for broker in (1, 2, 3)}, config=config, broker_config=own, boot=False
    )
    for broker in cluster.brokers:
        cluster.restart(broker)
        cluster.run_until(lambda: cluster.controller == 1)
    cluster.run_until_quiet()
    for name, assignment in (TOPICS | {"cfg": [[1, 2]]}).items():
        cluster.create_topic(name, assignment=dict(enumerate(assignment)), config=CONFIGS.get(name))
    cluster.run_until_quiet()
    return cluster


@pytest.mark.parametrize("release", RELEASES)
def test_configurations(release: str) -> None:
    with cluster_of(release) as cluster:
        found = []
        for exchange in of_release(release, "configs"):
            client = MemoryClient(cluster, exchange["broker"])
            got = comparable(replayed(client, exchange, lambda: NO_ID))
            client.connection.hang_up()
            if not exchange["api"].startswith("Describe"):
                cluster.run_until_quiet()  # the brokers read what has changed
            wanted = comparable(
                {name: exchange[name] for name in ("response", "closed", "no_answer") if name in exchange}
            )
            if got != wanted:
                asked = f"{exchange['step']} | {exchange['api']} v{exchange['version']}"
                found.append(f"{asked}: expected\n  {json.dumps(wanted)}\n, got\n  {json.dumps(got)}")
        assert found == []
