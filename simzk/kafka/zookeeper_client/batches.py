"""What a broker asks ZooKeeper of many partitions and topics at once: requests that mean as many (`columnar.batches`).

Rules of the module:
  - what the columns of a large cluster do not say comes as text, and is decoded as that of any znode;
  - a state, or a topic, that is no JSON is none; one that is JSON and cannot be used fails the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.kafka import paths
from simzk.kafka.columnar.batches import Assigned, ReadStates, ReadTopics, StatesRead, TopicsRead, WriteStates
from simzk.kafka.schemas import partition_state
from simzk.kafka.schemas import topic as topic_schema
from simzk.kafka.schemas.json_text import NoJsonError
from simzk.kafka.schemas.topic import TopicZnode
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition, named
from simzk.partitions.arrays import widen
from simzk.zookeeper.replies import Code, Reply, Stat
from simzk.zookeeper.requests import GetData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.errors import ZnodeError
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.zookeeper_client.session import ZooKeeperSession
    from simzk.partitions.arrays import IntArray
    from simzk.partitions.states import States
    from simzk.partitions.table import Partitions


class ControllerMovedError(Exception):
    """Another broker is controller: the epoch that a write was fenced with is no longer the one in ZooKeeper."""


class ZooKeeperRefused(Exception):  # noqa: N818 - the server's word, not a mistake of ours
    """ZooKeeper answered a request with an error that its sender has no use for."""

    def __init__(self, code: int, path: str) -> None:
        self.code = Code(code)
        self.path = path
        super().__init__(f"{self.code.name} for {path}")


def stat_of(reply: Reply) -> Stat:
    """The Stat in a reply to exists, getData or setData."""
    body = reply.body
    stat = body if isinstance(body, Stat) else body[1]  # type: ignore[index]
    assert isinstance(stat, Stat)
    return stat


def data_of(reply: Reply) -> bytes | None:
    """The data in a reply to getData."""
    assert isinstance(reply.body, tuple)
    data = reply.body[0]
    assert data is None or isinstance(data, bytes)
    return data


def check_fence(error: int) -> None:
    """What the check of the controller's epoch says."""
    if error == Code.BAD_VERSION:
        raise ControllerMovedError
    if error not in (Code.OK, Code.RUNTIME_INCONSISTENCY):
        raise ZooKeeperRefused(error, paths.CONTROLLER_EPOCH)


class ManyZnodes:
    """The part of a broker's client that is about many znodes.

    Attributes:
        session: the session.
        version: decides the form of what is written.
        unusable: is told of a znode that cannot be used, where that ends nothing.
    """

    session: ZooKeeperSession
    version: KafkaVersion
    unusable: Callable[[ZnodeError], None]

    async def read_all(self, wanted: Sequence[str]) -> list[Reply]:
        """Read znodes pipelined."""
        handlers = self.session.data_handlers
        return await self.session.call_all([GetData(path, path in handlers) for path in wanted])

    async def all_topics(self, names: Sequence[str]) -> tuple[dict[str, TopicZnode], Assigned | None]:
        """As `topics`, of many at once, with a watch on each: what came by text, and what came as columns.

        Raises:
            ZnodeError: JSON that cannot be used.
        """
        read: TopicsRead = await self.session.call_batch(ReadTopics(names, watch=True))
        return self._topics(read.replies), read.columns

    def _topics(self, replies: Mapping[str, Reply]) -> dict[str, TopicZnode]:
        found = {}
        for name, reply in replies.items():
            try:
                found[name] = topic_schema.decode(paths.topic(name), data_of(reply), self.version.reading)
            except NoJsonError as problem:
                self.unusable(problem)
                found[name] = TopicZnode({}, None)
        return found

    async def states(self, partitions: Partitions) -> States:
        """The states of partitions, `version` -1 where there is no znode, or none that is JSON.

        Args:
            partitions: k of them.

        Raises:
            ZnodeError: JSON that cannot be used.
        """
        batch = ReadStates(partitions)
        if self.version.broker.uses_alter_isr:
            read: StatesRead = await self.session.call_batch(batch)
        else:  # reading sets the watches of reassignments (§2.11)
            wanted = [paths.state(TopicPartition(*name)) for name in partitions.names()]
            read = batch.assemble(await self.read_all(wanted))
        states = read.states
        for place, reply in read.replies.items():
            path, version = paths.state(TopicPartition(*partitions.name(place))), stat_of(reply).version
            try:
                state = partition_state.decode(path, data_of(reply), version, self.version.reading)
            except NoJsonError as problem:
                self.unusable(problem)
                continue
            states = states._replace(isr=widen(states.isr, len(state.isr)))
            states.put_one(place, state)
        return states

    async def state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """The state of one partition; None where there is no znode, or none that is JSON.

        Raises:
            ZnodeError: JSON that cannot be used.
        """
        states = await self.states(named([partition]))
        return states.one(0) if states.version[0] >= 0 else None

    async def write_states(self, partitions: Partitions, states: States, epoch_version: int) -> IntArray:
        """Write states on condition that the znodes have the versions one below.

        Args:
            partitions: k distinct ones.
            states: k states.
            epoch_version: the version of the controller's epoch, where writes are fenced by it.

        Returns:
            int32[k], the error of each write.

        Raises:
            ControllerMovedError: the epoch is no longer ours.
        """
        fence = epoch_version if self.version.client.fences_writes else None
        before = states._replace(version=states.version - np.int32(1))
        errors: IntArray = await self.session.call_batch(
            WriteStates(partitions, before, fence, self.version.znodes.encode_state)
        )
        for checked in errors[:, 0].tolist() if errors[:, 0].any() else ():
            check_fence(checked)
        return errors[:, 1]
