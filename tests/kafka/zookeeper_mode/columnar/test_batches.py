"""A batch equals as many single requests: tree, zxids, errors, watch events and history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.kafka.observation.observer import Observer
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition, named
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar import load_layout
from simzk.kafka.zookeeper_mode.columnar.batches import ReadStates, StatesRead, WriteStates
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.partitions.arrays import broker_mask
from simzk.partitions.layouts import Layout, brokers_in_racks, generate_layout
from simzk.partitions.states import states_of
from simzk.simulation import History, Scheduler
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.server import Server
from tests.partitions.operations import fail_brokers

if TYPE_CHECKING:
    from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics
    from simzk.partitions.arrays import IntArray
    from simzk.partitions.states import States
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply
    from simzk.zookeeper.server import Batch
    from simzk.zookeeper.transactions import Transaction

TOPICS, PARTITIONS = 2, 12
LAYOUT = generate_layout(brokers_in_racks(4, 0), topics=TOPICS, partitions=PARTITIONS, replication_factor=3, seed=1)
_NO_LISTS, _NONE = np.empty((0, 1), np.int32), np.empty(0, np.int32)
EMPTY = Layout(
    brokers=LAYOUT.brokers,
    topics=(),
    topic=_NONE,
    partition=_NONE,
    replicas=_NO_LISTS,
    isr=_NO_LISTS,
    leader=_NONE,
    leader_epoch=_NONE,
    min_insync_replicas=_NONE,
)
START_MS = 1_735_689_600_000
ROWS = st.integers(0, PARTITIONS - 1)
BROKERS = st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True)


class Writes(NamedTuple):
    """Rows, the states to write there, and the version of /controller_epoch that fences all of them."""

    rows: IntArray
    states: States
    epoch_version: int


class Arm:
    """A server with a cluster's topics, a controller that writes, and a client with watches."""

    def __init__(self, *, listened: bool = False, layout: Layout = LAYOUT) -> None:
        self.server = Server(now_ms=START_MS)
        self.topics: ColumnarTopics = load_layout(self.server, layout, kafka_version("3.9"), START_MS)
        self.history: list[Transaction] = []
        self.reported = History(Scheduler(seed=1))
        observer = Observer(self.reported, self.server.tree, str, topics=self.topics)
        self.server.on_transaction.add(observer.observe, observer.observe_batch)
        if listened:
            self.server.on_transaction.append(self.history.append)
        self.controller, self.watcher = (
            self.server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), START_MS) for _ in range(2)
        )
        self.ask(req.Create(paths.CONTROLLER_EPOCH, b"1", OPEN_ACL, 0))
        self.said()

    def path(self, row: int) -> str:
        return paths.state(TopicPartition(*self.topics.table.name(row)))

    def ask(self, request: req.Request | Batch, now_ms: int = START_MS, xid: int = 0) -> Any:
        self.server.handle(self.controller, xid, request, now_ms)
        return self.controller.outgoing.pop()

    def write(self, writes: Writes, xid: int, now_ms: int, *, as_requests: bool = False) -> IntArray:
        """Write with a batch, or with its single requests."""
        batch = WriteStates(self.topics.table.partitions(writes.rows), writes.states, writes.epoch_version)
        errors: IntArray
        if as_requests:
            asked = [self.ask(request, now_ms, xid + place) for place, request in enumerate(batch.requests())]
            errors = batch.assemble(asked)
        else:
            reply = self.ask(batch, now_ms, xid)
            assert (reply.xid, reply.zxid) == (xid + max(len(writes.rows), 1) - 1, self.server.zxid)
            errors = reply.body
        return errors

    def said(self) -> list[tuple[int, object]]:
        return [(c.session_id, message) for c, messages in self.server.take_output() for message in messages]


class Disturbance:
    """An obstacle to a batch at one row."""

    def __init__(self, row: int, kind: str) -> None:
        self.row, self.kind = row, kind

    def __repr__(self) -> str:
        return f"{self.kind} at {self.row}"

    def do(self, arm: Arm) -> None:
        path = arm.path(self.row)
        match self.kind:
            case "watched":
                arm.server.handle(arm.watcher, 1, req.GetData(path, True), START_MS)
            case "watched by the writer":
                arm.ask(req.Exists(path, True))
            case "watched from above":
                arm.server.handle(arm.watcher, 1, req.AddWatch(paths.TOPICS, 1), START_MS)
            case "odd text":
                arm.ask(req.SetData(path, b'{"odd": 1}', -1))
            case "other text":
                arm.ask(req.SetData(path, partition_state.encode_spaced(LeaderAndIsr(1, 0, (1,), 1)), -1))
            case "not ours to write":
                arm.ask(req.SetACL(path, (ACL(1, Id("world", "anyone")),), -1))
            case "not ours to read":
                arm.ask(req.SetACL(path, (ACL(31, Id("ip", "10.0.0.1")),), -1))
            case "deleted":
                arm.ask(req.Delete(path, -1))
            case "a newer version":
                data = partition_state.encode(LeaderAndIsr(-1, 7, (2,), 1))
                arm.ask(req.SetData(path, data, -1))
            case "a quota":
                for at in ("/zookeeper/quota/brokers", "/zookeeper/quota/brokers/zookeeper_limits"):
                    arm.ask(req.Create(at, b"count=9,bytes=9", OPEN_ACL, 0))
                arm.ask(req.Create("/zookeeper/quota/brokers/zookeeper_stats", b"", OPEN_ACL, 0))


DISTURBANCES = st.builds(
    Disturbance,
    ROWS,
    st.sampled_from(
        [
            "watched",
            "watched",
            "watched by the writer",
            "odd text",
            "other text",
            "not ours to write",
            "not ours to read",
            "deleted",
            "a newer version",
            "a newer version",
            "watched from above",
            "a quota",
        ]
    ),
)
STATES = st.builds(
    lambda isr, leads, epoch, version: LeaderAndIsr(isr[0] if leads else -1, epoch, tuple(isr), 1, version),
    BROKERS,
    st.booleans(),
    st.integers(0, 9),
    st.sampled_from([0, 0, 0, 0, 1, -1]),
)
WRITES = st.lists(st.tuples(ROWS, STATES), max_size=PARTITIONS, unique_by=lambda entry: entry[0])


def writes_of(chosen: list[tuple[int, LeaderAndIsr]], epoch_version: int) -> Writes:
    rows = np.array([row for row, _ in chosen], dtype=np.int32)
    return Writes(rows, states_of([state for _, state in chosen], 4), epoch_version)


def one_by_one(arm: Arm, writes: Writes, xid: int, now_ms: int) -> list[list[int]]:
    """Return the single requests of a batch."""
    errors = []
    for place, row in enumerate(writes.rows.tolist()):
        state = writes.states.one(place)
        check = req.Check(paths.CONTROLLER_EPOCH, writes.epoch_version)
        change = req.SetData(arm.path(row), partition_state.encode(state), state.version)
        reply = arm.ask(req.Multi((check, change)), now_ms, xid + place)
        errors.append([result.error for result in reply.body])
    return errors


def state_in(read: StatesRead, place: int) -> LeaderAndIsr:
    """Return the state of a partition, from columns or from a reply."""
    if place in read.replies:
        return state_said(read.replies[place])
    state = read.states.one(place)
    return state if state.version >= 0 else LeaderAndIsr(-1, 0, (), 0, -1)


def state_said(reply: Any) -> LeaderAndIsr:
    """Return the state in a reply; None if it cannot be decoded."""
    if reply.error or b"odd" in reply.body[0]:
        return LeaderAndIsr(-1, 0, (), 0, -1)
    return partition_state.decode("", reply.body[0], reply.body[1].version)


def assert_equal(ours: Arm, theirs: Arm) -> None:
    ours.server.check()
    assert ours.server.zxid == theirs.server.zxid
    assert ours.history == theirs.history
    assert list(ours.reported) == list(theirs.reported)
    assert ours.said() == theirs.said()
    for (path, node), (expected_path, expected) in zip(ours.server.tree.walk(), theirs.server.tree.walk(), strict=True):
        assert (path, node.data, node.acl, node.stat()) == (
            expected_path,
            expected.data,
            expected.acl,
            expected.stat(),
        )


@settings(max_examples=2 * settings().max_examples)  # a planted mistake is found among a hundred
@given(
    disturbances=st.lists(DISTURBANCES, max_size=3),
    batches=st.lists(WRITES, min_size=1, max_size=3),
    epoch_version=st.sampled_from([0, 0, 0, 0, -1, 1]),
    listened=st.sampled_from([False, False, False, True]),
    passed_ms=st.sampled_from([1, 2**33]),
    as_requests=st.booleans(),
)
def test_a_batch_does_what_its_requests_do(
    disturbances: list[Disturbance],
    batches: list[list[tuple[int, LeaderAndIsr]]],
    epoch_version: int,
    listened: bool,
    passed_ms: int,
    as_requests: bool,
) -> None:
    batched, single = Arm(listened=listened), Arm(listened=listened)
    for disturbance in disturbances:
        disturbance.do(batched)
        disturbance.do(single)
    now_ms = START_MS
    for chosen in batches:
        now_ms += passed_ms
        writes = writes_of(chosen, epoch_version)
        errors = batched.write(writes, 10, now_ms, as_requests=as_requests)
        assert errors.tolist() == one_by_one(single, writes, 10, now_ms)
        assert_equal(batched, single)
    rows = np.arange(PARTITIONS, dtype=np.int32)
    batch = ReadStates(batched.topics.table.partitions(rows))
    if as_requests:
        read: Any = batch.assemble([batched.ask(request, now_ms) for request in batch.requests()])
    else:
        read = batched.ask(batch, now_ms, 50).body
    for row in rows.tolist():
        assert state_in(read, row) == state_said(single.ask(req.GetData(single.path(row), False), now_ms))
    assert_equal(batched, single)


def test_a_broker_fails_the_same_by_batch_and_one_by_one() -> None:
    """Write the states after a broker failure both ways, and compare trees, zxids and history."""
    for listened in (False, True):
        batched, single = Arm(listened=listened), Arm(listened=listened)
        for failed, live in ((0, [1, 2, 3]), (1, [2, 3])):
            failure = fail_brokers(batched.topics.table, [failed], broker_mask(live), controller_epoch=1)
            assert len(failure.rows) > 4
            writes = Writes(failure.rows, failure.after._replace(version=failure.before.version), 0)
            backwards = Writes(writes.rows[::-1], writes.states.at(np.arange(len(writes.rows))[::-1]), 0)
            errors = batched.write(backwards, 5, START_MS + failed)
            assert not errors.any()
            assert not any(map(any, one_by_one(single, backwards, 5, START_MS + failed)))
            assert_equal(batched, single)
        assert len(batched.topics) == 2 * TOPICS + 2 * PARTITIONS, "all of it stayed in columns"


def test_unwatched_rows_are_written_without_requests() -> None:
    """Check that the comparison above compares two ways: an unobserved batch handles no single request."""
    arm = Arm()
    handled: list[req.Request | Batch] = []
    handle = arm.server.handle

    def noted(
        connection: Connection, xid: int, request: req.Request | Batch, now_ms: int, at_once: bool = False
    ) -> Reply | None:
        handled.append(request)
        return handle(connection, xid, request, now_ms, at_once)

    arm.server.handle = noted  # type: ignore[method-assign]
    Disturbance(3, "watched").do(arm)
    handled.clear()
    chosen = [(row, LeaderAndIsr(-1, 1, (2,), 1, 0)) for row in range(PARTITIONS)]
    errors = arm.write(writes_of(chosen, 0), 1, START_MS)
    assert not errors.any()
    assert len(handled) == 2
    assert isinstance(handled[0], WriteStates)
    assert isinstance(handled[1], req.Multi)


@pytest.mark.parametrize("topic", ["unknown", "empty"])
def test_partitions_without_a_row_are_read_and_written_one_by_one(topic: str) -> None:
    """Read and write a partition of a topic that no column has, in a full and in an empty table."""
    arm = Arm()
    if topic == "empty":
        arm.ask(req.Create(f"{paths.TOPICS}/empty", b"{}", OPEN_ACL, 0))
    missing, row = TopicPartition(topic, 0), 0
    there = TopicPartition(*arm.topics.table.name(row))
    read = arm.ask(ReadStates(named([missing, there]))).body
    assert read.states.version.tolist() == [-1, 0]
    assert read.states.one(1) == arm.topics.table.leader_and_isr(row)
    assert not read.replies
    state = LeaderAndIsr(1, 0, (1,), 1, version=-1)
    errors = arm.ask(WriteStates(named([missing, there]), states_of([state, state], 1), 0)).body
    assert errors[:, 1].tolist() == [Code.NO_NODE, Code.OK]

    arm = Arm(layout=EMPTY)
    assert arm.ask(ReadStates(named([missing]))).body.states.version.tolist() == [-1]
    errors = arm.ask(WriteStates(named([missing]), states_of([state], 1), 0)).body
    assert errors[:, 1].tolist() == [Code.NO_NODE]
