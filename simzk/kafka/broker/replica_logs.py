"""Replicas with logs on one broker: appends, reads, truncation, high watermarks, followers' progress, ISR as leader.

Rules of this module (Partition, Replica, ReplicaManager, LogManager; docs/reference/kafka.md §2.7, §2.8, §2.13, §2.17):
  - `replica_manager` decides which LeaderAndIsr and StopReplica requests a replica accepts;
  - a leader appends what producers send as batches with its leader epoch, a follower what it fetches;
  - up to 0.10.2 a follower truncates to its high watermark whenever its leader changes. Later it first asks the new
    leader where its last epoch ends, or finds out with its first fetch (KIP-101, KIP-279, KIP-595); `fetching` asks;
  - a follower whose log end offset is not in the leader's log truncates to the leader's log end offset;
  - an empty log has nothing to truncate, so its follower asks nothing;
  - high watermarks are written to disk every 5 s and at a clean shutdown, and read again at the start;
  - a follower accepts no LeaderAndIsr whose leader is not available: there is none, or the metadata cache does not have
    it. It only makes the log; leader and leader epoch stay, -1 at first, and so does what it fetches. The controller
    gets no error (ReplicaManager.makeFollowers: "cannot become follower since the new leader is unavailable");
  - a leader knows nothing of its followers until they fetch. One that stays leader in a new epoch keeps their log end
    offsets since 0.9, also of dead followers; since 0.10.2 those in the ISR count as caught up when the epoch begins;
  - a follower is in sync once it has fetched up to the high watermark, since 2.0.1 also up to the start of the leader's
    epoch (KAFKA-7128). It is out of sync when it has been behind the log end offset for `replica.lag.time.max.ms`;
    since 2.1 a follower with the whole log never is (KAFKA-7152);
  - the high watermark is the least log end offset of the ISR; while another ISR is proposed, of both ISRs (§2.8);
  - since 0.10.2 a follower outside the ISR that was caught up within `replica.lag.time.max.ms` counts as well, so that
    it can join; since 3.6 only if the leader takes it for alive;
  - the high watermark never falls by this. Since 3.7 it does not rise while the ISR is smaller than
    `min.insync.replicas` (KAFKA-15583);
  - `isr_changes` decides which ISRs a leader proposes;
  - the check for lagging followers iterates a set of the led partitions (up to 0.8.1), later a ConcurrentHashMap of all
    partitions of the broker (ReplicaManager.maybeShrinkIsr). A member of the ISR outside the assignment lags; from 2.4
    to 2.8 the check throws there, and comes to no other partition (KAFKA-9672).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.jvm.hash_map import concurrent_order
from simzk.jvm.scala_collections import mutable_order, mutable_set_order
from simzk.kafka.broker.isr_changes import LeaderIsrs
from simzk.kafka.log.batches import NO_EPOCH, NewBatch
from simzk.kafka.log.compaction import compact
from simzk.kafka.log.leader_epochs import UNDEFINED, EpochEnd
from simzk.kafka.log.log import Log
from simzk.kafka.log.producer_state import SequenceRules, check_coordinator_batch, check_sequence
from simzk.kafka.log.record_batches import stamped
from simzk.kafka.log.segments import count_expired
from simzk.kafka.log.truncation import truncation_after
from simzk.kafka.metadata.changes import IsrProposal, PartitionUpdate, PartitionUpdates, Proposals, ReplicaStops
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import (
    AlteredPartitions,
    ControlResponse,
    EpochEndsResponse,
    LogRange,
    ReadResponse,
)
from simzk.kafka.topic_partition import Collections, LeaderAndIsr, TopicPartition, cluster_partition_hash, named
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.states import states_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from simzk.kafka.broker.configs import TopicConfigs
    from simzk.kafka.broker.log_dirs import LogDirs
    from simzk.kafka.broker.replica_manager import ReplicaManager
    from simzk.kafka.broker.timing import BrokerTiming
    from simzk.kafka.log.batches import RecordBatch
    from simzk.kafka.log.compaction import DirtyPart
    from simzk.kafka.log.producer_state import KeptBatch, ProducerEntry
    from simzk.kafka.metadata.changes import ReplicaStop
    from simzk.kafka.observation.records import RecordLedger
    from simzk.kafka.releases.profile import KafkaVersion, OrderRules
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.requests import AppendRequest, EpochEndsRequest, FetchedPartition, ReadRequest
    from simzk.partitions.arrays import BoolArray, IntArray
    from simzk.partitions.states import States
    from simzk.simulation import History, Process

LAG_MESSAGES_KEY = "replica.lag.max.messages"
"""A setting of 0.8 only (KIP-16)."""
ALL = -1
"""`acks` of a producer that waits for all replicas in the ISR."""
NEVER_US = -(1 << 60)
"""When a follower was last caught up, if it never was."""
WATERMARKS_SAVED_US = 5_000_000
"""`replica.high.watermark.checkpoint.interval.ms`: 5 s by default."""
_NO_STATE = LeaderAndIsr(-1, -1, (), -1, version=-1)


@dataclass(slots=True)
class FollowerProgress:
    """Log end offset of a follower, when it last had the whole log of the leader, and its log start offset.

    Args:
        has_fetched: whether it has fetched since the leader's present epoch began.
    """

    log_end: int = -1
    caught_up_us: int = NEVER_US
    log_start: int = 0
    has_fetched: bool = False


class LogOnDisk(NamedTuple):
    """Log and checkpointed high watermark that a starting broker finds."""

    log: Log
    high_watermark: int


class FetchedRecords(NamedTuple):
    """Result of a fetch: the next batches, or where the logs differ.

    Args:
        batches: the batches from the fetch offset on.
        diverging: end of the last epoch that both logs have, if the follower's log differs before the fetch offset.
    """

    batches: tuple[RecordBatch, ...]
    diverging: EpochEnd | None = None


NOTHING_TO_FETCH = FetchedRecords(())
"""Result of a fetch without batches from a log that does not differ: nearly always at the log end offset."""


@dataclass(slots=True)
class Replica:
    """One replica with a log.

    Args:
        state: the last accepted state, with changes of the ISR that this replica made as leader; it is kept here as
            Python values because every fetch reads it.
        saved_watermark: the high watermark in the checkpoint file.
        proposed: the ISR that waits for an answer.
        followers: the progress of followers, as leader.
        epoch_start: the log end offset with which this replica began to lead.
        truncates: whether this follower has to truncate its log before it fetches.
        opened_us: when the broker opened it.
    """

    partition: TopicPartition
    state: LeaderAndIsr
    replicas: tuple[int, ...]
    log: Log = field(default_factory=Log)
    saved_watermark: int = 0
    proposed: tuple[int, ...] | None = None
    followers: dict[int, FollowerProgress] = field(default_factory=dict)
    epoch_start: int = 0
    truncates: bool = False
    opened_us: int = 0

    @property
    def log_end(self) -> int:
        """The log end offset."""
        return self.log.end

    @property
    def high_watermark(self) -> int:
        """The high watermark."""
        return self.log.high_watermark


@dataclass(eq=False, repr=False)
class ReplicaLogs:
    """All replicas with logs of one broker, from the start of its process to the end.

    Args:
        manager: the replicas of the whole cluster.
        history: records what happens to logs, and refused proposals.
        ledger: the acknowledged records of the cluster.
        timing: when followers may join ISRs, and whether leaders check them.
        logs_on_disk: logs of the previous process; each is removed when its replica is opened.
        propose_isr: sends a proposed ISR to the controller, or writes it; false if it does not accept it yet.
        withdraw_isr: forgets the proposed ISR of a partition.
        follow: called with replicas that changed their leader or leader epoch.
        is_alive: whether the broker takes another for alive; up to 3.2 always true.
        is_available: whether a replica may follow a leader.
        now_ms: returns the present time, in ms since 1970.

    Attributes:
        on_watermark: called with each partition whose high watermark rose.
        on_leadership: called with each partition that this broker began or ceased to lead.
        on_logs_changed: called with partitions whose fetch requests must be answered.
        on_readable: called with each partition of which clients may read more or less: its high watermark, its log
            start offset, its leader or its replica changed.
        on_first_segment: called when a log without segments gets records with content, or one with segments is opened.
        on_start: called with each partition of which a follower has a new log start offset.
        on_future: called when a replica is opened whose log is being moved.
        raised_starts: partitions with a log start offset above 0.
    """

    broker_id: int
    version: KafkaVersion
    config: BrokerConfig
    process: Process
    manager: ReplicaManager
    history: History
    ledger: RecordLedger
    timing: BrokerTiming
    logs_on_disk: dict[TopicPartition, LogOnDisk]
    log_dirs: LogDirs
    configs: TopicConfigs
    propose_isr: Callable[[IsrProposal], bool]
    withdraw_isr: Callable[[TopicPartition], None]
    follow: Callable[[Iterable[Replica]], None]
    is_alive: Callable[[int], bool]
    is_available: Callable[[int], bool]
    now_ms: Callable[[], int]

    def __post_init__(self) -> None:
        version, config = self.version, self.config
        self.replicas: dict[TopicPartition, Replica] = {}
        self._of_topic: dict[str, dict[TopicPartition, Replica]] = {}
        self._most_replicas = 0
        self.on_watermark: Callable[[TopicPartition], None] = lambda _: None
        self.on_leadership: Callable[[TopicPartition], None] = lambda _: None
        self.on_logs_changed: Callable[[Sequence[TopicPartition]], None] = lambda _: None
        self.on_readable: Callable[[TopicPartition], None] = lambda _: None
        self.on_first_segment: Callable[[], None] = lambda: None
        self.on_start: Callable[[TopicPartition], None] = lambda _: None
        self.on_future: Callable[[], None] = lambda: None
        self.raised_starts: dict[TopicPartition, None] = {}
        self._scheduler = self.process.scheduler
        self._isrs = LeaderIsrs(self, version.orders.scala, self.is_alive)
        self._lag_max_us = config.integer("replica.lag.time.max.ms") * 1000
        self._lag_max_messages = config.integer(LAG_MESSAGES_KEY) if LAG_MESSAGES_KEY in version.defaults else None
        self._flush_interval = config.integer("log.flush.interval.messages")
        self._name = f"broker {self.broker_id}"
        self._sequences = SequenceRules(
            version.broker.recognized_duplicates,
            ErrorCode[version.broker.unknown_producer],
            ErrorCode[version.broker.producer_after_marker],
        )
        # Up to 2.3 a leader lets a follower join that is not in its assignment: a reassignment widens only the topic.
        self._accepts_unassigned = not version.controller.writes_union_assignment
        self._unsaved: dict[TopicPartition, None] = {}
        self._last_fetch_us: dict[int, int] = {}
        self._ineligible: dict[tuple[TopicPartition, int], None] = {}

    def leads(self, partition: TopicPartition) -> bool:
        """Return whether this broker takes itself for the leader of a partition."""
        replica = self.replicas.get(partition)
        return replica is not None and replica.state.leader == self.broker_id

    def state_of(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """Return the present state of a replica; None if the broker has none."""
        replica = self.replicas.get(partition)
        return None if replica is None else replica.state

    def start_timers(self) -> None:
        """Start to check for lagging followers and to save high watermarks, both now and periodically."""
        if self.timing.checks_isrs:
            self._check_isrs()
        self._save_watermarks_periodically()

    def _check_isrs(self) -> None:
        self.shrink_isrs()
        self.process.call_later(self._lag_max_us // self.version.broker.isr_checks_per_lag_time, self._check_isrs)

    def _save_watermarks_periodically(self) -> None:
        self.save_watermarks()
        self.process.call_later(WATERMARKS_SAVED_US, self._save_watermarks_periodically)

    # -- control requests

    def lead_and_follow(self, updates: Sequence[PartitionUpdate], topic_ids: Mapping[str, str]) -> ControlResponse:
        assert isinstance(updates, PartitionUpdates)
        errors = self._open_logs(updates)
        if topic_ids and self.version.broker.checks_topic_ids:
            errors |= self._of_other_topics([update.partition for update in updates], topic_ids)
        opened = np.array([update.partition not in errors for update in updates], dtype=np.bool_)
        available = np.array([self._is_led(update.state.leader) for update in updates], dtype=np.bool_)
        unled = self._make_logs([update for update, may in zip(updates, opened & ~available, strict=True) if may])
        accepted = self.manager.accept_on(self.broker_id, updates, opened & available).tolist()
        changed = [self._apply(update) for update, is_accepted in zip(updates, accepted, strict=True) if is_accepted]
        self._note_topic_ids(updates, topic_ids, errors)
        self.follow(changed)
        for replica in changed:
            self.on_leadership(replica.partition)
        self.on_logs_changed([update.partition for update in updates])
        for replica in changed:
            self.on_readable(replica.partition)
        refused: tuple[TopicPartition, ...] = ()
        if len(changed) < len(updates):
            outcomes = zip(updates, opened.tolist(), accepted, strict=True)
            refused = tuple(
                one.partition
                for one, has_log, is_accepted in outcomes
                if has_log and not is_accepted and one.partition not in unled
            )
        return ControlResponse(ErrorCode.NONE, errors, refused)

    def _is_led(self, leader: int) -> bool:
        """Return whether a partition has a leader that this broker may follow, or is."""
        return leader == self.broker_id or self.is_available(leader)

    def _make_logs(self, updates: Sequence[PartitionUpdate]) -> dict[TopicPartition, None]:
        """Make the logs of replicas that cannot follow; return the partitions in a leader epoch that would be new."""
        newer: dict[TopicPartition, None] = {}
        for partition, state, assignment, _ in updates:
            replica = self.replicas.get(partition)
            if replica is None:
                replica = self._open(partition, _NO_STATE, assignment.replicas)
            if state.leader_epoch > replica.state.leader_epoch:
                newer[partition] = None
        return newer

    def _open_logs(self, updates: Sequence[PartitionUpdate]) -> dict[TopicPartition, ErrorCode]:
        """Open or create the logs; return an error for each log in a failed log directory.

        The order decides in which directory a new log is created: those of leaders first, then as Kafka's map of
        partitions iterates.
        """
        by_partition = {update.partition: update for update in updates}
        ordered = mutable_order(by_partition, self.version.orders.scala, cluster_partition_hash)
        ordered.sort(key=lambda partition: by_partition[partition].state.leader != self.broker_id)
        opened = {p: self.log_dirs.open(p, is_new=by_partition[p].is_new) for p in ordered}
        return {p: ErrorCode.KAFKA_STORAGE_ERROR for p, found in opened.items() if not found}

    def _of_other_topics(
        self, partitions: Sequence[TopicPartition], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return an error for each partition whose log belongs to another topic of that name (hasConsistentTopicId)."""
        errors = {}
        for partition in partitions:
            found = self.replicas.get(partition) or self.logs_on_disk.get(partition)
            known, wanted = None if found is None else found.log.topic_id, topic_ids.get(partition.topic)
            if known is not None and wanted is not None and known != wanted:
                errors[partition] = ErrorCode.INCONSISTENT_TOPIC_ID
        return errors

    def _note_topic_ids(
        self,
        updates: Sequence[PartitionUpdate],
        topic_ids: Mapping[str, str],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        """Store the ids of topics in the logs that have none, also if the leader epoch is not new."""
        if not topic_ids or not self.version.broker.checks_topic_ids:
            return
        for partition, *_ in updates:
            replica = self.replicas.get(partition)
            if replica is not None and replica.log.topic_id is None and partition not in errors:
                replica.log.topic_id = topic_ids.get(partition.topic)

    def _apply(self, update: PartitionUpdate) -> Replica:
        """Take over an accepted update; open the replica if it is not open."""
        partition, state = update.partition, update.state
        replica = self.replicas.get(partition)
        previous_leader = None
        assert self.log_dirs.directory_of(partition) is not None, f"the log of {partition} is not open"
        if replica is None:
            replica = self._open(partition, state, update.assignment.replicas)
        else:
            assert state.leader_epoch > replica.state.leader_epoch, f"{partition} accepted an old leader epoch"
            previous_leader = replica.state.leader
        missed_epochs = state.leader_epoch - replica.state.leader_epoch > 1
        replica.state = state
        replica.replicas = update.assignment.replicas
        replica.proposed = None
        if self.version.broker.withdraws_isr_proposals:
            self.withdraw_isr(partition)
        stays = self.version.broker.keeps_followers_when_leader_stays and previous_leader == self.broker_id
        known, replica.followers = replica.followers if stays else {}, {}
        replica.truncates = False
        if state.leader == self.broker_id:
            self._lead(replica, known)
        elif state.leader not in (previous_leader, -1) and self.version.broker.truncates_to_high_watermark:
            self._truncate(replica, replica.high_watermark)
        elif state.leader != -1 and not self.version.broker.truncates_to_high_watermark:
            self._require_truncation(replica, is_new=state.leader != previous_leader, missed_epochs=missed_epochs)
        return replica

    def _open(self, partition: TopicPartition, state: LeaderAndIsr, replicas: tuple[int, ...]) -> Replica:
        """Open a replica with its log on disk, or with a new one."""
        replica = Replica(partition, state, replicas, opened_us=self._scheduler.now_us)
        if (found := self.logs_on_disk.pop(partition, None)) is not None:
            replica.log, replica.saved_watermark = found
            replica.log.recover()
            if not self.version.znodes.has_topic_ids:  # LogManager deletes `partition.metadata` at its start
                replica.log.topic_id = None
            replica.log.set_high_watermark(found.high_watermark)
        if replica.log.start:
            self.raised_starts[partition] = None
        if replica.log.segments:
            self.on_first_segment()
        replica.log.epochs.resolves_conflicts = self.version.broker.epochs_begin_with_leadership
        replica.log.epochs.drops_empty = self.version.broker.truncation_drops_empty_epochs
        replica.log.lists_empty_transactions = self.version.broker.lists_empty_transactions
        self.replicas[partition] = self._of_topic.setdefault(partition.topic, {})[partition] = replica
        self._most_replicas = max(self._most_replicas, len(self.replicas))
        if partition in self.log_dirs.futures:
            self.on_future()
        self.configs.open(partition.topic)
        return replica

    def _lead(self, replica: Replica, known: Mapping[int, FollowerProgress]) -> None:
        """Begin to lead in a new leader epoch (Partition.makeLeader).

        Args:
            replica: the replica.
            known: followers of which the leader keeps the offsets, because it led before.
        """
        assert replica.state.leader == self.broker_id
        assert replica.proposed is None
        assert not replica.followers
        now_us, log = self._scheduler.now_us, replica.log
        replica.epoch_start = log.end
        if not log.is_empty:
            begins = f"epoch {replica.state.leader_epoch} from {log.end}"
            self.history.record(self._name, "begins to lead", str(replica.partition), "", begins)
        self.ledger.on_leader(self.broker_id, replica.partition, replica.state.leader_epoch, log)
        if self.version.broker.truncates_to_epoch_end and self.version.broker.epochs_begin_with_leadership:
            log.epochs.assign(replica.state.leader_epoch, log.end)
        resets = self.version.broker.resets_caught_up_times
        for broker in replica.replicas:
            if broker == self.broker_id:
                continue
            progress = known.get(broker) or FollowerProgress(caught_up_us=replica.opened_us)
            if resets:
                progress.caught_up_us = now_us if broker in replica.state.isr else NEVER_US
            progress.has_fetched = False
            replica.followers[broker] = progress
        self._advance_watermark(replica)

    def _require_truncation(self, replica: Replica, *, is_new: bool, missed_epochs: bool) -> None:
        """Let a follower in a new leader epoch truncate before it fetches, if its log could differ from the leader's.

        With the same leader it does so since 2.1, where fetches name the epoch (Partition.makeFollower).
        """
        assert replica.state.leader not in (-1, self.broker_id)
        rules = self.version.broker
        if is_new or rules.fetches_have_leader_epochs or (rules.truncates_after_missed_epochs and missed_epochs):
            by_fetch = rules.truncates_on_fetch and replica.log.epochs.latest != NO_EPOCH
            replica.truncates = not replica.log.is_empty and not by_fetch

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Close replicas whose log directory failed: they neither lead nor follow any more."""
        count = len(partitions)
        every = ReplicaStops(named(partitions), np.ones(count, dtype=np.bool_), np.full(count, -1, dtype=np.int32))
        self.manager.stop(self.broker_id, every)
        for partition in partitions:
            self.logs_on_disk.pop(partition, None)
        self._close([self._remove(partition) for partition in partitions if partition in self.replicas])
        self.on_logs_changed(partitions)

    def stop(self, stops: Sequence[ReplicaStop]) -> ControlResponse:
        """Stop replicas, and delete the logs of those to be deleted."""
        assert isinstance(stops, ReplicaStops)
        stopped = []
        errors = {}
        all_fenced = self.manager.stop(self.broker_id, stops, self.version.broker.stop_epochs)
        for stop, fenced in zip(stops, all_fenced.tolist(), strict=True):
            partition = stop.partition
            errors[partition] = ErrorCode.NONE
            if partition in self.log_dirs.offline:
                errors[partition] = ErrorCode.KAFKA_STORAGE_ERROR
            elif fenced:
                errors[partition] = ErrorCode.FENCED_LEADER_EPOCH
            else:
                if partition in self.replicas:
                    stopped.append(self._remove(partition) if stop.delete else self.replicas[partition])
                if stop.delete:
                    self.log_dirs.delete(partition)
        self._close(stopped)
        for stop in stops:
            if stop.delete:
                self.logs_on_disk.pop(stop.partition, None)
        self.on_logs_changed([stop.partition for stop in stops])
        return ControlResponse(ErrorCode.NONE, errors)

    def _remove(self, partition: TopicPartition) -> Replica:
        of_topic = self._of_topic[partition.topic]
        assert of_topic[partition] is self.replicas[partition]
        del of_topic[partition]
        if not of_topic:
            del self._of_topic[partition.topic]
        return self.replicas.pop(partition)

    def _close(self, stopped: Sequence[Replica]) -> None:
        """Let replicas neither lead nor follow; the leader epoch stays."""
        for replica in stopped:
            replica.state = replica.state._replace(leader=-1)
        self.follow(stopped)
        for replica in stopped:
            self.on_leadership(replica.partition)
            self.on_readable(replica.partition)

    # -- logs

    def refuses_append(self, partition: TopicPartition, *, to_all: bool) -> ErrorCode | None:
        """Return the error that rejects records for a partition, whatever they are; None if they may be appended.

        With acks of all in the ISR `min.insync.replicas` is checked.
        """
        replica = self.replicas.get(partition)
        if replica is None or replica.state.leader != self.broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if to_all and len(replica.state.isr) < self._min_isr(replica):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return None

    def append(self, request: AppendRequest) -> int | ErrorCode:
        """Append batches of a producer, or of a coordinator.

        Returns:
            The offset of the first record, or the error that rejects them. A batch that an idempotent producer sends
            again is not appended; the offset is that of the first time.
        """
        partition, batches = request.partition, request.batches
        if (refused := self.refuses_append(partition, to_all=request.acks == ALL)) is not None:
            return refused
        replica = self.replicas[partition]
        duplicate = self._check_producers(replica, batches, is_of_coordinator=request.is_of_coordinator)
        if isinstance(duplicate, ErrorCode):
            return duplicate
        if duplicate is not None:
            return duplicate.first_offset
        for follower, progress in replica.followers.items():
            if (
                progress.has_fetched and progress.log_end == replica.log.end
            ):  # it had the whole log when it last fetched
                progress.caught_up_us = max(progress.caught_up_us, self._last_fetch_us.get(follower, 0))
        base_offset = replica.log.end
        self._append(replica, batches or (NewBatch(request.records),), request.identity)
        self._flush_if_due(replica)
        assert replica.log.end > base_offset, f"nothing was appended to {partition}"
        self._record_end(replica, "records appended", base_offset)
        self._advance_watermark(replica)
        return base_offset

    def _append(self, replica: Replica, batches: Sequence[NewBatch], identity: int) -> None:
        """Append batches with their offsets, the leader epoch and, with content, a new identity."""
        epoch = replica.state.leader_epoch if self.version.broker.truncates_to_epoch_end else NO_EPOCH
        now_us = self._scheduler.now_us
        if batches[0].payload is not None:
            self._make_room(replica, batches)
        for records, data, producer, is_as_sent in batches:
            payload = None if data is None else stamped(data, replica.log.end, records, epoch)
            known = identity if payload is None else self.ledger.new_identity()
            batch = replica.log.append(
                records,
                leader_epoch=epoch,
                identity=known,
                payload=payload,
                producer=producer,
                at_us=now_us,
                is_as_sent=is_as_sent,
            )
            self.ledger.on_append(replica.partition, batch, replica.log)

    def _make_room(self, replica: Replica, batches: Sequence[NewBatch | RecordBatch]) -> None:
        """Prepare a log for batches with content: they may begin a new segment."""
        assert batches[0].payload is not None, "batches without content need no segment"
        config, by_timestamps = self.configs.of_log(replica.partition.topic), self.version.log.dates_segments_by_records
        if not replica.log.segments:
            self.on_first_segment()
        replica.log.make_room(batches, config, self.now_ms(), by_timestamps=by_timestamps)

    def _check_producers(
        self, replica: Replica, batches: Sequence[NewBatch], *, is_of_coordinator: bool
    ) -> KeptBatch | ErrorCode | None:
        """Return the batch that an idempotent producer sent before, or the error that rejects the batches."""
        for batch in batches:
            if (stamp := batch.producer) is None:
                continue
            entry = self.producer_entry(replica.partition, stamp.producer_id)
            result: KeptBatch | ErrorCode | None = (
                check_coordinator_batch(entry, stamp)
                if is_of_coordinator
                else check_sequence(entry, stamp, batch.records, self._sequences)
            )
            if result is not None:
                return result
        return None

    def producer_entry(self, partition: TopicPartition, producer_id: int) -> ProducerEntry | None:
        """Return the state of a producer in the log of a partition; None if the broker knows none."""
        replica = self.replicas.get(partition)
        known = None if replica is None else replica.log.producers
        return None if known is None else known.entries.get(producer_id)

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        """Delete the records of a log before an offset, at most its high watermark; followers do so when they fetch."""
        self._delete_before(self.replicas[partition], offset)

    def raise_start(self, partition: TopicPartition, offset: int) -> bool:
        """Delete the records of a follower that its leader deleted, up to its high watermark; return whether any."""
        replica = self._follower(partition)
        return self._delete_before(replica, min(offset, replica.high_watermark))

    def _delete_before(self, replica: Replica, offset: int) -> bool:
        start, partition = replica.log.start, replica.partition
        if offset <= start:
            return False
        replica.log.delete_before(offset)
        self.raised_starts[partition] = None
        self.history.record(self._name, "records deleted", str(partition), f"start {start}", f"start {offset}")
        self.on_readable(partition)
        return True

    def with_segments(self) -> list[Replica]:
        """Return the replicas whose logs have records with content."""
        return [replica for replica in self.replicas.values() if replica.log.segments]

    def delete_old_segments(self, replica: Replica) -> None:
        """Delete the segments of a log that its configuration does not keep; its log start offset rises."""
        log, now_ms = replica.log, self.now_ms()
        config = self.configs.of_log(replica.partition.topic)
        count = count_expired(log.segments, log.end, log.high_watermark, config, self.version.log, now_ms)
        if count == len(log.segments):
            log.roll(now_ms)
        if count:
            # Up to 0.10.2 even records that are not committed are deleted; then the high watermark follows.
            start = log.segments[count].base_offset
            self._set_watermark(replica, max(start, replica.high_watermark))
            self._delete_before(replica, start)

    def compact(self, replica: Replica, dirty: DirtyPart) -> None:
        """Compact the dirty part of a log."""
        log, partition = replica.log, replica.partition
        compacted = compact(log, dirty, self.configs.of_log(partition.topic), self.version.log, self.now_ms())
        before_bytes = log.size_bytes
        log.replace_compacted(compacted)
        self.ledger.on_compacted(partition, dirty.end)
        sizes = f"{before_bytes} bytes", f"{log.size_bytes} bytes, clean to {dirty.end}"
        self.history.record(self._name, "log compacted", str(partition), *sizes)

    def note_start(self, partition: TopicPartition, follower: int, start: int) -> None:
        """Note the log start offset of a follower that fetches."""
        replica = self.replicas.get(partition)
        if replica is not None and follower in replica.followers:
            replica.followers[follower].log_start = start
            self.on_start(partition)

    def low_watermark(self, partition: TopicPartition, live: Container[int]) -> int:
        """Return the least log start offset of the live replicas of a partition that this broker leads (KIP-107)."""
        replica = self.replicas[partition]
        assert replica.state.leader == self.broker_id
        starts = [one.log_start for follower, one in replica.followers.items() if follower in live]
        return min([replica.log.start, *starts])

    def _record_end(self, replica: Replica, what: str, before: int) -> None:
        """Record a new log end offset, with the leader epoch in which the replica leads or follows."""
        end, epoch = replica.log.end, replica.state.leader_epoch
        self.history.record(self._name, what, str(replica.partition), f"end {before}", f"end {end} epoch {epoch}")

    def acknowledge(self, partition: TopicPartition, base_offset: int, records: int, acks: int) -> None:
        """Note that this leader acknowledges batches to a producer that asked for these acks."""
        replica = self.replicas[partition]
        assert replica.state.leader == self.broker_id, f"records in {partition} are acknowledged by a follower"
        epoch, min_isr = replica.state.leader_epoch, self._min_isr(replica)
        first, end = max(base_offset, replica.log.start), base_offset + records
        if first >= end:  # they were deleted meanwhile
            return
        for batch in replica.log.read(first, limit=end):
            self.ledger.acknowledge(self.broker_id, partition, batch, epoch, acks, min_isr, replica.replicas)

    def copies(self, replica: Replica, offset: int) -> int:
        """Return how many in the ISR have the log up to an offset, the leader included."""
        assert self.broker_id not in replica.followers
        ends = [replica.followers[b].log_end for b in replica.state.isr if b in replica.followers]
        return 1 + sum(end >= offset for end in ends)

    def has_enough_in_sync(self, replica: Replica) -> bool:
        """Return whether the ISR has `min.insync.replicas` members; since 2.7 proposed members count."""
        isr = replica.state.isr
        if replica.proposed and self.version.broker.uses_alter_isr:
            isr = (*isr, *(member for member in replica.proposed if member not in isr))
        return len(isr) >= self._min_isr(replica)

    def _min_isr(self, replica: Replica) -> int:
        """Return `min.insync.replicas`, since 3.7 at most the number of replicas (KAFKA-15583)."""
        configured = self.configs.min_isr(replica.partition.topic)
        if configured > 1 and self.version.broker.high_watermark_needs_min_isr:
            return min(configured, len(replica.replicas))
        return configured

    def on_topic_config(self, topic: str) -> None:
        """Advance the high watermarks of a topic whose configuration changed."""
        for replica in list(self._of_topic.get(topic, {}).values()):
            if replica.state.leader == self.broker_id:
                self._advance_watermark(replica)

    def on_fetch(self, follower: int, *, is_full: bool) -> None:
        """Note that a follower fetches; retry to add it to ISRs for which it was not eligible before."""
        now_us = self._scheduler.now_us
        silent_us = now_us - self._last_fetch_us.get(follower, 0)
        self._last_fetch_us[follower] = now_us
        if not self.version.broker.keeps_idle_followers_in_sync and silent_us > self._lag_max_us and not is_full:
            self._expand_all(follower)
        if self._ineligible:
            self._consider([key for key in self._ineligible if key[1] == follower])

    def consider_followers(self) -> None:
        """Try again to add followers to ISRs that `BrokerTiming.may_join_isr` did not let join before."""
        self._consider(list(self._ineligible))

    def _consider(self, joins: Sequence[tuple[TopicPartition, int]]) -> None:
        for join in joins:
            partition, follower = join
            assert follower != self.broker_id, f"broker {follower} does not fetch from itself"
            del self._ineligible[join]
            replica = self.replicas.get(partition)
            if replica is not None and follower in replica.followers:
                self._maybe_expand(replica, follower)

    def fetch(
        self, follower: int, fetched: FetchedPartition, *, is_fenced: bool, max_bytes: int | None = None
    ) -> FetchedRecords | ErrorCode:
        """Note the log end offset of a follower that fetches, unless the logs differ; return what `read` returns."""
        result = self.read(follower, fetched, is_fenced=is_fenced, max_bytes=max_bytes)
        if isinstance(result, ErrorCode):
            return result
        if result.diverging is not None and not self.version.broker.counts_diverging_fetches:
            return result
        replica, log_end = self.replicas[fetched.partition], fetched.log_end
        assert replica.log.start <= log_end <= replica.log.end or result.diverging is not None
        progress = replica.followers.get(follower)
        if progress is None:
            progress = replica.followers[follower] = FollowerProgress()
        progress.log_end, progress.has_fetched = log_end, True
        if log_end >= replica.log.end:
            progress.caught_up_us = self._scheduler.now_us
        if follower not in replica.state.isr:  # rare
            self._maybe_expand(replica, follower)
        self._advance_watermark(replica)
        return result

    def read(
        self, follower: int, fetched: FetchedPartition, *, is_fenced: bool, max_bytes: int | None = None
    ) -> FetchedRecords | ErrorCode:
        """Read records for a follower (Partition.fetchRecords, Partition.readRecords).

        Args:
            follower: the follower.
            fetched: the partition with its log end offset, the first one to read.
            is_fenced: whether its leader epoch is compared.
            max_bytes: size of the batches, except for the first one.
        """
        partition, leader_epoch, log_end, last_epoch, _ = fetched
        replica = self.replicas.get(partition)
        if replica is None or replica.state.leader != self.broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_fenced and leader_epoch != replica.state.leader_epoch:
            return epoch_error(leader_epoch, replica.state.leader_epoch)
        if follower not in replica.followers and not self._accepts_unassigned:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = replica.log
        if last_epoch != NO_EPOCH and (last_epoch != log.epochs.latest or log.end < log_end):
            found = log.end_offset_for(last_epoch)
            if found == UNDEFINED:
                return ErrorCode.OFFSET_OUT_OF_RANGE
            if found.epoch < last_epoch or found.end_offset < log_end:
                return FetchedRecords((), found)
        if log_end == log.end:  # most often
            return NOTHING_TO_FETCH
        if not log.is_readable(log_end):
            return ErrorCode.OFFSET_OUT_OF_RANGE
        batches = log.read(log_end, max_bytes=max_bytes)
        return FetchedRecords(batches) if batches else NOTHING_TO_FETCH

    def read_committed(self, request: ReadRequest) -> ReadResponse:
        """Read records up to the high watermark for a consumer (Partition.readRecords with FetchHighWatermark)."""
        replica = self.replicas.get(request.partition)
        if replica is None or replica.state.leader != self.broker_id:
            return ReadResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log, offset = replica.log, request.offset
        readable = LogRange(log.start, log.high_watermark)
        if not log.is_readable(offset):
            return ReadResponse(ErrorCode.OFFSET_OUT_OF_RANGE, (), readable)
        if offset >= log.high_watermark:
            return ReadResponse(ErrorCode.NONE, (), readable)
        batches = log.read(offset, max_bytes=request.max_bytes, limit=log.high_watermark)
        self.note_read(replica, batches)
        return ReadResponse(ErrorCode.NONE, batches, readable)

    def note_read(self, replica: Replica, batches: Iterable[RecordBatch]) -> None:
        """Note batches that a consumer gets from a replica."""
        self.ledger.on_read(self.broker_id, replica.partition, replica.state.leader_epoch, batches)

    def epoch_ends(self, request: EpochEndsRequest) -> EpochEndsResponse:
        """Return where leader epochs end in the logs that this broker leads (Partition.lastOffsetForLeaderEpoch)."""
        ends: dict[TopicPartition, EpochEnd | ErrorCode] = {}
        names_epochs = request.names_epochs and self.version.broker.epoch_ends_name_epochs
        for partition, asked in request.epochs.items():
            replica = self.replicas.get(partition)
            if replica is None or replica.state.leader != self.broker_id:
                ends[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif request.fenced and asked.leader_epoch != replica.state.leader_epoch:
                ends[partition] = epoch_error(asked.leader_epoch, replica.state.leader_epoch)
            else:
                found = replica.log.end_offset_for(asked.last_epoch)
                ends[partition] = found if names_epochs else found._replace(epoch=NO_EPOCH)
        return EpochEndsResponse(ends)

    def _follower(self, partition: TopicPartition) -> Replica:
        """Return a replica that a fetcher follows; `follow` removes it from the fetcher as soon as it leads."""
        replica = self.replicas[partition]
        leader = replica.state.leader
        assert leader not in (-1, self.broker_id), f"broker {self.broker_id} does not follow {partition}"
        assert not replica.followers, f"{partition} has followers, and follows {replica.state.leader}"
        return replica

    def append_fetched(self, partition: TopicPartition, log_end: int, batches: Sequence[RecordBatch]) -> None:
        """Append fetched batches, unless the log has changed since the request named its log end offset."""
        replica = self._follower(partition)
        log = replica.log
        if replica.truncates or log.end != log_end:
            return
        assert batches, "a response names partitions with records"
        log.truncate(batches[0].base_offset)  # the batch begins before the log end offset, which cut it
        if batches[0].payload is not None:
            self._make_room(replica, batches)
        log.append_fetched(batches, at_us=self._scheduler.now_us)
        self._flush_if_due(replica)
        assert log.end > log_end
        self._record_end(replica, "records fetched", log_end)

    def truncate_after(self, partition: TopicPartition, answer: EpochEnd) -> None:
        """Truncate a follower's log after its leader has said where an epoch ends; it may have to ask again."""
        replica = self._follower(partition)
        offset, is_complete = truncation_after(replica.log, answer)
        assert offset <= replica.log.end, f"{partition} is to be extended to {offset}"
        self._truncate(replica, offset)
        replica.truncates = replica.truncates and not is_complete

    def truncate_to_watermark(self, partition: TopicPartition) -> None:
        """Truncate a follower's log to its high watermark: the log has no leader epochs."""
        replica = self._follower(partition)
        assert replica.truncates, f"the log of {partition} need not be truncated"
        self._truncate(replica, replica.high_watermark)
        replica.truncates = False

    def truncate_to_range(self, partition: TopicPartition, leader_log: LogRange) -> None:
        """Truncate a follower's log to the end of its leader's, or start anew where that begins."""
        assert leader_log.start <= leader_log.end
        replica = self._follower(partition)
        if replica.log.end < leader_log.start:
            end, watermark = replica.log.end, replica.high_watermark
            replica.log.restart_at(leader_log.start)
            self._record_end(replica, "log truncated", end)
            self._note_watermark(replica, watermark)
        else:
            self._truncate(replica, leader_log.end)

    def _truncate(self, replica: Replica, offset: int) -> None:
        """Truncate a log, and its high watermark with it."""
        end, watermark = replica.log.end, replica.high_watermark
        removed = replica.log.truncate(offset)
        assert replica.log.end == end - removed, f"{replica.partition} ends at {replica.log.end}"
        assert replica.high_watermark <= watermark
        if removed:
            self._record_end(replica, "log truncated", end)
            if replica.high_watermark != watermark:
                self._note_watermark(replica, watermark)

    def set_watermark(self, partition: TopicPartition, watermark: int) -> None:
        """Set the high watermark of a follower to that of its leader, at most its own log end offset."""
        replica = self._follower(partition)
        self._set_watermark(replica, min(replica.log.end, watermark))

    def flush(self) -> None:
        """Write all logs to disk."""
        for replica in self.replicas.values():
            replica.log.flush()

    def _flush_if_due(self, replica: Replica) -> None:
        if replica.log.end - replica.log.flushed >= self._flush_interval:
            replica.log.flush()

    def save_watermarks(self) -> None:
        """Write the high watermarks to disk."""
        for partition in self._unsaved:
            if partition in self.replicas:
                replica = self.replicas[partition]
                assert replica.high_watermark <= replica.log.end
                replica.saved_watermark = replica.high_watermark
        self._unsaved.clear()

    def on_disk(self) -> dict[TopicPartition, LogOnDisk]:
        """Return the logs that the next process finds if this one ends now."""
        open_logs = {
            partition: LogOnDisk(replica.log, min(replica.saved_watermark, replica.log.end))
            for partition, replica in self.replicas.items()
        }
        assert not open_logs.keys() & self.logs_on_disk.keys(), "a log that is opened is taken from the disk"
        return open_logs | self.logs_on_disk

    def _set_watermark(self, replica: Replica, watermark: int) -> None:
        log = replica.log
        before = log.high_watermark
        if watermark != before:
            log.set_high_watermark(watermark)
            self._note_watermark(replica, before)

    def _note_watermark(self, replica: Replica, before: int) -> None:
        """Record a new high watermark, which is written to its checkpoint later."""
        self._unsaved[replica.partition] = None
        watermark = replica.log.high_watermark
        what = "high watermark raised" if watermark > before else "high watermark lowered"
        self.history.record(self._name, what, str(replica.partition), str(before), str(watermark))
        self.on_readable(replica.partition)

    def _advance_watermark(self, replica: Replica) -> None:
        """Raise the high watermark to the least log end offset that counts."""
        log = replica.log
        before = log.high_watermark
        if log.end <= before:  # most fetches end here: all records are committed
            return
        watermark = self._least_log_end(replica)
        if watermark <= before:
            return
        min_isr, in_sync = self._min_isr(replica), len(replica.state.isr)
        if self.version.broker.high_watermark_needs_min_isr and in_sync < min_isr:
            return
        assert replica.state.leader == self.broker_id
        assert watermark <= log.end
        self._set_watermark(replica, watermark)
        passed = log.read(max(before, log.start), limit=watermark)
        self.ledger.on_watermark(replica.partition, replica.state.leader_epoch, passed, min(min_isr, in_sync))
        self._report_committed(replica, since=before)
        self.on_watermark(replica.partition)

    def _report_committed(self, replica: Replica, since: int = 0) -> None:
        """Let the ledger compare the logs of the ISR up to the high watermark; only replicas count for that."""
        state = replica.state
        members = [member for member in state.isr if member in replica.followers]
        self.ledger.on_committed(self.broker_id, replica.partition, state.leader_epoch, members, replica.log, since)

    def _least_log_end(self, replica: Replica) -> int:
        """Return the least log end offset that counts for the high watermark (Partition.maybeIncrementLeaderHW)."""
        rules = self.version.broker
        isr, proposed = replica.state.isr, replica.proposed or ()
        least = replica.log.end
        for follower, progress in replica.followers.items():
            if progress.log_end < least and (
                follower in isr
                or follower in proposed
                or (
                    rules.high_watermark_waits_for_caught_up
                    and self._scheduler.now_us - progress.caught_up_us <= self._lag_max_us
                    and (not rules.high_watermark_ignores_dead or self.is_alive(follower))
                )
            ):
                least = progress.log_end
        return least

    # -- the ISR, as leader

    def shrink_isrs(self, early_us: int = 0) -> None:
        """Propose to remove followers that have lagged for too long, or will have in some µs."""
        lagging = {p: members for p, replica in self.replicas.items() if (members := self._lagging(replica, early_us))}
        ordered = list(lagging)
        if len(lagging) > 1:
            ordered = order_checked(self.replicas, self.leads, self.version.orders, self._most_replicas)
        ordered = [partition for partition in ordered if partition in lagging]
        assert len(ordered) == len(lagging), "a leader checks all partitions that it leads"
        if self.version.broker.check_ends_at_strangers:
            ordered = list(takewhile(lambda partition: not self._has_strangers(self.replicas[partition]), ordered))
        if ordered:
            self._isrs.shrink(self._rows(ordered), pack([lagging[partition] for partition in ordered]))

    def _lagging(self, replica: Replica, early_us: int) -> list[int]:
        """Return the ISR members that a leader which waits for no result proposes to remove."""
        if replica.state.leader != self.broker_id or replica.proposed is not None:
            return []
        found = [(one, replica.followers.get(one)) for one in replica.state.isr if one != self.broker_id]
        return [
            one for one, progress in found if progress is None or self._is_lagging(one, progress, replica, early_us)
        ]

    def _has_strangers(self, replica: Replica) -> bool:
        """Return whether the ISR has members that the leader knows no replica of: they are not in the assignment."""
        return any(member != self.broker_id and member not in replica.followers for member in replica.state.isr)

    def _is_lagging(self, member: int, progress: FollowerProgress, replica: Replica, early_us: int) -> bool:
        """Return whether a follower has not had the whole log for too long; before 2.1 an idle one must still fetch.

        In 0.8 a follower that fetches need not have the whole log, but must not be too many messages behind. One that
        has not fetched this partition since the leader was elected lags, whatever else it fetches (recorded in 0.8.0).
        """
        caught_up_us = progress.caught_up_us
        if self._lag_max_messages is not None and progress.log_end >= 0:
            if replica.log.end - progress.log_end > self._lag_max_messages:
                return True
            caught_up_us = max(caught_up_us, self._last_fetch_us.get(member, 0))
        if progress.log_end >= replica.log.end:
            if self.version.broker.keeps_idle_followers_in_sync:
                return False
            caught_up_us = max(caught_up_us, self._last_fetch_us.get(member, 0))
        if not progress.has_fetched:  # nothing of it was in a long poll
            early_us = 0
        return self._scheduler.now_us + early_us - caught_up_us > self._lag_max_us

    def _maybe_expand(self, replica: Replica, follower: int) -> None:
        """Propose to add a follower to the ISR if it is ready."""
        if replica.state.leader == self.broker_id and follower not in replica.state.isr:  # most fetches end here
            may_join = self.timing.may_join_isr
            if may_join is not None and not may_join(replica.partition, follower):
                self._ineligible[replica.partition, follower] = None
                return
            self._isrs.expand(self._rows([replica.partition]), follower, np.ones(1, dtype=np.bool_))

    def _expand_all(self, follower: int) -> None:
        """Add a follower to the ISRs that it left by silence alone: before 2.1 every fetch asks, also of idle logs."""
        for replica in list(self.replicas.values()):
            progress = replica.followers.get(follower)
            if progress is not None and progress.log_end >= replica.log.end:
                self._maybe_expand(replica, follower)

    def handle_results(
        self, proposals: Sequence[IsrProposal], results: Sequence[LeaderAndIsr | ErrorCode]
    ) -> list[IsrProposal]:
        """Handle the results of proposed ISRs; return the proposals to be retried."""
        codes, states = [], []
        for proposal, result in zip(proposals, results, strict=True):
            codes.append(result if isinstance(result, ErrorCode) else ErrorCode.NONE)
            states.append(_NO_STATE if isinstance(result, ErrorCode) else result)
            if isinstance(result, ErrorCode):
                proposed = f"isr {list(proposal.isr)}"
                self.history.record(
                    f"broker {self.broker_id}", "ISR change refused", str(proposal.partition), proposed, result.name
                )
        width = max(len(state.isr) for state in states)
        altered = AlteredPartitions(ErrorCode.NONE, np.array(codes, dtype=np.int16), states_of(states, width))
        columns = Proposals.of_one(self.broker_id, -1, proposals)
        rows = self.manager.table.find_all(columns.partitions)
        assert (rows >= 0).all(), "a proposed ISR is of a partition that this broker was sent"
        return [proposals[place] for place in self._isrs.handle_results(rows, columns, altered).tolist()]

    def note_dropped(self, proposal: IsrProposal) -> None:
        """Record that a proposed ISR will have no result, for which the leader waits until the next LeaderAndIsr."""
        proposed = f"isr {list(proposal.isr)}"
        self.history.record(f"broker {self.broker_id}", "ISR change dropped", str(proposal.partition), proposed)

    def _expand_any(self, replica: Replica) -> None:
        """Add a follower that caught up while the last proposal was in flight, if it still fetches."""
        for follower, progress in replica.followers.items():
            silent_us = self._scheduler.now_us - self._last_fetch_us.get(follower, 0)
            if progress.has_fetched and silent_us <= self._lag_max_us:
                self._maybe_expand(replica, follower)

    # -- replicas by row, for `LeaderIsrs`

    def _rows(self, partitions: Sequence[TopicPartition]) -> IntArray:
        return self.manager.table.find_all(named(partitions))

    def _at(self, rows: IntArray) -> list[Replica | None]:
        """Return the replicas at some rows; None where there is none any more."""
        return [self.replicas.get(TopicPartition(*name)) for name in self.manager.table.partitions(rows).names()]

    def _leaders(self, rows: IntArray) -> list[Replica]:
        found = [replica for replica in self._at(rows) if replica is not None]
        assert len(found) == len(rows), "a result must not be handled for a replica that is gone"
        return found

    def states(self, rows: IntArray) -> States:
        states = [replica.state for replica in self._leaders(rows)]
        return states_of(states, max(len(state.isr) for state in states))

    def are_waiting(self, rows: IntArray) -> BoolArray:
        return np.array([replica.proposed is not None for replica in self._leaders(rows)])

    def are_pending(self, rows: IntArray, proposals: Proposals) -> BoolArray:
        """Return which proposals have the leader epochs of the replicas; the process ends with the broker epoch."""
        epochs = [None if one is None or one.proposed is None else one.state.leader_epoch for one in self._at(rows)]
        return np.array([own == epoch for own, epoch in zip(epochs, proposals.leader_epoch.tolist(), strict=True)])

    def have_caught_up(self, rows: IntArray, follower: int) -> BoolArray:
        """Return where a follower has the log up to the high watermark and the start of the leader's epoch."""
        waits = self.version.broker.isr_waits_for_epoch_start
        return np.array(
            [
                leader.followers[follower].log_end >= max(leader.high_watermark, leader.epoch_start if waits else 0)
                for leader in self._leaders(rows)
            ]
        )

    def propose(self, rows: IntArray, states: States, isr: IntArray) -> None:
        for replica, proposed in zip(self._leaders(rows), unpack(isr), strict=True):
            assert replica.state.leader == self.broker_id, f"broker {self.broker_id} does not lead {replica.partition}"
            assert replica.proposed is None, "a leader has one proposed ISR at a time"
            state = replica.state
            assert self.broker_id in proposed or self.broker_id not in state.isr, "a leader does not remove itself"
            if self.propose_isr(IsrProposal(replica.partition, state.leader_epoch, proposed, state.version)):
                replica.proposed = proposed
                continue
            for joining in [broker for broker in proposed if broker not in state.isr]:
                self._ineligible[replica.partition, joining] = None

    def end_proposals(self, rows: IntArray) -> None:
        for replica in self._leaders(rows):
            assert replica.proposed is not None, f"{replica.partition} waits for no result"
            replica.proposed = None

    def commit(self, rows: IntArray, states: States) -> None:
        """Apply ISRs that were written; then the high watermark may rise, and other followers may join."""
        for place, replica in enumerate(self._leaders(rows)):
            written = states.one(place)
            assert replica.proposed is not None, "nobody proposed this ISR"
            assert written.leader_epoch == replica.state.leader_epoch
            assert written.version >= replica.state.version, "the version of a znode never falls"
            replica.state = replica.state._replace(
                isr=written.isr, version=written.version, recovering=written.recovering
            )
            replica.proposed = None
            if replica.high_watermark:
                self._report_committed(replica)
            rules = self.version.broker
            if rules.raises_watermark_after_alter_isr or not rules.uses_alter_isr:
                self._advance_watermark(replica)
            self._expand_any(replica)

    def consider_again(self, rows: IntArray, followers: IntArray) -> None:
        """Note followers to be considered with their next fetch; after a result all of them are."""
        for replica, follower in zip(self._leaders(rows), followers.tolist(), strict=True):
            if replica.proposed is None:
                self._ineligible[replica.partition, follower] = None


def epoch_error(asked: int, own: int) -> ErrorCode:
    """Return the error for a leader epoch that is not the leader's own (Partition.checkCurrentLeaderEpoch)."""
    assert asked != own, f"a request of leader epoch {asked} is not fenced in it"
    return ErrorCode.FENCED_LEADER_EPOCH if asked < own else ErrorCode.UNKNOWN_LEADER_EPOCH


def order_checked(
    partitions: Iterable[TopicPartition],
    is_led: Callable[[TopicPartition], bool],
    orders: OrderRules,
    most: int = 0,
) -> list[TopicPartition]:
    """Return the led ones of a broker's partitions, in the order of the check for lagging followers.

    Args:
        partitions: partitions of the broker.
        is_led: whether the broker leads a partition.
        orders: rules of the release.
        most: number of partitions that the broker has had at once since its start: its map does not shrink.
    """
    if orders.checks_set_of_led:
        return mutable_set_order(filter(is_led, partitions), orders.scala, cluster_partition_hash)
    partition_hash = Collections(orders.scala, orders.brokers_have_case_class_keys).partition_hash
    ordered = concurrent_order(partitions, partition_hash, most=most)
    return list(filter(is_led, ordered))
