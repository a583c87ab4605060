"""Scheduler of virtual time: one heap of events, in integer microseconds.

Rules of this module:
  - events run in the order of their time; nothing happens between two events;
  - events of equal time run in the order of a keyed hash of (seed, component, event counter of the component): the
    order is fixed by the seed but looks random, so that no code depends on it; an added component changes neither the
    counters nor the hashes of the others;
  - time never falls; a run in which it stops rising fails with the name of the busy component.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from simzk.simulation.streams import RandomStream, keyed_hash

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER_US = 1 << 62
"""A time after all events."""
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

EVENTS_AT_ONE_INSTANT_MAX = 1_000_000
"""Number of events at one virtual time that is taken for an endless loop."""


class NoProgressError(RuntimeError):
    """Raised when virtual time stops rising because components wake each other without delay."""


class Timer:
    """A scheduled event, which can be cancelled."""

    __slots__ = ("at_us", "callback", "component")

    def __init__(self, at_us: int, component: str, callback: Callable[[], None] | None) -> None:
        self.at_us: int = at_us
        self.component: str = component
        self.callback = callback

    @property
    def active(self) -> bool:
        """Whether the event is still scheduled."""
        return self.callback is not None

    def cancel(self) -> None:
        """Cancel the event; no effect after it ran."""
        self.callback = None


class _Component:
    """The hash key of a component and the number of events it has scheduled."""

    __slots__ = ("counter", "key")

    def __init__(self, seed: int, name: str) -> None:
        self.key = keyed_hash(seed, f"order/{name}")
        self.counter = 0

    def next_order(self) -> int:
        """Count an event, and return its order among events of equal time.

        The finaliser of SplitMix64 spreads it over 64 bits (Steele, Lea, Flood: OOPSLA 2014).
        """
        self.counter = counter = self.counter + 1
        value = (self.key + counter * _GOLDEN) & _MASK
        value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
        value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
        return value ^ (value >> 31)


class Scheduler:
    """The clock and the event queue of a simulated run.

    Args:
        seed: seed of all random streams and of the order of events of equal time.

    Attributes:
        paused: the components that are paused (`Process.pause`).

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
        # (time, hash, component, event counter): the last two order events only if two hashes are equal.
        self._heap: list[tuple[int, int, str, int, Timer]] = []
        self._components: dict[str, _Component] = {}
        self._streams: dict[str, RandomStream] = {}
        self._events_before_now = 0

    def call_at(self, at_us: int, component: str, callback: Callable[[], None]) -> Timer:
        """Schedule `callback` at a time that is not in the past, as an event of `component`."""
        assert at_us >= self.now_us, f"{component}: {at_us} us is in the past, now is {self.now_us} us"
        known = self._components.get(component)
        if known is None:
            known = self._components[component] = _Component(self.seed, component)
        timer = Timer(at_us, component, callback)
        heapq.heappush(self._heap, (at_us, known.next_order(), component, known.counter, timer))
        return timer

    def call_later(self, delay_us: int, component: str, callback: Callable[[], None]) -> Timer:
        """Schedule `callback` after a delay, which may be zero."""
        return self.call_at(self.now_us + delay_us, component, callback)

    def stream(self, name: str) -> RandomStream:
        """Return the random stream with a name; it is created once, and continues where it was."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = RandomStream(self.seed, name)
        return stream

    @property
    def next_at_us(self) -> int | None:
        """The time of the next event; None if there is none."""
        heap = self._heap
        while heap and heap[0][4].callback is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_next(self) -> bool:
        """Run one event; return whether there was one.

        Raises:
            NoProgressError: a million events ran at one virtual time.
        """
        return self._run(NEVER_US)

    def run_until(self, at_us: int) -> None:
        """Run all events up to and including `at_us`, and set the time to `at_us`."""
        assert at_us >= self.now_us, f"{at_us} us is in the past, now is {self.now_us} us"
        while self._run(at_us):
            pass
        if at_us > self.now_us:
            self.now_us = at_us
            self._events_before_now = self.events_run

    def _run(self, until_us: int) -> bool:
        """Run the next event if it is not after a time; return whether there was one."""
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
            assert at_us >= self.now_us, f"{timer.component}: event of {at_us} us, but now is {self.now_us} us"
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
        """Assert that the heap is ordered, that no event is in the past, and that counters are unique."""
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
