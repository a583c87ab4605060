"""The shape in which benchmarks tell their figures, and the comparison of two files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.compare import main
from benchmarks.figures import Figure, Limit, medians, write_figures
from benchmarks.large_cluster import compare_with_single_requests

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FIGURES = [
    Figure("a failure", 1.5, "ms", at_most=2, limit=Limit(0.5, "rows moved once")),
    Figure("two tasks", 1.6, "times one", at_least=1.7),
    Figure("a row", 0.1, "us"),
]


def test_figures_are_printed_with_their_demand_and_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_figures("some", FIGURES, {"rounds": 3}, tmp_path / "out.json")
    machine, *lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "a failure: 1.5 ms (demanded at most 2: holds)",
        "    limit 0.5 ms, 3.0 times: rows moved once",
        "two tasks: 1.6 times one (demanded at least 1.7: MISSED)",
        "a row: 0.1 us",
    ]
    kept = json.loads((tmp_path / "out.json").read_text())
    assert (kept["benchmark"], kept["machine"], kept["details"]) == ("some", machine, {"rounds": 3})
    assert kept["figures"] == {
        "a failure": {
            "value": 1.5,
            "unit": "ms",
            "demanded_at_most": 2,
            "holds": True,
            "limit": 0.5,
            "limit_of": "rows moved once",
        },
        "two tasks": {"value": 1.6, "unit": "times one", "demanded_at_least": 1.7, "holds": False},
        "a row": {"value": 0.1, "unit": "us"},
    }


def test_arms_take_turns_and_the_first_round_does_not_count() -> None:
    ran: list[str] = []
    found = medians({"one": lambda: ran.append("one"), "other": lambda: ran.append("other")}, 2)
    assert ran == ["one", "other"] * 3
    assert [list(times) for times in found.values()] == [["cpu_ms", "wall_ms"]] * 2


def written(file: Path, benchmark: str, machine: str, **figures: float) -> str:
    kept = {"benchmark": benchmark, "machine": machine, "figures": figures, "held": [{"ms": 2}], "holds": True}
    file.write_text(json.dumps(kept))
    return str(file)


def test_two_files_are_compared_number_by_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = written(tmp_path / "old.json", "some", "here", failure=2.0, none=0, gone=1)
    new = written(tmp_path / "new.json", "some", "here", failure=1.0, none=3, come=1)
    assert main([old, new]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "figures.failure: 2 -> 1  0.50",
        "figures.none: 0 -> 3  -",
        "figures.gone: only in the old one",
        "held[0].ms: 2 -> 2  1.00",
        "figures.come: only in the new one",
    ]


def test_other_machines_and_other_benchmarks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = written(tmp_path / "here.json", "some", "here", failure=2.0)
    there = written(tmp_path / "there.json", "some", "there", failure=1.0)
    other = written(tmp_path / "other.json", "other", "here", failure=1.0)
    assert main([here, there]) == 2
    assert capsys.readouterr().err == "not of the same machine: 'here' and 'there'\n"
    assert main([here, there, "--other-machines"]) == 0
    assert "0.50" in capsys.readouterr().out
    assert main([here, other, "--other-machines"]) == 2


def test_batches_leave_what_single_requests_leave_in_the_benchmark_of_large_clusters() -> None:
    """Compare in a size in which random latencies would decide who consumes a zxid in the race for `/controller`."""
    compare_with_single_requests(1_200, 30)
