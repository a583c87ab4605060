"""With a cost model virtual time passes for what ZooKeeper and the controller do, and nothing else changes."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.kafka_costs import compare, ratios_of
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.cluster.cost_model import MEASURED, CostModel
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.clusters import QUICK, quiet, topic

PARTITIONS = 40
ASSIGNMENT = {p: [1 + (p + shift) % 3 for shift in range(3)] for p in range(PARTITIONS)}


def cluster(costs: CostModel | None) -> KafkaCluster:
    c = KafkaCluster(brokers=3, seed=1, config=QUICK, boot=False, cost_model=costs)
    for broker in c.brokers:
        c.restart(broker)
        quiet(c)
    topic(c, "t", ASSIGNMENT)
    return c


def at_us(c: KafkaCluster, what: str, since: int) -> list[int]:
    return [event.at_us for event in list(c.history)[since:] if event.what == what]


def failure_us(costs: CostModel | None) -> int:
    """From a broker's expiry to the last state that is written for it."""
    c = cluster(costs)
    since = len(c.history)
    c.kill(3)
    quiet(c)
    written = [*at_us(c, "leader moved", since), *at_us(c, "ISR shrunk", since)]
    assert len(written) == PARTITIONS
    return max(written) - at_us(c, "registration gone", since)[0]


def failover_us(costs: CostModel | None) -> int:
    c = cluster(costs)
    since = len(c.history)
    c.delete_znode(paths.CONTROLLER)
    quiet(c)
    return at_us(c, "ready", since)[0] - at_us(c, "controller gone", since)[0]


def test_reads_writes_and_orders_take_their_time() -> None:
    free_us = failure_us(None)
    reads = PARTITIONS + PARTITIONS // 3  # all replicas of the broker, and before them those that it led
    assert failure_us(CostModel(read_us=1000, write_us=0, order_us=0)) > free_us + reads * 1000 * 0.8
    assert failure_us(CostModel(read_us=0, write_us=3000, order_us=0)) > free_us + (PARTITIONS - 1) * 3000 * 0.8
    free_us = failover_us(None)
    assert failover_us(CostModel(read_us=0, write_us=0, order_us=1000)) >= free_us + PARTITIONS * 3 * 1000


def test_what_comes_of_it_is_the_same() -> None:
    """The same tree, but for who is a leader's follower first: nothing depends on how long it took."""
    ends = []
    for costs in (None, MEASURED):
        c = cluster(costs)
        c.kill(1)
        quiet(c)
        c.reassign({("t", 0): [3, 2], ("t", 1): [2]})
        quiet(c)
        c.check()
        ends.append([(s.leader, s.isr, s.leader_epoch) for s in (c.state("t", p) for p in range(PARTITIONS))])
    assert ends[0] == ends[1]


def test_requests_are_answered_in_the_order_in_which_they_came() -> None:
    """A session's close waits for what it asked before."""
    c = cluster(CostModel(read_us=50_000, write_us=50_000, order_us=0))
    c.shutdown(2)
    quiet(c)
    assert c.live_brokers == [1, 3]
    c.restart(2)
    quiet(c)
    assert all(sorted(c.state("t", p).isr) == [1, 2, 3] for p in range(PARTITIONS))


@pytest.mark.parametrize("release", ["1.0.2", "1.1.1", "2.8.2"])
def test_on_other_runs_the_model_is_too_fast_by_less_than_an_order_of_magnitude(release: str) -> None:
    """Check the ratios in the docstring of cost_model: most of the time of a short burst is not per state."""
    rows = [row for row in compare(release) if row["what"] == "writes"]
    assert len(rows) >= 6
    created = [row for row in rows if str(row["step"]).startswith("b")]
    assert {row["states"] for row in created} == {3, 4}
    for (_, event, _), ratios in ratios_of(rows).items():
        assert 0.01 < statistics.median(ratios) < 2.5, event
    assert 0.05 < statistics.median([ratio for found in ratios_of(rows).values() for ratio in found]) < 1
