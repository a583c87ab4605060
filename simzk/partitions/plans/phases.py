"""Reassignments of many partitions, step by step: begun, taken back, completed (docs/reference/kafka.md §2.11).

Rules of the module:

1. A reassignment begins with the lists of the topic znode; what an unfinished one was adding in vain leaves the ISR;
   the leader gets one epoch more, so that it takes the new replicas. It is completed once its target is in the ISR.
2. At completion the leader moves if it must, else it gets one epoch more; then the others leave the ISR one after the
   other; then the lists say the target alone.
3. Up to 2.3 the topic znode does not tell where a reassignment is going: whoever completes it says so. From 0.8.1 on
   the lists are a set of the target's and the present replicas meanwhile; 0.8.0 writes nothing before it is complete.
4. Nothing is applied here: `table.assign` and `table.apply` make it so. The lists are the algebra of `reassignment`.

What a reassignment leaves in the znodes of its partitions, phase by phase.

Rules of the module (docs/reference/kafka.md §2.11; KafkaController.onPartitionReassignment):

1. The phases of one partition follow each other; partitions of one plan go on by themselves. A phase is shown here as
   if all had come just so far. What has nothing to do in a phase stays as it was.
2. *widened*: the topic's znode names old and new replicas, and one more leader epoch has the leader take the new ones.
   Only where some of the target is not in sync (KIP-455 writes the topic's znode in any case).
   *joined*: who is missing of the target has joined the ISR, one write of the leader each, in the order of the target.
   *led*: a leader of the target: the old one in a new epoch, or an elected one.
   *removed*: the old replicas have left the ISR, one write and leader epoch each, and are deleted.
   *finished*: the topic's znode names the target alone.
3. A partition *waits* at *joined*, for ever unless something else happens, where some of the target does not live or
   nobody leads.
4. Before KIP-455 a partition that is assigned so already is dropped; from then on it gets a new leader epoch.
5. Elections, ISR changes and the algebra of assignments are those that the controller calls.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, among, any_of, contained, keep, taken, widen
from simzk.partitions.course import Change, Course
from simzk.partitions.elections import elect_for_reassignment
from simzk.partitions.isr import expand_isr
from simzk.partitions.reassignment import (
    Assignment,
    completed,
    in_sync,
    is_reassigning,
    origin_of,
    reassign_to,
    target_of,
    widened_for_legacy,
)
from simzk.partitions.rules import LATEST, ElectionRules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.jvm.scala_maps import Scala
    from simzk.partitions.states import States
    from simzk.partitions.table import PartitionTable


class Move(NamedTuple):
    """Rows whose assignment an operation changes: `rows` int32[c] of the table, what the topic znodes say of them
    before and after, and the states that are written meanwhile."""

    rows: IntArray
    before: Assignment
    after: Assignment
    states: Change

    def apply(self, table: PartitionTable) -> None:
        """Make it so."""
        table.assign(self.rows, self.after)
        table.apply(self.states.rows, self.states.after)


def begin_reassignments(
    table: PartitionTable,
    rows: IntArray,
    target: IntArray,
    *,
    controller_epoch: int,
    rules: ElectionRules = LATEST,
) -> Move:
    """Partitions begin to move to other brokers (2.4+); a new target replaces an unfinished one.

    Args:
        table: the partitions.
        rows: int32[k], distinct.
        target: int32[k, v], the replicas wanted, in preference order.
        controller_epoch: the epoch of the controller that writes.
        rules: the row of the Kafka version.

    Returns:
        the rows whose lists change; those whose target is in sync already are for `complete_reassignments`.

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
    course = Course(replicas, states, False, rules)
    # Replicas that an unfinished reassignment was adding, and nobody wants any more.
    for leaving in keep(before.replicas, ~contained(before.replicas, after.replicas)).T:
        course.remove(leaving)
    course.rewrite(~in_sync(target_of(after), course.isr))
    return Move(rows, before, after, Change.between(rows, states, course.outcome(controller_epoch)))


def begin_legacy_reassignments(
    table: PartitionTable,
    rows: IntArray,
    target: IntArray,
    scala: Scala,
    *,
    controller_epoch: int,
    rules: ElectionRules,
) -> Move:
    """As `begin_reassignments`, from 0.8.1 to 2.3; rows whose target is in sync already stay.

    Args:
        table, rows, target, controller_epoch, rules: as of `begin_reassignments`.
        scala: Scala line of the Kafka version, which fixes the order of the lists.

    >>> from simzk.partitions.arrays import pack, unpack
    >>> from simzk.partitions.rules import rules_of
    >>> from simzk.partitions.table import PartitionTable
    >>> table, rules = PartitionTable(), rules_of((1, 1, 0))
    >>> rows, target = table.add("t", {0: [1, 2]}), pack([[3, 2]])
    >>> unpack(begin_legacy_reassignments(table, rows, target, "2.12", controller_epoch=1, rules=rules).after.replicas)
    [(3, 2, 1)]
    """
    replicas, states = table.replicas_and_states(rows)
    waiting = np.flatnonzero(~in_sync(target, states.isr))
    rows, replicas, states = rows[waiting], taken(replicas, waiting), states.at(waiting)
    widened = widened_for_legacy(taken(target, waiting), replicas, scala)
    course = Course(replicas, states, False, rules)
    course.rewrite(np.ones(len(rows), dtype=np.bool_))
    changed = Change.between(rows, states, course.outcome(controller_epoch))
    return Move(rows, _settled(replicas), _settled(widened), changed)


def cancel_reassignments(
    table: PartitionTable, rows: IntArray, *, controller_epoch: int, rules: ElectionRules = LATEST
) -> Move:
    """Reassignments are taken back: their target is where they began; rows that are not moving stay."""
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
    again: bool = True,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Move:
    """Reassignments whose whole target is in sync come to their end.

    Args:
        table: the partitions.
        rows: int32[k], distinct; those that are not moving, or not there yet, stay.
        live: mask of live brokers.
        controller_epoch: the epoch of the controller that writes.
        target: int32[k, v], where each is going, up to 2.3; None where the lists tell.
        again: whether a leader that stays gets a new epoch (0.8.1 and later).
        unclean_allowed: whether unclean election is on, by row of the table, or one for all (0.8.2 to 1.0 only).
        rules: the row of the Kafka version.
    """
    before, states = table.assignment(rows), table.states(rows)
    goal = target_of(before) if target is None else target
    under_way = is_reassigning(before) if target is None else _differ(before, _settled(target))
    ready = np.flatnonzero(under_way & in_sync(goal, states.isr) & (states.version >= 0))
    rows, before, states, goal = rows[ready], _at(before, ready), states.at(ready), taken(goal, ready)
    allowed = unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[rows]
    course = Course(before.replicas, states, allowed, rules)
    move_leaders(course, goal, live, np.ones(len(rows), dtype=np.bool_), rules, again=again)
    for leaving in keep(before.replicas, ~contained(before.replicas, goal)).T:
        course.remove(leaving)
    return Move(rows, before, _settled(goal), Change.between(rows, states, course.outcome(controller_epoch)))


def _settled(replicas: IntArray) -> Assignment:
    """Replicas that are not moving."""
    nobody = np.full((len(replicas), 1), NONE, dtype=np.int32)
    return Assignment(replicas, nobody, nobody)


def move_leaders(
    course: Course, target: IntArray, live: BoolArray, chosen: BoolArray, rules: ElectionRules, *, again: bool = True
) -> None:
    """A leader of the target for some partitions: the old one in a new epoch, or another one by election.

    Args:
        course: of k partitions.
        target: int32[k, v], the replicas wanted.
        live: mask of live brokers.
        chosen: bool[k], which of them.
        rules: the row of the Kafka version.
        again: whether a leader that stays gets a new epoch (0.8.1 and later).
    """
    leads_on = contained(course.leader[:, None], target)[:, 0] & among(course.leader, live)
    if again:
        course.rewrite(chosen & leads_on)
    others = np.flatnonzero(chosen & ~leads_on)
    course.elect(others, elect_for_reassignment(taken(target, others), taken(course.isr, others), live, rules=rules))


def _differ(one: Assignment, other: Assignment) -> BoolArray:
    """Whose lists are not the same, bool[k]."""
    width = max(ids.shape[1] for ids in (*one, *other))
    differ = np.zeros(len(one.replicas), dtype=np.bool_)
    for ids, others in zip(one, other, strict=True):
        differ |= any_of(widen(ids, width) != widen(others, width))
    return differ


def _at(assignment: Assignment, places: NDArray[np.intp]) -> Assignment:
    return Assignment(*(taken(ids, places) for ids in assignment))


PHASES = ("before", "widened", "joined", "led", "removed", "finished")
"""The phases in their order."""


class Steps(Enum):
    """Which steps a range of Kafka versions takes."""

    NAMED = "2.4 and later: the topic's znode tells what is added and removed (KIP-455)"
    WIDENED = "0.8.1 to 2.3: it names old and new replicas alike"
    BARE = "0.8.0: it names the old ones until the end"


class Phase(NamedTuple):
    """Where k partitions stand after a phase.

    Args:
        name: one of `PHASES`.
        assignment: what the topics' znodes say; before KIP-455 nothing is named as adding or removing.
        states: what stands in the `state` znodes.
    """

    name: str
    assignment: Assignment
    states: States


class Reassigned(NamedTuple):
    """The phases of k partitions, and which of them never get past *joined*, bool[k]."""

    phases: tuple[Phase, ...]
    waits: BoolArray

    def at(self, name: str) -> Phase:
        """The phase of that name."""
        return self.phases[PHASES.index(name)]


def reassignment_phases(
    replicas: IntArray,
    states: States,
    target: IntArray,
    live: BoolArray,
    *,
    controller_epoch: int = 0,
    steps: Steps = Steps.NAMED,
    rules: ElectionRules = LATEST,
    scala: Scala = "2.13",
) -> Reassigned:
    """The states of partitions after each phase of a reassignment, while nothing else happens.

    Args:
        replicas: int32[k, w], present replicas in preference order; no reassignment is under way.
        states: of the k partitions.
        target: int32[k, v], the replicas that are wanted.
        live: mask of live brokers.
        controller_epoch: of the controller that carries it out.
        steps, rules, scala: of the Kafka version.

    Returns:
        the phases; `version` grows by one with each write of a state.

    >>> from simzk.partitions.arrays import broker_mask, pack, unpack
    >>> from simzk.partitions.states import LeaderAndIsr, states_of
    >>> before = states_of([LeaderAndIsr(1, 4, (1, 2), 1)], 2)
    >>> moved = reassignment_phases(pack([[1, 2]]), before, pack([[3, 2]]), broker_mask([1, 2, 3]))
    >>> for name, assignment, states in moved.phases:
    ...     state = states.one(0)
    ...     print(name, *unpack(assignment.replicas), state.leader, state.isr, state.leader_epoch, state.version)
    before (1, 2) 1 (1, 2) 4 0
    widened (3, 2, 1) 1 (1, 2) 5 1
    joined (3, 2, 1) 1 (1, 2, 3) 5 2
    led (3, 2, 1) 3 (1, 2, 3) 6 3
    removed (3, 2, 1) 3 (2, 3) 7 4
    finished (3, 2) 3 (2, 3) 7 4
    """
    width = max(replicas.shape[1] + target.shape[1], states.isr.shape[1])
    states = states._replace(isr=widen(states.isr, width))
    none = np.full((len(replicas), 1), NONE, dtype=np.int32)
    present = Assignment(replicas, none, none)
    moving = reassign_to(present, target)
    begun = ~_same(replicas, target) if steps != Steps.NAMED else np.ones(len(replicas), dtype=np.bool_)
    # From KIP-455 on a change of order alone waits for nobody.
    whole = in_sync(target, states.isr)
    if steps == Steps.NAMED:
        whole |= ~is_reassigning(moving)
    waiting = begun & ~whole
    widened = _widened(present, moving, target, waiting, steps, scala)
    course = Course(replicas, states, False, rules)
    if steps != Steps.BARE:
        course.rewrite(waiting)
    told = course.outcome(controller_epoch)
    joined = _joined(told, target, live, waiting, scala)
    done = begun & (whole | in_sync(target, joined.isr))
    course = Course(replicas, joined, False, rules)
    move_leaders(course, target, live, done, rules, again=steps != Steps.BARE)
    led = course.outcome(controller_epoch)
    for leaving in moving.removing.T:
        course.remove(np.where(done, leaving, np.int32(NONE)))
    removed = course.outcome(controller_epoch)
    phases = (
        Phase("before", present, states),
        Phase("widened", widened, told),
        Phase("joined", widened, joined),
        Phase("led", widened, led),
        Phase("removed", widened, removed),
        Phase("finished", _put(widened, done, completed(moving)), removed),
    )
    assert tuple(phase.name for phase in phases) == PHASES
    return Reassigned(phases, begun & ~done)


def _same(left: IntArray, right: IntArray) -> BoolArray:
    width = max(left.shape[1], right.shape[1])
    return ~any_of(widen(left, width) != widen(right, width))


def _widened(
    present: Assignment, moving: Assignment, target: IntArray, waiting: BoolArray, steps: Steps, scala: Scala
) -> Assignment:
    """What the topics' znodes say while the target is not in sync."""
    match steps:
        case Steps.NAMED:
            return moving
        case Steps.WIDENED:
            both = widened_for_legacy(target, present.replicas, scala)
            return _put(present, waiting, present._replace(replicas=both))
        case Steps.BARE:
            return present


def _put(before: Assignment, chosen: BoolArray, after: Assignment) -> Assignment:
    """An assignment of which some rows are those of another."""
    columns = []
    for old, new in zip(before, after, strict=True):
        width = max(old.shape[1], new.shape[1])
        columns.append(np.where(chosen[:, None], widen(new, width), widen(old, width)))
    return Assignment(*columns)


def _joined(states: States, target: IntArray, live: BoolArray, waiting: BoolArray, scala: Scala) -> States:
    """Who lives of the target joins the ISR, one after the other; each time the leader writes."""
    able = waiting & among(states.leader, live)
    missing = able[:, None] & among(target, live) & ~contained(target, states.isr)
    after = states.map(np.copy)
    for place in range(target.shape[1]):
        rows = np.flatnonzero(missing[:, place])
        before = after.at(rows)
        isr = expand_isr(before.isr, target[rows, place], scala)[:, : states.isr.shape[1]]
        after.put(rows, before._replace(isr=isr, version=before.version + np.int32(1)))
    return after
