"""An ensemble over TCP and kazoo's own client: verbs of `ZooKeeperServer(servers=3).ensemble`, and `simzk serve`."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooState
from kazoo.exceptions import NoNodeError, NotReadOnlyCallError

from simzk import ConfigError, SimzkError, ZooKeeperServer
from simzk.zookeeper import requests as req
from tests.cli.test_serve import refused, serving
from tests.serve.tcp_client import TcpClient, word
from tests.waiting import PATIENCE_S, Reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(servers=3) as running:
        yield running


def test_three_ports_and_one_history(server: ZooKeeperServer) -> None:
    assert len(server.hosts.split(",")) == 3
    assert server.ensemble.modes == {1: "follower", 2: "follower", 3: "leader"}
    for number in (1, 2, 3):
        client = server.client(hosts=server.ensemble.hosts(number))
        client.start()
        assert client.client_id[0] >> 56 == number
        client.create(f"/from-{number}")
        assert client.get_children("/")[0:3]
        client.stop()
    with server.lock:
        assert "/from-1" in server.server.tree


def test_a_follower_that_lags_is_stale_until_a_sync_or_its_time(server: ZooKeeperServer) -> None:
    writer, reader = server.client(hosts=server.ensemble.hosts(3)), server.client(hosts=server.ensemble.hosts(1))
    writer.start()
    reader.start()
    server.ensemble.lag(1, transactions=10)
    writer.create("/a")
    with pytest.raises(NoNodeError):
        reader.get("/a")
    reader.sync("/a")
    assert reader.get("/a")[0] == b""
    server.ensemble.lag(1, seconds=5)
    writer.set("/a", b"new")
    asked = reader.sync_async("/a")
    read = reader.get_async("/a")
    assert not asked.ready()
    server.advance(5)
    asked.get(timeout=PATIENCE_S)
    assert read.get(timeout=PATIENCE_S)[0] == b"new"


def test_a_lost_leader_costs_a_connection_and_no_session(server: ZooKeeperServer) -> None:
    client = server.client()
    states = Reports()
    client.add_listener(states)
    client.start()
    states.until_equal(KazooState.CONNECTED)
    session_id = client.client_id[0]
    client.create("/mine", ephemeral=True)
    lost = server.ensemble.lose_leader(outage=3)
    states.until_equal(KazooState.SUSPENDED)
    assert server.ensemble.leader is None
    assert set(server.ensemble.modes.values()) == {""}
    assert "not currently serving" in word(int(server.ensemble.hosts(lost % 3 + 1).rpartition(":")[2]), b"srvr")
    server.advance(3)
    states.until_equal(KazooState.CONNECTED)
    assert client.client_id[0] == session_id
    stat = client.exists("/mine")
    assert stat.ephemeralOwner == session_id
    assert stat.czxid >> 32 == 1
    client.create("/later")
    assert client.exists("/later").czxid >> 32 == 2
    server.ensemble.start(lost)
    assert sorted(server.ensemble.modes.values()) == ["follower", "follower", "leader"]


def test_the_verbs_find_a_client_on_whichever_server_it_is(server: ZooKeeperServer) -> None:
    client = server.client(hosts=server.ensemble.hosts(1))
    states = Reports()
    client.add_listener(states)
    client.start()
    states.until_equal(KazooState.CONNECTED)
    client.create("/e", ephemeral=True)
    server.advance(100)
    assert client.exists("/e") is not None
    server.disconnect(client)
    states.until_equal(KazooState.SUSPENDED)
    states.until_equal(KazooState.CONNECTED)
    server.expire(client)
    states.until_equal(KazooState.LOST)
    states.until_equal(KazooState.CONNECTED)
    assert client.exists("/e") is None


def test_one_that_is_cut_off_serves_read_only_clients() -> None:
    with ZooKeeperServer(servers=3, read_only=True) as server:
        writer = server.client(hosts=server.ensemble.hosts(3))
        writer.start()
        writer.create("/a", b"kept")
        server.ensemble.cut(1)
        server.advance(2)
        assert server.ensemble.modes[1] == "read-only"
        reader = server.client(hosts=server.ensemble.hosts(1), read_only=True)
        reader.start()
        assert reader.get("/a")[0] == b"kept"
        with pytest.raises(NotReadOnlyCallError):
            reader.set("/a", b"")
        writer.set("/a", b"newer")
        server.ensemble.heal()
        assert server.ensemble.modes[1] == "follower"


def test_what_cannot_be_is_refused(server: ZooKeeperServer) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: server.ensemble.stop(4),
        lambda: server.ensemble.hosts(0),
        lambda: server.ensemble.start(1),
    )
    for call in calls:
        with pytest.raises(SimzkError, match="server"):
            call()
    with pytest.raises(ConfigError, match="cannot listen"):
        ZooKeeperServer(servers=3, port=server.port)
    with ZooKeeperServer() as lone, pytest.raises(SimzkError, match="single server"):
        lone.ensemble.elect()


def test_the_command_serves_an_ensemble() -> None:
    with serving("--port", "0", "--servers", "3") as process:
        where = process.line.removeprefix("listening on ").strip().split(",")
        first, second, third = (int(one.removeprefix("127.0.0.1:")) for one in where)
        with TcpClient(first) as writer, TcpClient(second) as reader:
            writer.connect()
            reader.connect()
            assert writer.ask(req.Create("/a", b"", req.OPEN_ACL, 0)).error == 0
            assert reader.ask(req.Sync("/a")).error == 0
            assert reader.ask(req.Exists("/a", False)).error == 0
        assert "Mode: leader" in word(third, b"srvr")
        assert process.end(signal.SIGTERM) == (0, "")


@pytest.mark.parametrize("servers", ["0", "255", "x"])
def test_a_number_of_servers_that_cannot_be(servers: str) -> None:
    assert "is not a number of servers" in refused("--port", "0", "--servers", servers)
