"""Wakes a host on an event loop when it next has something to do by itself: a session to expire, a fault to let go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Sleeper(Protocol):
    """What is woken."""

    def seconds_to_deadline(self) -> float | None:
        """How long it may sleep; None: time stands still."""

    def tick(self) -> None:
        """Do what has become due."""


class Alarm:
    """One timer at a time, set to the next deadline of a host; to be used on the loop that it is started with."""

    def __init__(self, sleeper: Sleeper) -> None:
        self._sleeper = sleeper
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the host by this loop from now on."""
        self._loop = loop

    def arm(self) -> None:
        """See to it that the host is woken at its next deadline; of no effect before the start."""
        delay_s = self._sleeper.seconds_to_deadline()
        if delay_s is None or self._loop is None:
            return
        due_s = self._loop.time() + max(delay_s, 0)
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._wake)

    def cancel(self) -> None:
        """Wake nobody any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        self._timer = None
        self._sleeper.tick()
        self.arm()
