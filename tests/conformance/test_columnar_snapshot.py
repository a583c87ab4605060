"""A real ZooKeeper boots from the snapshot of a server with topics in columns, and has the same znodes and Stats.

`SIMZK_SNAPSHOT_PARTITIONS` says how many partitions there are.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar import describe_brokers, load_layout
from simzk.kafka.zookeeper_mode.columnar.batches import WriteStates
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.serve.clock import WallClock
from simzk.serve.configuration.settings import Settings
from simzk.wire.monitoring import values
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code, Reply
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance.data_directory_story import dump_by_kazoo, dump_of
from tests.conformance.real_zookeeper import RealZooKeeper, four_letter_word
from tests.serve.http_client import fetch
from tests.serve.served import served

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics
    from simzk.zookeeper.server import Server

pytestmark = pytest.mark.slow

PARTITIONS = int(os.environ.get("SIMZK_SNAPSHOT_PARTITIONS", "2000"))
VERSION = "3.9"
ANYBODY = {"Authorization": "digest root:x"}


def live(server: Server, topics: ColumnarTopics, now_ms: int) -> None:
    """Change some of the znodes: batched and single writes, a reassignment, unusual texts, ACLs, ephemerals."""
    client = server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), now_ms)

    def ask(*asked: req.Request | WriteStates) -> None:
        for request in asked:
            server.handle(client, 1, request, now_ms)
            reply = client.outgoing.pop()
            assert isinstance(reply, Reply)
            assert reply.error == Code.OK, request
            client.outgoing.clear()

    ask(req.Create(paths.CONTROLLER_EPOCH, b"1", OPEN_ACL, 0))
    rows = topics.table.rows_with_replica(7)
    states = topics.table.states(rows)
    kept = states._replace(leader_epoch=states.leader_epoch + 1, controller_epoch=states.controller_epoch + 9)
    ask(WriteStates(topics.table.partitions(rows), kept, 0))
    assert len(rows) > 10
    assert (topics.table.version[rows] == states.version + 1).all()
    first, last = topics.table.topics[0], topics.table.topics[-1]
    node = server.tree.get(paths.topic(first))
    assert node is not None
    moving = topic_schema.decode(paths.topic(first), node.data)
    moving.partitions[0] = ReplicaAssignment(
        (*moving.partitions[0].replicas, 0)[-3:], (), moving.partitions[0].replicas[-1:]
    )
    secret = (ACL(1, Id("world", "anyone")), ACL(31, Id("digest", "ann:pw")))
    state = paths.state(TopicPartition(last, 0))
    ask(
        req.SetData(paths.topic(first), kafka_version(VERSION).znodes.encode_topic(moving), -1),
        req.SetData(state, b"no state", -1),
        req.Create(f"{paths.topic(last)}/mine", None, OPEN_ACL, 1),
        req.Create(f"{paths.partitions(last)}/-", b"", secret, 2),
        req.CreateContainer(f"{paths.topic(last)}/container", b"c", OPEN_ACL, 4),
        req.Delete(paths.state(TopicPartition(last, 1)), -1),
        req.SetACL(paths.topic(last), secret, -1),
    )


@pytest.mark.java
@pytest.mark.timeout(900)
def test_a_real_server_has_the_znodes_of_the_columns(tmp_path: Path) -> None:
    layout = generate_layout(
        brokers_in_racks(30, 3), topics=max(PARTITIONS // 100, 2), partitions=PARTITIONS, replication_factor=3, seed=1
    )
    with served(Settings(admin_port=0, snapshot_interval_ms=0), WallClock()) as running:
        server, version = running.tcp.driver.server, kafka_version(VERSION)
        with running.tcp.driver.lock:
            now_ms = running.tcp.clock.now_ms()
            topics = load_layout(server, layout, version, now_ms)
            describe_brokers(server, layout, version, now_ms)
            live(server, topics, now_ms)
            server.check()
            assert 2 * PARTITIONS < len(topics) < len(server.tree)
            expected, size = dump_of(server.tree), values(running.tcp.report())["approximate_data_size"]
        status, _, data = fetch(running.admin_port, "/commands/snapshot", headers=ANYBODY)
        assert status == 200
        folder = tmp_path / "data" / "version-2"
        folder.mkdir(parents=True)
        (folder / f"snapshot.{server.zxid:x}").write_bytes(data)
    with RealZooKeeper(boot_from=tmp_path / "data", properties={"log4j2.level": "WARN"}) as real:
        reported = dict(line.split("\t") for line in four_letter_word(real.port, b"mntr").decode().splitlines())
        assert reported["zk_digest_mismatches_count"] == "0"
        assert "not matching" not in real.said
        assert int(reported["zk_approximate_data_size"]) == size
        assert dump_by_kazoo(real.hosts) == expected
