"""Reference controller, written from the tables of docs/reference/kafka.md §2 alone, slow and obvious.

Brokers, topics and states are dictionaries, every step is sequential, and there is no ZooKeeper. Results that depend
on timing are inputs: the winner of a controller election, and the order in which followers rejoin an ISR.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Partition = tuple[str, int]
Replica = tuple[str, int, int]
Number = tuple[int, int, int]

NEW, ONLINE, OFFLINE, GONE = "new", "online", "offline", "non-existent"
STARTED, SUCCESSFUL, INELIGIBLE = "deletion started", "deletion successful", "deletion ineligible"


def entered_from(version: Number) -> dict[str, tuple[str, ...]]:
    """Return the valid previous states of each replica state (§2.4)."""
    if version < (0, 8, 1):
        return {NEW: (GONE,), ONLINE: (NEW, ONLINE, OFFLINE), OFFLINE: (NEW, ONLINE), GONE: (OFFLINE,)}
    return {
        NEW: (GONE,),
        ONLINE: (NEW, ONLINE, OFFLINE, INELIGIBLE),
        OFFLINE: (NEW, ONLINE, OFFLINE, INELIGIBLE),
        STARTED: (OFFLINE,),
        SUCCESSFUL: (STARTED,),
        INELIGIBLE: (STARTED, OFFLINE) if version >= (2, 3, 0) else (STARTED,),
        GONE: (SUCCESSFUL,),
    }


class State(NamedTuple):
    """Contents of a partition's `state` znode."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int
    controller_epoch: int


@dataclass
class Reference:
    """Controller of a cluster, with the states that it wrote.

    Args:
        version: Kafka version, as docs/reference/kafka.md names releases.
        unclean: `unclean.leader.election.enable`.

    Attributes:
        cached: states in the cache of the controller.
        arriving: replicas of 0.8.0 that no assignment lists yet, with the leader of their LeaderAndIsr request; they
            do not learn of a later leader.
        silent: brokers that are registered but do nothing any more.
        fenced: replicas with an older leader epoch than their leader, which fences them (2.1 to 2.3, KAFKA-9212).
    """

    version: Number
    unclean: bool
    live: set[int] = field(default_factory=set)
    leaving: set[int] = field(default_factory=set)
    epoch: int = 0
    assignment: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    targets: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    origins: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    states: dict[Partition, State] = field(default_factory=dict)
    cached: dict[Partition, State] = field(default_factory=dict)
    partitions: dict[Partition, str] = field(default_factory=dict)
    replicas: dict[Replica, str] = field(default_factory=dict)
    deleted: dict[str, None] = field(default_factory=dict)
    ineligible: set[str] = field(default_factory=set)
    arriving: dict[Replica, int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    fenced: set[Replica] = field(default_factory=set)

    # -- events of the cluster

    def fail_over(self) -> None:
        """Become controller (§2.3) and read everything again."""
        self.epoch += 1
        self.leaving = set()
        every = [(*p, broker) for p, brokers in self.assignment.items() for broker in brokers]
        dead = [replica for replica in every if replica[2] not in self.live]
        self.ineligible = {replica[0] for replica in dead if replica[0] in self.deleted}
        self.ineligible |= {topic for topic, _ in self.targets if topic in self.deleted}
        self.cached = dict(self.states)
        self.fenced = set()
        found_dead = INELIGIBLE if self.version >= (0, 8, 1) else OFFLINE
        self.replicas = {replica: found_dead if replica in dead else ONLINE for replica in every}
        if self.version >= (2, 3, 0):
            self.move(dead, OFFLINE)
        self.partitions = {p: self.first_state(p) for p in self.assignment}
        self.elect_waiting()
        for partition, target in list(self.targets.items()):
            unneeded = self.assignment[partition] == target or partition[0] in self.deleted
            dead_target = self.version < (0, 10, 1) and not all(self.is_live(broker) for broker in target)
            if self.version < (2, 4, 0) and (unneeded or dead_target):
                del self.targets[partition]
            else:
                self.reassign(partition, target)
        self.resume_deletions()

    def first_state(self, partition: Partition) -> str:
        state = self.states.get(partition)
        if state is None:
            return NEW
        return ONLINE if self.is_live(state.leader) else OFFLINE

    def broker_started(self, broker: int) -> None:
        """Handle a broker that started (§2.7, onBrokerStartup)."""
        self.live.add(broker)
        here = [(*p, broker) for p, brokers in self.assignment.items() if broker in brokers]
        self.move(here, ONLINE)
        self.send_cached(here)
        self.elect_waiting()
        for partition, target in list(self.targets.items()):
            if broker in target:
                self.reassign(partition, target)
        waiting = {topic for topic, _, _ in here if topic in self.deleted}
        if waiting:
            self.ineligible -= waiting
            self.resume_deletions()

    def broker_failed(self, broker: int) -> None:
        """Handle a broker that died (§2.7, onBrokerFailure)."""
        self.live.discard(broker)
        self.leaving.discard(broker)
        self.arriving = {replica: leader for replica, leader in self.arriving.items() if replica[2] != broker}
        self.fenced = {replica for replica in self.fenced if replica[2] != broker}
        for partition, state in self.states.items():
            if partition[0] not in self.deleted and not self.is_live(state.leader):
                self.partitions[partition] = OFFLINE
        self.elect_waiting()
        here = [(*p, broker) for p, brokers in self.assignment.items() if broker in brokers]
        self.move([replica for replica in here if replica[0] not in self.deleted], OFFLINE)
        failed = [replica for replica in here if replica[0] in self.deleted]
        if failed:
            self.move(failed, INELIGIBLE)
            self.ineligible |= {replica[0] for replica in failed}
            self.resume_deletions()

    def shut_down(self, broker: int, rejoined: Iterable[Partition] = ()) -> None:
        """Handle a controlled shutdown (§2.14): up to three requests while the broker still leads a partition.

        Where leaders write ISRs, they may add the broker as a follower again after the first request.
        """
        for attempt in range(3):
            still = self.move_away_from(broker)
            for partition in rejoined if attempt == 0 else ():
                self.take_in(partition, broker)
            if not still:
                return

    def take_in(self, partition: Partition, broker: int) -> None:
        """Add a follower to the ISR, as its leader does, or from 2.7 on the controller."""
        state = self.states[partition]
        written_by = self.epoch if self.version >= (2, 7, 0) else state.controller_epoch
        self.states[partition] = state._replace(isr=(*state.isr, broker), controller_epoch=written_by)

    def move_away_from(self, broker: int) -> bool:
        """Return whether the broker still leads a partition with several replicas."""
        self.leaving.add(broker)
        still = False
        for partition, brokers in self.assignment.items():
            state = self.states.get(partition)
            alone = len(brokers) == 1
            if broker not in brokers or state is None or partition[0] in self.deleted:
                continue
            if alone and self.version >= (0, 8, 1):
                continue
            if state.leader == broker:
                self.elect(partition, "shutdown")
                still |= self.states[partition].leader == broker and not alone
            else:
                self.move([(*partition, broker)], OFFLINE)
        return still

    def create(self, topic: str, partitions: Mapping[int, Sequence[int]]) -> None:
        """Create a topic, or add partitions to it (§2.9)."""
        new = {(topic, number): tuple(brokers) for number, brokers in partitions.items()}
        self.assignment |= new
        replicas = [(*p, broker) for p, brokers in new.items() for broker in brokers]
        for partition in new:
            self.partitions[partition] = NEW
        self.move(replicas, NEW)
        for partition in new:
            self.bring_online(partition)
        self.move(replicas, ONLINE)

    def elect_preferred(self) -> None:
        """Elect the preferred replicas of all partitions on request (§2.12)."""
        for partition in list(self.assignment):
            state = self.states.get(partition)
            needed = state is not None and state.leader != self.assignment[partition][0]
            again = (1, 1, 0) <= self.version < (2, 2, 0)
            if partition[0] not in self.deleted and (needed or again):
                self.elect(partition, "preferred")

    # -- partitions (§2.5, §2.6)

    def is_live(self, broker: int) -> bool:
        return broker in self.live and broker not in self.leaving

    def elect_waiting(self) -> None:
        for partition, state in list(self.partitions.items()):
            if state in (NEW, OFFLINE) and partition[0] not in self.deleted:
                self.bring_online(partition)

    def bring_online(self, partition: Partition) -> None:
        """Elect the first leader of a new partition; otherwise elect by the Offline strategy."""
        if self.partitions[partition] != NEW:
            self.elect(partition, "offline")
            return
        live = tuple(broker for broker in self.assignment[partition] if self.is_live(broker))
        if live and partition not in self.states:
            self.states[partition] = self.cached[partition] = State(live[0], live, 0, self.epoch)
            self.partitions[partition] = ONLINE

    def elect(self, partition: Partition, strategy: str) -> None:
        """Elect a leader; without an eligible one nothing is written and the state stays."""
        state = self.states.get(partition)
        if state is None or self.partitions[partition] not in (ONLINE, OFFLINE):
            return
        brokers, isr = self.assignment[partition], state.isr
        live_isr = tuple(broker for broker in isr if self.is_live(broker))
        if strategy == "offline":
            leader = self.first(live_isr if self.version < (0, 8, 2) else brokers, live_isr)
            isr = live_isr
            if not live_isr and (self.unclean or self.version < (0, 8, 2)):
                leader = self.first(brokers, [broker for broker in brokers if self.is_live(broker)])
                isr = () if leader is None else (leader,)
        elif strategy == "preferred":
            leader = brokers[0] if brokers[0] in live_isr else None
        elif strategy == "reassign":
            any_live = self.version < (0, 8, 1)
            eligible = [broker for broker in self.targets[partition] if self.is_live(broker)] if any_live else live_isr
            leader = self.first(self.targets[partition], eligible)
        else:
            isr = tuple(broker for broker in isr if broker not in self.leaving)
            if self.version < (0, 8, 1):
                isr = tuple(broker for broker in isr if broker != state.leader)
            leader = self.first(brokers, [broker for broker in isr if broker in self.live])
            if self.version < (0, 10, 0):
                leader = isr[0] if isr else None
        if leader is not None:
            self.write(partition, leader, isr)
            self.partitions[partition] = ONLINE

    @staticmethod
    def first(brokers: Sequence[int], eligible: Iterable[int]) -> int | None:
        wanted = list(eligible)
        return next((broker for broker in brokers if broker in wanted), None)

    def write(self, partition: Partition, leader: int, isr: tuple[int, ...]) -> None:
        """Write a state; each write by the controller raises the leader epoch."""
        written = State(leader, isr, self.states[partition].leader_epoch + 1, self.epoch)
        self.states[partition] = self.cached[partition] = written
        self.fenced = {replica for replica in self.fenced if replica[:2] != partition}

    def raise_epoch(self, partition: Partition) -> None:
        """Write the same leader and ISR for a reassignment; up to 2.3 the cache keeps the old epoch (KAFKA-9212)."""
        state, cached = self.states[partition], self.cached[partition]
        self.write(partition, state.leader, state.isr)
        if self.version < (2, 4, 0):
            self.cached[partition] = cached

    def send_cached(self, replicas: Iterable[Replica]) -> None:
        """Send LeaderAndIsr from the cache to a broker that started; from 2.1 on fetches name the leader epoch."""
        if self.version < (2, 1, 0):
            return
        for replica in replicas:
            partition = replica[:2]
            state = self.states.get(partition)
            if state is not None and self.cached[partition].leader_epoch < state.leader_epoch:
                self.fenced.add(replica)

    # -- replicas (§2.4)

    def move(self, replicas: Iterable[Replica], target: str) -> None:
        """Move replicas in valid previous states to a state, with its actions."""
        allowed = entered_from(self.version)[target]
        for topic, number, broker in list(replicas):
            replica, partition = (topic, number, broker), (topic, number)
            if self.replicas.get(replica, GONE) not in allowed:
                continue
            if target == OFFLINE:
                if partition not in self.states and self.version < (2, 0, 0):  # KAFKA-6650
                    continue
                self.leave_isr(partition, broker)
            if target == GONE:
                del self.replicas[replica]
            else:
                self.replicas[replica] = target

    def leave_isr(self, partition: Partition, broker: int) -> None:
        state = self.states.get(partition)
        if self.version < (0, 8, 1) and broker not in self.cached[partition].isr:
            return
        if state is not None:
            self.cached[partition] = state
            if partition[0] not in self.deleted:  # a LeaderAndIsr for the others, also if nothing is written (§2.4)
                self.fenced = {one for one in self.fenced if one[:2] != partition or one[2] == broker}
        if state is None or broker not in state.isr:
            return
        left = tuple(member for member in state.isr if member != broker)
        kept = self.version >= (1, 1, 0) or (self.version >= (0, 8, 2) and not self.unclean)
        if not left and kept:
            left = state.isr
        self.write(partition, -1 if state.leader == broker else state.leader, left)

    # -- reassignment (§2.11)

    def reassign(self, partition: Partition, target: Sequence[int]) -> None:
        """Start or resume a reassignment; from 2.4 on the origin is stored, so that it can be cancelled."""
        target = tuple(target)
        present = self.assignment[partition]
        if partition[0] in self.deleted:
            self.ineligible.add(partition[0])
        in_sync = set(target) <= set(self.states[partition].isr)
        if self.version < (0, 8, 1):
            held_by = widened = present
        elif self.version < (2, 4, 0):
            held_by = widened = target + tuple(broker for broker in present if broker not in target)
        else:
            origin = self.origins.setdefault(partition, present)
            held_by = widened = target + tuple(broker for broker in origin if broker not in target)
            in_sync = in_sync or set(target) == set(origin)
            self.assignment[partition] = widened
            self.stop(partition, [broker for broker in present if broker not in widened])
        self.targets[partition] = target
        if in_sync:
            self.finish(partition, target, held_by)
            return
        if self.version < (0, 8, 1):
            self.let_arrive(partition, [broker for broker in target if broker not in present])
            return
        self.assignment[partition] = widened
        self.raise_epoch(partition)
        self.move([(*partition, broker) for broker in target], NEW)

    def let_arrive(self, partition: Partition, brokers: Iterable[int]) -> None:
        """Record the leader that 0.8.0 sends to new replicas once: elections send to assigned ones only (§2.6)."""
        for replica in [(*partition, broker) for broker in brokers]:
            if replica not in self.replicas and replica[2] in self.live:
                self.arriving[replica] = self.states[partition].leader
            self.move([replica], NEW)

    def cancel(self, partition: Partition) -> None:
        """Cancel a reassignment (2.4 and later): back to the origin, in the present order of its replicas."""
        origin = self.origins[partition]
        self.reassign(partition, [broker for broker in self.assignment[partition] if broker in origin])

    def finish(self, partition: Partition, target: tuple[int, ...], held_by: Sequence[int]) -> None:
        """Complete a reassignment with all of the target in sync."""
        here_before = self.origins.get(partition, ())  # from 2.4 on only the adding ones are moved (§2.11, B1)
        self.move([(*partition, broker) for broker in target if broker not in here_before], ONLINE)
        state = self.states[partition]
        if self.version >= (0, 8, 1):
            self.assignment[partition] = target
        else:  # a leader's epoch stays, and the old assignment until all is done, with the new replicas behind it
            left = {replica: leader for replica, leader in self.arriving.items() if replica[:2] != partition}
            self.arriving = left
            self.assignment[partition] += tuple(b for b in target if b not in self.assignment[partition])
        if state.leader in target and self.is_live(state.leader):
            if self.version >= (0, 8, 1):
                self.raise_epoch(partition)
        else:
            self.elect(partition, "reassign")
        self.stop(partition, [broker for broker in held_by if broker not in target])
        self.assignment[partition] = target
        del self.targets[partition]
        self.origins.pop(partition, None)
        self.ineligible.discard(partition[0])
        if partition[0] in self.deleted:
            self.resume_deletions()

    def stop(self, partition: Partition, brokers: Iterable[int]) -> None:
        replicas = [(*partition, broker) for broker in brokers]
        for state in (OFFLINE, STARTED, SUCCESSFUL, GONE) if self.version >= (0, 8, 1) else (OFFLINE, GONE):
            self.move(replicas, state)

    # -- deletion (§2.10)

    def delete(self, topic: str) -> None:
        self.deleted[topic] = None
        self.resume_deletions()

    def resume_deletions(self) -> None:
        for topic in list(self.deleted):
            replicas = [replica for replica in self.replicas if replica[0] == topic]
            found = {self.replicas[replica] for replica in replicas}
            if found == {SUCCESSFUL}:
                self.complete(topic)
                continue
            if STARTED not in found:
                self.move([replica for replica in replicas if self.replicas[replica] == INELIGIBLE], OFFLINE)
            if topic not in self.ineligible and STARTED not in found:
                self.start_deletion(topic, replicas)

    def start_deletion(self, topic: str, replicas: list[Replica]) -> None:
        if self.version >= (2, 2, 0):
            for partition in [p for p in self.assignment if p[0] == topic]:
                self.partitions[partition] = GONE
        dead = [replica for replica in replicas if not self.is_live(replica[2])]
        alive = [r for r in replicas if r not in dead and self.replicas[r] != SUCCESSFUL]
        self.move(dead, INELIGIBLE)
        self.move(alive, OFFLINE)
        self.move(alive, STARTED)
        if dead:
            self.ineligible.add(topic)
        started = [replica for replica in alive if self.replicas[replica] == STARTED]
        if started:
            self.move(started, SUCCESSFUL)  # the brokers have answered
            self.resume_deletions()

    def complete(self, topic: str) -> None:
        del self.deleted[topic]
        self.ineligible.discard(topic)
        for partition in [p for p in self.assignment if p[0] == topic]:
            del self.assignment[partition], self.partitions[partition]
            self.cached.pop(partition, None)
            self.targets.pop(partition, None)  # Kafka's controller keeps it (docs/fidelity.md)
            self.origins.pop(partition, None)
            self.states.pop(partition, None)  # one that never had a leader has none
        self.replicas = {replica: state for replica, state in self.replicas.items() if replica[0] != topic}

    # -- leaders (§2.8)

    def catch_up(
        self, order: Mapping[Partition, Sequence[int]], passing: Mapping[Partition, Sequence[int]] | None = None
    ) -> None:
        """Add live followers to the ISRs in a given order, and complete reassignments.

        Before AlterPartition a watch on the state completes them, also after an election. Replicas to be removed may
        join the ISR before the watch fires (`passing`).
        """
        if self.version < (2, 7, 0):
            for partition, members in (passing or {}).items():
                for broker in members if partition in self.targets else ():
                    if broker not in self.states[partition].isr:
                        self.take_in(partition, broker)
            self.finish_what_can_be()
        told: list[Partition] = []
        for partition, state in list(self.states.items()):
            if partition[0] in self.deleted or state.leader not in self.live - self.silent:
                continue
            if self.version < (0, 8, 1) and state.leader not in self.assignment[partition]:
                continue  # in the ISR by a move that was dropped (KAFKA-1097): no LeaderAndIsr names it leader (§2.6)
            here = [b for *p, b in sorted(self.arriving) if tuple(p) == partition]
            following = [b for b in here if self.arriving[*partition, b] == state.leader]
            brokers = [*self.assignment[partition], *following]
            able = {broker for broker in self.live - self.silent if (*partition, broker) not in self.fenced}
            back = {broker for broker in brokers if broker in able} - set(state.isr)
            reported = [broker for broker in order.get(partition, ()) if broker in back]
            joining = [*reported, *sorted(back - set(reported))]
            target = {*self.targets.get(partition, brokers)}
            if (2, 1, 0) <= self.version < (2, 4, 0) and target <= {*state.isr, *reported}:
                joining = reported  # the reassignment ends first; `passing` has those that joined before
            for broker in joining:
                self.take_in(partition, broker)
            if joining:
                told.append(partition)
        self.finish_what_can_be()
        for partition in told if self.version >= (0, 9, 0) else ():  # the leader has announced the change
            self.cached[partition] = self.states[partition]

    def finish_what_can_be(self) -> None:
        for partition, target in list(self.targets.items()):
            if set(target) <= set(self.states[partition].isr) and partition[0] not in self.deleted:
                self.finish(partition, target, self.assignment[partition])
