"""Disk of one broker: its accesses, one after the other, and how long each takes.

Rules of this module (docs/reference/kafka.md §2.17):
  - on a slow disk accesses queue up, and each takes the same time; a disk that becomes fast serves the queue at once;
  - reads at the log end come from the page cache and are no accesses: followers that have caught up do not notice;
  - accesses end with the process of the broker.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.simulation import Process, Timer


class Disk:
    """Disk of a broker.

    Attributes:
        delay_us: duration of an access; 0 for a disk that is fast enough.
    """

    def __init__(self, process: Process) -> None:
        self.delay_us = 0
        self._process = process
        self._waiting: deque[Callable[[], None]] = deque()
        self._timer: Timer | None = None

    @property
    def is_fast(self) -> bool:
        """Whether an access takes no time."""
        return not self.delay_us and not self._waiting

    def access(self, then: Callable[[], None]) -> None:
        """Access the disk after those who wait, and call back; at once if the disk is fast."""
        if self.is_fast:
            then()
            return
        self._waiting.append(then)
        if len(self._waiting) == 1:
            self._start_next()

    def set_delay(self, delay_us: int) -> None:
        """Change the duration of accesses, also of the one under way."""
        self.delay_us = delay_us
        if self._waiting:
            assert self._timer is not None, "the first access has begun"
            self._timer.cancel()
            self._start_next()

    def restart(self) -> None:
        """Forget who waits: the process of the broker has ended."""
        self._waiting.clear()
        self._timer = None

    def _start_next(self) -> None:
        assert self._waiting
        self._timer = self._process.call_later(self.delay_us, self._finish)

    def _finish(self) -> None:
        assert self._timer is not None
        then = self._waiting.popleft()
        if self._waiting:
            self._start_next()
        then()
