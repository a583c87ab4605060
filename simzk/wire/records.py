"""The records that requests and replies share (§1.1), and those that frame a connection."""

from __future__ import annotations

from typing import Any, NamedTuple

from simzk.zookeeper.jute import BOOLEAN, BUFFER, INT, LONG, TEXT, Codec, packed, record, vector
from simzk.zookeeper.replies import ClientInfo, ConnectResponse
from simzk.zookeeper.requests import ConnectRequest


class RequestHeader(NamedTuple):
    """What stands before the body of every request (§1.1)."""

    xid: int
    opcode: int


class ReplyHeader(NamedTuple):
    """What stands before the body of every reply (§1.1)."""

    xid: int
    zxid: int
    error: int


class WatcherEvent(NamedTuple):
    """A watch event as it travels; its state is always 3, SyncConnected (§3)."""

    type: int
    state: int
    path: str | None


class MultiHeader(NamedTuple):
    """Before each operation of a multi and behind the last, in requests and in replies (§1.6)."""

    type: int
    done: bool
    error: int


NOTIFICATION_XID = -1
SYNC_CONNECTED = 3

REQUEST_HEADER: Codec[RequestHeader] = packed(RequestHeader, ">ii")
REPLY_HEADER: Codec[ReplyHeader] = packed(ReplyHeader, ">iqi")
WATCHER_EVENT: Codec[WatcherEvent] = record(WatcherEvent, INT, INT, TEXT)
MULTI_HEADER: Codec[MultiHeader] = packed(MultiHeader, ">i?i")
CLIENT_INFOS = vector(record(ClientInfo, TEXT, TEXT))
NAMES = vector(TEXT)


def with_optional_read_only(make: Any, *fields: Codec[Any]) -> Codec[Any]:
    """A connect record: clients before 3.4 neither send nor expect its last byte (§1.3)."""
    fixed = record(lambda *values: values, *fields)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values, at = fixed.read(data, at)
        if at >= len(data):
            return make(*values, None), at
        read_only, at = BOOLEAN.read(data, at)
        return make(*values, read_only), at

    def write(out: bytearray, value: Any) -> None:
        fixed.write(out, value[:-1])
        if value[-1] is not None:
            BOOLEAN.write(out, value[-1])

    return Codec(read, write)


CONNECT_REQUEST: Codec[ConnectRequest] = with_optional_read_only(ConnectRequest, INT, LONG, INT, LONG, BUFFER)
CONNECT_RESPONSE: Codec[ConnectResponse] = with_optional_read_only(ConnectResponse, INT, INT, LONG, BUFFER)
