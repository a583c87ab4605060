"""FindCoordinator, and the requests of groups: join, sync, heartbeat, leave, describe, list, delete.

Rules of this module (KafkaApis; recorded 0.8.2 to 3.9):
  - the coordinator is the leader of a partition of an internal topic, as the broker's metadata cache shows it. A broker
    that does not know the topic creates it, and answers COORDINATOR_NOT_AVAILABLE until it knows the leader;
  - JoinGroup and SyncGroup are answered when the group is ready; the other requests at once;
  - a client that supports it is given a member id before it joins (JoinGroup 4, KIP-394), and a static leader that
    restarts is told not to assign (JoinGroup 9, KIP-814).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.coordinator.coordinator_log import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from simzk.kafka.coordinator.group import GroupState, JoinRequest, SyncRequest
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.coordinator.group import JoinResult, SyncResult
    from simzk.kafka.coordinator.group_coordinator import GroupCoordinator, GroupDescription
    from simzk.simulation import Future

FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 10, 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS = 15, 16, 42
GROUPS, TRANSACTIONS = 0, 1
"""Kinds of coordinators."""
CLIENT_HOST = "/127.0.0.1"
"""Where members are said to be: a client in memory has no address, others are on this machine."""
GROUP_OPERATIONS = 328
"""Operations on a group without an authorizer, as bits of AclOperation: READ, DELETE, DESCRIBE."""
CLASSIC = "classic"
NO_BROKER = -1
_ID_REQUIRED, _SKIPS_ASSIGNMENT = 4, 9
_NULL_PROTOCOLS = 7
"""First version of JoinGroup in which no protocol is null; before it is an empty text."""
_MANY_KEYS, _MANY_MEMBERS = 4, 3
_WITH_OPERATIONS = 3

Coordinator = FindCoordinatorResponse.Coordinator


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    create, count = broker.create_on_demand, broker.partitions_of_internal
    return GroupsApi(broker.serving_broker, broker.groups, create, count).handlers


@dataclass(eq=False)
class GroupsApi(ClientApi):
    """Requests of groups to one broker.

    Args:
        coordinator: its groups.
        create_topic: creates an internal topic by its name.
        partitions_of: returns how many partitions an internal topic has, or will have.
    """

    coordinator: GroupCoordinator
    create_topic: Callable[[str], Coroutine[Future[Any], None, object]]
    partitions_of: Callable[[str], int]

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            FIND_COORDINATOR: self.serve_find_coordinator,
            JOIN_GROUP: self.serve_join,
            HEARTBEAT: self.serve_heartbeat,
            LEAVE_GROUP: self.serve_leave,
            SYNC_GROUP: self.serve_sync,
            DESCRIBE_GROUPS: self.serve_describe,
            LIST_GROUPS: self.serve_list,
            DELETE_GROUPS: self.serve_delete,
        }

    # -- FindCoordinator

    def serve_find_coordinator(self, context: Context, request: FindCoordinatorRequest, answer: Answer) -> None:
        """Answer which brokers coordinate some groups or transactions."""
        topic = {GROUPS: OFFSETS_TOPIC, TRANSACTIONS: TRANSACTIONS_TOPIC}.get(request.key_type)
        if topic is None and self.broker.version.groups.closes_at_unknown_kind:
            answer(None)
            return
        keys = request.coordinator_keys if context.version >= _MANY_KEYS else [request.key]
        if topic is None:
            refused = ErrorCode[self.broker.version.groups.unknown_kind]
            self._answer_coordinators(context, [_unknown(key, refused) for key in keys], answer)
        elif topic not in self.broker.cache.topics and keys:
            self.broker.spawn(self._create(context, topic, keys, answer), "internal topic")
        else:
            found = [self._coordinator(key, topic, context.listener) for key in keys]
            self._answer_coordinators(context, found, answer)

    async def _create(self, context: Context, topic: str, keys: Sequence[str], answer: Answer) -> None:
        await self.create_topic(topic)
        unavailable = [_unknown(key, ErrorCode.COORDINATOR_NOT_AVAILABLE) for key in keys]
        self._answer_coordinators(context, unavailable, answer)

    def _coordinator(self, key: str, topic: str, listener: str) -> Coordinator:
        count = self.partitions_of(topic)
        number = partition_of(key, count)
        assert 0 <= number < count, f"{topic} has no partition {number}"
        state = self.broker.cache.partitions.get(TopicPartition(topic, number))
        if state is None or state.leader not in self.broker.cache.live_brokers:
            return _unknown(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        address = self.broker.endpoint_of(state.leader, listener)
        if address is None:
            return _unknown(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Coordinator(key=key, node_id=state.leader, host=address[0], port=address[1])

    def _answer_coordinators(self, context: Context, found: list[Coordinator], answer: Answer) -> None:
        """Answer each result with its text, since 2.4; from version 4 on only an invalid request has one."""
        if context.version >= _MANY_KEYS:
            for one in found:
                is_invalid = one.error_code == ErrorCode.INVALID_REQUEST
                one.error_message = ErrorCode.INVALID_REQUEST.text if is_invalid else ""
            answer(FindCoordinatorResponse(coordinators=found))
            return
        (one,) = found
        code = ErrorCode(one.error_code)
        response = FindCoordinatorResponse(error_code=code, node_id=one.node_id, host=one.host, port=one.port)
        has_text = self.broker.version.groups.has_coordinator_texts
        response.error_message = (code.text or code.name) if has_text else None
        answer(response)

    # -- members

    def serve_join(self, context: Context, request: JoinGroupRequest, answer: Answer) -> None:
        """Let a client join a group."""
        timeout_ms = request.rebalance_timeout_ms if context.version else request.session_timeout_ms
        joins = JoinRequest(
            request.member_id,
            request.group_instance_id,
            context.client_id or "",
            CLIENT_HOST,
            request.session_timeout_ms,
            timeout_ms,
            request.protocol_type,
            tuple((one.name, bytes(one.metadata)) for one in request.protocols),
            accepts_id=context.version >= _ID_REQUIRED,
            skips_assignment=context.version >= _SKIPS_ASSIGNMENT,
        )
        self.coordinator.join(request.group_id, joins, lambda result: answer(self._joined(context, result)))

    def _joined(self, context: Context, result: JoinResult) -> JoinGroupResponse:
        no_protocol = None if context.version >= _NULL_PROTOCOLS else ""
        has_failed = result.error != ErrorCode.NONE and result.generation < 0
        member = JoinGroupResponse.JoinGroupResponseMember
        return JoinGroupResponse(
            error_code=result.error,
            generation_id=self.broker.version.groups.failed_generation if has_failed else result.generation,
            protocol_type=result.protocol_type if context.version >= _NULL_PROTOCOLS else None,
            protocol_name=no_protocol if result.protocol_name is None else result.protocol_name,
            leader=result.leader,
            skip_assignment=result.skip_assignment,
            member_id=result.member_id,
            members=[
                member(member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata)
                for one in result.members
            ],
        )

    def serve_sync(self, context: Context, request: SyncGroupRequest, answer: Answer) -> None:
        """Answer a member with its assignment."""
        synced = SyncRequest(
            request.member_id,
            request.generation_id,
            request.group_instance_id,
            request.protocol_type,
            request.protocol_name,
            {one.member_id: bytes(one.assignment) for one in request.assignments},
        )

        def finish(result: SyncResult) -> None:
            response = SyncGroupResponse(error_code=result.error, assignment=result.assignment)
            if context.version >= SyncGroupResponse.MESSAGE.versions.high:
                response.protocol_type, response.protocol_name = result.protocol_type, result.protocol_name
            answer(response)

        self.coordinator.sync(request.group_id, synced, finish)

    def serve_heartbeat(self, _context: Context, request: HeartbeatRequest, answer: Answer) -> None:
        """Note that a member is alive."""
        member = request.member_id, request.generation_id, request.group_instance_id
        answer(HeartbeatResponse(error_code=self.coordinator.heartbeat(request.group_id, *member)))

    def serve_leave(self, context: Context, request: LeaveGroupRequest, answer: Answer) -> None:
        """Remove members from a group."""
        leaving: list[tuple[str, str | None]] = [(request.member_id, None)]
        if context.version >= _MANY_MEMBERS:
            leaving = [(member.member_id, member.group_instance_id) for member in request.members]
        found = self.coordinator.leave(request.group_id, leaving)
        if isinstance(found, ErrorCode):
            is_misread = context.version < _MANY_MEMBERS and self.broker.version.groups.fails_old_leave
            answer(LeaveGroupResponse(error_code=ErrorCode.UNSUPPORTED_VERSION if is_misread else found))
        elif context.version < _MANY_MEMBERS:
            answer(LeaveGroupResponse(error_code=found[0]))
        else:
            kind = LeaveGroupResponse.MemberResponse
            members = [
                kind(member_id=member_id, group_instance_id=instance_id, error_code=error)
                for (member_id, instance_id), error in zip(leaving, found, strict=True)
            ]
            answer(LeaveGroupResponse(members=members))

    # -- groups

    def serve_describe(self, context: Context, request: DescribeGroupsRequest, answer: Answer) -> None:
        """Describe groups."""
        described = [self._described(group_id, self.coordinator.describe(group_id)) for group_id in request.groups]
        if context.version >= _WITH_OPERATIONS:
            unasked = self.broker.version.api.unasked_operations
            for group in described:
                is_shown = request.include_authorized_operations and group.error_code == ErrorCode.NONE
                group.authorized_operations = GROUP_OPERATIONS if is_shown else unasked
        answer(DescribeGroupsResponse(groups=described))

    def _described(
        self, group_id: str, found: ErrorCode | GroupDescription | None
    ) -> DescribeGroupsResponse.DescribedGroup:
        group, member = DescribeGroupsResponse.DescribedGroup, DescribeGroupsResponse.DescribedGroupMember
        if isinstance(found, ErrorCode):
            assert found != ErrorCode.NONE, f"{group_id} has no description"
            return group(error_code=found, group_id=group_id)
        if found is None:
            return group(group_id=group_id, group_state=GroupState.DEAD.value)
        is_stable = found.state == GroupState.STABLE
        return group(
            group_id=group_id,
            group_state=self._name_of(found.state),
            protocol_type=found.snapshot.protocol_type,
            protocol_data=(found.snapshot.protocol_name or "") if is_stable else "",
            members=[
                member(
                    member_id=one.member_id,
                    group_instance_id=one.instance_id,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    member_metadata=one.subscription if is_stable else b"",
                    member_assignment=one.assignment if is_stable else b"",
                )
                for one in found.snapshot.members
            ],
        )

    def _name_of(self, state: GroupState) -> str:
        return self.broker.version.groups.completing_state if state == GroupState.COMPLETING_REBALANCE else state.value

    def serve_list(self, _context: Context, request: ListGroupsRequest, answer: Answer) -> None:
        """List the groups of this broker in some states, of some types; no state or type stands for all."""
        error, found = self.coordinator.groups()
        states, types = request.states_filter, {kind.lower() for kind in request.types_filter}
        if self.broker.version.groups.filters_ignore_case:
            states = [state.lower() for state in states]
        listed = []
        for group in found if not types or CLASSIC in types else ():
            name = self._name_of(group.state)
            shown = name.lower() if self.broker.version.groups.filters_ignore_case else name
            if not states or shown in states:
                kind, protocol = ListGroupsResponse.ListedGroup, group.protocol_type
                named = kind(group_id=group.group_id, protocol_type=protocol, group_state=name, group_type=CLASSIC)
                listed.append(named)
        answer(ListGroupsResponse(error_code=error, groups=listed))

    def serve_delete(self, _context: Context, request: DeleteGroupsRequest, answer: Answer) -> None:
        """Delete groups without members."""
        kind, names = DeleteGroupsResponse.DeletableGroupResult, dict.fromkeys(request.groups_names)
        results = [kind(group_id=name, error_code=self.coordinator.delete(name)) for name in names]
        answer(DeleteGroupsResponse(results=results))


def _unknown(key: str, error: ErrorCode) -> Coordinator:
    assert error != ErrorCode.NONE, f"the coordinator of {key} is known"
    return Coordinator(key=key, node_id=NO_BROKER, port=NO_BROKER, error_code=error)
