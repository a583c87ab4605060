"""Real producers and consumers against `simzk.KafkaServer`: what they send is what they read, across a failure."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import simzk
from tests.waiting import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import confluent_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Sent = dict[int, list[bytes]]
"""Values by partition, in order."""


def served(version: str) -> simzk.KafkaServer:
    """Return a server with the topic `orders`."""
    server = simzk.KafkaServer(version, 3)
    server.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1]})
    server.run_until_quiet()
    return server


@pytest.fixture
def server() -> Iterator[simzk.KafkaServer]:
    with served("3.9") as made:
        yield made


def consumed(server: simzk.KafkaServer, count: int, version: tuple[int, ...] | None = None) -> Sent:
    """Read this many records of `orders` with kafka-python, and check that there are no more."""
    partitions = [TopicPartition("orders", number) for number in (0, 1)]
    made = KafkaConsumer(
        bootstrap_servers=server.bootstrap_servers, enable_auto_commit=False, api_version=version, fetch_max_wait_ms=100
    )
    found: Sent = {0: [], 1: []}
    with closing(made) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        assert sum(consumer.end_offsets(partitions).values()) == count
        while sum(map(len, found.values())) < count:
            for partition, records in consumer.poll(timeout_ms=round(PATIENCE_S * 1000)).items():
                for record in records:
                    assert record.offset == len(found[partition.partition])
                    found[partition.partition].append(record.value)
    return found


def sent(server: simzk.KafkaServer, values: Sequence[bytes], **options: object) -> Sent:
    """Send values to both partitions in turn with kafka-python; return them once they are acknowledged."""
    made = KafkaProducer(bootstrap_servers=server.bootstrap_servers, acks="all", linger_ms=5, **options)
    found: Sent = {0: [], 1: []}
    with closing(made) as producer:
        waiting = [producer.send("orders", value, partition=at % 2) for at, value in enumerate(values)]
        for at, one in enumerate(waiting):
            assert one.get(PATIENCE_S).offset == at // 2
            found[at % 2].append(values[at])
    return found


VALUES = [b"%d" % number * (number % 40) for number in range(200)]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9", "2.0", "0.11", "0.10.2"])
def test_kafka_python_reads_what_it_sent(version: str) -> None:
    with served(version) as server:
        is_idempotent = version != "0.10.2"
        wanted = sent(server, VALUES, enable_idempotence=is_idempotent, compression_type="gzip")
        assert consumed(server, len(VALUES)) == wanted
        server.cluster.check()


@pytest.mark.slow
@pytest.mark.parametrize("version", [(0, 9), (0, 10, 0), (0, 11)])
def test_an_old_consumer_reads_records_of_a_new_producer(server: simzk.KafkaServer, version: tuple[int, ...]) -> None:
    wanted = sent(server, VALUES)
    assert consumed(server, len(VALUES), version) == wanted


@pytest.mark.parametrize(
    "codec", [*(pytest.param(codec, marks=pytest.mark.slow) for codec in ("none", "gzip", "snappy", "zstd")), "lz4"]
)
def test_librdkafka_reads_what_it_sent(server: simzk.KafkaServer, codec: str) -> None:
    delivered: list[tuple[confluent_kafka.KafkaError | None, int | None]] = []
    options = {"bootstrap.servers": server.bootstrap_servers, "compression.type": codec, "enable.idempotence": True}
    producer = confluent_kafka.Producer(options)
    for value in VALUES:
        producer.produce("orders", value, partition=1, on_delivery=lambda e, m: delivered.append((e, m.offset())))
    assert producer.flush(PATIENCE_S) == 0
    assert delivered == [(None, offset) for offset in range(len(VALUES))]
    log = server.log(2, "orders", 1)
    assert log.high_watermark == len(VALUES)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": server.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 1, confluent_kafka.OFFSET_BEGINNING)])
    found: list[bytes | None] = []
    while len(found) < len(VALUES):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error() is None:  # the coordinator of its group may be created meanwhile
            found.append(message.value())
    consumer.close()
    assert found == VALUES


def test_no_acknowledged_record_is_lost_when_the_leader_dies(server: simzk.KafkaServer) -> None:
    delivered: list[tuple[confluent_kafka.KafkaError | None, int | None]] = []
    options = {"bootstrap.servers": server.bootstrap_servers, "enable.idempotence": True, "retry.backoff.ms": 20}
    producer = confluent_kafka.Producer(options)
    for number in range(100):
        value = b"%d" % number
        producer.produce("orders", value, partition=0, on_delivery=lambda e, m: delivered.append((e, m.offset())))
        if number == 49:
            assert producer.flush(PATIENCE_S) == 0
            server.kill(1)
    server.advance(30)  # the session of broker 1 expires, and broker 2 or 3 leads
    assert producer.flush(PATIENCE_S) == 0
    assert delivered == [(None, offset) for offset in range(100)]
    assert server.state("orders", 0).leader != 1
    assert consumed(server, 100) == {0: [b"%d" % number for number in range(100)], 1: []}
    server.cluster.check()
