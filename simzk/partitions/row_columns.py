"""The columns of a table over its rows, with room for more of them, and what may be seen of them.

Rules of the module:
  - columns have room for more rows than are used, so that adding rows seldom copies; free rows are taken first;
  - they are handed out as read-only views: a view is of the moment, taken anew after a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.row_records import RowRecords

if TYPE_CHECKING:
    from simzk.partitions.arrays import BoolArray, Column, IntArray


class RowColumns:
    """Topic number and partition id, replicas and state of each row.

    Args:
        width: places for replicas and ISR, until a longer list comes.
    """

    def __init__(self, width: int) -> None:
        assert width >= 1
        self._topic: IntArray = np.empty(0, dtype=np.int32)
        self._partition: IntArray = np.empty(0, dtype=np.int32)
        self._records = RowRecords(width)
        self._used = 0
        self._free: list[int] = []

    def _seen(self, column: Column) -> Column:
        view = column[: self._used]
        view.flags.writeable = False
        return view

    @property
    def topic(self) -> IntArray:
        """int32[n], number of the topic; -1 in a free row."""
        return self._seen(self._topic)

    @property
    def partition(self) -> IntArray:
        """int32[n], partition ids."""
        return self._seen(self._partition)

    @property
    def replicas(self) -> IntArray:
        """int32[n, w], assigned replicas in preference order, padded."""
        return self._seen(self._records.replicas)

    @property
    def isr(self) -> IntArray:
        """int32[n, w], in-sync replicas in the order of the znode, padded."""
        return self._seen(self._records.isr)

    @property
    def leader(self) -> IntArray:
        """int32[n], -1 where there is none."""
        return self._seen(self._records.leader)

    @property
    def leader_epoch(self) -> IntArray:
        """int32[n]."""
        return self._seen(self._records.leader_epoch)

    @property
    def controller_epoch(self) -> IntArray:
        """int32[n], epoch of the controller that wrote the state last."""
        return self._seen(self._records.controller_epoch)

    @property
    def version(self) -> IntArray:
        """int32[n], dataVersion of the state znode; -1 where there is no such znode."""
        return self._seen(self._records.version)

    @property
    def recovering(self) -> BoolArray:
        """bool[n], whether the leader is recovering from an unclean election; a copy."""
        return self._seen(self._records.recovering != 0)

    @property
    def width(self) -> int:
        """Columns of the padded lists; it grows when a longer list comes."""
        return self._records.width

    def _take_rows(self, count: int) -> IntArray:
        """Free rows if there are enough, else new ones at the end."""
        if 0 < count <= len(self._free):
            taken, self._free = self._free[:count], self._free[count:]
            return np.array(taken, dtype=np.int32)
        first, self._used = self._used, self._used + count
        if self._used > len(self._topic):
            capacity = max(self._used, 2 * first)
            self._topic = _with_room(self._topic, first, capacity)
            self._partition = _with_room(self._partition, first, capacity)
            self._records.reserve(capacity)
        return np.arange(first, self._used, dtype=np.int32)


def _with_room(column: IntArray, used: int, capacity: int) -> IntArray:
    roomy = np.empty(capacity, dtype=np.int32)
    roomy[:used] = column[:used]
    return roomy
