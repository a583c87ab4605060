"""Virtual time: one heap of events, in integer microseconds.

Rule 1: events run in the order of their time; between two events nothing happens.
Rule 2: events of equal time run in the order of a keyed hash of (seed, component, that component's event counter). The
        order looks random, so that nobody comes to rely on one; the seed fixes it; and a component which is added
        changes neither the counters nor the hashes of the others.
Rule 3: time never falls, and a run in which it stops rising fails, naming the component that keeps it busy.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from simzk.simulation.streams import RandomStream, keyed_hash

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER_US = 1 << 62
"""No event is so late."""
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

EVENTS_AT_ONE_INSTANT_MAX = 1_000_000
"""So many events at one instant of virtual time are a loop, not work."""


class NoProgressError(RuntimeError):
    """A run whose virtual time no longer rises, because a component keeps waking itself or another at one instant."""


class Timer:
    """One event to come; `cancel()` makes it never run."""

    __slots__ = ("at_us", "callback", "component")

    def __init__(self, at_us: int, component: str, callback: Callable[[], None] | None) -> None:
        self.at_us: int = at_us
        self.component: str = component
        self.callback = callback

    @property
    def active(self) -> bool:
        """Whether it is still to run."""
        return self.callback is not None

    def cancel(self) -> None:
        """Make it never run; of no effect once it ran."""
        self.callback = None


class _Component:
    """A component's key, and how many events it has scheduled so far."""

    __slots__ = ("counter", "key")

    def __init__(self, seed: int, name: str) -> None:
        self.key = keyed_hash(seed, f"order/{name}")
        self.counter = 0

    def next_order(self) -> int:
        """Count an event; its place among those of equal time, spread over 64 bits by the finaliser of SplitMix64
        (Steele, Lea, Flood: OOPSLA 2014)."""
        self.counter = counter = self.counter + 1
        value = (self.key + counter * _GOLDEN) & _MASK
        value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
        value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
        return value ^ (value >> 31)


class Scheduler:
    """The one clock and the one queue of a simulated run.

    Args:
        seed: decides every draw and the order of events of equal time.

    Attributes:
        paused: the components that stand still for a while (`Process.pause`).

    >>> scheduler = Scheduler(seed=1)
    >>> timer = scheduler.call_later(1_500_000, "broker-1", lambda: print(f"at {scheduler.now_us}"))
    >>> scheduler.run_until(2_000_000)
    at 1500000
    >>> scheduler.now_us
    2000000
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us: int = 0
        self.events_run: int = 0
        self.paused: dict[str, None] = {}
        # (time, order among equals, component, its counter): the last two decide only where two hashes collide.
        self._heap: list[tuple[int, int, str, int, Timer]] = []
        self._components: dict[str, _Component] = {}
        self._streams: dict[str, RandomStream] = {}
        self._events_before_now = 0

    def call_at(self, at_us: int, component: str, callback: Callable[[], None]) -> Timer:
        """Run `callback` at a time that is not past, as an event of `component`."""
        assert at_us >= self.now_us, f"{component}: {at_us} us is past, now is {self.now_us} us"
        known = self._components.get(component)
        if known is None:
            known = self._components[component] = _Component(self.seed, component)
        timer = Timer(at_us, component, callback)
        heapq.heappush(self._heap, (at_us, known.next_order(), component, known.counter, timer))
        return timer

    def call_later(self, delay_us: int, component: str, callback: Callable[[], None]) -> Timer:
        """Run `callback` after a delay that may be zero."""
        return self.call_at(self.now_us + delay_us, component, callback)

    def stream(self, name: str) -> RandomStream:
        """Return the stream of that name: the same object, going on where it was, each time it is asked for."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = RandomStream(self.seed, name)
        return stream

    @property
    def next_at_us(self) -> int | None:
        """When the next event runs; None if there is none."""
        heap = self._heap
        while heap and heap[0][4].callback is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_next(self) -> bool:
        """Run one event; return whether there was one.

        Raises:
            NoProgressError: a million events ran and time did not move.
        """
        return self._run(NEVER_US)

    def run_until(self, at_us: int) -> None:
        """Run all events up to and including `at_us`, which is the time afterwards."""
        assert at_us >= self.now_us, f"{at_us} us is past, now is {self.now_us} us"
        while self._run(at_us):
            pass
        if at_us > self.now_us:
            self.now_us = at_us
            self._events_before_now = self.events_run

    def _run(self, until_us: int) -> bool:
        """Run the next event if it is not beyond a time; return whether there was one."""
        heap = self._heap
        while heap:
            at_us, _, _, _, timer = heap[0]
            callback = timer.callback
            if callback is not None and at_us > until_us:
                return False
            heapq.heappop(heap)
            if callback is None:
                continue
            timer.callback = None
            if at_us > self.now_us:
                self.now_us = at_us
                self._events_before_now = self.events_run
            self.events_run += 1
            if self.events_run - self._events_before_now > EVENTS_AT_ONE_INSTANT_MAX:
                raise NoProgressError(self._describe_loop(timer.component))
            callback()
            return True
        return False

    def check(self) -> None:
        """Assert that the heap is one, that no event is past, and that no counter was given twice."""
        seen: set[tuple[str, int]] = set()
        for index, (at_us, _, component, counter, timer) in enumerate(self._heap):
            assert self._heap[(index - 1) // 2 if index else 0][:4] <= self._heap[index][:4]
            assert at_us >= self.now_us
            assert timer.at_us == at_us
            assert timer.component == component
            assert 1 <= counter <= self._components[component].counter
            assert (component, counter) not in seen
            seen.add((component, counter))

    def _describe_loop(self, last: str) -> str:
        waiting = [entry[2] for entry in sorted(self._heap)[:5] if entry[0] == self.now_us and entry[4].active]
        also = f"; next in line: {', '.join(waiting)}" if waiting else ""
        return (
            f"no progress: {EVENTS_AT_ONE_INSTANT_MAX:,} events ran at {self.now_us} us of virtual time; "
            f"the busy component is {last}{also}"
        )
