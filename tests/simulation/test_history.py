"""Histories and monitors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from simzk.simulation import History, Monitor, Scheduler
from tests.simulation.programs import ping_pong

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.simulation import Event


def test_a_timeline_is_aligned_and_tells_from_and_to() -> None:
    clock = Scheduler(seed=1)
    history = History(clock)
    history.record("broker 1", "killed")
    clock.run_until(6_123_456)
    history.record("controller 3", "leader elected", "orders-0", "1", "2")
    assert history.to_text().splitlines() == [
        "   0.000 s  broker 1      killed",
        "   6.123 s  controller 3  leader elected  orders-0  1 -> 2",
    ]
    assert [event.who for event in history.since(1)] == ["controller 3"]


def test_json_holds_every_field() -> None:
    history = History(Scheduler(seed=1))
    history.record("broker 1", "isr shrank", "t-0", "[1,2]", "[1]")
    assert json.loads(json.dumps(history.to_json())) == [
        {"at_us": 0, "who": "broker 1", "what": "isr shrank", "subject": "t-0", "before": "[1,2]", "after": "[1]"}
    ]


def test_a_monitor_names_the_event_that_broke_the_invariant_and_the_seed() -> None:
    class NeverFalls:
        name = "the number never falls"
        last = 0

        def check(self, event: Event) -> str | None:
            last, self.last = self.last, int(event.after)
            return f"it fell from {last} to {self.last}" if self.last < last else None

    history = History(Scheduler(seed=7))
    monitor = Monitor(history, [NeverFalls()], seed=7)
    for number in (1, 2, 1, 5):
        history.record("a", "set", after=str(number))
    (violation,) = monitor.violations
    assert violation.event is history[2]
    assert str(violation) == "the number never falls: it fell from 2 to 1, broken by 0.000 s a set 1 (seed 7)"
    assert violation.to_json()["seed"] == 7


def test_an_invariant_that_raises_is_a_violation_with_its_seed() -> None:
    class Broken:
        name = "broken"

        def check(self, event: Event) -> str | None:
            raise KeyError(event.what)

    history = History(Scheduler(seed=7))
    monitor = Monitor(history, [Broken()], seed=7)
    history.record("a", "set")
    (violation,) = monitor.violations
    assert str(violation) == "broken: the check itself raised KeyError: 'set', broken by 0.000 s a set (seed 7)"


class Suspicious:
    """An invariant with violations set by a test, which counts how often it is checked."""

    name = "nobody complains"
    reads = frozenset({"nine"})

    def __init__(self) -> None:
        self.on_violation: list[Callable[[], None]] = []
        self.found: list[str] = []
        self.checks = 0

    def complain(self, detail: str) -> None:
        self.found.append(detail)
        for observer in self.on_violation:
            observer()

    def check(self, event: Event) -> str | None:
        self.checks += 1
        return self.found.pop(0) if self.found else None


def test_an_observing_invariant_is_checked_from_its_violation_until_it_returns_none() -> None:
    history, invariant = History(Scheduler(seed=1)), Suspicious()
    invariant.found.append("before the monitor")
    monitor = Monitor(history, [invariant], seed=7)
    for what in ("one", "two", "three", "four"):
        history.record("broker 1", what)
    assert invariant.checks == 2, "at the event with the violation, and at the next one"
    invariant.complain("a")
    invariant.complain("b")
    for what in ("five", "six", "seven", "eight"):
        history.record("broker 1", what)
    assert invariant.checks == 5
    found = [(violation.detail, violation.event.what) for violation in monitor.violations]
    assert found == [("before the monitor", "one"), ("a", "five"), ("b", "six")]
    history.record("broker 1", "nine")
    assert invariant.checks == 6, "it reads this kind of event"


def test_an_observing_invariant_is_checked_beside_one_that_reads_each_event() -> None:
    class NoSeven:
        name = "no seven"

        def check(self, event: Event) -> str | None:
            return "seven" if event.what == "seven" else None

    history, invariant = History(Scheduler(seed=1)), Suspicious()
    monitor = Monitor(history, [invariant, NoSeven()], seed=7)
    history.record("broker 1", "six")
    invariant.complain("a")
    history.record("broker 1", "seven")
    assert [violation.detail for violation in monitor.violations] == ["a", "seven"]


def test_the_same_seed_gives_the_same_history_and_another_seed_another() -> None:
    assert ping_pong(seed=5).to_text() == ping_pong(seed=5).to_text()
    assert ping_pong(seed=5).to_text() != ping_pong(seed=6).to_text()
