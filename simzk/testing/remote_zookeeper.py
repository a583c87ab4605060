"""A real ZooKeeper ensemble in the place of a simulated one, for tests that run against both.

Rules of this module:
  - all clients of a test are in a chroot of its own, which is removed at the end;
  - a verb that a real server does not have skips the test, with the reason;
  - what a client has seen is found out by `sync`: a server sends the events of a change before the reply to a sync that
    follows it.
"""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.hosts import collect_hosts

from simzk.errors import ConfigError, SimzkError
from simzk.serve.client_activity import Look, ObservedHandler, ObservedTcpHandler, adopt, wait_until_idle
from simzk.serve.client_stop import stop_clients, warn_of_blocked
from simzk.serve.verbs import EAGER_RETRY
from simzk.serve.zookeeper_server import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Collection

_START_S = 15.0
_CLOSE_TRIES = 10


class RemoteZooKeeper:
    """A chroot of real ZooKeeper servers, with the test verbs that real servers allow.

    `client`, `settle`, `expire`, `disconnect`, `reset` and `close` are those of `simzk.ZooKeeperServer`. Every other
    verb of it skips the test.

    Args:
        hosts: of the servers, as of a kazoo client; a chroot in it must exist.

    Attributes:
        hosts: the servers with the test's chroot, for clients that other code makes.
        version: release of the server that answered.

    Raises:
        ConfigError: no server answers at these hosts.
    """

    __test__ = False  # pytest: this is no test class

    def __init__(self, hosts: str) -> None:
        addresses, chroot = collect_hosts(hosts)
        self._chroot = f"{chroot or ''}/simzk-{uuid.uuid4().hex}"
        self._servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
        self.hosts: str = self._servers + self._chroot
        self._clients: list[KazooClient] = []
        self._handlers: WeakSet[ObservedHandler] = WeakSet()
        self._made = 0
        self._operator = KazooClient(hosts=self._servers)
        try:
            self._operator.start(timeout=_START_S)
        except KazooTimeoutError:
            raise ConfigError("no ZooKeeper answers", where=hosts, right="hosts of a running ensemble") from None
        self._operator.create(self._chroot, makepath=True)
        self.version: str = ".".join(map(str, self._operator.server_version()))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.version} at {self.hosts}>"

    def __getattr__(self, name: str) -> object:
        if not name.startswith("_") and hasattr(ZooKeeperServer, name):
            pytest.skip(f"a real ZooKeeper has no {name!r}: it is a verb of simzk's own servers")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def clients(self) -> tuple[KazooClient, ...]:
        """Clients that `client` made, oldest first."""
        return tuple(self._clients)

    def client(self, **options: object) -> KazooClient:
        """Return a kazoo client in the test's chroot, not yet started; `close` stops it.

        Args:
            options: of `KazooClient`. Of `hosts` only the chroot is used, below the test's own.
        """
        hosts = str(options.pop("hosts", ""))
        below = hosts[hosts.index("/") :] if "/" in hosts else ""
        options.setdefault("connection_retry", EAGER_RETRY)
        if options.get("handler") is None:
            options["handler"] = self.handler()
        client = KazooClient(hosts=self.hosts + below, **options)
        self._clients.append(client)
        return client

    def handler(self) -> SequentialThreadingHandler:
        """Return a handler for one client that other code creates, which `settle` waits for."""
        self._made += 1
        handler = ObservedTcpHandler(self._made)
        self._handlers.add(handler)
        return handler

    @property
    def accepts_sasl(self) -> bool:
        """Whether clients can log in by SASL: as real servers are configured."""
        return True

    def redirect(self, hosts: str | list[str], handler: object = None) -> dict[str, object]:
        """Return the options that lead a kazoo client of other code to the test's chroot."""
        chosen = handler
        if handler is None:
            chosen = self.handler()
        elif (adopted := adopt(handler, ObservedTcpHandler, self._made + 1)) is not None:
            self._made += 1
            self._handlers.add(adopted)
        return {"hosts": self.hosts + (collect_hosts(hosts)[1] or ""), "handler": chosen}

    def settle(self, timeout_s: float = 10.0, *, timeout: float | None = None) -> None:
        """Wait until all clients have seen every change, and every callback has returned; then raise their errors.

        Raises:
            TimeoutError: a client or a callback is still busy; says which one.
            SimzkError: a client has a handler that is not observed.
            Exception: a callback raised it; several in one `ExceptionGroup`.
        """
        for client in self._clients:
            if not isinstance(client.handler, ObservedHandler):
                kind = type(client.handler).__name__
                raise SimzkError(f"a client uses {kind}, which is not observed", right="client() without a handler")
        give_up_at_s = time.monotonic() + (timeout_s if timeout is None else timeout)

        def wait() -> None:
            wait_until_idle(lambda: handlers, lambda: Look(None), max(give_up_at_s - time.monotonic(), 0))

        while True:
            handlers = list(self._handlers)
            wait()
            before = [handler.calls for handler in handlers]
            clients = [handler.client for handler in handlers]
            running = [client for client in clients if client is not None and client.connected]
            synced = [client.sync_async("/") for client in running]
            try:
                for result in synced:
                    result.get(timeout=max(give_up_at_s - time.monotonic(), 0))
            except (KazooException, KazooTimeoutError) as error:
                if time.monotonic() >= give_up_at_s:
                    raise TimeoutError(f"not settled after {timeout_s:g} s: a sync failed: {error!r}") from error
                continue
            wait()
            # A sync has one completion callback of its own; any other callback may have written something.
            expected = [calls + (client in running) for calls, client in zip(before, clients, strict=True)]
            if [handler.calls for handler in handlers] == expected:
                return

    def disconnect(self, client: KazooClient) -> None:
        """Close a client's connection, at its own end: kazoo reports SUSPENDED and reconnects with the same session."""
        connected = self._mine(client)._connection._socket
        if connected is not None:  # else it reconnects already
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def expire(self, client: KazooClient) -> None:
        """End a client's session: a second client takes it over and closes it. kazoo reports LOST.

        The client reconnects at once when the server closes its connection, and may take the session back before it is
        closed. So it is closed again until the server does not know it any more.

        Raises:
            SimzkError: the client is not connected, or of another server; or it kept its session.
        """
        session = self._mine(client).client_id
        if session is None:
            raise SimzkError("this client has no session", where="client", right="a client that is connected")
        for _ in range(_CLOSE_TRIES):
            if not self._close_session(session):
                break
        else:
            raise SimzkError(f"the client took its session back {_CLOSE_TRIES} times", where="client")
        self.disconnect(client)

    def _close_session(self, session: tuple[int, bytes]) -> bool:
        """Take a session over and close it; return whether the server still knew it."""
        other = KazooClient(hosts=self._servers, client_id=session)
        try:
            if not other.start_async().wait(_START_S):
                raise KazooTimeoutError("Connection time-out")
            now = other.client_id  # None if the client has taken the session back: the server closes this connection
            return now is None or bool(now[0] == session[0])
        finally:
            other.stop()
            other.close()

    def _mine(self, client: KazooClient) -> KazooClient:
        if client not in self._clients:
            right = "a client of this object's client()"
            raise SimzkError("this client belongs to another server", where="client", right=right)
        return client

    def reset(self, *, keep: Collection[KazooClient] = ()) -> None:
        """Stop all clients but `keep`, and delete all znodes of the chroot."""
        ending = [one for one in self._clients if one not in keep]
        for client in ending:
            self._clients.remove(client)
        blocked = stop_clients(ending)
        for name in self._operator.get_children(self._chroot):
            with contextlib.suppress(NoNodeError):  # an ephemeral whose session has just ended
                self._operator.delete(f"{self._chroot}/{name}", recursive=True)
        warn_of_blocked(blocked)

    def close(self) -> None:
        """Stop the clients, and remove the chroot; closing twice is allowed."""
        if self._operator.connected:
            self.reset()
            self._operator.delete(self._chroot, recursive=True)
            self._operator.stop()
            self._operator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
