"""A deleted topic stays deleted: neither its id nor its records come back with another topic of its name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation.records import NO_RECORDS_OF_DELETED
from simzk.kafka.topic_partition import TopicPartition
from simzk.zookeeper import requests as req
from tests.kafka.clusters import QUICK, quiet, topic, watch
from tests.kafka.test_invariants import STATE, TOPIC, Rig, state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.simulation import Monitor

PARTITION = TopicPartition("t", 0)
FIRST_ID, SECOND_ID = "A" * 22, "B" * 21 + "A"


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Return a server whose topic was deleted."""
    rig = Rig()
    create_topic(rig, FIRST_ID, leader_epoch=4)
    for path in (STATE, *(STATE.rsplit("/", up)[0] for up in (1, 2)), TOPIC):
        rig.do(req.Delete(path, -1))
    assert rig.broken == []
    yield rig
    assert len(rig.broken) <= 1, "a violation is reported once"


def create_topic(rig: Rig, topic_id: str, leader_epoch: int) -> None:
    rig.create(TOPIC, json.dumps({"partitions": {"0": [1]}, "topic_id": topic_id, "version": 3}))
    rig.create(STATE, state(1, [1], epoch=leader_epoch, controller_epoch=-1))


def test_a_topic_that_is_created_again_breaks_nothing(rig: Rig) -> None:
    create_topic(rig, SECOND_ID, leader_epoch=0)
    rig.set(STATE, state(-1, [1], epoch=7, controller_epoch=-1))
    assert rig.broken == []


@pytest.mark.parametrize(
    ("topic_id", "leader_epoch", "said"),
    [
        (FIRST_ID, 0, f"t has id {FIRST_ID} of topic t, which was deleted"),
        (SECOND_ID, 4, "t-0 of a deleted topic begins again with leader epoch 4"),
    ],
)
def test_a_topic_that_comes_back_is_reported(rig: Rig, topic_id: str, leader_epoch: int, said: str) -> None:
    create_topic(rig, topic_id, leader_epoch)
    assert rig.broken == [f"a deleted topic comes back only if it is created again: {said}"]


def recreated_on_a_broker_with_the_old_log(version: str) -> tuple[KafkaCluster, Monitor]:
    """Return a cluster whose topic was moved from a dead broker, deleted, and created on that broker again."""
    c = KafkaCluster(version, 3, config=QUICK)
    monitor = watch(c)
    topic(c, "t", {0: [1, 2]})
    c.produce("t", 0, records=10)
    c.run_for(2)
    c.kill(2)
    quiet(c)
    c.reassign({("t", 0): [1]})
    quiet(c)
    c.delete_topic("t")
    quiet(c)
    assert c.server.tree.get("/brokers/topics/t") is None
    c.restart(2)
    quiet(c)
    c.create_topic("t", assignment={0: [2]})
    c.run_for(5)
    return c, monitor


def test_a_release_without_topic_ids_takes_the_old_log_for_that_of_the_new_topic() -> None:
    c, monitor = recreated_on_a_broker_with_the_old_log("2.7")
    assert c.log(2, "t", 0).log_end == 10
    assert [(known.issue, known.invariant, known.detail) for known in monitor.known] == [
        (
            "KIP-516",
            NO_RECORDS_OF_DELETED,
            "broker 2 leads t-0 in epoch 0 with 10 records of a deleted topic, from 0 on",
        )
    ]
    assert monitor.violations == []
    c.close()


def test_a_broker_rejects_a_leader_of_another_topic_of_the_same_name() -> None:
    c, monitor = recreated_on_a_broker_with_the_old_log("3.9")
    assert not c.brokers[2].replicas.leads(PARTITION)
    assert monitor.violations == monitor.known == []
    c.close()


def test_an_upgrade_to_topic_ids_gives_existing_logs_the_id_of_their_topic() -> None:
    c = KafkaCluster("2.8", 3, config=QUICK, inter_broker_protocol="2.7")
    topic(c, "t", {0: [1, 2, 3]})
    for broker in (1, 2, 3):
        c.shutdown(broker)
        c.run_for(20)
        c.restart(broker, inter_broker_protocol="2.8")
        quiet(c)
    found = json.loads(c.server.tree.get("/brokers/topics/t").data)  # type: ignore[union-attr,arg-type]
    logs = [c.brokers[broker].log_of(PARTITION) for broker in (1, 2, 3)]
    assert [log and log.topic_id for log in logs] == [found["topic_id"]] * 3
    c.close()


def test_a_topic_that_is_created_again_has_no_records_and_another_id() -> None:
    c = KafkaCluster("3.9", 3, config=QUICK)
    monitor = watch(c)
    for _ in range(2):
        topic(c, "t", {0: [1, 2, 3]})
        c.produce("t", 0, records=10)
        c.run_for(2)
        assert c.log(3, "t", 0).log_end == 10
        c.delete_topic("t")
        quiet(c)
    assert monitor.violations == monitor.known == []
    c.close()


@pytest.mark.parametrize(
    ("release", "after_creation", "after_failure"),
    [("1.1", True, True), ("2.0", False, True), ("2.1", False, True), ("2.2", False, False)],
)
def test_brokers_hear_again_of_a_topic_that_cannot_be_deleted(
    release: str, after_creation: bool, after_failure: bool
) -> None:
    """ControllerBrokerRequestBatch.addUpdateMetadataRequestForBrokers: recorded groups go that are empty."""
    with KafkaCluster(release, 3) as cluster:
        cluster.create_topic("unfinished", assignment={0: [1, 9]})
        quiet(cluster)
        cluster.delete_topic("unfinished")
        cluster.run_for(5)
        named: set[str] = set()
        cluster.brokers[1].metadata.observers.append(named.update)
        cluster.create_topic("other", assignment={0: [1]})
        quiet(cluster)
        assert ("unfinished" in named) == after_creation
        named.clear()
        cluster.kill(3)
        cluster.run_for(30)
        assert ("unfinished" in named) == after_failure
        assert "unfinished" not in cluster.brokers[1].metadata.topics


@pytest.mark.parametrize(("release", "known"), [("0.8.2", []), ("0.9", [1, 2])])
def test_brokers_of_0_8_know_each_other_once_there_is_a_partition(release: str, known: list[int]) -> None:
    with KafkaCluster(release, 2) as cluster:
        assert sorted(cluster.brokers[1].metadata.live_brokers) == known
        cluster.create_topic("first", assignment={0: [2]})
        quiet(cluster)
        assert sorted(cluster.brokers[1].metadata.live_brokers) == [1, 2]
