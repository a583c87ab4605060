"""Pages of saved results: every section, the data of each chart, and sections without rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simzk.report import page
from simzk.report.charts import LINE_POINTS_MAX, MOST_UPRIGHT, Areas, Bars
from simzk.report.page import Section
from simzk.report.pages import RiskTables, SwarmTables, SweepTables, TimelinesTables, results_page
from tests.report.reading import Reader, titles

if TYPE_CHECKING:
    from simzk.report.table import Columns

SPANS: dict[str, list[object]] = {
    "row": ["orders-0", "orders-0"],
    "from_s": [0.0, 60.0],
    "until_s": [60.0, 120.0],
    "state": ["offline", "all in sync"],
    "label": ["<b>offline</b> 3 s", "all in sync"],
}
TIMELINES = TimelinesTables(
    title="Timelines: week",
    summary=["598 transactions."],
    states=SPANS,
    left_out="7 topics are not shown.",
    counts={"at_s": [0.0, 60.0], "offline": [1.0, 0.0], "under min ISR": [0.0, 0.0], "under-replicated": [2.0, 2.0]},
    controllers={name: column[:1] for name, column in SPANS.items()} | {"row": ["controller"], "state": ["broker 1"]},
    brokers={name: column[:1] for name, column in SPANS.items()} | {"row": ["broker 1"], "state": ["registered"]},
    moves={"broker": [1, 2], "gained": [3, 4], "lost": [5, 6]},
    worst={"partition": ["orders-0"], "offline, s": [60.0]},
    expired={"session": ["0x1"], "took with it": ["/controller"]},
    writers={"session": ["0x1"], "transactions": [9]},
)
SWEEP = SweepTables(
    title="Failure sweep: big.parquet",
    summary=["235 failure sets."],
    worst={"fails": ["brokers 1, 2"], "offline": [8], "under min ISR": [48], "leaders moved": [51]},
    estimates={},
    topics={"topic": ["orders"]},
    loads={
        "brokers:1": (
            {"broker": [1, 2], "before": [10, 11], "after, at most": [12, 13]},
            {"rack": ["a", "b"], "before": [10, 11], "after, at most": [12, 13]},
        )
    },
)
RISK = RiskTables(
    title="Risk: big.parquet",
    summary=["12 brokers."],
    assignments={"assignment": ["as-is", "random"], "an outage": ["never", "73%"]},
    probabilities={
        "assignment": ["as-is", "random"],
        **{f"{name}{end}": [0.0, 0.5] for name in ("an outage", "data lost") for end in ("", "_low", "_high")},
    },
    topics={"topic": ["orders"], "as-is": ["never"]},
)
SWARM = SwarmTables(
    title="Results of all runs: swarm",
    summary=["20 runs, 1 failed."],
    outcomes={"scenario": ["a.toml"], "held": [19], "failed": [1]},
    failed={"scenario": ["a.toml"], "replay command": ["simzk run a.toml --seed 3"]},
    numbers={"what": ["events"], "median": [3]},
)


def test_a_page_of_timelines_tells_everything() -> None:
    html = results_page([TIMELINES])
    read = Reader(html)
    assert (read.texts["h1"], read.fetched) == (["Timelines: week"], [])
    assert read.texts["h2"] == [
        "What happened",
        "Partitions in a bad state over time",
        "Partitions longest in a bad state",
        "Leader changes by broker",
        "Expired sessions",
        "Sessions with the most writes",
    ]
    assert "7 topics are not shown." in read.texts["p"]
    history = titles(html, "p0-history")
    assert history["orders-0"] == [
        ("bad", "1970-01-01 00:00:00.000 to 1970-01-01 00:01:00.000: <b>offline</b> 3 s"),
        ("ok", "1970-01-01 00:01:00.000 to 1970-01-01 00:02:00.000: all in sync"),
    ]
    assert titles(html, "p0-moves")["leaderships by broker"] == [
        *[("lead", "1: 3 gained"), ("other", "1: 5 lost"), ("lead", "2: 4 gained"), ("other", "2: 6 lost")]
    ]
    paths = {
        chart: [shape.style for shape in read.charts[chart]["partitions over time, UTC"] if shape.tag == "path"]
        for chart in ("p0-counts-0", "p0-counts-1")
    }
    assert paths == {"p0-counts-0": ["bad", "low"], "p0-counts-1": ["warn"]}
    (area,) = [shape for shape in read.charts["p0-counts-1"]["partitions over time, UTC"] if shape.tag == "path"]
    assert area.attributes["d"] == "M0 0H0V0H10000V0V160H10000V160H0z", "two partitions all the time, of two"


def test_areas_of_one_instant_are_a_picture() -> None:
    html = Areas({"at_s": [1_800_000_000.5], "a": [3]}, "chart", {"a": "lead"}, "partitions").to_html()
    (area,) = [shape for shape in Reader(html).charts["chart"]["partitions over time, UTC"] if shape.tag == "path"]
    assert area.attributes["d"].startswith("M0 ")


def test_where_nothing_happened_that_is_said() -> None:
    nothing: dict[str, list[object]] = {name: [] for name in SPANS}
    empty = replace(
        TIMELINES,
        states=nothing,
        counts={},
        controllers=nothing,
        brokers=nothing,
        moves={},
        worst={},
        expired={},
        writers={},
    )
    html = results_page([empty])
    assert Reader(html).charts == {}
    for said in ("No partition was seen.", "All partitions were in sync all the time.", "No session expired."):
        assert said in Reader(html).texts["p"]
    html = results_page([replace(SWEEP, topics={})])
    assert "No set takes a partition offline or under min ISR." in Reader(html).texts["p"]
    assert "No run failed." in Reader(results_page([replace(SWARM, failed={})])).texts["p"]


def test_a_page_of_a_sweep_has_the_worst_sets_and_loads_before_and_after() -> None:
    html = results_page([SWEEP])
    assert Reader(html).texts["h2"] == [
        "Worst failure sets",
        "Most affected topics",
        "Load before and after: brokers:1",
    ]
    assert titles(html, "p0-worst")["brokers 1, 2"] == [
        ("bad", "brokers 1, 2: 8 offline"),
        ("low", "brokers 1, 2: 48 under min ISR"),
    ]
    figures = Reader(html)
    assert figures.texts["dd"] == ["8", "48", "51"], "what matters most comes first"
    harmless = replace(SWEEP, worst={**SWEEP.worst, "offline": [0], "under min ISR": [0]})
    assert titles(results_page([harmless]), "p0-worst") == {
        "brokers 1, 2": [("lead", "brokers 1, 2: 51 leaders moved")]
    }
    assert ("lead", "2: 11 before") in titles(html, "p0-brokers-0")["partitions led by broker"]
    assert ("after", "b: 13 after, at most") in titles(html, "p0-racks-0")["partitions led by rack"]
    drawn = Reader(results_page([replace(SWEEP, estimates={"fails": ["brokers:3~9"]})]))
    assert "Estimates for all sets from samples" in drawn.texts["h2"]


def test_a_failure_set_leads_to_its_partitions() -> None:
    worst: Columns = {
        "fails": ["brokers 1, 2", "rack <a>"],
        "offline": [1, 0],
        "under min ISR": [0, 0],
        "leaders moved": [9, 8],
    }
    partitions: list[Columns] = [{"partition": ["orders-7"], "state": ["offline"]}, {"partition": [], "state": []}]
    read = Reader(results_page([replace(SWEEP, worst=worst, partitions=partitions)]))
    assert read.targets == ["p0-set-0"]
    assert (read.texts["a"], "p0-set-0" in read.ids) == (["brokers 1, 2"], True)
    assert "orders-7" in read.texts["td"]
    assert "rack <a>" in read.texts["td"], "a set that takes nothing offline leads nowhere"
    assert "brokers 1, 2" in read.charts["p0-worst"]


def test_probabilities_have_their_intervals_and_never_has_no_bar() -> None:
    html = results_page([RISK])
    never, half = Reader(html).charts["p0-assignments"].values()
    assert [shape.attributes["width"] for shape in never if shape.tag == "rect"] == ["0%", "0%"]
    assert [shape.attributes["width"] for shape in half if shape.tag == "rect"] == ["86%", "86%"]
    assert [shape for shape in half if shape.style == "interval"] == [], "the ends are equal"
    wide = {**RISK.probabilities, "an outage_low": [0.0, 0.05]}
    half = Reader(results_page([replace(RISK, probabilities=wide)])).charts["p0-assignments"]["random"]
    (interval,) = [shape for shape in half if shape.style == "interval"]
    assert (interval.attributes["x1"], interval.attributes["x2"]) == ("43%", "86%"), "a tenth, of two decades"


def test_several_make_one_page_with_names_that_differ() -> None:
    html = results_page([TIMELINES, SWEEP, RISK, SWARM, SWEEP])
    read = Reader(html)
    assert read.texts["h1"] == ["simzk report"]
    titles = [tables.title for tables in (TIMELINES, SWEEP, RISK, SWARM, SWEEP)]
    assert read.texts["h2"] == titles
    assert {"p1-worst", "p4-worst", "p2-assignments", "p3-runs"} <= set(read.charts)
    assert len(read.ids) == len(set(read.ids))
    assert results_page([TIMELINES, SWEEP, RISK, SWARM, SWEEP]) == html


@pytest.mark.parametrize(("rows", "tag"), [(MOST_UPRIGHT, "rect"), (MOST_UPRIGHT + 1, "path")])
def test_too_many_rows_to_distinguish_become_lines(rows: int, tag: str) -> None:
    columns = {"broker": list(range(rows)), "before": list(range(rows))}
    bars = Bars(columns, "loads", "broker", {"before": "lead"}, "partitions", upright=True)
    (shapes,) = Reader(page.to_html("t", [], [Section("s", [bars])])).charts["loads"].values()
    drawn = [shape for shape in shapes if shape.tag == tag]
    if tag == "rect":
        assert [shape.title for shape in drawn] == [f"{at}: {at} before" for at in range(rows)]
    else:
        assert len(drawn) == 1
        assert drawn[0].attributes["d"].count("V") == rows - 1


def test_a_line_of_very_many_rows_shows_the_most_of_each_few() -> None:
    rows = 3 * LINE_POINTS_MAX
    values = [9 if at == 1000 else 1 for at in range(rows)]
    columns = {"broker": list(range(rows)), "before": values}
    bars = Bars(columns, "loads", "broker", {"before": "lead"}, "partitions", upright=True)
    charts = Reader(page.to_html("t", [], [Section("s", [bars])])).charts["loads"]
    (line,) = [shape for shape in charts["partitions by broker, the most of 3 at each point"] if shape.tag == "path"]
    assert line.attributes["d"] == "M0 144H3330V16H3340V144H10000"


def test_no_rows_are_no_picture() -> None:
    assert Bars({}, "a", "b", {}, "c").to_html() == Areas({}, "a", {}, "c").to_html() == ""
