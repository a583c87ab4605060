"""Server's end of a connection, without IO: bytes to requests, and replies to bytes.

Rules of this module:
  - the first frame is a connect request, every other frame a request (§1.1);
  - a malformed body is still a request (`Undecodable`), because the server answers it (§1.4);
  - bytes that close the connection without an answer are a `ProtocolProblem`, after which nothing is decoded;
  - replies have the order of requests, which decides the codec of a reply's body. A request that a fault plan leaves
    unanswered is skipped when the reply to a later one is encoded.

Source: NIOServerCnxn, ZooKeeperServer.processPacket.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from simzk.wire.frames import (
    CONNECT_REQUEST,
    CONNECT_RESPONSE,
    NOTIFICATION_XID,
    REQUEST_HEADER,
    SYNC_CONNECTED,
    WATCHER_EVENT,
    BadLengthError,
    FrameBuffer,
    framed,
)
from simzk.wire.operations import BY_REQUEST, NOTHING, request_codec, undecodable, write_results
from simzk.zookeeper import requests as req
from simzk.zookeeper.jute import STAT_LAYOUT, MalformedError
from simzk.zookeeper.operations import Kind, of_kind
from simzk.zookeeper.releases import NEWEST, Rules, rules_of
from simzk.zookeeper.replies import PING_XID, Closed, ConnectResponse, Outgoing, Reply, Stat, WatchedEvent

DEFAULT_MAX_BYTES = 0xFFFFF
_LENGTH_BYTES = 4
_REQUEST_HEADER_BYTES = 8
_REPLY_HEADER_BYTES = 16
# Length of a frame and its header, packed in one step.
_PREFIX = struct.Struct(">iii")
_PREFIX_BYTES, _unpack_prefix = _PREFIX.size, _PREFIX.unpack_from
_FRAMED_REPLY = struct.Struct(">iiqi")
_pack_reply = _FRAMED_REPLY.pack
_FRAMED_STAT_REPLY = struct.Struct(_FRAMED_REPLY.format + STAT_LAYOUT)
_pack_stat_reply, _STAT_REPLY_BYTES = _FRAMED_STAT_REPLY.pack, _FRAMED_STAT_REPLY.size - _LENGTH_BYTES
# Decoded before they are queued: if they are malformed, the connection closes (ZooKeeperServer.processPacket).
_READ_AT_ONCE = frozenset(BY_REQUEST[kind].opcode for kind in of_kind(Kind.CONNECTION))
# Codec functions used so far, by opcode and by class: a cheaper look-up for every request.
Read = Callable[[bytes, int], tuple[req.Request, int]]
_READERS: dict[Rules, dict[int, Read]] = {}
_WRITERS: dict[type, Callable[[bytearray, object], None]] = {}
_BODILESS = frozenset(kind for kind, operation in BY_REQUEST.items() if operation.reply is NOTHING)


def _writer(kind: type) -> Callable[[bytearray, object], None] | None:
    """Return the function that writes the body of a reply; None for multi, multi-read and what is malformed."""
    operation = BY_REQUEST.get(kind)
    reply = None if operation is None else operation.reply
    return None if reply is None else _WRITERS.setdefault(kind, reply.write)


class Incoming(NamedTuple):
    """Request with its xid, which the reply repeats."""

    xid: int
    request: req.Request


class ProtocolProblem(NamedTuple):
    """Invalid bytes, after which the server closes the connection without an answer.

    Attributes:
        reason: description of the problem.
        length: length of a frame that is too long or negative, else 0.
    """

    reason: str
    length: int = 0


Received = req.ConnectRequest | Incoming | ProtocolProblem


class ServerConnection:
    """Connection as seen by a server's transport.

    Args:
        max_bytes: length of the longest accepted request (jute.maxbuffer).
        rules: rules of the server's release; None for the newest.

    >>> server = ServerConnection()
    >>> asked = CONNECT_REQUEST.encode(req.ConnectRequest(0, 0, 10_000, 0, None, False))
    >>> server.receive_data(framed(asked))[0].timeout_ms
    10000
    >>> server.receive_data(framed(REQUEST_HEADER.encode((1, 9)) + BY_REQUEST[req.Sync].codec.encode(req.Sync("/a"))))
    [Incoming(xid=1, request=Sync(path='/a'))]
    >>> server.encode(Reply(1, 7, 0, "/a")).hex(" ", -4)
    '00000016 00000001 00000000 00000007 00000000 00000002 2f61'
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES, rules: Rules | None = None) -> None:
        self._max_bytes = max_bytes
        self._rules = rules = rules_of(NEWEST) if rules is None else rules
        self._readers = _READERS.setdefault(rules, {})
        self._frames = FrameBuffer(max_bytes)
        self._connected = False
        self._broken = False
        self._unanswered: deque[Incoming] = deque()

    def receive_one(self, data: bytes) -> Incoming | None:
        """Return the request that `data` is exactly, if no earlier request is unanswered; else None.

        Fast path for a client that waits for each reply. With None, nothing was received: call `receive_data`. Encode
        the reply by `encode_one` with the request; if it is not sent at once, call `expect`.
        """
        if self._connected and len(data) >= _PREFIX_BYTES and not (self._frames.pending or self._unanswered):
            length, xid, opcode = _unpack_prefix(data)
            read = self._readers.get(opcode)
            if length == len(data) - _LENGTH_BYTES and length <= self._max_bytes and read is not None:
                try:
                    return tuple.__new__(Incoming, (xid, read(data, _PREFIX_BYTES)[0]))
                except MalformedError:
                    return None
        return None

    def expect(self, incoming: Incoming) -> None:
        """Register a request from `receive_one` that is answered later."""
        assert self._connected
        self._unanswered.append(incoming)

    def receive_data(self, data: bytes) -> list[Received]:
        """Return the messages that `data` completes, in order; nothing follows a `ProtocolProblem`."""
        one = self.receive_one(data)
        if one is not None:
            self._unanswered.append(one)
            return [one]
        if self._broken:
            return []
        received: list[Received] = []
        problem: ProtocolProblem | None = None
        try:
            frames = self._frames.receive(data)
        except BadLengthError as bad:
            frames, problem = bad.frames, ProtocolProblem(str(bad), bad.length)
        for frame in frames:
            try:
                received.append(self._decode(frame))
            except MalformedError as malformed:
                problem = ProtocolProblem(str(malformed))
                break
        if problem is not None:
            assert not self._broken, "a connection has one problem, and receives nothing after it"
            self._broken = True
            self._connected = False
            received.append(problem)
        return received

    def _decode(self, frame: bytes) -> Received:
        assert not self._broken, "nothing is decoded after invalid bytes"
        if not self._connected:
            request = CONNECT_REQUEST.decode(frame)
            self._connected = True
            return request
        xid, opcode = REQUEST_HEADER.decode(frame)
        read = self._readers.get(opcode)
        if read is None and (codec := request_codec(opcode, self._rules)) is not None:
            read = self._readers[opcode] = codec.read
        body: req.Request
        if read is None:
            body = req.Unimplemented(opcode)
        else:
            try:
                body, _ = read(frame, _REQUEST_HEADER_BYTES)
            except MalformedError as malformed:
                if opcode in _READ_AT_ONCE:
                    raise
                body = undecodable(opcode, malformed, self._rules)
        incoming: Incoming = tuple.__new__(Incoming, (xid, body))
        self._unanswered.append(incoming)
        return incoming

    def encode(self, *messages: Outgoing) -> bytes:
        """Return the bytes of messages; `Closed` has none, the transport closes instead."""
        return b"".join(map(self.encode_one, messages))

    def encode_one(self, message: Outgoing, request: req.Request | None = None) -> bytes:
        """Return the bytes of one message; `request` is the request that it answers, unless that was registered."""
        if message.__class__ is not Reply:
            return self._encode_other(message)
        xid, zxid, error, body = message
        if request is None:
            unanswered = self._unanswered
            if unanswered and unanswered[0][0] == xid:
                _, request = unanswered.popleft()
            else:
                request = self._answered(xid)
        # A failed SASL login is answered with a null token (ZooKeeperServer.processSasl).
        if body is None and ((error and request.__class__ is not req.Sasl) or request.__class__ in _BODILESS):
            return _pack_reply(_REPLY_HEADER_BYTES, xid, zxid, error)
        if body.__class__ is Stat:
            return _pack_stat_reply(_STAT_REPLY_BYTES, xid, zxid, error, *body)
        out = bytearray()
        write = _WRITERS.get(request.__class__) or _writer(request.__class__)
        if write is not None:
            write(out, body)
        else:
            assert isinstance(request, req.Multi | req.MultiRead | req.Undecodable)
            assert isinstance(body, list)
            write_results(out, request, body)
        return _pack_reply(_REPLY_HEADER_BYTES + len(out), xid, zxid, error) + out

    def _encode_other(self, message: Outgoing) -> bytes:
        match message:
            case WatchedEvent(kind, path, zxid):
                event = WATCHER_EVENT.encode((kind, SYNC_CONNECTED, path))
                return _pack_reply(_REPLY_HEADER_BYTES + len(event), NOTIFICATION_XID, zxid, 0) + event
            case ConnectResponse():
                if self._unanswered and isinstance(self._unanswered[0].request, req.CreateSession):
                    self._unanswered.popleft()
                return framed(CONNECT_RESPONSE.encode(message))
        assert isinstance(message, Closed)
        return b""

    def _answered(self, xid: int) -> req.Request:
        """Return the request that a reply with this xid answers, skipping unanswered ones before it."""
        while self._unanswered:
            request_xid, request = self._unanswered.popleft()
            if request_xid == xid or (xid == PING_XID and isinstance(request, req.Ping)):
                return request
        raise AssertionError(f"no request has xid {xid}")
