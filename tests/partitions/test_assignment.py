"""Replica assignment equals 300 cases of the real 3.9.0 server-common jar, and a reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import LayoutError
from simzk.jvm.numbers import JavaRandom
from simzk.partitions.assignment import assign_replicas, assign_topics, start_index_for_addition
from tests.partitions import reference

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


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], dict[int, str]]:
    brokers = draw(st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=9))
    if draw(st.booleans()):
        return brokers, {}
    racks = draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=len(brokers), max_size=len(brokers)))
    return brokers, dict(zip(brokers, racks, strict=True))


@given(clusters(), st.integers(1, 60), st.integers(-1, 12), st.integers(-1, 40), st.data())
def test_assignment_equals_the_reference_by_partition(
    cluster: tuple[list[int], dict[int, str]],
    partitions: int,
    fixed_start: int,
    start_partition: int,
    data: st.DataObject,
) -> None:
    brokers, racks = cluster
    factor = data.draw(st.integers(1, len(brokers)))
    seed = data.draw(st.integers(-(2**63), 2**63 - 1))
    start, shift = (fixed_start, fixed_start) if fixed_start >= 0 else reference.java_ints(seed, len(brokers), 2)
    placed = assign_replicas(brokers, racks, partitions, factor, fixed_start, start_partition, random=JavaRandom(seed))
    assert placed == reference.assign(brokers, racks, partitions, factor, start, shift, max(start_partition, 0))


@given(clusters(), st.lists(st.integers(1, 100), min_size=1, max_size=6), st.integers(0, 99), st.data())
def test_many_topics_are_placed_like_one_after_another(
    cluster: tuple[list[int], dict[int, str]], partitions: list[int], seed: int, data: st.DataObject
) -> None:
    brokers, racks = cluster
    factor = data.draw(st.integers(1, len(brokers)))
    together = assign_topics(brokers, racks, partitions, factor, random=JavaRandom(seed))
    random = JavaRandom(seed)
    apart = [assign_replicas(brokers, racks, count, factor, random=random) for count in partitions]
    assert together.tolist() == [row for placed in apart for row in placed.values()]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**31 - 1))
def test_random_numbers(seed: int, bound: int) -> None:
    random = JavaRandom(seed)
    assert [random.next_int(bound) for _ in range(4)] == reference.java_ints(seed, bound, 4)


def test_added_partitions_continue_a_topic() -> None:
    brokers = [1, 3, 5, 7]
    whole = assign_replicas(brokers, None, 10, 2, fixed_start=1)
    start = start_index_for_addition(brokers, whole[0][0])
    assert assign_replicas(brokers, None, 6, 2, start, 4) == {p: whole[p] for p in range(4, 10)}


@pytest.mark.parametrize(
    ("brokers", "racks", "partitions", "factor", "says"),
    [
        ([1, 2], None, 0, 1, "0 partitions"),
        ([1, 2], None, 1, 0, "replication factor 0"),
        ([1, 2], None, 1, 3, "larger than the 2 available brokers"),
        ([], None, 1, 1, "larger than the 0 available brokers"),
        ([1, 2, 3], {1: "a", 2: "b"}, 1, 1, "not all brokers have rack information"),
        ([1, 1], None, 1, 1, "repeat"),
        ([-1, 1], None, 1, 1, "out of range"),
    ],
)
def test_what_cannot_be(
    brokers: list[int], racks: dict[int, str] | None, partitions: int, factor: int, says: str
) -> None:
    with pytest.raises(LayoutError, match=says):
        assign_replicas(brokers, racks, partitions, factor, fixed_start=0)
    with pytest.raises(LayoutError, match=says):
        assign_topics(brokers, racks, [1, partitions], factor, random=JavaRandom(0))
