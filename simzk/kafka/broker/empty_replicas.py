"""Replicas without records, for clusters of any size: followers that join ISRs, and batched requests.

Rules of this module (those of `replica_logs` and `fetching` where all logs are empty):
  - a follower in the ISR has the whole log and stays; any other fetches once, and its leader proposes to add it to the
    ISR. If the leader cannot serve it yet, the follower fetches again after `replica.fetch.backoff.ms`;
  - a broker that is shutting down follows no new leader;
  - a controller sends its requests to all brokers as one message (`ControlBatch`), and leaders send their proposals as
    one message. A paused broker handles its part when it is resumed, a starting one when its start is over, a dead one
    never;
  - all these brokers share one metadata cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka.broker.isr_changes import RETRY_PAUSE_US, LeaderIsrs, call_controller
from simzk.kafka.metadata.cache import MetadataCache
from simzk.kafka.metadata.changes import PartitionUpdates, Proposals, ReplicaStops
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import (
    AlteredPartitions,
    AlterPartitions,
    ControlBatch,
    ControlResponse,
)
from simzk.partitions.arrays import NONE, among, any_of, contained, count_of, unpack, widen
from simzk.simulation.history import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simzk.jvm.scala_collections import Scala
    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.broker.replica_manager import NewLeaders, ReplicaManager
    from simzk.kafka.metadata.changes import PartitionUpdate, ReplicaStop
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.rpc import Connections
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.simulation import History, Network, Process

ADDRESS = "brokers"
"""The name of all these brokers on the network."""
BACKOFF_US = 1_000_000
"""`replica.fetch.backoff.ms`: 1 s by default."""


@dataclass(eq=False)
class EmptyReplicas:
    """Replicas without records of all brokers of a cluster.

    Args:
        process: where proposals wait for their responses.
        history: records refused proposals.
        brokers: the brokers by id; the cluster adds them after this object is made.
    """

    _process: Process
    _network: Network
    _connections: Connections
    _history: History
    _manager: ReplicaManager
    _brokers: Mapping[int, Broker]
    _scala: Scala

    def __post_init__(self) -> None:
        self._table = self._manager.table
        self._epochs = self._manager.epochs
        self._metadata = MetadataCache(forgets=True)
        self._isrs = LeaderIsrs(self, self._scala, lambda broker: broker in self._metadata.live_brokers)

    def metadata_cache(self, _version: KafkaVersion) -> MetadataCache:
        return self._metadata

    def control_handler_of(self, broker: int, _replicas: object) -> EmptyReplicasOfBroker:
        return EmptyReplicasOfBroker(self, self._manager, broker)

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
            self._metadata.update(batch.controller_id, (), batch.live_brokers, {})
        running = np.ones(len(batch.brokers), dtype=np.bool_)
        if self._process.scheduler.paused or self._epochs.starting:
            for place, broker in enumerate(batch.brokers.tolist()):
                found = self._brokers.get(broker)
                if found is not None and found.alive and (found.paused or not found.handles_requests):
                    running[place] = False
                    handle = partial(self._handle_batch, np.array([place]), batch)
                    found.process.deliver(partial(found.call_when_started, handle))
        self._handle_batch(np.flatnonzero(running), batch)

    def _handle_batch(self, places: NDArray[np.intp], batch: ControlBatch) -> None:
        """Handle a batch at some of its target brokers."""
        assert len(batch.brokers) == len(batch.broker_epochs)
        accepting = self._epochs.accepting(batch.brokers[places], batch.broker_epochs[places], batch.controller_epoch)
        for updates, named in batch.parts:
            concerned = named & among(updates.replicas, accepting)
            if concerned.any():
                self.lead_and_follow(updates, concerned)
        for broker, stops in batch.stops.items():
            if accepting.take(broker, mode="clip"):
                self._manager.stop(broker, stops)

    def lead_and_follow(self, updates: PartitionUpdates, named: BoolArray) -> None:
        """Handle LeaderAndIsr requests for the named replicas, bool[k, w] by place in the assignment.

        A replica accepts none without a leader that is alive (see `replica_logs`).
        """
        leader = updates.states.leader
        live = np.isin(leader, list(self._metadata.live_brokers))
        new = self._manager.accept(updates, named & (live[:, None] | (updates.replicas == leader[:, None])))
        if new is not None:
            self._become_leaders(new)
            self._become_followers(new)

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

    def consider_again(self, rows: IntArray, followers: IntArray) -> None:
        """Let followers fetch again after the backoff."""
        for broker, followed in _by_follower(rows, followers):
            self._brokers[broker].process.call_later(BACKOFF_US, partial(self._fetch, broker, followed))

    def _fetch(self, follower: int, rows: IntArray) -> None:
        self._network.send(f"broker {follower}", ADDRESS, lambda: self._handle_fetch(follower, rows))

    def _handle_fetch(self, follower: int, rows: IntArray) -> None:
        """Let leaders serve a fetch; they accept it in the leader epoch that they have accepted themselves."""
        if not self._brokers[follower].alive:
            return
        replicas, accepted = self._table.replicas_at(rows), self._manager.leaders.at(rows)
        leader, epoch = accepted.by(np.full(len(rows), follower, dtype=np.int32), replicas)
        leader_of_leader, epoch_of_leader = accepted.by(leader, replicas)
        serves = (leader_of_leader == leader) & (epoch_of_leader == epoch)
        serves &= self._serving().take(leader, mode="clip")
        follows = (leader != NONE) & (leader != follower)
        self._isrs.expand(rows[follows], follower, serves[follows])

    def _serving(self) -> BoolArray:
        """Return which brokers handle requests and are not paused, as a mask over ids."""
        serving = self._epochs.alive
        if self._process.scheduler.paused or self._epochs.starting:
            serving = serving.copy()
            serving[list(self._epochs.starting)] = False
            serving[[b for b, broker in self._brokers.items() if broker.process.paused]] = False
        return serving

    # -- replicas by row, for `LeaderIsrs`

    def states(self, rows: IntArray) -> States:
        return self._table.states(rows)

    def are_waiting(self, rows: IntArray) -> BoolArray:
        waiting: BoolArray = self._manager.leaders.at(rows).pending != 0
        return waiting

    def are_pending(self, rows: IntArray, proposals: Proposals) -> BoolArray:
        """Return which proposals are those of the present leaders, in their leader epochs and broker epochs."""
        assert len(rows) == len(proposals.leader)
        accepted = self._manager.leaders.at(rows)
        leader, epoch = accepted.by(proposals.leader, self._table.replicas_at(rows))
        pending: BoolArray = (
            (accepted.pending != 0)
            & (leader == proposals.leader)
            & (epoch == proposals.leader_epoch)
            & (self._epochs.of(proposals.leader) == proposals.broker_epoch)
        )
        return pending

    def have_caught_up(self, rows: IntArray, _follower: int) -> BoolArray:
        return np.ones(len(rows), dtype=np.bool_)

    def propose(self, rows: IntArray, states: States, isr: IntArray) -> None:
        """Send proposals of many leaders as one message."""
        assert len(rows) == len(states.leader) == len(isr)
        self._manager.leaders.set_pending(rows, True)
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
        """Send proposals until none is to be retried; skip those that became obsolete meanwhile."""
        while len(rows):
            assert len(rows) == len(proposals.leader)
            request = AlterPartitions(proposals)
            altered: AlteredPartitions | None = await call_controller(
                self._process, self._connections, self._metadata.controller_id, request
            )
            again = np.arange(len(rows), dtype=np.int32)
            if altered is not None and altered.error == ErrorCode.NONE:
                assert len(altered.errors) == len(rows), "each proposal has a result"
                self._record_refusals(proposals, altered)
                again = self._isrs.handle_results(rows, proposals, altered)
            rows, proposals = rows[again], proposals.at(again)
            if len(rows):
                await self._process.sleep(RETRY_PAUSE_US)
                still = np.flatnonzero(self.are_pending(rows, proposals))
                rows, proposals = rows[still], proposals.at(still)

    def _record_refusals(self, proposals: Proposals, altered: AlteredPartitions) -> None:
        assert len(altered.errors) == len(proposals.leader)
        refused = np.flatnonzero(altered.errors)
        if len(refused):
            errors = [ErrorCode(code) for code in altered.errors[refused].tolist()]
            self._history.record_later(partial(_refusals, proposals.at(refused), errors))

    def end_proposals(self, rows: IntArray) -> None:
        self._manager.leaders.set_pending(rows, False)

    def commit(self, rows: IntArray, states: States) -> None:
        """Apply states that the controller wrote."""
        assert len(rows) == len(states.leader)
        width = self._table.width
        self._table.put_all(rows, states._replace(isr=widen(states.isr, width)[:, :width]))
        self._manager.leaders.set_pending(rows, False)


@dataclass(eq=False)
class EmptyReplicasOfBroker:
    """Control requests that one broker gets by itself, not in a batch."""

    _replicas: EmptyReplicas
    _manager: ReplicaManager
    _broker: int

    def lead_and_follow(self, updates: Sequence[PartitionUpdate], _topic_ids: Mapping[str, str]) -> ControlResponse:
        assert isinstance(updates, PartitionUpdates)
        self._replicas.lead_and_follow(updates, updates.replicas == self._broker)
        return ControlResponse(ErrorCode.NONE, {})

    def stop(self, stops: Sequence[ReplicaStop]) -> ControlResponse:
        assert isinstance(stops, ReplicaStops)
        self._manager.stop(self._broker, stops)
        return ControlResponse(ErrorCode.NONE, {})

    def start_timers(self) -> None:
        """Do nothing: an empty log never lags, and its high watermark never rises."""


def _by_follower(rows: IntArray, followers: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each follower with its rows, by ascending id."""
    assert len(rows) == len(followers)
    if not len(rows) or (followers == followers[0]).all():
        yield from [(int(broker), rows) for broker in followers[:1]]
        return
    for broker in np.unique(followers).tolist():
        yield broker, rows[followers == broker]


def _refusals(proposals: Proposals, errors: list[ErrorCode], at_us: int) -> Iterator[Event]:
    """Yield an event for each refused proposal."""
    columns = zip(proposals.partitions.names(), unpack(proposals.isr), proposals.leader.tolist(), errors, strict=True)
    for (topic, number), isr, leader, error in sorted(columns, key=lambda refused: refused[0]):
        proposed = f"isr {list(isr)}"
        yield Event(at_us, f"broker {leader}", "ISR change refused", f"{topic}-{number}", proposed, error.name)
