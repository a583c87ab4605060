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
from simzk.pipeline.files import Missing, find_files, refuse
from simzk.pipeline.jobs import in_words, told
from simzk.pipeline.kafka_changes import changes_of
from simzk.pipeline.mixed_clusters import strangers
from simzk.pipeline.options import FAILFAST, PERMISSIVE
from simzk.tuples import NamedTuple
from simzk.zookeeper.persistence.file_names import LOG, SNAPSHOT, VERSION_FOLDER, zxid_of

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
        logs, snapshots: the files, in the order in which they were named.
        out: directory to write to.
        chroot: where Kafka's znodes are.
        strict: whether damage is fatal.
        missing: the paths that lead to no log.
    """

    logs: list[str]
    snapshots: list[str]
    out: Path
    chroot: str
    strict: bool
    missing: list[Missing]


class Findings(NamedTuple):
    """What came of it, in numbers.

    Args:
        transactions: that were read, steps of multis counted.
        damages: what could not be read or used, by `file`: paths that lead to nothing, damages in logs and snapshots,
            files of another cluster.
        rows: of each table.
        worst: the partitions that were longest without a leader, then short of replicas, as rows of `totals`.
    """

    transactions: int
    damages: list[dict[str, str]]
    rows: dict[str, int]
    worst: list[dict[str, object]]


def plan_timelines(directories: Sequence[str], out: Path, *, chroot: str = "", strict: bool = False) -> Plan:
    """Check everything that can be checked before Spark is started.

    Raises:
        ConfigError: no path leads to a log, or, if it is strict, one of them does not; a chroot that is no path; `out`
            holds timelines.
    """
    if chroot and (not chroot.startswith("/") or chroot.endswith("/")):
        raise ConfigError(f"{chroot!r} is no chroot", where="chroot", right='a path such as "/kafka"')
    if (out / "partitions").exists():
        raise ConfigError("timelines stand there already", where=str(out), right="another directory, or remove it")
    logs: dict[str, None] = {}
    snapshots: dict[str, None] = {}
    missing: list[Missing] = []
    for text in directories:
        found = find_files(LOG, text)
        missing += found.missing
        # A file that is given by its name is what the name says.
        logs |= {str(file.path.absolute()): None for file in found.files if zxid_of(SNAPSHOT, file.path.name) is None}
        seen = find_files(SNAPSHOT, text).files
        snapshots |= {str(file.path.absolute()): None for file in seen if zxid_of(SNAPSHOT, file.path.name) is not None}
    if not logs and not missing:
        missing.append(Missing(",".join(directories), f"it holds no {LOG}", f"{VERSION_FOLDER}/{LOG}.<zxid>"))
    if missing and (strict or not logs):
        refuse(missing[0])
    return Plan(list(logs), list(snapshots), out.absolute(), chroot, strict, missing)


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
    tell("reading the logs")
    log, damages = _read(spark, "zookeeper_log", plan.logs, plan)
    snapshots = None
    if plan.snapshots:
        tell("reading the snapshots")
        snapshots, broken = _read(spark, "zookeeper_snapshot", plan.snapshots, plan)
        # A server takes nothing of a snapshot that is damaged.
        snapshots = _without(snapshots, [damage["file"] for damage in broken])
        damages += broken
    tell("looking for files of other clusters")
    others = strangers(log, snapshots, [*plan.logs, *plan.snapshots], plan.chroot)
    if others and plan.strict:
        raise ConfigError(others[0].why, where=others[0].path, right="the files of one cluster")
    left_out = [file for other in others for file in other.files]
    log = _without(log, left_out)
    snapshots = None if snapshots is None else _without(snapshots, left_out)
    not_used = [(one.path, str(one)) for one in plan.missing] + [(other.path, other.why) for other in others]
    damages = [*({"file": path, "damage": why} for path, why in not_used), *damages]
    transactions = log.count()
    changes = changes_of(log, snapshots, plan.chroot).cache()
    rows = {}
    for name, table in _tables(log, snapshots, changes).items():
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


def _read(spark: SparkSession, source: str, files: list[str], plan: Plan) -> tuple[DataFrame, list[dict[str, str]]]:
    """What is whole of some files, and what is not."""
    mode = FAILFAST if plan.strict else PERMISSIVE
    table = spark.read.format(source).option("mode", mode).load(",".join(files)).cache()
    damages = table.where("damage is not null").select("file", "damage").toArrow().to_pylist()
    return table.where("damage is null"), damages


def _without(table: DataFrame, files: list[str]) -> DataFrame:
    return table.where(~table["file"].isin(files)) if files else table


def _tables(log: DataFrame, snapshots: DataFrame | None, changes: DataFrame) -> dict[str, DataFrame]:
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    end = log.agg(F.max("time").alias("end")).collect()[0]["end"]
    partitions = timelines.partitions_of(changes).cache()
    return {
        "partitions": partitions,
        "totals": timelines.totals_of(partitions, F.lit(end)),
        "leadership": timelines.leadership_of(partitions),
        "controllers": timelines.controllers_of(changes),
        "brokers": timelines.brokers_of(changes),
        "sessions": timelines.sessions_of(log, snapshots),
        "writers": timelines.writers_of(log),
    }
