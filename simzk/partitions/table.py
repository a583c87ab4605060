"""All partitions of a cluster as columns: what each is assigned to, and the state its znode holds.

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
    contained,
    first_duplicate,
    is_padded,
    pack,
    unpack,
    widen,
)
from simzk.partitions.broker_index import BrokerIndex
from simzk.partitions.moving_rows import MovingRows
from simzk.partitions.names import Partitions
from simzk.partitions.odd_rows import OddRows
from simzk.partitions.reassignment import Assignment
from simzk.partitions.row_columns import RowColumns
from simzk.partitions.states import LeaderAndIsr, States, no_states
from simzk.partitions.topic_rows import FREE_TOPIC, TopicRows
from simzk.partitions.validation import in_topic_order, validate_moves, validate_replicas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray


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
