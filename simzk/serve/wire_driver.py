"""Driver of one server for transports that carry bytes: memory and TCP.

Rules of this module:
  - the work is done in the thread that brings bytes, under one lock; nothing here waits, and no thread is made here;
  - a server that is driven by a simulated cluster has other users than our links, so the cluster sends its output:
    `send` asks it to.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Protocol

from simzk.serve.clock import Clock, StillClock, WallClock
from simzk.simulation.request_faults import FaultPoint, FaultRules
from simzk.wire.connections import Incoming, ProtocolProblem, Received, ServerConnection
from simzk.wire.frames import resumed_session
from simzk.zookeeper.driver import Driver, Link
from simzk.zookeeper.operations import VOCABULARY
from simzk.zookeeper.replies import Outgoing, Reply, WatchedEvent
from simzk.zookeeper.requests import ConnectRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from simzk.serve.request_recorder import Pending, RequestRecorder
    from simzk.zookeeper.server import Server


class Transport(Protocol):
    """The way to one client, for bytes."""

    def deliver(self, data: bytes) -> None:
        """Send bytes."""

    def end(self) -> None:
        """Close the connection once all is sent."""


class WireLink(Link):
    """The server's end of a connection that carries ZooKeeper's wire format.

    Args:
        driver: its server's.
        transport: the way to the client.
        address: the client's.

    Attributes:
        wire: decodes requests and encodes messages.
        sent: number of messages sent, replies and events alike.
        last_zxid: of the last of them; -1 before the first.
        unanswered: the recorded requests without a reply, by xid; empty if nothing is recorded.
        peek: returns the first bytes that arrived and were not given to `receive` or the wire, for a new connection.
        has_unread: returns whether bytes have arrived that the transport has yet to give to the wire or the driver.
        arrived_ms: time since which bytes given to `receive` wait for the lock, on wall time; None if none wait.
    """

    __slots__ = ("_arrived", "arrived_ms", "has_unread", "last_zxid", "peek", "sent", "transport", "unanswered", "wire")
    driver: WireDriver

    def __init__(self, driver: WireDriver, transport: Transport, address: str) -> None:
        super().__init__(driver, address)
        self.transport: Transport = transport
        config = driver.server.config
        self.wire: ServerConnection = ServerConnection(config.longest_request_bytes, config.rules)
        self.sent: int = 0
        self.last_zxid: int = -1
        self.unanswered: dict[int, Pending] = {}
        self.peek: Callable[[], bytes] = lambda: self._arrived
        self.has_unread: Callable[[], bool] = lambda: False
        self._arrived = b""
        self.arrived_ms: int | None = None

    @property
    def was_heard(self) -> bool:
        """Whether its client sent something in time that is not processed yet."""
        connection = self.connection
        if connection is None or connection.session is None or self.paused or self.closed:
            return False
        if self.arrived_ms is not None:
            return self.arrived_ms < connection.session.expiry_ms
        return self.has_unread()

    @property
    def awaited_session(self) -> int:
        """The session that a new client asked to resume, in a connect request that is not processed yet; 0 for none."""
        if self.connection is not None or self.paused or self.closed:
            return 0
        session_id = resumed_session(self.peek())
        session = self.driver.server.sessions.get(session_id)
        is_late = self.arrived_ms is not None and session is not None and self.arrived_ms >= session.expiry_ms
        return 0 if is_late else session_id

    def receive(self, data: bytes) -> None:
        """Process bytes from the client, in its thread; send what comes of it. A closed link ignores them."""
        driver, wire, connection = self.driver, self.wire, self.connection
        still_clock = driver.still_clock
        if driver.is_on_wall_time:
            self.arrived_ms, self._arrived = driver.clock.now_ms(), data
        with driver.lock:
            # A client that waits for each reply sends one whole request: answer it without the output queue, through
            # which a read takes 4.1 µs instead of 2.9.
            one = wire.receive_one(data)
            if one is None:
                driver.process(self, wire.receive_data(data))
            elif connection is None or self.paused or self.closed or driver.faults.active or still_clock is None:
                wire.expect(one)
                driver.process(self, (one,))
            else:
                assert not self.unsent, "messages are queued only during a pause or a fault"
                xid, request = one
                reply = driver.server.handle(connection, xid, request, still_clock.at_ms, True)
                if reply is not None:
                    self.sent += 1
                    self.last_zxid = reply[1]
                    if driver.recorder is not None:
                        driver.recorder.add(still_clock.at_ms, self.session_id, request, reply)
                    self.transport.deliver(wire.encode_one(reply, request))
                    return
                if driver.recorder is not None:
                    self.unanswered[xid] = driver.recorder.begin(still_clock.at_ms, self.session_id, request)
                wire.expect(one)
            self.arrived_ms = None
            driver.send_output()

    def hang_up(self) -> None:
        """Close the link, because the client has closed its end."""
        self.driver.hang_up(self)

    def transmit(self, outgoing: list[Outgoing]) -> None:
        """Encode messages and hand them to the transport."""
        count, last = len(outgoing), outgoing[-1]
        self.sent += count
        if self.driver.recorder is not None:
            self._record(self.driver.recorder, outgoing)
        if last.__class__ is Reply:
            self.last_zxid = last[1]
            self.transport.deliver(self.wire.encode_one(last) if count == 1 else self.wire.encode(*outgoing))
        else:
            self.last_zxid = getattr(last, "zxid", self.last_zxid)
            self.transport.deliver(self.wire.encode(*outgoing))

    def _record(self, recorder: RequestRecorder, outgoing: list[Outgoing]) -> None:
        """Record the results of requests, and watch events."""
        for message in outgoing:
            if isinstance(message, Reply):
                exchange = self.unanswered.pop(message.xid, None)
                if exchange is not None:
                    exchange.answer(message)
            elif isinstance(message, WatchedEvent):
                recorder.note_event(self.driver.clock.now_ms(), self.session_id, message)

    def end(self) -> None:
        self.transport.end()


class WireDriver(Driver):
    """Driver of one server, with a lock and a clock.

    Args:
        server: the state machine.
        clock: the server's time.
        send: asks whoever else drives the server to send its output; None if nobody else does.
        persist: makes durable what the output acknowledges; raises OSError. None without a data directory.
        rules: a table of fault rules that is applied elsewhere too; None for a table of its own.
        group: the driver of the whole ensemble that the server belongs to.

    Attributes:
        rules: the table of fault rules.
        recorder: records requests, their results and watch events; None for no recording.
        is_on_wall_time: whether time goes by while a request is processed.
        awaited_sessions: return the sessions that clients without a link asked to resume.
        still_clock: the clock, if a reply may be sent at once: virtual time, no disk, nobody else drives the server.
    """

    group: WireDriver
    rules: FaultRules

    def __init__(
        self,
        server: Server,
        clock: Clock,
        *,
        send: Callable[[], None] | None = None,
        persist: Callable[[], None] | None = None,
        rules: FaultRules | None = None,
        group: WireDriver | None = None,
    ) -> None:
        assert group is None or rules is group.rules, "the servers of an ensemble share one table of rules"
        self._shares_rules = rules is not None
        lock: AbstractContextManager[object] = threading.RLock()
        if group is not None:
            lock = group.lock
        elif rules is not None and not isinstance(rules.lock, nullcontext):
            lock = rules.lock  # rules that a simulated cluster shares bring the cluster's lock, if it has one
        if rules is None:
            rules = FaultRules(VOCABULARY)
        rules.lock = lock
        self.clock = clock
        self.is_on_wall_time: bool = isinstance(clock, WallClock)
        super().__init__(
            server,
            now_ms=clock.now_ms,
            rules=rules,
            new_filter=partial(FaultPoint, rules),
            send=send,
            persist=persist,
            keeps_alive=not self.is_on_wall_time,
            lock=lock,
            group=group,
        )
        self.awaited_sessions: list[Callable[[], Iterable[int]]] = []
        is_alone = send is None and persist is None
        self.recorder: RequestRecorder | None = None if group is None else group.recorder
        self.still_clock: StillClock | None = clock if is_alone and isinstance(clock, StillClock) else None

    def record(self, recorder: RequestRecorder) -> None:
        """Record requests and watch events from now on, and the begin and end of sessions."""
        self.recorder = recorder
        self.server.on_transaction.add(recorder.note_transaction, lambda batch: None)

    def is_connected(self, session_id: int) -> bool:
        """Return whether a client is connected with a session."""
        return self.server.connection_of(session_id) is not None

    def open(self, transport: Transport, *, address: str = "127.0.0.1") -> WireLink | None:
        """Return the link of a new connection; None once the driver is closed."""
        with self.lock:
            if not self.accepts_links:
                return None
            link = WireLink(self, transport, address)
            self.register(link)
            return link

    def process(self, link: WireLink, received: Sequence[Received]) -> None:
        """Process what a link's wire has decoded; hold the lock, and call `send_output` afterwards."""
        if self.is_on_wall_time:
            self.tick()  # what is due comes first, whichever client's thread wakes first
        if self.recorder is not None:
            self._record(self.recorder, link, received)
        connection = link.connection
        if connection is None or link.paused or link.closed or self.faults.active:
            for one in received:
                self._process_one(link, one)
            return
        handle, now_ms = self.server.handle, self.clock.now_ms()
        for one in received:
            if one.__class__ is Incoming:
                handle(connection, one[0], one[1], now_ms)
            else:
                self._process_one(link, one)

    def _record(self, recorder: RequestRecorder, link: WireLink, received: Sequence[Received]) -> None:
        """Record the requests of a link that is connected."""
        now_ms = self.clock.now_ms()
        for one in received:
            if isinstance(one, Incoming) and not link.closed:
                link.unanswered[one.xid] = recorder.begin(now_ms, link.session_id, one.request)

    def _process_one(self, link: WireLink, received: Received) -> None:
        if link.closed:
            return
        if link.paused:
            link.unread.append(partial(self._process_one, link, received))
        elif isinstance(received, Incoming):
            self.handle(link, received.xid, received.request)
        elif isinstance(received, ConnectRequest):
            self.connect(link, received)
        else:
            assert isinstance(received, ProtocolProblem)
            self.fail(link)

    def flush(self) -> None:
        """Send the server's output, under the lock."""
        with self.lock:
            self.send_output()

    def end_faults(self) -> None:
        """Remove the fault rules, or those of a shared table from this driver: what they keep back is processed."""
        with self.lock:
            if self._shares_rules:
                self.faults.release_all()
            else:
                self.rules.clear()

    def advance(self, clock: StillClock, duration_ms: int) -> None:
        """Let virtual time pass, stopping wherever the server has something to do."""
        assert clock is self.clock, "a driver ticks by its own clock"
        assert duration_ms >= 0, "time never goes back"
        with self.lock:
            end_ms = clock.now_ms() + duration_ms
            while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= end_ms:
                clock.move_to(max(deadline_ms, clock.now_ms()))
                self.tick()
            clock.move_to(end_ms)
            self.send_output()  # a test that drives the server by hand has left output

    def skip(self, duration_ms: int) -> None:
        """Let time pass at once, on wall time too; a client that is connected and not paused stays alive."""
        if isinstance(self.clock, StillClock):
            self.advance(self.clock, duration_ms)
            return
        assert isinstance(self.clock, WallClock), "only its own clock is set ahead"
        with self.lock:
            with self.attended_links():
                self.clock.skip(duration_ms)
                self.tick()
            self.on_deadline(self.clock.now_ms())

    def tick(self) -> None:
        """Process delayed requests, and what is due; a session whose client was heard in time does not expire."""
        with self.lock:
            if not self.is_on_wall_time or not self._is_due():
                super().tick()
                return
            self._keep_awaited_sessions(self.clock.now_ms())
            with self._attended(self._heard_links()):
                super().tick()

    def _is_due(self) -> bool:
        deadline_ms = self.next_deadline_ms()
        return deadline_ms is not None and deadline_ms <= self.clock.now_ms()

    def _heard_links(self) -> list[Link]:
        """Return the links whose clients were heard, but not processed.

        A real server's IO threads touch the sessions of requests that wait for the processors (ZooKeeperServer.touch);
        here one thread does both, so that a long request may keep pings waiting.
        """
        return [link for link in self.group.open_links() if isinstance(link, WireLink) and link.was_heard]

    def _keep_awaited_sessions(self, now_ms: int) -> None:
        """Keep the sessions that waiting connect requests ask for: a real server reads those in an IO thread."""
        links = [link.awaited_session for link in self.group.open_links() if isinstance(link, WireLink)]
        for session_id in {*links, *(found for awaited in self.group.awaited_sessions for found in awaited())}:
            self.server.keep_session(session_id, now_ms)

    @contextmanager
    def attended_links(self) -> Iterator[None]:
        """Keep the sessions of connected clients that are not paused alive in a block in which time jumps."""
        with self._attended([link for link in self.open_links() if link.connection is not None and not link.paused]):
            yield

    @contextmanager
    def _attended(self, heard: Sequence[Link]) -> Iterator[None]:
        """Keep the sessions of links alive in a block."""
        for link in heard:
            assert link.connection is not None
            link.connection.attended = True
        yield
        for link in heard:
            if link.connection is not None:
                link.driver._stop_keepalive(link.connection)

    def open_links(self) -> list[Link]:
        """Return the links of all clients."""
        return list(self._links)

    def seconds_to_deadline(self) -> float | None:
        """Return how long a client may sleep before `tick` has something to do; None on virtual time, or if never."""
        if not self.is_on_wall_time:
            return None
        with self.lock:
            deadline_ms = self.next_deadline_ms()
            return None if deadline_ms is None else (deadline_ms - self.clock.now_ms()) / 1000
