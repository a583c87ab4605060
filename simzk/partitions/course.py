"""Partitions in the course of an operation: elections and removals follow one another before anything is written.

Rules of the module (docs/reference/kafka.md §2.6):

1. What happens to a partition counts as so many writes of a controller: each raises leader epoch and version.
2. The rules are those of `elections` and `isr`; here is only what becomes of what they decide.
3. A partition without a state znode stays without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, among, any_of, broker_mask, choose, contained, taken
from simzk.partitions.elections import elect_offline
from simzk.partitions.isr import remove_from_isr
from simzk.partitions.states import States, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from simzk.partitions.elections import Election
    from simzk.partitions.rules import ElectionRules


class Change(NamedTuple):
    """Rows that an operation changes: `rows` int32[c] of the table, their states before and after, and whether their
    new leader came from outside the ISR, `unclean` bool[c]. `table.apply(change.rows, change.after)` makes it so."""

    rows: IntArray
    before: States
    after: States
    unclean: BoolArray

    @classmethod
    def between(cls, rows: IntArray, before: States, after: States, unclean: BoolArray | None = None) -> Change:
        """Of some rows those that were written."""
        unclean = np.zeros(len(rows), dtype=np.bool_) if unclean is None else unclean
        changed = after.version != before.version
        if changed.all():
            return cls(rows, before, after, unclean)
        return cls(rows[changed], before.where(changed), after.where(changed), unclean[changed])


class Course:
    """Leaders and ISRs of k partitions meanwhile.

    Args:
        replicas: int32[k, w], assigned replicas in preference order.
        states: of the k partitions; they stay as they are.
        unclean_allowed: whether unclean election is on for the partition's topic, bool[k] or one for all.
        rules: the row of the Kafka version.

    Attributes:
        leader: int32[k].
        isr: int32[k, v].
        writes: int32[k], how often each has been written.
        unclean: bool[k], whose leader came from outside the ISR.
    """

    def __init__(
        self, replicas: IntArray, states: States, unclean_allowed: BoolArray | bool, rules: ElectionRules
    ) -> None:
        self._replicas = replicas
        self._before = states
        self._unclean_allowed = unclean_allowed
        self._rules = rules
        self._known = states.version >= 0
        self.leader = states.leader.copy()
        self.isr = states.isr.copy(order="F")
        self.writes = np.zeros(len(states.leader), dtype=np.int32)
        self.unclean = np.zeros(len(states.leader), dtype=np.bool_)

    def outcome(self, controller_epoch: int) -> States:
        """The states after all of it."""
        recovering = self.unclean & self._rules.recovering
        return written(self._before, self.leader, self.isr, controller_epoch, recovering, self.writes)

    def elect_offline(self, leaderless: BoolArray, live: BoolArray) -> None:
        """A leader for some by the offline strategy."""
        places = np.flatnonzero(leaderless & self._known)
        if places.size:
            allowed = self._allowed_at(places)
            replicas, isr = taken(self._replicas, places), taken(self.isr, places)
            self.elect(places, elect_offline(replicas, isr, live, allowed, rules=self._rules))

    def elect(self, places: NDArray[np.intp], election: Election) -> None:
        """What an election decided for some; where it failed, ISR and leader stay, dead or none."""
        self.leader[places] = choose(election.elected, election.leader, self.leader[places])
        for column, new in zip(self.isr.T, election.isr.T, strict=True):
            column[places] = new
        self.writes[places] += election.elected
        self.unclean[places] |= election.unclean

    def rewrite(self, chosen: BoolArray) -> None:
        """One write more of the same."""
        self.writes += chosen & self._known

    def remove(self, broker: IntArray | int) -> None:
        """A replica leaves the ISR, int32[k] (-1 where none does) or one for all."""
        removal = remove_from_isr(self.isr, self.leader, broker, self._unclean_allowed, self._rules)
        self.leader, self.isr = removal.leader, removal.isr
        self.writes += removal.changed

    def trim(self, dead: Sequence[int]) -> None:
        """The replicas of the dead leave the ISRs, in the order of `dead`."""
        for brokers in _turns(self._replicas, self.isr, dead):
            self.remove(brokers)

    def _allowed_at(self, places: NDArray[np.intp]) -> BoolArray | bool:
        allowed = self._unclean_allowed
        return allowed if isinstance(allowed, bool) else allowed[places]


def _turns(replicas: IntArray, isr: IntArray, dead: Sequence[int]) -> Iterator[IntArray]:
    """Of each partition its dead replicas that are in sync, one a round, in the order of `dead`; then -1: int32[k].

    A partition has at most as many as it has replicas, however many brokers are dead.
    """
    if len(dead) == 1:
        yield choose(any_of(replicas == dead[0]), np.int32(dead[0]), np.int32(NONE))
        return
    never = len(dead)
    turn_of = np.full(max(dead, default=0) + 1, never, dtype=np.int32)
    turn_of[np.array(dead, dtype=np.intp)] = np.arange(never, dtype=np.int32)
    brokers = np.array([*dead, NONE], dtype=np.int32)
    concerned = among(replicas, broker_mask(dead)) & contained(replicas, isr)
    turns = np.where(concerned, turn_of.take(replicas, mode="clip"), np.int32(never)).T
    while (soonest := turns.min(axis=0)).min(initial=never) < never:
        yield brokers[soonest]
        turns = np.where(turns == soonest, np.int32(never), turns)
