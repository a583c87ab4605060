"""Simulated seconds per second of one core: three brokers, random faults, producers with acks of all, every invariant.

    python -m benchmarks.records [--json OUT] [--seeds N] [--minutes N]

Each seed plays the drawn faults of `[faults]` on three brokers with 30 partitions of three replicas, while ten
producers send a batch a second each, and every invariant is checked at every event. The same runs without producers are
measured too. The figures are medians over the seeds, of processor time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Figure, write_figures
from simzk.scenarios.faults.plan import FaultPlan
from simzk.scenarios.faults.traffic import Produce
from simzk.scenarios.player import Play, setting_of
from simzk.scenarios.reader import Scenario, read_scenario
from simzk.simulation import RandomStream

SCENARIO = """
title = "Three brokers"
why = "A benchmark."
[cluster]
version = "3.9"
brokers = 3
config = { "replica.fetch.wait.max.ms" = 500 }
[[step]]
at = "5s"
action = "create_topic"
topic = "orders"
partitions = 30
replication_factor = 3
[[step]]
within = "10s"
expect = "whole"
[faults]
safety = "{minutes}m"
liveness = "2m"
"""
PRODUCERS, PARTITIONS = 10, 30
LEAST_RATE = 2_000


class Measured(NamedTuple):
    """One run: simulated seconds, processor seconds, events of the history, and acknowledged records."""

    simulated_s: float
    cpu_s: float
    events: int
    acknowledged: int

    @property
    def rate(self) -> float:
        """Simulated seconds per second of one core."""
        return self.simulated_s / self.cpu_s


def plan_of(scenario: Scenario, seed: int, producers: int) -> FaultPlan:
    """Return the faults of a seed, with producers from the first to the last."""
    assert scenario.faults is not None
    plan = FaultPlan.draw(partial(RandomStream, seed), scenario.faults, setting_of(scenario, ""))
    lasts = f"{plan.safety_us // 1_000_000}s"
    clients = [
        Produce(
            kind=Produce.name,
            at=f"{number * 100}ms",
            partition=f"orders-{number * PARTITIONS // PRODUCERS}",
            acks="all",
            gap="1s",
            retries=3,
            duration=lasts,
        )
        for number in range(producers)
    ]
    return plan.with_faults((*plan.faults, *clients))


def measure(scenario: Scenario, seed: int, producers: int) -> Measured:
    """Play one run."""
    with closing(Play(scenario, seed=seed, plan=plan_of(scenario, seed, producers))) as play:
        begun_s = time.process_time()
        play.run()
        cpu_s = time.process_time() - begun_s
        assert play.held, (seed, play.crash, play.violations)
        ledger = play.cluster.record_ledger
        return Measured(play.cluster.scheduler.now_us / 1e6, cpu_s, len(play.history), ledger.acknowledged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.toml"
        path.write_text(SCENARIO.replace("{minutes}", str(options.minutes)), encoding="utf-8")
        scenario = read_scenario(path)
        runs = {
            name: [measure(scenario, seed, producers) for seed in range(1, options.seeds + 1)]
            for name, producers in (("with_producers", PRODUCERS), ("without_producers", 0))
        }
    rates = {name: round(statistics.median(run.rate for run in found)) for name, found in runs.items()}
    judged = [
        Figure("with_producers", rates["with_producers"], "simulated seconds a second", at_least=LEAST_RATE),
        Figure("without_producers", rates["without_producers"], "simulated seconds a second"),
    ]
    write_figures(
        "records", judged, {name: [run._asdict() for run in found] for name, found in runs.items()}, options.json
    )


if __name__ == "__main__":
    main()
