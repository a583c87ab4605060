"""`simzk timelines`: what is checked before Spark starts, what is written, what is said of damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from simzk.errors import ConfigError, SimzkError
from simzk.pipeline.timelines_run import plan_timelines, run_timelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2"


def test_what_cannot_be_is_said_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is not there"):
        plan_timelines([str(tmp_path / "none")], tmp_path / "out")
    with pytest.raises(ConfigError, match="it holds no log"):
        plan_timelines([str(tmp_path)], tmp_path / "out")
    with pytest.raises(ConfigError, match="is no chroot"):
        plan_timelines([str(KAFKA)], tmp_path / "out", chroot="kafka")
    (tmp_path / "out" / "partitions").mkdir(parents=True)
    with pytest.raises(ConfigError, match="timelines stand there already"):
        plan_timelines([str(KAFKA)], tmp_path / "out")


@pytest.mark.java
def test_all_tables_are_written_and_damage_is_told_or_fatal(spark: SparkSession, tmp_path: Path) -> None:
    # What is a pattern or an escape to Hadoop is a name here.
    data, out = tmp_path / "data", tmp_path / "out of [1] {x,y} 100% *"
    shutil.copytree(KAFKA, data)
    log = data / "version-2" / "log.1"
    log.write_bytes(log.read_bytes().rstrip(b"\0")[:-5])
    said: list[str] = []
    found = run_timelines(spark, plan_timelines([str(data)], out), said.append)
    assert said[0] == "reading the logs"
    assert [str(damage["damage"]).partition(",")[0] for damage in found.damages] == ["the file ends inside an entry"]
    assert json.loads((out / "timelines.json").read_text())["rows"] == found.rows
    order = ("offline_s", "under_min_isr_s", "under_replicated_s", "leader_moves")
    totals = ds.dataset(out / "totals", format="parquet").to_table().to_pylist()
    totals.sort(key=lambda row: ([-row[name] for name in order], row["topic"], row["partition"]))
    assert found.worst == totals[:10]
    for name, count in found.rows.items():
        assert ds.dataset(out / name, format="parquet", partitioning="hive").count_rows() == count > 0
    strict = plan_timelines([str(data)], tmp_path / "strict", strict=True)
    with pytest.raises(SimzkError, match="the file ends inside an entry"):
        run_timelines(spark, strict)


@pytest.mark.java
def test_below_a_chroot_that_is_not_there_nothing_happened(spark: SparkSession, tmp_path: Path) -> None:
    found = run_timelines(spark, plan_timelines([str(KAFKA)], tmp_path / "out", chroot="/kafka"))
    assert (found.rows["partitions"], found.rows["brokers"], found.worst) == (0, 0, [])
    assert found.transactions > 0
