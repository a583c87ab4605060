"""A ZooKeeper client in virtual time that watches znodes which another client changes.

Rules of this module (ZooKeeper's guarantees for watches; ClientCnxn):
  - a watch gives one event, and its client gets it before any answer that shows the change; so also if the connection
    breaks before or after the change, and the client sets its watches again;
  - a session keeps its negotiated timeout when it is attached to a connection again;
  - a round in which the session expires says nothing: its watches are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError, ZooKeeperSession, data_of, stat_of
from simzk.simulation import Process
from simzk.zookeeper.quotas import LIMITS_NAME, QUOTA_ROOT, STATS_NAME, read_totals
from simzk.zookeeper.replies import Code, EventType
from simzk.zookeeper.requests import OPEN_ACL, Create, Delete, Exists, GetChildren2, GetData, Request, SetData

if TYPE_CHECKING:
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.observation.client_ledger import ClientLedger
    from simzk.simulation import RandomStream, Scheduler
    from simzk.zookeeper.replies import Reply

SESSION_TIMEOUT_MS: Final = 7_000
"""Requested session timeout, between the limits of a server with its default tick."""
LATER_TIMEOUT_MS: Final = 12_000
"""Timeout that a client requests when it attaches its session again: it counts from then on, without a message."""
_DONE = (Code.OK, Code.NODE_EXISTS, Code.NO_NODE)
"""Results of a write that is applied now, or was with an attempt that has no answer."""
EXPIRES_LATE_US: Final = 2_500_000
"""How late a session may expire: a tick of the server, and the way of the answers."""
EXAMINED_US: Final = 100_000
BREAKS_IN: Final = 3
"""The connection breaks in one of so many places."""


class _Round(NamedTuple):
    """A watched znode: the kind of watch, the requests that change it, and the expected event; None for a child."""

    path: str
    is_there: bool
    changes: tuple[Request, ...]
    event: EventType | None


def rounds(root: str, number: int) -> list[_Round]:
    """Return the kinds of round, below a node of their own."""
    path = f"{root}/{number}"
    child = f"{path}/child"
    return [
        _Round(path, True, (SetData(path, b"1", -1), SetData(path, b"2", -1)), EventType.NODE_DATA_CHANGED),
        _Round(path, True, (Delete(path, -1), Create(path, b"", OPEN_ACL, 0)), EventType.NODE_DELETED),
        _Round(path, False, (Create(path, b"", OPEN_ACL, 0), SetData(path, b"1", -1)), EventType.NODE_CREATED),
        _Round(path, True, (Create(child, b"", OPEN_ACL, 0), Delete(child, -1)), None),
    ]


class ZnodeWatcher:
    """A client that watches, and one that writes.

    Args:
        scheduler: the clock.
        name: name of its process, and of its root znode.
        host: the ZooKeeper.
        ledger: what it was promised.
        gap_us: time between two rounds.
    """

    def __init__(
        self, scheduler: Scheduler, name: str, host: ZooKeeperHost, ledger: ClientLedger, *, gap_us: int
    ) -> None:
        self._process = Process(scheduler, name)
        self._writing = Process(scheduler, f"writer of {name}")
        self._session = ZooKeeperSession(self._process, host, timeout_ms=SESSION_TIMEOUT_MS)
        self._writer = ZooKeeperSession(self._writing, host, timeout_ms=SESSION_TIMEOUT_MS)
        self._stream: RandomStream = scheduler.stream(name)
        self._root = f"/{name.replace(' ', '-')}"
        self._ledger = ledger
        self._gap_us = gap_us
        self._timeouts_ms: dict[int, int] = {}
        self._writing.spawn(self._writer.start(), "znode writer")
        self._process.spawn(self._run(), "znode watcher")

    def kill(self) -> None:
        """End both clients."""
        for process, session in ((self._process, self._session), (self._writing, self._writer)):
            if process.alive:
                session.drop_connection()
            process.kill()

    async def _run(self) -> None:
        await self._session.start()
        await self._write(Create(self._root, b"", OPEN_ACL, 0))
        number = 0
        while True:
            number += 1
            await self._process.sleep(self._gap_us)
            try:
                await self._watch(self._stream.choice(rounds(self._root, number)))
            except SessionExpiredError:
                self._ledger.counts["sessions of watchers expired"] += 1

    async def _write(self, request: Request) -> None:
        """Let the writer apply a change; wait until it is applied."""

        async def write() -> Reply:
            return await self._writer.call_across_sessions(request)

        reply = await self._writing.spawn(write(), "write")
        assert reply.error in _DONE, f"{request} has error {reply.error}"

    async def _watch(self, one: _Round) -> None:
        if one.is_there:
            await self._write(Create(one.path, b"", OPEN_ACL, 0))
            await self._see_znode(one.path)
        session, seen = self._session, list[EventType | None]()
        session_id = session.session_id
        self._check_timeout()
        if one.event is None:
            session.child_handlers[one.path] = lambda: seen.append(None)
            before = await session.get_children(one.path)
        else:
            session.data_handlers[one.path] = seen.append
            before = await session.exists(one.path)
            if one.event is EventType.NODE_DELETED:  # the event uses a watch of its children up, too
                session.child_handlers[one.path] = lambda: seen.append(None)
                await session.get_children(one.path)
        try:
            for change in one.changes:
                self._break_by_chance()
                await self._write(change)
                self._break_by_chance()
                await self._see_change(one, before)
                if session.session_id != session_id:
                    return
                if seen != [one.event]:
                    what = f"{self._process.name} has {seen} of {one.path} after {change}, and not {one.event}"
                    self._ledger.watches.violate(what)
            self._ledger.counts["watches"] += 1
        finally:
            session.child_handlers.pop(one.path, None)
            session.data_handlers.pop(one.path, None)

    def _break_by_chance(self) -> None:
        if not self._stream.below(BREAKS_IN):
            self._session.break_connection()

    async def _see_znode(self, path: str) -> None:
        """Read until the znode is there: a server of an ensemble may lag."""
        while (await self._session.call(Exists(path, False))).error != Code.OK:
            await self._process.sleep(self._gap_us)

    async def _see_change(self, one: _Round, before: Reply) -> None:
        """Read without a watch until an answer shows a change."""
        while True:
            if one.event is None:
                reply = await self._session.call(GetChildren2(one.path, False))
                is_changed = _zxids(reply, is_list=True) != _zxids(before, is_list=True)
            else:
                reply = await self._session.call(Exists(one.path, False))
                is_changed = _zxids(reply) != _zxids(before)
            if is_changed:
                return
            await self._process.sleep(self._gap_us)

    def _check_timeout(self) -> None:
        """Check that the session has the timeout that it has got at its begin."""
        session = self._session
        known = self._timeouts_ms.setdefault(session.session_id, session.timeout_ms)
        if session.timeout_ms != known:
            what = f"the session of {self._process.name} has a timeout of {session.timeout_ms} ms, and had {known}"
            self._ledger.session_kept.violate(what)


def _zxids(reply: Reply, *, is_list: bool = False) -> tuple[int, ...]:
    """Return the zxids of a znode that change with it; none if it does not exist."""
    if reply.error != Code.OK:
        return ()
    stat = stat_of(reply)
    return (stat.pzxid,) if is_list else (stat.czxid, stat.mzxid)


class ZooKeeperExaminer:
    """A client that examines ZooKeeper when everything has healed: the life of a session, and the totals of a quota.

    Attributes:
        is_done: whether it has ended.
    """

    def __init__(self, scheduler: Scheduler, host: ZooKeeperHost, ledger: ClientLedger) -> None:
        self.is_done: bool = False
        self._process = Process(scheduler, "znode examiner")
        self._lost = Process(scheduler, "lost client")
        self._session = ZooKeeperSession(self._process, host, timeout_ms=SESSION_TIMEOUT_MS)
        self._lost_session = ZooKeeperSession(self._lost, host, timeout_ms=SESSION_TIMEOUT_MS)
        self._ledger = ledger
        self._process.spawn(self._run(), "znode examination")

    def kill(self) -> None:
        """End both clients."""
        for process, session in ((self._process, self._session), (self._lost, self._lost_session)):
            if process.alive:
                session.drop_connection()
            process.kill()

    async def _run(self) -> None:
        await self._session.start()
        await self._judge_quota()
        await self._judge_session()
        self.is_done = True

    async def _judge_quota(self) -> None:
        """Give a znode a quota, change what is below it, and compare the totals."""
        root, quota = "/examined", f"{QUOTA_ROOT}/examined"
        for request in (
            Create(root, b"12345", OPEN_ACL, 0),
            Create(quota, b"", OPEN_ACL, 0),
            Create(f"{quota}/{LIMITS_NAME}", b"count=1000,bytes=-1", OPEN_ACL, 0),
            Create(f"{quota}/{STATS_NAME}", b"count=0,bytes=0", OPEN_ACL, 0),
            Create(f"{root}/a", b"123", OPEN_ACL, 0),
            Create(f"{root}/b", b"1234567", OPEN_ACL, 0),
            Create(f"{root}/a/c", b"1", OPEN_ACL, 0),
            SetData(f"{root}/a", b"12", -1),
            Delete(f"{root}/b", -1),
            Create(f"{quota}/a", b"", OPEN_ACL, 0),  # from now on a quota of its own
            Create(f"{quota}/a/{LIMITS_NAME}", b"count=1000,bytes=-1", OPEN_ACL, 0),
            Create(f"{quota}/a/{STATS_NAME}", b"count=0,bytes=0", OPEN_ACL, 0),
            Create(f"{root}/a/d", b"1234", OPEN_ACL, 0),
        ):
            await self._session.call(request)
        reply = await self._session.call(GetData(f"{quota}/{STATS_NAME}", False))
        found = read_totals(data_of(reply))
        wanted = {"count": 3, "bytes": 8}
        if {name: found.get(name) for name in wanted} != wanted:
            self._ledger.quotas.violate(f"the quota of {root} has the totals {found}, and not {wanted}")

    async def _judge_session(self) -> None:
        """Let a client attach its session with a longer timeout and die: its ephemeral stays as long, and no longer."""
        path, session, scheduler = "/examined-ephemeral", self._lost_session, self._process.scheduler

        async def live() -> None:
            await session.start()
            await session.call(Create(path, b"", OPEN_ACL, 1))
            session.timeout_ms = LATER_TIMEOUT_MS
            session.break_connection()
            while not session.connected:
                await self._lost.sleep(EXAMINED_US)

        await self._lost.spawn(live(), "life")
        session.drop_connection()
        timeout_us, gone_us = session.timeout_ms * 1000, scheduler.now_us
        while (await self._session.call(Exists(path, False))).error == Code.OK:
            if scheduler.now_us > gone_us + timeout_us + EXPIRES_LATE_US:
                break
            await self._process.sleep(EXAMINED_US)
        lasted_us = scheduler.now_us - gone_us
        if not timeout_us - EXAMINED_US <= lasted_us <= timeout_us + EXPIRES_LATE_US:
            what = f"an ephemeral lasts {lasted_us / 1_000_000:g} s with a timeout of {session.timeout_ms} ms"
            self._ledger.session_kept.violate(what)
