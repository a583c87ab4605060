"""`simzk serve` against a real ZooKeeper: creates and gets per second, and the 99th percentile, by one fast client.

    python -m benchmarks.tcp [--json OUT] [--rounds N] [--requests N]

Both servers run at the same time and are measured turn by turn, so that a machine that is busy for a while slows both;
of each the median of its rounds counts. 128 requests are in flight, over one connection and over eight; values have 100
bytes; the client is a process of its own (pipelining_client.py). The real server (3.9, from PySpark's jars) does not
force its log to the disk, and has had one round to warm up that does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import machine
from tests.conformance.real_zookeeper import RealZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

IN_FLIGHT = 128
CONNECTIONS = (1, 8)

Figures = dict[str, dict[str, float]]


@contextmanager
def served() -> Iterator[int]:
    """`simzk serve` in a process of its own; the port that it listens on."""
    with subprocess.Popen(
        [sys.executable, "-m", "simzk", "serve", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline().rpartition(":")[2])
        process.terminate()


def measured(port: int, connections: int, requests: int) -> Figures:
    """One round of the client against one server."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.pipelining_client",
        *map(str, (port, connections, IN_FLIGHT, requests)),
    ]
    figures: Figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def median(rounds: list[Figures], kind: str, figure: str) -> float:
    """The median of one figure over all rounds."""
    return statistics.median(one[kind][figure] for one in rounds)


def main() -> None:
    """Measure both, and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=40_000)
    options = parser.parse_args()
    result: dict[str, object] = {"machine": machine()}
    print(result["machine"])
    with served() as simzk_port, RealZooKeeper() as real:
        ports = {"simzk": simzk_port, "real": real.port}
        measured(real.port, 1, options.requests)
        for connections in CONNECTIONS:
            rounds: dict[str, list[Figures]] = {name: [] for name in ports}
            for _ in range(options.rounds):
                for name, port in ports.items():
                    rounds[name].append(measured(port, connections, options.requests))
            for kind in ("create", "get"):
                row = {
                    f"{name}_{figure}": median(rounds[name], kind, figure)
                    for name in ports
                    for figure in ("per_second", "p50_ms", "p99_ms")
                }
                row["ratio"] = row["simzk_per_second"] / row["real_per_second"]
                result[f"{kind} over {connections}"] = row
                print(
                    f"{kind:6} over {connections} connection(s): simzk {row['simzk_per_second']:8,.0f}/s"
                    f" (p99 {row['simzk_p99_ms']:5.1f} ms), real {row['real_per_second']:8,.0f}/s"
                    f" (p99 {row['real_p99_ms']:5.1f} ms), ratio {row['ratio']:.2f}"
                )
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
