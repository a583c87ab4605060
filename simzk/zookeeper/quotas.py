"""Quotas: limits that clients write below /zookeeper/quota, and totals that the server writes there (§2.5).

Rules of this module:
  - a path has a quota from the creation of its zookeeper_limits node to its deletion;
  - only the deepest path with a quota above a node counts; "/" never does;
  - totals are rewritten in place, without version, zxid or watch; what the text grows by is not in the size of all data
    that the server reports;
  - when a snapshot is loaded, all totals are counted anew, those of a path with the quotas below it.

Source: DataTree.updateQuotaStat, ZooKeeperServer.checkQuota, org.apache.zookeeper.StatsTrack.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from simzk.jvm.numbers import parse_long, wrapped_long
from simzk.jvm.texts import decode_text
from simzk.zookeeper.znode import PathSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from simzk.zookeeper.znode import Znode

    Find = Callable[[str], Znode | None]

QUOTA_ROOT = "/zookeeper/quota"
LIMITS_NAME = "zookeeper_limits"
STATS_NAME = "zookeeper_stats"

COUNT, BYTES = "count", "bytes"

_PAIRS = re.compile("[,;]+")
_EQUALS = re.compile("=")


class UnreadableError(Exception):
    """Text that the real server cannot parse as a quota."""


def read_totals(data: bytes | None) -> dict[str, int]:
    """Return the numbers of a limits or stats node; an absent number means -1.

    Raises:
        UnreadableError: the data is null, a pair has no value, or a value is no 64-bit number (StatsTrack).

    >>> read_totals(b"count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=4")
    {'count': -1, 'bytes': -1, 'byteHardLimit': 20, 'countHardLimit': 4}
    """
    if data is None:
        raise UnreadableError
    text = decode_text(data)
    return dict(map(_read_pair, _split(_PAIRS, text))) if text else {}


def _split(separator: re.Pattern[str], text: str) -> list[str]:
    """Split as Java's `split` does: without empty parts at the end, unless nothing was split."""
    parts = separator.split(text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if parts[0] or len(parts) > 1 or separator.search(text) is None else []


def _read_pair(pair: str) -> tuple[str, int]:
    # The real server writes "bytes=-1=" to hide the hard limits behind it from old readers.
    parts = _split(_EQUALS, pair)
    if len(parts) < 2:
        raise UnreadableError
    key, number = parts[:2]
    value = parse_long(number) if number else -1
    if value is None:
        raise UnreadableError
    return key, value


def write_totals(totals: Mapping[str, int]) -> bytes:
    """Return the data of a stats node (StatsTrack.toString).

    >>> write_totals({"count": 1, "x": 3})
    b'count=1,bytes=-1=;x=3'
    """
    others = sorted(totals.keys() - {COUNT, BYTES}, key=lambda key: key.encode("utf-16-be"))
    text = f"{COUNT}={totals.get(COUNT, -1)},{BYTES}={totals.get(BYTES, -1)}"
    return (text + ("=" if others else "") + "".join(f";{key}={totals[key]}" for key in others)).encode()


class Quotas:
    """Paths of one tree with a quota.

    Attributes:
        armed: the paths.
        unreported_bytes: bytes by which rewritten totals have grown since a snapshot was loaded.
    """

    __slots__ = ("armed", "find", "unreported_bytes")

    def __init__(self, find: Find) -> None:
        self.find: Find = find
        self.armed: PathSet = PathSet()
        self.unreported_bytes: int = 0

    def prefix_of(self, path: str) -> str | None:
        """Return the deepest path with a quota at or above `path`."""
        armed = self.armed.along(path)
        assert not armed or path.startswith(armed[-1]), "a quota is for its path and what is below"
        return armed[-1] if armed else None

    def node_created(self, parent_path: str, name: str) -> None:
        """Add a quota, or compute its totals, if the created node is a limits or stats node."""
        self.node_planted(parent_path, name)
        if name == STATS_NAME and parent_path.startswith(QUOTA_ROOT):
            self._recount(parent_path[len(QUOTA_ROOT) :])

    def node_planted(self, parent_path: str, name: str) -> None:
        """Add a quota if the restored node is a limits node; its totals are restored with it."""
        if name == LIMITS_NAME and parent_path.startswith(QUOTA_ROOT + "/"):
            self.armed.add(parent_path[len(QUOTA_ROOT) :])

    def load(self) -> None:
        """Find all quotas and count their totals anew, after a snapshot was loaded (DataTree.setupQuota)."""
        self.armed = PathSet()
        self.unreported_bytes = 0
        for path, node in self._walk(QUOTA_ROOT):
            limited = path[len(QUOTA_ROOT) :].partition(f"/{LIMITS_NAME}")[0]
            if not node.child_count and path.endswith(f"/{LIMITS_NAME}") and limited:
                self._recount(limited)
                self.armed.add(limited)

    def _recount(self, path: str) -> None:
        """Count the totals of the quota at `path`, if it has a stats node."""
        stats = self.find(f"{QUOTA_ROOT}{path}/{STATS_NAME}")
        if stats is not None:
            sizes = [len(node.data or b"") for _, node in self._walk(path)]
            self._rewrite(stats, {COUNT: len(sizes), BYTES: sum(sizes)})

    def _walk(self, path: str) -> Iterator[tuple[str, Znode]]:
        """Yield the nodes at `path` and below, parents first; the root is ""."""
        pending = [path]
        while pending:
            at = pending.pop()
            node = self.find(at)
            if node is not None:
                pending.extend(f"{at}/{name}" for name in reversed(node.child_names()))
                yield at, node

    def _rewrite(self, stats: Znode, totals: Mapping[str, int]) -> None:
        assert totals.keys() >= {COUNT, BYTES}, "both totals are known"
        data = write_totals(totals)
        self.unreported_bytes += len(data) - len(stats.data or b"")
        stats.data = data

    def node_deleted(self, parent_path: str, name: str) -> None:
        """Remove a quota if the deleted node was its limits node."""
        if name == LIMITS_NAME and parent_path.startswith(QUOTA_ROOT + "/"):
            self.armed.discard(parent_path[len(QUOTA_ROOT) :])

    def count(self, path: str, nodes: int, size: int) -> None:
        """Add to the totals of the quota at `path`; totals that cannot be parsed stay (the real server fails there)."""
        assert nodes in (-1, 0, 1), "one node is created, changed or deleted at a time"
        prefix = self.prefix_of(path)
        stats = None if prefix is None else self.find(f"{QUOTA_ROOT}{prefix}/{STATS_NAME}")
        if stats is not None:
            with suppress(UnreadableError):
                totals = read_totals(stats.data)
                for key, change in ((COUNT, nodes), (BYTES, size)):
                    totals[key] = wrapped_long(totals.get(key, -1) + change)
                self._rewrite(stats, totals)

    def would_exceed(self, path: str, nodes: int, size: int) -> bool:
        """Return whether more nodes and bytes at `path` would exceed a hard limit.

        Raises:
            UnreadableError: the limits or totals cannot be parsed.
        """
        assert nodes in (0, 1), "a deletion exceeds no quota"
        prefix = self.prefix_of(path)
        if prefix is None:
            return False
        limits_node = self.find(f"{QUOTA_ROOT}{prefix}/{LIMITS_NAME}")
        stats_node = self.find(f"{QUOTA_ROOT}{prefix}/{STATS_NAME}")
        limits = {} if limits_node is None else read_totals(limits_node.data)
        limited = [
            (change, limits.get(hard, -1), total)
            for change, hard, total in ((nodes, "countHardLimit", COUNT), (size, "byteHardLimit", BYTES))
            if change != 0 and max(limits.get(hard, -1), limits.get(total, -1)) > -1
        ]
        if not limited or stats_node is None:
            return False
        totals = read_totals(stats_node.data)
        return any(wrapped_long(totals.get(total, -1) + change) > limit > -1 for change, limit, total in limited)
