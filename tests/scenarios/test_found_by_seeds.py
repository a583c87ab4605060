"""Plans of random faults that found a mistake of simzk, which is mended, or a bug of Kafka, which is counted.

A seed draws another plan when a kind of fault is added, so each plan is kept as a file. Plans of mistakes that could be
put back were shrunk with the mistake in place: they failed with it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from simzk.scenarios.faults.plan_file import PlanFile
from simzk.scenarios.player import Play, setting_of
from simzk.scenarios.reader import read_scenario

pytestmark = pytest.mark.slow

SCENARIO = Path(__file__).parents[2] / "scenarios" / "anything_breaks.toml"
PLANS = Path(__file__).parent / "data" / "found"
MISTAKES = {
    "expired_during_isr_write_1": "a leader whose session expired during its ISR write never wrote that ISR again",
    "expired_during_isr_write_2": "a leader whose session expired during its ISR write never wrote that ISR again",
    "expired_during_isr_write_3": "a leader whose session expired during its ISR write never wrote that ISR again",
    "forgotten_on_slow_disk": "a leader with a slow disk read a partition that its follower fetched no more",
    "expired_while_starting": "a session that expired while its broker was starting",
    "deleted_during_restart": "a stale broker epoch in a StopReplica halted the deletion of a topic for ever",
}
LOG_DIRS = {"deleted_during_restart": 2}
"""Log directories of each broker when the plan was found, if not one."""
KNOWN_BUGS = {
    "reassignment_undone": "KAFKA-9038",
    "stranded_by_undone_reassignment": "KAFKA-9038",
    "deletion_halted": "deletion halted by a reassignment",
}
"""Bugs of Kafka that the invariants reported as violations at first."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_plan_that_found_a_mistake_holds(name: str) -> None:
    play = played(name, log_dirs=LOG_DIRS.get(name, 1))
    assert play.held, f"again: {MISTAKES[name]}"


@pytest.mark.parametrize("name", KNOWN_BUGS)
def test_a_plan_that_found_a_bug_of_kafka_counts_it(name: str) -> None:
    play = played(name, log_dirs=2)
    assert play.held
    assert {violation.issue for violation in play.known} == {KNOWN_BUGS[name]}


def played(name: str, log_dirs: int) -> Play:
    scenario = read_scenario(SCENARIO)
    scenario = replace(scenario, cluster=structs.replace(scenario.cluster, log_dirs=log_dirs))
    file = PlanFile(PLANS / f"{name}.plan.toml")
    play = Play(scenario, seed=file.seed, version=file.version, plan=file.plan(setting_of(scenario, file.version)))
    play.run()
    play.close()
    return play


def test_every_plan_that_was_kept_is_played() -> None:
    assert {path.name.removesuffix(".plan.toml") for path in PLANS.iterdir()} == MISTAKES.keys() | KNOWN_BUGS.keys()
