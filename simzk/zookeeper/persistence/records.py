"""Transactions as the bytes of the log, and back (§6).

Rules of this module:
  - one encoder and one decoder a type of record, in two tables by the type's number;
  - decoders take the whole entry and a position, and return the record and the position behind it; what runs off the
    end is found once, by the position; they are the hot path of reading a log, hence no cursor object;
  - old logs are read too: a create without its parent's cversion, the end of a session without its paths, no digest.

Source: SerializeUtils.deserializeTxn, Util.marshallTxnEntry, zookeeper.jute (module org.apache.zookeeper.txn).
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id

if TYPE_CHECKING:
    from collections.abc import Callable

DIGEST_VERSION = 2
"""How the tree's digest is computed (DigestCalculator.DIGEST_VERSION); others are not compared."""

_header = Struct(">qiqqi")
_int = Struct(">i")
_int_int = Struct(">ii")
_bool_int = Struct(">?i")
_int_long = Struct(">iq")
_int_at = _int.unpack_from
_bool_int_at = _bool_int.unpack_from

_NULL = _int.pack(-1)


class RecordError(ValueError):
    """The bytes are no transaction."""


class LogEntry(NamedTuple):
    """One entry of a log: the transaction, and the tree's digest after it where the log has one."""

    transaction: txns.Transaction
    tree_digest: int | None


# Writing


def encode_text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return _int.pack(len(data)) + data


def encode_buffer(data: bytes | None) -> bytes:
    return _NULL if data is None else _int.pack(len(data)) + data


def encode_acl(acl: tuple[ACL, ...]) -> bytes:
    parts = [_int.pack(len(acl))]
    for perms, (scheme, text) in acl:
        parts += (
            _int.pack(perms),
            _NULL if scheme is None else encode_text(scheme),
            _NULL if text is None else encode_text(text),
        )
    return b"".join(parts)


_OPEN_ACL_BYTES = encode_acl(OPEN_ACL)
_OPEN_ACL_LENGTH = len(_OPEN_ACL_BYTES)


def _node(record: txns.CreateRecord) -> bytes:
    acl = _OPEN_ACL_BYTES if record.acl is OPEN_ACL else encode_acl(record.acl)
    return encode_text(record.path) + encode_buffer(record.data) + acl


def _encode_create(record: txns.CreateTxn | txns.Create2Txn) -> bytes:
    return _node(record) + _bool_int.pack(record.ephemeral, record.parent_cversion)


def _encode_create_container(record: txns.CreateContainerTxn) -> bytes:
    return _node(record) + _int.pack(record.parent_cversion)


def _encode_create_ttl(record: txns.CreateTTLTxn) -> bytes:
    return _node(record) + _int_long.pack(record.parent_cversion, record.ttl_ms)


def _encode_path(record: txns.DeleteTxn | txns.DeleteContainerTxn) -> bytes:
    return encode_text(record.path)


def _encode_set_data(record: txns.SetDataTxn) -> bytes:
    return encode_text(record.path) + encode_buffer(record.data) + _int.pack(record.version)


def _encode_set_acl(record: txns.SetACLTxn) -> bytes:
    return encode_text(record.path) + encode_acl(record.acl) + _int.pack(record.version)


def _encode_check(record: txns.CheckTxn) -> bytes:
    return encode_text(record.path) + _int.pack(record.version)


def _encode_create_session(record: txns.CreateSessionTxn) -> bytes:
    return _int.pack(record.timeout_ms)


def _encode_close_session(record: txns.CloseSessionTxn) -> bytes:
    return _int.pack(len(record.paths)) + b"".join(map(encode_text, record.paths))


def _encode_error(record: txns.ErrorTxn) -> bytes:
    return _int.pack(record.error)


def _encode_multi(record: txns.MultiTxn) -> bytes:
    parts = [_int.pack(len(record.records))]
    for step in record.records:
        kind, encode = _ENCODE[step.__class__]
        data = encode(step)
        parts += (_int_int.pack(kind, len(data)), data)
    return b"".join(parts)


_ENCODE: dict[type, tuple[int, Callable[..., bytes]]] = {
    txns.CreateTxn: (1, _encode_create),
    txns.Create2Txn: (15, _encode_create),
    txns.CreateContainerTxn: (19, _encode_create_container),
    txns.CreateTTLTxn: (21, _encode_create_ttl),
    txns.DeleteTxn: (2, _encode_path),
    txns.DeleteContainerTxn: (20, _encode_path),
    txns.SetDataTxn: (5, _encode_set_data),
    txns.SetACLTxn: (7, _encode_set_acl),
    txns.CheckTxn: (13, _encode_check),
    txns.MultiTxn: (14, _encode_multi),
    txns.ErrorTxn: (-1, _encode_error),
    txns.CreateSessionTxn: (-10, _encode_create_session),
    txns.CloseSessionTxn: (-11, _encode_close_session),
}


def encode_transaction(transaction: txns.Transaction, tree_digest: int | None) -> bytes:
    """The transaction as the log has it, without the frame of the entry.

    Args:
        transaction: any.
        tree_digest: of the tree after it; None leaves it out, as the real server does for what failed.
    """
    kind, encode = _ENCODE[transaction.record.__class__]
    session_id, cxid, zxid, time_ms, record = transaction
    data = _header.pack(session_id, cxid, zxid, time_ms, kind) + encode(record)
    return data if tree_digest is None else data + _encode_digest(tree_digest)


def _encode_digest(tree_digest: int) -> bytes:
    return _int.pack(DIGEST_VERSION) + tree_digest.to_bytes(8, "big")


# Reading

if TYPE_CHECKING:
    Decoded = tuple[txns.Record, int]


def decode_text(data: bytes, at: int) -> tuple[str, int]:
    start = at + 4
    end = start + _int_at(data, at)[0]
    if end < start:
        raise RecordError("a text has a negative length")
    return data[start:end].decode("utf-8", "replace"), end


def decode_buffer(data: bytes, at: int) -> tuple[bytes | None, int]:
    start = at + 4
    end = start + _int_at(data, at)[0]
    if end < start:
        if end != start - 1:
            raise RecordError("a buffer has a negative length")
        return None, start
    return data[start:end], end


def _decode_nullable_text(data: bytes, at: int) -> tuple[str | None, int]:
    text, end = decode_buffer(data, at)
    return (None if text is None else text.decode("utf-8", "replace")), end


def decode_acl(data: bytes, at: int) -> tuple[tuple[ACL, ...], int]:
    if data.startswith(_OPEN_ACL_BYTES, at):
        return OPEN_ACL, at + _OPEN_ACL_LENGTH
    (count,) = _int_at(data, at)
    at += 4
    acl = []
    for _ in range(count):
        (perms,) = _int_at(data, at)
        scheme, at = _decode_nullable_text(data, at + 4)
        text, at = _decode_nullable_text(data, at)
        acl.append(ACL(perms, Id(scheme, text)))
    return tuple(acl), at


def _decode_create(data: bytes, at: int) -> Decoded:
    return _decode_either_create(data, at, txns.CreateTxn)


def _decode_create2(data: bytes, at: int) -> Decoded:
    return _decode_either_create(data, at, txns.Create2Txn)


def _decode_either_create(data: bytes, at: int, kind: type[txns.CreateTxn | txns.Create2Txn]) -> Decoded:
    path, at = decode_text(data, at)
    content, at = decode_buffer(data, at)
    acl, at = decode_acl(data, at)
    if at + 1 == len(data):
        # As 3.3 wrote it (CreateTxnV0): -1 has the parent count for itself.
        return kind(path, content, acl, data[at] != 0, -1), at + 1
    ephemeral, parent_cversion = _bool_int_at(data, at)
    return kind(path, content, acl, ephemeral, parent_cversion), at + 5


def _decode_create_container(data: bytes, at: int) -> Decoded:
    path, at = decode_text(data, at)
    content, at = decode_buffer(data, at)
    acl, at = decode_acl(data, at)
    return txns.CreateContainerTxn(path, content, acl, _int_at(data, at)[0]), at + 4


def _decode_create_ttl(data: bytes, at: int) -> Decoded:
    path, at = decode_text(data, at)
    content, at = decode_buffer(data, at)
    acl, at = decode_acl(data, at)
    return txns.CreateTTLTxn(path, content, acl, *_int_long.unpack_from(data, at)), at + 12


def _decode_delete(data: bytes, at: int) -> Decoded:
    path, at = decode_text(data, at)
    return txns.DeleteTxn(path), at


def _decode_delete_container(data: bytes, at: int) -> Decoded:
    path, at = decode_text(data, at)
    return txns.DeleteContainerTxn(path), at


def _decode_set_data(data: bytes, at: int) -> Decoded:
    path, at = decode_text(data, at)
    content, at = decode_buffer(data, at)
    return txns.SetDataTxn(path, content, _int_at(data, at)[0]), at + 4


def _decode_set_acl(data: bytes, at: int) -> Decoded:
    path, at = decode_text(data, at)
    acl, at = decode_acl(data, at)
    return txns.SetACLTxn(path, acl, _int_at(data, at)[0]), at + 4


def _decode_check(data: bytes, at: int) -> Decoded:
    path, at = decode_text(data, at)
    return txns.CheckTxn(path, _int_at(data, at)[0]), at + 4


def _decode_create_session(data: bytes, at: int) -> Decoded:
    return txns.CreateSessionTxn(_int_at(data, at)[0]), at + 4


def _decode_close_session(data: bytes, at: int) -> Decoded:
    left = len(data) - at
    if left == 0 or (left == 12 and _int_at(data, at)[0] == DIGEST_VERSION):
        # Before 3.6, and where closeSessionTxn is turned off: the paths are those that the session then owns.
        return txns.CloseSessionTxn(()), at
    (count,) = _int_at(data, at)
    at += 4
    paths = []
    for _ in range(count):
        path, at = decode_text(data, at)
        paths.append(path)
    return txns.CloseSessionTxn(tuple(paths)), at


def _decode_error(data: bytes, at: int) -> Decoded:
    return txns.ErrorTxn(_int_at(data, at)[0]), at + 4


def _decode_multi(data: bytes, at: int) -> Decoded:
    (count,) = _int_at(data, at)
    at += 4
    records = []
    for _ in range(count):
        (kind,) = _int_at(data, at)
        content, at = decode_buffer(data, at + 4)
        if content is None:
            raise RecordError("a step of a multi is null")
        record, end = _DECODE_STEP[kind](content, 0)
        if end > len(content):
            raise RecordError("a step of a multi ends too early")
        records.append(record)
    return txns.MultiTxn(tuple(records)), at  # type: ignore[arg-type]


_DECODE_STEP: dict[int, Callable[[bytes, int], Decoded]] = {
    1: _decode_create,
    15: _decode_create2,
    19: _decode_create_container,
    21: _decode_create_ttl,
    2: _decode_delete,
    20: _decode_delete_container,
    5: _decode_set_data,
    13: _decode_check,
    -1: _decode_error,
}
"""What may stand in a multi (DataTree.processTxn)."""

_DECODE: dict[int, Callable[[bytes, int], Decoded]] = {
    **{kind: decode for kind, decode in _DECODE_STEP.items() if kind != 13},
    7: _decode_set_acl,
    14: _decode_multi,
    # A reconfiguration is logged as what it does: data set on /zookeeper/config.
    16: _decode_set_data,
    -10: _decode_create_session,
    -11: _decode_close_session,
}


def decode_entry(data: bytes) -> LogEntry:
    """The entry of a log that these bytes are.

    Raises:
        RecordError: they are none; also for types that this version does not know.
    """
    try:
        session_id, cxid, zxid, time_ms, kind = _header.unpack_from(data)
        record, end = _DECODE[kind](data, 32)
        left = len(data) - end
        tree_digest = None
        if left >= 12:
            version, digest = _int_long.unpack_from(data, end)
            if version == DIGEST_VERSION:
                tree_digest = digest & 0xFFFFFFFFFFFFFFFF
        elif left < 0:
            raise RecordError("the transaction ends too early")
    except (struct.error, KeyError) as why:
        raise RecordError(f"not a transaction: {why}") from why
    return LogEntry(txns.Transaction(session_id, cxid, zxid, time_ms, record), tree_digest)
