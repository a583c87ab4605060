"""Tables of a Kafka cluster's past, computed from changes of its znodes; docs/pipeline.md lists their columns.

Spark reads, distributes and sorts the rows; `simzk.pipeline.timelines.rules` says what follows from a change.

Rules of this module:
  - the same transaction in two logs, or a znode in a snapshot that a log also set, is one change;
  - a snapshot covers the time before the logs: each of its znodes was last set at its mzxid;
  - the end of a session deletes its ephemerals, also in logs that do not list them (3.5 and earlier).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from simzk.pipeline.data_source import batches as to_batches
from simzk.pipeline.timelines import rules
from simzk.pipeline.timelines.rules import CREATED, GONE, MADE, REMOVED, SET, Partition, TimelineChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_ORDER = ("zxid", "step")


def changes_of(log: DataFrame, snapshots: DataFrame | None, chroot: str) -> DataFrame:
    """Return each change of a znode below the chroot.

    Args:
        log: rows of `zookeeper_log`, of one or several logs.
        snapshots: rows of `zookeeper_snapshot`; None without snapshots.
        chroot: root of Kafka's znodes; empty for `/`.

    Returns:
        `zxid`, `step` (place within the transaction), `time`, `session`, `change` ("set" or "gone"), `path` (without
        the chroot), `data` (text) and `version`.
    """
    once = applied_once(log)
    place = F.coalesce("step", F.lit(0))
    made = once.where(F.col("operation").isin(*MADE)).select(
        "zxid",
        place.alias("step"),
        "time",
        "session",
        F.lit(SET).alias("change"),
        "path",
        F.col("data").cast("string").alias("data"),
        F.coalesce("version", F.lit(0)).alias("version"),
    )
    removed = once.where(F.col("operation").isin(*REMOVED)).select(
        "zxid", place.alias("step"), "time", "session", *_gone("path")
    )
    taken = taken_by_sessions(once, snapshots)
    ended = taken.select("zxid", F.posexplode("paths").alias("step", "taken"), "time", "session")
    gone = ended.select("zxid", "step", "time", "session", *_gone("taken"))
    changes = made.unionByName(removed).unionByName(gone)
    if snapshots is not None:
        changes = changes.unionByName(_seen(snapshots))
    kept = changes.where(_is_below(chroot)).withColumn("path", F.expr(f"substring(path, {len(chroot) + 1})"))
    # A znode's change at one zxid, in a log and a snapshot or in two snapshots, is one; only the log has the session.
    duplicates = Window.partitionBy("zxid", "path", "change", "version").orderBy(F.col("session").isNull(), "step")
    return kept.withColumn("place", F.row_number().over(duplicates)).where("place = 1").drop("place")


def _gone(path: str) -> list[Column]:
    return [
        F.lit(GONE).alias("change"),
        F.col(path).alias("path"),
        F.lit(None).cast("string").alias("data"),
        F.lit(None).cast("int").alias("version"),
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
    creations = once.where(F.col("operation").isin(*CREATED))
    made = creations.select("path", "zxid", step, F.when(F.col("ephemeral"), F.col("session")).alias("owner"))
    if snapshots is not None:
        owned = snapshots.where("damage is null and ephemeral_owner > 0")
        shown = owned.select("path", F.col("czxid").alias("zxid"), F.lit(0), F.col("ephemeral_owner"))
        made = made.union(shown).groupBy("path", "zxid", "owner").agg(F.max("step").alias("step"))
        made = made.select("path", "zxid", "step", "owner")
    removed = once.where(F.col("operation").isin(*REMOVED)).select("path", "zxid", step, F.lit(None).cast("bigint"))
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
    )


def _is_below(chroot: str) -> Column:
    return F.col("path").startswith(f"{chroot}/")


def partitions_of(changes: DataFrame) -> DataFrame:
    """Return each partition's leader, ISR, epochs and replicas as intervals."""
    in_topics = changes.where(F.col("path").rlike(rules.IN_TOPIC))
    by_topic = in_topics.withColumn("topic", F.regexp_extract("path", rules.IN_TOPIC, 1))
    return _by_rule(rules.partitions_of, TimelineChange, "partitions", by_topic, ["topic"], _ORDER)


def totals_of(partitions: DataFrame, end_us: int) -> DataFrame:
    """Return the totals of each partition: time without a leader, number of leader changes.

    Args:
        partitions: result of `partitions_of`.
        end_us: end of the observation, for intervals without an end; microseconds since 1970.
    """
    rule = partial(rules.totals_of, end=end_us)
    return _by_rule(rule, Partition, "totals", partitions, ["topic", "partition"], ["from_zxid"])


def leadership_of(partitions: DataFrame) -> DataFrame:
    """Return each leader change with both brokers; -1 for none."""
    return _by_rule(rules.leadership_of, Partition, "leadership", partitions, ["topic", "partition"], ["from_zxid"])


def controllers_of(changes: DataFrame) -> DataFrame:
    """Return the controllers with their intervals; 0.8.0 wrote the bare id."""
    of_controllers = changes.where(F.col("path").rlike(rules.CONTROLLER))
    return _by_rule(rules.controllers_of, TimelineChange, "controllers", of_controllers, ["path"], _ORDER)


def brokers_of(changes: DataFrame) -> DataFrame:
    """Return the intervals in which each broker was registered."""
    registrations = changes.where(F.col("path").rlike(rules.BROKER))
    return _by_rule(rules.brokers_of, TimelineChange, "brokers", registrations, ["path"], _ORDER)


def _by_rule(
    rule: Callable[[Iterator[Any]], Iterable[tuple[object, ...]]],
    row: type[TimelineChange | Partition],
    table: str,
    frame: DataFrame,
    key: list[str],
    order: Sequence[str],
) -> DataFrame:
    """Apply a rule of `simzk.pipeline.timelines.rules` to sorted rows, in as many tasks as Spark likes.

    Args:
        rule: from rows to rows of the table; it gets all rows of one key together.
        row: the rule's argument; its fields are the first columns of `frame`.
        table: name of the table that it gives.
        frame: rows in any order.
        key, order: columns to distribute the rows by, and to sort the rows of one key by.
    """

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        for batch in batches:
            columns = [_plain_values(column) for column in batch.columns[: len(row._fields)]]
            yield from map(row._make, zip(*columns, strict=True))

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_batches(rule(rows(batches)), rules.schemas()[table])

    sorted_frame = frame.repartition(*key).sortWithinPartitions(*key, *order)
    return sorted_frame.mapInArrow(apply, from_arrow_schema(rules.schemas()[table]))


def _plain_values(column: pa.Array) -> list[object]:
    """Return a column as Python values, a time as microseconds."""
    import pyarrow as pa

    values: list[object] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def sessions_of(log: DataFrame, snapshots: DataFrame | None) -> DataFrame:
    """Return each session with start, end, kind of end, and the ephemerals deleted with it.

    Args:
        log, snapshots: as for `changes.changes_of`.
    """
    once = applied_once(log)
    begun = once.where("operation = 'createSession'").select(
        "session", "timeout_ms", F.col("zxid").alias("from_zxid"), F.col("time").alias("from")
    )
    # A close by the client has the xid of its request; an expiry has 0 (docs/reference/zookeeper.md §6).
    ended = taken_by_sessions(once, snapshots).select(
        "session",
        F.col("zxid").alias("until_zxid"),
        F.col("time").alias("until"),
        F.when(F.col("cxid") == 0, "expired").otherwise("closed").alias("end"),
        F.col("paths").alias("ephemerals"),
    )
    return begun.join(ended, "session", "full_outer")


def writers_of(log: DataFrame) -> DataFrame:
    """Count writes by session, operation and kind of path (names and numbers omitted)."""
    kind = F.col("path")
    for pattern, replacement in rules.KIND_OF_PATH:
        kind = F.regexp_replace(kind, pattern, replacement.replace("\\", "$"))
    once = log.where("operation is not null").dropDuplicates(["zxid", "step"])
    return once.groupBy("session", "operation", kind.alias("path")).agg(
        F.count("*").alias("count"), F.min("time").alias("first"), F.max("time").alias("last")
    )
