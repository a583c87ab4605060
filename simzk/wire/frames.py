"""Frames of a connection (a 4-byte length, then the body), and the records that requests and replies share (§1.1)."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from simzk.zookeeper.jute import BOOLEAN, BUFFER, INT, LONG, TEXT, Codec, MalformedError, packed, record, vector
from simzk.zookeeper.replies import ClientInfo, ConnectResponse
from simzk.zookeeper.requests import ConnectRequest
from simzk.zookeeper.sessions import password_of

_HEADER_BYTES = 4
_RESUMED = struct.Struct(">12xiqi16s")
"""Layout of a connect request behind the length of its frame: timeout, session id, length of the password, password."""
RESUMING_BYTES = _HEADER_BYTES + _RESUMED.size


def resumed_session(data: bytes) -> int:
    """Return the id of the session that a connect request at the start of some bytes resumes; 0 for none.

    >>> resumed_session(bytes(RESUMING_BYTES)), resumed_session(b"ruok")
    (0, 0)
    """
    if len(data) < RESUMING_BYTES:
        return 0
    _, session_id, length, password = _RESUMED.unpack_from(data, _HEADER_BYTES)
    assert isinstance(session_id, int)
    return session_id if length == len(password) and password == password_of(session_id) else 0


class FrameBuffer:
    """Buffer that cuts received bytes into whole frames.

    Args:
        max_bytes: length of the longest accepted frame.

    Attributes:
        pending: received part of an incomplete frame.

    >>> frames = FrameBuffer(100)
    >>> frames.receive(b"\\0\\0\\0\\2h"), frames.receive(b"i\\0\\0")
    ([], [b'hi'])
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.pending = b""

    def receive(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes.

        Raises:
            BadLengthError: a frame with a length that is not accepted; raised before its body arrives. The error
                has the whole frames before it.
        """
        buffer = self.pending + data if self.pending else data
        frames: list[bytes] = []
        at, end = 0, len(buffer)
        while end - at >= _HEADER_BYTES:
            length = int.from_bytes(buffer[at : at + _HEADER_BYTES], "big", signed=True)
            if not 0 <= length <= self._max_bytes:
                self.pending = b""
                raise BadLengthError(length, frames)
            behind = at + _HEADER_BYTES + length
            if behind > end:
                break
            frames.append(buffer[at + _HEADER_BYTES : behind])
            at = behind
        self.pending = buffer[at:]
        assert len(self.pending) < _HEADER_BYTES + self._max_bytes, "a whole frame is returned at once"
        return frames


class BadLengthError(MalformedError):
    """Frame with a length that is not accepted; `frames` are the whole frames before it."""

    def __init__(self, length: int, frames: list[bytes]) -> None:
        super().__init__(f"a frame of {length} bytes")
        self.length = length
        self.frames = frames


def framed(body: bytes) -> bytes:
    """Return the frame of a body."""
    assert body, "every message has a header or fields"
    return len(body).to_bytes(_HEADER_BYTES, "big") + body


def whole_frames(data: bytes) -> list[bytes]:
    """Return the frames of which `data` consists, each with its length.

    >>> whole_frames(framed(b"a") + framed(b"bc"))
    [b'\\x00\\x00\\x00\\x01a', b'\\x00\\x00\\x00\\x02bc']
    """
    frames, at = [], 0
    while at < len(data):
        end = at + _HEADER_BYTES + int.from_bytes(data[at : at + _HEADER_BYTES], "big")
        assert end <= len(data), "the last frame is incomplete"
        frames.append(data[at:end])
        at = end
    return frames


class MultiHeader(NamedTuple):
    """Header before each operation of a multi, and its end mark, in requests and replies (§1.6)."""

    type: int
    done: bool
    error: int


NOTIFICATION_XID = -1
SYNC_CONNECTED = 3

REQUEST_HEADER: Codec[tuple[int, int]] = packed(lambda *fields: fields, ">ii")
"""Header of every request: xid and opcode (§1.1)."""
WATCHER_EVENT: Codec[tuple[int, int, str | None]] = record(lambda *fields: fields, INT, INT, TEXT)
"""Watch event: type, state (always 3, SyncConnected) and path (§3)."""
MULTI_HEADER: Codec[MultiHeader] = packed(MultiHeader, ">i?i")
CLIENT_INFOS = vector(record(ClientInfo, TEXT, TEXT))
NAMES = vector(TEXT)


def with_optional_read_only(make: Any, *fields: Codec[Any]) -> Codec[Any]:
    """Return the codec of a connect record; clients before 3.4 neither send nor expect its last byte (§1.3)."""
    fixed = record(lambda *values: values, *fields)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values, at = fixed.read(data, at)
        if at >= len(data):
            return make(*values, None), at
        read_only, at = BOOLEAN.read(data, at)
        return make(*values, read_only), at

    def write(out: bytearray, value: Any) -> None:
        assert len(value) == len(fields) + 1, "the last field is the optional one"
        fixed.write(out, value[:-1])
        if value[-1] is not None:
            BOOLEAN.write(out, value[-1])

    return Codec(read, write)


CONNECT_REQUEST: Codec[ConnectRequest] = with_optional_read_only(ConnectRequest, INT, LONG, INT, LONG, BUFFER)
CONNECT_RESPONSE: Codec[ConnectResponse] = with_optional_read_only(ConnectResponse, INT, INT, LONG, BUFFER)
