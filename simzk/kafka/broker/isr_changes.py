"""ISR changes of leaders: proposed to the controller, or written to ZooKeeper up to Kafka 2.6.

Rules of this module (AlterPartitionManager, Partition; KIP-497; docs/reference/kafka.md §2.8):
  - since 2.7 a leader proposes. One request per broker is in flight; later proposals go with the next request;
  - a request that fails as a whole is sent again after 50 ms, to the controller of that time;
  - the error of a partition decides about a retry (`outcome_of`; Partition.handleAlterPartitionError);
  - up to 2.6 a leader writes the state znode, conditional on the version that it knows, with the controller epoch of
    the last LeaderAndIsr. Since 0.8.2 a write that fails counts as done if the znode holds the same data (KAFKA-1382);
    after any other failure it does not write again until the next LeaderAndIsr;
  - from 0.9 to 2.6 leaders announce their writes in one znode when none has followed for 5 s, or nothing was announced
    for 60 s; this is checked every 2.5 s.
"""

from __future__ import annotations

import contextlib
from enum import IntEnum
from typing import TYPE_CHECKING

from simzk.jvm.scala_collections import immutable_order, mutable_set_order
from simzk.kafka import paths
from simzk.kafka.requests import AlterPartitionRequest, AlterPartitionResponse, Error, IsrProposal
from simzk.kafka.rpc import Connections, Disconnected
from simzk.kafka.schemas.admin import encode_isr_change
from simzk.kafka.zookeeper_client.session import SessionExpiredError
from simzk.kafka.zookeeper_client.zk_client import PERSISTENT_SEQUENTIAL
from simzk.simulation import History, Process, Queue
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import SetData

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.metadata_cache import MetadataCache
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
    from simzk.kafka.zookeeper_client.zk_client import KafkaZooKeeperClient

RETRY_PAUSE_US = 50_000
PERIOD_US = 2_500_000
"""How often leaders check whether to announce their writes."""
QUIET_US = 5_000_000
INTERVAL_US = 60_000_000


class Outcome(IntEnum):
    """Reaction of a leader to the result of its proposal."""

    COMMITTED = 0
    """The controller wrote the ISR."""
    RETRY = 1
    """The proposal is sent again."""
    REVERTED = 2
    """The controller did not write it: the leader returns to the committed ISR and may propose again."""
    PENDING = 3
    """Whether it was written is unknown: the leader proposes nothing more until the next LeaderAndIsr."""


_OUTCOMES = {
    Error.NONE: Outcome.COMMITTED,
    Error.INELIGIBLE_REPLICA: Outcome.REVERTED,
    Error.FENCED_LEADER_EPOCH: Outcome.PENDING,
    Error.INVALID_UPDATE_VERSION: Outcome.PENDING,
    Error.UNKNOWN_TOPIC_OR_PARTITION: Outcome.PENDING,
    Error.INVALID_REQUEST: Outcome.PENDING,
}


def outcome_of(error: Error) -> Outcome:
    """Return how a leader reacts to an error; it retries after every error that has no rule of its own.

    >>> [outcome_of(error).name for error in (Error.NOT_CONTROLLER, Error.REQUEST_TIMED_OUT, Error.INVALID_REQUEST)]
    ['RETRY', 'RETRY', 'PENDING']
    """
    return _OUTCOMES.get(error, Outcome.RETRY)


class IsrProposals:
    """Sends the proposals of one broker in batches, until each has a result.

    Args:
        process: the broker's process.
        connections: the way to the controller.
        broker_id: the broker's id.
        broker_epoch: returns the broker's epoch.
        metadata: the broker's metadata cache, which names the controller.
        history: records refused proposals.
        on_result: called with each proposal and its result; returns the outcome.
    """

    def __init__(
        self,
        process: Process,
        connections: Connections,
        broker_id: int,
        *,
        broker_epoch: Callable[[], int],
        metadata: MetadataCache,
        history: History,
        on_result: Callable[[IsrProposal, LeaderAndIsr | Error], Outcome],
    ) -> None:
        self._process = process
        self._connections = connections
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._metadata = metadata
        self._history = history
        self._on_result = on_result
        self._unsent: dict[TopicPartition, IsrProposal] = {}
        self._signal: Queue[None] = Queue()
        process.spawn(self._run(), "ISR proposals")

    def start(self) -> None:
        """Do nothing: there are no announcements, the controller informs all brokers."""

    @property
    def has_unannounced_changes(self) -> bool:
        """Always false: the controller informs all brokers."""
        return False

    def propose(self, proposal: IsrProposal) -> None:
        """Propose an ISR; a later proposal for the same partition replaces an unsent one."""
        self._unsent[proposal.partition] = proposal
        if not len(self._signal):
            self._signal.put(None)

    async def _run(self) -> None:
        while True:
            await self._signal.get()
            while self._unsent:
                batch, self._unsent = self._unsent, {}
                response = await self._send(tuple(batch.values()))
                if response is None or response.error != Error.NONE:
                    self._unsent = batch | self._unsent
                    await self._process.sleep(RETRY_PAUSE_US)
                    continue
                if self._handle(batch, response):
                    await self._process.sleep(RETRY_PAUSE_US)

    async def _send(self, proposals: tuple[IsrProposal, ...]) -> AlterPartitionResponse | None:
        controller = self._metadata.controller_id
        if controller is None:
            return None
        request = AlterPartitionRequest(self._broker_id, self._broker_epoch(), proposals)
        try:
            response: AlterPartitionResponse = await self._connections.call(
                self._process, f"broker {controller}", request
            )
        except Disconnected:
            return None
        return response

    def _handle(self, batch: dict[TopicPartition, IsrProposal], response: AlterPartitionResponse) -> bool:
        """Handle the result of each proposal; return whether any is to be retried."""
        retries = False
        for partition, proposal in batch.items():
            result = response.results.get(partition, Error.UNKNOWN_SERVER_ERROR)
            if isinstance(result, Error):
                actor, proposed = f"broker {self._broker_id}", f"isr {list(proposal.isr)}"
                self._history.record(actor, "ISR change refused", str(partition), proposed, result.value)
            if self._on_result(proposal, result) == Outcome.RETRY:
                self._unsent.setdefault(partition, proposal)
                retries = True
        return retries


class IsrWrites:
    """Writes the ISR changes of one broker in order, and announces them.

    Args:
        process: the broker's process.
        client: its ZooKeeper client.
        broker_id: its id.
        history: records refused changes.
        state_of: returns the present state of a replica; None if the broker has none.
        on_result: called with each change and its result.
    """

    def __init__(
        self,
        process: Process,
        client: KafkaZooKeeperClient,
        broker_id: int,
        *,
        history: History,
        state_of: Callable[[TopicPartition], LeaderAndIsr | None],
        on_result: Callable[[IsrProposal, LeaderAndIsr | Error], object],
    ) -> None:
        self._process = process
        self._client = client
        self._actor = f"broker {broker_id}"
        self._history = history
        self._queue: Queue[IsrProposal] = Queue()
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_us = self._last_announcement_us = process.scheduler.now_us
        self._state_of = state_of
        self._on_result = on_result
        process.spawn(self._run(), "ISR writes")

    def start(self) -> None:
        """Start to announce changes: the broker begins to serve."""
        if not self._client.version.broker.announces_isr_changes:
            return
        self._last_change_us = self._last_announcement_us = self._process.scheduler.now_us
        self._process.spawn(self._announce(), "ISR announcements")

    @property
    def has_unannounced_changes(self) -> bool:
        """Whether a change has not been announced yet."""
        return bool(self._changed)

    def propose(self, proposal: IsrProposal) -> None:
        """Write an ISR after those proposed before."""
        self._queue.put(proposal)

    async def _run(self) -> None:
        while True:
            proposal = await self._queue.get()
            state = self._state_of(proposal.partition)
            if state is None or state.leader_epoch != proposal.leader_epoch:
                continue
            changed = state._replace(isr=proposal.isr, version=proposal.version, recovering=proposal.recovering)
            try:
                result = await self._write(proposal.partition, changed)
            except SessionExpiredError:
                result = Error.INVALID_UPDATE_VERSION
            if isinstance(result, Error):
                proposed = f"isr {list(proposal.isr)}"
                self._history.record(self._actor, "ISR change refused", str(proposal.partition), proposed, result.value)
            elif self._client.version.broker.announces_isr_changes:
                self._changed[proposal.partition] = None
                self._last_change_us = self._process.scheduler.now_us
            self._on_result(proposal, result)

    async def _write(self, partition: TopicPartition, changed: LeaderAndIsr) -> LeaderAndIsr | Error:
        """Write a state, conditional on its version; return it with its new version."""
        path, data = paths.state(partition), self._client.version.znodes.encode_state(changed)
        reply = await self._client.session.call(SetData(path, data, changed.version))
        if reply.error == Code.OK:
            return changed._replace(version=changed.version + 1)
        rereads = reply.error == Code.BAD_VERSION and self._client.version.broker.accepts_own_isr_after_conflict
        found = await self._client.read(path) if rereads else None
        if found is not None and found[0] == data:
            return changed._replace(version=found[1].version)
        return Error.INVALID_UPDATE_VERSION

    def _changed_in_order(self) -> list[TopicPartition]:
        """Return the changed partitions in the order of the znode: a mutable Set mapped to a Set of JSON maps.

        Up to Scala 2.11 the second set is immutable.
        """
        version = self._client.version
        partitions = mutable_set_order(self._changed, version.orders.scala, version.orders.announced_hash)
        if version.orders.scala in ("2.10", "2.11"):
            return immutable_order(partitions, version.orders.scala, version.orders.json_hash)
        return mutable_set_order(partitions, version.orders.scala, version.orders.json_hash)

    async def _announce(self) -> None:
        while True:
            await self._process.sleep(PERIOD_US)
            await self.announce_if_due()

    async def announce_if_due(self) -> None:
        """Announce the changes if the last is old enough, or if nothing was announced for long."""
        now_us = self._process.scheduler.now_us
        is_due = now_us - self._last_change_us > QUIET_US or now_us - self._last_announcement_us > INTERVAL_US
        if not self._changed or not is_due:
            return
        changed, self._changed = self._changed_in_order(), {}
        self._last_announcement_us = now_us
        with contextlib.suppress(SessionExpiredError):
            await self._client.create(paths.ISR_CHANGE_PREFIX, encode_isr_change(changed), PERSISTENT_SEQUENTIAL)
