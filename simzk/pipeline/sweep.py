"""A sweep: the failure sets of a layout, each with what it leaves, computed on Spark and written as Parquet.

What stands in the directory afterwards is described in docs/layout.md. Rules of this module:
  - the cluster is made ready once, written to files, and sent to each executor once; all its processes map those
    files, so an executor holds one copy however many tasks it runs;
  - a task is a slice of the failure sets; what it adds up can be added up in any order (tallies.py), and rows are
    sorted at the end: so nothing depends on how many tasks there were.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from simzk.errors import ConfigError, FailureSetError
from simzk.partitions.failure_sets import FailureSpec
from simzk.partitions.layouts import read_layout
from simzk.partitions.what_if import WhatIf
from simzk.pipeline.jobs import in_words, watched
from simzk.pipeline.outcomes import count_sets, failures_schema, slice_batches, slice_schema
from simzk.pipeline.sweep_tables import estimates_table, things_tables
from simzk.pipeline.tallies import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from simzk.partitions.named_failures import AnyFailure

WORST_FIRST = ("newly_offline", "under_min_isr", "leaders_moved", "busiest_leaders")
"""What makes one failure set worse than another: the first of these counts that differs, then the lower number."""

WORST_SHOWN = 10
TASKS_PER_CORE = 4
MOST_SETS_PER_TASK = 256


@dataclass(frozen=True)
class Plan:
    """A sweep that has been checked and can start.

    Args:
        layout: path of the layout file.
        specs: the failure sets.
        out: directory to write to.
        partitions: the size of the cluster.
        populations: how many sets each specification has, looked at or not.
        sets: the number of failure sets that are looked at.
        what_if: the cluster.
        seed: decides which sets were drawn, where not all are looked at.
        unfit: specifications that the layout does not have, and why.
    """

    layout: Path
    specs: tuple[AnyFailure, ...]
    out: Path
    partitions: int
    populations: dict[str, int]
    sets: int
    what_if: WhatIf
    seed: int = 0
    unfit: tuple[tuple[str, str], ...] = field(default=())


def plan_sweep(layout: Path, specs: Sequence[AnyFailure], out: Path, *, strict: bool = False) -> Plan:
    """Check everything that can be checked before Spark is started.

    Args:
        layout: path of the layout file.
        specs: the failure sets.
        out: directory to write to.
        strict: whether a specification that the layout does not have is fatal, or only left out where others are left.

    Raises:
        LayoutError: the layout cannot be read.
        ConfigError: a specification does not fit the layout, stands twice, or `out` already holds a sweep.
    """
    if (out / "failures").exists():
        raise ConfigError("a sweep stands there already", where=str(out), right="another directory, or remove it")
    read = read_layout(layout)
    if not len(read):
        raise ConfigError("there is nothing to fail: the layout has no partitions", where=str(layout))
    populations: dict[str, int] = {}
    unfit: list[tuple[str, str]] = []
    for spec in specs:
        if str(spec) in populations:
            raise ConfigError(f"{spec} stands twice", right="each failure once")
        try:
            populations[str(spec)] = spec.population(read.brokers)
        except FailureSetError as error:
            if strict or len(unfit) + 1 == len(specs):
                raise
            unfit.append((str(spec), str(error)))
    fitting = tuple(spec for spec in specs if str(spec) in populations)
    return Plan(
        layout=layout.absolute(),
        specs=fitting,
        out=out.absolute(),
        partitions=len(read),
        populations=populations,
        sets=count_sets(fitting, read.brokers),
        what_if=WhatIf(read),
        seed=max((spec.seed for spec in fitting if isinstance(spec, FailureSpec)), default=0),
        unfit=tuple(unfit),
    )


def run_sweep(
    spark: SparkSession, plan: Plan, progress: Callable[[float], None] | None = None
) -> list[dict[str, object]]:
    """Compute and write all failure sets of a plan.

    Args:
        spark: a session whose workers can import simzk, and write the paths of the plan.
        plan: from `plan_sweep`.
        progress: called now and then with the share of the failure sets that is done, 0 to 1.

    Returns:
        the ten worst failure sets, as rows of the table `failures`.

    Raises:
        SimzkError: Spark could not do it; the error has the reason in one line.
    """
    # Not `as_uri`: Hadoop takes a path as it stands, and would keep an escaped character escaped.
    failures = f"file:{plan.out / 'failures'}"
    wanted = max(spark.sparkContext.defaultParallelism * TASKS_PER_CORE, -(-plan.sets // MOST_SETS_PER_TASK))
    tasks = min(wanted, plan.sets)
    with tempfile.TemporaryDirectory(prefix="simzk-sweep-") as scratch:
        slices = _slices(spark, plan, tasks, Path(scratch)).persist()
        try:
            with watched(spark, tasks, progress):
                in_words(slices.count)
            rows = slices.where("failure is not null").select("failure.*")
            in_words(lambda: _worst_first(rows).write.parquet(failures))
            found = in_words(lambda: _shares(slices).toArrow()).to_pylist()
        finally:
            slices.unpersist()
    tables = things_tables(plan.what_if, merged([tuple(row.values()) for row in found]))
    tables["estimates"] = estimates_table(_batches(plan.out / "failures"), plan.populations)
    for name, table in tables.items():
        _write(plan.out / f"{name}.parquet", table)
    (plan.out / "sweep.json").write_text(_summary(plan), encoding="utf-8")
    return worst_of(plan.out / "failures")


def worst_of(failures: Path) -> list[dict[str, object]]:
    """The ten worst rows of a table `failures`, which stand at its beginning."""
    rows: list[dict[str, object]] = []
    for batch in _batches(failures):
        rows += batch.slice(0, WORST_SHOWN - len(rows)).to_pylist()
        if len(rows) == WORST_SHOWN:
            break
    return rows


def _slices(spark: SparkSession, plan: Plan, tasks: int, scratch: Path) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    prefix = f"simzk-{uuid4().hex}-"
    for file in plan.what_if.save(scratch, prefix):
        spark.sparkContext.addFile(str(file))
    compute = partial(_compute, prefix, plan.specs, plan.sets, tasks)
    return spark.range(0, tasks, 1, tasks).mapInArrow(compute, from_arrow_schema(slice_schema()))


_held: dict[str, WhatIf] = {}
"""The one cluster that this worker process has mapped, by the names of its files."""


def _compute(
    prefix: str, specs: Sequence[AnyFailure], sets: int, tasks: int, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What tasks tell, by their numbers."""
    from pyspark import SparkFiles

    if prefix not in _held:
        _held.clear()
        _held[prefix] = WhatIf.load(Path(SparkFiles.getRootDirectory()), prefix)
    for batch in numbers:
        for task in batch["id"].to_pylist():
            yield from slice_batches(_held[prefix], specs, sets * task // tasks, sets * (task + 1) // tasks)


def _worst_first(rows: DataFrame) -> DataFrame:
    return rows.orderBy(*(rows[name].desc() for name in WORST_FIRST), rows["failure_set"])


def _shares(slices: DataFrame) -> DataFrame:
    """All figures of the same thing, added up; columns as of `tallies.shares_schema`."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    shares = slices.where("share is not null").select("share.*")
    top = F.max(F.struct("most", (-F.col("most_set")).alias("before")))
    keys = ("fail", "kind", "thing", "figure")
    added = shares.groupBy(*keys).agg(F.sum("sets").alias("sets"), F.sum("total").alias("total"), top.alias("top"))
    most = (F.col("top.most").alias("most"), (-F.col("top.before")).alias("most_set"))
    # The driver lays them out in the order in which they come.
    return added.select(*keys, "sets", "total", *most).orderBy(*keys)


def _batches(failures: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a table `failures`, in their order.

    The files are read here, not by Spark, to whose Hadoop the characters of a path are a pattern.
    """
    import pyarrow.parquet as pq

    for part in sorted(failures.glob("part-*")):
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches():
                yield batch.cast(failures_schema())


def _write(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path)


def _summary(plan: Plan) -> str:
    summary = {
        "layout": plan.layout.name,
        "brokers": len(plan.what_if.brokers.ids),
        "partitions": plan.partitions,
        "fail": [str(spec) for spec in plan.specs],
        "seed": plan.seed,
        "unfit": [{"fail": fail, "why": why} for fail, why in plan.unfit],
        "failure_sets": plan.sets,
        "settled": plan.what_if.settled._asdict(),
    }
    return json.dumps(summary, indent=2) + "\n"
