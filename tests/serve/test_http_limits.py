"""What one HTTP client can cost a server: bytes that are kept, and turns of the loop."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from simzk.serve.admin_server.clusters import ClustersServer
from simzk.serve.admin_server.control import ControlServer
from simzk.serve.admin_server.http import HEAD_BYTES, JSON, HttpRequest, HttpServer, Response
from simzk.serve.admin_server.server import AdminServer
from simzk.serve.clock import StillClock
from simzk.serve.configuration.settings import Settings
from simzk.serve.tcp.server import TcpServer
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.serve.admin_server.clusters import HostedCluster
    from simzk.serve.admin_server.control import ControlledBrokers
    from simzk.serve.simulated_brokers import SimulatedBrokers

GIB = 1 << 30
ASKED = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWERED = b"HTTP/1.1 200 OK"


class Client(asyncio.Transport):
    """A client's end of a connection, which reads when a test wants it to."""

    def __init__(self, server: HttpServer) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.received = bytearray()
        self.reads = True
        self.is_paused = False
        self.ended = asyncio.Event()
        self.protocol = server._acceptor._make_protocol()
        self.protocol.connection_made(self)

    @property
    def answers(self) -> int:
        return self.received.count(ANSWERED)

    def send(self, data: bytes) -> None:
        assert not self.is_paused, "nothing is read from a paused connection"
        self.protocol.data_received(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.received += data
        if not self.reads:
            self.protocol.pause_writing()

    def write_eof(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0 if self.reads else len(self.received)

    def is_closing(self) -> bool:
        return self.ended.is_set()

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self.protocol.connection_lost(None)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


@pytest.fixture
def server() -> Iterator[HttpServer]:
    def answer(request: HttpRequest) -> Response:
        return Response(HTTPStatus.OK, JSON, f"{request.path} {len(request.body)}")

    made = HttpServer("127.0.0.1", 0, answer, idle_ms=0, body_limit=lambda request: 100_000 * (request.path == "/b"))
    yield made
    made.stop()


def test_requests_take_turns(server: HttpServer) -> None:
    async def story() -> None:
        server.idle_s = 60
        client = Client(server)
        client.send(ASKED * 50)
        for turn in range(1, 51):
            assert (client.answers, client.is_paused) == (turn, turn < 50)
            await asyncio.sleep(0)

    asyncio.run(story())


def test_a_client_that_does_not_read_gets_one_answer(server: HttpServer) -> None:
    async def story() -> None:
        server.idle_s = 60
        client = Client(server)
        client.reads = False
        client.send(ASKED * 50)
        for _ in range(100):
            await asyncio.sleep(0)
        assert (client.answers, client.is_paused) == (1, True)
        client.reads = True
        client.protocol.resume_writing()
        for _ in range(100):
            await asyncio.sleep(0)
        assert (client.answers, client.is_paused) == (50, False)

    asyncio.run(story())


@pytest.mark.parametrize("reads", [True, False])
def test_an_idle_connection_ends_with_what_its_client_does_not_read(server: HttpServer, reads: bool) -> None:
    async def story() -> None:
        client = Client(server)
        client.reads = reads
        client.send(ASKED)
        await client.ended.wait()
        assert not server.connections

    asyncio.run(story())


@pytest.mark.parametrize("size", [b"-1", b"+5", b"0x5", b"1_0", b"", b"f" * 16, b"5" * HEAD_BYTES, b"a" * HEAD_BYTES])
def test_a_chunk_has_a_size_in_a_short_line(server: HttpServer, size: bytes) -> None:
    async def story() -> None:
        server.idle_s = 60
        client = Client(server)
        head = b"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.send(head + size + b"\r\n" * (len(size) < HEAD_BYTES))
        assert client.received.startswith(b"HTTP/1.1 400 ")
        client.abort()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("path", "answer"),
    [(b"/a", b"HTTP/1.1 200 OK"), (b"/b", b"HTTP/1.1 413 Payload Too Large"), (b"/%zz", b"HTTP/1.1 400 Bad Request")],
)
@pytest.mark.parametrize(
    "framing", [b"Content-Length: %d\r\n\r\n" % GIB, b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % GIB]
)
def test_a_body_that_is_not_read_is_not_kept(server: HttpServer, path: bytes, answer: bytes, framing: bytes) -> None:
    async def story() -> None:
        server.idle_s = 60
        client = Client(server)
        client.send(b"POST " + path + b" HTTP/1.1\r\nHost: a\r\n" + framing)
        assert client.received.startswith(answer)
        assert b"Connection: close" in client.received
        before = len(client.received)
        client.send(ASKED)
        assert len(client.received) == before, "the rest is the body, and no request"
        client.abort()

    asyncio.run(story())


@pytest.mark.parametrize(("path", "size", "kept"), [("/a", 60_000, 60_000), ("/b", 100_000, 100_000)])
def test_a_body_within_its_limit_keeps_the_connection(server: HttpServer, path: str, size: int, kept: int) -> None:
    async def story() -> None:
        server.idle_s = 60
        client = Client(server)
        is_read = path == "/b"
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n"
        client.send(head.encode() + (b"Expect: 100-continue\r\n\r\n" if is_read else b"\r\n"))
        assert bytes(client.received) == (b"HTTP/1.1 100 Continue\r\n\r\n" if is_read else b"")
        client.send(b"x" * size)
        assert client.received.endswith(f"{path} {kept}".encode())
        client.send(ASKED)
        await asyncio.sleep(0)
        assert client.answers == 2
        client.abort()

    asyncio.run(story())


@pytest.mark.parametrize("length", ["9" * 19, "9" * 5000, "-1", "+1", "1_0", "\xb2"])
def test_the_length_of_a_body_is_a_number(server: HttpServer, length: str) -> None:
    async def story() -> None:
        server.idle_s = 60
        client = Client(server)
        client.send(f"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode("latin-1"))
        assert client.received.startswith(b"HTTP/1.1 400 Invalid Content-Length Value\r\n")
        client.abort()

    asyncio.run(story())


class Unasked:
    """Brokers of which nothing may be asked."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._ask

    def _ask(self) -> dict[str, object]:
        raise AssertionError("a stranger's request went through")


def start(_options: object, _body: str) -> HostedCluster:
    raise AssertionError("a stranger started a cluster")


@pytest.fixture(scope="module")
def guarded() -> Iterator[dict[str, HttpServer]]:
    """The servers with requests that only simzk has."""
    tcp = TcpServer(Settings(admin_address="127.0.0.1"), StillClock())
    brokers: ControlledBrokers = Unasked()  # type: ignore[assignment]
    shown: SimulatedBrokers = Unasked()  # type: ignore[assignment]
    made: dict[str, HttpServer] = {
        "admin": AdminServer(tcp, "127.0.0.1", 0),
        "control": ControlServer(tcp, "127.0.0.1", 0, brokers, shown),
        "clusters": ClustersServer("127.0.0.1", 0, None, start),
    }
    yield made
    for server in made.values():
        server.stop()
    tcp.stop()


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        ("admin", "GET /faults"),
        ("admin", "HEAD /faults"),
        ("admin", "GET /brokers"),
        ("admin", "GET /live/state"),
        ("admin", "POST /faults/clear"),
        ("control", "GET /brokers"),
        ("control", "GET /zookeeper"),
        ("control", "GET /broker_faults"),
        ("control", "GET /faults"),
        ("control", "POST /brokers/1/start"),
        ("clusters", "GET /clusters"),
        ("clusters", "POST /clusters"),
        ("clusters", "DELETE /clusters/1"),
    ],
)
def test_a_foreign_name_for_this_machine_sees_nothing(guarded: dict[str, HttpServer], server: str, asked: str) -> None:
    async def story() -> None:
        client = Client(guarded[server])
        client.send(f"{asked} HTTP/1.1\r\nHost: rebound.example\r\nContent-Length: {GIB}\r\n\r\n".encode())
        assert client.received.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        client.abort()

    asyncio.run(story())


def test_restore_refuses_before_the_body() -> None:
    with served(Settings(admin_port=0)) as running, TcpClient(running.admin_port) as client:
        client.socket.sendall(f"POST /commands/restore HTTP/1.1\r\nHost: a\r\nContent-Length: {GIB}\r\n\r\n".encode())
        assert client.rest().decode().startswith("HTTP/1.1 401 Unauthorized\r\n")
