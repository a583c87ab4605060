"""The tables beside `failures`: equal to brute force, in however many slices they are added up, and honest bounds."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import sqrt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ConfigError
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.pipeline.sweeps.outcomes import (
    added_up,
    count_sets,
    numbered_sets,
    parse_specs,
    parts_of_slices,
    slice_batches,
    slice_schema,
)
from simzk.pipeline.sweeps.tables import Sums, estimate, estimates_table, sums_of, things_tables
from tests.partitions.layout_strategies import Cluster, Row, clusters, layout_of

FAILS = st.sampled_from(["brokers:1", "brokers:2", "racks:1", "racks:1+brokers:1,brokers:1", "brokers:2~3,racks:1"])


def shares_of(what_if: WhatIf, fail: str, bounds: list[int]) -> pa.Table:
    batches = [batch for a, b in pairwise(bounds) for batch in slice_batches(what_if, parse_specs(fail), a, b)]
    _, shares = parts_of_slices(pa.Table.from_batches(batches, schema=slice_schema()))
    return shares


@given(clusters(), FAILS, st.data())
def test_the_tables_equal_brute_force_however_the_sets_are_sliced(
    cluster: Cluster, fail: str, data: st.DataObject
) -> None:
    members = data.draw(st.lists(st.sampled_from(sorted(cluster.brokers)), unique=True))
    if members:
        fail += f",brokers={'+'.join(map(str, members))}"
    layout, specs = layout_of(cluster), parse_specs(fail)
    try:
        sets = count_sets(specs, layout.brokers)
    except ConfigError:
        return
    what_if = WhatIf(layout)
    bounds = [0, *sorted(data.draw(st.lists(st.integers(0, sets), max_size=4))), sets]
    shares = shares_of(what_if, fail, bounds)
    shares = shares.take(data.draw(st.permutations(range(len(shares)))))
    cut = data.draw(st.integers(0, len(shares)))
    found = added_up(shares[cut:].to_batches(), added_up(shares[:cut].to_batches()))
    tables = things_tables(what_if, [str(spec) for spec in specs], found)
    up = {broker for broker, state in cluster.brokers.items() if state.live}
    for kind, table in (("topic", "topics"), ("broker", "brokers"), ("rack", "racks")):
        expected = brute_force(cluster, specs_sets(what_if, fail), up, kind)
        rows = {(row.pop("fail"), row.pop(kind)): row for row in tables[table].to_pylist()}
        assert rows == expected


def specs_sets(what_if: WhatIf, fail: str) -> list[tuple[str, int, tuple[int, ...]]]:
    specs = parse_specs(fail)
    rows = numbered_sets(specs, what_if.brokers, 0, count_sets(specs, what_if.brokers))
    return [(str(row.spec), row.number, row.failed.brokers) for row in rows]


def brute_force(
    cluster: Cluster, sets: list[tuple[str, int, tuple[int, ...]]], up: set[int], kind: str
) -> dict[tuple[str, object], dict[str, object]]:
    """Every set, every partition, one by one."""

    def leader(row: Row, live: set[int]) -> int:
        return next((one for one in row.replicas if one in live and one in row.isr), -1)

    before = {id(row): row.leader if row.leader in up else leader(row, up) for row in cluster.rows}
    things: dict[object, set[int]] = defaultdict(set)
    for broker, state in cluster.brokers.items():
        if kind == "broker":
            things[broker].add(broker)
        elif kind == "rack" and state.rack is not None:
            things[state.rack].add(broker)
    hits: dict[tuple[str, object], list[tuple[int, int, int]]] = defaultdict(list)
    loads: dict[tuple[str, object], list[tuple[int, int]]] = defaultdict(list)
    for spec, number, failed in sets:
        left = up - set(failed)
        dark, under = defaultdict[object, int](int), defaultdict[object, int](int)
        leads: dict[int, int] = defaultdict(int)
        for row in cluster.rows:
            was, now = [b for b in row.isr if b in up], [b for b in row.isr if b in left]
            dark[row.topic] += bool(was) and not now
            under[row.topic] += len(now) < row.min_insync_replicas <= len(was)
            leads[before[id(row)] if before[id(row)] in left else leader(row, left)] += 1
        if kind == "topic":
            for topic in {topic for topic in {**dark, **under} if dark[topic] or under[topic]}:
                hits[spec, topic].append((number, dark[topic], under[topic]))
            continue
        for thing, members in things.items():
            if members & set(failed):
                hits[spec, thing].append((number, sum(dark.values()), sum(under.values())))
            if members & left:
                loads[spec, thing].append((number, sum(leads[member] for member in members & left)))
    expected: dict[tuple[str, object], dict[str, object]] = {}
    for key in {**hits, **loads}:
        figures: dict[str, object] = {}
        in_sets = 0
        for place, figure in ((1, "offline"), (2, "under_min_isr")):
            counts = [(hit[place], -hit[0]) for hit in hits[key]]
            if figure == "offline":
                in_sets = sum(count > 0 for count, _ in counts) if kind == "topic" else len(counts)
            most, at = max(counts, default=(0, 0))
            figures[figure] = sum(count for count, _ in counts)
            figures[f"{figure}_most"], figures[f"{figure}_set"] = most, -at if most else None
        if kind != "topic":
            heaviest = max(((load, -number) for number, load in loads[key]), default=None)
            figures["leaders_before"] = sum(before[id(one)] in things[key[1]] for one in cluster.rows)
            figures["leaders_most"] = None if heaviest is None else heaviest[0]
            figures["leaders_set"] = None if heaviest is None else -heaviest[1]
        expected[key] = {"sets": in_sets, **figures}
    return expected


def test_worst_stand_first_in_each_specification() -> None:
    layout = generate_layout(brokers_in_racks(9, 3), topics=7, partitions=80, replication_factor=2, seed=3)
    what_if = WhatIf(layout)
    fail = "brokers:2,racks:1"
    sets = count_sets(parse_specs(fail), layout.brokers)
    found = added_up(shares_of(what_if, fail, [0, sets]).to_batches())
    tables = things_tables(what_if, fail.split(","), found)
    for table in tables.values():
        keys = [(["brokers:2", "racks:1"].index(row["fail"]), -row["offline_most"]) for row in table.to_pylist()]
        assert keys == sorted(keys)
        assert len(keys) > 3


@pytest.mark.parametrize("name", ["newly_offline", "leaders_moved"])
def test_the_bounds_hold_the_truth_as_often_as_they_say(name: str) -> None:
    """All pairs of 24 brokers are known; 40 of them are drawn under many seeds."""
    layout = generate_layout(brokers_in_racks(24, 3), topics=4, partitions=300, replication_factor=2, seed=7)
    what_if = WhatIf(layout)
    (every,) = parse_specs("brokers:2")
    counts = {
        failed.brokers: getattr(what_if.fail(failed.brokers), name)
        for failed in every.sets(layout.brokers, 0, every.size(layout.brokers))
    }
    mean, share = sum(counts.values()) / len(counts), sum(map(bool, counts.values())) / len(counts)
    within_mean = within_share = 0
    for seed in range(400):
        (few,) = parse_specs("brokers:2~40", seed)
        drawn = [counts[failed.brokers] for failed in few.sets(layout.brokers, 0, 40)]
        squares, hit = sum(count * count for count in drawn), sum(map(bool, drawn))
        figures = estimate(Sums(40, sum(drawn), squares, hit, max(drawn)), len(counts))
        assert figures.mean_low is not None
        assert figures.mean_high is not None
        within_mean += figures.mean_low <= mean <= figures.mean_high
        within_share += figures.share_low <= share <= figures.share_high
    # Of 400 times 95 % are 380, give or take nine; Wilson's do not know that the sets are finite, and are wider.
    assert 360 <= within_mean <= 400
    assert 370 <= within_share <= 400


def test_what_was_never_seen_may_still_be() -> None:
    figures = estimate(Sums(1000, 0, 0, 0, 0), 10**30)
    assert (figures.mean, figures.mean_low, figures.mean_high, figures.share, figures.share_low) == (
        0,
        None,
        None,
        0,
        0,
    )
    # The rule of three: 3 of 1,000, and a little more.
    assert 0.003 < figures.share_high < 0.004


@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=50), st.integers(51, 10**9))
def test_an_estimate_is_what_statistics_say(counts: list[int], population: int) -> None:
    n, mean = len(counts), sum(counts) / len(counts)
    hit = sum(map(bool, counts))
    figures = estimate(Sums(n, sum(counts), sum(c * c for c in counts), hit, max(counts)), population)
    assert figures.mean == pytest.approx(mean)
    assert 0 <= figures.share_low <= figures.share <= figures.share_high <= 1
    deviation = sqrt(sum((count - mean) ** 2 for count in counts) / (n - 1))
    error = 1.96 * deviation / sqrt(n) * sqrt((population - n) / (population - 1))
    if figures.mean_high is not None:
        assert figures.mean_high - mean == pytest.approx(error, rel=1e-3)
    else:
        assert len(set(counts)) == 1


def test_specifications_in_one_batch_are_kept_apart() -> None:
    layout = generate_layout(brokers_in_racks(6, 3), topics=2, partitions=30, replication_factor=2, seed=3)
    what_if, fail = WhatIf(layout), "brokers:1,brokers:2"
    sets = count_sets(parse_specs(fail), layout.brokers)
    figures = pa.Table.from_batches(slice_batches(what_if, parse_specs(fail), 0, sets), schema=slice_schema())
    rows = [row for row in figures["failure"].to_pylist() if row is not None]
    found = sums_of(pa.Table.from_pylist(rows).to_batches())
    assert (found["brokers:1", "lost"].sets, found["brokers:2", "lost"].sets) == (6, 15)
    table = estimates_table(pa.Table.from_pylist(rows).to_batches(), {"brokers:1": 6, "brokers:2": 15}).to_pylist()
    assert all(row["exact"] and row["mean_low"] == row["mean"] == row["mean_high"] for row in table)
    by_hand = [row["leaders_moved"] for row in rows if row["fail"] == "brokers:2"]
    assert next(row for row in table if (row["fail"], row["count"]) == ("brokers:2", "leaders_moved"))["mean"] == (
        sum(by_hand) / 15
    )
