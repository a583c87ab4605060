"""Proxies in front of a real ZooKeeper: one port for each client, so that its sessions and requests have a name.

Rules of this module:
  - bytes pass unchanged; what a client requested is decoded beside them;
  - a session belongs to the port through which it was opened first;
  - a muted connection still receives, while what its client sends is lost.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

from simzk.wire.connections import Incoming, ServerConnection
from simzk.wire.frames import CONNECT_RESPONSE, FrameBuffer

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from simzk.zookeeper.requests import Request

_CHUNK_BYTES = 1 << 16
_RESPONSE_BYTES = 1 << 20


class Proxies:
    """Ports that lead to one server, each with the name of its client.

    Args:
        port: port of the server.
        names: names of the clients.

    Attributes:
        ports: port by name.
        sessions: `NAME#K` of each session by its id; the K-th connection of all.
        requests: requests by session and xid.
    """

    def __init__(self, port: int, names: list[str]) -> None:
        self._server = ("127.0.0.1", port)
        self._stack = contextlib.ExitStack()
        self._count = 0
        self._open: set[socket.socket] = set()
        self._clients: dict[str, set[socket.socket]] = {name: set() for name in names}
        self._muted: set[socket.socket] = set()
        self._listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in names}
        self.ports = {name: int(listener.getsockname()[1]) for name, listener in self._listeners.items()}
        self.sessions: dict[int, str] = {}
        self.requests: dict[tuple[int, int], Request] = {}

    def __enter__(self) -> Self:
        for name, listener in self._listeners.items():
            threading.Thread(target=self._accept, args=(name, listener), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (*self._listeners.values(), *tuple(self._open)):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def mute(self, name: str) -> None:
        """Lose what a client sends through its present connections; later ones are whole."""
        self._muted |= self._clients[name]

    def _accept(self, name: str, listener: socket.socket) -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            self._clients[name].add(client)
            self._count += 1
            tap = _Tap(self, f"{name}#{self._count}")
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.add(one)
            for source, target, note in ((client, server, tap.note_sent), (server, client, tap.note_received)):
                threading.Thread(target=self._pump, args=(source, target, note), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, note: Callable[[bytes], None]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if source not in self._muted:
                    note(data)
                    target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.discard(source)
        source.close()


class _Tap:
    """Session and requests of one connection."""

    def __init__(self, proxies: Proxies, who: str) -> None:
        self._proxies = proxies
        self._who = who
        self._session: int | None = None
        self._server_side: ServerConnection = ServerConnection()
        self._responses = FrameBuffer(_RESPONSE_BYTES)

    def note_sent(self, data: bytes) -> None:
        """Take note of bytes from the client, before the server has them."""
        for message in self._server_side.receive_data(data):
            # A client sends its first request after the response that names its session.
            if isinstance(message, Incoming) and self._session is not None:
                self._proxies.requests[self._session, message.xid] = message.request

    def note_received(self, data: bytes) -> None:
        """Take note of bytes from the server, before the client has them."""
        if self._session is None:
            for frame in self._responses.receive(data)[:1]:
                self._session = CONNECT_RESPONSE.read(frame, 0)[0].session_id
                self._proxies.sessions.setdefault(self._session, self._who)
