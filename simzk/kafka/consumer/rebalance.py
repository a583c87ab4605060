"""A consumer's rebalance: let go of all, read the group, take what the assignor gives, again until it comes out.

Rules of the module (docs/reference/kafka.md §4.3; ZKRebalancerListener):
  - one rebalance at a time, under a lock that closing takes too; up to `rebalance.max.retries` tries, after each that
    fails a pause of `rebalance.backoff.ms`;
  - all partitions that it was given are tried, one by one; if any has another owner, those that were made are deleted
    again, the last first, and the try has failed;
  - after the last try nothing is held until something triggers the next rebalance: the known end of a group whose
    dead member's session outlives the tries;
  - without a broker there is nothing to do but to watch for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.kafka.consumer.assignors import GroupView, Strategy
from simzk.kafka.consumer.errors import ConsumerError, RebalanceFailedError
from simzk.kafka.consumer.hash_map_order import concurrent_order
from simzk.kafka.consumer.holdings import topic_and_partition_hash
from simzk.kafka.topic_partition import TopicPartition
from simzk.partitions.scala_order import immutable_order, mutable_order
from simzk.simulation import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from simzk.kafka.consumer.assignors import ThreadId
    from simzk.kafka.consumer.config import ConsumerConfig
    from simzk.kafka.consumer.group_registry import GroupRegistry
    from simzk.kafka.consumer.holdings import Holdings
    from simzk.kafka.consumer.versions import Assignor, ConsumerVersion
    from simzk.simulation import Future, Process

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
