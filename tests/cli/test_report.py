"""`simzk report`, as typed: one page of several directories, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.cli.commands import ROOT
from tests.report.test_pages import Reader, plots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

STORY = ROOT / "scenarios" / "broker_failure.toml"


def test_risks_and_runs_are_one_page(simzk: Simzk, tmp_path: Path) -> None:
    layout, page = tmp_path / "layout.parquet", tmp_path / "page.html"
    assert simzk("layout", "make", "--brokers", 6, "--partitions", 30, "--rf", 2, "--out", layout).status == 0
    assert simzk("risk", layout, "--out", tmp_path / "risk").status == 0
    assert simzk("run", STORY, "--seeds", 2, "--out", tmp_path / "runs").status == 0
    done = simzk("report", tmp_path / "risk", tmp_path / "runs", "--html", page)
    assert (done.status, done.out, done.err) == (0, f"wrote {page}: risk, swarm\n", "")
    html = page.read_text(encoding="utf-8")
    assert Reader(html).texts["h2"] == ["Risk: layout.parquet", "Results of all runs: runs"]
    assert plots(html)["p0-assignments"]["y"] == ["as-is", "rack-aware", "copysets", "random"]
    assert plots(html)["p1-runs"]["x"] == [2]
    assert "Each broker is away 2 times a year, 1 hours each; " in html


def test_what_cannot_be_told_or_written_is_one_line(simzk: Simzk, tmp_path: Path) -> None:
    done = simzk("report", tmp_path, "--html", tmp_path / "page.html")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"simzk: error: {tmp_path}: the directory contains no results of simzk; expected what ")
    assert simzk("run", STORY, "--out", tmp_path / "runs").status == 0
    nowhere = tmp_path / "no" / "page.html"
    done = simzk("report", tmp_path / "runs", "--html", nowhere)
    assert (done.status, done.err) == (
        2,
        f"simzk: error: {nowhere}: cannot write the file: No such file or directory\n",
    )


def test_without_plotly_it_is_said_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['plotly'] = None\n"
        "from simzk.cli import main\n"
        f"sys.argv = ['simzk', 'run', {str(STORY)!r}, '--seeds', '1', '--out', 'runs']\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code\n"
        "sys.argv = ['simzk', 'report', 'runs', '--html', 'page.html']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("simzk: error: plotly")
    assert done.stderr.endswith(" is not installed; this needs: pip install 'simzk[report]'\n")
