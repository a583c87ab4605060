"""What the tasks of a sweep told, gathered by the driver: rows on disk, worst first, and figures that are added up.

Rules of this module:
  - memory is bounded however many failure sets there are: what is told at one time is sorted, written to a file and
    mapped, and the sorted files are merged;
  - of figures only their sums are kept, which are as many as there are things.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.pipeline.outcomes import ROWS_PER_BATCH, failures_schema, parts_of_slices
from simzk.pipeline.tallies import added_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from simzk.pipeline.tallies import Shares

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
