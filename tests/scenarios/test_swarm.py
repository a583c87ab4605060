"""Results of many runs: counted by hand, and the same in whichever order and process they were played."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.cli import main
from simzk.errors import ScenarioError
from simzk.scenarios import report_text
from simzk.scenarios.player import Play
from simzk.scenarios.results import Result
from simzk.scenarios.swarm import OutcomeRow, distribution, outcomes_of, plan_runs, play_run

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SMALLEST = SCENARIOS / "broker_failure.toml"

Told = tuple[tuple[str, ...], dict[str, int], dict[str, int]]

RESULTS = st.lists(
    st.builds(
        lambda failed, events, settled: (failed, events, settled),
        st.lists(st.sampled_from(["x", "y"]), unique=True).map(tuple),
        st.dictionaries(st.sampled_from(["elected", "lost"]), st.integers(1, 9)),
        st.dictionaries(st.sampled_from(["whole", "led"]), st.integers(0, 9_000_000)),
    ),
    min_size=1,
    max_size=30,
)


def result(file: str, seed: int, reported: Told) -> Result:
    failed, events, settled = reported
    return Result(file, seed, "3.9", failed, "", "", events, settled, None)


@given(RESULTS)
def test_each_figure_is_one_that_was_counted(reported: list[Told]) -> None:
    results = [result("a.toml", seed, one) for seed, one in enumerate(reported, start=1)]
    rows = {(row.kind, row.name): row for row in outcomes_of(results)}
    held = [seed for seed, (failed, _, _) in enumerate(reported, start=1) if not failed]
    assert (("held", "") in rows) == bool(held)
    for (kind, name), row in rows.items():
        assert row.of == len(reported)
        if kind == "held":
            assert (row.runs, row.seed) == (len(held), held[0])
        elif kind == "failed":
            seeds = [seed for seed, (failed, _, _) in enumerate(reported, start=1) if name in failed]
            assert (row.runs, row.seed, row.most) == (len(seeds), seeds[0], None)
        else:
            of_run = [events.get(name, 0) for _, events, _ in reported]
            if kind == "settled_ms":
                of_run = [settled[name] // 1000 for _, _, settled in reported if name in settled]
            assert row.runs == (len(of_run) if kind == "settled_ms" else sum(map(bool, of_run)))
            assert (row.least, row.most) == (min(of_run), max(of_run))
            for share, figure in ((50, row.median), (90, row.p90), (99, row.p99)):
                assert figure in of_run
                # The smallest one that so many of a hundred do not surpass.
                assert sum(number <= figure for number in of_run) * 100 >= share * len(of_run)
                assert sum(number < figure for number in of_run) * 100 < share * len(of_run)
    shuffled = sorted(results, key=lambda one: -one.seed)
    assert {(row.kind, row.name): row for row in outcomes_of(shuffled)} == rows


def test_files_stand_apart_in_their_order() -> None:
    results = [result(file, seed, ((), {}, {})) for file in ("b.toml", "a.toml") for seed in (3, 4)]
    assert [(row.file, row.runs, row.seed) for row in outcomes_of(results)] == [("b.toml", 2, 3), ("a.toml", 2, 3)]


def test_a_planned_run_is_played_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copy(SMALLEST, tmp_path / "story.toml")
    monkeypatch.chdir(tmp_path)
    (own,), planned = plan_runs(["story.toml"], None, None, ""), plan_runs(["story.toml", "story.toml"], 5, 2, "2.8")
    assert (own.seed, own.version) == (1, "")
    assert [(run.number, run.seed, run.version) for run in planned] == [
        (0, 5, "2.8"),
        (1, 6, "2.8"),
        (2, 5, "2.8"),
        (3, 6, "2.8"),
    ]
    here = play_run(planned[0], documented=True)
    os.chdir(os.sep)
    assert play_run(planned[0], documented=True) == here == play_run(planned[2], documented=True)
    assert (here.file, here.replay) == ("story.toml", "simzk run story.toml --seed 5 --kafka-version 2.8")
    assert here.document is not None
    assert play_run(planned[0], documented=False).document is None


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "story.toml"
    text = SMALLEST.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    (run,) = plan_runs([str(path)], None, None, "")
    assert play_run(run, documented=False).held
    path.write_text(text.replace("leader = 3", "leader = 1"), encoding="utf-8")
    assert not play_run(run, documented=False).held


def test_an_impossible_step_fails_its_own_run_and_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Play.run

    def impossible(play: Play) -> None:
        run(play)
        if play.seed == 2:  # such as the death of a broker that did not start again
            raise ScenarioError("broker 2 is not running", where="a.toml:9: step at 5.0", right="a broker that runs")

    monkeypatch.setattr(Play, "run", impossible)
    results = [play_run(one, documented=True) for one in plan_runs([str(SMALLEST)], None, 3, "")]
    assert [result.held for result in results] == [True, False, True]
    failure = "impossible step: broker 2 is not running"
    assert (results[1].failed, results[1].first_failure) == ((failure,), failure)
    assert results[1].document is not None
    assert results[1].document["crash"] == "a.toml:9: step at 5.0: broker 2 is not running; expected a broker that runs"
    assert [(row.name, row.runs, row.seed) for row in outcomes_of(results) if row.kind == "failed"] == [(failure, 1, 2)]
    monkeypatch.setattr("sys.argv", ["simzk", "run", str(SMALLEST), "--seeds", "3"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = capsys.readouterr().out
    assert f"{SMALLEST}: 1 of 3 seeds failed" in said
    assert failure in said


def test_no_run_is_planned_where_a_file_is_bad(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("title = 1")
    with pytest.raises(ScenarioError):
        plan_runs([str(SMALLEST), str(tmp_path / "bad.toml")], None, 5, "")


def test_distribution_is_printed() -> None:
    rows = [
        OutcomeRow("a.toml", "held", "", 3, 4, None, None, None, None, None, 1),
        OutcomeRow("a.toml", "failed", "all whole", 1, 4, None, None, None, None, None, 3),
        OutcomeRow("a.toml", "events", "leader elected", 4, 4, 1, 2, 3, 3, 1200, 4),
        OutcomeRow("a.toml", "settled_ms", "x" * 90, 3, 4, 5, 6, 7, 7, 7, 2),
    ]
    lines = report_text.plain(distribution(rows)).splitlines()
    assert lines[:3] == ["a.toml: 4 runs", "  3 (75.00%) held", "  1 (25.00%) failed: all whole (seed 3)"]
    assert lines[3].split() == ["events", "per", "run", "least", "median", "p90", "p99", "most", "seed"]
    assert lines[4].split() == ["leader", "elected", "1", "2", "3", "3", "1,200", "4"]
    assert len({len(line) for line in lines[3:]}) == 1
