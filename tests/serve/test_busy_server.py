"""A server that is busy for longer than sessions last: only those end whose clients were silent."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.serve.clock import WallClock
from simzk.serve.configuration.settings import Settings
from simzk.serve.memory import MemorySocket, Signal
from simzk.serve.tcp.tls import Tls
from simzk.serve.wire_driver import WireDriver
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.persistence import TreeDigest, snapshot, touched_paths
from simzk.zookeeper.replies import ConnectResponse, Reply
from simzk.zookeeper.server import Server
from simzk.zookeeper.sessions import password_of
from tests.kafka.zookeeper_mode.columnar.live_cluster import LiveCluster
from tests.serve.served import Served, ServedCluster, ServedEnsemble, served, served_ensemble
from tests.serve.tcp_client import TcpClient, word
from tests.serve.tls_files import FILES, client_tls
from tests.waiting import PATIENCE_S, in_thread
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from simzk.zookeeper.transactions import Transaction

TIMEOUT_MS = 10_000
ONE_MS = 1


def single(folder: Path, clock: WallClock) -> Iterator[tuple[Served, list[int]]]:
    with served(Settings(), clock) as running:
        yield running, [running.port]


def with_disk(folder: Path, clock: WallClock) -> Iterator[tuple[Served, list[int]]]:
    with served(Settings(data_directory=folder), clock) as running:
        yield running, [running.port]


def ensemble(folder: Path, clock: WallClock) -> Iterator[tuple[ServedEnsemble, list[int]]]:
    with served_ensemble(Settings(), clock) as running:
        yield running, list(running.ports.values())


def secure(folder: Path, clock: WallClock) -> Iterator[tuple[Served, list[int]]]:
    tls = Tls(FILES / "server-and-key.pem", None, FILES / "authority.pem")
    with served(Settings(tls=tls, server=ServerConfig(x509=True)), clock) as running:
        yield running, [running.port]


def both(folder: Path, clock: WallClock) -> Iterator[tuple[Served, list[int]]]:
    """Serve plain text on a port that speaks TLS too."""
    tls = Tls(FILES / "server-and-key.pem", None, FILES / "authority.pem")
    with served(Settings(tls=tls, unifies_ports=True), clock) as running:
        yield running, [running.port]


@contextmanager
def busy(running: Served | ServedEnsemble | ServedCluster) -> Iterator[None]:
    """Keep the loop of a server from reading during the block; then let it expire what is due, before it reads."""
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert ended.wait(PATIENCE_S)
        running.tcp.driver.tick()

    running.tcp.call_on_loop(work)
    assert begun.wait(PATIENCE_S)
    yield
    ended.set()


def ends_who_is_silent(
    running: Served | ServedEnsemble | ServedCluster, clock: WallClock, ports: list[int], tls: ssl.SSLContext | None
) -> None:
    """Let sessions of each port time out while the server is busy; those of clients that sent a ping go on."""
    loud = [TcpClient(port, tls=tls) for port in ports]
    silent = [TcpClient(port, tls=tls) for port in ports]
    for client in (*loud, *silent):
        client.connect(TIMEOUT_MS)
    with busy(running):
        for client in loud:
            client.send(req.Ping())
        clock.skip(2 * TIMEOUT_MS)
    for client in loud:
        with client:
            assert isinstance(client.next(), Reply)
    for client in silent:
        with client:
            assert client.rest() == b""


@pytest.mark.parametrize("shape", [single, with_disk, ensemble, secure])
def test_a_ping_in_the_socket_keeps_its_session(
    shape: Callable[..., Iterator[tuple[Served, list[int]]]], tmp_path: Path
) -> None:
    clock = WallClock()
    with contextmanager(shape)(tmp_path, clock) as (running, ports):
        ends_who_is_silent(running, clock, ports, client_tls() if shape is secure else None)


@pytest.mark.parametrize("shape", [single, with_disk, ensemble, both])
@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_connect_request_in_the_socket_keeps_its_session(
    shape: Callable[..., Iterator[tuple[Served, list[int]]]], is_accepted: bool, tmp_path: Path
) -> None:
    """With its password only; the others have ended when they come back."""
    clock = WallClock()
    with contextmanager(shape)(tmp_path, clock) as (running, ports):
        for port in ports:
            sessions = []
            for _ in range(3):
                with TcpClient(port) as client:
                    sessions.append(client.connect(TIMEOUT_MS))
            back, thief = TcpClient(port), TcpClient(port)
            if is_accepted:
                for client in (back, thief):
                    client.socket.sendall(b"\0")
                    word(port, b"ruok")
            with busy(running):
                for client, password in ((back, sessions[0].password), (thief, bytes(16))):
                    asked = req.ConnectRequest(0, 0, TIMEOUT_MS, sessions[client is thief].session_id, password, False)
                    client.socket.sendall(client.wire.connect(asked)[is_accepted:])
                clock.skip(2 * TIMEOUT_MS)
            with back, thief:
                answer = back.next()
                assert isinstance(answer, ConnectResponse)
                assert answer.session_id == sessions[0].session_id
                refused = thief.next()
                assert isinstance(refused, ConnectResponse)
                assert refused.session_id == 0
            with TcpClient(port) as client:
                assert client.connect(TIMEOUT_MS, sessions[2]).session_id == 0
        assert not any(running.tcp.driver.has_session(session.session_id) for session in sessions[1:])


def test_a_connect_request_to_a_simulated_cluster_keeps_its_session() -> None:
    with KafkaCluster(version="3.9", brokers=1) as cluster:
        running = ServedCluster(Settings(), LiveCluster(cluster))
        try:
            clock = running.tcp.clock
            assert isinstance(clock, WallClock)
            with TcpClient(running.port) as client:
                session = client.connect(TIMEOUT_MS)
            with TcpClient(running.port) as client:
                with busy(running):
                    client.socket.sendall(
                        client.wire.connect(
                            req.ConnectRequest(0, 0, TIMEOUT_MS, session.session_id, session.password, False)
                        )
                    )
                    clock.skip(2 * TIMEOUT_MS)
                answer = client.next()
                assert isinstance(answer, ConnectResponse)
                assert answer.session_id == session.session_id
        finally:
            running.stop()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_connect_request_that_waits_for_another_thread_in_memory(is_late: bool) -> None:
    clock = WallClock()
    driver = WireDriver(Server(now_ms=clock.now_ms()), clock)
    links = [driver.open(MemorySocket(Signal(), ("127.0.0.1", number))) for number in (1, 2)]
    first, second = (link for link in links if link is not None)
    first.receive(ClientConnection().connect(req.ConnectRequest(0, 0, TIMEOUT_MS, 0, bytes(16), False)))
    session_id = first.session_id
    first.hang_up()
    asked = req.ConnectRequest(0, 0, TIMEOUT_MS, session_id, password_of(session_id), False)
    with driver.lock:
        if is_late:  # nobody was there to expire the session
            clock.skip(2 * TIMEOUT_MS)
        coming = in_thread(lambda: second.receive(ClientConnection().connect(asked)))
        while second.arrived_ms is None:
            assert not coming.done()
        if not is_late:
            clock.skip(2 * TIMEOUT_MS)
    coming.result(PATIENCE_S)
    assert driver.has_session(session_id) is not is_late


def test_a_ping_to_a_simulated_cluster_keeps_its_session() -> None:
    with KafkaCluster(version="3.9", brokers=1) as cluster:
        running = ServedCluster(Settings(), LiveCluster(cluster))
        try:
            clock = running.tcp.clock
            assert isinstance(clock, WallClock)
            ends_who_is_silent(running, clock, [running.port], None)
        finally:
            running.stop()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_ping_that_waits_for_another_thread_in_memory(is_late: bool) -> None:
    clock = WallClock()
    driver = WireDriver(Server(now_ms=clock.now_ms()), clock)
    wire = ClientConnection()
    link = driver.open(MemorySocket(Signal(), ("127.0.0.1", 1)))
    assert link is not None
    link.receive(wire.connect(req.ConnectRequest(0, 0, TIMEOUT_MS, 0, bytes(16), False)))
    with driver.lock:
        if is_late:  # nobody was there to expire the session
            clock.skip(2 * TIMEOUT_MS)
        ping = in_thread(lambda: link.receive(wire.request(-2, req.Ping())))
        while link.arrived_ms is None:
            assert not ping.done()
        if not is_late:
            clock.skip(2 * TIMEOUT_MS)
    ping.result(PATIENCE_S)
    assert driver.has_session(link.session_id) is not is_late


def test_long_data_of_a_parent_are_read_once_for_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(data: bytes, value: int = 0) -> int:
        read.append(len(data))
        return crc32(data, value)

    monkeypatch.setattr(snapshot, "crc32", counted)
    size, children = 1_000_000, 50
    server = Server()
    connection = server.connect(req.ConnectRequest(0, 0, TIMEOUT_MS, 0, None, False), 0)
    digest = TreeDigest(server.tree)

    def refresh(transaction: Transaction) -> None:
        digest.refresh(touched_paths(transaction.record))

    server.on_transaction.add(refresh, lambda batch: None)
    names = [f"/parent/{name}" for name in range(children)]
    creates = [req.Create(name, b"", req.OPEN_ACL, 0) for name in names]
    deletes = [req.Delete(name, -1) for name in names]
    requests: list[req.Request] = [req.Create("/parent", bytes(size), req.OPEN_ACL, 0), *creates, *deletes]
    requests.append(req.Multi((*creates, *deletes)))
    for request in requests:
        server.handle(connection, 1, request, ONE_MS)
    assert size <= sum(read) < 2 * size
    server.handle(connection, 1, req.SetData("/parent", b"x" * size, -1), ONE_MS)
    server.handle(connection, 1, req.Create("/parent/last", b"", req.OPEN_ACL, 0), ONE_MS)
    assert sum(read) < 3 * size
    digest.check()
