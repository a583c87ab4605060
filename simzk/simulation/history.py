"""History of a run: typed events in order, and the monitor that checks invariants at every event.

The timeline that users read, the JSON that scripts read and the history that tests compare all derive from this list.
An invariant is checked as each event is recorded, between two steps of the run, so that a violation is reported for the
event that caused it. Other state that it checks (a tree, a table) is given to its constructor.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from simzk.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from simzk.simulation.scheduler import Scheduler


class Event(NamedTuple):
    """One event.

    Args:
        at_us: its virtual time in microseconds.
        who: the component that acted or was acted on, such as `broker 1` or `controller 3`.
        what: the kind of event, a verb phrase such as `leader elected`.
        subject: the object of the event, such as `orders-0`; empty if `who` is enough.
        before: the state before; empty for none.
        after: the state after.
    """

    at_us: int
    who: str
    what: str
    subject: str = ""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        change = " -> ".join(part for part in (self.before, self.after) if part)
        text = "  ".join(part for part in (self.who, self.what, self.subject, change) if part)
        return f"{format_time(self.at_us)}  {printable(text)}"

    def to_json(self) -> dict[str, int | str]:
        """Return the event as one flat JSON object with every field."""
        return self._asdict()


_new = tuple.__new__
"""Makes a NamedTuple without the extra call of its constructor, for hot paths."""


def format_time(at_us: int) -> str:
    """Return a virtual time in seconds with three decimals, right aligned.

    >>> format_time(12_345_678)
    '  12.345 s'
    """
    assert at_us >= 0, f"virtual time begins at 0, not at {at_us} us"
    return f"{at_us // 1_000_000:>4}.{at_us // 1000 % 1000:03d} s"


class History:
    """The events of one run, in the order in which they happened.

    Args:
        scheduler: gives the virtual time of events.

    Attributes:
        observers: called with each event when it is recorded.

    >>> from simzk.simulation.scheduler import Scheduler
    >>> history = History(Scheduler(seed=1))
    >>> history.record("broker 1", "killed")
    >>> print(history[0])
       0.000 s  broker 1  killed
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._recorded: list[Event] = []
        # Events that are built on first use: the number of recorded events before them, their time, their factory.
        self._deferred: list[tuple[int, int, Callable[[int], Iterable[Event]]]] = []
        self.observers: list[Callable[[Event], None]] = []

    def record(self, who: str, what: str, subject: str = "", before: str = "", after: str = "") -> None:
        """Add an event at the present time, and call the observers with it."""
        assert who, "an event without a component"
        assert what, f"an event of {who} without a kind"
        event = _new(Event, (self._scheduler.now_us, who, what, subject, before, after))
        self._recorded.append(event)
        for observer in self.observers:
            observer(event)

    def record_later(self, events_at: Callable[[int], Iterable[Event]]) -> None:
        """Add events at the present time that are built on first use, or at once if there are observers.

        Args:
            events_at: returns the events for a virtual time; its result must not depend on when it is called.
        """
        if not self.observers:
            self._deferred.append((len(self._recorded), self._scheduler.now_us, events_at))
            return
        at_us = self._scheduler.now_us
        for event in events_at(at_us):
            assert event.at_us == at_us, "an event is built with the time of its record"
            self._recorded.append(event)
            for observer in self.observers:
                observer(event)

    @property
    def _events(self) -> list[Event]:
        """All events, with the deferred ones built and merged in their places."""
        if self._deferred:
            deferred, self._deferred = self._deferred, []
            recorded, self._recorded, begin = self._recorded, [], 0
            for place, at_us, events_at in deferred:
                assert begin <= place <= len(recorded)
                built = list(events_at(at_us))
                assert all(event.at_us == at_us for event in built), "an event is built with the time of its record"
                self._recorded += recorded[begin:place]
                self._recorded += built
                begin = place
            self._recorded += recorded[begin:]
        return self._recorded

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __getitem__(self, index: int) -> Event:
        return self._events[index]

    def since(self, at_us: int) -> list[Event]:
        """Return the events at or after a time."""
        return [event for event in self._events if event.at_us >= at_us]

    def to_text(self) -> str:
        """Return the timeline, one line per event."""
        return format_timeline(self._events)

    def to_json(self) -> list[dict[str, int | str]]:
        """Return the events as JSON objects."""
        return [event.to_json() for event in self._events]

    def check(self) -> None:
        """Assert that events are in the order of their times, and that the deferred ones are in their places."""
        places = [place for place, _, _ in self._deferred]
        assert places == sorted(places)
        assert not places or places[-1] <= len(self._recorded)
        assert all(a.at_us <= b.at_us for a, b in zip(self._events, self._events[1:], strict=False))


def format_timeline(events: Iterable[Event]) -> str:
    """Return events as aligned text: time, component, kind, subject, before -> after."""
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
        lines.append(printable(line.rstrip()))
    return "\n".join(lines)


VIOLATIONS_MAX = 100
"""Number of violations of an invariant that are stored; after the first ones, more of them tell nothing new."""


class Invariant(Protocol):
    """A condition that holds after every event."""

    @property
    def name(self) -> str:
        """The condition in a few words, such as `the version of a znode only grows`."""

    def check(self, event: Event) -> str | None:
        """Return how the condition is violated after `event`; None if it holds."""


@runtime_checkable
class ObservingInvariant(Invariant, Protocol):
    """A condition that is observed between events, and of which most events need no check.

    Attributes:
        on_violation: called when there is a violation to return; `check` is then called until it returns none.
        reads: the kinds of event at which `check` is called in any case.
    """

    on_violation: list[Callable[[], None]]

    @property
    def reads(self) -> frozenset[str]: ...


@runtime_checkable
class LastingInvariant(ObservingInvariant, Protocol):
    """A condition that is broken if something is wrong for some time, in which there need not be an event."""

    def on_sample(self, now_us: int) -> None:
        """Look at what is wrong at a time."""


class Violation(NamedTuple):
    """A violation of an invariant: the event that caused it, the seed of the run, and what was found.

    `issue` is the known bug of the simulated system that violates it; empty for an unexplained violation.
    """

    invariant: str
    event: Event
    seed: int
    detail: str
    issue: str = ""

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}, broken by {' '.join(str(self.event).split())} (seed {self.seed})"

    def to_json(self) -> dict[str, object]:
        """Return the violation as a JSON object."""
        assert self.detail, f"a violation of {self.invariant!r} without what was found"
        values = self._asdict() | {"event": self.event.to_json()}
        if not self.issue:
            del values["issue"]
        return values


class Monitor:
    """Check of invariants at every event of a history.

    If all of them are `ObservingInvariant`s, nothing is checked until one has found a violation, or reads an event.

    Args:
        history: the history, checked from now on.
        invariants: the invariants.
        seed: the seed of the run, stored with each violation.

    Attributes:
        violations: the first violations; a check that raises is one too.
        known: the first violations of invariants with an attribute `issue`, which the simulated system itself violates.

    >>> from simzk.simulation.history import History
    >>> from simzk.simulation.scheduler import Scheduler
    >>> class NobodyDies:
    ...     name = "nobody dies"
    ...     def check(self, event):
    ...         return f"{event.who} died" if event.what == "killed" else None
    >>> history = History(Scheduler(seed=1))
    >>> monitor = Monitor(history, [NobodyDies()], seed=1)
    >>> history.record("broker 1", "killed")
    >>> print(monitor.violations[0])
    nobody dies: broker 1 died, broken by 0.000 s broker 1 killed (seed 1)
    """

    def __init__(self, history: History, invariants: Sequence[Invariant], *, seed: int) -> None:
        self.invariants: tuple[Invariant, ...] = tuple(invariants)
        self.violations: list[Violation] = []
        self.known: list[Violation] = []
        self._history = history
        self._seed = seed
        self._counts = Counter[str]()
        self._checks_each_event = False
        self._kinds: frozenset[str] = frozenset()
        for invariant in self.invariants:
            if isinstance(invariant, ObservingInvariant):
                invariant.on_violation.append(self._note_violation)
                self._kinds |= invariant.reads
            else:
                self._checks_each_event = True
        self._lasting = [one for one in self.invariants if isinstance(one, LastingInvariant)]
        self._is_due = True  # there may be a violation from before
        history.observers.append(self._check)

    def look(self, now_us: int) -> None:
        """Check what may be wrong for some time, also when there was no event; a violation is of the last event."""
        for invariant in self._lasting:
            invariant.on_sample(now_us)
        if self._is_due and len(self._history):
            self._check(self._history[-1])

    def _note_violation(self) -> None:
        self._is_due = True

    def _check(self, event: Event) -> None:
        if not self._is_due and event.what not in self._kinds:  # nearly always
            return
        self._is_due = self._checks_each_event
        for invariant in self.invariants:
            is_known = True
            try:
                detail = invariant.check(event)
            except Exception as error:  # the mistake of a check is a failure of the run, and not of the process in it
                detail, is_known = f"the check itself raised {type(error).__name__}: {error}", False
            if detail is None:
                continue
            self._is_due = True  # it may have more to report
            issue: str = getattr(invariant, "issue", "") if is_known else ""
            found = self.known if issue else self.violations
            self._counts[invariant.name] += 1
            if self._counts[invariant.name] <= VIOLATIONS_MAX:
                found.append(Violation(invariant.name, event, self._seed, detail, issue))
