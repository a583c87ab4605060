"""Timelines of longer and longer logs: what each transaction takes must not grow with their number.

    python -m benchmarks.timelines [--json OUT] [--transactions N ...]

The logs are of a Kafka cluster's life (kafka_log.py): 6 brokers, 500 partitions, each broker killed and started again
and again. Between its transactions come guests, one after every tenth: a session, an ephemeral of it, always of the
same name, and its end, which does not say what it took, as before 3.6. So there are many sessions, and one path that
many of them had. Shown is the processor time of all processes, with all tables written; the session is up before, and
has made timelines of a short log once.

Beside it stands the wall time without Spark (`run_timelines_here`) of each log that `fits_here`, which has to be less
than that of Spark with its start.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, write_figures
from benchmarks.kafka_log import PARTITIONS, TOPICS, Life, play, transactions
from benchmarks.logs import MASTER, timed
from simzk.pipeline.spark_session import spark_session
from simzk.pipeline.timelines.run import fits_here, plan_timelines, run_timelines, run_timelines_here
from simzk.zookeeper.persistence import LOG_HEADER, encode_log_entry
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.transactions import CloseSessionTxn, CreateSessionTxn, CreateTxn, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.zookeeper.transactions import Record

EVERY = 10
WARM_UP = 5_000
MOST_GROWTH = 1.2
_FIRST_GUEST = 1 << 60


def with_guests(life: Life) -> Iterator[Transaction]:
    """The life with guests between, its zxids counted anew."""
    zxid = 0
    for number, transaction in enumerate(transactions(life)):
        zxid += 1
        yield transaction._replace(zxid=zxid)
        if number % EVERY == 0:
            owned = CreateTxn("/lock", b"", OPEN_ACL, True, number)
            steps: tuple[Record, ...] = (CreateSessionTxn(6000), owned, CloseSessionTxn(("/lock",)))
            for cxid, record in enumerate(steps):
                zxid += 1
                yield Transaction(_FIRST_GUEST + number, cxid, zxid, transaction.time_ms, record)


def write(life: Life, path: Path, count: int) -> None:
    """A log of so many transactions."""
    with path.open("wb") as file:
        file.write(LOG_HEADER)
        for transaction in islice(with_guests(life), count):
            file.write(encode_log_entry(transaction, None, names_ephemerals=False))


def measure(counts: list[int], file: Path | None) -> None:
    """All lengths, the shortest first."""
    life = play()
    figures: list[Figure] = []
    per_transaction: dict[int, float] = {}
    details: dict[str, object] = {}
    begin = time.perf_counter()
    with TemporaryDirectory(prefix="simzk-bench-") as folder, spark_session(MASTER) as spark:
        start_s = time.perf_counter() - begin
        figures.append(Figure("start of Spark", round(start_s, 1), "s"))
        for place, count in enumerate([WARM_UP, *sorted(counts)]):
            log, out = Path(folder) / "log.1", Path(folder) / str(place)
            write(life, log, count)
            plan = plan_timelines([str(log)], out)
            taken = timed(partial(run_timelines, spark, plan))
            rows = json.loads((out / "timelines.json").read_text())["rows"]
            assert rows["totals"] == TOPICS * PARTITIONS
            assert rows["sessions"] > count // (EVERY + 5)
            if place:
                per_transaction[count] = taken["processor_s"] / count * 1e6
                name = f"{count:,} transactions, {rows['sessions']:,} sessions"
                figures.append(Figure(f"{name}: processor time", round(taken["processor_s"], 1), "s"))
                figures.append(Figure(f"{name}: wall time", round(taken["wall_s"], 1), "s"))
                details[str(count)] = {**taken, "rows": rows}
                if fits_here(plan):
                    begin = time.perf_counter()
                    found = run_timelines_here(plan_timelines([str(log)], Path(folder) / f"here-{place}"))
                    here_s = time.perf_counter() - begin
                    assert found.rows == rows
                    whole_s = round(start_s + taken["wall_s"], 1)
                    figures.append(Figure(f"{name}: wall time without Spark", round(here_s, 2), "s", whole_s))
                print(*(figure.line() for figure in figures[-3:]), sep="\n", flush=True)
    if len(counts) > 1:
        growth = round(per_transaction[max(counts)] / per_transaction[min(counts)], 3)
        name = f"a transaction's processor time among {max(counts):,}"
        figures.append(Figure(name, growth, f"of that among {min(counts):,}", MOST_GROWTH))
    write_figures("timelines", figures, details, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--transactions", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options = parser.parse_args()
    measure(options.transactions, options.json)


if __name__ == "__main__":
    main()
