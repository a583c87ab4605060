"""The state machine and the strategies that we offer, run by ourselves as a user would run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from benchmarks.shrinking import CarelessInvariant, without_new_epochs
from simzk.partitions import transitions
from simzk.scenarios.player import EXPECTATION, OPERATOR, Play
from simzk.scenarios.reader import read_scenario
from simzk.testing import (
    MACHINE_SETTINGS,
    ClusterShape,
    Fault,
    KafkaClusterMachine,
    TopicShape,
    assert_recovered,
    cluster_shapes,
    fault_schedules,
    heal,
    play,
)
from simzk.testing.story import Story

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.simulation.history import Event

# To find is enough here; what is found need not be made small. Of several failures one is raised, not a group of them.
FIND = settings(
    max_examples=200,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)


class SmallCluster(KafkaClusterMachine):
    """As it comes: three brokers."""


TestSmallCluster = SmallCluster.TestCase
TestSmallCluster.settings = settings(MACHINE_SETTINGS, max_examples=30, stateful_step_count=20)


def test_the_machine_finds_what_a_user_got_wrong() -> None:
    with pytest.raises(AssertionError, match="nobody is ever gone"):
        run_state_machine_as_test(CarelessInvariant, settings=FIND)


def test_the_machine_finds_a_controller_that_raises_no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    mistaken = without_new_epochs(transitions.after_controller_write)
    monkeypatch.setattr(transitions, "after_controller_write", mistaken)
    with pytest.raises(AssertionError, match="leader epochs never fall, and rise with every change of leader"):
        run_state_machine_as_test(KafkaClusterMachine, settings=FIND)


def played(scenario: str, folder: Path) -> Play:
    """Return a finished run of a scenario."""
    path = folder / "found.toml"
    path.write_text(scenario)
    read = read_scenario(path)
    assert read.seed is not None
    play_of_it = Play(read, seed=read.seed)
    play_of_it.run()
    play_of_it.close()
    return play_of_it


def test_a_failure_is_printed_as_a_test_and_a_scenario_that_fail_too(tmp_path: Path) -> None:
    """Run both texts: the invariant of the subclass fails in the test; the scenario does the same to the cluster."""
    small = settings(MACHINE_SETTINGS, database=None, derandomize=True, stateful_step_count=5, print_blob=False)
    with pytest.raises(AssertionError) as failed:
        run_state_machine_as_test(CarelessInvariant, settings=small)
    printed = "\n".join(failed.value.__notes__)
    _, _, both = printed.partition("# As a test, to paste:\n")
    source, _, scenario = both.partition("# As a scenario for `simzk run`, to paste:\n")
    assert "cluster.kill(" in source or "cluster.expire(" in source or "cluster.shutdown(" in source
    imported_here = f"from {CarelessInvariant.__module__} import CarelessInvariant\n"
    assert imported_here in source
    names: dict[str, Any] = {"CarelessInvariant": CarelessInvariant}
    exec(source.replace(imported_here, ""), names)
    with pytest.raises(AssertionError, match="nobody is ever gone"):
        names["test_CarelessInvariant"]()
    assert any(event.what == "registration gone" for event in played(scenario, tmp_path).history)


def test_a_story_repeats_what_was_done(tmp_path: Path) -> None:
    """A scenario and a test that were written down give the history of the cluster that they were written for."""
    shape = ClusterShape(brokers=3, racks=0, session_timeout_ms=6000, seed=11)
    with shape.start() as cluster:
        story = Story(cluster, shape)
        story.create_topic(TopicShape("t", ((1, 2), (3, 1))))
        cluster.run_for(1)
        story.inflict(Fault(0, "pause", 2, 5000))
        assert not story.inflict(Fault(0, "restart", 1, 0))
        cluster.run_for(0.1)
        story.inflict(Fault(0, "kill", 1, 0))
        cluster.run_for(20)
        story.reassign({("t", 0): [3, 2]})
        story.elect("unclean")
        cluster.run_for(7)
        expected = list(cluster.history)
        source = story.to_test(KafkaClusterMachine, AssertionError("it\nassert 1 == 2"), has_extra_invariants=False)
        scenario = story.to_scenario(KafkaClusterMachine, AssertionError('a "quoted" \\ message'))
    assert "    # it\n" in source
    assert "assert 1 == 2" not in source
    histories: list[list[Event]] = []
    before = "assert not monitor"
    replayed = source.replace(before, f"histories.append(list(cluster.history))\n        {before}")
    exec(f"{replayed}\ntest_KafkaClusterMachine()", {"histories": histories})
    assert histories == [expected]
    again = played(scenario, tmp_path)
    assert again.held
    assert [event for event in again.history if event.who not in (OPERATOR, EXPECTATION)] == expected


def test_healing_waits_for_shutdowns_and_pauses() -> None:
    with ClusterShape(3, 0, 6000, 5).start() as cluster:
        cluster.create_topic("t", assignment={0: [1, 2, 3]})
        cluster.run_for(1)
        cluster.pause(2, 20)
        cluster.shutdown(1)
        cluster.kill(3)
        heal(cluster)
        assert_recovered(cluster)
        cluster.kill(3)
        cluster.run_for(30)
        with pytest.raises(AssertionError, match=r"of \[1, 2, 3\] \[1, 2\] live"):
            assert_recovered(cluster)


def test_healing_elects_where_a_superseded_reassignment_removed_the_leader() -> None:
    """The steps of `scenarios/superseded_reassignment.toml`."""
    with ClusterShape(4, 0, 6000, 1).start() as cluster:
        cluster.create_topic("t", assignment={0: [1]})
        cluster.run_for(2)
        cluster.reassign({("t", 0): [3, 4]})
        cluster.kill(4)
        cluster.run_for(10)
        cluster.kill(1)
        cluster.run_for(20)
        cluster.restart(1)
        cluster.run_for(40)
        cluster.reassign({("t", 0): [2]})
        cluster.restart(4)
        cluster.run_for(120)
        with pytest.raises(AssertionError, match="t-0 has no leader"):
            assert_recovered(cluster)
        heal(cluster)
        assert_recovered(cluster)
        assert cluster.state("t", 0).isr == (2,)


def test_healing_reassigns_where_a_cancelled_reassignment_removed_the_only_replica_in_sync() -> None:
    """The machine found these steps: the ISR of the partition is a broker that is no replica."""
    with ClusterShape(3, 0, 6000, 0).start() as cluster:
        cluster.create_topic("t", assignment={0: [2]})
        cluster.run_for(0.1)
        cluster.kill(2)
        cluster.reassign({("t", 0): [1]})
        cluster.run_for(7)
        cluster.elect("unclean")
        cluster.run_for(0.001)
        cluster.reassign({("t", 0): [2]})
        cluster.restart(2)
        cluster.run_for(60)
        state, assignment = cluster.state("t", 0), cluster.assignment("t")[0]
        assert (state.leader, state.isr, assignment.replicas) == (-1, (1,), (2,))
        heal(cluster)
        assert_recovered(cluster)
        assert (cluster.state("t", 0).leader, cluster.assignment("t")[0].replicas) == (1, (1,))


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
