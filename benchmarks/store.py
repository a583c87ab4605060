"""Operations per second of the znode store through `Server.handle`, in one process and without a transport.

    python -m benchmarks.store [--znodes N] [--rounds N] [--json OUT] [--profile OPERATION]

One client creates N nodes of 100 bytes in one directory, reads them, writes them, lists a directory of a hundred, looks
each up, deletes them; replies are taken from the server's outboxes every 128 requests, as a transport would. Of the
rounds the median counts. What a znode takes of memory is measured with a million of them and no data, by the process's
resident size; how long a create takes, by quarters of that million, for nothing may grow with the tree. `--json` keeps
the figures, and on what they were measured, for a later run to compare with; `--profile` shows where one operation
spends its time instead.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pstats
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import machine
from benchmarks.verdict import verdict
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = b"x" * 100
IN_FLIGHT = 128
LISTED = 100
LISTINGS = 20_000
DEMANDED = {"create": 150_000, "get": 500_000}
MANY = 1_000_000
DEMANDED_BYTES = 450


def workload(znodes: int) -> dict[str, Sequence[req.Request]]:
    """Return the prepared requests of each operation, so that only the store is measured."""
    paths = [f"/bench/n{number:010}" for number in range(znodes)]
    return {
        "create": [req.Create(path, DATA, OPEN_ACL, 0) for path in paths],
        "get": [req.GetData(path, False) for path in paths],
        "exists": [req.Exists(path, False) for path in paths],
        "set": [req.SetData(path, DATA, -1) for path in paths],
        "checked set": [req.Multi((req.Check("/bench", -1), req.SetData(path, DATA, -1))) for path in paths],
        "children": [req.GetChildren("/listed", False)] * LISTINGS,
        "delete": [req.Delete(path, -1) for path in paths],
    }


def run(server: Server, work: dict[str, Sequence[req.Request]], profiled: str = "") -> dict[str, float]:
    """Return the operations per second of one client of a new server."""
    client = server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), 0)
    for path in ("/bench", "/listed", *[f"/listed/n{number}" for number in range(LISTED)]):
        server.handle(client, 0, req.Create(path, None, OPEN_ACL, 0), 0)
    server.take_output()
    rates = {}
    now_ms = 0
    for operation, requests in work.items():
        profile = cProfile.Profile()
        if operation == profiled:
            profile.enable()
        begun_s = time.perf_counter()
        for begin in range(0, len(requests), IN_FLIGHT):
            now_ms += 1
            for xid, request in enumerate(requests[begin : begin + IN_FLIGHT]):
                server.handle(client, xid, request, now_ms)
            server.take_output()
        rates[operation] = len(requests) / (time.perf_counter() - begun_s)
        if operation == profiled:
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(20)
    return rates


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill(znodes: int) -> tuple[float, list[float]]:
    """Return the bytes per znode beside its data, and the processor time per create in each quarter of the filling."""
    server = Server()
    client = server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), 0)
    server.handle(client, 0, req.Create("/bench", None, OPEN_ACL, 0), 0)
    before = resident_bytes()
    quarters_us = []
    for quarter in range(4):
        begun_s = time.process_time()
        for number in range(quarter * znodes // 4, (quarter + 1) * znodes // 4):
            server.handle(client, number, req.Create(f"/bench/n{number:010}", b"", OPEN_ACL, 0), number // IN_FLIGHT)
            if number % IN_FLIGHT == 0:
                server.take_output()
        quarters_us.append((time.process_time() - begun_s) * 1e6 / (znodes // 4))
    server.take_output()
    return (resident_bytes() - before) / znodes, quarters_us


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--znodes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--profile", default="", help="show where this operation spends its time")
    arguments = parser.parse_args()
    bytes_each, quarters_us = fill(MANY) if not arguments.profile else (0.0, [])
    work = workload(arguments.znodes)
    # The requests stand for a client's: without them the garbage collector has only the store to look through.
    gc.collect()
    gc.freeze()
    if arguments.profile:
        run(Server(), work, arguments.profile)
        return
    rounds = [run(Server(), work) for _ in range(arguments.rounds)]
    rates = {operation: statistics.median(each[operation] for each in rounds) for operation in work}
    print(machine())
    for operation, rate in rates.items():
        demanded = DEMANDED.get(operation)
        text = "" if demanded is None else f" {verdict(f'{demanded:,}', rate >= demanded)}"
        print(f"{operation:12} {rate:12,.0f} /s{text}")
    text = verdict(f"at most {DEMANDED_BYTES}", bytes_each <= DEMANDED_BYTES)
    print(f"{'memory':12} {bytes_each:12,.0f} bytes a znode beside its data {text}")
    print(f"{'filling':12} {' '.join(f'{each:.1f}' for each in quarters_us):>12} us a create, by quarters of {MANY:,}")
    if arguments.json is not None:
        kept = {
            "benchmark": "store",
            "machine": machine(),
            "znodes": arguments.znodes,
            "per_second": rates,
            "bytes_a_znode": bytes_each,
            "filling_us": quarters_us,
        }
        arguments.json.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
