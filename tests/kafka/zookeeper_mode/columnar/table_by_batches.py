"""Changes of the controller to a partition table, made with the batch functions of simzk.partitions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, among, broker_mask, pack, unpack
from simzk.partitions.assignment import assign_replicas, start_index_for_addition
from simzk.partitions.reassignment import (
    Assignment,
    cancelled,
    completed,
    in_sync,
    is_reassigning,
    reassign_to,
    target_of,
    widened_for_legacy,
)
from simzk.partitions.rules import rules_of
from simzk.partitions.states import States
from simzk.partitions.table import PartitionTable
from simzk.partitions.transitions import (
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred,
    expand_isr,
    initial_leader_and_isr,
    raise_leader_epoch,
    remove_from_isr,
    shrink_isr,
    write_election,
)
from tests.partitions.operations import controller_failover, fail_brokers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.transitions import Election
    from tests.partitions.reference_table import Partition


class TableByBatches:
    """A partition table that only the batch functions change.

    Args:
        version: by whose rules.
        live: the brokers that are registered.

    Attributes:
        changed: rows and states that were there before, of each batch since this was last emptied.
    """

    def __init__(self, version: KafkaVersion, live: Iterable[int]) -> None:
        self.version = version
        self.rules = rules_of(version.number)
        self.table = PartitionTable()
        self.epoch = 1
        self.live = set(live)
        self.leaving: set[int] = set()
        self.unclean: set[str] = set()
        self.targets: dict[int, IntArray] = {}
        self.changed: list[tuple[IntArray, States]] = []

    @property
    def can_lead(self) -> BoolArray:
        return broker_mask(self.live - self.leaving)

    def unclean_of(self, rows: IntArray) -> BoolArray:
        allowed: BoolArray = np.array([self.table.name(row)[0] in self.unclean for row in rows.tolist()], dtype=bool)
        return allowed

    def apply(self, rows: IntArray, after: States) -> None:
        """Apply a change, undo it, and apply it again."""
        before = self.table.apply(rows, after)
        self.table.apply(rows, before)
        assert all(map(np.array_equal, self.table.states(rows), before))
        self.table.apply(rows, after)
        self.changed.append((rows, before))

    def elected(self, rows: IntArray, election: Election) -> None:
        """Write the result of an election."""
        won = np.flatnonzero(election.elected)
        step = write_election(self.table.states(rows), election, controller_epoch=self.epoch, rules=self.rules)
        self.apply(rows[won], step.after.at(won))

    def add(self, topic: str, assignment: dict[int, list[int]]) -> None:
        self.initialise(self.table.add(topic, assignment))

    def create(self, topic: str, count: int, factor: int, racks: dict[int, str], start: int) -> None:
        self.add(topic, assign_replicas(sorted(self.live), racks, count, factor, start))

    def grow(self, topic: str, count: int, racks: dict[int, str]) -> None:
        rows = self.table.rows_of(topic)
        replicas = self.table.replicas_of(int(rows[0]))
        brokers = sorted(self.live)
        start = start_index_for_addition(brokers, replicas[0])
        factor = min(len(replicas), len(brokers))
        self.add(topic, assign_replicas(brokers, racks, count, factor, start, len(rows)))

    def delete(self, topic: str) -> None:
        rows = self.table.rows_of(topic)
        for row in rows.tolist():
            self.targets.pop(row, None)
        self.unclean.discard(topic)
        self.table.remove(rows)

    def initialise(self, rows: IntArray) -> None:
        election = initial_leader_and_isr(self.table.replicas[rows], self.can_lead)
        won = np.flatnonzero(election.elected)
        zeros = np.zeros(len(won), dtype=np.int32)
        first = States(
            election.leader[won], zeros, election.isr[won], zeros + np.int32(self.epoch), zeros, zeros.astype(bool)
        )
        self.apply(rows[won], first)

    def elect_waiting(self, but: IntArray | None = None) -> None:
        rows = self.table.rows()
        self.initialise(rows[self.table.version[rows] == NONE])
        waiting = rows[(self.table.version[rows] != NONE) & (self.table.leader[rows] == NONE)]
        waiting = waiting if but is None else np.setdiff1d(waiting, but)
        replicas, isr = self.table.replicas[waiting], self.table.isr[waiting]
        unclean = self.unclean_of(waiting)
        self.elected(waiting, elect_offline(replicas, isr, self.can_lead, unclean, rules=self.rules))

    def fail(self, dead: Sequence[int]) -> None:
        self.live -= set(dead)
        self.leaving -= set(dead)
        held = self.table.rows_with_replica(*dead)
        allowed = np.zeros(len(self.table.topic), dtype=np.bool_)
        allowed[held] = self.unclean_of(held)
        failure = fail_brokers(
            self.table,
            dead,
            self.can_lead,
            controller_epoch=self.epoch,
            unclean_allowed=allowed,
            rules=self.rules,
        )
        assert all(map(np.array_equal, self.table.states(failure.rows), failure.before))
        self.apply(failure.rows, failure.after)
        self.elect_waiting(held)

    def start(self, brokers: Sequence[int]) -> None:
        self.live |= set(brokers)
        self.elect_waiting()

    def bounce(self, broker: int) -> None:
        self.fail([broker])
        self.start([broker])

    def fail_over(self, unseen: Sequence[int]) -> None:
        self.epoch += 1
        self.live -= set(unseen)
        self.leaving = set()
        rows = self.table.rows()
        rows = rows[self.table.version[rows] != NONE]
        dead = sorted(set(self.table.replicas[self.table.rows()].ravel().tolist()) - self.live - {NONE})
        before = self.table.states(rows)
        after, _ = controller_failover(
            self.table.replicas[rows],
            before,
            dead,
            self.can_lead,
            controller_epoch=self.epoch,
            unclean_allowed=self.unclean_of(rows),
            rules=self.rules,
        )
        changed = after.version != before.version
        self.apply(rows[changed], after.where(changed))
        rows = self.table.rows()
        self.initialise(rows[self.table.version[rows] == NONE])

    def shut_down(self, broker: int) -> None:
        self.leaving.add(broker)
        rows = self.table.rows_with_replica(broker)
        rows = rows[self.table.version[rows] != NONE]
        if self.version.number >= (0, 8, 1):
            rows = rows[(self.table.replicas[rows] != NONE).sum(axis=1) > 1]
        led = self.table.leader[rows] == broker
        self.remove(rows[~led], broker)
        leads = rows[led]
        election = elect_for_controlled_shutdown(
            self.table.replicas[leads],
            self.table.isr[leads],
            self.table.leader[leads],
            broker_mask(self.live),
            broker_mask(self.leaving),
            rules=self.rules,
        )
        self.elected(leads, election)

    def remove(self, rows: IntArray, broker: int) -> None:
        """Remove a replica from ISRs."""
        unclean = self.unclean_of(rows)
        before = self.table.states(rows)
        removal = remove_from_isr(
            before, broker, controller_epoch=self.epoch, unclean_allowed=unclean, rules=self.rules
        )
        hit = np.flatnonzero(removal.changed)
        self.apply(rows[hit], removal.after.at(hit))

    def elect_preferred(self, topic: str) -> None:
        rows = self.table.rows_of(topic)
        rows = rows[self.table.version[rows] != NONE]
        replicas, isr, leader = self.table.replicas[rows], self.table.isr[rows], self.table.leader[rows]
        self.elected(rows, elect_preferred(replicas, isr, leader, self.can_lead, rules=self.rules))

    def allow_unclean(self, topic: str) -> None:
        self.unclean.add(topic)
        self.elect_waiting()

    def change_isr(self, partition: Partition, isr: Callable[[IntArray], IntArray]) -> None:
        """Change an ISR as its leader."""
        rows = np.array([self.table.row(*partition)], dtype=np.int32)
        before = self.table.states(rows)
        by_controller = self.version.number >= (2, 7, 0)
        epoch = np.full_like(before.controller_epoch, self.epoch) if by_controller else before.controller_epoch
        after = before._replace(
            isr=isr(before.isr),
            controller_epoch=epoch,
            version=before.version + np.int32(1),
            recovering=np.zeros_like(before.recovering),
        )
        self.apply(rows, after)

    def shrink(self, partition: Partition, out: Sequence[int]) -> None:
        self.change_isr(partition, lambda isr: shrink_isr(isr, pack([out]), self.version.orders.scala))

    def expand(self, partition: Partition, broker: int) -> None:
        joining = np.array([broker], dtype=np.int32)
        self.change_isr(partition, lambda isr: expand_isr(isr, joining, self.version.orders.scala))

    def assignment(self, row: int) -> Assignment:
        table = self.table
        return Assignment(*(pack([ids]) for ids in (table.replicas_of(row), *table.moves_of(row))))

    def assign(self, row: int, assignment: Assignment) -> None:
        self.table.set_assignment(row, *(unpack(ids)[0] for ids in assignment))

    def reassign(self, partition: Partition, target: Sequence[int]) -> None:
        row = self.table.row(*partition)
        present = self.assignment(row)
        if self.version.number >= (2, 4, 0):
            self.go_on(row, present, reassign_to(present, pack([target])))
            return
        self.targets[row] = pack([target])
        if in_sync(pack([target]), self.table.isr[[row]])[0]:
            self.finish(partition)
        elif self.version.number >= (0, 8, 1):
            widened = widened_for_legacy(pack([target]), present.replicas, self.version.orders.scala)
            self.assign(row, Assignment(widened, pack([[]]), pack([[]])))
            self.raise_epoch(row)

    def cancel(self, partition: Partition) -> None:
        row = self.table.row(*partition)
        present = self.assignment(row)
        self.go_on(row, present, cancelled(present))

    def go_on(self, row: int, present: Assignment, new: Assignment) -> None:
        before = self.table.replicas_of(row)
        self.assign(row, new)
        for broker in before:
            if broker not in self.table.replicas_of(row):
                self.remove(np.array([row], dtype=np.int32), broker)
        assert unpack(present.replicas)[0] == before
        if in_sync(target_of(new), self.table.isr[[row]])[0] or not is_reassigning(new)[0]:
            self.finish(self.table.name(row))
        else:
            self.raise_epoch(row)

    def raise_epoch(self, row: int) -> None:
        rows = np.array([row], dtype=np.int32)
        self.apply(rows, raise_leader_epoch(self.table.states(rows), controller_epoch=self.epoch))

    def finish(self, partition: Partition) -> None:
        row = self.table.row(*partition)
        rows = np.array([row], dtype=np.int32)
        present = self.assignment(row)
        legacy = self.targets.pop(row, None)
        target = target_of(present) if legacy is None else legacy
        leader = self.table.leader[rows]
        if (leader == target).any() and among(leader, self.can_lead)[0]:
            if self.version.number >= (0, 8, 1):
                self.raise_epoch(row)
        else:
            self.elected(rows, elect_for_reassignment(target, self.table.isr[rows], self.can_lead, rules=self.rules))
        for broker in self.table.replicas_of(row):
            if broker not in target:
                self.remove(rows, broker)
        self.assign(row, completed(present) if legacy is None else Assignment(legacy, pack([[]]), pack([[]])))
