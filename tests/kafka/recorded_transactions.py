"""The transactions of a real ZooKeeper's log and of a simulated one in one comparable form.

Rules of the module:
  - nothing of a transaction is left out: who did it, the operation, the path, the data's text, the version asked for
    and the version made, the ACL, the parent's cversion, a session's timeout, and of a failed write what was asked;
  - who did it is a broker by its id, or `client`: a tool or whoever recorded the story; sessions have no other name;
  - what a client asked for was read from its connection: where that was not recorded (`asked` and `ifVersion` are
    absent) it is not told of the simulated one either;
  - of wall time only that it is there: the text of a `timestamp` is masked.
"""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.kafka.tools.operator import NAME as OPERATOR
from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply

CLIENT = "client"
RECORDER = "lab"
"""Who recorded: nobody listened to it, and it asked for no version."""
OPEN = [[31, "world", "anyone"]]
UNKNOWN: dict[str, Any] = {"mode": "?"}
"""What was asked where nobody listened."""
_ERRORS = {
    Code.OK: "Ok",
    Code.NO_NODE: "NoNode",
    Code.NODE_EXISTS: "NodeExists",
    Code.BAD_VERSION: "BadVersion",
    Code.RUNTIME_INCONSISTENCY: "RuntimeInconsistency",
    Code.NOT_EMPTY: "NotEmpty",
}
_MODES = {0: "P", 1: "E", 2: "PS", 3: "ES"}
_LOGGED_ABOVE_ASKED = 1
"""In the real log a check holds the version that was asked for, plus one."""


class Told(NamedTuple):
    """One transaction.

    Args:
        who: a broker, as `b2`, or `client`.
        session: which of a step's sessions, in the order of their first transactions: from 0 on those that began in
            it, below 0 those that were there.
        paths: the znodes it names, those of failed writes too.
        text: all of it.
    """

    who: str
    session: int
    paths: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.who}: {self.text}"


def by_step(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The recorded transactions of each step, in order."""
    steps: dict[str, list[dict[str, Any]]] = {}
    packed = path.read_bytes()
    for transaction in json.loads(gzip.decompress(packed) if path.suffix == ".gz" else packed):
        if transaction.get("step"):
            steps.setdefault(transaction["step"], []).append(transaction)
    return steps


def recorded(entries: Iterable[dict[str, Any]]) -> list[Told]:
    """Recorded transactions of a step."""
    found = list(entries)
    sessions = _numbered((entry["session"], entry["op"] == "createSession") for entry in found)
    told = []
    for entry in found:
        who = str(entry["who"])
        if who == RECORDER:
            entry = {"ifVersion": -1, **entry}
        by = who.partition("#")[0] if who.startswith("b") else CLIENT
        told.append(Told(by, sessions[entry["session"]], tuple(_paths(entry)), _text(entry)))
    return told


def _numbered(seen: Iterable[tuple[object, bool]]) -> dict[object, int]:
    """Sessions, each with whether it begins there, numbered."""
    numbers: dict[object, int] = {}
    old = new = 0
    for session, begins in seen:
        if session in numbers:
            continue
        if begins:
            numbers[session], new = new, new + 1
        else:
            old -= 1
            numbers[session] = old
    return numbers


class Log:
    """What happens on a cluster's ZooKeeper from now on, in the form of the recordings; `take` hands it over.

    Args:
        c: the cluster, none of whose sessions has begun.
    """

    def __init__(self, c: KafkaCluster) -> None:
        self._transactions: list[txns.Transaction] = []
        self._asked: dict[tuple[int, int], req.Request] = {}
        self._addresses: dict[int, str] = {}
        self._known: set[int] = set()
        handle = c.server.handle

        def listen(
            connection: Connection, xid: int, request: req.Request, now_ms: int, at_once: bool = False
        ) -> Reply | None:
            self._addresses[connection.session_id] = connection.address
            self._asked[connection.session_id, xid] = request
            return handle(connection, xid, request, now_ms, at_once)

        c.server.handle = listen  # type: ignore[method-assign, assignment]  # the one place where all requests pass
        c.server.on_transaction.append(self._transactions.append)

    def take(self) -> list[Told]:
        """All since the last time."""
        sessions = _numbered((t.session_id, isinstance(t.record, txns.CreateSessionTxn)) for t in self._transactions)
        taken = [self._told(transaction, sessions[transaction.session_id]) for transaction in self._transactions]
        self._transactions.clear()
        return taken

    def _told(self, transaction: txns.Transaction, session: int) -> Told:
        address = self._addresses.get(transaction.session_id, OPERATOR)
        broker = re.fullmatch(r"broker (\d+)", address)
        entry = _entry(transaction.record, self._asked.get((transaction.session_id, transaction.cxid)))
        return Told(f"b{broker[1]}" if broker else CLIENT, session, tuple(_paths(entry)), _text(entry))


def _entry(record: txns.Record, asked: req.Request | None) -> dict[str, Any]:
    """A simulated transaction as the recordings have it."""
    match record:
        case txns.MultiTxn():
            assert isinstance(asked, req.Multi)
            parts = zip(record.records, asked.operations, strict=True)
            return {"op": "multi", "ops": [_entry(part, of) for part, of in parts]}
        case txns.CheckTxn():
            return {"op": "check", "path": record.path, "version": record.version, "ifVersion": record.version - 1}
        case txns.ErrorTxn():
            return {"op": "error", "err": _ERRORS[Code(record.error)], "asked": _asked(asked)}
        case txns.CreateTxn():
            return {
                "op": "create",
                "path": record.path,
                "data": _decoded(record.data),
                "acl": [[entry.perms, entry.id.scheme, entry.id.id] for entry in record.acl],
                "ephemeral": record.ephemeral,
                "parentCversion": record.parent_cversion,
            }
        case txns.SetDataTxn():
            assert isinstance(asked, req.SetData)
            data = _decoded(record.data)
            versions = {"newVersion": record.version, "ifVersion": asked.version}
            return {"op": "setData", "path": record.path, "data": data, **versions}
        case txns.DeleteTxn():
            assert isinstance(asked, req.Delete)
            return {"op": "delete", "path": record.path, "ifVersion": asked.version}
        case txns.CreateSessionTxn():
            return {"op": "createSession", "timeout": record.timeout_ms}
        case txns.CloseSessionTxn():
            return {"op": "closeSession", "deleted": list(record.paths)}
    raise AssertionError(f"no broker writes {record!r}")


def _asked(request: req.Request | None) -> dict[str, Any]:
    match request:
        case req.Create():
            data, mode = _decoded(request.data), _MODES[request.flags]
            return {"op": "create", "path": request.path, "data": data, "mode": mode}
        case req.SetData():
            data = _decoded(request.data)
            return {"op": "setData", "path": request.path, "data": data, "version": request.version}
        case req.Delete():
            return {"op": "delete", "path": request.path, "version": request.version}
        case req.Check():
            return {"op": "check", "path": request.path, "version": request.version}
        case req.Multi():
            return {"op": "multi"}
    raise AssertionError(f"no broker asks for {request!r}")


def _paths(entry: dict[str, Any]) -> Iterable[str]:
    for part in entry.get("ops", ()):
        yield from _paths(part)
    yield from entry.get("deleted", ())
    for names in (entry, entry.get("asked", {})):
        if "path" in names:
            yield names["path"]


def _text(entry: dict[str, Any]) -> str:
    match entry["op"]:
        case "multi":
            return f"multi [{'; '.join(_text(part) for part in entry['ops'])}]"
        case "error":
            asked = entry.get("asked", UNKNOWN)
            what = [_masked(asked[key]) if key == "data" else asked[key] for key in sorted(asked)]
            return f"error {entry['err']} {what}"
        case "create":
            parent = f"parent's cversion {entry['parentCversion']}"
            ephemeral = " ephemeral" * bool(entry.get("ephemeral"))
            return f"create {entry['path']} {_masked(entry['data'])}{ephemeral} {entry.get('acl', OPEN)} {parent}"
        case "setData":
            versions = f"version {entry.get('ifVersion', '?')} -> {entry['newVersion']}"
            return f"setData {entry['path']} {_masked(entry['data'])} {versions}"
        case "delete":
            return f"delete {entry['path']} version {entry.get('ifVersion', '?')}"
        case "check":
            assert entry.get("ifVersion", entry["version"] - 1) == entry["version"] - _LOGGED_ABOVE_ASKED
            return f"check {entry['path']} version {entry['version'] - _LOGGED_ABOVE_ASKED}"
        case "closeSession":
            return f"closeSession {entry['deleted']}"
        case "createSession":
            return f"createSession {entry['timeout']} ms"
    raise AssertionError(f"nobody tells {entry}")


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _masked(text: str | None) -> str | None:
    """The data without wall time."""
    return None if text is None else re.sub(r'("timestamp" ?: ?)"\d+"', r'\1"?"', text)
