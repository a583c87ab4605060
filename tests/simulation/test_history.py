"""Histories, monitors and fault plans."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from simzk.simulation import FaultPlan, History, Monitor, RandomStream, Scheduler
from simzk.simulation.fault_plan import FAULT_KINDS
from tests.simulation.programs import ping_pong

if TYPE_CHECKING:
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


def test_the_same_seed_gives_the_same_history_and_another_seed_another() -> None:
    assert ping_pong(seed=5).to_text() == ping_pong(seed=5).to_text()
    assert ping_pong(seed=5).to_text() != ping_pong(seed=6).to_text()


@given(st.integers(0, 2**64), st.integers(1, 9))
def test_a_plan_keeps_what_it_says(seed: int, members: int) -> None:
    stream = RandomStream(seed, "faults")
    plan = FaultPlan.draw(stream, members=members, safety_us=120_000_000, liveness_us=60_000_000)
    faults = plan.faults(stream, range(members))
    assert [fault.at_us for fault in faults] == sorted(fault.at_us for fault in faults)
    for fault in faults:
        assert 0 < fault.at_us < plan.safety_us
        assert fault.at_us + fault.duration_us <= plan.safety_us
        assert plan.weights[fault.kind] > 0
        assert fault.duration_us <= plan.duration_us
        broken = {
            other.member
            for other in faults
            if FAULT_KINDS[other.kind].has_duration and other.at_us <= fault.at_us < other.at_us + other.duration_us
        }
        assert len(broken) <= plan.broken_max


def test_plans_differ_from_seed_to_seed_and_print_every_number() -> None:
    plans = {
        str(FaultPlan.draw(RandomStream(seed, "plan"), members=3, safety_us=1, liveness_us=1)) for seed in range(50)
    }
    assert len(plans) > 45
    assert all(plan.startswith("safety_us=1 liveness_us=1 gap_us=") for plan in plans)
