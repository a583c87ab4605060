"""One ZooKeeper server on TCP ports: ports, connections of clients, disk writes, four-letter words and reports.

Rules of this module:
  - the ports are bound when the server is made, so a port in use is an error at once;
  - with a data directory nothing is sent before the transactions that it acknowledges are on disk; the requests of all
    connections in one turn of the loop are written together;
  - all socket work happens on the loop's thread; what another thread sends (a test's `expire`) is queued for the loop,
    in order, behind what was queued before;
  - all requests of one read are answered in one write; over TLS each message has a record of its own, as a real
    server's Netty writes it: kazoo waits for its socket even while its TLS layer holds a decrypted message;
  - a client that does not read its replies is not read either: requests are processed in slices, and between two slices
    the write buffer of the socket is checked. So the memory for one client is bounded: the requests of one read, the
    replies of one slice, and some events;
  - a connection that begins with a four-letter word is answered and closed (§5);
  - the limits of connections (maxClientCnxns, maxCnxns) count those of one port;
  - a port speaks plain text, TLS, or both (client.portUnification). On a port that speaks both, the first byte of a
    connection decides: no request length and no four-letter word begins like a TLS record. Until that byte arrives the
    connection counts nowhere.

Source of the behaviour: NIOServerCnxnFactory, NIOServerCnxn, ServerCnxnFactory, NettyServerCnxnFactory,
ZooKeeperServer, BlueThrottle.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter, deque
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from simzk.serve.clock import Clock, WallClock, tick_origin_ms
from simzk.serve.tcp.accepting import Acceptor
from simzk.serve.tcp.addresses import bind, name_of, peer_of, written
from simzk.serve.tcp.event_loop import EventLoopServer
from simzk.serve.wire_driver import WireDriver
from simzk.wire.connections import Incoming, ProtocolProblem
from simzk.wire.four_letter_words import DEFAULT_TRACE_MASK, WORD_BYTES, WORDS, answer, is_word
from simzk.wire.frames import RESUMING_BYTES, resumed_session, whole_frames
from simzk.wire.monitoring import ConnectionReport, Report
from simzk.wire.statistics import ConnectionStatistics, ServerStatistics
from simzk.zookeeper.requests import ConnectRequest
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import HasFileno

    from simzk.serve.client_activity import ConnectionTraffic
    from simzk.serve.configuration.settings import Settings, Throttle
    from simzk.serve.simulated_brokers import SimulatedBrokers
    from simzk.serve.storage.data_directory import DataDirectory
    from simzk.serve.verbs import EnsembleVerbs
    from simzk.serve.wire_driver import WireLink
    from simzk.wire.connections import Received


class TcpServer(EventLoopServer):
    """One ZooKeeper server on its ports.

    Raises:
        ConfigError: it cannot listen, or its data directory cannot be used.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        super().__init__(clock)
        settings = settings._replace(server=settings.server._replace(tick_origin_ms=tick_origin_ms(clock)))
        self.settings, self.notices = settings, settings.notices
        self.directory: DataDirectory | None = None
        self._factories: list[ConnectionFactory] = []
        try:
            self._listen(settings)
            server = self._load(settings)
        except BaseException:
            for factory in self._factories:
                factory.close()
            raise
        self.use_driver(self._new_driver(server))
        self.driver.group.awaited_sessions.append(self._awaited_sessions)
        first, *others = self._factories
        self.hosts, self.secure_hosts = first.name, ",".join(factory.name for factory in others)
        self.name = ",".join(factory.name for factory in self._factories)
        self.port, self.secure_port = first.port, others[0].port if others else -1
        self.statistics = ServerStatistics()
        self.throttle = None if settings.throttle is None else self._new_throttle(settings.throttle)
        self.trace_mask = DEFAULT_TRACE_MASK
        self.words = self.settings.words
        self._after_flush: list[Callable[[], None]] = []
        self._started_ns = time.monotonic_ns()
        self._sweep_ms: int | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.name}>"

    @property
    def ensemble_verbs(self) -> EnsembleVerbs | None:
        """Verbs for the servers of its ensemble; None for a single server."""
        return None

    @property
    def brokers(self) -> SimulatedBrokers | None:
        """The simulated brokers that use it; None if there are none."""
        return None

    def _listen(self, settings: Settings) -> None:
        """Bind the ports: the first accepts plain text if there is a secure port beside it."""
        tls = settings.tls.context() if settings.tls is not None else None
        first_tls = tls if settings.secure_port is None or settings.unifies_ports else None
        listener = bind(settings.address, settings.port, settings.accept_backlog)
        self._factories.append(ConnectionFactory(self, listener, first_tls, plain=settings.unifies_ports))
        if settings.secure_port is not None:
            address = settings.address if settings.secure_address is None else settings.secure_address
            listener = bind(address, settings.secure_port, settings.accept_backlog)
            self._factories.append(ConnectionFactory(self, listener, tls))

    def _new_throttle(self, config: Throttle) -> ConnectionThrottle:
        import random

        return ConnectionThrottle(config, self.now_ms(), random.random, local_sessions=self.settings.local_sessions)

    def _new_driver(self, server: Server) -> WireDriver:
        directory = self.directory
        return WireDriver(server, self.clock, persist=None if directory is None else lambda: directory.sync())

    def use_driver(self, driver: WireDriver) -> None:
        """Serve what a driver drives."""
        super().use_driver(driver)
        driver.on_deadline = lambda at_ms: self.call_on_loop(self.arm)
        driver.on_resume = lambda: self.call_on_loop(self._resume_connections)

    def _load(self, settings: Settings) -> Server:
        now_ms = self.clock.now_ms()
        if settings.data_directory is None:
            return Server(settings.server, now_ms=now_ms)
        from simzk.serve.storage.data_directory import DataDirectory

        directory = DataDirectory(settings.data_directory, settings.storage, log_path=settings.log_directory)
        self.directory = self.storage = directory
        return directory.load(settings.server, now_ms)

    async def start(self) -> None:
        """Accept connections on the running loop."""
        await super().start()
        for factory in self._factories:
            factory.start()
        self.arm()

    def stop(self) -> None:
        """Refuse new connections, close those that are open, and write the last of the data; on the loop."""
        for factory in self._factories:
            factory.close()
        self.disarm()
        self.driver.group.awaited_sessions.remove(self._awaited_sessions)
        self.driver.close()
        for factory in self._factories:
            factory.abort()
        self.close_storage()

    # Time

    def now_ms(self) -> int:
        """Return the server's time."""
        return self.clock.now_ms()

    def uptime_ms(self) -> int:
        """Return the wall time since it was made."""
        return (time.monotonic_ns() - self._started_ns) // 1_000_000

    def arm_for_sweep(self) -> None:
        """Set the timer once for each new time at which containers and TTL nodes are to be removed."""
        sweep_ms = self.driver.server.next_sweep_ms
        if sweep_ms != self._sweep_ms:
            self._sweep_ms = sweep_ms
            self.arm()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back on the loop after some wall time."""
        assert self._loop is not None
        return self._loop.call_later(delay_s, callback)

    # Connections

    @property
    def connections(self) -> list[TcpConnection]:
        """The open connections of all ports."""
        return list(chain.from_iterable(factory.connections for factory in self._factories))

    def traffic(self) -> dict[tuple[str, int], ConnectionTraffic]:
        """Return what was received and sent on each connection, by the client's address; on the loop."""
        return {connection.peer: connection.traffic() for connection in self.connections}

    def _awaited_sessions(self) -> list[int]:
        """Return the sessions that clients asked to resume before they have a protocol."""
        if not self.is_on_loop:
            return []
        return [session_id for factory in self._factories for session_id in factory.awaited_sessions()]

    def when_silent(self, callback: Callable[[], None]) -> asyncio.TimerHandle | None:
        """Call back when a new connection has requested no session for too long; never on virtual time (§1.3)."""
        if not isinstance(self.clock, WallClock):
            return None
        now_ms = self.now_ms()
        interval_ms = self.settings.silence_ms
        assert interval_ms > 0, "the reader of zoo.cfg replaces other timeouts"
        at_ms = ((now_ms + interval_ms) // interval_ms + 1) * interval_ms
        return self.call_later((at_ms - now_ms) / 1000, callback)

    def _resume_connections(self) -> None:
        for connection in self.connections:
            connection.go_on()

    def flush_soon(self, then: Callable[[], None]) -> None:
        """Send output after one disk write for all requests of this turn of the loop; then call back."""
        assert self._loop is not None
        assert self.directory is not None, "without a disk nothing waits for it"
        if not self._after_flush:
            self._loop.call_soon(self._flush)
        self._after_flush.append(then)

    def _flush(self) -> None:
        waiting, self._after_flush = self._after_flush, []
        assert waiting, "a flush is asked for"
        self.driver.flush()
        for then in waiting:
            then()

    # Monitoring

    def answer_word(self, word: str, argument: bytes, *, securely: bool) -> bytes:
        """Return the answer to a four-letter word; `argument` followed it, `securely` at a port secured by TLS."""
        self.statistics.packets_received += 1
        if word not in self.words:
            text = f"{word} is not executed because it is not in the whitelist.\n"
        else:
            with self.driver.lock:
                report = self.report()._replace(is_asked_securely=securely)
                text = answer(word, report, argument[: WORDS[word].argument_bytes])
        self.statistics.packets_sent += -(-len(text) // WRITER_CHARACTERS)
        return text.encode()

    def set_trace_mask(self, mask: int) -> None:
        """Store the mask of traces; simzk writes no traces."""
        self.trace_mask = mask

    def report(self) -> Report:
        """Return what monitoring commands report; hold the driver's lock while it is read."""
        # Imported late: most servers are never asked for a report.
        from simzk.serve.tcp.process_info import environment, java_date, open_files, process_families, system_properties

        settings, directory, metrics = self.settings, self.directory, self.settings.metrics
        data_bytes, log_bytes = sizes_bytes = directory.size_bytes() if directory is not None else (0, 0)
        return Report(
            server=self.driver.server,
            statistics=self.statistics,
            connections=[connection.report() for connection in self.connections],
            settings=self._conf(sizes_bytes),
            environment=environment(self.driver.server.config.rules.build),
            properties=system_properties(settings.text or ""),
            data_bytes=data_bytes,
            log_bytes=log_bytes,
            digests=tuple(directory.digests) if directory is not None else (),
            last_snapshot=directory.last_snapshot() if directory is not None else (-1, -1),
            initial_configuration=settings.text,
            trace_mask=self.trace_mask,
            set_trace_mask=self.set_trace_mask,
            now_ms=self.now_ms(),
            uptime_ms=self.uptime_ms(),
            date_of=java_date,
            disk=directory.measured if directory is not None else {},
            slow_fsync_ms=settings.storage.slow_fsync_ms,
            provider="prometheus" if metrics is not None else "default" if settings.counts else "null",
            process=process_families() if metrics is not None and metrics.exports_process else (),
            open_files=open_files(),
            drop_chance=self.throttle.drop_chance if self.throttle is not None else 0.0,
        )

    def _conf(self, sizes_bytes: tuple[int, int]) -> dict[str, str | int]:
        config, directory = self.driver.server.config, self.directory
        later = {key for key, since in CONF_SINCE.items() if config.rules.release < since}
        lines: dict[str, str | int] = {
            "clientPort": self.port,
            "secureClientPort": self.secure_port,
            "dataDir": str(directory.folder) if directory is not None else "",
            "dataDirSize": sizes_bytes[0],
            "dataLogDir": str(directory.log_folder) if directory is not None else "",
            "dataLogSize": sizes_bytes[1],
            "tickTime": config.tick_time_ms,
            "maxClientCnxns": self.settings.max_connections_per_address,
            "minSessionTimeout": config.clamp_timeout(0),
            "maxSessionTimeout": config.clamp_timeout(2**31 - 1),
            "clientPortListenBacklog": self.settings.backlog,
            "serverId": 0,
        }
        return {key: value for key, value in lines.items() if key not in later}


CONF_SINCE = {
    "secureClientPort": (3, 5, 1),
    "dataDirSize": (3, 5, 1),
    "dataLogSize": (3, 5, 1),
    "clientPortListenBacklog": (3, 6, 0),
}
"""First release with a line of the word conf; others are older than 3.4."""


def peek(connected: HasFileno) -> bytes:
    """Return the first bytes that arrived at a socket, as many as a connect request needs, and leave them there."""
    with socket.fromfd(connected.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copied:
        try:
            return copied.recv(RESUMING_BYTES, socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0))
        except OSError:
            return b""


FIRST_SLICE = 16
LAST_SLICE = 128
SLICE_BYTES = 64 * 1024  # of replies; a slice with more makes the next one smaller
EVENT_BYTES = 16 * 1024 * 1024  # of events queued for a client that does not read; with more it is disconnected
LINGER_S = 10.0  # how long a closed connection may take to send its write buffer
WRITER_CHARACTERS = 8192  # of a BufferedWriter: an answer to a word counts as a packet for each


class TcpConnection(asyncio.Protocol):
    """Transport of one link, on asyncio; `factory` is the port that accepted it."""

    def __init__(self, server: TcpServer, factory: ConnectionFactory) -> None:
        self._server = server
        self._factory = factory
        self._driver = server.driver
        self._transport: asyncio.Transport | None = None
        self._is_secure = False
        self._link: WireLink | None = None
        self._begun = b""  # bytes that may be a four-letter word
        self._greeted = False
        self._reading = True
        self._clogged = False
        self._clogged_bytes = 0
        self._is_handling = False
        self._flushing = False  # a slice was processed, and its replies wait for the disk
        self._queue: deque[Received] = deque()
        self._slice = FIRST_SLICE
        self._received_bytes = 0
        self._written_bytes = 0
        self._counted = 0
        self._from_others: deque[bytes | None] = deque()
        self._deadline: asyncio.TimerHandle | None = None
        self.peer = ("", 0)
        self.statistics = ConnectionStatistics(server.now_ms())
        self._heard_ms = self.statistics.established_ms

    # Called by asyncio, on the loop's thread

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._is_secure = transport.get_extra_info("ssl_object") is not None
        self.peer = peer_of(transport)
        if not self._factory.admit(self):
            self._server.statistics.rejected += 1
            transport.abort()
            return
        self._link = self._driver.open(self, address=self.peer[0])
        if self._link is None:
            transport.abort()
            return
        self._link.has_unread, self._link.peek = self._has_unread, self._peek
        certificate = transport.get_extra_info("peercert")
        if certificate:
            from simzk.serve.tcp.tls import subject_of

            self._link.subject = subject_of(certificate)
        self._deadline = self._server.when_silent(self._expire)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._stop_waiting()
        self._factory.forget(self)
        if self._link is not None:
            self._driver.hang_up(self._link)
            self._link = None
        self._queue.clear()

    def eof_received(self) -> None:
        self._server.statistics.dropped += 1

    def pause_writing(self) -> None:
        self._clogged, self._clogged_bytes = True, 0

    def resume_writing(self) -> None:
        self._clogged = False
        self.go_on()

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if not self._greeted:
            data = self._greet(data)
            if not data:
                return
        link = self._link
        assert link is not None, "asyncio delivers no data to a rejected connection"
        self._heard_ms = self._server.now_ms()
        self._server.statistics.bytes_received += len(data)
        with self._driver.lock:
            received = link.wire.receive_data(data)
            if link.connection is None and not self._is_admitted(received):
                return
            self._queue.extend(received)
            self.go_on()

    def _is_admitted(self, received: Sequence[Received]) -> bool:
        """Return whether the throttle lets the connect request in; close the connection if not."""
        throttle = self._server.throttle
        if throttle is None or not received or not isinstance(received[0], ConnectRequest):
            return True
        if throttle.lets_in(received[0], self._server.now_ms()):
            return True
        self._server.statistics.rejected += 1
        assert self._transport is not None, "asyncio delivers no data to a closed connection"
        self._transport.close()
        return False

    def _greet(self, data: bytes) -> bytes:
        """Return the bytes of a session; nothing while they may be a four-letter word, or if they are one."""
        self._begun += data
        if len(self._begun) < WORD_BYTES:
            return b""
        first_bytes, argument = self._begun[:WORD_BYTES], self._begun[WORD_BYTES:]
        if not is_word(first_bytes, self._server.settings.server.rules.release):
            self._greeted = True
            begun, self._begun = self._begun, b""
            return begun
        word = first_bytes.decode()
        self._stop_waiting()
        self.statistics.packets_received += 1
        self._server.statistics.bytes_received += len(self._begun)
        assert self._transport is not None
        self._transport.pause_reading()
        self._reading = False
        # The argument must have arrived with the end of the word: NIOServerCnxn reads it once, without waiting.
        if len(argument) >= WORDS[word].argument_bytes or word not in self._server.words:
            self._transport.write(self._server.answer_word(word, argument, securely=self._factory.is_secure))
        self._transport.close()
        return b""

    def _expire(self) -> None:
        """Close a connection that has requested no session in time."""
        if self._transport is not None:
            self._server.statistics.expired_silent += 1
            self._transport.abort()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _has_unread(self) -> bool:
        """Return whether bytes of the client have arrived that are read next."""
        if self._clogged or self._transport is None:
            return False  # a client that reads no replies is not read either
        if self._queue or self._is_handling:
            return True
        from simzk.serve.client_activity import unread_bytes

        connected = self._transport.get_extra_info("socket")
        return connected is not None and unread_bytes(connected) > 0

    def _peek(self) -> bytes:
        """Return the first bytes of a new client of plain text that are not processed."""
        connected = None if self._transport is None else self._transport.get_extra_info("socket")
        return b"" if connected is None or self._is_secure else self._begun + peek(connected)

    # Requests

    def go_on(self) -> None:
        """Process queued requests while the client reads its replies; then resume or pause reading."""
        if self._transport is None or self._link is None:
            return
        with self._driver.lock:
            link = self._link
            while self._queue and not (self._clogged or self._flushing or link.paused):
                self._handle_slice(link)
        want = not (self._queue or self._clogged or link.paused)
        if want != self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = want
            (self._transport.resume_reading if want else self._transport.pause_reading)()

    def _handle_slice(self, link: WireLink) -> None:
        queue = self._queue
        assert not self._flushing, "one slice at a time waits for the disk"
        if len(queue) <= self._slice:
            batch = list(queue)
            queue.clear()
        else:
            batch = [queue.popleft() for _ in range(self._slice)]
        begin_ns, written_before = time.perf_counter_ns(), self._written_bytes
        self._is_handling = True
        self._driver.process(link, batch)
        self._is_handling = False
        if self._server.directory is None:
            self._driver.send_output()
            self._flushed(link, batch, begin_ns, written_before)
        else:
            self._flushing = True
            self._server.flush_soon(partial(self._go_on_flushed, link, batch, begin_ns, written_before))

    def _go_on_flushed(self, link: WireLink, batch: list[Received], begin_ns: int, written_before: int) -> None:
        assert self._flushing, "a slice waits for the disk once"
        self._flushing = False
        self._flushed(link, batch, begin_ns, written_before)
        self.go_on()

    def _flushed(self, link: WireLink, batch: list[Received], begin_ns: int, written_before: int) -> None:
        """Count a slice whose replies were sent, and choose the length of the next."""
        self._count(link, batch, (time.perf_counter_ns() - begin_ns) // 1_000_000)
        written = self._written_bytes - written_before
        if written > SLICE_BYTES:
            self._slice = max(1, len(batch) * SLICE_BYTES // written)
        elif self._slice < LAST_SLICE:
            self._slice = min(self._slice * 2, LAST_SLICE)
        assert 1 <= self._slice <= LAST_SLICE, f"the next slice has {self._slice} requests"
        if link.closed:
            self._queue.clear()

    def _count(self, link: WireLink, batch: Sequence[Received], latency_ms: int) -> None:
        """Update the statistics with a batch of requests."""
        first, last = batch[0], batch[-1]
        total, own, count = self._server.statistics, self.statistics, len(batch)
        if isinstance(first, ConnectRequest):
            self._stop_waiting()
            self._server.arm()
            throttle = self._server.throttle
            total.note_connect(first, latency_ms, throttle.deficit if throttle is not None else 0)
        elif self._driver.server.next_sweep_ms is not None:
            self._server.arm_for_sweep()
        if isinstance(last, ProtocolProblem) and 0 < last.length <= self._driver.server.config.max_buffer_bytes:
            total.large_rejected += 1
        total.note_requests([one.request.__class__ for one in batch if one.__class__ is Incoming], latency_ms)
        total.packets_received += count
        total.latency.note(latency_ms, count)
        own.packets_received += count
        kind, xid = (type(last.request), last.xid) if isinstance(last, Incoming) else (type(last), -1)
        own.note(kind, xid, link.last_zxid, self._server.uptime_ms(), latency_ms, count)

    # Called by the driver, under its lock, on any thread (wire_driver.Transport)

    def deliver(self, data: bytes) -> None:
        """Send bytes; of no effect if the client has disconnected, which it can do during a pause."""
        link = self._link
        if link is None:
            return
        count, self._counted = link.sent - self._counted, link.sent
        assert count >= 0, "the link counts messages before it delivers them"
        self.statistics.packets_sent += count
        self._server.statistics.packets_sent += count
        if not data:  # closed, with nothing before it
            return
        begin = 0 if count < self._counted else 4 + int.from_bytes(data[:4])  # a ConnectResponse is no reply
        self._server.statistics.note_sent(data, begin)
        self._send(data)

    def end(self) -> None:
        """Close the connection once all is sent."""
        self._send(None)

    def _send(self, data: bytes | None) -> None:
        if threading.get_ident() == self._server.thread_id and not self._from_others:
            self._write(data)
            return
        self._from_others.append(data)
        self._server.call_on_loop(self._send_from_others)

    def _send_from_others(self) -> None:
        assert self._server.is_on_loop, "only the loop's thread writes to a transport"
        while self._from_others:
            self._write(self._from_others.popleft())

    def _write(self, data: bytes | None) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if data is None:
            transport.close()
            if transport.get_write_buffer_size():
                self._server.call_later(LINGER_S, transport.abort)
            return
        if self._clogged:
            self._clogged_bytes += len(data)
            if self._clogged_bytes > EVENT_BYTES:
                transport.abort()
                return
        self._written_bytes += len(data)
        if self._is_secure:
            transport.writelines(whole_frames(data))  # asyncio encrypts each item alone, and sends them together
        else:
            transport.write(data)

    def traffic(self) -> ConnectionTraffic:
        """Return what was received and sent; on the loop's thread, under the driver's lock."""
        assert self._server.is_on_loop, "another thread would see a connection while it changes"
        # Imported late: only a waiting test needs it.
        from simzk.serve.client_activity import ConnectionTraffic, unread_bytes, unsent_bytes

        transport, paused = self._transport, self._link is not None and self._link.paused
        # A lost connection with TLS has no socket any more; asyncio calls `connection_lost` in its next turn.
        connected = None if transport is None else transport.get_extra_info("socket")
        busy = bool(self._queue or self._flushing or self._from_others)
        if not busy and transport is not None and connected is not None:
            busy = bool(unread_bytes(connected) or transport.get_write_buffer_size() or unsent_bytes(connected))
        busy = busy and not (paused or self._clogged)
        closing = transport is None or connected is None or transport.is_closing()
        return ConnectionTraffic(self._received_bytes, self._written_bytes, busy=busy, paused=paused, closing=closing)

    def abort(self) -> None:
        """Close at once, on the loop's thread; the write buffer is lost."""
        if self._transport is not None:
            assert self._server.is_on_loop, "only the loop's thread closes a transport"
            self._transport.abort()

    def report(self) -> ConnectionReport:
        """Return what monitoring commands report about it; hold the driver's lock."""
        connection = self._link.connection if self._link is not None else None
        interval_ms = self._server.settings.silence_ms  # the real server checks idle connections in steps of this
        timeout_ms = connection.timeout_ms if connection is not None else interval_ms
        return ConnectionReport(
            address=written(self.peer),
            is_secure=self._factory.is_secure,
            reading=self._reading,
            queued=len(self._queue),
            statistics=self.statistics,
            session_id=connection.session_id if connection is not None else 0,
            timeout_ms=timeout_ms,
            expiry_ms=((self._heard_ms + timeout_ms) // interval_ms + 1) * interval_ms,
        )


_FIRST_RECORD, _LAST_RECORD = 0x14, 0x18  # types of TLS records: the first byte of each


class ConnectionFactory:
    """Listening port of a server.

    Args:
        server: the server.
        listener: a bound socket; clients that connect before `start` wait in the backlog.
        tls: the TLS configuration; None for plain text.
        plain: whether plain text is accepted beside TLS.

    Attributes:
        is_secure: whether only TLS is accepted.
        name: the address, as clients write it.
        port: its number.
        connections: the open connections, oldest first.
    """

    def __init__(
        self, server: TcpServer, listener: socket.socket, tls: ssl.SSLContext | None = None, *, plain: bool = False
    ) -> None:
        self._server = server
        self._tls = tls
        # One that speaks both decides by the first byte whether TLS begins.
        on_accept = self._wait_for_first_byte if tls is not None and plain else None
        self._acceptor = Acceptor(listener, partial(TcpConnection, server, self), on_accept, tls)
        self.is_secure = tls is not None and not plain
        self.name = name_of(listener)
        self.port: int = listener.getsockname()[1]
        self.connections: dict[TcpConnection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._undecided: dict[socket.socket, asyncio.TimerHandle | None] = {}

    def start(self) -> None:
        """Begin to accept connections on the running loop."""
        self._acceptor.start()

    def close(self) -> None:
        """Refuse new connections; open ones stay."""
        self._acceptor.close()

    def abort(self) -> None:
        """Close the open connections at once."""
        for undecided in list(self._undecided):
            self._decided(undecided).close()
        self._acceptor.abort()
        for connection in list(self.connections):
            connection.abort()

    def awaited_sessions(self) -> Iterator[int]:
        """Return the sessions that clients of plain text asked to resume before they have a protocol; on the loop."""
        waiting = self._acceptor.waiting()
        for client in (*(waiting if self._tls is None else ()), *self._undecided):
            yield resumed_session(peek(client))

    # Limits

    def admit(self, connection: TcpConnection) -> bool:
        """Add a connection; return whether it is within the limits."""
        assert connection not in self.connections, "a connection is admitted once"
        self.connections[connection] = None
        self._by_address[connection.peer[0]] += 1
        settings = self._server.settings
        of_address, in_all = settings.max_connections_per_address, settings.max_connections
        if 0 < of_address < self._by_address[connection.peer[0]]:
            return False
        return in_all <= 0 or len(self.connections) <= in_all

    def forget(self, connection: TcpConnection) -> None:
        """Remove a closed connection."""
        del self.connections[connection]
        address = connection.peer[0]
        self._by_address[address] -= 1
        assert self._by_address[address] >= 0, f"more connections of {address} end than began"
        if not self._by_address[address]:
            del self._by_address[address]

    # Accepting

    def _wait_for_first_byte(self, client: socket.socket) -> None:
        assert self._tls is not None, "without TLS there is nothing to decide"
        self._undecided[client] = self._server.when_silent(lambda: self._decided(client).close())
        self._acceptor.loop.add_reader(client, self._decide, client)

    def _decided(self, client: socket.socket) -> socket.socket:
        timer = self._undecided.pop(client)
        if timer is not None:
            timer.cancel()
        self._acceptor.loop.remove_reader(client)
        return client

    def _decide(self, client: socket.socket) -> None:
        try:
            first = client.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        self._decided(client)
        if not first:
            client.close()
            return
        self._acceptor.hand_over(client, self._tls if _FIRST_RECORD <= first[0] <= _LAST_RECORD else None)


class ConnectionThrottle:
    """Bucket of tokens of one server.

    Args:
        config: its size and rates.
        now_ms: the present time, at which it is full.
        chance: returns a random number from 0 to 1.
        local_sessions: whether new sessions are local to their server.

    Attributes:
        drop_chance: probability that a connection is rejected although there are tokens.

    >>> from simzk.serve.configuration.settings import Throttle
    >>> throttle = ConnectionThrottle(Throttle(tokens=2, fill_time_ms=100), 0, lambda: 0.5)
    >>> throttle.takes(1, 0), throttle.takes(1, 0), throttle.takes(1, 100), throttle.takes(1, 101)
    (True, True, False, True)
    """

    def __init__(
        self, config: Throttle, now_ms: int, chance: Callable[[], float], *, local_sessions: bool = False
    ) -> None:
        self._config = config
        self._chance = chance
        self._new_weight = config.local_weight if local_sessions else max(config.global_weight, config.local_weight)
        factor = max(config.global_weight, config.local_weight) if config.weighs else 1
        self._capacity, self._fill_count = factor * config.tokens, factor * config.fill_count
        self._tokens = self._capacity
        self._filled_ms = self._frozen_ms = now_ms
        self.drop_chance = 0.0

    @property
    def deficit(self) -> int:
        """Number of tokens used."""
        return self._capacity - self._tokens

    def lets_in(self, request: ConnectRequest, now_ms: int) -> bool:
        """Return whether a session may be requested now, and use its tokens."""
        if not self._config.weighs:
            return self.takes(1, now_ms)
        renew = max(self._config.renew_weight, self._config.local_weight)
        return self.takes(renew if request.session_id else self._new_weight, now_ms)

    def takes(self, need: int, now_ms: int) -> bool:
        """Return whether there are enough tokens, and use them."""
        since_ms = now_ms - self._filled_ms
        if since_ms > self._config.fill_time_ms:
            gained = since_ms * self._fill_count // self._config.fill_time_ms
            self._tokens = min(self._tokens + gained, self._capacity)
            self._filled_ms = now_ms
        if (self._config.freeze_time_ms != -1 and not self._is_lucky(now_ms)) or self._tokens < need:
            return False
        self._tokens -= need
        return True

    def _is_lucky(self, now_ms: int) -> bool:
        config = self._config
        if now_ms - self._frozen_ms > config.freeze_time_ms:
            if self._tokens == 0 and self.drop_chance < 1:
                self.drop_chance = min(self.drop_chance + config.drop_increase, 1.0)
            elif self.deficit <= round(self._capacity * config.decrease_ratio) and self.drop_chance > 0:
                self.drop_chance = max(self.drop_chance - config.drop_decrease, 0.0)
            self._frozen_ms = now_ms
        return self._chance() >= self.drop_chance
