"""Agreement of brokers with ZooKeeper: what each live broker believes, once a cluster has recovered from its faults.

Rules of this module:
  - during faults a belief may be as old as the last request that arrived. After them, and within a bound, each live
    broker believes what the znodes say;
  - topics that are being deleted do not count: their deletion may wait for a broker;
  - a broker that registers again without a restart keeps the topics in its cache that were deleted while it was not
    registered: only the request that deletes them names them (KafkaController.onBrokerStartup sends the partitions that
    exist, ZkMetadataCache.updateMetadata adds them to those that it has). So does one that was not told of a deletion
    before the controller changed (`beliefs.DeletionsAnnounced`);
  - up to 2.1 a controller misses restarts (KAFKA-7235): a broker that restarted unnoticed has only what was sent since.
    It may lack states, but those that it has are the written ones;
  - up to 0.8.2 a controller is not notified of ISRs that leaders write, and reads them only to change the state
    (KAFKA-1367, /isr_change_notification of 0.9). So a metadata cache has the ISR that the controller last sent. One of
    0.8.0 sends the state without a dead replica, with the next leader epoch, to the leader alone: the epoch of a
    follower may be older;
  - an agreement is one class in `AGREEMENTS`. None is false of a real cluster.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from simzk.errors import ZnodeError
from simzk.kafka.topic_partition import LeaderAndIsr, PartitionAndReplica, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.controller.states import ReplicaState
from simzk.kafka.zookeeper_mode.schemas import partition_state, topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simzk.kafka.broker.replica_logs import ReplicaLogs
    from simzk.kafka.cluster.zookeeper_access import KafkaTree
    from simzk.kafka.metadata.cache import MetadataCache
    from simzk.kafka.zookeeper_mode.client.session import ZooKeeperSession
    from simzk.kafka.zookeeper_mode.controller.context import ControllerContext
    from simzk.simulation import History


class Believer(Protocol):
    """A broker, as far as its beliefs are read."""

    id: int
    metadata: MetadataCache
    replicas: ReplicaLogs
    session: ZooKeeperSession


@dataclass(frozen=True, slots=True)
class WrittenState:
    """State of the cluster in the znodes.

    Args:
        controller: the broker in `/controller`; None without one.
        brokers: ids of the registered brokers, ascending.
        partitions: assignment and state of each partition, without topics that are being deleted.
        deleted: topics that are being deleted.
        missed: topics whose deletion a broker was not told of, by broker.
        excused: partitions that are not compared.
        unnoticed: brokers whose restart the controller did not notice; what they lack is not compared.
        isrs_are_announced: whether all leaders announce the ISRs that they write, so that metadata caches have them.
        dead_stay_cached: whether metadata caches keep the brokers that were live once (KAFKA-1549).
        followers_miss_epochs: whether followers are not sent the leader epoch with which a dead replica left the ISR.
    """

    controller: int | None
    brokers: Sequence[int]
    partitions: Mapping[TopicPartition, tuple[ReplicaAssignment, LeaderAndIsr]]
    deleted: frozenset[str]
    missed: Mapping[int, frozenset[str]] = field(default_factory=dict)
    excused: frozenset[TopicPartition] = frozenset()
    unnoticed: frozenset[int] = frozenset()
    isrs_are_announced: bool = True
    dead_stay_cached: bool = False
    followers_miss_epochs: bool = False

    def without(
        self, topics: frozenset[str] = frozenset(), partitions: frozenset[TopicPartition] = frozenset()
    ) -> WrittenState:
        """Return the same without topics that do not count, as if they were being deleted, and without partitions."""
        assert self.deleted.isdisjoint(one.topic for one in self.partitions), "topics in deletion are not compared"
        kept = {one: said for one, said in self.partitions.items() if one.topic not in topics and one not in partitions}
        return replace(self, partitions=kept, deleted=self.deleted | topics, excused=self.excused | partitions)


def read_written(tree: KafkaTree, controller: int | None, brokers: Sequence[int]) -> WrittenState:
    """Read the state of all partitions from the znodes; invalid znodes count as missing.

    Args:
        tree: the znodes.
        controller, brokers: the controller and the registered brokers.
    """
    assert list(brokers) == sorted(brokers), "ids are ascending"
    requests, topics = tree.get(paths.DELETE_TOPICS), tree.get(paths.TOPICS)
    deleted = frozenset(() if requests is None else requests.child_names())
    found: dict[TopicPartition, tuple[ReplicaAssignment, LeaderAndIsr]] = {}
    for name in sorted(() if topics is None else topics.child_names()):
        node = tree.get(paths.topic(name))
        with suppress(ZnodeError):
            assignments = {} if node is None else topic.decode(paths.topic(name), node.data).partitions
            for number, assignment in () if name in deleted else assignments.items():
                key = TopicPartition(name, number)
                if (state := tree.get(paths.state(key))) is not None:
                    found[key] = assignment, partition_state.decode(paths.state(key), state.data, state.version)
    return WrittenState(controller, brokers, found, deleted)


class MissedDeletions:
    """The topics that were deleted between the last start and the last registration of each broker.

    Args:
        history: the events of a run, in order, each of which is read once.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._read = 0
        self._deleted: list[str] = []
        self._starts: dict[str, int] = {}
        self._missed: dict[int, frozenset[str]] = {}

    def by_broker(self) -> dict[int, frozenset[str]]:
        """Return the topics by broker, after all events so far."""
        begin, self._read = self._read, len(self._history)
        for place in range(begin, self._read):
            event = self._history[place]
            if event.what == "topic deleted":
                self._deleted.append(event.subject)
            elif event.what == "started":
                self._starts[event.who] = len(self._deleted)
            elif event.what == "registered" and event.who.startswith("broker "):
                deleted = frozenset(self._deleted[self._starts.get(event.who, 0) :])
                self._missed[int(event.who.removeprefix("broker "))] = deleted
        return self._missed


class Agreement:
    """A belief that equals the znodes.

    Attributes:
        name: the condition that holds, in a few words.
    """

    name: ClassVar[str]

    @staticmethod
    def differences(broker: Believer, written: WrittenState) -> Iterator[str]:
        """Yield a sentence for each difference between a broker's belief and the znodes."""
        raise NotImplementedError


class SameController(Agreement):
    """The metadata cache names the broker in `/controller`."""

    name = "brokers agree on the controller"

    @staticmethod
    def differences(broker: Believer, written: WrittenState) -> Iterator[str]:
        known = broker.metadata.controller_id
        if known != written.controller and not (known is None and broker.id in written.unnoticed):
            yield f"broker {broker.id} takes {known} for the controller"


class SameBrokers(Agreement):
    """The metadata cache has the registered brokers and, from 0.8.2 on, no others (KAFKA-1549)."""

    name = "brokers agree on the live brokers"

    @staticmethod
    def differences(broker: Believer, written: WrittenState) -> Iterator[str]:
        known = broker.metadata.live_brokers
        lacks_all = not known and broker.id in written.unnoticed
        has_more = written.dead_stay_cached and known.keys() >= set(written.brokers)
        if sorted(known) != list(written.brokers) and not lacks_all and not has_more:
            yield f"broker {broker.id} takes {sorted(known)} for the live brokers"


class SameCachedStates(Agreement):
    """The metadata cache has leader, leader epoch and ISR of every partition, and no partition that does not exist.

    A partition that was deleted while the broker was not registered does not count. The ISR is compared from 0.9 on.
    """

    name = "metadata caches have the leaders and ISRs that are written"

    @staticmethod
    def differences(broker: Believer, written: WrittenState) -> Iterator[str]:
        cached, gone = broker.metadata.partitions, written.deleted | written.missed.get(broker.id, frozenset())
        for partition, (_, state) in written.partitions.items():
            known = cached.get(partition)
            if known is None and broker.id in written.unnoticed:
                continue
            if known is not None and not written.isrs_are_announced:
                known = known._replace(isr=state.isr)
            yield from _state_differences(f"the cache of broker {broker.id}", partition, known, state)
        for partition in [one for one in cached if one not in written.excused]:
            if partition not in written.partitions and partition.topic not in gone:
                yield f"the cache of broker {broker.id} has {partition}, which does not exist"


class SameReplicas(Agreement):
    """Each replica has the leader and leader epoch that are written, and a leader its ISR.

    A follower of 0.8.0 may have an older epoch of the same leader. Without a live leader no replica accepts the epoch
    that is written (ReplicaManager.makeFollowers: "the new leader is unavailable").
    """

    name = "replicas have the leaders and ISRs that are written"

    @staticmethod
    def differences(broker: Believer, written: WrittenState) -> Iterator[str]:
        for partition, (assignment, state) in written.partitions.items():
            if broker.id in assignment.replicas:
                replica = broker.replicas.replicas.get(partition)
                known = None if replica is None else replica.state
                if known is None and broker.id in written.unnoticed:
                    continue
                if known is not None and state.leader not in written.brokers:
                    continue
                if known is not None and broker.id != state.leader:
                    known = known._replace(isr=state.isr)  # a follower is not told of later ISRs
                    if written.followers_miss_epochs and known.leader_epoch < state.leader_epoch:
                        known = known._replace(leader_epoch=state.leader_epoch)
                yield from _state_differences(f"broker {broker.id}", partition, known, state)


class SameWatches(Agreement):
    """ZooKeeper has those watches for a broker that it expects events of, and no others."""

    name = "brokers and ZooKeeper have the same watches"

    @staticmethod
    def differences(broker: Believer, written: WrittenState) -> Iterator[str]:
        for difference in broker.session.watch_differences():
            yield f"broker {broker.id}: {difference}"


AGREEMENTS: tuple[type[Agreement], ...] = (SameController, SameBrokers, SameCachedStates, SameReplicas, SameWatches)
"""All agreements of brokers with ZooKeeper."""


def controller_differences(context: ControllerContext, written: WrittenState) -> Iterator[str]:
    """Yield a sentence for each difference between the controller's memory and the znodes, when nothing is to be done.

    All brokers run with all their directories, so every replica is online.
    """
    if sorted(context.brokers) != list(written.brokers):
        yield f"the controller takes {sorted(context.brokers)} for the live brokers"
    for what, left in (
        ("brokers that shut down", context.shutting_down),
        (
            "reassignments",
            [
                one
                for one in context.being_reassigned
                if one.topic not in written.deleted and one not in written.excused
            ],
        ),
        ("preferred elections", context.pending_elections),
        ("deletions", [name for name in context.to_be_deleted if name not in written.deleted]),
        ("failed directories", [broker for broker, failed in context.on_failed_dirs.items() if failed]),
    ):
        if left:
            yield f"the controller still has {what}: {', '.join(map(str, left))}"
    for partition, (assignment, state) in written.partitions.items():
        known = context.leadership(partition)
        if known is not None and not written.isrs_are_announced:
            known = known._replace(isr=state.isr)
        yield from _state_differences("the controller", partition, known, state)
        if known is None:
            continue
        if context.assignment(partition).replicas != assignment.replicas:
            yield f"the controller has replicas {context.assignment(partition).replicas} of {partition}"
        offline = [
            broker
            for broker in assignment.replicas
            if context.replica_states.get(PartitionAndReplica(partition, broker)) != ReplicaState.ONLINE
        ]
        if offline:
            yield f"the controller takes the replicas of {partition} on {offline} for offline"


def _state_differences(
    who: str, partition: TopicPartition, known: LeaderAndIsr | None, written: LeaderAndIsr
) -> Iterator[str]:
    if known is None:
        yield f"{who} does not know {partition}"
    elif (known.leader, known.leader_epoch, set(known.isr)) != (written.leader, written.leader_epoch, set(written.isr)):
        is_known = f"leader {known.leader} of epoch {known.leader_epoch} with ISR {sorted(known.isr)}"
        is_written = f"leader {written.leader} of epoch {written.leader_epoch} with ISR {sorted(written.isr)}"
        yield f"{who} has for {partition} {is_known}, written is {is_written}"


def disagreements(brokers: Sequence[Believer], written: WrittenState) -> list[str]:
    """Return a sentence for each difference between what brokers believe and the znodes."""
    return list(find_disagreements(brokers, written))


def find_disagreements(brokers: Sequence[Believer], written: WrittenState) -> Iterator[str]:
    """Yield what `disagreements` returns, as it is found."""
    assert len({broker.id for broker in brokers}) == len(brokers), "each broker is asked once"
    for agreement in AGREEMENTS:
        for broker in brokers:
            for difference in agreement.differences(broker, written):
                yield f"{agreement.name}: {difference}"
