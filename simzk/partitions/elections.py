"""Who becomes leader: the election strategies of Kafka's partition state machine, over batches of partitions.

Rules of the module (docs/reference/kafka.md §2.6; PartitionLeaderElectionAlgorithms in Kafka's controller):

1. One pure function a strategy. It takes the columns of k partitions and returns what the election decides; the
   counters (leader epoch + 1, controller epoch, version + 1) move where the outcome is written.
2. A partition whose election fails keeps everything: `elected` is False, its `isr` the one handed in, its `leader` -1.
3. *Live* means: the broker is registered and not shutting down, and its replica is not on an offline log dir. Brokers
   come as a mask over broker ids; replicas on offline log dirs, which differ by partition, as a padded list.
4. What differs by Kafka version is read from the row of `rules.RULES` handed in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simzk.partitions.arrays import (
    NONE,
    BoolArray,
    IntArray,
    alone,
    among,
    any_of,
    contained,
    first,
    keep,
)
from simzk.partitions.rules import LATEST, ElectionRules, Order


class Election(NamedTuple):
    """What an election decided for k partitions.

    `elected` bool[k]; `leader` int32[k], -1 where the election failed; `isr` int32[k, w], the new ISR in order;
    `unclean` bool[k], whether the leader comes from outside the ISR.
    """

    elected: BoolArray
    leader: IntArray
    isr: IntArray
    unclean: BoolArray


def live_members(ids: IntArray, live: BoolArray, on_offline_dirs: IntArray | None = None) -> BoolArray:
    """Which of the ids are live replicas; shape of `ids`."""
    alive = among(ids, live)
    if on_offline_dirs is not None:
        alive &= ~contained(ids, on_offline_dirs)
    return alive


def initial_leader_and_isr(replicas: IntArray, live: BoolArray, on_offline_dirs: IntArray | None = None) -> Election:
    """The first leader and ISR of new partitions (§2.5 Initialise): the first live replica leads, all live are in sync.

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        live: mask of live brokers.
        on_offline_dirs: int32[k, v], replicas on offline log dirs.

    Returns:
        the election; it fails where no replica is live.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> first_state = initial_leader_and_isr(pack([[1, 2, 3]]), broker_mask([2, 3]))
    >>> first_state.leader.tolist(), first_state.isr.tolist()
    ([2], [[2, 3, -1]])
    """
    alive = live_members(replicas, live, on_offline_dirs)
    leader = first(replicas, alive)
    return Election(leader != NONE, leader, keep(replicas, alive), np.zeros(len(replicas), dtype=np.bool_))


def elect_offline(
    replicas: IntArray,
    isr: IntArray,
    live: BoolArray,
    unclean_allowed: BoolArray | bool,
    on_offline_dirs: IntArray | None = None,
    rules: ElectionRules = LATEST,
) -> Election:
    """A leader for partitions whose leader is gone, or that never had one since (§2.6 Offline).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        isr: int32[k, w].
        live: mask of live brokers.
        unclean_allowed: whether unclean election is on for the partition's topic, bool[k] or one for all.
        on_offline_dirs: int32[k, v], replicas on offline log dirs.
        rules: the row of the Kafka version.

    Returns:
        the election. The ISR shrinks to its live members; an unclean leader is alone in it.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> election = elect_offline(pack([[1, 2, 3], [1, 2, 3]]), pack([[1, 3, 2], [1]], 3), broker_mask([2, 3]), False)
    >>> election.leader.tolist(), election.isr.tolist()
    ([2, -1], [[3, 2, -1], [1, -1, -1]])
    """
    in_sync = live_members(isr, live, on_offline_dirs)
    alive = live_members(replicas, live, on_offline_dirs)
    if rules.offline_order is Order.ISR:
        leader = first(isr, in_sync)
    else:
        leader = first(replicas, alive & contained(replicas, isr))
    # Unclean election is looked at only where the ISR has no live member at all: a live member that is not an
    # assigned replica blocks both kinds.
    unclean = ~any_of(in_sync) & any_of(alive) & (rules.always_unclean | np.asarray(unclean_allowed))
    leader = np.where(unclean, first(replicas, alive), leader)
    elected = leader != NONE
    new_isr = keep(isr, in_sync | ~elected[:, None])
    new_isr = np.where(unclean[:, None], alone(leader, isr.shape[1]), new_isr)
    return Election(elected, leader, new_isr, unclean)


def elect_preferred(
    replicas: IntArray,
    isr: IntArray,
    leader: IntArray,
    live: BoolArray,
    on_offline_dirs: IntArray | None = None,
    *,
    rules: ElectionRules = LATEST,
) -> Election:
    """The preferred replica, the first assigned one, as leader where it is live and in sync (§2.6 Preferred).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        isr: int32[k, w]; an election leaves it as it is.
        leader: int32[k], the present leaders.
        live: mask of live brokers.
        on_offline_dirs: int32[k, v], replicas on offline log dirs.
        rules: the row of the Kafka version.

    Returns:
        the election; it is not made (`elected` False) where the preferred replica already leads (but for 1.1, which
        elects it again), or cannot.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> lists = pack([[1, 2], [1, 2]])
    >>> elect_preferred(lists, lists, np.array([2, 1], np.int32), broker_mask([1, 2])).elected.tolist()
    [True, False]
    """
    head = replicas[:, :1]
    wanted = (head != leader[:, None]) | rules.preferred_again
    eligible = live_members(head, live, on_offline_dirs) & contained(head, isr) & wanted
    return Election(eligible[:, 0], first(head, eligible), isr, np.zeros(len(isr), dtype=np.bool_))


def elect_for_reassignment(
    target: IntArray,
    isr: IntArray,
    live: BoolArray,
    on_offline_dirs: IntArray | None = None,
    rules: ElectionRules = LATEST,
) -> Election:
    """A leader among the replicas that a reassignment will leave (§2.6 Reassign).

    Args:
        target: int32[k, w], the target replicas in preference order.
        isr: int32[k, w]; an election leaves it as it is.
        live: mask of live brokers.
        on_offline_dirs: int32[k, v], replicas on offline log dirs.
        rules: the row of the Kafka version.

    Returns:
        the election: the first target replica that is live and in sync.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> elect_for_reassignment(pack([[4, 5]]), pack([[1, 5]]), broker_mask([1, 4, 5])).leader.tolist()
    [5]
    """
    eligible = live_members(target, live, on_offline_dirs)
    if rules.reassign_needs_isr:
        eligible &= contained(target, isr)
    leader = first(target, eligible)
    return Election(leader != NONE, leader, isr, np.zeros(len(isr), dtype=np.bool_))


def elect_for_controlled_shutdown(
    replicas: IntArray,
    isr: IntArray,
    leader: IntArray,
    live_or_shutting_down: BoolArray,
    shutting_down: BoolArray,
    on_offline_dirs: IntArray | None = None,
    rules: ElectionRules = LATEST,
) -> Election:
    """A leader that takes over before the present one goes (§2.6 Controlled shutdown).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        isr: int32[k, w].
        leader: int32[k], the present leaders.
        live_or_shutting_down: mask of registered brokers.
        shutting_down: mask of brokers that have asked for a controlled shutdown.
        on_offline_dirs: int32[k, v], replicas on offline log dirs.
        rules: the row of the Kafka version.

    Returns:
        the election; the new ISR is the old one without the brokers that are shutting down.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> lists, leader = pack([[1, 2, 3]]), np.array([1], np.int32)
    >>> election = elect_for_controlled_shutdown(lists, lists, leader, broker_mask([1, 2, 3]), broker_mask([1]))
    >>> election.leader.tolist(), election.isr.tolist()
    ([2], [[2, 3, -1]])
    """
    staying = (isr != NONE) & ~among(isr, shutting_down)
    if rules.shutdown_drops_leader:
        staying &= isr != leader[:, None]
    new_isr = keep(isr, staying)
    if rules.shutdown_order is Order.ISR:
        successor = new_isr[:, 0]
    else:
        registered = live_members(replicas, live_or_shutting_down, on_offline_dirs)
        successor = first(replicas, registered & contained(replicas, new_isr))
    elected = successor != NONE
    return Election(elected, successor, np.where(elected[:, None], new_isr, isr), np.zeros(len(isr), dtype=np.bool_))
