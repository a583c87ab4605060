"""Models for the linearizability checker: registers with versions, and a whole tree of znodes.

Rules of this module:
  - a state is a value; a step asks nothing but the state and the operation;
  - what one client alone would have seen of a tree is not written here a second time: a step puts the state's nodes
    into a `Server` of our own and asks it. So this model finds what concurrency breaks; what a `Server` does wrong
    for one client alone is found by comparing it with a real one (tests/conformance);
  - times and zxids belong to no state: they would tell apart what no client can, and two orders of equal effect.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from simzk.errors import SimzkError
from simzk.testing.linearizability.checker import Model, Operation
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code, OperationResult, Reply, Stat
from simzk.zookeeper.server import Server
from simzk.zookeeper.sessions import password_of
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode

# Registers


class Get(NamedTuple):
    """Read a register; the result is its value and version."""

    key: str


class Set(NamedTuple):
    """Set the value for any version; the result is the new version."""

    key: str
    value: bytes


class CompareAndSet(NamedTuple):
    """Set the value if the version matches; the result is the new version, or None."""

    key: str
    value: bytes
    version: int


RegisterCall = Get | Set | CompareAndSet
RegisterResult = tuple[bytes, int] | int | None


class Register(NamedTuple):
    """A value, and the number of times it was set."""

    value: bytes
    version: int


class RegisterModel(Model[Register, RegisterCall, RegisterResult]):
    """Registers by key, as znodes are that are only read and set: each begins as `value` of version 0.

    >>> RegisterModel(b"old").step(Register(b"old", 0), Set("/a", b"new"))
    (Register(value=b'new', version=1), 1)
    """

    def __init__(self, value: bytes = b"") -> None:
        self._value = value

    def init(self) -> Register:
        """Return a register with the initial value and version 0."""
        return Register(self._value, 0)

    def step(self, state: Register, asked: RegisterCall) -> tuple[Register, RegisterResult]:
        """Return the register after an operation, and its result."""
        match asked:
            case Get():
                return state, (state.value, state.version)
            case CompareAndSet(version=version) if version != state.version:
                return state, None
            case Set(value=value) | CompareAndSet(value=value):
                return Register(value, state.version + 1), state.version + 1

    def partition(
        self, history: Sequence[Operation[RegisterCall, RegisterResult]]
    ) -> list[list[Operation[RegisterCall, RegisterResult]]]:
        """Return one part for each key."""
        parts: dict[str, list[Operation[RegisterCall, RegisterResult]]] = {}
        for operation in history:
            parts.setdefault(operation.asked.key, []).append(operation)
        return list(parts.values())


# Trees


class TreeCall(NamedTuple):
    """A request of a session."""

    session_id: int
    request: req.Request


class SeenStat(NamedTuple):
    """The fields of a Stat that do not depend on times and zxids."""

    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int


class TreeResult(NamedTuple):
    """The error of a reply, and `seen` of its body."""

    error: int
    body: Hashable


class NodeState(NamedTuple):
    """A znode as the model compares it: its path and its fields without times and zxids."""

    path: str
    data: bytes | None
    acl: tuple[req.ACL, ...]
    ephemeral_owner: int
    version: int
    cversion: int
    aversion: int


class TreeState(NamedTuple):
    """All nodes by path, and the closed sessions."""

    nodes: tuple[NodeState, ...]
    ended: frozenset[int]


def seen(body: object) -> Hashable:
    """Return the body of a reply without times and zxids, and lists of children as sets.

    >>> seen((b"x", Stat(7, 8, 1000, 2000, 1, 0, 0, 0, 1, 0, 7)))
    (b'x', SeenStat(version=1, cversion=0, aversion=0, ephemeral_owner=0, data_length=1, num_children=0))
    """
    match body:
        case Stat():
            return SeenStat(
                body.version,
                body.cversion,
                body.aversion,
                body.ephemeral_owner,
                body.data_length,
                body.num_children,
            )
        case SeenStat():
            return body
        case OperationResult():
            return TreeResult(body.error, seen(body.body))
        case list() if body and isinstance(body[0], OperationResult):
            return tuple(map(seen, body))
        case list():
            return frozenset(body)
        case tuple():
            return tuple(map(seen, body))
        case _:
            assert isinstance(body, Hashable)
            return body


class TreeModel(Model[TreeState, TreeCall, TreeResult]):
    """Model of the tree of one ZooKeeper server with initial nodes, for clients without authentication.

    Followers of an ensemble may lag: of their reads only those behind a `sync` are linearizable.

    Args:
        data: nodes that are there from the start, by path, parents first.

    >>> model = TreeModel({"/a": b"old"})
    >>> _, result = model.step(model.init(), TreeCall(1, req.SetData("/a", b"new", 0)))
    >>> result.error, result.body.version
    (0, 1)
    """

    def __init__(self, data: Mapping[str, bytes] | None = None) -> None:
        tree = DataTree()
        for path, value in (data or {}).items():
            parent = tree.get(path.rpartition("/")[0])
            if parent is None:
                raise SimzkError(f"{path!r} has no parent", where="data", right="parents first")
            parent.cversion += 1
            tree.plant(path, Znode(value, req.OPEN_ACL, 0, 0, 0))
        self._init = TreeState(_nodes(tree), frozenset())

    def init(self) -> TreeState:
        """Return the initial tree."""
        return self._init

    def step(self, state: TreeState, asked: TreeCall) -> tuple[TreeState, TreeResult]:
        """Return the tree after a request, and the result."""
        return _step(state, asked.session_id, asked.request)

    def partition(
        self, history: Sequence[Operation[TreeCall, TreeResult]]
    ) -> list[list[Operation[TreeCall, TreeResult]]]:
        """Split the history by the nodes under the root, unless an operation reads the root itself.

        A node under the root changes the numbers of the root only, so that who never sees these can tell nothing of
        other nodes there. Operations of a multi belong together, and so does all that a closing session asked.
        """
        leaders: dict[str, str] = {}
        sessions: dict[int, set[str]] = {}
        for operation in history:
            sessions.setdefault(operation.asked.session_id, set()).update(tops_of(operation.asked.request))
        for operation in history:
            session_id, request = operation.asked
            closing = isinstance(request, req.CloseSession)
            _join(leaders, sessions[session_id] if closing else tops_of(request))
        if any("" in tops for tops in sessions.values()):
            return [list(history)]
        parts: dict[str, list[Operation[TreeCall, TreeResult]]] = {}
        for operation in history:
            session_id, request = operation.asked
            tops = tops_of(request) or sessions[session_id] or {""}
            parts.setdefault(_leader(leaders, min(tops)), []).append(operation)
        return list(parts.values())


def _join(leaders: dict[str, str], tops: Iterable[str]) -> None:
    found = sorted({_leader(leaders, top) for top in tops})
    for other in found[1:]:
        leaders[other] = found[0]


def _leader(leaders: Mapping[str, str], top: str) -> str:
    while top in leaders:
        top = leaders[top]
    return top


def tops_of(request: req.Request) -> set[str]:
    """Return the names under the root that a request refers to; "" for the root itself.

    Raises:
        SimzkError: a request that the model does not know.

    >>> tops_of(req.GetData("/a/b", False)), tops_of(req.Create("/q-", b"", req.OPEN_ACL, 2))
    ({'a'}, {''})
    """
    match request:
        case req.CloseSession():
            return set()
        case req.Multi(operations):
            return {top for operation in operations for top in tops_of(operation)}
        case (
            req.Create(path=path, flags=flags)
            | req.Create2(path=path, flags=flags)
            | req.CreateContainer(path=path, flags=flags)
        ):
            top, slash, _ = (path or "").removeprefix("/").partition("/")
            # The name of a sequential node depends on a counter of its parent.
            return {"" if flags & 2 and not slash else top}
        case (
            req.Delete(path=path)
            | req.Exists(path=path)
            | req.GetData(path=path)
            | req.SetData(path=path)
            | req.GetACL(path=path)
            | req.SetACL(path=path)
            | req.GetChildren(path=path)
            | req.GetChildren2(path=path)
            | req.Sync(path=path)
            | req.Check(path=path)
        ):
            return {(path or "").removeprefix("/").partition("/")[0]}
        case _:
            raise SimzkError(f"{type(request).__name__} is not modelled", where="history", right="reads and writes")


@lru_cache(maxsize=1 << 16, typed=True)  # requests of two kinds with the same fields are equal
def _step(state: TreeState, session_id: int, request: req.Request) -> tuple[TreeState, TreeResult]:
    if session_id in state.ended:
        return state, TreeResult(Code.SESSION_EXPIRED, None)
    server = Server(tree=_tree(state.nodes), sessions=[(session_id, 10_000)])
    connection = server.connect(req.ConnectRequest(0, 0, 10_000, session_id, password_of(session_id), False), now_ms=0)
    server.take_output()
    server.handle(connection, 1, request, now_ms=0)
    (reply,) = [said for said in connection.outgoing if isinstance(said, Reply)]
    ended = state.ended if session_id in server.sessions else state.ended | {session_id}
    return TreeState(_nodes(server.tree), ended), TreeResult(int(reply.error), seen(reply.body))


def _nodes(tree: DataTree) -> tuple[NodeState, ...]:
    return tuple(
        NodeState(path, node.data, node.acl, node.ephemeral_owner, node.version, node.cversion, node.aversion)
        for path, node in sorted(tree.walk(), key=lambda entry: entry[0])
    )


def _tree(nodes: Iterable[NodeState]) -> DataTree:
    tree = DataTree.bare()
    for path, data, acl, owner, version, cversion, aversion in nodes:
        node = Znode(data, acl, owner, 0, 0)
        node.version, node.cversion, node.aversion = version, cversion, aversion
        tree.plant(path, node)
    return tree
