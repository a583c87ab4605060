"""The records that requests and replies share (§1.1), and those that frame a connection."""

from __future__ import annotations

from typing import Any, NamedTuple

from simzk.wire.jute import BOOLEAN, BUFFER, INT, LONG, TEXT, Codec, packed, record, vector
from simzk.zookeeper.replies import ClientInfo, ConnectResponse, Stat
from simzk.zookeeper.requests import ACL, OPEN_ACL, ConnectRequest, Id


class RequestHeader(NamedTuple):
    xid: int
    opcode: int


class ReplyHeader(NamedTuple):
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
STAT: Codec[Stat] = packed(Stat, ">qqqqiiiqiiq")
CLIENT_INFOS = vector(record(ClientInfo, TEXT, TEXT))
NAMES = vector(TEXT)

_ACL_VECTOR = vector(record(ACL, INT, record(Id, TEXT, TEXT)))
_OPEN_ACL_BYTES = _ACL_VECTOR.encode(OPEN_ACL)


def _read_acl(data: bytes, at: int) -> tuple[tuple[ACL, ...] | None, int]:
    end = at + len(_OPEN_ACL_BYTES)
    if data[at:end] == _OPEN_ACL_BYTES:
        # Nearly every node has this one; the store knows it by identity.
        return OPEN_ACL, end
    return _ACL_VECTOR.read(data, at)


ACLS: Codec[tuple[ACL, ...] | None] = Codec(_read_acl, _ACL_VECTOR.write)


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
