"""Assertions verified on a real ZooKeeper 3.9.5 (docs/reference/zookeeper.md §9), checked against simzk's server.

The number in a test's name is that of the assertion; assertions about TCP, files and ensembles are tested elsewhere.
"""

from __future__ import annotations

import pytest

from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import ClientInfo, Code, OperationResult, Reply, Stat, WatchedEvent
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.sessions import password_of
from tests.zookeeper.story import Client, Story

ANYONE_READS = (ACL(1, Id("world", "anyone")),)


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def client(story: Story) -> Client:
    return story.client()


def stat(client: Client, path: str) -> Stat:
    found = client.body(req.Exists(path, False))
    assert isinstance(found, Stat)
    return found


def test_1_fresh_tree(story: Story, client: Client) -> None:
    assert stat(client, "/")[:2] == (0, 0)
    assert (stat(client, "/").cversion, stat(client, "/").num_children) == (-1, 1)
    assert stat(client, "/zookeeper").cversion == -2
    assert stat(client, "/zookeeper/config").aversion == -1
    assert client.body(req.GetACL("/zookeeper/config"))[0] == ANYONE_READS
    assert len(story.server.tree) == 5


def test_2_cversion_and_pzxid_count_births_and_deaths(client: Client) -> None:
    client.create("/a")
    client.create("/a/b")
    deleted = client.ask(req.Delete("/a/b", -1))
    assert stat(client, "/a").cversion == 2
    assert stat(client, "/a").pzxid == deleted.zxid


def test_3_null_and_empty_data_differ(client: Client) -> None:
    client.create("/a")
    for data in (None, b""):
        client.body(req.SetData("/a", data, -1))
        read, found = client.body(req.GetData("/a", False))
        assert (read, found.data_length) == (data, 0)


def test_4_set_acl_moves_aversion_only(client: Client) -> None:
    client.create("/a")
    before = stat(client, "/a")
    assert client.body(req.SetACL("/a", OPEN_ACL, 0)) == before._replace(aversion=1)


@pytest.mark.parametrize(
    ("request_", "taken"),
    [
        (req.Create("/", b"", OPEN_ACL, 0), 1),
        (req.Delete("/none", -1), 1),
        (req.SetData("/none", b"", -1), 1),
        (req.Multi((req.Delete("/none", -1),)), 1),
        (req.Multi(()), 1),
        (req.Multi((req.Check("/", -1),)), 1),
        (req.GetData("/none", False), 0),
        (req.Sync("/"), 0),
        (req.Undecodable(5, takes_zxid=False), 0),
        (req.Undecodable(14, takes_zxid=True), 1),
    ],
)
def test_5_6_which_requests_take_a_zxid(story: Story, client: Client, request_: req.Request, taken: int) -> None:
    before = story.server.zxid
    assert client.ask(request_).zxid == before + taken == story.server.zxid


def test_7_a_failed_multi_tells_each_operation(client: Client) -> None:
    create = req.Create("/a", b"", OPEN_ACL, 0)
    reply = client.ask(req.Multi((create, req.Create("/zookeeper", b"", OPEN_ACL, 0), create)))
    assert reply.error == 0
    assert reply.body == [OperationResult(error, None) for error in (0, Code.NODE_EXISTS, Code.RUNTIME_INCONSISTENCY)]
    assert client.error(req.Exists("/a", False)) == Code.NO_NODE


@pytest.mark.parametrize("path", ["foo", None])
def test_8_sync_echoes_anything(client: Client, path: str | None) -> None:
    assert client.body(req.Sync(path)) == path


def test_9_10_sequence_numbers_count_creations(client: Client) -> None:
    client.create("/s")
    assert client.create("/s/n-", flags=2) == "/s/n-0000000000"
    assert client.create("/s/n-", flags=2) == "/s/n-0000000001"
    client.create("/s/plain")
    assert client.create("/s/n-", flags=2) == "/s/n-0000000003"
    client.body(req.Delete("/s/n-0000000003", -1))
    assert client.error(req.Create("/s/plain", b"", OPEN_ACL, 0)) == Code.NODE_EXISTS
    assert client.create("/s/n-", flags=2) == "/s/n-0000000004"
    assert client.create("/s/", flags=2) == "/s/0000000005"
    assert client.error(req.Create("/s/", b"", OPEN_ACL, 0)) == Code.BAD_ARGUMENTS


def test_11_12_operations_of_a_multi_see_each_other(client: Client) -> None:
    client.create("/s")
    sequential = req.Create("/s/n-", b"", OPEN_ACL, 2)
    assert [done.body for done in client.body(req.Multi((sequential, sequential)))] == [
        "/s/n-0000000000",
        "/s/n-0000000001",
    ]
    done = client.body(req.Multi((req.SetData("/s", b"1", 0), req.SetData("/s", b"2", 1))))
    assert [result.body.version for result in done] == [1, 2]
    assert done[0].body.mzxid == done[1].body.mzxid
    # A node may go and come in one multi.
    client.body(req.Multi((req.Delete("/s/n-0000000000", 0), req.Create("/s/n-0000000000", b"", OPEN_ACL, 0))))


def test_13_19_what_no_client_may_send_ends_the_connection(story: Story) -> None:
    for request in (req.Check("/", 0), req.Unimplemented(99)):
        client = story.client()
        assert client.ask(request)[1:3] == (-1, Code.UNIMPLEMENTED)
        assert client.was_closed


def test_14_an_old_client_gets_no_read_only_byte(story: Story) -> None:
    assert story.client(read_only=None).response.read_only is None


@pytest.mark.parametrize(("asked_ms", "granted_ms"), [(0, 1000), (-5, 1000), (1, 1000), (2**31 - 1, 10_000)])
def test_15_timeouts_are_clamped(story: Story, asked_ms: int, granted_ms: int) -> None:
    assert story.client(asked_ms).response.timeout_ms == granted_ms


def test_18_who_has_seen_the_future_is_closed_without_a_word(story: Story) -> None:
    client = story.client(last_zxid_seen=story.server.zxid + 1)
    assert client.was_closed
    assert len(client.sent) == 1


def test_20_21_xids_and_zxids_of_ping_and_auth(story: Story, client: Client) -> None:
    assert client.ask(req.Ping())[:2] == (-2, story.server.zxid)
    assert client.ask(req.Auth(0, "digest", b"a:b")).zxid == 0


@pytest.mark.parametrize(("enabled", "error"), [(False, Code.RECONFIG_DISABLED), (True, Code.UNIMPLEMENTED)])
def test_22_reconfig_of_a_standalone_server(enabled: bool, error: Code) -> None:
    client = Story(ServerConfig(reconfig_enabled=enabled)).client()
    assert client.error(req.Reconfig(None, "1", None, -1)) == error
    assert not client.was_closed


def test_23_a_session_taken_up_leaves_its_old_connection(story: Story, client: Client) -> None:
    again = story.resume(client)
    assert client.was_closed
    assert again.response.session_id == client.connection.session_id
    assert again.error(req.Exists("/", False)) == 0


def test_24_a_wrong_password_costs_the_good_connection(story: Story, client: Client) -> None:
    thief = story.resume(client, password=bytes(16))
    assert thief.response[:4] == (0, 0, 0, bytes(16))
    assert thief.was_closed
    assert client.was_closed
    assert story.resume(client).response.session_id


def test_25_26_a_closed_session_is_gone_after_its_own_events(story: Story, client: Client) -> None:
    client.create("/e", flags=1)
    client.body(req.Exists("/e", True))
    client.sent.clear()
    client.ask(req.CloseSession())
    event, reply, _ = client.sent
    assert isinstance(event, WatchedEvent)
    assert isinstance(reply, Reply)
    assert client.was_closed
    assert story.resume(client).response.session_id == 0


@pytest.mark.parametrize(
    ("timeout_ms", "expiry_ms"), [(1000, 1500), (1200, 1500), (1500, 2000), (1999, 2500), (2000, 2500)]
)
def test_27_expiry_is_on_a_tick_after_the_timeout(story: Story, timeout_ms: int, expiry_ms: int) -> None:
    client = story.client(timeout_ms)
    client.create("/e", flags=1)
    client.body(req.Exists("/e", True))
    assert story.now_ms < 10
    story.tick_to(expiry_ms - 1)
    assert not client.was_closed
    client.sent.clear()
    story.tick_to(expiry_ms)
    assert [type(said).__name__ for said in client.sent] == ["WatchedEvent", "Closed"]
    assert story.server.tree.get("/e") is None


def test_28_exists_watches_what_is_missing(client: Client) -> None:
    assert client.error(req.Exists("/a", True)) == Code.NO_NODE
    client.create("/a")
    assert client.events() == [("NODE_CREATED", "/a")]


def test_29_one_event_for_a_change(client: Client) -> None:
    client.create("/a")
    client.body(req.GetData("/a", True))
    client.body(req.Exists("/a", True))
    client.body(req.SetData("/a", b"", -1))
    assert client.events() == [("NODE_DATA_CHANGED", "/a")]
    client.body(req.GetData("/a", True))
    client.body(req.GetChildren("/a", True))
    client.body(req.Delete("/a", -1))
    assert client.events() == [("NODE_DELETED", "/a")]


def test_30_what_fires_nothing(client: Client) -> None:
    client.create("/a")
    client.create("/a/b")
    client.body(req.GetData("/a", True))
    client.body(req.GetChildren("/a", True))
    client.body(req.SetACL("/a", OPEN_ACL, -1))
    client.body(req.SetData("/a/b", b"", -1))
    assert client.events() == []


def test_31_a_recursive_watch_hears_no_children_changed(client: Client) -> None:
    client.create("/a")
    client.body(req.AddWatch("/a", 1))
    client.create("/a/b")
    client.body(req.SetData("/a/b", b"", -1))
    client.body(req.Delete("/a/b", -1))
    assert client.events() == [("NODE_CREATED", "/a/b"), ("NODE_DATA_CHANGED", "/a/b"), ("NODE_DELETED", "/a/b")]


def test_32_an_event_comes_before_the_reply_that_caused_it(client: Client) -> None:
    client.create("/a")
    client.body(req.GetData("/a", True))
    client.sent.clear()
    client.ask(req.SetData("/a", b"", -1))
    assert [type(said).__name__ for said in client.sent] == ["WatchedEvent", "Reply"]


def test_33_34_persistent_watches(client: Client) -> None:
    assert client.error(req.AddWatch("/a", 2)) == Code.MARSHALLING_ERROR
    for path in ("foo", ""):
        assert client.body(req.AddWatch(path, 0)) == 0
    client.body(req.AddWatch("/a", 0))
    for _ in range(2):
        client.create("/a")
        client.body(req.Delete("/a", -1))
    assert client.events() == [("NODE_CREATED", "/a"), ("NODE_DELETED", "/a")] * 2
    assert client.error(req.RemoveWatches("/a", 2)) == Code.NO_WATCHER
    assert client.error(req.CheckWatches("/a", 4)) == 0
    assert client.error(req.RemoveWatches("/a", 4)) == 0
    client.body(req.AddWatch("/a", 0))
    client.body(req.AddWatch("/a", 1))
    assert client.error(req.RemoveWatches("/a", 3)) == 0
    assert client.error(req.CheckWatches("/a", 3)) == Code.NO_WATCHER


def test_35_set_watches_tells_what_was_missed(client: Client) -> None:
    client.create("/a")
    since = client.ask(req.Ping()).zxid
    client.body(req.SetData("/a", b"", -1))
    client.sent.clear()
    client.ask(req.SetWatches(since, ("/a", "/gone"), ("/a", "/none"), ("/a",)))
    said = [(event.type.name, event.path, event.zxid) for event in client.sent if isinstance(event, WatchedEvent)]  # type: ignore[attr-defined]
    assert said == [("NODE_DATA_CHANGED", "/a", -1), ("NODE_DELETED", "/gone", -1), ("NODE_CREATED", "/a", -1)]
    assert isinstance(client.sent[-1], Reply)
    client.events()
    client.create("/a/b")
    client.create("/none")
    assert client.events() == [("NODE_CHILDREN_CHANGED", "/a"), ("NODE_CREATED", "/none")]
    client.body(req.SetWatches2(0, (), (), (), ("/a",), ("/a",)))
    assert client.events() == []


def test_36_who_may_not_read_is_not_told_but_has_watched(story: Story, client: Client) -> None:
    client.create("/a")
    client.body(req.GetData("/a", True))
    owner = story.client()
    owner.body(req.Auth(0, "digest", b"o:o"))
    owner.body(req.SetACL("/a", (ACL(31, Id("auth", "")),), -1))
    owner.body(req.SetData("/a", b"", -1))
    assert client.events() == []
    owner.body(req.SetACL("/a", OPEN_ACL, -1))
    owner.body(req.SetData("/a", b"", -1))
    assert client.events() == []


def test_37_precedence_of_errors(story: Story, client: Client) -> None:
    assert client.error(req.Create("/none/x/", b"", None, 0)) == Code.INVALID_ACL
    assert client.error(req.Create("/none/x/", b"", OPEN_ACL, 0)) == Code.NO_NODE
    client.body(req.Create("/closed", b"", ANYONE_READS, 0))
    client.create("/open")
    client.create("/open/child")
    assert client.error(req.Delete("/closed/none", 5)) == Code.NO_AUTH
    assert client.error(req.SetData("/closed", b"", 5)) == Code.NO_AUTH
    assert client.error(req.Delete("/open", 5)) == Code.BAD_VERSION
    assert client.error(req.Delete("/open", 0)) == Code.NOT_EMPTY
    client.create("/e", flags=1)
    assert client.error(req.Create("/e/", b"", OPEN_ACL, 0)) == Code.BAD_ARGUMENTS
    assert client.error(req.Create("/e/x", b"", OPEN_ACL, 0)) == Code.NO_CHILDREN_FOR_EPHEMERALS


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/\U0001f600", -8),
        ("/\xa0", 0),
        ("/...", 0),
        ("/.a", 0),
        ("/.", -8),
        ("/a\x00", -8),
        ("/\ufeff", 0),
        ("//x", -8),
    ],
)
def test_38_which_paths_may_be_created(client: Client, path: str, error: int) -> None:
    assert client.error(req.Create(path, b"", OPEN_ACL, 0)) == error


def test_39_62_the_empty_path_is_the_root_but_for_watches(client: Client) -> None:
    assert client.error(req.Exists("", False)) == 0
    assert client.error(req.GetData("", False)) == 0
    assert client.body(req.GetChildren("", True)) == ["zookeeper"]
    client.create("/a")
    assert client.events() == []


def test_40_what_stands_from_the_start_stays(client: Client) -> None:
    for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
        assert client.error(req.Delete(path, -1)) == Code.BAD_ARGUMENTS
    assert client.error(req.Create("/", b"", OPEN_ACL, 0)) == Code.NODE_EXISTS


def test_41_42_secrets_of_an_acl(story: Story, client: Client) -> None:
    secret = ACL(31, Id("digest", "u:hash"))
    client.body(req.Create("/r", b"", (secret, *ANYONE_READS), 0))
    client.body(req.Create("/adm", b"", (secret, ACL(16, Id("world", "anyone"))), 0))
    client.body(req.Create("/shut", b"", (secret,), 0))
    assert client.body(req.GetACL("/r"))[0][0].id.id == "u:x"
    assert client.body(req.GetACL("/adm"))[0][0].id.id == "u:hash"
    for request in (req.GetACL("/shut"), req.Exists("/shut", False), req.GetChildren("/shut", False)):
        assert client.error(request) == Code.NO_AUTH
    assert client.error(req.Sync("/shut")) == 0


def test_43_auth(story: Story) -> None:
    client = story.client()
    assert client.error(req.Auth(0, "digest", b"abc")) == 0
    assert client.body(req.WhoAmI()) == [ClientInfo("ip", "127.0.0.1"), ClientInfo("digest", "abc")]
    for scheme, credentials in (("digest", None), ("nosuch", b"")):
        client = story.client()
        assert client.ask(req.Auth(0, scheme, credentials))[1:3] == (0, Code.AUTH_FAILED)
        assert client.was_closed


def test_44_super_may_do_everything(client: Client) -> None:
    client.body(req.Create("/shut", b"", (ACL(31, Id("digest", "u:hash")),), 0))
    client.body(req.Auth(0, "digest", b"super:test"))
    assert client.error(req.SetData("/shut", b"", -1)) == 0
    assert [who.scheme for who in client.body(req.WhoAmI())] == ["super", "ip", "digest"]


def test_45_47_containers(story: Story, client: Client) -> None:
    client.create("/plain", flags=4)
    client.body(req.CreateContainer("/c", b"", OPEN_ACL, 0))
    client.body(req.CreateContainer("/unused", b"", OPEN_ACL, 4))
    for path in ("/plain", "/c"):
        client.create(f"{path}/child")
        client.body(req.Delete(f"{path}/child", -1))
    client.connection.attended = True
    story.tick_to(60_000)
    assert client.error(req.Exists("/c", False)) == Code.NO_NODE
    assert client.error(req.Exists("/plain", False)) == 0
    assert client.error(req.Exists("/unused", False)) == 0
    assert client.error(req.DeleteContainer("/unused")) == 0
    client.create("/e", flags=1)
    assert client.error(req.DeleteContainer("/e")) == Code.BAD_VERSION


def test_46_ttl(story: Story, client: Client) -> None:
    for ttl_ms, error in ((0, -8), (-1, -8), (2**40, -8), (2**40 - 1, 0)):
        assert client.error(req.CreateTTL(f"/t{ttl_ms}", b"", OPEN_ACL, 5, ttl_ms)) == error
    path, made = client.body(req.CreateTTL("/short", b"", OPEN_ACL, 5, 100))
    assert (path, made.ephemeral_owner) == ("/short", 0)
    client.create("/short/child")
    client.connection.attended = True
    story.tick_to(60_000)
    assert client.error(req.Exists("/short", False)) == 0
    client.body(req.Delete("/short/child", -1))
    story.tick_to(120_000)
    assert client.error(req.Exists("/short", False)) == Code.NO_NODE


def test_49_numbers_wrap_as_they_do(story: Story, client: Client) -> None:
    client.create("/s")
    node = story.server.tree.get("/s")
    assert node is not None
    node.cversion = node.version = 2**31 - 1
    assert client.body(req.SetData("/s", b"", -1)).version == -(2**31)
    assert client.create("/s/n-", flags=2) == "/s/n-2147483647"
    assert client.error(req.Create("/s/n-", b"", OPEN_ACL, 2)) == Code.NODE_EXISTS
    client.create("/s/plain")
    client.body(req.Delete("/s/n-2147483647", -1))
    sequential = req.Create("/s/n-", b"", OPEN_ACL, 2)
    made = [done.body for done in client.body(req.Multi((sequential, sequential)))]
    assert made == ["/s/n-2147483647", "/s/n--2147483648"]


def test_52_quotas() -> None:
    story = Story(ServerConfig(enforce_quota=True))
    client = story.client()
    client.create("/q")
    for path in ("/zookeeper/quota/q",):
        client.create(path)
    client.create("/zookeeper/quota/q/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=2")
    client.create("/zookeeper/quota/q/zookeeper_stats")
    before = stat(client, "/zookeeper/quota/q/zookeeper_stats")
    client.create("/q/a", b"1234")
    data, after = client.body(req.GetData("/zookeeper/quota/q/zookeeper_stats", False))
    assert data == b"count=2,bytes=4"
    assert after == before._replace(data_length=len(data))
    assert client.error(req.Create("/q/b", b"", OPEN_ACL, 0)) == Code.QUOTA_EXCEEDED
    assert client.error(req.Create("/q/a", b"", OPEN_ACL, 0)) == Code.NODE_EXISTS
    assert client.error(req.SetData("/q/a", b"123456", 7)) == Code.QUOTA_EXCEEDED
    assert client.error(req.SetData("/q/a", b"12345", 0)) == 0


def test_54_a_session_ends_in_one_transaction(story: Story, client: Client) -> None:
    client.create("/p")
    for name in "zyxw":
        client.create(f"/p/{name}", flags=1)
    order = client.body(req.GetEphemerals(None))
    watcher = story.client()
    watcher.body(req.AddWatch("/p", 1))
    before = story.server.zxid
    cversion = stat(watcher, "/p").cversion
    client.ask(req.CloseSession())
    assert story.server.zxid == before + 1
    assert [path for _, path in watcher.events()] == order
    assert stat(watcher, "/p").cversion == cversion + 4


def test_55_only_exists_watches_what_is_missing(client: Client) -> None:
    for request in (req.GetData("/a", True), req.GetChildren("/a", True)):
        assert client.error(request) == Code.NO_NODE
    client.create("/a")
    assert client.events() == []


def test_60_ttl_needs_extended_types() -> None:
    client = Story(ServerConfig()).client()
    assert client.error(req.CreateTTL("bad", b"", None, 5, 1)) == Code.UNIMPLEMENTED
    assert client.error(req.CreateContainer("/c", b"", OPEN_ACL, 4)) == 0


def test_61_colliding_names_list_as_they_came(client: Client) -> None:
    client.create("/p")
    for name in ("BB", "Aa"):
        client.create(f"/p/{name}")
    assert client.body(req.GetChildren("/p", False)) == ["BB", "Aa"]


def test_63_ip_acls_keep_their_order_and_look_at_the_address(story: Story) -> None:
    near, far = story.client(address="10.0.0.7"), story.client(address="11.0.0.7")
    acl = (ACL(31, Id("ip", "10.0.0.0/8")), ACL(4, Id("world", "anyone")))
    near.body(req.Create("/ip", b"", acl, 0))
    assert near.body(req.GetACL("/ip"))[0] == acl
    assert far.error(req.GetData("/ip", False)) == Code.NO_AUTH


def test_64_what_comes_behind_close_session_is_lost(story: Story, client: Client) -> None:
    client.ask(req.CloseSession())
    story.server.handle(client.connection, 99, req.Create("/late", b"", OPEN_ACL, 0), story.now_ms)
    assert story.server.tree.get("/late") is None


def test_passwords_belong_to_sessions(story: Story, client: Client) -> None:
    # A pair seen on a real server (java.util.Random of the id and 0xB3415C00).
    assert password_of(72057761777385472).hex() == "69351ed242453ab2ef94e1f95b6cd134"
    assert client.response.password == password_of(client.connection.session_id)


def test_restart_gives_every_session_its_whole_timeout(story: Story, client: Client) -> None:
    client.create("/e", flags=1)
    story.now_ms = 5_000
    story.server.restart(story.now_ms)
    story.flush()
    assert client.was_closed
    story.tick_to(15_000)
    assert story.server.tree.get("/e") is not None
    story.tick_to(15_500)
    assert story.server.tree.get("/e") is None


def test_an_attended_session_is_touched_instead_of_expired(story: Story, client: Client) -> None:
    client.connection.attended = True
    story.tick_to(60_000)
    assert client.error(req.Exists("/", False)) == 0
    client.connection.attended = False
    story.tick_to(story.now_ms + 10_500)
    assert client.was_closed
    assert story.server.expire(client.connection.session_id, story.now_ms) is False
