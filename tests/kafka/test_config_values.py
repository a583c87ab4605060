"""Values of configuration keys, compared with the answers of Kafka's own jars (`DumpConfigKeys.java`)."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from simzk.kafka.releases.config_keys import broker_keys, internal_keys, topic_config_keys
from simzk.kafka.releases.config_values import broker_problem, value_problem

RECORDED: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parent / "data" / "config_values.json.gz").read_bytes())
)
RELEASES = {release: tuple(map(int, release.split("."))) for release in RECORDED["releases"]}
KRAFT = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
"""Keys of clusters without ZooKeeper; their values are not checked."""
LISTED = (0, 11)


def at(steps: list[Any], release: str) -> Any:
    """Return what holds in a release."""
    return next((value for since, value in reversed(steps) if RELEASES[since] <= RELEASES[release]), None)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("owner", ["broker", "topic"])
def test_values_are_refused_as_the_jars_of_the_release_do(owner: str, release: str) -> None:
    number = RELEASES[release]
    known = (broker_keys if owner == "broker" else topic_config_keys)(max(number, LISTED))
    names = set(known) | set(internal_keys(owner, number))
    compared = 0
    for name, steps in RECORDED["answers"][owner].items():
        recorded = at(steps, release)
        if recorded is None or name in KRAFT or (number < LISTED and name not in names):
            continue
        assert name in names, f"{release} has no {name}"
        for value in RECORDED["values"][recorded["type"]]:
            assert value_problem(owner, name, value, number) == recorded["refused"].get(value), (name, value)
            compared += 1
    assert compared > 500


UNCHECKED = (
    *("broker.id=", "log.dirs=", "controller.listener.names=X", "listeners=", "advertised.listeners=", "node.id=5"),
    *("process.roles=", "zookeeper.metadata.migration.enable=", "security.inter.broker.protocol=", "authorizer."),
    *("offsets.topic.compression.codec=", "offsets.commit.required.acks=", "log.message.format.version="),
    *("inter.broker.protocol.version=", "max.connections.per.ip.overrides=", "log.message.difference"),
)
"""Configurations that are checked elsewhere, or set by the cluster itself."""


@pytest.mark.parametrize("release", RELEASES)
def test_brokers_are_refused_as_the_jars_of_the_release_do(release: str) -> None:
    number, refused = RELEASES[release], 0
    keys = broker_keys(max(number, LISTED))
    for config, steps in RECORDED["brokers"].items():
        values = dict(pair.split("=", 1) for pair in re.split(r",(?=[a-z.]+=)", config) if pair)
        if config.startswith(UNCHECKED) or not set(values) <= set(keys):
            continue
        alone = (value_problem("broker", name, value, number) for name, value in values.items())
        problem = next((text for text in alone if text is not None), None) or broker_problem(values, number)
        recorded = at(steps, release)
        assert problem == (None if recorded is None else recorded.partition(": ")[2]), config
        refused += problem is not None
    assert refused > 15
