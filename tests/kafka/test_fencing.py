"""A broker obeys the latest controller and the latest leader epoch only (docs/reference/kafka.md §2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.requests import ControlResponse, Error, LeaderAndIsrRequest, PartitionUpdate
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
from simzk.partitions.states import LeaderAndIsr
from tests.kafka.clusters import cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.kafka.broker.replica_manager import ReplicaManager

PARTITION = TopicPartition("orders", 0)


@pytest.fixture
def replicas() -> Iterator[ReplicaManager]:
    """The replicas of broker 1, which leads a partition by order of the controller of epoch 5."""
    running = cluster(3)
    manager = running.brokers[1].replicas
    assert order(manager, controller_epoch=5, leader=1, leader_epoch=3) == ControlResponse(Error.NONE, {})
    assert manager.leads(PARTITION)
    yield manager
    running.close()


def order(manager: ReplicaManager, *, controller_epoch: int, leader: int, leader_epoch: int) -> ControlResponse:
    state = LeaderAndIsr(leader, leader_epoch, (1, 2), controller_epoch, version=leader_epoch)
    update = PartitionUpdate(PARTITION, state, ReplicaAssignment((1, 2)))
    return manager.lead_and_follow(LeaderAndIsrRequest(2, controller_epoch, 0, (update,)), {})


def test_orders_of_an_older_controller_are_refused(replicas: ReplicaManager) -> None:
    refused = order(replicas, controller_epoch=4, leader=2, leader_epoch=9)
    assert refused == ControlResponse(Error.STALE_CONTROLLER_EPOCH, {})
    assert replicas.leads(PARTITION)


@pytest.mark.parametrize("leader_epoch", [2, 3])
def test_a_state_of_an_older_leader_epoch_changes_nothing(replicas: ReplicaManager, leader_epoch: int) -> None:
    order(replicas, controller_epoch=5, leader=2, leader_epoch=leader_epoch)
    assert replicas.leads(PARTITION)


def test_the_next_leader_epoch_is_obeyed(replicas: ReplicaManager) -> None:
    order(replicas, controller_epoch=6, leader=2, leader_epoch=4)
    assert not replicas.leads(PARTITION)
