"""Invariants of the znodes of a Kafka cluster that no failure may break (docs/reference/kafka.md §5).

Rules of this module:
  - the invariants are checked on transactions as ZooKeeper applies them, never on the state of a broker: any client can
    see a violation;
  - each invariant remembers the last value, so that a violation is reported once, with the event that caused it.
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

    from simzk.kafka.cluster.zookeeper_access import ObservableTree
    from simzk.simulation import Event


class ZnodeInvariant:
    """One invariant, and its violation that no event has been blamed for yet.

    Args:
        name: the invariant as a sentence.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._violation = ""

    def violate(self, detail: str) -> None:
        """Set the violation; the first of one transaction counts."""
        self._violation = self._violation or detail

    def check(self, event: Event) -> str | None:
        """Return and clear the violation since the last event; None if there is none."""
        violation, self._violation = self._violation, ""
        return violation or None


class ClusterInvariants:
    """Checker of all invariants on the transactions of a server.

    Args:
        server: the server. The checker is inserted before its other observers, so that a violation is blamed on the
            event that they record for the same transaction. The present tree is assumed valid.
    """

    def __init__(self, server: ObservableTree) -> None:
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
            self._load(path, node.data, node.version)
        server.on_transaction.insert(0, self._check)

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

    def _load(self, path: str, data: bytes | None, version: int) -> None:
        """Remember a znode of the tree at the start."""
        partition = paths.state_partition(path)
        if partition is not None:
            self._states[partition] = partition_state.decode(path, data, version)
        elif path == paths.CONTROLLER_EPOCH:
            self._epoch = _number(data)
        elif path == paths.CONTROLLER:
            self._controllers[self._epoch] = _controller_id(data)
        self._versions[path] = version

    def _check(self, transaction: txns.Transaction) -> None:
        for record in _leaves(transaction.record):
            match record:
                case txns.CreateTxn(path=path, data=data) | txns.Create2Txn(path=path, data=data):
                    self._versions[path] = 0
                    self._check_data(path, data, 0)
                case txns.SetDataTxn(path=path, data=data, version=version):
                    if version <= self._versions.get(path, -1):
                        self.versions_rise.violate(f"{path} went from version {self._versions[path]} to {version}")
                    self._versions[path] = version
                    self._check_data(path, data, version)
                case txns.DeleteTxn(path=path):
                    self._forget(path)
                case txns.CloseSessionTxn(paths=gone):
                    for path in gone:
                        self._forget(path)
                case _:
                    pass
        self._check_controller(transaction)

    def _forget(self, path: str) -> None:
        self._versions.pop(path, None)
        partition = paths.state_partition(path)
        if partition is not None:
            self._states.pop(partition, None)

    def _check_data(self, path: str, data: bytes | None, version: int) -> None:
        partition = paths.state_partition(path)
        if partition is not None:
            self._check_state(partition, path, data, version)
        elif path == paths.CONTROLLER_EPOCH:
            epoch = _number(data)
            if epoch < self._epoch:
                self.one_controller.violate(f"{path} fell from {self._epoch} to {epoch}")
            self._epoch = epoch

    def _check_controller(self, transaction: txns.Transaction) -> None:
        """Check that an epoch has one controller.

        The multi that creates /controller sets the epoch after it, so that both are known at the end of the multi.
        """
        for record in _leaves(transaction.record):
            if isinstance(record, txns.CreateTxn | txns.Create2Txn) and record.path == paths.CONTROLLER:
                broker = _controller_id(record.data)
                first = self._controllers.setdefault(self._epoch, broker)
                if first != broker:
                    self.one_controller.violate(f"brokers {first} and {broker} were both controller of {self._epoch}")

    def _check_state(self, partition: TopicPartition, path: str, data: bytes | None, version: int) -> None:
        try:
            state = partition_state.decode(path, data, version)
        except ZnodeError as error:
            self.leader_in_isr.violate(str(error))
            return
        before = self._states.get(partition)
        self._states[partition] = state
        if state.controller_epoch != self._epoch:
            self.fenced.violate(f"{partition} bears epoch {state.controller_epoch}, the present one is {self._epoch}")
        if state.leader != NO_LEADER and state.leader not in state.isr:
            self.leader_in_isr.violate(f"{partition} is led by {state.leader}, its ISR is {list(state.isr)}")
        self._check_isr(partition, before, state)
        if before is not None:
            self._check_epochs(partition, before, state)

    def _check_isr(self, partition: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
        if not state.isr:
            self.isr_kept.violate(f"{partition} has an empty ISR")
        # Only new members must be replicas: a reassignment removes a replica from the topic's znode before the ISR.
        joined = set(state.isr) - set(() if before is None else before.isr)
        strangers = sorted(joined - set(self._replicas(partition))) if joined else []
        if strangers:
            self.isr_kept.violate(f"{partition} took {strangers} into its ISR, who hold no replica of it")

    def _check_epochs(self, partition: TopicPartition, before: LeaderAndIsr, state: LeaderAndIsr) -> None:
        rise = state.leader_epoch - before.leader_epoch
        if rise < 0:
            self.epochs_rise.violate(f"{partition} fell from epoch {before.leader_epoch} to {state.leader_epoch}")
        elif rise == 0 and state.leader != before.leader:
            self.epochs_rise.violate(f"{partition} went to leader {state.leader} within epoch {state.leader_epoch}")

    def _replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        path = paths.topic(partition.topic)
        node = self._tree.get(path)
        if node is None:
            return ()
        assignment = topic.decode(path, node.data).partitions.get(partition.partition)
        return () if assignment is None else assignment.replicas


def invariants_of(server: ObservableTree, *, leaders_write: bool = False) -> tuple[ZnodeInvariant, ...]:
    """Return the invariants of a Kafka cluster, checked on a server's transactions from now on.

    Args:
        server: the cluster's ZooKeeper.
        leaders_write: leaders write ISRs (2.6 and older) with the epoch of the controller that elected them; another
            controller may have followed (§2.8), so that the fencing invariant does not apply.
    """
    checker = ClusterInvariants(server)
    return tuple(invariant for invariant in checker.all if not (leaders_write and invariant is checker.fenced))


def _leaves(record: txns.Record) -> Iterator[object]:
    if not isinstance(record, txns.MultiTxn):
        yield record
    elif not record.failed:
        yield from record.records


def _number(data: bytes | None) -> int:
    return _or_minus_one(lambda: controller.decode_epoch(paths.CONTROLLER_EPOCH, data))


def _controller_id(data: bytes | None) -> int:
    return _or_minus_one(lambda: controller.decode(paths.CONTROLLER, data))


def _or_minus_one(read: Callable[[], int]) -> int:
    """Return the number that `read` decodes; -1 for invalid data, which an operator may have written."""
    try:
        return read()
    except ZnodeError:
        return -1
