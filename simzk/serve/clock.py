"""Clocks of a server: virtual time, wall time, or the time of a simulated cluster.

Rules of this module:
  - `now_ms()` returns integer milliseconds that never go back; the state machine reads no clock itself;
  - only a `StillClock` is moved by hand; only a `WallClock` moves by itself, and can be set ahead.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


class StillClock:
    """Virtual time from 0: it stands still until `move_to`, so that nothing expires during debugging.

    Attributes:
        at_ms: the present time; only `move_to` changes it.

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
    """Wall time in ms since 1970, as in timestamps of real znodes; it ignores changes of the system clock."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    @property
    def origin_ms(self) -> int:
        """Time at which the machine's monotonic clock was 0; Java's System.nanoTime counts from there."""
        return self._offset_ns // 1_000_000

    def skip(self, duration_ms: int) -> None:
        """Set the clock ahead for good."""
        assert duration_ms >= 0, "time never goes back"
        self._offset_ns += duration_ms * 1_000_000


class BorrowedClock:
    """Time of the simulated cluster that the server belongs to.

    >>> BorrowedClock(lambda: 42).now_ms()
    42
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms


Clock = StillClock | WallClock | BorrowedClock


def own_clock(kind: str) -> StillClock | WallClock:
    """Return a new clock, "still" or "wall"; any other kind is a ConfigError."""
    if kind not in ("still", "wall"):
        raise ConfigError(f"unknown clock {kind!r}", where="clock", right='"still" or "wall"')
    return StillClock() if kind == "still" else WallClock()


def tick_origin_ms(clock: Clock) -> int:
    """Return the time at which a server's first tick begins: on wall time that of the machine's monotonic clock.

    >>> tick_origin_ms(StillClock())
    0
    """
    return clock.origin_ms if isinstance(clock, WallClock) else 0
