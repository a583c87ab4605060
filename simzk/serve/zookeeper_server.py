"""`simzk.ZooKeeperServer`: a ZooKeeper on a TCP port of this machine, for any client, with a test's verbs.

Rules of this module:
  - the server's loop runs in one thread of its own, made with the object and gone with it;
  - time stands still but for `advance`, unless `clock="wall"` is asked for.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Literal, Self

from kazoo.client import KazooClient

from simzk.errors import ConfigError
from simzk.serve.clock import Clock, StillClock, WallClock
from simzk.serve.facade import EAGER_RETRY, Facade
from simzk.serve.settings import Settings
from simzk.serve.tcp import TcpServer

if TYPE_CHECKING:
    from pathlib import Path


class ZooKeeperServer(Facade):
    """A ZooKeeper server on TCP, and the kazoo clients of this process that talk to it.

    Args:
        port: the port to listen on; 0 for any free one.
        host: the interface to listen on.
        clock: "still" for virtual time that moves by `advance` only, so that nothing expires while somebody debugs;
            "wall" for wall time.
        data_directory: where the tree is kept; None for in memory only.

    Raises:
        ConfigError: an unknown clock, a port that is taken, a data directory that cannot be used.

    >>> with ZooKeeperServer() as server:
    ...     client = server.client()
    ...     client.start()
    ...     client.create("/greeting", b"hello")
    ...     client.get("/greeting")[0]
    '/greeting'
    b'hello'
    """

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        clock: Literal["still", "wall"] = "still",
        data_directory: Path | None = None,
    ) -> None:
        if clock not in ("still", "wall"):
            raise ConfigError(f"there is no clock {clock!r}", where="clock", right='"still" or "wall"')
        chosen: Clock = StillClock() if clock == "still" else WallClock()
        self._tcp = TcpServer(Settings(address=host, port=port, data_directory=data_directory), chosen)
        super().__init__(self._tcp.host, chosen)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simzk-server", daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def hosts(self) -> str:
        """Where it listens, as a client's hosts."""
        return self._tcp.name

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._tcp.port

    def client(self, **options: object) -> KazooClient:
        """kazoo's own client, not yet started; `close` stops it.

        Args:
            options: what `KazooClient` takes. Of `hosts` only the chroot counts, as in `hosts="any/app"`. Unless
                `connection_retry` is given, a lost connection is made anew without kazoo's first wait of 0.1 s.
        """
        hosts = str(options.pop("hosts", ""))
        chroot = hosts[hosts.index("/") :] if "/" in hosts else ""
        options.setdefault("connection_retry", EAGER_RETRY)
        client = KazooClient(hosts=self.hosts + chroot, **options)
        self._clients.append(client)
        return client

    def _is_mine(self, client: KazooClient) -> bool:
        return any(port == self.port for _, port in client.hosts)

    def _last_session_id(self, client: KazooClient) -> int:
        # kazoo tells a client's id only while it is connected; the verbs are about clients that are not, too.
        return client._session_id or 0

    def _resume(self, session_id: int) -> None:
        self._tcp.resume(session_id)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._tcp.start())
        self._ready.set()
        self._loop.run_forever()
        self._tcp.stop()
        # The loop calls connection_lost of what was cut in its next turn.
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def close(self) -> None:
        """Stop the clients that `client` made, refuse what still connects, and free the port. Twice is no harm."""
        if self._loop.is_closed():
            return
        super().close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def __enter__(self) -> Self:
        return self
