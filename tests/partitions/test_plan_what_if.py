"""Effects of a plan on a layout equal a reference by row; invalid plans raise."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import LayoutError
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import brokers_in_racks, elect_offline_leaders, exposure, generate_layout, summarize
from simzk.partitions.plans.plan import PHASES, Plan, Steps, find_rows
from simzk.partitions.plans.what_if import PlanWhatIf
from simzk.partitions.table import Partitions
from tests.partitions.layout_strategies import Cluster, clusters, layout_of, rows_of

pytestmark = pytest.mark.slow

Wanted = dict[tuple[str, int], list[int]]


def plan_of(wanted: Wanted) -> Plan:
    topics = sorted({name for name, _ in wanted})
    numbers = [(topics.index(name), partition) for name, partition in wanted]
    topic, partition = np.array(numbers, np.int32).reshape(len(numbers), 2).T
    return Plan(Partitions(topics, topic, partition), pack(list(wanted.values())))


@st.composite
def planned(draw: st.DrawFn, *, healthy: bool = False) -> tuple[Cluster, Wanted]:
    cluster = draw(clusters(healthy=healthy))
    lists = st.lists(st.sampled_from(sorted(cluster.brokers)), min_size=1, max_size=5, unique=True)
    chosen = draw(st.lists(st.sampled_from(cluster.rows), unique_by=lambda row: row[:2])) if cluster.rows else []
    return cluster, {(row.topic, row.partition): draw(lists | st.permutations(row.replicas)) for row in chosen}


@given(planned(), st.sampled_from(Steps))
def test_diff_equals_the_reference_by_row(story: tuple[Cluster, Wanted], steps: Steps) -> None:
    cluster, wanted = story
    layout, rows = layout_of(cluster), {(row.topic, row.partition): row for row in cluster.rows}
    what_if = PlanWhatIf(layout, plan_of(wanted), steps=steps)
    diff, racks = what_if.diff, [broker.rack for broker in cluster.brokers.values()]

    def breaks(replicas: list[int]) -> bool:
        spread = {cluster.brokers[broker].rack for broker in replicas}
        return None not in racks and len(spread) < min(len(replicas), len(set(racks)))

    for place, (name, target) in enumerate(wanted.items()):
        present = rows[name].replicas
        assert unpack(diff.before)[place] == tuple(present)
        assert unpack(diff.adding)[place] == tuple(broker for broker in target if broker not in present)
        assert unpack(diff.removing)[place] == tuple(broker for broker in present if broker not in target)
        assert diff.unchanged[place] == (present == target)
        assert diff.order_only[place] == (present != target and sorted(present) == sorted(target))
        assert diff.preferred_changed[place] == (present[0] != target[0])
        assert (diff.broke_racks[place], diff.breaks_racks[place]) == (breaks(present), breaks(target))
    for phase in PHASES:
        what_if.layout_at(phase).check()
    settled_before = rows_of(elect_offline_leaders(layout))
    assert rows_of(what_if.layout_at("before")) == settled_before
    after = rows_of(what_if.layout_at("finished"))
    for old, new in zip(settled_before, after, strict=True):
        if (old.topic, old.partition) not in wanted:
            assert old == new
    for place, name in enumerate(wanted):
        (row,) = [row for row in after if (row.topic, row.partition) == name]
        assert what_if.phases.waits[place] or row.replicas == wanted[name]


@given(planned())
def test_moved_equals_the_reference_by_row(story: tuple[Cluster, Wanted]) -> None:
    cluster, wanted = story
    layout = layout_of(cluster)
    sizes = np.arange(len(cluster.rows), dtype=np.int64) ** 3 + 10**12
    what_if = PlanWhatIf(layout, plan_of(wanted))
    led = {(row.topic, row.partition): row.leader for row in rows_of(what_if.layout_at("before"))}
    size_of = {(row.topic, row.partition): int(size) for row, size in zip(cluster.rows, sizes, strict=True)}
    for weights in (None, sizes):
        copied_in: Counter[int] = Counter()
        copied_out: Counter[int] = Counter()
        cross_rack = unsourced = 0
        for row in cluster.rows:
            name = (row.topic, row.partition)
            for broker in [broker for broker in wanted.get(name, []) if broker not in row.replicas]:
                much = 1 if weights is None else size_of[name]
                if led[name] == -1 or not cluster.brokers[led[name]].live or not cluster.brokers[broker].live:
                    unsourced += much
                    continue
                copied_in[broker] += much
                copied_out[led[name]] += much
                here, there = cluster.brokers[broker].rack, cluster.brokers[led[name]].rack
                cross_rack += much if None not in (here, there) and here != there else 0
        moved = what_if.moved(weights)
        assert moved.copied_in.tolist() == [copied_in[broker] for broker in sorted(cluster.brokers)]
        assert moved.copied_out.tolist() == [copied_out[broker] for broker in sorted(cluster.brokers)]
        assert (moved.cross_rack, moved.unsourced) == (cross_rack, unsourced)
        assert moved.copied == sum(copied_in.values())


@given(planned(healthy=True))
def test_copied_minus_deleted_is_the_change_of_replicas_by_broker(story: tuple[Cluster, Wanted]) -> None:
    cluster, wanted = story
    what_if = PlanWhatIf(layout_of(cluster), plan_of(wanted))
    assert not what_if.phases.waits.any()
    held = {phase: summarize(what_if.layout_at(phase)).by_broker.replicas for phase in PHASES}
    moved = what_if.moved()
    assert (held["widened"] == held["before"] + moved.copied_in).all()
    assert (held["finished"] == held["widened"] - moved.deleted).all()


@given(clusters())
def test_exposure_equals_the_outcome_without_failure(cluster: Cluster) -> None:
    layout = elect_offline_leaders(layout_of(cluster))
    what_if, found = WhatIf(layout), exposure(layout)
    assert WhatIf(layout_of(cluster)).baseline == what_if.baseline
    assert (found.offline, found.under_min_isr) == (what_if.baseline.offline, what_if.baseline.under_min_isr)
    live = [broker for broker, state in cluster.brokers.items() if state.live]
    lost = {broker: what_if.fail([broker]).newly_offline for broker in live}
    assert found.last_in_sync == sum(lost.values())
    assert found.worst_offline == max(lost.values(), default=0)
    assert found.worst_broker == -1 or lost[found.worst_broker] == found.worst_offline
    assert elect_offline_leaders(layout) is layout or rows_of(elect_offline_leaders(layout)) == rows_of(layout)


def test_failures_are_evaluated_in_the_middle_of_a_plan() -> None:
    layout = generate_layout(brokers_in_racks(4, 0), topics=1, partitions=1, replication_factor=1, seed=0)
    (home,) = layout.replicas[0].tolist()
    away = (home + 1) % 4
    what_if = PlanWhatIf(layout, plan_of({("topic-0", 0): [away]}))
    lost = {phase: WhatIf(what_if.layout_at(phase)).fail([home]).newly_offline for phase in PHASES}
    assert lost == {"before": 1, "widened": 1, "joined": 0, "led": 0, "removed": 0, "finished": 0}


def test_partition_without_leader_is_not_copied() -> None:
    """The only replica is down: the znode still names it as leader, but it cannot be the source of a copy."""
    healthy = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=1, replication_factor=1, seed=0)
    (home,) = healthy.replicas[0].tolist()
    live = np.array([broker != home for broker in range(3)])
    layout = replace(healthy, brokers=replace(healthy.brokers, live=live))
    what_if = PlanWhatIf(layout, plan_of({("topic-0", 0): [(home + 1) % 3]}))
    moved = what_if.moved()
    assert (moved.copied, moved.unsourced, int(moved.deleted.sum())) == (0, 1, 0)
    assert what_if.phases.waits.tolist() == [True]
    assert rows_of(what_if.layout_at("finished"))[0].leader == home


def test_rows_are_found_in_any_order() -> None:
    layout = generate_layout(brokers_in_racks(3, 0), topics=3, partitions=9, replication_factor=1, seed=0)
    turned = np.arange(9)[::-1]
    other = type(layout)(layout.brokers, layout.topics, *(getattr(layout, name)[turned] for name in COLUMNS))
    wanted = Partitions(["topic-2", "none", "topic-0"], np.array([0, 1, 2, 2, 0]), np.array([2, 0, 0, 3, -1]))
    assert find_rows(layout, wanted).tolist() == [8, -1, 0, -1, -1]
    assert find_rows(other, wanted).tolist() == [0, -1, 8, -1, -1]


COLUMNS = ("topic", "partition", "replicas", "isr", "leader", "leader_epoch", "min_insync_replicas")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ([("topic-0", 0, [0]), ("topic-0", 0, [1])], "partitions repeated: topic-0-0"),
        ([("topic-0", 0, [0, 9])], "on a broker that the layout does not have: topic-0-0"),
        ([("topic-0", 7, [0]), ("none", 0, [0])], "that the layout does not have: topic-0-7, none-0"),
        ([("topic-0", 0, [1, 1])], r"replicas \[1, 1\] repeat a broker"),
        ([("topic-0", 0, [])], "a partition has no replicas"),
        ([("none", number, [0]) for number in range(12)], "none-9 and 2 more"),
    ],
)
def test_invalid_plan_raises(wanted: list[tuple[str, int, list[int]]], said: str) -> None:
    layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=2, replication_factor=1, seed=0)
    topics = list(dict.fromkeys(name for name, _, _ in wanted))
    names = Partitions(
        topics,
        np.array([topics.index(name) for name, _, _ in wanted], np.int32),
        np.array([number for _, number, _ in wanted], np.int32),
    )
    with pytest.raises(LayoutError, match=said):
        PlanWhatIf(layout, Plan(names, pack([replicas for _, _, replicas in wanted])))


def test_empty_plan_changes_nothing() -> None:
    layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=2, replication_factor=2, seed=0)
    what_if = PlanWhatIf(layout, plan_of({}))
    assert rows_of(what_if.layout_at("finished")) == rows_of(layout)
    assert what_if.moved().copied == 0
