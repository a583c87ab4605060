"""The recorded story of a real 3.9.1 cluster as calls on a simulated one.

What was chance in the real run is an input, read from the recording: which broker won an election, where a topic
without a given assignment was placed, ids. Everything else is computed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.kafka import recording
from simzk.kafka.cluster import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.recording import RecordedZnode, Recording

    Step = tuple[str, Callable[[KafkaCluster], object]]

FOLDER = Path(__file__).resolve().parents[2] / "scenarios" / "layouts" / "kafka-3.9.1"
CONFIG = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": False}
TICK_TIME_MS = 500
BASE_PORT = 23090
RACKS = {1: "rack1", 2: "rack2", 3: "rack3"}
QUOTA = {"producer_byte_rate": "1024", "consumer_byte_rate": "2048"}
OFFSETS_CONFIG = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": "104857600"}


def load() -> Recording:
    return recording.load(FOLDER / "dumps.json")


def empty_cluster(recorded: Recording, seed: int = 0) -> KafkaCluster:
    """Three brokers that are not started yet, at an empty ZooKeeper."""
    last = recorded.tree(recorded.steps[-1])
    return KafkaCluster(
        racks=RACKS,
        seed=seed,
        config=CONFIG,
        tick_time_ms=TICK_TIME_MS,
        base_port=BASE_PORT,
        cluster_id=str(_json(last["/cluster/id"])["id"]),
        boot=False,
    )


def cluster_from(tree: Mapping[str, RecordedZnode], seed: int = 0) -> KafkaCluster:
    """A cluster that goes on from a recorded tree."""
    return KafkaCluster.from_tree(
        tree, seed=seed, config=CONFIG, tick_time_ms=TICK_TIME_MS, base_port=BASE_PORT, racks=RACKS
    )


def _json(znode: RecordedZnode) -> dict[str, object]:
    fields = json.loads(znode.data or "")
    assert isinstance(fields, dict)
    return fields


def steps(recorded: Recording) -> list[Step]:
    """The steps in order; those of the ACL tool, which no broker writes, are left out."""

    def topic(name: str, step: str, config: Mapping[str, str] | None = None) -> Step:
        fields = _json(recorded.tree(step)[f"/brokers/topics/{name}"])
        partitions = fields["partitions"]
        assert isinstance(partitions, dict)
        assignment = {int(number): ids for number, ids in partitions.items()}
        topic_id = str(fields["topic_id"])
        return step, lambda c: c.create_topic(name, assignment=assignment, config=config, topic_id=topic_id)

    def configure(step: str, entity: str, changes: Mapping[str, str | None], via: int | None = None) -> Step:
        return step, lambda c: c.alter_config(entity, changes, via=via)

    def broker(step: str, act: Callable[[KafkaCluster], None], next_controller: int | None = None) -> Step:
        def run(c: KafkaCluster) -> None:
            if next_controller is not None:
                c.prefer_controller(next_controller)
            act(c)

        return step, run

    alice = _json(recorded.tree("c8-scram")["/config/users/alice"])["config"]
    assert isinstance(alice, dict)
    return [
        broker("a1-boot-broker1", lambda c: c.restart(1)),
        broker("a2-boot-broker2", lambda c: c.restart(2)),
        broker("a3-boot-broker3", lambda c: c.restart(3)),
        topic("t1", "b1-create-t1"),
        topic("t2", "b2-create-t2", {"max.message.bytes": "65536"}),
        configure("c1-topic-config", "topics/t1", {"retention.ms": "3600000"}),
        configure("c2-client-quota", "clients/c%201", QUOTA, via=2),
        configure("c3-user-quota", "users/u%401", QUOTA, via=3),
        configure("c4-user-client-quota", "users/u%401/clients/c%201", QUOTA, via=2),
        configure("c5-default-user-quota", "users/<default>", {"request_percentage": "50.0"}),
        configure("c6-broker-config", "brokers/1", {"leader.replication.throttled.rate": "100000000"}),
        configure("c7-default-broker-config", "brokers/<default>", {"log.cleaner.threads": "2"}, via=3),
        configure("c8-scram", "users/alice", alice),
        configure("c9-ip-quota", "ips/127.0.0.9", {"connection_creation_rate": "100"}),
        configure("ca-topic-config-delete", "topics/t1", {"retention.ms": None}),
        broker("d-kill9-controller-broker1", lambda c: c.kill(1), next_controller=3),
        broker("e-restart-broker1", lambda c: c.restart(1)),
        ("f-preferred-election", lambda c: c.elect()),
        ("g-reassign", lambda c: c.reassign({("t1", 0): [2, 3]})),
        ("g2-reassign-admin-api", lambda c: c.reassign({("t1", 1): [1, 2]})),
        ("h-add-partitions", lambda c: c.add_partitions("t2", 6, assignment={4: [2, 3], 5: [3, 1]})),
        ("h1-produce", lambda c: c.allocate_producer_ids(3)),
        topic("__consumer_offsets", "h2-consume-group", OFFSETS_CONFIG),
        broker("i-sigterm-controller-broker3", lambda c: c.shutdown(3), next_controller=2),
        broker("j-restart-broker3", lambda c: c.restart(3)),
        broker("j2-kill9-noncontroller-broker3", lambda c: c.kill(3)),
        broker("j3-restart-broker3", lambda c: c.restart(3)),
        ("k-delete-t2", lambda c: c.delete_topic("t2")),
        broker("n-sigterm-noncontroller-broker3", lambda c: c.shutdown(3)),
    ]


def play(c: KafkaCluster, act: Callable[[KafkaCluster], object]) -> None:
    """Do a step and let it come to rest."""
    act(c)
    assert c.run_until_quiet(60), c.history.to_text()
