"""What befell Kafka's znodes, as tables of changes: logs and snapshots to who set which znode to what, and when.

Rules of this module:
  - a change is known by its place in the history: zxid, then its place within the transaction;
  - the same transaction in two logs, or a znode that a snapshot shows and a log set, is one change;
  - a snapshot tells what came before the logs: each znode in it was last set at its mzxid;
  - the ephemerals of a session that ends are gone by it, also in logs that do not list them (3.5 and before).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SET, GONE = "set", "gone"
_MADE = ("create", "create2", "createContainer", "createTTL", "setData")
_REMOVED = ("delete", "deleteContainer")


def changes_of(log: DataFrame, snapshots: DataFrame | None, chroot: str) -> DataFrame:
    """Each change of a znode below the chroot.

    Args:
        log: as `zookeeper_log` gives it, or several of them together.
        snapshots: as `zookeeper_snapshot` gives them; None where there are none.
        chroot: where Kafka's znodes are; empty for the root.

    Returns:
        `zxid`, `step` (place within the transaction), `time`, `session`, `change` ("set" or "gone"), `path` (without
        the chroot), `data` (text), `version`, and `owned`: whether it is an ephemeral of the session.
    """
    once = log.where("applied").dropDuplicates(["zxid", "step"])
    place = F.coalesce("step", F.lit(0))
    made = once.where(F.col("operation").isin(*_MADE)).select(
        "zxid",
        place.alias("step"),
        "time",
        "session",
        F.lit(SET).alias("change"),
        "path",
        F.col("data").cast("string").alias("data"),
        F.coalesce("version", F.lit(0)).alias("version"),
        F.coalesce("ephemeral", F.lit(False)).alias("owned"),
    )
    removed = once.where(F.col("operation").isin(*_REMOVED)).select(
        "zxid", place.alias("step"), "time", "session", *_gone("path")
    )
    changes = made.unionByName(removed).unionByName(_taken_by_sessions(once, made))
    if snapshots is not None:
        changes = changes.unionByName(_seen(snapshots))
    kept = changes.where(_is_below(chroot)).withColumn("path", F.expr(f"substring(path, {len(chroot) + 1})"))
    # What a log and a snapshot, or two snapshots, tell of one znode at one zxid is one change; the log knows who.
    told = Window.partitionBy("zxid", "path", "change", "version").orderBy(F.col("session").isNull(), "step")
    return kept.withColumn("told", F.row_number().over(told)).where("told = 1").drop("told")


def _gone(path: str) -> list[Column]:
    return [
        F.lit(GONE).alias("change"),
        F.col(path).alias("path"),
        F.lit(None).cast("string").alias("data"),
        F.lit(None).cast("int").alias("version"),
        F.lit(False).alias("owned"),
    ]


def _taken_by_sessions(log: DataFrame, made: DataFrame) -> DataFrame:
    """The ends of ephemerals whose sessions ended."""
    ends = log.where("operation = 'closeSession'").select("zxid", "time", "session", "paths")
    listed = ends.select("zxid", "time", "session", F.posexplode("paths").alias("step", "gone_path"))
    owned = made.where("owned").groupBy("session", "path").agg(F.max("zxid").alias("made_zxid"))
    # A znode that was removed before its session ended is gone twice, which changes nothing.
    unlisted = (
        ends.where(F.size("paths") == 0)
        .join(owned, "session")
        .where("made_zxid < zxid")
        .select("zxid", "time", "session", F.lit(0).alias("step"), F.col("path").alias("gone_path"))
    )
    return listed.unionByName(unlisted).select("zxid", "step", "time", "session", *_gone("gone_path"))


def _seen(snapshots: DataFrame) -> DataFrame:
    """What snapshots show: each znode as it was last set."""
    return snapshots.where("damage is null").select(
        F.col("mzxid").alias("zxid"),
        F.lit(0).alias("step"),
        F.col("mtime").alias("time"),
        F.lit(None).cast("bigint").alias("session"),
        F.lit(SET).alias("change"),
        "path",
        F.col("data").cast("string").alias("data"),
        "version",
        (F.col("ephemeral_owner") > 0).alias("owned"),
    )


def _is_below(chroot: str) -> Column:
    return F.col("path").startswith(f"{chroot}/")
