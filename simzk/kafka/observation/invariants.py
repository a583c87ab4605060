"""What must hold in the znodes of every Kafka cluster, whatever breaks around it (docs/reference/kafka.md §5).

Rules of this module:
  - it reads transactions as ZooKeeper applies them and nothing of a broker's mind: what is broken, any client can see;
  - an invariant remembers the last value that was good, so that each break is told once, by the event that made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka import paths
from simzk.kafka.schemas import controller, partition_state, topic
from simzk.kafka.topic_partition import NO_LEADER, LeaderAndIsr, TopicPartition
from simzk.zookeeper import transactions as txns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simzk.kafka.cluster.zookeeper_access import Watched
    from simzk.simulation import Event


class ZnodeInvariant:
    """One thing that must hold, and the break of it that no event has yet been blamed for.

    Args:
        name: what must hold, in a few words.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._broken = ""

    def breaks(self, detail: str) -> None:
        """Note a break; of several by one transaction the first is told."""
        self._broken = self._broken or detail

    def check(self, event: Event) -> str | None:
        """Return how it has been broken since the last event, or None."""
        broken, self._broken = self._broken, ""
        return broken or None


class ClusterInvariants:
    """Reads each transaction of a server and says which invariants it broke.

    Args:
        server: watched from now on, before its other observers, so that the event by which one of them tells of a
            transaction is the one to blame for it; what its tree holds already is taken for good.
    """

    def __init__(self, server: Watched) -> None:
        self.one_controller = ZnodeInvariant("there is one controller to an epoch, and epochs never fall")
        self.fenced = ZnodeInvariant("only the controller of the present epoch writes states")
        self.leader_in_isr = ZnodeInvariant("a leader is in its ISR, or there is none")
        self.isr_kept = ZnodeInvariant("an ISR is never empty, and only replicas join it")
        self.epochs_rise = ZnodeInvariant("leader epochs never fall, and rise with every change of leader")
        self.versions_rise = ZnodeInvariant("the version of a znode only grows")
        self._tree = server.tree
        self._states: dict[TopicPartition, LeaderAndIsr] = {}
        self._versions: dict[str, int] = {}
        self._epoch = -1
        self._controllers: dict[int, int] = {}
        for path, node in server.tree.walk():
            self._take(path, node.data, node.version)
        server.on_transaction.insert(0, self._see)

    @property
    def all(self) -> tuple[ZnodeInvariant, ...]:
        """Every invariant."""
        return (
            self.one_controller,
            self.fenced,
            self.leader_in_isr,
            self.isr_kept,
            self.epochs_rise,
            self.versions_rise,
        )

    def _take(self, path: str, data: bytes | None, version: int) -> None:
        """Remember what a tree holds at the start."""
        partition = paths.state_partition(path)
        if partition is not None:
            self._states[partition] = partition_state.decode(path, data, version)
        elif path == paths.CONTROLLER_EPOCH:
            self._epoch = _number(data)
        elif path == paths.CONTROLLER:
            self._controllers[self._epoch] = _controller_id(data)
        self._versions[path] = version

    def _see(self, transaction: txns.Transaction) -> None:
        for record in _leaves(transaction.record):
            match record:
                case txns.CreateTxn(path=path, data=data) | txns.Create2Txn(path=path, data=data):
                    self._versions[path] = 0
                    self._see_data(path, data, 0)
                case txns.SetDataTxn(path=path, data=data, version=version):
                    if version <= self._versions.get(path, -1):
                        self.versions_rise.breaks(f"{path} went from version {self._versions[path]} to {version}")
                    self._versions[path] = version
                    self._see_data(path, data, version)
                case txns.DeleteTxn(path=path):
                    self._forget(path)
                case txns.CloseSessionTxn(paths=gone):
                    for path in gone:
                        self._forget(path)
                case _:
                    pass
        self._see_controller(transaction)

    def _forget(self, path: str) -> None:
        self._versions.pop(path, None)
        partition = paths.state_partition(path)
        if partition is not None:
            self._states.pop(partition, None)

    def _see_data(self, path: str, data: bytes | None, version: int) -> None:
        partition = paths.state_partition(path)
        if partition is not None:
            self._see_state(partition, path, data, version)
        elif path == paths.CONTROLLER_EPOCH:
            epoch = _number(data)
            if epoch < self._epoch:
                self.one_controller.breaks(f"{path} fell from {self._epoch} to {epoch}")
            self._epoch = epoch

    def _see_controller(self, transaction: txns.Transaction) -> None:
        """The epoch is raised in the same multi that makes /controller, after it: both are seen here."""
        for record in _leaves(transaction.record):
            if isinstance(record, txns.CreateTxn | txns.Create2Txn) and record.path == paths.CONTROLLER:
                broker = _controller_id(record.data)
                known = self._controllers.setdefault(self._epoch, broker)
                if known != broker:
                    self.one_controller.breaks(f"brokers {known} and {broker} were both controller of {self._epoch}")

    def _see_state(self, partition: TopicPartition, path: str, data: bytes | None, version: int) -> None:
        try:
            state = partition_state.decode(path, data, version)
        except ZnodeError as error:
            self.leader_in_isr.breaks(str(error))
            return
        before = self._states.get(partition)
        self._states[partition] = state
        if state.controller_epoch != self._epoch:
            self.fenced.breaks(f"{partition} bears epoch {state.controller_epoch}, the present one is {self._epoch}")
        if state.leader != NO_LEADER and state.leader not in state.isr:
            self.leader_in_isr.breaks(f"{partition} is led by {state.leader}, its ISR is {list(state.isr)}")
        self._check_isr(partition, before, state)
        if before is not None:
            self._check_epochs(partition, before, state)

    def _check_isr(self, partition: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
        if not state.isr:
            self.isr_kept.breaks(f"{partition} has an empty ISR")
        # Who was in the ISR may have just ceased to be a replica: the topic's znode is written first.
        joined = set(state.isr) - set(() if before is None else before.isr)
        strangers = sorted(joined - set(self._replicas(partition))) if joined else []
        if strangers:
            self.isr_kept.breaks(f"{partition} took {strangers} into its ISR, who hold no replica of it")

    def _check_epochs(self, partition: TopicPartition, before: LeaderAndIsr, state: LeaderAndIsr) -> None:
        rise = state.leader_epoch - before.leader_epoch
        if rise < 0:
            self.epochs_rise.breaks(f"{partition} fell from epoch {before.leader_epoch} to {state.leader_epoch}")
        elif rise == 0 and state.leader != before.leader:
            self.epochs_rise.breaks(f"{partition} went to leader {state.leader} within epoch {state.leader_epoch}")

    def _replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        path = paths.topic(partition.topic)
        node = self._tree.get(path)
        if node is None:
            return ()
        assignment = topic.decode(path, node.data).partitions.get(partition.partition)
        return () if assignment is None else assignment.replicas


def invariants_of(server: Watched, *, leaders_write: bool = False) -> tuple[ZnodeInvariant, ...]:
    """Return what must hold in the znodes of a Kafka cluster, watching a server's transactions from now on.

    Args:
        server: the cluster's ZooKeeper.
        leaders_write: leaders write ISRs (2.6 and older), with the epoch of the controller that chose them, which
            another may have followed (§2.8): then only the rest must hold.
    """
    found = ClusterInvariants(server)
    return tuple(invariant for invariant in found.all if not (leaders_write and invariant is found.fenced))


def _leaves(record: txns.Record) -> Iterator[object]:
    if not isinstance(record, txns.MultiTxn):
        yield record
    elif not record.failed:
        yield from record.records


def _number(data: bytes | None) -> int:
    return _or_nothing(lambda: controller.decode_epoch(paths.CONTROLLER_EPOCH, data))


def _controller_id(data: bytes | None) -> int:
    return _or_nothing(lambda: controller.decode(paths.CONTROLLER, data))


def _or_nothing(read: Callable[[], int]) -> int:
    """Return -1 for what an operator wrote by hand and nobody can read."""
    try:
        return read()
    except ZnodeError:
        return -1
