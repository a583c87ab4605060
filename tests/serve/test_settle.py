"""`settle`: what kazoo clients have seen and called when it returns, in memory, over TCP and of an ensemble."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.recipe.cache import TreeCache

import simzk
from simzk.serve.tcp.server import TcpServer
from simzk.serve.tcp.tls import Tls
from tests.serve.tls_files import FILES
from tests.waiting import PATIENCE_S, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from simzk.serve.verbs import TestServer

MAKE: dict[str, Callable[[], TestServer]] = {
    "memory": simzk.ZooKeeper,
    "tcp": simzk.ZooKeeperServer,
    "ensemble": lambda: simzk.ZooKeeperServer(servers=3),
}


@pytest.fixture(params=list(MAKE))
def server(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    with MAKE[request.param]() as made:
        yield made


def started(server: TestServer, **options: Any) -> KazooClient:
    client = server.client(**options)
    client.start(timeout=PATIENCE_S)
    return client


def watch_story(server: TestServer, writer: KazooClient, watcher: KazooClient, number: int) -> None:
    """Set a znode and assert what watchers saw: without waiting, nearly every time it is too early."""
    path = f"/config-{number}"
    writer.create(path, b"first")
    data: list[bytes | None] = []
    children: list[list[str]] = []
    watcher.DataWatch(path, lambda value, stat: data.append(value))
    watcher.ChildrenWatch(path, lambda names: children.append(names))
    writer.set(path, b"second")
    writer.create(f"{path}/child")
    server.settle(PATIENCE_S)
    assert data == [b"first", b"second"]
    assert children == [[], ["child"]]


def test_watchers_have_seen_what_was_written(server: TestServer) -> None:
    writer, watcher = started(server), started(server)
    for number in range(25):
        watch_story(server, writer, watcher, number)


PATHS = ("/a", "/b", "/a/c")
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "set", "delete", "expire", "disconnect"]), st.integers(0, 2)), max_size=12
)


def appending_to(values: list[bytes | None]) -> Callable[[bytes | None, object], None]:
    return lambda data, stat: values.append(data)


@settings(max_examples=10)
@given(steps=STEPS)
def test_any_story_ends_with_what_the_tree_contains(shared: TestServer, steps: list[tuple[str, int]]) -> None:
    clients = [started(shared) for _ in PATHS]
    seen: dict[tuple[int, str], list[bytes | None]] = {}
    for number, client in enumerate(clients):
        for path in PATHS:
            values = seen[number, path] = []
            client.DataWatch(path, appending_to(values))
    for number, (verb, which) in enumerate(steps):
        client, path = clients[which], PATHS[which]
        if verb in ("expire", "disconnect"):
            getattr(shared, verb)(client)
            shared.settle(PATIENCE_S)
        else:
            options = {} if verb == "delete" else {"value": b"%d" % number}
            with suppress(NoNodeError, NodeExistsError, NotEmptyError):
                getattr(client, verb)(path, **options)
    shared.settle(PATIENCE_S)
    contents = {path: None if (node := shared.server.tree.get(path)) is None else node.data for path in PATHS}
    # Clients end with the example: the pauses of kazoo's threads are drawn from the generator of the process, which
    # must not move while Hypothesis draws the next example.
    shared.reset()
    for (_, path), values in seen.items():
        assert values[-1:] == [contents[path]]


@pytest.fixture(scope="module", params=["memory", "tcp"])
def shared(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    with MAKE[request.param]() as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "tcp"])
def test_a_thousand_of_a_thousand(kind: str) -> None:
    for number in range(1000):
        with MAKE[kind]() as server:
            watch_story(server, started(server), started(server), number)


def test_callbacks_that_cause_others_are_followed(server: TestServer) -> None:
    clients = [started(server) for _ in range(3)]
    for stage in range(4):
        clients[0].create(f"/stage-{stage}", b"0")
    seen: list[bytes] = []

    def pass_on(client: KazooClient, stage: int) -> Callable[[bytes, object], None]:
        return lambda data, stat: client.set(f"/stage-{stage}", data) and None

    for stage in range(3):
        client = clients[stage]
        client.DataWatch(f"/stage-{stage}", pass_on(client, stage + 1))
    clients[0].DataWatch("/stage-3", lambda data, stat: seen.append(data))
    server.settle(PATIENCE_S)
    clients[1].set("/stage-0", b"from far")
    server.settle(PATIENCE_S)
    assert seen[-1] == b"from far"


def test_completion_callbacks_have_returned(server: TestServer) -> None:
    client = started(server)
    names: list[str] = []
    for number in range(20):
        client.create_async(f"/a{number}").rawlink(lambda result: names.append(result.get()))
    server.settle(PATIENCE_S)
    assert names == [f"/a{number}" for number in range(20)]


def test_an_expired_client_is_back_with_its_watches(server: TestServer) -> None:
    writer, watcher = started(server), started(server)
    writer.create("/a", b"1")
    seen: list[bytes] = []
    watcher.DataWatch("/a", lambda data, stat: seen.append(data))
    states: list[KazooState] = []
    watcher.add_listener(states.append)
    server.expire(watcher)
    server.settle(PATIENCE_S)
    assert states[-1] == KazooState.CONNECTED
    assert KazooState.LOST in states
    writer.set("/a", b"2")
    server.settle(PATIENCE_S)
    assert seen == [b"1", b"2"]


def test_a_tree_cache_is_up_to_date(server: TestServer) -> None:
    client, writer = started(server), started(server)
    cache = TreeCache(client, "/cached")
    cache.start()
    server.settle(PATIENCE_S)
    writer.create("/cached/a/b", b"x", makepath=True)
    server.settle(PATIENCE_S)
    assert cache.get_data("/cached/a/b").data == b"x"
    cache.close()


def test_a_request_that_is_kept_back_is_not_waited_for(server: TestServer) -> None:
    client, other, reader = started(server), started(server), started(server)
    held = server.faults.hold("create", path="/held")
    result = client.create_async("/held")
    with server.pause(other):
        other.create_async("/paused")
        server.settle(PATIENCE_S)
        assert not result.ready()
        assert reader.exists("/paused") is None
    held.release()
    server.settle(PATIENCE_S)
    assert result.get() == "/held"
    assert reader.exists("/paused")


def test_errors_of_callbacks_are_raised(server: TestServer) -> None:
    client, other = started(server), started(server)
    client.create("/a", b"1")

    def check_data(data: bytes, stat: object) -> None:
        assert data == b"1", "wrong data"

    client.DataWatch("/a", check_data)
    other.set("/a", b"2")
    with pytest.raises(AssertionError, match="wrong data") as raised:
        server.settle(PATIENCE_S)
    (note,) = raised.value.__notes__
    assert note.endswith("check_data of DataWatch('/a') of client 1")
    server.settle(PATIENCE_S)  # an error is raised once


def test_errors_of_several_callbacks_are_a_group(server: TestServer) -> None:
    clients = [started(server), started(server)]

    def fail(event: object) -> None:
        raise ValueError("a mistake")

    for client in clients:
        client.exists("/a", watch=fail)
    clients[0].create("/a")
    with pytest.raises(ExceptionGroup, match="2 callbacks failed") as raised:
        server.settle(PATIENCE_S)
    assert [str(error) for error in raised.value.exceptions] == ["a mistake"] * 2


def test_the_error_of_a_state_listener_is_raised(server: TestServer) -> None:
    client = started(server)
    states: list[KazooState] = []

    def listener(state: KazooState) -> None:
        states.append(state)
        if state == KazooState.SUSPENDED:
            raise ValueError(f"cannot handle {state}")

    client.add_listener(listener)
    server.disconnect(client)
    with pytest.raises(ValueError, match="cannot handle SUSPENDED"):
        server.settle(PATIENCE_S)
    assert states == [KazooState.SUSPENDED, KazooState.CONNECTED]
    filters = set(logging.getLogger("kazoo.client").filters)
    client.stop()
    assert len(filters - set(logging.getLogger("kazoo.client").filters)) == 1, "a stopped client leaves no filter"


def test_a_callback_that_does_not_return_is_named(server: TestServer) -> None:
    client, other = started(server), started(server)
    go_on = threading.Event()

    def stuck(event: object) -> None:
        go_on.wait(PATIENCE_S)

    other.exists("/a", watch=stuck)
    client.create("/a")
    try:
        with pytest.raises(TimeoutError) as raised:
            server.settle(timeout_s=0.2)
    finally:
        go_on.set()
    text = str(raised.value)
    assert text.startswith("not settled after 0.2 s: client 2: callback ")
    assert "<locals>.stuck does not return; it is at " in text
    assert text.endswith(" in stuck")
    assert __file__ in text
    server.settle(PATIENCE_S)


def test_a_client_that_cannot_connect_is_named() -> None:
    with simzk.ZooKeeperServer(servers=3) as server:
        client = started(server, hosts=server.ensemble.hosts(3))
        server.ensemble.stop(1)
        server.ensemble.stop(2)
        with pytest.raises(TimeoutError, match="client 1: it is not connected, and tries again"):
            server.settle(timeout_s=0.3)
        server.ensemble.start(1)
        server.settle(PATIENCE_S)
        assert client.connected


def test_a_callback_cannot_wait_for_itself(server: TestServer) -> None:
    client = started(server)
    client.exists("/a", watch=lambda event: server.settle())
    client.create("/a")
    with pytest.raises(simzk.SimzkError, match="a callback cannot wait for the end of all callbacks"):
        server.settle(PATIENCE_S)


def test_stopped_and_new_clients_are_settled(server: TestServer) -> None:
    server.settle()
    client = server.client()
    server.settle()
    client.start(timeout=PATIENCE_S)
    client.stop()
    server.settle()
    client.start(timeout=PATIENCE_S)
    client.create("/a")
    server.settle()
    assert client.connected


def test_clients_of_other_code_in_memory_count() -> None:
    with simzk.ZooKeeper() as zookeeper:
        client = KazooClient(handler=zookeeper.handler())
        client.start(timeout=PATIENCE_S)
        seen: list[object] = []
        client.exists("/a", watch=seen.append)
        client.create("/a")
        zookeeper.settle(PATIENCE_S)
        assert len(seen) == 1
        client.stop()
        client.close()


@pytest.fixture(params=["tcp", "ensemble", "tls"])
def by_hosts(request: pytest.FixtureRequest) -> Iterator[tuple[TestServer, Callable[[], KazooClient]]]:
    """A server, and a function that makes a client as code does that knows nothing of simzk."""
    tls = Tls(FILES / "server-and-key.pem", client_auth="none") if request.param == "tls" else None
    made: list[KazooClient] = []

    def new() -> KazooClient:
        options: dict[str, Any] = {} if tls is None else {"use_ssl": True, "verify_certs": False}
        made.append(KazooClient(hosts=started_server.hosts, **options))
        made[-1].start(timeout=PATIENCE_S)
        return made[-1]

    servers = 3 if request.param == "ensemble" else 1
    with simzk.ZooKeeperServer(servers=servers, tls=tls) as started_server:
        yield started_server, new
        for client in made:
            client.stop()
            client.close()


def test_clients_that_know_only_the_hosts_are_settled(
    by_hosts: tuple[TestServer, Callable[[], KazooClient]],
) -> None:
    server, new = by_hosts
    writer, watcher = new(), new()
    for number in range(25):
        watch_story(server, writer, watcher, number)
    server.expire(watcher.client_id[0])
    server.settle(PATIENCE_S)
    assert watcher.connected
    writer.set("/config-0", b"third")
    server.settle(PATIENCE_S)
    watch_story(server, writer, watcher, 25)
    with server.pause(watcher.client_id[0]):
        writer.set("/config-0", b"fourth")
        server.settle(PATIENCE_S)  # what a pause holds back is not waited for


def test_a_lost_connection_with_tls_is_closing_in_each_turn_until_it_is_gone() -> None:
    """asyncio drops the socket of an SSL transport one turn before it tells the protocol (`_SSLProtocolTransport`)."""
    with simzk.ZooKeeperServer(tls=Tls(FILES / "server-and-key.pem", client_auth="none")) as server:
        client = server.client(verify_certs=False)
        client.start(timeout=PATIENCE_S)

        async def lose() -> list[bool]:
            tcp = server._tcp
            assert isinstance(tcp, TcpServer)
            (connection,) = tcp.connections
            connection.abort()
            seen = []
            while connection in tcp.connections:
                with server.lock:
                    seen.append(connection.traffic().closing)
                await asyncio.sleep(0)
            return seen

        assert set(asyncio.run_coroutine_threadsafe(lose(), server._loop).result(PATIENCE_S)) == {True}


def test_a_callback_of_a_client_that_knows_only_the_hosts_is_named() -> None:
    released = threading.Event()
    with simzk.ZooKeeperServer() as server:
        client = KazooClient(hosts=server.hosts)
        client.start(timeout=PATIENCE_S)
        try:
            client.create("/a")
            client.exists("/a", watch=lambda event: released.wait(PATIENCE_S) and None)
            client.set("/a", b"1")
            with pytest.raises(TimeoutError, match=r"client at 127\.0\.0\.1:\d+: a callback does not return"):
                server.settle(0.2)
            released.set()
            server.settle(PATIENCE_S)
            failures: list[BaseException] = []

            def settle(event: object) -> None:
                try:
                    server.settle(PATIENCE_S)
                except simzk.SimzkError as error:
                    failures.append(error)

            client.exists("/a", watch=settle)
            client.set("/a", b"2")
            server.settle(PATIENCE_S)
            assert "a callback cannot wait" in str(failures[0])
        finally:
            released.set()
            client.stop()
            client.close()


def test_a_client_of_another_process_has_been_sent_everything() -> None:
    """Its process may not have read it: the test reads what lies in the socket."""
    with simzk.ZooKeeperServer() as server, socket.create_connection(("127.0.0.1", server.port)) as foreign:
        writer = started(server)
        writer.create("/a")
        foreign.sendall(frame(CONNECT) + frame(struct.pack(">iii2s?", 1, 3, 2, b"/a", True)))  # exists, with a watch
        server.settle(PATIENCE_S)
        assert len(server.server.sessions) == 2, "its session was opened"
        writer.set("/a", b"1")
        server.settle(PATIENCE_S)
        foreign.setblocking(False)
        received = foreign.recv(4096)
        sizes = []
        while received:
            (size,) = struct.unpack(">i", received[:4])
            sizes.append(size)
            received = received[4 + size :]
        assert len(sizes) == 3, "the session, the reply, the event"


CONNECT = struct.pack(">iqiqi16s?", 0, 0, 10_000, 0, 16, bytes(16), False)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def test_a_handler_of_another_kind_is_refused() -> None:
    with simzk.ZooKeeperServer() as server:
        started(server, handler=SequentialThreadingHandler())
        with pytest.raises(simzk.SimzkError, match="uses SequentialThreadingHandler, which is not observed"):
            server.settle()


def test_a_cluster_has_sent_its_events() -> None:
    with simzk.KafkaCluster(brokers=2) as cluster:
        client = started(cluster.zookeeper)
        seen: list[list[str]] = []
        client.ChildrenWatch("/brokers/ids", lambda ids: seen.append(sorted(ids)))
        cluster.kill(2)
        cluster.run_for(30)
        cluster.zookeeper.settle(PATIENCE_S)
        assert seen == [["1", "2"], ["1"]]


def test_after_the_end_there_is_nothing_to_wait_for(server: TestServer) -> None:
    client = started(server)
    server.close()
    server.settle()
    assert not client.connected


@pytest.mark.parametrize("kind", [simzk.ZooKeeper, simzk.ZooKeeperServer])
def test_on_wall_time_and_of_an_old_release(kind: type[simzk.ZooKeeper | simzk.ZooKeeperServer]) -> None:
    with kind(clock="wall", version="3.4.14") as server:
        writer, watcher = started(server), started(server)
        for number in range(5):
            watch_story(server, writer, watcher, number)


@pytest.mark.parametrize("servers", [1, 3])
def test_with_data_on_disk(tmp_path: Path, servers: int) -> None:
    with simzk.ZooKeeperServer(data_directory=tmp_path, servers=servers) as server:
        writer, watcher = started(server), started(server)
        for number in range(5):
            watch_story(server, writer, watcher, number)


def test_what_a_lagging_follower_has_not_applied_is_not_waited_for() -> None:
    with simzk.ZooKeeperServer(servers=3) as server:
        writer = started(server, hosts=server.ensemble.hosts(3))
        watcher = started(server, hosts=server.ensemble.hosts(1))
        seen: list[object] = []
        watcher.exists("/a", watch=seen.append)
        server.ensemble.lag(1, seconds=5)
        writer.create("/a")
        server.settle(PATIENCE_S)
        assert seen == []
        server.advance(5)
        server.settle(PATIENCE_S)
        assert len(seen) == 1


def test_clients_made_meanwhile_are_settled(server: TestServer) -> None:
    def connect() -> int:
        for _ in range(20):
            client = started(server)
            client.ensure_path("/a/b")
            client.stop()
        return 20

    connecting = in_thread(connect)
    while not connecting.done():
        server.settle(PATIENCE_S)
    assert connecting.result(PATIENCE_S) == 20


def test_over_tls() -> None:
    with simzk.ZooKeeperServer(tls=Tls(FILES / "server-and-key.pem", client_auth="none")) as server:
        writer, watcher = (started(server, verify_certs=False) for _ in range(2))
        for number in range(20):
            watch_story(server, writer, watcher, number)


def test_concurrent_writers_are_followed_to_the_end(server: TestServer) -> None:
    watcher, writer = started(server), started(server)
    seen: list[str] = []
    watcher.ensure_path("/all")
    watcher.ChildrenWatch("/all", lambda names: seen.extend(set(names) - set(seen)))

    def write() -> None:
        for number in range(100):
            writer.create(f"/all/{number}")

    writing = in_thread(write)
    while not writing.done():
        server.settle(PATIENCE_S)
    writing.result(PATIENCE_S)
    server.settle(PATIENCE_S)
    assert len(seen) == 100


def test_a_lost_reply_settles_with_an_error_of_the_request(server: TestServer) -> None:
    client = started(server)
    server.faults.drop_reply("create", path="/a")
    result = client.create_async("/a")
    server.settle(PATIENCE_S)
    assert isinstance(result.exception, ConnectionLoss)
    assert client.exists("/a")


class SlowHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """A subclass of kazoo's handler, as applications have."""

    def select(self, *args: Any, **kwargs: Any) -> Any:
        return super().select(*args, **kwargs)


def test_a_plain_client_with_a_subclass_of_kazoos_handler_is_waited_for() -> None:
    with simzk.ZooKeeperServer() as server:
        client = KazooClient(hosts=server.hosts, handler=SlowHandler())
        client.start(timeout=PATIENCE_S)
        gate, seen = threading.Event(), []

        def note(event: object) -> None:
            gate.wait(PATIENCE_S)
            seen.append(event)

        client.create("/a")
        client.get("/a", watch=note)
        client.set("/a", b"1")
        with pytest.raises(TimeoutError, match=r"a callback does not return; it is at .* in note"):
            server.settle(0.05)
        gate.set()
        server.settle(PATIENCE_S)
        assert len(seen) == 1
        client.stop()
        client.close()
