"""Results to come, and coroutines that wait for them: our own, driven by `Process`, and none of asyncio's.

A coroutine awaits a `Future`, which yields itself to whoever drives the coroutine. Nothing here runs by itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

T = TypeVar("T")


class CancelledError(Exception):
    """What a waiter gets whose task was cancelled, or whose task's process was killed."""


class Future(Generic[T]):
    """A result that will be there once; whoever awaits it goes on in the process that it belongs to.

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
        """Return the result, or raise the exception it was given."""
        assert self.done, "the result is not there yet"
        if self._exception is not None:
            raise self._exception
        return cast("T", self._result)

    def exception(self) -> Exception | None:
        """Return the exception it was given, or None."""
        assert self.done, "the result is not there yet"
        return self._exception

    def set_result(self, result: T) -> None:
        """Give the result, once; its callbacks run now."""
        assert not self.done, "a future is done once"
        self._result = result
        self._finish()

    def set_exception(self, exception: Exception) -> None:
        """Give an exception in place of a result, once."""
        assert not self.done, "a future is done once"
        self._exception = exception
        self._finish()

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback(self)` once done: at once if it is done already."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def remove_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Forget a callback that was added and has not been called."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def __await__(self) -> Generator[Future[T], None, T]:
        """Wait in a coroutine of a `Process`."""
        if not self.done:
            yield self
        return self.result()

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for it."""
        return bool(self._callbacks)

    def _finish(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def gather(futures: Iterable[Future[T]]) -> Future[list[T]]:
    """Return a future of all results in the order given; it fails with the first failure, once all are done."""
    waited = list(futures)
    gathered: Future[list[T]] = Future()
    missing = len(waited)

    def one_is_done(_: Future[T]) -> None:
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
        future.add_done_callback(one_is_done)
    return gathered


class Queue(Generic[T]):
    """Items in the order they were put; `await queue.get()` waits for one.

    An item is never lost with a waiter: one that dies between being woken and running leaves the item to the next.
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
            except BaseException:  # the coroutine is being closed: whoever was woken in vain passes it on
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                elif self._items:
                    self._wake()
                raise
        return self._items.popleft()

    def clear(self) -> None:
        """Drop all items; waiters go on waiting."""
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)

    def check(self) -> None:
        """Assert that every waiter waits still."""
        assert not any(waiter.done for waiter in self._waiters)

    def _wake(self) -> None:
        if self._waiters:
            self._waiters.popleft().set_result(None)
