"""Random messages read and written by kio and kafka-python, two codecs of other authors: same fields, same bytes.

kio follows Kafka 4's definitions, which lack the oldest versions and the requests of the ZooKeeper controller;
kafka-python has the requests of clients. What they have is compared in every version.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import random
import uuid
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from kio.index import UnknownAPIKey, UnknownEntity, load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode, encode
from simzk.kafka.protocol.encoding import uuid_bytes
from simzk.kafka.protocol.schema import message_names
from simzk.kafka.protocol.structs import Message, Struct
from tests.kafka.protocol.plain import random_message

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

# Messages that a peer reads differently, with the reason.
KIO_DIFFERS = {
    "ReadShareGroupStateSummaryResponse": "another definition in Kafka 4; in 3.9 it is not released",
}
KAFKA_PYTHON_DIFFERS = {
    "ApiVersionsResponse": "any error makes it read version 0; in Kafka only UNSUPPORTED_VERSION does",
}
SEEDS = (1, 2)


def messages(seed: int) -> Iterator[tuple[Message, int]]:
    """Yield a random message of every version, with the small numbers and known error codes that kio accepts."""
    rng = random.Random(seed)
    for name in message_names():
        kind = message_class(name)
        if kind.MESSAGE.kind in ("request", "response"):
            for version in kind.MESSAGE.versions:
                yield random_message(rng, kind, version, tags=False, numbers=range(90)), version


def kio_class(schema_name: str, api_key: int, kind: str, version: int) -> type[Any] | None:
    """Return kio's class of a message, None if it has none."""
    try:
        found = getattr(load_payload_module(api_key, version, EntityType[kind]), schema_name, None)  # type: ignore[arg-type]
    except (UnknownAPIKey, UnknownEntity):
        return None
    assert found is None or isinstance(found, type)
    return found


def kafka_python_classes() -> dict[str, type[Any]]:
    """Return kafka-python's classes by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
        package = importlib.import_module("kafka.protocol")
        for module in pkgutil.walk_packages(package.__path__, "kafka.protocol."):
            if ".old" not in module.name and "generate" not in module.name:
                importlib.import_module(module.name)
    base = importlib.import_module("kafka.protocol.api_message").ApiMessage
    return {kind.__name__: kind for kind in base.__subclasses__()}


def same(ours: Any, theirs: Any, version: int) -> bool:
    """Return whether kafka-python read the same fields."""
    if isinstance(ours, Struct):
        return all(
            same(getattr(ours, field.attribute), getattr(theirs, field.attribute), version)
            for field in ours.SCHEMA.fields
            if version in field.versions and not field.name.endswith("AuthorizedOperations")  # a set of bits there
        )
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(
            same(one, other, version) for one, other in zip(ours, theirs, strict=True)
        )
    if isinstance(theirs, uuid.UUID):
        return uuid_bytes(ours) == theirs.bytes
    if theirs is None and isinstance(ours, str) and len(ours) == 22:
        return not any(uuid_bytes(ours))
    return bool(ours == theirs)


@pytest.mark.parametrize("seed", SEEDS)
def test_kio_reads_and_writes_the_same_bytes(seed: int) -> None:
    compared = 0
    for message, version in messages(seed):
        schema = message.MESSAGE
        kind = kio_class(schema.name, schema.api_key, schema.kind, version)
        if kind is None or schema.name in KIO_DIFFERS:
            continue
        data = encode(message, version)
        read, end = entity_reader(kind)(memoryview(data), 0)
        out = io.BytesIO()
        entity_writer(kind)(out, read)
        assert (out.getvalue(), end) == (data, len(data)), (schema.name, version)
        assert decode(type(message), version, out.getvalue()) == message
        compared += 1
    assert compared == 525


@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_python_reads_the_same_fields_and_writes_the_same_bytes(seed: int) -> None:
    kinds, compared = kafka_python_classes(), 0
    for message, version in messages(seed):
        name = message.MESSAGE.name
        kind = kinds.get(name)
        if kind is None or version > kind.max_version or name in KAFKA_PYTHON_DIFFERS:
            continue
        data = encode(message, version)
        read = kind.decode(data, version=version)
        assert same(message, read, version), (name, version)
        read._header = None  # its setter of the version expects one
        assert bytes(read.encode(version=version)) == data, (name, version)
        compared += 1
    assert compared == 479
