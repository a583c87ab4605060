"""A cluster's topics in columns, every znode visible to clients: bytes a partition, building, loading, failures.

    python -m benchmarks.columns [--json OUT] [--rounds N] [--partitions N] [--large N]

What a partition takes is counted with everything: columns, names, the index from brokers, and true Stats of both its
znodes, once as they are loaded and once when every state has been written anew at another time; a sample of Stats is
read back and compared. One broker of 300 fails (replication factor 3, 3 racks, 100 partitions a topic): what the rules
decide is written as the controller's batch. Beside it stands the same failure by single requests, as brokers of the
real form make them, in a cluster of a tenth, and the same batch in clusters where a broker holds more or less. A new
controller reads all, elects and writes; all brokers restart in turn: what the rules and the writes of that take,
brokers and network aside (`benchmarks.large_cluster` has the whole controller). All times are of the processor, so that
a busy machine shows the same; wall times stand beside them in the file. `--large` is the size at which the process's
memory is measured (0: not at all), from which 100,000,000 partitions are worked out; these themselves need 16 GB while
they are made.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.figures import Figure, Limit, medians, write_figures
from benchmarks.store import resident_bytes
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar import load_layout
from simzk.kafka.zookeeper_mode.columnar.batches import ReadStates, StatesRead, WriteStates
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.partitions.arrays import broker_mask
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.partitions.layouts.files import read_layout, write_layout
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Stat
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode
from tests.partitions.operations import controller_failover, expand_isrs, fail_brokers, shut_down_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.layouts import Layout
    from simzk.partitions.states import States
    from simzk.zookeeper.server import Batch
    from tests.partitions.operations import Change

BROKERS, RACKS, PARTITIONS_PER_TOPIC, FAILED = 300, 3, 100, 5
VERSION = kafka_version("3.9")
NOW_MS = 1_735_689_600_000
BYTES_AT_MOST, BUILT_MS_AT_MOST, LOADED_MS_AT_MOST = 100, 1_000, 500
LARGE, HUGE = 10_000_000, 100_000_000
GIGABYTES_AT_MOST_BY_PARTITIONS = {LARGE: 1.2, HUGE: 24.0}
SAMPLE = 50

Times = dict[str, float]


def timed(run: Callable[[], object], rounds: int, undo: Callable[[], object] = lambda: None) -> Times:
    """Return milliseconds of processor and wall time; each round is undone."""
    return medians({"run": run, "undo": undo}, rounds)["run"]


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
        """Read, decode, encode and write each state with its own requests, as a controller does."""
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
        """Write states on condition of their versions, as often as the rules write; return the number of writes."""
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
        """Fail over: read all states, elect leaders for dead brokers, and write the changes."""
        table, rows = self.topics.table, self.topics.table.rows()
        before = self.read(rows)
        after, _ = controller_failover(
            table.replicas[rows], before, [FAILED], self.live_but(FAILED), controller_epoch=2
        )
        changed = np.flatnonzero(after.version != before.version)
        return self.put(rows[changed], before.at(changed), after.at(changed))

    def restart(self, broker: int) -> int:
        """Shut a broker down and restart it; return the number of writes."""
        table = self.topics.table
        left = shut_down_broker(table, broker, broker_mask(range(self.brokers)), controller_epoch=2)
        written = self.put(left.rows, left.before, left.after)
        rows = table.rows_with_replica(broker)
        joined = expand_isrs(table, rows, np.full(len(rows), broker, dtype=np.int32), controller_epoch=2)
        return written + self.put(joined.rows, joined.before, joined.after)

    def rewrite_all(self) -> None:
        """Rewrite every state, one topic per batch, each batch a second later than the one before."""
        table = self.topics.table
        for turn, rows in enumerate(np.array_split(table.rows(), 100)):
            before = table.states(rows)
            batch = WriteStates(table.partitions(rows), before, 0)
            self.server.handle(self.controller, 1, batch, NOW_MS + 1000 * (turn + 1))
            self.server.take_output()

    def stat(self, path: str) -> Stat:
        stat = self.ask(req.Exists(path, False))
        assert isinstance(stat, Stat)
        return stat

    def check_stats(self) -> None:
        """Assert the times and zxids in the Stats of both znodes, for a sample of partitions."""
        table = self.topics.table
        rows = table.rows()
        turn_of = np.concatenate(
            [np.full(len(some), turn, dtype=np.int64) for turn, some in enumerate(np.array_split(rows, 100))]
        )
        for row in rows[:: max(1, len(rows) // SAMPLE)].tolist():
            path = paths.state(TopicPartition(*table.name(row)))
            state, partition = self.stat(path), self.stat(path.rpartition("/")[0])
            assert (state.version, state.mtime_ms) == (1, NOW_MS + 1000 * (int(turn_of[row]) + 1)), path
            assert (state.ctime_ms, partition.ctime_ms) == (NOW_MS, NOW_MS), path
            assert partition.czxid < state.czxid == state.pzxid < state.mzxid, path
            assert (partition.version, partition.cversion, partition.num_children) == (0, 1, 1), path
            assert (partition.mzxid, partition.pzxid) == (partition.czxid, state.czxid), path

    def live_but(self, dead: int) -> BoolArray:
        return broker_mask(broker for broker in range(self.brokers) if broker != dead)

    def as_objects(self) -> Cluster:
        """Return the same cluster with all znodes as objects; batches cannot be used on it."""
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
    """Return the bytes per partition of columns, index, names and the tree's own nodes."""
    gc.collect()
    tracemalloc.start()
    cluster = Cluster(layout)
    without, _ = tracemalloc.get_traced_memory()
    cluster.topics.table.rows_with_replica(FAILED)
    everything, peak = tracemalloc.get_traced_memory()
    cluster.rewrite_all()
    gc.collect()
    written, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    cluster.check_stats()
    count = len(layout)
    return {
        "columns": round(cluster.topics.nbytes / count, 1),
        "without_index": round(without / count, 1),
        "everything": round(everything / count, 1),
        "everything_once_all_is_written": round(written / count, 1),
        "peak_while_loading": round(peak / count, 1),
    }


def building_figures(partitions: int, rounds: int) -> dict[str, Times]:
    layout = layout_of(partitions)
    columns = [layout.topic, layout.partition, layout.replicas, layout.isr, layout.leader, layout.leader_epoch]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "layout.parquet"
        write_layout(layout, file)
        return {
            "assigned": timed(lambda: layout_of(partitions), rounds),
            "znodes_loaded": timed(lambda: load_layout(Server(now_ms=NOW_MS), layout, VERSION, NOW_MS), rounds),
            "built": timed(lambda: Cluster(layout_of(partitions)), rounds),
            "limit_columns_written_once": timed(lambda: [column.copy() for column in columns], rounds),
            "parquet_loaded": timed(lambda: read_layout(file), rounds),
            "limit_parquet_read_by_arrow": timed(lambda: pq.read_table(file), rounds),
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
    """Measure the rules and the writes of a rolling restart of all brokers."""
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
    """Measure the failure by single requests, in columns and as objects, and the memory of the objects."""
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
    """Measure the memory of a cluster of this size and the time of its failure."""
    gc.collect()
    before = resident_bytes()
    cluster = Cluster(layout_of(partitions))
    failure = cluster.decided()
    gc.collect()
    return {
        "partitions": partitions,
        "resident_bytes": resident_bytes() - before,
        "written": len(failure.rows),
        "decided_and_written": timed(lambda: cluster.write(cluster.decided()), rounds, lambda: cluster.undo(failure)),
    }


def headlines(partitions: int, details: dict[str, Any]) -> list[Figure]:
    """Return the figures with their limits."""
    memory, building, million = details["memory"], details["building"], partitions == 1_000_000
    failing, rolling, single = (
        details[name] for name in ("one_broker_fails", "rolling_restart", "beside_single_requests")
    )
    found = [
        Figure(
            "a partition with both its znodes, their Stats, names and the index, every state written since",
            max(memory["everything"], memory["everything_once_all_is_written"]),
            "bytes",
            BYTES_AT_MOST,
            limit=Limit(memory["columns"], "its columns alone"),
        ),
        Figure(
            f"{partitions:,} partitions assigned by racks, and their znodes made",
            building["built"]["cpu_ms"],
            "ms",
            BUILT_MS_AT_MOST if million else None,
            limit=Limit(building["limit_columns_written_once"]["cpu_ms"], "the layout's columns written once"),
        ),
        Figure(
            f"{partitions:,} partitions loaded from Parquet, every row checked",
            building["parquet_loaded"]["cpu_ms"],
            "ms",
            LOADED_MS_AT_MOST if million else None,
            limit=Limit(building["limit_parquet_read_by_arrow"]["cpu_ms"], "the file read by Arrow alone"),
        ),
        Figure(
            f"one broker fails at {partitions:,}: decided, and {failing['written']:,} states written by a batch",
            failing["decided_and_written"]["cpu_ms"],
            "ms",
            limit=Limit(failing["decided"]["cpu_ms"], "decided alone"),
        ),
        Figure("a new controller reads all, elects and writes", failing["controller_fails_over"]["cpu_ms"], "ms"),
        Figure(f"{BROKERS} brokers restart in turn, {rolling['writes']:,} writes", rolling["cpu_ms"], "ms"),
        Figure(
            f"one broker fails at {single['partitions']:,}, by single requests",
            single["by_single_requests"]["cpu_ms"],
            "ms",
            limit=Limit(single["by_batch"]["cpu_ms"], "by a batch"),
        ),
    ]
    if "large" in details:
        large = details["large"]
        sizes = {HUGE: f"worked out from {large['partitions']:,}"} | {large["partitions"]: "resident"}
        found += [
            Figure(
                f"{size:,} partitions, {how}",
                large["resident_bytes"] / large["partitions"] * size / 1e9,
                "GB",
                GIGABYTES_AT_MOST_BY_PARTITIONS.get(size),
            )
            for size, how in sizes.items()
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=LARGE)
    options = parser.parse_args()
    few = max(1, options.rounds // 3)
    details: dict[str, Any] = {
        "numpy": np.__version__,
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
        details["large"] = large_figures(options.large, few)
    write_figures("columns", headlines(options.partitions, details), details, options.json)


if __name__ == "__main__":
    main()
