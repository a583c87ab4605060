"""Runs of the swarm with producers: the faults of a seed, records while they strike, every invariant.

python -m tests.canaries.swarm [--scenario NAME] [--version V] [--seeds FIRST LAST] [--all]   # until a seed fails
"""

from __future__ import annotations

import argparse
import contextlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.cluster.producer import Acks
    from simzk.scenarios.reader import Scenario

_SHIPPED = Path(__file__).parents[2] / "scenarios"
SCENARIOS = {name: Path(__file__).with_name(f"{name}.toml") for name in ("swarm", "controllers")} | {
    "clients": _SHIPPED / "anything_breaks_clients.toml"
}
MEAN_GAP_US = 250_000
"""Mean time between two batches of all producers."""
TIMEOUT_MS = 10_000
STALE_IN = 4
"""One in so many requests goes to any broker, as that of a producer with old metadata."""
LEADER_ACKS_IN = 6
"""One in so many requests asks for acks of the leader only."""


class Producers:
    """Producers that send records from the first step on to the end of the run, drawn from the seed.

    Args:
        cluster: the cluster.
        partitions: number of partitions by topic.
        mean_gap_us: virtual time from one batch to the next, on average.
    """

    def __init__(self, cluster: KafkaCluster, partitions: dict[str, int], mean_gap_us: int = MEAN_GAP_US) -> None:
        self._cluster, self._mean_gap_us = cluster, mean_gap_us
        self._partitions = [(topic, number) for topic, count in partitions.items() for number in range(count)]
        self._stream = cluster.scheduler.stream("producers")
        self._wait()

    def _wait(self) -> None:
        self._cluster.scheduler.call_later(self._stream.between(1_000, 2 * self._mean_gap_us), "producers", self._send)

    def _send(self) -> None:
        cluster, stream = self._cluster, self._stream
        topic, partition = self._partitions[stream.below(len(self._partitions))]
        brokers = list(cluster.brokers)
        broker = brokers[stream.below(len(brokers))] if not stream.below(STALE_IN) else None
        acks: Acks = 1 if not stream.below(LEADER_ACKS_IN) else "all"
        records = stream.between(1, 3)
        with contextlib.suppress(SimzkError):  # the topic does not exist now
            cluster.produce(topic, partition, records, acks=acks, timeout_ms=TIMEOUT_MS, broker=broker)
        self._wait()


def play(scenario: Scenario, seed: int, version: str = "") -> Play:
    """Play a scenario with one seed to its end, and return it, closed."""
    run = Play(scenario, seed=seed, version=version)
    with closing(run):
        if run.plan is None or not run.plan.has_clients:  # records without content have no values to judge
            Producers(run.cluster, scenario.topics)
        run.run()
    return run


def failures(run: Play) -> Iterator[str]:
    """Yield what failed in a run: a crash of the simulation, violated invariants, expectations."""
    if run.crash is not None:
        yield f"crash: {run.crash.what}"
    yield from (f"{one.invariant}: {one.detail}" for one in run.violations)
    yield from (f"{verdict.name}: {'; '.join(verdict.failures)}" for verdict in run.verdicts if not verdict.held)


def main() -> int:
    """Play seeds until one fails; return 1 if one did."""
    parser = argparse.ArgumentParser(description="Play the swarm with producers.")
    parser.add_argument("--scenario", choices=SCENARIOS, default="swarm")
    parser.add_argument("--version", default="")
    parser.add_argument("--seeds", nargs=2, type=int, default=(1, 1), metavar=("FIRST", "LAST"))
    parser.add_argument("--all", action="store_true", help="go on after a seed that fails")
    arguments = parser.parse_args()
    first, last = arguments.seeds
    scenario = read_scenario(SCENARIOS[arguments.scenario])
    status = 0
    for seed in range(first, last + 1):
        for failure in failures(play(scenario, seed, arguments.version)):
            print(f"seed {seed}: {failure}", flush=True)
            status = 1
        if status and not arguments.all:
            break
    return status


if __name__ == "__main__":
    raise SystemExit(main())
