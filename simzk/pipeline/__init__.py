"""PySpark: data sources for simzk's tables, and what runs on them. Spark is imported only when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make simzk's data sources known to a session.

    `simzk_failures` is a layout and failure sets, one row a failure set; `simzk_runs` are runs of scenarios, one row a
    run or an event; `zookeeper_log` and `zookeeper_snapshot` are
    files of a real ZooKeeper, one row a transaction or a znode, and `zookeeper` is the tree of a live one::

        simzk.pipeline.register(spark)
        spark.read.format("simzk_failures").option("fail", "brokers:1,racks:1").load("cluster.parquet")
        spark.read.format("simzk_runs").option("seeds", 1000).load("scenario.toml").where("not held")
        spark.read.format("zookeeper_log").load("/var/lib/zookeeper").where("operation = 'setData'")
        spark.read.format("zookeeper").option("hosts", "zk1:2181,zk2:2181").option("chroot", "/kafka").load("/brokers")

    Args:
        spark: the session; its workers must be able to import simzk and to read the layout at the path given.
    """
    from simzk.pipeline.logs.live import LiveSource
    from simzk.pipeline.logs.sources import LogSource, SnapshotSource
    from simzk.pipeline.swarms.source import RunsSource
    from simzk.pipeline.sweeps.source import FailuresSource

    # A source that takes filters is refused where Spark would not hand it any.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for source in (FailuresSource, LiveSource, LogSource, RunsSource, SnapshotSource):
        spark.dataSource.register(source)
