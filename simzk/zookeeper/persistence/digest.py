"""The digest of a tree: a sum over its nodes, kept as transactions are applied (§2.7).

Rules of this module:
  - the sum of CRC32 over path, data and numbers of each node, modulo 2^64; a node leaves the sum as it entered it, so
    each node's part is remembered;
  - what stands under /zookeeper/ does not count: quota statistics differ between servers.

Source: DigestCalculator, DataTree's NodeHashMapImpl.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.zookeeper.persistence.lazy_nodes import SleepingNodes
    from simzk.zookeeper.persistence.snapshot import NodeBatch
    from simzk.zookeeper.tree import DataTree
    from simzk.zookeeper.znode import Znode

_numbers = Struct(">qqqqqiiiq")
_MASK = 0xFFFFFFFFFFFFFFFF
_UNCOUNTED = "/zookeeper/"

_in_file = Struct(">8x16s36s8s")
"""The same numbers as a snapshot has them: behind the ACL's id, pzxid last."""


def node_digest(path: str, node: Znode) -> int:
    """One node's part of the sum; `path` of the root is "/"."""
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
    """The same of nodes as they stand in a snapshot; their paths are valid."""
    texts = zip(batch.path_bytes, batch.data, _in_file.iter_unpack(b"".join(batch.numbers)), strict=True)
    parts = [crc32(b"".join((path, data or b"", zxids, pzxid, rest))) for path, data, (zxids, rest, pzxid) in texts]
    if _UNCOUNTED in "\0".join(batch.paths):
        parts = [0 if path.startswith(_UNCOUNTED) else part for path, part in zip(batch.paths, parts, strict=True)]
    return parts


class TreeDigest:
    """The digest of one tree.

    Args:
        tree: read now, and again wherever `refresh` says that it changed.
        nodes: of the tree, where most of them sleep: they go on to.

    >>> from simzk.zookeeper.tree import DataTree
    >>> TreeDigest(DataTree()).value
    1371985504
    """

    __slots__ = ("_parts", "_tree", "value")

    def __init__(self, tree: DataTree, nodes: SleepingNodes | None = None) -> None:
        self._tree = tree
        self._parts = {} if nodes is None else dict(nodes.digests)
        awake = tree.in_any_order() if nodes is None else nodes.awake()
        self._parts.update((path, node_digest(path, node)) for path, node in awake)
        self.value: int = sum(self._parts.values()) & _MASK

    def refresh(self, paths: Iterable[str]) -> int:
        """Take in what changed.

        Args:
            paths: of all nodes that were made, changed or deleted since the last time (`transactions.touched_paths`).

        Returns:
            The digest now.
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
        """Assert that the digest is the tree's."""
        fresh = TreeDigest(self._tree)
        assert self._parts == fresh._parts
        assert self.value == fresh.value
