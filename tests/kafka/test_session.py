"""ZooKeeper session of a broker: order, limits, lost connections, watches, expiry."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from simzk.kafka.cluster.zookeeper_host import ADDRESS, ZooKeeperHost
from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError, ZooKeeperSession, data_of
from simzk.kafka.zookeeper_mode.client.zk_client import create_request
from simzk.simulation import Network, Process, Scheduler
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Code, EventType
from simzk.zookeeper.requests import ConnectRequest, Delete, GetData, SetData, SetWatches
from simzk.zookeeper.server import Server
from simzk.zookeeper.sessions import password_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from simzk.zookeeper.requests import Request

TIMEOUT_MS = 6000


def _note(reported: list[tuple[str, EventType]], path: str, kind: EventType) -> None:
    reported.append((path, kind))


class World:
    """Server with one client."""

    def __init__(self, *, retries_across_sessions: bool = False) -> None:
        self.scheduler = Scheduler(seed=5)
        self.network = Network(self.scheduler, latency_us=(100, 400))
        self.server = Server(ServerConfig(tick_time_ms=500))
        self.host = ZooKeeperHost(self.scheduler, self.network, self.server, start_ms=0)
        self.process = Process(self.scheduler, "client")
        self.session = ZooKeeperSession(
            self.process, self.host, timeout_ms=TIMEOUT_MS, retries_across_sessions=retries_across_sessions
        )
        self.run(self.session.start())

    def run(self, coroutine: Coroutine[Any, None, Any], seconds: float = 5) -> Any:
        task = self.process.spawn(coroutine)
        self.sleep(seconds)
        return task.result()

    def sleep(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now_us + round(seconds * 1_000_000))

    def write_behind(self, path: str, data: bytes) -> None:
        """Change a znode as another client."""
        self._call_behind(SetData(path, data, -1))

    def delete_behind(self, path: str) -> None:
        """Delete a znode as another client."""
        self._call_behind(Delete(path, -1))

    def _call_behind(self, request: Request) -> None:
        other = Process(self.scheduler, "other")
        session = ZooKeeperSession(other, self.host, timeout_ms=TIMEOUT_MS)

        async def write() -> None:
            await session.start()
            await session.call(request)
            await session.close()

        other.spawn(write())
        self.sleep(1)


@pytest.fixture
def world() -> World:
    return World()


def test_requests_are_answered_in_order_ten_at_a_time(world: World) -> None:
    sent: list[Request] = []
    most = 0

    def count(link: Any, xid: int, request: Any) -> None:
        nonlocal most
        sent.append(request)
        most = max(most, len(world.session._in_flight))
        original(link, xid, request)

    original = world.host.send
    world.host.send = count  # type: ignore[method-assign]
    requests = [create_request(f"/{number:02}", None) for number in range(35)]
    replies = world.run(world.session.call_all(requests))
    assert [reply.body for reply in replies] == [f"/{number:02}" for number in range(35)]
    assert sent[:35] == requests
    assert most == 10


def test_an_idle_session_is_kept_alive(world: World) -> None:
    world.sleep(60)
    assert world.session.session_id in world.server.sessions
    assert world.session.connected


def test_a_write_with_a_lost_reply_is_retried(world: World) -> None:
    world.run(world.session.call(create_request("/a", None)))
    world.network.drop_next(ADDRESS, "client")
    replies = world.run(world.session.call_all([create_request("/b", None), create_request("/c", None)]))
    # The first try was applied, its reply lost: the second finds its own work done.
    assert [reply.error for reply in replies] == [Code.NODE_EXISTS, Code.OK] or [reply.error for reply in replies] == [
        Code.NODE_EXISTS,
        Code.NODE_EXISTS,
    ]
    assert "/b" in world.server.tree
    assert "/c" in world.server.tree


def test_a_lost_request_breaks_the_connection_and_is_retried(world: World) -> None:
    world.network.drop_next("client", ADDRESS)
    replies = world.run(world.session.call_all([create_request("/b", None), create_request("/c", None)]), seconds=20)
    assert [reply.error for reply in replies] == [Code.OK, Code.OK]


def test_watches_are_set_again_and_missed_changes_are_delivered_once(world: World) -> None:
    session = world.session
    reported: list[tuple[str, EventType]] = []
    for path in ("/a", "/b", "/gone"):
        session.data_handlers[path] = partial(_note, reported, path)

    async def prepare() -> None:
        await session.call(create_request("/a", b"1"))
        await session.call(create_request("/b", b"1"))
        reported.clear()
        await session.get_data("/a")
        await session.get_data("/b")
        await session.exists("/gone")

    world.run(prepare())
    world.network.cut("client", ADDRESS)
    session.break_connection()
    world.write_behind("/a", b"2")
    world.network.heal("client", ADDRESS)
    world.sleep(4)
    assert reported == [("/a", EventType.NODE_DATA_CHANGED)]
    assert session.connected


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_deletion_uses_up_all_watches_of_a_znode_with_one_event(world: World, is_cut: bool) -> None:
    """Drop the second event, which a server sends to a client that sets both again (ZKWatchManager.materialize)."""
    session, seen = world.session, list[EventType | None]()
    world.run(session.call(create_request("/a", b"")))
    session.data_handlers["/a"] = seen.append
    session.child_handlers["/a"] = lambda: seen.append(None)
    world.run(session.get_data("/a"))
    world.run(session.get_children("/a"))
    assert session.watch_differences() == []
    if is_cut:
        session.break_connection()
    world.delete_behind("/a")
    world.sleep(4)
    assert seen == [EventType.NODE_DELETED]
    assert session.watch_differences() == []
    session.break_connection()
    world.sleep(5)
    assert seen == [EventType.NODE_DELETED]
    assert session.watch_differences() == []


def test_a_new_session_has_no_watches_of_the_one_before(world: World) -> None:
    session, seen = world.session, list[EventType]()
    session.data_handlers["/none"] = seen.append
    world.run(session.exists("/none"))
    world.server.expire(session.session_id, world.host.now_ms())
    world.host.deliver_output()
    world.sleep(5)
    session.break_connection()
    world.sleep(5)
    assert session.connected
    assert (len(world.server.watches.data), session.watch_differences()) == (0, [])


def test_a_watch_is_set_only_with_a_registered_handler(world: World) -> None:
    reported: list[EventType] = []
    world.run(world.session.call(create_request("/a", b"1")))
    world.run(world.session.get_data("/a"))
    world.session.data_handlers["/a"] = reported.append
    world.write_behind("/a", b"2")
    assert reported == []
    world.run(world.session.get_data("/a"))
    world.write_behind("/a", b"3")
    assert reported == [EventType.NODE_DATA_CHANGED]
    world.write_behind("/a", b"4")
    assert reported == [EventType.NODE_DATA_CHANGED]  # one-shot


def test_a_cut_shorter_than_the_timeout_keeps_the_session(world: World) -> None:
    before = world.session.session_id
    world.network.cut("client", ADDRESS)
    world.sleep(3)
    world.network.heal("client", ADDRESS)
    world.sleep(6)
    assert world.session.session_id == before
    assert data_of(world.run(world.session.call(GetData("/zookeeper", False)))) is not None


RECORDED_PAUSES_MS = {
    "0.8.0": (1442, 1065, 1911, 1515, 1417),
    "0.8.2": (1964, 1786, 1617, 1294, 1990),
    "0.10.2": (1525, 1219, 2002, 1236),
    "1.1": (1130, 1343, 1934, 1178, 1984, 1352, 1455, 1240, 1614),
    "2.4": (1306, 1510, 1691, 1290, 1324),
    "2.8": (1021, 1746, 1800, 1383, 1273),
    "3.9": (1068, 1102, 1414, 1458, 1235),
}
"""From the SIGCONT of a real broker whose session had expired to its new session."""


def test_a_lost_connection_is_opened_again_after_one_to_two_seconds(world: World) -> None:
    pauses_ms = []
    for _ in range(40):
        lost_us = world.scheduler.now_us
        world.session.break_connection()
        while not world.session.connected:
            world.sleep(0.001)
        pauses_ms.append((world.scheduler.now_us - lost_us) / 1000)
        world.sleep(1)
    assert 1000 <= min(pauses_ms) < 1200
    assert 1800 < max(pauses_ms) <= 2010
    for recorded in RECORDED_PAUSES_MS.values():
        assert all(1000 <= pause_ms <= 2010 for pause_ms in recorded)


@pytest.mark.parametrize(("paused_s", "is_read"), [(1.5, True), (TIMEOUT_MS / 1500, False), (12, False)])
def test_what_arrived_is_lost_on_a_client_that_was_silent_for_too_long(
    world: World, paused_s: float, is_read: bool
) -> None:
    """ClientCnxn looks at its read timeout before it reads on; a real controller did not hear of its own end.

    A server sends a session the events of its end before it closes the connection.
    """
    session, reported = world.session, list[EventType]()
    session.data_handlers["/mine"] = reported.append

    async def prepare() -> None:
        await session.call(create_request("/mine", None, 1))
        await session.exists("/mine")

    world.run(prepare())
    reported.clear()
    old = session.session_id
    world.process.pause(round(paused_s * 1_000_000))
    if paused_s * 1000 < TIMEOUT_MS:
        world.server.expire(old, world.host.now_ms())
        world.host.send_output()
    world.sleep(20)
    assert session.session_id not in (0, old)
    assert session.connected
    assert reported == [EventType.NODE_DELETED] * is_read


def test_an_expired_session_fails_pending_requests_and_is_replaced(world: World) -> None:
    order: list[str] = []

    async def before() -> None:
        order.append("before")
        with pytest.raises(SessionExpiredError):  # nothing may wait for the session that is not there yet
            await world.session.call(GetData("/", False))

    world.session.before_new_session = before
    world.session.after_new_session = lambda: order.append("after")
    old = world.session.session_id
    world.network.cut("client", ADDRESS)

    async def wait() -> str:
        try:
            await world.session.call(GetData("/", False))
        except SessionExpiredError:
            return "expired"
        return "answered"

    task = world.process.spawn(wait())
    world.sleep(15)
    assert old not in world.server.sessions
    world.network.heal("client", ADDRESS)
    world.sleep(15)
    assert task.result() == "expired"
    assert order == ["before", "after"]
    assert world.session.session_id not in (0, old)
    assert world.session.last_session_id == old


def test_zkclient_sends_what_waited_in_the_next_session() -> None:
    """ZkClient.retryUntilConnected, which Kafka up to 1.0 uses."""
    world = World(retries_across_sessions=True)
    session, order = world.session, list[str]()
    session.after_new_session = lambda: order.append("after")
    world.run(session.call(create_request("/counted", b"0", 0)))
    old = session.session_id
    world.network.cut("client", ADDRESS)

    async def write(version: int) -> Code:
        return Code((await session.call(SetData("/counted", b"late", version))).error)

    async def read() -> list[bytes | None]:
        found = [data_of(reply) for reply in await session.call_all([GetData("/counted", False)] * 2)]
        order.append("read")
        return found

    written, refused, both = (world.process.spawn(work) for work in (write(0), write(7), read()))
    world.sleep(15)
    assert old not in world.server.sessions
    assert not written.done
    world.network.heal("client", ADDRESS)
    world.sleep(15)
    assert session.session_id not in (0, old)
    assert written.result() == Code.OK
    assert refused.result() == Code.BAD_VERSION
    assert both.result() == [b"late"] * 2
    assert order == ["after", "read"], "a call that waited goes on beside what the new session begins"


def test_the_death_of_the_process_leaves_the_session_until_its_timeout(world: World) -> None:
    world.run(world.session.call(create_request("/mine", None, 1)))
    world.session.drop_connection()
    world.process.kill()
    world.sleep(3)
    assert "/mine" in world.server.tree
    world.sleep(6)
    assert "/mine" not in world.server.tree


def test_closing_a_session_deletes_its_ephemerals_at_once(world: World) -> None:
    world.run(world.session.call(create_request("/mine", None, 1)))
    world.run(world.session.close(), seconds=0.1)
    assert "/mine" not in world.server.tree


class Wire:
    """What a client sends: time in milliseconds since the start, xid and request."""

    def __init__(self, world: World) -> None:
        self.sent: list[tuple[int, int, Any]] = []
        self._original, self._world = world.host.send, world
        self._start_us = world.scheduler.now_us
        world.host.send = self._send  # type: ignore[method-assign]

    def _send(self, link: Any, xid: int, request: Any) -> None:
        if link.session_names[0] != "other":
            self.sent.append((round((self._world.scheduler.now_us - self._start_us) / 1000), xid, request))
        self._original(link, xid, request)

    def requests(self, kind: type) -> list[Any]:
        """Return the requests of a kind, and forget all."""
        found = [request for _, _, request in self.sent if type(request) is kind]
        self.sent.clear()
        return found


def test_an_idle_client_pings_a_third_of_the_timeout_after_its_last_request(world: World) -> None:
    """ClientCnxn.SendThread.run: half of its read timeout; a reply that is read starts no pause anew."""
    world.run(world.session.call(create_request("/a", None)), seconds=0.01)
    wire = Wire(world)
    world.run(world.session.call(GetData("/a", False)), seconds=3)
    world.run(world.session.call(GetData("/a", False)), seconds=5)
    assert [(at_ms, xid) for at_ms, xid, _ in wire.sent] == [(0, 2), (2000, -2), (3000, 3), (5000, -2), (7000, -2)]


def test_a_reconnected_client_names_its_session_and_all_its_watches(world: World) -> None:
    """ClientCnxn.SendThread.primeConnection: each kind by what answered, and the last zxid that was seen."""
    session = world.session
    for path in ("/a", "/b", "/c", "/d", "/none", "/later"):
        session.data_handlers[path] = lambda _kind: None
        session.child_handlers[path] = lambda: None

    async def prepare() -> None:
        for path in ("/a", "/b", "/c", "/d"):
            await session.call(create_request(path, b""))
        await session.get_data("/a")
        await session.exists("/b")
        await session.get_children("/c")
        await session.get_data("/d")
        await session.get_children("/d")
        await session.exists("/none")
        await session.exists("/later")
        await session.get_data("/none/below")
        await session.get_children("/none/below")

    world.run(prepare())
    wire = Wire(world)

    def reconnected() -> tuple[ConnectRequest, list[SetWatches]]:
        wire.sent.clear()
        session.break_connection()
        world.sleep(3)
        first = wire.sent[0][2]
        assert isinstance(first, ConnectRequest)
        return first, wire.requests(SetWatches)

    zxid = world.server.zxid
    asked, (watches,) = reconnected()
    assert asked == ConnectRequest(0, zxid, TIMEOUT_MS, session.session_id, password_of(session.session_id), False)
    assert watches == SetWatches(zxid, ("/a", "/b", "/d"), ("/none", "/later"), ("/c", "/d"))
    world.run(session.call(create_request("/later", b"")))
    world.run(session.call(create_request("/c/below", b"")))
    world.write_behind("/a", b"x")
    world.delete_behind("/d")
    _, (watches,) = reconnected()
    assert watches[1:] == (("/b",), ("/none",), ())
    world.run(session.get_children("/c"))
    session.break_connection()
    world.server.expire(session.session_id, world.host.now_ms())
    old = session.session_id
    wire.sent.clear()
    world.sleep(6)
    asked, again = [request for _, _, request in wire.sent if isinstance(request, ConnectRequest)][-2:]
    assert asked.session_id == old
    # A new session is that of a new ZooKeeper client, which has seen nothing (ZooKeeperClient.reinitialize).
    assert again == ConnectRequest(0, 0, TIMEOUT_MS, 0, bytes(16), False)
    assert reconnected()[1] == []


@pytest.mark.parametrize("way", ["close", "drop"])
def test_a_client_that_has_ended_sends_nothing(world: World, way: str) -> None:
    """ClientCnxn.disconnect: no ping, no reconnection; only a closed session is over for the server at once."""
    session, old = world.session, world.session.session_id
    link = session._link
    assert link is not None
    assert link.connection is not None
    if way == "close":
        world.run(session.close(), seconds=0.1)
    else:
        session.drop_connection()
    world.sleep(0.1)
    assert (old in world.server.sessions) == (way == "drop")
    assert (session.closed, session.connected, session.is_cut, link.open) == (True, False, True, False)
    assert link.connection.closed
    wire = Wire(world)
    session.break_connection()
    world.sleep(30)
    assert wire.sent == []


def test_a_client_goes_by_the_timeout_that_the_server_grants_and_asks_for_its_own(world: World) -> None:
    """ClientCnxn.onConnected: read timeout and pings; each ConnectRequest has that of the configuration again."""
    process = Process(world.scheduler, "long")
    session = ZooKeeperSession(process, world.host, timeout_ms=60_000)
    started: list[tuple[bool, bool, int]] = []

    async def start() -> None:
        await session.start()
        started.append((session.connected, session.session_id in world.server.sessions, session.timeout_ms))

    process.spawn(start())
    world.sleep(1)
    assert started == [(True, True, 10_000)]
    wire = Wire(world)
    for _ in range(2):
        session.break_connection()
        world.sleep(3)
    assert [one.timeout_ms for one in wire.requests(ConnectRequest)] == [60_000, 60_000]
    world.session.drop_connection()
    world.sleep(9)
    times = [at_ms for at_ms, xid, _ in wire.sent if xid == -2]
    assert [later - one for one, later in pairwise(times)] == [3333] * (len(times) - 1)
    assert len(times) > 1


def test_an_adopted_session_goes_on(world: World) -> None:
    old = world.session.session_id
    world.session.drop_connection()
    process = Process(world.scheduler, "heir")
    heir = ZooKeeperSession(process, world.host, timeout_ms=TIMEOUT_MS)
    heir.adopt(old)
    process.spawn(heir.start())
    world.sleep(20)
    assert (heir.session_id, heir.connected, old in world.server.sessions) == (old, True, True)


def test_each_expired_session_is_waited_for_anew(world: World) -> None:
    """Fail what waits, then go on when the next session is connected; so it is at each expiry."""
    session, seen = world.session, list[tuple[str, bool, int]]()
    session.after_new_session = lambda: seen.append(("after", session.connected, session.session_id))

    async def go_on() -> None:
        await session.call_across_sessions(GetData("/", False))
        seen.append(("went on", session.connected, session.session_id))

    async def give_up() -> None:
        try:
            await session.call_all([GetData("/", False), GetData("/", False)])
        except SessionExpiredError:
            seen.append(("gave up", session.connected, session.session_id))

    old = [session.session_id]
    for _ in range(2):
        seen.clear()
        world.network.cut("client", ADDRESS)
        world.process.spawn(go_on())
        world.process.spawn(give_up())
        world.sleep(15)
        assert (seen, old[-1] in world.server.sessions) == ([], False)
        world.network.heal("client", ADDRESS)
        world.sleep(15)
        assert session.session_id not in old
        assert sorted(seen) == [
            ("after", True, session.session_id),
            ("gave up", False, 0),
            ("went on", True, session.session_id),
        ]
        old.append(session.session_id)


def test_a_child_handler_is_called_for_a_new_child_and_a_lost_one(world: World) -> None:
    session, seen = world.session, list[str]()
    world.run(session.call(create_request("/a", b"")))
    session.child_handlers["/a"] = lambda: seen.append("child")
    session.data_handlers["/a"] = lambda kind: seen.append(kind.name)
    for request in (create_request("/a/b", b""), Delete("/a/b", -1)):
        world.run(session.get_children("/a"))
        world.run(session.get_data("/a"))
        world.run(session.call(request))
    assert seen == ["child", "child"]
    world.write_behind("/a", b"x")
    assert seen == ["child", "child", "NODE_DATA_CHANGED"]
