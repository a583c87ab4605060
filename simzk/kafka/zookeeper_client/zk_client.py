"""The registrations of many brokers read in one request, as a controller reads them whenever one comes or goes.

Rules of this module:
  - a batch of k reads is k requests `GetData`, with a watch where one is asked for;
  - where one of the znodes is not there, or not open to all, they are asked for one by one;
  - the book of a session's watches is told of those that are new: the others stand in it;
  - a text is decoded once: hundreds of brokers say what they said before.

Both ways are held equal by tests/kafka/test_registrations.py.

What a broker does in ZooKeeper, made of requests as Kafka 1.1 and later makes them.

Rules of the module (docs/reference/kafka.md §1.10, §2.2; KafkaZkClient):
  - parents are made by trying the child, making what is missing, and trying again;
  - each write of a controller is a multi of a check of `/controller_epoch` and the write; a check that fails says that
    another broker is controller, and raises `ControllerMovedError`;
  - many reads or writes go pipelined, and in the order given.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from simzk.errors import ZnodeError
from simzk.jvm.numbers import LONG_MAX, next_int
from simzk.kafka import paths
from simzk.kafka.schemas import admin, broker_registration, config
from simzk.kafka.schemas import controller as controller_schema
from simzk.kafka.schemas.cluster import (
    PRODUCER_ID_BLOCK_SIZE,
    ProducerIdBlock,
    decode_producer_ids,
    encode_producer_ids,
)
from simzk.kafka.schemas.json_text import NoJsonError
from simzk.kafka.zookeeper_client.batches import (
    ControllerMovedError,
    ManyZnodes,
    ZooKeeperRefused,
    check_fence,
    data_of,
    stat_of,
)
from simzk.zookeeper.batches import Batch
from simzk.zookeeper.replies import Code, OperationResult, Reply, Stat
from simzk.zookeeper.requests import OPEN_ACL, Check, Create, Delete, Exists, GetChildren2, GetData, Multi, SetData
from simzk.zookeeper.watches import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.schemas.broker_registration import BrokerRegistration
    from simzk.kafka.schemas.json_text import Reading
    from simzk.kafka.schemas.topic import TopicZnode
    from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition
    from simzk.kafka.zookeeper_client.session import ZooKeeperSession
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Server

Key = TypeVar("Key")
Value = TypeVar("Value")

KEPT = 4096
"""So many ids and paths are kept made of each other."""
TEXTS_KEPT = 4096
"""So many texts are kept decoded, of each way to read them; of more brokers, twice as many as there are."""


class _Made(dict[Key, Value]):
    """What was made of keys lately, and is made of others when they are asked for."""

    def __init__(self, make: Callable[[Key], Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Key) -> Value:
        if len(self) >= KEPT:
            self.clear()
        self[key] = value = self._make(key)
        return value


_path_of = _Made(paths.broker).__getitem__
"""The path of a broker's znode."""
id_of = _Made(paths.broker_id).__getitem__
"""The id that a child of `/brokers/ids` stands for; raises ZnodeError where it is none."""


class RegistrationsRead(NamedTuple):
    """What was read of brokers, in the order asked for, those left out that are not there.

    Args:
        brokers: their ids.
        data: what stands in the znode of each.
        czxids: the zxids that made them.
        watched: the paths on which a watch was set that was not there, and maybe others that are watched.
    """

    brokers: list[int]
    data: list[bytes | None]
    czxids: list[int]
    watched: list[str]

    def decoded(self, reading: Reading) -> list[BrokerRegistration]:
        """What each broker says of itself, as `reading` reads it.

        Raises:
            ZnodeError: the first that cannot be used.
        """
        texts = _texts(reading)
        try:
            return list(map(texts.__getitem__, self.data))
        except KeyError:
            if len(texts) >= max(TEXTS_KEPT, 2 * len(self.data)):
                texts.clear()
            for broker, data in zip(self.brokers, self.data, strict=True):
                if data not in texts:
                    texts[data] = broker_registration.decode(_path_of(broker), data, reading)
            return [texts[data] for data in self.data]


@lru_cache(maxsize=32)
def _texts(reading: Reading) -> dict[bytes | None, BrokerRegistration]:
    """What texts say that were decoded lately."""
    return {}


class ReadRegistrations(Batch):
    """The znodes of brokers; the reply is `RegistrationsRead`.

    Args:
        brokers: distinct ids.
        watched: holds the paths of those on whose znodes a watch is set.
    """

    def __init__(self, brokers: Sequence[int], watched: Collection[str] = ()) -> None:
        self._brokers = brokers
        self._at = list(map(_path_of, brokers))
        self._watched = [path for path in self._at if path in watched]

    def __len__(self) -> int:
        return len(self._brokers)

    def requests(self) -> Iterator[Request]:
        watched = dict.fromkeys(self._watched)
        return (GetData(path, path in watched) for path in self._at)

    def assemble(self, replies: Sequence[Reply]) -> RegistrationsRead:
        there = [not reply.error for reply in replies]
        told, found = list(compress(replies, there)), dict.fromkeys(compress(self._at, there))
        return RegistrationsRead(
            list(compress(self._brokers, there)),
            [data_of(reply) for reply in told],
            [stat_of(reply).czxid for reply in told],
            [path for path in self._watched if path in found],
        )

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        assert isinstance(body, RegistrationsRead)
        return [(GetData(path, True), Code.OK) for path in body.watched]

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> object:
        nodes = [node for node in map(server.tree.find, self._at) if node is not None and node.acl is OPEN_ACL]
        if len(nodes) < len(self._at):
            return super().serve(server, connection, xid, now_ms)
        table = server.watches.data
        new = table.lacking(self._watched, connection, Mode.STANDARD)
        for path in new:
            table.add(path, connection, Mode.STANDARD)
        return RegistrationsRead([*self._brokers], [node.data for node in nodes], [node.czxid for node in nodes], new)


PERSISTENT, EPHEMERAL, PERSISTENT_SEQUENTIAL = 0, 1, 2
ANY_VERSION = -1
UNCLEAN_KEY = "unclean.leader.election.enable"
NO_EPOCH = -1
"""The broker epoch of releases that have none: such a request is never stale."""


def children_of(reply: Reply) -> list[str]:
    """The names in a reply to getChildren2, none where the parent does not exist."""
    if reply.error == Code.NO_NODE:
        return []
    assert isinstance(reply.body, tuple)
    return list(reply.body[0])


def create_request(path: str, data: bytes | None, mode: int = PERSISTENT) -> Create:
    """A create open to all, as operators make it by hand."""
    return Create(path, data, OPEN_ACL, mode)


class KafkaZooKeeperClient(ManyZnodes):
    """A broker's use of its session.

    Args:
        session: the session.
        version: decides the form of what is written, and how is read.
        unusable: is told of a znode that cannot be used, where that ends nothing.
    """

    def __init__(
        self, session: ZooKeeperSession, version: KafkaVersion, unusable: Callable[[ZnodeError], None] = lambda _: None
    ) -> None:
        self.session = session
        self.version = version
        self.unusable = unusable

    # -- anybody's

    async def create(self, path: str, data: bytes | None, mode: int = PERSISTENT) -> Code:
        """Create a znode whose parent should exist; the server's code."""
        return Code((await self.session.call(self.creation(path, data, mode))).error)

    def creation(self, path: str, data: bytes | None, mode: int = PERSISTENT) -> Create:
        """A create, with the ACL that the release gives to such a znode."""
        return Create(path, data, self.session.access.acl(path, self.version), mode)

    async def create_recursive(self, path: str, data: bytes | None = None) -> Code:
        """Create a znode and the parents that are missing; OK or NODE_EXISTS."""
        code = await self.create(path, data)
        if code == Code.NO_NODE:
            await self.create_recursive(paths.parent(path))
            code = await self.create(path, data)
        return code

    async def ensure(self, path: str) -> None:
        """Make a znode without data, and its parents, where it is not there."""
        if not self.version.client.exists_before_create or not await self.exists(path):
            await self.create_recursive(path)

    async def create_below(self, path: str, data: bytes | None) -> Code:
        """Create a znode whose parent may be missing; up to 1.0 the parent is made first (ZkUtils)."""
        if self.version.client.exists_before_create:
            await self.create_recursive(paths.parent(path))
            return await self.create(path, data)
        return await self.create_recursive(path, data)

    async def children(self, path: str) -> list[str]:
        """The names of a znode's children, in the order in which the server lists them."""
        reply = await self.session.get_children(path)
        if reply.error == Code.NO_NODE and path in self.session.child_handlers:
            await self.session.call(Exists(path, True))  # its creation is waited for
        return children_of(reply)

    async def read(self, path: str) -> tuple[bytes | None, Stat] | None:
        """A znode's data and Stat; None where there is none."""
        reply = await self.session.get_data(path)
        return None if reply.error else (data_of(reply), stat_of(reply))

    async def brokers(self) -> dict[int, tuple[BrokerRegistration, int]]:
        """The live brokers by id: registration, and broker epoch, the czxid of the znode (before 2.2 there is none).

        Raises:
            ZnodeError: a registration, or the name of one, cannot be used.
        """
        ids = sorted(map(id_of, await self.children(paths.BROKER_IDS)))
        read: RegistrationsRead = await self.session.call_batch(ReadRegistrations(ids, self.session.data_handlers))
        epochs = read.czxids if self.version.client.has_broker_epochs else [NO_EPOCH] * len(read.brokers)
        return dict(zip(read.brokers, zip(read.decoded(self.version.reading), epochs, strict=True), strict=True))

    async def topics(self, names: Sequence[str]) -> dict[str, TopicZnode]:
        """The assignments of topics, those left out whose znode is gone; what is no JSON has no partitions.

        Raises:
            ZnodeError: JSON that cannot be used.
        """
        replies = await self.read_all([paths.topic(name) for name in names])
        return self._topics({name: reply for name, reply in zip(names, replies, strict=True) if not reply.error})

    async def entity_config(self, entity_path: str) -> dict[str, str]:
        """An entity's configuration, empty where it has none.

        Raises:
            ZnodeError: it cannot be used.
        """
        path = paths.config(entity_path)
        found = await self.read(path)
        return {} if found is None else config.decode(path, found[0], self.version.reading)

    async def unclean_allowed(self, topics: Iterable[str], by_default: bool) -> dict[str, bool]:
        """By topic, whether a leader from outside the ISR may be elected; not where that cannot be read."""
        allowed = {}
        for topic in topics:
            try:
                value = (await self.entity_config(f"topics/{topic}")).get(UNCLEAN_KEY)
            except ZnodeError as problem:
                self.unusable(problem)
                value = "false"
            allowed[topic] = by_default if value is None else value == "true"
        return allowed

    async def controller_id(self) -> int | None:
        """The broker in `/controller`; nobody where that is no JSON (1.1 and later).

        Raises:
            ZnodeError: it cannot be used.
        """
        found = await self.read(paths.CONTROLLER)
        if found is None:
            return None
        try:
            return controller_schema.decode(paths.CONTROLLER, found[0], self.version.reading)
        except NoJsonError as problem:
            self.unusable(problem)
            return None

    # -- a broker's registration and the election of a controller

    async def register_broker(self, broker_id: int, registration: BrokerRegistration, previous_session: int) -> int:
        """Register a broker; its broker epoch, which is the czxid of its znode, or NO_EPOCH before 2.2 (§1.4).

        A znode of the present session is taken over; up to 0.8.2 one of the same host and port is waited for; from 2.2
        on one of this client's previous session is deleted, and the create tried again (KAFKA-7165).

        Raises:
            ZooKeeperRefused: another session holds the znode.
        """
        path = paths.broker(broker_id)
        data = self.version.znodes.encode_broker(registration)
        while True:
            code, epoch = await self._create_registration(path, data)
            if code == Code.OK:
                return epoch
            if code != Code.NODE_EXISTS:
                raise ZooKeeperRefused(code, path)
            present = await self.session.call(GetData(path, False))
            if present.error:
                continue
            owner = stat_of(present).ephemeral_owner
            if owner == self.session.session_id:
                return self._epoch_of(stat_of(present))
            if self.version.client.waits_for_own_registration:
                before = broker_registration.decode(path, data_of(present), self.version.reading)
                if (before.host, before.port) == (registration.host, registration.port):
                    await self.session.process.sleep(self.session.timeout_ms * 1000)
                    continue
            if not self.version.client.has_broker_epochs or owner != previous_session or previous_session == 0:
                raise ZooKeeperRefused(Code.NODE_EXISTS, path)
            await self.session.call(Delete(path, ANY_VERSION))

    async def _create_registration(self, path: str, data: bytes) -> tuple[int, int]:
        """Create the znode; from 2.2 on in a multi whose last reply holds the Stat, and so the epoch."""
        if not self.version.client.has_broker_epochs:
            if self.version.client.creates_registration_parents:
                await self.create(paths.parent(paths.BROKER_IDS), b"")
                await self.create(paths.BROKER_IDS, b"")
            code = await self.create(path, data, EPHEMERAL)
            if code == Code.NO_NODE:
                await self.create_recursive(paths.parent(path))
                code = await self.create(path, data, EPHEMERAL)
            return code, NO_EPOCH
        reply = await self.session.call(Multi((self.creation(path, None, EPHEMERAL), SetData(path, data, 0))))
        created, written = _results(reply)
        if created.error or written.error:
            return created.error or written.error, NO_EPOCH
        assert isinstance(written.body, Stat)
        return Code.OK, written.body.czxid

    def _epoch_of(self, stat: Stat) -> int:
        return stat.czxid if self.version.client.has_broker_epochs else NO_EPOCH

    async def become_controller(self, broker_id: int, timestamp_ms: int) -> tuple[int, int]:
        """Try to become controller (§2.2); the new epoch and the version of its znode.

        Raises:
            ControllerMovedError: another broker was first.
        """
        if not self.version.client.fences_writes:
            return await self._become_controller_in_steps(broker_id, timestamp_ms)
        epoch, version = await self.controller_epoch()
        controller = self.creation(
            paths.CONTROLLER, self.version.znodes.encode_controller(broker_id, timestamp_ms), EPHEMERAL
        )
        raised = SetData(paths.CONTROLLER_EPOCH, controller_schema.encode_epoch(next_int(epoch)), version)
        results = _results(await self.session.call(Multi((controller, raised))))
        codes = [result.error for result in results]
        if not any(codes):
            return next_int(epoch), version + 1
        if codes[0] == Code.NODE_EXISTS or codes[1] == Code.BAD_VERSION:
            now, now_version = await self.controller_epoch()
            if await self.controller_id() == broker_id and now == next_int(epoch):
                return now, now_version  # the reply to our own success was lost
            raise ControllerMovedError
        raise ZooKeeperRefused(codes[0] or codes[1], paths.CONTROLLER)

    async def _become_controller_in_steps(self, broker_id: int, timestamp_ms: int) -> tuple[int, int]:
        """Before 2.1: the znode first, then the epoch, on condition that nobody raised it since it was read."""
        data = self.version.znodes.encode_controller(broker_id, timestamp_ms)
        code = await self.create(paths.CONTROLLER, data, EPHEMERAL)
        while code == Code.NODE_EXISTS:
            present = await self.session.call(GetData(paths.CONTROLLER, False))
            if not present.error and stat_of(present).ephemeral_owner == self.session.session_id:
                code = Code.OK
            elif not self.version.client.reads_controller_before_election and await self.controller_id() == broker_id:
                # Of its session of before: waited for, whoever may become controller meanwhile (up to 0.8.1).
                await self.session.process.sleep(self.session.timeout_ms * 1000)
                code = await self.create(paths.CONTROLLER, data, EPHEMERAL)
            else:
                raise ControllerMovedError
        if code != Code.OK:
            raise ZooKeeperRefused(code, paths.CONTROLLER)
        found = await self.read(paths.CONTROLLER_EPOCH)
        epoch, version = 1, 0
        if found is not None:
            last, version = controller_schema.decode_epoch(paths.CONTROLLER_EPOCH, found[0]), found[1].version
            epoch = next_int(last)
        text = controller_schema.encode_epoch(epoch)
        reply = await self.session.call(SetData(paths.CONTROLLER_EPOCH, text, version))
        if reply.error == Code.OK:
            return epoch, version + 1
        if reply.error == Code.NO_NODE and await self.create(paths.CONTROLLER_EPOCH, text) == Code.OK:
            return epoch, 0
        raise ControllerMovedError

    async def controller_epoch(self) -> tuple[int, int]:
        """The controller's epoch and its version, made as 0 where it never was."""
        while True:
            found = await self.read(paths.CONTROLLER_EPOCH)
            if found is not None:
                return controller_schema.decode_epoch(paths.CONTROLLER_EPOCH, found[0]), found[1].version
            if await self.create(paths.CONTROLLER_EPOCH, controller_schema.encode_epoch(0)) == Code.OK:
                return 0, 0

    # -- a controller's writes, from 2.1 on each fenced by the version of its epoch

    async def fenced(self, writes: Sequence[Create | Delete | SetData], epoch_version: int) -> list[OperationResult]:
        """Do writes pipelined, each in a multi with a check of the controller's epoch; before 2.1 as they are.

        Returns:
            the result of each write.

        Raises:
            ControllerMovedError: the epoch is no longer ours.
        """
        if not self.version.client.fences_writes:
            return [OperationResult(reply.error, reply.body) for reply in await self.session.call_all(writes)]
        check = Check(paths.CONTROLLER_EPOCH, epoch_version)
        replies = await self.session.call_all([Multi((check, write)) for write in writes])
        results = []
        for reply in replies:
            checked, written = _results(reply)
            check_fence(checked.error)
            results.append(written)
        return results

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr], epoch_version: int
    ) -> dict[TopicPartition, Code]:
        """Create the znodes of new partitions: of each topic `partitions`, then the partitions, then their states.

        Up to 1.0 one partition after another: its state is tried first, what is missing above it made then.
        """
        if self.version.controller.processes_one_by_one:
            return {
                partition: await self.create_recursive(paths.state(partition), self.version.znodes.encode_state(state))
                for partition, state in states.items()
            }
        topics = dict.fromkeys(partition.topic for partition in states)
        await self.fenced([self.creation(paths.partitions(topic), None) for topic in topics], epoch_version)
        await self.fenced([self.creation(paths.partition(partition), None) for partition in states], epoch_version)
        writes = [
            self.creation(paths.state(partition), self.version.znodes.encode_state(state))
            for partition, state in states.items()
        ]
        results = await self.fenced(writes, epoch_version)
        return {partition: Code(result.error) for partition, result in zip(states, results, strict=True)}

    async def write_topic(self, name: str, topic: TopicZnode, epoch_version: int) -> None:
        """Write a topic's assignment whatever its version.

        Raises:
            ZooKeeperRefused: the znode is gone.
        """
        write = SetData(paths.topic(name), self.version.znodes.encode_topic(topic), ANY_VERSION)
        (result,) = await self.fenced([write], epoch_version)
        if result.error:
            raise ZooKeeperRefused(result.error, paths.topic(name))

    async def delete_recursive(self, path: str, epoch_version: int) -> None:
        """Delete a znode with all below it, children first, one write at a time."""
        for name in children_of(await self.session.call(GetChildren2(path, False))):
            child = f"{path}/{name}"
            await self.delete_recursive(child, epoch_version)
        await self.fenced([Delete(path, ANY_VERSION)], epoch_version)

    async def delete_children(self, parent: str, names: Iterable[str], epoch_version: int) -> None:
        """Delete children of a znode, pipelined."""
        deletes = [Delete(f"{parent}/{name}", ANY_VERSION) for name in names]
        if deletes:
            await self.fenced(deletes, epoch_version)

    async def take_producer_ids(self, broker_id: int) -> int:
        """Give a broker the next block of producer ids; the first of them.

        Raises:
            ZooKeeperRefused: the znode is not there.
            ZnodeError: it cannot be used, or there are no more ids.
        """
        while True:
            found = await self.read(paths.PRODUCER_IDS)
            if found is None:
                raise ZooKeeperRefused(Code.NO_NODE, paths.PRODUCER_IDS)
            last = decode_producer_ids(paths.PRODUCER_IDS, found[0], self.version.reading)
            if last is not None and last.end > LONG_MAX - PRODUCER_ID_BLOCK_SIZE:
                raise ZnodeError(f"gave out ids up to {last.end}", where=paths.PRODUCER_IDS, right="room for a block")
            start = 0 if last is None else last.end + 1
            block = ProducerIdBlock(broker_id, start, start + PRODUCER_ID_BLOCK_SIZE - 1)
            write = SetData(paths.PRODUCER_IDS, encode_producer_ids(block), found[1].version)
            if (await self.session.call(write)).error == Code.OK:
                return start

    async def requested_reassignment(self) -> dict[TopicPartition, tuple[int, ...]]:
        """What stands in `/admin/reassign_partitions`; nothing where it is not there or is no JSON (§1.1).

        Raises:
            ZnodeError: it cannot be used, and the real reader does not say so but fails.
        """
        found = await self.read(paths.REASSIGN_PARTITIONS)
        if found is None:
            return {}
        version = self.version
        try:
            return admin.decode_reassignment(
                paths.REASSIGN_PARTITIONS, found[0], version.reading, strict=version.controller.rejects_unknown_fields
            )
        except NoJsonError as problem:
            self.unusable(problem)
            return {}

    async def exists(self, path: str) -> bool:
        """Whether a znode is there; sets a watch where a handler is registered."""
        return (await self.session.call(Exists(path, path in self.session.data_handlers))).error == Code.OK


def _results(reply: Reply) -> list[OperationResult]:
    """The results in a reply to a multi, also to one that failed."""
    body = reply.body
    assert isinstance(body, (list, tuple)), f"a multi came back as {reply}"
    return list(body)
