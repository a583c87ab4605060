"""Checks of writes: from a request to the record of its transaction, in the order of §1.5.

Rules of this module:
  - nothing changes here: a check reads nodes through `find`;
  - the first failing check raises `RefusedError`; the precedence of errors is the order of the lines;
  - one function per request, in one table;
  - each operation of a multi is checked against the tree as the earlier ones will leave it (`Outstanding`, the real
    server's ChangeRecords). A multi that fails is a transaction too, with the error of each operation (§1.6).

Source: PrepRequestProcessor (pRequest2Txn, pRequestHelper, ChangeRecord).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.acl import UNKNOWN_ACL, expand_acl, is_permitted
from simzk.zookeeper.operations import Kind, of_kind, permission_of
from simzk.zookeeper.quotas import UnreadableError
from simzk.zookeeper.replies import Code, RefusedError, not_null
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.znode import (
    CONFIG_PATH,
    MAX_INT32,
    MAX_TTL_MS,
    MIN_INT32,
    SPECIAL_PATHS,
    is_session,
    is_valid_name,
    is_valid_path,
    parent_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.quotas import Quotas
    from simzk.zookeeper.releases import Rules
    from simzk.zookeeper.requests import ACL, Id, Multi
    from simzk.zookeeper.znode import Znode


class FutureNode(NamedTuple):
    """Node as the earlier operations of a multi will leave it."""

    data: bytes | None
    acl: tuple[ACL, ...]
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    child_count: int


class Outstanding:
    """Changes that the operations of one multi will make to a tree; its session owns new ephemerals."""

    def __init__(self, find: Callable[[str], Znode | None], session_id: int) -> None:
        self._find = find
        self._session_id = session_id
        self._pending: dict[str, FutureNode | None] = {}

    def find(self, path: str) -> NodeView | None:
        """Return the node as it will be, or None."""
        path = path or "/"
        if path in self._pending:
            return self._pending[path]
        return self._find(path)

    def note(self, record: txns.TreeRecord, *, ephemeral: bool) -> None:
        """Add the change of a checked record.

        Args:
            record: record of the operation.
            ephemeral: whether the flags of a create are ephemeral. Later operations of the multi then see the node as
                ephemeral even if its opcode makes it a container, as in the real server.
        """
        match record:
            case txns.SetDataTxn(path, data, version):
                assert path, "the root has one name among the changes"
                self._pending[path] = self._future(path)._replace(data=data, version=version)
            case txns.DeleteTxn(path):
                parent = self._future(parent_of(path))
                # Also for an orphan, which the parent does not list: the number may then be too low.
                self._pending[parent_of(path)] = parent._replace(child_count=parent.child_count - 1)
                self._pending[path] = None
            case txns.CheckTxn():
                pass
            case _:
                assert isinstance(record, txns.CreateRecord), "a multi consists of creates, deletes, sets and checks"
                assert self._pending.get(record.path) is None, f"{record.path} exists already"
                parent_path = parent_of(record.path)
                parent = self._future(parent_path)
                assert not is_session(parent.ephemeral_owner), "an ephemeral has no children"
                self._pending[parent_path] = parent._replace(
                    child_count=parent.child_count + 1, cversion=record.parent_cversion
                )
                owner = self._session_id if ephemeral else 0
                self._pending[record.path] = FutureNode(record.data, record.acl, 0, 0, 0, owner, 0)

    def _future(self, path: str) -> FutureNode:
        node = self.find(path)
        assert node is not None, f"{path} was found when its operation was checked"
        if isinstance(node, FutureNode):
            return node
        return FutureNode(
            node.data, node.acl, node.version, node.cversion, node.aversion, node.ephemeral_owner, node.child_count
        )


class PendingCversions(NamedTuple):
    """Cversions that wrapped in creates that are not answered yet (ZooKeeperServer.outstandingChangesForPath).

    A tree keeps the cversion 2^31-1 of a parent for good, but the next creates of a pipeline begin where the earlier
    ones of it will leave the parent.

    Attributes:
        wrapped: cversion of the last create by the path of the parent, "" for the root; the tree adds to it.
        unsent: what waits to be sent; when it is empty, all creates are answered.
    """

    wrapped: dict[str, int]
    unsent: Sized

    def of(self, path: str) -> int:
        """Return the cversion of a parent that has 2^31-1 in the tree."""
        if not self.unsent:
            self.wrapped.clear()
        return self.wrapped.get(path, MAX_INT32)


class Asker(NamedTuple):
    """Client and rules for which a request is checked."""

    identities: tuple[Id, ...]
    config: ServerConfig
    rules: Rules
    quotas: Quotas
    pending: PendingCversions

    def may(self, acl: tuple[ACL, ...], permission: int) -> bool:
        """Return whether an ACL gives the client a permission."""
        return acl is OPEN_ACL or self.config.skip_acl or is_permitted(acl, permission, self.identities)

    def need(self, node: NodeView, permission: int) -> None:
        """Raise NO_AUTH unless the client has a permission on a node."""
        acl = node.acl
        if acl is not OPEN_ACL:
            if acl is UNKNOWN_ACL:
                raise RefusedError(Code.MARSHALLING_ERROR)
            if not self.may(acl, permission):
                raise RefusedError(Code.NO_AUTH)


class Flags(NamedTuple):
    """Meaning of the flags of a create (CreateMode)."""

    ephemeral: bool = False
    sequential: bool = False
    ttl: bool = False


FLAGS: dict[int, Flags] = {
    0: Flags(),
    1: Flags(ephemeral=True),
    2: Flags(sequential=True),
    3: Flags(ephemeral=True, sequential=True),
    4: Flags(),
    5: Flags(ttl=True),
    6: Flags(ttl=True, sequential=True),
}

_TTL_FLAGS = frozenset(flags for flags, meaning in FLAGS.items() if meaning.ttl)

_new = tuple.__new__
"""Makes a NamedTuple without the extra call of its constructor: every write makes four of them."""

NO_TTL = -1
"""TTL of a request without one."""

_PLAIN = FLAGS[0]

# Permissions from the table of operations, looked up once for this hot path.
_TO_CREATE, _TO_DELETE = permission_of(req.Create), permission_of(req.Delete)
_TO_SET_DATA, _TO_SET_ACL, _TO_CHECK = map(permission_of, (req.SetData, req.SetACL, req.Check))

if TYPE_CHECKING:
    NodeView = Znode | FutureNode
    Find = Callable[[str], NodeView | None]


def _existing(find: Find, path: str) -> NodeView:
    node = find(path)
    if node is None:
        raise RefusedError(Code.NO_NODE)
    return node


def _valid(path: str | None, asker: Asker) -> str:
    if path is None or not is_valid_path(path, edges=asker.rules.path_edges_are_valid):
        raise RefusedError(Code.BAD_ARGUMENTS)
    return path


def _writable(path: str | None, asker: Asker) -> str | None:
    """Return the path of a setData, setACL or check, validated if the release does so."""
    return _valid(path, asker) if asker.rules.validates_all_paths else path


def _at_valid(find: Find, path: str | None, asker: Asker) -> NodeView:
    """Return the node at a path; an invalid path is rejected before a missing node.

    The path of an existing node needs no validation, except "", the alias of the root, and paths of odd snapshots.
    """
    node = find(path) if path and _is_ordinary(path) else None
    return _existing(find, not_null(_writable(path, asker))) if node is None else node


def _is_ordinary(path: str) -> bool:
    """Return whether a path needs no validation if there is a node: a snapshot may have nodes of any path."""
    return path.isascii() and path.isprintable() and "/." not in path and "//" not in path and not path.endswith("/")


def _next_version(current: int, expected: int) -> int:
    assert MIN_INT32 <= current <= MAX_INT32, "a version has 32 bits"
    if expected not in (-1, current):
        raise RefusedError(Code.BAD_VERSION)
    return current + 1 if current != MAX_INT32 else MIN_INT32


def _check_flags(flags: int, ttl_ms: int, asker: Asker) -> Flags:
    if flags == 0 and ttl_ms == NO_TTL:
        return _PLAIN
    kind = FLAGS.get(flags)
    if kind is None or flags > asker.rules.last_flags:
        raise RefusedError(Code.BAD_ARGUMENTS)
    if kind.ttl and ttl_ms == NO_TTL and not asker.rules.demands_ttls:
        return kind
    if kind.ttl and not asker.config.extended_types:
        raise RefusedError(Code.UNIMPLEMENTED)
    if not 0 < ttl_ms <= MAX_TTL_MS if kind.ttl else ttl_ms >= 0:
        raise RefusedError(Code.BAD_ARGUMENTS)
    return kind


def _makes_ttl_node(kind: Flags, ttl_ms: int, rules: Rules) -> bool:
    """Return whether a `CreateTTL` with valid flags is accepted; 3.5.3 accepts all flags, and ends over other times."""
    return kind.ttl and ttl_ms != NO_TTL if rules.demands_ttls else 0 < ttl_ms <= MAX_TTL_MS


def _check_quota(quotas: Quotas, path: str, nodes: int, size: int) -> None:
    try:
        exceeded = quotas.would_exceed(path, nodes, size)
    except UnreadableError:
        raise RefusedError(Code.MARSHALLING_ERROR) from None
    if exceeded:
        raise RefusedError(Code.QUOTA_EXCEEDED)


def _prepare_create(request: req.CreateRequest, asker: Asker, find: Find) -> txns.CreateRecord:
    path, data, asked_acl, flags = request[:4]
    identities, config, rules, quotas, pending = asker
    ttl_ms = request.ttl_ms if request.__class__ is req.CreateTTL else NO_TTL
    kind = (
        _check_flags(flags, ttl_ms if rules.demands_ttls else NO_TTL, asker)
        if flags and rules.flags_come_first
        else _PLAIN
    )
    if request.__class__ is req.CreateTTL and not _makes_ttl_node(kind, ttl_ms, rules):
        raise RefusedError(Code.BAD_ARGUMENTS)
    if path is None:
        raise RefusedError(Code.MARSHALLING_ERROR)
    slash = path.rfind("/")
    if slash == -1 or "\0" in path:
        raise RefusedError(Code.BAD_ARGUMENTS)
    parent_path = path[:slash]
    acl = OPEN_ACL if asked_acl is OPEN_ACL else expand_acl(asked_acl, identities, config.schemes, rules)
    parent = _existing(find, parent_path)
    if parent.acl is not OPEN_ACL:
        asker.need(parent, _TO_CREATE)
    if not rules.flags_come_first:
        kind = _check_flags(flags, ttl_ms, asker)
    count = parent.cversion
    if count == MAX_INT32:
        count = pending.of(parent_path)
    if kind.sequential:
        path += f"{count:010d}"
    # The parent exists, so its path is valid, except that the root is in the tree as "/" and as "".
    if parent_path == "/" or (path != "/" and not is_valid_name(path[slash + 1 :], edges=rules.path_edges_are_valid)):
        raise RefusedError(Code.BAD_ARGUMENTS)
    if not _is_ordinary(parent_path):
        _valid(path, asker)
    present = find(path)
    if present is not None:
        raise RefusedError(Code.MARSHALLING_ERROR if present.acl is UNKNOWN_ACL else Code.NODE_EXISTS)
    if parent.ephemeral_owner and is_session(parent.ephemeral_owner):
        raise RefusedError(Code.NO_CHILDREN_FOR_EPHEMERALS)
    if config.enforce_quota and rules.enforces_quotas:
        _check_quota(quotas, path, 1, len(data or b""))
    cversion = count + 1 if count != MAX_INT32 else MIN_INT32
    # The class of the request, not its flags, makes containers and TTL nodes (§1.5).
    if request.__class__ is req.Create:
        return _new(txns.CreateTxn, (path, data, acl, kind.ephemeral, cversion))
    if request.__class__ is req.Create2:
        return txns.Create2Txn(path, data, acl, kind.ephemeral, cversion)
    if request.__class__ is req.CreateContainer:
        return txns.CreateContainerTxn(path, data, acl, cversion)
    return txns.CreateTTLTxn(path, data, acl, cversion, ttl_ms)


def _deletable(path: str | None, find: Find, asker: Asker) -> tuple[str, str]:
    """Return a path and its parent's path; raise RefusedError if the path cannot be deleted."""
    if path is None:
        raise RefusedError(Code.MARSHALLING_ERROR)
    slash = path.rfind("/")
    is_special = path in SPECIAL_PATHS and (path != CONFIG_PATH or asker.rules.has_config_node)
    if slash == -1 or "\0" in path or (is_special and find(path) is not None):
        raise RefusedError(Code.BAD_ARGUMENTS)
    return path, path[:slash]


def _prepare_delete(request: req.Delete, asker: Asker, find: Find) -> txns.DeleteTxn:
    expected = request.version
    path, parent_path = _deletable(request.path, find, asker)
    parent = _existing(find, parent_path)
    if parent.acl is not OPEN_ACL:
        if not asker.rules.delete_checks_acl_first:
            _existing(find, path)
        asker.need(parent, _TO_DELETE)
    node = _existing(find, path)
    if node.acl is UNKNOWN_ACL:
        raise RefusedError(Code.MARSHALLING_ERROR)
    if expected != -1 and expected != node.version:
        raise RefusedError(Code.BAD_VERSION)
    if node.child_count:
        raise RefusedError(Code.NOT_EMPTY)
    return _new(txns.DeleteTxn, (path,))


def _prepare_delete_container(request: req.DeleteContainer, asker: Asker, find: Find) -> txns.DeleteContainerTxn:
    path, _ = _deletable(request.path, find, asker)
    if not asker.rules.clients_delete_containers:
        # Older servers read the whole request, with its length, as the path.
        raise RefusedError(Code.BAD_ARGUMENTS)
    node = _existing(find, path)
    if node.child_count:
        raise RefusedError(Code.NOT_EMPTY)
    if is_session(node.ephemeral_owner):
        raise RefusedError(Code.BAD_VERSION)
    return txns.DeleteContainerTxn(path)


def _prepare_set_data(request: req.SetData, asker: Asker, find: Find) -> txns.SetDataTxn:
    path, data, expected = request
    node = find(path) if path and _is_ordinary(path) else None
    if node is None or path is None:
        if path == "":
            # A server that does not validate it ends as it applies the write.
            raise RefusedError(Code.BAD_ARGUMENTS)
        node, path = _at_valid(find, path, asker), not_null(path)
    if node.acl is not OPEN_ACL:
        asker.need(node, _TO_SET_DATA)
    if asker.config.enforce_quota and asker.rules.enforces_quotas:
        _check_quota(asker.quotas, path, 0, len(data or b"") - len(node.data or b""))
    version = node.version
    if expected != -1 and expected != version:
        raise RefusedError(Code.BAD_VERSION)
    return _new(txns.SetDataTxn, (path, data, version + 1 if version != MAX_INT32 else MIN_INT32))


def _prepare_set_acl(request: req.SetACL, asker: Asker, find: Find) -> txns.SetACLTxn:
    asked_path = _writable(request.path, asker)
    acl = expand_acl(request.acl, asker.identities, asker.config.schemes, asker.rules)
    assert acl, "a znode without an ACL is open to everybody"
    path = not_null(asked_path)
    node = _existing(find, path)
    asker.need(node, _TO_SET_ACL)
    return txns.SetACLTxn(path, acl, _next_version(node.aversion, request.version))


def _prepare_check(request: req.Check, asker: Asker, find: Find) -> txns.CheckTxn:
    node = _at_valid(find, request.path, asker)
    asker.need(node, _TO_CHECK)
    return txns.CheckTxn(not_null(request.path), _next_version(node.version, request.version))


def _prepare_reconfig(request: req.Reconfig, asker: Asker, find: Find) -> txns.TreeRecord:
    # A standalone server has no ensemble to reconfigure (§1.5).
    is_disabled = asker.rules.enables_reconfig and not asker.config.reconfig_enabled
    raise RefusedError(Code.RECONFIG_DISABLED if is_disabled else Code.UNIMPLEMENTED)


PREPARE: dict[type, Callable[..., txns.TreeRecord]] = {
    req.Create: _prepare_create,
    req.Create2: _prepare_create,
    req.CreateContainer: _prepare_create,
    req.CreateTTL: _prepare_create,
    req.Delete: _prepare_delete,
    req.DeleteContainer: _prepare_delete_container,
    req.SetData: _prepare_set_data,
    req.SetACL: _prepare_set_acl,
    req.Check: _prepare_check,
    req.Reconfig: _prepare_reconfig,
}
assert PREPARE.keys() == of_kind(Kind.WRITE, Kind.PART) - {req.Multi}, "each write except a multi has a check"
assert {permission_of(kind) for kind in (req.Create2, req.CreateContainer, req.CreateTTL)} == {_TO_CREATE}


def lacks_ttl(operation: req.Create, rules: Rules) -> bool:
    """Return whether the flags of a create in a multi make it a TTL node, though it has no time to live.

    From 3.7.2 and 3.8.2 on, such a multi cannot be decoded.
    """
    return not rules.multi_keeps_opcodes and operation.flags in _TTL_FLAGS and operation.flags <= rules.last_flags


def prepare_multi(request: Multi, asker: Asker, find: Callable[[str], Znode | None], session_id: int) -> txns.MultiTxn:
    """Check a multi and return the record of its transaction, which may be a failed one.

    Args:
        request: the multi.
        asker: client and rules.
        find: look-up of the tree.
        session_id: session of the client.

    Raises:
        RefusedError: MARSHALLING_ERROR, for a request that the real server rejects as a whole.
    """
    operations = request.operations
    if request.has_null_path:
        raise RefusedError(Code.MARSHALLING_ERROR)
    unknown = asker.rules.unknown
    if unknown and not unknown.isdisjoint(map(type, operations)):
        raise RefusedError(Code.MARSHALLING_ERROR)
    outstanding = Outstanding(find, session_id)
    records: list[txns.MultiRecord] = []
    remaining = len(operations)
    for operation in operations:
        remaining -= 1
        if operation.__class__ is req.Create and lacks_ttl(operation, asker.rules):
            raise RefusedError(Code.MARSHALLING_ERROR)
        try:
            record = PREPARE[operation.__class__](operation, asker, outstanding.find)
        except RefusedError as refused:
            if refused.code == Code.MARSHALLING_ERROR:
                raise
            rest = [txns.ErrorTxn(Code.RUNTIME_INCONSISTENCY)] * remaining
            assert len(records) + 1 + len(rest) == len(operations), "each operation has a record"
            return txns.MultiTxn((*records, txns.ErrorTxn(refused.code), *rest))
        assert not isinstance(record, txns.DeleteContainerTxn | txns.SetACLTxn), "a multi has no such operation"
        records.append(record)
        if remaining:
            flags = getattr(operation, "flags", 0)
            outstanding.note(record, ephemeral=FLAGS[flags].ephemeral)
    assert len(records) == len(operations), "each operation has a record"
    return txns.MultiTxn(tuple(records))
