"""States of partitions as in their `state` znodes: columns for many, a tuple for one (docs/reference/kafka.md §1.6).

Rules of the module:

1. `States` are the columns of k partitions, `LeaderAndIsr` the state of one. `version` is the dataVersion of the znode.
2. A partition without a state znode has version -1; its other fields have no meaning.
3. `simzk.partitions.transitions` computes the state after a write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, Column, IntArray, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _ColumnFunction(Protocol):
    def __call__(self, column: Column, /) -> Column: ...


class LeaderAndIsr(NamedTuple):
    """The state of one partition.

    `leader` is -1 for none; `isr` has the order of the znode; `version` is the dataVersion of the znode; `recovering`
    is true until an unclean leader has recovered (leader_recovery_state 1).
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int = 0
    recovering: bool = False


class States(NamedTuple):
    """States of k partitions, a column per field: int32[k], `isr` int32[k, w] padded, `recovering` bool[k]."""

    leader: IntArray
    leader_epoch: IntArray
    isr: IntArray
    controller_epoch: IntArray
    version: IntArray
    recovering: BoolArray

    def map(self, function: _ColumnFunction) -> States:
        """Return the states with a function applied to each column."""
        return States(
            function(self.leader),
            function(self.leader_epoch),
            function(self.isr),
            function(self.controller_epoch),
            function(self.version),
            function(self.recovering),
        )

    def at(self, rows: NDArray[np.integer]) -> States:
        """Copy the states at some indices."""
        return self.map(lambda column: taken(column, rows))

    def where(self, mask: BoolArray) -> States:
        """Return the states selected by a mask, bool[k]: these states themselves if all are selected, else a copy."""
        assert len(mask) == len(self.leader)
        return self if mask.all() else self.at(np.flatnonzero(mask))

    def put(self, rows: NDArray[np.integer], new: States) -> None:
        """Overwrite the states at some indices in place; both ISR columns must have the same width."""
        assert len(rows) == len(new.leader)
        for column, values in zip(self, new, strict=True):
            # Place by place: numpy assigns short rows slowly.
            for place, of_place in zip(column.T, values.T, strict=True) if column.ndim == 2 else ((column, values),):
                place[rows] = of_place

    def put_one(self, row: int, state: LeaderAndIsr) -> None:
        """Overwrite the state of one row in place; its ISR must fit the width."""
        assert len(state.isr) <= self.isr.shape[1], f"ISR {state.isr} does not fit {self.isr.shape[1]} columns"
        self.leader[row] = state.leader
        self.leader_epoch[row] = state.leader_epoch
        self.isr[row] = (*state.isr, *(NONE,) * (self.isr.shape[1] - len(state.isr)))
        self.controller_epoch[row] = state.controller_epoch
        self.version[row] = state.version
        self.recovering[row] = state.recovering

    def one(self, row: int) -> LeaderAndIsr:
        """Return the state of one row."""
        members = self.isr[row]
        return LeaderAndIsr(
            int(self.leader[row]),
            int(self.leader_epoch[row]),
            tuple(members[members != NONE].tolist()),
            int(self.controller_epoch[row]),
            int(self.version[row]),
            bool(self.recovering[row]),
        )


def no_states(rows: int, width: int) -> States:
    """Return the states of partitions without a state znode."""
    return States(
        leader=np.full(rows, NONE, dtype=np.int32),
        leader_epoch=np.zeros(rows, dtype=np.int32),
        isr=np.full((rows, width), NONE, dtype=np.int32),
        controller_epoch=np.zeros(rows, dtype=np.int32),
        version=np.full(rows, -1, dtype=np.int32),
        recovering=np.zeros(rows, dtype=np.bool_),
    )


def states_of(states: list[LeaderAndIsr], width: int) -> States:
    """Return columns of single states, with ISRs padded to `width`."""
    assert all(len(state.isr) <= width for state in states)
    columns = no_states(len(states), width)
    for row, state in enumerate(states):
        columns.put_one(row, state)
    return columns
