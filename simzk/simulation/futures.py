"""Futures and queues for coroutines that a `Process` drives; asyncio is not involved.

A coroutine awaits a `Future`, which yields itself to the driver of the coroutine. Nothing here runs by itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

T = TypeVar("T")


class CancelledError(Exception):
    """Raised in a coroutine that awaits a task which was cancelled, or the process of which was killed."""


class Future(Generic[T]):
    """A result that is set once; a coroutine that awaits it continues in its own process.

    >>> future: Future[int] = Future()
    >>> future.set_result(3)
    >>> future.done, future.result()
    (True, 3)
    """

    __slots__ = ("_callbacks", "_exception", "_result", "done")

    def __init__(self) -> None:
        self.done: bool = False
        self._result: T | None = None
        self._exception: Exception | None = None
        self._callbacks: list[Callable[[Future[T]], None]] = []

    def result(self) -> T:
        """Return the result, or raise the exception that was set."""
        assert self.done, "the future is not done"
        if self._exception is not None:
            raise self._exception
        return cast("T", self._result)

    def exception(self) -> Exception | None:
        """Return the exception that was set, or None."""
        assert self.done, "the future is not done"
        return self._exception

    def set_result(self, result: T) -> None:
        """Set the result, once, and call the callbacks."""
        assert not self.done, "a future is set once"
        self._result = result
        self._finish()

    def set_exception(self, exception: Exception) -> None:
        """Set an exception instead of a result, once, and call the callbacks."""
        assert not self.done, "a future is set once"
        self._exception = exception
        self._finish()

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback(self)` when the future is done, immediately if it already is."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def remove_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Remove a callback that has not been called yet."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def __await__(self) -> Generator[Future[T], None, T]:
        """Wait for the result in a coroutine of a `Process`."""
        if not self.done:
            yield self
        return self.result()

    @property
    def awaited(self) -> bool:
        """Whether any callback waits for the future."""
        return bool(self._callbacks)

    def _finish(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def gather(futures: Iterable[Future[T]]) -> Future[list[T]]:
    """Return a future of all results in the given order; once all are done, it fails with the first failure if any."""
    waited = list(futures)
    gathered: Future[list[T]] = Future()
    missing = len(waited)

    def count_done(_: Future[T]) -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            finish()

    def finish() -> None:
        failures = [failure for future in waited if (failure := future.exception()) is not None]
        if failures:
            gathered.set_exception(failures[0])
        else:
            gathered.set_result([future.result() for future in waited])

    if not waited:
        finish()
    for future in waited:
        future.add_done_callback(count_done)
    return gathered


class Queue(Generic[T]):
    """A first-in, first-out queue; `await queue.get()` waits for an item.

    A waiter that is killed between its wake-up and its run does not lose the item: the next waiter is woken.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiters: deque[Future[None]] = deque()

    def put(self, item: T) -> None:
        """Add an item at the end and wake one waiter."""
        self._items.append(item)
        self._wake()

    async def get(self) -> T:
        """Return the first item, waiting until there is one."""
        while not self._items:
            waiter: Future[None] = Future()
            self._waiters.append(waiter)
            try:
                await waiter
            except BaseException:  # the coroutine is closed: pass its wake-up on
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                elif self._items:
                    self._wake()
                raise
        return self._items.popleft()

    def clear(self) -> None:
        """Remove all items; waiters keep waiting."""
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)

    def check(self) -> None:
        """Assert that no waiter in the queue has been woken."""
        assert not any(waiter.done for waiter in self._waiters)

    def _wake(self) -> None:
        if self._waiters:
            self._waiters.popleft().set_result(None)
