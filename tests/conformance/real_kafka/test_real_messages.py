"""Kafka's own classes read and write the messages that simzk encodes, and accept and reject the same malformed bytes.

One Java process reads random messages of every version of every message, and as many mutations of them.
"""

from __future__ import annotations

import base64
import json
import math
import os
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode, decode_at, encode
from simzk.kafka.protocol.schema import Field, message_names
from simzk.kafka.protocol.structs import Message, ProtocolError, Struct
from tests.conformance.real_kafka.releases import RELEASES, jars, why_not
from tests.kafka.protocol.make_table import TABLE, definitions_of, table_text
from tests.kafka.protocol.mutations import mutated
from tests.kafka.protocol.plain import random_message

if TYPE_CHECKING:
    from collections.abc import Iterable

WHY_NOT = why_not()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.xdist_group("real_kafka"),
]
RELEASE = RELEASES[-1]
DEFINED_IN = ("kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator")
ROUNDS = 3
SEEDS = range(2, 2 + int(os.environ.get("SIMZK_FUZZ_SEEDS", "1")))
"""Seeds of the mutated messages; each has 10,230 of them."""
JAVA_S = 240


class Sent(NamedTuple):
    """Bytes of a message, perhaps changed, and the message."""

    kind: type[Message]
    version: int
    data: bytes
    message: Message
    written: int
    """Version in which Kafka writes the message."""


class Answer(NamedTuple):
    """Result of Kafka's class: the number of bytes read, the bytes written, the fields; or the error.

    If it cannot write them (a tag is there twice, the version lacks a field), the fields are the name of an error.
    """

    read: int = 0
    written: bytes = b""
    fields: dict[str, Any] | str = ""
    error: str = ""


def java_class(kind: type[Message]) -> str:
    """Return the name of Kafka's class."""
    schema = kind.MESSAGE
    if schema.kind != "data":
        return f"org.apache.kafka.common.message.{schema.name}Data"
    if schema.name.startswith("TransactionLog"):
        return f"org.apache.kafka.coordinator.transaction.generated.{schema.name}"
    if schema.name.endswith(("Key", "Value")):
        return f"org.apache.kafka.coordinator.group.generated.{schema.name}"
    return f"org.apache.kafka.common.message.{schema.name}"


def ask_kafka(sent: Iterable[Sent]) -> list[Answer]:
    """Return what Kafka's classes make of bytes."""
    lines = [f"{java_class(one.kind)} {one.version} {one.written} {one.data.hex()}\n" for one in sent]
    program = str(Path(__file__).with_name("Messages.java"))
    command = ["java", "-Xmx512m", "-cp", f"{jars(RELEASE)}/*", program]
    done = subprocess.run(command, input="".join(lines).encode(), capture_output=True, check=True, timeout=JAVA_S)
    return [parse(line) for line in done.stdout.decode().split("\n")[:-1]]


def parse(line: str) -> Answer:
    """Return the answer of one line."""
    word, _, rest = line.partition(" ")
    if word == "error":
        return Answer(error=rest)
    read, written, fields = rest.split(" ", 2)
    return Answer(int(read), bytes.fromhex(written), json.loads(fields))


def valid_messages(seed: int) -> list[Sent]:
    """Return random messages of every version."""
    rng = random.Random(seed)
    found = []
    for _ in range(ROUNDS):
        for name in message_names():
            kind = message_class(name)
            for version in kind.MESSAGE.versions:
                message = random_message(rng, kind, version)
                found.append(Sent(kind, version, encode(message, version), message, version))
    return found


def as_kafka_writes(value: Any, field: Field, version: int) -> Any:
    """Return a field's value as in Kafka's JSON."""
    if value is None:
        return None
    if field.is_array and field.struct is not None:
        return [fields_as_kafka_writes(item, version) for item in value]
    if field.is_array:
        return list(value)
    if field.struct is not None:
        return fields_as_kafka_writes(value, version)
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    return base64.b64encode(value).decode() if field.kind == "bytes" else value


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def fields_as_kafka_writes(value: Struct, version: int) -> dict[str, Any]:
    """Return a struct as in Kafka's JSON: of records the size, and no tagged field with its default."""
    found: dict[str, Any] = {}
    fresh = type(value)()
    defaults = {field.name: getattr(fresh, field.attribute) for field in value.SCHEMA.fields}
    for field in value.SCHEMA.fields:
        if version not in field.versions:
            continue
        name, attribute = field.name[0].lower() + field.name[1:], getattr(value, field.attribute)
        if field.kind == "records" and attribute is not None:
            found[name + "SizeInBytes"] = len(attribute)
        elif version not in field.tagged or (tuple(attribute) if field.is_array else attribute) != defaults[field.name]:
            found[name] = as_kafka_writes(attribute, field, version)
    return found


def test_kafka_reads_the_same_fields_and_writes_the_same_bytes() -> None:
    sent = valid_messages(1)
    for one, answer in zip(sent, ask_kafka(sent), strict=True):
        name = one.kind.MESSAGE.name
        assert not answer.error, (name, one.version, answer.error)
        assert (answer.read, answer.written) == (len(one.data), one.data), (name, one.version)
        assert fields_as_kafka_writes(one.message, one.version) == answer.fields, (name, one.version)


@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_accepts_and_rejects_the_same_bytes(seed: int) -> None:
    rng = random.Random(seed)
    sent = [one._replace(data=mutated(rng, one.data)) for one in valid_messages(seed) for _ in range(5)]
    differences = [
        f"{one.kind.MESSAGE.name} v{one.version}: {found}; {one.data.hex()}"
        for one, answer in zip(sent, ask_kafka(sent), strict=True)
        if (found := difference(one, answer))
    ]
    assert differences == []


def difference(sent: Sent, answer: Answer) -> str:
    """Return how simzk and Kafka differ about some bytes, empty if they do not."""
    try:
        message, end = decode_at(sent.kind, sent.version, sent.data, 0)
    except ProtocolError as error:
        return "" if answer.error else f"accepted by Kafka: {error}"
    if answer.error:
        return f"rejected by Kafka: {answer.error}"
    if answer.read != end:
        return f"Kafka read {answer.read} bytes, not {end}"
    if isinstance(answer.fields, str):
        return ""  # it cannot write what it has read
    if fields_as_kafka_writes(message, sent.version) != answer.fields:
        return f"other fields: {answer.fields}"
    return "" if answer.written == encode(message, sent.version) else f"wrote {answer.written.hex()}"


def in_other_version(sent: Sent) -> bytes | None:
    """Return what simzk writes for a message that it has read in another version; None if it cannot."""
    try:
        return encode(decode(sent.kind, sent.version, sent.data), sent.written)
    except ProtocolError:
        return None


def test_kafka_writes_the_same_messages_in_older_versions() -> None:
    """A value that an older version lacks is an error, or dropped if it is ignorable."""
    rng = random.Random(3)
    sent = []
    for name in message_names():
        kind = message_class(name)
        for version in kind.MESSAGE.versions:
            for older in range(kind.MESSAGE.versions.low, version):
                message = random_message(rng, kind, version, sparse=True)
                sent.append(Sent(kind, version, encode(message, version), message, older))
    written = 0
    for one, answer in zip(sent, ask_kafka(sent), strict=True):
        place = one.kind.MESSAGE.name, one.version, one.written
        data = in_other_version(one)
        assert (data is None) == isinstance(answer.fields, str), place
        assert data is None or data == answer.written, place
        written += data is not None
    assert len(sent) // 4 < written < len(sent)


def test_the_table_is_made_from_the_jars() -> None:
    found = [jar for name in DEFINED_IN for jar in jars(RELEASE).glob(f"{name}-{RELEASE.version}.jar")]
    assert table_text(definition for jar in found for definition in definitions_of(jar)) == TABLE.read_text()
