"""What an operator wants to know of a plan before it is carried out, in numbers: by phase, by broker and by rack.

Each phase is summed up as any layout is (`layouts.summarize`, `layouts.exposure`), and as if the whole plan had come
just so far: what brokers hold then is the most that they hold at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.partitions.arrays import NONE
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import exposure, summarize
from simzk.partitions.plans.phases import PHASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from simzk.partitions.failures.what_if import Outcome
    from simzk.partitions.layouts import Exposure, Layout, LayoutSummary
    from simzk.partitions.plans.what_if import Moved, PlanWhatIf


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
    >>> from simzk.partitions.names import Partitions
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
