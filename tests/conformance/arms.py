"""How the differential test speaks to a server, and the arm that does so over TCP: to a real ZooKeeper, or to ours.

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

from simzk.wire.operations import BY_REQUEST
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Closed, Code, ConnectResponse, Reply, WatchedEvent
from tests.waiting import PATIENCE_S
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.zookeeper.server import Server

Message = ConnectResponse | Reply | WatchedEvent | Closed
REPLY_TIMEOUT_S = PATIENCE_S
# What a client has not read stays with the server, but for this.
RECEIVE_BUFFER_BYTES = 1 << 16


@dataclass(frozen=True)
class Raw:
    """A request whose body is given as bytes, for those that do not parse."""

    opcode: int
    body: bytes


@dataclass(frozen=True)
class Numbered:
    """A request with an xid of its own, instead of the next in turn."""

    xid: int
    asked: req.Request | Raw


Asked = req.Request | Raw
Step = Asked | Numbered


class Arm(Protocol):
    """Server under comparison, as the differential test uses it."""

    streams: dict[int, list[Message]]

    def connect(self, client: int, request: req.ConnectRequest) -> None:
        """A new connection of the client; an earlier one is left as it is."""

    def greet(self, client: int, data: bytes) -> None:
        """A new connection of a client that has none, begun with bytes over which the server ends it."""

    def send(self, client: int, batch: list[tuple[int, Asked]]) -> None:
        """Requests at once, with their xids; back when they are answered or the connection is closed."""

    def drop(self, client: int, unfinished: bytes = b"") -> None:
        """Cut the client's connection, behind the beginning of a request."""

    def break_off(self, client: int, data: bytes) -> None:
        """Send bytes over which the server ends the connection, and wait until it does."""

    def is_open(self, client: int) -> bool: ...


class SimulatedSide(Arm, Protocol):
    """Additional operations on a simzk server."""

    times_ms: dict[int, int]

    @property
    def server(self) -> Server: ...

    def ask(self, client: int, xid: int, asked: Asked) -> None:
        """One request, if the connection is still there; back when it is answered or the connection is closed."""


def encode(wire: ClientConnection, xid: int, asked: Asked) -> bytes:
    if isinstance(asked, Raw):
        return wire.request_bytes(xid, asked.opcode, asked.body)
    return wire.request(xid, asked)


@dataclass
class _Link:
    socket: socket.socket
    wire: ClientConnection = field(default_factory=ClientConnection)


class TcpArm:
    """A server at a port of this machine, which answers within so many seconds, if it does.

    Attributes:
        late: by client, the events that came between the reply to its closeSession and the end of its connection; a
            real server may send some, as its threads happen to run, so they are kept apart from `streams`.
    """

    def __init__(self, port: int, patience_s: float = REPLY_TIMEOUT_S) -> None:
        self._port = port
        self._patience_s = patience_s
        self._links: dict[int, _Link] = {}
        self.streams: dict[int, list[Message]] = {}
        self.late: dict[int, list[WatchedEvent]] = {}

    def _connected(self) -> socket.socket:
        """Return a connected socket."""
        opened = socket.socket()
        opened.settimeout(self._patience_s)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.connect(("127.0.0.1", self._port))
        return opened

    def _open(self) -> _Link:
        return _Link(self._connected())

    def greet(self, client: int, data: bytes) -> None:
        link = self._open()
        link.socket.sendall(data)
        self._read_until_closed(link, self.streams.setdefault(client, []))

    def connect(self, client: int, request: req.ConnectRequest) -> None:
        kicked = self._links.get(client)
        self._links[client] = link = self._open()
        link.socket.sendall(link.wire.connect(request))
        old = self.streams.setdefault(client, [])
        if kicked is not None:
            # Moving a session to a new connection closes the old one without any message.
            self._read_until_closed(kicked, old)
        start = len(old)
        self._read(client, ConnectResponse, 1)
        answers = [message for message in old[start:] if isinstance(message, ConnectResponse)]
        if answers and not answers[0].session_id and self.is_open(client):
            self._read_until_closed(self._links.pop(client), old)

    def send(self, client: int, batch: list[tuple[int, Asked]]) -> None:
        link = self._links[client]
        link.socket.sendall(b"".join(encode(link.wire, xid, asked) for xid, asked in batch))
        self._read(client, (Reply, ConnectResponse), len(batch))
        stream = self.streams[client]
        if batch and self.is_open(client) and ends_connection(stream[-1], batch[-1][1]):
            self._read_until_closed(self._links.pop(client), stream)

    def volley(self, batches: Mapping[int, list[tuple[int, Asked]]]) -> None:
        """Requests of many clients at once; back when all are answered, or their connection is closed.

        A `CloseSession` comes last in its batch: the end of the connection is then waited for, and `late` has what
        came in between.
        """
        awaited = {client: self._awaited(batch) for client, batch in batches.items()}
        with selectors.DefaultSelector() as selector:
            for client in batches:
                selector.register(self._links[client].socket, selectors.EVENT_READ, client)
            for client, batch in batches.items():
                link = self._links[client]
                link.socket.sendall(b"".join(encode(link.wire, xid, asked) for xid, asked in batch))
            while awaited:
                ready = selector.select(self._patience_s)
                if not ready:
                    raise TimeoutError(f"the real server owes so many answers to its clients: {awaited}")
                for key, _ in ready:
                    client = key.data
                    awaited[client] -= self._read_of_volley(client, batches[client])
                    if awaited[client] == 0 or client not in self._links:
                        del awaited[client]
                        selector.unregister(key.fileobj)

    @staticmethod
    def _awaited(batch: list[tuple[int, Asked]]) -> int:
        """How many answers are waited for: one more than requests, which never comes, if the connection is to end."""
        return len(batch) + is_close(batch[-1][1])

    def _read_of_volley(self, client: int, batch: list[tuple[int, Asked]]) -> int:
        """Read once from a client's connection; return how many answers came."""
        link, stream = self._links[client], self.streams[client]
        data = self._receive(link)
        messages = link.wire.receive_data(data)
        stream.extend(messages)
        if not data:
            if is_close(batch[-1][1]):
                self.late[client] = _taken_events(stream)
            self._end(self._links.pop(client), stream)
        return sum(isinstance(message, Reply) for message in messages)

    def drop(self, client: int, unfinished: bytes = b"") -> None:
        link = self._links.pop(client)
        link.socket.sendall(unfinished)
        link.socket.close()

    def break_off(self, client: int, data: bytes) -> None:
        link = self._links.pop(client)
        link.socket.sendall(data)
        self._read_until_closed(link, self.streams[client])

    def give_up(self, client: int) -> bool:
        """Whether the client has asked what nobody answers; it does not wait for that any more."""
        return client in self._links and forget_unanswered(self._links[client].wire)

    def await_events(self, client: int, count: int) -> None:
        """Read until so many events have come."""
        self._read(client, WatchedEvent, count)

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

    def _read(self, client: int, kind: type | tuple[type, ...], count: int) -> None:
        """Read until so many messages of a kind, or the end, have come; others may come between and behind."""
        link, stream = self._links[client], self.streams[client]
        while count > 0:
            data = self._receive(link)
            if not data:
                self._end(link, stream)
                del self._links[client]
                return
            messages = link.wire.receive_data(data)
            stream.extend(messages)
            count -= sum(isinstance(message, kind) for message in messages)

    def _read_until_closed(self, link: _Link, stream: list[Message]) -> None:
        while data := self._receive(link):
            stream.extend(link.wire.receive_data(data))
        self._end(link, stream)

    @staticmethod
    def _receive(link: _Link) -> bytes:
        """Return the received bytes; empty if the server closed the connection, with or without a reset."""
        try:
            return link.socket.recv(1 << 16)
        except ConnectionResetError:
            return b""

    def _end(self, link: _Link, stream: list[Message]) -> None:
        link.socket.close()
        stream.append(Closed())


def _taken_events(stream: list[Message]) -> list[WatchedEvent]:
    """The events at the end of a stream, which loses them."""
    taken: list[WatchedEvent] = []
    while stream and isinstance(last := stream[-1], WatchedEvent):
        taken.insert(0, last)
        del stream[-1]
    return taken


def forget_unanswered(wire: ClientConnection) -> bool:
    """Whether a client has asked what was not answered; it does not wait for that any more."""
    count = len(wire._unanswered)
    wire._unanswered.clear()
    return count > 0


def is_close(asked: Asked) -> bool:
    """Whether a request ends its session."""
    return opcode_of(asked) == BY_REQUEST[req.CloseSession].opcode


def opcode_of(asked: Asked) -> int:
    """The opcode of a request."""
    return asked.opcode if isinstance(asked, Raw) else BY_REQUEST[asked.__class__].opcode


def ends_connection(last: Message, asked: Asked) -> bool:
    """Whether the server closes the connection after this reply (§1.4, §1.5): it knows no such opcode, and no zxid
    then; a login failed; or the session is over."""
    return isinstance(last, Reply) and (
        (last.error == Code.UNIMPLEMENTED and last.zxid == -1) or last.error == Code.AUTH_FAILED or is_close(asked)
    )
