"""All partitions of a cluster as columns: what each is assigned to, and the state its znode holds.

Rules of the module:

1. A partition is a row. Its row stays until the partition is removed; rows of removed partitions are used again.
   A free row has topic -1 and empty lists.
2. `add`, `extend`, `set_assignment`, `apply`, `put` and `remove` are the only ways to change a table. Columns are handed
   out as read-only views: a view is of the moment, taken anew after a change.
3. The index from broker to rows is built when first asked for, and kept up to date from then on.
4. ISR members and leaders are normally among the replicas. Rows where they are not (a tree edited by hand, a legacy
   reassignment) are *strays*, kept in a set of their own.
5. Bad input (`LayoutError`) changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simzk.errors import LayoutError
from simzk.partitions.arrays import (
    MAX_BROKER_ID,
    NONE,
    BoolArray,
    IntArray,
    contained,
    first_duplicate,
    is_padded,
    pack,
    widen,
)
from simzk.partitions.broker_index import BrokerIndex
from simzk.partitions.states import LeaderAndIsr, States, no_states, states_of

_STATE_COLUMNS = States._fields
_FREE = -1


class PartitionTable:
    """The partitions of a cluster, columns over rows.

    >>> table = PartitionTable()
    >>> rows = table.add("orders", {0: [1, 2], 1: [2, 3]})
    >>> table.put(table.row("orders", 1), LeaderAndIsr(2, 0, (2, 3), 1))
    >>> table.rows_with_replica(2).tolist(), table.rows_led_by(2).tolist()
    ([0, 1], [1])
    """

    def __init__(self, width: int = 3) -> None:
        assert width >= 1
        self._store: dict[str, NDArray[np.int32] | NDArray[np.bool_]] = {
            "topic": np.empty(0, dtype=np.int32),
            "partition": np.empty(0, dtype=np.int32),
            "replicas": np.empty((0, width), dtype=np.int32),
            **no_states(0, width)._asdict(),
        }
        self._used = 0
        self._free: list[int] = []
        self.topics: list[str] = []
        self._topic_ids: dict[str, int] = {}
        self._free_topic_ids: list[int] = []
        self._rows: dict[str, range | dict[int, int]] = {}
        self._adding: dict[int, tuple[int, ...]] = {}
        self._removing: dict[int, tuple[int, ...]] = {}
        self._strays: set[int] = set()
        self._index: BrokerIndex | None = None

    # Columns

    def _column(self, name: str) -> IntArray:
        view = self._store[name][: self._used].view()
        view.flags.writeable = False
        return view  # type: ignore[return-value]

    @property
    def topic(self) -> IntArray:
        """int32[n], index into `topics`; -1 in a free row."""
        return self._column("topic")

    @property
    def partition(self) -> IntArray:
        """int32[n], partition ids."""
        return self._column("partition")

    @property
    def replicas(self) -> IntArray:
        """int32[n, w], assigned replicas in preference order, padded."""
        return self._column("replicas")

    @property
    def isr(self) -> IntArray:
        """int32[n, w], in-sync replicas in the order of the znode, padded."""
        return self._column("isr")

    @property
    def leader(self) -> IntArray:
        """int32[n], -1 where there is none."""
        return self._column("leader")

    @property
    def leader_epoch(self) -> IntArray:
        """int32[n]."""
        return self._column("leader_epoch")

    @property
    def controller_epoch(self) -> IntArray:
        """int32[n], epoch of the controller that wrote the state last."""
        return self._column("controller_epoch")

    @property
    def version(self) -> IntArray:
        """int32[n], dataVersion of the state znode; -1 where there is no such znode."""
        return self._column("version")

    @property
    def recovering(self) -> BoolArray:
        """bool[n], whether the leader is recovering from an unclean election."""
        return self._column("recovering")  # type: ignore[return-value]

    @property
    def width(self) -> int:
        """Columns of the padded lists; it grows when a longer list comes."""
        return int(self._store["replicas"].shape[1])

    def __len__(self) -> int:
        """How many partitions there are (rows in use less free ones)."""
        return self._used - len(self._free)

    def nbytes(self) -> int:
        """Bytes of the columns in use, the index not counted."""
        return sum(self._column(name).nbytes for name in self._store)

    # Rows

    def __contains__(self, topic_partition: tuple[str, int]) -> bool:
        topic, partition = topic_partition
        rows = self._rows.get(topic, {})
        return 0 <= partition < len(rows) if isinstance(rows, range) else partition in rows

    def row(self, topic: str, partition: int) -> int:
        """The row of a partition.

        Raises:
            KeyError: there is no such partition.
        """
        if (topic, partition) not in self:
            raise KeyError((topic, partition))
        return self._rows[topic][partition]

    def name(self, row: int) -> tuple[str, int]:
        """Topic and partition id of a row."""
        topic = int(self._store["topic"][row])
        assert topic != _FREE, f"row {row} is free"
        return self.topics[topic], int(self._store["partition"][row])

    def rows(self) -> IntArray:
        """The rows of all partitions, ascending."""
        return np.flatnonzero(self.topic != _FREE).astype(np.int32)

    def rows_of(self, topic: str) -> IntArray:
        """The rows of a topic in the order of its partition ids; none where the topic is unknown."""
        rows = self._rows.get(topic, {})
        if isinstance(rows, range):
            return np.arange(rows.start, rows.stop, dtype=np.int32)
        return np.array([rows[partition] for partition in sorted(rows)], dtype=np.int32)

    def rows_with_replica(self, *brokers: int) -> IntArray:
        """The rows with a replica on at least one of the brokers, ascending. Costs what they hold."""
        index = self._broker_index()
        if len(brokers) == 1:
            return index.rows(brokers[0])
        return np.unique(np.concatenate([np.empty(0, dtype=np.int32), *map(index.rows, brokers)]))

    def rows_led_by(self, *brokers: int) -> IntArray:
        """The rows whose leader is one of the brokers, ascending. Costs what they hold."""
        held = self.rows_with_replica(*brokers)
        if self._strays:
            held = np.union1d(held, np.array(sorted(self._strays), dtype=np.int32))
        return held[np.isin(self.leader[held], brokers)]

    def rows_with_replica_in_isr(self, broker: int) -> IntArray:
        """The rows that have the broker in their ISR, ascending. Costs what it holds."""
        held = self.rows_with_replica(broker)
        if self._strays:
            held = np.union1d(held, np.array(sorted(self._strays), dtype=np.int32))
        return held[(self.isr[held] == broker).any(axis=1)]

    def reassigning(self) -> list[int]:
        """The rows under reassignment, ascending."""
        return sorted(self._adding.keys() | self._removing.keys())

    def _broker_index(self) -> BrokerIndex:
        if self._index is None:
            self._index = BrokerIndex(self.replicas)
        return self._index

    # Reading

    def states(self, rows: IntArray) -> States:
        """A copy of the states of some rows."""
        return States(*(self._store[name].take(rows, axis=0) for name in _STATE_COLUMNS))  # type: ignore[arg-type]

    def leader_and_isr(self, row: int) -> LeaderAndIsr | None:
        """The state of one partition, None where it has no state znode."""
        self._assert_in_use(row)
        if self._store["version"][row] < 0:
            return None
        return States(*(self._store[name] for name in _STATE_COLUMNS)).one(row)  # type: ignore[arg-type]

    def replicas_of(self, row: int) -> tuple[int, ...]:
        """The assigned replicas of one partition in preference order."""
        ids = self._store["replicas"][row]
        return tuple(ids[ids != NONE].tolist())

    def adding_of(self, row: int) -> tuple[int, ...]:
        """The replicas that a reassignment of the partition adds."""
        return self._adding.get(row, ())

    def removing_of(self, row: int) -> tuple[int, ...]:
        """The replicas that a reassignment of the partition removes."""
        return self._removing.get(row, ())

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Topic and partition id of each partition, topics in the order added, ids ascending."""
        for topic in self._rows:
            for row in self.rows_of(topic).tolist():
                yield self.name(row)

    # Changing

    @classmethod
    def from_columns(
        cls,
        topics: Sequence[str],
        topic: IntArray,
        partition: IntArray,
        replicas: IntArray,
        states: States | None = None,
    ) -> PartitionTable:
        """A table of whole columns, without a step per partition.

        Args:
            topics: names.
            topic: int32[n], index into `topics` of each row's topic.
            partition: int32[n].
            replicas: int32[n, w], padded.
            states: n states; None where no partition has a state znode yet.

        Raises:
            LayoutError: as in `extend`.
        """
        table = cls(replicas.shape[1])
        table.extend(topics, topic, partition, replicas, states)
        return table

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
        if states is None:
            states = no_states(count, self.width)
        assert len(partition) == len(replicas) == count and all(len(column) == count for column in states)
        starts = _validated_groups(topics, topic, partition, replicas)
        for group in starts:
            name = topics[int(topic[group[0]])]
            known = self._rows.get(name)
            if known:
                repeated = next((p for p in partition[group].tolist() if (name, p) in self), None)
                if repeated is not None:
                    raise LayoutError(f"partition {repeated} of topic {name!r} is there already")
        rows = self._take_rows(count)
        self._grow_width(max(replicas.shape[1], states.isr.shape[1]))
        for group in starts:
            self._enlist(topics[int(topic[group[0]])], partition[group], rows[group])
        ids = np.array([self._topic_ids.get(name, _FREE) for name in topics], dtype=np.int32)
        self._store["topic"][rows] = ids[topic]
        self._store["partition"][rows] = partition
        self._store["replicas"][rows] = widen(replicas, self.width)
        self._write_states(rows, states)
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
        _validate_replicas(new)
        if not (set(adding) | set(removing) <= set(replicas) and set(adding).isdisjoint(removing)):
            raise LayoutError(
                f"adding {list(adding)} and removing {list(removing)} do not fit replicas {list(replicas)}",
                right="distinct replicas of the partition",
            )
        self._grow_width(new.shape[1])
        rows = np.array([row], dtype=np.int32)
        if self._index is not None:
            self._index.discard(rows, self.replicas[rows])
            self._index.add(rows, new)
        self._store["replicas"][row] = widen(new, self.width)[0]
        for moving, ids in ((self._adding, adding), (self._removing, removing)):
            moving.pop(row, None)
            if ids:
                moving[row] = tuple(ids)
        self._note_strays(rows)

    def apply(self, rows: IntArray, states: States) -> States:
        """Write the states of some rows.

        Args:
            rows: int32[k], distinct.
            states: k states.

        Returns:
            the states that stood there before: applied in turn, they undo the change.
        """
        assert all(len(column) == len(rows) for column in states)
        before = self.states(rows)
        self._grow_width(states.isr.shape[1])
        self._write_states(rows, states)
        return before

    def put(self, row: int, state: LeaderAndIsr) -> None:
        """Write the state of one partition."""
        self._assert_in_use(row)
        self._grow_width(len(state.isr))
        self._write_states(np.array([row], dtype=np.int32), states_of([state], self.width))

    def remove(self, rows: Iterable[int]) -> None:
        """Take partitions out of the table; their rows are free, and a topic without partitions is forgotten.

        Args:
            rows: distinct rows in use.
        """
        gone = np.fromiter(rows, dtype=np.int32)
        assert len(np.unique(gone)) == len(gone) and (self.topic[gone] != _FREE).all(), "a row is free or given twice"
        if self._index is not None:
            self._index.discard(gone, self.replicas[gone])
        ids = self.topic[gone]
        for topic_id in dict.fromkeys(ids.tolist()):
            self._delist(self.topics[topic_id], self.partition[gone[ids == topic_id]])
        for moving in (self._adding, self._removing):
            for row in moving.keys() & set(gone.tolist()):
                del moving[row]
        self._store["topic"][gone] = _FREE
        self._store["partition"][gone] = -1
        self._store["replicas"][gone] = NONE
        self._write_states(gone, no_states(len(gone), self.width))
        self._free = sorted({*self._free, *gone.tolist()})

    # Inside

    def _assert_in_use(self, row: int) -> None:
        assert 0 <= row < self._used and self._store["topic"][row] != _FREE, f"row {row} is not in use"

    def _take_rows(self, count: int) -> IntArray:
        """Free rows if there are enough, else new ones at the end."""
        if 0 < count <= len(self._free):
            taken, self._free = self._free[:count], self._free[count:]
            return np.array(taken, dtype=np.int32)
        first = self._used
        if first + count > len(self._store["topic"]):
            capacity = max(first + count, 2 * first)
            for name, column in self._store.items():
                grown = np.empty((capacity, *column.shape[1:]), dtype=column.dtype)
                grown[:first] = column[:first]
                self._store[name] = grown
        self._used += count
        return np.arange(first, self._used, dtype=np.int32)

    def _grow_width(self, width: int) -> None:
        for name in ("replicas", "isr"):
            self._store[name] = widen(self._store[name], width)  # type: ignore[arg-type]

    def _enlist(self, topic: str, partitions: IntArray, rows: IntArray) -> None:
        if topic not in self._topic_ids:
            topic_id = self._free_topic_ids.pop() if self._free_topic_ids else len(self.topics)
            if topic_id == len(self.topics):
                self.topics.append(topic)
            self.topics[topic_id] = topic
            self._topic_ids[topic] = topic_id
        known = self._rows.get(topic, range(0))
        if isinstance(known, range):
            start = known.start if known else int(rows[0])
            ids = np.arange(len(known), len(known) + len(rows))
            if np.array_equal(partitions, ids) and np.array_equal(rows, ids + start):
                self._rows[topic] = range(start, start + len(known) + len(rows))
                return
            known = dict(enumerate(known))
        self._rows[topic] = known | dict(zip(partitions.tolist(), rows.tolist(), strict=True))

    def _delist(self, topic: str, partitions: IntArray) -> None:
        known = self._rows[topic]
        left = dict(enumerate(known)) if isinstance(known, range) else known
        for partition in partitions.tolist():
            del left[partition]
        if left:
            self._rows[topic] = left
            return
        del self._rows[topic]
        topic_id = self._topic_ids.pop(topic)
        self.topics[topic_id] = ""
        self._free_topic_ids.append(topic_id)

    def _write_states(self, rows: IntArray, states: States) -> None:
        for name, column in zip(_STATE_COLUMNS, states, strict=True):
            self._store[name][rows] = widen(column, self.width) if column.ndim == 2 else column
        self._note_strays(rows)

    def _note_strays(self, rows: IntArray) -> None:
        strays = rows[_is_stray(self.replicas[rows], self.isr[rows], self.leader[rows])]
        if self._strays:
            self._strays.difference_update(rows.tolist())
        self._strays.update(strays.tolist())

    def check(self) -> None:
        """Assert every invariant of the table."""
        in_use = self.topic != _FREE
        assert sorted(self._free) == self._free == np.flatnonzero(~in_use).tolist()
        assert {self.topics[topic_id] for topic_id in np.unique(self.topic[in_use])} == set(self._rows)
        assert {name: self.topics[topic_id] for name, topic_id in self._topic_ids.items()} == {n: n for n in self._rows}
        assert sorted([*self._topic_ids.values(), *self._free_topic_ids]) == list(range(len(self.topics)))
        listed = [(topic, p, r) for topic in self._rows for p, r in self._pairs(topic)]
        assert sorted(row for _, _, row in listed) == self.rows().tolist()
        assert all(self.name(row) == (topic, partition) for topic, partition, row in listed)
        assert is_padded(self.replicas) and is_padded(self.isr)
        assert first_duplicate(self.replicas) is None and first_duplicate(self.isr) is None
        assert (self.replicas[in_use, 0] != NONE).all() and (self.partition[in_use] >= 0).all()
        assert (self.replicas[~in_use] == NONE).all() and (self.version[~in_use] == -1).all()
        bare = self.version < 0
        assert (self.leader[bare] == NONE).all() and (self.isr[bare] == NONE).all() and not self.recovering[bare].any()
        assert (self.leader >= NONE).all() and (self.leader_epoch >= 0).all()
        leads = self.leader != NONE
        assert contained(self.leader[leads, None], self.isr[leads]).all(), "a leader is not in its ISR"
        strays = np.flatnonzero(_is_stray(self.replicas, self.isr, self.leader)).tolist()
        assert sorted(self._strays) == strays
        for row in self.reassigning():
            assert in_use[row] and self.adding_of(row) + self.removing_of(row)
            assert {*self.adding_of(row), *self.removing_of(row)} <= set(self.replicas_of(row))
        if self._index is not None:
            rebuilt = BrokerIndex(self.replicas)
            assert self._index.brokers() == rebuilt.brokers()
            for broker in rebuilt.brokers():
                assert self._index.rows(broker).tolist() == rebuilt.rows(broker).tolist()

    def _pairs(self, topic: str) -> list[tuple[int, int]]:
        rows = self._rows[topic]
        return list(enumerate(rows)) if isinstance(rows, range) else list(rows.items())


def _is_stray(replicas: IntArray, isr: IntArray, leader: IntArray) -> BoolArray:
    """Which rows have an ISR member or a leader that is not among the replicas."""
    stray: BoolArray = ((isr != NONE) & ~contained(isr, replicas)).any(axis=1)
    return stray | ((leader != NONE) & ~contained(leader[:, None], replicas)[:, 0])


def _validate_replicas(replicas: IntArray) -> None:
    if not is_padded(replicas) or (replicas > MAX_BROKER_ID).any():
        raise LayoutError("a replica is no broker id", right=f"ids from 0 to {MAX_BROKER_ID}")
    if (replicas[:, 0] == NONE).any():
        raise LayoutError("a partition has no replicas", right="at least one")
    row = first_duplicate(replicas)
    if row is not None:
        raise LayoutError(f"replicas {replicas[row][replicas[row] != NONE].tolist()} name a broker twice")


def _validated_groups(
    topics: Sequence[str], topic: IntArray, partition: IntArray, replicas: IntArray
) -> list[NDArray[np.intp]]:
    """For each topic given, the positions of its partitions, by partition id where they are in order already."""
    _validate_replicas(replicas)
    if len(set(topics)) != len(topics):
        raise LayoutError("a topic is named twice")
    if len(partition) and partition.min() < 0:
        raise LayoutError(f"partition id {partition.min()} cannot be", right="0 or more")
    order = np.lexsort((partition, topic))
    by_topic, by_partition = topic[order], partition[order]
    same = (by_topic[1:] == by_topic[:-1]) & (by_partition[1:] == by_partition[:-1])
    if same.any():
        twice = int(np.argmax(same))
        raise LayoutError(f"partition {by_partition[twice]} of topic {topics[by_topic[twice]]!r} is given twice")
    return np.split(order, np.flatnonzero(np.diff(by_topic)) + 1) if len(order) else []
