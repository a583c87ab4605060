"""Virtual time, chance and threads of one kafka-python client.

Rules of this module:
  - one thread of all runs at any time: the thread of the test, or a `Fiber` that it has resumed and waits for. So the
    order of all steps is decided by the scheduler of the cluster, and not by the operating system;
  - time passes only while the thread of the test waits, as it does in `KafkaCluster.run_for`;
  - a clock that is read again has advanced by a microsecond, so that a loop that waits for the clock ends;
  - threads that a test starts by itself take turns: a thread that waits in a client gives the others theirs;
  - a client draws from a random stream of its own.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableSequence, Sequence
    from typing import Any

    from simzk.serve.tcp.broker_ports import BrokerPort, FrameConnection, FrameTransport
    from simzk.simulation import Network, Scheduler

T = TypeVar("T")

EPOCH_S = 1_000_000.0
"""Reading of a client's monotonic clock at the start of the cluster: kafka-python uses 0 for "never"."""
TICK_S = 0.000001
"""Time between two readings of a clock."""
STEP_US = 100
"""Shortest wait of a fiber: a sender that polls without a timeout would stop time otherwise."""
FOREVER_S = 86_400.0
"""A longer timeout is none."""
LATEST_S = 1e12
"""Latest time of an event, for one that kafka-python wants never."""
PATIENCE_US = 3_600_000_000
"""Longest virtual time that a wait without a timeout takes, and a call of a client, which may wait many times."""
TURN_S = 0.0005
"""Wall time in which another thread begins its turn."""


class MemoryBrokers(Protocol):
    """A simulated cluster, as far as clients in memory use it.

    Attributes:
        scheduler: its virtual time.
        network: the network between clients and brokers.
        lock: whoever uses the cluster holds it.
    """

    scheduler: Scheduler
    network: Network
    lock: FiberLock

    @property
    def addresses(self) -> list[str]:
        """The address of each broker, as clients write it."""

    def now_ms(self) -> int:
        """Return its time in ms since 1970."""

    def pass_time(self, until_us: int) -> None:
        """Let virtual time pass; the caller holds the lock."""

    def find(self, host: str, port: int) -> BrokerPort | None:
        """Return the port of a broker with an address; None if there is none."""

    def end_of(self, broker: int) -> str:
        """Return the name of a broker in the network."""

    def connect(self, port: BrokerPort, transport: FrameTransport) -> FrameConnection | None:
        """Return the broker's end of a new connection; None if it accepts none."""


class Call(NamedTuple):
    """A call of a client's public method.

    Attributes:
        name: the method's.
        began_us: the virtual time at which it began.
        asked_s: returns the timeout that the caller asked for, in seconds; None for none.
    """

    name: str
    began_us: int
    asked_s: Callable[[], float | None]

    def check(self, runtime: ClientRuntime) -> None:
        """Raise TimeoutError if the call waits in vain: kafka-python's next() polls again and again."""
        passed_us = runtime.brokers.scheduler.now_us - self.began_us
        if passed_us < PATIENCE_US:
            return
        asked_s = self.asked_s()
        if asked_s is None or passed_us >= asked_s * 1_000_000 + PATIENCE_US:
            waited_s = passed_us // 1_000_000
            raise TimeoutError(f"{runtime.name}: {self.name} has waited for {waited_s} virtual seconds in vain")


class _Present(threading.local):
    """The client that a thread runs at present."""

    runtime: ClientRuntime | None = None
    call: Call | None = None
    fiber: Fiber | None = None
    in_step: bool = False


_present = _Present()


def present() -> ClientRuntime | None:
    """Return the client whose code this thread runs; None if it runs none in memory."""
    return _present.runtime


def poller() -> object:
    """Return what identifies the present thread: its fiber, or the thread itself."""
    return _present.fiber or threading.get_ident()


def is_outside(polling: object) -> bool:
    """Return whether this thread runs neither an event nor the code of `polling`, a value of `poller()`."""
    return not _present.in_step and poller() != polling


def require_test() -> None:
    """Raise RuntimeError if this thread runs in an event: a callback of a client in memory, or a background call."""
    if _present.in_step or _present.fiber is not None:
        raise RuntimeError("time passes already: only the thread of the test can let it pass")


class FiberLock:
    """A reentrant lock that the thread which resumes a fiber holds for it too."""

    __slots__ = ("_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: dict[int, None] = {}  # threads; each changes its own item only

    def __enter__(self) -> None:
        if _present.fiber is None and not self._lock.acquire(blocking=False):
            thread = threading.get_ident()
            self._waiting[thread] = None
            try:
                self._lock.acquire()
            finally:
                del self._waiting[thread]

    def give_turn(self) -> None:
        """Let a thread that waits for the lock have it, however often this thread has acquired it."""
        if self._waiting and _present.fiber is None:
            lock: Any = self._lock
            held = lock._release_save()  # as threading.Condition.wait does
            time.sleep(TURN_S)
            lock._acquire_restore(held)

    def __exit__(self, *_: object) -> None:
        if _present.fiber is None:
            self._lock.release()


class ClientRuntime:
    """Clock, chance and waits of one client; its end in the network, events and random stream have its name."""

    def __init__(self, brokers: MemoryBrokers, name: str) -> None:
        self.brokers: MemoryBrokers = brokers
        self.name: str = name
        self._waiting: dict[Fiber, None] = {}
        self._stream = brokers.scheduler.stream(name)
        self._read_s = EPOCH_S

    @contextmanager
    def calling(self, name: str, asked_s: Callable[[], float | None]) -> Iterator[None]:
        """Note that this thread is in a call of the client's method `name`, whose time is limited."""
        before = _present.call
        if before is None:
            _present.call = Call(name, self.brokers.scheduler.now_us, asked_s)
        try:
            yield
        finally:
            _present.call = before

    @contextmanager
    def entered(self, *, in_step: bool = False) -> Iterator[None]:
        """Note that this thread runs the client's code in a block.

        Args:
            in_step: whether an event of the scheduler runs it, so that it cannot wait.
        """
        before = _present.runtime, _present.in_step
        _present.runtime, _present.in_step = self, in_step or _present.in_step
        try:
            yield
        finally:
            _present.runtime, _present.in_step = before

    # Its clock

    def monotonic(self) -> float:
        """Return the reading of its monotonic clock in seconds."""
        now_s = EPOCH_S + self.brokers.scheduler.now_us / 1_000_000
        self._read_s = max(now_s, self._read_s + TICK_S)
        return self._read_s

    def at_us(self, reading_s: float) -> int:
        """Return the virtual time at which the clock reads at least `reading_s`, which is not past."""
        return max(self.brokers.scheduler.now_us, math.ceil(min(reading_s - EPOCH_S, LATEST_S) * 1_000_000))

    def time(self) -> float:
        """Return the seconds since 1970."""
        return self.brokers.now_ms() / 1000

    # Its waits

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.wait(lambda: False, seconds)

    def wait(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Let virtual time pass until a condition holds; return whether it does.

        Args:
            is_over: the condition; it is checked after each instant at which something happens.
            timeout_s: longest virtual time to wait; None for no limit.

        Raises:
            RuntimeError: a callback of a client waits, in the middle of an event.
            TimeoutError: the condition does not hold within an hour, and there is no limit; or the call that waits
                takes more than an hour.
        """
        if _present.fiber is not None:
            return self._wait_in_fiber(_present.fiber, is_over, timeout_s)
        self.require_wait()
        brokers = self.brokers
        with brokers.lock:
            scheduler = brokers.scheduler
            is_limited = timeout_s is not None and timeout_s < FOREVER_S
            limit_us = max(1, math.ceil(timeout_s * 1_000_000)) if timeout_s is not None and is_limited else PATIENCE_US
            end_us = scheduler.now_us + limit_us
            while not is_over():
                if _present.call is not None:
                    _present.call.check(self)
                if scheduler.now_us >= end_us:
                    if is_limited:
                        return False
                    raise TimeoutError(f"{self.name} waited for {limit_us // 1_000_000} virtual seconds in vain")
                next_us = scheduler.next_at_us
                brokers.pass_time(end_us if next_us is None else min(next_us, end_us))
                brokers.lock.give_turn()
        return True

    def _wait_in_fiber(self, fiber: Fiber, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Let other threads run until a condition holds; return whether it does. A closed cluster is a SystemExit."""
        scheduler, timer, is_late = self.brokers.scheduler, None, False

        def end() -> None:
            nonlocal is_late
            is_late = True
            fiber.resume()
            self.look()

        if timeout_s is not None and timeout_s < FOREVER_S:
            timer = scheduler.call_later(max(STEP_US, math.ceil(timeout_s * 1_000_000)), self.name, end)
        assert fiber not in self._waiting, "a fiber waits for one condition"
        self._waiting[fiber] = None
        fiber.is_over = is_over
        try:
            fiber.pause()
        finally:
            self._waiting.pop(fiber, None)
            if timer is not None:
                timer.cancel()
        return not is_late

    def look(self) -> None:
        """Resume the fibers for which what they wait for has happened; in an event, on the thread of the test."""
        assert _present.fiber is None, "a fiber cannot resume another one"
        while ready := next((fiber for fiber in self._waiting if fiber.is_over()), None):
            ready.resume()

    def require_wait(self) -> None:
        """Raise RuntimeError if this thread runs a callback of a client, in the middle of an event."""
        if _present.in_step:
            raise RuntimeError(f"{self.name}: a callback of a client cannot wait for a response")

    # Its chance, with the names of the module `random`

    def uniform(self, low: float, high: float) -> float:
        """Return a number between two limits."""
        return low + (high - low) * self._stream.bits(53) / (1 << 53)

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return self._stream.choice(items)

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Bring the items into random order."""
        items[:] = self._stream.shuffled(items)


class VirtualEvent:
    """Replacement of `threading.Event`: a thread of `runtime` that waits for it lets virtual time pass."""

    __slots__ = ("_is_set", "runtime")

    def __init__(self, runtime: ClientRuntime) -> None:
        self.runtime: ClientRuntime = runtime
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; return whether it is."""
        return self._is_set or self.runtime.wait(self.is_set, timeout)


class Fiber:
    """A thread that runs while the thread that resumes it waits, and never else.

    Args:
        runtime: the client that its code begins with; None for none.

    Attributes:
        done: whether its code has ended.
        error: what its code has raised; None for nothing.
        is_over: the condition that it waits for.
    """

    def __init__(self, runtime: ClientRuntime | None) -> None:
        self._runtime = runtime
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._abandoned = False
        self.done: bool = False
        self.error: BaseException | None = None
        self.is_over: Callable[[], bool] = lambda: False

    def run(self, body: Callable[[], None]) -> None:
        """Run the code of the fiber; in its thread."""
        assert _present.fiber is None, "a thread is one fiber"
        assert not self.done, "a fiber runs once"
        _present.runtime, _present.fiber = self._runtime, self
        self._go.acquire()
        try:
            if not self._abandoned:
                body()
        except SystemExit:
            pass  # of `pause`
        except BaseException as error:
            self.error = error
        finally:
            self.done = True
            self._back.release()

    def pause(self) -> None:
        """Let the thread that has resumed it go on; return when it is resumed again. In its thread.

        Raises:
            SystemExit: the cluster is closed.
        """
        assert _present.fiber is self, "a fiber pauses in its own thread"
        self._back.release()
        self._go.acquire()
        if self._abandoned:
            raise SystemExit

    def resume(self) -> None:
        """Let it run until it pauses or ends; raise what its code raises."""
        assert _present.fiber is not self, "a fiber that runs would wait for itself"
        if not self.done:
            self._go.release()
            self._back.acquire()
            if self.error is not None:
                raise self.error

    def abandon(self) -> None:
        """End its code where it waits."""
        self._abandoned = True
        self.resume()
