"""What reassignments add and remove, by row: few rows move at a time, so that they cost nothing of the others.

The rows of a table that its index from brokers to rows does not tell by what they hold.

Rules of the module:
  - *strays* have a leader or an ISR member that is no replica: a tree edited by hand, a legacy reassignment;
  - *leaderless* rows have a state without a leader;
  - both are few, and kept in sets.

The columns of a table over its rows, with room for more of them, and what may be seen of them.

Rules of the module:
  - columns have room for more rows than are used, so that adding rows seldom copies; free rows are taken first;
  - they are handed out as read-only views: a view is of the moment, taken anew after a change.

From a broker to the partitions that it holds, so that a broker's failure touches only these.

Rules of the module:

1. A broker's rows are one ascending array. Few changes are noted beside it and merged when it is next asked for, so
   that a change of one partition costs a dictionary entry and a reading costs what the broker holds.
2. Many changes at once are merged at once.

All partitions of a cluster as columns: what each is assigned to, and the state its znode holds.

Rules of the module:

1. A partition is a row. Its row stays until the partition is removed; rows of removed partitions are used again.
   A free row has topic -1 and empty lists.
2. `add`, `extend`, `set_assignment`, `assign`, `apply`, `put_all`, `put` and `remove` are the only ways to change a
   table.
3. The index from broker to rows is built when first asked for, and kept up to date from then on.
4. ISR members and leaders are normally among the replicas, and a state has a leader. Rows where they are not (a tree
   edited by hand, a legacy reassignment), or where no one leads, are kept apart (`odd_rows`).
5. The names of rows are looked up when somebody reads them, and before their rows become others (`names`).
6. Bad input (`LayoutError`) changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import (
    NONE,
    BoolArray,
    IntArray,
    among,
    any_of,
    contained,
    first_duplicate,
    is_padded,
    lots,
    pack,
    unpack,
    widen,
)
from simzk.partitions.names import Partitions
from simzk.partitions.reassignment import Assignment
from simzk.partitions.row_records import RowRecords
from simzk.partitions.states import LeaderAndIsr, States, no_states
from simzk.partitions.topic_rows import FREE_TOPIC, TopicRows
from simzk.partitions.validation import in_topic_order, validate_moves, validate_replicas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.arrays import BoolArray, Column, IntArray
    from simzk.partitions.states import LeaderAndIsr, States


class MovingRows:
    """Replicas to add and to remove.

    >>> moving = MovingRows()
    >>> moving.put(7, [3], [1, 2])
    >>> moving.rows(), moving.adding(7), moving.removing(7), moving.adding(8)
    ([7], (3,), (1, 2), ())
    """

    def __init__(self) -> None:
        self._lists: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def put(self, row: int, adding: Sequence[int], removing: Sequence[int]) -> None:
        """Write both lists of a row; it does not move where both are empty."""
        self._lists.pop(row, None)
        if adding or removing:
            self._lists[row] = tuple(adding), tuple(removing)

    def adding(self, row: int) -> tuple[int, ...]:
        """The replicas to add."""
        return self._lists[row][0] if row in self._lists else ()

    def removing(self, row: int) -> tuple[int, ...]:
        """The replicas to remove."""
        return self._lists[row][1] if row in self._lists else ()

    def rows(self) -> list[int]:
        """The rows that move, ascending."""
        return sorted(self._lists)

    def lists(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Of some rows the replicas to add and to remove, padded."""
        if not self._lists:
            return np.full((len(rows), 1), NONE, dtype=np.int32), np.full((len(rows), 1), NONE, dtype=np.int32)
        both = [self._lists.get(row, ((), ())) for row in rows.tolist()]
        return pack([adding for adding, _ in both]), pack([removing for _, removing in both])


class OddRows:
    """Strays and leaderless rows."""

    def __init__(self) -> None:
        self.strays: set[int] = set()
        self.leaderless: set[int] = set()

    def note(self, row: int, replicas: IntArray, state: LeaderAndIsr) -> None:
        """What one row holds from now on; `note_all` at a tenth of its price."""
        mentioned = {state.leader, *state.isr}
        _put(self.strays, row, not mentioned <= {NONE, *replicas.tolist()})
        _put(self.leaderless, row, state.leader == NONE and state.version >= 0)

    def note_all(self, rows: IntArray, replicas: IntArray, states: States) -> None:
        """What k rows hold from now on."""
        self.forget(rows)
        for some in lots(len(rows)):
            leader = states.leader[some]
            stray = _is_stray(replicas[some], states.isr[some], leader)
            self.strays.update(rows[some][stray].tolist())
            leaderless = (leader == NONE) & (states.version[some] >= 0)
            self.leaderless.update(rows[some][leaderless].tolist())

    def forget(self, rows: IntArray) -> None:
        """Rows that hold nothing any more."""
        for members in (self.strays, self.leaderless):
            if members:
                members.difference_update(rows.tolist())

    def rows(self) -> IntArray:
        """All of them; some perhaps twice."""
        return np.array([*self.strays, *self.leaderless], dtype=np.int32)

    def check(self, replicas: IntArray, isr: IntArray, leader: IntArray, version: IntArray) -> None:
        """Assert that they are those of the columns."""
        assert sorted(self.strays) == np.flatnonzero(_is_stray(replicas, isr, leader)).tolist()
        assert sorted(self.leaderless) == np.flatnonzero((leader == NONE) & (version >= 0)).tolist()


def _put(members: set[int], row: int, is_one: bool) -> None:
    if is_one:
        members.add(row)
    else:
        members.discard(row)


def _is_stray(replicas: IntArray, isr: IntArray, leader: IntArray) -> BoolArray:
    """Which rows have an ISR member or a leader that is not among the replicas."""
    stray = any_of((isr != NONE) & ~contained(isr, replicas))
    stray |= (leader != NONE) & ~contained(leader[:, None], replicas)[:, 0]
    return stray


class RowColumns:
    """Topic number and partition id, replicas and state of each row.

    Args:
        width: places for replicas and ISR, until a longer list comes.
    """

    def __init__(self, width: int) -> None:
        assert width >= 1
        self._topic: IntArray = np.empty(0, dtype=np.int32)
        self._partition: IntArray = np.empty(0, dtype=np.int32)
        self._records = RowRecords(width)
        self._used = 0
        self._free: list[int] = []

    def _seen(self, column: Column) -> Column:
        view = column[: self._used]
        view.flags.writeable = False
        return view

    @property
    def topic(self) -> IntArray:
        """int32[n], number of the topic; -1 in a free row."""
        return self._seen(self._topic)

    @property
    def partition(self) -> IntArray:
        """int32[n], partition ids."""
        return self._seen(self._partition)

    @property
    def replicas(self) -> IntArray:
        """int32[n, w], assigned replicas in preference order, padded."""
        return self._seen(self._records.replicas)

    @property
    def isr(self) -> IntArray:
        """int32[n, w], in-sync replicas in the order of the znode, padded."""
        return self._seen(self._records.isr)

    @property
    def leader(self) -> IntArray:
        """int32[n], -1 where there is none."""
        return self._seen(self._records.leader)

    @property
    def leader_epoch(self) -> IntArray:
        """int32[n]."""
        return self._seen(self._records.leader_epoch)

    @property
    def controller_epoch(self) -> IntArray:
        """int32[n], epoch of the controller that wrote the state last."""
        return self._seen(self._records.controller_epoch)

    @property
    def version(self) -> IntArray:
        """int32[n], dataVersion of the state znode; -1 where there is no such znode."""
        return self._seen(self._records.version)

    @property
    def recovering(self) -> BoolArray:
        """bool[n], whether the leader is recovering from an unclean election; a copy."""
        return self._seen(self._records.recovering != 0)

    @property
    def width(self) -> int:
        """Columns of the padded lists; it grows when a longer list comes."""
        return self._records.width

    def _take_rows(self, count: int) -> IntArray:
        """Free rows if there are enough, else new ones at the end."""
        if 0 < count <= len(self._free):
            taken, self._free = self._free[:count], self._free[count:]
            return np.array(taken, dtype=np.int32)
        first, self._used = self._used, self._used + count
        if self._used > len(self._topic):
            capacity = max(self._used, 2 * first)
            self._topic = _with_room(self._topic, first, capacity)
            self._partition = _with_room(self._partition, first, capacity)
            self._records.reserve(capacity)
        return np.arange(first, self._used, dtype=np.int32)


def _with_room(column: IntArray, used: int, capacity: int) -> IntArray:
    roomy = np.empty(capacity, dtype=np.int32)
    roomy[:used] = column[:used]
    return roomy


_NOTED_AT_MOST = 64
_NO_ROWS: IntArray = np.empty(0, dtype=np.int32)


class BrokerIndex:
    """Rows by broker.

    Args:
        replicas: int32[n, w], the replicas of all rows, padded; a row without any is in no broker's list.

    >>> from simzk.partitions.arrays import pack
    >>> BrokerIndex(pack([[1, 2], [2, 3]])).rows(2).tolist()
    [0, 1]
    """

    def __init__(self, replicas: IntArray) -> None:
        self._held = _grouped(np.arange(len(replicas), dtype=np.int32), replicas)
        self._noted: dict[int, dict[int, bool]] = {}

    def rows(self, broker: int) -> IntArray:
        """The rows that a broker holds, ascending. Costs what it holds."""
        noted = self._noted.pop(broker, None)
        if noted:
            added = np.array([row for row, holds in noted.items() if holds], dtype=np.int32)
            removed = np.array([row for row, holds in noted.items() if not holds], dtype=np.int32)
            self._merge(broker, added, removed)
        held = self._held.get(broker, _NO_ROWS)
        held.flags.writeable = False
        return held

    def brokers(self) -> list[int]:
        """The brokers that hold at least one row, ascending."""
        return [broker for broker in sorted(self._held.keys() | self._noted.keys()) if self.rows(broker).size]

    def brokers_beyond(self, brokers: BoolArray) -> list[int]:
        """Those that hold, or held, a row and are not among some, by a mask over broker ids; in any order."""
        size = len(brokers)
        return [b for b in self._held.keys() | self._noted.keys() if b >= size or not brokers[b]]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of rows."""
        return sum(held.nbytes for held in self._held.values())

    def check(self, replicas: IntArray) -> None:
        """Assert that the index says what the replicas say."""
        rebuilt = BrokerIndex(replicas)
        assert self.brokers() == rebuilt.brokers()
        for broker in rebuilt.brokers():
            assert self.rows(broker).tolist() == rebuilt.rows(broker).tolist(), f"index of broker {broker}"

    def add(self, rows: IntArray, replicas: IntArray) -> None:
        """Rows that did not exist, or held nothing: int32[k], with their replicas, int32[k, w]."""
        self._change(rows, replicas, True)

    def discard(self, rows: IntArray, replicas: IntArray) -> None:
        """Rows that are gone, or are about to hold something else, with the replicas they had."""
        self._change(rows, replicas, False)

    def _change(self, rows: IntArray, replicas: IntArray, holds: bool) -> None:
        if len(rows) <= _NOTED_AT_MOST:
            for row, ids in zip(rows.tolist(), unpack(replicas), strict=True):
                for broker in ids:
                    self._noted.setdefault(broker, {})[row] = holds
            return
        for broker, changed in _grouped(rows, replicas).items():
            self.rows(broker)
            self._merge(broker, *((changed, _NO_ROWS) if holds else (_NO_ROWS, changed)))

    def _merge(self, broker: int, added: IntArray, removed: IntArray) -> None:
        held = self._held.get(broker, _NO_ROWS)
        if removed.size:
            held = held[~np.isin(held, removed)]
        if added.size:
            held = np.union1d(held, added)
        self._held[broker] = held


def _grouped(rows: IntArray, replicas: IntArray) -> dict[int, IntArray]:
    """Broker to those of the rows, in order, whose replicas name it."""
    top = int(replicas.max(initial=NONE))
    # Sorting keys of 16 bits is a radix sort: linear, ten times faster at a million rows.
    keys = np.empty(replicas.shape, dtype=np.uint16 if top < 2**16 - 1 else np.int32)
    np.add(replicas, 1, out=keys, casting="unsafe")
    counts = np.bincount(keys.ravel(), minlength=1)
    # Of millions of rows each array is large: as few as can be at a time, that of places in place.
    places = np.argsort(keys.ravel(), kind="stable")
    del keys
    places //= replicas.shape[1]
    owners = rows[places]
    ends = np.cumsum(counts)
    brokers = np.flatnonzero(counts[1:])
    return {broker: owners[ends[broker] : ends[broker + 1]] for broker in brokers.tolist()}


class PartitionTable(RowColumns):
    """The partitions of a cluster, columns over rows.

    >>> table = PartitionTable()
    >>> rows = table.add("orders", {0: [1, 2], 1: [2, 3]})
    >>> table.put(table.row("orders", 1), LeaderAndIsr(2, 0, (2, 3), 1))
    >>> table.rows_with_replica(2).tolist(), table.rows_led_by(2).tolist()
    ([0, 1], [1])
    """

    def __init__(self, width: int = 3) -> None:
        super().__init__(width)
        self._topic_rows = TopicRows()
        self._moving = MovingRows()
        self._odd = OddRows()
        self._index: BrokerIndex | None = None
        self._lent: WeakSet[Partitions] = WeakSet()
        self._assigned = 0

    @classmethod
    def from_columns(
        cls,
        topics: Sequence[str],
        topic: IntArray,
        partition: IntArray,
        replicas: IntArray,
        states: States | None = None,
    ) -> PartitionTable:
        """A table of whole columns, without a step per partition; arguments and errors as of `extend`."""
        table = cls(replicas.shape[1])
        table.extend(topics, topic, partition, replicas, states)
        return table

    @property
    def topics(self) -> list[str]:
        """Topic names by their number in the column `topic`; "" where a number is free."""
        return self._topic_rows.names

    @property
    def nbytes(self) -> int:
        """Bytes of the columns and of the index where it is built; names of topics are not counted."""
        names = self.topic.nbytes + self.partition.nbytes
        return names + self._used * self._records.row_bytes + (self._index.nbytes if self._index else 0)

    def __len__(self) -> int:
        """How many partitions there are."""
        return self._used - len(self._free)

    def __contains__(self, topic_partition: tuple[str, int]) -> bool:
        return topic_partition in self._topic_rows

    def row(self, topic: str, partition: int) -> int:
        """The row of a partition.

        Raises:
            KeyError: there is no such partition.
        """
        return self._topic_rows.row(topic, partition)

    def find(self, topic: str, partition: int) -> int | None:
        """The row of a partition, None where there is no such partition."""
        return self._topic_rows.find(topic, partition)

    def find_all(self, partitions: Partitions) -> IntArray:
        """The rows of many partitions, -1 where there is no such partition; int32[k], which nobody changes."""
        if partitions.place is not None:
            source, rows = partitions.place
            assert isinstance(source, PartitionTable)
            if source is self or self._topic_rows.has_the_same(source._topic_rows):
                return rows
        return self._topic_rows.find_all(partitions)

    def partitions(self, rows: IntArray) -> Partitions:
        """The names of some rows, which nobody changes; they stay what they are now."""
        lent = Partitions.in_rows(self, rows)
        self._lent.add(lent)
        return lent

    def name_columns(self, rows: IntArray) -> tuple[list[str], IntArray, IntArray]:
        """Names of topics, and of some rows index into them and partition id, int32[k] each."""
        return self.topics, self._topic.take(rows), self._partition.take(rows)

    def name(self, row: int) -> tuple[str, int]:
        """Topic and partition id of a row."""
        self._assert_in_use(row)
        return self.topics[self._topic[row]], int(self._partition[row])

    def topics_as_they_came(self) -> Iterator[str]:
        """The topics that have a partition, in the order in which they were added."""
        return iter(self._topic_rows)

    def topic_number(self, topic: str) -> int:
        """The number of a topic in the column `topic`, -1 where it has no partition."""
        return self._topic_rows.number_of(topic)

    def rows(self) -> IntArray:
        """The rows of all partitions, ascending."""
        return np.flatnonzero(self.topic != FREE_TOPIC).astype(np.int32)

    def rows_of(self, topic: str) -> IntArray:
        """The rows of a topic in the order of its partition ids; none where the topic is unknown."""
        return self._topic_rows.rows(topic)

    @property
    def changes(self) -> int:
        """How often partitions came or went: what was worked out of all their names holds while it is the same."""
        return self._topic_rows.changes

    @property
    def assignments(self) -> int:
        """How often who holds what was changed; also when partitions came or went."""
        return self._assigned

    def run_of(self, topic: str) -> range | None:
        """The rows of a topic whose partitions are 0, 1, ... in consecutive rows; None of any other."""
        return self._topic_rows.run_of(topic)

    def rows_with_replica(self, *brokers: int) -> IntArray:
        """The rows with a replica on at least one of the brokers, ascending. Costs what they hold."""
        if self._index is None:
            self._index = BrokerIndex(self.replicas)
        held = [self._index.rows(broker) for broker in brokers]
        return held[0] if len(held) == 1 else np.unique(np.concatenate([np.empty(0, dtype=np.int32), *held]))

    def rows_led_by(self, *brokers: int) -> IntArray:
        """The rows whose leader is one of the brokers, ascending. Costs what they hold."""
        held = self.rows_with_replica(*brokers)
        if self._odd.strays:
            held = np.union1d(held, np.array(sorted(self._odd.strays), dtype=np.int32))
        return held[np.isin(self.leader[held], brokers)]

    def rows_not_led_by(self, brokers: BoolArray) -> IntArray:
        """The rows with a state that none of some brokers leads, ascending. Costs what the other brokers hold.

        Args:
            brokers: a mask over broker ids.
        """
        if self._index is None:
            return np.flatnonzero((self.version >= 0) & ~among(self.leader, brokers)).astype(np.int32)
        held = [self._index.rows(broker) for broker in self._index.brokers_beyond(brokers)]
        odd = self._odd.rows()
        rows = held[0] if len(held) == 1 and not len(odd) else np.unique(np.concatenate([odd, *held]))
        leader, version = self.leader[rows], self.version[rows]
        return rows[(version >= 0) & ~among(leader, brokers)]

    def reassigning(self) -> list[int]:
        """The rows under reassignment, ascending."""
        return self._moving.rows()

    def states(self, rows: IntArray) -> States:
        """A copy of the states of some rows."""
        return self._records.read(rows)[1]

    def replicas_at(self, rows: NDArray[np.integer]) -> IntArray:
        """A copy of the replicas of some rows, int32[k, w]."""
        return self._records.replicas_at(rows)

    def replicas_and_states(self, rows: IntArray) -> tuple[IntArray, States]:
        """Copies of the replicas, int32[k, w], and the states of some rows, in one reading."""
        return self._records.read(rows)

    def leader_and_isr(self, row: int) -> LeaderAndIsr | None:
        """The state of one partition, None where it has no state znode."""
        self._assert_in_use(row)
        state = self._records.state(row)
        return state if state.version >= 0 else None

    def replicas_of(self, row: int) -> tuple[int, ...]:
        """The assigned replicas of one partition in preference order."""
        ids = self._records.replicas[row]
        return tuple(ids[ids != NONE].tolist())

    def adding_of(self, row: int) -> tuple[int, ...]:
        """The replicas that a reassignment of the partition adds."""
        return self._moving.adding(row)

    def removing_of(self, row: int) -> tuple[int, ...]:
        """The replicas that a reassignment of the partition removes."""
        return self._moving.removing(row)

    def add(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> IntArray:
        """Partitions of a topic, new or known, that have no state znode yet.

        Args:
            topic: its name.
            assignment: partition id to replicas in preference order.

        Returns:
            int32[k], their rows, in the order of `assignment`.

        Raises:
            LayoutError: a partition is known already, or its replicas cannot be.
        """
        partitions = np.fromiter(assignment, dtype=np.int32, count=len(assignment))
        return self.extend([topic], np.zeros_like(partitions), partitions, pack(list(assignment.values())))

    def extend(
        self,
        topics: Sequence[str],
        topic: IntArray,
        partition: IntArray,
        replicas: IntArray,
        states: States | None = None,
    ) -> IntArray:
        """Many partitions at once.

        Args:
            topics: distinct names, of new or known topics.
            topic: int32[k], index into `topics` of each partition's topic.
            partition: int32[k], ids.
            replicas: int32[k, v], padded.
            states: k states; None where none has a state znode yet.

        Returns:
            int32[k], their rows.

        Raises:
            LayoutError: a partition is known or given twice, a replica repeats or is no broker id.
        """
        count = len(topic)
        states = no_states(count, self.width) if states is None else states
        assert all(len(column) == count for column in (partition, replicas, *states))
        validate_replicas(replicas)
        order = in_topic_order(topics, topic, partition)
        for name in topics:
            if self._topic_rows.knows(name):
                for position in np.flatnonzero(topic == topics.index(name)).tolist():
                    if (name, int(partition[position])) in self:
                        raise LayoutError(f"partition {partition[position]} of topic {name!r} is there already")
        self._assigned += 1
        rows = self._take_rows(count)
        self._records.widen(max(replicas.shape[1], states.isr.shape[1]))
        self._topic_rows.enlist_all(topics, topic[order], partition[order], rows[order])
        numbers = np.array([self._topic_rows.number_of(name) for name in topics], dtype=np.int32)
        self._topic[rows] = numbers[topic]
        self._partition[rows] = partition
        self._records.fill(rows, replicas, states)
        self._odd.note_all(rows, replicas, states)
        if self._index is not None:
            self._index.add(rows, replicas)
        return rows

    def set_assignment(
        self, row: int, replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()
    ) -> None:
        """What the topic znode says of a partition from now on.

        Args:
            row: the partition.
            replicas: its replicas in preference order.
            adding: those of them that a reassignment adds.
            removing: those of them that a reassignment removes.

        Raises:
            LayoutError: a replica repeats or is no broker id, or adding and removing are not among the replicas.
        """
        self._assert_in_use(row)
        new = pack([replicas])
        validate_replicas(new)
        validate_moves(replicas, adding, removing)
        self._assigned += 1
        self._records.widen(new.shape[1])
        rows = np.array([row], dtype=np.int32)
        if self._index is not None:
            self._index.discard(rows, self._records.replicas[rows])
            self._index.add(rows, new)
        self._records.replicas[row] = widen(new, self.width)[0]
        self._moving.put(row, adding, removing)
        self._odd.note(row, self._records.replicas[row], self._records.state(row))

    def assignment(self, rows: IntArray) -> Assignment:
        """What the topic znodes say of some rows, a copy."""
        return Assignment(self.replicas_at(rows), *self._moving.lists(rows))

    def assign(self, rows: IntArray, assignment: Assignment) -> Assignment:
        """What the topic znodes say of some rows from now on.

        Args:
            rows: int32[k], distinct rows in use.
            assignment: of the k partitions.

        Returns:
            what they said before: assigned in turn, it undoes the change.

        Raises:
            LayoutError: as of `set_assignment`.
        """
        replicas, adding, removing = assignment
        assert all(len(ids) == len(rows) for ids in assignment)
        assert (self.topic[rows] != FREE_TOPIC).all(), "a row is free"
        validate_replicas(replicas)
        moves = list(zip(unpack(replicas), unpack(adding), unpack(removing), strict=True))
        for move in moves:
            validate_moves(*move)
        before = self.assignment(rows)
        self._assigned += 1
        self._records.widen(replicas.shape[1])
        if self._index is not None:
            self._index.discard(rows, before.replicas)
            self._index.add(rows, replicas)
        self._records.put_replicas(rows, replicas)
        for row, (_, *moving) in zip(rows.tolist(), moves, strict=True):
            self._moving.put(row, *moving)
        self._odd.note_all(rows, *self._records.read(rows))
        return before

    def apply(self, rows: IntArray, states: States) -> States:
        """Write the states of some rows.

        Args:
            rows: int32[k], distinct rows in use.
            states: k states.

        Returns:
            the states that stood there before: applied in turn, they undo the change.
        """
        assert all(len(column) == len(rows) for column in states)
        self._records.widen(states.isr.shape[1])
        replicas, before = self._records.replace(rows, states)
        self._odd.note_all(rows, replicas, states)
        return before

    def put_all(self, rows: IntArray, states: States) -> None:
        """As `apply`, where nobody asks what stood there before: at two thirds of its price."""
        assert all(len(column) == len(rows) for column in states)
        self._records.widen(states.isr.shape[1])
        self._odd.note_all(rows, self._records.put_states(rows, states), states)

    def put(self, row: int, state: LeaderAndIsr) -> None:
        """Write the state of one partition."""
        self._assert_in_use(row)
        self._records.widen(len(state.isr))
        self._records.put_state(row, state)
        self._odd.note(row, self._records.replicas[row], state)

    def remove(self, rows: Iterable[int]) -> tuple[Partitions, Assignment, States]:
        """Take partitions out of the table; their rows are free, and a topic without partitions is forgotten.

        Args:
            rows: distinct rows in use.

        Returns:
            what they were called, what the topic znodes said of them, and their states.
        """
        gone = np.fromiter(rows, dtype=np.int32)
        assert len(np.unique(gone)) == len(gone), "a row is given twice"
        assert (self.topic[gone] != FREE_TOPIC).all(), "a row is free"
        if self._index is not None:
            self._index.discard(gone, self._records.replicas[gone])
        were = self.partitions(gone), self.assignment(gone), self.states(gone)
        self._assigned += 1
        for lent in list(self._lent):
            lent.settle()
        self._lent.clear()
        numbers = self._topic[gone]
        for number in dict.fromkeys(numbers.tolist()):
            self._topic_rows.delist(self.topics[number], self._partition[gone[numbers == number]].tolist())
        for row in gone.tolist():
            self._moving.put(row, (), ())
        self._topic[gone] = FREE_TOPIC
        self._partition[gone] = -1
        self._records.clear(gone)
        self._odd.forget(gone)
        self._free = sorted([*self._free, *gone.tolist()])
        return were

    def _assert_in_use(self, row: int) -> None:
        assert 0 <= row < self._used, f"row {row} does not exist"
        assert self._topic[row] != FREE_TOPIC, f"row {row} is free"

    def check(self) -> None:
        """Assert every invariant of the table."""
        self._topic_rows.check(self.topic, self.partition)
        in_use = self.topic != FREE_TOPIC
        assert np.flatnonzero(~in_use).tolist() == self._free
        for ids in (self.replicas, self.isr):
            assert is_padded(ids)
            assert first_duplicate(ids) is None
        assert (self.replicas[in_use, 0] != NONE).all()
        assert (self.replicas[~in_use] == NONE).all()
        self._check_states(in_use)
        self._odd.check(self.replicas, self.isr, self.leader, self.version)
        for row in self.reassigning():
            assert in_use[row]
            validate_moves(self.replicas_of(row), self.adding_of(row), self.removing_of(row))
        if self._index is not None:
            self._index.check(self.replicas)

    def _check_states(self, in_use: NDArray[np.bool_]) -> None:
        bare = self.version < 0
        assert bare[~in_use].all()
        assert (self.leader[bare] == NONE).all()
        assert (self.isr[bare] == NONE).all()
        assert not self.recovering[bare].any()
        assert (self.leader_epoch >= 0).all()
        led = self.leader != NONE
        assert contained(self.leader[led, None], self.isr[led]).all(), "a leader is not in its ISR"
