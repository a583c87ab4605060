"""Test verbs for clients, requests, servers and time, the same in memory and over TCP.

Rules of this module:
  - a `TestServer` owns a driver, its clock, and the clients that it made; a subclass connects clients to the driver,
    and finds the session of a client;
  - an operation is named like the method of kazoo's client, an error like kazoo's exception class or the protocol's
    code, a server of an ensemble by its number, from 1;
  - the effect of a verb on the servers is complete when the verb returns; a client may notice it a moment later. An
    election takes no time on virtual time, unless an outage is given.
"""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Protocol, Self, TypeVar
from weakref import WeakSet

from simzk.errors import ConfigError, SimzkError
from simzk.lifecycle import note_closing
from simzk.serve.clock import BorrowedClock, Clock, WallClock
from simzk.serve.request_recorder import RequestRecorder, public_form
from simzk.simulation.request_faults import PauseHandle, check_requests
from simzk.zookeeper.operations import VOCABULARY
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.transactions import DeleteTxn, SetACLTxn, SetDataTxn, Transaction
from simzk.zookeeper.tree import DataTree

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kazoo.client import KazooClient
    from kazoo.handlers.threading import SequentialThreadingHandler

    from simzk.serve.client_activity import Look, ObservedHandler, Watched
    from simzk.serve.request_recorder import RecordedRequest
    from simzk.serve.wire_driver import WireDriver
    from simzk.simulation.fault_verbs import FaultVerbs
    from simzk.simulation.request_faults import FaultRule
    from simzk.zookeeper.ensemble import Ensemble
    from simzk.zookeeper.server import Server

_Handler = TypeVar("_Handler", bound="ObservedHandler")

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
        recorder: recorder of the latest requests, watch events and session changes.
    """

    __test__ = False  # pytest: this is no test class

    def __init__(self, driver: WireDriver, clock: Clock, version: str) -> None:
        self.version = version
        self._driver = driver
        self._clock = clock
        self._clients: list[KazooClient] = []
        self._handlers: WeakSet[ObservedHandler] = WeakSet()
        self._handlers_lock = threading.Lock()  # clients may be made while another thread waits
        self._numbers = count(1)
        self._sessions_of: dict[KazooClient, set[int]] = {}
        self.recorder: RequestRecorder = RequestRecorder()
        driver.record(self.recorder)

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

    @property
    def accepts_sasl(self) -> bool:
        """Whether clients can log in by SASL."""
        return self.server.config.sasl_users is not None

    def _check_login(self, options: Mapping[str, object]) -> None:
        """Raise ConfigError for a login by SASL to a server without it: its empty tokens let kazoo retry for ever."""
        if options.get("sasl_options") and not self.accepts_sasl:
            right = f'simzk.{type(self).__name__}(sasl_users={{"user": "password"}})'
            raise ConfigError("this server accepts no login by SASL", where="sasl_options", right=right)

    @abstractmethod
    def client(self, **options: object) -> KazooClient:
        """Return an unmodified kazoo client, not yet started; `close` stops it."""

    @abstractmethod
    def handler(self) -> SequentialThreadingHandler:
        """Return a handler for one kazoo client that other code creates; `settle` waits for it."""

    @abstractmethod
    def redirect(self, hosts: str | list[str], handler: object = None) -> dict[str, object]:
        """Return the options that lead a kazoo client of other code to this server, whatever its hosts are.

        Args:
            hosts: those of the client; only the chroot is used.
            handler: the client's own handler; None for none. One with kazoo's threads becomes an observed one.

        Raises:
            ConfigError: a client with this handler cannot connect to this server.
        """

    # Waiting

    def settle(self, timeout_s: float = 10.0, *, timeout: float | None = None) -> None:
        """Wait until every event was sent and every callback of every client has returned, then raise their errors.

        What a watcher does counts too: the request of a `DataWatch` that reads again, its reply, and the next event.
        For each client of `client()` or with a handler of `handler()`, settled means of kazoo's threads:

        - the connection thread has sent all requests, the server has processed them, and the thread has read all
          replies and events. After `disconnect` or `expire` the client is connected again;
        - the thread of watchers and the thread of completion callbacks have called everything in their queues;
        - threads of recipes have ended (`DataWatch` after a reconnect) or have nothing to do (`TreeCache`).

        A request that a pause, a fault rule or a lagging follower keeps back is not waited for, nor is virtual time; a
        callback that waits for its reply is. `PatientChildrenWatch` and `SetPartitioner` sleep on wall time in a thread
        of their own, which is waited for. Threads of the test are not: a thread in `Lock.acquire` may run a moment
        later.

        Two other kinds of clients can connect to a TCP port:

        - clients of this process that were made by `KazooClient(hosts=server.hosts)`, with kazoo's handler of threads:
          their connection threads and callbacks are waited for as above. The errors of their callbacks are only logged
          by kazoo, and of threads of recipes `settle` sees only the requests;
        - clients of other processes, of other languages, and with handlers of gevent or eventlet: the server has read
          and processed every byte that has arrived, and has sent all replies and events. Whether the client has read
          them, which callbacks run, and what it is about to send is not known: wait for their effect with
          `simzk.testing.wait_until`.

        Args:
            timeout_s: longest time to wait, in seconds of wall time.
            timeout: the same, by the name that kazoo's methods have for it.

        Raises:
            TimeoutError: a client or a callback is still busy; says which one, and where it waits.
            SimzkError: it is called in a callback, or a client has a handler that was passed to `client()`, such as
                gevent's or eventlet's, which are not observed.
            Exception: a callback raised it; several in one `ExceptionGroup`.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client, seen = zookeeper.client(), []
        ...     client.start()
        ...     path = client.create("/config", b"1")
        ...     watch = client.DataWatch(path, lambda data, stat: seen.append(data))
        ...     stat = client.set(path, b"2")
        ...     zookeeper.settle()
        ...     seen
        [b'1', b'2']
        """
        from simzk.serve.client_activity import ObservedHandler, wait_until_idle

        for client in self._clients:
            if not isinstance(client.handler, ObservedHandler):
                kind = type(client.handler).__name__
                raise SimzkError(f"a client uses {kind}, which is not observed", right="client() without a handler")
        wait_until_idle(self._watched_clients, self._look, timeout_s if timeout is None else timeout)

    @abstractmethod
    def _look(self) -> Look:
        """Return what the server has yet to process or to send, at one instant."""

    def _observe(self, handler: _Handler) -> _Handler:
        """Add the handler of a client that `settle` waits for."""
        with self._handlers_lock:
            self._handlers.add(handler)
        return handler

    def _watched_clients(self) -> Sequence[Watched]:
        """Return the clients that `settle` waits for."""
        with self._handlers_lock:
            return list(self._handlers)

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
        session_id = self._session_id(client)
        self._note("disconnected", session_id)
        self._driver.disconnect_session(session_id)

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
        self._note("paused", session_id)
        self._driver.pause_session(session_id)

        def resume() -> None:
            self._note("resumed", session_id)
            self._driver.resume_session(session_id)

        return PauseHandle(resume)

    def _note(self, what: str, session_id: int = 0) -> None:
        """Record a verb among the requests, for reports."""
        self.recorder.note_verb(self.now_ms, what, session_id)

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
        if not hasattr(client, "handler"):
            right = "a kazoo client of this server, or the id of a session"
            raise SimzkError(f"{client!r} is no client", where="client", right=right)
        self._check_mine(client)
        self.session_owners()  # noted now, because the session may expire
        session_id = self._last_session_id(client)
        self._sessions_of.setdefault(client, set()).add(session_id)
        if session_id not in self.server.sessions:
            raise SimzkError("this client has no session", where="client", right="a client that was started")
        return session_id

    def _check_mine(self, client: KazooClient) -> None:
        if not self._is_mine(client):
            right = f"a client of this {type(self).__name__}'s client()"
            raise SimzkError("this client belongs to another server", where="client", right=right)

    @abstractmethod
    def _is_mine(self, client: KazooClient) -> bool:
        """Return whether a client connects to this server."""

    @abstractmethod
    def _last_session_id(self, client: KazooClient) -> int:
        """Return the id of a client's present or last session; 0 before the first."""

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
        self._note(f"advances {seconds:g} s")
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
        self._note("restarts the server")
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
    def faults(self) -> FaultVerbs[KazooClient | int]:
        """Fault verbs, by client (or id of its session), kind of request and path; each adds a rule, which it returns.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client = zookeeper.client()
        ...     client.start()
        ...     rule = zookeeper.faults.drop_reply("create", path="/a")
        ...     client.retry(client.create, "/a")
        Traceback (most recent call last):
          ...
        kazoo.exceptions.NodeExistsError
        >>> rule.fired
        1
        """
        from simzk.simulation.fault_verbs import FaultVerbs  # imported late: most tests need no faults

        def note(rule: FaultRule) -> None:
            which = "requests" if rule.operation is None else rule.operation
            where = "" if rule.path is None else f" {'below ' * rule.below}{rule.path}"
            self._note(f"fault {rule.action}: {which}{where}", rule.session if isinstance(rule.session, int) else 0)

        return FaultVerbs(self._driver.rules, self._session_id, self._driver.servers, note)

    # Recorded requests

    def requests(
        self, *, client: KazooClient | int | None = None, path: str | None = None, op: str | None = None
    ) -> list[RecordedRequest]:
        """Return the requests that clients sent, oldest first, with their results.

        The latest 10,000 requests, watch events and session changes are stored; fewer if those of them with more than
        1 kB of data have more than 16 MiB together. Older ones are forgotten.

        Args:
            client: the client, in all its sessions that a verb or this method has met, or the id of a session; None
                for any.
            path: the path, from the server's root without a client's chroot; a transaction has those of its
                operations; None for any.
            op: the operation, named like kazoo's method: "create", "transaction" (simzk.zookeeper.operations); None for
                any that a client is asked to do, which leaves out pings and the begin and end of sessions.

        Raises:
            SimzkError: the client belongs to another server, or `op` or `path` is invalid.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client = zookeeper.client()
        ...     client.start()
        ...     _ = client.create("/app", b"1")
        ...     _ = client.set("/app", b"2")
        ...     [(sent.op, sent.path) for sent in zookeeper.requests(client=client)]
        ...     zookeeper.requests(op="create", path="/app")[0].error is None
        [('create', '/app'), ('set', '/app')]
        True
        """
        check_requests(VOCABULARY, op, path)
        with self.lock:
            owners = self.session_owners()
            if client is None or isinstance(client, int):
                sessions = None if client is None else {client - (client >> 63 << 64)}
            else:
                self._check_mine(client)
                sessions = {*self._sessions_of.get(client, ()), self._last_session_id(client)}
            return [
                found
                for exchange in self.recorder.exchanges()
                if sessions is None or exchange.session_id in sessions
                for found in (public_form(exchange, owners.get(exchange.session_id)),)
                if (found.op == op or (op is None and found.op not in VOCABULARY.implicit_operations))
                and (path is None or path in found.paths)
            ]

    @property
    def known_clients(self) -> tuple[KazooClient, ...]:
        """Clients whose sessions `session_owners` returns, closed ones included."""
        return tuple(self._sessions_of)

    def is_connected(self, session_id: int) -> bool:
        """Return whether a client is connected with a session."""
        return self._driver.is_connected(session_id)

    @property
    def is_on_wall_time(self) -> bool:
        """Whether the server's time is wall time."""
        return isinstance(self._clock, WallClock)

    @property
    def now_ms(self) -> int:
        """The server's time in ms: since its start, in a cluster or on wall time since 1970."""
        return self._clock.now_ms()

    def session_owners(self) -> dict[int, KazooClient]:
        """Return the client of each session that a client of `client()` has or had, as far as verbs have met it."""
        for client in self._clients:
            self._sessions_of.setdefault(client, set()).add(self._last_session_id(client))
        return {session: client for client, sessions in self._sessions_of.items() for session in sessions if session}

    # Reset and close

    def reset(self, *, keep: Collection[KazooClient] = ()) -> None:
        """Return to the state of a new server: no client, session, znode, fault rule or recorded request is left.

        Time and zxids go on, and so do the watches of the clients to keep.

        Args:
            keep: clients of this server that go on, with their sessions.

        Raises:
            SimzkError: the server belongs to a cluster, whose znodes it has.

        >>> import simzk
        >>> with simzk.ZooKeeper() as zookeeper:
        ...     client = zookeeper.client()
        ...     client.start()
        ...     path = client.create("/a/b", makepath=True)
        ...     zookeeper.reset()
        ...     len(zookeeper.clients), zookeeper.server.tree.get("/a") is None
        (0, True)
        """
        if isinstance(self._clock, BorrowedClock):
            raise SimzkError("this server belongs to a cluster", right="a new cluster")
        blocked = self._stop_clients(keep)
        with self.lock:
            server, now_ms = self.server, self._clock.now_ms()
            kept = {self._last_session_id(client) for client in keep}
            for session_id in server.sessions.ids():
                if session_id not in kept:
                    self._driver.expire_session(session_id)
            root = server.tree.get("/")
            assert root is not None, "every tree has a root"
            records: list[DeleteTxn | SetDataTxn | SetACLTxn] = [DeleteTxn(path) for path in _created_paths(server)]
            if root.data:
                records.append(SetDataTxn("/", b"", root.version + 1))
            if root.acl != OPEN_ACL:
                records.append(SetACLTxn("/", OPEN_ACL, root.aversion + 1))
            for record in records:
                server.apply(Transaction(0, 0, server.next_zxid, now_ms, record))
            self._driver.send_output()
            assert not {*server.sessions.ids()} - kept, "a session of a stopped client is left"
            self.recorder.clear()
            self._sessions_of = {client: sessions for client, sessions in self._sessions_of.items() if client in keep}
        self._warn_of_blocked(blocked)

    def _stop_clients(self, keep: Collection[KazooClient] = ()) -> list[str]:
        """End all faults, and stop the clients that `client` made; return a sentence about each that does not end."""
        self._driver.end_faults()
        self.session_owners()  # names of clients for a report about a failed test
        ending = [one for one in self._clients if one not in keep]
        if not ending:
            return []
        from simzk.serve.client_stop import stop_clients  # imported late: a server may have no kazoo clients

        for client in ending:
            self._driver.resume_session(self._last_session_id(client))
            self._clients.remove(client)
        return stop_clients(ending)

    def close(self) -> None:
        """Stop the clients that `client` made, and refuse new connections; closing twice is allowed."""
        if not isinstance(self._clock, BorrowedClock):  # a cluster is noted as a whole
            note_closing(self)
        watched = self._watched_clients()
        blocked = self._close()
        self._warn_of_failures(watched)
        self._warn_of_blocked(blocked)

    def _warn_of_failures(self, clients: Sequence[Watched]) -> None:
        """Warn of errors of callbacks that nobody has seen, because `settle` was not called after them."""
        for client in clients:
            for error, callback in client.take_failures():
                said = f"simzk: {callback} of client {client.number} raised {error!r}; settle() would have raised it"
                warnings.warn(said, RuntimeWarning, stacklevel=3)

    def _close(self) -> list[str]:
        blocked = self._stop_clients()
        self._driver.close()
        return blocked

    def _warn_of_blocked(self, blocked: list[str]) -> None:
        """Warn of clients that did not end, after all else is closed."""
        if blocked:
            from simzk.serve.client_stop import warn_of_blocked

            warn_of_blocked(blocked)

    def __repr__(self) -> str:
        count = len(self._clients)
        return f"<{type(self).__name__} {self._address_text}, {count} client{'' if count == 1 else 's'}>"

    @property
    def _address_text(self) -> str:
        """Version and address for `repr`."""
        return self.version

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _created_paths(server: Server) -> list[str]:
    """Return the paths of all znodes that a new server does not have, children first."""
    new = {path for path, _ in DataTree(server.config.rules).walk()}
    return sorted((path for path, _ in server.tree.walk() if path not in new), key=lambda path: -path.count("/"))


class RunningEnsemble(Protocol):
    """Servers of an ensemble on an event loop, as far as the verbs use them."""

    @property
    def ensemble(self) -> Ensemble:
        """The state machines."""

    @property
    def driver(self) -> WireDriver:
        """The way to all of them."""

    @property
    def names(self) -> Mapping[int, str]:
        """The address of each server, as clients write it."""

    @property
    def is_on_loop(self) -> bool:
        """Whether this is the thread of the loop."""

    def stop_server(self, server_id: int, outage_ms: int | None = None) -> None:
        """Stop one server; on the loop."""

    def start_server(self, server_id: int) -> asyncio.Task[None]:
        """Start one server; on the loop. Done when it accepts connections."""


class EnsembleVerbs:
    """Verbs for the servers of a `ZooKeeperServer(servers=...)`, as its attribute `ensemble`.

    Args:
        tcp: the servers.
        clock: their time.
        loop: the event loop of their sockets.

    >>> import simzk
    >>> with simzk.ZooKeeperServer(servers=3) as server:
    ...     server.ensemble
    ...     lost = server.ensemble.lose_leader()
    ...     lost, server.ensemble.modes[lost], server.ensemble.leader == lost
    <EnsembleVerbs: 1 follower, 2 follower, 3 leader>
    (3, '', False)
    """

    def __init__(self, tcp: RunningEnsemble, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._tcp = tcp
        self._clock = clock
        self._loop = loop

    def __repr__(self) -> str:
        modes = (f"{server} {mode or 'not serving'}" for server, mode in self.modes.items())
        return f"<{type(self).__name__}: {', '.join(modes)}>"

    @property
    def leader(self) -> int | None:
        """Number of the leader; None while there is none."""
        leading = self._tcp.ensemble.shared.leading
        return None if leading is None else leading.server_id

    @property
    def modes(self) -> dict[int, str]:
        """Mode of each server: "leader", "follower", "observer", "read-only", or "" if it serves nobody."""
        with self._tcp.driver.lock:
            return {server: member.mode for server, member in self._tcp.ensemble.members.items()}

    @property
    def stopped(self) -> frozenset[int]:
        """Numbers of the servers that are stopped."""
        with self._tcp.driver.lock:
            return self._tcp.ensemble.stopped

    @property
    def cut_off(self) -> frozenset[int]:
        """Numbers of the servers that `cut` partitioned from others."""
        with self._tcp.driver.lock:
            return self._tcp.ensemble.cut_off

    def hosts(self, *servers: int) -> str:
        """Return the addresses of some servers, for `client(hosts=...)`.

        Raises:
            SimzkError: there is no such server.
        """
        unknown = [server for server in servers if server not in self._tcp.names]
        if unknown:
            raise SimzkError(f"there is no server {unknown[0]}", where="server", right=f"1 to {len(self._tcp.names)}")
        return ",".join(self._tcp.names[server] for server in servers)

    def stop(self, server: int, *, outage: float | None = None) -> None:
        """Stop a server: its clients are disconnected; if it led, all clients are, until another server leads.

        Args:
            server: its number.
            outage: seconds without a leader, if it was the leader.

        Raises:
            SimzkError: there is no such server, or it is already stopped.
        """
        self._run(lambda: self._tcp.stop_server(server, None if outage is None else round(outage * 1000)))

    def start(self, server: int) -> None:
        """Start a stopped server, on its data.

        Raises:
            SimzkError: there is no such server, or it runs.
            ConfigError: another process uses its port now.
        """
        self._run(lambda: self._tcp.start_server(server))

    def lose_leader(self, *, outage: float | None = None) -> int:
        """Stop the leader; return its number.

        Raises:
            SimzkError: there is no leader.
        """
        leader = self.leader
        if leader is None:
            raise SimzkError("there is no leader", right="elect() first")
        self.stop(leader, outage=outage)
        return leader

    def elect(self, server: int | None = None) -> None:
        """Elect a leader now; the present one steps down first.

        Args:
            server: the server to elect; None for the election rule of ZooKeeper.

        Raises:
            SimzkError: no majority is connected, or it cannot elect this server.
        """
        with self._changed_at() as now_ms:
            self._tcp.ensemble.elect(now_ms, server)

    def cut(self, *servers: int) -> None:
        """Partition the ensemble: these servers reach only each other; clients reach all as before.

        Raises:
            SimzkError: there is no such server.
        """
        with self._changed_at() as now_ms:
            self._tcp.ensemble.cut(*servers, now_ms=now_ms)

    def heal(self) -> None:
        """End a partition: all servers reach each other again."""
        with self._changed_at() as now_ms:
            self._tcp.ensemble.heal(now_ms)

    def lag(self, server: int, *, seconds: float = 0.0, transactions: int = 0) -> None:
        """Let a follower apply committed transactions later; without arguments it catches up.

        Args:
            server: its number.
            seconds: delay; the writes and syncs of its own clients wait as long.
            transactions: number of transactions that it stays behind; writes and syncs of its own clients are answered
                at once, because it then applies as many as they need.

        Raises:
            SimzkError: there is no such server, or a lag is negative.
        """
        with self._changed_at() as now_ms:
            self._tcp.ensemble.lag(server, now_ms, lag_ms=round(seconds * 1000), transactions=transactions)

    @contextmanager
    def _changed_at(self) -> Iterator[int]:
        """Change the ensemble under its lock at the present time; then send the output of all servers."""
        with self._tcp.driver.lock:
            yield self._clock.now_ms()
            self._tcp.driver.flush()

    def _run(self, work: Callable[[], asyncio.Task[None] | None]) -> None:
        """Do something on the loop, and wait for it unless this is the loop's thread."""
        if self._tcp.is_on_loop:
            work()
            return

        import asyncio  # imported late: a server in memory needs none

        async def on_loop() -> None:
            started = work()
            if started is not None:
                await started

        asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()
