"""Brokers on a ZooKeeper ensemble: they go to another server and keep their sessions, while there is a majority."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from tests.kafka.clusters import QUICK, quiet, topic, watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VERSIONS = ("0.8.2", "1.1", "2.4", "3.9")


PATIENT = {**QUICK, "zookeeper.session.timeout.ms": 18_000}
"""The timeout of 2.5 and later, which is longer than the others wait for a silent server."""


def on_ensemble(
    version: str = "3.9", servers: int = 3, seed: int = 1, config: Mapping[str, str | int | bool] = QUICK
) -> KafkaCluster:
    c = KafkaCluster(version, 3, seed=seed, config=config, zookeeper_servers=servers)
    topic(c, "t", {0: [1, 2, 3], 1: [2, 3, 1]})
    quiet(c)
    return c


@pytest.fixture
def patient() -> Iterator[KafkaCluster]:
    with on_ensemble(config=PATIENT) as c:
        yield c
        c.check()


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


# Servers that are paused or cut off


def served(c: KafkaCluster) -> dict[int, list[int]]:
    """Return the servers on which each broker's session has a connection; an old one may be left on a paused server."""
    return {
        number: [
            server
            for server, member in c.zookeeper_host.ensemble.members.items()  # type: ignore[attr-defined]
            if member.connection_of(broker.session_id) is not None
        ]
        for number, broker in c.brokers.items()
    }


def chosen_server(c: KafkaCluster, *, leads: bool) -> int:
    """Return a server with a broker on it that leads or follows."""
    found = [at for (at,) in served(c).values() if (at == c.zookeeper_leader) == leads]
    assert found, "the seed puts a broker on such a server"
    return found[0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("leads", [True, False])
def test_brokers_leave_a_paused_server_with_their_sessions(version: str, leads: bool) -> None:
    with on_ensemble(version, seed=3, config=PATIENT) as c:
        monitor, before = watch(c), sessions(c)
        paused = chosen_server(c, leads=leads)
        with c.pause_zookeeper_server(paused):
            assert c.paused_zookeeper_servers == [paused]
            c.run_for(30)
            assert c.zookeeper_leader not in (None, paused)
            assert all(set(servers) - {paused} for servers in served(c).values())
        quiet(c)
        assert c.paused_zookeeper_servers == []
        assert all(len(servers) == 1 for servers in served(c).values()), "the session was moved"
        assert sessions(c) == before
        c.check()
        assert monitor.violations == []


def test_a_short_pause_of_the_leader_breaks_no_connection(patient: KafkaCluster) -> None:
    before, leader = served(patient), patient.zookeeper_leader
    assert leader is not None
    patient.pause_zookeeper_server(leader, 3)
    patient.create_topic("during", assignment={0: [1, 2, 3]})
    patient.run_for(2)
    assert "during" not in patient.tree.get("/brokers/topics").child_names()  # type: ignore[union-attr]
    patient.run_for(3)
    quiet(patient)
    assert (served(patient), patient.zookeeper_leader) == (before, leader)
    assert patient.state("during", 0).leader == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("leads", [True, False])
def test_brokers_leave_a_server_that_is_cut_off_from_the_others(version: str, leads: bool) -> None:
    with on_ensemble(version, seed=3) as c:
        monitor = watch(c)
        cut = chosen_server(c, leads=leads)
        c.cut_zookeeper_server(cut)
        assert c.cut_zookeeper_servers == [cut]
        c.run_for(40)
        assert all(servers and cut not in servers for servers in served(c).values())
        assert c.zookeeper_leader not in (None, cut)
        c.kill(1)
        quiet(c)
        c.heal_zookeeper_server(cut)
        c.restart(1)
        quiet(c)
        c.check()
        assert c.live_brokers == [1, 2, 3]
        assert monitor.violations == []


def test_a_broker_on_a_server_that_is_cut_off_loses_its_session_unnoticed() -> None:
    """The server answers the broker's pings, but the leader does not hear of the session and expires it."""
    with on_ensemble("0.8.2", seed=3) as c:  # zookeeper.session.timeout.ms is 6 s, less than the sync limit
        cut = chosen_server(c, leads=False)
        lost = [broker for broker, servers in served(c).items() if servers == [cut]]
        before = sessions(c)
        c.cut_zookeeper_server(cut)
        c.run_for(9)
        assert not set(lost) & set(c.live_brokers)
        assert all(served(c)[broker] == [cut] for broker in lost), "they are still connected"
        c.run_for(30)
        quiet(c)
        assert c.live_brokers == [1, 2, 3]
        assert {broker for broker, session in sessions(c).items() if session != before[broker]} == set(lost)


def test_a_broker_that_loses_one_server_goes_to_another_one(patient: KafkaCluster) -> None:
    before, ids = served(patient), sessions(patient)
    (lost,) = before[1]
    patient.cut_zookeeper_server(lost, broker=1)
    patient.run_for(60)
    after = served(patient)
    assert set(after[1]) - {lost}, "the end of the old connection was lost, too"
    assert {broker: after[broker] for broker in (2, 3)} == {broker: before[broker] for broker in (2, 3)}
    assert sessions(patient) == ids
    patient.heal_zookeeper_server(lost, broker=1)
    quiet(patient)


def test_a_server_that_is_behind_refuses_a_broker_that_has_seen_more(patient: KafkaCluster) -> None:
    """ "refusing session request for client as it has seen zxid": the broker keeps its session and tries the next."""
    ids = sessions(patient)
    (first,) = served(patient)[1]
    behind, other = (server for server in (1, 2, 3) if server != first)
    patient.cut_zookeeper_server(behind)
    patient.write_znode("/seen", "by the others")
    patient.run_for(1)
    patient.cut_zookeeper_server(first, broker=1)
    patient.cut_zookeeper_server(other, broker=1)
    for _ in range(8):
        patient.disconnect(1)
        patient.run_for(1)
        assert served(patient)[1] in ([], [first], [other]), "connections that broker 1 has lost may be left"
    patient.heal_zookeeper_server(behind)
    for server in (first, other):
        patient.heal_zookeeper_server(server, broker=1)
    quiet(patient)
    assert sessions(patient) == ids


def test_pauses_and_cuts_end_with_what_else_happens_to_a_server(cluster: KafkaCluster) -> None:
    cluster.pause_zookeeper_server(1)
    cluster.kill_zookeeper_server(1)
    assert (cluster.paused_zookeeper_servers, cluster.killed_zookeeper_servers) == ([], [1])
    cluster.cut_zookeeper_server(1)
    cluster.cut_zookeeper_server(2, broker=3)
    cluster.run_for(20)
    cluster.heal_zookeeper_servers()
    quiet(cluster)
    assert (cluster.killed_zookeeper_servers, cluster.cut_zookeeper_servers) == ([], [])
    cluster.pause_zookeeper_server(2, 40)
    cluster.stop_zookeeper()
    assert cluster.paused_zookeeper_servers == []
    cluster.start_zookeeper()
    cluster.run_for(5)
    cluster.pause_zookeeper_server(3)
    cluster.pause_zookeeper()
    cluster.run_for(2)
    cluster.start_zookeeper()
    assert cluster.paused_zookeeper_servers == [3]
    cluster.run_for(50)
    assert cluster.paused_zookeeper_servers == [3], "the end of the earlier pause was forgotten"
    cluster.resume_zookeeper_server(3)
    quiet(cluster)
    assert cluster.live_brokers == [1, 2, 3]


def test_impossible_verbs_of_single_servers_say_what_is_possible(cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigError, match="server 4 does not exist"):
        cluster.cut_zookeeper_server(4)
    with pytest.raises(ConfigError, match="broker 9 does not exist"):
        cluster.heal_zookeeper_server(1, broker=9)
    with pytest.raises(ConfigError, match=r"server 1 is not paused.*no server is paused"):
        cluster.resume_zookeeper_server(1)
    with pytest.raises(ConfigError, match="-1 s"):
        cluster.pause_zookeeper_server(1, -1)
    with cluster.pause_zookeeper_server(1), pytest.raises(ConfigError, match="server 1 is paused already"):
        cluster.pause_zookeeper_server(1)
    cluster.stop_zookeeper()
    with pytest.raises(ConfigError, match="stopped or paused"):
        cluster.pause_zookeeper_server(1)
    with KafkaCluster(brokers=1) as single:
        single.heal_zookeeper_servers()
        with pytest.raises(ConfigError, match="one ZooKeeper server"):
            single.cut_zookeeper_server(1)
