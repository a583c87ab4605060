"""The requests that a broker serves: by the controller, by followers, by other brokers, by operators.

Rules of the module:
  - what a controller sends is refused where it is meant for an earlier life of this broker (KIP-380);
  - what only the controller can do goes into its queue; a broker that is not controller says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka.controller.state_machines import Strategy
from simzk.kafka.requests import (
    AdminResponse,
    AllocateProducerIdsRequest,
    AlterConfigRequest,
    AlteredPartitions,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitions,
    AlterReassignmentsRequest,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlResponse,
    CreatePartitionsRequest,
    CreateTokenRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    ElectLeadersRequest,
    Error,
    ExpireTokenRequest,
    FetchRequest,
    LeaderAndIsrRequest,
    ProduceRequest,
    RenewTokenRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from simzk.kafka.zookeeper_client.session import SessionExpiredError
from simzk.kafka.zookeeper_client.zk_client import ZooKeeperRefused
from simzk.partitions.states import no_states

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from simzk.kafka.broker.admin_handlers import AdminHandlers
    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.broker.broker_epochs import BrokerEpochs
    from simzk.kafka.rpc import Respond
    from simzk.simulation import Future

NOT_CONTROLLER = AdminResponse(Error.NOT_CONTROLLER)
_STRATEGIES = {"preferred": Strategy.PREFERRED, "unclean": Strategy.UNCLEAN}

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that a broker makes by itself when a client first needs one, whoever is controller."""


class Services:
    """Serves requests on one broker."""

    def __init__(self, broker: Broker, admin: AdminHandlers, epochs: BrokerEpochs) -> None:
        self._epochs = epochs
        self._broker = broker
        self._admin = admin
        self._version = broker.client.version

    def serve(self, request: Any, respond: Respond) -> None:
        """Serve a request; `respond` is called with the answer, now or later."""
        match request:
            case FetchRequest():
                self._broker.fetch_sessions.serve(request, respond)
            case ProduceRequest():
                self._broker.producing.serve(request, respond)
            case LeaderAndIsrRequest() | UpdateMetadataRequest() | StopReplicaRequest():
                respond(self._serve_controller(request))
            case AlterPartitions():
                self._serve_alter_partitions(request, respond)
            case AlterPartitionRequest() if not self._version.controller.accepts_isr_changes:
                respond(AlterPartitionResponse(Error.UNSUPPORTED_VERSION, {}))
            case AlterPartitionRequest():
                self._serve_alter_partition(request, respond)
            case ControlledShutdownRequest():
                self._serve_controlled_shutdown(request, respond)
            case AllocateProducerIdsRequest() if not self._version.controller.allocates_producer_ids:
                self._spawn(respond, self._take_producer_ids)
            case AllocateProducerIdsRequest():
                self._in_queue("producer ids", respond, lambda: self._allocate_producer_ids(request))
            case AlterReassignmentsRequest():
                self._in_queue("reassignment", respond, lambda: self._reassign(request))
            case ElectLeadersRequest():
                self._in_queue("leader election", respond, lambda: self._elect(request))
            case CreateTopicRequest() if request.name in INTERNAL_TOPICS:  # by the broker that is asked (recorded)
                self._spawn(respond, lambda: self._admin.create_topic(request))
            case CreateTopicRequest():
                self._as_controller(respond, lambda: self._admin.create_topic(request))
            case CreatePartitionsRequest():
                self._as_controller(respond, lambda: self._admin.create_partitions(request))
            case DeleteTopicRequest():
                self._as_controller(respond, lambda: self._admin.delete_topic(request))
            case CreateTokenRequest():
                self._spawn(respond, lambda: self._broker.tokens.create(request))
            case RenewTokenRequest():
                self._spawn(respond, lambda: self._broker.tokens.renew(request))
            case ExpireTokenRequest():
                self._spawn(respond, lambda: self._broker.tokens.expire(request))
            case AlterConfigRequest():
                self._spawn(respond, lambda: self._admin.alter_config(request))
            case _:
                raise AssertionError(f"nobody serves {request!r}")

    # -- the controller's requests

    def _serve_controller(
        self, request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
    ) -> ControlResponse:
        broker = self._broker
        error = self._epochs.fence(broker.id, request.broker_epoch, request.controller_epoch)
        if error != Error.NONE:
            return ControlResponse(error, {})
        match request:
            case LeaderAndIsrRequest():
                return broker.replica_requests.lead_and_follow(request)
            case StopReplicaRequest():
                return broker.replica_requests.stop(request)
            case UpdateMetadataRequest():
                broker.metadata.update(request)
                return ControlResponse(Error.NONE, {})

    # -- what the controller does for others

    def _serve_alter_partition(self, request: AlterPartitionRequest, respond: Respond) -> None:
        controller = self._broker.controller

        async def work() -> None:
            response = await controller.isr_changes.process(request)
            respond(response)
            for partition, result in response.results.items():
                if not isinstance(result, Error) and partition in controller.context.being_reassigned:
                    await controller.reassignments.maybe_complete(partition)

        refusal = AlterPartitionResponse(Error.NOT_CONTROLLER, {})
        controller.put_event("ISR change", work, preempt=lambda: respond(refusal))

    def _serve_alter_partitions(self, request: AlterPartitions, respond: Respond) -> None:
        controller, proposals = self._broker.controller, request.proposals

        async def work() -> None:
            altered = await controller.isr_changes.process_many(proposals)
            respond(altered)
            for partition in list(controller.context.being_reassigned):
                await controller.reassignments.maybe_complete(partition)

        count = proposals.partitions.size
        refusal = AlteredPartitions(Error.NOT_CONTROLLER, np.zeros(count, dtype=np.int8), no_states(count, 1))
        controller.put_event("ISR change", work, preempt=lambda: respond(refusal))

    def _serve_controlled_shutdown(self, request: ControlledShutdownRequest, respond: Respond) -> None:
        controller = self._broker.controller

        async def work() -> None:
            respond(await controller.shutdowns.process(request))

        refusal = ControlledShutdownResponse(Error.NOT_CONTROLLER, ())
        controller.put_event("controlled shutdown", work, preempt=lambda: respond(refusal))

    async def _allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AdminResponse:
        """Give a broker the next block of ids (KIP-730)."""
        controller = self._broker.controller
        live = controller.context.brokers.get(request.broker_id)
        if live is None:
            return AdminResponse(Error.BROKER_ID_NOT_REGISTERED)
        if live.epoch != request.broker_epoch:
            return AdminResponse(Error.STALE_BROKER_EPOCH)
        return AdminResponse(Error.NONE, str(await controller.client.allocate_producer_ids(request.broker_id)))

    async def _take_producer_ids(self) -> AdminResponse:
        """Up to 2.8 a broker takes its next block itself."""
        return AdminResponse(Error.NONE, str(await self._broker.client.allocate_producer_ids(self._broker.id)))

    async def _reassign(self, request: AlterReassignmentsRequest) -> AdminResponse:
        errors = await self._broker.controller.reassignments.process_api(request.targets)
        return AdminResponse(Error.NONE, "", errors)

    async def _elect(self, request: ElectLeadersRequest) -> AdminResponse:
        if request.kind == "unclean" and not self._version.controller.accepts_unclean_elections:
            return AdminResponse(
                Error.UNSUPPORTED_VERSION, f"Kafka {self._version.name} has no unclean election by request"
            )
        errors = await self._broker.controller.elections.elect(request.partitions, _STRATEGIES[request.kind])
        return AdminResponse(Error.NONE, "", errors)

    # -- where it is done

    def _in_queue(
        self, name: str, respond: Respond, work: Callable[[], Coroutine[Future[Any], None, AdminResponse]]
    ) -> None:
        async def event() -> None:
            respond(await _answered(work))

        self._broker.controller.put_event(name, event, preempt=lambda: respond(NOT_CONTROLLER))

    def _as_controller(self, respond: Respond, work: Callable[[], Coroutine[Future[Any], None, AdminResponse]]) -> None:
        if self._broker.controller.is_active:
            self._spawn(respond, work)
        else:
            respond(NOT_CONTROLLER)

    def _spawn(self, respond: Respond, work: Callable[[], Coroutine[Future[Any], None, AdminResponse]]) -> None:
        async def task() -> None:
            try:
                respond(await _answered(work))
            except SessionExpiredError:
                respond(NOT_CONTROLLER)

        self._broker.process.spawn(task(), "request of an operator")


async def _answered(work: Callable[[], Coroutine[Future[Any], None, AdminResponse]]) -> AdminResponse:
    """The answer; a znode that cannot be read, or a write that ZooKeeper refuses, is an error of the server."""
    try:
        return await work()
    except (ZnodeError, ZooKeeperRefused) as problem:
        return AdminResponse(Error.UNKNOWN_SERVER_ERROR, str(problem))
