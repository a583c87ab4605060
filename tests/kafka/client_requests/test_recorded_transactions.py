"""Answers of simulated coordinators of transactions, compared with those of real brokers of the same release."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.log.record_batches import Record, encode_batch
from simzk.kafka.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded_transactions import (
    APIS,
    DATA_APIS,
    RECORDED_MS,
    RECORDS_BEFORE,
    TOPIC,
    TRANSACTION_RELEASES,
    Replay,
    exchanges,
    leaders_of,
    of_release,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.client_requests.memory_client import CallingClient

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
LATE_MARKERS = {"3.4.1": ("transaction, version 0 | Fetch v13", "transaction, version 0 | OffsetFetch v8")}
"""Answers after the end of a transaction: the first markers of the recorded cluster took more than 150 ms."""
IDS_BEFORE = 300
"""Producer ids that are used before, so that no transactional id gets one that a recorded request names by mistake."""


def produce(client: CallingClient) -> None:
    """Produce a record to the partition of the transactions."""
    data = encode_batch([Record(b"k", b"before", timestamp_ms=RECORDED_MS)])
    part = ProduceRequest.PartitionProduceData(index=2, records=data)
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])
    response = client.call(ProduceRequest(acks=-1, timeout_ms=3000, topic_data=[topic]), 3, ProduceResponse)
    client.connection.hang_up()
    assert response.responses[0].partition_responses[0].error_code == 0


def prepare(
    cluster: simzk.KafkaCluster | simzk.KafkaServer, release: str, connect: Callable[[int], CallingClient]
) -> None:
    """Create the topic of the transactions, their coordinators where they were, and records and producer ids before."""
    cluster.create_topic(TOPIC, assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for kind, topic in enumerate(("__consumer_offsets", "__transaction_state")):
        leaders = leaders_of(of_release(release), kind, 3)
        assignment = {number: [leader, leader % 3 + 1] for number, leader in leaders.items()}
        cluster.create_topic(topic, assignment=assignment)
    cluster.run_until_quiet()
    for _ in range(RECORDS_BEFORE):
        produce(connect(3))
    for broker in BROKERS:
        client = connect(broker)
        for _ in range(IDS_BEFORE):
            client.call(InitProducerIdRequest(transactional_id=None), 0, InitProducerIdResponse)
            cluster.run_for(0.01)
        client.connection.hang_up()


def unexpected(release: str, differing: list[str]) -> list[str]:
    """Return the answers of leaders and groups that differ although nothing allows it."""
    found = [text for text in differing if text.split(" | ")[1].startswith(DATA_APIS)]
    late = LATE_MARKERS.get(release, ())
    assert all(sum(text.startswith(one) for text in found) == 1 for one in late), "an allowance that is not needed"
    return [text for text in found if not text.startswith(late)]


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", TRANSACTION_RELEASES)
def test_answers_are_those_of_real_brokers(release: str) -> None:
    compared = of_release(release)
    assert len(compared) > 20
    with simzk.KafkaCluster(release, 3, config=CONFIG) as cluster:
        connect = partial(MemoryClient, cluster)
        prepare(cluster, release, connect)
        assert Replay(cluster, connect, cluster.scheduler).play(compared) == []
        for broker in BROKERS:
            cluster.brokers[broker].transactions.check()


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", TRANSACTION_RELEASES)
def test_leaders_and_groups_answer_as_real_brokers(release: str) -> None:
    """The answers of the coordinators decide what is sent; they are compared above, without requests in between."""
    sent = of_release(release, (*APIS, *DATA_APIS))
    assert len(of_release(release, DATA_APIS)) >= 9
    with simzk.KafkaCluster(release, 3, config=CONFIG) as cluster:
        connect = partial(MemoryClient, cluster)
        prepare(cluster, release, connect)
        differing = Replay(cluster, connect, cluster.scheduler).play(sent)
        for broker in BROKERS:
            cluster.brokers[broker].groups.check()
            for replica in cluster.brokers[broker].replicas.replicas.values():
                replica.log.check()
    assert unexpected(release, differing) == []


def test_every_release_is_compared() -> None:
    assert {one["release"] for one in exchanges()} == set(TRANSACTION_RELEASES)
