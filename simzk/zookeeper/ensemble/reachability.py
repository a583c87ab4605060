"""Which servers of an ensemble reach each other: partitions and pauses between running servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Reachability:
    """Partitions and pauses of servers, by id; at first all reach each other.

    >>> reachability = Reachability([1, 2, 3])
    >>> reachability.cut([1])
    >>> reachability.reaches(1, 2), reachability.reaches(2, 3), reachability.cut_off
    (False, True, frozenset({1}))
    """

    def __init__(self, server_ids: Iterable[int]) -> None:
        self._sides = dict.fromkeys(server_ids, 0)
        self._sides_made = 0
        self.paused: set[int] = set()

    def cut(self, server_ids: Iterable[int]) -> None:
        """Partition servers from all others; they reach each other."""
        self._sides_made += 1
        self._sides.update(dict.fromkeys(server_ids, self._sides_made))

    def heal(self, server_ids: Iterable[int]) -> None:
        """End the partitions of servers."""
        self._sides.update(dict.fromkeys(server_ids, 0))

    def reaches(self, server_id: int, other_id: int) -> bool:
        """Return whether two servers reach each other while both run."""
        if server_id in self.paused or other_id in self.paused:
            return False
        return self._sides[server_id] == self._sides[other_id]

    @property
    def cut_off(self) -> frozenset[int]:
        """Return the servers that are partitioned from others."""
        return frozenset(server_id for server_id, side in self._sides.items() if side)
