"""What a command of `simzk` left, for tests that run one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Finished(NamedTuple):
    """The exit status of a command, and what it wrote."""

    status: object
    out: str
    err: str


Simzk: TypeAlias = Callable[..., Finished]
"""`simzk("layout", "show", path)` runs that command."""
