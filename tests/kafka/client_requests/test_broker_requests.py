"""A client that sends what only brokers and the controller send: its requests take effect, and break no broker.

The errors of recorded brokers are compared in test_recorded_answers.py and test_admin_requests.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simzk
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    MetadataRequest,
    MetadataResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.topic_partition import TopicPartition
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from tests.kafka.client_requests.memory_client import MemoryClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.protocol.structs import Message

ORDERS = TopicPartition("orders", 0)
LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA = 4, 6, 5
RELEASES = ("0.8.2", "0.10.2", "1.1", "2.2", "2.4", "2.8", "3.9")


def cluster_of(version: str) -> simzk.KafkaCluster:
    cluster = simzk.KafkaCluster(version, 3)
    cluster.create_topic("orders", assignment={0: [1, 2, 3]})
    cluster.run_until_quiet()
    return cluster


def newest(cluster: simzk.KafkaCluster, api_key: int) -> int:
    """Return the newest version of an API that the brokers accept."""
    return accepted_versions(cluster.brokers[1].version.number)[api_key].high


def leader_and_isr(
    cluster: simzk.KafkaCluster, broker: int, version: int, *, leader: int, leader_epoch: int, controller_epoch: int
) -> LeaderAndIsrRequest:
    """Return a request that names a leader of `orders`, for one broker."""
    kind = LeaderAndIsrRequest
    state = kind.LeaderAndIsrPartitionState(
        topic_name="orders" if version < 2 else "",
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=[1, 2, 3],
        partition_epoch=9,
        replicas=[1, 2, 3],
    )
    request = kind(controller_id=3, controller_epoch=controller_epoch)
    if version < 2:
        request.ungrouped_partition_states = [state]
        return request
    topic = kind.LeaderAndIsrTopicState(topic_name="orders", partition_states=[state])
    if version >= 5:
        topic.topic_id = cluster.brokers[broker].metadata.topic_ids["orders"]
    request.topic_states = [topic]
    request.broker_epoch = cluster.brokers[broker].epoch
    return request


def errors_of(response: LeaderAndIsrResponse) -> list[int]:
    """Return the errors of the partitions."""
    parts = [*response.partition_errors, *(part for topic in response.topics for part in topic.partition_errors)]
    return [part.error_code for part in parts]


@pytest.mark.parametrize("release", RELEASES)
def test_a_client_makes_a_broker_leader(release: str) -> None:
    with cluster_of(release) as cluster:
        version = newest(cluster, LEADER_AND_ISR)
        epoch = cluster.state("orders", 0).leader_epoch + 1
        answers = []
        for broker in (1, 2, 3):
            request = leader_and_isr(cluster, broker, version, leader=2, leader_epoch=epoch, controller_epoch=7)
            client = MemoryClient(cluster, broker)
            answers.append(client.call(request, version, LeaderAndIsrResponse))
            again = client.call(request, version, LeaderAndIsrResponse)
            assert (again.error_code, errors_of(again)) == (ErrorCode.NONE, [ErrorCode.STALE_CONTROLLER_EPOCH])
        assert [(one.error_code, errors_of(one)) for one in answers] == [(ErrorCode.NONE, [ErrorCode.NONE])] * 3
        assert [broker.replicas.leads(ORDERS) for broker in cluster.brokers.values()] == [False, True, False]
        stale = leader_and_isr(cluster, 1, version, leader=1, leader_epoch=epoch + 1, controller_epoch=6)
        refused = MemoryClient(cluster, 1).call(stale, version, LeaderAndIsrResponse)
        named = [] if cluster.brokers[1].version.number < (1, 1) else [ErrorCode.STALE_CONTROLLER_EPOCH]
        assert (refused.error_code, errors_of(refused)) == (ErrorCode.STALE_CONTROLLER_EPOCH, named)


@pytest.mark.parametrize("release", RELEASES)
def test_a_client_changes_a_metadata_cache_and_stops_a_replica(release: str) -> None:
    with cluster_of(release) as cluster:
        kind, version = UpdateMetadataRequest, newest(cluster, UPDATE_METADATA)
        state = kind.UpdateMetadataPartitionState(
            topic_name="orders" if version < 5 else "", leader=3, leader_epoch=5, isr=[3], replicas=[1, 2, 3]
        )
        request = kind(controller_id=2, controller_epoch=7, live_brokers=[kind.UpdateMetadataBroker(id=3)])
        if version < 5:
            request.ungrouped_partition_states = [state]
        else:
            request.topic_states = [kind.UpdateMetadataTopicState(topic_name="orders", partition_states=[state])]
            request.broker_epoch = cluster.brokers[3].epoch
        client = MemoryClient(cluster, 3)
        assert client.call(request, version, UpdateMetadataResponse).error_code == ErrorCode.NONE
        assert cluster.brokers[3].metadata.partitions[ORDERS].isr == (3,)
        assert cluster.brokers[3].metadata.controller_id == 2
        assert cluster.brokers[1].metadata.partitions[ORDERS].isr == (1, 2, 3)

        version, stops = newest(cluster, STOP_REPLICA), StopReplicaRequest(controller_id=2, controller_epoch=7)
        if version == 0:
            part = StopReplicaRequest.StopReplicaPartitionV0(topic_name="orders", partition_index=0)
            stops.ungrouped_partitions = [part]
        elif version < 3:
            stops.topics = [StopReplicaRequest.StopReplicaTopicV1(name="orders", partition_indexes=[0])]
        else:
            one = StopReplicaRequest.StopReplicaPartitionState(partition_index=0, leader_epoch=9, delete_partition=True)
            stops.topic_states = [StopReplicaRequest.StopReplicaTopicState(topic_name="orders", partition_states=[one])]
        if version < 3:
            stops.delete_partitions = True
        if version:
            stops.broker_epoch = cluster.brokers[3].epoch
        response = client.call(stops, version, StopReplicaResponse)
        assert response.error_code == ErrorCode.NONE
        assert [(one.topic_name, one.error_code) for one in response.partition_errors] == [("orders", ErrorCode.NONE)]
        assert ORDERS not in cluster.brokers[3].replicas.replicas


@pytest.mark.parametrize(("release", "version"), [("0.9", 1), ("2.1", 1), ("2.4", 3), ("3.9", 1), ("3.9", 3)])
def test_a_controlled_shutdown_moves_leaders(release: str, version: int) -> None:
    with cluster_of(release) as cluster:
        controller = cluster.controller
        assert controller is not None
        broker = next(one for one in cluster.brokers if one != controller)
        cluster.create_topic("moved", assignment={0: [broker, controller]})
        cluster.create_topic("alone", assignment={0: [broker]})
        cluster.run_until_quiet()
        request = ControlledShutdownRequest(broker_id=broker)
        if version >= 2:
            request.broker_epoch = cluster.brokers[broker].epoch
        client = MemoryClient(cluster, controller)
        response = client.call(request, version, ControlledShutdownResponse)
        assert response.error_code == ErrorCode.NONE
        assert [one.topic_name for one in response.remaining_partitions] in (["alone"], [])
        assert cluster.state("moved", 0).leader == controller


def test_a_client_changes_an_isr_and_takes_producer_ids() -> None:
    with cluster_of("3.9") as cluster:
        kind, state = AlterPartitionRequest, cluster.state("orders", 0)
        leader, controller = state.leader, cluster.controller
        assert controller is not None
        replica = kind.BrokerState(broker_id=leader)
        part = kind.PartitionData(
            partition_index=0,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=[replica],
            partition_epoch=state.version,
        )
        topic = kind.TopicData(topic_id=cluster.brokers[1].metadata.topic_ids["orders"], partitions=[part])
        unknown = kind.TopicData(topic_id="A" * 20 + "ZA", partitions=[part])
        epoch = cluster.brokers[leader].epoch
        request = kind(broker_id=leader, broker_epoch=epoch, topics=[unknown, topic])
        client = MemoryClient(cluster, controller)
        response = client.call(request, 3, AlterPartitionResponse)
        results = {topic.topic_id: topic.partitions[0] for topic in response.topics}
        assert results[unknown.topic_id].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (results[topic.topic_id].isr, results[topic.topic_id].partition_epoch) == ([leader], state.version + 1)
        assert cluster.state("orders", 0).isr == (leader,)

        asked = AllocateProducerIdsRequest(broker_id=leader, broker_epoch=epoch)
        blocks = [client.call(asked, 0, AllocateProducerIdsResponse) for _ in range(2)]
        assert [one.producer_id_len for one in blocks] == [1000, 1000]
        assert blocks[1].producer_id_start == blocks[0].producer_id_start + 1000


def test_what_no_controller_sends_changes_nothing() -> None:
    with cluster_of("3.9") as cluster:
        version, before = newest(cluster, LEADER_AND_ISR), cluster.brokers[1].replicas.replicas[ORDERS].state
        changes: list[tuple[str, object]] = [("replicas", [1, 1]), ("replicas", []), ("isr", [1, 44]), ("leader", 44)]
        for name, value in [*changes, ("partition_index", -1)]:
            request = leader_and_isr(cluster, 1, version, leader=2, leader_epoch=99, controller_epoch=99)
            (state,) = request.topic_states[0].partition_states
            setattr(state, name, value)
            response = MemoryClient(cluster, 1).call(request, version, LeaderAndIsrResponse)
            assert response.error_code == ErrorCode.INVALID_REQUEST
            assert errors_of(response) == [ErrorCode.INVALID_REQUEST]
        assert cluster.brokers[1].replicas.replicas[ORDERS].state == before
        cluster.check()


# -- any request of that kind

BROKERS = st.integers(-2, 4)
IDS = st.lists(BROKERS, max_size=4)
EPOCHS = st.integers(-1, 12)
TOPICS = st.sampled_from(["orders", "new", "__consumer_offsets", "a/b"])


NUMBERS = st.integers(-1, 2)
REPLICAS = IDS | st.permutations([1, 2, 3])


@st.composite
def leaders(draw: st.DrawFn) -> LeaderAndIsrRequest:
    """Draw a LeaderAndIsr with ids and epochs near those of the cluster."""
    kind = LeaderAndIsrRequest
    states = [
        kind.LeaderAndIsrPartitionState(
            partition_index=draw(NUMBERS),
            controller_epoch=draw(EPOCHS),
            leader=draw(BROKERS),
            leader_epoch=draw(EPOCHS),
            isr=draw(IDS),
            partition_epoch=draw(EPOCHS),
            replicas=draw(REPLICAS),
            adding_replicas=draw(st.just([]) | IDS),
            is_new=draw(st.booleans()),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    topic = kind.LeaderAndIsrTopicState(topic_name=draw(TOPICS), partition_states=states)
    broker_epoch = draw(st.just(-1) | EPOCHS)
    return kind(
        controller_id=draw(BROKERS), controller_epoch=draw(EPOCHS), broker_epoch=broker_epoch, topic_states=[topic]
    )


@st.composite
def updates(draw: st.DrawFn) -> UpdateMetadataRequest:
    """Draw an UpdateMetadata."""
    kind = UpdateMetadataRequest
    states = [
        kind.UpdateMetadataPartitionState(
            partition_index=draw(NUMBERS),
            leader=draw(BROKERS),
            leader_epoch=draw(EPOCHS),
            isr=draw(IDS),
            replicas=draw(REPLICAS),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    topic = kind.UpdateMetadataTopicState(topic_name=draw(TOPICS), partition_states=states)
    live = [kind.UpdateMetadataBroker(id=one) for one in draw(IDS)]
    return kind(controller_id=draw(BROKERS), controller_epoch=draw(EPOCHS), topic_states=[topic], live_brokers=live)


@st.composite
def stops(draw: st.DrawFn) -> StopReplicaRequest:
    """Draw a StopReplica."""
    kind = StopReplicaRequest
    states = [
        kind.StopReplicaPartitionState(
            partition_index=draw(NUMBERS), leader_epoch=draw(EPOCHS), delete_partition=draw(st.booleans())
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    topic = kind.StopReplicaTopicState(topic_name=draw(TOPICS), partition_states=states)
    return kind(controller_id=draw(BROKERS), controller_epoch=draw(EPOCHS), topic_states=[topic])


@st.composite
def proposals(draw: st.DrawFn) -> AlterPartitionRequest:
    """Draw an AlterPartition."""
    kind = AlterPartitionRequest
    parts = [
        kind.PartitionData(
            partition_index=draw(NUMBERS), leader_epoch=draw(EPOCHS), new_isr=draw(IDS), partition_epoch=draw(EPOCHS)
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return kind(broker_id=draw(BROKERS), topics=[kind.TopicData(topic_name=draw(TOPICS), partitions=parts)])


REQUESTS: st.SearchStrategy[tuple[int, Message]] = st.one_of(
    st.tuples(st.just(4), leaders()),
    st.tuples(st.just(6), updates()),
    st.tuples(st.just(3), stops()),
    st.tuples(st.just(0), proposals()),
)
"""Requests with their versions."""


def columnar_cluster() -> simzk.KafkaCluster:
    """Return three brokers whose partitions are columns, and whose replicas have no logs."""
    layout = generate_layout(brokers_in_racks(3, 1), topics=2, partitions=6, replication_factor=3, seed=1)
    cluster = simzk.KafkaCluster.from_layout(layout, version="2.8")
    cluster.run_until_quiet()
    return cluster


@pytest.mark.parametrize("new_cluster", [partial(cluster_of, "2.8"), columnar_cluster], ids=["logs", "columns"])
@settings(max_examples=50)
@given(asked=st.lists(st.tuples(st.integers(0, 2), REQUESTS), min_size=1, max_size=12))
def test_no_request_of_that_kind_breaks_a_broker(
    new_cluster: Callable[[], simzk.KafkaCluster], asked: list[tuple[int, tuple[int, Message]]]
) -> None:
    with new_cluster() as cluster:
        brokers = list(cluster.brokers)
        for place, (version, request) in asked:
            if isinstance(request, AlterPartitionRequest) and request.broker_id in cluster.brokers:
                request.broker_epoch = cluster.brokers[request.broker_id].epoch
            client = MemoryClient(cluster, brokers[place])
            client.send_request(request, version)
            assert client.wait() is not None, request
            cluster.run_for(0.3)
        cluster.run_for(20)
        for broker in brokers:
            answer = MemoryClient(cluster, broker).call(MetadataRequest(topics=[]), 5, MetadataResponse)
            assert answer.topics == []
