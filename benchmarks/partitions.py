"""The partition table at a million partitions, each figure beside its physical limit and beside a naive way.

    python -m benchmarks.partitions [--json OUT] [--rounds N] [--partitions N]

One broker of 300 fails (replication factor 3, 3 racks): what changes is computed, then applied. Beside it stand the
time that reading the columns concerned once takes, and the same rules over all rows without the index. The failure is
repeated in clusters of other sizes: its cost follows what the broker holds. Once it is taken with warm caches, once
after other data has been read. The arms of a group take turns, and of each the median of its rounds counts, so that a
machine that is busy for a while slows all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.machine import machine
from simzk.partitions.arrays import broker_mask, pack
from simzk.partitions.assignment import assign_topic, assign_topics
from simzk.partitions.broker_index import BrokerIndex
from simzk.partitions.elections import elect_offline
from simzk.partitions.failures import Failure, broker_failure, fail_brokers
from simzk.partitions.java_random import JavaRandom
from simzk.partitions.states import States
from simzk.partitions.table import PartitionTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.arrays import IntArray

PARTITIONS_PER_TOPIC = 100
RACKS = 3
FAILED = 5
CACHE_BYTES_MAX = 128 * 2**20

Arms = dict[str, "Callable[[], object]"]


def rack_of(brokers: int) -> dict[int, str]:
    return {broker: f"rack-{broker % RACKS}" for broker in range(brokers)}


def medians_ms(arms: Arms, rounds: int) -> dict[str, float]:
    """The arms in turn, `rounds` times after one that does not count; milliseconds, the median of each."""
    taken_ms: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(rounds + 1):
        for name, run in arms.items():
            begun_s = time.perf_counter()
            run()
            if turn > 0:
                taken_ms[name].append((time.perf_counter() - begun_s) * 1e3)
    return {name: round(statistics.median(taken), 3) for name, taken in taken_ms.items()}


def columns(partitions: int, brokers: int) -> tuple[list[str], IntArray, IntArray, IntArray, States]:
    """Topics of 100 partitions, all replicas in sync, the preferred replica leading."""
    topics = partitions // PARTITIONS_PER_TOPIC
    counts = [PARTITIONS_PER_TOPIC] * topics
    replicas = assign_topics(range(brokers), rack_of(brokers), counts, 3, random=JavaRandom(1))
    zeros = np.zeros(len(replicas), dtype=np.int32)
    states = States(replicas[:, 0].copy(), zeros, replicas, zeros + 1, zeros, np.zeros(len(replicas), dtype=np.bool_))
    topic = np.repeat(np.arange(topics, dtype=np.int32), PARTITIONS_PER_TOPIC)
    partition = np.tile(np.arange(PARTITIONS_PER_TOPIC, dtype=np.int32), topics)
    return [f"topic-{number}" for number in range(topics)], topic, partition, replicas, states


def read_once(table: PartitionTable) -> list[int]:
    """Every value of the columns that a failure concerns, read once."""
    return [int(column.max()) for column in (table.replicas, table.isr, table.leader, table.leader_epoch)]


def failure_arms(table: PartitionTable, brokers: int) -> Arms:
    live = broker_mask(broker for broker in range(brokers) if broker != FAILED)
    failure = fail_brokers(table, [FAILED], live, controller_epoch=2)
    every_row = table.rows()

    def computed() -> Failure:
        return fail_brokers(table, [FAILED], live, controller_epoch=2)

    def computed_and_applied() -> None:
        found = computed()
        table.apply(found.rows, found.after)

    def without_the_index() -> object:
        return broker_failure(table.replicas, table.states(every_row), [FAILED], live, controller_epoch=2)

    def undone() -> None:
        table.apply(failure.rows, failure.before)

    other_data = np.zeros(CACHE_BYTES_MAX // 8)
    return {
        "undone": undone,
        "computed": computed,
        "computed_and_applied": computed_and_applied,
        "undone_again": undone,
        "other_data_read": other_data.sum,
        "computed_and_applied_with_cold_caches": computed_and_applied,
        "limit_rows_held_read_once": lambda: (table.replicas.take(failure.rows, axis=0), table.states(failure.rows)),
        "limit_columns_read_once": lambda: read_once(table),
        "naive_scan_for_rows": lambda: np.flatnonzero((table.replicas == FAILED).any(axis=1)),
        "naive_rules_over_all_rows": without_the_index,
    }


def failure_figures(partitions: int, brokers: int, rounds: int) -> dict[str, float]:
    table = PartitionTable.from_columns(*columns(partitions, brokers))
    held = len(table.rows_with_replica(FAILED))
    taken_ms = medians_ms(failure_arms(table, brokers), rounds)
    aside = ("undone", "undone_again", "other_data_read")
    shown_ms = {name: taken for name, taken in taken_ms.items() if name not in aside}
    return {"partitions": partitions, "brokers": brokers, "held": held} | shown_ms


def building_figures(partitions: int, rounds: int) -> dict[str, float]:
    racks = rack_of(300)
    counts = [PARTITIONS_PER_TOPIC] * (partitions // PARTITIONS_PER_TOPIC)
    parts = columns(partitions, 300)
    replicas = parts[3]
    return medians_ms(
        {
            "assign_rack_aware_many_topics": lambda: assign_topics(range(300), racks, counts, 3, random=JavaRandom(1)),
            "assign_rack_aware_one_topic": lambda: assign_topic(range(300), racks, partitions, 3, random=JavaRandom(1)),
            "limit_replicas_written_once": replicas.copy,
            "table_from_columns": lambda: PartitionTable.from_columns(*parts),
            "limit_columns_written_once": lambda: [column.copy() for column in (*parts[1:4], *parts[4])],
            "index": lambda: BrokerIndex(replicas),
            "limit_index_sort_of_replicas": lambda: replicas.ravel().astype(np.uint16).argsort(kind="stable"),
        },
        rounds,
    )


def memory_figures(partitions: int) -> dict[str, float]:
    """Bytes per partition: the columns, the index, and whatever else the table keeps (names, rows of topics)."""
    parts = columns(partitions, 300)
    tracemalloc.start()
    table = PartitionTable.from_columns(*parts)
    table_bytes, _ = tracemalloc.get_traced_memory()
    column_bytes = table.nbytes
    table.rows_with_replica(FAILED)
    with_index_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "columns": round(column_bytes / partitions, 1),
        "columns_and_topics": round(table_bytes / partitions, 1),
        "with_index": round(with_index_bytes / partitions, 1),
    }


def small_figures(rounds: int) -> dict[str, float]:
    """What a controller pays for three partitions: microseconds a call, beside ten of numpy's cheapest calls."""
    replicas, live = pack([[1, 2, 3]] * 3), broker_mask([2, 3])
    flags = np.zeros(3, dtype=np.bool_)
    calls = 1000
    arms: Arms = {
        "elect_offline": lambda: [elect_offline(replicas, replicas, live, False) for _ in range(calls)],
        "ten_numpy_calls": lambda: [np.logical_not(flags) for _ in range(10 * calls)],
    }
    return {f"{name}_us": round(taken_ms * 1e3 / calls, 2) for name, taken_ms in medians_ms(arms, rounds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    options = parser.parse_args()
    figures = {
        "machine": machine(),
        "numpy": np.__version__,
        "one_broker_fails_ms": failure_figures(options.partitions, 300, options.rounds),
        "cost_follows_what_is_held_ms": [
            failure_figures(options.partitions, brokers, options.rounds) for brokers in (30, 3_000)
        ]
        + [failure_figures(options.partitions // 10, 30, options.rounds)],
        "building_ms": building_figures(options.partitions, max(options.rounds // 3, 1)),
        "bytes_per_partition": memory_figures(options.partitions),
        "three_partitions": small_figures(options.rounds),
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
