"""Recording proxy: it forwards bytes unchanged, and can cut connections."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

from tests.transcripts.transcript import Streams
from tests.waiting import PATIENCE_S, in_thread

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType


class RecordedConnection:
    """One connection through the proxy: two sockets and the bytes that each sent."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._ends = (client, server)
        self._to_server, self._to_client = bytearray(), bytearray()
        self._pumps = [
            in_thread(lambda: self._pump(client, server, self._to_server)),
            in_thread(lambda: self._pump(server, client, self._to_client)),
        ]

    def _pump(self, source: socket.socket, target: socket.socket, kept: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                kept += data
                target.sendall(data)
        self.cut()

    def cut(self) -> None:
        """End it for both sides."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def finished(self) -> Streams:
        """All that passed, once it is at its end."""
        self.cut()
        for pump in self._pumps:
            pump.result(PATIENCE_S)
        for end in self._ends:
            end.close()
        return Streams(bytes(self._to_server), bytes(self._to_client))


class RecordingProxy:
    """Stands before the server at `port`.

    Attributes:
        hosts: where it listens, as a client's hosts.
    """

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._connections: list[RecordedConnection] = []
        self.address: tuple[str, int] = self._listener.getsockname()
        self.hosts = "{}:{}".format(*self.address)
        self._accepting: Future[None] = in_thread(self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                with self._lock:
                    self._connections.append(RecordedConnection(client, server))

    def cut(self) -> None:
        """Cut the open connections; new ones are accepted."""
        with self._lock:
            for connection in self._connections:
                connection.cut()

    def finished(self) -> list[Streams]:
        """Cut all connections and return the recorded bytes of each."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.result(PATIENCE_S)
        streams = [connection.finished() for connection in self._connections]
        self._connections = []
        # A client that died while it connected said nothing.
        return [one for one in streams if one.to_server]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.finished()
