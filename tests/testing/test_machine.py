"""The state machine and the strategies that we offer, run by ourselves as a user would run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from simzk.partitions import transitions
from simzk.testing import KafkaClusterMachine, cluster_shapes, fault_schedules, play

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.partitions.states import States
    from simzk.simulation.history import Event, Invariant
    from simzk.testing import ClusterShape

# To find is enough here; what is found need not be made small.
FIND = settings(max_examples=200, deadline=None, database=None, phases=[Phase.generate])


class SmallCluster(KafkaClusterMachine):
    """As it comes: three brokers."""


TestSmallCluster = SmallCluster.TestCase
TestSmallCluster.settings = settings(max_examples=30, stateful_step_count=20)


class CarelessInvariant:
    """A wrong one, to see that the machine looks: that no broker is ever gone."""

    name = "nobody is ever gone"

    def check(self, event: Event) -> str | None:
        return f"{event.who} is gone" if event.what == "registration gone" else None


class CarelessUser(KafkaClusterMachine):
    """Adds an invariant of its own."""

    def extra_invariants(self) -> Sequence[Invariant]:
        return [CarelessInvariant()]


def test_the_machine_finds_what_a_user_got_wrong() -> None:
    with pytest.raises(AssertionError, match="nobody is ever gone"):
        run_state_machine_as_test(CarelessUser, settings=FIND)


def test_the_machine_finds_a_controller_that_raises_no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = transitions.after_controller_write

    def unraised(before: States, *arguments: object, **options: object) -> States:
        after = correct(before, *arguments, **options)  # type: ignore[arg-type]
        return after._replace(leader_epoch=before.leader_epoch)

    monkeypatch.setattr(transitions, "after_controller_write", unraised)
    with pytest.raises(AssertionError, match="leader epochs never fall, and rise with every change of leader"):
        run_state_machine_as_test(KafkaClusterMachine, settings=FIND)


@given(data=st.data(), shape=cluster_shapes(brokers_min=2))
@settings(max_examples=15)
def test_a_schedule_is_the_same_story_whoever_plays_it(data: st.DataObject, shape: ClusterShape) -> None:
    schedule = data.draw(fault_schedules(shape.brokers))
    stories = []
    for _ in range(2):
        with shape.start() as cluster:
            play(cluster, schedule)
            cluster.run_for(1)
            stories.append(cluster.history.to_text())
    assert stories[0] == stories[1]
