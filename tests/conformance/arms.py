"""Two arms that speak the same protocol: a real ZooKeeper over TCP, and simzk's server over bytes in memory.

Rules of this module:
  - an arm has clients by number; each has one connection at a time, and one stream of all that it was ever sent;
  - `send` puts requests on a connection at once and returns when all are answered or the connection is closed, so that
    writes of different clients happen in the order of the calls;
  - a real server can be sent the requests of many clients at once (`volley`), in an order that is its own; the
    simulated one is then asked one by one (`ask`) in the order that the replies tell;
  - both ends speak through the same `ClientConnection`, hence nothing is compared that did not cross the wire.
"""

from __future__ import annotations

import selectors
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from simzk.wire.client_connection import ClientConnection
from simzk.wire.operations import BY_REQUEST
from simzk.wire.server_connection import Incoming, ProtocolProblem, ServerConnection
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Closed, ConnectResponse, Outgoing, Reply, WatchedEvent
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.connection import Connection

Message = ConnectResponse | Reply | WatchedEvent | Closed
REPLY_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Raw:
    """A request whose body is given as bytes, for those that do not parse."""

    opcode: int
    body: bytes


Asked = req.Request | Raw


class Arm(Protocol):
    """What the differential test needs of a server under comparison."""

    streams: dict[int, list[Message]]

    def connect(self, client: int, request: req.ConnectRequest) -> None:
        """A new connection of the client; an earlier one is left as it is."""

    def send(self, client: int, batch: list[tuple[int, Asked]]) -> None:
        """Requests at once, with their xids; back when they are answered or the connection is closed."""

    def drop(self, client: int) -> None:
        """Cut the client's connection."""

    def is_open(self, client: int) -> bool: ...


def encode(wire: ClientConnection, xid: int, asked: Asked) -> bytes:
    if isinstance(asked, Raw):
        return wire.request_bytes(xid, asked.opcode, asked.body)
    return wire.request(xid, asked)


@dataclass
class _RealLink:
    socket: socket.socket
    wire: ClientConnection = field(default_factory=ClientConnection)


class RealArm:
    """A real server at a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._links: dict[int, _RealLink] = {}
        self.streams: dict[int, list[Message]] = {}

    def connect(self, client: int, request: req.ConnectRequest) -> None:
        opened = socket.create_connection(("127.0.0.1", self._port), REPLY_TIMEOUT_S)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kicked = self._links.get(client)
        self._links[client] = link = _RealLink(opened)
        opened.sendall(link.wire.connect(request))
        old = self.streams.setdefault(client, [])
        if kicked is not None:
            # Taking up a session ends its present connection, which is told by nothing but the end of its stream.
            self._read_until_closed(kicked, old)
        start = len(old)
        self._read(client, ConnectResponse, 1)
        answers = [message for message in old[start:] if isinstance(message, ConnectResponse)]
        if answers and not answers[0].session_id and self.is_open(client):
            self._read_until_closed(self._links.pop(client), old)

    def send(self, client: int, batch: list[tuple[int, Asked]]) -> None:
        link = self._links[client]
        link.socket.sendall(b"".join(encode(link.wire, xid, asked) for xid, asked in batch))
        self._read(client, Reply, len(batch))
        stream = self.streams[client]
        if batch and self.is_open(client) and ends_connection(stream[-1], batch[-1][1]):
            self._read_until_closed(self._links.pop(client), stream)

    def volley(self, batches: Mapping[int, list[tuple[int, Asked]]]) -> None:
        """Requests of many clients at once; back when all are answered, or their connection is closed.

        A `CloseSession` comes last in its batch: the end of the connection is then waited for. Events that others
        cause between its reply and that end are left out: how many there are is a matter of the server's threads.
        """
        awaited = {}
        with selectors.DefaultSelector() as selector:
            for client, batch in batches.items():
                ends = isinstance(batch[-1][1], req.CloseSession)
                awaited[client] = len(batch) + ends
                selector.register(self._links[client].socket, selectors.EVENT_READ, client)
            for client, batch in batches.items():
                link = self._links[client]
                link.socket.sendall(b"".join(encode(link.wire, xid, asked) for xid, asked in batch))
            while awaited:
                ready = selector.select(REPLY_TIMEOUT_S)
                if not ready:
                    raise TimeoutError(f"the real server owes so many answers to its clients: {awaited}")
                for key, _ in ready:
                    client = key.data
                    link, stream = self._links[client], self.streams[client]
                    data = link.socket.recv(1 << 18)
                    messages = link.wire.receive_data(data)
                    stream.extend(messages)
                    awaited[client] -= sum(isinstance(message, Reply) for message in messages)
                    if awaited[client] == 0 or not data:
                        del awaited[client]
                        selector.unregister(link.socket)
                    if not data:
                        while isinstance(batches[client][-1][1], req.CloseSession) and isinstance(
                            stream[-1], WatchedEvent
                        ):
                            del stream[-1]
                        self._end(self._links.pop(client), stream)

    def drop(self, client: int) -> None:
        self._links.pop(client).socket.close()

    def break_off(self, client: int, data: bytes) -> None:
        """Send bytes over which the server ends the connection, and wait until it does."""
        link = self._links.pop(client)
        link.socket.sendall(data)
        self._read_until_closed(link, self.streams[client])

    def let_expire(self, client: int) -> None:
        """Wait until the server ends the silent client's session, and its connection with it."""
        self._read_until_closed(self._links.pop(client), self.streams[client])

    def close(self) -> None:
        """Close every connection that is still open."""
        for link in self._links.values():
            link.socket.close()
        self._links.clear()

    def is_open(self, client: int) -> bool:
        return client in self._links

    def _read(self, client: int, kind: type, count: int) -> None:
        """Read until so many messages of a kind, or the end, have come; others may come between and behind."""
        link, stream = self._links[client], self.streams[client]
        while count > 0:
            data = link.socket.recv(65536)
            if not data:
                self._end(link, stream)
                del self._links[client]
                return
            messages = link.wire.receive_data(data)
            stream.extend(messages)
            count -= sum(isinstance(message, kind) for message in messages)

    def _read_until_closed(self, link: _RealLink, stream: list[Message]) -> None:
        try:
            while data := link.socket.recv(65536):
                stream.extend(link.wire.receive_data(data))
        except ConnectionResetError:
            pass
        self._end(link, stream)

    def _end(self, link: _RealLink, stream: list[Message]) -> None:
        link.socket.close()
        stream.append(Closed())


@dataclass
class _SimulatedLink:
    connection: Connection | None = None
    client_wire: ClientConnection = field(default_factory=ClientConnection)
    server_wire: ServerConnection = field(default_factory=ServerConnection)


class SimulatedArm:
    """simzk's server, fed with the same bytes. Its clock moves by 1 ms a request."""

    def __init__(self, config: ServerConfig, zxid: int) -> None:
        self.now_ms = 1
        self.server = Server(config, now_ms=self.now_ms, zxid=zxid)
        self.times_ms = {0: 0}
        self.server.on_transaction.append(lambda done: self.times_ms.__setitem__(done.zxid, done.time_ms))
        self._links: dict[int, _SimulatedLink] = {}
        self._clients: dict[Connection, tuple[int, _SimulatedLink]] = {}
        self.streams: dict[int, list[Message]] = {}

    def connect(self, client: int, request: req.ConnectRequest) -> None:
        self.streams.setdefault(client, [])
        self._links[client] = link = _SimulatedLink()
        self._deliver(client, link, link.client_wire.connect(request))
        self.server.check()

    def send(self, client: int, batch: list[tuple[int, Asked]]) -> None:
        link = self._links[client]
        data = b"".join(encode(link.client_wire, xid, asked) for xid, asked in batch)
        self._deliver(client, link, data)
        self.server.check()

    def ask(self, client: int, xid: int, asked: Asked) -> None:
        """One request, if the connection is still there; `check` of the server is left to the caller."""
        link = self._links.get(client)
        if link is not None:
            self._deliver(client, link, encode(link.client_wire, xid, asked))

    def drop(self, client: int) -> None:
        link = self._links.pop(client)
        assert link.connection is not None
        self.server.disconnect(link.connection)

    def break_off(self, client: int, data: bytes) -> None:
        """Bytes over which the server ends the connection."""
        self._deliver(client, self._links[client], data)
        self.server.check()

    def let_expire(self, client: int) -> None:
        """Let time run until the silent client's session ends; others have longer ones."""
        while self.is_open(client):
            deadline_ms = self.server.next_deadline_ms()
            assert deadline_ms is not None
            self.now_ms = deadline_ms
            self.server.tick(deadline_ms)
            self._flush()
        self.server.check()

    def is_open(self, client: int) -> bool:
        return client in self._links

    def _deliver(self, client: int, link: _SimulatedLink, data: bytes) -> None:
        for received in link.server_wire.receive_data(data):
            self.now_ms += 1
            match received:
                case req.ConnectRequest():
                    link.connection = self.server.connect(received, self.now_ms)
                    self._clients[link.connection] = client, link
                case Incoming(xid, request):
                    assert link.connection is not None
                    self.server.handle(link.connection, xid, request, self.now_ms)
                case ProtocolProblem():
                    if link.connection is not None:
                        self.server.disconnect(link.connection)
                    self._hand_over(client, link, [Closed()])
            self._flush()

    def _flush(self) -> None:
        for connection, messages in self.server.take_output():
            self._hand_over(*self._clients[connection], messages)

    def _hand_over(self, client: int, link: _SimulatedLink, messages: Sequence[Outgoing]) -> None:
        stream = self.streams[client]
        for message in messages:
            if isinstance(message, Closed):
                stream.append(message)
                if self._links.get(client) is link:
                    del self._links[client]
            else:
                data = link.server_wire.encode(message)
                stream.extend(link.client_wire.receive_data(data))


def ends_connection(last: Message, asked: Asked) -> bool:
    """Whether the server closes the connection after this reply (§1.4, §1.5)."""
    opcode = asked.opcode if isinstance(asked, Raw) else BY_REQUEST[asked.__class__].opcode
    return isinstance(last, Reply) and ((last.error in (-6, -115) and opcode != 16) or opcode == -11)
