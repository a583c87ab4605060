"""Snapshots as streams of bytes (§6): sessions, ACLs, nodes, and seals with checksums; the digest of a tree (§2.7).

Rules of this module:
  - no file is opened here: a reader gets an object with `read`, a writer yields bytes;
  - a writer may be driven slowly while the tree changes: the snapshot is then fuzzy, as the real server's are, and is
    completed by replaying the log from the zxid in its name;
  - a snapshot is valid as a whole: after `damage` nothing that was read may be used;
  - a *record* is a node's data and its packed numbers. Nodes are decoded from records only when needed; questions about
    all nodes (newest zxid, any ephemerals) are answered from columns;
  - a digest is the sum of the CRC32 of path, data and numbers of each node, modulo 2^64; nodes below /zookeeper/ do not
    count, because quota statistics differ between servers.

Source: FileSnap, DataTree.serialize, DataTree.serializeNode, DataNode.serialize, StatPersisted,
ReferenceCountedACLCache.serialize, SnapStream, DigestCalculator, DataTree's NodeHashMapImpl.
"""

from __future__ import annotations

import struct
import sys
from array import array
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar
from zlib import adler32, crc32

from simzk.jvm.texts import decode_text
from simzk.zookeeper.acl import UNKNOWN_ACL, has_null
from simzk.zookeeper.jute import ACLS, BUFFER, INT, LONG, TEXT, MalformedError, packed
from simzk.zookeeper.persistence.files import Damage, DamageKind
from simzk.zookeeper.persistence.records import DIGEST_VERSION
from simzk.zookeeper.persistence.transaction_log import MAX_ENTRY_BYTES
from simzk.zookeeper.requests import ACL, OPEN_ACL
from simzk.zookeeper.znode import Znode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from simzk.zookeeper.persistence.files import Readable
    from simzk.zookeeper.tree import DataTree

Record: TypeAlias = "tuple[bytes | None, bytes]"
"""Data of a node, and its numbers packed by `NUMBERS`."""

NUMBERS = Struct(">qqqqqiiiqq")
"""ACL's id, czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral owner, pzxid."""
_TIMES_AND_VERSIONS = ("ctime_ms", "mtime_ms", "version", "cversion", "aversion", "ephemeral_owner")
_stored_numbers = attrgetter("czxid", "mzxid", *_TIMES_AND_VERSIONS, "pzxid")
OPEN_ACL_ID = -1
_UNKNOWN_ACL_ID = 0
_FIRST_NODES = 5  # of a new tree, the root counted twice
_WITHOUT_ACL = frozenset(("/", "/zookeeper", "/zookeeper/quota"))

_int_at = Struct(">i").unpack_from

_OWNER, _NO_OWNER = slice(-16, -8), bytes(8)

# With four bytes behind each, the numbers of a node are nine 8-byte words; fields behind the three 32-bit versions are
# off by half a word, so they are read from an array shifted by four bytes.
_FILLER = bytes(4)
_WORDS = (NUMBERS.size + len(_FILLER)) // 8
_CZXID, _MZXID = 1, 2
_OWNER_AFTER_4_BYTES, _PZXID_AFTER_4_BYTES = 6, 7


class NodeBatch(NamedTuple):
    """Nodes of a snapshot in its order, as columns of equal length.

    Args:
        path_bytes: paths as in the file; the root's is empty.
        paths: paths as text; the root's is "/".
        data: data, or None for null.
        numbers: packed numbers.
    """

    path_bytes: list[bytes]
    paths: list[str]
    data: list[bytes | None]
    numbers: list[bytes]

    def newest_zxid(self) -> int:
        """Return the highest zxid in the numbers of the nodes."""
        words, shifted = self._words(0), self._words(len(_FILLER))
        columns = words[_CZXID::_WORDS], words[_MZXID::_WORDS], shifted[_PZXID_AFTER_4_BYTES::_WORDS]
        return max(max(column, default=0) for column in columns)

    def has_owned(self) -> bool:
        """Return whether any node is an ephemeral, a container or a TTL node."""
        return any(self.owners())

    def owners(self) -> Iterable[int]:
        """Return the stored ephemeral owner of each node."""
        return self._words(len(_FILLER))[_OWNER_AFTER_4_BYTES::_WORDS]

    def bytes_behind(self, place: int) -> int:
        """Return the number of bytes in the file of the nodes behind one."""
        assert place < len(self.paths) == len(self.data) == len(self.numbers)
        rest = slice(place + 1, None)
        texts = [*self.path_bytes[rest], *(data or b"" for data in self.data[rest])]
        return sum(4 + len(text) for text in texts) + NUMBERS.size * len(self.numbers[rest])

    def _words(self, shift: int) -> array[int]:
        text = _FILLER.join((*self.numbers, b""))[shift:]
        words = array("q", text[: len(text) // 8 * 8])
        if sys.byteorder == "little":
            words.byteswap()
        assert len(words) == max(_WORDS * len(self.numbers) - (shift > 0), 0), "a node has as many words as any other"
        return words


def is_owned(record: Record) -> bool:
    """Return whether a node is an ephemeral, a container or a TTL node."""
    assert len(record[1]) == NUMBERS.size
    return record[1][_OWNER] != _NO_OWNER


def make_node(data: bytes | None, numbers: bytes, acls: Mapping[int, tuple[ACL, ...]]) -> Znode:
    """Decode the node of a record, without children; `acls` are the snapshot's by id."""
    acl_id, czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, owner, pzxid = NUMBERS.unpack(numbers)
    # A fuzzy snapshot may have the id of a later ACL, which the log sets again.
    node = Znode(data, acls.get(acl_id, UNKNOWN_ACL), owner, czxid, ctime_ms)
    node.mzxid, node.pzxid, node.mtime_ms = mzxid, pzxid, mtime_ms
    node.version, node.cversion, node.aversion = version, cversion, aversion
    return node


def scan(data: bytes, at: int) -> tuple[NodeBatch, int, bool]:
    """Return the whole nodes from an offset on.

    Args:
        data: part of a snapshot.
        at: offset of a node or of the end of all nodes.

    Returns:
        The nodes, the offset behind them, and whether the end of all nodes begins there.
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
    assert at <= size, "only whole nodes are returned"
    assert len(path_bytes) == len(contents) == len(numbers)
    return NodeBatch(path_bytes, _decoded(path_bytes), contents, numbers), at, is_end


def _decoded(path_bytes: list[bytes]) -> list[str]:
    paths = decode_text(b"\0".join(path_bytes)).split("\0")
    if len(paths) != len(path_bytes):  # no path at all, or an invalid one with a zero
        paths = list(map(decode_text, path_bytes))
    assert len(paths) == len(path_bytes)
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
    """Digest of the tree after the transaction `zxid`, when the snapshot was finished."""

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
    """Encode a snapshot of a tree in pieces: a head, one piece per node, a tail.

    Args:
        tree: tree, which is walked while the pieces are consumed.
        sessions: ids and timeouts in ms.
        last: function called after all nodes, for the last applied zxid and the tree's digest after it.
        digest: whether to write the section of the digest.
        last_zxid: whether to write the section of the last zxid.

    Yields:
        The bytes of the file, in order.
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
    # Only the first nodes have no ACL of their own; an open one that a client set has an id, as any other.
    ids = {acl: acl_id for acl_id, acl in enumerate(tree.acls, 1) if acl is not UNKNOWN_ACL}
    assert OPEN_ACL not in ids, "the open ACL is not counted by a tree"
    if len(tree) > _FIRST_NODES:
        ids[OPEN_ACL] = len(tree.acls) + 1
    yield INT.encode(len(ids)) + b"".join(LONG.encode(acl_id) + ACLS.encode(acl) for acl, acl_id in ids.items())
    for path, node in tree.walk():
        # An ACL added after the ids were assigned is set again by the log.
        is_without = node.acl is OPEN_ACL and path in _WITHOUT_ACL
        acl_id = OPEN_ACL_ID if is_without else ids.get(node.acl, OPEN_ACL_ID)
        if node.acl is UNKNOWN_ACL:
            acl_id = _UNKNOWN_ACL_ID
        numbers = NUMBERS.pack(acl_id, *_stored_numbers(node))
        yield TEXT.encode("" if path == "/" else path) + BUFFER.encode(node.data) + numbers
    yield TEXT.encode("/")  # ends the nodes


# Reading


class _BrokenError(Exception):
    """Damage found while reading; the reader turns it into its `damage`."""

    def __init__(self, kind: DamageKind) -> None:
        self.kind = kind
        super().__init__(kind)


class SnapshotReader:
    """Reader of one snapshot. Iteration yields paths and nodes, parents first, the root as "/".

    Args:
        stream: snapshot from its first byte on; it is read in chunks and not closed.
        max_item_bytes: longest accepted node, path and data together.

    Attributes:
        sessions: timeout in ms by session id, available at once.
        acls: ACLs by the id that nodes have.
        digest: digest, available after the iteration; None in snapshots before 3.6.
        last_zxid: last zxid applied before the snapshot was finished, available after the iteration; None before 3.9.
        damage: damage that makes the whole snapshot invalid, available after the iteration; None without.
        is_unbootable: whether an ACL is null or has a null id, on which the real server fails.

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
        self.is_unbootable: bool = False
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
        """Yield the nodes as records, in batches that were read together."""
        if self.damage is None:
            try:
                is_end = False
                while not is_end:
                    batch, self._at, is_end = scan(self._buffer, self._at)
                    if batch.paths or is_end:
                        yield batch
                    else:
                        self._read_on()
                self._next(TEXT.read)
                self._read_tail()
            except _BrokenError as broken:
                self._stop(broken)

    @property
    def offset(self) -> int:
        """Return the number of bytes that were read and decoded."""
        return self._dropped + self._at

    def _stop(self, broken: _BrokenError) -> None:
        assert self.damage is None, "nothing is read behind a damage"
        self.damage = Damage(broken.kind, self.offset, None)

    def _read_head(self) -> None:
        magic, _, _ = self._next(_FILE_HEADER.read)
        if magic != _MAGIC:
            self._at = 0
            raise _BrokenError(DamageKind.FOREIGN)
        for _ in range(self._next(INT.read)):
            session_id, timeout_ms = self._next(_SESSION.read)
            self.sessions[session_id] = timeout_ms
        for _ in range(self._next(INT.read)):
            acl_id = self._next(LONG.read)
            acl = self._next(ACLS.read)
            if acl is None:
                self.is_unbootable = True
            elif acl_id != OPEN_ACL_ID:
                self.acls[acl_id] = acl
        if any(map(has_null, self.acls.values())):
            self.is_unbootable = True

    def _read_tail(self) -> None:
        """Read seals and the sections of later versions; the remaining length says which are there."""
        self._check_seal()
        left = self._bytes_left()
        if left >= _DIGEST_BYTES + _SEAL_BYTES:
            self.digest = self._next(_DIGEST.read)
            self._check_seal()
            left = self._bytes_left()
        if left:
            self.last_zxid = self._next(LONG.read)
            self._check_seal()
        if self._bytes_left():
            raise _BrokenError(DamageKind.RECORD)

    def _check_seal(self) -> None:
        self._drop_consumed()
        checksum = self._checksum
        if self._next(_SEAL.read) != (checksum, 1, b"/"):
            raise _BrokenError(DamageKind.CHECKSUM)

    def _next(self, decode: Callable[[bytes, int], tuple[_T, int]]) -> _T:
        """Decode the next item; read more until it is whole."""
        while True:
            try:
                item, end = decode(self._buffer, self._at)
                assert end > self._at, "an item has at least one byte"
                if end <= len(self._buffer):
                    self._at = end
                    return item
            except (struct.error, MalformedError):
                # Malformed or only incomplete: these errors do not tell.
                pass
            self._read_on()

    def _read_on(self) -> None:
        """Read more of an incomplete item; raise at the end of the stream or if the item is too long."""
        if not self._read_more():
            raise _BrokenError(DamageKind.TORN)
        if len(self._buffer) > self._max_item_bytes + _CHUNK_BYTES:
            raise _BrokenError(DamageKind.LENGTH)

    def _drop_consumed(self) -> None:
        """Add the consumed bytes to the checksum and drop them."""
        assert self._at <= len(self._buffer)
        self._checksum = adler32(self._buffer[: self._at], self._checksum)
        self._dropped += self._at
        self._buffer = self._buffer[self._at :]
        self._at = 0

    def _read_more(self) -> bool:
        self._drop_consumed()
        chunk = self._stream.read(_CHUNK_BYTES)
        self._buffer += chunk
        return bool(chunk)

    def _bytes_left(self) -> int:
        """Return the number of bytes left, or a number beyond any tail if there are many."""
        while len(self._buffer) - self._at <= _LONGEST_TAIL_BYTES and self._read_more():
            pass
        return len(self._buffer) - self._at


_digest_layout = Struct(">qqqqqiiiq")
_digested_numbers = attrgetter("czxid", "mzxid", "pzxid", *_TIMES_AND_VERSIONS)
_MASK = 0xFFFFFFFFFFFFFFFF
_UNCOUNTED = "/zookeeper/"
_LONG_DATA_BYTES = 4096  # their CRC32 takes longer than to look for it

_in_file = Struct(">8x16s36s8s")
"""Layout of the same numbers in a snapshot: behind the ACL's id, pzxid last."""


def node_digest(path: str, node: Znode) -> int:
    """Return the digest of one node; the path of the root is "/"."""
    if path.startswith(_UNCOUNTED):
        return 0
    return crc32(_digest_layout.pack(*_digested_numbers(node)), _crc_of_content(path, node.data))


def _crc_of_content(path: str, data: bytes | None) -> int:
    """Return the CRC32 of path and data, with which that of a node begins."""
    return crc32(data or b"", crc32(b"" if path == "/" else path.encode("utf-8", "replace")))


def batch_digests(batch: NodeBatch) -> list[int]:
    """Return the digest of each node of a snapshot batch with valid paths."""
    texts = zip(batch.path_bytes, batch.data, _in_file.iter_unpack(b"".join(batch.numbers)), strict=True)
    parts = [crc32(b"".join((path, data or b"", zxids, pzxid, rest))) for path, data, (zxids, rest, pzxid) in texts]
    if _UNCOUNTED in "\0".join(batch.paths):
        parts = [0 if path.startswith(_UNCOUNTED) else part for path, part in zip(batch.paths, parts, strict=True)]
    assert len(parts) == len(batch.paths), "each node has a digest"
    return parts


class TreeDigest:
    """Digest of a tree, updated as transactions are applied.

    The CRC32 of each node is stored, so that a changed node is subtracted with its old value; so is that of path and
    data if the data are long, because each change of a child changes the numbers of its parent.

    Args:
        tree: the tree; it is read now, and by `refresh` where it changed.
        known: digests of nodes that were computed before, by path.
        others: all other nodes; None for all nodes of the tree.

    >>> from simzk.zookeeper.tree import DataTree
    >>> TreeDigest(DataTree()).value
    1371985504
    """

    __slots__ = ("_contents", "_parts", "_tree", "value")

    def __init__(
        self, tree: DataTree, known: Mapping[str, int] | None = None, others: Iterable[tuple[str, Znode]] | None = None
    ) -> None:
        self._tree = tree
        self._contents: dict[str, tuple[bytes, int]] = {}
        self._parts: dict[str, int] = {} if known is None else dict(known)
        nodes = tree.in_any_order() if others is None else others
        self._parts.update((path, node_digest(path, node)) for path, node in nodes)
        self.value: int = sum(self._parts.values()) & _MASK

    def refresh(self, paths: Iterable[str]) -> int:
        """Update the digest after the nodes at these paths changed (`transactions.touched_paths`), and return it."""
        parts, get = self._parts, self._tree.get
        change = 0
        for path in dict.fromkeys(paths):  # a multi may name a parent thousands of times
            node = get(path)
            before = parts.get(path, 0)
            if node is None:
                parts.pop(path, None)
                self._contents.pop(path, None)
                change -= before
            else:
                now = parts[path] = self._digest_of(path, node)
                change += now - before
        self.value = (self.value + change) & _MASK
        return self.value

    def _digest_of(self, path: str, node: Znode) -> int:
        data = node.data
        if data is None or len(data) < _LONG_DATA_BYTES or path.startswith(_UNCOUNTED):
            return node_digest(path, node)
        content = self._contents.get(path)
        if content is None or content[0] is not data:
            content = self._contents[path] = data, _crc_of_content(path, data)
        return crc32(_digest_layout.pack(*_digested_numbers(node)), content[1])

    def check(self) -> None:
        """Assert that the digest is that of the tree."""
        fresh = TreeDigest(self._tree)
        assert self._parts == fresh._parts
        assert self.value == fresh.value
