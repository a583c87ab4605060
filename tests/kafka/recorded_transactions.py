"""The transactions of a real ZooKeeper's log and of a simulated one in one comparable form."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from pathlib import Path

_ERRORS = {
    Code.OK: "Ok",
    Code.NO_NODE: "NoNode",
    Code.NODE_EXISTS: "NodeExists",
    Code.BAD_VERSION: "BadVersion",
    Code.RUNTIME_INCONSISTENCY: "RuntimeInconsistency",
}


def by_step(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The recorded transactions of each step, in order."""
    steps: dict[str, list[dict[str, Any]]] = {}
    for transaction in json.loads(path.read_text()):
        if transaction.get("step"):
            steps.setdefault(transaction["step"], []).append(transaction)
    return steps


def told(record: txns.Record) -> str:
    """A simulated transaction."""
    match record:
        case txns.MultiTxn():
            return f"multi [{'; '.join(told(part) for part in record.records)}]"
        case txns.CheckTxn():
            return f"check {record.path}"
        case txns.ErrorTxn():
            return f"error {_ERRORS[Code(record.error)]}"
        case txns.CreateTxn():
            return f"create {record.path} {_masked(record.data)}{' ephemeral' * record.ephemeral}"
        case txns.SetDataTxn():
            return f"setData {record.path} {_masked(record.data)} version {record.version}"
        case txns.DeleteTxn():
            return f"delete {record.path}"
        case txns.CreateSessionTxn():
            return "createSession"
        case txns.CloseSessionTxn():
            return f"closeSession {list(record.paths)}"
    raise AssertionError(f"no broker writes {record!r}")


def recorded(entry: dict[str, Any]) -> str:
    """A recorded transaction."""
    match entry["op"]:
        case "multi":
            return f"multi [{'; '.join(recorded(part) for part in entry['ops'])}]"
        case "error":
            return f"error {entry['err']}"
        case "create":
            return f"create {entry['path']} {_masked(entry['data'])}{' ephemeral' * bool(entry.get('ephemeral'))}"
        case "setData":
            return f"setData {entry['path']} {_masked(entry['data'])} version {entry['newVersion']}"
        case "closeSession":
            return f"closeSession {entry['deleted']}"
        case "createSession":
            return "createSession"
    return f"{entry['op']} {entry['path']}"


def _masked(data: bytes | str | None) -> str | None:
    """The data without wall time."""
    text = data.decode() if isinstance(data, bytes) else data
    return None if text is None else re.sub(r'"timestamp":"\d+"', '"timestamp":"?"', text)
