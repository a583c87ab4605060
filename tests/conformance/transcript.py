"""Record the requests of the differential test and the bytes that a real server sent, and play them again.

    python -m tests.conformance.transcript record FOLDER [RELEASE...]

records a seed's traffic with the newest release of each line, whose jars are fetched into FOLDER (releases.py). A
recording keeps the requests themselves: it holds when the traffic's generator changes.

Rules of this module:
  - a recording is a text of JSON lines, compressed; the first part is what was asked, call by call of `Pair`, the last
    line is what each connection received, piece by piece;
  - it is played by the same `Pair`, with sockets that give what was recorded.
"""

from __future__ import annotations

import json
import lzma
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from simzk.wire.operations import BY_REQUEST
from simzk.zookeeper.releases import by_name
from tests.conformance.arms import Numbered, Raw, TcpArm, encode, opcode_of
from tests.conformance.pair import Pair
from tests.conformance.releases import real_release
from tests.conformance.test_differential import BROKEN_FRAMES
from tests.conformance.test_differential import test_broken_frames_end_a_connection_alike as broken_frames
from tests.conformance.test_differential import test_identities_in_the_order_of_the_real_set as identities_in_order
from tests.conformance.test_differential import (
    test_lists_keep_their_order_as_they_grow_and_shrink as lists_keep_their_order,
)
from tests.conformance.test_differential import test_quotas_count_and_refuse_alike as quotas_alike
from tests.conformance.test_differential import test_sequence_numbers_and_versions_alike as sequence_numbers_alike
from tests.conformance.test_differential import test_texts_of_quotas_are_read_alike as texts_of_quotas
from tests.conformance.test_differential import test_the_longest_request_is_taken_alike as the_longest_request

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from tests.conformance.arms import Asked, Step
    from tests.conformance.traffic import Greeting

FOLDER = Path(__file__).parent / "data" / "differential"
LINES = ("3.4", "3.5", "3.6", "3.7", "3.8", "3.9")
NEWEST_OF_LINES = tuple(by_name()[line] for line in LINES)
SEED = 1


def _packed(asked: Asked) -> tuple[int, str]:
    body = asked.body if isinstance(asked, Raw) else BY_REQUEST[type(asked)].codec.encode(asked)
    return opcode_of(asked), body.hex()


class RecordingSocket:
    """A socket that keeps what it receives."""

    def __init__(self, inner: socket.socket, pieces: list[str]) -> None:
        self._inner = inner
        self._pieces = pieces

    def recv(self, size: int) -> bytes:
        """Return received bytes; a reset is an end, as for `TcpArm`."""
        try:
            data = self._inner.recv(size)
        except ConnectionResetError:
            data = b""
        self._pieces.append(data.hex())
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class RecordedSocket:
    """A socket that receives what was recorded, and sends nothing."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = iter(pieces)

    def recv(self, size: int) -> bytes:
        """Return the next piece."""
        piece = next(self._pieces, None)
        assert piece is not None, "the real server sent nothing more"
        return bytes.fromhex(piece)

    def sendall(self, data: bytes) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class RecordingArm(TcpArm):
    """A real server, whose bytes are kept by connection, in the order in which connections were opened."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.received: list[list[str]] = []

    def _connected(self) -> Any:
        self.received.append([])
        return RecordingSocket(super()._connected(), self.received[-1])


class RecordedArm(TcpArm):
    """A real server that was recorded."""

    def __init__(self, received: Sequence[Sequence[str]]) -> None:
        super().__init__(0)
        self._received = iter(received)

    def _connected(self) -> Any:
        return RecordedSocket(next(self._received))

    def volley(self, batches: Mapping[int, list[tuple[int, Asked]]]) -> None:
        """Read the answers of one client after the other: which of them came first does not matter."""
        for client, batch in batches.items():
            for xid, asked in batch:
                encode(self._links[client].wire, xid, asked)
            awaited = self._awaited(batch)
            while awaited > 0 and client in self._links:
                awaited -= self._read_of_volley(client, batch)


class RecordingPair(Pair):
    """A pair that writes down what it asks."""

    def __init__(self, arm: RecordingArm, release: str) -> None:
        super().__init__(arm, release=release)
        self.calls: list[list[Any]] = []

    def _steps(self, client: int, batch: Sequence[Step]) -> list[Step]:
        return [Numbered(xid, asked) for xid, asked in self._numbered(client, batch)]

    @staticmethod
    def _written(batch: Sequence[Step]) -> list[list[Any]]:
        return [[step.xid, *_packed(step.asked)] for step in batch if isinstance(step, Numbered)]

    def connect(self, client: int, timeout_ms: int, *, resume: bool = False, **how: Unpack[Greeting]) -> None:
        self.calls.append(["connect", client, timeout_ms, resume, how])
        super().connect(client, timeout_ms, resume=resume, **how)

    def send(self, client: int, batch: Sequence[Step]) -> None:
        steps = self._steps(client, batch)
        self.calls.append(["send", client, self._written(steps)])
        super().send(client, steps)

    def greet(self, client: int, data: bytes) -> None:
        self.calls.append(["greet", client, data.hex()])
        super().greet(client, data)

    def volley(
        self, batches: Mapping[int, Sequence[Step]], order: Sequence[tuple[int, int]] | None = None
    ) -> list[tuple[int, int]]:
        steps = {client: self._steps(client, batch) for client, batch in batches.items()}
        written = {client: self._written(batch) for client, batch in steps.items()}
        done = super().volley(steps, order)
        self.calls.append(["volley", written, done])
        return done

    def cut(self, client: int, unfinished: bytes = b"") -> None:
        self.calls.append(["cut", client, unfinished.hex()])
        super().cut(client, unfinished)

    def take_forsaken(self, client: int) -> bool:
        self.calls.append(["take_forsaken", client])
        return super().take_forsaken(client)

    def break_off(self, client: int, data: bytes) -> None:
        self.calls.append(["break_off", client, data.hex()])
        super().break_off(client, data)

    def text(self) -> str:
        """Return the recording."""
        assert isinstance(self.real, RecordingArm)
        return "".join(f"{json.dumps(line)}\n" for line in [*self.calls, ["received", self.real.received]])


def _read(written: Sequence[Sequence[Any]]) -> list[Step]:
    return [Numbered(xid, Raw(opcode, bytes.fromhex(body))) for xid, opcode, body in written]


def play(text: str, release: str) -> Pair:
    """Ask simzk what a real server was asked, and compare with what that answered.

    Returns:
        The pair, whose counters say what was compared.
    """
    *calls, (_, received) = [json.loads(line) for line in text.splitlines()]
    pair = Pair(RecordedArm(received), release=release)
    for name, *call in calls:
        match name:
            case "connect":
                client, timeout_ms, resume, how = call
                pair.connect(client, timeout_ms, resume=resume, **how)
            case "send":
                pair.send(call[0], _read(call[1]))
            case "volley":
                batches = {int(client): _read(batch) for client, batch in call[0].items()}
                pair.volley(batches, [(client, turn) for client, turn in call[1]])
            case "cut":
                pair.cut(call[0], bytes.fromhex(call[1]))
            case "greet":
                pair.greet(call[0], bytes.fromhex(call[1]))
            case "take_forsaken":
                pair.take_forsaken(call[0])
            case _:
                pair.break_off(call[0], bytes.fromhex(call[1]))
    return pair


def recorded(release: str) -> str:
    """Return the recording of a release."""
    return lzma.decompress((FOLDER / f"{release}.jsonl.xz").read_bytes()).decode()


def tell_stories(pair: Pair) -> None:
    """Play the stories of test_differential.py, but those of time and of more than a connection."""
    lists_keep_their_order(pair)
    sequence_numbers_alike(pair)
    identities_in_order(pair)
    the_longest_request(pair)
    for data in BROKEN_FRAMES:
        broken_frames(pair, data)
    if pair.rules.enforces_quotas:
        quotas_alike(pair)
        texts_of_quotas(pair)


def record(folder: Path, release: str) -> None:
    """Record a seed's traffic with a real server of a release."""
    with real_release(release, folder) as server, closing(RecordingArm(server.port)) as arm:
        pair = RecordingPair(arm, release)
        pair.play(SEED)
        tell_stories(pair)
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{release}.jsonl.xz").write_bytes(lzma.compress(pair.text().encode(), preset=9))
        print(f"{release}: {pair.requests} requests")


def main(command: str, folder: str, *releases: str) -> None:
    assert command == "record"
    for release in releases or NEWEST_OF_LINES:
        record(Path(folder).expanduser().resolve(), release)


if __name__ == "__main__":
    main(*sys.argv[1:])
