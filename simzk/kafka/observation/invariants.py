"""Invariants of the znodes of every Kafka cluster, whatever fails around it (docs/reference/kafka.md §5).

Rules of this module:
  - an invariant is one class in `INVARIANTS`; it reads transactions as ZooKeeper applies them and no state of a broker,
    so that any client could observe a violation;
  - an invariant compares with the previous value, so that each violation is reported once, for the event that
    caused it;
  - no invariant is false of a real cluster of the release. What a release breaks by a known bug of Kafka has `issue`,
    and is counted under that name (`Monitor.known`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from simzk.documents import is_number
from simzk.errors import ZnodeError
from simzk.kafka.topic_partition import NO_LEADER, LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import controller, partition_state, topic
from simzk.zookeeper import transactions as txns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from simzk.kafka.cluster.zookeeper_access import ObservableTree
    from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
    from simzk.simulation import Event

    Assignments = Mapping[int, ReplicaAssignment]

_CONFIGS, _BROKER_CONFIGS = paths.config(""), paths.config("brokers/")
_TOPICS, _BROKERS = f"{paths.TOPICS}/", f"{paths.BROKER_IDS}/"
_REQUESTS = (
    paths.REASSIGN_PARTITIONS,
    paths.PREFERRED_ELECTION,
    f"{paths.DELETE_TOPICS}/",
    f"{paths.ISR_CHANGES}/",
)
_UNCLEAN = re.compile(rb'"unclean\.leader\.election\.enable"\s*:\s*"?true')


@dataclass(slots=True)
class ObservedZnodes:
    """State of a server's znodes that invariants compare with.

    Args:
        server: the server.
        tells_phases: whether a topic's znode tells that a reassignment is in progress (2.4 and newer, KIP-455).
        states: the last valid state of each partition.
        versions: the version of each znode.
        controller_epoch: the present controller epoch; -1 before the first controller.
        controllers: the controller of each controller epoch.
        controller_session: the session that owns `/controller`; 0 if there is none.
        session: the session of the present transaction.
        unclean: the znodes of configurations that have allowed unclean elections.
        topics: the data of each topic's znode.
        undone: former replicas of partitions whose assignment was undone by a write that added partitions.
        former: former replicas of partitions whose reassignment was cancelled or superseded in this leader epoch.
        outdated: former replicas that their leader took into the ISR (a known bug of Kafka).
        leaderless: partitions that have had no leader since a reassignment removed the leader (a known bug of Kafka).
        renamed: topics whose id was lost or replaced by a write (a known bug of Kafka).
        halted: topics whose deletion a new controller has halted because of a reassignment (a known bug of Kafka).
        written_by_former: the leader epoch that a former controller has written to a partition (a known bug of Kafka).
        taken_away: partitions that a former controller has taken out of a topic's znode (a known bug of Kafka).
        assigned_by_former: partitions whose replicas a former controller has written last (a known bug of Kafka).
        brokers: the sessions that have registered brokers.
    """

    server: ObservableTree
    tells_phases: bool = True
    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    controller_epoch: int = -1
    controllers: dict[int, int] = field(default_factory=dict)
    controller_session: int = 0
    session: int = 0
    unclean: dict[str, None] = field(default_factory=dict)
    topics: dict[str, bytes | None] = field(default_factory=dict)
    undone: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    former: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    outdated: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    leaderless: dict[TopicPartition, None] = field(default_factory=dict)
    renamed: dict[str, None] = field(default_factory=dict)
    halted: dict[str, None] = field(default_factory=dict)
    written_by_former: dict[TopicPartition, int] = field(default_factory=dict)
    taken_away: dict[TopicPartition, None] = field(default_factory=dict)
    assigned_by_former: dict[TopicPartition, None] = field(default_factory=dict)
    brokers: dict[int, None] = field(default_factory=dict)
    _decoded: dict[str, tuple[bytes | None, TopicZnode | None]] = field(default_factory=dict)

    @property
    def is_by_another(self) -> bool:
        """Whether another than the broker in `/controller` makes the present transaction."""
        return self.controller_session not in (0, self.session)

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return the replicas that the topic's znode assigns to a partition."""
        path = paths.topic(partition.topic)
        node = self.server.tree.get(path)
        content = None if node is None else self.topic(path, node.data)
        assignment = None if content is None else content.partitions.get(partition.partition)
        return () if assignment is None else assignment.replicas

    def strangers(self, partition: TopicPartition, state: LeaderAndIsr) -> set[int]:
        """Return the brokers that a new state adds to the ISR of a partition without being its replicas.

        A present member of the ISR may be no replica any more: a reassignment writes the topic's znode first.
        """
        before = self.states.get(partition)
        joined = set(state.isr) - set(() if before is None else before.isr)
        return joined - set(self.replicas(partition)) if joined else joined

    def topic(self, path: str, data: bytes | None) -> TopicZnode | None:
        """Return the content of a topic's znode, decoded once; None for invalid data, which an operator wrote."""
        assert _is_topic(path), f"{path} is not the znode of a topic"
        if path not in self._decoded or self._decoded[path][0] != data:
            try:
                content = topic.decode(path, data)
            except ZnodeError:
                content = None
            self._decoded[path] = data, content
        return self._decoded[path][1]

    def assignments(self, name: str) -> Assignments:
        """Return the last valid assignments of a topic; none if it does not exist."""
        path = f"{_TOPICS}{name}"
        content = self.topic(path, self.topics[path]) if path in self.topics else None
        return {} if content is None else content.partitions

    def moving_without_leader(self, name: str) -> list[TopicPartition]:
        """Return the partitions of a topic that are being reassigned and have no leader."""
        assigned = self.assignments(name).items()
        moving = (TopicPartition(name, number) for number, one in assigned if one.being_reassigned)
        return [one for one in moving if one in self.states and self.states[one].leader == NO_LEADER]

    def resume_deletions(self, broker: int) -> None:
        """Forget halted deletions of topics with a replica on a broker that registers: the controller resumes them."""
        for name in list(self.halted):
            if any(broker in one.replicas for one in self.assignments(name).values()):
                del self.halted[name]

    def excuse_only_stranded(self) -> None:
        """Forget leaderless partitions with a replica in the ISR: a new controller elects it when it is alive."""
        for partition in list(self.leaderless):
            if not set(self.states[partition].isr).isdisjoint(self.replicas(partition)):
                del self.leaderless[partition]

    def forget_topic(self, path: str) -> None:
        """Forget a topic whose znode is deleted."""
        if self.topics.pop(path, None) is not None:
            name = path[len(_TOPICS) :]
            self._decoded.pop(path, None)
            self.renamed.pop(name, None)
            self.halted.pop(name, None)
            for marked in (
                self.undone,
                self.former,
                self.outdated,
                self.leaderless,
                self.written_by_former,
                self.taken_away,
                self.assigned_by_former,
            ):
                for partition in [one for one in marked if one.topic == name]:
                    del marked[partition]


class FirstViolation:
    """The violation of an invariant that has not been reported yet.

    Attributes:
        on_violation: called when a violation is noted.
        reads: the kinds of event that `check` reads; it is called at no others before a violation is noted.
    """

    reads: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        assert "check" not in vars(cls) or cls.reads, f"{cls.__name__} checks events, but does not say which it reads"

    def __init__(self) -> None:
        self.on_violation: list[Callable[[], None]] = []
        self._violation = ""

    def violate(self, detail: str) -> None:
        """Note a violation; of several at one event the first is reported."""
        assert detail, "an empty text is no violation"
        self._violation = self._violation or detail
        for observer in self.on_violation:
            observer()

    def check(self, event: Event) -> str | None:
        """Return the violation since the last event, or None."""
        violation, self._violation = self._violation, ""
        return violation or None


class ZnodeInvariant(FirstViolation):
    """An invariant of the znodes.

    A subclass overrides the hooks that it needs and calls `violate`. Each hook is called before `znodes` changes.

    Args:
        znodes: the znodes before the change.

    Attributes:
        name: the condition that holds, in a few words.
        allows_leader_writes: whether the invariant holds for releases whose leaders write ISRs (2.6 and older).
        issue: the bug of Kafka by which the release may violate the invariant; empty for none.
    """

    name: ClassVar[str]
    allows_leader_writes: ClassVar[bool] = True
    issue: str = ""

    def __init__(self, znodes: ObservedZnodes) -> None:
        super().__init__()
        self.znodes = znodes

    def on_version(self, path: str, version: int) -> None:
        """Check the version of a znode that is set."""

    def on_deleted(self, path: str) -> None:
        """Check a znode that is deleted, other than by the end of its session."""

    def on_controller_epoch(self, epoch: int) -> None:
        """Check a new controller epoch."""

    def on_controller(self, broker: int) -> None:
        """Check a new controller, after the controller epoch of the same transaction."""

    def on_assignments(self, name: str, before: Assignments, after: Assignments) -> None:
        """Check new assignments of a topic that exists."""

    def on_topic(self, name: str, topic_id: str | None) -> None:
        """Check a topic whose znode is created or written."""

    def on_topic_id(self, name: str, before: str | None, after: str | None) -> None:
        """Check the id of a topic that exists, in a write of its znode."""

    def on_topic_deleted(self, name: str, topic_id: str | None) -> None:
        """Note a topic whose znode is deleted."""

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """Check a new state of a partition."""

    def on_invalid_state(self, error: ZnodeError) -> None:
        """Check the state of a partition that cannot be parsed."""


class OneController(ZnodeInvariant):
    """Controller epochs rise, and each belongs to one broker."""

    name = "there is one controller to an epoch, and epochs never fall"

    def on_controller_epoch(self, epoch: int) -> None:
        if epoch < self.znodes.controller_epoch:
            self.violate(f"{paths.CONTROLLER_EPOCH} fell from {self.znodes.controller_epoch} to {epoch}")

    def on_controller(self, broker: int) -> None:
        epoch = self.znodes.controller_epoch
        known = self.znodes.controllers.get(epoch, broker)
        if known != broker:
            self.violate(f"brokers {known} and {broker} were both controller of {epoch}")


class EpochsGivenOnce(ZnodeInvariant):
    """Controller epochs rise (before 2.1, where a broker creates `/controller` before it raises the epoch).

    A broker that pauses in between leaves `/controller` to another with the same epoch; its own condition on the
    version of `/controller_epoch` then fails.
    """

    name = "each controller epoch is given once, and epochs never fall"

    def on_controller_epoch(self, epoch: int) -> None:
        if epoch <= self.znodes.controller_epoch:
            self.violate(f"{paths.CONTROLLER_EPOCH} went from {self.znodes.controller_epoch} to {epoch}")


class RaisedByController(ZnodeInvariant):
    """Only the broker in `/controller` raises the controller epoch."""

    name = "only the broker in /controller raises the controller epoch"

    def on_controller_epoch(self, epoch: int) -> None:
        # A starting broker creates the epoch as 0 (2.1 and later).
        if self.znodes.controller_epoch >= 0 and self.znodes.session != self.znodes.controller_session:
            self.violate(f"{paths.CONTROLLER_EPOCH} was raised to {epoch} by a broker that is not in /controller")


class Fenced(ZnodeInvariant):
    """Only the controller of the present epoch writes partition states."""

    name = "only the controller of the present epoch writes states"
    # A leader writes the epoch of the controller that chose it, which another may have followed (§2.8).
    allows_leader_writes = False

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        epoch = self.znodes.controller_epoch
        if state.controller_epoch != epoch:
            self.violate(f"{partition} bears epoch {state.controller_epoch}, the present one is {epoch}")


class WrittenByController(ZnodeInvariant):
    """Only the broker in `/controller` writes new leader epochs, and takes partitions out of a topic's znode.

    Up to 2.0 nothing stops the writes of a controller that another has followed: it ends what it has begun, up to 1.0
    also in its next session (KAFKA-3083). It writes a topic's znode with the partitions that it knows. Brokers do not
    obey it: a leader knows nothing of the state that it wrote, and fails to write the ISR until the next election
    (KAFKA-2729).
    """

    name = "only the broker in /controller writes leader epochs and takes partitions away"

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        before = self.znodes.states.get(partition)
        if before is None or state.leader_epoch == before.leader_epoch:
            return
        self.znodes.written_by_former.pop(partition, None)
        if self.znodes.is_by_another:
            self.znodes.written_by_former[partition] = state.leader_epoch
            self.violate(f"a former controller wrote leader epoch {state.leader_epoch} of {partition}")

    def on_assignments(self, name: str, before: Assignments, after: Assignments) -> None:
        gone = [TopicPartition(name, number) for number in before if number not in after]
        if gone and self.znodes.is_by_another:
            self.znodes.taken_away.update(dict.fromkeys(gone))
            self.violate(f"a former controller took {', '.join(map(str, gone))} out of the topic's znode")


class HandledByController(ZnodeInvariant):
    """Only the broker in `/controller` handles requests by znode, moves replicas, and gives up `/controller`.

    Up to 2.0 nothing stops a controller that another has followed. Up to 0.10.1 it handles what waits behind its
    resignation, and in a new session all that there is (KAFKA-4447): an admin tool sees a request as done that the
    present controller has not read yet. A replica that it assigns is started by the next controller only.
    """

    name = "only the broker in /controller handles requests by znode"

    def on_deleted(self, path: str) -> None:
        if path == paths.CONTROLLER or path.startswith(_REQUESTS):
            self._check(f"{path} was deleted")

    def on_version(self, path: str, version: int) -> None:
        if path.startswith(_REQUESTS):
            self._check(f"{path} was written")

    def on_assignments(self, name: str, before: Assignments, after: Assignments) -> None:
        moved = [TopicPartition(name, number) for number, one in before.items() if after.get(number, one) != one]
        for partition in moved:
            if self._is_by_former_controller:
                self.znodes.assigned_by_former[partition] = None
            else:
                self.znodes.assigned_by_former.pop(partition, None)
        if moved:
            self._check(f"{', '.join(map(str, moved))} got other replicas")

    @property
    def _is_by_former_controller(self) -> bool:
        """Whether a broker does it: tools write requests, too."""
        return self.znodes.is_by_another and self.znodes.session in self.znodes.brokers

    def _check(self, what: str) -> None:
        if self._is_by_former_controller:
            self.violate(f"{what} by a broker that is not in {paths.CONTROLLER}")


class LeaderInIsr(ZnodeInvariant):
    """A leader is in the ISR of its partition."""

    name = "a leader is in its ISR, or there is none"

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        if state.leader != NO_LEADER and state.leader not in state.isr:
            self.violate(f"{partition} is led by {state.leader}, its ISR is {list(state.isr)}")

    def on_invalid_state(self, error: ZnodeError) -> None:
        self.violate(str(error))


class ElectedFromIsr(ZnodeInvariant):
    """A leader is elected from the ISR, unless unclean elections are allowed.

    Args:
        znodes: the znodes before the change.
        unclean_allowed: whether the brokers' own configuration, or a request, has allowed unclean elections.
        issue_of: returns the bug by which a release of the cluster elects uncleanly all the same; empty for none.
    """

    name = "a leader is elected from the ISR, unless unclean elections are allowed"

    def __init__(
        self,
        znodes: ObservedZnodes,
        unclean_allowed: Callable[[], bool] = lambda: False,
        issue_of: Callable[[], str] = lambda: "",
    ) -> None:
        super().__init__(znodes)
        self._unclean_allowed = unclean_allowed
        self._issue_of = issue_of

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        before = self.znodes.states.get(partition)
        if before is None or state.leader in (NO_LEADER, before.leader, *before.isr):
            return
        own = paths.config(f"topics/{partition.topic}")
        by_znode = any(path == own or path.startswith(_BROKER_CONFIGS) for path in self.znodes.unclean)
        if not by_znode and not self._unclean_allowed():
            self.issue = self._issue_of()  # a broker may have been restarted with another release
            self.violate(f"{partition} elected {state.leader}, its ISR was {list(before.isr)}")


class OnlyReplicasJoin(ZnodeInvariant):
    """Only replicas are added to an ISR.

    A controller of 0.8.0 writes the topic's znode at the end of a reassignment, when the new replicas have long joined.
    """

    name = "only replicas join an ISR"

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        if partition in self.znodes.taken_away:
            return
        strangers = self.znodes.strangers(partition, state) - self.znodes.undone.get(partition, frozenset())
        strangers -= self.znodes.former.get(partition, frozenset())
        if strangers:
            self.violate(f"{partition} took {sorted(strangers)} into its ISR, who hold no replica of it")


class IsrKept(OnlyReplicasJoin):
    """An ISR has members, and only replicas are added to it."""

    name = "an ISR is never empty, and only replicas join it"

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        if not state.isr:
            self.violate(f"{partition} has an empty ISR")
        super().on_state(partition, state)


class LeaderKnowsReplicas(ZnodeInvariant):
    """A leader adds no replica that the end of a reassignment has taken away.

    A controller writes the topic's znode first and then tells the leader, with the next leader epoch. Until then the
    leader adds the replicas that it knows to the ISR, and neither it nor the controller compares them with the topic's
    znode (Partition.expandIsr, KafkaController.processAlterPartition). A controller that dies in between leaves the
    leader as it is: the next one sends it the old leader epoch, which it ignores. Up to 2.3 a controller that takes the
    leader for dead completes a reassignment without telling it (§5, #59).
    """

    name = "a leader adds no replica that a reassignment has removed"
    issue = "leader of a former assignment"

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        if added := self.znodes.strangers(partition, state) & self.znodes.former.get(partition, frozenset()):
            self.znodes.outdated[partition] = self.znodes.outdated.get(partition, frozenset()) | added
            self.violate(f"{partition} took {sorted(added)} into its ISR, who are replicas no more")


class AdditionsKeepAssignments(ZnodeInvariant):
    """A write that adds partitions to a topic leaves the assignments of its other partitions as they are.

    Every release violates this. A broker that adds partitions reads the topic's znode, and then writes the whole of it
    without a condition on its version, while the controller may begin or end a reassignment. KAFKA-9038 has a check
    before the read, which makes this rarer (ZkAdminManager.createPartitions).
    """

    name = "added partitions leave the other assignments of a topic as they are"
    issue = "KAFKA-9038"

    def on_assignments(self, name: str, before: Assignments, after: Assignments) -> None:
        for number, was in undone_by_addition(before, after).items():
            self.violate(f"{name}-{number} went from {was.to_text()} back to {after[number].to_text()}")


class ReassignmentKeepsLeader(ZnodeInvariant):
    """A reassignment that supersedes another one keeps the leader, and a replica that may become one.

    The controller of 2.4 and later checks neither, and stops the replicas that are not needed any more. The partition
    then has no leader until another replica is elected, at the next failover of the controller or, if no member of the
    ISR is a replica, by an unclean election (KafkaController.updateCurrentReassignment).
    """

    name = "a reassignment that supersedes another one keeps the leader"
    issue = "KAFKA-14808"
    cancels: ClassVar[bool] = False

    def on_assignments(self, name: str, before: Assignments, after: Assignments) -> None:
        undone = undone_by_addition(before, after)
        for number, was in before.items():
            partition, now = TopicPartition(name, number), after.get(number, was)
            state = self.znodes.states.get(partition)
            if state is None or now == was or number in undone or now.being_reassigned == self.cancels:
                continue
            removed = frozenset(was.replicas) - frozenset(now.replicas)
            if state.leader in removed or (removed & set(state.isr) and set(state.isr).isdisjoint(now.replicas)):
                self.znodes.leaderless[partition] = None
                what = f"{partition} with leader {state.leader} and ISR {list(state.isr)}"
                self.violate(f"{what} went from {was.to_text()} to {now.to_text()}")


class CancellationKeepsLeader(ReassignmentKeepsLeader):
    """The cancellation of a reassignment keeps the leader, and a replica that may become one."""

    name = "the cancellation of a reassignment keeps the leader"
    issue = "KAFKA-14424"
    cancels = True


class TopicKeepsId(ZnodeInvariant):
    """A write of a topic's znode keeps the topic's id.

    Tools and brokers before 2.8 write the znode without it. The next controller of 2.8 or later gives the topic a new
    id, and brokers refuse it for the logs that they have: INCONSISTENT_TOPIC_ID, until these are deleted (KAFKA-14190).
    """

    name = "a write of a topic keeps its id"
    issue = "KAFKA-14190"
    of_controllers: ClassVar[bool] = False

    def on_topic_id(self, name: str, before: str | None, after: str | None) -> None:
        is_of_controller = self.znodes.session == self.znodes.controller_session
        if before is not None and after != before and is_of_controller == self.of_controllers:
            self.znodes.renamed[name] = None
            self.violate(f"{name} went from id {before} to {'none' if after is None else after}")


class ControllerKeepsTopicId(TopicKeepsId):
    """A controller's write of a topic's znode keeps the topic's id.

    Controllers before 2.8 do not know the id, and those of 2.8.0 drop it at a protocol before 2.8.

    Args:
        znodes: the znodes before the change.
        issue_of: returns the bug by which a release of the cluster drops ids; empty for none.
    """

    name = "a controller's write of a topic keeps its id"
    of_controllers = True

    def __init__(self, znodes: ObservedZnodes, issue_of: Callable[[], str] = lambda: "") -> None:
        super().__init__(znodes)
        self._issue_of = issue_of

    def on_topic_id(self, name: str, before: str | None, after: str | None) -> None:
        self.issue = self._issue_of()  # a broker may have been restarted with another release
        super().on_topic_id(name, before, after)


class DeletionGoesOn(ZnodeInvariant):
    """A new controller goes on with the deletion of a topic.

    Every release halts it while a partition of the topic is being reassigned (fetchTopicDeletionsInProgress), and
    elects no leader for a topic that is to be deleted (triggerOnlineStateChangeForPartitions). A deletion that has
    begun has taken the leaders, so that the reassignment never ends. The start of a broker with a replica resumes it.
    """

    name = "a new controller goes on with the deletion of a topic"
    issue = "deletion halted by a reassignment"

    def on_controller(self, broker: int) -> None:
        requests = self.znodes.server.tree.get(paths.DELETE_TOPICS)
        for name in () if requests is None else sorted(requests.child_names()):
            moving = self.znodes.moving_without_leader(name)
            if moving:
                self.znodes.halted[name] = None
                self.violate(f"the deletion of {name} waits for the reassignment of {moving[0]}, which has no leader")


class EpochsRise(ZnodeInvariant):
    """Leader epochs never fall, and rise with every change of the leader."""

    name = "leader epochs never fall, and rise with every change of leader"

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        before = self.znodes.states.get(partition)
        if before is None:
            return
        rise = state.leader_epoch - before.leader_epoch
        if rise < 0:
            self.violate(f"{partition} fell from epoch {before.leader_epoch} to {state.leader_epoch}")
        elif rise == 0 and state.leader != before.leader:
            self.violate(f"{partition} went to leader {state.leader} within epoch {state.leader_epoch}")


class DeletedStaysDeleted(ZnodeInvariant):
    """A topic that was deleted comes back only as another one: with another id, and partitions of leader epoch 0."""

    name = "a deleted topic comes back only if it is created again"

    def __init__(self, znodes: ObservedZnodes) -> None:
        super().__init__(znodes)
        self._deleted_ids: dict[str, str] = {}
        self._deleted: dict[str, None] = {}

    def on_topic(self, name: str, topic_id: str | None) -> None:
        if topic_id is not None and topic_id in self._deleted_ids:
            self.violate(f"{name} has id {topic_id} of topic {self._deleted_ids[topic_id]}, which was deleted")

    def on_topic_deleted(self, name: str, topic_id: str | None) -> None:
        self._deleted[name] = None
        if topic_id is not None:
            self._deleted_ids[topic_id] = name

    def on_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        is_first = partition not in self.znodes.states
        if is_first and state.leader_epoch > 0 and partition.topic in self._deleted:
            self.violate(f"{partition} of a deleted topic begins again with leader epoch {state.leader_epoch}")


class VersionsRise(ZnodeInvariant):
    """The version of a znode rises with every write."""

    name = "the version of a znode only grows"

    def on_version(self, path: str, version: int) -> None:
        before = self.znodes.versions.get(path, -1)
        if version <= before:
            self.violate(f"{path} went from version {before} to {version}")


INVARIANTS: tuple[type[ZnodeInvariant], ...] = (
    OneController,
    RaisedByController,
    Fenced,
    WrittenByController,
    HandledByController,
    LeaderInIsr,
    ElectedFromIsr,
    IsrKept,
    LeaderKnowsReplicas,
    AdditionsKeepAssignments,
    ReassignmentKeepsLeader,
    CancellationKeepsLeader,
    TopicKeepsId,
    ControllerKeepsTopicId,
    DeletionGoesOn,
    EpochsRise,
    DeletedStaysDeleted,
    VersionsRise,
)
"""All invariants of znodes."""


def undone_by_addition(before: Assignments, after: Assignments) -> dict[int, ReplicaAssignment]:
    """Return the former assignments that a write of a topic's znode changed although it added partitions.

    >>> one, two = ReplicaAssignment((1,)), ReplicaAssignment((2,))
    >>> undone_by_addition({0: one, 1: one}, {0: one, 1: two, 2: two})
    {1: ReplicaAssignment(replicas=(1,), adding=(), removing=())}
    >>> undone_by_addition({0: one, 1: one}, {0: one, 1: two})
    {}
    """
    if after.keys() <= before.keys():
        return {}
    return {number: was for number, was in before.items() if number in after and after[number] != was}


def dropped_replicas(before: ReplicaAssignment, after: ReplicaAssignment, tells_phases: bool) -> frozenset[int]:
    """Return the replicas that a write removes before the leader gets the new state.

    These are the writes that cancel or supersede a reassignment. Up to 2.3, where the znode does not tell them apart,
    it is every write: the controller tells a live leader first, and writes although the leader is dead.

    >>> moving = ReplicaAssignment((3, 1, 2), adding=(3,), removing=(2,))
    >>> dropped_replicas(moving, ReplicaAssignment((1, 2)), tells_phases=True)
    frozenset({3})
    >>> dropped_replicas(moving, ReplicaAssignment((3, 1)), tells_phases=True)  # it is complete
    frozenset()
    """
    if tells_phases and (not before.being_reassigned or set(after.replicas) == set(before.target)):
        return frozenset()
    return frozenset(before.replicas) - frozenset(after.replicas)


class _TransactionReader:
    """Reader of a server's transactions, which calls the hooks of invariants and then updates the observed znodes."""

    def __init__(self, znodes: ObservedZnodes, invariants: Sequence[ZnodeInvariant]) -> None:
        assert all(one.znodes is znodes for one in invariants), "an invariant sees the znodes before each change"
        self._znodes = znodes
        self._invariants = invariants
        self._zxid = -1
        for path, node in znodes.server.tree.walk():
            self._load(path, node.data, node.version)
            if path.startswith(_BROKERS) and node.ephemeral_owner:
                znodes.brokers[node.ephemeral_owner] = None
        if (elected := znodes.server.tree.get(paths.CONTROLLER)) is not None:  # its epoch may be loaded after it
            znodes.controller_session = elected.ephemeral_owner
            znodes.controllers[znodes.controller_epoch] = _controller_id(elected.data)
        # Before the other observers: one of them records the event that is reported with the violation.
        znodes.server.on_transaction.insert(0, self._read)

    def _load(self, path: str, data: bytes | None, version: int) -> None:
        """Store a znode that exists at the start, without a check."""
        if (partition := paths.state_partition(path)) is not None:
            self._znodes.states[partition] = partition_state.decode(path, data, version)
        elif path == paths.CONTROLLER_EPOCH:
            self._znodes.controller_epoch = _number(data)
        elif _is_topic(path):
            self._znodes.topics[path] = data
        self._note_unclean(path, data)
        self._znodes.versions[path] = version

    def _read(self, transaction: txns.Transaction) -> None:
        assert transaction.zxid > self._zxid, "each transaction is read once, in order"
        self._zxid = transaction.zxid
        controllers: list[int] = []
        self._znodes.session = transaction.session_id
        for record in _leaves(transaction.record):
            match record:
                case txns.CreateTxn(path=path, data=data) | txns.Create2Txn(path=path, data=data):
                    self._znodes.versions[path] = 0
                    self._read_data(path, data, 0)
                    if path == paths.CONTROLLER:
                        controllers.append(_controller_id(data))
                        self._znodes.controller_session = transaction.session_id
                    elif path.startswith(_BROKERS) and is_number(name := path[len(_BROKERS) :]):
                        self._znodes.brokers[transaction.session_id] = None
                        self._znodes.resume_deletions(int(name))
                case txns.SetDataTxn(path=path, data=data, version=version):
                    for invariant in self._invariants:
                        invariant.on_version(path, version)
                    self._znodes.versions[path] = version
                    self._read_data(path, data, version)
                case txns.DeleteTxn(path=path):
                    for invariant in self._invariants:
                        invariant.on_deleted(path)
                    self._forget(path)
                case txns.CloseSessionTxn(paths=deleted):
                    for path in deleted:
                        self._forget(path)
        # The multi that creates /controller raises the epoch after it, so the controller is checked at the end.
        for broker in controllers:
            for invariant in self._invariants:
                invariant.on_controller(broker)
            self._znodes.controllers.setdefault(self._znodes.controller_epoch, broker)

    def _forget(self, path: str) -> None:
        self._znodes.versions.pop(path, None)
        if path == paths.CONTROLLER:
            self._znodes.controller_session = 0
        if path in self._znodes.topics:
            content = self._znodes.topic(path, self._znodes.topics[path])
            for invariant in self._invariants:
                invariant.on_topic_deleted(path[len(_TOPICS) :], None if content is None else content.topic_id)
        self._znodes.forget_topic(path)
        if (partition := paths.state_partition(path)) is not None:
            self._znodes.states.pop(partition, None)

    def _read_data(self, path: str, data: bytes | None, version: int) -> None:
        if (partition := paths.state_partition(path)) is not None:
            self._read_state(partition, path, data, version)
        elif path == paths.CONTROLLER_EPOCH:
            epoch = _number(data)
            for invariant in self._invariants:
                invariant.on_controller_epoch(epoch)
            self._znodes.controller_epoch = epoch
            self._znodes.excuse_only_stranded()
        elif _is_topic(path):
            self._read_topic(path, data)
        self._note_unclean(path, data)

    def _read_topic(self, path: str, data: bytes | None) -> None:
        """Compare the content of a topic's znode with that before; invalid data have no id and no assignments."""
        znodes, name = self._znodes, path[len(_TOPICS) :]
        former = znodes.topic(path, znodes.topics[path]) if path in znodes.topics else None
        content = znodes.topic(path, data)
        topic_id = None if content is None else content.topic_id
        for invariant in self._invariants:
            invariant.on_topic(name, topic_id)
        if former is not None and content is not None and former.partitions:
            before, after = former.partitions, content.partitions
            for invariant in self._invariants:
                invariant.on_topic_id(name, former.topic_id, topic_id)
                invariant.on_assignments(name, before, after)
            undone = undone_by_addition(before, after)
            for number in before:
                partition = TopicPartition(name, number)
                if number in undone:
                    znodes.undone[partition] = frozenset(undone[number].replicas)
                elif after.get(number) != before[number]:
                    znodes.undone.pop(partition, None)
                    dropped = dropped_replicas(before[number], after.get(number, before[number]), znodes.tells_phases)
                    if dropped:
                        znodes.former[partition] = znodes.former.get(partition, frozenset()) | dropped
        znodes.topics[path] = data

    def _note_unclean(self, path: str, data: bytes | None) -> None:
        """Note a configuration that allows unclean elections, also for the time after it is changed again."""
        if path.startswith(_CONFIGS) and data is not None and _UNCLEAN.search(data):
            self._znodes.unclean[path] = None

    def _read_state(self, partition: TopicPartition, path: str, data: bytes | None, version: int) -> None:
        try:
            state = partition_state.decode(path, data, version)
        except ZnodeError as error:
            for invariant in self._invariants:
                invariant.on_invalid_state(error)
            return
        for invariant in self._invariants:
            invariant.on_state(partition, state)
        former = self._znodes.states.get(partition)
        if former is not None and state.leader_epoch > former.leader_epoch:
            self._znodes.former.pop(partition, None)
        self._znodes.states[partition] = state
        if partition in self._znodes.leaderless and state.leader in self._znodes.replicas(partition):
            del self._znodes.leaderless[partition]


def leaderless_by_known_bug(invariants: Iterable[object]) -> frozenset[TopicPartition]:
    """Return the partitions without a leader because a reassignment removed it, or every replica in the ISR.

    See `ReassignmentKeepsLeader`, `LeaderKnowsReplicas` and `AdditionsKeepAssignments`: a broker that joined the ISR
    in a reassignment that was undone is elected no more.
    """
    found: set[TopicPartition] = set()
    for znodes in [one.znodes for one in invariants if isinstance(one, LeaderKnowsReplicas)]:
        states = znodes.states
        found.update(znodes.leaderless)
        found.update(p for p, added in znodes.outdated.items() if p in states and added.issuperset(states[p].isr))
        found.update(
            partition
            for partition, before in znodes.undone.items()
            if partition in states
            and states[partition].isr
            and set(states[partition].isr) <= before - set(znodes.replicas(partition))
        )
    return frozenset(found)


def halted_by_known_bug(invariants: Iterable[object]) -> frozenset[str]:
    """Return the topics whose deletion waits for a reassignment that cannot end; see `DeletionGoesOn`."""
    found = [one.znodes for one in invariants if isinstance(one, DeletionGoesOn)]
    return frozenset(name for znodes in found for name in znodes.halted if znodes.moving_without_leader(name))


def renamed_by_known_bug(invariants: Iterable[object]) -> frozenset[str]:
    """Return the topics whose id was lost or replaced; see `TopicKeepsId`."""
    return frozenset(name for one in invariants if isinstance(one, TopicKeepsId) for name in one.znodes.renamed)


def is_written_by_former_controller(invariants: Iterable[object], partition: TopicPartition, leader_epoch: int) -> bool:
    """Return whether a former controller wrote a leader epoch or the replicas, or took the partition away.

    See `WrittenByController` and `HandledByController`.
    """
    found = [one.znodes for one in invariants if isinstance(one, WrittenByController)]
    return any(
        one.written_by_former.get(partition) == leader_epoch
        or partition in one.taken_away
        or partition in one.assigned_by_former
        for one in found
    )


def invariants_of(
    server: ObservableTree,
    *,
    leaders_write: bool = False,
    empties_isr: bool = False,
    elects_in_steps: bool = False,
    former_controllers_issue: str = "",
    resigned_controllers_issue: str = "",
    assigns_last: bool = False,
    supersedes_reassignments: bool = False,
    unclean_allowed: Callable[[], bool] = lambda: False,
    unclean_issue: Callable[[], str] = lambda: "",
    topic_id_issue: Callable[[], str] = lambda: "",
) -> tuple[ZnodeInvariant, ...]:
    """Return the invariants of a Kafka cluster's znodes, which read the server's transactions from now on.

    Args:
        server: the cluster's ZooKeeper; its present znodes are taken as valid.
        leaders_write: whether leaders write ISRs (2.6 and older), with the epoch of the controller that chose them,
            which another may have followed (§2.8); invariants that do not hold then are left out.
        empties_isr: whether a controller removes the last member of an ISR and writes `[]` (1.0 and older, §2.6).
        elects_in_steps: whether a controller creates `/controller` before it raises the epoch (2.0 and older, §2.2).
        former_controllers_issue: the bug by which a former controller goes on writing; empty for none.
        resigned_controllers_issue: the bug by which a former controller handles requests; empty for none.
        assigns_last: whether the end of a reassignment alone is written to the topic's znode (0.8.0, §2.11).
        supersedes_reassignments: whether a request can replace or cancel a reassignment (2.4 and newer, KIP-455).
        unclean_allowed: whether something other than a znode has allowed unclean elections.
        unclean_issue: returns the bug by which a controller elects uncleanly all the same; empty for none.
        topic_id_issue: returns the bug by which controllers drop the ids of topics; empty for none.
    """
    znodes = ObservedZnodes(server, supersedes_reassignments)
    kinds: dict[type[ZnodeInvariant], Callable[[ObservedZnodes], ZnodeInvariant]] = {kind: kind for kind in INVARIANTS}
    kinds[ElectedFromIsr] = partial(ElectedFromIsr, unclean_allowed=unclean_allowed, issue_of=unclean_issue)
    kinds[ControllerKeepsTopicId] = partial(ControllerKeepsTopicId, issue_of=topic_id_issue)
    if not supersedes_reassignments:
        del kinds[ReassignmentKeepsLeader], kinds[CancellationKeepsLeader], kinds[DeletionGoesOn]
    if not former_controllers_issue:
        del kinds[WrittenByController]
    if empties_isr:
        kinds[IsrKept] = OnlyReplicasJoin
    if elects_in_steps:
        kinds[OneController] = EpochsGivenOnce
    if leaders_write:
        kinds = {kind: make for kind, make in kinds.items() if kind.allows_leader_writes}
    invariants = tuple(make(znodes) for make in kinds.values())
    for invariant in invariants:
        if elects_in_steps and isinstance(invariant, RaisedByController):
            invariant.issue = "KAFKA-6082"
        if isinstance(invariant, WrittenByController):
            invariant.issue = former_controllers_issue
        if isinstance(invariant, HandledByController):
            invariant.issue = resigned_controllers_issue
        if assigns_last and isinstance(invariant, OnlyReplicasJoin):
            invariant.issue = "assignment written last"
    assert len({one.name for one in invariants}) == len(invariants), "violations are counted by name"
    _TransactionReader(znodes, invariants)
    return invariants


def _is_topic(path: str) -> bool:
    return path.startswith(_TOPICS) and path.rfind("/") < len(_TOPICS)


def _leaves(record: txns.Record) -> Iterator[object]:
    if not isinstance(record, txns.MultiTxn):
        yield record
    elif not record.failed:
        yield from record.records


def _decoded(decode: Callable[[str, bytes | None], int], path: str, data: bytes | None) -> int:
    """Decode a number; -1 for data that an operator wrote and that are invalid."""
    try:
        return decode(path, data)
    except ZnodeError:
        return -1


_number = partial(_decoded, controller.decode_epoch, paths.CONTROLLER_EPOCH)
_controller_id = partial(_decoded, controller.decode, paths.CONTROLLER)
