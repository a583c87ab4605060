"""The leader's writes of ISRs up to Kafka 2.6, and how it announces them from 0.9 on (Partition, ReplicaManager; §2.8).

Rules of the module (docs/reference/kafka.md §2.8):
  - the leader writes the state itself, on condition of the version it knows, with the epochs of the controller's last
    decision; a write that failed is none of its own, unless the znode holds just what was to be written (KAFKA-1382,
    from 0.8.2 on);
  - one that is refused is not tried again until the controller sends a LeaderAndIsr;
  - what changed is announced by one znode, once there was no change for 5 s, or no announcement for 60 s; looked at
    every 2.5 s.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from simzk.jvm.scala_collections import immutable_order, mutable_set_order
from simzk.kafka import paths
from simzk.kafka.requests import Error, IsrProposal
from simzk.kafka.schemas.admin import encode_isr_change
from simzk.kafka.zookeeper_client.session import SessionExpiredError
from simzk.kafka.zookeeper_client.zk_client import PERSISTENT_SEQUENTIAL
from simzk.simulation import History, Process, Queue
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import SetData

if TYPE_CHECKING:
    from simzk.kafka.broker.replica_logs import ReplicaLogs
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
    from simzk.kafka.zookeeper_client.zk_client import KafkaZooKeeperClient

PERIOD_US = 2_500_000
QUIET_US = 5_000_000
INTERVAL_US = 60_000_000


class IsrWrites:
    """Writes what the leader decides, in order; announces it later."""

    def __init__(
        self, process: Process, client: KafkaZooKeeperClient, broker_id: int, history: History, replicas: ReplicaLogs
    ) -> None:
        self._process = process
        self._client = client
        self._who = f"broker {broker_id}"
        self._history = history
        self._wanted: Queue[IsrProposal] = Queue()
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_us = self._last_announcement_us = process.scheduler.now_us
        self._replicas = replicas
        process.spawn(self._run(), "ISR writes")

    def start(self) -> None:
        """The broker begins to serve: look from now on, every so often, at what is to be announced."""
        if not self._client.version.broker.announces_isr_changes:
            return
        self._last_change_us = self._last_announcement_us = self._process.scheduler.now_us
        self._process.spawn(self._announce(), "ISR announcements")

    @property
    def has_unannounced_changes(self) -> bool:
        """Whether something is still to be announced."""
        return bool(self._changed)

    def propose(self, proposal: IsrProposal) -> None:
        """Write another ISR."""
        self._wanted.put(proposal)

    async def _run(self) -> None:
        while True:
            proposal = await self._wanted.get()
            replica = self._replicas.replicas.get(proposal.partition)
            if replica is None or replica.state.leader_epoch != proposal.leader_epoch:
                continue
            wanted = replica.state._replace(isr=proposal.isr, version=proposal.version, recovering=proposal.recovering)
            try:
                result = await self._write(proposal.partition, wanted)
            except SessionExpiredError:
                result = Error.INVALID_UPDATE_VERSION
            if isinstance(result, Error):
                asked = f"isr {list(proposal.isr)}"
                self._history.record(self._who, "ISR change refused", str(proposal.partition), asked, result.value)
            elif self._client.version.broker.announces_isr_changes:
                self._changed[proposal.partition] = None
                self._last_change_us = self._process.scheduler.now_us
            self._replicas.handle_result(proposal, result)

    async def _write(self, partition: TopicPartition, wanted: LeaderAndIsr) -> LeaderAndIsr | Error:
        """Write a state on condition of its version; as it stands then."""
        path, data = paths.state(partition), self._client.version.znodes.encode_state(wanted)
        reply = await self._client.session.call(SetData(path, data, wanted.version))
        if reply.error == Code.OK:
            return wanted._replace(version=wanted.version + 1)
        refused = reply.error == Code.BAD_VERSION and self._client.version.broker.accepts_own_isr_after_conflict
        found = await self._client.read(path) if refused else None
        if found is not None and found[0] == data:
            return wanted._replace(version=found[1].version)
        return Error.INVALID_UPDATE_VERSION

    def _in_set_order(self) -> list[TopicPartition]:
        """The changed partitions as a mutable Set of them is made one of JSON maps: up to Scala 2.11 an immutable."""
        version = self._client.version
        partitions = mutable_set_order(self._changed, version.orders.scala, version.orders.announced_hash)
        if version.orders.scala in ("2.10", "2.11"):
            return immutable_order(partitions, version.orders.scala, version.orders.json_hash)
        return mutable_set_order(partitions, version.orders.scala, version.orders.json_hash)

    async def _announce(self) -> None:
        while True:
            await self._process.sleep(PERIOD_US)
            await self.announce_what_is_due()

    async def announce_what_is_due(self) -> None:
        """Announce the changes, if they are old enough or nothing was announced for long."""
        now_us = self._process.scheduler.now_us
        is_due = now_us - self._last_change_us > QUIET_US or now_us - self._last_announcement_us > INTERVAL_US
        if not self._changed or not is_due:
            return
        changed, self._changed = self._in_set_order(), {}
        self._last_announcement_us = now_us
        with contextlib.suppress(SessionExpiredError):
            await self._client.create(paths.ISR_CHANGE_PREFIX, encode_isr_change(changed), PERSISTENT_SEQUENTIAL)
