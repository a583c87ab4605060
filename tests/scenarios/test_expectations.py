"""Expectations can fail: each expected value of the shipped scenarios is changed once, and each change is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from simzk.scenarios.expectations import Expectation, ExpectRecorded, ExpectRecovered, ExpectWhole, Observed
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from simzk.simulation import Event
from tests.kafka.clusters import cluster, state_fields, topic, watch

if TYPE_CHECKING:
    from simzk.scenarios.reader import PlannedStep, Scenario

SHIPPED = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))
ADDRESS = {"at", "after", "within", "name", "expect", "topic", "partition", "path"}
"""Keys that name the time and the place of an expectation; all other keys are expected values."""


def changed(value: object, *, other_step: str) -> object:
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value + 90
        case str():
            return other_step or value + "x"
        case list():
            return [*value, 99] if value and isinstance(value[0], int) else [*value, "strange-0"]
        case dict():
            return {key: count + 90 for key, count in value.items()}
        case _:
            raise AssertionError(f"no other value for {value!r}")


def expected_keys(step: Expectation) -> list[str]:
    keys = [info.name for info in msgspec.structs.fields(step) if info.name not in ADDRESS]
    default = {info.name: info.default for info in msgspec.structs.fields(step)}
    return [key for key in keys if getattr(step, key) is not None and getattr(step, key) != default[key]]


def with_changed_values(scenario: Scenario, nth: int) -> tuple[Scenario, list[int]]:
    """Return the scenario with the nth expected value of each expectation changed, and the expectations changed."""
    steps: list[PlannedStep] = []
    changed_steps: list[int] = []
    number = 0
    for planned in scenario.steps:
        step = planned.step
        if isinstance(step, Expectation):
            keys = expected_keys(step)
            # `whole` has no value to change; a test below shows that it can fail.
            if nth < len(keys) and not isinstance(step, ExpectWhole):
                key = keys[nth]
                other_step = "a3-boot-broker3" if isinstance(step, ExpectRecorded) else ""
                step = msgspec.structs.replace(step, **{key: changed(getattr(step, key), other_step=other_step)})
                changed_steps.append(number)
            number += 1
        steps.append(replace(planned, step=step))
    return replace(scenario, steps=tuple(steps), faults=None), changed_steps


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_expected_value_matters(path: Path) -> None:
    scenario = read_scenario(path)
    checked = 0
    for nth in range(6):
        altered, changed_steps = with_changed_values(scenario, nth)
        if not changed_steps:
            break
        play = Play(altered, seed=scenario.seed)
        play.run()
        for number, verdict in enumerate(play.verdicts):
            assert verdict.held == (number not in changed_steps), f"line {verdict.line}, value {nth}: {verdict}"
        assert not play.held
        checked += len(changed_steps)
    assert checked > 0 or path.stem.startswith("anything_breaks")


def play_of(tmp_path: Path, steps: str, cluster: str = "brokers = 3") -> Play:
    text = f'title = "t"\nwhy = "w"\n[cluster]\nversion = "3.9"\ncontroller = 1\n{cluster}\n{steps}'
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    play = Play(read_scenario(path), seed=1)
    play.run()
    return play


CREATE = """
[[step]]
at = "5s"
action = "create_topic"
topic = "t"
assignment = [[2, 3], [3, 2]]
"""


def test_a_missing_topic_is_not_whole_and_is_offline(tmp_path: Path) -> None:
    play = play_of(tmp_path, CREATE + '[[step]]\nexpect = "whole"\n[[step]]\nexpect = "offline"\npartitions = []\n')
    assert [verdict.failures for verdict in play.verdicts] == [
        ("t-0 does not exist", "t-1 does not exist"),
        ("offline partitions is ['t-0', 't-1'], expected []",),
    ]


def test_whole_reports_partitions_out_of_sync(tmp_path: Path) -> None:
    dead = '[[step]]\nat = "10s"\naction = "shutdown"\nbroker = 3\n'
    play = play_of(tmp_path, CREATE + dead + '[[step]]\nafter = "10s"\nexpect = "whole"\n')
    assert play.verdicts[0].failures == ("t-0 has isr [2] of replicas [2, 3]", "t-1 has isr [2] of replicas [3, 2]")
    back = '[[step]]\naction = "restart"\nbroker = 3\n[[step]]\nafter = "20s"\nexpect = "whole"\npreferred = true\n'
    play = play_of(tmp_path, CREATE + dead + '[[step]]\nafter = "1s"\n' + back.removeprefix("[[step]]\n"))
    assert play.verdicts[0].failures == ("the leader of t-1 is not its first replica 3",)


def test_a_partition_that_a_known_bug_left_without_a_leader_is_excused_after_faults() -> None:
    """KAFKA-14808, as in `scenarios/superseded_reassignment.toml`."""
    with cluster(4, controller=2) as c:
        watch(c)
        topic(c, "t", {0: [1]})
        c.kill(4)
        c.reassign({("t", 0): [3, 4]})
        c.run_for(1)
        c.kill(1)
        c.run_for(15)
        assert state_fields(c, "t")[:2] == (3, (3,))
        c.restart(1)
        c.run_for(15)
        observed = Observed(c, {"t": 1}, None)
        whole, recovered = ExpectWhole(expect="whole"), ExpectRecovered(expect="whole")
        c.reassign({("t", 0): [2]})
        c.run_for(5)
        assert list(whole.failures(observed)) == ["t-0 has no leader"]
        assert list(recovered.failures(observed)) == []
        c.kill(2)
        c.run_for(15)
        assert list(recovered.failures(observed)) == list(whole.failures(observed)), (
            "the next controller elects broker 1"
        )


def test_a_dead_leader_of_a_single_replica_is_not_excused_after_faults() -> None:
    """No known bug left it behind, although no replica is out of sync."""
    with cluster(3, controller=1) as c:
        watch(c)
        topic(c, "t", {0: [3]})
        c.kill(3)
        c.run_for(30)
        assert state_fields(c, "t")[:2] == (-1, (3,))
        recovered = ExpectRecovered(expect="whole")
        assert list(recovered.failures(Observed(c, {"t": 1}, None))) == ["t-0 has no leader"]


def test_an_expectation_with_a_limit_holds_at_the_first_event_or_fails_at_the_limit(tmp_path: Path) -> None:
    look = '[[step]]\nwithin = "{}"\nexpect = "brokers"\nregistered = [1, 3]\n'
    dead = '[[step]]\nat = "10s"\naction = "kill"\nbroker = 2\n'
    play = play_of(tmp_path, CREATE + dead + look.format("9s") + look.format("60s"))
    too_soon, in_time = play.verdicts
    assert (too_soon.at_us, too_soon.held) == (19_000_000, False)
    assert in_time.held
    assert play.history[-1].at_us == in_time.at_us
    assert 22_000_000 <= in_time.at_us <= 30_000_000, (
        "18 s of session timeout and a bucket of 2 s, counted from a ping at most 6 s before"
    )


def test_a_violated_invariant_fails_the_run_and_names_the_event(tmp_path: Path) -> None:
    """The operator writes a state that no broker writes: a leader outside the ISR."""
    state = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":5,"isr":[2,3]}'
    write = f"""
[[step]]
at = "10s"
action = "write_znode"
path = "/brokers/topics/t/partitions/0/state"
data = '{state}'

[[step]]
after = "1s"
expect = "topics"
topics = ["t"]
"""
    play = play_of(tmp_path, CREATE + write)
    assert all(verdict.held for verdict in play.verdicts)
    assert not play.held
    violation = play.violations[0]
    assert violation.invariant == "a leader is in its ISR, or there is none"
    assert violation.detail == "t-0 is led by 1, its ISR is [2, 3]"
    assert isinstance(violation.event, Event)
    assert (violation.event.subject, violation.event.who) == ("t-0", "admin")
