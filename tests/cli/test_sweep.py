"""`simzk sweep`, as typed: once for real, and everything that is refused before Spark is started."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from simzk.partitions.failures.sets import NamedFailure
from simzk.partitions.layouts import read_layout
from simzk.pipeline.sweeps.outcomes import parse_specs
from tests.pipeline.local_tables import failures_table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

pytestmark = pytest.mark.slow

TABLES = [
    "brokers.parquet",
    "estimates.parquet",
    "failures",
    "racks.parquet",
    "sweep.json",
    "topics.parquet",
    "worst.parquet",
]
SIMZK = [sys.executable, "-c", "from simzk.cli import main; main()"]


@pytest.fixture
def layout(simzk: Simzk, tmp_path: Path) -> Path:
    """Nine brokers in three racks."""
    path = tmp_path / "layout.parquet"
    assert simzk("layout", "make", "--brokers", 9, "--partitions", 90, "--rf", 2, "--out", path).status == 0
    return path


@pytest.mark.java
def test_a_sweep_says_the_worst_and_nothing_else_and_litters_nowhere(layout: Path, tmp_path: Path) -> None:
    desk, other = tmp_path / "desk", tmp_path / "bin" / "python3"
    desk.mkdir()
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")  # what PySpark's workers would run on if they were not message
    other.chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    variables["PATH"] = f"{other.parent}{os.pathsep}{variables['PATH']}"
    (tmp_path / "power.json").write_text('{"feed [1]": {"brokers": [6, 0, 3, 1, 2]}, "feed 2": {"racks": ["rack9"]}}')
    ended = subprocess.run(
        [
            *SIMZK,
            "sweep",
            str(layout),
            "--fail",
            "brokers:1",
            "--fail",
            "racks:1",
            "--fail",
            "racks:4",
            "--fail",
            "brokers:2~9",
            "--fail",
            "racks:1+brokers:1",
            "--fail",
            "brokers=5+1",
            "--fail",
            "../power.json",
            "--out",
            "out",
            "--master",
            "local[1]",
        ],
        cwd=desk,
        env={**variables, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    unfit = {
        "racks:4": "racks:4 cannot fail: there are 3 racks with a live broker",
        "feed 2": "feed 2 cannot fail: there is no rack 'rack9'",
    }
    assert (ended.returncode, ended.stderr) == (0, "".join(f"simzk: skipped: {why}\n" for why in unfit.values()))
    lines = ended.stdout.splitlines()
    assert lines[0] == "Worst 10 of 41 failure sets".ljust(len(lines[0]))
    assert re.search(r"rack\d \(3 brokers\), broker \d ", ended.stdout)
    sampled = lines.pop()
    assert re.fullmatch(
        r"brokers:2~9: [\d.]+% \([\d.]+% to [\d.]+%\) of all 36 sets take partitions offline, .*", sampled
    )
    assert json.loads((desk / "out" / "sweep.json").read_text())["unfit"] == [
        {"fail": fail, "why": why} for fail, why in unfit.items()
    ]
    assert lines[-2] == "Without any failure: 0 offline, 0 under min ISR, 0 under-replicated, of 90 partitions"
    assert lines[-1] == f"All failure sets: {desk / 'out' / 'failures'} (Parquet)"
    rows = sorted(pq.read_table(desk / "out" / "failures").to_pylist(), key=lambda row: row["failure_set"])
    named = (NamedFailure("brokers=1+5", (1, 5)), NamedFailure("feed [1]", (0, 1, 2, 3, 6)))
    specs = (*parse_specs("brokers:1,racks:1,brokers:2~9,racks:1+brokers:1"), *named)
    assert rows == failures_table(read_layout(layout), specs).to_pylist()
    assert [row["brokers"] for row in rows[-2:]] == [[1, 5], [0, 1, 2, 3, 6]]
    assert "feed [1]" in ended.stdout
    assert sorted(path.name for path in desk.iterdir()) == ["out"]
    assert sorted(path.name for path in (desk / "out").iterdir()) == TABLES


@pytest.mark.java
def test_a_master_that_cannot_be_is_one_line(layout: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [*SIMZK, "sweep", str(layout), "--fail", "brokers:1", "--out", str(tmp_path / "out"), "--master", "nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(
        "simzk: error: --master nowhere: Spark did not start: Master must either be yarn or "
    )
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--fail", "broker"],
            "'broker' is not a failure specification; expected brokers:N, racks:N or racks:N+brokers:M",
        ),
        (["--fail", "brokers:1", "--fail", "brokers=1+9", "--strict"], "brokers=1+9 cannot fail: there is no broker 9"),
        (["--fail", "nowhere.json"], "nowhere.json: cannot be read: No such file"),
        (
            ["--fail", "brokers:1", "--fail", "racks:4", "--strict"],
            "racks:4 cannot fail: there are 3 racks with a live broker",
        ),
        (["--fail", "brokers:10"], "brokers:10 cannot fail: there are 9 live brokers"),
    ],
)
def test_what_cannot_fail_is_refused_before_anything_starts(
    simzk: Simzk, layout: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    status, text, err = simzk("sweep", layout, *arguments, "--out", tmp_path / "out")
    assert (status, text) == (2, "")
    assert err.startswith("simzk: error: ")
    assert message in err
    assert not (tmp_path / "out").exists()


def test_a_missing_layout_and_a_taken_directory_are_refused(simzk: Simzk, layout: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, _, err = simzk("sweep", tmp_path / "none.parquet", "--fail", "brokers:1", "--out", out)
    assert (status, err) == (2, f"simzk: error: {tmp_path / 'none.parquet'}: there is no such file\n")
    (out / "failures").mkdir(parents=True)
    status, _, err = simzk("sweep", layout, "--fail", "brokers:1", "--out", out)
    assert status == 2
    assert "the directory already contains a sweep; expected an empty directory" in err


def test_no_java_is_one_line(simzk: Simzk, layout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    status, text, err = simzk("sweep", layout, "--fail", "brokers:1", "--out", tmp_path / "out")
    assert (status, text) == (2, "")
    assert err.startswith("simzk: error: Spark needs Java 17 or newer and none is on PATH: install one")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
