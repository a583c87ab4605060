"""TCP server with plain sockets: order, back pressure, limits, closing (§1.3, §1.4, §1.8)."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import socket
import subprocess
import sys
import threading
import tracemalloc
import weakref
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk import ConfigError
from simzk.serve.clock import StillClock, WallClock
from simzk.serve.configuration.settings import Settings
from simzk.serve.tcp.server import TcpServer
from simzk.serve.tcp.tls import Tls
from simzk.serve.zookeeper_server import end_connections
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Closed, Code, EventType, Reply, WatchedEvent
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient
from tests.serve.tls_files import FILES
from tests.waiting import PATIENCE_S, in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[simzk.ZooKeeperServer]:
    with simzk.ZooKeeperServer() as running:
        yield running


def create(path: str, data: bytes = b"", flags: int = 0) -> req.Create:
    return req.Create(path, data, req.OPEN_ACL, flags)


# Coming


FIRST_SERVER = """
import sys
compiled = []
sys.addaudithook(lambda event, values: event == "compile" and compiled.append(values[1]))
import simzk
with simzk.ZooKeeperServer():
    print("<record>" in compiled, *sys.modules)
"""


def test_a_first_server_loads_and_compiles_only_what_it_needs_to_listen() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_SERVER], check=True, capture_output=True, text=True)
    has_compiled, *loaded = done.stdout.split()
    assert has_compiled == "False"
    assert "simzk.serve.tcp.server" in loaded
    late = {
        "admin_server.http",
        "admin_server.server",
        "storage.data_directory",
        "tcp.ensemble",
        "tcp.process_info",
        "tcp.tls",
    }
    assert not {"dataclasses", "kazoo", "sortedcontainers", "simzk.simulation.fault_verbs"} & set(loaded)
    assert not {f"simzk.serve.{name}" for name in late} & set(loaded)


# Order


def test_pipelined_requests_are_answered_in_order(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        client.send(create("/a"), *[req.SetData("/a", b"%d" % number, -1) for number in range(1000)], req.Ping())
        replies = [client.next() for _ in range(1001)]
        assert [reply.xid for reply in replies if isinstance(reply, Reply)] == list(range(1, 1002))
        last = replies[-1]
        assert isinstance(last, Reply)
        assert last.body.version == 1000  # type: ignore[attr-defined]


def test_an_event_comes_before_the_reply_that_shows_the_change(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        client.send(create("/a"), req.GetData("/a", True), req.SetData("/a", b"new", -1), req.GetData("/a", False))
        kinds = [type(client.next()) for _ in range(5)]
        assert kinds == [Reply, Reply, WatchedEvent, Reply, Reply]


def test_a_watcher_on_another_server_is_notified(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as watcher, TcpClient(server.port) as writer:
        watcher.connect()
        writer.connect()
        assert watcher.ask(req.Exists("/a", True)).error == Code.NO_NODE
        writer.ask(create("/a"))
        event = watcher.next()
        assert isinstance(event, WatchedEvent)
        assert (event.type, event.path) == (EventType.NODE_CREATED, "/a")


def test_frames_may_arrive_byte_by_byte(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        for byte in client.frames(create("/a"), req.Sync("/a")):
            client.socket.sendall(bytes([byte]))
        assert [client.next(), client.next()] == [Reply(1, 2, 0, "/a"), Reply(2, 2, 0, "/a")]


# When it closes


def test_after_close_session_come_its_events_its_reply_and_the_end(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        client.send(create("/e", flags=1), req.Exists("/e", True), req.CloseSession(), create("/lost"))
        assert [type(client.next()) for _ in range(5)] == [Reply, Reply, WatchedEvent, Reply, Closed]
    with TcpClient(server.port) as later:
        later.connect()
        assert later.ask(req.Exists("/lost", False)).error == Code.NO_NODE


def test_taking_up_a_session_closes_its_other_connection(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as first, TcpClient(server.port) as second:
        session = first.connect()
        assert second.connect(session=session).session_id == session.session_id
        assert isinstance(first.next(), Closed)
        assert second.ask(req.Exists("/", False)).error == 0


@pytest.mark.parametrize(
    "garbage",
    [
        b"RUOK",
        b"nope",
        b"\xff\xff\xff\xff",
        b"\x00\x10\x00\x00",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x04abcd",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_garbage_is_closed_without_an_answer(server: simzk.ZooKeeperServer, garbage: bytes) -> None:
    with TcpClient(server.port) as client:
        client.socket.sendall(garbage)
        assert client.rest() == b""


@pytest.mark.parametrize("durable", [False, True], ids=["in memory", "data directory"])
def test_a_client_that_has_seen_a_later_zxid_is_closed_without_an_answer(tmp_path: Path, durable: bool) -> None:
    later = req.ConnectRequest(0, 1 << 40, 10_000, 0, None, False)
    with simzk.ZooKeeperServer(data_directory=tmp_path if durable else None) as server:
        for _ in range(2):
            with TcpClient(server.port) as client:
                client.socket.sendall(client.wire.connect(later))
                assert client.rest() == b""
        with TcpClient(server.port) as client:
            client.connect()
            assert client.ask(create("/a")).error == 0


def test_a_frame_too_long_closes_behind_what_was_whole(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        client.socket.sendall(client.frames(create("/a")) + (0x100000).to_bytes(4, "big"))
        assert client.next() == Reply(1, 2, 0, "/a")
        assert isinstance(client.next(), Closed)


def test_a_request_of_the_greatest_length_is_taken(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        # 8 bytes of header; path and data with their lengths; one ACL entry; flags.
        value = b"x" * (0xFFFFF - 8 - (4 + 2) - 4 - len(bytes(4 + 4 + 4 + 5 + 4 + 6)) - 4)
        frame = client.frames(create("/a", value))
        assert len(frame) == 4 + 0xFFFFF
        client.socket.sendall(frame)
        assert client.next().error == 0  # type: ignore[union-attr]
        reply = client.ask(req.GetData("/a", False))
        assert reply.body[0] == value  # type: ignore[index]


# What the server does by itself, on wall time


def test_a_container_that_emptied_goes_though_nobody_asks_for_anything() -> None:
    settings = Settings(server=ServerConfig(container_check_interval_ms=10))
    with served(settings, WallClock()) as tcp, TcpClient(tcp.port) as client:
        client.connect(timeout_ms=40_000)
        for request in (req.CreateContainer("/c", b"", req.OPEN_ACL, 4), create("/c/a"), req.Exists("/c", True)):
            assert client.ask(request).error == 0
        assert client.ask(req.Delete("/c/a", -1)).error == 0
        gone = client.next()
        assert isinstance(gone, WatchedEvent)
        assert (gone.type, gone.path) == (EventType.NODE_DELETED, "/c")


# Limits


def test_more_connections_than_one_address_may_have_are_closed_at_once() -> None:
    with (
        served(Settings(max_connections_per_address=2)) as tcp,
        TcpClient(tcp.port) as first,
        TcpClient(tcp.port) as second,
    ):
        first.connect()
        second.connect()
        with TcpClient(tcp.port) as third:
            assert third.rest() == b""
        assert second.ask(req.Exists("/", False)).error == 0


def test_more_connections_than_there_may_be_in_all_are_closed_at_once() -> None:
    with served(Settings(max_connections=1)) as tcp, TcpClient(tcp.port) as first:
        first.connect()
        with TcpClient(tcp.port) as second:
            assert second.rest() == b""
        assert first.ask(req.Exists("/", False)).error == 0


def test_a_connection_that_asks_for_nothing_has_its_time() -> None:
    """Of nio.sessionlessCnxnTimeout."""
    with served(Settings(silence_ms=50), WallClock()) as tcp, TcpClient(tcp.port) as silent:
        assert silent.rest() == b""
        assert tcp.tcp.statistics.expired_silent == 1


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_is_not_positive_is_none(limit: int) -> None:
    with served(Settings(max_connections_per_address=limit)) as tcp, TcpClient(tcp.port) as client:
        assert client.connect().session_id


def test_a_client_that_does_not_read_is_not_read_either(server: simzk.ZooKeeperServer) -> None:
    value, asked = b"x" * 500_000, 4000
    with TcpClient(server.port) as client, TcpClient(server.port) as other:
        client.connect()
        other.connect()
        assert client.ask(create("/big", value)).error == 0
        frames = client.frames(*[req.GetData("/big", False)] * asked)
        tracemalloc.start()
        sending = in_thread(lambda: client.socket.sendall(frames))
        for _ in range(50):
            assert other.ask(req.Exists("/big", False)).error == 0
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # All replies at once would be 2 GB; some slices of them are what may wait.
        assert peak_bytes < 100_000_000
        for xid in range(2, asked + 2):
            reply = client.next()
            assert isinstance(reply, Reply)
            assert reply.xid == xid
        sending.result(PATIENCE_S)


# Coming and going


def test_nothing_is_left_behind() -> None:
    def state() -> tuple[list[str], int]:
        return sorted(os.listdir("/proc/self/fd")), threading.active_count()

    with simzk.ZooKeeperServer():
        pass
    before = state()
    running = simzk.ZooKeeperServer()
    client = running.client()
    client.start()
    client.create("/a")
    with TcpClient(running.port) as open_still:
        open_still.connect()
        running.close()
        running.close()
        assert isinstance(open_still.next(), Closed)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", running.port))
    assert state() == before
    gone = weakref.ref(running)
    del running, client
    gc.collect()
    assert gone() is None


def test_a_taken_port_is_said(server: simzk.ZooKeeperServer) -> None:
    with pytest.raises(ConfigError, match="Address already in use") as refused:
        simzk.ZooKeeperServer(port=server.port)
    assert refused.value.where == f"127.0.0.1:{server.port}"


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        simzk.ZooKeeperServer(host="192.0.2.1")


def test_a_clock_that_is_not_there_is_said() -> None:
    with pytest.raises(ConfigError, match="sundial"):
        simzk.ZooKeeperServer(clock="sundial")  # type: ignore[arg-type]


def test_what_was_acknowledged_is_in_the_directory(tmp_path: Path) -> None:
    with simzk.ZooKeeperServer(data_directory=tmp_path) as first, TcpClient(first.port) as client:
        client.connect()
        client.send(*[create(f"/n{number}") for number in range(300)])
        for _ in range(300):
            assert client.next().error == 0  # type: ignore[union-attr]
        # As after a kill: the directory is read while the first server is still there, with nothing flushed at close.
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copytree(tmp_path / "version-2", copy / "version-2")
        with simzk.ZooKeeperServer(data_directory=copy) as second, TcpClient(second.port) as later:
            later.connect()
            assert later.ask(req.GetAllChildrenNumber("/")).body == 300 + 3


def test_a_full_disk_ends_the_service_instead_of_lying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with simzk.ZooKeeperServer(data_directory=tmp_path) as running, TcpClient(running.port) as client:
        client.connect()

        def refuse(self: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("simzk.serve.storage.data_directory.DataDirectory.sync", refuse)
            client.send(create("/a"))
            assert isinstance(client.next(), Closed)
        with TcpClient(running.port) as later:
            assert later.rest() == b""


def test_a_server_that_is_never_started_frees_its_port() -> None:
    tcp = TcpServer(Settings(), StillClock())
    tcp.stop()
    socket.create_server(("127.0.0.1", tcp.port)).close()


def test_a_connection_that_is_over_is_freed_without_the_garbage_collector(server: simzk.ZooKeeperServer) -> None:
    gc.collect()
    gc.disable()
    try:
        with TcpClient(server.port) as client:
            client.connect()
            assert isinstance(server._tcp, TcpServer)
            (connection,) = server._tcp.connections
            gone = weakref.ref(connection)
            del connection
            client.ask(req.GetData("/", True))
            client.send(req.CloseSession())
            client.rest()
        with TcpClient(server.port) as later:  # accepted in a later turn of the loop than the other's end was seen
            later.connect()
        assert gone() is None
    finally:
        gc.enable()


def test_a_pause_may_end_after_its_client_is_gone(server: simzk.ZooKeeperServer) -> None:
    with TcpClient(server.port) as client:
        session = client.connect()
        server._driver.pause_session(session.session_id)
        client.send(create("/a"), req.GetData("/a", True))
    with TcpClient(server.port) as other:
        other.connect()
        server._driver.resume_session(session.session_id)
        assert other.ask(req.Sync("/")).error == 0
        server.server.check()


def test_a_client_that_never_reads_its_events_is_given_up(
    server: simzk.ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simzk.serve.tcp.server.EVENT_BYTES", 1_000_000)
    path = "/" + "x" * 200_000
    with TcpClient(server.port) as deaf, TcpClient(server.port) as writer:
        session = deaf.connect()
        writer.connect()
        assert deaf.ask(req.AddWatch("/", 1)).error == 0
        for _ in range(60):  # 24 MB of events, more than what sockets take and what may wait
            assert writer.ask(create(path)).error == 0
            assert writer.ask(req.Delete(path, -1)).error == 0
        assert len(deaf.rest()) < 20_000_000
        with TcpClient(server.port) as back:
            assert back.connect(session=session).session_id == session.session_id


@pytest.mark.parametrize("tls", [None, Tls(FILES / "server-and-key.pem", client_auth="none")], ids=["plain", "tls"])
def test_a_stop_in_the_middle_of_an_accept_leaves_no_socket(tls: Tls | None) -> None:
    """The stop follows in the turn of the loop that accepts a connection, before anything else of the accept ran."""
    tcp = TcpServer(Settings(tls=tls), StillClock())

    async def story() -> bytes:
        await tcp.start()
        loop = asyncio.get_running_loop()
        problems: list[object] = []
        loop.set_exception_handler(lambda _, context: problems.append(context))
        stops, stop = socket.socketpair()
        stops.setblocking(False)
        stopped = asyncio.Event()

        def stop_now() -> None:
            loop.remove_reader(stops)
            tcp.stop()
            stopped.set()

        loop.add_reader(stops, stop_now)
        with stops, stop, socket.create_connection(("127.0.0.1", tcp.port)) as client:
            client.settimeout(PATIENCE_S)
            stop.send(b"x")
            await stopped.wait()
            await end_connections()
            assert problems == []
            try:
                return client.recv(1)
            except ConnectionResetError:
                return b""

    assert asyncio.run(story()) == b""
    gc.collect()  # an unclosed socket or transport is an error here, as a warning
