"""Sessions beside ExpiryQueue, and totals of quotas beside a count of all nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.quotas import Quotas, UnreadableError, read_totals
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.sessions import SessionTracker
from simzk.zookeeper.znode import Znode
from tests.zookeeper.story import Story

TICK_MS = 10
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "touch", "touch", "change", "remove", "wait", "wait"]),
        st.integers(0, 3),
        st.integers(0, 45),
    ),
    max_size=30,
)


class ExpiryQueue:
    """ExpiryQueue: sets by time, which stay empty until their time has come, and the time of each session."""

    def __init__(self, origin_ms: int) -> None:
        self.origin_ms = origin_ms
        self.time_of: dict[int, int] = {}
        self.sets: dict[int, dict[int, None]] = {}

    def update(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        at_ms = ((now_ms - self.origin_ms + timeout_ms) // TICK_MS + 1) * TICK_MS + self.origin_ms
        if self.time_of.get(session_id) != at_ms:
            self.sets.setdefault(at_ms, {})[session_id] = None
            self.remove(session_id)
            self.time_of[session_id] = at_ms

    def remove(self, session_id: int) -> None:
        at_ms = self.time_of.pop(session_id, None)
        if at_ms is not None:
            self.sets[at_ms].pop(session_id)

    def poll(self, now_ms: int) -> list[int]:
        due = [at_ms for at_ms in sorted(self.sets) if at_ms <= now_ms]
        return [session_id for at_ms in due for session_id in self.sets.pop(at_ms)]


@given(st.integers(0, 7), STEPS)
def test_sessions_expire_as_in_the_real_queue(origin_ms: int, steps: list[tuple[str, int, int]]) -> None:
    """SessionTrackerImpl.trackSession, touchSession, removeSession and run; the sets are those that `dump` shows."""
    tracker, queue = SessionTracker(TICK_MS, 1, origin_ms), ExpiryQueue(origin_ms)
    timeouts: dict[int, int] = {}
    now_ms = origin_ms
    last_id = 0
    for kind, which, amount in steps:
        live = list(timeouts)
        session_id = live[which % len(live)] if live else 0
        if kind == "add":
            last_id += 1
            assert tracker.new_id() == last_id
            tracker.add(last_id, amount, now_ms)
            timeouts[last_id] = amount
            queue.update(last_id, now_ms, amount)
        elif kind == "wait":
            now_ms += amount
            due = tracker.due(now_ms)
            assert [session.session_id for session in due] == queue.poll(now_ms)
            for session in due:
                tracker.remove(session.session_id)
                queue.time_of.pop(session.session_id)
                del timeouts[session.session_id]
        elif not live:
            continue
        elif kind == "touch":
            touched = tracker.get(session_id)
            assert touched is not None
            tracker.touch(touched, now_ms, timeouts[session_id])
            queue.update(session_id, now_ms, timeouts[session_id])
        elif kind == "change":
            tracker.add(session_id, amount, now_ms)
            timeouts[session_id] = amount
            queue.update(session_id, now_ms, amount)
        else:
            tracker.remove(session_id)
            queue.remove(session_id)
            del timeouts[session_id]
        tracker.check()
        assert (len(tracker), tracker.ids()) == (len(timeouts), list(timeouts))
        assert tracker.timeouts_ms() == list(timeouts.items())
        assert [(one.session_id, one.expiry_ms) for one in tracker] == [(one, queue.time_of[one]) for one in timeouts]
        assert tracker.next_expiry_ms() == min(queue.time_of.values(), default=None)
        empty = sorted(at_ms for at_ms, members in queue.sets.items() if not members and at_ms > now_ms)
        assert sorted(tracker.emptied(now_ms)) == empty


def test_an_id_of_a_restored_session_is_not_given_again() -> None:
    """Skip it, and begin with the smallest number after the largest."""
    tracker = SessionTracker(TICK_MS, 2**63 - 2)
    for session_id in (2**63 - 2, -(2**63)):
        tracker.add(session_id, 100, 0)
    assert [tracker.new_id() for _ in range(3)] == [2**63 - 1, -(2**63) + 1, -(2**63) + 2]


def test_a_negative_timeout_leaves_the_expiry_of_a_live_session() -> None:
    """It counts from the next touch on, by whatever timeout that has."""
    tracker = SessionTracker(TICK_MS, 1)
    session = tracker.add(1, 25, 0)
    assert tracker.add(1, -1, 8) is session
    assert (session.timeout_ms, session.expiry_ms) == (-1, 30)
    assert tracker.add(1, 0, 8) is session
    assert (session.timeout_ms, session.expiry_ms) == (0, 10)


# -- quotas


@pytest.mark.parametrize(
    ("data", "totals"),
    [
        (b"", {}),
        (b"count=1,bytes=2", {"count": 1, "bytes": 2}),
        (b"count=1;bytes=2,,;", {"count": 1, "bytes": 2}),
        (b"bytes=-1=;byteHardLimit=7", {"bytes": -1, "byteHardLimit": 7}),
        (b"count=,bytes=2", None),
        (b"count==1", {"count": -1}),
        (b",", {}),
        (b",count=1", None),
        (b"count", None),
        (b"count=x", None),
        (None, None),
    ],
)
def test_totals_are_read_as_java_splits_them(data: bytes | None, totals: dict[str, int] | None) -> None:
    """StatsTrack: String.split drops empty parts at the end only, and an empty number is -1."""
    if totals is None:
        with pytest.raises(UnreadableError):
            read_totals(data)
    else:
        assert read_totals(data) == totals


QUOTA = "/zookeeper/quota"
NODES = ("/a", "/a/b", "/a/b/c", "/ab", "/a/d")
CHANGES = st.lists(
    st.tuples(st.sampled_from(["create", "create", "set", "delete", "quota", "no quota", "load"]),
              st.sampled_from(NODES), st.binary(max_size=3)),
    max_size=20,
)  # fmt: skip


def text_of(both: tuple[int, int]) -> bytes:
    """Return the data of a stats node."""
    return b"count=%d,bytes=%d" % both


@given(CHANGES)
def test_totals_are_those_of_all_nodes_below_the_deepest_quota(changes: list[tuple[str, str, bytes]]) -> None:
    """DataTree.createNode, deleteNode and setData count a change once; a new stats node counts all that is there."""
    story = Story()
    client = story.client()
    data: dict[str, bytes] = {}
    totals: dict[str, tuple[int, int]] = {}
    quotas = story.server.tree.quotas
    retired_bytes = 0

    def all_below(path: str) -> list[bytes]:
        return [value for one, value in data.items() if one == path or one.startswith(path + "/")]

    def count(path: str, nodes: int, size: int) -> None:
        above = [one for one in totals if path == one or path.startswith(one + "/")]
        if above:
            deepest = max(above, key=len)
            totals[deepest] = totals[deepest][0] + nodes, totals[deepest][1] + size

    for kind, path, value in changes:
        folder = ""
        if kind == "create" and not client.error(req.Create(path, value, OPEN_ACL, 0)):
            data[path] = value
            count(path, 1, len(value))
        elif kind == "set" and not client.error(req.SetData(path, value, -1)):
            count(path, 0, len(value) - len(data[path]))
            data[path] = value
        elif kind == "delete" and not client.error(req.Delete(path, -1)):
            count(path, -1, -len(data.pop(path)))
        elif kind == "quota" and path not in totals:
            for name in path[1:].split("/"):
                folder += f"/{name}"
                client.error(req.Create(QUOTA + folder, b"", OPEN_ACL, 0))
            client.create(f"{QUOTA}{path}/zookeeper_limits", b"count=-1,bytes=-1")
            client.create(f"{QUOTA}{path}/zookeeper_stats", b"")
            totals[path] = len(all_below(path)), sum(map(len, all_below(path)))
        elif kind == "no quota" and path in totals:
            for name in ("zookeeper_limits", "zookeeper_stats"):
                client.body(req.Delete(f"{QUOTA}{path}/{name}", -1))
            retired_bytes += len(text_of(totals.pop(path)))
        elif kind == "load":  # DataTree.setupQuota counts the nodes of quotas below, too
            retired_bytes = -sum(len(text_of(both)) for both in totals.values())
            quotas.load()
            totals = {one: (len(all_below(one)), sum(map(len, all_below(one)))) for one in totals}
        found = {one: client.body(req.GetData(f"{QUOTA}{one}/zookeeper_stats", False))[0] for one in totals}
        assert found == {one: text_of(both) for one, both in totals.items()}
        assert quotas.unreported_bytes == sum(map(len, found.values())) + retired_bytes
        story.server.check()


@pytest.mark.parametrize(
    ("limits", "nodes", "size", "exceeds"),
    [
        (b"count=3,bytes=-1", 1, 0, False),
        (b"count=2,bytes=-1", 1, 9, False),  # the soft limit is only logged
        (b"count=2,bytes=-1=;countHardLimit=2", 1, 0, True),
        (b"count=2,bytes=-1=;countHardLimit=3", 1, 9, False),
        (b"count=-1,bytes=-1=;countHardLimit=2", 0, 9, False),
        (b"count=-1,bytes=-1=;byteHardLimit=9", 1, 4, False),
        (b"count=-1,bytes=-1=;byteHardLimit=9", 0, 5, True),
        (b"count=-1,bytes=-1=;byteHardLimit=9", 1, 0, False),
        (b"count=-1,bytes=-1=;byteHardLimit=2", 0, -1, True),
        (b"count=-1,bytes=-1=;byteHardLimit=0", 0, 1, True),
        (b"count=-1,bytes=-1=;byteHardLimit=9;countHardLimit=2", 1, 1, True),
    ],
)
def test_only_hard_limits_reject(limits: bytes, nodes: int, size: int, exceeds: bool) -> None:
    """ZooKeeperServer.checkQuota, with two nodes of five bytes there."""
    found = {
        f"{QUOTA}/a/zookeeper_limits": Znode(limits, (), 0, 0, 0),
        f"{QUOTA}/a/zookeeper_stats": Znode(b"count=2,bytes=5", (), 0, 0, 0),
    }
    quotas = Quotas(found.get)
    assert not quotas.would_exceed("/a/b", nodes, size), "there is no quota yet"
    quotas.node_planted(f"{QUOTA}/a", "zookeeper_stats")
    assert not quotas.would_exceed("/a/b", nodes, size), "the limits node arms it"
    quotas.node_planted(f"{QUOTA}/a", "zookeeper_limits")
    assert quotas.would_exceed("/a/b", nodes, size) == exceeds
    assert not quotas.would_exceed("/ab", nodes, size)
    del found[f"{QUOTA}/a/zookeeper_stats"]
    assert not quotas.would_exceed("/a/b", nodes, size)


def test_a_quota_without_totals_that_can_be_read_rejects_nothing_that_has_no_limit() -> None:
    story = Story(ServerConfig(enforce_quota=True))
    client = story.client()
    for path in ("/a", f"{QUOTA}/a"):
        client.create(path)
    client.create(f"{QUOTA}/a/zookeeper_limits", b"count=-1,bytes=-1")
    client.create(f"{QUOTA}/a/zookeeper_stats", b"")
    client.body(req.SetData(f"{QUOTA}/a/zookeeper_stats", b"x", -1))
    client.create("/a/b", b"1")
    client.body(req.SetData(f"{QUOTA}/a/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=1", -1))
    assert client.error(req.Create("/a/c", b"", OPEN_ACL, 0)) == Code.MARSHALLING_ERROR


def test_a_loaded_tree_has_the_quotas_of_its_limits_nodes_and_no_others() -> None:
    """DataTree.setupQuota counts growth anew, and finds a quota by a leaf with the name of limits nodes."""
    story = Story()
    client = story.client()
    for path in ("/a", "/b", "/a/c", f"{QUOTA}/a", f"{QUOTA}/b", f"{QUOTA}/a/c", f"{QUOTA}/zookeeper_limits"):
        client.create(path)
    for path in ("/a", "/a/c"):
        client.create(f"{QUOTA}{path}/zookeeper_limits", b"count=9,bytes=9")
        client.create(f"{QUOTA}{path}/zookeeper_stats", b"")
    client.create(f"{QUOTA}/b/zookeeper_stats", b"")
    client.body(req.SetData(f"{QUOTA}/a/zookeeper_stats", b"", -1))
    quotas = story.server.tree.quotas
    quotas.armed.add("/gone")
    quotas.load()
    assert [quotas.prefix_of(path) for path in ("/a", "/a/c/d", "/b", "/gone", "/")] == ["/a", "/a/c", None, None, None]
    assert quotas.unreported_bytes == len(b"count=2,bytes=0")
    client.body(req.Delete(f"{QUOTA}/a/c/zookeeper_limits", -1))
    assert quotas.prefix_of("/a/c/d") == "/a"
