"""Client's end of a connection, without IO, for tests of simzk and of real servers.

The bytes of a reply to a multi say themselves what they are: the type of each result decides how it is decoded.
"""

from __future__ import annotations

from collections import deque

from simzk.wire.frames import (
    CONNECT_REQUEST,
    CONNECT_RESPONSE,
    MULTI_HEADER,
    NOTIFICATION_XID,
    REQUEST_HEADER,
    SYNC_CONNECTED,
    WATCHER_EVENT,
    FrameBuffer,
    framed,
)
from simzk.wire.operations import BY_OPCODE, BY_REQUEST, READ_PARTS, WRITE_PARTS
from simzk.zookeeper import requests as req
from simzk.zookeeper.jute import INT, Codec, MalformedError, packed
from simzk.zookeeper.replies import ConnectResponse, EventType, OperationResult, Reply, WatchedEvent

REPLY_HEADER: Codec[tuple[int, int, int]] = packed(lambda *fields: fields, ">iqi")
"""Header of every reply: xid, zxid and error (§1.1)."""
_REPLY_HEADER_BYTES = 16
_UNLIMITED = (1 << 31) - 1
"""Limit of replies, which the server does not limit (§1.4)."""

_CREATE_SESSION_OPCODE = BY_REQUEST[req.CreateSession].opcode
_RESPONSE_VERSION = 0
"""First field of a connect response, in the place of a reply's xid."""


class ClientConnection:
    """Connection as seen by a client; tests use it with simzk and with real servers."""

    def __init__(self) -> None:
        self._frames = FrameBuffer(_UNLIMITED)
        self._connected = False
        self._unanswered: deque[int] = deque()

    def connect(self, request: req.ConnectRequest) -> bytes:
        """Return the bytes of a connect request."""
        assert not self._connected, "a connection begins with its connect request"
        assert not self._unanswered
        return framed(CONNECT_REQUEST.encode(request))

    def request(self, xid: int, request: req.Request) -> bytes:
        """Return the bytes of a request."""
        operation = BY_REQUEST[request.__class__]
        return self.request_bytes(xid, operation.opcode, operation.codec.encode(request))

    def request_bytes(self, xid: int, opcode: int, body: bytes) -> bytes:
        """Return the bytes of a request with an encoded body, which may be malformed."""
        self._unanswered.append(opcode)
        return framed(REQUEST_HEADER.encode((xid, opcode)) + body)

    def receive_data(self, data: bytes) -> list[ConnectResponse | Reply | WatchedEvent]:
        """Return the messages that `data` completes, in order.

        Raises:
            MalformedError: the bytes are no valid message, or have more than its body.
        """
        return [self._decode(frame) for frame in self._frames.receive(data)]

    def _decode(self, frame: bytes) -> ConnectResponse | Reply | WatchedEvent:
        if not self._connected:
            self._connected = True
            return _whole(*CONNECT_RESPONSE.read(frame, 0), frame)
        xid, zxid, error = REPLY_HEADER.decode(frame)
        if xid == NOTIFICATION_XID and (not self._unanswered or len(frame) > _REPLY_HEADER_BYTES):
            (kind, state, path), at = WATCHER_EVENT.read(frame, _REPLY_HEADER_BYTES)
            if error or state != SYNC_CONNECTED or path is None:
                raise MalformedError(f"a watch event has error {error}, state {state}, path {path}")
            return _whole(WatchedEvent(EventType(kind), path, zxid), at, frame)
        if not self._unanswered:
            raise MalformedError(f"a reply has xid {xid}, but no request is unanswered")
        opcode = self._unanswered.popleft()
        if xid == _RESPONSE_VERSION and opcode == _CREATE_SESSION_OPCODE and len(frame) != _REPLY_HEADER_BYTES:
            return _whole(*CONNECT_RESPONSE.read(frame, 0), frame)
        operation = BY_OPCODE.get(opcode)
        if error and len(frame) == _REPLY_HEADER_BYTES:
            return Reply(xid, zxid, error, None)
        if operation is None:
            raise MalformedError(f"the reply to xid {xid} has a body, but its opcode is unknown")
        read = read_results if operation.reply is None else operation.reply.read
        body, at = read(frame, _REPLY_HEADER_BYTES)
        return _whole(Reply(xid, zxid, error, body), at, frame)


def _whole(
    message: ConnectResponse | Reply | WatchedEvent, at: int, frame: bytes
) -> ConnectResponse | Reply | WatchedEvent:
    assert at <= len(frame), "nothing is read behind a frame"
    if at != len(frame):
        raise MalformedError(f"{len(frame) - at} bytes follow {message}")
    return message


_ERROR_TYPE = -1
_PARTS = (*WRITE_PARTS.values(), *READ_PARTS.values())
_RESULTS = {part.result_type: part.result for part in _PARTS}
assert all(_RESULTS[part.result_type] is part.result for part in _PARTS)


def read_results(data: bytes, at: int) -> tuple[list[OperationResult], int]:
    """Return the results in the body of a reply, and the offset behind them."""
    results = []
    header, at = MULTI_HEADER.read(data, at)
    while not header.done:
        if header.type == _ERROR_TYPE:
            error, at = INT.read(data, at)
            if error != header.error:
                raise MalformedError("a result and its header have different errors")
            results.append(OperationResult(error, None))
        elif header.type in _RESULTS:
            body, at = _RESULTS[header.type].read(data, at)
            results.append(OperationResult(0, list(body) if header.type == READ_PARTS[req.GetChildren].type else body))
        else:
            raise MalformedError(f"result type {header.type} is unknown")
        header, at = MULTI_HEADER.read(data, at)
    return results, at
