"""What a controller leaves in the partition states when brokers fail, and when a new controller finds them dead.

Rules of the module (docs/reference/kafka.md §2.6, §2.7):

1. At a failure, elections come first, for partitions that the dead led and for those without a leader; then the
   replicas of the dead leave the ISRs, one broker after the other. So one death costs a partition one write at most.
2. At a failover (2.3+) it is the other way round: the dead leave the ISRs, which makes their partitions leaderless, and
   then leaders are elected: two writes. Before 2.3 a new controller only elected.
3. Nothing is applied here: what comes back is the states before and after. The elections and removals are those of
   `elections` and `isr`, which a controller calls itself between its reads and writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, among, any_of, broker_mask, choose, contained, taken
from simzk.partitions.elections import elect_offline
from simzk.partitions.isr import remove_from_isr
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.states import States, written
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simzk.partitions.table import PartitionTable


class Failure(NamedTuple):
    """Partitions that a failure changed: `rows` int32[c] of the table, their states before and after, and whether their
    new leader came from outside the ISR, `unclean` bool[c]."""

    rows: IntArray
    before: States
    after: States
    unclean: BoolArray


def fail_brokers(
    table: PartitionTable,
    dead: Sequence[int],
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Failure:
    """What the controller's handling of a broker failure changes in a table; nothing is applied.

    Args:
        table: the partitions; only rows with a replica on a dead broker are read.
        dead: brokers that failed in one event, in the order in which the controller handles their replicas.
        live: mask of the brokers that remain, less those shutting down.
        controller_epoch: the epoch of the controller that writes.
        unclean_allowed: whether unclean election is on, bool[len(columns of the table)] by row, or one for all.
        rules: the row of the Kafka version.

    Returns:
        the changed partitions; `table.apply(failure.rows, failure.after)` makes it so.

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
    allowed = unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[rows]
    if (before.version < 0).any():
        known = np.flatnonzero(before.version >= 0)
        rows, replicas, before = rows[known], taken(replicas, known), before.at(known)
        allowed = allowed if isinstance(allowed, bool) else allowed[known]
    after, unclean = broker_failure(
        replicas,
        before,
        dead,
        live,
        controller_epoch=controller_epoch,
        unclean_allowed=allowed,
        rules=rules,
    )
    changed = after.version != before.version
    if changed.all():
        return Failure(rows, before, after, unclean)
    return Failure(rows[changed], before.where(changed), after.where(changed), unclean[changed])


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
    """The states after a controller has handled a broker failure (§2.7 steps 2 to 4).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        states: of the k partitions, all of which have a state znode.
        dead, live, controller_epoch, unclean_allowed, rules: as in `fail_brokers`, `unclean_allowed` bool[k] here.

    Returns:
        the states after, where `version` tells how many writes there were, and which leaders are unclean, bool[k].
    """
    gone = broker_mask(dead)
    assert not among(np.array(dead, dtype=np.int32), live).any(), f"brokers {list(dead)} are dead and live"
    course = _Course(states)
    leaderless = (states.leader == NONE) | among(states.leader, gone)
    unclean = _elect(replicas, course, leaderless, live, unclean_allowed, rules)
    _trim(replicas, course, dead, unclean_allowed, rules)
    return course.outcome(states, controller_epoch, unclean & rules.recovering), unclean


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
    """The states after a new controller has started its state machines (§2.3 steps 6 and 7, KAFKA-3143).

    Args:
        replicas, states, live, controller_epoch, unclean_allowed, rules: as in `broker_failure`.
        dead: all brokers that hold a replica and are not live, in the order in which their replicas are handled.

    Returns:
        as `broker_failure` does.
    """
    course = _Course(states)
    if rules.failover_trims_dead:
        _trim(replicas, course, dead, unclean_allowed, rules)
    leaderless = ~among(course.leader, live)
    unclean = _elect(replicas, course, leaderless, live, unclean_allowed, rules)
    return course.outcome(states, controller_epoch, unclean & rules.recovering), unclean


class _Course:
    """Leaders and ISRs of k partitions while they are handled, and how often each has been written."""

    def __init__(self, states: States) -> None:
        self.leader = states.leader.copy()
        self.isr = states.isr.copy(order="F")
        self.writes = np.zeros(len(states.leader), dtype=np.int32)

    def outcome(self, before: States, controller_epoch: int, recovering: BoolArray) -> States:
        """The states after all of it."""
        return written(before, self.leader, self.isr, controller_epoch, recovering, self.writes)


def _elect(
    replicas: IntArray,
    course: _Course,
    leaderless: BoolArray,
    live: BoolArray,
    unclean_allowed: BoolArray | bool,
    rules: ElectionRules,
) -> BoolArray:
    """Offline-strategy elections for the leaderless; which leaders are unclean, bool[k]."""
    unclean = np.zeros(len(leaderless), dtype=np.bool_)
    rows = np.flatnonzero(leaderless)
    if not rows.size:
        return unclean
    allowed = unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[rows]
    election = elect_offline(taken(replicas, rows), taken(course.isr, rows), live, allowed, rules=rules)
    # An election that fails leaves the ISR, and the leader, dead or none, for whoever trims.
    course.leader[rows] = choose(election.elected, election.leader, course.leader[rows])
    for place, of_place in zip(course.isr.T, election.isr.T, strict=True):
        place[rows] = of_place
    course.writes[rows] += election.elected
    unclean[rows] = election.unclean
    return unclean


def _trim(
    replicas: IntArray,
    course: _Course,
    dead: Sequence[int],
    unclean_allowed: BoolArray | bool,
    rules: ElectionRules,
) -> None:
    """The replicas of the dead leave the ISRs, in the order of `dead`; each removal is one write."""
    for broker in _turns(replicas, course.isr, dead):
        removal = remove_from_isr(course.isr, course.leader, broker, unclean_allowed, rules)
        course.leader, course.isr = removal.leader, removal.isr
        course.writes += removal.changed


def _turns(replicas: IntArray, isr: IntArray, dead: Sequence[int]) -> Iterator[IntArray]:
    """Of each partition its dead replicas that are in sync, one a round, in the order of `dead`; then -1: int32[k].

    A partition has at most as many as it has replicas, however many brokers are dead.
    """
    if len(dead) == 1:
        yield choose(any_of(replicas == dead[0]), np.int32(dead[0]), np.int32(NONE))
        return
    never = len(dead)
    turn_of = np.full(max(dead, default=0) + 1, never, dtype=np.int32)
    turn_of[np.array(dead, dtype=np.intp)] = np.arange(never, dtype=np.int32)
    brokers = np.array([*dead, NONE], dtype=np.int32)
    concerned = among(replicas, broker_mask(dead)) & contained(replicas, isr)
    turns = np.where(concerned, turn_of.take(replicas, mode="clip"), np.int32(never)).T
    while (soonest := turns.min(axis=0)).min(initial=never) < never:
        yield brokers[soonest]
        turns = np.where(turns == soonest, np.int32(never), turns)
