"""Fields of a release profile, each declared once with the releases in which its value changes.

Rules of the module:
  - a field states from which release a value holds; no release is derived from its neighbour, so a new value from 2.4
    on cannot change 2.3;
  - a release is a tuple of numbers compared from the left: `(2, 4)` is the first release of the 2.4 line;
  - `at_release` evaluates every field of a profile for one release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeAlias, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

Release: TypeAlias = tuple[int, ...]

OLDEST: Final[Release] = (0, 8, 0)


class _Rows(tuple[tuple[Release, object], ...]):
    """Values of a declared field with the first release of each, latest first."""


def by_release(oldest: T, *later: tuple[Release, T]) -> T:
    """Declare a field with a value for each range of releases.

    Args:
        oldest: the value from `OLDEST` on.
        later: first release of each later range, ascending, with the value that holds from it on.
    """
    rows = ((OLDEST, oldest), *later)
    firsts = [first for first, _ in rows]
    assert firsts == sorted(set(firsts)), f"rows are not ascending: {firsts}"
    declared: T = _Rows(rows[::-1])  # type: ignore[assignment]  # `Profile` replaces it by a value
    return declared


def since(first: Release, *, before: Release | None = None) -> bool:
    """Declare a field that is true from one release on, and false again from `before` on."""
    return by_release(False, (first, True)) if before is None else by_release(False, (first, True), (before, False))


def before(first: Release) -> bool:
    """Declare a field that is true in all releases before this one."""
    return by_release(True, (first, False))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(by_release, since, before))
class Profile:
    """Immutable values of one release, compared by value; a subclass declares the fields.

    For a type checker it is a dataclass. A real one would compile six methods for each class with code for each field:
    for the hundreds of fields of all profiles that takes a twentieth of the time in which a process starts a cluster.

    Attributes:
        rows: of each declared field, the values with the first release of each, latest first.
    """

    rows: ClassVar[Mapping[str, tuple[tuple[Release, object], ...]]] = {}

    def __init_subclass__(cls) -> None:
        declared = {name: rows for name, rows in vars(cls).items() if isinstance(rows, _Rows)}
        cls.rows = {**cls.rows, **declared}
        for name in declared:
            delattr(cls, name)

    def __init__(self, **values: object) -> None:
        assert values.keys() == self.rows.keys(), f"{type(self).__name__} has the fields {list(self.rows)}"
        self.__dict__.update(values)

    def replace(self, **changes: object) -> Self:
        """Return the profile with other values of some fields."""
        return type(self)(**self.__dict__ | changes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return tuple(self.__dict__.values()).__hash__()  # for keys of caches, whose order nobody sees

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


P = TypeVar("P", bound=Profile)


def at_release(profile: type[P], release: Release) -> P:
    """Return the profile with the value of every field at a release.

    Args:
        profile: the class.
        release: such as `(2, 4, 1)`.

    >>> class Rules(Profile):
    ...     fences: bool = since((2, 1))
    >>> at_release(Rules, (2, 0, 1)), at_release(Rules, (2, 1))
    (Rules(fences=False), Rules(fences=True))
    """
    assert release >= OLDEST, f"no release before {OLDEST}: {release}"
    at = {name: next(value for first, value in rows if first <= release) for name, rows in profile.rows.items()}
    return profile(**at)
