"""Elections and reassignments that clients ask for, from the request to the metadata of the brokers."""

from __future__ import annotations

import pytest

import simzk
from simzk.kafka.client_requests.admin.leadership import result_order
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.client_requests.memory_client import MemoryClient

UNCLEAN = 1


def controller_client(cluster: simzk.KafkaCluster) -> MemoryClient:
    """Return a client of the controller."""
    assert cluster.controller is not None
    return MemoryClient(cluster, cluster.controller)


def elect(client: MemoryClient, kind: int, *partitions: int) -> dict[int, int]:
    """Elect leaders of partitions of `orders`, or of all partitions; return the error of each."""
    named = [ElectLeadersRequest.TopicPartitions(topic="orders", partitions=list(partitions))]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=named if partitions else None, timeout_ms=5000)
    response = client.call(request, 2, ElectLeadersResponse)
    assert response.error_code == ErrorCode.NONE
    results = [one for topic in response.replica_election_results for one in topic.partition_result]
    return {one.partition_id: one.error_code for one in results}


@pytest.mark.parametrize("version", ["3.9", "2.4"])
def test_a_preferred_leader_is_elected(version: str) -> None:
    with simzk.KafkaCluster(version, 3, config={"auto.leader.rebalance.enable": False}) as cluster:
        cluster.create_topic("orders", assignment={0: [2, 3], 1: [3, 2]})
        cluster.run_until_quiet()
        cluster.kill(2)
        cluster.run_until_quiet()
        cluster.restart(2)
        cluster.run_until_quiet()
        assert cluster.state("orders", 0).leader == 3
        client = controller_client(cluster)
        assert elect(client, 0) == {0: ErrorCode.NONE}  # of all partitions, those that needed it
        assert cluster.state("orders", 0).leader == 2
        assert elect(client, 0, 0, 1) == {0: ErrorCode.ELECTION_NOT_NEEDED, 1: ErrorCode.ELECTION_NOT_NEEDED}
        cluster.check()


@pytest.mark.parametrize(
    ("version", "request_version", "code"),
    [("2.2", 0, ErrorCode.NONE), ("2.3", 0, ErrorCode.NONE), ("2.4", 1, ErrorCode.ELECTION_NOT_NEEDED)],
)
def test_an_election_that_changes_nothing_is_an_error_since_2_4(
    version: str, request_version: int, code: ErrorCode
) -> None:
    """Kafka's tools print so at real brokers of 2.2 and 2.4 (KIP-460)."""
    with simzk.KafkaCluster(version, 3) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        cluster.run_until_quiet()
        named = [ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0])]
        request = ElectLeadersRequest(topic_partitions=named, timeout_ms=5000)
        response = controller_client(cluster).call(request, request_version, ElectLeadersResponse)
        (result,) = response.replica_election_results
        assert [one.error_code for one in result.partition_result] == [code]


def test_an_unclean_leader_is_elected() -> None:
    with simzk.KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("orders", assignment={0: [2, 3]})
        cluster.run_until_quiet()
        cluster.kill(2)
        cluster.run_until_quiet()
        cluster.kill(3)
        cluster.run_until_quiet()
        cluster.restart(2)
        cluster.run_until_quiet()
        assert cluster.state("orders", 0).leader == -1
        client = controller_client(cluster)
        assert elect(client, 0, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert elect(client, UNCLEAN, 0) == {0: ErrorCode.NONE}
        assert cluster.state("orders", 0).leader == 2


def test_an_election_of_all_partitions_leaves_out_topics_that_are_being_deleted() -> None:
    with simzk.KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.create_topic("stuck", assignment={0: [1, 3]})
        cluster.run_until_quiet()
        cluster.kill(3)
        cluster.run_until_quiet()
        cluster.delete_topic("stuck")  # waits for broker 3
        cluster.run_for(5)
        assert cluster.tree.get("/brokers/topics/stuck") is not None
        assert elect(controller_client(cluster), 0) == {}


def test_a_reassignment_from_begin_to_end() -> None:
    with simzk.KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.run_until_quiet()
        client = controller_client(cluster)

        def reassign(replicas: list[int] | None) -> int:
            one = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=replicas)
            topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="orders", partitions=[one])
            request = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=5000)
            response = client.call(request, 0, AlterPartitionReassignmentsResponse)
            return response.responses[0].partitions[0].error_code

        def moving() -> list[tuple[list[int], list[int], list[int]]]:
            response = client.call(
                ListPartitionReassignmentsRequest(topics=None), 0, ListPartitionReassignmentsResponse
            )
            partitions = [one for topic in response.topics for one in topic.partitions]
            return [(list(p.replicas), list(p.adding_replicas), list(p.removing_replicas)) for p in partitions]

        cluster.kill(3)  # it is live until its session expires, so the new replica never joins the ISR
        assert reassign([3, 2]) == ErrorCode.NONE
        assert moving() == [([3, 2, 1], [3], [1])]
        assert reassign(None) == ErrorCode.NONE
        assert reassign(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert moving() == []
        cluster.restart(3)
        cluster.run_until_quiet()
        assert reassign([3, 2]) == ErrorCode.NONE
        cluster.run_until_quiet()
        assert moving() == []
        assert cluster.assignment("orders")[0].replicas == (3, 2)


ORDERS: list[tuple[str, bool, list[tuple[str, int]]]] = [
    ("2.4", False, [("nosuch", 0), ("m0", 1), ("m0", 2)]),
    ("2.4", True, [("nosuch", 0), ("m0", 1), ("m0", 2)]),
    (
        "2.4",
        True,
        [("strict", 0), ("__transaction_state", 2), ("strict3", 0), ("down2", 0), ("__consumer_offsets", 0)],
    ),
    ("2.4", True, [("move", 0), ("__transaction_state", 0), ("compacted", 0), ("__consumer_offsets", 1), ("m0", 2)]),
    ("2.4", True, [("__consumer_offsets", 2), ("__transaction_state", 1), ("m0", 0)]),
    ("2.8", False, [("nosuch", 0), ("m0", 2), ("m0", 1)]),
    ("2.8", True, [("nosuch", 0), ("m0", 2), ("m0", 1)]),
    (
        "2.8",
        True,
        [("__consumer_offsets", 0), ("strict", 0), ("__transaction_state", 0), ("strict3", 0), ("down2", 0)],
    ),
    ("2.8", True, [("compacted", 0), ("__consumer_offsets", 1), ("m0", 2), ("move", 0), ("__transaction_state", 1)]),
    ("3.9", True, [("compacted", 0), ("__consumer_offsets", 2), ("m0", 2), ("move", 0), ("__transaction_state", 1)]),
    ("3.9", True, [("__transaction_state", 2), ("__consumer_offsets", 0), ("m0", 0)]),
]
"""Results that real brokers answered, in their order, and whether leaders were elected."""


@pytest.mark.parametrize(("release", "waits", "recorded"), ORDERS)
def test_results_are_in_the_order_of_real_brokers(release: str, waits: bool, recorded: list[tuple[str, int]]) -> None:
    wanted = [TopicPartition(*one) for one in recorded]
    for asked in (wanted, sorted(wanted), sorted(wanted, reverse=True)):
        assert result_order(asked, kafka_version(release).orders, waits=waits) == wanted
