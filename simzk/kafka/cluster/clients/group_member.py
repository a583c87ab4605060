"""A member of a consumer group in virtual time: it joins, commits offsets of its partitions, and leaves or crashes.

Rules of this module (ConsumerCoordinator, AbstractCoordinator):
  - a member that is told its id joins with it; one that the coordinator does not know begins again without;
  - the leader of a generation assigns partition n to the member n modulo their number, in the order of their ids;
  - after each assignment a member fetches the committed offsets of its partitions, and goes on from there;
  - it sends a heartbeat every `gap_us`, and commits the next offsets with some of them, until it is told to join again;
  - by chance it sends a commit and a heartbeat of its last generation once more, as if they had been on their way: they
    must be refused.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.cluster.clients.wire import (
    GROUP_COORDINATOR,
    NOT_COORDINATOR,
    CoordinatorLostError,
    WireClient,
)
from simzk.kafka.observation.client_ledger import NO_OFFSET
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from simzk.kafka.rpc import Disconnected
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.cluster.clients.wire import Ports
    from simzk.kafka.observation.client_ledger import ClientLedger
    from simzk.simulation import Process

PROTOCOL: Final = "modulo"
"""Name of the assignment strategy."""
LATE: Final = 10_000
"""Added to the offsets of a late commit, so that they are no other ones."""
_NO_GENERATION = -1
_MANY_GROUPS = 8
"""First version of OffsetFetch with a list of groups."""
_STABLE = 7
"""First version of OffsetFetch that can ask for stable offsets."""
_NAMES_PROTOCOL = 5
"""First version of SyncGroup with the protocol."""
_MANY_MEMBERS = 3
"""First version of LeaveGroup with a list of members."""
_NUMBER, _SHORT = Struct(">i"), Struct(">h")


class MemberSettings(NamedTuple):
    """Settings of a member.

    Args:
        group: the group.
        topic, partitions: what the group reads.
        gap_us: time between two heartbeats.
        session_ms, rebalance_ms: its timeouts.
        instance_id: its id as a static member; empty for a dynamic one.
        commits_in: it commits offsets with one in so many heartbeats.
    """

    group: str
    topic: str
    partitions: int
    gap_us: int
    session_ms: int = 6_000
    rebalance_ms: int = 10_000
    instance_id: str = ""
    commits_in: int = 2


def encode_subscription(topic: str) -> bytes:
    """Return a subscription as consumers send it, in version 0."""
    return _SHORT.pack(0) + _NUMBER.pack(1) + _text(topic) + _NUMBER.pack(-1)


def encode_assignment(topic: str, numbers: Sequence[int], generation: int) -> bytes:
    """Return an assignment as consumers send it, in version 0, with its generation as the data of the user."""
    data = str(generation).encode()
    listed = _NUMBER.pack(len(numbers)) + b"".join(map(_NUMBER.pack, numbers))
    return _SHORT.pack(0) + _NUMBER.pack(1) + _text(topic) + listed + _NUMBER.pack(len(data)) + data


def decode_assignment(topic: str, assignment: bytes) -> list[int]:
    """Return the partitions of an assignment that `encode_assignment` has made.

    >>> decode_assignment("orders", encode_assignment("orders", [0, 2], generation=3))
    [0, 2]
    """
    at = _SHORT.size + _NUMBER.size + len(_text(topic))
    if not assignment:
        return []
    (length,) = _NUMBER.unpack_from(assignment, at)
    return [_NUMBER.unpack_from(assignment, at + _NUMBER.size * (number + 1))[0] for number in range(length)]


def _text(text: str) -> bytes:
    return _SHORT.pack(len(text)) + text.encode()


class GroupMember(WireClient):
    """A member of a group.

    Attributes:
        settings: its settings.
        member_id: its id; empty before it has one.
        generation: the generation in which it has an assignment; -1 for none.
        positions: the next offset of each partition that it has been assigned.
        joined_us: when it got its present assignment.
        is_fenced: whether another process has taken its instance id.
    """

    def __init__(self, process: Process, ports: Ports, ledger: ClientLedger, settings: MemberSettings) -> None:
        super().__init__(process, ports)
        self.settings: MemberSettings = settings
        self.member_id: str = ""
        self.generation: int = _NO_GENERATION
        self.positions: dict[TopicPartition, int] = {}
        self.joined_us: int = -1
        self.is_fenced: bool = False
        self._ledger = ledger
        self._leaves = False
        self._broker = -1
        self._last: tuple[int, dict[TopicPartition, int]] | None = None  # the last generation, and what it would commit
        process.spawn(self._run(), "group member")

    @property
    def name(self) -> str:
        """Name that it keeps when it restarts: its instance id, or its member id."""
        return self.settings.instance_id or self.member_id

    def leave(self) -> None:
        """Leave the group with the next step, and end."""
        self._leaves = True

    async def _run(self) -> None:
        while not self._leaves and not self.is_fenced:
            try:
                self._broker = await self.coordinator(self.settings.group, GROUP_COORDINATOR)
                while not self._leaves and not self.is_fenced:
                    if self.generation == _NO_GENERATION:
                        await self._join()
                    else:
                        await self._poll()
            except (Disconnected, CoordinatorLostError):
                await self.backoff()
        if self._leaves and self.member_id and not self.settings.instance_id:
            await self._say_goodbye()
        self.kill()

    def _accepts(self, code: int) -> bool:
        """Return whether a request was accepted; note what the error says about the member."""
        if not code:
            return True
        error = ErrorCode(code)
        if error in NOT_COORDINATOR:
            raise CoordinatorLostError(error.name)
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        if self.generation != _NO_GENERATION:
            self._last = self.generation, self.positions
        self.generation, self.positions = _NO_GENERATION, {}
        return False

    async def _join(self) -> None:
        settings = self.settings
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(
            name=PROTOCOL, metadata=encode_subscription(settings.topic)
        )
        request = JoinGroupRequest(
            group_id=settings.group,
            session_timeout_ms=settings.session_ms,
            rebalance_timeout_ms=settings.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id or None,
            protocol_type="consumer",
            protocols=[protocol],
        )
        limit_ms = settings.rebalance_ms + 5_000
        joined = await self.call(self._broker, request, JoinGroupResponse, 9, limit_ms)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return
        if not self._accepts(joined.error_code):
            await self.backoff()
            return
        self.member_id = joined.member_id
        await self._sync(joined)

    async def _sync(self, joined: JoinGroupResponse) -> None:
        settings, generation = self.settings, joined.generation_id
        assignments: dict[str, bytes] = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            members = sorted((one.group_instance_id or "", one.member_id) for one in joined.members)
            for number, (_, member) in enumerate(members):
                numbers = range(number, settings.partitions, len(members))
                assignments[member] = encode_assignment(settings.topic, numbers, generation)
            named = {(instance or member): assignments[member] for instance, member in members}
            self._ledger.on_proposed(settings.group, generation, named)
        one, names_protocol = SyncGroupRequest.SyncGroupRequestAssignment, self.ports.version(14, 5) >= _NAMES_PROTOCOL
        request = SyncGroupRequest(
            group_id=settings.group,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=settings.instance_id or None,
            protocol_type="consumer" if names_protocol else None,
            protocol_name=PROTOCOL if names_protocol else None,
            assignments=[one(member_id=member, assignment=data) for member, data in assignments.items()],
        )
        sent, broker = self._ledger.moment(), self._broker
        synced = await self.call(broker, request, SyncGroupResponse, 5, settings.rebalance_ms + 5_000)
        if not self._accepts(synced.error_code):
            return
        assignment = bytes(synced.assignment)
        self._ledger.on_synced(settings.group, generation, self.name, assignment, broker=broker, sent=sent)
        self.generation, self.joined_us = generation, self.now_us
        mine = [TopicPartition(settings.topic, number) for number in decode_assignment(settings.topic, assignment)]
        await self._fetch(mine)

    async def _fetch(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch the committed offsets of partitions, and go on from there."""
        if not partitions:
            return
        generation, sent = self.generation, self._ledger.moment()
        offsets = await fetch_offsets(self, self._broker, self.settings.group, partitions)
        if offsets is None:
            self._accepts(ErrorCode.REBALANCE_IN_PROGRESS)
            return
        for partition, offset in offsets.items():
            self._ledger.on_fetched(self.settings.group, generation, partition, offset, sent=sent)
            self.positions[partition] = max(offset, 0)

    async def _poll(self) -> None:
        """Wait, send a heartbeat, and by chance commit the next offsets."""
        await self.process.sleep(self.settings.gap_us)
        if self._last is not None and self._last[0] < self.generation and not self.stream.below(2):
            generation, positions = self._last
            if await self._beat(generation) and positions:
                await self._commit(generation, {one: offset + LATE for one, offset in positions.items()})
        self._last = None
        if not self._accepts(await self._beat(self.generation)):
            return
        if self.positions and not self.stream.below(self.settings.commits_in):
            await self._commit_next()

    async def _beat(self, generation: int) -> int:
        """Send a heartbeat; return the error."""
        settings, broker, sent = self.settings, self._broker, self._ledger.moment()
        beat = HeartbeatRequest(
            group_id=settings.group,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=settings.instance_id or None,
        )
        answer = await self.call(broker, beat, HeartbeatResponse, 4)
        if not answer.error_code:
            self._ledger.on_heartbeat(settings.group, generation, self.name, broker=broker, sent=sent)
        return answer.error_code

    async def _commit_next(self) -> None:
        """Commit the next offsets."""
        offsets = {partition: offset + self.stream.between(1, 5) for partition, offset in self.positions.items()}
        self.positions = offsets  # an answer that is lost may belong to offsets that were committed
        self._accepts(await self._commit(self.generation, offsets))

    async def _commit(self, generation: int, offsets: Mapping[TopicPartition, int]) -> int:
        """Commit offsets in a generation; return the first error."""
        settings = self.settings
        part = OffsetCommitRequest.OffsetCommitRequestPartition
        listed = [part(partition_index=one.partition, committed_offset=offset) for one, offset in offsets.items()]
        request = OffsetCommitRequest(
            group_id=settings.group,
            generation_id_or_member_epoch=generation,
            member_id=self.member_id,
            group_instance_id=settings.instance_id or None,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=settings.topic, partitions=listed)],
        )
        for partition, offset in offsets.items():
            self._ledger.on_commit_sent(settings.group, partition, offset)
        sent = self._ledger.moment()
        answer = await self.call(self._broker, request, OffsetCommitResponse, 8)
        for found in answer.topics[0].partitions:
            if found.error_code:
                return found.error_code
            partition = TopicPartition(settings.topic, found.partition_index)
            self._ledger.on_committed(settings.group, generation, partition, offsets[partition], sent=sent)
        return 0

    async def _say_goodbye(self) -> None:
        group, member = self.settings.group, LeaveGroupRequest.MemberIdentity(member_id=self.member_id)
        if self.ports.version(13, 5) >= _MANY_MEMBERS:
            request = LeaveGroupRequest(group_id=group, members=[member])
        else:
            request = LeaveGroupRequest(group_id=group, member_id=self.member_id)
        try:
            await self.call(self._broker, request, LeaveGroupResponse, 5)
        except Disconnected:
            return


async def fetch_offsets(
    client: WireClient, broker: int, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int] | None:
    """Return committed offsets, `NO_OFFSET` where there are none; None if some are not stable yet.

    Raises:
        CoordinatorLostError: the broker is not the coordinator.
        Disconnected: no answer came.
    """
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    version = client.ports.version(9, 9)
    is_many = version >= _MANY_GROUPS
    if is_many:
        many = OffsetFetchRequest.OffsetFetchRequestTopics
        listed = [many(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=listed)
        request = OffsetFetchRequest(groups=[asked], require_stable=True)
    else:
        one = OffsetFetchRequest.OffsetFetchRequestTopic
        named = [one(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
        request = OffsetFetchRequest(group_id=group, topics=named, require_stable=version >= _STABLE)
    answer = await client.call(broker, request, OffsetFetchResponse, 9)
    error = answer.groups[0].error_code if is_many else answer.error_code
    if error in NOT_COORDINATOR:
        raise CoordinatorLostError(ErrorCode(error).name)
    if error:
        return None
    found: dict[TopicPartition, int] = {}
    for topic in answer.groups[0].topics if is_many else answer.topics:
        for part in topic.partitions:
            if part.error_code in NOT_COORDINATOR:
                raise CoordinatorLostError(ErrorCode(part.error_code).name)
            if part.error_code:
                return None
            found[TopicPartition(topic.name, part.partition_index)] = part.committed_offset
    assert all(offset >= NO_OFFSET for offset in found.values()), "an offset is a number, or there is none"
    return found
