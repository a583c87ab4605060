"""PySpark: data sources for simzk's tables, sweeps, swarms, timelines and risks. Spark is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register simzk's data sources with a Spark session.

    `simzk_failures` has one row per failure set of a layout; `simzk_runs` one row per run of a scenario, or per event;
    `zookeeper_log` and `zookeeper_snapshot` read files of a real ZooKeeper, one row per transaction or znode;
    `zookeeper` reads the tree of a live one::

        simzk.pipeline.register(spark)
        spark.read.format("simzk_failures").option("fail", "brokers:1,racks:1").load("cluster.parquet")
        spark.read.format("simzk_runs").option("seeds", 1000).load("scenario.toml").where("not held")
        spark.read.format("zookeeper_log").load("/var/lib/zookeeper").where("operation = 'setData'")
        spark.read.format("zookeeper").option("hosts", "zk1:2181,zk2:2181").option("chroot", "/kafka").load("/brokers")

    Args:
        spark: a session whose workers can import simzk and read the given paths.
    """
    from simzk.pipeline.logs.live import LiveSource
    from simzk.pipeline.logs.sources import LogSource, SnapshotSource
    from simzk.pipeline.swarms import RunsSource
    from simzk.pipeline.sweeps.source import FailuresSource

    # Spark rejects a source with filters unless this is set.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for source in (FailuresSource, LiveSource, LogSource, RunsSource, SnapshotSource):
        spark.dataSource.register(source)
