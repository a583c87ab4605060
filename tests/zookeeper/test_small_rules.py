"""Rules easily broken that are not among the numbered assertions (docs/reference/zookeeper.md §2, §3)."""

from __future__ import annotations

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import OPEN_ACL
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
    story.server.check()
