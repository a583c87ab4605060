"""A story of partition tables as ZooKeeper requests: topics created, states written conditionally, topics deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics
from simzk.kafka.zookeeper_mode.columnar.batches import WriteStates
from simzk.kafka.zookeeper_mode.schemas import controller as controller_schema
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code, Reply
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.partitions.states import States
    from simzk.partitions.table import Partitions
    from simzk.zookeeper.server import Batch
    from tests.partitions.reference import Moving, State

TOPIC_ID = "TpQ2vLZGRz2kEHL51HUZyg"
START_MS = 1_735_689_600_000
FENCED_FROM = (2, 1, 0)
"""First release in which each write of a state is a multi with a check of the controller epoch."""


class ZnodeArm:
    """One server and a controller that writes to it.

    Args:
        version: in whose form it writes.
        columns: whether topics are held in columns.

    Attributes:
        now_ms: when it is; whoever tells the story lets time pass.
    """

    def __init__(self, version: KafkaVersion, *, columns: bool) -> None:
        self.version = version
        self.server = Server(now_ms=START_MS)
        self.now_ms = START_MS
        self.epoch_version = 0
        self._controller = self.server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), START_MS)
        for path, data in (
            ("/brokers", b""),
            (paths.TOPICS, b""),
            (paths.CONTROLLER_EPOCH, controller_schema.encode_epoch(1)),
        ):
            self.ask(req.Create(path, data, OPEN_ACL, 0))
        self.backing = ColumnarTopics(width=4) if columns else None
        if self.backing is not None:
            self.server.tree.mount(self.backing)

    def ask(self, request: req.Request | Batch) -> object:
        """Return the body of a reply that is no error."""
        self._controller.outgoing.clear()
        self.server.handle(self._controller, 1, request, self.now_ms)
        (reply,) = self._controller.outgoing
        assert isinstance(reply, Reply)
        assert reply.error == Code.OK
        return reply.body

    @property
    def _fence(self) -> int | None:
        return self.epoch_version if self.version.number >= FENCED_FROM else None

    # -- what the controller does

    def fail_over(self, epoch: int) -> None:
        self.ask(req.SetData(paths.CONTROLLER_EPOCH, controller_schema.encode_epoch(epoch), self.epoch_version))
        self.epoch_version += 1

    def _text(self, moving: Mapping[int, Moving]) -> bytes:
        assigned = {number: ReplicaAssignment(*map(tuple, one)) for number, one in sorted(moving.items())}
        return self.version.znodes.encode_topic(
            TopicZnode(assigned, TOPIC_ID if self.version.znodes.has_topic_ids else None)
        )

    def make_topic(self, topic: str, moving: Mapping[int, Moving]) -> None:
        self.ask(req.Create(paths.topic(topic), self._text(moving), OPEN_ACL, 0))

    def write_topic(self, topic: str, moving: Mapping[int, Moving]) -> None:
        self.ask(req.SetData(paths.topic(topic), self._text(moving), -1))

    def make_states(self, states: Iterable[tuple[tuple[str, int], State]]) -> None:
        """Create first states, with their missing parents."""
        for name, state in states:
            partition = TopicPartition(*name)
            above = (paths.partitions(partition.topic), paths.partition(partition))
            made: list[req.Request] = [
                req.Create(path, None, OPEN_ACL, 0) for path in above if path not in self.server.tree
            ]
            data = self.version.znodes.encode_state(as_written(state))
            for request in (*made, req.Create(paths.state(partition), data, OPEN_ACL, 0)):
                self.ask(request)

    def write_one_by_one(self, states: Iterable[tuple[tuple[str, int], State]]) -> None:
        """Write states as single requests."""
        for name, state in states:
            path, data = paths.state(TopicPartition(*name)), self.version.znodes.encode_state(as_written(state))
            change = req.SetData(path, data, state.version - 1)
            if self._fence is None:
                self.ask(change)
                continue
            results = self.ask(req.Multi((req.Check(paths.CONTROLLER_EPOCH, self._fence), change)))
            assert isinstance(results, (list, tuple))
            assert [result.error for result in results] == [Code.OK, Code.OK]

    def write_together(self, partitions: Partitions, after: States) -> None:
        """Write states as one batch."""
        expected = after._replace(version=after.version - 1)
        errors = self.ask(WriteStates(partitions, expected, self._fence, self.version.znodes.encode_state))
        assert not errors.any()  # type: ignore[attr-defined]

    def remove_topic(self, topic: str, numbers: Iterable[int]) -> None:
        below = [TopicPartition(topic, number) for number in numbers]
        candidates = [path for p in below for path in (paths.state(p), paths.partition(p))]
        for path in (*candidates, paths.partitions(topic), paths.topic(topic)):
            if path in self.server.tree:
                self.ask(req.Delete(path, -1))


def as_written(state: State) -> LeaderAndIsr:
    return LeaderAndIsr(
        state.leader, state.leader_epoch, tuple(state.isr), state.controller_epoch, state.version, state.recovering
    )
