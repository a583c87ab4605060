"""Public classes of simzk: kazoo clients beside a simulated cluster, time, pauses, threads and representations."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kazoo.protocol.states import EventType, KazooState

import simzk
from tests.waiting import PATIENCE_S, Reports, in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kazoo.client import KazooClient

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    with simzk.KafkaCluster(brokers=3, seed=7) as running:
        running.create_topic("orders", partitions=2, replication_factor=3)
        running.run_for(5)
        yield running


@pytest.fixture
def client(cluster: simzk.KafkaCluster) -> KazooClient:
    client = cluster.zookeeper.client(timeout=10)
    client.start(timeout=PATIENCE_S)
    return client


def state_of(client: KazooClient, partition: int) -> dict[str, object]:
    data, _ = client.get(f"/brokers/topics/orders/partitions/{partition}/state")
    state: dict[str, object] = json.loads(data)
    return state


def test_a_client_sees_what_brokers_write(cluster: simzk.KafkaCluster, client: KazooClient) -> None:
    assert sorted(client.get_children("/brokers/ids")) == ["1", "2", "3"]
    seen = Reports()
    client.ChildrenWatch("/brokers/ids", lambda ids: seen(sorted(ids)))
    assert seen.next() == ["1", "2", "3"]
    cluster.kill(1)
    cluster.advance(60)
    assert seen.next() == ["2", "3"]
    for partition in (0, 1):
        state = cluster.state("orders", partition)
        assert state_of(client, partition)["leader"] == state.leader != 1
        assert state_of(client, partition)["isr"] == list(state.isr)


def test_a_reassignment_znode_is_processed(cluster: simzk.KafkaCluster, client: KazooClient) -> None:
    wanted = [3, 1]
    plan = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": wanted}]}
    gone = Reports()
    client.create("/admin/reassign_partitions", json.dumps(plan).encode())
    client.exists("/admin/reassign_partitions", watch=gone)
    assert cluster.assignment("orders")[0].replicas != tuple(wanted)
    cluster.advance(60)
    assert gone.next().type == EventType.DELETED
    assert list(cluster.assignment("orders")[0].replicas) == wanted
    assert sorted(cluster.state("orders", 0).isr) == sorted(wanted)


def test_deleting_the_controller_znode_elects_another(cluster: simzk.KafkaCluster, client: KazooClient) -> None:
    epoch = int(client.get("/controller_epoch")[0])
    client.delete("/controller")
    assert client.exists("/controller") is None
    cluster.advance(10)
    assert cluster.controller in (1, 2, 3)
    assert int(client.get("/controller_epoch")[0]) == epoch + 1


def test_a_clients_request_is_applied_at_the_present_instant(cluster: simzk.KafkaCluster, client: KazooClient) -> None:
    client.create("/a")
    assert client.exists("/a").ctime == cluster.now_ms
    cluster.advance(1)
    assert client.set("/a", b"").mtime == cluster.now_ms


def test_a_paused_session_expires_and_a_connected_one_does_not(
    cluster: simzk.KafkaCluster, client: KazooClient
) -> None:
    states = Reports()
    client.add_listener(states)
    client.create("/here", ephemeral=True)
    cluster.advance(3_600)
    assert client.exists("/here")
    assert states.empty
    with cluster.zookeeper.pause(client):
        cluster.advance(60)
    states.until_equal(KazooState.LOST)
    states.until_equal(KazooState.CONNECTED)
    assert client.exists("/here") is None


def test_clients_and_the_cluster_run_concurrently(cluster: simzk.KafkaCluster, client: KazooClient) -> None:
    def write() -> int:
        for number in range(300):
            client.create(f"/n{number}")
            client.set(f"/n{number}", b"x")
        return len(client.get_children("/"))

    names = len(client.get_children("/"))
    writing = in_thread(write)
    while not writing.done():
        cluster.advance(0.5)
    assert writing.result(PATIENCE_S) == names + 300
    cluster.server.check()


def test_an_idle_client_changes_nothing_of_the_history() -> None:
    def story(*, joined: bool) -> list[object]:
        with simzk.KafkaCluster(brokers=3, seed=3) as cluster:
            if joined:
                cluster.zookeeper.client().start(timeout=PATIENCE_S)
            cluster.create_topic("orders", partitions=4, replication_factor=2)
            cluster.advance(5)
            cluster.kill(2)
            cluster.advance(60)
            return [list(cluster.state("orders", partition)) for partition in range(4)]

    assert story(joined=True) == story(joined=False)


def test_the_clusters_zookeeper_has_no_time_and_restart_of_its_own(cluster: simzk.KafkaCluster) -> None:
    with pytest.raises(simzk.SimzkError, match=r"expected cluster\.advance"):
        cluster.zookeeper.advance(1)
    with pytest.raises(simzk.SimzkError, match="this server belongs to a cluster"):
        cluster.zookeeper.restart()


def test_run_for_is_advance(cluster: simzk.KafkaCluster) -> None:
    before_ms = cluster.now_ms
    cluster.run_for(1.5)
    assert cluster.now_ms == before_ms + 1500
    with pytest.raises(simzk.SimzkError, match="seconds: time cannot go back by 2 s; expected 0 or more"):
        cluster.advance(-2)


def test_a_pause_ends_with_its_block(cluster: simzk.KafkaCluster) -> None:
    broker = next(broker for broker in (1, 2, 3) if broker != cluster.controller)
    with cluster.pause(broker) as pause:
        cluster.advance(30)
        assert broker not in cluster.live_brokers
        pause.resume()
        assert cluster.history[len(cluster.history) - 1].what == "resumed"
        length = len(cluster.history)
    assert len(cluster.history) == length, "a pause that was resumed in its block is not resumed again"
    cluster.advance(30)
    assert broker in cluster.live_brokers
    with cluster.pause(broker):
        cluster.kill(broker)
    assert not cluster.brokers[broker].alive


def test_a_representation_says_what_it_is(cluster: simzk.KafkaCluster) -> None:
    assert repr(cluster) == f"<KafkaCluster 3.9, 3 brokers, controller {cluster.controller}, {seconds_of(cluster)} s>"
    for broker in (1, 2, 3):
        cluster.kill(broker)
    cluster.advance(60)
    assert repr(cluster) == f"<KafkaCluster 3.9, 3 brokers, no controller, {seconds_of(cluster)} s>"
    with simzk.ZooKeeper(version="3.6") as zookeeper, simzk.ZooKeeperServer(version="3.6") as server:
        zookeeper.client()
        assert repr(zookeeper) == "<ZooKeeper 3.6, 1 client>"
        assert repr(server) == f"<ZooKeeperServer 3.6 on {server.hosts}, 0 clients>"


def seconds_of(cluster: simzk.KafkaCluster) -> str:
    return f"{cluster.scheduler.now_us / 1_000_000:.1f}"


def test_a_block_may_be_asynchronous() -> None:
    async def use() -> None:
        async with simzk.KafkaCluster(brokers=1) as cluster, simzk.ZooKeeper(), simzk.ZooKeeperServer():
            assert cluster.live_brokers == [1]
        assert not cluster.brokers[1].alive

    asyncio.run(use())


def test_properties_wait_for_the_lock(cluster: simzk.KafkaCluster) -> None:
    """Public methods and properties of the cluster wait while another thread uses it."""
    names = ["controller", "live_brokers", "now_ms", "table", "tree", "invariants"]
    with cluster.lock:
        readings = [in_thread(lambda name=name: getattr(cluster, name)) for name in names]  # type: ignore[misc]
        readings.append(in_thread(lambda: cluster.state("orders", 0)))
        assert cluster.controller in (1, 2, 3), "the thread that holds the lock goes on"
        time.sleep(0.05)
        assert not any(reading.done() for reading in readings)
    for reading in readings:
        reading.result(PATIENCE_S)


def test_every_public_method_takes_the_lock() -> None:
    unlocked = {"close", "from_layout", "from_tree", "pump", "run_until", "zookeeper", "lock"}
    members = {name: member for name, member in inspect.getmembers(simzk.KafkaCluster) if not name.startswith("_")}
    functions = {name: member.fget if isinstance(member, property) else member for name, member in members.items()}
    locked = {name for name, function in functions.items() if hasattr(function, "__wrapped__")}
    assert set(functions) - locked == unlocked


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Zookeeper'"):
        simzk.Zookeeper  # type: ignore[attr-defined]  # noqa: B018
    assert set(simzk.__all__) <= set(dir(simzk))
    assert all(getattr(simzk, name) for name in simzk.__all__)


def test_importing_the_package_imports_little() -> None:
    program = "import sys; before = set(sys.modules); import simzk; print(*set(sys.modules) - before)"
    # Without `site`, which loads what it likes.
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "simzk" in done.stdout.split()
    assert not {"typing", "re", "asyncio", "simzk.errors"} & set(done.stdout.split())
