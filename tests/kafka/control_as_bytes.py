"""Requests of the controller, and to it, as bytes of Kafka's protocol, and back.

Simulated brokers exchange values. `control_bytes` puts the codec and the handlers for clients between two of them: each
request is encoded in the newest version of the release, served as that of a client, and its response decoded again.

Partitions keep their order: a topic stands in a request as often as others stand between its partitions. What the
values have and the protocol has not is the epoch of the controller that wrote a state, in the response to
AlterPartition.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from simzk.kafka.client_requests.handlers import Context
from simzk.kafka.protocol import messages as protocol
from simzk.kafka.protocol.codec import decode_request, decode_response, encode_request, encode_response
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.schema import ZERO_UUID
from simzk.kafka.protocol.structs import Message
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.requests import (
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
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from tests.kafka.replication_as_bytes import by_topic

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.rpc import Respond, Serve

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN = 4, 5, 6, 7
ALTER_PARTITION, PRODUCER_IDS = 56, 67
NAMES_UNTIL = {LEADER_AND_ISR: 4, ALTER_PARTITION: 1}
"""Newest versions with names of topics in the response: topics of an older controller have no ids."""
Way = tuple[Message, type[Message], "Callable[[Any], object]"]
"""A request of the protocol, the class of its response, and what makes a value of that."""


class ControlBytes:
    """Requests about control to one broker, as bytes.

    Args:
        broker: the broker that serves them.
        serve_other: serves all other requests.
        counted: counts requests by name.
    """

    def __init__(self, broker: Broker, serve_other: Serve, counted: Counter[str]) -> None:
        self._broker = broker
        self._serve_other = serve_other
        self._counted = counted
        self._versions = accepted_versions(broker.version.number)

    def serve(self, request: object, respond: Respond) -> None:
        """Serve a request, as bytes if it is of that kind."""
        ways: dict[type[object], tuple[int, Callable[[Any, int], Way]]] = {
            LeadershipRequest: (LEADER_AND_ISR, self._lead),
            MetadataUpdateRequest: (UPDATE_METADATA, self._update),
            StopReplicasRequest: (STOP_REPLICA, self._stop),
            ShutdownRequest: (CONTROLLED_SHUTDOWN, self._shut_down),
            IsrChangeRequest: (ALTER_PARTITION, self._alter),
            ProducerIdsRequest: (PRODUCER_IDS, self._allocate),
        }
        key, convert = ways.get(type(request), (-1, None))
        if convert is None or key not in self._versions:
            self._serve_other(request, respond)
            return
        version = self._versions[key].high
        if isinstance(request, IsrChangeRequest) and not self._has_ids(request):
            version = min(version, NAMES_UNTIL[ALTER_PARTITION])
        if isinstance(request, LeadershipRequest) and not request.topic_ids:
            version = min(version, NAMES_UNTIL[LEADER_AND_ISR])
        body, kind, value_of = convert(request, version)
        self._counted[type(request).__name__] += 1
        frame = encode_request(body, version, correlation_id=1, client_id="broker")
        decoded = decode_request(frame).body

        def answer(response: object) -> None:
            assert isinstance(response, Message), response
            sent = encode_response(response, version, correlation_id=1)
            respond(value_of(decode_response(kind, version, sent)[2]))

        handle = partial(self._broker.client_api.handlers[key], Context(version, "broker"), decoded, answer)
        self._broker.call_when_started(handle)

    def _has_ids(self, request: IsrChangeRequest) -> bool:
        ids = self._broker.controller.context.topic_ids
        return all(ids.get(proposal.partition.topic) for proposal in request.proposals)

    # -- of the controller

    def _lead(self, request: LeadershipRequest, version: int) -> Way:
        kind = protocol.LeaderAndIsrRequest
        body = kind(controller_id=request.controller_id, controller_epoch=request.controller_epoch)
        states: dict[TopicPartition, protocol.LeaderAndIsrRequest.LeaderAndIsrPartitionState] = {}
        for partition, state, assignment, is_new in request.updates:
            one = kind.LeaderAndIsrPartitionState(
                partition_index=partition.partition,
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                partition_epoch=state.version,
                replicas=list(assignment.replicas),
            )
            if version < 2:
                one.topic_name = partition.topic
            if version >= 1:
                one.is_new = is_new
            if version >= 3:
                one.adding_replicas, one.removing_replicas = list(assignment.adding), list(assignment.removing)
            if version >= 6:
                one.leader_recovery_state = int(state.recovering)
            states[partition] = one
        if version < 2:
            body.ungrouped_partition_states = list(states.values())
        else:
            body.broker_epoch = request.broker_epoch
            for topic, partitions in by_topic(states):
                named = kind.LeaderAndIsrTopicState(topic_name=topic, partition_states=[states[p] for p in partitions])
                if version >= 5:
                    named.topic_id = request.topic_ids.get(topic, ZERO_UUID)
                body.topic_states = [*body.topic_states, named]
        names = {topic_id: topic for topic, topic_id in request.topic_ids.items()}

        def value_of(response: protocol.LeaderAndIsrResponse) -> ControlResponse:
            codes = {
                TopicPartition(one.topic_name, one.partition_index): one.error_code for one in response.partition_errors
            }
            codes |= {
                TopicPartition(names[topic.topic_id], one.partition_index): one.error_code
                for topic in response.topics
                for one in topic.partition_errors
            }
            return _control_response(response.error_code, codes)

        return body, protocol.LeaderAndIsrResponse, value_of

    def _update(self, request: MetadataUpdateRequest, version: int) -> Way:
        kind = protocol.UpdateMetadataRequest
        body = kind(controller_id=request.controller_id, controller_epoch=request.controller_epoch)
        states: dict[TopicPartition, protocol.UpdateMetadataRequest.UpdateMetadataPartitionState] = {}
        for partition, state, assignment, _ in request.updates:
            states[partition] = kind.UpdateMetadataPartitionState(
                topic_name=partition.topic if version < 5 else "",
                partition_index=partition.partition,
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                zk_version=state.version,
                replicas=list(assignment.replicas),
            )
        if version < 5:
            body.ungrouped_partition_states = list(states.values())
        else:
            body.broker_epoch = request.broker_epoch
            for topic, partitions in by_topic(states):
                named = kind.UpdateMetadataTopicState(
                    topic_name=topic, partition_states=[states[one] for one in partitions]
                )
                if version >= 7:
                    named.topic_id = request.topic_ids.get(topic, ZERO_UUID)
                body.topic_states = [*body.topic_states, named]
        body.live_brokers = [
            kind.UpdateMetadataBroker(id=broker, rack=rack) if version >= 2 else kind.UpdateMetadataBroker(id=broker)
            for broker, rack in request.live_brokers.items()
        ]
        return body, protocol.UpdateMetadataResponse, lambda response: _control_response(response.error_code, {})

    def _stop(self, request: StopReplicasRequest, version: int) -> Way:
        kind = protocol.StopReplicaRequest
        body = kind(controller_id=request.controller_id, controller_epoch=request.controller_epoch)
        stops = {stop.partition: stop for stop in request.stops}
        if version < 3:
            (body.delete_partitions,) = {stop.delete for stop in stops.values()}
        if version == 0:
            body.ungrouped_partitions = [
                kind.StopReplicaPartitionV0(topic_name=one.topic, partition_index=one.partition) for one in stops
            ]
        else:
            body.broker_epoch = request.broker_epoch
        for topic, partitions in by_topic(stops) if version else ():
            if version < 3:
                numbers = [one.partition for one in partitions]
                body.topics = [*body.topics, kind.StopReplicaTopicV1(name=topic, partition_indexes=numbers)]
                continue
            states = [
                kind.StopReplicaPartitionState(
                    partition_index=one.partition,
                    leader_epoch=stops[one].leader_epoch,
                    delete_partition=stops[one].delete,
                )
                for one in partitions
            ]
            named = kind.StopReplicaTopicState(topic_name=topic, partition_states=states)
            body.topic_states = [*body.topic_states, named]

        def value_of(response: protocol.StopReplicaResponse) -> ControlResponse:
            errors = {
                TopicPartition(one.topic_name, one.partition_index): ErrorCode(one.error_code)
                for one in response.partition_errors
            }
            return ControlResponse(ErrorCode(response.error_code), errors)

        return body, protocol.StopReplicaResponse, value_of

    # -- to the controller

    def _shut_down(self, request: ShutdownRequest, version: int) -> Way:
        body = protocol.ControlledShutdownRequest(broker_id=request.broker_id)
        if version >= 2:
            body.broker_epoch = request.broker_epoch

        def value_of(response: protocol.ControlledShutdownResponse) -> ShutdownResponse:
            error = {
                ErrorCode.STALE_CONTROLLER_EPOCH: ErrorCode.NOT_CONTROLLER,
                ErrorCode.UNKNOWN_SERVER_ERROR: ErrorCode.BROKER_NOT_AVAILABLE,
            }.get(ErrorCode(response.error_code)) or ErrorCode(response.error_code)
            remaining = tuple(
                TopicPartition(one.topic_name, one.partition_index) for one in response.remaining_partitions
            )
            return ShutdownResponse(error, remaining)

        return body, protocol.ControlledShutdownResponse, value_of

    def _alter(self, request: IsrChangeRequest, version: int) -> Way:
        kind = protocol.AlterPartitionRequest
        ids = self._broker.controller.context.topic_ids
        proposals = {proposal.partition: proposal for proposal in request.proposals}
        body = kind(broker_id=request.broker_id, broker_epoch=request.broker_epoch)
        for topic, partitions in by_topic(proposals):
            named = kind.TopicData(topic_name=topic if version < 2 else "")
            if version >= 2:
                named.topic_id = ids[topic] or ZERO_UUID
            for partition in partitions:
                proposal = proposals[partition]
                one = kind.PartitionData(
                    partition_index=partition.partition,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.version,
                )
                if version >= 1:
                    one.leader_recovery_state = int(proposal.recovering)
                if version >= 3:
                    one.new_isr_with_epochs = [kind.BrokerState(broker_id=replica) for replica in proposal.isr]
                else:
                    one.new_isr = list(proposal.isr)
                named.partitions = [*named.partitions, one]
            body.topics = [*body.topics, named]
        names = {topic_id: topic for topic, topic_id in ids.items()}

        def result_of(one: protocol.AlterPartitionResponse.PartitionData) -> LeaderAndIsr | ErrorCode:
            code = ErrorCode(one.error_code)
            if code == ErrorCode.OPERATION_NOT_ATTEMPTED:
                code = ErrorCode.INELIGIBLE_REPLICA
            if code:
                return code
            epoch = self._broker.controller.context.epoch
            state = one.leader_id, one.leader_epoch, tuple(one.isr), epoch, one.partition_epoch
            return LeaderAndIsr(*state, bool(one.leader_recovery_state))

        def value_of(response: protocol.AlterPartitionResponse) -> IsrChangeResponse:
            results = {
                TopicPartition(topic.topic_name or names[topic.topic_id], one.partition_index): result_of(one)
                for topic in response.topics
                for one in topic.partitions
            }
            return IsrChangeResponse(ErrorCode(response.error_code), results)

        return body, protocol.AlterPartitionResponse, value_of

    def _allocate(self, request: ProducerIdsRequest, _version: int) -> Way:
        body = protocol.AllocateProducerIdsRequest(broker_id=request.broker_id, broker_epoch=request.broker_epoch)

        def value_of(response: protocol.AllocateProducerIdsResponse) -> AdminResponse:
            return AdminResponse(ErrorCode(response.error_code), str(response.producer_id_start))

        return body, protocol.AllocateProducerIdsResponse, value_of


def _control_response(code: int, codes: dict[TopicPartition, int]) -> ControlResponse:
    errors = {partition: ErrorCode(one) for partition, one in codes.items() if one}
    refused = tuple(partition for partition, error in errors.items() if error == ErrorCode.STALE_CONTROLLER_EPOCH)
    kept = {partition: error for partition, error in errors.items() if partition not in refused}
    return ControlResponse(ErrorCode(code), kept if code == ErrorCode.NONE else {}, refused)
