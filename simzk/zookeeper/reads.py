"""Requests that change no znode (§1.5), in one table.

Rules of this module:
  - one function per request; it returns the body of the reply or raises `RefusedError`;
  - a path is looked up without validation: no node has an invalid one;
  - a read that fails sets no watch, except `Exists` on a missing node (§3).

Source: FinalRequestProcessor, DataTree.setWatches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper.acl import ADMIN, client_info, without_secrets
from simzk.zookeeper.operations import Kind, of_kind, permission_of
from simzk.zookeeper.replies import Code, EventType, OperationResult, RefusedError, WatchedEvent, not_null
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.watches import Mode, WatcherType

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import ClientInfo, Stat
    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.tree import DataTree
    from simzk.zookeeper.watches import WatchManager
    from simzk.zookeeper.znode import Znode

# Permissions from the table of operations, looked up once for this hot path.
_TO_GET_DATA, _TO_EXISTS, _TO_GET_ACL = map(permission_of, (req.GetData, req.Exists, req.GetACL))
_TO_GET_CHILDREN, _TO_COUNT = permission_of(req.GetChildren), permission_of(req.GetAllChildrenNumber)

_JAVA_BLANKS = "".join(map(chr, range(33)))
"""Characters that `String.trim` removes."""


class Reader:
    """Reads of a server's tree; they register watches."""

    __slots__ = ("tree", "watches")

    def __init__(self, tree: DataTree, watches: WatchManager[Connection]) -> None:
        self.tree = tree
        self.watches = watches

    def _existing(self, path: str | None) -> Znode:
        if path is None:
            raise RefusedError(Code.MARSHALLING_ERROR)
        node = self.tree.find(path)
        if node is None:
            raise RefusedError(Code.NO_NODE)
        return node

    def _readable(self, connection: Connection, path: str | None, permission: int) -> Znode:
        node = self._existing(path)
        if node.acl is not OPEN_ACL:
            connection.asker.need(node, permission)
        return node

    def get_data(self, connection: Connection, request: req.GetData) -> tuple[bytes | None, Stat]:
        """Return the data and the Stat of a node."""
        path, watch = request
        node = self._readable(connection, path, _TO_GET_DATA)
        if watch:
            self.watches.data.add(path, connection, Mode.STANDARD)
        return node.data, node.stat()

    def exists(self, connection: Connection, request: req.Exists) -> Stat:
        """Return the Stat of a node; the watch is set even if the node is missing."""
        path, watch = request
        if path is None:
            raise RefusedError(Code.MARSHALLING_ERROR)
        if "\0" in path:
            raise RefusedError(Code.BAD_ARGUMENTS)
        node = self.tree.find(path)
        if node is not None and connection.asker.rules.hides_unreadable:
            connection.asker.need(node, _TO_EXISTS)
        if watch:
            self.watches.data.add(path, connection, Mode.STANDARD)
        if node is None:
            raise RefusedError(Code.NO_NODE)
        return node.stat()

    def get_acl(self, connection: Connection, request: req.GetACL) -> tuple[tuple[ACL, ...], Stat]:
        """Return the ACL, without digests unless the client has ADMIN, and the Stat of a node."""
        if not connection.asker.rules.hides_secrets:
            node = self._existing(request.path)
            return node.acl, node.stat()
        node = self._readable(connection, request.path, _TO_GET_ACL)
        return (node.acl if connection.asker.may(node.acl, ADMIN) else without_secrets(node.acl)), node.stat()

    def get_children(self, connection: Connection, request: req.GetChildren | req.GetChildren2) -> list[str]:
        """Return the names of the children of a node."""
        node = self._readable(connection, request.path, _TO_GET_CHILDREN)
        if request.watch:
            self.watches.child.add(request.path, connection, Mode.STANDARD)
        return node.child_names()

    def get_children2(self, connection: Connection, request: req.GetChildren2) -> tuple[list[str], Stat]:
        """Return the names of the children and the Stat of a node."""
        names = self.get_children(connection, request)
        stat = self._readable(connection, request.path, _TO_GET_CHILDREN).stat()
        assert stat.num_children == len(names)
        return names, stat

    def get_all_children_number(self, connection: Connection, request: req.GetAllChildrenNumber) -> int:
        """Return the number of descendants of a node."""
        self._readable(connection, request.path, _TO_COUNT)
        assert request.path is not None, "a null path is never readable"
        return self.tree.descendant_count(request.path)

    def get_ephemerals(self, connection: Connection, request: req.GetEphemerals) -> list[str]:
        """Return the paths of the session's ephemerals that start with a prefix."""
        owned = self.tree.ephemerals_of(connection.session_id)
        prefix = request.prefix
        if prefix is None or prefix.strip(_JAVA_BLANKS) in ("", "/"):
            return owned
        return [path for path in owned if path.startswith(prefix)]

    def sync(self, connection: Connection, request: req.Sync) -> str | None:
        """Return the path of the request."""
        return request.path

    def multi_read(self, connection: Connection, request: req.MultiRead) -> list[OperationResult]:
        """Return the result of each operation; their watches are not set."""
        results: list[OperationResult] = []
        for operation in request.operations:
            if not isinstance(operation, req.GetData | req.GetChildren) or operation.path is None:
                # The real server has begun its reply, and sends the results so far with the error.
                raise RefusedError(Code.MARSHALLING_ERROR, results)
            try:
                body = READS[operation.__class__](self, connection, operation._replace(watch=False))
                results.append(OperationResult(0, body))
            except RefusedError as refused:
                results.append(OperationResult(refused.code, None))
        assert len(results) == len(request.operations), "each operation has a result"
        return results

    def who_am_i(self, connection: Connection, request: req.WhoAmI) -> list[ClientInfo]:
        """Return the identities of the connection."""
        return [client_info(identity) for identity in connection.identities]

    def add_watch(self, connection: Connection, request: req.AddWatch) -> int:
        """Set a persistent watch, recursive in mode 1."""
        if request.mode not in (0, 1):
            raise RefusedError(Code.MARSHALLING_ERROR)
        self.watches.add_persistent(request.path, connection, recursive=request.mode == 1)
        assert request.path in self.watches.data.by_path, "both modes watch the znode itself"
        return 0

    def check_watches(self, connection: Connection, request: req.CheckWatches) -> None:
        """Raise NO_WATCHER unless the connection has a watch of a type."""
        if not self.watches.contains(request.path, connection, _watcher_type(request.watcher_type)):
            raise RefusedError(Code.NO_WATCHER)

    def remove_watches(self, connection: Connection, request: req.RemoveWatches) -> None:
        """Remove the watches of a type; raise NO_WATCHER if there are none."""
        if not self.watches.remove(request.path, connection, _watcher_type(request.watcher_type)):
            raise RefusedError(Code.NO_WATCHER)

    def set_watches(self, connection: Connection, request: req.SetWatches | req.SetWatches2) -> None:
        """Set the watches of an earlier connection again, and send the events that it missed (§3).

        No ACL is checked for these events, and their zxid is -1. A null path ends the request half-way, except among
        persistent watches, which need no look-up: there it gets a watch.
        """
        since, by_kind = request.relative_zxid, connection.asker.rules.resumes_by_kind
        for path in map(not_null, not_null(request.data)):
            node = self.tree.find(path)
            if node is None:
                connection.outgoing.append(WatchedEvent(EventType.NODE_DELETED, path, -1))
            elif node.czxid > since and not by_kind:
                connection.outgoing.append(WatchedEvent(EventType.NODE_CREATED, path, -1))
            elif node.mzxid > since:
                connection.outgoing.append(WatchedEvent(EventType.NODE_DATA_CHANGED, path, -1))
            else:
                self.watches.data.add(path, connection, Mode.STANDARD)
        for path in map(not_null, not_null(request.exist)):
            node = self.tree.find(path)
            if node is None:
                self.watches.data.add(path, connection, Mode.STANDARD)
            else:
                kind = EventType.NODE_CREATED if by_kind or node.mzxid <= since else EventType.NODE_DATA_CHANGED
                connection.outgoing.append(WatchedEvent(kind, path, -1))
        for path in map(not_null, not_null(request.child)):
            node = self.tree.find(path)
            if node is None:
                connection.outgoing.append(WatchedEvent(EventType.NODE_DELETED, path, -1))
            elif node.pzxid > since:
                connection.outgoing.append(WatchedEvent(EventType.NODE_CHILDREN_CHANGED, path, -1))
            else:
                self.watches.child.add(path, connection, Mode.STANDARD)
        if isinstance(request, req.SetWatches2):
            for at in not_null(request.persistent):
                self.watches.add_persistent(at, connection, recursive=False)
            for at in not_null(request.persistent_recursive):
                self.watches.add_persistent(at, connection, recursive=True)


def _watcher_type(number: int) -> WatcherType:
    if number not in WatcherType.__members__.values():
        raise RefusedError(Code.MARSHALLING_ERROR)
    return WatcherType(number)


READS: dict[type, Callable[..., object]] = {
    req.GetData: Reader.get_data,
    req.Exists: Reader.exists,
    req.GetACL: Reader.get_acl,
    req.GetChildren: Reader.get_children,
    req.GetChildren2: Reader.get_children2,
    req.GetAllChildrenNumber: Reader.get_all_children_number,
    req.GetEphemerals: Reader.get_ephemerals,
    req.Sync: Reader.sync,
    req.MultiRead: Reader.multi_read,
    req.WhoAmI: Reader.who_am_i,
    req.AddWatch: Reader.add_watch,
    req.CheckWatches: Reader.check_watches,
    req.RemoveWatches: Reader.remove_watches,
    req.SetWatches: Reader.set_watches,
    req.SetWatches2: Reader.set_watches,
}
assert READS.keys() == of_kind(Kind.READ), "each read has one function"
assert permission_of(req.GetChildren2) == _TO_GET_CHILDREN
