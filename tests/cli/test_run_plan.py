"""`simzk run` with plans of faults, saved, edited and played again, and with searches for runs that fail."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from simzk.scenarios.faults.plan_file import SavedPlan, write_plan
from simzk.scenarios.player import Play
from simzk.scenarios.probes import PROBES
from simzk.scenarios.reader import read_scenario
from tests.cli.commands import ROOT, run_in_new_process
from tests.scenarios.test_fault_kinds import SCENARIO

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

pytestmark = pytest.mark.slow

ANYTHING = ROOT / "scenarios" / "anything_breaks.toml"
HEAD = 'seed = 1\nsafety = "1m"\nliveness = "1m"\n'
KILL = '[[fault]]\nat = "1s"\nkind = "kill"\nbroker = 1\nfor = "3s"\n'


def test_a_plan_is_saved_edited_and_played_by_commands(simzk: Simzk, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    first = simzk("run", ANYTHING, "--seed", 8, "--kafka-version", "2.8", "--save-plan", path, "--json", tmp_path / "1")
    assert first.status == 0, first.out
    again = simzk("run", ANYTHING, "--plan", path)
    assert again.status == 0
    begin = "   0.000 s"
    assert again.out[again.out.index(begin) :] == first.out[first.out.index(begin) :]
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# Faults of {ANYTHING}, seed 8")
    head = text[: text.index("[[fault]]")]
    path.write_text(head + '[[fault]]\nat = "2s"\nkind = "kill"\nbroker = 2\nfor = "20s"\n', encoding="utf-8")
    edited = simzk("run", ANYTHING, "--plan", path)
    assert edited.status == 0
    assert f"1 fault of {path}\n  2s: kills broker 2 for 20s\n" in edited.out
    assert edited.out.count("kills broker 2") == 2
    # Also with many seeds, and in a scenario without [faults].
    done = simzk("run", ROOT / "scenarios" / "broker_failure.toml", "--plan", path, "--seeds", 2)
    assert done.status == 0, done.out


def test_a_replayed_plan_does_not_depend_on_hash_seeds(tmp_path: Path) -> None:
    scenario = read_scenario(ANYTHING)
    with closing(Play(scenario, seed=4)) as play:
        assert play.plan is not None
        (tmp_path / "plan.toml").write_text(write_plan(SavedPlan(4, "", play.plan)))
    command = ("run", "scenarios/anything_breaks.toml")
    printed = [
        run_in_new_process(hash_seed, *command, *more).stdout.decode()
        for hash_seed in ("0", "1", "77")
        for more in (("--seed", 4), ("--plan", tmp_path / "plan.toml"))
    ]
    assert len({text[text.index("   0.000 s") :] for text in printed}) == 1


def test_all_mistakes_of_a_plan_are_reported(simzk: Simzk, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(HEAD + KILL.replace("broker = 1", "broker = 8") + KILL.replace("broker = 1", "broker = 9"))
    done = simzk("run", ANYTHING, "--plan", path)
    assert done.status == 2
    assert "broker 8 does not exist" in done.err
    assert "broker 9 does not exist" in done.err


@pytest.mark.parametrize(
    "options",
    [("--plan", "x.toml", "--master", "local[1]"), ("--save-plan", "x.toml", "--seeds", "2")],
)
def test_options_that_exclude_each_other_are_refused(simzk: Simzk, options: tuple[str, ...]) -> None:
    assert simzk("run", ANYTHING, *options).status == 2


def test_a_search_finds_shrinks_and_replays_a_failure(
    simzk: Simzk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A liveness of a second is too short for many plans; the smallest is found, saved and played by its command."""
    path = tmp_path / "hasty.toml"
    text = SCENARIO.replace("VERSION", "3.9") + '[faults]\nsafety = "30s"\nliveness = "1s"\ngap = "3s"\n'
    path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = simzk("run", "hasty.toml", "--until-failure", "--json", "found.json")
    assert done.status == 1, done.out
    document = json.loads((tmp_path / "found.json").read_text())
    (failed,) = document["runs"]
    shrunk = document["search"]["shrunk"]
    assert document["search"]["failed"] == 1
    assert 1 <= shrunk["faults"] <= 5
    assert shrunk["faults"] == len(shrunk["plan"]["fault"]) <= shrunk["before"]
    assert document["probes"].keys() == PROBES.keys()
    assert f"shrunk to {shrunk['faults']} of {shrunk['before']} faults in {shrunk['runs']} runs:" in done.out
    saved = tmp_path / f"hasty-seed{failed['seed']}-shrunk.plan.toml"
    assert done.out.splitlines()[-1] == f"replay with: {shrunk['replay']}"
    assert shrunk["replay"].endswith(f"--plan {saved.name}")
    again = simzk(*shlex.split(shrunk["replay"])[1:])
    assert again.status == 1
    assert failed["replay"] == f"simzk run hasty.toml --seed {failed['seed']}"
    assert simzk(*shlex.split(failed["replay"])[1:], "--shrink", "--save-plan", "mine.toml").status == 1
    assert (tmp_path / "mine.toml").exists()


def test_a_search_without_a_failure_ends_with_its_budget(simzk: Simzk, tmp_path: Path) -> None:
    done = simzk("run", ROOT / "scenarios" / "broker_failure.toml", "--time-budget", "0.5", "--json", tmp_path / "out")
    assert done.status == 0, done.out
    document = json.loads((tmp_path / "out").read_text())
    assert document["runs"] == []
    assert document["search"]["runs"] >= 1
    assert (document["search"]["failed"], document["search"]["bred"]) == (0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--until-failure", "--master", "local[1]"), "a search is of one scenario"),
        (("--time-budget", "0"), "--time-budget"),
        (("--shrink",), "the scenario has no faults to shrink"),
    ],
)
def test_impossible_searches_are_refused(simzk: Simzk, options: tuple[str, ...], message: str) -> None:
    done = simzk("run", ROOT / "scenarios" / "broker_failure.toml", *options)
    assert done.status == 2
    assert message in done.err
