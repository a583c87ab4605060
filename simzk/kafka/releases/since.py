"""Fields of a release profile, each declared once with the releases in which its value changes.

Rules of the module:
  - a field states from which release a value holds; no release is derived from its neighbour, so a new value from 2.4
    on cannot change 2.3;
  - a release is a tuple of numbers compared from the left: `(2, 4)` is the first release of the 2.4 line;
  - `at_release` evaluates every field of a profile for one release.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")
Profile = TypeVar("Profile")

Release: TypeAlias = tuple[int, ...]

OLDEST: Final[Release] = (0, 8, 0)
_ROWS: Final = "by_release"


def by_release(oldest: T, *later: tuple[Release, T]) -> T:
    """Declare a field with a value for each range of releases.

    Args:
        oldest: the value from `OLDEST` on.
        later: first release of each later range, ascending, with the value that holds from it on.
    """
    rows = ((OLDEST, oldest), *later)
    firsts = [first for first, _ in rows]
    assert firsts == sorted(set(firsts)), f"rows are not ascending: {firsts}"
    declared: T = field(metadata={_ROWS: rows[::-1]})
    return declared


def since(first: Release, *, before: Release | None = None) -> bool:
    """Declare a field that is true from one release on, and false again from `before` on."""
    return by_release(False, (first, True)) if before is None else by_release(False, (first, True), (before, False))


def before(first: Release) -> bool:
    """Declare a field that is true in all releases before this one."""
    return by_release(True, (first, False))


def at_release(profile: type[Profile], release: Release) -> Profile:
    """Return the profile with the value of every field at a release.

    Args:
        profile: a dataclass; all its fields are declared by `by_release`, `since` or `before`.
        release: such as `(2, 4, 1)`.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Rules:
    ...     fences: bool = since((2, 1))
    >>> at_release(Rules, (2, 0, 1)), at_release(Rules, (2, 1))
    (Rules(fences=False), Rules(fences=True))
    """
    assert release >= OLDEST, f"no release before {OLDEST}: {release}"
    values = {}
    for declared in fields(profile):  # type: ignore[arg-type]  # a dataclass
        values[declared.name] = next(value for first, value in declared.metadata[_ROWS] if first <= release)
    return profile(**values)
