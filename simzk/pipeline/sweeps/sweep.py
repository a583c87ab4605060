"""Sweeps: compute the outcome of every failure set of a layout on Spark and write it as Parquet.

docs/layout.md documents the files. Rules of this module:
  - the layout is prepared once, written to files, and sent to each executor once; all its processes map these files,
    so an executor has one copy however many tasks it runs;
  - a task is a slice of the failure sets; figures can be summed in any order (outcomes.py) and rows are sorted at the
    end, so the result does not depend on the number of tasks;
  - Spark computes slices only: its own sorting and summing takes longer than the driver's and does not scale with
    cores;
  - the driver's memory is bounded: the rows of one job are sorted, written to a file and mapped, and the sorted files
    are merged; of figures only the sums are kept.
"""

from __future__ import annotations

import gc
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import numpy as np

from simzk.errors import ConfigError, FailureSetError
from simzk.partitions.failures.sets import FailureSpec, NamedFailure
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import read_layout
from simzk.pipeline.data_source import slices
from simzk.pipeline.spark_session import in_words, watched
from simzk.pipeline.sweeps.outcomes import (
    FIGURES,
    ROWS_PER_BATCH,
    added_up,
    count_sets,
    failures_schema,
    parts_of_slices,
    slice_batches,
    slice_schema,
)
from simzk.pipeline.sweeps.tables import WORST_SETS, estimates_table, things_tables, worst_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from simzk.partitions.failures.sets import AnyFailure
    from simzk.pipeline.sweeps.outcomes import Shares

WORST_FIRST = ("newly_offline", "under_min_isr", "leaders_moved", "busiest_leaders")
"""Order of failure sets, worst first: by the first of these counts that differs, then by the lower number."""

_ORDER = (*((name, "descending") for name in WORST_FIRST), ("failure_set", "ascending"))

ROWS_PER_PART = 1 << 17


class Gathered:
    """Results of the finished tasks.

    Args:
        scratch: an existing temporary folder.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.sets = 0
        """Number of failure sets that are done; they are the first ones."""
        self._runs: list[pa.Table] = []
        self.shares: Shares = added_up([])
        """Figures per topic, broker and rack over all failure sets."""

    def add(self, slices: pa.Table, sets: int) -> None:
        """Add rows of `outcomes.slice_schema` that fit into memory; with them the first `sets` sets are done."""
        import pyarrow as pa

        failures, shares = parts_of_slices(slices)
        self.shares = added_up(shares.to_batches(), self.shares)
        file = self.scratch / f"run-{len(self._runs)}.arrow"
        with pa.ipc.new_file(file, failures_schema()) as writer:
            writer.write_table(failures.sort_by(list(_ORDER)).combine_chunks())
        self._runs.append(pa.ipc.open_file(pa.memory_map(str(file))).read_all())
        self.sets = sets

    def failures(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `failures`, unordered."""
        for run in self._runs:
            yield from run.to_batches(max_chunksize=ROWS_PER_BATCH)

    def parts(self) -> Iterator[pa.Table]:
        """Yield the rows of `failures`, worst first, in parts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = pa.concat_tables(run.select([name for name, _ in _ORDER]) for run in self._runs)
        order = pc.sort_indices(keys, sort_keys=list(_ORDER)).to_numpy()
        begins = np.cumsum([0, *map(len, self._runs)])
        taken = np.zeros(len(self._runs), np.intp)
        for start in range(0, len(order), ROWS_PER_PART):
            places = order[start : start + ROWS_PER_PART]
            # Each run is sorted, so a part consists of the next rows of each run.
            run_of = np.searchsorted(begins, places, side="right") - 1
            counts = np.bincount(run_of, minlength=len(self._runs))
            some = [run.slice(at, count) for run, at, count in zip(self._runs, taken, counts, strict=True)]
            behind = np.cumsum(counts) - counts
            within = places.astype(np.intp) - begins[run_of] - taken[run_of] + behind[run_of]
            yield pa.concat_tables(some).combine_chunks().take(pa.array(within))
            taken += counts


WORST_SHOWN = 10
TASKS_PER_CORE = 4
MOST_SETS_PER_TASK = 1024
MOST_TASKS_PER_JOB = 64
"""Maximum number of tasks of one job per core: Ctrl-C loses the unfinished job."""
MOST_ROWS_PER_JOB = 1 << 22
"""Maximum number of rows, of 50 to 150 bytes each, that the driver receives from one job."""


@dataclass(frozen=True)
class SweepPlan:
    """Validated sweep, ready to start.

    Args:
        layout: path of the layout file.
        specs: the failure sets.
        out: directory to write to.
        partitions: number of partitions of the layout.
        populations: number of sets of each specification, evaluated or not.
        sets: number of evaluated failure sets.
        what_if: the prepared layout.
        numbers: int32[n], the number in its topic of each partition of the layout.
        seed: seed of drawn sets.
        unfit: specifications without a set in the layout, with the reason.
    """

    layout: Path
    specs: tuple[AnyFailure, ...]
    out: Path
    partitions: int
    populations: dict[str, int]
    sets: int
    what_if: WhatIf
    numbers: NDArray[np.int32]
    seed: int = 0
    unfit: tuple[tuple[str, str], ...] = field(default=())


def plan_sweep(layout: Path, specs: Sequence[AnyFailure], out: Path, *, strict: bool = False) -> SweepPlan:
    """Check everything that can be checked before Spark starts.

    Args:
        layout: path of the layout file.
        specs: the failure sets.
        out: directory to write to.
        strict: True if a specification without a set in the layout is fatal; else it is skipped if others remain.

    Raises:
        LayoutError: the layout cannot be read.
        ConfigError: a specification has no set in the layout or is repeated, or `out` already contains a sweep.
    """
    if (out / "failures").exists():
        raise ConfigError("the directory already contains a sweep", where=str(out), right="an empty directory")
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
    return SweepPlan(
        layout=layout.absolute(),
        specs=fitting,
        out=out.absolute(),
        partitions=len(read),
        populations=populations,
        sets=count_sets(fitting, read.brokers),
        what_if=WhatIf(read),
        numbers=read.partition,
        seed=max((spec.seed for spec in fitting if isinstance(spec, FailureSpec)), default=0),
        unfit=tuple(unfit),
    )


class Swept(NamedTuple):
    """Result of a sweep.

    Args:
        worst: the worst failure sets, as rows of `failures`.
        sets: number of evaluated failure sets; fewer than planned after Ctrl-C.
    """

    worst: list[dict[str, object]]
    sets: int


def run_sweep(spark: SparkSession, plan: SweepPlan, progress: Callable[[float], None] | None = None) -> Swept:
    """Compute and write all failure sets of a plan.

    Args:
        spark: a session whose workers can import simzk, and write the paths of the plan.
        plan: from `plan_sweep`.
        progress: receives the finished share of the failure sets, 0 to 1.

    Returns:
        the ten worst failure sets as rows of `failures`, and the number of sets that were evaluated: after Ctrl-C the
        sets of the finished jobs, with estimates of the specifications that are complete.

    Raises:
        KeyboardInterrupt: no job was finished by then; nothing is written.
        SimzkError: Spark failed; the reason in one line.
    """
    with tempfile.TemporaryDirectory(prefix="simzk-sweep-") as scratch:
        gathered = Gathered(Path(scratch))
        try:
            _gather(spark, plan, gathered, progress)
        except KeyboardInterrupt:
            if not gathered.sets:
                raise
        done = gathered.sets
        tables = things_tables(plan.what_if, [str(spec) for spec in plan.specs], gathered.shares)
        tables["estimates"] = estimates_table(gathered.failures(), _complete(plan, done))
        parts = gathered.parts()
        first = next(parts)
        tables["worst"] = worst_table(plan.what_if, plan.numbers, first.slice(0, WORST_SETS).to_pylist())
        _write(plan, done, tables, chain([first], parts))
    return Swept(_worst(plan), done)


def _complete(plan: SweepPlan, done: int) -> dict[str, int]:
    """Return the populations of the specifications whose sets are among the first `done`."""
    sizes = [spec.size(plan.what_if.brokers) for spec in plan.specs]
    return {
        str(spec): plan.populations[str(spec)]
        for spec, end in zip(plan.specs, accumulate(sizes), strict=True)
        if end <= done
    }


def _gather(spark: SparkSession, plan: SweepPlan, gathered: Gathered, progress: Callable[[float], None] | None) -> None:
    """Compute all failure sets in jobs whose results fit into the driver's memory."""
    from pyspark.sql.pandas.types import from_arrow_schema

    prefix = f"simzk-{uuid4().hex}-"
    for file in plan.what_if.save(gathered.scratch, prefix):
        spark.sparkContext.addFile(str(file))
    schema = from_arrow_schema(slice_schema())
    brokers = plan.what_if.brokers
    things = len(plan.what_if.topics) + len(brokers.ids) + len(brokers.rack_names)
    for first, end, tasks in jobs_of(plan.sets, len(plan.specs), things, spark.sparkContext.defaultParallelism):
        compute = partial(_compute, prefix, plan.specs, plan.sets, tasks)
        slices = spark.range(first, end, 1, end - first).mapInArrow(compute, schema)
        with watched(spark, first, end, tasks, progress):
            gathered.add(in_words(slices.toArrow), plan.sets * end // tasks)


def jobs_of(sets: int, specs: int, things: int, cores: int) -> Iterator[tuple[int, int, int]]:
    """Yield first task, end and number of tasks of each job; each job's results fit into the driver's memory.

    Args:
        sets: the number of failure sets.
        specs: number of specifications.
        things: number of topics, brokers and racks.
        cores: number of concurrent tasks; a job has at least as many, unless the whole sweep is smaller.

    >>> list(jobs_of(4950, 1, 1103, 2))
    [(0, 8, 8)]
    """
    tasks = min(max(cores * TASKS_PER_CORE, -(-sets // MOST_SETS_PER_TASK)), sets)
    of_task = -(-sets // tasks)
    rows = of_task + len(FIGURES) * things * min(specs, of_task)
    jobs = -(-tasks // min(cores * MOST_TASKS_PER_JOB, max(cores, MOST_ROWS_PER_JOB // rows)))
    for first, end in slices(tasks, jobs):
        yield first, end, tasks


_cached: dict[str, WhatIf] = {}
"""Layout mapped by this worker process, by the names of its files."""


def _compute(
    prefix: str, specs: Sequence[AnyFailure], sets: int, tasks: int, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the results of the tasks with the given numbers."""
    from pyspark import SparkFiles

    if prefix not in _cached:
        # After each task PySpark's daemon collects cycles, which takes longer than the task's own round trip among all
        # that a worker has imported: the collector skips frozen objects.
        gc.freeze()
        _cached.clear()
        _cached[prefix] = WhatIf.load(Path(SparkFiles.getRootDirectory()), prefix)
    for batch in numbers:
        for task in batch["id"].to_pylist():
            yield from slice_batches(_cached[prefix], specs, sets * task // tasks, sets * (task + 1) // tasks)


def _write(plan: SweepPlan, done: int, tables: Mapping[str, pa.Table], failures: Iterable[pa.Table]) -> None:
    """Write all tables, `failures` last and atomically, as the mark of a complete sweep.

    Raises:
        ConfigError: the directory cannot be written to.
    """
    import pyarrow.parquet as pq

    unfinished = plan.out / ".failures"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)  # of an interrupted sweep
        unfinished.mkdir(parents=True)
        for name, table in tables.items():
            pq.write_table(table, plan.out / f"{name}.parquet")
        (plan.out / "sweep.json").write_text(_summary(plan, done), encoding="utf-8")
        for number, part in enumerate(failures):
            pq.write_table(part, unfinished / f"part-{number:05}.parquet")
        (unfinished / "_SUCCESS").touch()  # Spark's mark of a complete table
        unfinished.rename(plan.out / "failures")
    except OSError as error:
        raise ConfigError(f"cannot write it: {error.strerror}", where=str(plan.out)) from None


def _worst(plan: SweepPlan) -> list[dict[str, object]]:
    """Return the first rows of the written table `failures`."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(min((plan.out / "failures").glob("part-*"))) as part:
        worst: list[dict[str, object]] = next(part.iter_batches(WORST_SHOWN)).to_pylist()
    return worst


def _summary(plan: SweepPlan, done: int) -> str:
    summary = {
        "layout": plan.layout.name,
        "brokers": len(plan.what_if.brokers.ids),
        "partitions": plan.partitions,
        "fail": [str(spec) for spec in plan.specs],
        "named": [spec.name for spec in plan.specs if isinstance(spec, NamedFailure)],
        "seed": plan.seed,
        "unfit": [{"fail": fail, "why": why} for fail, why in plan.unfit],
        "failure_sets": done,
        "planned_failure_sets": plan.sets,
        "settled": plan.what_if.baseline._asdict(),
    }
    return json.dumps(summary, indent=2) + "\n"
