"""Pages are self-contained, deterministic, bounded, and show the contents of their tables."""

from __future__ import annotations

import base64
import hashlib
import random
import re
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.report import page, table
from simzk.report.charts import TITLED_BYTES, RowGroup, Strip, Timeline, TimelineRow, spans_by_row
from simzk.report.page import PAGE_BYTES, Section, Table, Text
from simzk.report.run_page import MOMENTS_MAX, RunTables, runs_page
from simzk.report.znode_tree import differences
from tests.report.reading import Reader, titles, tree_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.report.table import Columns

SPANS: Columns = {
    "row": ["t-0", "t-0", "t-1"],
    "from_s": [0.0, 2.0, 1.0],
    "until_s": [2.0, 4.0, 4.0],
    "state": ["preferred leader", "no leader", "preferred leader"],
    "label": ["first", "second <b>", "third"],
    "text": ["1", "", "2"],
}
HOSTILE = "</script><script>alert(1)</script> & \" ' more"
EVENTS: Columns = {
    "at, s": [1.5, 2.0],
    "who": ["operator", "controller 1"],
    "what": [f"write /a {HOSTILE}", "leader lost"],
    "subject": ["", "t-0"],
    "before": ["", "leader 1 epoch 0 isr [1]"],
    "after": ["", "leader none epoch 1 isr [1]"],
    "kind": ["step", "leader"],
}


def run_tables(title: str = "A story", *, held: bool = True) -> RunTables:
    return RunTables(
        title=title,
        heading="story.toml, seed 1",
        held=held,
        outcome="it went so",
        replay="simzk run story.toml --seed 1",
        expectations={
            "held": [True, held],
            "at, s": [1.0, 4.0],
            "line": [7, 9],
            "expectation": ["one", "two"],
            "failures": ["", "" if held else "leader is 2"],
        },
        violations={},
        brokers={
            "row": ["broker 1", "broker 1"],
            "from_s": [0.0, 2.0],
            "until_s": [2.0, 4.0],
            "state": ["up", "dead"],
            "label": ["up", "dead"],
        },
        leaders=SPANS,
        in_sync={name: [] for name in SPANS},
        marks={"at_s": [1.5, 4.0], "kind": ["step", "held" if held else "failed"], "label": [HOSTILE, "two"]},
        events=EVENTS,
        why="Because.\n\nAnd so on.",
        topics=["t"],
        znodes_at_start={"/": ""},
        znode_changes={"at, s": [1.5], "path": ["/a"], "data": [HOSTILE]},
    )


def test_a_page_is_whole_and_fetches_nothing() -> None:
    html = runs_page([run_tables()])
    read = Reader(html)
    assert read.fetched == []
    assert "url(" not in html.replace("url(#hatch)", "")
    assert read.texts["h1"] == ["A story"]
    assert read.texts["h2"] == ["What happened", "Expectations", "Events"]
    assert read.texts["code"] == ["simzk run story.toml --seed 1"]
    assert [text for text in read.texts["p"] if text in ("it went so", "Because.", "And so on.")] == [
        "it went so",
        "Because.",
        "And so on.",
    ]
    assert len(read.ids) == len(set(read.ids))


def test_the_policy_permits_the_pages_own_style_and_script_only() -> None:
    html = runs_page([run_tables()])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none'; ")
    for directive, tag in (("style-src", "style"), ("script-src", "script")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert " style=" not in html, "a style attribute would be blocked"
    assert not re.search(r" on[a-z]+=", html), "so would a handler"


def test_texts_of_a_run_are_never_markup() -> None:
    html = runs_page([run_tables(title=HOSTILE)])
    read = Reader(html)
    assert read.texts["h1"] == [HOSTILE]
    assert f"write /a {HOSTILE}" in read.texts["td"]
    assert any(HOSTILE in text for text in read.texts["title"])
    assert "<script>alert" not in html
    assert html.count("<script") == 2, "the data of the znodes and the page's own"
    (data,) = read.data
    assert data["changes"] == [[0], [1], [0], [0], [HOSTILE]]


def test_the_same_tables_make_the_same_bytes() -> None:
    assert runs_page([run_tables()]) == runs_page([run_tables()])


def test_a_failure_stands_out() -> None:
    read = Reader(runs_page([run_tables(held=False)]))
    assert "4.000 s, line 9: two: leader is 2" in read.texts["p"]
    assert (read.texts["dd"][0], read.texts["dt"][0]) == ("1 of 2", "failed expectations")
    assert "bad" in read.marks
    chart = read.charts["run-time"]
    assert [shape.style for shape in chart["failed"] if shape.title] == ["sign bad"]
    assert [text for text in read.texts["dd"] if "t-0" in text] == ["1 of 2, t-0 for 2.000 s"]


def test_partitions_without_a_leader_come_before_moved_leaders() -> None:
    read = Reader(runs_page([run_tables()]))
    order = read.texts["dt"]
    assert order.index("partitions without a leader at some time") < order.index("leaders moved")
    rows = [row for row in read.charts["run-time"] if row.startswith("t-")]
    assert rows == ["t-0", "t-1"]


def test_rows_are_marked_by_what_held() -> None:
    read = Reader(table.to_html({"held": [True, False], "name": ["a", None], "at": [1.0, 2]}, marked_by="held"))
    assert read.marks == [None, "good", "bad"]
    assert read.texts["td"] == ["a", "1.000", "2"]
    assert read.texts["th"] == ["name", "at"]


def test_columns_of_different_lengths_are_no_table() -> None:
    with pytest.raises(AssertionError, match="different lengths"):
        table.to_html({"a": [1], "b": []})


def test_a_table_that_is_too_long_says_what_is_left_out() -> None:
    html = page.to_html("t", [], [Section("s", [Table({"n": list(range(9000))}, rest="the file")])])
    read = Reader(html)
    shown = len(read.texts["td"])
    assert 100 < shown < 9000
    assert f"The first {shown:,} of 9,000 rows are shown. All rows: the file." in read.texts["p"]


STYLES = {"preferred leader": "lead", "no leader": "bad"}


def timeline(spans: Columns, *, dated: bool = False) -> str:
    rows = [TimelineRow(name, [Strip(of_row, STYLES)]) for name, of_row in spans_by_row(spans).items()]
    return Timeline("plot", "states", [RowGroup("g", rows)], 0.0, 4.0, [("lead", "leads")], dated=dated).to_html()


def test_a_timeline_has_a_rectangle_for_each_span() -> None:
    html = timeline(SPANS)
    assert titles(html, "plot") == {
        "time, s": [],
        "t-0": [("lead", "0.000 s to 2.000 s: first"), ("bad", "2.000 s to 4.000 s: second <b>")],
        "t-1": [("lead", "1.000 s to 4.000 s: third")],
    }
    rect = next(shape for shape in Reader(html).charts["plot"]["t-1"] if shape.tag == "rect")
    assert (rect.attributes["x"], rect.attributes["width"]) == ("25%", "75%")
    assert 'aria-label="t-0: no leader 50%, preferred leader 50%"' in html
    assert "1970-01-01 00:00:02.000 to 1970-01-01 00:00:04.000: second" in timeline(SPANS, dated=True)


def test_of_very_many_spans_those_of_one_state_are_one_path_and_short_bad_ones_are_kept() -> None:
    count = TITLED_BYTES // 50
    step = 4.0 / count
    spans: Columns = {
        "row": ["t-0"] * count,
        "from_s": [step * at for at in range(count)],
        "until_s": [step * (at + (1e-6 if at == 5 else 1)) for at in range(count)],
        "state": ["no leader" if at == 5 else "preferred leader" for at in range(count)],
        "label": [""] * count,
    }
    shapes = Reader(timeline(spans)).charts["plot"]["t-0"]
    paths = [(shape.style, shape.attributes["d"].count("M")) for shape in shapes if shape.tag == "path"]
    assert paths == [("lead", 2), ("bad", 1)]


def test_no_spans_are_no_chart() -> None:
    assert timeline({name: [] for name in SPANS}) == ""


def test_of_several_runs_the_failed_ones_come_first() -> None:
    runs = [run_tables(f"run {n}", held=n != 20) for n in range(60)]
    html = runs_page(runs)
    read = Reader(html)
    assert len(html.encode()) <= PAGE_BYTES
    assert read.texts["h1"] == ["60 runs, 1 failed"]
    shown = len(read.texts["h2"]) - 1
    assert read.texts["h2"] == ["All runs", "run 20", *(f"run {n}" for n in range(60) if n != 20)][: shown + 1]
    assert any(text.startswith(f"{shown} of 60 runs are shown in full, failed ones first.") for text in read.texts["p"])
    assert read.marks[1:61] == ["bad"] + ["good"] * 59
    assert len(read.ids) == len(set(read.ids))


def long_run(noise: Callable[[int], str] = lambda _: "") -> RunTables:
    """Return a run of 10,000 events of 500 partitions; `noise` is text in each event."""
    count, partitions = 10_000, 500
    state = "leader {} epoch {} isr [1, 2, 3]"
    subjects = [f"orders-{at % partitions}" for at in range(count)]
    texts = [state.format(at % 3 + 1, at) + noise(at) for at in range(count)]
    events: Columns = {
        "at, s": [at / 10 for at in range(count)],
        "who": ["controller 1"] * count,
        "what": ["leader lost" if at == 9000 else "ISR shrunk" for at in range(count)],
        "subject": subjects,
        "before": texts,
        "after": texts,
        "kind": ["leader" if at == 9000 else "ISR" for at in range(count)],
    }
    rows = sorted(range(count), key=lambda at: at % partitions)
    spans: Columns = {
        "row": [subjects[at] for at in rows],
        "from_s": [at / 10 for at in rows],
        "until_s": [at / 10 + 50 for at in rows],
        "state": ["preferred leader" if at % 7 else "no leader" for at in rows],
        "label": [texts[at] for at in rows],
    }
    in_sync = {**spans, "state": ["all in sync" if state == "preferred leader" else state for state in spans["state"]]}
    changes: Columns = {
        "at, s": [at / 10 for at in range(count)],
        "path": [f"/brokers/topics/orders/partitions/{at % partitions}/state" for at in range(count)],
        "data": [f'{{"leader":{at % 3},"leader_epoch":{at},"isr":[1,2,3]}}{noise(at)}' for at in range(count)],
    }
    marks: Columns = {
        "at_s": [float(at) for at in range(900)],
        "kind": ["step"] * 900,
        "label": ["kill broker 1"] * 900,
    }
    return replace(
        run_tables(),
        events=events,
        leaders=spans,
        in_sync=in_sync,
        znode_changes=changes,
        marks=marks,
        topics=["orders"],
        end_s=1050.0,
    )


def test_a_page_of_ten_thousand_events_is_small_and_has_them_all() -> None:
    run = long_run()
    html = runs_page([run])
    assert len(html.encode()) <= PAGE_BYTES
    read = Reader(html)
    znodes, packed = read.data
    assert len(znodes["changes"][0]) == 10_000
    cells = read.texts["td"]
    shown = [float(cells[place - 1]) for place, text in enumerate(cells) if text == "controller 1"]
    times = [ms / 1000 for ms in accumulate(packed["ms"])]
    assert sorted([*times, *shown]) == run.events["at, s"]
    assert {900.0, 999.9} <= set(shown), "the lost leader and the last event are rows"
    assert (set(packed["kinds"]), set(packed["who"])) == ({"ISR"}, {"controller 1"})
    cut = [text for text in read.texts["p"] if "simzk run story.toml --seed 1 --json OUT" in text]
    assert len(cut) == 1
    assert cut[0].startswith("Without JavaScript "), "with it, no event and no change of a znode is left out"
    assert any(re.search(r"the first \d+ of 500; all: simzk run", text) for text in read.texts["small"])


def test_many_events_leave_room_for_the_changes_of_znodes() -> None:
    """The times of all events would fill the room of the znode tree."""
    draw, count = random.Random(1), 60_000
    times_s = sorted(draw.randrange(100_000_000) / 1000 for _ in range(count))
    events: Columns = {name: ["x"] * count for name in EVENTS} | {"at, s": times_s, "kind": ["ISR"] * count}
    html = runs_page([replace(run_tables(), events=events, expectations={}, end_s=100_000.0)])
    assert len(html.encode()) <= PAGE_BYTES
    read = Reader(html)
    assert len(read.data[0]["changes"][0]) == 1
    moments_ms = set(accumulate(read.data[0]["moments"]))
    assert len(moments_ms) <= 2 * MOMENTS_MAX + 1
    cells = [text for text in read.texts["td"] if re.fullmatch(r"\d+\.\d{3}", text)]
    assert len(cells) > 100
    assert {round(float(text) * 1000) for text in cells} <= moments_ms, "each row of the table has its moment"


def test_a_page_says_what_it_leaves_out() -> None:
    draw = random.Random(1)
    run = long_run(lambda _: f" {draw.getrandbits(400):x}")  # cannot be compressed to less than half
    html = runs_page([run])
    assert len(html.encode()) <= PAGE_BYTES
    read = Reader(html)
    znodes, packed = read.data
    cut = [text for text in read.texts["p"] if "simzk run story.toml --seed 1 --json OUT" in text]
    (events,) = [found for text in cut if (found := re.match(r"([\d,]+) of 10,000 events are shown", text))]
    count = int(events[1].replace(",", ""))
    rows = [text for text in read.texts["td"] if text == "controller 1"]
    assert count == len(rows) + len(packed["rows"])
    assert 300 < count < 9000
    left = 10_000 - len(znodes["changes"][0])
    assert f"{left:,} later changes of znodes are left out. All: simzk run story.toml --seed 1 --json OUT." in cut
    assert znodes["until"] == 100 * len(znodes["changes"][0])
    assert {"900.000", "999.900"} <= set(read.texts["td"])


PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/\u00e9", "/c"])
DATA = st.none() | st.text(st.sampled_from("ab<&\u00e9\U0001f600"), max_size=6)


@given(
    start=st.dictionaries(PATHS, st.text(st.sampled_from("ab\U0001f600"), max_size=6), max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 5), PATHS, DATA), max_size=20),
)
def test_differences_give_the_tree_at_each_moment(
    start: dict[str, str], changes: list[tuple[int, str, str | None]]
) -> None:
    changes.sort(key=lambda change: change[0])
    columns: Columns = {name: [change[at] for change in changes] for at, name in enumerate(("at, s", "path", "data"))}
    found = differences(start, columns, {2500}, 100_000)
    assert found.left == 0
    for moment, at_ms in enumerate(found.moments_ms):
        tree = dict(start)
        for at_s, path, data in changes:
            if 1000 * at_s > at_ms:
                break
            tree.pop(path, None)
            if data is not None:
                tree[path] = data
        assert tree_at(found, moment) == tree


def test_differences_that_are_too_large_end_early() -> None:
    changes: Columns = {"at, s": [1.0, 2.0, 3.0], "path": ["/a"] * 3, "data": ["x" * 50, "y" * 50, "z" * 50]}
    found = differences({}, changes, set(), 150)
    assert (len(found.changes), found.left) == (2, 1)
    assert tree_at(found, 2) == {"/a": "y" * 50}


def test_a_page_without_charts_has_no_chart() -> None:
    html = page.to_html("t", [Text("x < y")], [Section("s", [Table({"n": [1, 2]})])])
    assert "<figure" not in html
    assert Reader(html).texts["p"] == ["x < y"]
