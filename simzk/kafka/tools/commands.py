"""Kafka's command line tools that work in ZooKeeper (`--zookeeper`): each command in a session of its own.

Rules of the module (TopicCommand, ConfigCommand, PreferredReplicaLeaderElectionCommand, ReassignPartitionsCommand with
`--zookeeper`; docs/reference/kafka.md §1.3):
  - topics and configuration are written by the same code as in brokers; alive brokers are read from ZooKeeper, and a
    topic is created without an id;
  - an election or a reassignment is requested from the controller by a znode; while the znode exists, another request
    is rejected;
  - a command ends when the znode is written: the controller acts on it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.scala_collections import immutable_order, mutable_order
from simzk.kafka import paths
from simzk.kafka.broker.admin_handlers import AdminHandlers
from simzk.kafka.requests import (
    AdminResponse,
    AlterConfigRequest,
    AlterReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    ElectLeadersRequest,
    Error,
)
from simzk.kafka.schemas import scram
from simzk.kafka.tools import reassign_partitions as reassign_tool
from simzk.kafka.topic_partition import TopicPartition, mutable_partitions, partition_set
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION, KafkaZooKeeperClient
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.topic_partition import Collections
    from simzk.kafka.zookeeper_client.session import ZooKeeperSession
    from simzk.partitions.assignment import Random

SESSION_TIMEOUT_MS = 30_000
OK = AdminResponse(Error.NONE)


def is_by_tool(request: object, version: KafkaVersion) -> bool:
    """Return whether the release's tool carries the request out in ZooKeeper.

    Broker configurations only up to 1.0; credentials of users up to 2.6, longer than other configurations.
    """
    if isinstance(request, AlterConfigRequest):
        if request.entity_path.startswith("brokers/"):
            return version.tools.writes_broker_configs
        if any(key in scram.MECHANISMS for key in request.changes):
            return version.tools.writes_credentials
    return type(request) in version.tools.requests_in_zookeeper


async def run(
    request: object,
    session: ZooKeeperSession,
    version: KafkaVersion,
    *,
    random: Random,
    defaults: tuple[int, int],
    second: Callable[[], ZooKeeperSession],
) -> AdminResponse:
    """Carry out a request in a session that is opened and closed for it.

    Args:
        request: request of an operator.
        session: session that is not started.
        version: release of the tool.
        random: random numbers for the placement of replicas.
        defaults: default number of partitions and of replicas.
        second: creates another session, for the tool that opens two.
    """
    await session.start()
    client = KafkaZooKeeperClient(session, version)

    async def racks() -> dict[int, str | None]:
        return {broker: registration.rack for broker, (registration, _) in (await client.brokers()).items()}

    handlers = AdminHandlers(client, racks, random=random, new_topic_id=None, defaults=defaults)
    try:
        match request:
            case CreateTopicRequest():
                return await handlers.create_topic(request)
            case CreatePartitionsRequest():
                return await handlers.create_partitions(request)
            case DeleteTopicRequest():
                if version.controller.topic_deletion == "by tool":
                    await client.delete_recursive(paths.topic(request.name), ANY_VERSION)
                    return OK
                return await handlers.delete_topic(request)
            case AlterConfigRequest():
                return await handlers.alter_config(request)
            case ElectLeadersRequest():
                if not version.tools.leaves_election_session:
                    return await _elect(request, client)
                second_session = second()
                await second_session.start()
                response = await _elect(request, KafkaZooKeeperClient(second_session, version))
                second_session.drop_connection()  # the process ends without closing it
                return response
            case AlterReassignmentsRequest():
                return await _reassign(request, client)
        raise AssertionError(f"no tool supports {request!r}")
    finally:
        if session.connected:
            await session.close()


async def _elect(request: ElectLeadersRequest, client: KafkaZooKeeperClient) -> AdminResponse:
    if request.kind != "preferred":
        return AdminResponse(Error.UNSUPPORTED_VERSION, f"there is no {request.kind} election by request")
    partitions = request.partitions
    if partitions is None:
        found = await client.topics(await client.children(paths.TOPICS))
        every = [TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions]
        partitions = tuple(partition_set(every, client.version.orders.collections))
    listed = immutable_order(partitions, client.version.orders.scala, client.version.orders.election_hash)
    return await _ask(client, paths.PREFERRED_ELECTION, client.version.znodes.encode_election(listed))


async def _reassign(request: AlterReassignmentsRequest, client: KafkaZooKeeperClient) -> AdminResponse:
    targets = {partition: target for partition, target in request.targets.items() if target is not None}
    if len(targets) != len(request.targets):
        return AdminResponse(Error.UNSUPPORTED_VERSION, "a reassignment cannot be cancelled")
    refused = await _check_reassignment(targets, client)
    if refused is not None:
        return refused
    collections = client.version.orders.collections
    ordered = list(partition_set(targets, collections))
    if client.version.orders.reads_reassignments_into_mutable_map:  # the tool reads a map, then filters it
        ordered = mutable_partitions(mutable_partitions(targets, collections), collections)
    if client.version.orders.groups_reassignments_by_topic:
        ordered = _grouped_by_topic(ordered, collections)
    listed = {partition: targets[partition] for partition in ordered}
    return await _ask(client, paths.REASSIGN_PARTITIONS, client.version.znodes.encode_reassignment(listed))


def _grouped_by_topic(partitions: list[TopicPartition], collections: Collections) -> list[TopicPartition]:
    """Return partitions in the order of a map that is grouped by topic and merged again."""
    groups: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(partition.topic, []).append(partition)
    topics = immutable_order(mutable_order(groups, collections.scala), collections.scala)
    return list(
        partition_set([of for topic in topics for of in partition_set(groups[topic], collections)], collections)
    )


async def _check_reassignment(
    targets: dict[TopicPartition, tuple[int, ...]], client: KafkaZooKeeperClient
) -> AdminResponse | None:
    """Return the tool's rejection; None: it requests the reassignment.

    Up to 0.10.0 the tool drops unknown partitions from `targets` and requests the rest; up to 0.8.2 even an empty list,
    which no controller deletes.
    """
    checks = client.version.tools.reassignment_checks
    refused = reassign_tool.rejection(list(targets.items()), client.version)
    if refused is not None:
        return AdminResponse(Error.INVALID_REQUEST, refused)
    found = await client.topics(list(dict.fromkeys(partition.topic for partition in targets)))
    known = {TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions}
    unknown = [partition for partition in targets if partition not in known]
    if unknown and "partitions" in checks:
        return AdminResponse(Error.INVALID_REQUEST, reassign_tool.unknown_partitions(unknown, found, client.version))
    for partition in unknown:
        del targets[partition]
    if not targets and "none left" in checks:
        return AdminResponse(Error.INVALID_REQUEST, "Failed to reassign partitions")
    if "brokers" in checks:
        refused = reassign_tool.dead_brokers(targets, await client.brokers(), client.version)
        if refused is not None:
            return AdminResponse(Error.INVALID_REQUEST, refused)
    if "partitions" in checks and await client.exists(paths.REASSIGN_PARTITIONS):
        return AdminResponse(Error.INVALID_REQUEST, "There is an existing assignment running.")
    return None


async def _ask(client: KafkaZooKeeperClient, path: str, data: bytes) -> AdminResponse:
    if await client.create_recursive(path, data) == Code.NODE_EXISTS:
        return AdminResponse(Error.INVALID_REQUEST, f"{path} already exists")
    return OK
