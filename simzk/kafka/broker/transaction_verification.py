"""Verification of transactions by a leader (AddPartitionsToTxnManager; KIP-890).

Rules of this module:
  - before the first batch of a transaction is appended to a log, the leader asks the transaction's coordinator whether
    the partition was added to the transaction: Produce since 3.6, TxnOffsetCommit since 3.7;
  - the coordinator is the leader of the transactional id's partition of `__transaction_state`, as the metadata cache of
    the broker has it. Without one the error is COORDINATOR_NOT_AVAILABLE, without an answer NETWORK_EXCEPTION;
  - a producer that is fenced there gets INVALID_PRODUCER_EPOCH;
  - TRANSACTION_ABORTABLE is for clients that know it; for others it is INVALID_TXN_STATE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.coordinator.coordinator_log import TRANSACTIONS_TOPIC, partition_of
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import AddPartitionsToTxnRequest
from simzk.kafka.rpc import Disconnected
from simzk.kafka.topic_partition import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.broker.replica_logs import ReplicaLogs
    from simzk.kafka.metadata.cache import MetadataCache
    from simzk.kafka.protocol.messages import AddPartitionsToTxnResponse
    from simzk.simulation import Future, Process

    Respond = Callable[[Mapping[TopicPartition, ErrorCode]], None]

VERIFICATION_KEY = "transaction.partition.verification.enable"

_OF_OFFSETS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Errors of TxnOffsetCommit, by those of the coordinator (GroupMetadataManager.maybeConvertOffsetCommitError)."""


class TransactionBatch(NamedTuple):
    """Identity of a transaction in a batch: its transactional id, producer id and epoch."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(eq=False)
class TransactionVerification:
    """Questions of one broker to the coordinators of transactions.

    Args:
        partitions: returns how many partitions `__transaction_state` has, or will have.
        send: sends a request to a broker; the future has the response, or fails with `Disconnected`.
    """

    process: Process
    cache: MetadataCache
    replicas: ReplicaLogs
    partitions: Callable[[], int]
    send: Callable[[int, AddPartitionsToTxnRequest], Future[AddPartitionsToTxnResponse]]

    def verify(
        self, batch: TransactionBatch, partitions: Sequence[TopicPartition], respond: Respond, *, knows_abortable: bool
    ) -> None:
        """Ask whether partitions were added to a transaction.

        Args:
            batch: the transaction.
            partitions: the partitions.
            respond: called, now or later, with the error of each partition; NONE if it was added.
            knows_abortable: whether the client understands TRANSACTION_ABORTABLE.
        """
        place = TopicPartition(TRANSACTIONS_TOPIC, partition_of(batch.transactional_id, self.partitions()))
        state = self.cache.partitions.get(place)
        if state is None or state.leader not in self.cache.live_brokers:
            respond(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        request = _request(batch, partitions)

        async def ask() -> None:
            try:
                response = await self.send(state.leader, request)
            except Disconnected:
                respond(dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION))
                return
            errors = {
                TopicPartition(topic.name, one.partition_index): _translated(one.partition_error_code, knows_abortable)
                for result in response.results_by_transaction
                for topic in result.topic_results
                for one in topic.results_by_partition
            }
            assert errors.keys() <= set(partitions), f"{sorted(errors)} is the answer about {partitions}"
            respond({one: errors.get(one, ErrorCode.NONE) for one in partitions})

        self.process.spawn(ask(), "transaction verification")

    def verify_offsets(
        self,
        batch: TransactionBatch,
        partition: TopicPartition,
        respond: Callable[[ErrorCode], None],
        *,
        knows_abortable: bool,
    ) -> None:
        """Ask whether the partition of `__consumer_offsets` of a group was added to a transaction; see `verify`.

        Nobody is asked if the transaction is open in the log of the partition.
        """
        before = self.replicas.producer_entry(partition, batch.producer_id)
        if before is not None and before.is_in_transaction:
            respond(ErrorCode.NONE)
            return

        def go_on(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            code = _OF_OFFSETS.get(errors[partition], errors[partition])
            entry = self.replicas.producer_entry(partition, batch.producer_id)
            is_open = entry is not None and entry.is_in_transaction
            if code == ErrorCode.NONE and entry is not before and not is_open:  # a marker came between
                code = ErrorCode.INVALID_TXN_STATE
            respond(code)

        self.verify(batch, [partition], go_on, knows_abortable=knows_abortable)


def _request(batch: TransactionBatch, partitions: Sequence[TopicPartition]) -> AddPartitionsToTxnRequest:
    topics = numbers_by_topic(partitions)
    kind = AddPartitionsToTxnRequest
    transaction = kind.AddPartitionsToTxnTransaction(
        transactional_id=batch.transactional_id,
        producer_id=batch.producer_id,
        producer_epoch=batch.epoch,
        verify_only=True,
        topics=[kind.AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
    )
    return kind(transactions=[transaction])


def _translated(code: int, knows_abortable: bool) -> ErrorCode:
    """Return an error of the coordinator as a producer expects it."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode(code)
