"""What a reassignment plan that moves every partition of a large layout would do: from the document to the last figure.

    python -m benchmarks.plans [--json OUT] [--partitions N] [--rounds N]

A layout of 300 brokers in 3 racks, replication factor 3, 100 partitions a topic; the plan gives each partition two new
replicas. Its steps are measured one by one: the document is read and refused as Kafka's tool would, what happens is
computed, phase by phase, and summed up. Beside reading stands `json.loads` of the same text, beside the phases one copy
of all the columns that they hold. All times are of the processor, without the garbage collector, as `simzk layout plan`
works; of each the median of the rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.machine import machine
from benchmarks.verdict import verdict
from simzk.kafka import plans
from simzk.kafka.versions import kafka_version
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.partitions.plan_report import report
from simzk.partitions.plan_what_if import PlanWhatIf

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.layouts import Layout

BROKERS, RACKS, PARTITIONS_PER_TOPIC = 300, 3, 100
DEMANDED_S = 12.0
"""For a million partitions, all of it: seconds, not minutes, on one core."""
VERSION = kafka_version("3.9")


def document(layout: Layout) -> str:
    """A plan that moves every second and third replica."""
    target = (layout.replicas + np.array([0, 3, 6], np.int32)) % BROKERS
    columns = zip(layout.topic.tolist(), layout.partition.tolist(), target.tolist(), strict=True)
    entries = [
        {"topic": layout.topics[topic], "partition": number, "replicas": replicas}
        for topic, number, replicas in columns
    ]
    return json.dumps({"version": 1, "partitions": entries}, separators=(",", ":"))


def figures(partitions: int, rounds: int) -> dict[str, float]:
    """Seconds of the processor, by step."""
    layout = generate_layout(
        brokers_in_racks(BROKERS, RACKS),
        topics=max(partitions // PARTITIONS_PER_TOPIC, 1),
        partitions=partitions,
        replication_factor=3,
        seed=1,
    )
    text = document(layout)
    plan = plans.read_plan(layout, text, VERSION)
    found = PlanWhatIf(layout, plan)

    def copied() -> list[object]:
        return [column.copy() for phase in found.phases.phases for column in (*phase.assignment, *phase.states)]

    steps: dict[str, Callable[[], object]] = {
        "document_read": lambda: plans.read_plan(layout, text, VERSION),
        "beside_json_loads": lambda: json.loads(text),
        "phases_computed": lambda: PlanWhatIf(layout, plan),
        "beside_columns_copied": copied,
        "summed_up": lambda: report(found),
    }
    return {name: _median_s(step, rounds) for name, step in steps.items()}


def _median_s(step: Callable[[], object], rounds: int) -> float:
    taken_s = []
    for _ in range(rounds):
        gc.collect()
        begun_s = time.process_time()
        step()
        taken_s.append(time.process_time() - begun_s)
    return round(statistics.median(taken_s), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    gc.disable()
    taken_s = figures(options.partitions, options.rounds)
    total_s = round(taken_s["document_read"] + taken_s["phases_computed"] + taken_s["summed_up"], 3)
    demanded_s = DEMANDED_S * options.partitions / 1_000_000
    print(machine())
    for name, value in taken_s.items():
        print(f"{name:24}{value:10.3f} s")
    print(f"{'together':24}{total_s:10.3f} s {verdict(f'{demanded_s:g} s', total_s <= demanded_s)}")
    if options.json:
        result = {
            "machine": machine(),
            "numpy": np.__version__,
            "partitions": options.partitions,
            "processor_s": taken_s,
            "together_s": total_s,
            "demanded_s": demanded_s,
            "holds": total_s <= demanded_s,
        }
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
