"""Transitions of partition states: leader election, ISR changes and the epochs that each write raises.

Rules of the module (docs/reference/kafka.md §2.5, §2.6, §2.8, §2.12, §2.14; PartitionLeaderElectionAlgorithms,
ReplicaStateMachine and Partition of Kafka):

1. Every function is pure and works on columns of k partitions. Controller, what-if analysis and reassignment plans
   call the same functions, for three partitions or for ten million.
2. An election returns the new leader and ISR (`Election`); `write_election` then returns the states that the controller
   writes. A partition without an eligible leader keeps its state.
3. Each write by the controller raises leader epoch and version by one and sets the controller epoch. A write by the
   partition leader (ISR shrink or expand) raises the version only.
4. A replica is *live* if its broker is registered and not shutting down and its log directory is online. Live brokers
   are a mask over broker ids; replicas in offline log directories, which differ by partition, are a padded list.
5. A controller's removal keeps the order of the ISR. A leader keeps its ISR as a Scala Set: it writes up to four
   members in insertion order and more in hash order.
6. Differences between Kafka versions come from `ElectionRules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.jvm.scala_collections import SMALL, Scala, immutable_order
from simzk.jvm.scala_columns import lists_in_hash_order
from simzk.partitions.arrays import (
    NONE,
    BoolArray,
    IntArray,
    alone,
    among,
    any_of,
    choose,
    contained,
    count_of,
    first,
    keep,
    sizes,
    taken,
    widen,
    without,
)
from simzk.partitions.rules import LATEST, ElectionRules, LastMember, Order
from simzk.partitions.states import States, no_states

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW_LISTS = 8
"""Up to this many long ISRs are sorted one by one, which is faster than the batch sort."""


class Election(NamedTuple):
    """Result of an election for k partitions.

    Args:
        elected: bool[k], whether a leader was elected.
        leader: int32[k], -1 where the election failed.
        isr: int32[k, w], the new ISR in order; the old ISR where the election failed.
        unclean: bool[k], whether the leader was not in the ISR.
    """

    elected: BoolArray
    leader: IntArray
    isr: IntArray
    unclean: BoolArray


class Transition(NamedTuple):
    """States of k partitions after one step.

    Args:
        changed: bool[k], whether the state is written.
        after: k states; where `changed` is false they equal the states before.
        unclean: bool[k], whether an unclean leader was elected.
    """

    changed: BoolArray
    after: States
    unclean: BoolArray


# Elections


def live_members(ids: IntArray, live: BoolArray, on_offline_dirs: IntArray | None = None) -> BoolArray:
    """Return which ids are live replicas; shape of `ids`."""
    assert on_offline_dirs is None or len(on_offline_dirs) == len(ids)
    alive = among(ids, live)
    if on_offline_dirs is not None:
        alive &= ~contained(ids, on_offline_dirs)
    return alive


def initial_leader_and_isr(replicas: IntArray, live: BoolArray, on_offline_dirs: IntArray | None = None) -> Election:
    """Elect the first live replica of new partitions; all live replicas form the ISR (§2.5 Initialise).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        live: bool[m], mask of live brokers.
        on_offline_dirs: int32[k, v], replicas in offline log directories.

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
    """Elect a leader for partitions whose leader is offline or missing (§2.6 Offline).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        isr: int32[k, v].
        live: bool[m], mask of live brokers.
        unclean_allowed: bool[k] or one value for all, `unclean.leader.election.enable` of the topic.
        on_offline_dirs: int32[k, u], replicas in offline log directories.
        rules: of the Kafka version.

    Returns:
        the election. The ISR shrinks to its live members; an unclean leader is its only member.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> election = elect_offline(pack([[1, 2, 3], [1, 2, 3]]), pack([[1, 3, 2], [1]], 3), broker_mask([2, 3]), False)
    >>> election.leader.tolist(), election.isr.tolist()
    ([2, -1], [[3, 2, -1], [1, -1, -1]])
    """
    assert len(replicas) == len(isr)
    assert np.shape(unclean_allowed) in ((), (len(isr),))
    in_sync = live_members(isr, live, on_offline_dirs)
    alive = live_members(replicas, live, on_offline_dirs)
    if rules.offline_order is Order.ISR:
        leader = first(isr, in_sync)
    else:
        leader = first(replicas, alive & contained(replicas, isr))
    # Kafka considers an unclean election only if the ISR has no live member at all: a live ISR member that is not an
    # assigned replica prevents both kinds of election.
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
    """Elect the preferred replica, the first assigned one, where it is live and in the ISR (§2.6 Preferred).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        isr: int32[k, v]; it does not change.
        leader: int32[k], the present leaders.
        live: bool[m], mask of live brokers.
        on_offline_dirs: int32[k, u], replicas in offline log directories.
        rules: of the Kafka version.

    Returns:
        the election; it fails where the preferred replica is not eligible or already leads. Kafka 1.1 to 2.1 elects a
        preferred replica that already leads once more.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> lists = pack([[1, 2], [1, 2]])
    >>> elect_preferred(lists, lists, np.array([2, 1], np.int32), broker_mask([1, 2])).elected.tolist()
    [True, False]
    """
    assert len(replicas) == len(isr) == len(leader)
    head = replicas[:, :1]
    needed = (head != leader[:, None]) | rules.preferred_again
    eligible = live_members(head, live, on_offline_dirs) & contained(head, isr) & needed
    return Election(eligible[:, 0], first(head, eligible), isr, np.zeros(len(isr), dtype=np.bool_))


def elect_for_reassignment(
    target: IntArray,
    isr: IntArray,
    live: BoolArray,
    on_offline_dirs: IntArray | None = None,
    rules: ElectionRules = LATEST,
) -> Election:
    """Elect the first target replica of a reassignment that is live and in the ISR (§2.6 Reassign).

    Args:
        target: int32[k, w], the target replicas in preference order.
        isr: int32[k, v]; it does not change.
        live: bool[m], mask of live brokers.
        on_offline_dirs: int32[k, u], replicas in offline log directories.
        rules: of the Kafka version.

    Returns:
        the election.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> elect_for_reassignment(pack([[4, 5]]), pack([[1, 5]]), broker_mask([1, 4, 5])).leader.tolist()
    [5]
    """
    assert len(target) == len(isr)
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
    """Elect another leader before the present one shuts down (§2.6 Controlled shutdown).

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        isr: int32[k, v].
        leader: int32[k], the present leaders.
        live_or_shutting_down: bool[m], mask of registered brokers.
        shutting_down: bool[m], mask of brokers that requested a controlled shutdown.
        on_offline_dirs: int32[k, u], replicas in offline log directories.
        rules: of the Kafka version.

    Returns:
        the election; brokers that are shutting down leave the ISR.

    >>> from simzk.partitions.arrays import broker_mask, pack
    >>> lists, leader = pack([[1, 2, 3]]), np.array([1], np.int32)
    >>> election = elect_for_controlled_shutdown(lists, lists, leader, broker_mask([1, 2, 3]), broker_mask([1]))
    >>> election.leader.tolist(), election.isr.tolist()
    ([2], [[2, 3, -1]])
    """
    assert len(replicas) == len(isr) == len(leader)
    staying = (isr != NONE) & ~among(isr, shutting_down)
    if rules.shutdown_drops_leader:
        staying &= isr != leader[:, None]
    new_isr = keep(isr, staying)
    if rules.shutdown_order is Order.ISR:
        successor = new_isr[:, 0]
    else:
        registered = live_members(replicas, live_or_shutting_down, on_offline_dirs)
        successor = first(replicas, registered & contained(replicas, new_isr))
    assert not among(successor, shutting_down).any(), "a broker that shuts down is no successor"
    elected = successor != NONE
    return Election(elected, successor, np.where(elected[:, None], new_isr, isr), np.zeros(len(isr), dtype=np.bool_))


def leads_target(
    leader: IntArray, target: IntArray, live: BoolArray, on_offline_dirs: IntArray | None = None
) -> BoolArray:
    """Return whether the leader keeps the lead when a reassignment completes: it is live and a target replica (§2.11).

    Args:
        leader: int32[k].
        target: int32[k, w], the target replicas.
        live: bool[m], mask of live brokers.
        on_offline_dirs: int32[k, v], replicas in offline log directories.

    Returns:
        bool[k].
    """
    assert len(leader) == len(target)
    column = leader[:, None]
    return (contained(column, target) & live_members(column, live, on_offline_dirs))[:, 0]


def requires_controlled_shutdown(replicas: IntArray, states: States) -> BoolArray:
    """Return which partitions a controlled shutdown handles: those with a state and another replica; bool[k] (§2.14).

    Args:
        replicas: int32[k, w], assigned replicas; one of them is on the broker that shuts down.
        states: k states.
    """
    assert len(replicas) == len(states.version)
    return (count_of(replicas != NONE) > 1) & (states.version >= 0)


class Imbalance(NamedTuple):
    """Partitions that their preferred replica does not lead, in total and by broker.

    Args:
        misplaced: bool[k], whether another replica, or none, leads.
        preferred: int64[b], by broker id: partitions with this preferred replica.
        misplaced_of: int64[b], by broker id: those of them that it does not lead.
    """

    misplaced: BoolArray
    preferred: NDArray[np.int64]
    misplaced_of: NDArray[np.int64]

    def brokers(self, percentage: int) -> list[int]:
        """Return the brokers that do not lead more than `percentage` of the partitions that prefer them, ascending."""
        return np.flatnonzero(self.misplaced_of * 100 > percentage * self.preferred).tolist()


def imbalance(preferred: IntArray, states: States) -> Imbalance:
    """Count the partitions that their preferred replica does not lead (§2.12 Auto).

    Args:
        preferred: int32[k], the preferred replicas.
        states: k states; a partition without a state counts as preferred, but not as misplaced.
    """
    assert preferred.shape == states.leader.shape
    misplaced = (states.version >= 0) & (states.leader != preferred)
    misplaced_of = np.bincount(preferred, misplaced).astype(np.int64)
    return Imbalance(misplaced, np.bincount(preferred).astype(np.int64), misplaced_of)


# ISR changes by the partition leader


def shrink_isr(isr: IntArray, leaving: IntArray, scala: Scala = "2.13") -> IntArray:
    """Remove followers that fell behind from the ISRs, as a partition leader does (§2.8).

    Args:
        isr: int32[k, w], the ISRs that the leaders last read or wrote.
        leaving: int32[k, v], followers to remove.
        scala: Scala version of the broker, which fixes the order of sets of more than four.

    Returns:
        int32[k, w], the new ISRs in the order in which they are written.

    >>> from simzk.partitions.arrays import pack
    >>> shrink_isr(pack([[3, 1, 2]]), pack([[1]])).tolist()
    [[3, 2, -1]]
    """
    assert len(isr) == len(leaving)
    # Removing from a Scala set of more than four members keeps it a hash set, so the hash order stays.
    return without(in_set_order(isr, scala), leaving)


def expand_isr(isr: IntArray, joining: IntArray, scala: Scala = "2.13") -> IntArray:
    """Add a follower that caught up to each ISR, as a partition leader does (§2.8).

    Args:
        isr: int32[k, w], the ISRs that the leaders last read or wrote.
        joining: int32[k], the follower to add; a member of the ISR changes nothing.
        scala: Scala version of the broker, which fixes the order of sets of more than four.

    Returns:
        int32[k, v], v >= w, the new ISRs in the order in which they are written.

    >>> from simzk.partitions.arrays import pack
    >>> expand_isr(pack([[2]]), np.array([1], np.int32)).tolist()
    [[2, 1]]
    """
    assert joining.shape == isr.shape[:1]
    lengths = sizes(isr)
    members = widen(isr, int(lengths.max(initial=0)) + 1).copy()
    absent = np.flatnonzero(~any_of(members == joining[:, None]))
    members[absent, lengths[absent]] = joining[absent]
    return in_set_order(members, scala)


def in_set_order(isr: IntArray, scala: Scala) -> IntArray:
    """Return the lists, int32[k, w], in the iteration order of a Scala Set of their ids."""
    ordered = isr.copy()
    rows = np.flatnonzero(sizes(isr) > SMALL)
    if len(rows) > _FEW_LISTS:
        ordered[rows] = lists_in_hash_order(isr[rows], scala)
        return ordered
    for row in rows:
        members = isr[row][isr[row] != NONE].tolist()
        ordered[row, : len(members)] = immutable_order(members, scala)
    return ordered


# States after a write


def first_states(leader: IntArray, isr: IntArray, controller_epoch: int) -> States:
    """Return the states that a controller creates for new partitions (§2.5 Initialise).

    Args:
        leader: int32[k].
        isr: int32[k, w].
        controller_epoch: of the controller that writes.
    """
    assert len(leader) == len(isr)
    return no_states(len(leader), isr.shape[1])._replace(
        leader=leader,
        isr=isr,
        controller_epoch=np.full(len(leader), controller_epoch, dtype=np.int32),
        version=np.zeros(len(leader), dtype=np.int32),
    )


def after_controller_write(
    states: States,
    leader: IntArray,
    isr: IntArray,
    controller_epoch: int,
    *,
    recovering: BoolArray | None = None,
    changed: BoolArray | None = None,
) -> States:
    """Return the states after one write by a controller: leader epoch and version + 1 (§2.6 Counters).

    Args:
        states: k states before the write.
        leader: int32[k], the leaders written.
        isr: int32[k, w], the ISRs written.
        controller_epoch: of the controller that writes.
        recovering: bool[k], leaders to mark RECOVERING (KIP-704); a mark that exists stays.
        changed: bool[k], the partitions that are written; all if None. Others keep their epochs and version; their
            leader and ISR must be the old ones.

    >>> from simzk.partitions.states import LeaderAndIsr, states_of
    >>> before = states_of([LeaderAndIsr(1, 4, (1, 2), 7, version=9)], 2)
    >>> after_controller_write(before, np.array([2], np.int32), np.array([[2, -1]], np.int32), 8).one(0)
    LeaderAndIsr(leader=2, leader_epoch=5, isr=(2,), controller_epoch=8, version=10, recovering=False)
    """
    assert len(leader) == len(isr) == len(states.leader)
    assert changed is None or len(changed) == len(leader)
    assert changed is None or (changed | (leader == states.leader)).all(), "a leader changes without a write"
    epoch = np.full(len(leader), controller_epoch, dtype=np.int32)
    writes = np.int32(1) if changed is None else changed.astype(np.int32)
    return States(
        leader=leader,
        leader_epoch=states.leader_epoch + writes,
        isr=isr,
        controller_epoch=epoch if changed is None else choose(changed, epoch, states.controller_epoch),
        version=states.version + writes,
        recovering=states.recovering if recovering is None else states.recovering | recovering,
    )


def write_election(
    states: States, election: Election, *, controller_epoch: int, rules: ElectionRules = LATEST
) -> Transition:
    """Return the states after a controller wrote an election; where it failed, states stay.

    Args:
        states: k states before.
        election: of the k partitions.
        controller_epoch: of the controller that writes.
        rules: of the Kafka version; from 3.2 on an unclean leader is marked RECOVERING.
    """
    assert len(election.elected) == len(states.leader)
    assert not (election.unclean & ~election.elected).any()
    if rules.reassign_needs_isr:
        leads = (election.leader == NONE) | any_of(election.isr == election.leader[:, None])
        assert leads.all(), "an elected leader is in the ISR that is written"
    changed = election.elected
    all_changed = bool(changed.all())  # as mostly: then nothing is selected row by row
    after = after_controller_write(
        states,
        election.leader if all_changed else choose(changed, election.leader, states.leader),
        election.isr,
        controller_epoch,
        recovering=election.unclean & rules.recovering,
        changed=None if all_changed else changed,
    )
    return Transition(changed, after, election.unclean)


def remove_from_isr(
    states: States,
    broker: IntArray | int,
    *,
    controller_epoch: int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> Transition:
    """Remove an offline replica from the ISRs, as a controller does (§2.6 Remove a replica from the ISR).

    Args:
        states: k states before.
        broker: int32[k] or one id for all, the broker of the replica; -1 removes nothing.
        controller_epoch: of the controller that writes.
        unclean_allowed: bool[k] or one value for all, `unclean.leader.election.enable` of the topic; used by Kafka
            0.8.2 to 1.0.
        rules: of the Kafka version.

    Returns:
        the transition. A leader that is removed becomes -1. Where the last member stays in the ISR, the state is
        written nevertheless.

    >>> from simzk.partitions.arrays import pack
    >>> before = first_states(np.array([1, 2, 3], np.int32), pack([[1, 2], [2], [3]]), 1)
    >>> removal = remove_from_isr(before, 2, controller_epoch=1)
    >>> removal.changed.tolist(), removal.after.leader.tolist(), removal.after.isr.tolist()
    ([True, True, False], [1, -1, 3], [[1, -1], [2, -1], [3, -1]])
    """
    isr, leader = states.isr, states.leader
    removed = np.asarray(broker, dtype=np.int32)
    assert removed.shape in ((), leader.shape)
    assert np.shape(unclean_allowed) in ((), leader.shape)
    hit = isr == (removed[:, None] if removed.ndim else removed)
    hit &= isr != NONE
    changed = any_of(hit)
    last = changed & (sizes(isr) == 1)
    match rules.last_member:
        case LastMember.KEPT:
            kept_last = last
        case LastMember.KEPT_IF_CLEAN:
            kept_last = last & ~np.asarray(unclean_allowed)
        case LastMember.EMPTIED:
            kept_last = np.zeros_like(last)
    new_leader = choose(changed & (leader == removed), np.int32(NONE), leader)
    new_isr = keep(isr, ~hit | kept_last[:, None])
    after = after_controller_write(states, new_leader, new_isr, controller_epoch, changed=changed)
    return Transition(changed, after, np.zeros_like(changed))


def raise_leader_epoch(states: States, *, controller_epoch: int, chosen: BoolArray | None = None) -> States:
    """Return the states after a controller wrote the same leader and ISR again with a new leader epoch (§2.11 A1, B3).

    Brokers then accept LeaderAndIsr requests with the new replicas of a reassignment.

    Args:
        states: k states before.
        controller_epoch: of the controller that writes.
        chosen: bool[k], the partitions to write; all if None.
    """
    return after_controller_write(states, states.leader, states.isr, controller_epoch, changed=chosen)


def after_leader_write(states: States, isr: IntArray, controller_epoch: int | None = None) -> States:
    """Return the states after partition leaders changed their ISRs: version + 1, same leader epoch (§2.8).

    Args:
        states: k states before.
        isr: int32[k, w], the ISRs written.
        controller_epoch: of the controller that writes for the leaders (AlterPartition, 2.7+); None where leaders write
            themselves.
    """
    assert len(isr) == len(states.leader)
    after = states._replace(isr=isr, version=states.version + np.int32(1), recovering=np.zeros_like(states.recovering))
    if controller_epoch is None:
        return after
    return after._replace(controller_epoch=np.full(len(isr), controller_epoch, dtype=np.int32))


def complete_reassignment(
    states: States,
    target: IntArray,
    live: BoolArray,
    chosen: BoolArray,
    *,
    controller_epoch: int,
    raises_epoch: bool = True,
    rules: ElectionRules = LATEST,
) -> States:
    """Give partitions a leader among the target replicas of a reassignment whose target is in sync (§2.11 B3).

    Args:
        states: k states before.
        target: int32[k, w], the target replicas.
        live: bool[m], mask of live brokers.
        chosen: bool[k], the partitions to handle.
        controller_epoch: of the controller that writes.
        raises_epoch: whether a leader that stays gets a new leader epoch (0.8.1+).
        rules: of the Kafka version.

    Returns:
        k states: a live leader of the target stays; otherwise another target replica is elected, if one is eligible.
    """
    assert len(target) == len(chosen) == len(states.leader)
    stays = leads_target(states.leader, target, live)
    after = (
        raise_leader_epoch(states, controller_epoch=controller_epoch, chosen=chosen & stays) if raises_epoch else states
    )
    places = np.flatnonzero(chosen & ~stays)
    if len(places):
        before = states.at(places)
        election = elect_for_reassignment(taken(target, places), before.isr, live, rules=rules)
        after = after.map(np.copy)
        after.put(places, write_election(before, election, controller_epoch=controller_epoch, rules=rules).after)
    return after
