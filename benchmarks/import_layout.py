"""`simzk layout import --data-dir`: how fast a layout is read from what a real ZooKeeper left on disk.

    python -m benchmarks.import_layout [--json OUT] [--partitions N] [--transactions N] [--rounds N]

The znodes of a cluster of 300 brokers, replication factor 3, 100 partitions a topic (two znodes a partition, and those
of topics) are given to a real ZooKeeper, which boots from them and writes its own snapshot; a client then changes
states one by one, so that there is a log behind it. What is measured is everything from the directory to a checked
layout, which must be the one that stands there:

  - the import, also with the snapshot packed by gzip and by snappy (whose unpacker is Python);
  - the restore alone, as an import has it and as a server that boots has it; what a logged transaction takes;
  - the physical limit: to read the files and sum them up, decoding nothing.

Rates are of processor time, medians of the rounds; wall times stand beside them.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import adler32

import numpy as np
from kazoo.client import KazooClient

from benchmarks.machine import machine
from benchmarks.verdict import verdict
from simzk.cli.layout.sources import layout_of_directory
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import LeaderAndIsr
from simzk.kafka.zookeeper_mode.columnar.layouts import describe_brokers, load_layout
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.serve.storage.directory_reader import DirectoryReader, new_compressor
from simzk.zookeeper.persistence import TreeDigest, encode_snapshot
from simzk.zookeeper.server import Server
from tests.conformance.real_zookeeper import RealZooKeeper

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.layouts import Layout

DEMANDED_ZNODES_PER_S = 200_000
BROKERS, RACKS, PARTITIONS_PER_TOPIC, IN_FLIGHT = 300, 3, 100, 256
NEW_EPOCH = 7
_CHUNK_BYTES = 1 << 20


def made(partitions: int) -> Layout:
    topics = max(1, partitions // PARTITIONS_PER_TOPIC)
    brokers = brokers_in_racks(BROKERS, RACKS)
    return generate_layout(brokers, topics=topics, partitions=partitions, replication_factor=3, seed=1)


def write_directory(layout: Layout, place: Path) -> int:
    """Write a data directory with the znodes of a layout in a snapshot; return the number of znodes."""
    server, version = Server(), kafka_version("3.9")
    load_layout(server, layout, version, now_ms=0)
    describe_brokers(server, layout, version, now_ms=0)
    folder = place / "version-2"
    folder.mkdir(parents=True)
    digest = TreeDigest(server.tree).value
    with (folder / f"snapshot.{server.zxid:x}").open("wb") as stream:
        stream.writelines(encode_snapshot(server.tree, [], lambda: (server.zxid, digest)))
    return len(server.tree) - 1


def live_on(place: Path, layout: Layout, transactions: int, left: Path) -> Layout:
    """Boot a real server from a directory and change some states; return the layout and the files on disk."""
    rows = np.arange(transactions) * (len(layout) // max(transactions, 1))
    changed = layout.leader_epoch.copy()
    changed[rows] = NEW_EPOCH
    with RealZooKeeper(boot_from=place) as real:
        client = KazooClient(real.hosts, timeout=30)
        client.start()
        under_way = []
        for row in rows.tolist():
            path = f"/brokers/topics/{layout.topics[layout.topic[row]]}/partitions/{layout.partition[row]}/state"
            isr = tuple(broker for broker in layout.isr[row].tolist() if broker >= 0)
            state = LeaderAndIsr(int(layout.leader[row]), NEW_EPOCH, isr, controller_epoch=1)
            under_way.append(client.set_async(path, partition_state.encode(state)))
            if len(under_way) == IN_FLIGHT:
                under_way.pop(0).get()
        for asked in under_way:
            asked.get()
        client.stop()
        client.close()
        shutil.copytree(real.data_directory, left)
    columns = {name: getattr(layout, name) for name in layout.__dataclass_fields__} | {"leader_epoch": changed}
    return type(layout)(**columns)


def packed(place: Path, method: str, into: Path) -> Path:
    """Return a copy of the directory with compressed snapshots."""
    shutil.copytree(place, into)
    for snapshot in (into / "version-2").glob("snapshot.*"):
        pack = new_compressor(method)
        data = snapshot.read_bytes()
        pieces = (data[at : at + _CHUNK_BYTES] for at in range(0, len(data), _CHUNK_BYTES))
        with snapshot.with_name(f"{snapshot.name}.{method}").open("wb") as stream:
            stream.writelines(map(pack.compress, pieces))
            stream.write(pack.flush())
        snapshot.unlink()
    return into


def checked_import(place: Path, expected: Layout) -> None:
    layout, losses = layout_of_directory(place, None, "")
    assert losses == []
    wanted = np.argsort([expected.topics[topic] for topic in expected.topic], kind="stable")
    for column in ("partition", "replicas", "isr", "leader", "leader_epoch", "min_insync_replicas"):
        assert (getattr(layout, column) == getattr(expected, column)[wanted]).all(), column


def sum_up(place: Path) -> None:
    for path in (place / "version-2").iterdir():
        checksum = 1
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                checksum = adler32(chunk, checksum)


def timed(rounds: int, run: Callable[[], object]) -> dict[str, float]:
    """Return the medians of processor and wall time in milliseconds."""
    taken = []
    for _ in range(rounds):
        gc.collect()
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        kept = run()
        taken.append((time.process_time() - cpu_s, time.perf_counter() - wall_s))
        del kept
    cpu, wall = (statistics.median(column) * 1e3 for column in zip(*taken, strict=True))
    return {"cpu_ms": round(cpu, 1), "wall_ms": round(wall, 1)}


def figures(place: Path, partitions: int, transactions: int, rounds: int) -> dict[str, object]:
    layout = made(partitions)
    znodes = write_directory(layout, place / "made")
    left = place / "left"
    expected = live_on(place / "made", layout, transactions, left)
    sizes = {path.name: path.stat().st_size for path in sorted((left / "version-2").iterdir())}
    checked_import(left, expected)
    runs: dict[str, Callable[[], object]] = {
        "import": partial(layout_of_directory, left, None, ""),
        "import_without_log": partial(layout_of_directory, place / "made", None, ""),
        "restore_for_an_import": DirectoryReader(left, is_lazy=True).restore,
        "restore_for_a_server": DirectoryReader(left).restore,
        "limit_read_and_sum_up": partial(sum_up, left),
    }
    for method in ("gz", "snappy"):
        other = packed(left, method, place / method)
        checked_import(other, expected)
        runs[f"import_{method}"] = partial(layout_of_directory, other, None, "")
    found: dict[str, object] = {"znodes": znodes, "transactions": transactions, "files": sizes}
    for name, run in runs.items():
        taken = timed(rounds, run)
        found[name] = {"znodes_per_s": round(znodes / taken["cpu_ms"] * 1e3), **taken}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--transactions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="simzk-import-") as place:
        measured = figures(Path(place), options.partitions, options.transactions, options.rounds)
    rate = measured["import"]["znodes_per_s"]  # type: ignore[index]
    found = {
        "benchmark": "import_layout",
        "machine": machine(),
        "demanded_znodes_per_s": DEMANDED_ZNODES_PER_S,
        "holds": rate >= DEMANDED_ZNODES_PER_S,
        **measured,
    }
    print(json.dumps(found, indent=2))
    print(f"{rate:,} znodes a second {verdict(f'{DEMANDED_ZNODES_PER_S:,}', rate >= DEMANDED_ZNODES_PER_S)}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
