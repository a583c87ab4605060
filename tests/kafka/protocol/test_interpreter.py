"""Random messages as an interpreter of Kafka's definitions encodes them: `data/vectors.jsonl.gz`.

The interpreter was written independently and shares no code with simzk: it walks the JSON definitions of Kafka's jars
field by field. It reads all recorded answers of real brokers and writes the same bytes again. The vectors have two
random messages of every version of every message, and its default values:

    python -m tests.kafka.protocol.test_interpreter FOLDER DEFINITIONS

makes them anew; FOLDER has the interpreter's `messages.py`, DEFINITIONS the JSON files of the jars.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode, encode
from simzk.kafka.protocol.schema import message_names
from tests.kafka.protocol.plain import from_plain, random_message, to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

VECTORS = Path(__file__).with_name("data") / "vectors.jsonl.gz"
SEED = 20
VERSIONS = sum(len(list(message_class(name).MESSAGE.versions)) for name in message_names())


def vectors() -> Iterator[tuple[str, int, dict[str, Any], bytes]]:
    """Read the vectors: name, version, fields, bytes."""
    with gzip.open(VECTORS, "rt") as lines:
        for line in lines:
            name, version, body, data = json.loads(line)
            yield name, version, unread(body), bytes.fromhex(data)


def readable(value: Any) -> Any:
    """Return a value with hexadecimal text for bytes, for JSON."""
    if isinstance(value, dict):
        return {name: readable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [readable(item) for item in value]
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def unread(value: Any) -> Any:
    """Return the value that `readable` was called with."""
    if isinstance(value, list):
        return [unread(item) for item in value]
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]) if "hex" in value else {name: unread(item) for name, item in value.items()}
    return value


def test_every_version_of_every_message_has_vectors() -> None:
    found = {(name, version) for name, version, _, _ in vectors()}
    assert len(found) == VERSIONS == 682
    assert {name for name, _ in found} == set(message_names())


def test_messages_encode_to_the_bytes_of_the_interpreter() -> None:
    for name, version, body, data in vectors():
        assert encode(from_plain(message_class(name), body), version) == data, (name, version, body)


def test_bytes_of_the_interpreter_decode_to_its_fields() -> None:
    for name, version, body, data in vectors():
        message = decode(message_class(name), version, data)
        assert message == from_plain(message_class(name), body), (name, version)
        if body:
            assert to_plain(message, version) == body, (name, version)
        assert encode(message, version) == data, (name, version)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_messages_are_decoded_as_they_were(seed: int) -> None:
    rng = random.Random(seed)
    for name in message_names():
        kind = message_class(name)
        for version in kind.MESSAGE.versions:
            message = random_message(rng, kind, version)
            assert decode(kind, version, encode(message, version)) == message, (name, version, seed)


def make(interpreter: Any) -> Iterator[str]:
    """Yield the lines of new vectors."""
    rng = random.Random(SEED)
    for name in message_names():
        kind = message_class(name)
        for version in kind.MESSAGE.versions:
            for body in ({}, *(to_plain(random_message(rng, kind, version), version) for _ in range(2))):
                data = interpreter.encode(name, version, body)
                yield json.dumps([name, version, readable(body), data.hex()], separators=(",", ":"))


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    import messages  # type: ignore[import-not-found]

    with gzip.GzipFile(VECTORS, "wb", mtime=0) as out:
        out.write("\n".join(make(messages.Messages(sys.argv[2]))).encode())
