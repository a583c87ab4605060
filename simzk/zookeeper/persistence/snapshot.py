"""The nodes of a snapshot as they stand in it, many at a time: path, data, numbers (§6).

Rules of this module:
  - a *record* is a node's data and its numbers. Whoever needs a node makes it of its record, and who does not is spared
    the time; what is asked of all nodes (what is the newest zxid, is any of them owned) is asked of columns;
  - a scan takes the nodes that are whole, and stops before what is not: whether more of it comes is the reader's to
    find out.

Source: DataTree.serializeNode, DataNode.serialize, StatPersisted.

Snapshots as streams of bytes (§6): sessions, ACLs, nodes, and seals that make them trustworthy.

Rules of this module:
  - no file is opened here: a reader is handed something with `read`, a writer yields bytes;
  - a writer may be driven slowly while the tree changes: the snapshot is then fuzzy, as the real server's are, and
    replaying the log from its name's zxid mends it;
  - a snapshot is believed as a whole: after `damage` nothing that was read counts.

Source: FileSnap, DataTree.serialize, ReferenceCountedACLCache.serialize, SnapStream.
"""

from __future__ import annotations

import struct
import sys
from array import array
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar
from zlib import adler32

from simzk.zookeeper.jute import ACLS, BUFFER, INT, LONG, TEXT, MalformedError, packed
from simzk.zookeeper.persistence.files import Damage, DamageKind
from simzk.zookeeper.persistence.records import DIGEST_VERSION
from simzk.zookeeper.persistence.transaction_log import MAX_ENTRY_BYTES
from simzk.zookeeper.requests import ACL, OPEN_ACL
from simzk.zookeeper.znode import Znode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from simzk.zookeeper.persistence.transaction_log import Readable
    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.tree import DataTree

Record: TypeAlias = "tuple[bytes | None, bytes]"
"""A node's data, and its numbers as `NUMBERS` packs them."""

NUMBERS = Struct(">qqqqqiiiqq")
"""ACL's id, czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral owner, pzxid."""
OPEN_ACL_ID = -1
END_OF_NODES = "/"

_int_at = Struct(">i").unpack_from

_OWNER, _NO_OWNER = slice(-16, -8), bytes(8)

# Numbers with four bytes behind each are nine words of eight; three integers put what follows half a word off.
_FILLER = bytes(4)
_WORDS = (NUMBERS.size + len(_FILLER)) // 8
_CZXID, _MZXID = 1, 2
_OWNER_AFTER_4_BYTES, _PZXID_AFTER_4_BYTES = 6, 7


class NodeBatch(NamedTuple):
    """Some nodes of a snapshot, in its order; as many of each.

    Args:
        path_bytes: as they stand in the file; the root's is empty.
        paths: the same as text; the root's is "/".
        data: of each, None where it is null.
        numbers: of each.
    """

    path_bytes: list[bytes]
    paths: list[str]
    data: list[bytes | None]
    numbers: list[bytes]

    def newest_zxid(self) -> int:
        """The highest zxid that any of them names."""
        words, shifted = self._words(0), self._words(len(_FILLER))
        columns = words[_CZXID::_WORDS], words[_MZXID::_WORDS], shifted[_PZXID_AFTER_4_BYTES::_WORDS]
        return max(max(column, default=0) for column in columns)

    def has_owned(self) -> bool:
        """Whether any of them is an ephemeral, a container, or has a time to live."""
        return any(self._words(len(_FILLER))[_OWNER_AFTER_4_BYTES::_WORDS])

    def bytes_behind(self, place: int) -> int:
        """How many bytes of the file the nodes behind one take."""
        rest = slice(place + 1, None)
        texts = [*self.path_bytes[rest], *(data or b"" for data in self.data[rest])]
        return sum(4 + len(text) for text in texts) + NUMBERS.size * len(self.numbers[rest])

    def _words(self, shift: int) -> array[int]:
        text = _FILLER.join((*self.numbers, b""))[shift:]
        words = array("q", text[: len(text) // 8 * 8])
        if sys.byteorder == "little":
            words.byteswap()
        return words


def encode_node(node: Znode, acl_id: int) -> bytes:
    """What stands behind the path of a node."""
    return BUFFER.encode(node.data) + NUMBERS.pack(
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


def is_owned(record: Record) -> bool:
    """Whether a node is an ephemeral, a container, or has a time to live."""
    return record[1][_OWNER] != _NO_OWNER


def make_node(data: bytes | None, numbers: bytes, acls: Mapping[int, tuple[ACL, ...]]) -> Znode:
    """The node of a record, without its children; `acls` are the snapshot's by id."""
    acl_id, czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, owner, pzxid = NUMBERS.unpack(numbers)
    # A fuzzy snapshot may name an ACL that came later: the log behind it sets it.
    node = Znode(data, acls.get(acl_id, OPEN_ACL), owner, czxid, ctime_ms)
    node.mzxid, node.pzxid, node.mtime_ms = mzxid, pzxid, mtime_ms
    node.version, node.cversion, node.aversion = version, cversion, aversion
    return node


def scan(data: bytes, at: int) -> tuple[NodeBatch, int, bool]:
    """The nodes that stand whole from an offset on.

    Args:
        data: some of a snapshot.
        at: where in it a node begins, or the end of all nodes.

    Returns:
        The nodes, the offset behind them, and whether they are the last ones: what says so begins there.
    """
    path_bytes: list[bytes] = []
    contents: list[bytes | None] = []
    numbers: list[bytes] = []
    size, numbers_size = len(data), NUMBERS.size
    is_end = False
    try:
        while True:
            (length,) = _int_at(data, at)
            path_at = at + 4
            path_end = path_at + length
            if length == 1 and data[path_at:path_end] == b"/":
                is_end = True
                break
            (content_length,) = _int_at(data, path_end)
            content_at = path_end + 4
            content_end = content_at + content_length if content_length >= 0 else content_at
            end = content_end + numbers_size
            if end > size or length < 0 or content_length < -1:
                break
            path_bytes.append(data[path_at:path_end])
            contents.append(data[content_at:content_end] if content_length >= 0 else None)
            numbers.append(data[content_end:end])
            at = end
    except struct.error:
        pass
    return NodeBatch(path_bytes, _decoded(path_bytes), contents, numbers), at, is_end


def _decoded(path_bytes: list[bytes]) -> list[str]:
    paths = b"\0".join(path_bytes).decode("utf-8", "replace").split("\0")
    if len(paths) != len(path_bytes):  # there is none at all, or one that cannot be: with a zero in it
        paths = [path.decode("utf-8", "replace") for path in path_bytes]
    return [path or "/" for path in paths] if "" in paths else paths


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
