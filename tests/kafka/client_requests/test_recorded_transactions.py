"""Answers of simulated coordinators of transactions, compared with those of real brokers of the same release."""

from __future__ import annotations

import pytest

import simzk
from simzk.kafka.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded_transactions import (
    TRANSACTION_RELEASES,
    Replay,
    exchanges,
    leaders_of,
    of_release,
)

BROKERS = (1, 2, 3)
CONFIG = {
    "auto.create.topics.enable": False,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 2,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
}
"""Settings of the recorded brokers."""
IDS_BEFORE = 300
"""Producer ids that are used before, so that no transactional id gets one that a recorded request names by mistake."""


def cluster_of(release: str) -> simzk.KafkaCluster:
    """Return three brokers with the topic of the transactions, and with their coordinators where they were."""
    cluster = simzk.KafkaCluster(release, 3, config=CONFIG)
    cluster.create_topic("m0", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for kind, topic in enumerate(("__consumer_offsets", "__transaction_state")):
        leaders = leaders_of(of_release(release), kind, 3)
        assignment = {number: [leader, leader % 3 + 1] for number, leader in leaders.items()}
        cluster.create_topic(topic, assignment=assignment)
    cluster.run_until_quiet()
    for broker in BROKERS:
        client = MemoryClient(cluster, broker)
        for _ in range(IDS_BEFORE):
            client.call(InitProducerIdRequest(transactional_id=None), 0, InitProducerIdResponse)
            cluster.run_for(0.01)
    return cluster


@pytest.mark.parametrize("release", TRANSACTION_RELEASES)
def test_answers_are_those_of_real_brokers(release: str) -> None:
    compared = of_release(release)
    assert len(compared) > 20
    with cluster_of(release) as cluster:
        assert Replay(cluster).play(compared) == []
        for broker in BROKERS:
            cluster.brokers[broker].transactions.check()


def test_every_release_is_compared() -> None:
    assert {one["release"] for one in exchanges()} == set(TRANSACTION_RELEASES)
