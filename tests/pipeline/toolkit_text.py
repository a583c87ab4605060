"""Text that TxnLogToolkit prints, rebuilt from rows of `zookeeper_log`: the columns contain all that it prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.persistence.records import CODECS
from simzk.zookeeper.requests import ACL, Id

if TYPE_CHECKING:
    from datetime import datetime

Row = dict[str, Any]

_CODECS = dict(CODECS.values())


def header(row: Row) -> str:
    """When, who, which."""
    ids = f"session 0x{row['session'] % (1 << 64):x} cxid 0x{row['cxid'] % (1 << 32):x} zxid 0x{row['zxid']:x}"
    return f"{clock(row['time'])} {ids}"


def clock(time: datetime) -> str:
    """As Java has it, in English and in UTC."""
    return f"{time.month}/{time.day}/{time:%y}, {(time.hour + 11) % 12 + 1}:{time:%M:%S %p} UTC"


def what(rows: list[Row]) -> str:
    """Return the type and content of one transaction; binary data is omitted."""
    (first, *_) = rows
    if first["step"] is not None:
        steps = ";".join(f"{row['operation']}:{_text(_encoded(row))}" for row in rows)
        return f"multi {steps}"
    return f"{first['operation']} {_said(first)}"


def one_mark(text: str) -> str:
    """Text with one mark for however many bytes are none: Java and Python count them differently."""
    return re.sub("\ufffd+", "\ufffd", text)


def _said(row: Row) -> str:
    path, data = row["path"], _text(row["data"] or b"")
    listed = "[" + ", ".join(f"{acl['perms']},s{{'{acl['scheme']},'{acl['id']}}}\n" for acl in row["acl"] or ()) + "]"
    match row["operation"]:
        case "create" | "create2":
            return f"{path},{data},{listed},{str(row['ephemeral']).lower()},{row['parent_cversion']}"
        case "createContainer":
            return f"{path},{data},{listed},{row['parent_cversion']}"
        case "createTTL":
            return f"{path},{data},{listed},{row['parent_cversion']},{row['ttl_ms']}"
        case "setData":
            return f"{path},{data},{row['version']}"
        case "setACL":
            acls = ",".join(f"s{{{acl['perms']},s{{'{acl['scheme']},'{acl['id']}}}}}" for acl in row["acl"])
            return f"'{path},v{{{acls}}},{row['version']}"
        case "delete" | "deleteContainer":
            return f"'{path}"
        case "createSession":
            return str(row["timeout_ms"])
        case "closeSession":
            return "v{" + ",".join(f"'{taken}" for taken in row["paths"]) + "}"
        case "error":
            return str(row["error"])
        case "multi":
            return ""  # it has no steps
    raise AssertionError(f"nobody prints {row}")


def _encoded(row: Row) -> bytes:
    """A step of a multi, which the toolkit prints as the bytes of its record."""
    record = _record(row)
    return _CODECS[type(record)].encode(record)


def _record(row: Row) -> txns.Record:
    acl = tuple(ACL(one["perms"], Id(one["scheme"], one["id"])) for one in row["acl"] or ())
    made = (row["path"], row["data"], acl, row["ephemeral"], row["parent_cversion"])
    match row["operation"]:
        case "create":
            return txns.CreateTxn(*made)
        case "create2":
            return txns.Create2Txn(*made)
        case "setData":
            return txns.SetDataTxn(row["path"], row["data"], row["version"])
        case "delete":
            return txns.DeleteTxn(row["path"])
        case "check":
            return txns.CheckTxn(row["path"], row["version"])
        case "error":
            return txns.ErrorTxn(row["error"])
    raise AssertionError(f"no multi here has {row}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
