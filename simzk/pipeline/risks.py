"""Risk of a layout and of alternative assignments, per topic and in total, computed in tasks and written as Parquet.

docs/risk.md documents the files. Rules of this module:
  - failure rates come from defaults, a file and options: the tables `broker` and `rack` of the file apply to all
    brokers and racks, options override them, and `brokers.ID` and `racks.NAME` apply to one;
  - a task is an assignment and some of its topics; a row depends on its topic only, and rows are sorted at the end, so
    the result does not depend on the number of tasks or on where they ran, in this process or on Spark.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints
from uuid import uuid4

import numpy as np

from simzk.documents import is_number, read_json, read_toml
from simzk.errors import ConfigError
from simzk.partitions.layouts import read_layout, write_layout
from simzk.partitions.risk.alternatives import NAMES, alternative, moved, with_replicas
from simzk.partitions.risk.assess import Assessor, ClusterRates, Risk
from simzk.partitions.risk.cut_sets import replica_sets
from simzk.partitions.risk.rates import Rate, rates_of
from simzk.pipeline.data_source import batches
from simzk.pipeline.spark_session import in_words, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from simzk.partitions.arrays import IntArray
    from simzk.partitions.layouts import Brokers, Layout

KEYS = ("failures_per_year", "repair_hours", "destroyed_per_year", "rereplication_hours")
"""Keys of a rate table."""

BROKER = dict(zip(KEYS, (2.0, 1.0, 0.0157, 12.0), strict=True))
"""Default rates of a broker. A server crashes at least twice a year (Dean: Designs, Lessons and Advice from Building
Large Distributed Systems, LADIS 2009); 1.57 % of all disks fail per year (Backblaze Drive Stats for 2024; one disk per
broker). One hour until a broker is in sync again and twelve hours of re-replication are assumptions."""

RACK = dict(zip(KEYS, (0.44, 3.5, 0.0, 12.0), strict=True))
"""Default rates of a rack. Twenty racks fail in the first year of a cluster of 1,800 machines with 40 per rack, for one
to six hours (Dean, at Google I/O 2008 and LADIS 2009). That no rack is destroyed is an assumption."""

LEAST_HOURS, MOST = 0.001, 1_000_000
"""Bounds of hours (seconds to a century) and of failures per year; beyond them, shares of time lose all digits."""

RateValues = dict[str, float]


class RatesSpec(NamedTuple):
    """Rates as given by a user.

    Args:
        broker, rack: rates without an override; every key of `KEYS`.
        brokers, racks: overrides of single ones; some keys.
        where: the file, for error messages.
    """

    broker: RateValues
    rack: RateValues
    brokers: dict[int, RateValues]
    racks: dict[str, RateValues]
    where: str


def rates_spec(file: Path | None, broker: Mapping[str, float | None], rack: Mapping[str, float | None]) -> RatesSpec:
    """Merge a file and options over the defaults.

    Args:
        file: TOML, or JSON with the same tables; None without a file.
        broker, rack: options for all brokers or racks; None if not given.

    Raises:
        ConfigError: the file cannot be read, or a value of the file or an option is invalid.
    """
    where = "" if file is None else str(file)
    tables = {} if file is None else _read(file)
    unknown = sorted(set(tables) - {"broker", "rack", "brokers", "racks"})
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is no table of rates", where=where, right="broker, rack, brokers, racks")
    singles = {name: _table(tables.get(name, {}), f"{where}: {name}") for name in ("brokers", "racks")}
    ids = {}
    for text, values in singles["brokers"].items():
        if not is_number(text):
            raise ConfigError(
                f"{text!r} is no broker id", where=f"{where}: brokers", right="a number, as in [brokers.7]"
            )
        ids[int(text)] = _rate_values(values, f"{where}: brokers.{text}")
    return RatesSpec(
        broker=BROKER | _rate_values(tables.get("broker", {}), f"{where}: broker") | _options(broker, "--broker"),
        rack=RACK | _rate_values(tables.get("rack", {}), f"{where}: rack") | _options(rack, "--rack"),
        brokers=ids,
        racks={name: _rate_values(values, f"{where}: racks.{name}") for name, values in singles["racks"].items()},
        where=where,
    )


def cluster_rates(spec: RatesSpec, brokers: Brokers) -> ClusterRates:
    """Return the rates of a cluster.

    Raises:
        ConfigError: rates name a broker or a rack that the layout does not have.
    """
    ids = brokers.ids.tolist()
    for broker in sorted(set(spec.brokers) - set(ids)):
        raise ConfigError(f"broker {broker} is not in the layout", where=spec.where, right=_some(ids))
    for rack in sorted(set(spec.racks) - set(brokers.rack_names)):
        raise ConfigError(f"rack {rack!r} is not in the layout", where=spec.where, right=_some(brokers.rack_names))
    of_brokers = [spec.broker | spec.brokers.get(broker, {}) for broker in ids]
    of_racks = {name: spec.rack | spec.racks.get(name, {}) for name in brokers.rack_names}
    kinds = [
        rates_of(
            brokers,
            [Rate(values[often], values[long]) for values in of_brokers],
            {name: Rate(values[often], values[long]) for name, values in of_racks.items()},
        )
        for often, long in (KEYS[:2], KEYS[2:])
    ]
    return ClusterRates(*kinds)


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
        tables = read_json(text) if file.suffix == ".json" else read_toml(text)
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(file)) from None
    except ValueError as error:  # of TOML, of JSON, of UTF-8
        raise ConfigError(f"is no {'JSON' if file.suffix == '.json' else 'TOML'}: {error}", where=str(file)) from None
    return _table(tables, str(file))


def _table(found: object, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ConfigError("is no table", where=where)
    return found


def _rate_values(found: object, where: str) -> RateValues:
    return {key: _number(key, value, where) for key, value in _table(found, where).items()}


def _options(given: Mapping[str, float | None], prefix: str) -> RateValues:
    return {key: _number(key, value, prefix) for key, value in given.items() if value is not None}


def _number(key: str, value: object, where: str) -> float:
    if key not in KEYS:
        raise ConfigError(f"{key!r} is no rate", where=where, right=", ".join(KEYS))
    lasts = key.endswith("hours")
    least = LEAST_HOURS if lasts else 0
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= MOST:
        right = f"hours, {least} to {MOST:,}" if lasts else f"how often a year, 0 to {MOST:,}"
        raise ConfigError(f"{key} {value!r} is invalid", where=where, right=right)
    return float(value)


def _some(names: object) -> str:
    listed = [str(name) for name in names]  # type: ignore[attr-defined]
    return f"one of {', '.join(listed[:8])}{', ...' if len(listed) > 8 else ''}" if listed else "none: it has no racks"


AS_IS = "as-is"
TOPICS_PER_TASK = 64
WHOLE = -1
"""Topic number of the row for the whole cluster."""

WORST_FIRST = ("outage_probability", "loss_probability", "offline_minutes")


class NamedAssignment(NamedTuple):
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
class RiskPlan:
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
    assignments: tuple[NamedAssignment, ...]
    spec: RatesSpec
    rates: ClusterRates
    out: Path
    samples: int
    seed: int
    left_out: tuple[tuple[str, str], ...] = field(default=())


def plan_risk(
    layout: Path, spec: RatesSpec, out: Path, compared: Sequence[str], *, samples: int, seed: int = 0
) -> RiskPlan:
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
    found = [NamedAssignment(AS_IS, read.replicas, 0, is_made=False)]
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
    return RiskPlan(layout.name, read, tuple(found), spec, rates, out.absolute(), samples, seed, tuple(left_out))


def _assignment(layout: Layout, name: str, seed: int) -> NamedAssignment:
    is_file = name.endswith((".parquet", ".arrow", ".json"))
    replicas = _replicas_of_file(layout, Path(name)) if is_file else alternative(layout, name, seed)
    return NamedAssignment(name, replicas, moved(layout.replicas, replicas), is_made=not is_file)


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
    plan: RiskPlan, spark: SparkSession | None = None, progress: Callable[[float], None] = lambda _: None
) -> pa.Table:
    """Compute and write all of a plan.

    Args:
        plan: from `plan_risk`.
        spark: a session whose workers can import simzk; None computes in this process.
        progress: receives the finished share, 0 to 1.

    Returns:
        the table `assignments`; after Ctrl-C it has only the assignments that were done by then.

    Raises:
        KeyboardInterrupt: no assignment was done by then; nothing is written.
        SimzkError: Spark failed; the reason in one line.
    """
    import pyarrow.parquet as pq

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
    done = found["assignment"].combine_chunks()[-1].as_py() + 1
    plan = replace(plan, assignments=plan.assignments[:done])
    job = job._replace(names=job.names[:done], replicas=job.replicas[:done])
    tables = {"assignments": _assignments_table(plan, job, found), "topics": _topics_table(job, found)}
    plan.out.mkdir(parents=True, exist_ok=True)
    for assignment in plan.assignments:
        if assignment.is_made:
            place = plan.out / "layouts" / f"{assignment.name.replace(':', '-')}.parquet"
            place.parent.mkdir(exist_ok=True)
            write_layout(with_replicas(layout, assignment.replicas), place)
    for name, table in tables.items():
        pq.write_table(table, plan.out / f"{name}.parquet")
    (plan.out / "risk.json").write_text(_summary(plan), encoding="utf-8")
    return tables["assignments"]


def _compute_here(job: _Job, progress: Callable[[float], None]) -> pa.Table:
    import pyarrow as pa

    tasks = job.tasks()
    shares = iter(range(len(tasks)))

    def rows(assignment: int) -> Iterator[tuple[object, ...]]:
        assessor = job.assessor(assignment)
        for _, start, stop in (task for task in tasks if task[0] == assignment):
            progress(next(shares) / len(tasks))
            yield from job.rows(assessor, assignment, start, stop)

    found: list[pa.Table] = []
    try:
        for assignment in range(len(job.names)):
            table = pa.Table.from_batches(batches(rows(assignment), risk_schema()), schema=risk_schema())
            found.append(table)
    except KeyboardInterrupt:
        if not found:
            raise
    return pa.concat_tables(found)


def _compute_on_spark(spark: SparkSession, job: _Job, progress: Callable[[float], None]) -> pa.Table:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    tasks = len(job.tasks())
    of_assignment = tasks // len(job.names)
    # A job is some whole assignments, with a task for each core: after Ctrl-C those of the finished jobs remain.
    step = of_assignment * -(-spark.sparkContext.defaultParallelism // of_assignment)
    found: list[pa.Table] = []
    sent = spark.sparkContext.broadcast(job)
    try:
        for first in range(0, tasks, step):
            end = min(first + step, tasks)
            frame = spark.range(first, end, 1, end - first)
            frame = frame.mapInArrow(partial(_compute, sent), from_arrow_schema(risk_schema()))
            with watched(spark, first, end, tasks, progress):
                table = in_words(frame.toArrow).cast(risk_schema())
            found.append(table.sort_by([("assignment", "ascending"), ("topic", "ascending")]))
    except KeyboardInterrupt:
        if not found:
            raise
    finally:
        with suppress(KeyboardInterrupt):
            sent.destroy()
    return pa.concat_tables(found)


_cached: dict[tuple[str, int], Assessor] = {}
"""Assessor cached in this worker process, by job and assignment."""


def _compute(sent: Broadcast[_Job], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the tasks with the given numbers."""
    job = sent.value
    tasks = job.tasks()
    for batch in numbers:
        for task in batch["id"].to_pylist():
            assignment, start, stop = tasks[task]
            if (job.token, assignment) not in _cached:
                _cached.clear()
                _cached[job.token, assignment] = job.assessor(assignment)
            rows = job.rows(_cached[job.token, assignment], assignment, start, stop)
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


def _assignments_table(plan: RiskPlan, job: _Job, found: pa.Table) -> pa.Table:
    """Return one row per assignment, in the requested order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = found.filter(pc.equal(found["topic"], WHOLE)).sort_by("assignment").drop_columns(["assignment", "topic"])
    brokers = len(plan.layout.brokers.ids)
    widths = []
    for replicas in job.replicas:
        sets = replica_sets(job.brokers, len(job.topics), job.topic, replicas)
        widths.append(float(sets.scatter_widths(brokers).mean()))
    values = {
        "assignment": pa.array(job.names, pa.string()),
        "replicas": pa.array([int((replicas >= 0).sum()) for replicas in job.replicas], pa.int64()),
        "replicas_moved": pa.array([assignment.moved for assignment in plan.assignments], pa.int64()),
        "scatter_width": pa.array(widths, pa.float64()),
    }
    return pa.table(values | {name: whole[name] for name in whole.column_names})


def _summary(plan: RiskPlan) -> str:
    summary = {
        "layout": plan.name,
        "brokers": len(plan.layout.brokers.ids),
        "partitions": len(plan.layout),
        "assignments": [assignment.name for assignment in plan.assignments],
        "left_out": [{"assignment": name, "why": why} for name, why in plan.left_out],
        "rates": {
            "broker": plan.spec.broker,
            "rack": plan.spec.rack,
            "brokers": {str(broker): values for broker, values in plan.spec.brokers.items()},
            "racks": plan.spec.racks,
        },
        "samples": plan.samples,
        "seed": plan.seed,
    }
    return json.dumps(summary, indent=2) + "\n"
