"""A fast ZooKeeper client for measuring servers: raw sockets, frames made beforehand, so many requests in flight.

    python -m benchmarks.pipelining_client PORT CONNECTIONS IN_FLIGHT REQUESTS

It creates REQUESTS znodes of 100 bytes, then gets them all, and prints one line of JSON: for each kind the requests per
second and the 50th and 99th percentile of the time between request and reply in ms. All frames of a kind have the same
length, and so have all replies, so that the client has nearly nothing to do: it counts bytes. Its arithmetic is checked
at the end: the last reply of each connection must carry the last xid and no error.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from simzk.wire.client_connection import ClientConnection
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import ConnectResponse

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = b"x" * 100
TIMEOUT_MS = 30_000
HEADER_BYTES = 4 + 16
STAT_BYTES = 68
RECEIVE_BYTES = 256 * 1024


class Stream:
    """One connection: the frames that it is to send, and what of them is answered."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = ClientConnection()
        self.socket.sendall(wire.connect(req.ConnectRequest(0, 0, TIMEOUT_MS, 0, None, False)))
        (connected,) = wire.receive_data(self.socket.recv(4096))
        assert isinstance(connected, ConnectResponse)
        assert connected.session_id

    def ask(self, requests: list[req.Request], reply_bytes: int) -> None:
        """Make the frames of `requests`, whose xids count from 1."""
        wire = ClientConnection()
        wire.connect(req.ConnectRequest(0, 0, TIMEOUT_MS, 0, None, False))
        frames = [wire.request(xid, request) for xid, request in enumerate(requests, 1)]
        self.frame_bytes = len(frames[0])
        assert all(len(frame) == self.frame_bytes for frame in frames)
        self.frames = memoryview(b"".join(frames))
        self.total, self.reply_bytes = len(frames), reply_bytes
        self.sent = self.answered = self.received_bytes = 0
        self.tail = b""
        self.waiting: deque[tuple[int, float]] = deque()

    def send(self, count: int) -> None:
        """Send the next so many requests."""
        count = min(count, self.total - self.sent)
        if count:
            self.waiting.append((self.sent + count, time.perf_counter()))
            at = self.sent * self.frame_bytes
            self.socket.sendall(self.frames[at : at + count * self.frame_bytes])
            self.sent += count

    def receive(self, latencies: list[tuple[float, int]]) -> None:
        """Take what has come, and send as many requests as were answered."""
        data = self.socket.recv(RECEIVE_BYTES)
        assert data, "the server has closed"
        now_s = time.perf_counter()
        self.received_bytes += len(data)
        self.tail = (self.tail + data)[-self.reply_bytes :]
        before, self.answered = self.answered, self.received_bytes // self.reply_bytes
        at = before
        while at < self.answered:
            end, sent_s = self.waiting[0]
            upto = min(end, self.answered)
            latencies.append((now_s - sent_s, upto - at))
            if upto == end:
                self.waiting.popleft()
            at = upto
        self.send(self.answered - before)

    def check(self) -> None:
        """The bytes that were counted were the replies that were meant."""
        assert self.received_bytes == self.total * self.reply_bytes, "a reply of another length"
        xid, _, error = struct.unpack_from(">iqi", self.tail, 4)
        assert (xid, error) == (self.total, 0), f"the last reply: xid {xid}, error {error}"


def percentile(latencies: list[tuple[float, int]], share: float) -> float:
    """The latency in ms that `share` of the requests do not exceed."""
    left = share * sum(count for _, count in latencies)
    for latency_s, count in sorted(latencies):
        left -= count
        if left <= 0:
            return latency_s * 1000
    raise AssertionError("no request was answered")


def measure(
    streams: list[Stream], in_flight: int, make: Callable[[int], req.Request], reply_bytes: int, n: int
) -> dict[str, float]:
    """Ask everything of one kind, so many at once over all connections."""
    share = n // len(streams)
    for number, stream in enumerate(streams):
        stream.ask([make(number * share + at) for at in range(share)], reply_bytes)
    latencies: list[tuple[float, int]] = []
    begin_s = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.socket, selectors.EVENT_READ, stream)
            stream.send(max(1, in_flight // len(streams)))
        left = len(streams)
        while left:
            for key, _ in selector.select():
                stream = key.data
                stream.receive(latencies)
                if stream.answered == stream.total:
                    selector.unregister(stream.socket)
                    left -= 1
    elapsed_s = time.perf_counter() - begin_s
    for stream in streams:
        stream.check()
    return {
        "per_second": share * len(streams) / elapsed_s,
        "p50_ms": percentile(latencies, 0.50),
        "p99_ms": percentile(latencies, 0.99),
    }


def main(port: int, connections: int, in_flight: int, requests: int) -> None:
    """Measure one server and print the figures."""
    streams = [Stream(port) for _ in range(connections)]
    # A parent of its own for each run; its name and all paths have one length, whatever the run.
    parent = f"/b{time.time_ns() % 10**12:012}"
    streams[0].ask([req.Create(parent, b"", req.OPEN_ACL, 0)], HEADER_BYTES + 4 + len(parent))
    streams[0].send(1)
    while streams[0].answered < 1:
        streams[0].receive([])

    def path(number: int) -> str:
        return f"{parent}/n{number:08}"

    path_bytes = len(path(0))
    figures = {
        "create": measure(
            streams,
            in_flight,
            lambda number: req.Create(path(number), DATA, req.OPEN_ACL, 0),
            HEADER_BYTES + 4 + path_bytes,
            requests,
        ),
        "get": measure(
            streams,
            in_flight,
            lambda number: req.GetData(path(number), False),
            HEADER_BYTES + 4 + len(DATA) + STAT_BYTES,
            requests,
        ),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
