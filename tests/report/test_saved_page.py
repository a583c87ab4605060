"""Pages of saved results: every section, the data of each chart, and sections without rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simzk.report import page
from simzk.report.charts import MOST_UPRIGHT, Areas, Bars
from simzk.report.page import Section
from simzk.report.pages import RiskTables, SwarmTables, SweepTables, TimelinesTables, results_page
from tests.report.test_pages import Reader, plots

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
    controllers={name: column[:1] for name, column in SPANS.items()},
    brokers={name: column[:1] for name, column in SPANS.items()},
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
        "Partition states",
        "Partitions in a bad state over time",
        "Partitions longest in a bad state",
        "Leader changes by broker",
        "Controllers",
        "Brokers",
        "Expired sessions",
        "Sessions with the most writes",
    ]
    assert "7 topics are not shown." in read.texts["p"]
    states = plots(html)["p0-states"]
    assert states["x"] == ["1970-01-01 00:00:00.000", "1970-01-01 00:01:00.000", "1970-01-01 00:02:00.000"]
    assert states["text"][0][0].startswith("1970-01-01 00:00:00.000 to 1970-01-01 00:01:00.000: ")
    assert plots(html)["p0-moves"]["y"] == [3, 4]
    assert plots(html)["p0-counts-0"]["y"] == [1.0, 0.0]
    assert plots(html)["p0-counts-1"]["y"] == [2.0, 2.0]


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
    assert plots(html) == {}
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
    worst = plots(html)["p0-worst"]
    assert (worst["x"], worst["y"], worst["orientation"]) == ([8], ["brokers 1, 2"], "h")
    assert plots(html)["p0-brokers-0"]["y"] == [10, 11]
    assert plots(html)["p0-racks-0"]["x"] == ["a", "b"]
    drawn = Reader(results_page([replace(SWEEP, estimates={"fails": ["brokers:3~9"]})]))
    assert "Estimates for all sets from samples" in drawn.texts["h2"]


def test_probabilities_have_their_intervals_and_never_has_no_bar() -> None:
    bar = plots(results_page([RISK]))["p0-assignments"]
    assert bar["x"] == [None, 0.5]
    assert (bar["error_x"]["array"], bar["error_x"]["arrayminus"]) == ([0.0, 0.0], [0.0, 0.0])


def test_several_make_one_page_with_names_that_differ() -> None:
    html = results_page([TIMELINES, SWEEP, RISK, SWARM, SWEEP])
    read = Reader(html)
    assert read.texts["h1"] == ["simzk report"]
    titles = [tables.title for tables in (TIMELINES, SWEEP, RISK, SWARM, SWEEP)]
    assert read.texts["h2"] == titles
    assert html.count("plotly.js v") == 1
    assert {"p1-worst", "p4-worst", "p2-assignments", "p3-runs"} <= set(plots(html))
    assert results_page([TIMELINES, SWEEP, RISK, SWARM, SWEEP]) == html


@pytest.mark.parametrize(("rows", "kind"), [(MOST_UPRIGHT, "bar"), (MOST_UPRIGHT + 1, "scatter")])
def test_more_rows_than_can_be_told_apart_are_lines(rows: int, kind: str) -> None:
    columns = {"broker": list(range(rows)), "before": list(range(rows))}
    bars = Bars(columns, "loads", "broker", {"before": "#000000"}, "partitions", upright=True)
    plot = plots(page.to_html("t", [], [Section("s", [bars])]))["loads"]
    assert (plot["type"], plot["y"]) == (kind, list(range(rows)))


def test_no_rows_are_no_picture() -> None:
    assert Bars({}, "a", "b", {}, "c").to_html() == Areas({}, "a", {}, "c").to_html() == ""
