"""Mutated frames against a server: nothing escapes, nothing hangs, memory stays bounded, others are served.

    python -m tests.properties.fuzz --frames 2000000 [--seed 1]     # so many mutated ones, and good ones beside

A round is a fresh connection that begins well, then sends some frames, most of them broken: recorded forms of every
request with bits flipped, bytes cut, doubled and replaced, numbers set to extremes, lengths that lie, in pieces of any
size. All is drawn from the seed and the number of the round, so that `--first ROUND --frames 1` does one again.
"""

from __future__ import annotations

import argparse
import faulthandler
import resource
import sys
from random import Random
from typing import NamedTuple

from simzk.serve.clock import StillClock
from simzk.serve.wire_driver import WireDriver
from simzk.wire.operations import BY_REQUEST
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Reply
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from tests.wire.client_connection import ClientConnection

CONNECT = req.ConnectRequest(0, 0, 10_000, 0, bytes(16), False)
NODES_MAX = 300
"""Number of nodes at which the server is replaced by a new one; so is one whose root is not readable."""

CHECKED_EVERY = 64
"""Rounds between two checks of all the server's invariants."""

FRAMES_A_ROUND = 12
RESIDENT_GROWTH_MAX = 64 << 20
"""Bytes by which the process may grow, once it has done its first rounds."""

ROUNDS_S_MAX = 120.0
"""The rounds between two checks take less than a second: where they last so long, one hangs, and the process ends with
its traceback."""

EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 2**20, 0x7F7F7F7F)
PATHS = ("/", "/a", "/a/b", "/a/b/c", "/zookeeper/quota", "", "a", "/a/", "/é", "/\0")

SAME_FOR_ALL: tuple[req.Request, ...] = (
    req.Auth(0, "digest", b"a:b"),
    req.Sasl(b"token"),
    req.Ping(),
    req.WhoAmI(),
    req.CloseSession(),
)
OF_A_PATH: tuple[req.Request, ...] = tuple(
    form
    for path in PATHS
    for form in (
        req.Create(path, b"data", OPEN_ACL, 0),
        req.Create2(path + "n-", b"data", OPEN_ACL, 3),
        req.CreateContainer(path, b"", OPEN_ACL, 4),
        req.CreateTTL(path, None, OPEN_ACL, 5, 1000),
        req.Delete(path, -1),
        req.DeleteContainer(path),
        req.Exists(path, True),
        req.GetData(path, True),
        req.SetData(path, b"x" * 40, -1),
        req.GetACL(path),
        req.SetACL(path, OPEN_ACL, -1),
        req.GetChildren(path, True),
        req.GetChildren2(path, False),
        req.Sync(path),
        req.Multi((req.Check(path, 0), req.SetData(path, b"", 0), req.Create(path + "m", b"", OPEN_ACL, 1))),
        req.MultiRead((req.GetData(path, False), req.GetChildren(path, False))),
        req.SetWatches(0, (path,), (path, "/none"), (path,)),
        req.SetWatches2(0, (path,), (), (path,), (path,), (path,)),
        req.AddWatch(path, 1),
        req.CheckWatches(path, 3),
        req.RemoveWatches(path, 3),
        req.GetEphemerals(path),
        req.GetAllChildrenNumber(path),
        req.Reconfig(path, path, path, -1),
    )
)
FORMS = OF_A_PATH + SAME_FOR_ALL


def frame_of(random: Random) -> tuple[bytes, bool]:
    """Return a frame (valid, mutated, or with a wrong length) and whether it is invalid."""
    form = random.choice(FORMS)
    operation = BY_REQUEST[type(form)]
    opcode = operation.opcode if random.randrange(128) else random.choice((-10, -11, 10, 12, 13, 99, 123, -1, 107, 104))
    frame = bytearray(ClientConnection().request_bytes(random.randrange(-5, 100), opcode, operation.codec.encode(form)))
    good = bytes(frame)
    if random.randrange(4):
        for _ in range(random.randrange(1, 4)):
            mutate(random, frame)
        if random.randrange(48):
            frame[:4] = (len(frame) - 4).to_bytes(4, "big", signed=True)
    return bytes(frame), frame != good


def mutate(random: Random, frame: bytearray) -> None:
    """Change a frame behind its length; it keeps room for the header's four bytes."""
    while len(frame) < 8:
        frame.append(0)
    # Mostly behind the header: a wrong opcode only ends the connection.
    at = random.randrange(12 if len(frame) > 12 and random.randrange(32) else 4, len(frame))
    match random.randrange(6):
        case 0:
            frame[at] ^= 1 << random.randrange(8)
        case 1:
            del frame[at : at + random.randrange(1, 9)]
        case 2:
            frame[at:at] = random.randbytes(random.randrange(1, 9))
        case 3:
            frame[at : at + 4] = random.choice(EXTREMES).to_bytes(4, "big", signed=True)
        case 4:
            frame[at:at] = frame[at : at + random.randrange(1, 40)]
        case _:
            del frame[at:]


class Session(NamedTuple):
    """The bytes of a connection, and how many of its frames are mutated."""

    data: bytes
    mutated: int


def session_of(random: Random, frames: int) -> Session:
    """A connect request, sometimes broken too, and frames."""
    opening = bytearray(ClientConnection().connect(CONNECT))
    if random.randrange(20) == 0:
        mutate(random, opening)
    sent = [frame_of(random) for _ in range(frames)]
    return Session(bytes(opening) + b"".join(frame for frame, _ in sent), sum(mutated for _, mutated in sent))


def pieces(random: Random, data: bytes) -> list[bytes]:
    """The bytes in pieces of any size."""
    if random.randrange(2):
        return [data]
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(1, 12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


class Sink:
    """A transport that counts."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.ended = False

    def deliver(self, data: bytes) -> None:
        assert not self.ended, "nothing is sent behind the end"
        self.received += data

    def end(self) -> None:
        self.ended = True


class Counted(NamedTuple):
    frames: int
    mutated: int
    rounds: int
    closed: int


class Fuzzed:
    """A server behind a host, as both transports have it, and a well-behaved client beside the fuzzer."""

    def __init__(self) -> None:
        self.clock = StillClock()
        # Session ids follow from the time. Who asks for the neighbour's ends its connection, rightly (§1.3): at time 0
        # that id would be one flipped bit away from none.
        self.clock.move_to(1_234_567_890_123)
        self.server = Server(ServerConfig(extended_types=True), now_ms=self.clock.now_ms())
        self.host = WireDriver(self.server, self.clock)
        self.sink = Sink()
        self.link = self.host.open(self.sink)
        self.client = ClientConnection()
        assert self.link is not None
        self.link.receive(self.client.connect(CONNECT))
        self.client.receive_data(self._taken())
        self._xid = 0

    def _taken(self) -> bytes:
        data = bytes(self.sink.received)
        self.sink.received.clear()
        return data

    def attack(self, chunks: list[bytes]) -> bool:
        """Bytes on a connection of their own; whether the server closed it."""
        sink = Sink()
        link = self.host.open(sink)
        assert link is not None
        for chunk in chunks:
            link.receive(chunk)
        closed = sink.ended
        link.hang_up()
        return closed

    def serve_another(self) -> None:
        """Assert that another client gets its replies and nothing else."""
        self._xid += 1
        assert self.link is not None
        # No ACL that the fuzzer may have set refuses this one.
        self.link.receive(self.client.request(self._xid, req.Sync("/")))
        (reply,) = self.client.receive_data(self._taken())
        assert isinstance(reply, Reply)
        assert (reply.xid, reply.error) == (self._xid, 0)

    def is_locked(self) -> bool:
        """Whether an ACL of the root now keeps most requests from doing anything."""
        root = self.server.tree.get("/")
        return root is None or root.acl != OPEN_ACL

    def end_sessions(self) -> None:
        """Let time pass until all sessions of closed connections are over; the one that is connected stays."""
        self.host.advance(self.clock, 60_000)
        assert len(self.server.sessions) == 1


def run(seed: int, frames: int, *, first: int = 0, tell: bool = False) -> Counted:
    """Rounds until so many mutated frames were sent.

    Raises:
        AssertionError: the server did what it must not; the message names the round.
    """
    fuzzed, sent, mutated, closed, number = Fuzzed(), 0, 0, 0, first
    while mutated < frames:
        random = Random(f"{seed}/{number}")
        session = session_of(random, FRAMES_A_ROUND)
        if tell and number % CHECKED_EVERY == 0:
            faulthandler.dump_traceback_later(ROUNDS_S_MAX, exit=True)
        try:
            closed += fuzzed.attack(pieces(random, session.data))
            fuzzed.serve_another()
            if number % CHECKED_EVERY == 0:
                fuzzed.end_sessions()
                fuzzed.server.check()
        except Exception as error:
            raise AssertionError(f"seed {seed}, round {number}: {type(error).__name__}: {error}") from error
        if len(fuzzed.server.tree) > NODES_MAX or fuzzed.is_locked():
            fuzzed = Fuzzed()
        sent, mutated, number = sent + FRAMES_A_ROUND, mutated + session.mutated, number + 1
        if tell and number % 2000 == 0:
            print(f"{mutated:,} of {frames:,} mutated frames", file=sys.stderr, flush=True)
    fuzzed.end_sessions()
    fuzzed.server.check()
    return Counted(sent, mutated, number - first, closed)


def resident_peak_bytes() -> int:
    """The most memory that this process has had, as the system counts it (Linux: in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--frames", type=int, default=100_000, help="mutated ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first round")
    asked = parser.parse_args()
    # What is made once, by the first rounds, is no growth.
    run(asked.seed, min(asked.frames, 20_000), first=asked.first)
    before_bytes = resident_peak_bytes()
    counted = run(asked.seed, asked.frames, first=asked.first, tell=True)
    grown_bytes = resident_peak_bytes() - before_bytes
    assert grown_bytes < RESIDENT_GROWTH_MAX, f"the process grew by {grown_bytes:,} bytes"
    print(
        f"{counted.mutated:,} mutated frames among {counted.frames:,} in {counted.rounds:,} connections, "
        f"{counted.closed:,} of them closed by the server; the process grew by {grown_bytes:,} bytes"
    )


if __name__ == "__main__":
    main()
