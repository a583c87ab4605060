"""A client's conversation with a real server: the bytes of each of its connections, both ways, as a file of JSON."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent / "data"


class Streams(NamedTuple):
    """Bytes of one connection."""

    to_server: bytes
    to_client: bytes


class Transcript(NamedTuple):
    """Client, server and connections in the order in which they were opened."""

    client: str
    server: str
    connections: list[Streams]


def write(name: str, transcript: Transcript) -> None:
    """Keep a transcript under a name."""
    connections = [
        {way: base64.b64encode(data).decode("ascii") for way, data in streams._asdict().items()}
        for streams in transcript.connections
    ]
    text = json.dumps({**transcript._asdict(), "connections": connections}, indent=1)
    (DATA / f"{name}.json").write_text(f"{text}\n")


def read(path: Path) -> Transcript:
    """The transcript in a file."""
    reported = json.loads(path.read_text())
    connections = [
        Streams(**{way: base64.b64decode(data, validate=True) for way, data in streams.items()})
        for streams in reported["connections"]
    ]
    return Transcript(reported["client"], reported["server"], connections)
