"""Reassignment plans as columns, and their difference from a layout.

Rules of the module:

1. A plan that repeats a partition, or names unknown partitions or invalid replicas, is rejected as a whole; the error
   lists the first ten partitions. Checks of Kafka's tools, which differ by release, are in
   `simzk.kafka.tools.reassign_partitions`.
2. Rows are found by binary search, without a loop over partitions in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import NONE, BoolArray, IntArray, any_of, contained, keep, sizes, widen
from simzk.partitions.layouts.layout import NAMED_PROBLEMS
from simzk.partitions.layouts.summary import breaks_rack_rule
from simzk.partitions.table import validate_replicas

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.layouts import Brokers, Layout
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
    rows, target = _rows_of(layout, plan.partitions), plan.replicas
    moving = np.flatnonzero(np.isin(rows, layout.reassigning))
    if len(moving):
        after = "a layout after these reassignments completed or were cancelled"
        _reject("that are already being reassigned", plan.partitions, moving, after)
    before = layout.replicas[rows]
    width = max(before.shape[1], target.shape[1])
    left, right = widen(before, width), widen(target, width)
    adding = keep(target, (target != NONE) & ~contained(target, before))
    removing = keep(before, (before != NONE) & ~contained(before, target))
    unchanged = ~any_of(left != right)
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
    names, width = plan.partitions, plan.replicas.shape[1]
    validate_replicas(plan.replicas)
    key = names.topic.astype(np.int64) << 32 | names.partition
    found, counts = np.unique(key, return_counts=True)
    if (counts > 1).any():
        twice = np.isin(key, found[counts > 1])
        _, firsts = np.unique(key[twice], return_index=True)
        _reject("repeated", names, np.flatnonzero(twice)[np.sort(firsts)], "each partition once")
    unknown = (plan.replicas != NONE) & ~np.isin(plan.replicas, brokers.ids)
    assert unknown.shape[1] == width
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
    return found


def _rows_of(layout: Layout, partitions: Partitions) -> NDArray[np.intp]:
    rows = find_rows(layout, partitions)
    unknown = np.flatnonzero(rows == NONE)
    if len(unknown):
        _reject("that the layout does not have", partitions, unknown, "partitions of the layout")
    return rows
