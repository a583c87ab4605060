"""Records that a broker itself appends and reads, for its coordinators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.kafka.coordinator.coordinator_log import CoordinatorBatch, CoordinatorLog, CoordinatorRecord
from simzk.kafka.log.record_batches import BatchProducer, Record, decode_entry, encode_batch, encode_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from simzk.kafka.broker.producing import Producing
    from simzk.kafka.broker.replica_logs import ReplicaLogs
    from simzk.kafka.coordinator.transaction import ProducerIdentity
    from simzk.kafka.protocol.errors import ErrorCode
    from simzk.kafka.releases.profile import GroupRules
    from simzk.kafka.topic_partition import TopicPartition


@dataclass(eq=False)
class BrokerLog(CoordinatorLog):
    """Logs of the partitions that a broker leads.

    Args:
        rules: the format of the records.
        timeout_ms: of an append.
        now_ms: returns the present time, in ms since 1970.
    """

    producing: Producing
    replicas: ReplicaLogs
    rules: GroupRules
    timeout_ms: int
    now_ms: Callable[[], int]

    def leads(self, partition: TopicPartition) -> bool:
        return self.replicas.leads(partition)

    def leader_epoch(self, partition: TopicPartition) -> int:
        replica = self.replicas.replicas[partition]
        assert replica.state.leader == self.replicas.broker_id, f"{partition} is led by {replica.state.leader}"
        return replica.state.leader_epoch

    def append(
        self,
        partition: TopicPartition,
        records: Sequence[CoordinatorRecord],
        done: Callable[[ErrorCode], None] | None,
        producer: ProducerIdentity | None = None,
    ) -> None:
        """Append records, with acks of all in the ISR; those of transactions always have sequence number 0."""
        now_ms = self.now_ms()
        content = [Record(record.key, record.value, timestamp_ms=now_ms) for record in records]
        if producer is None:
            data = encode_records(content, self.rules.record_magic)
        else:
            data = encode_batch(
                content, producer=BatchProducer(producer.producer_id, producer.epoch, 0), is_transactional=True
            )
        self.producing.append_as_broker(
            partition, data, self.timeout_ms, lambda response: None if done is None else done(response.error)
        )

    def read(self, partition: TopicPartition) -> Iterable[CoordinatorRecord]:
        return [record for batch in self.read_batches(partition) for record in batch.records]

    def read_batches(self, partition: TopicPartition) -> Iterator[CoordinatorBatch]:
        """Yield the batches with content, ascending; records without a key are left out."""
        replica = self.replicas.replicas.get(partition)
        for batch in () if replica is None else replica.log.batches:
            if batch.payload is None:
                continue
            producer = batch.producer
            found = decode_entry(batch.payload) if producer is None or producer.marker is None else ()
            records = [CoordinatorRecord(record.key, record.value) for record in found if record.key is not None]
            yield CoordinatorBatch(records, producer if producer is not None and producer.is_transactional else None)

    def is_empty(self, partition: TopicPartition) -> bool:
        replica = self.replicas.replicas.get(partition)
        return replica is None or all(batch.payload is None for batch in replica.log.batches)
