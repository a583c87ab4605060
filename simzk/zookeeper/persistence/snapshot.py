"""Snapshots as streams of bytes (§6): sessions, ACLs, nodes, and seals that make them trustworthy.

Rules of this module:
  - no file is opened here: a reader is handed something with `read`, a writer yields bytes;
  - a writer may be driven slowly while the tree changes: the snapshot is then fuzzy, as the real server's are, and
    replaying the log from its name's zxid mends it;
  - a snapshot is believed as a whole: after `damage` nothing that was read counts.

Source: FileSnap, DataTree.serialize, ReferenceCountedACLCache.serialize, SnapStream.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zlib import adler32

from simzk.zookeeper.persistence.damage import Damage, DamageKind
from simzk.zookeeper.persistence.records import (
    DIGEST_VERSION,
    RecordError,
    decode_acl,
    decode_buffer,
    decode_text,
    encode_acl,
    encode_buffer,
    encode_text,
)
from simzk.zookeeper.persistence.transaction_log import MAX_ENTRY_BYTES
from simzk.zookeeper.requests import ACL, OPEN_ACL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from simzk.zookeeper.persistence.transaction_log import Readable
    from simzk.zookeeper.tree import DataTree

_MAGIC = b"ZKSN"
_file_header = Struct(">4siq")
_int = Struct(">i")
_long = Struct(">q")
_session = Struct(">qi")
_numbers = Struct(">qqqqqiiiqq")
_digest_section = Struct(">qiQ")
_seal = Struct(">qi1s")

_OPEN_ACL_ID = -1
_END_OF_NODES = "/"
_CHUNK_BYTES = 1 << 20
_LONGEST_ITEM_BYTES = 2 * MAX_ENTRY_BYTES
_LONGEST_TAIL_BYTES = _digest_section.size + _long.size + 2 * _seal.size

_T = TypeVar("_T")


class SnapshotNode(NamedTuple):
    """A node as a snapshot has it; `cversion` and `ephemeral_owner` are the stored ones (§2.1, §2.3)."""

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    pzxid: int


class SnapshotDigest(NamedTuple):
    """The tree's digest when the snapshot was finished, after the transaction `zxid`."""

    zxid: int
    version: int
    value: int


# Writing


def encode_snapshot(
    tree: DataTree, sessions: Mapping[int, int], last: Callable[[], tuple[int, int]]
) -> Iterator[bytes]:
    """A snapshot of a tree, in pieces of at most a few nodes or one large one.

    Args:
        tree: walked while the pieces are asked for.
        sessions: session id -> timeout in ms.
        last: asked when all nodes are written, for the zxid last applied and the tree's digest after it.

    Yields:
        What the file consists of, in order.
    """
    checksum = 1
    for piece in _pieces(tree, sessions):
        checksum = adler32(piece, checksum)
        yield piece
    zxid, tree_digest = last()
    for section in (b"", _digest_section.pack(zxid, DIGEST_VERSION, tree_digest), _long.pack(zxid)):
        checksum = adler32(section, checksum)
        sealed = section + _seal.pack(checksum, 1, b"/")
        checksum = adler32(sealed[len(section) :], checksum)
        yield sealed


def _pieces(tree: DataTree, sessions: Mapping[int, int]) -> Iterator[bytes]:
    yield _file_header.pack(_MAGIC, 2, -1)
    yield _int.pack(len(sessions)) + b"".join(_session.pack(*session) for session in sessions.items())
    ids: dict[tuple[ACL, ...], int] = {OPEN_ACL: _OPEN_ACL_ID}
    for acl in tree.acls:
        ids[acl] = len(ids)
    kept = [(acl_id, acl) for acl, acl_id in ids.items() if acl_id != _OPEN_ACL_ID]
    yield _int.pack(len(kept)) + b"".join(_long.pack(acl_id) + encode_acl(acl) for acl_id, acl in kept)
    for path, node in tree.walk():
        # A node that got a new ACL since the ids were given out will get it again from the log.
        acl_id = ids.get(node.acl, _OPEN_ACL_ID)
        numbers = _numbers.pack(
            acl_id,
            node.czxid,
            node.mzxid,
            node.ctime_ms,
            node.mtime_ms,
            node.version,
            node.cversion,
            node.aversion,
            node.ephemeral_owner,
            node.pzxid,
        )
        yield encode_text("" if path == "/" else path) + encode_buffer(node.data) + numbers
    yield encode_text(_END_OF_NODES)


# Reading


class _BrokenError(Exception):
    """Found while reading; it never leaves the reader, which tells it as its damage."""

    def __init__(self, kind: DamageKind) -> None:
        self.kind = kind
        super().__init__(kind)


class SnapshotReader:
    """Reads a snapshot once: its sessions at once, its nodes by iterating, parents before children, the root as "/".

    Args:
        stream: the snapshot from its first byte on; it is read in chunks, and not closed.

    Attributes:
        sessions: session id -> timeout in ms.
        digest: known once the iteration is over; None in snapshots of before 3.6.
        last_zxid: the last zxid applied when it was finished, likewise; None in those of before 3.9.
        damage: once the iteration is over, why nothing of this snapshot may be believed; None where all is well.

    >>> from io import BytesIO
    >>> from simzk.zookeeper.tree import DataTree
    >>> pieces = encode_snapshot(DataTree(), {7: 30000}, lambda: (0, 1371985504))
    >>> snapshot = SnapshotReader(BytesIO(b"".join(pieces)))
    >>> [node.path for node in snapshot], snapshot.sessions, snapshot.damage
    (['/', '/zookeeper', '/zookeeper/config', '/zookeeper/quota'], {7: 30000}, None)
    """

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._buffer = b""
        self._at = 0
        self._dropped = 0
        self._checksum = 1
        self._acls: dict[int, tuple[ACL, ...]] = {_OPEN_ACL_ID: OPEN_ACL}
        self.damage: Damage | None = None
        self.sessions: dict[int, int] = {}
        self.digest: SnapshotDigest | None = None
        self.last_zxid: int | None = None
        try:
            self._read_head()
        except _BrokenError as broken:
            self._stop(broken)

    def __iter__(self) -> Iterator[SnapshotNode]:
        if self.damage is None:
            try:
                while True:
                    path, data, acl_id, numbers = self._take(_decode_node)
                    if path == _END_OF_NODES:
                        break
                    # A fuzzy snapshot may name an ACL that came later: the log behind it sets it.
                    yield SnapshotNode(path or "/", data, self._acls.get(acl_id, OPEN_ACL), *numbers)
                self._read_tail()
            except _BrokenError as broken:
                self._stop(broken)

    @property
    def offset(self) -> int:
        """How many bytes of the snapshot are read and understood."""
        return self._dropped + self._at

    def _stop(self, broken: _BrokenError) -> None:
        self.damage = Damage(broken.kind, self.offset, None)

    def _read_head(self) -> None:
        magic, _, _ = self._take(_plain(_file_header))
        if magic != _MAGIC:
            self._at = 0
            raise _BrokenError(DamageKind.FOREIGN)
        (count,) = self._take(_plain(_int))
        for _ in range(count):
            session_id, timeout_ms = self._take(_plain(_session))
            self.sessions[session_id] = timeout_ms
        (count,) = self._take(_plain(_int))
        for _ in range(count):
            acl_id, acl = self._take(_decode_kept_acl)
            self._acls[acl_id] = acl

    def _read_tail(self) -> None:
        """Seals, and what later versions put behind the first; which of it is there tells the length."""
        self._check_seal()
        left = self._all_that_is_left()
        if left >= _digest_section.size + _seal.size:
            self.digest = SnapshotDigest(*self._take(_plain(_digest_section)))
            self._check_seal()
            left = self._all_that_is_left()
        if left:
            (self.last_zxid,) = self._take(_plain(_long))
            self._check_seal()
        if self._all_that_is_left():
            raise _BrokenError(DamageKind.RECORD)

    def _check_seal(self) -> None:
        self._sum_up()
        checksum = self._checksum
        found, length, end = self._take(_plain(_seal))
        if found != checksum or (length, end) != (1, b"/"):
            raise _BrokenError(DamageKind.CHECKSUM)

    def _take(self, decode: Callable[[bytes, int], tuple[_T, int]]) -> _T:
        """The next item; more is read until it is whole."""
        while True:
            try:
                item, end = decode(self._buffer, self._at)
                if end <= len(self._buffer):
                    self._at = end
                    return item
            except struct.error:
                pass
            except RecordError:
                raise _BrokenError(DamageKind.LENGTH) from None
            if not self._read_more():
                raise _BrokenError(DamageKind.TORN)
            if len(self._buffer) > _LONGEST_ITEM_BYTES + _CHUNK_BYTES:
                raise _BrokenError(DamageKind.LENGTH)

    def _sum_up(self) -> None:
        """Take what was consumed into the checksum, and let it go."""
        self._checksum = adler32(self._buffer[: self._at], self._checksum)
        self._dropped += self._at
        self._buffer = self._buffer[self._at :]
        self._at = 0

    def _read_more(self) -> bool:
        self._sum_up()
        chunk = self._stream.read(_CHUNK_BYTES)
        self._buffer += chunk
        return bool(chunk)

    def _all_that_is_left(self) -> int:
        """How many bytes follow; more than any tail has if they are many."""
        while len(self._buffer) - self._at <= _LONGEST_TAIL_BYTES and self._read_more():
            pass
        return len(self._buffer) - self._at


def _plain(layout: Struct) -> Callable[[bytes, int], tuple[tuple[Any, ...], int]]:
    return lambda data, at: (layout.unpack_from(data, at), at + layout.size)


def _decode_kept_acl(data: bytes, at: int) -> tuple[tuple[int, tuple[ACL, ...]], int]:
    (acl_id,) = _long.unpack_from(data, at)
    acl, end = decode_acl(data, at + _long.size)
    return (acl_id, acl), end


def _decode_node(data: bytes, at: int) -> tuple[tuple[str, bytes | None, int, tuple[Any, ...]], int]:
    path, at = decode_text(data, at)
    if path == _END_OF_NODES:
        return (path, None, _OPEN_ACL_ID, ()), at
    content, at = decode_buffer(data, at)
    acl_id, *numbers = _numbers.unpack_from(data, at)
    return (path, content, acl_id, tuple(numbers)), at + _numbers.size
