"""Messages of a server: replies, watch events, the connect response; error codes.

Rules of this module:
  - values only, with fields in the order of the wire (docs/reference/zookeeper.md §1.1, §1.5, §1.7);
  - an error is a code in a reply. `RefusedError` carries it from the failed check to the reply, as KeeperException does
    in the real server.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class RefusedError(Exception):
    """Failed check of a request. `Server.handle` catches it and replies with the code.

    Args:
        code: error code of the reply.
        body: body of the reply; only a `MultiRead` that fails half-way has one.
    """

    def __init__(self, code: Code, body: object = None) -> None:
        assert code, "a refusal has an error"
        self.code = code
        self.body = body
        super().__init__(code)


class Code(IntEnum):
    """ZooKeeper's error codes (KeeperException.Code)."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    UNKNOWN_SESSION = -12
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    EPHEMERAL_ON_LOCAL_SESSION = -120
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


def not_null(value: T | None) -> T:
    """Return a value of a request; raise MARSHALLING_ERROR for a null, on which the real server fails."""
    if value is None:
        raise RefusedError(Code.MARSHALLING_ERROR)
    return value


class Stat(NamedTuple):
    """Stat of a znode as clients see it (§2.1): zxids, times in ms, versions, owner, sizes."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class OperationResult(NamedTuple):
    """Result of one operation of a multi: `error` 0 and its body, or an error code and None.

    `body` is a path for `Create`, (path, Stat) for the other creates, a Stat for `SetData`, None for `Delete` and
    `Check`; in a multi-read (data, Stat) or a list of names.
    """

    error: int
    body: object


PING_XID = -2
"""Xid of every reply to a ping, whatever the ping's own xid (§1.2)."""


class Reply(NamedTuple):
    """Reply to one request.

    `zxid` is the last one applied when the reply was made (§1.8). `body` is None if the error is not 0 (except for a
    `MultiRead` that fails half-way: it has the results so far) and for requests whose reply is a header only. Else it
    depends on the request: `Create` a path; `Create2` and its kin (path, Stat); `Exists`, `SetData`, `SetACL` a Stat;
    `GetData` (data, Stat); `GetACL` (acl, Stat); `GetChildren` a list of names; `GetChildren2` (names, Stat); `Multi`,
    `MultiRead` a list of `OperationResult`; `Sync` a path; `GetEphemerals` a list of paths; `GetAllChildrenNumber` an
    int; `WhoAmI` a list of `ClientInfo`; `AddWatch` an int 0; `Sasl` None.
    """

    xid: int
    zxid: int
    error: int
    body: object


class EventType(IntEnum):
    """Types of watch events (§3)."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


class WatchedEvent(NamedTuple):
    """Watch event; `zxid` is that of its transaction, -1 for events that `SetWatches` makes (§3)."""

    type: int
    path: str
    zxid: int


class ClientInfo(NamedTuple):
    """Identity of a connection in the reply to `WhoAmI`: its scheme and user name, without secrets."""

    scheme: str
    user: str


class ConnectResponse(NamedTuple):
    """Response to a `ConnectRequest`; a session id of 0 means that the requested session has expired (§1.3).

    `read_only` is None if the request had no such byte: then the response has none either.
    """

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None


class Closed(NamedTuple):
    """Mark in outgoing messages that the server closed the connection."""


Outgoing = ConnectResponse | Reply | WatchedEvent | Closed
