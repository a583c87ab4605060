"""The summary of a layout equals counts by row."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from simzk.partitions.layouts import summarize
from tests.partitions.layout_strategies import Broker, Cluster, Row, clusters, layout_of


@given(clusters())
def test_the_summary_equals_a_walk_over_the_rows(cluster: Cluster) -> None:
    rows, brokers = cluster.rows, cluster.brokers
    summary = summarize(layout_of(cluster))
    assert summary.partitions == len(rows)
    assert summary.topics == len({row.topic for row in rows})
    assert summary.replication_factors == Counter(len(row.replicas) for row in rows)
    assert summary.offline == sum(row.leader == -1 or not brokers[row.leader].live for row in rows)
    assert summary.under_replicated == sum(len(row.isr) < len(row.replicas) for row in rows)
    assert summary.under_min_isr == sum(len(row.isr) < row.min_insync_replicas for row in rows)
    assert summary.preferred_led == sum(row.leader == row.replicas[0] for row in rows)
    for position, broker in enumerate(sorted(brokers)):
        load = summary.by_broker
        assert load.replicas[position] == sum(broker in row.replicas for row in rows)
        assert load.leaders[position] == sum(broker == row.leader for row in rows)
        assert load.preferred[position] == sum(broker == row.replicas[0] for row in rows)
        assert load.preferred_led[position] == sum(broker == row.replicas[0] == row.leader for row in rows)
        assert load.out_of_sync[position] == sum(broker in row.replicas and broker not in row.isr for row in rows)


@given(clusters(moving=True))
def test_gaining_and_losing_brokers(cluster: Cluster) -> None:
    summary, rows = summarize(layout_of(cluster)), cluster.rows
    assert summary.reassigning == sum(bool(row.adding or row.removing) for row in rows)
    assert summary.gaining == tuple(sorted({broker for row in rows for broker in row.adding}))
    assert summary.losing == tuple(sorted({broker for row in rows for broker in row.removing}))


@given(clusters())
def test_racks_sum_up_their_brokers(cluster: Cluster) -> None:
    rows, brokers = cluster.rows, cluster.brokers
    summary = summarize(layout_of(cluster))
    names = sorted({broker.rack for broker in brokers.values() if broker.rack is not None})
    assert list(summary.by_rack) == names
    for name, load in summary.by_rack.items():
        assert load.replicas.tolist() == [sum(brokers[id_].rack == name for row in rows for id_ in row.replicas)]
        assert load.leaders.tolist() == [sum(row.leader != -1 and brokers[row.leader].rack == name for row in rows)]
    all_have_racks = all(broker.rack is not None for broker in brokers.values())
    violations = sum(
        len({brokers[id_].rack for id_ in row.replicas}) < min(len(row.replicas), len(names)) for row in rows
    )
    assert summary.rack_violations == (violations if all_have_racks else 0)


def test_skew_is_maximum_over_mean_of_live_brokers() -> None:
    brokers = {1: Broker(None, live=True), 2: Broker(None, live=True), 3: Broker(None, live=False)}
    rows = [Row("t", number, [1, 2] if number else [1], [1], 1, 0, 1) for number in range(3)]
    summary = summarize(layout_of(Cluster(rows, brokers)))
    assert summary.leader_skew == pytest.approx(2.0)  # 3 and 0
    assert summary.replica_skew == pytest.approx(1.2)  # 3 and 2
