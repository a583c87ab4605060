"""Fault rules for kazoo clients, in memory and over TCP: by session, kind of request and path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError, NoNodeError, OperationTimeoutError
from kazoo.protocol.states import KazooState

import simzk
from simzk import ConfigError, SimzkError
from tests.waiting import PATIENCE_S, Reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simzk.serve.verbs import TestServer
    from simzk.simulation.request_faults import FaultRule

TIMEOUT_S = 10.0


@pytest.fixture(params=["ZooKeeper", "ZooKeeperServer", "ensemble"])
def either(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    """A server in memory, on TCP, and an ensemble on TCP."""
    makers: dict[str, Callable[[], simzk.ZooKeeper | simzk.ZooKeeperServer]] = {
        "ZooKeeper": simzk.ZooKeeper,
        "ZooKeeperServer": simzk.ZooKeeperServer,
        "ensemble": lambda: simzk.ZooKeeperServer(servers=3),
    }
    with makers[request.param]() as server:
        yield server
        with server.lock:
            server.server.check()


def started(zookeeper: TestServer, **options: Any) -> KazooClient:
    client = zookeeper.client(timeout=TIMEOUT_S, **options)
    client.start(timeout=PATIENCE_S)
    return client


def data(zookeeper: TestServer, path: str) -> bytes | None:
    with zookeeper.lock:
        node = zookeeper.server.tree.get(path)
        return None if node is None else node.data


def test_a_lost_request_is_not_applied_and_the_client_cannot_know(either: TestServer) -> None:
    client = started(either)
    rule = either.faults.drop_request("create", path="/a")
    with pytest.raises(ConnectionLoss):
        client.create("/a", b"1")
    assert data(either, "/a") is None
    assert (rule.fired, rule.active) == (1, False)
    assert client.retry(client.create, "/a", b"1") == "/a"


def test_a_lost_reply_is_of_a_request_that_was_applied(either: TestServer) -> None:
    client = started(either)
    rule = either.faults.drop_reply("create")
    with pytest.raises(ConnectionLoss):
        client.create("/a", b"1")
    with pytest.raises(NodeExistsError):
        client.retry(client.create, "/a", b"2")
    assert data(either, "/a") == b"1"
    assert rule.fired == 1


def test_what_stands_before_a_lost_reply_arrives_and_what_is_behind_it_does_not(either: TestServer) -> None:
    client = started(either)
    client.create("/a", b"0")
    either.faults.drop_reply("set", path="/a")
    with either.pause(client):  # so that all come in one batch
        pending = [client.get_async("/a"), client.set_async("/a", b"1"), client.get_async("/a")]
    assert pending[0].get(timeout=PATIENCE_S)[0] == b"0"
    for lost in pending[1:]:
        with pytest.raises(ConnectionLoss):
            lost.get(timeout=PATIENCE_S)
    assert client.retry(client.get, "/a")[1].version == 1


def test_rules_mean_their_session_kind_and_path_alone(either: TestServer) -> None:
    one, other = started(either), started(either)
    one.ensure_path("/a/b")
    rule = either.faults.fail("set", error=OperationTimeoutError, client=one, path="/a", times=None)
    other.set("/a", b"1")
    one.set("/a/b", b"1")
    assert one.get("/a")[0] == b"1"
    assert rule.fired == 0
    for times in (1, 2):
        with pytest.raises(OperationTimeoutError):
            one.set("/a", b"2")
        assert rule.fired == times
    rule.clear()
    one.set("/a", b"3")
    assert either.faults.rules == []


def test_below_means_the_path_and_what_is_under_it(either: TestServer) -> None:
    client = started(either)
    for path in ("/a", "/ab", "/a/b"):
        client.create(path)
    rule = either.faults.fail(path="/a", below=True, error="NO_NODE", times=None)
    assert client.get("/ab")[0] == b""
    for path in ("/a", "/a/b"):
        with pytest.raises(NoNodeError):
            client.get(path)
    transaction = client.transaction()
    transaction.create("/c")
    transaction.check("/a/b", 0)
    with pytest.raises(NoNodeError):
        transaction.commit()
    assert rule.fired == 3
    assert client.exists("/c") is None


def test_delayed_requests_wait_for_time_and_keep_their_order(either: TestServer) -> None:
    client, other = started(either), started(either)
    client.create("/a", b"0")
    rule = either.faults.delay("set", seconds=5, client=client)
    pending = [client.set_async("/a", b"1"), client.get_async("/a")]
    until_waiting(rule)
    assert other.get("/a")[0] == b"0"
    either.advance(4.999)
    assert rule.waiting == 1
    either.advance(0.001)
    assert pending[0].get(timeout=PATIENCE_S).version == 1
    assert pending[1].get(timeout=PATIENCE_S)[0] == b"1"
    assert other.get("/a")[1].mtime == 5000


def until_waiting(rule: FaultRule) -> None:
    """Wait until a request of another thread has reached its rule."""
    came = Reports()
    with rule._table.lock:
        if rule.fired:
            return
        rule._table.on_fired = lambda *reported: came(reported)
    came.next()


def test_what_is_held_goes_on_in_order_when_it_is_released(either: TestServer) -> None:
    client, other = started(either), started(either)
    client.create("/a", b"0")
    rule = either.faults.hold("set", times=None)
    pending = [client.set_async("/a", str(number).encode()) for number in range(1, 4)]
    seen = client.get_async("/a")
    until_waiting(rule)
    events = Reports()
    assert other.get("/a", watch=events)[0] == b"0"
    assert not seen.ready()
    rule.release()
    while not seen.wait(0.01):  # what was still on its way meets the rule anew
        rule.release()
    assert [one.get(timeout=PATIENCE_S).version for one in pending] == [1, 2, 3]
    assert seen.get(timeout=PATIENCE_S)[0] == b"3"
    assert events.next().path == "/a"
    assert rule.active


def test_a_held_session_lives_and_hears_its_watches(either: TestServer) -> None:
    client, other = started(either), started(either)
    events = Reports()
    client.create("/a")
    client.get("/a", watch=events)
    rule = either.faults.hold("create", client=client)
    pending = client.create_async("/b")
    until_waiting(rule)
    other.set("/a", b"1")
    assert events.next().path == "/a"
    either.advance(100)
    rule.clear()
    assert pending.get(timeout=PATIENCE_S) == "/b"


def test_what_is_held_of_a_connection_that_is_gone_is_never_applied(either: TestServer) -> None:
    client = started(either)
    rule = either.faults.hold("create")
    pending = client.create_async("/a")
    until_waiting(rule)
    either.disconnect(client)
    with pytest.raises(ConnectionLoss):
        pending.get(timeout=PATIENCE_S)
    rule.release()
    assert client.retry(client.exists, "/a") is None


def test_a_session_that_is_paused_at_a_request_expires(either: TestServer) -> None:
    client = started(either)
    states = Reports()
    client.add_listener(states)
    rule = either.faults.pause("set", client=client)
    client.create("/e", ephemeral=True)
    pending = client.set_async("/e", b"1")
    until_waiting(rule)
    either.advance(20)
    assert data(either, "/e") is None
    rule.release()
    with pytest.raises(KazooException):
        pending.get(timeout=PATIENCE_S)
    states.until_equal(KazooState.LOST)
    states.until_equal(KazooState.CONNECTED)


def test_a_pause_at_a_request_ends_with_its_release(either: TestServer) -> None:
    client, other = started(either), started(either)
    client.create("/a")
    rule = either.faults.pause("set", client=client)
    pending = [client.set_async("/a", b"1"), client.get_async("/a")]
    until_waiting(rule)
    assert other.get("/a")[0] == b""
    rule.release()
    assert pending[0].get(timeout=PATIENCE_S).version == 1
    assert pending[1].get(timeout=PATIENCE_S)[0] == b"1"


def test_a_session_expires_at_a_request(either: TestServer) -> None:
    client, other = started(either), started(either)
    states = Reports()
    client.add_listener(states)
    client.create("/e", ephemeral=True)
    rule = either.faults.expire("create", path="/x")
    with pytest.raises(KazooException):
        client.create("/x")
    states.until_equal(KazooState.LOST)
    other.sync("/e")
    assert other.exists("/e") is None
    assert other.exists("/x") is None
    assert rule.fired == 1


def test_a_session_moves_to_the_server_that_is_named() -> None:
    with simzk.ZooKeeperServer(servers=3) as servers:
        client = started(servers)
        client.create("/e", ephemeral=True)
        for server in (2, 3, 1, 3):
            rule = servers.faults.move("set", server=server)
            with pytest.raises(ConnectionLoss):
                client.set("/e", b"")
            client.retry(client.sync, "/e")
            host, port = client._connection._socket.getpeername()
            assert f"{host}:{port}" == servers.hosts.split(",")[server - 1]
            assert rule.fired == 1
        assert client.exists("/e").ephemeralOwner == client.client_id[0]


def test_a_closed_server_lets_its_clients_go(either: TestServer) -> None:
    client = started(either)
    rule = either.faults.hold(times=None)
    pending = client.create_async("/a")
    until_waiting(rule)
    either.close()
    assert pending.ready() or pending.wait(PATIENCE_S)
    assert either.faults.rules == []


def test_a_rule_says_what_it_is(either: TestServer) -> None:
    client = started(either)
    rule = either.faults.fail("get", error="NoNodeError", path="/a", below=True, times=3)
    with pytest.raises(NoNodeError):
        client.get("/a")
    assert repr(rule) == "<fail get at or below /a: fired 1 of 3>"
    assert either.faults.rules == [rule]
    either.faults.clear()
    assert client.exists("/a") is None
    assert (rule.active, either.faults.rules) == (False, [])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda faults: faults.drop_reply("setData"), "unknown operation 'setData'; did you mean 'set'"),
        (lambda faults: faults.drop_reply("multi"), "did you mean 'transaction'"),
        (lambda faults: faults.hold("get_child"), "did you mean 'get_children'"),
        (lambda faults: faults.fail("get", error="NoNod"), "NoNod is not an error .* did you mean 'NO_NODE'"),
        (lambda faults: faults.fail("get", error=ValueError), "ValueError is not an error"),
        (lambda faults: faults.hold(path="a"), "path: 'a' is not the path of a znode"),
        (lambda faults: faults.hold(path="/a/"), "path: '/a/' is not the path of a znode"),
        (lambda faults: faults.hold(below=True), "below is given without a path"),
        (lambda faults: faults.hold(times=0), "0 is not a valid number of requests"),
        (lambda faults: faults.delay(seconds=0), "0 s is not a valid delay"),
        (lambda faults: faults.delay(seconds=float("nan")), "nan s is not a valid delay"),
        (lambda faults: faults.move(server=9), "cannot move to server 9"),
    ],
)
def test_what_cannot_be_is_refused(either: TestServer, make: Callable[[Any], object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(either.faults)
    assert either.faults.rules == []


def test_a_client_of_another_server_is_refused(either: TestServer) -> None:
    with pytest.raises(SimzkError, match="belongs to another server"):
        either.faults.hold(client=KazooClient())


def test_on_wall_time_a_delay_ends_by_itself() -> None:
    for make in (simzk.ZooKeeper, simzk.ZooKeeperServer):
        with make(clock="wall") as zookeeper:
            client = started(zookeeper)
            zookeeper.faults.delay("create", seconds=0.05)
            assert client.create_async("/a").get(timeout=PATIENCE_S) == "/a"
