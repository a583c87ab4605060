"""Order and time of the scheduler: a function of the seed and of each component's own events alone."""

from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.simulation import NoProgressError, Scheduler, scheduler
from tests.simulation.programs import run_in_new_process

SPAN_US = 1 << scheduler.SPAN_BITS
COMPONENTS = ("broker-1", "broker-2", "zookeeper", "controller")


def order_at_one_instant(seed: int, calls: list[str]) -> list[tuple[str, int]]:
    """Schedule one event a name for the same instant; return names with their running number as they ran."""
    clock = Scheduler(seed)
    ran: list[tuple[str, int]] = []
    counts: dict[str, int] = {}
    for name in calls:
        counts[name] = counts.get(name, 0) + 1
        clock.call_at(5, name, lambda entry=(name, counts[name]): ran.append(entry))  # type: ignore[misc]
        clock.check()
    clock.run_until(5)
    clock.check()
    return ran


def test_events_run_in_order_of_time() -> None:
    clock = Scheduler(seed=3)
    ran: list[tuple[str, int]] = []
    for at_us in (30, 10, 20):
        clock.call_at(at_us, "a", lambda: ran.append(("a", clock.now_us)))
    clock.run_until(20)
    assert ran == [("a", 10), ("a", 20)]
    assert clock.now_us == 20
    assert clock.next_at_us == 30


def test_run_until_includes_events_that_an_event_adds_at_the_last_instant() -> None:
    clock = Scheduler(seed=3)
    ran: list[int] = []

    def add_one_more() -> None:
        clock.call_later(0, "b", lambda: ran.append(clock.now_us))

    clock.call_at(10, "a", add_one_more)
    clock.run_until(10)
    assert ran == [10]


def test_a_cancelled_timer_never_runs() -> None:
    clock = Scheduler(seed=3)
    timer = clock.call_at(10, "a", pytest.fail)
    assert timer.active
    timer.cancel()
    assert clock.next_at_us is None
    assert not clock.run_next()


def test_the_past_is_closed() -> None:
    clock = Scheduler(seed=3)
    clock.run_until(10)
    with pytest.raises(AssertionError, match="9 us is in the past"):
        clock.call_at(9, "a", pytest.fail)
    with pytest.raises(AssertionError, match="past"):
        clock.run_until(9)


@given(st.integers(0, 2**64), st.lists(st.sampled_from(COMPONENTS), max_size=30), st.data())
def test_a_component_more_changes_no_order_among_the_others(seed: int, calls: list[str], data: st.DataObject) -> None:
    without = order_at_one_instant(seed, calls)
    more = list(calls)
    for _ in range(data.draw(st.integers(1, 10))):
        more.insert(data.draw(st.integers(0, len(more))), "newcomer")
    assert [entry for entry in order_at_one_instant(seed, more) if entry[0] != "newcomer"] == without


@given(st.integers(0, 2**64), st.permutations(COMPONENTS))
def test_equal_times_do_not_run_in_the_order_of_scheduling(seed: int, calls: list[str]) -> None:
    assert order_at_one_instant(seed, calls) == order_at_one_instant(seed, list(reversed(calls)))


def test_the_seed_decides_the_order_of_equal_times() -> None:
    orders = {tuple(order_at_one_instant(seed, list(COMPONENTS))) for seed in range(200)}
    assert len(orders) == 24, "four events have 24 orders, and none is ruled out"


def test_a_run_that_does_not_progress_names_the_busy_component(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "EVENTS_AT_ONE_INSTANT_MAX", 1_000)
    clock = Scheduler(seed=3)

    def spin() -> None:
        clock.call_later(0, "broker-7", spin)

    clock.call_at(1_000_000, "broker-7", spin)
    with pytest.raises(NoProgressError, match="at 1000000 us of virtual time; the busy component is broker-7"):
        clock.run_until(2_000_000)


def test_many_events_at_different_instants_are_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "EVENTS_AT_ONE_INSTANT_MAX", 10)
    clock = Scheduler(seed=3)

    def tick() -> None:
        clock.call_later(1, "a", tick)

    tick()
    clock.run_until(1_000)
    assert clock.events_run == 1_000


def test_a_run_is_the_same_in_any_process() -> None:
    printed = {run_in_new_process("tests.simulation.programs", hash_seed) for hash_seed in ("0", "1", "4242")}
    assert len(printed) == 1
    assert printed.pop().count("\n") > 100


def test_a_timer_that_has_run_is_scheduled_again_as_the_next_event_of_its_component() -> None:
    clock, ran = Scheduler(seed=3), []
    timer = clock.call_at(5, "a", lambda: ran.append("first"))
    clock.run_until(7)
    clock.call_later(0, "a", lambda: ran.append("other"))
    clock.schedule_again(timer, lambda: ran.append("second"))
    assert (timer.at_us, timer.number, timer.component.counter, clock.next_at_us) == (7, 3, 3, 7)
    clock.check()
    with pytest.raises(AssertionError, match="a: the event is scheduled already"):
        clock.schedule_again(timer, pytest.fail)
    clock.run_until(7)
    assert sorted(ran) == ["first", "other", "second"]


@given(
    st.integers(0, 2**64),
    st.lists(st.tuples(st.sampled_from(COMPONENTS), st.integers(0, 2)), max_size=25),
    st.booleans(),
)
def test_an_event_runs_before_those_of_its_instant_with_a_higher_hash(
    seed: int, plan: list[tuple[str, int]], one_by_one: bool
) -> None:
    """Compare with a list that is sorted anew before each event, whether events run one by one or all at once."""
    clock, ran = Scheduler(seed), 0
    left = iter(plan)
    waiting: list[tuple[int, int, str, int]] = []

    def add_events() -> None:
        for name, delay_us in itertools.islice(left, 3):
            timer = clock.call_later(delay_us, name, lambda: None)
            entry = (timer.at_us, timer.component.order_of(timer.number), name, timer.number)
            timer.callback = functools.partial(run, entry)
            waiting.append(entry)
        clock.check()

    def run(entry: tuple[int, int, str, int]) -> None:
        nonlocal ran
        assert entry == min(waiting)
        assert clock.now_us == entry[0]
        waiting.remove(entry)
        ran += 1
        add_events()

    add_events()
    while clock.next_at_us is not None:
        assert clock.next_at_us == min(waiting)[0]
        if one_by_one:
            clock.run_next()
        else:
            clock.run_until(50)  # the last event is at most 25 * 2 us away
    assert ran == len(plan)


@given(
    st.integers(0, 2**64),
    st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(COMPONENTS), st.sampled_from([0, 1, SPAN_US - 1, SPAN_US, SPAN_US + 1, 9 * SPAN_US])
            ),
            st.tuples(st.just("cancel"), st.integers(0, 30)),
            st.tuples(st.just("advance"), st.sampled_from([1, SPAN_US // 2, SPAN_US, 3 * SPAN_US])),
            st.tuples(st.just("look"), st.just(0)),
        ),
        max_size=40,
    ),
)
def test_events_of_later_spans_run_in_the_same_order(seed: int, plan: list[tuple[str, int]]) -> None:
    """Compare with a list of all events that is sorted anew, while events are cancelled and the time is read."""
    clock = Scheduler(seed)
    ran: list[tuple[int, int]] = []
    waiting: dict[tuple[int, int], scheduler.Timer] = {}
    for name, number in plan:
        clock.check()
        if name == "cancel":
            for entry in sorted(waiting)[number : number + 1]:
                waiting.pop(entry).cancel()
        elif name == "advance":
            until_us = clock.now_us + number
            due = sorted(entry for entry in waiting if entry[0] <= until_us)
            before = len(ran)
            clock.run_until(until_us)
            assert ran[before:] == due
            for entry in due:
                del waiting[entry]
        elif name == "look":
            assert clock.next_at_us == min((at_us for at_us, _ in waiting), default=None)
        else:
            timer = clock.call_later(number, name, lambda: None)
            entry = timer.at_us, timer.component.order_of(timer.number)
            timer.callback = functools.partial(ran.append, entry)
            waiting[entry] = timer
    left = sorted(waiting)
    before = len(ran)
    while clock.run_next():
        clock.check()
    assert ran[before:] == left


def test_a_callback_runs_at_once_only_if_it_is_the_next_event() -> None:
    clock, ran = Scheduler(seed=3), []
    component = clock.component("a")
    clock.call_at(5, "b", lambda: ran.append("later"))
    assert clock.run_as_next(component, lambda: ran.append("at once"))
    assert (ran, component.counter, clock.events_run) == (["at once"], 1, 1), "it counts as an event"
    clock.call_later(0, "b", lambda: ran.append("first"))
    assert not clock.run_as_next(component, pytest.fail), "another event waits for this time"
    clock.run_until(5)
    assert ran == ["at once", "first", "later"]
    assert component.counter == 1
