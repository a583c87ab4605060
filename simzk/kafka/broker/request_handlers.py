"""Requests that a broker serves (KafkaApis): of the controller, of followers, of other brokers, of operators.

Rules of this module:
  - a control request is fenced by broker epoch (KIP-380) and controller epoch before a replica sees it;
  - a request to the controller waits in its event queue; a broker that is not controller responds NOT_CONTROLLER.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.structs import Message
from simzk.kafka.requests import (
    AddPartitionsRequest,
    AdminResponse,
    AlterConfigRequest,
    AlteredPartitions,
    AlterPartitions,
    AlterReassignmentsRequest,
    AppendRequest,
    ControlResponse,
    CreateTokenRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    ElectionRequest,
    EpochEndsRequest,
    ExpireTokenRequest,
    FindLeaderRequest,
    FindLeaderResponse,
    FollowerFetchRequest,
    IsrChangeRequest,
    IsrChangeResponse,
    LeadershipRequest,
    MetadataUpdateRequest,
    ProducerIdsRequest,
    ReadRequest,
    RenewTokenRequest,
    ShutdownRequest,
    ShutdownResponse,
    StopReplicasRequest,
)
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError
from simzk.kafka.zookeeper_mode.client.zk_client import ZooKeeperRefused
from simzk.kafka.zookeeper_mode.controller.state_machines import Strategy
from simzk.partitions.states import no_states
from simzk.zookeeper.requests import GetData

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from simzk.kafka.broker.admin_handlers import AdminHandlers
    from simzk.kafka.broker.cluster_resources import ReplicaRequests
    from simzk.kafka.broker.delegation_tokens import DelegationTokens
    from simzk.kafka.broker.fetching import FetchSessions
    from simzk.kafka.broker.producing import Producing
    from simzk.kafka.broker.replica_logs import ReplicaLogs
    from simzk.kafka.broker.replica_manager import BrokerEpochs
    from simzk.kafka.broker.transaction_markers import TransactionMarkers
    from simzk.kafka.metadata.cache import MetadataCache
    from simzk.kafka.protocol.messages import AddPartitionsToTxnRequest
    from simzk.kafka.rpc import Respond
    from simzk.kafka.zookeeper_mode.client.zk_client import KafkaZooKeeperClient
    from simzk.kafka.zookeeper_mode.controller.controller import KafkaController
    from simzk.simulation import Future, Process

    Work = Callable[[], Coroutine[Future[Any], None, AdminResponse]]

NOT_CONTROLLER = AdminResponse(ErrorCode.NOT_CONTROLLER)
_STRATEGIES = {"preferred": Strategy.PREFERRED, "unclean": Strategy.UNCLEAN}

SETTINGS_OF_INTERNAL = {"__consumer_offsets": "offsets.topic", "__transaction_state": "transaction.state.log"}
"""First part of the names of a broker's settings for an internal topic."""
INTERNAL_TOPICS = frozenset(SETTINGS_OF_INTERNAL)
"""Topics that the asked broker creates itself when a client first needs one, even if it is not controller."""


@dataclass(eq=False)
class RequestHandlers:
    """Request handlers of one broker.

    Args:
        process: the broker's process, which runs handlers that wait.
        epochs: fence control requests.
        replicas: handles control requests to replicas.
        controller: the controller that the broker is or may become.
        logs: its replicas with logs.
        answer_pause_us: returns the pause before the response to a request that created a replica after a pause.
        add_partitions: serves AddPartitionsToTxn of a leader that verifies a transaction.
    """

    broker_id: int
    process: Process
    client: KafkaZooKeeperClient
    epochs: BrokerEpochs
    replicas: ReplicaRequests
    metadata: MetadataCache
    fetch_sessions: FetchSessions
    producing: Producing
    markers: Callable[[], TransactionMarkers]
    tokens: DelegationTokens
    admin: AdminHandlers
    controller: KafkaController
    logs: ReplicaLogs
    answer_pause_us: Callable[[], int]
    add_partitions: Callable[[AddPartitionsToTxnRequest, Respond], None]

    def serve(self, request: Any, respond: Respond) -> None:
        """Serve a request; `respond` is called with the response, now or later."""
        match request:
            case FollowerFetchRequest():
                self.fetch_sessions.serve(request, respond)
            case EpochEndsRequest():
                respond(self.logs.epoch_ends(request))
            case AppendRequest():
                self.producing.serve(request, respond)
            case FindLeaderRequest():
                state = self.metadata.partitions.get(request.partition)
                respond(FindLeaderResponse(-1 if state is None else state.leader))
            case ReadRequest():  # of a consumer, which has no session; the records are in the page cache
                respond(self.logs.read_committed(request))
            case LeadershipRequest() if self.client.session.is_cut and (new := self._new_topic(request)):
                self.process.spawn(self._serve_with_config(request, new, respond), "new replicas")
            case LeadershipRequest() | MetadataUpdateRequest() | StopReplicasRequest():
                respond(self._serve_controller(request))
            case AlterPartitions():
                self._serve_alter_partitions(request, respond)
            case IsrChangeRequest() if not self.client.version.controller.accepts_isr_changes:
                respond(IsrChangeResponse(ErrorCode.UNSUPPORTED_VERSION, {}))
            case IsrChangeRequest():
                self._serve_alter_partition(request, respond)
            case ShutdownRequest():
                refusal = ShutdownResponse(ErrorCode.NOT_CONTROLLER, ())
                self._put_event(
                    "controlled shutdown", respond, lambda: self.controller.shutdowns.process(request), refusal
                )
            case ProducerIdsRequest() if not self.client.version.controller.allocates_producer_ids:
                self._spawn(respond, self._take_producer_ids)
            case ProducerIdsRequest():
                self._enqueue("producer ids", respond, lambda: self._allocate_producer_ids(request))
            case AlterReassignmentsRequest():
                self._enqueue("reassignment", respond, lambda: self._reassign(request))
            case ElectionRequest():
                self._enqueue("leader election", respond, lambda: self._elect(request))
            case CreateTopicRequest() if request.name in INTERNAL_TOPICS:  # by the broker that is asked (recorded)
                self._spawn(respond, lambda: self.admin.create_topic(request))
            case CreateTopicRequest():
                self._as_controller(respond, lambda: self.admin.create_topic(request))
            case AddPartitionsRequest():
                self._as_controller(respond, lambda: self.admin.create_partitions(request))
            case DeleteTopicRequest():
                self._as_controller(respond, lambda: self.admin.delete_topic(request))
            case CreateTokenRequest():
                self._spawn(respond, lambda: self.tokens.create(request))
            case RenewTokenRequest():
                self._spawn(respond, lambda: self.tokens.renew(request))
            case ExpireTokenRequest():
                self._spawn(respond, lambda: self.tokens.expire(request))
            case Message():
                self._serve_message(request, respond)
            case AlterConfigRequest():
                self._spawn(respond, lambda: self.admin.alter_config(request))
            case _:
                raise AssertionError(f"a broker has no handler for {request!r}")

    def _serve_message(self, request: Message, respond: Respond) -> None:
        """Serve a request of Kafka's protocol: those about transactions have the same form as between brokers."""
        from simzk.kafka.protocol.messages import AddPartitionsToTxnRequest, WriteTxnMarkersRequest

        if isinstance(request, WriteTxnMarkersRequest):
            self.markers().serve(request, respond)
        else:
            assert isinstance(request, AddPartitionsToTxnRequest), f"a broker has no handler for {request!r}"
            self.add_partitions(request, respond)

    # -- control requests

    def _new_topic(self, request: LeadershipRequest) -> str | None:
        """Return the topic of the first partition without a replica here; None if topics have no configuration."""
        if "topics" not in self.client.version.configs.entity_types:
            return None
        known = self.logs.replicas
        return next((update.partition.topic for update in request.updates if update.partition not in known), None)

    async def _serve_with_config(self, request: LeadershipRequest, topic: str, respond: Respond) -> None:
        """Serve a request that creates a replica: its log needs the topic's configuration from ZooKeeper.

        A broker that was paused waits here for a new session (Partition.getOrCreateReplica; recorded 0.10.2). Its
        fetchers start before the response.
        """
        await self.client.session.call_across_sessions(GetData(paths.config(f"topics/{topic}"), False))
        response = self._serve_controller(request)
        if pause_us := self.answer_pause_us():
            await self.process.sleep(pause_us)
        respond(response)

    def _serve_controller(
        self, request: LeadershipRequest | MetadataUpdateRequest | StopReplicasRequest
    ) -> ControlResponse:
        error = self.epochs.fence(self.broker_id, request.broker_epoch, request.controller_epoch)
        if error != ErrorCode.NONE:
            return ControlResponse(error, {})
        match request:
            case LeadershipRequest():
                return self.replicas.lead_and_follow(request.updates, request.topic_ids)
            case StopReplicasRequest():
                return self.replicas.stop(request.stops)
            case MetadataUpdateRequest():
                self.metadata.update(request.controller_id, request.updates, request.live_brokers, request.topic_ids)
                return ControlResponse(ErrorCode.NONE, {})

    # -- requests to the controller

    def _serve_alter_partition(self, request: IsrChangeRequest, respond: Respond) -> None:
        controller = self.controller

        async def work() -> None:
            response = await controller.isr_changes.process(request)
            respond(response)
            for partition, result in response.results.items():
                if not isinstance(result, ErrorCode) and partition in controller.context.being_reassigned:
                    await controller.reassignments.maybe_complete(partition)

        refusal = IsrChangeResponse(ErrorCode.NOT_CONTROLLER, {})
        controller.put_event("ISR change", work, preempt=lambda: respond(refusal))

    def _serve_alter_partitions(self, request: AlterPartitions, respond: Respond) -> None:
        controller, proposals = self.controller, request.proposals

        async def work() -> None:
            altered = await controller.isr_changes.process_many(proposals)
            assert altered.error != ErrorCode.NONE or len(altered.errors) == proposals.partitions.size
            respond(altered)
            for partition in list(controller.context.being_reassigned):
                await controller.reassignments.maybe_complete(partition)

        count = proposals.partitions.size
        refusal = AlteredPartitions(ErrorCode.NOT_CONTROLLER, np.zeros(count, dtype=np.int16), no_states(count, 1))
        controller.put_event("ISR change", work, preempt=lambda: respond(refusal))

    async def _allocate_producer_ids(self, request: ProducerIdsRequest) -> AdminResponse:
        """Allocate the next block of producer ids to a broker (KIP-730)."""
        controller = self.controller
        live = controller.context.brokers.get(request.broker_id)
        if live is None:
            return AdminResponse(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if live.epoch != request.broker_epoch:
            return AdminResponse(ErrorCode.STALE_BROKER_EPOCH)
        return AdminResponse(ErrorCode.NONE, str(await controller.client.allocate_producer_ids(request.broker_id)))

    async def _take_producer_ids(self) -> AdminResponse:
        """Allocate the next block of producer ids in ZooKeeper, as each broker does up to 2.8."""
        return AdminResponse(ErrorCode.NONE, str(await self.client.allocate_producer_ids(self.broker_id)))

    async def _reassign(self, request: AlterReassignmentsRequest) -> AdminResponse:
        errors = await self.controller.reassignments.process_api(request.targets)
        return AdminResponse(ErrorCode.NONE, "", errors)

    async def _elect(self, request: ElectionRequest) -> AdminResponse:
        if request.kind == "unclean" and not self.client.version.controller.accepts_unclean_elections:
            text = f"Kafka {self.client.version.name} has no unclean election by request"
            return AdminResponse(ErrorCode.UNSUPPORTED_VERSION, text)
        errors = await self.controller.elections.elect(request.partitions, _STRATEGIES[request.kind])
        return AdminResponse(ErrorCode.NONE, "", errors)

    # -- execution

    def _put_event(
        self, name: str, respond: Respond, work: Callable[[], Coroutine[Future[Any], None, object]], refusal: object
    ) -> None:
        """Let the controller do some work and respond; if the broker is not controller, respond with the refusal."""

        async def event() -> None:
            respond(await work())

        self.controller.put_event(name, event, preempt=lambda: respond(refusal))

    def _enqueue(self, name: str, respond: Respond, work: Work) -> None:
        self._put_event(name, respond, lambda: _response_of(work), NOT_CONTROLLER)

    def _as_controller(self, respond: Respond, work: Work) -> None:
        if self.controller.is_active:
            self._spawn(respond, work)
        else:
            respond(NOT_CONTROLLER)

    def _spawn(self, respond: Respond, work: Work) -> None:
        async def task() -> None:
            try:
                respond(await _response_of(work))
            except SessionExpiredError:
                respond(NOT_CONTROLLER)

        self.process.spawn(task(), "request of an operator")


async def _response_of(work: Work) -> AdminResponse:
    """Return the response; an invalid znode, or a write that ZooKeeper rejects, is UNKNOWN_SERVER_ERROR."""
    try:
        return await work()
    except (ZnodeError, ZooKeeperRefused) as problem:
        return AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))
