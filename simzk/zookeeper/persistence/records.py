"""Codecs of transactions in a log (§6).

Rules of this module:
  - one codec per record type, in one table by the type's number;
  - old logs decode too: creates without the parent's cversion, ends of sessions without paths, no digest.

Source: SerializeUtils.deserializeTxn, Util.marshallTxnEntry, zookeeper.jute (module org.apache.zookeeper.txn).
"""

from __future__ import annotations

import struct
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.jute import (
    ACLS,
    BOOLEAN,
    BUFFER,
    INT,
    LONG,
    PATH,
    Codec,
    MalformedError,
    TruncatedError,
    packed,
    record,
    vector,
)
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.tree import UNKNOWN_CVERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.requests import ACL

DIGEST_VERSION = 2
"""Version of the tree's digest (DigestCalculator.DIGEST_VERSION); digests of other versions are not compared."""

_header = Struct(">qiqqi")
_digest = Struct(">iQ")
_int_at = Struct(">i").unpack_from


class LogEntry(NamedTuple):
    """Entry of a log: the transaction, and the tree's digest after it if the log has one."""

    transaction: txns.Transaction
    tree_digest: int | None


# Codecs


def _read_acl(data: bytes, at: int) -> tuple[tuple[ACL, ...], int]:
    acl, at = ACLS.read(data, at)
    # Without an ACL a node is open to everybody (ReferenceCountedACLCache.convertAcls).
    return OPEN_ACL if acl is None else acl, at


_ACL: Codec[tuple[ACL, ...]] = Codec(_read_acl, ACLS.write)
_PATHS = vector(PATH)


def _read_close_session(data: bytes, at: int) -> tuple[txns.CloseSessionTxn, int]:
    left = len(data) - at
    if left == 0 or (left == _digest.size and _int_at(data, at)[0] == DIGEST_VERSION):
        # Without paths before 3.6, or if closeSessionTxn is off: all ephemerals of the session are deleted.
        return txns.CloseSessionTxn(()), at
    try:
        paths, at = _PATHS.read(data, at)
    except TruncatedError:
        return txns.CloseSessionTxn(()), len(data)
    return txns.CloseSessionTxn(paths or ()), at


def _read_multi(data: bytes, at: int) -> tuple[txns.MultiTxn, int]:
    count, at = INT.read(data, at)
    if count < 0:
        raise MalformedError("a multi is null")
    contents = []
    for _ in range(count):
        kind, at = INT.read(data, at)
        content, at = BUFFER.read(data, at)
        if content is None:
            raise MalformedError("an operation of a multi is null")
        contents.append((kind, content))
    steps: list[txns.MultiRecord] = []
    for kind, content in contents:
        # The real server decodes an operation when it applies it; after one that does not decode it applies no more.
        try:
            if kind not in _IN_MULTI:
                raise MalformedError(f"type {kind} is not allowed in a multi")
            step: Any = CODECS[kind][1].decode(content)
        except MalformedError:
            break
        steps.append(step)
    if len(steps) < count and _ERROR in dict(contents):
        steps.append(txns.ErrorTxn(Code.OK))
    assert len(steps) <= count, "each operation makes at most one record"
    return txns.MultiTxn(tuple(steps)), at


def _write_multi(out: bytearray, multi: txns.MultiTxn) -> None:
    INT.write(out, len(multi.records))
    for step in multi.records:
        number, write = _WRITERS[step.__class__]
        assert number in _IN_MULTI, f"a reader stops at type {number} in a multi"
        content = bytearray()
        write(content, step)
        INT.write(out, number)
        BUFFER.write(out, bytes(content))


CODECS: dict[int, tuple[type[txns.Record], Codec[Any]]] = {
    1: (txns.CreateTxn, record(txns.CreateTxn, PATH, BUFFER, _ACL, BOOLEAN, INT)),
    15: (txns.Create2Txn, record(txns.Create2Txn, PATH, BUFFER, _ACL, BOOLEAN, INT)),
    19: (txns.CreateContainerTxn, record(txns.CreateContainerTxn, PATH, BUFFER, _ACL, INT)),
    21: (txns.CreateTTLTxn, record(txns.CreateTTLTxn, PATH, BUFFER, _ACL, INT, LONG)),
    2: (txns.DeleteTxn, record(txns.DeleteTxn, PATH)),
    20: (txns.DeleteContainerTxn, record(txns.DeleteContainerTxn, PATH)),
    5: (txns.SetDataTxn, record(txns.SetDataTxn, PATH, BUFFER, INT)),
    7: (txns.SetACLTxn, record(txns.SetACLTxn, PATH, _ACL, INT)),
    13: (txns.CheckTxn, record(txns.CheckTxn, PATH, INT)),
    14: (txns.MultiTxn, Codec(_read_multi, _write_multi)),
    -1: (txns.ErrorTxn, packed(txns.ErrorTxn, ">i")),
    -10: (txns.CreateSessionTxn, packed(txns.CreateSessionTxn, ">i")),
    -11: (txns.CloseSessionTxn, Codec(_read_close_session, lambda out, closed: _PATHS.write(out, closed.paths))),
}
"""Record class and codec by type number."""

_ERROR = -1
_IN_MULTI = frozenset((1, 2, 5, 13, 15, 19, 20, 21, -1))
"""Types allowed in a multi (DataTree.processTxn)."""


def _read_create(codec: Codec[Any], data: bytes, at: int) -> tuple[txns.Record, int]:
    """Read a create, also of 3.3 (CreateTxnV0), which ends before the parent's cversion."""
    try:
        return codec.read(data, at)
    except MalformedError:
        create, end = codec.read(data + _UNKNOWN_CVERSION_BYTES, at)
        if end - len(_UNKNOWN_CVERSION_BYTES) != len(data):
            raise
        return create, len(data)


_UNKNOWN_CVERSION_BYTES = INT.encode(UNKNOWN_CVERSION)

_READERS: dict[int, Callable[[bytes, int], tuple[txns.Record, int]]] = {
    **{number: codec.read for number, (_, codec) in CODECS.items()},
    1: partial(_read_create, CODECS[1][1]),
    # A reconfiguration is logged as a write of /zookeeper/config.
    16: CODECS[5][1].read,
}

_WRITERS: dict[type[txns.Record], tuple[int, Callable[[bytearray, Any], None]]] = {
    kind: (number, codec.write) for number, (kind, codec) in CODECS.items()
}
assert len(_WRITERS) == len(CODECS), "each class of records has one type"
assert _READERS.keys() >= _IN_MULTI, "each operation of a multi can be read"


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
            raise TruncatedError("the transaction is truncated")
        tree_digest = None
        if left >= _digest.size:
            version, digest = _digest.unpack_from(data, end)
            if version == DIGEST_VERSION:
                tree_digest = digest
    except struct.error as why:
        raise TruncatedError(f"not a transaction: {why}") from why
    except KeyError as why:
        raise MalformedError(f"not a transaction: {why}") from why
    return LogEntry(txns.Transaction(session_id, cxid, zxid, time_ms, logged), tree_digest)
