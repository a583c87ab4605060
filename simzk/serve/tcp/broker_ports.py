"""TCP ports of simulated brokers: frames of clients to the brokers, and their responses back.

Rules of this module:
  - this package does not know of Kafka: a frame is a length of four bytes and that many bytes more;
  - each broker has one or more ports for good, one for each listener. While its process does not run, they are bound
    and do not listen, so that connections are refused and nobody else gets them;
  - frames are handled on the loop's thread under the cluster's lock, after the cluster has run up to the present;
  - a client with many unanswered requests, or that does not read its responses, is not read from, and its requests that
    have arrived wait here: a connection costs at most one read, one request and the responses to `UNANSWERED_MAX`;
  - a port has TLS or not; a client's certificate gives its subject;
  - the connections of all brokers, and the bytes of their unfinished requests, have limits; what exceeds them is
    closed.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.serve.tcp.accepting import Acceptor
from simzk.serve.tcp.addresses import not_listening
from simzk.wire.frames import BadLengthError, FrameBuffer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from simzk.serve.tcp.simulated_cluster import ClusterDriver

MAX_REQUEST_BYTES = 100 * 1024 * 1024
"""Longest accepted request (socket.request.max.bytes)."""
BACKLOG = 1024
"""Connections that wait to be accepted. A client that finds no room tries again after a second, as TCP does."""
UNANSWERED_MAX = 32
"""Requests of a client that may wait for earlier ones before it is not read from any more."""
CONNECTIONS_MAX = 20_000
"""Connections to all brokers together."""
UNFINISHED_MAX_BYTES = 512 * 1024 * 1024
"""Bytes of requests that have arrived in part, of all connections together."""
_LENGTH_BYTES = 4


class FrameConnection(Protocol):
    """A broker's end of a connection."""

    @property
    def backlog(self) -> int:
        """Number of requests that are not handled yet."""

    def receive(self, frame: bytes) -> None:
        """Handle the frame of a request."""

    def hang_up(self) -> None:
        """Forget the connection, because the client has closed its end."""


class FrameTransport(Protocol):
    """The way to one client."""

    def send(self, frame: bytes) -> None:
        """Send the frame of a response, without its length."""

    def close(self) -> None:
        """Close the connection."""


class FrameBrokers(Protocol):
    """Simulated brokers, as far as clients connect to them."""

    def accepting(self) -> set[int]:
        """Return the brokers whose ports accept connections."""

    def connect(self, port: BrokerPort, transport: FrameTransport, subject: str | None) -> FrameConnection | None:
        """Return the broker's end of a new connection; None if it accepts none.

        Args:
            port: the broker's port.
            transport: the way to the client.
            subject: the subject of the client's certificate; None without one.
        """


class BrokerPort(NamedTuple):
    """A port of a broker, by the broker's id and the name of its listener."""

    broker: int
    listener: str


def reserve(address: str, port: int) -> socket.socket:
    """Return a socket that is bound and does not listen: the port refuses connections and nobody else gets it.

    Args:
        address: the interface.
        port: the port; 0 for any free one.

    Raises:
        ConfigError: the port is in use, or the address does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        if port:  # another process with the same option could share the port: ask for it alone first
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, port))
        return _bound(family, address, port)
    except (OverflowError, OSError) as error:
        raise not_listening(error, f"{address}:{port}") from error


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((address, port))
    except BaseException:
        bound.close()
        raise
    return bound


class RequestBuffer:
    """Incomplete request of a connection; the parts of a long request are joined once, when it is complete.

    >>> buffer = RequestBuffer()
    >>> buffer.receive(b"\\0\\0\\0\\3a"), buffer.size, buffer.receive(b"b"), buffer.receive(b"c\\0")
    ([], 5, [], [b'abc'])
    """

    def __init__(self) -> None:
        self._frames = FrameBuffer(MAX_REQUEST_BYTES)
        self._parts: list[bytes] = []
        self._needed = _LENGTH_BYTES
        self.size: int = 0

    def receive(self, data: bytes) -> list[bytes]:
        """Return the requests that `data` completes.

        Raises:
            BadLengthError: a request has a length that is not accepted; the error has the requests before it.
        """
        self._parts.append(data)
        self.size += len(data)
        if self.size < self._needed:
            return []
        whole = b"".join(self._parts)
        self._parts.clear()
        try:
            frames = self._frames.receive(whole)
        finally:
            self._parts.append(self._frames.pending)
            self.size = len(self._frames.pending)
            self._frames.pending = b""
        head = self._parts[0][:_LENGTH_BYTES]
        self._needed = _LENGTH_BYTES + (int.from_bytes(head, "big") if len(head) == _LENGTH_BYTES else 0)
        assert self.size < self._needed, "a complete request is left in the buffer"
        return frames


class BrokerConnection(asyncio.Protocol):
    """The TCP end of a connection between a client and a port of a broker."""

    def __init__(self, ports: BrokerPorts, port: BrokerPort) -> None:
        self._ports = ports
        self._port = port
        self._buffer = RequestBuffer()
        self._arrived: deque[bytes] = deque()
        self._is_feeding = False
        self._is_bad = False
        self._link: FrameConnection | None = None
        self._transport: asyncio.Transport | None = None
        self._unsent: deque[bytes] = deque()
        self._ends = False
        self._is_slow = False

    # asyncio's side, on the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        subject, certificate = None, transport.get_extra_info("peercert")
        if certificate:
            from simzk.serve.tcp.tls import subject_of

            subject = subject_of(certificate)
        if len(self._ports.connections) < CONNECTIONS_MAX:
            with self._ports.driver.lock:
                self._link = self._ports.brokers.connect(self._port, self, subject)
        if self._link is None:
            transport.abort()
            return
        self._ports.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._link is None or self._is_bad:
            return
        ports, before = self._ports, self._buffer.size
        assert self in ports.connections, "a connection with a link is counted"
        try:
            self._arrived.extend(self._buffer.receive(data))
        except BadLengthError as error:
            self._arrived.extend(error.frames)
            self._is_bad = True
        ports.unfinished_bytes += self._buffer.size - before
        if ports.unfinished_bytes > UNFINISHED_MAX_BYTES:
            self.abort()
            return
        self._regulate()

    def connection_lost(self, _error: Exception | None) -> None:
        self._ports.connections.discard(self)
        self._arrived.clear()
        self._ports.unfinished_bytes -= self._buffer.size
        assert self._ports.unfinished_bytes >= 0, "more bytes of unfinished requests are forgotten than arrived"
        self._buffer = RequestBuffer()
        link, self._link, self._transport = self._link, None, None
        if link is not None:
            with self._ports.driver.lock:
                link.hang_up()

    def pause_writing(self) -> None:
        self._is_slow = True
        self._regulate()

    def resume_writing(self) -> None:
        self._is_slow = False
        self._regulate()

    def _regulate(self) -> None:
        """Pass on requests that have arrived, and read from the client unless it is slow or far ahead."""
        self._feed()
        transport, link = self._transport, self._link
        if transport is None or link is None or transport.is_closing():
            return
        may_read = self._may_feed(link) and not self._arrived
        if may_read != transport.is_reading():
            (transport.resume_reading if may_read else transport.pause_reading)()
        if self._is_bad and not self._arrived:
            self.close()

    def _may_feed(self, link: FrameConnection) -> bool:
        return not self._is_slow and link.backlog < UNANSWERED_MAX

    def _feed(self) -> None:
        """Pass requests on to the broker while it answers, and while the client reads the answers."""
        if self._is_feeding:
            return
        self._is_feeding = True
        driver = self._ports.driver
        try:
            while self._arrived and (link := self._link) is not None and self._may_feed(link):
                with driver.lock:
                    driver.tick()
                    while self._arrived and link.backlog < UNANSWERED_MAX:
                        link.receive(self._arrived.popleft())
                    driver.tick()
        finally:
            self._is_feeding = False

    # the broker's side, on any thread, under the lock

    def send(self, frame: bytes) -> None:
        """Send the frame of a response."""
        self._unsent.append(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
        self._ports.on_loop(self._flush)

    def close(self) -> None:
        """Close the connection after what was sent."""
        self._ends = True
        self._ports.on_loop(self._flush)

    def _flush(self) -> None:
        transport = self._transport
        if transport is None:
            return
        while self._unsent:
            transport.write(self._unsent.popleft())
        if self._ends:
            transport.close()
        elif not self._is_feeding and (self._arrived or not transport.is_reading()):
            self._ports.soon(self._regulate)  # not here: the cluster may be in the middle of an event

    def abort(self) -> None:
        """Reset the connection; on the loop."""
        if self._transport is not None:
            self._transport.abort()


class BrokerPorts:
    """The ports of all brokers of a cluster.

    Args:
        driver: the driver of the cluster.
        brokers: the brokers.
        reserved: the bound socket of each port, from `reserve`; they are closed here.
        tls: the TLS configuration of the ports that have TLS.

    Attributes:
        connections: the open connections.
        unfinished_bytes: bytes of requests that have arrived in part.
    """

    def __init__(
        self,
        driver: ClusterDriver,
        brokers: FrameBrokers,
        reserved: Mapping[BrokerPort, socket.socket],
        tls: Mapping[BrokerPort, ssl.SSLContext],
    ) -> None:
        self._tls = tls
        self.driver = driver
        self.brokers = brokers
        self.connections: set[BrokerConnection] = set()
        self.unfinished_bytes: int = 0
        self._reserved = dict(reserved)
        self._acceptors: dict[BrokerPort, Acceptor] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._is_updating = False

    def start(self) -> None:
        """Listen for the brokers that accept connections; on the running loop."""
        assert self._loop is None, "the ports were started before"
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self.update()

    @property
    def is_current(self) -> bool:
        """Whether it listens for just the brokers that accept connections; under the lock."""
        return self._loop is None or self._acceptors.keys() == self._wanted()

    def _wanted(self) -> set[BrokerPort]:
        """Return the ports that are to be open; under the lock."""
        accepting = self.brokers.accepting()
        return {port for port in self._reserved if port.broker in accepting}

    def on_loop(self, callback: Callable[[], None]) -> None:
        """Call back on the loop's thread: at once if this is it."""
        if threading.get_ident() == self._thread_id:
            callback()
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back on the loop's thread in its next turn."""
        if self._loop is None or self._loop.is_closed():
            return
        is_on_loop = threading.get_ident() == self._thread_id
        (self._loop.call_soon if is_on_loop else self._loop.call_soon_threadsafe)(callback)

    def update(self) -> None:
        """Open and close ports as the brokers accept connections or not; on the loop."""
        if self._loop is None or not self._reserved or self._is_updating:
            return
        assert threading.get_ident() == self._thread_id, "ports are opened on the loop's thread"
        self._is_updating = True
        with self.driver.lock:
            wanted = self._wanted()
        self._is_updating = False
        for port in list(self._acceptors):
            if port not in wanted:
                self._close(port)
        for port in sorted(wanted - self._acceptors.keys()):
            reserved = self._reserved[port]
            listener = _bound(reserved.family, *reserved.getsockname()[:2])
            listener.listen(BACKLOG)
            make_protocol = partial(BrokerConnection, self, port)
            self._acceptors[port] = acceptor = Acceptor(listener, make_protocol, tls=self._tls.get(port))
            acceptor.start()
        assert self._acceptors.keys() == wanted, "a port is open just while its broker accepts connections"

    def _close(self, port: BrokerPort) -> None:
        acceptor = self._acceptors.pop(port)
        acceptor.close()
        acceptor.abort()

    def stop(self) -> None:
        """Close all ports and connections for good; on the loop."""
        for port in list(self._acceptors):
            self._close(port)
        for reserved in self._reserved.values():
            reserved.close()
        self._reserved.clear()
        for connection in list(self.connections):
            connection.abort()
