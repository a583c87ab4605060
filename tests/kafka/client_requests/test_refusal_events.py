"""Refused requests of clients are events of the history: changes of topics, and what ACLs forbid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.security.sasl_client import PLAIN_USERS, LoginClient

if TYPE_CHECKING:
    from collections.abc import Iterator

Creation = CreateTopicsRequest.CreatableTopic


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    with simzk.KafkaCluster(brokers=2) as made:
        yield made


def events(cluster: simzk.KafkaCluster, what: str) -> list[tuple[str, str, str]]:
    """Return who refused what, and why."""
    return [(one.who, one.subject, one.after) for one in cluster.history if one.what == what]


def test_a_topic_that_a_client_cannot_create_is_an_event(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    topics = [
        Creation(name="good", num_partitions=1, replication_factor=2),
        Creation(name="wide", num_partitions=1, replication_factor=5),
        Creation(name="odd", num_partitions=0, replication_factor=1),
    ]
    client.call(CreateTopicsRequest(topics=topics, timeout_ms=9000), 5, CreateTopicsResponse)
    wide, odd = events(cluster, "refused")
    assert wide[:2] == ("broker 1", "wide")
    assert wide[2].startswith(
        "CreateTopics: INVALID_REPLICATION_FACTOR Replication factor: 5 larger than available brokers: 2."
    )
    assert odd[1:] == ("odd", "CreateTopics: INVALID_PARTITIONS Number of partitions must be larger than 0.")


def test_other_changes_of_topics_are_events_too(cluster: simzk.KafkaCluster) -> None:
    client = MemoryClient(cluster, 1)
    client.call(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=9000), 5, DeleteTopicsResponse)
    grown = CreatePartitionsRequest.CreatePartitionsTopic(name="gone", count=3)
    client.call(CreatePartitionsRequest(topics=[grown], timeout_ms=9000), 3, CreatePartitionsResponse)
    assert [reason.split(" ")[:2] for _, _, reason in events(cluster, "refused")] == [
        ["DeleteTopics:", "UNKNOWN_TOPIC_OR_PARTITION"],
        ["CreatePartitions:", "UNKNOWN_TOPIC_OR_PARTITION"],
    ]


def test_a_broker_that_is_not_the_controller_refuses_nothing(cluster: simzk.KafkaCluster) -> None:
    asked = CreateTopicsRequest(topics=[Creation(name="t", num_partitions=1, replication_factor=1)], timeout_ms=9000)
    found = MemoryClient(cluster, 2).call(asked, 5, CreateTopicsResponse)
    assert found.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert not events(cluster, "refused")


def test_a_topic_that_the_test_cannot_create_is_an_event(cluster: simzk.KafkaCluster) -> None:
    response = cluster.create_topic("wide", partitions=1, replication_factor=5)
    cluster.advance(1)
    assert response.result().error == ErrorCode.INVALID_REPLICATION_FACTOR
    ((who, what, why),) = events(cluster, "refused")
    assert (who, what) == ("admin", "create topic wide")
    assert why.startswith("INVALID_REPLICATION_FACTOR")


def test_what_an_acl_forbids_is_an_event_once() -> None:
    config = {**PLAIN_USERS, "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    with simzk.KafkaCluster(brokers=1, config=config, security="SASL_PLAINTEXT") as cluster:
        cluster.create_topic("secret", assignment={0: [1]})
        cluster.run_until_quiet()
        client = LoginClient(cluster)
        assert client.log_in("alice", "secret")
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="secret")])
        for _ in range(3):
            client.call(asked, 5, MetadataResponse)
        client.call(MetadataRequest(topics=None), 5, MetadataResponse)  # which leaves out what it may not describe
        asked_topic = Creation(name="x" * 200 + "y", num_partitions=1, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[asked_topic], timeout_ms=9000), 5, CreateTopicsResponse)
        assert events(cluster, "denied") == [
            ("broker 1", "secret", "Metadata of User:alice: TOPIC_AUTHORIZATION_FAILED"),
            ("broker 1", "x" * 200, "CreateTopics of User:alice: TOPIC_AUTHORIZATION_FAILED"),
        ]
