"""What reassignments add and remove, by row: few rows move at a time, so that they cost nothing of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, IntArray, pack

if TYPE_CHECKING:
    from collections.abc import Sequence


class MovingRows:
    """Replicas to add and to remove.

    >>> moving = MovingRows()
    >>> moving.put(7, [3], [1, 2])
    >>> moving.rows(), moving.adding(7), moving.removing(7), moving.adding(8)
    ([7], (3,), (1, 2), ())
    """

    def __init__(self) -> None:
        self._lists: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def put(self, row: int, adding: Sequence[int], removing: Sequence[int]) -> None:
        """Write both lists of a row; it does not move where both are empty."""
        self._lists.pop(row, None)
        if adding or removing:
            self._lists[row] = tuple(adding), tuple(removing)

    def adding(self, row: int) -> tuple[int, ...]:
        """The replicas to add."""
        return self._lists[row][0] if row in self._lists else ()

    def removing(self, row: int) -> tuple[int, ...]:
        """The replicas to remove."""
        return self._lists[row][1] if row in self._lists else ()

    def rows(self) -> list[int]:
        """The rows that move, ascending."""
        return sorted(self._lists)

    def lists(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Of some rows the replicas to add and to remove, padded."""
        if not self._lists:
            return np.full((len(rows), 1), NONE, dtype=np.int32), np.full((len(rows), 1), NONE, dtype=np.int32)
        both = [self._lists.get(row, ((), ())) for row in rows.tolist()]
        return pack([adding for adding, _ in both]), pack([removing for _, removing in both])
