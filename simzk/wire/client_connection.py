"""Client end of a connection, without IO: encodes requests to bytes, decodes received bytes to replies and events.

Counterpart of `server_connection`; tests use it with simzk and with real servers.
"""

from __future__ import annotations

from collections import deque

from simzk.wire.frames import (
    CONNECT_REQUEST,
    CONNECT_RESPONSE,
    NOTIFICATION_XID,
    REPLY_HEADER,
    REQUEST_HEADER,
    SYNC_CONNECTED,
    WATCHER_EVENT,
    FrameBuffer,
    RequestHeader,
    framed,
    new_frame,
)
from simzk.wire.multi import read_results
from simzk.wire.operations import BY_OPCODE, BY_REQUEST
from simzk.zookeeper import requests as req
from simzk.zookeeper.jute import MalformedError
from simzk.zookeeper.replies import ConnectResponse, EventType, Reply, WatchedEvent

_UNLIMITED = (1 << 31) - 1
"""Limit of replies, which the server does not limit (§1.4)."""

_REPLY_HEADER_BYTES = 16
_CREATE_SESSION_OPCODE = BY_REQUEST[req.CreateSession].opcode
_RESPONSE_VERSION = 0
"""First field of a connect response, in the place of a reply's xid."""


class ClientConnection:
    """Connection as seen by a client."""

    def __init__(self) -> None:
        self._frames = FrameBuffer(_UNLIMITED)
        self._connected = False
        self._unanswered: deque[int] = deque()

    def connect(self, request: req.ConnectRequest) -> bytes:
        """Return the bytes of a connect request."""
        out = new_frame()
        CONNECT_REQUEST.write(out, request)
        return framed(out)

    def request(self, xid: int, request: req.Request) -> bytes:
        """Return the bytes of a request."""
        operation = BY_REQUEST[request.__class__]
        return self.request_bytes(xid, operation.opcode, operation.codec.encode(request))

    def request_bytes(self, xid: int, opcode: int, body: bytes) -> bytes:
        """Return the bytes of a request with an encoded body, which may be malformed."""
        out = new_frame()
        REQUEST_HEADER.write(out, RequestHeader(xid, opcode))
        out += body
        self._unanswered.append(opcode)
        return framed(out)

    def _awaits_session(self) -> bool:
        return bool(self._unanswered) and self._unanswered[0] == _CREATE_SESSION_OPCODE

    def receive_data(self, data: bytes) -> list[ConnectResponse | Reply | WatchedEvent]:
        """Return the messages that `data` completes, in order.

        Raises:
            MalformedError: the bytes are no valid message, or have more than its body.
        """
        return [self._decode(frame) for frame in self._frames.receive(data)]

    def _decode(self, frame: bytes) -> ConnectResponse | Reply | WatchedEvent:
        if not self._connected:
            self._connected = True
            response, at = CONNECT_RESPONSE.read(frame, 0)
            return _whole(response, at, frame)
        xid, zxid, error = REPLY_HEADER.decode(frame)
        if xid == NOTIFICATION_XID and (not self._unanswered or len(frame) > _REPLY_HEADER_BYTES):
            (kind, state, path), at = WATCHER_EVENT.read(frame, _REPLY_HEADER_BYTES)
            if error or state != SYNC_CONNECTED or path is None:
                raise MalformedError(f"a watch event has error {error}, state {state}, path {path}")
            return _whole(WatchedEvent(EventType(kind), path, zxid), at, frame)
        if xid == _RESPONSE_VERSION and self._awaits_session() and len(frame) != _REPLY_HEADER_BYTES:
            self._unanswered.popleft()
            response, at = CONNECT_RESPONSE.read(frame, 0)
            return _whole(response, at, frame)
        if not self._unanswered:
            raise MalformedError(f"a reply has xid {xid}, but no request is unanswered")
        operation = BY_OPCODE.get(self._unanswered.popleft())
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
    if at != len(frame):
        raise MalformedError(f"{len(frame) - at} bytes follow {message}")
    return message
