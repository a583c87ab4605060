"""Failures of a simulated cluster: virtual time against a real cluster's, and wall time.

    python -m benchmarks.kafka_failover [--json OUT] [--stories]

Two topics of 1,000 partitions, replication factor 3, on three brokers of Kafka 3.9, with the costs of
`simzk.kafka.cluster.cost_model.MEASURED`, live through the events of the real cluster of `kafka_3_9_1_measured.json`:
a broker dies, the controller fails over, the controller's broker dies, the controller's broker is shut down. Virtual
times count as there, from the expiry of the session (or from the event, where none expires) to the first and the last
state written, and to the new controller's being ready. Then the same with one topic, and what it takes this machine.
With `--stories` the recorded story of each release is played, from the empty tree, and timed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import machine
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.cluster.cost_model import MEASURED
from simzk.kafka.zookeeper_mode import paths
from simzk.zookeeper.transactions import CreateTxn, MultiTxn, SetDataTxn

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.transactions import Transaction

FIGURES = Path(__file__).with_name("kafka_3_9_1_measured.json")
CONFIG = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": False}
Figures = dict[str, float]


class Watch:
    """Times of state writes and session expiries, in virtual microseconds."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self.states_us: list[int] = []
        cluster.server.on_transaction.append(self._see)

    def _see(self, transaction: Transaction) -> None:
        record = transaction.record
        parts = record.records if isinstance(record, MultiTxn) else (record,)
        for part in parts:
            if isinstance(part, SetDataTxn | CreateTxn) and paths.state_partition(part.path) is not None:
                self.states_us.append(self._cluster.scheduler.now_us)


def measure(cluster: KafkaCluster, act: Callable[[], object], after: str) -> tuple[Figures, float]:
    """Measure an event in virtual seconds from the event `after` on (empty: from now) and in wall seconds."""
    watch, seen, begun_us = Watch(cluster), len(cluster.history), cluster.scheduler.now_us
    begun_s = time.perf_counter()
    act()
    cluster.run_for(15)
    wall_s = time.perf_counter() - begun_s
    events = list(cluster.history)[seen:]
    if after:
        begun_us = next(event.at_us for event in events if event.what == after)
    figures: Figures = {"state_writes": len(watch.states_us)}
    if watch.states_us:
        figures["first state written"] = (watch.states_us[0] - begun_us) / 1e6
        figures["last state written"] = (watch.states_us[-1] - begun_us) / 1e6
    ready = [event.at_us for event in events if event.what == "ready"]
    if ready:
        figures["ready"] = (ready[0] - begun_us) / 1e6
    cluster.run_until_quiet()
    return figures, wall_s


def failures(topics: int, partitions: int) -> dict[str, tuple[Figures, float]]:
    """Measure all events in turn on one cluster; a broker that died is started again."""
    cluster = KafkaCluster("3.9", 3, config=CONFIG, tick_time_ms=500, cost_model=MEASURED)
    for number in range(topics):
        assignment = {p: [1 + (p + shift) % 3 for shift in range(3)] for p in range(partitions)}
        cluster.create_topic(f"big{number}", assignment=assignment)
    cluster.run_until_quiet()

    def back(broker: int) -> None:
        cluster.restart(broker)
        cluster.run_until_quiet()

    taken = {}
    first = cluster.controller
    assert first is not None
    other = 1 + first % 3
    third = 6 - first - other
    taken["a broker dies"] = measure(cluster, lambda: cluster.kill(other), "registration gone")
    back(other)
    cluster.prefer_controller(third)  # as in the real run: one that has lost no leaders yet
    taken["the controller fails over"] = measure(
        cluster, lambda: cluster.delete_znode(paths.CONTROLLER), "controller gone"
    )
    cluster.prefer_controller(first)
    taken["the controller's broker dies"] = measure(cluster, lambda: cluster.kill(third), "registration gone")
    back(third)
    taken["the controller's broker is shut down"] = measure(cluster, lambda: cluster.shutdown(first), "")
    cluster.close()
    return taken


def stories() -> dict[str, float]:
    """Return the processor seconds of the recorded story of each release, from the empty tree to its end."""
    from tests.kafka.recorded_story import RELEASES, Story, play

    taken = {}
    for release in RELEASES:
        story = Story(release)
        steps, paces = story.steps, story.paces_s  # reading the recording is not part of it
        with story.empty_cluster() as cluster:
            begun_s = time.process_time()
            for name, act in steps:
                play(cluster, act, paces[name])
            taken[release] = time.process_time() - begun_s
    return taken


def show(taken: dict[str, tuple[Figures, float]], measured: dict[str, Figures]) -> None:
    for event, (figures, wall_s) in taken.items():
        print(f"{event}: {wall_s:.2f} s of this machine, {figures['state_writes']:,.0f} states written")
        for name, value_s in figures.items():
            if name != "state_writes":
                real = measured.get(event, {}).get(name)
                beside = "" if real is None else f"   real {real:6.2f} s"
                print(f"    {name:22}{value_s:6.2f} s{beside}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--stories", action="store_true", help="play the recorded stories, too")
    options = parser.parse_args()
    real = json.loads(FIGURES.read_text())
    measured = {event["event"]: event for event in real["events"]}
    print(machine())
    print(f"real: Kafka {real['kafka']}, {real['machine']}\n")
    print("2 topics of 1,000 partitions")
    two = failures(real["topics"], real["partitions"])
    show(two, measured)
    print("\n1 topic of 1,000 partitions")
    one = failures(1, 1000)
    show(one, {})
    document: dict[str, object] = {"machine": machine(), "2,000 partitions": two, "1,000 partitions": one}
    if options.stories:
        document["stories"] = taken = stories()
        print("\nrecorded stories, processor time")
        for release, taken_s in taken.items():
            print(f"    Kafka {release:10}{taken_s:6.2f} s")
    if options.json:
        options.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
