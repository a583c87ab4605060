"""A classic consumer group: its members, generations and rebalances, as a state machine without clock and I/O.

Rules of this module (GroupCoordinator, GroupMetadata, MemberMetadata; recorded 0.9 to 3.9):
  - a rebalance collects JoinGroup requests: it ends when all members have joined and no new one is announced, or after
    the longest rebalance timeout of the members. Members that have not joined are removed, static ones are not;
  - the first rebalance of an empty group waits for `group.initial.rebalance.delay.ms`, again after each new member, up
    to the rebalance timeout (KIP-134);
  - the first member leads the group; if it does not join, the next one that joined does. The leader receives the
    subscriptions of all members, and sends their assignments;
  - assignments are sent to members when the group is stored; if it cannot be stored, the members rebalance again;
  - a member without a heartbeat for its session timeout is removed. It needs none while it waits for a response, unless
    it is new: then it is removed after five minutes (KAFKA-7610);
  - a new member without an instance id is given an id, and joins with it (KIP-394); a client that does not come back
    is forgotten after its session timeout;
  - a static member that restarts takes over the assignment of its instance id, and fences the process before it
    (KIP-345). The group does not rebalance if it is stable and the chosen protocol stays;
  - up to 0.10.0 a group without members does not exist; only its offsets do.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.releases.profile import GroupRules
    from simzk.simulation import Timer

NO_MEMBER = ""
"""Member id of a client that has none yet."""
NO_GENERATION = -1
NEW_MEMBER_JOIN_MS = 5 * 60 * 1000
"""How long a new member may wait for its first generation."""


class GroupState(Enum):
    """State of a group; the value is its name in responses, since 1.1."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState
_PREVIOUS: Final = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.STABLE, _S.COMPLETING_REBALANCE, _S.EMPTY}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE, _S.EMPTY, _S.DEAD}),
}
"""Valid previous states of each state (GroupMetadata); 0.9 has no Empty, which is a group without members there."""


class GroupSettings(NamedTuple):
    """Settings of a broker for its groups; times in ms."""

    min_session_ms: int
    max_session_ms: int
    initial_delay_ms: int
    max_members: int


class JoinRequest(NamedTuple):
    """Request of a client to join a group.

    Args:
        member_id: its id, `NO_MEMBER` if it has none yet.
        instance_id: its id as a static member; None for a dynamic one.
        client_id, client_host: where it comes from.
        session_ms, rebalance_ms: its timeouts.
        protocol_type: type of the protocols, `consumer` for consumers.
        protocols: the assignment strategies that it supports, with its subscription for each, the best first.
        accepts_id: whether a new member is told its id first.
        skips_assignment: whether a static leader that restarts can be told not to assign.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    accepts_id: bool = False
    skips_assignment: bool = False


class JoinedMember(NamedTuple):
    """A member with its subscription, for the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """Response to a JoinGroup request; members are sent to the leader only."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    """Request of a member for its assignment; that of the leader has the assignments of all, by member id."""

    member_id: str
    generation: int
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class SyncResult(NamedTuple):
    """Response to a SyncGroup request."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class MemberSnapshot(NamedTuple):
    """A member as it is described and stored."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    subscription: bytes
    assignment: bytes


class GroupSnapshot(NamedTuple):
    """A group as it is stored: between two rebalances."""

    group_id: str
    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    state_since_ms: int
    members: Sequence[MemberSnapshot]


class GroupHost(NamedTuple):
    """Services of the coordinator for the groups of one partition.

    Args:
        call_later: calls back after a delay of virtual time, in µs.
        now_ms: returns the present time, in ms since 1970.
        new_id: returns a new unique text.
        store: stores a group; calls back when it is stored, or with the error for its members.
    """

    call_later: Callable[[int, Callable[[], None]], Timer]
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    store: Callable[[GroupSnapshot, Callable[[ErrorCode], None]], None]


@dataclass(slots=True, eq=False)
class _Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    is_new: bool = False
    respond_join: Callable[[JoinResult], None] | None = None
    respond_sync: Callable[[SyncResult], None] | None = None
    timer: Timer | None = None

    @property
    def waits(self) -> bool:
        """Whether the member waits for a response, and sends no heartbeats."""
        return self.respond_join is not None or self.respond_sync is not None

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@dataclass(eq=False)
class Group:
    """A classic group at its coordinator.

    Args:
        host: services of the coordinator.
        settings: settings of the broker.

    Attributes:
        state: its state.
        generation: number of the last rebalance that ended.
        protocol_type, protocol_name: type of the members' protocols, and the one that was chosen.
        leader: id of the member that assigns.
        state_since_ms: when the state changed; -1 if a coordinator before did not store it.
    """

    group_id: str
    host: GroupHost
    rules: GroupRules
    settings: GroupSettings
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    state_since_ms: int = -1
    _members: dict[str, _Member] = field(default_factory=dict)
    _member_of_instance: dict[str, str] = field(default_factory=dict)
    _announced: dict[str, Timer] = field(default_factory=dict)
    """Ids that were given to new members which have not joined with them."""
    _unsynced: dict[str, None] = field(default_factory=dict)
    """Members of the generation that have not asked for their assignment."""
    _join_timer: Timer | None = None
    _initial_ms_left: int | None = None
    """How often the first rebalance may still be delayed; None outside of it."""
    _has_newcomer: bool = False
    _sync_timer: Timer | None = None
    _outbox: deque[Callable[[], None]] = field(default_factory=deque)
    """Responses that are sent when the group is in its next state: a client may send its next request at once."""

    @property
    def exists(self) -> bool:
        """Whether clients can see the group."""
        return self.state != GroupState.EMPTY or self.rules.keeps_empty_groups

    # -- requests

    def join(self, request: JoinRequest, respond: Callable[[JoinResult], None]) -> None:
        """Let a client join; respond when the rebalance has ended."""
        member_id = request.member_id
        if self.state == GroupState.DEAD:
            self._refuse_join(respond, ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        elif not self._accepts(member_id):
            self._remove(member_id)
            self._refuse_join(respond, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER)
        elif not self._supports(request):
            self._refuse_join(respond, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif member_id == NO_MEMBER:
            self._join_as_new(request, respond)
        elif member_id in self._announced:
            self._add(request, member_id, respond)
        elif (error := self._member_error(member_id, request.instance_id)) != ErrorCode.NONE:
            self._refuse_join(respond, error, member_id)
        else:
            self._join_again(request, self._members[member_id], respond)
        self._complete_join_if_all_joined()
        self._send()

    def sync(self, request: SyncRequest, respond: Callable[[SyncResult], None]) -> None:
        """Send a member its assignment, when the leader has sent those of all members."""
        error = self._sync_error(request)
        if error == ErrorCode.NONE and self.state == GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error != ErrorCode.NONE:
            respond(SyncResult(error))
            return
        member = self._members[request.member_id]
        member.respond_sync = respond
        self._note_sync(member.member_id)
        if self.state == GroupState.STABLE:
            self._answer_sync(member, self._assignment_of(member))
            self._expect_heartbeat(member)
        elif member.member_id == self.leader:
            self._assign(request.assignments)
        self._send()

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None) -> ErrorCode:
        """Note that a member is alive; return the error that says what it has to do."""
        if self.state == GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.rules.heartbeats_fail_outside_stable and self.state not in (GroupState.STABLE, GroupState.EMPTY):
            return ErrorCode.REBALANCE_IN_PROGRESS
        error = self._generation_error(member_id, generation, instance_id)
        if error != ErrorCode.NONE:
            return error
        if self.state == GroupState.COMPLETING_REBALANCE and not self.rules.heartbeats_while_completing:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._expect_heartbeat(self._members[member_id])
        is_preparing = self.state == GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Remove a member at its wish, or a static one by its instance id alone."""
        if member_id == NO_MEMBER:
            found = None if instance_id is None else self._member_of_instance.get(instance_id)
            if found is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = found
        elif member_id in self._announced:
            self._forget_announced(member_id)
            self._send()
            return ErrorCode.NONE
        elif (error := self._member_error(member_id, instance_id)) != ErrorCode.NONE:
            return error
        self._drop(self._members[member_id])
        self._send()
        return ErrorCode.NONE

    def commit_error(self, member_id: str, generation: int, instance_id: str | None, *, in_txn: bool) -> ErrorCode:
        """Return why a member may not commit offsets, at once or with a transaction; it is alive if it may.

        A consumer without a group has no generation.
        """
        if self.state == GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state == GroupState.EMPTY:
            return ErrorCode.NONE
        is_member = generation >= 0 or member_id != NO_MEMBER or instance_id is not None
        if not is_member:
            return ErrorCode.NONE if in_txn else ErrorCode.UNKNOWN_MEMBER_ID
        error = self._generation_error(member_id, generation, instance_id)
        if error != ErrorCode.NONE or in_txn:
            return error
        if self.state == GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._expect_heartbeat(self._members[member_id])
        return ErrorCode.NONE

    # -- errors

    def _accepts(self, member_id: str) -> bool:
        """Return whether the group is not full (KIP-389)."""
        most = self.settings.max_members
        member = self._members.get(member_id)
        if self.state == GroupState.PREPARING_REBALANCE:
            waiting = sum(other.respond_join is not None for other in self._members.values())
            return (member is not None and member.respond_join is not None) or waiting < most
        return self.state == GroupState.EMPTY or member is not None or len(self._members) < most

    def _supports(self, request: JoinRequest) -> bool:
        """Return whether a member can agree on a protocol with the others."""
        if self.state == GroupState.EMPTY:
            return bool(request.protocol_type and request.protocols)
        common = self._common_protocols()
        return request.protocol_type == self.protocol_type and any(name in common for name, _ in request.protocols)

    def _member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            current = self._member_of_instance.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            assert current in self._members
            return ErrorCode.NONE if current == member_id else ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    def _generation_error(self, member_id: str, generation: int, instance_id: str | None) -> ErrorCode:
        error = self._member_error(member_id, instance_id)
        if error == ErrorCode.NONE and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _sync_error(self, request: SyncRequest) -> ErrorCode:
        if self.state == GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._generation_error(request.member_id, request.generation, request.instance_id)
        if error != ErrorCode.NONE:
            return error
        named = (request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol_name)
        if any(asked is not None and asked != present for asked, present in named):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    # -- members

    def _join_as_new(self, request: JoinRequest, respond: Callable[[JoinResult], None]) -> None:
        member_id = f"{request.instance_id or request.client_id}-{self.host.new_id()}"
        if request.instance_id is not None and request.instance_id in self._member_of_instance:
            self._replace_static(request, member_id, respond)
        elif request.instance_id is None and request.accepts_id:
            self._announced[member_id] = self._after(request.session_ms, lambda: self._forget_announced(member_id))
            self._refuse_join(respond, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(request, member_id, respond)

    def _add(self, request: JoinRequest, member_id: str, respond: Callable[[JoinResult], None]) -> None:
        """Add a member, and rebalance."""
        assert member_id not in self._members
        announced = self._announced.pop(member_id, None)
        if announced is not None:
            announced.cancel()
        if not self._members:
            self.protocol_type = request.protocol_type
        if self.leader is None:
            self.leader = member_id
        member = _Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_ms,
            request.rebalance_ms,
            request.protocols,
            is_new=self.rules.expires_new_members,
            respond_join=respond,
        )
        self._members[member_id] = member
        if request.instance_id is not None:
            self._member_of_instance[request.instance_id] = member_id
        if self.state == GroupState.PREPARING_REBALANCE and self.generation == 0:
            self._has_newcomer = True
        expires_ms = NEW_MEMBER_JOIN_MS if self.rules.expires_new_members else request.session_ms
        member.timer = self._after(expires_ms, lambda: self._expire(member))
        self._rebalance_if_possible()

    def _join_again(self, request: JoinRequest, member: _Member, respond: Callable[[JoinResult], None]) -> None:
        """Let a member join that has joined before."""
        is_same = member.protocols == request.protocols
        is_leader = member.member_id == self.leader
        knows_result = self.state == GroupState.COMPLETING_REBALANCE and is_same
        if knows_result or (self.state == GroupState.STABLE and is_same and not is_leader):
            # The response was lost, or the member restarted: the generation is the same.
            result = self._result_for(member, with_members=is_leader)
            self._outbox.append(lambda: respond(result))
            return
        self._update(member, request, respond)
        self._rebalance_if_possible()

    def _update(self, member: _Member, request: JoinRequest, respond: Callable[[JoinResult], None]) -> None:
        member.protocols = request.protocols
        if self.rules.updates_timeouts:
            member.session_ms, member.rebalance_ms = request.session_ms, request.rebalance_ms
        member.respond_join = respond

    def _replace_static(self, request: JoinRequest, member_id: str, respond: Callable[[JoinResult], None]) -> None:
        """Give the place of a static member to its next process."""
        assert request.instance_id is not None
        assert member_id not in self._members
        before, leader_before = self._member_of_instance[request.instance_id], self.leader
        member = self._members[before]
        timeouts = member.session_ms, member.rebalance_ms
        self._answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, before))
        self._answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        self._rename(member, member_id)
        self._update(member, request, respond)
        if self.state == GroupState.COMPLETING_REBALANCE and self.rules.rebalances_for_replaced:
            self._prepare_rebalance()
        elif self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE) and not self.rules.stores_replaced:
            result = self._result_for(member, with_members=False)
            self._answer_join(member, result._replace(leader=leader_before or NO_MEMBER))
        elif self.state == GroupState.STABLE and self._choose_protocol() != self.protocol_name:
            self._rebalance_if_possible()
        elif self.state == GroupState.STABLE:
            self._keep_generation(member, before, timeouts, leader_before or NO_MEMBER, request)

    def _rename(self, member: _Member, member_id: str) -> None:
        """Give a static member another id, and expect a heartbeat with that."""
        before, instance_id = member.member_id, member.instance_id
        assert instance_id is not None
        del self._members[before]
        member.member_id = self._member_of_instance[instance_id] = member_id
        self._members[member_id] = member
        if before in self._unsynced:
            del self._unsynced[before]
            self._unsynced[member_id] = None
        if self.leader == before:
            self.leader = member_id
        self._expect_heartbeat(member)

    def _keep_generation(
        self, member: _Member, before: str, timeouts: tuple[int, int], leader_before: str, request: JoinRequest
    ) -> None:
        """Answer a static member that restarted in a stable group, when the group is stored.

        If it cannot be stored, the process before keeps its place, with the timeouts that it had, but with the
        subscription of the new one (GroupCoordinator.updateStaticMemberAndRebalance, KAFKA-10284).
        """
        assert self.state == GroupState.STABLE
        assert self._members[member.member_id] is member

        def finish(error: ErrorCode) -> None:
            if member.respond_join is None:  # it was answered, or removed, meanwhile
                return
            if error != ErrorCode.NONE:
                result = self._result_for(member, with_members=False)
                self._answer_join(member, result._replace(error=error, member_id=NO_MEMBER, leader=leader_before))
                member.session_ms, member.rebalance_ms = timeouts
                self._rename(member, before)
            elif request.skips_assignment:
                is_leader = self.leader == member.member_id
                result = self._result_for(member, with_members=is_leader)
                self._answer_join(member, result._replace(skip_assignment=is_leader))
            else:
                # The leader id of before, so that a leader that restarted does not assign again (KAFKA-7728).
                result = self._result_for(member, with_members=False)
                self._answer_join(member, result._replace(leader=leader_before))
            self._send()

        self.host.store(self.snapshot(), finish)

    def _remove(self, member_id: str) -> None:
        """Remove a member or an announced id."""
        member = self._members.pop(member_id, None)
        if member is not None:
            member.stop_timer()
            if member.instance_id is not None:
                del self._member_of_instance[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)
        announced = self._announced.pop(member_id, None)
        if announced is not None:
            announced.cancel()
        self._unsynced.pop(member_id, None)

    def _drop(self, member: _Member) -> None:
        """Remove a member that left or whose session expired, and rebalance."""
        assert self._members.get(member.member_id) is member
        self._answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER))
        self._remove(member.member_id)
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance()
        self._complete_join_if_all_joined()

    def _forget_announced(self, member_id: str) -> None:
        assert member_id in self._announced
        self._remove(member_id)
        self._complete_join_if_all_joined()

    # -- heartbeats

    def _after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        def run() -> None:
            callback()
            self._send()

        return self.host.call_later(max(delay_ms, 0) * 1000, run)  # a client may ask for a negative timeout

    def _expect_heartbeat(self, member: _Member) -> None:
        """Expire the session of a member unless it sends a heartbeat within its timeout."""
        assert self._members.get(member.member_id) is member, f"{member.member_id} was removed"
        member.stop_timer()
        member.timer = self._after(member.session_ms, lambda: self._expire(member))

    def _expire(self, member: _Member) -> None:
        member.timer = None
        if member.is_new or not member.waits:
            self._drop(member)

    # -- rebalance

    def _rebalance_if_possible(self) -> None:
        if self.state in _PREVIOUS[GroupState.PREPARING_REBALANCE]:
            self._prepare_rebalance()

    def _prepare_rebalance(self) -> None:
        """Begin to collect the members of the next generation."""
        if self.state == GroupState.COMPLETING_REBALANCE:
            self._fail_sync(ErrorCode.REBALANCE_IN_PROGRESS)
        assert self._join_timer is None
        self._stop_sync_timer()
        rebalance_ms = max((member.rebalance_ms for member in self._members.values()), default=0)
        is_first = self.state == GroupState.EMPTY and self.rules.delays_first_rebalance
        self._set_state(GroupState.PREPARING_REBALANCE)
        if is_first:
            delay_ms = self.settings.initial_delay_ms
            self._initial_ms_left, self._has_newcomer = max(rebalance_ms - delay_ms, 0), False
            self._join_timer = self._after(delay_ms, lambda: self._end_initial_delay(delay_ms))
        else:
            self._join_timer = self._after(rebalance_ms, self._complete_join)
            self._complete_join_if_all_joined()

    def _end_initial_delay(self, delay_ms: int) -> None:
        left_ms = self._initial_ms_left
        assert self.state == GroupState.PREPARING_REBALANCE
        assert left_ms is not None, "only the first rebalance of an empty group has an initial delay"
        if self._has_newcomer and left_ms > 0:
            self._has_newcomer = False
            next_ms = min(self.settings.initial_delay_ms, left_ms)
            self._initial_ms_left = max(left_ms - delay_ms, 0)
            self._join_timer = self._after(next_ms, lambda: self._end_initial_delay(next_ms))
        else:
            self._complete_join()

    def _complete_join_if_all_joined(self) -> None:
        if self.state != GroupState.PREPARING_REBALANCE or self._initial_ms_left is not None or self._announced:
            return
        if all(member.respond_join is not None for member in self._members.values()):
            self._complete_join()

    def _complete_join(self) -> None:
        """End the collection of members: begin the next generation, or wait on if nobody joined."""
        assert self.state == GroupState.PREPARING_REBALANCE
        if self._join_timer is not None:
            self._join_timer.cancel()
        self._join_timer = self._initial_ms_left = None
        for member in list(self._members.values()):
            if member.respond_join is None and member.instance_id is None:
                self._remove(member.member_id)
        if self._members and not self._elect_leader():
            rebalance_ms = max(member.rebalance_ms for member in self._members.values())
            self._join_timer = self._after(rebalance_ms, self._complete_join)
            return
        assert all(one.respond_join is not None or one.instance_id is not None for one in self._members.values())
        self.generation += 1
        self._unsynced.clear()
        if not self._members:
            self._become_empty()
            return
        self.protocol_name = self._choose_protocol()
        self._set_state(GroupState.COMPLETING_REBALANCE)
        for member in self._members.values():
            self._answer_join(member, self._result_for(member, with_members=member.member_id == self.leader))
            self._expect_heartbeat(member)
            member.is_new = False
            self._unsynced[member.member_id] = None
        if self.rules.expires_unsynced_members:
            longest_ms = max(member.rebalance_ms for member in self._members.values())
            self._sync_timer = self._after(longest_ms, self._expire_unsynced)

    def _become_empty(self) -> None:
        assert not self._members
        assert self.leader is None
        self.protocol_name = None
        self._set_state(GroupState.EMPTY)
        self.host.store(self.snapshot(), lambda _error: None)
        if not self.rules.keeps_empty_groups:
            self.generation, self.protocol_type = 0, None

    def _elect_leader(self) -> bool:
        """Replace a leader that has not joined; return false if nobody has."""
        assert self.leader in self._members, f"{self.leader} is no member"
        joined = [one.member_id for one in self._members.values() if one.respond_join is not None]
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    def _common_protocols(self) -> list[str]:
        """Return the protocols that all members support."""
        counts = Counter(name for member in self._members.values() for name in dict(member.protocols))
        return [name for name, count in counts.items() if count == len(self._members)]

    def _choose_protocol(self) -> str:
        """Return the protocol with the most votes; each member votes for its first that all support."""
        common = self._common_protocols()
        assert common, "a member without a common protocol is refused"
        votes = Counter(next(name for name, _ in one.protocols if name in common) for one in self._members.values())
        return votes.most_common(1)[0][0]

    def _set_state(self, state: GroupState) -> None:
        assert self.state in _PREVIOUS[state], f"{self.group_id} is {self.state.value}, and becomes {state.value}"
        self.state, self.state_since_ms = state, self.host.now_ms()

    # -- assignments

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        """Store the assignments of the leader, then send each member its own."""
        assert self.state == GroupState.COMPLETING_REBALANCE
        generation = self.generation
        stored = {member_id: assignments.get(member_id, b"") for member_id in self._members}

        def finish(error: ErrorCode) -> None:
            if self.state != GroupState.COMPLETING_REBALANCE or self.generation != generation:
                return
            if error != ErrorCode.NONE:
                self._fail_sync(error)
                self._prepare_rebalance()
            else:
                self._set_state(GroupState.STABLE)
                for member in self._members.values():
                    member.assignment = stored[member.member_id]
                    if self._answer_sync(member, self._assignment_of(member)):
                        self._expect_heartbeat(member)
            self._send()

        self.host.store(self.snapshot(stored), finish)

    def _fail_sync(self, error: ErrorCode) -> None:
        for member in self._members.values():
            member.assignment = b""
            if self._answer_sync(member, SyncResult(error)):
                self._expect_heartbeat(member)

    def _note_sync(self, member_id: str) -> None:
        self._unsynced.pop(member_id, None)
        if not self._unsynced:
            self._stop_sync_timer()

    def _stop_sync_timer(self) -> None:
        self._unsynced.clear()
        if self._sync_timer is not None:
            self._sync_timer.cancel()
            self._sync_timer = None

    def _expire_unsynced(self) -> None:
        """Remove members that have not asked for their assignment in time (KAFKA-12890)."""
        assert self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE), f"a sync in {self.state}"
        assert self._unsynced, "the last sync stops the timer"
        self._sync_timer = None
        for member_id in list(self._unsynced):
            self._remove(member_id)
        self._prepare_rebalance()

    # -- responses

    def _result_for(self, member: _Member, *, with_members: bool) -> JoinResult:
        protocol, everyone = self.protocol_name, self._members.values() if with_members else ()
        assert protocol is not None
        assert self.leader in self._members, f"{self.leader} is no member"
        members = [JoinedMember(one.member_id, one.instance_id, one.metadata(protocol)) for one in everyone]
        chosen = self.generation, self.protocol_type, protocol, self.leader or NO_MEMBER
        return JoinResult(ErrorCode.NONE, member.member_id, *chosen, members)

    def _assignment_of(self, member: _Member) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def _refuse_join(self, respond: Callable[[JoinResult], None], error: ErrorCode, member_id: str) -> None:
        self._outbox.append(lambda: respond(JoinResult(error, member_id)))

    def _answer_join(self, member: _Member, result: JoinResult) -> None:
        respond, member.respond_join = member.respond_join, None
        if respond is not None:
            self._outbox.append(lambda: respond(result))

    def _answer_sync(self, member: _Member, result: SyncResult) -> bool:
        respond, member.respond_sync = member.respond_sync, None
        if respond is not None:
            self._outbox.append(lambda: respond(result))
        return respond is not None

    def _send(self) -> None:
        """Send the responses of a change that is complete."""
        while self._outbox:
            self._outbox.popleft()()

    # -- life of the object

    def snapshot(self, assignments: Mapping[str, bytes] | None = None) -> GroupSnapshot:
        """Return the group as it is stored and described, with assignments by member id in place of the present."""
        assert (self.leader is None) == (not self._members), f"{self.group_id} is led by {self.leader}"
        protocol = self.protocol_name
        members = [
            MemberSnapshot(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                one.session_ms,
                one.rebalance_ms,
                dict(one.protocols).get(protocol, b"") if protocol is not None else b"",
                one.assignment if assignments is None else assignments.get(one.member_id, b""),
            )
            for one in self._members.values()
        ]
        kind, since_ms = self.protocol_type or "", self.state_since_ms
        return GroupSnapshot(self.group_id, kind, self.generation, protocol, self.leader, since_ms, members)

    def load(self, stored: GroupSnapshot) -> None:
        """Continue a stored group; its members have to send a heartbeat within their session timeouts."""
        assert self.state == GroupState.EMPTY
        assert not self._members
        self.generation, self.leader = stored.generation, stored.leader
        self.protocol_type, self.protocol_name = stored.protocol_type or None, stored.protocol_name
        if not stored.members and not self.rules.loads_protocol_type:
            self.protocol_type = None
        self.state = GroupState.STABLE if stored.members else GroupState.EMPTY
        self.state_since_ms = stored.state_since_ms
        for one in stored.members:
            protocols = ((stored.protocol_name or "", one.subscription),)
            member = _Member(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                one.session_ms,
                one.rebalance_ms,
                protocols,
                one.assignment,
            )
            self._members[one.member_id] = member
            if one.instance_id is not None:
                self._member_of_instance[one.instance_id] = one.member_id
            self._expect_heartbeat(member)
        if len(self._members) > self.settings.max_members:
            self._prepare_rebalance()

    def unload(self) -> None:
        """End the group here, because another broker coordinates it or it is deleted; answer who waits."""
        if self.state != GroupState.DEAD:
            self._set_state(GroupState.DEAD)
        for timer in (self._join_timer, self._sync_timer, *self._announced.values()):
            if timer is not None:
                timer.cancel()
        self._announced.clear()
        for member in self._members.values():
            member.stop_timer()
            self._answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
            self._answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
        self._send()

    def check(self) -> None:
        """Assert every invariant."""
        static = {one.instance_id: one.member_id for one in self._members.values() if one.instance_id is not None}
        assert static == self._member_of_instance
        assert all(member_id == member.member_id for member_id, member in self._members.items())
        assert not self._announced.keys() & self._members.keys()
        assert self._unsynced.keys() <= self._members.keys()
        if self.state == GroupState.DEAD:
            return
        assert (self.leader is None) == (not self._members)
        assert self.leader is None or self.leader in self._members
        assert (self._join_timer is not None) == (self.state == GroupState.PREPARING_REBALANCE)
        if self.state == GroupState.EMPTY:
            assert not self._members
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert self.protocol_name in self._common_protocols()
            assert all(member.timer is not None or member.waits for member in self._members.values())
