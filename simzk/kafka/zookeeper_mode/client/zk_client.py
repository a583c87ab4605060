"""ZooKeeper client of a broker: the requests of Kafka's KafkaZkClient, and of ZkUtils up to 1.0.

Rules of the module (docs/reference/kafka.md §1.10, §2.2; KafkaZkClient):
  - a create tries the child first, creates missing parents, and tries again;
  - from 2.1 on each write of a controller is a multi of a check of `/controller_epoch` and the write; a failed check
    means that another broker is controller, and raises `ControllerMovedError`;
  - many reads or writes are pipelined in the given order; reads and writes of many partition states are batches
    (`columnar/batches.py`), which mean as many single requests, and so are reads of all broker registrations, because a
    controller reads them whenever a broker comes or goes. tests/kafka/test_registrations.py compares both;
  - each text of a registration is decoded once: hundreds of brokers register with the same text again;
  - a state or topic that is no JSON counts as missing; JSON that is invalid fails the request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from simzk.errors import ZnodeError
from simzk.jvm.numbers import LONG_MAX, next_int
from simzk.kafka.metadata.plane import MetadataRefusedError
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition, named
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import children_of, data_of, stat_of
from simzk.kafka.zookeeper_mode.columnar.batches import (
    Assigned,
    ReadStates,
    ReadTopics,
    StatesRead,
    TopicsRead,
    WriteStates,
)
from simzk.kafka.zookeeper_mode.schemas import admin, broker_registration, config, partition_state
from simzk.kafka.zookeeper_mode.schemas import controller as controller_schema
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.schemas.cluster import (
    PRODUCER_ID_BLOCK_SIZE,
    ProducerIdBlock,
    decode_producer_ids,
    encode_producer_ids,
)
from simzk.kafka.zookeeper_mode.schemas.json_text import NoJsonError
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.partitions.arrays import widen
from simzk.zookeeper.replies import Code, OperationResult, Reply, Stat
from simzk.zookeeper.requests import OPEN_ACL, Check, Create, Delete, Exists, GetChildren2, GetData, Multi, SetData
from simzk.zookeeper.server import Batch
from simzk.zookeeper.watches import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.zookeeper_mode.client.session import ZooKeeperSession
    from simzk.kafka.zookeeper_mode.schemas.broker_registration import BrokerRegistration
    from simzk.kafka.zookeeper_mode.schemas.json_text import Reading
    from simzk.partitions.arrays import IntArray
    from simzk.partitions.states import States
    from simzk.partitions.table import Partitions
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Server

Value = TypeVar("Value")

CACHED = 4096
"""Limit on cached ids and paths."""
TEXTS_CACHED = 4096
"""Limit on cached registrations per reading; for more brokers twice their number."""


_path_of = lru_cache(CACHED)(paths.broker)
id_of = lru_cache(CACHED)(paths.broker_id)


class RegistrationsRead(NamedTuple):
    """Registered brokers among the requested ones, in the requested order.

    Args:
        brokers: ids of the brokers.
        data: data of each znode.
        czxids: zxid of each creation.
        watched: paths with a new watch, and possibly others that are watched.
    """

    brokers: list[int]
    data: list[bytes | None]
    czxids: list[int]
    watched: list[str]

    def decoded(self, reading: Reading) -> list[BrokerRegistration]:
        """Decode the registrations.

        Raises:
            ZnodeError: a registration is invalid; names the first one.
        """
        texts = _texts(reading)
        try:
            return list(map(texts.__getitem__, self.data))
        except KeyError:
            if len(texts) >= max(TEXTS_CACHED, 2 * len(self.data)):
                texts.clear()
            for broker, data in zip(self.brokers, self.data, strict=True):
                if data not in texts:
                    texts[data] = broker_registration.decode(_path_of(broker), data, reading)
            return [texts[data] for data in self.data]


@lru_cache(maxsize=32)
def _texts(reading: Reading) -> dict[bytes | None, BrokerRegistration]:
    """Return the cache of decoded registrations for a reading."""
    return {}


class ReadRegistrations(Batch):
    """Batch that reads the znodes of brokers; its reply is `RegistrationsRead`.

    Args:
        brokers: distinct broker ids.
        watched: paths on which a watch is set, among others.
    """

    def __init__(self, brokers: Sequence[int], watched: Collection[str] = ()) -> None:
        assert len(set(brokers)) == len(brokers), "each broker is read once"
        self._brokers = brokers
        self._paths = list(map(_path_of, brokers))
        self._watched = [path for path in self._paths if path in watched]

    def __len__(self) -> int:
        return len(self._brokers)

    def requests(self) -> Iterator[Request]:
        watched = dict.fromkeys(self._watched)
        return (GetData(path, path in watched) for path in self._paths)

    def assemble(self, replies: Sequence[Reply]) -> RegistrationsRead:
        assert len(replies) == len(self)
        exists = [not reply.error for reply in replies]
        read, found = list(compress(replies, exists)), dict.fromkeys(compress(self._paths, exists))
        return RegistrationsRead(
            list(compress(self._brokers, exists)),
            [data_of(reply) for reply in read],
            [stat_of(reply).czxid for reply in read],
            [path for path in self._watched if path in found],
        )

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        assert isinstance(body, RegistrationsRead)
        return [(GetData(path, True), Code.OK) for path in body.watched]

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> object:
        nodes = [node for node in map(server.tree.find, self._paths) if node is not None and node.acl is OPEN_ACL]
        if len(nodes) < len(self._paths):
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
"""Broker epoch of releases without broker epochs: their requests are never stale."""


def create_request(path: str, data: bytes | None, mode: int = PERSISTENT) -> Create:
    """Return a create request with an open ACL, as operators send it."""
    return Create(path, data, OPEN_ACL, mode)


class ControllerMovedError(Exception):
    """Another broker is controller: `/controller_epoch` has changed since this broker was elected."""


class ZooKeeperRefused(MetadataRefusedError):  # noqa: N818 - the server's word, not a mistake of ours
    """ZooKeeper answered a request with an unexpected error."""

    def __init__(self, code: int, path: str) -> None:
        self.code = Code(code)
        self.path = path
        super().__init__(f"{self.code.name} for {path}")


def check_fence(error: int) -> None:
    """Raise the error of a failed check of the controller epoch."""
    if error == Code.BAD_VERSION:
        raise ControllerMovedError
    if error not in (Code.OK, Code.RUNTIME_INCONSISTENCY):
        raise ZooKeeperRefused(error, paths.CONTROLLER_EPOCH)


@dataclass(eq=False)
class KafkaZooKeeperClient:
    """ZooKeeper client of a broker or tool.

    Args:
        version: release of the broker, with its znode formats.
        unusable: called with the error of an invalid znode that is otherwise ignored.

    Attributes:
        registered_at: czxid of each registration that `brokers` read last; brokers before 2.2 do not look at it.
    """

    session: ZooKeeperSession
    version: KafkaVersion
    unusable: Callable[[ZnodeError], None] = lambda _: None
    registered_at: dict[int, int] = field(default_factory=dict)

    def decode(
        self, decode: Callable[[str, bytes | None, Reading], Value], path: str, data: bytes | None
    ) -> Value | None:
        """Decode a znode as the release does; None, and a call of `unusable`, if it is no JSON.

        Raises:
            ZnodeError: the znode is invalid in another way.
        """
        try:
            return decode(path, data, self.version.reading)
        except NoJsonError as problem:
            self.unusable(problem)
            return None

    # -- single znodes

    async def create(self, path: str, data: bytes | None, mode: int = PERSISTENT) -> Code:
        """Create a znode with an existing parent, and return the server's code."""
        return Code((await self.session.call(self.creation(path, data, mode))).error)

    def creation(self, path: str, data: bytes | None, mode: int = PERSISTENT) -> Create:
        """Return a create request with the ACL that the release uses for the path."""
        return Create(path, data, self.session.access.acl(path, self.version), mode)

    async def create_recursive(self, path: str, data: bytes | None = None, mode: int = PERSISTENT) -> Code:
        """Create a znode and its missing parents; return OK or NODE_EXISTS."""
        code = await self.create(path, data, mode)
        if code == Code.NO_NODE:
            await self.create_recursive(paths.parent(path))
            code = await self.create(path, data, mode)
        return code

    async def ensure(self, path: str) -> None:
        """Create a znode without data and its missing parents, unless it exists."""
        if not self.version.client.exists_before_create or not await self.exists(path):
            await self.create_recursive(path)

    async def write_or_create(self, path: str, data: bytes) -> None:
        """Write a znode, or create it with its missing parents.

        Raises:
            ZooKeeperRefused: ZooKeeper rejects it.
        """
        code = Code((await self.session.call(SetData(path, data, ANY_VERSION))).error)
        if code == Code.NO_NODE:
            code = await self.create_recursive(path, data)
        if code not in (Code.OK, Code.NODE_EXISTS):
            raise ZooKeeperRefused(code, path)

    async def create_below(self, path: str, data: bytes | None) -> Code:
        """Create a znode whose parent may be missing; up to 1.0 the parent is created first (ZkUtils)."""
        if self.version.client.exists_before_create:
            await self.create_recursive(paths.parent(path))
            return await self.create(path, data)
        return await self.create_recursive(path, data)

    async def children(self, path: str) -> list[str]:
        """Return the names of a znode's children in the server's order."""
        reply = await self.session.get_children(path)
        if reply.error == Code.NO_NODE and path in self.session.child_handlers:
            await self.session.call(Exists(path, True))  # a watch for its creation
        return children_of(reply)

    async def read(self, path: str) -> tuple[bytes | None, Stat] | None:
        """Return a znode's data and Stat; None: the znode is missing."""
        reply = await self.session.get_data(path)
        return None if reply.error else (data_of(reply), stat_of(reply))

    async def brokers(self) -> dict[int, tuple[BrokerRegistration, int]]:
        """Return the registration and broker epoch of each registered broker; NO_EPOCH before 2.2.

        Raises:
            ZnodeError: a registration, or its name, is invalid.
        """
        ids = sorted(map(id_of, await self.children(paths.BROKER_IDS)))
        read: RegistrationsRead = await self.session.call_batch(ReadRegistrations(ids, self.session.data_handlers))
        self.registered_at = dict(zip(read.brokers, read.czxids, strict=True))
        epochs = read.czxids if self.version.client.has_broker_epochs else [NO_EPOCH] * len(read.brokers)
        return dict(zip(read.brokers, zip(read.decoded(self.version.reading), epochs, strict=True), strict=True))

    async def topics(self, names: Sequence[str]) -> dict[str, TopicZnode]:
        """Return the assignments of existing topics; a topic that is no JSON has no partitions.

        Raises:
            ZnodeError: a topic is invalid JSON for its schema.
        """
        replies = await self.read_all([paths.topic(name) for name in names])
        return self._topics({name: reply for name, reply in zip(names, replies, strict=True) if not reply.error})

    async def entity_config(self, entity_path: str) -> dict[str, str]:
        """Return an entity's configuration; empty if it has none.

        Raises:
            ZnodeError: the configuration is invalid.
        """
        path = paths.config(entity_path)
        found = await self.read(path)
        return {} if found is None else config.decode(path, found[0], self.version.reading)

    async def entity_names(self, kind: str) -> list[str]:
        """Return the names of the entities of a kind that have a configuration, sorted."""
        return sorted(await self.children(paths.config(kind)))

    async def topic_exists(self, topic: str) -> bool:
        """Return whether a topic exists."""
        return await self.exists(paths.topic(topic))

    async def unclean_allowed(self, topics: Iterable[str], by_default: bool) -> dict[str, bool]:
        """Return by topic whether unclean election is allowed; false if the configuration is invalid."""
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
        """Return the broker in `/controller`; None: there is none, or it is no JSON (1.1 and later).

        Raises:
            ZnodeError: the znode is invalid.
        """
        found = await self.read(paths.CONTROLLER)
        return None if found is None else self.decode(controller_schema.decode, paths.CONTROLLER, found[0])

    # -- many znodes at once

    async def read_all(self, wanted: Sequence[str]) -> list[Reply]:
        """Read znodes pipelined, and return the replies."""
        handlers = self.session.data_handlers
        return await self.session.call_all([GetData(path, path in handlers) for path in wanted])

    async def all_topics(self, names: Sequence[str]) -> tuple[dict[str, TopicZnode], Assigned | None]:
        """Read many topics with a watch on each, and return those read as text and those read as columns.

        Raises:
            ZnodeError: a topic is invalid JSON for its schema.
        """
        read: TopicsRead = await self.session.call_batch(ReadTopics(names))
        return self._topics(read.replies), read.columns

    def _topics(self, replies: Mapping[str, Reply]) -> dict[str, TopicZnode]:
        return {
            name: self.decode(topic_schema.decode, paths.topic(name), data_of(reply)) or TopicZnode({}, None)
            for name, reply in replies.items()
        }

    async def notifications(
        self, parent: str, names: Sequence[str], decode: Callable[[str, bytes | None, Reading], Value]
    ) -> list[Value]:
        """Read and decode sequential znodes below a parent, without those that are missing or no JSON."""
        wanted = [f"{parent}/{name}" for name in names]
        replies = zip(wanted, await self.read_all(wanted), strict=True)
        found = [self.decode(decode, path, data_of(reply)) for path, reply in replies if not reply.error]
        return [one for one in found if one is not None]

    async def states(self, partitions: Partitions) -> States:
        """Return the states of partitions, with `version` -1 for a missing znode or one that is no JSON.

        Raises:
            ZnodeError: a state is invalid JSON for its schema.
        """
        batch = ReadStates(partitions)
        if self.version.broker.uses_alter_isr:
            read: StatesRead = await self.session.call_batch(batch)
        else:  # these releases watch the states of partitions being reassigned (§2.11), which batches do not
            wanted = [paths.state(TopicPartition(*name)) for name in partitions.names()]
            read = batch.assemble(await self.read_all(wanted))
        states = read.states
        assert len(states.version) == partitions.size, "each partition is read once"
        for place, reply in read.replies.items():
            path, version = paths.state(TopicPartition(*partitions.name(place))), stat_of(reply).version
            state = self.decode(partial(_decode_state, version), path, data_of(reply))
            if state is not None:
                states = states._replace(isr=widen(states.isr, len(state.isr)))
                states.put_one(place, state)
        return states

    async def state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """Return the state of one partition; None: the znode is missing, or is no JSON.

        Raises:
            ZnodeError: the state is invalid JSON for its schema.
        """
        states = await self.states(named([partition]))
        return states.one(0) if states.version[0] >= 0 else None

    async def write_states(self, partitions: Partitions, states: States, epoch_version: int) -> IntArray:
        """Write states, each on condition that the znode's version is one less.

        Args:
            partitions, states: k distinct partitions, and the state of each.
            epoch_version: version of the controller epoch, checked by releases that fence writes.

        Returns:
            int32[k], the error of each write.

        Raises:
            ControllerMovedError: another broker is controller.
        """
        fence = epoch_version if self.version.client.fences_writes else None
        before = states._replace(version=states.version - np.int32(1))
        errors: IntArray = await self.session.call_batch(
            WriteStates(partitions, before, fence, self.version.znodes.encode_state)
        )
        assert errors.shape == (partitions.size, 2)
        for checked in errors[:, 0].tolist() if errors[:, 0].any() else ():
            check_fence(checked)
        return errors[:, 1]

    # -- a broker's registration and the election of a controller

    async def register_broker(self, broker_id: int, registration: BrokerRegistration, previous_session: int) -> int:
        """Register a broker, and return its broker epoch, the czxid of its znode; NO_EPOCH before 2.2 (§1.4).

        A znode of the present session counts as success. Up to 0.8.2 a znode with the same host and port is waited for;
        from 2.2 on a znode of this client's previous session is deleted and created again (KAFKA-7165).

        Raises:
            ZooKeeperRefused: another session owns the znode.
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
                return stat_of(present).czxid if self.version.client.has_broker_epochs else NO_EPOCH
            if self.version.client.waits_for_own_registration:
                before = broker_registration.decode(path, data_of(present), self.version.reading)
                if (before.host, before.port) == (registration.host, registration.port):
                    await self.session.process.sleep(self.session.timeout_ms * 1000)
                    continue
            if not self.version.client.has_broker_epochs or owner != previous_session or previous_session == 0:
                raise ZooKeeperRefused(Code.NODE_EXISTS, path)
            await self.session.call(Delete(path, ANY_VERSION))

    async def _create_registration(self, path: str, data: bytes) -> tuple[int, int]:
        """Create the znode, and return code and epoch; from 2.2 on a multi, its last result contains the Stat."""
        if not self.version.client.has_broker_epochs:
            if self.version.client.creates_registration_parents:
                await self.create(paths.parent(paths.BROKER_IDS), b"")
                await self.create(paths.BROKER_IDS, b"")
            return await self.create_recursive(path, data, EPHEMERAL), NO_EPOCH
        reply = await self.session.call(Multi((self.creation(path, None, EPHEMERAL), SetData(path, data, 0))))
        created, written = _results(reply)
        assert not (written.error == Code.OK != created.error), "a multi is applied as a whole"
        if created.error or written.error:
            return created.error or written.error, NO_EPOCH
        assert isinstance(written.body, Stat)
        return Code.OK, written.body.czxid

    async def become_controller(self, broker_id: int, timestamp_ms: int) -> tuple[int, int]:
        """Try to become controller (§2.2), and return the new epoch and its version.

        Raises:
            ControllerMovedError: another broker was elected.
        """
        if not self.version.client.fences_writes:
            return await self._become_controller_in_steps(broker_id, timestamp_ms)
        epoch, version = await self.controller_epoch()
        controller = self.creation(
            paths.CONTROLLER, self.version.znodes.encode_controller(broker_id, timestamp_ms), EPHEMERAL
        )
        raised = SetData(paths.CONTROLLER_EPOCH, controller_schema.encode_epoch(next_int(epoch)), version)
        results = _results(await self.session.call(Multi((controller, raised))))
        assert len(results) == 2, "the znode and the epoch"
        codes = [result.error for result in results]
        if not any(codes):
            return next_int(epoch), version + 1
        if codes[0] == Code.NODE_EXISTS or codes[1] == Code.BAD_VERSION:
            now, now_version = await self.controller_epoch()
            if await self.controller_id() == broker_id and now == next_int(epoch):
                return now, now_version  # the reply to this broker's own success was lost
            raise ControllerMovedError
        raise ZooKeeperRefused(codes[0] or codes[1], paths.CONTROLLER)

    async def _become_controller_in_steps(self, broker_id: int, timestamp_ms: int) -> tuple[int, int]:
        """Create the znode, then raise the epoch if its version has not changed since it was read (before 2.1)."""
        data = self.version.znodes.encode_controller(broker_id, timestamp_ms)
        code = await self.create(paths.CONTROLLER, data, EPHEMERAL)
        while code == Code.NODE_EXISTS:
            present = await self.session.call(GetData(paths.CONTROLLER, False))
            if not present.error and stat_of(present).ephemeral_owner == self.session.session_id:
                code = Code.OK
            elif not self.version.client.reads_controller_before_election and await self.controller_id() == broker_id:
                # The znode of its earlier session: wait for its expiry, even if another is elected then (KAFKA-1451).
                await self.session.process.sleep(self.session.timeout_ms * 1000)
                code = await self.create(paths.CONTROLLER, data, EPHEMERAL)
            else:
                raise ControllerMovedError
        if code != Code.OK:
            raise ZooKeeperRefused(code, paths.CONTROLLER)
        assert not self.version.client.fences_writes, "a later release raises the epoch in the same multi"
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
        """Return the controller epoch and its version; create it as 0 if it is missing."""
        while True:
            found = await self.read(paths.CONTROLLER_EPOCH)
            if found is not None:
                return controller_schema.decode_epoch(paths.CONTROLLER_EPOCH, found[0]), found[1].version
            if await self.create(paths.CONTROLLER_EPOCH, controller_schema.encode_epoch(0)) == Code.OK:
                return 0, 0

    # -- writes of a controller, from 2.1 on fenced by the version of its epoch

    async def fenced(self, writes: Sequence[Create | Delete | SetData], epoch_version: int) -> list[OperationResult]:
        """Send writes pipelined, each in a multi with a check of the controller epoch; before 2.1 without it.

        Returns:
            the result of each write.

        Raises:
            ControllerMovedError: another broker is controller.
        """
        if not self.version.client.fences_writes:
            return [OperationResult(reply.error, reply.body) for reply in await self.session.call_all(writes)]
        assert epoch_version >= 0, "a controller knows the version of its epoch"
        check = Check(paths.CONTROLLER_EPOCH, epoch_version)
        replies = await self.session.call_all([Multi((check, write)) for write in writes])
        results = []
        for reply in replies:
            checked, written = _results(reply)
            check_fence(checked.error)
            results.append(written)
        assert len(results) == len(writes), "each write has a result"
        return results

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr], epoch_version: int
    ) -> dict[TopicPartition, Code]:
        """Create the znodes of new partitions: `partitions` of each topic, then the partitions, then their states.

        Up to 1.0 one partition after another: the state is tried first, then its missing parents are created.
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
        """Write a topic's assignment at any version.

        Raises:
            ZooKeeperRefused: the znode is missing.
        """
        write = SetData(paths.topic(name), self.version.znodes.encode_topic(topic), ANY_VERSION)
        (result,) = await self.fenced([write], epoch_version)
        if result.error:
            raise ZooKeeperRefused(result.error, paths.topic(name))

    async def delete_recursive(self, path: str, epoch_version: int) -> None:
        """Delete a znode and its descendants, children first, one write at a time."""
        assert path != "/", "a cluster keeps its root"
        for name in children_of(await self.session.call(GetChildren2(path, False))):
            await self.delete_recursive(f"{path}/{name}", epoch_version)
        await self.fenced([Delete(path, ANY_VERSION)], epoch_version)

    async def delete_children(self, parent: str, names: Iterable[str], epoch_version: int) -> None:
        """Delete children of a znode, pipelined."""
        if deletes := [Delete(f"{parent}/{name}", ANY_VERSION) for name in names]:
            await self.fenced(deletes, epoch_version)

    async def allocate_producer_ids(self, broker_id: int) -> int:
        """Allocate the next block of producer ids for a broker, and return its first id.

        Raises:
            ZooKeeperRefused: the znode is missing.
            ZnodeError: the znode is invalid, or no ids are left.
        """
        while True:
            found = await self.read(paths.PRODUCER_IDS)
            if found is None:
                raise ZooKeeperRefused(Code.NO_NODE, paths.PRODUCER_IDS)
            last = decode_producer_ids(paths.PRODUCER_IDS, found[0], self.version.reading)
            if last is not None and last.end > LONG_MAX - PRODUCER_ID_BLOCK_SIZE:
                raise ZnodeError(
                    f"has allocated ids up to {last.end}", where=paths.PRODUCER_IDS, right="room for a block"
                )
            start = 0 if last is None else last.end + 1
            block = ProducerIdBlock(broker_id, start, start + PRODUCER_ID_BLOCK_SIZE - 1)
            write = SetData(paths.PRODUCER_IDS, encode_producer_ids(block), found[1].version)
            if (await self.session.call(write)).error == Code.OK:
                return start

    async def requested_reassignment(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the reassignment in `/admin/reassign_partitions`; empty if it is missing or no JSON (§1.1).

        Raises:
            ZnodeError: the znode is invalid in a way that makes Kafka throw an exception.
        """
        found = await self.read(paths.REASSIGN_PARTITIONS)
        if found is None:
            return {}
        decode = partial(admin.decode_reassignment, strict=self.version.controller.rejects_unknown_fields)
        return self.decode(decode, paths.REASSIGN_PARTITIONS, found[0]) or {}

    async def exists(self, path: str) -> bool:
        """Return whether a znode exists; set a watch if a handler is registered."""
        return (await self.session.exists(path)).error == Code.OK


def _decode_state(version: int, path: str, data: bytes | None, reading: Reading) -> LeaderAndIsr:
    return partition_state.decode(path, data, version, reading)


def _results(reply: Reply) -> list[OperationResult]:
    """Return the results in a reply to a multi, also to a failed one."""
    body = reply.body
    assert isinstance(body, (list, tuple)), f"not a reply to a multi: {reply}"
    return list(body)
