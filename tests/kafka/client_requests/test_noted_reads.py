"""Records that clients read are noted: a later leader that lacks one is a mistake, and is found."""

from __future__ import annotations

import warnings

import pytest

import simzk
from simzk.kafka.protocol.messages import FetchRequest, FetchResponse
from tests.kafka.client_requests.memory_client import MemoryClient

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

RACKS = {1: "a", 2: "b", 3: "c"}
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


def with_topic(version: str = "3.9") -> simzk.KafkaCluster:
    """Return a cluster with the topic `orders`, led by broker 1."""
    config = SELECTOR if version == "3.9" else None
    cluster = simzk.KafkaCluster(version, 3, RACKS if config else None, config=config)
    cluster.create_topic("orders", assignment={0: [1, 2, 3]})
    cluster.run_until_quiet()
    return cluster


def consumer_of(cluster: simzk.KafkaCluster, **options: object) -> KafkaConsumer:
    consumer = cluster.client(KafkaConsumer, enable_auto_commit=False, **options)
    consumer.assign([TopicPartition("orders", 0)])
    consumer.seek_to_beginning()
    return consumer


def send(cluster: simzk.KafkaCluster, count: int, **options: object) -> None:
    producer = cluster.client(KafkaProducer, linger_ms=0, enable_idempotence=False, **options)
    for number in range(count):
        producer.send("orders", b"%d" % number).get(10)
    producer.close()


def cut_followers(cluster: simzk.KafkaCluster) -> None:
    """Cut the followers off from the leader; they stay in the ISR for 30 s."""
    for broker in (2, 3):
        cluster.network.cut("broker 1", f"broker {broker}")


@pytest.mark.parametrize("version", ["3.9", "2.4", "1.0", "0.10.2", "0.8.2"])
def test_what_a_consumer_reads_is_noted_once(version: str) -> None:
    with with_topic(version) as cluster:
        send(cluster, 3, acks="all", **({"api_version": (0, 8, 2)} if version == "0.8.2" else {}))
        options = {"api_version": (0, 8, 2)} if version == "0.8.2" else {}
        for _ in range(2):
            consumer = consumer_of(cluster, **options)
            assert [next(consumer).value for _ in range(3)] == [b"0", b"1", b"2"]
            consumer.close()
            assert cluster.record_ledger.read == 3
        cluster.check()


def test_what_a_consumer_reads_from_a_follower_is_noted() -> None:
    with with_topic() as cluster:
        send(cluster, 3, acks="all")
        consumer = consumer_of(cluster, client_rack="c")
        assert [next(consumer).value for _ in range(3)] == [b"0", b"1", b"2"]
        assert cluster.record_ledger.read == 3
        cluster.kill(1)
        cluster.run_until(lambda: cluster.state("orders", 0).leader in (2, 3))
        cluster.check()


def test_a_consumer_is_promised_what_it_reads() -> None:
    """A leader must not serve beyond the high watermark: its followers, one of which leads next, may lack the rest."""
    with with_topic() as cluster:
        consumer = consumer_of(cluster)
        consumer.poll(timeout_ms=1000)
        cut_followers(cluster)
        send(cluster, 1, acks=1)
        consumer.poll(timeout_ms=3000)
        cluster.kill(1)
        cluster.network.heal_all()
        cluster.run_until(lambda: cluster.state("orders", 0).leader in (2, 3))
        cluster.run_for(5)
        cluster.check()
        (lost,) = cluster.record_ledger.losses
        assert (lost.acks, lost.cause) == ("acks=1", "acks=1")


def test_a_tool_that_reads_beyond_the_high_watermark_is_promised_nothing() -> None:
    with with_topic() as cluster:
        cut_followers(cluster)
        send(cluster, 1, acks=1)
        one = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchRequest.FetchTopic(topic="orders", partitions=[one])
        request = FetchRequest(replica_id=-2, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        response = MemoryClient(cluster, 1).call(request, 11, FetchResponse)
        assert response.responses[0].partitions[0].records
        assert cluster.record_ledger.read == 0


def test_a_loss_of_what_was_read_fails_the_check() -> None:
    with with_topic() as cluster:
        send(cluster, 1, acks="all")
        assert next(consumer_of(cluster)).value == b"0"
        log = cluster.brokers[2].replicas.replicas[("orders", 0)].log  # type: ignore[index]
        (batch,) = log.batches
        cluster.record_ledger.on_leader(2, next(iter(cluster.brokers[2].replicas.replicas)), 1, type(log)())
        with pytest.raises(AssertionError, match=f"without {batch.records} records from 0 on"):
            cluster.check()
