"""One server of an ensemble as its clients see it: it answers reads itself and has the leader make its writes.

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

from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.batches import Batch
from simzk.zookeeper.ensemble.local_sessions import makes_ephemeral, refused_record
from simzk.zookeeper.ensemble.member_connection import Held, MemberConnection
from simzk.zookeeper.ensemble.proposals import is_of_any_server, is_refused_read_only, is_write, record_of, reply_to
from simzk.zookeeper.ensemble.replica import Replica
from simzk.zookeeper.ensemble.role import Role
from simzk.zookeeper.operations import permission_of
from simzk.zookeeper.refused import RefusedError
from simzk.zookeeper.replies import Code, ConnectResponse, Reply
from simzk.zookeeper.sessions import password_of

if TYPE_CHECKING:
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.ensemble.membership import Membership
    from simzk.zookeeper.ensemble.place import Place
    from simzk.zookeeper.ensemble.replica import Answer
    from simzk.zookeeper.prepare import Asker

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
        self._welcome(connection)

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
            self._welcome(connection)
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
                self._welcome(connection)
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
        self.expired += 1
        self._end_locally(session_id)

    def leader_deadline_ms(self) -> int | None:
        """When the leader next has a session to end or a sweep to make."""
        deadlines = (self.sessions.next_expiry_ms(), self._sweeper.next_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)
