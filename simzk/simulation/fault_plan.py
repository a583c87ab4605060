"""Random faults of a run: the kinds of fault, a plan drawn from the seed, and the faults that follow from the plan.

Rules of this module:
  - first safety: for `safety_us` the faults of the plan happen; then liveness: everything is healed, and the system
    must recover within `liveness_us`;
  - every number of a plan is drawn anew for each seed, so that different seeds test different combinations of faults
    (swarm testing: Groce et al., ISSTA 2012); the plan is printed with its seed before the run;
  - a kind of fault is one class in `FAULT_KINDS`. A plan draws a weight for each kind in the order of that table, so a
    new kind changes the plans of all seeds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.simulation.streams import RandomStream

WEIGHT_LIMIT = 4
"""Upper limit, exclusive, of the weight of a kind."""

FAULTS_MAX = 10_000
"""Limit of the faults of a plan, which bounds one whose mean gap is tiny."""


class FaultTarget(Protocol):
    """A system whose members can fail, as kinds of fault see it."""

    def kill(self, member: int) -> None:
        """End a member at once."""

    def restart(self, member: int) -> None:
        """Start a member again, unless it is running."""

    def pause(self, member: int, seconds: float) -> None:
        """Stop a member for some time."""

    def expire(self, member: int) -> None:
        """Expire the session of a member."""

    def cut(self, member: int) -> None:
        """Cut all network links of a member."""

    def heal(self, member: int) -> None:
        """Restore all network links of a member."""

    def call_later(self, delay_us: int, action: Callable[[], None]) -> None:
        """Call an action after a delay in virtual time."""


class FaultKind(ABC):
    """A kind of fault.

    Attributes:
        name: identifies the kind in `Fault.kind`; `NAME_weight` is its weight in the text of a plan.
        verb: what a fault of this kind does to a member, for the history.
        has_duration: whether a fault lasts for some time.
    """

    name: ClassVar[str]
    verb: ClassVar[str]
    has_duration: ClassVar[bool] = True

    @abstractmethod
    def begin(self, target: FaultTarget, member: int, duration_us: int) -> None:
        """Begin a fault on a member, and arrange for its end."""


class Kill(FaultKind):
    """Kill a member and restart it later."""

    name, verb = "kill", "kills"

    def begin(self, target: FaultTarget, member: int, duration_us: int) -> None:
        target.kill(member)
        target.call_later(duration_us, lambda: target.restart(member))


class Pause(FaultKind):
    """Pause a member, as a long garbage collection does."""

    name, verb = "pause", "pauses"

    def begin(self, target: FaultTarget, member: int, duration_us: int) -> None:
        target.pause(member, duration_us / 1_000_000)


class Expire(FaultKind):
    """Expire the session of a running member."""

    name, verb, has_duration = "expire", "expires the session of", False

    def begin(self, target: FaultTarget, member: int, duration_us: int) -> None:
        target.expire(member)


class Cut(FaultKind):
    """Cut a member off from the network."""

    name, verb = "cut", "cuts off"

    def begin(self, target: FaultTarget, member: int, duration_us: int) -> None:
        target.cut(member)
        target.call_later(duration_us, lambda: target.heal(member))


FAULT_KINDS: dict[str, FaultKind] = {kind.name: kind for kind in (Kill(), Pause(), Expire(), Cut())}
"""All kinds of fault by name, in the order in which a plan draws their weights."""


class Fault(NamedTuple):
    """One fault: its begin, kind, member and duration (0 for a kind without duration)."""

    at_us: int
    kind: str
    member: int
    duration_us: int


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The random faults of a run, as numbers.

    Args:
        safety_us: length of the phase with faults.
        liveness_us: time limit for the recovery after it.
        gap_us: mean time between two faults.
        weights: relative frequency of each kind of fault, by its name.
        duration_us: maximum duration of a fault.
        broken_max: maximum number of members with a fault at one time.
    """

    safety_us: int
    liveness_us: int
    gap_us: int
    weights: dict[str, int]
    duration_us: int
    broken_max: int

    @classmethod
    def draw(cls, stream: RandomStream, *, members: int, safety_us: int, liveness_us: int) -> FaultPlan:
        """Return a plan with these two times and all other numbers drawn from a stream."""
        weights = {name: stream.below(WEIGHT_LIMIT) for name in FAULT_KINDS}
        if not any(weights.values()):
            weights[next(iter(FAULT_KINDS))] = 1
        return cls(
            safety_us=safety_us,
            liveness_us=liveness_us,
            gap_us=stream.between(1_000, 20_000) * 1_000,
            weights=weights,
            duration_us=stream.between(1_000, 40_000) * 1_000,
            broken_max=stream.between(1, max(1, members)),
        )

    def faults(self, stream: RandomStream, members: Sequence[int]) -> list[Fault]:
        """Return the faults in the order of their time; all begin and end within the safety phase.

        Args:
            stream: draws times, kinds, members and durations.
            members: the members that may fail.
        """
        self.check()
        kinds = [kind for kind, weight in self.weights.items() for _ in range(weight)]
        broken_until_us = dict.fromkeys(members, 0)
        faults: list[Fault] = []
        at_us = 0
        while len(faults) < FAULTS_MAX:
            at_us += stream.between(1, 2 * self.gap_us)
            if at_us >= self.safety_us:
                break
            healthy = [member for member in members if broken_until_us[member] <= at_us]
            if len(members) - len(healthy) >= self.broken_max or not healthy:
                continue
            kind, member = stream.choice(kinds), stream.choice(healthy)
            duration_us = 0
            if FAULT_KINDS[kind].has_duration:
                duration_us = min(stream.between(1, self.duration_us), self.safety_us - at_us)
            broken_until_us[member] = at_us + duration_us
            faults.append(Fault(at_us, kind, member, duration_us))
        assert all(fault.at_us + fault.duration_us <= self.safety_us for fault in faults)
        return faults

    def check(self) -> None:
        """Assert that faults can be drawn from the plan."""
        assert self.gap_us > 0
        assert self.duration_us > 0
        assert self.broken_max > 0
        assert sum(self.weights.values()) > 0
        assert self.weights.keys() <= FAULT_KINDS.keys()

    def __str__(self) -> str:
        """Return all numbers of the plan, as printed before a run.

        >>> str(FaultPlan(1, 2, 3, {"kill": 1, "pause": 0}, 4, 5))
        'safety_us=1 liveness_us=2 gap_us=3 kill_weight=1 pause_weight=0 duration_us=4 broken_max=5'
        """
        weights = " ".join(f"{name}_weight={weight}" for name, weight in self.weights.items())
        return (
            f"safety_us={self.safety_us} liveness_us={self.liveness_us} gap_us={self.gap_us} {weights}"
            f" duration_us={self.duration_us} broken_max={self.broken_max}"
        )
