"""Driver of one ZooKeeper server for every transport: links, fault point, output queue, clock ticks. No IO.

A transport (memory, TCP, a simulated network) subclasses `Link` with its way to carry messages to one client. It calls
the driver when that client connects, sends a request or closes its end; the driver calls the link's `transmit` and
`end`.

Rules of this module:
  - every request passes the fault point on its way to the server, and every reply on its way back; where no fault rule
    is active, both checks are one attribute read;
  - a fault names a session, because a client keeps its session over many connections;
  - output waits in the server's outboxes until `send_output`; with `persist`, nothing is sent before the transactions
    that it acknowledges are durable, and nothing at all once the disk has failed;
  - `keeps_alive` decides what a connected but silent client means. On virtual time its session is touched whenever
    time moves, because the pings of a real client follow wall time; a paused or disconnected one expires by the
    server's rules. On wall time the client's own pings count.
  - the fault rules are an interface here (`FaultFilter`, `FaultTable`), which simzk/simulation/request_faults.py
    implements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Protocol

from simzk.zookeeper.operations import operation_and_paths
from simzk.zookeeper.replies import Closed, Reply
from simzk.zookeeper.requests import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Outgoing
    from simzk.zookeeper.requests import ConnectRequest, Request
    from simzk.zookeeper.server import Batch, Server


class FaultTable(Protocol):
    """The fault rules, as far as a driver uses them."""

    def tick(self, now_ms: int) -> None:
        """Pass on the requests whose delay has ended."""

    def next_due_ms(self) -> int | None:
        """Return when the next delay ends."""

    def clear(self) -> None:
        """Remove all rules, and pass on the requests that they hold back."""


class FaultFilter(Protocol):
    """The point where fault rules meet requests and replies, as far as a driver uses it.

    Attributes:
        active: whether a rule can apply or a request is held back; while False no method needs to be called.
    """

    active: bool

    def admit(self, link: Link, xid: int, request: Request) -> None:
        """Apply the rules to a request: pass it on now, later or never."""

    def is_holding(self, link: Link) -> bool:
        """Return whether a request of the link is held back."""

    def alter(self, link: Link, outgoing: list[Outgoing]) -> bool:
        """Replace replies by errors in place; return whether the link is to be closed after them."""

    def forget(self, link: Link) -> None:
        """Discard what is held back of a closed link."""

    def resumed(self, link: Link) -> None:
        """Pass on the requests that a pause of the link held back."""

    def release_all(self) -> None:
        """Pass on whatever is held back here."""

    def close(self) -> None:
        """Stop applying the rules here."""


class Link(ABC):
    """The server's end of one transport connection.

    Args:
        driver: its server's.
        address: the client's address, which is its identity in the scheme ip.

    Attributes:
        connection: the server's view of it; None before the connect request.
        session_id: the session that it has or asks for; 0 while there is none.
        subject: of the client's certificate; empty if it showed none.
        paused: neither read nor written until the session is resumed.
        hung_up: to be closed as soon as the fault point holds no request of it back.
        closed: nothing is read or sent any more.
        unread: what arrived during a pause, as calls to process it.
        unsent: messages that wait for the end of a pause.
    """

    __slots__ = (
        "address",
        "closed",
        "connection",
        "driver",
        "hung_up",
        "paused",
        "session_id",
        "subject",
        "unread",
        "unsent",
    )

    def __init__(self, driver: Driver, address: str) -> None:
        self.driver: Driver = driver
        self.address: str = address
        self.connection: Connection | None = None
        self.session_id: int = 0
        self.subject: str = ""
        self.paused: bool = False
        self.hung_up: bool = False
        self.closed: bool = False
        self.unread: list[Callable[[], None]] = []
        self.unsent: list[Outgoing] = []

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ", paused" if self.paused else ""
        return f"<{type(self).__name__} of session 0x{self.session_id:x}, {self.address}{state}>"

    @property
    def session_names(self) -> tuple[Hashable, ...]:
        """The names by which fault rules may refer to its session."""
        return (self.session_id,)

    @abstractmethod
    def transmit(self, outgoing: list[Outgoing]) -> None:
        """Carry messages to the client, at least one, in order. `Closed` can only be the last."""

    @abstractmethod
    def end(self) -> None:
        """Close the transport connection, after what was transmitted."""


class Driver:
    """The one way to a server: its links, faults, output and time.

    Args:
        server: the state machine.
        now_ms: returns the server's time, in ms.
        rules: the fault rules.
        new_filter: makes the point where they apply, given this driver (which implements what such a point needs).
        send: sends the server's output instead of `deliver_output`, for a server with another driver.
        persist: makes the transactions that the output acknowledges durable; raises OSError.
        keeps_alive: whether a connected session counts as heard from whenever time moves.
        lock: acquired by the methods, for a driver that several threads use.
        group: the driver of the whole ensemble that this server belongs to; itself for a single server.

    Attributes:
        servers: numbers of the servers of its ensemble, between which sessions can move; empty for a single server.
        accepts_links: False after `close`.
        failure: why nothing is sent any more: the disk failed.
        moving: session id to the one driver that may accept the session, while it moves between servers.
        on_deadline: called with a time in ms at which `tick` will have something to do.
        on_resume: called when links are read again after a pause.
        on_failure: called once, with the error, when the disk fails.
    """

    def __init__(
        self,
        server: Server,
        *,
        now_ms: Callable[[], int],
        rules: FaultTable,
        new_filter: Callable[[Driver], FaultFilter],
        send: Callable[[], None] | None = None,
        persist: Callable[[], None] | None = None,
        keeps_alive: bool = False,
        lock: AbstractContextManager[object] | None = None,
        group: Driver | None = None,
    ) -> None:
        self.server = server
        self.now_ms = now_ms
        self.rules = rules
        self.faults: FaultFilter = new_filter(self)
        self.send_output: Callable[[], None] = send or self.deliver_output
        self.lock: AbstractContextManager[object] = nullcontext() if lock is None else lock
        self.group: Driver = self if group is None else group
        self.moving: dict[int, Driver] = {} if group is None else group.moving
        self.servers: tuple[int, ...] = ()
        self.accepts_links: bool = True
        self.failure: OSError | None = None
        self.on_deadline: Callable[[int], None] = lambda at_ms: None
        self.on_resume: Callable[[], None] = lambda: None
        self.on_failure: Callable[[OSError], None] = lambda error: None
        self._persist = persist
        self._keeps_alive = keeps_alive
        self._links: dict[Link, None] = {}  # in the order of opening
        self._paused_sessions: set[int] = set() if group is None else set(group._paused_sessions)

    # Calls of a transport

    def connections(self) -> list[Connection | None]:
        """Return the connection of each open link, oldest first; None before its connect request."""
        return [link.connection for link in self._links]

    def register(self, link: Link) -> None:
        """Add a link that is to be closed with the driver, before its connect request arrives."""
        assert self.accepts_links
        assert not link.closed
        self._links[link] = None

    def connect(self, link: Link, request: ConnectRequest) -> None:
        """Open or resume a session on a link; a paused session's connect request waits."""
        if link.closed:
            return
        assert link.connection is None, "a link has one connect request"
        session_id = request.session_id
        if session_id in self._paused_sessions:
            link.session_id = session_id
            link.paused = True
            link.unread.append(partial(self.connect, link, request))
            return
        if self.moving.get(session_id, self) is not self:
            self.drop(link)
            return
        self.moving.pop(session_id, None)
        self._links[link] = None
        assert not link.unsent, "nothing is sent before the connect response"
        connection = self.server.connect(request, self.now_ms(), address=link.address, owner=link)
        link.connection = connection
        link.session_id = connection.session_id
        if link.subject:
            self.server.identify(connection, link.subject)
        connection.attended = self._keeps_alive

    def handle(self, link: Link, xid: int, request: Request) -> None:
        """Process one request of a link that is neither paused nor closed."""
        assert not link.paused
        assert not link.closed
        if self.faults.active:
            self.faults.admit(link, xid, request)
        else:
            assert link.connection is not None, "no request comes before the connect request"
            self.server.handle(link.connection, xid, request, self.now_ms())

    def hang_up(self, link: Link) -> None:
        """Close a link whose client has closed its end; the session stays.

        The requests that the fault point holds back come first. A paused server reads nothing, so it does not notice.
        """
        with self.lock:
            link.hung_up = True
            if link.paused:
                return
            if self.faults.is_holding(link) and link.connection is not None:
                self._stop_keepalive(link.connection)
                return
            self.drop(link)
            self.send_output()

    def fail(self, link: Link) -> None:
        """Close a link whose client broke the protocol, after the requests that the fault point holds back."""
        if self.faults.is_holding(link):
            link.hung_up = True
        else:
            self.cut(link)

    def drop(self, link: Link) -> None:
        """Close the server's end at once; the session stays."""
        if link.closed:
            return
        assert link.driver is self, "a link is closed by the driver of its server"
        link.closed = True
        link.paused = False
        if self.faults.active:
            self.faults.forget(link)
        link.unread.clear()
        link.end()
        self._links.pop(link, None)
        connection = link.connection
        if connection is not None:
            self._stop_keepalive(connection)
            self.server.disconnect(connection)
            connection.owner = None  # so that both are freed without the garbage collector

    def _stop_keepalive(self, connection: Connection) -> None:
        """From now on the session lives for its timeout, unless its client is heard."""
        session = self.server.sessions.get(connection.session_id)
        if connection.attended and session is not None:
            self.server.sessions.touch(session, self.now_ms(), connection.timeout_ms)
        connection.attended = False

    # Output

    def deliver_output(self) -> None:
        """Send the server's output, each message on the link of its connection, which another driver may own."""
        if self._persist is not None and not self.is_durable():
            return
        for connection, outgoing in self.server.take_output():
            link = connection.owner
            if isinstance(link, Link):
                link.driver.deliver(link, outgoing)

    def is_durable(self) -> bool:
        """Make the acknowledged transactions durable; return False once the disk has failed."""
        if self._persist is not None and self.failure is None:
            try:
                self._persist()
            except OSError as error:
                self.failure = error
                self.on_failure(error)
        assert self.failure is None or self._persist is not None, "only a disk fails"
        return self.failure is None

    def deliver(self, link: Link, outgoing: list[Outgoing]) -> None:
        """Send messages on a link, or queue them while it is paused; the fault point may alter them."""
        assert link.driver is self, "a message is sent by the driver of its link"
        if link.paused or link.unsent or self.faults.active:
            link.unsent.extend(outgoing)
            self._send_queued(link)
        else:
            self._transmit(link, outgoing)

    def _send_queued(self, link: Link) -> None:
        if link.paused or not link.unsent:
            return
        assert not link.closed, "a closed link has nothing to send"
        outgoing, link.unsent = link.unsent, []
        if self.faults.active and self.faults.alter(link, outgoing):
            if outgoing:
                link.unsent = outgoing
                self._send_queued(link)
            self.drop(link)
            return
        self._transmit(link, outgoing)

    def _transmit(self, link: Link, outgoing: list[Outgoing]) -> None:
        assert outgoing, "a link carries at least one message"
        assert not link.closed, "the server has no output for a closed link"
        link.transmit(outgoing)
        if outgoing[-1].__class__ is Closed:
            self.drop(link)

    # Sessions

    def has_session(self, session_id: int) -> bool:
        """Return whether a session is alive."""
        with self.lock:
            return session_id in self.server.sessions

    def expire_session(self, session_id: int) -> None:
        """End a session at once."""
        with self.lock:
            self.server.expire(session_id, self.now_ms())
            self.send_output()

    def disconnect_session(self, session_id: int) -> None:
        """Close the connection of a session, if it has one."""
        with self.lock:
            for link in self._links_of(session_id):
                self.drop(link)
            self.send_output()

    def is_paused(self, session_id: int) -> bool:
        """Return whether a session is paused."""
        return session_id in self._paused_sessions

    def pause_session(self, session_id: int) -> None:
        """Stop reading and answering a session, also on connections that it will open."""
        with self.lock:
            self._paused_sessions.add(session_id)
            for link in self._links_of(session_id):
                link.paused = True
                if link.connection is not None:
                    self._stop_keepalive(link.connection)
                    assert not link.connection.attended, "nobody is heard during a pause"

    def resume_session(self, session_id: int) -> None:
        """Process the requests of a paused session, then send its messages, connection by connection."""
        with self.lock:
            self._paused_sessions.discard(session_id)
            for link in self._links_of(session_id):
                self._resume_link(link)
            self.send_output()
            self.on_resume()

    def _resume_link(self, link: Link) -> None:
        assert link.session_id not in self._paused_sessions, "a link is paused as long as its session"
        link.paused = False
        if link.connection is not None:
            link.connection.attended = self._keeps_alive
        self._send_queued(link)
        unread, link.unread = link.unread, []
        for process in unread:
            process()
        self.faults.resumed(link)
        self.after_release(link)

    def move_session(self, session_id: int, server_id: int) -> None:
        """Close the connection of a session; only this server of the ensemble may accept it next."""
        raise AssertionError("only an ensemble has several servers")

    def _links_of(self, session_id: int) -> list[Link]:
        return [link for link in self._links if link.session_id == session_id]

    # Time, start and stop

    def tick(self) -> None:
        """Process delayed requests, expire sessions, and remove containers and TTL nodes that are due."""
        with self.lock:
            now_ms = self.now_ms()
            self.rules.tick(now_ms)
            self.server.tick(now_ms)
            self.send_output()

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` next has something to do; None if never."""
        deadlines = (self.server.next_deadline_ms(), self.rules.next_due_ms())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def restart(self) -> None:
        """Stop the server and start it again: connections are closed, the tree and the sessions are kept."""
        with self.lock:
            for link in list(self._links):
                self.drop(link)
            self.server.restart(self.now_ms())
            self.send_output()

    def close(self) -> None:
        """Refuse new connections and close those that are open."""
        with self.lock:
            self.accepts_links = False
            self._paused_sessions.clear()
            self.faults.close()
            for link in list(self._links):
                self.drop(link)
            assert not self._links, "a closed driver has no links"
            for session_id in [session_id for session_id, driver in self.moving.items() if driver is self]:
                del self.moving[session_id]
            self.send_output()

    # Calls of the fault point (simzk.simulation.request_faults.Driver)

    def describe(self, link: Link, request: Request) -> tuple[tuple[Hashable, ...], str, tuple[str, ...]]:
        """Return the names of the session, the name of the operation, and the paths of the request."""
        return link.session_names, *operation_and_paths(request)

    def wake_at(self, at_ms: int) -> None:
        """Make sure that `tick` is called at a time."""
        self.on_deadline(at_ms)

    def pass_on(self, link: Link, xid: int, request: Request | Batch) -> None:
        """Hand a request to the server."""
        connection = link.connection
        assert connection is not None, "no request comes before the connect request"
        self.server.handle(connection, xid, request, self.now_ms())

    def pass_nothing(self, link: Link, xid: int) -> None:
        """Hand the server a request that changes nothing in place of another: its reply keeps the order of replies."""
        self.pass_on(link, xid, Undecodable(0, False))

    def xid_of(self, message: object) -> int | None:
        """Return the xid of a reply; None for any other message."""
        return message.xid if isinstance(message, Reply) else None

    def with_error(self, message: object, code: int) -> Reply:
        """Return the reply of the same xid that refuses with an error."""
        assert isinstance(message, Reply)
        assert code, "a refusal has an error code"
        return Reply(message.xid, message.zxid, code, None)

    def is_open(self, link: Link) -> bool:
        """Return whether the server still processes requests of a link."""
        return not link.closed and link.connection is not None and not link.connection.closed

    def cut(self, link: Link) -> None:
        """Send the server's output, then close the server's end of a link."""
        self.send_output()
        self.drop(link)

    def expire(self, link: Link) -> None:
        """End the session of a link."""
        self.expire_session(link.session_id)

    def move(self, link: Link, server: int) -> None:
        """Move the session of a link to another server of the ensemble."""
        self.group.move_session(link.session_id, server)

    def pause(self, link: Link) -> None:
        """Pause the session of a link."""
        self.group.pause_session(link.session_id)

    def resume(self, link: Link) -> None:
        """Resume the session of a link."""
        self.group.resume_session(link.session_id)

    def after_release(self, link: Link) -> None:
        """Send the output of requests that were held back; close the link if its client has hung up meanwhile."""
        self.send_output()
        if link.hung_up and not self.faults.is_holding(link):
            self.drop(link)
