"""Codecs of transactions in a log (§6).

Rules of this module:
  - one codec per record type, in one table by the type's number;
  - the few types that fill logs have their own fast reader and writer: no call per field, and truncation is detected
    once, by the offset behind the record;
  - old logs decode too: creates without the parent's cversion, ends of sessions without paths, no digest.

Source: SerializeUtils.deserializeTxn, Util.marshallTxnEntry, zookeeper.jute (module org.apache.zookeeper.txn).
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.jute import ACLS, BOOLEAN, BUFFER, INT, LONG, TEXT, Codec, MalformedError, packed, record, vector
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.tree import UNKNOWN_CVERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.requests import ACL

DIGEST_VERSION = 2
"""Version of the tree's digest (DigestCalculator.DIGEST_VERSION); digests of other versions are not compared."""

_header = Struct(">qiqqi")
_digest = Struct(">iQ")
_int = Struct(">i")
_bool_int = Struct(">?i")
_int_at = _int.unpack_from
_bool_int_at = _bool_int.unpack_from
_two_ints_at = Struct(">ii").unpack_from
_NULL = _int.pack(-1)


class LogEntry(NamedTuple):
    """Entry of a log: the transaction, and the tree's digest after it if the log has one."""

    transaction: txns.Transaction
    tree_digest: int | None


# Codecs


def _read_path(data: bytes, at: int) -> tuple[str, int]:
    path, at = TEXT.read(data, at)
    if path is None:
        raise MalformedError("a path is null")
    return path, at


def _read_acl(data: bytes, at: int) -> tuple[tuple[ACL, ...], int]:
    acl, at = ACLS.read(data, at)
    return acl or (), at


_PATH: Codec[str] = Codec(_read_path, TEXT.write)
_ACL: Codec[tuple[ACL, ...]] = Codec(_read_acl, ACLS.write)
_PATHS = vector(_PATH)


def _read_close_session(data: bytes, at: int) -> tuple[txns.CloseSessionTxn, int]:
    left = len(data) - at
    if left == 0 or (left == _digest.size and _int_at(data, at)[0] == DIGEST_VERSION):
        # Without paths before 3.6, or if closeSessionTxn is off: all ephemerals of the session are deleted.
        return txns.CloseSessionTxn(()), at
    paths, at = _PATHS.read(data, at)
    return txns.CloseSessionTxn(paths or ()), at


def _write_close_session(out: bytearray, closed: txns.CloseSessionTxn) -> None:
    _PATHS.write(out, closed.paths)


def _read_multi(data: bytes, at: int) -> tuple[txns.MultiTxn, int]:
    (count,) = _int_at(data, at)
    at += 4
    steps = []
    for _ in range(count):
        kind, size = _two_ints_at(data, at)
        at += 8
        end = at + size
        if size < 0 or kind not in _IN_MULTI:
            raise MalformedError(f"type {kind} is not allowed in a multi")
        step, read = _READERS[kind](data[at:end], 0)
        if read > size:
            raise MalformedError("an operation of a multi is truncated")
        steps.append(step)
        at = end
    return txns.MultiTxn(tuple(steps)), at  # type: ignore[arg-type]  # checked by _IN_MULTI


def _write_multi(out: bytearray, multi: txns.MultiTxn) -> None:
    INT.write(out, len(multi.records))
    for step in multi.records:
        number, write = _WRITERS[step.__class__]
        content = bytearray()
        write(content, step)
        INT.write(out, number)
        BUFFER.write(out, bytes(content))


CODECS: dict[int, tuple[type[txns.Record], Codec[Any]]] = {
    1: (txns.CreateTxn, record(txns.CreateTxn, _PATH, BUFFER, _ACL, BOOLEAN, INT)),
    15: (txns.Create2Txn, record(txns.Create2Txn, _PATH, BUFFER, _ACL, BOOLEAN, INT)),
    19: (txns.CreateContainerTxn, record(txns.CreateContainerTxn, _PATH, BUFFER, _ACL, INT)),
    21: (txns.CreateTTLTxn, record(txns.CreateTTLTxn, _PATH, BUFFER, _ACL, INT, LONG)),
    2: (txns.DeleteTxn, record(txns.DeleteTxn, _PATH)),
    20: (txns.DeleteContainerTxn, record(txns.DeleteContainerTxn, _PATH)),
    5: (txns.SetDataTxn, record(txns.SetDataTxn, _PATH, BUFFER, INT)),
    7: (txns.SetACLTxn, record(txns.SetACLTxn, _PATH, _ACL, INT)),
    13: (txns.CheckTxn, record(txns.CheckTxn, _PATH, INT)),
    14: (txns.MultiTxn, Codec(_read_multi, _write_multi)),
    -1: (txns.ErrorTxn, packed(txns.ErrorTxn, ">i")),
    -10: (txns.CreateSessionTxn, packed(txns.CreateSessionTxn, ">i")),
    -11: (txns.CloseSessionTxn, Codec(_read_close_session, _write_close_session)),
}
"""Record class and codec by type number."""

_IN_MULTI = frozenset((1, 2, 5, 13, 15, 19, 20, 21, -1))
"""Types allowed in a multi (DataTree.processTxn)."""


# Fast readers of frequent records


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """Return a text and the offset behind it, which is beyond the data if the text is truncated."""
    start = at + 4
    end = start + _int_at(data, at)[0]
    if end < start:
        raise MalformedError("the length of a text is negative")
    return data[start:end].decode("utf-8", "replace"), end


def read_buffer(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return a buffer or null, and the offset behind it, which is beyond the data if it is truncated."""
    start = at + 4
    end = start + _int_at(data, at)[0]
    if end < start:
        if end != start - 1:
            raise MalformedError("the length of a buffer is negative")
        return None, start
    return data[start:end], end


def _read_create(data: bytes, at: int) -> tuple[txns.Record, int]:
    return _read_either_create(data, at, txns.CreateTxn)


def _read_create2(data: bytes, at: int) -> tuple[txns.Record, int]:
    return _read_either_create(data, at, txns.Create2Txn)


def _read_either_create(data: bytes, at: int, make: type[txns.CreateTxn | txns.Create2Txn]) -> tuple[txns.Record, int]:
    path, at = read_text(data, at)
    content, at = read_buffer(data, at)
    acl, at = _read_acl(data, at)
    if at + 1 == len(data):
        # Format of 3.3 (CreateTxnV0): the parent's cversion increases by one.
        return make(path, content, acl, data[at] != 0, UNKNOWN_CVERSION), at + 1
    ephemeral, parent_cversion = _bool_int_at(data, at)
    return make(path, content, acl, ephemeral, parent_cversion), at + 5


def _read_delete(data: bytes, at: int) -> tuple[txns.Record, int]:
    path, at = read_text(data, at)
    return txns.DeleteTxn(path), at


def _read_set_data(data: bytes, at: int) -> tuple[txns.Record, int]:
    path, at = read_text(data, at)
    content, at = read_buffer(data, at)
    return txns.SetDataTxn(path, content, _int_at(data, at)[0]), at + 4


def _read_check(data: bytes, at: int) -> tuple[txns.Record, int]:
    path, at = read_text(data, at)
    return txns.CheckTxn(path, _int_at(data, at)[0]), at + 4


_READERS: dict[int, Callable[[bytes, int], tuple[txns.Record, int]]] = {
    **{number: codec.read for number, (_, codec) in CODECS.items()},
    1: _read_create,
    15: _read_create2,
    2: _read_delete,
    5: _read_set_data,
    13: _read_check,
    # A reconfiguration is logged as a write of /zookeeper/config.
    16: _read_set_data,
}


# Fast writers of frequent records


def _write_path_and_data(out: bytearray, path: str, data: bytes | None) -> None:
    encoded = path.encode("utf-8", "replace")
    out += _int.pack(len(encoded))
    out += encoded
    if data is None:
        out += _NULL
    else:
        out += _int.pack(len(data))
        out += data


def _write_create(out: bytearray, create: txns.CreateTxn | txns.Create2Txn) -> None:
    _write_path_and_data(out, create.path, create.data)
    if create.acl is OPEN_ACL:
        out += _OPEN_ACL_BYTES
    else:
        ACLS.write(out, create.acl)
    out += _bool_int.pack(create.ephemeral, create.parent_cversion)


def _write_set_data(out: bytearray, change: txns.SetDataTxn) -> None:
    _write_path_and_data(out, change.path, change.data)
    out += _int.pack(change.version)


_OPEN_ACL_BYTES = ACLS.encode(OPEN_ACL)

_WRITERS: dict[type[txns.Record], tuple[int, Callable[[bytearray, Any], None]]] = {
    **{kind: (number, codec.write) for number, (kind, codec) in CODECS.items()},
    txns.CreateTxn: (1, _write_create),
    txns.Create2Txn: (15, _write_create),
    txns.SetDataTxn: (5, _write_set_data),
}


# Whole transactions


def encode_transaction(
    transaction: txns.Transaction, tree_digest: int | None, *, names_ephemerals: bool = True
) -> bytes:
    """Return the bytes of a transaction in a log, without the frame of the entry.

    Args:
        transaction: the transaction.
        tree_digest: digest of the tree after it; None for none, as for failed transactions in the real server.
        names_ephemerals: whether the end of a session lists the paths it deletes.
    """
    session_id, cxid, zxid, time_ms, logged = transaction
    number, write = _WRITERS[logged.__class__]
    out = bytearray(_header.pack(session_id, cxid, zxid, time_ms, number))
    if names_ephemerals or logged.__class__ is not txns.CloseSessionTxn:
        write(out, logged)
    if tree_digest is not None:
        out += _digest.pack(DIGEST_VERSION, tree_digest)
    return bytes(out)


def decode_entry(data: bytes) -> LogEntry:
    """Decode an entry of a log.

    Raises:
        MalformedError: the bytes are no transaction, or of a type that no known version logs.
    """
    try:
        session_id, cxid, zxid, time_ms, number = _header.unpack_from(data)
        if number == 13:
            raise MalformedError("a check is valid only in a multi")
        logged, end = _READERS[number](data, _header.size)
        left = len(data) - end
        if left < 0:
            raise MalformedError("the transaction is truncated")
        tree_digest = None
        if left >= _digest.size:
            version, digest = _digest.unpack_from(data, end)
            if version == DIGEST_VERSION:
                tree_digest = digest
    except (struct.error, KeyError) as why:
        raise MalformedError(f"not a transaction: {why}") from why
    return LogEntry(txns.Transaction(session_id, cxid, zxid, time_ms, logged), tree_digest)
