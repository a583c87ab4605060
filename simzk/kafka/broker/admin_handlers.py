"""Topics and configuration changed for operators (ZkAdminManager, AdminZkClient).

Rules of this module (docs/reference/kafka.md §2.9):
  - a topic's configuration is written before its assignment; the controller epoch fences neither;
  - nothing is written unless the whole request is valid;
  - only the controller's broker creates, grows and deletes topics. The tools of older releases do it themselves in
    ZooKeeper, with the same code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.errors import LayoutError
from simzk.jvm.scala_collections import mutable_order
from simzk.kafka.broker.configs import EntityConfigs
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import (
    AddPartitionsRequest,
    AdminResponse,
    AlterConfigRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
)
from simzk.kafka.topic_partition import ReplicaAssignment
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION, KafkaZooKeeperClient
from simzk.kafka.zookeeper_mode.schemas import config
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.partitions.assignment import Random, assign_replicas, start_index_for_addition
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.simulation import Future

    Racks = Mapping[int, str | None]

LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
LONGEST_NAME, LONGEST_NAME_OF_0_9 = 249, 255
"""249 leaves room for the suffixes of a log's directory name (KAFKA-2338, 0.10.0)."""
OK = AdminResponse(ErrorCode.NONE)
BY_DEFAULT = -1
"""The number of partitions, or replicas, that the broker's configuration sets (KIP-464)."""


def name_problem(name: str, version: KafkaVersion) -> str | None:
    """Return why a topic name is illegal in a release, in its words; None if it is legal."""
    longest = LONGEST_NAME if version.number >= (0, 10, 0) else LONGEST_NAME_OF_0_9
    texts = version.texts
    if not name:
        return texts.empty_name
    if name in (".", ".."):
        return texts.dotted_name.format(name=name)
    if len(name) > longest:
        return texts.long_name.format(name=name, longest=longest)
    if LEGAL_NAME.fullmatch(name):
        return None
    wholly = texts.wholly_illegal_name if LEGAL_NAME.search(name) is None else None
    return (wholly or texts.illegal_name).format(name=name)


def is_topic_name(name: str, version: KafkaVersion) -> bool:
    """Return whether a topic name is legal in a release.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> [is_topic_name(name, kafka_version("3.9")) for name in ("orders", "..", "a/b", "x" * 255)]
    [True, False, False, False]
    >>> is_topic_name("x" * 255, kafka_version("0.9"))
    True
    """
    return name_problem(name, version) is None


class PlannedTopic(NamedTuple):
    """A topic that can be created."""

    name: str
    assignment: Mapping[int, Sequence[int]]
    config: Mapping[str, str]
    topic_id: str | None


class PlannedPartitions(NamedTuple):
    """Partitions that can be added to a topic."""

    name: str
    topic: TopicZnode
    added: Mapping[int, Sequence[int]]


@dataclass(eq=False)
class AdminHandlers:
    """Requests of operators, served by a broker or executed by a tool.

    Args:
        client: ZooKeeper client of the broker or tool.
        racks: returns the live brokers with their racks; without racks their order decides placements.
        random: for placements.
        new_topic_id: returns a new id for a topic; None if topics have no ids.
        defaults: partitions and replicas of a topic that names none.
        usual: returns the broker's value for a key of topics; None for a tool.
    """

    client: KafkaZooKeeperClient
    racks: Callable[[], Coroutine[Future[Any], None, Racks]]
    random: Random
    new_topic_id: Callable[[str], str] | None
    defaults: tuple[int, int]
    usual: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        self._configs = EntityConfigs(self.client, self.usual)

    async def create_topic(self, request: CreateTopicRequest) -> AdminResponse:
        """Create a topic."""
        planned = await self.plan_topic(request)
        return planned if isinstance(planned, AdminResponse) else await self.write_topic(planned)

    async def plan_topic(self, request: CreateTopicRequest) -> PlannedTopic | AdminResponse:
        """Return the topic that a request creates, or an error; nothing is written."""
        name, version, texts = request.name, self.client.version, self.client.version.texts
        if (illegal := name_problem(name, version)) is not None:
            return AdminResponse(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        if await self.client.exists(paths.delete_topic(name)):
            return AdminResponse(ErrorCode.TOPIC_ALREADY_EXISTS, texts.marked_for_deletion.format(name=name))
        if await self.client.exists(paths.topic(name)):
            return AdminResponse(ErrorCode.TOPIC_ALREADY_EXISTS, texts.exists.format(name=name))
        if version.broker.rejects_colliding_topics and ("." in name or "_" in name):
            others = await self.client.children(paths.TOPICS)
            colliding = [other for other in others if other.replace(".", "_") == name.replace(".", "_")]
            if colliding:
                message = texts.collides.format(name=name, others=", ".join(colliding))
                return AdminResponse(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        assignment = await self._assignment(request)
        if isinstance(assignment, AdminResponse):
            return assignment
        if (refused := self._assignment_problem(assignment)) is not None:
            return refused
        if (refused := self._configs.invalid_keys(f"topics/{name}", request.config)) is not None:
            return refused
        if (refused := self._configs.invalid_values(f"topics/{name}", request.config)) is not None:
            return refused
        return PlannedTopic(name, assignment, request.config, request.topic_id)

    async def write_topic(self, planned: PlannedTopic) -> AdminResponse:
        """Write the znodes of a planned topic."""
        name, version = planned.name, self.client.version
        if "topics" in version.configs.entity_types:
            await self._configs.write(f"topics/{name}", config.in_properties_order(planned.config))
        assert planned.assignment, f"{name} has no partitions"
        numbers = mutable_order(sorted(planned.assignment), version.orders.scala)
        partitions = {number: ReplicaAssignment(tuple(planned.assignment[number])) for number in numbers}
        assert len(partitions) == len(planned.assignment), "an order loses no partition"
        topic_id = None if self.new_topic_id is None else planned.topic_id or self.new_topic_id(name)
        topic = TopicZnode(partitions, topic_id)
        code = await self.client.create_recursive(paths.topic(name), version.znodes.encode_topic(topic))
        if code == Code.NODE_EXISTS:
            return AdminResponse(ErrorCode.TOPIC_ALREADY_EXISTS, version.texts.exists.format(name=name))
        return OK._replace(topic_id=topic_id)

    async def _assignment(self, request: CreateTopicRequest) -> Mapping[int, Sequence[int]] | AdminResponse:
        if request.assignment is not None:
            return request.assignment
        texts = self.client.version.texts
        racks = await self.racks()
        partitions = self.defaults[0] if request.partitions == BY_DEFAULT else request.partitions
        factor = self.defaults[1] if request.replication_factor == BY_DEFAULT else request.replication_factor
        if partitions <= 0:
            return AdminResponse(ErrorCode.INVALID_PARTITIONS, texts.few_partitions)
        if factor <= 0:
            return AdminResponse(ErrorCode.INVALID_REPLICATION_FACTOR, texts.few_replicas)
        return self._assigned(racks, partitions, factor)

    def _assigned(
        self, racks: Racks, partitions: int, factor: int, start: int | None = None, first: int = 0
    ) -> Mapping[int, Sequence[int]] | AdminResponse:
        """Return an assignment to brokers; from a random broker on if none is given."""
        if factor > len(racks):
            text = self.client.version.texts.many_replicas.format(factor=factor, brokers=len(racks))
            return AdminResponse(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        assert partitions > 0
        # None if no broker has a rack; a placement fails if only some brokers have one.
        known = {broker: rack for broker, rack in racks.items() if rack is not None} or None
        try:
            if start is None:
                assigned = assign_replicas(list(racks), known, partitions, factor, random=self.random)
            else:
                assigned = assign_replicas(sorted(racks), known, partitions, factor, start, first)
        except LayoutError as error:
            return AdminResponse(ErrorCode.INVALID_REPLICATION_FACTOR, str(error))
        assert len(assigned) == partitions
        return assigned

    def _assignment_problem(self, assignment: Mapping[int, Sequence[int]]) -> AdminResponse | None:
        """Return why a new topic cannot have an assignment: lists of one length, no broker twice, no gap."""
        texts, refused = self.client.version.texts, ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if len(dict.fromkeys(map(len, assignment.values()))) != 1:
            return AdminResponse(refused, texts.uneven_replicas)
        if any(len(dict.fromkeys(ids)) != len(ids) for ids in assignment.values()):
            shown = ", ".join(f"{number} -> ArrayBuffer({_listed(ids)})" for number, ids in assignment.items())
            return AdminResponse(refused, texts.duplicate_replica.format(map=texts.map_name, assignment=shown))
        is_strict = self.client.version.api.requires_consecutive_partitions
        if is_strict and sorted(assignment) != list(range(len(assignment))):
            return AdminResponse(refused, texts.gap)
        return None

    async def create_partitions(self, request: AddPartitionsRequest) -> AdminResponse:
        """Add partitions to a topic."""
        planned = await self.plan_partitions(request)
        return planned if isinstance(planned, AdminResponse) else await self.write_partitions(planned)

    async def plan_partitions(self, request: AddPartitionsRequest) -> PlannedPartitions | AdminResponse:
        """Return the topic with added partitions, or an error; nothing is written."""
        name = request.name
        live = await self.client.brokers()
        found = await self.client.read(paths.topic(name))
        if found is None:
            return AdminResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        topic = topic_schema.decode(paths.topic(name), found[0], self.client.version.reading)
        present = len(topic.partitions)
        if any(assignment.being_reassigned for assignment in topic.partitions.values()):
            text = f"A partition reassignment is in progress for the topic '{name}'."
            return AdminResponse(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
        if request.total <= present:
            fewer = f"Topic currently has {present} partitions, which is higher than the requested {request.total}."
            same = f"Topic already has {present} partitions."
            return AdminResponse(ErrorCode.INVALID_PARTITIONS, same if request.total == present else fewer)
        if 0 not in topic.partitions or not topic.partitions[0].replicas:
            return AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR, f"partition 0 of {name} has no replicas")
        added: Mapping[int, Sequence[int]] | AdminResponse
        first, count = topic.partitions[0].replicas, request.total - present
        if request.assignment is not None:
            added = request.assignment
            if (problem := _addition_problem(added, count, len(first), live)) is not None:
                return AdminResponse(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        else:
            racks = {broker: registration.rack for broker, (registration, _) in live.items()}
            start = start_index_for_addition(sorted(racks), first[0])
            added = self._assigned(racks, count, len(first), start, present)
        return added if isinstance(added, AdminResponse) else PlannedPartitions(name, topic, added)

    async def write_partitions(self, planned: PlannedPartitions) -> AdminResponse:
        """Write the znode of a topic with added partitions."""
        name, topic = planned.name, planned.topic
        every = topic.partitions | {number: ReplicaAssignment(tuple(ids)) for number, ids in planned.added.items()}
        if self.client.version.broker.topic_config_when_growing != "kept":
            emptied = self.client.version.broker.topic_config_when_growing == "emptied"
            entity = f"topics/{name}"
            await self._configs.write(entity, {} if emptied else await self.client.entity_config(entity))
        wider = {number: every[number] for number in mutable_order(sorted(every), self.client.version.orders.scala)}
        assert wider == every, "an order loses no partition"
        data = self.client.version.znodes.encode_topic(topic._replace(partitions=wider))
        await self.client.session.call(SetData(paths.topic(name), data, ANY_VERSION))
        return OK

    async def delete_topic(self, request: DeleteTopicRequest) -> AdminResponse:
        """Request the deletion of a topic."""
        if not await self.client.exists(paths.topic(request.name)):
            return AdminResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {request.name} does not exist")
        code = await self.client.create(paths.delete_topic(request.name), self.client.version.znodes.deletion_request)
        if code == Code.NODE_EXISTS:
            return AdminResponse(ErrorCode.INVALID_REQUEST, f"topic {request.name} is already being deleted")
        return OK

    async def alter_config(self, request: AlterConfigRequest) -> AdminResponse:
        """Set and remove configuration keys of an entity, and write the notification."""
        return await self._configs.alter(request)


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def _addition_problem(
    added: Mapping[int, Sequence[int]], count: int, factor: int, live: Mapping[int, object]
) -> str | None:
    """Return why an assignment of added partitions is invalid; None if it is not."""
    unknown = [broker for ids in added.values() for broker in ids if broker not in live]
    if len(added) != count:
        return f"Increasing the number of partitions by {count} but {len(added)} assignments provided."
    if unknown:
        return f"Unknown broker(s) in replica assignment: {_listed(sorted(dict.fromkeys(unknown)))}."
    for number, ids in added.items():
        if not ids:
            return f"Cannot have replication factor of 0 for partition id {number}."
        if len(dict.fromkeys(ids)) != len(ids):
            return f"Duplicate brokers not allowed in replica assignment: {_listed(ids)} for partition id {number}."
    uneven = {number: len(ids) for number, ids in sorted(added.items()) if len(ids) != factor}
    if uneven:
        return (
            f"Inconsistent replication factor between partitions, partition 0 has {factor} while partitions "
            f"[{_listed(list(uneven))}] have replication factors [{_listed(list(uneven.values()))}], respectively."
        )
    return None
