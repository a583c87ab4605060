"""Sweeps on Spark: the same table as in one process, however it is sliced; reasons in one line; nothing left behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import simzk.pipeline
from simzk.errors import ConfigError, SimzkError
from simzk.partitions.layouts import brokers_in_racks, generate_layout, read_layout, write_layout
from simzk.pipeline.spark_session import QUICK_COMPILER, in_words, spark_session
from simzk.pipeline.sweeps.outcomes import parse_specs
from simzk.pipeline.sweeps.sweep import MOST_ROWS_PER_JOB, WORST_FIRST, plan_sweep, run_sweep
from tests.pipeline.local_tables import failures_table, local_tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FAIL = "brokers:1,racks:1,brokers:2"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """Twelve brokers in three racks, replication factor 2: pairs of them take partitions offline."""
    path = tmp_path / "layout.parquet"
    drawn = generate_layout(brokers_in_racks(12, 3), topics=5, partitions=200, replication_factor=2, seed=11)
    write_layout(drawn, path)
    return path


@pytest.mark.java
@pytest.mark.parametrize("tasks", [None, 1, 7])
def test_the_source_gives_the_local_table_in_any_number_of_tasks(
    spark: SparkSession, layout: Path, tasks: int | None
) -> None:
    simzk.pipeline.register(spark)
    source = spark.read.format("simzk_failures").option("fail", FAIL)
    if tasks is not None:
        source = source.option("numPartitions", tasks)
    rows = sorted(source.load(str(layout)).toArrow().to_pylist(), key=lambda row: row["failure_set"])
    assert rows == failures_table(read_layout(layout), parse_specs(FAIL)).to_pylist()
    assert max(row["newly_offline"] for row in rows) > 0


@pytest.mark.java
@pytest.mark.parametrize("rows_per_job", [MOST_ROWS_PER_JOB, 1])
def test_a_sweep_writes_the_local_tables_and_finds_the_worst(
    spark: SparkSession, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_job: int
) -> None:
    monkeypatch.setattr("simzk.pipeline.sweeps.sweep.MOST_ROWS_PER_JOB", rows_per_job)
    specs = parse_specs(f"{FAIL},racks:1+brokers:1,brokers:3~40", seed=5)
    # What is a pattern, an escape or a part of a URI to Hadoop is a name here.
    out = tmp_path / "a sweep of [1] {x,y} 100% ä:b #? *"
    layout = layout.rename(tmp_path / "a layout [1] %20.parquet")
    (tmp_path / "layout.brokers.parquet").rename(tmp_path / "a layout [1] %20.brokers.parquet")
    (out / ".failures").mkdir(parents=True)
    (out / ".failures" / "part-09999.parquet").write_text("left by a sweep that was ended")
    plan = plan_sweep(layout, specs, out)
    shares: list[float] = []
    worst, _ = run_sweep(spark, plan, shares.append)

    expected = failures_table(read_layout(layout), specs).to_pylist()
    order = sorted(expected, key=lambda row: ([-row[name] for name in WORST_FIRST], row["failure_set"]))
    # The files stand in their order, and the rows in them: worst first.
    parts = [pq.read_table(part).to_pylist() for part in sorted((out / "failures").glob("part-*"))]
    assert [row for rows in parts for row in rows] == order
    assert worst == order[:10]
    for name, table in local_tables(plan).items():
        written = pq.read_table(out / f"{name}.parquet")
        assert written.equals(table), name
        assert written.num_rows > 0
    summary = json.loads((out / "sweep.json").read_text())
    sets = 12 + 3 + 66 + 3 * 8 + 40
    assert (summary["brokers"], summary["partitions"], summary["failure_sets"]) == (12, 200, sets)
    assert (summary["settled"]["offline"], summary["seed"], summary["unfit"]) == (0, 5, [])
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)


@pytest.mark.java
def test_a_failure_in_a_worker_is_reported_in_one_line(spark: SparkSession, layout: Path) -> None:
    simzk.pipeline.register(spark)
    layout.write_bytes(layout.read_bytes()[:-9])
    with pytest.raises(SimzkError) as caught:
        in_words(spark.read.format("simzk_failures").load(str(layout)).toArrow)
    assert "\n" not in str(caught.value)
    assert f"LayoutError: {layout}: cannot be read as Parquet" in str(caught.value)


@pytest.mark.java
def test_a_layout_that_cannot_be_is_refused_with_its_rows(spark: SparkSession, layout: Path) -> None:
    from pyspark.errors import PySparkException

    table = pq.read_table(layout)
    column = table.column_names.index("replicas")
    wrong = pa.array([[99]] * len(table), pa.list_(pa.int32()))
    pq.write_table(table.set_column(column, "replicas", wrong), layout)
    simzk.pipeline.register(spark)
    with pytest.raises(PySparkException) as caught:
        spark.read.format("simzk_failures").load(str(layout)).toArrow()
    assert f"{layout}: {len(table)} invalid partitions:" in str(caught.value)
    for row in range(10):
        assert f"row {row} (" in str(caught.value)
    assert "replica on unknown broker 99" in str(caught.value)


@pytest.mark.java
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fail": "brokers:13"}, "brokers:13 cannot fail: there are 12 live brokers"),
        ({"fail": "everything"}, "'everything' is not a failure specification"),
        ({"numPartitions": "0"}, "numPartitions: '0' is invalid; expected 1 or more"),
        ({"path": None}, "simzk_failures reads a layout"),
    ],
)
def test_bad_options_of_the_source_are_reported(
    spark: SparkSession, layout: Path, options: dict[str, str | None], message: str
) -> None:
    from pyspark.errors import PySparkException

    simzk.pipeline.register(spark)
    given = {"path": str(layout), **options}
    source = spark.read.format("simzk_failures")
    for name, value in given.items():
        if value is not None:
            source = source.option(name, value)
    with pytest.raises(PySparkException) as caught:
        source.load().toArrow()
    assert message in str(caught.value)


def test_sets_that_a_layout_lacks_are_skipped_and_reported_or_fatal(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = parse_specs("brokers:1,racks:4,brokers:13")
    plan = plan_sweep(layout, specs, tmp_path / "out")
    assert (plan.sets, [str(spec) for spec in plan.specs]) == (12, ["brokers:1"])
    assert plan.unfit == (
        ("racks:4", "racks:4 cannot fail: there are 3 racks with a live broker"),
        ("brokers:13", "brokers:13 cannot fail: there are 12 live brokers"),
    )
    with pytest.raises(ConfigError, match="racks:4 cannot fail"):
        plan_sweep(layout, specs, tmp_path / "out", strict=True)
    with pytest.raises(ConfigError, match="brokers:13 cannot fail"):
        plan_sweep(layout, parse_specs("racks:4,brokers:13"), tmp_path / "out")
    with pytest.raises(ConfigError, match="brokers:1 stands twice"):
        plan_sweep(layout, parse_specs("brokers:1,brokers:1"), tmp_path / "out")
    monkeypatch.setattr("simzk.partitions.failures.sets.MOST_SETS", 900)
    with pytest.raises(ConfigError, match="brokers:6 of 12 brokers has 924"):
        plan_sweep(layout, parse_specs("brokers:1,brokers:6"), tmp_path / "out")


def test_a_directory_with_a_sweep_is_left_alone(layout: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "failures").mkdir(parents=True)
    with pytest.raises(ConfigError, match="the directory already contains a sweep"):
        plan_sweep(layout, parse_specs("brokers:1"), tmp_path / "out")


@pytest.mark.java
def test_an_unwritable_directory_is_reported(spark: SparkSession, layout: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plan = plan_sweep(layout, parse_specs("brokers:1"), tmp_path / "file" / "out")
    with pytest.raises(ConfigError, match=r"file/out: cannot write it: Not a directory"):
        run_sweep(spark, plan)


def test_a_layout_without_partitions_cannot_be_swept(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"brokers":[{"broker":1,"rack":null,"live":true}],"partitions":[]}')
    with pytest.raises(ConfigError, match="the layout has no partitions"):
        plan_sweep(path, parse_specs("brokers:1"), tmp_path / "out")


@pytest.mark.java
def test_a_second_session_in_a_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="a Spark session is open in this process"), spark_session("local[1]"):
        pass
    assert spark.range(3).count() == 3


@pytest.mark.java
def test_where_python_is_busy_java_goes_without_its_better_compiler(spark: SparkSession) -> None:
    java = spark.sparkContext._jvm
    assert java is not None
    message = java.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert QUICK_COMPILER in list(message)
