"""ISR changes of leaders: proposed to the controller, or written to ZooKeeper up to Kafka 2.6.

Rules of this module (Partition, AlterPartitionManager; KIP-497; docs/reference/kafka.md §2.8):
  - a leader adds a follower to the ISR that has fetched, has the log up to the high watermark, and is taken for alive.
    Since 2.0.1 it also needs the log that the leader had when it began to lead: the new leader may not have heard of
    the high watermark, but all that it has may be committed (KAFKA-7128). A follower that is not ready yet is
    considered again when it fetches again;
  - a leader has one proposed ISR per partition at a time;
  - since 2.7 a leader proposes. One request per broker is in flight; later proposals go with the next request. While a
    proposal has no result, none for the same partition is accepted, not even in a new leader epoch: the leader returns
    to the committed ISR, and proposes again later. Up to 2.8 a LeaderAndIsr withdraws the proposal of its partition,
    also one in flight. Its result then withdraws the proposal that has taken its place, which is never sent, so that
    the leader waits until the next LeaderAndIsr (KAFKA-12686);
  - a request that no controller answers is sent again after 50 ms, to the controller of that time; one that is rejected
    as a whole is made anew after 50 ms;
  - the error of a partition decides about a retry (`outcomes_of`; Partition.handleAlterPartitionError);
  - up to 2.6 a leader writes the state znode, conditional on the version that it knows, with the controller epoch of
    the last LeaderAndIsr. Since 0.8.2 a write that fails counts as done if the znode holds the same data (KAFKA-1382);
    after another BADVERSION it does not write again until the next LeaderAndIsr, because each write would fail. Up to
    1.0 a write that waits while the session expires is sent in the next session: so a leader that was paused tries to
    remove its followers, in vain. Since 1.1 such a write throws, and the leader decides anew at the follower's next
    fetch or the next check of the ISR (KafkaZkClient.conditionalUpdatePath, Partition.updateIsr);
  - from 0.9 to 2.6 leaders announce their writes in one znode when none has followed for 5 s, or nothing was announced
    for 60 s; this is checked every 2.5 s.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from simzk.jvm.scala_collections import immutable_order, mutable_set_order
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import IsrChangeRequest, IsrChangeResponse
from simzk.kafka.rpc import Connections, Disconnected
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError
from simzk.kafka.zookeeper_mode.client.zk_client import PERSISTENT_SEQUENTIAL
from simzk.kafka.zookeeper_mode.schemas.admin import encode_partitions
from simzk.partitions.arrays import NONE, any_of, contained
from simzk.partitions.transitions import expand_isr, shrink_isr
from simzk.simulation import Process, Queue
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from simzk.jvm.scala_collections import Scala
    from simzk.kafka.metadata.cache import MetadataCache
    from simzk.kafka.metadata.changes import IsrProposal, Proposals
    from simzk.kafka.requests import AlteredPartitions, AlterPartitions
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
    from simzk.kafka.zookeeper_mode.client.zk_client import KafkaZooKeeperClient
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States

    OnDropped = Callable[[IsrProposal], None]
    """Handler of a proposal that is never sent."""
    OnResults = Callable[[Sequence[IsrProposal], Sequence[LeaderAndIsr | ErrorCode]], list[IsrProposal]]
    """Handler of proposals and their results; it returns the proposals to be retried."""

RETRY_PAUSE_US = 50_000
PERIOD_US = 2_500_000
"""How often leaders check whether to announce their writes."""
QUIET_US = 5_000_000
INTERVAL_US = 60_000_000


class ProposalOutcome(IntEnum):
    """Reaction of a leader to the result of its proposal."""

    COMMITTED = 0
    """The controller wrote the ISR."""
    RETRY = 1
    """The proposal is sent again."""
    REVERTED = 2
    """It was rejected, or the session expired: the leader returns to the committed ISR and may propose again."""
    PENDING = 3
    """Whether it was written is unknown: the leader proposes nothing more until the next LeaderAndIsr."""


_OUTCOMES = {
    ErrorCode.NONE: ProposalOutcome.COMMITTED,
    ErrorCode.INELIGIBLE_REPLICA: ProposalOutcome.REVERTED,
    ErrorCode.NETWORK_EXCEPTION: ProposalOutcome.REVERTED,
    ErrorCode.FENCED_LEADER_EPOCH: ProposalOutcome.PENDING,
    ErrorCode.INVALID_UPDATE_VERSION: ProposalOutcome.PENDING,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ProposalOutcome.PENDING,
    ErrorCode.INVALID_REQUEST: ProposalOutcome.PENDING,
}


def outcomes_of(errors: NDArray[np.int16]) -> NDArray[np.int8]:
    """Return how a leader reacts to k errors, as `ProposalOutcome`; it retries after every error without a rule.

    >>> errors = np.array([ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REQUEST], dtype=np.int16)
    >>> [ProposalOutcome(outcome).name for outcome in outcomes_of(errors)]
    ['RETRY', 'PENDING']
    """
    outcomes = np.full(len(errors), ProposalOutcome.RETRY, dtype=np.int8)
    for error, outcome in _OUTCOMES.items():
        outcomes[errors == error] = outcome
    return outcomes


class LeaderReplicas(Protocol):
    """Replicas that lead the partitions at k rows of the table: the seam between ISR changes and logs.

    Replicas with logs implement it from their log end offsets; replicas without records are caught up at once.
    """

    def states(self, rows: IntArray) -> States:
        """Return the states that the leaders know."""

    def are_waiting(self, rows: IntArray) -> BoolArray:
        """Return which leaders wait for the result of a proposed ISR."""

    def are_pending(self, rows: IntArray, proposals: Proposals) -> BoolArray:
        """Return which proposals wait for their result; others are of an earlier leader or epoch."""

    def have_caught_up(self, rows: IntArray, follower: int) -> BoolArray:
        """Return where a follower has enough of the log to be in the ISR (Partition.isFollowerInSync)."""

    def propose(self, rows: IntArray, states: States, isr: IntArray) -> None:
        """Propose ISRs, int32[k, w], in place of those of `states`; the leaders wait for the results."""

    def end_proposals(self, rows: IntArray) -> None:
        """Wait no more for results."""

    def commit(self, rows: IntArray, states: States) -> None:
        """Apply states that were written; the leaders wait no more."""

    def consider_again(self, rows: IntArray, followers: IntArray) -> None:
        """Call `LeaderIsrs.expand` again when the followers fetch again."""


@dataclass(eq=False)
class LeaderIsrs:
    """Expand and shrink ISRs of partitions, and apply the results, as their leaders do.

    Args:
        scala: Scala version of the brokers, which decides the order of an ISR.
        is_alive: whether the leaders take a broker for alive.
    """

    _replicas: LeaderReplicas
    _scala: Scala
    _is_alive: Callable[[int], bool]

    def expand(self, rows: IntArray, follower: int, is_accepted: BoolArray) -> None:
        """Propose to add a follower to ISRs after a fetch, which the leaders accept or not, bool[k]."""
        assert len(rows) == len(is_accepted)
        replicas = self._replicas
        states = replicas.states(rows)
        outside = ~any_of(states.isr == follower) & replicas.have_caught_up(rows, follower)
        ready = is_accepted & ~replicas.are_waiting(rows) & self._is_alive(follower)
        late = rows[outside & ~ready]
        replicas.consider_again(late, np.full(len(late), follower, dtype=np.int32))
        joins = np.flatnonzero(outside & ready)
        if len(joins):
            states, joining = states.at(joins), np.full(len(joins), follower, dtype=np.int32)
            replicas.propose(rows[joins], states, expand_isr(states.isr, joining, self._scala))

    def shrink(self, rows: IntArray, leaving: IntArray) -> None:
        """Propose to remove followers, int32[k, w], that are out of sync."""
        assert not self._replicas.are_waiting(rows).any(), "a leader waits for the result of another proposal"
        states = self._replicas.states(rows)
        assert len(rows) == len(leaving) == len(states.leader)
        assert not (leaving == states.leader[:, None]).any(), "a leader does not remove itself"
        self._replicas.propose(rows, states, shrink_isr(states.isr, leaving, self._scala))

    def handle_results(self, rows: IntArray, proposals: Proposals, altered: AlteredPartitions) -> IntArray:
        """Handle the result of each proposal; return the places of those to be retried."""
        assert len(rows) == len(proposals.leader) == len(altered.errors) == len(altered.states.leader)
        replicas, pending = self._replicas, self._replicas.are_pending(rows, proposals)
        outcomes, written = outcomes_of(altered.errors), altered.states
        committed = pending & (outcomes == ProposalOutcome.COMMITTED)
        committed &= (written.leader_epoch == proposals.leader_epoch) & (written.version >= proposals.version)
        replicas.commit(rows[committed], written.where(committed))
        reverted = pending & (outcomes == ProposalOutcome.REVERTED)
        if reverted.any():
            self._revert(rows[reverted], proposals.isr[reverted])
        return np.flatnonzero(pending & (outcomes == ProposalOutcome.RETRY)).astype(np.int32)

    def _revert(self, rows: IntArray, isr: IntArray) -> None:
        """Return to the committed ISRs; the controller took a joining follower for dead, so consider it again."""
        assert len(rows) == len(isr)
        self._replicas.end_proposals(rows)
        joining = np.where(contained(isr, self._replicas.states(rows).isr), NONE, isr)
        for column in joining.T:
            joins = column != NONE
            self._replicas.consider_again(rows[joins], column[joins])


async def call_controller(
    process: Process, connections: Connections, controller: int | None, request: IsrChangeRequest | AlterPartitions
) -> Any:
    """Send a request to the controller; return None if it is unknown, or disconnects."""
    if controller is None:
        return None
    try:
        return await connections.call(process, f"broker {controller}", request)
    except Disconnected:
        return None


@dataclass(eq=False)
class IsrProposals:
    """Sends the proposals of one broker in batches, until each has a result.

    Args:
        broker_epoch: returns the broker's epoch.
        metadata: the broker's metadata cache, which names the controller.
        on_results: handles results.
        on_dropped: is told of a proposal that the result of an earlier one withdraws (up to 2.8).
    """

    process: Process
    connections: Connections
    broker_id: int
    broker_epoch: Callable[[], int]
    metadata: MetadataCache
    on_results: OnResults
    on_dropped: OnDropped
    has_unannounced_changes: bool = field(default=False, init=False)
    """Always false: the controller informs all brokers."""
    _pending: dict[TopicPartition, IsrProposal] = field(default_factory=dict, init=False)
    """Proposals without a result, sent ones too."""
    _signal: Queue[None] = field(default_factory=Queue, init=False)

    def __post_init__(self) -> None:
        self.process.spawn(self._run(), "ISR proposals")

    def start(self) -> None:
        """Do nothing: there are no announcements."""

    def propose(self, proposal: IsrProposal) -> bool:
        """Propose an ISR; return false while an earlier proposal for the same partition has no result."""
        if proposal.partition in self._pending:
            return False
        self._pending[proposal.partition] = proposal
        if not len(self._signal):
            self._signal.put(None)
        return True

    def withdraw(self, partition: TopicPartition) -> None:
        """Forget the proposal for a partition, also one in flight (AlterIsrManager.clearPending, up to 2.8)."""
        self._pending.pop(partition, None)

    def is_pending(self, partition: TopicPartition) -> bool:
        """Return whether a proposal for a partition is still to have a result."""
        return partition in self._pending

    async def _run(self) -> None:
        while True:
            await self._signal.get()
            while self._pending:
                batch = dict(self._pending)
                request = IsrChangeRequest(self.broker_id, self.broker_epoch(), tuple(batch.values()))
                response = await self._send(request)
                if response.error != ErrorCode.NONE:
                    await self.process.sleep(RETRY_PAUSE_US)
                    continue
                for partition, answered in batch.items():
                    removed = self._pending.pop(partition, answered)
                    if removed is not answered:
                        assert removed.leader_epoch > answered.leader_epoch, f"{partition} was proposed twice"
                        self.on_dropped(removed)
                results = [response.results.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in batch]
                retries = self.on_results(list(batch.values()), results)
                for proposal in retries:
                    assert proposal.partition in batch
                    self._pending.setdefault(proposal.partition, proposal)
                if retries:
                    await self.process.sleep(RETRY_PAUSE_US)

    async def _send(self, request: IsrChangeRequest) -> IsrChangeResponse:
        """Send a request until a controller answers it."""
        while True:
            response: IsrChangeResponse | None = await call_controller(
                self.process, self.connections, self.metadata.controller_id, request
            )
            if response is not None and response.error != ErrorCode.NOT_CONTROLLER:
                return response
            await self.process.sleep(RETRY_PAUSE_US)


@dataclass(eq=False)
class IsrWrites:
    """Writes the ISR changes of one broker in order, and announces them.

    Args:
        state_of: returns the present state of a replica; None if the broker has none.
        on_results: handles results; a write without a reply, because the session expired, is `NETWORK_EXCEPTION`. None
            is retried as it was.
        has_timer: whether changes are announced periodically; otherwise only by `announce_if_due`.
    """

    process: Process
    client: KafkaZooKeeperClient
    state_of: Callable[[TopicPartition], LeaderAndIsr | None]
    on_results: OnResults
    has_timer: bool
    _queue: Queue[IsrProposal] = field(default_factory=Queue, init=False)
    _changed_us: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    """When a change was written that is not announced yet."""

    def __post_init__(self) -> None:
        self._last_announcement_us = self.process.scheduler.now_us
        self.process.spawn(self._run(), "ISR writes")

    def start(self) -> None:
        """Start to announce changes: the broker begins to serve."""
        if not self.client.version.broker.announces_isr_changes:
            return
        self._last_announcement_us = self.process.scheduler.now_us
        if self.has_timer:
            self.process.spawn(self._announce(), "ISR announcements")

    @property
    def has_unannounced_changes(self) -> bool:
        """Whether a change has not been announced yet."""
        return bool(self._changed_us)

    def propose(self, proposal: IsrProposal) -> bool:
        """Write an ISR after those proposed before; return true."""
        self._queue.put(proposal)
        return True

    def withdraw(self, partition: TopicPartition) -> None:
        """Do nothing: a write of an earlier leader epoch is left out when its turn comes."""

    def is_pending(self, _partition: TopicPartition) -> bool:
        """Return true: every write has its turn."""
        return True

    async def _run(self) -> None:
        while True:
            proposal = await self._queue.get()
            state = self.state_of(proposal.partition)
            if state is None or state.leader_epoch != proposal.leader_epoch:
                continue
            changed = state._replace(isr=proposal.isr, version=proposal.version, recovering=proposal.recovering)
            try:
                result = await self._write(proposal.partition, changed)
            except SessionExpiredError:
                result = ErrorCode.NETWORK_EXCEPTION
            if not isinstance(result, ErrorCode) and self.client.version.broker.announces_isr_changes:
                self._changed_us[proposal.partition] = self.process.scheduler.now_us
            self.on_results([proposal], [result])

    async def _write(self, partition: TopicPartition, changed: LeaderAndIsr) -> LeaderAndIsr | ErrorCode:
        """Write a state, conditional on its version; return it with its new version."""
        path, data = paths.state(partition), self.client.version.znodes.encode_state(changed)
        reply = await self.client.session.call(SetData(path, data, changed.version))
        if reply.error == Code.OK:
            return changed._replace(version=changed.version + 1)
        rereads = reply.error == Code.BAD_VERSION and self.client.version.broker.accepts_own_isr_after_conflict
        found = await self.client.read(path) if rereads else None
        if found is not None and found[0] == data:
            return changed._replace(version=found[1].version)
        return ErrorCode.INVALID_UPDATE_VERSION

    def _in_order(self, changed: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return changed partitions in the order of the znode: a mutable Set mapped to a Set of JSON maps.

        Up to Scala 2.11 the second set is immutable.
        """
        version = self.client.version
        partitions = mutable_set_order(changed, version.orders.scala, version.orders.announced_hash)
        if version.orders.scala in ("2.10", "2.11"):
            return immutable_order(partitions, version.orders.scala, version.orders.json_hash)
        return mutable_set_order(partitions, version.orders.scala, version.orders.json_hash)

    async def _announce(self) -> None:
        while True:
            await self.process.sleep(PERIOD_US)
            await self.announce_if_due()

    async def announce_if_due(self, missed: Sequence[TopicPartition] = ()) -> None:
        """Announce the changes if the last is old enough, or if nothing was announced for long.

        Args:
            missed: partitions that are left for the next announcement: a leader notes a change after it has written the
                state, and another thread may announce changes in between (ReplicaManager.recordIsrChange).
        """
        now_us = self.process.scheduler.now_us
        changed = {partition: at_us for partition, at_us in self._changed_us.items() if partition not in missed}
        if not changed:
            return
        assert self._last_announcement_us <= now_us
        if now_us - max(changed.values()) <= QUIET_US and now_us - self._last_announcement_us <= INTERVAL_US:
            return
        self._changed_us = {partition: at_us for partition, at_us in self._changed_us.items() if partition in missed}
        self._last_announcement_us = now_us
        with contextlib.suppress(SessionExpiredError):
            await self.client.create(
                paths.ISR_CHANGE_PREFIX, encode_partitions(self._in_order(changed)), PERSISTENT_SEQUENTIAL
            )
