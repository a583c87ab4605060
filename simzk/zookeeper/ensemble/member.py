"""One server of an ensemble: requests of its clients, the leader's transactions, and its role.

Rules of requests:
  - the leader checks a write against its own tree and makes it a transaction. A follower answers its client when it has
    applied that transaction, so a session reads its own writes;
  - replies of a connection keep the order of its requests: requests behind a waiting reply are queued, and processed
    when that reply is given, so that a read sees the write before it and no later one. Writes are forwarded at once,
    because nothing before them can change them;
  - writes, syncs and new sessions wait while no leader commits, and so do requests behind them on the connection.
    Touches of sessions reach the leader when it is in reach again, so that sessions of connected clients can expire;
  - a session belongs to the server it was last attached to. On a follower its old connection can still read; its first
    write there takes a zxid, changes nothing and closes the connection. The leader closes such a connection at its
    first request of any kind [V]; a few requests are accepted anywhere (`is_accepted_anywhere`);
  - a change of role closes all connections, as in a real server;
  - a read-only server has only local sessions, and rejects those of the ensemble.

Source: QuorumPeer, Leader, Learner, FollowerRequestProcessor, PrepRequestProcessor, FinalRequestProcessor.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.connection import Connection
from simzk.zookeeper.ensemble.roles import EnsembleRole, Role, ServerCounters
from simzk.zookeeper.ensemble.routing import (
    is_accepted_anywhere,
    is_write,
    makes_ephemeral,
    rejected_record,
    requires_leader,
    requires_write_access,
)
from simzk.zookeeper.ensemble.sessions import MemberSessions
from simzk.zookeeper.operations import permission_of
from simzk.zookeeper.replies import Code, ConnectResponse, RefusedError, Reply
from simzk.zookeeper.server import Batch, Server, Sweeper, record_of
from simzk.zookeeper.sessions import first_session_id, password_of
from simzk.zookeeper.znode import CONFIG_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.ensemble.membership import Membership
    from simzk.zookeeper.ensemble.replication import Replication
    from simzk.zookeeper.persistence import Restoration
    from simzk.zookeeper.prepare import Asker, PendingCversions
    from simzk.zookeeper.quotas import Quotas

    Answer = Callable[[txns.Transaction, object], None]


class WholeEnsemble(Protocol):
    """Operations of the whole ensemble, which a driver calls on any of its servers."""

    def tick(self, now_ms: int) -> None:
        """Perform all actions that are due."""

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next due action, or None."""

    def expire(self, session_id: int, now_ms: int) -> bool:
        """Expire a session; return whether it was live."""

    def restart(self, now_ms: int) -> None:
        """Restart all running servers."""

    def adopt(self, membership: Membership, now_ms: int) -> None:
        """Make a committed reconfiguration effective."""

    def place_of(self, member: Member) -> EnsembleRole:
        """Return the role of a server for monitoring."""


class QueuedRequest(NamedTuple):
    """Request that waits behind others of its connection."""

    xid: int
    request: req.Request


class MemberConnection(Connection):
    """Connection to a member, made by `Member.connect`.

    Attributes:
        waiting: what waits, in the order of the replies: requests, and for a reply the position up to which the server
            has to apply the history first.
        leaving: whether the client closed its session; later requests are ignored.
        stalled: whether a request waits until the leader can be reached, and later ones behind it.
    """

    __slots__ = ("leaving", "stalled", "waiting")

    def __init__(
        self, address: str, owner: object, config: ServerConfig, quotas: Quotas, pending: PendingCversions
    ) -> None:
        super().__init__(address, owner, config, quotas, pending)
        self.waiting: deque[QueuedRequest | int] = deque()
        self.leaving: bool = False
        self.stalled: bool = False


class Member(Server):
    """Server of an ensemble, made by `Ensemble`; its clients and its driver use it as any other server.

    `tick`, `next_deadline_ms`, `expire` and `restart` act on the whole ensemble.

    Args:
        shared: what the servers of the ensemble have in common.
        whole: operations of the whole ensemble.
        server_id: its id.
        now_ms: time at which it starts.
        past: restored state; None for a new server.

    Attributes:
        server_id: id, the first byte of the ids of sessions created here.
        role: present role.
        since_ms: time since which it has the role.
        epoch: epoch of the last leader that it was or followed; 0 before the first (currentEpoch).
        position: position up to which it has applied the history.
        logged: position up to which it has the history on disk.
        tally: counters.
        lag_ms: delay between the leader's and its own application of a transaction.
        lag_transactions: number of transactions that it leaves unapplied while no reply here waits for them.
    """

    expired: int

    def __init__(
        self,
        shared: Replication[Member],
        whole: WholeEnsemble,
        server_id: int,
        now_ms: int,
        past: Restoration | None = None,
    ) -> None:
        config = shared.config.server._replace(server_id=server_id)
        zxid = 0 if past is None else past.zxid
        super().__init__(config, now_ms=now_ms, tree=None if past is None else past.tree, zxid=zxid)
        first_id = first_session_id(server_id, now_ms)
        self.sessions: MemberSessions = MemberSessions(
            config.tick_time_ms, first_id, config.tick_origin_ms, self._touch_at_leader
        )
        for session_id, timeout_ms in () if past is None else past.sessions.items():
            self.sessions.add(session_id, timeout_ms, now_ms)
        self.server_id = server_id
        self.role: Role = Role.LOOKING
        self.since_ms: int = now_ms
        self.epoch: int = 0
        self.tally: ServerCounters = ServerCounters()
        self.tally.looked = 1
        self.position: int = 0
        self.logged: int = 0
        self.lag_ms = self.lag_transactions = 0
        self._shared = shared
        self._whole = whole
        self._demanded = 0
        self._applied_zxid = zxid
        self._awaited: dict[int, list[tuple[MemberConnection, Answer]]] = {}
        self._stalled: deque[tuple[MemberConnection, Callable[[int], object]]] = deque()
        self._unsent_touches: dict[int, int] = {}  # timeouts in ms by session id, while the leader is out of reach
        self.configure(now_ms)

    def __repr__(self) -> str:
        return f"Member({self.server_id}, {self.role.name}, zxid=0x{self.zxid:x})"

    @property
    def mode(self) -> str:
        if self.role is Role.FOLLOWING and self.server_id in self._shared.membership.observers:
            return "observer"
        return self.role.value if self.role.serves else ""

    def configure(self, now_ms: int) -> None:
        """Write /zookeeper/config, which each server does outside the history (§2.4)."""
        node = self.tree.get(CONFIG_PATH)
        if node is not None:
            membership = self._shared.membership
            node.data, node.version, node.mzxid, node.mtime_ms = membership.text, -1, membership.version, now_ms

    # Roles

    def change_role(self, role: Role, now_ms: int) -> None:
        """Change to another role and close all connections."""
        for connection in list(self._connections.values()):
            self._close(connection)
        assert not self._connections
        for waiting, _ in self._stalled:
            if not waiting.closed:
                self._close(waiting)
        self._stalled.clear()
        self._unsent_touches.clear()
        assert not self.watches.data, "a watch goes with its connection"
        assert not self.watches.child
        self._awaited.clear()
        for session_id in list(self.sessions.local):
            self.sessions.remove(session_id)
        assert not self.sessions.local, "a local session ends when its server changes its role"
        if role is Role.DOWN:
            self.tally.reset()
        elif role is Role.LOOKING and self.role is not Role.LOOKING:
            self.tally.looked += 1
        self.role, self.since_ms, self.zxid = role, now_ms, self._applied_zxid

    def lead(self, zxid: int, now_ms: int) -> None:
        """Become the leader: session timeouts start anew, and the next transaction follows `zxid`."""
        assert self.position == self.logged, "a leader has applied all that it has on disk"
        self.change_role(Role.LEADING, now_ms)
        assert zxid > self._applied_zxid, f"epoch {zxid >> 32} is not above that of zxid 0x{self._applied_zxid:x}"
        self.zxid: int = zxid
        self.epoch = zxid >> 32
        self.tally.reset_sizes()
        for session_id, timeout_ms in self.sessions.timeouts_ms():
            self.sessions.touch_from_server(session_id, now_ms, timeout_ms)
        self._sweeper = Sweeper(self.tree, self.config, now_ms)

    def join(self, now_ms: int) -> None:
        """Become a follower and apply the whole history."""
        assert self._shared.leading not in (None, self), "a follower has a leader"
        assert self._shared.epoch >= self.epoch
        self.change_role(Role.FOLLOWING, now_ms)
        self.epoch = self._shared.epoch
        self.tally.forwarded = 0
        self.logged = self._shared.history.end
        self.catch_up(now_ms)
        assert self.position == self.logged
        self.configure(now_ms)

    def _touch_at_leader(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        leader = self._shared.leading
        if leader is None or leader is self or self.role is not Role.FOLLOWING:
            return
        if self._shared.is_silent(self):
            self._unsent_touches[session_id] = timeout_ms
        else:
            leader.sessions.touch_from_server(session_id, now_ms, timeout_ms)

    # Requests that wait for the leader

    def _stall(self, connection: MemberConnection, process: Callable[[int], object]) -> None:
        """Let a request wait until the leader can be reached and commits."""
        assert not connection.closed, "nothing waits on a closed connection"
        connection.stalled = True
        self._stalled.append((connection, process))

    def go_on(self, now_ms: int) -> None:
        """Learn what was committed while the leader was out of reach, and process the requests that waited for it."""
        assert self.role in (Role.LEADING, Role.FOLLOWING), "without a leader every request waits"
        if self.role is Role.FOLLOWING:
            self.logged = self._shared.history.end
            self.follow(now_ms)
        touches, self._unsent_touches = self._unsent_touches, {}
        for session_id, timeout_ms in touches.items():
            self._touch_at_leader(session_id, now_ms, timeout_ms)
        stalled, self._stalled = self._stalled, deque()
        for connection, _ in stalled:
            connection.stalled = False
        for connection, process in stalled:
            if not connection.closed:
                process(now_ms)

    # Applying

    def apply(self, transaction: txns.Transaction) -> object:
        """Apply a transaction of the leader and commit it."""
        assert self.role is Role.LEADING, f"server {self.server_id} is not the leader"
        body = self._apply_here(transaction)
        self._shared.commit(transaction)
        return body

    def _apply_here(self, transaction: txns.Transaction) -> object:
        body = super().apply(transaction)
        self._applied_zxid = transaction.zxid
        if isinstance(transaction.record, txns.CreateSessionTxn) and transaction.session_id in self._connections:
            self._connections[transaction.session_id].session = self.sessions.get(transaction.session_id)
        return body

    def follow(self, now_ms: int) -> None:
        """Apply the committed transactions that are due."""
        history = self._shared.history
        until = self._until()
        while self.position < until and history[self.position].time_ms + self.lag_ms <= now_ms:
            self._learn(history[self.position], now_ms)
            until = self._until()

    def catch_up(self, now_ms: int) -> None:
        """Apply all transactions on its disk."""
        while self.position < self.logged:
            self._learn(self._shared.history[self.position], now_ms)

    def _until(self) -> int:
        return min(self.logged, max(self.logged - self.lag_transactions, self._demanded))

    def due_ms(self) -> int | None:
        """Return the time of its next own action: applying a transaction or expiring a local session."""
        if self.role is Role.FOLLOWING and self.position < self._until():
            return self._shared.history[self.position].time_ms + self.lag_ms
        return min((session.expiry_ms for session in self.sessions.local_sessions()), default=None)

    def _learn(self, transaction: txns.Transaction, now_ms: int) -> None:
        assert self.role is not Role.LEADING, "a leader makes the history and learns nothing"
        self.position += 1
        assert self.position <= self.logged, "a transaction is on disk before it is applied"
        self.tally.learned += 1
        body = self._apply_here(transaction)
        for connection, answer in self._awaited.pop(self.position, ()):
            if not connection.closed:
                awaited = connection.waiting.popleft()
                assert awaited == self.position, "replies keep the order of the history"
                answer(transaction, body)
                self._process_queued(connection, now_ms)
        if isinstance(transaction.record, txns.CloseSessionTxn):
            self.close_connection_of(transaction.session_id)

    def close_connection_of(self, session_id: int) -> None:
        """Close the connection of a session here, if any."""
        connection = self._connections.get(session_id)
        if connection is not None:
            self._close(connection)

    def _await(self, connection: MemberConnection, position: int, answer: Answer) -> None:
        assert position > self.position, "a reply that waits for an applied transaction is never sent"
        connection.waiting.append(position)
        self._awaited.setdefault(position, []).append((connection, answer))
        self._demanded = max(self._demanded, position)

    def _process_queued(self, connection: MemberConnection, now_ms: int) -> None:
        """Process the requests queued behind a reply, up to the next waiting reply."""
        while connection.waiting and not connection.closed:
            queued = connection.waiting[0]
            if isinstance(queued, int):
                return
            connection.waiting.popleft()
            self._handle_here(connection, queued.xid, queued.request, now_ms)

    def _close(self, connection: Connection) -> None:
        super()._close(connection)
        if isinstance(connection, MemberConnection):
            connection.waiting.clear()

    # Connections

    def connect(
        self, request: req.ConnectRequest, now_ms: int, *, address: str = "127.0.0.1", owner: object = None
    ) -> MemberConnection:
        """Connect a client as `Server.connect` does; the response may wait until this server has the session."""
        connection = MemberConnection(address, owner, self.config, self.tree.quotas, self.pending)
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
        connection.read_only = self.config.rules.read_only_byte(request.read_only, is_read_only=is_read_only)
        if request.session_id != 0:
            process: Callable[[int], object] = partial(self._reattach_session, connection, request)
            waits = self._shared.is_silent(self) and request.session_id not in self.sessions.local
        else:
            process = partial(self._create_session_of, connection)
            waits = self._shared.is_stalled(self) and not self._shared.config.local_sessions
        connection.session_id = request.session_id or self.sessions.new_id()
        if waits:
            self._stall(connection, process)
        else:
            process(now_ms)
        return connection

    def _create_session_of(self, connection: MemberConnection, now_ms: int) -> None:
        session_id = connection.session_id
        assert session_id not in self._connections, "a new session has no connection yet"
        self._connections[session_id] = connection
        if self.role is Role.READ_ONLY or self._shared.config.local_sessions:
            connection.session = self.sessions.add_local(session_id, connection.timeout_ms, now_ms)
            self._send_session(connection)
            return
        self._shared.owners[session_id] = self.server_id
        record = txns.CreateSessionTxn(connection.timeout_ms)
        self._propose(connection, 0, record, now_ms, lambda transaction, body: self._send_session(connection))

    def _reattach_session(self, connection: MemberConnection, request: req.ConnectRequest, now_ms: int) -> None:
        """Reattach a session if the leader has it (Learner.validateSession)."""
        session_id = request.session_id
        self.close_connection_of(session_id)
        is_local = session_id in self.sessions.local
        leader = self if self.role is Role.READ_ONLY or is_local else self._shared.leading
        assert leader is not None, "a serving member has a leader"
        is_live = session_id in leader.sessions and (leader is self or session_id not in leader.sessions.local)
        if not is_live or request.password != password_of(session_id):
            connection.session_id = 0
            self._send(connection, ConnectResponse(0, 0, 0, bytes(16), connection.read_only))
            self._close(connection)
            return
        if self.role is not Role.READ_ONLY and not is_local:
            self._shared.owners[session_id] = self.server_id
        leader.sessions.touch_from_server(session_id, now_ms, connection.timeout_ms)
        assert session_id not in self._connections, "the old connection of a session is closed first"
        self._connections[session_id] = connection
        connection.session = self.sessions.get(session_id)
        if connection.session is not None:
            self._send_session(connection)
        else:
            end = self._shared.history.end
            self._await(connection, end, lambda transaction, body: self._send_session(connection))
            self.follow(now_ms)

    def _send_session(self, connection: Connection) -> None:
        assert connection.session is not None, "the server has applied the creation of the session"
        super()._send_session(connection)

    # Requests

    def handle(
        self, connection: Connection, xid: int, request: req.Request | Batch, now_ms: int, at_once: bool = False
    ) -> Reply | None:
        """Process a request as `Server.handle` does, but never return the reply, which may have to wait.

        Members accept no batches.
        """
        assert isinstance(connection, MemberConnection)
        assert not isinstance(request, Batch)
        if connection.closed or connection.leaving:
            return None
        if connection.stalled or (self._shared.is_stalled(self) and requires_leader(request)):
            self._touch(connection, now_ms)
            self._stall(connection, partial(self.handle, connection, xid, request))
        elif connection.session_id in self.sessions.local and self.role is not Role.READ_ONLY:
            self._handle_local(connection, xid, request, now_ms)
        else:
            self._handle_global(connection, xid, request, now_ms)
        return None

    def _handle_local(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        """Process a request of a local session, which may have to become global for it."""
        if isinstance(request, req.CloseSession | req.CreateSession):
            connection.leaving = isinstance(request, req.CloseSession)
            if connection.waiting:
                connection.waiting.append(QueuedRequest(xid, request))
            else:
                self._handle_here(connection, xid, request, now_ms)
        elif not makes_ephemeral(request):
            self._handle_global(connection, xid, request, now_ms)
        elif self._shared.config.upgrades_sessions:
            self._upgrade(connection, now_ms)
            self._handle_global(connection, xid, request, now_ms)
        else:
            leader = self._shared.leading
            assert leader is not None, "a serving member has a leader"
            self._touch(connection, now_ms)
            asker = self._asker_at(leader, connection)
            record = rejected_record(request, asker, leader.tree, connection.session_id, led=leader is self)
            self._propose(connection, xid, record, now_ms, partial(self._answer_write, connection, request))

    def _upgrade(self, connection: MemberConnection, now_ms: int) -> None:
        session_id = connection.session_id
        self.sessions.upgrade(session_id)
        self._shared.owners[session_id] = self.server_id
        record = txns.CreateSessionTxn(connection.timeout_ms)
        self._propose(connection, 0, record, now_ms, lambda transaction, body: None)

    def _handle_here(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        """Process a request that needs no leader and waits for nothing."""
        if isinstance(request, req.CloseSession) and connection.session_id in self.sessions.local:
            self._send(connection, Reply(xid, self.zxid, 0, None))
            self._remove_local(connection.session_id)
        elif isinstance(request, req.CreateSession) and connection.session_id in self.sessions.local:
            self._send_session(connection)
        else:
            super().handle(connection, xid, request, now_ms)

    def _handle_global(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        if self.role is Role.LEADING:
            if isinstance(request, req.Reconfig) and self._owns_session_of(connection):
                self._reconfigure(connection, xid, request, now_ms)
            elif self._owns_session_of(connection) or is_accepted_anywhere(request):
                super().handle(connection, xid, request, now_ms)
            else:
                if is_write(request):
                    self._reject_moved(connection, xid, now_ms)
                self._close(connection)
        elif self.role is Role.READ_ONLY and requires_write_access(request):
            self._touch(connection, now_ms)
            self._send(connection, Reply(xid, self.zxid, Code.NOT_READ_ONLY, None))
        elif self.role is Role.READ_ONLY:
            self._handle_here(connection, xid, request, now_ms)
        elif (is_write(request) and request.__class__ not in self._rules.unknown) or (
            isinstance(request, req.Check) and not self._rules.refuses_check
        ):
            self._forward(connection, xid, request, now_ms)
        elif isinstance(request, req.Sync) and self.position < self._shared.history.end:
            path, end = request.path, self._shared.history.end
            self._await(connection, end, lambda made, body: self._send(connection, Reply(xid, self.zxid, 0, path)))
            self.follow(now_ms)
        elif connection.waiting and (
            connection.session_id in self.sessions.upgrading or not isinstance(request, req.Auth | req.Sasl)
        ):
            connection.waiting.append(QueuedRequest(xid, request))
        else:
            super().handle(connection, xid, request, now_ms)

    def _owns_session_of(self, connection: Connection) -> bool:
        """Return whether this server is the last one that the connection's session was attached to."""
        session_id = connection.session_id
        return session_id in self.sessions.local or self._shared.owners.get(session_id) == self.server_id

    def _touch(self, connection: Connection, now_ms: int) -> None:
        if connection.session is not None:
            self.sessions.touch(connection.session, now_ms, connection.timeout_ms)

    def _remove_local(self, session_id: int) -> None:
        assert session_id in self.sessions.local
        self.sessions.remove(session_id)
        self.close_connection_of(session_id)
        assert session_id not in self._connections, "a local session ends with its connection"

    def _forward(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        assert self.role is Role.FOLLOWING, "a leader processes writes itself"
        leader, session_id = self._shared.leading, connection.session_id
        assert leader is not None, "a serving member has a leader"
        if session_id not in leader.sessions and session_id not in self.sessions.local:
            # The session has ended, and this server has not applied that yet. The write still takes a zxid
            # (PrepRequestProcessor.pRequest2Txn, checkSession); requests behind it wait, and are closed before it.
            is_close = isinstance(request, req.CloseSession)
            ended = txns.CloseSessionTxn(()) if is_close else txns.ErrorTxn(Code.SESSION_EXPIRED)
            self._propose(connection, xid, ended, now_ms, lambda transaction, body: self._close(connection))
            return
        self._touch(connection, now_ms)
        if not self._owns_session_of(connection) and not is_accepted_anywhere(request):
            self._reject_moved(connection, xid, now_ms)
            return
        if isinstance(request, req.Reconfig):
            self._reconfigure(connection, xid, request, now_ms)
            return
        asker = self._asker_at(leader, connection)
        record = record_of(request, asker, leader.tree, session_id)
        is_close = isinstance(request, req.CloseSession)

        def answer(transaction: txns.Transaction, body: object) -> None:
            self._answer_write(connection, request, transaction, body)
            if is_close and isinstance(record, txns.ErrorTxn):
                self._close(connection)

        self._propose(connection, xid, record, now_ms, answer)
        if is_close:
            connection.leaving = True
            leader.close_connection_of(session_id)
            if session_id in leader.sessions:
                leader.drop_session(session_id)

    def _asker_at(self, leader: Member, connection: MemberConnection) -> Asker:
        """Return for whom the leader checks a request of a client of this server, which answers it."""
        pending = leader.pending._replace(unsent=self._unsent)
        return connection.asker._replace(quotas=leader.tree.quotas, pending=pending)

    def _reconfigure(self, connection: MemberConnection, xid: int, request: req.Reconfig, now_ms: int) -> None:
        """Forward a reconfiguration: the leader writes /zookeeper/config, and the ensemble adopts the membership."""
        leader = self._shared.leading
        assert leader is not None, "a serving member has a leader"
        self._touch(connection, now_ms)
        try:
            membership = self._membership_after(request, connection.asker, leader)
        except RefusedError as refused:
            error = txns.ErrorTxn(refused.code)
            self._propose(connection, xid, error, now_ms, partial(self._answer_write, connection, request))
            return

        def answer(transaction: txns.Transaction, body: object) -> None:
            self._send(connection, Reply(xid, transaction.zxid, 0, (membership.text, body)))

        self._propose(connection, xid, txns.SetDataTxn(CONFIG_PATH, membership.text, -1), now_ms, answer)
        self._whole.adopt(membership, now_ms)

    def _membership_after(self, request: req.Reconfig, asker: Asker, leader: Member) -> Membership:
        if not self.config.reconfig_enabled:
            raise RefusedError(Code.RECONFIG_DISABLED)
        membership = self._shared.membership.after(request, leader.zxid + 1)
        if not self._shared.can_adopt(membership):
            raise RefusedError(Code.NEW_CONFIG_NO_QUORUM)
        node = leader.tree.find(CONFIG_PATH)
        assert node is not None, f"{CONFIG_PATH} exists in all releases with Reconfig"
        asker.need(node, permission_of(req.Reconfig))
        return membership

    def _reject_moved(self, connection: MemberConnection, xid: int, now_ms: int) -> None:
        """Reject a write of a session that moved to another server: a failed transaction, and no reply."""
        assert not self._owns_session_of(connection), "a session that is here has not moved"
        record = txns.ErrorTxn(Code.SESSION_MOVED)
        self._propose(connection, xid, record, now_ms, lambda transaction, body: self._close(connection))

    def _propose(
        self, connection: MemberConnection, xid: int, record: txns.Record, now_ms: int, answer: Answer
    ) -> None:
        """Make a record the leader's next transaction, and call `answer` once it is applied here."""
        leader, end = self._shared.leading, self._shared.history.end
        assert leader is not None, "a serving member has a leader"
        transaction = txns.Transaction(connection.session_id, xid, leader.zxid + 1, now_ms, record)
        if leader is self:
            answer(transaction, self.apply(transaction))
        else:
            self._await(connection, end + 1, answer)
            self.tally.forwarded += 1
            leader.apply(transaction)

    # Operations of the whole ensemble

    @property
    def place(self) -> EnsembleRole:
        """Return its role in the ensemble for monitoring."""
        return self._whole.place_of(self)

    def tick(self, now_ms: int) -> None:
        """Perform all actions of the ensemble that are due."""
        self._whole.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next action of the ensemble, or None."""
        return self._whole.next_deadline_ms()

    def expire(self, session_id: int, now_ms: int) -> bool:
        """Expire a session on any server; return whether it was live."""
        return self._whole.expire(session_id, now_ms)

    def restart(self, now_ms: int) -> None:
        """Restart all running servers."""
        self._whole.restart(now_ms)

    def keep_session(self, session_id: int, now_ms: int) -> None:
        """Start the timeout of a session anew on each server that has it."""
        for member in self._shared.members.values():
            session = member.sessions.get(session_id)
            if session is not None:
                member.sessions.touch_from_server(session_id, now_ms, session.timeout_ms)

    def drop_session(self, session_id: int) -> None:
        """Remove a session whose transaction failed; other servers have it until they restart."""
        super().drop_session(session_id)
        self._shared.owners.pop(session_id, None)

    def expire_as_leader(self, session_id: int, now_ms: int) -> bool:
        """Expire a session by a transaction of the leader."""
        assert self.role is Role.LEADING, "the leader decides expiry"
        return super().expire(session_id, now_ms)

    def tick_as_leader(self, now_ms: int) -> None:
        """Expire due sessions and remove due containers and TTL nodes."""
        assert self.role is Role.LEADING, "the leader decides expiry"
        self.tick_locally(now_ms)
        super().tick(now_ms)

    def _attended_connection(self, session_id: int) -> Connection | None:
        return self._shared.attended_connection(session_id)

    def tick_locally(self, now_ms: int) -> None:
        """Expire the local sessions that are due."""
        for session in self.sessions.local_sessions():
            if session.expiry_ms <= now_ms:
                connection = super()._attended_connection(session.session_id)
                if connection is not None:
                    self.sessions.touch(session, now_ms, connection.timeout_ms)
                else:
                    self.expire_locally(session.session_id)

    def expire_locally(self, session_id: int) -> None:
        """Expire a local session."""
        self.expired += 1
        self._remove_local(session_id)

    def leader_deadline_ms(self) -> int | None:
        """Return the time of the leader's next expiry or sweep, or None."""
        return super().next_deadline_ms()
