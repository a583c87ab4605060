"""Transactional producers of kafka-python and librdkafka at `simzk.KafkaServer`: commit, abort, fencing, failover."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.coordinator.coordinator_log import TRANSACTIONS_TOPIC, partition_of
from tests.waiting import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError, ProducerFencedError

import confluent_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator

ID = "payments"
CONFIG = {"transaction.state.log.num.partitions": 3, "offsets.topic.num.partitions": 3}
RECORDS = 5
FENCED = (confluent_kafka.KafkaError._FENCED, confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH)


def served(version: str) -> simzk.KafkaServer:
    """Return a server with the topic `orders`."""
    server = simzk.KafkaServer(version, 3, config=CONFIG)
    server.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1]})
    server.run_until_quiet()
    return server


@pytest.fixture
def server() -> Iterator[simzk.KafkaServer]:
    with served("3.9") as made:
        yield made


def librdkafka(server: simzk.KafkaServer) -> confluent_kafka.Producer:
    """Return a producer of librdkafka, ready to begin transactions."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "transactional.id": ID,
            "log_level": 0,
            "retry.backoff.ms": 20,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def send(producer: confluent_kafka.Producer, name: str) -> list[bytes]:
    """Send records to both partitions in a new transaction; return their values."""
    values = [f"{name} {number}".encode() for number in range(RECORDS)]
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce("orders", value, partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    return values


def read(server: simzk.KafkaServer, isolation_level: str = "read_committed") -> set[bytes]:
    """Return all records of `orders` that a consumer reads."""
    partitions = [TopicPartition("orders", number) for number in (0, 1)]
    made = KafkaConsumer(
        bootstrap_servers=server.bootstrap_servers,
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        isolation_level=isolation_level,
    )
    found: set[bytes] = set()
    with closing(made) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for records in consumer.poll(timeout_ms=1000).values():
                found.update(record.value for record in records)
    return found


@pytest.mark.parametrize("version", ["3.9", "2.4", "0.11"])
def test_a_consumer_of_committed_records_reads_what_librdkafka_committed(version: str) -> None:
    with served(version) as server:
        producer = librdkafka(server)
        committed = send(producer, "first")
        producer.commit_transaction(PATIENCE_S)
        aborted = send(producer, "second")
        producer.abort_transaction(PATIENCE_S)
        committed += send(producer, "third")
        producer.commit_transaction(PATIENCE_S)
        assert read(server) == set(committed)
        assert read(server, "read_uncommitted") == {*committed, *aborted}
        server.cluster.check()


@pytest.mark.parametrize("version", ["3.9", "0.11"])
def test_kafka_python_commits_and_aborts(version: str) -> None:
    with served(version) as server:
        made = KafkaProducer(
            bootstrap_servers=server.bootstrap_servers, transactional_id=ID, acks="all", retry_backoff_ms=20
        )
        with closing(made) as producer:
            producer.init_transactions()
            for name, is_commit in (("first", True), ("second", False), ("third", True)):
                producer.begin_transaction()
                for number in (0, 1):
                    producer.send("orders", f"{name} {number}".encode(), partition=number).get(PATIENCE_S)
                (producer.commit_transaction if is_commit else producer.abort_transaction)()
        assert read(server) == {b"first 0", b"first 1", b"third 0", b"third 1"}
        server.cluster.check()


def test_a_newer_producer_fences_the_older_one(server: simzk.KafkaServer) -> None:
    older = librdkafka(server)
    send(older, "older")
    newer = librdkafka(server)
    values = send(newer, "newer")
    newer.commit_transaction(PATIENCE_S)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        older.commit_transaction(PATIENCE_S)
    assert caught.value.args[0].code() in FENCED
    assert caught.value.args[0].fatal()
    assert read(server) == set(values)
    server.cluster.check()


def test_kafka_python_hears_that_it_is_fenced(server: simzk.KafkaServer) -> None:
    made = KafkaProducer(
        bootstrap_servers=server.bootstrap_servers, transactional_id=ID, acks="all", retry_backoff_ms=20
    )
    with closing(made) as older:
        older.init_transactions()
        older.begin_transaction()
        older.send("orders", b"older", partition=0).get(PATIENCE_S)
        newer = librdkafka(server)
        values = send(newer, "newer")
        newer.commit_transaction(PATIENCE_S)
        with pytest.raises(KafkaError) as caught:
            older.commit_transaction()
        assert isinstance(caught.value, ProducerFencedError) or "fenced" in str(caught.value).lower()
    assert read(server) == set(values)


def test_a_transaction_is_committed_when_its_coordinator_dies(server: simzk.KafkaServer) -> None:
    producer = librdkafka(server)
    first = send(producer, "first")
    producer.commit_transaction(PATIENCE_S)
    second = send(producer, "second")
    partition = partition_of(ID, 3)
    coordinator = server.state(TRANSACTIONS_TOPIC, partition).leader
    server.kill(coordinator)
    server.advance(30)  # its session expires, and another replica leads
    producer.commit_transaction(PATIENCE_S)
    assert server.state(TRANSACTIONS_TOPIC, partition).leader != coordinator
    assert read(server) == {*first, *second}
    third = send(producer, "third")
    producer.commit_transaction(PATIENCE_S)
    assert read(server) == {*first, *second, *third}
    server.cluster.check()


def test_offsets_are_committed_with_their_transaction(server: simzk.KafkaServer) -> None:
    producer = librdkafka(server)
    send(producer, "input")
    producer.commit_transaction(PATIENCE_S)
    options = {"bootstrap.servers": server.bootstrap_servers, "group.id": "readers", "log_level": 0}
    consumer = confluent_kafka.Consumer({**options, "enable.auto.commit": False})
    try:
        for offset, is_commit, wanted in ((2, False, confluent_kafka.OFFSET_INVALID), (3, True, 3)):
            send(producer, f"output {offset}")
            position = [confluent_kafka.TopicPartition("orders", 0, offset)]
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), PATIENCE_S)
            (producer.commit_transaction if is_commit else producer.abort_transaction)(PATIENCE_S)
            (found,) = consumer.committed([confluent_kafka.TopicPartition("orders", 0)], PATIENCE_S)
            assert found.offset == wanted
    finally:
        consumer.close()
