"""Table of ZooKeeper's operations (§1.5): opcode, class, kind, permission and name; and the names of errors.

The table is used by the checks of writes (prepare.py) and reads (reads.py) for the permission, by the server and the
members of an ensemble for the kind, by fault rules and their listings for the name, and by the wire for the opcode, to
which it adds the codecs (simzk.wire.operations).

Rules of this module:
  - the name of an error is kazoo's exception class or the protocol's code: NoNodeError, NO_NODE;
  - the paths of a multi are those of its operations.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError
from simzk.zookeeper import requests as req
from simzk.zookeeper.acl import ADMIN, CREATE, DELETE, READ, WRITE
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from simzk.zookeeper.requests import Request


class Kind(Enum):
    """Way in which the server processes a request.

    Attributes:
        READ: answered from the tree and the watches, without a zxid.
        WRITE: checked, then applied as a transaction; a failed check is an error transaction.
        SESSION: creates or closes the session by a transaction.
        CONNECTION: concerns only the connection: no zxid; the real server answers it outside its request processors.
        PART: valid only in a multi; alone it is rejected as unknown.
    """

    READ = "read"
    WRITE = "write"
    SESSION = "session"
    CONNECTION = "connection"
    PART = "part"


class Operation(NamedTuple):
    """Row of the table: one class of requests.

    Attributes:
        opcode: number on the wire.
        request: class of the request.
        kind: way in which it is processed.
        name: name in fault rules and listings: kazoo's method that sends it, or the protocol's name.
        short_name: last operation of a connection in the word cons (§5, lop; ServerCnxn and Request).
        permission: required permission (bits of acl.py, one of which suffices); 0 for none, and for requests whose
            operations have their own.
        place: znode whose ACL is checked: "node", "parent" or "config"; empty for none.
        is_implicit: whether client libraries send it by themselves.
    """

    opcode: int
    request: type
    kind: Kind
    name: str
    short_name: str
    permission: int = 0
    place: str = ""
    is_implicit: bool = False

    @property
    def is_write(self) -> bool:
        """Return whether it consumes a zxid, even if it fails."""
        return self.kind in (Kind.WRITE, Kind.SESSION)


_READ, _WRITE, _SESSION, _CONNECTION, _PART = Kind

OPERATIONS: tuple[Operation, ...] = (
    Operation(1, req.Create, _WRITE, "create", "CREA", CREATE, "parent"),
    Operation(2, req.Delete, _WRITE, "delete", "DELE", DELETE, "parent"),
    Operation(3, req.Exists, _READ, "exists", "EXIS", READ, "node"),
    Operation(4, req.GetData, _READ, "get", "GETD", READ, "node"),
    Operation(5, req.SetData, _WRITE, "set", "SETD", WRITE, "node"),
    Operation(6, req.GetACL, _READ, "get_acls", "GETA", READ | ADMIN, "node"),
    Operation(7, req.SetACL, _WRITE, "set_acls", "SETA", ADMIN, "node"),
    Operation(8, req.GetChildren, _READ, "get_children", "GETC", READ, "node"),
    Operation(9, req.Sync, _READ, "sync", "SYNC"),
    Operation(11, req.Ping, _CONNECTION, "ping", "PING", is_implicit=True),
    Operation(12, req.GetChildren2, _READ, "get_children", "GETC", READ, "node"),
    Operation(13, req.Check, _PART, "check", "NA", READ, "node"),
    Operation(14, req.Multi, _WRITE, "transaction", "MULT"),
    Operation(15, req.Create2, _WRITE, "create", "CREA", CREATE, "parent"),
    Operation(16, req.Reconfig, _WRITE, "reconfig", "RECO", WRITE, "config"),
    Operation(17, req.CheckWatches, _READ, "check_watches", "CHKW"),
    Operation(18, req.RemoveWatches, _READ, "remove_all_watches", "REMW"),
    Operation(19, req.CreateContainer, _WRITE, "create", "CREA", CREATE, "parent"),
    Operation(20, req.DeleteContainer, _WRITE, "delete", "DELE"),
    Operation(21, req.CreateTTL, _WRITE, "create", "CREA", CREATE, "parent"),
    Operation(22, req.MultiRead, _READ, "multi_read", "MLTR"),
    Operation(100, req.Auth, _CONNECTION, "add_auth", "NA"),
    Operation(101, req.SetWatches, _READ, "set_watches", "SETW", is_implicit=True),
    Operation(102, req.Sasl, _CONNECTION, "sasl", "NA", is_implicit=True),
    Operation(103, req.GetEphemerals, _READ, "get_ephemerals", "GETE"),
    Operation(104, req.GetAllChildrenNumber, _READ, "get_all_children_number", "GETACN", READ, "node"),
    Operation(105, req.SetWatches2, _READ, "set_watches", "STW2", is_implicit=True),
    Operation(106, req.AddWatch, _READ, "add_watch", "ADDW"),
    Operation(107, req.WhoAmI, _READ, "who_am_i", "HOMI"),
    Operation(-10, req.CreateSession, _SESSION, "create_session", "SESS", is_implicit=True),
    Operation(-11, req.CloseSession, _SESSION, "close", "CLOS", is_implicit=True),
)

BY_REQUEST: dict[type, Operation] = {operation.request: operation for operation in OPERATIONS}
assert len(BY_REQUEST) == len({operation.opcode for operation in OPERATIONS}) == len(OPERATIONS)
assert all(bool(operation.permission) == bool(operation.place) for operation in OPERATIONS), "an ACL is that of a znode"


def of_kind(*kinds: Kind) -> frozenset[type]:
    """Return the classes of requests of these kinds.

    >>> of_kind(Kind.PART) == {req.Check}
    True
    """
    return frozenset(operation.request for operation in OPERATIONS if operation.kind in kinds)


def permission_of(request: type) -> int:
    """Return the permission bits that a request requires.

    >>> permission_of(req.GetACL) == READ | ADMIN
    True
    """
    return BY_REQUEST[request].permission


OPERATION_NAMES: dict[type, str] = {
    operation.request: operation.name for operation in OPERATIONS if operation.kind is not Kind.PART
}


def operation_and_paths(request: Request) -> tuple[str, tuple[str, ...]]:
    """Return the name of a request and the paths in it; empty for a request that no client should send.

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


def _normalized(name: str) -> str:
    return name.removesuffix("Error").replace("_", "").lower()


_CODES = {_normalized(code.name): code for code in Code if code is not Code.OK}
assert len(_CODES) == len(Code) - 1, "each error has a name of its own"


def code_of(name: str) -> Code | None:
    """Return the error code of a name of kazoo or of the protocol, or None if no server sends such an error.

    >>> code_of("NoNodeError"), code_of("NO_NODE"), code_of("NoNoodle")
    (<Code.NO_NODE: -101>, <Code.NO_NODE: -101>, None)
    """
    return _CODES.get(_normalized(name))


class Vocabulary(NamedTuple):
    """Names of operations and errors as one value, for code that does not import this package.

    Attributes:
        operations: names of requests.
        implicit_operations: names of requests that client libraries send by themselves; a rule for any operation
            excludes them.
        hints: names used here by the protocol's names in lower case.
        errors: error codes by name.
        faults_by_code: fault to use instead of an error code that no server sends in a reply.
        protocol: name of the protocol that the errors belong to.
        accepted_errors: what is accepted as an error, in words.
    """

    operations: tuple[str, ...]
    implicit_operations: frozenset[str]
    hints: dict[str, str]
    errors: dict[str, int]
    faults_by_code: dict[int, str]
    protocol: str
    accepted_errors: str

    def code_of(self, name: str) -> int | None:
        """Return the error code of a name, as the function `code_of`."""
        return code_of(name)

    def check_path(self, path: str) -> None:
        """Raise `ConfigError` if a path is not the path of a znode."""
        if not path.startswith("/") or (len(path) > 1 and path.endswith("/")):
            right = "an absolute path without a slash at its end, such as '/a/b'"
            raise ConfigError(f"{path!r} is not the path of a znode", where="path", right=right)


VOCABULARY = Vocabulary(
    operations=tuple(dict.fromkeys(OPERATION_NAMES.values())),
    implicit_operations=frozenset(operation.name for operation in OPERATIONS if operation.is_implicit),
    hints={kind.__name__.lower(): name for kind, name in OPERATION_NAMES.items()},
    errors={code.name: int(code) for code in Code if code is not Code.OK},
    faults_by_code={Code.CONNECTION_LOSS: "drop_request", Code.SESSION_EXPIRED: "expire"},
    protocol="ZooKeeper",
    accepted_errors="an exception class of kazoo.exceptions that has a code, as ConnectionLoss or NoNodeError",
)
