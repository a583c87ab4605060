"""Risk of a layout and of alternative assignments, per topic and in total, computed in tasks and written as Parquet.

docs/risk.md documents the files. Rules of this module:
  - a task is an assignment and some of its topics; a row depends on its topic only, and rows are sorted at the end, so
    the result does not depend on the number of tasks or on where they ran, in this process or on Spark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_type_hints
from uuid import uuid4

import numpy as np

from simzk.errors import ConfigError
from simzk.partitions.layouts import read_layout, write_layout
from simzk.partitions.risk.alternatives import NAMES, alternative, moved, with_replicas
from simzk.partitions.risk.assess import Assessor, ClusterRates, Risk
from simzk.partitions.risk.cut_sets import replica_sets
from simzk.pipeline.risks.rates_file import cluster_rates
from simzk.pipeline.spark.columns import batches
from simzk.pipeline.spark.jobs import in_words, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from simzk.partitions.arrays import IntArray
    from simzk.partitions.layouts import Brokers, Layout
    from simzk.pipeline.risks.rates_file import RatesSpec

AS_IS = "as-is"
TOPICS_PER_TASK = 64
WHOLE = -1
"""Topic number of the row for the whole cluster."""

WORST_FIRST = ("outage_probability", "loss_probability", "offline_minutes")


class Assignment(NamedTuple):
    """One assignment of all partitions.

    Args:
        name: name as requested.
        replicas: int32[n, w], in the order of the layout's partitions.
        moved: number of replicas to create.
        is_made: True if it was computed here and can be written as a layout.
    """

    name: str
    replicas: IntArray
    moved: int
    is_made: bool


@dataclass(frozen=True)
class Plan:
    """Validated risk computation, ready to start.

    Args:
        name: name of the layout file.
        layout: the layout.
        assignments: the present one and the alternatives.
        spec: the rates as given.
        rates: rates of each broker and rack.
        out: directory to write to.
        samples: draws per topic if exact enumeration is too large.
        seed: seed of assignments and draws.
        left_out: assignments that the layout cannot have, with the reason.
    """

    name: str
    layout: Layout
    assignments: tuple[Assignment, ...]
    spec: RatesSpec
    rates: ClusterRates
    out: Path
    samples: int
    seed: int
    left_out: tuple[tuple[str, str], ...] = field(default=())


def plan_risk(
    layout: Path, spec: RatesSpec, out: Path, compared: Sequence[str], *, samples: int, seed: int = 0
) -> Plan:
    """Check everything that can be checked before computing.

    Args:
        layout: path of the layout file.
        spec: rates of failure and repair.
        out: directory to write to.
        compared: names of `alternatives`, or layout files of the same partitions; all names if empty.
        samples: draws per topic.
        seed: seed of assignments and draws.

    Raises:
        LayoutError: a layout cannot be read.
        ConfigError: an assignment is impossible, rates do not fit the layout, or `out` already contains risks.
    """
    if (out / "topics.parquet").exists():
        raise ConfigError("the directory already contains tables", where=str(out), right="an empty directory")
    read = read_layout(layout)
    if not len(read):
        raise ConfigError("there is nothing at risk: the layout has no partitions", where=str(layout))
    rates = cluster_rates(spec, read.brokers)
    found = [Assignment(AS_IS, read.replicas, 0, is_made=False)]
    left_out: list[tuple[str, str]] = []
    for name in compared or NAMES:
        if any(name == other.name for other in found):
            if name == AS_IS:
                continue
            raise ConfigError(f"{name} stands twice", right="each assignment once")
        try:
            found.append(_assignment(read, name, seed))
        except ConfigError as error:
            if compared:
                raise
            left_out.append((name, str(error)))
    return Plan(layout.name, read, tuple(found), spec, rates, out.absolute(), samples, seed, tuple(left_out))


def _assignment(layout: Layout, name: str, seed: int) -> Assignment:
    is_file = name.endswith((".parquet", ".arrow", ".json"))
    replicas = _replicas_of_file(layout, Path(name)) if is_file else alternative(layout, name, seed)
    return Assignment(name, replicas, moved(layout.replicas, replicas), is_made=not is_file)


def _replicas_of_file(layout: Layout, path: Path) -> IntArray:
    """Return the replicas of another layout file, in the order of this layout's partitions."""
    other = read_layout(path)
    numbers = {topic: number for number, topic in enumerate(layout.topics)}
    topic = np.array([numbers.get(name, len(numbers)) for name in other.topics], np.int64)[other.topic]
    order, others = np.lexsort((layout.partition, layout.topic)), np.lexsort((other.partition, topic))
    same = len(layout) == len(other) and all(
        np.array_equal(one[order], two[others])
        for one, two in ((layout.topic, topic), (layout.partition, other.partition))
    )
    if not same:
        raise ConfigError("does not place the same partitions", where=str(path), right="those of the layout")
    strange = np.setdiff1d(other.replicas, np.append(layout.brokers.ids, -1))
    if len(strange):
        raise ConfigError(f"places replicas on broker {strange[0]}", where=str(path), right="brokers of the layout")
    replicas = np.empty_like(other.replicas)
    replicas[order] = other.replicas[others]
    return replicas


class _Job(NamedTuple):
    """Input of all tasks, sent to workers once; `token` identifies the job."""

    token: str
    brokers: Brokers
    topics: tuple[str, ...]
    topic: IntArray
    replicas: tuple[IntArray, ...]
    names: tuple[str, ...]
    rates: ClusterRates
    samples: int
    seed: int

    def assessor(self, assignment: int) -> Assessor:
        """Return the prepared assessor of one assignment."""
        sets = replica_sets(self.brokers, len(self.topics), self.topic, self.replicas[assignment])
        return Assessor(self.rates, sets, self.samples, self.seed)

    def tasks(self) -> list[tuple[int, int, int]]:
        """Return the tasks: assignment, first topic, end; the first task includes the whole cluster."""
        starts = range(0, len(self.topics), TOPICS_PER_TASK)
        last = len(self.topics)
        return [(one, at, min(at + TOPICS_PER_TASK, last)) for one in range(len(self.names)) for at in starts]

    def rows(self, assessor: Assessor, assignment: int, start: int, stop: int) -> Iterator[tuple[object, ...]]:
        """Yield the rows of a task, with the columns of `risk_schema`."""
        if start == 0:
            yield (assignment, WHOLE, *assessor.cluster())
        for topic in range(start, stop):
            yield (assignment, topic, *assessor.topic(topic))


def risk_schema() -> pa.Schema:
    """Return the schema of a task's rows; `Risk` documents the figures."""
    import pyarrow as pa

    kinds: dict[type, pa.DataType] = {int: pa.int64(), bool: pa.bool_(), float: pa.float64()}
    figures = [(name, kinds[hint]) for name, hint in get_type_hints(Risk).items()]
    return pa.schema([("assignment", pa.int32()), ("topic", pa.int32()), *figures])


def run_risk(
    plan: Plan, spark: SparkSession | None = None, progress: Callable[[float], None] = lambda _: None
) -> pa.Table:
    """Compute and write all of a plan.

    Args:
        plan: from `plan_risk`.
        spark: a session whose workers can import simzk; None computes in this process.
        progress: receives the finished share, 0 to 1.

    Returns:
        the table `assignments`.

    Raises:
        SimzkError: Spark failed; the reason in one line.
    """
    layout = plan.layout
    job = _Job(
        uuid4().hex,
        layout.brokers,
        layout.topics,
        layout.topic,
        tuple(assignment.replicas for assignment in plan.assignments),
        tuple(assignment.name for assignment in plan.assignments),
        plan.rates,
        plan.samples,
        plan.seed,
    )
    found = _compute_here(job, progress) if spark is None else _compute_on_spark(spark, job, progress)
    tables = {"assignments": _assignments_table(plan, job, found), "topics": _topics_table(job, found)}
    plan.out.mkdir(parents=True, exist_ok=True)
    for assignment in plan.assignments:
        if assignment.is_made:
            place = plan.out / "layouts" / f"{assignment.name.replace(':', '-')}.parquet"
            place.parent.mkdir(exist_ok=True)
            write_layout(with_replicas(layout, assignment.replicas), place)
    for name, table in tables.items():
        _write(plan.out / f"{name}.parquet", table)
    (plan.out / "risk.json").write_text(_summary(plan), encoding="utf-8")
    return tables["assignments"]


def _compute_here(job: _Job, progress: Callable[[float], None]) -> pa.Table:
    import pyarrow as pa

    def rows() -> Iterator[tuple[object, ...]]:
        tasks, held = job.tasks(), -1
        for done, (assignment, start, stop) in enumerate(tasks):
            progress(done / len(tasks))
            if assignment != held:
                assessor, held = job.assessor(assignment), assignment
            yield from job.rows(assessor, assignment, start, stop)

    return pa.Table.from_batches(batches(rows(), risk_schema()), schema=risk_schema())


def _compute_on_spark(spark: SparkSession, job: _Job, progress: Callable[[float], None]) -> pa.Table:
    from pyspark.sql.pandas.types import from_arrow_schema

    tasks = len(job.tasks())
    sent = spark.sparkContext.broadcast(job)
    try:
        frame = spark.range(0, tasks, 1, tasks).mapInArrow(partial(_compute, sent), from_arrow_schema(risk_schema()))
        with watched(spark, tasks, progress):
            table = in_words(frame.toArrow)
    finally:
        sent.destroy()
    return table.cast(risk_schema())


_held: dict[tuple[str, int], Assessor] = {}
"""Assessor cached in this worker process, by job and assignment."""


def _compute(sent: Broadcast[_Job], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the tasks with the given numbers."""
    job = sent.value
    tasks = job.tasks()
    for batch in numbers:
        for task in batch["id"].to_pylist():
            assignment, start, stop = tasks[task]
            if (job.token, assignment) not in _held:
                _held.clear()
                _held[job.token, assignment] = job.assessor(assignment)
            rows = job.rows(_held[job.token, assignment], assignment, start, stop)
            yield from batches(rows, risk_schema())


def _topics_table(job: _Job, found: pa.Table) -> pa.Table:
    """Return one row per topic and assignment, worst first in each assignment."""
    import pyarrow as pa
    import pyarrow.compute as pc

    of_topics = found.filter(pc.greater(found["topic"], WHOLE))
    keys = [("assignment", "ascending"), *((name, "descending") for name in WORST_FIRST), ("topic", "ascending")]
    of_topics = of_topics.sort_by(keys)
    names = pa.array(job.names).take(of_topics["assignment"].combine_chunks())
    topics = pa.array(job.topics).take(of_topics["topic"].combine_chunks())
    return of_topics.set_column(0, "assignment", names).set_column(1, "topic", topics)


def _assignments_table(plan: Plan, job: _Job, found: pa.Table) -> pa.Table:
    """Return one row per assignment, in the requested order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = found.filter(pc.equal(found["topic"], WHOLE)).sort_by("assignment").drop_columns(["assignment", "topic"])
    brokers = len(plan.layout.brokers.ids)
    widths = []
    for replicas in job.replicas:
        sets = replica_sets(job.brokers, len(job.topics), job.topic, replicas)
        widths.append(float(sets.scatter_widths(brokers).mean()))
    said = {
        "assignment": pa.array(job.names, pa.string()),
        "replicas": pa.array([int((replicas >= 0).sum()) for replicas in job.replicas], pa.int64()),
        "replicas_moved": pa.array([assignment.moved for assignment in plan.assignments], pa.int64()),
        "scatter_width": pa.array(widths, pa.float64()),
    }
    return pa.table(said | {name: whole[name] for name in whole.column_names})


def _write(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path)


def _summary(plan: Plan) -> str:
    summary = {
        "layout": plan.name,
        "brokers": len(plan.layout.brokers.ids),
        "partitions": len(plan.layout),
        "assignments": [assignment.name for assignment in plan.assignments],
        "left_out": [{"assignment": name, "why": why} for name, why in plan.left_out],
        "rates": {
            "broker": plan.spec.broker,
            "rack": plan.spec.rack,
            "brokers": {str(broker): said for broker, said in plan.spec.brokers.items()},
            "racks": plan.spec.racks,
        },
        "samples": plan.samples,
        "seed": plan.seed,
    }
    return json.dumps(summary, indent=2) + "\n"
