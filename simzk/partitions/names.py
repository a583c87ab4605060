"""Many partitions by name: what one table says to another whose rows may be others.

Rules of the module:
  - partitions are named by columns, or stand in rows of a table, whose names are looked up when somebody asks;
  - a table that is about to give rows to others first has the names looked up that it lent out (`settle`), so they are
    those of the moment in which they were made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray


class RowNames(Protocol):
    """Who can say what its rows are called."""

    def partitions(self, rows: IntArray) -> Partitions:
        """The names of some rows, which it settles before they change."""

    def name_columns(self, rows: IntArray) -> tuple[Sequence[str], IntArray, IntArray]:
        """Names of topics, and of some rows index into them and partition id."""


class Partitions:
    """k partitions.

    Args:
        topics: names; nobody changes the list, but that more may come behind its end.
        topic: int32[k], index into `topics`.
        partition: int32[k], ids.

    >>> import numpy as np
    >>> Partitions(["a", "b"], np.array([1, 0]), np.array([7, 2])).names()
    [('b', 7), ('a', 2)]
    """

    __slots__ = ("__weakref__", "_columns", "_rows", "_source")

    def __init__(self, topics: Sequence[str], topic: IntArray, partition: IntArray) -> None:
        self._columns: tuple[Sequence[str], IntArray, IntArray] | None = (topics, topic, partition)
        self._source: RowNames | None = None
        self._rows: IntArray = topic[:0]

    @classmethod
    def in_rows(cls, source: RowNames, rows: IntArray) -> Partitions:
        """Those in rows int32[k], which nobody changes, of a source that settles them before they are others."""
        made = cls.__new__(cls)
        made._columns, made._source, made._rows = None, source, rows
        return made

    @property
    def place(self) -> tuple[RowNames, IntArray] | None:
        """Who has them in which rows, as long as that is so."""
        return None if self._source is None else (self._source, self._rows)

    def settle(self) -> None:
        """The rows are about to be others."""
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
        """Names; nobody changes the list, but that more may come behind its end."""
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
        """How many they are."""
        return len(self._rows if self._source is not None else self.topic)

    def name(self, place: int) -> tuple[str, int]:
        """Topic and id of one."""
        topics, topic, partition = self.columns
        return topics[int(topic[place])], int(partition[place])

    def names(self) -> list[tuple[str, int]]:
        """Topic and id of each."""
        topics, topic, partition = self.columns
        return [(topics[t], p) for t, p in zip(topic.tolist(), partition.tolist(), strict=True)]

    def at(self, places: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Partitions:
        """Some of them."""
        if self._source is not None:
            return self._source.partitions(self._rows[places])
        topics, topic, partition = self.columns
        return Partitions(topics, topic[places], partition[places])
