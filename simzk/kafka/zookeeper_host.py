"""The ZooKeeper server of a simulated cluster: a `zookeeper.Server` at the far end of a network, in virtual time.

Rules of the module:
  - a connection is a `Link`: messages of each direction are numbered, and a gap (a fault lost one) breaks it, as TCP
    breaks a connection that it cannot keep whole; whoever notices first closes its end;
  - the server's clock is virtual time in ms; it ticks when its next deadline comes;
  - output of connections that others made on the same server (kazoo clients that join in) goes to `on_foreign_output`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.replies import Closed, Outgoing
from simzk.zookeeper.requests import ConnectRequest, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.simulation import Network, Scheduler, Timer
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server

ADDRESS = "zookeeper"
"""The name of the server on the network."""


class Link:
    """One connection between a client and the server, as both ends see it.

    Args:
        client: the client's name on the network.
        receive: called at the client's end with the messages that arrive together; None says that the link broke.
    """

    __slots__ = (
        "client",
        "connection",
        "open",
        "receive",
        "received_by_client",
        "received_by_server",
        "sent",
        "sent_back",
    )

    def __init__(self, client: str, receive: Callable[[Sequence[Outgoing] | None], None]) -> None:
        self.client = client
        self.receive = receive
        self.connection: Connection | None = None
        self.open = True
        self.sent = 0
        self.sent_back = 0
        self.received_by_server = 0
        self.received_by_client = 0


class ZooKeeperHost:
    """Carries requests to a server and its output back, and makes its time pass.

    Args:
        scheduler: virtual time.
        network: between the server and its clients.
        server: the state machine.
        start_ms: what the server's clock shows when virtual time is 0.
    """

    def __init__(self, scheduler: Scheduler, network: Network, server: Server, *, start_ms: int) -> None:
        self.scheduler = scheduler
        self.network = network
        self.server = server
        self.start_ms = start_ms
        self.on_foreign_output: Callable[[Connection, list[Outgoing]], None] | None = None
        self._links: dict[Connection, Link] = {}
        self._tick: Timer | None = None

    @property
    def now_ms(self) -> int:
        """The server's clock."""
        return self.start_ms + self.scheduler.now_us // 1000

    def send(self, link: Link, xid: int, request: ConnectRequest | Request) -> None:
        """Send a request from the client's end; it arrives later, or never."""
        if not link.open:
            return
        link.sent += 1
        number = link.sent
        self.network.send(link.client, ADDRESS, lambda: self._arrive(link, number, xid, request))

    def break_link(self, link: Link) -> None:
        """Close from the client's end: what was under way to it is lost, the server learns of it."""
        if link.open:
            link.open = False
            self.network.send(link.client, ADDRESS, lambda: self._disconnect(link))

    def pump(self) -> None:
        """Send what the server has to say, and see to its next tick."""
        for connection, outgoing in self.server.take_output():
            link = self._links.get(connection)
            if link is not None:
                self._send_back(link, outgoing)
            elif self.on_foreign_output is not None:
                self.on_foreign_output(connection, outgoing)
        self._arm_tick()

    def _arrive(self, link: Link, number: int, xid: int, request: ConnectRequest | Request) -> None:
        if link.connection is None:
            if isinstance(request, ConnectRequest):
                link.received_by_server = number
                link.connection = self.server.connect(request, self.now_ms, address=link.client)
                self._links[link.connection] = link
                self.pump()
            return  # else: the connect request was lost; the client gives up by itself
        if link.connection not in self._links:
            return
        if number != link.received_by_server + 1:
            self._disconnect(link)
            self._reset(link)
            return
        link.received_by_server = number
        assert not isinstance(request, ConnectRequest)
        self.server.handle(link.connection, xid, request, self.now_ms)
        self.pump()

    def _send_back(self, link: Link, outgoing: list[Outgoing]) -> None:
        link.sent_back += 1
        number = link.sent_back

        def arrive() -> None:
            if not link.open:
                return
            if number != link.received_by_client + 1:
                self.break_link(link)
                link.receive(None)
                return
            link.received_by_client = number
            link.receive(outgoing)

        self.network.send(ADDRESS, link.client, arrive)
        if any(isinstance(message, Closed) for message in outgoing):
            assert link.connection is not None
            self._links.pop(link.connection, None)

    def _reset(self, link: Link) -> None:
        def arrive() -> None:
            if link.open:
                link.open = False
                link.receive(None)

        self.network.send(ADDRESS, link.client, arrive)

    def _disconnect(self, link: Link) -> None:
        if link.connection is not None and self._links.pop(link.connection, None) is not None:
            self.server.disconnect(link.connection)
            self.pump()

    def _arm_tick(self) -> None:
        deadline_ms = self.server.next_deadline_ms()
        if deadline_ms is None:
            return
        at_us = max((deadline_ms - self.start_ms) * 1000, self.scheduler.now_us)
        if self._tick is not None and self._tick.active:
            if self._tick.at_us <= at_us:
                return
            self._tick.cancel()
        self._tick = self.scheduler.call_at(at_us, ADDRESS, self._run_tick)

    def _run_tick(self) -> None:
        self.server.tick(self.now_ms)
        self.pump()
