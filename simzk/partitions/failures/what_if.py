"""A layout between events: its states as columns, and leaders for partitions of brokers that are down already.

What would happen to a layout if brokers failed together, by the controller's own elections.

Rules of the module:

1. First the layout is settled: what the controller does about brokers that are down already is done.
2. Then a set of brokers fails. Where one of them led, `elect_offline` decides; every ISR keeps its live members, and
   without any the partition is offline (clean elections only, the default of Kafka from 0.11 on).
3. A failure costs what the failed brokers hold, not what the cluster holds: totals over all partitions are counted
   once, and only the touched partitions are counted anew.

4. All of it is a function of a few columns, which can be written to files and mapped into any number of processes of
   a machine: they have one copy between them.

Brokers are positions in `Brokers.ids` in here, so that no array is as long as the largest id. Lists stand place by
place: all first replicas, all second ones, and so on.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, among, broker_mask, sizes, widen
from simzk.partitions.elections import elect_offline
from simzk.partitions.layouts import Brokers
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.states import States, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
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


class Consequences(NamedTuple):
    """An outcome, and where it befalls.

    Args:
        outcome: the counts.
        offline: the topic of each partition that is offline and was not.
        under_min_isr: the topic of each partition that is under its `min.insync.replicas` and was not.
        leaders: how many partitions each broker leads now, by position.
    """

    outcome: Outcome
    offline: IntArray
    under_min_isr: IntArray
    leaders: NDArray[np.intp]


class _State(NamedTuple):
    """Some partitions after elections: columns of equal length."""

    leader: IntArray
    in_sync: NDArray[np.int16]
    alive: NDArray[np.int16]


class _Columns(NamedTuple):
    """The settled cluster.

    Args:
        replicas: [w, n] positions of brokers, place by place.
        isr: [v, n], so too.
        leader: [n].
        factor: [n], how many replicas.
        min_isr: [n].
        topic: [n].
        flags: [n], what is wrong with a partition before anything fails.
        rows: the partitions that a broker holds, broker by broker, ascending.
        starts: [b + 1], where a broker's begin.
        leaders: [b], how many it leads.
        topic_offline: [t], how many partitions of a topic are offline.
        totals: [4], how many partitions have each flag.
    """

    replicas: IntArray
    isr: IntArray
    leader: IntArray
    factor: NDArray[np.uint8]
    min_isr: IntArray
    topic: IntArray
    flags: NDArray[np.uint8]
    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    leaders: NDArray[np.intp]
    topic_offline: NDArray[np.intp]
    totals: NDArray[np.intp]


_OFFLINE, _UNDER_MIN_ISR, _UNDER_REPLICATED, _LOST = _FLAGS = (1, 2, 4, 8)
_CLUSTER = "cluster.json"


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
        self._adopt(_settled(layout), layout.brokers, layout.topics)

    def _adopt(self, columns: _Columns, brokers: Brokers, topics: Sequence[str]) -> None:
        self._columns = columns
        self.brokers = brokers
        self.topics = tuple(topics)
        self.settled = self.fail([])
        """The outcome of no failure at all, to compare with."""

    @property
    def leaders(self) -> NDArray[np.intp]:
        """How many partitions each broker leads before anything fails, by position."""
        return self._columns.leaders

    def save(self, folder: Path, prefix: str = "") -> list[Path]:
        """Write what is needed to ask elsewhere.

        Args:
            folder: one that is there.
            prefix: of the files' names; they stay beside each other.

        Returns:
            the files.
        """
        files = []
        for name, column in self._columns._asdict().items():
            files.append(folder / f"{prefix}{name}.npy")
            np.save(files[-1], column)
        cluster = {
            "ids": self.brokers.ids.tolist(),
            "racks": self.brokers.racks,
            "live": self.brokers.live.tolist(),
            "topics": self.topics,
        }
        files.append(folder / f"{prefix}{_CLUSTER}")
        files[-1].write_text(json.dumps(cluster), encoding="utf-8")
        return files

    @classmethod
    def load(cls, folder: Path, prefix: str = "") -> WhatIf:
        """Map what `save` wrote into this process; nothing is copied."""
        what_if = cls.__new__(cls)
        columns = _Columns(*(np.load(folder / f"{prefix}{name}.npy", mmap_mode="r") for name in _Columns._fields))
        cluster = json.loads((folder / f"{prefix}{_CLUSTER}").read_text(encoding="utf-8"))
        ids, live = np.array(cluster["ids"], np.int32), np.array(cluster["live"], np.bool_)
        what_if._adopt(columns, Brokers(ids, tuple(cluster["racks"]), live), cluster["topics"])
        return what_if

    def fail(self, failed: Sequence[int]) -> Outcome:
        """What is left after these brokers fail together.

        Args:
            failed: broker ids of the layout.
        """
        return self.consequences(failed).outcome

    def consequences(self, failed: Sequence[int]) -> Consequences:
        """What is left after these brokers fail together, and where.

        Args:
            failed: broker ids of the layout.
        """
        brokers, before = self.brokers, self._columns
        positions = brokers.positions_of(np.array(failed, np.int32))
        rows = self.rows_of(positions)
        live = brokers.live.copy()
        live[positions] = False
        after = _elect(before, rows, live)

        flags, before_leader = before.flags.take(rows), before.leader.take(rows)
        offline, under_min_isr = after.in_sync == 0, after.in_sync < before.min_isr.take(rows)
        newly_offline = np.flatnonzero(offline & (flags & _OFFLINE == 0))
        # Who has a leader now had one before: the cluster was settled.
        moved = (after.leader != NONE) & (before_leader != after.leader)
        dark = before.topic.take(rows.take(newly_offline))
        leaders = before.leaders + (_count(after.leader, len(live)) - _count(before_leader, len(live)))
        busiest = int(np.argmax(np.where(live, leaders, -1))) if live.any() else NONE
        now = (offline, under_min_isr, after.in_sync < before.factor.take(rows), after.alive == 0)
        totals = [
            int(total) - int(np.count_nonzero(flags & flag)) + int(np.count_nonzero(mask))
            for total, flag, mask in zip(before.totals, _FLAGS, now, strict=True)
        ]
        outcome = Outcome(
            touched=len(rows),
            offline=totals[0],
            newly_offline=len(newly_offline),
            lost=totals[3],
            leaders_moved=int(np.count_nonzero(moved)),
            under_min_isr=totals[1],
            under_replicated=totals[2],
            topics_offline=int(np.count_nonzero(before.topic_offline))
            + int(np.count_nonzero(before.topic_offline[np.unique(dark)] == 0)),
            busiest_broker=int(brokers.ids[busiest]) if busiest != NONE else NONE,
            busiest_leaders=int(leaders[busiest]) if busiest != NONE else 0,
        )
        newly_under = np.flatnonzero(under_min_isr & (flags & _UNDER_MIN_ISR == 0))
        return Consequences(outcome, dark, before.topic.take(rows.take(newly_under)), leaders)

    def rows_of(self, positions: IntArray) -> NDArray[np.intp]:
        """The partitions of which one of these brokers (positions) holds a replica, ascending, each once."""
        rows, starts = self._columns.rows, self._columns.starts
        held = [rows[starts[position] : starts[position + 1]] for position in positions]
        if len(held) == 1:
            return held[0]
        # A mask over all partitions costs their number, merging costs what is held: a rack holds most of them.
        if sum(map(len, held)) < len(self._columns.leader) // 4:
            merged = np.concatenate([*held, rows[:0]])
            merged.sort(kind="stable")  # it merges what ascends already
            first = np.ones(len(merged), np.bool_)
            np.not_equal(merged[1:], merged[:-1], out=first[1:])
            return merged[first]
        mask = np.zeros(len(self._columns.leader), np.bool_)
        for some in held:
            mask[some] = True
        return np.flatnonzero(mask)


def _elect(columns: _Columns, rows: NDArray[np.intp], live: BoolArray) -> _State:
    # Padding is position -1: it finds what is added behind the last broker.
    up = np.append(live, False)
    leader = columns.leader.take(rows).astype(np.int32)
    leaderless = np.flatnonzero(~up[leader])
    some = rows.take(leaderless)
    election = elect_offline(_lists(columns.replicas, some), _lists(columns.isr, some), live, unclean_allowed=False)
    leader[leaderless] = election.leader
    in_sync = _count_up(columns.isr, rows, up)
    assert np.array_equal(leader == NONE, in_sync == 0), "a partition with a live ISR member has a leader"
    return _State(leader, in_sync, _count_up(columns.replicas, rows, up))


def _count_up(places: IntArray, rows: NDArray[np.intp], up: BoolArray) -> NDArray[np.int16]:
    """How many in each of these rows' lists are up."""
    counts = np.zeros(len(rows), np.int16)
    for place in places:
        counts += up[place.take(rows)]
    return counts


def _lists(places: IntArray, rows: NDArray[np.intp]) -> IntArray:
    return np.stack([place.take(rows) for place in places]).astype(np.int32).T


def _settled(layout: Layout) -> _Columns:
    """The columns of a layout after the controller did what it does about brokers that are down already."""
    brokers = layout.brokers
    # As narrow as they can be: what is narrow is read faster, and ten million partitions are a few hundred megabytes.
    width = np.int16 if len(brokers.ids) < 1 << 15 else np.int32
    replicas = brokers.positions_of(layout.replicas)
    by_broker, starts = _rows_by_broker(replicas, len(brokers.ids))
    columns = _Columns(
        replicas=np.ascontiguousarray(replicas.T.astype(width)),
        isr=np.ascontiguousarray(brokers.positions_of(layout.isr).T.astype(width)),
        leader=brokers.positions_of(layout.leader).astype(width),
        factor=sizes(replicas).astype(np.uint8),
        min_isr=layout.min_insync_replicas,
        topic=layout.topic,
        flags=np.zeros(len(layout), np.uint8),
        rows=by_broker,
        starts=starts,
        leaders=np.zeros(0, np.intp),
        topic_offline=np.zeros(0, np.intp),
        totals=np.zeros(0, np.intp),
    )
    state = _elect(columns, np.arange(len(layout)), brokers.live)
    masks = (
        state.in_sync == 0,
        state.in_sync < columns.min_isr,
        state.in_sync < columns.factor,
        state.alive == 0,
    )
    for flag, mask in zip(_FLAGS, masks, strict=True):
        columns.flags[mask] |= flag
    return columns._replace(
        leader=state.leader.astype(width),
        leaders=_count(state.leader, len(brokers.ids)),
        topic_offline=np.bincount(layout.topic[masks[0]], minlength=len(layout.topics)),
        totals=np.array([np.count_nonzero(mask) for mask in masks], np.intp),
    )


def _rows_by_broker(replicas: IntArray, brokers: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows that hold a replica of each broker: `rows[starts[b]:starts[b + 1]]`, ascending."""
    # Padding sorts behind every broker; 16 bits where they are enough, for numpy sorts those by radix.
    keys = np.where(replicas == NONE, brokers, replicas).ravel()
    order = np.argsort(keys.astype(np.uint16) if brokers < 1 << 16 else keys, kind="stable")
    starts = np.zeros(brokers + 1, np.intp)
    np.cumsum(np.bincount(keys, minlength=brokers)[:brokers], out=starts[1:])
    held = order[: starts[-1]] // replicas.shape[1]
    return held.astype(np.int32 if len(replicas) < 1 << 31 else np.int64), starts


def _count(positions: IntArray, brokers: int) -> NDArray[np.intp]:
    return np.bincount(positions + 1, minlength=brokers + 1)[1:]
