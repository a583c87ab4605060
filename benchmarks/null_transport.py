"""kazoo over a transport that does nothing: each request is answered with bytes that were made beforehand.

What kazoo itself costs, threads and all: the measure for what a server in memory adds to it. The answer knows of a
request its xid and its opcode, nothing else. It comes on either of two transports: the one in memory that simzk has,
and a pair of sockets, which is what a kazoo client with its own handler would wait on.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from typing import TYPE_CHECKING

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler

from simzk.serve.memory import MemoryHandler
from simzk.wire.frames import FrameBuffer

if TYPE_CHECKING:
    from simzk.serve.memory import MemorySocket

_HEADER = struct.Struct(">iqi")
_LENGTH = struct.Struct(">i")
_XID_AND_OPCODE = struct.Struct(">ii")
_STAT = struct.Struct(">qqqqiiiqiiq").pack(1, 1, 0, 0, 0, 0, 0, 0, 8, 0, 1)


def _text(text: bytes) -> bytes:
    return _LENGTH.pack(len(text)) + text


_CONNECTED = struct.pack(">iiqi", 0, 10_000, 1, 16) + b"\0" * 16 + b"\0"
_BODIES = {
    1: _text(b"/bench/n0000000000"),
    2: b"",
    3: _STAT,
    4: _text(b"x" * 8) + _STAT,
    5: _STAT,
    8: _LENGTH.pack(10) + b"".join(_text(b"n%010d" % i) for i in range(10)),
    12: _LENGTH.pack(10) + b"".join(_text(b"n%010d" % i) for i in range(10)) + _STAT,
    -11: b"",
}


class Answers:
    """Prepared replies to the requests of one connection."""

    def __init__(self) -> None:
        self._connected = False

    def to(self, frame: bytes | memoryview) -> bytes:
        if not self._connected:
            self._connected = True
            reply = _CONNECTED
        else:
            xid, opcode = _XID_AND_OPCODE.unpack_from(frame)
            reply = _HEADER.pack(xid, 1, 0) + _BODIES.get(opcode, b"")
        return _LENGTH.pack(len(reply)) + reply


class NullPeer:
    """Answers every request at once, in memory: under a lock and frame by frame, as any transport must."""

    def __init__(self, socket: MemorySocket) -> None:
        self.session_id = 1
        self._socket = socket
        self._lock = threading.Lock()
        self._frames = FrameBuffer(sys.maxsize)
        self._answers = Answers()

    def receive(self, data: bytes) -> None:
        with self._lock:
            for frame in self._frames.receive(data):
                self._socket.deliver(self._answers.to(frame))

    def hang_up(self) -> None:
        self._socket.end()


class NullListener:
    """Accepts every connection."""

    def accept(self, socket: MemorySocket) -> NullPeer:
        return NullPeer(socket)

    def seconds_to_deadline(self) -> None:
        return None

    def tick(self) -> None:
        raise AssertionError("nothing is ever due")

    def answer_word(self, data: bytes) -> bytes | None:
        return None


class NullSocket:
    """One end of a socket pair; the sending thread writes the reply to the other end."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._answers = Answers()
        self.fileno, self.recv, self.setblocking = self._near.fileno, self._near.recv, self._near.setblocking

    def send(self, data: memoryview) -> int:
        self._far.sendall(self._answers.to(data[_LENGTH.size :]))
        return len(data)

    def close(self) -> None:
        self._near.close()
        self._far.close()


class NullSocketHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's own handler, with connections to a `NullSocket`."""

    def create_connection(self, address: tuple[str, int], **options: object) -> NullSocket:
        return NullSocket()


def null_client() -> KazooClient:
    """Return an unmodified kazoo client of a server in memory that does nothing."""
    return KazooClient(handler=MemoryHandler(NullListener()))


def null_socket_client() -> KazooClient:
    """Return an unmodified kazoo client of a server behind a socket pair that does nothing."""
    return KazooClient(handler=NullSocketHandler())
