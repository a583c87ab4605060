"""`simzk.ZooKeeperServer`: a ZooKeeper on a TCP port of this machine, for any client, with a test's verbs.

Rules of this module:
  - the server's loop runs in one thread of its own, made with the object and gone with it;
  - time stands still but for `advance`, unless `clock="wall"` is asked for.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Literal, Self

from simzk.errors import ConfigError, SimzkError
from simzk.serve.clock import Clock, StillClock, WallClock
from simzk.serve.configuration.settings import Settings
from simzk.serve.tcp.server import TcpServer
from simzk.serve.verbs import EAGER_RETRY, Facade
from simzk.zookeeper.releases import NEWEST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kazoo.client import KazooClient

    from simzk.serve.ensemble_verbs import EnsembleVerbs
    from simzk.serve.tcp.ensemble import TcpEnsemble
    from simzk.serve.tcp.tls import Tls
    from simzk.zookeeper.server import Server


class ZooKeeperServer(Facade):
    """A ZooKeeper server on TCP, and the kazoo clients of this process that talk to it.

    Args:
        port: the port to listen on; 0 for any free one.
        host: the interface to listen on.
        clock: "still" for virtual time that moves by `advance` only, so that nothing expires while somebody debugs;
            "wall" for wall time.
        data_directory: where the tree is kept, an ensemble's in a directory a server, `1`, `2` and so on, within it;
            None for in memory only.
        tls: how its port is secured (simzk.serve.tcp.tls); None for no TLS.
        secure_port: a port beside `port`, 0 for any free one, which alone is secured then; an ensemble's servers have
            one each.
        sasl_users: name to password of who can log in by SASL DIGEST-MD5; None for no SASL.
        version: the ZooKeeper release whose behaviour it has, as "3.4" or "3.9.1"; no other is taken.
        servers: how many servers there are; more than 1 are an ensemble, with the verbs of `ensemble`. They listen on
            `port` and those that follow it, or each on any free one.
        observers: how many servers without a vote there are beside them: they follow, and are not asked.
        read_only: whether a server that can speak with no majority of the others serves read-only clients, 2 s after
            it has lost it.
        local_sessions: whether an ensemble's sessions are known only to the server where they begin, until they make
            an ephemeral znode (localSessionsEnabled, localSessionsUpgradingEnabled).
        super_digest: "super:" and the digest of who may do everything, reconfigurations of an ensemble among it
            (DigestAuthenticationProvider.superDigest); None for nobody.

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
        tls: Tls | None = None,
        secure_port: int | None = None,
        sasl_users: Mapping[str, str] | None = None,
        version: str = NEWEST,
        servers: int = 1,
        observers: int = 0,
        read_only: bool = False,
        local_sessions: bool = False,
        super_digest: str | None = None,
    ) -> None:
        if clock not in ("still", "wall"):
            raise ConfigError(f"there is no clock {clock!r}", where="clock", right='"still" or "wall"')
        chosen: Clock = StillClock() if clock == "still" else WallClock()
        if secure_port is not None and tls is None:
            raise ConfigError("a secure port needs a key", where="secure_port", right="tls=Tls(...)")
        settings = Settings(address=host, port=port, secure_port=secure_port, data_directory=data_directory, tls=tls)
        settings = settings._replace(
            local_sessions=local_sessions,
            upgrades_sessions=local_sessions,
            server=settings.server._replace(
                version=version,
                x509=tls is not None,
                sasl_users=sasl_users,
                super_digest=super_digest,
            ),
        )
        self._tcp: TcpServer | TcpEnsemble
        if servers == 1 and not observers and not read_only:
            self._tcp = TcpServer(settings, chosen)
        else:
            from simzk.serve.configuration.ensemble_plan import numbered
            from simzk.serve.tcp.ensemble import TcpEnsemble

            self._tcp = TcpEnsemble(numbered(settings, servers, observers=observers, read_only=read_only), chosen)
        super().__init__(self._tcp.driver, chosen, version)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="simzk-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def __repr__(self) -> str:
        return f"<ZooKeeperServer {self.version} on {self.hosts}, {len(self._clients)} clients>"

    @property
    def hosts(self) -> str:
        """Where it listens, as a client's hosts."""
        return self._tcp.hosts

    @property
    def secure_hosts(self) -> str:
        """The secure port beside that, or an ensemble's, as a client's hosts; empty where there is none."""
        return self._tcp.secure_hosts

    @property
    def port(self) -> int:
        """The port that it, or an ensemble's first server, listens on."""
        return self._tcp.port

    @property
    def server(self) -> Server:
        """The state machine, of an ensemble the leader's, or while nobody leads the first server's."""
        if isinstance(self._tcp, TcpServer):
            return super().server
        return self._tcp.ensemble.leading or self._tcp.ensemble.members[1]

    @property
    def ensemble(self) -> EnsembleVerbs:
        """What can be done to the servers of an ensemble.

        Raises:
            SimzkError: this is a single server.
        """
        if isinstance(self._tcp, TcpServer):
            raise SimzkError("this is a single server", right="ZooKeeperServer(servers=3)")
        from simzk.serve.ensemble_verbs import EnsembleVerbs

        return EnsembleVerbs(self._tcp, self._clock, self._loop)

    def client(self, **options: object) -> KazooClient:
        """kazoo's own client, not yet started; `close` stops it.

        Args:
            options: what `KazooClient` takes. Of `hosts` only the chroot counts, as in `hosts="any/app"`, but for an
                ensemble's `ensemble.hosts(...)`; with `use_ssl` it goes to the secure ports beside them. Unless
                `connection_retry` is given, a lost connection is made anew without kazoo's first wait of 0.1 s.
        """
        hosts = str(options.pop("hosts", ""))
        chroot = hosts[hosts.index("/") :] if "/" in hosts else ""
        options.setdefault("connection_retry", EAGER_RETRY)
        options.setdefault("use_ssl", self._tcp.settings.tls is not None and not self.secure_hosts)
        # Here, as a server whose clients are not kazoo's need not wait for it to be imported.
        from kazoo.client import KazooClient

        client = KazooClient(hosts=self._addresses(hosts, secure=bool(options["use_ssl"])) + chroot, **options)
        self._clients.append(client)
        return client

    def _addresses(self, hosts: str, *, secure: bool) -> str:
        """Those of our servers' addresses that are among `hosts`; all where there are none such."""
        names = self.hosts.split(",")
        reached = self.secure_hosts.split(",") if secure and self.secure_hosts else names
        asked = hosts.split("/")[0].split(",")
        return ",".join(at for name, at in zip(names, reached, strict=True) if name in asked) or ",".join(reached)

    def _is_mine(self, client: KazooClient) -> bool:
        ours = {int(name.rpartition(":")[2]) for name in self._tcp.name.split(",")}
        return any(port in ours for _, port in client.hosts)

    def _last_session_id(self, client: KazooClient) -> int:
        # kazoo tells a client's id only while it is connected; the verbs are about clients that are not, too.
        return client._session_id or 0

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._tcp.start())
        except BaseException as failure:  # whatever it is, it belongs to whoever waits for the start
            self._failure = failure
            self._tcp.stop()
            self._loop.close()
            return
        finally:
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
        if not isinstance(self._tcp, TcpServer):
            self._tcp.catch_up()  # clients that stop wait for the end of their sessions
        super().close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def __enter__(self) -> Self:
        return self
