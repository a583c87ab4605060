"""Waiting in tests without sleeping: for what another thread reports, within a generous bound."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 120.0
"""Only a failure lasts so long; a machine that stands still for a while is not one."""


class Reports:
    """Arguments of callbacks in order; a test reads them one by one or waits for one."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Any] = queue.Queue()

    def __call__(self, *reported: Any) -> None:
        self._queue.put(reported[0] if len(reported) == 1 else reported)

    def next(self) -> Any:
        try:
            return self._queue.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError(f"nothing was reported within {PATIENCE_S} s") from None

    def until(self, wanted: Callable[[Any], bool]) -> Any:
        """The first report that is `wanted`; those before it are dropped."""
        while True:
            reported = self.next()
            if wanted(reported):
                return reported

    def until_equal(self, wanted: Any) -> None:
        self.until(lambda reported: bool(reported == wanted))

    @property
    def empty(self) -> bool:
        return self._queue.empty()


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """Run `work` in a thread of its own; `.result(PATIENCE_S)` waits for it."""
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # whatever it was, it belongs to whoever asks for the result
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome
