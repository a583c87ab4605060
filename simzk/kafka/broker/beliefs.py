"""What replicas believe, by row of a table and place in the assignment: in which leader epoch they are, and who leads.

Rules of the module:
  - a replica that never heard of a leader, or whose process is gone, believes -1 of both;
  - beside them stands of each row whether its leader waits for the answer to an ISR that it asked for;
  - what is of one row stands together, as in `partitions.state_rows`; a spare number makes that 32 bytes for three
    replicas, which are copied whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, taken
from simzk.partitions.row_records import columns_at, packed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray


class Believed(NamedTuple):
    """Of k rows: leader epochs and leaders, int32[k, w] by place in the assignment, and what is asked for, int32[k]."""

    epoch: IntArray
    leader: IntArray
    proposed: IntArray

    def at(self, places: NDArray[np.integer]) -> Believed:
        """A copy of some of them."""
        return Believed(taken(self.epoch, places), taken(self.leader, places), taken(self.proposed, places))

    def by(self, brokers: IntArray, replicas: IntArray) -> tuple[IntArray, IntArray]:
        """What one replica of each row believes; -1 of both where there is none.

        Args:
            brokers: int32[k], whose replica.
            replicas: int32[k, w], the assignments.

        Returns:
            who leads, and in which epoch, int32[k] each.
        """
        leader, epoch = (np.full(len(brokers), NONE, dtype=np.int32) for _ in range(2))
        for place in range(replicas.shape[1]):
            mine = replicas[:, place] == brokers
            np.copyto(leader, self.leader[:, place], where=mine)
            np.copyto(epoch, self.epoch[:, place], where=mine)
        return leader, epoch


class Beliefs:
    """Beliefs by row; nobody believes anything yet.

    Args:
        width: replicas of the longest assignment.
    """

    def __init__(self, width: int) -> None:
        self._records = _no_records(0, width)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def width(self) -> int:
        """Replicas of the longest assignment that it has room for."""
        return (int(self._records.shape[1]) - 2) // 2

    @property
    def leader(self) -> IntArray:
        """int32[n, w], a view."""
        return _columns(self._records).leader

    def at(self, rows: NDArray[np.integer]) -> Believed:
        """A copy of those of some rows."""
        return _columns(columns_at(self._records, rows).T)

    def put(self, rows: NDArray[np.integer], believed: Believed) -> None:
        """Overwrite those of some rows."""
        records = np.empty((len(rows), self._records.shape[1]), dtype=np.int32)
        records[:, -1] = 0
        for column, values in zip(_columns(records), believed, strict=True):
            column[:] = values
        packed_of(self._records).put(rows, packed_of(records))

    def propose(self, rows: NDArray[np.integer], proposed: bool) -> None:
        """Leaders of some rows ask for ISRs, or do no more."""
        _columns(self._records).proposed[rows] = proposed

    def grow(self, rows: int, width: int) -> None:
        """Have room for so many rows, and for assignments so long."""
        before = _columns(self._records)
        if rows > len(self) or width > self.width:
            self._records = _no_records(max(rows, len(self)), max(width, self.width))
            for column, values in zip(_columns(self._records), before, strict=True):
                column[tuple(map(slice, values.shape))] = values


def _no_records(rows: int, width: int) -> IntArray:
    records = np.full((rows, 2 * width + 2), NONE, dtype=np.int32)
    records[:, 2 * width :] = 0
    return records


def _columns(records: IntArray) -> Believed:
    width = (records.shape[1] - 2) // 2
    return Believed(records[:, :width], records[:, width : 2 * width], records[:, 2 * width])
