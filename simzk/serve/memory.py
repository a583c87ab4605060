"""`simzk.ZooKeeper`: a ZooKeeper in this process for kazoo clients, with no port and no thread of its own.

Rules of this module:
  - all state belongs to the object: two servers in one process know nothing of each other;
  - a client is kazoo's own `KazooClient`; what makes it talk in memory is the handler that it is given;
  - time stands still but for `advance`, unless `clock="wall"` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from kazoo.client import KazooClient
from kazoo.hosts import collect_hosts

from simzk.errors import ConfigError, SimzkError
from simzk.serve.clock import BorrowedClock, Clock, StillClock, WallClock
from simzk.serve.host import Host, Link
from simzk.serve.kazoo_handler import MemoryHandler
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from simzk.serve.memory_socket import MemorySocket
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Outgoing

# kazoo's wait before it reconnects starts at 0.1 s, to spare real servers; here a reconnect should cost a test nothing.
_EAGER_RETRY = {"max_tries": -1, "delay": 0.001, "max_delay": 0.05}
# kazoo looks its hosts up before it asks the handler for a connection; this one needs no look-up.
_ADDRESS = "127.0.0.1:2181"


class Pause:
    """A client that is neither read nor answered, until `resume` or the end of the `with` block."""

    def __init__(self, resume: Callable[[], None]) -> None:
        self._resume = resume

    def resume(self) -> None:
        """Read what the client sent meanwhile, in order, and send what it was not sent."""
        self._resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resume()


class ZooKeeper:
    """A ZooKeeper server in memory, and the kazoo clients that talk to it.

    Args:
        clock: "still" for virtual time that moves by `advance` only, so that nothing expires while somebody debugs;
            "wall" for wall time.
        server: a server that somebody else made and drives, such as a simulated cluster's; with `now_ms`.
        now_ms: the virtual time of that server in ms; what clients ask is applied at that instant.
        pump: asks that somebody to take the server's output, and to hand to `deliver` what is for these clients.

    Raises:
        ConfigError: an unknown clock, or or `server`, `now_ms` and `pump` not given together.

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
        server: Server | None = None,
        now_ms: Callable[[], int] | None = None,
        pump: Callable[[], None] | None = None,
    ) -> None:
        self._clock = _clock(clock, server, now_ms, pump)
        self._host = Host(server or Server(now_ms=self._clock.now_ms()), self._clock, pump=pump)
        self._clients: list[KazooClient] = []

    @property
    def server(self) -> Server:
        """The state machine: its tree, sessions and watches. Hold `lock` while clients run."""
        return self._host.server

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """Held by whichever thread makes the server work; hold it to look at `server`, or to drive it, in peace."""
        return self._host.lock

    @property
    def clients(self) -> tuple[KazooClient, ...]:
        """The clients that `client` made, oldest first."""
        return tuple(self._clients)

    def client(self, **options: object) -> KazooClient:
        """kazoo's own client, not yet started, on a connection in memory; `close` stops it.

        Args:
            options: what `KazooClient` takes. Of `hosts` only the chroot counts, as in `hosts="any/app"`. Unless
                `connection_retry` is given, a lost connection is made anew without kazoo's first wait of 0.1 s.

        Raises:
            ConfigError: `handler` or `use_ssl`, for the handler is what keeps the connection in memory.
        """
        for option in ("handler", "use_ssl"):
            if options.get(option):
                raise ConfigError("a client in memory brings its own", where=option, right="not to be given")
        hosts = options.pop("hosts", None)
        chroot = collect_hosts(hosts)[1] if hosts else None
        options.setdefault("connection_retry", _EAGER_RETRY)
        client = KazooClient(hosts=_ADDRESS + (chroot or ""), handler=self.handler(), **options)
        self._clients.append(client)
        return client

    def handler(self) -> MemoryHandler:
        """A handler for one client that other code makes: `KazooClient(handler=zookeeper.handler())`.

        Such a client is stopped by whoever made it, and its `hosts` are looked up by kazoo: leave the default.
        """
        return MemoryHandler(self)

    # What a test does to a client.

    def expire(self, client: KazooClient) -> None:
        """End a client's session at once: its ephemerals go, it sees LOST and begins a new session.

        Raises:
            SimzkError: the client is not of this ZooKeeper, or has no session.
        """
        self._host.expire(self._session_id(client))

    def disconnect(self, client: KazooClient) -> None:
        """Cut a client's connection: it sees SUSPENDED and comes back with the same session.

        Raises:
            SimzkError: the client is not of this ZooKeeper, or has no session.
        """
        self._host.disconnect(self._session_id(client))

    def pause(self, client: KazooClient) -> Pause:
        """Neither read nor answer a client until the pause is resumed, so that its session can run out.

        kazoo's own patience runs on wall time: after two thirds of its session timeout it gives the connection up and
        tries again, which is not answered either.

        Raises:
            SimzkError: the client is not of this ZooKeeper, or has no session.
        """
        session_id = self._session_id(client)
        self._host.pause(session_id)
        return Pause(lambda: self._host.resume(session_id))

    def _session_id(self, client: KazooClient) -> int:
        handler = client.handler
        if not isinstance(handler, MemoryHandler) or handler.listener is not self:
            raise SimzkError(
                "this client talks to another server", where="client", right="a client of this ZooKeeper's client()"
            )
        session_id = handler.session_id
        if session_id not in self.server.sessions:
            raise SimzkError("this client has no session now", where="client", right="a client that was started")
        return session_id

    # What a test does to the server and to time.

    def advance(self, seconds: float) -> None:
        """Let virtual time go by: sessions that are disconnected or paused run out, those connected do not.

        Raises:
            SimzkError: a negative duration, or a time that is not this object's to move.
        """
        if seconds < 0:
            raise SimzkError(f"time cannot go back by {-seconds} s", where="seconds", right="0 or more")
        if isinstance(self._clock, WallClock):
            raise SimzkError("wall time goes by itself", right='ZooKeeper() without clock="wall"')
        if isinstance(self._clock, BorrowedClock):
            raise SimzkError("this server's time is its cluster's", right="cluster.run_for(seconds)")
        self._host.advance(self._clock, round(seconds * 1000))

    def restart(self) -> None:
        """Stop the server and start it again: connections are cut, the tree and the sessions are kept.

        Every session has its full timeout again, as after the start of a real server.

        Raises:
            SimzkError: the server is a cluster's, whose brokers would lose their connections too.
        """
        if isinstance(self._clock, BorrowedClock):
            raise SimzkError("this server is its cluster's", right="disconnect(client) for each client")
        self._host.restart()

    def fail_next(self, op: str, error: type[Exception], n: int = 1) -> None:
        """Let the next `n` requests of a kind fail before they reach the server; nothing of them is applied.

        Args:
            op: the kazoo method that sends the request: "create", "get", "set", "delete", "exists", "get_children",
                "get_acls", "set_acls", "sync", "transaction", "add_auth", "reconfig".
            error: kazoo's exception class. `ConnectionLoss` cuts the connection, `SessionExpiredError` ends the
                session, any other is answered as an error of the request.
            n: how many requests, of all clients together.

        Raises:
            SimzkError: an unknown `op`, an `error` that no server sends, `n` below 1.
        """
        with self._host.lock:
            self._host.failures.add(op, error, n)

    # Coming and going.

    def close(self) -> None:
        """Stop the clients that `client` made and refuse what still connects. Closing twice is no harm."""
        for client in self._clients:
            self._host.resume(client.handler.session_id)
            client.stop()
            client.close()
        self._clients.clear()
        self._host.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What whoever drives the server brings.

    def deliver(self, connection: Connection, outgoing: list[Outgoing]) -> None:
        """What the server sends on a connection from here; hold `lock`."""
        self._host.deliver(connection, outgoing)

    # What a handler asks (kazoo_handler.Listener).

    def accept(self, socket: MemorySocket) -> Link | None:
        """The server's end of a new connection; None once this object is closed."""
        return self._host.open(socket)

    def seconds_to_deadline(self) -> float | None:
        """How long a client may sleep before the server has something to do by itself; None: for ever."""
        return self._host.seconds_to_deadline()

    def tick(self) -> None:
        """Let the server do what has become due by wall time."""
        self._host.tick()


def _clock(
    clock: str, server: Server | None, now_ms: Callable[[], int] | None, pump: Callable[[], None] | None
) -> Clock:
    if now_ms is not None and server is not None and pump is not None:
        return BorrowedClock(now_ms)
    if (now_ms, server, pump) != (None, None, None):
        raise ConfigError("a server that somebody else drives comes with its time and its pump", right="all three")
    if clock == "still":
        return StillClock()
    if clock == "wall":
        return WallClock()
    raise ConfigError(f"there is no clock {clock!r}", where="clock", right='"still" or "wall"')
