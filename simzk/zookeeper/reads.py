"""What the requests that change no znode answer (§1.5), in one table.

Rules of this module:
  - a function a request: the body of its reply, or a `RefusedError`;
  - a path is looked up as it is; that it is malformed shows only in that nothing stands there;
  - watches are left only where §3 says so: a read that fails leaves none, but for `Exists` on what is missing.

Source: FinalRequestProcessor, DataTree.setWatches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper.acl import ADMIN, client_info, without_secrets
from simzk.zookeeper.operations import Kind, of_kind, permission_of
from simzk.zookeeper.replies import ClientInfo, Code, EventType, OperationResult, RefusedError, Stat, WatchedEvent
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.watches import Mode, WatcherType

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.tree import DataTree
    from simzk.zookeeper.watches import WatchManager
    from simzk.zookeeper.znode import Znode

# What the table of operations says, looked up once: every read passes here.
_TO_GET_DATA, _TO_EXISTS, _TO_GET_ACL = map(permission_of, (req.GetData, req.Exists, req.GetACL))
_TO_GET_CHILDREN, _TO_COUNT = permission_of(req.GetChildren), permission_of(req.GetAllChildrenNumber)

_JAVA_BLANKS = "".join(map(chr, range(33)))
"""What `String.trim` takes away."""


class Reader:
    """What reads look at: a server's tree and watches."""

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
        path, watch = request
        node = self._readable(connection, path, _TO_GET_DATA)
        if watch:
            self.watches.data.add(path, connection, Mode.STANDARD)
        return node.data, node.stat()

    def exists(self, connection: Connection, request: req.Exists) -> Stat:
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
        if not connection.asker.rules.hides_secrets:
            node = self._existing(request.path)
            return node.acl, node.stat()
        node = self._readable(connection, request.path, _TO_GET_ACL)
        return (node.acl if connection.asker.may(node.acl, ADMIN) else without_secrets(node.acl)), node.stat()

    def get_children(self, connection: Connection, request: req.GetChildren | req.GetChildren2) -> list[str]:
        node = self._readable(connection, request.path, _TO_GET_CHILDREN)
        if request.watch:
            self.watches.child.add(request.path, connection, Mode.STANDARD)
        return node.child_names()

    def get_children2(self, connection: Connection, request: req.GetChildren2) -> tuple[list[str], Stat]:
        names = self.get_children(connection, request)
        return names, self._readable(connection, request.path, _TO_GET_CHILDREN).stat()

    def get_all_children_number(self, connection: Connection, request: req.GetAllChildrenNumber) -> int:
        self._readable(connection, request.path, _TO_COUNT)
        assert request.path is not None, "a null path is never readable"
        return self.tree.descendant_count(request.path)

    def get_ephemerals(self, connection: Connection, request: req.GetEphemerals) -> list[str]:
        owned = self.tree.ephemerals_of(connection.session_id)
        prefix = request.prefix
        if prefix is None or prefix.strip(_JAVA_BLANKS) in ("", "/"):
            return owned
        return [path for path in owned if path.startswith(prefix)]

    def sync(self, connection: Connection, request: req.Sync) -> str | None:
        return request.path

    def multi_read(self, connection: Connection, request: req.MultiRead) -> list[OperationResult]:
        results: list[OperationResult] = []
        for operation in request.operations:
            if not isinstance(operation, req.GetData | req.GetChildren) or operation.path is None:
                # The real server has begun its reply by now, and sends what it has with the error.
                raise RefusedError(Code.MARSHALLING_ERROR, results)
            try:
                body = READS[operation.__class__](self, connection, operation._replace(watch=False))
                results.append(OperationResult(0, body))
            except RefusedError as refused:
                results.append(OperationResult(refused.code, None))
        return results

    def who_am_i(self, connection: Connection, request: req.WhoAmI) -> list[ClientInfo]:
        return [client_info(identity) for identity in connection.identities]

    def add_watch(self, connection: Connection, request: req.AddWatch) -> int:
        if request.mode not in (0, 1):
            raise RefusedError(Code.MARSHALLING_ERROR)
        self.watches.add_persistent(request.path, connection, recursive=request.mode == 1)
        return 0

    def check_watches(self, connection: Connection, request: req.CheckWatches) -> None:
        if not self.watches.contains(request.path, connection, _watcher_type(request.watcher_type)):
            raise RefusedError(Code.NO_WATCHER)

    def remove_watches(self, connection: Connection, request: req.RemoveWatches) -> None:
        if not self.watches.remove(request.path, connection, _watcher_type(request.watcher_type)):
            raise RefusedError(Code.NO_WATCHER)

    def set_watches(self, connection: Connection, request: req.SetWatches | req.SetWatches2) -> None:
        """Take up the watches of an earlier connection; what they missed since is told at once (§3).

        No ACL is asked for these events, and they carry no zxid. A null among the paths ends it half-way, but where
        nothing is looked up: a persistent watch is left at it.
        """
        since, by_kind = request.relative_zxid, connection.asker.rules.resumes_by_kind
        for path in map(_looked_up, _paths(request.data)):
            node = self.tree.find(path)
            if node is None:
                connection.outgoing.append(WatchedEvent(EventType.NODE_DELETED, path, -1))
            elif node.czxid > since and not by_kind:
                connection.outgoing.append(WatchedEvent(EventType.NODE_CREATED, path, -1))
            elif node.mzxid > since:
                connection.outgoing.append(WatchedEvent(EventType.NODE_DATA_CHANGED, path, -1))
            else:
                self.watches.data.add(path, connection, Mode.STANDARD)
        for path in map(_looked_up, _paths(request.exist)):
            node = self.tree.find(path)
            if node is None:
                self.watches.data.add(path, connection, Mode.STANDARD)
            else:
                kind = EventType.NODE_CREATED if by_kind or node.mzxid <= since else EventType.NODE_DATA_CHANGED
                connection.outgoing.append(WatchedEvent(kind, path, -1))
        for path in map(_looked_up, _paths(request.child)):
            node = self.tree.find(path)
            if node is None:
                connection.outgoing.append(WatchedEvent(EventType.NODE_DELETED, path, -1))
            elif node.pzxid > since:
                connection.outgoing.append(WatchedEvent(EventType.NODE_CHILDREN_CHANGED, path, -1))
            else:
                self.watches.child.add(path, connection, Mode.STANDARD)
        if isinstance(request, req.SetWatches2):
            for at in _paths(request.persistent):
                self.watches.add_persistent(at, connection, recursive=False)
            for at in _paths(request.persistent_recursive):
                self.watches.add_persistent(at, connection, recursive=True)


def _watcher_type(number: int) -> WatcherType:
    if number not in WatcherType.__members__.values():
        raise RefusedError(Code.MARSHALLING_ERROR)
    return WatcherType(number)


def _paths(paths: tuple[str | None, ...] | None) -> tuple[str | None, ...]:
    if paths is None:
        raise RefusedError(Code.MARSHALLING_ERROR)
    return paths


def _looked_up(path: str | None) -> str:
    if path is None:
        raise RefusedError(Code.MARSHALLING_ERROR)
    return path


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
assert READS.keys() == of_kind(Kind.READ), "each read has its function"
assert permission_of(req.GetChildren2) == _TO_GET_CHILDREN
