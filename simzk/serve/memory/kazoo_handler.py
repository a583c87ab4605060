"""The client's end of a connection in memory: what kazoo takes for a socket, without a file descriptor.

Rules of this module:
  - one thread reads an endpoint (kazoo's connection thread), any thread may write to it; every step between them is
    one atomic operation of a deque or a lock, so no lock is held while anybody waits;
  - data is appended before the signal is raised, and the signal is consumed before data is looked for, so that no
    arrival is lost;
  - what a peer sent before it closed is still read, as in TCP; then `recv` answers b"".

A kazoo handler whose connections stay in memory: kazoo itself is unmodified, for a handler is its own extension.

Rules of this module:
  - only the four things that touch the network differ from kazoo's `SequentialThreadingHandler`: create_connection,
    create_socket_pair, select, and what time a select may take;
  - no file descriptor is made, and no thread beside those that kazoo makes for every client;
  - a handler belongs to one client, whose connection thread is the only one that selects.
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
    """The other end of a `MemorySocket`."""

    session_id: int

    def receive(self, data: bytes) -> None: ...

    def hang_up(self) -> None: ...


class Signal:
    """An auto-reset event for one waiter: `wait` consumes what any number of `raise_` calls left."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def raise_(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            return  # raised already and not yet consumed

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the signal; False when `timeout_s` went by without it."""
        return self._lock.acquire(True, -1 if timeout_s is None else timeout_s)


class MemorySocket:
    """What kazoo takes for its TCP socket: `send` runs the server in the calling thread, `recv` takes what it left."""

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
        assert self._peer is None, "an endpoint has one peer"
        self._peer = peer

    # What the server's end calls.

    def deliver(self, data: bytes) -> None:
        """Hand `data` to whoever reads this endpoint."""
        self._chunks.append(data)
        self._signal.raise_()

    def end(self) -> None:
        """Nothing follows: the peer has closed its end."""
        self._ended = True
        self._signal.raise_()

    # What kazoo calls.

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
        assert self._peer is not None, "an endpoint is attached before it is used"
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
        """Both ways at once, whatever is asked: who does this means to break the connection."""
        self.end()
        self.close()

    def setblocking(self, flag: bool) -> None:
        """Nothing to set: a read that would wait raises, a write never waits."""

    def getpeername(self) -> tuple[str, int]:
        """The address that was asked for, as a four-letter word is sent to the connection's peer."""
        return self._address


class WakePipe:
    """What kazoo takes for the socket pair that wakes its connection thread: a count of bytes not yet read."""

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
        """The name of either end of a socket pair: there is none."""
        return ""

    def close(self) -> None:
        self._closed = True


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
