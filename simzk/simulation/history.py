"""What happened in a run: typed events in order, in one form.

The timeline that a user reads, the JSON that a script reads and the history that a test compares are this list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simzk.simulation.scheduler import Scheduler


class Event(NamedTuple):
    """One thing that happened.

    Args:
        at_us: when, in microseconds of virtual time.
        who: the component that did it or that it happened to, such as `broker 1` or `controller 3`.
        what: a verb phrase that is the same for all events of a kind, such as `leader elected`.
        subject: what it was done to, such as `orders-0`; empty where `who` says it all.
        before: what held before; empty where nothing did.
        after: what holds since.
    """

    at_us: int
    who: str
    what: str
    subject: str = ""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        change = " -> ".join(part for part in (self.before, self.after) if part)
        told = "  ".join(part for part in (self.who, self.what, self.subject, change) if part)
        return f"{format_time(self.at_us)}  {told}"

    def to_json(self) -> dict[str, int | str]:
        """Return it as one flat JSON object, with every field."""
        return self._asdict()


def format_time(at_us: int) -> str:
    """Return virtual time as seconds with all its microseconds' worth of milliseconds, right aligned.

    >>> format_time(12_345_678)
    '  12.345 s'
    """
    return f"{at_us // 1_000_000:>4}.{at_us // 1000 % 1000:03d} s"


class History:
    """The events of one run, in the order in which they happened.

    Args:
        scheduler: whose time the events bear.

    >>> from simzk.simulation.scheduler import Scheduler
    >>> history = History(Scheduler(seed=1))
    >>> history.record("broker 1", "killed")
    >>> print(history[0])
       0.000 s  broker 1  killed
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._told: list[Event] = []
        # How many events are before them, when they happened, and who tells them.
        self._untold: list[tuple[int, int, Callable[[int], Iterable[Event]]]] = []
        self.observers: list[Callable[[Event], None]] = []

    def record(self, who: str, what: str, subject: str = "", before: str = "", after: str = "") -> None:
        """Add an event that happens now, and show it to every observer."""
        assert who, "an event without an actor"
        assert what, f"an event of {who} in which nothing happens"
        event = Event(self._scheduler.now_us, who, what, subject, before, after)
        self._told.append(event)
        for observer in self.observers:
            observer(event)

    def record_later(self, tell: Callable[[int], Iterable[Event]]) -> None:
        """Add events that happen now, and are told when somebody looks: at once where somebody observes.

        Args:
            tell: gives them when asked, for the time that it is handed; what they say must not change by then.
        """
        if not self.observers:
            self._untold.append((len(self._told), self._scheduler.now_us, tell))
            return
        for event in tell(self._scheduler.now_us):
            self._told.append(event)
            for observer in self.observers:
                observer(event)

    @property
    def _events(self) -> list[Event]:
        """All events, told by now."""
        if self._untold:
            untold, self._untold = self._untold, []
            told, self._told, begin = self._told, [], 0
            for place, at_us, tell in untold:
                self._told += told[begin:place]
                self._told += tell(at_us)
                begin = place
            self._told += told[begin:]
        return self._told

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __getitem__(self, index: int) -> Event:
        return self._events[index]

    def since(self, at_us: int) -> list[Event]:
        """Return the events from a time on."""
        return [event for event in self._events if event.at_us >= at_us]

    def to_text(self) -> str:
        """Return the timeline, a line an event."""
        return format_timeline(self._events)

    def to_json(self) -> list[dict[str, int | str]]:
        """Return the events as JSON objects."""
        return [event.to_json() for event in self._events]

    def check(self) -> None:
        """Assert that time never falls."""
        assert all(a.at_us <= b.at_us for a, b in zip(self._events, self._events[1:], strict=False))


def format_timeline(events: Iterable[Event]) -> str:
    """Return events as aligned text: when, who, what, to what, from -> to."""
    rows = list(events)
    who_width = max((len(event.who) for event in rows), default=0)
    what_width = max((len(event.what) for event in rows), default=0)
    subject_width = max((len(event.subject) for event in rows), default=0)
    lines = []
    for event in rows:
        change = " -> ".join(part for part in (event.before, event.after) if part)
        line = (
            f"{format_time(event.at_us)}  {event.who:<{who_width}}  {event.what:<{what_width}}"
            f"  {event.subject:<{subject_width}}  {change}"
        )
        lines.append(line.rstrip())
    return "\n".join(lines)
