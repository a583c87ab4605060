"""What says that consumer groups or transactions cannot start for want of brokers."""

from __future__ import annotations

import warnings

import pytest

import simzk
from simzk.kafka.client_requests.metadata import SHORT_OF_BROKERS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError

ONE_GROUP = {"offsets.topic.replication.factor": 1}
ONE = {"transaction.state.log.replication.factor": 1}


def told(cluster: simzk.KafkaCluster) -> list[tuple[str, str, str, str]]:
    return [(one.who, one.subject, one.before, one.after) for one in cluster.history if one.what == SHORT_OF_BROKERS]


def join(cluster: simzk.KafkaCluster) -> None:
    cluster.create_topic("orders", partitions=1, replication_factor=1)
    cluster.run_until_quiet()
    assert list(cluster.client(KafkaConsumer, "orders", group_id="g", consumer_timeout_ms=5000)) == []


@pytest.mark.parametrize("version", ["2.7", "3.9"])
def test_a_group_of_one_broker(version: str) -> None:
    with simzk.KafkaCluster(version, brokers=1) as cluster:
        join(cluster)
        fix = 'start more brokers, or set config={"offsets.topic.replication.factor": 1}'
        assert told(cluster) == [
            ("broker 1", "__consumer_offsets", "1 live", f"offsets.topic.replication.factor=3: {fix}")
        ]


def test_the_first_group_after_a_broker_died() -> None:
    with simzk.KafkaCluster(brokers=3) as cluster:
        cluster.kill(3)
        cluster.run_for(30)
        join(cluster)
        assert {entry[1:3] for entry in told(cluster)} == {("__consumer_offsets", "2 live")}


@pytest.mark.parametrize(
    ("version", "config", "setting"),
    [
        ("3.9", {}, "transaction.state.log.replication.factor=3"),
        ("2.7", {}, "transaction.state.log.replication.factor=3"),
        ("2.7", ONE, "transaction.state.log.min.isr=2"),
    ],
)
def test_transactions_of_one_broker(version: str, config: dict[str, int], setting: str) -> None:
    with simzk.KafkaCluster(version, brokers=1, config=config) as cluster:
        producer = cluster.client(KafkaProducer, transactional_id="x", max_block_ms=5000, transaction_timeout_ms=5000)
        with pytest.raises(KafkaError):
            producer.init_transactions()
        assert [entry[3].partition(":")[0] for entry in told(cluster)] == [setting]


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    with simzk.KafkaCluster(brokers=1, config=ONE_GROUP | ONE) as cluster:
        join(cluster)
        cluster.client(KafkaProducer, transactional_id="x").init_transactions()
        assert told(cluster) == []
