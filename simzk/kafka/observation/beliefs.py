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
from simzk.kafka import paths
from simzk.kafka.controller.cluster_changes import RESTART_MISSED
from simzk.kafka.observation.invariants import FirstViolation
from simzk.kafka.requests import LEADER_DURING_DELETE, Error
from simzk.kafka.schemas import partition_state
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simzk.kafka.broker.replica_manager import NewLeaders, ReplicaManager
    from simzk.kafka.cluster.zookeeper_access import ObservableTree
    from simzk.partitions.arrays import IntArray
    from simzk.simulation import Event
    from simzk.zookeeper import transactions as txns

OldCache: TypeAlias = Callable[[], Callable[[TopicPartition], LeaderAndIsr | None] | None]
"""Returns the cache of a controller that does not cache the leader epochs it raises; None while another one rules."""
REFUSED = "ISR change refused"
"""Event of a leader whose proposed ISR is refused."""


class BeliefInvariant(FirstViolation):
    """An invariant of what brokers believe.

    Args:
        manager: the replicas of all brokers.

    Attributes:
        name: the condition that holds, in a few words.
        issue: the bug of Kafka by which some releases violate it; empty for none.
    """

    name: ClassVar[str]
    issue: ClassVar[str] = ""

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
    for at, place in np.argwhere(new.accepted).tolist():
        state = new.states
        yield int(new.rows[at]), int(new.replicas[at, place]), int(state.leader[at]), int(state.leader_epoch[at])


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
        for of in [of for of in self._accepted if of[0] == broker and (rows is None or of[1] in rows)]:
            del self._accepted[of]

    def _on_controller_epoch(self) -> None:
        present, before = self.manager.epochs.controller_epochs(), self._controller_epochs
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
            node = self._tree.get(paths.state(partition))
            if node is None or partition.topic in self._deleted:
                continue
            try:
                written = partition_state.decode(paths.state(partition), node.data, node.version)
            except ZnodeError:  # an operator's
                continue
            if epoch > written.leader_epoch:
                self.violate(
                    f"broker {broker} accepted leader epoch {epoch} of {partition}, {written.leader_epoch} is written"
                )
            elif epoch == written.leader_epoch and leader not in (written.leader, LEADER_DURING_DELETE):
                self.violate(
                    f"broker {broker} takes {leader} for the leader of {partition} in leader epoch {epoch},"
                    f" which is written with leader {written.leader}"
                )


class RestartsNoticed(BeliefInvariant):
    """A controller notices each restart of a broker, and sends it the leaders of its replicas.

    Controllers before 2.2 compare ids only (KIP-380). A broker that registers again while the controller handles other
    events is not told of its replicas until their leaders change, or the controller does.
    """

    name = "a controller notices each restart of a broker"
    issue = "KAFKA-7235"
    reads = frozenset({RESTART_MISSED})

    def __init__(self, manager: ReplicaManager) -> None:
        super().__init__(manager)
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
    def missed(self) -> frozenset[int]:
        """The running brokers whose restart a controller missed."""
        return frozenset(self._missed)

    def is_unaware(self, broker: int, partition: TopicPartition) -> bool:
        """Return whether a controller missed a broker's restart, and so never sent it its replica."""
        row = self.manager.table.find(partition.topic, partition.partition) if broker in self._missed else None
        if row is None:
            return broker in self._missed
        rows = np.array([row], dtype=np.int32)
        brokers, replicas = np.array([broker], dtype=np.int32), self.manager.table.replicas_at(rows)
        _, epoch = self.manager.leaders_at(rows).by(brokers, replicas)
        return int(epoch[0]) < 0


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
        cached = self._old_cache()
        if cached is None and not self._outdated:
            return
        for row, broker, _, epoch in _each(new):
            self._outdated.pop((broker, row), None)
            partition = self.name_of(row)
            state = None if cached is None else cached(partition)
            if state is None or state.leader_epoch != epoch:
                continue
            node = self._tree.get(paths.state(partition))
            try:
                written = partition_state.decode(paths.state(partition), None if node is None else node.data)
            except ZnodeError:  # deleted, or an operator's
                continue
            if written.leader_epoch > epoch:
                self._outdated[broker, row] = epoch
                self.violate(
                    f"broker {broker} accepted leader epoch {epoch} of {partition}, {written.leader_epoch} is written"
                )

    def on_forgotten(self, broker: int, rows: IntArray | None) -> None:
        for of in [of for of in self._outdated if of[0] == broker and (rows is None or of[1] in rows)]:
            del self._outdated[of]

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


class WrittenIsrRecognized(BeliefInvariant):
    """A leader whose proposed ISR is written learns that it is.

    A controller that loses the reply to the write tries it again, and takes the conflict with its own write for one
    with another (INVALID_UPDATE_VERSION). The leader proposes nothing more until its next leader epoch, and the
    controller caches the old ISR (docs/reference/kafka.md §5, #49).

    Args:
        manager: the replicas of all brokers.
        server: the cluster's ZooKeeper.
    """

    name = "a leader learns that its ISR was written"
    issue = "lost reply to an ISR write"
    reads = frozenset({REFUSED})

    def __init__(self, manager: ReplicaManager, server: ObservableTree) -> None:
        super().__init__(manager)
        self._tree = server.tree
        self._waiting: dict[TopicPartition, int] = {}

    def check(self, event: Event) -> str | None:
        if event.what == REFUSED and event.after == Error.INVALID_UPDATE_VERSION.value:
            topic, _, number = event.subject.rpartition("-")
            partition = TopicPartition(topic, int(number))
            node = self._tree.get(paths.state(partition))
            written = None if node is None else partition_state.decode(paths.state(partition), node.data, node.version)
            if written and (event.who, event.before) == (f"broker {written.leader}", f"isr {list(written.isr)}"):
                self._waiting[partition] = written.leader_epoch
                self.violate(f"{event.who} proposed {event.before} of {partition}, which is written, and was refused")
        return super().check(event)

    def is_waiting(self, partition: TopicPartition, leader_epoch: int) -> bool:
        """Return whether the leader in a leader epoch still waits for the result of an ISR that was written."""
        return self._waiting.get(partition) == leader_epoch


def has_unrecognized_isr(invariants: Iterable[object], partition: TopicPartition, leader_epoch: int) -> bool:
    """Return whether the leader of a leader epoch was not told that its ISR was written; see `WrittenIsrRecognized`."""
    return any(one.is_waiting(partition, leader_epoch) for one in invariants if isinstance(one, WrittenIsrRecognized))


def is_unaware_by_known_bug(invariants: Iterable[object], partition: TopicPartition, broker: int) -> bool:
    """Return whether a controller never sent a broker its replica of a partition; see `RestartsNoticed`."""
    return any(one.is_unaware(broker, partition) for one in invariants if isinstance(one, RestartsNoticed))


def restarted_unnoticed(invariants: Iterable[object]) -> frozenset[int]:
    """Return the running brokers whose restart a controller missed; see `RestartsNoticed`."""
    return frozenset(broker for one in invariants if isinstance(one, RestartsNoticed) for broker in one.missed)


_TOPICS = f"{paths.TOPICS}/"
_TOPIC_DEPTH = paths.TOPICS.count("/") + 1


def beliefs_of(
    manager: ReplicaManager,
    server: ObservableTree,
    old_cache: OldCache = lambda: None,
) -> tuple[BeliefInvariant, ...]:
    """Return the invariants of what brokers believe, which observe them from now on.

    Args:
        manager: the replicas of all brokers.
        server: the cluster's ZooKeeper.
        old_cache: as for `SentEpochIsWritten`.
    """
    return (
        OneLeaderOfAnEpoch(manager),
        AcceptedEpochsRise(manager),
        AcceptedIsWritten(manager, server),
        RestartsNoticed(manager),
        SentEpochIsWritten(manager, server, old_cache),
        WrittenIsrRecognized(manager, server),
    )
