"""State machine of one ZooKeeper server: requests and time in, replies and watch events out, without IO.

Rules of this module:
  - time is an argument in milliseconds; nothing here waits or reads a clock;
  - a write is checked (prepare.py), becomes a transaction with the next zxid, and is applied; a write that fails is a
    transaction too (§1.5);
  - watchers are notified while a transaction is applied, before the reply is made (§1.8);
  - messages wait in the connections' outgoing lists until `take_output` collects them;
  - a batch of n requests means those n requests, pipelined: each has the next xid, takes its zxid if it writes, fails
    alone and notifies its watchers in turn. Its one reply has the last xid and a body made of the n replies. `serve`
    processes them one by one unless a batch has a faster way with the same effects.

Source: ZooKeeperServer, PrepRequestProcessor, FinalRequestProcessor, ContainerManager.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from simzk.jvm.hash_map import HashOrderedSet, hash_set_of
from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.acl import READ
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.connection import AuthenticationResult, Connection, authenticate, log_in
from simzk.zookeeper.operations import Kind, of_kind
from simzk.zookeeper.prepare import PREPARE, PendingCversions, prepare_multi
from simzk.zookeeper.reads import READS, Reader
from simzk.zookeeper.replies import PING_XID, Closed, Code, ConnectResponse, RefusedError, Reply
from simzk.zookeeper.sasl import nonce_of
from simzk.zookeeper.sessions import SessionTracker, first_session_id, password_of
from simzk.zookeeper.transactions import Observers, Transaction, multi_results
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.watches import OldWatchManager, WatchManager
from simzk.zookeeper.znode import parent_of, ttl_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from simzk.zookeeper.prepare import Asker
    from simzk.zookeeper.replies import OperationResult, Outgoing
    from simzk.zookeeper.requests import Request


CANDIDATES_CAPACITY = 16
"""Initial capacity of the set of nodes that a sweep removes: Java's default."""


class Sweeper:
    """Schedule of the sweeps of one server, which remove empty containers and expired TTL nodes (§2.3).

    Sweeps are at multiples of the interval from the server's start; a sweep is a deadline only while the tree has such
    nodes. All removals of a sweep have one time; the real server spreads them 6 ms apart. Their order is that of a
    HashSet of all candidates, to which containers are added first (ContainerManager.getCandidates).
    """

    __slots__ = ("_interval_ms", "_start_ms", "_tree", "_unused_ms", "next_ms")

    def __init__(self, tree: DataTree, config: ServerConfig, start_ms: int) -> None:
        self._tree = tree
        self._unused_ms = config.container_unused_ms
        self._interval_ms = config.container_check_interval_ms
        self._start_ms = start_ms
        self.next_ms: int | None = None
        self.note(start_ms)

    def note(self, now_ms: int) -> None:
        """Schedule the next sweep if the tree has containers or TTL nodes."""
        if self.next_ms is None and (self._tree.containers or self._tree.ttls):
            self.next_ms = self._after(now_ms)

    def _after(self, now_ms: int) -> int:
        assert now_ms >= self._start_ms, "times do not decrease"
        return now_ms + self._interval_ms - (now_ms - self._start_ms) % self._interval_ms

    def due(self, now_ms: int) -> list[str]:
        """Return the paths that a due sweep removes, and schedule the next sweep."""
        if self.next_ms is None or now_ms < self.next_ms:
            return []
        tree = self._tree
        self.next_ms = self._after(now_ms) if tree.containers or tree.ttls else None
        assert self.next_ms is None or self.next_ms > now_ms, "one sweep is due at a time"
        due = HashOrderedSet(CANDIDATES_CAPACITY)
        for paths, is_due in ((tree.containers, self._is_empty_container), (tree.ttls, self._is_expired)):
            for path in hash_set_of((path for path in paths if is_due(path, now_ms)), len(paths)):
                due.add(path)
        return list(due)

    def _is_empty_container(self, path: str, now_ms: int) -> bool:
        node = self._tree.get(path)
        if node is None or node.child_count:
            return False
        # A container that never had a child is kept, or kept for maxNeverUsedIntervalMs.
        return node.cversion > 0 or 0 != self._unused_ms < now_ms - node.mtime_ms

    def _is_expired(self, path: str, now_ms: int) -> bool:
        node = self._tree.get(path)
        ttl_ms = None if node is None else ttl_of(node.ephemeral_owner)
        return node is not None and ttl_ms is not None and not node.child_count and now_ms - node.mtime_ms > ttl_ms


class Server:
    """One ZooKeeper server.

    A driver calls `connect`, `handle` and `disconnect` for its clients and `tick` at `next_deadline_ms`, and sends the
    messages that `take_output` returns. Times must not decrease.

    Args:
        config: configuration.
        now_ms: start time, from which session ids and sweeps are derived.
        tree: restored tree; None for the initial one.
        sessions: ids and timeouts in ms of restored sessions; the timeout of each starts anew.
        zxid: zxid of the last transaction applied to `tree`.

    Attributes:
        tree: all znodes.
        sessions: live sessions.
        watches: watches of all connections.
        zxid: zxid of the last applied transaction.
        pending: cversions that wrapped in creates that are not answered yet.
        mode: mode in the words srvr and stat; empty for a server of an ensemble without a leader.
        expired: number of sessions that expired.
        on_transaction: functions called with each applied transaction, failed writes (`ErrorTxn`) included.

    >>> server = Server()
    >>> connection = server.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), now_ms=0)
    >>> server.handle(connection, 1, req.Create("/a", b"x", req.OPEN_ACL, 0), now_ms=5)
    >>> server.handle(connection, 2, req.GetData("/a", False), now_ms=6)
    >>> [(_, (connected, created, read))] = server.take_output()
    >>> read.body[0], read.body[1].ctime_ms
    (b'x', 5)
    """

    @property
    def next_zxid(self) -> int:
        """Return the zxid of the next transaction."""
        return self.zxid + 1 + self._skipped_zxids

    @property
    def mode(self) -> str:
        """Return the mode that the word srvr shows."""
        return "standalone"

    def __init__(
        self,
        config: ServerConfig | None = None,
        *,
        now_ms: int = 0,
        tree: DataTree | None = None,
        sessions: Iterable[tuple[int, int]] = (),
        zxid: int = 0,
    ) -> None:
        self.config: ServerConfig = config or ServerConfig()
        rules = self._rules = self.config.rules
        self.tree: DataTree = DataTree(rules) if tree is None else tree
        self.sessions: SessionTracker = SessionTracker(
            self.config.tick_time_ms, first_session_id(self.config.server_id, now_ms), self.config.tick_origin_ms
        )
        for session_id, timeout_ms in sessions:
            self.sessions.add(session_id, timeout_ms, now_ms)
        self.watches: WatchManager[Connection] = (
            WatchManager() if rules.watches_have_modes else OldWatchManager(checks_all=rules.checks_all_watches)
        )
        self.zxid: int = zxid
        self.expired: int = 0
        self.on_transaction: Observers = Observers()
        self._reader = Reader(self.tree, self.watches)
        self._reads = {kind: read for kind, read in READS.items() if kind not in rules.unknown}
        self._checks = {kind: check for kind, check in _WRITES.items() if kind not in rules.unknown}
        self._sweeper = Sweeper(self.tree, self.config, now_ms)
        self._required_schemes = self.config.required_schemes
        self._exchanges = 0
        self._skipped_zxids = 0
        self._unended: set[int] = set()  # sessions that are gone, but for their ephemerals
        self._connections: dict[int, Connection] = {}
        self._unsent: dict[Connection, None] = {}
        self.pending: PendingCversions = PendingCversions(self.tree.wrapped, self._unsent)

    # Connections

    def connect(
        self, request: req.ConnectRequest, now_ms: int, *, address: str = "127.0.0.1", owner: object = None
    ) -> Connection:
        """Create or reattach a session for a connecting client (§1.3).

        Args:
            request: connect request.
            now_ms: present time.
            address: address of the client.
            owner: reference for the driver, stored in the connection.

        Returns:
            The connection; its first outgoing message is a ConnectResponse, or Closed if there is none.
        """
        connection = Connection(address, owner, self.config, self.tree.quotas, self.pending)
        if request.last_zxid_seen > self.zxid:
            # This server lags behind the client, which has to connect to another one.
            self._close(connection)
            return connection
        connection.read_only = self.config.rules.read_only_byte(request.read_only, is_read_only=False)
        connection.timeout_ms = self.config.clamp_timeout(request.timeout_ms)
        session_id = request.session_id
        if session_id == 0:
            session_id = self.sessions.new_id()
            self.apply(
                txns.Transaction(session_id, 0, self.next_zxid, now_ms, txns.CreateSessionTxn(connection.timeout_ms))
            )
        elif not self._reattach(session_id, request.password, connection.timeout_ms, now_ms):
            self._send(connection, ConnectResponse(0, 0, 0, bytes(16), connection.read_only))
            self._close(connection)
            return connection
        connection.session_id = session_id
        connection.session = self.sessions.get(session_id)
        assert connection.session is not None
        assert session_id not in self._connections, "a session has one connection"
        self._connections[session_id] = connection
        self._send_session(connection)
        return connection

    def _send_session(self, connection: Connection) -> None:
        session_id = connection.session_id
        assert session_id, "a client without a session is closed"
        self._send(
            connection,
            ConnectResponse(0, connection.timeout_ms, session_id, password_of(session_id), connection.read_only),
        )

    def _reattach(self, session_id: int, password: bytes | None, timeout_ms: int, now_ms: int) -> bool:
        """Reattach a session; return False for an unknown session or a wrong password.

        The session's present connection is closed in any case, before the password is checked (§1.3).
        """
        present = self._connections.get(session_id)
        if present is not None:
            self._close(present)
        assert session_id not in self._connections
        session = self.sessions.get(session_id)
        if session is None or password != password_of(session_id):
            return False
        self.sessions.touch(session, now_ms, timeout_ms)
        return True

    def identify(self, connection: Connection, subject: str) -> None:
        """Add the identity of a client certificate with this subject (§4)."""
        if subject == self.config.x509_super:
            connection.add_identity(req.Id("super", subject))
        connection.add_identity(req.Id("x509", subject))

    def disconnect(self, connection: Connection) -> None:
        """Drop a connection whose transport is closed, with its watches and unsent messages; its session stays."""
        if not connection.closed:
            self._close(connection)
        connection.outgoing.clear()
        self._unsent.pop(connection, None)
        assert self._connections.get(connection.session_id) is not connection, "a dropped connection serves no session"

    def connection_of(self, session_id: int) -> Connection | None:
        """Return the open connection of a session, or None."""
        return self._connections.get(session_id)

    def restart(self, now_ms: int) -> None:
        """Restart at once: close connections and drop watches, keep the tree and the sessions (§1.8).

        The timeout of every session starts anew.
        """
        for connection in list(self._connections.values()):
            self._close(connection)
        assert not self._connections
        for session in self.sessions:
            self.sessions.touch(session, now_ms, session.timeout_ms)
        assert not self.watches.data, "a watch goes with its connection"
        assert not self.watches.child

    def replace(self, tree: DataTree, sessions: Mapping[int, int], zxid: int, now_ms: int) -> None:
        """Replace the tree and the sessions, as the AdminServer's command restore does.

        Connections without a session in `sessions` are closed; watches are dropped. The zxid does not decrease.

        Args:
            tree: the new tree.
            sessions: ids and timeouts in ms; each timeout starts anew.
            zxid: zxid of the last transaction applied to `tree`.
            now_ms: present time.
        """
        self.tree, self.zxid = tree, max(self.zxid, zxid)
        self._reader = Reader(tree, self.watches)
        self._sweeper = Sweeper(tree, self.config, now_ms)
        self.pending = PendingCversions(tree.wrapped, self._unsent)
        for session_id in list(self.sessions.ids()):
            self.sessions.remove(session_id)
        for session_id, timeout_ms in sessions.items():
            self.sessions.add(session_id, timeout_ms, now_ms)
        for connection in list(self._connections.values()):
            self.watches.forget(connection)
            connection.session = self.sessions.get(connection.session_id)
            connection.asker = connection.asker._replace(quotas=tree.quotas, pending=self.pending)
            if connection.session is None:
                self._close(connection)
        assert self.sessions.ids() == list(sessions), "only the new sessions are live"
        assert not self.watches.data, "each watch has an open connection"
        assert not self.watches.child

    def _close(self, connection: Connection) -> None:
        self._send(connection, Closed())
        connection.closed = True
        self.watches.forget(connection)
        if self._connections.get(connection.session_id) is connection:
            del self._connections[connection.session_id]

    # Requests

    def handle(
        self, connection: Connection, xid: int, request: req.Request | Batch, now_ms: int, at_once: bool = False
    ) -> Reply | None:
        """Process a request; put its reply and the watch events it causes into outgoing messages.

        Args:
            connection: connection of the client; requests on a closed one are ignored.
            xid: xid of the request, or of the first request of a batch.
            request: the request.
            now_ms: present time.
            at_once: whether the caller sends a returned reply itself.

        Returns:
            With `at_once`, the reply if nothing else is to be sent; it is then in no outgoing list. Else None.
        """
        if connection.closed or connection.session is None:
            return None
        kind = request.__class__
        if self._required_schemes and kind not in (req.Auth, req.Sasl) and not self._is_authenticated(connection):
            self._send_verdict(
                connection, xid, AuthenticationResult(Code.SESSION_CLOSED_REQUIRE_SASL_AUTH, closes=True)
            )
            return None
        if now_ms != connection.heard_ms:
            self.hear(connection, now_ms)
        if (read := self._reads.get(kind)) is not None:
            try:
                reply = _new(Reply, (xid, self.zxid, 0, read(self._reader, connection, request)))
            except RefusedError as refused:
                reply = Reply(xid, self.zxid, refused.code, refused.body)
        elif (check := self._checks.get(kind)) is not None:
            record: txns.Record
            zxid, error = self.zxid + 1 + self._skipped_zxids, 0
            try:
                record = check(request, connection.asker, self.tree.find)
            except RefusedError as refused:
                error = refused.code
                record = txns.ErrorTxn(error)
            body = self.apply(_new(Transaction, (connection.session_id, xid, zxid, now_ms, record)))
            reply = _new(Reply, (xid, zxid, error, body))
        elif isinstance(request, Batch):
            reply = request.answer(self, connection, xid, now_ms)
        else:
            _SPECIAL.get(kind, Server._unimplemented)(self, connection, xid, request, now_ms)
            return None
        unsent = self._unsent
        if at_once and not unsent:
            return reply
        outgoing = connection.outgoing
        if not outgoing or connection not in unsent:
            unsent[connection] = None
        outgoing.append(reply)
        return None

    def hear(self, connection: Connection, now_ms: int) -> None:
        """Touch the session of an open connection that sent something."""
        assert connection.session is not None
        connection.heard_ms = now_ms
        self.sessions.touch(connection.session, now_ms, connection.timeout_ms)

    def _write(self, connection: Connection, xid: int, request: req.Request, now_ms: int) -> None:
        """Process a multi or a createSession; `handle` processes the writes of one znode."""
        assert request.__class__ not in self._checks
        if isinstance(request, req.Multi) and request.has_null_path and not self._rules.decodes_before_zxid:
            # It fails with a zxid, but before it is a transaction (PrepRequestProcessor.getPendingChanges).
            self._skipped_zxids += 1
            self._send(connection, Reply(xid, self.zxid, Code.MARSHALLING_ERROR, []))
            return
        record = record_of(request, connection.asker, self.tree, connection.session_id)
        transaction = txns.Transaction(connection.session_id, xid, self.next_zxid, now_ms, record)
        self._answer_write(connection, request, transaction, self.apply(transaction))

    def _answer_write(
        self, connection: Connection, request: req.Request, transaction: txns.Transaction, body: object
    ) -> None:
        """Answer a write after its transaction was applied with `body` as its result."""
        if isinstance(request, req.CreateSession):
            connection.heard_ms = -1  # the next request gives the session the connection's timeout again
            self._send_session(connection)
            return
        _, xid, zxid, _, record = transaction
        if isinstance(record, txns.CheckTxn):
            return  # the real server fails while it writes the reply
        if isinstance(request, req.Multi):
            body = multi_results(record, body)
        self._send(connection, Reply(xid, zxid, record.error if isinstance(record, txns.ErrorTxn) else 0, body))

    def _ping(self, connection: Connection, xid: int, request: req.Ping, now_ms: int) -> None:
        self._send(connection, Reply(PING_XID, self.zxid, 0, None))

    def _auth(self, connection: Connection, xid: int, request: req.Auth, now_ms: int) -> None:
        self._send_verdict(connection, xid, authenticate(connection, request))

    def _sasl(self, connection: Connection, xid: int, request: req.Sasl, now_ms: int) -> None:
        def new_nonce() -> str:
            self._exchanges += 1
            return nonce_of(connection.session_id, self._exchanges)

        self._send_verdict(connection, xid, log_in(connection, request, new_nonce))

    def _send_verdict(self, connection: Connection, xid: int, verdict: AuthenticationResult) -> None:
        """Send the result of an authentication request. The reply has zxid 0 (§1.5)."""
        assert verdict.closes or verdict.code is not None, "a client that stays connected is answered"
        if verdict.code is not None:
            self._send(connection, Reply(xid, 0, verdict.code, verdict.token))
        if verdict.closes:
            self._close(connection)

    def _is_authenticated(self, connection: Connection) -> bool:
        return any(identity.scheme in self._required_schemes for identity in connection.identities)

    def _close_session(self, connection: Connection, xid: int, request: req.CloseSession, now_ms: int) -> None:
        self._write(connection, xid, request, now_ms)
        if connection.session_id in self.sessions:
            self.drop_session(connection.session_id)
        self._close(connection)

    def _undecodable(self, connection: Connection, xid: int, request: req.Undecodable, now_ms: int) -> None:
        if request.takes_zxid:
            self._write(connection, xid, request, now_ms)
        else:
            results: list[OperationResult] | None = [] if request.has_results else None
            self._send(connection, Reply(xid, self.zxid, Code.MARSHALLING_ERROR, results))

    def _check(self, connection: Connection, xid: int, request: req.Check, now_ms: int) -> None:
        """Process a check outside a multi, which is a transaction before 3.8.5 and 3.9.3 (ZOOKEEPER-2623)."""
        if self._rules.refuses_check:
            self._unimplemented(connection, xid, request, now_ms)
        else:
            self._write(connection, xid, request, now_ms)

    def _unimplemented(self, connection: Connection, xid: int, request: req.Request, now_ms: int) -> None:
        if self._rules.refuses_unknown:
            self._send(connection, Reply(xid, -1, Code.UNIMPLEMENTED, None))
            self._close(connection)

    # Transactions

    def apply(self, transaction: txns.Transaction) -> object:
        """Apply a transaction of this server, of its leader or of a log; return the body of the reply to the request.

        Observers and watchers are notified.
        """
        session_id, _, zxid, time_ms, record = transaction
        assert zxid > self.zxid, f"zxid {zxid:#x} is not after {self.zxid:#x}"
        self.zxid = zxid
        self._skipped_zxids = 0
        if record.__class__ in _SESSION_RECORDS:
            if isinstance(record, txns.CreateSessionTxn):
                self.sessions.add(session_id, record.timeout_ms, time_ms)
            elif session_id in self.sessions:  # in an ensemble, a client's closeSession may follow the expiry's
                self.sessions.remove(session_id)
        tree, watches = self.tree, self.watches
        body, changes = tree.apply(transaction)
        if tree.containers or tree.ttls:
            self._sweeper.note(time_ms)
        for observer in self.on_transaction:
            observer(transaction)
        if changes and (watches.data.by_path or watches.child.by_path):
            rules = self._rules
            event_zxid = zxid if rules.events_have_zxids else -1
            for change in changes:
                for connection, event, acl in watches.fire(change, event_zxid):
                    assert not connection.closed, "a watch goes with its connection"
                    if not rules.hides_unreadable or connection.asker.may(acl, READ):
                        self._send(connection, event)
        return body

    # Time

    def tick(self, now_ms: int) -> None:
        """Expire sessions and delete empty containers and TTL nodes that are due.

        A session with an `attended` connection is touched instead.
        """
        for session in self.sessions.due(now_ms):
            connection = self._attended_connection(session.session_id)
            if connection is not None:
                self.sessions.touch(session, now_ms, connection.timeout_ms)
            else:
                self.expire(session.session_id, now_ms)
        for path in self._sweeper.due(now_ms):
            has_parent = parent_of(path) in self.tree
            record = txns.DeleteContainerTxn(path) if has_parent else txns.ErrorTxn(Code.NO_NODE)
            self.apply(txns.Transaction(0, 0, self.next_zxid, now_ms, record))

    def _attended_connection(self, session_id: int) -> Connection | None:
        connection = self._connections.get(session_id)
        return connection if connection is not None and connection.attended else None

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next due expiry or sweep, or None."""
        deadlines = (self.sessions.next_expiry_ms(), self._sweeper.next_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def next_sweep_ms(self) -> int | None:
        """Return the time of the next sweep for containers and TTL nodes, or None if there are none."""
        return self._sweeper.next_ms

    def expire(self, session_id: int, now_ms: int) -> bool:
        """Expire a session now; return whether it was live.

        Its connection, if any, gets the events of its own watches, then Closed (§1.8).
        """
        if session_id not in self.sessions:
            return False
        connection = self._connections.get(session_id)
        self.expired += 1
        record = _closing_record(session_id, self.config, self.tree)
        self.apply(txns.Transaction(session_id, 0, self.next_zxid, now_ms, record))
        if session_id in self.sessions:
            self.drop_session(session_id)
        if connection is not None:
            self._close(connection)
        return True

    def keep_session(self, session_id: int, now_ms: int) -> None:
        """Start the timeout of a session anew, if it is live, for a client that asks for it."""
        session = self.sessions.get(session_id)
        if session is not None:
            self.sessions.touch(session, now_ms, session.timeout_ms)

    def drop_session(self, session_id: int) -> None:
        """Remove a session whose transaction failed: its ephemerals stay, owned by nobody (SessionTrackerImpl)."""
        self.sessions.remove(session_id)
        self._unended.add(session_id)

    # Output

    def _send(self, connection: Connection, message: Outgoing) -> None:
        if not connection.closed:
            connection.outgoing.append(message)
            self._unsent[connection] = None

    def take_output(self) -> list[tuple[Connection, list[Outgoing]]]:
        """Return and remove all messages to send, by connection, in order."""
        output = []
        for connection in self._unsent:
            output.append((connection, connection.outgoing))
            connection.outgoing = []
        self._unsent.clear()
        return output

    def check(self) -> None:
        """Assert all invariants of the server and of its parts."""
        self.tree.check()
        self.sessions.check()
        self.watches.check()
        assert all(session_id in self.sessions or session_id in self._unended for session_id in self.tree.ephemerals)
        for session_id, connection in self._connections.items():
            assert not connection.closed
            assert connection.session is self.sessions.get(session_id)
        for table in (self.watches.data, self.watches.child):
            assert all(self._connections.get(watcher.session_id) is watcher for _, watcher, _ in table.entries())
        assert all(node.czxid <= self.zxid for _, node in self.tree.walk())


_new = tuple.__new__
"""Makes a NamedTuple without the extra call of its constructor, for hot paths."""

_SESSION_RECORDS = frozenset((txns.CreateSessionTxn, txns.CloseSessionTxn))

_WRITES = {kind: PREPARE[kind] for kind in of_kind(Kind.WRITE) if kind is not req.Multi}

_SPECIAL: dict[type, Callable[..., None]] = {
    req.Multi: Server._write,
    req.Ping: Server._ping,
    req.Auth: Server._auth,
    req.Sasl: Server._sasl,
    req.CreateSession: Server._write,
    req.CloseSession: Server._close_session,
    req.Undecodable: Server._undecodable,
    req.Unimplemented: Server._unimplemented,
    req.Check: Server._check,
}
assert of_kind(Kind.SESSION, Kind.CONNECTION, Kind.PART) <= _SPECIAL.keys()


def _closing_record(session_id: int, config: ServerConfig, tree: DataTree) -> txns.CloseSessionTxn | txns.ErrorTxn:
    """Return the record that ends a session, with its ephemerals in the order of their deletion (§2.6).

    No server makes an ephemeral with children, or one without a parent; a snapshot or a log can. An error if the digest
    of the tree needs a parent that is not there, or that is deleted before it (PrepRequestProcessor, closeSession).
    """
    copied = config.names_ephemerals and config.rules.close_lists_ephemerals
    paths = tree.ephemerals_of(session_id, copied=copied)
    if config.rules.digests_trees:
        ended: set[str] = set()
        for path in paths:
            parent = parent_of(path)
            if parent not in tree or parent in ended:
                return txns.ErrorTxn(Code.NO_NODE)
            ended.add(path)
    return txns.CloseSessionTxn(tuple(paths))


def record_of(request: req.Request, asker: Asker, tree: DataTree, session_id: int) -> txns.Record:
    """Check a write against a tree and return its record; an `ErrorTxn` if a check fails."""
    if isinstance(request, req.CloseSession):
        return _closing_record(session_id, asker.config, tree)
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


class Batch:
    """Requests of one client, in order.

    Not an ABC: `isinstance` runs for requests on a hot path, and a metaclass would make it slower.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of requests."""

    @abstractmethod
    def requests(self) -> Iterator[Request]:
        """Return the requests in order."""

    @abstractmethod
    def assemble(self, replies: Sequence[Reply]) -> object:
        """Return the body of the batch's reply, from the replies to its requests."""

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        """Return the requests that may have set watches, each with its error, from the body of the batch's reply."""
        return ()

    def answer(self, server: Server, connection: Connection, xid: int, now_ms: int) -> Reply:
        """Serve the batch and return its reply; arguments as in `serve`."""
        body = self.serve(server, connection, xid, now_ms)
        return Reply(xid + max(len(self), 1) - 1, server.zxid, 0, body)

    def serve(self, server: Server, connection: Connection, xid: int, now_ms: int) -> object:
        """Process the requests and return the body of the batch's reply.

        Args:
            server: the server.
            connection: open connection of the client.
            xid: xid of the first request.
            now_ms: present time.
        """
        return self.assemble(
            [ask(server, connection, xid + place, one, now_ms) for place, one in enumerate(self.requests())]
        )


class Requests(Batch):
    """Batch of any requests; its reply is the list of their replies."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests

    def __len__(self) -> int:
        return len(self._requests)

    def requests(self) -> Iterator[Request]:
        return iter(self._requests)

    def assemble(self, replies: Sequence[Reply]) -> list[Reply]:
        assert len(replies) == len(self._requests), "each request has a reply"
        return list(replies)

    def watches(self, body: object) -> Iterable[tuple[Request, int]]:
        assert isinstance(body, list)
        return zip(self._requests, (reply.error for reply in body), strict=True)


def ask(server: Server, connection: Connection, xid: int, request: Request, now_ms: int) -> Reply:
    """Process one request of a batch and return its reply instead of sending it; events to others are sent."""
    server.handle(connection, xid, request, now_ms)
    assert connection.outgoing, "a request of a batch is answered at once"
    reply = connection.outgoing.pop()
    assert isinstance(reply, Reply)
    return reply
