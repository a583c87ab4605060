"""Ports of brokers: what a connection may cost, with a broker and a transport that the test plays itself."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.serve.tcp import broker_ports
from simzk.serve.tcp.broker_ports import UNANSWERED_MAX, BrokerConnection, BrokerPort, RequestBuffer
from simzk.wire.frames import BadLengthError

if TYPE_CHECKING:
    from collections.abc import Callable

HIGH_WATER = 64 * 1024
PORT = BrokerPort(1, "PLAINTEXT")


class Transport(asyncio.Transport):
    """A transport whose client reads nothing until `drain`."""

    def __init__(self, connection: BrokerConnection) -> None:
        super().__init__()
        self.connection = connection
        self.unread = bytearray()
        self.reads = True
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        was_full = len(self.unread) > HIGH_WATER
        self.unread += data
        if not was_full and len(self.unread) > HIGH_WATER:
            self.connection.pause_writing()

    def drain(self) -> int:
        """Let the client read everything; return the number of bytes."""
        number = len(self.unread)
        self.unread.clear()
        self.connection.resume_writing()
        return number

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


class Broker:
    """A broker that answers each request with the same number of bytes, at once or when it is asked to."""

    def __init__(self, answer_bytes: int, *, answers: bool = True) -> None:
        self.answer = bytes(answer_bytes)
        self.answers = answers
        self.waiting: list[bytes] = []
        self.handled: list[bytes] = []
        self.connection: BrokerConnection | None = None
        self.hung_up = False

    @property
    def backlog(self) -> int:
        return len(self.waiting)

    def receive(self, frame: bytes) -> None:
        self.waiting.append(frame)

    def hang_up(self) -> None:
        self.hung_up = True

    def run(self) -> None:
        """Answer all requests."""
        assert self.connection is not None
        while self.answers and self.waiting:
            self.handled.append(self.waiting.pop(0))
            self.connection.send(self.answer)


class Ports:
    """The ports of one broker, on no loop: what is to be done soon is done when the test says so."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.connections: set[BrokerConnection] = set()
        self.unfinished_bytes = 0
        self.lock = nullcontext()
        self.later: list[Callable[[], None]] = []

    driver = property(lambda self: self)
    brokers = property(lambda self: self)

    def tick(self) -> None:
        self.broker.run()

    def connect(self, _number: int, connection: BrokerConnection, _subject: str | None) -> Broker:
        self.broker.connection = connection
        return self.broker

    def on_loop(self, callback: Callable[[], None]) -> None:
        callback()

    def soon(self, callback: Callable[[], None]) -> None:
        self.later.append(callback)


def connected(broker: Broker) -> tuple[Ports, Transport]:
    """Return the ports of a broker with one connection, and its transport."""
    ports = Ports(broker)
    connection = BrokerConnection(cast("Any", ports), PORT)
    transport = Transport(connection)
    connection.connection_made(transport)
    return ports, transport


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def test_a_client_that_does_not_read_is_bounded() -> None:
    broker = Broker(answer_bytes=10_000)
    _, transport = connected(broker)
    transport.connection.data_received(framed(*(b"%d" % number for number in range(5000))))
    assert len(transport.unread) <= HIGH_WATER + (UNANSWERED_MAX + 1) * 10_004
    assert not transport.reads
    read = 0
    while transport.unread:
        read += transport.drain()
    assert read == 5000 * 10_004
    assert broker.handled == [b"%d" % number for number in range(5000)]
    assert transport.reads


def test_a_broker_that_does_not_answer_gets_a_bounded_number_of_requests() -> None:
    broker = Broker(answer_bytes=1, answers=False)
    ports, transport = connected(broker)
    transport.connection.data_received(framed(*(b"%d" % number for number in range(1000))))
    assert (len(broker.waiting), transport.reads) == (UNANSWERED_MAX, False)
    broker.answers = True
    broker.run()
    while ports.later:
        ports.later.pop(0)()
    assert (len(broker.handled), transport.reads) == (1000, True)


def test_requests_before_a_bad_length_are_answered_and_the_rest_is_not_read() -> None:
    broker = Broker(answer_bytes=3)
    _, transport = connected(broker)
    transport.connection.data_received(framed(b"a", b"b") + b"\xff\xff\xff\xff" + framed(b"c"))
    transport.connection.data_received(framed(b"d"))
    assert (broker.handled, transport.closed) == ([b"a", b"b"], True)


def test_unfinished_requests_of_all_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_ports, "UNFINISHED_MAX_BYTES", 1000)
    broker = Broker(answer_bytes=3)
    ports, transport = connected(broker)
    other = BrokerConnection(cast("Any", ports), PORT)
    second = Transport(other)
    other.connection_made(second)
    head = (50_000).to_bytes(4, "big")
    transport.connection.data_received(head + bytes(700))
    other.data_received(head + bytes(200))
    assert (transport.closed, second.closed, ports.unfinished_bytes) == (False, False, 908)
    other.data_received(bytes(200))
    assert (transport.closed, second.closed) == (False, True)
    other.connection_lost(None)
    assert ports.unfinished_bytes == 704
    transport.connection.connection_lost(None)
    assert (ports.unfinished_bytes, ports.connections) == (0, set())


def test_connections_beyond_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_ports, "CONNECTIONS_MAX", 1)
    ports, transport = connected(Broker(answer_bytes=3))
    another = BrokerConnection(cast("Any", ports), PORT)
    refused = Transport(another)
    another.connection_made(refused)
    assert (transport.closed, refused.closed, len(ports.connections)) == (False, True, 1)
    transport.connection.connection_lost(None)
    again = BrokerConnection(cast("Any", ports), PORT)
    accepted = Transport(again)
    again.connection_made(accepted)
    assert not accepted.closed


@given(bodies=st.lists(st.binary(max_size=20), max_size=8), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_requests_are_the_same_in_pieces_of_any_size(bodies: list[bytes], cuts: list[int]) -> None:
    data, buffer, received = framed(*bodies), RequestBuffer(), []
    at = turn = 0
    while at < len(data):
        piece = data[at : at + cuts[turn % len(cuts)]]
        received += buffer.receive(piece)
        at, turn = at + len(piece), turn + 1
    assert (received, buffer.size) == (bodies, 0)


def test_a_bad_length_is_an_error_with_the_requests_before_it() -> None:
    buffer = RequestBuffer()
    assert buffer.receive(framed(b"a")[:3]) == []
    with pytest.raises(BadLengthError) as caught:
        buffer.receive(framed(b"a")[3:] + b"\x7f\xff\xff\xff")
    assert caught.value.frames == [b"a"]


def test_a_long_request_costs_its_bytes_once() -> None:
    buffer, length = RequestBuffer(), 20_000_000
    assert buffer.receive(length.to_bytes(4, "big")) == []
    piece = bytes(1000)
    for _ in range(length // 1000 - 1):
        assert buffer.receive(piece) == []
    assert len(buffer._parts) == length // 1000, "parts are joined when the request is whole"
    (whole,) = buffer.receive(piece)
    assert (len(whole), buffer.size) == (length, 0)
