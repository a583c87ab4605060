"""Start-up times: imports, the plugin's fixtures, servers on TCP, cold commands.

    python -m benchmarks.start [--json OUT] [--rounds N]

An import is timed in a new interpreter that has loaded pytest already; a fixture as pytest runs it, warm: a server and
a started client, then both gone; the first server on TCP in a new interpreter, with all that it must load, and those
that follow it in the same one; `simzk serve` and `simzk kafka` as processes, from their start to the line that says
they are ready; `simzk run` as a process, from its start to its end. simzk is byte-compiled first, as an installation
has it: a tree of sources where no byte code may be written is compiled anew by each process, which takes as long
again. After a figure stands what is demanded of it, and whether it holds.
"""

from __future__ import annotations

import argparse
import compileall
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import simzk
from benchmarks.machine import machine
from benchmarks.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES = ("simzk", "simzk.testing.plugin", "simzk.serve.memory")
SMALLEST_SCENARIO = Path(__file__).parents[1] / "scenarios" / "broker_failure.toml"
COLD_RUN = f"cold simzk run {SMALLEST_SCENARIO.name}"
COLD_SERVERS = {
    "cold simzk serve, ready": ("serve", "--port", "0"),
    "cold simzk serve --servers 3, ready": ("serve", "--port", "0", "--servers", "3"),
    "cold simzk kafka --brokers 3, ready": ("kafka", "--json", "--brokers", "3"),
}
"""Commands that serve, by the name of the time until they listen."""
DEMANDED_MS = {
    "fixture zookeeper, start and stop": 5,
    "fixture kazoo_client, start and stop": 5,
    "first ZooKeeperServer()": 50,
    "next ZooKeeperServer()": 5,
    "ZooKeeperServer.close()": 5,
    "cold simzk serve, ready": 150,
    COLD_RUN: 1000,
}


def median_ms(work: Callable[[], object], rounds: int) -> float:
    """Return the median time of one call of `work`, after one that is not counted."""
    work()
    times_ms = []
    for _ in range(rounds):
        begun_s = time.perf_counter()
        work()
        times_ms.append((time.perf_counter() - begun_s) * 1000)
    return statistics.median(times_ms)


def imported_ms(module: str) -> float:
    """Measure the import of `module` in a new interpreter that has loaded pytest."""
    script = "import time, pytest; begun_s = time.perf_counter(); import {}; print(time.perf_counter() - begun_s)"
    done = subprocess.run([sys.executable, "-c", script.format(module)], check=True, capture_output=True, text=True)
    return float(done.stdout) * 1000


def zookeeper_fixture() -> None:
    with simzk.ZooKeeper():
        pass


def kazoo_client_fixture() -> None:
    with simzk.ZooKeeper() as zookeeper:
        zookeeper.client().start()


def first_server_ms(servers: int) -> float:
    """Measure the first TCP server, or the first ensemble, in a new interpreter."""
    script = "import time; begun_s = time.perf_counter(); import simzk; server = simzk.ZooKeeperServer(servers={}); "
    script += "print(time.perf_counter() - begun_s); server.close()"
    command = [sys.executable, "-c", script.format(servers)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) * 1000


def next_server_ms(rounds: int) -> tuple[float, float]:
    """Measure start and stop of one more TCP server."""
    starts_ms, stops_ms = [], []
    for _ in range(rounds):
        begun_s = time.perf_counter()
        server = simzk.ZooKeeperServer()
        ready_s = time.perf_counter()
        server.close()
        starts_ms.append((ready_s - begun_s) * 1000)
        stops_ms.append((time.perf_counter() - ready_s) * 1000)
    return statistics.median(starts_ms), statistics.median(stops_ms)


def ready_ms(*words: str) -> float:
    """Measure a cold command of simzk until its first line, which says that it listens."""
    command = [sys.executable, "-c", "from simzk.cli import main; main()", *words]
    begun_s = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        passed_ms = (time.perf_counter() - begun_s) * 1000
        process.terminate()
    return passed_ms


def cold_run() -> None:
    command = [sys.executable, "-c", "from simzk.cli import main; main()", "run", str(SMALLEST_SCENARIO)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(rounds: int) -> dict[str, float]:
    """Return the milliseconds of each start."""
    simzk.ZooKeeperServer().close()
    next_start_ms, next_stop_ms = next_server_ms(rounds * 10)
    return {
        **{f"import {name}": statistics.median(imported_ms(name) for _ in range(rounds)) for name in MODULES},
        "fixture zookeeper, start and stop": median_ms(zookeeper_fixture, rounds * 10),
        "fixture kazoo_client, start and stop": median_ms(kazoo_client_fixture, rounds * 10),
        "first ZooKeeperServer()": statistics.median(first_server_ms(1) for _ in range(rounds)),
        "first ZooKeeperServer(servers=3)": statistics.median(first_server_ms(3) for _ in range(rounds)),
        "next ZooKeeperServer()": next_start_ms,
        "ZooKeeperServer.close()": next_stop_ms,
        **{name: statistics.median(ready_ms(*words) for _ in range(rounds)) for name, words in COLD_SERVERS.items()},
        COLD_RUN: median_ms(cold_run, min(rounds, 5)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    print(machine())
    compileall.compile_dir(Path(simzk.__file__).parent, quiet=1)
    figures = measure(options.rounds)
    for name, value_ms in figures.items():
        demanded_ms = DEMANDED_MS.get(name)
        text = "" if demanded_ms is None else f" {verdict(f'at most {demanded_ms}', value_ms <= demanded_ms)}"
        print(f"{name:45}{value_ms:10.2f} ms{text}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "unit": "ms", "start": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
