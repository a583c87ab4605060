"""Coordinators of a simulated cluster: the topic that they create, and groups that survive their broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.coordinator.coordinator_log import LOAD_US, OFFSETS_TOPIC, partition_of
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from simzk.kafka.zookeeper_mode.schemas.config import decode as decode_config
from tests.kafka.client_requests.memory_client import MemoryClient

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "orders-service"
MINUTE_S = 60


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    """Three brokers with a topic, and with the topic of the coordinators."""
    config = {"offsets.topic.num.partitions": 3, "group.initial.rebalance.delay.ms": 0}
    with simzk.KafkaCluster(brokers=3, config=config) as cluster:
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        find(cluster)
        cluster.run_until_quiet()
        yield cluster


def find(cluster: simzk.KafkaCluster, broker: int = 1, version: int = 0) -> FindCoordinatorResponse:
    """Return the answer of a broker to FindCoordinator."""
    request = FindCoordinatorRequest(key=GROUP)
    return MemoryClient(cluster, broker).call(request, version, FindCoordinatorResponse)


def coordinator(cluster: simzk.KafkaCluster) -> MemoryClient:
    """Return a connection to the coordinator of the group, once there is one."""
    asked = min(cluster.live_brokers)
    cluster.run_until(lambda: find(cluster, asked).error_code == ErrorCode.NONE)
    return MemoryClient(cluster, find(cluster, asked).node_id)


def commit(client: MemoryClient, offset: int, generation: int = -1, member: str = "") -> ErrorCode:
    """Commit an offset of orders-0."""
    one = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[one])],
    )
    response = client.call(request, 8, OffsetCommitResponse)
    return ErrorCode(response.topics[0].partitions[0].error_code)


def fetch(client: MemoryClient) -> tuple[ErrorCode, list[int]]:
    """Return the committed offsets of the group, or an error."""
    response = client.call(OffsetFetchRequest(group_id=GROUP, topics=None), 7, OffsetFetchResponse)
    offsets = [one.committed_offset for topic in response.topics for one in topic.partitions]
    return ErrorCode(response.error_code), offsets


@pytest.mark.parametrize(("release", "replicas"), [("0.8.2", 2), ("0.10.2", 2), ("0.11", 3), ("2.4", 3), ("3.9", 3)])
def test_the_first_request_creates_the_topic(release: str, replicas: int) -> None:
    with simzk.KafkaCluster(release, 3, config={"auto.create.topics.enable": False}) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=1)  # before, a broker of 0.8 knows no broker
        cluster.run_until_quiet()
        if replicas == 2:  # up to 0.10.2 as many as there are live brokers
            cluster.shutdown(3)
            cluster.run_until_quiet()
        assert find(cluster).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        cluster.run_until_quiet()
        assignment = cluster.assignment(OFFSETS_TOPIC)
        assert len(assignment) == 50
        assert {len(one.replicas) for one in assignment.values()} == {replicas}
        found = cluster.tree.get(f"/config/topics/{OFFSETS_TOPIC}")
        assert found is not None
        assert decode_config("", found.data, cluster.brokers[1].version.reading)["cleanup.policy"] == "compact"
        leader = cluster.state(OFFSETS_TOPIC, partition_of(GROUP, 50)).leader
        assert find(cluster).node_id == leader


def test_too_few_brokers_for_the_topic() -> None:
    with simzk.KafkaCluster(brokers=1) as cluster:  # offsets.topic.replication.factor is 3
        for _ in range(2):
            assert find(cluster).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            cluster.run_until_quiet()


def test_offsets_survive_the_death_of_the_coordinator(cluster: simzk.KafkaCluster) -> None:
    client = coordinator(cluster)
    before = find(cluster).node_id
    assert commit(client, 7) == ErrorCode.NONE
    cluster.kill(before)
    cluster.run_for(30)
    assert find(cluster, min(cluster.live_brokers)).node_id != before
    assert fetch(coordinator(cluster)) == (ErrorCode.NONE, [7])


def test_a_new_coordinator_loads_its_groups(cluster: simzk.KafkaCluster) -> None:
    assert commit(coordinator(cluster), 7) == ErrorCode.NONE
    number = partition_of(GROUP, 3)
    before = cluster.state(OFFSETS_TOPIC, number).leader
    after = next(broker for broker in cluster.assignment(OFFSETS_TOPIC)[number].replicas if broker != before)
    cluster.reassign({(OFFSETS_TOPIC, number): [after]})
    groups = cluster.brokers[after].groups
    cluster.run_until(lambda: groups.groups()[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    client = MemoryClient(cluster, after)
    assert fetch(client) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    cluster.run_for(LOAD_US / 1_000_000)
    assert fetch(client) == (ErrorCode.NONE, [7])
    assert fetch(MemoryClient(cluster, before)) == (ErrorCode.NOT_COORDINATOR, [])


def test_a_removed_offset_stays_removed_at_the_next_coordinator(cluster: simzk.KafkaCluster) -> None:
    client = coordinator(cluster)
    assert commit(client, 7) == ErrorCode.NONE
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name="orders", partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)]
    )
    deleted = client.call(OffsetDeleteRequest(group_id=GROUP, topics=[topic]), 0, OffsetDeleteResponse)
    assert deleted.topics[0].partitions[0].error_code == ErrorCode.NONE
    cluster.kill(find(cluster).node_id)
    cluster.run_for(30)
    assert fetch(coordinator(cluster)) == (ErrorCode.NONE, [])


SUBSCRIBED = bytes((0, 1, 0, 0, 0, 1, 0, 4)) + b"paid" + b"\xff\xff\xff\xff"
"""A subscription to the topic `paid`."""


def stable_group(cluster: simzk.KafkaCluster, client: MemoryClient, subscription: bytes) -> tuple[str, int]:
    """Let a member join and get its assignment; return its id and generation."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = client.call(request, 3, JoinGroupResponse)
    sync = SyncGroupRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    assert client.call(sync, 3, SyncGroupResponse).error_code == ErrorCode.NONE
    return joined.member_id, joined.generation_id


@pytest.mark.parametrize(
    ("subscription", "is_known"),
    [
        (SUBSCRIBED, True),
        (SUBSCRIBED[:-1], False),
        (SUBSCRIBED[:-4] + b"\0\0\0\2a", False),
        (SUBSCRIBED[:12], False),
        (b"\0", False),
        (b"", False),
    ],
)
def test_offsets_of_topics_that_members_read_are_not_deleted(
    cluster: simzk.KafkaCluster, subscription: bytes, is_known: bool
) -> None:
    cluster.create_topic("paid", partitions=1, replication_factor=1)
    cluster.run_until_quiet()
    client = coordinator(cluster)
    stable_group(cluster, client, subscription)
    one = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
    topics = [OffsetDeleteRequest.OffsetDeleteRequestTopic(name=name, partitions=[one]) for name in ("orders", "paid")]
    deleted = client.call(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0, OffsetDeleteResponse)
    refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    codes = [topic.partitions[0].error_code for topic in deleted.topics]
    assert codes == [ErrorCode.NONE if is_known else refused, refused]


@pytest.mark.parametrize(("subscription", "is_known"), [(SUBSCRIBED, True), (b"", False)])
def test_offsets_that_a_stable_group_does_not_read_expire(
    cluster: simzk.KafkaCluster, subscription: bytes, is_known: bool
) -> None:
    for broker in cluster.brokers.values():
        assert broker.version.groups.expires_unsubscribed
    client = coordinator(cluster)
    member, generation = stable_group(cluster, client, subscription)
    assert commit(client, 7, generation, member) == ErrorCode.NONE
    group = cluster.brokers[find(cluster).node_id].groups
    days_ms = cluster.brokers[1].config.integer("offsets.retention.minutes") * 60_000
    entry = next(one for one in group._entries() if one.group.group_id == GROUP)
    (partition,) = entry.offsets
    committed_ms = entry.offsets[partition][1].commit_ms
    assert [group._has_expired(entry, partition, committed_ms + ago_ms) for ago_ms in (days_ms - 1, days_ms)] == [
        False,
        is_known,
    ]


def test_a_member_goes_on_at_the_next_coordinator(cluster: simzk.KafkaCluster) -> None:
    client = coordinator(cluster)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = client.call(request, 3, JoinGroupResponse)
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    synced = SyncGroupRequest(
        group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[assignment]
    )
    assert client.call(synced, 2, SyncGroupResponse).assignment == b"all"
    cluster.kill(find(cluster).node_id)
    cluster.run_for(30)
    client = coordinator(cluster)
    beat = HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    assert client.call(beat, 2, HeartbeatResponse).error_code == ErrorCode.NONE
    assert commit(client, 9, joined.generation_id, joined.member_id) == ErrorCode.NONE
    cluster.run_for(61)  # without a heartbeat
    assert client.call(beat, 2, HeartbeatResponse).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_deleted_topic_takes_its_offsets_along(cluster: simzk.KafkaCluster) -> None:
    client = coordinator(cluster)
    assert commit(client, 7) == ErrorCode.NONE
    cluster.delete_topic("orders")
    cluster.run_until_quiet()
    assert fetch(client) == (ErrorCode.NONE, [])


def test_a_deleted_topic_takes_groups_without_offsets_along(cluster: simzk.KafkaCluster) -> None:
    cluster.create_topic("other", partitions=1, replication_factor=1)
    cluster.run_until_quiet()
    client = coordinator(cluster)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")]
    join = JoinGroupRequest(group_id=GROUP, session_timeout_ms=60_000, protocol_type="consumer", protocols=protocols)
    joined = client.call(join, 0, JoinGroupResponse)
    leave = LeaveGroupRequest(group_id=GROUP, member_id=joined.member_id)
    assert client.call(leave, 0, LeaveGroupResponse).error_code == ErrorCode.NONE

    def state() -> str:
        described = coordinator(cluster).call(DescribeGroupsRequest(groups=[GROUP]), 0, DescribeGroupsResponse)
        return str(described.groups[0].group_state)

    assert state() == "Empty"
    cluster.delete_topic("other")
    cluster.run_until_quiet()
    assert state() == "Dead"
    cluster.kill(find(cluster).node_id)
    cluster.run_until_quiet()
    assert state() == "Dead"  # the next coordinator has read its tombstone


@pytest.mark.parametrize("release", ["1.1", "3.9"])
def test_offsets_expire(release: str) -> None:
    config = {"offsets.topic.replication.factor": 1, "offsets.retention.minutes": 20}
    with simzk.KafkaCluster(release, 1, config=config) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=1)
        find(cluster)
        cluster.run_until_quiet()
        client = coordinator(cluster)
        one = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[one])
        client.call(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 3, OffsetCommitResponse)
        found = []
        for minutes in (19, 12):  # expired offsets are looked for every ten minutes
            cluster.run_for(minutes * MINUTE_S)
            response = client.call(OffsetFetchRequest(group_id=GROUP, topics=None), 3, OffsetFetchResponse)
            found.append([one.committed_offset for topic in response.topics for one in topic.partitions])
        assert found == [[7], []]
