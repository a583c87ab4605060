"""Known bugs are counted where they show, as benchmarks.bug_seeds reads it; test_bugs.py has those without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bug_seeds import SYMPTOMS, counted
from simzk.scenarios.player import Play
from simzk.scenarios.reader import Scenario, read_scenario

pytestmark = pytest.mark.slow

SCENARIOS = {
    scenario.bug.id: scenario
    for path in sorted((Path(__file__).parents[2] / "scenarios" / "bugs").glob("*.toml"))
    if (scenario := read_scenario(path)).bug is not None
}


def seen(scenario: Scenario, bug: str, version: str) -> bool:
    play = Play(scenario, seed=scenario.seed, version=version)
    found = counted(play, [bug])
    play.close()
    assert play.violations == []
    return bool(found)


def test_every_bug_has_a_symptom() -> None:
    assert SYMPTOMS.keys() == SCENARIOS.keys()


@pytest.mark.parametrize("bug", SYMPTOMS)
def test_the_bug_is_counted_where_it_shows(bug: str) -> None:
    scenario, release = SCENARIOS[bug], SYMPTOMS[bug].release
    assert scenario.bug is not None
    assert scenario.bug.outcome(release) == "shown"
    assert seen(scenario, bug, release)
