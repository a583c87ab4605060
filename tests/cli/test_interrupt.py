"""Ctrl-C: a command keeps and reports what is done, and exits with 130 and without a trace.

Each command runs in a process group of its own, which gets the signal as a whole, as from a terminal.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from simzk.partitions.layouts import read_layout
from simzk.pipeline.saved import find_saved
from simzk.pipeline.sweeps.outcomes import parse_specs
from tests.cli.commands import ROOT
from tests.pipeline.local_tables import failures_table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

pytestmark = pytest.mark.slow

SMALLEST = ROOT / "scenarios" / "broker_failure.toml"
KAFKA = ROOT / "tests" / "pipeline" / "data" / "kafka-3.6.2"

ON_LINE = """
from simzk.cli.console import Progress
show = Progress.show
def show_and_interrupt(self, line, share=None):
    if line.startswith({line!r}) and not interrupted:
        interrupted.append(line)
        os.killpg(0, signal.SIGINT)
    show(self, line, share)
Progress.show = show_and_interrupt
"""
"""Sends the signal as soon as a line of progress is shown."""


def interrupted(*words: object, when: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that interrupts its group; `when` are statements that arrange it."""
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background inherits an ignored one
        f"interrupted = []\nsys.argv = {['simzk', *map(str, words)]!r}\n{when}\n"
        "from simzk.cli import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, start_new_session=True
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    return done


@pytest.mark.parametrize("jobs", [1, 2])
def test_many_runs(tmp_path: Path, jobs: int) -> None:
    out = tmp_path / "runs.json"
    when = ON_LINE.format(line="2/20 runs")
    done = interrupted(
        "run", SMALLEST, "--seeds", 20, "--jobs", jobs, "--json", out, "--out", tmp_path / "dir", when=when
    )
    kept = [run["seed"] for run in json.loads(out.read_text())["runs"]]
    assert kept == list(range(1, len(kept) + 1))
    assert 2 <= len(kept) < 20
    assert done.stderr == f"simzk: interrupted: {len(kept)} of 20 runs are done\n"
    assert f"{SMALLEST}: {len(kept)} seeds" in done.stdout
    assert pq.read_table(tmp_path / "dir" / "runs.parquet").num_rows == len(kept)


def test_one_run_shows_its_timeline_so_far() -> None:
    done = interrupted("run", SMALLEST, when=ON_LINE.format(line="20 s"))
    assert done.stderr.startswith("simzk: interrupted: ")
    assert done.stderr.endswith(" s of virtual time are played\n")
    assert "20.000 s  > kill broker 2" in done.stdout


def test_a_replay_reports_the_steps_that_are_compared(tmp_path: Path) -> None:
    recording, out = ROOT / "tests/kafka/data/two_racks/2.4.1", tmp_path / "report.json"
    done = interrupted("replay", recording, "--json", out, when=ON_LINE.format(line="2 of 42 steps"))
    assert done.stderr == "simzk: interrupted: 2 of 42 steps are compared\n"
    assert done.stdout.splitlines()[-1] == "2 of 2 steps equal (Kafka 2.4.1)"
    assert len(json.loads(out.read_text())["steps"]) == 2


def test_a_risk_keeps_the_assignments_that_are_done(simzk: Simzk, tmp_path: Path) -> None:
    layout, out = tmp_path / "layout.parquet", tmp_path / "out"
    simzk("layout", "make", "--topics", 4, "--out", layout)
    words = ["risk", layout, "--compare", "random", "--samples", 128, "--out", out]
    done = interrupted(*words, when=ON_LINE.format(line="4 of 8 topics"))
    assert done.stderr == "simzk: interrupted: 1 of 2 assignments are done\n"
    (saved,) = find_saved(out)
    assert saved.table("assignments.parquet")["assignment"].to_pylist() == ["as-is"]
    assert saved.table("topics.parquet").num_rows == 4
    none = interrupted("risk", layout, "--out", tmp_path / "none", when=ON_LINE.format(line="0 of"))
    assert none.stderr == "simzk: interrupted: none of 4 assignments is done\n"
    assert not (tmp_path / "none").exists()


IN_A_JOB = """
import contextlib
import threading
import {module} as module
watched, jobs = module.watched, []
def interrupt_job():
    from pyspark import SparkContext
    tracker = SparkContext._active_spark_context.statusTracker()
    while not tracker.getActiveStageIds():
        os.sched_yield()
    os.killpg(0, signal.SIGINT)
@contextlib.contextmanager
def watched_and_interrupted(*words):
    jobs.append(words)
    if len(jobs) == 2:
        threading.Thread(target=interrupt_job, daemon=True).start()
    with watched(*words):
        yield
module.watched = watched_and_interrupted
"""
"""Sends the signal while Spark works on the second job."""


@pytest.mark.java
def test_runs_on_spark_keep_those_of_finished_jobs(tmp_path: Path) -> None:
    out, words = tmp_path / "runs.json", ["run", SMALLEST, "--seeds", 20, "--master", "local[1]"]
    when = IN_A_JOB.format(module="simzk.pipeline.swarms")
    done = interrupted(*words, "--json", out, "--out", tmp_path / "dir", when=when)
    kept = [run["seed"] for run in json.loads(out.read_text())["runs"]]
    assert kept == list(range(1, 6)), "the first of four jobs"
    assert done.stderr == "simzk: interrupted: 5 of 20 runs are done\n"
    assert f"{SMALLEST}: 5 seeds" in done.stdout
    assert pq.read_table(tmp_path / "dir" / "runs.parquet").num_rows == 5
    none = interrupted(*words, when=ON_LINE.format(line="starting Spark"))
    assert (none.stdout, none.stderr) == ("", "simzk: interrupted: 0 of 20 runs are done\n")


@pytest.mark.java
def test_a_risk_on_spark_keeps_the_assignments_of_finished_jobs(simzk: Simzk, tmp_path: Path) -> None:
    layout, out = tmp_path / "layout.parquet", tmp_path / "out"
    simzk("layout", "make", "--topics", 4, "--out", layout)
    words = ["risk", layout, "--compare", "random", "--samples", 128, "--out", out, "--master", "local[1]"]
    done = interrupted(*words, when=IN_A_JOB.format(module="simzk.pipeline.risks"))
    assert done.stderr == "simzk: interrupted: 1 of 2 assignments are done\n"
    (saved,) = find_saved(out)
    assert saved.table("assignments.parquet")["assignment"].to_pylist() == ["as-is"]
    assert saved.table("topics.parquet").num_rows == 4


@pytest.mark.java
def test_a_sweep_keeps_the_sets_of_finished_jobs(simzk: Simzk, tmp_path: Path) -> None:
    layout, out = tmp_path / "layout.parquet", tmp_path / "out"
    simzk("layout", "make", "--brokers", 60, "--partitions", 3000, "--topics", 3, "--out", layout)
    words = ["sweep", layout, "--fail", "brokers:1", "--fail", "brokers:3", "--out", out, "--master", "local[1]"]
    done = interrupted(
        *words,
        "--json",
        tmp_path / "sweep.json",
        when=IN_A_JOB.format(module="simzk.pipeline.sweeps.sweep") + "module.MOST_TASKS_PER_JOB = 1\n",
    )
    document = json.loads((tmp_path / "sweep.json").read_text())
    kept, planned = document["failure_sets"], document["planned_failure_sets"]
    assert planned == 60 + 60 * 59 * 58 // 6
    assert 60 < kept < planned
    assert done.stderr == f"simzk: interrupted: {kept:,} of {planned:,} failure sets are done\n"
    (saved,) = find_saved(out)
    rows = saved.table("failures").to_pylist()
    specs = parse_specs("brokers:1,brokers:3")
    assert sorted(row["failure_set"] for row in rows) == list(range(kept))
    first = failures_table(read_layout(layout), specs[:1]).to_pylist()
    assert [row for row in sorted(rows, key=lambda row: row["failure_set"]) if row["failure_set"] < 60] == first
    assert {row["fail"] for row in saved.table("estimates.parquet").to_pylist()} == {"brokers:1"}, "complete ones only"


@pytest.mark.java
def test_timelines_keep_the_tables_that_are_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = interrupted(
        "timelines", KAFKA, "--out", out, "--master", "local[2]", when=ON_LINE.format(line="writing brokers")
    )
    written = "controllers, leadership, partitions, totals"
    assert done.stderr == f"simzk: interrupted: 4 of 7 tables are written: {written}\n"
    assert ", ".join(sorted(path.name for path in out.iterdir())) == written


@pytest.mark.java
def test_before_anything_is_done(simzk: Simzk, tmp_path: Path) -> None:
    layout = tmp_path / "layout.parquet"
    simzk("layout", "make", "--out", layout)
    words = ["sweep", layout, "--fail", "brokers:1", "--out", tmp_path / "out"]
    done = interrupted(*words, when=ON_LINE.format(line="starting Spark"))
    assert (done.stdout, done.stderr) == ("", "simzk: interrupted: none of 3 failure sets is done\n")
    assert not (tmp_path / "out").exists()
