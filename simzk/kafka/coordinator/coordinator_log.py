"""Logs of the internal topics that coordinators write: `__consumer_offsets` and `__transaction_state`.

Rules of this module:
  - the hash of a group's or transaction's id decides its partition, and the leader of that is its coordinator;
  - a broker that becomes leader of a partition reads its log, which takes `LOAD_US`; one without records takes no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.jvm.hash_codes import string_hash
from simzk.kafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.kafka.coordinator.transaction import ProducerIdentity
    from simzk.kafka.log.batches import ProducerStamp
    from simzk.kafka.topic_partition import TopicPartition

OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
LOAD_US = 20_000
"""How long a broker reads the log of a partition with records (of real brokers 10 to 100 ms)."""
_INT_MIN = -(1 << 31)
ERRORS_OF_APPEND = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Errors of requests, by the error of the append of their records; what a timeout is depends on the request."""


def partition_of(key: str, partitions: int) -> int:
    """Return the partition of an internal topic that a group's or transaction's id belongs to (Utils.abs).

    >>> partition_of("orders-service", 50)
    17
    """
    assert partitions > 0
    number = string_hash(key)
    return (0 if number == _INT_MIN else abs(number)) % partitions


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator; without a value it removes what the key names."""

    key: bytes
    value: bytes | None


class CoordinatorBatch(NamedTuple):
    """Records of one batch in a coordinator's log.

    Args:
        records: the records with a key; none in a batch of a marker.
        producer: the producer of the batch, if it belongs to a transaction; else None.
    """

    records: Sequence[CoordinatorRecord]
    producer: ProducerStamp | None = None


class CoordinatorLog(Protocol):
    """Logs of the partitions that the broker leads."""

    def leads(self, partition: TopicPartition) -> bool:
        """Return whether the broker leads a partition."""

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch of a partition that the broker leads."""

    def append(
        self,
        partition: TopicPartition,
        records: Sequence[CoordinatorRecord],
        done: Callable[[ErrorCode], None] | None,
        producer: ProducerIdentity | None = None,
    ) -> None:
        """Append records as the broker itself, for a producer if they belong to its transaction.

        `done` is called when all in the ISR have them, or with the error; None if nobody waits.
        """

    def read(self, partition: TopicPartition) -> Iterable[CoordinatorRecord]:
        """Return all records of a partition, ascending."""

    def read_batches(self, partition: TopicPartition) -> Iterable[CoordinatorBatch]:
        """Return all batches of a partition with markers of transactions, ascending."""

    def is_empty(self, partition: TopicPartition) -> bool:
        """Return whether a partition has no records with content."""
