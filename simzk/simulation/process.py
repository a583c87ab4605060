"""Processes: named components with coroutines and timers, which can be killed, paused and restarted.

Rules of this module:
  - everything that runs in a process passes its mailbox, in order of arrival, one entry per event of the scheduler. An
    entry that would be the next event anyway runs at once (`Process.deliver_last`), which gives the same run for less;
  - a paused process (as by SIGSTOP) queues everything and runs nothing; after `resume` it runs the queue in order;
  - a killed process runs nothing: its coroutines are closed, its timers cancelled, its mailbox emptied; callbacks
    delivered while it is dead are lost; after `restart` it is empty and alive;
  - a coroutine waits by awaiting a `Future`, which yields itself to the process; asyncio is not involved;
  - a task that fails without a waiter fails the run, so that no error is lost.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterable

    from simzk.simulation.scheduler import Component, Scheduler, Timer

T = TypeVar("T")

TIMERS_KEPT_MIN = 64
"""Number of timers of a process from which cancelled ones are removed."""


class CancelledError(Exception):
    """Raised in a coroutine that awaits a task which was cancelled, or the process of which was killed."""


class Future(Generic[T]):
    """A result that is set once; a coroutine that awaits it continues in its own process.

    >>> future: Future[int] = Future()
    >>> future.set_result(3)
    >>> future.done, future.result()
    (True, 3)
    """

    __slots__ = ("_callbacks", "_exception", "_result", "_waiter", "done")

    def __init__(self) -> None:
        self.done: bool = False
        self._result: T | None = None
        self._exception: Exception | None = None
        self._waiter: Task[Any] | None = None  # a task that waits since before the callbacks were added
        self._callbacks: list[Callable[[Future[T]], None]] = []

    def result(self) -> T:
        """Return the result, or raise the exception that was set."""
        assert self.done, "the future is not done"
        if self._exception is not None:
            raise self._exception
        return self._result  # type: ignore[return-value]  # None only if T has it

    def exception(self) -> Exception | None:
        """Return the exception that was set, or None."""
        assert self.done, "the future is not done"
        return self._exception

    def set_result(self, result: T) -> None:
        """Set the result, once, and call the callbacks."""
        assert not self.done, "a future is set once"
        self._result = result
        self.done = True
        if (waiter := self._waiter) is not None:
            self._waiter = None
            waiter.process.deliver(waiter.step)
        if self._callbacks:
            self._call_back()

    def set_last_result(self, result: T) -> None:
        """Set the result as the last act of an event; a task that alone waits for it may run on at once."""
        waiter = self._waiter
        if waiter is None or self._callbacks:
            self.set_result(result)
            return
        assert not self.done, "a future is set once"
        self._result = result
        self.done = True
        self._waiter = None
        waiter.process.deliver_last(waiter.step)

    def set_exception(self, exception: Exception) -> None:
        """Set an exception instead of a result, once, and call the callbacks."""
        assert not self.done, "a future is set once"
        self._exception = exception
        self.done = True
        if (waiter := self._waiter) is not None:
            self._waiter = None
            waiter.process.deliver(waiter.step)
        self._call_back()

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

    @property
    def has_waiter(self) -> bool:
        """Whether a task or a callback waits for the result."""
        return self._waiter is not None or bool(self._callbacks)

    def add_waiter(self, task: Task[Any]) -> None:
        """Let a task run on when the future is done."""
        if self.done:
            task.process.deliver(task.step)
        elif self._waiter is None and not self._callbacks:
            self._waiter = task
        else:
            self._callbacks.append(task.wake)

    def remove_waiter(self, task: Task[Any]) -> None:
        """Let a task not run on when the future is done."""
        if self._waiter is task:
            self._waiter = None
        else:
            self.remove_done_callback(task.wake)

    def _call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def __await__(self) -> Generator[Future[T], None, T]:
        """Wait for the result in a coroutine of a `Process`."""
        if not self.done:
            yield self
        return self.result()


def gather(futures: Iterable[Future[T]]) -> Future[list[T]]:
    """Return a future of all results in the given order; once all are done, it fails with the first failure if any."""
    waited = list(futures)
    gathered: Future[list[T]] = Future()
    missing = len(waited)

    def count_done(_: Future[T]) -> None:
        nonlocal missing
        assert missing > 0, "each future is done once"
        missing -= 1
        if missing:
            return
        failures = [failure for future in waited if (failure := future.exception()) is not None]
        if failures:
            gathered.set_exception(failures[0])
        else:
            gathered.set_result([future.result() for future in waited])

    if not waited:
        gathered.set_result([])
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


class Task(Future[T]):
    """A coroutine that runs in a process, and the future of its result."""

    __slots__ = ("_coroutine", "_running", "_waits_for", "name", "process")

    def __init__(self, process: Process, coroutine: Coroutine[Future[Any], None, T], name: str) -> None:
        super().__init__()
        self.process: Process = process
        self.name: str = name
        self._coroutine = coroutine
        self._running = False
        self._waits_for: Future[Any] | None = None

    def cancel(self) -> None:
        """Close the coroutine where it waits; waiters get `CancelledError`. A done task is not changed."""
        if self.done:
            return
        if self._waits_for is not None:
            self._waits_for.remove_waiter(self)
            self._waits_for = None
        self.set_exception(CancelledError(f"task {self.name} of {self.process.name} was cancelled"))
        self.process.forget(self)
        assert self._waits_for is None, "a cancelled task waits for nothing"
        if not self._running:  # a running coroutine is closed when it waits again
            self._coroutine.close()

    def step(self) -> None:
        """Run the coroutine until it waits or ends."""
        assert not self._running, f"task {self.name} of {self.process.name} is stepped while it runs"
        if self.done:
            return
        assert self.process.alive, f"task {self.name} outlives {self.process.name}"
        assert self._waits_for is None or self._waits_for.done, "a task runs on when its future is done"
        self._waits_for = None
        self._running = True
        try:
            waits_for = self._coroutine.send(None)
        except StopIteration as stop:
            if not self._is_over():
                self.process.forget(self)
                self.set_result(stop.value)
            return
        except Exception as exception:
            if self._is_over():  # it cancelled itself or killed its process, and failed before its next wait
                raise
            self.process.forget(self)
            awaited = self.has_waiter
            self.set_exception(exception)
            if not awaited:
                exception.add_note(f"in task {self.name} of {self.process.name}, which has no waiter")
                raise
            return
        finally:
            self._running = False
        assert isinstance(waits_for, Future), f"task {self.name} awaited {waits_for!r}, which is not a Future of simzk"
        if self._is_over():
            self._coroutine.close()
        else:
            self._waits_for = waits_for
            waits_for.add_waiter(self)

    def _is_over(self) -> bool:
        # A step may end its own task by a cancel or a kill; a method, because mypy would narrow a second test of
        # `done`.
        return self.done

    def wake(self, _: Future[Any]) -> None:
        """Run on: what the task waits for is done."""
        self.process.deliver(self.step)


class Process:
    """A named component of a run.

    Args:
        scheduler: the clock.
        name: the component name of its events, for their order and for its random stream.

    >>> from simzk.simulation.scheduler import Scheduler
    >>> scheduler = Scheduler(seed=1)
    >>> broker = Process(scheduler, "broker-1")
    >>> async def work() -> int:
    ...     await broker.sleep(1_000_000)
    ...     return scheduler.now_us
    >>> task = broker.spawn(work())
    >>> scheduler.run_until(3_000_000)
    >>> task.result()
    1000000
    """

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.alive: bool = True
        self.paused: bool = False
        self.incarnation: int = 1
        self.component: Component = scheduler.component(name)
        self._mailbox: deque[Callable[[], None]] = deque()
        self._armed = False
        self._turn = scheduler.unscheduled(self.component)  # the event that runs the next entry of the mailbox
        self._tasks: dict[Task[Any], None] = {}
        self._timers: dict[Timer, None] = {}
        self._timers_kept_max = TIMERS_KEPT_MIN
        self._resume_timer: Timer | None = None

    def spawn(self, coroutine: Coroutine[Future[Any], None, T], name: str = "") -> Task[T]:
        """Start a coroutine in this process with its next event."""
        task = Task(self, coroutine, name or getattr(coroutine, "__name__", "task"))
        if not self.alive:
            task.cancel()
            return task
        self._tasks[task] = None
        self.deliver(task.step)
        return task

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` in this process after a delay; a kill cancels it, a pause delays it."""
        scheduler = self.scheduler
        timer = scheduler.schedule(scheduler.now_us + delay_us, self.component, callback)
        timer.callback = partial(self._fire, timer, callback)
        if self.alive:
            if len(self._timers) >= self._timers_kept_max:  # remove cancelled timers, rarely
                self._timers = {kept: None for kept in self._timers if kept.active}
                self._timers_kept_max = max(TIMERS_KEPT_MIN, 2 * len(self._timers))
            self._timers[timer] = None
        else:
            timer.cancel()
        return timer

    async def sleep(self, delay_us: int) -> None:
        """Wait for a duration in microseconds."""
        over: Future[None] = Future()
        timer = self.call_later(delay_us, partial(over.set_last_result, None))
        try:
            await over
        finally:
            timer.cancel()

    def deliver(self, callback: Callable[[], None]) -> None:
        """Call `callback` in this process after earlier deliveries; never if the process is dead."""
        if self.alive:
            self._mailbox.append(callback)
            if not self._armed and not self.paused:
                self._armed = True
                self.scheduler.schedule_again(self._turn, self._run_one)

    def deliver_last(self, callback: Callable[[], None]) -> None:
        """Deliver like `deliver`, as the last act of an event: `callback` runs at once if it is the next event anyway.

        Messages are delivered so: most arrive in an empty mailbox, at a time of their own.
        """
        is_free = self.alive and not (self._mailbox or self._armed or self.paused)
        if not is_free or not self.scheduler.run_as_next(self.component, callback):
            self.deliver(callback)

    def kill(self) -> None:
        """End the process at once, as `kill -9` does."""
        if not self.alive:
            return
        self.alive = False
        self.resume()
        self._mailbox.clear()
        timers, self._timers = self._timers, {}
        for timer in timers:
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        assert not self._tasks, f"{self.name}: a task outlives its process"
        assert not self._mailbox, f"{self.name}: a message was delivered to a dead process"
        assert not self._timers

    def restart(self) -> None:
        """Start a dead process again, empty."""
        assert not self.alive, f"{self.name} is alive"
        assert not self._mailbox
        assert not self._tasks
        assert not self._timers, f"{self.name}: a timer outlived its process"
        assert not self.paused, f"{self.name}: a dead process is not paused"
        self.alive = True
        self.incarnation += 1

    def pause(self, duration_us: int | None = None) -> None:
        """Pause the process for a duration or until `resume`; a second pause replaces the end of the first."""
        assert self.alive, f"{self.name} is dead"
        self._cancel_resume()
        self.paused = True
        self.scheduler.paused[self.name] = None
        if duration_us is not None:
            self._resume_timer = self.scheduler.call_later(duration_us, self.name, self.resume)

    def resume(self) -> None:
        """Continue a paused process; everything that has arrived runs in order."""
        self._cancel_resume()
        self.paused = False
        self.scheduler.paused.pop(self.name, None)
        if self.alive and self._mailbox and not self._armed:
            self._arm()

    def forget(self, task: Task[Any]) -> None:
        """Remove a task that is done; called by the task."""
        self._tasks.pop(task, None)

    def check(self) -> None:
        """Assert that a dead process is empty, that a running one has its mailbox scheduled, and no task is done."""
        assert self.alive or not (self._mailbox or self._tasks or self._timers or self.paused)
        assert self._armed or self.paused or not self._mailbox
        assert not any(task.done for task in self._tasks)
        assert len(self._timers) <= self._timers_kept_max
        assert self.paused == (self.name in self.scheduler.paused)
        assert self._resume_timer is None or self.paused, "a running process waits for no resume"

    def _cancel_resume(self) -> None:
        if self._resume_timer is not None:
            self._resume_timer.cancel()
            self._resume_timer = None

    def _fire(self, timer: Timer, callback: Callable[[], None]) -> None:
        """Run the callback of a timer, or queue it behind other entries, where it can still be cancelled."""
        assert self.alive, f"{self.name}: a timer outlives its process"
        assert not timer.active, f"{self.name}: a timer is called before its event"
        self._timers.pop(timer, None)
        if self.paused or self._mailbox:
            timer.callback = callback
            self.deliver(partial(_run_unless_cancelled, timer))
        else:
            callback()

    def _arm(self) -> None:
        """Schedule the next entry of the mailbox."""
        assert not self._armed, f"{self.name}: one entry of the mailbox is scheduled at a time"
        self._armed = True
        self.scheduler.schedule_again(self._turn, self._run_one)

    def _run_one(self) -> None:
        self._armed = False
        mailbox = self._mailbox
        if mailbox and not self.paused:
            assert self.alive, f"{self.name} is dead and has messages"
            run = mailbox.popleft()
            if mailbox:
                self._arm()
            run()


def _run_unless_cancelled(timer: Timer) -> None:
    callback = timer.callback
    if callback is not None:
        timer.cancel()
        callback()
