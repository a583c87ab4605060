"""Kafka's own classes answer requests with errors as simzk does: every version of every request of clients."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from simzk.kafka.client_requests.error_responses import error_response
from simzk.kafka.protocol.classes import request_class, response_class, struct_classes
from simzk.kafka.protocol.codec import decode, encode
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.structs import Struct
from simzk.kafka.releases.api_versions import api_names
from tests.conformance.real_kafka.releases import RELEASES, jars, why_not

if TYPE_CHECKING:
    from simzk.kafka.protocol.schema import Field
    from simzk.kafka.protocol.structs import Message

WHY_NOT = why_not()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.xdist_group("real_kafka"),
]
JAVA_S = 240
ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)
BETWEEN_BROKERS = {4, 5, 6, 7, 27, 56, 58, 67}
"""API keys of requests that no client sends."""
ITEMS = 2
ENUMS = {
    "key_type": 0,
    "coordinator_type": 0,
    "election_type": 0,
    "config_operation": 0,
    "acks": -1,
    "isolation_level": 0,
}
"""Values of fields that Kafka's classes check."""


def filled(field: Field, kind: str, version: int, number: int, classes: dict[str, type[Struct]]) -> Any:
    """Return a value of a field, which differs from the one with another number."""
    if field.struct is not None:
        return struct(classes[kind], version, number, classes)
    texts = {
        "string": f"{field.attribute}-{number}",
        "bytes": b"b",
        "records": b"",
        "uuid": "A" * 20 + "QEgw"[number] + "A",
    }
    plain: Any = ENUMS.get(field.attribute, texts.get(kind, number))
    return bool(number % 2) if kind == "bool" else float(number) if kind == "float64" else plain


def struct(kind: type[Struct], version: int, number: int, classes: dict[str, type[Struct]]) -> Any:
    """Return a struct with a value in each field of a version, and two items in each list."""
    values: dict[str, Any] = {}
    for field in kind.SCHEMA.fields:
        if version in field.versions:
            made = [filled(field, field.kind, version, at, classes) for at in (number, *range(1, ITEMS + 1))]
            values[field.attribute] = made[1:] if field.is_array else made[0]
    return kind(**values)


def requests() -> list[tuple[int, int, Message]]:
    """Return a request of every version of every API, with its key and version."""
    made = []
    for key in api_names():
        kind = request_class(key)
        assert kind is not None
        if key not in BETWEEN_BROKERS:
            classes = dict(struct_classes(kind))
            made += [(key, version, struct(kind, version, 1, classes)) for version in kind.MESSAGE.versions]
    return made


def comparable(value: Any) -> Any:
    """Return a message as plain values; lists are sorted, because a hash map orders some of them."""
    if isinstance(value, Struct):
        return {name: comparable(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list | tuple):
        return sorted(map(comparable, value), key=repr)
    return value


def answered(asked: list[tuple[int, int, Message]], error: ErrorCode) -> list[str]:
    """Return what Kafka's classes answer."""
    lines = [f"{key} {version} {error.value} {encode(request, version).hex()}" for key, version, request in asked]
    source = Path(__file__).with_name("ErrorResponses.java")
    command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars(RELEASES[-1])}/*", str(source)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=JAVA_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.name)
def test_answers_with_an_error_are_those_of_kafka(error: ErrorCode) -> None:
    asked = requests()
    differences = []
    for (key, version, request), line in zip(asked, answered(asked, error), strict=True):
        word, _, data = line.partition(" ")
        kind = response_class(key)
        assert kind is not None
        real: Any = decode(kind, version, bytes.fromhex(data)) if word == "ok" else line
        ours = error_response(request, version, error)
        encoded: Any = "none" if ours is None else decode(kind, version, encode(ours, version))
        if comparable(real) != comparable(encoded):
            differences.append(f"{kind.MESSAGE.name} {version}\n  real {real}\n  ours {encoded}")
    assert not differences, "\n".join(differences)
