"""Recordings of real brokers of every release, as one history in the files of one ZooKeeper.

Each story is an epoch of its own, a day after the one before, with its own sessions and one cluster's id; at its end
all sessions expire and all znodes are removed. Every other epoch is written as servers before 3.6 did, that do not say
what a session took.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.persistence import LOG_HEADER, encode_log_entry
from simzk.zookeeper.requests import OPEN_ACL
from tests.pipeline.plain_timelines import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYOUTS = Path(__file__).parents[2] / "scenarios" / "layouts"
RELEASES = sorted(
    (path.name.removeprefix("kafka-") for path in LAYOUTS.iterdir()),
    key=lambda release: [int(number) for number in release.split(".")],
)
DAY_MS = 86_400_000
START_MS = 1_577_836_800_000
_CODES = {"NoNode": -101, "NodeExists": -110, "BadVersion": -103, "NotEmpty": -111, "RuntimeInconsistency": -2, "Ok": 0}


def stories() -> Iterator[list[txns.Transaction]]:
    """The transactions of each release."""
    for place, release in enumerate(RELEASES, 1):
        entries = json.loads((LAYOUTS / f"kafka-{release}" / "txns.json").read_text())
        story = [
            txns.Transaction(
                (place << 48) + int(entry["session"], 16) % (1 << 48),
                entry["cxid"],
                (place << 32) + entry["zxid"],
                START_MS + place * DAY_MS + entry["t"],
                record_of(entry),
            )
            for entry in entries
        ]
        yield [*story, *_end_of(story)]


def _end_of(story: list[txns.Transaction]) -> Iterator[txns.Transaction]:
    tree = Tree()
    for transaction in story:
        tree.apply(transaction)
    zxid, time_ms = story[-1].zxid, story[-1].time_ms + 1000
    for session in sorted(tree.sessions):
        zxid += 1
        owned = tuple(sorted(tree.owned_by(session)))
        yield txns.Transaction(session, 0, zxid, time_ms, txns.CloseSessionTxn(owned))
    for path in sorted(tree.nodes, reverse=True):
        if tree.nodes[path].owner is None:
            zxid += 1
            yield txns.Transaction(story[-1].session_id, 9, zxid, time_ms, txns.DeleteTxn(path))


def record_of(entry: dict[str, Any]) -> Any:
    """A recorded transaction's or step's record."""
    match entry["op"]:
        case "create":
            ephemeral = entry.get("ephemeral", False)
            return txns.CreateTxn(entry["path"], _data(entry), OPEN_ACL, ephemeral, entry["parentCversion"])
        case "setData":
            return txns.SetDataTxn(entry["path"], _data(entry), entry["newVersion"])
        case "delete":
            return txns.DeleteTxn(entry["path"])
        case "check":
            return txns.CheckTxn(entry["path"], entry["version"])
        case "multi":
            return txns.MultiTxn(tuple(record_of(step) for step in entry["ops"]))
        case "error":
            return txns.ErrorTxn(_CODES[entry["err"]])
        case "createSession":
            return txns.CreateSessionTxn(entry["timeout"])
        case "closeSession":
            return txns.CloseSessionTxn(tuple(entry["deleted"]))
    raise AssertionError(f"nobody tells {entry}")


def _data(entry: dict[str, Any]) -> bytes | None:
    if entry["path"] == "/cluster/id":
        return b'{"version":"1","id":"all-one-cluster-in-here"}'
    return None if entry["data"] is None else entry["data"].encode()


def write_logs(folder: Path) -> list[txns.Transaction]:
    """Write all stories, a log each, and hand them over."""
    written: list[txns.Transaction] = []
    for place, story in enumerate(stories()):
        entries = [encode_log_entry(transaction, None, names_ephemerals=place % 2 == 0) for transaction in story]
        (folder / f"log.{story[0].zxid:x}").write_bytes(LOG_HEADER + b"".join(entries) + bytes(1000))
        written += story
    return written
