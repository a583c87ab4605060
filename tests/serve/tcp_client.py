"""Client for tests of the TCP server: blocking sockets, frames of our own client codec, no retries."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Self

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Closed, ConnectResponse, Reply, WatchedEvent
from tests.waiting import PATIENCE_S
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

Message = ConnectResponse | Reply | WatchedEvent | Closed


class TcpClient:
    """One connection to a port of this machine, by TLS if there is a context."""

    def __init__(self, port: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection((host, port), PATIENCE_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.wire = ClientConnection()
        self._xid = 0
        self._read: list[Message] = []

    def connect(self, timeout_ms: int = 10_000, session: ConnectResponse | None = None) -> ConnectResponse:
        """Request a new session, or resume one."""
        session_id, password = (0, None) if session is None else (session.session_id, session.password)
        self.socket.sendall(self.wire.connect(req.ConnectRequest(0, 0, timeout_ms, session_id, password, False)))
        answer = self.next()
        assert isinstance(answer, ConnectResponse)
        return answer

    def frames(self, *requests: req.Request) -> bytes:
        """Encode requests with the next xids."""
        out = b""
        for request in requests:
            self._xid += 1
            out += self.wire.request(self._xid, request)
        return out

    def send(self, *requests: req.Request) -> None:
        """Send requests at once."""
        self.socket.sendall(self.frames(*requests))

    def next(self) -> Message:
        """Return the next message, or Closed."""
        while not self._read:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                return Closed()
            self._read += self.wire.receive_data(data)
        return self._read.pop(0)

    def ask(self, request: req.Request) -> Reply:
        """Send one request and return its reply."""
        self.send(request)
        reply = self.next()
        assert isinstance(reply, Reply)
        return reply

    def rest(self) -> bytes:
        """Return all bytes until the server closes."""
        data = b""
        try:
            while chunk := self.socket.recv(1 << 16):
                data += chunk
        except ConnectionResetError:
            pass
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()


def word(port: int, text: bytes, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> str:
    """Return the answer to a four-letter word."""
    with TcpClient(port, host, tls) as client:
        client.socket.sendall(text)
        return client.rest().decode()


class Clients:
    """Two clients with ephemerals, watches of both tables and an unanswered request."""

    def __init__(self, port: int) -> None:
        self.first, self.second = TcpClient(port), TcpClient(port)
        for client in (self.first, self.second):
            client.connect(timeout_ms=10_000)
        for request in (
            req.Create("/words", b"", req.OPEN_ACL, 0),
            req.Create("/words/e", b"x", req.OPEN_ACL, 1),
            req.GetData("/words/e", True),
            req.GetChildren("/words", True),
        ):
            assert self.first.ask(request).error == 0
        self.second.ask(req.Exists("/words/e", True))
        self.second.ask(req.Exists("/words/missing", True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.first, self.second:
            # What they leave must be gone for whoever comes next; the answers do not matter.
            self.first.send(req.Delete("/words/e", -1), req.Delete("/words", -1), req.CloseSession())
            self.first.rest()
            self.second.send(req.CloseSession())
            self.second.rest()
