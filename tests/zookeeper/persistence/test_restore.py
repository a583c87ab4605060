"""Restoration from a snapshot taken while the server went on, and from the log behind it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.persistence import (
    LOG_HEADER,
    LogEntry,
    Restoration,
    SnapshotReader,
    TransactionLogReader,
    TreeDigest,
    encode_log_entry,
    encode_snapshot,
    touched_paths,
)
from simzk.zookeeper.persistence.files import UnbootableError
from simzk.zookeeper.persistence.restore import LazyNodes
from simzk.zookeeper.persistence.snapshot import batch_digests, node_digest
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.server import Server
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode
from tests.zookeeper.persistence.strategies import RECORDS, contents, trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.zookeeper.connection import Connection

CONFIG = ServerConfig(extended_types=True)
READ_ONLY = (ACL(1, Id("world", "anyone")), ACL(31, Id("ip", "127.0.0.1")))


class Dripping(BytesIO):
    """Gives a few bytes whenever it is asked for more."""

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        return super().read(min(size, 200) if size > 0 else size)


@dataclass
class Recorded:
    """A server with its log, and a snapshot that is written while it works."""

    server: Server = field(default_factory=lambda: Server(CONFIG))
    log: bytearray = field(default_factory=lambda: bytearray(LOG_HEADER))
    snapshot: bytearray = field(default_factory=bytearray)
    snapshot_zxid: int = -1

    def __post_init__(self) -> None:
        self.digest = TreeDigest(self.server.tree)
        self.server.on_transaction.append(self.append)
        self.connections: dict[int, Connection] = {}
        self.pieces: Iterator[bytes] | None = None
        self.now_ms = 0

    def append(self, transaction: txns.Transaction) -> None:
        digest = self.digest.refresh(touched_paths(transaction.record))
        self.log += encode_log_entry(transaction, digest)

    def ask(self, client: int, request: req.Request) -> None:
        self.now_ms += 1
        if client not in self.connections or self.connections[client].closed:
            connect = req.ConnectRequest(0, 0, 40_000, 0, None, False)
            self.connections[client] = self.server.connect(connect, self.now_ms)
        self.server.handle(self.connections[client], 1, request, self.now_ms)
        self.server.take_output()

    def go_on_with_snapshot(self, pieces: int) -> None:
        if self.pieces is None:
            self.snapshot_zxid = self.server.zxid
            sessions = self.server.sessions.timeouts_ms()
            self.pieces = encode_snapshot(self.server.tree, sessions, lambda: (self.server.zxid, self.digest.value))
        self.snapshot += b"".join(islice(self.pieces, pieces))

    def restored(self, *, is_lazy: bool = False) -> Restoration:
        restoration = Restoration(is_lazy=is_lazy)
        assert restoration.load(SnapshotReader(Dripping(bytes(self.snapshot))), self.snapshot_zxid) is None
        for entry in TransactionLogReader(BytesIO(bytes(self.log))):
            restoration.replay(entry)
        return restoration


CLIENTS = st.integers(0, 2)
PATHS = st.sampled_from(["/a", "/b", "/a/b", "/a/c", "/a/b/c", "/c"])
DATA = st.none() | st.binary(max_size=3)
ACLS = st.sampled_from([OPEN_ACL, OPEN_ACL, READ_ONLY, (ACL(31, Id("ip", "127.0.0.1")),)])
OPERATIONS = st.one_of(
    st.builds(req.Create, PATHS, DATA, ACLS, st.integers(0, 3)),
    st.builds(req.Create2, PATHS, DATA, ACLS, st.integers(0, 1)),
    st.builds(req.CreateContainer, PATHS, DATA, ACLS, st.just(4)),
    st.builds(req.CreateTTL, PATHS, DATA, ACLS, st.just(5), st.just(1000)),
    st.builds(req.Delete, PATHS, st.just(-1)),
    st.builds(req.SetData, PATHS, DATA, st.sampled_from([-1, -1, 0])),
)
REQUESTS = st.one_of(
    OPERATIONS,
    OPERATIONS,
    st.builds(req.SetACL, PATHS, ACLS, st.just(-1)),
    st.builds(req.Multi, st.lists(OPERATIONS | st.builds(req.Check, PATHS, st.just(0)), max_size=3).map(tuple)),
    st.just(req.CloseSession()),
)
STEPS = st.lists(st.tuples(CLIENTS, REQUESTS, st.integers(0, 2)), max_size=40)


@given(STEPS, st.integers(0, 10))
def test_a_fuzzy_snapshot_and_the_log_behind_it(steps: list[tuple[int, req.Request, int]], first: int) -> None:
    recorded = Recorded()
    for number, (client, request, pieces) in enumerate(steps):
        recorded.ask(client, request)
        if number >= first:
            recorded.go_on_with_snapshot(pieces)
    recorded.go_on_with_snapshot(10_000)
    for client, request, _ in steps[: len(steps) // 3]:
        recorded.ask(client, request)
    server = recorded.server
    for is_lazy in (False, True):
        restoration = recorded.restored(is_lazy=is_lazy)
        assert seen_by_data(restoration, sorted(contents(server.tree))) == data_and_names(server.tree)
        assert restoration.sessions == dict(server.sessions.timeouts_ms())
        assert restoration.zxid == server.zxid
        assert (restoration.mismatch_zxid, restoration.missing_until) == (None, None)
        assert restoration.finish().value == recorded.digest.value
        assert contents(restoration.tree) == contents(server.tree)
        restoration.tree.check()


def seen_by_data(restoration: Restoration, paths: list[str]) -> dict[str, tuple[bytes | None, list[str]]]:
    """Return data and children read without decoding nodes."""
    assert restoration.data(["/none", "/none/below"]) == [None, None]
    assert restoration.names("/none") == []
    return {
        path: (data, sorted(restoration.names(path))) for path, data in zip(paths, restoration.data(paths), strict=True)
    }


def data_and_names(tree: DataTree) -> dict[str, tuple[bytes | None, list[str]]]:
    return {path: (node.data or b"", sorted(node.child_names())) for path, node in tree.walk()}


@given(STEPS)
def test_the_digest_follows_every_transaction(steps: list[tuple[int, req.Request, int]]) -> None:
    recorded = Recorded()
    for client, request, _ in steps:
        recorded.ask(client, request)
        recorded.digest.check()


@given(STEPS)
def test_a_log_alone_makes_the_tree(steps: list[tuple[int, req.Request, int]]) -> None:
    recorded = Recorded()
    recorded.go_on_with_snapshot(10_000)
    for client, request, _ in steps:
        recorded.ask(client, request)
    restoration = recorded.restored()
    assert restoration.mismatch_zxid is None
    assert contents(restoration.tree) == contents(recorded.server.tree)


@given(trees(), st.lists(RECORDS, max_size=8))
def test_no_log_makes_it_fail(tree: DataTree, records: list[txns.Record]) -> None:
    """Transactions that do not fit the tree, as behind a gap: passed over, or applied as far as they fit.

    A few, on which a real server fails, are refused by name.
    """
    snapshot = b"".join(encode_snapshot(tree, [(7, 1000)], lambda: (0, 0)))
    restored = []
    for is_lazy in (False, True):
        restoration = Restoration(is_lazy=is_lazy)
        assert restoration.load(SnapshotReader(Dripping(snapshot)), 1) is None
        for zxid, record in enumerate(records, 2):
            with suppress(UnbootableError):
                restoration.replay(LogEntry(txns.Transaction(7, 1, zxid, 1, record), None))
        digest = restoration.finish()
        restored.append((digest.value, contents(restoration.tree)))
        digest.check()
        assert restoration.zxid == len(records) + 1
    assert restored[0] == restored[1], "what sleeps is restored as what is awake"


@given(trees())
def test_digests_of_what_sleeps_are_those_of_nodes(tree: DataTree) -> None:
    snapshot = SnapshotReader(BytesIO(b"".join(encode_snapshot(tree, [], lambda: (0, 0)))))
    nodes = LazyNodes(snapshot.acls)
    for batch in snapshot.batches():
        assert nodes.add(batch) is None
        assert batch_digests(batch) == [node_digest(path, node) for path, node in tree.walk()]
        newest = max(max(node.czxid, node.mzxid, node.pzxid) for _, node in tree.walk())
        assert batch.newest_zxid() == newest
    assert TreeDigest(nodes.tree, nodes.digests, nodes.decoded()).value == TreeDigest(tree).value
    assert len(nodes.tree) == len(tree)
    nodes.tree.check()


def restored_from(*records: txns.Record) -> Restoration:
    restoration = Restoration()
    for zxid, record in enumerate(records, 1):
        restoration.replay(LogEntry(txns.Transaction(7, 1, zxid, zxid * 10, record), None))
    return restoration


def test_ephemerals_of_unknown_sessions_go() -> None:
    """A hand-written snapshot showed it on a real server (§9, 50)."""
    restoration = restored_from(txns.CreateTxn("/gone", b"", OPEN_ACL, True, 1))
    assert "/gone" in restoration.tree
    restoration.finish()
    assert "/gone" not in restoration.tree
    kept = restored_from(txns.CreateSessionTxn(1000), txns.CreateTxn("/kept", b"", OPEN_ACL, True, 1))
    kept.finish()
    assert "/kept" in kept.tree


@pytest.mark.parametrize("is_lazy", [False, True])
def test_ephemerals_with_children_end_with_their_session(is_lazy: bool) -> None:
    """A damaged or hand-made snapshot may make any node an ephemeral, even a special one."""
    made = DataTree()
    for path, owner in (("/zookeeper", 8), ("/a", 7), ("/a/b", 0), ("/a/b/c", 7)):
        made.plant(path, Znode(b"", OPEN_ACL, owner, 1, 1))
    snapshot = b"".join(encode_snapshot(made, [(7, 30_000)], lambda: (1, 0)))
    restoration = Restoration(is_lazy=is_lazy)
    assert restoration.load(SnapshotReader(BytesIO(snapshot)), 1) is None
    digest = restoration.finish()
    assert "/zookeeper" not in restoration.tree
    assert "/a/b/c" in restoration.tree

    server = Server(CONFIG, tree=restoration.tree, sessions=restoration.sessions.items(), zxid=restoration.zxid)

    def follow(transaction: txns.Transaction) -> None:
        digest.refresh(touched_paths(transaction.record))

    server.on_transaction.append(follow)
    assert server.expire(7, 1)
    assert [path for path, _ in server.tree.walk()] == ["/"]
    server.check()
    digest.check()


def test_old_logs_close_sessions_without_paths() -> None:
    session = txns.CreateSessionTxn(1000)
    restoration = restored_from(
        session, txns.CreateTxn("/e", b"", OPEN_ACL, True, 1), txns.CloseSessionTxn(()), txns.ErrorTxn(-101)
    )
    assert "/e" not in restoration.tree
    assert restoration.sessions == {}
    assert restoration.zxid == 4


def test_old_logs_do_not_know_the_parents_cversion() -> None:
    restoration = restored_from(
        txns.CreateTxn("/a", b"", OPEN_ACL, False, -1), txns.CreateTxn("/a/b", b"", OPEN_ACL, False, -1)
    )
    parent = restoration.tree.get("/a")
    assert parent is not None
    assert (parent.cversion, parent.pzxid) == (1, 2)


def test_paths_of_a_closed_session_may_lie_below_each_other() -> None:
    """Ephemerals do not; but behind a gap another node may be there. One that is deleted after its parent stays."""
    creates = [txns.CreateTxn(path, b"", OPEN_ACL, False, 1) for path in ("/a", "/a/b")]
    for paths, left in ((("/a", "/a/b"), {"/a/b"}), (("/a/b", "/a"), set())):
        restoration = restored_from(*creates, txns.CloseSessionTxn(paths))
        assert "/a" not in restoration.tree
        assert restoration.tree.orphans == left
        restoration.tree.check()


def test_an_orphan_that_a_sweep_would_remove_is_a_failed_write_each_time() -> None:
    """By source: PrepRequestProcessor, deleteContainer, looks for the parent."""
    restoration = restored_from(
        txns.CreateTxn("/a", b"", OPEN_ACL, False, 1),
        txns.CreateTTLTxn("/a/t", b"", OPEN_ACL, 1, 5),
        txns.DeleteTxn("/a"),
    )
    restoration.finish()
    config = CONFIG._replace(container_check_interval_ms=10)
    server = Server(config, now_ms=1000, tree=restoration.tree, zxid=restoration.zxid)
    made: list[txns.Record] = []
    server.on_transaction.append(lambda transaction: made.append(transaction.record))
    for now_ms in (1010, 1020):
        server.tick(now_ms)
    assert made == [txns.ErrorTxn(Code.NO_NODE)] * 2
    server.check()


def test_a_transaction_of_the_snapshot_is_not_replayed() -> None:
    restoration = Restoration()
    reader = SnapshotReader(BytesIO(b"".join(encode_snapshot(DataTree(), [], lambda: (5, 0)))))
    assert restoration.load(reader, 5) is None
    for zxid in (5, 6, 5):
        create = txns.CreateTxn(f"/a{len(restoration.tree)}", b"", OPEN_ACL, False, 1)
        restoration.replay(LogEntry(txns.Transaction(7, 1, zxid, 10, create), None))
    # Behind the first later one all are, as a real server does (tests/conformance/test_odd_directories.py).
    assert (len(restoration.tree), restoration.zxid) == (7, 6)


def test_a_digest_that_differs_is_noticed() -> None:
    restoration = Restoration()
    create = txns.Transaction(7, 1, 1, 10, txns.CreateTxn("/a", b"", OPEN_ACL, False, 1))
    restoration.replay(LogEntry(create, 1234))
    assert restoration.mismatch_zxid == 1


@pytest.mark.parametrize("digest_is_right", [True, False])
def test_the_digest_of_a_snapshot_is_compared(digest_is_right: bool) -> None:
    recorded = Recorded()
    recorded.ask(0, req.Create("/a", b"x", OPEN_ACL, 0))
    value = recorded.digest.value + (0 if digest_is_right else 1)
    zxid = recorded.server.zxid
    restoration = Restoration()
    snapshot = b"".join(encode_snapshot(recorded.server.tree, [], lambda: (zxid, value)))
    assert restoration.load(SnapshotReader(BytesIO(snapshot)), zxid) is None
    assert restoration.mismatch_zxid == (None if digest_is_right else zxid)


def test_a_fuzzy_snapshot_without_its_log_is_said() -> None:
    recorded = Recorded()
    recorded.go_on_with_snapshot(3)
    recorded.ask(0, req.Create("/a", b"x", OPEN_ACL, 0))
    recorded.go_on_with_snapshot(10_000)
    restoration = Restoration()
    assert restoration.load(SnapshotReader(BytesIO(bytes(recorded.snapshot))), recorded.snapshot_zxid) is None
    assert restoration.missing_until == recorded.server.zxid == 2
    assert restoration.zxid == 0


def test_quotas_hold_again() -> None:
    recorded = Recorded()
    for path, data in (
        ("/a", b""),
        ("/zookeeper/quota/a", b""),
        ("/zookeeper/quota/a/zookeeper_limits", b"count=5,bytes=-1"),
        ("/zookeeper/quota/a/zookeeper_stats", b"count=0,bytes=0"),
    ):
        recorded.ask(0, req.Create(path, data, OPEN_ACL, 0))
    recorded.go_on_with_snapshot(10_000)
    recorded.ask(0, req.Create("/a/b", b"xyz", OPEN_ACL, 0))
    stats = recorded.restored().tree.get("/zookeeper/quota/a/zookeeper_stats")
    assert stats is not None
    assert stats.data == b"count=2,bytes=3"
