"""The sweep of every single-broker failure over a million partitions: Spark on one core and on two, and no Spark.

    python -m benchmarks.sweep [--json OUT] [--partitions N] [--brokers N] [--rounds N]

Beside the sweep stand what it is made of: drawing the layout, loading it from Parquet (columns read, every row
checked), making it ready (its index, the settled cluster), and the failures themselves in a bare process. On Spark the
start of the session and the first sweep, in which Java warms up and each worker loads the layout, are shown apart from
the later sweeps; a sweep there includes writing its files and finding the ten worst. All arms must give equal tables.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import machine
from simzk.partitions.failure_sets import FailureSpec
from simzk.partitions.layouts import brokers_in_racks, generate_layout, read_layout, write_layout
from simzk.partitions.what_if import WhatIf
from simzk.pipeline.outcomes import failure_batches, failures_table
from simzk.pipeline.session import spark_session
from simzk.pipeline.sweep import plan_sweep, run_sweep

if TYPE_CHECKING:
    from collections.abc import Callable

SPECS = (FailureSpec("brokers", 1),)
MASTERS = ("local[1]", "local[2]")

Figures = dict[str, float]


def seconds(act: Callable[[], object]) -> float:
    """How long it took, in seconds."""
    begun_s = time.perf_counter()
    act()
    return time.perf_counter() - begun_s


def median_s(act: Callable[[], object], rounds: int) -> float:
    """The median of some rounds, in seconds."""
    return round(statistics.median(seconds(act) for _ in range(rounds)), 4)


def bare_figures(layout: Path, brokers: int, rounds: int) -> Figures:
    """The parts of a sweep in this process, in seconds."""
    loaded = read_layout(layout)
    what_if = WhatIf(loaded)
    return {
        "columns_read_s": median_s(lambda: pq.read_table(layout), rounds),
        "layout_loaded_s": median_s(lambda: read_layout(layout), rounds),
        "made_ready_s": median_s(lambda: WhatIf(loaded), rounds),
        "failures_s": median_s(lambda: list(failure_batches(what_if, SPECS, 0, brokers)), rounds),
    }


def spark_figures(master: str, layout: Path, scratch: Path, expected: pa.Table, rounds: int) -> Figures:
    """A session's start, its first sweep and the median of the later ones, in seconds."""
    begun_s = time.perf_counter()
    with spark_session(master) as spark:
        started_s = time.perf_counter() - begun_s
        sweeps_s = []
        for number in range(rounds + 1):
            out = scratch / f"{master}-{number}"
            plan = plan_sweep(layout, SPECS, out)
            sweeps_s.append(seconds(partial(run_sweep, spark, plan)))
            assert pq.read_table(out / "failures").sort_by("failure_set").equals(expected), f"{master} differs"
    return {
        "session_started_s": round(started_s, 3),
        "first_sweep_s": round(sweeps_s[0], 3),
        "sweep_s": round(statistics.median(sweeps_s[1:]), 3),
    }


def measure(partitions: int, brokers: int, rounds: int) -> dict[str, object]:
    """All arms on one layout."""
    with TemporaryDirectory(prefix="simzk-bench-") as folder:
        layout = Path(folder) / "layout.parquet"

        def draw() -> None:
            drawn = generate_layout(
                brokers_in_racks(brokers, 3), topics=1000, partitions=partitions, replication_factor=3, seed=1
            )
            write_layout(drawn, layout)

        drawn_s = round(seconds(draw), 3)
        expected = failures_table(read_layout(layout), SPECS)
        return {
            "machine": machine(),
            "partitions": partitions,
            "failure_sets": brokers,
            "drawn_and_written_s": drawn_s,
            "layout_file_bytes": layout.stat().st_size,
            "bare": bare_figures(layout, brokers, rounds),
            "spark": {
                master: spark_figures(master, layout, Path(folder), expected, max(rounds // 2, 1)) for master in MASTERS
            },
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--brokers", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    text = json.dumps(measure(options.partitions, options.brokers, options.rounds), indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
