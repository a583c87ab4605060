"""Local sessions: those that only the server knows where they began; what they may not do, and what makes them global.

Rules of this module:
  - a local session begins, ends and expires without a transaction, and is gone when its server has another role;
  - no other server takes it up;
  - who owns an ephemeral znode is known to all: a session that is to make one becomes global first, by a transaction of
    its own, or is refused (localSessionsUpgradingEnabled).

Source: UpgradeableSessionTracker, QuorumZooKeeperServer.checkUpgradeSession, LeaderSessionTracker.checkGlobalSession.

A connection to a server of an ensemble: it may have to wait for what its server has yet to apply.

The sessions as one server of an ensemble knows them: those that its applied transactions show.

Rules of this module:
  - the leader decides who expires, by its own tracker; whatever a server hears of a client it passes on to the leader
    at once (a real follower does so with the leader's next ping);
  - a server's own tracker follows the transactions, so it lags as its tree does; beside those sessions it has local
    ones, which no transaction shows, no snapshot holds and no other server knows.

Source: LearnerSessionTracker, LeaderSessionTracker.

What a follower hands to the leader, and what comes back; what a read-only server refuses.

Source: FollowerRequestProcessor, FinalRequestProcessor, ReadOnlyRequestProcessor.

One server of an ensemble as a copy of the history: its role, how far it has come, what waits for it to come further.

Rules of this module:
  - the leader's transactions are the history; everybody else applies them in order, all of them;
  - an answer that waits is given while the transaction that it waits for is applied, and what is held behind it is
    handled then: a read behind a write sees that write and no later one;
  - nobody waits by a clock: a server that lags applies what is due whenever it is told the time;
  - a change of role ends all connections, as a real server's does.

Source: CommitProcessor, Learner, LeaderSessionTracker; §7.

One server of an ensemble as its clients see it: it answers reads itself and has the leader make its writes.

Rules of this module:
  - the leader checks a write against its own tree and makes it a transaction; a follower answers its client once it
    has itself applied that transaction, so that a session reads what it wrote;
  - a connection's answers keep the order of its requests: what is asked behind a write that waits is held; writes
    themselves are passed on at once, as nothing before them can change them;
  - a session belongs to the server that it was last attached to. On a follower its old connection can still read; its
    first write there uses a zxid, changes nothing and closes the connection. The leader closes such a connection at
    its first request of any kind [V]; but some requests are obeyed anywhere (proposals.py);
  - a read-only server's sessions are local, others are where that is configured (local_sessions.py); it refuses to
    take up the ensemble's.

Source: FollowerRequestProcessor, PrepRequestProcessor, ReadOnlyRequestProcessor, Learner; §7.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.connection import Connection
from simzk.zookeeper.containers import Sweeper
from simzk.zookeeper.ensemble.place import Role, Tally
from simzk.zookeeper.operations import BY_REQUEST, Kind, of_kind, permission_of
from simzk.zookeeper.prepare import FLAGS, PREPARE, prepare_multi
from simzk.zookeeper.replies import Code, ConnectResponse, RefusedError, Reply, multi_results
from simzk.zookeeper.server import Batch, Server
from simzk.zookeeper.sessions import Session, SessionTracker, first_session_id, password_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.ensemble.membership import Membership
    from simzk.zookeeper.ensemble.place import Place
    from simzk.zookeeper.prepare import Asker
    from simzk.zookeeper.quotas import Quotas
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.tree import DataTree


def makes_ephemeral(request: req.Request) -> bool:
    """Whether a request would make an ephemeral znode.

    >>> makes_ephemeral(req.Create("/a", b"", (), 1)), makes_ephemeral(req.Multi((req.Create("/a", b"", (), 3),)))
    (True, True)
    """
    if isinstance(request, req.Multi):
        return any(map(makes_ephemeral, request.operations))
    if not isinstance(request, req.Create | req.Create2):
        return False
    kind = FLAGS.get(request.flags)
    return kind is not None and kind.ephemeral


def refused_record(request: req.Request, asker: Asker, tree: DataTree, session_id: int, *, led: bool) -> txns.Record:
    """The record of a request that a local session may not make; `led` where its server is the leader.

    What a follower's multi may not do only the leader notices, to whom the session is one that is no more [V].
    """
    if not isinstance(request, req.Multi):
        return txns.ErrorTxn(Code.EPHEMERAL_ON_LOCAL_SESSION)
    operations = request.operations
    at = next(index for index, operation in enumerate(operations) if makes_ephemeral(operation))
    before = prepare_multi(req.Multi(operations[:at]), asker, tree.find, session_id).records
    failed = any(isinstance(record, txns.ErrorTxn) for record in before)
    code = Code.EPHEMERAL_ON_LOCAL_SESSION if led else Code.SESSION_EXPIRED
    here = Code.RUNTIME_INCONSISTENCY if failed else code
    rest = [txns.ErrorTxn(Code.RUNTIME_INCONSISTENCY)] * (len(operations) - at - 1)
    return txns.MultiTxn((*before, txns.ErrorTxn(here), *rest))


class Held(NamedTuple):
    """A request that waits behind others of its connection."""

    xid: int
    request: Request


class Awaited(NamedTuple):
    """An answer that is given once the server has come to a position of the history."""

    position: int


class MemberConnection(Connection):
    """A connection, made by `Member.connect`.

    Attributes:
        waiting: what is not answered yet, in the order of the answers.
        leaving: the client has closed its session: nothing more is heard.
    """

    __slots__ = ("leaving", "waiting")

    def __init__(self, address: str, owner: object, config: ServerConfig, quotas: Quotas) -> None:
        super().__init__(address, owner, config, quotas)
        self.waiting: deque[Held | Awaited] = deque()
        self.leaving: bool = False


NEW = -1
"""When a session expires that was never touched."""


class MemberSessions(SessionTracker):
    """A tracker that passes touches on.

    Args:
        tick_ms: the server's tick.
        first_id: the id of the first session that is made here.
        tell_leader: told of each touch: the session's id, the time, the timeout.

    Attributes:
        local: the ids of the local ones, oldest first.
    """

    def __init__(self, tick_ms: int, first_id: int, tell_leader: Callable[[int, int, int], None]) -> None:
        super().__init__(tick_ms, first_id)
        self._tell_leader = tell_leader
        self.local: dict[int, None] = {}

    def add_local(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """A local session begins."""
        self.local[session_id] = None
        return self.add(session_id, timeout_ms, now_ms)

    def remove(self, session_id: int) -> None:
        """A session is over, of whichever kind."""
        self.local.pop(session_id, None)
        super().remove(session_id)

    def timeouts_ms(self) -> list[tuple[int, int]]:
        """The sessions that all servers know."""
        return [session for session in super().timeouts_ms() if session[0] not in self.local]

    def local_sessions(self) -> list[Session]:
        """The local ones."""
        return [self._sessions[session_id] for session_id in self.local]

    def touch(self, session: Session, now_ms: int, timeout_ms: int) -> None:
        """The session's client was heard."""
        is_new = session.expiry_ms == NEW  # the transaction that makes it is no news to the leader
        super().touch(session, now_ms, timeout_ms)
        if not is_new:
            self._tell_leader(session.session_id, now_ms, timeout_ms)

    def touch_as_told(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        """Another server has heard a session's client."""
        session = self.get(session_id)
        if session is not None:
            super().touch(session, now_ms, timeout_ms)


_WRITES = of_kind(Kind.WRITE, Kind.SESSION)

_OF_ANY_SERVER = of_kind(Kind.SESSION, Kind.CONNECTION) - {req.Ping} | {
    req.DeleteContainer,
    req.Undecodable,
    req.Unimplemented,
}

_REFUSED = of_kind(Kind.WRITE, Kind.PART) | {req.Sync}
_REFUSED_OPCODES = frozenset(BY_REQUEST[kind].opcode for kind in _REFUSED)


def is_write(request: req.Request) -> bool:
    """Whether a request takes a zxid, so that the leader must see it."""
    return request.__class__ in _WRITES or (isinstance(request, req.Undecodable) and request.takes_zxid)


def is_of_any_server(request: req.Request) -> bool:
    """Whether a request is obeyed wherever its session has moved to: the real server forgets to ask [V].

    >>> is_of_any_server(req.Multi(())), is_of_any_server(req.Multi((req.Check("/", -1),)))
    (True, False)
    """
    return request.__class__ in _OF_ANY_SERVER or (isinstance(request, req.Multi) and not request.operations)


def is_refused_read_only(request: req.Request) -> bool:
    """Whether a read-only server answers NOT_READ_ONLY; it looks at no more than the opcode."""
    if isinstance(request, req.Undecodable | req.Unimplemented):
        return request.opcode in _REFUSED_OPCODES
    return request.__class__ in _REFUSED


def record_of(request: req.Request, asker: Asker, tree: DataTree, session_id: int) -> txns.Record:
    """What a write does to the leader's tree, checked; an `ErrorTxn` where it may not."""
    if isinstance(request, req.CloseSession):
        return txns.CloseSessionTxn(tuple(tree.ephemerals_of(session_id)))
    if isinstance(request, req.CreateSession):
        return txns.CreateSessionTxn(request.timeout_ms)
    if isinstance(request, req.Undecodable):
        return txns.ErrorTxn(Code.MARSHALLING_ERROR)
    try:
        if isinstance(request, req.Multi):
            return prepare_multi(request, asker, tree.find, session_id)
        return PREPARE[request.__class__](request, asker, tree.find)
    except RefusedError as refused:
        return txns.ErrorTxn(refused.code)


def reply_to(xid: int, request: req.Request, transaction: txns.Transaction, body: object) -> Reply:
    """The reply to a write once its transaction is applied; `body` is what applying it returned."""
    record = transaction.record
    error = record.error if isinstance(record, txns.ErrorTxn) else 0
    if isinstance(request, req.Multi):
        body = multi_results(record, body)
    elif isinstance(request, req.CloseSession):
        body = None
    return Reply(xid, transaction.zxid, error, body)


if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.ensemble.ensemble import Ensemble
    from simzk.zookeeper.persistence import Restoration
    from simzk.zookeeper.requests import Request

    Answer = Callable[[txns.Transaction, object], None]


class Replica(Server):
    """A server that applies an ensemble's history; `Member` adds what its clients see.

    Attributes:
        server_id: its number, the first byte of the ids of sessions that begin here.
        role: what it is doing.
        since_ms: since when.
        epoch: of the leader that it last was or followed; 0 before the first (currentEpoch).
        position: up to where it has applied the history.
        logged: up to where it has the history on its disk.
        tally: what it counts of the history.
        lag_ms: how much later than the leader it applies a transaction.
        lag_transactions: by how many transactions it may be behind as long as nobody here waits for them.
    """

    def __init__(self, ensemble: Ensemble, server_id: int, now_ms: int, past: Restoration | None = None) -> None:
        config = ensemble.config.server._replace(server_id=server_id)
        zxid = 0 if past is None else past.zxid
        super().__init__(config, now_ms=now_ms, tree=None if past is None else past.tree, zxid=zxid)
        first_id = first_session_id(server_id, now_ms)
        self.sessions: MemberSessions = MemberSessions(self.config.tick_time_ms, first_id, self._tell_leader)
        for session_id, timeout_ms in () if past is None else past.sessions.items():
            self.sessions.add(session_id, timeout_ms, now_ms)
        self.server_id = server_id
        self.role: Role = Role.LOOKING
        self.since_ms: int = now_ms
        self.epoch: int = 0
        self.tally: Tally = Tally()
        self.tally.looked = 1
        self.position: int = 0
        self.logged: int = 0
        self.lag_ms = self.lag_transactions = 0
        self._ensemble = ensemble
        self._demanded = 0
        self._applied_zxid = zxid
        self._awaited: dict[int, list[tuple[MemberConnection, Answer]]] = {}
        self.configure(now_ms)

    def __repr__(self) -> str:
        return f"Member({self.server_id}, {self.role.name}, zxid=0x{self.zxid:x})"

    @property
    def mode(self) -> str:
        if self.role is Role.FOLLOWING and self.server_id in self._ensemble.membership.observers:
            return "observer"
        return self.role.value if self.role.serves else ""

    def configure(self, now_ms: int) -> None:
        """Every server writes /zookeeper/config itself, outside of the history (§2.4)."""
        node = self.tree.get("/zookeeper/config")
        if node is not None:
            membership = self._ensemble.membership
            node.data, node.version, node.mzxid, node.mtime_ms = membership.text, -1, membership.version, now_ms

    # Roles

    def take(self, role: Role, now_ms: int) -> None:
        """Do something else from now on: whatever it is, all connections end."""
        for connection in list(self._connections.values()):
            self._close(connection)
        self._awaited.clear()
        for session_id in list(self.sessions.local):
            self.sessions.remove(session_id)
        if role is Role.DOWN:
            self.tally.reset()
        elif role is Role.LOOKING and self.role is not Role.LOOKING:
            self.tally.looked += 1
        self.role, self.since_ms, self.zxid = role, now_ms, self._applied_zxid

    def lead(self, zxid: int, now_ms: int) -> None:
        """Lead from now on: sessions have their whole timeouts again, and the next transaction follows `zxid`."""
        self.take(Role.LEADING, now_ms)
        self.zxid: int = zxid
        self.epoch = zxid >> 32
        self.tally.reset_sizes()
        for session_id, timeout_ms in self.sessions.timeouts_ms():
            self.sessions.touch_as_told(session_id, now_ms, timeout_ms)
        self._sweeper = Sweeper(self.tree, self.config, now_ms)
        self._sweeper.note(now_ms)

    def join(self, now_ms: int) -> None:
        """Follow from now on, beginning with all that is committed."""
        self.take(Role.FOLLOWING, now_ms)
        self.epoch = self._ensemble.epoch
        self.tally.forwarded = 0
        self.logged = self._ensemble.history.end
        self.catch_up(now_ms)
        self.configure(now_ms)

    def _tell_leader(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        leader = self._ensemble.leading
        if leader is not None and leader is not self and self.role is Role.FOLLOWING:
            leader.sessions.touch_as_told(session_id, now_ms, timeout_ms)

    # Applying

    def apply(self, transaction: txns.Transaction) -> object:
        """The leader's next transaction: all others learn it."""
        assert self.role is Role.LEADING, "only the leader makes transactions"
        body = super().apply(transaction)
        self._applied_zxid = transaction.zxid
        self._ensemble.commit(transaction)
        return body

    def follow(self, now_ms: int) -> None:
        """Apply what is due by now."""
        history = self._ensemble.history
        until = self._until()
        while self.position < until and history[self.position].time_ms + self.lag_ms <= now_ms:
            self._learn(history[self.position], now_ms)
            until = self._until()

    def catch_up(self, now_ms: int) -> None:
        """Apply all that it has on its disk."""
        while self.position < self.logged:
            self._learn(self._ensemble.history[self.position], now_ms)

    def _until(self) -> int:
        return min(self.logged, max(self.logged - self.lag_transactions, self._demanded))

    def due_ms(self) -> int | None:
        """When it next has something to do by itself beside what the ensemble does: apply, or end a local session."""
        if self.role is Role.FOLLOWING and self.position < self._until():
            return self._ensemble.history[self.position].time_ms + self.lag_ms
        return min((session.expiry_ms for session in self.sessions.local_sessions()), default=None)

    def _learn(self, transaction: txns.Transaction, now_ms: int) -> None:
        self.position += 1
        self.tally.learned += 1
        body = super().apply(transaction)
        self._applied_zxid = transaction.zxid
        session_id, record = transaction.session_id, transaction.record
        if isinstance(record, txns.CreateSessionTxn) and session_id in self._connections:
            self._connections[session_id].session = self.sessions.get(session_id)
        for connection, answer in self._awaited.pop(self.position, ()):
            if not connection.closed:
                awaited = connection.waiting.popleft()
                assert awaited == Awaited(self.position)
                answer(transaction, body)
                self._go_on(connection, now_ms)
        if isinstance(record, txns.CloseSessionTxn):
            self.close_connection_of(session_id)

    def close_connection_of(self, session_id: int) -> None:
        """The session is over: its connection here, if there is one, ends."""
        connection = self._connections.get(session_id)
        if connection is not None:
            self._close(connection)

    def _await(self, connection: MemberConnection, position: int, answer: Answer) -> None:
        connection.waiting.append(Awaited(position))
        self._awaited.setdefault(position, []).append((connection, answer))
        self._demanded = max(self._demanded, position)

    def _go_on(self, connection: MemberConnection, now_ms: int) -> None:
        """Handle what was held behind an answer, up to the next one that is waited for."""
        while connection.waiting and not connection.closed:
            held = connection.waiting[0]
            if isinstance(held, Awaited):
                return
            connection.waiting.popleft()
            self._handle_here(connection, held.xid, held.request, now_ms)

    def _handle_here(self, connection: MemberConnection, xid: int, request: Request, now_ms: int) -> None:
        """A request that needs no leader, and waits for nothing any more."""
        super().handle(connection, xid, request, now_ms)

    def _close(self, connection: Connection) -> None:
        super()._close(connection)
        if isinstance(connection, MemberConnection):
            connection.waiting.clear()


CONFIG_PATH = "/zookeeper/config"


class Member(Replica):
    """One server of an ensemble, made by `Ensemble`; to its clients and to its driver it is a server as any other.

    What a driver asks of time (`tick`, `next_deadline_ms`) and of sessions (`expire`, `restart`) is the ensemble's.
    """

    # Connections

    def connect(
        self, request: req.ConnectRequest, now_ms: int, *, address: str = "127.0.0.1", owner: object = None
    ) -> MemberConnection:
        """A client has connected; as `Server.connect`. The answer may wait until this server knows the session."""
        connection = MemberConnection(address, owner, self.config, self.tree.quotas)
        is_read_only = self.role is Role.READ_ONLY
        if (
            not self.role.serves
            or (is_read_only and not request.read_only)
            or request.last_zxid_seen > self.zxid
            or (is_read_only and request.session_id in self.sessions and request.session_id not in self.sessions.local)
        ):
            self._close(connection)
            return connection
        connection.timeout_ms = self.config.clamp_timeout(request.timeout_ms)
        connection.read_only = None if request.read_only is None else is_read_only
        if request.session_id != 0:
            self._take_up(connection, request, now_ms)
        else:
            self._begin(connection, now_ms)
        return connection

    def _begin(self, connection: MemberConnection, now_ms: int) -> None:
        session_id = connection.session_id = self.sessions.new_id()
        self._connections[session_id] = connection
        if self.role is Role.READ_ONLY or self._ensemble.config.local_sessions:
            connection.session = self.sessions.add_local(session_id, connection.timeout_ms, now_ms)
            self._greet(connection)
            return
        self._ensemble.owners[session_id] = self.server_id
        record = txns.CreateSessionTxn(connection.timeout_ms)
        self._propose(connection, 0, record, now_ms, lambda transaction, body: self._greet(connection))

    def _take_up(self, connection: MemberConnection, request: req.ConnectRequest, now_ms: int) -> None:
        """Re-attach. What counts is whether the leader knows the session (Learner.validateSession)."""
        session_id = request.session_id
        self.close_connection_of(session_id)
        is_local = session_id in self.sessions.local
        leader = self if self.role is Role.READ_ONLY or is_local else self._ensemble.leading
        assert leader is not None, "who follows has a leader"
        knows = session_id in leader.sessions and (leader is self or session_id not in leader.sessions.local)
        if not knows or request.password != password_of(session_id):
            self._send(connection, ConnectResponse(0, 0, 0, bytes(16), connection.read_only))
            self._close(connection)
            return
        if self.role is not Role.READ_ONLY and not is_local:
            self._ensemble.owners[session_id] = self.server_id
        leader.sessions.touch_as_told(session_id, now_ms, connection.timeout_ms)
        connection.session_id = session_id
        self._connections[session_id] = connection
        connection.session = self.sessions.get(session_id)
        if connection.session is not None:
            self._greet(connection)
        else:
            end = self._ensemble.history.end
            self._await(connection, end, lambda transaction, body: self._greet(connection))
            self.follow(now_ms)

    def _greet(self, connection: MemberConnection) -> None:
        if connection.session is None:
            connection.session = self.sessions.get(connection.session_id)
        self._send_session(connection)

    # Requests

    def handle(
        self, connection: Connection, xid: int, request: req.Request | Batch, now_ms: int, at_once: bool = False
    ) -> Reply | None:
        """One request of a connection; as `Server.handle`, but that the reply may wait, and is in an outbox always.

        No batches come here.
        """
        assert isinstance(connection, MemberConnection)
        assert not isinstance(request, Batch)
        if connection.closed or connection.leaving:
            return None
        if connection.session_id in self.sessions.local and self.role is not Role.READ_ONLY:
            self._handle_local(connection, xid, request, now_ms)
        else:
            self._handle_global(connection, xid, request, now_ms)
        return None

    def _handle_local(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        """One request of a local session, which may have to become global for it."""
        if isinstance(request, req.CloseSession):
            connection.leaving = True
            if connection.waiting:
                connection.waiting.append(Held(xid, request))
            else:
                self._handle_here(connection, xid, request, now_ms)
        elif isinstance(request, req.CreateSession) and connection.waiting:
            connection.waiting.append(Held(xid, request))
        elif isinstance(request, req.CreateSession):
            self._handle_here(connection, xid, request, now_ms)
        elif not makes_ephemeral(request):
            self._handle_global(connection, xid, request, now_ms)
        elif self._ensemble.config.upgrades_sessions:
            self._upgrade(connection, now_ms)
            self._handle_global(connection, xid, request, now_ms)
        else:
            leader = self._ensemble.leading
            assert leader is not None, "who serves has a leader"
            self._touch(connection, now_ms)
            asker = connection.asker._replace(quotas=leader.tree.quotas)
            led = leader is self
            record = refused_record(request, asker, leader.tree, connection.session_id, led=led)
            self._propose_write(connection, xid, request, record, now_ms)

    def _upgrade(self, connection: MemberConnection, now_ms: int) -> None:
        """Make a local session one of all servers."""
        session_id = connection.session_id
        self.sessions.remove(session_id)
        connection.session = None
        self._ensemble.owners[session_id] = self.server_id
        record = txns.CreateSessionTxn(connection.timeout_ms)
        self._propose(connection, 0, record, now_ms, lambda transaction, body: self._know(connection))

    def _know(self, connection: MemberConnection) -> None:
        connection.session = self.sessions.get(connection.session_id)

    def _handle_here(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        if isinstance(request, req.CloseSession) and connection.session_id in self.sessions.local:
            self._send(connection, Reply(xid, self.zxid, 0, None))
            self._end_locally(connection.session_id)
        elif isinstance(request, req.CreateSession) and connection.session_id in self.sessions.local:
            self._send_session(connection)
        else:
            super()._handle_here(connection, xid, request, now_ms)

    def _handle_global(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        if self.role is Role.LEADING:
            if isinstance(request, req.Reconfig) and self._is_mine(connection):
                self._reconfigure(connection, xid, request, now_ms)
            elif self._is_mine(connection) or is_of_any_server(request):
                super().handle(connection, xid, request, now_ms)
            else:
                if is_write(request):
                    self._refuse_moved(connection, xid, now_ms)
                self._close(connection)
        elif self.role is Role.READ_ONLY:
            self._handle_read_only(connection, xid, request, now_ms)
        elif is_write(request) and request.__class__ not in self._rules.unknown:
            self._forward(connection, xid, request, now_ms)
        elif isinstance(request, req.Sync) and self.position < self._ensemble.history.end:
            answered = Reply(xid, 0, 0, request.path)
            self._await(
                connection,
                self._ensemble.history.end,
                lambda transaction, body: self._send(connection, answered._replace(zxid=self.zxid)),
            )
            self.follow(now_ms)
        elif connection.waiting and (connection.session is None or not isinstance(request, req.Auth | req.Sasl)):
            connection.waiting.append(Held(xid, request))
        else:
            super().handle(connection, xid, request, now_ms)

    def _is_mine(self, connection: Connection) -> bool:
        """Whether the connection's session was attached nowhere else since."""
        if connection.session_id in self.sessions.local:
            return True
        return self._ensemble.owners.get(connection.session_id) == self.server_id

    def _touch(self, connection: Connection, now_ms: int) -> None:
        if connection.session is not None:
            self.sessions.touch(connection.session, now_ms, connection.timeout_ms)

    def _handle_read_only(self, connection: Connection, xid: int, request: req.Request, now_ms: int) -> None:
        if is_refused_read_only(request):
            self._touch(connection, now_ms)
            self._send(connection, Reply(xid, self.zxid, Code.NOT_READ_ONLY, None))
        else:
            assert isinstance(connection, MemberConnection)
            self._handle_here(connection, xid, request, now_ms)

    def _end_locally(self, session_id: int) -> None:
        self.sessions.remove(session_id)
        self.close_connection_of(session_id)

    def _forward(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        """Have the leader make a write."""
        leader, session_id = self._ensemble.leading, connection.session_id
        assert leader is not None, "who follows has a leader"
        if session_id not in leader.sessions and session_id not in self.sessions.local:
            return  # it has ended, and its end is on the way here
        self._touch(connection, now_ms)
        if not self._is_mine(connection) and not is_of_any_server(request):
            self._refuse_moved(connection, xid, now_ms)
            return
        if isinstance(request, req.Reconfig):
            self._reconfigure(connection, xid, request, now_ms)
            return
        asker = connection.asker._replace(quotas=leader.tree.quotas)
        self._propose_write(connection, xid, request, record_of(request, asker, leader.tree, session_id), now_ms)
        if isinstance(request, req.CloseSession):
            connection.leaving = True
            leader.close_connection_of(session_id)

    def _propose_write(
        self, connection: MemberConnection, xid: int, request: req.Request, record: txns.Record, now_ms: int
    ) -> None:
        def answer(transaction: txns.Transaction, body: object) -> None:
            if isinstance(request, req.CreateSession):
                self._send_session(connection)
            else:
                self._send(connection, reply_to(xid, request, transaction, body))

        self._propose(connection, xid, record, now_ms, answer)

    def _reconfigure(self, connection: MemberConnection, xid: int, request: req.Reconfig, now_ms: int) -> None:
        """Have the leader change who belongs to the ensemble: a write of /zookeeper/config, and what follows of it."""
        leader = self._ensemble.leading
        assert leader is not None, "who serves has a leader"
        self._touch(connection, now_ms)
        try:
            membership = self._membership_after(request, connection.asker, leader)
        except RefusedError as refused:
            code = refused.code
            self._propose(
                connection,
                xid,
                txns.ErrorTxn(code),
                now_ms,
                lambda transaction, body: self._send(connection, Reply(xid, transaction.zxid, code, None)),
            )
            return
        text = membership.text
        self._propose(
            connection,
            xid,
            txns.SetDataTxn(CONFIG_PATH, text, -1),
            now_ms,
            lambda transaction, body: self._send(connection, Reply(xid, transaction.zxid, 0, (text, body))),
        )
        self._ensemble.adopt(membership, now_ms)

    def _membership_after(self, request: req.Reconfig, asker: Asker, leader: Member) -> Membership:
        if not self.config.reconfig_enabled:
            raise RefusedError(Code.RECONFIG_DISABLED)
        membership = self._ensemble.membership.after(request, leader.zxid + 1)
        if not self._ensemble.can_adopt(membership):
            raise RefusedError(Code.NEW_CONFIG_NO_QUORUM)
        node = leader.tree.find(CONFIG_PATH)
        assert node is not None, "only releases with this node know of reconfigurations"
        asker.need(node, permission_of(req.Reconfig))
        return membership

    def _refuse_moved(self, connection: MemberConnection, xid: int, now_ms: int) -> None:
        """A write of a session that has moved on: a transaction that failed, and no reply."""
        record = txns.ErrorTxn(Code.SESSION_MOVED)
        self._propose(connection, xid, record, now_ms, lambda transaction, body: self._close(connection))

    def _propose(
        self, connection: MemberConnection, xid: int, record: txns.Record, now_ms: int, answer: Answer
    ) -> None:
        """Make a record the leader's next transaction, and answer once it is applied here."""
        leader, end = self._ensemble.leading, self._ensemble.history.end
        assert leader is not None, "who serves has a leader"
        transaction = txns.Transaction(connection.session_id, xid, leader.zxid + 1, now_ms, record)
        if leader is self:
            answer(transaction, self.apply(transaction))
        else:
            self._await(connection, end + 1, answer)
            self.tally.forwarded += 1
            leader.apply(transaction)

    # What is the ensemble's

    @property
    def place(self) -> Place:
        """Its place in the ensemble."""
        return self._ensemble.place_of(self)

    def tick(self, now_ms: int) -> None:
        """Let time do its work in the whole ensemble."""
        self._ensemble.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When the ensemble next has something to do by itself."""
        return self._ensemble.next_deadline_ms()

    def expire(self, session_id: int, now_ms: int) -> bool:
        """End a session now, wherever it is attached."""
        return self._ensemble.expire(session_id, now_ms)

    def restart(self, now_ms: int) -> None:
        """Stop and start all servers at once."""
        self._ensemble.restart(now_ms)

    def expire_as_leader(self, session_id: int, now_ms: int) -> bool:
        """End a session by a transaction."""
        return super().expire(session_id, now_ms)

    def tick_as_leader(self, now_ms: int) -> None:
        """End the sessions that nobody has heard of, and sweep."""
        self.tick_locally(now_ms)
        for session in self.sessions.due(now_ms):
            connection = self._ensemble.attended_connection(session.session_id)
            if connection is not None:
                self.sessions.touch(session, now_ms, connection.timeout_ms)
            else:
                self.expire_as_leader(session.session_id, now_ms)
        for path in self._sweeper.due(now_ms):
            self.apply(txns.Transaction(0, 0, self.zxid + 1, now_ms, txns.DeleteContainerTxn(path)))

    def tick_locally(self, now_ms: int) -> None:
        """End this server's own sessions that nobody has heard of."""
        for session in self.sessions.local_sessions():
            if session.expiry_ms <= now_ms:
                connection = self.connection_of(session.session_id)
                if connection is not None and connection.attended:
                    self.sessions.touch(session, now_ms, connection.timeout_ms)
                else:
                    self.expire_locally(session.session_id)

    def expire_locally(self, session_id: int) -> None:
        """End one of this server's own sessions."""
        self._count_expiry()
        self._end_locally(session_id)

    def leader_deadline_ms(self) -> int | None:
        """When the leader next has a session to end or a sweep to make."""
        deadlines = (self.sessions.next_expiry_ms(), self._sweeper.next_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)
