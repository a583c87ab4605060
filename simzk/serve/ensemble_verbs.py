"""What a test can do to the servers of an ensemble: stop and start them, cut them off, let them lag, elect.

Rules of this module:
  - servers are called by their numbers, from 1;
  - what a verb does is done when it returns, as far as the servers are concerned; an election takes no time where
    time stands still, unless an outage is asked for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.clock import Clock
    from simzk.serve.tcp.ensemble import TcpEnsemble


class EnsembleVerbs:
    """The servers of a `ZooKeeperServer(servers=...)`.

    Args:
        tcp: the servers.
        clock: their time.
        loop: where their sockets are.
    """

    def __init__(self, tcp: TcpEnsemble, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._tcp = tcp
        self._clock = clock
        self._loop = loop

    @property
    def leader(self) -> int | None:
        """The server that leads, or None while nobody does."""
        leading = self._tcp.ensemble.leading
        return None if leading is None else leading.server_id

    @property
    def modes(self) -> dict[int, str]:
        """What each server does: "leader", "follower", "read-only", or "" where it serves nobody."""
        with self._tcp.driver.lock:
            return {server: member.mode for server, member in self._tcp.ensemble.members.items()}

    def hosts(self, *servers: int) -> str:
        """Where some of the servers listen, as a client's hosts."""
        unknown = [server for server in servers if server not in self._tcp.names]
        if unknown:
            raise SimzkError(f"there is no server {unknown[0]}", where="server", right=f"1 to {len(self._tcp.names)}")
        return ",".join(self._tcp.names[server] for server in servers)

    def stop(self, server: int, *, outage: float | None = None) -> None:
        """Stop a server: its clients lose it, and if it led, all clients lose their servers until another leads.

        Args:
            server: which one.
            outage: for how many seconds nobody leads if it was the leader.

        Raises:
            SimzkError: there is no such server, or it is stopped already.
        """
        self._run(lambda: self._tcp.stop_server(server, None if outage is None else round(outage * 1000)))

    def start(self, server: int) -> None:
        """Start a stopped server, on the data that it had.

        Raises:
            SimzkError: there is no such server, or it runs.
            ConfigError: somebody else has taken its port meanwhile.
        """
        self._run(lambda: self._tcp.start_server(server))

    def lose_leader(self, *, outage: float | None = None) -> int:
        """Stop the leader; return which server that was.

        Raises:
            SimzkError: nobody leads.
        """
        leader = self.leader
        if leader is None:
            raise SimzkError("nobody leads", right="elect() first")
        self.stop(leader, outage=outage)
        return leader

    def elect(self, server: int | None = None) -> None:
        """Elect a leader now, this one or by the real rule; one that there is steps down first.

        Raises:
            SimzkError: no majority can speak with each other, or this server cannot be elected by it.
        """
        with self._tcp.driver.lock:
            self._tcp.ensemble.elect(self._clock.now_ms(), server)
            self._tcp.driver.flush()

    def cut(self, *servers: int) -> None:
        """Let these servers speak with each other and no others; clients reach them as before.

        Raises:
            SimzkError: there is no such server.
        """
        with self._tcp.driver.lock:
            self._tcp.ensemble.cut(*servers, now_ms=self._clock.now_ms())
            self._tcp.driver.flush()

    def heal(self) -> None:
        """Let all servers speak with each other again."""
        with self._tcp.driver.lock:
            self._tcp.ensemble.heal(self._clock.now_ms())
            self._tcp.driver.flush()

    def lag(self, server: int, *, seconds: float = 0.0, transactions: int = 0) -> None:
        """Let a server apply what is committed later, as long as it follows; without a lag it catches up.

        By `seconds`, its clients' own writes and syncs wait as long. By `transactions`, they are answered at once, as
        it then comes as far as they need.

        Raises:
            SimzkError: there is no such server, or a lag is negative.
        """
        with self._tcp.driver.lock:
            now_ms = self._clock.now_ms()
            self._tcp.ensemble.lag(server, now_ms, lag_ms=round(seconds * 1000), transactions=transactions)
            self._tcp.driver.flush()

    def _run(self, work: Callable[[], asyncio.Task[None] | None]) -> None:
        """Do something where the sockets are: on the loop, which may be this very thread's and cannot be waited for."""
        if self._tcp.is_on_loop:
            work()
            return

        async def on_loop() -> None:
            under_way = work()
            if under_way is not None:
                await under_way

        asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()
