"""The replicas on a broker: what it leads and follows, as it believes; its logs; and the ISRs it keeps as a leader.

Rules of the module (ReplicaManager, Partition; docs/reference/kafka.md §2.7, §2.8):
  - a LeaderAndIsr is taken only with a controller epoch that is not behind, and for a partition only with a leader
    epoch beyond the one that the replica has;
  - a log is a number here, its end: records have no content. A follower that fetches has the leader's log end after the
    answer, cut back to it if it was longer; up to 0.10.2 it first cuts its log back to the high watermark that it knows
    whenever it follows another leader than before (KIP-101);
  - high watermarks are written to disk every 5 s and at a clean shutdown, and read again at the start;
  - a follower is in sync once it has fetched up to the high watermark; it is out of sync when it has been behind the
    log end for `replica.lag.time.max.ms`: from 2.1 on one that has all there is never is, dead or alive (KAFKA-7152);
  - the leader asks the controller for another ISR, one request a partition at a time; until the answer comes it counts
    the larger of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simzk.jvm.scala_collections import mutable_order
from simzk.kafka.broker import producing as watermarks
from simzk.kafka.broker.fetch_order import order_checked
from simzk.kafka.requests import (
    ControlResponse,
    Error,
    IsrProposal,
    LeaderAndIsrRequest,
    PartitionUpdate,
    StopReplicaRequest,
)
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition, cluster_partition_hash
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.transitions import expand_isr, shrink_isr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.kafka.broker.configs import TopicConfigs
    from simzk.kafka.broker.log_dirs import LogDirs
    from simzk.kafka.releases.profile import KafkaVersion


NEVER_US = -(1 << 60)
"""When a follower last had everything that never had it."""


@dataclass(slots=True)
class FollowerProgress:
    """What a leader knows of a follower: its log end, and when it last had all of the leader's log."""

    log_end: int = -1
    caught_up_us: int = NEVER_US


class LogOnDisk(NamedTuple):
    """What is found of a replica when its broker starts: the log's end, and the high watermark last written."""

    log_end: int
    high_watermark: int


@dataclass(slots=True)
class Replica:
    """One replica on this broker, with what its broker believes of the partition."""

    partition: TopicPartition
    state: LeaderAndIsr
    replicas: tuple[int, ...]
    log_end: int = 0
    high_watermark: int = 0
    saved_watermark: int = 0
    proposed: tuple[int, ...] | None = None
    followers: dict[int, FollowerProgress] = field(default_factory=dict)


class ReplicaManager:
    """All replicas of one broker.

    Args:
        broker_id: whose.
        version: its release.
        now_us: virtual time.
        propose: hands a proposal on to the controller.
        follows_changed: told when this broker begins or ends to follow partitions.
        is_alive: whether the broker believes that another lives; up to 3.2 it does not ask.
        lag_max_us: how long a follower may be behind.
        lag_max_messages: how many messages one that fetches may be behind; None where that does not count.
        log_dirs: where the logs are.
        configs: the configuration of topics.

    Attributes:
        on_watermark: told of each partition whose high watermark rises.
        on_leadership: told of each partition that this broker leads, or leads no more.
    """

    def __init__(
        self,
        broker_id: int,
        version: KafkaVersion,
        *,
        now_us: Callable[[], int],
        propose: Callable[[IsrProposal], None],
        follows_changed: Callable[[Iterable[Replica]], None],
        is_alive: Callable[[int], bool],
        lag_max_us: int,
        lag_max_messages: int | None,
        log_dirs: LogDirs,
        configs: TopicConfigs,
    ) -> None:
        self.broker_id = broker_id
        self.controller_epoch = 0
        self.replicas: dict[TopicPartition, Replica] = {}
        self.on_watermark: Callable[[TopicPartition], None] = lambda _: None
        self.on_leadership: Callable[[TopicPartition], None] = lambda _: None
        self._version = version
        self._scala = version.orders.scala
        self._now_us = now_us
        self._propose = propose
        self._follows_changed = follows_changed
        self._is_alive = is_alive
        self._lag_max_us = lag_max_us
        self._lag_max_messages = lag_max_messages
        self._idle_in_sync = version.broker.keeps_idle_followers_in_sync
        self._log_dirs = log_dirs
        self._configs = configs
        self._takes_strangers = not version.controller.writes_union_assignment
        self._unsaved: dict[TopicPartition, None] = {}
        self._last_fetch_us: dict[int, int] = {}
        self._left_out: dict[tuple[TopicPartition, int], None] = {}

    def leads(self, partition: TopicPartition) -> bool:
        """Whether this broker believes that it leads a partition."""
        replica = self.replicas.get(partition)
        return replica is not None and replica.state.leader == self.broker_id

    # -- what the controller orders

    def lead_and_follow(self, request: LeaderAndIsrRequest, logs: dict[TopicPartition, LogOnDisk]) -> ControlResponse:
        """Become leader or follower; `logs` are those found on disk at the start, and are taken from there."""
        if request.controller_epoch < self.controller_epoch:
            return ControlResponse(Error.STALE_CONTROLLER_EPOCH, {})
        self.controller_epoch = request.controller_epoch
        changed = []
        errors = self._open_logs(request.updates)
        for update in request.updates:
            replica = None if update.partition in errors else self._accept(update, logs)
            if replica is not None:
                changed.append(replica)
        self._follows_changed(changed)
        for replica in changed:
            self.on_leadership(replica.partition)
        return ControlResponse(Error.NONE, errors)

    def _open_logs(self, updates: Sequence[PartitionUpdate]) -> dict[TopicPartition, Error]:
        """Find or make the logs, in the order that decides in which directory a new one goes: those it leads first.

        Returns:
            an error for each that is in a log directory that failed.
        """
        by_partition = {update.partition: update for update in updates}
        ordered = mutable_order(by_partition, self._scala, cluster_partition_hash)
        ordered.sort(key=lambda partition: by_partition[partition].state.leader != self.broker_id)
        opened = {p: self._log_dirs.open(p, is_new=by_partition[p].is_new) for p in ordered}
        return {p: Error.KAFKA_STORAGE_ERROR for p, found in opened.items() if not found}

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """The log directory of some replicas failed: they neither lead nor follow any more."""
        lost = [self.replicas.pop(partition) for partition in partitions if partition in self.replicas]
        for replica in lost:
            replica.state = replica.state._replace(leader=-1)
        self._follows_changed(lost)
        for replica in lost:
            self.on_leadership(replica.partition)

    def stop(self, request: StopReplicaRequest) -> ControlResponse:
        """Stop replicas, and delete the logs of those that are to be deleted."""
        if request.controller_epoch < self.controller_epoch:
            return ControlResponse(Error.STALE_CONTROLLER_EPOCH, {})
        self.controller_epoch = request.controller_epoch
        stopped = []
        errors = {}
        for stop in request.stops:
            replica = self.replicas.get(stop.partition)
            errors[stop.partition] = Error.NONE
            if stop.partition in self._log_dirs.offline:
                errors[stop.partition] = Error.KAFKA_STORAGE_ERROR
                continue
            if replica is None:
                if stop.delete:
                    self._log_dirs.delete(stop.partition)
                continue
            if 0 <= stop.leader_epoch < replica.state.leader_epoch:
                errors[stop.partition] = Error.FENCED_LEADER_EPOCH
                continue
            # Without a leader the replica neither leads nor follows; its leader epoch stays, to fence what is late.
            replica.state = replica.state._replace(leader=-1)
            stopped.append(replica)
            if stop.delete:
                del self.replicas[stop.partition]
                self._log_dirs.delete(stop.partition)
        self._follows_changed(stopped)
        for replica in stopped:
            self.on_leadership(replica.partition)
        return ControlResponse(Error.NONE, errors)

    def _accept(self, update: PartitionUpdate, logs: dict[TopicPartition, LogOnDisk]) -> Replica | None:
        replica = self.replicas.get(update.partition)
        before = None
        if replica is None:
            log_end, watermark = logs.pop(update.partition, LogOnDisk(0, 0))
            replica = Replica(update.partition, update.state, update.assignment.replicas, log_end, watermark, watermark)
            self.replicas[update.partition] = replica
            self._configs.open(update.partition.topic)
        elif update.state.leader_epoch <= replica.state.leader_epoch:
            return None
        else:
            before = replica.state.leader
        replica.state = update.state
        replica.replicas = update.assignment.replicas
        replica.proposed = None
        replica.followers = {}
        if update.state.leader == self.broker_id:
            now_us = self._now_us()
            for broker in replica.replicas:
                if broker != self.broker_id:
                    caught_up_us = now_us if broker in update.state.isr else NEVER_US
                    replica.followers[broker] = FollowerProgress(-1, caught_up_us)
            self._advance(replica)
        elif self._version.broker.truncates_to_high_watermark and update.state.leader not in (before, -1):
            replica.log_end = replica.high_watermark
        return replica

    # -- logs

    def append(self, partition: TopicPartition, records: int, *, of_all: bool = False) -> int | Error:
        """Add records as a producer does.

        Args:
            partition: where.
            records: how many.
            of_all: whether all in the ISR are to have them, so that these must be enough.

        Returns:
            where the first one is in the log, or why they were not added.
        """
        replica = self.replicas.get(partition)
        if replica is None or replica.state.leader != self.broker_id:
            return Error.NOT_LEADER_OR_FOLLOWER
        if of_all and len(replica.state.isr) < self._min_isr(replica):
            return Error.NOT_ENOUGH_REPLICAS
        base_offset = replica.log_end
        for follower, progress in replica.followers.items():
            if progress.log_end == replica.log_end:  # it had everything when it last fetched
                progress.caught_up_us = max(progress.caught_up_us, self._last_fetch_us.get(follower, 0))
        replica.log_end += records
        self._advance(replica)
        return base_offset

    def copies(self, replica: Replica, offset: int) -> int:
        """How many in the ISR have the log up to an offset, the leader among them."""
        ends = [replica.followers[b].log_end for b in replica.state.isr if b in replica.followers]
        return 1 + sum(end >= offset for end in ends)

    def has_enough_in_sync(self, replica: Replica) -> bool:
        """Whether as many are in sync as `min.insync.replicas` wants; from 2.7 on those count that are asked for."""
        asked = replica.proposed or () if self._version.broker.uses_alter_isr else ()
        return len(dict.fromkeys((*replica.state.isr, *asked))) >= self._min_isr(replica)

    def _min_isr(self, replica: Replica) -> int:
        """From 3.7 on never more than there are replicas (KAFKA-15583)."""
        wanted = self._configs.min_isr(replica.partition.topic)
        return min(wanted, len(replica.replicas)) if self._version.broker.high_watermark_needs_min_isr else wanted

    def look_again(self, topic: str) -> None:
        """The configuration of a topic is another now: its high watermarks may rise."""
        for replica in list(self.replicas.values()):
            if replica.partition.topic == topic and replica.state.leader == self.broker_id:
                self._advance(replica)

    def note_follower(self, follower: int, *, names_all: bool) -> None:
        """A follower fetches, and is about to name all that it follows, or what changed.

        Whoever could not join an ISR when it had caught up may try again.
        """
        silent_us = self._now_us() - self._last_fetch_us.get(follower, 0)
        self._last_fetch_us[follower] = self._now_us()
        if not self._idle_in_sync and silent_us > self._lag_max_us and not names_all:
            self._expand_all(follower)
        waiting = [key for key in self._left_out if key[1] == follower]
        for key in waiting:
            del self._left_out[key]
            replica = self.replicas.get(key[0])
            if replica is not None and follower in replica.followers:
                self._maybe_expand(replica, follower, replica.followers[follower])

    def note_fetch(self, partition: TopicPartition, follower: int, leader_epoch: int, log_end: int) -> int | Error:
        """A follower has so much of the log; the log end here, or why it may not fetch."""
        replica = self.replicas.get(partition)
        if replica is None or replica.state.leader != self.broker_id:
            return Error.NOT_LEADER_OR_FOLLOWER
        if leader_epoch != replica.state.leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        if follower not in replica.followers and self._takes_strangers:
            replica.followers[follower] = FollowerProgress()
        progress = replica.followers.get(follower)
        if progress is None:
            return Error.NOT_LEADER_OR_FOLLOWER
        progress.log_end = min(log_end, replica.log_end)
        if log_end >= replica.log_end:
            progress.caught_up_us = self._now_us()
        self._maybe_expand(replica, follower, progress)
        self._advance(replica)
        return replica.log_end

    def copied(self, partition: TopicPartition, leader_epoch: int, log_end: int) -> None:
        """As a follower: the log is now as long as the leader's."""
        replica = self.replicas.get(partition)
        if replica is not None and replica.state.leader_epoch == leader_epoch:
            replica.log_end = log_end
            self._put_watermark(replica, min(replica.high_watermark, log_end))

    def note_watermark(self, partition: TopicPartition, leader_epoch: int, watermark: int) -> None:
        """As a follower: the leader's high watermark; here it is no further than the log."""
        replica = self.replicas.get(partition)
        if replica is not None and replica.state.leader_epoch == leader_epoch:
            self._put_watermark(replica, min(replica.log_end, watermark))

    def save_watermarks(self) -> None:
        """Write the high watermarks to disk."""
        for partition in self._unsaved:
            if partition in self.replicas:
                self.replicas[partition].saved_watermark = self.replicas[partition].high_watermark
        self._unsaved.clear()

    def on_disk(self) -> dict[TopicPartition, LogOnDisk]:
        """What would be found of each replica if the broker started now."""
        return {
            partition: LogOnDisk(replica.log_end, min(replica.saved_watermark, replica.log_end))
            for partition, replica in self.replicas.items()
        }

    def _put_watermark(self, replica: Replica, watermark: int) -> None:
        if watermark != replica.high_watermark:
            replica.high_watermark = watermark
            self._unsaved[replica.partition] = None

    def _advance(self, replica: Replica) -> None:
        """The high watermark may have risen."""
        if self._version.broker.high_watermark_needs_min_isr and len(replica.state.isr) < self._min_isr(replica):
            return
        watermark = watermarks.least_log_end(
            replica, self._version, now_us=self._now_us(), lag_max_us=self._lag_max_us, is_alive=self._is_alive
        )
        if watermark > replica.high_watermark:
            self._put_watermark(replica, watermark)
            self.on_watermark(replica.partition)

    # -- the ISR, as leader

    def shrink_isrs(self) -> None:
        """Drop followers that have been behind for too long; called twice in that time."""
        late: dict[TopicPartition, list[int]] = {}
        for partition, replica in self.replicas.items():
            if replica.state.leader != self.broker_id or replica.proposed is not None:
                continue
            behind = [
                member
                for member in replica.state.isr
                if (progress := replica.followers.get(member)) is not None
                and self._is_behind(member, progress, replica)
            ]
            if behind:
                late[partition] = behind
        ordered = list(late) if len(late) < 2 else order_checked(self.replicas, self.leads, self._version.orders)
        for partition in ordered:
            if partition in late:
                replica = self.replicas[partition]
                left = shrink_isr(pack([replica.state.isr]), pack([late[partition]]), self._scala)
                self._ask(replica, unpack(left)[0])

    def _is_behind(self, member: int, progress: FollowerProgress, replica: Replica) -> bool:
        """Whether a follower has not had the whole log for too long; before 2.1 one that is idle must still fetch.

        In 0.8 one that fetches need not have it all, but may not be too many messages behind.
        """
        caught_up_us = progress.caught_up_us
        if self._lag_max_messages is not None:
            if progress.log_end >= 0 and replica.log_end - progress.log_end > self._lag_max_messages:
                return True
            caught_up_us = max(caught_up_us, self._last_fetch_us.get(member, 0))
        if progress.log_end >= replica.log_end:
            if self._idle_in_sync:
                return False
            caught_up_us = max(caught_up_us, self._last_fetch_us.get(member, 0))
        return self._now_us() - caught_up_us > self._lag_max_us

    def _maybe_expand(self, replica: Replica, follower: int, progress: FollowerProgress) -> None:
        state = replica.state
        if replica.proposed is not None or follower in state.isr:
            return
        if follower not in replica.replicas and not self._takes_strangers:
            return
        if state.leader != self.broker_id or progress.log_end < replica.high_watermark:
            return
        if not self._is_alive(follower):
            self._left_out[replica.partition, follower] = None
        else:
            wider = expand_isr(pack([state.isr]), np.array([follower], dtype=np.int32), self._scala)
            self._ask(replica, unpack(wider)[0])

    def _expand_all(self, follower: int) -> None:
        """Before 2.1 one was dropped for its silence alone; each fetch asks again, also for what is not written to."""
        for replica in list(self.replicas.values()):
            progress = replica.followers.get(follower)
            if progress is not None and progress.log_end >= replica.log_end:
                self._maybe_expand(replica, follower, progress)

    def _ask(self, replica: Replica, isr: Sequence[int]) -> None:
        replica.proposed = tuple(isr)
        state = replica.state
        self._propose(IsrProposal(replica.partition, state.leader_epoch, tuple(isr), state.version))

    def proposal_done(self, proposal: IsrProposal, result: LeaderAndIsr | Error) -> bool:
        """The controller answered a proposal.

        Returns:
            whether it should be sent again.
        """
        replica = self.replicas.get(proposal.partition)
        if replica is None or replica.proposed is None or replica.state.leader_epoch != proposal.leader_epoch:
            return False
        if isinstance(result, LeaderAndIsr):
            if result.leader_epoch == replica.state.leader_epoch and result.version >= replica.state.version:
                replica.state = replica.state._replace(
                    isr=result.isr, version=result.version, recovering=result.recovering
                )
                replica.proposed = None
                self._advance(replica)
                self._expand_any(replica)
            return False
        if result == Error.INELIGIBLE_REPLICA:
            replica.proposed = None  # back to what is committed; the next fetch may ask again
            joining = [member for member in proposal.isr if member not in replica.state.isr]
            self._left_out.update(dict.fromkeys((replica.partition, member) for member in joining))
            return False
        # Fenced or behind: nothing is asked for any more until the controller sends a LeaderAndIsr.
        given_up = (
            Error.FENCED_LEADER_EPOCH,
            Error.INVALID_UPDATE_VERSION,
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            Error.INVALID_REQUEST,
        )
        return result not in given_up

    def _expand_any(self, replica: Replica) -> None:
        """A follower may have caught up while the last proposal was under way; one that fetches no more has not."""
        for follower, progress in replica.followers.items():
            silent_us = self._now_us() - self._last_fetch_us.get(follower, 0)
            if progress.log_end >= 0 and silent_us <= self._lag_max_us:
                self._maybe_expand(replica, follower, progress)
