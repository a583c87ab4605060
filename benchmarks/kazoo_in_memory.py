"""kazoo against `simzk.ZooKeeper`, a transport that does nothing, a real ZooKeeper and zake: operations per second.

    python -m benchmarks.kazoo_in_memory [--json OUT] [--rounds N]

All arms run the same calls in one run, turn by turn, so that a machine that is busy for a while slows all of them; of
each arm the median of its rounds counts. Two transports that do nothing show what kazoo itself costs: "nothing" is
simzk's own with bytes made beforehand in place of a server, "socket" the same bytes over a socket pair with kazoo's own
handler. The real server (3.9, from PySpark's jars, on local TCP, without fsync) is what tests cost without simzk;
zake, the fake that kazoo's users have had so far, is given the same calls at several tree sizes, as its cost grows with
the tree. After a figure stands what is demanded of it, and whether it holds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from zake.fake_client import FakeClient

import simzk
from benchmarks.machine import machine
from benchmarks.null_transport import null_client, null_socket_client
from benchmarks.verdict import verdict
from tests.conformance.real_zookeeper import RealZooKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ZNODES = 1_000
DEMANDED_OF_NOTHING = 0.8
ZAKE_OUTRUN_FROM = 1_000
LISTINGS = 200
ZAKE_SIZES = (100, 1_000, 3_000)
DATA = b"x" * 8
OPERATIONS = ("create", "get", "set", "children", "delete")

Rates = dict[str, float]


def rates_of(client: Any, znodes: int, listings: int) -> Rates:
    """Return the operations per second of one client that creates, reads, writes and deletes `znodes` znodes."""
    names = [f"/bench/n{number:010}" for number in range(znodes)]
    work: dict[str, tuple[int, Callable[[], object]]] = {
        "create": (znodes, lambda: [client.create(name, DATA) for name in names]),
        "get": (znodes, lambda: [client.get(name) for name in names]),
        "set": (znodes, lambda: [client.set(name, DATA) for name in names]),
        "children": (listings, lambda: [client.get_children("/bench/few") for _ in range(listings)]),
        "delete": (znodes, lambda: [client.delete(name) for name in names]),
    }
    rates = {}
    for operation in OPERATIONS:
        count, run = work[operation]
        begun_s = time.perf_counter()
        run()
        rates[operation] = count / (time.perf_counter() - begun_s)
    return rates


def prepare(client: Any) -> None:
    """Create the directory, and one with ten children to list: kazoo's decoding dominates longer lists."""
    client.start()
    client.create("/bench")
    client.create("/bench/few")
    for number in range(10):
        client.create(f"/bench/few/n{number:010}")


@contextmanager
def arms() -> Iterator[dict[str, KazooClient]]:
    """Yield a started kazoo client for each transport."""
    with ExitStack() as stack:
        real = stack.enter_context(RealZooKeeper())
        zookeeper = stack.enter_context(simzk.ZooKeeper())
        clients = {
            "memory": zookeeper.client(),
            "nothing": null_client(),
            "socket": null_socket_client(),
            "real": KazooClient(hosts=real.hosts),
        }
        for client in clients.values():
            stack.callback(client.close)
            stack.callback(client.stop)
            prepare(client)
        yield clients


def median_of(rounds: list[Rates]) -> Rates:
    return {operation: statistics.median(rates[operation] for rates in rounds) for operation in OPERATIONS}


def measure_kazoo(rounds: int) -> dict[str, Rates]:
    """Return the median rates of every kazoo arm."""
    measured: dict[str, list[Rates]] = {}
    with arms() as clients:
        for client in clients.values():
            rates_of(client, ZNODES, LISTINGS)  # warm: the real server's JIT above all
        for _ in range(rounds):
            for name, client in clients.items():
                measured.setdefault(name, []).append(rates_of(client, ZNODES, LISTINGS))
    return {name: median_of(rates) for name, rates in measured.items()}


def measure_sizes(rounds: int) -> dict[int, dict[str, Rates]]:
    """Return the rates of zake and of kazoo in memory at each tree size."""
    return {
        size: {
            "zake": median_of([_of_fresh_zake(size) for _ in range(rounds)]),
            "memory": median_of([_of_fresh_memory(size) for _ in range(rounds)]),
        }
        for size in ZAKE_SIZES
    }


def _of_fresh_zake(znodes: int) -> Rates:
    client = FakeClient()
    prepare(client)
    rates = rates_of(client, znodes, LISTINGS)
    client.stop()
    client.close()
    return rates


def _of_fresh_memory(znodes: int) -> Rates:
    with simzk.ZooKeeper() as zookeeper:
        client = zookeeper.client()
        prepare(client)
        return rates_of(client, znodes, LISTINGS)


def show(kazoo: dict[str, Rates], sizes: dict[int, dict[str, Rates]]) -> None:
    """Print the two tables."""
    print(f"\nkazoo, {ZNODES} znodes, one call at a time    operations/s")
    names = ("memory", "nothing", "socket", "real")
    print(f"{'':10}" + "".join(f"{name:>10}" for name in names) + f"{'of nothing':>12}{'of socket':>12}{'x real':>8}")
    for operation in OPERATIONS:
        memory, nothing, socket, real = (kazoo[name][operation] for name in names)
        rates = f"{memory:10,.0f}{nothing:10,.0f}{socket:10,.0f}{real:10,.0f}"
        text = verdict(f"{DEMANDED_OF_NOTHING:.0%} of nothing", memory / nothing >= DEMANDED_OF_NOTHING)
        print(f"{operation:10}{rates}{memory / nothing:12.0%}{memory / socket:12.0%}{memory / real:8.1f} {text}")
    print("\nthe same calls on zake, by tree size    operations/s")
    print(f"{'':10}{'znodes':>8}{'memory':>10}{'zake':>10}{'x zake':>8}")
    for size, both in sizes.items():
        for operation in OPERATIONS:
            memory, zake = both["memory"][operation], both["zake"][operation]
            text = f" {verdict('above zake', memory > zake)}" if size >= ZAKE_OUTRUN_FROM else ""
            print(f"{operation:10}{size:8,}{memory:10,.0f}{zake:10,.0f}{memory / zake:8.1f}{text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(machine())
    kazoo, sizes = measure_kazoo(options.rounds), measure_sizes(min(options.rounds, 3))
    show(kazoo, sizes)
    if options.json:
        figures = {"machine": machine(), "unit": "operations/s", "kazoo": kazoo, "by_tree_size": sizes}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
