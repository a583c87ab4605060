"""`--json` of every command, and `-` for stdout: then nothing but the document is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

SMALLEST = ROOT / "scenarios" / "broker_failure.toml"
RECORDING = ROOT / "scenarios" / "layouts" / "kafka-3.9.1"


@pytest.fixture
def document(simzk: Simzk) -> Any:
    """`document("layout", "show", path)` is what the command writes to stdout with `--json -`."""

    def run(*words: object, status: int = 0) -> Any:
        done = simzk(*words, "--json", "-")
        assert done.status == status, done.err
        return json.loads(done.out)

    return run


def test_a_run_on_stdout_is_that_of_a_file(simzk: Simzk, document: Any, tmp_path: Path) -> None:
    simzk("run", SMALLEST, "--json", tmp_path / "out.json")
    assert document("run", SMALLEST) == json.loads((tmp_path / "out.json").read_text())


def test_two_outputs_on_stdout_are_rejected(simzk: Simzk) -> None:
    done = simzk("run", SMALLEST, "--json", "-", "--html", "-")
    assert (done.status, done.out) == (2, "")
    assert done.err == "simzk: error: -: two outputs go to stdout; expected - for one of them\n"


def test_a_page_on_stdout_is_nothing_but_a_page(simzk: Simzk, tmp_path: Path) -> None:
    simzk("layout", "make", "--out", tmp_path / "layout.json")
    out = simzk("layout", "show", tmp_path / "layout.json", "--html", "-").out
    assert out.lower().startswith("<!doctype html>")


def test_layouts(document: Any, tmp_path: Path) -> None:
    file = tmp_path / "layout.json"
    made = document("layout", "make", "--brokers", 4, "--racks", 2, "--partitions", 10, "--rf", 2, "--out", file)
    assert made == {"out": str(file), "topics": 1, "partitions": 10, "brokers": 4}
    shown = document("layout", "show", file)
    assert (shown["partitions"], shown["offline"], shown["replication_factors"]) == (10, 0, {"2": 10})
    assert [broker["broker"] for broker in shown["brokers"]] == [0, 1, 2, 3]
    assert sum(broker["replicas"] for broker in shown["brokers"]) == 20
    assert sum(rack["leaders"] for rack in shown["racks"]) == 10
    imported = document("layout", "import", "--dump", RECORDING / "dumps.json", "--out", tmp_path / "real.json")
    assert imported["step"]
    assert imported["brokers"] == 3


def test_risk_and_the_page_of_it(document: Any, tmp_path: Path) -> None:
    file, out = tmp_path / "layout.parquet", tmp_path / "risk"
    document("layout", "make", "--partitions", 6, "--out", file)
    found = document("risk", file, "--compare", "random", "--samples", 128, "--out", out)
    assert [row["assignment"] for row in found["assignments"]] == ["as-is", "random"]
    assert found["worst_topics"]
    page = document("report", out, "--html", tmp_path / "page.html")
    assert page == {"html": str(tmp_path / "page.html"), "results": [["risk", str(out)]]}
