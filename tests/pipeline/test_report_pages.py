"""Pages of Spark's output: their numbers equal the tables, and damage is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from simzk.cli.report import MOST_NAMED_LOADS, sweep_tables, timelines_tables
from simzk.partitions.failures.sets import NamedFailure
from simzk.partitions.layouts import brokers_in_racks, generate_layout, write_layout
from simzk.pipeline.saved import find_saved
from simzk.pipeline.sweeps.outcomes import parse_specs
from simzk.pipeline.sweeps.sweep import plan_sweep, run_sweep
from simzk.pipeline.timelines.run import plan_timelines, run_timelines
from simzk.report.page import PAGE_BYTES
from simzk.report.pages import OFFLINE, UNDER_REPLICATED, results_page
from tests.report.reading import Reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2"

pytestmark = [pytest.mark.slow, pytest.mark.java]


def test_a_page_of_timelines_says_what_the_tables_say(spark: SparkSession, tmp_path: Path) -> None:
    out, said = tmp_path / "out", list[str]()
    found = run_timelines(spark, plan_timelines([str(KAFKA)], out), lambda line, _: said.append(line))
    assert any(line.endswith(" tasks") for line in said)
    tables = timelines_tables(find_saved(out)[0])
    totals = pq.read_table(out / "totals").to_pylist()
    assert set(tables.states["row"]) == {f"{row['topic']}-{row['partition']}" for row in totals}
    assert tables.states["row"][0] == tables.worst["partition"][0] == "t2-1"
    begin, end = (float(str(tables.counts["at_s"][at])) for at in (0, -1))
    stretch = (end - begin) / (len(tables.counts["at_s"]) - 1)
    for state, column in ((OFFLINE, "offline_s"), (UNDER_REPLICATED, "under_replicated_s")):
        lasted = sum(float(str(count)) for count in tables.counts[state][:-1]) * stretch
        both = 0.0 if state == OFFLINE else sum(row["offline_s"] for row in totals)
        # An offline partition is under-replicated too; the page shows the worse of the two.
        assert lasted + both == pytest.approx(sum(row[column] for row in totals), rel=0.02)
    assert sum(int(str(count)) for count in tables.moves["gained"]) <= found.rows["leadership"]
    assert [str(state) for state in tables.controllers["state"]] == ["broker 1", "broker 2", "broker 3"]
    assert len(tables.expired["session"]) == 2
    assert "/brokers/ids/2" in str(tables.expired["took with it"])
    assert len(results_page([tables]).encode()) < PAGE_BYTES


def test_named_sets_are_shown_by_name_and_only_the_worst_with_their_load(spark: SparkSession, tmp_path: Path) -> None:
    layout = generate_layout(brokers_in_racks(9, 3), topics=3, partitions=90, replication_factor=2, seed=1)
    write_layout(layout, tmp_path / "layout.parquet")
    feeds = [NamedFailure(f"feed {number}", (number, number + 1)) for number in range(MOST_NAMED_LOADS + 2)]
    specs = [*parse_specs("racks:1"), *feeds]
    worst, _ = run_sweep(spark, plan_sweep(tmp_path / "layout.parquet", specs, tmp_path / "out"))
    tables = sweep_tables(find_saved(tmp_path / "out")[0])
    of_feeds = [row["fail"] for row in worst if row["fail"] != "racks:1"]
    assert [who for who in tables.worst["fails"] if str(who).startswith("feed ")][: len(of_feeds)] == of_feeds
    assert set(tables.loads) == {"racks:1", *of_feeds[:MOST_NAMED_LOADS]}
    assert f"Loads are shown for the worst {MOST_NAMED_LOADS} of {len(feeds)} named sets." in tables.summary


def test_a_page_of_a_sweep_says_what_the_tables_say(spark: SparkSession, tmp_path: Path) -> None:
    layout = generate_layout(brokers_in_racks(9, 3), topics=3, partitions=90, replication_factor=2, seed=1)
    write_layout(layout, tmp_path / "layout.parquet")
    out = tmp_path / "out"
    worst, _ = run_sweep(
        spark, plan_sweep(tmp_path / "layout.parquet", parse_specs("brokers:2~10,racks:1,racks:4"), out)
    )
    tables = sweep_tables(find_saved(out)[0])
    assert list(tables.worst[OFFLINE])[:10] == [row["newly_offline"] for row in worst]
    assert any("rack1: brokers 0, 3, 6" in str(who) for who in tables.worst["fails"])
    assert [str(said) for said in tables.summary if "racks:4" in said]
    states = [list(of_set["state"]) for of_set in tables.partitions]
    assert [of_set.count("offline") for of_set in states] == list(tables.worst[OFFLINE])
    assert "offline" in states[0]
    read = Reader(results_page([tables]))
    assert read.targets[0] == "p0-set-0"
    assert set(read.targets) <= set(read.ids)
    assert json.loads((out / "sweep.json").read_text())["unfit"]
    assert set(tables.estimates["fails"]) == {"brokers:2~10"}
    assert list(tables.loads) == ["brokers:2~10", "racks:1"]
    brokers, racks = tables.loads["racks:1"]
    for load in (brokers, racks):
        assert sum(int(str(count)) for count in load["before"]) == 90
    assert all(int(str(b)) <= int(str(a)) for b, a in zip(brokers["before"], brokers["after, at most"], strict=True))
    assert len(results_page([tables]).encode()) < PAGE_BYTES
