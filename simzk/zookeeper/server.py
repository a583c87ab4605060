"""One ZooKeeper server's state machine: requests and time in, replies and watch events out. No IO.

Rules of this module:
  - time comes in as a number of milliseconds; nothing here waits or reads a clock;
  - a write is checked (prepare.py), becomes a transaction with the next zxid, and is applied; a write that fails is a
    transaction too (§1.5);
  - what a request changes is told to watchers while it is applied, before its reply is made (§1.8);
  - nothing is sent: messages are left in connections' outboxes, and `take_output` hands them over.

Source: ZooKeeperServer, PrepRequestProcessor, FinalRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.acl import READ
from simzk.zookeeper.authentication import Verdict, authenticate, log_in
from simzk.zookeeper.batches import Batch
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.connection import Connection
from simzk.zookeeper.containers import Sweeper
from simzk.zookeeper.operations import Kind, of_kind
from simzk.zookeeper.prepare import PREPARE, prepare_multi
from simzk.zookeeper.reads import READS, Reader
from simzk.zookeeper.replies import (
    PING_XID,
    Closed,
    Code,
    ConnectResponse,
    RefusedError,
    Reply,
    multi_results,
    without_stats,
)
from simzk.zookeeper.sasl import nonce_of
from simzk.zookeeper.sessions import SessionTracker, first_session_id, password_of
from simzk.zookeeper.transactions import Observers, Transaction
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.watches import OldWatchManager, WatchManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simzk.zookeeper.replies import Outgoing


class Server:
    """One ZooKeeper server.

    A driver calls `connect`, `handle`, `disconnect` as its clients do, `tick` when `next_deadline_ms` has come, and
    sends what `take_output` gives. Times must not go back.

    Args:
        config: how the server behaves.
        now_ms: the time at which it starts; session ids and sweeps count from there.
        tree: a tree to start from, the initial one where None.
        sessions: ids and timeouts in ms of sessions that live on from before; each has its whole timeout again.
        zxid: of the last transaction that `tree` shows.

    Attributes:
        tree: all znodes.
        sessions: the live sessions.
        watches: which connection watches what.
        zxid: of the last transaction applied.
        mode: what the word srvr calls its mode; empty for a server of an ensemble that does not serve.
        expired: how many sessions ended by `expire`.
        on_transaction: called with each transaction as it is applied, failed writes (`ErrorTxn`) included.

    >>> server = Server()
    >>> connection = server.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), now_ms=0)
    >>> server.handle(connection, 1, req.Create("/a", b"x", req.OPEN_ACL, 0), now_ms=5)
    >>> server.handle(connection, 2, req.GetData("/a", False), now_ms=6)
    >>> [(_, (connected, created, read))] = server.take_output()
    >>> read.body[0], read.body[1].ctime_ms
    (b'x', 5)
    """

    @property
    def mode(self) -> str:
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
            self.config.tick_time_ms, first_session_id(self.config.server_id, now_ms)
        )
        for session_id, timeout_ms in sessions:
            self.sessions.add(session_id, timeout_ms, now_ms)
        self.watches: WatchManager[Connection] = WatchManager() if rules.watches_have_modes else OldWatchManager()
        self.zxid: int = zxid
        self.expired: int = 0
        self.on_transaction: Observers = Observers()
        self._reader = Reader(self.tree, self.watches)
        self._reads = {kind: read for kind, read in READS.items() if kind not in rules.unknown}
        self._checks = {kind: check for kind, check in _WRITES.items() if kind not in rules.unknown}
        self._sweeper = Sweeper(self.tree, self.config, now_ms)
        self._sweeper.note(now_ms)
        self._required_schemes = self.config.required_schemes
        self._exchanges = 0
        self._connections: dict[int, Connection] = {}
        self._unsent: dict[Connection, None] = {}

    # Connections

    def connect(
        self, request: req.ConnectRequest, now_ms: int, *, address: str = "127.0.0.1", owner: object = None
    ) -> Connection:
        """A client has connected and asks for a session, a new one or one that it has (§1.3).

        Args:
            request: the first record of the connection.
            now_ms: the present time.
            address: the client's address.
            owner: kept in the connection for the driver.

        Returns:
            The connection; the first thing in its outgoing is the ConnectResponse, or Closed where there is none.
        """
        connection = Connection(address, owner, self.config, self.tree.quotas)
        if request.last_zxid_seen > self.zxid:
            # The client has seen what this server has not: it must look for another.
            self._close(connection)
            return connection
        connection.timeout_ms = self.config.clamp_timeout(request.timeout_ms)
        session_id = request.session_id
        if session_id == 0:
            session_id = self.sessions.new_id()
            self.apply(
                txns.Transaction(session_id, 0, self.zxid + 1, now_ms, txns.CreateSessionTxn(connection.timeout_ms))
            )
        elif not self._reattach(session_id, request.password, connection.timeout_ms, now_ms):
            read_only = None if request.read_only is None else False
            self._send(connection, ConnectResponse(0, 0, 0, bytes(16), read_only))
            self._close(connection)
            return connection
        connection.session_id = session_id
        connection.session = self.sessions.get(session_id)
        assert connection.session is not None
        self._connections[session_id] = connection
        connection.read_only = None if request.read_only is None else False
        self._welcome(connection)
        return connection

    def _welcome(self, connection: Connection) -> None:
        """Tell a client which session it has."""
        session_id = connection.session_id
        self._send(
            connection,
            ConnectResponse(0, connection.timeout_ms, session_id, password_of(session_id), connection.read_only),
        )

    def _reattach(self, session_id: int, password: bytes | None, timeout_ms: int, now_ms: int) -> bool:
        """Whether the session may be taken up. Its present connection goes in any case, before the password is
        looked at (§1.3)."""
        present = self._connections.get(session_id)
        if present is not None:
            self._close(present)
        session = self.sessions.get(session_id)
        if session is None or password != password_of(session_id):
            return False
        self.sessions.touch(session, now_ms, timeout_ms)
        return True

    def identify(self, connection: Connection, subject: str) -> None:
        """A connection's transport knows its client by a certificate of this subject (§4)."""
        if subject == self.config.x509_super:
            connection.add_identity(req.Id("super", subject))
        connection.add_identity(req.Id("x509", subject))

    def disconnect(self, connection: Connection) -> None:
        """The transport of a connection is gone: so are its watches and what was not sent; its session stays."""
        if not connection.closed:
            self._close(connection)
        connection.outgoing.clear()
        self._unsent.pop(connection, None)

    def connection_of(self, session_id: int) -> Connection | None:
        """The open connection of a session, or None."""
        return self._connections.get(session_id)

    def restart(self, now_ms: int) -> None:
        """Stop and start at once: connections and watches go, the tree and the sessions stay (§1.8).

        Every session has its whole timeout again.
        """
        for connection in list(self._connections.values()):
            self._close(connection)
        for session_id in self.sessions.ids():
            session = self.sessions.get(session_id)
            assert session is not None
            self.sessions.touch(session, now_ms, session.timeout_ms)

    def replace(self, tree: DataTree, sessions: Mapping[int, int], zxid: int, now_ms: int) -> None:
        """Have another tree and its sessions from now on, as by the AdminServer's command restore.

        Whose session is not among them is cut off; watches are gone. History goes on behind both trees.

        Args:
            tree: the other one.
            sessions: ids and timeouts in ms; each has its whole timeout.
            zxid: of the last transaction that it shows.
            now_ms: the present time.
        """
        self.tree, self.zxid = tree, max(self.zxid, zxid)
        self._reader = Reader(tree, self.watches)
        self._sweeper = Sweeper(tree, self.config, now_ms)
        self._sweeper.note(now_ms)
        for session_id in list(self.sessions.ids()):
            self.sessions.remove(session_id)
        for session_id, timeout_ms in sessions.items():
            self.sessions.add(session_id, timeout_ms, now_ms)
        for connection in list(self._connections.values()):
            self.watches.forget(connection)
            connection.session = self.sessions.get(connection.session_id)
            connection.asker = connection.asker._replace(quotas=tree.quotas)
            if connection.session is None:
                self._close(connection)

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
        """One request of a connection: its reply, and the events that it causes, land in outboxes.

        Args:
            connection: whose request it is; of a closed one nothing is heard.
            xid: echoed in the reply.
            request: what is asked; of a batch xid is that of the first.
            now_ms: the present time.
            at_once: whether the caller sends a reply that is returned.

        Returns:
            None, but where a reply is all that there is to send and is to be sent at once: then it is in no outbox.
        """
        if connection.closed or connection.session is None:
            return None
        kind = request.__class__
        if self._required_schemes and kind not in (req.Auth, req.Sasl) and not self._is_known(connection):
            self._judge(connection, xid, Verdict(Code.SESSION_CLOSED_REQUIRE_SASL_AUTH, closes=True))
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
            zxid, error = self.zxid + 1, 0
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
        """Something came from an open connection at this time: its session lives on."""
        assert connection.session is not None
        connection.heard_ms = now_ms
        self.sessions.touch(connection.session, now_ms, connection.timeout_ms)

    def _multi(self, connection: Connection, xid: int, request: req.Multi, now_ms: int) -> None:
        error = 0
        record: txns.MultiTxn | txns.ErrorTxn
        try:
            record = prepare_multi(request, connection.asker, self.tree.find, connection.session_id)
        except RefusedError as refused:
            error = refused.code
            record = txns.ErrorTxn(error)
        zxid = self.zxid + 1
        bodies = self.apply(txns.Transaction(connection.session_id, xid, zxid, now_ms, record))
        results = multi_results(record, bodies)
        if results is not None and not self._rules.multi_tells_stats:
            results = without_stats(request, results)
        self._send(connection, Reply(xid, zxid, error, results))

    def _ping(self, connection: Connection, xid: int, request: req.Ping, now_ms: int) -> None:
        self._send(connection, Reply(PING_XID, self.zxid, 0, None))

    def _auth(self, connection: Connection, xid: int, request: req.Auth, now_ms: int) -> None:
        self._judge(connection, xid, authenticate(connection, request))

    def _sasl(self, connection: Connection, xid: int, request: req.Sasl, now_ms: int) -> None:
        def new_nonce() -> str:
            self._exchanges += 1
            return nonce_of(connection.session_id, self._exchanges)

        self._judge(connection, xid, log_in(connection, request, new_nonce))

    def _judge(self, connection: Connection, xid: int, verdict: Verdict) -> None:
        """Tell a client what became of its showing who it is. The reply carries no zxid (§1.5)."""
        if verdict.code is not None:
            self._send(connection, Reply(xid, 0, verdict.code, verdict.token))
        if verdict.closes:
            self._close(connection)

    def _is_known(self, connection: Connection) -> bool:
        return any(identity.scheme in self._required_schemes for identity in connection.identities)

    def _create_session(self, connection: Connection, xid: int, request: req.CreateSession, now_ms: int) -> None:
        record = txns.CreateSessionTxn(request.timeout_ms)
        self.apply(txns.Transaction(connection.session_id, xid, self.zxid + 1, now_ms, record))
        self._welcome(connection)

    def _close_session(self, connection: Connection, xid: int, request: req.CloseSession, now_ms: int) -> None:
        self._end_session(connection.session_id, xid, now_ms)
        self._send(connection, Reply(xid, self.zxid, 0, None))
        self._close(connection)

    def _undecodable(self, connection: Connection, xid: int, request: req.Undecodable, now_ms: int) -> None:
        if request.takes_zxid:
            error = txns.ErrorTxn(Code.MARSHALLING_ERROR)
            self.apply(txns.Transaction(connection.session_id, xid, self.zxid + 1, now_ms, error))
        self._send(connection, Reply(xid, self.zxid, Code.MARSHALLING_ERROR, None))

    def _unimplemented(self, connection: Connection, xid: int, request: req.Request, now_ms: int) -> None:
        if self._rules.refuses_unknown:
            self._send(connection, Reply(xid, -1, Code.UNIMPLEMENTED, None))
            self._close(connection)

    # Transactions

    def apply(self, transaction: txns.Transaction) -> object:
        """Apply a transaction, as the next of this server's history: one of its own, a leader's, or a log's.

        Returns:
            The body of the reply to whoever asked for it.
        """
        session_id, _, zxid, time_ms, record = transaction
        assert zxid > self.zxid, "history only grows"
        self.zxid = zxid
        if record.__class__ in _OF_SESSIONS:
            if isinstance(record, txns.CreateSessionTxn):
                self.sessions.add(session_id, record.timeout_ms, time_ms)
            else:
                self.sessions.remove(session_id)
        tree, watches = self.tree, self.watches
        body, changes = tree.apply(transaction)
        if tree.containers or tree.ttls:
            self._sweeper.note(time_ms)
        for observer in self.on_transaction:
            observer(transaction)
        if changes and (watches.data.by_path or watches.child.by_path):
            rules = self._rules
            told_zxid = zxid if rules.events_have_zxids else -1
            for change in changes:
                for connection, event, acl in watches.fire(change, told_zxid):
                    if not rules.hides_unreadable or connection.asker.may(acl, READ):
                        self._send(connection, event)
        return body

    # Time

    def tick(self, now_ms: int) -> None:
        """Let time do its work: sessions not heard of expire, empty containers and outlived TTL nodes go.

        A session whose connection is `attended` is touched instead.
        """
        for session in self.sessions.due(now_ms):
            connection = self._connections.get(session.session_id)
            if connection is not None and connection.attended:
                self.sessions.touch(session, now_ms, connection.timeout_ms)
            else:
                self.expire(session.session_id, now_ms)
        for path in self._sweeper.due(now_ms):
            self.apply(txns.Transaction(0, 0, self.zxid + 1, now_ms, txns.DeleteContainerTxn(path)))

    def next_deadline_ms(self) -> int | None:
        """When `tick` will next have something to do if nothing else happens, or None."""
        expiry_ms, sweep_ms = self.sessions.next_expiry_ms(), self._sweeper.next_ms
        if expiry_ms is None or sweep_ms is None:
            return expiry_ms if sweep_ms is None else sweep_ms
        return min(expiry_ms, sweep_ms)

    @property
    def next_sweep_ms(self) -> int | None:
        """When `tick` next looks for containers and TTL nodes to remove, or None; a request may bring it."""
        return self._sweeper.next_ms

    def _count_expiry(self) -> None:
        self.expired += 1

    def expire(self, session_id: int, now_ms: int) -> bool:
        """End a session now, as if its client had been silent for too long.

        Its connection, if it has one, gets the events that its own watches produce, then Closed (§1.8).

        Returns:
            Whether there was such a session.
        """
        if session_id not in self.sessions:
            return False
        connection = self._connections.get(session_id)
        self._count_expiry()
        self._end_session(session_id, 0, now_ms)
        if connection is not None:
            self._close(connection)
        return True

    def _end_session(self, session_id: int, cxid: int, now_ms: int) -> None:
        paths = tuple(self.tree.ephemerals_of(session_id))
        self.apply(txns.Transaction(session_id, cxid, self.zxid + 1, now_ms, txns.CloseSessionTxn(paths)))

    # Output

    def _send(self, connection: Connection, message: Outgoing) -> None:
        if not connection.closed:
            connection.outgoing.append(message)
            self._unsent[connection] = None

    def take_output(self) -> list[tuple[Connection, list[Outgoing]]]:
        """Everything to send since this was last called: per connection, in order."""
        taken = []
        for connection in self._unsent:
            taken.append((connection, connection.outgoing))
            connection.outgoing = []
        self._unsent.clear()
        return taken

    def check(self) -> None:
        """Assert all invariants of the server and of its parts."""
        self.tree.check()
        self.sessions.check()
        self.watches.check()
        assert all(session_id in self.sessions for session_id in self.tree.ephemerals)
        for session_id, connection in self._connections.items():
            assert not connection.closed
            assert connection.session is self.sessions.get(session_id)
        for table in (self.watches.data, self.watches.child):
            assert all(self._connections.get(watcher.session_id) is watcher for _, watcher, _ in table.entries())
        assert all(node.czxid <= self.zxid for _, node in self.tree.walk())


_new = tuple.__new__
"""Makes a tuple without the call more that a NamedTuple's own constructor is."""

_OF_SESSIONS = frozenset((txns.CreateSessionTxn, txns.CloseSessionTxn))

_WRITES = {kind: PREPARE[kind] for kind in of_kind(Kind.WRITE) if kind is not req.Multi}

_SPECIAL: dict[type, Callable[..., None]] = {
    req.Multi: Server._multi,
    req.Ping: Server._ping,
    req.Auth: Server._auth,
    req.Sasl: Server._sasl,
    req.CreateSession: Server._create_session,
    req.CloseSession: Server._close_session,
    req.Undecodable: Server._undecodable,
    req.Unimplemented: Server._unimplemented,
    req.Check: Server._unimplemented,
}
assert of_kind(Kind.SESSION, Kind.CONNECTION, Kind.PART) <= _SPECIAL.keys()
