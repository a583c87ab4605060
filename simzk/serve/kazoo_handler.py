"""A kazoo handler whose connections stay in memory: kazoo itself is unmodified, for a handler is its own extension.

Rules of this module:
  - only the four things that touch the network differ from kazoo's `SequentialThreadingHandler`: create_connection,
    create_socket_pair, select, and what time a select may take;
  - no file descriptor is made, and no thread beside those that kazoo makes for every client;
  - a handler belongs to one client, whose connection thread is the only one that selects.
"""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, Protocol

from kazoo.handlers.threading import SequentialThreadingHandler

from simzk.serve.memory_socket import MemorySocket, Peer, Signal, WakePipe

if TYPE_CHECKING:
    from collections.abc import Sequence


class Listener(Protocol):
    """What a handler connects to."""

    def accept(self, socket: MemorySocket) -> Peer | None:
        """The server's end of a new connection; None where nobody listens."""

    def seconds_to_deadline(self) -> float | None:
        """How long a client may sleep before the server has something to do by itself; None: for ever."""

    def tick(self) -> None:
        """Let the server do what has become due."""


class MemoryHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Connects one kazoo client to a server in this process: `KazooClient(handler=zookeeper.handler())`."""

    name = "simzk_memory_handler"

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener
        self._signal = Signal()
        self._peer: Peer | None = None
        self._earlier_session_id = 0

    @property
    def listener(self) -> Listener:
        """The server that this handler's connections reach."""
        return self._listener

    @property
    def session_id(self) -> int:
        """The client's session, which outlives its connections; 0 before the first."""
        return (self._peer.session_id if self._peer is not None else 0) or self._earlier_session_id

    def create_connection(self, address: tuple[str, int], **options: object) -> MemorySocket:
        """Connect to the server, whatever address kazoo asks for.

        Raises:
            ConnectionRefusedError: the server is closed.
        """
        socket = MemorySocket(self._signal, address)
        peer = self._listener.accept(socket)
        if peer is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "this ZooKeeper is closed")
        self._earlier_session_id = self.session_id
        self._peer = peer
        socket.attach(peer)
        return socket

    def create_socket_pair(self) -> tuple[WakePipe, WakePipe]:
        """One object is both ends: what is sent into it is read from it."""
        pipe = WakePipe(self._signal)
        return pipe, pipe

    def select(
        self,
        readers: Sequence[MemorySocket | WakePipe],
        writers: Sequence[MemorySocket],
        _exceptional: Sequence[object],
        timeout_s: float | None = None,
    ) -> tuple[list[MemorySocket | WakePipe], Sequence[MemorySocket], list[object]]:
        """As `select.select`: memory can always be written; to read, wait for the signal."""
        if writers:
            return [], writers, []
        ready = [reader for reader in readers if reader.readable]
        give_up_at_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not ready and self._wait(give_up_at_s):
            ready = [reader for reader in readers if reader.readable]
        return ready, [], []

    def _wait(self, give_up_at_s: float | None) -> bool:
        """Wait for the signal or for the server's next deadline; False once `give_up_at_s` has passed."""
        deadline_s = self._listener.seconds_to_deadline()
        left_s = None if give_up_at_s is None else give_up_at_s - time.monotonic()
        if deadline_s is not None and (left_s is None or deadline_s < left_s):
            if not self._signal.wait(max(deadline_s, 0)):
                self._listener.tick()
            return True
        return self._signal.wait(left_s if left_s is None else max(left_s, 0))
