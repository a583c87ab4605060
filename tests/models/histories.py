"""Steps of the models that runs of the simulation take, and states of the models in which runs are.

Rules of this module:
  - a run refines a model if each of its steps is a sequence of steps of the model, or none. The steps are observed from
    outside: partition states in ZooKeeper, LeaderAndIsr requests that replicas accept, fetches that leaders accept,
    and the events of the history about records, truncations and high watermarks;
  - a write of the controller may be several steps: it removes the failed members of the ISR, then elects. The model
    counts an epoch for each, so leader epochs of the run are mapped to those of the model;
  - a batch of n records is n steps;
  - the model truncates when a replica begins to follow, the simulation with the replica's first fetches. So the replica
    begins to follow in the model when its leader accepts a fetch in the new epoch, or when its log is as long as the
    model wants it; until then it is idle in both;
  - a replica that starts again forgets its leader and its epoch, the model forgets nothing: the LeaderAndIsr that it
    accepts again is no step. Its high watermark may be older than that of the model, so only what exceeds that is one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.kafka.broker.replica_logs import FetchedRecords, ReplicaLogs
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import partition_state
from tests.models.replication import NO_EPOCH, NOBODY, Belief, Event, LeaderAndIsr, Model, Record, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simzk.kafka import topic_partition
    from simzk.kafka.broker.replica_manager import NewLeaders
    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.log.log import Log
    from simzk.kafka.requests import FetchedPartition
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Event as HistoryEvent
    from simzk.zookeeper.transactions import Transaction


class Followed(NamedTuple):
    """LeaderAndIsr that a follower has accepted in the simulation and not yet in the model."""

    leader: int
    epoch: int


class Refinement:
    """One partition of a cluster, followed step by step by a model from its creation on.

    Args:
        cluster: the cluster; the partition does not exist yet.
        partition: the partition.
        make: makes the model for a number of replicas.

    Attributes:
        steps: number of steps of the model so far.
        unexplained: the first step of the run that the model does not allow; empty for none. Nothing is compared after.
        states: all states that it has been in, in order.
    """

    def __init__(self, cluster: KafkaCluster, partition: TopicPartition, make: Callable[[int], Model]) -> None:
        self.steps = 0
        self.unexplained = ""
        self.states: list[State] = []
        self._cluster = cluster
        self._partition = partition
        self._make = make
        self._model: Model
        self._number: dict[int, int] = {}
        self._written: topic_partition.LeaderAndIsr | None = None
        self._epochs: dict[int, int] = {}
        self._accepted: dict[int, int] = {}
        self._pending: dict[int, Followed] = {}
        self._batches: dict[int, tuple[int, int]] = {}
        cluster.history.observers.append(self._on_event)
        cluster.server.on_transaction.append(self._on_transaction)
        manager = next(iter(cluster.brokers.values())).replica_manager
        manager.on_accepted.append(self._on_accepted)

    @property
    def state(self) -> State:
        """The present state of the model."""
        return self.states[-1]

    # -- steps of the model

    def _step(
        self, kind: str, broker: int, leader: int | None = None, epoch: int | None = None, offset: int = -1
    ) -> bool:
        """Take a step of the model, named by broker ids; return whether it is allowed."""
        if self.unexplained:
            return True
        event = Event(
            kind,
            NOBODY if broker == NOBODY else self._number[broker],
            NOBODY if leader is None else self._number[leader],
            NO_EPOCH if epoch is None else self._epochs[epoch],
            offset,
        )
        found = self._model.explain(self.state, event)
        assert len(found) <= 1, f"{event} leads to {len(found)} states"
        if not found:
            return False
        self.states.extend(found)
        self.steps += 1
        return True

    def _must(self, what: str, kind: str, broker: int, leader: int | None = None, offset: int = -1) -> None:
        """Take a step; note that it is not allowed."""
        if not self._step(kind, broker, leader, offset=offset):
            self._fail(f"{what}: the model does not allow {kind} of broker {broker}, leader {leader}, offset {offset}")

    def _fail(self, why: str) -> None:
        if not self.unexplained:
            self.unexplained = f"at {self._cluster.scheduler.now_us / 1e6:.3f} s {self._partition}: {why}"

    def _belief(self, broker: int) -> Belief:
        return self.state.beliefs[self._number[broker]]

    # -- the controller, and ISR changes of leaders

    def _on_transaction(self, transaction: Transaction) -> None:
        path = paths.state(self._partition)
        records: Sequence[object] = getattr(transaction.record, "records", (transaction.record,))
        if getattr(transaction.record, "failed", False):
            return
        for record in records:
            data = getattr(record, "data", None)
            if getattr(record, "path", "") == path and data is not None:
                self._on_state(partition_state.decode(path, data))

    def _on_state(self, after: topic_partition.LeaderAndIsr) -> None:
        if self.unexplained:
            return
        before, self._written = self._written, after
        if before is None:
            replicas = self._cluster.assignment(self._partition.topic)[self._partition.partition].replicas
            self._number = {broker: number for number, broker in enumerate(sorted(replicas))}
            self._model = self._make(len(replicas))
            self.states.append(self._model.start())
            self._by_controller([one for one in replicas if one not in after.isr], NOBODY, after)
        elif before.leader_epoch == after.leader_epoch:
            for member in before.isr:
                if member not in after.isr:
                    self._must("ISR change", "shrink", member, after.leader)
            for member in after.isr:
                if member not in before.isr:
                    self._must("ISR change", "expand", member, after.leader)
        else:
            self._by_controller([one for one in before.isr if one not in after.isr], before.leader, after)

    def _by_controller(self, removed: list[int], leader: int, after: topic_partition.LeaderAndIsr) -> None:
        if leader not in (NOBODY, after.leader) and after.leader == NOBODY and leader not in removed:
            removed.append(leader)  # the last member of an ISR stays in it
        for member in removed:
            self._must("controller", "remove", member)
        if self.unexplained:
            return
        if after.leader != NOBODY and self.state.written.leader != self._number[after.leader]:
            self._must("controller", "elect", after.leader)
        elif not removed:
            self._must("controller", "repeat", NOBODY)
        self._epochs[after.leader_epoch] = self.state.written.leader_epoch
        if not self.unexplained and self.state.written.isr != {self._number[member] for member in after.isr}:
            self._fail(f"the ISR is {after.isr}, in the model {set(self.state.written.isr)}")

    # -- replicas

    def _on_accepted(self, new: NewLeaders) -> None:
        table = self._cluster.brokers[min(self._cluster.brokers)].replica_manager.table
        names = table.partitions(new.rows.astype(np.int32)).names()
        for at, place in np.argwhere(new.accepted).tolist():
            if tuple(names[at]) == tuple(self._partition) and not self.unexplained:
                state = new.states
                self._accept(int(new.replicas[at, place]), int(state.leader[at]), int(state.leader_epoch[at]))

    def _accept(self, broker: int, leader: int, epoch: int) -> None:
        self._pending.pop(broker, None)
        self._accepted[broker] = epoch
        if leader not in self._number or self._belief(broker).leader_epoch >= self._epochs[epoch]:
            return  # there is no leader, or the process has started again
        if leader == broker:
            self._compare(broker)
            if not self._step("lead", broker, leader, epoch):
                self._fail(f"the model does not let broker {broker} lead in epoch {epoch}")
        else:
            self._pending[broker] = Followed(leader, epoch)

    def on_accepted_fetch(self, leader: int, follower: int, epoch: int | None, end: int) -> None:
        """Follow in the model when a leader accepts a fetch: the logs match up to its offset."""
        pending = self._pending.get(follower)
        if pending is not None and pending == (leader, epoch) and not self._follow(follower, end):
            self._fail(f"the model does not let broker {follower} follow {pending} with {end} records")

    def _follow(self, broker: int, end: int) -> bool:
        """Begin to follow in the model with a log of so many records; return whether it is allowed."""
        pending = self._pending[broker]
        if not self._step("follow", broker, pending.leader, pending.epoch, end):
            return False
        del self._pending[broker]
        return True

    def _on_event(self, event: HistoryEvent) -> None:
        if event.subject != str(self._partition) or not event.who.startswith("broker ") or self.unexplained:
            return
        broker = int(event.who.removeprefix("broker "))
        if event.what in ("records appended", "records fetched", "log truncated"):
            before, after = (int(text.split()[1]) for text in (event.before, event.after))
            {"records appended": self._append, "records fetched": self._fetch, "log truncated": self._truncate}[
                event.what
            ](broker, before, after)
        elif event.what == "high watermark raised" and self._leader_of(broker) == broker:
            self._advance(broker, int(event.after))

    def _append(self, broker: int, before: int, after: int) -> None:
        batch = self._log(broker).batches[-1]
        for number in range(after - before):
            self._batches[self.state.next_record] = batch.identity, batch.leader_epoch
            self._must("append", "append", broker, broker, before + number + 1)

    def _fetch(self, broker: int, before: int, after: int) -> None:
        leader = self._leader_of(broker)
        for end in range(before + 1, after + 1):
            self._must("fetch", "fetch", broker, leader, end)

    def _leader_of(self, broker: int) -> int:
        state = self._cluster.brokers[broker].replicas.state_of(self._partition)
        assert state is not None
        return state.leader

    def _truncate(self, broker: int, before: int, after: int) -> None:
        if broker not in self._pending:
            self._fail(f"broker {broker} truncates from {before} to {after}, but follows already")
        else:
            self._follow(broker, after)

    def _advance(self, broker: int, watermark: int) -> None:
        while self._belief(broker).high_watermark < watermark and not self.unexplained:
            self._must("high watermark", "advance", broker, broker, self._belief(broker).high_watermark + 1)

    # -- comparison

    def _log(self, broker: int) -> Log:
        log = self._cluster.brokers[broker].log_of(self._partition)
        assert log is not None
        return log

    def _compare(self, broker: int) -> None:
        """Compare the records of a log with those of the model."""
        log = self._cluster.brokers[broker].log_of(self._partition)
        ours = [] if log is None else [(b.identity, b.leader_epoch) for b in log.batches for _ in range(b.records)]
        theirs = [self._batches[record.id] for record in self.state.logs[self._number[broker]]]
        if ours != theirs:
            self._fail(f"broker {broker} has {len(ours)} records, in the model {len(theirs)}, or others")

    def compare(self) -> None:
        """Compare all logs, except those that are about to be truncated."""
        for broker in self._number:
            if broker not in self._pending and not self.unexplained:
                self._compare(broker)


@contextmanager
def observed_fetches(refinements: Sequence[Refinement]) -> Iterator[None]:
    """Show all fetches that leaders accept to the refinements of their partitions."""
    of = {one._partition: one for one in refinements}
    read = ReplicaLogs.read

    def read_and_tell(
        self: ReplicaLogs, follower: int, fetched: FetchedPartition, *, is_fenced: bool, max_bytes: int | None = None
    ) -> object:
        result, partition = read(self, follower, fetched, is_fenced=is_fenced, max_bytes=max_bytes), fetched.partition
        if isinstance(result, FetchedRecords) and result.diverging is None and partition in of:
            epoch = fetched.leader_epoch if is_fenced else None
            of[partition].on_accepted_fetch(self.broker_id, follower, epoch, fetched.log_end)
        return result

    ReplicaLogs.read = read_and_tell  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        ReplicaLogs.read = read  # type: ignore[method-assign]


def abstract(cluster: KafkaCluster, partition: TopicPartition) -> State:
    """Return the state of a model in which a partition is; a broker that does not run believes nothing."""
    written = cluster.state(*partition)
    replicas = sorted(cluster.assignment(partition.topic)[partition.partition].replicas)
    number = {broker: place for place, broker in enumerate(replicas)} | {NOBODY: NOBODY}
    logs, beliefs = [], []
    for broker in replicas:
        log = cluster.brokers[broker].log_of(partition)
        records = (
            ()
            if log is None
            else tuple(Record(b.identity, b.leader_epoch) for b in log.batches for _ in range(b.records))
        )
        logs.append(records)
        state = cluster.brokers[broker].replicas.state_of(partition) if cluster.brokers[broker].alive else None
        if state is None or log is None:
            beliefs.append(Belief(0, NO_EPOCH, NOBODY, frozenset()))
        else:
            isr = frozenset(number[member] for member in state.isr)
            beliefs.append(Belief(log.high_watermark, state.leader_epoch, number[state.leader], isr))
    isr = frozenset(number[member] for member in written.isr)
    sent = LeaderAndIsr(written.leader_epoch, number[written.leader], isr)
    return State(tuple(logs), tuple(beliefs), sent, frozenset(), 0, written.leader_epoch + 1)
