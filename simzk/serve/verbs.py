"""Test verbs for clients, server and time, the same in memory and over TCP.

Rules of this module:
  - a `TestServer` owns a driver, its clock, and the clients that it made; a subclass connects clients to the driver,
    and finds the session of a client;
  - the effect of a verb on the server is complete when the verb returns; a client may notice it a moment later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from simzk.errors import SimzkError
from simzk.serve.clock import BorrowedClock, Clock, WallClock
from simzk.simulation.pause import PauseHandle

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from kazoo.client import KazooClient

    from simzk.serve.client_faults import ClientFaults
    from simzk.serve.wire_driver import WireDriver
    from simzk.zookeeper.server import Server


# kazoo's backoff starts at 0.1 s, to spare real servers; here a reconnect should cost a test nothing.
EAGER_RETRY = {"max_tries": -1, "delay": 0.001, "max_delay": 0.05}


class TestServer(ABC):
    """Base of `simzk.ZooKeeper` and `simzk.ZooKeeperServer`: a server for the tests of one process, with test verbs.

    Args:
        driver: the way to the server.
        clock: the driver's.
        version: the ZooKeeper release that it behaves as.

    Attributes:
        version: the ZooKeeper release that it behaves as.
    """

    __test__ = False  # pytest: this is no test class

    def __init__(self, driver: WireDriver, clock: Clock, version: str) -> None:
        self.version = version
        self._driver = driver
        self._clock = clock
        self._clients: list[KazooClient] = []

    @property
    def server(self) -> Server:
        """State machine: tree, sessions and watches. Hold `lock` to read it while clients run."""
        return self._driver.server

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Lock that every request and verb acquires; hold it to read `server` while clients run."""
        return self._driver.lock

    @property
    def clients(self) -> tuple[KazooClient, ...]:
        """Clients that `client` made, oldest first."""
        return tuple(self._clients)

    @abstractmethod
    def client(self, **options: object) -> KazooClient:
        """Return an unmodified kazoo client, not yet started; `close` stops it."""

    # Clients

    def expire(self, client: KazooClient | int) -> None:
        """Expire a client's session at once: its ephemerals are deleted, kazoo reports LOST and opens a new session.

        Args:
            client: a client of this server, or the id of a session.

        Raises:
            SimzkError: the client belongs to another server, or has no session.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client = zookeeper.client()
        ...     client.start()
        ...     path = client.create("/lock", ephemeral=True)
        ...     zookeeper.expire(client)
        ...     zookeeper.server.tree.get(path) is None
        True
        """
        self._driver.expire_session(self._session_id(client))

    def disconnect(self, client: KazooClient | int) -> None:
        """Close a client's connection: kazoo reports SUSPENDED and reconnects with the same session.

        Args:
            client: a client of this server, or the id of a session.

        Raises:
            SimzkError: the client belongs to another server, or has no session.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client = zookeeper.client()
        ...     client.start()
        ...     session_id, _ = client.client_id
        ...     zookeeper.disconnect(client)
        ...     _ = client.retry(client.exists, "/")
        ...     client.client_id[0] == session_id
        True
        """
        self._driver.disconnect_session(self._session_id(client))

    def pause(self, client: KazooClient | int) -> PauseHandle:
        """Stop reading and answering a client, so that its session can expire.

        kazoo measures its own timeouts on wall time: after two thirds of its session timeout it closes the connection
        and opens another, which is not answered either.

        Args:
            client: a client of this server, or the id of a session.

        Returns:
            a context manager: the pause ends with its block, or with `resume()`.

        Raises:
            SimzkError: the client belongs to another server, or has no session.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client = zookeeper.client(timeout=10)
        ...     client.start()
        ...     with zookeeper.pause(client):
        ...         zookeeper.advance(20)
        ...     len(zookeeper.server.sessions)
        0
        """
        session_id = self._session_id(client)
        self._driver.pause_session(session_id)
        return PauseHandle(lambda: self._resume(session_id))

    def _session_id(self, client: KazooClient | int) -> int:
        """Return the id of a client's session.

        Raises:
            SimzkError: the client belongs to another server, or has no session.
        """
        if isinstance(client, int):
            session_id = client - (client >> 63 << 64)  # clients in some languages print it unsigned
            if session_id not in self.server.sessions:
                raise SimzkError(f"there is no session 0x{client:x}", where="client", right="the id of a live session")
            return session_id
        if not self._is_mine(client):
            kind = type(self).__name__
            right = f"a client of this {kind}'s client()"
            raise SimzkError("this client belongs to another server", where="client", right=right)
        session_id = self._last_session_id(client)
        if session_id not in self.server.sessions:
            raise SimzkError("this client has no session", where="client", right="a client that was started")
        return session_id

    @abstractmethod
    def _is_mine(self, client: KazooClient) -> bool:
        """Return whether a client connects to this server."""

    @abstractmethod
    def _last_session_id(self, client: KazooClient) -> int:
        """Return the id of a client's present or last session; 0 before the first."""

    def _resume(self, session_id: int) -> None:
        self._driver.resume_session(session_id)

    # Server and time

    def advance(self, seconds: float) -> None:
        """Advance virtual time: disconnected and paused sessions expire by their timeouts, connected ones do not.

        Args:
            seconds: how far, 0 or more.

        Raises:
            SimzkError: `seconds` is negative, or time is the wall's or a cluster's.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     zookeeper.advance(1.5)
        ...     zookeeper
        <ZooKeeper 3.9, 0 clients>
        """
        if seconds < 0:
            raise SimzkError(f"time cannot go back by {-seconds:g} s", where="seconds", right="0 or more")
        if isinstance(self._clock, WallClock):
            raise SimzkError("wall time cannot be advanced", right=f'{type(self).__name__}() without clock="wall"')
        if isinstance(self._clock, BorrowedClock):
            raise SimzkError("the cluster advances the time of this server", right="cluster.advance(seconds)")
        self._driver.advance(self._clock, round(seconds * 1000))

    def restart(self) -> None:
        """Stop the server and start it again: connections are closed, the tree and the sessions are kept.

        Every session has its full timeout again, as after the start of a real server.

        Raises:
            SimzkError: the server belongs to a cluster, whose brokers would lose their connections too.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client = zookeeper.client()
        ...     client.start()
        ...     path = client.create("/kept")
        ...     zookeeper.restart()
        ...     client.retry(client.exists, path) is not None
        True
        """
        if isinstance(self._clock, BorrowedClock):
            raise SimzkError("this server belongs to a cluster", right="disconnect(client) for each client")
        self._driver.restart()

    def fail_next(self, op: str, error: type[Exception], n: int = 1) -> None:
        """Let the next `n` requests of one kind fail; they are not applied.

        Args:
            op: the kind of request, named like kazoo's method: "create", "transaction" (simzk.zookeeper.operations).
            error: kazoo's exception class. `ConnectionLoss` closes the connection, `SessionExpiredError` expires the
                session, any other is the error of the reply.
            n: number of requests, of all clients together.

        Raises:
            SimzkError: `op` is unknown, no server sends `error`, or `n` is below 1.

        >>> import simzk
        >>> from kazoo.exceptions import NoAuthError
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client = zookeeper.client()
        ...     client.start()
        ...     zookeeper.fail_next("get", NoAuthError)
        ...     client.get("/")
        Traceback (most recent call last):
          ...
        kazoo.exceptions.NoAuthError
        """
        self.faults.fail(op, error=error, times=n)

    @property
    def faults(self) -> ClientFaults:
        """Fault verbs, by client, kind of request and path; each adds a rule, which it returns."""
        from simzk.serve.client_faults import ClientFaults  # loaded on first use: most tests need no faults

        return ClientFaults(self._driver, self._session_id)

    # Close

    def close(self) -> None:
        """Stop the clients that `client` made, and refuse new connections; closing twice is allowed."""
        self._driver.end_faults()
        for client in self._clients:
            self._resume(self._last_session_id(client))
            client.stop()
            client.close()
        self._clients.clear()
        self._driver.close()

    def __repr__(self) -> str:
        count = len(self._clients)
        return f"<{type(self).__name__} {self._address_text}, {count} client{'' if count == 1 else 's'}>"

    @property
    def _address_text(self) -> str:
        """Version and address for `repr`."""
        return self.version

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
