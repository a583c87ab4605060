"""Member of an ensemble: a copy of the history, and a server that answers reads itself and forwards writes (§7).

Rules of the history:
  - a position is a number of transactions: position 3 is after the third committed one;
  - a committed transaction is never taken back. Proposals that a lost leader had not committed are not modelled:
    whether they survive is chance in a real ensemble, and no client was promised it;
  - the leader's transactions are the history; all other members apply all of them in order;
  - a member that lags applies due transactions when it is called with the time;
  - a change of role closes all connections, as in a real server.

Rules of requests:
  - the leader checks a write against its own tree and makes it a transaction. A follower answers its client when it has
    applied that transaction, so a session reads its own writes;
  - replies of a connection keep the order of its requests: requests behind a waiting reply are held and processed when
    that reply is given, so that a read sees the write before it and no later one. Writes are forwarded at once, because
    nothing before them can change them;
  - a session belongs to the server it was last attached to. On a follower its old connection can still read; its first
    write there takes a zxid, changes nothing and closes the connection. The leader closes such a connection at its
    first request of any kind [V]; a few requests are accepted anywhere (`is_accepted_anywhere`);
  - a read-only server has only local sessions, and rejects those of the ensemble.

Rules of sessions:
  - the leader decides expiry. A server forwards every touch to the leader at once; a real follower does so with the
    leader's next ping;
  - a local session is created, closed and expired without a transaction, is unknown to other servers and snapshots, and
    ends when its server changes its role;
  - a session that creates an ephemeral znode must be global: a local one becomes global first by a transaction, or is
    rejected (localSessionsUpgradingEnabled).

Source: Learner, CommitProcessor, FollowerRequestProcessor, PrepRequestProcessor, FinalRequestProcessor,
ReadOnlyRequestProcessor, LearnerSessionTracker, LeaderSessionTracker, UpgradeableSessionTracker,
QuorumZooKeeperServer.checkUpgradeSession; ServerMetrics (proposal_count, learner_proposal_received_count, ...) and
BufferStats of the leader's proposals.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.connection import Connection
from simzk.zookeeper.operations import BY_REQUEST, Kind, of_kind, permission_of
from simzk.zookeeper.persistence.records import encode_transaction
from simzk.zookeeper.prepare import FLAGS, prepare_multi
from simzk.zookeeper.replies import Code, ConnectResponse, RefusedError, Reply
from simzk.zookeeper.server import Batch, Server, Sweeper, record_of
from simzk.zookeeper.sessions import Session, SessionTracker, first_session_id, password_of
from simzk.zookeeper.transactions import ErrorTxn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.ensemble.membership import EnsembleConfig, Membership, ServerLine
    from simzk.zookeeper.persistence import Restoration
    from simzk.zookeeper.prepare import Asker
    from simzk.zookeeper.quotas import Quotas
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.sessions import Session
    from simzk.zookeeper.transactions import Transaction
    from simzk.zookeeper.tree import DataTree


class Role(Enum):
    """Roles of a server; a value is the mode in the word srvr, empty while it does not serve."""

    LEADING = "leader"
    FOLLOWING = "follower"
    LOOKING = ""
    READ_ONLY = "read-only"
    DOWN = "down"

    @property
    def serves(self) -> bool:
        """Return whether clients can connect to a server in this role."""
        return self in _SERVING


_SERVING = (Role.LEADING, Role.FOLLOWING, Role.READ_ONLY)


_NO_PROPOSAL = -1  # the size of proposals before the first one


@dataclass(slots=True)
class Tally:
    """Counters of one server of an ensemble.

    Attributes:
        looked: number of times it began to look for a leader.
        proposed: number of transactions that it made as leader.
        learned: number of transactions of leaders that it applied.
        forwarded: number of requests forwarded to the leader since it became a follower.
        last_bytes, least_bytes, greatest_bytes: sizes of its proposals; -1 before the first.
    """

    looked: int = 0
    proposed: int = 0
    learned: int = 0
    forwarded: int = 0
    last_bytes: int = _NO_PROPOSAL
    least_bytes: int = _NO_PROPOSAL
    greatest_bytes: int = _NO_PROPOSAL

    def reset(self) -> None:
        """Reset all counters, as srst and stat_reset do."""
        self.looked = self.proposed = self.learned = self.forwarded = 0
        self.reset_sizes()

    def reset_sizes(self) -> None:
        """Reset the sizes of proposals, as a new leader does."""
        self.last_bytes = self.least_bytes = self.greatest_bytes = _NO_PROPOSAL

    def propose(self, transaction: Transaction) -> None:
        """Count a proposal: a transaction as it is sent, with the tree's digest unless it failed."""
        size = len(encode_transaction(transaction, None if isinstance(transaction.record, ErrorTxn) else 0))
        self.proposed += 1
        self.last_bytes = size
        if size > self.greatest_bytes:
            self.greatest_bytes = size
        if size < self.least_bytes or self.least_bytes < 0:
            self.least_bytes = size


class Learner(NamedTuple):
    """Follower or observer, as its leader sees it.

    Attributes:
        line: its addresses.
        observes: whether it is an observer.
        votes: whether it has a vote; a removed member follows without one.
        since_ms: time since which it follows.
        learned: number of transactions that it applied.
        forwarded: number of requests that it forwarded.
        zxid: zxid of its last transaction.
    """

    line: ServerLine
    observes: bool
    votes: bool
    since_ms: int
    learned: int
    forwarded: int
    zxid: int


class Place(NamedTuple):
    """Role of one server in its ensemble, for monitoring.

    Attributes:
        line: its addresses.
        observes: whether it is an observer.
        votes: whether it has a vote.
        membership: members of the ensemble.
        leader: addresses of the leader; None for a server without one.
        since_ms: time since which the server has its role.
        tally: its live counters.
        local: its local sessions.
        has_local: whether the ensemble has local sessions.
        learners: followers and observers of a leader.
    """

    line: ServerLine
    observes: bool
    votes: bool
    membership: Membership
    leader: ServerLine | None
    since_ms: int
    tally: Tally
    local: Sequence[Session]
    has_local: bool
    learners: Sequence[Learner]

    @property
    def leads(self) -> bool:
        """Return whether it is the leader."""
        return self.leader is not None and self.leader.server_id == self.line.server_id

    @property
    def peer_state(self) -> str:
        """Return its state in mntr (QuorumPeer.getPeerState and ZabState)."""
        state = "leading" if self.leads else "observing" if self.observes else "following"
        return f"{state} - broadcast"


def makes_ephemeral(request: req.Request) -> bool:
    """Return whether a request would create an ephemeral znode.

    >>> makes_ephemeral(req.Create("/a", b"", (), 1)), makes_ephemeral(req.Multi((req.Create("/a", b"", (), 3),)))
    (True, True)
    """
    if isinstance(request, req.Multi):
        return any(map(makes_ephemeral, request.operations))
    if not isinstance(request, req.Create | req.Create2):
        return False
    kind = FLAGS.get(request.flags)
    return kind is not None and kind.ephemeral


def rejected_record(request: req.Request, asker: Asker, tree: DataTree, session_id: int, *, led: bool) -> txns.Record:
    """Return the record of a request that a local session is not allowed to make.

    Args:
        request: the request.
        asker: client and rules.
        tree: tree of the leader.
        session_id: the local session.
        led: whether its server is the leader. A follower's multi is rejected only by the leader, which does not have
            the session and reports it as expired [V].
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
    """Request that waits behind others of its connection."""

    xid: int
    request: Request


class Awaited(NamedTuple):
    """Reply that waits until the server has applied the history up to a position."""

    position: int


class MemberConnection(Connection):
    """Connection to a member, made by `Member.connect`.

    Attributes:
        waiting: requests and replies that wait, in the order of the replies.
        leaving: whether the client closed its session; later requests are ignored.
    """

    __slots__ = ("leaving", "waiting")

    def __init__(self, address: str, owner: object, config: ServerConfig, quotas: Quotas) -> None:
        super().__init__(address, owner, config, quotas)
        self.waiting: deque[Held | Awaited] = deque()
        self.leaving: bool = False


NEW = -1
"""Expiry time of a session that was never touched."""


class MemberSessions(SessionTracker):
    """Sessions known to a member; touches are forwarded to the leader.

    Args:
        tick_ms: tick of the server.
        first_id: id of the first session created here.
        forward_touch: function called with the session id, the time and the timeout of each touch.

    Attributes:
        local: ids of local sessions, oldest first.
    """

    def __init__(self, tick_ms: int, first_id: int, forward_touch: Callable[[int, int, int], None]) -> None:
        super().__init__(tick_ms, first_id)
        self._forward_touch = forward_touch
        self.local: dict[int, None] = {}

    def add_local(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Add a local session."""
        self.local[session_id] = None
        return self.add(session_id, timeout_ms, now_ms)

    def remove(self, session_id: int) -> None:
        """Remove a session, local or global."""
        self.local.pop(session_id, None)
        super().remove(session_id)

    def timeouts_ms(self) -> list[tuple[int, int]]:
        """Return ids and timeouts of global sessions."""
        return [session for session in super().timeouts_ms() if session[0] not in self.local]

    def local_sessions(self) -> list[Session]:
        """Return the local sessions."""
        return [self._sessions[session_id] for session_id in self.local]

    def touch(self, session: Session, now_ms: int, timeout_ms: int) -> None:
        """Start the timeout of a session anew, also at the leader."""
        is_new = session.expiry_ms == NEW  # the leader has it from the transaction
        super().touch(session, now_ms, timeout_ms)
        if not is_new:
            self._forward_touch(session.session_id, now_ms, timeout_ms)

    def touch_from_server(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        """Start the timeout of a session anew for a touch on another server."""
        session = self.get(session_id)
        if session is not None:
            super().touch(session, now_ms, timeout_ms)


_WRITES = of_kind(Kind.WRITE, Kind.SESSION)

_ACCEPTED_ANYWHERE = of_kind(Kind.SESSION, Kind.CONNECTION) - {req.Ping} | {
    req.DeleteContainer,
    req.Undecodable,
    req.Unimplemented,
}

_REJECTED_READ_ONLY = of_kind(Kind.WRITE, Kind.PART) | {req.Sync}
_REJECTED_READ_ONLY_OPCODES = frozenset(BY_REQUEST[kind].opcode for kind in _REJECTED_READ_ONLY)


def is_write(request: req.Request) -> bool:
    """Return whether a request takes a zxid, so that the leader has to process it."""
    return request.__class__ in _WRITES or (isinstance(request, req.Undecodable) and request.takes_zxid)


def is_accepted_anywhere(request: req.Request) -> bool:
    """Return whether a request is accepted on any server; the real server does not check its session's owner [V].

    >>> is_accepted_anywhere(req.Multi(())), is_accepted_anywhere(req.Multi((req.Check("/", -1),)))
    (True, False)
    """
    return request.__class__ in _ACCEPTED_ANYWHERE or (isinstance(request, req.Multi) and not request.operations)


def requires_write_access(request: req.Request) -> bool:
    """Return whether a read-only server answers NOT_READ_ONLY, which depends on the opcode alone."""
    if isinstance(request, req.Undecodable | req.Unimplemented):
        return request.opcode in _REJECTED_READ_ONLY_OPCODES
    return request.__class__ in _REJECTED_READ_ONLY


if TYPE_CHECKING:
    Answer = Callable[[txns.Transaction, object], None]


class History:
    """Committed transactions that some member has yet to apply, by position in the history."""

    def __init__(self) -> None:
        self._kept: list[txns.Transaction] = []
        self._begin = 0

    @property
    def end(self) -> int:
        """Return the position after the last transaction."""
        return self._begin + len(self._kept)

    def __len__(self) -> int:
        """Return the number of transactions kept."""
        return len(self._kept)

    def append(self, transaction: txns.Transaction) -> None:
        """Append a committed transaction."""
        assert not self._kept or transaction.zxid > self._kept[-1].zxid, "zxids increase"
        self._kept.append(transaction)

    def __getitem__(self, position: int) -> txns.Transaction:
        """Return the transaction after a position."""
        assert position >= self._begin, f"position {position} was applied by all members and dropped"
        return self._kept[position - self._begin]

    def forget_before(self, position: int) -> None:
        """Drop the transactions before a position, which all members have applied."""
        assert self._begin <= position <= self.end
        del self._kept[: position - self._begin]
        self._begin = position


class EnsembleState(Protocol):
    """State and operations of an ensemble that its members use; `Ensemble` implements it."""

    config: EnsembleConfig
    history: History
    epoch: int
    membership: Membership
    leading: Member | None
    owners: dict[int, int]

    def commit(self, transaction: txns.Transaction) -> None:
        """Commit a transaction of the leader."""

    def tick(self, now_ms: int) -> None:
        """Perform all actions of the ensemble that are due."""

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next action of the ensemble, or None."""

    def expire(self, session_id: int, now_ms: int) -> bool:
        """Expire a session; return whether it was live."""

    def restart(self, now_ms: int) -> None:
        """Restart all running servers."""

    def attended_connection(self, session_id: int) -> Connection | None:
        """Return the attended connection of a session, or None."""

    def can_adopt(self, membership: Membership) -> bool:
        """Return whether a majority of the new voters has the whole history."""

    def adopt(self, membership: Membership, now_ms: int) -> None:
        """Make a committed reconfiguration effective."""

    def place_of(self, member: Member) -> Place:
        """Return the role of a member for monitoring."""


class Replica(Server):
    """Server that applies the history of an ensemble; `Member` adds the requests of clients.

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

    def __init__(self, ensemble: EnsembleState, server_id: int, now_ms: int, past: Restoration | None = None) -> None:
        config = ensemble.config.server._replace(server_id=server_id)
        zxid = 0 if past is None else past.zxid
        super().__init__(config, now_ms=now_ms, tree=None if past is None else past.tree, zxid=zxid)
        first_id = first_session_id(server_id, now_ms)
        self.sessions: MemberSessions = MemberSessions(self.config.tick_time_ms, first_id, self._touch_at_leader)
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
        """Write /zookeeper/config, which each server does outside the history (§2.4)."""
        node = self.tree.get("/zookeeper/config")
        if node is not None:
            membership = self._ensemble.membership
            node.data, node.version, node.mzxid, node.mtime_ms = membership.text, -1, membership.version, now_ms

    # Roles

    def change_role(self, role: Role, now_ms: int) -> None:
        """Change to another role and close all connections."""
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
        """Become the leader: session timeouts start anew, and the next transaction follows `zxid`."""
        self.change_role(Role.LEADING, now_ms)
        self.zxid: int = zxid
        self.epoch = zxid >> 32
        self.tally.reset_sizes()
        for session_id, timeout_ms in self.sessions.timeouts_ms():
            self.sessions.touch_from_server(session_id, now_ms, timeout_ms)
        self._sweeper = Sweeper(self.tree, self.config, now_ms)
        self._sweeper.note(now_ms)

    def join(self, now_ms: int) -> None:
        """Become a follower and apply the whole history."""
        self.change_role(Role.FOLLOWING, now_ms)
        self.epoch = self._ensemble.epoch
        self.tally.forwarded = 0
        self.logged = self._ensemble.history.end
        self.catch_up(now_ms)
        self.configure(now_ms)

    def _touch_at_leader(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        leader = self._ensemble.leading
        if leader is not None and leader is not self and self.role is Role.FOLLOWING:
            leader.sessions.touch_from_server(session_id, now_ms, timeout_ms)

    # Applying

    def apply(self, transaction: txns.Transaction) -> object:
        """Apply a transaction of the leader and commit it."""
        assert self.role is Role.LEADING, f"server {self.server_id} is not the leader"
        body = super().apply(transaction)
        self._applied_zxid = transaction.zxid
        self._ensemble.commit(transaction)
        return body

    def follow(self, now_ms: int) -> None:
        """Apply the committed transactions that are due."""
        history = self._ensemble.history
        until = self._until()
        while self.position < until and history[self.position].time_ms + self.lag_ms <= now_ms:
            self._learn(history[self.position], now_ms)
            until = self._until()

    def catch_up(self, now_ms: int) -> None:
        """Apply all transactions on its disk."""
        while self.position < self.logged:
            self._learn(self._ensemble.history[self.position], now_ms)

    def _until(self) -> int:
        return min(self.logged, max(self.logged - self.lag_transactions, self._demanded))

    def due_ms(self) -> int | None:
        """Return the time of its next own action: applying a transaction or expiring a local session."""
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
                self._process_held(connection, now_ms)
        if isinstance(record, txns.CloseSessionTxn):
            self.close_connection_of(session_id)

    def close_connection_of(self, session_id: int) -> None:
        """Close the connection of a session here, if any."""
        connection = self._connections.get(session_id)
        if connection is not None:
            self._close(connection)

    def _await(self, connection: MemberConnection, position: int, answer: Answer) -> None:
        connection.waiting.append(Awaited(position))
        self._awaited.setdefault(position, []).append((connection, answer))
        self._demanded = max(self._demanded, position)

    def _process_held(self, connection: MemberConnection, now_ms: int) -> None:
        """Process the requests held behind a reply, up to the next waiting reply."""
        while connection.waiting and not connection.closed:
            held = connection.waiting[0]
            if isinstance(held, Awaited):
                return
            connection.waiting.popleft()
            self._handle_here(connection, held.xid, held.request, now_ms)

    def _handle_here(self, connection: MemberConnection, xid: int, request: Request, now_ms: int) -> None:
        """Process a request that needs no leader and waits for nothing."""
        super().handle(connection, xid, request, now_ms)

    def _close(self, connection: Connection) -> None:
        super()._close(connection)
        if isinstance(connection, MemberConnection):
            connection.waiting.clear()


CONFIG_PATH = "/zookeeper/config"


class Member(Replica):
    """Server of an ensemble, made by `Ensemble`; its clients and its driver use it as any other server.

    `tick`, `next_deadline_ms`, `expire` and `restart` act on the whole ensemble.
    """

    # Connections

    def connect(
        self, request: req.ConnectRequest, now_ms: int, *, address: str = "127.0.0.1", owner: object = None
    ) -> MemberConnection:
        """Connect a client as `Server.connect` does; the response may wait until this server has the session."""
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
            self._reattach_session(connection, request, now_ms)
        else:
            self._create_session_of(connection, now_ms)
        return connection

    def _create_session_of(self, connection: MemberConnection, now_ms: int) -> None:
        session_id = connection.session_id = self.sessions.new_id()
        self._connections[session_id] = connection
        if self.role is Role.READ_ONLY or self._ensemble.config.local_sessions:
            connection.session = self.sessions.add_local(session_id, connection.timeout_ms, now_ms)
            self._respond_to_connect(connection)
            return
        self._ensemble.owners[session_id] = self.server_id
        record = txns.CreateSessionTxn(connection.timeout_ms)
        self._propose(connection, 0, record, now_ms, lambda transaction, body: self._respond_to_connect(connection))

    def _reattach_session(self, connection: MemberConnection, request: req.ConnectRequest, now_ms: int) -> None:
        """Reattach a session if the leader has it (Learner.validateSession)."""
        session_id = request.session_id
        self.close_connection_of(session_id)
        is_local = session_id in self.sessions.local
        leader = self if self.role is Role.READ_ONLY or is_local else self._ensemble.leading
        assert leader is not None, "a serving member has a leader"
        is_live = session_id in leader.sessions and (leader is self or session_id not in leader.sessions.local)
        if not is_live or request.password != password_of(session_id):
            self._send(connection, ConnectResponse(0, 0, 0, bytes(16), connection.read_only))
            self._close(connection)
            return
        if self.role is not Role.READ_ONLY and not is_local:
            self._ensemble.owners[session_id] = self.server_id
        leader.sessions.touch_from_server(session_id, now_ms, connection.timeout_ms)
        connection.session_id = session_id
        self._connections[session_id] = connection
        connection.session = self.sessions.get(session_id)
        if connection.session is not None:
            self._respond_to_connect(connection)
        else:
            end = self._ensemble.history.end
            self._await(connection, end, lambda transaction, body: self._respond_to_connect(connection))
            self.follow(now_ms)

    def _respond_to_connect(self, connection: MemberConnection) -> None:
        if connection.session is None:
            connection.session = self.sessions.get(connection.session_id)
        self._send_session(connection)

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
        if connection.session_id in self.sessions.local and self.role is not Role.READ_ONLY:
            self._handle_local(connection, xid, request, now_ms)
        else:
            self._handle_global(connection, xid, request, now_ms)
        return None

    def _handle_local(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        """Process a request of a local session, which may have to become global for it."""
        if isinstance(request, req.CloseSession | req.CreateSession):
            connection.leaving = isinstance(request, req.CloseSession)
            if connection.waiting:
                connection.waiting.append(Held(xid, request))
            else:
                self._handle_here(connection, xid, request, now_ms)
        elif not makes_ephemeral(request):
            self._handle_global(connection, xid, request, now_ms)
        elif self._ensemble.config.upgrades_sessions:
            self._upgrade(connection, now_ms)
            self._handle_global(connection, xid, request, now_ms)
        else:
            leader = self._ensemble.leading
            assert leader is not None, "a serving member has a leader"
            self._touch(connection, now_ms)
            asker = connection.asker._replace(quotas=leader.tree.quotas)
            led = leader is self
            record = rejected_record(request, asker, leader.tree, connection.session_id, led=led)
            self._propose_write(connection, xid, request, record, now_ms)

    def _upgrade(self, connection: MemberConnection, now_ms: int) -> None:
        """Turn a local session into a global one."""
        session_id = connection.session_id
        self.sessions.remove(session_id)
        connection.session = None
        self._ensemble.owners[session_id] = self.server_id
        record = txns.CreateSessionTxn(connection.timeout_ms)
        self._propose(connection, 0, record, now_ms, lambda transaction, body: self._attach_session(connection))

    def _attach_session(self, connection: MemberConnection) -> None:
        connection.session = self.sessions.get(connection.session_id)

    def _handle_here(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        if isinstance(request, req.CloseSession) and connection.session_id in self.sessions.local:
            self._send(connection, Reply(xid, self.zxid, 0, None))
            self._remove_local(connection.session_id)
        elif isinstance(request, req.CreateSession) and connection.session_id in self.sessions.local:
            self._send_session(connection)
        else:
            super()._handle_here(connection, xid, request, now_ms)

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
        elif self.role is Role.READ_ONLY:
            self._handle_read_only(connection, xid, request, now_ms)
        elif is_write(request) and request.__class__ not in self._rules.unknown:
            self._forward(connection, xid, request, now_ms)
        elif isinstance(request, req.Sync) and self.position < self._ensemble.history.end:
            reply = Reply(xid, 0, 0, request.path)
            self._await(
                connection,
                self._ensemble.history.end,
                lambda transaction, body: self._send(connection, reply._replace(zxid=self.zxid)),
            )
            self.follow(now_ms)
        elif connection.waiting and (connection.session is None or not isinstance(request, req.Auth | req.Sasl)):
            connection.waiting.append(Held(xid, request))
        else:
            super().handle(connection, xid, request, now_ms)

    def _owns_session_of(self, connection: Connection) -> bool:
        """Return whether this server is the last one that the connection's session was attached to."""
        if connection.session_id in self.sessions.local:
            return True
        return self._ensemble.owners.get(connection.session_id) == self.server_id

    def _touch(self, connection: Connection, now_ms: int) -> None:
        if connection.session is not None:
            self.sessions.touch(connection.session, now_ms, connection.timeout_ms)

    def _handle_read_only(self, connection: Connection, xid: int, request: req.Request, now_ms: int) -> None:
        if requires_write_access(request):
            self._touch(connection, now_ms)
            self._send(connection, Reply(xid, self.zxid, Code.NOT_READ_ONLY, None))
        else:
            assert isinstance(connection, MemberConnection)
            self._handle_here(connection, xid, request, now_ms)

    def _remove_local(self, session_id: int) -> None:
        self.sessions.remove(session_id)
        self.close_connection_of(session_id)

    def _forward(self, connection: MemberConnection, xid: int, request: req.Request, now_ms: int) -> None:
        """Forward a write to the leader."""
        leader, session_id = self._ensemble.leading, connection.session_id
        assert leader is not None, "a serving member has a leader"
        if session_id not in leader.sessions and session_id not in self.sessions.local:
            return  # it has ended, and this server has yet to apply that
        self._touch(connection, now_ms)
        if not self._owns_session_of(connection) and not is_accepted_anywhere(request):
            self._reject_moved(connection, xid, now_ms)
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
        self._propose(connection, xid, record, now_ms, partial(self._answer_write, connection, request))

    def _reconfigure(self, connection: MemberConnection, xid: int, request: req.Reconfig, now_ms: int) -> None:
        """Forward a reconfiguration: the leader writes /zookeeper/config, and the ensemble adopts the membership."""
        leader = self._ensemble.leading
        assert leader is not None, "a serving member has a leader"
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
        assert node is not None, f"{CONFIG_PATH} exists in all releases with Reconfig"
        asker.need(node, permission_of(req.Reconfig))
        return membership

    def _reject_moved(self, connection: MemberConnection, xid: int, now_ms: int) -> None:
        """Reject a write of a session that moved to another server: a failed transaction, and no reply."""
        record = txns.ErrorTxn(Code.SESSION_MOVED)
        self._propose(connection, xid, record, now_ms, lambda transaction, body: self._close(connection))

    def _propose(
        self, connection: MemberConnection, xid: int, record: txns.Record, now_ms: int, answer: Answer
    ) -> None:
        """Make a record the leader's next transaction, and call `answer` once it is applied here."""
        leader, end = self._ensemble.leading, self._ensemble.history.end
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
    def place(self) -> Place:
        """Return its role in the ensemble for monitoring."""
        return self._ensemble.place_of(self)

    def tick(self, now_ms: int) -> None:
        """Perform all actions of the ensemble that are due."""
        self._ensemble.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next action of the ensemble, or None."""
        return self._ensemble.next_deadline_ms()

    def expire(self, session_id: int, now_ms: int) -> bool:
        """Expire a session on any server; return whether it was live."""
        return self._ensemble.expire(session_id, now_ms)

    def restart(self, now_ms: int) -> None:
        """Restart all running servers."""
        self._ensemble.restart(now_ms)

    def expire_as_leader(self, session_id: int, now_ms: int) -> bool:
        """Expire a session by a transaction of the leader."""
        return super().expire(session_id, now_ms)

    def tick_as_leader(self, now_ms: int) -> None:
        """Expire due sessions and remove due containers and TTL nodes."""
        self.tick_locally(now_ms)
        super().tick(now_ms)

    def _attended_connection(self, session_id: int) -> Connection | None:
        return self._ensemble.attended_connection(session_id)

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
