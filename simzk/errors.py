"""Errors that simzk raises for invalid input.

Every package may import this module; it imports nothing of simzk. Errors of ZooKeeper are not among them: a reply
carries them as an error code, and kazoo raises its own exception. A bug in simzk raises `AssertionError`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers treat this name as typing.TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class SimzkError(Exception):
    """Invalid input: what is wrong, where, and what is accepted.

    Args:
        what: one sentence that says what is wrong.
        where: file, line, path or field; empty if it is the call itself.
        right: what is accepted; empty if `what` says so.

    >>> str(SimzkError("broker 9 does not exist", where="steps[2].broker", right="one of 1, 2, 3"))
    'steps[2].broker: broker 9 does not exist; expected one of 1, 2, 3'
    """

    def __init__(self, what: str, *, where: str = "", right: str = "") -> None:
        self.what = what
        self.where = where
        self.right = right
        super().__init__(what)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f"; expected {self.right}" if self.right else ""
        return f"{place}{self.what}{remedy}"


class ScenarioError(SimzkError):
    """A scenario file that does not parse, violates its schema, or contains an impossible step."""

    line = 0
    """Line in the file, from 1; 0 if it is unknown."""
    at: tuple[str | int, ...] = ()
    """Path of the key in the file, such as `("step", 3, "broker")`; empty for the whole file."""


class SeveralMistakesError(ScenarioError):
    """Several mistakes of scenario files.

    Args:
        errors: the mistakes, at least two; each has its place in `where`.

    >>> print(SeveralMistakesError([ScenarioError("unknown key", where="a:3: x"), ScenarioError("bad", where="a:9")]))
    2 mistakes:
      a:3: x: unknown key
      a:9: bad
    """

    def __init__(self, errors: list[ScenarioError]) -> None:
        assert len(errors) > 1, errors
        self.errors = errors
        super().__init__(f"{len(errors)} mistakes")

    def __str__(self) -> str:
        return "\n  ".join([f"{self.what}:", *map(str, self.errors)])

    def __reduce__(self) -> tuple[type[SeveralMistakesError], tuple[list[ScenarioError]]]:
        return SeveralMistakesError, (self.errors,)


class LayoutError(SimzkError):
    """An invalid layout: unknown brokers, duplicate replicas, a truncated file."""


class ZnodeError(SimzkError):
    """A znode whose data cannot be decoded as its path requires."""


class RecordingError(SimzkError):
    """A recording of a real cluster that cannot be read, or has a step that cannot be replayed."""


class ConfigError(SimzkError):
    """An option with an invalid value, or a part of simzk whose requirements are not installed."""


class FailureSetError(ConfigError):
    """Failure sets that a layout does not have: more brokers or racks fail than there are."""


class IgnoredSettingWarning(UserWarning):
    """Settings of brokers that are shown to clients, and change nothing that the simulated brokers do."""


def nearest(word: str, names: Iterable[str]) -> str:
    """Return the name that a misspelt word is nearest to; empty if none is near.

    >>> nearest("min.insync.replica", ["num.partitions", "min.insync.replicas"]), nearest("x", ["abc"])
    ('min.insync.replicas', '')
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(names), n=1)), "")
