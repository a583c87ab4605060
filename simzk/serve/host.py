"""Joins transports to one ZooKeeper server: whatever carries the bytes, here they become requests, and replies bytes.

Rules of this module:
  - the work is done in the thread that brings bytes, under one lock; nothing here waits, no thread is made here;
  - a `Link` is the server's end of one transport connection. What a link's client asks and what it is sent passes
    here: the one place where a test's faults (pause, disconnect, rules) take hold;
  - a fault names a session, as a client keeps its session over many connections;
  - a connected session that is not paused counts as heard from whenever time moves (its client pings on wall time,
    which says nothing about virtual time); a paused or a disconnected one expires by the server's rules;
  - a server that somebody else drives (a simulated cluster) has other users than our links, so its driver takes its
    output: we ask it to by `pump`, and it hands to `deliver` what is ours.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from simzk.serve.clock import Clock, StillClock, WallClock
from simzk.serve.faults import HostDriver, new_rules
from simzk.simulation.faults.point import FaultPoint
from simzk.wire.server_connection import Incoming, ProtocolProblem, Received, ServerConnection
from simzk.zookeeper.replies import Closed, Outgoing, Reply
from simzk.zookeeper.requests import ConnectRequest, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.simulation.faults.rules import FaultRules
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server


class Transport(Protocol):
    """What a link writes to."""

    def deliver(self, data: bytes) -> None: ...

    def end(self) -> None: ...


class Link:
    """The server's end of one transport connection."""

    __slots__ = (
        "_host",
        "address",
        "closed",
        "connection",
        "hung_up",
        "last_zxid",
        "paused",
        "sent",
        "session_id",
        "subject",
        "transport",
        "unread",
        "unsent",
        "wire",
    )

    def __init__(self, host: Host, transport: Transport, address: str) -> None:
        self._host = host
        self.transport = transport
        self.address = address  # the client's, its identity in the ip scheme
        self.subject = ""  # of the client's certificate, where it showed one
        self.sent = 0  # messages, replies and events alike
        self.last_zxid = -1  # of the last of them
        self.wire = ServerConnection(host.server.config.longest_request_bytes)
        self.connection: Connection | None = None
        self.session_id = 0  # of the session that this connection has or asks for; 0 as long as there is none
        self.paused = False
        self.hung_up = False
        self.closed = False
        self.unread: list[Received] = []
        self.unsent: list[Outgoing] = []

    def receive(self, data: bytes) -> None:
        """Bytes from the client, in its thread. After the server has closed they go nowhere, as in TCP."""
        host, wire, connection = self._host, self.wire, self.connection
        still = host._still
        with host.lock:
            one = wire.receive_one(data)  # what a client that waits for each reply sends: it goes without a detour
            if one is None:
                host.process(self, wire.receive_data(data))
            elif connection is None or self.paused or self.closed or host.faults.active or still is None:
                wire.expect(one)
                host.process(self, (one,))
            else:
                assert not self.unsent, "what waits, waits for a pause or a fault to end"
                xid, request = one
                reply = host.server.handle(connection, xid, request, still.at_ms, True)
                if reply is not None:
                    self.sent += 1
                    self.last_zxid = reply[1]
                    self.transport.deliver(wire.encode_one(reply, request))
                    return
                wire.expect(one)
            host._send()

    def hang_up(self) -> None:
        """The client has closed its end."""
        self._host.hang_up(self)


class Host:
    """One server, the lock around it, its clock, and the links that reach it.

    Args:
        server: the state machine.
        clock: what the server is told as time.
        pump: asks the server's driver to take its output and call `deliver`; None where nobody else uses the server.
        rules: a table of faults that others apply too.

    Attributes:
        whole: the host of all servers of an ensemble, which a session may be attached to; of a lone one itself.
        servers: the servers that a session can move to.
        moving: the host that alone takes up a session that is on its way there.
        on_deadline: told of a time, in ms, at which `tick` has something to do.
        on_resume: told that links are read again.
    """

    def __init__(
        self,
        server: Server,
        clock: Clock,
        *,
        pump: Callable[[], None] | None = None,
        rules: FaultRules | None = None,
    ) -> None:
        self.server = server
        self.clock = clock
        self._on_wall_time = isinstance(clock, WallClock)
        self.lock = threading.RLock()
        self._shares_rules = rules is not None
        if rules is None:
            rules = new_rules()
            rules.lock = self.lock
        self.rules = rules
        self.faults: FaultPoint[Link, Request] = FaultPoint(rules, HostDriver(self))
        self.whole: Host = self
        self.servers: tuple[int, ...] = ()
        self.moving: dict[int, Host] = {}
        self.on_deadline: Callable[[int], None] = lambda at_ms: None
        self.on_resume: Callable[[], None] = lambda: None
        self._send = pump or self._take_output
        # Where nothing is due by itself and nobody else drives the server: a request goes straight through.
        self._still = clock if pump is None and isinstance(clock, StillClock) else None
        self.is_open = True
        self._links: dict[Link, None] = {}  # in the order of opening
        self._paused_sessions: set[int] = set()

    # What a transport brings.

    def open(self, transport: Transport, *, address: str = "127.0.0.1") -> Link | None:
        """A new connection, which has no session until its first record arrives; None once the host is closed."""
        with self.lock:
            if not self.is_open:
                return None
            link = Link(self, transport, address)
            self._links[link] = None
            return link

    def process(self, link: Link, received: Sequence[Received]) -> None:
        """Handle what a link's wire has decoded; under the lock. What is to be sent waits for `flush`, but where order
        demands it."""
        if self._on_wall_time:
            self.tick()  # what is due comes first, whichever client's thread wakes first
        connection = link.connection
        if connection is None or link.paused or link.closed or self.faults.active:
            for one in received:
                self._take(link, one)
            return
        handle, now_ms = self.server.handle, self.clock.now_ms()
        for one in received:
            if one.__class__ is Incoming:
                handle(connection, one[0], one[1], now_ms)
            else:
                self._take(link, one)

    def flush(self) -> None:
        """Send what the server has to say."""
        with self.lock:
            self._send()

    def hang_up(self, link: Link) -> None:
        """A link's client has closed its end; its session stays. A server that does not read does not see it."""
        with self.lock:
            link.hung_up = True
            if link.paused:
                return
            if self.faults.keeps(link) and link.connection is not None:
                self._neglect(link.connection)
                return
            self._drop(link)
            self._send()

    def _take(self, link: Link, received: Received) -> None:
        if link.closed:
            return
        if link.paused:
            link.unread.append(received)
        elif isinstance(received, Incoming):
            self._handle(link, received.xid, received.request)
        elif isinstance(received, ConnectRequest):
            self._connect(link, received)
        else:
            assert isinstance(received, ProtocolProblem)
            if self.faults.keeps(link):
                link.hung_up = True  # what came before it has its turn first
            else:
                self.cut(link)

    def _connect(self, link: Link, request: ConnectRequest) -> None:
        assert link.connection is None, "the wire lets one connect request through"
        if request.session_id in self._paused_sessions:
            link.session_id = request.session_id
            link.paused = True
            link.unread.append(request)
            return
        if self.moving.get(request.session_id, self) is not self:
            self._drop(link)
            return
        self.moving.pop(request.session_id, None)
        link.connection = self.server.connect(request, self.clock.now_ms(), address=link.address, owner=link)
        link.session_id = link.connection.session_id
        if link.subject:
            self.server.identify(link.connection, link.subject)
        self._attend(link.connection)

    def _handle(self, link: Link, xid: int, request: Request) -> None:
        connection = link.connection
        assert connection is not None, "the wire lets no request through before the connect request"
        if self.faults.active:
            self.faults.admit(link, xid, request)
        else:
            self.server.handle(connection, xid, request, self.clock.now_ms())

    def _take_output(self) -> None:
        for connection, outgoing in self.server.take_output():
            self.deliver(connection, outgoing)

    def deliver(self, connection: Connection, outgoing: list[Outgoing]) -> None:
        """What the server sends on a connection of ours; under the lock."""
        link = connection.owner
        if not isinstance(link, Link):
            return
        if link.paused or link.unsent or self.faults.active:
            link.unsent.extend(outgoing)
            self._write(link)
        else:
            self._transmit(link, outgoing)

    def _write(self, link: Link) -> None:
        """Send what has been waiting on a link, as far as it is not paused and faults let it through."""
        if link.paused or not link.unsent:
            return
        outgoing, link.unsent = link.unsent, []
        if self.faults.active and self.faults.alter(link, outgoing):
            if outgoing:
                link.unsent = outgoing
                self._write(link)
            self._drop(link)
            return
        self._transmit(link, outgoing)

    def _transmit(self, link: Link, outgoing: list[Outgoing]) -> None:
        """Hand messages to a link's transport."""
        count, last = len(outgoing), outgoing[-1]
        link.sent += count
        if last.__class__ is Reply:
            link.last_zxid = last[1]
            link.transport.deliver(link.wire.encode_one(last) if count == 1 else link.wire.encode(*outgoing))
            return
        link.last_zxid = getattr(last, "zxid", link.last_zxid)
        link.transport.deliver(link.wire.encode(*outgoing))
        if last.__class__ is Closed:
            self._drop(link)

    def cut(self, link: Link) -> None:
        """Send what the server has said, then close its end."""
        self._send()
        self._drop(link)

    def _drop(self, link: Link) -> None:
        """Close the server's end; the session stays as it is."""
        if link.closed:
            return
        link.closed = True
        link.paused = False
        if self.faults.active:
            self.faults.forget(link)
        link.unread.clear()
        link.transport.end()
        del self._links[link]
        if link.connection is not None:
            self._neglect(link.connection)
            self.server.disconnect(link.connection)
            link.connection.owner = None  # so that both are freed without the garbage collector

    def _attend(self, connection: Connection) -> None:
        """From now on the session is alive whenever time moves; on wall time its client sees to that itself."""
        connection.attended = not self._on_wall_time

    def _neglect(self, connection: Connection) -> None:
        """From now on the session has its timeout to live, unless its client is heard."""
        session = self.server.sessions.get(connection.session_id)
        if connection.attended and session is not None:
            self.server.sessions.touch(session, self.clock.now_ms(), connection.timeout_ms)
        connection.attended = False

    # What a test does to a session.

    def expire(self, session_id: int) -> None:
        """End a session at once."""
        with self.lock:
            self.server.expire(session_id, self.clock.now_ms())
            self._send()

    def knows(self, session_id: int) -> bool:
        """Whether there is such a session."""
        with self.lock:
            return session_id in self.server.sessions

    def disconnect(self, session_id: int) -> None:
        """Cut a session's connection, if it has one."""
        with self.lock:
            for link in self._links_of(session_id):
                self._drop(link)
            self._send()

    def pause(self, session_id: int) -> None:
        """From now on neither read what a session's client sends nor send it anything."""
        with self.lock:
            self._paused_sessions.add(session_id)
            for link in self._links_of(session_id):
                link.paused = True
                if link.connection is not None:
                    self._neglect(link.connection)

    def resume(self, session_id: int) -> None:
        """Read and answer again, beginning with what has been waiting, connection by connection."""
        with self.lock:
            self._paused_sessions.discard(session_id)
            for link in self._links_of(session_id):
                self._resume(link)
            self._send()
            self.on_resume()

    def move(self, session_id: int, server_id: int) -> None:
        """Cut a session's connection, and let one server of the ensemble alone take it up."""
        raise AssertionError("only an ensemble has several servers")

    def _resume(self, link: Link) -> None:
        link.paused = False
        if link.connection is not None:
            self._attend(link.connection)
        self._write(link)
        waiting, link.unread = link.unread, []
        for received in waiting:
            self._take(link, received)
        self.faults.resumed(link)
        self._send()
        if link.hung_up and not self.faults.keeps(link):
            self._drop(link)

    def _links_of(self, session_id: int) -> list[Link]:
        return [link for link in self._links if link.session_id == session_id]

    def let_go(self) -> None:
        """End the faults of this host: what they keep back goes on."""
        with self.lock:
            if self._shares_rules:
                self.faults.let_go_all()
            else:
                self.rules.clear()

    # What a test does to the server and to time.

    def advance(self, clock: StillClock, duration_ms: int) -> None:
        """Let `duration_ms` of virtual time go by, stopping wherever the server has something to do."""
        with self.lock:
            end_ms = clock.now_ms() + duration_ms
            while (deadline_ms := self._next_deadline_ms()) is not None and deadline_ms <= end_ms:
                clock.move_to(max(deadline_ms, clock.now_ms()))
                self.tick()
            clock.move_to(end_ms)
            self._send()  # whoever drove the server by hand left something to send

    def tick(self) -> None:
        """Let the server do what has become due."""
        with self.lock:
            now_ms = self.clock.now_ms()
            self.rules.tick(now_ms)
            self.server.tick(now_ms)
            self._send()

    def seconds_to_deadline(self) -> float | None:
        """How long a client may sleep before the server has something to do by itself; None: time stands still."""
        if not self._on_wall_time:
            return None
        with self.lock:
            deadline_ms = self._next_deadline_ms()
            return None if deadline_ms is None else (deadline_ms - self.clock.now_ms()) / 1000

    def _next_deadline_ms(self) -> int | None:
        deadline_ms, due_ms = self.server.next_deadline_ms(), self.rules.next_due_ms()
        if deadline_ms is None or due_ms is None:
            return due_ms if deadline_ms is None else deadline_ms
        return min(deadline_ms, due_ms)

    def restart(self) -> None:
        """Stop the server and start it again: connections are gone, the tree and the sessions are kept."""
        with self.lock:
            for link in list(self._links):
                self._drop(link)
            self.server.restart(self.clock.now_ms())
            self._send()

    def close(self) -> None:
        """Refuse new connections and cut those that are open."""
        with self.lock:
            self.is_open = False
            self._paused_sessions.clear()
            self.faults.close()
            for link in list(self._links):
                self._drop(link)
            for session_id in [session_id for session_id, host in self.moving.items() if host is self]:
                del self.moving[session_id]
            self._send()
