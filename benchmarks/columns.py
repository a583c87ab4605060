"""A cluster's topics in columns, every znode visible to clients: bytes a partition, building, loading, failures.

    python -m benchmarks.columns [--json OUT] [--rounds N] [--partitions N] [--large N]

One broker of 300 fails (replication factor 3, 3 racks, 100 partitions a topic): what the rules decide is written as the
controller's batch, to znodes that any client could read. Beside it stands the same failure by single requests, as
brokers of the real form make them, in a cluster of a tenth, and the same batch in clusters where a broker holds more or
less: the cost follows what it holds. A new controller reads all, elects and writes; all brokers restart in turn: what
the rules and the writes of that take, brokers and network aside. All times are of the processor, so that a busy machine
shows the same; wall times stand beside them. `--large` is the size at which the failure is measured once more (0: not
at all).
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.machine import machine
from benchmarks.store import resident_bytes
from simzk.kafka import paths
from simzk.kafka.columnar import load_layout
from simzk.kafka.columnar.batches import ReadStates, StatesRead, WriteStates
from simzk.kafka.schemas import partition_state
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.versions import kafka_version
from simzk.partitions.arrays import broker_mask
from simzk.partitions.elections import elect_for_controlled_shutdown
from simzk.partitions.failures import controller_failover, fail_brokers
from simzk.partitions.isr import expand_isr, remove_from_isr
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.partitions.layouts.files import read_layout, write_layout
from simzk.partitions.states import States, written
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.course import Change
    from simzk.partitions.layouts import Layout
    from simzk.zookeeper.batches import Batch

BROKERS, RACKS, PARTITIONS_PER_TOPIC, FAILED = 300, 3, 100, 5
VERSION = kafka_version("3.9")
NOW_MS = 1_735_689_600_000
GOALS = {
    "bytes_per_partition": 100,
    "built_ms": 1_000,
    "parquet_loaded_ms": 500,
    "one_broker_fails_ms": 100,
    "controller_fails_over_ms": 1_000,
    "rolling_restart_ms": 10_000,
}

Times = dict[str, float]


def timed(run: Callable[[], object], rounds: int, undo: Callable[[], object] = lambda: None) -> Times:
    """Milliseconds of the processor and of the wall, the median of so many rounds after one that does not count."""
    taken: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        run()
        taken.append(((time.process_time() - cpu_s) * 1e3, (time.perf_counter() - wall_s) * 1e3))
        undo()
    cpu, wall = zip(*taken[1:], strict=True)
    return {"cpu_ms": round(statistics.median(cpu), 3), "wall_ms": round(statistics.median(wall), 3)}


def layout_of(partitions: int, brokers: int = BROKERS) -> Layout:
    topics = max(1, partitions // PARTITIONS_PER_TOPIC)
    return generate_layout(
        brokers_in_racks(brokers, RACKS), topics=topics, partitions=partitions, replication_factor=3, seed=1
    )


class Cluster:
    """A server with a layout's topics, and a controller's session."""

    def __init__(self, layout: Layout) -> None:
        self.server = Server(now_ms=NOW_MS)
        self.topics = load_layout(self.server, layout, VERSION, NOW_MS)
        self.brokers = len(layout.brokers.ids)
        self.controller = self.server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), NOW_MS)
        self.ask(req.Create(paths.CONTROLLER_EPOCH, b"1", OPEN_ACL, 0))

    def ask(self, request: req.Request | Batch) -> object:
        self.server.handle(self.controller, 1, request, NOW_MS)
        ((_, said),) = self.server.take_output()
        return said[-1].body  # type: ignore[union-attr]

    def decided(self) -> Change:
        return fail_brokers(self.topics.table, [FAILED], self.live_but(FAILED), controller_epoch=2)

    def write(self, failure: Change) -> None:
        self.put(failure.rows, failure.before, failure.after)

    def write_singly(self, failure: Change) -> None:
        """As a controller does it: read, decode, encode, write on condition, a request each."""
        table = self.topics.table
        for place, row in enumerate(failure.rows.tolist()):
            path = paths.state(TopicPartition(*table.name(row)))
            self.server.handle(self.controller, 1, req.GetData(path, False), NOW_MS)
            ((_, replies),) = self.server.take_output()
            data, stat = replies[-1].body  # type: ignore[union-attr, misc]
            state = partition_state.decode(path, data, stat.version)
            text = partition_state.encode(failure.after.one(place))
            self.ask(req.Multi((req.Check(paths.CONTROLLER_EPOCH, 0), req.SetData(path, text, state.version))))

    def put(self, rows: IntArray, before: States, after: States) -> int:
        """Write states, each on condition of its version, and as often as the rules count writes; how many."""
        written = after._replace(version=before.version)
        errors = self.ask(WriteStates(self.topics.table.partitions(rows), written, 0))
        assert isinstance(errors, np.ndarray)
        assert not errors.any()
        return len(rows)

    def read(self, rows: IntArray) -> States:
        read = self.ask(ReadStates(self.topics.table.partitions(rows)))
        assert isinstance(read, StatesRead)
        assert not read.replies
        return read.states

    def fail_over(self) -> int:
        """A new controller: it reads all states, elects where a broker is found dead, and writes what changed."""
        table, rows = self.topics.table, self.topics.table.rows()
        before = self.read(rows)
        after, _ = controller_failover(
            table.replicas[rows], before, [FAILED], self.live_but(FAILED), controller_epoch=2
        )
        changed = np.flatnonzero(after.version != before.version)
        return self.put(rows[changed], before.at(changed), after.at(changed))

    def restart(self, broker: int) -> int:
        """A broker shuts down in order and comes back: leaders move, ISRs shrink, and grow again; how many writes."""
        table, everyone = self.topics.table, broker_mask(range(self.brokers))
        rows = table.rows_with_replica(broker)
        before, replicas = table.states(rows), table.replicas[rows]
        leaving = np.full(len(rows), broker, dtype=np.int32)
        moved = elect_for_controlled_shutdown(replicas, before.isr, before.leader, everyone, broker_mask([broker]))
        left = remove_from_isr(before.isr, before.leader, leaving, False)
        led = (before.leader == broker) & moved.elected
        leader = np.where(led, moved.leader, left.leader)
        isr = np.where(led[:, None], moved.isr, left.isr)
        written_by = self.put(rows, before, written(before, leader, isr, 2))
        before = table.states(rows)
        joined = expand_isr(before.isr, leaving)
        return written_by + self.put(rows, before, written(before, before.leader, joined, 2))

    def live_but(self, dead: int) -> BoolArray:
        return broker_mask(broker for broker in range(self.brokers) if broker != dead)

    def as_objects(self) -> Cluster:
        """The same cluster, its znodes objects all; its batches are not for use."""
        other = Cluster(layout_of(1))
        other.brokers, other.topics = self.brokers, self.topics
        tree = DataTree()
        for path, node in self.server.tree.walk():
            copied = Znode(node.data, node.acl, 0, node.czxid, node.ctime_ms)
            copied.mzxid, copied.pzxid, copied.mtime_ms = node.mzxid, node.pzxid, node.mtime_ms
            copied.version, copied.cversion = node.version, node.cversion
            tree.plant(path, copied)
        other.server = Server(now_ms=NOW_MS, tree=tree, zxid=self.server.zxid)
        other.controller = other.server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), NOW_MS)
        return other

    def undo(self, failure: Change) -> None:
        self.topics.table.apply(failure.rows, failure.before)


def memory_figures(layout: Layout) -> dict[str, float]:
    """Bytes a partition of all that the topics take: columns, index, names, the tree's own nodes."""
    gc.collect()
    tracemalloc.start()
    cluster = Cluster(layout)
    without, _ = tracemalloc.get_traced_memory()
    cluster.topics.table.rows_with_replica(FAILED)
    everything, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    count = len(layout)
    return {
        "columns": round(cluster.topics.nbytes / count, 1),
        "without_index": round(without / count, 1),
        "bytes_per_partition": round(everything / count, 1),
        "peak_while_loading": round(peak / count, 1),
    }


def building_figures(partitions: int, rounds: int) -> dict[str, Times]:
    layout = layout_of(partitions)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "layout.parquet"
        write_layout(layout, file)
        return {
            "assigned": timed(lambda: layout_of(partitions), rounds),
            "znodes_loaded": timed(lambda: load_layout(Server(now_ms=NOW_MS), layout, VERSION, NOW_MS), rounds),
            "built": timed(lambda: Cluster(layout_of(partitions)), rounds),
            "parquet_loaded": timed(lambda: read_layout(file), rounds),
            "parquet_to_znodes": timed(lambda: Cluster(read_layout(file)), rounds),
        }


def failure_figures(partitions: int, brokers: int, rounds: int) -> dict[str, object]:
    cluster = Cluster(layout_of(partitions, brokers))
    failure = cluster.decided()
    rows = cluster.topics.table.rows()
    return {
        "partitions": partitions,
        "brokers": brokers,
        "written": len(failure.rows),
        "decided": timed(cluster.decided, rounds),
        "written_by_batch": timed(lambda: cluster.write(failure), rounds, lambda: cluster.undo(failure)),
        "decided_and_written": timed(lambda: cluster.write(cluster.decided()), rounds, lambda: cluster.undo(failure)),
        "all_states_read_by_batch": timed(lambda: cluster.read(rows), max(1, rounds // 3)),
        "controller_fails_over": timed(cluster.fail_over, max(1, rounds // 3), lambda: cluster.undo(failure)),
    }


def rolling_figures(partitions: int) -> dict[str, object]:
    """Every broker restarts in order, one after another: what the rules and the writes of it take."""
    cluster = Cluster(layout_of(partitions))
    writes = 0

    def restart_all() -> None:
        nonlocal writes
        writes = sum(map(cluster.restart, range(BROKERS)))

    taken = timed(restart_all, 1)
    table = cluster.topics.table
    assert (table.isr >= 0).all(), "every replica is in sync again"
    return {"partitions": partitions, "brokers": BROKERS, "writes": writes, **taken}


def single_figures(partitions: int, rounds: int) -> dict[str, object]:
    """The failure by single requests, in columns and as objects, and what the objects take."""
    cluster = Cluster(layout_of(partitions))
    failure = cluster.decided()

    def undo() -> None:
        cluster.undo(failure)

    gc.collect()
    before = resident_bytes()
    objects = cluster.as_objects()
    object_bytes = resident_bytes() - before
    return {
        "partitions": partitions,
        "written": len(failure.rows),
        "by_batch": timed(lambda: cluster.write(failure), rounds, undo),
        "by_single_requests": timed(lambda: cluster.write_singly(failure), rounds, undo),
        "by_single_requests_to_objects": timed(lambda: objects.write_singly(failure), rounds),
        "resident_bytes_per_partition_of_objects": round(object_bytes / partitions, 1),
    }


def large_figures(partitions: int, rounds: int) -> dict[str, object]:
    """What a cluster of this size takes of the process's memory, and its failure."""
    gc.collect()
    before = resident_bytes()
    cluster = Cluster(layout_of(partitions))
    failure = cluster.decided()
    gc.collect()
    return {
        "partitions": partitions,
        "resident_bytes_per_partition": round((resident_bytes() - before) / partitions, 1),
        "written": len(failure.rows),
        "decided_and_written": timed(lambda: cluster.write(cluster.decided()), rounds, lambda: cluster.undo(failure)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=10_000_000)
    options = parser.parse_args()
    few = max(1, options.rounds // 3)
    figures: dict[str, object] = {
        "benchmark": "columns",
        "machine": machine(),
        "numpy": np.__version__,
        "goals": GOALS,
        "memory": memory_figures(layout_of(options.partitions)),
        "building": building_figures(options.partitions, few),
        "one_broker_fails": failure_figures(options.partitions, BROKERS, options.rounds),
        "cost_follows_what_is_held": [
            failure_figures(options.partitions, brokers, few) for brokers in (BROKERS // 10, BROKERS * 10)
        ],
        "rolling_restart": rolling_figures(options.partitions),
        "beside_single_requests": single_figures(options.partitions // 10, few),
    }
    if options.large:
        figures["large"] = large_figures(options.large, few)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
