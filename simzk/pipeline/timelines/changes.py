"""Changes of Kafka's znodes as a table: session, znode, value and time, from logs and snapshots.

Rules of this module:
  - a change is identified by its zxid and its step within the transaction;
  - the same transaction in two logs, or a znode in a snapshot that a log also set, is one change;
  - a snapshot covers the time before the logs: each of its znodes was last set at its mzxid;
  - the end of a session deletes its ephemerals, also in logs that do not list them (3.5 and earlier).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SET, GONE = "set", "gone"
_CREATED = ("create", "create2", "createContainer", "createTTL")
_MADE = (*_CREATED, "setData")
_REMOVED = ("delete", "deleteContainer")


def changes_of(log: DataFrame, snapshots: DataFrame | None, chroot: str) -> DataFrame:
    """Return each change of a znode below the chroot.

    Args:
        log: rows of `zookeeper_log`, of one or several logs.
        snapshots: rows of `zookeeper_snapshot`; None without snapshots.
        chroot: root of Kafka's znodes; empty for `/`.

    Returns:
        `zxid`, `step` (place within the transaction), `time`, `session`, `change` ("set" or "gone"), `path` (without
        the chroot), `data` (text), `version`, and `owned`: whether it is an ephemeral of the session.
    """
    once = applied_once(log)
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
    taken = taken_by_sessions(once, snapshots)
    ended = taken.select("zxid", F.posexplode("paths").alias("step", "taken"), "time", "session")
    gone = ended.select("zxid", "step", "time", "session", *_gone("taken"))
    changes = made.unionByName(removed).unionByName(gone)
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


def applied_once(log: DataFrame) -> DataFrame:
    """Return each applied step once, even if several servers' logs contain it."""
    return log.where("applied").dropDuplicates(["zxid", "step"])


def taken_by_sessions(once: DataFrame, snapshots: DataFrame | None) -> DataFrame:
    """Return the ends of sessions with the ephemerals deleted by each.

    Args:
        once: result of `applied_once`.
        snapshots: as for `changes_of`.

    Returns:
        `zxid`, `time`, `session`, `cxid` and `paths`: as listed in the log; if it lists none, the ephemerals that
        the session had created and that still existed, sorted by name.
    """
    ends = once.where("operation = 'closeSession'").select("zxid", "time", "session", "cxid", "paths")
    step = F.coalesce("step", F.lit(0)).alias("step")
    creations = once.where(F.col("operation").isin(*_CREATED))
    made = creations.select("path", "zxid", step, F.when(F.col("ephemeral"), F.col("session")).alias("owner"))
    if snapshots is not None:
        owned = snapshots.where("damage is null and ephemeral_owner > 0")
        shown = owned.select("path", F.col("czxid").alias("zxid"), F.lit(0), F.col("ephemeral_owner"))
        made = made.union(shown).groupBy("path", "zxid", "owner").agg(F.max("step").alias("step"))
        made = made.select("path", "zxid", "step", "owner")
    removed = once.where(F.col("operation").isin(*_REMOVED)).select("path", "zxid", step, F.lit(None).cast("bigint"))
    lives = Window.partitionBy("path").orderBy("zxid", "step")
    known = made.union(removed).withColumn("next_zxid", F.lead("zxid").over(lives)).where("owner is not null")
    left = known.select("path", F.col("zxid").alias("made_zxid"), "next_zxid", F.col("owner").alias("session"))
    unlisted = ends.where(F.size("paths") == 0).drop("paths").join(left, "session", "left")
    is_there = F.expr("made_zxid < zxid and (next_zxid is null or next_zxid > zxid)")
    paths = F.array_sort(F.collect_set(F.when(is_there, F.col("path")))).alias("paths")
    found = unlisted.groupBy("zxid", "time", "session", "cxid").agg(paths)
    return ends.where(F.size("paths") > 0).unionByName(found)


def _seen(snapshots: DataFrame) -> DataFrame:
    """Return each znode of the snapshots as it was last set."""
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
