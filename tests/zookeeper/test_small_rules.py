"""Rules easily broken that are not among the numbered assertions (docs/reference/zookeeper.md §2, §3)."""

from __future__ import annotations

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code, Reply, WatchedEvent
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
    # Where somebody is to be told of the change, all that there is to send goes one way.
    other.body(req.GetData("/a", True))
    assert server.handle(client.connection, 3, req.Delete("/a", -1), 0, at_once=True) is None
    told = dict(server.take_output())
    assert [event.path for event in told[other.connection] if isinstance(event, WatchedEvent)] == ["/a"]
    assert told[client.connection] == [Reply(3, server.zxid, 0, None)]


def test_an_event_of_ones_own_comes_before_the_reply_though_that_could_be_sent_at_once() -> None:
    client = Story().client()
    client.create("/a")
    client.body(req.GetData("/a", True))
    server = client._story.server
    assert server.handle(client.connection, 9, req.SetData("/a", b"", -1), 9, at_once=True) is None
    ((_, (event, reply)),) = server.take_output()
    assert isinstance(event, WatchedEvent)
    assert isinstance(reply, Reply)
