"""Kafka's own tools read what simulated brokers wrote, and simulated brokers do what the tools ask in ZooKeeper."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_serve import serving
from tests.conformance.real_kafka.cluster import until
from tests.conformance.real_kafka.releases import RELEASES, jars, why_not
from tests.conformance.real_kafka.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The last of the releases of CI whose tools still talk to ZooKeeper.
RELEASE = next(release for release in RELEASES if release.version == "2.4.1")
SCENARIO = """
title = "Three brokers for Kafka's own tools"
why = "What they read and write in ZooKeeper is what real brokers would."

[cluster]
version = "2.4"
controller = 1
brokers = 3

[[step]]
at = "1s"
action = "create_topic"
topic = "orders"
assignment = [[1, 2, 3], [2, 3, 1]]
config = { "retention.ms" = 1000 }

[[step]]
within = "60s"
expect = "whole"
"""
WHY_NOT = why_not()
ROW = re.compile(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)")

Rows = dict[int, tuple[str, str, str]]


class Operator(Tools):
    """An operator with Kafka's tools, at the ZooKeeper of a simulated cluster."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(RELEASE, jars(RELEASE), folder)
        self.address = ("--zookeeper", f"127.0.0.1:{port}")

    def topics(self, *arguments: object) -> str:
        return self.tool("kafka.admin.TopicCommand", arguments=(*self.address, *arguments))

    def described(self, topic: str) -> Rows:
        """Leader, replicas and ISR of each partition, as the tool shows them."""
        return {int(row[1]): row[2:] for row in ROW.findall(self.topics("--describe", "--topic", topic))}

    def reassignment(self, *arguments: object) -> str:
        file = self.folder / "reassign.json"
        partition = {"topic": "orders", "partition": 0, "replicas": [3, 2]}
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        what = ("--reassignment-json-file", file, *arguments)
        return self.tool("kafka.admin.ReassignPartitionsCommand", arguments=(*self.address, *what))


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    scenario = tmp_path / "three.toml"
    scenario.write_text(SCENARIO)
    with serving("--kafka", str(scenario), "--port", "0") as process:
        found = Operator(tmp_path, process.port)
        until(lambda: "orders" in found.topics("--list").split(), lambda: "the topic is not there")
        yield found


@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.xdist_group("real_kafka")
def test_tools_read_what_simulated_brokers_wrote_and_are_obeyed(operator: Operator) -> None:
    assert operator.described("orders") == {0: ("1", "1,2,3", "1,2,3"), 1: ("2", "2,3,1", "2,3,1")}
    assert "retention.ms=1000" in operator.topics("--describe", "--topic", "orders")

    operator.topics("--create", "--topic", "made", "--replica-assignment", "3:1,1:2")
    made = {0: ("3", "3,1", "3,1"), 1: ("1", "1,2", "1,2")}
    until(lambda: operator.described("made") == made, lambda: str(operator.described("made")))
    operator.topics("--alter", "--topic", "made", "--partitions", 3, "--replica-assignment", "3:1,1:2,2:3")
    grown = made | {2: ("2", "2,3", "2,3")}
    until(lambda: operator.described("made") == grown, lambda: str(operator.described("made")))

    operator.reassignment("--execute")
    until(
        lambda: "completed successfully" in operator.reassignment("--verify"),
        lambda: operator.reassignment("--verify"),
    )
    leader, replicas, isr = operator.described("orders")[0]
    assert (leader in ("2", "3"), replicas, sorted(isr.split(","))) == (True, "3,2", ["2", "3"])
    operator.tool("kafka.admin.PreferredReplicaLeaderElectionCommand", arguments=operator.address)
    until(lambda: operator.described("orders")[0][0] == "3", lambda: str(operator.described("orders")))

    entity = ("--entity-type", "topics", "--entity-name", "made")
    configure = (*operator.address, "--alter", *entity, "--add-config", "retention.ms=5")
    operator.tool("kafka.admin.ConfigCommand", arguments=configure)
    said = operator.tool("kafka.admin.ConfigCommand", arguments=(*operator.address, "--describe", *entity))
    assert "retention.ms=5" in said

    operator.topics("--delete", "--topic", "made")
    until(lambda: "made" not in operator.topics("--list").split(), lambda: operator.topics("--list"))
