"""A tree with topics as columns gives the same replies, tree and snapshot as one of objects for any requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment
from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics
from simzk.kafka.zookeeper_mode.schemas.partition_state import encode
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode, encode_v3
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.persistence import TreeDigest, encode_snapshot, touched_paths
from simzk.zookeeper.replies import Stat
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from tests.kafka.zookeeper_mode.columnar.requests import (
    DIRECTORIES,
    PARTITIONS,
    REQUESTS,
    STATES,
    TOPICS_PATH,
    state_texts,
    topic_paths,
    topic_texts,
)

if TYPE_CHECKING:
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.transactions import Transaction

pytestmark = pytest.mark.slow

CONFIG = ServerConfig(tick_time_ms=500, extended_types=True, container_check_interval_ms=3_000)
CLIENTS = 2


T = f"{TOPICS_PATH}/t"
TOPIC_OF_FOUR = (
    req.Create2(T, encode_v3(TopicZnode({number: ReplicaAssignment((1, 2)) for number in range(4)})), OPEN_ACL, 0),
    req.Create2(f"{T}/partitions", None, OPEN_ACL, 0),
    *[req.Create2(f"{T}/partitions/{number}", None, OPEN_ACL, 0) for number in range(4)],
    *[
        req.Create2(f"{T}/partitions/{number}/state", encode(LeaderAndIsr(1, 0, (1, 2), 1)), OPEN_ACL, 0)
        for number in range(4)
    ],
)


class Arm:
    """One server with its clients and the digest of its tree."""

    def __init__(self) -> None:
        self.server = Server(CONFIG)
        self.clients: list[Connection] = []
        self.digest = TreeDigest(self.server.tree)
        self.server.on_transaction.append(self._note)
        for _ in range(CLIENTS):
            self.connect(0)
        for path in ("/brokers", TOPICS_PATH):
            self.server.handle(self.clients[0], 0, req.Create(path, b"", OPEN_ACL, 0), 0)
        self.said()

    def _note(self, transaction: Transaction) -> None:
        self.digest.refresh(touched_paths(transaction.record))

    def connect(self, now_ms: int) -> None:
        request = req.ConnectRequest(0, 0, 4_000, 0, None, False)
        self.clients.append(self.server.connect(request, now_ms))

    def said(self) -> list[tuple[int, object]]:
        """Return the messages since the last call, by client."""
        return [
            (self.clients.index(connection), message)
            for connection, messages in self.server.take_output()
            for message in messages
        ]

    def snapshot(self) -> bytes:
        server = self.server
        timeouts_ms = server.sessions.timeouts_ms()
        return b"".join(encode_snapshot(server.tree, timeouts_ms, lambda: (server.zxid, self.digest.value)))


NUMBERS_64 = st.integers(0, 20) | st.integers(0, 2**34) | st.integers(0, 2**62)
VERSIONS = st.integers(0, 2) | st.sampled_from([-1, 16, 2**31 - 1])
PLACED = st.one_of(
    st.tuples(topic_paths(), topic_texts()),
    st.tuples(STATES, state_texts()),
    st.tuples(PARTITIONS, st.none()),
    st.tuples(DIRECTORIES, st.none()),
)


class TwinMachine(RuleBasedStateMachine):
    """Two servers that get the same requests; one of them has a backing from some moment on."""

    @initialize(late=st.booleans(), settled=st.booleans())
    def start(self, late: bool, settled: bool) -> None:
        self.plain, self.columnar = Arm(), Arm()
        self.backing: ColumnarTopics | None = None
        self.now_ms = 0
        self.xid = 0
        if not late:
            self.mount()
        if settled:
            self.ask(0, req.Multi(TOPIC_OF_FOUR))

    def both(self, act: Any) -> None:
        """Send a request to both servers and compare their replies."""
        act(self.plain)
        act(self.columnar)
        assert self.columnar.said() == self.plain.said()

    @precondition(lambda self: self.backing is None)
    @rule()
    def mount(self) -> None:
        self.backing = ColumnarTopics()
        self.columnar.server.tree.mount(self.backing)

    @rule(client=st.integers(0, CLIENTS - 1), request=REQUESTS)
    def ask(self, client: int, request: req.Request) -> None:
        self.xid += 1
        self.both(lambda arm: arm.server.handle(arm.clients[-1 - client], self.xid, request, self.now_ms))

    @rule(requests=st.lists(REQUESTS, max_size=8))
    def ask_much(self, requests: list[req.Request]) -> None:
        for request in requests:
            self.ask(0, request)

    @rule(client=st.integers(0, CLIENTS - 1))
    def authenticate(self, client: int) -> None:
        self.xid += 1
        request = req.Auth(0, "digest", b"ann:pw")
        self.both(lambda arm: arm.server.handle(arm.clients[-1 - client], self.xid, request, self.now_ms))

    @rule(passed_ms=st.integers(0, 3_000))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.both(lambda arm: arm.server.tick(self.now_ms))

    @rule()
    def come_anew(self) -> None:
        for _ in range(CLIENTS):
            self.both(lambda arm: arm.connect(self.now_ms))

    @rule(path=st.sampled_from([TOPICS_PATH, f"{TOPICS_PATH}/t"]))
    def take_up_watches(self, path: str) -> None:
        self.xid += 1
        below: Any = (*[f"{path}{name}" for name in ("", "/partitions", "/partitions/0", "/partitions/0/state")], None)
        request = req.SetWatches(self.plain.server.zxid - 2, below, below, below)
        self.both(lambda arm: arm.server.handle(arm.clients[-1], self.xid, request, self.now_ms))

    @rule(
        place=PLACED,
        numbers=st.lists(NUMBERS_64, min_size=5, max_size=5),
        versions=st.lists(VERSIONS, min_size=3, max_size=3),
    )
    def restore(self, place: tuple[str, bytes | None], numbers: list[int], versions: list[int]) -> None:
        """Replace a node by one from another place, if its parent exists."""
        path, data = place
        czxid, mzxid, pzxid, ctime_ms, mtime_ms = numbers
        version, cversion, aversion = versions
        stat = Stat(czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, 0, 0, 0, pzxid)
        for arm in (self.plain, self.columnar):
            parent = arm.server.tree.get(path.rpartition("/")[0])
            if parent is not None and not parent.ephemeral_owner:
                arm.server.tree.restore(path, data, stat)
        for arm in (self.plain, self.columnar):
            arm.digest = TreeDigest(arm.server.tree)
            arm.server.zxid = max(arm.server.zxid, czxid)

    @rule(limits=st.sampled_from([b"count=4,bytes=-1", b"count=-1,bytes=-1=;byteHardLimit=300"]))
    def set_quota(self, limits: bytes) -> None:
        quota = f"/zookeeper/quota{TOPICS_PATH}"
        for path, data in (
            ("/zookeeper/quota/brokers", b""),
            (quota, b""),
            (f"{quota}/zookeeper_limits", limits),
            (f"{quota}/zookeeper_stats", b""),
        ):
            self.ask(0, req.Create(path, data, OPEN_ACL, 0))

    @invariant()
    def trees_are_equal(self) -> None:
        ours, theirs = self.columnar.server.tree, self.plain.server.tree
        self.columnar.server.check()
        assert len(ours) == len(theirs)
        assert list(ours.containers) == list(theirs.containers)
        for (path, node), (expected_path, expected) in zip(ours.walk(), theirs.walk(), strict=True):
            assert path == expected_path
            assert (path in ours) == (path in theirs)
            assert (node.data, node.acl, node.stat()) == (expected.data, expected.acl, expected.stat())
            assert (node.cversion, node.ephemeral_owner) == (expected.cversion, expected.ephemeral_owner)
            assert ours.descendant_count(path) == theirs.descendant_count(path)
        assert self.columnar.digest.value == self.plain.digest.value == TreeDigest(ours).value

    def teardown(self) -> None:
        if hasattr(self, "plain"):
            assert self.columnar.snapshot() == self.plain.snapshot()
            if self.backing is not None:
                event(f"nodes held: {min(len(self.backing), 6)}")


TestTwins = TwinMachine.TestCase


def test_what_kafka_writes_is_held() -> None:
    """Check that the machine above tests the columns: all that Kafka writes is stored there, also after a change."""
    arm, backing = Arm(), ColumnarTopics()
    arm.server.tree.mount(backing)
    client, state = arm.clients[0], f"{T}/partitions/2/state"
    arm.server.handle(client, 1, req.Multi(TOPIC_OF_FOUR), 1)
    assert len(backing) == len(TOPIC_OF_FOUR) == 10
    assert backing.table.leader.tolist() == [1, 1, 1, 1]
    arm.server.handle(client, 2, req.SetData(state, encode(LeaderAndIsr(2, 1, (2,), 1)), 0), 2)
    assert (len(backing), backing.table.leader.tolist()) == (10, [1, 1, 2, 1])
    arm.server.handle(client, 3, req.SetData(state, b'{"controller_epoch": 1}', -1), 3)
    assert (len(backing), backing.table.version.tolist()) == (9, [0, 0, -1, 0])
    arm.server.handle(client, 4, req.SetData(state, encode(LeaderAndIsr(2, 2, (2, 1), 1)), -1), 4)
    assert (len(backing), backing.table.version.tolist()) == (10, [0, 0, 3, 0])
    for operation in reversed(TOPIC_OF_FOUR):
        arm.server.handle(client, 5, req.Delete(operation.path, -1), 5)
    assert (len(backing), len(backing.table)) == (0, 0)
    arm.server.check()


@pytest.mark.parametrize(
    "other",
    [
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]} ',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1, 2]}',
        b'{"controller_epoch":1,"leader":1,"version":2,"leader_epoch":0,"isr":[1,2]}',
        b'{"controller_epoch":1,"leader":9,"version":1,"leader_epoch":0,"isr":[1,2]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2],"more":0}',
    ],
)
def test_a_text_that_only_means_the_same_is_kept_as_it_is(other: bytes) -> None:
    arm, backing = Arm(), ColumnarTopics()
    arm.server.tree.mount(backing)
    client, state = arm.clients[0], f"{T}/partitions/2/state"
    arm.server.handle(client, 1, req.Multi(TOPIC_OF_FOUR), 1)
    arm.server.handle(client, 2, req.SetData(state, other, -1), 2)
    node = arm.server.tree.get(state)
    assert node is not None
    assert (node.data, node.version) == (other, 1)
    assert not backing.holds(state)
    arm.server.check()
