"""Records of 32-bit words, one a row, of which many lie scattered over a large table: how numpy moves them whole.

Replicas and states of millions of rows, side by side: what is touched together lies together.

Rules of the module:

1. A row is one record of 32-bit words: the five single numbers of its state, its ISR, its replicas; 44 bytes at
   replication factor 3. The rows that a broker holds lie scattered over a large table: a row costs one or two lines of
   the processor's cache, where seven columns cost seven, each way.
2. What is read of many rows comes as columns, each contiguous, lists column by column too: the rules take them so.
3. Whole columns are views into the records; nothing is kept twice.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, IntArray, lots, widen
from simzk.partitions.states import LeaderAndIsr, States

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from simzk.partitions.arrays import IntArray


def packed_of(records: IntArray) -> NDArray[np.void]:
    """Records int32[n, words] as pieces of memory, void[n]: a view."""
    return records.view(np.dtype((np.void, 4 * records.shape[1])))[:, 0]


def columns_at(records: IntArray, rows: NDArray[np.integer]) -> IntArray:
    """A copy of the records of some rows, a word a line: int32[words, k]."""
    columns, packed = np.empty((records.shape[1], len(rows)), dtype=np.int32), packed_of(records)
    for some in lots(len(rows)):
        columns[:, some] = packed.take(rows[some]).view(np.int32).reshape(-1, len(columns)).T
    return columns


_LEADER, _LEADER_EPOCH, _CONTROLLER_EPOCH, _VERSION, _RECOVERING, _LISTS = range(6)


class RowRecords:
    """Rows of replicas and states.

    Args:
        width: the most ids of a list.

    >>> records = RowRecords(2)
    >>> records.reserve(3)
    >>> records.put_state(1, LeaderAndIsr(7, 0, (7,), 1))
    >>> records.state(1), records.replicas[1].tolist()
    (LeaderAndIsr(leader=7, leader_epoch=0, isr=(7,), controller_epoch=1, version=0, recovering=False), [-1, -1])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._words: IntArray = np.empty((0, _LISTS + 2 * width), dtype=np.int32)

    def __len__(self) -> int:
        """For how many rows there is room."""
        return len(self._words)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return 4 * (_LISTS + 2 * self.width)

    @property
    def leader(self) -> IntArray:
        """int32[n], a view."""
        return self._words[:, _LEADER]

    @property
    def leader_epoch(self) -> IntArray:
        """int32[n], a view."""
        return self._words[:, _LEADER_EPOCH]

    @property
    def controller_epoch(self) -> IntArray:
        """int32[n], a view."""
        return self._words[:, _CONTROLLER_EPOCH]

    @property
    def version(self) -> IntArray:
        """int32[n], a view."""
        return self._words[:, _VERSION]

    @property
    def recovering(self) -> IntArray:
        """int32[n], 0 or 1, a view."""
        return self._words[:, _RECOVERING]

    @property
    def isr(self) -> IntArray:
        """int32[n, w], a view."""
        return self._words[:, _LISTS : _LISTS + self.width]

    @property
    def replicas(self) -> IntArray:
        """int32[n, w], a view."""
        return self._words[:, _LISTS + self.width :]

    def reserve(self, rows: int) -> None:
        """Make room for so many rows; new ones have empty lists and no state."""
        present = len(self._words)
        if rows > present:
            words = np.empty((rows, self._words.shape[1]), dtype=np.int32)
            words[:present] = self._words
            words[present:] = _blank(self.width)
            self._words = words

    def widen(self, width: int) -> None:
        """Make room for longer lists."""
        if width > self.width:
            isr, replicas = widen(self.isr, width), widen(self.replicas, width)
            self._words = np.concatenate([self._words[:, :_LISTS], isr, replicas], axis=1)
            self.width = width

    def clear(self, rows: NDArray[np.integer]) -> None:
        """Empty lists and no state for some rows."""
        self._words[rows] = _blank(self.width)

    def fill(self, rows: NDArray[np.integer], replicas: IntArray, states: States) -> None:
        """Write whole rows; lists are at most as wide as the records.

        Args:
            rows: distinct, k of them.
            replicas: int32[k, v].
            states: k states.
        """
        replicas, states = widen(replicas, self.width), states._replace(isr=widen(states.isr, self.width))
        for some in lots(len(rows)):
            self._write(rows[some], self._columns(replicas[some].T, states.map(itemgetter(some))))

    def put_replicas(self, rows: NDArray[np.integer], replicas: IntArray) -> None:
        """Write the replicas of some rows, distinct, int32[k, v] at most as wide as the records."""
        self.replicas[rows] = widen(replicas, self.width)

    def read(self, rows: NDArray[np.integer]) -> tuple[IntArray, States]:
        """Copies of replicas and states of some rows."""
        columns = columns_at(self._words, rows)
        return columns[_LISTS + self.width :].T, self._states(columns)

    def replicas_at(self, rows: NDArray[np.integer]) -> IntArray:
        """A copy of the replicas of some rows alone: word by word, at a third of the price of `read`."""
        words, ids = self._words.ravel(), np.empty((self.width, len(rows)), dtype=np.int32)
        for some in lots(len(rows)):
            at = rows[some] * np.intp(self._words.shape[1])
            for place in range(self.width):
                ids[place, some] = words.take(at + (_LISTS + self.width + place))
        return ids.T

    def replace(self, rows: NDArray[np.integer], states: States) -> tuple[IntArray, States]:
        """Write states; what `read` gave before.

        Args:
            rows: distinct, k of them.
            states: k states; their lists are at most as wide as the records.
        """
        before = np.empty((len(rows), self._words.shape[1]), dtype=np.int32)
        for some, words in self._written_over(rows, states):
            before[some] = words  # a row after the other: few read more of it than a row
        return before[:, _LISTS + self.width :], self._states(before.T)

    def put_states(self, rows: NDArray[np.integer], states: States) -> IntArray:
        """Write states, arguments as of `replace`; a copy of the rows' replicas alone."""
        ids = np.empty((self.width, len(rows)), dtype=np.int32)
        for some, words in self._written_over(rows, states):
            ids[:, some] = words[:, _LISTS + self.width :].T
        return ids.T

    def _written_over(self, rows: NDArray[np.integer], states: States) -> Iterator[tuple[slice, IntArray]]:
        """Write states, some rows at a time: which, and the words that stand there before, good until the next."""
        packed, isr = packed_of(self._words), widen(states.isr, self.width)
        for some in lots(len(rows)):
            # Read and written again while they lie in the processor's cache.
            words = packed.take(rows[some]).view(np.int32).reshape(-1, self._words.shape[1])
            yield some, words
            words[:, _LEADER], words[:, _LEADER_EPOCH] = states.leader[some], states.leader_epoch[some]
            words[:, _CONTROLLER_EPOCH], words[:, _VERSION] = states.controller_epoch[some], states.version[some]
            words[:, _RECOVERING] = states.recovering[some]
            words[:, _LISTS : _LISTS + self.width] = isr[some]
            packed.put(rows[some], packed_of(words))

    def state(self, row: int) -> LeaderAndIsr:
        """The state of one row."""
        words: list[int] = self._words[row].tolist()
        leader, leader_epoch, controller_epoch, version, recovering, *lists = words
        isr = tuple([member for member in lists[: self.width] if member != NONE])
        return LeaderAndIsr(leader, leader_epoch, isr, controller_epoch, version, bool(recovering))

    def put_state(self, row: int, state: LeaderAndIsr) -> None:
        """Write the state of one row; its ISR fits the width."""
        padding = (NONE,) * (self.width - len(state.isr))
        single = state.leader, state.leader_epoch, state.controller_epoch, state.version, int(state.recovering)
        self._words[row, : _LISTS + self.width] = (*single, *state.isr, *padding)

    def _write(self, rows: NDArray[np.integer], columns: IntArray) -> None:
        packed = packed_of(self._words)
        for some in lots(len(rows)):
            packed.put(rows[some], packed_of(np.ascontiguousarray(columns[:, some].T)))

    def _columns(self, replicas: IntArray, states: States) -> IntArray:
        """Words of rows, a word a line; `replicas` is int32[w, k]."""
        columns = np.empty((self._words.shape[1], replicas.shape[1]), dtype=np.int32)
        columns[_LEADER], columns[_LEADER_EPOCH] = states.leader, states.leader_epoch
        columns[_CONTROLLER_EPOCH], columns[_VERSION] = states.controller_epoch, states.version
        columns[_RECOVERING] = states.recovering
        columns[_LISTS : _LISTS + self.width] = widen(states.isr, self.width).T
        columns[_LISTS + self.width :] = replicas
        return columns

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
    """The words of a row without replicas and state."""
    words = np.full(_LISTS + 2 * width, NONE, dtype=np.int32)
    words[[_LEADER_EPOCH, _CONTROLLER_EPOCH, _RECOVERING]] = 0
    return words
