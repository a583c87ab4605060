"""What a consumer holds: its partitions, how far its application has read each, and what it writes of that.

Rules of the module (docs/reference/kafka.md §4.5; commitOffsets, PartitionTopicInfo, ConsumerFetcherManager):
  - offsets are written whatever stands there, by whoever believes that he holds the partition: one who has lost it
    may set an offset back;
  - an offset is written only where it differs from what this consumer last read or wrote;
  - a partition without an offset starts at the end of its log, or at 0 where `auto.offset.reset` is `smallest`, once
    its leader is found; so does one whose log has become shorter than what was read;
  - the application reads as fast as records come: what the leader holds counts as read, while fetchers run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from simzk.kafka.consumer import group_registry
from simzk.kafka.consumer.errors import NoNodeError
from simzk.kafka.consumer.hash_map_order import concurrent_order
from simzk.kafka.schemas import consumer as schema
from simzk.kafka.topic_partition import TopicPartition
from simzk.partitions.scala_order import immutable_order, product_hash, string_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simzk.kafka.consumer.assignors import ThreadId
    from simzk.kafka.consumer.config import ConsumerConfig
    from simzk.kafka.consumer.group_registry import GroupRegistry
    from simzk.kafka.consumer.versions import ConsumerVersion
    from simzk.simulation import Process, Task

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


def topic_and_partition_hash(partition: TopicPartition) -> int:
    """The hash of Kafka's TopicAndPartition."""
    return product_hash(string_hash(partition.topic), partition.partition)
