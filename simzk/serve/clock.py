"""The time that a server is told: standing still, running with the wall, or somebody else's.

Rules of this module:
  - a clock answers `now_ms()`, integer milliseconds that never go back; the server below reads none itself;
  - only a `StillClock` can be moved by hand; only a `WallClock` moves by itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class StillClock:
    """Virtual time from 0: it stands still while somebody debugs, and moves when it is told to.

    Attributes:
        at_ms: what `now_ms` tells; only `move_to` changes it.

    >>> clock = StillClock()
    >>> clock.move_to(1_500)
    >>> clock.now_ms()
    1500
    """

    def __init__(self) -> None:
        self.at_ms: int = 0

    def now_ms(self) -> int:
        return self.at_ms

    def move_to(self, at_ms: int) -> None:
        assert at_ms >= self.at_ms, "virtual time never goes back"
        self.at_ms = at_ms


class WallClock:
    """Wall time in ms since 1970, as a real server stamps its znodes, but steady when the machine's clock is set."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000


class BorrowedClock:
    """The time of whoever drives the server, as a simulated cluster does.

    >>> BorrowedClock(lambda: 42).now_ms()
    42
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms


Clock = StillClock | WallClock | BorrowedClock
