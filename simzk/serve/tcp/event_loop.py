"""One server or one ensemble on an event loop: deadline timer, disk failure, stop.

Rules of this module:
  - everything of it runs on one event loop, which somebody else runs: `simzk serve` in its main thread,
    `simzk.ZooKeeperServer` in a thread of its own;
  - nothing polls: a timer is set only to the next deadline of the driver, and only on wall time;
  - when the disk fails, all connections are closed: nothing more would be acknowledged.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.clock import Clock
    from simzk.serve.storage.data_directory import DataDirectory
    from simzk.serve.storage.directory_reader import Loss
    from simzk.serve.storage.ensemble_directory import EnsembleDirectory
    from simzk.serve.wire_driver import WireDriver


class EventLoopServer(ABC):
    """Base of `TcpServer` and `TcpEnsemble`.

    Attributes:
        driver: the way to the server, or to all of the ensemble; a subclass sets it with `use_driver`.
        storage: its data on disk; None in memory.
        failure: why it serves nobody any more.
        on_failure: called on the loop after that.
    """

    driver: WireDriver

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.storage: DataDirectory | EnsembleDirectory | None = None
        self.failure: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.thread_id: int = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def use_driver(self, driver: WireDriver) -> None:
        """Serve what a driver drives."""
        self.driver = driver
        driver.on_failure = lambda error: self.fail(SimzkError(f"cannot write to the data directory: {error}"))

    @property
    def losses(self) -> list[Loss]:
        """Transactions and files that its data directories lack."""
        return [] if self.storage is None else self.storage.losses

    async def start(self) -> None:
        """Use the running loop."""
        assert self._loop is None, "it was started before"
        self._loop = asyncio.get_running_loop()
        self.thread_id = threading.get_ident()

    @abstractmethod
    def stop(self) -> None:
        """Refuse new connections, and close those that are open; on the loop."""

    @property
    def is_on_loop(self) -> bool:
        """Whether this is the thread of its loop."""
        return threading.get_ident() == self.thread_id

    def arm(self) -> None:
        """Set the timer to the driver's next deadline; on the loop, of no effect before the start."""
        delay_s = self.driver.seconds_to_deadline()
        if delay_s is None or self._loop is None:
            return
        assert self.is_on_loop, "asyncio's timers are of its loop's thread alone"
        due_s = self._loop.time() + max(delay_s, 0)
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._tick)

    def arm_anywhere(self) -> None:
        """Set the timer, from any thread: asyncio's timers are of its loop's thread alone."""
        if self.is_on_loop:
            self.arm()
        else:
            self.call_on_loop(self.arm)

    def disarm(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        assert self._timer is not None, "a tick begins by the loop's only timer"
        self._timer = None
        self.driver.tick()
        self.arm()

    def call_on_loop(self, callback: Callable[[], None]) -> None:
        """Call back on the loop's thread, from any thread; of no effect while there is no loop."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def fail(self, failure: Exception) -> None:
        """Close all connections, because nothing can be served any more; from any thread."""
        self.failure = failure
        self.call_on_loop(self._close_failed)

    def _close_failed(self) -> None:
        self.driver.close()
        self.on_failure()

    def close_storage(self) -> None:
        """Write the last of the data, unless the disk has failed."""
        if self.storage is None:
            return
        if self.failure is None:
            self.storage.close()
        else:
            self.storage.abandon()
