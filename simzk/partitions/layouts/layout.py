"""Layouts in memory: immutable columns over partitions and brokers, and the validation of their rows.

Rules of the module (checked by `find_problems` for input, asserted by `Layout.check`):

- a broker id is 0 to `MAX_BROKER_ID` and occurs once; `Brokers.ids` ascend;
- a partition (topic, number) occurs once; its replicas are one or more distinct known brokers, in preference order;
- its ISR is a sequence of distinct replicas; it may be empty (Kafka 0.8 to 0.10.2 writes `[]`);
- its leader is in the ISR, or -1 for none;
- the replicas that a reassignment adds and removes are distinct replicas, no replica is both, and at least one remains;
- input is rejected as a whole; the error lists the first ten invalid rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import (
    MAX_BROKER_ID,
    NONE,
    all_in,
    among,
    any_of,
    broker_mask,
    contained,
    is_padded,
    sizes,
    widen,
    with_duplicates,
)
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.states import States
from simzk.partitions.transitions import elect_offline, write_election

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.reassignment import Assignment

NAMED_PROBLEMS = 10
"""Invalid rows that an error lists."""

LONGEST_LIST = 255
"""Maximum replicas of a partition: one absurd list would widen every padded row."""

_FEW = 8

LARGEST_INT32 = 2**31 - 1

TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""Valid topic names (org.apache.kafka.common.internals.Topic)."""


@dataclass(frozen=True)
class Problems:
    """Number of invalid rows, with messages for the first of them.

    Args:
        total: rows that break at least one rule.
        first: at most ten messages, by ascending row.
        of: noun for a row.
        rows: int[total], the rows, ascending, where the caller wants them.
    """

    total: int
    first: tuple[str, ...]
    of: str = "partition"
    rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))

    def refuse(self, where: str) -> None:
        """Raise `LayoutError` for the file `where` if any row is invalid."""
        if not self.total:
            return
        invalid = f"{self.total:,} invalid {self.of}{'s' * (self.total != 1)}"
        more = self.total - len(self.first)
        lines = [f"{invalid}:", *self.first]
        if more > 0:
            lines.append(f"and {more:,} more")
        raise LayoutError("\n  ".join(lines), where=where)


Rule = tuple["NDArray[np.bool_]", "Callable[[int], str]"]


def find_problems(rows: Layout) -> Problems:
    """Check all rows of a layout against the rules of this module.

    Columns may still be int64, as read from a file, so that an id out of range is reported, not wrapped.
    """
    marked = np.zeros(len(rows), np.bool_)
    found: list[tuple[int, str]] = []
    for mask, words in _rules(rows):
        # Only the first rule that a row breaks is reported.
        fresh = np.flatnonzero(mask & ~marked)[:NAMED_PROBLEMS]
        found.extend((int(row), words(int(row))) for row in fresh)
        marked |= mask
    found.sort()
    names = rows.topics
    first = tuple(
        f"row {row} ({names[rows.topic[row]]}-{rows.partition[row]}): {words}" for row, words in found[:NAMED_PROBLEMS]
    )
    return Problems(int(np.count_nonzero(marked)), first, rows=np.flatnonzero(marked))


def _rules(rows: Layout) -> Iterator[Rule]:
    replicas, isr, leader = rows.replicas, rows.isr, rows.leader
    epoch, min_isr = rows.leader_epoch, rows.min_insync_replicas
    illegal = np.array([TOPIC_NAME.fullmatch(name) is None for name in rows.topics], np.bool_)
    if illegal.any():
        yield illegal[rows.topic], lambda row: "invalid topic name; expected 1 to 249 of a-z A-Z 0-9 . _ -"
    yield _outside(rows.partition), lambda row: "the partition number is out of range (0 to 2147483647)"
    yield ~any_of(replicas != NONE), lambda row: "the list of replicas is empty; expected one or more"
    yield (
        any_of(_outside(replicas, NONE, MAX_BROKER_ID)),
        lambda row: f"a broker id of replicas {_ids_of(replicas, row)} is out of range (0 to {MAX_BROKER_ID})",
    )
    unknown = ~np.isin(replicas, rows.brokers.ids) & (replicas != NONE)
    yield (
        any_of(unknown),
        lambda row: f"replica on unknown broker {replicas[row][unknown[row]][0]}; expected {_known_ids(rows.brokers)}",
    )
    yield with_duplicates(replicas), lambda row: f"duplicate replicas {_ids_of(replicas, row)}; expected each once"
    yield (
        ~all_in(isr, replicas),
        lambda row: f"ISR {_ids_of(isr, row)} has a member that is not in replicas {_ids_of(replicas, row)}",
    )
    yield with_duplicates(isr), lambda row: f"duplicate members in ISR {_ids_of(isr, row)}; expected each once"
    yield (
        (leader != NONE) & ~any_of(isr == leader[:, None]),
        lambda row: f"leader {leader[row]} is neither -1 (none) nor in ISR {_ids_of(isr, row)}",
    )
    yield _outside(epoch), lambda row: f"leader_epoch {epoch[row]} is out of range (0 or more)"
    yield _outside(min_isr, 1), lambda row: f"min_insync_replicas {min_isr[row]} is out of range (1 or more)"
    yield from _rules_of_moves(rows)
    repeated = _seen_before(rows.topic, rows.partition)
    yield repeated, lambda row: "the partition is in an earlier row too; expected each once"


def _rules_of_moves(rows: Layout) -> Iterator[Rule]:
    """Yield the rules of replicas to add and to remove, for the rows under reassignment only: mostly there are none."""
    moving = rows.reassigning
    if not len(moving):
        return
    replicas, adding, removing = rows.replicas[moving], rows.adding[moving], rows.removing[moving]

    def at(wrong: NDArray[np.bool_]) -> NDArray[np.bool_]:
        mask = np.zeros(len(rows), np.bool_)
        mask[moving[wrong]] = True
        return mask

    def of_row(row: int) -> str:
        return f"replicas {_ids_of(rows.replicas, row)}"

    def members(name: str, column: NDArray[np.int32]) -> Iterator[Rule]:
        yield (
            at(~all_in(column[moving], replicas)),
            lambda row: f"{name} {_ids_of(column, row)} has a member that is not in {of_row(row)}",
        )
        repeated = at(with_duplicates(column[moving]))
        yield repeated, lambda row: f"duplicate members in {name} {_ids_of(column, row)}; expected each once"

    yield from members("adding", rows.adding)
    yield from members("removing", rows.removing)
    yield (
        at(any_of(contained(adding, removing))),
        lambda row: f"adding {_ids_of(rows.adding, row)} and removing {_ids_of(rows.removing, row)} share a member",
    )
    yield (
        at(all_in(replicas, removing)),
        lambda row: f"removing {_ids_of(rows.removing, row)} leaves none of {of_row(row)}; expected at least one",
    )


def _ids_of(lists: NDArray[np.int32], row: int) -> list[int]:
    return [int(broker) for broker in lists[row] if broker != NONE]


def _known_ids(brokers: Brokers) -> str:
    """Return the known brokers for a message, abbreviated if there are many."""
    ids = brokers.ids.tolist()
    listed = ", ".join(map(str, ids[:_FEW]))
    return f"one of {listed}{', ...' if len(ids) > _FEW else ''}" if ids else "a broker of the layout, which has none"


def _outside(column: NDArray[np.int32], lowest: int = 0, highest: int = LARGEST_INT32) -> NDArray[np.bool_]:
    return (column < lowest) | (column > highest)


def _seen_before(topic: NDArray[np.int32], partition: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which rows repeat the (topic, partition) of an earlier row, bool[n]."""
    key = (topic.astype(np.int64) << 32) | (partition.astype(np.int64) & 0xFFFFFFFF)
    if bool(np.all(key[1:] > key[:-1])):
        return np.zeros(len(key), np.bool_)
    result = np.ones(len(key), np.bool_)
    _, first = np.unique(key, return_index=True)
    result[first] = False
    return result


@dataclass(frozen=True, eq=False)
class Brokers:
    """The brokers of a layout, by ascending id.

    Args:
        ids: int32[b], ascending.
        racks: the rack of each broker, None for none.
        live: bool[b], false for a broker that replicas name but that is not registered.
        cluster_ids: int64[b], the ids in the cluster, ascending, where they are too large for a layout and `ids` stand
            for them; None where they are the same.

    >>> brokers = Brokers.from_racks({2: "west", 1: "east"})
    >>> brokers.ids.tolist(), brokers.racks
    ([1, 2], ('east', 'west'))
    """

    ids: NDArray[np.int32]
    racks: tuple[str | None, ...]
    live: NDArray[np.bool_]
    cluster_ids: NDArray[np.int64] | None = None

    @classmethod
    def from_racks(cls, racks: Mapping[int, str | None]) -> Brokers:
        """Return live brokers from a mapping of id to rack."""
        ids = sorted(racks)
        return cls(np.array(ids, np.int32), tuple(racks[broker] for broker in ids), np.ones(len(ids), np.bool_))

    def name_of(self, at: int) -> str:
        """Return the id of the broker at a position as text, with its id in the cluster if that is another.

        >>> ids = np.arange(2, dtype=np.int32)
        >>> Brokers(ids, (None, None), ids >= 0, np.array([7, 102030040])).name_of(1)
        '1 (102030040)'
        """
        return str(self.ids[at]) if self.cluster_ids is None else f"{self.ids[at]} ({self.cluster_ids[at]})"

    @property
    def rack_names(self) -> tuple[str, ...]:
        """The names of the racks, sorted."""
        return tuple(sorted({rack for rack in self.racks if rack is not None}))

    @property
    def rack_numbers(self) -> NDArray[np.int32]:
        """The index in `rack_names` of each broker's rack, int32[b]; -1 for none."""
        number = {name: index for index, name in enumerate(self.rack_names)}
        return np.array([NONE if rack is None else number[rack] for rack in self.racks], np.int32)

    @property
    def live_mask(self) -> BoolArray:
        """The live brokers as a mask over broker ids."""
        return broker_mask(self.ids[self.live].tolist())

    @property
    def all_have_racks(self) -> bool:
        """Whether rack rules apply: Kafka uses racks only if every broker has one (§3.2)."""
        return None not in self.racks and len(self.racks) > 0

    @property
    def rack_by_id(self) -> dict[int, str]:
        """The racks by broker id; empty if rack rules do not apply."""
        if not self.all_have_racks:
            return {}
        return {broker: rack for broker, rack in zip(self.ids.tolist(), self.racks, strict=True) if rack is not None}

    def positions_of(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the position in `ids` of each broker id, in any shape; -1 stays -1, other ids must be known."""
        assert len(self.ids) or ids.max(initial=NONE) == NONE
        if len(self.ids) and self.ids[-1] == len(self.ids) - 1:
            assert ids.max(initial=NONE) < len(self.ids), "a broker is unknown"
            return ids  # ids are 0 .. b-1: they are the positions already
        positions = np.searchsorted(self.ids, ids).astype(np.int32)
        assert not len(self.ids) or ((ids == NONE) | (self.ids.take(positions, mode="clip") == ids)).all(), (
            "a broker is unknown"
        )
        return np.where(ids == NONE, np.int32(NONE), positions)

    def check(self) -> None:
        """Assert the rules of brokers."""
        assert self.ids.dtype == np.int32
        assert self.live.dtype == np.bool_
        assert len(self.ids) == len(self.racks) == len(self.live)
        assert bool(np.all(np.diff(self.ids) > 0)), "ids must ascend, each once"
        assert len(self.ids) == 0 or (self.ids[0] >= 0 and self.ids[-1] <= MAX_BROKER_ID)
        assert all(rack is None or rack for rack in self.racks), "a rack has a name"
        if self.cluster_ids is not None:
            assert len(self.cluster_ids) == len(self.ids)
            assert bool(np.all(np.diff(self.cluster_ids) > 0)), "ids in the cluster must ascend, each once"


@dataclass(frozen=True, eq=False)
class Layout:
    """The assignment and state of all partitions of a cluster; row i of each column is one partition.

    Args:
        brokers: all brokers that replicas name.
        topics: topic names; `topic` is an index into them.
        topic: int32[n], index into `topics`.
        partition: int32[n], number in the topic.
        replicas: int32[n, w], broker ids in preference order, padded with -1 on the right.
        isr: int32[n, v], broker ids in the order of the znode, padded with -1 on the right.
        leader: int32[n], a broker id, or -1 for none.
        leader_epoch: int32[n].
        min_insync_replicas: int32[n], `min.insync.replicas` of the topic.
        adding: int32[n, u], replicas that a reassignment adds (KIP-455), in the order of the znode, padded with -1
            [default: none].
        removing: int32[n, r], replicas that a reassignment removes.
    """

    brokers: Brokers
    topics: tuple[str, ...]
    topic: NDArray[np.int32]
    partition: NDArray[np.int32]
    replicas: NDArray[np.int32]
    isr: NDArray[np.int32]
    leader: NDArray[np.int32]
    leader_epoch: NDArray[np.int32]
    min_insync_replicas: NDArray[np.int32]
    adding: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 1), np.int32))
    removing: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 1), np.int32))

    def __post_init__(self) -> None:
        columns = self.topic, self.partition, self.replicas, self.isr, self.leader, self.leader_epoch
        assert all(len(column) == len(self) for column in (*columns, self.min_insync_replicas))
        for name in ("adding", "removing"):
            if not len(getattr(self, name)):
                # Broadcast one empty list to all rows: the column takes no memory.
                empty = np.broadcast_to(np.array([NONE], np.int32), (len(self), 1))
                object.__setattr__(self, name, empty)
            assert len(getattr(self, name)) == len(self)

    @property
    def reassigning(self) -> NDArray[np.intp]:
        """The rows under reassignment, ascending."""
        return np.flatnonzero((sizes(self.adding) > 0) | (sizes(self.removing) > 0))

    def __len__(self) -> int:
        return len(self.partition)

    @property
    def states(self) -> States:
        """The states of all partitions; versions and controller epochs, which a layout does not contain, are 0."""
        zeros = np.zeros(len(self), np.int32)
        return States(self.leader, self.leader_epoch, self.isr, zeros, zeros, np.zeros(len(self), np.bool_))

    def with_states(self, rows: NDArray[np.intp], states: States, assignment: Assignment | None = None) -> Layout:
        """Return a copy in which k rows have other states and, if given, assignments.

        Args:
            rows: int[k], distinct.
            states: k states.
            assignment: of the k partitions.
        """
        assert len(rows) == len(states.leader)
        assert assignment is None or all(len(lists) == len(rows) for lists in assignment)
        changed = replace(
            self,
            isr=_with_rows(self.isr, rows, states.isr),
            leader=_with_rows(self.leader, rows, states.leader),
            leader_epoch=_with_rows(self.leader_epoch, rows, states.leader_epoch),
        )
        if assignment is None:
            return changed
        return replace(
            changed,
            replicas=_with_rows(self.replicas, rows, assignment.replicas),
            adding=_with_rows(self.adding, rows, assignment.adding),
            removing=_with_rows(self.removing, rows, assignment.removing),
        )

    def check(self) -> None:
        """Assert every rule of a layout."""
        self.brokers.check()
        rows = len(self)
        for column in (self.topic, self.partition, self.leader, self.leader_epoch, self.min_insync_replicas):
            assert (column.dtype, column.shape) == (np.dtype(np.int32), (rows,))
        for lists in (self.replicas, self.isr, self.adding, self.removing):
            assert (lists.dtype, lists.ndim, len(lists)) == (np.dtype(np.int32), 2, rows)
            assert is_padded(lists)
        problems = find_problems(self)
        assert not problems.total, problems.first


def _with_rows(column: IntArray, rows: NDArray[np.intp], new: IntArray) -> IntArray:
    """Return a copy of a column, int32[n] or of lists int32[n, w], in which some rows have other values or lists."""
    assert len(rows) == len(new)
    if column.ndim == 2:
        new = widen(new[:, : max(int(sizes(new).max(initial=0)), 1)], column.shape[1])
        column = widen(column, new.shape[1])
    after = column.copy()
    after[rows] = new
    return after


def elect_offline_leaders(layout: Layout, rules: ElectionRules = LATEST) -> Layout:
    """Return the layout after the controller elected leaders for partitions of brokers that are already dead.

    Args:
        layout: the layout; it is returned itself if no election succeeds or is needed.
        rules: of the Kafka version; elections are clean unless the version has only unclean ones.
    """
    live = layout.brokers.live_mask
    rows = np.flatnonzero(~among(layout.leader, live))
    if not len(rows):
        return layout
    before = layout.states.at(rows)
    election = elect_offline(layout.replicas[rows], before.isr, live, unclean_allowed=False, rules=rules)
    elected = np.flatnonzero(election.elected)
    after = write_election(before, election, controller_epoch=0, rules=rules).after
    return layout.with_states(rows[elected], after.at(elected))
