"""Any sequence of requests, of several clients and with time passing, leaves a store whole.

After every step `Server.check` asserts the invariants of every structure; a model as plain as can be (a dictionary of
paths) says what must be there, and a second server that only applies the transactions must be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Closed, Code, ConnectResponse, Reply, Stat, WatchedEvent
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.server import Server
from simzk.zookeeper.sessions import password_of

if TYPE_CHECKING:
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.transactions import Transaction

NAMES = st.sampled_from(["a", "b", "c", "Aa", "BB"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
DATA = st.none() | st.binary(max_size=4)
VERSIONS = st.sampled_from([-1, -1, 0, 1, 2])
ACLS = st.sampled_from(
    [OPEN_ACL, OPEN_ACL, OPEN_ACL, (ACL(31, Id("ip", "127.0.0.1")),), (ACL(1, Id("world", "anyone")),)]
)
CREATES = st.builds(req.Create2, PATHS, DATA, ACLS, st.integers(0, 3)) | st.builds(
    req.CreateContainer, PATHS, DATA, ACLS, st.just(4)
)
WRITES = st.one_of(
    CREATES,
    CREATES,
    st.builds(req.CreateTTL, PATHS, DATA, ACLS, st.sampled_from([5, 6]), st.integers(1, 100_000)),
    st.builds(req.Delete, PATHS, VERSIONS),
    st.builds(req.SetData, PATHS, DATA, VERSIONS),
)
OPERATIONS = WRITES | st.builds(req.Check, PATHS, VERSIONS)
READS = st.one_of(
    st.builds(req.GetData, PATHS, st.booleans()),
    st.builds(req.Exists, PATHS, st.booleans()),
    st.builds(req.GetChildren2, PATHS, st.booleans()),
    st.builds(req.AddWatch, PATHS, st.integers(0, 1)),
    st.builds(req.RemoveWatches, PATHS, st.integers(1, 5)),
)
REQUESTS = st.one_of(
    WRITES,
    st.builds(req.SetACL, PATHS, ACLS, VERSIONS),
    st.builds(req.Multi, st.lists(OPERATIONS, max_size=4).map(tuple)),
    READS,
)


def numbers_of(tree: Any) -> dict[str, tuple[bytes | None, Stat, tuple[ACL, ...], int]]:
    """All that a tree says, for comparing two."""
    return {path: (node.data, node.stat(), node.acl, node.ephemeral_owner) for path, node in tree.walk()}


class StoreMachine(RuleBasedStateMachine):
    clients = Bundle("clients")

    @initialize()
    def start(self) -> None:
        self.server = Server(ServerConfig(tick_time_ms=500, extended_types=True, container_check_interval_ms=3_000))
        self.follower = Server(self.server.config)
        self.server.on_transaction.append(self.follow)
        self.now_ms = 0
        self.xid = 0
        self.zxids = [0]
        self.last_zxid_sent: dict[Connection, int] = {}
        self.live: dict[int, Connection] = {}

    def follow(self, transaction: Transaction) -> None:
        self.zxids.append(transaction.zxid)
        self.follower.apply(transaction)

    def sent(self) -> list[tuple[Connection, Any]]:
        said = [(connection, message) for connection, batch in self.server.take_output() for message in batch]
        for connection, message in said:
            if isinstance(message, Reply | WatchedEvent) and message.zxid > 0:
                assert message.zxid >= self.last_zxid_sent.get(connection, 0), "no session goes back in time"
                self.last_zxid_sent[connection] = message.zxid
            if isinstance(message, Closed):
                self.live.pop(connection.session_id, None)
        return said

    @rule(target=clients, timeout_ms=st.integers(0, 12_000))
    def connect(self, timeout_ms: int) -> Connection:
        request = req.ConnectRequest(0, self.server.zxid, timeout_ms, 0, None, False)
        connection = self.server.connect(request, self.now_ms)
        self.live[connection.session_id] = connection
        assert isinstance(self.sent()[-1][1], ConnectResponse)
        return connection

    @rule(target=clients, old=consumes(clients), right=st.booleans())
    def take_up(self, old: Connection, right: bool) -> Connection | MultipleResults[Connection]:
        known = old.session_id in self.server.sessions
        password = password_of(old.session_id) if right else bytes(16)
        request = req.ConnectRequest(0, 0, 5_000, old.session_id, password, False)
        connection = self.server.connect(request, self.now_ms)
        self.sent()
        assert connection.closed == (not (right and known))
        assert old.closed
        if connection.closed:
            return multiple()
        self.live[connection.session_id] = connection
        return connection

    @rule(client=clients, request=REQUESTS)
    def ask(self, client: Connection, request: req.Request) -> None:
        self.xid += 1
        before = numbers_of(self.server.tree)
        zxid = self.server.zxid
        self.server.handle(client, self.xid, request, self.now_ms)
        replies = [said for to, said in self.sent() if to is client and isinstance(said, Reply)]
        assert len(replies) == (0 if client.closed else 1)
        for reply in replies:
            assert reply.xid == self.xid
            failed = reply.error or (isinstance(request, req.Multi) and any(done.error for done in reply.body))  # type: ignore[attr-defined]
            if failed or self.server.zxid == zxid:
                assert numbers_of(self.server.tree) == before, "what failed, and what only reads, changes nothing"

    @rule(client=consumes(clients))
    def close(self, client: Connection) -> None:
        was_open = not client.closed
        self.server.handle(client, 0, req.CloseSession(), self.now_ms)
        self.sent()
        if was_open:
            assert client.session_id not in self.server.sessions
            assert client.session_id not in self.server.tree.ephemerals

    @rule(client=clients)
    def lose_connection(self, client: Connection) -> None:
        known = client.session_id in self.server.sessions
        self.server.disconnect(client)
        assert (client.session_id in self.server.sessions) == known
        self.live.pop(client.session_id, None)

    @rule(passed_ms=st.integers(0, 4_000))
    def wait(self, passed_ms: int) -> None:
        end_ms = self.now_ms + passed_ms
        while (deadline_ms := self.server.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            assert deadline_ms >= self.now_ms, "a deadline that was missed"
            self.now_ms = deadline_ms
            self.server.tick(deadline_ms)
            self.sent()
        self.now_ms = end_ms

    @precondition(lambda self: len(self.zxids) > 1)
    @rule()
    def restart(self) -> None:
        self.server.restart(self.now_ms)
        self.sent()
        assert not self.live

    @invariant()
    def is_whole(self) -> None:
        self.server.check()
        assert self.zxids == list(range(len(self.zxids))), "every transaction has the next zxid"
        assert numbers_of(self.follower.tree) == numbers_of(self.server.tree)
        assert self.follower.sessions.ids() == self.server.sessions.ids()
        owners = {node.stat().ephemeral_owner for _, node in self.server.tree.walk()} - {0}
        assert owners <= set(self.server.sessions.ids()), "ephemerals do not outlive their session"


TestStore = StoreMachine.TestCase


def test_the_machine_would_notice() -> None:
    """A planted mistake (a session that leaves an ephemeral behind) breaks `check`."""
    server = Server()
    client = server.connect(req.ConnectRequest(0, 0, 1000, 0, None, False), 0)
    server.handle(client, 1, req.Create("/e", b"", OPEN_ACL, 1), 0)
    server.sessions.remove(client.session_id)
    try:
        server.check()
    except AssertionError:
        return
    raise AssertionError(Code.OK)
