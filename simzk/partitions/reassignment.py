"""Replica assignments during a reassignment, as in the topic znode (docs/reference/kafka.md §2.11; KIP-455).

Rules of the module (ReplicaAssignment in Kafka's controller):

1. `replicas` (RS), `adding` (AR) and `removing` (RR) determine origin = RS - AR and target = RS - RR.
2. A new target replaces an unfinished one and keeps its origin; a cancellation is a reassignment to the origin.
3. A reassignment is complete when the whole target is in the ISR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, all_in, concat, sizes, without
from simzk.partitions.transitions import in_set_order

if TYPE_CHECKING:
    from simzk.jvm.scala_collections import Scala


class Assignment(NamedTuple):
    """Assignments of k partitions in topic znodes: replicas, adding, removing; padded lists, `int32[k, w]` each."""

    replicas: IntArray
    adding: IntArray
    removing: IntArray


def origin_of(assignment: Assignment) -> IntArray:
    """Return the replicas from which a reassignment started, all replicas if none is under way; `int32[k, w]`."""
    return without(assignment.replicas, assignment.adding)


def target_of(assignment: Assignment) -> IntArray:
    """Return the replicas that remain after the reassignment, all replicas if none is under way; `int32[k, w]`."""
    return without(assignment.replicas, assignment.removing)


def reassign_to(assignment: Assignment, target: IntArray) -> Assignment:
    """Return the assignment while a partition moves: the target, then the replicas of the origin to remove.

    Args:
        assignment: the present one of k partitions, under reassignment or not.
        target: int32[k, v], the target replicas in preference order.

    Returns:
        the assignment to write; equal to the present one if the target is unchanged.

    >>> from simzk.partitions.arrays import pack, unpack
    >>> moving = reassign_to(Assignment(pack([[1, 2, 3]]), pack([[]]), pack([[]])), pack([[4, 2]]))
    >>> [unpack(ids)[0] for ids in moving]
    [(4, 2, 1, 3), (4,), (1, 3)]
    >>> unpack(reassign_to(moving, pack([[1, 5]])).replicas)
    [(1, 5, 2, 3)]
    """
    assert len(target) == len(assignment.replicas)
    assert target.min(initial=NONE) == NONE, "an id is negative"
    origin = origin_of(assignment)
    removing = without(origin, target)
    moving = Assignment(concat(target, removing), without(target, origin), removing)
    assert _have_same_members(origin_of(moving), origin), "a new target keeps the origin"
    assert _have_same_members(target_of(moving), target)
    return moving


def cancelled(assignment: Assignment) -> Assignment:
    """Return the assignment that cancels a reassignment: its target is the origin."""
    return reassign_to(assignment, origin_of(assignment))


def completed(assignment: Assignment) -> Assignment:
    """Return the assignment after the reassignment: the target, nothing to add or remove."""
    target = target_of(assignment)
    assert len(target) == len(assignment.adding) == len(assignment.removing)
    return Assignment(target, np.full_like(target, NONE), np.full_like(target, NONE))


def is_reassigning(assignment: Assignment) -> BoolArray:
    """Return whether a reassignment is under way, `bool[k]`."""
    return (sizes(assignment.adding) > 0) | (sizes(assignment.removing) > 0)


def in_sync(target: IntArray, isr: IntArray) -> BoolArray:
    """Return whether the whole target, int32[k, w], is in the ISR, int32[k, v]; `bool[k]`."""
    return all_in(target, isr)


def widened_for_legacy(target: IntArray, replicas: IntArray, scala: Scala) -> IntArray:
    """Return the replicas that Kafka 0.8.1 to 2.3 writes during a reassignment: a Scala Set of target and old ones.

    >>> from simzk.partitions.arrays import pack, unpack
    >>> unpack(widened_for_legacy(pack([[4, 2]]), pack([[1, 2, 3]]), "2.12"))
    [(4, 2, 1, 3)]
    """
    return in_set_order(concat(target, without(replicas, target)), scala)


def _have_same_members(left: IntArray, right: IntArray) -> bool:
    """Return whether the two lists of every row have the same members, in any order."""
    return bool(in_sync(left, right).all() and in_sync(right, left).all())
