"""CreateTopics and DeleteTopics where answers depend on time, topic ids or settings."""

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

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_ID = "A" * 22
V = 7


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    with simzk.KafkaCluster(brokers=2) as made:
        yield made


@pytest.fixture
def client(cluster: simzk.KafkaCluster) -> MemoryClient:
    """A client of the controller."""
    assert cluster.controller is not None
    return MemoryClient(cluster, cluster.controller)


def create(client: MemoryClient, name: str, timeout_ms: int = 5000) -> CreateTopicsResponse.CreatableTopicResult:
    """Create a topic of two partitions; return its result."""
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=2)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
    (result,) = client.call(request, V, CreateTopicsResponse).topics
    return result


def delete(client: MemoryClient, name: str | None, topic_id: str = NO_ID) -> DeleteTopicsResponse.DeletableTopicResult:
    """Delete a topic; return its result."""
    topic = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id)
    (result,) = client.call(DeleteTopicsRequest(topics=[topic], timeout_ms=5000), 6, DeleteTopicsResponse).responses
    return result


def names(client: MemoryClient) -> dict[str | None, str]:
    """Return the id of each topic by name."""
    found = client.call(MetadataRequest(topics=None), 12, MetadataResponse)
    return {topic.name: topic.topic_id for topic in found.topics}


def test_a_created_topic_is_answered_when_it_has_leaders(cluster: simzk.KafkaCluster, client: MemoryClient) -> None:
    made = create(client, "orders")
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 2)
    assert names(client) == {"orders": made.topic_id}
    assert {cluster.state("orders", number).leader for number in (0, 1)} == {1, 2}


def test_a_topic_is_deleted_by_its_id(client: MemoryClient) -> None:
    topic_id = create(client, "orders").topic_id
    assert delete(client, None, "Z" * 21 + "A").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert delete(client, "orders", topic_id).error_code == ErrorCode.INVALID_REQUEST
    assert delete(client, None).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    result = delete(client, None, topic_id)
    assert (result.error_code, result.name, result.topic_id) == (0, "orders", topic_id)
    assert names(client) == {}


def test_a_timeout_ends_the_wait_and_not_the_work(cluster: simzk.KafkaCluster, client: MemoryClient) -> None:
    controller = cluster.controller
    other = next(broker for broker in cluster.brokers if broker != controller)
    cluster.kill(other)  # it is registered for a while, and may become a leader
    made = create(client, "orders", 2000)
    assert (made.error_code, made.num_partitions) == (0, 2)
    zero = create(client, "again", 0)
    assert (zero.error_code, zero.num_partitions) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    cluster.advance(1)
    assert sorted(str(name) for name in names(client)) == ["again", "orders"]


def test_requests_that_wait_leave_nothing_behind(cluster: simzk.KafkaCluster, client: MemoryClient) -> None:
    assert cluster.controller is not None
    cache = cluster.brokers[cluster.controller].metadata
    create(client, "orders")
    delete(client, "orders")
    assert cache.observers == []
    assert (cache.topics, cache.assignments, cache.topic_ids, cache.partitions) == ({}, {}, {}, {})
    assert cache.topic_names == {}


def test_a_huge_number_of_partitions_is_rejected(client: MemoryClient) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="huge", num_partitions=2**31 - 1, replication_factor=1)
    (made,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), V, CreateTopicsResponse).topics
    assert (made.error_code, names(client)) == (ErrorCode.UNKNOWN_SERVER_ERROR, {})
    create(client, "orders")
    grown = CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=2**31 - 1, assignments=None)
    request = CreatePartitionsRequest(topics=[grown], timeout_ms=5000)
    (result,) = client.call(request, 3, CreatePartitionsResponse).results
    assert result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("version", "api", "code"),
    [
        ("3.9", 6, ErrorCode.TOPIC_DELETION_DISABLED),
        ("2.8", 2, ErrorCode.INVALID_REQUEST),
        ("2.0", 2, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_deletion_is_disabled(version: str, api: int, code: ErrorCode) -> None:
    with simzk.KafkaCluster(version, 1, config={"delete.topic.enable": False}) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=1)
        cluster.run_until_quiet()
        client = MemoryClient(cluster, 1)
        named = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=500)
        stated = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="orders")], timeout_ms=500)
        (result,) = client.call(stated if api == 6 else named, api, DeleteTopicsResponse).responses
        assert result.error_code == code


@pytest.mark.parametrize("version", ["1.0", "2.8", "3.9"])
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_that_waits_for_its_deletion_gets_no_partitions(version: str, validate_only: bool) -> None:
    config = {"delete.topic.enable": True}
    with simzk.KafkaCluster(version, brokers=2, config=config) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.run_until_quiet()
        assert cluster.controller is not None
        cluster.kill(3 - cluster.controller)  # its replica halts the deletion
        cluster.run_for(30)
        client = MemoryClient(cluster, cluster.controller)
        client.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=0), 0, DeleteTopicsResponse)
        cluster.run_for(1)
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=2, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)
        (result,) = client.call(request, 0, CreatePartitionsResponse).results
        assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert result.error_message == "The topic is queued for deletion."
        assert len(cluster.assignment("orders")) == 1


@pytest.mark.parametrize(
    ("version", "code", "text"),
    [
        ("3.2", ErrorCode.NONE, None),
        ("3.3", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."),
        ("3.8", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."),
        ("3.9", ErrorCode.INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited."),
    ],
)
def test_the_topic_of_metadata_is_not_created(version: str, code: ErrorCode, text: str | None) -> None:
    """Recorded of 3.9.1; the others as KafkaApis of their tags says."""
    with simzk.KafkaCluster(version, brokers=1) as cluster:
        kind = CreateTopicsRequest.CreatableTopic
        topics = [kind(name=name, num_partitions=1, replication_factor=1) for name in ("__cluster_metadata", "orders")]
        request = CreateTopicsRequest(topics=topics, timeout_ms=5000)
        refused, made = MemoryClient(cluster, 1).call(request, V, CreateTopicsResponse).topics
        assert (refused.error_code, refused.error_message) == (code, text)
        is_denied = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert refused.topic_config_error_code == (code if is_denied else 0)
        assert (made.name, made.error_code) == ("orders", 0)
        assert (cluster.tree.get("/brokers/topics/__cluster_metadata") is not None) == (code == ErrorCode.NONE)
