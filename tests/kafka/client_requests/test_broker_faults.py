"""Faults on requests of Kafka clients: what clients see, what brokers apply, and which requests a rule matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simzk
from simzk.errors import ConfigError
from simzk.kafka.client_requests.broker_faults import topics_of
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from simzk.simulation.request_faults import Expire
from tests.kafka.client_requests.memory_client import MemoryClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.kafka.protocol.structs import Message

VERSION = 5
KINDS = ("fail", "drop_request", "drop_reply", "delay")


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    """Two brokers of Kafka 3.9; broker 1 is the controller."""
    with simzk.KafkaCluster(brokers=2, seed=1) as made:
        made.prefer_controller(1)
        yield made


def creation(*names: str) -> CreateTopicsRequest:
    """Return a request that creates topics with one partition."""
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        topics=[topic(name=name, num_partitions=1, replication_factor=1) for name in names], timeout_ms=10_000
    )


def client_at_controller(cluster: simzk.KafkaCluster) -> MemoryClient:
    """Return a client of the controller, which creates topics."""
    assert cluster.controller is not None
    return MemoryClient(cluster, cluster.controller)


def errors(client: MemoryClient, *names: str) -> dict[str, str]:
    """Create topics; return the errors by topic."""
    response = client.call(creation(*names), VERSION, CreateTopicsResponse)
    return {topic.name: ErrorCode(topic.error_code).name for topic in response.topics}


def topics(cluster: simzk.KafkaCluster) -> list[str]:
    """Return the topics in ZooKeeper."""
    node = cluster.tree.get("/brokers/topics")
    assert node is not None
    return sorted(node.children or ())


def test_the_next_requests_fail_in_the_form_of_their_api(cluster: simzk.KafkaCluster) -> None:
    client = client_at_controller(cluster)
    rule = cluster.fail_next("CreateTopics", "NOT_CONTROLLER", 2)
    for _ in range(2):
        assert errors(client, "a", "b") == {"a": "NOT_CONTROLLER", "b": "NOT_CONTROLLER"}
    assert topics(cluster) == []
    assert errors(client, "a", "b") == {"a": "NONE", "b": "NONE"}
    assert (rule.fired, rule.active) == (2, False)
    assert [event.subject for event in cluster.history if event.what == "fault: fail"] == ["a, b"] * 2


def test_a_lost_request_is_not_applied_and_one_with_a_lost_response_is(cluster: simzk.KafkaCluster) -> None:
    for verb, applied in (("drop_request", []), ("drop_reply", ["drop_reply"])):
        client = client_at_controller(cluster)
        getattr(cluster.broker_faults, verb)("CreateTopics")
        client.send_request(creation(verb), VERSION)
        assert client.wait() is None
        assert client.closed
        assert topics(cluster) == applied


def test_requests_behind_a_delayed_one_wait(cluster: simzk.KafkaCluster) -> None:
    client, other = client_at_controller(cluster), client_at_controller(cluster)
    rule = cluster.broker_faults.delay("CreateTopics", seconds=5, topic="late")
    client.send_request(creation("late"), VERSION)
    client.send_request(creation("behind"), VERSION)
    assert errors(other, "first") == {"first": "NONE"}
    cluster.run_for(4)
    assert (topics(cluster), rule.waiting) == (["first"], 1)
    cluster.run_for(2)
    assert topics(cluster) == ["behind", "first", "late"]
    assert [decode_response(CreateTopicsResponse, VERSION, frame)[0] for frame in client.frames] == [1, 2]


def test_a_held_request_waits_for_its_release(cluster: simzk.KafkaCluster) -> None:
    client = client_at_controller(cluster)
    rule = cluster.broker_faults.hold("CreateTopics")
    client.send_request(creation("a"), VERSION)
    cluster.run_for(60)
    assert (topics(cluster), rule.waiting) == ([], 1)
    rule.release()
    assert client.wait() is not None
    assert topics(cluster) == ["a"]


@pytest.mark.parametrize("end", ["hang_up", "kill"])
def test_a_held_request_is_dropped_with_its_connection(cluster: simzk.KafkaCluster, end: str) -> None:
    client = client_at_controller(cluster)
    rule = cluster.broker_faults.hold()
    client.send_request(creation("a"), VERSION)
    cluster.run_for(1)
    if end == "kill":
        assert cluster.controller is not None
        cluster.kill(cluster.controller)
    else:
        client.connection.hang_up()
    assert rule.waiting == 0
    rule.release()
    cluster.run_for(30)
    cluster.broker_faults.table.check()
    assert topics(cluster) == []


def test_a_paused_broker_handles_a_released_request_after_its_pause(cluster: simzk.KafkaCluster) -> None:
    client = client_at_controller(cluster)
    assert cluster.controller is not None
    rule = cluster.broker_faults.hold("CreateTopics")
    client.send_request(creation("a"), VERSION)
    cluster.run_for(1)
    cluster.pause(cluster.controller)
    rule.release()
    cluster.run_for(1)
    assert topics(cluster) == []
    cluster.resume(cluster.controller)
    assert client.wait() is not None
    assert topics(cluster) == ["a"]


@pytest.mark.parametrize(
    ("conditions", "fires"),
    [
        ({"topic": "a"}, True),
        ({"topic": "b"}, False),
        ({"client_id": "test"}, True),
        ({"client_id": "other"}, False),
        ({"client_id": "test", "topic": "a", "here": True}, True),
        ({"client_id": "other", "here": True}, False),
        ({"here": True}, True),
        ({"here": False}, False),
    ],
)
def test_conditions_of_rules(cluster: simzk.KafkaCluster, conditions: dict[str, Any], fires: bool) -> None:
    client = client_at_controller(cluster)
    which = dict(conditions)
    if "here" in which:
        controller = cluster.controller
        which["broker"] = controller if which.pop("here") else next(one for one in cluster.brokers if one != controller)
    cluster.broker_faults.fail("CreateTopics", error=ErrorCode.REQUEST_TIMED_OUT, **which)
    assert errors(client, "a") == {"a": "REQUEST_TIMED_OUT" if fires else "NONE"}


def test_a_topic_is_known_by_its_id(cluster: simzk.KafkaCluster) -> None:
    client = client_at_controller(cluster)
    assert errors(client, "a") == {"a": "NONE"}
    cluster.run_for(1)
    asked = MetadataRequest.MetadataRequestTopic(name="a")
    (found,) = client.call(MetadataRequest(topics=[asked]), 12, MetadataResponse).topics
    rule = cluster.broker_faults.fail("Metadata", error="UNKNOWN_TOPIC_ID", topic="a")
    by_id = MetadataRequest.MetadataRequestTopic(name=None, topic_id=found.topic_id)
    (answered,) = client.call(MetadataRequest(topics=[by_id]), 12, MetadataResponse).topics
    assert (answered.error_code, answered.topic_id, rule.fired) == (ErrorCode.UNKNOWN_TOPIC_ID, found.topic_id, 1)


def test_rules_for_any_request_leave_those_of_client_libraries(cluster: simzk.KafkaCluster) -> None:
    client = client_at_controller(cluster)
    cluster.broker_faults.fail(error="UNKNOWN_SERVER_ERROR")
    assert client.call(MetadataRequest(topics=[]), 12, MetadataResponse).brokers
    assert errors(client, "a") == {"a": "UNKNOWN_SERVER_ERROR"}


def test_a_produce_request_without_acknowledgement_closes_the_connection(cluster: simzk.KafkaCluster) -> None:
    client = client_at_controller(cluster)
    cluster.fail_next("Produce", "NOT_ENOUGH_REPLICAS")
    client.connection.receive(encode_request(ProduceRequest(acks=0), 9, correlation_id=1, client_id=None))
    assert client.wait() is None
    assert client.closed


@pytest.mark.parametrize(
    ("request_of", "named"),
    [
        (creation("a", "b"), ["a", "b"]),
        (DeleteTopicsRequest(topic_names=["a"]), ["a"]),
        (ListPartitionReassignmentsRequest(topics=None), []),
        (
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="a"),
                    DescribeConfigsRequest.DescribeConfigsResource(resource_type=4, resource_name="1"),
                ]
            ),
            ["a"],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_topics_of_requests(request_of: Message, named: list[str]) -> None:
    assert [name for name, _ in topics_of(request_of)] == named


def test_invalid_rules_change_nothing(cluster: simzk.KafkaCluster) -> None:
    faults = cluster.broker_faults
    with pytest.raises(ConfigError, match="op: unknown operation 'produce'; did you mean 'Produce'"):
        faults.drop_request("produce")
    with pytest.raises(ConfigError, match="did you mean 'NOT_ENOUGH_REPLICAS'"):
        faults.fail("Produce", error="NOT_ENOUGH_REPLICA")
    with pytest.raises(ConfigError, match="broker 7 does not exist; expected one of 1, 2"):
        faults.hold(broker=7)
    with pytest.raises(ConfigError, match="expire is no fault of a broker's request"):
        faults.inject(Expire())
    with pytest.raises(ConfigError, match="NONE is not an error of Kafka's protocol"):
        cluster.fail_next("Produce", "NONE")
    for verb, parameters in (
        ("explode", {}),
        ("fail", {"api": "Produce"}),
        ("release", {}),
        ("clear", {"rule": "9"}),
        ("delay", {"seconds": "soon"}),
        ("hold", {"n": "-1"}),
        ("hold", {"who": "me"}),
    ):
        with pytest.raises(ConfigError):
            faults.change(verb, parameters)
    assert faults.rules == []
    assert not faults.point.active


@settings(max_examples=15)
@given(
    rules=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from("abc"), st.integers(1, 3)), max_size=4),
    names=st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
)
def test_a_request_is_applied_once_or_never(rules: list[tuple[str, str, int]], names: list[str]) -> None:
    with simzk.KafkaCluster(brokers=1, seed=3) as cluster:
        parameters = {"fail": {"error": "INVALID_REQUEST"}, "delay": {"seconds": "2"}}
        for kind, name, times in rules:
            cluster.broker_faults.change(kind, {"topic": name, "n": str(times), **parameters.get(kind, {})})
        left = {number: times for number, (_, _, times) in enumerate(rules)}
        created: set[str] = set()
        for name in names:
            number = next((at for at, (_, named, _) in enumerate(rules) if named == name and left[at]), None)
            kind = ""
            if number is not None:
                kind = rules[number][0]
                left[number] -= 1
            client = MemoryClient(cluster, 1)
            client.send_request(creation(name), VERSION)
            frame = client.wait()
            assert (frame is None, client.closed) == (kind.startswith("drop"),) * 2
            if frame is not None:
                (topic,) = decode_response(CreateTopicsResponse, VERSION, frame)[2].topics
                applied = ErrorCode.TOPIC_ALREADY_EXISTS if name in created else ErrorCode.NONE
                assert topic.error_code == (ErrorCode.INVALID_REQUEST if kind == "fail" else applied)
            if kind not in ("fail", "drop_request"):
                created.add(name)
            cluster.broker_faults.table.check()
        assert set(topics(cluster)) == created
