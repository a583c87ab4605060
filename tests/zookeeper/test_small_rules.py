"""Rules easily broken that are not among the numbered assertions (docs/reference/zookeeper.md §2, §3)."""

from __future__ import annotations

import pytest

from simzk.zookeeper import requests as req
from simzk.zookeeper.acl import expand_acl, ip_is_valid, ip_matches, without_secrets
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import rules_of
from simzk.zookeeper.replies import Code, RefusedError, Reply, WatchedEvent
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.server import Server
from simzk.zookeeper.sessions import password_of
from tests.zookeeper.story import Story


def test_a_set_of_a_childs_data_leaves_the_parents_stat() -> None:
    client = Story().client()
    client.create("/a")
    client.create("/a/b")
    before = client.body(req.Exists("/a", False))
    client.body(req.SetData("/a/b", b"x", -1))
    client.body(req.SetACL("/a/b", OPEN_ACL, -1))
    assert client.body(req.Exists("/a", False)) == before


def test_a_standard_watch_is_used_up_by_its_event() -> None:
    client = Story().client()
    client.create("/a")
    client.body(req.GetData("/a", True))
    client.body(req.GetChildren("/a", True))
    for _ in range(2):
        client.body(req.SetData("/a", b"", -1))
        client.create("/a/n-", flags=2)
    assert client.events() == [("NODE_DATA_CHANGED", "/a"), ("NODE_CHILDREN_CHANGED", "/a")]


def test_a_conditional_change_needs_the_version_that_is_there() -> None:
    client = Story().client()
    client.create("/a")
    client.body(req.SetData("/a", b"1", 0))
    assert client.error(req.SetData("/a", b"2", 0)) == Code.BAD_VERSION
    assert client.error(req.SetData("/a", b"2", 2)) == Code.BAD_VERSION
    assert client.error(req.SetACL("/a", OPEN_ACL, 1)) == Code.BAD_VERSION
    data, stat = client.body(req.GetData("/a", False))
    assert (data, stat.version, stat.aversion) == (b"1", 1, 0)


def test_a_null_among_the_paths_of_set_watches_ends_it_half_way() -> None:
    client = Story().client()
    assert client.error(req.SetWatches(0, ("/none", None, "/never"), ("/",), ())) == Code.MARSHALLING_ERROR
    assert client.events() == [("NODE_DELETED", "/none")]
    assert client.body(req.SetWatches2(0, (), (), (), (None,), (None,))) is None


def test_a_session_asked_for_where_there_is_one_is_answered_by_what_it_is() -> None:
    story = Story()
    client = story.client()
    session = client.connection.session
    assert session is not None
    first = client.sent[0]
    story.server.handle(client.connection, 5, req.CreateSession(7_777), story.now_ms)
    story.flush()
    assert client.sent[-1] == first
    assert story.server.zxid == 2
    assert story.server.sessions.timeouts_ms() == [(session.session_id, 7_777)]
    # A request behind it, in the same millisecond too, gives the session the connection's timeout again.
    story.server.handle(client.connection, 6, req.Ping(), story.now_ms)
    story.flush()
    expiry_ms = story.server.sessions.next_expiry_ms()
    assert expiry_ms is not None
    assert expiry_ms > story.now_ms + client.connection.timeout_ms
    story.server.check()


def test_a_session_that_is_attached_again_has_its_new_timeout_at_once() -> None:
    """Expire it by the timeout of its last connection, also without a message (SessionTrackerImpl.touchSession)."""
    for first_ms, later_ms in ((6_000, 20_000), (20_000, 6_000)):
        server = Server()
        session_id = server.connect(req.ConnectRequest(0, 0, first_ms, 0, None, False), 0).session_id
        again = req.ConnectRequest(0, 0, later_ms, session_id, password_of(session_id), False)
        server.disconnect(server.connect(again, 0))
        (expires_ms,) = [session.expiry_ms for session in server.sessions]
        assert later_ms < expires_ms <= later_ms + server.config.tick_time_ms


@pytest.mark.parametrize(("release", "answer"), [("3.8.4", None), ("3.8.6", Code.UNIMPLEMENTED), ("3.4.14", None)])
def test_a_check_outside_a_multi_is_a_transaction_in_old_releases(release: str, answer: Code | None) -> None:
    server = Server(ServerConfig(version=release))
    connection = server.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), now_ms=0)
    server.take_output()
    zxid = server.zxid
    if answer is None:
        server.handle(connection, 1, req.Check("/", 7), now_ms=0)
        assert [[sent[-1][:3] for _, sent in server.take_output()]] == [[(1, zxid + 1, Code.BAD_VERSION)]]
        server.handle(connection, 2, req.Check("/", -1), now_ms=0)
        assert (server.take_output(), server.zxid) == ([], zxid + 2)
    else:
        server.handle(connection, 1, req.Check("/", -1), now_ms=0)
        assert [type(sent[0]) for _, sent in server.take_output()] == [Reply]
        assert (connection.closed, server.zxid) == (True, zxid)


def test_a_reply_that_is_sent_at_once_is_in_no_outbox() -> None:
    story = Story()
    client, other = story.client(), story.client()
    server = story.server
    reply = server.handle(client.connection, 1, req.Create("/a", b"", OPEN_ACL, 0), 0, at_once=True)
    assert reply == Reply(1, server.zxid, 0, "/a")
    assert server.take_output() == []
    refused = server.handle(client.connection, 2, req.Delete("/none", -1), 0, at_once=True)
    assert refused == Reply(2, server.zxid, Code.NO_NODE, None)
    assert server.take_output() == []
    # If a watch event has to be sent, all messages go through the output queue.
    other.body(req.GetData("/a", True))
    assert server.handle(client.connection, 3, req.Delete("/a", -1), 0, at_once=True) is None
    reported = dict(server.take_output())
    assert [event.path for event in reported[other.connection] if isinstance(event, WatchedEvent)] == ["/a"]
    assert reported[client.connection] == [Reply(3, server.zxid, 0, None)]


def test_an_event_of_ones_own_comes_before_the_reply_though_that_could_be_sent_at_once() -> None:
    client = Story().client()
    client.create("/a")
    client.body(req.GetData("/a", True))
    server = client._story.server
    assert server.handle(client.connection, 9, req.SetData("/a", b"", -1), 9, at_once=True) is None
    ((_, (event, reply)),) = server.take_output()
    assert isinstance(event, WatchedEvent)
    assert isinstance(reply, Reply)


@pytest.mark.parametrize(
    ("digest", "shown"),
    [
        ("u:a\nb", "u:x\nb"),
        ("u:a\r\nb", "u:x\r\nb"),
        ("u:a\x85b", "u:x\x85b"),
        ("u:\u2028", "u:x\u2028"),
        ("u:a\x0bb", "u:x"),
    ],
)
def test_a_digest_is_hidden_until_the_end_of_its_line(digest: str, shown: str) -> None:
    # As seen on 3.9.5 (tests/conformance/test_odd_texts.py); the lines are those of java.util.regex.
    assert without_secrets((ACL(1, Id("digest", digest)),)) == (ACL(1, Id("digest", shown)),)


def test_addresses_may_have_digits_of_any_script() -> None:
    # As seen on 3.9.5 (tests/conformance/test_odd_texts.py): Integer.parseInt reads them.
    assert all(map(ip_is_valid, ("\u0661.2.3.4", "1.2.3.4/\u0663", "::\uff21", "\u0661::", "::-1")))
    assert not any(map(ip_is_valid, ("1.2.3.\U0001d7d8", "1.2.3.\u00b2", "::\u2160", "::+", "::00001")))
    assert ip_matches("127.0.0.1", "\uff11\uff12\uff17.0.0.0/\u0668")


@pytest.mark.parametrize(
    ("release", "accepted"),
    [
        ("3.9.5", ["1.2.3.4", "1.2.3.4/8", "::1"]),
        ("3.9.4", ["1.2.3.4", "1.2.3.4/8", "::1"]),
        ("3.9.3", ["1.2.3.4", "1.2.3.4/8"]),
        ("3.5.0", ["1.2.3.4", "1.2.3.4/8"]),
        ("3.4.14", ["1.2.3.4"]),
    ],
)
def test_a_release_knows_its_forms_of_addresses(release: str, accepted: list[str]) -> None:
    def is_accepted(address: str) -> bool:
        try:
            expand_acl((ACL(31, Id("ip", address)),), (), frozenset({"ip"}), rules_of(release))
        except RefusedError:
            return False
        return True

    assert [address for address in ("1.2.3.4", "1.2.3.4/8", "::1") if is_accepted(address)] == accepted


SWEPT = ("/AaAaAa", "/C#BBC#", "/C#yBB", "/yAay", "/BBxx", "/yC#y", "/xyC#", "/AaAaC#", "/xC#x")


def test_one_sweep_removes_containers_and_ttl_nodes_in_the_order_of_a_hash_set() -> None:
    story = Story(ServerConfig(extended_types=True, container_check_interval_ms=1000))
    client = story.client(timeout_ms=40_000)
    client.body(req.AddWatch("/", 1))
    for number, path in enumerate(SWEPT):
        if number % 3 == 0:
            client.body(req.CreateTTL(path, b"", OPEN_ACL, 5, 1))
        else:
            client.body(req.CreateContainer(path, b"", OPEN_ACL, 4))
            client.create(f"{path}/c")
    for number, path in enumerate(SWEPT):
        if number % 3:
            client.body(req.Delete(f"{path}/c", -1))
    client.events()
    story.tick_to(2000)
    # As a real 3.9.5 did (test_sweep_order).
    removed = ["/yC#y", "/yAay", "/xC#x", "/C#BBC#", "/BBxx", "/AaAaC#", "/AaAaAa", "/xyC#", "/C#yBB"]
    assert client.events() == [("NODE_DELETED", path) for path in removed]


@pytest.mark.parametrize(
    ("config", "deleted"),
    [
        (ServerConfig(), ["/one", "/three", "/two", "/four", "/five"]),
        (ServerConfig(names_ephemerals=False), ["/one", "/four", "/five", "/three", "/two"]),
        (ServerConfig(version="3.5"), ["/one", "/four", "/five", "/three", "/two"]),
    ],
)
def test_a_closing_session_deletes_in_the_order_of_a_copy_or_of_the_set_itself(
    config: ServerConfig, deleted: list[str]
) -> None:
    story = Story(config)
    watcher, client = story.client(), story.client()
    for path in ("/one", "/two", "/three", "/four", "/five"):
        client.create(path, flags=1)
        watcher.body(req.Exists(path, True))
    client.ask(req.CloseSession())
    # As real releases did (test_closing_order).
    assert [path for _, path in watcher.events()] == deleted


def test_sequence_numbers_wrap_in_a_multi_and_stick_after_it() -> None:
    # As seen on 3.9.5, from a snapshot with such a parent.
    story = Story()
    client = story.client()
    client.create("/s")
    parent = story.server.tree.find("/s")
    assert parent is not None
    parent.cversion = 2**31 - 2
    create = req.Create("/s/n-", b"", OPEN_ACL, 2)
    results = client.body(req.Multi((create, create, create, create)))
    names = ["2147483646", "2147483647", "-2147483648", "-2147483647"]
    assert [result.body for result in results] == [f"/s/n-{name}" for name in names]
    assert client.error(create) == Code.NODE_EXISTS
    assert parent.cversion == 2**31 - 1


def test_a_limit_of_more_digits_than_python_reads_is_no_limit() -> None:
    client = Story(ServerConfig(enforce_quota=True)).client()
    for path in ("/q", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_stats"):
        client.create(path)
    client.create("/zookeeper/quota/q/zookeeper_limits", b"count=" + b"9" * 5000)
    assert client.error(req.Create("/q/a", b"", OPEN_ACL, 0)) == Code.MARSHALLING_ERROR


def test_of_nested_quotas_the_deepest_counts() -> None:
    """Change only its totals (DataTree.updateQuotaStat, PathTrie.findMaxPrefix)."""
    client = Story().client()
    for path in ("/a", "/a/b", "/zookeeper/quota/a", "/zookeeper/quota/a/b"):
        client.create(path)
    for path in ("/zookeeper/quota/a", "/zookeeper/quota/a/b"):
        client.body(req.Create(f"{path}/zookeeper_limits", b"count=9,bytes=-1", OPEN_ACL, 0))
        client.body(req.Create(f"{path}/zookeeper_stats", b"count=0,bytes=0", OPEN_ACL, 0))
    client.body(req.Create("/a/b/c", b"123", OPEN_ACL, 0))
    client.body(req.Create("/a/d", b"1", OPEN_ACL, 0))
    found = [client.body(req.GetData(f"/zookeeper/quota/{path}/zookeeper_stats", False))[0] for path in ("a", "a/b")]
    assert found == [b"count=3,bytes=1", b"count=2,bytes=3"]
