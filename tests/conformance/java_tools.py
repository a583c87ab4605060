"""ZooKeeper's own tools for its files, and what simzk reads, printed as they print it: the two texts must be equal.

Source: org.apache.zookeeper.server.persistence.TxnLogToolkit, org.apache.zookeeper.server.SnapshotFormatter, and the
`toString` of jute's records.
"""

from __future__ import annotations

import base64
import os
import subprocess
from datetime import UTC, datetime
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.persistence import Restoration, SnapshotReader, TransactionLogReader
from simzk.zookeeper.persistence.records import CODECS
from tests.conformance.real_zookeeper import class_path, java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.zookeeper.requests import ACL

_SETTINGS = (
    "-Xmx256m",
    "-Dfile.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
    "-Duser.timezone=UTC",
    "-Duser.language=en",
    "-Duser.country=US",
    # All that the server's classes log otherwise goes between the lines.
    "-Dlog4j2.level=OFF",
    "-Dorg.apache.logging.log4j.level=OFF",
)

_NAMES = {
    1: "create", 2: "delete", 5: "setData", 7: "setACL", 13: "check", 14: "multi", 15: "create2", 19: "createContainer",
    20: "deleteContainer", 21: "createTTL", -1: "error", -10: "createSession", -11: "closeSession",
}  # fmt: skip
_NUMBERS = {kind: number for number, (kind, _) in CODECS.items()}
_MASK = 0xFFFFFFFFFFFFFFFF


def _java(main: str, *arguments: str, properties: Mapping[str, str] | None = None) -> str:
    settings = [f"-D{name}={value}" for name, value in (properties or {}).items()]
    command = [*java(), *_SETTINGS, *settings, "-cp", class_path(), main, *arguments]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment, timeout=120)
    return done.stdout.decode("utf-8")


def told_by_java(program: str, *arguments: str, properties: Mapping[str, str] | None = None) -> str:
    """Return what a program of this folder, with ZooKeeper's jars and some system properties, prints."""
    return _java(str(Path(__file__).with_name(program)), *arguments, properties=properties)


def log_by_java(path: Path) -> str:
    """Return the output of TxnLogToolkit for a log."""
    return _java("org.apache.zookeeper.server.persistence.TxnLogToolkit", str(path))


def snapshot_by_java(path: Path) -> str:
    """Return the output of SnapshotFormatter for a snapshot, with data."""
    return _java("org.apache.zookeeper.server.SnapshotFormatter", "-d", str(path))


# Logs


def log_by_simzk(path: Path) -> str:
    """The same text, of what simzk reads."""
    with path.open("rb") as stream:
        reader = TransactionLogReader(stream)
        lines = [_printed(entry.transaction) for entry in reader]
    assert reader.damage is None, reader.damage
    header = "ZooKeeper Transactional Log File with dbid 0 txnlog format version 2\n"
    return f"{header}{''.join(lines)}EOF reached after {len(lines)} txns.\n"


def _printed(transaction: txns.Transaction) -> str:
    session_id, cxid, zxid, time_ms, record = transaction
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    # DateFormat.SHORT and LONG of the United States: 1/31/26, 1:05:09 PM UTC
    date = f"{moment.month}/{moment.day}/{moment:%y}, {int(moment.strftime('%I'))}:{moment:%M:%S %p} UTC"
    numbers = f"session 0x{session_id & _MASK:x} cxid 0x{cxid & _MASK:x} zxid 0x{zxid:x}"
    line = f"{date} {numbers} {_NAMES[_NUMBERS[record.__class__]]} {_body(record)}"
    return line if line.endswith("\n") else f"{line}\n"


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _acl(acl: tuple[ACL, ...]) -> str:
    return f"[{', '.join(_entry(entry) + chr(10) for entry in acl)}]"


def _entry(entry: ACL) -> str:
    return f"{entry.perms},s{{'{entry.id.scheme},'{entry.id.id}}}"


@singledispatch
def _body(record: txns.Record) -> str:
    raise AssertionError(record)


@_body.register(txns.CreateTxn)
@_body.register(txns.Create2Txn)
def _(record: txns.CreateTxn | txns.Create2Txn) -> str:
    ephemeral = str(record.ephemeral).lower()
    return f"{record.path},{_text(record.data)},{_acl(record.acl)},{ephemeral},{record.parent_cversion}"


@_body.register
def _(record: txns.CreateContainerTxn) -> str:
    return f"{record.path},{_text(record.data)},{_acl(record.acl)},{record.parent_cversion}"


@_body.register
def _(record: txns.CreateTTLTxn) -> str:
    return f"{record.path},{_text(record.data)},{_acl(record.acl)},{record.parent_cversion},{record.ttl_ms}"


@_body.register
def _(record: txns.SetDataTxn) -> str:
    return f"{record.path},{_text(record.data)},{record.version}"


@_body.register(txns.DeleteTxn)
@_body.register(txns.DeleteContainerTxn)
def _(record: txns.DeleteTxn | txns.DeleteContainerTxn) -> str:
    return f"'{record.path}\n"


@_body.register
def _(record: txns.SetACLTxn) -> str:
    return f"'{record.path},v{{{','.join(f's{{{_entry(entry)}}}' for entry in record.acl)}}},{record.version}\n"


@_body.register
def _(record: txns.CreateSessionTxn) -> str:
    return f"{record.timeout_ms}\n"


@_body.register
def _(record: txns.ErrorTxn) -> str:
    return f"{record.error}\n"


@_body.register
def _(record: txns.CloseSessionTxn) -> str:
    joined = ",".join(f"'{path}" for path in record.paths)
    return f"v{{{joined}}}\n"


@_body.register
def _(record: txns.MultiTxn) -> str:
    # The tool prints the bytes of each step as if they were text.
    steps = [(_NUMBERS[step.__class__], step) for step in record.records]
    return ";".join(f"{_NAMES[number]}:{_text(CODECS[number][1].encode(step))}" for number, step in steps)


# Snapshots


def snapshot_by_simzk(path: Path) -> str:
    """The same text, of what simzk reads; of sessions the order is Java's own affair, see `sessions_sorted`."""
    zxid = int(path.name.partition(".")[2], 16)
    restoration = Restoration()
    with path.open("rb") as stream:
        damage = restoration.load(SnapshotReader(stream), zxid)
    assert damage is None, damage
    tree = restoration.tree
    lines = [f"ZNode Details (count={len(tree)}):"]
    newest = zxid
    for at, node in tree.walk():
        newest = max(newest, node.mzxid, node.pzxid)
        lines += (
            "----",
            at,
            f"  cZxid = {node.czxid:#016x}",
            f"  ctime = {_date(node.ctime_ms)}",
            f"  mZxid = {node.mzxid:#016x}",
            f"  mtime = {_date(node.mtime_ms)}",
            f"  pZxid = {node.pzxid:#016x}",
            f"  cversion = {node.cversion}",
            f"  dataVersion = {node.version}",
            f"  aclVersion = {node.aversion}",
            f"  ephemeralOwner = {node.ephemeral_owner & _MASK:#016x}",
            f"  data = {base64.b64encode(node.data or b'').decode('ascii')}",
        )
    lines += ("----", "Session Details (sid, timeout, ephemeralCount):")
    for session_id, timeout_ms in restoration.sessions.items():
        lines.append(f"{session_id:#016x}, {timeout_ms}, {len(tree.ephemerals_of(session_id))}")
    lines += ("----", f"Last zxid: 0x{newest:x}", "")
    return "\n".join(lines)


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


def sessions_sorted(printed: str) -> str:
    """Return SnapshotFormatter's output with the sessions sorted: Java prints them in the order of a HashMap."""
    nodes, title, rest = printed.partition("Session Details (sid, timeout, ephemeralCount):\n")
    sessions, line, end = rest.partition("----\n")
    return nodes + title + "".join(sorted(sessions.splitlines(keepends=True))) + line + end
