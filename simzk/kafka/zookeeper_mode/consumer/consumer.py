"""Old high-level consumer: a process with a session, an id, listeners, and the partitions that it owns.

Rules of the module (docs/reference/kafka.md §4; ZookeeperConsumerConnector):
  - a consumer registers, listens to the ids of its group and to its topics, and rebalances; with a regex it then
    listens to the list of topics too;
  - a notification sets a flag, and one watcher thread rebalances once for all notifications meanwhile; 0.8.0 rebalances
    on its event thread when a topic changes, later releases when the list of topics changes;
  - a new session drops all owned partitions, registers, and rebalances on the event thread;
  - closing waits for the rebalance in progress, writes offsets and closes the session; a kill does none of it: ids and
    owners remain until the session expires.

Rules of a rebalance (§4.3; ZKRebalancerListener):
  - one rebalance runs at a time, under a lock that closing takes too; it has `rebalance.max.retries` attempts, with a
    pause of `rebalance.backoff.ms` after each failed one;
  - all assigned partitions are claimed one by one; if any has another owner, the claimed ones are deleted again in
    reverse order, and the attempt has failed;
  - after the last attempt the consumer owns nothing until the next trigger: the known fate of a group when the session
    of a dead member outlives the attempts;
  - without brokers the consumer only watches for them.

Rules of offsets (§4.5; commitOffsets, PartitionTopicInfo, ConsumerFetcherManager):
  - offsets are written without a check of the owner: a consumer that has lost a partition may set its offset back;
  - an offset is written only if it differs from what this consumer last read or wrote;
  - a partition without an offset starts at the end of its log, or at 0 if `auto.offset.reset` is `smallest`, once its
    leader is found; so does a partition with a log shorter than its offset;
  - the application reads records as they arrive: while fetchers run, all up to the high watermark counts as read.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from simzk.errors import ConfigError, SimzkError
from simzk.jvm.hash_map import concurrent_order
from simzk.jvm.scala_collections import immutable_order, mutable_order
from simzk.kafka.topic_partition import TopicPartition, topic_and_partition_hash
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.consumer import group_registry, subscriptions
from simzk.kafka.zookeeper_mode.consumer.assignors import GroupView, Strategy
from simzk.kafka.zookeeper_mode.consumer.errors import (
    ConsumerError,
    NoNodeError,
    RebalanceFailedError,
    RegistrationRefusedError,
)
from simzk.kafka.zookeeper_mode.consumer.group_registry import GroupRegistry
from simzk.kafka.zookeeper_mode.consumer.subscriptions import ConsumerRegistration
from simzk.kafka.zookeeper_mode.consumer.zk_client import ZkClient
from simzk.simulation import Future, History, Process, Queue, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.zookeeper_mode.consumer.assignors import ThreadId
    from simzk.kafka.zookeeper_mode.consumer.settings import Assignor, ConsumerConfig, ConsumerVersion
    from simzk.kafka.zookeeper_mode.consumer.subscriptions import Subscription
    from simzk.simulation import Task

    LogEnd: TypeAlias = Callable[[TopicPartition], int | None]
    """Return the number of records that consumers may read of a partition; None: no leader can be asked."""
    RecordEvent: TypeAlias = Callable[[str, str, str, str], None]
    """Record an event: kind, subject, state before, state after."""

NO_OFFSET = -1


@dataclass(eq=False, slots=True)
class OwnedPartition:
    """Partition that a consumer owns: its thread, the next offset to read, and whether its leader was found."""

    thread: ThreadId
    offset: int
    has_leader: bool = False


@dataclass(eq=False)
class OwnedPartitions:
    """All partitions that a consumer owns, and their offsets.

    Args:
        registry: reads and writes offsets.
        log_end: number of readable records of a partition.
        reads: whether the application reads by itself; otherwise only `Consumer.consume` moves an offset.

    Attributes:
        by_topic: the owned partitions, by topic and number.
        fetching: whether fetchers run: only then does the application receive records.
    """

    _registry: GroupRegistry
    _log_end: LogEnd
    _reads: bool
    by_topic: dict[str, dict[int, OwnedPartition]] = field(default_factory=dict)
    fetching: bool = False
    _written: dict[TopicPartition, int] = field(default_factory=dict)
    _finder: Task[None] | None = None

    def partitions(self) -> list[TopicPartition]:
        """Return the owned partitions in the order of Kafka's maps."""
        return [
            TopicPartition(topic, number)
            for topic in concurrent_order(self.by_topic)
            for number in concurrent_order(self.by_topic[topic])
        ]

    def get(self, partition: TopicPartition) -> OwnedPartition | None:
        """Return one partition; None if it is not owned."""
        return self.by_topic.get(partition.topic, {}).get(partition.partition)

    def replace(self, claimed: Mapping[TopicPartition, tuple[ThreadId, int]]) -> None:
        """Replace all owned partitions; each starts at the given offset."""
        assert self._finder is None, "the fetchers of the old partitions are running"
        assert not self.fetching, "the application reads the old partitions"
        self.by_topic = {}
        for partition, (thread, offset) in claimed.items():
            self.by_topic.setdefault(partition.topic, {})[partition.partition] = OwnedPartition(thread, offset)

    # -- records

    def start_fetching(self) -> None:
        """Look for the leaders of all partitions, and read from each leader found."""
        assert self._finder is None, "the fetchers are already running"
        self.fetching = True
        if self.by_topic:
            self._finder = self._registry.process.spawn(self._find_leaders(), "leader finder")

    def stop_fetching(self) -> None:
        """Read the records that have arrived, then stop."""
        self.advance_reads()
        self.fetching = False
        if self._finder is not None:
            self._finder.cancel()
            self._finder = None

    def advance_reads(self) -> None:
        """Move the offsets past the records that have arrived."""
        if not self.fetching:
            return
        for partition in self.partitions():
            position, end = self.get(partition), self._log_end(partition)
            if position is None or not position.has_leader or end is None:
                continue
            if position.offset > end:
                position.offset = self._first_offset(end)
            elif self._reads:
                position.offset = end

    async def _find_leaders(self) -> None:
        missing = self.partitions()
        while missing:
            await self._registry.live_brokers()
            missing = [partition for partition in missing if not self._find(partition)]
            await self._registry.process.sleep(self._registry.config.integer("refresh.leader.backoff.ms") * 1000)

    def _find(self, partition: TopicPartition) -> bool:
        """Begin to read a partition, and return whether it needs no more search."""
        position, end = self.get(partition), self._log_end(partition)
        if position is not None and end is not None:
            position.has_leader = True
            if not 0 <= position.offset <= end:
                position.offset = self._first_offset(end)
        return position is None or end is not None

    def _first_offset(self, end: int) -> int:
        return end if self._registry.config.text("auto.offset.reset") == "largest" else 0

    # -- offsets

    async def fetch_offset(self, partition: TopicPartition) -> int:
        """Read the group's committed offset of a partition; NO_OFFSET if there is none.

        Raises:
            ZnodeError: the znode does not contain an offset.
        """
        path = group_registry.offset(self._registry.group, partition)
        try:
            offset = subscriptions.decode_offset(path, await self._registry.client.read(path))
        except NoNodeError:
            offset = NO_OFFSET
        self._written[partition] = offset
        return offset

    async def commit(self) -> None:
        """Write the offsets of all owned partitions."""
        self.advance_reads()
        partitions = self.partitions()
        if self._registry.version.commits_in_hash_order:
            partitions = immutable_order(partitions, "2.11", topic_and_partition_hash)
        owned = [(partition, self.get(partition)) for partition in partitions]
        await self.commit_offsets((partition, position.offset) for partition, position in owned if position is not None)

    async def commit_offsets(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        """Write offsets one at a time, except those that this consumer last read or wrote."""
        for partition, offset in offsets:
            if self._written.get(partition) != offset:
                path = group_registry.offset(self._registry.group, partition)
                await self._registry.client.write(path, subscriptions.encode_offset(offset))
                self._written[partition] = offset


class Lock:
    """First-in, first-out lock for coroutines."""

    def __init__(self) -> None:
        self._free: Queue[None] = Queue()
        self._free.put(None)

    @property
    def is_acquired(self) -> bool:
        """Whether a coroutine has acquired the lock."""
        return not len(self._free)

    async def acquire(self) -> None:
        """Wait until the lock is free, and acquire it."""
        await self._free.get()
        assert self.is_acquired, "two coroutines have the lock"

    def release(self) -> None:
        """Release the lock to the next waiting coroutine."""
        assert self.is_acquired, "the lock is free"
        self._free.put(None)


@dataclass(eq=False)
class Rebalancer:
    """Rebalances of one consumer.

    Args:
        registry: reads and writes of the group.
        owned: partitions that the consumer owns.
        on_no_brokers: starts to watch for brokers.
        record: records an event.

    Attributes:
        lock: is acquired by a rebalance and by closing.
        closing: whether the consumer is closing.
    """

    _registry: GroupRegistry
    _owned: OwnedPartitions
    _on_no_brokers: Callable[[], Coroutine[Future[Any], None, object]]
    _record: RecordEvent
    lock: Lock = field(default_factory=Lock)
    closing: bool = False

    def _is_closing(self) -> bool:
        """Return whether the consumer is closing; a call, because it may change during any `await`."""
        return self.closing

    async def rebalance(self) -> None:
        """Rebalance until an attempt succeeds.

        Raises:
            RebalanceFailedError: every attempt failed.
        """
        await self.lock.acquire()
        try:
            if self._is_closing():
                return
            for _ in range(self._registry.config.integer("rebalance.max.retries")):
                if self._is_closing() and self._registry.version.stops_between_tries:
                    return
                if await self._attempt():
                    return
                await self._stop_and_commit()
                await self._registry.process.sleep(self._registry.config.integer("rebalance.backoff.ms") * 1000)
        finally:
            self.lock.release()
        self._record("rebalance failed", "", "", "no more tries")
        raise RebalanceFailedError(f"{self._registry.consumer_id} cannot rebalance")

    async def _attempt(self) -> bool:
        try:
            await self._registry.check_brokers()
            return await self._rebalance_once()
        except (ConsumerError, SimzkError) as error:
            self._record("rebalance tried in vain", "", "", str(error))
            return False

    async def _rebalance_once(self) -> bool:
        assert self.lock.is_acquired, "one rebalance runs at a time"
        registry = self._registry
        own = await registry.threads_of(registry.consumer_id)
        threads = await registry.all_threads() if registry.version.predates_assignors else {}
        if not await registry.live_brokers():
            self._record("no brokers found", "", "", "")
            await self._on_no_brokers()
            return True
        if registry.version.predates_assignors:
            view = GroupView(tuple(own), await registry.partitions_of(own), threads)
            await self._release_all()
        else:
            await self._release_all()
            view = await registry.view()
        return await self._claim_or_release(self._own_share(view))

    async def _release_all(self) -> None:
        """Stop the fetchers, write offsets, and delete the owners of all owned partitions."""
        await self._stop_and_commit()
        by_topic = self._owned.by_topic
        for topic in concurrent_order(by_topic):
            for number in concurrent_order(by_topic.get(topic, {})):
                await self._registry.release(TopicPartition(topic, number))
            by_topic.pop(topic, None)
        assert not self._owned.by_topic, "owners were added while all were deleted"

    async def _stop_and_commit(self) -> None:
        self._owned.stop_fetching()
        if self._registry.config.boolean("auto.commit.enable"):
            await self._owned.commit()

    def _own_share(self, view: GroupView) -> dict[TopicPartition, ThreadId]:
        """Return the partitions assigned to this consumer, in the order of assignment."""
        registry = self._registry
        whole = assignor_of(registry.version, registry.config)(view)
        return {partition: thread for partition, thread in whole.items() if thread.consumer == registry.consumer_id}

    async def _claim_or_release(self, given: dict[TopicPartition, ThreadId]) -> bool:
        order = mutable_order(given, "2.11", topic_and_partition_hash)
        read_order = list(given) if self._registry.version.predates_assignors else order
        offsets = {partition: (given[partition], await self._owned.fetch_offset(partition)) for partition in read_order}
        if self._is_closing():
            return False
        if self._registry.version.predates_assignors:
            order = immutable_order(order, "2.11", topic_and_partition_hash)
        assert len(order) == len(given) == len(offsets), "every order has all partitions"
        if not await self._claim_all(order, given):
            return False
        assert not self._owned.by_topic, "a consumer releases its partitions before it claims others"
        self._owned.replace(offsets)
        self._owned.start_fetching()
        self._record("rebalanced", "", "", f"owns {' '.join(map(str, sorted(offsets))) or 'nothing'}")
        return True

    async def _claim_all(self, order: list[TopicPartition], given: dict[TopicPartition, ThreadId]) -> bool:
        claimed = [partition for partition in order if await self._registry.claim(partition, given[partition])]
        if len(claimed) == len(order):
            return True
        conflicts = [partition for partition in order if partition not in claimed]
        self._record("rebalance tried in vain", "", "", f"others own {' '.join(map(str, conflicts))}")
        for partition in reversed(claimed):
            await self._registry.release(partition)
        return False


def assignor_of(version: ConsumerVersion, config: ConsumerConfig) -> Assignor:
    """Return the configured assignor of a release; an unknown strategy means range."""
    strategy: Strategy = "roundrobin" if config.text("partition.assignment.strategy") == "roundrobin" else "range"
    return version.assignors.get(strategy, version.assignors["range"])


class ConsumerEnvironment(NamedTuple):
    """Time, ZooKeeper, history and readable records of the cluster in which a consumer runs."""

    scheduler: Scheduler
    host: ZooKeeperHost
    history: History
    log_end: LogEnd


class Identity(NamedTuple):
    """Names of a consumer.

    Args:
        group: name of its group.
        name: name of its process.
        consumer_id: `consumer.id`; None: generated at each start.
        machine: host name in a generated id.
    """

    group: str
    name: str
    consumer_id: str | None
    machine: str


class Consumer:
    """Consumer of a group.

    Args:
        identity: its names.
        subscription: its topics.
        version: its release.
        config: its settings.
        environment: the cluster in which it runs.
        watch_brokers: whether it listens to `/brokers/ids` from the start, as Kafka's wiki page says; no release does.
        reads: whether its application reads by itself; otherwise only `consume` moves an offset.
    """

    def __init__(
        self,
        identity: Identity,
        subscription: Subscription,
        version: ConsumerVersion,
        config: ConsumerConfig,
        environment: ConsumerEnvironment,
        *,
        watch_brokers: bool = False,
        reads: bool = True,
    ) -> None:
        self.identity = identity
        self.subscription = subscription
        self.version = version
        self.config = config
        self.process = Process(environment.scheduler, identity.name)
        self._environment = environment
        self._watch_brokers = watch_brokers
        self._reads = reads
        self._reset()

    # -- state

    @property
    def name(self) -> str:
        """Name of its process and of its events."""
        return self.identity.name

    @property
    def alive(self) -> bool:
        """Whether its process is running."""
        return self.process.alive

    @property
    def idle(self) -> bool:
        """Whether it is not running, or has started and has no rebalance pending."""
        return not self.alive or (self.started and not self._triggered and not self._rebalancer.lock.is_acquired)

    @property
    def session_id(self) -> int:
        """Id of its session; 0 if it has none."""
        return self._client.session.session_id

    @property
    def consuming(self) -> bool:
        """Whether its application receives records: not during a rebalance, nor before the first one."""
        return self.alive and self._owned.fetching

    def owned(self) -> dict[TopicPartition, str]:
        """Return the partitions that it believes it owns, with their threads; none if it is not running."""
        by_topic = self._owned.by_topic if self.alive else {}
        return {
            TopicPartition(topic, number): str(owned.thread)
            for topic, by_number in sorted(by_topic.items())
            for number, owned in sorted(by_number.items())
        }

    def offset(self, topic: str, partition: int) -> int | None:
        """Return the offset of the next record to read; None if it does not own the partition."""
        self._owned.advance_reads()
        position = self._owned.get(TopicPartition(topic, partition))
        return None if position is None else position.offset

    # -- verbs of its application

    def consume(self, topic: str, partition: int, offset: int) -> None:
        """Move the position in a partition to an offset.

        Raises:
            ConfigError: the consumer does not own the partition.
        """
        position = self._owned.get(TopicPartition(topic, partition))
        if position is None or not self.alive:
            owned = ", ".join(map(str, self.owned())) or "nothing"
            raise ConfigError(f"{self.name} does not own {topic}-{partition}", right=f"one that it owns: {owned}")
        position.offset = offset

    def commit(self, topic: str | None = None, partition: int = 0, offset: int = 0) -> Future[None]:
        """Write an offset, or the offsets of all owned partitions if no topic is given.

        It is not checked whether the consumer (still) owns the partition (§4.6, lost commit).

        Returns:
            a future that is done when the offsets are written.
        """
        if topic is None:
            return self.process.spawn(self._owned.commit(), "commit")
        return self.process.spawn(self._owned.commit_offsets([(TopicPartition(topic, partition), offset)]), "commit")

    # -- lifecycle and faults

    def start(self) -> None:
        """Start its process, which registers and rebalances."""
        self._record("started")
        self.process.spawn(self._run(), "start")

    def close(self) -> None:
        """Start a clean shutdown."""
        self._require_running()
        self._record("closing")
        if not self.version.closes_under_lock:
            self._rebalancer.closing = True
        self.process.spawn(self._close(), "close")

    def kill(self) -> None:
        """Kill the process, as `kill -9` does, if it is running; its session remains until it expires."""
        if self.alive:
            self._record("killed")
            self._end()

    def restart(self) -> None:
        """Start it again, with a new id if ids are generated.

        Raises:
            ConfigError: it is running.
        """
        if self.alive:
            raise ConfigError(f"{self.name} is running", right="a consumer that is not running")
        self.process.restart()
        self._reset()
        self.start()

    def pause(self, seconds: float | None = None) -> None:
        """Pause its process for a time in seconds, or until `resume`."""
        self._require_running()
        self.process.pause(None if seconds is None else round(seconds * 1_000_000))
        self._record("paused", after="" if seconds is None else f"for {seconds:g} s")

    def resume(self) -> None:
        """Resume its process."""
        self._require_running()
        self.process.resume()
        self._record("resumed")

    def expire(self) -> None:
        """Expire its session at once."""
        self._require_running()
        self._record("session expired by hand")
        host = self._environment.host
        host.server.expire(self.session_id, host.now_ms())
        host.send_output()

    def disconnect(self) -> None:
        """Break its connection to ZooKeeper; it reconnects with its session."""
        self._require_running()
        self._record("disconnected from ZooKeeper")
        self._client.session.break_connection()

    def _require_running(self) -> None:
        if not self.alive:
            raise ConfigError(f"{self.name} is not running", right="a running consumer")

    def _reset(self) -> None:
        """Create the in-memory state of a fresh process."""
        identity, environment, config = self.identity, self._environment, self.config
        excluded = self.version.internal_topics if config.boolean("exclude.internal.topics") else frozenset()
        self.consumer_id = f"{identity.group}_{identity.consumer_id or self._generated_id()}"
        self.started = False
        self._subscription = self.subscription._replace(excluded=excluded)
        self._client = self._new_client()
        self._topic_client = self._client
        self._registry = GroupRegistry(
            self._client, self.process, self.version, config, identity.group, self.consumer_id, excluded
        )
        self._owned = OwnedPartitions(self._registry, environment.log_end, self._reads)
        self._rebalancer = Rebalancer(self._registry, self._owned, self._listen_to_brokers, self._record)
        self._topics: list[str] = []
        self._listened: dict[str, None] = {}
        self._triggered = False
        self._wake: Future[None] = Future()

    def _new_client(self) -> ZkClient:
        host, timeout_ms = self._environment.host, self.config.integer("zookeeper.session.timeout.ms")
        return ZkClient(self.process, host, timeout_ms, lambda error: self._record("listener failed", after=str(error)))

    def _generated_id(self) -> str:
        bits = self._environment.scheduler.stream(f"consumer ids/{self.name}").bits(64)
        return f"{self.identity.machine}-{self._environment.host.now_ms()}-{f'{bits:x}'[:8]}"

    def _end(self) -> None:
        assert self.alive, "a process ends once"
        for client in dict.fromkeys((self._client, self._topic_client)):
            client.session.drop_connection()
        self.process.kill()

    def _record(self, what: str, subject: str = "", before: str = "", after: str = "") -> None:
        self._environment.history.record(self.name, what, subject, before, after)

    # -- start and shutdown

    async def _run(self) -> None:
        await self._client.start()
        if self.config.boolean("auto.commit.enable"):
            self.process.spawn(self._commit_regularly(), "auto commit")
        if self._subscription.is_list:
            self._topics = self._subscription.selected(await self._client.children(paths.TOPICS))
        try:
            await self._register()
        except RegistrationRefusedError as error:
            self._record("registration refused", "", "", str(error))
            self.process.spawn(self._close(), "close")
            return
        self.process.spawn(self._watch(), "watcher")
        await self._listen_and_rebalance()
        if self._subscription.is_list:
            await self._listen_to_topic_list()
        self.started = True

    async def _register(self) -> None:
        assert not self._owned.by_topic, "a new session owns nothing"
        counts = dict(self._subscription.counts)
        if not self._subscription.is_list:  # the order of the Scala map that the application passes
            counts = {topic: counts[topic] for topic in immutable_order(counts, "2.11")}
        now_ms = self._environment.host.now_ms()
        await self._registry.register(ConsumerRegistration(self._subscription.pattern, counts, now_ms))
        self._record("joined", self.identity.group, "", self.consumer_id)

    async def _close(self) -> None:
        await self._rebalancer.lock.acquire()
        assert self.version.closes_under_lock or self._rebalancer.closing or not self.started, "closing was announced"
        self._rebalancer.closing = True
        if self._topic_client is not self._client:
            await self._topic_client.session.close()
        self._owned.stop_fetching()
        if self.config.boolean("auto.commit.enable"):
            await self._owned.commit()
        await self._client.session.close()
        self._owned.by_topic = {}
        self._record("closed")
        self._end()

    async def _commit_regularly(self) -> None:
        while True:
            await self.process.sleep(self.config.integer("auto.commit.interval.ms") * 1000)
            await self._owned.commit()

    # -- listeners

    async def _listen_and_rebalance(self) -> None:
        """Listen to the group and to every topic subscribed to so far, then rebalance."""
        client = self._client
        self._listened |= dict.fromkeys(await self._registry.threads_by(self._subscription, self.consumer_id))
        if self._on_new_session not in client.new_session_listeners:
            client.new_session_listeners.append(self._on_new_session)
        await client.subscribe_children(group_registry.ids(self.identity.group), self._on_change)
        for topic in mutable_order(self._listened):
            await client.subscribe_data(paths.topic(topic), self._on_topic)
        if self._watch_brokers:
            await self._listen_to_brokers()
        with suppress(ConsumerError):  # already recorded; the application receives the error and keeps its streams
            await self._rebalancer.rebalance()

    async def _listen_to_brokers(self) -> None:
        await self._client.subscribe_children(paths.BROKER_IDS, self._on_change)

    async def _listen_to_topic_list(self) -> None:
        assert self._topic_client is self._client, "one client watches the list of topics"
        if self.version.has_topic_session:
            if self._subscription.is_trivial:
                return
            self._topic_client = self._new_client()
            await self._topic_client.start()
        client = self._topic_client
        if not await client.exists(paths.TOPICS):
            await client.create_persistent(paths.TOPICS)
        client.new_session_listeners.append(self._on_new_topic_session)
        await client.subscribe_children(paths.TOPICS, self._on_topic_list)
        await self._on_topic_list([])

    async def _on_topic_list(self, _: list[str] | None) -> None:
        """Read the list of topics again, and rebalance if the subscribed topics changed."""
        assert self._subscription.is_list, "topics that are named are watched one by one"
        before = self._topics
        self._topics = self._subscription.selected(await self._topic_client.children(paths.TOPICS))
        if set(before) != set(self._topics):
            self._record("topics changed", "", " ".join(sorted(before)), " ".join(sorted(self._topics)))
            await self._listen_and_rebalance()

    async def _on_new_topic_session(self) -> None:
        await self._topic_client.subscribe_children(paths.TOPICS, self._on_topic_list)

    async def _on_change(self, _: list[str] | None) -> None:
        self._trigger()

    async def _on_topic(self, data: bytes | None) -> None:
        """Rebalance, or trigger it, when a topic's partitions changed; ignore its deletion."""
        if data is None:
            return
        if self.version.rebalances_on_event_thread:
            await self._rebalancer.rebalance()
        else:
            self._trigger()

    async def _on_new_session(self) -> None:
        self._record("new session")
        self._owned.by_topic.clear()
        await self._register()
        await self._rebalancer.rebalance()

    # -- the watcher thread

    def _trigger(self) -> None:
        self._triggered = True
        if not self._wake.done:
            self._wake.set_result(None)

    async def _watch(self) -> None:
        """Rebalance once for all notifications that arrived during the last rebalance."""
        while not self._rebalancer.closing:
            if not self._triggered:
                self._wake = Future()
                await self._wake
            self._triggered = False
            with suppress(ConsumerError):  # already recorded; nothing is owned until the next trigger
                await self._rebalancer.rebalance()


def check_path_part(what: str, text: str | None) -> None:
    """Raise a ConfigError if a given name cannot be part of a path."""
    if text is not None and (not text or "/" in text or text in (".", "..")):
        raise ConfigError(f"{what} is {text!r}", where=what, right="a name that can be part of a path")
