"""A kazoo client whose calls are recorded for the linearizability checker.

Rules of this module:
  - each method asks what kazoo's method of that name asks, and returns what the tree model says of it;
  - an error of the server is a result; a lost connection leaves the outcome unknown, and is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    ZookeeperError,
)
from kazoo.protocol.states import ZnodeStat

from simzk.testing.linearizability.models import SeenStat, TreeCall, TreeResult, seen
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import OperationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kazoo.client import KazooClient

    from simzk.testing.linearizability.checker import HistoryRecorder

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
    >>> from simzk.testing.linearizability.checker import HistoryRecorder, find_violation
    >>> from simzk.testing.linearizability.models import TreeModel
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
        return self._ask(req.SetData(path, data, version), lambda: _stat(self.client.set(path, data, version)))

    def get(self, path: str) -> TreeResult:
        """The body is (data, `SeenStat`)."""

        def get() -> object:
            data, stat = self.client.get(path)
            return data, _stat(stat)

        return self._ask(req.GetData(path, False), get)

    def exists(self, path: str) -> TreeResult:
        """The body is a `SeenStat`."""

        def exists() -> object:
            stat = self.client.exists(path)
            if stat is None:  # kazoo returns this error as a result
                raise NoNodeError
            return _stat(stat)

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
    if isinstance(operation, req.SetData):
        assert isinstance(result, ZnodeStat)
        return OperationResult(0, _stat(result))
    return OperationResult(0, result if isinstance(operation, req.Create) else None)


def _stat(stat: ZnodeStat) -> SeenStat:
    return SeenStat(stat.version, stat.cversion, stat.aversion, stat.ephemeralOwner, stat.dataLength, stat.numChildren)
