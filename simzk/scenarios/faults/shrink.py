"""Smallest fault plan that fails as another does: fewer faults, a shorter run, shorter faults, round numbers.

Rules of this module:
  - a plan fails as another does if the expectation, the invariant or the crash that failed first there fails too;
  - the caller decides when to stop, so that no clock is read here: from then on no run is played, and the smallest plan
    so far is the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from simzk.simulation import RandomStream
from simzk.simulation.shrinking import shrink_list, shrink_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.scenarios.faults.fault import Fault
    from simzk.scenarios.faults.plan import FaultPlan

SECOND_US = 1_000_000
FEW_FAULTS = 5
TRIES_MAX = 300
JITTER_US = 2 * SECOND_US
MARGIN_US = SECOND_US
"""Time between the end of the last fault and the end of the safety phase."""


@dataclass
class Shrinking:
    """Search for a smaller plan.

    Args:
        plan: a plan that fails.
        fails: plays a plan, and returns whether it fails in the same way.
        is_over: returns whether to stop.

    Attributes:
        plan: the smallest plan so far.
        before: number of faults of the plan that failed first.
        runs: number of plans that were played.
        is_complete: whether the search came to its end: no fault can be left out.
    """

    plan: FaultPlan
    fails: Callable[[FaultPlan], bool]
    is_over: Callable[[], bool]
    runs: int = 0
    is_complete: bool = True

    def __post_init__(self) -> None:
        self.before = len(self.plan.faults)

    def run(self, failed_at_us: int | None = None) -> FaultPlan:
        """Return the smallest plan found.

        Args:
            failed_at_us: time of the violation since the begin of the faults; None if it was found after all faults.
        """
        if failed_at_us is not None:
            earlier = tuple(fault for fault in self.plan.faults if fault.at_us <= failed_at_us)
            safety_us = max(failed_at_us, _end_us(earlier)) + MARGIN_US
            self._adopt(replace(self.plan.with_faults(earlier), safety_us=safety_us))
        self._shorten()
        self._drop_faults()
        self._shorten()
        self._round_times()
        self._shorten_faults()
        self._drop_faults()
        self._drop_with_jitter()
        self._shorten()
        assert len(self.plan.faults) <= self.before, "faults are left out, and none is added"
        return self.plan

    def _still_fails(self, plan: FaultPlan) -> bool:
        if self.is_over():
            self.is_complete = False
            return False
        self.runs += 1
        return self.fails(plan)

    def _adopt(self, plan: FaultPlan) -> bool:
        """Keep a plan if it fails too; return whether it does."""
        if plan == self.plan:
            return True
        assert len(plan.faults) <= len(self.plan.faults), "a smaller plan is no larger"
        adopted = self._still_fails(plan)
        if adopted:
            self.plan = plan
        return adopted

    def _shorten(self) -> None:
        """End the safety phase soon after the last fault."""
        end_us = _end_us(self.plan.faults) + MARGIN_US
        if end_us < self.plan.safety_us:
            self._adopt(replace(self.plan, safety_us=end_us))

    def _drop_faults(self) -> None:
        plan = self.plan
        kept = shrink_list(plan.faults, lambda faults: self._still_fails(plan.with_faults(tuple(faults))))
        self.plan = plan.with_faults(tuple(kept))

    def _drop_with_jitter(self) -> None:
        """Leave out one fault and move the others a little, as long as there are many.

        A race often needs fewer faults at slightly other times.
        """
        stream = RandomStream(0, "shrinking")
        tries = 0
        while len(self.plan.faults) > FEW_FAULTS and tries < TRIES_MAX:
            tries += 1
            faults = list(self.plan.faults)
            del faults[stream.below(len(faults))]
            moved = [fault.moved_to(max(0, fault.at_us + stream.between(-JITTER_US, JITTER_US))) for fault in faults]
            within = tuple(fault for fault in moved if fault.at_us < self.plan.safety_us)
            if self._adopt(self.plan.with_faults(within)):
                self._drop_faults()

    def _shorten_faults(self) -> None:
        """Shorten each fault to whole seconds, as far as it still fails."""
        for place, fault in enumerate(self.plan.faults):
            seconds = fault.duration_us // SECOND_US
            if seconds < 1 or not self._adopt(self._with(place, fault.lasting(seconds * SECOND_US))):
                continue
            self.plan = self._lasting(place, shrink_number(seconds, 1, partial(self._fails_lasting, place)))

    def _lasting(self, place: int, seconds: int) -> FaultPlan:
        """Return the plan with another duration of the fault in a place."""
        return self._with(place, self.plan.faults[place].lasting(seconds * SECOND_US))

    def _fails_lasting(self, place: int, seconds: int) -> bool:
        return self._still_fails(self._lasting(place, seconds))

    def _round_times(self) -> None:
        """Begin each fault at a whole second, if it still fails."""
        for place in range(len(self.plan.faults)):
            fault = self.plan.faults[place]
            self._adopt(self._with(place, fault.moved_to(fault.at_us // SECOND_US * SECOND_US)))

    def _with(self, place: int, fault: Fault) -> FaultPlan:
        """Return the plan with another fault in a place."""
        return self.plan.with_faults((*self.plan.faults[:place], fault, *self.plan.faults[place + 1 :]))


def _end_us(faults: tuple[Fault, ...]) -> int:
    """Return when the last fault ends, or begins if it does not last."""
    return max((fault.end_us for fault in faults), default=0)
