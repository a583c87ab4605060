"""Search for runs that fail: seeds one after another, and plans bred from those that reached something new.

Rules of this module:
  - runs are planned in generations, and the results of one decide the next: the same search gives the same runs in
    any number of processes;
  - a run whose combination of probes is new gives its plan to the pool of parents. A bred plan is a parent that was
    changed in a few places: faults left out, moved, lasting longer or shorter, drawn anew, or of another parent;
  - the caller decides when to stop, so that no clock is read here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from simzk.scenarios.faults.fault import Draw
from simzk.scenarios.faults.plan import FAULT_KINDS, FaultPlan
from simzk.scenarios.faults.shrink import Shrinking
from simzk.scenarios.player import setting_of
from simzk.scenarios.results import play_scenario
from simzk.simulation import RandomStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from simzk.scenarios.faults.fault import Fault, Setting
    from simzk.scenarios.reader import Scenario
    from simzk.scenarios.results import Result
    from simzk.scenarios.swarm import Run

GENERATION = 8
"""Number of runs that are planned at a time."""
CHANGES_MAX = 3
SHIFT_US = 10_000_000
"""How far a fault is moved at most."""
PARENTS_MAX = 200


class Searched(NamedTuple):
    """A run of a search, and its result."""

    run: Run
    result: Result


class Search:
    """A search for failing runs of one scenario.

    Args:
        scenario: the scenario.
        first: the first run; its seed is the first seed, and the later ones follow.
        seeds: number of seeds; None for no limit.
        breeds: whether plans are bred, in every other generation, or after the last seed.

    Attributes:
        seeds_played, bred: numbers of runs by their origin.
    """

    def __init__(self, scenario: Scenario, first: Run, seeds: int | None, *, breeds: bool) -> None:
        self.seeds_played: int = 0
        self.bred: int = 0
        self._scenario = scenario
        self._first = first
        self._seeds = seeds
        self._breeds = breeds and first.plan is None and scenario.faults is not None
        self._setting = setting_of(scenario, first.version)
        self._parents: list[tuple[int, FaultPlan]] = []
        self._seen: set[frozenset[str]] = set()
        self._number = 0

    def run(self, play: Callable[[Sequence[Run]], Iterable[Result]], goes_on: Callable[[], bool]) -> Iterator[Searched]:
        """Yield the runs with their results in order, until there are no more.

        Args:
            play: plays runs, and returns their results in the same order.
            goes_on: asked before each generation and after each run.
        """
        generation = 0
        while goes_on():
            runs = self._plan(generation)
            if not runs:
                return
            for run, result in zip(runs, play(runs), strict=True):
                self._learn(run, result)
                yield Searched(run, result)
                if not goes_on():
                    return
            generation += 1

    def plan_of(self, run: Run) -> FaultPlan | None:
        """Return the plan of a run: its own, or the one that its seed draws; None without faults."""
        if run.plan is not None or self._scenario.faults is None:
            return run.plan
        return FaultPlan.draw(partial(RandomStream, run.seed), self._scenario.faults, self._setting)

    def _plan(self, generation: int) -> list[Run]:
        left = GENERATION if self._seeds is None else min(GENERATION, self._seeds - self.seeds_played)
        alternates = self._seeds is None and generation % 2 == 1
        if self._breeds and self._parents and (not left or alternates):
            return [self._breed() for _ in range(GENERATION)]
        first, seed = self._number, self._first.seed + self.seeds_played
        assert left >= 0, "no more seeds are played than there are"
        self.seeds_played += left
        self._number += left
        return [self._first._replace(number=first + place, seed=seed + place) for place in range(left)]

    def _breed(self) -> Run:
        stream = RandomStream(self._first.seed, f"bred plan {self._number}")
        seed, parent = stream.choice(self._parents)
        _, other = stream.choice(self._parents)
        plan = mutate(parent, other, stream, self._setting)
        self.bred += 1
        number, self._number = self._number, self._number + 1
        name = f"{self._scenario.path.stem}-bred{number}.plan.toml"
        return self._first._replace(number=number, seed=seed, plan=plan, plan_file=name)

    def _learn(self, run: Run, result: Result) -> None:
        reached = frozenset(result.probes)
        if not self._breeds or reached in self._seen or len(self._parents) == PARENTS_MAX:
            return
        self._seen.add(reached)
        plan = self.plan_of(run)
        assert plan is not None, "a scenario that breeds has faults"
        self._parents.append((run.seed, plan))


def mutate(parent: FaultPlan, other: FaultPlan, stream: RandomStream, setting: Setting) -> FaultPlan:
    """Return a plan with a few changes, some of them faults of another plan; all begin within the safety phase."""
    faults = list(parent.faults)
    for _ in range(stream.between(1, CHANGES_MAX)):
        change = stream.below(5)
        if change == 0 or not faults:
            faults += _drawn(parent, stream, setting)
        elif change == 1:
            cut_us = stream.below(parent.safety_us)
            faults = [fault for fault in faults if fault.at_us < cut_us]
            faults += [fault for fault in other.faults if fault.at_us >= cut_us]
        else:
            changed = _changed(faults.pop(stream.below(len(faults))), change, stream, setting)
            faults += [] if changed is None else [changed]
    return parent.with_faults(tuple(fault for fault in faults if 0 <= fault.at_us < parent.safety_us))


def _changed(fault: Fault, change: int, stream: RandomStream, setting: Setting) -> Fault | None:
    """Return a fault that was moved, lasts longer or shorter, or strikes another broker; None if it is left out."""
    if change == 2:
        return None
    if change == 3 or not fault.duration_us:
        return fault.moved_to(max(0, fault.at_us + stream.between(-SHIFT_US, SHIFT_US)))
    if stream.below(2) and hasattr(fault, "broker"):
        return structs.replace(fault, broker=stream.choice(setting.brokers))
    return fault.lasting(stream.between(1_000, 2 * fault.duration_us))


def _drawn(plan: FaultPlan, stream: RandomStream, setting: Setting) -> list[Fault]:
    """Return a new fault at any time; none if the kind that is drawn cannot happen."""
    brokers = len(setting.brokers)
    draw = Draw(stream, setting, safety_us=plan.safety_us, longest_us=2 * SHIFT_US, broken_max=brokers)
    draw.at_us = stream.below(plan.safety_us)
    fault = stream.choice([kind for kind in FAULT_KINDS.values() if kind.is_possible(setting)]).draw(draw)
    return [] if fault is None else [fault]


def shrink_run(
    scenario: Scenario, run: Run, plan: FaultPlan, failure: Result, is_over: Callable[[], bool]
) -> Shrinking:
    """Return the finished search for the smallest plan with which a run still fails in its first failure."""
    assert not failure.held
    name = failure.failed[0]

    def fails(smaller: FaultPlan) -> bool:
        return name in play_scenario(scenario, run.seed, run.version, documented=False, plan=smaller).failed

    shrinking = Shrinking(plan, fails, is_over)
    shrinking.run(failure.failed_at_us)
    return shrinking
