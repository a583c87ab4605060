"""Transaction logs: the source `zookeeper_log` on Spark beside ZooKeeper's own TxnLogToolkit, on the same files.

    python -m benchmarks.logs [--json OUT] [--megabytes N ...] [--rounds N]

The logs are of a Kafka cluster's life (kafka_log.py). TxnLogToolkit prints every transaction of a log, and so the
source gives every one of its columns: into nothing (/dev/null; Spark's format `noop`), and into files (text; Parquet).
Both run in turn, so that a machine that is busy for a while slows both; of each the median of its rounds counts. The
toolkit's time has the start of its Java in it. Spark's session is started once, which is told apart, and has read the
log once, to count it, before. Wall time decides; beside it stands the processor time of all processes of each.

Of the workers that read, the most memory of their own is told, while the smallest and while the largest log is read: it
must not grow with the log.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import simzk.pipeline
from benchmarks.kafka_log import play, write_log
from benchmarks.machine import machine
from benchmarks.sweep import watched_memory
from benchmarks.verdict import verdict
from simzk.pipeline.session import spark_session
from tests.conformance.real_zookeeper import jars

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

MASTER = "local[2]"
TOOLKIT = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
INTO = ("nothing", "files")
DEMANDED = 1.0
"""Times the toolkit's transactions a second."""
MOST_GROWTH = 1.25
"""The most memory of a worker while it reads the largest log, beside that of the smallest."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Figures = dict[str, float]


def processor_s() -> float:
    """What this process took by now, and all below it that are there or were waited for, in seconds."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, behind = file.read_text().rpartition(")")
        except OSError:
            continue  # it is over
        pid, fields = int(before.partition(" ")[0]), behind.split()
        children.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
    total, below = 0, [os.getpid()]
    while below:
        pid = below.pop()
        total += ticks.get(pid, 0)
        below += children.get(pid, [])
    return total / _TICKS_PER_S


def timed(act: Callable[[], object]) -> Figures:
    """What it took of the wall's time and of the processor's, in seconds."""
    begun_s, begun_processor_s = time.perf_counter(), processor_s()
    act()
    return {"wall_s": time.perf_counter() - begun_s, "processor_s": processor_s() - begun_processor_s}


def print_log(log: Path, into: str, scratch: Path) -> None:
    """By the toolkit."""
    command = ["java", "-cp", f"{jars()}/*", TOOLKIT, str(log)]
    target = Path(os.devnull) if into == "nothing" else scratch / "printed.txt"
    with target.open("wb") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)


def read_log(spark: SparkSession, log: Path, into: str, scratch: Path) -> None:
    """By the source, every column."""
    writer = spark.read.format("zookeeper_log").load(str(log)).write.mode("overwrite")
    if into == "nothing":
        writer.format("noop").save()
    else:
        writer.parquet(f"file:{scratch / 'rows'}")


def compare(spark: SparkSession, log: Path, count: int, scratch: Path, rounds: int) -> dict[str, object]:
    """Both on one log."""
    transactions = spark.read.format("zookeeper_log").load(str(log)).select("zxid", "damage").distinct()
    assert transactions.where("damage is null").count() == count == transactions.count(), "not every transaction once"
    found: dict[str, object] = {"transactions": count, "bytes": log.stat().st_size}
    for into in INTO:
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
        beside = round(arms["toolkit"]["wall_s"] / arms["spark"]["wall_s"], 2)
        of_processor = round(arms["toolkit"]["processor_s"] / arms["spark"]["processor_s"], 2)
        found[f"into_{into}"] = {
            **arms,
            "times_the_toolkit": beside,
            "times_the_toolkit_by_processor_time": of_processor,
            "worker_own_bytes": round(most["worker_own_bytes"]),
        }
        print(
            f"{log.stat().st_size >> 20:,} MB, {count:,} transactions into {into}: toolkit "
            f"{arms['toolkit']['transactions_per_s']:,}/s, Spark {arms['spark']['transactions_per_s']:,}/s, "
            f"{beside} times {verdict(f'{DEMANDED}', beside >= DEMANDED)}; by processor time {of_processor} times; "
            f"a worker's own memory at most {most['worker_own_bytes'] / (1 << 20):.0f} MB",
            flush=True,
        )
    return found


def measure(megabytes: list[int], rounds: int) -> dict[str, object]:
    """All lengths, the shortest first; the longest, if there are several, in one round."""
    figures: dict[str, object] = {"machine": machine()}
    print(figures["machine"])
    logs: list[dict[str, object]] = []
    life = play()
    with TemporaryDirectory(prefix="simzk-bench-") as folder:
        scratch = Path(folder)
        begun_s = time.perf_counter()
        with spark_session(MASTER) as spark:
            figures["session_started_s"] = round(time.perf_counter() - begun_s, 3)
            simzk.pipeline.register(spark)
            for place, size in enumerate(sorted(megabytes)):
                log = scratch / "log.1"
                count = write_log(life, log, size=size << 20)
                few = 1 if place and place == len(megabytes) - 1 else rounds
                logs.append({"megabytes": size, **compare(spark, log, count, scratch, few)})
                log.unlink()
                shutil.rmtree(scratch / "rows")
    figures["logs"] = logs
    if len(logs) > 1:
        least, most = (max(part["worker_own_bytes"] for part in parts_of(log)) for log in (logs[0], logs[-1]))
        figures["memory_growth"] = growth = round(most / least, 3)
        holds = verdict(f"at most {MOST_GROWTH}", growth <= MOST_GROWTH)
        print(f"a worker's own memory, {max(megabytes):,} MB beside {min(megabytes):,} MB: {growth} times {holds}")
    return figures


def parts_of(log: dict[str, object]) -> list[dict[str, float]]:
    """The figures of one log, by what was done with it."""
    return [part for part in log.values() if isinstance(part, dict)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[200, 2048])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    figures = measure(options.megabytes, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
