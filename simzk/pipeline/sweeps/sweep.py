"""What the tasks of a sweep told, gathered by the driver: rows on disk, worst first, and figures that are added up.

Rules of this module:
  - memory is bounded however many failure sets there are: what is told at one time is sorted, written to a file and
    mapped, and the sorted files are merged;
  - of figures only their sums are kept, which are as many as there are things.

A sweep: the failure sets of a layout, each with what it leaves, computed on Spark and written as Parquet.

What stands in the directory afterwards is described in docs/layout.md. Rules of this module:
  - the cluster is made ready once, written to files, and sent to each executor once; all its processes map those
    files, so an executor holds one copy however many tasks it runs;
  - a task is a slice of the failure sets; what it adds up can be added up in any order (tallies.py), and rows are
    sorted at the end (gathered.py): so nothing depends on how many tasks there were.
  - Spark computes slices, and nothing else: its own sorting and adding up of what is told takes longer than the
    driver's, and all of it is time in which the tasks of more cores save nothing.
"""

from __future__ import annotations

import gc
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from simzk.errors import ConfigError, FailureSetError
from simzk.partitions.failures.sets import FailureSpec, NamedFailure
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import read_layout
from simzk.pipeline.spark.jobs import in_words, watched
from simzk.pipeline.sweeps.outcomes import (
    ROWS_PER_BATCH,
    count_sets,
    failures_schema,
    parts_of_slices,
    slice_batches,
    slice_schema,
)
from simzk.pipeline.sweeps.tables import estimates_table, things_tables
from simzk.pipeline.sweeps.tallies import FIGURES, added_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from simzk.partitions.failures.sets import AnyFailure
    from simzk.pipeline.sweeps.tallies import Shares

WORST_FIRST = ("newly_offline", "under_min_isr", "leaders_moved", "busiest_leaders")
"""What makes one failure set worse than another: the first of these counts that differs, then the lower number."""

_ORDER = (*((name, "descending") for name in WORST_FIRST), ("failure_set", "ascending"))

ROWS_PER_PART = 1 << 17


class Gathered:
    """What tasks told so far.

    Args:
        scratch: a folder that is there as long as this is used.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._runs: list[pa.Table] = []
        self.shares: Shares = added_up([])
        """What all failure sets did to each thing."""

    def take(self, told: pa.Table) -> None:
        """Take in rows of `outcomes.slice_schema`, as many as may be in memory at one time."""
        import pyarrow as pa

        failures, shares = parts_of_slices(told)
        self.shares = added_up(shares.to_batches(), self.shares)
        file = self._scratch / f"run-{len(self._runs)}.arrow"
        with pa.ipc.new_file(file, failures_schema()) as writer:
            writer.write_table(failures.sort_by(list(_ORDER)).combine_chunks())
        self._runs.append(pa.ipc.open_file(pa.memory_map(str(file))).read_all())

    def failures(self) -> Iterator[pa.RecordBatch]:
        """The rows of `failures`, in no order that says anything."""
        for run in self._runs:
            yield from run.to_batches(max_chunksize=ROWS_PER_BATCH)

    def parts(self) -> Iterator[pa.Table]:
        """The rows of `failures`, worst first, cut into parts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = pa.concat_tables(run.select([name for name, _ in _ORDER]) for run in self._runs)
        order = pc.sort_indices(keys, sort_keys=list(_ORDER)).to_numpy()
        begins = np.cumsum([0, *map(len, self._runs)])
        taken = np.zeros(len(self._runs), np.intp)
        for start in range(0, len(order), ROWS_PER_PART):
            places = order[start : start + ROWS_PER_PART]
            # Each run is in order, so that a part takes what stands next in each.
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
MOST_ROWS_PER_JOB = 1 << 22
"""How many rows, of 50 to 150 bytes, the driver takes from one job: of failure sets, and of figures of things."""


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
    with tempfile.TemporaryDirectory(prefix="simzk-sweep-") as scratch:
        gathered = _gather(spark, plan, Path(scratch), progress)
        tables = things_tables(plan.what_if, [str(spec) for spec in plan.specs], gathered.shares)
        tables["estimates"] = estimates_table(gathered.failures(), plan.populations)
        _write(plan, tables, gathered.parts())
    return _worst(plan)


def _gather(spark: SparkSession, plan: Plan, scratch: Path, progress: Callable[[float], None] | None) -> Gathered:
    """Have all failure sets computed, as many in one job as the driver can hold what is told of."""
    from pyspark.sql.pandas.types import from_arrow_schema

    prefix = f"simzk-{uuid4().hex}-"
    for file in plan.what_if.save(scratch, prefix):
        spark.sparkContext.addFile(str(file))
    told_as = from_arrow_schema(slice_schema())
    gathered = Gathered(scratch)
    brokers = plan.what_if.brokers
    things = len(plan.what_if.topics) + len(brokers.ids) + len(brokers.rack_names)
    for first, end, tasks in jobs_of(plan.sets, len(plan.specs), things, spark.sparkContext.defaultParallelism):
        compute = partial(_compute, prefix, plan.specs, plan.sets, tasks)
        told = spark.range(first, end, 1, end - first).mapInArrow(compute, told_as)
        so_far = None if progress is None else partial(_tell_more, progress, first / tasks, (end - first) / tasks)
        with watched(spark, end - first, so_far):
            gathered.take(in_words(told.toArrow))
    return gathered


def _tell_more(progress: Callable[[float], None], before: float, of: float, share: float) -> None:
    progress(before + of * share)


def jobs_of(sets: int, specs: int, things: int, cores: int) -> Iterator[tuple[int, int, int]]:
    """The tasks of each job, from number to number, and of how many: no job tells more than the driver can hold.

    Args:
        sets: the number of failure sets.
        specs: of how many specifications they are.
        things: how many topics, brokers and racks there are.
        cores: so many tasks run at one time; a job is never of fewer, but the whole sweep is.

    >>> list(jobs_of(4950, 1, 1103, 2))
    [(0, 8, 8)]
    """
    tasks = min(max(cores * TASKS_PER_CORE, -(-sets // MOST_SETS_PER_TASK)), sets)
    of_task = -(-sets // tasks)
    rows = of_task + len(FIGURES) * things * min(specs, of_task)
    jobs = -(-tasks // max(cores, MOST_ROWS_PER_JOB // rows))
    for first, end in pairwise(tasks * job // jobs for job in range(jobs + 1)):
        yield first, end, tasks


_held: dict[str, WhatIf] = {}
"""The one cluster that this worker process has mapped, by the names of its files."""


def _compute(
    prefix: str, specs: Sequence[AnyFailure], sets: int, tasks: int, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What tasks tell, by their numbers."""
    from pyspark import SparkFiles

    if prefix not in _held:
        # After each task PySpark's daemon has Python look for cycles, which among all that a worker has imported takes
        # longer than the task's own way there and back: it is not to look at what stays anyway.
        gc.freeze()
        _held.clear()
        _held[prefix] = WhatIf.load(Path(SparkFiles.getRootDirectory()), prefix)
    for batch in numbers:
        for task in batch["id"].to_pylist():
            yield from slice_batches(_held[prefix], specs, sets * task // tasks, sets * (task + 1) // tasks)


def _write(plan: Plan, tables: Mapping[str, pa.Table], failures: Iterable[pa.Table]) -> None:
    """Write all tables, `failures` last and at once: where they stand, there is a sweep.

    Raises:
        ConfigError: the directory cannot be written to.
    """
    import pyarrow.parquet as pq

    unfinished = plan.out / ".failures"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)  # of a sweep that was ended here
        unfinished.mkdir(parents=True)
        for name, table in tables.items():
            pq.write_table(table, plan.out / f"{name}.parquet")
        (plan.out / "sweep.json").write_text(_summary(plan), encoding="utf-8")
        for number, part in enumerate(failures):
            pq.write_table(part, unfinished / f"part-{number:05}.parquet")
        (unfinished / "_SUCCESS").touch()  # as Spark says that a table is whole
        unfinished.rename(plan.out / "failures")
    except OSError as error:
        raise ConfigError(f"cannot write it: {error.strerror}", where=str(plan.out)) from None


def _worst(plan: Plan) -> list[dict[str, object]]:
    """The first rows of the table `failures` that was written."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(min((plan.out / "failures").glob("part-*"))) as part:
        worst: list[dict[str, object]] = next(part.iter_batches(WORST_SHOWN)).to_pylist()
    return worst


def _summary(plan: Plan) -> str:
    summary = {
        "layout": plan.layout.name,
        "brokers": len(plan.what_if.brokers.ids),
        "partitions": plan.partitions,
        "fail": [str(spec) for spec in plan.specs],
        "named": [spec.name for spec in plan.specs if isinstance(spec, NamedFailure)],
        "seed": plan.seed,
        "unfit": [{"fail": fail, "why": why} for fail, why in plan.unfit],
        "failure_sets": plan.sets,
        "settled": plan.what_if.baseline._asdict(),
    }
    return json.dumps(summary, indent=2) + "\n"
