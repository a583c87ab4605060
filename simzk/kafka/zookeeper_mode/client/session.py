"""ZooKeeper session of a process in virtual time, like Kafka's asynchronous ZooKeeperClient (1.1 and later).

Rules of the module (docs/reference/kafka.md §1.10, §2.15; the ZooKeeper client's timers):
  - requests are sent in the given order with a limit on requests in flight; replies arrive in that order;
  - `submit` reports a lost connection as CONNECTION_LOSS: the request may have been applied or not; `call` and
    `call_all` retry lost requests after a reconnection, and raise `SessionExpiredError` if the session expired;
  - a watch is set only if a handler is registered for the path; handlers are permanent, watches are one-shot;
  - an idle client pings; after two thirds of the timeout without a message it drops the connection, reconnects with the
    same session after a pause of one to two seconds, and sets its watches again. With several servers it tries the next
    one after a pause of up to one second, and gives an attempt up after its share of the session timeout. A process
    that was paused for so long reads nothing of what has arrived (ClientCnxn.SendThread.run);
  - a batch is one message; if it cannot be sent as one (`ZooKeeperHost.takes_batches`) its requests are pipelined;
  - an expired session is replaced at once: `before_new_session` runs, the new session is opened, `after_new_session`
    runs;
  - up to Kafka 1.0 the client is zkclient: a call that waits while the session expires is sent again in the next one
    (`ZkClient.retryUntilConnected`), whoever made it. What such a process does next it does with the new session.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.kafka.cluster.zookeeper_host import NetworkLink, ZooKeeperHost
from simzk.kafka.metadata.plane import MetadataUnavailableError
from simzk.simulation import Future, Process, gather
from simzk.zookeeper.replies import Closed, Code, ConnectResponse, EventType, Outgoing, Reply, Stat, WatchedEvent
from simzk.zookeeper.requests import (
    CloseSession,
    ConnectRequest,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    Ping,
    Request,
    Sasl,
    SetWatches,
)
from simzk.zookeeper.sasl import respond
from simzk.zookeeper.server import Batch, Requests
from simzk.zookeeper.sessions import password_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from simzk.kafka.cluster.zookeeper_access import ZooKeeperAccess

PING_XID = -2
SET_WATCHES_XID = -8
SAME_SERVER_PAUSE_MS = 1000
"""Pause before the server that was connected last is tried again: always if there is one (StaticHostProvider.next)."""
RANDOM_PAUSE_MAX_MS = 1000
"""Limit of the random pause before any reconnection (ClientCnxn.SendThread)."""
CONNECT_RETRY_MS = 1000
"""Interval between attempts to connect without an answer, as TCP retransmits its SYN."""
PING_INTERVAL_MAX_MS = 10_000
_PASSWORD_LENGTH = 16
_UNANSWERED = (Code.CONNECTION_LOSS, Code.SESSION_EXPIRED)


class SessionExpiredError(MetadataUnavailableError):
    """The session of a request has expired."""


class _Sent(NamedTuple):
    xid: int
    request: Request | Batch
    reply: Future[Reply]


class ZooKeeperSession:
    """ZooKeeper session of a process.

    Args:
        process: process of the client; messages are handled in it.
        host: simulated network and server.
        timeout_ms: requested session timeout.
        max_in_flight: limit on requests without a reply.
        access: chroot of all paths, and login [default: that of the host].
        sends_batches: whether many requests may be sent as one, for clusters of millions of partitions.
        retries_across_sessions: whether every call goes on in the next session, as of zkclient.
        reconnect_pause_us: returns the pause before the next reconnection; None for a random one.
    """

    def __init__(
        self,
        process: Process,
        host: ZooKeeperHost,
        *,
        timeout_ms: int,
        max_in_flight: int = 10,
        access: ZooKeeperAccess | None = None,
        sends_batches: bool = False,
        retries_across_sessions: bool = False,
        reconnect_pause_us: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.sends_batches = sends_batches
        self._retries_across_sessions = retries_across_sessions
        self._reconnect_pause_us = reconnect_pause_us
        self.process = process
        self.host = host
        self.access = host.access if access is None else access
        self._asked_timeout_ms = timeout_ms  # the server may change it for a session (ClientCnxn.sessionTimeout)
        self.timeout_ms = timeout_ms
        self.session_id = 0
        self.last_session_id = 0
        self.connected = False
        self.closed = False
        self.data_handlers: dict[str, Callable[[EventType], None]] = {}
        self.child_handlers: dict[str, Callable[[], None]] = {}
        self.before_new_session: Callable[[], Coroutine[Future[Any], None, None]] | None = None
        self.after_new_session: Callable[[], None] | None = None
        self._password = bytes(_PASSWORD_LENGTH)
        self._max_in_flight = max_in_flight
        self._servers = host.server_list(process.name)
        self._link: NetworkLink | None = None
        self._xid = 0
        self._waiting: deque[_Sent] = deque()
        self._in_flight: deque[_Sent] = deque()
        self._last_zxid = 0
        self._last_heard_us = 0
        self._last_sent_us = 0
        self._data_watches: dict[str, None] = {}
        self._exist_watches: dict[str, None] = {}
        self._child_watches: dict[str, None] = {}
        self._first_connection: Future[None] = Future()
        self._next_session: Future[None] = Future()
        self._between_sessions = False
        self._on_token: Callable[[bytes], None] | None = None  # only during a login
        self._pauses = process.scheduler.stream(f"reconnect/{process.name}")

    async def start(self) -> None:
        """Open the session, and return when connected."""
        assert not self._first_connection.done, "a session is started once"
        self._connect()
        await self._first_connection

    def adopt(self, session_id: int) -> None:
        """Continue a session that was opened before the simulation."""
        assert self._link is None, "a session is adopted before it is started"
        assert session_id, "ZooKeeper gives no session the id 0"
        self.session_id = session_id
        self._password = password_of(session_id)

    def submit(self, request: Request | Batch) -> Future[Reply]:
        """Queue a request; its reply may be the error CONNECTION_LOSS or SESSION_EXPIRED."""
        assert not isinstance(request, Batch) or len(request), "the reply of a batch has the xid of its last request"
        reply: Future[Reply] = Future()
        xid = self._xid + 1
        self._xid += len(request) if isinstance(request, Batch) else 1
        # `before_new_session` may wait for this request, and must not wait for the new session.
        if self._between_sessions:
            reply.set_result(Reply(xid, 0, Code.SESSION_EXPIRED, None))
            return reply
        self._waiting.append(_Sent(xid, request, reply))
        if self.connected:
            self._send_waiting()
        return reply

    async def call(self, request: Request) -> Reply:
        """Send a request until it is answered.

        Raises:
            SessionExpiredError: the session expired first.
        """
        while True:
            reply = await self.submit(request)
            if reply.error == Code.SESSION_EXPIRED:
                await self._go_on()
            elif reply.error != Code.CONNECTION_LOSS:
                return reply

    async def _go_on(self) -> None:
        """Wait for the next session, if a call whose session has expired is repeated there.

        Raises:
            SessionExpiredError: it is not.
        """
        if not self._retries_across_sessions:
            raise SessionExpiredError
        await self._next_session

    async def call_across_sessions(self, request: Request) -> Reply:
        """Send a request until it is answered, in a new session if the present one expires."""
        while True:
            try:
                return await self.call(request)
            except SessionExpiredError:
                await self._next_session

    @property
    def is_cut(self) -> bool:
        """Whether there is no connection, or the server has closed it, which a resumed process has not noticed yet."""
        return not self.connected or self._link is None or self._link.closed

    async def call_all(self, requests: Sequence[Request]) -> list[Reply]:
        """Send requests pipelined, retry lost ones, and return the replies in the order of the requests.

        Raises:
            SessionExpiredError: the session expired before all were answered.
        """
        if len(requests) > 1 and self.sends_batches and self.host.takes_batches:
            replies: list[Reply] = await self.call_batch(Requests(requests))
            return replies
        return await self._call_each(requests)

    async def _call_each(self, requests: Sequence[Request]) -> list[Reply]:
        replies: list[Reply | None] = [None] * len(requests)
        missing = list(range(len(requests)))
        while missing:
            answers = await gather([self.submit(requests[index]) for index in missing])
            for index, answer in zip(missing, answers, strict=True):
                replies[index] = answer
            if any(answer.error == Code.SESSION_EXPIRED for answer in answers):
                await self._go_on()
            missing = [index for index, answer in zip(missing, answers, strict=True) if answer.error in _UNANSWERED]
        found = [reply for reply in replies if reply is not None]
        assert len(found) == len(requests), "each request is answered"
        return found

    async def call_batch(self, batch: Batch) -> Any:
        """Send a batch as one message if possible, otherwise pipelined, and return the body of its reply.

        Raises:
            SessionExpiredError: the session expired before all were answered.
        """
        while len(batch) and self.sends_batches and self.host.takes_batches:
            reply = await self.submit(batch)
            if reply.error == Code.SESSION_EXPIRED:
                await self._go_on()
            elif reply.error != Code.CONNECTION_LOSS:
                return reply.body
        return batch.assemble(await self._call_each(list(batch.requests())))

    async def exists(self, path: str) -> Reply:
        """Request a znode's Stat, with a watch if a data handler is registered."""
        return await self.call(Exists(path, path in self.data_handlers))

    async def get_data(self, path: str) -> Reply:
        """Read a znode, with a watch if a data handler is registered."""
        return await self.call(GetData(path, path in self.data_handlers))

    async def get_children(self, path: str) -> Reply:
        """List a znode's children, with a watch if a child handler is registered."""
        return await self.call(GetChildren2(path, path in self.child_handlers))

    async def close(self) -> None:
        """Close the session, as a clean shutdown does: its ephemerals are deleted at once."""
        await self.submit(CloseSession())
        self.closed = True
        self.drop_connection()

    def drop_connection(self) -> None:
        """Close the connection without reconnecting, as the death of the process does; the session remains."""
        self.closed = True
        self.connected = False
        if self._link is not None:
            self._link.driver.break_link(self._link)
            self._link = None

    def break_connection(self) -> None:
        """Lose the connection, as if the network had closed it; the client reconnects with its session."""
        if self._link is not None:
            self._link.driver.break_link(self._link)
            self._on_connection_lost()

    # -- connection

    def _connect(self) -> None:
        if not self.closed and self._link is None:
            self._open_link(self._servers.next()[0])

    def _open_link(self, host: ZooKeeperHost) -> None:
        """Open a connection to a server, and give it up after some time without an answer."""
        if self.closed or self._link is not None:
            return
        assert not self.connected, "a connected session has a link"
        assert not self._in_flight, "requests in flight failed with their connection"
        link = NetworkLink(
            host, self.process.name, lambda messages: self.process.deliver_last(partial(self._receive, link, messages))
        )
        self._link = link
        request = ConnectRequest(0, self._last_zxid, self._asked_timeout_ms, self.session_id, self._password, False)
        host.send(link, 0, request)
        limit_ms = CONNECT_RETRY_MS if len(self._servers) == 1 else self.timeout_ms // len(self._servers)
        self.process.call_later(limit_ms * 1000, lambda: self._connect_again(link))

    def _connect_again(self, link: NetworkLink) -> None:
        if self._link is link and not self.connected:
            link.driver.break_link(link)
            if len(self._servers) > 1:
                self._on_connection_lost()
            else:
                self._link = None
                self._connect()

    def _receive(self, link: NetworkLink, messages: Sequence[Outgoing] | None) -> None:
        if link is not self._link:
            return
        now_us = self.process.scheduler.now_us
        if self.connected and now_us - self._last_heard_us >= self._silence_us:
            link.driver.break_link(link)
            self._on_connection_lost()
            return
        self._last_heard_us = now_us
        if messages is None:
            self._on_connection_lost()
            return
        for message in messages:
            if isinstance(message, Reply):
                self._on_reply(message)
            elif isinstance(message, WatchedEvent):
                self._on_event(message)
            elif isinstance(message, ConnectResponse):
                self._on_connect_response(message)
            else:
                assert isinstance(message, Closed)
                link.open = False
                if self._link is link:
                    self._on_connection_lost()
                return

    def _on_connect_response(self, response: ConnectResponse) -> None:
        if response.session_id == 0:
            self._expire()
            return
        reconnected = self.session_id == response.session_id
        assert reconnected or not self.session_id, "a server never replaces a session that has not expired"
        self.session_id = response.session_id
        self._password = response.password
        self.timeout_ms = response.timeout_ms
        if self.access.login is None:
            self._on_connected(reconnected)
        else:
            self._log_in(b"", reconnected)

    def _log_in(self, token: bytes, reconnected: bool) -> None:
        """Send the next token of the SASL login; after the server's proof start to send queued requests."""
        assert self.access.login is not None
        if token.startswith(b"rspauth="):
            self._on_token = None
            self._on_connected(reconnected)
            return
        answer = b""
        if token:
            cnonce = f"{self.process.scheduler.stream(f'login/{self.process.name}').bits(64):016x}"
            answer = respond(token, *self.access.login, cnonce)
        assert not self.connected, "a login is over before the session is open"
        self._xid += 1
        self._on_token = lambda reply: self._log_in(reply, reconnected)
        self._send(self._xid, Sasl(answer))

    def _on_connected(self, reconnected: bool) -> None:
        assert not self._in_flight, "nothing is sent before the session is open"
        assert self._link is not None, "a connected session has a link"
        assert self.session_id, "a connected session has an id"
        assert reconnected or not (self._data_watches or self._exist_watches or self._child_watches), (
            "a new session has no watches"
        )
        self.connected = True
        self._servers.note_connected()
        self._last_sent_us = self._last_heard_us
        if reconnected:
            self._set_watches_again()
        self._arm_timer()
        self._send_waiting()
        if not self._first_connection.done:
            self._first_connection.set_result(None)

    def _on_connection_lost(self) -> None:
        """Fail the requests in flight, whose outcome is unknown, and reconnect after a pause."""
        self._link = None
        self.connected, self._on_token = False, None
        in_flight, self._in_flight = self._in_flight, deque()
        for sent in in_flight:
            sent.reply.set_result(Reply(sent.xid, 0, Code.CONNECTION_LOSS, None))
        if not self.closed:
            chosen_us = self._reconnect_pause_us()
            host, waits = self._servers.next()
            pause_ms = SAME_SERVER_PAUSE_MS * waits + self._pauses.below(RANDOM_PAUSE_MAX_MS)
            self.process.call_later(pause_ms * 1000 if chosen_us is None else chosen_us, lambda: self._open_link(host))

    def _expire(self) -> None:
        """Fail all requests, and open a new session: the server has expired the old one."""
        if self._link is not None:
            self._link.driver.break_link(self._link)
        self._link = None
        self.connected = False
        self.last_session_id = self.session_id
        self.session_id = 0
        self._password = bytes(_PASSWORD_LENGTH)
        self._last_zxid = 0  # a new ZooKeeper client has seen nothing (ZooKeeperClient.reinitialize, ClientCnxn)
        waiting = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        self._data_watches.clear()
        self._exist_watches.clear()
        self._child_watches.clear()
        assert not self._between_sessions, "a session expires once"
        self._between_sessions = True
        self._next_session = Future()
        for sent in waiting:
            sent.reply.set_result(Reply(sent.xid, 0, Code.SESSION_EXPIRED, None))
        self.process.spawn(self._open_new_session(), "new session")

    async def _open_new_session(self) -> None:
        assert self.session_id == 0, "the expired session has no id any more"
        assert self._between_sessions
        if self.before_new_session is not None:
            await self.before_new_session()
        assert not self._waiting, "a request between two sessions is answered at once"
        self._between_sessions = False
        self._first_connection = Future()
        self._connect()
        await self._first_connection
        self._next_session.set_result(None)
        if self.after_new_session is not None:
            self.after_new_session()

    # -- sending

    def _send_waiting(self) -> None:
        assert self.connected
        while self._waiting and len(self._in_flight) < self._max_in_flight:
            sent = self._waiting.popleft()
            self._in_flight.append(sent)
            self._send(sent.xid, sent.request)
        assert len(self._in_flight) <= self._max_in_flight

    def _send(self, xid: int, request: Request | Batch) -> None:
        assert self._link is not None
        self._last_sent_us = self.process.scheduler.now_us
        self._link.driver.send(self._link, xid, request if isinstance(request, Batch) else self.access.send(request))

    @property
    def _silence_us(self) -> int:
        """The time without a message after which the client drops its connection (ClientCnxn.readTimeout)."""
        return self.timeout_ms * 2000 // 3

    def _arm_timer(self) -> None:
        """Start the timer for the next ping and for the limit of silence."""
        link = self._link
        assert self.timeout_ms > 0, f"the session timeout is {self.timeout_ms} ms"
        ping_us = min(self.timeout_ms // 3, PING_INTERVAL_MAX_MS) * 1000
        silence_us = self._silence_us

        def check() -> None:
            if link is not self._link or not self.connected:
                return
            assert link is not None
            now_us = self.process.scheduler.now_us
            if now_us - self._last_heard_us >= silence_us:
                link.driver.break_link(link)
                self._on_connection_lost()
                return
            if now_us - self._last_sent_us >= ping_us:
                self._send(PING_XID, Ping())
            next_us = min(self._last_sent_us + ping_us, self._last_heard_us + silence_us)
            self.process.call_later(max(next_us - now_us, 1000), check)

        self.process.call_later(ping_us, check)

    def _set_watches_again(self) -> None:
        if self._data_watches or self._exist_watches or self._child_watches:
            watches = SetWatches(
                self._last_zxid, tuple(self._data_watches), tuple(self._exist_watches), tuple(self._child_watches)
            )
            self._send(SET_WATCHES_XID, watches)

    def watch_differences(self) -> list[str]:
        """Return a text for each kind of watch that the client and its server have on other paths.

        Both have the same when nothing is on its way. Empty while there is no connection or an answer is awaited.
        """
        connection = None if self._link is None else self._link.connection
        if not self.connected or self._link is None or connection is None or self._in_flight:
            return []
        tables, above = self._link.driver.server.watches, self.access.above
        kinds = (
            ("data", {*self._data_watches, *self._exist_watches}, tables.data),
            ("child", {*self._child_watches}, tables.child),
        )
        found = []
        for kind, mine, table in kinds:
            its = {above(path or "") for path in table.modes_of(connection)}
            if mine != its:
                paths = ", ".join(sorted(mine ^ its))
                found.append(f"{kind} watches on {paths} are {'the client' if mine - its else 'the server'}'s alone")
        return found

    # -- receiving

    def _on_reply(self, reply: Reply) -> None:
        if reply.zxid > 0:
            assert reply.zxid >= self._last_zxid, "the zxids of one server never fall"
            self._last_zxid = reply.zxid
        if reply.xid in (PING_XID, SET_WATCHES_XID):
            return
        if self._on_token is not None:
            if isinstance(reply.body, bytes) and reply.body:
                self._on_token(reply.body)
            return
        assert self._in_flight, f"{self.process.name}: reply to {reply.xid}, expected none"
        sent = self._in_flight.popleft()
        # The reply to a batch has the xid of its last request.
        expected = sent.xid + len(sent.request) - 1 if isinstance(sent.request, Batch) else sent.xid
        assert expected == reply.xid, f"{self.process.name}: reply to {reply.xid}, expected one to {expected}"
        if isinstance(sent.request, Batch):
            for request, error in sent.request.watches(reply.body):
                self._note_watch(request, error)
            sent.reply.set_result(reply)
        else:
            self._note_watch(sent.request, reply.error)
            sent.reply.set_result(self.access.receive(reply))
        if self.connected:
            self._send_waiting()

    def _note_watch(self, request: Request, error: int) -> None:
        """Record a watch that the server has set, to set it again after a reconnection."""
        if not getattr(request, "watch", False):
            return
        match request:
            case Exists(path=str(path), watch=True):
                (self._data_watches if error == Code.OK else self._exist_watches)[path] = None
            case GetData(path=str(path), watch=True) if error == Code.OK:
                self._data_watches[path] = None
            case GetChildren(path=str(path), watch=True) | GetChildren2(path=str(path), watch=True) if error == Code.OK:
                self._child_watches[path] = None

    def _on_event(self, event: WatchedEvent) -> None:
        kind = EventType(event.type)
        event = event._replace(path=self.access.above(event.path))
        if kind == EventType.NODE_CHILDREN_CHANGED:
            tables = [self._child_watches]
        else:
            deleted = [self._child_watches] if kind == EventType.NODE_DELETED else []
            tables = [self._data_watches, self._exist_watches, *deleted]
        # The server sends an event for each kind of watch; the first one uses all of them up, and the second one finds
        # no watcher (ZooKeeper.ZKWatchManager.materialize).
        is_watched = any(event.path in table for table in tables)
        for table in tables:
            table.pop(event.path, None)
        if not is_watched:
            return
        if kind == EventType.NODE_CHILDREN_CHANGED:
            on_children = self.child_handlers.get(event.path)
            if on_children is not None:
                on_children()
            return
        handler = self.data_handlers.get(event.path)
        if handler is not None:
            handler(kind)
        on_children = self.child_handlers.get(event.path)
        if on_children is not None and kind == EventType.NODE_CREATED:
            on_children()


def stat_of(reply: Reply) -> Stat:
    """Return the Stat in a reply to exists, getData or setData."""
    body = reply.body
    stat = body if isinstance(body, Stat) else body[1]  # type: ignore[index]
    assert isinstance(stat, Stat)
    return stat


def data_of(reply: Reply) -> bytes | None:
    """Return the data in a reply to getData."""
    assert isinstance(reply.body, tuple)
    data = reply.body[0]
    assert data is None or isinstance(data, bytes)
    return data


def children_of(reply: Reply) -> list[str]:
    """Return the names in a reply to getChildren2; none if the parent does not exist."""
    if reply.error == Code.NO_NODE:
        return []
    assert isinstance(reply.body, tuple)
    return list(reply.body[0])
