"""`simzk.ZooKeeper`: test verbs, and what an object leaves behind."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    LockTimeout,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType, KazooState

import simzk
from simzk import ConfigError, SimzkError
from tests.waiting import PATIENCE_S, Reports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.serve.verbs import TestServer

TIMEOUT_S = 10.0
# A session touched at 0 with 10 s and a tick of 2 s expires on the first tick after its timeout has run.
EXPIRES_S = 12.0


@pytest.fixture
def zookeeper() -> Iterator[simzk.ZooKeeper]:
    with simzk.ZooKeeper() as server:
        yield server


@pytest.fixture(params=["ZooKeeper", "ZooKeeperServer"])
def either(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    """A server in memory and one on TCP."""
    make: type[simzk.ZooKeeper | simzk.ZooKeeperServer] = getattr(simzk, request.param)
    with make() as server:
        yield server


def started(zookeeper: TestServer, **options: Any) -> KazooClient:
    client = zookeeper.client(timeout=TIMEOUT_S, **options)
    client.start(timeout=PATIENCE_S)
    return client


def states_of(client: KazooClient) -> Reports:
    states = Reports()
    client.add_listener(states)
    return states


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


# What it is made of


def test_a_client_is_kazoos_own_and_opens_no_file() -> None:
    files, threads = open_files(), threading.active_count()
    with simzk.ZooKeeper() as zookeeper:
        assert threading.active_count() == threads
        client = started(zookeeper)
        assert type(client) is KazooClient
        assert client.get_children("/") == ["zookeeper"]
        assert open_files() == files
        assert threading.active_count() == threads + 3  # kazoo's connection thread and its two workers
    assert threading.active_count() == threads


def test_two_servers_know_nothing_of_each_other(zookeeper: simzk.ZooKeeper) -> None:
    with simzk.ZooKeeper() as second:
        started(zookeeper).create("/a")
        assert started(second).exists("/a") is None


def test_equal_calls_give_equal_sessions_and_stats() -> None:
    def story() -> tuple[object, ...]:
        with simzk.ZooKeeper() as zookeeper:
            client = started(zookeeper)
            client.create("/a", b"1")
            zookeeper.advance(1.5)
            client.set("/a", b"2")
            return client.client_id, client.get("/a"), client.last_zxid

    assert story() == story()


def test_clients_are_listed_and_stopped_by_close() -> None:
    zookeeper = simzk.ZooKeeper()
    running, fresh = started(zookeeper), zookeeper.client()
    stopped = started(zookeeper)
    stopped.stop()
    assert list(zookeeper.clients) == [running, fresh, stopped]
    zookeeper.close()
    assert not running.connected
    assert list(zookeeper.clients) == []
    zookeeper.close()
    late = zookeeper.client()
    with pytest.raises(late.handler.timeout_exception):
        late.start(timeout=0.01)


def test_close_is_quick_with_a_client_that_is_paused() -> None:
    zookeeper = simzk.ZooKeeper()
    client = started(zookeeper)
    zookeeper.pause(client)
    client.create_async("/a")
    zookeeper.close()
    assert not client.connected


def test_only_the_chroot_of_hosts_counts(zookeeper: simzk.ZooKeeper) -> None:
    started(zookeeper).create("/app")
    client = started(zookeeper, hosts="no.such.host.invalid:1,other.invalid:2/app")
    client.create("/a")
    assert started(zookeeper).get_children("/app") == ["a"]


def test_a_client_that_other_code_makes_talks_through_a_handler(zookeeper: simzk.ZooKeeper) -> None:
    client = KazooClient(handler=zookeeper.handler())
    client.start(timeout=PATIENCE_S)
    try:
        states = states_of(client)
        zookeeper.expire(client)
        states.until_equal(KazooState.CONNECTED)
    finally:
        client.stop()
        client.close()


def test_stop_ends_the_session(either: TestServer) -> None:
    client, watcher = started(either), started(either)
    client.create("/here", ephemeral=True)
    events = Reports()
    watcher.exists("/here", watch=events)
    client.stop()
    assert events.next().type == EventType.DELETED
    client.start(timeout=PATIENCE_S)
    assert client.exists("/here") is None


# Sessions that end


def test_expire_ends_the_session_at_once(either: TestServer) -> None:
    losing, watcher = started(either), started(either)
    losing.create("/here", ephemeral=True)
    states, lost = states_of(losing), losing.client_id
    either.expire(losing)
    assert watcher.exists("/here") is None
    assert [states.next(), states.next(), states.next()] == [
        KazooState.SUSPENDED,
        KazooState.LOST,
        KazooState.CONNECTED,
    ]
    assert losing.client_id != lost


def test_expire_reaches_a_client_that_is_not_connected(either: TestServer) -> None:
    losing, watcher = started(either), started(either)
    losing.create("/here", ephemeral=True)
    states = states_of(losing)
    pause = either.pause(losing)
    either.disconnect(losing)
    assert states.next() == KazooState.SUSPENDED
    either.expire(losing)
    assert watcher.exists("/here") is None
    pause.resume()
    assert [states.next(), states.next()] == [KazooState.LOST, KazooState.CONNECTED]


def test_a_watch_of_the_expired_session_fires_for_its_own_ephemeral(either: TestServer) -> None:
    losing = started(either)
    events = Reports()
    losing.create("/here", ephemeral=True)
    losing.exists("/here", watch=events)
    either.expire(losing)
    assert events.next().type == EventType.DELETED


def test_disconnect_keeps_the_session(either: TestServer) -> None:
    client = started(either)
    client.create("/here", ephemeral=True)
    states, session = states_of(client), client.client_id
    either.disconnect(client)
    assert [states.next(), states.next()] == [KazooState.SUSPENDED, KazooState.CONNECTED]
    assert client.client_id == session
    assert client.exists("/here").ephemeralOwner == session[0]


def test_a_paused_client_is_neither_read_nor_answered(either: TestServer) -> None:
    paused, other = started(either), started(either)
    events = Reports()
    paused.create("/a")
    paused.get("/a", watch=events)
    with either.pause(paused):
        waiting = [paused.create_async("/b"), paused.set_async("/b", b"1")]
        other.set("/a", b"1")
        other.sync("/")
        assert other.exists("/b") is None
        assert events.empty
        assert not any(result.ready() for result in waiting)
    assert waiting[0].get(timeout=PATIENCE_S) == "/b"
    assert waiting[1].get(timeout=PATIENCE_S).version == 1
    assert events.next().type == EventType.CHANGED


def test_a_paused_client_that_reconnects_is_not_answered_either(either: TestServer) -> None:
    client = started(either)
    states, session = states_of(client), client.client_id
    pause = either.pause(client)
    lost = client.create_async("/never-read")
    either.disconnect(client)
    assert states.next() == KazooState.SUSPENDED
    with pytest.raises(ConnectionLoss):
        lost.get(timeout=PATIENCE_S)
    assert states.empty
    pause.resume()
    assert states.next() == KazooState.CONNECTED
    assert client.client_id == session


# Time


def test_connected_sessions_outlive_any_advance(either: TestServer) -> None:
    client = started(either)
    client.create("/here", ephemeral=True)
    states = states_of(client)
    either.advance(86_400)
    assert client.exists("/here")
    assert states.empty


def test_a_paused_session_expires_on_the_servers_tick(either: TestServer) -> None:
    paused, watcher = started(either), started(either)
    paused.create("/here", ephemeral=True)
    states = states_of(paused)
    with either.pause(paused):
        either.advance(EXPIRES_S - 0.001)
        assert watcher.exists("/here")
        either.advance(0.001)
        assert watcher.exists("/here") is None
    assert [states.next(), states.next(), states.next()] == [
        KazooState.SUSPENDED,
        KazooState.LOST,
        KazooState.CONNECTED,
    ]


def test_a_pause_begins_with_the_whole_timeout(either: TestServer) -> None:
    paused, watcher = started(either), started(either)
    paused.create("/here", ephemeral=True)
    either.advance(1_000)
    with either.pause(paused):
        either.advance(EXPIRES_S - 0.001)
        assert watcher.exists("/here")
        either.advance(0.001)
        assert watcher.exists("/here") is None


def test_a_disconnected_session_expires_and_says_so_on_return(either: TestServer) -> None:
    gone, watcher = started(either), started(either)
    gone.create("/here", ephemeral=True)
    states = states_of(gone)
    events = Reports()
    watcher.exists("/here", watch=events)
    pause = either.pause(gone)
    either.disconnect(gone)
    either.advance(EXPIRES_S)
    assert events.next().type == EventType.DELETED
    pause.resume()
    states.until_equal(KazooState.LOST)
    states.until_equal(KazooState.CONNECTED)


def test_a_pause_shorter_than_the_timeout_loses_nothing(either: TestServer) -> None:
    client = started(either)
    client.create("/here", ephemeral=True)
    session = client.client_id
    with either.pause(client):
        either.advance(TIMEOUT_S)
    assert client.exists("/here")
    assert client.client_id == session


def test_time_stamps_are_virtual(either: TestServer) -> None:
    client = started(either)
    client.create("/a")
    either.advance(2.5)
    client.create("/b")
    assert client.exists("/b").ctime - client.exists("/a").ctime == 2_500


def test_restart_keeps_the_tree_and_the_sessions(either: TestServer) -> None:
    client, paused = started(either), started(either)
    client.create("/here", b"x", ephemeral=True)
    paused.create("/there", ephemeral=True)
    states, session = states_of(client), client.client_id
    with either.pause(paused):
        either.advance(TIMEOUT_S)
        either.restart()
        assert [states.next(), states.next()] == [KazooState.SUSPENDED, KazooState.CONNECTED]
        assert client.client_id == session
        assert client.get("/here")[0] == b"x"
        either.advance(TIMEOUT_S)
        assert client.exists("/there"), "a restarted server gives every session its whole timeout"
        either.advance(EXPIRES_S - TIMEOUT_S)
        assert client.exists("/there") is None


def test_on_wall_time_sessions_expire_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = [0]
    monkeypatch.setattr("simzk.serve.clock.time.monotonic_ns", lambda: now_ns[0])
    monkeypatch.setattr("simzk.serve.clock.time.time_ns", lambda: 1_700_000_000_000_000_000)
    with simzk.ZooKeeper(clock="wall") as zookeeper:
        paused, watcher = started(zookeeper), started(zookeeper)
        paused.create("/here", ephemeral=True)
        assert watcher.exists("/here").ctime == 1_700_000_000_000
        deadline_s = zookeeper.seconds_to_deadline()
        assert deadline_s is not None
        assert TIMEOUT_S <= deadline_s <= EXPIRES_S
        zookeeper.pause(paused)
        now_ns[0] += 5_000_000_000
        assert watcher.exists("/here")
        now_ns[0] += 7_000_000_000
        assert watcher.exists("/here") is None
        with pytest.raises(SimzkError, match="wall time cannot be advanced"):
            zookeeper.advance(1)


# Failures on demand


def test_a_failed_request_is_not_applied_and_only_the_next_fail(either: TestServer) -> None:
    client = started(either)
    client.create("/a", b"0")
    either.fail_next("set", NoNodeError, 2)
    for _ in range(2):
        assert client.get("/a")[0] == b"0"
        with pytest.raises(NoNodeError):
            client.set("/a", b"1")
    assert client.set("/a", b"1").version == 1


@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("create", lambda client: client.create("/x")),
        ("create", lambda client: client.create("/x", include_data=True)),
        ("delete", lambda client: client.delete("/a")),
        ("exists", lambda client: client.exists("/a")),
        ("get", lambda client: client.get("/a")),
        ("set", lambda client: client.set("/a", b"")),
        ("get_children", lambda client: client.get_children("/a")),
        ("get_children", lambda client: client.get_children("/a", include_data=True)),
        ("get_acls", lambda client: client.get_acls("/a")),
        ("set_acls", lambda client: client.set_acls("/a", [])),
        ("sync", lambda client: client.sync("/a")),
    ],
)
def test_every_operation_can_be_made_to_fail(either: TestServer, op: str, call: Any) -> None:
    client = started(either)
    client.create("/a")
    either.fail_next(op, OperationTimeoutError)
    with pytest.raises(OperationTimeoutError):
        call(client)
    assert client.get_children("/") == ["a", "zookeeper"]


def test_replies_keep_their_order_around_a_failure(either: TestServer) -> None:
    client = started(either)
    with either.pause(client):
        pending = [client.create_async("/a"), client.get_async("/a"), client.exists_async("/a")]
        either.fail_next("get", OperationTimeoutError)
    assert pending[0].get(timeout=PATIENCE_S) == "/a"
    with pytest.raises(OperationTimeoutError):
        pending[1].get(timeout=PATIENCE_S)
    assert pending[2].get(timeout=PATIENCE_S).version == 0


def test_connection_loss_cuts_the_connection_and_a_retry_succeeds(either: TestServer) -> None:
    client = started(either)
    states = states_of(client)
    either.fail_next("create", ConnectionLoss)
    with pytest.raises(ConnectionLoss):
        client.create("/a")
    assert [states.next(), states.next()] == [KazooState.SUSPENDED, KazooState.CONNECTED]
    assert client.retry(client.create, "/a") == "/a"


def test_session_expiry_can_strike_a_request(either: TestServer) -> None:
    client = started(either)
    states = states_of(client)
    either.fail_next("get_children", SessionExpiredError)
    with pytest.raises(KazooException):
        client.get_children("/")
    states.until_equal(KazooState.LOST)
    states.until_equal(KazooState.CONNECTED)


# Errors of users


def test_a_lock_held_elsewhere_times_out(either: TestServer) -> None:
    holder, other = started(either), started(either)
    holder.Lock("/lock").acquire()
    with pytest.raises(LockTimeout):
        other.Lock("/lock").acquire(timeout=0.001)


def test_a_client_of_another_server_is_refused(either: TestServer) -> None:
    with simzk.ZooKeeper() as second:
        foreign = started(second)
        for verb in (either.expire, either.disconnect, either.pause):
            with pytest.raises(SimzkError, match="this client belongs to another server"):
                verb(foreign)
    with pytest.raises(SimzkError, match="this client belongs to another server"):
        either.expire(KazooClient())


def test_a_client_without_a_session_is_refused(either: TestServer) -> None:
    fresh, stopped = either.client(), started(either)
    stopped.stop()
    for client in (fresh, stopped):
        with pytest.raises(SimzkError, match="this client has no session"):
            either.expire(client)


@pytest.mark.parametrize(
    ("op", "error", "n", "said"),
    [
        ("mkdir", NoNodeError, 1, "unknown operation 'mkdir'; expected one of create, delete"),
        ("create", ValueError, 1, "ValueError is not an error of ZooKeeper's protocol"),
        ("create", LockTimeout, 1, "LockTimeout is not an error of ZooKeeper's protocol"),
        ("create", NoNodeError, 0, "0 is not a valid number of requests"),
    ],
)
def test_failures_that_cannot_be_are_refused(
    either: TestServer, op: str, error: type[Exception], n: int, said: str
) -> None:
    with pytest.raises(SimzkError, match=said):
        either.fail_next(op, error, n)
    assert started(either).create("/a") == "/a"


def test_time_and_options_that_cannot_be_are_refused(zookeeper: simzk.ZooKeeper) -> None:
    with pytest.raises(SimzkError, match="time cannot go back by 1 s"):
        zookeeper.advance(-1)
    with pytest.raises(ConfigError, match="handler"):
        zookeeper.client(handler=object())
    with pytest.raises(ConfigError, match="use_ssl"):
        zookeeper.client(use_ssl=True)
    with pytest.raises(ConfigError, match="unknown clock 'sundial'"):
        simzk.ZooKeeper(clock="sundial")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="all three"):
        simzk.ZooKeeper(now_ms=lambda: 0)


def test_four_letter_words_are_answered(zookeeper: simzk.ZooKeeper) -> None:
    """The same lines as over TCP, but for what only a port has: traffic, its number and the address of clients."""
    with simzk.ZooKeeperServer() as server:
        memory, tcp = started(zookeeper), started(server)
        for client in memory, tcp:
            client.create("/a", ephemeral=True)
            assert client.command(b"ruok") == "imok"
            assert client.server_version() == (3, 9, 5)
        for word in (b"envi", b"mntr", b"wchs", b"conf", b"isro", b"dirs", b"gtmk"):
            assert names(memory.command(word)) == names(tcp.command(word)), word
        for word in (b"dump", b"stat", b"cons"):
            assert len(names(memory.command(word))) == len(names(tcp.command(word))), word
        kept = re.compile("(?:Node count|Connections|Mode|Zxid|Zookeeper version): .*")
        assert kept.findall(memory.command(b"srvr")) == kept.findall(tcp.command(b"srvr"))


def names(answer: str) -> list[str]:
    """Return the first word of each line, without the last one, which kazoo may have cut."""
    return [re.split(r"[:=\t ]", line)[0] for line in answer.splitlines()[:-1]][:200]
