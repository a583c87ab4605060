"""Tables of a Kafka cluster's past, computed from changes of its znodes; docs/pipeline.md lists their columns.

Rules of this module:
  - a change is identified by its zxid and its step within the transaction;
  - the same transaction in two logs, or a znode in a snapshot that a log also set, is one change;
  - a snapshot covers the time before the logs: each of its znodes was last set at its mzxid;
  - the end of a session deletes its ephemerals, also in logs that do not list them (3.5 and earlier);
  - an interval lasts from one change to the next; `until` is null if it lasted to the end;
  - text that no version of Kafka writes gives nulls and counts as no state;
  - docs/reference/kafka.md §1 documents the znodes.
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
    # A znode's change at one zxid, in a log and a snapshot or in two snapshots, is one; only the log has the session.
    duplicates = Window.partitionBy("zxid", "path", "change", "version").orderBy(F.col("session").isNull(), "step")
    return kept.withColumn("place", F.row_number().over(duplicates)).where("place = 1").drop("place")


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


_STATE = r"^/brokers/topics/([^/]+)/partitions/(\d+)/state$"
_TOPIC = r"^/brokers/topics/([^/]+)$"
_CONFIG = r"^/config/topics/([^/]+)$"
_BROKER = r"^/brokers/ids/(\d+)$"
_STATE_JSON = "leader int, leader_epoch int, controller_epoch int, isr array<int>"
_NAMED = r"^(/config/\w+|/brokers/(?:topics|ids)|/consumers|/kafka-acl/\w+)/[^/]+"
_ORDER = ("zxid", "step")


def partitions_of(changes: DataFrame) -> DataFrame:
    """Return each partition's leader, ISR, epochs and replicas as intervals."""
    events = _states(changes).unionByName(_assignments(changes), allowMissingColumns=True)
    named = events.select("topic", "partition").distinct()
    events = events.unionByName(_min_isr(changes).join(named, "topic"), allowMissingColumns=True)
    so_far = Window.partitionBy("topic", "partition").orderBy(*_ORDER)
    known = events
    for column in ("state", "replicas", "min_isr", "set_by", "version"):
        known = known.withColumn(column, F.last(column, ignorenulls=True).over(so_far))
    intervals = known.withColumn("until_zxid", F.lead("zxid").over(so_far)).withColumn(
        "until", F.lead("time").over(so_far)
    )
    led = F.col("state.leader") >= 0
    in_sync = F.size("state.isr")
    return intervals.where("state.isr is not null and (until_zxid is null or until_zxid > zxid)").select(
        "topic",
        "partition",
        F.col("zxid").alias("from_zxid"),
        "until_zxid",
        F.col("time").alias("from"),
        "until",
        F.col("state.leader").alias("leader"),
        F.col("state.isr").alias("isr"),
        F.col("state.leader_epoch").alias("leader_epoch"),
        F.col("state.controller_epoch").alias("controller_epoch"),
        "version",
        "replicas",
        F.coalesce("min_isr", F.lit(1)).alias("min_isr"),
        F.col("set_by").alias("session"),
        (~led).alias("offline"),
        (in_sync < F.size("replicas")).alias("under_replicated"),
        (led & (in_sync < F.coalesce("min_isr", F.lit(1)))).alias("under_min_isr"),
    )


_NO_STATE = "named_struct('leader', -1, 'leader_epoch', -1, 'controller_epoch', -1, 'isr', cast(null as array<int>))"


def _states(changes: DataFrame) -> DataFrame:
    """Return the states; a deleted one has a null ISR, which no partition has."""
    found = changes.where(F.col("path").rlike(_STATE))
    state = F.when(F.col("change") == GONE, F.expr(_NO_STATE)).otherwise(F.from_json("data", _STATE_JSON))
    return found.select(
        F.regexp_extract("path", _STATE, 1).alias("topic"),
        F.regexp_extract("path", _STATE, 2).cast("int").alias("partition"),
        *_ORDER,
        "time",
        state.alias("state"),
        F.col("session").alias("set_by"),
        "version",
    )


def _assignments(changes: DataFrame) -> DataFrame:
    found = changes.where(F.col("path").rlike(_TOPIC) & (F.col("change") == SET))
    replicas = F.from_json(F.get_json_object("data", "$.partitions"), "map<string,array<int>>")
    return found.select(
        F.regexp_extract("path", _TOPIC, 1).alias("topic"),
        *_ORDER,
        "time",
        F.explode(replicas).alias("partition", "replicas"),
    ).withColumn("partition", F.col("partition").try_cast("int"))


def _min_isr(changes: DataFrame) -> DataFrame:
    found = changes.where(F.col("path").rlike(_CONFIG))
    value = F.get_json_object("data", "$.config['min.insync.replicas']").try_cast("int")
    return found.select(
        F.regexp_extract("path", _CONFIG, 1).alias("topic"),
        *_ORDER,
        "time",
        F.coalesce(value, F.lit(1)).alias("min_isr"),
    )


def totals_of(partitions: DataFrame, end: Column) -> DataFrame:
    """Return the totals of each partition: time without a leader, number of leader changes.

    Args:
        partitions: result of `partitions_of`.
        end: end of the observation, for intervals without an end.
    """
    seconds = F.coalesce("until", end).cast("double") - F.col("from").cast("double")
    before, isr_before = _before("leader"), F.size(_before("isr"))
    seen = partitions.select(
        "*",
        seconds.alias("seconds"),
        (before != F.col("leader")).alias("moved"),
        (F.size("isr") < isr_before).alias("shrunk"),
        (F.size("isr") > isr_before).alias("expanded"),
    )

    def lasted(condition: str) -> Column:
        return F.coalesce(F.sum(F.when(F.col(condition), F.col("seconds"))), F.lit(0.0)).alias(f"{condition}_s")

    def happened(condition: str, name: str) -> Column:
        return F.coalesce(F.count_if(F.col(condition)), F.lit(0)).alias(name)

    return seen.groupBy("topic", "partition").agg(
        F.sum("seconds").alias("observed_s"),
        lasted("offline"),
        lasted("under_replicated"),
        lasted("under_min_isr"),
        happened("moved", "leader_moves"),
        happened("shrunk", "isr_shrinks"),
        happened("expanded", "isr_expansions"),
    )


def _before(column: str) -> Column:
    """Return a column's value in the preceding interval; null if there is none, or the topic was recreated."""
    turns = Window.partitionBy("topic", "partition").orderBy("from_zxid")
    follows = F.lag("until_zxid").over(turns) == F.col("from_zxid")
    return F.when(follows, F.lag(column).over(turns))


def leadership_of(partitions: DataFrame) -> DataFrame:
    """Return each leader change with both brokers; -1 for none."""
    moved = partitions.withColumn("from_broker", _before("leader")).where(
        "from_broker is not null and from_broker != leader"
    )
    return moved.select(
        "topic",
        "partition",
        F.col("from_zxid").alias("zxid"),
        F.col("from").alias("time"),
        "from_broker",
        F.col("leader").alias("to_broker"),
        "leader_epoch",
    )


def controllers_of(changes: DataFrame) -> DataFrame:
    """Return the controllers with their intervals; 0.8.0 wrote the bare id."""
    broker = F.coalesce(F.get_json_object("data", "$.brokerid").try_cast("int"), F.expr("try_cast(data as int)"))
    return _ephemerals(changes.where("path = '/controller'"), broker)


def brokers_of(changes: DataFrame) -> DataFrame:
    """Return the intervals in which each broker was registered."""
    return _ephemerals(changes.where(F.col("path").rlike(_BROKER)), F.regexp_extract("path", _BROKER, 1).cast("int"))


def _ephemerals(changes: DataFrame, broker: Column) -> DataFrame:
    turns = Window.partitionBy("path").orderBy(*_ORDER)
    # Brokers set their registration again to learn its zxid; that starts no interval.
    again = (
        (F.col("change") == SET)
        & (F.lag("change").over(turns) == SET)
        & F.lag("session").over(turns).eqNullSafe(F.col("session"))
    )
    turned = changes.withColumn("again", F.coalesce(again, F.lit(False))).where("not again")
    intervals = turned.withColumn("until_zxid", F.lead("zxid").over(turns)).withColumn(
        "until", F.lead("time").over(turns)
    )
    return intervals.where(F.col("change") == SET).select(
        broker.alias("broker"),
        "session",
        F.col("zxid").alias("from_zxid"),
        "until_zxid",
        F.col("time").alias("from"),
        "until",
    )


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
    kind = F.regexp_replace(F.col("path"), _NAMED, "$1/*")
    kind = F.regexp_replace(kind, r"/\d+(?=/|$)", "/*")
    kind = F.regexp_replace(kind, r"\d{10}$", "*")
    once = log.where("operation is not null").dropDuplicates(["zxid", "step"])
    return once.groupBy("session", "operation", kind.alias("path")).agg(
        F.count("*").alias("count"), F.min("time").alias("first"), F.max("time").alias("last")
    )
