"""A sweep: the failure sets of a layout, each with what it leaves, computed on Spark and written as Parquet.

What stands in the directory afterwards is described in docs/layout.md: `failures/`, the rows of
`outcomes.failures_schema`, and `sweep.json`, what was swept and how the cluster stood before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import simzk.pipeline
from simzk.errors import ConfigError
from simzk.partitions.layouts import read_layout
from simzk.partitions.what_if import Outcome, WhatIf
from simzk.pipeline.jobs import in_words, watched
from simzk.pipeline.outcomes import count_sets, failures_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from simzk.partitions.failure_sets import FailureSpec

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
        brokers, partitions: the size of the cluster.
        sets: the number of failure sets.
        settled: the outcome of no failure at all.
    """

    layout: Path
    specs: tuple[FailureSpec, ...]
    out: Path
    brokers: int
    partitions: int
    sets: int
    settled: Outcome


def plan_sweep(layout: Path, specs: Sequence[FailureSpec], out: Path) -> Plan:
    """Check everything that can be checked before Spark is started.

    Raises:
        LayoutError: the layout cannot be read.
        ConfigError: a specification does not fit the layout, or `out` already holds a sweep.
    """
    if (out / "failures").exists():
        raise ConfigError("a sweep stands there already", where=str(out), right="another directory, or remove it")
    read = read_layout(layout)
    if not len(read):
        raise ConfigError("there is nothing to fail: the layout has no partitions", where=str(layout))
    sets = count_sets(specs, read.brokers)
    return Plan(
        layout=layout.absolute(),
        specs=tuple(specs),
        out=out.absolute(),
        brokers=len(read.brokers.ids),
        partitions=len(read),
        sets=sets,
        settled=WhatIf(read).settled,
    )


def run_sweep(
    spark: SparkSession, plan: Plan, progress: Callable[[float], None] | None = None
) -> list[dict[str, object]]:
    """Compute and write all failure sets of a plan.

    Args:
        spark: a session whose workers can import simzk, and read and write the paths of the plan.
        plan: from `plan_sweep`.
        progress: called now and then with the share of the failure sets that is done, 0 to 1.

    Returns:
        the ten worst failure sets, as rows of the table `failures`.

    Raises:
        SimzkError: Spark could not do it; the error has the reason in one line.
    """
    # Not `as_uri`: Hadoop takes a path as it stands, and would keep an escaped character escaped.
    failures = f"file:{plan.out / 'failures'}"
    tasks = max(spark.sparkContext.defaultParallelism * TASKS_PER_CORE, -(-plan.sets // MOST_SETS_PER_TASK))
    simzk.pipeline.register(spark)

    with watched(spark, tasks, progress):
        in_words(lambda: _failures(spark, plan, tasks).write.parquet(failures))
    (plan.out / "sweep.json").write_text(_summary(plan))
    return worst_of(plan.out / "failures")


def worst_of(failures: Path) -> list[dict[str, object]]:
    """The ten worst rows of a table `failures`, read batch by batch.

    The files are read here, not by Spark, to whose Hadoop the characters of a path are a pattern.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    order = [*((name, "descending") for name in WORST_FIRST), ("failure_set", "ascending")]
    worst = failures_schema().empty_table()
    for batch in ds.dataset(failures, schema=failures_schema(), format="parquet").to_batches():
        both = pa.concat_tables([worst, pa.Table.from_batches([batch])])
        worst = both.take(pc.select_k_unstable(both, WORST_SHOWN, sort_keys=order))
    rows: list[dict[str, object]] = worst.to_pylist()
    return rows


def _failures(spark: SparkSession, plan: Plan, tasks: int) -> DataFrame:
    return (
        spark.read.format("simzk_failures")
        .option("fail", ",".join(map(str, plan.specs)))
        .option("numPartitions", tasks)
        .load(str(plan.layout))
    )


def _summary(plan: Plan) -> str:
    summary = {
        "layout": plan.layout.name,
        "brokers": plan.brokers,
        "partitions": plan.partitions,
        "fail": [str(spec) for spec in plan.specs],
        "failure_sets": plan.sets,
        "settled": plan.settled._asdict(),
    }
    return json.dumps(summary, indent=2) + "\n"
