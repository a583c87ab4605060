"""What a reassignment leaves in the znodes of its partitions, phase by phase.

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
from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, among, any_of, contained, widen
from simzk.partitions.course import Course
from simzk.partitions.isr import expand_isr
from simzk.partitions.moves import move_leaders
from simzk.partitions.reassignment import (
    Assignment,
    completed,
    in_sync,
    is_reassigning,
    reassign_to,
    widened_for_legacy,
)
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from simzk.partitions.scala_order import Scala
    from simzk.partitions.states import States

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
