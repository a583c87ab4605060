"""Failure sets over a million partitions: Spark with one task and with two, a bare process, a bare pool of two.

    python -m benchmarks.sweep [--json OUT] [--partitions N] [--brokers N] [--fail KIND:N] [--rounds N]
    python -m benchmarks.sweep --partitions 10000000 --brokers 300 --fail brokers:1 --rounds 1

The default is all 4,950 pairs of 100 brokers; the second line is about memory.

Beside the sweep stand what it is made of: drawing the layout, loading it from Parquet (columns read, every row
checked), making it ready (its index, the settled cluster), and writing the columns that the workers map. A bare
process, and each of a pool, maps those files and computes the same slices. On Spark the start of the session and the
first sweep, in which Java warms up, are shown apart from the later ones; a sweep there includes writing all its tables.
The memory is watched during the first sweep alone. All arms must give equal tables.

Of the workers the most memory of their own is printed, their Python with it, and the most of the table's files that one
has mapped: what is mapped is there once, however many map it, so what all of them have together is printed, too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import Figure, Limit, write_figures
from simzk.partitions.failures.sets import FailureSpec
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import brokers_in_racks, generate_layout, read_layout, write_layout
from simzk.pipeline.spark_session import spark_session
from simzk.pipeline.sweeps.outcomes import slice_batches, slice_schema
from simzk.pipeline.sweeps.sweep import MOST_SETS_PER_TASK, plan_sweep, run_sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MASTERS = ("local[1]", "local[2]")
POOL = 2
MOST_S = 60.0
LEAST_TIMES = 1.7
"""How many times as fast two tasks must be as one."""
TELLING_BYTES = 256e6
"""A table of so many bytes would be seen, were there a copy of it among the memory that a worker has of its own."""
MOST_COPIES = 1.01

Figures = dict[str, float]


def seconds(act: Callable[[], object]) -> float:
    """Return the seconds of a run."""
    begun_s = time.perf_counter()
    act()
    return time.perf_counter() - begun_s


def median_s(act: Callable[[], object], rounds: int) -> float:
    """The median of some rounds, in seconds."""
    return round(statistics.median(seconds(act) for _ in range(rounds)), 4)


_mapped: dict[Path, WhatIf] = {}


def compute(folder: Path, specs: tuple[FailureSpec, ...], bounds: tuple[int, int]) -> pa.Table:
    """A slice of the sets, in whichever process is asked."""
    if folder not in _mapped:
        _mapped[folder] = WhatIf.load(folder)
    return pa.Table.from_batches(slice_batches(_mapped[folder], specs, *bounds), schema=slice_schema())


def bare_figures(layout: Path, columns: Path, specs: tuple[FailureSpec, ...], rounds: int) -> tuple[Figures, pa.Table]:
    """The parts of a sweep, and the sweep in one process and in a pool, in seconds; and its table `failures`."""
    loaded = read_layout(layout)
    what_if = WhatIf(loaded)
    columns.mkdir()
    what_if.save(columns)
    sets = sum(spec.size(loaded.brokers) for spec in specs)
    slices = list(pairwise([*range(0, sets, MOST_SETS_PER_TASK), sets]))
    act = partial(compute, columns, specs)
    with ProcessPoolExecutor(POOL) as pool:
        list(pool.map(act, [(0, 1)] * POOL))  # each has begun
        figures = {
            "columns_read_s": median_s(lambda: pq.read_table(layout), rounds),
            "layout_loaded_s": median_s(lambda: read_layout(layout), rounds),
            "made_ready_s": median_s(lambda: WhatIf(loaded), rounds),
            "columns_written_s": median_s(lambda: what_if.save(columns), rounds),
            "columns_bytes": sum(file.stat().st_size for file in columns.iterdir()),
            "one_process_s": median_s(lambda: [act(bounds) for bounds in slices], rounds),
            f"pool_of_{POOL}_s": median_s(lambda: list(pool.map(act, slices)), rounds),
        }
    found = pa.concat_tables(map(act, slices))["failure"].combine_chunks()
    rows = pa.Table.from_batches([pa.RecordBatch.from_struct_array(found.drop_null())])
    return figures, rows.sort_by("failure_set")


def spark_figures(
    master: str, layout: Path, specs: tuple[FailureSpec, ...], scratch: Path, expected: pa.Table, rounds: int
) -> Figures:
    """A session's start, its first sweep and the median of the later ones, in seconds; and the workers' memory."""
    begun_s = time.perf_counter()
    with spark_session(master, is_python_busy=True) as spark:
        started_s = time.perf_counter() - begun_s
        sweeps_s = []

        def sweep(number: int) -> None:
            out = scratch / f"{master}-{number}"
            plan = plan_sweep(layout, specs, out)
            sweeps_s.append(seconds(partial(run_sweep, spark, plan)))
            found = pq.read_table(out / "failures").sort_by("failure_set")
            assert found.equals(expected.cast(found.schema)), f"{master} differs"

        with watched_memory() as most:  # who watches takes of the time that is measured: of the first sweep, alone
            sweep(0)
        for number in range(rounds):
            sweep(number + 1)
    return {
        "session_started_s": round(started_s, 3),
        "first_sweep_s": round(sweeps_s[0], 3),
        "sweep_s": round(statistics.median(sweeps_s[1:]), 3),
        **most,
    }


@contextmanager
def watched_memory() -> Iterator[dict[str, float]]:
    """Meanwhile, of PySpark's worker processes: the most that one has of its own, maps from files, maps of a table.

    And the most of a table that all of them have together, pages that several map counted once.
    """
    names = ("worker_own_bytes", "worker_mapped_bytes", "worker_table_bytes", "workers_table_bytes")
    most = dict.fromkeys(names, 0.0)
    over = Event()

    def watch() -> None:
        while not over.wait(0.1):
            together: dict[str, float] = {}
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    if b"pyspark.daemon" not in (status.parent / "cmdline").read_bytes():
                        continue
                    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
                    tables = mapped_of_tables(status.parent / "smaps")
                except OSError:
                    continue  # it is over
                own, mapped = (1024.0 * int(lines.get(line, "0 kB").split()[0]) for line in ("RssAnon", "RssFile"))
                of_table = max((resident for resident, _ in tables.values()), default=0.0)
                for name, value in zip(names, (own, mapped, of_table), strict=False):
                    most[name] = max(most[name], value)
                for table, (_, share) in tables.items():
                    together[table] = together.get(table, 0.0) + share
            most[names[-1]] = max(most[names[-1]], *together.values(), 0.0)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def mapped_of_tables(smaps: Path) -> dict[str, tuple[float, float]]:
    """How much of each sweep's columns a process has mapped, and its share of that: of a page that two map, a half.

    Between two sweeps a worker still has the last one's.
    """
    found: dict[str, tuple[float, float]] = {}
    table: str | None = None
    for line in smaps.read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):  # where a mapping begins: addresses, and at the end the file
            file = Path(rest[-1]).name if rest else ""
            table = file.rpartition("-")[0] if file.startswith("simzk-") and file.endswith(".npy") else None
        elif table is not None and name in ("Rss:", "Pss:"):
            resident, share = found.get(table, (0.0, 0.0))
            size = 1024.0 * int(rest[0])
            found[table] = (resident + size, share) if name == "Rss:" else (resident, share + size)
    return found


def measure(
    partitions: int, brokers: int, specs: tuple[FailureSpec, ...], rounds: int
) -> tuple[Figures, Figures, dict[str, Figures]]:
    """All arms on one layout: of all, of bare processes, of Spark on each master."""
    with TemporaryDirectory(prefix="simzk-bench-") as folder:
        layout = Path(folder) / "layout.parquet"

        def draw() -> None:
            drawn = generate_layout(
                brokers_in_racks(brokers, 3), topics=1000, partitions=partitions, replication_factor=3, seed=1
            )
            write_layout(drawn, layout)

        drawn_s = round(seconds(draw), 3)
        bare, expected = bare_figures(layout, Path(folder) / "columns", specs, rounds)
        sweeps = {
            master: spark_figures(master, layout, specs, Path(folder), expected, max(rounds // 2, 1))
            for master in MASTERS
        }
        one, two = (sweeps[master]["sweep_s"] for master in MASTERS)
        figures: Figures = {
            "partitions": partitions,
            "failure_sets": len(expected),
            "drawn_and_written_s": drawn_s,
            "layout_file_bytes": layout.stat().st_size,
            "two_tasks_beside_one": round(one / two, 2),
            "spark_beside_the_pool": round(two / bare[f"pool_of_{POOL}_s"], 2),
        }
        return figures, bare, sweeps


def judged(figures: Figures, bare: Figures, spark: dict[str, Figures]) -> list[Figure]:
    """The figures that something is demanded of, beside what a bare pool does."""
    two, pool_s, table = spark[MASTERS[-1]], bare[f"pool_of_{POOL}_s"], bare["columns_bytes"]
    copies = two["workers_table_bytes"] / table
    telling = table if table >= TELLING_BYTES else None
    return [
        Figure("sweep_on_two_tasks", two["sweep_s"], "s", MOST_S, limit=Limit(pool_s, f"a bare pool of {POOL}")),
        Figure("two_tasks_beside_one", figures["two_tasks_beside_one"], "times as fast", at_least=LEAST_TIMES),
        Figure("overhead_beside_the_pool", round(two["sweep_s"] - pool_s, 3), "s"),
        Figure("sweep_on_one_task", spark[MASTERS[0]]["sweep_s"], "s"),
        Figure("sweep_in_one_bare_process", bare["one_process_s"], "s"),
        Figure("session_started", two["session_started_s"], "s"),
        Figure("first_sweep_of_a_session", two["first_sweep_s"], "s"),
        Figure("table", table, "bytes"),
        Figure("worker_own", two["worker_own_bytes"], "bytes", telling),
        Figure("copies_mapped_by_all_workers", round(copies, 3), "copies", MOST_COPIES),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--fail", default="brokers:2")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    specs = (FailureSpec.parse(options.fail),)
    figures, bare, spark = measure(options.partitions, options.brokers, specs, options.rounds)
    write_figures("sweep", judged(figures, bare, spark), {**figures, "bare": bare, "spark": spark}, options.json)


if __name__ == "__main__":
    main()
