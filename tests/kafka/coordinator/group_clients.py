"""Consumers of a group, written from the published protocol, and brokers that coordinate it with one replicated log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.kafka.coordinator.coordinator_log import (
    OFFSETS_TOPIC,
    CoordinatorBatch,
)
from simzk.kafka.coordinator.group import JoinRequest, JoinResult, SyncRequest, SyncResult
from simzk.kafka.coordinator.group_coordinator import GroupCoordinator
from simzk.kafka.coordinator.group_records import NO_LEADER_EPOCH, CommittedOffset
from simzk.kafka.log.batches import ProducerStamp
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.settings import BrokerConfig
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition
from simzk.simulation import Process, Scheduler
from tests.kafka.coordinator.replicated_log import LogOfBroker, ReplicatedLog

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP = "g"
TOPIC = "orders"
PARTITIONS = 5
SESSION_MS, REBALANCE_MS, HEARTBEAT_US = 6_000, 10_000, 1_000_000


class Brokers:
    """Brokers with one partition of `__consumer_offsets`.

    Args:
        version: their release.
        count: how many.

    Attributes:
        log: the log of the partition.
    """

    def __init__(self, version: str = "3.9", count: int = 2, **config: int) -> None:
        profile = kafka_version(version)
        self.scheduler = Scheduler(1)
        self.process = Process(self.scheduler, "brokers")
        self.log = ReplicatedLog(self.process)
        self.topics = {TOPIC}
        self._ids = 0
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.coordinators = [
            GroupCoordinator(
                self.process,
                profile.groups,
                BrokerConfig(profile, settings),
                LogOfBroker(self.log, broker),
                partitions=lambda: 1,
                topic_exists=lambda topic: topic in self.topics,
                watch_topics=lambda _observer: None,
                now_ms=lambda: self.scheduler.now_us // 1000,
                new_id=self._new_id,
            )
            for broker in range(count)
        ]
        self.move(0)

    def _new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    @property
    def coordinator(self) -> GroupCoordinator:
        """The coordinator of the group."""
        return self.coordinators[self.log.leader]

    def move(self, leader: int) -> None:
        """Let another broker lead."""
        self.log.move(leader)
        for coordinator in self.coordinators:
            coordinator.on_leadership(TopicPartition(OFFSETS_TOPIC, 0))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Write the marker of a transaction, as the leader of the log does."""
        marker = ProducerStamp(producer_id, 0, -1, True, "commit" if is_commit else "abort", 0)
        self.log.batches.append(CoordinatorBatch((), marker))
        self.coordinator.end_transaction(TopicPartition(OFFSETS_TOPIC, 0), producer_id, is_commit=is_commit)

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + round(seconds * 1_000_000))

    def check(self) -> None:
        """Assert every invariant."""
        for coordinator in self.coordinators:
            coordinator.check()


@dataclass(eq=False, repr=False)
class Consumer:
    """A consumer that joins, heartbeats and commits, as the consumer protocol asks for.

    Args:
        brokers: the brokers.
        instance_id: for a static member.

    Attributes:
        assigned: its partitions; None while it has none of the present generation.
        generations: the generations that it was in, in this order.
        acknowledged: commits that were successful, by partition.
    """

    brokers: Brokers
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    assigned: tuple[int, ...] | None = None
    generations: list[int] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)
    is_running: bool = True
    _waits: bool = False

    def start(self) -> Consumer:
        """Join, and go on until `stop`."""
        self._tick()
        return self

    def stop(self) -> None:
        """End without a word."""
        self.is_running, self.assigned = False, None

    def leave(self) -> None:
        """End, and say so."""
        self.stop()
        self.brokers.coordinator.leave(GROUP, [(self.member_id, self.instance_id)])

    def commit(self, partition: int, offset: int) -> None:
        """Commit an offset of an assigned partition."""
        committed = CommittedOffset(offset, NO_LEADER_EPOCH, "", 0)
        key = TopicPartition(TOPIC, partition)

        def finish(results: dict[TopicPartition, ErrorCode]) -> None:
            if results[key] == ErrorCode.NONE:
                self.acknowledged[partition] = offset

        member = self.member_id, self.generation, self.instance_id
        self.brokers.coordinator.commit(GROUP, member, {key: committed}, finish)

    def _tick(self) -> None:
        if not self.is_running:
            return
        self.brokers.process.call_later(HEARTBEAT_US, self._tick)
        if self._waits:
            return
        if self.assigned is None:
            self._join()
        else:
            error = self.brokers.coordinator.heartbeat(GROUP, self.member_id, self.generation, self.instance_id)
            self._obey(error)

    def _obey(self, error: ErrorCode) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id, self.assigned = "", None
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.stop()
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.assigned = None

    def _join(self) -> None:
        self._waits, self.assigned = True, None
        subscription = b"\0\0" + (1).to_bytes(4, "big") + len(TOPIC).to_bytes(2, "big") + TOPIC.encode() + b"\xff" * 4
        protocols = (("range", subscription),)
        request = JoinRequest(
            self.member_id,
            self.instance_id,
            "c",
            "/h",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            protocols,
            accepts_id=True,
        )
        self.brokers.coordinator.join(GROUP, request, self._on_joined)

    def _on_joined(self, result: JoinResult) -> None:
        self._waits = False
        if not self.is_running:
            return
        if result.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self._join()
        elif result.error != ErrorCode.NONE:
            self._obey(result.error)
        else:
            self.member_id, self.generation = result.member_id, result.generation
            self.generations.append(result.generation)
            shares: dict[str, bytes] = {}
            names = [member.member_id for member in result.members]
            for place, name in enumerate(names):
                shares[name] = bytes(range(place, PARTITIONS, len(names)))
            self._waits = True
            request = SyncRequest(self.member_id, self.generation, self.instance_id, "consumer", "range", shares)
            self.brokers.coordinator.sync(GROUP, request, self._on_synced)

    def _on_synced(self, result: SyncResult) -> None:
        self._waits = False
        if not self.is_running:
            return
        if result.error == ErrorCode.NONE:
            self.assigned = tuple(result.assignment)
        else:
            self._obey(result.error)


class Member:
    """A member whose requests a test sends one by one.

    Args:
        brokers: the brokers.
        rebalance_ms, session_ms: its timeouts.
        instance_id: for a static member.
        name: is in its subscription.

    Attributes:
        joined, synced: the responses.
    """

    def __init__(
        self,
        brokers: Brokers,
        rebalance_ms: int = 10_000,
        session_ms: int = 60_000,
        instance_id: str | None = None,
        name: str = "",
    ) -> None:
        self.joined: list[JoinResult] = []
        self.synced: list[SyncResult] = []
        self.member_id = ""
        self.name = name
        self._brokers = brokers
        self.rebalance_ms = rebalance_ms
        self.session_ms = session_ms
        self._instance_id = instance_id

    def request(
        self, *, accepts_id: bool = False, skips_assignment: bool = False, protocols: tuple[str, ...] = ("range",)
    ) -> JoinRequest:
        """Return its JoinGroup request."""
        return JoinRequest(
            self.member_id,
            self._instance_id,
            "c",
            "/h",
            self.session_ms,
            self.rebalance_ms,
            "consumer",
            tuple((name, f"{name} of {self.name}".encode()) for name in protocols),
            accepts_id,
            skips_assignment,
        )

    def join(
        self, *, accepts_id: bool = False, skips_assignment: bool = False, protocols: tuple[str, ...] = ("range",)
    ) -> None:
        """Send JoinGroup."""
        request = self.request(accepts_id=accepts_id, skips_assignment=skips_assignment, protocols=protocols)
        self._brokers.coordinator.join(GROUP, request, self._on_joined)

    def _on_joined(self, result: JoinResult) -> None:
        self.joined.append(result)
        self.member_id = result.member_id or self.member_id

    def sync_request(self, generation: int, assignments: Mapping[str, bytes] | None = None) -> SyncRequest:
        """Return its SyncGroup request."""
        return SyncRequest(self.member_id, generation, self._instance_id, None, None, assignments or {})

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        """Send SyncGroup, with the assignments if it leads."""
        request = self.sync_request(self.joined[-1].generation, assignments)
        self._brokers.coordinator.sync(GROUP, request, self.synced.append)

    def beat(self, generation: int | None = None) -> ErrorCode:
        """Send a heartbeat of the last generation that it joined, or of another one."""
        generation = self.joined[-1].generation if generation is None else generation
        return self._brokers.coordinator.heartbeat(GROUP, self.member_id, generation, self._instance_id)

    def leave(self) -> ErrorCode | list[ErrorCode]:
        """Send LeaveGroup."""
        return self._brokers.coordinator.leave(GROUP, [(self.member_id, self._instance_id)])


def joined(brokers: Brokers, count: int) -> list[Member]:
    """Return members of the first generation."""
    members = [Member(brokers) for _ in range(count)]
    for member in members:
        member.join()
    brokers.run_for(7)  # twice the delay of the first rebalance
    assert [member.joined[-1].generation for member in members] == [1] * count
    return members
