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
from typing import TYPE_CHECKING, TypeVar
from zlib import adler32

from simzk.tuples import NamedTuple
from simzk.zookeeper.jute import INT, LONG, TEXT, MalformedError, packed
from simzk.zookeeper.jute_records import ACLS
from simzk.zookeeper.persistence.damage import Damage, DamageKind
from simzk.zookeeper.persistence.node_records import (
    END_OF_NODES,
    OPEN_ACL_ID,
    NodeBatch,
    encode_node,
    make_node,
    scan,
)
from simzk.zookeeper.persistence.records import DIGEST_VERSION
from simzk.zookeeper.persistence.transaction_log import MAX_ENTRY_BYTES
from simzk.zookeeper.requests import ACL, OPEN_ACL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simzk.zookeeper.persistence.transaction_log import Readable
    from simzk.zookeeper.tree import DataTree
    from simzk.zookeeper.znode import Znode

_MAGIC = b"ZKSN"
_FILE_HEADER = packed(lambda *fields: fields, ">4siq")
_SESSION = packed(lambda *fields: fields, ">qi")
_SEAL = packed(lambda *fields: fields, ">qi1s")
_DIGEST_BYTES, _ZXID_BYTES, _SEAL_BYTES = 20, 8, 13

_CHUNK_BYTES = 1 << 20
_LONGEST_TAIL_BYTES = _DIGEST_BYTES + _ZXID_BYTES + 2 * _SEAL_BYTES

_T = TypeVar("_T")


class SnapshotDigest(NamedTuple):
    """The tree's digest when the snapshot was finished, after the transaction `zxid`."""

    zxid: int
    version: int
    value: int


_DIGEST = packed(SnapshotDigest, ">qiQ")


# Writing


def encode_snapshot(
    tree: DataTree,
    sessions: Sequence[tuple[int, int]],
    last: Callable[[], tuple[int, int]],
    *,
    digest: bool = True,
    last_zxid: bool = True,
) -> Iterator[bytes]:
    """A snapshot of a tree, in pieces: a head, then one a node, then a tail.

    Args:
        tree: walked while the pieces are asked for.
        sessions: their ids and timeouts in ms.
        last: asked when all nodes are written, for the zxid last applied and the tree's digest after it.
        digest: whether it has a section of the digest.
        last_zxid: whether it has one of the last zxid.

    Yields:
        What the file consists of, in order.
    """
    checksum = 1
    for piece in _pieces(tree, sessions):
        checksum = adler32(piece, checksum)
        yield piece
    zxid, tree_digest = last()
    sections = [b""]
    if digest:
        sections.append(_DIGEST.encode(SnapshotDigest(zxid, DIGEST_VERSION, tree_digest)))
    if last_zxid:
        sections.append(LONG.encode(zxid))
    for section in sections:
        seal = _SEAL.encode((adler32(section, checksum), 1, b"/"))
        checksum = adler32(section + seal, checksum)
        yield section + seal


def _pieces(tree: DataTree, sessions: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    yield _FILE_HEADER.encode((_MAGIC, 2, -1))
    yield INT.encode(len(sessions)) + b"".join(map(_SESSION.encode, sessions))
    ids = {acl: acl_id for acl_id, acl in enumerate(tree.acls, 1)}
    yield INT.encode(len(ids)) + b"".join(LONG.encode(acl_id) + ACLS.encode(acl) for acl, acl_id in ids.items())
    for path, node in tree.walk():
        # An ACL that came since the ids were given out will come again from the log.
        acl_id = OPEN_ACL_ID if node.acl is OPEN_ACL else ids.get(node.acl, OPEN_ACL_ID)
        yield TEXT.encode("" if path == "/" else path) + encode_node(node, acl_id)
    yield TEXT.encode(END_OF_NODES)


# Reading


class _BrokenError(Exception):
    """Found while reading; it never leaves the reader, which tells it as its damage."""

    def __init__(self, kind: DamageKind) -> None:
        self.kind = kind
        super().__init__(kind)


class SnapshotReader:
    """Reads a snapshot once: its sessions at once, paths and nodes by iterating, parents first, the root as "/".

    Args:
        stream: the snapshot from its first byte on; it is read in chunks, and not closed.
        max_item_bytes: the longest node to believe in, path and data together.

    Attributes:
        sessions: session id -> timeout in ms.
        acls: by the id that nodes name.
        digest: known once the iteration is over; None in snapshots of before 3.6.
        last_zxid: the last zxid applied when it was finished, likewise; None in those of before 3.9.
        damage: once the iteration is over, why nothing of this snapshot may be believed; None where all is well.

    >>> from io import BytesIO
    >>> from simzk.zookeeper.tree import DataTree
    >>> pieces = encode_snapshot(DataTree(), [(7, 30000)], lambda: (0, 1371985504))
    >>> snapshot = SnapshotReader(BytesIO(b"".join(pieces)))
    >>> [path for path, _ in snapshot], snapshot.sessions, snapshot.damage
    (['/', '/zookeeper', '/zookeeper/config', '/zookeeper/quota'], {7: 30000}, None)
    """

    def __init__(self, stream: Readable, *, max_item_bytes: int = MAX_ENTRY_BYTES) -> None:
        self._stream = stream
        self._max_item_bytes = max_item_bytes
        self._buffer = b""
        self._at = 0
        self._dropped = 0
        self._checksum = 1
        self.acls: dict[int, tuple[ACL, ...]] = {OPEN_ACL_ID: OPEN_ACL}
        self.damage: Damage | None = None
        self.sessions: dict[int, int] = {}
        self.digest: SnapshotDigest | None = None
        self.last_zxid: int | None = None
        try:
            self._read_head()
        except _BrokenError as broken:
            self._stop(broken)

    def __iter__(self) -> Iterator[tuple[str, Znode]]:
        for batch in self.batches():
            for path, data, numbers in zip(batch.paths, batch.data, batch.numbers, strict=True):
                yield path, make_node(data, numbers, self.acls)

    def batches(self) -> Iterator[NodeBatch]:
        """The same nodes as they stand in the file, as many at a time as were read together."""
        if self.damage is None:
            try:
                is_end = False
                while not is_end:
                    batch, is_end = self._take_batch()
                    yield batch
                self._take(TEXT.read)
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
        magic, _, _ = self._take(_FILE_HEADER.read)
        if magic != _MAGIC:
            self._at = 0
            raise _BrokenError(DamageKind.FOREIGN)
        for _ in range(self._take(INT.read)):
            session_id, timeout_ms = self._take(_SESSION.read)
            self.sessions[session_id] = timeout_ms
        for _ in range(self._take(INT.read)):
            acl_id = self._take(LONG.read)
            acl = self._take(ACLS.read)
            self.acls[acl_id] = acl or ()

    def _take_batch(self) -> tuple[NodeBatch, bool]:
        """The next nodes, at least one where there is one left, and whether they are the last."""
        while True:
            batch, self._at, is_end = scan(self._buffer, self._at)
            if batch.paths or is_end:
                return batch, is_end
            self._read_on()

    def _read_tail(self) -> None:
        """Seals, and what later versions put behind the first; which of it is there tells the length."""
        self._check_seal()
        left = self._all_that_is_left()
        if left >= _DIGEST_BYTES + _SEAL_BYTES:
            self.digest = self._take(_DIGEST.read)
            self._check_seal()
            left = self._all_that_is_left()
        if left:
            self.last_zxid = self._take(LONG.read)
            self._check_seal()
        if self._all_that_is_left():
            raise _BrokenError(DamageKind.RECORD)

    def _check_seal(self) -> None:
        self._sum_up()
        checksum = self._checksum
        if self._take(_SEAL.read) != (checksum, 1, b"/"):
            raise _BrokenError(DamageKind.CHECKSUM)

    def _take(self, decode: Callable[[bytes, int], tuple[_T, int]]) -> _T:
        """The next item; more is read until it is whole."""
        while True:
            try:
                item, end = decode(self._buffer, self._at)
                if end <= len(self._buffer):
                    self._at = end
                    return item
            except (struct.error, MalformedError):
                # Perhaps it is only not whole yet: these tell both alike.
                pass
            self._read_on()

    def _read_on(self) -> None:
        """What begins here is not whole yet."""
        if not self._read_more():
            raise _BrokenError(DamageKind.TORN)
        if len(self._buffer) > self._max_item_bytes + _CHUNK_BYTES:
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
