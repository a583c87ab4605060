"""The replicas of a large cluster's brokers as rows of one table: what each believes it is to do, and who joins ISRs.

Rules of the module (those of `replica_manager` and `fetching`, as far as replicas without records go):
  - an order is taken only from a controller that is not behind, for the life that a broker lives now, and for a replica
    only with a leader epoch beyond the one that it has;
  - logs are empty: a follower in the ISR has all there is, and stays; one that is not in it fetches once from its
    leader, which then asks the controller for it; who cannot be served yet tries again after a second;
  - a broker that stops follows nobody anew;
  - what a controller tells many brokers at once is one message (`Orders`), and so are the proposals of their leaders.
    A paused broker gets its part when it runs again, a dead one never;
  - what all these brokers know of who lives is one cache.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka.broker.beliefs import Beliefs
from simzk.kafka.broker.lives import Lives
from simzk.kafka.broker.metadata_cache import MetadataCache
from simzk.kafka.isr_columns import CODE_OF, ERRORS, AlteredPartitions, AlterPartitions, Proposals
from simzk.kafka.requests import (
    Error,
    LeaderAndIsrRequest,
    Orders,
    PartitionUpdates,
    ReplicaStops,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from simzk.kafka.rpc import Connections, Disconnected
from simzk.partitions.arrays import NONE, among, any_of, contained, count_of, taken, unpack, widen
from simzk.partitions.table import PartitionTable
from simzk.partitions.transitions import expand_isr
from simzk.simulation.history import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from simzk.kafka.broker.broker import Broker
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.simulation import History, Network, Process

ADDRESS = "brokers"
"""The name of them all on the network."""
BACKOFF_US = 1_000_000
"""`replica.fetch.backoff.ms`: 1 s by default."""
RETRY_PAUSE_US = 50_000


class LightReplicas:
    """All replicas of the brokers of one cluster.

    Args:
        process: where their proposals wait for answers.
        network: between brokers.
        connections: the way to the controller.
        history: where refused proposals are told.
    """

    def __init__(self, process: Process, network: Network, connections: Connections, history: History) -> None:
        self._process = process
        self._network = network
        self._connections = connections
        self._history = history
        self._brokers: Mapping[int, Broker] = {}
        self._lives = Lives({})
        self.table = PartitionTable()
        self._beliefs = Beliefs(self.table.width)
        # Which table says the same of all assignments, and how often it and this one had been changed when it did.
        self._agreed: tuple[tuple[PartitionTable, int], int] | None = None
        self.metadata = MetadataCache(forgets=True)

    def serve_for(self, brokers: Mapping[int, Broker]) -> None:
        """Whose replicas they are."""
        self._brokers = brokers
        self._lives = Lives(brokers)

    def note_life(self, broker: int) -> None:
        """A broker's process began, or it has another epoch."""
        self._lives.note(broker)

    def forget(self, broker: int) -> None:
        """A broker's process is gone, and with it what it believed."""
        self._lives.note(broker)
        rows = self.table.rows_with_replica(broker)
        believed, mine = self._beliefs.at(rows), self._assigned(rows) == broker
        for column in (believed.epoch, believed.leader):
            np.copyto(column, np.int32(NONE), where=mine)
        self._beliefs.put(rows, believed)

    # -- what the controller orders

    def deaf(self, source: str, brokers: Iterable[int]) -> set[int]:
        """To which brokers the way is disturbed, so that they cannot be told with the others."""
        if self._network.is_undisturbed:
            return set()
        return {broker for broker in brokers if not self._network.is_clear(source, f"broker {broker}")}

    def send(self, source: str, orders: Orders) -> None:
        """Tell brokers what a controller orders, in one message."""
        self._network.send(source, ADDRESS, lambda: self._arrive(orders))

    def _arrive(self, orders: Orders) -> None:
        self.metadata.update(
            UpdateMetadataRequest(orders.controller_id, orders.controller_epoch, 0, (), orders.live_brokers)
        )
        running = np.ones(len(orders.brokers), dtype=np.bool_)
        if self._process.scheduler.paused:
            for place, broker in enumerate(orders.brokers.tolist()):
                if (found := self._brokers.get(broker)) is not None and found.process.paused:
                    running[place] = False
                    found.process.deliver(partial(self._follow, np.array([place]), orders))
        self._follow(np.flatnonzero(running), orders)

    def _follow(self, places: NDArray[np.intp], orders: Orders) -> None:
        """Some of the brokers that orders are meant for do what they are told."""
        told = orders.brokers[places], orders.broker_epochs[places]
        obeying = self._lives.obey(*told, orders.controller_epoch)
        for updates, named in orders.parts:
            concerned = named & among(updates.replicas, obeying)
            if concerned.any():
                self._lead_and_follow(updates, concerned)
        for broker, stops in orders.stops.items():
            if obeying.take(broker, mode="clip"):
                self._stop(broker, stops)

    def serve(self, broker: int, request: LeaderAndIsrRequest | StopReplicaRequest) -> Error:
        """One broker was told by itself."""
        if not self._lives.obeys(broker, request.controller_epoch):
            return Error.STALE_CONTROLLER_EPOCH
        if isinstance(request, LeaderAndIsrRequest):
            assert isinstance(request.updates, PartitionUpdates)
            self._lead_and_follow(request.updates, request.updates.replicas == broker)
        else:
            assert isinstance(request.stops, ReplicaStops)
            self._stop(broker, request.stops)
        return Error.NONE

    def _lead_and_follow(self, updates: PartitionUpdates, told: BoolArray) -> None:
        concerned = np.flatnonzero(any_of(told))
        if len(concerned) < len(told):
            updates, told = updates.at(concerned), taken(told, concerned)
        rows, replicas = self._rows(updates)
        states, believed = updates.states, self._beliefs.at(rows)
        accepted = _padded(told, replicas.shape[1]) & (states.leader_epoch[:, None] > believed.epoch)
        news = np.flatnonzero(any_of(accepted))
        if len(news) < len(rows):
            rows, replicas, accepted = rows[news], taken(replicas, news), taken(accepted, news)
            states, believed = states.at(news), believed.at(news)
        if not len(rows):
            return
        leader = states.leader[:, None]
        np.copyto(believed.epoch, states.leader_epoch[:, None], where=accepted)
        np.copyto(believed.leader, leader, where=accepted)
        is_leader = replicas == leader
        leads = any_of(accepted & is_leader)
        believed.proposed[leads] = False
        self._beliefs.put(rows, believed)
        leading = np.flatnonzero(leads)
        self.table.put_all(rows[leading], states.where(leads))
        recovering = leading[states.recovering[leading]]
        if len(recovering):
            standing = states.at(recovering)
            self._propose(rows[recovering], standing, standing.isr)
        following = accepted & (replicas != NONE) & ~is_leader & (leader != NONE) & ~contained(replicas, states.isr)
        self._fetch_anew(np.repeat(rows, count_of(following)), replicas[following])

    def _rows(self, updates: PartitionUpdates) -> tuple[IntArray, IntArray]:
        """The rows of partitions, new ones made, and the assignments of now, under which they stand from here on."""
        rows = self.table.find_all(updates.partitions)
        new = np.flatnonzero(rows == NONE)
        if len(new):
            names = updates.partitions.at(new)
            numbers, topic = np.unique(names.topic, return_inverse=True)
            topics = [names.topics[number] for number in numbers.tolist()]
            rows[new] = self.table.extend(topics, topic.astype(np.int32), names.partition, updates.replicas[new])
        self._reach()
        assigned = widen(updates.replicas, self.table.width)  # wider where one has more replicas than any had here
        if self._agreed == (updates.source, self.table.assignments):
            return rows, assigned[:, : self.table.width]
        moved = np.flatnonzero(any_of(widen(self._assigned(rows), assigned.shape[1]) != assigned))
        for place, replicas in zip(moved.tolist(), unpack(updates.replicas[moved]), strict=True):
            self._move(int(rows[place]), replicas)
        if len(rows) == len(self.table):
            self._agreed = updates.source, self.table.assignments
        return rows, self._assigned(rows) if len(moved) else assigned[:, : self.table.width]

    def _reach(self) -> None:
        self._beliefs.grow(len(self.table.topic), self.table.width)

    def _move(self, row: int, replicas: tuple[int, ...]) -> None:
        """A partition is assigned to others: what a replica believes stays with its broker."""
        rows = np.array([row], dtype=np.int32)
        before, believed = self.table.replicas_of(row), self._beliefs.at(rows)
        self.table.set_assignment(row, replicas)
        self._reach()
        after = self._beliefs.at(rows)
        after.epoch[:] = after.leader[:] = NONE
        for place, broker in enumerate(replicas):
            if broker in before:
                at = before.index(broker)
                after.epoch[0, place], after.leader[0, place] = believed.epoch[0, at], believed.leader[0, at]
        self._beliefs.put(rows, after)

    def _stop(self, broker: int, stops: ReplicaStops) -> None:
        """Without a leader a replica neither leads nor follows; its epoch stays, but for one that is deleted."""
        rows = self.table.find_all(stops.partitions)
        known = np.flatnonzero(rows != NONE)
        rows, epochs, delete = rows[known], stops.leader_epoch[known], stops.delete[known]
        believed = self._beliefs.at(rows)
        mine = self._assigned(rows) == broker
        mine &= ~((epochs >= 0)[:, None] & (epochs[:, None] < believed.epoch))
        forgets = mine & delete[:, None]
        if (mine & (believed.leader != NONE)).any() or forgets.any():  # else it has stopped before
            np.copyto(believed.leader, np.int32(NONE), where=mine)
            np.copyto(believed.epoch, np.int32(NONE), where=forgets)
            self._beliefs.put(rows, believed)

    # -- followers join ISRs

    def _fetch_anew(self, rows: IntArray, followers: IntArray) -> None:
        """Followers that are not in sync ask the leaders that they have just been told."""
        for broker, held in _by_follower(rows, followers):
            if not self._brokers[broker].stopping:
                self._fetch(broker, held)

    def _fetch_again(self, rows: IntArray, followers: IntArray) -> None:
        """Followers that are not in sync ask their leaders after a while."""
        for broker, held in _by_follower(rows, followers):
            process = self._brokers[broker].process
            process.call_later(BACKOFF_US, lambda b=broker, held=held: self._fetch(b, held))  # type: ignore[misc]

    def _fetch(self, follower: int, rows: IntArray) -> None:
        self._network.send(f"broker {follower}", ADDRESS, lambda: self._fetched(follower, rows))

    def _fetched(self, follower: int, rows: IntArray) -> None:
        """Leaders hear of a follower that has all they have."""
        if not self._brokers[follower].alive:
            return
        (replicas, states), believed = self.table.replicas_and_states(rows), self._beliefs.at(rows)
        leader, epoch = believed.by(np.full(len(rows), follower, dtype=np.int32), replicas)
        wanted = (leader != NONE) & (leader != follower) & ~any_of(states.isr == follower)
        its_leader, its_epoch = believed.by(leader, replicas)
        ready = (its_leader == leader) & (its_epoch == epoch) & (believed.proposed == 0)
        ready &= self._serving().take(leader, mode="clip")
        ready &= follower in self.metadata.live_brokers
        late = rows[wanted & ~ready]
        self._fetch_again(late, np.full(len(late), follower, dtype=np.int32))
        chosen = np.flatnonzero(wanted & ready)
        if len(chosen):
            scala = self._brokers[follower].version.orders.scala
            joining = np.full(len(chosen), follower, dtype=np.int32)
            standing = states.at(chosen)
            self._propose(rows[chosen], standing, expand_isr(standing.isr, joining, scala))

    def _serving(self) -> BoolArray:
        """Who lives and is not paused: bool[m] over broker ids."""
        serving = self._lives.alive
        if self._process.scheduler.paused:
            serving = serving.copy()
            serving[[b for b, broker in self._brokers.items() if broker.process.paused]] = False
        return serving

    def _assigned(self, rows: IntArray) -> IntArray:
        """The assignments of some rows."""
        return self.table.replicas_at(rows)

    # -- proposals

    def _propose(self, rows: IntArray, states: States, isr: IntArray) -> None:
        """Leaders ask the controller for other ISRs than those of the states that they know."""
        self._beliefs.propose(rows, True)
        proposals = Proposals(
            self.table.partitions(rows),
            states.leader,
            self._lives.epochs(states.leader),
            states.leader_epoch,
            isr,
            states.version,
            np.zeros(len(rows), dtype=np.bool_),
        )
        self._process.spawn(self._ask(rows, proposals), "ISR proposals")

    async def _ask(self, rows: IntArray, proposals: Proposals) -> None:
        while len(rows):
            controller, altered = self.metadata.controller_id, None
            if controller is not None:
                try:
                    altered = await self._connections.call(
                        self._process, f"broker {controller}", AlterPartitions(proposals)
                    )
                except Disconnected:
                    altered = None
            again = np.arange(len(rows)) if altered is None else self._take(rows, proposals, altered)
            rows, proposals = rows[again], proposals.at(again)
            if len(rows):
                await self._process.sleep(RETRY_PAUSE_US)
                still = np.flatnonzero(self._stand(rows, proposals))
                rows, proposals = rows[still], proposals.at(still)

    def _stand(self, rows: IntArray, proposals: Proposals) -> BoolArray:
        """Which proposals are still those of who leads in that epoch, and has the life in which it asked."""
        believed = self._beliefs.at(rows)
        leader, epoch = believed.by(proposals.leader, self._assigned(rows))
        stand: BoolArray = (
            (believed.proposed != 0)
            & (leader == proposals.leader)
            & (epoch == proposals.leader_epoch)
            & (self._lives.epochs(proposals.leader) == proposals.broker_epoch)
        )
        return stand

    def _take(self, rows: IntArray, proposals: Proposals, altered: AlteredPartitions) -> IntArray:
        """Hand the results on; the places of what is to be sent again."""
        if altered.error != Error.NONE:
            return np.arange(len(rows), dtype=np.int32)
        refused = np.flatnonzero(altered.errors)
        if len(refused):
            errors = [ERRORS[code] for code in altered.errors[refused].tolist()]
            self._history.record_later(partial(_refusals, proposals.at(refused), errors))
        stand = self._stand(rows, proposals)
        done = stand & (altered.errors == 0)
        self.table.put_all(rows[done], _of_width(altered.states.where(done), self.table.width))
        again = stand & np.isin(altered.errors, _SENT_AGAIN)
        self._beliefs.propose(rows[stand & ~again], False)
        self._join_again(rows, proposals, stand & (altered.errors == CODE_OF[Error.INELIGIBLE_REPLICA]))
        return np.flatnonzero(again).astype(np.int32)

    def _join_again(self, rows: IntArray, proposals: Proposals, refused: BoolArray) -> None:
        """Who could not join because the controller did not know it to live asks again."""
        if not refused.any():
            return
        joining = np.where(contained(proposals.isr, self.table.isr[rows]), NONE, proposals.isr)
        for place in range(joining.shape[1]):
            late = refused & (joining[:, place] != NONE)
            self._fetch_again(rows[late], joining[late, place])

    def check(self) -> None:
        """Assert every invariant."""
        self.table.check()
        self._lives.check()
        leader = self._beliefs.leader[: len(self.table.topic)]
        assert (leader[self.table.replicas[: len(leader)] == NONE] == NONE).all()


_SENT_AGAIN = [CODE_OF[error] for error in (Error.NOT_CONTROLLER, Error.STALE_BROKER_EPOCH, Error.UNKNOWN_SERVER_ERROR)]
"""After any other error nothing is asked for any more until the controller orders anew."""


def _by_follower(rows: IntArray, followers: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The rows of each follower, ascending."""
    if not len(rows) or (followers == followers[0]).all():
        yield from [(int(broker), rows) for broker in followers[:1]]
        return
    for broker in np.unique(followers).tolist():
        yield broker, rows[followers == broker]


def _padded(mask: BoolArray, width: int) -> BoolArray:
    missing = width - mask.shape[1]
    return mask[:, :width] if missing <= 0 else np.pad(mask, ((0, 0), (0, missing)))


def _refusals(proposals: Proposals, errors: list[Error], at_us: int) -> Iterator[Event]:
    """What the history says of proposals that came to nothing."""
    columns = zip(proposals.partitions.names(), unpack(proposals.isr), proposals.leader.tolist(), errors, strict=True)
    for (topic, number), isr, leader, error in sorted(columns, key=lambda refused: refused[0]):
        asked = f"isr {list(isr)}"
        yield Event(at_us, f"broker {leader}", "ISR change refused", f"{topic}-{number}", asked, error.value)


def _of_width(states: States, width: int) -> States:
    return states._replace(isr=widen(states.isr, width)[:, :width])
