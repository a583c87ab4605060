"""A broker accepts control requests of the latest controller, and the highest leader epoch, only (§2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from simzk.kafka.broker.isr_changes import ProposalOutcome, outcomes_of
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.metadata.changes import PartitionUpdates, ReplicaStops
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import ControlResponse, LeadershipRequest, StopReplicasRequest
from simzk.kafka.topic_partition import TopicPartition, named
from simzk.partitions.states import LeaderAndIsr
from simzk.partitions.table import PartitionTable
from tests.kafka.clusters import QUICK, cluster, quiet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.kafka.broker.broker import Broker

PARTITION = TopicPartition("orders", 0)
REPLICAS = (1, 2)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Broker 1 of a cluster, which leads a partition since a LeaderAndIsr of controller epoch 5."""
    with cluster(3) as running:
        found = running.brokers[1]
        assert lead(found, controller_epoch=5, leader=1, leader_epoch=3) == ControlResponse(ErrorCode.NONE, {})
        assert found.replicas.leads(PARTITION)
        yield found


def lead(
    broker: Broker,
    *,
    controller_epoch: int,
    leader: int,
    leader_epoch: int,
    broker_epoch: int | None = None,
    replicas: tuple[int, ...] = REPLICAS,
) -> ControlResponse:
    """Send a LeaderAndIsr to a broker; return the response."""
    epoch = broker.epoch if broker_epoch is None else broker_epoch
    return answered(
        broker,
        leadership(
            broker_epoch=epoch,
            controller_epoch=controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            replicas=replicas,
        ),
    )


def leadership(
    *, broker_epoch: int, controller_epoch: int, leader: int, leader_epoch: int, replicas: tuple[int, ...] = REPLICAS
) -> LeadershipRequest:
    table = PartitionTable()
    rows = table.add(PARTITION.topic, {PARTITION.partition: replicas})
    table.put(int(rows[0]), LeaderAndIsr(leader, leader_epoch, REPLICAS, controller_epoch, version=leader_epoch))
    updates = PartitionUpdates.of_table(table, rows, is_new=False)
    return LeadershipRequest(2, controller_epoch, broker_epoch, updates)


def stop(broker: Broker, leader_epoch: int, *, delete: bool = False) -> ErrorCode:
    """Send a StopReplica to a broker; return the error of the partition."""
    stops = ReplicaStops(named([PARTITION]), np.array([delete]), np.array([leader_epoch], dtype=np.int32))
    response = answered(broker, StopReplicasRequest(2, 5, broker.epoch, stops))
    assert response.error == ErrorCode.NONE
    return response.partition_errors[PARTITION]


def answered(broker: Broker, request: LeadershipRequest | StopReplicasRequest) -> ControlResponse:
    responses: list[ControlResponse] = []
    broker.serve(request, responses.append)
    (response,) = responses
    return response


def test_a_request_of_an_older_controller_is_rejected(broker: Broker) -> None:
    rejected = lead(broker, controller_epoch=4, leader=2, leader_epoch=9)
    assert rejected == ControlResponse(ErrorCode.STALE_CONTROLLER_EPOCH, {})
    assert broker.replicas.leads(PARTITION)


def test_a_request_for_an_earlier_process_of_the_broker_is_rejected(broker: Broker) -> None:
    """Also one that names a stale controller, too: the broker epoch is checked first (KafkaApis)."""
    for controller_epoch in (4, 5, 6):
        rejected = lead(
            broker, controller_epoch=controller_epoch, leader=2, leader_epoch=9, broker_epoch=broker.epoch - 1
        )
        assert rejected == ControlResponse(ErrorCode.STALE_BROKER_EPOCH, {})
    assert broker.replicas.leads(PARTITION)
    assert lead(broker, controller_epoch=5, leader=2, leader_epoch=9).error == ErrorCode.NONE, (
        "epoch 6 was not accepted"
    )


@pytest.mark.parametrize(("line", "accepted_early"), [("0.11", True), ("1.0", False), ("2.1", False), ("3.9", False)])
def test_a_starting_broker_handles_requests_after_its_registration(line: str, accepted_early: bool) -> None:
    """KafkaServer.startup: from 1.0 on the processors of the SocketServer start last."""
    with KafkaCluster(line, 3, config=QUICK) as c:
        broker, before = c.brokers[1], c.brokers[1].epoch
        c.kill(1)
        c.run_for(10)  # its registration is gone
        c.restart(1)
        c.timing.registration_pause_us = lambda _broker: 5_000_000
        c.run_for(3)
        responses: list[ControlResponse] = []
        broker.serve(leadership(broker_epoch=before, controller_epoch=5, leader=1, leader_epoch=3), responses.append)
        c.run_for(1)
        assert not broker.registered
        assert broker.replicas.leads(PARTITION) == accepted_early
        assert responses == [ControlResponse(ErrorCode.NONE, {})] * accepted_early
        quiet(c)
        assert c.brokers[1].registered
        stale = broker.version.client.has_broker_epochs
        assert responses == [ControlResponse(ErrorCode.STALE_BROKER_EPOCH if stale else ErrorCode.NONE, {})]
        assert broker.replicas.leads(PARTITION) == (not stale)


@pytest.mark.parametrize("leader_epoch", [2, 3])
def test_a_state_of_an_older_leader_epoch_changes_nothing(broker: Broker, leader_epoch: int) -> None:
    lead(broker, controller_epoch=5, leader=2, leader_epoch=leader_epoch)
    assert broker.replicas.leads(PARTITION)


def test_the_next_leader_epoch_is_accepted(broker: Broker) -> None:
    lead(broker, controller_epoch=6, leader=2, leader_epoch=4)
    assert not broker.replicas.leads(PARTITION)


@pytest.mark.parametrize("replicas", [REPLICAS, (2, 3)])
def test_a_stopped_replica_keeps_its_leader_epoch(broker: Broker, replicas: tuple[int, ...]) -> None:
    """Also one that a reassignment has removed from the assignment meanwhile."""
    lead(broker, controller_epoch=5, leader=2, leader_epoch=5, replicas=replicas)
    assert stop(broker, 4) == ErrorCode.FENCED_LEADER_EPOCH
    assert stop(broker, 5) == ErrorCode.NONE
    lead(broker, controller_epoch=5, leader=1, leader_epoch=5)
    assert not broker.replicas.leads(PARTITION)
    assert stop(broker, 4, delete=True) == ErrorCode.FENCED_LEADER_EPOCH
    assert stop(broker, -2, delete=True) == ErrorCode.NONE
    assert not broker.replicas.replicas
    lead(broker, controller_epoch=5, leader=1, leader_epoch=0)
    assert broker.replicas.leads(PARTITION), "nothing is left of the deleted replica"


def test_other_replicas_keep_their_leader_epoch_in_a_reassignment(broker: Broker) -> None:
    """A broker outside the assignment, here by an update for the other replicas, still fences old leader epochs."""
    manager = broker.replica_manager
    for replicas in ((2, 3), (3, 1, 2), (2,), REPLICAS):
        table = PartitionTable()
        rows = table.add(PARTITION.topic, {PARTITION.partition: replicas})
        table.put(int(rows[0]), LeaderAndIsr(2, 9, (2,), 5, version=9))
        updates = PartitionUpdates.of_table(table, rows, is_new=False)
        manager.accept_on(2, updates, np.array([True]))
        manager.check()
    lead(broker, controller_epoch=5, leader=2, leader_epoch=3)
    assert broker.replicas.leads(PARTITION)
    lead(broker, controller_epoch=5, leader=2, leader_epoch=4)
    assert not broker.replicas.leads(PARTITION)


def test_a_leader_retries_its_proposal_after_every_error_without_a_rule_of_its_own() -> None:
    """Partition.handleAlterPartitionError retries by default, so that an unexpected error loses no ISR change."""
    codes = np.array(list(ErrorCode), dtype=np.int16)
    outcomes = dict(zip(ErrorCode, outcomes_of(codes).tolist(), strict=True))
    assert {error for error, outcome in outcomes.items() if outcome == ProposalOutcome.PENDING} == {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    }
    reverted = [error for error, outcome in outcomes.items() if outcome == ProposalOutcome.REVERTED]
    assert reverted == [ErrorCode.NETWORK_EXCEPTION, ErrorCode.INELIGIBLE_REPLICA], "the latter: a session that expired"
    assert [error for error, outcome in outcomes.items() if outcome == ProposalOutcome.COMMITTED] == [ErrorCode.NONE]
    assert outcomes[ErrorCode.REQUEST_TIMED_OUT] == outcomes[ErrorCode.NOT_CONTROLLER] == ProposalOutcome.RETRY
