"""Network of a kafka-python client in memory: its event loop, its connections, and their way to simulated brokers.

Rules of this module:
  - kafka-python's extension point is `kafka_client`, a callable that returns a `KafkaNetClient`. `memory_client` gives
    it another event loop and other connections; all else is kafka-python's own;
  - tasks of the event loop run in events of the cluster's scheduler, also while the test does something else:
    heartbeats go on during `run_for`;
  - each message between a client and a broker takes the latency of the network. A connection of which a message was
    lost delivers nothing more in that direction, as TCP does until it gives up.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka import errors
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector, Task

from simzk.serve.kafka_python.runtime import is_outside, poller
from simzk.serve.tcp.broker_ports import MAX_REQUEST_BYTES
from simzk.simulation.network import Direction
from simzk.wire.frames import BadLengthError, FrameBuffer

if TYPE_CHECKING:
    from simzk.serve.kafka_python.runtime import ClientRuntime, MemoryBrokers
    from simzk.serve.tcp.broker_ports import BrokerPort, FrameConnection
    from simzk.simulation.scheduler import Timer

_LENGTH_BYTES = 4
_FRUITLESS = 50
"""Number of polls in a row of which nothing came, after which a poll takes time."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _MAX_DOUBLINGS = 0.001, 0.1, 7


class MemoryConnection:
    """A connection between a client, by its name in the network, and a port of a broker."""

    def __init__(self, brokers: MemoryBrokers, client: str, port: BrokerPort, transport: MemoryTransport) -> None:
        end = brokers.end_of(port.broker)
        self._brokers = brokers
        self._port = port
        self._transport = transport
        self._to_broker = Direction(brokers.network, client, end)
        self._to_client = Direction(brokers.network, end, client)
        self._buffer = FrameBuffer(MAX_REQUEST_BYTES)
        self._link: FrameConnection | None = None

    # The client's side

    def open(self) -> None:
        """Ask the broker for a connection."""
        self._to_broker.send(self._accept)

    def write(self, data: bytes) -> None:
        """Send bytes to the broker."""
        self._to_broker.send(partial(self._receive, data))

    def hang_up(self) -> None:
        """Close the connection."""
        self._to_broker.send(self._forget)

    # The broker's side

    def send(self, frame: bytes) -> None:
        data = len(frame).to_bytes(_LENGTH_BYTES, "big") + frame
        self._to_client.send(partial(self._transport.arrive, data))

    def close(self) -> None:
        if self._link is not None:
            self._link = None
            self._to_client.send(self._transport.end)

    def _accept(self) -> None:
        assert self._link is None, "a connection is opened once"
        self._link = self._brokers.connect(self._port, self)
        transport = self._transport
        self._to_client.send(transport.refuse if self._link is None else transport.establish)

    def _receive(self, data: bytes) -> None:
        if self._link is None:  # the process has ended: its system resets the connection
            self._to_client.send(self._transport.end)
            return
        try:
            frames = self._buffer.receive(data)
        except BadLengthError:
            self._link.hang_up()
            self.close()
            return
        for frame in frames:
            if self._link is not None:
                self._link.receive(frame)

    def _forget(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.hang_up()


class MemoryTransport:
    """Replacement of `KafkaTCPTransport`: a client's end of a connection in memory.

    Args:
        net: the client's event loop.
        address: host and port of the broker.

    Attributes:
        opened: done when the connection is established or refused.
        host: the broker's host.
        last_activity: time of the last byte in either direction, on the client's clock.
    """

    def __init__(self, net: MemoryNet, address: tuple[str, int]) -> None:
        self._net = net
        self._address = address
        self._protocol: Any = None
        self._closed = False
        self._connection: MemoryConnection | None = None
        self.opened: Any = Future()
        self.host: str = address[0]
        self.last_activity: float = net.runtime.monotonic()

    def connect(self) -> None:
        """Ask for a connection; `opened` says what comes of it."""
        assert self._connection is None, "a transport connects once"
        runtime = self._net.runtime
        port = runtime.brokers.find(*self._address)
        if port is None:
            self.refuse()
            return
        self._connection = MemoryConnection(runtime.brokers, runtime.name, port, self)
        self._connection.open()

    # The network's side, in events of the scheduler

    def establish(self) -> None:
        """Note that the broker has accepted the connection."""
        self._net.note_news()
        self._net.call_soon(lambda: self._open(None))

    def refuse(self) -> None:
        """End the connection: no broker accepts it."""
        self._net.note_news()
        self._net.call_soon(lambda: self._open(errors.KafkaConnectionError("111 ECONNREFUSED")))

    def arrive(self, data: bytes) -> None:
        """Receive bytes."""
        self._net.note_news()
        self._net.call_soon(lambda: self._receive(data))

    def end(self) -> None:
        """Note that the broker has closed the connection."""
        self._net.note_news()
        self._net.call_soon(lambda: self.abort(errors.KafkaConnectionError("socket disconnected")))

    def _open(self, error: Exception | None) -> None:
        if not self.opened.is_done:
            self.opened.success(None) if error is None else self.opened.failure(error)

    def _receive(self, data: bytes) -> None:
        if self._closed or self._protocol is None:
            return
        self.last_activity = self._net.runtime.monotonic()
        if self._protocol._sensors:
            self._protocol._sensors.bytes_received.record(len(data))
        try:
            self._protocol.data_received(data)
        except errors.KafkaProtocolError as error:
            self.abort(error)

    # kafka-python's side, with the names of asyncio's transports

    async def handshake(self) -> None:
        """Do nothing: there is no TLS."""

    def is_closing(self) -> bool:
        return self._closed

    def set_protocol(self, protocol: object) -> None:
        """Set the receiver of the bytes that arrive."""
        self._protocol = protocol

    def get_protocol(self) -> object:
        return self._protocol

    def resume_reading(self) -> None:
        """Do nothing: no byte arrives before the first request is sent."""

    def write(self, data: bytes) -> None:
        """Send bytes; raise RuntimeError if it is closed."""
        if self._closed or self._connection is None:
            raise RuntimeError("Transport closed for writes")
        self._connection.write(bytes(data))
        self.last_activity = self._net.runtime.monotonic()
        if self._protocol is not None and self._protocol._sensors:
            self._protocol._sensors.bytes_sent.record(len(data))

    def close(self) -> None:
        self.abort()

    def abort(self, error: Exception | None = None) -> None:
        """Close the connection because of an error."""
        if self._closed:
            return
        self._closed = True
        if self._connection is not None:
            self._connection.hang_up()
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def getPeer(self) -> tuple[str, int]:  # noqa: N802 - kafka-python's name
        return self._address

    def host_port(self) -> str:
        return "{}:{}".format(*self._address)


class _NoSelector:
    """Selector of a loop without file descriptors."""

    def register(self, *_: object) -> None:
        """Do nothing."""

    def unregister(self, *_: object) -> None:
        """Do nothing."""

    def get_map(self) -> dict[int, object]:
        return {}

    def select(self, _timeout_s: float | None = None) -> list[object]:
        return []

    def close(self) -> None:
        """Do nothing."""


class _Task(Task):  # type: ignore[misc]  # kafka-python has no types
    """A task that is ordered among those of equal time by its number, not by its address in memory."""

    _numbers = itertools.count()

    def __init__(self, coro: object) -> None:
        super().__init__(coro)
        self._number = next(self._numbers)

    def __lt__(self, other: _Task) -> bool:
        return self._number < other._number


class MemoryNet(NetworkSelector):  # type: ignore[misc]
    """Event loop of a client, whose tasks run in events of the cluster's scheduler."""

    def __init__(self, runtime: ClientRuntime, **configs: object) -> None:
        self.runtime: ClientRuntime = runtime
        self._timer: Timer | None = None
        self._turns = 0
        self._news = 0  # messages of brokers, and calls of other threads than the one that polls
        self._seen = -1
        self._fruitless = 0
        self._poller: object = None
        super().__init__(**{**configs, "selector": _NoSelector, "slow_task_threshold_secs": 0})

    def start(self) -> None:
        """Do nothing: the loop has no thread."""

    def note_news(self) -> None:
        """Note that something has happened which a poll may wait for."""
        self._news += 1

    def wakeup(self) -> None:
        """Run a turn of the loop now."""
        if is_outside(self._poller):
            self.note_news()
        self._arm_at(self.runtime.brokers.scheduler.now_us)

    def call_soon(self, task: object) -> Task:
        """Run a task in the next turn."""
        return super().call_soon(task if isinstance(task, Task) else _Task(task))

    def call_at(self, when: float, task: object) -> Task:
        """Run a task at a time of the client's clock."""
        made = super().call_at(when, task if isinstance(task, Task) else _Task(task))
        self._arm_at(self.runtime.at_us(when))
        return made

    def call_later(self, delay: float, task: object) -> Task:
        """Run a task after some seconds."""
        return self.call_at(self.runtime.monotonic() + delay, task)

    def run(self, coro: Any, *args: object) -> Any:
        """Let virtual time pass until a coroutine is done; return its result or raise its error.

        A call in a callback is a RuntimeError, as kafka-python raises it there.
        """
        self.runtime.require_wait()
        future = self.call_soon_with_future(coro, *args)
        self.runtime.wait(lambda: future.is_done, None)
        if future.exception is not None:
            raise future.exception
        return future.value

    def poll(self, timeout_ms: float | None = None, future: Any = None) -> None:
        """Let virtual time pass until the loop had a turn, or until a future is done."""
        turns, news = self._turns, self._news
        timeout_s = None if timeout_ms is None or math.isinf(timeout_ms) else timeout_ms / 1000
        if future is not None:
            self.runtime.wait(lambda: future.is_done, timeout_s)
            return
        self._poller = poller()
        began_us = self.runtime.brokers.scheduler.now_us
        self.runtime.wait(lambda: self._turns != turns, timeout_s)
        # News ends a pause; a metadata response in each tenth of a second does not end the search for a leader.
        self._fruitless = self._fruitless + 1 if news == self._seen else max(0, min(self._fruitless, _FRUITLESS) - 1)
        self._seen = self._news
        passed_s = (self.runtime.brokers.scheduler.now_us - began_us) / 1_000_000
        left_s = min(self._pause_s(), math.inf if timeout_s is None else timeout_s) - passed_s
        if left_s > 0 and self._news == news:
            self.runtime.wait(lambda: self._news != news, left_s)

    def _pause_s(self) -> float:
        """Return the shortest time of a poll: more and more if nothing comes of polling.

        The sender of a producer whose partition has no leader asks for metadata in each turn, which wakes its own loop.
        On wall time each turn costs time; here time would stand still.
        """
        doublings = self._fruitless - _FRUITLESS
        return 0.0 if doublings < 0 else min(_FIRST_PAUSE_S * 2 ** min(doublings, _MAX_DOUBLINGS), _LONGEST_PAUSE_S)

    def _add_ready_task(self, task: Task) -> None:
        super()._add_ready_task(task)
        self.wakeup()

    def _arm_at(self, at_us: int) -> None:
        timer = self._timer
        if self._closed or (timer is not None and timer.active and timer.at_us <= at_us):
            return
        if timer is not None:
            timer.cancel()
        self._timer = self.runtime.brokers.scheduler.call_at(at_us, self.runtime.name, self._turn)

    def _turn(self) -> None:
        assert self._timer is not None, "a turn begins by the loop's only timer"
        self._timer = None
        if not self._closed:
            with self.runtime.entered(in_step=True):
                self._poll_once(0)
                self._turns += 1
                if self._ready:
                    self.wakeup()
                elif self._scheduled:
                    self._arm_at(max(self.runtime.at_us(self._scheduled[0][0]), self.runtime.brokers.scheduler.now_us))
        self.runtime.look()


class _MemoryManager(KafkaConnectionManager):  # type: ignore[misc]
    """Connections of a client to simulated brokers."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> MemoryTransport:
        transport = MemoryTransport(self._net, (node.host, node.port))
        transport.connect()
        left_ms = None if timeout_at is None else max(0, timeout_at - self._net.runtime.monotonic()) * 1000
        try:
            await self.wait_for(transport.opened, left_ms)
        except errors.KafkaTimeoutError:
            transport.abort()
            raise errors.KafkaConnectionError("Connection timed out") from None
        return transport


def memory_client(runtime: ClientRuntime, **configs: object) -> KafkaNetClient:
    """Return the network of a client: what its option `kafka_client` asks for."""
    net = MemoryNet(runtime, **configs)
    return KafkaNetClient(net=net, manager=_MemoryManager(net, **configs), **configs)
