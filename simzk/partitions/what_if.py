"""What would happen to a layout if brokers failed together, by the controller's own elections.

Rules of the module:

1. First the layout is settled: what the controller does about brokers that are down already is done.
2. Then a set of brokers fails. Where one of them led, `elect_offline` decides; every ISR keeps its live members, and
   without any the partition is offline (clean elections only, the default of Kafka from 0.11 on).
3. A failure costs what the failed brokers hold, not what the cluster holds: totals over all partitions are counted
   once, and only the touched partitions are counted anew.

Brokers are positions in `Brokers.ids` in here, so that no array is as long as the largest id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, sizes
from simzk.partitions.elections import elect_offline, live_members
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.layouts import Layout


class Outcome(NamedTuple):
    """What a failure set leaves; counts of partitions over the whole cluster unless said otherwise.

    Args:
        touched: partitions of which a failed broker holds a replica.
        offline: no live ISR member.
        newly_offline: those of them that were not offline before.
        lost: no live replica at all, in the ISR or out of it.
        leaders_moved: led by a failed broker, and by another one now.
        under_min_isr: fewer live ISR members than `min.insync.replicas` (offline ones among them).
        under_replicated: fewer live ISR members than replicas (offline ones among them).
        topics_offline: topics with a partition that is offline.
        busiest_broker: the live broker that leads most now (the lowest id of equals); -1 where none is live.
        busiest_leaders: how many it leads.
    """

    touched: int
    offline: int
    newly_offline: int
    lost: int
    leaders_moved: int
    under_min_isr: int
    under_replicated: int
    topics_offline: int
    busiest_broker: int
    busiest_leaders: int


class _State(NamedTuple):
    """Some partitions after elections: columns of equal length."""

    leader: IntArray
    in_sync: NDArray[np.intp]
    alive: NDArray[np.intp]


class WhatIf:
    """A layout, made ready to be asked about many failure sets.

    >>> from simzk.partitions.layouts import Brokers, generate_layout
    >>> brokers = Brokers.from_racks({1: "a", 2: "b", 3: "c"})
    >>> what_if = WhatIf(generate_layout(brokers, topics=1, partitions=6, replication_factor=2, seed=0))
    >>> outcome = what_if.fail([1])
    >>> outcome.touched, outcome.offline, outcome.leaders_moved, outcome.under_replicated
    (4, 0, 2, 4)
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        brokers = layout.brokers
        self._replicas = brokers.positions_of(layout.replicas)
        self._isr = brokers.positions_of(layout.isr)
        self._leader = brokers.positions_of(layout.leader)
        self._factors = sizes(self._replicas)
        self._rows, self._starts = _rows_by_broker(self._replicas, len(brokers.ids))
        everything = np.arange(len(layout))
        settled = self._elect(everything, brokers.live)
        self._leader = settled.leader
        self._offline = settled.in_sync == 0
        self._under_min_isr = settled.in_sync < layout.min_insync_replicas
        self._under_replicated = settled.in_sync < self._factors
        self._lost = settled.alive == 0
        self._leaders = _count(self._leader, len(brokers.ids))
        self._offline_of_topic = np.bincount(layout.topic[self._offline], minlength=len(layout.topics))
        self.settled = self.fail([])
        """The outcome of no failure at all, to compare with."""

    def fail(self, failed: Sequence[int]) -> Outcome:
        """What is left after these brokers fail together.

        Args:
            failed: broker ids of the layout.
        """
        brokers = self.layout.brokers
        positions = brokers.positions_of(np.array(failed, np.int32))
        rows = self.rows_of(positions)
        live = brokers.live.copy()
        live[positions] = False
        after = self._elect(rows, live)

        before_leader = self._leader[rows]
        offline = after.in_sync == 0
        newly_offline = offline & ~self._offline[rows]
        # Who has a leader now had one before: the cluster was settled.
        moved = (after.leader != NONE) & (before_leader != after.leader)
        newly_dark = np.unique(self.layout.topic[rows[newly_offline]])
        leaders = self._leaders + (_count(after.leader, len(live)) - _count(before_leader, len(live)))
        busiest = int(np.argmax(np.where(live, leaders, -1))) if live.any() else NONE
        return Outcome(
            touched=len(rows),
            offline=_recount(self._offline, rows, offline),
            newly_offline=int(np.count_nonzero(newly_offline)),
            lost=_recount(self._lost, rows, after.alive == 0),
            leaders_moved=int(np.count_nonzero(moved)),
            under_min_isr=_recount(self._under_min_isr, rows, after.in_sync < self.layout.min_insync_replicas[rows]),
            under_replicated=_recount(self._under_replicated, rows, after.in_sync < self._factors[rows]),
            topics_offline=int(np.count_nonzero(self._offline_of_topic))
            + int(np.count_nonzero(self._offline_of_topic[newly_dark] == 0)),
            busiest_broker=int(brokers.ids[busiest]) if busiest != NONE else NONE,
            busiest_leaders=int(leaders[busiest]) if busiest != NONE else 0,
        )

    def rows_of(self, positions: IntArray) -> NDArray[np.intp]:
        """The partitions of which one of these brokers (positions) holds a replica, ascending, each once."""
        held = [self._rows[self._starts[position] : self._starts[position + 1]] for position in positions]
        if len(held) == 1:
            return held[0]
        # A mask over all partitions costs their number, sorting costs what is held: a rack holds most of them.
        if sum(map(len, held)) < len(self.layout) // 16:
            return np.unique(np.concatenate([*held, self._rows[:0]]))
        mask = np.zeros(len(self.layout), np.bool_)
        for rows in held:
            mask[rows] = True
        return np.flatnonzero(mask)

    def _elect(self, rows: NDArray[np.intp], live: BoolArray) -> _State:
        replicas, isr, leader = self._replicas[rows], self._isr[rows], self._leader[rows]
        leaderless = np.flatnonzero(~live_members(leader[:, None], live)[:, 0])
        election = elect_offline(replicas[leaderless], isr[leaderless], live, unclean_allowed=False)
        leader[leaderless] = election.leader
        in_sync = np.count_nonzero(live_members(isr, live), axis=1)
        assert np.array_equal(leader == NONE, in_sync == 0), "a partition with a live ISR member has a leader"
        return _State(leader, in_sync, np.count_nonzero(live_members(replicas, live), axis=1))


def _rows_by_broker(replicas: IntArray, brokers: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows that hold a replica of each broker: `rows[starts[b]:starts[b + 1]]`, ascending."""
    # Padding sorts behind every broker; 16 bits where they are enough, for numpy sorts those by radix.
    keys = np.where(replicas == NONE, brokers, replicas).ravel()
    order = np.argsort(keys.astype(np.uint16) if brokers < 1 << 16 else keys, kind="stable")
    starts = np.zeros(brokers + 1, np.intp)
    np.cumsum(np.bincount(keys, minlength=brokers)[:brokers], out=starts[1:])
    return order[: starts[-1]] // replicas.shape[1], starts


def _count(positions: IntArray, brokers: int) -> NDArray[np.intp]:
    return np.bincount(positions + 1, minlength=brokers + 1)[1:]


def _recount(before: BoolArray, rows: NDArray[np.intp], after: BoolArray) -> int:
    """How many partitions are so, when those of `rows` have become `after`."""
    return int(np.count_nonzero(before)) - int(np.count_nonzero(before[rows])) + int(np.count_nonzero(after))
