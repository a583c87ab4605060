"""Swarms: play scenarios under many seeds on Spark and write the results as Parquet.

docs/pipeline.md documents the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import simzk.pipeline
from simzk.errors import ConfigError
from simzk.pipeline.spark.columns import batches
from simzk.pipeline.spark.jobs import in_words, watched
from simzk.pipeline.swarms.source import outcomes_schema, result_of_row, run_row, runs_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from simzk.scenarios.results import Result
    from simzk.scenarios.swarm import OutcomeRow

TASKS_PER_CORE = 4
MOST_RUNS_PER_TASK = 64


def play_on_spark(
    spark: SparkSession,
    files: Sequence[str],
    seed: int | None,
    seeds: int | None,
    version: str,
    *,
    documented: bool,
    progress: Callable[[float], None] | None = None,
) -> list[Result]:
    """Play every file with every seed on Spark.

    Args:
        spark: a session whose workers can import simzk, and read the files at their absolute paths.
        files: scenario files whose names contain no comma.
        seed, seeds, version: as of `simzk.scenarios.swarm.plan_runs`.
        documented: True if the results include their documents.
        progress: receives the finished share of the runs, 0 to 1.

    Returns:
        the results in the order of the runs, as in one process.

    Raises:
        SimzkError: Spark failed; the reason in one line.
    """
    strange = next((file for file in files if "," in file), None)
    if strange is not None:
        raise ConfigError("Spark splits paths at commas", where=strange, right="a file name without commas")
    simzk.pipeline.register(spark)
    runs = len(files) * (seeds or 1)
    tasks = min(runs, max(spark.sparkContext.defaultParallelism * TASKS_PER_CORE, -(-runs // MOST_RUNS_PER_TASK)))
    source = spark.read.format("simzk_runs").option("numPartitions", tasks)
    source = source.option("kafkaVersion", version).option("documents", str(documented).lower())
    if seed is not None:
        source = source.option("firstSeed", seed)
    if seeds is not None:
        source = source.option("seeds", seeds)
    frame = source.load(",".join(files))
    with watched(spark, tasks, progress):
        table: pa.Table = in_words(frame.toArrow)
    return [result_of_row(row) for row in table.sort_by("run").to_pylist()]


def require_free(out: Path) -> None:
    """Check that a directory contains no swarm.

    Raises:
        ConfigError: it contains one.
    """
    if (out / "runs.parquet").exists():
        raise ConfigError("the directory already contains a swarm", where=str(out), right="an empty directory")


def write_swarm(out: Path, results: Sequence[Result], outcomes: Iterable[OutcomeRow]) -> None:
    """Write one row per run and the summary of all runs.

    Raises:
        ConfigError: the directory cannot be written to.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        out.mkdir(parents=True, exist_ok=True)
        rows = (run_row(number, result) for number, result in enumerate(results))
        for name, table in (
            ("runs", pa.Table.from_batches(batches(rows, runs_schema()), schema=runs_schema())),
            ("outcomes", pa.Table.from_batches(batches(outcomes, outcomes_schema()), schema=outcomes_schema())),
        ):
            pq.write_table(table, out / f"{name}.parquet")
    except OSError as error:
        raise ConfigError(f"cannot write it: {error.strerror}", where=str(out)) from None
