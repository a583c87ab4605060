"""Consumers of kafka-python and librdkafka with `read_committed` at simzk.KafkaServer, and offsets in transactions."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

with warnings.catch_warnings():  # `kafka` touches deprecated names of the standard library when it is imported
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer
    from kafka import TopicPartition as KafkaPythonPartition

from confluent_kafka import Consumer, Producer, TopicPartition

import simzk
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

POLL_S = 0.1
ROUNDS = round(PATIENCE_S / POLL_S)
GROUP = "orders-service"
LONGEST_TRANSACTION_MS = 900_000
"""A machine that stands still for a while aborts no transaction, and the jump of time neither."""
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
}


@pytest.fixture
def server() -> Iterator[simzk.KafkaServer]:
    """Three brokers with a topic of one partition."""
    with simzk.KafkaServer(brokers=3, config=CONFIG) as server:
        server.create_topic("orders", partitions=1, replication_factor=3)
        server.run_until_quiet()
        yield server


def transactional_producer(server: simzk.KafkaServer, name: str = "tx") -> Producer:
    """Return a producer of librdkafka that may begin a transaction."""
    options = {"bootstrap.servers": server.bootstrap_servers, "transactional.id": name, "log_level": 0}
    producer = Producer({**options, "transaction.timeout.ms": LONGEST_TRANSACTION_MS})
    producer.init_transactions(PATIENCE_S)
    return producer


def send(producer: Producer, *values: bytes) -> None:
    """Send records, and wait until the brokers have them."""
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(PATIENCE_S) == 0


def write_transactions(server: simzk.KafkaServer) -> Producer:
    """Commit a transaction, abort one, commit another, and begin one; return its producer."""
    producer = transactional_producer(server)
    producer.begin_transaction()
    send(producer, b"first", b"second")
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    send(producer, b"aborted")
    producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    send(producer, b"third")
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    send(producer, b"open")
    return producer


def librdkafka(server: simzk.KafkaServer, isolation: str = "read_committed") -> Consumer:
    """Return a consumer of librdkafka that reads `orders` from the start."""
    options = {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "log_level": 0}
    consumer = Consumer({**options, "enable.auto.commit": False, "isolation.level": isolation})
    consumer.assign([TopicPartition("orders", 0, 0)])
    return consumer


def read_until(consumer: Consumer, last: bytes) -> list[bytes]:
    """Return the values up to one of them."""
    values: list[bytes] = []
    for _ in range(ROUNDS):
        message = consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
        if last in values:
            return values
    raise AssertionError(f"not within {PATIENCE_S} s; read {values}")


@pytest.mark.slow
def test_librdkafka_reads_committed_transactions(server: simzk.KafkaServer) -> None:
    producer = write_transactions(server)
    with closing(librdkafka(server)) as committed, closing(librdkafka(server, "read_uncommitted")) as uncommitted:
        assert read_until(uncommitted, b"open") == [b"first", b"second", b"aborted", b"third", b"open"]
        assert read_until(committed, b"third") == [b"first", b"second", b"third"]
        partition = TopicPartition("orders", 0)
        stable, end = (one.get_watermark_offsets(partition, PATIENCE_S)[1] for one in (committed, uncommitted))
        assert end == stable + 1  # the record of the open transaction
        leader = server.state("orders", 0).leader
        server.kill(leader)
        server.advance(30)
        assert server.state("orders", 0).leader != leader
        producer.commit_transaction(PATIENCE_S)
        assert read_until(committed, b"open") == [b"open"]


def test_kafka_python_reads_committed_transactions(server: simzk.KafkaServer) -> None:
    producer = write_transactions(server)
    options = {"bootstrap_servers": server.bootstrap_servers, "isolation_level": "read_committed"}
    with closing(KafkaConsumer(**options)) as consumer:
        partition = KafkaPythonPartition("orders", 0)
        consumer.assign([partition])
        consumer.seek_to_beginning()
        values: list[bytes] = []

        def read(last: bytes) -> list[bytes]:
            for _ in range(ROUNDS):
                found = consumer.poll(timeout_ms=round(POLL_S * 1000))
                values.extend(record.value for record in found.get(partition, ()))
                if last in values:
                    return values
            raise AssertionError(f"not within {PATIENCE_S} s; read {values}")

        assert read(b"third") == [b"first", b"second", b"third"]
        producer.abort_transaction(PATIENCE_S)
        producer.begin_transaction()
        send(producer, b"fourth")
        producer.commit_transaction(PATIENCE_S)
        assert read(b"fourth") == [b"first", b"second", b"third", b"fourth"]


def test_offsets_are_committed_with_the_transaction(server: simzk.KafkaServer) -> None:
    producer = transactional_producer(server)
    place = TopicPartition("orders", 0)
    with closing(librdkafka(server)) as consumer:

        def end(offset: int, *, is_commit: bool) -> int:
            """End a transaction with an offset of the group; return the committed offset."""
            producer.begin_transaction()
            send(producer, b"result")
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition("orders", 0, offset)], metadata, PATIENCE_S)
            (producer.commit_transaction if is_commit else producer.abort_transaction)(PATIENCE_S)
            return consumer.committed([place], PATIENCE_S)[0].offset

        assert end(5, is_commit=True) == 5
        assert end(7, is_commit=False) == 5
        assert end(9, is_commit=True) == 9
