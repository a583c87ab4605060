"""An authorizer decides by the principal of the login."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.kafka.metadata.entities import AclEntry
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.kafka.security.sasl_client import PLAIN_USERS, LoginClient

if TYPE_CHECKING:
    from collections.abc import Iterator

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
DESCRIBE, READ = 1 << 8, 1 << 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[simzk.KafkaCluster]:
    """A broker where bob is a super user, and alice may read one topic and one group."""
    config: dict[str, str | int | bool] = {
        **PLAIN_USERS,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:bob",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
    }
    with simzk.KafkaCluster("3.9", 1, config=config, security="SASL_PLAINTEXT") as made:
        for name in ("open", "secret"):
            made.create_topic(name, assignment={0: [1]})
        made.add_acls("topic", "open", [AclEntry("User:alice", "Read")])
        made.run_until_quiet()
        made.add_acls("group", "team", [AclEntry("User:alice", "Read")])
        made.run_until_quiet()
        client(made, "bob").call(FindCoordinatorRequest(key="any"), 0, FindCoordinatorResponse)
        made.run_until_quiet()
        yield made


def client(cluster: simzk.KafkaCluster, user: str) -> LoginClient:
    """Return a client that has logged in."""
    made = LoginClient(cluster)
    assert made.log_in(user, {"alice": "secret", "bob": 'of "bob"'}[user])
    return made


def test_metadata_has_what_the_user_may_describe(cluster: simzk.KafkaCluster) -> None:
    seen = {}
    for user in ("alice", "bob"):
        found = client(cluster, user).call(MetadataRequest(topics=None), 5, MetadataResponse)
        seen[user] = {topic.name for topic in found.topics}
    assert seen == {"alice": {"open"}, "bob": {"open", "secret", "__consumer_offsets"}}
    topic = MetadataRequest.MetadataRequestTopic
    named = MetadataRequest(topics=[topic(name=name) for name in ("open", "secret", "new")])
    found = client(cluster, "alice").call(named, 5, MetadataResponse)
    assert {topic.name: topic.error_code for topic in found.topics} == {"open": 0, "secret": DENIED, "new": DENIED}


def test_authorized_operations_are_those_of_the_user(cluster: simzk.KafkaCluster) -> None:
    topic = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=[topic(name="open")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    found = client(cluster, "alice").call(request, 8, MetadataResponse)
    assert [one.topic_authorized_operations for one in found.topics] == [DESCRIBE | READ]
    assert found.cluster_authorized_operations == 0
    groups = DescribeGroupsRequest(groups=["team", "other"], include_authorized_operations=True)
    described = client(cluster, "alice").call(groups, 4, DescribeGroupsResponse).groups
    shown = {group.group_id: (group.error_code, group.authorized_operations) for group in described}
    unasked = -(1 << 31)
    assert shown == {
        "team": (0, DESCRIBE | READ),
        "other": (ErrorCode.GROUP_AUTHORIZATION_FAILED, unasked),
    }


def test_offsets_of_topics_that_the_user_may_not_describe(cluster: simzk.KafkaCluster) -> None:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic
    request = OffsetFetchRequest(
        group_id="team", topics=[topic(name=name, partition_indexes=[0]) for name in ("open", "secret")]
    )
    found = client(cluster, "alice").call(request, 5, OffsetFetchResponse)
    assert {one.name: one.partitions[0].error_code for one in found.topics} == {"open": 0, "secret": DENIED}


def test_topics_are_created_and_deleted_by_those_who_may(cluster: simzk.KafkaCluster) -> None:
    topic = CreateTopicsRequest.CreatableTopic
    create = CreateTopicsRequest(topics=[topic(name="made", num_partitions=1, replication_factor=1)], timeout_ms=5000)
    delete = DeleteTopicsRequest(topic_names=["made", "secret"], timeout_ms=5000)
    (refused,) = client(cluster, "alice").call(create, 5, CreateTopicsResponse).topics
    assert (refused.error_code, refused.error_message) == (DENIED, "Authorization failed.")
    (made,) = client(cluster, "bob").call(create, 5, CreateTopicsResponse).topics
    assert made.error_code == 0
    cluster.run_until_quiet()
    answers = client(cluster, "alice").call(delete, 3, DeleteTopicsResponse).responses
    assert [one.error_code for one in answers] == [DENIED, DENIED]
    delete.topic_names = ["made"]
    (deleted,) = client(cluster, "bob").call(delete, 3, DeleteTopicsResponse).responses
    assert deleted.error_code == 0


def test_acls_are_described_to_those_who_may(cluster: simzk.KafkaCluster) -> None:
    request = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    codes = {user: client(cluster, user).call(request, 1, DescribeAclsResponse).error_code for user in ("alice", "bob")}
    assert codes == {"alice": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "bob": 0}


def test_markers_of_transactions_are_written_by_those_who_may(cluster: simzk.KafkaCluster) -> None:
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="open", partition_indexes=[0])
    request = WriteTxnMarkersRequest(markers=[marker(producer_id=1, topics=[topic])])
    codes = {}
    for user in ("alice", "bob"):
        (result,) = client(cluster, user).call(request, 1, WriteTxnMarkersResponse).markers
        codes[user] = result.topics[0].partitions[0].error_code
    assert codes == {"alice": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "bob": 0}


def test_a_session_keeps_partitions_that_the_user_may_not_read(cluster: simzk.KafkaCluster) -> None:
    """Each request looks at all partitions of its session (KafkaApis.handleFetchRequest, FetchContext)."""
    for name in ("mine", "hidden"):
        cluster.create_topic(name, assignment={0: [1]})
    cluster.add_acls("topic", "mine", [AclEntry("User:alice", "Read")])
    cluster.run_until_quiet()
    alice = client(cluster, "alice")

    def fetch(session: int, epoch: int, *names: str) -> tuple[int, dict[str, int]]:
        one = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
        topics = [FetchRequest.FetchTopic(topic=name, partitions=[one]) for name in names]
        request = FetchRequest(session_id=session, session_epoch=epoch, max_bytes=1000, topics=topics)
        found = alice.call(request, 11, FetchResponse)
        return found.session_id, {topic.topic: topic.partitions[0].error_code for topic in found.responses}

    session, errors = fetch(0, 0, "hidden", "mine")
    assert errors == {"mine": 0, "hidden": DENIED}
    assert session > 0
    assert fetch(session, 1) == (session, {"hidden": DENIED})
    cluster.add_acls("topic", "hidden", [AclEntry("User:alice", "Read")])
    cluster.run_until_quiet()
    assert fetch(session, 2) == (session, {"hidden": 0})  # named again, for the error had no watermark
    assert fetch(session, 3) == (session, {})
    cluster.remove_acls("topic", "hidden", [AclEntry("User:alice", "Read")])
    cluster.run_until_quiet()
    assert fetch(session, 4) == (session, {"hidden": DENIED})
    only, errors = fetch(0, 0, "hidden")
    assert errors == {"hidden": DENIED}
    assert fetch(only, 1) == (only, {"hidden": DENIED})
