"""`simzk report`, as typed: one page of several directories, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import ROOT
from tests.report.reading import Reader, titles

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

STORY = ROOT / "scenarios" / "broker_failure.toml"


@pytest.mark.slow
def test_risks_and_runs_are_one_page(simzk: Simzk, tmp_path: Path) -> None:
    layout, page = tmp_path / "layout.parquet", tmp_path / "page.html"
    assert simzk("layout", "make", "--brokers", 6, "--partitions", 30, "--rf", 2, "--out", layout).status == 0
    assert simzk("risk", layout, "--out", tmp_path / "risk").status == 0
    assert simzk("run", STORY, "--seeds", 2, "--out", tmp_path / "runs").status == 0
    done = simzk("report", tmp_path / "risk", tmp_path / "runs", "--html", page)
    assert (done.status, done.out, done.err) == (0, f"wrote {page}: risk, swarm\n", "")
    html = page.read_text(encoding="utf-8")
    assert Reader(html).texts["h2"] == ["Risk: layout.parquet", "Results of all runs: runs"]
    assert list(Reader(html).charts["p0-assignments"]) == ["as-is", "rack-aware", "copysets", "random"]
    (runs,) = titles(html, "p1-runs").values()
    assert runs[0] == ("ok", f"{STORY}: 2 held")
    assert "Each broker is away 2 times a year, 1 hours each; " in html


@pytest.mark.slow
def test_an_empty_directory_or_unwritable_file_is_one_line(simzk: Simzk, tmp_path: Path) -> None:
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
