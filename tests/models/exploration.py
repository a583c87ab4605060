"""Breadth-first exploration of a state machine up to a first violation."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

State = TypeVar("State", bound="Hashable")


class Found(NamedTuple):
    """Result of an exploration.

    Args:
        states: number of distinct states that were reached.
        complete: whether all reachable states were reached.
        violated: name of the first violated property; empty if none was.
        steps: the shortest path to the violation, as text.
    """

    states: int
    complete: bool
    violated: str
    steps: tuple[str, ...]


def explore(
    start: State,
    steps: Callable[[State], Iterable[tuple[object, State]]],
    properties: Mapping[str, Callable[[State], bool]],
    *,
    canonical: Callable[[State], State] = lambda state: state,
    limit: int = 1_000_000,
) -> Found:
    """Visit states breadth first until a property is violated, all are visited, or a limit is reached.

    Args:
        start: the first state.
        steps: returns the steps from a state, each with the state after it.
        properties: conditions that hold in every state, by name.
        canonical: returns the representative of all states that differ in names only (symmetry).
        limit: number of states.

    >>> def count(n):
    ...     yield from ((f"+{step}", n + step) for step in (1, 2) if n + step < 9)
    >>> explore(0, count, {"small": lambda n: n < 5})
    Found(states=7, complete=False, violated='small', steps=('+1', '+2', '+2'))
    >>> explore(0, count, {"small": lambda n: n < 9})
    Found(states=9, complete=True, violated='', steps=())
    """
    start = canonical(start)
    reached_by: dict[State, tuple[State, object] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for name, holds in properties.items():
            if not holds(state):
                return Found(len(reached_by), complete=False, violated=name, steps=_path(state, reached_by))
        for step, after in steps(state):
            known = canonical(after)
            if known not in reached_by:
                if len(reached_by) >= limit:
                    return Found(len(reached_by), complete=False, violated="", steps=())
                reached_by[known] = state, step
                queue.append(known)
    return Found(len(reached_by), complete=True, violated="", steps=())


def _path(state: State, reached_by: Mapping[State, tuple[State, object] | None]) -> tuple[str, ...]:
    """Return the steps to a state; with symmetry each step names the replicas as the state before it does."""
    steps: list[str] = []
    origin = reached_by[state]
    while origin is not None:
        before, step = origin
        steps.append(str(step))
        origin = reached_by[before]
    return tuple(reversed(steps))
