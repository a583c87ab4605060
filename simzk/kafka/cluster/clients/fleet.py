"""The clients of a run: started during its faults, stopped when everything heals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.kafka.cluster.clients.administrators import RecordDeleter, TopicAdministrator
from simzk.kafka.cluster.clients.group_member import GroupMember
from simzk.kafka.cluster.clients.producers import IdempotentProducer, ResumedProducer, TransactionalProducer
from simzk.kafka.cluster.clients.readers import SessionReader
from simzk.kafka.cluster.clients.znode_watcher import ZnodeWatcher
from simzk.kafka.observation.client_ledger import ClientLedger
from simzk.simulation import Process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.cluster.clients.group_member import MemberSettings
    from simzk.kafka.cluster.clients.producers import TransactionSettings
    from simzk.kafka.cluster.clients.wire import Ports, WireClient
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Scheduler


@dataclass(eq=False)
class ClientFleet:
    """Clients that speak Kafka's requests, and their ledger.

    Args:
        scheduler: the clock.
        ports: the brokers.
        zookeeper: the ZooKeeper.

    Attributes:
        ledger: what the clients were promised.
        clients: all clients of brokers that were started, also those that have ended.
        watchers: all watchers of znodes.
    """

    scheduler: Scheduler
    ports: Ports
    zookeeper: ZooKeeperHost
    ledger: ClientLedger = field(default_factory=ClientLedger)
    clients: list[WireClient] = field(default_factory=list)
    watchers: list[ZnodeWatcher] = field(default_factory=list)

    def start_member(self, settings: MemberSettings) -> GroupMember:
        """Start a member of a group."""
        member = GroupMember(self._process("member"), self.ports, self.ledger, settings)
        self.clients.append(member)
        return member

    def start_transactions(self, settings: TransactionSettings) -> TransactionalProducer:
        """Start a transactional producer."""
        producer = TransactionalProducer(self._process("transactional producer"), self.ports, self.ledger, settings)
        self.clients.append(producer)
        return producer

    def start_idempotent(self, partition: TopicPartition, gap_us: int, *, has_keys: bool) -> IdempotentProducer:
        """Start an idempotent producer."""
        process = self._process("idempotent producer")
        producer = IdempotentProducer(
            process, self.ports, self.ledger, partition=partition, gap_us=gap_us, has_keys=has_keys
        )
        self.clients.append(producer)
        return producer

    def start_reader(self, partitions: Sequence[TopicPartition], gap_us: int, highest: int) -> SessionReader:
        """Start a reader that uses fetch sessions."""
        process = self._process("session reader")
        reader = SessionReader(process, self.ports, self.ledger, partitions=partitions, gap_us=gap_us, highest=highest)
        self.clients.append(reader)
        return reader

    def start_deleter(self, partitions: Sequence[TopicPartition], gap_us: int) -> RecordDeleter:
        """Start a client that deletes records."""
        process = self._process("record deleter")
        deleter = RecordDeleter(process, self.ports, self.ledger, partitions=partitions, gap_us=gap_us)
        self.clients.append(deleter)
        return deleter

    def start_administrator(self, gap_us: int) -> TopicAdministrator:
        """Start an administrator of topics."""
        administrator = TopicAdministrator(self._process("administrator"), self.ports, self.ledger, gap_us=gap_us)
        self.clients.append(administrator)
        return administrator

    def start_watcher(self, gap_us: int) -> ZnodeWatcher:
        """Start a client that watches znodes."""
        name = f"watcher {len(self.watchers) + 1}"
        self.watchers.append(ZnodeWatcher(self.scheduler, name, self.zookeeper, self.ledger, gap_us=gap_us))
        return self.watchers[-1]

    def resume(self, stopped: IdempotentProducer) -> ResumedProducer:
        """Let an idempotent producer that was stopped deliver what it has sent."""
        producer = ResumedProducer(self._process("resumed producer"), self.ports, stopped)
        self.clients.append(producer)
        return producer

    def stop(self) -> None:
        """Stop all clients; requests in flight may still be served."""
        for client in self.clients:
            client.kill()
        for watcher in self.watchers:
            watcher.kill()

    def _process(self, kind: str) -> Process:
        return Process(self.scheduler, f"{kind} {len(self.clients) + 1}")
