"""Digest of a tree: a sum over its nodes, updated as transactions are applied (§2.7).

Rules of this module:
  - the digest is the sum of the CRC32 of path, data and numbers of each node, modulo 2^64. The CRC32 of each node is
    stored, so that a changed node is subtracted with its old value;
  - nodes below /zookeeper/ do not count: quota statistics differ between servers.

Source: DigestCalculator, DataTree's NodeHashMapImpl.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simzk.zookeeper.persistence.snapshot import NodeBatch
    from simzk.zookeeper.tree import DataTree
    from simzk.zookeeper.znode import Znode

_numbers = Struct(">qqqqqiiiq")
_MASK = 0xFFFFFFFFFFFFFFFF
_UNCOUNTED = "/zookeeper/"

_in_file = Struct(">8x16s36s8s")
"""Layout of the same numbers in a snapshot: behind the ACL's id, pzxid last."""


def node_digest(path: str, node: Znode) -> int:
    """Return the digest of one node; the path of the root is "/"."""
    if path.startswith(_UNCOUNTED):
        return 0
    path_and_data = crc32(node.data or b"", crc32(b"" if path == "/" else path.encode("utf-8", "replace")))
    return crc32(
        _numbers.pack(
            node.czxid,
            node.mzxid,
            node.pzxid,
            node.ctime_ms,
            node.mtime_ms,
            node.version,
            node.cversion,
            node.aversion,
            node.ephemeral_owner,
        ),
        path_and_data,
    )


def batch_digests(batch: NodeBatch) -> list[int]:
    """Return the digest of each node of a snapshot batch with valid paths."""
    texts = zip(batch.path_bytes, batch.data, _in_file.iter_unpack(b"".join(batch.numbers)), strict=True)
    parts = [crc32(b"".join((path, data or b"", zxids, pzxid, rest))) for path, data, (zxids, rest, pzxid) in texts]
    if _UNCOUNTED in "\0".join(batch.paths):
        parts = [0 if path.startswith(_UNCOUNTED) else part for path, part in zip(batch.paths, parts, strict=True)]
    return parts


class TreeDigest:
    """Digest of a tree, updated as the tree changes.

    Args:
        tree: the tree; it is read now, and by `refresh` where it changed.
        known: digests of nodes that were computed before, by path.
        others: all other nodes; None for all nodes of the tree.

    >>> from simzk.zookeeper.tree import DataTree
    >>> TreeDigest(DataTree()).value
    1371985504
    """

    __slots__ = ("_parts", "_tree", "value")

    def __init__(
        self,
        tree: DataTree,
        known: Mapping[str, int] | None = None,
        others: Iterable[tuple[str, Znode]] | None = None,
    ) -> None:
        self._tree = tree
        self._parts: dict[str, int] = {} if known is None else dict(known)
        nodes = tree.in_any_order() if others is None else others
        self._parts.update((path, node_digest(path, node)) for path, node in nodes)
        self.value: int = sum(self._parts.values()) & _MASK

    def refresh(self, paths: Iterable[str]) -> int:
        """Update the digest after a change.

        Args:
            paths: paths of all created, changed and deleted nodes (`transactions.touched_paths`).

        Returns:
            The new digest.
        """
        parts, get = self._parts, self._tree.get
        change = 0
        for path in paths:
            node = get(path)
            before = parts.get(path, 0)
            if node is None:
                parts.pop(path, None)
                change -= before
            else:
                now = parts[path] = node_digest(path, node)
                change += now - before
        self.value = (self.value + change) & _MASK
        return self.value

    def check(self) -> None:
        """Assert that the digest is that of the tree."""
        fresh = TreeDigest(self._tree)
        assert self._parts == fresh._parts
        assert self.value == fresh.value
