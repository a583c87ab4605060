"""Transaction logs: the source `zookeeper_log` on Spark beside ZooKeeper's own TxnLogToolkit, on the same files.

    python -m benchmarks.logs [--json OUT] [--megabytes N ...] [--rounds N] [--into nothing|files ...]

The logs are of a Kafka cluster's life (kafka_log.py). TxnLogToolkit prints every transaction of a log, and so the
source gives every one of its columns: into nothing (/dev/null; Spark's format `noop`), and into files (text; Parquet).
Both run in turn, so that a machine that is busy for a while slows both; of each the median of its rounds counts. The
toolkit's time has the start of its Java in it. Spark's session is started once, which is measured apart, and has read
the log once, to count it, before. The wall's time decides, on a machine that does nothing else; beside it stands the
processor time of all processes of each, for the toolkit has one thread, and Spark two tasks.

It prints the most memory that a worker has of its own while the smallest and while the largest log is read: it must not
grow with the log.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Self

import simzk.pipeline
from benchmarks.figures import Figure, write_figures
from benchmarks.kafka_log import play, write_log
from benchmarks.sweep import watched_memory
from simzk.pipeline.spark_session import spark_session
from tests.conformance.real_zookeeper import jars

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

MASTER = "local[2]"
TOOLKIT = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
INTO = ("nothing", "files")
MOST_GROWTH = 1.25
"""The most memory of a worker while it reads the largest log, beside that of the smallest."""
MB = 1 << 20
_LOOK_EVERY_S = 0.5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Figures = dict[str, float]


class ProcessorTime:
    """Processor seconds of the child processes while it is open, including those that exit meanwhile."""

    def __init__(self) -> None:
        self._over = Event()
        self._ticks: dict[int, int] = {}
        self._watcher = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._before = ticks_below()
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()
        self._ticks |= ticks_below()
        self.seconds = sum(last - self._before.get(pid, 0) for pid, last in self._ticks.items()) / _TICKS_PER_S

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            self._ticks |= ticks_below()


def ticks_below() -> dict[int, int]:
    """Return the processor time of all child processes, by process."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, behind = file.read_text().rpartition(")")
        except OSError:
            continue  # it is over
        pid, fields = int(before.partition(" ")[0]), behind.split()
        children.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = int(fields[11]) + int(fields[12])
    found, below = {}, list(children.get(os.getpid(), []))
    while below:
        pid = below.pop()
        found[pid] = ticks.get(pid, 0)
        below += children.get(pid, [])
    return found


def timed(act: Callable[[], object]) -> Figures:
    """Return the wall and processor seconds of one run."""
    begun_s = time.perf_counter()
    with ProcessorTime() as processor:
        act()
    return {"wall_s": time.perf_counter() - begun_s, "processor_s": processor.seconds}


def print_log(log: Path, into: str, scratch: Path) -> None:
    """Print a log with the toolkit."""
    command = ["java", "-cp", f"{jars()}/*", TOOLKIT, str(log)]
    target = Path(os.devnull) if into == "nothing" else scratch / "printed.txt"
    with target.open("wb") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)


def read_log(spark: SparkSession, log: Path, into: str, scratch: Path) -> None:
    """Read every column of a log with the source."""
    writer = spark.read.format("zookeeper_log").load(str(log)).write.mode("overwrite")
    if into == "nothing":
        writer.format("noop").save()
    else:
        writer.parquet(f"file:{scratch / 'rows'}")


def compare(spark: SparkSession, log: Path, count: int, scratch: Path, into: str, rounds: int) -> dict[str, Figures]:
    """Compare both on one log: medians, transactions per second, and the memory of the workers."""
    taken: dict[str, list[Figures]] = {"toolkit": [], "spark": []}
    with watched_memory() as most:
        for _ in range(rounds):
            taken["toolkit"].append(timed(partial(print_log, log, into, scratch)))
            taken["spark"].append(timed(partial(read_log, spark, log, into, scratch)))
    arms = {
        arm: {unit: round(statistics.median(one[unit] for one in ones), 3) for unit in ones[0]}
        for arm, ones in taken.items()
    }
    for arm in arms.values():
        arm["transactions_per_s"] = round(count / arm["wall_s"])
    return {**arms, "workers": most}


def figures_of(name: str, found: dict[str, Figures]) -> list[Figure]:
    """Return the figures of one comparison with their limits."""
    toolkit, spark = found["toolkit"], found["spark"]
    return [
        Figure(f"{name}: toolkit", toolkit["transactions_per_s"], "transactions/s"),
        Figure(f"{name}: Spark on 2 cores", spark["transactions_per_s"], "transactions/s"),
        Figure(f"{name}: Spark's time", round(spark["wall_s"] / toolkit["wall_s"], 2), "of the toolkit's", 1.0),
        Figure(
            f"{name}: Spark's processor time",
            round(spark["processor_s"] / toolkit["processor_s"], 2),
            "of the toolkit's",
        ),
        Figure(f"{name}: a worker's own memory", round(found["workers"]["worker_own_bytes"] / MB), "MB"),
    ]


def measure(megabytes: list[int], intos: list[str], rounds: int, file: Path | None) -> None:
    """Measure all lengths, the shortest first; of several, the longest in one round."""
    figures: list[Figure] = []
    details: dict[str, object] = {}
    memory: list[float] = []
    life = play()
    with TemporaryDirectory(prefix="simzk-bench-") as folder:
        scratch, begun_s = Path(folder), time.perf_counter()
        with spark_session(MASTER) as spark:
            figures.append(Figure("Spark's session: started", round(time.perf_counter() - begun_s, 1), "s"))
            simzk.pipeline.register(spark)
            for place, size in enumerate(sorted(megabytes)):
                log = scratch / "log.1"
                count = write_log(life, log, size=size * MB)
                table = spark.read.schema("zxid bigint, damage string").format("zookeeper_log").load(str(log))
                assert table.where("damage is not null").isEmpty(), "something is damaged"
                assert table.distinct().count() == count, "not every transaction once"
                few = 1 if place and place == len(megabytes) - 1 else rounds
                found = {into: compare(spark, log, count, scratch, into, few) for into in intos}
                for into, one in found.items():
                    figures += figures_of(f"{size:,} MB, {count:,} transactions into {into}", one)
                    print(*(figure.line() for figure in figures[-5:]), sep="\n", flush=True)
                memory.append(max(one["workers"]["worker_own_bytes"] for one in found.values()))
                details[f"{size} MB"] = {"transactions": count, "rounds": few, **found}
                log.unlink()
                shutil.rmtree(scratch / "rows", ignore_errors=True)
    if len(memory) > 1:
        growth = round(memory[-1] / memory[0], 3)
        name = f"a worker's own memory at {max(megabytes):,} MB"
        figures.append(Figure(name, growth, f"of that at {min(megabytes):,} MB", MOST_GROWTH))
    write_figures("logs", figures, details, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[200, 2048])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", nargs="+", choices=INTO, default=list(INTO))
    options = parser.parse_args()
    measure(options.megabytes, options.into, options.rounds, options.json)


if __name__ == "__main__":
    main()
