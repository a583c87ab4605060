"""`simzk.ZooKeeper`: a ZooKeeper in this process for kazoo clients, without a port or a thread of its own.

Rules of this module:
  - all state belongs to the object: two servers in one process are independent;
  - a client is an unmodified `KazooClient`; its handler connects it in memory;
  - time stands still unless `advance` is called, or `clock="wall"` is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kazoo.client import KazooClient
from kazoo.hosts import collect_hosts

from simzk.errors import ConfigError
from simzk.serve.clock import BorrowedClock, Clock, StillClock, WallClock
from simzk.serve.memory.kazoo_handler import MemoryHandler
from simzk.serve.verbs import EAGER_RETRY, TestServer
from simzk.serve.wire_driver import WireDriver, WireLink
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import NEWEST
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kazoo.handlers.threading import SequentialThreadingHandler

    from simzk.serve.memory.kazoo_handler import MemorySocket
    from simzk.simulation.faults.request_faults import FaultRules

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
        chosen = _clock(clock, server, now_ms, pump)
        served = server or Server(ServerConfig(version=version, sasl_users=sasl_users), now_ms=chosen.now_ms())
        super().__init__(WireDriver(served, chosen, send=pump, rules=rules), chosen, version)
        # Called by a handler before each wait (kazoo_handler.Listener): bound here to save a call.
        self.seconds_to_deadline: Callable[[], float | None] = self._driver.seconds_to_deadline
        self.tick: Callable[[], None] = self._driver.tick

    def client(self, **options: object) -> KazooClient:
        """Return an unmodified kazoo client that connects in memory, not yet started; `close` stops it.

        Args:
            options: of `KazooClient`. Only the chroot of `hosts` is used, as in `hosts="any/app"`. Unless
                `connection_retry` is given, the client reconnects without kazoo's first backoff of 0.1 s.

        Raises:
            ConfigError: `handler` or `use_ssl` is given: the handler keeps the connection in memory.

        >>> with ZooKeeper() as zookeeper:
        ...     client = zookeeper.client(timeout=4)
        ...     client.start()
        ...     zookeeper
        <ZooKeeper 3.9, 1 client>
        """
        for option in ("handler", "use_ssl"):
            if options.get(option):
                raise ConfigError("a client in memory has its own handler", where=option, right="no such option")
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
        return MemoryHandler(self)

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

    # Called by handlers (kazoo_handler.Listener)

    def accept(self, socket: MemorySocket) -> WireLink | None:
        """Return the server's end of a new connection; None once this object is closed."""
        return self._driver.open(socket)


def _clock(
    clock: str, server: Server | None, now_ms: Callable[[], int] | None, pump: Callable[[], None] | None
) -> Clock:
    if now_ms is not None and server is not None and pump is not None:
        return BorrowedClock(now_ms)
    if (now_ms, server, pump) != (None, None, None):
        raise ConfigError("server, now_ms and pump belong together", right="all three or none")
    if clock == "still":
        return StillClock()
    if clock == "wall":
        return WallClock()
    raise ConfigError(f"unknown clock {clock!r}", where="clock", right='"still" or "wall"')
