"""The client's end of a connection in memory: what kazoo takes for a socket, without a file descriptor.

Rules of this module:
  - one thread reads an endpoint (kazoo's connection thread), any thread may write to it; every step between them is
    one atomic operation of a deque or a lock, so no lock is held while anybody waits;
  - data is appended before the signal is raised, and the signal is consumed before data is looked for, so that no
    arrival is lost;
  - what a peer sent before it closed is still read, as in TCP; then `recv` answers b"".
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from typing import Protocol


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
