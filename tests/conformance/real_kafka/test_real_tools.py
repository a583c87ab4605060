"""Kafka's own tools read what simulated brokers wrote, and simulated brokers do what the tools ask in ZooKeeper.

Those of every line that can be told to work there (`--zookeeper`, 0.8.1 to 2.8): two in every CI run, all of them by
`SIMZK_KAFKA_RELEASES=all`. ConsumerOffsetChecker asks brokers for their log ends and is none of these; what it reads in
ZooKeeper, `ExportZkOffsets` reads alone.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

import simzk
from tests.cli.test_serve import serving
from tests.conformance.real_kafka.cluster import until
from tests.conformance.real_kafka.releases import RELEASES, Release, jars, releases, why_not
from tests.conformance.real_kafka.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

OLDEST, LAST = (0, 8, 1), (2, 8, 99)
WITH_TOOLS = [
    release
    for release in (releases() if "SIMZK_KAFKA_RELEASES" in os.environ else RELEASES)
    if OLDEST <= release.number <= LAST
    and ("SIMZK_KAFKA_RELEASES" in os.environ or release.version in ("0.8.2.2", "2.4.1"))
]
SCENARIO = """
title = "Three brokers for Kafka's own tools"
why = "What they read and write in ZooKeeper is what real brokers would."

[cluster]
version = "{version}"
controller = 1
brokers = 3
config = {{ "delete.topic.enable" = true }}

[[step]]
at = "1s"
action = "create_topic"
topic = "orders"
assignment = [[1, 2, 3], [2, 3, 1]]
config = {{ "retention.ms" = 1000 }}

[[step]]
within = "60s"
expect = "whole"
"""
WHY_NOT = why_not()
ROW = re.compile(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)")

Rows = dict[int, tuple[str, str, str]]


class Operator(Tools):
    """An operator with Kafka's tools, at the ZooKeeper of a simulated cluster."""

    def __init__(self, release: Release, folder: Path, port: int) -> None:
        super().__init__(release, jars(release), folder)
        self.server = f"127.0.0.1:{port}"
        self.address = ("--zookeeper", self.server)

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

    def configure(self, topic: str, setting: str) -> None:
        """Set one key: up to 0.8.2 by the tool for topics."""
        if self.release.number < (0, 9):
            self.topics("--alter", "--topic", topic, "--config", setting)
            return
        entity = ("--entity-type", "topics", "--entity-name", topic)
        configure = (*self.address, "--alter", *entity, "--add-config", setting)
        self.tool("kafka.admin.ConfigCommand", arguments=configure)
        said = self.tool("kafka.admin.ConfigCommand", arguments=(*self.address, "--describe", *entity))
        assert setting in said

    def acls(self, *arguments: object, given: str = "") -> str:
        """The tool for authorizations, which knows ZooKeeper alone."""
        authorizer = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
        chosen = next(name for name in authorizer if name in self.classes)
        where = ("--authorizer", chosen, "--authorizer-properties", f"zookeeper.connect={self.server}")
        return self.tool("kafka.admin.AclCommand", arguments=(*where, *arguments), given=given)

    def shell(self, command: str) -> str:
        """The ZooKeeper shell that comes with the release; one that is given its command by words may not wait."""
        given = f"{command}\nquit\n"
        return self.tool("org.apache.zookeeper.ZooKeeperMain", arguments=("-server", self.server), given=given)


def throttles_of(server: str) -> dict[str, str]:
    """The configuration that stands in ZooKeeper, by path, and the notices of its changes, in their order."""
    client = KazooClient(server)
    client.start()
    try:
        kinds = ("topics", "brokers", "changes")
        paths = [f"/config/{kind}/{name}" for kind in kinds for name in client.get_children(f"/config/{kind}")]
        return {path: client.get(path)[0].decode() for path in sorted(paths)}
    finally:
        client.stop()
        client.close()


def throttles_of_ours(release: Release) -> dict[str, str]:
    """The same, as a simulated operator with the tools of that line leaves it."""
    with simzk.KafkaCluster(line_of(release), 3, config={"delete.topic.enable": True}) as cluster:
        config = {"retention.ms": "1000"}
        cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1]}, config=config, via="zookeeper")
        cluster.create_topic("made", assignment={0: [3, 1], 1: [1, 2], 2: [2, 3]}, via="zookeeper")
        cluster.run_until_quiet()
        cluster.reassign({("orders", 0): [3, 2]}, throttle=5000, via="zookeeper")
        cluster.run_for(5)
        nodes = {
            path: node.data for path, node in cluster.tree.walk() if re.match("/config/(topics|brokers|changes)/", path)
        }
        return {path: (nodes[path] or b"").decode() for path in sorted(nodes)}


def line_of(release: Release) -> str:
    return ".".join(release.version.split(".")[: 3 if release.number < (1,) else 2])


@pytest.fixture
def operator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Operator]:
    release: Release = request.param
    scenario = tmp_path / "three.toml"
    scenario.write_text(SCENARIO.format(version=line_of(release)))
    with serving("--kafka", str(scenario), "--port", "0") as process:
        found = Operator(release, tmp_path, process.port)
        until(lambda: "orders" in found.topics("--list").split(), lambda: "the topic is not there")
        until(lambda: len(found.described("orders")) == 2, lambda: found.topics("--describe"))
        yield found


@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.xdist_group("real_kafka")
@pytest.mark.parametrize("operator", WITH_TOOLS, indirect=True, ids=lambda release: release.version)
def test_tools_read_what_simulated_brokers_wrote_and_are_obeyed(operator: Operator) -> None:
    number = operator.release.number
    assert operator.described("orders") == {0: ("1", "1,2,3", "1,2,3"), 1: ("2", "2,3,1", "2,3,1")}
    assert "retention.ms=1000" in operator.topics("--describe", "--topic", "orders")
    assert re.search(r"\[1, 2, 3\]", operator.shell("ls /brokers/ids"))

    operator.topics("--create", "--topic", "made", "--replica-assignment", "3:1,1:2")
    made = {0: ("3", "3,1", "3,1"), 1: ("1", "1,2", "1,2")}
    until(lambda: operator.described("made") == made, lambda: str(operator.described("made")))
    operator.topics("--alter", "--topic", "made", "--partitions", 3)
    third = ("3", "3,2", "3,2") if number < (0, 10) else ("2", "2,3", "2,3")  # from an id, and from its position
    grown = made | {2: third}
    until(lambda: operator.described("made") == grown, lambda: str(operator.described("made")))

    throttled = number >= (0, 10, 1)
    operator.reassignment("--execute", *(("--throttle", 5000) if throttled else ()))
    if throttled:
        assert throttles_of(operator.server) == throttles_of_ours(operator.release)
    said = [""]

    def is_done() -> bool:
        said[0] = operator.reassignment("--verify")
        return re.search(r"completed successfully|is complete\.", said[0]) is not None

    until(is_done, lambda: said[0])
    if throttled:
        assert "Throttle was removed." in said[0] or "Clearing" in said[0]
        assert not any("throttled" in data for data in throttles_of(operator.server).values())
    leader, replicas, isr = operator.described("orders")[0]
    assert (leader in ("2", "3"), replicas, sorted(isr.split(","))) == (True, "3,2", ["2", "3"])
    operator.tool("kafka.admin.PreferredReplicaLeaderElectionCommand", arguments=operator.address)
    until(lambda: operator.described("orders")[0][0] == "3", lambda: str(operator.described("orders")))

    operator.configure("made", "retention.ms=5")
    assert "retention.ms=5" in operator.topics("--describe", "--topic", "made")

    if number >= (0, 9):
        rule = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "made")
        operator.acls("--add", *rule)
        assert "User:alice has Allow permission for operations: Read from hosts: *" in operator.acls("--list").replace(
            "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)",
            "User:alice has Allow permission for operations: Read from hosts: *",
        )
        operator.acls("--remove", *(("--force",) if number >= (0, 10) else ()), *rule, given="y\n")
        assert "User:alice" not in operator.acls("--list")

    if number >= (0, 8, 2):  # the tool of 0.8.1 deletes znodes itself
        operator.topics("--delete", "--topic", "made")
        until(lambda: "made" not in operator.topics("--list").split(), lambda: operator.topics("--list"))


@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.xdist_group("real_kafka")
@pytest.mark.parametrize(
    "release", [release for release in WITH_TOOLS if release.number < (0, 11)], ids=lambda release: release.version
)
def test_the_old_consumers_offsets_are_exported_and_imported(release: Release, tmp_path: Path) -> None:
    with simzk.KafkaCluster(line_of(release), 3, seed=1) as cluster, simzk.ZooKeeperServer() as server:
        cluster.create_topic("orders", assignment={0: [1, 2], 1: [2, 3]})
        cluster.run_until_quiet()
        cluster.produce("orders", 0, 7)
        cluster.produce("orders", 1, 9)
        cluster.consumer("billing", {"orders": 1}, consumer_id="c1", config={"auto.offset.reset": "smallest"})
        cluster.run_for(130)  # auto.commit.interval.ms is a minute
        client = server.client()
        client.start()
        for path, node in cluster.tree.walk():
            if path != "/" and not path.startswith("/zookeeper"):
                client.create(path, node.data or b"")
        tools = Tools(release, jars(release), tmp_path)
        out = tmp_path / "offsets"
        where = ("--zkconnect", server.hosts)
        tools.tool("kafka.tools.ExportZkOffsets", arguments=(*where, "--group", "billing", "--output-file", out))
        exported = sorted(out.read_text().split())
        assert exported == [f"/consumers/billing/offsets/orders/{offset}" for offset in ("0:7", "1:9")]
        out.write_text(out.read_text().replace("/0:7", "/0:3"))
        tools.tool("kafka.tools.ImportZkOffsets", arguments=(*where, "--input-file", out))
        assert client.get("/consumers/billing/offsets/orders/0")[0] == b"3"
