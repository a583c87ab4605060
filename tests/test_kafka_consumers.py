"""Consumer groups of kafka-python and librdkafka at `simzk.KafkaServer`: they join, commit and lose a broker."""

from __future__ import annotations

import warnings
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

with warnings.catch_warnings():  # `kafka` touches deprecated names of the standard library when it is imported
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as KafkaPythonPartition
    from kafka.structs import OffsetAndMetadata

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import admin as librdkafka_admin

import simzk
from simzk.kafka.coordinator.coordinator_log import OFFSETS_TOPIC, partition_of
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GROUP = "orders-service"
POLL_S = 0.1
CONFIG = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}
ROUNDS = round(PATIENCE_S / POLL_S)
RECORDS = 30
PARTITIONS = 4
SESSION_MS = 240_000
"""A machine that stands still for a while ends no session, and the jump of time neither."""


@pytest.fixture
def server() -> Iterator[simzk.KafkaServer]:
    """Three brokers with a topic of four partitions."""
    with simzk.KafkaServer(brokers=3, config=CONFIG) as server:
        server.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        server.run_until_quiet()
        yield server


def produce(server: simzk.KafkaServer, first: int = 0) -> set[bytes]:
    """Produce records to all partitions; return them."""
    values = {b"%d" % number for number in range(first, first + RECORDS)}
    with closing(KafkaProducer(bootstrap_servers=server.bootstrap_servers, acks="all")) as producer:
        sent = [
            producer.send("orders", value, partition=number % PARTITIONS) for number, value in enumerate(sorted(values))
        ]
        for one in sent:
            one.get(PATIENCE_S)
    return values


def librdkafka(server: simzk.KafkaServer, **options: object) -> Consumer:
    """Return a consumer of librdkafka in the group, which reports nothing on stderr."""
    return Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            "session.timeout.ms": SESSION_MS,
            **options,
        }
    )


def poll_until(consumers: list[Consumer], is_done: Callable[[set[bytes]], bool]) -> set[bytes]:
    """Poll consumers in turn until a condition of the records that they have read holds; return these."""
    values: set[bytes] = set()
    for _ in range(ROUNDS):
        for consumer in consumers:
            message = consumer.poll(POLL_S / len(consumers))
            if message is not None and message.error() is None:
                values.add(message.value() or b"")
        if is_done(values):
            return values
    raise AssertionError(f"not within {PATIENCE_S} s; read {len(values)} records")


def assigned(consumer: Consumer) -> list[int]:
    """Return the numbers of the partitions of a consumer."""
    return sorted(partition.partition for partition in consumer.assignment())


def positions(consumer: Consumer) -> dict[int, int]:
    """Return the offset of the next record by partition, as far as records were read."""
    found = consumer.position(consumer.assignment())
    return {partition.partition: partition.offset for partition in found if partition.offset >= 0}


def committed(consumer: Consumer) -> int:
    """Return the sum of the committed offsets of all partitions."""
    found = consumer.committed([TopicPartition("orders", number) for number in range(PARTITIONS)], PATIENCE_S)
    return sum(max(partition.offset, 0) for partition in found)


def coordinator_of(server: simzk.KafkaServer) -> int:
    """Return the broker that coordinates the group."""
    leader = server.state(OFFSETS_TOPIC, partition_of(GROUP, 3)).leader
    assert leader >= 0
    return leader


@pytest.mark.slow
def test_two_members_of_librdkafka_and_the_death_of_their_coordinator(server: simzk.KafkaServer) -> None:
    produced = produce(server)
    with ExitStack() as stack:
        first, second = (librdkafka(server) for _ in range(2))
        for consumer in (first, second):
            stack.callback(consumer.close)
        first.subscribe(["orders"])
        values = poll_until([first], lambda _: assigned(first) == list(range(PARTITIONS)))
        second.subscribe(["orders"])
        members = [first, second]
        values |= poll_until(members, lambda _: len(assigned(first)) == len(assigned(second)) == PARTITIONS // 2)
        assert sorted(assigned(first) + assigned(second)) == list(range(PARTITIONS))
        values |= poll_until(
            members, lambda _: sum(end for one in members for end in positions(one).values()) == RECORDS
        )
        assert values == produced
        for consumer in members:
            ends = [TopicPartition("orders", number, end) for number, end in positions(consumer).items()]
            consumer.commit(offsets=ends, asynchronous=False)
        assert committed(first) == RECORDS

        server.kill(coordinator_of(server))
        server.advance(20)  # its session expires
        later = produce(server, RECORDS)
        poll_until(members, later.issubset)
        assert committed(first) == RECORDS


def test_kafka_python_continues_from_the_committed_offset(server: simzk.KafkaServer) -> None:
    produce(server)
    options = {
        "bootstrap_servers": server.bootstrap_servers,
        "group_id": GROUP,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "consumer_timeout_ms": PATIENCE_S * 1000,
    }
    partition = KafkaPythonPartition("orders", 0)
    with closing(KafkaConsumer("orders", **options)) as consumer:
        values = {next(consumer).value for _ in range(RECORDS)}
        assert len(values) == RECORDS
        assert len(consumer.assignment()) == PARTITIONS
        consumer.commit()
        end = consumer.committed(partition)
        consumer.commit({partition: OffsetAndMetadata(end - 1, "again", -1)})
    with closing(KafkaConsumer("orders", **options)) as consumer:
        record = next(consumer)  # of all records, only this one was not committed
        assert (record.partition, record.offset) == (0, end - 1)


def test_the_admin_sees_the_group(server: simzk.KafkaServer) -> None:
    with closing(librdkafka(server)) as consumer:
        consumer.subscribe(["orders"])
        poll_until([consumer], lambda _: bool(assigned(consumer)))
        admin = librdkafka_admin.AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        found = admin.describe_consumer_groups([GROUP], request_timeout=PATIENCE_S)[GROUP].result(PATIENCE_S)
        assert found.state.name == "STABLE"
        assert found.coordinator.id == coordinator_of(server)
        assert len(found.members[0].assignment.topic_partitions) == PARTITIONS
        listed = admin.list_consumer_groups(request_timeout=PATIENCE_S).result(PATIENCE_S)
        assert [group.group_id for group in listed.valid] == [GROUP]


@pytest.mark.slow
def test_a_static_member_comes_back_to_its_partitions(server: simzk.KafkaServer) -> None:
    with closing(librdkafka(server, **{"group.instance.id": "a"})) as other:
        other.subscribe(["orders"])
        with closing(librdkafka(server, **{"group.instance.id": "b"})) as consumer:
            consumer.subscribe(["orders"])
            poll_until([other, consumer], lambda _: len(assigned(consumer)) == len(assigned(other)) == 2)
            before, of_other = assigned(consumer), assigned(other)
        with closing(librdkafka(server, **{"group.instance.id": "b"})) as consumer:
            consumer.subscribe(["orders"])
            poll_until([other, consumer], lambda _: bool(assigned(consumer)))
            assert (assigned(consumer), assigned(other)) == (before, of_other)
