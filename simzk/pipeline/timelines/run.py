"""Timelines of data directories, computed on Spark and written as Parquet: one folder per table, and `timelines.json`.

docs/pipeline.md documents the tables.

Rules of this module:
  - files of other clusters are detected by contradictions and skipped. In one cluster a zxid is one transaction with
    one time, in every server's log, and in every snapshot as ctime or mtime; `/cluster/id` is constant until it is
    deleted or replaced (a cluster created anew on the same ZooKeeper continues its history);
  - znodes below `/zookeeper` are ignored: a server sets its configuration there by its own clock;
  - if two folders contradict each other a whole folder is skipped, within one folder a single file: first the one with
    most contradictions, then the one named last.
"""

from __future__ import annotations

import json
import shutil
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

import simzk.pipeline
from simzk.errors import ConfigError
from simzk.garbage_collection import without_cyclic_gc
from simzk.pipeline.data_source import FAILFAST, PERMISSIVE
from simzk.pipeline.logs.files import Missing, find_files, refuse
from simzk.pipeline.spark_session import in_words, narrated
from simzk.pipeline.timelines import local
from simzk.pipeline.timelines import tables as timelines
from simzk.pipeline.timelines.tables import changes_of
from simzk.zookeeper.persistence.files import LOG, SNAPSHOT, VERSION_FOLDER, zxid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

Contradictions = dict[tuple[str, str], str]
"""Two files, in either order, and their contradiction."""


class Stranger(NamedTuple):
    """A folder or file of another cluster, with the reason."""

    path: str
    why: str
    files: tuple[str, ...]


def strangers(log: DataFrame, snapshots: DataFrame | None, files: Sequence[str], chroot: str) -> list[Stranger]:
    """Return the folders and files to skip, so that the rest may be of one cluster.

    Args:
        log, snapshots: undamaged rows of these tables; None without snapshots.
        files: all files, in the order in which they were named.
        chroot: root of Kafka's znodes.
    """
    if len(files) < 2:
        return []
    found = of_ids(_cluster_ids(log, snapshots, chroot)) | _of_times(_witnesses(log, snapshots))
    return left_out(found, files)


def left_out(contradictions: Contradictions, files: Sequence[str]) -> list[Stranger]:
    """Return the folders and files to skip.

    >>> files = ["a/log.1", "b/log.1", "b/log.9"]
    >>> [stranger.path for stranger in left_out({("a/log.1", "b/log.1"): "why"}, files)]
    ['b']
    >>> [stranger.path for stranger in left_out({("b/log.1", "b/log.9"): "why"}, files)]
    ['b/log.9']
    """
    folders = list(dict.fromkeys(_folder(file) for file in files))
    between = {
        (_folder(one), _folder(other)): why
        for (one, other), why in contradictions.items()
        if _folder(one) != _folder(other)
    }
    gone = _fewest(between, folders)
    within = {pair: why for pair, why in contradictions.items() if _folder(pair[0]) == _folder(pair[1]) not in gone}
    out = [
        Stranger(folder, why, tuple(file for file in files if _folder(file) == folder)) for folder, why in gone.items()
    ]
    return [*out, *(Stranger(file, why, (file,)) for file, why in _fewest(within, files).items())]


def _fewest(contradictions: Contradictions, names: Sequence[str]) -> dict[str, str]:
    """Return names whose removal leaves no contradiction, with the names that each contradicts."""
    left = dict(contradictions)
    gone: dict[str, str] = {}
    while left:
        worst = max(
            {name for pair in left for name in pair},
            key=lambda name: (sum(name in pair for pair in left), names.index(name)),
        )
        pair, why = next((pair, why) for pair, why in sorted(left.items()) if worst in pair)
        other = pair[0] if worst == pair[1] else pair[1]
        gone[worst] = f"it is of another cluster than {other}: {why}"
        left = {pair: why for pair, why in left.items() if worst not in pair}
    return gone


def _folder(file: str) -> str:
    return str(PurePath(file).parent)


def _witnesses(log: DataFrame, snapshots: DataFrame | None) -> DataFrame:
    """Return file, zxid and time of all transactions and znodes."""
    witnesses = log.select("zxid", "time", "file")
    if snapshots is None:
        return witnesses
    counted = snapshots.where("path not like '/zookeeper%'")
    for zxid, time in (("czxid", "ctime"), ("mzxid", "mtime")):
        seen = counted.where(F.col(zxid) > 0)
        witnesses = witnesses.unionByName(seen.select(F.col(zxid).alias("zxid"), F.col(time).alias("time"), "file"))
    return witnesses


def _of_times(witnesses: DataFrame) -> Contradictions:
    times = witnesses.groupBy("zxid").agg(F.min("time").alias("first"), F.max("time").alias("last"))
    twofold = times.where("first != last").select("zxid")
    if twofold.isEmpty():
        return {}  # as it should be: nothing more is computed
    times_of_files = witnesses.join(twofold, "zxid").distinct()
    other = times_of_files.select("zxid", F.col("time").alias("other_time"), F.col("file").alias("other"))
    pairs = times_of_files.join(other, "zxid").where("file < other and time != other_time").groupBy("file", "other")
    found = pairs.agg(F.countDistinct("zxid").alias("count"), F.min("zxid").alias("first")).collect()
    return {
        (row["file"], row["other"]): f"{row['count']:,} zxids have another time there, from 0x{row['first']:x} on"
        for row in found
    }


class ClusterIds(NamedTuple):
    """Values of Kafka's `/cluster/id` in several files.

    Args:
        written: per file, the zxids and ids written.
        renewed: zxids at which the znode was deleted or replaced.
    """

    written: dict[str, set[tuple[int, str]]]
    renewed: frozenset[int]


def _cluster_ids(log: DataFrame, snapshots: DataFrame | None, chroot: str) -> ClusterIds:
    at_path = F.col("path") == f"{chroot}/cluster/id"
    rows: Any = log.where(at_path).select("file", "zxid", "operation", "applied", "path", "data").collect()
    kept: Any = []
    if snapshots is not None:
        kept = snapshots.where(at_path).select("file", "mzxid", "czxid", "path", "data").collect()
    return ClusterIds(*local.cluster_ids(rows, kept, chroot))


def of_ids(ids: ClusterIds) -> Contradictions:
    """Return pairs of files with different ids and no renewal in between.

    >>> first, second = {(5, "A")}, {(90, "B")}
    >>> of_ids(ClusterIds({"log.1": first, "log.50": second}, frozenset()))
    {('log.1', 'log.50'): 'their ids are A, B'}
    >>> of_ids(ClusterIds({"log.1": first, "log.50": second}, frozenset({80})))
    {}
    """
    found = {}
    for one, other in combinations(sorted(ids.written), 2):
        first, second = ids.written[one], ids.written[other]
        if _names(first).isdisjoint(_names(second)):
            pairs = [sorted((zxid, another)) for zxid, _ in first for another, _ in second]
            if not all(any(begin < zxid <= end for zxid in ids.renewed) for begin, end in pairs):
                found[one, other] = f"their ids are {', '.join(sorted(_names(first | second)))}"
    return found


def _names(written: set[tuple[int, str]]) -> set[str]:
    return {name for _, name in written}


WORST_SHOWN = 10
_WORST_FIRST = ("offline_s", "under_min_isr_s", "under_replicated_s", "leader_moves")
TABLES = ("partitions", "totals", "leadership", "controllers", "brokers", "sessions", "writers")
"""Names of the tables, in the order in which they are written."""
_BY_DAY = {"partitions": "from", "leadership": "time"}
"""Tables that are partitioned by the day of the event, with the column that has it."""


@dataclass(frozen=True)
class TimelinesPlan:
    """Validated timelines, ready to compute.

    Args:
        logs, snapshots: files in the order in which they were named.
        out: directory to write to.
        chroot: root of Kafka's znodes.
        strict: True if damage is fatal.
        missing: paths that match no log.
    """

    logs: list[str]
    snapshots: list[str]
    out: Path
    chroot: str
    strict: bool
    missing: list[Missing]


class Findings(NamedTuple):
    """Counts of a finished computation.

    Args:
        transactions: number of transactions read, counting steps of multis.
        damages: unusable input by `file`: missing paths, damage in logs and snapshots, files of another cluster.
        rows: number of rows per table.
        worst: rows of `totals` with the longest time offline, then under-replicated.
    """

    transactions: int
    damages: list[dict[str, str]]
    rows: dict[str, int]
    worst: list[dict[str, object]]


def plan_timelines(directories: Sequence[str], out: Path, *, chroot: str = "", strict: bool = False) -> TimelinesPlan:
    """Check everything that can be checked before Spark starts.

    Raises:
        ConfigError: no path matches a log, or with `strict` one does not; the chroot is invalid; `out` already contains
            timelines.
    """
    if chroot and (not chroot.startswith("/") or chroot.endswith("/")):
        raise ConfigError(f"{chroot!r} is no chroot", where="chroot", right='a path such as "/kafka"')
    if (out / "partitions").exists():
        raise ConfigError("the directory already contains timelines", where=str(out), right="an empty directory")
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
        missing.append(Missing(",".join(directories), f"it contains no {LOG}", f"{VERSION_FOLDER}/{LOG}.<zxid>"))
    if missing and (strict or not logs):
        refuse(missing[0])
    return TimelinesPlan(list(logs), list(snapshots), out.absolute(), chroot, strict, missing)


def run_timelines(
    spark: SparkSession, plan: TimelinesPlan, tell: Callable[[str, float | None], None] = lambda _line, _share: None
) -> Findings:
    """Compute and write all tables of a plan.

    Args:
        spark: a session whose workers can import simzk, and read and write the paths of the plan.
        plan: from `plan_timelines`.
        tell: receives progress lines and the finished share of each, 0 to 1, or None, also from another thread.

    Raises:
        SimzkError: Spark failed, or a file is damaged and the plan is strict; the reason in one line.
    """
    simzk.pipeline.register(spark)
    with narrated(spark, tell) as begin_step:
        return in_words(lambda: _run(spark, plan, begin_step))


MOST_BYTES_HERE = 32 << 20
"""Size of the files that are read in this process: their rows take about 12 times as much memory. Up to here Spark
takes longer, by `benchmarks/timelines.py`."""

_UNPACKED = 10
"""Bytes of a log per byte of a compressed one."""
_PACKED = (".gz", ".snappy")
_BLOCK_BYTES = 1 << 16


def fits_here(plan: TimelinesPlan) -> bool:
    """Return whether the timelines of a plan are computed faster in this process than on Spark."""
    total = 0
    for file in (*plan.logs, *plan.snapshots):
        with suppress(OSError):  # reading reports it
            total += content_bytes(Path(file)) * (_UNPACKED if file.endswith(_PACKED) else 1)
    return total <= MOST_BYTES_HERE


def content_bytes(file: Path) -> int:
    """Return the approximate size of a file without the zeros at its end, which a server allocates in advance."""
    size = file.stat().st_size
    with file.open("rb") as stream:

        def is_padding(block: int) -> bool:
            stream.seek(block * _BLOCK_BYTES)
            return not stream.read(_BLOCK_BYTES).strip(b"\0")

        blocks = -(-size // _BLOCK_BYTES)
        return min(bisect_left(range(blocks), True, key=is_padding) * _BLOCK_BYTES, size)


def run_timelines_here(
    plan: TimelinesPlan, tell: Callable[[str, float | None], None] = lambda _line, _share: None
) -> Findings:
    """Compute and write all tables of a plan in this process, without Spark.

    Args:
        plan: from `plan_timelines`.
        tell: as of `run_timelines`.

    Raises:
        ConfigError: a file is damaged and the plan is strict, or `plan.out` cannot be written to.
    """
    mode = FAILFAST if plan.strict else PERMISSIVE
    with without_cyclic_gc():
        tell("reading the logs", None)
        log, damages = local.read_logs(plan.logs, mode)
        tell("reading the snapshots", None)
        snapshots, broken = local.read_snapshots(plan.snapshots, mode)
        tell("looking for files of other clusters", None)
        files = [*plan.logs, *plan.snapshots]
        found = of_ids(ClusterIds(*local.cluster_ids(log, snapshots, plan.chroot)))
        others = left_out(found | local.contradictory_times(log, snapshots), files)
        gone = _files_of(others, plan)
        log = [row for row in log if row.file not in gone]
        snapshots = [row for row in snapshots if row.file not in gone]
        rows = {}
        try:
            for name, (schema, of_table) in local.tables_of(log, snapshots, plan.chroot).items():
                tell(f"writing {name}", None)
                local.write_table(plan.out / name, schema, of_table, day_of=_BY_DAY.get(name, ""))
                rows[name] = len(of_table)
        except OSError as error:
            raise ConfigError(f"cannot write it: {error.strerror}", where=str(plan.out)) from None
    return _finish(plan, len(log), [*_not_used(plan, others), *damages, *broken], rows)


def _files_of(others: Sequence[Stranger], plan: TimelinesPlan) -> list[str]:
    """Return the files of other clusters.

    Raises:
        ConfigError: there is one, and the plan is strict.
    """
    if others and plan.strict:
        raise ConfigError(others[0].why, where=others[0].path, right="the files of one cluster")
    return [file for other in others for file in other.files]


def _not_used(plan: TimelinesPlan, others: Sequence[Stranger]) -> list[dict[str, str]]:
    """Return the missing paths and the files of other clusters, as `damages`."""
    not_used = [(one.path, str(one)) for one in plan.missing] + [(other.path, other.why) for other in others]
    return [{"file": path, "damage": why} for path, why in not_used]


def _finish(plan: TimelinesPlan, transactions: int, damages: list[dict[str, str]], rows: dict[str, int]) -> Findings:
    """Write `timelines.json`, when all tables are written."""
    findings = Findings(transactions, damages, rows, _worst(plan.out / "totals"))
    (plan.out / "timelines.json").write_text(json.dumps(findings._asdict(), indent=2) + "\n", encoding="utf-8")
    return findings


def _run(spark: SparkSession, plan: TimelinesPlan, tell: Callable[[str], None]) -> Findings:
    tell("reading the logs")
    log, damages = _read(spark, "zookeeper_log", plan.logs, plan)
    snapshots = None
    if plan.snapshots:
        tell("reading the snapshots")
        snapshots, broken = _read(spark, "zookeeper_snapshot", plan.snapshots, plan)
        # A server rejects a damaged snapshot as a whole.
        snapshots = _without(snapshots, [damage["file"] for damage in broken])
        damages += broken
    tell("looking for files of other clusters")
    others = strangers(log, snapshots, [*plan.logs, *plan.snapshots], plan.chroot)
    gone = _files_of(others, plan)
    log = _without(log, gone)
    snapshots = None if snapshots is None else _without(snapshots, gone)
    transactions = log.count()
    changes = changes_of(log, snapshots, plan.chroot).cache()
    rows = {}
    tables = _tables(log, snapshots, changes)
    assert tuple(tables) == TABLES
    for name, table in tables.items():
        tell(f"writing {name}")
        place = f"file:{plan.out / name}"
        if name in _BY_DAY:
            table.withColumn("day", table[_BY_DAY[name]].cast("date")).write.partitionBy("day").parquet(place)
        else:
            table.write.parquet(place)
        rows[name] = _written(plan.out / name).count_rows()
    return _finish(plan, transactions, [*_not_used(plan, others), *damages], rows)


def keep_finished(out: Path) -> list[str]:
    """Remove the unfinished tables of an interrupted computation; return the names of those that are finished.

    Call it when Spark has stopped, because until then it may write.
    """
    finished = []
    for table in sorted(out.iterdir()) if out.is_dir() else []:
        if (table / "_SUCCESS").exists():
            finished.append(table.name)
        elif table.name in TABLES:
            shutil.rmtree(table)
    return finished


def _written(table: Path) -> ds.Dataset:
    """Open a table with pyarrow, because Hadoop treats characters of a path as a pattern."""
    import pyarrow.dataset as ds

    return ds.dataset(table, format="parquet")


def _worst(totals: Path) -> list[dict[str, object]]:
    """Return the first rows of `totals`, worst first, ties by name."""
    import pyarrow as pa

    order = [*((name, "descending") for name in _WORST_FIRST), ("topic", "ascending"), ("partition", "ascending")]
    worst = pa.table([])
    for batch in _written(totals).to_batches():
        rows = pa.Table.from_batches([batch])
        worst = pa.concat_tables([worst, rows] if len(worst) else [rows]).sort_by(order).slice(0, WORST_SHOWN)
    found: list[dict[str, object]] = worst.to_pylist()
    return found


def _read(
    spark: SparkSession, source: str, files: list[str], plan: TimelinesPlan
) -> tuple[DataFrame, list[dict[str, str]]]:
    """Return the undamaged rows of some files, and the damage."""
    mode = FAILFAST if plan.strict else PERMISSIVE
    table = spark.read.format(source).option("mode", mode).load(",".join(files)).cache()
    damages = table.where("damage is not null").select("file", "damage").toArrow().to_pylist()
    return table.where("damage is null"), damages


def _without(table: DataFrame, files: list[str]) -> DataFrame:
    return table.where(~table["file"].isin(files)) if files else table


def _tables(log: DataFrame, snapshots: DataFrame | None, changes: DataFrame) -> dict[str, DataFrame]:
    end_us = log.agg(F.unix_micros(F.max("time")).alias("end_us")).collect()[0]["end_us"] or 0
    partitions = timelines.partitions_of(changes).cache()
    return {
        "partitions": partitions,
        "totals": timelines.totals_of(partitions, end_us),
        "leadership": timelines.leadership_of(partitions),
        "controllers": timelines.controllers_of(changes),
        "brokers": timelines.brokers_of(changes),
        "sessions": timelines.sessions_of(log, snapshots),
        "writers": timelines.writers_of(log),
    }
