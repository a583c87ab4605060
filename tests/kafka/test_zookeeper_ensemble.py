"""Brokers on a ZooKeeper ensemble: they go to another server and keep their sessions, while there is a majority."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from tests.kafka.clusters import QUICK, quiet, topic, watch

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = ("0.8.2", "1.1", "2.4", "3.9")


def on_ensemble(version: str = "3.9", servers: int = 3, seed: int = 1) -> KafkaCluster:
    c = KafkaCluster(version, 3, seed=seed, config=QUICK, zookeeper_servers=servers)
    topic(c, "t", {0: [1, 2, 3], 1: [2, 3, 1]})
    quiet(c)
    return c


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with on_ensemble() as c:
        yield c
        c.check()


def sessions(c: KafkaCluster) -> dict[int, int]:
    return {number: broker.session_id for number, broker in c.brokers.items()}


def server_of(c: KafkaCluster, broker: int) -> int | None:
    """Return the number of the server that a broker is connected to."""
    found = [
        number
        for number, member in c.zookeeper_host.ensemble.members.items()  # type: ignore[attr-defined]
        if member.connection_of(c.brokers[broker].session_id) is not None
    ]
    assert len(found) <= 1, "a session has one connection"
    return found[0] if found else None


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_outlive_the_loss_of_every_leader_in_turn(version: str) -> None:
    with on_ensemble(version) as c:
        monitor, before, epoch = watch(c), sessions(c), c.state("t", 0).leader_epoch
        leaders = []
        for _ in range(4):
            lost = c.lose_zookeeper_leader()
            leaders.append(lost)
            quiet(c)
            assert c.zookeeper_leader not in (None, lost)
            c.run_for(5)
            assert {server_of(c, broker) for broker in c.brokers}.isdisjoint({lost, None})
            c.restart_zookeeper_server(lost)
            quiet(c)
            c.check()
        assert sessions(c) == before
        assert c.state("t", 0).leader_epoch == epoch
        assert leaders == [3, 2, 3, 2], "the greatest id with the whole history is elected"
        assert monitor.violations == []


def test_only_the_clients_of_a_killed_server_go_to_another_one(cluster: KafkaCluster) -> None:
    before = {broker: server_of(cluster, broker) for broker in cluster.brokers}
    killed = before[1]
    assert killed is not None
    epochs = cluster.zookeeper_leader
    cluster.kill_zookeeper_server(killed)
    quiet(cluster)
    after = {broker: server_of(cluster, broker) for broker in cluster.brokers}
    assert None not in after.values()
    assert killed not in after.values()
    if epochs != killed:
        assert {b: after[b] for b in after if before[b] != killed} == {b: s for b, s in before.items() if s != killed}


def test_clients_are_spread_over_the_servers() -> None:
    found = set()
    for seed in range(6):
        with on_ensemble(seed=seed) as c:
            found |= {server_of(c, broker) for broker in c.brokers}
    assert found == {1, 2, 3}, "the observer that the test reads has no broker"


def test_without_a_majority_nobody_is_served_and_no_session_expires(cluster: KafkaCluster) -> None:
    cluster.kill_zookeeper_server(1)
    cluster.kill_zookeeper_server(3)
    assert cluster.zookeeper_leader is None
    assert cluster.killed_zookeeper_servers == [1, 3]
    cluster.kill(2)
    zxid = cluster.server.zxid
    cluster.run_for(120)
    assert cluster.live_brokers == [1, 2, 3]
    assert cluster.server.zxid == zxid
    assert {server_of(cluster, broker) for broker in (1, 3)} == {None}
    cluster.restart_zookeeper_server(1)
    cluster.run_for(30)
    assert cluster.live_brokers == [1, 3]
    assert cluster.state("t", 1).leader == 3


def test_a_longer_election_is_an_outage_of_that_time(cluster: KafkaCluster) -> None:
    at_us = cluster.scheduler.now_us
    cluster.lose_zookeeper_leader(outage_s=12.5)
    quiet(cluster)
    (elected,) = [event for event in cluster.history if event.what == "leader elected" and event.who == "zookeeper"]
    assert elected.at_us - at_us == 12_500_000


@pytest.mark.parametrize("stop", ["stop_zookeeper", "pause_zookeeper"])
def test_all_servers_can_be_stopped_or_paused(cluster: KafkaCluster, stop: str) -> None:
    before = sessions(cluster)
    cluster.kill_zookeeper_server(1)
    getattr(cluster, stop)()
    assert not cluster.is_zookeeper_up
    cluster.run_for(4)
    cluster.start_zookeeper()
    quiet(cluster)
    assert (sessions(cluster), cluster.live_brokers) == (before, [1, 2, 3])
    assert cluster.killed_zookeeper_servers == [1]


def test_the_same_seed_gives_the_same_history() -> None:
    def played() -> str:
        with on_ensemble(seed=5) as c:
            for server in (1, 2, 3):
                c.kill_zookeeper_server(server)
                c.kill(server)
                c.run_for(20)
                c.restart_zookeeper_server(server)
                c.restart(server)
                quiet(c)
            return c.history.to_text()

    assert played() == played()


def test_faults_strike_the_requests_of_a_broker_on_whichever_server_it_is(cluster: KafkaCluster) -> None:
    rule = cluster.zookeeper_faults.drop_reply("transaction", path="/brokers/topics/t/partitions/0/state")
    assert cluster.controller != 2
    cluster.lose_zookeeper_leader()
    cluster.kill(2)
    quiet(cluster)
    assert rule.fired == 1
    assert cluster.state("t", 0).isr == (1, 3)


def test_kazoo_clients_read_and_write_the_tree() -> None:
    with simzk.KafkaCluster("3.9", 3, seed=1, config=QUICK, zookeeper_servers=3) as c:
        client = c.zookeeper.client()
        client.start()
        assert sorted(client.get_children("/brokers/ids")) == ["1", "2", "3"]
        client.create("/mine", b"1")
        c.lose_zookeeper_leader()
        c.run_for(5)
        assert c.tree.get("/mine") is not None
        client.stop()


def test_secured_and_chrooted_clusters_run_on_an_ensemble() -> None:
    with KafkaCluster(
        "3.9", 2, config=QUICK, zookeeper_servers=3, zookeeper_set_acl=True, zookeeper_chroot="/kafka"
    ) as c:
        c.lose_zookeeper_leader()
        quiet(c)
        assert c.live_brokers == [1, 2]


def test_impossible_verbs_say_what_is_possible(cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigError, match="server 4 does not exist"):
        cluster.kill_zookeeper_server(4)
    with pytest.raises(ConfigError, match=r"server 1 .*runs"):
        cluster.restart_zookeeper_server(1)
    with pytest.raises(ConfigError, match="-1 s"):
        cluster.lose_zookeeper_leader(-1)
    cluster.kill_zookeeper_server(1)
    cluster.kill_zookeeper_server(2)
    with pytest.raises(ConfigError, match="no leader"):
        cluster.lose_zookeeper_leader()
    with pytest.raises(ConfigError, match="zookeeper_servers"):
        KafkaCluster(zookeeper_servers=16)
    with KafkaCluster(brokers=1) as single, pytest.raises(ConfigError, match="one ZooKeeper server"):
        single.lose_zookeeper_leader()
