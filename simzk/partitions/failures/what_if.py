"""Outcomes of failure sets: the cluster of a layout after some brokers failed together.

Rules of the module:

1. The analysis starts from the layout after the controller elected leaders for partitions of brokers that are already
   dead (`elect_offline_leaders`).
2. Then a set of brokers fails. Partitions that one of them led elect a leader by `elect_offline`; every ISR keeps its
   live members, and a partition without one is offline (clean elections only, the default of Kafka from 0.11 on).
3. The cost of a failure depends on the replicas of the failed brokers, not on the size of the cluster: totals over all
   partitions are counted once, and only the affected partitions are counted again.
4. All data is in a few columns, which can be written to files and mapped by any number of processes of a machine
   without copies.

In this module a broker is its position in `Brokers.ids`, so that no array is as long as the largest id. Lists are
stored place by place: all first replicas, all second replicas, and so on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, sizes, sorted_distinct
from simzk.partitions.layouts import Brokers, elect_offline_leaders
from simzk.partitions.transitions import elect_offline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.layouts import Layout


class Outcome(NamedTuple):
    """Counts of partitions after a failure set, over the whole cluster unless said otherwise.

    Args:
        touched: with a replica on a failed broker.
        offline: without a live ISR member.
        newly_offline: offline now, but not before.
        lost: without any live replica, in the ISR or not.
        leaders_moved: led by a failed broker before and by another broker now.
        under_min_isr: fewer live ISR members than `min.insync.replicas`, including offline partitions.
        under_replicated: fewer live ISR members than replicas, including offline partitions.
        topics_offline: topics with an offline partition.
        busiest_broker: the live broker that leads most partitions (the lowest id if several); -1 if none is live.
        busiest_leaders: the number of partitions that it leads.
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
    """An outcome and the affected topics and brokers.

    Args:
        outcome: the counts.
        offline: int32[k], the topic of each partition that became offline.
        under_min_isr: int32[j], the topic of each partition that fell below its `min.insync.replicas`.
        leaders: intp[b], partitions led by each broker now, by position.
    """

    outcome: Outcome
    offline: IntArray
    under_min_isr: IntArray
    leaders: NDArray[np.intp]


class Affected(NamedTuple):
    """Partitions that became offline or fell below `min.insync.replicas`, the offline ones first; then by row.

    Args:
        rows: intp[k], rows of the layout.
        topic: int32[k], index of the topic.
        offline: bool[k], whether the partition is offline.
        leader_before: int32[k], broker id, or -1.
        in_sync: int16[k], live ISR members that are left.
    """

    rows: NDArray[np.intp]
    topic: IntArray
    offline: BoolArray
    leader_before: IntArray
    in_sync: NDArray[np.int16]


class _State(NamedTuple):
    """Partitions after elections: leader, live ISR members and live replicas, [k] each."""

    leader: IntArray
    in_sync: NDArray[np.int16]
    alive: NDArray[np.int16]

    def problems(self, factor: NDArray[np.uint8], min_isr: IntArray) -> tuple[BoolArray, ...]:
        """Return which partitions have each of the problems of `_FLAGS`."""
        return self.in_sync == 0, self.in_sync < min_isr, self.in_sync < factor, self.alive == 0


class _Columns(NamedTuple):
    """The cluster before a failure.

    Args:
        replicas: [w, n], positions of brokers, place by place.
        isr: [v, n], likewise.
        leader: [n], position of the leader.
        factor: [n], number of replicas.
        min_isr: [n].
        topic: [n].
        flags: [n], problems of a partition before any failure.
        rows: partitions by broker, ascending for each broker.
        starts: [b + 1], index in `rows` of each broker's first partition.
        leaders: [b], partitions led by each broker.
        topic_offline: [t], offline partitions of each topic.
        totals: [4], partitions with each flag.
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
    """Columns of a layout, prepared to evaluate many failure sets.

    >>> from simzk.partitions.layouts import Brokers, generate_layout
    >>> brokers = Brokers.from_racks({1: "a", 2: "b", 3: "c"})
    >>> what_if = WhatIf(generate_layout(brokers, topics=1, partitions=6, replication_factor=2, seed=0))
    >>> outcome = what_if.fail([1])
    >>> outcome.touched, outcome.offline, outcome.leaders_moved, outcome.under_replicated
    (4, 0, 2, 4)
    """

    def __init__(self, layout: Layout) -> None:
        self._set_columns(_columns_of(layout), layout.brokers, layout.topics)

    def _set_columns(self, columns: _Columns, brokers: Brokers, topics: Sequence[str]) -> None:
        assert columns.replicas.shape[1] == columns.isr.shape[1] == len(columns.leader) == len(columns.flags)
        assert len(columns.starts) == len(brokers.ids) + 1
        assert len(columns.leaders) == len(brokers.ids)
        assert len(columns.topic_offline) == len(topics)
        self._columns = columns
        self.brokers = brokers
        self.topics = tuple(topics)
        self.baseline = self.fail([])
        """The outcome without any failure, for comparison."""

    @property
    def leaders(self) -> NDArray[np.intp]:
        """Partitions led by each broker before any failure, intp[b], by position."""
        return self._columns.leaders

    def save(self, folder: Path, prefix: str = "") -> list[Path]:
        """Write the columns to files, to evaluate failures in other processes.

        Args:
            folder: an existing folder.
            prefix: of the file names.

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
        """Map the files of `save` into this process without copying."""
        what_if = cls.__new__(cls)
        columns = _Columns(*(np.load(folder / f"{prefix}{name}.npy", mmap_mode="r") for name in _Columns._fields))
        cluster = json.loads((folder / f"{prefix}{_CLUSTER}").read_text(encoding="utf-8"))
        ids, live = np.array(cluster["ids"], np.int32), np.array(cluster["live"], np.bool_)
        what_if._set_columns(columns, Brokers(ids, tuple(cluster["racks"]), live), cluster["topics"])
        return what_if

    def fail(self, failed: Sequence[int]) -> Outcome:
        """Return the outcome if brokers fail together.

        Args:
            failed: broker ids of the layout.
        """
        return self.consequences(failed).outcome

    def consequences(self, failed: Sequence[int]) -> Consequences:
        """Return the outcome and the affected topics if brokers fail together.

        Args:
            failed: broker ids of the layout.
        """
        brokers, before = self.brokers, self._columns
        rows, live, after = self._fail(failed)

        flags, before_leader = before.flags.take(rows), before.leader.take(rows)
        problems = after.problems(before.factor.take(rows), before.min_isr.take(rows))
        offline, under_min_isr, *_ = problems
        newly_offline = np.flatnonzero(offline & (flags & _OFFLINE == 0))
        # A partition with a leader now had one before: elections for dead brokers were done.
        moved = (after.leader != NONE) & (before_leader != after.leader)
        dark = before.topic.take(rows.take(newly_offline))
        leaders = before.leaders + (_count(after.leader, len(live)) - _count(before_leader, len(live)))
        assert leaders.min(initial=0) >= 0
        busiest = int(np.argmax(np.where(live, leaders, -1))) if live.any() else NONE
        totals = [
            int(total) - int(np.count_nonzero(flags & flag)) + int(np.count_nonzero(mask))
            for total, flag, mask in zip(before.totals, _FLAGS, problems, strict=True)
        ]
        assert (before.totals <= totals).all(), "a failure repairs no partition"
        outcome = Outcome(
            touched=len(rows),
            offline=totals[0],
            newly_offline=len(newly_offline),
            lost=totals[3],
            leaders_moved=int(np.count_nonzero(moved)),
            under_min_isr=totals[1],
            under_replicated=totals[2],
            topics_offline=int(np.count_nonzero(before.topic_offline))
            + int(np.count_nonzero(before.topic_offline[sorted_distinct(dark)] == 0)),
            busiest_broker=int(brokers.ids[busiest]) if busiest != NONE else NONE,
            busiest_leaders=int(leaders[busiest]) if busiest != NONE else 0,
        )
        newly_under = np.flatnonzero(under_min_isr & (flags & _UNDER_MIN_ISR == 0))
        return Consequences(outcome, dark, before.topic.take(rows.take(newly_under)), leaders)

    def _fail(self, failed: Sequence[int]) -> tuple[NDArray[np.intp], BoolArray, _State]:
        """Return the rows of some brokers, the live brokers after they failed, and the state of the rows then."""
        brokers = self.brokers
        assert np.isin(failed, brokers.ids).all(), f"some of the brokers {failed} are not in the layout"
        positions = brokers.positions_of(np.array(failed, np.int32))
        rows = self.rows_of(positions)
        live = brokers.live.copy()
        live[positions] = False
        before = self._columns
        return rows, live, _elect(before.replicas, before.isr, before.leader, rows, live)

    def affected(self, failed: Sequence[int]) -> Affected:
        """Return the partitions that become offline or fall below `min.insync.replicas` if brokers fail together.

        Args:
            failed: broker ids of the layout.

        >>> from simzk.partitions.layouts import Brokers, generate_layout
        >>> brokers = Brokers.from_racks({1: "a", 2: "b", 3: "c"})
        >>> what_if = WhatIf(generate_layout(brokers, topics=1, partitions=3, replication_factor=1, seed=0))
        >>> found = what_if.affected([1])
        >>> found.rows.tolist(), found.offline.tolist(), found.leader_before.tolist()
        ([0], [True], [1])
        """
        before = self._columns
        rows, _, after = self._fail(failed)
        flags = before.flags.take(rows)
        offline = (after.in_sync == 0) & (flags & _OFFLINE == 0)
        under_min_isr = (after.in_sync < before.min_isr.take(rows)) & (flags & _UNDER_MIN_ISR == 0)
        places = np.concatenate([np.flatnonzero(offline), np.flatnonzero(under_min_isr & ~offline)])
        chosen = rows.take(places)
        leader = before.leader.take(chosen).astype(np.int32)
        ids = np.append(self.brokers.ids, NONE).astype(np.int32)  # the position of no leader is -1
        return Affected(
            chosen.astype(np.intp), before.topic.take(chosen), offline[places], ids[leader], after.in_sync[places]
        )

    def rows_of(self, positions: IntArray) -> NDArray[np.intp]:
        """Return the partitions with a replica on one of these brokers (positions), ascending and distinct."""
        rows, starts = self._columns.rows, self._columns.starts
        assert positions.min(initial=0) >= 0
        assert positions.max(initial=-1) < len(self.brokers.ids)
        by_broker = [rows[starts[position] : starts[position + 1]] for position in positions]
        if len(by_broker) == 1:
            return by_broker[0]
        # A mask costs as much as all partitions, merging as much as the affected ones; a rack affects most of them.
        if sum(map(len, by_broker)) < len(self._columns.leader) // 4:
            merged = np.concatenate([*by_broker, rows[:0]])
            merged.sort(kind="stable")  # it merges what ascends already
            first = np.ones(len(merged), np.bool_)
            np.not_equal(merged[1:], merged[:-1], out=first[1:])
            return merged[first]
        mask = np.zeros(len(self._columns.leader), np.bool_)
        for some in by_broker:
            mask[some] = True
        return np.flatnonzero(mask)


def _elect(replicas: IntArray, isr: IntArray, leader: IntArray, rows: NDArray[np.intp], live: BoolArray) -> _State:
    """Elect leaders for those of `rows` whose leader is not in `live`, bool[b]; count live ISR members and replicas."""
    # The padding, position -1, reads the False appended behind the last broker.
    up = np.append(live, False)
    leader = leader.take(rows).astype(np.int32)
    leaderless = np.flatnonzero(~up[leader])
    some = rows.take(leaderless)
    election = elect_offline(_lists(replicas, some), _lists(isr, some), live, unclean_allowed=False)
    leader[leaderless] = election.leader
    in_sync = _count_up(isr, rows, up)
    assert np.array_equal(leader == NONE, in_sync == 0), "a partition with a live ISR member has a leader"
    return _State(leader, in_sync, _count_up(replicas, rows, up))


def _count_up(places: IntArray, rows: NDArray[np.intp], up: BoolArray) -> NDArray[np.int16]:
    """Return the number of live brokers in the lists of some rows."""
    counts = np.zeros(len(rows), np.int16)
    for place in places:
        counts += up[place.take(rows)]
    return counts


def _lists(places: IntArray, rows: NDArray[np.intp]) -> IntArray:
    return np.stack([place.take(rows) for place in places]).astype(np.int32).T


def _columns_of(layout: Layout) -> _Columns:
    """Return the columns of a layout after leaders were elected for partitions of dead brokers."""
    layout = elect_offline_leaders(layout)
    brokers = layout.brokers
    # The narrowest integers: narrow columns are read faster, and ten million partitions take hundreds of megabytes.
    width = np.int16 if len(brokers.ids) < 1 << 15 else np.int32
    replicas, isr = brokers.positions_of(layout.replicas), brokers.positions_of(layout.isr)
    by_broker, starts = _rows_by_broker(replicas, len(brokers.ids))
    factor = sizes(replicas).astype(np.uint8)
    replicas, isr = (np.ascontiguousarray(lists.T.astype(width)) for lists in (replicas, isr))
    state = _elect(replicas, isr, brokers.positions_of(layout.leader), np.arange(len(layout)), brokers.live)
    problems = state.problems(factor, layout.min_insync_replicas)
    flags = np.zeros(len(layout), np.uint8)
    for flag, mask in zip(_FLAGS, problems, strict=True):
        flags[mask] |= flag
    return _Columns(
        replicas=replicas,
        isr=isr,
        leader=state.leader.astype(width),
        factor=factor,
        min_isr=layout.min_insync_replicas,
        topic=layout.topic,
        flags=flags,
        rows=by_broker,
        starts=starts,
        leaders=_count(state.leader, len(brokers.ids)),
        topic_offline=np.bincount(layout.topic[problems[0]], minlength=len(layout.topics)),
        totals=np.array([np.count_nonzero(mask) for mask in problems], np.intp),
    )


def _rows_by_broker(replicas: IntArray, brokers: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows with a replica on each broker b as `rows[starts[b]:starts[b + 1]]`, ascending."""
    # Padding sorts after every broker; 16-bit keys, if enough, because numpy sorts them by radix.
    keys = np.where(replicas == NONE, brokers, replicas).ravel()
    order = np.argsort(keys.astype(np.uint16) if brokers < 1 << 16 else keys, kind="stable")
    assert keys.max(initial=0) <= brokers
    starts = np.append(0, np.cumsum(np.bincount(keys, minlength=brokers)[:brokers]))
    rows = order[: starts[-1]] // replicas.shape[1]
    return rows.astype(np.int32 if len(replicas) < 1 << 31 else np.int64), starts


def _count(positions: IntArray, brokers: int) -> NDArray[np.intp]:
    return np.bincount(positions + 1, minlength=brokers + 1)[1:]
