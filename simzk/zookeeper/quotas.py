"""Quotas: limits that clients write under /zookeeper/quota, totals that the server keeps there (§2.5).

Rules of this module:
  - a path is armed by the creation of its zookeeper_limits node, disarmed by its deletion;
  - only the deepest armed path above a node counts; "/" never does;
  - the totals are rewritten in place: no version, no zxid, no watch.

Source: DataTree.updateQuotaStat, ZooKeeperServer.checkQuota, org.apache.zookeeper.StatsTrack.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simzk.zookeeper.paths import ancestors_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.znode import Znode

    Find = Callable[[str], Znode | None]

QUOTA_ROOT = "/zookeeper/quota"
LIMITS_NAME = "zookeeper_limits"
STATS_NAME = "zookeeper_stats"

_PAIRS = "[,;]+"
_NUMBER = "[+-]?[0-9]+"


def read_totals(data: bytes | None) -> dict[str, int]:
    """The numbers in a limits or stats node; what is absent is left out and means -1.

    >>> read_totals(b"count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=4")
    {'count': -1, 'bytes': -1, 'byteHardLimit': 20, 'countHardLimit': 4}
    """
    totals: dict[str, int] = {}
    for pair in re.split(_PAIRS, (data or b"").decode("utf-8", "replace")):
        key, _, number = pair.partition("=")
        # "bytes=-1=" is how the real server keeps old readers from the hard limits behind it.
        number = number.split("=")[0]
        if key:
            totals[key] = int(number) if re.fullmatch(_NUMBER, number) else -1
    return totals


def write_totals(count: int, size: int) -> bytes:
    """The text of a stats node."""
    return b"count=%d,bytes=%d" % (count, size)


class Quotas:
    """The armed paths of one tree."""

    __slots__ = ("armed", "find")

    def __init__(self, find: Find) -> None:
        self.find = find
        self.armed: dict[str, None] = {}

    def prefix_of(self, path: str) -> str | None:
        """The deepest armed path at or above `path`."""
        for candidate in (path, *ancestors_of(path)):
            if candidate in self.armed:
                return candidate
        return None

    def node_created(self, parent_path: str, name: str) -> None:
        """Arm a path, or total it up, if the node just created says so."""
        self.node_planted(parent_path, name)
        if name == STATS_NAME and parent_path.startswith(QUOTA_ROOT):
            node = self.find(f"{parent_path}/{STATS_NAME}")
            assert node is not None, "the stats node was just created"
            node.data = write_totals(*self._total(parent_path[len(QUOTA_ROOT) :]))

    def node_planted(self, parent_path: str, name: str) -> None:
        """Arm a path if the node says so; totals were kept along with it."""
        if name == LIMITS_NAME and parent_path.startswith(QUOTA_ROOT + "/"):
            self.armed[parent_path[len(QUOTA_ROOT) :]] = None

    def node_deleted(self, parent_path: str, name: str) -> None:
        """Disarm a path if the node just deleted held its limits."""
        if name == LIMITS_NAME and parent_path.startswith(QUOTA_ROOT):
            self.armed.pop(parent_path[len(QUOTA_ROOT) :], None)

    def count(self, path: str, nodes: int, size: int) -> None:
        """Add to the totals of the quota that holds at `path`."""
        prefix = self.prefix_of(path)
        stats = None if prefix is None else self.find(f"{QUOTA_ROOT}{prefix}/{STATS_NAME}")
        if stats is not None:
            totals = read_totals(stats.data)
            stats.data = write_totals(totals.get("count", -1) + nodes, totals.get("bytes", -1) + size)

    def would_exceed(self, path: str, nodes: int, size: int) -> bool:
        """Whether a hard limit forbids so many more nodes and bytes at `path`."""
        prefix = self.prefix_of(path)
        if prefix is None:
            return False
        limits_node = self.find(f"{QUOTA_ROOT}{prefix}/{LIMITS_NAME}")
        stats_node = self.find(f"{QUOTA_ROOT}{prefix}/{STATS_NAME}")
        if limits_node is None or stats_node is None:
            return False
        limits, totals = read_totals(limits_node.data), read_totals(stats_node.data)
        return any(
            change != 0 and limits.get(limit, -1) > -1 and totals.get(total, -1) + change > limits[limit]
            for change, limit, total in ((nodes, "countHardLimit", "count"), (size, "byteHardLimit", "bytes"))
        )

    def _total(self, path: str) -> tuple[int, int]:
        """The number of nodes and bytes at `path` and below, itself included."""
        count = size = 0
        pending = [path]
        while pending:
            at = pending.pop()
            node = self.find(at)
            if node is not None:
                count += 1
                size += len(node.data or b"")
                pending.extend(f"{at}/{name}" for name in node.child_names())
        return count, size
