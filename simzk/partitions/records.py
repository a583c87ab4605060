"""Records of 32-bit words, one a row, of which many lie scattered over a large table: how numpy moves them whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import lots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray


def packed_of(records: IntArray) -> NDArray[np.void]:
    """Records int32[n, words] as pieces of memory, void[n]: a view."""
    return records.view(np.dtype((np.void, 4 * records.shape[1])))[:, 0]


def columns_at(records: IntArray, rows: NDArray[np.integer]) -> IntArray:
    """A copy of the records of some rows, a word a line: int32[words, k]."""
    columns, packed = np.empty((records.shape[1], len(rows)), dtype=np.int32), packed_of(records)
    for some in lots(len(rows)):
        columns[:, some] = packed.take(rows[some]).view(np.int32).reshape(-1, len(columns)).T
    return columns
