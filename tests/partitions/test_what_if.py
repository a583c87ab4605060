"""Outcomes of failure sets equal brute force over rows, and the states that the controller's batch writes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.partitions.arrays import broker_mask
from simzk.partitions.failures.what_if import Outcome, WhatIf
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.partitions.states import States
from tests.partitions.layout_strategies import Broker, Cluster, Row, clusters, layout_of
from tests.partitions.operations import broker_failure

pytestmark = pytest.mark.slow


def brute_force(cluster: Cluster, failed: set[int]) -> Outcome:
    """Evaluate every partition before and after, one by one."""

    def leader_of(row: Row, live: set[int], before: int) -> int:
        if before in live:
            return before
        return next((broker for broker in row.replicas if broker in live and broker in row.isr), -1)

    up = {broker for broker, state in cluster.brokers.items() if state.live}
    left = up - failed
    leaders, moved, newly_offline, offline_topics = Counter[int](), 0, 0, set()
    offline = lost = under_min_isr = under_replicated = 0
    for row in cluster.rows:
        before = leader_of(row, up, row.leader)
        after = leader_of(row, left, before)
        in_sync = [broker for broker in row.isr if broker in left]
        leaders[after] += 1
        moved += before != -1 and after not in (-1, before)
        offline += not in_sync
        newly_offline += not in_sync and any(broker in up for broker in row.isr)
        lost += not any(broker in left for broker in row.replicas)
        under_min_isr += len(in_sync) < row.min_insync_replicas
        under_replicated += len(in_sync) < len(row.replicas)
        offline_topics |= {row.topic} if not in_sync else set()
    busiest = max(sorted(left), key=lambda broker: leaders[broker], default=-1)
    return Outcome(
        touched=sum(bool(failed & set(row.replicas)) for row in cluster.rows),
        offline=offline,
        newly_offline=newly_offline,
        lost=lost,
        leaders_moved=moved,
        under_min_isr=under_min_isr,
        under_replicated=under_replicated,
        topics_offline=len(offline_topics),
        busiest_broker=busiest,
        busiest_leaders=leaders[busiest] if busiest != -1 else 0,
    )


@given(clusters(), st.data())
def test_an_outcome_equals_brute_force(cluster: Cluster, data: st.DataObject) -> None:
    what_if = WhatIf(layout_of(cluster))
    assert what_if.baseline == brute_force(cluster, set())
    up = sorted(broker for broker, state in cluster.brokers.items() if state.live)
    for _ in range(3):  # one failure leaves no trace in the next
        failed = data.draw(st.sets(st.sampled_from(up))) if up else set()
        assert what_if.fail(sorted(failed)) == brute_force(cluster, failed)


@given(clusters())
def test_saved_what_if_gives_the_same_outcomes(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> None:
    folder = tmp_path_factory.mktemp("columns")
    asked = WhatIf(layout_of(cluster))
    files = asked.save(folder)
    assert sorted(folder.iterdir()) == sorted(files)
    mapped = WhatIf.load(folder)
    assert (mapped.topics, mapped.brokers.racks, mapped.baseline) == (asked.topics, asked.brokers.racks, asked.baseline)
    for broker in cluster.brokers:
        here, there = asked.consequences([broker]), mapped.consequences([broker])
        assert here.outcome == there.outcome == brute_force(cluster, {broker})
        assert [part.tolist() for part in here[1:]] == [part.tolist() for part in there[1:]]


@given(clusters(), st.data())
def test_consequences_agree_with_the_outcome(cluster: Cluster, data: st.DataObject) -> None:
    what_if = WhatIf(layout_of(cluster))
    up = up_of(cluster)
    failed = data.draw(st.sets(st.sampled_from(up))) if up else set()
    found = what_if.consequences(sorted(failed))
    offline, under, leaders = Counter[str](), Counter[str](), Counter[int]()
    for row in cluster.rows:
        before = [broker for broker in row.isr if broker in up]
        after = [broker for broker in before if broker not in failed]
        offline[row.topic] += bool(before) and not after
        under[row.topic] += len(after) < row.min_insync_replicas <= len(before)
        settled = row.leader if row.leader in before else next((one for one in row.replicas if one in before), -1)
        leads = settled if settled in after else next((one for one in row.replicas if one in after), -1)
        leaders[leads] += 1
    assert Counter(what_if.topics[topic] for topic in found.offline) == +offline
    assert Counter(what_if.topics[topic] for topic in found.under_min_isr) == +under
    assert dict(zip(sorted(cluster.brokers), found.leaders.tolist(), strict=True)) == {
        broker: leaders[broker] for broker in cluster.brokers
    }


@given(clusters(), st.data())
def test_affected_partitions_are_those_that_brute_force_finds(cluster: Cluster, data: st.DataObject) -> None:
    layout = layout_of(cluster)
    up = up_of(cluster)
    failed = data.draw(st.sets(st.sampled_from(up))) if up else set()
    found = WhatIf(layout).affected(sorted(failed))
    expected = set()
    for row in cluster.rows:
        before = [broker for broker in row.isr if broker in up]
        after = [broker for broker in before if broker not in failed]
        settled = row.leader if row.leader in before else next((one for one in row.replicas if one in before), -1)
        offline, under = bool(before) and not after, len(after) < row.min_insync_replicas <= len(before)
        if offline or under:
            expected.add((row.topic, row.partition, offline, settled, len(after)))
    names = [layout.topics[topic] for topic in found.topic.tolist()]
    columns = (layout.partition[found.rows], found.offline, found.leader_before, found.in_sync)
    assert set(zip(names, *(column.tolist() for column in columns), strict=True)) == expected
    assert len(found.rows) == len(expected)
    assert found.offline.tolist() == sorted(found.offline.tolist(), reverse=True)


def up_of(cluster: Cluster) -> list[int]:
    return sorted(broker for broker, state in cluster.brokers.items() if state.live)


@given(clusters(healthy=True, most_rows=25), st.data())
def test_an_outcome_equals_what_the_controller_writes(cluster: Cluster, data: st.DataObject) -> None:
    layout = layout_of(cluster)
    dead = data.draw(st.lists(st.sampled_from(sorted(cluster.brokers)), min_size=1, unique=True))
    live = broker_mask(sorted(set(cluster.brokers) - set(dead)))
    rows = len(layout)
    states = States(
        leader=layout.leader,
        leader_epoch=layout.leader_epoch,
        isr=layout.isr,
        controller_epoch=np.ones(rows, np.int32),
        version=np.zeros(rows, np.int32),
        recovering=np.zeros(rows, np.bool_),
    )
    after, _ = broker_failure(layout.replicas, states, dead, live, controller_epoch=2)
    outcome = WhatIf(layout).fail(dead)
    assert outcome.offline == np.count_nonzero(after.leader == -1)
    assert outcome.leaders_moved == np.count_nonzero((after.leader != -1) & (after.leader != layout.leader))
    # Where nobody leads, Kafka leaves the last member in the ISR although it is dead.
    in_sync = np.where(after.leader == -1, 0, np.count_nonzero(after.isr != -1, axis=1))
    assert outcome.under_replicated == np.count_nonzero(in_sync < np.count_nonzero(layout.replicas != -1, axis=1))
    assert outcome.under_min_isr == np.count_nonzero(in_sync < layout.min_insync_replicas)


def test_replica_order_decides_not_isr_order() -> None:
    rows = [Row("t", 0, [1, 2, 3], [3, 2, 1], 1, 0, 1), Row("t", 1, [1, 3], [3, 1], 3, 0, 1)]
    outcome = WhatIf(layout_of(Cluster(rows, {broker: Broker(None, live=True) for broker in (1, 2, 3)}))).fail([1])
    assert (outcome.busiest_broker, outcome.busiest_leaders, outcome.leaders_moved) == (2, 1, 1)


@pytest.mark.parametrize("failed", [[], [3], [3, 7], list(range(0, 30, 3)), list(range(30))])
def test_rows_of_gives_the_same_rows_merged_or_masked(failed: list[int]) -> None:
    layout = generate_layout(brokers_in_racks(30, 3), topics=3, partitions=2000, replication_factor=3, seed=5)
    rows = WhatIf(layout).rows_of(np.array(failed, np.int32))
    assert rows.tolist() == np.flatnonzero(np.isin(layout.replicas, failed).any(axis=1)).tolist()
