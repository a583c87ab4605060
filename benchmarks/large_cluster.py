"""The whole controller of a simulated cluster over a layout: a broker dies, the controller dies, all restart in turn.

    python -m benchmarks.large_cluster [--json OUT] [--partitions N] [--singly N] [--brokers N] [--rounds N]

A cluster of 300 brokers in 3 racks, replication factor 3, 100 partitions a topic, every znode visible to clients:

  - a broker dies: from the expiry of its session to the last state written and the last broker informed;
  - the controller dies: from the expiry of its session until the next one has read all topics and states, elected
    leaders, written them, and informed all brokers; and how long of that the new controller's own work took;
  - a rolling restart: each broker shuts down in order, starts, registers, and is in sync again; the controller last,
    as operators do it, so that it is elected once.

`--partitions` by batches; a tenth of it too, whence the slope. `--singly` by single requests, ten in flight, as
brokers of the real form make them, and the same by batches beside it. Both forms must leave the same history, zxids
and states: compared at a tenth of `--singly`, with equal latencies and all requests in flight at once. Otherwise
single requests take more time and draw more random latencies than one batch. Then other brokers lose the race for
`/controller`, and each loser consumes a zxid by its failed multi
(KafkaZkClient.registerControllerAndIncrementControllerEpoch). Beside them stand the physical limit (what it takes
this machine to copy the columns that are read and written), and real Kafka: published, 14 s of failover at 100,000
partitions (1.1), 503 s of recovery at 2 million in ZooKeeper mode and 37 s in KRaft; measured, 3.9.1 writes 2,000 to
2,500 partition states a second. Demanded are wall times; those of the processor, which a busy machine shows the same,
stand beside them.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np

from benchmarks.figures import Figure, Limit, write_figures
from benchmarks.store import resident_bytes
from simzk.kafka.cluster import cluster as cluster_module
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.partitions.layouts import brokers_in_racks, generate_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RACKS, PARTITIONS_PER_TOPIC = 3, 100
DEMANDED_MS = {"a_broker_dies": 100, "controller_dies": 1_000, "rolling_restart": 10_000}
"""Of wall time, at 1,000,000 partitions of 300 brokers."""
EVENT_NAMES = {
    "a_broker_dies": "a broker dies",
    "controller_dies": "the controller dies",
    "rolling_restart": "all restart in turn",
}
REAL_KAFKA = {
    "failover_at_100000_partitions_1.1_s": 14,
    "recovery_at_2000000_partitions_zookeeper_s": 503,
    "recovery_at_2000000_partitions_kraft_s": 37,
    "states_written_per_second_3.9.1": [2_000, 2_500],
}
SETTLED_SECONDS = 0.05
"""Within it all that follows from one thing has happened: requests and messages take half a millisecond each."""
SETTLED_SINGLY_SECONDS = 20.0
"""The same beside single requests, with time for everything that a restarted broker does."""
EQUAL_LATENCY_US = (400, 400)
AT_ONCE = {"zookeeper.max.in.flight.requests": 1_000_000}
"""With an equal latency too, n pipelined requests arrive together, as a batch of n does."""
BOOT_SECONDS = 0.6
"""A broker needs half a second from its start to its registration."""


class Figures:
    """Durations of failures of one cluster."""

    def __init__(
        self,
        partitions: int,
        brokers: int,
        *,
        sends_batches: bool,
        settled_seconds: float = SETTLED_SECONDS,
        config: Mapping[str, int] | None = None,
    ) -> None:
        self._settled_seconds = settled_seconds
        self.partitions, self.brokers = partitions, brokers
        layout = generate_layout(
            brokers_in_racks(brokers, RACKS),
            topics=max(1, partitions // PARTITIONS_PER_TOPIC),
            partitions=partitions,
            replication_factor=3,
            seed=1,
        )
        gc.collect()
        before = resident_bytes()
        self.figures: dict[str, object] = {"partitions": partitions, "brokers": brokers}
        taken = timed(
            lambda: self._start(KafkaCluster.from_layout(layout, seed=1, config=config, sends_batches=sends_batches))
        )
        self.figures["started"] = taken
        self.figures["resident_bytes_per_partition"] = round((resident_bytes() - before) / partitions, 1)
        self.cluster.run_for(settled_seconds)

    def _start(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster

    @property
    def zxid(self) -> int:
        return self.cluster.server.zxid

    def taken(self, name: str) -> dict[str, float]:
        """Return the milliseconds of wall and processor time of a measurement."""
        found = self.figures[name]
        assert isinstance(found, dict)
        return found

    def until_expired(self, broker: int) -> None:
        """Kill a broker, and stop when its session has expired, before anything else happens."""
        self.cluster.kill(broker)
        while broker in self.cluster.live_brokers:
            self.cluster.scheduler.run_next()

    def bring_back(self, broker: int) -> None:
        """Restart a killed broker, and assert that it is in sync again."""
        self._start_again(broker)
        self._check_in_sync(broker)

    def _start_again(self, broker: int) -> None:
        self.cluster.restart(broker)
        self.cluster.run_for(BOOT_SECONDS + self._settled_seconds)

    def _check_in_sync(self, broker: int) -> None:
        held = self.cluster.table.rows_with_replica(broker)
        assert (self.cluster.table.states(held).isr >= 0).all(), f"broker {broker} is in sync again"

    def broker_dies(self, rounds: int) -> None:
        taken: list[dict[str, float]] = []
        for broker in range(5, 6 + rounds):
            self.until_expired(broker)
            before = self.zxid
            taken.append(timed(lambda: self.cluster.run_for(self._settled_seconds)))
            writes = self.zxid - before
            assert not (self.cluster.table.leader == broker).any()
            self.bring_back(broker)
        self.figures["a_broker_dies"] = {"written": writes, **median(taken[1:])}

    def controller_dies(self) -> None:
        controller = self.cluster.controller
        assert controller is not None
        self.until_expired(controller)
        before = self.zxid
        taken = timed(lambda: self.cluster.run_for(max(1, self._settled_seconds)))
        assert self.cluster.controller not in (controller, None)
        assert not (self.cluster.table.leader == controller).any()
        self.figures["controller_dies"] = {"written": self.zxid - before, **taken}
        self.bring_back(controller)

    def rolling_restart(self, brokers: int) -> None:
        """Restart some brokers in turn, the controller last."""
        before, at_us = self.zxid, self.cluster.scheduler.now_us
        controller = self.cluster.controller
        assert controller is not None

        def restart(broker: int) -> None:
            self.cluster.shutdown(broker)
            while self.cluster.brokers[broker].alive:
                self.cluster.scheduler.run_next()
            self._start_again(broker)

        taken = {"cpu_ms": 0.0, "wall_ms": 0.0}
        for broker in (*(one for one in range(brokers) if one != controller), controller):
            for clock, one_ms in timed(lambda broker=broker: restart(broker)).items():  # type: ignore[misc]
                taken[clock] = round(taken[clock] + one_ms, 1)
            self._check_in_sync(broker)  # what it takes to look is not the cluster's
        virtual_s = round((self.cluster.scheduler.now_us - at_us) / 1e6, 1)
        assert (self.cluster.table.isr >= 0).all(), "every replica is in sync again"
        self.figures["rolling_restart"] = {
            "restarted": brokers,
            "written": self.zxid - before,
            "virtual_s": virtual_s,
            **taken,
        }


def timed(run: Callable[[], object]) -> dict[str, float]:
    """Return milliseconds of processor and wall time."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    run()
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    return {"cpu_ms": round(cpu_s * 1e3, 1), "wall_ms": round(wall_s * 1e3, 1)}


def median(taken: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(one[key] for one in taken), 1) for key in taken[0]}


def limits(partitions: int, brokers: int) -> dict[str, float]:
    """Measure one copy of the states of all partitions, and of the rows of one broker."""
    columns = [np.zeros((partitions, 3), np.int32), *(np.zeros(partitions, np.int32) for _ in range(4))]
    held = np.arange(0, partitions, max(1, brokers // 3))
    everything = median([timed(lambda: [column.copy() for column in columns]) for _ in range(5)])
    of_one = median([timed(lambda: [column.take(held, axis=0) for column in columns]) for _ in range(5)])
    return {"copy_all_cpu_ms": everything["cpu_ms"], "copy_what_a_broker_holds_cpu_ms": of_one["cpu_ms"]}


def figures_of(partitions: int, brokers: int, rounds: int) -> Figures:
    figures = Figures(partitions, brokers, sends_batches=True)
    figures.broker_dies(rounds)
    figures.controller_dies()
    figures.rolling_restart(brokers)
    return figures


def beside_single_requests(
    partitions: int, brokers: int, config: Mapping[str, int] | None = None
) -> dict[str, Figures]:
    """Return the same failures by batches and by single requests."""
    both = {
        name: Figures(partitions, brokers, sends_batches=batches, settled_seconds=SETTLED_SINGLY_SECONDS, config=config)
        for name, batches in {"by_batches": True, "by_single_requests": False}.items()
    }
    for figures in both.values():
        figures.broker_dies(1)
        figures.controller_dies()
    return both


def compare_with_single_requests(partitions: int, brokers: int) -> None:
    """Assert that batches leave the history, zxids and states that as many single requests leave."""
    with mock.patch.object(cluster_module, "LATENCY_US", EQUAL_LATENCY_US):
        batched, single = (figures.cluster for figures in beside_single_requests(partitions, brokers, AT_ONCE).values())
    assert [tuple(event) for event in batched.history] == [tuple(event) for event in single.history], "equal histories"
    assert batched.server.zxid == single.server.zxid, f"zxids {batched.server.zxid} and {single.server.zxid}"
    rows = np.arange(partitions, dtype=np.int32)
    same_rows = single.table.find_all(batched.table.partitions(rows))  # each table has an order of its own
    for column, expected in zip(batched.table.states(rows), single.table.states(same_rows), strict=True):
        assert np.array_equal(column, expected), "equal states"


def summary_figures(sizes: Mapping[str, Figures], bare: dict[str, float]) -> list[Figure]:
    """Return the figures of the largest cluster with their limits, and the slope."""
    largest, smaller = sizes["by_batches"], sizes["by_batches_at_a_tenth"]
    demanded = DEMANDED_MS if (largest.partitions, largest.brokers) == (1_000_000, 300) else {}
    limits_ms = {
        "a_broker_dies": Limit(bare["copy_what_a_broker_holds_cpu_ms"], "the states that it holds, copied once"),
        "controller_dies": Limit(bare["copy_all_cpu_ms"], "the states of all partitions, copied once"),
        "rolling_restart": Limit(
            round(bare["copy_what_a_broker_holds_cpu_ms"] * largest.brokers, 1),
            "the states that each broker holds, copied once for each",
        ),
    }
    found = []
    for name, words in EVENT_NAMES.items():
        for size in (largest, smaller):
            taken = size.taken(name)
            what = f"{words} at {size.partitions:,} partitions of {size.brokers}"
            limit, at_most = (limits_ms[name], demanded.get(name)) if size is largest else (None, None)
            found.append(Figure(f"{what}, wall", taken["wall_ms"], "ms", at_most, limit=limit))
            found.append(Figure(f"{what}, processor", taken["cpu_ms"], "ms"))
        per_partition = (largest.taken(name)["cpu_ms"] - smaller.taken(name)["cpu_ms"]) * 1e3
        per_partition /= max(1, largest.partitions - smaller.partitions)
        found.append(
            Figure(f"{words}: slope from the smaller to the larger", round(per_partition, 3), "us a partition")
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--singly", type=int, default=100_000)
    parser.add_argument("--brokers", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    bare = limits(options.partitions, options.brokers)
    sizes = {
        name: figures_of(partitions, options.brokers, options.rounds)
        for name, partitions in {
            "by_batches": options.partitions,
            "by_batches_at_a_tenth": options.partitions // 10,
        }.items()
    }
    details: dict[str, object] = {"numpy": np.__version__, "real_kafka": REAL_KAFKA, "limits": bare}
    details |= {name: figures.figures for name, figures in sizes.items()}
    if options.singly:
        compare_with_single_requests(options.singly // 10, options.brokers)
        singly = beside_single_requests(options.singly, options.brokers)
        details["singly"] = {name: figures.figures for name, figures in singly.items()}
        print(json.dumps(details["singly"], indent=2))
    write_figures("large_cluster", summary_figures(sizes, bare), details, options.json)


if __name__ == "__main__":
    main()
