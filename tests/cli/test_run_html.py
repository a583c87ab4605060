"""`simzk run --html`: the page shows what happened in the run."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from simzk.report.page import PAGE_BYTES
from simzk.report.znode_tree import differences
from simzk.scenarios.run_tables import Document, tables_of
from tests.cli.commands import ROOT
from tests.report.reading import Reader, titles, tree_at

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.report.table import Columns
    from tests.cli.commands import Simzk

pytestmark = pytest.mark.slow

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
    assert document["why"].split()[:4] == read.texts["p"][1].split()[:4]
    rows = titles(html, "run-time")
    assert list(rows) == [
        *("time, s", "steps", "expectations", "controller", "broker 1", "broker 2", "broker 3"),
        *("orders-0", "orders-1", "orders-2"),
    ]
    assert ("sign act", "20.000 s: kill broker 2") in rows["steps"]
    assert ("dead", "20.000 s to 60.000 s: dead") in rows["broker 2"]
    assert ("bad", "") not in rows["orders-1"]
    assert len(rows["expectations"]) == len(document["expectations"])
    (data,) = read.data
    assert set(data["paths"]) >= {"/controller", "/brokers/ids/2"}


def test_the_tree_at_the_last_moment_is_the_tree_of_the_cluster(simzk: Simzk, tmp_path: Path) -> None:
    simzk("run", SMALLEST, "--json", tmp_path / "run.json")
    written = json.loads((tmp_path / "run.json").read_text())
    (document,) = written["runs"]
    tables = tables_of(document, written["znodes"])
    found = differences(tables.znodes_at_start, tables.znode_changes, set(), 1_000_000)
    tree = tree_at(found, len(found.moments_ms) - 1)
    registered = {int(path.rpartition("/")[2]) for path in tree if path.startswith("/brokers/ids/")}
    assert registered == set(document["brokers"])
    assert json.loads(tree["/controller"])["brokerid"] == document["controller"]
    for partition in document["partitions"]:
        path = f"/brokers/topics/{partition['topic']}/partitions/{partition['partition']}/state"
        state = json.loads(tree[path])
        assert (state["leader"], state["isr"]) == (partition["leader"], partition["isr"])
    killed_ms = 36_100
    tree = tree_at(found, max(at for at, ms in enumerate(found.moments_ms) if ms < killed_ms))
    assert "/brokers/ids/2" not in tree


def assert_processes_follow_the_faults(document: Document, brokers: Columns) -> None:
    """Assert that a broker is dead, paused or cut off right after the fault or step that does so."""
    spans = list(zip(*(brokers[name] for name in ("row", "from_s", "until_s", "state")), strict=True))
    for event in document["timeline"]:
        at_s = event["at_us"] / 1e6
        found = re.match(r"(kill|pause|cut|cuts off)s? broker (\d+)", event["what"])
        if event["who"] in ("fault", "operator") and found is not None:
            state = "dead" if found[1] == "kill" else "paused or cut off"
            seen = [
                one
                for row, begin, end, one in spans
                if f"{row} ".startswith(f"broker {found[2]} ") and begin <= at_s < end
            ]
            assert seen == [state], event


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_end_of_the_chart_is_what_zookeeper_has(simzk: Simzk, tmp_path: Path, path: Path) -> None:
    simzk("run", path, "--html", tmp_path / "page.html", "--json", tmp_path / "run.json")
    (document,) = json.loads((tmp_path / "run.json").read_text())["runs"]
    tables = tables_of(document)
    html, last_event = (tmp_path / "page.html").read_text(), document["timeline"][-1]
    assert len(html.encode()) <= PAGE_BYTES
    assert f"<td>{last_event['at_us'] / 1e6:.3f}</td><td>{last_event['who']}</td>" in html

    def last(spans: Columns, column: str) -> dict[str, str]:
        rows = zip(spans["row"], spans["until_s"], spans[column], strict=True)
        return {str(row): str(value) for row, until_s, value in rows if until_s == tables.end_s}

    leaders, missing = {}, set()
    for partition in document["partitions"]:
        if "leader" in partition:
            name = f"{partition['topic']}-{partition['partition']}"
            leaders[name] = str(partition["leader"]) if partition["leader"] >= 0 else ""
            if partition["leader"] >= 0 and set(partition["replicas"]) - set(partition["isr"]):
                missing.add(name)
    assert last(tables.leaders, "text") == leaders
    assert {row for row, state in last(tables.leaders, "state").items() if state == "no leader"} == {
        name for name, leader in leaders.items() if not leader
    }
    assert {row for row, state in last(tables.in_sync, "state").items() if state == "replicas missing"} == missing
    registered = {int(row.split()[1]) for row in last(tables.sessions, "state")}
    assert registered == set(document["brokers"])
    ruling = [] if document["controller"] is None else [str(document["controller"])]
    assert list(last(tables.controllers, "text").values()) == ruling
    processes = last(tables.brokers, "state")
    assert set(processes.values()) <= {"up", "dead", "paused or cut off"}
    assert all(processes[row] != "dead" for row in last(tables.sessions, "state")), "the dead have no session for long"
    assert_processes_follow_the_faults(document, tables.brokers)


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
