"""`simzk run --html`: the page says what the run said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from simzk.scenarios.run_tables import tables_of
from tests.cli.commands import ROOT
from tests.report.test_pages import Reader, plots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

SCENARIOS = ROOT / "scenarios"
SHIPPED = sorted(SCENARIOS.glob("*.toml"))
SMALLEST = SCENARIOS / "broker_failure.toml"


def test_the_page_of_a_run(simzk: Simzk, tmp_path: Path) -> None:
    done = simzk("run", SMALLEST, "--html", tmp_path / "page.html", "--json", tmp_path / "run.json")
    assert done.status == 0, done.err
    (document,) = json.loads((tmp_path / "run.json").read_text())["runs"]
    html = (tmp_path / "page.html").read_text()
    read = Reader(html)
    assert read.fetched == []
    assert read.texts["h1"] == ["A broker fails"]
    assert read.texts["code"] == [document["replay"]]
    cells = read.texts["td"]
    assert all(verdict["name"] in cells for verdict in document["expectations"])
    assert all(event["what"] in cells for event in document["timeline"])
    assert set(plots(html)) == {"run-brokers", "run-leaders", "run-in-sync"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_stands_at_the_end_of_the_heat_maps_is_what_stands_in_zookeeper(
    simzk: Simzk, tmp_path: Path, path: Path
) -> None:
    simzk("run", path, "--json", tmp_path / "run.json")
    (document,) = json.loads((tmp_path / "run.json").read_text())["runs"]
    tables = tables_of(document)

    def last(spans: object) -> dict[str, str]:
        assert isinstance(spans, dict)
        ends = max(tables.brokers["until_s"], key=lambda at: float(str(at)))
        rows = zip(spans["row"], spans["until_s"], spans["state"], strict=True)
        return {row: state for row, until_s, state in rows if until_s == ends}

    leaders, in_sync = {}, {}
    for partition in document["partitions"]:
        if "leader" in partition:
            name = f"{partition['topic']}-{partition['partition']}"
            led = partition["leader"] >= 0
            leaders[name] = f"broker {partition['leader']}" if led else "no leader"
            missing = len(set(partition["replicas"]) - set(partition["isr"]))
            in_sync[name] = ("all" if missing == 0 else f"{missing} missing") if led else "no leader"
    assert last(tables.leaders) == leaders
    moving = {name for name, state in in_sync.items() if last(tables.in_sync)[name] != state}
    assert not moving
    brokers = {row for row, state in last(tables.brokers).items() if state != "away"}
    assert brokers == {f"broker {broker}" for broker in document["brokers"]}
    ruling = [row for row, state in last(tables.brokers).items() if state == "controller"]
    assert ruling == ([] if document["controller"] is None else [f"broker {document['controller']}"])


def test_the_page_of_many_runs_and_of_versions_side_by_side(simzk: Simzk, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert simzk("run", SMALLEST, "--seeds", "2", "--html", out).status == 0
    assert Reader(out.read_text()).texts["h1"] == ["2 runs, 0 failed"]
    simzk("run", SMALLEST, "--kafka-version", "1.1", "--kafka-version", "3.9", "--html", out)
    assert Reader(out.read_text()).texts["h1"] == ["2 runs, 0 failed"]


def test_the_same_seed_makes_the_same_page(simzk: Simzk, tmp_path: Path) -> None:
    for name in ("a", "b"):
        simzk("run", SMALLEST, "--html", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_page_that_cannot_be_written(simzk: Simzk, tmp_path: Path) -> None:
    done = simzk("run", SMALLEST, "--html", tmp_path / "nowhere" / "page.html")
    assert done.status == 2
    assert "cannot write the file" in done.err
