"""What batches wrote, kept until somebody looks: no more numbers than it takes to tell it, and small ones.

A history grows with every write, and memory that the system has to find first takes longer than the write itself: a
fresh page takes it as long as a batch takes for fifty rows.
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
_SMALL = np.iinfo(np.int16).max


class KeptWrites:
    """One place for the writes of many batches."""

    def __init__(self) -> None:
        self._piece = np.empty(0, dtype=np.uint8)
        self._used = 0

    def keep(self, written: Written) -> KeptBatch:
        """The writes of a batch, copied."""
        before, after = written.before, written.after
        ids, epochs = (before.isr, after.isr), (before.leader_epoch, after.leader_epoch)
        return KeptBatch(
            written.topics.table.partitions(self._kept([written.rows], np.int32)[0]),
            self._kept([before.recovering, after.recovering], np.bool_),
            # A leader is in its ISR, or nobody leads.
            self._kept([before.leader, after.leader, *before.isr.T, *after.isr.T], _least(*map(_greatest, ids))),
            self._kept(epochs, _least(*map(_greatest, epochs))),
            before.isr.shape[1],
        )

    def _kept(self, columns: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
        """Columns of k numbers of a kind, a column a line."""
        rows, item = len(columns[0]), np.dtype(kind).itemsize
        size = -(-len(columns) * rows * item // 8) * 8
        if self._used + size > len(self._piece):
            self._piece, self._used = np.empty(max(_PIECE_BYTES, size), dtype=np.uint8), 0
        begin, self._used = self._used, self._used + size
        kept = self._piece[begin : begin + len(columns) * rows * item].view(kind).reshape(len(columns), rows)
        for line, column in zip(kept, columns, strict=True):
            line[:] = column
        return kept


def _greatest(numbers: IntArray) -> int:
    return int(numbers.max(initial=0))


def _least(*greatest: int) -> type[np.signedinteger[Any]]:
    """The smallest kind of numbers for some from -1 up to the greatest."""
    return np.int16 if max(greatest) <= _SMALL else np.int32


class KeptBatch:
    """The writes of one batch.

    Args:
        partitions: k of them.
        recovering: bool[2, k], whether the leader was recovering before, and is since.
        ids: [2 + w + v, k], leaders before and since, ISRs before and since.
        epochs: [2, k], leader epochs before and since.
        width: w.
    """

    def __init__(
        self,
        partitions: Partitions,
        recovering: BoolArray,
        ids: NDArray[Any],
        epochs: NDArray[Any],
        width: int,
    ) -> None:
        self._partitions = partitions
        self._states = (
            (ids[0], epochs[0], ids[2 : 2 + width], recovering[0]),
            (ids[1], epochs[1], ids[2 + width :], recovering[1]),
        )

    def __iter__(self) -> Iterator[tuple[TopicPartition, LeaderAndIsr, LeaderAndIsr]]:
        """Each with its state before and since, as far as it is told, in the order in which they were written."""
        names = [TopicPartition(*name) for name in self._partitions.names()]
        before, after = (_told(*columns) for columns in self._states)
        return zip(names, before, after, strict=True)


def _told(leader: IntArray, leader_epoch: IntArray, isr: IntArray, recovering: BoolArray) -> list[LeaderAndIsr]:
    """States without controller epoch and version."""
    columns = zip(leader.tolist(), leader_epoch.tolist(), unpack(isr.T), recovering.tolist(), strict=True)
    return [LeaderAndIsr(leads, epoch, ids, 0, recovering=marked) for leads, epoch, ids, marked in columns]
