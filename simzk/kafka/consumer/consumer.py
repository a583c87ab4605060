"""What a consumer holds: its partitions, how far its application has read each, and what it writes of that.

Rules of the module (docs/reference/kafka.md §4.5; commitOffsets, PartitionTopicInfo, ConsumerFetcherManager):
  - offsets are written whatever stands there, by whoever believes that he holds the partition: one who has lost it
    may set an offset back;
  - an offset is written only where it differs from what this consumer last read or wrote;
  - a partition without an offset starts at the end of its log, or at 0 where `auto.offset.reset` is `smallest`, once
    its leader is found; so does one whose log has become shorter than what was read;
  - the application reads as fast as records come: what the leader holds counts as read, while fetchers run.

A consumer's rebalance: let go of all, read the group, take what the assignor gives, again until it comes out.

Rules of the module (docs/reference/kafka.md §4.3; ZKRebalancerListener):
  - one rebalance at a time, under a lock that closing takes too; up to `rebalance.max.retries` tries, after each that
    fails a pause of `rebalance.backoff.ms`;
  - all partitions that it was given are tried, one by one; if any has another owner, those that were made are deleted
    again, the last first, and the try has failed;
  - after the last try nothing is held until something triggers the next rebalance: the known end of a group whose
    dead member's session outlives the tries;
  - without a broker there is nothing to do but to watch for one.

One old high-level consumer: a process with a session, an id, listeners, and the partitions it owns.

Rules of the module (docs/reference/kafka.md §4; ZookeeperConsumerConnector):
  - it registers, listens to the ids of its group and to its topics, rebalances; one with a regex then listens to the
    list of topics too;
  - what it hears sets a flag, and one watcher thread rebalances once for all that was heard meanwhile; 0.8.0 rebalances
    on its event thread when a topic changes, and later releases when the list of topics does;
  - a new session forgets all that was held, registers, and rebalances on the event thread;
  - closing waits for the rebalance that is under way, writes offsets and ends the session; a kill does nothing: ids and
    owners stay until the session expires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.errors import ConfigError, SimzkError
from simzk.jvm.concurrent_hash_map import concurrent_order
from simzk.jvm.scala_collections import immutable_order, mutable_order
from simzk.kafka import paths
from simzk.kafka.consumer import group_registry
from simzk.kafka.consumer.assignors import GroupView, Strategy
from simzk.kafka.consumer.errors import ConsumerError, NoNodeError, RebalanceFailedError, RegistrationRefusedError
from simzk.kafka.consumer.group_registry import GroupRegistry
from simzk.kafka.consumer.zk_client import ZkClient
from simzk.kafka.schemas import consumer as schema
from simzk.kafka.schemas.consumer import ConsumerRegistration
from simzk.kafka.topic_partition import TopicPartition, topic_and_partition_hash
from simzk.simulation import Future, History, Process, Queue, Scheduler

if TYPE_CHECKING:
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.consumer.settings import ConsumerConfig, ConsumerVersion
    from simzk.kafka.consumer.subscriptions import Subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simzk.kafka.consumer.assignors import ThreadId
    from simzk.kafka.consumer.settings import ConsumerConfig, ConsumerVersion
    from simzk.simulation import Task

    LogEnd: TypeAlias = Callable[[TopicPartition], int | None]
    """How many records consumers may read of a partition; None while it has no leader that can be asked."""

NO_OFFSET = -1


class Holding:
    """One partition that a consumer holds: by which thread, how far it is read, whether its leader was found."""

    __slots__ = ("found", "offset", "thread")

    def __init__(self, thread: ThreadId, offset: int) -> None:
        self.thread = thread
        self.offset = offset
        self.found = False


class Holdings:
    """All that a consumer holds.

    Args:
        registry: where offsets are read and written.
        process: whose time passes.
        version: in which order offsets are written.
        config: how offsets begin.
        log_end: what there is to read.
        reads: whether the application reads by itself; else `consumed` alone moves an offset.
    """

    def __init__(
        self,
        registry: GroupRegistry,
        process: Process,
        version: ConsumerVersion,
        config: ConsumerConfig,
        log_end: LogEnd,
        *,
        reads: bool,
    ) -> None:
        self.by_topic: dict[str, dict[int, Holding]] = {}
        self._registry = registry
        self._process = process
        self._version = version
        self._config = config
        self._log_end = log_end
        self._reads = reads
        self._written: dict[TopicPartition, int] = {}
        self._finder: Task[None] | None = None
        self._fetching = False

    @property
    def fetching(self) -> bool:
        """Whether fetchers run: only then does the application get records."""
        return self._fetching

    def partitions(self) -> list[TopicPartition]:
        """What is held, in the order of the maps it is kept in."""
        return [
            TopicPartition(topic, number)
            for topic in concurrent_order(self.by_topic)
            for number in concurrent_order(self.by_topic[topic])
        ]

    def get(self, partition: TopicPartition) -> Holding | None:
        """One partition, None where it is not held."""
        return self.by_topic.get(partition.topic, {}).get(partition.partition)

    def replace(self, taken: Mapping[TopicPartition, tuple[ThreadId, int]]) -> None:
        """Hold other partitions from now on, each from the offset given."""
        self.by_topic = {}
        for partition, (thread, offset) in taken.items():
            self.by_topic.setdefault(partition.topic, {})[partition.partition] = Holding(thread, offset)

    # -- records

    def start_fetching(self) -> None:
        """Look for the leaders of all partitions, and read from each that is found."""
        assert self._finder is None, "fetchers are started once"
        self._fetching = True
        if self.by_topic:
            self._finder = self._process.spawn(self._find_leaders(), "leader finder")

    def stop_fetching(self) -> None:
        """Read no more; what has come is read."""
        self.read_on()
        self._fetching = False
        if self._finder is not None:
            self._finder.cancel()
            self._finder = None

    def read_on(self) -> None:
        """Let the application read what has come."""
        if not self._fetching:
            return
        for partition in self.partitions():
            holding = self.get(partition)
            end = self._log_end(partition)
            if holding is None or not holding.found or end is None:
                continue
            if holding.offset > end:
                holding.offset = self._first_offset(end)
            elif self._reads:
                holding.offset = end

    async def _find_leaders(self) -> None:
        missing = self.partitions()
        while missing:
            await self._registry.live_brokers()
            missing = [partition for partition in missing if not self._find(partition)]
            await self._process.sleep(self._config.integer("refresh.leader.backoff.ms") * 1000)

    def _find(self, partition: TopicPartition) -> bool:
        holding, end = self.get(partition), self._log_end(partition)
        if holding is None:
            return True
        if end is None:
            return False
        holding.found = True
        if not 0 <= holding.offset <= end:
            holding.offset = self._first_offset(end)
        return True

    def _first_offset(self, end: int) -> int:
        return end if self._config.text("auto.offset.reset") == "largest" else 0

    # -- offsets

    async def fetch_offset(self, partition: TopicPartition) -> int:
        """Read how far the group has consumed a partition, NO_OFFSET where nobody has.

        Raises:
            ZnodeError: what stands there is no offset.
        """
        path = group_registry.offset(self._registry.group, partition)
        try:
            offset = schema.decode_offset(path, await self._registry.client.read(path))
        except NoNodeError:
            offset = NO_OFFSET
        self._written[partition] = offset
        return offset

    async def commit(self) -> None:
        """Write how far all partitions are read."""
        self.read_on()
        partitions = self.partitions()
        if self._version.commits_by_hash:
            partitions = immutable_order(partitions, "2.11", topic_and_partition_hash)
        held = [(partition, self.get(partition)) for partition in partitions]
        await self.commit_offsets((partition, holding.offset) for partition, holding in held if holding is not None)

    async def commit_offsets(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        """Write offsets, one at a time, those left out that this consumer knows to stand there."""
        for partition, offset in offsets:
            if self._written.get(partition) != offset:
                path = group_registry.offset(self._registry.group, partition)
                await self._registry.client.write(path, schema.encode_offset(offset))
                self._written[partition] = offset


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from simzk.kafka.consumer.assignors import ThreadId
    from simzk.kafka.consumer.settings import Assignor, ConsumerConfig, ConsumerVersion

    Tell = Callable[[str, str, str, str], None]


class Lock:
    """Held by one coroutine at a time, handed on in the order in which it was asked for."""

    def __init__(self) -> None:
        self._free: Queue[None] = Queue()
        self._free.put(None)

    @property
    def held(self) -> bool:
        """Whether somebody holds it."""
        return not len(self._free)

    async def acquire(self) -> None:
        """Wait for it."""
        await self._free.get()

    def release(self) -> None:
        """Hand it on."""
        assert self.held, "a lock is released by who holds it"
        self._free.put(None)


class Rebalancer:
    """The rebalances of one consumer.

    Args:
        registry: reads and writes of the group.
        holdings: what is held.
        process: whose time passes.
        version, config: the consumer's.
        on_no_brokers: watches for brokers.
        tell: records an event (what, subject, before, after).
    """

    def __init__(
        self,
        registry: GroupRegistry,
        holdings: Holdings,
        process: Process,
        version: ConsumerVersion,
        config: ConsumerConfig,
        on_no_brokers: Callable[[], Coroutine[Future[Any], None, object]],
        tell: Tell,
    ) -> None:
        self.lock = Lock()
        self._closing = False
        self._registry = registry
        self._holdings = holdings
        self._process = process
        self._version = version
        self._config = config
        self._on_no_brokers = on_no_brokers
        self._tell = tell

    def is_closing(self) -> bool:
        """Whether the consumer is on its way out."""
        return self._closing

    def begin_closing(self) -> None:
        """Say that the consumer is on its way out."""
        self._closing = True

    async def rebalance(self) -> None:
        """Rebalance until a try comes out.

        Raises:
            RebalanceFailedError: none has.
        """
        await self.lock.acquire()
        try:
            if self.is_closing():
                return
            for _ in range(self._config.integer("rebalance.max.retries")):
                if self.is_closing() and self._version.stops_between_tries:
                    return
                if await self._try():
                    return
                await self._stop_and_commit()
                await self._process.sleep(self._config.integer("rebalance.backoff.ms") * 1000)
        finally:
            self.lock.release()
        self._tell("rebalance failed", "", "", "no more tries")
        raise RebalanceFailedError(f"{self._registry.consumer_id} cannot rebalance")

    async def _try(self) -> bool:
        try:
            await self._registry.check_brokers()
            return await self._try_once()
        except (ConsumerError, SimzkError) as error:
            self._tell("rebalance tried in vain", "", "", str(error))
            return False

    async def _try_once(self) -> bool:
        registry = self._registry
        own = await registry.threads_of(registry.consumer_id)
        if self._version.before_assignors:
            threads = await registry.all_threads()
            brokers = await registry.live_brokers()
            if brokers:
                view = GroupView(tuple(own), await registry.partitions_of(own), threads)
                await self._let_go()
        else:
            brokers = await registry.live_brokers()
            if brokers:
                await self._let_go()
                view = await registry.view()
        if not brokers:
            self._tell("no brokers found", "", "", "")
            await self._on_no_brokers()
            return True
        return await self._take(self._given(view))

    async def _let_go(self) -> None:
        """Stop, write offsets, and delete what is owned."""
        await self._stop_and_commit()
        held = self._holdings.by_topic
        for topic in concurrent_order(held):
            for number in concurrent_order(held.get(topic, {})):
                await self._registry.release(TopicPartition(topic, number))
            held.pop(topic, None)

    async def _stop_and_commit(self) -> None:
        self._holdings.stop_fetching()
        if self._config.truth("auto.commit.enable"):
            await self._holdings.commit()

    def _given(self, view: GroupView) -> dict[TopicPartition, ThreadId]:
        """What the assignor gives this consumer, in the order in which it deals."""
        whole = assignor_of(self._version, self._config)(view)
        return {
            partition: thread for partition, thread in whole.items() if thread.consumer == self._registry.consumer_id
        }

    async def _take(self, given: dict[TopicPartition, ThreadId]) -> bool:
        order = mutable_order(given, "2.11", topic_and_partition_hash)
        read_order = list(given) if self._version.before_assignors else order
        taken = {
            partition: (given[partition], await self._holdings.fetch_offset(partition)) for partition in read_order
        }
        if self.is_closing():
            return False
        if self._version.before_assignors:
            order = immutable_order(order, "2.11", topic_and_partition_hash)
        if not await self._claim_all(order, given):
            return False
        self._holdings.replace(taken)
        self._holdings.start_fetching()
        self._tell("rebalanced", "", "", f"owns {' '.join(map(str, sorted(taken))) or 'nothing'}")
        return True

    async def _claim_all(self, order: list[TopicPartition], given: dict[TopicPartition, ThreadId]) -> bool:
        claimed = [partition for partition in order if await self._registry.claim(partition, given[partition])]
        if len(claimed) == len(order):
            return True
        conflicts = [partition for partition in order if partition not in claimed]
        self._tell("rebalance tried in vain", "", "", f"others own {' '.join(map(str, conflicts))}")
        for partition in reversed(claimed):
            await self._registry.release(partition)
        return False


def assignor_of(version: ConsumerVersion, config: ConsumerConfig) -> Assignor:
    """The assignor that a consumer of a release takes for what is configured; an unknown one means range."""
    strategy: Strategy = "roundrobin" if config.text("partition.assignment.strategy") == "roundrobin" else "range"
    return version.assignors.get(strategy, version.assignors["range"])


_ID_BITS = 64
_ID_DIGITS = 8


class World(NamedTuple):
    """What surrounds a consumer: time, the way to ZooKeeper, what there is to read, and where its story is told."""

    scheduler: Scheduler
    host: ZooKeeperHost
    history: History
    log_end: LogEnd


class Identity(NamedTuple):
    """Who a consumer is.

    Args:
        group: of which it is a member.
        name: of its process.
        consumer_id: `consumer.id`; None for one that is drawn at each start.
        machine: the host name in an id that is drawn.
    """

    group: str
    name: str
    consumer_id: str | None
    machine: str


class Consumer:
    """One consumer of a group.

    Args:
        identity: who it is.
        subscription: what it reads.
        version: of which release it is.
        config: its configuration.
        world: what surrounds it.
        watch_brokers: whether it listens to `/brokers/ids` from the start, as the wiki says that consumers do; those of
            no release do.
        reads: whether its application reads all that comes; else `consume` alone moves an offset.
    """

    def __init__(
        self,
        identity: Identity,
        subscription: Subscription,
        version: ConsumerVersion,
        config: ConsumerConfig,
        world: World,
        *,
        watch_brokers: bool = False,
        reads: bool = True,
    ) -> None:
        self.identity = identity
        self.subscription = subscription
        self.version = version
        self.config = config
        self.process = Process(world.scheduler, identity.name)
        self._world = world
        self._watch_brokers = watch_brokers
        self._reads = reads
        self._begin()

    # -- what it is asked

    @property
    def name(self) -> str:
        """The name of its process, and of its events."""
        return self.identity.name

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.process.alive

    @property
    def idle(self) -> bool:
        """Whether it has come up and nothing is left for it to rebalance; one that does not run is."""
        return not self.alive or (self.started and not self._triggered and not self._rebalancer.lock.held)

    @property
    def session_id(self) -> int:
        """Its session; 0 where it has none."""
        return self._client.session.session_id

    @property
    def consuming(self) -> bool:
        """Whether its application gets records now: not while it lets go of what it holds, nor before it holds any."""
        return self.alive and self._holdings.fetching

    def owned(self) -> dict[TopicPartition, str]:
        """What it believes that it owns, and by which thread; nothing while it does not run."""
        held = self._holdings.by_topic if self.alive else {}
        return {
            TopicPartition(topic, number): str(held[topic][number].thread)
            for topic in sorted(held)
            for number in sorted(held[topic])
        }

    def offset(self, topic: str, partition: int) -> int | None:
        """The next record that its application will read; None where it does not hold the partition."""
        self._holdings.read_on()
        holding = self._holdings.get(TopicPartition(topic, partition))
        return None if holding is None else holding.offset

    # -- what its application does

    def consume(self, topic: str, partition: int, offset: int) -> None:
        """Read on to an offset.

        Raises:
            ConfigError: it does not hold the partition.
        """
        holding = self._holdings.get(TopicPartition(topic, partition))
        if holding is None or not self.alive:
            owned = ", ".join(map(str, self.owned())) or "nothing"
            raise ConfigError(f"{self.name} does not hold {topic}-{partition}", right=f"one of what it holds: {owned}")
        holding.offset = offset

    def commit(self, topic: str | None = None, partition: int = 0, offset: int = 0) -> Future[None]:
        """Write an offset, or how far all partitions are read where no topic is named.

        Nobody asks whether the partition is (still) its own (§4.6, lost commit).

        Returns:
            done once written.
        """
        if topic is None:
            return self.process.spawn(self._holdings.commit(), "commit")
        offsets = [(TopicPartition(topic, partition), offset)]
        return self.process.spawn(self._holdings.commit_offsets(offsets), "commit")

    # -- its life

    def start(self) -> None:
        """Start its process, which then registers."""
        self._tell("started")
        self.process.spawn(self._run(), "start")

    def close(self) -> None:
        """Ask it to stop cleanly."""
        self._running()
        self._tell("closing")
        if not self.version.closes_under_lock:
            self._rebalancer.begin_closing()
        self.process.spawn(self._close(), "close")

    def kill(self) -> None:
        """End it at once, as `kill -9` does, if it runs; its session lives on until it expires."""
        if self.alive:
            self._tell("killed")
            self._end()

    def restart(self) -> None:
        """Start it again, with a new id where that is drawn.

        Raises:
            ConfigError: it runs.
        """
        if self.alive:
            raise ConfigError(f"{self.name} is running", right="one that is not")
        self.process.restart()
        self._begin()
        self.start()

    def pause(self, seconds: float | None = None) -> None:
        """Stop its process for a time, or until `resume`."""
        self._running()
        self.process.pause(None if seconds is None else round(seconds * 1_000_000))
        self._tell("paused", after="" if seconds is None else f"for {seconds:g} s")

    def resume(self) -> None:
        """Let it go on."""
        self._running()
        self.process.resume()
        self._tell("resumed")

    def expire(self) -> None:
        """Expire its session at once, as ZooKeeper does with one it has not heard of for long."""
        self._running()
        self._tell("session expired by hand")
        self._world.host.server.expire(self._client.session.session_id, self._world.host.now_ms())
        self._world.host.send_output()

    def disconnect(self) -> None:
        """Break its connection to ZooKeeper; it comes back with its session."""
        self._running()
        self._tell("disconnected from ZooKeeper")
        self._client.session.break_connection()

    def _running(self) -> None:
        if not self.alive:
            raise ConfigError(f"{self.name} is not running", right="one that runs")

    def _begin(self) -> None:
        """All that a process has in memory."""
        identity, world, config = self.identity, self._world, self.config
        excluded = self.version.internal_topics if config.truth("exclude.internal.topics") else frozenset()
        self.consumer_id = f"{identity.group}_{identity.consumer_id or self._drawn_id()}"
        self.started = False
        self._subscription = self.subscription._replace(excluded=excluded)
        self._client = self._new_client()
        self._topic_client = self._client
        self._registry = GroupRegistry(
            self._client, self.process, self.version, identity.group, self.consumer_id, excluded
        )
        self._holdings = Holdings(self._registry, self.process, self.version, config, world.log_end, reads=self._reads)
        self._rebalancer = Rebalancer(
            self._registry, self._holdings, self.process, self.version, config, self._listen_to_brokers, self._tell
        )
        self._topics: list[str] = []
        self._listened: dict[str, None] = {}
        self._triggered = False
        self._wake: Future[None] = Future()

    def _new_client(self) -> ZkClient:
        timeout_ms = self.config.integer("zookeeper.session.timeout.ms")
        return ZkClient(self.process, self._world.host, timeout_ms, self._on_listener_error)

    def _drawn_id(self) -> str:
        bits = self._world.scheduler.stream(f"consumer ids/{self.name}").bits(_ID_BITS)
        return f"{self.identity.machine}-{self._world.host.now_ms()}-{f'{bits:x}'[:_ID_DIGITS]}"

    def _end(self) -> None:
        for client in dict.fromkeys((self._client, self._topic_client)):
            client.session.drop_connection()
        self.process.kill()

    def _tell(self, what: str, subject: str = "", before: str = "", after: str = "") -> None:
        self._world.history.record(self.name, what, subject, before, after)

    # -- coming up and going

    async def _run(self) -> None:
        await self._client.start()
        if self.config.truth("auto.commit.enable"):
            self.process.spawn(self._commit_regularly(), "auto commit")
        if self._subscription.is_list:
            self._topics = self._subscription.allowed(await self._client.children(paths.TOPICS))
        try:
            await self._register()
        except RegistrationRefusedError as error:
            self._tell("registration refused", "", "", str(error))
            self.process.spawn(self._close(), "close")
            return
        self.process.spawn(self._watch(), "watcher")
        await self._listen_and_rebalance()
        if self._subscription.is_list:
            await self._listen_to_topic_list()
        self.started = True

    async def _register(self) -> None:
        subscription = self._subscription
        counts = dict(subscription.counts)
        if not subscription.is_list:  # Scala's map of what the application asks for
            counts = {topic: counts[topic] for topic in immutable_order(counts, "2.11")}
        registration = ConsumerRegistration(subscription.pattern, counts, self._world.host.now_ms())
        await self._registry.register(registration)
        self._tell("joined", self.identity.group, "", self.consumer_id)

    async def _close(self) -> None:
        await self._rebalancer.lock.acquire()
        self._rebalancer.begin_closing()
        if self._topic_client is not self._client:
            await self._topic_client.close()
        self._holdings.stop_fetching()
        if self.config.truth("auto.commit.enable"):
            await self._holdings.commit()
        await self._client.close()
        self._holdings.by_topic = {}
        self._tell("closed")
        self._end()

    async def _commit_regularly(self) -> None:
        while True:
            await self.process.sleep(self.config.integer("auto.commit.interval.ms") * 1000)
            await self._holdings.commit()

    # -- what it listens to

    async def _listen_and_rebalance(self) -> None:
        """Listen to the group and to all topics that it has ever taken, then rebalance."""
        client = self._client
        for topic in await self._registry.threads_by(self._subscription, self.consumer_id):
            self._listened[topic] = None
        if self._on_new_session not in client.new_session_listeners:
            client.new_session_listeners.append(self._on_new_session)
        await client.subscribe_children(group_registry.ids(self.identity.group), self._on_change)
        for topic in mutable_order(self._listened):
            await client.subscribe_data(paths.topic(topic), self._on_topic)
        if self._watch_brokers:
            await self._listen_to_brokers()
        try:
            await self._rebalancer.rebalance()
        except ConsumerError:
            return  # told already; the application is told too, and has its streams all the same

    async def _listen_to_brokers(self) -> None:
        await self._client.subscribe_children(paths.BROKER_IDS, self._on_change)

    async def _listen_to_topic_list(self) -> None:
        if self.version.watches_in_own_session:
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
        """The list of topics has changed: it is read once more, and what is new or gone makes for a rebalance."""
        before, self._topics = (
            self._topics,
            self._subscription.allowed(await self._topic_client.children(paths.TOPICS)),
        )
        if set(before) != set(self._topics):
            self._tell("topics changed", "", " ".join(sorted(before)), " ".join(sorted(self._topics)))
            await self._listen_and_rebalance()

    async def _on_new_topic_session(self) -> None:
        await self._topic_client.subscribe_children(paths.TOPICS, self._on_topic_list)

    async def _on_change(self, _: list[str] | None) -> None:
        self._trigger()

    async def _on_topic(self, data: bytes | None) -> None:
        """The partitions of a topic have changed; that it is deleted is let pass."""
        if data is None:
            return
        if self.version.rebalances_on_event_thread:
            await self._rebalancer.rebalance()
        else:
            self._trigger()

    async def _on_new_session(self) -> None:
        self._tell("new session")
        self._holdings.by_topic.clear()
        await self._register()
        await self._rebalancer.rebalance()

    def _on_listener_error(self, error: Exception) -> None:
        self._tell("listener failed", "", "", str(error))

    # -- the watcher thread

    def _trigger(self) -> None:
        self._triggered = True
        if not self._wake.done:
            self._wake.set_result(None)

    async def _watch(self) -> None:
        """Rebalance once for all that was heard while the last rebalance ran."""
        while not self._rebalancer.is_closing():
            if not self._triggered:
                self._wake = Future()
                await self._wake
            self._triggered = False
            try:
                await self._rebalancer.rebalance()
            except ConsumerError:
                continue  # told already: nothing is held until the next trigger
