"""Reassignment plans as columns, their difference from a layout, and the phases of the reassignment.

Rules of the module (docs/reference/kafka.md §2.11; KafkaController.onPartitionReassignment):

1. A plan that repeats a partition, or names unknown partitions or invalid replicas, is rejected as a whole; the error
   lists the first ten partitions. Checks of Kafka's tools, which differ by release, are in
   `simzk.kafka.zookeeper_mode.tools.reassign_partitions`.
2. Rows are found by binary search, without a loop over partitions in Python.
3. Phases are the states that a reassignment leaves in the znodes of its partitions. The phases of one partition follow
   each other; partitions of one plan proceed independently. A phase shows all partitions at the same step. A partition
   that has nothing to do in a phase stays unchanged.
4. *widened*: the topic znode names old and new replicas, and a new leader epoch makes the leader accept the new ones.
   Only where some of the target is not in sync (KIP-455 writes the topic znode in any case).
   *joined*: the missing target replicas joined the ISR, one write of the leader each, in the order of the target.
   *led*: a target replica leads: the old leader in a new epoch, or an elected one.
   *removed*: the old replicas left the ISR, one write and leader epoch each, and are deleted.
   *finished*: the topic znode names the target alone.
5. A partition *waits* at *joined*, until another event helps it, where a target replica is not live or no replica
   leads.
6. Before KIP-455 a partition whose assignment already equals the target is dropped; from KIP-455 on it gets a new
   leader epoch.
7. Elections, ISR changes and assignments are computed by the functions that the controller calls.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import NONE, BoolArray, IntArray, among, any_of, contained, sizes, widen, without
from simzk.partitions.layouts.layout import NAMED_PROBLEMS
from simzk.partitions.layouts.summary import breaks_rack_rule
from simzk.partitions.reassignment import (
    Assignment,
    completed,
    in_sync,
    is_reassigning,
    reassign_to,
    widened_for_legacy,
)
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.table import validate_replicas
from simzk.partitions.transitions import (
    after_leader_write,
    complete_reassignment,
    expand_isr,
    raise_leader_epoch,
    remove_from_isr,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.jvm.scala_collections import Scala
    from simzk.partitions.layouts import Brokers, Layout
    from simzk.partitions.states import States
    from simzk.partitions.table import Partitions


class Plan(NamedTuple):
    """Target replicas of k partitions.

    Args:
        partitions: their names.
        replicas: int32[k, v], broker ids in preference order.
    """

    partitions: Partitions
    replicas: IntArray


class Diff(NamedTuple):
    """Changes that a plan makes to its k partitions.

    Args:
        rows: int[k], of the layout.
        before: int32[k, w], present replicas.
        after: int32[k, v], target replicas.
        adding: int32[k, v], new replicas, in the order of the plan.
        removing: int32[k, w], replicas that are removed.
        order_only: bool[k], same replicas in another order.
        unchanged: bool[k], same replicas in the same order.
        preferred_changed: bool[k], another first replica.
        breaks_racks: bool[k], the target replicas are in fewer racks than possible.
        broke_racks: bool[k], likewise the present replicas.
    """

    rows: NDArray[np.intp]
    before: IntArray
    after: IntArray
    adding: IntArray
    removing: IntArray
    order_only: BoolArray
    unchanged: BoolArray
    preferred_changed: BoolArray
    breaks_racks: BoolArray
    broke_racks: BoolArray


def diff_of(layout: Layout, plan: Plan) -> Diff:
    """Return the changes that a plan makes to a layout.

    Raises:
        LayoutError: the plan does not fit the layout.

    >>> from simzk.partitions.arrays import pack
    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> from simzk.partitions.table import Partitions
    >>> layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=2, replication_factor=2, seed=0)
    >>> plan = Plan(Partitions(["topic-0"], np.array([0]), np.array([1])), pack([[2, 0]]))
    >>> diff = diff_of(layout, plan)
    >>> layout.replicas.tolist(), diff.adding.tolist(), diff.removing.tolist(), diff.preferred_changed.tolist()
    ([[0, 2], [1, 0]], [[2, -1]], [[1, -1]], [True])
    """
    validate_plan(layout.brokers, plan)
    rows, target = find_rows(layout, plan.partitions), plan.replicas
    unknown = np.flatnonzero(rows == NONE)
    if len(unknown):
        _reject("that the layout does not have", plan.partitions, unknown, "partitions of the layout")
    moving = np.flatnonzero(np.isin(rows, layout.reassigning))
    if len(moving):
        after = "a layout after these reassignments completed or were cancelled"
        _reject("that are already being reassigned", plan.partitions, moving, after)
    before = layout.replicas[rows]
    assert len(before) == len(target)
    adding, removing = without(target, before), without(before, target)
    unchanged = _same(before, target)
    return Diff(
        rows=rows,
        before=before,
        after=target,
        adding=adding,
        removing=removing,
        order_only=(sizes(adding) + sizes(removing) == 0) & ~unchanged,
        unchanged=unchanged,
        preferred_changed=before[:, 0] != target[:, 0],
        breaks_racks=breaks_rack_rule(layout.brokers, target),
        broke_racks=breaks_rack_rule(layout.brokers, before),
    )


def validate_plan(brokers: Brokers, plan: Plan) -> None:
    """Raise an error if a plan is invalid for all layouts with these brokers.

    Raises:
        LayoutError: a partition is repeated, or a list of replicas is empty, repeats a broker or names an unknown one.
    """
    names = plan.partitions
    validate_replicas(plan.replicas)
    key = names.topic.astype(np.int64) << 32 | names.partition
    _, firsts, counts = np.unique(key, return_index=True, return_counts=True)
    repeated = np.sort(firsts[counts > 1])
    if len(repeated):
        _reject("repeated", names, repeated, "each partition once")
    unknown = (plan.replicas != NONE) & ~np.isin(plan.replicas, brokers.ids)
    if unknown.any():
        _reject("on a broker that the layout does not have", names, np.flatnonzero(any_of(unknown)), "known brokers")


def _reject(problem: str, names: Partitions, places: NDArray[np.intp], right: str) -> None:
    shown = [f"{topic}-{number}" for topic, number in names.at(places[:NAMED_PROBLEMS]).names()]
    more = len(places) - len(shown)
    listed = ", ".join(shown) + (f" and {more:,} more" if more else "")
    raise LayoutError(f"the plan has partitions {problem}: {listed}", where="reassignment", right=right)


def find_rows(layout: Layout, partitions: Partitions) -> NDArray[np.intp]:
    """Return the rows of partitions in a layout, -1 for unknown partitions; int[k]."""
    number_of = {name: number for number, name in enumerate(layout.topics)}
    numbers = np.array([number_of.get(name, NONE) for name in partitions.topics], np.int64)
    wanted = numbers[partitions.topic] << 32 | partitions.partition
    keys = layout.topic.astype(np.int64) << 32 | layout.partition
    order = None if (keys[1:] > keys[:-1]).all() else np.argsort(keys, kind="stable")
    ascending = keys if order is None else keys[order]
    places = np.searchsorted(ascending, wanted)
    known = np.flatnonzero(places < len(keys))
    known = known[ascending[places[known]] == wanted[known]]
    found = np.full(len(wanted), NONE, np.intp)
    found[known] = places[known] if order is None else order[places[known]]
    assert (layout.partition[found[known]] == partitions.partition[known]).all()
    return found


PHASES = ("before", "widened", "joined", "led", "removed", "finished")
"""Names of the phases, in order."""


class Steps(Enum):
    """Steps of a reassignment by range of Kafka versions."""

    NAMED = "2.4 and later: the topic znode lists added and removed replicas (KIP-455)"
    WIDENED = "0.8.1 to 2.3: the topic znode lists old and new replicas alike"
    BARE = "0.8.0: the topic znode lists the old replicas until the end"


class Phase(NamedTuple):
    """Assignments and states of k partitions after a phase.

    Args:
        name: one of `PHASES`.
        assignment: in the topic znodes; before KIP-455 nothing is named as adding or removing.
        states: in the `state` znodes.
    """

    name: str
    assignment: Assignment
    states: States


class Reassigned(NamedTuple):
    """The phases of k partitions, and which partitions stop at *joined*, bool[k]."""

    phases: tuple[Phase, ...]
    waits: BoolArray

    def at(self, name: str) -> Phase:
        """Return the phase of that name."""
        return self.phases[PHASES.index(name)]


def reassignment_phases(
    replicas: IntArray,
    states: States,
    target: IntArray,
    live: BoolArray,
    *,
    steps: Steps = Steps.NAMED,
    rules: ElectionRules = LATEST,
    scala: Scala = "2.13",
) -> Reassigned:
    """Compute the states of partitions after each phase of a reassignment, if nothing else happens.

    Args:
        replicas: int32[k, w], present replicas in preference order; no reassignment is under way.
        states: k states before.
        target: int32[k, v], the target replicas.
        live: bool[m], mask of live brokers.
        steps, rules, scala: of the Kafka version.

    Returns:
        the phases; `version` grows by one with each write of a state znode, and the controller epoch is 0.

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
    assert len(replicas) == len(target) == len(states.leader)
    width = max(replicas.shape[1] + target.shape[1], states.isr.shape[1])
    states = states._replace(isr=widen(states.isr, width))
    none = np.full((len(replicas), 1), NONE, dtype=np.int32)
    present = Assignment(replicas, none, none)
    moving = reassign_to(present, target)
    begun = ~_same(replicas, target) if steps != Steps.NAMED else np.ones(len(replicas), dtype=np.bool_)
    # From KIP-455 on a change of order alone waits for no replica.
    ready = in_sync(target, states.isr)
    if steps == Steps.NAMED:
        ready |= ~is_reassigning(moving)
    waiting = begun & ~ready
    assignment = moving if steps == Steps.NAMED else present
    if steps == Steps.WIDENED:
        both = widened_for_legacy(target, replicas, scala)
        assignment = _put(present, waiting, present._replace(replicas=both))
    raises_epoch = steps != Steps.BARE
    widened = raise_leader_epoch(states, controller_epoch=0, chosen=waiting) if raises_epoch else states
    joined = _joined(widened, target, live, waiting, scala)
    done = begun & (ready | in_sync(target, joined.isr))
    led = complete_reassignment(joined, target, live, done, controller_epoch=0, raises_epoch=raises_epoch, rules=rules)
    removed = _without_leaving(led, moving, done, rules)
    phases = (
        Phase("before", present, states),
        Phase("widened", assignment, widened),
        Phase("joined", assignment, joined),
        Phase("led", assignment, led),
        Phase("removed", assignment, removed),
        Phase("finished", _put(assignment, done, completed(moving)), removed),
    )
    assert tuple(phase.name for phase in phases) == PHASES
    assert (removed.version >= states.version).all(), "each write of a state znode raises its version"
    is_in_sync = in_sync(target, removed.isr) | ~is_reassigning(moving)
    assert is_in_sync[done].all(), "a finished move has its target in sync"
    return Reassigned(phases, begun & ~done)


def _without_leaving(states: States, moving: Assignment, done: BoolArray, rules: ElectionRules) -> States:
    """Return the states after the leaving replicas of the partitions of `done` left their ISRs, one after the other."""
    for leaving in moving.removing.T:
        broker = np.where(done, leaving, np.int32(NONE))
        states = remove_from_isr(states, broker, controller_epoch=0, rules=rules).after
    return states


def _same(left: IntArray, right: IntArray) -> BoolArray:
    return ~any_of(widen(left, right.shape[1]) != widen(right, left.shape[1]))


def _put(before: Assignment, chosen: BoolArray, after: Assignment) -> Assignment:
    """Replace the chosen rows, bool[k], of an assignment by those of another."""
    assert all(len(old) == len(new) == len(chosen) for old, new in zip(before, after, strict=True))
    pairs = zip(before, after, strict=True)
    return Assignment(
        *(np.where(chosen[:, None], widen(new, old.shape[1]), widen(old, new.shape[1])) for old, new in pairs)
    )


def _joined(states: States, target: IntArray, live: BoolArray, waiting: BoolArray, scala: Scala) -> States:
    """Add the live target replicas to the ISR one after another; each is one write of the leader."""
    can_join = waiting & among(states.leader, live)
    missing = can_join[:, None] & among(target, live) & ~contained(target, states.isr)
    after = states.map(np.copy)
    for place in range(target.shape[1]):
        rows = np.flatnonzero(missing[:, place])
        before = after.at(rows)
        expanded = expand_isr(before.isr, target[rows, place], scala)
        isr = expanded[:, : states.isr.shape[1]]
        assert (expanded[:, states.isr.shape[1] :] == NONE).all(), "the width fits all present and target replicas"
        after.put(rows, after_leader_write(before, isr))
    return after
