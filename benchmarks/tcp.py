"""`simzk serve` against a real ZooKeeper, on TCP: requests per second and their 99th percentile, and what bounds ours.

    python -m benchmarks.tcp [--json OUT] [--rounds N] [--requests N]

Both servers run at the same time and are measured turn by turn, so that a machine that is busy for a while slows both;
of each the median of its rounds counts. 128 requests are in flight, over one connection and over eight; values have 100
bytes; the client is a process of its own in C (pipelining_client.c, which needs a C compiler). Then kazoo makes one
call after the other. The real server (3.9, from PySpark's jars) does not force its log to the disk, and has had one
round to warm up that does not count. After each figure stands what is demanded of it, and whether it holds.

What bounds simzk: the processor time of its process for each request, by the system's account, and of it what decoding,
handling and encoding take by themselves, in the batches in which they come; the rest is asyncio and the system's calls.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kazoo.client import KazooClient

from benchmarks.machine import machine
from benchmarks.verdict import verdict
from simzk.wire.connections import Incoming, ServerConnection
from simzk.zookeeper import requests as req
from simzk.zookeeper.server import Server
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

IN_FLIGHT = 128
CONNECTIONS = (1, 8)
KINDS = ("create", "get")
DATA = b"x" * 100
DEMANDED = {1: 3.0, 8: 1.2}
"""How many times the real server's requests per second, by connections."""
KAZOO_DEMANDED = 1.2
KAZOO_CALLS = 500
CLIENT = Path(__file__).with_name("pipelining_client.c")

Figures = dict[str, dict[str, float]]


class Served(NamedTuple):
    """A running `simzk serve`."""

    port: int
    pid: int

    def processor_s(self) -> tuple[float, float]:
        """The processor time that it has taken so far: its own, and the system's on its behalf."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        return int(fields[11]) / ticks, int(fields[12]) / ticks


@contextmanager
def served() -> Iterator[Served]:
    """`simzk serve` in a process of its own."""
    command = [sys.executable, "-m", "simzk", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Served(int(process.stdout.readline().rpartition(":")[2]), process.pid)
        process.terminate()


@contextmanager
def compiled_client() -> Iterator[Path]:
    """The client, made by the C compiler of this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        sys.exit("benchmarks.tcp: its client is in C, and there is no C compiler here (cc, gcc or clang)")
    with tempfile.TemporaryDirectory() as folder:
        client = Path(folder) / "pipelining_client"
        subprocess.run([compiler, "-O2", "-o", str(client), str(CLIENT)], check=True)
        yield client


def measured(client: Path, port: int, connections: int, requests: int) -> Figures:
    """One round of the client against one server."""
    command = [str(client), *map(str, (port, connections, IN_FLIGHT, requests))]
    figures: Figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def turns(rounds: int, arms: Mapping[str, Callable[[], Figures]]) -> dict[str, Figures]:
    """The medians of each arm's rounds, which alternate; every other turn the other way round."""
    measured: dict[str, list[Figures]] = {name: [] for name in arms}
    for turn in range(rounds):
        for name in sorted(arms, reverse=turn % 2 == 1):
            measured[name].append(arms[name]())
    return {name: _medians(figures) for name, figures in measured.items()}


def _medians(rounds: list[Figures]) -> Figures:
    return {
        kind: {figure: statistics.median(one[kind][figure] for one in rounds) for figure in first}
        for kind, first in rounds[0].items()
    }


def kazoo_round(client: KazooClient) -> Figures:
    """One call after the other: per second, by kind."""
    parent = f"/k{time.time_ns()}"
    client.create(parent)
    calls: dict[str, Callable[[str], object]] = {
        "create": lambda path: client.create(path, DATA),
        "get": client.get,
        "set": lambda path: client.set(path, DATA),
        "children": lambda path: client.get_children(path),
        "delete": client.delete,
    }
    measured = {}
    for kind, call in calls.items():
        begun_s = time.perf_counter()
        for number in range(KAZOO_CALLS):
            call(f"{parent}/n{number:08}")
        measured[kind] = {"per_second": KAZOO_CALLS / (time.perf_counter() - begun_s)}
    return measured


def shares_us() -> Figures:
    """The time of one request in decoding, handling and encoding, in a process that does nothing else: the least of
    many batches of those in flight."""
    measured: Figures = {}
    for kind in KINDS:
        wire, client, server = ServerConnection(), ClientConnection(), Server()
        greeting = client.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False))
        wire.receive_data(greeting)
        connection = server.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), now_ms=0)
        server.take_output()
        best = {"decode": float("inf"), "handle": float("inf"), "encode": float("inf")}
        xid = 0
        for batch in range(100):
            paths = [f"/n{batch:04}{number:04}" for number in range(IN_FLIGHT)]
            if kind == "get":
                for path in paths:
                    server.handle(connection, 0, req.Create(path, DATA, req.OPEN_ACL, 0), 0)
                server.take_output()
            asked: list[req.Request] = [
                req.Create(path, DATA, req.OPEN_ACL, 0) if kind == "create" else req.GetData(path, False)
                for path in paths
            ]
            data = b"".join(client.request(xid + number, request) for number, request in enumerate(asked, 1))
            xid += IN_FLIGHT
            marks_s = [time.perf_counter()]
            received = wire.receive_data(data)
            marks_s.append(time.perf_counter())
            for one in received:
                assert isinstance(one, Incoming)
                server.handle(connection, one.xid, one.request, batch)
            ((_, outgoing),) = server.take_output()
            marks_s.append(time.perf_counter())
            wire.encode(*outgoing)
            marks_s.append(time.perf_counter())
            for step, begun_s, ended_s in zip(best, marks_s, marks_s[1:], strict=False):
                best[step] = min(best[step], (ended_s - begun_s) / IN_FLIGHT * 1e6)
        measured[kind] = best
    return measured


def times(value: float, demanded: float) -> str:
    return f"{value:5.2f} times {verdict(f'{demanded:g}', value >= demanded)}"


def show_pipelined(connections: int, figures: dict[str, Figures]) -> None:
    """Print the rows of one number of connections."""
    for kind in KINDS:
        ours, real = figures["simzk"][kind], figures["real"][kind]
        print(
            f"{kind:8} over {connections}: simzk {ours['per_second']:9,.0f}/s, real {real['per_second']:9,.0f}/s: "
            f"{times(ours['per_second'] / real['per_second'], DEMANDED[connections])}; p99 {ours['p99_ms']:6.2f} ms, "
            f"real {real['p99_ms']:6.2f} ms {verdict('below', ours['p99_ms'] < real['p99_ms'])}"
        )


def show_kazoo(figures: dict[str, Figures]) -> None:
    """Print the rows of kazoo's calls."""
    print()
    for kind, by_kind in figures["simzk"].items():
        ours, real = by_kind["per_second"], figures["real"][kind]["per_second"]
        rates = f"simzk {ours:7,.0f}/s, real {real:7,.0f}/s"
        print(f"{kind:8} by kazoo, one by one: {rates}: {times(ours / real, KAZOO_DEMANDED)}")


def show_bounds(bounds: Figures) -> None:
    """Print what bounds a pipelined request."""
    print(f"\nwhat bounds simzk over one connection, {IN_FLIGHT} in flight: µs of the processor for a request")
    for kind, parts in bounds.items():
        whole = parts["whole"]
        listed = ", ".join(f"{name} {value:.1f} ({value / whole:.0%})" for name, value in parts.items())
        print(f"{kind:8} {listed}")


def bounds_of(client: Path, ours: Served, requests: int) -> Figures:
    """Processor time for each request of a round of its own: as a whole, by the system, and by its parts.

    Creates and gets come in one round: each kind has the parts of its own, and both the mean of what is left.
    """
    shares = shares_us()
    before = ours.processor_s()
    measured(client, ours.port, 1, requests)
    own_us, system_us = (
        (after - begun) / (2 * requests) * 1e6 for begun, after in zip(before, ours.processor_s(), strict=True)
    )
    mean = {step: statistics.mean(shares[kind][step] for kind in KINDS) for step in shares[KINDS[0]]}
    whole = own_us + system_us
    rest = {"system": system_us, "asyncio and the rest": own_us - sum(mean.values())}
    return {"mean": {"whole": whole, **mean, **rest}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=40_000)
    options = parser.parse_args()
    result: dict[str, object] = {"machine": machine()}
    print(result["machine"])
    with compiled_client() as client, served() as ours, RealZooKeeper() as real:
        ports = {"simzk": ours.port, "real": real.port}
        measured(client, real.port, 1, options.requests)
        for connections in CONNECTIONS:
            arms = {
                name: partial(measured, client, port, connections, options.requests) for name, port in ports.items()
            }
            figures = turns(options.rounds, arms)
            show_pipelined(connections, figures)
            result[f"over {connections}"] = figures
        kazoos = {name: KazooClient(hosts=f"127.0.0.1:{port}") for name, port in ports.items()}
        for kazoo in kazoos.values():
            kazoo.start()
        synchronous = turns(options.rounds, {name: partial(kazoo_round, kazoo) for name, kazoo in kazoos.items()})
        for kazoo in kazoos.values():
            kazoo.stop()
            kazoo.close()
        show_kazoo(synchronous)
        bounds = bounds_of(client, ours, options.requests)
        show_bounds(bounds)
        result |= {"kazoo": synchronous, "bounds_us": bounds}
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
