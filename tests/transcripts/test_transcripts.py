"""Recorded bytes of real clients and a real ZooKeeper: they decode alike in any pieces, and encode to the same bytes.

Data: data/*.json, made by record.py (README.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from simzk.wire.connections import Incoming, Received, ServerConnection
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code, ConnectResponse, OperationResult, Reply, WatchedEvent
from tests.transcripts.transcript import DATA, Streams, Transcript, read
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TRANSCRIPTS = {path.stem: read(path) for path in sorted(DATA.glob("*.json"))}
STREAMS = [
    pytest.param(streams, id=f"{name}-{number}")
    for name, transcript in TRANSCRIPTS.items()
    for number, streams in enumerate(transcript.connections)
]
T = TypeVar("T")
Said = ConnectResponse | Reply | WatchedEvent


def written_again(asked: Sequence[Received], client: ClientConnection) -> bytes:
    """Return the bytes of a decoded request in the client's codec."""
    connect, *requests = asked
    assert isinstance(connect, req.ConnectRequest)
    out = client.connect(connect)
    for one in requests:
        assert isinstance(one, Incoming)
        out += client.request(one.xid, one.request)
    return out


def client_that_asked(asked: Sequence[Received]) -> ClientConnection:
    client = ClientConnection()
    written_again(asked, client)
    return client


def heard(receive: Callable[[bytes], list[T]], *pieces: bytes) -> list[T]:
    return [one for piece in pieces for one in receive(piece)]


def asked_and_said(streams: Streams) -> tuple[list[Received], list[Said]]:
    asked = ServerConnection().receive_data(streams.to_server)
    return asked, client_that_asked(asked).receive_data(streams.to_client)


def single_bytes(data: bytes) -> Iterator[bytes]:
    return (bytes([byte]) for byte in data)


@pytest.mark.parametrize("streams", STREAMS)
def test_requests_cut_at_every_byte_read_alike(streams: Streams) -> None:
    data = streams.to_server
    whole = ServerConnection().receive_data(data)
    assert heard(ServerConnection().receive_data, *single_bytes(data)) == whole
    for cut in range(len(data) + 1):
        assert heard(ServerConnection().receive_data, data[:cut], data[cut:]) == whole, cut


@pytest.mark.parametrize("streams", STREAMS)
def test_replies_and_events_cut_at_every_byte_read_alike(streams: Streams) -> None:
    data = streams.to_client
    asked, whole = asked_and_said(streams)
    assert heard(client_that_asked(asked).receive_data, *single_bytes(data)) == whole
    for cut in range(len(data) + 1):
        assert heard(client_that_asked(asked).receive_data, data[:cut], data[cut:]) == whole, cut


@pytest.mark.parametrize("streams", STREAMS)
def test_both_ends_write_what_was_recorded(streams: Streams) -> None:
    server = ServerConnection()
    asked = server.receive_data(streams.to_server)
    client = ClientConnection()
    assert written_again(asked, client) == streams.to_server
    assert server.encode(*client.receive_data(streams.to_client)) == streams.to_client


# What the transcripts are for: each of these must be among them, or the tests above prove less than they say.


def conversation(transcript: Transcript) -> tuple[list[Received], list[Said]]:
    """All of a client's connections one behind the other."""
    pairs = [asked_and_said(streams) for streams in transcript.connections]
    return [one for asked, _ in pairs for one in asked], [one for _, said in pairs for one in said]


def test_every_client_has_its_transcript() -> None:
    assert set(TRANSCRIPTS) == {
        "c", "curator", "go", "java_client", "kazoo", "node", "without_read_only", "zkcli",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 60_000


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_every_client_reads_writes_and_hears_events(name: str) -> None:
    asked, said = conversation(TRANSCRIPTS[name])
    kinds = {type(one.request) for one in asked if isinstance(one, Incoming)}
    assert kinds >= {req.GetData, req.SetData}
    assert kinds & {req.Create, req.Create2}
    assert any(isinstance(one, WatchedEvent) for one in said)
    replies = [one for one in said if isinstance(one, Reply)]
    results = [result for reply in replies if isinstance(reply.body, list) for result in reply.body]
    assert any(one.error for one in (*replies, *results) if isinstance(one, Reply | OperationResult))


@pytest.mark.parametrize("name", sorted(set(TRANSCRIPTS) - {"zkcli"}))
def test_every_program_sends_a_multi_and_comes_back_to_its_session(name: str) -> None:
    asked, said = conversation(TRANSCRIPTS[name])
    assert any(isinstance(one, Incoming) and isinstance(one.request, req.Multi) for one in asked)
    sessions = [one.session_id for one in said if isinstance(one, ConnectResponse)]
    wanted = [one.session_id for one in asked if isinstance(one, req.ConnectRequest)]
    assert sessions[:2] == [sessions[0]] * 2
    assert wanted[:2] == [0, sessions[0]]


@pytest.mark.parametrize("name", ["kazoo", "zkcli", "without_read_only"])
def test_sessions_are_closed_in_words(name: str) -> None:
    asked, said = conversation(TRANSCRIPTS[name])
    closed = [one.xid for one in asked if isinstance(one, Incoming) and isinstance(one.request, req.CloseSession)]
    assert len(closed) == 1
    assert [one.error for one in said if isinstance(one, Reply) and one.xid == closed[0]][-1] == Code.OK


def test_one_client_knows_no_read_only() -> None:
    for streams in TRANSCRIPTS["without_read_only"].connections:
        assert int.from_bytes(streams.to_server[:4], "big") == 44
        assert int.from_bytes(streams.to_client[:4], "big") == 36
