"""Messages as plain dictionaries with Kafka's field names, the form of recordings, and random messages.

A dictionary has the fields of one version. Bytes are `bytes`; unknown tags are under `_tags`, as hexadecimal text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simzk.kafka.protocol.classes import struct_classes
from simzk.kafka.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from simzk.kafka.protocol.schema import Field, StructSchema
    from simzk.kafka.protocol.structs import Message, Struct


def to_plain(value: Struct, version: int) -> dict[str, Any]:
    """Return a struct's fields in a version."""
    plain = {
        field.name: _to_plain(getattr(value, field.attribute), field, version)
        for field in value.SCHEMA.fields
        if version in field.versions
    }
    if value.unknown_tags:
        plain["_tags"] = {str(tag): bytes(data).hex() for tag, data in value.unknown_tags.items()}
    return plain


def _to_plain(value: Any, field: Field, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [to_plain(item, version) for item in value] if field.struct else list(value)
    if field.struct is not None:
        return to_plain(value, version)
    return bytes(value) if field.kind in ("bytes", "records") else value


def from_plain(kind: type[Message], plain: Mapping[str, Any]) -> Message:
    """Return the message of a dictionary; fields that it lacks have their defaults."""
    made = _from_plain(kind.SCHEMA, struct_classes(kind), plain)
    assert isinstance(made, kind)
    return made


def _from_plain(schema: StructSchema, classes: Mapping[str, type[Struct]], plain: Mapping[str, Any]) -> Struct:
    values: dict[str, Any] = {}
    for field in schema.fields:
        if field.name not in plain:
            continue
        value = plain[field.name]
        if field.struct is not None and value is not None:
            inner = field.struct
            value = (
                [_from_plain(inner, classes, item) for item in value]
                if field.is_array
                else _from_plain(inner, classes, value)
            )
        values[field.attribute] = value
    if "_tags" in plain:
        values["unknown_tags"] = {int(tag): bytes.fromhex(data) for tag, data in plain["_tags"].items()}
    return classes[schema.name](**values)


_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "a", "orders", "größe", "\u20ac\u4e2d", "\U0001f600 topic", "x" * 127, "y" * 128, "z" * 300)


def _uuid(rng: random.Random) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return ZERO_UUID if rng.random() < 0.2 else "".join(rng.choices(alphabet, k=21)) + rng.choice("AQgw")


_RANDOM: dict[str, Callable[[random.Random], Any]] = {
    "bool": lambda rng: rng.random() < 0.5,
    "uint16": lambda rng: rng.choice([0, 9092, 65535]),
    "uint32": lambda rng: rng.choice([0, 1, (1 << 32) - 1]),
    "float64": lambda rng: rng.choice([0.0, -1.5, 1e300, float(rng.getrandbits(40))]),
    "string": lambda rng: rng.choice(_TEXTS),
    "uuid": _uuid,
    "bytes": lambda rng: rng.randbytes(rng.choice([0, 1, 5, 130])),
    "records": lambda rng: rng.randbytes(rng.choice([0, 1, 61, 200])),
}


class _Random:
    """Random values for the fields of one version; `largest` is the length of the longest arrays of structs."""

    def __init__(self, rng: random.Random, version: int, *, tags: bool, numbers: range | None, sparse: bool) -> None:
        self.rng = rng
        self.version = version
        self.tags = tags
        self.numbers = numbers
        self.sparse = sparse

    def struct(self, schema: StructSchema, largest: int) -> dict[str, Any]:
        present = (field for field in schema.fields if self.version in field.versions)
        plain = {field.name: self.value(field, largest) for field in present if not self.is_left_out(field)}
        if self.tags and self.rng.random() < 0.2:
            data = self.rng.randbytes(self.rng.choice([0, 3, 150]))
            plain["_tags"] = {str(self.rng.choice([90, 200, 70_000])): data.hex()}
        return plain

    def is_left_out(self, field: Field) -> bool:
        """Return whether a sparse message leaves out a field: seldom an array of structs, mostly any other."""
        return self.sparse and self.rng.random() < (0.3 if field.struct is not None else 0.9)

    def value(self, field: Field, largest: int) -> Any:
        if self.version in field.nullable and self.rng.random() < 0.25:
            return None
        if self.version in field.tagged and self.rng.random() < 0.4 and field.struct is None:
            return [] if field.is_array else field.default
        if not field.is_array:
            return self.item(field, largest)
        many = 70 if field.struct is None and field.kind in _BITS else 1
        count = self.rng.choice([0, 1, 2, largest, many])
        return [self.item(field, max(1, largest // 2)) for _ in range(count)]

    def item(self, field: Field, largest: int) -> Any:
        if field.struct is not None:
            return self.struct(field.struct, largest)
        return self.signed(_BITS[field.kind]) if field.kind in _BITS else _RANDOM[field.kind](self.rng)

    def signed(self, bits: int) -> int:
        if self.numbers is not None:
            return self.rng.choice(self.numbers)
        highest, small = (1 << (bits - 1)) - 1, self.rng.randrange(-2, 5)
        return self.rng.choice([small, small, self.rng.getrandbits(bits) - highest - 1, highest])


def random_message(
    rng: random.Random,
    kind: type[Message],
    version: int,
    *,
    tags: bool = True,
    numbers: range | None = None,
    sparse: bool = False,
) -> Message:
    """Return a random message with values in all fields of a version.

    Args:
        rng: source of randomness.
        kind: class of the message.
        version: one of its versions.
        tags: add unknown tags sometimes, if the version is flexible.
        numbers: range of all signed integers [default: their whole range].
        sparse: give most fields their defaults.
    """
    drawn = _Random(rng, version, tags=tags and version in kind.MESSAGE.flexible, numbers=numbers, sparse=sparse)
    return from_plain(kind, drawn.struct(kind.SCHEMA, 3))
