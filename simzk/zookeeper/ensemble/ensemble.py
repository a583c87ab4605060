"""Ensemble of servers: one committed history, its members and their positions in it, partitions between them (§7).

Rules of the history:
  - a position is a number of transactions: position 3 is after the third committed one;
  - a transaction is committed once the leader has made it, because the leader always has a connected majority, and all
    of it then has the transaction on disk. So an elected server, which has the longest history of a majority, has every
    committed transaction: no acknowledged write is ever lost. Proposals that a lost leader had not committed are not
    modelled: whether they survive is chance in a real ensemble, and no client was promised it;
  - the leader's transactions are the history; all other members apply all of them in order. A member that lags applies
    due transactions when it is called with the time;
  - zxids are the leader's epoch and a counter that restarts with it: `epoch << 32 | counter`;
  - a leader without a majority steps down; until another is elected only read-only servers serve, if configured;
  - a change of role closes all connections, as in a real server;
  - a server that is paused or cut off counts as connected for `sync_limit_ms` (Learner reads with a timeout of
    syncLimit ticks, LearnerHandler.synced). It serves what needs no leader, from a tree that falls behind; writes,
    syncs and new sessions wait, and so do requests behind them on the connection. The same holds for all servers
    while a leader reaches no majority, or is paused. Touches of sessions reach the leader when it is in reach again,
    so that sessions of connected clients can expire;
  - time and chance are arguments; Zab's messages are not simulated.

Rules of requests:
  - the leader checks a write against its own tree and makes it a transaction. A follower answers its client when it has
    applied that transaction, so a session reads its own writes;
  - replies of a connection keep the order of its requests: requests behind a waiting reply are queued, and processed
    when that reply is given, so that a read sees the write before it and no later one. Writes are forwarded at once,
    because nothing before them can change them;
  - a session belongs to the server it was last attached to. On a follower its old connection can still read; its first
    write there takes a zxid, changes nothing and closes the connection. The leader closes such a connection at its
    first request of any kind [V]; a few requests are accepted anywhere (`is_accepted_anywhere`);
  - a read-only server has only local sessions, and rejects those of the ensemble.

Rules of sessions:
  - the leader decides expiry, by its own clock. A server forwards every touch to the leader at once; a real follower
    does so with the leader's next ping;
  - a local session is created, closed and expired without a transaction, is unknown to other servers and snapshots, and
    ends when its server changes its role;
  - a session that creates an ephemeral znode must be global: a local one becomes global first by a transaction, or is
    rejected (localSessionsUpgradingEnabled).

Source: QuorumPeer, Leader, Learner, FastLeaderElection, CommitProcessor, FollowerRequestProcessor,
PrepRequestProcessor, FinalRequestProcessor, ReadOnlyRequestProcessor, LearnerSessionTracker, LeaderSessionTracker,
UpgradeableSessionTracker, QuorumZooKeeperServer.checkUpgradeSession; ServerMetrics (proposal_count,
learner_proposal_received_count, ...) and BufferStats of the leader's proposals.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import SimzkError
from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.connection import Connection
from simzk.zookeeper.ensemble.membership import EnsembleConfig, Membership, in_java_order, parse_line
from simzk.zookeeper.operations import BY_REQUEST, Kind, of_kind, permission_of
from simzk.zookeeper.persistence.records import encode_transaction
from simzk.zookeeper.prepare import FLAGS, prepare_multi
from simzk.zookeeper.replies import Code, ConnectResponse, RefusedError, Reply
from simzk.zookeeper.server import Batch, Server, Sweeper, record_of
from simzk.zookeeper.sessions import Session, SessionTracker, first_session_id, password_of
from simzk.zookeeper.znode import CONFIG_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.ensemble.membership import ServerLine
    from simzk.zookeeper.persistence import Restoration
    from simzk.zookeeper.prepare import Asker, PendingCversions
    from simzk.zookeeper.quotas import Quotas
    from simzk.zookeeper.tree import DataTree

    Answer = Callable[[txns.Transaction, object], None]


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
        return self not in (Role.LOOKING, Role.DOWN)


_NO_PROPOSAL = -1  # the size of proposals before the first one


@dataclass(slots=True)
class ServerCounters:
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

    def propose(self, transaction: txns.Transaction, *, has_digest: bool) -> None:
        """Count a proposal: a transaction as it is sent, with the tree's digest in releases that have it."""
        size = len(encode_transaction(transaction, 0 if has_digest else None))
        self.proposed += 1
        self.last_bytes = size
        self.greatest_bytes = max(size, self.greatest_bytes)
        self.least_bytes = size if self.least_bytes == _NO_PROPOSAL else min(size, self.least_bytes)
        assert 0 < self.least_bytes <= size <= self.greatest_bytes


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


class EnsembleRole(NamedTuple):
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
    tally: ServerCounters
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


_EPHEMERAL_FLAGS = frozenset(flags for flags, meaning in FLAGS.items() if meaning.ephemeral)


def makes_ephemeral(request: req.Request) -> bool:
    """Return whether a request would create an ephemeral znode.

    >>> makes_ephemeral(req.Create("/a", b"", (), 1)), makes_ephemeral(req.Multi((req.Create("/a", b"", (), 3),)))
    (True, True)
    """
    if isinstance(request, req.Multi):
        return any(map(makes_ephemeral, request.operations))
    return isinstance(request, req.Create | req.Create2) and request.flags in _EPHEMERAL_FLAGS


def rejected_record(request: req.Request, asker: Asker, tree: DataTree, session_id: int, *, led: bool) -> txns.Record:
    """Return the record of a request that a local session is not allowed to make, given the tree of the leader.

    The multi of a follower (`led` is False) is rejected only by the leader, which does not have the session and reports
    it as expired [V].
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
    assert len(before) + 1 + len(rest) == len(operations), "each operation has a record"
    return txns.MultiTxn((*before, txns.ErrorTxn(here), *rest))


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


NEW = -1
"""Expiry time of a session that was never touched."""


class MemberSessions(SessionTracker):
    """Sessions known to a member; touches are forwarded to the leader.

    Args:
        tick_ms: tick of the server.
        first_id: id of the first session created here.
        origin_ms: time at which the first tick begins.
        forward_touch: function called with the session id, the time and the timeout of each touch.

    Attributes:
        local: ids of local sessions, oldest first.
        upgrading: ids of local sessions that become global when the server applies their creation.
    """

    def __init__(
        self, tick_ms: int, first_id: int, origin_ms: int, forward_touch: Callable[[int, int, int], None]
    ) -> None:
        super().__init__(tick_ms, first_id, origin_ms)
        self._forward_touch = forward_touch
        self.local: dict[int, None] = {}
        self.upgrading: set[int] = set()

    def add(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Add a session."""
        self.upgrading.discard(session_id)
        return super().add(session_id, timeout_ms, now_ms)

    def upgrade(self, session_id: int) -> None:
        """Remove a local session whose connection goes on until the global one is added (UpgradeableSessionTracker)."""
        assert session_id in self.local, f"session 0x{session_id:x} is global already"
        assert session_id not in self.upgrading
        self.remove(session_id)
        self.upgrading.add(session_id)

    def add_local(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Add a local session."""
        assert session_id not in self._sessions, f"session 0x{session_id:x} exists already"
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
        """Start the timeout of a session anew, also at the leader; one that becomes global has none."""
        if session.session_id in self.upgrading:
            return
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

_REJECTED_READ_ONLY = frozenset(BY_REQUEST[kind].opcode for kind in of_kind(Kind.WRITE, Kind.PART) | {req.Sync})


def is_write(request: req.Request) -> bool:
    """Return whether a request takes a zxid, so that the leader has to process it."""
    return request.__class__ in _WRITES or (isinstance(request, req.Undecodable) and request.takes_zxid)


def requires_leader(request: req.Request) -> bool:
    """Return whether a follower forwards a request to the leader.

    >>> requires_leader(req.Sync("/")), requires_leader(req.GetData("/", True)), requires_leader(req.Ping())
    (True, False, False)
    """
    return is_write(request) or isinstance(request, req.Sync | req.Check)


def is_accepted_anywhere(request: req.Request) -> bool:
    """Return whether a request is accepted on any server; the real server does not check its session's owner [V].

    >>> is_accepted_anywhere(req.Multi(())), is_accepted_anywhere(req.Multi((req.Check("/", -1),)))
    (True, False)
    """
    return request.__class__ in _ACCEPTED_ANYWHERE or (isinstance(request, req.Multi) and not request.operations)


def requires_write_access(request: req.Request) -> bool:
    """Return whether a read-only server answers NOT_READ_ONLY, which depends on the opcode alone."""
    if isinstance(request, req.Undecodable | req.Unimplemented):
        return request.opcode in _REJECTED_READ_ONLY
    return BY_REQUEST[request.__class__].opcode in _REJECTED_READ_ONLY


class CommittedHistory:
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


class Member(Server):
    """Server of an ensemble, made by `Ensemble`; its clients and its driver use it as any other server.

    `tick`, `next_deadline_ms`, `expire` and `restart` act on the whole ensemble.

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

    def __init__(self, ensemble: Ensemble, server_id: int, now_ms: int, past: Restoration | None = None) -> None:
        config = ensemble.config.server._replace(server_id=server_id)
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
        self._ensemble = ensemble
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
        if self.role is Role.FOLLOWING and self.server_id in self._ensemble.membership.observers:
            return "observer"
        return self.role.value if self.role.serves else ""

    def configure(self, now_ms: int) -> None:
        """Write /zookeeper/config, which each server does outside the history (§2.4)."""
        node = self.tree.get(CONFIG_PATH)
        if node is not None:
            membership = self._ensemble.membership
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
        assert self._ensemble.leading not in (None, self), "a follower has a leader"
        assert self._ensemble.epoch >= self.epoch
        self.change_role(Role.FOLLOWING, now_ms)
        self.epoch = self._ensemble.epoch
        self.tally.forwarded = 0
        self.logged = self._ensemble.history.end
        self.catch_up(now_ms)
        assert self.position == self.logged
        self.configure(now_ms)

    def _touch_at_leader(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        leader = self._ensemble.leading
        if leader is None or leader is self or self.role is not Role.FOLLOWING:
            return
        if self._ensemble.is_silent(self):
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
            self.logged = self._ensemble.history.end
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
        self._ensemble.commit(transaction)
        return body

    def _apply_here(self, transaction: txns.Transaction) -> object:
        body = super().apply(transaction)
        self._applied_zxid = transaction.zxid
        if isinstance(transaction.record, txns.CreateSessionTxn) and transaction.session_id in self._connections:
            self._connections[transaction.session_id].session = self.sessions.get(transaction.session_id)
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
            waits = self._ensemble.is_silent(self) and request.session_id not in self.sessions.local
        else:
            process = partial(self._create_session_of, connection)
            waits = self._ensemble.is_stalled(self) and not self._ensemble.config.local_sessions
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
        if self.role is Role.READ_ONLY or self._ensemble.config.local_sessions:
            connection.session = self.sessions.add_local(session_id, connection.timeout_ms, now_ms)
            self._send_session(connection)
            return
        self._ensemble.owners[session_id] = self.server_id
        record = txns.CreateSessionTxn(connection.timeout_ms)
        self._propose(connection, 0, record, now_ms, lambda transaction, body: self._send_session(connection))

    def _reattach_session(self, connection: MemberConnection, request: req.ConnectRequest, now_ms: int) -> None:
        """Reattach a session if the leader has it (Learner.validateSession)."""
        session_id = request.session_id
        self.close_connection_of(session_id)
        is_local = session_id in self.sessions.local
        leader = self if self.role is Role.READ_ONLY or is_local else self._ensemble.leading
        assert leader is not None, "a serving member has a leader"
        is_live = session_id in leader.sessions and (leader is self or session_id not in leader.sessions.local)
        if not is_live or request.password != password_of(session_id):
            connection.session_id = 0
            self._send(connection, ConnectResponse(0, 0, 0, bytes(16), connection.read_only))
            self._close(connection)
            return
        if self.role is not Role.READ_ONLY and not is_local:
            self._ensemble.owners[session_id] = self.server_id
        leader.sessions.touch_from_server(session_id, now_ms, connection.timeout_ms)
        assert session_id not in self._connections, "the old connection of a session is closed first"
        self._connections[session_id] = connection
        connection.session = self.sessions.get(session_id)
        if connection.session is not None:
            self._send_session(connection)
        else:
            end = self._ensemble.history.end
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
        if connection.stalled or (self._ensemble.is_stalled(self) and requires_leader(request)):
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
        elif self._ensemble.config.upgrades_sessions:
            self._upgrade(connection, now_ms)
            self._handle_global(connection, xid, request, now_ms)
        else:
            leader = self._ensemble.leading
            assert leader is not None, "a serving member has a leader"
            self._touch(connection, now_ms)
            asker = self._asker_at(leader, connection)
            record = rejected_record(request, asker, leader.tree, connection.session_id, led=leader is self)
            self._propose(connection, xid, record, now_ms, partial(self._answer_write, connection, request))

    def _upgrade(self, connection: MemberConnection, now_ms: int) -> None:
        session_id = connection.session_id
        self.sessions.upgrade(session_id)
        self._ensemble.owners[session_id] = self.server_id
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
        elif isinstance(request, req.Sync) and self.position < self._ensemble.history.end:
            path, end = request.path, self._ensemble.history.end
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
        return session_id in self.sessions.local or self._ensemble.owners.get(session_id) == self.server_id

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
        leader, session_id = self._ensemble.leading, connection.session_id
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
        leader = self._ensemble.leading
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
        assert not self._owns_session_of(connection), "a session that is here has not moved"
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
    def place(self) -> EnsembleRole:
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

    def keep_session(self, session_id: int, now_ms: int) -> None:
        """Start the timeout of a session anew on each server that has it."""
        for member in self._ensemble.members.values():
            session = member.sessions.get(session_id)
            if session is not None:
                member.sessions.touch_from_server(session_id, now_ms, session.timeout_ms)

    def drop_session(self, session_id: int) -> None:
        """Remove a session whose transaction failed; other servers have it until they restart."""
        super().drop_session(session_id)
        self._ensemble.owners.pop(session_id, None)

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


FORGET_AT = 1024
"""Number of kept transactions at which those applied by all members are dropped."""


def _default_membership(config: EnsembleConfig) -> Membership:
    """Return a membership for a configuration without addresses."""
    kinds = {server_id: "participant" if server_id <= config.servers else "observer" for server_id in config.ids}
    lines = (parse_line(number, f"server-{number}:2888:3888:{kind};2181") for number, kind in kinds.items())
    return Membership(in_java_order(lines))


class Ensemble:
    """Servers with one committed history.

    A driver uses each of `members` as a server; a call on one of them may leave output in all. Times must not decrease.

    Args:
        config: configuration.
        now_ms: time at which all servers start. The one with the greatest id is the first leader.
        past: restored state of each server, all with the same history; None for new servers.
        epoch: epoch of the last leader.

    Attributes:
        members: servers by id, from 1.
        history: committed transactions.
        epoch: epoch of the present or last leader.
        membership: voters and observers; those without a server here never run.
        leading: leader, or None.
        owners: id of the server that each session was last attached to.

    >>> from simzk.zookeeper import requests as req
    >>> ensemble = Ensemble()
    >>> follower = ensemble.members[1]
    >>> connection = follower.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), now_ms=0)
    >>> follower.handle(connection, 1, req.Create("/a", b"", req.OPEN_ACL, 0), now_ms=5)
    >>> [(_, (connected, created))] = follower.take_output()
    >>> hex(connected.session_id)[:4], hex(created.zxid)
    ('0x10', '0x100000002')
    >>> [member.tree.get("/a") is not None for member in ensemble.members.values()]
    [True, True, True]
    """

    def __init__(
        self,
        config: EnsembleConfig | None = None,
        *,
        now_ms: int = 0,
        past: Mapping[int, Restoration] | None = None,
        epoch: int = 0,
    ) -> None:
        self.config: EnsembleConfig = config or EnsembleConfig()
        self.history: CommittedHistory = CommittedHistory()
        self.epoch: int = epoch
        self.membership: Membership = self.config.membership or _default_membership(self.config)
        self._lines = {line.server_id: line for line in self.membership.lines}
        self.leading: Member | None = None
        self.owners: dict[int, int] = {}
        self.members: dict[int, Member] = {
            server_id: Member(self, server_id, now_ms, None if past is None else past[server_id])
            for server_id in self.config.ids
        }
        assert len({member.zxid for member in self.members.values()}) == 1, "all servers start with the same history"
        self._sides = dict.fromkeys(self.members, 0)
        self._sides_made = 0
        self._paused: set[int] = set()
        self._silent: dict[int, int] = {}  # followers that do not reach their leader, and since when in ms
        self._election_at_ms = now_ms if self._electorate() else None
        self.tick(now_ms)

    # Faults of servers

    def stop(self, server_id: int, now_ms: int, *, outage_ms: int | None = None) -> None:
        """Stop a server and close its connections; its disk stays.

        Args:
            server_id: id of the server.
            now_ms: present time.
            outage_ms: time without a leader if it was the leader; None for the configured one.

        Raises:
            SimzkError: the server does not exist or is stopped already, or the time is negative.
        """
        member = self._member(server_id)
        if outage_ms is not None and outage_ms < 0:
            raise SimzkError(f"an outage of {outage_ms} ms is negative", where="outage", right="0 or more")
        if member.role is Role.DOWN:
            raise SimzkError(f"server {server_id} is stopped already", where="server", right="a server that runs")
        self._paused.discard(server_id)
        member.change_role(Role.DOWN, now_ms)
        self._update_roles(now_ms, outage_ms)
        assert self.leading is not member, "a stopped server does not lead"

    def start(self, server_id: int, now_ms: int) -> None:
        """Start a stopped server with the history on its disk.

        Raises:
            SimzkError: the server does not exist or runs already.
        """
        member = self._member(server_id)
        if member.role is not Role.DOWN:
            raise SimzkError(f"server {server_id} runs already", where="server", right="a server that was stopped")
        member.change_role(Role.LOOKING, now_ms)
        self._update_roles(now_ms)
        assert member.role is not Role.DOWN, "a started server looks for a leader at least"

    def pause(self, server_id: int, now_ms: int) -> None:
        """Suspend a server: it reaches no other one, and its driver passes nothing to it and sends nothing of it.

        Raises:
            SimzkError: the server does not exist, is stopped or is paused already.
        """
        member = self._member(server_id)
        if member.role is Role.DOWN or server_id in self._paused:
            what = f"server {server_id} is {'paused' if server_id in self._paused else 'stopped'} already"
            raise SimzkError(what, where="server", right="a server that runs")
        self._paused.add(server_id)
        self._update_roles(now_ms)

    def resume(self, server_id: int, now_ms: int) -> None:
        """Resume a paused server.

        Raises:
            SimzkError: the server does not exist or is not paused.
        """
        self._member(server_id)
        if server_id not in self._paused:
            raise SimzkError(f"server {server_id} is not paused", where="server", right="a paused server")
        self._paused.remove(server_id)
        self._update_roles(now_ms)

    def cut(self, *server_ids: int, now_ms: int) -> None:
        """Partition these servers from all others; they reach each other, and clients reach all servers.

        Raises:
            SimzkError: a server does not exist.
        """
        self._sides_made += 1
        for member in [self._member(server_id) for server_id in server_ids]:
            self._sides[member.server_id] = self._sides_made
        self._update_roles(now_ms)

    def heal(self, now_ms: int, *server_ids: int) -> None:
        """End all partitions between servers, or those of some servers.

        Raises:
            SimzkError: a server does not exist.
        """
        for member in [self._member(server_id) for server_id in server_ids] or self.members.values():
            self._sides[member.server_id] = 0
        self._update_roles(now_ms)

    @property
    def stopped(self) -> frozenset[int]:
        """Return the numbers of the servers that are stopped."""
        return frozenset(server_id for server_id, member in self.members.items() if member.role is Role.DOWN)

    @property
    def cut_off(self) -> frozenset[int]:
        """Return the numbers of the servers that `cut` partitioned from others."""
        return frozenset(server_id for server_id, side in self._sides.items() if side)

    @property
    def paused(self) -> frozenset[int]:
        """Return the numbers of the servers that are paused."""
        return frozenset(self._paused)

    @property
    def awaits_servers(self) -> bool:
        """Return whether servers out of reach still count as connected."""
        return bool(self._silent)

    def is_silent(self, member: Member) -> bool:
        """Return whether a follower does not reach its leader, and neither has noticed."""
        return member.server_id in self._silent

    @property
    def can_commit(self) -> bool:
        """Return whether there is a leader that reaches a majority."""
        leader = self.leading
        if leader is None or leader.server_id in self._paused:
            return False
        assert leader.role is Role.LEADING
        if not self._silent:
            return True
        reached = [
            member
            for member in self.members.values()
            if member is leader or (member.role is Role.FOLLOWING and not self.is_silent(member))
        ]
        return self._has_quorum(reached, self.membership)

    def is_stalled(self, member: Member) -> bool:
        """Return whether requests to a server that require the leader have to wait."""
        serves = member.role in (Role.LEADING, Role.FOLLOWING)
        return bool(self._silent) and serves and (self.is_silent(member) or not self.can_commit)

    def lag(self, server_id: int, now_ms: int, *, lag_ms: int = 0, transactions: int = 0) -> None:
        """Delay the application of committed transactions on a server while it is a follower.

        With a lag in time, writes through it and syncs wait as long. With a lag in transactions, it applies what a
        write or a sync needs at once, and stays behind otherwise.

        Raises:
            SimzkError: the server does not exist, or a lag is negative.
        """
        member = self._member(server_id)
        if lag_ms < 0 or transactions < 0:
            raise SimzkError("a lag is negative", where="lag", right="0 or more")
        member.lag_ms, member.lag_transactions = lag_ms, transactions
        member.follow(now_ms)

    def elect(self, now_ms: int, server_id: int | None = None) -> None:
        """Elect a leader now: a given server, or the one with the greatest id among those with the whole history.

        A present leader steps down first.

        Raises:
            SimzkError: no majority is connected, or the server is not part of it or lacks transactions.
        """
        if server_id is not None:
            self._member(server_id)
        electorate = self._electorate()
        if not electorate:
            raise SimzkError("no majority of the servers is connected", right="start() or heal() first")
        voters = [member for member in electorate if member.server_id in self.membership.voters]
        most = max(member.logged for member in voters)
        able = {member.server_id: member for member in voters if member.logged == most}
        if server_id is not None and server_id not in able:
            right = f"one of {', '.join(map(str, able))}"
            raise SimzkError(f"server {server_id} cannot be elected", where="server", right=right)
        self._depose(now_ms)
        self._install_leader(able[max(able) if server_id is None else server_id], electorate, now_ms)
        assert self.leading is not None, "a majority has a leader"
        assert self.leading.position == self.history.end, "no committed transaction is lost"

    def restart(self, now_ms: int) -> None:
        """Restart all running servers at once."""
        self._paused.clear()
        self._depose(now_ms)
        self._update_roles(now_ms)

    # Leadership

    def _update_roles(self, now_ms: int, outage_ms: int | None = None) -> None:
        """Update the role of each server after a change of servers or partitions."""
        self._note_silence(now_ms)
        leader = self.leading
        if leader is not None and not self._keeps(leader, now_ms):
            self._depose(now_ms)
            leader = None
        for member in self.members.values():
            if leader is not None and self._reaches(member, leader):
                if member is not leader and member.role is not Role.FOLLOWING:
                    member.join(now_ms)
            elif member.role is Role.FOLLOWING and not self._is_awaited(member, now_ms):
                member.change_role(Role.LOOKING, now_ms)
                self._silent.pop(member.server_id, None)
        if leader is not None or not self._electorate():
            self._election_at_ms = None
        elif self._election_at_ms is None:
            self._election_at_ms = now_ms + (self.config.election_ms if outage_ms is None else outage_ms)
        self.tick(now_ms)
        for member in self.members.values():
            if member.role in (Role.LEADING, Role.FOLLOWING) and not self.is_stalled(member):
                member.go_on(now_ms)

    def _note_silence(self, now_ms: int) -> None:
        leader = self.leading
        silent = [
            member.server_id
            for member in self.members.values()
            if leader is not None and member.role is Role.FOLLOWING and not self._reaches(member, leader)
        ]
        self._silent = {server_id: self._silent.get(server_id, now_ms) for server_id in silent}

    def _keeps(self, leader: Member, now_ms: int) -> bool:
        """Return whether a leader runs and has a majority, which includes servers that went silent of late."""
        kept = [
            member
            for member in self.members.values()
            if member is leader or self._reaches(member, leader) or self._is_awaited(member, now_ms)
        ]
        return leader.role is not Role.DOWN and self._has_quorum(kept, self.membership)

    def _is_awaited(self, member: Member, now_ms: int) -> bool:
        since_ms = self._silent.get(member.server_id)
        return since_ms is not None and now_ms - since_ms < self.config.sync_limit_ms

    def _reaches(self, member: Member, other: Member) -> bool:
        if member.server_id in self._paused or other.server_id in self._paused:
            return False
        return member.role is not Role.DOWN and self._sides[member.server_id] == self._sides[other.server_id]

    def _electorate(self) -> list[Member]:
        """Return the running servers of a connected majority; empty without one."""
        running = [member for member in self.members.values() if member.role is not Role.DOWN]
        for first in running:
            side = [member for member in running if self._reaches(member, first)]
            if self._has_quorum(side, self.membership):
                return side
        return []

    def _has_quorum(self, servers: list[Member], membership: Membership) -> bool:
        voters = membership.voters
        return sum(server.server_id in voters for server in servers) >= membership.quorum

    def _depose(self, now_ms: int) -> None:
        """Remove the leader; it and its followers look for another one."""
        self.leading = None
        self._silent.clear()
        self.owners.clear()
        for member in self.members.values():
            if member.role in (Role.LEADING, Role.FOLLOWING):
                member.change_role(Role.LOOKING, now_ms)

    def _install_leader(self, leader: Member, electorate: list[Member], now_ms: int) -> None:
        assert leader.logged == self.history.end, f"server {leader.server_id} lacks committed transactions"
        assert leader.server_id in self.membership.voters
        assert leader in electorate
        assert self.leading is None, "the old leader steps down first"
        self.epoch += 1
        self._election_at_ms = None
        leader.change_role(Role.LOOKING, now_ms)
        leader.catch_up(now_ms)
        leader.lead(self.epoch << 32, now_ms)
        self.leading = leader
        self._set_first_version(self.epoch << 32)
        leader.configure(now_ms)
        for member in electorate:
            if member is not leader:
                member.join(now_ms)

    def commit(self, transaction: txns.Transaction) -> None:
        """Commit a transaction of the leader; its followers log it, and apply it by their lag."""
        leader = self.leading
        assert leader is not None
        assert leader.position == self.history.end, "a leader has applied the whole history"
        assert transaction.zxid >> 32 == self.epoch, f"zxid 0x{transaction.zxid:x} is not of epoch {self.epoch}"
        self.history.append(transaction)
        has_digest = self.config.server.rules.digests_trees and not isinstance(transaction.record, txns.ErrorTxn)
        leader.tally.propose(transaction, has_digest=has_digest)
        leader.position = leader.logged = self.history.end
        if isinstance(transaction.record, txns.CloseSessionTxn):
            self.owners.pop(transaction.session_id, None)
        for member in self.members.values():
            if member.role is Role.FOLLOWING and member.server_id not in self._silent:
                member.logged = self.history.end
                member.follow(transaction.time_ms)
        if len(self.history) >= FORGET_AT:
            self.history.forget_before(min(member.position for member in self.members.values()))

    # Sessions and time

    def expire(self, session_id: int, now_ms: int) -> bool:
        """Expire a session; return False if it is not live or no server can expire it."""
        for member in self.members.values():
            if session_id in member.sessions.local:
                member.expire_locally(session_id)
                return True
        leader = self.leading
        return leader is not None and self.can_commit and leader.expire_as_leader(session_id, now_ms)

    def attended_connection(self, session_id: int) -> Connection | None:
        """Return the connection of a session, on any server, that its driver marked as attended, or None."""
        for member in self.members.values():
            connection = member.connection_of(session_id)
            if connection is not None and connection.attended:
                assert connection.session_id == session_id
                return connection
        return None

    def tick(self, now_ms: int) -> None:
        """Perform what is due: elections, expiries, sweeps, and transactions that followers have yet to apply."""
        if self._election_at_ms is not None and self._election_at_ms <= now_ms:
            self.elect(now_ms)
        if self._silent and now_ms - min(self._silent.values()) >= self.config.sync_limit_ms:
            self._update_roles(now_ms)
            return
        if self.leading is not None and self.can_commit:
            self.leading.tick_as_leader(now_ms)
        for member in self.members.values():
            if member.role is Role.FOLLOWING:
                member.follow(now_ms)
                member.tick_locally(now_ms)
            elif member.role is Role.READ_ONLY or (member.role is Role.LEADING and not self.can_commit):
                # No quorum is needed for the end of a local session (LocalSessionTracker).
                member.tick_locally(now_ms)
            elif member.role is Role.LOOKING and self._read_only_at_ms(member) <= now_ms:
                member.change_role(Role.READ_ONLY, now_ms)

    def _read_only_at_ms(self, member: Member) -> float:
        if not self.config.read_only or (self._election_at_ms is not None and member in self._electorate()):
            return float("inf")
        return member.since_ms + self.config.read_only_after_ms

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next due action, or None."""
        deadlines = [self._election_at_ms]
        if self._silent:
            deadlines.append(min(self._silent.values()) + self.config.sync_limit_ms)
        if self.leading is not None and self.can_commit:
            deadlines.append(self.leading.leader_deadline_ms())
        for member in self.members.values():
            deadlines.append(member.due_ms())
            if member.role is Role.LOOKING and (at_ms := self._read_only_at_ms(member)) != float("inf"):
                deadlines.append(int(at_ms))
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # Membership

    def name_members(self, lines: Iterable[ServerLine], now_ms: int) -> None:
        """Set the addresses of the servers, the lines of /zookeeper/config, once they are known.

        A membership that was configured or restored takes over only the client addresses.
        """
        self._lines = {line.server_id: line for line in lines}
        assert self._lines.keys() >= self.members.keys(), "each server here has addresses"
        if self.config.membership is None:
            self.membership = Membership(in_java_order(self._lines.values()))
        else:
            kept = self.membership.lines
            moved = (line._replace(client=self._lines.get(line.server_id, line).client) for line in kept)
            self.membership = self.membership._replace(lines=tuple(moved))
        if self.leading is not None:
            self._set_first_version(self.leading.epoch << 32)
        for member in self.members.values():
            member.configure(now_ms)

    def _set_first_version(self, zxid: int) -> None:
        """Set the version of a first membership that can change: the first leader's first zxid (Leader.lead)."""
        if self.config.server.reconfig_enabled and not self.membership.version:
            self.membership = self.membership._replace(version=zxid)

    def line_of(self, server_id: int) -> ServerLine:
        """Return the line of a server in the membership, or its last one."""
        now = (line for line in self.membership.lines if line.server_id == server_id)
        return next(now, self._lines[server_id])

    def place_of(self, member: Member) -> EnsembleRole:
        """Return the role of a server for monitoring."""
        leader, membership = self.leading, self.membership
        follows = leader is not None and member.role in (Role.LEADING, Role.FOLLOWING)
        assert leader is None or leader.server_id in membership.voters, "a leader has a vote"
        learners = (one for one in self.members.values() if leader is member and one.role is Role.FOLLOWING)
        return EnsembleRole(
            line=self.line_of(member.server_id),
            observes=member.server_id in membership.observers,
            votes=member.server_id in membership.voters,
            membership=membership,
            leader=self.line_of(leader.server_id) if leader is not None and follows else None,
            since_ms=member.since_ms,
            tally=member.tally,
            local=member.sessions.local_sessions(),
            has_local=self.config.local_sessions,
            learners=[
                Learner(
                    line=self.line_of(one.server_id),
                    observes=one.server_id in membership.observers,
                    votes=one.server_id in membership.voters,
                    since_ms=one.since_ms,
                    learned=one.tally.learned,
                    forwarded=one.tally.forwarded,
                    zxid=one.zxid,
                )
                for one in learners
            ],
        )

    # Reconfiguration

    def can_adopt(self, membership: Membership) -> bool:
        """Return whether a majority of the new voters has the whole history (Leader.isQuorumSynced)."""
        synced = [member for member in self.members.values() if member.role in (Role.LEADING, Role.FOLLOWING)]
        return self._has_quorum(synced, membership)

    def adopt(self, membership: Membership, now_ms: int) -> None:
        """Make a committed reconfiguration effective: servers with another role rejoin.

        A removed server goes on as a follower without a vote; a leader without a vote steps down.
        """
        assert self.can_adopt(membership), "a majority of the new voters has the reconfiguration"
        before, self.membership = self.membership, membership
        for server_id, member in self.members.items():
            changes_role = (server_id in before.observers) != (server_id in membership.observers)
            if changes_role and member.role is Role.FOLLOWING:
                member.join(now_ms)
        if self.leading is not None and self.leading.server_id not in membership.voters:
            self._depose(now_ms)
        self._update_roles(now_ms)
        assert self.leading is None or self.leading.server_id in self.membership.voters, "a leader has a vote"

    def _member(self, server_id: int) -> Member:
        if server_id not in self.members:
            raise SimzkError(f"server {server_id} does not exist", where="server", right=f"1 to {len(self.members)}")
        return self.members[server_id]

    def check(self) -> None:
        """Assert all invariants of the ensemble and its servers; servers at one position have equal trees."""
        end = self.history.end
        if self.leading is not None:
            assert self.leading.role is Role.LEADING
            assert self.leading.position == end
            assert self.leading.zxid >> 32 == self.epoch
            assert all(session_id in self.leading.sessions for session_id in self.owners)
        assert all(self.members[server_id].role is Role.FOLLOWING for server_id in self._silent)
        assert self.leading is not None or not self._silent
        have_all = [member for member in self.members.values() if member.logged == end]
        assert self._has_quorum(have_all, self.membership), "a majority has the whole history"
        trees: dict[int, object] = {}
        for member in self.members.values():
            member.check()
            assert member.position <= member.logged <= end
            assert (member.role is Role.LEADING) == (member is self.leading)
            tree = [
                (path, node.stat(), node.data, node.acl)
                for path, node in member.tree.walk()
                if path != CONFIG_PATH  # each server's own (§2.4)
            ]
            assert trees.setdefault(member.position, tree) == tree, "servers at one position have equal trees"
