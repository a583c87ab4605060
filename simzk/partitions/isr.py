"""How an ISR changes outside elections: a replica removed by the controller, shrunk and expanded by the leader.

Rules of the module (docs/reference/kafka.md §2.6 "Remove a replica from the ISR", §2.8):

1. The controller's removal raises the leader epoch with the version; the leader's shrink and expand leave it.
2. The ISR is a list, and its order is written: the controller's removal keeps it. A leader holds its ISR as a Scala
   Set, so that what it writes is in insertion order up to four members and in hash order beyond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simzk.jvm.scala_map_columns import lists_in_hash_order
from simzk.jvm.scala_maps import SMALL, Scala, immutable_order
from simzk.partitions.arrays import NONE, BoolArray, IntArray, any_of, choose, contained, keep, sizes, widen
from simzk.partitions.rules import LATEST, ElectionRules, LastMember

_FEW = 8
"""Up to so many long lists are put in order one by one, which is quicker."""


class IsrRemoval(NamedTuple):
    """What the removal of a replica decided for k partitions.

    `changed` bool[k]: a write follows, with leader epoch + 1 (also where the ISR kept its last member); `leader`
    int32[k]; `isr` int32[k, w].
    """

    changed: BoolArray
    leader: IntArray
    isr: IntArray


def remove_from_isr(
    isr: IntArray,
    leader: IntArray,
    broker: IntArray | int,
    unclean_allowed: BoolArray | bool = False,
    rules: ElectionRules = LATEST,
) -> IsrRemoval:
    """Take a replica out of ISRs as the controller does when the replica goes offline (§2.6).

    Args:
        isr: int32[k, w].
        leader: int32[k].
        broker: the broker whose replica it is, int32[k] (-1 where none is to go) or one for all.
        unclean_allowed: whether unclean election is on for the topic, bool[k] or one for all (0.8.2 to 1.0 only).
        rules: the row of the Kafka version.

    Returns:
        the removal. Where the replica led, the leader becomes -1; the last member stays in the ISR.

    >>> from simzk.partitions.arrays import pack
    >>> removal = remove_from_isr(pack([[1, 2], [2], [3]]), np.array([1, 2, 3], np.int32), 2)
    >>> removal.changed.tolist(), removal.leader.tolist(), removal.isr.tolist()
    ([True, True, False], [1, -1, 3], [[1, -1], [2, -1], [3, -1]])
    """
    gone = np.asarray(broker, dtype=np.int32)
    hit = isr == (gone[:, None] if gone.ndim else gone)
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
    new_leader = choose(changed & (leader == gone), np.int32(NONE), leader)
    return IsrRemoval(changed, new_leader, keep(isr, ~hit | kept_last[:, None]))


def shrink_isr(isr: IntArray, leaving: IntArray, scala: Scala = "2.13") -> IntArray:
    """The ISRs that leaders write when followers have fallen behind (§2.8).

    Args:
        isr: int32[k, w], as the leaders last read or wrote them.
        leaving: int32[k, v], the followers that leave each.
        scala: Scala line of the Kafka version: it fixes the order of sets of more than four.

    Returns:
        int32[k, w], the new ISRs in the order in which they are written.

    >>> from simzk.partitions.arrays import pack
    >>> shrink_isr(pack([[3, 1, 2]]), pack([[1]])).tolist()
    [[3, 2, -1]]
    """
    # A set of more than four stays a hash set, in hash order, when it gets smaller.
    members = in_set_order(isr, scala)
    return keep(members, (members != NONE) & ~contained(members, leaving))


def expand_isr(isr: IntArray, joining: IntArray, scala: Scala = "2.13") -> IntArray:
    """The ISRs that leaders write when a follower has caught up (§2.8).

    Args:
        isr: int32[k, w], as the leaders last read or wrote them.
        joining: int32[k], the follower that joins each; one that is in the ISR changes nothing.
        scala: Scala line of the Kafka version: it fixes the order of sets of more than four.

    Returns:
        int32[k, v], v >= w, the new ISRs in the order in which they are written.

    >>> from simzk.partitions.arrays import pack
    >>> expand_isr(pack([[2]]), np.array([1], np.int32)).tolist()
    [[2, 1]]
    """
    lengths = sizes(isr)
    members = widen(isr, int(lengths.max(initial=0)) + 1).copy()
    absent = np.flatnonzero(~any_of(members == joining[:, None]))
    members[absent, lengths[absent]] = joining[absent]
    return in_set_order(members, scala)


def in_set_order(isr: IntArray, scala: Scala) -> IntArray:
    """The lists as a Scala Set of their ids iterates."""
    ordered = isr.copy()
    rows = np.flatnonzero(sizes(isr) > SMALL)
    if len(rows) > _FEW:
        ordered[rows] = lists_in_hash_order(isr[rows], scala)
        return ordered
    for row in rows:
        members = isr[row][isr[row] != NONE].tolist()
        ordered[row, : len(members)] = immutable_order(members, scala)
    return ordered
