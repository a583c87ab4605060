"""The log of one partition of an internal topic, as the brokers see it that lead it in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.kafka.coordinator.coordinator_log import CoordinatorBatch, CoordinatorLog, CoordinatorRecord
from simzk.kafka.log.batches import ProducerStamp
from simzk.kafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.kafka.coordinator.transaction import ProducerIdentity
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Process

REPLICATED_US = 3_000
"""Until all in the ISR have a record."""


@dataclass(eq=False, repr=False)
class ReplicatedLog:
    """The log, with those who wait for acks.

    Attributes:
        leader: the broker that leads the partition; -1 for none.
        epoch: its leader epoch.
        batches: the content.
        rejects: whether appends fail because too few replicas are in sync.
        unacknowledged: calls that wait until all in the ISR have a record.
    """

    process: Process
    leader: int = 0
    epoch: int = 0
    batches: list[CoordinatorBatch] = field(default_factory=list)
    rejects: bool = False
    unacknowledged: list[Callable[[ErrorCode], None]] = field(default_factory=list)

    @property
    def records(self) -> list[CoordinatorRecord]:
        """The records of all batches."""
        return [record for batch in self.batches for record in batch.records]

    def acknowledge(self, done: Callable[[ErrorCode], None], error: ErrorCode) -> None:
        """End the wait for acks."""
        if done in self.unacknowledged:
            self.unacknowledged.remove(done)
            done(error)

    def move(self, leader: int) -> None:
        """Let another broker lead, or the same one again."""
        self.leader, self.epoch = leader, self.epoch + 1
        for done in list(self.unacknowledged):
            self.acknowledge(done, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@dataclass(eq=False, repr=False)
class LogOfBroker(CoordinatorLog):
    """The log as one broker sees it."""

    log: ReplicatedLog
    broker: int

    def leads(self, partition: TopicPartition) -> bool:
        return self.log.leader == self.broker

    def leader_epoch(self, partition: TopicPartition) -> int:
        return self.log.epoch

    def append(
        self,
        partition: TopicPartition,
        records: Sequence[CoordinatorRecord],
        done: Callable[[ErrorCode], None] | None,
        producer: ProducerIdentity | None = None,
    ) -> None:
        if not self.leads(partition) or self.log.rejects:
            if done is not None:
                done(ErrorCode.NOT_ENOUGH_REPLICAS if self.leads(partition) else ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        stamp = None if producer is None else ProducerStamp(*producer, 0, is_transactional=True)
        self.log.batches.append(CoordinatorBatch(tuple(records), stamp))
        if done is not None:
            self.log.unacknowledged.append(done)
            self.log.process.call_later(REPLICATED_US, lambda: self.log.acknowledge(done, ErrorCode.NONE))

    def read(self, partition: TopicPartition) -> Iterable[CoordinatorRecord]:
        return self.log.records

    def read_batches(self, partition: TopicPartition) -> Iterable[CoordinatorBatch]:
        return list(self.log.batches)

    def is_empty(self, partition: TopicPartition) -> bool:
        return not self.log.batches
