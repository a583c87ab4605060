"""Requests that only brokers and the controller send to each other, sent by a client.

A program that plays the controller, or a broker, is served as brokers serve each other in memory: its requests take
effect if their epochs are current.

Rules of this module (KafkaApis, ReplicaManager, KafkaController; epochs and errors recorded 0.8.2 to 3.9):
  - each needs ClusterAction of the cluster;
  - a response names every partition of the request. It names none of a StopReplica with a stale epoch of controller or
    broker, nor before 1.1 of a LeaderAndIsr with a stale controller epoch;
  - a partition of a LeaderAndIsr whose leader epoch is not newer has STALE_CONTROLLER_EPOCH, too;
  - up to 0.8.2 the error of a failed UpdateMetadata or ControlledShutdown is UNKNOWN_SERVER_ERROR: Kafka looks up the
    cause of the exception, which has none;
  - AlterPartition names topics by id since version 2, and INELIGIBLE_REPLICA is OPERATION_NOT_ATTEMPTED before that;
  - an Envelope closes the connection: brokers with ZooKeeper forward nothing (KafkaApis.isForwardingEnabled);
  - a request that no controller sends (replicas twice or none, an id that no broker has, an illegal name) has the error
    INVALID_REQUEST, and no effect. Kafka checks none of this.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from simzk.kafka.broker.admin_handlers import is_topic_name
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.metadata.changes import (
    LEADER_DURING_DELETE,
    IsrProposal,
    PartitionUpdate,
    PartitionUpdates,
    ReplicaStops,
)
from simzk.kafka.protocol import messages as protocol
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.schema import ZERO_UUID
from simzk.kafka.requests import (
    UNKNOWN_BROKER_EPOCH,
    AdminResponse,
    ControlResponse,
    IsrChangeRequest,
    IsrChangeResponse,
    LeadershipRequest,
    MetadataUpdateRequest,
    ProducerIdsRequest,
    ShutdownRequest,
    ShutdownResponse,
    StopReplicasRequest,
)
from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition, grouped_by_topic, named
from simzk.kafka.zookeeper_mode.schemas.cluster import PRODUCER_ID_BLOCK_SIZE
from simzk.partitions.arrays import NONE, pack
from simzk.partitions.states import LeaderAndIsr, States
from simzk.partitions.table import PartitionTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.rpc import Respond
    from simzk.kafka.zookeeper_mode.controller.controller import KafkaController

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN = 4, 5, 6, 7
ALTER_PARTITION, ENVELOPE, ALLOCATE_PRODUCER_IDS = 56, 58, 67

_LeaderState: TypeAlias = protocol.LeaderAndIsrRequest.LeaderAndIsrPartitionState
_MetadataState: TypeAlias = protocol.UpdateMetadataRequest.UpdateMetadataPartitionState
_IsrResult: TypeAlias = protocol.AlterPartitionResponse.PartitionData
_BY_TOPIC: Final = 5
"""First version of LeaderAndIsr whose response names topics by id."""
_TOPIC_IDS: Final = 2
"""First version of AlterPartition with topic ids."""
_WITH_EPOCHS: Final = 3
"""First version of AlterPartition with the broker epochs of the ISR (KIP-903), which ZooKeeper's controller ignores."""


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    serve, is_broker = broker.serve_between_brokers, broker.is_broker
    return BrokerRequestsApi(broker.serving_broker, broker.controller, serve, is_broker).handlers


@dataclass(eq=False)
class BrokerRequestsApi(ClientApi):
    """Requests between brokers, of a client to one broker.

    Args:
        controller: the controller that the broker is or may become.
        serve: serves requests between brokers.
        is_broker: returns whether the cluster has a broker with an id.
    """

    controller: KafkaController
    serve: Callable[[object, Respond], None]
    is_broker: Callable[[int], bool]

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            LEADER_AND_ISR: self.serve_leader_and_isr,
            STOP_REPLICA: self.serve_stop_replica,
            UPDATE_METADATA: self.serve_update_metadata,
            CONTROLLED_SHUTDOWN: self.serve_controlled_shutdown,
            ALTER_PARTITION: self.serve_alter_partition,
            ALLOCATE_PRODUCER_IDS: self.serve_allocate_producer_ids,
            ENVELOPE: lambda _context, _request, answer: answer(None),
        }

    def _refusal(self, context: Context, *, is_possible: bool = True) -> ErrorCode | None:
        """Return why a request is not served; None if it is."""
        if not self.broker.allows_on_cluster("ClusterAction", context.principal):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return None if is_possible else ErrorCode.INVALID_REQUEST

    # -- requests of the controller

    def serve_leader_and_isr(self, context: Context, request: protocol.LeaderAndIsrRequest, answer: Answer) -> None:
        """Become leader or follower of partitions."""
        found = leader_and_isr(request)
        partitions = [update.partition for update in found.updates]

        def respond(code: ErrorCode, errors: Mapping[TopicPartition, ErrorCode]) -> None:
            answer(_leader_and_isr_response(request, context.version, code, errors))

        refusal = self._refusal(context, is_possible=self._are_possible(found.updates))
        if refusal is not None:
            respond(refusal, dict.fromkeys(partitions, refusal))
            return

        def finish(response: ControlResponse) -> None:
            code = response.error
            if code == ErrorCode.STALE_CONTROLLER_EPOCH and not self.broker.version.api.names_stale_partitions:
                respond(code, {})
                return
            errors = dict.fromkeys(partitions, code)
            errors |= dict.fromkeys(response.refused, ErrorCode.STALE_CONTROLLER_EPOCH)
            errors |= dict(response.partition_errors.items())
            respond(code, errors)

        self.serve(found, finish)

    def serve_update_metadata(self, context: Context, request: protocol.UpdateMetadataRequest, answer: Answer) -> None:
        """Change the metadata cache."""
        found = update_metadata(request)
        is_possible = self._are_possible(found.updates) and all(map(self.is_broker, found.live_brokers))
        refusal = self._refusal(context, is_possible=is_possible)
        if refusal is not None:
            answer(protocol.UpdateMetadataResponse(error_code=refusal))
            return
        self.serve(
            found,
            lambda response: answer(protocol.UpdateMetadataResponse(error_code=self._named_error(response.error))),
        )

    def serve_stop_replica(self, context: Context, request: protocol.StopReplicaRequest, answer: Answer) -> None:
        """Stop replicas."""
        found = stop_replica(request)
        partitions = [stop.partition for stop in found.stops]

        def respond(code: ErrorCode, errors: Mapping[TopicPartition, ErrorCode]) -> None:
            part = protocol.StopReplicaResponse.StopReplicaPartitionError
            parts = [
                part(topic_name=one.topic, partition_index=one.partition, error_code=error)
                for one, error in errors.items()
            ]
            answer(protocol.StopReplicaResponse(error_code=code, partition_errors=parts))

        refusal = self._refusal(context, is_possible=are_names(partitions, self.broker.version))
        if refusal is not None:
            respond(refusal, dict.fromkeys(partitions, refusal))
            return

        def finish(response: ControlResponse) -> None:
            errors = {} if response.error != ErrorCode.NONE else dict.fromkeys(partitions, ErrorCode.NONE)
            errors |= dict(response.partition_errors.items())
            respond(response.error, errors)

        self.serve(found, finish)

    def _are_brokers(self, ids: Sequence[int]) -> bool:
        """Return whether ids are distinct ids of brokers."""
        return all(map(self.is_broker, ids)) and len(set(ids)) == len(ids)

    def _are_possible(self, updates: Sequence[PartitionUpdate]) -> bool:
        """Return whether a controller may send these states of partitions."""
        return are_names([update.partition for update in updates], self.broker.version) and all(
            len(assignment.replicas) > 0
            and self._are_brokers(assignment.replicas)
            and self._are_brokers(state.isr)
            and {*assignment.adding, *assignment.removing} <= {*assignment.replicas}
            and (state.leader in (NONE, LEADER_DURING_DELETE) or self.is_broker(state.leader))
            for _, state, assignment, _ in updates
        )

    # -- requests to the controller

    def serve_controlled_shutdown(
        self, context: Context, request: protocol.ControlledShutdownRequest, answer: Answer
    ) -> None:
        """Move the leaders of a broker that is about to stop."""
        refusal = self._refusal(context)
        if refusal is not None:
            answer(protocol.ControlledShutdownResponse(error_code=refusal))
            return
        names_epoch = request.broker_epoch != UNKNOWN_BROKER_EPOCH

        def finish(response: ShutdownResponse) -> None:
            code = self._named_error(response.error)
            if code == ErrorCode.NOT_CONTROLLER:  # ControllerMovedException
                code = ErrorCode.STALE_CONTROLLER_EPOCH
            if code == ErrorCode.BROKER_NOT_AVAILABLE and names_epoch:  # liveBrokerIdAndEpochs(id), before the check
                code = ErrorCode.UNKNOWN_SERVER_ERROR
            part = protocol.ControlledShutdownResponse.RemainingPartition
            remaining = [part(topic_name=one.topic, partition_index=one.partition) for one in response.remaining]
            answer(protocol.ControlledShutdownResponse(error_code=code, remaining_partitions=remaining))

        self.serve(ShutdownRequest(request.broker_id, request.broker_epoch), finish)

    def serve_alter_partition(self, context: Context, request: protocol.AlterPartitionRequest, answer: Answer) -> None:
        """Change the ISRs of partitions that a broker leads (KIP-497)."""
        has_ids = context.version >= _TOPIC_IDS
        ids = {topic: topic_id for topic, topic_id in self.controller.context.topic_ids.items() if topic_id}
        names = {topic_id: topic for topic, topic_id in ids.items()}
        found = alter_partition(request, context.version, names)
        is_possible = all(one.isr and self._are_brokers(one.isr) for one in found.proposals)
        refusal = self._refusal(context, is_possible=is_possible or not self.controller.is_active)
        if refusal is not None:
            answer(protocol.AlterPartitionResponse(error_code=refusal))
            return
        kind = protocol.AlterPartitionResponse

        def result_of(partition: TopicPartition, result: LeaderAndIsr | ErrorCode) -> _IsrResult:
            if isinstance(result, ErrorCode):
                code = result
                if code == ErrorCode.INELIGIBLE_REPLICA and not has_ids:
                    code = ErrorCode.OPERATION_NOT_ATTEMPTED
                return kind.PartitionData(partition_index=partition.partition, error_code=code)
            return kind.PartitionData(
                partition_index=partition.partition,
                leader_id=result.leader,
                leader_epoch=result.leader_epoch,
                isr=list(result.isr),
                leader_recovery_state=int(result.recovering),
                partition_epoch=result.version,
            )

        def finish(response: IsrChangeResponse) -> None:
            topics = [
                kind.TopicData(
                    topic_name="" if has_ids else topic,
                    topic_id=ids.get(topic, ZERO_UUID) if has_ids else ZERO_UUID,
                    partitions=[result_of(partition, response.results[partition]) for partition in partitions],
                )
                for topic, partitions in grouped_by_topic(response.results).items()
            ]
            if response.error == ErrorCode.NONE and has_ids:
                topics += [
                    kind.TopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            kind.PartitionData(
                                partition_index=one.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                            )
                            for one in topic.partitions
                        ],
                    )
                    for topic in request.topics
                    if topic.topic_id not in names
                ]
            answer(kind(error_code=response.error, topics=topics))

        self.serve(found, finish)

    def serve_allocate_producer_ids(
        self, context: Context, request: protocol.AllocateProducerIdsRequest, answer: Answer
    ) -> None:
        """Allocate a block of producer ids (KIP-730)."""
        refusal = self._refusal(context)
        if refusal is not None:
            answer(protocol.AllocateProducerIdsResponse(error_code=refusal))
            return

        def finish(response: AdminResponse) -> None:
            if response.error != ErrorCode.NONE:
                answer(protocol.AllocateProducerIdsResponse(error_code=response.error))
                return
            first = int(response.message)
            answer(
                protocol.AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
            )

        self.serve(ProducerIdsRequest(request.broker_id, request.broker_epoch), finish)

    def _named_error(self, error: ErrorCode) -> ErrorCode:
        """Return the code of an error that Kafka's handler throws."""
        is_hidden = self.broker.version.api.hides_thrown_errors and error != ErrorCode.NONE
        return ErrorCode.UNKNOWN_SERVER_ERROR if is_hidden else error


# -- requests of Kafka's protocol as those between simulated brokers


def are_names(partitions: Sequence[TopicPartition], version: KafkaVersion) -> bool:
    """Return whether partitions are distinct and have legal names and numbers."""
    return (
        all(partition.partition >= 0 for partition in partitions)
        and all(is_topic_name(topic, version) for topic in {partition.topic for partition in partitions})
        and max(Counter(partitions).values(), default=0) <= 1
    )


def leader_and_isr(request: protocol.LeaderAndIsrRequest) -> LeadershipRequest:
    """Return a LeaderAndIsr of Kafka's protocol as one between brokers."""
    states = [(one.topic_name, one) for one in request.ungrouped_partition_states]
    states += [(topic.topic_name, one) for topic in request.topic_states for one in topic.partition_states]
    moving = {
        place: ReplicaAssignment(tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas))
        for place, (_, one) in enumerate(states)
        if one.adding_replicas or one.removing_replicas
    }
    updates = _updates(
        [(topic, one, one.partition_epoch, bool(one.leader_recovery_state)) for topic, one in states],
        moving,
        [one.is_new for _, one in states],
    )
    header = request.controller_id, request.controller_epoch, request.broker_epoch
    return LeadershipRequest(*header, updates, _topic_ids(request.topic_states))


def update_metadata(request: protocol.UpdateMetadataRequest) -> MetadataUpdateRequest:
    """Return an UpdateMetadata of Kafka's protocol as one between brokers, which know each other's addresses."""
    states = [(one.topic_name, one) for one in request.ungrouped_partition_states]
    states += [(topic.topic_name, one) for topic in request.topic_states for one in topic.partition_states]
    updates = _updates([(topic, one, one.zk_version, False) for topic, one in states], {}, [False] * len(states))
    header = request.controller_id, request.controller_epoch, request.broker_epoch
    racks = {broker.id: broker.rack for broker in request.live_brokers}
    return MetadataUpdateRequest(*header, updates, racks, _topic_ids(request.topic_states))


def stop_replica(request: protocol.StopReplicaRequest) -> StopReplicasRequest:
    """Return a StopReplica of Kafka's protocol as one between brokers."""
    stops = [
        (TopicPartition(one.topic_name, one.partition_index), request.delete_partitions, NONE)
        for one in request.ungrouped_partitions
    ]
    stops += [
        (TopicPartition(topic.name, number), request.delete_partitions, NONE)
        for topic in request.topics
        for number in topic.partition_indexes
    ]
    stops += [
        (TopicPartition(topic.topic_name, one.partition_index), one.delete_partition, one.leader_epoch)
        for topic in request.topic_states
        for one in topic.partition_states
    ]
    columns = ReplicaStops(
        named([partition for partition, _, _ in stops]),
        np.array([delete for _, delete, _ in stops], dtype=np.bool_),
        np.array([epoch for _, _, epoch in stops], dtype=np.int32),
    )
    return StopReplicasRequest(request.controller_id, request.controller_epoch, request.broker_epoch, columns)


def alter_partition(
    request: protocol.AlterPartitionRequest, version: int, names: Mapping[str, str]
) -> IsrChangeRequest:
    """Return an AlterPartition of Kafka's protocol as one between brokers, without topics that are unknown by their id.

    Args:
        request: the request.
        version: its version.
        names: topic by id.
    """

    def isr_of(one: protocol.AlterPartitionRequest.PartitionData) -> tuple[int, ...]:
        if version >= _WITH_EPOCHS:
            return tuple(replica.broker_id for replica in one.new_isr_with_epochs)
        return tuple(one.new_isr)

    proposals = tuple(
        IsrProposal(
            TopicPartition(topic, one.partition_index),
            one.leader_epoch,
            isr_of(one),
            one.partition_epoch,
            bool(one.leader_recovery_state),
        )
        for asked in request.topics
        if (topic := names.get(asked.topic_id) if version >= _TOPIC_IDS else asked.topic_name) is not None
        for one in asked.partitions
    )
    return IsrChangeRequest(request.broker_id, request.broker_epoch, proposals)


def _updates(
    states: Sequence[tuple[str, _LeaderState | _MetadataState, int, bool]],
    moving: dict[int, ReplicaAssignment],
    is_new: Sequence[bool],
) -> PartitionUpdates:
    """Return states of partitions as columns; each has its topic, znode version, and whether its leader recovers."""
    assert len(states) == len(is_new)
    columns = [(one.leader, one.leader_epoch, one.controller_epoch, version) for _, one, version, _ in states]
    leader, leader_epoch, controller_epoch, version = np.array(columns, dtype=np.int32).reshape(len(states), 4).T
    found = States(
        leader=leader,
        leader_epoch=leader_epoch,
        isr=pack([tuple(one.isr) for _, one, _, _ in states]),
        controller_epoch=controller_epoch,
        version=version,
        recovering=np.array([recovering for _, _, _, recovering in states], dtype=np.bool_),
    )
    return PartitionUpdates(
        named([TopicPartition(topic, one.partition_index) for topic, one, _, _ in states]),
        found,
        pack([tuple(one.replicas) for _, one, _, _ in states]),
        moving,
        np.array(is_new, dtype=np.bool_),
        (PartitionTable(), 0),
    )


def _topic_ids(
    topics: Iterable[
        protocol.LeaderAndIsrRequest.LeaderAndIsrTopicState | protocol.UpdateMetadataRequest.UpdateMetadataTopicState
    ],
) -> dict[str, str]:
    return {topic.topic_name: topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID}


def _leader_and_isr_response(
    request: protocol.LeaderAndIsrRequest, version: int, code: ErrorCode, errors: Mapping[TopicPartition, ErrorCode]
) -> protocol.LeaderAndIsrResponse:
    kind = protocol.LeaderAndIsrResponse
    part = kind.LeaderAndIsrPartitionError
    if version < _BY_TOPIC:
        parts = [
            part(topic_name=one.topic, partition_index=one.partition, error_code=error) for one, error in errors.items()
        ]
        return kind(error_code=code, partition_errors=parts)
    ids = _topic_ids(request.topic_states)
    topics = [
        kind.LeaderAndIsrTopicError(
            topic_id=ids.get(topic, ZERO_UUID),
            partition_errors=[part(partition_index=one.partition, error_code=errors[one]) for one in partitions],
        )
        for topic, partitions in grouped_by_topic(errors).items()
    ]
    return kind(error_code=code, topics=topics)
