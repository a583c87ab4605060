"""Whole controller operations on a partition table, composed of the transition functions of `simzk.partitions`.

The controller performs the same steps between its reads and writes of znodes. Here they run on a table at once, so that
tests can compare them with a slow reference and with recordings, and benchmarks can measure them.

Rules of the module (docs/reference/kafka.md §2.3, §2.6, §2.7, §2.11, §2.12, §2.14):

1. Broker failure: first leaders are elected for partitions without a live leader, then the dead replicas leave the
   ISRs, broker by broker.
2. Controller failover (2.3+): first the dead replicas leave the ISRs, then leaders are elected. Before 2.3 a new
   controller only elects.
3. Broker start: leaders are elected for partitions without a leader, and new partitions get their first state.
4. Reassignment: the topic znode is widened and the leader epoch raised; once the target is in sync, the leader moves if
   it must, the other replicas leave the ISR, and the topic znode names the target alone.
5. An operation returns the rows that change with their states before and after; it writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import (
    NONE,
    BoolArray,
    IntArray,
    among,
    any_of,
    broker_mask,
    choose,
    contained,
    keep,
    sizes,
    taken,
    widen,
)
from simzk.partitions.reassignment import (
    Assignment,
    in_sync,
    is_reassigning,
    origin_of,
    reassign_to,
    target_of,
    widened_for_legacy,
)
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.table import PartitionTable
from simzk.partitions.transitions import (
    after_leader_write,
    complete_reassignment,
    elect_for_controlled_shutdown,
    elect_offline,
    elect_preferred,
    expand_isr,
    first_states,
    imbalance,
    initial_leader_and_isr,
    raise_leader_epoch,
    remove_from_isr,
    requires_controlled_shutdown,
    shrink_isr,
    write_election,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from simzk.jvm.scala_collections import Scala
    from simzk.partitions.states import States


def table_of_columns(
    topics: Sequence[str], topic: IntArray, partition: IntArray, replicas: IntArray, states: States | None = None
) -> PartitionTable:
    """Return a table with the given columns, as in `PartitionTable.extend`."""
    table = PartitionTable(replicas.shape[1])
    table.extend(topics, topic, partition, replicas, states)
    return table


class Change(NamedTuple):
    """Rows that an operation changes: `rows` int32[c] of the table, their states before and after, and whether an
    unclean leader was elected, bool[c]."""

    rows: IntArray
    before: States
    after: States
    unclean: BoolArray

    @classmethod
    def between(cls, rows: IntArray, before: States, after: States, unclean: BoolArray | None = None) -> Change:
        """Select the rows that were written."""
        unclean = np.zeros(len(rows), dtype=np.bool_) if unclean is None else unclean
        changed = after.version != before.version
        if changed.all():
            return cls(rows, before, after, unclean)
        return cls(rows[changed], before.where(changed), after.where(changed), unclean[changed])


class Steps:
    """Successive controller writes to k partitions, all by one controller.

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        states: k states; they stay as they are.
        controller_epoch: of the controller that writes.
        unclean_allowed: bool[k] or one value for all, whether unclean election is enabled for the topic.
        rules: of the Kafka version.
    """

    def __init__(
        self,
        replicas: IntArray,
        states: States,
        controller_epoch: int,
        unclean_allowed: BoolArray | bool = False,
        rules: ElectionRules = LATEST,
    ) -> None:
        self._replicas = replicas
        self._epoch = controller_epoch
        self._unclean_allowed = unclean_allowed
        self._rules = rules
        self.states = states
        self.unclean = np.zeros(len(states.leader), dtype=np.bool_)

    def elect_offline(self, leaderless: BoolArray, live: BoolArray) -> None:
        """Elect leaders by the offline strategy; partitions without a state are skipped."""
        places = np.flatnonzero(leaderless & (self.states.version >= 0))
        if places.size:
            allowed = self._unclean_allowed
            allowed = allowed if isinstance(allowed, bool) else allowed[places]
            before = self.states.at(places)
            election = elect_offline(taken(self._replicas, places), before.isr, live, allowed, rules=self._rules)
            step = write_election(before, election, controller_epoch=self._epoch, rules=self._rules)
            self.states = self.states.map(np.copy)
            self.states.put(places, step.after)
            self.unclean[places] |= step.unclean

    def remove(self, broker: IntArray | int) -> None:
        """Remove a replica from the ISRs: int32[k], -1 for none, or one broker for all."""
        self.states = remove_from_isr(
            self.states,
            broker,
            controller_epoch=self._epoch,
            unclean_allowed=self._unclean_allowed,
            rules=self._rules,
        ).after

    def remove_dead(self, dead: Sequence[int]) -> None:
        """Remove the replicas of dead brokers from the ISRs, in the order of `dead`."""
        for brokers in _rounds(self._replicas, self.states.isr, dead):
            self.remove(brokers)


def _rounds(replicas: IntArray, isr: IntArray, dead: Sequence[int]) -> Iterator[IntArray]:
    """Yield one dead in-sync replica of each partition a round, in the order of `dead`, -1 for none: int32[k].

    There are at most as many rounds as replicas, however many brokers are dead.
    """
    if len(dead) == 1:
        yield choose(any_of(replicas == dead[0]), np.int32(dead[0]), np.int32(NONE))
        return
    never = len(dead)
    rank_of = np.full(max(dead, default=0) + 1, never, dtype=np.int32)
    rank_of[np.array(dead, dtype=np.intp)] = np.arange(never, dtype=np.int32)
    brokers = np.array([*dead, NONE], dtype=np.int32)
    leaving = among(replicas, broker_mask(dead)) & contained(replicas, isr)
    ranks = np.where(leaving, rank_of.take(replicas, mode="clip"), np.int32(never)).T
    while (least := ranks.min(axis=0)).min(initial=never) < never:
        yield brokers[least]
        ranks = np.where(ranks == least, np.int32(never), ranks)


# Brokers


def fail_brokers(
    table: PartitionTable,
    dead: Sequence[int],
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Change:
    """Handle the failure of brokers; only rows with a replica on one of them are read.

    Args:
        table: the partitions.
        dead: brokers that failed in one event, in the order in which the controller handles their replicas.
        live: bool[m], mask of the remaining brokers that are not shutting down.
        controller_epoch: of the controller that writes.
        unclean_allowed: bool[n] by row of the table, or one value for all.
        rules: of the Kafka version.

    >>> from simzk.partitions.table import PartitionTable
    >>> from simzk.partitions.states import LeaderAndIsr
    >>> table = PartitionTable()
    >>> rows = table.add("t", {0: [1, 2, 3]})
    >>> table.put(rows[0], LeaderAndIsr(1, 0, (1, 2, 3), 1))
    >>> fail_brokers(table, [1], broker_mask([2, 3]), controller_epoch=1).after.one(0)
    LeaderAndIsr(leader=2, leader_epoch=1, isr=(2, 3), controller_epoch=1, version=1, recovering=False)
    """
    rows = table.rows_with_replica(*dead)
    replicas, before = table.replicas_and_states(rows)
    after, unclean = broker_failure(
        replicas,
        before,
        dead,
        live,
        controller_epoch=controller_epoch,
        unclean_allowed=_at_rows(unclean_allowed, rows),
        rules=rules,
    )
    return Change.between(rows, before, after, unclean)


def start_brokers(
    table: PartitionTable,
    started: Sequence[int],
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Change:
    """Handle the start of brokers, which are in `live`; only rows with a replica on one of them are read.

    >>> from simzk.partitions.table import PartitionTable
    >>> from simzk.partitions.states import LeaderAndIsr
    >>> table = PartitionTable()
    >>> rows = table.add("t", {0: [1, 2]})
    >>> table.put(rows[0], LeaderAndIsr(-1, 4, (2,), 1, version=4))
    >>> start_brokers(table, [2], broker_mask([2]), controller_epoch=1).after.one(0)
    LeaderAndIsr(leader=2, leader_epoch=5, isr=(2,), controller_epoch=1, version=5, recovering=False)
    """
    rows = table.rows_with_replica(*started)
    replicas, before = table.replicas_and_states(rows)
    allowed = _at_rows(unclean_allowed, rows)
    after, unclean = broker_start(
        replicas, before, live, controller_epoch=controller_epoch, unclean_allowed=allowed, rules=rules
    )
    return Change.between(rows, before, after, unclean)


def bounce_brokers(
    table: PartitionTable,
    bounced: Sequence[int],
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Change:
    """Handle brokers, which are in `live`, that restarted between two reads of the controller (KIP-380, 2.2+)."""
    rows = table.rows_with_replica(*bounced)
    replicas, before = table.replicas_and_states(rows)
    allowed = _at_rows(unclean_allowed, rows)
    others = live.copy()
    others[list(bounced)] = False
    between, failed = broker_failure(
        replicas, before, bounced, others, controller_epoch=controller_epoch, unclean_allowed=allowed, rules=rules
    )
    after, started = broker_start(
        replicas, between, live, controller_epoch=controller_epoch, unclean_allowed=allowed, rules=rules
    )
    return Change.between(rows, before, after, failed | started)


def broker_failure(
    replicas: IntArray,
    states: States,
    dead: Sequence[int],
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> tuple[States, BoolArray]:
    """Return the states after a broker failure (§2.7 steps 2 to 4), and which leaders are unclean, bool[k]."""
    assert not among(np.array(dead, dtype=np.int32), live).any(), f"brokers {list(dead)} are dead and live"
    steps = Steps(replicas, states, controller_epoch, unclean_allowed, rules)
    steps.elect_offline((states.leader == NONE) | among(states.leader, broker_mask(dead)), live)
    steps.remove_dead(dead)
    return steps.states, steps.unclean


def broker_start(
    replicas: IntArray,
    states: States,
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> tuple[States, BoolArray]:
    """Return the states after brokers started (§2.7 step 4), and which leaders are unclean, bool[k]."""
    steps = Steps(replicas, states, controller_epoch, unclean_allowed, rules)
    steps.elect_offline(states.leader == NONE, live)
    new = np.flatnonzero(states.version < 0)
    if not new.size:
        return steps.states, steps.unclean
    after = steps.states.map(np.copy)
    election = initial_leader_and_isr(taken(replicas, new), live)
    created = np.flatnonzero(election.elected)
    isr = widen(taken(election.isr, created), after.isr.shape[1])[:, : after.isr.shape[1]]
    after.put(new[created], first_states(election.leader[created], isr, controller_epoch))
    return after, steps.unclean


def controller_failover(
    replicas: IntArray,
    states: States,
    dead: Sequence[int],
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> tuple[States, BoolArray]:
    """Return the states after a controller started (§2.3 steps 6 and 7), and which leaders are unclean, bool[k]."""
    steps = Steps(replicas, states, controller_epoch, unclean_allowed, rules)
    if rules.failover_trims_dead:
        steps.remove_dead(dead)
    steps.elect_offline(~among(steps.states.leader, live), live)
    return steps.states, steps.unclean


def begin_partitions(table: PartitionTable, rows: IntArray, live: BoolArray, *, controller_epoch: int) -> Change:
    """Create the first states of new partitions that have a live replica.

    >>> from simzk.partitions.table import PartitionTable
    >>> table = PartitionTable()
    >>> begin_partitions(table, table.add("t", {0: [1, 2], 1: [3]}), broker_mask([2]), controller_epoch=1).after.one(0)
    LeaderAndIsr(leader=2, leader_epoch=0, isr=(2,), controller_epoch=1, version=0, recovering=False)
    """
    replicas, before = table.replicas_and_states(rows)
    election = initial_leader_and_isr(replicas, live)
    created = np.flatnonzero(election.elected & (before.version < 0))
    after = first_states(election.leader[created], taken(election.isr, created), controller_epoch)
    return Change(rows[created], before.at(created), after, np.zeros(len(created), dtype=np.bool_))


def shut_down_broker(
    table: PartitionTable,
    broker: int,
    registered: BoolArray,
    shutting_down: BoolArray | None = None,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Change:
    """Handle a ControlledShutdown request (§2.14).

    Args:
        table: the partitions; only rows with a replica on the broker are read.
        broker: the broker that shuts down.
        registered: bool[m], mask of registered brokers.
        shutting_down: bool[m], mask of other brokers that requested a controlled shutdown.
        controller_epoch: of the controller that writes.
        unclean_allowed: bool[n] by row of the table, or one value for all.
        rules: of the Kafka version.

    >>> from simzk.partitions.states import LeaderAndIsr
    >>> from simzk.partitions.table import PartitionTable
    >>> table = PartitionTable()
    >>> for row, leader in zip(table.add("t", {0: [1, 2], 1: [2, 1]}), (1, 2)):
    ...     table.put(row, LeaderAndIsr(leader, 0, (1, 2), 1))
    >>> change = shut_down_broker(table, 1, broker_mask([1, 2]), controller_epoch=1)
    >>> change.after.leader.tolist(), change.after.isr.tolist()
    ([2, 2], [[2, -1, -1], [2, -1, -1]])
    """
    rows = table.rows_with_replica(broker)
    replicas, before = table.replicas_and_states(rows)
    handled = requires_controlled_shutdown(replicas, before)
    led = handled & (before.leader == broker)
    removal = remove_from_isr(
        before,
        choose(handled & ~led, np.int32(broker), np.int32(NONE)),
        controller_epoch=controller_epoch,
        unclean_allowed=_at_rows(unclean_allowed, rows),
        rules=rules,
    )
    leaving = broker_mask([broker])
    if shutting_down is not None:
        leaving = _either(leaving, shutting_down)
    places = np.flatnonzero(led)
    leading = before.at(places)
    election = elect_for_controlled_shutdown(
        taken(replicas, places), leading.isr, leading.leader, registered, leaving, rules=rules
    )
    after = removal.after
    after.put(places, write_election(leading, election, controller_epoch=controller_epoch, rules=rules).after)
    return Change.between(rows, before, after)


def _either(one: BoolArray, other: BoolArray) -> BoolArray:
    """Return the union of two masks."""
    union = np.zeros(max(len(one), len(other)), dtype=np.bool_)
    union[: len(one)] |= one
    union[: len(other)] |= other
    return union


# Preferred leaders and ISRs


def elect_preferred_leaders(
    table: PartitionTable,
    rows: IntArray,
    live: BoolArray,
    *,
    controller_epoch: int,
    rules: ElectionRules = LATEST,
) -> Change:
    """Elect the preferred replicas of some distinct rows (§2.12)."""
    replicas, before = table.replicas_and_states(rows)
    places = np.flatnonzero(before.version >= 0)
    present = before.at(places)
    election = elect_preferred(taken(replicas, places), present.isr, present.leader, live, rules=rules)
    step = write_election(present, election, controller_epoch=controller_epoch, rules=rules)
    return Change.between(rows[places], present, step.after)


def rebalance_leaders(
    table: PartitionTable,
    live: BoolArray,
    percentage: int = 10,
    *,
    controller_epoch: int,
    rules: ElectionRules = LATEST,
) -> Change:
    """Elect preferred replicas for the brokers above the imbalance percentage (§2.12 Auto)."""
    rows = table.rows()
    replicas, states = table.replicas_and_states(rows)
    preferred = replicas[:, 0]
    found = imbalance(preferred, states)
    misplaced = rows[found.misplaced & np.isin(preferred, found.brokers(percentage))]
    return elect_preferred_leaders(table, misplaced, live, controller_epoch=controller_epoch, rules=rules)


def shrink_isrs(
    table: PartitionTable, rows: IntArray, leaving: IntArray, scala: Scala = "2.13", controller_epoch: int | None = None
) -> Change:
    """Remove followers, int32[k, v], from the ISRs of some distinct rows, as their leaders do (§2.8)."""
    before = table.states(rows)
    return _by_leaders(rows, before, shrink_isr(before.isr, leaving, scala), controller_epoch)


def expand_isrs(
    table: PartitionTable, rows: IntArray, joining: IntArray, scala: Scala = "2.13", controller_epoch: int | None = None
) -> Change:
    """Add a follower, int32[k], to the ISR of each of some distinct rows, as their leaders do (§2.8).

    >>> from simzk.partitions.states import LeaderAndIsr
    >>> from simzk.partitions.table import PartitionTable
    >>> table = PartitionTable()
    >>> rows = table.add("t", {0: [1, 2]})
    >>> table.put(rows[0], LeaderAndIsr(2, 3, (2,), 1, version=5))
    >>> expand_isrs(table, rows, np.array([1], np.int32)).after.one(0)
    LeaderAndIsr(leader=2, leader_epoch=3, isr=(2, 1), controller_epoch=1, version=6, recovering=False)
    """
    before = table.states(rows)
    return _by_leaders(rows, before, expand_isr(before.isr, joining, scala), controller_epoch)


def _by_leaders(rows: IntArray, before: States, isr: IntArray, controller_epoch: int | None) -> Change:
    # One operation only adds or only removes: an ISR changed if its length did.
    members = sizes(isr)
    places = np.flatnonzero((members != sizes(before.isr)) & (before.leader != NONE))
    isr = isr[:, : max(before.isr.shape[1], int(members.max(initial=0)))]
    old = before.at(places)
    after = after_leader_write(old, taken(isr, places), controller_epoch)
    return Change(rows[places], old, after, np.zeros(len(places), dtype=np.bool_))


# Reassignment


class Move(NamedTuple):
    """Rows whose assignment an operation changes: `rows` int32[c] of the table, what the topic znodes say before and
    after, and the states that are written."""

    rows: IntArray
    before: Assignment
    after: Assignment
    states: Change


def begin_reassignments(
    table: PartitionTable,
    rows: IntArray,
    target: IntArray,
    *,
    controller_epoch: int,
    rules: ElectionRules = LATEST,
) -> Move:
    """Begin reassignments of some distinct rows to `target`, int32[k, v] (2.4+); a new target replaces the old one.

    >>> from simzk.partitions.arrays import pack, unpack
    >>> from simzk.partitions.table import PartitionTable
    >>> table = PartitionTable()
    >>> move = begin_reassignments(table, table.add("t", {0: [1, 2]}), pack([[3, 2]]), controller_epoch=1)
    >>> unpack(move.after.replicas), unpack(move.after.adding), unpack(move.after.removing)
    ([(3, 2, 1)], [(3,)], [(1,)])
    """
    before = table.assignment(rows)
    after = reassign_to(before, target)
    changed = np.flatnonzero(_differ(before, after))
    rows, before, after = rows[changed], _at(before, changed), _at(after, changed)
    replicas, states = table.replicas_and_states(rows)
    steps = Steps(replicas, states, controller_epoch, rules=rules)
    # Replicas that an unfinished reassignment was adding and the new target does not contain.
    for leaving in keep(before.replicas, ~contained(before.replicas, after.replicas)).T:
        steps.remove(leaving)
    waiting = ~in_sync(target_of(after), steps.states.isr) & (states.version >= 0)
    final = raise_leader_epoch(steps.states, controller_epoch=controller_epoch, chosen=waiting)
    return Move(rows, before, after, Change.between(rows, states, final))


def begin_legacy_reassignments(
    table: PartitionTable,
    rows: IntArray,
    target: IntArray,
    scala: Scala,
    *,
    controller_epoch: int,
) -> Move:
    """Begin reassignments of some distinct rows as 0.8.1 to 2.3; rows whose target is in sync already stay.

    >>> from simzk.partitions.arrays import pack, unpack
    >>> from simzk.partitions.table import PartitionTable
    >>> table = PartitionTable()
    >>> rows, target = table.add("t", {0: [1, 2]}), pack([[3, 2]])
    >>> unpack(begin_legacy_reassignments(table, rows, target, "2.12", controller_epoch=1).after.replicas)
    [(3, 2, 1)]
    """
    replicas, states = table.replicas_and_states(rows)
    waiting = np.flatnonzero(~in_sync(target, states.isr))
    rows, replicas, states = rows[waiting], taken(replicas, waiting), states.at(waiting)
    widened = widened_for_legacy(taken(target, waiting), replicas, scala)
    after = raise_leader_epoch(states, controller_epoch=controller_epoch, chosen=states.version >= 0)
    return Move(rows, _not_moving(replicas), _not_moving(widened), Change.between(rows, states, after))


def cancel_reassignments(
    table: PartitionTable, rows: IntArray, *, controller_epoch: int, rules: ElectionRules = LATEST
) -> Move:
    """Cancel the reassignments among some rows: each moves back to its origin."""
    present = table.assignment(rows)
    moving = np.flatnonzero(is_reassigning(present))
    origin = origin_of(_at(present, moving))
    return begin_reassignments(table, rows[moving], origin, controller_epoch=controller_epoch, rules=rules)


def complete_reassignments(
    table: PartitionTable,
    rows: IntArray,
    live: BoolArray,
    *,
    controller_epoch: int,
    target: IntArray | None = None,
    raises_epoch: bool = True,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Move:
    """Complete the reassignments among some distinct rows whose whole target is in sync.

    Args:
        table: the partitions.
        rows: int32[k].
        live: bool[m], mask of live brokers.
        controller_epoch: of the controller that writes.
        target: int32[k, v], the targets (up to 2.3); None where the topic znodes contain them.
        raises_epoch: whether a leader that stays gets a new epoch (0.8.1+).
        unclean_allowed: bool[n] by row of the table, or one value for all.
        rules: of the Kafka version.
    """
    before, states = table.assignment(rows), table.states(rows)
    goal = target_of(before) if target is None else target
    under_way = is_reassigning(before) if target is None else _differ(before, _not_moving(target))
    ready = np.flatnonzero(under_way & in_sync(goal, states.isr) & (states.version >= 0))
    rows, before, states, goal = rows[ready], _at(before, ready), states.at(ready), taken(goal, ready)
    led = complete_reassignment(
        states,
        goal,
        live,
        np.ones(len(rows), dtype=np.bool_),
        controller_epoch=controller_epoch,
        raises_epoch=raises_epoch,
        rules=rules,
    )
    steps = Steps(before.replicas, led, controller_epoch, _at_rows(unclean_allowed, rows), rules)
    for leaving in keep(before.replicas, ~contained(before.replicas, goal)).T:
        steps.remove(leaving)
    return Move(rows, before, _not_moving(goal), Change.between(rows, states, steps.states))


def _not_moving(replicas: IntArray) -> Assignment:
    nobody = np.full((len(replicas), 1), NONE, dtype=np.int32)
    return Assignment(replicas, nobody, nobody)


def _differ(one: Assignment, other: Assignment) -> BoolArray:
    """Return which assignments are not equal, bool[k]."""
    width = max(ids.shape[1] for ids in (*one, *other))
    differ = np.zeros(len(one.replicas), dtype=np.bool_)
    for ids, others in zip(one, other, strict=True):
        differ |= any_of(widen(ids, width) != widen(others, width))
    return differ


def _at(assignment: Assignment, places: NDArray[np.intp]) -> Assignment:
    return Assignment(*(taken(ids, places) for ids in assignment))


def _at_rows(unclean_allowed: BoolArray | bool, rows: IntArray) -> BoolArray | bool:
    return unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[rows]
