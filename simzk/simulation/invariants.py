"""What must hold at every step, and who watches that it does.

An invariant sees every event as it is recorded, between two steps of the run, so that a break is laid to the very event
that made it. What an invariant looks at besides (a tree, a table) it was given when it was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.simulation.history import Event, History

VIOLATIONS_MAX = 100
"""So many are kept: a broken run breaks again at each step, and the first ones tell why."""


class Invariant(Protocol):
    """Something that must hold after every event."""

    @property
    def name(self) -> str:
        """What must hold, in a few words: `one controller to an epoch`."""

    def check(self, event: Event) -> str | None:
        """Return how it is broken now that `event` has happened; None where it holds."""


class Violation(NamedTuple):
    """A broken invariant: which one, by which event, in which run, and how."""

    invariant: str
    event: Event
    seed: int
    detail: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}, broken by {' '.join(str(self.event).split())} (seed {self.seed})"

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {
            "invariant": self.invariant,
            "event": self.event.to_json(),
            "seed": self.seed,
            "detail": self.detail,
        }


class Monitor:
    """Checks invariants at every event of a history.

    Args:
        history: watched from now on.
        invariants: what must hold.
        seed: the run's, so that a violation tells how to see it again.

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
