"""Every transition of partitions and replicas, valid or not, in each release.

The tables here are copied from `validPreviousStates` of the releases (PartitionStateMachine, ReplicaStateMachine; see
docs/reference/kafka.md §2.4 and §2.5), independently of the tables in the code.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.releases.versions import VERSIONS, kafka_version
from simzk.kafka.topic_partition import PartitionAndReplica, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.controller.states import PartitionState, ReplicaState, transitions_of
from tests.kafka.clusters import QUICK, quiet, topic

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from simzk.kafka.zookeeper_mode.controller.context import ControllerContext
    from simzk.kafka.zookeeper_mode.controller.controller import KafkaController
    from simzk.simulation import Future

PARTITIONS = """
    new          <- non-existent
    online       <- new, online, offline
    offline      <- new, online, offline
    non-existent <- offline
"""
PARTITIONS_0_8_0 = PARTITIONS.replace("offline      <- new, online, offline", "offline      <- new, online")
REPLICAS_2_3 = """
    new                 <- non-existent
    online              <- new, online, offline, deletion ineligible
    offline             <- new, online, offline, deletion ineligible
    deletion started    <- offline
    deletion successful <- deletion started
    deletion ineligible <- offline, deletion started
    non-existent        <- deletion successful
"""
REPLICAS_0_8_1 = REPLICAS_2_3.replace("ineligible <- offline, deletion", "ineligible <- deletion")
REPLICAS_0_8_0 = """
    new          <- non-existent
    online       <- new, online, offline
    offline      <- new, online
    non-existent <- offline
"""


def published(version: tuple[int, int, int]) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return the valid transitions (from, to) of partitions and of replicas."""
    if version < (0, 8, 1):
        return moves(PARTITIONS_0_8_0), moves(REPLICAS_0_8_0)
    return moves(PARTITIONS), moves(REPLICAS_0_8_1 if version < (2, 3, 0) else REPLICAS_2_3)


def moves(table: str) -> set[tuple[str, str]]:
    rows = [line.split("<-") for line in table.strip().splitlines()]
    return {(source.strip(), target.strip()) for target, sources in rows for source in sources.split(",")}


def cluster_and_controller(version: str, partitions: int) -> tuple[KafkaCluster, KafkaController]:
    """Return a cluster of two brokers with one topic on both, led by broker 1, and its controller."""
    c = KafkaCluster(version=version, brokers=2, config=QUICK)
    topic(c, "t", {number: [1, 2] for number in range(partitions)})
    assert c.controller is not None
    return c, c.brokers[c.controller].controller


def state_of(context: ControllerContext, partition: TopicPartition) -> PartitionState:
    (row,) = context.rows_of([partition]).tolist()
    (state,) = [state for state in PartitionState if row in context.partition_states.rows_in(state)]
    return state


def do(c: KafkaCluster, controller: KafkaController, work: Callable[[], Coroutine[Future[Any], None, None]]) -> None:
    controller.put_event("try", work)
    c.run_for(1)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_transition_of_a_replica(version: str) -> None:
    pairs = list(product(ReplicaState, ReplicaState))
    c, controller = cluster_and_controller(version, len(pairs))
    states = controller.context.replica_states
    tried = {PartitionAndReplica(TopicPartition("t", n), 2): pair for n, pair in enumerate(pairs)}

    async def work() -> None:
        for replica, (source, target) in tried.items():
            rows = controller.context.rows_of([replica.topic_partition])
            states.put(rows, replica.replica, None if source == ReplicaState.NON_EXISTENT else source)
            await controller.replicas.handle([replica], target)

    do(c, controller, work)
    _, valid = published(kafka_version(version).number)
    for replica, (source, target) in tried.items():
        after = states.get(replica, ReplicaState.NON_EXISTENT)
        assert after == (target if (source.value, target.value) in valid else source), (source, target)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_transition_of_a_partition(version: str) -> None:
    pairs = list(product(PartitionState, PartitionState))
    c, controller = cluster_and_controller(version, len(pairs))
    context = controller.context
    tried = {TopicPartition("t", n): pair for n, pair in enumerate(pairs)}
    for partition, (source, _) in tried.items():
        if source == PartitionState.NEW:  # one that never had a leader
            c.delete_znode(paths.state(partition))
            c.delete_znode(paths.partition(partition))
    quiet(c)

    async def work() -> None:
        for partition, (source, target) in tried.items():
            context.partition_states.put(context.rows_of([partition]), source)
            await controller.partitions.handle([partition], target)

    do(c, controller, work)
    valid, _ = published(kafka_version(version).number)
    for partition, (source, target) in tried.items():
        after = state_of(context, partition)
        assert after == (target if (source.value, target.value) in valid else source), (source, target)


@pytest.mark.parametrize(("version", "state"), [("1.1", ReplicaState.ONLINE), ("2.0", ReplicaState.OFFLINE)])
def test_a_replica_of_a_partition_that_never_had_a_leader(version: str, state: ReplicaState) -> None:
    """Up to 1.1 the transition fails, and a topic deleted in part stays (KAFKA-6650)."""
    c, controller = cluster_and_controller(version, 1)
    replica = PartitionAndReplica(TopicPartition("unborn", 0), 2)
    controller.context.set_assignment(replica.topic_partition, ReplicaAssignment((1, 2)))
    rows = controller.context.rows_of([replica.topic_partition])
    controller.context.replica_states.put(rows, replica.replica, ReplicaState.ONLINE)

    async def work() -> None:
        await controller.replicas.handle([replica], ReplicaState.OFFLINE)

    do(c, controller, work)
    assert controller.context.replica_states[replica] == state


@pytest.mark.parametrize("version", ["1.1", "3.9"])
def test_the_state_of_a_later_controller_is_not_overwritten(version: str) -> None:
    """A controller that was replaced does not remove a replica from the ISR ("aborting state change")."""
    c, controller = cluster_and_controller(version, 1)
    partition = TopicPartition("t", 0)
    before = c.state("t", 0)
    data = controller.client.version.znodes.encode_state(
        before._replace(controller_epoch=99, version=before.version + 1)
    )
    c.write_znode(paths.state(partition), data.decode())
    quiet(c)
    replica = PartitionAndReplica(partition, 2)

    async def work() -> None:
        await controller.replicas.handle([replica], ReplicaState.OFFLINE)

    do(c, controller, work)
    assert c.state("t", 0).isr == (1, 2)
    assert c.state("t", 0).controller_epoch == 99
    assert controller.context.replica_states[replica] == ReplicaState.ONLINE


@pytest.mark.parametrize("version", [name for name in VERSIONS if name != "0.8.0"])
def test_partitions_of_a_deleted_topic_become_non_existent_by_release(version: str) -> None:
    """A replica on a dead broker halts the deletion; from 2.2 on the partitions are NON_EXISTENT by then."""
    number = kafka_version(version).number
    config = QUICK | {"delete.topic.enable": True}
    c = KafkaCluster(version=version, brokers=3, config=config)
    topic(c, "t", {0: [1, 2, 3]})
    assert c.controller is not None
    dead, controller = 1 + c.controller % 3, c.brokers[c.controller].controller
    c.kill(dead)
    quiet(c)
    c.delete_topic("t")
    quiet(c)
    context, partition = controller.context, TopicPartition("t", 0)
    gone = state_of(context, partition) == PartitionState.NON_EXISTENT
    assert gone == (number >= (2, 2, 0)) == transitions_of(number).deleted_leave_first
    # It was ineligible while the others were deleted; then it becomes OFFLINE for the next attempt.
    assert context.replica_states[PartitionAndReplica(partition, dead)] == ReplicaState.OFFLINE
    c.restart(dead)
    quiet(c)
    assert paths.topic("t") not in c.server.tree
    assert not len(context.partition_states)
