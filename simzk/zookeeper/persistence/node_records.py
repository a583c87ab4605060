"""The nodes of a snapshot as they stand in it, many at a time: path, data, numbers (§6).

Rules of this module:
  - a *record* is a node's data and its numbers. Whoever needs a node makes it of its record, and who does not is spared
    the time; what is asked of all nodes (what is the newest zxid, is any of them owned) is asked of columns;
  - a scan takes the nodes that are whole, and stops before what is not: whether more of it comes is the reader's to
    find out.

Source: DataTree.serializeNode, DataNode.serialize, StatPersisted.
"""

from __future__ import annotations

import struct
import sys
from array import array
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from simzk.tuples import NamedTuple
from simzk.zookeeper.jute import BUFFER
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.znode import Znode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.zookeeper.requests import ACL

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
