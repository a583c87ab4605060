"""A group in ZooKeeper as one member reads and writes it: ids, brokers, topics, owners.

Rules of the module (docs/reference/kafka.md §4.1, §4.3; ZkUtils, TopicCount):
  - what is read is read in the order of the release, request by request, one at a time: between two reads the group may
    change, and a znode that is listed and then gone fails the try;
  - up to 0.8.2 a registration that conflicts is waited for, for ever, whatever it holds; from 0.9 on one of another
    session is refused;
  - an owner znode that conflicts but names the very same thread counts as made: it may have been, and the reply lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.jvm.scala_collections import mutable_order
from simzk.kafka import paths
from simzk.kafka.consumer import subscriptions
from simzk.kafka.consumer.assignors import GroupView, ThreadId
from simzk.kafka.consumer.errors import NoNodeError, RegistrationRefusedError
from simzk.kafka.schemas import broker_registration
from simzk.kafka.schemas import consumer as schema
from simzk.kafka.schemas import topic as topic_schema
from simzk.kafka.zookeeper_client.zk_client import EPHEMERAL, PERSISTENT, create_request
from simzk.simulation import gather
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.consumer.settings import ConsumerVersion
    from simzk.kafka.consumer.subscriptions import Subscription
    from simzk.kafka.consumer.zk_client import ZkClient
    from simzk.kafka.schemas.consumer import ConsumerRegistration
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Process


def ids(group: str) -> str:
    """The parent of a group's members."""
    return f"{paths.CONSUMERS}/{group}/ids"


def owner(group: str, partition: TopicPartition) -> str:
    """The ephemeral of the thread that owns a partition."""
    return f"{paths.CONSUMERS}/{group}/owners/{partition.topic}/{partition.partition}"


def offset(group: str, partition: TopicPartition) -> str:
    """How far a group has consumed a partition."""
    return f"{paths.CONSUMERS}/{group}/offsets/{partition.topic}/{partition.partition}"


class GroupRegistry:
    """One member's reads and writes of its group.

    Args:
        client: its session.
        process: whose time passes while it waits.
        version: in which order it reads, and what it writes.
        group: the group's name.
        consumer_id: the member's own id.
        excluded: topics that no regex takes.
    """

    def __init__(
        self,
        client: ZkClient,
        process: Process,
        version: ConsumerVersion,
        group: str,
        consumer_id: str,
        excluded: frozenset[str],
    ) -> None:
        self.client = client
        self.group = group
        self.consumer_id = consumer_id
        self._process = process
        self._version = version
        self._excluded = excluded

    # -- the member itself

    async def register(self, registration: ConsumerRegistration) -> None:
        """Create the member's id.

        Raises:
            RegistrationRefusedError: another session holds it (0.9 and later).
        """
        path = f"{ids(self.group)}/{self.consumer_id}"
        data = self._version.encode(registration)
        if self._version.checked_registration:
            await self._register_checked(path, data)
            return
        while not await self._create_owned(path, data):
            # Kafka takes it for the znode of an earlier session of its own, and waits for that to expire.
            try:
                await self.client.read(path)
            except NoNodeError:
                continue
            await self._process.sleep(self.client.session.timeout_ms * 1000)

    async def _register_checked(self, path: str, data: bytes) -> None:
        """Make the parents and the id in one go, each create sent without waiting for the one before."""
        parts = path.split("/")[1:-1]
        parents = ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
        requests = [create_request(parent, b"", PERSISTENT) for parent in parents]
        replies = await gather(
            [
                self._process.spawn(self.client.call(request), "register")
                for request in (*requests, create_request(path, data, EPHEMERAL))
            ]
        )
        code = replies[-1].error
        while code == Code.NODE_EXISTS:
            holder = await self.client.owner(path)
            if holder == self.client.session.session_id:
                return
            if holder is not None:
                raise RegistrationRefusedError(f"{path} belongs to another session")
            code = (await self.client.call(create_request(path, data, EPHEMERAL))).error
        if code != Code.OK:
            raise RegistrationRefusedError(f"{path}: {Code(code).name}")

    # -- reads of a rebalance

    async def check_brokers(self) -> None:
        """Read the cluster, as each try of a rebalance begins.

        Raises:
            NoNodeError: a broker that was listed is gone.
            ZnodeError: a registration cannot be used.
        """
        for name in await self.client.children(paths.BROKER_IDS):
            path = f"{paths.BROKER_IDS}/{name}"
            broker_registration.decode(path, await self.client.read(path))

    async def live_brokers(self) -> list[int]:
        """The brokers that are registered, those left out that vanish while they are read."""
        found = []
        for name in sorted(await self.client.children(paths.BROKER_IDS)):
            path = f"{paths.BROKER_IDS}/{name}"
            try:
                broker_registration.decode(path, await self.client.read(path))
            except NoNodeError:
                continue
            found.append(int(name))
        return found

    async def threads_of(self, consumer_id: str) -> dict[str, list[ThreadId]]:
        """A member's threads by topic, the topics in the order of the map they are kept in.

        Raises:
            NoNodeError: the member is gone.
            ZnodeError: its registration cannot be used.
        """
        path = f"{ids(self.group)}/{consumer_id}"
        registration = schema.decode(path, await self.client.read(path))
        subscription = subscriptions.of_registration(registration, self._excluded)
        return await self.threads_by(subscription, consumer_id)

    async def threads_by(self, subscription: Subscription, consumer_id: str) -> dict[str, list[ThreadId]]:
        """The threads that a subscription means now, by topic."""
        topics = await self.client.children(paths.TOPICS) if subscription.is_list else []
        counts = subscription.threads_by_topic(topics)
        return {
            topic: [ThreadId(consumer_id, number) for number in range(counts[topic])] for topic in mutable_order(counts)
        }

    async def all_threads(self) -> dict[str, list[ThreadId]]:
        """The threads of all members by topic, sorted by their text.

        Raises:
            NoNodeError: a member that was listed is gone.
            ZnodeError: a registration cannot be used.
        """
        found: dict[str, list[ThreadId]] = {}
        for consumer_id in await self.client.children(ids(self.group)):
            for topic, threads in (await self.threads_of(consumer_id)).items():
                found.setdefault(topic, []).extend(threads)
        return {topic: sorted(found[topic], key=str) for topic in mutable_order(found)}

    async def partitions_of(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partitions of topics, sorted, none of one that is not there or cannot be used."""
        found: dict[str, list[int]] = {}
        for topic in topics:
            path = paths.topic(topic)
            try:
                found[topic] = sorted(topic_schema.decode(path, await self.client.read(path)).partitions)
            except (NoNodeError, ZnodeError):
                found[topic] = []
        return {topic: found[topic] for topic in mutable_order(mutable_order(found))}

    async def view(self) -> GroupView:
        """What the assignor of 0.8.2 and later is given, read after all was released."""
        own = await self.threads_of(self.consumer_id)
        if self._version.reads_all_topics:
            threads = await self.all_threads()
            partitions = await self.partitions_of(threads)
        else:
            partitions = await self.partitions_of(own)
            threads = await self.all_threads()
        await self.client.children(ids(self.group))
        return GroupView(tuple(own), partitions, threads)

    # -- owners

    async def claim(self, partition: TopicPartition, thread: ThreadId) -> bool:
        """Create the owner of a partition; false where another thread is."""
        return await self._create_owned(owner(self.group, partition), str(thread).encode())

    async def release(self, partition: TopicPartition) -> None:
        """Delete the owner of a partition, whoever that is."""
        await self.client.delete(owner(self.group, partition))

    async def _create_owned(self, path: str, data: bytes) -> bool:
        if await self.client.create_ephemeral(path, data) == Code.OK:
            return True
        try:
            return await self.client.read(path) == data
        except NoNodeError:
            return False
