"""One server of an ensemble as a copy of the history: its role, how far it has come, what waits for it to come further.

Rules of this module:
  - the leader's transactions are the history; everybody else applies them in order, all of them;
  - an answer that waits is given while the transaction that it waits for is applied, and what is held behind it is
    handled then: a read behind a write sees that write and no later one;
  - nobody waits by a clock: a server that lags applies what is due whenever it is told the time;
  - a change of role ends all connections, as a real server's does.

Source: CommitProcessor, Learner, LeaderSessionTracker; §7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.ensemble.member_connection import Awaited, MemberConnection
from simzk.zookeeper.ensemble.member_sessions import MemberSessions
from simzk.zookeeper.ensemble.role import Role
from simzk.zookeeper.ensemble.tally import Tally
from simzk.zookeeper.server import Server
from simzk.zookeeper.sessions import first_session_id
from simzk.zookeeper.sweeper import Sweeper

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.connection import Connection
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
        self.role = Role.LOOKING
        self.since_ms = now_ms
        self.epoch = 0
        self.tally = Tally()
        self.tally.looked = 1
        self.position = self.logged = 0
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
        self.zxid = zxid
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
