"""Timelines of data directories, computed on Spark and written as Parquet: one folder a table, and `timelines.json`.

docs/pipeline.md says what stands in them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import simzk.pipeline
from simzk.errors import ConfigError
from simzk.pipeline import timelines
from simzk.pipeline.files import find_files
from simzk.pipeline.jobs import in_words, told
from simzk.pipeline.kafka_changes import changes_of
from simzk.pipeline.options import FAILFAST, PERMISSIVE
from simzk.tuples import NamedTuple
from simzk.zookeeper.persistence.file_names import LOG, SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

WORST_SHOWN = 10
_WORST_FIRST = ("offline_s", "under_min_isr_s", "under_replicated_s", "leader_moves")
_BY_DAY = ("partitions", "leadership")
"""Tables that grow with time; their files stand by the day of the event."""


@dataclass(frozen=True)
class Plan:
    """Timelines that have been checked and can be computed.

    Args:
        logs, snapshots: the files, as Spark is told them.
        out: directory to write to.
        chroot: where Kafka's znodes are.
        strict: whether damage is fatal.
    """

    logs: str
    snapshots: str
    out: Path
    chroot: str
    strict: bool


class Findings(NamedTuple):
    """What came of it, in numbers.

    Args:
        transactions: that were read, steps of multis counted.
        damages: what could not be read, file by file.
        rows: of each table.
        worst: the partitions that were longest without a leader, then short of replicas, as rows of `totals`.
    """

    transactions: int
    damages: list[dict[str, object]]
    rows: dict[str, int]
    worst: list[dict[str, object]]


def plan_timelines(directories: Sequence[str], out: Path, *, chroot: str = "", strict: bool = False) -> Plan:
    """Check everything that can be checked before Spark is started.

    Raises:
        ConfigError: a directory that is none or holds no log, a chroot that is no path, or `out` holds timelines.
    """
    if chroot and (not chroot.startswith("/") or chroot.endswith("/")):
        raise ConfigError(f"{chroot!r} is no chroot", where="chroot", right='a path such as "/kafka"')
    if (out / "partitions").exists():
        raise ConfigError("timelines stand there already", where=str(out), right="another directory, or remove it")
    text = ",".join(directories)
    logs = [str(file.path.absolute()) for file in find_files(LOG, text)]
    try:
        snapshots = [str(file.path.absolute()) for file in find_files(SNAPSHOT, text)]
    except ConfigError:
        snapshots = []  # logs alone tell what they tell
    return Plan(",".join(logs), ",".join(snapshots), out.absolute(), chroot, strict)


def run_timelines(spark: SparkSession, plan: Plan, tell: Callable[[str], None] = lambda _: None) -> Findings:
    """Compute and write all tables of a plan.

    Args:
        spark: a session whose workers can import simzk, and read and write the paths of the plan.
        plan: from `plan_timelines`.
        tell: called with what is being done, and how many of its tasks are, from another thread too.

    Raises:
        SimzkError: Spark could not do it, or a file is damaged and the plan is strict; the reason in one line.
    """
    simzk.pipeline.register(spark)
    with told(spark, tell) as say:
        return in_words(lambda: _run(spark, plan, say))


def _run(spark: SparkSession, plan: Plan, tell: Callable[[str], None]) -> Findings:
    mode = FAILFAST if plan.strict else PERMISSIVE
    tell("reading the logs")
    log = spark.read.format("zookeeper_log").option("mode", mode).load(plan.logs).cache()
    sound = log.where("damage is null")
    damages: list[dict[str, object]] = log.where("damage is not null").select("file", "damage").toArrow().to_pylist()
    transactions = sound.count()
    snapshots = None
    if plan.snapshots:
        snapshots = spark.read.format("zookeeper_snapshot").option("mode", mode).load(plan.snapshots)
    changes = changes_of(sound, snapshots, plan.chroot).cache()
    rows = {}
    for name, table in _tables(sound, changes).items():
        tell(f"writing {name}")
        place = f"file:{plan.out / name}"
        if name in _BY_DAY:
            time = "from" if name == "partitions" else "time"
            table.withColumn("day", table[time].cast("date")).write.partitionBy("day").parquet(place)
        else:
            table.write.parquet(place)
        rows[name] = _written(plan.out / name).count_rows()
    findings = Findings(transactions, damages, rows, _worst(plan.out / "totals"))
    (plan.out / "timelines.json").write_text(json.dumps(findings._asdict(), indent=2) + "\n", encoding="utf-8")
    return findings


def _written(table: Path) -> ds.Dataset:
    """A table, read here: to Spark's Hadoop the characters of a path are a pattern."""
    import pyarrow.dataset as ds

    return ds.dataset(table, format="parquet")


def _worst(totals: Path) -> list[dict[str, object]]:
    """The first rows of `totals`, worst first; of equals the partition whose name comes first."""
    import pyarrow as pa

    order = [*((name, "descending") for name in _WORST_FIRST), ("topic", "ascending"), ("partition", "ascending")]
    worst = pa.table([])
    for batch in _written(totals).to_batches():
        rows = pa.Table.from_batches([batch])
        worst = pa.concat_tables([worst, rows] if len(worst) else [rows]).sort_by(order).slice(0, WORST_SHOWN)
    found: list[dict[str, object]] = worst.to_pylist()
    return found


def _tables(log: DataFrame, changes: DataFrame) -> dict[str, DataFrame]:
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    end = log.agg(F.max("time").alias("end")).collect()[0]["end"]
    partitions = timelines.partitions_of(changes).cache()
    return {
        "partitions": partitions,
        "totals": timelines.totals_of(partitions, F.lit(end)),
        "leadership": timelines.leadership_of(partitions),
        "controllers": timelines.controllers_of(changes),
        "brokers": timelines.brokers_of(changes),
        "sessions": timelines.sessions_of(log),
        "writers": timelines.writers_of(log),
    }
