"""`simzk.ZooKeeper`: a ZooKeeper in this process for kazoo clients, without a port or a thread of its own.

Rules of this module:
  - all state belongs to the object: two servers in one process are independent;
  - time stands still unless `advance` is called, or `clock="wall"` is given;
  - kazoo is unmodified, because handlers are its own extension point. Only what touches the network differs from its
    `SequentialThreadingHandler`: create_connection, create_socket_pair, select, and the timeout of a select;
  - no file descriptor is opened, and no thread is started beside those that kazoo starts for every client;
  - a handler belongs to one client, and only the client's connection thread selects;
  - one thread reads a socket (kazoo's connection thread), any thread may write to it; every step between them is one
    atomic operation of a deque or a lock, so no lock is held during a wait;
  - data is appended before the signal is raised, and the signal is consumed before data is read, so that no arrival is
    missed;
  - data that was sent before the end is still read, as in TCP; then `recv` returns b"".
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Literal, Protocol

from kazoo.client import KazooClient
from kazoo.hosts import collect_hosts

from simzk.errors import ConfigError
from simzk.lifecycle import note_made
from simzk.serve.client_activity import Connections, Look, ObservedHandler, adopt
from simzk.serve.clock import BorrowedClock, Clock, own_clock
from simzk.serve.verbs import EAGER_RETRY, TestServer
from simzk.serve.wire_driver import WireDriver, WireLink
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import NEWEST
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kazoo.handlers.threading import SequentialThreadingHandler

    from simzk.simulation.request_faults import FaultRules


class Peer(Protocol):
    """Server's end of a `MemorySocket`."""

    session_id: int

    def receive(self, data: bytes) -> None: ...

    def hang_up(self) -> None: ...


class Signal:
    """Auto-reset event for one waiter: one `wait` consumes any number of `raise_` calls before it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def raise_(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            return  # already raised, and not yet consumed

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the signal; return False after `timeout_s` without it."""
        return self._lock.acquire(True, -1 if timeout_s is None else timeout_s)


class MemorySocket:
    """Replacement of kazoo's TCP socket: `send` runs the server in the calling thread, `recv` returns its output."""

    __slots__ = ("_address", "_answer", "_chunk", "_chunks", "_closed", "_ended", "_peer", "_position", "_signal")

    def __init__(
        self, signal: Signal, address: tuple[str, int], answer: Callable[[bytes], bytes | None] = lambda _: None
    ) -> None:
        self._signal = signal
        self._answer = answer
        self._address = address
        self._chunks: deque[bytes] = deque()
        self._chunk = b""
        self._position = 0
        self._ended = False
        self._closed = False
        self._peer: Peer | None = None

    def attach(self, peer: Peer) -> None:
        """Set the server's end."""
        assert self._peer is None, "a socket has one peer"
        self._peer = peer

    # Called by the server's end

    def deliver(self, data: bytes) -> None:
        """Append data for `recv`."""
        self._chunks.append(data)
        self._signal.raise_()

    def end(self) -> None:
        """Mark the end of the data: the server has closed its end."""
        self._ended = True
        self._signal.raise_()

    # Called by kazoo

    @property
    def readable(self) -> bool:
        return self._position < len(self._chunk) or bool(self._chunks) or self._ended

    def recv(self, size: int) -> bytes:
        start = self._position
        if start >= len(self._chunk):
            try:
                self._chunk = self._chunks.popleft()
            except IndexError:
                if self._ended:
                    return b""
                raise BlockingIOError(errno.EAGAIN, "nothing to read") from None
            start = 0
        data = self._chunk[start : start + size]
        self._position = start + len(data)
        return data

    def send(self, data: bytes | bytearray | memoryview) -> int:
        if self._closed:
            raise OSError(errno.EBADF, "this connection in memory is closed")
        assert self._peer is not None, "a socket is attached before it is used"
        self._peer.receive(bytes(data))
        return len(data)

    def sendall(self, data: bytes) -> None:
        """Send a four-letter word, as `KazooClient.command` does; kazoo sends requests by `send`."""
        answered = self._answer(data)
        if answered is None:
            self.send(data)
        else:
            self.deliver(answered)
            self.end()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._peer is not None:
                self._peer.hang_up()

    def shutdown(self, how: int) -> None:
        """Close both directions, whatever `how` is: kazoo calls this to break the connection."""
        self.end()
        self.close()

    def setblocking(self, flag: bool) -> None:
        """Do nothing: a read never waits but raises, a write never waits."""

    def getpeername(self) -> tuple[str, int]:
        """Return the address that kazoo connected to; kazoo sends four-letter words there."""
        return self._address


class WakePipe:
    """Replacement of the socket pair that wakes kazoo's connection thread."""

    __slots__ = ("_bytes", "_closed", "_signal")

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._bytes: deque[bytes] = deque()
        self._closed = False

    @property
    def readable(self) -> bool:
        return bool(self._bytes)

    def send(self, data: bytes) -> int:
        if self._closed:
            raise OSError(errno.EBADF, "the client is closed")
        self._bytes.append(data)
        self._signal.raise_()
        return len(data)

    def recv(self, size: int) -> bytes:
        assert size == 1, "kazoo reads one byte for each request"
        try:
            return self._bytes.popleft()
        except IndexError:
            raise BlockingIOError(errno.EAGAIN, "nothing to read") from None

    def getsockname(self) -> str:
        """Return the name of a socket pair, which is empty."""
        return ""

    def close(self) -> None:
        self._closed = True


class Listener(Protocol):
    """Server that a handler connects to."""

    def accept(self, socket: MemorySocket) -> Peer | None:
        """Return the server's end of a new connection; None if the server is closed."""

    def seconds_to_deadline(self) -> float | None:
        """Return how long a client may sleep before `tick` has something to do; None if for ever."""

    def tick(self) -> None:
        """Process what is due."""

    def answer_word(self, data: bytes) -> bytes | None:
        """Return the answer to a four-letter word; None if the bytes are none."""


class _Select:
    """Wait of a connection thread for its sockets; one object for all waits of a client."""

    __slots__ = ("readers",)

    def __init__(self) -> None:
        self.readers: Sequence[MemorySocket | WakePipe] = ()

    def is_quiet(self, connections: Connections, client: KazooClient | None) -> bool:
        """Return whether nothing is to be read."""
        return not any(reader.readable for reader in self.readers)


class MemoryHandler(ObservedHandler):
    """Handler that connects one kazoo client to a server in this process."""

    name = "simzk_memory_handler"

    def __init__(self, listener: Listener, number: int = 0) -> None:
        super().__init__(number)
        self.connect_to(listener)

    def connect_to(self, listener: Listener) -> None:
        """Set what this class adds to an observed handler."""
        self.listener: Listener = listener
        self._signal = Signal()
        self._peer: Peer | None = None
        self._earlier_session_id = 0
        self._select = _Select()

    @property
    def session_id(self) -> int:
        """Id of the client's session, which outlives its connections; 0 before the first."""
        return (self._peer.session_id if self._peer is not None else 0) or self._earlier_session_id

    def create_connection(self, address: tuple[str, int], **options: object) -> MemorySocket:
        """Connect to the server, whatever the address.

        Raises:
            ConnectionRefusedError: the server is closed.
        """
        socket = MemorySocket(self._signal, address, self.listener.answer_word)
        peer = self.listener.accept(socket)
        if peer is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "this ZooKeeper is closed")
        self._earlier_session_id = self.session_id
        self._peer = peer
        socket.attach(peer)
        return socket

    def create_socket_pair(self) -> tuple[WakePipe, WakePipe]:
        """Return one object as both ends: it reads what was sent into it."""
        pipe = WakePipe(self._signal)
        return pipe, pipe

    def select(
        self,
        readers: Sequence[MemorySocket | WakePipe],
        writers: Sequence[MemorySocket],
        _exceptional: Sequence[object],
        timeout_s: float | None = None,
    ) -> tuple[list[MemorySocket | WakePipe], Sequence[MemorySocket], list[object]]:
        """Wait like `select.select`: memory is always writable; to read, wait for the signal."""
        if writers:
            return [], writers, []
        ready = [reader for reader in readers if reader.readable]
        if ready:
            return ready, [], []
        give_up_at_s = None if timeout_s is None else time.monotonic() + timeout_s
        activity = self.connection_activity
        if activity is not None:
            self._select.readers = readers
            activity.waits_for = self._select
        while not ready and self._wait(give_up_at_s):
            ready = [reader for reader in readers if reader.readable]
        if activity is not None:
            activity.run_on()
        return ready, [], []

    def _wait(self, give_up_at_s: float | None) -> bool:
        """Wait for the signal or the server's next deadline; return False once `give_up_at_s` has passed."""
        deadline_s = self.listener.seconds_to_deadline()
        left_s = None if give_up_at_s is None else give_up_at_s - time.monotonic()
        if deadline_s is not None and (left_s is None or deadline_s < left_s):
            if not self._signal.wait(max(deadline_s, 0)):
                self.listener.tick()
            return True
        return self._signal.wait(left_s if left_s is None else max(left_s, 0))


# kazoo resolves its hosts before it asks the handler for a connection; this address needs no resolution.
_ADDRESS = "127.0.0.1:2181"


class ZooKeeper(TestServer):
    """A ZooKeeper server in memory, and the kazoo clients that connect to it.

    Args:
        clock: "still" for virtual time that only `advance` moves, so that nothing expires during debugging; "wall" for
            wall time.
        version: the ZooKeeper release to behave as, such as "3.4" or "3.9.1".
        sasl_users: passwords by user name for SASL DIGEST-MD5 (kazoo's `sasl_options`, which needs pure-sasl); None for
            no SASL.
        server: the server of a simulated cluster, to serve instead of a new one; with `now_ms` and `pump`.
        now_ms: returns the virtual time of that server in ms; requests are applied at that instant.
        pump: sends the output of that server, to the cluster's brokers and to these clients.
        rules: the fault rules of that server, which apply to these clients too.

    Raises:
        ConfigError: the clock or version is unknown, or `server`, `now_ms` and `pump` are not given together.

    >>> with ZooKeeper() as zookeeper:
    ...     client = zookeeper.client()
    ...     client.start()
    ...     client.create("/greeting", b"hello")
    ...     client.get("/greeting")[0]
    '/greeting'
    b'hello'
    """

    def __init__(
        self,
        *,
        clock: Literal["still", "wall"] = "still",
        version: str = NEWEST,
        sasl_users: Mapping[str, str] | None = None,
        server: Server | None = None,
        now_ms: Callable[[], int] | None = None,
        pump: Callable[[], None] | None = None,
        rules: FaultRules | None = None,
    ) -> None:
        chosen: Clock
        if now_ms is not None and server is not None and pump is not None:
            chosen = BorrowedClock(now_ms)
        elif (now_ms, server, pump) == (None, None, None):
            chosen = own_clock(clock)
        else:
            raise ConfigError("server, now_ms and pump belong together", right="all three or none")
        served = server or Server(ServerConfig(version=version, sasl_users=sasl_users), now_ms=chosen.now_ms())
        super().__init__(WireDriver(served, chosen, send=pump, rules=rules), chosen, version)
        # Called by a handler before each wait (Listener): bound here to save a call.
        self.seconds_to_deadline: Callable[[], float | None] = self._driver.seconds_to_deadline
        self.tick: Callable[[], None] = self._driver.tick
        self._made_ms: int = chosen.now_ms()
        if server is None:  # a cluster is noted as a whole
            note_made(self)

    def client(self, **options: object) -> KazooClient:
        """Return an unmodified kazoo client that connects in memory, not yet started; `close` stops it.

        Args:
            options: of `KazooClient`. Only the chroot of `hosts` is used, as in `hosts="any/app"`. Unless
                `connection_retry` is given, the client reconnects without kazoo's first backoff of 0.1 s.

        Raises:
            ConfigError: `handler` or `use_ssl` is given: the handler keeps the connection in memory; or `sasl_options`,
                to a server without `sasl_users`.

        >>> with ZooKeeper() as zookeeper:
        ...     client = zookeeper.client(timeout=4)
        ...     client.start()
        ...     zookeeper
        <ZooKeeper 3.9, 1 client>
        """
        for option in ("handler", "use_ssl"):
            if options.get(option):
                raise ConfigError("a client in memory has its own handler", where=option, right="no such option")
        self._check_login(options)
        hosts = options.pop("hosts", None)
        chroot = collect_hosts(hosts)[1] if hosts else None
        options.setdefault("connection_retry", EAGER_RETRY)
        client = KazooClient(hosts=_ADDRESS + (chroot or ""), handler=self.handler(), **options)
        self._clients.append(client)
        return client

    def handler(self) -> SequentialThreadingHandler:
        """Return a handler for one client that other code creates: `KazooClient(handler=zookeeper.handler())`.

        That code stops the client. kazoo resolves `hosts`, so leave the default.
        """
        return self._observe(MemoryHandler(self, next(self._numbers)))

    def redirect(self, hosts: str | list[str], handler: object = None) -> dict[str, object]:
        """Return the options that lead a kazoo client of other code to this server; it uses no TLS.

        Raises:
            ConfigError: the handler is gevent's or eventlet's, which wait for sockets of the operating system.
        """
        chosen = self.handler() if handler is None else self._adopt(handler)
        return {"hosts": _ADDRESS + (collect_hosts(hosts)[1] or ""), "handler": chosen, "use_ssl": False}

    def _adopt(self, handler: object) -> SequentialThreadingHandler:
        adopted = adopt(handler, MemoryHandler, next(self._numbers))
        if adopted is None:
            kind, right = type(handler).__name__, "simzk.patch(simzk.ZooKeeperServer()), which accepts any handler"
            raise ConfigError(f"{kind} cannot connect in memory", where="handler", right=right)
        adopted.connect_to(self)
        return self._observe(adopted)

    def _look(self) -> Look:
        self._driver.flush()  # a test that drives the server by hand has left output
        return Look({})

    def _is_mine(self, client: KazooClient) -> bool:
        handler = client.handler
        return isinstance(handler, MemoryHandler) and handler.listener is self

    def _last_session_id(self, client: KazooClient) -> int:
        session_id: int = client.handler.session_id
        return session_id

    # Called by a simulated cluster

    def wake_by(self, wake_at: Callable[[int], None]) -> None:
        """Call `wake_at` with each time, in ms of the server, at which a delayed request is to be processed."""
        self._driver.on_deadline = wake_at

    # Called by handlers (Listener)

    def accept(self, socket: MemorySocket) -> WireLink | None:
        """Return the server's end of a new connection; None once this object is closed."""
        return self._driver.open(socket)

    def answer_word(self, data: bytes) -> bytes | None:
        from simzk.serve.memory_words import answer_in_memory  # imported late: few tests ask for a report

        now_ms = self._clock.now_ms()
        return answer_in_memory(self._driver, data, now_ms, now_ms - self._made_ms)
