"""What a controller leaves in the partition states when brokers fail, start or bounce, and when a new one takes over.

Rules of the module (docs/reference/kafka.md §2.6, §2.7):

1. At a failure, elections come first, for partitions that the dead led and for those without a leader; then the
   replicas of the dead leave the ISRs, one broker after the other. So one death costs a partition one write at most.
2. At a failover (2.3+) it is the other way round: the dead leave the ISRs, which makes their partitions leaderless, and
   then leaders are elected: two writes. Before 2.3 a new controller only elected.
3. A broker that starts is a candidate for what has no leader, and lets new partitions begin that waited for a live
   replica; into ISRs it comes by its leaders alone. One that was away too shortly to be missed (from 2.2 on) fails,
   then starts.
4. Nothing is applied here: what comes back is the states before and after. The elections and removals are those of
   `elections` and `isr`, which a controller calls itself between its reads and writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, among, broker_mask, taken
from simzk.partitions.course import Change, Course
from simzk.partitions.elections import initial_leader_and_isr
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.states import States, first_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.partitions.table import PartitionTable


def fail_brokers(
    table: PartitionTable,
    dead: Sequence[int],
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Change:
    """What the controller's handling of a broker failure changes in a table; nothing is applied.

    Args:
        table: the partitions; only rows with a replica on a dead broker are read.
        dead: brokers that failed in one event, in the order in which the controller handles their replicas.
        live: mask of the brokers that remain, less those shutting down.
        controller_epoch: the epoch of the controller that writes.
        unclean_allowed: whether unclean election is on, bool[len(columns of the table)] by row, or one for all.
        rules: the row of the Kafka version.

    Returns:
        the changed partitions; `table.apply(change.rows, change.after)` makes it so.

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
        unclean_allowed=_at(unclean_allowed, rows),
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
    """What the controller's handling of brokers that start changes in a table; nothing is applied.

    Args:
        table: the partitions; only rows with a replica on a broker that starts are read.
        started: brokers that were not there before.
        live: mask of all brokers that live now, those among them.
        controller_epoch, unclean_allowed, rules: as in `fail_brokers`.

    Returns:
        the changed partitions; of those that had no state znode, `before.version` is -1.

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
    after, unclean = broker_start(
        replicas,
        before,
        live,
        controller_epoch=controller_epoch,
        unclean_allowed=_at(unclean_allowed, rows),
        rules=rules,
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
    """What the controller does of brokers whose epoch alone tells that they were away (KIP-380); nothing is applied.

    Args:
        table: the partitions; only rows with a replica on a bounced broker are read.
        bounced: those brokers, in the order in which the controller handles their replicas.
        live: mask of all brokers that live, those among them.
        controller_epoch, unclean_allowed, rules: as in `fail_brokers`.

    Returns:
        the changed partitions, from before the failure to after the start.
    """
    rows = table.rows_with_replica(*bounced)
    replicas, before = table.replicas_and_states(rows)
    allowed = _at(unclean_allowed, rows)
    others = live.copy()
    others[list(bounced)] = False
    between, failed = broker_failure(
        replicas,
        before,
        bounced,
        others,
        controller_epoch=controller_epoch,
        unclean_allowed=allowed,
        rules=rules,
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
    """The states after a controller has handled a broker failure (§2.7 steps 2 to 4).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        states: of the k partitions; those without a state znode stay so.
        dead, live, controller_epoch, unclean_allowed, rules: as in `fail_brokers`, `unclean_allowed` bool[k] here.

    Returns:
        the states after, where `version` tells how many writes there were, and which leaders are unclean, bool[k].
    """
    assert not among(np.array(dead, dtype=np.int32), live).any(), f"brokers {list(dead)} are dead and live"
    course = Course(replicas, states, unclean_allowed, rules)
    course.elect_offline((states.leader == NONE) | among(states.leader, broker_mask(dead)), live)
    course.trim(dead)
    return course.outcome(controller_epoch), course.unclean


def broker_start(
    replicas: IntArray,
    states: States,
    live: BoolArray,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> tuple[States, BoolArray]:
    """The states after a controller has handled brokers that start (§2.7 step 4).

    Args:
        replicas, states, controller_epoch, unclean_allowed, rules: as in `broker_failure`.
        live: mask of all brokers that live now.

    Returns:
        as `broker_failure` does; new partitions have a state znode where a replica lives.
    """
    course = Course(replicas, states, unclean_allowed, rules)
    course.elect_offline(states.leader == NONE, live)
    after = course.outcome(controller_epoch)
    new = np.flatnonzero(states.version < 0)
    if new.size:
        election = initial_leader_and_isr(taken(replicas, new), live)
        begun = np.flatnonzero(election.elected)
        after.put(new[begun], first_states(election.leader[begun], taken(election.isr, begun), controller_epoch))
    return after, course.unclean


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
    course = Course(replicas, states, unclean_allowed, rules)
    if rules.failover_trims_dead:
        course.trim(dead)
    course.elect_offline(~among(course.leader, live), live)
    return course.outcome(controller_epoch), course.unclean


def _at(unclean_allowed: BoolArray | bool, rows: IntArray) -> BoolArray | bool:
    return unclean_allowed if isinstance(unclean_allowed, bool) else unclean_allowed[rows]
