"""Tables `zookeeper_log` and `zookeeper_snapshot`: log entries and znodes as rows, with damage reported.

Rules of this module:
  - one row per transaction; a multi gives one row per step, all with the multi's zxid, numbered from 0 in `step`; an
    empty multi, which clients can send, gives one row;
  - a field that the transaction type lacks is null;
  - undecodable bytes of a log give a row with the reason in `damage`; only `file` and `offset` are set beside it;
  - a server rejects a damaged snapshot as a whole; here a row with the reason follows the rows that could be decoded.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from simzk.pipeline.data_source import acl_type, acl_value
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.persistence import Damage, SnapshotReader
from simzk.zookeeper.persistence.transaction_log import scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from simzk.zookeeper.persistence import Readable
    from simzk.zookeeper.persistence.records import LogEntry
    from simzk.zookeeper.persistence.transaction_log import Seekable

Row = tuple[object, ...]
Fields = tuple[object, ...]

_SIGN = 1 << 63
LEAST, MOST = -_SIGN, _SIGN - 1
"""Range of 64-bit integers."""


@cache
def log_schema() -> pa.Schema:
    """Return the Arrow schema of `zookeeper_log`; docs/pipeline.md documents the columns."""
    import pyarrow as pa

    return pa.schema(
        [
            ("file", pa.string()),
            ("offset", pa.int64()),
            ("zxid", pa.int64()),
            ("time", pa.timestamp("us", tz="UTC")),
            ("session", pa.int64()),
            ("cxid", pa.int32()),
            ("step", pa.int32()),
            ("operation", pa.string()),
            ("applied", pa.bool_()),
            ("path", pa.string()),
            ("data", pa.binary()),
            ("version", pa.int32()),
            ("ephemeral", pa.bool_()),
            ("parent_cversion", pa.int32()),
            ("ttl_ms", pa.int64()),
            ("acl", acl_type()),
            ("timeout_ms", pa.int32()),
            ("paths", pa.list_(pa.field("element", pa.string()))),
            ("error", pa.int32()),
            ("digest", pa.int64()),
            ("damage", pa.string()),
        ]
    )


class Wanted(NamedTuple):
    """Filter on the transactions of a log; damage is always reported.

    Args:
        operations: operations of steps and of single transactions; empty for all.
        first_zxid, last_zxid: inclusive bounds.
        first_ms, last_ms: inclusive bounds, in ms since 1970.
    """

    operations: frozenset[str] = frozenset()
    first_zxid: int = LEAST
    last_zxid: int = MOST
    first_ms: int = LEAST
    last_ms: int = MOST


def log_rows(file: str, stream: Seekable, start: int, stop: int | None, wanted: Wanted) -> Iterator[Row]:
    """Yield the rows of a byte range of a log.

    Args:
        file: name of the log in the rows.
        stream: the whole log.
        start: first byte of the range.
        stop: first byte after the range; None for the end of the file.
        wanted: filter.
    """
    operations, first_zxid, last_zxid, first_ms, last_ms = wanted
    for offset, found in scan(stream, start, stop):
        if isinstance(found, Damage):
            yield damage_row(file, offset, found)
            continue
        _, _, zxid, time_ms, _ = found.transaction
        if first_zxid <= zxid <= last_zxid and first_ms <= time_ms <= last_ms:
            yield from entry_rows(file, offset, found, operations)


def damage_row(file: str, offset: int | None, damage: Damage | str) -> Row:
    """Return the row of undecodable bytes."""
    return (file, offset, *_NOTHING, str(damage))


def entry_rows(file: str, offset: int, entry: LogEntry, operations: frozenset[str] = frozenset()) -> Iterator[Row]:
    """Yield the rows of one entry; of all operations if none is named."""
    (session, cxid, zxid, time_ms, record), tree_digest = entry
    digest = None if tree_digest is None else tree_digest - (tree_digest >= _SIGN) * 2 * _SIGN
    head = (file, offset, zxid, time_ms * 1000, session, cxid)
    if isinstance(record, txns.MultiTxn) and record.records:
        applied = not record.failed
        for step, one in enumerate(record.records):
            operation, fields = _FIELDS[one.__class__]
            if not operations or operation in operations:
                yield (*head, step, operation, applied, *fields(one), digest, None)
    else:
        operation, fields = _FIELDS[record.__class__]
        if not operations or operation in operations:
            yield (*head, None, operation, operation != "error", *fields(record), digest, None)


def _created(record: txns.CreateTxn | txns.Create2Txn) -> Fields:
    path, data, acl, ephemeral, cversion = record
    return (path, data, None, ephemeral, cversion, None, acl_value(acl), None, None, None)


def _container(record: txns.CreateContainerTxn) -> Fields:
    path, data, acl, cversion = record
    return (path, data, None, False, cversion, None, acl_value(acl), None, None, None)


def _ttl(record: txns.CreateTTLTxn) -> Fields:
    path, data, acl, cversion, ttl_ms = record
    return (path, data, None, False, cversion, ttl_ms, acl_value(acl), None, None, None)


def _deleted(record: txns.DeleteTxn | txns.DeleteContainerTxn) -> Fields:
    return (record.path, *(None,) * 9)


_NOTHING = (None,) * 18
_FIELDS: dict[type, tuple[str, Callable[..., Fields]]] = {
    txns.CreateTxn: ("create", _created),
    txns.Create2Txn: ("create2", _created),
    txns.CreateContainerTxn: ("createContainer", _container),
    txns.CreateTTLTxn: ("createTTL", _ttl),
    txns.DeleteTxn: ("delete", _deleted),
    txns.DeleteContainerTxn: ("deleteContainer", _deleted),
    txns.SetDataTxn: ("setData", lambda record: (*record, *(None,) * 7)),
    txns.SetACLTxn: (
        "setACL",
        lambda record: (record.path, None, record.version, *(None,) * 3, acl_value(record.acl), *(None,) * 3),
    ),
    txns.CheckTxn: ("check", lambda record: (record.path, None, record.version, *(None,) * 7)),
    txns.CreateSessionTxn: ("createSession", lambda record: (*(None,) * 7, record.timeout_ms, None, None)),
    txns.CloseSessionTxn: ("closeSession", lambda record: (*(None,) * 8, list(record.paths), None)),
    txns.ErrorTxn: ("error", lambda record: (*(None,) * 9, record.error)),
    txns.MultiTxn: ("multi", lambda _: (None,) * 10),  # an empty one
}
"""Operation of each transaction, and its path, data, version, ephemeral, parent_cversion, ttl_ms, acl, timeout_ms,
paths and error."""

OPERATIONS = tuple(operation for operation, _ in _FIELDS.values())
"""Values of the column `operation`."""


@cache
def snapshot_schema() -> pa.Schema:
    """Return the Arrow schema of `zookeeper_snapshot`; docs/pipeline.md documents the columns."""
    import pyarrow as pa

    time = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            ("file", pa.string()),
            ("path", pa.string()),
            ("data", pa.binary()),
            ("acl", acl_type()),
            ("czxid", pa.int64()),
            ("mzxid", pa.int64()),
            ("pzxid", pa.int64()),
            ("ctime", time),
            ("mtime", time),
            ("version", pa.int32()),
            ("cversion", pa.int32()),
            ("aversion", pa.int32()),
            ("ephemeral_owner", pa.int64()),
            ("damage", pa.string()),
        ]
    )


def snapshot_rows(file: str, stream: Readable) -> Iterator[Row]:
    """Yield the rows of a snapshot.

    Args:
        file: name of the snapshot in the rows.
        stream: the snapshot, decompressed.
    """
    reader = SnapshotReader(stream)
    for path, node in reader:
        yield (
            file,
            path,
            node.data,
            acl_value(node.acl),
            node.czxid,
            node.mzxid,
            node.pzxid,
            node.ctime_ms * 1000,
            node.mtime_ms * 1000,
            node.version,
            node.cversion,
            node.aversion,
            node.ephemeral_owner,
            None,
        )
    if reader.damage is not None:
        yield unread_snapshot(file, str(reader.damage))


def unread_snapshot(file: str, why: str) -> Row:
    """Return the row of a damaged snapshot."""
    return (file, *(None,) * 12, why)
