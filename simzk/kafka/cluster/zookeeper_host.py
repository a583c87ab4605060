"""The ZooKeeper server of a simulated cluster: a `zookeeper.Server` at the far end of a network, in virtual time.

Rules of the module:
  - a connection is a `Link`: messages of each direction are numbered, and a gap (a fault lost one) breaks it, as TCP
    breaks a connection that it cannot keep whole; whoever notices first closes its end;
  - the server's clock is virtual time in ms; it ticks when its next deadline comes;
  - requests and replies pass a fault point, where the rules of `rules` take hold; a client is called by its name on the
    network, or by its session's id;
  - output of connections that others made on the same server (kazoo clients that join in) goes to `on_foreign_output`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from simzk.kafka.cluster.cost_model import ServiceQueue
from simzk.kafka.cluster.zookeeper_access import AT_THE_ROOT, Access
from simzk.simulation.faults.point import FaultPoint
from simzk.simulation.faults.rules import FaultRules
from simzk.zookeeper.batches import Batch
from simzk.zookeeper.fault_replies import FaultReplies
from simzk.zookeeper.operations import VOCABULARY, operation_and_paths
from simzk.zookeeper.replies import Closed, Outgoing
from simzk.zookeeper.requests import ConnectRequest, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.simulation import Network, Scheduler, Timer
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server

ADDRESS = "zookeeper"
"""The name of the server on the network."""
FAULTS = "faults"
"""The component whose events are the ends of delays."""


class Link:
    """One connection between a client and the server, as both ends see it.

    Args:
        client: the client's name on the network.
        receive: called at the client's end with the messages that arrive together; None says that the link broke.
    """

    __slots__ = (
        "client",
        "connection",
        "hung_up",
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
        self.hung_up = False
        self.sent = 0
        self.sent_back = 0
        self.received_by_server = 0
        self.received_by_client = 0


class _Driver(FaultReplies[Link]):
    """What a fault point asks of a simulated server's end (`fault_point.Driver`)."""

    def __init__(self, host: ZooKeeperHost) -> None:
        self._host = host

    def describe(self, link: Link, request: Request) -> tuple[tuple[Hashable, ...], str, tuple[str, ...]]:
        assert link.connection is not None
        return (link.client, link.connection.session_id), *operation_and_paths(request)

    def now_ms(self) -> int:
        return self._host.now_ms

    def wake_at(self, at_ms: int) -> None:
        self._host.wake_faults(at_ms)

    def pass_on(self, link: Link, xid: int, request: Request) -> None:
        assert link.connection is not None
        self._host.server.handle(link.connection, xid, request, self.now_ms())

    def is_open(self, link: Link) -> bool:
        return link.connection is not None and not link.connection.closed

    def cut(self, link: Link) -> None:
        self._host.pump()
        self._host.cut(link)

    def expire(self, link: Link) -> None:
        assert link.connection is not None
        self._host.server.expire(link.connection.session_id, self.now_ms())
        self._host.pump()

    def move(self, link: Link, server: int) -> None:
        raise AssertionError("a simulated cluster has one ZooKeeper server")

    def pause(self, link: Link) -> None:
        self._host.pump()
        self._host.network.hold(link.client, ADDRESS)
        self._host.network.hold(ADDRESS, link.client)

    def resume(self, link: Link) -> None:
        self._host.network.release(link.client, ADDRESS)
        self._host.network.release(ADDRESS, link.client)
        self._host.faults.resumed(link)

    def went_on(self, link: Link) -> None:
        self._host.pump()
        if link.hung_up and not self._host.faults.keeps(link):
            self._host.hang_up(link)


class ZooKeeperHost:
    """Carries requests to a server and its output back, and makes its time pass.

    Args:
        scheduler: virtual time.
        network: between the server and its clients.
        server: the state machine.
        start_ms: what the server's clock shows when virtual time is 0.
        access: how the cluster's clients come to it.
        cost_model: how long the server takes for requests; None where they cost nothing.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        server: Server,
        *,
        start_ms: int,
        access: Access = AT_THE_ROOT,
        cost_model: CostModel | None = None,
    ) -> None:
        self.access = access
        self.scheduler = scheduler
        self.network = network
        self.server = server
        self.start_ms = start_ms
        self.rules = FaultRules(VOCABULARY)
        self.faults: FaultPoint[Link, Request] = FaultPoint(self.rules, _Driver(self))
        self.on_foreign_output: Callable[[Connection, list[Outgoing]], None] | None = None
        self._links: dict[Connection, Link] = {}
        self._cost_model = cost_model
        self._work = ServiceQueue(scheduler, ADDRESS)
        self._tick: Timer | None = None

    @property
    def now_ms(self) -> int:
        """The server's clock."""
        return self.start_ms + self.scheduler.now_us // 1000

    def when_us(self, at_ms: int) -> int:
        """The virtual time at which the server's clock shows `at_ms`, now where that is past."""
        return max((at_ms - self.start_ms) * 1000, self.scheduler.now_us)

    @property
    def takes_batches(self) -> bool:
        """Whether many requests may come as one now: no fault plan and no cost looks at each, and no path is below a
        chroot. One that is under way when a rule of faults is made was sent before it."""
        return not self.faults.active and self._cost_model is None and not self.access.chroot

    def client_of(self, session_id: int) -> str | None:
        """The name on the network of the client that is connected with a session; None where nobody is."""
        connection = self.server.connection_of(session_id)
        link = None if connection is None else self._links.get(connection)
        return None if link is None else link.client

    def send(self, link: Link, xid: int, request: ConnectRequest | Request | Batch) -> None:
        """Send a request from the client's end; it arrives later, or never."""
        if not link.open:
            return
        link.sent += 1
        number = link.sent
        self.network.send(link.client, ADDRESS, partial(self._arrive, link, number, xid, request))

    def break_link(self, link: Link) -> None:
        """Close from the client's end: what was under way to it is lost, the server learns of it."""
        if link.open:
            link.open = False
            self.network.send(link.client, ADDRESS, partial(self._take_hang_up, link))

    def _take_hang_up(self, link: Link) -> None:
        if self._cost_model is None:
            self.hang_up(link)
        else:
            self._work.put(0, partial(self.hang_up, link))

    def pump(self) -> None:
        """Send what the server has to say, and see to its next tick."""
        for connection, outgoing in self.server.take_output():
            link = self._links.get(connection)
            if link is not None:
                self._send_back(link, outgoing)
            elif self.on_foreign_output is not None:
                self.on_foreign_output(connection, outgoing)
        self._arm_tick()

    def _arrive(self, link: Link, number: int, xid: int, request: ConnectRequest | Request | Batch) -> None:
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
            self.cut(link)
            return
        link.received_by_server = number
        assert not isinstance(request, ConnectRequest)
        if self._cost_model is None:
            self._handle(link, xid, request)
        else:
            assert not isinstance(request, Batch), "where requests cost, each comes alone"
            self._work.put(self._cost_model.of_request(request), partial(self._handle, link, xid, request))

    def _handle(self, link: Link, xid: int, request: Request | Batch) -> None:
        if link.connection not in self._links:  # closed while it waited
            return
        assert link.connection is not None
        if self.faults.active and not isinstance(request, Batch):
            self.faults.admit(link, xid, request)
        else:
            self.server.handle(link.connection, xid, request, self.now_ms)
        self.pump()

    def _send_back(self, link: Link, outgoing: list[Outgoing]) -> None:
        if self.faults.active and self.faults.alter(link, outgoing):
            if outgoing:
                self._send_back(link, outgoing)
            self.cut(link)
            return
        link.sent_back += 1
        self.network.send(ADDRESS, link.client, partial(self._arrive_back, link, link.sent_back, outgoing))
        if Closed in map(type, outgoing):
            assert link.connection is not None
            self._forget(link.connection)

    def _arrive_back(self, link: Link, number: int, outgoing: list[Outgoing]) -> None:
        if not link.open:
            return
        if number != link.received_by_client + 1:
            self.break_link(link)
            link.receive(None)
            return
        link.received_by_client = number
        link.receive(outgoing)

    def cut(self, link: Link) -> None:
        """Close from the server's end; the client learns of it."""
        self._disconnect(link)
        self._reset(link)

    def _forget(self, connection: Connection) -> bool:
        """A connection is gone; whether it was there."""
        link = self._links.pop(connection, None)
        if link is not None:
            self.faults.forget(link)
        return link is not None

    def _reset(self, link: Link) -> None:
        def arrive() -> None:
            if link.open:
                link.open = False
                link.receive(None)

        self.network.send(ADDRESS, link.client, arrive)

    def hang_up(self, link: Link) -> None:
        """The client has closed its end; what came before that has its turn first."""
        if self.faults.keeps(link):
            link.hung_up = True
        else:
            self._disconnect(link)

    def _disconnect(self, link: Link) -> None:
        if link.connection is not None and self._forget(link.connection):
            self.server.disconnect(link.connection)
            self.pump()

    def _arm_tick(self) -> None:
        deadline_ms = self.server.next_deadline_ms()
        if deadline_ms is None:
            return
        at_us, tick = self.when_us(deadline_ms), self._tick
        if tick is not None and tick.callback is not None:
            if tick.at_us <= at_us:
                return
            tick.cancel()
        self._tick = self.scheduler.call_at(at_us, ADDRESS, self._run_tick)

    def wake_faults(self, at_ms: int) -> None:
        """See to it that what is late goes on when the server's clock shows `at_ms`."""
        self.scheduler.call_at(self.when_us(at_ms), FAULTS, self._tick_faults)

    def _tick_faults(self) -> None:
        self.rules.tick(self.now_ms)
        self.pump()

    def _run_tick(self) -> None:
        self.server.tick(self.now_ms)
        self.pump()
