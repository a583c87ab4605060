"""The partition table at a million partitions and at ten, each figure beside its physical limit and beside a naive way.

    python -m benchmarks.partitions [--json OUT] [--rounds N] [--partitions N] [--large N]

One broker of 300 fails (replication factor 3, 3 racks): elections and ISR changes are computed, and applied. Beside it
stand what it takes to read and write the same bytes of the same rows once, by numpy's barest means; the same with a
column for each number; a scan of all rows; and the same rules over all rows without the index. The failure is repeated
in clusters of other sizes: its cost follows what the broker holds. Once it is taken with warm caches, once after other
data has been read. The arms of a group take turns, and of each the median of its rounds counts. Times are of the
processor, so that a busy machine shows the same; those of the wall stand beside them in the file.
"""

from __future__ import annotations

import argparse
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.figures import Figure, Limit, medians, write_figures
from simzk.jvm.numbers import JavaRandom
from simzk.partitions.arrays import broker_mask, pack
from simzk.partitions.assignment import assign_topics
from simzk.partitions.states import States
from simzk.partitions.table import BrokerIndex, PartitionTable
from simzk.partitions.transitions import elect_offline
from tests.partitions.operations import (
    begin_reassignments,
    bounce_brokers,
    broker_failure,
    fail_brokers,
    rebalance_leaders,
    shrink_isrs,
    shut_down_broker,
    start_brokers,
    table_of_columns,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.arrays import IntArray
    from tests.partitions.operations import Change

PARTITIONS_PER_TOPIC = 100
RACKS = 3
FAILED = 5
CACHE_BYTES_MAX = 128 * 2**20

BUILT_MS_AT_MOST = 1_000
FAILED_MS_AT_MOST_BY_PARTITIONS = {1_000_000: 2, 10_000_000: 20}
RECORD_WORDS = 11

Arms = dict[str, "Callable[[], object]"]
Times = dict[str, dict[str, float]]


def rack_of(brokers: int) -> dict[int, str]:
    return {broker: f"rack-{broker % RACKS}" for broker in range(brokers)}


def columns(partitions: int, brokers: int) -> tuple[list[str], IntArray, IntArray, IntArray, States]:
    """Return topics of 100 partitions, all replicas in sync, led by the preferred replica."""
    topics = partitions // PARTITIONS_PER_TOPIC
    counts = [PARTITIONS_PER_TOPIC] * topics
    replicas = assign_topics(range(brokers), rack_of(brokers), counts, 3, random=JavaRandom(1))
    zeros = np.zeros(len(replicas), dtype=np.int32)
    states = States(replicas[:, 0].copy(), zeros, replicas, zeros + 1, zeros, np.zeros(len(replicas), dtype=np.bool_))
    topic = np.repeat(np.arange(topics, dtype=np.int32), PARTITIONS_PER_TOPIC)
    partition = np.tile(np.arange(PARTITIONS_PER_TOPIC, dtype=np.int32), topics)
    return [f"topic-{number}" for number in range(topics)], topic, partition, replicas, states


def bare_arms(partitions: int, rows: IntArray) -> Arms:
    """Return arms that move the bytes of some rows: as records, as a failure does, and as columns."""
    words = np.ones((partitions, RECORD_WORDS), dtype=np.int32)
    records = words.view(np.dtype((np.void, 4 * RECORD_WORDS)))[:, 0]
    replicas, isr = np.ones((partitions, 3), np.int32), np.ones((partitions, 3), np.int32)
    state = [isr, *(np.ones(partitions, np.int32) for _ in range(5))]

    def as_records() -> None:
        records[rows] = records.take(rows)

    def as_columns() -> None:
        replicas.take(rows, axis=0)
        for column in state:
            column[rows] = column.take(rows, axis=0)

    return {"limit_rows_read_and_written": as_records, "rows_read_and_written_as_columns": as_columns}


def failure_arms(table: PartitionTable, brokers: int) -> Arms:
    live = broker_mask(broker for broker in range(brokers) if broker != FAILED)
    failure = fail_brokers(table, [FAILED], live, controller_epoch=2)
    every_row = table.rows()
    other_data = np.zeros(CACHE_BYTES_MAX // 8)

    def computed() -> Change:
        return fail_brokers(table, [FAILED], live, controller_epoch=2)

    def computed_and_applied() -> None:
        found = computed()
        table.apply(found.rows, found.after)

    def without_the_index() -> object:
        return broker_failure(*table.replicas_and_states(every_row), [FAILED], live, controller_epoch=2)

    def undone() -> None:
        table.apply(failure.rows, failure.before)

    bare = bare_arms(len(table), failure.rows)
    return {
        "undone": undone,
        "computed": computed,
        "computed_and_applied": computed_and_applied,
        "undone_again": undone,
        "other_data_read": other_data.sum,
        "computed_and_applied_with_cold_caches": computed_and_applied,
        **bare,
        "other_data_read_again": other_data.sum,
        **{f"{name}_with_cold_caches": run for name, run in bare.items()},
        "naive_scan_for_rows": lambda: np.flatnonzero((table.replicas == FAILED).any(axis=1)),
        "naive_rules_over_all_rows": without_the_index,
    }


class Failing:
    """Failure of one broker in a cluster of some size."""

    def __init__(self, partitions: int, brokers: int, rounds: int) -> None:
        table = table_of_columns(*columns(partitions, brokers))
        self.partitions, self.brokers = partitions, brokers
        self.held = len(table.rows_with_replica(FAILED))
        self.times = medians(failure_arms(table, brokers), rounds)

    @property
    def us_a_row(self) -> float:
        """Return the microseconds of processor time per row of the broker."""
        return round(self.times["computed_and_applied"]["cpu_ms"] * 1e3 / self.held, 3)

    def figures(self) -> list[Figure]:
        """Return the warm and cold times with their limits."""
        return [
            Figure(
                f"one broker of {self.brokers} fails at {self.partitions:,} partitions, {self.held:,} held, {caches}",
                self.times[f"computed_and_applied{suffix}"]["cpu_ms"],
                "ms",
                FAILED_MS_AT_MOST_BY_PARTITIONS.get(self.partitions),
                limit=Limit(
                    self.times[f"limit_rows_read_and_written{suffix}"]["cpu_ms"],
                    "its rows read and written once, by numpy alone; with a column for each number "
                    f"{self.times[f'rows_read_and_written_as_columns{suffix}']['cpu_ms']:g} ms",
                ),
            )
            for caches, suffix in (("warm caches", ""), ("cold caches", "_with_cold_caches"))
        ]

    def details(self) -> dict[str, object]:
        """Return the times of all arms."""
        return {"partitions": self.partitions, "brokers": self.brokers, "held": self.held, **self.times}


def slope(failing: list[Failing]) -> list[Figure]:
    """Return the time per replica row of the failed broker, for clusters of all sizes."""
    return [
        Figure(f"a row held, of {one.held:,} by one of {one.brokers:,} at {one.partitions:,}", one.us_a_row, "us")
        for one in sorted(failing, key=lambda one: (one.held, one.partitions))
    ]


def operation_times(partitions: int, rounds: int) -> Times:
    """Return the times of other operations: of one broker of 300, and of the controller over all rows."""
    table = table_of_columns(*columns(partitions, 300))
    everyone, others = broker_mask(range(300)), broker_mask(broker for broker in range(300) if broker != FAILED)
    held = table.rows_with_replica(FAILED)
    target = np.roll(table.replicas_at(held), 1, axis=1)
    lost = fail_brokers(table, [FAILED], others, controller_epoch=2)
    arms: Arms = {
        "bounces": lambda: bounce_brokers(table, [FAILED], everyone, controller_epoch=2),
        "shuts_down_in_order": lambda: shut_down_broker(table, FAILED, everyone, controller_epoch=2),
        "its_partitions_are_reassigned": lambda: begin_reassignments(table, held, target, controller_epoch=2),
        "fails": lambda: table.apply(lost.rows, lost.after),
        "starts": lambda: start_brokers(table, [FAILED], everyone, controller_epoch=2),
        "its_leaders_shrink_isrs": lambda: shrink_isrs(table, held, table.replicas_at(held)[:, 2:]),
        "preferred_leaders_of_all_rows": lambda: rebalance_leaders(table, everyone, controller_epoch=2),
        "undone": lambda: table.apply(lost.rows, lost.before),
    }
    return medians(arms, rounds)


def building_times(partitions: int, rounds: int) -> Times:
    racks = rack_of(300)
    counts, whole = [PARTITIONS_PER_TOPIC] * (partitions // PARTITIONS_PER_TOPIC), [partitions]
    parts = columns(partitions, 300)
    replicas = parts[3]
    return medians(
        {
            "assign_rack_aware_many_topics": lambda: assign_topics(range(300), racks, counts, 3, random=JavaRandom(1)),
            "assign_rack_aware_one_topic": lambda: assign_topics(range(300), racks, whole, 3, random=JavaRandom(1)),
            "limit_replicas_written_once": replicas.copy,
            "table_from_columns": lambda: table_of_columns(*parts),
            "assigned_and_built": lambda: table_of_columns(*columns(partitions, 300)),
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
    table = table_of_columns(*parts)
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


def small_times(rounds: int) -> Times:
    """Return the time of an election of three partitions beside ten of numpy's cheapest calls."""
    replicas, live = pack([[1, 2, 3]] * 3), broker_mask([2, 3])
    flags = np.zeros(3, dtype=np.bool_)
    arms: Arms = {
        "elect_offline": lambda: [elect_offline(replicas, replicas, live, False) for _ in range(1000)],
        "ten_numpy_calls": lambda: [np.logical_not(flags) for _ in range(10_000)],
    }
    return medians(arms, rounds)


def building_figure(partitions: int, times: Times) -> Figure:
    return Figure(
        f"{partitions:,} partitions assigned by racks, and their table built",
        times["assigned_and_built"]["cpu_ms"],
        "ms",
        BUILT_MS_AT_MOST if partitions == 1_000_000 else None,
        limit=Limit(times["limit_columns_written_once"]["cpu_ms"], "its columns written once"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=10_000_000, help="the size of the larger clusters; 0: none")
    options = parser.parse_args()
    sizes = [(options.partitions, 300), (options.partitions, 30), (options.partitions // 10, 300)]
    sizes += [(options.large, 300), (options.large, 3000)] if options.large else []
    failing = [Failing(partitions, brokers, options.rounds) for partitions, brokers in sizes]
    building = building_times(options.partitions, max(options.rounds // 3, 1))
    small = small_times(options.rounds)
    figures = [
        *(figure for one in failing if one.brokers == 300 for figure in one.figures()),
        *slope(failing),
        building_figure(options.partitions, building),
        Figure(
            "three partitions elect a leader",
            small["elect_offline"]["cpu_ms"],
            "us",
            limit=Limit(small["ten_numpy_calls"]["cpu_ms"], "ten of numpy's cheapest calls"),
        ),
    ]
    details = {
        "numpy": np.__version__,
        "failures": [one.details() for one in failing],
        "operations_of_one_broker": operation_times(options.partitions, max(options.rounds // 3, 1)),
        "building": building,
        "bytes_per_partition_of_the_table": memory_figures(options.partitions),
    }
    write_figures("partitions", figures, details, options.json)


if __name__ == "__main__":
    main()
