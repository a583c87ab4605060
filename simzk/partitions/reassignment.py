"""The algebra of a partition reassignment: which lists stand in the topic znode at each step.

Rules of the module (docs/reference/kafka.md §2.11; KIP-455; ReplicaAssignment in Kafka's controller):

1. RS (`replicas`), AR (`adding`) and RR (`removing`) say it all: origin = RS - AR, target = RS - RR.
2. A new target replaces an unfinished one and starts from the same origin; a cancel is a reassignment to the origin.
3. A reassignment is complete when the whole target is in the ISR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, any_of, contained, keep, sizes
from simzk.partitions.transitions import in_set_order

if TYPE_CHECKING:
    from simzk.jvm.scala_collections import Scala


class Assignment(NamedTuple):
    """What the topic znode says of k partitions: replicas, adding, removing, each a padded list, `int32[k, w]`."""

    replicas: IntArray
    adding: IntArray
    removing: IntArray


def origin_of(assignment: Assignment) -> IntArray:
    """The replicas from which a reassignment started, all of them where none is under way; `int32[k, w]`."""
    return _without(assignment.replicas, assignment.adding)


def target_of(assignment: Assignment) -> IntArray:
    """The replicas that a reassignment will leave, all of them where none is under way; `int32[k, w]`."""
    return _without(assignment.replicas, assignment.removing)


def reassign_to(assignment: Assignment, target: IntArray) -> Assignment:
    """The assignment while it moves to a target: the target first, then what of the origin is to go.

    Args:
        assignment: the present one of k partitions, under reassignment or not.
        target: int32[k, v], the replicas wanted, in preference order.

    Returns:
        the assignment to write; equal to the present one where the target is already what is aimed at.

    >>> from simzk.partitions.arrays import pack, unpack
    >>> moving = reassign_to(Assignment(pack([[1, 2, 3]]), pack([[]]), pack([[]])), pack([[4, 2]]))
    >>> [unpack(ids)[0] for ids in moving]
    [(4, 2, 1, 3), (4,), (1, 3)]
    >>> unpack(reassign_to(moving, pack([[1, 5]])).replicas)
    [(1, 5, 2, 3)]
    """
    origin = origin_of(assignment)
    return Assignment(_joined(target, _without(origin, target)), _without(target, origin), _without(origin, target))


def cancelled(assignment: Assignment) -> Assignment:
    """The assignment that takes a reassignment back: its target is the origin."""
    return reassign_to(assignment, origin_of(assignment))


def completed(assignment: Assignment) -> Assignment:
    """The assignment once its reassignment is done: the target, nothing to add, nothing to remove."""
    target = target_of(assignment)
    return Assignment(target, np.full_like(target, NONE), np.full_like(target, NONE))


def is_reassigning(assignment: Assignment) -> BoolArray:
    """Whether a reassignment is under way, `bool[k]`."""
    return (sizes(assignment.adding) > 0) | (sizes(assignment.removing) > 0)


def in_sync(target: IntArray, isr: IntArray) -> BoolArray:
    """Whether the whole target is in the ISR, so that the reassignment can be completed; `bool[k]`."""
    return ~any_of((target != NONE) & ~contained(target, isr))


def widened_for_legacy(target: IntArray, replicas: IntArray, scala: Scala) -> IntArray:
    """The replicas that Kafka 0.8.1 to 2.3 writes while a reassignment runs: a Scala Set of target and present ones.

    >>> from simzk.partitions.arrays import pack, unpack
    >>> unpack(widened_for_legacy(pack([[4, 2]]), pack([[1, 2, 3]]), "2.12"))
    [(4, 2, 1, 3)]
    """
    return in_set_order(_joined(target, _without(replicas, target)), scala)


def _without(ids: IntArray, others: IntArray) -> IntArray:
    return keep(ids, (ids != NONE) & ~contained(ids, others))


def _joined(left: IntArray, right: IntArray) -> IntArray:
    """Each list of `left` followed by the list of `right`, in no more columns than the longest result needs."""
    both = np.concatenate([left, right], axis=1)
    joined = keep(both, both != NONE)
    return joined[:, : max(int(sizes(joined).max(initial=0)), 1)]
