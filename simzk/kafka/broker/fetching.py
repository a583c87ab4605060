"""Fetches of followers from leaders, one fetch session for each pair of brokers (AbstractFetcherThread; KIP-227).

Rules of this module:
  - a request names only what changed since the last one: new partitions, log end offsets, removed partitions;
  - the leader responds at once if it has records or errors for the follower, else after `replica.fetch.wait.max.ms`;
  - a response has the high watermarks and log start offsets that rose since the last one. They alone do not complete a
    waiting request;
  - the leader fences a partition by leader epoch if the request names it (2.1), or the session has cached it (2.5).
    Otherwise a fetch counts although the follower has missed a LeaderAndIsr in which the leader stayed, such as that of
    its own removal from the ISR;
  - a follower's progress is noted when its request arrives, not when the waiting request is completed;
  - a broken connection, or a restart of the leader, ends the session: the next request names all partitions;
  - a partition with an error is left out for `replica.fetch.backoff.ms`; the others go on (delayPartitions, since 0.9;
    before, it is asked for again at once, which is not simulated). The error of a request that names another offset or
    an earlier state of the partition is ignored;
  - a broker that is shutting down follows no new leader epoch (ReplicaManager.makeFollowers, all releases); it goes on
    to fetch what it followed before.

Truncation (AbstractFetcherThread.maybeTruncate; docs/reference/kafka.md §2.17):
  - before a fetch, a follower asks where the last epochs of logs end that it has to truncate (0.11 to 2.7), in one
    request. A log without epochs is truncated to its high watermark without a request;
  - a partition with an error, or of which it has to ask again, is left out of fetches; it asks again after
    `replica.fetch.backoff.ms`, or at once;
  - a fetch, or a question, that the leader fences is not repeated before the next LeaderAndIsr (onPartitionFenced);
  - since 2.8 the fetch names the last epoch, and the response says where the logs differ: the follower truncates and
    fetches again;
  - a response counts only if the log end offset is still that of the request.

Size of a response (KIP-74): whole batches up to `replica.fetch.max.bytes` of a partition and, since 0.10.1,
`replica.fetch.response.max.bytes` of all; the first batch is sent whatever its size. Partitions that did not fit are
served with the next request.

Replication quotas (KIP-73; `replication_quotas`): while its quota is exceeded, a leader sends no records of a throttled
replica out of sync, and looks again when the fetch ends or the next one comes; a follower leaves such a replica out of
its fetches, and fetches nothing for `replica.fetch.backoff.ms` if that leaves none.

Order of partitions in a fetch; leaders that write ISRs to ZooKeeper write them in this order (AbstractFetcherThread,
ReplicaFetcherThread, FetchRequest; equal to recordings of each release):
  - the new partitions of one LeaderAndIsr pass through an immutable map. It is made of a mutable set of the partitions
    with the leader's endpoint and the first offset, and keeps the order of that set if there are up to four
    (ReplicaManager.makeFollowers; visible from 0.10.1 to 2.4);
  - 0.8: the mutable map of the fetcher, that of the request, its groups by topic on the wire, and an immutable map at
    the leader, all with the case class as key;
  - 0.9 and 0.10.0: the request is encoded from Java maps, topic by topic;
  - 0.10.1 to 2.4: topic by topic, in the order of an immutable map (PartitionStates);
  - 2.5 and later: topic by topic, in the order of a mutable map.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from simzk.jvm.hash_codes import long_hash, product_hash, string_hash
from simzk.jvm.hash_map import hash_map_order
from simzk.jvm.scala_collections import SMALL, immutable_order, mutable_order, mutable_set_order
from simzk.kafka.broker.replica_logs import NOTHING_TO_FETCH
from simzk.kafka.broker.replication_quotas import EMPTY_RESPONSE_BYTES
from simzk.kafka.log.batches import NO_EPOCH
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import (
    AskedEpoch,
    EpochEndsRequest,
    EpochEndsResponse,
    FetchedPartition,
    FollowerFetchRequest,
    FollowerFetchResponse,
    LogRange,
)
from simzk.kafka.rpc import Connections, Disconnected, Respond
from simzk.kafka.topic_partition import (
    Collections,
    TopicPartition,
    cluster_partition_hash,
    grouped_by_topic,
    topic_partition_hash,
)
from simzk.simulation import Future, Process, Timer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simzk.jvm.scala_collections import Scala
    from simzk.kafka.broker.disk import Disk
    from simzk.kafka.broker.replica_logs import Replica, ReplicaLogs
    from simzk.kafka.broker.replication_quotas import ReplicationQuota
    from simzk.kafka.log.batches import RecordBatch
    from simzk.kafka.log.leader_epochs import EpochEnd
    from simzk.kafka.releases.profile import FetchOrder, KafkaVersion, OrderRules
    from simzk.kafka.releases.settings import BrokerConfig

RESPONSE_BYTES_KEY = "replica.fetch.response.max.bytes"
"""A setting of 0.10.1 and later (KIP-74)."""
BACKOFF_US = 1_000_000
"""`replica.fetch.backoff.ms`: 1 s by default."""
STARTS_US = 100_000
"""How long a fetcher thread takes to start and connect. Of real brokers of all releases, the effects of the first fetch
come 0.11 s or more after the registration (recorded), after the controller's writes for the new broker."""
NOTHING_NEW = FollowerFetchResponse(False, {}, {})
"""Response to a fetch for which nothing came in time: the follower has nothing to apply."""


@dataclass(eq=False, repr=False)
class Fetcher:
    """Fetcher thread of a follower for one leader; it waits while there is nothing to fetch."""

    _process: Process
    _connections: Connections
    _leader: int
    _replicas: ReplicaLogs
    _version: KafkaVersion
    _disk: Disk
    _quota: ReplicationQuota
    _starts_us: int

    def __post_init__(self) -> None:
        self._orders, self._rules = self._version.orders, self._version.broker
        self.following: dict[TopicPartition, int] = {}
        # How far logs were behind the leader's high watermark, as of the last responses, and those left out for it.
        self._lags: dict[TopicPartition, int] = {}
        self._throttled: dict[TopicPartition, None] = {}
        self._requested: dict[TopicPartition, int] = {}
        self._asked_epochs: dict[TopicPartition, int] = {}
        self._truncating: dict[TopicPartition, None] = {}  # those that may have to be truncated first
        self._delayed: dict[TopicPartition, int] = {}  # until when they are left out because of an error
        self._fenced: dict[TopicPartition, None] = {}  # those that wait for the next LeaderAndIsr
        self._changed: dict[TopicPartition, None] = {}
        self._forgotten: dict[TopicPartition, None] = {}
        self._full = True
        self._unchanged = FollowerFetchRequest(
            self._replicas.broker_id, False, self._rules.fetches_have_leader_epochs, (), ()
        )
        self._wake: Future[None] | None = None
        self._process.spawn(self._run(), f"fetcher from broker {self._leader}")

    def follow(self, partition: TopicPartition, leader_epoch: int) -> None:
        """Add a partition, or set its leader epoch."""
        assert leader_epoch >= self.following.get(partition, leader_epoch), f"{partition}: an old leader epoch"
        assert self._replicas.replicas[partition].state.leader == self._leader
        if self.following.get(partition) != leader_epoch:
            self._delayed.pop(partition, None)
            self._fenced.pop(partition, None)
        self.following[partition] = leader_epoch
        self._changed[partition] = None
        self._truncating[partition] = None
        self._forgotten.pop(partition, None)
        self._wake_up()

    def forget(self, partition: TopicPartition) -> None:
        """Remove a partition."""
        if self.following.pop(partition, None) is not None:
            self._requested.pop(partition, None)
            self._changed.pop(partition, None)
            self._asked_epochs.pop(partition, None)
            self._delayed.pop(partition, None)
            self._fenced.pop(partition, None)
            self._lags.pop(partition, None)
            self._throttled.pop(partition, None)
            self._forgotten[partition] = None
            self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done:
            self._wake.set_result(None)

    async def _run(self) -> None:
        await self._process.sleep(self._starts_us)
        while True:
            while not self.following and not self._forgotten:
                self._wake = Future()
                await self._wake
            try:
                if self._truncating:
                    await self._truncate()
                if self._quota.limit is not None or self._throttled:
                    self._throttle()
                if (self._delayed or self._fenced or self._truncating or self._throttled) and not self._is_any_active():
                    await self._back_off()
                    continue
                response: FollowerFetchResponse = await self._connections.call(
                    self._process, f"broker {self._leader}", self._request()
                )
            except Disconnected:
                await self._process.sleep(BACKOFF_US)
                self._begin_session()
                continue
            if response is NOTHING_NEW:
                continue
            if response.records and not self._disk.is_fast:
                written: Future[None] = Future()
                self._disk.access(partial(written.set_result, None))
                await written
            if response.session_lost:
                self._begin_session()
            else:
                self._apply(response)

    def _is_any_active(self) -> bool:
        """Return whether there is something to fetch, or to forget; else the fetcher backs off."""
        if self._forgotten:
            return True
        replicas = self._replicas.replicas
        return any(
            partition not in self._throttled and not replicas[partition].truncates and not self._is_held(partition)
            for partition in self.following
        )

    async def _back_off(self) -> None:
        """Wait for `replica.fetch.backoff.ms`, or until a partition is added."""
        self._wake = Future()
        timer = self._process.call_later(BACKOFF_US, self._wake_up)
        await self._wake
        timer.cancel()

    def _is_held(self, partition: TopicPartition) -> bool:
        """Return whether a partition is left out of requests after an error."""
        if partition in self._fenced:
            return True
        until_us = self._delayed.get(partition)
        if until_us is not None and until_us <= self._process.scheduler.now_us:
            del self._delayed[partition]
            return False
        return until_us is not None

    def _on_error(self, partition: TopicPartition, error: ErrorCode, asked_epoch: int) -> None:
        """Leave a partition out of requests: for a while, or until the next LeaderAndIsr if its leader epoch is old."""
        if error == ErrorCode.FENCED_LEADER_EPOCH and asked_epoch == self.following[partition]:
            self._fenced[partition] = None
        else:
            self._delayed[partition] = self._process.scheduler.now_us + BACKOFF_US

    async def _truncate(self) -> None:
        """Truncate the logs that have to be, but for those that wait because of an error.

        Raises:
            Disconnected: the leader did not answer.
        """
        while waiting := [partition for partition in self._waiting() if not self._is_held(partition)]:
            asked: dict[TopicPartition, AskedEpoch] = {}
            for partition in waiting:
                last_epoch = self._replicas.replicas[partition].log.epochs.latest
                if last_epoch == NO_EPOCH:
                    self._replicas.truncate_to_watermark(partition)
                else:
                    asked[partition] = AskedEpoch(self.following[partition], last_epoch)
            if asked:
                await self._ask(asked)

    def _waiting(self) -> list[TopicPartition]:
        """Return the followed partitions that have to be truncated."""
        if self._truncating:
            replicas, followed = self._replicas.replicas, self.following
            self._truncating = {p: None for p in self._truncating if p in followed and replicas[p].truncates}
        return list(self._truncating)

    async def _ask(self, asked: Mapping[TopicPartition, AskedEpoch]) -> None:
        """Ask the leader where epochs end, and truncate."""
        rules = self._rules
        request = EpochEndsRequest(
            self._replicas.broker_id, rules.fetches_have_leader_epochs, rules.epoch_ends_name_epochs, asked
        )
        response: EpochEndsResponse = await self._connections.call(self._process, f"broker {self._leader}", request)
        assert response.ends.keys() <= asked.keys()
        for partition, end in response.ends.items():
            if self.following.get(partition) != asked[partition].leader_epoch:
                continue
            if isinstance(end, ErrorCode):
                self._on_error(partition, end, asked[partition].leader_epoch)
                self._forgotten[partition] = None
                continue
            self._replicas.truncate_after(partition, end)
            replica = self._replicas.replicas[partition]
            # An answer that has changed nothing is followed by the same question (KAFKA-10706).
            if replica.truncates and replica.log.epochs.latest == asked[partition].last_epoch:
                self._delayed[partition] = self._process.scheduler.now_us + BACKOFF_US
                self._forgotten[partition] = None
            else:
                self._forgotten.pop(partition, None)

    def _throttle(self) -> None:
        """Leave throttled logs that lag out of the next fetches while the quota is exceeded."""
        quota, now_us = self._quota, self._process.scheduler.now_us
        throttled: dict[TopicPartition, None] = {}
        if quota.is_exceeded(now_us):
            lagging = (partition for partition in self.following if self._lags.get(partition) != 0)
            throttled = {partition: None for partition in lagging if quota.is_throttled(partition)}
        for partition in throttled:
            self._changed.pop(partition, None)
            if partition not in self._throttled:
                self._forgotten[partition] = None
        for partition in self._throttled:
            if partition not in throttled:
                self._changed[partition] = None
                self._forgotten.pop(partition, None)
        self._throttled = throttled

    def _begin_session(self) -> None:
        self._full = True
        self._changed = {partition: None for partition in self.following if partition not in self._throttled}
        self._forgotten = {}

    def _request(self) -> FollowerFetchRequest:
        """Return the next request; partitions added before its response go with a later one."""
        if not (self._changed or self._forgotten or self._truncating or self._full):  # nearly always
            return self._unchanged
        changed = []
        ordered = self._changed if len(self._changed) < 2 else order_fetched(list(self.following), self._orders)
        may_be_held = self._delayed or self._fenced
        for partition in ordered:
            if partition not in self._changed or (may_be_held and self._is_held(partition)):
                continue
            replica = self._replicas.replicas[partition]
            if not replica.truncates:
                log, epoch = replica.log, self.following[partition]
                assert epoch == replica.state.leader_epoch, f"{partition} is in epoch {replica.state.leader_epoch}"
                last_epoch = log.epochs.latest if self._rules.truncates_on_fetch else NO_EPOCH
                changed.append(FetchedPartition(partition, epoch, log.end, last_epoch, log.start))
                self._requested[partition] = log.end
                self._asked_epochs[partition] = epoch
        fenced = self._rules.fetches_have_leader_epochs
        request = FollowerFetchRequest(
            self._replicas.broker_id, self._full, fenced, tuple(changed), tuple(self._forgotten)
        )
        self._full = False
        if self._truncating or self._delayed or self._fenced:
            held = [partition for partition in self._changed if self._is_held(partition)]
            self._changed = dict.fromkeys((*self._waiting(), *held))
        else:
            self._changed = {}
        self._forgotten = {}
        return request

    def _apply(self, response: FollowerFetchResponse) -> None:
        """Apply a response."""
        replicas = self._replicas.replicas
        for partition, batches in response.records.items():
            if partition in self.following and partition in self._requested:
                self._replicas.append_fetched(partition, self._requested[partition], batches)
                self._changed[partition] = None
            if self._quota.is_throttled(partition):
                self._quota.record(self._process.scheduler.now_us, sum(batch.size_bytes for batch in batches))
        for partition, answer in response.diverging.items():
            if self._is_as_requested(partition):
                self._replicas.truncate_after(partition, answer)
                self._changed[partition] = None
        for partition, leader_log in response.ranges.items():
            if self._is_as_requested(partition):
                self._replicas.truncate_to_range(partition, leader_log)
                self._changed[partition] = None
        for partition, error in response.errors.items():
            if partition in self.following:
                self._changed[partition] = None
                if self._is_as_requested(partition):
                    self._on_error(partition, error, self._asked_epochs[partition])
        for partition, watermark in response.watermarks.items():
            if partition in self.following:
                self._replicas.set_watermark(partition, watermark)
                lag = watermark - replicas[partition].log.end
                self._lags[partition] = lag if lag > 0 else 0
        for partition, start in response.starts.items():
            if partition in self.following and self._replicas.raise_start(partition, start):
                self._changed[partition] = None

    def _is_as_requested(self, partition: TopicPartition) -> bool:
        """Return whether a followed log still ends where the last request named it, and may be fetched."""
        if partition not in self.following:
            return False
        replica = self._replicas.replicas[partition]
        return not replica.truncates and replica.log.end == self._requested.get(partition)


@dataclass(slots=True)
class _Session:
    """Fetch session of one follower at its leader, with its waiting request.

    `fenced` are partitions of which the leader compares the leader epoch, `due` those whose log or leader epoch changed
    since the last request, `risen` those whose high watermark rose since the last response, `throttled` those whose
    records the leader did not send, because its quota was exceeded. `starts` are the log start offsets that the
    follower was told.
    """

    follower: int
    partitions: dict[TopicPartition, FetchedPartition] = field(default_factory=dict)
    fenced: dict[TopicPartition, None] = field(default_factory=dict)
    due: dict[TopicPartition, None] = field(default_factory=dict)
    risen: dict[TopicPartition, None] = field(default_factory=dict)
    throttled: dict[TopicPartition, None] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    respond: Respond | None = None
    timer: Timer | None = None


@dataclass(slots=True)
class _Found:
    """Records, errors and diverging epochs for a fetch, by partition."""

    records: dict[TopicPartition, tuple[RecordBatch, ...]] = field(default_factory=dict)
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    diverging: dict[TopicPartition, EpochEnd] = field(default_factory=dict)
    ranges: dict[TopicPartition, LogRange] = field(default_factory=dict)


_NOTHING_FOUND = _Found()


@dataclass(eq=False)
class FetchSessions:
    """Fetch sessions of a leader, by follower.

    Args:
        config: the sizes of responses, and how long a fetch waits.
        quota: how fast the broker may send throttled replicas as leader.
    """

    _process: Process
    _replicas: ReplicaLogs
    _version: KafkaVersion
    _config: BrokerConfig
    _disk: Disk
    _quota: ReplicationQuota
    _sessions: dict[int, _Session] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        config, limit = self._config, RESPONSE_BYTES_KEY
        self._wait_us = config.integer("replica.fetch.wait.max.ms") * 1000
        self._max_bytes = config.integer("replica.fetch.max.bytes")
        self._response_max_bytes = config.integer(limit) if limit in self._version.defaults else None

    def serve(self, request: FollowerFetchRequest, respond: Respond) -> None:
        """Serve a fetch, now or when there is something to return; on a slow disk after the records were read."""
        if not self._disk.is_fast and self._reads_disk(request):
            self._disk.access(lambda: self._serve(request, respond))
        else:
            self._serve(request, respond)

    def _reads_disk(self, request: FollowerFetchRequest) -> bool:
        """Return whether a follower fetches records, not only waits at the log end."""
        session = self._sessions.get(request.replica_id)
        due: tuple[FetchedPartition, ...] = ()
        if session is not None and not request.full:
            # A partition that was forgotten since may still be due.
            due = tuple(session.partitions[p] for p in session.due if p in session.partitions)
        replicas = self._replicas.replicas
        return any(
            p.partition in replicas and p.log_end < replicas[p.partition].log.end for p in (*request.changed, *due)
        )

    def _serve(self, request: FollowerFetchRequest, respond: Respond) -> None:
        assert request.replica_id != self._replicas.broker_id, "a leader does not fetch from itself"
        session = self._sessions.get(request.replica_id)
        if request.full:
            if session is not None and session.timer is not None:
                session.timer.cancel()
            session = self._sessions[request.replica_id] = _Session(request.replica_id)
        elif session is None:
            respond(FollowerFetchResponse(True, {}, {}))
            return
        for partition in request.forgotten:
            session.partitions.pop(partition, None)
        self._replicas.on_fetch(request.replica_id, is_full=request.full)
        if not self._version.broker.fetch_sessions_keep_leader_epochs:
            session.fenced = {}
        due: list[TopicPartition] = []
        for fetched in request.changed:
            partition = fetched.partition
            due.append(partition)
            if request.fenced:
                session.fenced[partition] = None
            before = session.partitions.get(partition)
            if before is None or before.leader_epoch != fetched.leader_epoch:
                session.risen[partition] = None
            session.partitions[partition] = fetched
            if self._replicas.raised_starts:
                self._replicas.note_start(partition, request.replica_id, fetched.log_start)
        session.respond = respond
        if session.throttled:
            session.due |= session.throttled
            session.throttled = {}
        if session.due:
            due += self._take_due(session)
        if not due or not self._serve_changed(session, due, is_new=True):
            session.timer = self._process.call_later(self._wait_us, partial(self._end_wait, session))

    def _end_wait(self, session: _Session) -> None:
        """Complete a fetch that has waited long enough; by now the quota may let throttled records pass."""
        throttled, session.throttled = session.throttled, {}
        if not throttled or not self._serve_changed(session, throttled, is_new=False):
            self._complete(session, _NOTHING_FOUND)

    def _take_due(self, session: _Session) -> list[TopicPartition]:
        """Return the cached partitions that are due, in the order of the fetch."""
        due, session.due = session.due, {}
        if len(due) < 2:
            return list(due)
        return [p for p in order_fetched(list(session.partitions), self._version.orders) if p in due]

    def on_watermark(self, partition: TopicPartition) -> None:
        """Return a high watermark that rose with the next response to each follower."""
        assert self._replicas.leads(partition)
        for session in self._sessions.values():
            if partition in session.partitions:
                session.risen[partition] = None

    def complete_fetches(self, partitions: Iterable[TopicPartition]) -> None:
        """Complete waiting fetches of partitions whose log grew or whose leader changed."""
        changed = list(partitions)
        for session in self._sessions.values():
            fetched = [partition for partition in changed if partition in session.partitions]
            if not fetched:
                continue
            for partition in fetched:
                session.due[partition] = None
            if session.respond is not None:
                self._serve_changed(session, fetched, is_new=False)

    def _serve_changed(self, session: _Session, partitions: Iterable[TopicPartition], *, is_new: bool) -> bool:
        """Complete a new or waiting fetch if there are records or errors for it; return whether there are."""
        found: _Found | None = None
        left_bytes, max_bytes = self._response_max_bytes, self._max_bytes
        serve = self._replicas.fetch if is_new else self._replicas.read
        for partition in dict.fromkeys(partitions):
            if (fetched := session.partitions.get(partition)) is None:
                continue
            if left_bytes is not None and left_bytes < max_bytes:
                max_bytes = left_bytes
            is_fenced = partition in session.fenced
            result = serve(session.follower, fetched, is_fenced=is_fenced, max_bytes=max_bytes)
            if result is NOTHING_TO_FETCH:  # nearly always
                continue
            if not isinstance(result, ErrorCode) and result.batches and self._throttles(session, partition):
                session.throttled[partition] = None
                continue
            found = found or _Found()
            if result == ErrorCode.OFFSET_OUT_OF_RANGE:
                log = self._replicas.replicas[partition].log
                found.ranges[partition] = LogRange(log.start, log.end)
            elif isinstance(result, ErrorCode):
                found.errors[partition] = result
            elif result.diverging is not None:
                found.diverging[partition] = result.diverging
            else:
                size_bytes = sum([batch.size_bytes for batch in result.batches])
                if left_bytes is not None and found.records and size_bytes > left_bytes:
                    session.due[partition] = None
                    continue
                found.records[partition] = result.batches
                if left_bytes is not None:
                    left_bytes = max(0, left_bytes - size_bytes)
        if found is None:
            return False
        self._complete(session, found)
        return True

    def _complete(self, session: _Session, found: _Found) -> None:
        assert self._sessions.get(session.follower) is session, f"a session of broker {session.follower} that is over"
        respond, session.respond = session.respond, None
        if session.timer is not None:
            session.timer.cancel()
            session.timer = None
        if respond is None:
            return
        self._count(found)
        if found is _NOTHING_FOUND and not session.risen and not self._replicas.raised_starts:
            respond(NOTHING_NEW)
            return
        for partition in (*found.errors, *found.ranges):
            session.partitions.pop(partition, None)
        risen, session.risen = session.risen, {}
        named = dict.fromkeys((*found.records, *risen))
        replicas, own_id = self._replicas.replicas, self._replicas.broker_id
        led = [(p, one) for p in named if (one := replicas.get(p)) is not None and one.state.leader == own_id]
        watermarks = {partition: replica.log.high_watermark for partition, replica in led}
        starts = self._new_starts(session) if self._replicas.raised_starts else {}
        session.starts.update(starts)
        respond(
            FollowerFetchResponse(False, found.records, found.errors, watermarks, found.diverging, found.ranges, starts)
        )

    def _throttles(self, session: _Session, partition: TopicPartition) -> bool:
        """Return whether the quota holds back a follower (ReplicaManager.shouldLeaderThrottle)."""
        quota = self._quota
        if quota.limit is None or not quota.is_throttled(partition):  # nearly always
            return False
        is_in_sync = session.follower in self._replicas.replicas[partition].state.isr
        return not is_in_sync and quota.is_exceeded(self._process.scheduler.now_us)

    def _count(self, found: _Found) -> None:
        """Count a response, with the records of throttled partitions (KafkaApis.sizeOfThrottledPartitions)."""
        size_bytes = EMPTY_RESPONSE_BYTES
        if self._quota.has_topics:
            for partition, batches in found.records.items():
                if self._quota.is_throttled(partition):
                    size_bytes += sum(batch.size_bytes for batch in batches)
        self._quota.record(self._process.scheduler.now_us, size_bytes)

    def _new_starts(self, session: _Session) -> dict[TopicPartition, int]:
        """Return the log start offsets that the follower was not told."""
        replicas, raised = self._replicas.replicas, self._replicas.raised_starts
        starts = {p: replicas[p].log.start if p in replicas else 0 for p in raised if p in session.partitions}
        return {partition: start for partition, start in starts.items() if session.starts.get(partition) != start}


@dataclass(eq=False)
class Fetchers:
    """Fetchers of a follower, one for each leader.

    Args:
        connections: the way to leaders.
        is_shutting_down: whether a clean shutdown of the broker has begun.
        endpoint_of: returns host and port of a broker.
        starts_us: returns how long a new fetcher takes to start.
        quota: how fast the broker may copy throttled replicas as follower.
    """

    _process: Process
    _connections: Connections
    _replicas: ReplicaLogs
    _version: KafkaVersion
    _is_shutting_down: Callable[[], bool]
    _endpoint_of: Callable[[int], tuple[str, int]]
    _starts_us: Callable[[], int]
    _disk: Disk
    _quota: ReplicationQuota
    _fetchers: dict[int, Fetcher] = field(default_factory=dict, init=False)

    def update(self, changed: Iterable[Replica]) -> None:
        """Move partitions whose leader or leader epoch changed to the fetcher of the leader."""
        own_id = self._replicas.broker_id
        added: dict[TopicPartition, Replica] = {}
        for replica in changed:
            partition, leader = replica.partition, replica.state.leader
            follows = leader not in (-1, own_id) and not self._is_shutting_down()
            for broker, fetcher in self._fetchers.items():
                if broker != leader or not follows:
                    fetcher.forget(partition)
            if not follows:
                continue
            if leader in self._fetchers and partition in self._fetchers[leader].following:
                self._fetchers[leader].follow(partition, replica.state.leader_epoch)
            else:
                added[partition] = replica
        for partition in order_added(added, self._endpoint_of, self._version):
            state = added[partition].state
            if state.leader not in self._fetchers:
                self._fetchers[state.leader] = Fetcher(
                    self._process,
                    self._connections,
                    state.leader,
                    self._replicas,
                    self._version,
                    self._disk,
                    self._quota,
                    self._starts_us(),
                )
            self._fetchers[state.leader].follow(partition, state.leader_epoch)


def order_added(
    added: Mapping[TopicPartition, Replica], endpoint_of: Callable[[int], tuple[str, int]], version: KafkaVersion
) -> list[TopicPartition]:
    """Return the partitions that one LeaderAndIsr adds to fetchers, in the order in which they are added.

    Args:
        added: the replicas that begin to follow.
        endpoint_of: returns host and port of a leader.
        version: release of the follower.
    """
    partitions, orders, rules = list(added), version.orders, version.broker

    def hash_of_start(partition: TopicPartition) -> int:
        """Return the `hashCode` of a partition with the leader and the offset that its fetcher starts with."""
        replica, (host, port) = added[partition], endpoint_of(added[partition].state.leader)
        leader = product_hash(replica.state.leader, string_hash(host), port)
        epoch = (replica.state.leader_epoch,) if rules.fetchers_start_with_leader_epochs else ()
        offset = replica.high_watermark if rules.fetches_from_high_watermark else replica.log.end
        return product_hash(topic_partition_hash(*partition), product_hash(leader, *epoch, long_hash(offset)))

    if orders.fetches == "by topic" and len(partitions) <= SMALL:
        partitions = mutable_set_order(partitions, orders.scala, cluster_partition_hash)
        partitions = mutable_set_order(partitions, orders.scala, hash_of_start)
    keys = Collections(orders.scala, orders.fetches in _CASE_CLASSES)
    ordered = immutable_order(partitions, orders.scala, keys.partition_hash)
    assert len(ordered) == len(added), "an order loses no partition"
    return ordered


def order_fetched(followed: Sequence[TopicPartition], orders: OrderRules) -> list[TopicPartition]:
    """Return the followed partitions of one leader, in the order in which it handles them in a fetch.

    They are given in the order in which the fetcher added them.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> followed = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    >>> [str(partition) for partition in order_fetched(followed, kafka_version("2.4").orders)]
    ['b-1', 'b-0', 'a-0']
    """
    ordered = list(_order_fetched(tuple(followed), orders.fetches, orders.scala))
    assert len(ordered) == len(followed), "an order loses no partition"
    return ordered


@lru_cache(maxsize=256)  # a follower's partitions change rarely, its fetches come a few times a second
def _order_fetched(followed: Sequence[TopicPartition], fetches: FetchOrder, scala: Scala) -> Sequence[TopicPartition]:
    keys = Collections(scala, fetches in _CASE_CLASSES)
    if fetches == "by topic":
        return _by_topic(immutable_order(followed, scala, keys.partition_hash))
    fetched = mutable_order(followed, scala, keys.partition_hash)
    if fetches == "by topic, hashed":
        return _by_topic(fetched)
    if fetches == "java's maps":
        grouped = grouped_by_topic(mutable_order(fetched, scala, Collections(scala).partition_hash))
        on_wire = [
            TopicPartition(topic, partition)
            for topic in hash_map_order(list(grouped))
            for partition in hash_map_order([of.partition for of in grouped[topic]])
        ]
    else:
        named = immutable_order(mutable_order(fetched, scala, keys.partition_hash), scala, keys.partition_hash)
        grouped = grouped_by_topic(named)
        topics = immutable_order(mutable_order(grouped, scala), scala)
        on_wire = [of for topic in topics for of in immutable_order(grouped[topic], scala, keys.partition_hash)]
    return immutable_order(on_wire, scala, keys.partition_hash)


_CASE_CLASSES = ("scala's maps", "java's maps")


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [partition for group in grouped_by_topic(partitions).values() for partition in group]
