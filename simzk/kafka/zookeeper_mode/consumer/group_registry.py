"""Znodes of a consumer group, read and written by one member: ids, owners, offsets, brokers and topics.

Rules of the module (docs/reference/kafka.md §4.1, §4.3; ZkUtils, TopicCount):
  - reads happen one at a time in the order of the release: the group may change between two reads, and a znode that is
    listed and then missing fails the attempt;
  - up to 0.8.2 a conflicting registration is waited for without limit, whatever its data are; from 0.9 on a
    registration of another session is rejected;
  - an existing owner znode that names the same thread counts as created: its reply may have been lost.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.jvm.scala_collections import mutable_order
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import EPHEMERAL, PERSISTENT, create_request
from simzk.kafka.zookeeper_mode.consumer import subscriptions
from simzk.kafka.zookeeper_mode.consumer.assignors import GroupView, ThreadId
from simzk.kafka.zookeeper_mode.consumer.errors import NoNodeError, RegistrationRefusedError
from simzk.kafka.zookeeper_mode.schemas import broker_registration
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.simulation import gather
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_mode.consumer.settings import ConsumerConfig, ConsumerVersion
    from simzk.kafka.zookeeper_mode.consumer.subscriptions import ConsumerRegistration, Subscription
    from simzk.kafka.zookeeper_mode.consumer.zk_client import ZkClient
    from simzk.simulation import Process


def ids(group: str) -> str:
    """Return the path of the parent of a group's members."""
    return f"{paths.CONSUMERS}/{group}/ids"


def owner(group: str, partition: TopicPartition) -> str:
    """Return the path of the ephemeral that names the owner of a partition."""
    return f"{paths.CONSUMERS}/{group}/owners/{partition.topic}/{partition.partition}"


def offset(group: str, partition: TopicPartition) -> str:
    """Return the path of a group's committed offset of a partition."""
    return f"{paths.CONSUMERS}/{group}/offsets/{partition.topic}/{partition.partition}"


@dataclass(eq=False)
class GroupRegistry:
    """Reads and writes of a group by one member.

    Args:
        client: ZooKeeper client of the member.
        process: process of the member.
        version: release of the member: order of reads and writes, and formats of writes.
        config: settings of the member.
        group: name of the group.
        consumer_id: id of the member.
        excluded: topics excluded from every regex.
    """

    client: ZkClient
    process: Process
    version: ConsumerVersion
    config: ConsumerConfig
    group: str
    consumer_id: str
    _excluded: frozenset[str]

    # -- the member itself

    async def register(self, registration: ConsumerRegistration) -> None:
        """Create the member's id.

        Raises:
            RegistrationRefusedError: another session owns it (0.9 and later).
        """
        path = f"{ids(self.group)}/{self.consumer_id}"
        data = self.version.encode(registration)
        if self.version.verifies_registration:
            await self._register_verified(path, data)
            return
        while not await self._create_owned(path, data):
            # Kafka assumes that an earlier session of its own created the znode, and waits for its expiry
            # (ZkUtils.createEphemeralPathExpectConflictHandleZKBug).
            with suppress(NoNodeError):
                await self.client.read(path)
                await self.process.sleep(self.client.session.timeout_ms * 1000)

    async def _register_verified(self, path: str, data: bytes) -> None:
        """Create the parents and the id without waiting for replies in between (ZKCheckedEphemeral)."""
        parts = path.split("/")[1:-1]
        parents = ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
        own = create_request(path, data, EPHEMERAL)
        requests = [*(create_request(parent, b"", PERSISTENT) for parent in parents), own]
        replies = await gather([self.process.spawn(self.client.call(request), "register") for request in requests])
        assert len(replies) == len(requests), "the last reply is that of the member's id"
        code = replies[-1].error
        while code == Code.NODE_EXISTS:
            owner_session = await self.client.owner(path)
            if owner_session == self.client.session.session_id:
                return
            if owner_session is not None:
                raise RegistrationRefusedError(f"{path} belongs to another session")
            code = (await self.client.call(own)).error
        if code != Code.OK:
            raise RegistrationRefusedError(f"{path}: {Code(code).name}")

    # -- reads of a rebalance

    async def check_brokers(self) -> None:
        """Read all brokers, the first step of each attempt to rebalance.

        Raises:
            NoNodeError: a listed broker is missing.
            ZnodeError: a registration cannot be parsed.
        """
        for name in await self.client.children(paths.BROKER_IDS):
            await self._read_broker(name)

    async def live_brokers(self) -> list[int]:
        """Return the registered brokers, without those that disappear while they are read."""
        found = []
        for name in sorted(await self.client.children(paths.BROKER_IDS)):
            with suppress(NoNodeError):
                await self._read_broker(name)
                found.append(int(name))
        return found

    async def _read_broker(self, name: str) -> None:
        path = f"{paths.BROKER_IDS}/{name}"
        broker_registration.decode(path, await self.client.read(path))

    async def threads_of(self, consumer_id: str) -> dict[str, list[ThreadId]]:
        """Return a member's threads by topic, in the order of Kafka's map.

        Raises:
            NoNodeError: the member is missing.
            ZnodeError: its registration cannot be parsed.
        """
        path = f"{ids(self.group)}/{consumer_id}"
        registration = subscriptions.decode(path, await self.client.read(path))
        return await self.threads_by(subscriptions.of_registration(registration, self._excluded), consumer_id)

    async def threads_by(self, subscription: Subscription, consumer_id: str) -> dict[str, list[ThreadId]]:
        """Return the threads of a subscription by topic, for the topics that exist now."""
        topics = await self.client.children(paths.TOPICS) if subscription.is_list else []
        counts = subscription.threads_by_topic(topics)
        return {t: [ThreadId(consumer_id, number) for number in range(counts[t])] for t in mutable_order(counts)}

    async def all_threads(self) -> dict[str, list[ThreadId]]:
        """Return the threads of all members by topic, sorted by their text.

        Raises:
            NoNodeError: a listed member is missing.
            ZnodeError: a registration cannot be parsed.
        """
        found: dict[str, list[ThreadId]] = {}
        for consumer_id in await self.client.children(ids(self.group)):
            for topic, threads in (await self.threads_of(consumer_id)).items():
                found.setdefault(topic, []).extend(threads)
        return {topic: sorted(found[topic], key=str) for topic in mutable_order(found)}

    async def partitions_of(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Return the sorted partitions of topics; none for a topic that is missing or cannot be parsed."""
        found: dict[str, list[int]] = {topic: [] for topic in topics}
        for topic, partitions in found.items():
            path = paths.topic(topic)
            with suppress(NoNodeError, ZnodeError):
                partitions += sorted(topic_schema.decode(path, await self.client.read(path)).partitions)
        return {topic: found[topic] for topic in mutable_order(mutable_order(found))}

    async def view(self) -> GroupView:
        """Read the input of the assignor of 0.8.2 and later, after all own partitions were released."""
        own = await self.threads_of(self.consumer_id)
        if self.version.reads_all_topics:
            threads = await self.all_threads()
            partitions = await self.partitions_of(threads)
        else:
            partitions = await self.partitions_of(own)
            threads = await self.all_threads()
        await self.client.children(ids(self.group))
        assert not self.version.reads_all_topics or partitions.keys() == threads.keys(), "topics with threads were read"
        return GroupView(tuple(own), partitions, threads)

    # -- owners

    async def claim(self, partition: TopicPartition, thread: ThreadId) -> bool:
        """Create the owner of a partition, and return false if another thread owns it."""
        assert thread.consumer == self.consumer_id, "a member claims partitions for its own threads"
        return await self._create_owned(owner(self.group, partition), str(thread).encode())

    async def release(self, partition: TopicPartition) -> None:
        """Delete the owner of a partition, whichever thread it names."""
        await self.client.delete(owner(self.group, partition))

    async def _create_owned(self, path: str, data: bytes) -> bool:
        if await self.client.create_ephemeral(path, data) == Code.OK:
            return True
        try:
            return await self.client.read(path) == data
        except NoNodeError:
            return False
