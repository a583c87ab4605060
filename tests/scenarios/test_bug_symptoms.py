"""Symptoms of known bugs, as benchmarks.bug_seeds looks for them: seen where the bug shows, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bug_seeds import SYMPTOMS, Watch
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
    watch = Watch(play, [bug])
    watch.run()
    play.close()
    return bug in watch.seen


def test_every_bug_has_a_symptom() -> None:
    assert SYMPTOMS.keys() == SCENARIOS.keys()


@pytest.mark.parametrize("bug", SYMPTOMS)
def test_the_symptom_is_seen_where_the_bug_shows_and_not_where_it_is_mended(bug: str) -> None:
    scenario, release = SCENARIOS[bug], SYMPTOMS[bug].release
    assert scenario.bug is not None
    assert scenario.bug.outcome(release) == "shown"
    assert seen(scenario, bug, release)
    for mended in scenario.bug.mended_in[:1] + scenario.bug.mended_in[-1:]:
        assert not seen(scenario, bug, mended), mended
