"""Replica assignment against 300 cases of the real 3.9.0 server-common jar, and against the rule as prose."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from simzk.partitions.assignment import assign_replicas
from simzk.partitions.java_random import JavaRandom

VECTORS = Path(__file__).parent / "data" / "assignment.txt"


class Case(NamedTuple):
    brokers: list[int]
    racks: dict[int, str]
    partitions: int
    replication_factor: int
    fixed_start: int
    start_partition: int
    seed: int
    expected: dict[int, list[int]]


def parse(line: str) -> Case:
    places, partitions, factor, fixed_start, start_partition, seed, placed = line.split("|")
    racks = {int(broker): rack for broker, _, rack in (place.partition(":") for place in places.split())}
    expected = {
        int(partition): [int(broker) for broker in replicas.strip("[]").split(",")]
        for partition, _, replicas in (item.partition("=") for item in placed.split())
    }
    known = {broker: rack for broker, rack in racks.items() if rack != "null"}
    return Case(
        list(racks), known, int(partitions), int(factor), int(fixed_start), int(start_partition), int(seed), expected
    )


CASES = [parse(line) for line in VECTORS.read_text().splitlines()]


@pytest.mark.parametrize("rack_aware", [False, True])
def test_equals_the_real_jar(rack_aware: bool) -> None:
    chosen = [case for case in CASES if bool(case.racks) is rack_aware]
    assert len(chosen) > 50
    for case in chosen:
        placed = assign_replicas(
            case.brokers,
            case.racks,
            case.partitions,
            case.replication_factor,
            case.fixed_start,
            case.start_partition,
            random=JavaRandom(case.seed),
        )
        assert placed == case.expected
