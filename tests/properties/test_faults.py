"""Whatever a fault plan does: an acknowledged write is in the tree once, one whose fate is unknown at most once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.kafka.cluster.zookeeper_host import NetworkLink, ZooKeeperHost
from simzk.serve.clock import StillClock
from simzk.serve.wire_driver import WireDriver, WireLink
from simzk.simulation import Network, Scheduler
from simzk.simulation.request_faults import REQUEST_FAULTS
from simzk.zookeeper import requests as req
from simzk.zookeeper.operations import VOCABULARY
from simzk.zookeeper.replies import Closed, ConnectResponse, Reply
from simzk.zookeeper.server import Server
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.simulation.request_faults import FaultRule, FaultRules
    from simzk.zookeeper.replies import Outgoing

CLIENTS = 3
TIMEOUT_MS = 10_000
ACTIONS = [name for name in REQUEST_FAULTS if name != "move"]
PARAMETERS: dict[object, str | float] = {"delay": 0.5, "fail": "OperationTimeoutError"}
OPERATIONS = [None, None, "create", "transaction", "get"]
PARENTS = ["/p", "/p/q", "/r"]
"""Each write makes one child of one of these, named by its number: so it is seen how often it was applied."""

rules = st.fixed_dictionaries(
    {
        "action": st.sampled_from(ACTIONS),
        "operation": st.sampled_from(OPERATIONS),
        "client": st.sampled_from([None, None, 0, 1, 2]),
        "path": st.sampled_from([None, None, *PARENTS]),
        "below": st.booleans(),
        "times": st.sampled_from([1, 2, None]),
    }
)
steps = st.one_of(
    st.tuples(st.just("rule"), rules),
    st.tuples(
        st.just("write"),
        st.integers(0, CLIENTS - 1),
        st.sampled_from(["create", "transaction"]),
        st.sampled_from(PARENTS),
    ),
    st.tuples(st.just("read"), st.integers(0, CLIENTS - 1), st.sampled_from(["get", "sync"]), st.sampled_from(PARENTS)),
    st.tuples(st.just("release"), st.integers(0, 20)),
    st.tuples(st.just("clear"), st.integers(0, 20)),
    st.tuples(st.just("advance"), st.sampled_from([1, 100, 3_000, 15_000])),
    st.tuples(st.just("hang up"), st.integers(0, CLIENTS - 1)),
)


class Client:
    """Client that records its replies, and reconnects with its session."""

    def __init__(self) -> None:
        self.session_id, self.password = 0, bytes(16)
        self.xid = 0
        self.asked: list[int] = []  # on this connection, in order, as far as not answered
        self.writes: dict[int, str] = {}
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self.open = False

    def connect_request(self) -> req.ConnectRequest:
        return req.ConnectRequest(0, 0, TIMEOUT_MS, self.session_id, self.password, False)

    def take(self, message: Outgoing) -> None:
        match message:
            case ConnectResponse():
                self.session_id, self.password = message.session_id, message.password
                self.open = self.session_id != 0
            case Reply():
                assert message.xid == self.asked.pop(0), "replies come in the order of their requests"
                name = self.writes.get(message.xid)
                if name is not None:
                    (self.refused if message.error else self.acknowledged).add(name)
            case Closed():
                self.lose()

    def lose(self) -> None:
        self.open = False
        self.asked.clear()


class OneTransport:
    """Transport of one connection, silent once its client has another one."""

    def __init__(self, client: Wired) -> None:
        self.client = client

    def deliver(self, data: bytes) -> None:
        if self.client.transport is self:
            self.client.deliver(data)

    def end(self) -> None:
        if self.client.transport is self:
            self.client.lose()


class Wired(Client):
    """Over bytes, to a host of real connections."""

    def __init__(self, host: WireDriver) -> None:
        super().__init__()
        self.host = host
        self.link: WireLink | None = None
        self.transport: OneTransport | None = None
        self.wire = ClientConnection()
        self.connect()

    def connect(self) -> None:
        self.wire = ClientConnection()
        self.transport = OneTransport(self)
        self.link = self.host.open(self.transport)
        assert self.link is not None
        self.link.receive(self.wire.connect(self.connect_request()))

    def deliver(self, data: bytes) -> None:
        for message in self.wire.receive_data(data):
            self.take(message)

    def ask(self, xid: int, request: req.Request) -> None:
        assert self.link is not None
        self.link.receive(self.wire.request(xid, request))

    def hang_up(self) -> None:
        assert self.link is not None
        self.lose()
        self.transport = None
        self.link.hang_up()


class Simulated(Client):
    """Over a simulated network."""

    def __init__(self, host: ZooKeeperHost, name: str) -> None:
        super().__init__()
        self.host, self.name = host, name
        self.link: NetworkLink | None = None
        self.connect()

    def connect(self) -> None:
        def receive(messages: Sequence[Outgoing] | None) -> None:
            if self.link is not link:
                return
            if messages is None:
                self.lose()
            for message in messages or ():
                self.take(message)

        link = self.link = NetworkLink(self.host, self.name, receive)
        self.host.send(link, 0, self.connect_request())

    def ask(self, xid: int, request: req.Request) -> None:
        assert self.link is not None
        self.host.send(self.link, xid, request)

    def hang_up(self) -> None:
        link, self.link = self.link, None
        assert link is not None
        self.lose()
        self.host.break_link(link)


class World:
    """A server, its clients, and a table of rules between them."""

    rules: FaultRules
    server: Server
    clients: list[Any]

    def session_of(self, client: int) -> object:
        return self.clients[client].session_id

    def advance(self, duration_ms: int) -> None:
        raise NotImplementedError


class WiredWorld(World):
    def __init__(self) -> None:
        self.server = Server()
        self.clock = StillClock()
        self.host = WireDriver(self.server, self.clock)
        self.rules = self.host.rules
        self.clients = [Wired(self.host) for _ in range(CLIENTS)]

    def advance(self, duration_ms: int) -> None:
        self.host.advance(self.clock, duration_ms)


class SimulatedWorld(World):
    def __init__(self) -> None:
        self.scheduler = Scheduler(seed=1)
        self.server = Server()
        network = Network(self.scheduler, latency_us=(100, 900))
        self.host = ZooKeeperHost(self.scheduler, network, self.server, start_ms=0)
        self.rules = self.host.rules
        self.clients = [Simulated(self.host, f"client {number}") for number in range(CLIENTS)]
        self.advance(10)

    def session_of(self, client: int) -> object:
        return f"client {client}"

    def advance(self, duration_ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + duration_ms * 1000)


class Story:
    """Plays steps in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.made: list[FaultRule] = []
        self.names = 0
        for path in PARENTS:
            self.ask(0, req.Create(path, b"", req.OPEN_ACL, 0))
        world.advance(10)

    def ask(self, client: int, request: req.Request, name: str | None = None) -> None:
        one = self.world.clients[client]
        one.xid += 1
        if name is not None:
            one.writes[one.xid] = name
        one.asked.append(one.xid)
        one.ask(one.xid, request)

    def play(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("rule", reported):
                session = None if reported["client"] is None else self.world.session_of(reported["client"])
                fault = REQUEST_FAULTS[reported["action"]].from_parameter(PARAMETERS.get(reported["action"], ""))
                self.made.append(
                    self.world.rules.add(
                        fault.resolve(VOCABULARY, ()),
                        reported["operation"],
                        session=session,
                        path=reported["path"],
                        below=reported["below"] and reported["path"] is not None,
                        times=reported["times"],
                    )
                )
            case ("write" | "read", client, kind, parent):
                if not self.world.clients[client].open:
                    self.world.clients[client].connect()
                    self.world.advance(2)
                if self.world.clients[client].open:
                    self.request(client, kind, parent)
            case ("release" | "clear" as verb, number):
                if number < len(self.made):
                    getattr(self.made[number], verb)()
            case ("advance", duration_ms):
                self.world.advance(duration_ms)
            case ("hang up", client):
                if self.world.clients[client].open:
                    self.world.clients[client].hang_up()
        self.world.rules.check()
        self.world.server.check()

    def request(self, client: int, kind: str, parent: str) -> None:
        if kind in ("get", "sync"):
            self.ask(client, req.GetData(parent, False) if kind == "get" else req.Sync(parent))
            return
        self.names += 1
        name = f"{parent}/n{self.names}-"
        create = req.Create(name, b"", req.OPEN_ACL, 2)  # a sequence: what is applied twice stands there twice
        self.ask(client, create if kind == "create" else req.Multi((req.Check(parent, -1), create)), name)

    def judge(self) -> None:
        self.world.rules.clear()
        self.world.advance(10)
        self.world.server.check()
        for client in self.world.clients:
            assert not client.asked, "when nothing is in the way, all is answered or the connection is gone"
            for name in client.writes.values():
                parent, _, stem = name.rpartition("/")
                node = self.world.server.tree.get(parent)
                assert node is not None
                times = sum(child.startswith(stem) for child in node.child_names())
                assert times <= 1, name
                if name in client.acknowledged:
                    assert times == 1, name
                if name in client.refused:
                    assert times == 0, name


@pytest.mark.parametrize("make", [WiredWorld, SimulatedWorld])
@given(plan=st.lists(steps, min_size=30, max_size=60))
@settings(max_examples=100, deadline=None)
def test_an_acknowledged_write_is_there_once_and_an_unknown_one_at_most(make: type[World], plan: list[Any]) -> None:
    story = Story(make())
    for step in plan:
        story.play(step)
    story.judge()
