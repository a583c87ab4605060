"""A layout between events: its states as columns, and leaders for partitions of brokers that are down already."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import among, broker_mask, widen
from simzk.partitions.elections import elect_offline
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.states import States, written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray
    from simzk.partitions.layouts import Layout


def states_of_layout(layout: Layout) -> States:
    """The states of all partitions of a layout; versions and controller epochs, which it does not tell, are 0."""
    zeros = np.zeros(len(layout), np.int32)
    recovering = np.zeros(len(layout), np.bool_)
    return States(layout.leader, layout.leader_epoch, layout.isr, zeros, zeros, recovering)


def settled(layout: Layout, rules: ElectionRules = LATEST) -> Layout:
    """The layout after whoever has no live leader, and can have one, was given one; the very same where that is nobody.

    Args:
        layout: any.
        rules: of the Kafka version; elections are clean, but for releases that know no other.
    """
    brokers = layout.brokers
    live = broker_mask(brokers.ids[brokers.live].tolist())
    rows = np.flatnonzero(~among(layout.leader, live))
    if not len(rows):
        return layout
    election = elect_offline(layout.replicas[rows], layout.isr[rows], live, unclean_allowed=False, rules=rules)
    won = np.flatnonzero(election.elected)
    rows = rows[won]
    after = written(states_of_layout(layout).at(rows), election.leader[won], election.isr[won], controller_epoch=0)
    return replace(
        layout,
        isr=put_lists(layout.isr, rows, after.isr),
        leader=put(layout.leader, rows, after.leader),
        leader_epoch=put(layout.leader_epoch, rows, after.leader_epoch),
    )


def put_lists(column: IntArray, rows: NDArray[np.intp], lists: IntArray) -> IntArray:
    width = max(column.shape[1], lists.shape[1])
    after = widen(column, width).copy()
    after[rows] = widen(lists, width)
    return after


def put(column: IntArray, rows: NDArray[np.intp], values: IntArray) -> IntArray:
    after = column.copy()
    after[rows] = values
    return after
