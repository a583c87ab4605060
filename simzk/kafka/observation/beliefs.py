"""Invariants of the leaders and epochs that brokers have accepted: what each broker believes.

Rules of this module (KafkaApis.handleLeaderAndIsrRequest, ReplicaManager.becomeLeaderOrFollower):
  - an invariant reads what replicas accept when they accept it, and remembers it by itself: it does not rely on the
    comparisons of `replica_manager`, which it checks;
  - a broker forgets with the end of its process, a replica also with the deletion of its log;
  - a topic that was deleted may be created again with lower epochs: its partitions are no longer compared with znodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka.metadata.changes import LEADER_DURING_DELETE
from simzk.kafka.observation.invariants import FirstViolation
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.controller.cluster_changes import RESTART_MISSED
from simzk.kafka.zookeeper_mode.schemas import partition_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from simzk.kafka.broker.replica_manager import NewLeaders, ReplicaManager
    from simzk.kafka.cluster.zookeeper_access import KafkaTree, ObservableTree
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.partitions.arrays import IntArray
    from simzk.simulation import Event
    from simzk.zookeeper import transactions as txns

OldCache: TypeAlias = Callable[[], Callable[[TopicPartition], LeaderAndIsr | None] | None]
"""Returns the cache of a controller that does not cache the leader epochs it raises; None while another one rules."""
IssueOf: TypeAlias = "Callable[[Callable[[KafkaVersion], str]], str]"
"""Returns the first bug that a function finds in the profiles of a cluster's releases; empty for none."""
REFUSED = "ISR change refused"
"""Event of a leader whose proposed ISR is refused."""
DROPPED = "ISR change dropped"
"""Event of a leader whose proposed ISR is never sent."""
_ACCEPTED = "broker {} accepted leader epoch {} of {}, {} is written"
_TOPICS = f"{paths.TOPICS}/"
_TOPIC_DEPTH = paths.TOPICS.count("/") + 1


class BeliefInvariant(FirstViolation):
    """An invariant of what brokers believe.

    Args:
        manager: the replicas of all brokers.

    Attributes:
        name: the condition that holds, in a few words.
    """

    name: ClassVar[str]

    @property
    def issue(self) -> str:
        """The bug of Kafka by which some releases violate it; empty for none."""
        return ""

    def __init__(self, manager: ReplicaManager) -> None:
        super().__init__()
        self.manager = manager
        manager.on_accepted.append(self.on_accepted)
        manager.on_forgotten.append(self.on_forgotten)

    def on_accepted(self, new: NewLeaders) -> None:
        """Check replicas that accept a LeaderAndIsr."""

    def on_forgotten(self, broker: int, rows: IntArray | None) -> None:
        """Forget the replicas of a broker at some rows, or all: its process ended, or logs were deleted."""

    def name_of(self, row: int) -> TopicPartition:
        """Return the partition of a row."""
        (name,) = self.manager.table.partitions(np.array([row], dtype=np.int32)).names()
        return TopicPartition(*name)


def _each(new: NewLeaders) -> Iterator[tuple[int, int, int, int]]:
    """Yield row, broker, leader and leader epoch of each replica that accepts."""
    assert new.accepted.shape == new.replicas.shape, "each replica accepts or not"
    for at, place in np.argwhere(new.accepted).tolist():
        state = new.states
        yield int(new.rows[at]), int(new.replicas[at, place]), int(state.leader[at]), int(state.leader_epoch[at])


def _forget(epochs: dict[tuple[int, int], int], broker: int, rows: IntArray | None) -> None:
    """Remove the leader epochs of a broker at some rows, or all."""
    for of in [of for of in epochs if of[0] == broker and (rows is None or of[1] in rows)]:
        del epochs[of]


def _written(tree: KafkaTree, partition: TopicPartition) -> LeaderAndIsr | None:
    """Return the state in a partition's znode; None if it is deleted, or an operator's and invalid."""
    path = paths.state(partition)
    node = tree.get(path)
    try:
        return None if node is None else partition_state.decode(path, node.data)
    except ZnodeError:
        return None


class OneLeaderOfAnEpoch(BeliefInvariant):
    """At most one broker believes itself leader of a partition in one leader epoch (the highest that anyone leads)."""

    name = "one broker takes itself for the leader in a leader epoch"

    def __init__(self, manager: ReplicaManager) -> None:
        super().__init__(manager)
        self._latest: dict[int, tuple[int, int]] = {}

    def on_accepted(self, new: NewLeaders) -> None:
        for row, broker, leader, epoch in _each(new):
            if broker != leader:
                continue
            known, of = self._latest.get(row, (-1, broker))
            if epoch == known and broker != of:
                self.violate(f"brokers {of} and {broker} both lead {self.name_of(row)} in leader epoch {epoch}")
            if epoch >= known:
                self._latest[row] = epoch, broker

    def on_forgotten(self, broker: int, rows: IntArray | None) -> None:
        for row in [] if rows is None else rows.tolist():  # the next topic of that name begins with epoch 0
            self._latest.pop(row, None)


class AcceptedEpochsRise(BeliefInvariant):
    """A replica accepts rising leader epochs while its process runs, and a broker rising controller epochs."""

    name = "a broker accepts no older leader epoch and no older controller"

    def __init__(self, manager: ReplicaManager) -> None:
        super().__init__(manager)
        self._accepted: dict[tuple[int, int], int] = {}
        self._controller_epochs = manager.epochs.controller_epochs()
        manager.epochs.on_controller_epoch.append(self._on_controller_epoch)

    def on_accepted(self, new: NewLeaders) -> None:
        for row, broker, _, epoch in _each(new):
            before = self._accepted.get((broker, row), -1)
            if epoch <= before:
                self.violate(f"broker {broker} has leader epoch {before} of {self.name_of(row)} and accepted {epoch}")
            self._accepted[broker, row] = epoch

    def on_forgotten(self, broker: int, rows: IntArray | None) -> None:
        _forget(self._accepted, broker, rows)

    def _on_controller_epoch(self) -> None:
        present, before = self.manager.epochs.controller_epochs(), self._controller_epochs
        assert len(present) == len(before), "brokers are neither added nor removed"
        self._controller_epochs = present
        fell = np.flatnonzero((present < before) & (present != 0))
        for broker in fell.tolist():  # 0: its process has ended
            self.violate(f"broker {broker} obeyed controller epoch {before[broker]} and then an older one")


class AcceptedIsWritten(BeliefInvariant):
    """A replica accepts only leader epochs that stand in ZooKeeper: a controller writes before it sends.

    Args:
        manager: the replicas of all brokers.
        server: the cluster's ZooKeeper.
    """

    name = "a broker accepts only leader epochs that were written"

    def __init__(self, manager: ReplicaManager, server: ObservableTree) -> None:
        super().__init__(manager)
        self._tree = server.tree
        self._deleted: dict[str, None] = {}
        server.on_transaction.append(self._observe)

    def _observe(self, transaction: txns.Transaction) -> None:
        for record in getattr(transaction.record, "records", (transaction.record,)):
            path = getattr(record, "path", "")
            if path.startswith(_TOPICS) and path.count("/") == _TOPIC_DEPTH and self._tree.get(path) is None:
                self._deleted[path.rpartition("/")[2]] = None

    def on_accepted(self, new: NewLeaders) -> None:
        for row, broker, leader, epoch in _each(new):
            partition = self.name_of(row)
            written = _written(self._tree, partition)
            if written is None or partition.topic in self._deleted:
                continue
            if epoch > written.leader_epoch:
                self.violate(_ACCEPTED.format(broker, epoch, partition, written.leader_epoch))
            elif epoch == written.leader_epoch and leader not in (written.leader, LEADER_DURING_DELETE):
                self.violate(
                    f"broker {broker} takes {leader} for the leader of {partition} in leader epoch {epoch},"
                    f" which is written with leader {written.leader}"
                )


class RestartsNoticed(BeliefInvariant):
    """A controller notices each restart of a broker, and sends it the leaders of its replicas.

    Controllers before 2.2 compare ids only (KIP-380). A broker that registers again while the controller handles other
    events is not told of its replicas until their leaders change, or the controller does.

    Args:
        manager: the replicas of all brokers.
        issue_of: as for `beliefs_of`.
    """

    name = "a controller notices each restart of a broker"
    reads = frozenset({RESTART_MISSED})

    def __init__(self, manager: ReplicaManager, issue_of: IssueOf) -> None:
        super().__init__(manager)
        self._issue_of = issue_of
        self._missed: dict[int, None] = {}

    def on_forgotten(self, broker: int, rows: IntArray | None) -> None:
        if rows is None:
            self._missed.pop(broker, None)

    def check(self, event: Event) -> str | None:
        if event.what == RESTART_MISSED:
            self._missed[int(event.subject.rpartition(" ")[2])] = None
            self.violate(f"{event.who} took the new registration of {event.subject} for the old one")
        return super().check(event)

    @property
    def issue(self) -> str:
        """KAFKA-7235 if a release of the cluster has it; otherwise empty."""
        return self._issue_of(lambda version: "" if version.client.has_broker_epochs else "KAFKA-7235")

    @property
    def missed(self) -> frozenset[int]:
        """The running brokers whose restart a controller missed."""
        return frozenset(self._missed)

    def is_unaware(self, broker: int, partition: TopicPartition, leader_epoch: int) -> bool:
        """Return whether a controller missed a broker's restart, and so never sent it the present leader epoch."""
        row = self.manager.table.find(partition.topic, partition.partition) if broker in self._missed else None
        if row is None:
            return broker in self._missed
        rows = np.array([row], dtype=np.int32)
        brokers, replicas = np.array([broker], dtype=np.int32), self.manager.table.replicas_at(rows)
        _, epoch = self.manager.leaders.at(rows).by(brokers, replicas)
        assert epoch.shape == (1,), "one replica was asked for"
        return int(epoch[0]) < leader_epoch


class SentEpochIsWritten(BeliefInvariant):
    """A controller sends the leader epoch that is written.

    Controllers before 2.4 do not cache the leader epoch that they raise for a reassignment. UpdateMetadata has the one
    before, and so has a LeaderAndIsr to a broker that starts meanwhile: from 2.1 on the leader fences that broker until
    the next leader epoch, because fetches name it.

    Args:
        manager: the replicas of all brokers.
        server: the cluster's ZooKeeper.
        old_cache: returns the states in the cache of a controller before 2.4; None for a later controller, or for none.
    """

    name = "a controller sends the leader epoch that is written"
    issue = "KAFKA-9212"

    def __init__(self, manager: ReplicaManager, server: ObservableTree, old_cache: OldCache = lambda: None) -> None:
        super().__init__(manager)
        self._tree = server.tree
        self._old_cache = old_cache
        self._outdated: dict[tuple[int, int], int] = {}

    def on_accepted(self, new: NewLeaders) -> None:
        if (cached := self._old_cache()) is None and not self._outdated:
            return
        for row, broker, _, epoch in _each(new):
            self._outdated.pop((broker, row), None)
            partition = self.name_of(row)
            state = None if cached is None else cached(partition)
            if state is None or state.leader_epoch != epoch:
                continue
            if (written := _written(self._tree, partition)) is not None and written.leader_epoch > epoch:
                self._outdated[broker, row] = epoch
                self.violate(_ACCEPTED.format(broker, epoch, partition, written.leader_epoch))

    def on_forgotten(self, broker: int, rows: IntArray | None) -> None:
        _forget(self._outdated, broker, rows)

    def is_outdated(self, broker: int, partition: TopicPartition) -> bool:
        """Return whether the last leader epoch that a broker was sent was outdated then."""
        row = self.manager.table.find(partition.topic, partition.partition)
        return row is not None and (broker, row) in self._outdated

    def has_outdated(self, partition: TopicPartition, leader_epoch: int) -> bool:
        """Return whether the controller, or any broker, has an older leader epoch than the one that is written."""
        cached, row = self._old_cache(), self.manager.table.find(partition.topic, partition.partition)
        state = None if cached is None else cached(partition)
        return (state is not None and state.leader_epoch < leader_epoch) or any(of[1] == row for of in self._outdated)


def is_fenced_by_known_bug(invariants: Iterable[object], partition: TopicPartition, broker: int) -> bool:
    """Return whether a broker was sent an outdated leader epoch of its replica; see `SentEpochIsWritten`."""
    return any(one.is_outdated(broker, partition) for one in invariants if isinstance(one, SentEpochIsWritten))


def is_outdated_by_known_bug(invariants: Iterable[object], partition: TopicPartition, leader_epoch: int) -> bool:
    """Return whether anybody was sent an older leader epoch than the written one; see `SentEpochIsWritten`."""
    return any(one.has_outdated(partition, leader_epoch) for one in invariants if isinstance(one, SentEpochIsWritten))


class LeaderAwaitsNothing(BeliefInvariant):
    """A leader that waits for the result of a proposed ISR gets it.

    Args:
        manager: the replicas of all brokers.
        server: the cluster's ZooKeeper.

    Attributes:
        waiting: the leader epoch in which the leader of a partition waits, until it is sent the next one.
    """

    def __init__(self, manager: ReplicaManager, server: ObservableTree) -> None:
        super().__init__(manager)
        self._tree = server.tree
        self.waiting: dict[TopicPartition, int] = {}

    def written_for(self, event: Event) -> tuple[TopicPartition, LeaderAndIsr] | None:
        """Return the partition of a leader's event, and its written state if that broker leads it."""
        assert event.what in self.reads, f"{event.what} names no partition"
        topic, _, number = event.subject.rpartition("-")
        partition = TopicPartition(topic, int(number))
        state = _written(self._tree, partition)
        return None if state is None or event.who != f"broker {state.leader}" else (partition, state)


class WrittenIsrRecognized(LeaderAwaitsNothing):
    """A leader whose proposed ISR is written learns that it is.

    A controller that loses the reply to the write tries it again, and takes the conflict with its own write for one
    with another (INVALID_UPDATE_VERSION). The leader proposes nothing more until its next leader epoch, and the
    controller caches the old ISR (docs/reference/kafka.md §5, #49). A leader of 0.8.0 and 0.8.1 that writes the ISR
    itself is stuck in the same way (KAFKA-1382); one of 0.8.2 to 2.6 reads the state again.
    """

    name = "a leader learns that its ISR was written"
    reads = frozenset({REFUSED})

    def __init__(self, manager: ReplicaManager, server: ObservableTree, issue_of: IssueOf) -> None:
        super().__init__(manager, server)
        self._issue_of = issue_of

    @property
    def issue(self) -> str:
        """KAFKA-1382 if a release of the cluster has it; otherwise what all have whose controllers write ISRs."""
        return self._issue_of(_issue_of_lost_replies)

    def check(self, event: Event) -> str | None:
        is_conflict = event.what == REFUSED and event.after == ErrorCode.INVALID_UPDATE_VERSION.name
        found = self.written_for(event) if is_conflict else None
        if found is not None and event.before == f"isr {list(found[1].isr)}":
            partition, state = found
            self.waiting[partition] = state.leader_epoch
            self.violate(f"{event.who} proposed {event.before} of {partition}, which is written, and was refused")
        return super().check(event)


def _issue_of_lost_replies(version: KafkaVersion) -> str:
    if version.broker.uses_alter_isr:
        return "lost reply to an ISR write"
    return "" if version.broker.accepts_own_isr_after_conflict else "KAFKA-1382"


class ProposalSent(LeaderAwaitsNothing):
    """A leader's proposed ISR is sent to the controller.

    Up to 2.8 the result of a proposal that a LeaderAndIsr has withdrawn takes the next one with it, unsent.

    Args:
        manager: the replicas of all brokers.
        server: the cluster's ZooKeeper.
        issue_of: as for `beliefs_of`.
    """

    name = "a proposed ISR is sent"
    reads = frozenset({DROPPED})

    def __init__(self, manager: ReplicaManager, server: ObservableTree, issue_of: IssueOf) -> None:
        super().__init__(manager, server)
        self._issue_of = issue_of

    @property
    def issue(self) -> str:
        """KAFKA-12686 if a release of the cluster has it; otherwise empty."""
        return self._issue_of(lambda version: "KAFKA-12686" if version.broker.withdraws_isr_proposals else "")

    def check(self, event: Event) -> str | None:
        if event.what == DROPPED and (found := self.written_for(event)) is not None:
            partition, state = found
            self.waiting[partition] = state.leader_epoch
            self.violate(f"{event.who} waits for the result of {event.before} of {partition}, which is never sent")
        return super().check(event)


class DeletionsAnnounced(BeliefInvariant):
    """Every broker learns of a deleted topic before the controller that deleted it gives way to another one.

    One UpdateMetadata names a topic that is deleted, and it is lost with the queue of that controller. The next one has
    not read the topic and names only the partitions that exist; a broker adds them to its cache (§5, #58).

    Args:
        manager: the replicas of all brokers.
        caching: returns the ids of the running brokers whose metadata caches have a topic.
    """

    name = "every broker is told of a deletion before the controller changes"
    issue = "deletion lost with its controller"
    reads = frozenset({"topic deleted", "elected"})

    def __init__(self, manager: ReplicaManager, caching: Callable[[str], Iterable[int]]) -> None:
        super().__init__(manager)
        self._caching = caching
        self._unannounced: dict[str, None] = {}
        self._missed: dict[tuple[int, str], None] = {}

    def on_forgotten(self, broker: int, rows: IntArray | None) -> None:
        for missed in [] if rows is not None else [missed for missed in self._missed if missed[0] == broker]:
            del self._missed[missed]

    def check(self, event: Event) -> str | None:
        if event.what == "topic deleted":
            if any(True for _ in self._caching(event.subject)):
                self._unannounced[event.subject] = None
        elif event.what == "elected":
            missed = [(broker, topic) for topic in self._unannounced for broker in self._caching(topic)]
            self._unannounced.clear()
            self._missed.update(dict.fromkeys(missed))
            for broker, topic in missed:
                self.violate(
                    f"broker {broker} was not told of the deletion of {topic} by the controller before {event.who}"
                )
        return super().check(event)

    @property
    def missed(self) -> Mapping[int, frozenset[str]]:
        """The deleted topics that the caches of running brokers keep, by broker."""
        return {broker: frozenset(topic for of, topic in self._missed if of == broker) for broker, _ in self._missed}


def unannounced_deletions(invariants: Iterable[object], broker: int) -> frozenset[str]:
    """Return the deleted topics that a running broker's cache keeps; see `DeletionsAnnounced`."""
    found = [one.missed.get(broker, frozenset()) for one in invariants if isinstance(one, DeletionsAnnounced)]
    return frozenset().union(*found)


def awaits_in_vain(invariants: Iterable[object], partition: TopicPartition, leader_epoch: int) -> bool:
    """Return whether the leader of a leader epoch waits for a result in vain; see `LeaderAwaitsNothing`."""
    waiting = [one.waiting for one in invariants if isinstance(one, LeaderAwaitsNothing)]
    return any(epochs.get(partition) == leader_epoch for epochs in waiting)


def is_unaware_by_known_bug(
    invariants: Iterable[object], partition: TopicPartition, broker: int, leader_epoch: int
) -> bool:
    """Return whether a controller never sent a broker the leader epoch of a partition; see `RestartsNoticed`."""
    return any(
        one.is_unaware(broker, partition, leader_epoch) for one in invariants if isinstance(one, RestartsNoticed)
    )


def restarted_unnoticed(invariants: Iterable[object]) -> frozenset[int]:
    """Return the running brokers whose restart a controller missed; see `RestartsNoticed`."""
    return frozenset(broker for one in invariants if isinstance(one, RestartsNoticed) for broker in one.missed)


def beliefs_of(
    manager: ReplicaManager,
    server: ObservableTree,
    old_cache: OldCache = lambda: None,
    caching: Callable[[str], Iterable[int]] = lambda _: (),
    *,
    issue_of: IssueOf = lambda _: "",
    leaders_read_again: bool = False,
) -> tuple[BeliefInvariant, ...]:
    """Return the invariants of what brokers believe, which observe them from now on.

    Args:
        manager: the replicas of all brokers.
        server: the cluster's ZooKeeper.
        old_cache: as for `SentEpochIsWritten`.
        caching: as for `DeletionsAnnounced`.
        issue_of: returns the first bug that a function finds in the profiles of releases that run in the cluster, or
            ran; empty for none.
        leaders_read_again: whether every leader writes ISRs itself, and after a conflict reads what is written: who
            wrote it, another controller perhaps, is told by other invariants.
    """
    beliefs = (
        OneLeaderOfAnEpoch(manager),
        AcceptedEpochsRise(manager),
        AcceptedIsWritten(manager, server),
        RestartsNoticed(manager, issue_of),
        SentEpochIsWritten(manager, server, old_cache),
        WrittenIsrRecognized(manager, server, issue_of),
        ProposalSent(manager, server, issue_of),
        DeletionsAnnounced(manager, caching),
    )
    assert tuple(type(belief) for belief in beliefs) == BELIEFS, "the documented list is another one"
    return tuple(one for one in beliefs if not (leaders_read_again and isinstance(one, WrittenIsrRecognized)))


BELIEFS: tuple[type[BeliefInvariant], ...] = (
    OneLeaderOfAnEpoch,
    AcceptedEpochsRise,
    AcceptedIsWritten,
    RestartsNoticed,
    SentEpochIsWritten,
    WrittenIsrRecognized,
    ProposalSent,
    DeletionsAnnounced,
)
"""All invariants of what brokers believe."""
