"""One old high-level consumer: a process with a session, an id, listeners, and the partitions it owns.

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

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka import paths
from simzk.kafka.consumer import group_registry
from simzk.kafka.consumer.errors import ConsumerError, RegistrationRefusedError
from simzk.kafka.consumer.group_registry import GroupRegistry
from simzk.kafka.consumer.holdings import Holdings
from simzk.kafka.consumer.rebalance import Rebalancer
from simzk.kafka.consumer.zk_client import ZkClient
from simzk.kafka.schemas.consumer import ConsumerRegistration
from simzk.kafka.topic_partition import TopicPartition
from simzk.partitions.scala_order import immutable_order, mutable_order
from simzk.simulation import Future, History, Process, Scheduler
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from simzk.kafka.consumer.config import ConsumerConfig
    from simzk.kafka.consumer.holdings import LogEnd
    from simzk.kafka.consumer.subscriptions import Subscription
    from simzk.kafka.consumer.versions import ConsumerVersion
    from simzk.kafka.zookeeper_host import ZooKeeperHost

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
        self._world.host.server.expire(self._client.session.session_id, self._world.host.now_ms)
        self._world.host.pump()

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
        return f"{self.identity.machine}-{self._world.host.now_ms}-{f'{bits:x}'[:_ID_DIGITS]}"

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
        registration = ConsumerRegistration(subscription.pattern, counts, self._world.host.now_ms)
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
