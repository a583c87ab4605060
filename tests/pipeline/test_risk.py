"""Risk as tables: rows by topic and assignment, the same in tasks of Spark as here, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from simzk.errors import ConfigError
from simzk.partitions.layouts import Layout, brokers_in_racks, generate_layout, read_layout, write_layout
from simzk.pipeline import risks as risk
from simzk.pipeline.risks import plan_risk, rates_spec, run_risk

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SPEC = rates_spec(None, {}, {})


def made(path: Path, *, brokers: int = 20, racks: int = 4, topics: int = 5, partitions: int = 200) -> Path:
    layout = generate_layout(
        brokers_in_racks(brokers, racks), topics=topics, partitions=partitions, replication_factor=3, seed=1
    )
    write_layout(layout, path)
    return path


def run(layout: Path, out: Path, *compared: str, spark: SparkSession | None = None) -> dict[str, list[dict[str, Any]]]:
    table = run_risk(plan_risk(layout, SPEC, out, compared, samples=200), spark)
    tables = {name: pq.read_table(out / f"{name}.parquet").to_pylist() for name in ("assignments", "topics")}
    assert tables["assignments"] == table.to_pylist()
    return tables


def test_every_topic_has_a_row_under_every_assignment_and_the_worst_are_first(tmp_path: Path) -> None:
    tables = run(made(tmp_path / "layout.parquet"), tmp_path / "out")
    names = ["as-is", "rack-aware", "copysets", "random"]
    assert [row["assignment"] for row in tables["assignments"]] == names
    assert [row["assignment"] for row in tables["topics"]] == [name for name in names for _ in range(5)]
    for name in names:
        of_topics = [row for row in tables["topics"] if row["assignment"] == name]
        (whole,) = (row for row in tables["assignments"] if row["assignment"] == name)
        assert sorted(row["topic"] for row in of_topics) == [f"topic-{number}" for number in range(5)]
        assert sum(row["partitions"] for row in of_topics) == whole["partitions"] == 200
        assert sum(row["partitions_lost"] for row in of_topics) == pytest.approx(whole["partitions_lost"])
        assert sum(row["partition_minutes"] for row in of_topics) == pytest.approx(whole["partition_minutes"])
        order = [(row["outage_probability"], row["loss_probability"]) for row in of_topics]
        assert order == sorted(order, reverse=True)
        for row in (*of_topics, whole):
            for figure in ("outage_probability", "offline_minutes", "loss_probability"):
                least, low, value, high, most = (row[figure + end] for end in ("_least", "_low", "", "_high", "_most"))
                assert least <= low <= value <= high <= most
            assert row["dark_minutes"] < row["partition_minutes"]
    as_is, rack_aware, copysets, random = tables["assignments"]
    assert as_is["replicas_moved"] == 0
    assert 0 < rack_aware["replicas_moved"] <= 600
    assert copysets["replica_sets"] < rack_aware["replica_sets"] < random["replica_sets"]
    assert copysets["scatter_width"] < random["scatter_width"]
    assert random["outage_probability"] > 100 * as_is["outage_probability"]
    assert copysets["loss_probability"] < random["loss_probability"]
    assert copysets["partitions_lost"] == pytest.approx(random["partitions_lost"], rel=1e-6)


def test_what_was_made_is_written_as_layouts_that_can_be_compared_with(tmp_path: Path) -> None:
    path = made(tmp_path / "layout.parquet")
    first = run(path, tmp_path / "out", "copysets:4")
    file = tmp_path / "out" / "layouts" / "copysets-4.parquet"
    read_layout(file).check()
    second = run(path, tmp_path / "again", str(file))
    one, other = first["assignments"][1], second["assignments"][1]
    assert one | {"assignment": ""} == other | {"assignment": ""}
    assert not (tmp_path / "again" / "layouts").exists()


def test_the_order_of_another_files_rows_does_not_matter(tmp_path: Path) -> None:
    path = made(tmp_path / "layout.parquet")
    layout = read_layout(path)
    turned = {name: value[::-1] for name, value in vars(layout).items() if isinstance(value, np.ndarray)}
    write_layout(Layout(**{**vars(layout), **turned}), tmp_path / "turned.parquet")
    (_, row) = run(path, tmp_path / "out", str(tmp_path / "turned.parquet"))["assignments"]
    assert row["replicas_moved"] == 0


@pytest.mark.java
def test_tasks_of_spark_find_the_same(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "layout.parquet")
    here = run(path, tmp_path / "here")
    for topics in (1, 2, 64):
        monkeypatch.setattr(risk, "TOPICS_PER_TASK", topics)
        assert run(path, tmp_path / f"tasks-{topics}") == here
    assert run(path, tmp_path / "spark", spark=spark) == here


def test_what_a_cluster_cannot_have_is_left_out_or_refused_where_it_was_asked_for(tmp_path: Path) -> None:
    path = made(tmp_path / "layout.parquet", racks=0)
    why = "a rack-aware assignment needs racks, but some live brokers have none; expected a rack for each broker"
    plan = plan_risk(path, SPEC, tmp_path / "out", [], samples=200)
    assert plan.left_out == (("rack-aware", why),)
    run_risk(plan)
    summary = json.loads((tmp_path / "out" / "risk.json").read_text())
    assert summary["left_out"] == [{"assignment": "rack-aware", "why": why}]
    assert summary["assignments"] == ["as-is", "copysets", "random"]
    with pytest.raises(ConfigError, match="a rack-aware assignment needs racks"):
        plan_risk(path, SPEC, tmp_path / "other", ["rack-aware"], samples=200)
    assert [one.name for one in plan_risk(path, SPEC, tmp_path / "o", ["as-is"], samples=200).assignments] == ["as-is"]


def test_what_does_not_fit_is_said_by_name(tmp_path: Path) -> None:
    path = made(tmp_path / "layout.parquet")

    def refused(*compared: object) -> str:
        with pytest.raises(ConfigError) as error:
            plan_risk(path, SPEC, tmp_path / "out", list(map(str, compared)), samples=200)
        return str(error.value)

    fewer = made(tmp_path / "fewer.parquet", partitions=190)
    assert refused(fewer) == f"{fewer}: does not place the same partitions; expected those of the layout"
    other = made(tmp_path / "other.parquet", brokers=24)
    assert refused(other) == f"{other}: places replicas on broker 20; expected brokers of the layout"
    assert refused("random", "random") == "random stands twice; expected each assignment once"
    assert refused("best").startswith("unknown assignment 'best'")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "topics.parquet").touch()
    assert refused("random").startswith(f"{tmp_path / 'out'}: the directory already contains tables; ")
