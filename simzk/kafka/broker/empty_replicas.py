"""Replicas without records, for clusters of any size: followers that join ISRs, and batched requests.

Rules of this module (those of `replica_logs` and `fetching` where all logs are empty):
  - a follower in the ISR has the whole log and stays; any other fetches once, and its leader proposes to add it to the
    ISR. If the leader cannot serve it yet, the follower fetches again after `replica.fetch.backoff.ms`;
  - a broker that is shutting down follows no new leader;
  - a controller sends its requests to all brokers as one message (`ControlBatch`), and leaders send their proposals as
    one message. A paused broker handles its part when it is resumed, a dead one never;
  - all these brokers share one metadata cache.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from simzk.kafka.broker.isr_changes import RETRY_PAUSE_US, Outcome, outcome_of
from simzk.kafka.broker.metadata_cache import MetadataCache
from simzk.kafka.requests import (
    ERRORS,
    AlteredPartitions,
    AlterPartitions,
    ControlBatch,
    ControlResponse,
    Error,
    LeaderAndIsrRequest,
    PartitionUpdates,
    Proposals,
    ReplicaStops,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from simzk.kafka.rpc import Connections, Disconnected
from simzk.partitions.arrays import NONE, among, any_of, contained, count_of, unpack, widen
from simzk.partitions.transitions import expand_isr
from simzk.simulation.history import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from simzk.kafka.broker.replica_manager import NewLeaders, ReplicaManager
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.simulation import History, Network, Process

ADDRESS = "brokers"
"""The name of all these brokers on the network."""
BACKOFF_US = 1_000_000
"""`replica.fetch.backoff.ms`: 1 s by default."""
_OUTCOMES = np.array([outcome_of(error) for error in ERRORS], dtype=np.int8)
"""The outcome of a proposal, by error code."""


class HostedBroker(Protocol):
    """The broker of replicas without records, as far as they depend on it."""

    process: Process
    version: KafkaVersion
    stopping: bool

    @property
    def alive(self) -> bool:
        """Whether its process runs, paused or not."""


class EmptyReplicas:
    """Replicas without records of all brokers of a cluster.

    Args:
        process: where proposals wait for their responses.
        network: between brokers.
        connections: the way to the controller.
        history: records refused proposals.
        manager: the replicas.
        brokers: the brokers by id; the cluster adds them after this object is made.
    """

    def __init__(
        self,
        process: Process,
        network: Network,
        connections: Connections,
        history: History,
        manager: ReplicaManager,
        brokers: Mapping[int, HostedBroker],
    ) -> None:
        self._process = process
        self._network = network
        self._connections = connections
        self._history = history
        self._manager = manager
        self._table = manager.table
        self._epochs = manager.epochs
        self._brokers = brokers
        self._metadata = MetadataCache(forgets=True)

    def metadata_cache(self, _version: KafkaVersion) -> MetadataCache:
        """Return the metadata cache that all brokers share."""
        return self._metadata

    def requests_of(self, broker: int, _with_logs: object) -> EmptyReplicasOfBroker:
        """Return the handler of control requests that a broker gets by itself."""
        return EmptyReplicasOfBroker(self, broker)

    # -- control requests

    def unreachable_brokers(self, source: str, brokers: Iterable[int]) -> set[int]:
        """Return the brokers to which messages may be lost or delayed: a batch must not include them."""
        if self._network.is_undisturbed:
            return set()
        return {broker for broker in brokers if not self._network.is_clear(source, f"broker {broker}")}

    def send(self, source: str, batch: ControlBatch) -> None:
        """Send control requests to many brokers as one message."""
        self._network.send(source, ADDRESS, lambda: self._deliver(batch))

    def _deliver(self, batch: ControlBatch) -> None:
        if batch.controller_epoch >= self._epochs.controller_epoch:
            self._metadata.update(
                UpdateMetadataRequest(batch.controller_id, batch.controller_epoch, 0, (), batch.live_brokers)
            )
        running = np.ones(len(batch.brokers), dtype=np.bool_)
        if self._process.scheduler.paused:
            for place, broker in enumerate(batch.brokers.tolist()):
                if (found := self._brokers.get(broker)) is not None and found.process.paused:
                    running[place] = False
                    found.process.deliver(partial(self._handle_batch, np.array([place]), batch))
        self._handle_batch(np.flatnonzero(running), batch)

    def _handle_batch(self, places: NDArray[np.intp], batch: ControlBatch) -> None:
        """Handle a batch at some of its target brokers."""
        accepting = self._epochs.accepting(batch.brokers[places], batch.broker_epochs[places], batch.controller_epoch)
        for updates, named in batch.parts:
            concerned = named & among(updates.replicas, accepting)
            if concerned.any():
                self.lead_and_follow(updates, concerned)
        for broker, stops in batch.stops.items():
            if accepting.take(broker, mode="clip"):
                self._manager.stop(broker, stops)

    def lead_and_follow(self, updates: PartitionUpdates, named: BoolArray) -> None:
        """Handle LeaderAndIsr requests for the named replicas, bool[k, w] by place in the assignment."""
        new = self._manager.accept(updates, named)
        if new is not None:
            self._become_leaders(new)
            self._become_followers(new)

    def stop(self, broker: int, stops: ReplicaStops) -> BoolArray:
        """Stop replicas of one broker; return which are fenced."""
        return self._manager.stop(broker, stops)

    def _become_leaders(self, new: NewLeaders) -> None:
        leads = any_of(new.accepted & (new.replicas == new.states.leader[:, None]))
        self._table.put_all(new.rows[leads], new.states.where(leads))

    def _become_followers(self, new: NewLeaders) -> None:
        """Let followers that are not in sync fetch from the leaders that they have just accepted."""
        leader, replicas = new.states.leader[:, None], new.replicas
        following = new.accepted & (replicas != NONE) & (replicas != leader) & (leader != NONE)
        following &= ~contained(replicas, new.states.isr)
        rows = np.repeat(new.rows, count_of(following))
        for broker, followed in _by_follower(rows, replicas[following]):
            if not self._brokers[broker].stopping:
                self._fetch(broker, followed)

    # -- followers join ISRs

    def _fetch_again(self, rows: IntArray, followers: IntArray) -> None:
        """Let followers fetch after the backoff."""
        for broker, followed in _by_follower(rows, followers):
            self._brokers[broker].process.call_later(BACKOFF_US, partial(self._fetch, broker, followed))

    def _fetch(self, follower: int, rows: IntArray) -> None:
        self._network.send(f"broker {follower}", ADDRESS, lambda: self._handle_fetch(follower, rows))

    def _handle_fetch(self, follower: int, rows: IntArray) -> None:
        """Let leaders propose to add a follower, whose log is as long as theirs, to ISRs."""
        if not self._brokers[follower].alive:
            return
        (replicas, states), accepted = self._table.replicas_and_states(rows), self._manager.leaders_at(rows)
        leader, epoch = accepted.by(np.full(len(rows), follower, dtype=np.int32), replicas)
        joins = (leader != NONE) & (leader != follower) & ~any_of(states.isr == follower)
        leader_of_leader, epoch_of_leader = accepted.by(leader, replicas)
        ready = (leader_of_leader == leader) & (epoch_of_leader == epoch) & (accepted.pending == 0)
        ready &= self._serving().take(leader, mode="clip")
        ready &= follower in self._metadata.live_brokers
        late = rows[joins & ~ready]
        self._fetch_again(late, np.full(len(late), follower, dtype=np.int32))
        chosen = np.flatnonzero(joins & ready)
        if len(chosen):
            scala = self._brokers[follower].version.orders.scala
            joining = np.full(len(chosen), follower, dtype=np.int32)
            present = states.at(chosen)
            self._propose(rows[chosen], present, expand_isr(present.isr, joining, scala))

    def _serving(self) -> BoolArray:
        """Return which brokers run and are not paused, as a mask over ids."""
        serving = self._epochs.alive
        if self._process.scheduler.paused:
            serving = serving.copy()
            serving[[b for b, broker in self._brokers.items() if broker.process.paused]] = False
        return serving

    # -- proposals

    def _propose(self, rows: IntArray, states: States, isr: IntArray) -> None:
        """Let leaders propose ISRs to the controller.

        Args:
            rows: int32[k].
            states: k states that the leaders know.
            isr: int32[k, w], the proposed ISRs.
        """
        self._manager.set_pending(rows, True)
        proposals = Proposals(
            self._table.partitions(rows),
            states.leader,
            self._epochs.of(states.leader),
            states.leader_epoch,
            isr,
            states.version,
            np.zeros(len(rows), dtype=np.bool_),
        )
        self._process.spawn(self._alter_isrs(rows, proposals), "ISR proposals")

    async def _alter_isrs(self, rows: IntArray, proposals: Proposals) -> None:
        while len(rows):
            controller, altered = self._metadata.controller_id, None
            if controller is not None:
                try:
                    altered = await self._connections.call(
                        self._process, f"broker {controller}", AlterPartitions(proposals)
                    )
                except Disconnected:
                    altered = None
            again = np.arange(len(rows)) if altered is None else self._handle_results(rows, proposals, altered)
            rows, proposals = rows[again], proposals.at(again)
            if len(rows):
                await self._process.sleep(RETRY_PAUSE_US)
                still = np.flatnonzero(self._are_pending(rows, proposals))
                rows, proposals = rows[still], proposals.at(still)

    def _are_pending(self, rows: IntArray, proposals: Proposals) -> BoolArray:
        """Return which proposals are those of the present leader, in the same leader epoch and broker epoch."""
        accepted = self._manager.leaders_at(rows)
        leader, epoch = accepted.by(proposals.leader, self._table.replicas_at(rows))
        pending: BoolArray = (
            (accepted.pending != 0)
            & (leader == proposals.leader)
            & (epoch == proposals.leader_epoch)
            & (self._epochs.of(proposals.leader) == proposals.broker_epoch)
        )
        return pending

    def _handle_results(self, rows: IntArray, proposals: Proposals, altered: AlteredPartitions) -> IntArray:
        """Handle the result of each proposal; return the places of those to be retried."""
        if altered.error != Error.NONE:
            return np.arange(len(rows), dtype=np.int32)
        refused = np.flatnonzero(altered.errors)
        if len(refused):
            errors = [ERRORS[code] for code in altered.errors[refused].tolist()]
            self._history.record_later(partial(_refusals, proposals.at(refused), errors))
        outcomes, pending = _OUTCOMES[altered.errors], self._are_pending(rows, proposals)
        committed, reverted = pending & (outcomes == Outcome.COMMITTED), pending & (outcomes == Outcome.REVERTED)
        self._table.put_all(rows[committed], _of_width(altered.states.where(committed), self._table.width))
        self._manager.set_pending(rows[committed | reverted], False)
        self._fetch_after_refusal(rows, proposals, reverted)
        return np.flatnonzero(pending & (outcomes == Outcome.RETRY)).astype(np.int32)

    def _fetch_after_refusal(self, rows: IntArray, proposals: Proposals, reverted: BoolArray) -> None:
        """Let followers fetch again that the controller did not accept, because it took them for dead."""
        if not reverted.any():
            return
        joining = np.where(contained(proposals.isr, self._table.isr[rows]), NONE, proposals.isr)
        for place in range(joining.shape[1]):
            late = reverted & (joining[:, place] != NONE)
            self._fetch_again(rows[late], joining[late, place])


class EmptyReplicasOfBroker:
    """Control requests that one broker gets by itself, not in a batch."""

    def __init__(self, replicas: EmptyReplicas, broker: int) -> None:
        self._replicas = replicas
        self._broker = broker

    def lead_and_follow(self, request: LeaderAndIsrRequest) -> ControlResponse:
        """Become leader or follower."""
        assert isinstance(request.updates, PartitionUpdates)
        self._replicas.lead_and_follow(request.updates, request.updates.replicas == self._broker)
        return ControlResponse(Error.NONE, {})

    def stop(self, request: StopReplicaRequest) -> ControlResponse:
        """Stop replicas."""
        assert isinstance(request.stops, ReplicaStops)
        self._replicas.stop(self._broker, request.stops)
        return ControlResponse(Error.NONE, {})

    def start_timers(self) -> None:
        """Do nothing: an empty log never lags, and its high watermark never rises."""


def _by_follower(rows: IntArray, followers: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each follower with its rows, by ascending id."""
    if not len(rows) or (followers == followers[0]).all():
        yield from [(int(broker), rows) for broker in followers[:1]]
        return
    for broker in np.unique(followers).tolist():
        yield broker, rows[followers == broker]


def _refusals(proposals: Proposals, errors: list[Error], at_us: int) -> Iterator[Event]:
    """Yield an event for each refused proposal."""
    columns = zip(proposals.partitions.names(), unpack(proposals.isr), proposals.leader.tolist(), errors, strict=True)
    for (topic, number), isr, leader, error in sorted(columns, key=lambda refused: refused[0]):
        proposed = f"isr {list(isr)}"
        yield Event(at_us, f"broker {leader}", "ISR change refused", f"{topic}-{number}", proposed, error.value)


def _of_width(states: States, width: int) -> States:
    return states._replace(isr=widen(states.isr, width)[:, :width])
