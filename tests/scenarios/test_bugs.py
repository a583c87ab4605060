"""Scenarios of known bugs: each release has the outcome that the scenario names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from simzk.errors import ConfigError, ScenarioError
from simzk.scenarios.player import Play
from simzk.scenarios.reader import Bug, Scenario, read_scenario

BUGS = sorted((Path(__file__).parents[2] / "scenarios" / "bugs").glob("*.toml"))


def bug_of(scenario: Scenario) -> Bug:
    assert scenario.bug is not None
    return scenario.bug


LASTS_US, LOOKS_US = 45_000_000, 5_000_000
"""How long a run is watched after its last step, for conditions that have to last, and how often."""
CASES = [
    pytest.param(path, version, id=f"{path.stem}-{version}")
    for path in BUGS
    for bug in (bug_of(read_scenario(path)),)
    for version in (*bug.shown_in, *bug.mended_in)
]


def played(scenario: Scenario, version: str) -> Play:
    play = Play(scenario, seed=scenario.seed, version=version)
    play.run()
    play.close()
    return play


@pytest.mark.parametrize(("path", "version"), CASES)
def test_each_release_has_the_named_outcome_and_not_the_other(path: Path, version: str) -> None:
    scenario = read_scenario(path)
    assert played(scenario, version).held
    bug = bug_of(scenario)
    if not bug.mended_in:  # every release has it
        return
    other = replace(scenario, bug=Bug(bug.id, shown_in=bug.mended_in, mended_in=bug.shown_in))
    swapped = played(other, version)
    assert not swapped.crash
    assert not swapped.held


@pytest.mark.slow
@pytest.mark.parametrize("path", BUGS, ids=[path.stem for path in BUGS])
def test_a_release_without_the_bug_breaks_no_condition(path: Path) -> None:
    """What a release with the bug breaks, and is counted there, would be a violation."""
    scenario = read_scenario(path)
    for version in dict.fromkeys(bug_of(scenario).mended_in[:1] + bug_of(scenario).mended_in[-1:]):
        play = Play(scenario, seed=scenario.seed, version=version)
        scheduler, over_us = play.cluster.scheduler, 0
        while not over_us or scheduler.now_us < over_us + LASTS_US:
            play.run_until(scheduler.now_us + LOOKS_US)
            over_us = over_us or (scheduler.now_us if play.is_over else 0)
        play.close()
        assert play.violations == [], version
        assert bug_of(scenario).id not in {known.issue for known in play.known}, version


def test_a_release_that_is_not_named_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"the scenario does not say whether Kafka 3\.9 has KAFKA-1"):
        Bug("KAFKA-1", ("1.1",), ("2.2",)).outcome("3.9")


def test_a_bug_that_no_release_is_without_needs_no_other_outcome(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(GOOD.replace('mended_in = ["2.2"]', "mended_in = []").replace('bug = "mended"', ""))
    assert bug_of(read_scenario(path)).outcome("1.1.1") == "shown"
    with pytest.raises(ConfigError, match=r"one of 1\.1"):
        bug_of(read_scenario(path)).outcome("3.9")


def test_a_release_counts_before_its_line() -> None:
    bug = Bug("KAFKA-1", ("2.8.0", "3.0"), ("2.8",))
    assert [bug.outcome(name) for name in ("2.8.0", "2.8.1", "2.8", "3.0.0")] == ["shown", "mended", "mended", "shown"]


GOOD = """
title = "t"
why = "w"

[bug]
id = "KAFKA-1"
shown_in = ["1.1"]
mended_in = ["2.2"]

[cluster]
version = "2.2"
brokers = 1

[[step]]
at = "5s"
expect = "whole"
bug = "shown"

[[step]]
expect = "whole"
bug = "mended"
"""


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ('mended_in = ["2.2"]', 'mended_in = ["1.1"]', "shown_in is empty, or overlaps with mended_in"),
        ('shown_in = ["1.1"]', "shown_in = []", "shown_in is empty, or overlaps with mended_in"),
        ('bug = "shown"', "", "no expectations distinguish the outcomes"),
        ('shown_in = ["1.1"]', 'shown_in = ["7.1"]', "Kafka '7.1' is not simulated"),
        ('bug = "mended"', 'bug = "fixed"', "unknown outcome 'fixed'; expected shown or mended"),
        ('bug = "mended"', "", "no expectations distinguish the outcomes"),
        ('[bug]\nid = "KAFKA-1"\nshown_in = ["1.1"]\nmended_in = ["2.2"]\n', "", "the bug is not described"),
        ('version = "2.2"', 'version = { 1 = "2.2" }', "a scenario of a bug has brokers of one release"),
    ],
)
def test_error_names_invalid_bug(tmp_path: Path, good: str, bad: str, message: str) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(GOOD)
    assert read_scenario(path).bug == Bug("KAFKA-1", ("1.1",), ("2.2",))
    assert good in GOOD
    path.write_text(GOOD.replace(good, bad, 1))
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    assert message in str(caught.value)


MIXED = """
title = "t"
why = "w"

[cluster]
version = { 1 = "2.4", 2 = "2.8" }
inter_broker_protocol = { 2 = "2.4" }
brokers = 2

[[step]]
at = "5s"
action = "shutdown"
broker = 1

[[step]]
at = "10s"
action = "restart"
broker = 1
version = "2.8"
inter_broker_protocol = "2.7"

[[step]]
at = "20s"
expect = "brokers"
registered = [1, 2]
"""


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ('{ 1 = "2.4", 2 = "2.8" }', '{ 1 = "2.4" }', "version: broker 2 has no version"),
        ('{ 1 = "2.4", 2 = "2.8" }', '{ one = "2.4", 2 = "2.8" }', "version: broker -1 does not exist"),
        (
            '{ 2 = "2.4" }',
            '{ 2 = "3.0" }',
            "inter_broker_protocol: Kafka 2.8 does not support the inter-broker protocol '3.0'",
        ),
        ('version = "2.8"\n', 'version = "2.88"\n', "version: Kafka '2.88' is not simulated"),
        (
            'inter_broker_protocol = "2.7"',
            'inter_broker_protocol = "3.9"',
            "Kafka 2.8 does not support the inter-broker protocol '3.9'",
        ),
    ],
)
def test_invalid_releases_are_rejected_before_the_run(tmp_path: Path, good: str, bad: str, message: str) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(MIXED)
    scenario = read_scenario(path)
    own, one = played(scenario, ""), played(scenario, "3.9")
    assert own.held
    assert one.held
    assert own.version == "1: 2.4, 2: 2.8"
    assert own.cluster.brokers[1].version.name == "2.8"
    assert not own.cluster.brokers[1].version.znodes.has_topic_ids
    assert {broker.version.name for broker in one.cluster.brokers.values()} == {"3.9"}
    assert good in MIXED
    path.write_text(MIXED.replace(good, bad, 1))
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    assert message in str(caught.value)
