"""Invariants of a run, and the monitor that checks them at every event.

An invariant is checked as each event is recorded, between two steps of the run, so that a violation is reported for the
event that caused it. Other state that it checks (a tree, a table) is given to its constructor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.simulation.history import Event, History

VIOLATIONS_MAX = 100
"""Number of violations that are stored; after the first ones, more of them tell nothing new."""


class Invariant(Protocol):
    """A condition that holds after every event."""

    @property
    def name(self) -> str:
        """The condition in a few words, such as `the version of a znode only grows`."""

    def check(self, event: Event) -> str | None:
        """Return how the condition is violated after `event`; None if it holds."""


class Violation(NamedTuple):
    """A violation of an invariant: the event that caused it, the seed of the run, and what was found."""

    invariant: str
    event: Event
    seed: int
    detail: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}, broken by {' '.join(str(self.event).split())} (seed {self.seed})"

    def to_json(self) -> dict[str, object]:
        """Return the violation as a JSON object."""
        return {
            "invariant": self.invariant,
            "event": self.event.to_json(),
            "seed": self.seed,
            "detail": self.detail,
        }


class Monitor:
    """Check of invariants at every event of a history.

    Args:
        history: the history, checked from now on.
        invariants: the invariants.
        seed: the seed of the run, stored with each violation.

    >>> from simzk.simulation.history import History
    >>> from simzk.simulation.scheduler import Scheduler
    >>> class NobodyDies:
    ...     name = "nobody dies"
    ...     def check(self, event):
    ...         return f"{event.who} died" if event.what == "killed" else None
    >>> history = History(Scheduler(seed=1))
    >>> monitor = Monitor(history, [NobodyDies()], seed=1)
    >>> history.record("broker 1", "killed")
    >>> print(monitor.violations[0])
    nobody dies: broker 1 died, broken by 0.000 s broker 1 killed (seed 1)
    """

    def __init__(self, history: History, invariants: Sequence[Invariant], *, seed: int) -> None:
        self.invariants: tuple[Invariant, ...] = tuple(invariants)
        self.violations: list[Violation] = []
        self._seed = seed
        history.observers.append(self._check)

    def _check(self, event: Event) -> None:
        for invariant in self.invariants:
            detail = invariant.check(event)
            if detail is not None and len(self.violations) < VIOLATIONS_MAX:
                self.violations.append(Violation(invariant.name, event, self._seed, detail))
