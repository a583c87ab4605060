"""Verbs for the servers of an ensemble: stop and start them, partition them, let them lag, elect a leader.

Rules of this module:
  - servers are named by their numbers, from 1;
  - the effect on the servers is complete when a verb returns; an election takes no time on virtual time, unless an
    outage is given.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.serve.clock import Clock
    from simzk.serve.wire_driver import WireDriver
    from simzk.zookeeper.ensemble import Ensemble


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
        leading = self._tcp.ensemble.leading
        return None if leading is None else leading.server_id

    @property
    def modes(self) -> dict[int, str]:
        """Mode of each server: "leader", "follower", "observer", "read-only", or "" if it serves nobody."""
        with self._tcp.driver.lock:
            return {server: member.mode for server, member in self._tcp.ensemble.members.items()}

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
        with self._tcp.driver.lock:
            self._tcp.ensemble.elect(self._clock.now_ms(), server)
            self._tcp.driver.flush()

    def cut(self, *servers: int) -> None:
        """Partition the ensemble: these servers reach only each other; clients reach all as before.

        Raises:
            SimzkError: there is no such server.
        """
        with self._tcp.driver.lock:
            self._tcp.ensemble.cut(*servers, now_ms=self._clock.now_ms())
            self._tcp.driver.flush()

    def heal(self) -> None:
        """End a partition: all servers reach each other again."""
        with self._tcp.driver.lock:
            self._tcp.ensemble.heal(self._clock.now_ms())
            self._tcp.driver.flush()

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
        with self._tcp.driver.lock:
            now_ms = self._clock.now_ms()
            self._tcp.ensemble.lag(server, now_ms, lag_ms=round(seconds * 1000), transactions=transactions)
            self._tcp.driver.flush()

    def _run(self, work: Callable[[], asyncio.Task[None] | None]) -> None:
        """Do something on the loop, and wait for it unless this is the loop's thread."""
        if self._tcp.is_on_loop:
            work()
            return

        async def on_loop() -> None:
            started = work()
            if started is not None:
                await started

        asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()
