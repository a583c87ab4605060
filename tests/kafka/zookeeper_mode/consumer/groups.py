"""Clusters with consumer groups for tests, and common checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.simulation import Monitor
from tests.kafka.zookeeper_mode.consumer.invariants import OneOwner, expected_owners, owners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.zookeeper_mode.consumer import Consumer

GROUP = "g"


def cluster(partitions: dict[str, int], *, brokers: int = 1, seed: int = 1) -> KafkaCluster:
    """Create a cluster with topics of the given numbers of partitions."""
    made = KafkaCluster(brokers=brokers, seed=seed)
    for topic, count in partitions.items():
        made.create_topic(topic, partitions=count, replication_factor=1)
    assert made.run_until_quiet()
    return made


def watch(c: KafkaCluster, consumers: Sequence[Consumer]) -> Monitor:
    """Check at every event that no partition has two owners."""
    return Monitor(c.history, [OneOwner(c.server, consumers)], seed=c.seed)


def rest(c: KafkaCluster, consumers: Sequence[Consumer], limit_seconds: int = 120) -> None:
    """Let time pass until dead sessions have expired and no consumer has rebalanced for a while."""
    still = 0
    for _ in range(limit_seconds):
        before = len(c.history)
        c.run_for(1)
        still = still + 1 if all(consumer.idle for consumer in consumers) and len(c.history) == before else 0
        if still >= 12:  # longer than the session timeout of 6 s
            return
    raise AssertionError(f"no rest:\n{c.history.to_text()}")


def check_at_rest(c: KafkaCluster, consumers: Sequence[Consumer]) -> None:
    """Assert that owners in ZooKeeper and in the consumers equal the assignor's result."""
    live = [consumer for consumer in consumers if consumer.alive]
    standing = owners(c.server.tree, GROUP)
    believed = {partition: thread for consumer in live for partition, thread in consumer.owned().items()}
    expected = expected_owners(c.server.tree, GROUP, live[0]) if live else {}
    assert standing == expected, c.history.to_text()
    assert believed == expected, c.history.to_text()


def event_texts(c: KafkaCluster, what: str, who: str = "") -> list[str]:
    """Return the participants of all events of a kind, or the `after` of those of one participant."""
    return [event.after if who else event.who for event in c.history if event.what == what and who in ("", event.who)]
