"""One client's TCP connection: bytes from asyncio to the driver, and back.

Rules of this module:
  - all socket work happens on the loop's thread; what another thread has to say (a test's `expire`) is queued to it, in
    order, behind what was queued before;
  - everything that one read brings is answered in one write;
  - a client that does not read its replies is not read either: requests are handled in slices, and between two slices
    it is seen whether the socket still takes what is written. So what waits for one client is bounded: one read's
    requests, one slice's replies, and some events;
  - a connection that begins with a four-letter word is answered and closed (§5).

Source of the behaviour: NIOServerCnxn.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from simzk.serve.tcp.addresses import peer_of, written
from simzk.wire.four_letter_words import WORD_BYTES, WORDS, is_word
from simzk.wire.monitoring import ConnectionReport
from simzk.wire.server_connection import Incoming, ProtocolProblem
from simzk.wire.statistics import ConnectionStatistics
from simzk.zookeeper.requests import ConnectRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.serve.tcp.connection_factory import ConnectionFactory
    from simzk.serve.tcp.server import TcpServer
    from simzk.serve.wire_driver import WireLink
    from simzk.wire.server_connection import Received

FIRST_SLICE = 16
LAST_SLICE = 128
SLICE_BYTES = 64 * 1024  # of replies: what is more makes the next slice smaller
EVENT_BYTES = 16 * 1024 * 1024  # of events for a client that does not read, before it is given up
LINGER_S = 10.0  # how long a closed connection may take to send what is left


class TcpConnection(asyncio.Protocol):
    """The transport of one link.

    Args:
        server: whose connection it is.
        factory: the port by which it came.
    """

    def __init__(self, server: TcpServer, factory: ConnectionFactory) -> None:
        self._server = server
        self._factory = factory
        self._driver = server.driver
        self._transport: asyncio.Transport | None = None
        self._link: WireLink | None = None
        self._begun = b""  # bytes that may still turn out to be a four-letter word
        self._greeted = False
        self._reading = True
        self._clogged = False
        self._clogged_bytes = 0
        self._flushing = False  # a slice is handled, and its replies wait for the disk
        self._queue: deque[Received] = deque()
        self._slice = FIRST_SLICE
        self._written_bytes = 0
        self._counted = 0
        self._from_others: deque[bytes | None] = deque()
        self._deadline: asyncio.TimerHandle | None = None
        self.peer = ("", 0)
        self.statistics = ConnectionStatistics(server.now_ms())
        self._heard_ms = self.statistics.established_ms

    # What asyncio calls, on the loop's thread.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = peer_of(transport)
        if not self._factory.admit(self):
            self._server.statistics.rejected += 1
            transport.abort()
            return
        self._link = self._driver.open(self, address=self.peer[0])
        certificate = transport.get_extra_info("peercert")
        if certificate and self._link is not None:
            from simzk.serve.tcp.tls import subject_of

            self._link.subject = subject_of(certificate)
        if self._link is None:
            transport.abort()
            return
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
        if not self._greeted:
            data = self._greet(data)
            if not data:
                return
        link = self._link
        assert link is not None, "asyncio hands no data to a connection that was refused"
        self._heard_ms = self._server.now_ms()
        self._server.statistics.bytes_received += len(data)
        with self._driver.lock:
            received = link.wire.receive_data(data)
            if link.connection is None and not self._is_let_in(received):
                return
            self._queue.extend(received)
            self.go_on()

    def _is_let_in(self, received: Sequence[Received]) -> bool:
        """Whether what came first of a connection is heard: a session may be asked for too soon after others."""
        throttle = self._server.throttle
        if throttle is None or not received or not isinstance(received[0], ConnectRequest):
            return True
        if throttle.lets_in(received[0], self._server.now_ms()):
            return True
        self._server.statistics.rejected += 1
        assert self._transport is not None, "asyncio hands no data to a connection that is gone"
        self._transport.close()
        return False

    def _greet(self, data: bytes) -> bytes:
        """The bytes of a session, or nothing as long as they may be a word."""
        self._begun += data
        if len(self._begun) < WORD_BYTES:
            return b""
        first_bytes, argument = self._begun[:WORD_BYTES], self._begun[WORD_BYTES:]
        if not is_word(first_bytes):
            self._greeted = True
            begun, self._begun = self._begun, b""
            return begun
        word = first_bytes.decode()
        if len(argument) >= WORDS[word].argument_bytes or not self._server.is_allowed(word):
            self._stop_waiting()
            self.statistics.packets_received += 1
            self._server.statistics.bytes_received += len(self._begun)
            assert self._transport is not None
            self._transport.pause_reading()
            self._reading = False
            self._transport.write(self._server.answer_word(word, argument, securely=self._factory.is_secure))
            self._transport.close()
        return b""

    def _expire(self) -> None:
        """No session was asked for in time."""
        if self._transport is not None:
            self._server.statistics.expired_silent += 1
            self._transport.abort()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # Handling what was read.

    def go_on(self) -> None:
        """Handle what was read, as far as the client reads its replies; then read again, or do not."""
        if self._transport is None or self._link is None:
            return
        with self._driver.lock:
            link = self._link
            while self._queue and not (self._clogged or self._flushing or link.paused):
                self._handle_slice(link)
        want = not (self._queue or self._clogged or link.paused)
        if want != self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = want
            if want:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _handle_slice(self, link: WireLink) -> None:
        queue = self._queue
        if len(queue) <= self._slice:
            batch = list(queue)
            queue.clear()
        else:
            batch = [queue.popleft() for _ in range(self._slice)]
        begin_ns, written_before = time.perf_counter_ns(), self._written_bytes
        self._driver.process(link, batch)
        if self._server.directory is None:
            self._driver.send_output()
            self._flushed(link, batch, begin_ns, written_before)
        else:
            self._flushing = True
            self._server.flush_soon(partial(self._go_on_flushed, link, batch, begin_ns, written_before))

    def _go_on_flushed(self, link: WireLink, batch: list[Received], begin_ns: int, written_before: int) -> None:
        self._flushing = False
        self._flushed(link, batch, begin_ns, written_before)
        self.go_on()

    def _flushed(self, link: WireLink, batch: list[Received], begin_ns: int, written_before: int) -> None:
        """A slice was answered: count it, and choose how long the next one is."""
        self._note(link, batch, (time.perf_counter_ns() - begin_ns) // 1_000_000)
        written = self._written_bytes - written_before
        if written > SLICE_BYTES:
            self._slice = max(1, len(batch) * SLICE_BYTES // written)
        elif self._slice < LAST_SLICE:
            self._slice = min(self._slice * 2, LAST_SLICE)
        if link.closed:
            self._queue.clear()

    def _note(self, link: WireLink, batch: Sequence[Received], latency_ms: int) -> None:
        """Count a batch that was handled."""
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

    # What the driver calls, under its lock, on any thread (wire_driver.Transport).

    def deliver(self, data: bytes) -> None:
        """Send `data`; to a client that is gone, nothing: the end of a pause may find it so."""
        link = self._link
        if link is None:
            return
        count, self._counted = link.sent - self._counted, link.sent
        self.statistics.packets_sent += count
        self._server.statistics.packets_sent += count
        begin = 0 if count < self._counted else 4 + int.from_bytes(data[:4])  # what begins with who we are
        self._server.statistics.note_sent(data, begin)
        self._send(data)

    def end(self) -> None:
        """Close, once all is sent."""
        self._send(None)

    def _send(self, data: bytes | None) -> None:
        if threading.get_ident() == self._server.thread_id and not self._from_others:
            self._write(data)
            return
        self._from_others.append(data)
        self._server.call_on_loop(self._send_from_others)

    def _send_from_others(self) -> None:
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
        transport.write(data)

    def abort(self) -> None:
        """Close at once, on the loop's thread; what was written and not yet sent is lost."""
        if self._transport is not None:
            self._transport.abort()

    def report(self) -> ConnectionReport:
        """What the monitoring commands tell of it; under the driver's lock."""
        connection = self._link.connection if self._link is not None else None
        interval_ms = self._server.settings.silence_ms  # the real server looks after idle ones in steps of this
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
