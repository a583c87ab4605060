"""simzk's server as an arm of the differential test: behind the host that serves TCP, and over TCP itself.

Rules of this module:
  - `SimulatedArm` puts a sink where the socket would be, and moves the clock by hand: 1 ms each time bytes arrive;
  - what arrives is cut in two, so that frames come in pieces;
  - `TcpSimulatedArm` is a `simzk.ZooKeeperServer` as anybody starts it, and a client of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.serve.clock import WallClock
from simzk.serve.wire_driver import WireDriver, WireLink
from simzk.zookeeper.replies import Closed
from simzk.zookeeper.server import Server
from tests.conformance.arms import TcpArm, encode, forget_unanswered
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    import simzk
    from simzk.zookeeper import requests as req
    from simzk.zookeeper.config import ServerConfig
    from tests.conformance.arms import Asked, Message


class HandMovedClock(WallClock):
    """The clock of `simzk serve`, but that a test moves it: sessions are not attended, and expire when it is time."""

    def __init__(self, now_ms: int) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms


class _Sink:
    """The client's end of a connection in memory: what is delivered becomes messages of its stream."""

    def __init__(self, stream: list[Message]) -> None:
        self._stream = stream
        self.wire = ClientConnection()
        self.link: WireLink | None = None
        self.is_open = True
        self.hung_up = False

    def deliver(self, data: bytes) -> None:
        assert self.is_open, "nothing follows the end"
        self._stream.extend(self.wire.receive_data(data))

    def end(self) -> None:
        self.is_open = False
        if not self.hung_up:
            self._stream.append(Closed())


class SimulatedArm:
    """simzk's server in this process, fed with the same bytes through `simzk.serve.wire_driver`.

    Attributes:
        times_ms: the time of each zxid.
    """

    def __init__(self, config: ServerConfig, zxid: int) -> None:
        self._clock = HandMovedClock(1)
        self.server = Server(config, now_ms=1, zxid=zxid)
        self.times_ms = {0: 0}
        self.server.on_transaction.append(lambda done: self.times_ms.__setitem__(done.zxid, done.time_ms))
        self.host = WireDriver(self.server, self._clock)
        self._sinks: dict[int, _Sink] = {}
        self.streams: dict[int, list[Message]] = {}

    def connect(self, client: int, request: req.ConnectRequest) -> None:
        sink = self._open(client)
        self._sinks[client] = sink
        self._receive(sink, sink.wire.connect(request))
        self.server.check()

    def greet(self, client: int, data: bytes) -> None:
        sink = self._open(client)
        self._receive(sink, data)
        assert not sink.is_open, "such a greeting ends a connection"

    def _open(self, client: int) -> _Sink:
        sink = _Sink(self.streams.setdefault(client, []))
        sink.link = self.host.open(sink)
        return sink

    def send(self, client: int, batch: list[tuple[int, Asked]]) -> None:
        sink = self._sinks[client]
        self._receive(sink, b"".join(encode(sink.wire, xid, asked) for xid, asked in batch))
        self.server.check()

    def ask(self, client: int, xid: int, asked: Asked) -> None:
        """One request, if the connection is still there; `check` of the server is left to the caller."""
        sink = self._sinks[client]
        if sink.is_open:
            self._receive(sink, encode(sink.wire, xid, asked))

    def drop(self, client: int, unfinished: bytes = b"") -> None:
        sink = self._sinks[client]
        assert sink.link is not None
        self._receive(sink, unfinished)
        sink.hung_up = True
        sink.link.hang_up()

    def break_off(self, client: int, data: bytes) -> None:
        """Bytes over which the server ends the connection."""
        self._receive(self._sinks[client], data)
        self.server.check()

    def give_up(self, client: int) -> bool:
        """Whether the client has asked what nobody answers."""
        return self.is_open(client) and forget_unanswered(self._sinks[client].wire)

    def let_expire(self, client: int) -> None:
        """Let time run until the silent client's session ends; others have longer ones."""
        while self.is_open(client):
            deadline_ms = self.server.next_deadline_ms()
            assert deadline_ms is not None
            self._clock.at_ms = deadline_ms
            self.host.tick()
        self.server.check()

    def is_open(self, client: int) -> bool:
        return client in self._sinks and self._sinks[client].is_open

    def _receive(self, sink: _Sink, data: bytes) -> None:
        assert sink.link is not None
        middle = len(data) * 2 // 3
        for piece in (data[:middle], data[middle:]):
            if piece:
                self._clock.at_ms += 1
                sink.link.receive(piece)


class TcpSimulatedArm(TcpArm):
    """A `simzk.ZooKeeperServer` over TCP, asked one request after the other."""

    def __init__(self, ours: simzk.ZooKeeperServer) -> None:
        super().__init__(ours.port)
        self._ours = ours
        self.times_ms = {0: 0}
        self.server.on_transaction.append(lambda done: self.times_ms.__setitem__(done.zxid, done.time_ms))

    @property
    def server(self) -> Server:
        return self._ours.server

    def ask(self, client: int, xid: int, asked: Asked) -> None:
        if self.is_open(client):
            self.send(client, [(xid, asked)])
