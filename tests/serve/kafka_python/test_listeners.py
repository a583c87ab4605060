"""Clients of kafka-python in memory at brokers with two listeners."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():  # `kafka` touches deprecated names of the standard library when it is imported
    warnings.simplefilter("ignore")
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

import simzk

BROKERS = {
    number: {
        "listeners": f"INTERNAL://:{19090 + number},EXTERNAL://:{9090 + number}",
        "advertised.listeners": f"INTERNAL://broker{number}:19092,EXTERNAL://localhost:{9090 + number}",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    for number in (1, 2, 3)
}


@pytest.mark.parametrize(
    ("bootstrap", "addresses"),
    [
        ({}, [("localhost", 9090 + number) for number in BROKERS]),
        ({"bootstrap_servers": "broker2:19092"}, [(f"broker{number}", 19092) for number in BROKERS]),
    ],
)
def test_a_group_works_at_either_listener(bootstrap: dict[str, str], addresses: list[tuple[str, int]]) -> None:
    with simzk.KafkaCluster(brokers=3, broker_config=BROKERS) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3)
        cluster.run_until_quiet()
        admin = cluster.client(KafkaAdminClient, **bootstrap)
        assert [(one["host"], one["port"]) for one in admin.describe_cluster()["brokers"]] == addresses
        producer = cluster.client(KafkaProducer, acks="all", **bootstrap)
        producer.send("t", b"paid").get(timeout=10)
        consumer = cluster.client(KafkaConsumer, "t", auto_offset_reset="earliest", group_id="g", **bootstrap)
        assert next(consumer).value == b"paid"
