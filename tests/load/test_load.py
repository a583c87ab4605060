"""Many sessions, many znodes, many watches, and a client that does not read, on `simzk serve`; see scale.py."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.serve.clock import StillClock
from simzk.serve.wire_driver import WireDriver
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import EventType, Reply, WatchedEvent
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from tests.cli.test_serve import Process, serving
from tests.load.scale import FULL, SCALE, resident_bytes
from tests.serve.tcp_client import TcpClient, word
from tests.waiting import PATIENCE_S, in_thread
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
MEBI = 1 << 20
ZNODE_BYTES_MAX = 450
"""Of a znode beside its data, as the system counts memory, however many there are: dictionaries that have just grown
are the worst."""

FEWEST_ZNODES = 80_000  # with fewer, other things weigh

CONNECTION_BYTES_MAX = 32 * 1024
UNREAD_BYTES_MAX = 64 * MEBI
BATCH = 500
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("load")]


@pytest.fixture
def server() -> Iterator[Process]:
    with serving("--port", "0") as process:
        yield process


def monitored(server: Process, *names: str) -> list[int]:
    """Return some values of `mntr`."""
    lines = dict(line.split("\t", 1) for line in word(server.port, b"mntr").splitlines())
    return [int(lines[f"zk_{name}"]) for name in names]


class Clients:
    """A process of clients."""

    def __init__(self, port: int, sessions: int, path: str) -> None:
        command = [sys.executable, "-m", "tests.load.clients", str(port), str(sessions), path]
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def until(self, said: str) -> None:
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line == f"{said}\n", self._popen.communicate()[1]

    def end(self) -> None:
        _, said = self._popen.communicate("end\n", timeout=PATIENCE_S)
        assert self._popen.returncode == 0, said

    def kill(self) -> None:
        self._popen.kill()
        self._popen.communicate()


def test_a_change_reaches_every_session_that_watches(server: Process) -> None:
    before_bytes = resident_bytes(server.popen.pid)
    with TcpClient(server.port) as writer:
        writer.connect(40_000)
        assert writer.ask(req.Create("/watched", b"old", OPEN_ACL, 0)).error == 0
        each = SCALE.sessions // SCALE.processes
        processes = [Clients(server.port, each, "/watched") for _ in range(SCALE.processes)]
        try:
            for process in processes:
                process.until("ready")
            alive, watches = monitored(server, "num_alive_connections", "watch_count")
            assert (alive, watches) == (SCALE.sessions + 2, SCALE.sessions), "theirs, the writer's, and who asks"
            grown_bytes = resident_bytes(server.popen.pid) - before_bytes
            assert writer.ask(req.SetData("/watched", b"new", -1)).error == 0
            for process in processes:
                process.until("fired")
            assert monitored(server, "watch_count") == [0]
            for process in processes:
                process.end()
        finally:
            for process in processes:
                process.kill()
        assert monitored(server, "num_alive_connections") == [2]
    print(f"\n{SCALE.sessions:,} sessions: {grown_bytes / SCALE.sessions:,.0f} bytes a connection")
    assert grown_bytes < CONNECTION_BYTES_MAX * SCALE.sessions + 8 * MEBI


@pytest.mark.parametrize("folder_size", [1000, FULL.znodes], ids=["folders", "one parent"])
def test_many_znodes_take_their_bytes_each(server: Process, folder_size: int) -> None:
    data = b"x" * 100
    folders = -(-SCALE.znodes // folder_size)
    measured: dict[int, float] = {}
    with TcpClient(server.port) as client:
        client.connect(40_000)
        for folder in range(folders):
            assert client.ask(req.Create(f"/{folder}", b"", OPEN_ACL, 0)).error == 0
        before_bytes = resident_bytes(server.popen.pid)
        for first in range(0, SCALE.znodes, BATCH):
            names = (f"/{at // folder_size}/node-{at:07}" for at in range(first, first + BATCH))
            client.send(*(req.Create(name, data, OPEN_ACL, 0) for name in names))
            for _ in range(BATCH):
                reply = client.next()
                assert isinstance(reply, Reply)
                assert reply.error == 0
            count = first + BATCH
            if count >= FEWEST_ZNODES and count % 10_000 == 0:
                measured[count] = (resident_bytes(server.popen.pid) - before_bytes) / count - len(data)
        assert client.ask(req.GetAllChildrenNumber("/")).body == SCALE.znodes + folders + 3
    worst = max(measured, key=measured.__getitem__)
    print(f"\n{SCALE.znodes:,} znodes: {measured[SCALE.znodes]:.0f} bytes each beside {len(data)} of data", end="")
    print(f"; at the worst, when there were {worst:,}, {measured[worst]:.0f}")
    assert measured[worst] <= ZNODE_BYTES_MAX


def test_the_shells_limit_of_open_files_is_no_limit_of_clients() -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
    try:
        process = Process("--port", "0")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))
    with ExitStack() as stack:
        stack.callback(process.end, signal.SIGKILL)
        for client in [stack.enter_context(TcpClient(process.port)) for _ in range(100)]:
            assert client.connect().session_id


class Sink:
    """Transport in this process that stores the bytes."""

    def __init__(self) -> None:
        self.received = b""

    def deliver(self, data: bytes) -> None:
        self.received += data

    def end(self) -> None:
        raise AssertionError("nobody is cut off")


def test_watches_of_all_sessions_on_one_path_fire_once_each() -> None:
    """More sessions than a process has sockets: their bytes go directly to the driver."""
    clock = StillClock()
    host = WireDriver(Server(now_ms=clock.now_ms()), clock)
    watcher, writer = ClientConnection(), ClientConnection()
    opening = watcher.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False))
    watch = watcher.request(1, req.GetData("/watched", True))
    sinks = [Sink() for _ in range(SCALE.watches)]
    links = [link for sink in sinks if (link := host.open(sink)) is not None]
    for link in links:
        link.receive(opening)
    links[0].receive(writer.request(1, req.Create("/watched", b"old", OPEN_ACL, 0)))
    for link in links:
        link.receive(watch)
    assert len(host.server.sessions) == len(links) == SCALE.watches
    read = watcher.receive_data(sinks[-1].received)
    assert len(read) == 2, "a session, and what was read"
    for sink in sinks:
        sink.received = b""
    links[0].receive(writer.request(2, req.SetData("/watched", b"new", -1)))
    reported = sinks[-1].received
    assert watcher.receive_data(reported) == [WatchedEvent(EventType.NODE_DATA_CHANGED, "/watched", host.server.zxid)]
    assert sinks[0].received.startswith(reported), "the event, then the reply to who made it"
    assert all(sink.received == reported for sink in sinks[1:])
    host.server.check()
    links[0].receive(writer.request(3, req.SetData("/watched", b"newer", -1)))
    assert all(sink.received == reported for sink in sinks[1:]), "a watch fires once"


def test_a_client_that_never_reads_costs_little_and_hurts_nobody(server: Process) -> None:
    size = 100_000
    with TcpClient(server.port) as other, TcpClient(server.port) as deaf:
        other.connect(40_000)
        deaf.connect(40_000)
        assert other.ask(req.Create("/large", b"x" * size, OPEN_ACL, 0)).error == 0
        before_bytes = resident_bytes(server.popen.pid)
        frames = deaf.frames(*(req.GetData("/large", False) for _ in range(SCALE.unread)))
        # It sends until nobody takes what it sends: its requests wait in the sockets, or with it.
        sending = in_thread(lambda: deaf.socket.sendall(frames))
        for at in range(500):
            assert other.ask(req.SetData("/", b"%d" % at, -1)).error == 0
        grown_bytes = resident_bytes(server.popen.pid) - before_bytes
        print(f"\n{SCALE.unread * size / MEBI:,.0f} MiB asked for and not read: {grown_bytes / MEBI:.1f} MiB held")
        assert grown_bytes < UNREAD_BYTES_MAX < SCALE.unread * size
        # It begins to read: not one reply is missing.
        for _ in range(SCALE.unread):
            reply = deaf.next()
            assert isinstance(reply, Reply)
            assert reply.error == 0
        sending.result(PATIENCE_S)


def test_events_for_who_never_reads_are_given_up_with_it(server: Process) -> None:
    """Events are sent at once even to clients that do not read; their connection is closed before memory runs out."""
    path = "/" + "p" * 60_000
    with TcpClient(server.port) as other, TcpClient(server.port) as deaf:
        other.connect(40_000)
        deaf.connect(40_000)
        assert other.ask(req.Create(path, b"", OPEN_ACL, 0)).error == 0
        assert deaf.ask(req.AddWatch(path, 0)).error == 0
        before_bytes = resident_bytes(server.popen.pid)
        for at in range(SCALE.unread):
            assert other.ask(req.SetData(path, b"%d" % at, -1)).error == 0
        grown_bytes = resident_bytes(server.popen.pid) - before_bytes
        assert monitored(server, "num_alive_connections", "watch_count") == [2, 0], "the deaf one is gone"
        assert grown_bytes < UNREAD_BYTES_MAX < SCALE.unread * len(path)
