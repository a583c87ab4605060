"""Records that Kafka promises to keep: whether every later leader has them, and whether in-sync replicas match.

Rules of this module (docs/reference/kafka.md §2.17; StrongIsr of Kafka's TLA+ models):
  - a record is acknowledged when a leader has answered a producer; with acks 0, when a leader has appended it. It is
    committed when the high watermark of a leader has passed it, and read when a leader has sent it to a consumer;
  - a committed record that was acknowledged or read is in the log of every leader of a later epoch;
  - up to a leader's high watermark, each member of its ISR has the same batches;
  - a crash counts if it takes records from a log: power loss, replaced disks, a failed log directory. A process that is
    killed does not: the page cache outlives it;
  - a record with acks of all is also in the logs of as many replicas as `min.insync.replicas` says when it is
    acknowledged, and in the log of its own leader after a restart;
  - Kafka does not promise to keep a record that was acknowledged with acks 0 or 1 before it was committed; a record
    after an unclean election, after as many crashes as `min.insync.replicas` (or as members of the ISR that committed
    it, if it was smaller), or if the last member of an ISR that runs has had one (KIP-966). Nor does it keep a record
    if a leader has such a crash and registers again while there is no controller: the next controller takes the
    registration for the old one, and the broker leads on (brokers report unclean shutdowns with KIP-966 only). It then
    appends other records in the same leader epoch, and replicas that have the old ones cannot tell the difference;
  - an ISR member that is no replica any more may lack records: a leader does not count it for the high watermark
    (Partition.remoteReplicas), and no controller elects it;
  - older releases lose records by known defects too: up to 0.10.2 by truncation to the high watermark (KIP-101), up to
    1.1 by truncation without epochs in answers (KIP-279), up to 2.0.0 by followers that join the ISR too early
    (KAFKA-7128), up to 2.0 by followers that nobody fences (KIP-320), and 2.8.0 by fetches from records that diverge
    (KAFKA-13141);
  - such a loss is counted with its cause and no violation; every other one is a violation;
  - when a replica has been compacted, the batches before that offset tell nothing any more, in any replica: each broker
    compacts its logs by itself, and a new replica fetches what another one has left;
  - a log has no batch of a topic that was deleted, after another topic of that name was created. Before topic ids (2.8,
    KIP-516) a broker that was dead when it lost its replica takes the old log for that of the new topic;
  - a batch that a leader appends although its log has it already, because the producer sent it again, is a duplicate;
    no batch of an idempotent producer is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from simzk.kafka.log.batches import NO_EPOCH
from simzk.kafka.log.log import find_batch, first_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.kafka.log.batches import RecordBatch
    from simzk.kafka.log.log import Log
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
    from simzk.simulation import Event, History

LOGS_MATCH = "in-sync replicas have the same records up to the high watermark"
"""Name of an invariant."""
UNEXPLAINED = "unexplained"
"""Cause of a loss that Kafka's promise excludes."""
TO_ALL = "acks=all"
"""Acks of a batch that all in the ISR had."""


class RecordLoss(NamedTuple):
    """Acknowledged or read batch that a later leader does not have.

    Args:
        partition: the partition.
        batch: the batch.
        leader: the broker that leads without it.
        leader_epoch: the epoch in which it leads.
        cause: what Kafka does not promise to survive, or `UNEXPLAINED`.
        acks: the acks with which it was acknowledged, such as `acks=all`; empty if it was not.
        is_read: whether a consumer has read it.
    """

    partition: TopicPartition
    batch: RecordBatch
    leader: int
    leader_epoch: int
    cause: str
    acks: str = ""
    is_read: bool = False


@dataclass(slots=True)
class _Crash:
    """Crash of a replica that lost records: whether it was the last running member of the ISR, then or later.

    `is_noticed` is whether a controller has removed it from the ISR since, `has_failed_over` whether another controller
    was elected since.
    """

    was_last: bool
    is_noticed: bool
    has_failed_over: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether the present controller takes the replica for one that never crashed."""
        return self.has_failed_over and not self.is_noticed


@dataclass(slots=True)
class _Noted:
    """Batch that was acknowledged or committed, and what has happened to its partition since.

    Args:
        batch: the batch.
        leader_epoch: the epoch of the leader that acknowledged or committed it first.
        acks: the acks with which it was acknowledged, such as `acks=all`; empty if it was not.
        is_read: whether a consumer has read it.
        crashes_min: number of crashes that may lose it; 0 while it is not committed.
        committed_epoch: the first epoch in which it is known to be committed; None while it is not.
        crashed: brokers that lost records from their disks since.
    """

    batch: RecordBatch
    leader_epoch: int
    acks: str = ""
    is_read: bool = False
    crashes_min: int = 0
    committed_epoch: int | None = None
    crashed: dict[int, _Crash] = field(default_factory=dict)

    def commit(self, leader_epoch: int, crashes_min: int) -> None:
        """Note that a leader has committed it in an epoch, and how many crashes may lose it."""
        if crashes_min > self.crashes_min:
            self.crashes_min = crashes_min
        if self.committed_epoch is None or leader_epoch < self.committed_epoch:
            self.committed_epoch = leader_epoch

    def must_be_known(self, leader_epoch: int) -> bool:
        """Return whether a leader of an epoch has lost it if it lacks it.

        A leader that learns late of an epoch that is over does not need what was committed in the next one.
        """
        return (self.leader_epoch if self.committed_epoch is None else self.committed_epoch) <= leader_epoch

    @property
    def is_promised(self) -> bool:
        """Whether somebody relies on it."""
        return bool(self.acks) or self.is_read


class RecordLedger:
    """Acknowledged, committed and read batches of a cluster, and the losses among them.

    Args:
        history: records each loss.
        log_of: returns the log of a broker's replica, running or not; None if there is none.
        is_running: returns whether a broker's process runs and is not paused.
        defects: returns the known defects of the cluster's releases; empty for none.
        lacks_topic_ids: returns whether a broker cannot tell a log from that of a deleted topic (up to 2.7, KIP-516).

    Attributes:
        losses: all losses, with their causes.
        by_acks: number of acknowledged records by acks, such as `acks=1`.
        read: number of records that consumers have read, each counted once.
        duplicates: number of records that were appended again.
    """

    def __init__(
        self,
        history: History,
        log_of: Callable[[int, TopicPartition], Log | None],
        is_running: Callable[[int], bool],
        defects: Callable[[], str],
        lacks_topic_ids: Callable[[], bool] = lambda: False,
    ) -> None:
        self.losses: list[RecordLoss] = []
        self.by_acks: dict[str, int] = {}
        self.read: int = 0
        self.duplicates: int = 0
        kept = "are in the log of every later leader"
        self.acknowledged_kept: RecordInvariant = RecordInvariant(f"acknowledged records {kept}")
        self.enough_copies: RecordInvariant = RecordInvariant(
            "acknowledged records are in as many logs as min.insync.replicas says"
        )
        self.read_kept: RecordInvariant = RecordInvariant(f"records that a consumer has read {kept}")
        self.appended_once: RecordInvariant = RecordInvariant("a batch of an idempotent producer is in a log once")
        self.logs_match: RecordInvariant = RecordInvariant(LOGS_MATCH)
        self.none_returned: RecordInvariant = RecordInvariant(NO_RECORDS_OF_DELETED)
        self._identities = 0
        self._history = history
        self._log_of = log_of
        self._is_running = is_running
        self._defects = defects
        self._lacks_topic_ids = lacks_topic_ids
        self._noted: dict[TopicPartition, dict[RecordBatch, _Noted]] = {}
        self._gone: dict[TopicPartition, dict[RecordBatch, _Noted]] = {}  # committed and lost before anybody read them
        self._appended: dict[TopicPartition, dict[int, RecordBatch]] = {}  # the last append of each identity
        self._deleted: dict[TopicPartition, dict[int, None]] = {}  # identities of batches of deleted topics
        self._newest: dict[TopicPartition, tuple[int, int]] = {}
        self._unclean: dict[TopicPartition, int] = {}  # the epoch of the last leader that was elected uncleanly
        self._crashed: dict[TopicPartition, dict[int, _Crash]] = {}
        self._led_again: dict[TopicPartition, int] = {}  # the epoch that a leader went on with after a crash
        self._defective: dict[TopicPartition, tuple[int, str]] = {}  # the last leader epoch that began with defects
        self._isr: dict[TopicPartition, tuple[int, ...]] = {}
        self._compacted: dict[TopicPartition, int] = {}

    @property
    def acknowledged(self) -> int:
        """Number of records that were acknowledged with acks of all in the ISR."""
        return self.by_acks.get(TO_ALL, 0)

    # -- what brokers report

    def new_identity(self) -> int:
        """Return a number for a batch of a client: negative, those of the simulation's own producers are positive."""
        self._identities += 1
        return -self._identities

    def on_append(self, partition: TopicPartition, batch: RecordBatch, log: Log) -> None:
        """Note a batch that a leader has appended for a producer; it is a duplicate if the log had it already."""
        if not batch.identity:
            return
        assert batch.next_offset <= log.end, "the batch is in the log"
        appended = self._appended.get(partition)
        if appended is None:
            appended = self._appended[partition] = {}
        before = appended.get(batch.identity)
        if before is not None and find_batch(log, before.base_offset) == before:
            self.duplicates += batch.records
            if batch.producer is not None and batch.producer == before.producer:
                self.appended_once.violate(
                    f"{partition} has a batch of producer {batch.producer.producer_id} at offset {before.base_offset},"
                    f" and again at offset {batch.base_offset}"
                )
        appended[batch.identity] = batch

    def was_appended(self, partition: TopicPartition, identity: int) -> bool:
        """Return whether a leader has appended a batch, whatever became of it."""
        return identity in self._appended.get(partition, ())

    def acknowledge(
        self,
        broker: int,
        partition: TopicPartition,
        batch: RecordBatch,
        leader_epoch: int,
        acks: int,
        min_isr: int,
        replicas: Sequence[int],
    ) -> None:
        """Note a batch that a leader acknowledges; a leader of a later epoch must have it already.

        A batch that its producer sends again may be acknowledged again, and counts once.

        Args:
            broker: the leader.
            partition: the partition.
            batch: the batch.
            leader_epoch: the epoch in which it leads.
            acks: the acks of the producer, negative for all in the ISR.
            min_isr: `min.insync.replicas`.
            replicas: the assigned replicas, as the leader knows them.
        """
        assert replicas, f"{partition} is led without a replica"
        noted = self._note(partition, batch, leader_epoch)
        name = TO_ALL if acks < 0 else f"acks={acks}"
        if noted.acks in (name, TO_ALL):
            return
        self.by_acks[name] = self.by_acks.get(name, 0) + batch.records
        noted.acks = name
        if acks < 0:
            noted.commit(leader_epoch, min_isr)
            if broker not in self._crashed.get(partition, {}):  # else followers may have other records there
                self._check_copies(partition, batch, min(min_isr, len(replicas)), replicas)
        self._compare_with_newest(broker, partition, noted, leader_epoch)

    def _check_copies(
        self, partition: TopicPartition, batch: RecordBatch, required: int, replicas: Sequence[int]
    ) -> None:
        """Check that enough replicas have a batch that is acknowledged; a replica that crashed may have had it."""
        assert required <= len(replicas), "no batch has more copies than replicas"
        if self._defects_of(partition, batch) or partition in self._unclean:
            return
        crashed, copies = self._crashed.get(partition, {}), 0
        for replica in replicas:
            if replica in crashed:
                copies += 1
            elif (log := self._log_of(replica, partition)) is not None:
                copies += find_batch(log, batch.base_offset) is batch or self._has(partition, log, batch)
        if copies < required:
            self.enough_copies.violate(
                f"{batch.records} records of {partition} from {batch.base_offset} on are acknowledged,"
                f" but {copies} of {list(replicas)} have them, not {required}"
            )

    def on_read(
        self, broker: int, partition: TopicPartition, leader_epoch: int, batches: Iterable[RecordBatch]
    ) -> None:
        """Note batches that a leader sends to a consumer."""
        for batch in batches:
            noted = self._note(partition, batch, leader_epoch)
            noted.commit(leader_epoch, 1)
            if not noted.is_read:
                noted.is_read = True
                self.read += batch.records
                self._compare_with_newest(broker, partition, noted, leader_epoch)

    def _note(self, partition: TopicPartition, batch: RecordBatch, leader_epoch: int) -> _Noted:
        """Return what is noted of a batch, also of one that a leader lacked before anybody relied on it."""
        batches = self._noted.get(partition)
        if batches is None:
            batches = self._noted[partition] = {}
        if (found := batches.get(batch)) is None:
            gone = self._gone.get(partition, {}).pop(batch, None)
            found = batches[batch] = gone or _Noted(batch, leader_epoch)
        return found

    def _compare_with_newest(self, broker: int, partition: TopicPartition, noted: _Noted, leader_epoch: int) -> None:
        """Check that a leader of a later epoch than the one that relies on a batch has it."""
        epoch, leader = self._newest.get(partition, (leader_epoch, broker))
        if epoch <= leader_epoch:  # nearly always
            return
        log = self._log_of(leader, partition)
        if log is not None and not self._has(partition, log, noted.batch):
            self._lose(partition, [noted], leader, epoch)

    def on_leader(self, broker: int, partition: TopicPartition, leader_epoch: int, log: Log) -> None:
        """Check the log of a broker that begins to lead, or leads again in its epoch after a restart."""
        crash = self._crashed.get(partition, {}).get(broker)
        if crash is not None and crash.is_missed and self._newest.get(partition) == (leader_epoch, broker):
            self._led_again[partition] = leader_epoch
        self._newest[partition] = max(self._newest.get(partition, (leader_epoch, broker)), (leader_epoch, broker))
        if defects := self._defects():
            self._defective[partition] = leader_epoch, defects
        self._look_for_deleted(broker, partition, leader_epoch, log)
        if not (noted := self._noted.get(partition)):
            return
        # Logs of one cluster share their batches, so that a comparison of objects finds nearly all.
        present = {batch.base_offset: batch for batch in log.batches}
        lost = [
            one
            for batch, one in noted.items()
            if present.get(batch.base_offset) is not batch
            and one.must_be_known(leader_epoch)
            and not self._has(partition, log, batch)
        ]
        if lost:
            self._lose(partition, lost, broker, leader_epoch)

    def _look_for_deleted(self, broker: int, partition: TopicPartition, leader_epoch: int, log: Log) -> None:
        """Check that a leader has no batch of a deleted topic of the same name, unless it was sent again."""
        deleted = self._deleted.get(partition)
        if not deleted or log.is_empty:
            return
        sent_again = self._appended.get(partition, {})
        back = [one for one in log.batches if one.identity in deleted and one.identity not in sent_again]
        if back:
            count = sum(batch.records for batch in back)
            self.none_returned.violate(
                f"broker {broker} leads {partition} in epoch {leader_epoch} with {count} records of a deleted topic,"
                f" from {back[0].base_offset} on",
                issue="KIP-516" if self._lacks_topic_ids() else "",
            )
            del self._deleted[partition]  # said once

    def on_watermark(
        self, partition: TopicPartition, leader_epoch: int, batches: Iterable[RecordBatch], crashes_min: int
    ) -> None:
        """Note batches that the high watermark of a leader has passed.

        Args:
            partition: the partition.
            leader_epoch: the leader's epoch.
            batches: the batches.
            crashes_min: number of crashes that may lose them.
        """
        for batch in batches:
            self._note(partition, batch, leader_epoch).commit(leader_epoch, crashes_min)

    def on_committed(
        self, broker: int, partition: TopicPartition, leader_epoch: int, isr: Iterable[int], log: Log, since: int = 0
    ) -> None:
        """Check that the members of a leader's ISR have the records from an offset to the high watermark.

        Called when the high watermark rises, and when the ISR changes.
        """
        assert since <= log.high_watermark <= log.end, "a high watermark is within the log"
        if (leader_epoch, broker) < self._newest.get(partition, (leader_epoch, broker)):
            return  # a leader that has not heard of its successor
        if partition in self._unclean:
            return
        crashed = self._crashed.get(partition, {})
        if broker in crashed:
            return
        since = max(since, self.compacted_to(partition))
        for member in isr:
            other = None if member == broker or member in crashed else self._log_of(member, partition)
            if other is None:
                continue
            offset = first_difference(log, other, log.high_watermark, since=since)
            if offset is None and other.end < log.high_watermark:
                offset = other.end
            if offset is not None and not self._is_of_epoch_led_again(partition, log, offset):
                self.logs_match.violate(
                    f"{partition} is committed up to {log.high_watermark} by broker {broker}, "
                    f"but broker {member} of its ISR differs at offset {offset}",
                    issue=self._defects_of(partition, find_batch(log, offset)),
                )

    def _is_of_epoch_led_again(self, partition: TopicPartition, log: Log, offset: int) -> bool:
        """Return whether an offset is of the epoch in which a leader went on without its records.

        Its new records have offsets and epoch of the lost ones, so some followers keep the old ones (KIP-966).
        """
        batch = find_batch(log, offset)
        return batch is not None and batch.leader_epoch == self._led_again.get(partition)

    def on_crash(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        """Note a crash that took records from a broker's logs."""
        for partition in partitions:
            isr = self._isr.get(partition, ())
            crash = _Crash(was_last=isr == (broker,), is_noticed=broker not in isr)
            self._crashed.setdefault(partition, {})[broker] = crash
            for one in self._noted.get(partition, {}).values():
                one.crashed[broker] = crash

    def has_crashed(self, partition: TopicPartition, broker: int) -> bool:
        """Return whether a crash has taken records from a broker's log of a partition."""
        return broker in self._crashed.get(partition, ())

    def on_compacted(self, partition: TopicPartition, offset: int) -> None:
        """Note that a replica was compacted up to an offset: from then on its batches before it tell nothing."""
        self._compacted[partition] = max(self._compacted.get(partition, 0), offset)
        for noted in (self._noted.get(partition, {}), self._gone.get(partition, {})):
            for batch in [one for one in noted if one.next_offset <= offset]:
                del noted[batch]

    def compacted_to(self, partition: TopicPartition) -> int:
        """Return the offset before which the records of a partition tell nothing; 0 if no replica was compacted."""
        return self._compacted.get(partition, 0)

    def on_controller_elected(self) -> None:
        """Note that another controller was elected, which does not know which brokers have restarted."""
        for crashed in self._crashed.values():
            for crash in crashed.values():
                crash.has_failed_over = True

    def on_state(self, partition: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
        """Note the ISR of a partition state in ZooKeeper, and whether its leader was elected uncleanly."""
        self._isr[partition] = state.isr
        for broker, crash in self._crashed.get(partition, {}).items():
            is_elected = before is not None and before.leader != state.leader == broker
            others = before.isr if before is not None and is_elected else state.isr
            if broker not in state.isr:
                crash.is_noticed = True
            elif not any(member != broker and (not is_elected or self._is_running(member)) for member in others):
                crash.was_last = True
        if before is not None and before.leader != state.leader >= 0 and state.leader not in before.isr:
            self._unclean[partition] = state.leader_epoch

    def forget(self, topic: str) -> None:
        """Remove the records of a deleted topic; none of them may come back."""
        for partition, appended in self._appended.items():
            if partition.topic == topic:
                self._deleted.setdefault(partition, {}).update(dict.fromkeys(appended))
        of_batches = (self._noted, self._gone, self._appended)
        others = (
            self._newest,
            self._unclean,
            self._crashed,
            self._led_again,
            self._isr,
            self._compacted,
            self._defective,
        )
        for noted in (*of_batches, *others):
            for partition in [one for one in noted if one.topic == topic]:
                del noted[partition]

    def _has(self, partition: TopicPartition, log: Log, batch: RecordBatch) -> bool:
        """Return whether a log has a batch, or may have had it before records were deleted or compacted."""
        since = max(log.start, self.compacted_to(partition))
        return batch.next_offset <= since or find_batch(log, batch.base_offset) == batch

    # -- losses

    def _lose(self, partition: TopicPartition, lost: list[_Noted], leader: int, leader_epoch: int) -> None:
        """Count batches as lost, once, and record them; those that nobody relies on yet are only set aside."""
        for one in lost:
            assert one.must_be_known(leader_epoch), "an older leader may lack the batch"
            del self._noted[partition][one.batch]
            if not one.is_promised:
                self._gone.setdefault(partition, {})[one.batch] = one
                continue
            cause = self._cause(partition, one, leader)
            assert cause, "a batch that somebody relies on is acknowledged or committed"
            self.losses.append(RecordLoss(partition, one.batch, leader, leader_epoch, cause, one.acks, one.is_read))
            what = f"{one.batch.records} records from {one.batch.base_offset} on"
            if cause == UNEXPLAINED:
                found = f"broker {leader} leads {partition} in epoch {leader_epoch} without {what}"
                if one.acks:
                    self.acknowledged_kept.violate(found)
                if one.is_read:
                    self.read_kept.violate(found)
            kind = "acknowledged records lost" if one.acks else "read records lost"
            self._history.record(f"broker {leader}", kind, str(partition), what, cause)

    def _cause(self, partition: TopicPartition, lost: _Noted, leader: int) -> str:
        if self._unclean.get(partition, lost.leader_epoch) > lost.leader_epoch:
            return "unclean election"
        if not lost.crashes_min:
            return lost.acks
        if len(lost.crashed) >= lost.crashes_min:
            return "min.insync.replicas crashes"
        if any(crash.was_last for crash in lost.crashed.values()):
            return "KIP-966"
        own = lost.crashed.get(leader)
        if (own is not None and own.is_missed) or self._led_again.get(partition) == lost.leader_epoch:
            return "crash without a controller"
        return self._defects_of(partition, lost.batch) or UNEXPLAINED

    def _defects_of(self, partition: TopicPartition, batch: RecordBatch | None) -> str:
        """Return the defects of the cluster's releases by which a batch may be lost or differ; empty for none.

        After an upgrade the batches of earlier leader epochs are what they were. Followers truncate those without an
        epoch to their high watermark (KIP-101): a leader of an old release appended them, or one at an old protocol.
        """
        if (defects := self._defects()) or batch is None:
            return defects
        epoch, earlier = self._defective.get(partition, (NO_EPOCH, "KIP-101"))
        return earlier if batch.leader_epoch <= epoch else ""


class RecordInvariant:
    """A condition on records, of which the ledger finds the violations.

    Args:
        name: the condition.

    Attributes:
        issue: the bug of Kafka by which a release breaks it, of the violation that `check` has returned last; empty for
            none.
        on_violation: called when a violation is found.
        reads: the kinds of event that it reads: none.
    """

    reads: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, name: str) -> None:
        self.name = name
        self.issue: str = ""
        self.on_violation: list[Callable[[], None]] = []
        self._violations: list[tuple[str, str]] = []

    def violate(self, detail: str, *, issue: str = "") -> None:
        """Note a violation, and the bug of Kafka that it is by; each is reported with an event of its own."""
        assert detail, "an empty text is no violation"
        self._violations.append((detail, issue))
        for observer in self.on_violation:
            observer()

    @property
    def first(self) -> str | None:
        """The next violation that is by no known bug; None if there is none."""
        return next((detail for detail, issue in self._violations if not issue), None)

    def check(self, _event: Event) -> str | None:
        """Return the next violation."""
        if not self._violations:
            return None
        detail, self.issue = self._violations.pop(0)
        return detail


NO_RECORDS_OF_DELETED = "no log has records of a deleted topic of the same name"
"""Name of an invariant."""


def record_invariants(ledger: RecordLedger) -> tuple[RecordInvariant, ...]:
    """Return the invariants of records; a loss that Kafka does not promise to avoid violates none."""
    return (
        ledger.acknowledged_kept,
        ledger.enough_copies,
        ledger.read_kept,
        ledger.appended_once,
        ledger.logs_match,
        ledger.none_returned,
    )
