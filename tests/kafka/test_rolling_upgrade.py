"""Brokers of several releases in one cluster: each writes as its release and inter-broker protocol require."""

from __future__ import annotations

import json

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition

CONFIG = {"auto.leader.rebalance.enable": False}
OLD, NEW = "2.4", "2.8"


def data(cluster: KafkaCluster, path: str) -> dict[str, object] | None:
    """Return a znode's JSON; None: the znode is missing."""
    node = cluster.server.tree.get(path)
    if node is None:
        return None
    found: dict[str, object] = json.loads(node.data or b"")
    return found


def mixed(versions: dict[int, str], protocol: str | dict[int, str] | None = None, *, controller: int) -> KafkaCluster:
    """Create a cluster of three brokers with a known controller and the topic t."""
    cluster = KafkaCluster(versions, 3, seed=1, config=CONFIG, inter_broker_protocol=protocol, boot=False)
    cluster.prefer_controller(controller)
    cluster.restart(controller)
    cluster.run_until_quiet()
    for broker in versions:
        if broker != controller:
            cluster.restart(broker)
    assert cluster.run_until_quiet()
    cluster.create_topic("t", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    assert cluster.run_until_quiet()
    assert cluster.controller == controller
    return cluster


def roll(
    cluster: KafkaCluster, broker: int, version: str | None = None, inter_broker_protocol: str | None = None
) -> None:
    """Shut a broker down and start it with another release or protocol."""
    cluster.shutdown(broker)
    cluster.run_for(20)
    assert not cluster.brokers[broker].alive
    cluster.restart(broker, version=version, inter_broker_protocol=inter_broker_protocol)
    assert cluster.run_until_quiet()


def test_each_broker_registers_in_the_form_of_its_own_release_and_protocol() -> None:
    cluster = mixed({1: OLD, 2: NEW, 3: NEW}, {2: OLD}, controller=1)
    registrations = [data(cluster, f"/brokers/ids/{broker}") or {} for broker in (1, 2, 3)]
    assert [found["version"] for found in registrations] == [4, 4, 5]
    assert list(registrations[0])[-3:] == ["timestamp", "port", "version"]  # Scala 2.12
    assert list(registrations[1])[-3:] == ["host", "version", "timestamp"]  # Scala 2.13
    assert "features" in registrations[2]


def test_a_rolling_upgrade_changes_only_the_writes_of_upgraded_brokers() -> None:
    cluster = mixed(dict.fromkeys((1, 2, 3), OLD), controller=1)
    assert data(cluster, "/brokers/topics/t")["version"] == 2  # type: ignore[index]
    for broker in (3, 2, 1):  # the new code, at the old protocol; the controller last
        roll(cluster, broker, version=NEW, inter_broker_protocol=OLD)
        assert data(cluster, "/feature") is None
    cluster.create_topic("u", assignment={0: [1, 2, 3]})
    assert cluster.run_until_quiet()
    topic = data(cluster, "/brokers/topics/u")
    assert topic is not None
    assert topic["version"] == 3
    assert "topic_id" not in topic

    controller = cluster.controller
    assert controller is not None
    others = [broker for broker in (1, 2, 3) if broker != controller]
    for broker in others:  # the new protocol; the controller last
        roll(cluster, broker, inter_broker_protocol=NEW)
        assert data(cluster, "/feature") is None
        assert "topic_id" not in (data(cluster, "/brokers/topics/t") or {})
    roll(cluster, controller, inter_broker_protocol=NEW)
    assert data(cluster, "/feature") == {"features": {}, "version": 1, "status": 1}
    ids = [(data(cluster, f"/brokers/topics/{name}") or {}).get("topic_id") for name in ("t", "u")]
    assert all(ids)
    assert len(set(ids)) == 2
    assert cluster.state("t", 0).isr


@pytest.mark.parametrize("protocol", ["2.4", "2.7-IV1", "2.7-IV2"])
def test_the_leaders_protocol_decides_who_writes_isrs(protocol: str) -> None:
    cluster = mixed(dict.fromkeys((1, 2, 3), NEW), protocol, controller=1)
    notifications: list[str] = []
    cluster.server.on_transaction.append(
        lambda txn: notifications.append("isr") if "/isr_change_notification/isr_change_" in repr(txn.record) else None
    )
    cluster.kill(3)
    cluster.run_for(30)
    cluster.restart(3)
    assert cluster.run_until_quiet()
    assert len(cluster.state("t", 0).isr) == 3
    assert bool(notifications) == (protocol != "2.7-IV2")


@pytest.mark.parametrize(("old", "new"), [("0.10.2", "3.3"), ("2.1", "2.2")])
def test_an_upgraded_broker_obeys_a_controller_that_knows_no_broker_epochs(old: str, new: str) -> None:
    cluster = mixed({1: old, 2: old, 3: old}, controller=1)
    roll(cluster, 2, new, old)
    assert cluster.brokers[2].epoch > 0
    assert cluster.controller == 1
    assert all(2 in cluster.state("t", partition).isr for partition in range(3))


def test_a_controller_at_an_old_protocol_disables_features() -> None:
    cluster = mixed(dict.fromkeys((1, 2, 3), NEW), controller=1)
    assert (data(cluster, "/feature") or {})["status"] == 1
    ids = (data(cluster, "/brokers/topics/t") or {})["topic_id"]
    cluster.prefer_controller(2)
    roll(cluster, 2, inter_broker_protocol="2.6")
    roll(cluster, 1)
    assert cluster.controller == 2
    assert (data(cluster, "/feature") or {})["status"] == 0
    assert (data(cluster, "/brokers/topics/t") or {})["topic_id"] == ids


@pytest.mark.parametrize(("protocol", "are_sent"), [("2.7", False), ("2.8-IV0", False), ("2.8-IV1", True)])
def test_topic_ids_are_sent_to_brokers_from_2_8_iv1_on(protocol: str, are_sent: bool) -> None:
    """LeaderAndIsr version 5 and UpdateMetadata version 7 (ControllerChannelManager of 2.8.1 and later)."""
    with KafkaCluster("3.0", 3, seed=1, config=CONFIG, boot=False) as cluster:
        cluster.prefer_controller(1)
        cluster.restart(1)
        assert cluster.run_until_quiet()
        cluster.create_topic("t", assignment={0: [2, 3]})  # an id in the znode: no assigned broker runs yet
        assert cluster.run_until_quiet()
        roll(cluster, 1, inter_broker_protocol=protocol)
        for broker in (2, 3):
            cluster.restart(broker)
        assert cluster.run_until_quiet()
        assert cluster.controller == 1
        topic_id = (data(cluster, "/brokers/topics/t") or {})["topic_id"]
        logs = [cluster.brokers[broker].log_of(TopicPartition("t", 0)) for broker in (2, 3)]
        assert [log and log.topic_id for log in logs] == [topic_id if are_sent else None] * 2
        caches = [cluster.brokers[broker].metadata.topic_ids for broker in (2, 3)]
        assert caches == [{"t": topic_id} if are_sent else {}] * 2


def test_a_downgraded_controller_drops_topic_ids_and_a_new_one_assigns_others() -> None:
    cluster = mixed({1: OLD, 2: NEW, 3: NEW}, {2: OLD, 3: OLD}, controller=1)
    cluster.prefer_controller(2)
    roll(cluster, 2, inter_broker_protocol=NEW)
    roll(cluster, 1)
    assert cluster.controller == 2
    first = (data(cluster, "/brokers/topics/t") or {})["topic_id"]
    cluster.prefer_controller(1)
    roll(cluster, 2)
    assert cluster.controller == 1
    cluster.reassign({("t", 0): [2, 1, 3]})
    assert cluster.run_until_quiet()
    assert "topic_id" not in (data(cluster, "/brokers/topics/t") or {})
    cluster.prefer_controller(2)
    roll(cluster, 1)
    assert cluster.controller == 2
    assert (data(cluster, "/brokers/topics/t") or {})["topic_id"] != first


def test_an_old_controller_rejects_alter_isr_until_a_new_one_is_elected() -> None:
    """The protocol was raised too early: the old release does not support the request."""
    cluster = mixed({1: OLD, 2: NEW, 3: NEW}, controller=1)
    cluster.kill(3)
    cluster.run_for(30)
    cluster.restart(3)
    cluster.run_for(60)
    assert 3 in cluster.state("t", 0).isr  # led by 1, which writes it itself
    assert 3 not in cluster.state("t", 1).isr  # led by 2, which asks in vain
    cluster.prefer_controller(2)
    roll(cluster, 1, version=NEW)
    assert cluster.controller == 2
    assert set(cluster.state("t", 1).isr) == {1, 2, 3}


def test_a_controller_before_2_4_treats_all_replicas_of_a_reassignment_as_assigned() -> None:
    cluster = mixed(dict.fromkeys((1, 2, 3), "2.2"), controller=1)
    cluster.write_znode(
        "/brokers/topics/t",
        '{"version":2,"partitions":{"0":[1,2,3],"1":[2,3,1],"2":[3,1,2]},'
        '"adding_replicas":{"0":[2]},"removing_replicas":{"0":[3]}}',
    )
    cluster.prefer_controller(2)
    roll(cluster, 1)
    assert cluster.controller == 2
    context = cluster.brokers[2].controller.context
    assert not context.being_reassigned
    assert context.assignment(TopicPartition("t", 0)) == ReplicaAssignment((1, 2, 3))


def test_invalid_releases_are_rejected_and_nothing_changes() -> None:
    cluster = KafkaCluster("2.4", 1, boot=False)
    with pytest.raises(ConfigError, match=r"2\.4 does not support the inter-broker protocol '2\.8'"):
        cluster.restart(1, inter_broker_protocol="2.8")
    with pytest.raises(ConfigError, match=r"'7\.0' is not simulated"):
        cluster.restart(1, version="7.0")
    with pytest.raises(ConfigError, match="is not an inter-broker protocol"):
        cluster.restart(1, inter_broker_protocol="new")
    with pytest.raises(ConfigError, match="broker 2 has no version"):
        KafkaCluster({1: "2.4"}, 2)
    with pytest.raises(ConfigError, match="broker 9 does not exist"):
        KafkaCluster("2.4", 2, inter_broker_protocol={9: "2.4"})
    cluster.restart(1)
    assert cluster.run_until_quiet()
    assert cluster.brokers[1].version.name == "2.4"
