"""After faults every broker believes what the znodes say; each difference is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.observation.agreement import AGREEMENTS, disagreements, missed_deletions, read_written
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.clusters import cluster, quiet, topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simzk.kafka.cluster.cluster import KafkaCluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def c() -> Iterator[KafkaCluster]:
    with cluster(3, controller=3) as c:
        topic(c, "t", {0: [1, 2, 3], 1: [2, 1, 3]})
        topic(c, "gone", {0: [3, 1]})
        c.kill(1)
        quiet(c)
        c.delete_topic("gone")
        c.restart(1)
        quiet(c)
        c.expire(3)
        quiet(c)
        yield c


def found(c: KafkaCluster) -> list[str]:
    return disagreements(list(c.brokers.values()), read_written(c.tree, c.controller, c.live_brokers))


def test_brokers_agree_after_faults(c: KafkaCluster) -> None:
    assert found(c) == []


def test_a_broker_that_was_cut_off_disagrees_until_it_is_back(c: KafkaCluster) -> None:
    c.network.cut("broker 1", f"broker {c.controller}")
    c.kill(next(broker for broker in (2, 3) if broker != c.controller))
    c.run_for(10)
    assert any("broker 1" in difference for difference in found(c))
    c.network.heal_all()
    c.run_for(30)
    assert [difference for difference in found(c) if "broker 1 " in difference] == []


def forget_controller(c: KafkaCluster) -> None:
    c.brokers[1].metadata.controller_id = 7


def add_broker(c: KafkaCluster) -> None:
    c.brokers[1].metadata.live_brokers[7] = None


def keep_old_isr(c: KafkaCluster) -> None:
    cache = c.brokers[1].metadata.partitions
    cache[T0] = cache[T0]._replace(isr=(1,))


def keep_deleted(c: KafkaCluster) -> None:
    cache = c.brokers[1].metadata.partitions
    cache[TopicPartition("gone", 0)] = cache[T0]


def follow_old_leader(c: KafkaCluster) -> None:
    replica = c.brokers[1].replicas.replicas[T0]
    replica.state = replica.state._replace(leader_epoch=replica.state.leader_epoch - 1)


def lose_replica(c: KafkaCluster) -> None:
    del c.brokers[1].replicas.replicas[T0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (forget_controller, "brokers agree on the controller: broker 1 takes 7 for the controller"),
        (add_broker, "brokers agree on the live brokers: broker 1 takes [1, 2, 3, 7] for the live brokers"),
        (keep_old_isr, "metadata caches have the leaders and ISRs that are written: the cache of broker 1 has for t-0"),
        (
            keep_deleted,
            "metadata caches have the leaders and ISRs that are written: the cache of broker 1 has gone-0, which does",
        ),
        (follow_old_leader, "replicas have the leaders and ISRs that are written: broker 1 has for t-0 leader"),
        (lose_replica, "replicas have the leaders and ISRs that are written: broker 1 does not know t-0"),
    ],
)
def test_each_difference_is_reported(c: KafkaCluster, change: Callable[[KafkaCluster], None], said: str) -> None:
    change(c)
    (difference,) = found(c)
    assert difference.startswith(said)


def test_every_agreement_is_tested() -> None:
    assert [one.name for one in AGREEMENTS] == [
        "brokers agree on the controller",
        "brokers agree on the live brokers",
        "metadata caches have the leaders and ISRs that are written",
        "replicas have the leaders and ISRs that are written",
    ]


def test_a_broker_keeps_a_topic_whose_deletion_it_missed_until_it_restarts() -> None:
    """The controller names deleted topics to registered brokers only, and a broker adds to the cache that it has."""
    with cluster(3, controller=1) as c:
        topic(c, "gone", {0: [1, 2]})
        quiet(c)
        c.network.cut("broker 3", "zookeeper")
        c.run_for(30)
        assert c.live_brokers == [1, 2]
        c.delete_topic("gone")
        c.run_for(10)
        c.network.heal_all()
        quiet(c)
        written = read_written(c.tree, c.controller, c.live_brokers)
        brokers = list(c.brokers.values())
        (difference,) = disagreements(brokers, written)
        assert "the cache of broker 3 has gone-0, which does not exist" in difference
        assert missed_deletions(c.history)[3] == {"gone"}
        assert disagreements(brokers, replace(written, missed=missed_deletions(c.history))) == []
        c.kill(3)
        c.run_for(20)
        c.restart(3)
        quiet(c)
        assert missed_deletions(c.history)[3] == frozenset()
        assert found(c) == []
