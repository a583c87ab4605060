"""`simzk risk`, as typed: the table, what is left out, and what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk


@pytest.fixture
def layout(simzk: Simzk, tmp_path: Path) -> Path:
    """Twenty brokers without racks."""
    path = tmp_path / "layout.parquet"
    made = simzk("layout", "make", "--brokers", 20, "--racks", 0, "--partitions", 90, "--rf", 2, "--out", path)
    assert made.status == 0
    return path


def test_assignments_stand_beside_each_other(simzk: Simzk, layout: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = simzk("risk", layout, "--out", out, "--broker-failures-per-year", 20, "--broker-repair-hours", 10)
    why = "a rack-aware assignment needs racks, but some live brokers have none; expected a rack for each broker"
    assert (done.status, done.err) == (0, f"simzk: skipped: rack-aware: {why}\n")
    assert done.out.startswith("All partitions, per year")
    for name in ("as-is", "copysets", "random"):
        (row,) = (line for line in done.out.splitlines() if line.startswith(f"│ {name} "))
        assert re.search(r"\d%|1 in \d", row)
    assert "Topics at the highest risk under the present assignment, per year" in done.out
    assert done.out.splitlines()[-1] == f"All topics: {out / 'topics.parquet'}"
    assert sorted(path.name for path in out.iterdir()) == [
        "assignments.parquet",
        "layouts",
        "risk.json",
        "topics.parquet",
    ]


def test_what_is_wrong_is_one_line(simzk: Simzk, layout: Path, tmp_path: Path) -> None:
    rates = tmp_path / "rates.toml"
    rates.write_text("[brokers.99]\nfailures_per_year = 1\n")
    done = simzk("risk", layout, "--rates", rates, "--out", tmp_path / "out")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"simzk: error: {rates}: broker 99 is not in the layout; expected one of 0, 1, 2, ")
    assert not (tmp_path / "out").exists()
