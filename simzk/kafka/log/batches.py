"""Record batches: the unit in which records are appended, fetched and truncated."""

from __future__ import annotations

import struct
from typing import Literal, NamedTuple

NO_EPOCH = -1
"""The leader epoch of a batch without one (up to 0.10.2), and of an undefined answer (UNDEFINED_EPOCH)."""
BATCH_BYTES = 61
"""Size of a batch without its records (RecordBatch of format v2)."""
RECORD_BYTES = 100
"""Assumed size of a record without a payload; it matters only for bounded fetches."""


_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = {1: 18, 2: 35}
_MAGIC_AT = 16


class ProducerStamp(NamedTuple):
    """Idempotent producer of a batch.

    Args:
        producer_id, epoch: identity of the producer.
        sequence: sequence number of the first record.
        is_transactional: whether the batch belongs to a transaction.
        marker: how a transaction ends, in a batch of its marker; None in other batches.
        coordinator_epoch: epoch of the transaction coordinator that wrote the marker; -1 in other batches.
    """

    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool = False
    marker: Literal["commit", "abort"] | None = None
    coordinator_epoch: int = -1


class NewBatch(NamedTuple):
    """Records to be appended as one batch.

    Args:
        records: number of records.
        payload: the batch as bytes, of which the leader sets the offset; None if the records have no content.
        producer: its idempotent producer; None without one.
        is_as_sent: whether it is stored as it was sent, without compression.
    """

    records: int
    payload: bytes | None = None
    producer: ProducerStamp | None = None
    is_as_sent: bool = False

    @property
    def max_timestamp_ms(self) -> int:
        """Largest timestamp of its records; -1 if they have none."""
        return _max_timestamp_ms(self.payload)


class RecordBatch(NamedTuple):
    """Records that were appended together.

    Args:
        base_offset: offset of the first record.
        records: number of offsets: of its records, some of which compaction may have removed.
        leader_epoch: leader epoch in which a leader appended it; `NO_EPOCH` up to 0.10.2.
        identity: number that tells this batch from every other one of the cluster, so that logs can be compared.
        payload: the batch as bytes with its offset, one entry of `record_batches`; all replicas share the object. None
            if the records have no content.
        producer: its idempotent producer; None without one.

    >>> batch = RecordBatch(10, 5, leader_epoch=2, identity=7)
    >>> batch.next_offset, batch.size_bytes
    (15, 561)
    """

    base_offset: int
    records: int
    leader_epoch: int
    identity: int
    payload: bytes | None = None
    producer: ProducerStamp | None = None

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.records

    @property
    def size_bytes(self) -> int:
        """Size of the batch, assumed if it has no payload."""
        return BATCH_BYTES + self.records * RECORD_BYTES if self.payload is None else len(self.payload)

    @property
    def max_timestamp_ms(self) -> int:
        """Largest timestamp of its records; -1 if they have none."""
        return _max_timestamp_ms(self.payload)


def _max_timestamp_ms(payload: bytes | None) -> int:
    at = -1 if payload is None else _MAX_TIMESTAMP_AT.get(payload[_MAGIC_AT], -1)
    return -1 if payload is None or at < 0 else int(_MAX_TIMESTAMP.unpack_from(payload, at)[0])
