"""What a test can do to its clients, its server and time: one set of verbs, whatever carries the bytes.

Rules of this module:
  - a facade owns a driver, its clock, and the clients that it made; a subclass says how a client reaches the driver,
    and which session a client has;
  - whatever a verb does is done when it returns, as far as the server is concerned.
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


# kazoo's wait before it reconnects starts at 0.1 s, to spare real servers; here a reconnect should cost a test nothing.
EAGER_RETRY = {"max_tries": -1, "delay": 0.001, "max_delay": 0.05}


class Facade(ABC):
    """A server for the tests of one process.

    Args:
        driver: where all connections end.
        clock: the driver's.
        version: the ZooKeeper release whose behaviour it has.
    """

    def __init__(self, driver: WireDriver, clock: Clock, version: str) -> None:
        self.version = version
        self._driver = driver
        self._clock = clock
        self._clients: list[KazooClient] = []

    @property
    def server(self) -> Server:
        """The state machine: its tree, sessions and watches. Hold `lock` while clients run."""
        return self._driver.server

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held by whichever thread makes the server work; hold it to look at `server`, or to drive it, in peace."""
        return self._driver.lock

    @property
    def clients(self) -> tuple[KazooClient, ...]:
        """The clients that `client` made, oldest first."""
        return tuple(self._clients)

    @abstractmethod
    def client(self, **options: object) -> KazooClient:
        """kazoo's own client, not yet started; `close` stops it."""

    # What a test does to a client.

    def expire(self, client: KazooClient | int) -> None:
        """End a client's session at once: its ephemerals go, it sees LOST and begins a new session.

        Raises:
            SimzkError: the client is not of this ZooKeeper, or has no session.
        """
        self._driver.expire_session(self._session_id(client))

    def disconnect(self, client: KazooClient | int) -> None:
        """Cut a client's connection: it sees SUSPENDED and comes back with the same session.

        Raises:
            SimzkError: the client is not of this ZooKeeper, or has no session.
        """
        self._driver.disconnect_session(self._session_id(client))

    def pause(self, client: KazooClient | int) -> PauseHandle:
        """Neither read nor answer a client until the pause is resumed, so that its session can run out.

        kazoo's own patience runs on wall time: after two thirds of its session timeout it gives the connection up and
        tries again, which is not answered either.

        Raises:
            SimzkError: the client is not of this ZooKeeper, or has no session.
        """
        session_id = self._session_id(client)
        self._driver.pause_session(session_id)
        return PauseHandle(lambda: self._resume(session_id))

    def _session_id(self, client: KazooClient | int) -> int:
        """The session that a verb is about: a client's, or, of a client of another kind, the one of this id.

        Raises:
            SimzkError: the client is not of this server, or has no session.
        """
        if isinstance(client, int):
            session_id = client - (client >> 63 << 64)  # some languages tell it without a sign
            if session_id not in self.server.sessions:
                raise SimzkError(f"there is no session 0x{client:x}", where="client", right="a session that lives")
            return session_id
        if not self._is_mine(client):
            kind = type(self).__name__
            right = f"a client of this {kind}'s client()"
            raise SimzkError("this client talks to another server", where="client", right=right)
        session_id = self._last_session_id(client)
        if session_id not in self.server.sessions:
            raise SimzkError("this client has no session now", where="client", right="a client that was started")
        return session_id

    @abstractmethod
    def _is_mine(self, client: KazooClient) -> bool:
        """Whether a client reaches this server."""

    @abstractmethod
    def _last_session_id(self, client: KazooClient) -> int:
        """The session that a client has or had last; 0 before the first."""

    def _resume(self, session_id: int) -> None:
        self._driver.resume_session(session_id)

    # What a test does to the server and to time.

    def advance(self, seconds: float) -> None:
        """Let virtual time go by: sessions that are disconnected or paused run out, those connected do not.

        Raises:
            SimzkError: a negative duration, or a time that is not this object's to move.
        """
        if seconds < 0:
            raise SimzkError(f"time cannot go back by {-seconds} s", where="seconds", right="0 or more")
        if isinstance(self._clock, WallClock):
            raise SimzkError("wall time goes by itself", right=f'{type(self).__name__}() without clock="wall"')
        if isinstance(self._clock, BorrowedClock):
            raise SimzkError("this server's time is its cluster's", right="cluster.advance(seconds)")
        self._driver.advance(self._clock, round(seconds * 1000))

    def restart(self) -> None:
        """Stop the server and start it again: connections are cut, the tree and the sessions are kept.

        Every session has its full timeout again, as after the start of a real server.

        Raises:
            SimzkError: the server is a cluster's, whose brokers would lose their connections too.
        """
        if isinstance(self._clock, BorrowedClock):
            raise SimzkError("this server is its cluster's", right="disconnect(client) for each client")
        self._driver.restart()

    def fail_next(self, op: str, error: type[Exception], n: int = 1) -> None:
        """Let the next `n` requests of a kind fail before they reach the server; nothing of them is applied.

        Args:
            op: what the request is called (simzk.zookeeper.operations), as kazoo's method: "create", "transaction".
            error: kazoo's exception class. `ConnectionLoss` cuts the connection, `SessionExpiredError` ends the
                session, any other is answered as an error of the request.
            n: how many requests, of all clients together.

        Raises:
            SimzkError: an unknown `op`, an `error` that no server sends, `n` below 1.
        """
        self.faults.fail(op, error=error, times=n)

    @property
    def faults(self) -> ClientFaults:
        """Faults at will, by client, kind of request and path: each verb puts a rule into a table."""
        from simzk.serve.client_faults import ClientFaults  # loaded on first use: most tests need no faults

        return ClientFaults(self._driver, self._session_id)

    # Coming and going.

    def close(self) -> None:
        """Stop the clients that `client` made and refuse what still connects. Closing twice is no harm."""
        self._driver.end_faults()
        for client in self._clients:
            self._resume(self._last_session_id(client))
            client.stop()
            client.close()
        self._clients.clear()
        self._driver.close()

    def __repr__(self) -> str:
        count = len(self._clients)
        return f"<{type(self).__name__} {self.version}, {count} client{'' if count == 1 else 's'}>"

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
