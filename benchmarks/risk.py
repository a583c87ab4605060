"""`simzk risk` of a large layout, by assignment: the replica sets, the exact part of each, all topics.

    python -m benchmarks.risk [--json OUT] [--partitions N] [--rounds N]

A layout of 300 brokers in 3 racks, replication factor 3, 1,000 partitions a topic, under the default rates. All times
are of the processor; of each the median of the rounds. Beside the exact figures stands one copy of all their columns.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.figures import Figure, Limit, medians, write_figures
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.partitions.risk.alternatives import NAMES, alternative
from simzk.partitions.risk.assess import Assessor
from simzk.partitions.risk.cut_sets import cut_sets, replica_sets
from simzk.pipeline.risks import cluster_rates, rates_spec

BROKERS, RACKS, PARTITIONS_PER_TOPIC = 300, 3, 1000
DEMANDED_MS = 60_000
"""For a million partitions under four assignments: a minute of one core, not an evening."""


def figures(partitions: int, rounds: int) -> list[Figure]:
    """Return the times of the steps of each assignment and of all together."""
    topics = max(partitions // PARTITIONS_PER_TOPIC, 1)
    layout = generate_layout(
        brokers_in_racks(BROKERS, RACKS), topics=topics, partitions=partitions, replication_factor=3, seed=1
    )
    rates = cluster_rates(rates_spec(None, {}, {}), layout.brokers)
    figures: list[Figure] = []
    total_ms = 0.0
    for name in ("as-is", *NAMES):
        replicas = layout.replicas if name == "as-is" else alternative(layout, name, 0)
        sets = replica_sets(layout.brokers, topics, layout.topic, replicas)
        cuts = cut_sets(rates.outage, sets.places)

        def assess() -> None:
            assessor = Assessor(rates, sets)  # noqa: B023 - it is called before the next round
            assessor.cluster()
            for topic in range(topics):
                assessor.topic(topic)

        taken = medians(
            {
                "sets": lambda: replica_sets(layout.brokers, topics, layout.topic, replicas),  # noqa: B023
                "exact": lambda: cut_sets(rates.outage, sets.places),  # noqa: B023
                "copied": lambda: [column.copy() for column in cuts],  # noqa: B023
                "all_topics": assess,
            },
            rounds,
        )
        cpu_ms = {step: times["cpu_ms"] for step, times in taken.items()}
        limit = Limit(cpu_ms["copied"], f"one copy of the columns of {len(sets.places):,} sets")
        figures += [
            Figure(f"{name}_sets", cpu_ms["sets"], "ms"),
            Figure(f"{name}_exact", cpu_ms["exact"], "ms", limit=limit),
            Figure(f"{name}_all_topics", cpu_ms["all_topics"], "ms"),
        ]
        total_ms += cpu_ms["sets"] + cpu_ms["all_topics"]
    return [*figures, Figure("together", round(total_ms, 3), "ms", DEMANDED_MS * partitions / 1_000_000)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    write_figures("risk", figures(options.partitions, options.rounds), {"partitions": options.partitions}, options.json)


if __name__ == "__main__":
    main()
