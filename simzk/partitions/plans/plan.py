"""A reassignment plan as columns, and what it changes of a layout: its diff.

Rules of the module:

1. A plan is refused whole where it names a partition twice or one that the layout does not have, or replicas that
   cannot be; the first ten partitions are named. What Kafka's own tools refuse, by release, is theirs
   (`simzk.kafka.tools.reassign_partitions`).
2. Rows are found by searching: nothing here walks over partitions in Python.
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
    """Which replicas k partitions are to have.

    Args:
        partitions: their names.
        replicas: int32[k, v], broker ids in preference order.
    """

    partitions: Partitions
    replicas: IntArray


class Diff(NamedTuple):
    """What a plan changes of its k partitions.

    Args:
        rows: int[k], of the layout.
        before: int32[k, w], replicas as they are.
        after: int32[k, v], as they are wanted.
        adding: int32[k, v], those that are new, in the order of the plan.
        removing: int32[k, w], those that go.
        order_only: bool[k], the same replicas in another order.
        unchanged: bool[k], the very same.
        preferred_changed: bool[k], another replica is the first.
        breaks_racks: bool[k], the wanted replicas stand in fewer racks than they could.
        broke_racks: bool[k], so did the present ones.
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
    """What a plan changes of a layout.

    Raises:
        LayoutError: the plan cannot be carried out on this layout.

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
        after = "a layout in which they have come to their end, or were cancelled"
        _refuse("that are being reassigned already", plan.partitions, moving, after)
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
    """Refuse a plan that no cluster of these brokers could take.

    Raises:
        LayoutError: a partition is named twice, or a list of replicas is empty, names a broker twice, or one that the
            layout does not have.
    """
    names, width = plan.partitions, plan.replicas.shape[1]
    validate_replicas(plan.replicas)
    key = names.topic.astype(np.int64) << 32 | names.partition
    found, counts = np.unique(key, return_counts=True)
    if (counts > 1).any():
        twice = np.isin(key, found[counts > 1])
        _, firsts = np.unique(key[twice], return_index=True)
        _refuse("named twice", names, np.flatnonzero(twice)[np.sort(firsts)], "each partition once")
    unknown = (plan.replicas != NONE) & ~np.isin(plan.replicas, brokers.ids)
    assert unknown.shape[1] == width
    if unknown.any():
        _refuse("on a broker that the layout does not have", names, np.flatnonzero(any_of(unknown)), "known brokers")


def _refuse(what: str, names: Partitions, places: NDArray[np.intp], right: str) -> None:
    told = [f"{topic}-{number}" for topic, number in names.at(places[:NAMED_PROBLEMS]).names()]
    more = len(places) - len(told)
    listed = ", ".join(told) + (f" and {more:,} more" if more else "")
    raise LayoutError(f"the plan has partitions {what}: {listed}", where="reassignment", right=right)


def find_rows(layout: Layout, partitions: Partitions) -> NDArray[np.intp]:
    """The rows of a layout by partition, -1 where there is no such partition; int[k]."""
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
        _refuse("that the layout does not have", partitions, unknown, "partitions of the layout")
    return rows
