"""`simzk.ZooKeeperServer`: a ZooKeeper on a TCP port of this machine, for any client, with test verbs.

Rules of this module:
  - the event loop runs in one thread, which starts with the object and ends with `close`;
  - time stands still unless `advance` is called, or `clock="wall"` is given.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Literal

from simzk.errors import ConfigError, SimzkError
from simzk.lifecycle import note_closing, note_made
from simzk.serve.clock import own_clock
from simzk.serve.configuration.settings import Settings
from simzk.serve.tcp.server import TcpServer
from simzk.serve.verbs import EAGER_RETRY, TestServer
from simzk.zookeeper.releases import NEWEST

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from kazoo.client import KazooClient
    from kazoo.handlers.threading import SequentialThreadingHandler

    from simzk.serve.client_activity import Look, Watched
    from simzk.serve.tcp.ensemble import TcpEnsemble
    from simzk.serve.tcp.tls import Tls
    from simzk.serve.verbs import EnsembleVerbs
    from simzk.zookeeper.server import Server

_ACCEPT_S = 1.0  # longest time to wait for TLS handshakes that nobody continues


class ZooKeeperServer(TestServer):
    """A ZooKeeper server on TCP, and the kazoo clients of this process that connect to it.

    Args:
        port: the port to listen on; 0 for any free one.
        host: the interface to listen on.
        clock: "still" for virtual time that only `advance` moves, so that nothing expires during debugging; "wall" for
            wall time.
        data_directory: folder of snapshots and logs, for an ensemble of one folder per server, `1`, `2` and so on; None
            for in memory only.
        tls: TLS configuration of the port (simzk.serve.tcp.tls); None for no TLS.
        secure_port: a second port for TLS, 0 for any free one; `port` accepts plain text then. Each server of an
            ensemble has one.
        sasl_users: passwords by user name for SASL DIGEST-MD5; None for no SASL.
        version: the ZooKeeper release to behave as, such as "3.4" or "3.9.1".
        servers: number of voting servers; more than 1 are an ensemble, with the verbs of `ensemble`. They listen on
            `port` and the following ports, or each on any free one.
        observers: number of additional servers without a vote.
        read_only: whether a server without a majority serves read-only clients, 2 s after it has lost the majority.
        local_sessions: whether sessions of an ensemble are local to a server until they create an ephemeral znode
            (localSessionsEnabled, localSessionsUpgradingEnabled).
        super_digest: "super:" and the digest of the user with all permissions, that to reconfigure an ensemble included
            (DigestAuthenticationProvider.superDigest); None for no such user.

    Raises:
        ConfigError: the clock or version is unknown, a port is in use, or a data directory cannot be used.

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
        chosen = own_clock(clock)
        if secure_port is not None and tls is None:
            raise ConfigError("a secure port needs a key", where="secure_port", right="tls=Tls(...)")
        settings = Settings(address=host, port=port, secure_port=secure_port, data_directory=data_directory, tls=tls)
        config = settings.server._replace(version=version, x509=tls is not None, sasl_users=sasl_users)
        settings = settings._replace(
            local_sessions=local_sessions,
            upgrades_sessions=local_sessions,
            server=config._replace(super_digest=super_digest),
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
        note_made(self)

    @property
    def _address_text(self) -> str:
        return f"{self.version} on {self.hosts}"

    @property
    def hosts(self) -> str:
        """Address, as a client's hosts; of an ensemble those of all servers, separated by commas."""
        return self._tcp.hosts

    @property
    def secure_hosts(self) -> str:
        """Address of the secure port, as a client's hosts; empty without one."""
        return self._tcp.secure_hosts

    @property
    def port(self) -> int:
        """Port; of an ensemble that of the first server."""
        return self._tcp.port

    @property
    def server(self) -> Server:
        """State machine; of an ensemble the leader's, or the first server's while there is no leader."""
        if isinstance(self._tcp, TcpServer):
            return super().server
        return self._tcp.ensemble.shared.leading or self._tcp.ensemble.members[1]

    @property
    def ensemble(self) -> EnsembleVerbs:
        """Verbs for the servers of an ensemble.

        Raises:
            SimzkError: this is a single server.
        """
        if isinstance(self._tcp, TcpServer):
            raise SimzkError("this is a single server", right="ZooKeeperServer(servers=3)")
        from simzk.serve.verbs import EnsembleVerbs

        return EnsembleVerbs(self._tcp, self._clock, self._loop)

    def client(self, **options: object) -> KazooClient:
        """Return an unmodified kazoo client of this server, not yet started; `close` stops it.

        Args:
            options: of `KazooClient`. Only the chroot of `hosts` is used, as in `hosts="any/app"`, except for
                `ensemble.hosts(...)`, which selects servers of an ensemble; with `use_ssl` the client connects to
                their secure ports. Unless `connection_retry` is given, the client reconnects without kazoo's first
                backoff of 0.1 s.

        Raises:
            ConfigError: `sasl_options` are given, and the server has no `sasl_users`.
        """
        self._check_login(options)
        hosts = str(options.pop("hosts", ""))
        chroot = hosts[hosts.index("/") :] if "/" in hosts else ""
        options.setdefault("connection_retry", EAGER_RETRY)
        options.setdefault("use_ssl", self._tcp.settings.tls is not None and not self.secure_hosts)
        if options.get("handler") is None:
            options["handler"] = self.handler()
        # Imported late: a server may have no kazoo clients.
        from kazoo.client import KazooClient

        client = KazooClient(hosts=self._addresses(hosts, secure=bool(options["use_ssl"])) + chroot, **options)
        self._clients.append(client)
        return client

    def handler(self) -> SequentialThreadingHandler:
        """Return a handler for one client that other code creates, which `settle` waits for; that code stops it.

        >>> from kazoo.client import KazooClient
        >>> with ZooKeeperServer() as server:
        ...     client = KazooClient(hosts=server.hosts, handler=server.handler())
        ...     client.start()
        ...     server.settle()
        ...     client.stop()
        ...     client.close()
        """
        from simzk.serve.client_activity import ObservedTcpHandler

        return self._observe(ObservedTcpHandler(next(self._numbers)))

    def redirect(self, hosts: str | list[str], handler: object = None) -> dict[str, object]:
        """Return the options that lead a kazoo client of other code to this server; with TLS if all its ports do.

        A handler of gevent or eventlet stays as it is: `settle` does not wait for its client.
        """
        from kazoo.hosts import collect_hosts

        from simzk.serve.client_activity import ObservedTcpHandler, adopt

        chosen = handler
        if handler is None:
            chosen = self.handler()
        elif (adopted := adopt(handler, ObservedTcpHandler, next(self._numbers))) is not None:
            chosen = self._observe(adopted)
        use_ssl = self._tcp.settings.tls is not None and not self.secure_hosts
        chroot = collect_hosts(hosts)[1] or ""
        return {"hosts": self._addresses("", secure=use_ssl) + chroot, "handler": chosen, "use_ssl": use_ssl}

    def _addresses(self, hosts: str, *, secure: bool) -> str:
        """Return the addresses of the servers in `hosts`; of all servers if none is."""
        names = self.hosts.split(",")
        reached = self.secure_hosts.split(",") if secure and self.secure_hosts else names
        asked = hosts.split("/")[0].split(",")
        return ",".join(at for name, at in zip(names, reached, strict=True) if name in asked) or ",".join(reached)

    def _is_mine(self, client: KazooClient) -> bool:
        ours = {int(name.rpartition(":")[2]) for name in self._tcp.name.split(",")}
        return any(port in ours for _, port in client.hosts)

    def _last_session_id(self, client: KazooClient) -> int:
        # KazooClient.client_id is None while disconnected; the verbs apply to disconnected clients too.
        return client._session_id or 0

    def _watched_clients(self) -> Sequence[Watched]:
        from simzk.serve.client_activity import plain_clients

        return [*super()._watched_clients(), *plain_clients(self._is_mine)]

    def _look(self) -> Look:
        from simzk.serve.client_activity import Look

        if self._loop.is_closed():
            return Look({})

        async def on_loop() -> Look:
            with self.lock:
                self._driver.flush()
                traffic = self._tcp.traffic()
            waiting = (f"the server has yet to answer {address}" for address, one in traffic.items() if one.busy)
            return Look(traffic, traffic, next(waiting, ""))

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._tcp.start())
        except BaseException as failure:  # of any kind: raised in the thread that waits for the start
            self._failure = failure
            self._tcp.stop()
            self._loop.close()
            return
        finally:
            self._ready.set()
        self._loop.run_forever()
        self._tcp.stop()
        self._loop.run_until_complete(end_connections())
        self._loop.close()

    def reset(self, *, keep: Collection[KazooClient] = ()) -> None:
        """Return to the state of a new server, for the next test; all servers of an ensemble run and follow again."""
        if not isinstance(self._tcp, TcpServer):
            verbs = self.ensemble
            for server in self._tcp.stopped_servers:
                verbs.start(server)
            verbs.heal()
            self._tcp.catch_up()
            if verbs.leader is None:
                verbs.elect()
        super().reset(keep=keep)

    def close(self) -> None:
        """Stop the clients that `client` made, refuse new connections, and free the port; closing twice is allowed."""
        if self._loop.is_closed():
            return
        note_closing(self)
        if not isinstance(self._tcp, TcpServer):
            self._tcp.catch_up()  # a client that stops waits for the end of its session
        blocked = self._close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._warn_of_blocked(blocked)


async def end_connections() -> None:
    """Let the loop close the connections of a stopped server, those included that it was just about to accept."""
    accepting = asyncio.all_tasks() - {asyncio.current_task()}
    if accepting:
        await asyncio.wait(accepting, timeout=_ACCEPT_S)
    # A connection is aborted in the turn in which it is made, and its transport closed in the next one.
    for _ in range(2):
        await asyncio.sleep(0)
