"""Evaluation of a reassignment plan that moves every partition of a large layout, from the document to the last figure.

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
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.figures import Figure, Limit, medians, write_figures
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode.tools import plan_documents as plans
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.partitions.plans.what_if import PlanWhatIf, report

if TYPE_CHECKING:
    from simzk.partitions.layouts import Layout

BROKERS, RACKS, PARTITIONS_PER_TOPIC = 300, 3, 100
DEMANDED_MS = 12_000
"""For a million partitions, all of it: seconds, not minutes, on one core."""
VERSION = kafka_version("3.9")


def document(layout: Layout) -> str:
    """Return a plan that moves every second and third replica."""
    target = (layout.replicas + np.array([0, 3, 6], np.int32)) % BROKERS
    columns = zip(layout.topic.tolist(), layout.partition.tolist(), target.tolist(), strict=True)
    entries = [
        {"topic": layout.topics[topic], "partition": number, "replicas": replicas}
        for topic, number, replicas in columns
    ]
    return json.dumps({"version": 1, "partitions": entries}, separators=(",", ":"))


def figures(partitions: int, rounds: int) -> list[Figure]:
    """Return the times of the steps and of all together."""
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

    taken = medians(
        {
            "document_read": lambda: plans.read_plan(layout, text, VERSION),
            "json_loads": lambda: json.loads(text),
            "phases_computed": lambda: PlanWhatIf(layout, plan),
            "columns_copied": copied,
            "summed_up": lambda: report(found),
        },
        rounds,
    )
    cpu_ms = {name: times["cpu_ms"] for name, times in taken.items()}
    limits = {
        "document_read": Limit(cpu_ms["json_loads"], "json.loads of the same text"),
        "phases_computed": Limit(cpu_ms["columns_copied"], "one copy of all columns of the phases"),
    }
    steps = ("document_read", "phases_computed", "summed_up")
    figures = [Figure(name, cpu_ms[name], "ms", limit=limits.get(name)) for name in steps]
    demanded_ms = DEMANDED_MS * partitions / 1_000_000
    return [*figures, Figure("together", round(sum(cpu_ms[name] for name in steps), 3), "ms", demanded_ms)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    gc.disable()
    details = {"partitions": options.partitions}
    write_figures("plans", figures(options.partitions, options.rounds), details, options.json)


if __name__ == "__main__":
    main()
