"""Swarms: scenarios played under many seeds, as the Spark data source `simzk_runs` and as files (docs/pipeline.md).

Options of the source: the scenario files (`load(path)`, separated by commas); `seeds` (number of runs) from `firstSeed`
(default 1; without both, the scenario's own seed); `kafkaVersion` (default the scenario's own); `rows`: `runs`
(default) or `events`; `documents=true` for the whole run as JSON in each row of a run; `numPartitions` (tasks). The
tasks are slices of the runs. A run depends only on its scenario, seed and version, so the rows do not depend on the
slices.
"""

from __future__ import annotations

import json
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from simzk.errors import ConfigError
from simzk.pipeline.data_source import batches, number, slices
from simzk.pipeline.spark_session import in_words, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from simzk.scenarios.results import Result
    from simzk.scenarios.swarm import OutcomeRow, Run

Row = tuple[object, ...]


@cache
def runs_schema() -> pa.Schema:
    """Return the Arrow schema of rows of runs; docs/pipeline.md documents the columns."""
    import pyarrow as pa

    counts = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    return pa.schema(
        [
            ("run", pa.int64()),
            ("file", pa.string()),
            ("seed", pa.int64()),
            ("kafka_version", pa.string()),
            ("held", pa.bool_()),
            ("failed", pa.list_(pa.field("element", pa.string()))),
            ("first_failure", pa.string()),
            ("replay", pa.string()),
            ("events", counts),
            ("settled_us", counts),
            ("probes", counts),
            ("records", counts),
            ("document", pa.string()),
        ]
    )


@cache
def events_schema() -> pa.Schema:
    """Return the Arrow schema of rows of events."""
    import pyarrow as pa

    return pa.schema(
        [
            ("run", pa.int64()),
            ("file", pa.string()),
            ("seed", pa.int64()),
            ("kafka_version", pa.string()),
            ("event", pa.int32()),
            ("at_us", pa.int64()),
            *((name, pa.string()) for name in ("who", "what", "subject", "before", "after")),
        ]
    )


@cache
def outcomes_schema() -> pa.Schema:
    """Return the Arrow schema of the summary of runs: the fields of `simzk.scenarios.swarm.OutcomeRow`."""
    import pyarrow as pa

    numbers = ("runs", "of", "least", "median", "p90", "p99", "most", "seed")
    return pa.schema([*((name, pa.string()) for name in ("file", "kind", "name")), *((n, pa.int64()) for n in numbers)])


def run_row(number: int, result: Result) -> Row:
    """Return a run as a row of `runs_schema`."""
    return (
        number,
        result.file,
        result.seed,
        result.version,
        result.held,
        list(result.failed),
        result.first_failure,
        result.replay,
        list(result.events.items()),
        list(result.settled_us.items()),
        list(result.probes.items()),
        list(result.records.items()),
        None if result.document is None else json.dumps(result.document),
    )


def result_of_row(row: Mapping[str, Any]) -> Result:
    """Return the run of a row of `runs_schema`."""
    from simzk.scenarios.results import Result

    return Result(
        file=row["file"],
        seed=row["seed"],
        version=row["kafka_version"],
        failed=tuple(row["failed"]),
        first_failure=row["first_failure"],
        replay=row["replay"],
        events=dict(row["events"]),
        settled_us=dict(row["settled_us"]),
        probes=dict(row["probes"]),
        records=dict(row["records"]),
        document=None if row["document"] is None else json.loads(row["document"]),
    )


def event_rows(number: int, result: Result) -> Iterator[Row]:
    """Yield the events of a run in order, as rows of `events_schema`."""
    document: Any = result.document
    for place, event in enumerate(document["timeline"]):
        yield (number, result.file, result.seed, result.version, place, *event.values())


RUNS, EVENTS = ROWS = ("runs", "events")

RUNS_PER_TASK = 16
"""Default number of runs per task."""

_ROWS_PER_BATCH = 256


class RunsSource(DataSource):
    """`spark.read.format("simzk_runs")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "simzk_runs"

    def schema(self) -> StructType:
        """Return the columns of `runs_schema` or `events_schema`."""
        return from_arrow_schema(events_schema() if self._rows() == EVENTS else runs_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the runs named by the options."""
        path = self.options.get("path")
        if path is None:
            raise ConfigError("simzk_runs plays scenarios", right='load("scenario.toml")')
        if find_spec("msgspec") is None:
            raise ConfigError("scenarios need msgspec: pip install 'simzk[cli]'")
        from simzk.scenarios.swarm import plan_runs

        version = self.options.get("kafkaVersion", "")
        if version:
            from simzk.kafka.releases.versions import kafka_version

            kafka_version(version)
        seed = number(self.options, "firstSeed", 1, least=0) if "firstSeed" in self.options else None
        seeds = number(self.options, "seeds", 1) if "seeds" in self.options else None
        runs = plan_runs([file.strip() for file in path.split(",")], seed, seeds, version)
        documents = self.options.get("documents", "false").lower()
        if documents not in ("true", "false"):
            raise ConfigError(f"{documents!r} is invalid", where="documents", right="true or false")
        tasks = number(self.options, "numPartitions", -(-len(runs) // RUNS_PER_TASK))
        return RunsReader(runs, min(tasks, len(runs)), self._rows(), documented=documents == "true")

    def _rows(self) -> str:
        rows = self.options.get("rows", RUNS).lower()
        if rows not in ROWS:
            raise ConfigError(f"unknown rows {rows!r}", where="rows", right=" or ".join(ROWS))
        return rows


class RunsReader(DataSourceReader):
    """Reader that plays one slice of the runs per task."""

    def __init__(self, runs: list[Run], tasks: int, rows: str, *, documented: bool) -> None:
        self.runs = runs
        self.tasks = tasks
        self.rows = rows
        self.documented = documented

    def partitions(self) -> list[InputPartition]:
        """Return slices of nearly equal size, one per task."""
        return [InputPartition(self.runs[start:stop]) for start, stop in slices(len(self.runs), self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one slice."""
        from simzk.scenarios.swarm import play_run

        if self.rows == EVENTS:
            played = ((run.number, play_run(run, documented=True)) for run in partition.value)
            return batches((row for number, result in played for row in event_rows(number, result)), events_schema())
        rows = (run_row(run.number, play_run(run, documented=self.documented)) for run in partition.value)
        return batches(rows, runs_schema(), _ROWS_PER_BATCH)


TASKS_PER_CORE = 4
MOST_RUNS_PER_TASK = 64
JOBS = 8
"""Most jobs of a swarm: after Ctrl-C the runs of the finished jobs remain."""


def play_on_spark(
    spark: SparkSession,
    runs: Sequence[Run],
    *,
    documented: bool,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Result]:
    """Play runs on Spark, in a few jobs.

    Args:
        spark: a session whose workers can import simzk, and read the files of the runs at their absolute paths.
        runs: from `simzk.scenarios.swarm.plan_runs`.
        documented: True if the results include their documents.
        progress: receives the finished share of the runs, 0 to 1.

    Yields:
        the results in the order of the runs, as in one process; those of a job when it is finished.

    Raises:
        SimzkError: Spark failed; the reason in one line.
    """
    cores = spark.sparkContext.defaultParallelism
    tasks = min(len(runs), max(cores * TASKS_PER_CORE, -(-len(runs) // MOST_RUNS_PER_TASK)))
    jobs = min(JOBS, -(-tasks // cores))
    of_tasks = [runs[start:stop] for start, stop in slices(len(runs), tasks)]
    schema = from_arrow_schema(runs_schema())
    for first, end in slices(tasks, jobs):
        play = partial(_play_slices, of_tasks[first:end], documented=documented)
        frame = spark.range(0, end - first, 1, end - first).mapInArrow(play, schema)
        with watched(spark, first, end, tasks, progress):
            table: pa.Table = in_words(frame.toArrow)
        yield from map(result_of_row, table.sort_by("run").to_pylist())


def _play_slices(
    of_tasks: Sequence[Sequence[Run]], numbers: Iterable[pa.RecordBatch], *, documented: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the slices with the given numbers."""
    from simzk.scenarios.swarm import play_run

    for batch in numbers:
        for task in batch["id"].to_pylist():
            rows = (run_row(run.number, play_run(run, documented=documented)) for run in of_tasks[task])
            yield from batches(rows, runs_schema(), _ROWS_PER_BATCH)


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
