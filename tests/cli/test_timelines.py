"""`simzk timelines` of a small log: without Java, in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from simzk.pipeline.saved import find_saved
from tests.cli.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

KAFKA = ROOT / "tests" / "pipeline" / "data" / "kafka-3.6.2"


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("_no_java")
def test_a_small_log_needs_no_java(simzk: Simzk, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = simzk("timelines", KAFKA, "--out", out)
    assert (done.status, done.err) == (0, "")
    first, worst, *_ = done.out.splitlines()
    counts = "114 partitions, 12 totals, 18 leadership, 3 controllers, 6 brokers, 15 sessions, 143 writers"
    assert first == f"598 transactions; {counts}"
    assert worst.startswith("t2-1: offline 0.2 s, ")
    (saved,) = find_saved(out)
    assert saved.table("leadership").num_rows == 18
    again = simzk("timelines", KAFKA, "--out", out)
    assert (again.status, again.out) == (2, "")
    assert "already contains timelines" in again.err


@pytest.mark.slow
@pytest.mark.usefixtures("_no_java")
def test_a_master_asks_for_spark(simzk: Simzk, tmp_path: Path) -> None:
    done = simzk("timelines", KAFKA, "--out", tmp_path / "out", "--master", "local[1]")
    assert (done.status, done.out) == (2, "")
    assert "Spark needs Java" in done.err


@pytest.mark.slow
@pytest.mark.usefixtures("_no_java")
def test_the_result_is_json(simzk: Simzk, tmp_path: Path) -> None:
    done = simzk("timelines", KAFKA, "--out", tmp_path / "out", "--chroot", "/nowhere", "--json", "-")
    found = json.loads(done.out)
    assert (found["out"], found["transactions"], found["rows"]["partitions"]) == (str(tmp_path / "out"), 598, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_java")
def test_files_that_cannot_be_read_at_all_are_a_failure(simzk: Simzk, tmp_path: Path) -> None:
    """A log with a damaged head and one good log are a success with a warning; the damaged one alone is none."""
    damaged = tmp_path / "version-2" / "log.1"
    damaged.parent.mkdir()
    damaged.write_bytes(b"no log of transactions at all")
    done = simzk("timelines", tmp_path, "--out", tmp_path / "out")
    assert done.status == 2
    assert "no file could be read" in done.err
