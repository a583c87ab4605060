"""Compact log of the state writes of batches, expanded on read.

Rules of this module:
  - a log stores only what events show, in the smallest integer type that fits;
  - columns are copied into pieces of 4 MiB. A history grows with every write, and the first touch of a fresh memory
    page takes as long as a batch takes for fifty rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.partitions.arrays import unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from simzk.kafka.columnar.batches import Written
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.table import Partitions

_PIECE_BYTES = 2**22
_MAX_INT16 = np.iinfo(np.int16).max


class BatchLog:
    """Log of the state writes of many batches."""

    def __init__(self) -> None:
        self._piece = np.empty(0, dtype=np.uint8)
        self._used = 0

    def append(self, written: Written) -> LoggedBatch:
        """Copy the writes of a batch."""
        before, after = written.before, written.after
        ids, epochs = (before.isr, after.isr), (before.leader_epoch, after.leader_epoch)
        return LoggedBatch(
            written.topics.table.partitions(self._copy([written.rows], np.int32)[0]),
            self._copy([before.recovering, after.recovering], np.bool_),
            # A leader is a member of its ISR or NONE, so that the ISRs alone decide the type.
            self._copy(
                [before.leader, after.leader, *before.isr.T, *after.isr.T], _smallest_type(*map(_greatest, ids))
            ),
            self._copy(epochs, _smallest_type(*map(_greatest, epochs))),
            before.isr.shape[1],
        )

    def _copy(self, columns: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
        """Return a copy of columns of k numbers as kind[len(columns), k]."""
        rows, item = len(columns[0]), np.dtype(kind).itemsize
        size = -(-len(columns) * rows * item // 8) * 8
        if self._used + size > len(self._piece):
            self._piece, self._used = np.empty(max(_PIECE_BYTES, size), dtype=np.uint8), 0
        begin, self._used = self._used, self._used + size
        copied = self._piece[begin : begin + len(columns) * rows * item].view(kind).reshape(len(columns), rows)
        for line, column in zip(copied, columns, strict=True):
            line[:] = column
        return copied


def _greatest(numbers: IntArray) -> int:
    return int(numbers.max(initial=0))


def _smallest_type(*greatest: int) -> type[np.signedinteger[Any]]:
    """Return the smallest integer type for numbers from -1 up to the greatest."""
    return np.int16 if max(greatest) <= _MAX_INT16 else np.int32


class LoggedBatch:
    """State writes of one batch.

    Args:
        partitions: the k partitions, in the order of the writes.
        recovering: bool[2, k], whether the leader was recovering before and after the write.
        ids: [2 + w + v, k], the leaders before and after, the ISRs before and after.
        epochs: [2, k], the leader epochs before and after.
        width: w, the width of the ISRs before.
    """

    def __init__(
        self,
        partitions: Partitions,
        recovering: BoolArray,
        ids: NDArray[Any],
        epochs: NDArray[Any],
        width: int,
    ) -> None:
        assert epochs.shape == (2, partitions.size)
        self._partitions = partitions
        self._states = (
            (ids[0], epochs[0], ids[2 : 2 + width], recovering[0]),
            (ids[1], epochs[1], ids[2 + width :], recovering[1]),
        )

    def __iter__(self) -> Iterator[tuple[TopicPartition, LeaderAndIsr, LeaderAndIsr]]:
        """Yield each partition with its states before and after, in the order of the writes.

        Controller epochs and versions are not logged: events do not show them.
        """
        names = [TopicPartition(*name) for name in self._partitions.names()]
        before, after = (_to_states(*columns) for columns in self._states)
        return zip(names, before, after, strict=True)


def _to_states(leader: IntArray, leader_epoch: IntArray, isr: IntArray, recovering: BoolArray) -> list[LeaderAndIsr]:
    columns = zip(leader.tolist(), leader_epoch.tolist(), unpack(isr.T), recovering.tolist(), strict=True)
    return [LeaderAndIsr(leads, epoch, ids, 0, recovering=marked) for leads, epoch, ids, marked in columns]
