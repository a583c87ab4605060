"""How far the partitions of a layout are from harm: who is one failure away from what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from simzk.partitions.layouts.layout import Layout


class Exposure(NamedTuple):
    """How many partitions of a cluster are how far from harm, by live members of the ISR.

    Args:
        offline: none.
        under_min_isr: fewer than `min.insync.replicas`, offline ones among them.
        at_min_isr: just as many: one broker that fails, and writes that need all are refused.
        last_in_sync: one: that broker fails, and the partition is offline.
        worst_broker: whose failure takes most partitions offline; -1 where none would.
        worst_offline: how many those are.
    """

    offline: int
    under_min_isr: int
    at_min_isr: int
    last_in_sync: int
    worst_broker: int
    worst_offline: int


def exposure(layout: Layout) -> Exposure:
    """How far the partitions of a settled layout are from harm.

    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> exposure(generate_layout(brokers_in_racks(3, 0), topics=1, partitions=6, replication_factor=1, seed=0))
    Exposure(offline=0, under_min_isr=0, at_min_isr=6, last_in_sync=6, worst_broker=0, worst_offline=2)
    """
    brokers = layout.brokers
    isr = brokers.positions_of(layout.isr)
    alive = np.append(brokers.live, False)[isr]
    in_sync = np.zeros(len(layout), np.int32)
    for place in alive.T:
        in_sync += place
    last = np.flatnonzero(in_sync == 1)
    alone = isr[last][alive[last]]
    held = np.bincount(alone, minlength=len(brokers.ids))
    worst = int(np.argmax(held)) if len(alone) else NONE
    return Exposure(
        offline=int(np.count_nonzero(in_sync == 0)),
        under_min_isr=int(np.count_nonzero(in_sync < layout.min_insync_replicas)),
        at_min_isr=int(np.count_nonzero(in_sync == layout.min_insync_replicas)),
        last_in_sync=len(last),
        worst_broker=int(brokers.ids[worst]) if worst != NONE else NONE,
        worst_offline=int(held[worst]) if worst != NONE else 0,
    )
