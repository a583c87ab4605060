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

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, among, any_of, broker_mask
from simzk.partitions.elections import elect_offline
from simzk.partitions.isr import remove_from_isr
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.states import States, written
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    rows = rows[table.version[rows] >= 0]
    allowed = unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[rows]
    before = table.states(rows)
    replicas = table.replicas.take(rows, axis=0)
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
    after = states.map(np.copy)
    leaderless = (states.leader == NONE) | among(states.leader, gone)
    unclean = _elect(replicas, after, leaderless, live, controller_epoch, unclean_allowed, rules)
    _trim(replicas, after, dead, controller_epoch, unclean_allowed, rules)
    return after, unclean


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
    after = states.map(np.copy)
    if rules.failover_trims_dead:
        _trim(replicas, after, dead, controller_epoch, unclean_allowed, rules)
    leaderless = ~among(after.leader, live)
    return after, _elect(replicas, after, leaderless, live, controller_epoch, unclean_allowed, rules)


def _elect(
    replicas: IntArray,
    states: States,
    leaderless: BoolArray,
    live: BoolArray,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool,
    rules: ElectionRules,
) -> BoolArray:
    """Offline-strategy elections for the leaderless, written into `states`; which leaders are unclean, bool[k]."""
    rows = np.flatnonzero(leaderless)
    allowed = unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[rows]
    election = elect_offline(replicas.take(rows, axis=0), states.isr.take(rows, axis=0), live, allowed, rules=rules)
    won = np.flatnonzero(election.elected)
    new = written(
        states.at(rows[won]),
        election.leader[won],
        election.isr.take(won, axis=0),
        controller_epoch,
        recovering=election.unclean[won] & rules.recovering,
    )
    states.put(rows[won], new)
    unclean = np.zeros(len(leaderless), dtype=np.bool_)
    unclean[rows] = election.unclean
    return unclean


def _trim(
    replicas: IntArray,
    states: States,
    dead: Sequence[int],
    controller_epoch: int,
    unclean_allowed: BoolArray | bool,
    rules: ElectionRules,
) -> None:
    """The replicas of the dead leave the ISRs in `states`, in the order of `dead`; each removal is one write."""
    gone = broker_mask(dead)
    never = len(dead)
    turn_of = np.full(gone.size, never, dtype=np.int32)
    turn_of[np.array(dead, dtype=np.intp)] = np.arange(never, dtype=np.int32)
    brokers = np.array(dead, dtype=np.int32)
    rows = np.flatnonzero(any_of(among(states.isr, gone)))
    held = replicas.take(rows, axis=0)
    turns = np.where(among(held, gone), turn_of.take(held, mode="clip"), np.int32(never))
    # A partition has at most as many dead replicas as replicas: each round takes the next of each.
    for _ in range(min(never, replicas.shape[1])):
        soonest = reduce(np.minimum, turns.T)
        due = np.flatnonzero(soonest < never)
        turn, at = brokers[soonest[due]], rows[due]
        allowed = unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[at]
        removal = remove_from_isr(states.isr.take(at, axis=0), states.leader[at], turn, allowed, rules)
        hit = np.flatnonzero(removal.changed)
        new = written(states.at(at[hit]), removal.leader[hit], removal.isr.take(hit, axis=0), controller_epoch)
        states.put(at[hit], new)
        turns[turns == soonest[:, None]] = never
