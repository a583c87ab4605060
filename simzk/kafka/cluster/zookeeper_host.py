"""ZooKeeper of a simulated cluster: a `zookeeper.Server` at the far end of a network, in virtual time, and its faults.

Rules of this module:
  - a connection is a `NetworkLink`: messages of each direction are numbered, and a gap (a fault lost one) breaks it, as
    TCP breaks a connection that it cannot keep whole; whoever notices first closes its end;
  - the server's clock is virtual time in ms; it ticks when its next deadline comes;
  - a fault rule names a client by its name on the network, or by the id of its session;
  - a stopped server resets connections that are opened, and keeps its tree and sessions, whose timeouts begin anew at
    its start; a paused one processes what arrived, and expires sessions that are due, when it is resumed;
  - kazoo clients that join in have links of another driver (simzk/serve) to the same server; their output is delivered
    there, and neither stops with this one nor is paused.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.cluster.cost_model import ServiceQueue
from simzk.kafka.cluster.zookeeper_access import AT_THE_ROOT, ZooKeeperAccess
from simzk.simulation.fault_verbs import FaultVerbs
from simzk.simulation.request_faults import FaultPoint, FaultRules
from simzk.zookeeper.driver import Driver, Link
from simzk.zookeeper.operations import VOCABULARY
from simzk.zookeeper.replies import Closed, Outgoing
from simzk.zookeeper.requests import ConnectRequest, Request
from simzk.zookeeper.server import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from collections.abc import Set as AbstractSet

    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.simulation import History, Network, Scheduler, Timer
    from simzk.simulation.request_faults import FaultRule
    from simzk.zookeeper.server import Server

ADDRESS = "zookeeper"
"""Name of the server on the network."""
FAULTS = "faults"
"""Component of the scheduler for the ends of delays."""


class ServerList:
    """Servers in the order in which one client tries them (StaticHostProvider).

    >>> servers = ServerList(["a", "b"])
    >>> servers.next(), servers.next(), servers.next()
    (('a', False), ('b', False), ('a', True))
    >>> servers.note_connected(), servers.next(), servers.next()
    (None, ('b', False), ('a', True))
    """

    def __init__(self, hosts: Sequence[ZooKeeperHost]) -> None:
        assert hosts, "a client has a server"
        self._hosts = hosts
        self._at = self._last = -1

    def __len__(self) -> int:
        return len(self._hosts)

    def next(self) -> tuple[ZooKeeperHost, bool]:
        """Return the next server, and whether the client pauses first, because it has tried all others."""
        self._at = (self._at + 1) % len(self._hosts)
        pauses = self._at == self._last
        if self._last < 0:
            self._last = 0
        return self._hosts[self._at], pauses

    def note_connected(self) -> None:
        """Note that the client is connected to the present server."""
        assert self._at >= 0, "a client connects to a server that it has tried"
        self._last = self._at


class NetworkLink(Link):
    """One connection between a client and the server, as both ends see it.

    Args:
        driver: the server's.
        client: the client's name on the network.
        receive: called at the client's end with the messages that arrive together; None if the link broke.

    Attributes:
        open: whether the client's end is open.
    """

    __slots__ = ("_client_knows_end", "_received", "_transmitted", "open", "receive", "received_by_server", "sent")
    driver: ZooKeeperHost

    def __init__(
        self, driver: ZooKeeperHost, client: str, receive: Callable[[Sequence[Outgoing] | None], None]
    ) -> None:
        super().__init__(driver, client)
        self.receive: Callable[[Sequence[Outgoing] | None], None] = receive
        self.open: bool = True
        self.sent: int = 0
        self.received_by_server: int = 0
        self._transmitted = 0
        self._received = 0
        self._client_knows_end = False

    @property
    def session_names(self) -> tuple[Hashable, ...]:
        """The client's name on the network, and its session's id."""
        return self.address, self.session_id

    def transmit(self, outgoing: list[Outgoing]) -> None:
        """Send messages to the client over the network."""
        assert outgoing, "a message has contents"
        self._transmitted += 1
        self.driver.send_to_client(self, partial(self._arrive, self._transmitted, outgoing))
        self._client_knows_end = outgoing[-1].__class__ is Closed

    def end(self) -> None:
        """Reset the connection at the client's end, unless that closed it or learns of it by `Closed`."""
        if not (self.hung_up or self._client_knows_end):
            self.driver.send_to_client(self, self._reset)

    def _arrive(self, number: int, outgoing: list[Outgoing]) -> None:
        if not self.open or self.address in self.driver.unreachable:
            return
        if number != self._received + 1:
            self.driver.break_link(self)
            self.receive(None)
            return
        assert number <= self._transmitted, "a message arrives after it was sent"
        self._received = number
        self.receive(outgoing)

    def _reset(self) -> None:
        if self.open and self.address not in self.driver.unreachable:
            self.open = False
            self.receive(None)


class ZooKeeperHost(Driver):
    """Driver of a server in virtual time, over a simulated network.

    Args:
        network: between the server and its clients.
        start_ms: the server's clock when virtual time is 0.
        access: how the cluster's clients connect: chroot and login.
        cost_model: how long the server takes for requests; None if they cost nothing.
        rules: the fault rules, if several servers share them.

    Attributes:
        is_stopped: whether the server is stopped.
        is_frozen: whether the server is paused.
        unreachable: names of the clients whose messages to and from this server are lost.
        client_address: hosts and ports in the brokers' `zookeeper.connect`, as their clients see it.
        on_request: called with the connection, the xid and each request that arrives, if not None; a cluster that
            sends batches does not call it.
    """

    rules: FaultRules
    unreachable: AbstractSet[str] = frozenset()
    client_address: str = "localhost:2181"
    on_request: Callable[[NetworkLink, int, Request], None] | None = None

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        server: Server,
        *,
        start_ms: int,
        access: ZooKeeperAccess = AT_THE_ROOT,
        cost_model: CostModel | None = None,
        rules: FaultRules | None = None,
    ) -> None:
        rules = FaultRules(VOCABULARY) if rules is None else rules
        super().__init__(
            server,
            now_ms=lambda: start_ms + scheduler.now_us // 1000,
            rules=rules,
            new_filter=partial(FaultPoint, rules),
        )
        self.access = access
        self.scheduler = scheduler
        self.network = network
        self.start_ms = start_ms
        self._cost_model = cost_model
        self._work = ServiceQueue(scheduler, ADDRESS)
        self._tick: Timer | None = None
        self.is_stopped: bool = False
        self.is_frozen: bool = False
        self._unread: deque[Callable[[], None]] = deque()  # what arrived during a pause

    def when_us(self, at_ms: int) -> int:
        """Return the virtual time at which the server's clock shows `at_ms`, now if that is past."""
        return max((at_ms - self.start_ms) * 1000, self.scheduler.now_us)

    @property
    def takes_batches(self) -> bool:
        """Whether the server accepts batches now: a fault rule, a cost model and a chroot apply to single requests.

        A fault rule does not apply to a batch that is in flight when the rule is added.
        """
        return not self.faults.active and self._cost_model is None and not self.access.chroot

    def client_of(self, session_id: int) -> str | None:
        """Return the name on the network of the client that is connected with a session; None if nobody is."""
        connection = self.server.connection_of(session_id)
        link = None if connection is None else connection.owner
        return link.address if isinstance(link, NetworkLink) else None

    def server_list(self, _client: str) -> ServerList:
        """Return the servers in the order in which a client tries them."""
        return ServerList([self])

    # The client's end

    def send(self, link: NetworkLink, xid: int, request: ConnectRequest | Request | Batch) -> None:
        """Send a request from the client's end; it arrives later, or never."""
        assert link.driver is self, "a link leads to one server"
        if not link.open:
            return
        link.sent += 1
        self._send_to_server(link, partial(self._arrive, link, link.sent, xid, request))

    def break_link(self, link: NetworkLink) -> None:
        """Close the client's end: messages in flight to it are lost, and the server is notified."""
        assert link.driver is self, "a link leads to one server"
        if link.open:
            link.open = False
            self._send_to_server(link, partial(self._receive_hang_up, link))

    def _send_to_server(self, link: NetworkLink, deliver: Callable[[], None]) -> None:
        if link.address not in self.unreachable:
            self.network.send(link.address, ADDRESS, deliver)

    # The server's end

    def send_to_client(self, link: NetworkLink, deliver: Callable[[], None]) -> None:
        """Send a message from the server's end; it arrives later, or never."""
        if link.address not in self.unreachable:
            self.network.send(ADDRESS, link.address, deliver)

    def _receive_hang_up(self, link: NetworkLink) -> None:
        assert not link.open, "a client closes its end first"
        if link.address in self.unreachable:
            return
        if self.is_frozen:
            self._unread.append(partial(self._receive_hang_up, link))
        elif self._cost_model is None:
            self.hang_up(link)
        else:
            self._work.put(0, partial(self.hang_up, link))

    def _arrive(self, link: NetworkLink, number: int, xid: int, request: ConnectRequest | Request | Batch) -> None:
        assert number <= link.sent, "a message arrives after it was sent"
        if link.closed or link.address in self.unreachable:
            return
        if self.is_frozen:
            self._unread.append(partial(self._arrive, link, number, xid, request))
            return
        if link.connection is None:
            if self.is_stopped:
                self.drop(link)
            elif isinstance(request, ConnectRequest):
                link.received_by_server = number
                self.connect(link, request)
                self.send_output()
            return  # else: the connect request was lost; the client gives up by itself
        if number != link.received_by_server + 1:
            self.cut(link)
            return
        link.received_by_server = number
        assert not isinstance(request, ConnectRequest), "a connection has one session"
        assert not self.is_stopped, "a stopped server has no connections"
        if self._cost_model is None:
            self._process(link, xid, request)
        else:
            assert not isinstance(request, Batch), "where requests cost, each comes alone"
            self._work.put(self._cost_model.of_request(request), partial(self._process, link, xid, request))

    def _process(self, link: NetworkLink, xid: int, request: Request | Batch) -> None:
        if link.closed:  # while the request waited
            return
        if self.on_request is not None and not isinstance(request, Batch):
            self.on_request(link, xid, request)
        if self.faults.active and not isinstance(request, Batch):
            self.faults.admit(link, xid, request)
        else:
            self.pass_on(link, xid, request)
        self.send_output()

    def deliver_output(self) -> None:
        """Send the server's output, and schedule its next tick."""
        super().deliver_output()
        deadline_ms = None if self.is_stopped or self.is_frozen else self.server.next_deadline_ms()
        if deadline_ms is None:
            return
        at_us, tick = self.when_us(deadline_ms), self._tick
        if tick is not None and tick.callback is not None:
            if tick.at_us <= at_us:
                return
            tick.cancel()
        self._tick = self.scheduler.call_at(at_us, ADDRESS, self._run_tick)

    def _run_tick(self) -> None:
        if not (self.is_stopped or self.is_frozen):
            self.server.tick(self.now_ms())
            self.send_output()

    # Stop and pause

    def stop(self) -> None:
        """Stop the server: connections break, and no other is accepted until `start`."""
        assert not self.is_stopped, "the server is stopped already"
        self.halt()
        self.send_output()

    def halt(self) -> None:
        """Close all connections and reset those that are opened; what arrived during a pause is lost."""
        self.is_stopped = True
        self.is_frozen = False
        self._unread.clear()
        for link in list(self._links):
            self.drop(link)

    def read_on(self) -> None:
        """Process what arrived during a pause."""
        self.is_frozen = False
        while self._unread and not self.is_frozen:
            self._unread.popleft()()

    def start(self) -> None:
        """Start a stopped server, or resume a paused one."""
        assert not (self.is_stopped and self.is_frozen), "a stopped server is not paused"
        if self.is_stopped:
            self.is_stopped = False
            self.server.restart(self.now_ms())
            self.send_output()
        elif self.is_frozen:
            self.is_frozen = False
            self.server.tick(self.now_ms())
            self.send_output()
            self.read_on()

    def freeze(self) -> None:
        """Pause the server until `start`: it reads nothing, sends nothing and expires no session."""
        assert not self.is_stopped, "a stopped server cannot be paused"
        self.is_frozen = True

    # Faults

    def wake_at(self, at_ms: int) -> None:
        """Pass on delayed requests when the server's clock shows `at_ms`."""
        assert at_ms >= self.start_ms, "a delay ends after virtual time began"
        self.scheduler.call_at(self.when_us(at_ms), FAULTS, self._tick_faults)

    def _tick_faults(self) -> None:
        if not (self.is_stopped or self.is_frozen):
            self.rules.tick(self.now_ms())
            self.send_output()

    def move(self, link: Link, server: int) -> None:
        """Raise an error: a simulated cluster has one ZooKeeper server."""
        raise AssertionError("a simulated cluster has one ZooKeeper server")

    def pause(self, link: Link) -> None:
        """Hold back the messages between the server and a client."""
        self.send_output()
        self.network.hold(link.address, ADDRESS)
        self.network.hold(ADDRESS, link.address)

    def resume(self, link: Link) -> None:
        """End a pause: the messages that were held back arrive."""
        self.network.release(link.address, ADDRESS)
        self.network.release(ADDRESS, link.address)
        self.faults.resumed(link)


class BrokerFaults(FaultVerbs[int]):
    """Faults on brokers' sessions: `KafkaCluster.zookeeper_faults`. A client is a broker id and means all its sessions.

    A controller of 2.1 and later writes with "transaction": a check of `/controller_epoch` and the write.

    Args:
        host: the server end of the brokers' connections.
        history: the history that records each fault.
        brokers: returns the ids of all brokers.

    >>> from simzk.kafka.cluster.cluster import KafkaCluster
    >>> cluster = KafkaCluster(brokers=3, seed=1)
    >>> _ = cluster.create_topic("t", assignment={0: [1, 2, 3]})
    >>> cluster.run_for(1)
    >>> rule = cluster.zookeeper_faults.drop_reply("transaction", path="/brokers/topics/t/partitions/0/state")
    >>> cluster.kill(1)
    >>> cluster.run_until_quiet()
    True
    >>> rule.fired, cluster.state("t", 0).leader
    (1, 2)
    """

    def __init__(self, host: ZooKeeperHost, history: History, brokers: Callable[[], list[int]]) -> None:
        super().__init__(host.rules, self._session_of_broker)
        self._history = history
        self._brokers = brokers
        host.rules.on_fired = self._record

    def _session_of_broker(self, client: int) -> Hashable:
        known = self._brokers()
        if client not in known:
            right = f"one of {', '.join(str(broker) for broker in known)}"
            raise ConfigError(f"broker {client} does not exist", where="client", right=right)
        return f"broker {client}"

    def _record(self, rule: FaultRule, who: tuple[Hashable, ...], operation: str, paths: tuple[str, ...]) -> None:
        self._history.record(str(who[0]), f"fault: {rule.action}", ", ".join(paths), "", operation)
