"""What breaks in a run: numbers in one plan, drawn from the seed, and the faults that follow from them.

First safety: for `safety_us` anything of the plan may break. Then liveness: everything is healed and, within
`liveness_us`, the system must be whole again. The plan is printed with its seed before a run, so that a failure can be
understood from its first line; each number is drawn anew from each seed, so that different seeds try different worlds
(swarm testing: Groce et al., ISSTA 2012).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.simulation.streams import RandomStream

KILL, PAUSE, EXPIRE, CUT = "kill", "pause", "expire", "cut"

FAULTS_MAX = 10_000
"""No plan asks for more: a plan with a mean gap of nothing would never end."""


class Fault(NamedTuple):
    """One fault: from when, of which kind, on which member, and for how long (an expiry has no length)."""

    at_us: int
    kind: str
    member: int
    duration_us: int


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All the faults of a run, as numbers.

    Args:
        safety_us: how long things may break.
        liveness_us: within which time after that all must be whole.
        gap_us: the mean time between two faults.
        kill_weight: how often, against the other weights, a member is killed and later restarted.
        pause_weight: ... is paused, as by a long garbage collection.
        expire_weight: ... loses its session while it lives.
        cut_weight: ... is cut off from the network.
        duration_us: the longest that a member stays killed, paused or cut off.
        broken_max: how many members are killed, paused or cut off at one time.
    """

    safety_us: int
    liveness_us: int
    gap_us: int
    kill_weight: int
    pause_weight: int
    expire_weight: int
    cut_weight: int
    duration_us: int
    broken_max: int

    @classmethod
    def draw(cls, stream: RandomStream, *, members: int, safety_us: int, liveness_us: int) -> FaultPlan:
        """Draw all numbers but the two times from a stream."""
        weights = [stream.below(4) for _ in range(4)]
        if not any(weights):
            weights[0] = 1
        return cls(
            safety_us=safety_us,
            liveness_us=liveness_us,
            gap_us=stream.between(1_000, 20_000) * 1_000,
            kill_weight=weights[0],
            pause_weight=weights[1],
            expire_weight=weights[2],
            cut_weight=weights[3],
            duration_us=stream.between(1_000, 40_000) * 1_000,
            broken_max=stream.between(1, max(1, members)),
        )

    def faults(self, stream: RandomStream, members: Sequence[int]) -> list[Fault]:
        """Return the faults in the order of their time; none begins or lasts beyond the safety phase.

        Args:
            stream: what chooses times, kinds, members and durations.
            members: which may break.
        """
        self.check()
        weights = [(KILL, self.kill_weight), (PAUSE, self.pause_weight), (EXPIRE, self.expire_weight)]
        weights.append((CUT, self.cut_weight))
        kinds = [kind for kind, weight in weights for _ in range(weight)]
        broken_until_us = dict.fromkeys(members, 0)
        faults: list[Fault] = []
        at_us = 0
        while len(faults) < FAULTS_MAX:
            at_us += stream.between(1, 2 * self.gap_us)
            if at_us >= self.safety_us:
                break
            whole = [member for member in members if broken_until_us[member] <= at_us]
            if len(members) - len(whole) >= self.broken_max or not whole:
                continue
            kind, member = stream.choice(kinds), stream.choice(whole)
            duration_us = 0
            if kind != EXPIRE:
                duration_us = min(stream.between(1, self.duration_us), self.safety_us - at_us)
            broken_until_us[member] = at_us + duration_us
            faults.append(Fault(at_us, kind, member, duration_us))
        return faults

    def check(self) -> None:
        """Assert that the numbers can be meant."""
        assert self.gap_us > 0
        assert self.duration_us > 0
        assert self.broken_max > 0
        assert self.kill_weight + self.pause_weight + self.expire_weight + self.cut_weight > 0

    def __str__(self) -> str:
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))
