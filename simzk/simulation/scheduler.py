"""Scheduler of virtual time: one heap of events, in integer microseconds.

Rules of this module:
  - events run in the order of their time; nothing happens between two events;
  - events of equal time run in the order of a keyed hash of (seed, component, event counter of the component): the
    order is fixed by the seed but looks random, so that no code depends on it; an added component changes neither the
    counters nor the hashes of the others;
  - time never falls; a run in which it stops rising fails with the name of the busy component.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
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

SPAN_BITS = 17
"""Events beyond the present span of 2**17 us (131 ms) are put into the heap when their span begins. Most timeouts are
cancelled before, and never get there."""
EVENTS_AT_ONE_INSTANT_MAX = 1_000_000
"""Number of events at one virtual time that is taken for an endless loop."""


class NoProgressError(RuntimeError):
    """Raised when virtual time stops rising because components wake each other without delay."""


class Component:
    """A named component: the hash key of its name, and the number of events that it has scheduled."""

    __slots__ = ("counter", "key", "name")

    def __init__(self, seed: int, name: str) -> None:
        self.name: str = name
        self.key: int = keyed_hash(seed, f"order/{name}")
        self.counter: int = 0

    def order_of(self, number: int) -> int:
        """Return the order of its event with a number, among events of equal time.

        The finaliser of SplitMix64 spreads it over 64 bits (Steele, Lea, Flood: OOPSLA 2014).
        """
        value = (self.key + number * _GOLDEN) & _MASK
        value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
        value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
        return value ^ (value >> 31)


class Timer:
    """An event of a component, which can be cancelled; `number` is the component's event counter."""

    __slots__ = ("at_us", "callback", "component", "number")

    def __init__(self, at_us: int, component: Component, callback: Callable[[], None] | None, number: int) -> None:
        self.at_us: int = at_us
        self.component: Component = component
        self.callback = callback
        self.number: int = number

    @property
    def active(self) -> bool:
        """Whether the event is still scheduled."""
        return self.callback is not None

    def cancel(self) -> None:
        """Cancel the event; no effect after it ran."""
        self.callback = None


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
        # Events of the present time. Most instants have one event at a time, for which no order is computed.
        self._only: Timer | None = None
        self._present: list[tuple[int, str, int, Timer]] = []  # a heap by order; component and number for equal hashes
        # Events of later times of this span: a heap of the times, and the events of each.
        self._times: list[int] = []
        self._later: dict[int, list[Timer]] = {}
        # Events of later spans, unordered: a heap of the spans, and the events of each.
        self._spans: list[int] = []
        self._of_span: dict[int, list[Timer]] = {}
        self._span_ends_us = 1 << SPAN_BITS
        self._components: dict[str, Component] = {}
        self._streams: dict[str, RandomStream] = {}
        self._events_max = EVENTS_AT_ONE_INSTANT_MAX

    def component(self, name: str) -> Component:
        """Return the component with a name, which is created once."""
        found = self._components.get(name)
        if found is None:
            found = self._components[name] = Component(self.seed, name)
        return found

    def call_at(self, at_us: int, component: str, callback: Callable[[], None]) -> Timer:
        """Schedule `callback` at a time that is not in the past, as an event of `component`."""
        return self.schedule(at_us, self._components.get(component) or self.component(component), callback)

    def call_later(self, delay_us: int, component: str, callback: Callable[[], None]) -> Timer:
        """Schedule `callback` after a delay, which may be zero."""
        found = self._components.get(component) or self.component(component)
        return self.schedule(self.now_us + delay_us, found, callback)

    def schedule(self, at_us: int, component: Component, callback: Callable[[], None]) -> Timer:
        """Schedule `callback` like `call_at`; for hot paths, which keep their component."""
        component.counter = number = component.counter + 1
        timer = Timer(at_us, component, callback, number)
        if at_us >= self._span_ends_us:
            span = at_us >> SPAN_BITS
            timers = self._of_span.get(span)
            if timers is None:
                self._of_span[span] = [timer]
                heappush(self._spans, span)
            else:
                timers.append(timer)
        elif at_us > self.now_us:
            timers = self._later.get(at_us)
            if timers is None:
                self._later[at_us] = [timer]
                heappush(self._times, at_us)
            else:
                timers.append(timer)
        else:
            assert at_us == self.now_us, f"{component.name}: {at_us} us is in the past, now is {self.now_us} us"
            self._add_now(timer)
        return timer

    def unscheduled(self, component: Component) -> Timer:
        """Return a timer for `schedule_again` that is not scheduled, and does not count as an event yet."""
        return Timer(self.now_us, component, None, 0)

    def run_as_next(self, component: Component, callback: Callable[[], None]) -> bool:
        """Run `callback` at once, as an event of `component`, if it would be the next one; return whether it ran.

        Called as the last act of an event: one that is scheduled for the present time would be the next to run if no
        other one waits for that.
        """
        if self._only is not None or self._present:
            return False
        component.counter += 1
        self.events_run += 1
        callback()
        return True

    def schedule_again(self, timer: Timer, callback: Callable[[], None]) -> None:
        """Schedule a timer that has run, or is new, and was not cancelled, as a new event at the present time."""
        component = timer.component
        assert timer.callback is None, f"{component.name}: the event is scheduled already"
        assert timer.at_us <= self.now_us, f"{component.name}: the event waits for {timer.at_us} us"
        component.counter = timer.number = component.counter + 1
        timer.at_us = self.now_us
        timer.callback = callback
        if self._only is None and not self._present:
            self._only = timer
        else:
            self._add_now(timer)

    def _begin_span(self, until_us: int) -> bool:
        """Begin the next span with events, if it begins by a time; its active events are put into the heap."""
        assert not self._times, "a span ends before the next one begins"
        if not self._spans or self._spans[0] << SPAN_BITS > until_us:
            return False
        span = heappop(self._spans)
        self._span_ends_us = (span + 1) << SPAN_BITS
        later = self._later
        for timer in self._of_span.pop(span):
            if timer.callback is not None:
                later.setdefault(timer.at_us, []).append(timer)
        self._times.extend(later)
        heapify(self._times)
        return True

    def _add_now(self, timer: Timer) -> None:
        """Add an event of the present time."""
        if self._only is None and not self._present:
            self._only = timer
            return
        if self._only is not None:
            self._put(self._only)
            self._only = None
        self._put(timer)

    def _put(self, timer: Timer) -> None:
        """Put an event into the heap of the present time."""
        component, number = timer.component, timer.number
        assert timer.at_us == self.now_us, f"{component.name}: an event of {timer.at_us} us is put at {self.now_us} us"
        heappush(self._present, (component.order_of(number), component.name, number, timer))

    def stream(self, name: str) -> RandomStream:
        """Return the random stream with a name; it is created once, and continues where it was."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = RandomStream(self.seed, name)
        return stream

    @property
    def next_at_us(self) -> int | None:
        """The time of the next event; None if there is none."""
        if (self._only is not None and self._only.active) or any(timer.active for *_, timer in self._present):
            return self.now_us
        times = self._times
        while times or self._begin_span(NEVER_US):
            if times and any(timer.active for timer in self._later[times[0]]):
                break
            if times:
                del self._later[heappop(times)]
        assert not times or times[0] > self.now_us, "events of the present are not among the later ones"
        return times[0] if times else None

    def run_next(self) -> bool:
        """Run one event; return whether there was one.

        Raises:
            NoProgressError: a million events ran at one virtual time.
        """
        return self._run(NEVER_US, is_single=True)

    def run_until(self, at_us: int) -> None:
        """Run all events up to and including `at_us`, and set the time to `at_us`."""
        assert at_us >= self.now_us, f"{at_us} us is in the past, now is {self.now_us} us"
        self._run(at_us)
        assert self._only is None, "every event of the present time ran"
        assert not self._present, "every event of the present time ran"
        assert not self._times or self._times[0] > at_us, f"an event of {self._times[0]} us did not run by {at_us} us"
        if at_us > self.now_us:
            self._move_to(at_us)
            self._span_ends_us = max(self._span_ends_us, (at_us >> SPAN_BITS) + 1 << SPAN_BITS)

    def _run(self, until_us: int, *, is_single: bool = False) -> bool:
        """Run the events that are not after a time, or the next one of them; return whether one ran that was single."""
        times, later, present = self._times, self._later, self._present
        while True:
            timer = self._only
            if timer is not None:
                self._only = None
            elif present:
                timer = heappop(present)[3]
            elif times:
                at_us = times[0]
                if at_us > until_us:
                    return False
                heappop(times)
                timers = later.pop(at_us)
                if len(timers) > 1:
                    self._take_instant(at_us, timers)
                    continue
                (timer,) = timers
                if timer.callback is not None:
                    self.now_us = at_us
                    self._events_max = self.events_run + EVENTS_AT_ONE_INSTANT_MAX
            elif self._begin_span(until_us):
                continue
            else:
                return False
            callback = timer.callback
            if callback is None:  # a cancelled event
                continue
            timer.callback = None
            self.events_run = events = self.events_run + 1
            if events > self._events_max:
                raise NoProgressError(self._describe_loop(timer.component.name))
            callback()
            if is_single:
                return True

    def _take_instant(self, at_us: int, timers: list[Timer]) -> None:
        """Make the events of a later time those of the present, unless all are cancelled."""
        assert len(timers) > 1, "a single event needs no order"
        assert self._only is None, "an instant ends before the next one begins"
        assert not self._present, "an instant ends before the next one begins"
        active = [timer for timer in timers if timer.callback is not None]
        if active:
            self._move_to(at_us)
            if len(active) == 1:
                (self._only,) = active
            else:
                for timer in active:
                    self._put(timer)

    def _move_to(self, at_us: int) -> None:
        assert at_us > self.now_us, f"an event of {at_us} us, but now is {self.now_us} us"
        self.now_us = at_us
        self._events_max = self.events_run + EVENTS_AT_ONE_INSTANT_MAX

    def check(self) -> None:
        """Assert that the events are in the order of their times, and that counters are unique."""
        assert all(self._times[(index - 1) // 2 if index else 0] <= at_us for index, at_us in enumerate(self._times))
        assert sorted(self._times) == sorted(self._later), "each later time is in the heap once"
        assert not self._times or self._times[0] > self.now_us
        assert all(self._spans[(index - 1) // 2 if index else 0] <= span for index, span in enumerate(self._spans))
        assert sorted(self._spans) == sorted(self._of_span), "each later span is in the heap once"
        assert self.now_us < self._span_ends_us, "the present is in a span that has begun"
        assert all(at_us < self._span_ends_us for at_us in self._times), "an event of another span is in the heap"
        assert all(span << SPAN_BITS >= self._span_ends_us for span in self._spans), "a span begins once"
        of_spans = [(span, timer) for span, timers in self._of_span.items() for timer in timers]
        assert all(timer.at_us >> SPAN_BITS == span for span, timer in of_spans)
        assert self._only is None or not self._present
        present = [] if self._only is None else [self._only]
        present += [timer for *_, timer in self._present]
        assert all(timer.at_us == self.now_us for timer in present)
        assert all(timer.at_us == at_us for at_us, timers in self._later.items() for timer in timers)
        later = [timer for timers in self._later.values() for timer in timers]
        waiting = [*present, *later, *(timer for _, timer in of_spans)]
        assert all(1 <= timer.number <= timer.component.counter for timer in waiting)
        assert len({(timer.component.name, timer.number) for timer in waiting}) == len(waiting)
        assert all(timer.component is self._components[timer.component.name] for timer in waiting)
        assert all(name == stream.name and stream.seed == self.seed for name, stream in self._streams.items())
        assert self.paused.keys() <= self._components.keys()
        assert self.events_run <= self._events_max, "a run without progress has failed"

    def _describe_loop(self, last: str) -> str:
        assert self.events_run > self._events_max, "the events at this time are not too many"
        waiting = [timer.component.name for *_, timer in sorted(self._present)[:5] if timer.active]
        also = f"; next in line: {', '.join(waiting)}" if waiting else ""
        return (
            f"no progress: {EVENTS_AT_ONE_INSTANT_MAX:,} events ran at {self.now_us} us of virtual time; "
            f"the busy component is {last}{also}"
        )
