"""Topics and configuration changed for operators (ZkAdminManager, AdminZkClient).

Rules of this module (docs/reference/kafka.md §2.9):
  - a topic's configuration is written before its assignment; the controller epoch fences neither;
  - nothing is written unless the whole request is valid;
  - only the controller's broker creates, grows and deletes topics. The tools of older releases do it themselves in
    ZooKeeper, with the same code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from simzk.errors import LayoutError
from simzk.jvm.scala_collections import mutable_order
from simzk.kafka import paths
from simzk.kafka.broker.configs import EntityConfigs
from simzk.kafka.requests import (
    AdminResponse,
    AlterConfigRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    Error,
)
from simzk.kafka.schemas import config
from simzk.kafka.schemas import topic as topic_schema
from simzk.kafka.schemas.topic import TopicZnode
from simzk.kafka.topic_partition import ReplicaAssignment
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION, KafkaZooKeeperClient
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
OK = AdminResponse(Error.NONE)
BY_DEFAULT = -1
"""The number of partitions, or replicas, that the broker's configuration sets (KIP-464)."""


def is_topic_name(name: str, version: KafkaVersion) -> bool:
    """Return whether a topic name is legal in a release.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> [is_topic_name(name, kafka_version("3.9")) for name in ("orders", "..", "a/b", "x" * 255)]
    [True, False, False, False]
    >>> is_topic_name("x" * 255, kafka_version("0.9"))
    True
    """
    longest = LONGEST_NAME if version.number >= (0, 10, 0) else LONGEST_NAME_OF_0_9
    return LEGAL_NAME.fullmatch(name) is not None and len(name) <= longest and name not in (".", "..")


class AdminHandlers:
    """Requests of operators, served by a broker or executed by a tool.

    Args:
        client: ZooKeeper client of the broker or tool.
        racks: returns the live brokers with their racks; without racks their order decides placements.
        random: for placements.
        new_topic_id: returns a new id for a topic; None if topics have no ids.
        defaults: partitions and replicas of a topic that names none.
    """

    def __init__(
        self,
        client: KafkaZooKeeperClient,
        racks: Callable[[], Coroutine[Future[Any], None, Racks]],
        *,
        random: Random,
        new_topic_id: Callable[[str], str] | None,
        defaults: tuple[int, int],
    ) -> None:
        self._client = client
        self._configs = EntityConfigs(client)
        self._racks = racks
        self._random = random
        self._new_topic_id = new_topic_id
        self._defaults = defaults

    async def create_topic(self, request: CreateTopicRequest) -> AdminResponse:
        """Create a topic."""
        name = request.name
        if not is_topic_name(name, self._client.version):
            return AdminResponse(Error.INVALID_TOPIC_EXCEPTION, f"{name!r} is not a legal topic name")
        if await self._client.exists(paths.delete_topic(name)):
            return AdminResponse(Error.TOPIC_ALREADY_EXISTS, f"topic {name} is being deleted")
        if await self._client.exists(paths.topic(name)):
            return AdminResponse(Error.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
        if self._client.version.broker.rejects_colliding_topics and ("." in name or "_" in name):
            others = await self._client.children(paths.TOPICS)
            colliding = [other for other in others if other.replace(".", "_") == name.replace(".", "_")]
            if colliding:
                return AdminResponse(Error.INVALID_TOPIC_EXCEPTION, f"topic {name} collides with {colliding[0]}")
        assignment = await self._assignment(request)
        if isinstance(assignment, AdminResponse):
            return assignment
        if (refused := self._configs.invalid_keys(f"topics/{name}", request.config)) is not None:
            return refused
        if "topics" in self._client.version.configs.entity_types:
            await self._configs.write(f"topics/{name}", config.in_properties_order(request.config))
        numbers = mutable_order(sorted(assignment), self._client.version.orders.scala)
        partitions = {number: ReplicaAssignment(tuple(assignment[number])) for number in numbers}
        topic = TopicZnode(partitions, self._topic_id(request))
        code = await self._client.create_recursive(paths.topic(name), self._client.version.znodes.encode_topic(topic))
        if code == Code.NODE_EXISTS:
            return AdminResponse(Error.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
        return OK

    def _topic_id(self, request: CreateTopicRequest) -> str | None:
        if self._new_topic_id is None:
            return None
        return request.topic_id or self._new_topic_id(request.name)

    async def _assignment(self, request: CreateTopicRequest) -> Mapping[int, Sequence[int]] | AdminResponse:
        if request.assignment is not None:
            return _validated(request.assignment, 0, None)
        racks = await self._racks()
        partitions = self._defaults[0] if request.partitions == BY_DEFAULT else request.partitions
        factor = self._defaults[1] if request.replication_factor == BY_DEFAULT else request.replication_factor
        if partitions <= 0:
            return AdminResponse(Error.INVALID_PARTITIONS, f"{partitions} partitions; expected 1 or more")
        if factor <= 0:
            return AdminResponse(Error.INVALID_REPLICATION_FACTOR, f"{factor} replicas; expected 1 or more")
        try:
            return assign_replicas(list(racks), _known_racks(racks), partitions, factor, random=self._random)
        except LayoutError as error:
            return AdminResponse(Error.INVALID_REPLICATION_FACTOR, str(error))

    async def create_partitions(self, request: CreatePartitionsRequest) -> AdminResponse:
        """Add partitions to a topic."""
        live = await self._client.brokers()
        found = await self._client.read(paths.topic(request.name))
        if found is None:
            return AdminResponse(Error.UNKNOWN_TOPIC_OR_PARTITION, f"topic {request.name} does not exist")
        topic = topic_schema.decode(paths.topic(request.name), found[0], self._client.version.reading)
        present = len(topic.partitions)
        if any(assignment.being_reassigned for assignment in topic.partitions.values()):
            return AdminResponse(Error.INVALID_REQUEST, f"topic {request.name} is being reassigned")
        if request.total <= present:
            return AdminResponse(Error.INVALID_PARTITIONS, f"topic {request.name} has {present} partitions")
        if 0 not in topic.partitions or not topic.partitions[0].replicas:
            return AdminResponse(Error.UNKNOWN_SERVER_ERROR, f"partition 0 of {request.name} has no replicas")
        added: Mapping[int, Sequence[int]] | AdminResponse
        first = topic.partitions[0].replicas
        if request.assignment is not None:
            added = _validated(request.assignment, present, len(first))
            if not isinstance(added, AdminResponse) and present + len(added) != request.total:
                added = AdminResponse(Error.INVALID_REPLICA_ASSIGNMENT, f"{len(added)} partitions are assigned")
        else:
            racks = {broker: registration.rack for broker, (registration, _) in live.items()}
            start = start_index_for_addition(sorted(racks), first[0])
            count = request.total - present
            try:
                added = assign_replicas(sorted(racks), _known_racks(racks), count, len(first), start, present)
            except LayoutError as error:
                added = AdminResponse(Error.INVALID_REPLICATION_FACTOR, str(error))
        if isinstance(added, AdminResponse):
            return added
        every = topic.partitions | {number: ReplicaAssignment(tuple(ids)) for number, ids in added.items()}
        if self._client.version.broker.topic_config_when_growing != "kept":
            emptied = self._client.version.broker.topic_config_when_growing == "emptied"
            entity = f"topics/{request.name}"
            await self._configs.write(entity, {} if emptied else await self._client.entity_config(entity))
        wider = {number: every[number] for number in mutable_order(sorted(every), self._client.version.orders.scala)}
        data = self._client.version.znodes.encode_topic(topic._replace(partitions=wider))
        await self._client.session.call(SetData(paths.topic(request.name), data, ANY_VERSION))
        return OK

    async def delete_topic(self, request: DeleteTopicRequest) -> AdminResponse:
        """Request the deletion of a topic."""
        if not await self._client.exists(paths.topic(request.name)):
            return AdminResponse(Error.UNKNOWN_TOPIC_OR_PARTITION, f"topic {request.name} does not exist")
        code = await self._client.create(paths.delete_topic(request.name), self._client.version.znodes.deletion_request)
        if code == Code.NODE_EXISTS:
            return AdminResponse(Error.INVALID_REQUEST, f"topic {request.name} is already being deleted")
        return OK

    async def alter_config(self, request: AlterConfigRequest) -> AdminResponse:
        """Set and remove configuration keys of an entity, and write the notification."""
        return await self._configs.alter(request)


def _known_racks(racks: Mapping[int, str | None]) -> dict[int, str] | None:
    """Return the racks, None if no broker has one; a placement fails if only some brokers have one."""
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    return known or None


def _validated(
    assignment: Mapping[int, Sequence[int]], first: int, factor: int | None
) -> Mapping[int, Sequence[int]] | AdminResponse:
    """Return a given assignment, or an error: consecutive numbers, lists of one length, no broker twice."""
    factor = factor if factor is not None else len(next(iter(assignment.values()), ()))
    if sorted(assignment) != list(range(first, first + len(assignment))) or not assignment:
        return AdminResponse(Error.INVALID_REPLICA_ASSIGNMENT, f"partition ids are not consecutive from {first} on")
    for number, ids in assignment.items():
        if len(ids) != factor or factor == 0 or len(dict.fromkeys(ids)) != len(ids):
            message = f"partition {number} has replicas {list(ids)}; expected {max(factor, 1)} distinct brokers"
            return AdminResponse(Error.INVALID_REPLICA_ASSIGNMENT, message)
    return assignment
