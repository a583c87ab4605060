"""Record batches: the unit in which records are appended, fetched and truncated."""

from __future__ import annotations

from typing import NamedTuple

NO_EPOCH = -1
"""The leader epoch of a batch without one (up to 0.10.2), and of an undefined answer (UNDEFINED_EPOCH)."""
BATCH_BYTES = 61
"""Size of a batch without its records (RecordBatch of format v2)."""
RECORD_BYTES = 100
"""Assumed size of a record without a payload; it matters only for bounded fetches."""


class RecordBatch(NamedTuple):
    """Records that were appended together.

    Args:
        base_offset: offset of the first record.
        records: number of records, or of offsets that they had before compaction.
        leader_epoch: leader epoch in which a leader appended it; `NO_EPOCH` up to 0.10.2.
        identity: number that tells this batch from every other one of the cluster, so that logs can be compared.
        payload: the records as bytes, stored and returned unopened; None if they have no content.

    >>> batch = RecordBatch(10, 5, leader_epoch=2, identity=7)
    >>> batch.next_offset, batch.size_bytes
    (15, 561)
    """

    base_offset: int
    records: int
    leader_epoch: int
    identity: int
    payload: bytes | None = None

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.records

    @property
    def size_bytes(self) -> int:
        """Size of the batch, assumed if it has no payload."""
        return BATCH_BYTES + self.records * RECORD_BYTES if self.payload is None else len(self.payload)
