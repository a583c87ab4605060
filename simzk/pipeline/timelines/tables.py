"""Tables of a Kafka cluster's past, computed from changes of its znodes; docs/pipeline.md lists their columns.

Rules of this module:
  - an interval lasts from one change to the next; `until` is null if it lasted to the end;
  - text that no version of Kafka writes gives nulls and counts as no state;
  - docs/reference/kafka.md §1 documents the znodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from simzk.pipeline.timelines.changes import GONE, SET, applied_once, taken_by_sessions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    ).withColumn("partition", F.col("partition").cast("int"))


def _min_isr(changes: DataFrame) -> DataFrame:
    found = changes.where(F.col("path").rlike(_CONFIG))
    value = F.get_json_object("data", "$.config['min.insync.replicas']").cast("int")
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
    broker = F.coalesce(F.get_json_object("data", "$.brokerid").cast("int"), F.expr("try_cast(data as int)"))
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
