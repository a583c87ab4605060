"""`simzk.ZooKeeper`: a ZooKeeper in this process for kazoo clients, with no port and no thread of its own.

Rules of this module:
  - all state belongs to the object: two servers in one process know nothing of each other;
  - a client is kazoo's own `KazooClient`; what makes it talk in memory is the handler that it is given;
  - time stands still but for `advance`, unless `clock="wall"` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kazoo.client import KazooClient
from kazoo.hosts import collect_hosts

from simzk.errors import ConfigError
from simzk.serve.clock import BorrowedClock, Clock, StillClock, WallClock
from simzk.serve.memory.kazoo_handler import MemoryHandler
from simzk.serve.verbs import EAGER_RETRY, Facade
from simzk.serve.wire_driver import WireDriver, WireLink
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import NEWEST
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kazoo.handlers.threading import SequentialThreadingHandler

    from simzk.serve.memory.kazoo_handler import MemorySocket
    from simzk.simulation.faults.request_faults import FaultRules

# kazoo looks its hosts up before it asks the handler for a connection; this one needs no look-up.
_ADDRESS = "127.0.0.1:2181"


class ZooKeeper(Facade):
    """A ZooKeeper server in memory, and the kazoo clients that talk to it.

    Args:
        clock: "still" for virtual time that moves by `advance` only, so that nothing expires while somebody debugs;
            "wall" for wall time.
        version: the ZooKeeper release whose behaviour it has, as "3.4" or "3.9.1".
        sasl_users: name to password of who can log in by SASL DIGEST-MD5, by kazoo's `sasl_options`, for which it needs
            pure-sasl; None for no SASL.
        server: a server that somebody else made and drives, such as a simulated cluster's; with `now_ms`.
        now_ms: the virtual time of that server in ms; what clients ask is applied at that instant.
        rules: a table of faults that he applies too, and which holds for these clients.
        pump: asks that somebody to take the server's output, and to hand to `deliver` what is for these clients.

    Raises:
        ConfigError: an unknown clock or version, or `server`, `now_ms` and `pump` not given together.

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
        # What a handler asks before each wait (kazoo_handler.Listener), without a detour.
        self.seconds_to_deadline: Callable[[], float | None] = self._driver.seconds_to_deadline
        self.tick: Callable[[], None] = self._driver.tick

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
        options.setdefault("connection_retry", EAGER_RETRY)
        client = KazooClient(hosts=_ADDRESS + (chroot or ""), handler=self.handler(), **options)
        self._clients.append(client)
        return client

    def handler(self) -> SequentialThreadingHandler:
        """A handler for one client that other code makes: `KazooClient(handler=zookeeper.handler())`.

        Such a client is stopped by whoever made it, and its `hosts` are looked up by kazoo: leave the default.
        """
        return MemoryHandler(self)

    def _is_mine(self, client: KazooClient) -> bool:
        handler = client.handler
        return isinstance(handler, MemoryHandler) and handler.listener is self

    def _last_session_id(self, client: KazooClient) -> int:
        session_id: int = client.handler.session_id
        return session_id

    # What whoever drives the server brings.

    def wake_by(self, wake_at: Callable[[int], None]) -> None:
        """Let `wake_at` be called with each time, in ms of the server, at which a request that is late goes on."""
        self._driver.on_deadline = wake_at

    # What a handler asks (kazoo_handler.Listener).

    def accept(self, socket: MemorySocket) -> WireLink | None:
        """The server's end of a new connection; None once this object is closed."""
        return self._driver.open(socket)


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
