"""The partition table: all partitions of a cluster as columns, with their assignments and the states of their znodes.

Rules of the module:

1. A partition is a row. The row stays until the partition is removed; rows of removed partitions are reused. A free row
   has topic -1 and empty lists.
2. Only `add`, `extend`, `set_assignment`, `assign`, `apply`, `put_all`, `put` and `remove` change a table.
3. Replicas and state of a row are one record of 32-bit words (`RowRecords`): the rows of one broker are scattered over
   the table, and a record costs one or two cache lines where seven columns would cost seven.
4. The index from broker to rows (`BrokerIndex`) is built on first use and updated from then on. A broker's rows are one
   ascending array; a few changes are kept beside it and merged on the next read, many changes are merged at once.
5. ISR members and the leader are usually assigned replicas, and a state usually has a leader. The few rows that break
   this (`OddRows`: a tree edited by hand, a legacy reassignment, no leader) are kept in sets, because the index does
   not find them. Replicas that reassignments add or remove are few as well.
6. A topic whose partitions 0, 1, ... are in consecutive rows is stored as one range, any other topic as a dictionary
   (`TopicRows`). The number of a removed topic is reused.
7. Names of rows (`Partitions`) are looked up when they are read, at the latest before their rows are reused.
8. Rows may be given in any order. Random access to a million rows costs up to 2.5 times the ascending one, which is
   less than sorting them, so nothing is sorted here.
9. Columns have spare rows, so that adding rows seldom copies. Callers get read-only views, valid until the next change.
10. Invalid input raises `LayoutError` and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import (
    MAX_BROKER_ID,
    NONE,
    BoolArray,
    IntArray,
    among,
    any_of,
    contained,
    is_padded,
    lots,
    pack,
    sorted_distinct,
    unpack,
    widen,
    with_duplicates,
)
from simzk.partitions.reassignment import Assignment
from simzk.partitions.states import LeaderAndIsr, States, no_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.arrays import Column


def validate_replicas(replicas: IntArray) -> None:
    """Raise an error if lists of replicas are invalid.

    Args:
        replicas: int32[k, w].

    Raises:
        LayoutError: a list is empty or not padded, an id is out of range, or a broker is repeated.
    """
    if not is_padded(replicas) or replicas.max(initial=NONE) > MAX_BROKER_ID:
        raise LayoutError("invalid broker id in replicas", right=f"ids from 0 to {MAX_BROKER_ID}")
    if (replicas[:, 0] == NONE).any():
        raise LayoutError("a partition has no replicas", right="at least one replica")
    twice = with_duplicates(replicas)
    if twice.any():
        repeated = unpack(replicas[twice][:1])[0]
        raise LayoutError(f"replicas {list(repeated)} repeat a broker", right="distinct brokers")


def validate_moves(replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int]) -> None:
    """Raise an error if `adding` or `removing` names other brokers than replicas, or both name the same broker.

    Raises:
        LayoutError: the lists do not fit.
    """
    if not (set(adding) | set(removing) <= set(replicas) and set(adding).isdisjoint(removing)):
        raise LayoutError(
            f"adding {list(adding)} and removing {list(removing)} do not fit replicas {list(replicas)}",
            right="distinct replicas of the partition",
        )


def in_topic_order(topics: Sequence[str], topic: IntArray, partition: IntArray) -> NDArray[np.intp]:
    """Return the positions of partitions in the order of topic, then partition id.

    Args:
        topics: names.
        topic: int32[k], index into `topics`.
        partition: int32[k], ids.

    Raises:
        LayoutError: a topic or partition is repeated, or an id is negative.
    """
    if len(set(topics)) != len(topics):
        raise LayoutError("a topic is repeated")
    if partition.min(initial=0) < 0:
        raise LayoutError(f"partition id {partition.min()} is negative", right="0 or more")
    assert topic.size == 0 or (topic.min() >= 0 and topic.max() < len(topics)), "topic is an index into topics"
    key = topic.astype(np.int64) << 32 | partition
    if (key[1:] > key[:-1]).all():
        return np.arange(len(key))
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    if twice.size:
        row = order[twice[0]]
        raise LayoutError(f"partition {partition[row]} of topic {topics[topic[row]]!r} is repeated")
    return order


class Partitions:
    """Names of k partitions, as columns or as rows of a table.

    Args:
        topics: names; the list may grow at its end but does not change otherwise.
        topic: int32[k], index into `topics`.
        partition: int32[k], ids.

    >>> import numpy as np
    >>> Partitions(["a", "b"], np.array([1, 0]), np.array([7, 2])).names()
    [('b', 7), ('a', 2)]
    """

    __slots__ = ("__weakref__", "_columns", "_rows", "_source")

    def __init__(self, topics: Sequence[str], topic: IntArray, partition: IntArray) -> None:
        assert topic.shape == partition.shape
        self._columns: tuple[Sequence[str], IntArray, IntArray] | None = (topics, topic, partition)
        self._source: PartitionTable | None = None
        self._rows: IntArray = topic[:0]

    @classmethod
    def in_rows(cls, source: PartitionTable, rows: IntArray) -> Partitions:
        """Return the partitions in `rows`, int32[k], of a table that calls `resolve` before it reuses a row."""
        made = cls.__new__(cls)
        made._columns, made._source, made._rows = None, source, rows
        return made

    @property
    def place(self) -> tuple[PartitionTable, IntArray] | None:
        """The source and the rows, int32[k], until `resolve` is called."""
        return None if self._source is None else (self._source, self._rows)

    def resolve(self) -> None:
        """Look up the names: the rows are about to be reused."""
        self._columns = self.columns
        self._source, self._rows = None, self._rows[:0]

    @property
    def columns(self) -> tuple[Sequence[str], IntArray, IntArray]:
        """`topics`, `topic` and `partition`."""
        if self._columns is None:
            assert self._source is not None
            self._columns = self._source.name_columns(self._rows)
        return self._columns

    @property
    def topics(self) -> Sequence[str]:
        """Names; the list may grow at its end but does not change otherwise."""
        return self.columns[0]

    @property
    def topic(self) -> IntArray:
        """int32[k], index into `topics`."""
        return self.columns[1]

    @property
    def partition(self) -> IntArray:
        """int32[k], ids."""
        return self.columns[2]

    @property
    def size(self) -> int:
        """The number of partitions."""
        return len(self._rows if self._source is not None else self.topic)

    def name(self, place: int) -> tuple[str, int]:
        """Return topic and partition id at one place."""
        topics, topic, partition = self.columns
        return topics[int(topic[place])], int(partition[place])

    def names(self) -> list[tuple[str, int]]:
        """Return topic and partition id of each."""
        topics, topic, partition = self.columns
        return [(topics[t], p) for t, p in zip(topic.tolist(), partition.tolist(), strict=True)]

    def at(self, places: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Partitions:
        """Return the partitions at some places."""
        if self._source is not None:
            return self._source.partitions(self._rows[places])
        topics, topic, partition = self.columns
        return Partitions(topics, topic[places], partition[places])


FREE_TOPIC = -1
"""The topic number of a row without a partition."""
_SCATTERED = -2
_EMPTY_RANGE = range(0)


class TopicRows:
    """Topics by number, and rows by topic and partition id.

    Attributes:
        topics: names by number in the `topic` column; "" where a number is free.
        changes: the number of times that partitions were added or removed; names are the same until it grows.

    >>> topic_rows = TopicRows()
    >>> topic_rows._add_rows(["orders"], np.array([0, 0]), np.array([0, 1]), np.array([7, 8]))
    >>> topic_rows.find("orders", 1), topic_rows.topics
    (8, ['orders'])
    """

    def __init__(self) -> None:
        self.topics: list[str] = []
        self._numbers: dict[str, int] = {}
        self._free_numbers: list[int] = []
        self._rows: dict[str, range | dict[int, int]] = {}
        self.changes: int = 0
        self._known: tuple[int, Sequence[str], IntArray, NDArray[np.uint32]] | None = None
        self._compared: tuple[Mapping[str, range | dict[int, int]], tuple[int, int], bool] | None = None

    def topics_as_they_came(self) -> Iterator[str]:
        """Iterate over the topics with a partition, in the order in which they were added."""
        return iter(self._rows)

    def __contains__(self, topic_partition: tuple[str, int]) -> bool:
        return self.find(*topic_partition) is not None

    def row(self, topic: str, partition: int) -> int:
        """Return the row of a partition.

        Raises:
            KeyError: the partition is unknown.
        """
        row = self.find(topic, partition)
        if row is None:
            raise KeyError((topic, partition))
        return row

    def find(self, topic: str, partition: int) -> int | None:
        """Return the row of a partition, None if it is unknown."""
        rows = self._rows.get(topic)
        if isinstance(rows, range):
            return rows[partition] if 0 <= partition < len(rows) else None
        return None if rows is None else rows.get(partition)

    def _has_same_rows(self, other: TopicRows) -> bool:
        """Return whether every partition has the same row in `other`."""
        changes, known = (self.changes, other.changes), self._compared
        if known is None or known[0] is not other._rows or known[1] != changes:
            known = self._compared = other._rows, changes, self._rows == other._rows
        return known[2]

    def find_all(self, partitions: Partitions) -> IntArray:
        """Return the rows of k partitions, int32[k], -1 for unknown partitions."""
        if not partitions.size:
            return np.empty(0, dtype=np.int32)
        first, length = self._ranges_of(partitions.topics)
        begins, partition = first.take(partitions.topic), partitions.partition.astype(np.int32, copy=False)
        found: IntArray = begins + partition
        # As an unsigned number a negative id is beyond every length.
        outside = partition.view(np.uint32) >= length.take(partitions.topic)
        if outside.any():
            found[outside] = -1
            for place in np.flatnonzero(outside & (begins == _SCATTERED)).tolist():
                row = self.find(*partitions.name(place))
                found[place] = -1 if row is None else row
        return found

    def _ranges_of(self, topics: Sequence[str]) -> tuple[IntArray, NDArray[np.uint32]]:
        """Return first rows, int32[t], and lengths, uint32[t], of topics; length 0 if unknown or not one range."""
        known = self._known
        if known is None or known[0] != self.changes or known[1] is not topics or len(known[2]) != len(topics):
            ranges = [self._rows.get(name, _EMPTY_RANGE) for name in topics]
            first = [rows.start if isinstance(rows, range) else _SCATTERED for rows in ranges]
            length = [len(rows) if isinstance(rows, range) else 0 for rows in ranges]
            numbers = np.array(first, dtype=np.int32), np.array(length, dtype=np.uint32)
            known = self._known = self.changes, topics, *numbers
        return known[2], known[3]

    def rows_of(self, topic: str) -> IntArray:
        """Return the rows of a topic by partition id, int32[k]; empty if the topic is unknown."""
        rows = self._rows.get(topic, {})
        if isinstance(rows, range):
            return np.arange(rows.start, rows.stop, dtype=np.int32)
        return np.array([rows[partition] for partition in sorted(rows)], dtype=np.int32)

    def run_of(self, topic: str) -> range | None:
        """Return the rows of a topic whose partitions 0, 1, ... are in consecutive rows, None for any other topic."""
        rows = self._rows.get(topic)
        return rows if isinstance(rows, range) else None

    def _pairs(self, topic: str) -> list[tuple[int, int]]:
        """Return partition id and row of the partitions of a topic."""
        rows = self._rows.get(topic, {})
        return list(enumerate(rows)) if isinstance(rows, range) else list(rows.items())

    def topic_number(self, topic: str) -> int:
        """Return the number of a topic in the `topic` column, -1 if the topic has no partition."""
        return self._numbers.get(topic, FREE_TOPIC)

    def _add_rows(self, topics: Sequence[str], topic: IntArray, partition: IntArray, rows: IntArray) -> None:
        """Add new partitions of new or known topics.

        Args:
            topics: names.
            topic: int32[k], index into `topics`, ascending.
            partition: int32[k], ids, ascending in each topic.
            rows: int32[k], the row of each partition.
        """
        assert len(topic) == len(partition) == len(rows)
        assert (topic[1:] >= topic[:-1]).all(), "topics ascend"
        if len(topic) == 0:
            return
        self.changes += 1
        starts = np.concatenate([[0], np.flatnonzero(np.diff(topic)) + 1])
        ends = np.append(starts[1:], len(topic))
        lengths = ends - starts
        # Partitions 0, 1, ... are in consecutive rows exactly if ids and rows grow along with the position.
        run = np.arange(len(topic))
        odd_ids = partition != run - np.repeat(starts, lengths)
        odd_rows = rows - run != np.repeat(rows[starts] - starts, lengths)
        regular = ~np.logical_or.reduceat(odd_ids | odd_rows, starts)
        first_rows = rows[starts].tolist()
        for group, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            name = topics[int(topic[start])]
            if regular[group] and name not in self._rows:
                self._add_topic(name, range(first_rows[group], first_rows[group] + end - start))
            else:
                self._add_to_topic(name, partition[start:end].tolist(), rows[start:end].tolist())

    def _add_topic(self, topic: str, rows: range | dict[int, int]) -> None:
        assert topic not in self._rows
        number = self._free_numbers.pop() if self._free_numbers else len(self.topics)
        if number == len(self.topics):
            self.topics.append(topic)
        else:
            self.topics = [*self.topics[:number], topic, *self.topics[number + 1 :]]
        self._numbers[topic] = number
        self._rows[topic] = rows

    def _add_to_topic(self, topic: str, partitions: Sequence[int], rows: Sequence[int]) -> None:
        if topic not in self._rows:
            self._add_topic(topic, {})
        known = self._rows[topic]
        if isinstance(known, range) and known:
            more = range(known.stop, known.stop + len(rows))
            if list(rows) == list(more) and list(partitions) == [row - known.start for row in more]:
                self._rows[topic] = range(known.start, more.stop)
                return
        self._rows[topic] = dict(self._pairs(topic)) | dict(zip(partitions, rows, strict=True))
        assert len(self._rows[topic]) == len(known) + len(rows), f"a partition of topic {topic!r} exists already"

    def _remove_partitions(self, topic: str, partitions: Sequence[int]) -> None:
        """Remove partitions, and the topic with its last partition."""
        self.changes += 1
        left = dict(self._pairs(topic))
        for partition in partitions:
            del left[partition]
        if left:
            self._rows[topic] = left
            return
        del self._rows[topic]
        number = self._numbers.pop(topic)
        assert self.topics[number] == topic
        self.topics = [*self.topics[:number], "", *self.topics[number + 1 :]]
        self._free_numbers.append(number)

    def _check_topics(self, topic: IntArray, partition: IntArray) -> None:
        """Assert every invariant, given the columns `topic` and `partition` of the table, int32[n] each."""
        assert self._numbers.keys() == self._rows.keys()
        assert all(self.topics[number] == name for name, number in self._numbers.items())
        assert sorted([*self._numbers.values(), *self._free_numbers]) == list(range(len(self.topics)))
        assert all(self._rows.values()), "a topic without partitions is forgotten"
        listed = [(row, self._numbers[name], p) for name in self._rows for p, row in self._pairs(name)]
        rows = np.flatnonzero(topic != FREE_TOPIC)
        expected = zip(rows.tolist(), topic[rows].tolist(), partition[rows].tolist(), strict=True)
        assert sorted(listed) == list(expected)


def packed_of(records: IntArray) -> NDArray[np.void]:
    """View records, int32[n, words], as blocks of memory, void[n], which numpy moves whole."""
    return records.view(np.dtype((np.void, 4 * records.shape[1])))[:, 0]


def columns_at(records: IntArray, rows: NDArray[np.integer]) -> IntArray:
    """Copy the records of some rows, int32[k], as one line per word: int32[words, k]."""
    assert rows.min(initial=0) >= 0, "numpy would read a negative row from the end"
    columns, packed = np.empty((records.shape[1], len(rows)), dtype=np.int32), packed_of(records)
    for some in lots(len(rows)):
        columns[:, some] = packed.take(rows[some]).view(np.int32).reshape(-1, len(columns)).T
    return columns


_LEADER, _LEADER_EPOCH, _CONTROLLER_EPOCH, _VERSION, _RECOVERING, _LISTS = range(6)


class RowRecords:
    """Replicas and states of rows, one record of 32-bit words a row.

    A record takes 44 bytes at replication factor 3. Reading many rows returns contiguous columns, lists place by place,
    because the rules work column by column.

    Args:
        width: the maximum length of a list.

    >>> records = RowRecords(2)
    >>> records.reserve(3)
    >>> records.put_state(1, LeaderAndIsr(7, 0, (7,), 1))
    >>> records.state(1), records.replicas[1].tolist()
    (LeaderAndIsr(leader=7, leader_epoch=0, isr=(7,), controller_epoch=1, version=0, recovering=False), [-1, -1])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._words: IntArray = np.empty((0, _LISTS + 2 * width), dtype=np.int32)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return 4 * (_LISTS + 2 * self.width)

    def column(self, word: int) -> IntArray:
        """Return a word of all rows: int32[n], a view."""
        return self._words[:, word]

    @property
    def isr(self) -> IntArray:
        """int32[n, w], a view."""
        return self._words[:, _LISTS : _LISTS + self.width]

    @property
    def replicas(self) -> IntArray:
        """int32[n, w], a view."""
        return self._words[:, _LISTS + self.width :]

    def reserve(self, rows: int) -> None:
        """Extend to at least `rows` rows; new rows have empty lists and no state."""
        present = len(self._words)
        if rows > present:
            words = np.empty((rows, self._words.shape[1]), dtype=np.int32)
            words[:present] = self._words
            words[present:] = _blank(self.width)
            self._words = words

    def widen(self, width: int) -> None:
        """Extend to lists of up to `width` ids."""
        if width > self.width:
            isr, replicas = widen(self.isr, width), widen(self.replicas, width)
            self._words = np.concatenate([self._words[:, :_LISTS], isr, replicas], axis=1)
            self.width = width

    def clear(self, rows: NDArray[np.integer]) -> None:
        """Reset some rows to empty lists and no state."""
        self._words[rows] = _blank(self.width)

    def fill(self, rows: NDArray[np.integer], replicas: IntArray, states: States) -> None:
        """Write the replicas, int32[k, v], and states of distinct rows, int[k]; the lists must fit the width."""
        assert len(rows) == len(replicas) == len(states.leader)
        assert replicas.shape[1] <= self.width
        packed, replicas, isr = packed_of(self._words), widen(replicas, self.width), widen(states.isr, self.width)
        for some in lots(len(rows)):
            words = np.empty((len(rows[some]), self._words.shape[1]), dtype=np.int32, order="F")
            self._put_states(words, states, isr, some)
            words[:, _LISTS + self.width :] = replicas[some]
            packed.put(rows[some], packed_of(np.ascontiguousarray(words)))

    def read(self, rows: NDArray[np.integer]) -> tuple[IntArray, States]:
        """Copy replicas, int32[k, w], and k states of some rows, int[k]."""
        columns = columns_at(self._words, rows)
        return columns[_LISTS + self.width :].T, self._states(columns)

    def replicas_at(self, rows: NDArray[np.integer]) -> IntArray:
        """Copy only the replicas of some rows: word by word, at a third of the cost of `read`."""
        assert rows.min(initial=0) >= 0, "numpy would read a negative row from the end"
        words, ids = self._words.ravel(), np.empty((self.width, len(rows)), dtype=np.int32)
        for some in lots(len(rows)):
            at = rows[some] * np.intp(self._words.shape[1])
            for place in range(self.width):
                ids[place, some] = words.take(at + (_LISTS + self.width + place))
        return ids.T

    def replace(self, rows: NDArray[np.integer], states: States) -> tuple[IntArray, States]:
        """Write the states of distinct rows, int[k]; return what `read` returned before. ISRs must fit the width."""
        before = np.empty((len(rows), self._words.shape[1]), dtype=np.int32)
        for some, words in self._written_over(rows, states):
            before[some] = words  # row by row: most callers read few of the rows
        return before[:, _LISTS + self.width :], self._states(before.T)

    def put_states(self, rows: NDArray[np.integer], states: States) -> IntArray:
        """Write k states as `replace`; return a copy of the replicas of the rows, int32[k, w]."""
        ids = np.empty((self.width, len(rows)), dtype=np.int32)
        for some, words in self._written_over(rows, states):
            ids[:, some] = words[:, _LISTS + self.width :].T
        return ids.T

    def _written_over(self, rows: NDArray[np.integer], states: States) -> Iterator[tuple[slice, IntArray]]:
        """Write states in chunks; yield each chunk of `rows` and its old words, valid until the next chunk."""
        assert len(rows) == len(states.leader)
        assert rows.min(initial=0) >= 0, "numpy would write a negative row at the end"
        assert states.isr.shape[1] <= self.width
        packed, isr = packed_of(self._words), widen(states.isr, self.width)
        for some in lots(len(rows)):
            # Read and written while the records are in the processor cache.
            words = packed.take(rows[some]).view(np.int32).reshape(-1, self._words.shape[1])
            yield some, words
            self._put_states(words, states, isr, some)
            packed.put(rows[some], packed_of(words))

    def _put_states(self, words: IntArray, states: States, isr: IntArray, some: slice) -> None:
        """Write some of the states, with their ISRs of the full width, into the words of their rows."""
        words[:, _LEADER], words[:, _LEADER_EPOCH] = states.leader[some], states.leader_epoch[some]
        words[:, _CONTROLLER_EPOCH], words[:, _VERSION] = states.controller_epoch[some], states.version[some]
        words[:, _RECOVERING] = states.recovering[some]
        words[:, _LISTS : _LISTS + self.width] = isr[some]

    def state(self, row: int) -> LeaderAndIsr:
        """Return the state of one row."""
        words: list[int] = self._words[row].tolist()
        leader, leader_epoch, controller_epoch, version, recovering, *lists = words
        isr = tuple([member for member in lists[: self.width] if member != NONE])
        return LeaderAndIsr(leader, leader_epoch, isr, controller_epoch, version, bool(recovering))

    def put_state(self, row: int, state: LeaderAndIsr) -> None:
        """Write the state of one row; its ISR must fit the width."""
        padding = (NONE,) * (self.width - len(state.isr))
        single = state.leader, state.leader_epoch, state.controller_epoch, state.version, int(state.recovering)
        self._words[row, : _LISTS + self.width] = (*single, *state.isr, *padding)

    def _states(self, columns: IntArray) -> States:
        return States(
            leader=columns[_LEADER],
            leader_epoch=columns[_LEADER_EPOCH],
            isr=columns[_LISTS : _LISTS + self.width].T,
            controller_epoch=columns[_CONTROLLER_EPOCH],
            version=columns[_VERSION],
            recovering=columns[_RECOVERING] != 0,
        )


def _blank(width: int) -> IntArray:
    """Return the words of a row without replicas and state."""
    words = np.full(_LISTS + 2 * width, NONE, dtype=np.int32)
    words[[_LEADER_EPOCH, _CONTROLLER_EPOCH, _RECOVERING]] = 0
    return words


class OddRows:
    """Rows that the index does not find by their replicas: strays and leaderless rows.

    A *stray* has a leader or an ISR member that is not an assigned replica; a *leaderless* row has a state without a
    leader.
    """

    def __init__(self) -> None:
        self.strays: set[int] = set()
        self.leaderless: set[int] = set()

    def note(self, row: int, replicas: IntArray, state: LeaderAndIsr) -> None:
        """Classify one row after a change; costs a tenth of `note_all`."""
        mentioned = {state.leader, *state.isr}
        is_stray = not mentioned <= {NONE, *replicas.tolist()}
        is_leaderless = state.leader == NONE and state.version >= 0
        for members, belongs in ((self.strays, is_stray), (self.leaderless, is_leaderless)):
            (members.add if belongs else members.discard)(row)

    def note_all(self, rows: IntArray, replicas: IntArray, states: States) -> None:
        """Classify k rows after a change, from their replicas, int32[k, w], and states."""
        assert len(rows) == len(replicas) == len(states.leader)
        self.forget(rows)
        for some in lots(len(rows)):
            leader = states.leader[some]
            stray = _is_stray(replicas[some], states.isr[some], leader)
            self.strays.update(rows[some][stray].tolist())
            leaderless = (leader == NONE) & (states.version[some] >= 0)
            self.leaderless.update(rows[some][leaderless].tolist())

    def forget(self, rows: IntArray) -> None:
        """Remove rows that no longer hold a partition."""
        for members in (self.strays, self.leaderless):
            if members:
                members.difference_update(rows.tolist())

    def rows(self) -> IntArray:
        """Return all of them; a row may occur twice."""
        return np.array([*self.strays, *self.leaderless], dtype=np.int32)

    def check(self, replicas: IntArray, isr: IntArray, leader: IntArray, version: IntArray) -> None:
        """Assert that the sets match the columns of the table."""
        assert sorted(self.strays) == np.flatnonzero(_is_stray(replicas, isr, leader)).tolist()
        assert sorted(self.leaderless) == np.flatnonzero((leader == NONE) & (version >= 0)).tolist()


def _is_stray(replicas: IntArray, isr: IntArray, leader: IntArray) -> BoolArray:
    """Return which rows have a leader, int32[k], or an ISR member, int32[k, v], that is no replica; bool[k]."""
    stray = any_of((isr != NONE) & ~contained(isr, replicas))
    stray |= (leader != NONE) & ~contained(leader[:, None], replicas)[:, 0]
    return stray


class RowColumns:
    """Topic number, partition id, replicas and state of each row.

    Args:
        width: the initial length of the lists of replicas and ISR; it grows with the longest list.
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
        """int32[n], -1 for none."""
        return self._seen(self._records.column(_LEADER))

    @property
    def leader_epoch(self) -> IntArray:
        """int32[n]."""
        return self._seen(self._records.column(_LEADER_EPOCH))

    @property
    def controller_epoch(self) -> IntArray:
        """int32[n], epoch of the controller that last wrote the state."""
        return self._seen(self._records.column(_CONTROLLER_EPOCH))

    @property
    def version(self) -> IntArray:
        """int32[n], dataVersion of the state znode; -1 if the znode does not exist."""
        return self._seen(self._records.column(_VERSION))

    @property
    def recovering(self) -> BoolArray:
        """bool[n], whether the leader is recovering from an unclean election; a copy."""
        return self._seen(self._records.column(_RECOVERING) != 0)

    @property
    def width(self) -> int:
        """Columns of the padded lists; it grows with the longest list."""
        return self._records.width

    def _take_rows(self, count: int) -> IntArray:
        """Return free rows if there are enough, else new rows at the end; int32[count]."""
        if 0 < count <= len(self._free):
            taken, self._free = self._free[:count], self._free[count:]
            assert (self._topic[taken] == FREE_TOPIC).all(), "a row in use is listed as free"
            return np.array(taken, dtype=np.int32)
        first, self._used = self._used, self._used + count
        if self._used > len(self._topic):
            capacity = max(self._used, 2 * first)
            room = np.empty(capacity - first, dtype=np.int32)
            self._topic = np.concatenate([self._topic[:first], room])
            self._partition = np.concatenate([self._partition[:first], room])
            self._records.reserve(capacity)
        return np.arange(first, self._used, dtype=np.int32)


_MAX_PENDING = 64
_NO_ROWS: IntArray = np.empty(0, dtype=np.int32)


class BrokerIndex:
    """Rows by broker.

    Args:
        replicas: int32[n, w], the replicas of all rows, padded.

    >>> from simzk.partitions.arrays import pack
    >>> BrokerIndex(pack([[1, 2], [2, 3]])).rows(2).tolist()
    [0, 1]
    """

    def __init__(self, replicas: IntArray) -> None:
        self._rows_of = _grouped(np.arange(len(replicas), dtype=np.int32), replicas)
        self._pending: dict[int, dict[int, bool]] = {}

    def rows(self, broker: int) -> IntArray:
        """Return the rows with a replica on a broker, ascending; costs as many steps as there are rows."""
        pending = self._pending.pop(broker, None)
        if pending:
            added = np.array([row for row, holds in pending.items() if holds], dtype=np.int32)
            removed = np.array([row for row, holds in pending.items() if not holds], dtype=np.int32)
            self._merge(broker, added, removed)
        rows = self._rows_of.get(broker, _NO_ROWS)
        rows.flags.writeable = False
        return rows

    def brokers(self) -> list[int]:
        """Return the brokers with at least one row, ascending."""
        return [broker for broker in sorted(self._rows_of.keys() | self._pending.keys()) if self.rows(broker).size]

    def brokers_beyond(self, brokers: BoolArray) -> list[int]:
        """Return the brokers outside a mask, bool[m], that have or had a row; in any order."""
        size = len(brokers)
        return [b for b in self._rows_of.keys() | self._pending.keys() if b >= size or not brokers[b]]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of rows."""
        return sum(rows.nbytes for rows in self._rows_of.values())

    def check(self, replicas: IntArray) -> None:
        """Assert that the index matches the replicas, int32[n, w]."""
        rebuilt = BrokerIndex(replicas)
        assert self.brokers() == rebuilt.brokers()
        for broker in rebuilt.brokers():
            assert self.rows(broker).tolist() == rebuilt.rows(broker).tolist(), f"index of broker {broker}"

    def change(self, rows: IntArray, replicas: IntArray, *, holds: bool) -> None:
        """Add rows, int32[k], by the replicas, int32[k, w], that they hold now, or remove them by those before."""
        if len(rows) <= _MAX_PENDING:
            for row, ids in zip(rows.tolist(), unpack(replicas), strict=True):
                for broker in ids:
                    self._pending.setdefault(broker, {})[row] = holds
            return
        for broker, changed in _grouped(rows, replicas).items():
            self.rows(broker)
            self._merge(broker, *((changed, _NO_ROWS) if holds else (_NO_ROWS, changed)))

    def _merge(self, broker: int, added: IntArray, removed: IntArray) -> None:
        rows = self._rows_of.get(broker, _NO_ROWS)
        if removed.size:
            rows = rows[~np.isin(rows, removed)]
        if added.size:
            rows = sorted_distinct(np.concatenate([rows, added]))
        self._rows_of[broker] = rows


def _grouped(rows: IntArray, replicas: IntArray) -> dict[int, IntArray]:
    """Return, by broker, those of the rows, in order, that have a replica on it."""
    assert len(rows) == len(replicas)
    top = int(replicas.max(initial=NONE))
    # 16-bit keys are sorted by radix: linear, ten times faster at a million rows.
    keys = np.empty(replicas.shape, dtype=np.uint16 if top < 2**16 - 1 else np.int32)
    np.add(replicas, 1, out=keys, casting="unsafe")
    counts = np.bincount(keys.ravel(), minlength=1)
    # Arrays over millions of rows are large: few exist at a time, and `places` is divided in place.
    places = np.argsort(keys.ravel(), kind="stable")
    del keys
    places //= replicas.shape[1]
    owners = rows[places]
    ends = np.cumsum(counts)
    brokers = np.flatnonzero(counts[1:])
    return {broker: owners[ends[broker] : ends[broker + 1]] for broker in brokers.tolist()}


class PartitionTable(TopicRows, RowColumns):
    """The partitions of a cluster, as columns over rows.

    Attributes:
        assignments: the number of times that replicas changed or partitions were added or removed.

    >>> table = PartitionTable()
    >>> rows = table.add("orders", {0: [1, 2], 1: [2, 3]})
    >>> table.put(table.row("orders", 1), LeaderAndIsr(2, 0, (2, 3), 1))
    >>> table.rows_with_replica(2).tolist(), table.leader.tolist()
    ([0, 1], [-1, 2])
    """

    def __init__(self, width: int = 3) -> None:
        TopicRows.__init__(self)
        RowColumns.__init__(self, width)
        # By row under reassignment: the replicas to add, and those to remove.
        self._moving: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._odd = OddRows()
        self._index: BrokerIndex | None = None
        self._unresolved: WeakSet[Partitions] = WeakSet()
        self.assignments: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the columns and, if built, of the index; without the names of topics."""
        names = self.topic.nbytes + self.partition.nbytes
        return names + self._used * self._records.row_bytes + (self._index.nbytes if self._index else 0)

    def __len__(self) -> int:
        """Return the number of partitions."""
        return self._used - len(self._free)

    def find_all(self, partitions: Partitions) -> IntArray:
        """Return the rows of k partitions, -1 for unknown partitions; int32[k], not to be modified."""
        if partitions.place is not None:
            source, rows = partitions.place
            if source is self or self._has_same_rows(source):
                return rows
        return super().find_all(partitions)

    def partitions(self, rows: IntArray) -> Partitions:
        """Return the present names of some rows, int32[k], which must not be modified."""
        partitions = Partitions.in_rows(self, rows)
        self._unresolved.add(partitions)
        return partitions

    def name_columns(self, rows: IntArray) -> tuple[list[str], IntArray, IntArray]:
        """Return names of topics and, for k rows, the index into them and the partition id, int32[k] each."""
        self._assert_in_range(rows)
        return self.topics, self._topic.take(rows), self._partition.take(rows)

    def name(self, row: int) -> tuple[str, int]:
        """Return topic and partition id of a row."""
        self._assert_in_use(row)
        return self.topics[self._topic[row]], int(self._partition[row])

    def rows(self) -> IntArray:
        """Return the rows of all partitions, ascending; int32[k]."""
        return np.flatnonzero(self.topic != FREE_TOPIC).astype(np.int32)

    def rows_with_replica(self, *brokers: int) -> IntArray:
        """Return the rows with a replica on at least one of the brokers, ascending; cost: the rows of these brokers."""
        if self._index is None:
            self._index = BrokerIndex(self.replicas)
        by_broker = [self._index.rows(broker) for broker in brokers]
        return by_broker[0] if len(by_broker) == 1 else sorted_distinct(np.concatenate([_NO_ROWS, *by_broker]))

    def rows_not_led_by(self, brokers: BoolArray) -> IntArray:
        """Return the rows with a state that none of some brokers leads, ascending; cost: the rows of the other brokers.

        Args:
            brokers: bool[m], a mask over broker ids.
        """
        if self._index is None:
            return np.flatnonzero((self.version >= 0) & ~among(self.leader, brokers)).astype(np.int32)
        by_broker = [self._index.rows(broker) for broker in self._index.brokers_beyond(brokers)]
        odd = self._odd.rows()
        single = len(by_broker) == 1 and not len(odd)
        rows: IntArray = by_broker[0] if single else sorted_distinct(np.concatenate([odd, *by_broker]))
        leader, version = self.leader[rows], self.version[rows]
        return rows[(version >= 0) & ~among(leader, brokers)]

    def reassigning(self) -> list[int]:
        """Return the rows under reassignment, ascending."""
        return sorted(self._moving)

    def states(self, rows: IntArray) -> States:
        """Copy the states of some rows, int[k]."""
        return self._records.read(rows)[1]

    def replicas_at(self, rows: NDArray[np.integer]) -> IntArray:
        """Copy the replicas of some rows, int32[k, w]."""
        return self._records.replicas_at(rows)

    def replicas_and_states(self, rows: IntArray) -> tuple[IntArray, States]:
        """Copy the replicas, int32[k, w], and the states of some rows in one read."""
        return self._records.read(rows)

    def leader_and_isr(self, row: int) -> LeaderAndIsr | None:
        """Return the state of one partition, None if it has no state znode."""
        self._assert_in_use(row)
        state = self._records.state(row)
        return state if state.version >= 0 else None

    def replicas_of(self, row: int) -> tuple[int, ...]:
        """Return the assigned replicas of one partition in preference order."""
        ids = self._records.replicas[row]
        return tuple(ids[ids != NONE].tolist())

    def moves_of(self, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the replicas that a reassignment of the partition adds and those that it removes.

        >>> table = PartitionTable()
        >>> (row,) = table.add("orders", {0: [3, 1, 2]}).tolist()
        >>> table.set_assignment(row, [3, 1, 2], adding=[3], removing=[1, 2])
        >>> table.moves_of(row), table.reassigning()
        (((3,), (1, 2)), [0])
        """
        return self._moving.get(row, ((), ()))

    def _put_moves(self, row: int, adding: Sequence[int], removing: Sequence[int]) -> None:
        """Write both lists of a row; if both are empty, no reassignment is under way."""
        assert set(adding).isdisjoint(removing)
        self._moving.pop(row, None)
        if adding or removing:
            self._moving[row] = tuple(adding), tuple(removing)

    def add(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> IntArray:
        """Add partitions without a state znode to a new or known topic.

        Args:
            topic: its name.
            assignment: partition id to replicas in preference order.

        Returns:
            int32[k], their rows, in the order of `assignment`.

        Raises:
            LayoutError: a partition is known already, or its replicas are invalid.
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
        """Add many partitions at once.

        Args:
            topics: distinct names of new or known topics.
            topic: int32[k], index into `topics`.
            partition: int32[k], ids.
            replicas: int32[k, v], padded.
            states: k states; None if no partition has a state znode yet.

        Returns:
            int32[k], their rows.

        Raises:
            LayoutError: a partition is known or repeated, a replica is repeated or no broker id.
        """
        count = len(topic)
        states = no_states(count, self.width) if states is None else states
        assert all(len(column) == count for column in (partition, replicas, *states))
        validate_replicas(replicas)
        order = in_topic_order(topics, topic, partition)
        for name in topics:
            if self.topic_number(name) != FREE_TOPIC:
                for position in np.flatnonzero(topic == topics.index(name)).tolist():
                    if (name, int(partition[position])) in self:
                        raise LayoutError(f"partition {partition[position]} of topic {name!r} exists already")
        self.assignments += 1
        rows = self._take_rows(count)
        self._records.widen(max(replicas.shape[1], states.isr.shape[1]))
        self._add_rows(topics, topic[order], partition[order], rows[order])
        numbers = np.array([self.topic_number(name) for name in topics], dtype=np.int32)
        self._topic[rows] = numbers[topic]
        self._partition[rows] = partition
        self._records.fill(rows, replicas, states)
        self._odd.note_all(rows, replicas, states)
        if self._index is not None:
            self._index.change(rows, replicas, holds=True)
        return rows

    def set_assignment(
        self, row: int, replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()
    ) -> None:
        """Write the assignment of a partition, as in the topic znode.

        Args:
            row: of the partition.
            replicas: in preference order.
            adding: replicas that a reassignment adds.
            removing: replicas that a reassignment removes.

        Raises:
            LayoutError: a replica is repeated or no broker id, or adding and removing are not among the replicas.
        """
        self._assert_in_use(row)
        new = pack([replicas])
        validate_replicas(new)
        validate_moves(replicas, adding, removing)
        self.assignments += 1
        self._records.widen(new.shape[1])
        rows = np.array([row], dtype=np.int32)
        if self._index is not None:
            self._index.change(rows, self._records.replicas[rows], holds=False)
            self._index.change(rows, new, holds=True)
        self._records.replicas[row] = widen(new, self.width)[0]
        self._put_moves(row, adding, removing)
        self._odd.note(row, self._records.replicas[row], self._records.state(row))

    def assignment(self, rows: IntArray) -> Assignment:
        """Copy the assignments of some rows, int32[k]."""
        if not self._moving:
            none = np.full((len(rows), 1), NONE, dtype=np.int32)
            return Assignment(self.replicas_at(rows), none, none.copy())
        both = [self.moves_of(row) for row in rows.tolist()]
        return Assignment(
            self.replicas_at(rows), pack([adding for adding, _ in both]), pack([removing for _, removing in both])
        )

    def assign(self, rows: IntArray, assignment: Assignment) -> Assignment:
        """Write the assignments of some rows, as in the topic znodes.

        Args:
            rows: int32[k], distinct rows in use.
            assignment: of the k partitions.

        Returns:
            the assignments before; assigning them undoes the change.

        Raises:
            LayoutError: as in `set_assignment`.
        """
        replicas, adding, removing = assignment
        self._assert_in_range(rows)
        assert all(len(ids) == len(rows) for ids in assignment)
        assert (self.topic[rows] != FREE_TOPIC).all(), "a row is free"
        validate_replicas(replicas)
        moves = list(zip(unpack(replicas), unpack(adding), unpack(removing), strict=True))
        for move in moves:
            validate_moves(*move)
        before = self.assignment(rows)
        self.assignments += 1
        self._records.widen(replicas.shape[1])
        if self._index is not None:
            self._index.change(rows, before.replicas, holds=False)
            self._index.change(rows, replicas, holds=True)
        self._records.replicas[rows] = widen(replicas, self.width)
        for row, (_, *moving) in zip(rows.tolist(), moves, strict=True):
            self._put_moves(row, *moving)
        self._odd.note_all(rows, *self._records.read(rows))
        return before

    def apply(self, rows: IntArray, states: States) -> States:
        """Write the states of some rows.

        Args:
            rows: int32[k], distinct rows in use.
            states: k states.

        Returns:
            the states before; applying them undoes the change.
        """
        assert all(len(column) == len(rows) for column in states)
        self._assert_in_range(rows)
        self._records.widen(states.isr.shape[1])
        replicas, before = self._records.replace(rows, states)
        self._odd.note_all(rows, replicas, states)
        return before

    def put_all(self, rows: IntArray, states: States) -> None:
        """Write states as `apply`, without returning the states before; at two thirds of the cost."""
        assert all(len(column) == len(rows) for column in states)
        self._assert_in_range(rows)
        self._records.widen(states.isr.shape[1])
        self._odd.note_all(rows, self._records.put_states(rows, states), states)

    def put(self, row: int, state: LeaderAndIsr) -> None:
        """Write the state of one partition."""
        self._assert_in_use(row)
        self._records.widen(len(state.isr))
        self._records.put_state(row, state)
        self._odd.note(row, self._records.replicas[row], state)

    def remove(self, rows: Iterable[int]) -> tuple[Partitions, Assignment, States]:
        """Remove partitions: their rows become free, and a topic without partitions is removed.

        Args:
            rows: distinct rows in use.

        Returns:
            their names, assignments and states.
        """
        gone = np.fromiter(rows, dtype=np.int32)
        assert len(sorted_distinct(gone)) == len(gone), "a row is repeated"
        assert (self.topic[gone] != FREE_TOPIC).all(), "a row is free"
        if self._index is not None:
            self._index.change(gone, self._records.replicas[gone], holds=False)
        were = self.partitions(gone), self.assignment(gone), self.states(gone)
        self.assignments += 1
        for partitions in list(self._unresolved):
            partitions.resolve()
        self._unresolved.clear()
        numbers = self._topic[gone]
        for number in dict.fromkeys(numbers.tolist()):
            self._remove_partitions(self.topics[number], self._partition[gone[numbers == number]].tolist())
        for row in gone.tolist():
            self._put_moves(row, (), ())
        self._topic[gone] = FREE_TOPIC
        self._partition[gone] = -1
        self._records.clear(gone)
        self._odd.forget(gone)
        self._free = sorted([*self._free, *gone.tolist()])
        return were

    def _assert_in_use(self, row: int) -> None:
        assert 0 <= row < self._used, f"row {row} does not exist"
        assert self._topic[row] != FREE_TOPIC, f"row {row} is free"

    def _assert_in_range(self, rows: IntArray) -> None:
        """Assert that rows were added at some time: numpy would wrap a negative row, such as that of no partition."""
        assert rows.min(initial=0) >= 0, "a row is negative"
        assert rows.max(initial=-1) < self._used, "a row was never added"

    def check(self) -> None:
        """Assert every invariant of the table."""
        self._check_topics(self.topic, self.partition)
        in_use = self.topic != FREE_TOPIC
        assert np.flatnonzero(~in_use).tolist() == self._free
        for ids in (self.replicas, self.isr):
            assert is_padded(ids)
            assert not with_duplicates(ids).any()
        assert (self.replicas[in_use, 0] != NONE).all()
        assert (self.replicas[~in_use] == NONE).all()
        bare = self.version < 0
        assert bare[~in_use].all()
        assert (self.leader[bare] == NONE).all()
        assert (self.isr[bare] == NONE).all()
        assert not self.recovering[bare].any()
        assert (self.leader_epoch >= 0).all()
        led = self.leader != NONE
        assert contained(self.leader[led, None], self.isr[led]).all(), "a leader is not in its ISR"
        self._odd.check(self.replicas, self.isr, self.leader, self.version)
        for row in self.reassigning():
            assert in_use[row]
            validate_moves(self.replicas_of(row), *self.moves_of(row))
        if self._index is not None:
            self._index.check(self.replicas)
