"""The rows of a table that its index from brokers to rows does not tell by what they hold.

Rules of the module:
  - *strays* have a leader or an ISR member that is no replica: a tree edited by hand, a legacy reassignment;
  - *leaderless* rows have a state without a leader;
  - both are few, and kept in sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, any_of, contained, lots

if TYPE_CHECKING:
    from simzk.partitions.states import LeaderAndIsr, States


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
