"""Metadata and DescribeCluster, answered from the broker's metadata cache; topics created on demand.

Rules of this module (KafkaApis.handleTopicMetadataRequest, MetadataCache.getPartitionMetadata; recorded):
  - the cache is as stale as the last UpdateMetadata request that arrived; nothing is asked of ZooKeeper;
  - version 0 has no dead brokers: replicas and ISRs are without them, with REPLICA_NOT_AVAILABLE;
  - a partition without a leader that is alive is LEADER_NOT_AVAILABLE, with leader -1 and the cached ISR;
  - partitions are columns, and those of a topic are encoded once, until the cache has other ones or other live brokers:
    clients of large clusters ask again and again;
  - the asked broker creates a missing topic itself, and answers LEADER_NOT_AVAILABLE until its cache has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from simzk.jvm.hash_map import hash_map_order
from simzk.kafka.broker.admin_handlers import BY_DEFAULT, is_topic_name
from simzk.kafka.broker.request_handlers import INTERNAL_TOPICS, SETTINGS_OF_INTERNAL
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.coordinator.coordinator_log import TRANSACTIONS_TOPIC
from simzk.kafka.log.batches import NO_EPOCH
from simzk.kafka.protocol.columns import encode_rows
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import DescribeClusterRequest, DescribeClusterResponse, MetadataResponse
from simzk.kafka.protocol.schema import ZERO_UUID
from simzk.kafka.requests import CreateTopicRequest
from simzk.partitions.arrays import NONE, among, any_of, broker_mask, keep, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.protocol.columns import Column
    from simzk.kafka.protocol.encoding import EncodedRows
    from simzk.kafka.protocol.messages import MetadataRequest
    from simzk.kafka.requests import AdminResponse
    from simzk.simulation import Future

METADATA, DESCRIBE_CLUSTER = 3, 60
_WITH_LISTENER_ERRORS = 6
"""First version of Metadata that says that a leader does not have the listener."""
NO_CONTROLLER = NO_BROKER = -1
OPERATIONS_NOT_ASKED = -(1 << 31)
TOPIC_OPERATIONS = 3576
"""Operations on a topic without an authorizer, as bits of AclOperation: READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE,
DESCRIBE_CONFIGS, ALTER_CONFIGS."""
CLUSTER_OPERATIONS = 8096
"""Operations on the cluster without an authorizer: CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS,
ALTER_CONFIGS, IDEMPOTENT_WRITE."""
BROKER_ENDPOINT, CONTROLLER_ENDPOINT = 1, 2
SHORT_OF_BROKERS = "internal topic short of brokers"
"""Event of a broker: consumer groups or transactions cannot start."""
_WITH_OPERATIONS = range(8, 11)
"""Versions of Metadata with the authorized operations on the cluster."""

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return broker.metadata_api.handlers


@dataclass(eq=False)
class MetadataApi(ClientApi):
    """Metadata and DescribeCluster of one broker.

    Args:
        cluster_id: returns the cluster's id; None in releases without ids.
        create_topic: creates a topic in ZooKeeper.
        record: adds an event of the broker to the history.
    """

    cluster_id: Callable[[], str | None]
    create_topic: Callable[[CreateTopicRequest], Coroutine[Future[Any], None, AdminResponse]]
    record: Callable[[str, str, str, str], None]
    _told: set[str] = field(default_factory=set, init=False)
    _encoded: dict[tuple[int, str], dict[str, EncodedRows[Partition]]] = field(default_factory=dict, init=False)
    _encoded_revision: int = field(default=-1, init=False)

    @property
    def handlers(self) -> dict[int, Handler]:
        return {METADATA: self.serve_metadata, DESCRIBE_CLUSTER: self.serve_describe_cluster}

    # -- Metadata

    def serve_metadata(self, context: Context, request: MetadataRequest, answer: Answer) -> None:
        """Answer Metadata, once missing topics are created."""
        topics = request.topics
        if topics is None or (context.version == 0 and not topics):
            answer(self._response(context, request, self._known(list(self.broker.cache.topics), context)))
            return
        by_id = [topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID]
        if any(topic.name is None for topic in topics) or by_id:
            self._serve_by_id(context, request, by_id, answer)
            return
        names = list(dict.fromkeys(topic.name for topic in topics if topic.name is not None))
        known = self._known([name for name in names if name in self.broker.cache.topics], context)
        creates = self.broker.config.boolean("auto.create.topics.enable") and request.allow_auto_topic_creation
        internal = INTERNAL_TOPICS if self.broker.version.api.creates_internal_topics else frozenset[str]()
        missing = {name: creates or name in internal for name in names if name not in self.broker.cache.topics}
        if any(missing.values()):
            self.broker.spawn(self._create(context, request, known, missing, answer), "topics on demand")
            return
        answer(self._response(context, request, known + [self._unknown(name) for name in missing]))

    def _serve_by_id(self, context: Context, request: MetadataRequest, ids: list[str], answer: Answer) -> None:
        """Answer a request that names topics by id, which brokers accept from version 12 on (KIP-516)."""
        assert request.topics is not None
        refused = ErrorCode.INVALID_REQUEST if context.version < 12 else ErrorCode.UNKNOWN_SERVER_ERROR
        if context.version < 12 or not ids:
            topics = [
                Topic(error_code=refused, name=topic.name or "", topic_id=topic.topic_id) for topic in request.topics
            ]
            answer(MetadataResponse(topics=topics))
            return
        name_of = self.broker.cache.topic_names
        distinct = list(dict.fromkeys(ids))
        known = self._known([name_of[topic_id] for topic_id in distinct if topic_id in name_of], context)
        unknown = [
            Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
            for topic_id in distinct
            if topic_id not in name_of
        ]
        answer(self._response(context, request, known + unknown))

    async def _create(
        self, context: Context, request: MetadataRequest, known: list[Topic], missing: dict[str, bool], answer: Answer
    ) -> None:
        """Create missing topics, as far as they are to be created, and answer."""
        topics = list(known)
        for name, is_created in missing.items():
            if not is_created:
                topics.append(self._unknown(name))
                continue
            error = await self.create_on_demand(name)
            if error != ErrorCode.LEADER_NOT_AVAILABLE and self.broker.version.api.fails_whole_metadata:
                asked = request.topics or ()
                answer(MetadataResponse(topics=[Topic(error_code=error, name=topic.name) for topic in asked]))
                return
            topics.append(Topic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS))
        answer(self._response(context, request, topics))

    async def create_on_demand(self, name: str) -> ErrorCode:
        """Create a topic that a client asks for, an internal one as the broker's settings say; return the answer."""
        partitions = factor = BY_DEFAULT
        config = {}
        if (prefix := SETTINGS_OF_INTERNAL.get(name)) is not None:
            partitions = self.broker.config.integer(f"{prefix}.num.partitions")
            factor = self.broker.config.integer(f"{prefix}.replication.factor")
            config = {"cleanup.policy": "compact"}
            if name == TRANSACTIONS_TOPIC:
                config["min.insync.replicas"] = str(self.broker.config.integer(f"{prefix}.min.isr"))
            live = len(self.broker.cache.live_brokers)
            if self.broker.version.number < (0, 11, 0) and live:
                factor = min(factor, live)
        made = await self.create_topic(CreateTopicRequest(name, partitions, factor, None, config, None))
        is_there = made.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        if prefix is not None and made.error == ErrorCode.INVALID_REPLICATION_FACTOR:
            self._tell(name, f"{prefix}.replication.factor", factor, f"{len(self.broker.cache.live_brokers)} live")
        elif made.error == ErrorCode.NONE and self._needs_more_replicas(factor, config):
            self._tell(name, f"{prefix}.min.isr", int(config["min.insync.replicas"]), f"{factor} replicas")
        return ErrorCode.LEADER_NOT_AVAILABLE if is_there else made.error

    def _needs_more_replicas(self, factor: int, config: Mapping[str, str]) -> bool:
        """Return whether no write to a topic is accepted; later releases ask for all replicas at most (KAFKA-15583)."""
        is_capped = self.broker.version.broker.high_watermark_needs_min_isr
        return not is_capped and factor < int(config.get("min.insync.replicas", factor))

    def _tell(self, topic: str, setting: str, value: int, available: str) -> None:
        """Record once why groups or transactions cannot start, as KafkaApis.createInternalTopic logs it."""
        if setting not in self._told:
            self._told.add(setting)
            fix = f'{setting}={value}: start more brokers, or set config={{"{setting}": 1}}'
            self.record(SHORT_OF_BROKERS, topic, available, fix)

    def _unknown(self, name: str) -> Topic:
        """Return the answer for a topic that is not in the cache and is not created."""
        is_illegal = self.broker.version.api.validates_unknown_names and not is_topic_name(name, self.broker.version)
        error = ErrorCode.INVALID_TOPIC_EXCEPTION if is_illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Topic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)

    def _response(self, context: Context, request: MetadataRequest, topics: list[Topic]) -> MetadataResponse:
        """Return the response with some topics, which get their authorized operations here."""
        response = MetadataResponse(
            brokers=self._brokers(MetadataResponse.MetadataResponseBroker, "node_id", context),
            cluster_id=self.cluster_id(),
            controller_id=self._controller(),
            topics=topics,
        )
        if context.version >= _WITH_OPERATIONS.start:
            unasked = self.broker.version.api.unasked_operations
            for topic in topics:
                asked = request.include_topic_authorized_operations
                topic.topic_authorized_operations = TOPIC_OPERATIONS if asked else unasked
            if context.version in _WITH_OPERATIONS:
                asked = request.include_cluster_authorized_operations
                response.cluster_authorized_operations = CLUSTER_OPERATIONS if asked else unasked
        return response

    def _known(self, names: Sequence[str], context: Context) -> list[Topic]:
        cache, rows = self.broker.cache, self._partitions(names, context)
        return [
            Topic(
                name=name,
                topic_id=cache.topic_ids.get(name, ZERO_UUID),
                is_internal=name in INTERNAL_TOPICS,
                partitions=rows[name],
            )
            for name in names
        ]

    def _partitions(self, names: Sequence[str], context: Context) -> Mapping[str, EncodedRows[Partition]]:
        """Return the partitions of topics, encoded."""
        self._forget_outdated()
        version, listener = shown_to = context.version, context.listener
        encoded = self._encoded.setdefault(shown_to, {})
        missing = [name for name in names if name not in encoded]
        if missing:
            rows = encode_rows(Partition, version, self._columns(missing, version, listener))
            begin = 0
            for name in missing:
                end = begin + len(self.broker.cache.topics[name])
                encoded[name] = rows[begin:end]
                begin = end
            assert begin == len(rows), "each row belongs to a topic"
        return encoded

    def _forget_outdated(self) -> None:
        """Forget the encoded partitions of updated topics; forget all after a change of the live brokers."""
        cache, since = self.broker.cache, self._encoded_revision
        if since == cache.revision:
            return
        self._encoded_revision = cache.revision
        if cache.live_revision > since:
            self._encoded.clear()
        for encoded in self._encoded.values():
            for name in [name for name in encoded if cache.topic_revisions.get(name, cache.revision) > since]:
                del encoded[name]

    def _columns(self, names: Sequence[str], version: int, listener: str) -> dict[str, Column]:
        """Return the partitions of topics as columns, as a version shows them at a listener."""
        cache = self.broker.cache
        partitions = [partition for name in names for partition in cache.topics[name].values()]
        states = list(map(cache.partitions.__getitem__, partitions))
        assigned: Sequence[Sequence[int]] = list(map(cache.assignments.__getitem__, partitions))
        if self.broker.version.api.replicas_in_hash_set:
            assigned = [hash_map_order(list(replicas), hash_of=int) for replicas in assigned]
        count = len(partitions)
        index = np.fromiter(chain.from_iterable(cache.topics[name] for name in names), np.int32, count)
        leader, epoch = (
            np.fromiter(map(attrgetter(name), states), np.int32, count) for name in ("leader", "leader_epoch")
        )
        replicas, isr = pack(assigned), pack([state.isr for state in states])
        live = broker_mask(cache.live_brokers)
        offline = keep(replicas, (replicas != NONE) & ~among(replicas, live))
        unreachable = [one for one in cache.live_brokers if self.broker.endpoint_of(one, listener) is None]
        if unreachable:
            live = broker_mask(cache.live_brokers.keys() - unreachable)
        is_led, are_live, isr_is_live = among(leader, live), among(replicas, live), among(isr, live)
        error = np.zeros(len(partitions), np.int16)
        if version == 0:
            has_dead = any_of(are_live != (replicas != NONE)) | any_of(isr_is_live != (isr != NONE))
            error[has_dead] = ErrorCode.REPLICA_NOT_AVAILABLE
            replicas, isr = keep(replicas, are_live), keep(isr, isr_is_live)
        if not self.broker.version.api.shows_isr_without_leader:
            isr = keep(isr, (isr != NONE) & is_led[:, None])
        if not self.broker.version.api.shows_epoch_without_leader:
            epoch = np.where(is_led, epoch, np.int32(NO_EPOCH))
        is_confused = self.broker.version.api.confuses_leader_with_itself and version >= _WITH_LISTENER_ERRORS
        error[~is_led] = ErrorCode.LISTENER_NOT_FOUND if is_confused else ErrorCode.LEADER_NOT_AVAILABLE
        if unreachable and version >= _WITH_LISTENER_ERRORS:
            error[among(leader, broker_mask(unreachable))] = ErrorCode.LISTENER_NOT_FOUND
        return {
            "error_code": error,
            "partition_index": index,
            "leader_id": np.where(is_led, leader, np.int32(NO_BROKER)),
            "leader_epoch": epoch,
            "replica_nodes": replicas,
            "isr_nodes": isr,
            "offline_replicas": offline,
        }

    def _controller(self) -> int:
        found = self.broker.cache.controller_id
        return NO_CONTROLLER if found is None or found not in self.broker.cache.live_brokers else found

    def _brokers(self, kind: type[Any], id_field: str, context: Context) -> list[Any]:
        """Return the live brokers that have the client's listener as structs of a response."""
        racks = self.broker.cache.live_brokers
        live = {broker: at for broker in racks if (at := self.broker.endpoint_of(broker, context.listener))}
        return [kind(**{id_field: one}, host=host, port=port, rack=racks[one]) for one, (host, port) in live.items()]

    # -- DescribeCluster

    def serve_describe_cluster(self, context: Context, request: DescribeClusterRequest, answer: Answer) -> None:
        """Answer DescribeCluster (KIP-700; endpoint types KIP-919)."""
        if request.endpoint_type != BROKER_ENDPOINT:
            is_known = request.endpoint_type == CONTROLLER_ENDPOINT
            refused = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            told = text if is_known else f"Unsupported endpoint type {request.endpoint_type}"
            answer(DescribeClusterResponse(error_code=refused, error_message=told))
            return
        asked = request.include_cluster_authorized_operations
        answer(
            DescribeClusterResponse(
                cluster_id=self.cluster_id() or "",
                controller_id=self._controller(),
                brokers=self._brokers(DescribeClusterResponse.DescribeClusterBroker, "broker_id", context),
                cluster_authorized_operations=CLUSTER_OPERATIONS if asked else OPERATIONS_NOT_ASKED,
            )
        )
