"""The errors of users: what simzk says when it is handed something it cannot use.

The one module that every room may import; it imports nothing. What ZooKeeper itself refuses is not here: that travels
as an error code in a reply, and reaches a kazoo user as kazoo's own exception. A bug of ours is an `AssertionError`.
"""

from __future__ import annotations


class SimzkError(Exception):
    """Something handed in cannot be used: what is wrong, where, and what would be right.

    Args:
        what: one sentence that says what is wrong.
        where: file, line, path or field; empty where the call itself is the place.
        right: what would be right; empty where `what` already says so.

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
    """A scenario file that does not parse, does not fit its schema, or asks for what cannot be."""


class LayoutError(SimzkError):
    """A layout that cannot be: unknown brokers, duplicate replicas, a truncated file."""


class ZnodeError(SimzkError):
    """A znode whose data cannot be read as what its path says it is."""


class ConfigError(SimzkError):
    """An option whose value cannot be, or a part of simzk whose requirements are not installed."""


class FailureSetError(ConfigError):
    """Failure sets that a layout does not have: more would fail than there is."""
