"""Removal of empty containers and of expired TTL nodes (§2.3; ContainerManager).

Rules of this module:
  - sweeps are at multiples of the interval from the server's start; a sweep is a deadline only while the tree has
    containers or TTL nodes;
  - `Sweeper.due` decides, the server makes the transactions. All removals of a sweep have one time; the real server
    spreads them 6 ms apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.znode import ttl_of

if TYPE_CHECKING:
    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.tree import DataTree


class Sweeper:
    """Schedule of the sweeps of one server, and the nodes that a sweep removes."""

    __slots__ = ("_interval_ms", "_start_ms", "_tree", "_unused_ms", "next_ms")

    def __init__(self, tree: DataTree, config: ServerConfig, start_ms: int) -> None:
        self._tree = tree
        self._unused_ms = config.container_unused_ms
        self._interval_ms = config.container_check_interval_ms
        self._start_ms = start_ms
        self.next_ms: int | None = None

    def note(self, now_ms: int) -> None:
        """Schedule the next sweep if the tree has containers or TTL nodes."""
        if self.next_ms is None and (self._tree.containers or self._tree.ttls):
            self.next_ms = self._after(now_ms)

    def _after(self, now_ms: int) -> int:
        return now_ms + self._interval_ms - (now_ms - self._start_ms) % self._interval_ms

    def due(self, now_ms: int) -> list[str]:
        """Return the paths that a due sweep removes, and schedule the next sweep."""
        if self.next_ms is None or now_ms < self.next_ms:
            return []
        tree = self._tree
        self.next_ms = self._after(now_ms) if tree.containers or tree.ttls else None
        due = []
        for path in tree.containers:
            node = tree.get(path)
            if node is None or node.child_count:
                continue
            # A container that never had a child is kept, or kept for maxNeverUsedIntervalMs.
            if node.cversion > 0 or 0 != self._unused_ms < now_ms - node.mtime_ms:
                due.append(path)
        for path in tree.ttls:
            node = tree.get(path)
            ttl_ms = None if node is None else ttl_of(node.ephemeral_owner)
            if node is not None and ttl_ms is not None and not node.child_count and now_ms - node.mtime_ms > ttl_ms:
                due.append(path)
        return due
