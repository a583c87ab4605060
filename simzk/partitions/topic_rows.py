"""Which rows are which partitions: topic names, their numbers in the `topic` column, and the row of each partition.

Rules of the module:

1. A topic whose partitions are 0, 1, ... in consecutive rows costs one range; any other a dictionary.
2. The number of a forgotten topic is used again.
3. The list of names is handed out: it only grows at its end; where a name goes or another takes its number, a new list
   takes its place.
4. Many partitions are found by arrays of where somebody's topics begin here, made anew when topics have changed; those
   of somebody who has each in the same row as here are found already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray
    from simzk.partitions.names import Partitions

FREE_TOPIC = -1
"""The topic number of a row that holds no partition."""
_SCATTERED = -2
_NO_ROWS = range(0)


class TopicRows:
    """Rows by topic and partition id.

    >>> topic_rows = TopicRows()
    >>> topic_rows.enlist_all(["orders"], np.array([0, 0]), np.array([0, 1]), np.array([7, 8]))
    >>> topic_rows.row("orders", 1), topic_rows.names
    (8, ['orders'])
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._free_numbers: list[int] = []
        self._rows: dict[str, range | dict[int, int]] = {}
        self._changes = 0
        self._known: tuple[int, Sequence[str], IntArray, NDArray[np.uint32]] | None = None
        self._compared: tuple[TopicRows, int, int, bool] | None = None

    def __iter__(self) -> Iterator[str]:
        """The topics, in the order in which they were added."""
        return iter(self._rows)

    def __contains__(self, topic_partition: tuple[str, int]) -> bool:
        topic, partition = topic_partition
        rows = self._rows.get(topic, {})
        return 0 <= partition < len(rows) if isinstance(rows, range) else partition in rows

    def row(self, topic: str, partition: int) -> int:
        """The row of a partition; KeyError where there is none."""
        row = self.find(topic, partition)
        if row is None:
            raise KeyError((topic, partition))
        return row

    def find(self, topic: str, partition: int) -> int | None:
        """The row of a partition; None where there is none."""
        rows = self._rows.get(topic)
        if isinstance(rows, range):
            return rows[partition] if 0 <= partition < len(rows) else None
        return None if rows is None else rows.get(partition)

    def has_the_same(self, other: TopicRows) -> bool:
        """Whether every partition has the same row in both."""
        known = self._compared
        if known is None or known[:3] != (other, self._changes, other.changes):
            known = self._compared = other, self._changes, other.changes, self._rows == other._rows
        return known[3]

    def find_all(self, partitions: Partitions) -> IntArray:
        """The rows of many partitions, -1 where there is none; int32[k]."""
        if not partitions.size:
            return np.empty(0, dtype=np.int32)
        first, length = self._ranges_of(partitions.topics)
        begins, partition = first.take(partitions.topic), partitions.partition.astype(np.int32, copy=False)
        found: IntArray = begins + partition
        # Read without sign, what is negative is beyond every length.
        outside = partition.view(np.uint32) >= length.take(partitions.topic)
        if outside.any():
            found[outside] = -1
            for place in np.flatnonzero(outside & (begins == _SCATTERED)).tolist():
                row = self.find(*partitions.name(place))
                found[place] = -1 if row is None else row
        return found

    def _ranges_of(self, topics: Sequence[str]) -> tuple[IntArray, NDArray[np.uint32]]:
        """First rows and lengths here of somebody's topics; no length of unknown ones, nor of scattered ones."""
        known = self._known
        if known is None or known[0] != self._changes or known[1] is not topics or len(known[2]) != len(topics):
            held = [self._rows.get(name, _NO_ROWS) for name in topics]
            first = [rows.start if isinstance(rows, range) else _SCATTERED for rows in held]
            length = [len(rows) if isinstance(rows, range) else 0 for rows in held]
            numbers = np.array(first, dtype=np.int32), np.array(length, dtype=np.uint32)
            known = self._known = self._changes, topics, *numbers
        return known[2], known[3]

    def rows(self, topic: str) -> IntArray:
        """The rows of a topic in the order of its partition ids; none where it is unknown."""
        rows = self._rows.get(topic, {})
        if isinstance(rows, range):
            return np.arange(rows.start, rows.stop, dtype=np.int32)
        return np.array([rows[partition] for partition in sorted(rows)], dtype=np.int32)

    @property
    def changes(self) -> int:
        """How often partitions came or went."""
        return self._changes

    def run_of(self, topic: str) -> range | None:
        """The rows of a topic whose partitions are 0, 1, ... in consecutive rows; None of any other."""
        rows = self._rows.get(topic)
        return rows if isinstance(rows, range) else None

    def pairs(self, topic: str) -> list[tuple[int, int]]:
        """Partition id and row of a topic's partitions."""
        rows = self._rows.get(topic, {})
        return list(enumerate(rows)) if isinstance(rows, range) else list(rows.items())

    def number_of(self, topic: str) -> int:
        """The number of a topic in the `topic` column; -1 where the topic has no partition."""
        return self._numbers.get(topic, FREE_TOPIC)

    def knows(self, topic: str) -> bool:
        """Whether the topic has a partition."""
        return topic in self._rows

    def enlist_all(self, topics: Sequence[str], topic: IntArray, partition: IntArray, rows: IntArray) -> None:
        """Partitions that are not listed yet, of topics new or known.

        Args:
            topics: names.
            topic: int32[k], index into `topics`, ascending.
            partition: int32[k], ids, ascending in each topic.
            rows: int32[k], the row of each.
        """
        if len(topic) == 0:
            return
        self._changes += 1
        starts = np.concatenate([[0], np.flatnonzero(np.diff(topic)) + 1])
        ends = np.append(starts[1:], len(topic))
        lengths = ends - starts
        # A topic's partitions are 0, 1, ... in consecutive rows exactly if both count up along with the position.
        run = np.arange(len(topic))
        odd_ids = partition != run - np.repeat(starts, lengths)
        odd_rows = rows - run != np.repeat(rows[starts] - starts, lengths)
        regular = ~np.logical_or.reduceat(odd_ids | odd_rows, starts)
        first_rows = rows[starts].tolist()
        for group, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            name = topics[int(topic[start])]
            if regular[group] and name not in self._rows:
                self._enlist_new(name, range(first_rows[group], first_rows[group] + end - start))
            else:
                self._enlist_more(name, partition[start:end].tolist(), rows[start:end].tolist())

    def _enlist_new(self, topic: str, rows: range | dict[int, int]) -> None:
        number = self._free_numbers.pop() if self._free_numbers else len(self.names)
        if number == len(self.names):
            self.names.append(topic)
        else:
            self.names = [*self.names[:number], topic, *self.names[number + 1 :]]
        self._numbers[topic] = number
        self._rows[topic] = rows

    def _enlist_more(self, topic: str, partitions: Sequence[int], rows: Sequence[int]) -> None:
        if topic not in self._rows:
            self._enlist_new(topic, {})
        known = self._rows[topic]
        if isinstance(known, range) and known:
            more = range(known.stop, known.stop + len(rows))
            if list(rows) == list(more) and list(partitions) == [row - known.start for row in more]:
                self._rows[topic] = range(known.start, more.stop)
                return
        self._rows[topic] = dict(self.pairs(topic)) | dict(zip(partitions, rows, strict=True))

    def delist(self, topic: str, partitions: Sequence[int]) -> None:
        """Forget partitions, and a topic with its last one."""
        self._changes += 1
        left = dict(self.pairs(topic))
        for partition in partitions:
            del left[partition]
        if left:
            self._rows[topic] = left
            return
        del self._rows[topic]
        number = self._numbers.pop(topic)
        self.names = [*self.names[:number], "", *self.names[number + 1 :]]
        self._free_numbers.append(number)

    def check(self, topic: IntArray, partition: IntArray) -> None:
        """Assert every invariant, against the columns `topic` and `partition` of the table."""
        assert self._numbers.keys() == self._rows.keys()
        assert all(self.names[number] == name for name, number in self._numbers.items())
        assert sorted([*self._numbers.values(), *self._free_numbers]) == list(range(len(self.names)))
        assert all(self._rows.values()), "a topic without partitions is forgotten"
        listed = [(row, self._numbers[name], p) for name in self._rows for p, row in self.pairs(name)]
        rows = np.flatnonzero(topic != FREE_TOPIC)
        expected = zip(rows.tolist(), topic[rows].tolist(), partition[rows].tolist(), strict=True)
        assert sorted(listed) == list(expected)
