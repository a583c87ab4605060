"""The one table of ZooKeeper's operations (§1.5): opcode, request, kind, permission, and what people call it.

Whoever must know one of these asks here: the checks of writes (prepare.py) and reads (reads.py) for the permission, the
server and an ensemble's members for the kind, fault rules and their listings for the name, the wire for the opcode, to
which it adds the codecs (simzk.wire.operations).

How requests and errors are called where somebody speaks of them: faults, their listings, their history.

Rules of this module:
  - an operation is called as the table of operations says (operations.py);
  - an error is called as kazoo's exception class or as the protocol's code: NoNodeError, NO_NODE;
  - a request's paths are all that it speaks of: a multi's are those of its operations.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper import requests as req
from simzk.zookeeper.acl import ADMIN, CREATE, DELETE, READ, WRITE
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from simzk.zookeeper.requests import Request


class Kind(Enum):
    """What becomes of a request.

    Attributes:
        READ: it is answered from the tree and the watches as they are; no zxid.
        WRITE: it is checked and becomes a transaction, of an error where it may not be done.
        SESSION: it begins or ends the session, by a transaction.
        CONNECTION: it is of the connection alone: no zxid, and the real server answers it where it reads it.
        PART: it stands only in a multi; alone it is refused as unknown.
    """

    READ = "read"
    WRITE = "write"
    SESSION = "session"
    CONNECTION = "connection"
    PART = "part"


class Operation(NamedTuple):
    """One kind of request.

    Attributes:
        opcode: its number on the wire.
        request: its class.
        kind: what becomes of it.
        name: what it is called where somebody speaks of it: as kazoo's method that sends it, or as the protocol's word.
        permission: what a client must be permitted (bits of acl.py, one of which suffices); 0 for nothing, and for what
            asks for what its parts do.
        place: of which znode: "node", "parent" or "config"; empty for none.
        unasked: a client library sends it by itself, or as its last word.
    """

    opcode: int
    request: type
    kind: Kind
    name: str
    permission: int = 0
    place: str = ""
    unasked: bool = False

    @property
    def is_write(self) -> bool:
        """Whether it consumes a zxid, even where it fails."""
        return self.kind in (Kind.WRITE, Kind.SESSION)


_READ, _WRITE, _SESSION, _CONNECTION, _PART = Kind

OPERATIONS: tuple[Operation, ...] = (
    Operation(1, req.Create, _WRITE, "create", CREATE, "parent"),
    Operation(2, req.Delete, _WRITE, "delete", DELETE, "parent"),
    Operation(3, req.Exists, _READ, "exists", READ, "node"),
    Operation(4, req.GetData, _READ, "get", READ, "node"),
    Operation(5, req.SetData, _WRITE, "set", WRITE, "node"),
    Operation(6, req.GetACL, _READ, "get_acls", READ | ADMIN, "node"),
    Operation(7, req.SetACL, _WRITE, "set_acls", ADMIN, "node"),
    Operation(8, req.GetChildren, _READ, "get_children", READ, "node"),
    Operation(9, req.Sync, _READ, "sync"),
    Operation(11, req.Ping, _CONNECTION, "ping", unasked=True),
    Operation(12, req.GetChildren2, _READ, "get_children", READ, "node"),
    Operation(13, req.Check, _PART, "check", READ, "node"),
    Operation(14, req.Multi, _WRITE, "transaction"),
    Operation(15, req.Create2, _WRITE, "create", CREATE, "parent"),
    Operation(16, req.Reconfig, _WRITE, "reconfig", WRITE, "config"),
    Operation(17, req.CheckWatches, _READ, "check_watches"),
    Operation(18, req.RemoveWatches, _READ, "remove_all_watches"),
    Operation(19, req.CreateContainer, _WRITE, "create", CREATE, "parent"),
    Operation(20, req.DeleteContainer, _WRITE, "delete"),
    Operation(21, req.CreateTTL, _WRITE, "create", CREATE, "parent"),
    Operation(22, req.MultiRead, _READ, "multi_read"),
    Operation(100, req.Auth, _CONNECTION, "add_auth"),
    Operation(101, req.SetWatches, _READ, "set_watches", unasked=True),
    Operation(102, req.Sasl, _CONNECTION, "sasl", unasked=True),
    Operation(103, req.GetEphemerals, _READ, "get_ephemerals"),
    Operation(104, req.GetAllChildrenNumber, _READ, "get_all_children_number", READ, "node"),
    Operation(105, req.SetWatches2, _READ, "set_watches", unasked=True),
    Operation(106, req.AddWatch, _READ, "add_watch"),
    Operation(107, req.WhoAmI, _READ, "who_am_i"),
    Operation(-10, req.CreateSession, _SESSION, "create_session", unasked=True),
    Operation(-11, req.CloseSession, _SESSION, "close", unasked=True),
)

BY_REQUEST: dict[type, Operation] = {operation.request: operation for operation in OPERATIONS}


def of_kind(*kinds: Kind) -> frozenset[type]:
    """The requests of these kinds.

    >>> of_kind(Kind.PART) == {req.Check}
    True
    """
    return frozenset(operation.request for operation in OPERATIONS if operation.kind in kinds)


def permission_of(request: type) -> int:
    """The permission that a request needs, as bits.

    >>> permission_of(req.GetACL) == READ | ADMIN
    True
    """
    return BY_REQUEST[request].permission


OPERATION_NAMES: dict[type, str] = {
    operation.request: operation.name for operation in OPERATIONS if operation.kind is not Kind.PART
}

UNASKED = frozenset(operation.name for operation in OPERATIONS if operation.unasked)
"""What a client library sends by itself, or as its last word; whoever speaks of any operation does not mean these."""


def operation_and_paths(request: Request) -> tuple[str, tuple[str, ...]]:
    """What a request is called, and the paths that it speaks of; empty for one that no client should send.

    >>> operation_and_paths(req.Multi((req.Check("/a", 1), req.Delete("/b", -1))))
    ('transaction', ('/a', '/b'))
    """
    name = OPERATION_NAMES.get(type(request), "")
    if isinstance(request, req.Multi | req.MultiRead):
        return name, tuple(operation.path for operation in request.operations if operation.path is not None)
    if isinstance(request, req.GetEphemerals):
        return name, () if request.prefix is None else (request.prefix,)
    path = getattr(request, "path", None)
    return name, () if path is None else (path,)


def _squashed(name: str) -> str:
    return name.removesuffix("Error").replace("_", "").lower()


_CODES = {_squashed(code.name): code for code in Code if code is not Code.OK}

ERRORS: dict[str, int] = {code.name: int(code) for code in Code if code is not Code.OK}


def code_of(name: str) -> Code | None:
    """The error of a name, as kazoo or the protocol calls it; None where no server sends such an error.

    >>> code_of("NoNodeError"), code_of("NO_NODE"), code_of("NoNoodle")
    (<Code.NO_NODE: -101>, <Code.NO_NODE: -101>, None)
    """
    return _CODES.get(_squashed(name))


_HINTS = {kind.__name__.lower(): name for kind, name in OPERATION_NAMES.items()}
_STRIKES: dict[int, str] = {Code.CONNECTION_LOSS: "drop_request", Code.SESSION_EXPIRED: "expire"}


class Vocabulary(NamedTuple):
    """All these names as one value, for whoever is to know them without knowing ZooKeeper.

    Attributes:
        operations: what requests are called.
        unasked: those of them that a client library sends by itself.
        hints: the protocol's words for operations, in lower case, and the names that are used here.
        errors: the codes by name.
        strikes: what happens instead of being answered where somebody asks for an error that no server answers with.
    """

    operations: tuple[str, ...] = tuple(dict.fromkeys(OPERATION_NAMES.values()))
    unasked: frozenset[str] = UNASKED
    hints: dict[str, str] = _HINTS
    errors: dict[str, int] = ERRORS
    strikes: dict[int, str] = _STRIKES

    def code_of(self, name: str) -> int | None:
        """As `code_of`."""
        return code_of(name)


VOCABULARY = Vocabulary()
