"""Transactions of a real ZooKeeper's log and of a simulated one, in one comparable form.

Rules of this module:
  - every part of a transaction is compared: who wrote it, the operation, path, data, expected and new version, ACL, the
    parent's cversion, a session's timeout, and the request behind a failed write;
  - the writer is a broker by its id, or `client`: a tool or the recorder. Sessions have no other name;
  - the expected version of a write and the request behind an error come from the client's connection: where the
    recording does not have them (`ifVersion` and `asked` are absent), they are not compared;
  - the text of a `timestamp` is masked, since it is wall time.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from simzk.documents import gunzip
from simzk.errors import ZnodeError
from simzk.kafka.zookeeper_mode.tools.operator import NAME as OPERATOR
from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.cluster.zookeeper_host import NetworkLink

CLIENT = "client"
RECORDER = "lab"
"""The recorder in a recording: its connection is not recorded, and it expects no version."""
_OPEN_ACL = [(31, "world", "anyone")]
_ERRORS = {
    Code.OK: "Ok",
    Code.NO_NODE: "NoNode",
    Code.NODE_EXISTS: "NodeExists",
    Code.BAD_VERSION: "BadVersion",
    Code.RUNTIME_INCONSISTENCY: "RuntimeInconsistency",
    Code.NOT_EMPTY: "NotEmpty",
}
_OPERATIONS = ("create", "setData", "delete", "multi", "check", "error", "createSession", "closeSession")
_MODES = {0: "P", 1: "E", 2: "PS", 3: "ES"}
_CHECK_OFFSET = 1
"""A check in the log has the expected version plus one."""
_WITH_DATA = ("create", "setData")
_BROKER = re.compile(r"b(\d+)(?:#|$)")
_BROKER_ADDRESS = re.compile(r"broker (\d+)")

Data = str | dict[str, str] | None


class FailedRequest(Struct, omit_defaults=True):
    """Request behind a failed write; a field is None if the request has none, or if it was not recorded."""

    op: str | None = None
    path: str | None = None
    data: Data = None
    version: int | None = None
    mode: str | None = None


class RecordedOperation(Struct, rename="camel", omit_defaults=True):
    """Operation of a transaction, or one part of a multi, as in a recording."""

    op: str
    path: str = ""
    data: Data = None
    acl: list[tuple[int, str, str]] | None = None
    ephemeral: bool = False
    parent_cversion: int | None = None
    new_version: int | None = None
    if_version: int | None = None
    version: int | None = None
    err: str | None = None
    asked: FailedRequest | None = None
    ops: list[RecordedOperation] = []
    deleted: list[str] = []
    timeout: int = 0

    def parts(self) -> Iterator[RecordedOperation]:
        """Yield the operation, and the parts of a multi."""
        yield self
        yield from self.ops


class RecordedTransaction(RecordedOperation, rename="camel", omit_defaults=True):
    """Transaction of a recording.

    Attributes:
        who: `bN#K` for broker N; `tool`, or the recorder.
        session: id of the session.
        cxid: number of the request in its session; 0 for the expiry of a session.
        t: time in ms since the first transaction of the log.
        step: the step; None between steps.
    """

    who: str = ""
    session: str = ""
    cxid: int = -1
    t: int = 0
    step: str | None = None

    @property
    def broker(self) -> int | None:
        """The broker that wrote it, None for a client."""
        found = _BROKER.match(self.who)
        return int(found[1]) if found else None


class ComparableTransaction(NamedTuple):
    """Transaction in comparable form.

    Args:
        who: a broker, as `b2`, or `client`.
        session: number of the session in the step, in the order of first transactions: from 0 on for those that began
            in the step, below 0 for earlier ones.
        paths: its znodes, also those of failed writes.
        text: the whole transaction.
    """

    who: str
    session: int
    paths: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.who}: {self.text}"

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """The writer, the operation and the znodes: what two runs share, whatever was written."""
        return self.who, self.text.partition(" ")[0], self.paths

    @property
    def broker(self) -> int | None:
        """The broker that wrote it, None for a client."""
        return None if self.who == CLIENT else int(self.who[1:])


def load(path: Path) -> list[RecordedTransaction]:
    """Read the transactions of a recording; a file name that ends in `.gz` means gzip.

    Raises:
        OSError: the file cannot be read.
        ZnodeError: it is no list of transactions.
    """
    packed = path.read_bytes()
    try:
        text = gunzip(packed) if path.suffix == ".gz" else packed
        entries = msgspec.json.decode(text, type=list[RecordedTransaction])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ZnodeError(f"it is no list of transactions ({error})", where=str(path), right="a txns.json") from None
    for index, entry in enumerate(entries):
        if unknown := [part.op for part in entry.parts() if part.op not in _OPERATIONS]:
            where = f"{path}: [{index}].op"
            raise ZnodeError(f"{unknown[0]!r} is no operation", where=where, right=f"one of {', '.join(_OPERATIONS)}")
    return entries


def by_step(transactions: Iterable[RecordedTransaction]) -> dict[str, list[RecordedTransaction]]:
    """Return the transactions of each step, in order."""
    steps: dict[str, list[RecordedTransaction]] = {}
    for transaction in transactions:
        if transaction.step:
            steps.setdefault(transaction.step, []).append(transaction)
    return steps


def recorded(transactions: Iterable[RecordedTransaction]) -> list[ComparableTransaction]:
    """Return recorded transactions of one step in comparable form."""
    found = list(transactions)
    sessions = _numbered((entry.session, entry.op == "createSession") for entry in found)
    return [
        ComparableTransaction(
            CLIENT if entry.broker is None else f"b{entry.broker}",
            sessions[entry.session],
            tuple(_paths(entry)),
            _text(entry, -1 if entry.who == RECORDER else None),
        )
        for entry in found
    ]


def _numbered(seen: Iterable[tuple[object, bool]]) -> dict[object, int]:
    """Number the sessions, given with whether each begins there."""
    numbers: dict[object, int] = {}
    new, old = count(), count(-1, -1)
    for session, begins in seen:
        if session not in numbers:
            numbers[session] = next(new if begins else old)
    return numbers


class TransactionLog:
    """Transactions of a simulated cluster from now on, in comparable form.

    Args:
        cluster: the cluster; none of its sessions has begun.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self._transactions: list[txns.Transaction] = []
        self._requests: dict[tuple[int, int], req.Request] = {}
        self._addresses: dict[int, str] = {}
        cluster.zookeeper_host.on_request = self._note_request
        cluster.server.on_transaction.append(self._transactions.append)

    def _note_request(self, link: NetworkLink, xid: int, request: req.Request) -> None:
        self._addresses[link.session_id] = link.address
        self._requests[link.session_id, xid] = request

    def take(self) -> list[ComparableTransaction]:
        """Return all transactions since the last call."""
        sessions = _numbered((t.session_id, isinstance(t.record, txns.CreateSessionTxn)) for t in self._transactions)
        taken = [self.comparable(transaction, sessions[transaction.session_id]) for transaction in self._transactions]
        self._transactions.clear()
        self._requests.clear()
        return taken

    def comparable(self, transaction: txns.Transaction, session: int = 0) -> ComparableTransaction:
        """Return a transaction since the last `take` in comparable form, with the number of its session if given."""
        broker = _BROKER_ADDRESS.fullmatch(self._addresses.get(transaction.session_id, OPERATOR))
        entry = operation_of(transaction.record, self._requests.get((transaction.session_id, transaction.cxid)))
        return ComparableTransaction(f"b{broker[1]}" if broker else CLIENT, session, tuple(_paths(entry)), _text(entry))


def operation_of(record: txns.Record, request: req.Request | None) -> RecordedOperation:
    """Return what a transaction does, as in a recording.

    Args:
        record: the record of ZooKeeper's log.
        request: the request of a client behind it; None if there is none.
    """
    match record:
        case txns.MultiTxn():
            assert isinstance(request, req.Multi)
            parts = zip(record.records, request.operations, strict=True)
            return RecordedOperation("multi", ops=[operation_of(part, of) for part, of in parts])
        case txns.CheckTxn():
            return RecordedOperation(
                "check", record.path, version=record.version, if_version=record.version - _CHECK_OFFSET
            )
        case txns.ErrorTxn():
            return RecordedOperation("error", err=_ERRORS[Code(record.error)], asked=_request(request))
        case txns.CreateTxn() | txns.Create2Txn():
            acl = [(entry.perms, entry.id.scheme or "", entry.id.id or "") for entry in record.acl]
            data, parent = _decoded(record.data), record.parent_cversion
            other = None if acl == _OPEN_ACL else acl
            return RecordedOperation(
                "create", record.path, data, acl=other, ephemeral=record.ephemeral, parent_cversion=parent
            )
        case txns.SetDataTxn():
            assert isinstance(request, req.SetData)
            data = _decoded(record.data)
            return RecordedOperation(
                "setData", record.path, data, new_version=record.version, if_version=request.version
            )
        case txns.DeleteTxn():
            assert isinstance(request, req.Delete)
            return RecordedOperation("delete", record.path, if_version=request.version)
        case txns.CreateSessionTxn():
            return RecordedOperation("createSession", timeout=record.timeout_ms)
        case txns.CloseSessionTxn():
            return RecordedOperation("closeSession", deleted=list(record.paths))
    raise AssertionError(f"no broker writes {record!r}")


def _request(request: req.Request | None) -> FailedRequest:
    match request:
        case req.Create() | req.Create2():
            return FailedRequest("create", request.path, _decoded(request.data), mode=_MODES[request.flags])
        case req.SetData():
            return FailedRequest("setData", request.path, _decoded(request.data), request.version)
        case req.Delete():
            return FailedRequest("delete", request.path, version=request.version)
        case req.Check():
            return FailedRequest("check", request.path, version=request.version)
        case req.Multi():
            return FailedRequest("multi")
    raise AssertionError(f"no broker requests {request!r}")


def _paths(operation: RecordedOperation) -> Iterator[str]:
    for part in operation.ops:
        yield from _paths(part)
    yield from operation.deleted
    if operation.path:
        yield operation.path
    if operation.asked is not None and operation.asked.path:
        yield operation.asked.path


def _text(entry: RecordedOperation, expected: int | None = None) -> str:
    """Return the text of an operation.

    Args:
        entry: the operation.
        expected: expected version of a write that does not have one.
    """
    version = entry.if_version if entry.if_version is not None else "?" if expected is None else expected
    match entry.op:
        case "multi":
            return f"multi [{'; '.join(_text(part, expected) for part in entry.ops)}]"
        case "error":
            asked = entry.asked or FailedRequest(mode="?")
            found = [value for value in (asked.mode, asked.op, asked.path, asked.version) if value is not None]
            what = [_masked(asked.data), *found] if asked.op in _WITH_DATA else found
            return f"error {entry.err} {what}"
        case "create":
            parent = f"parent's cversion {entry.parent_cversion}"
            acl = [list(one) for one in entry.acl or _OPEN_ACL]
            return f"create {entry.path} {_masked(entry.data)}{' ephemeral' * entry.ephemeral} {acl} {parent}"
        case "setData":
            return f"setData {entry.path} {_masked(entry.data)} version {version} -> {entry.new_version}"
        case "delete":
            return f"delete {entry.path} version {version}"
        case "check":
            return f"check {entry.path} version {'?' if entry.version is None else entry.version - _CHECK_OFFSET}"
        case "closeSession":
            return f"closeSession {entry.deleted}"
        case "createSession":
            return f"createSession {entry.timeout} ms"
    return f"{entry.op} {entry.path} {_masked(entry.data)}"


def _decoded(data: bytes | None) -> Data:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def _masked(data: Data) -> Data:
    """Return the data without wall time."""
    return re.sub(r'("timestamp" ?: ?)"\d+"', r'\1"?"', data) if isinstance(data, str) else data
