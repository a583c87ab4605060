"""What a reassignment plan would do to a layout: its diff, the data it moves, and the state after each phase.

Rules of the module:

1. First the layout is settled: partitions of brokers that are down already get the leader that the controller would
   have given them. No reassignment is under way in a layout.
2. A replica that is new to a partition is copied once, from the partition's leader. Replicas that a partition has
   already, in sync or not, are no copies.
3. After each phase the cluster is a layout again (`PlanWhatIf.layout_at`), so that whatever is asked of a layout can be
   asked of it: its summary, how exposed it is, what a failure would do then (`what_if.WhatIf`).

What an operator wants to know of a plan before it is carried out, in numbers: by phase, by broker and by rack.

Each phase is summed up as any layout is (`layouts.summarize`, `layouts.exposure`), and as if the whole plan had come
just so far: what brokers hold then is the most that they hold at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE, IntArray, contained, keep
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import elect_offline_leaders, exposure, summarize
from simzk.partitions.plans.phases import PHASES, Reassigned, Steps, reassignment_phases
from simzk.partitions.plans.plan import Plan, diff_of
from simzk.partitions.rules import LATEST, ElectionRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from simzk.jvm.scala_collections import Scala
    from simzk.partitions.failures.what_if import Outcome
    from simzk.partitions.layouts import Brokers, Exposure, Layout, LayoutSummary


class Moved(NamedTuple):
    """What is copied and deleted, in replicas or in bytes; int64 an entry a broker, by its position in the layout.

    Args:
        copied_in: to a broker.
        copied_out: from a broker, which leads.
        deleted: from a broker, once the others are in sync.
        cross_rack: how much of what is copied goes from one rack to another; between brokers whose racks are known.
        unsourced: how much would be copied and is not, for nobody leads, or who is to get it does not live.
    """

    copied_in: NDArray[np.int64]
    copied_out: NDArray[np.int64]
    deleted: NDArray[np.int64]
    cross_rack: int
    unsourced: int

    @property
    def copied(self) -> int:
        """How much is copied in all."""
        return int(self.copied_in.sum())


class PlanWhatIf:
    """A plan over a layout.

    Args:
        layout: the cluster.
        plan: what is wanted.
        steps, rules, scala: of the Kafka version.

    Raises:
        LayoutError: the plan cannot be carried out on this layout.

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
        self.settled = elect_offline_leaders(layout, rules)
        self._steps = steps
        self._reassigned = reassignment_phases(
            self.diff.before,
            self.settled.states.at(self.diff.rows),
            plan.replicas,
            layout.brokers.live_mask,
            steps=steps,
            rules=rules,
            scala=scala,
        )

    @property
    def phases(self) -> Reassigned:
        """What stands in the znodes of the plan's partitions after each phase; `version` counts writes from here on."""
        return self._reassigned

    def layout_at(self, phase: str) -> Layout:
        """The whole cluster after a phase.

        Args:
            phase: one of `PHASES`.

        Returns:
            the layout. Whoever is in an ISR stands among the replicas: in 0.8.0 the topic's znode does not name the new
            ones until the end.
        """
        found = self._reassigned.at(phase)
        replicas, isr = found.assignment.replicas, found.states.isr
        if self._steps == Steps.BARE:
            stray = keep(isr, (isr != NONE) & ~contained(isr, replicas))
            together = np.concatenate([replicas, stray], axis=1)
            replicas = keep(together, together != NONE)
        return self.settled.with_states(self.diff.rows, found.states, found.assignment._replace(replicas=replicas))

    def moved(self, size_bytes: NDArray[np.int64] | None = None) -> Moved:
        """What is copied, and what is deleted in the end.

        Args:
            size_bytes: int64[n], of a replica of each partition of the layout; without it replicas are counted.
        """
        brokers, diff, waits = self.settled.brokers, self.diff, self._reassigned.waits
        weight = np.ones(len(diff.rows), np.int64) if size_bytes is None else size_bytes[diff.rows]
        # Who leads while the others join is who sends.
        leader = self._reassigned.at("joined").states.leader
        places = diff.adding.T
        arriving = [(np.flatnonzero(place != NONE), place) for place in places]
        copied_in = copied_out = np.zeros(len(brokers.ids), np.int64)
        cross_rack = unsourced = 0
        racks = _rack_numbers(brokers)
        for rows, place in arriving:
            to, source, much = brokers.positions_of(place[rows]), brokers.positions_of(leader[rows]), weight[rows]
            sent = (source != NONE) & brokers.live[source] & brokers.live[to]
            unsourced += int(much[~sent].sum())
            to, source, much = to[sent], source[sent], much[sent]
            copied_in = copied_in + _total(to, much, len(brokers.ids))
            copied_out = copied_out + _total(source, much, len(brokers.ids))
            apart = (racks[to] != racks[source]) & (racks[to] != NONE) & (racks[source] != NONE)
            cross_rack += int(much[apart].sum())
        deleted = np.zeros(len(brokers.ids), np.int64)
        for place in diff.removing.T:
            rows = np.flatnonzero((place != NONE) & ~waits)
            deleted += _total(brokers.positions_of(place[rows]), weight[rows], len(brokers.ids))
        return Moved(copied_in, copied_out, deleted, cross_rack, unsourced)


def _rack_numbers(brokers: Brokers) -> NDArray[np.int32]:
    """The rack of each broker as a number, -1 where it has none."""
    number = {name: index for index, name in enumerate(brokers.rack_names)}
    return np.array([NONE if rack is None else number[rack] for rack in brokers.racks], np.int32)


def _total(positions: IntArray, weight: NDArray[np.int64], brokers: int) -> NDArray[np.int64]:
    """Sums by broker, exact: numpy's weighted counts are floats."""
    total = np.zeros(brokers, np.int64)
    np.add.at(total, positions, weight)
    return total


class PhaseReport(NamedTuple):
    """The whole cluster after one phase.

    Args:
        name: of the phase.
        summary: as of any layout.
        exposure: how far partitions are from harm.
        held_bytes: int64[b], what each broker holds; None where sizes are not known.
        writes: of `state` znodes up to here.
        failure: what the failure that was asked about would leave now; None where none was.
    """

    name: str
    summary: LayoutSummary
    exposure: Exposure
    held_bytes: NDArray[np.int64] | None
    writes: int
    failure: Outcome | None


@dataclass(frozen=True, eq=False)
class PlanReport:
    """A plan in numbers.

    Args:
        what_if: the plan over its layout.
        phases: in their order.
        replicas: what moves, in replicas.
        data: the same in bytes; None where sizes are not known.
    """

    what_if: PlanWhatIf
    phases: tuple[PhaseReport, ...]
    replicas: Moved
    data: Moved | None

    def at(self, name: str) -> PhaseReport:
        """The phase of that name."""
        return self.phases[PHASES.index(name)]

    def peak_replicas(self) -> NDArray[np.int64]:
        """int64[b], the most replicas that each broker holds at once."""
        peak: NDArray[np.int64] = np.maximum.reduce([phase.summary.by_broker.replicas for phase in self.phases])
        return peak

    def peak_bytes(self) -> NDArray[np.int64] | None:
        """int64[b], the most bytes that each broker holds at once; None where sizes are not known."""
        held = [phase.held_bytes for phase in self.phases if phase.held_bytes is not None]
        return np.maximum.reduce(held) if held else None


def report(what_if: PlanWhatIf, size_bytes: NDArray[np.int64] | None = None, failed: Sequence[int] = ()) -> PlanReport:
    """A plan in numbers.

    Args:
        what_if: the plan over its layout.
        size_bytes: int64[n], of a replica of each partition of the layout.
        failed: brokers of which is asked what their failure, together, would leave after each phase.

    >>> from simzk.partitions.arrays import pack
    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> from simzk.partitions.table import Partitions
    >>> from simzk.partitions.plans.what_if import PlanWhatIf
    >>> from simzk.partitions.plans.plan import Plan
    >>> layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=1, replication_factor=1, seed=0)
    >>> plan = Plan(Partitions(["topic-0"], np.array([0]), np.array([0])), pack([[2]]))
    >>> told = report(PlanWhatIf(layout, plan), failed=layout.replicas[0].tolist())
    >>> [phase.failure.offline for phase in told.phases], told.peak_replicas().tolist()
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
    held = np.zeros(len(layout.brokers.ids), np.int64)
    for place in layout.brokers.positions_of(layout.replicas).T:
        rows = np.flatnonzero(place != NONE)
        np.add.at(held, place[rows], size_bytes[rows])
    return held
