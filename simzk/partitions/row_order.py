"""Batches that are gone through as they lie in memory, while something else decides in whose turn each comes.

Rules of the module:

1. Rows of a large table that are read or written in the order of a hash cost twice what they cost ascending: the next
   one is on its way from memory before it is asked for.
2. A batch that lies in one order and acts in another has *turns*: of each of its k places the place of the other order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from simzk.jvm.scala_columns import places_in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

Turns: TypeAlias = NDArray[np.intp]
Rows = TypeVar("Rows", NDArray[np.int32], NDArray[np.intp])


def as_they_lie(rows: Rows) -> tuple[Rows, Turns]:
    """Rows ascending, and where each of them stood.

    >>> rows, turns = as_they_lie(np.array([7, 3, 5]))
    >>> rows.tolist(), turns.tolist()
    ([3, 5, 7], [1, 2, 0])
    """
    if (rows[1:] > rows[:-1]).all():
        return rows, np.arange(len(rows))
    turns = places_in_order(rows.astype(np.int64))
    return rows[turns], turns


def in_turn(turns: Turns | None, count: int) -> Sequence[int]:
    """The places of a batch in the order of their turns; without turns they come one after the other.

    >>> list(in_turn(np.array([1, 2, 0]), 3)), list(in_turn(None, 3))
    ([2, 0, 1], [0, 1, 2])
    """
    if turns is None:
        return range(count)
    order: list[int] = places_in_order(turns.astype(np.int64)).tolist()
    return order
