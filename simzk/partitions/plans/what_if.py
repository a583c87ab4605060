"""Effects of a reassignment plan: the data that it moves, the cluster after each phase, and a report.

Rules of the module:

1. The analysis starts from the layout after the controller elected leaders for partitions of brokers that are already
   dead. No reassignment of the plan's partitions may be under way.
2. A replica that is new to a partition is copied once, from the leader. Existing replicas, in sync or not, are not
   copied.
3. After each phase the cluster is a layout (`PlanWhatIf.layout_at`), so that every analysis of layouts applies to it:
   summary, exposure, failures (`simzk.partitions.failures.what_if.WhatIf`). A phase shows the whole plan at the same
   step, so the load of a broker is the maximum that it can have at once.
4. Sizes of partitions are read from a file (`read_sizes`); partitions that the layout does not have are ignored.
   - `.parquet`: one row per partition: `topic` string, `partition` int, `size_bytes` int, of one replica;
   - `.json`: the output of `kafka-log-dirs --describe`. The largest replica of a partition counts; replicas that are
     being moved to another directory (`isFuture`) do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simzk.documents import read_json
from simzk.errors import LayoutError
from simzk.partitions.arrays import NONE, IntArray, concat, without
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import elect_offline_leaders, exposure, summarize
from simzk.partitions.layouts.files import parquet_table, require_pyarrow
from simzk.partitions.plans.plan import PHASES, Plan, Reassigned, Steps, diff_of, find_rows, reassignment_phases
from simzk.partitions.rules import LATEST, ElectionRules
from simzk.partitions.table import Partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from simzk.jvm.scala_collections import Scala
    from simzk.partitions.failures.what_if import Outcome
    from simzk.partitions.layouts import Exposure, Layout, LayoutSummary

    Sizes = tuple[Partitions, NDArray[np.int64]]

UNKNOWN = -1
"""Size of a partition that is not in the file."""

_LOG_DIRS = "the output of kafka-log-dirs --describe"


def read_sizes(path: str | Path, layout: Layout) -> NDArray[np.int64]:
    """Return the bytes of a replica of each partition of a layout, `UNKNOWN` if not in the file; int64[n].

    Args:
        path: a file that ends in `.parquet` or `.json`.
        layout: the layout.

    Raises:
        LayoutError: the file is unreadable or contains invalid sizes.
        ConfigError: pyarrow is not installed.
    """
    source = Path(path)
    read = {".parquet": _read_parquet, ".json": _read_log_dirs}.get(source.suffix)
    if read is None:
        raise LayoutError(
            f"unknown format {source.suffix!r} of a file of sizes", where=str(source), right=".parquet or .json"
        )
    if not source.exists():
        raise LayoutError("there is no such file", where=str(source))
    partitions, size_bytes = read(source)
    if (size_bytes < 0).any():
        name, number = partitions.name(int(np.argmax(size_bytes < 0)))
        raise LayoutError(f"the size of {name}-{number} is negative", where=str(source), right="0 or more bytes")
    sizes = np.full(len(layout), UNKNOWN, np.int64)
    rows = find_rows(layout, partitions)
    known = rows != NONE
    np.maximum.at(sizes, rows[known], size_bytes[known])
    return sizes


def _read_parquet(path: Path) -> Sizes:
    require_pyarrow()
    import pyarrow as pa
    import pyarrow.compute as pc

    table = parquet_table(path)
    columns: dict[str, Any] = {}
    for name, kind in (("topic", pa.string()), ("partition", pa.int32()), ("size_bytes", pa.int64())):
        if name not in table.column_names:
            raise LayoutError(f"has no column {name!r}", where=str(path), right="topic, partition, size_bytes")
        try:
            column = table.column(name).cast(kind)
        except pa.ArrowException as error:
            kinds = f"column {name!r} has type {table.column(name).type}"
            raise LayoutError(kinds, where=str(path), right=str(kind)) from error
        if column.null_count:
            raise LayoutError(f"column {name!r} contains null", where=str(path))
        columns[name] = column
    names = pc.dictionary_encode(pa.concat_arrays(columns["topic"].chunks or [pa.array([], pa.string())]))
    partitions = Partitions(names.dictionary.to_pylist(), names.indices.to_numpy(), columns["partition"].to_numpy())
    return partitions, columns["size_bytes"].to_numpy()


def _read_log_dirs(path: Path) -> Sizes:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LayoutError(f"cannot be read: {error}", where=str(path), right=_LOG_DIRS) from error
    # The tool prints messages before the document.
    start = next((at for at, line in enumerate(lines) if line.lstrip().startswith("{")), 0)
    try:
        found = list(_replicas(read_json("\n".join(lines[start:]))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayoutError(f"cannot be read: {error!r}", where=str(path), right=_LOG_DIRS) from error
    topics = {name: number for number, name in enumerate(dict.fromkeys(name for name, _, _ in found))}
    numbers = np.array([(topics[name], partition) for name, partition, _ in found], np.int32).reshape(len(found), 2)
    partitions = Partitions(list(topics), numbers[:, 0], numbers[:, 1])
    return partitions, np.array([size for _, _, size in found], np.int64)


def _replicas(document: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    for broker in document["brokers"]:
        for log_dir in broker["logDirs"]:
            for replica in log_dir["partitions"]:
                if not replica["isFuture"]:
                    topic, _, number = replica["partition"].rpartition("-")
                    yield topic, int(number), int(replica["size"])


class Moved(NamedTuple):
    """Copied and deleted data, in replicas or in bytes; int64, one entry per broker, by position in the layout.

    Args:
        copied_in: to a broker.
        copied_out: from a broker, which leads.
        deleted: from a broker, after the others are in sync.
        cross_rack: copied between different racks; only between brokers with known racks.
        unsourced: not copied, because no replica leads or the receiver is not live.
    """

    copied_in: NDArray[np.int64]
    copied_out: NDArray[np.int64]
    deleted: NDArray[np.int64]
    cross_rack: int
    unsourced: int

    @property
    def copied(self) -> int:
        """The total copied."""
        return int(self.copied_in.sum())


class PlanWhatIf:
    """A plan applied to a layout.

    Args:
        layout: the cluster.
        plan: the target replicas.
        steps, rules, scala: of the Kafka version.

    Attributes:
        diff: the changes that the plan makes.
        layout: the cluster, with leaders elected for partitions of brokers that are already dead.
        phases: assignments and states of the partitions of the plan after each phase; `version` counts writes.

    Raises:
        LayoutError: the plan does not fit the layout.

    >>> from simzk.partitions.arrays import pack
    >>> from simzk.partitions.layouts import Brokers, generate_layout, summarize
    >>> from simzk.partitions.table import Partitions
    >>> brokers = Brokers.from_racks({1: "a", 2: "b", 3: "a", 4: "b"})
    >>> layout = generate_layout(brokers, topics=1, partitions=2, replication_factor=2, seed=0)
    >>> layout.replicas.tolist()
    [[3, 4], [4, 1]]
    >>> first = Partitions(["topic-0"], np.array([0]), np.array([0]))
    >>> what_if = PlanWhatIf(layout, Plan(first, pack([[3, 1]])))
    >>> what_if.diff.adding.tolist(), what_if.moved().cross_rack, what_if.diff.breaks_racks.tolist()
    ([[1, -1]], 0, [True])
    >>> what_if.layout_at("joined").replicas.tolist()
    [[3, 1, 4], [4, 1, -1]]
    >>> summarize(what_if.layout_at("finished")).rack_violations
    1
    """

    def __init__(
        self,
        layout: Layout,
        plan: Plan,
        *,
        steps: Steps = Steps.NAMED,
        rules: ElectionRules = LATEST,
        scala: Scala = "2.13",
    ) -> None:
        self.diff = diff_of(layout, plan)
        self.layout = elect_offline_leaders(layout, rules)
        self._steps = steps
        self.phases: Reassigned = reassignment_phases(
            self.diff.before,
            self.layout.states.at(self.diff.rows),
            plan.replicas,
            layout.brokers.live_mask,
            steps=steps,
            rules=rules,
            scala=scala,
        )

    def layout_at(self, phase: str) -> Layout:
        """Return the whole cluster after a phase.

        Args:
            phase: one of `PHASES`.

        Returns:
            the layout. ISR members are always listed among the replicas, although in 0.8.0 the topic znode does not
            name new replicas until the end.
        """
        found = self.phases.at(phase)
        replicas, isr = found.assignment.replicas, found.states.isr
        if self._steps == Steps.BARE:
            replicas = concat(replicas, without(isr, replicas))
        return self.layout.with_states(self.diff.rows, found.states, found.assignment._replace(replicas=replicas))

    def moved(self, size_bytes: NDArray[np.int64] | None = None) -> Moved:
        """Return the copied and deleted data.

        Args:
            size_bytes: int64[n], of a replica of each partition of the layout [default: count replicas].
        """
        brokers, diff, waits = self.layout.brokers, self.diff, self.phases.waits
        assert size_bytes is None or len(size_bytes) == len(self.layout)
        weight = np.ones(len(diff.rows), np.int64) if size_bytes is None else size_bytes[diff.rows]
        # The leader at this phase is the source of the copies.
        leader = self.phases.at("joined").states.leader
        copied_in = copied_out = np.zeros(len(brokers.ids), np.int64)
        cross_rack = unsourced = 0
        racks = brokers.rack_numbers
        for place in diff.adding.T:
            rows = np.flatnonzero(place != NONE)
            to, source, amount = brokers.positions_of(place[rows]), brokers.positions_of(leader[rows]), weight[rows]
            sent = (source != NONE) & brokers.live[source] & brokers.live[to]
            unsourced += int(amount[~sent].sum())
            to, source, amount = to[sent], source[sent], amount[sent]
            copied_in = copied_in + _total(to, amount, len(brokers.ids))
            copied_out = copied_out + _total(source, amount, len(brokers.ids))
            apart = (racks[to] != racks[source]) & (racks[to] != NONE) & (racks[source] != NONE)
            cross_rack += int(amount[apart].sum())
        deleted = np.zeros(len(brokers.ids), np.int64)
        for place in diff.removing.T:
            rows = np.flatnonzero((place != NONE) & ~waits)
            deleted += _total(brokers.positions_of(place[rows]), weight[rows], len(brokers.ids))
        assert copied_in.sum() == copied_out.sum(), "a copy has a source and a receiver"
        return Moved(copied_in, copied_out, deleted, cross_rack, unsourced)


def _total(positions: IntArray, weight: NDArray[np.int64], brokers: int) -> NDArray[np.int64]:
    """Return exact sums by broker; numpy's weighted counts are floats."""
    assert len(positions) == len(weight)
    assert positions.min(initial=0) >= 0, "numpy would count a replica on no broker for the last one"
    total = np.zeros(brokers, np.int64)
    np.add.at(total, positions, weight)
    return total


class PhaseReport(NamedTuple):
    """The whole cluster after one phase.

    Args:
        name: of the phase.
        summary: of the layout.
        exposure: partitions by live ISR members.
        held_bytes: int64[b], data on each broker; None if sizes are unknown.
        writes: of `state` znodes up to this phase.
        failure: outcome of the requested failure at this phase; None if none was requested.
    """

    name: str
    summary: LayoutSummary
    exposure: Exposure
    held_bytes: NDArray[np.int64] | None
    writes: int
    failure: Outcome | None


@dataclass(frozen=True, eq=False)
class PlanReport:
    """Report about a plan.

    Args:
        what_if: the plan applied to its layout.
        phases: in order.
        replicas: copied and deleted replicas.
        data: copied and deleted bytes; None if sizes are unknown.
    """

    what_if: PlanWhatIf
    phases: tuple[PhaseReport, ...]
    replicas: Moved
    data: Moved | None

    def at(self, name: str) -> PhaseReport:
        """Return the phase of that name."""
        return self.phases[PHASES.index(name)]

    def peak_replicas(self) -> NDArray[np.int64]:
        """Return the maximum replicas on each broker, int64[b]."""
        peak: NDArray[np.int64] = np.maximum.reduce([phase.summary.by_broker.replicas for phase in self.phases])
        return peak

    def peak_bytes(self) -> NDArray[np.int64] | None:
        """Return the maximum bytes on each broker, int64[b]; None if sizes are unknown."""
        held = [phase.held_bytes for phase in self.phases if phase.held_bytes is not None]
        return np.maximum.reduce(held) if held else None


def report(what_if: PlanWhatIf, size_bytes: NDArray[np.int64] | None = None, failed: Sequence[int] = ()) -> PlanReport:
    """Return a report about a plan.

    Args:
        what_if: the plan applied to its layout.
        size_bytes: int64[n], of a replica of each partition of the layout.
        failed: brokers whose joint failure is evaluated after each phase.

    >>> from simzk.partitions.arrays import pack
    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> from simzk.partitions.table import Partitions
    >>> from simzk.partitions.plans.what_if import PlanWhatIf
    >>> from simzk.partitions.plans.plan import Plan
    >>> layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=1, replication_factor=1, seed=0)
    >>> plan = Plan(Partitions(["topic-0"], np.array([0]), np.array([0])), pack([[2]]))
    >>> plan_report = report(PlanWhatIf(layout, plan), failed=layout.replicas[0].tolist())
    >>> [phase.failure.offline for phase in plan_report.phases], plan_report.peak_replicas().tolist()
    ([1, 1, 0, 0, 0, 0], [1, 0, 1])
    """
    phases = []
    for name in PHASES:
        layout = what_if.layout_at(name)
        phases.append(
            PhaseReport(
                name,
                summarize(layout),
                exposure(layout),
                None if size_bytes is None else _held(layout, size_bytes),
                int(what_if.phases.at(name).states.version.sum()),
                WhatIf(layout).fail(failed) if failed else None,
            )
        )
    data = None if size_bytes is None else what_if.moved(size_bytes)
    return PlanReport(what_if, tuple(phases), what_if.moved(), data)


def _held(layout: Layout, size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    assert len(size_bytes) == len(layout)
    held = np.zeros(len(layout.brokers.ids), np.int64)
    for place in layout.brokers.positions_of(layout.replicas).T:
        rows = np.flatnonzero(place != NONE)
        np.add.at(held, place[rows], size_bytes[rows])
    return held
