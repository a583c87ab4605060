"""A client of one simulated broker, in memory and in virtual time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeVar

from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.structs import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    import simzk

M = TypeVar("M", bound=Message)
ANSWER_S = 20.0
"""Longest virtual time to wait for a response."""


class Clock(Protocol):
    """The time of a cluster, in microseconds: that of its scheduler, or of the cluster behind a server."""

    @property
    def now_us(self) -> int:
        """The present time."""
        ...

    def run_until(self, at_us: int, /) -> None:
        """Let time pass."""


class Connection(Protocol):
    """The client's end of a connection to a broker."""

    def receive(self, frame: bytes, /) -> None:
        """Send the frame of a request to the broker."""

    def hang_up(self) -> None:
        """Close the connection."""


class Client(Protocol):
    """A client of one broker, in memory or over TCP, whose responses may come later."""

    closed: bool

    @property
    def connection(self) -> Connection:
        """Its connection."""
        ...

    @property
    def frames(self) -> Sequence[bytes]:
        """Responses that nobody has read."""
        ...

    def wait(self, limit_s: float, /) -> bytes | None:
        """Return the next response; None if none comes within a time of the cluster, or the connection closes."""


class CallingClient(Client, Protocol):
    """A client that encodes requests and decodes their responses itself."""

    def call(self, request: Message, version: int, kind: type[M], /) -> M:
        """Send a request; return the response."""
        ...


class MemoryClient:
    """A connection to a broker of a cluster.

    Args:
        cluster: the cluster; waiting for a response lets its time pass.
        broker: the broker's id.
        client_id: the id that the client gives itself.
        listener: name of the broker's listener; None for the one that is for clients.

    Attributes:
        frames: responses that nobody has read.
        closed: whether the broker has closed the connection.
    """

    def __init__(
        self, cluster: simzk.KafkaCluster, broker: int, client_id: str = "test", listener: str | None = None
    ) -> None:
        self.frames: deque[bytes] = deque()
        self.closed = False
        self._cluster = cluster
        self._number = 0
        self._client_id = client_id
        self.connection = cluster.brokers[broker].client_api.connect(self, listener=listener)

    def send(self, frame: bytes) -> None:
        """Receive a response (the broker sends it)."""
        self.frames.append(frame)

    def close(self) -> None:
        """Note that the broker has closed the connection."""
        self.closed = True

    def send_request(self, request: Message, version: int) -> int:
        """Send a request; return its number."""
        self._number += 1
        self.connection.receive(
            encode_request(request, version, correlation_id=self._number, client_id=self._client_id)
        )
        return self._number

    def exchange(self, frame: bytes, limit_s: float = ANSWER_S) -> bytes | None:
        """Send the frame of a request; return that of the response, or None if there is none."""
        self.connection.receive(frame)
        return self.wait(limit_s)

    def wait(self, limit_s: float = ANSWER_S) -> bytes | None:
        """Let time pass until a response arrives, the connection closes, or the limit is over."""
        end_us = self._cluster.scheduler.now_us + round(limit_s * 1_000_000)
        while not self.frames and not self.closed:
            next_us = self._cluster.scheduler.next_at_us
            if next_us is None or next_us > end_us:
                return None
            self._cluster.scheduler.run_until(next_us)
        return self.frames.popleft() if self.frames else None

    def call(self, request: Message, version: int, kind: type[M]) -> M:
        """Send a request; return the response."""
        number = self.send_request(request, version)
        frame = self.wait()
        assert frame is not None, f"no response to {request}; closed: {self.closed}"
        answered, _, response = decode_response(kind, version, frame)
        assert answered == number
        return response
