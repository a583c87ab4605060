"""Linearizability checker, with models for registers and znode trees and a recording kazoo client.

A history is linearizable if each operation can be given one instant between its call and its return, so that the
operations, done one at a time in the order of these instants, have the results that were seen (Herlihy and Wing 1990).

Rules of this module:
  - a history says what clients saw, a model says what one client alone would have seen; the checker knows no server;
  - an operation of which the outcome is unknown (the connection was lost before the reply) may have happened at any
    instant after its call, or never;
  - a history whose parts cannot influence each other is checked part by part (P-compositionality), as the model says;
  - the search is Wing and Gong's, with Lowe's memory: a set of done operations that led to a state is not tried again;
  - the model of a tree puts the nodes of a state into a `Server` of our own and asks it. So it finds what concurrency
    breaks; what a `Server` does wrong for one client alone is found by comparing it with a real one
    (tests/conformance);
  - times and zxids belong to no state: they would tell apart what no client can, and two orders of equal effect;
  - an error of the server is a result; a lost connection leaves the outcome unknown, and is raised.

Source of the method: Wing, Gong, "Testing and verifying concurrent objects" (1993); Lowe, "Testing for
linearizability" (2016); the checkers Knossos and porcupine.

Record what concurrent clients ask and see, then look for an order of the operations that explains it:

>>> from simzk import linearizability
>>> recorder = linearizability.HistoryRecorder()
>>> recorder.call("client 1", linearizability.Set("/x", b"new"), lambda: 1)
1
>>> recorder.call("client 2", linearizability.Get("/x"), lambda: (b"", 0))
(b'', 0)
>>> print(linearizability.find_violation(linearizability.RegisterModel(), recorder.history()))
not linearizable; after these, in this order:
  client 1 [1, 2] Set(key='/x', value=b'new'): 1
none of these can be next:
  client 2 [3, 4] Get(key='/x'): (b'', 0), where (b'new', 1) would be right
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    ZookeeperError,
)
from kazoo.protocol.states import ZnodeStat

from simzk.errors import SimzkError
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code, OperationResult, Reply, Stat
from simzk.zookeeper.server import Server
from simzk.zookeeper.sessions import password_of
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode

if TYPE_CHECKING:
    from kazoo.client import KazooClient

__all__ = [
    "OUTCOME_UNKNOWN",
    "CompareAndSet",
    "Get",
    "HistoryRecorder",
    "Model",
    "Operation",
    "RecordingClient",
    "Register",
    "RegisterModel",
    "SeenStat",
    "Set",
    "TreeCall",
    "TreeModel",
    "TreeResult",
    "Violation",
    "find_violation",
]

State = TypeVar("State", bound=Hashable)
Asked = TypeVar("Asked")
Result = TypeVar("Result")


class Operation(NamedTuple, Generic[Asked, Result]):
    """One operation of a history.

    Attributes:
        client: who asked; for the reader of a violation.
        called_at: when it was called, in any unit; times of one history are comparable.
        returned_at: when its result was known, later than `called_at`; None where it never was.
        asked: what was asked.
        result: what came back; means nothing where `returned_at` is None.
    """

    client: str
    called_at: int
    returned_at: int | None
    asked: Asked
    result: Result | None


class Model(ABC, Generic[State, Asked, Result]):
    """Sequential specification of an object; states are hashable and immutable."""

    @abstractmethod
    def init(self) -> State:
        """Return the state before the history."""

    @abstractmethod
    def step(self, state: State, asked: Asked) -> tuple[State, Result]:
        """Return the state after an operation, and its result."""

    def equal(self, expected: Result, seen: Result | None) -> bool:
        """Return whether the result of a step equals the one that a client observed."""
        return expected == seen

    def partition(self, history: Sequence[Operation[Asked, Result]]) -> list[list[Operation[Asked, Result]]]:
        """Return independent parts of the history, each starting from `init()`; by default one part."""
        return [list(history)]


@dataclass(frozen=True)
class Violation(Generic[Asked, Result]):
    """A history that no order of its operations explains.

    Attributes:
        explained: the longest order that was found, in which every result is right.
        blocked: the operations that could have come next, each with the result that it should have had there.
    """

    explained: tuple[Operation[Asked, Result], ...]
    blocked: tuple[tuple[Operation[Asked, Result], Result], ...]

    def __str__(self) -> str:
        lines = ["not linearizable; after these, in this order:"]
        lines += [f"  {_describe(operation)}" for operation in self.explained]
        lines.append("none of these can be next:")
        lines += [
            f"  {_describe(operation)}, where {expected!r} would be right" for operation, expected in self.blocked
        ]
        return "\n".join(lines)


def _describe(operation: Operation[Asked, Result]) -> str:
    client, called_at, returned_at, asked, result = operation
    outcome = "outcome unknown" if returned_at is None else repr(result)
    return f"{client} [{called_at}, {'...' if returned_at is None else returned_at}] {asked!r}: {outcome}"


def find_violation(
    model: Model[State, Asked, Result], history: Sequence[Operation[Asked, Result]]
) -> Violation[Asked, Result] | None:
    """Return why a history is not linearizable, or None if it is.

    Exact: it answers None if and only if there is an order. The time it takes grows with how many operations overlap,
    not with the length of the history, but may be exponential in the former.

    Args:
        model: what the operations should do.
        history: the operations, in any order.

    Returns:
        The violation in the first part of the history that has one, or None.

    Raises:
        SimzkError: an operation that returned before it was called.

    >>> from simzk.testing.linearizability import CompareAndSet, Get, RegisterModel
    >>> won, also_won = CompareAndSet("/leader", b"a", 0), CompareAndSet("/leader", b"b", 0)
    >>> found = find_violation(RegisterModel(), [Operation("a", 1, 3, won, 1), Operation("b", 2, 4, also_won, 1)])
    >>> print(found)
    not linearizable; after these, in this order:
      a [1, 3] CompareAndSet(key='/leader', value=b'a', version=0): 1
    none of these can be next:
      b [2, 4] CompareAndSet(key='/leader', value=b'b', version=0): 1, where None would be right
    >>> lost = Operation("b", 2, None, also_won, None)
    >>> seen = Operation("a", 5, 6, Get("/leader"), (b"b", 1))
    >>> find_violation(RegisterModel(), [lost, seen]) is None
    True
    """
    for operation in history:
        if operation.returned_at is not None and operation.returned_at <= operation.called_at:
            raise SimzkError(
                f"returned at {operation.returned_at}", where=_describe(operation), right=f"after {operation.called_at}"
            )
    for part in model.partition(history):
        violation = _Search(model, part).violation()
        if violation is not None:
            return violation
    return None


class _Search(Generic[State, Asked, Result]):
    """Depth-first search for an order of one part; sets of operations are integers, bit i for `_operations[i]`."""

    def __init__(self, model: Model[State, Asked, Result], history: Sequence[Operation[Asked, Result]]) -> None:
        self._model = model
        self._operations = sorted(history, key=lambda one: (one.returned_at is None, one.called_at))
        self._known_count = sum(one.returned_at is not None for one in history)
        self._all_known = (1 << self._known_count) - 1

    def violation(self) -> Violation[Asked, Result] | None:
        """Return None if an order of all operations with known outcome exists; it may contain some of the others."""
        if not self._known_count:
            return None
        init = self._model.init()
        tried: set[tuple[int, State]] = {(0, init)}
        order: list[int] = []
        longest: list[int] = []
        path: list[tuple[int, Iterator[tuple[int, State]]]] = [(0, self._successors(0, init))]
        while path:
            done, successors = path[-1]
            if len(order) > len(longest):
                longest = order.copy()
            for index, state in successors:
                after = done | 1 << index
                if (after, state) not in tried:
                    tried.add((after, state))
                    order.append(index)
                    if after & self._all_known == self._all_known:
                        return None
                    path.append((after, self._successors(after, state)))
                    break
            else:
                path.pop()
                if order:
                    order.pop()
        return self._explain(longest)

    def _successors(self, done: int, state: State) -> Iterator[tuple[int, State]]:
        """Return the operations that can be next, with the state after each."""
        changing: list[tuple[int, State]] = []
        for index in self._next(done):
            operation = self._operations[index]
            after, result = self._model.step(state, operation.asked)
            if operation.returned_at is None:
                # An operation of unknown outcome that changes nothing can be left out.
                if after != state:
                    changing.append((index, after))
            elif self._model.equal(result, operation.result):
                if after == state:
                    # If any order exists from here, one exists that begins with this operation: no other needs a try.
                    return iter([(index, after)])
                changing.append((index, after))
        return iter(changing)

    def _next(self, done: int) -> list[int]:
        """Return the operations that were called before the first remaining one returned, unknown outcomes last."""
        operations = self._operations
        first_open = (~done & (done + 1)).bit_length() - 1
        able: list[int] = []
        limit: int | None = None
        for index in range(first_open, self._known_count):
            if done >> index & 1:
                continue
            _, called_at, returned_at, _, _ = operations[index]
            if limit is not None and called_at > limit:
                break
            assert returned_at is not None
            limit = returned_at if limit is None else min(limit, returned_at)
            able.append(index)
        assert limit is not None, "as long as a known outcome is to be explained, one of them limits the next"
        able += [index for index in range(self._known_count, len(operations)) if not done >> index & 1]
        return [index for index in able if operations[index].called_at <= limit]

    def _explain(self, order: Sequence[int]) -> Violation[Asked, Result]:
        state, done = self._model.init(), 0
        for index in order:
            state, _ = self._model.step(state, self._operations[index].asked)
            done |= 1 << index
        following = [self._operations[index] for index in self._next(done)]
        blocked = ((one, self._model.step(state, one.asked)[1]) for one in following if one.returned_at is not None)
        return Violation(tuple(self._operations[index] for index in order), tuple(blocked))


class HistoryRecorder(Generic[Asked, Result]):
    """Recorder of a history of clients in several threads; its times are positions in one order of calls and returns.

    >>> from simzk.testing.linearizability import Get, RegisterModel
    >>> recorder = HistoryRecorder()
    >>> recorder.call("a", Get("/x"), lambda: (b"", 0))
    (b'', 0)
    >>> find_violation(RegisterModel(), recorder.history()) is None
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self._operations: list[Operation[Asked, Result]] = []

    def call(self, client: str, asked: Asked, do: Callable[[], Result]) -> Result:
        """Run an operation and record it.

        Args:
            client: who asks.
            asked: what is asked, in the model's terms.
            do: asks it, and gives the result in the model's terms, an error that is a result included. If it raises,
                the outcome is unknown.

        Returns:
            What `do` returned.
        """
        with self._lock:
            self._now += 1
            index = len(self._operations)
            self._operations.append(Operation(client, self._now, None, asked, None))
        result = do()
        with self._lock:
            self._now += 1
            self._operations[index] = self._operations[index]._replace(returned_at=self._now, result=result)
        return result

    def history(self) -> list[Operation[Asked, Result]]:
        """Return all operations so far; the outcome of those in progress is unknown."""
        with self._lock:
            return list(self._operations)


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
        return Register(self._value, 0)

    def step(self, state: Register, asked: RegisterCall) -> tuple[Register, RegisterResult]:
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
            versions = body.version, body.cversion, body.aversion
            return SeenStat(*versions, body.ephemeral_owner, body.data_length, body.num_children)
        case ZnodeStat():
            versions = body.version, body.cversion, body.aversion
            return SeenStat(*versions, body.ephemeralOwner, body.dataLength, body.numChildren)
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
        return self._init

    def step(self, state: TreeState, asked: TreeCall) -> tuple[TreeState, TreeResult]:
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
            tops = sessions[session_id] if isinstance(request, req.CloseSession) else tops_of(request)
            first, *others = sorted({_leader(leaders, top) for top in tops}) or [""]
            leaders |= dict.fromkeys(others, first)
        if any("" in tops for tops in sessions.values()):
            return [list(history)]
        parts: dict[str, list[Operation[TreeCall, TreeResult]]] = {}
        for operation in history:
            session_id, request = operation.asked
            tops = tops_of(request) or sessions[session_id] or {""}
            parts.setdefault(_leader(leaders, min(tops)), []).append(operation)
        return list(parts.values())


def _leader(leaders: Mapping[str, str], top: str) -> str:
    while top in leaders:
        top = leaders[top]
    return top


_READS = (req.Exists, req.GetData, req.GetACL, req.GetChildren, req.GetChildren2, req.Sync)
_OF_ONE_PATH = (*_READS, req.Delete, req.SetData, req.SetACL, req.Check)


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
        case _ if isinstance(request, _OF_ONE_PATH):
            return {(request.path or "").removeprefix("/").partition("/")[0]}
        case _:
            raise SimzkError(f"{type(request).__name__} is not modelled", where="history", right="reads and writes")


@lru_cache(maxsize=1 << 16, typed=True)  # requests of two kinds with the same fields are equal
def _step(state: TreeState, session_id: int, request: req.Request) -> tuple[TreeState, TreeResult]:
    if session_id in state.ended:
        return state, TreeResult(Code.SESSION_EXPIRED, None)
    server = Server(tree=_tree(state.nodes), sessions=[(session_id, 10_000)])
    connection = server.connect(req.ConnectRequest(0, 0, 10_000, session_id, password_of(session_id), False), now_ms=0)
    server.take_output()
    assert session_id in server.sessions, "the session of a step is live"
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


OUTCOME_UNKNOWN: tuple[type[Exception], ...] = (
    ConnectionLoss,
    OperationTimeoutError,
    ConnectionClosedError,
    SessionExpiredError,
)
"""Exceptions after which it is unknown whether the call was applied."""

Write = req.Create | req.Delete | req.SetData | req.Check


class RecordingClient:
    """Wrapper of a kazoo client that records requests and results.

    Args:
        client: a started client. Its session must not end while it is recorded.
        recorder: where the history is kept; several clients share one.
        name: how the client is called in the history.

    >>> from simzk import ZooKeeper
    >>> recorder = HistoryRecorder()
    >>> with ZooKeeper() as zookeeper:
    ...     client = zookeeper.client()
    ...     client.start()
    ...     recording = RecordingClient(client, recorder, "a")
    ...     created = recording.create("/a", b"x")
    ...     read = recording.get("/a")
    >>> created.body, read.body[0]
    ('/a', b'x')
    >>> find_violation(TreeModel(), recorder.history()) is None
    True
    """

    def __init__(self, client: KazooClient, recorder: HistoryRecorder[TreeCall, TreeResult], name: str) -> None:
        self.client = client
        self._recorder = recorder
        self._name = name
        session_id, _ = client.client_id
        self._session_id: int = session_id

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> TreeResult:
        """Create a znode; the recorded body is the path."""
        request = req.Create(path, data, req.OPEN_ACL, ephemeral + 2 * sequence)
        return self._ask(request, lambda: self.client.create(path, data, ephemeral=ephemeral, sequence=sequence))

    def delete(self, path: str, version: int = -1) -> TreeResult:
        """Delete a znode; the body of the result is None."""
        return self._ask(req.Delete(path, version), lambda: self.client.delete(path, version) and None)

    def set(self, path: str, data: bytes, version: int = -1) -> TreeResult:
        """The body is a `SeenStat`."""
        return self._ask(req.SetData(path, data, version), lambda: self.client.set(path, data, version))

    def get(self, path: str) -> TreeResult:
        """The body is (data, `SeenStat`)."""
        return self._ask(req.GetData(path, False), lambda: self.client.get(path))

    def exists(self, path: str) -> TreeResult:
        """The body is a `SeenStat`."""

        def exists() -> object:
            stat = self.client.exists(path)
            if stat is None:  # kazoo returns this error as a result
                raise NoNodeError
            return stat

        return self._ask(req.Exists(path, False), exists)

    def get_children(self, path: str) -> TreeResult:
        """The body is a set of names."""
        return self._ask(req.GetChildren(path, False), lambda: list(self.client.get_children(path)))

    def multi(self, operations: Sequence[Write]) -> TreeResult:
        """A kazoo transaction; the body is a `TreeResult` for each operation."""
        return self._ask(req.Multi(tuple(operations)), lambda: self._commit(operations))

    def _commit(self, operations: Sequence[Write]) -> list[OperationResult]:
        transaction = self.client.transaction()
        for operation in operations:
            match operation:
                case req.Create(path, data, _, flags):
                    transaction.create(path, data, ephemeral=bool(flags & 1), sequence=bool(flags & 2))
                case req.Delete(path, version):
                    transaction.delete(path, version)
                case req.SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case req.Check(path, version):
                    transaction.check(path, version)
        return list(map(_operation_result, operations, transaction.commit()))

    def _ask(self, request: req.Request, ask: Callable[[], object]) -> TreeResult:
        return self._recorder.call(self._name, TreeCall(self._session_id, request), lambda: _answer(ask))


def _answer(ask: Callable[[], object]) -> TreeResult:
    try:
        return TreeResult(0, seen(ask()))
    except OUTCOME_UNKNOWN:
        raise
    except ZookeeperError as error:
        return TreeResult(error.code, None)


def _operation_result(operation: Write, result: object) -> OperationResult:
    if isinstance(result, ZookeeperError):
        # Of operations before the one that failed too: their code is 0, as on the wire.
        return OperationResult(result.code, None)
    return OperationResult(0, result if isinstance(operation, req.Create | req.SetData) else None)
