"""PySpark: data sources for simzk's tables, and the sweeps that run on them. Spark is imported only when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make simzk's data sources known to a session.

    `simzk_failures` is a layout and failure sets, one row a failure set::

        simzk.pipeline.register(spark)
        spark.read.format("simzk_failures").option("fail", "brokers:1,racks:1").load("cluster.parquet")

    Args:
        spark: the session; its workers must be able to import simzk and to read the layout at the path given.
    """
    from simzk.pipeline.failures import FailuresSource

    spark.dataSource.register(FailuresSource)
