"""Pages are self-contained, deterministic, and show the contents of their tables."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from simzk.report import charts as timeline
from simzk.report import page, table
from simzk.report.page import Section, Table, Text, Timeline
from simzk.report.pages import ROWS_MAX, SHOWN_MAX, RunTables, runs_page

if TYPE_CHECKING:
    from simzk.report.table import Columns

VOID = {"meta", "br", "img", "link", "input"}


class Reader(HTMLParser):
    """Parser of a page: its text by tag and its tables; asserts that every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.rows = 0
        self.marks: list[str | None] = []
        self.fetched: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows += 1
            self.marks.append(dict(attrs).get("class"))
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def plots(html: str) -> dict[str, dict[str, Any]]:
    """The data of the plots in a page, by name."""
    calls = re.findall(r'Plotly\.newPlot\(\s*"([^"]+)",\s*(\[.*?\]),\s*\{', html, flags=re.DOTALL)
    return {name: json.loads(data)[0] for name, data in calls}


SPANS: Columns = {
    "row": ["a", "a", "b"],
    "from_s": [0.0, 2.0, 1.0],
    "until_s": [2.0, 4.0, 4.0],
    "state": ["up", "down", "up"],
    "label": ["first", "second", "third"],
}


def run_tables(title: str = "A story", *, held: bool = True, spans: Columns = SPANS) -> RunTables:
    return RunTables(
        title=title,
        heading="story.toml, seed 1",
        held=held,
        outcome="it went so",
        replay="simzk run story.toml --seed 1",
        expectations={"held": [True, held], "name": ["one", "two"]},
        violations={},
        brokers=spans,
        leaders=spans,
        in_sync={name: [] for name in SPANS},
        events={"at, s": [1.5], "what": ["<script>alert(1)</script> & more"]},
    )


def test_a_page_is_whole_and_fetches_nothing() -> None:
    html = runs_page([run_tables()])
    read = Reader(html)
    assert read.fetched == []
    assert html.count("plotly.js v") == 1
    assert read.texts["h1"] == ["A story"]
    assert read.texts["h2"] == ["Expectations", "Brokers", "Leaders", "Events"]
    assert "<script>alert(1)</script> & more" in read.texts["td"]
    assert read.texts["code"] == ["simzk run story.toml --seed 1"]


def test_the_same_tables_make_the_same_bytes() -> None:
    assert runs_page([run_tables()]) == runs_page([run_tables()])


def test_a_page_without_plots_has_no_script() -> None:
    html = page.to_html("t", [Text("x < y")], [Section("s", [Table({"n": [1, 2]})])])
    assert "<script" not in html
    assert len(html) < 5000
    assert Reader(html).texts["p"] == ["x < y"]


def test_rows_are_marked_by_what_held() -> None:
    read = Reader(table.to_html({"held": [True, False], "name": ["a", None], "at": [1.0, 2]}, marked_by="held"))
    assert read.marks == [None, "good", "bad"]
    assert read.texts["td"] == ["a", "1.000", "2"]
    assert read.texts["th"] == ["name", "at"]


def test_columns_of_different_lengths_are_no_table() -> None:
    with pytest.raises(AssertionError, match="different lengths"):
        table.to_html({"a": [1], "b": []})


def test_a_timeline_has_a_brick_for_each_time_between_two_changes() -> None:
    html = page.to_html("t", [], [Section("s", [Timeline(SPANS, "plot", {"down": "#ff0000"})])])
    plot = plots(html)["plot"]
    assert plot["x"] == [0.0, 1.0, 2.0, 4.0]
    assert plot["y"] == ["a", "b"]
    assert plot["z"] == [[1, 1, 0], [None, 1, 1]]  # states in the order of their names: down, up
    assert plot["text"] == [
        ["0.000 s to 2.000 s: first", "0.000 s to 2.000 s: first", "2.000 s to 4.000 s: second"],
        ["", "1.000 s to 4.000 s: third", "1.000 s to 4.000 s: third"],
    ]
    colours = [colour for _, colour in plot["colorscale"]]
    assert colours[:2] == ["#ff0000", "#ff0000"]
    assert plot["colorbar"]["ticktext"] == ["down", "up"]


def test_no_spans_are_no_plot() -> None:
    assert timeline.to_html({name: [] for name in SPANS}, name="p", colours={}) == ""


def test_of_several_runs_the_failed_ones_come_first() -> None:
    runs = [run_tables(f"run {n}", held=n != 20) for n in range(30)]
    read = Reader(runs_page(runs))
    assert read.texts["h1"] == ["30 runs, 1 failed"]
    assert read.texts["h2"] == ["All runs", "run 20", *(f"run {n}" for n in range(SHOWN_MAX - 1))]
    assert f"{30 - SHOWN_MAX} are in the overview only." in read.texts["p"]
    assert read.marks[1:31] == ["good"] * 20 + ["bad"] + ["good"] * 9


def test_of_many_rows_those_that_changed_most_are_shown() -> None:
    quiet = [(f"quiet-{n}", 0.0, 9.0, "up", "") for n in range(ROWS_MAX + 50)]
    busy = [("busy", float(n), float(n + 1), "up", "") for n in range(9)]
    rows = [*quiet, *busy]
    spans: Columns = {name: [row[at] for row in rows] for at, name in enumerate(SPANS)}
    html = runs_page([run_tables(spans=spans)])
    assert len(plots(html)["run-brokers"]["y"]) == ROWS_MAX
    assert "busy" in plots(html)["run-brokers"]["y"]
    assert "51 more with fewer changes are not shown." in Reader(html).texts["p"]
