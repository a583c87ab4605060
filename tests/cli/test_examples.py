"""Scenarios that ship with simzk: listed, copied and played by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from simzk.scenarios.examples import examples
from simzk.scenarios.reader import read_scenario
from tests.cli.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.commands import Simzk


def test_all_scenarios_of_the_repository_ship(simzk: Simzk) -> None:
    files = {str(path) for path in (ROOT / "scenarios").rglob("*.toml")}
    assert {str(example.path) for example in examples()} == files
    listed = json.loads(simzk("examples", "--json", "-").out)
    assert {one["file"] for one in listed} == files
    out = simzk("examples").out
    assert all(f"{one['name']} " in out for one in listed)
    assert "A broker fails" in out


def test_each_can_be_copied_and_is_valid(simzk: Simzk, tmp_path: Path) -> None:
    for example in examples():
        done = simzk("new", example.name, "--out", tmp_path / example.path.name)
        assert done.status == 0, done.err
        assert read_scenario(tmp_path / example.path.name).title == example.title


def test_a_copy_never_replaces_a_file(simzk: Simzk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recording = "layouts/kafka-3.9.1/dumps.json"
    done = simzk("new", "real_cluster")
    assert done.out == f"wrote real_cluster.toml and {recording}; play it with: simzk run real_cluster.toml\n"
    (tmp_path / "real_cluster.toml").unlink()
    again = simzk("new", "real_cluster")
    assert (again.status, again.out) == (2, "")
    assert again.err == f"simzk: error: {recording}: the file exists already; expected another name\n"
    assert not (tmp_path / "real_cluster.toml").exists(), "nothing is copied"
    done = simzk("new", "broker_failure", "--json", "-")
    assert json.loads(done.out) == {"name": "broker_failure", "files": ["broker_failure.toml"]}


def test_a_shipped_scenario_is_played_by_name(simzk: Simzk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = ROOT / "scenarios" / "broker_failure.toml"
    by_path = simzk("run", path)
    # Output, replay commands and pages name it as it was typed, not by its place in the installation.
    assert simzk("run", "broker_failure") == by_path._replace(out=by_path.out.replace(str(path), "broker_failure"))
    (tmp_path / "broker_failure").write_text("a file of this name comes first")
    assert "invalid TOML" in simzk("run", "broker_failure").err


def test_an_unknown_name_names_the_nearest(simzk: Simzk) -> None:
    wrong = "simzk: error: no scenario 'broker_failur' ships with simzk; expected broker_failure\n"
    for words in (["run", "broker_failur"], ["new", "broker_failur"]):
        done = simzk(*words)
        assert (done.status, done.out, done.err) == (2, "", wrong)
    done = simzk("new", "xyz")
    assert done.err.endswith("; expected a name that simzk examples lists\n")
    assert simzk("run", "xyz").err.endswith("; expected a file, or a name that simzk examples lists\n")


def test_a_file_that_is_missing_and_ships_with_simzk_is_named(simzk: Simzk) -> None:
    done = simzk("run", "elsewhere/broker_failure.toml")
    right = "a file, or broker_failure, which ships with simzk"
    said = f"simzk: error: elsewhere/broker_failure.toml: the file does not exist; expected {right}\n"
    assert (done.status, done.err) == (2, said)
