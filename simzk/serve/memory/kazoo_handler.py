"""kazoo handler with connections in memory, and the sockets that it gives to kazoo.

Rules of this module:
  - kazoo is unmodified, because handlers are its own extension point. Only what touches the network differs from its
    `SequentialThreadingHandler`: create_connection, create_socket_pair, select, and the timeout of a select;
  - no file descriptor is opened, and no thread is started beside those that kazoo starts for every client;
  - a handler belongs to one client, and only the client's connection thread selects;
  - one thread reads a socket (kazoo's connection thread), any thread may write to it; every step between them is one
    atomic operation of a deque or a lock, so no lock is held during a wait;
  - data is appended before the signal is raised, and the signal is consumed before data is read, so that no arrival is
    missed;
  - data that was sent before the end is still read, as in TCP; then `recv` returns b"".
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from kazoo.handlers.threading import SequentialThreadingHandler

if TYPE_CHECKING:
    from collections.abc import Sequence


class Peer(Protocol):
    """Server's end of a `MemorySocket`."""

    session_id: int

    def receive(self, data: bytes) -> None: ...

    def hang_up(self) -> None: ...


class Signal:
    """Auto-reset event for one waiter: one `wait` consumes any number of `raise_` calls before it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def raise_(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            return  # already raised, and not yet consumed

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the signal; return False after `timeout_s` without it."""
        return self._lock.acquire(True, -1 if timeout_s is None else timeout_s)


class MemorySocket:
    """Replacement of kazoo's TCP socket: `send` runs the server in the calling thread, `recv` returns its output."""

    __slots__ = ("_address", "_chunk", "_chunks", "_closed", "_ended", "_peer", "_position", "_signal")

    def __init__(self, signal: Signal, address: tuple[str, int]) -> None:
        self._signal = signal
        self._address = address
        self._chunks: deque[bytes] = deque()
        self._chunk = b""
        self._position = 0
        self._ended = False
        self._closed = False
        self._peer: Peer | None = None

    def attach(self, peer: Peer) -> None:
        """Set the server's end."""
        assert self._peer is None, "a socket has one peer"
        self._peer = peer

    # Called by the server's end

    def deliver(self, data: bytes) -> None:
        """Append data for `recv`."""
        self._chunks.append(data)
        self._signal.raise_()

    def end(self) -> None:
        """Mark the end of the data: the server has closed its end."""
        self._ended = True
        self._signal.raise_()

    # Called by kazoo

    @property
    def readable(self) -> bool:
        return self._position < len(self._chunk) or bool(self._chunks) or self._ended

    def recv(self, size: int) -> bytes:
        start = self._position
        if start >= len(self._chunk):
            try:
                self._chunk = self._chunks.popleft()
            except IndexError:
                if self._ended:
                    return b""
                raise BlockingIOError(errno.EAGAIN, "nothing to read") from None
            start = 0
        data = self._chunk[start : start + size]
        self._position = start + len(data)
        return data

    def send(self, data: bytes | bytearray | memoryview) -> int:
        if self._closed:
            raise OSError(errno.EBADF, "this connection in memory is closed")
        assert self._peer is not None, "a socket is attached before it is used"
        self._peer.receive(bytes(data))
        return len(data)

    def sendall(self, data: bytes) -> None:
        self.send(data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._peer is not None:
                self._peer.hang_up()

    def shutdown(self, how: int) -> None:
        """Close both directions, whatever `how` is: kazoo calls this to break the connection."""
        self.end()
        self.close()

    def setblocking(self, flag: bool) -> None:
        """Do nothing: a read never waits but raises, a write never waits."""

    def getpeername(self) -> tuple[str, int]:
        """Return the address that kazoo connected to; kazoo sends four-letter words there."""
        return self._address


class WakePipe:
    """Replacement of the socket pair that wakes kazoo's connection thread."""

    __slots__ = ("_bytes", "_closed", "_signal")

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._bytes: deque[bytes] = deque()
        self._closed = False

    @property
    def readable(self) -> bool:
        return bool(self._bytes)

    def send(self, data: bytes) -> int:
        if self._closed:
            raise OSError(errno.EBADF, "the client is closed")
        self._bytes.append(data)
        self._signal.raise_()
        return len(data)

    def recv(self, size: int) -> bytes:
        assert size == 1, "kazoo reads one byte for each request"
        try:
            return self._bytes.popleft()
        except IndexError:
            raise BlockingIOError(errno.EAGAIN, "nothing to read") from None

    def getsockname(self) -> str:
        """Return the name of a socket pair, which is empty."""
        return ""

    def close(self) -> None:
        self._closed = True


class Listener(Protocol):
    """Server that a handler connects to."""

    def accept(self, socket: MemorySocket) -> Peer | None:
        """Return the server's end of a new connection; None if the server is closed."""

    def seconds_to_deadline(self) -> float | None:
        """Return how long a client may sleep before `tick` has something to do; None if for ever."""

    def tick(self) -> None:
        """Process what is due."""


class MemoryHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Handler that connects one kazoo client to a server in this process.

    Args:
        listener: the server.
    """

    name = "simzk_memory_handler"

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener
        self._signal = Signal()
        self._peer: Peer | None = None
        self._earlier_session_id = 0

    @property
    def listener(self) -> Listener:
        """Server that this handler connects to."""
        return self._listener

    @property
    def session_id(self) -> int:
        """Id of the client's session, which outlives its connections; 0 before the first."""
        return (self._peer.session_id if self._peer is not None else 0) or self._earlier_session_id

    def create_connection(self, address: tuple[str, int], **options: object) -> MemorySocket:
        """Connect to the server, whatever the address.

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
        """Return one object as both ends: it reads what was sent into it."""
        pipe = WakePipe(self._signal)
        return pipe, pipe

    def select(
        self,
        readers: Sequence[MemorySocket | WakePipe],
        writers: Sequence[MemorySocket],
        _exceptional: Sequence[object],
        timeout_s: float | None = None,
    ) -> tuple[list[MemorySocket | WakePipe], Sequence[MemorySocket], list[object]]:
        """Wait like `select.select`: memory is always writable; to read, wait for the signal."""
        if writers:
            return [], writers, []
        ready = [reader for reader in readers if reader.readable]
        give_up_at_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not ready and self._wait(give_up_at_s):
            ready = [reader for reader in readers if reader.readable]
        return ready, [], []

    def _wait(self, give_up_at_s: float | None) -> bool:
        """Wait for the signal or the server's next deadline; return False once `give_up_at_s` has passed."""
        deadline_s = self._listener.seconds_to_deadline()
        left_s = None if give_up_at_s is None else give_up_at_s - time.monotonic()
        if deadline_s is not None and (left_s is None or deadline_s < left_s):
            if not self._signal.wait(max(deadline_s, 0)):
                self._listener.tick()
            return True
        return self._signal.wait(left_s if left_s is None else max(left_s, 0))
