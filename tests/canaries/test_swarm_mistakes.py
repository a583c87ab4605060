"""The swarm notices: each planted mistake fails a run with the stated seed, and the same run passes without it.

`python -m tests.canaries.find_seeds --check` plays all of them; here are the checks of the table, and a share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.scenarios.reader import read_scenario
from tests.canaries.find_seeds import first_caught, rows
from tests.canaries.planting import ROOT, copy_package
from tests.canaries.swarm import SCENARIOS, failures, play
from tests.canaries.swarm_mistakes import SWARM_MISTAKES, caught_by_swarm

if TYPE_CHECKING:
    from pathlib import Path

CAUGHT = caught_by_swarm()
SHARE = (
    "a follower joins the ISR before it has caught up",
    "a controlled shutdown ignores the ISR",
    "a longer follower log is not cut",
    "a stale LeaderAndIsr is obeyed",
    "an old controller is obeyed",
    "acks of all are sent when the leader has the records",
)
MANY = 40


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its tests, elsewhere."""
    return copy_package(tmp_path_factory.mktemp("planted"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARE)
def test_the_swarm_catches_the_mistake(copy: Path, name: str) -> None:
    assert first_caught(copy, SWARM_MISTAKES[name], CAUGHT[name].seed) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "version"), dict.fromkeys((mistake.scenario, mistake.version) for mistake in SWARM_MISTAKES.values())
)
def test_without_a_mistake_the_same_runs_pass(scenario: str, version: str) -> None:
    plays = [name for name, mistake in SWARM_MISTAKES.items() if mistake[3:] == (version, scenario)]
    for seed in range(1, max(CAUGHT[name].seed for name in plays) + 1):
        assert not list(failures(play(read_scenario(SCENARIOS[scenario]), seed, version)))


@pytest.mark.parametrize("name", SWARM_MISTAKES)
def test_the_text_exists_once_and_a_seed_catches_the_mistake(name: str) -> None:
    mistake = SWARM_MISTAKES[name]
    assert (ROOT / "simzk" / mistake.file).read_text().count(mistake.right) == 1
    assert mistake.wrong != mistake.right
    assert name in CAUGHT


def test_there_are_enough_mistakes() -> None:
    assert len(SWARM_MISTAKES) >= MANY
    assert CAUGHT.keys() == SWARM_MISTAKES.keys()


def test_the_page_lists_each_mistake_with_its_seed() -> None:
    page = (ROOT / "docs" / "track-record.md").read_text()
    assert [row for row in rows() if row not in page] == []
