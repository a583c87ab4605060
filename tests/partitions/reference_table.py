"""Reference for a whole table, as dictionaries of plain lists, partition by partition.

Slow and obvious on purpose, written from docs/reference/kafka.md §2 and §3 with the rules of `reference`, without
simzk.partitions. Every write of a state is recorded, so that other implementations can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.partitions import reference
from tests.partitions.reference import Elected, Moving, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.partitions.reference import Version

Partition = tuple[str, int]


@dataclass
class ReferenceTable:
    """All partitions of a cluster whose controller is of one release.

    Args:
        version: as the tables of the specification name releases.
        live: the brokers that are registered.

    Attributes:
        moving: who holds each partition, and what a reassignment adds and removes (2.4 and later).
        targets: where a reassignment without a memory of where it began is to end (before 2.4).
        states: of the partitions that have had a leader.
        written: each state that was written, in turn; whoever reads it empties it.
    """

    version: Version
    live: set[int]
    leaving: set[int] = field(default_factory=set)
    epoch: int = 1
    moving: dict[Partition, Moving] = field(default_factory=dict)
    targets: dict[Partition, list[int]] = field(default_factory=dict)
    states: dict[Partition, State] = field(default_factory=dict)
    unclean: set[str] = field(default_factory=set)
    written: list[tuple[Partition, State]] = field(default_factory=list)

    # -- what there is

    @property
    def can_lead(self) -> set[int]:
        """§2.6 `live(r)`."""
        return self.live - self.leaving

    def numbers(self, topic: str) -> list[int]:
        return [number for name, number in self.moving if name == topic]

    def held_by(self, brokers: Iterable[int]) -> list[Partition]:
        return [p for p, moving in self.moving.items() if set(moving.replicas) & set(brokers)]

    def note(self, partition: Partition, state: State) -> None:
        self.states[partition] = state
        self.written.append((partition, state))

    # -- topics (§2.9, §2.10)

    def create(
        self, topic: str, count: int, factor: int, racks: Mapping[int, str], start: int, shift: int, first: int = 0
    ) -> None:
        brokers = sorted(self.live)
        assigned = reference.assign(brokers, racks, count, factor, start, shift, first)
        for number, replicas in assigned.items():
            self.moving[topic, number] = Moving(replicas, [], [])
        self.initialise([(topic, number) for number in assigned])

    def grow(self, topic: str, count: int, racks: Mapping[int, str]) -> None:
        """Add partitions (§3.3): deterministic; the first replica of partition 0 decides the start."""
        head = self.moving[topic, 0].replicas[0]
        brokers = sorted(self.live)
        at_least = [index for index, broker in enumerate(brokers) if broker >= head]
        start = at_least[0] if at_least else 0
        factor = min(len(self.moving[topic, 0].replicas), len(brokers))
        self.create(topic, count, factor, racks, start, start, len(self.numbers(topic)))

    def delete(self, topic: str) -> None:
        for partition in [p for p in self.moving if p[0] == topic]:
            del self.moving[partition]
            self.targets.pop(partition, None)
            self.states.pop(partition, None)
        self.unclean.discard(topic)

    def initialise(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            elected = reference.initialise(self.moving[partition].replicas, self.can_lead)
            if elected is not None:
                self.note(partition, State(elected.leader, 0, elected.isr, self.epoch, 0))

    # -- brokers (§2.7)

    def elect_waiting(self, but: Iterable[Partition] = ()) -> None:
        passed = set(but)
        self.initialise(p for p in self.moving if p not in self.states)
        for partition, state in self.states.items():
            if state.leader == -1 and partition not in passed:
                self.keep_if_written(
                    partition,
                    reference.elect(
                        self.version,
                        self.moving[partition].replicas,
                        state,
                        self.can_lead,
                        self.epoch,
                        partition[0] in self.unclean,
                    ),
                )

    def keep_if_written(self, partition: Partition, state: State) -> None:
        if state is not self.states[partition]:
            self.note(partition, state)

    def fail(self, dead: Sequence[int]) -> None:
        self.live -= set(dead)
        self.leaving -= set(dead)
        held = self.held_by(dead)
        for partition in held:
            state = self.states.get(partition)
            if state is None:
                continue
            if state.leader == -1 or state.leader in dead:
                self.keep_if_written(
                    partition,
                    reference.elect(
                        self.version,
                        self.moving[partition].replicas,
                        state,
                        self.can_lead,
                        self.epoch,
                        partition[0] in self.unclean,
                    ),
                )
            self.trim(partition, dead)
        self.elect_waiting(but=held)

    def trim(self, partition: Partition, gone: Iterable[int]) -> None:
        """Remove assigned replicas from the ISR, one after another."""
        for broker in gone:
            if broker in self.moving[partition].replicas:
                self.remove(partition, broker)

    def remove(self, partition: Partition, broker: int) -> None:
        state = self.states[partition]
        unclean = partition[0] in self.unclean
        self.keep_if_written(partition, reference.remove(self.version, state, broker, self.epoch, unclean))

    def start(self, brokers: Iterable[int]) -> None:
        self.live |= set(brokers)
        self.elect_waiting()

    def bounce(self, broker: int) -> None:
        """Apply KIP-380: a failure, then a start."""
        self.fail([broker])
        self.start([broker])

    def fail_over(self, unseen: Iterable[int]) -> None:
        """Start another controller (§2.3), which did not see some brokers die or request a controlled shutdown."""
        self.epoch += 1
        self.live -= set(unseen)
        self.leaving = set()
        dead = sorted({broker for moving in self.moving.values() for broker in moving.replicas} - self.live)
        for partition, state in list(self.states.items()):
            replicas, unclean = self.moving[partition].replicas, partition[0] in self.unclean
            if self.version >= (2, 3, 0):
                self.trim(partition, dead)
            state = self.states[partition]
            if state.leader not in self.live:
                self.keep_if_written(
                    partition, reference.elect(self.version, replicas, state, self.live, self.epoch, unclean)
                )
        self.initialise(p for p in self.moving if p not in self.states)

    def shut_down(self, broker: int) -> None:
        """Apply §2.14: leaders move away, followers leave their ISRs; a single replica stays from 0.8.1 on."""
        self.leaving.add(broker)
        for partition in self.held_by([broker]):
            moving, state = self.moving[partition], self.states.get(partition)
            if state is None or (len(moving.replicas) == 1 and self.version >= (0, 8, 1)):
                continue
            if state.leader != broker:
                self.remove(partition, broker)
                continue
            self.write_elected(
                partition,
                reference.controlled_shutdown(
                    self.version, moving.replicas, state.isr, state.leader, self.live, self.leaving
                ),
            )

    def write_elected(self, partition: Partition, elected: Elected | None) -> None:
        if elected is not None:
            state = self.states[partition]
            self.note(
                partition,
                State(
                    elected.leader,
                    state.leader_epoch + 1,
                    elected.isr,
                    self.epoch,
                    state.version + 1,
                    state.recovering,
                ),
            )

    # -- elections asked for (§2.12), uncleanly allowed (§2.6)

    def elect_preferred(self, topic: str) -> None:
        for partition in [p for p in self.states if p[0] == topic]:
            replicas, state = self.moving[partition].replicas, self.states[partition]
            present = state.leader
            if (1, 1, 0) <= self.version < (2, 2, 0):
                present = -1  # who leads already is elected again
            self.write_elected(partition, reference.preferred(replicas, state.isr, present, self.can_lead))

    def allow_unclean(self, topic: str) -> None:
        self.unclean.add(topic)
        self.elect_waiting()

    # -- leaders change ISRs (§2.8)

    def change_isr(self, partition: Partition, isr: list[int]) -> None:
        """Write an ISR: the leader with the controller epoch it received; from 2.7 on the controller."""
        state = self.states[partition]
        epoch = self.epoch if self.version >= (2, 7, 0) else state.controller_epoch
        self.note(
            partition, replace(state, isr=isr, controller_epoch=epoch, version=state.version + 1, recovering=False)
        )

    def shrink(self, partition: Partition, out: Iterable[int]) -> None:
        left = [broker for broker in self.states[partition].isr if broker not in set(out)]
        self.change_isr(partition, left)

    def expand(self, partition: Partition, broker: int) -> None:
        self.change_isr(partition, [*self.states[partition].isr, broker])

    # -- reassignment (§2.11)

    def reassign(self, partition: Partition, target: Sequence[int]) -> None:
        state, moving = self.states[partition], self.moving[partition]
        if self.version >= (2, 4, 0):
            new = reference.reassignment(moving, target)
            self.moving[partition] = new
            for broker in moving.replicas:
                if broker not in new.replicas:
                    self.remove(partition, broker)
            state = self.states[partition]
            if set(target) <= set(state.isr) or not (new.adding or new.removing):
                self.finish(partition)
                return
        else:
            self.targets[partition] = list(target)
            if set(target) <= set(state.isr):
                self.finish(partition)
                return
            if self.version < (0, 8, 1):
                return  # the assignment stays until all is done
            widened = [*target, *(b for b in moving.replicas if b not in target)]
            self.moving[partition] = Moving(widened, [], [])
        self.raise_epoch(partition)

    def raise_epoch(self, partition: Partition) -> None:
        state = self.states[partition]
        self.note(
            partition,
            replace(state, leader_epoch=state.leader_epoch + 1, controller_epoch=self.epoch, version=state.version + 1),
        )

    def cancel(self, partition: Partition) -> None:
        moving = self.moving[partition]
        self.reassign(partition, [broker for broker in moving.replicas if broker not in moving.adding])

    def target(self, partition: Partition) -> list[int] | None:
        """Return the target of a reassignment, None if none is under way."""
        moving = self.moving[partition]
        if moving.adding or moving.removing:
            return [broker for broker in moving.replicas if broker not in moving.removing]
        return self.targets.get(partition)

    def can_finish(self, partition: Partition) -> bool:
        target = self.target(partition)
        return target is not None and set(target) <= set(self.states[partition].isr)

    def finish(self, partition: Partition) -> None:
        """Complete a reassignment: the whole target is in sync."""
        moving = self.moving[partition]
        target = self.targets.pop(partition, None)
        if target is None:
            target = [broker for broker in moving.replicas if broker not in moving.removing]
        state = self.states[partition]
        if state.leader in target and state.leader in self.can_lead:
            if self.version >= (0, 8, 1):
                self.raise_epoch(partition)
        else:
            self.write_elected(partition, reference.reassign(self.version, target, state.isr, self.can_lead))
        for broker in moving.replicas:
            if broker not in target:
                self.remove(partition, broker)
        self.moving[partition] = Moving(target, [], [])
