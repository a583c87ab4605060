"""Schemas of messages, parsed from the table of definitions on first use.

A line of the table begins a message (`request 3 MetadataRequest 0-13 flexible 9+`), begins a struct that several fields
share (`struct Name`), or is a field; the fields of a struct are indented below it:

    Name type versions [null versions] [tag number versions] [default value] [ignorable] [inflexible]

  - a type is a primitive, the name of a struct, or either of them after `[]`;
  - versions are `2`, `0-3` or `4+`. A field is nullable, or tagged, in the versions after `null` and `tag`;
  - `ignorable`: a value is dropped if the version lacks the field. Otherwise any value but the default is an error;
  - `inflexible`: encoded as in versions that are not flexible, in every version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from simzk.kafka.protocol.definitions import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

Default: TypeAlias = int | float | bool | str | bytes | tuple[()] | None

NUMBERS = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}
"""Primitive types of fixed size with the letter of `struct`; uuid is the only other one."""
ZERO_UUID = "A" * 22
"""128 zero bits in Kafka's base64 form; as a topic id: none."""
_DEFAULTS: dict[str, Default] = dict.fromkeys(NUMBERS, 0) | {
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": ZERO_UUID,
}
PRIMITIVES = frozenset(_DEFAULTS)
HIGHEST_VERSION = 32767


@dataclass(frozen=True, slots=True)
class Versions:
    """Range of versions, empty if `high` is less than `low`.

    >>> 3 in Versions.parse("0-3"), 4 in Versions.parse("0-3"), 99 in Versions.parse("4+"), str(Versions.parse("4+"))
    (True, False, True, '4+')
    """

    low: int = 0
    high: int = -1

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Return the range that a definition writes as `2`, `0-3`, `4+` or `none`."""
        if text == "none":
            return cls()
        if text.endswith("+"):
            return cls(int(text[:-1]), HIGHEST_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __str__(self) -> str:
        if self.high < self.low:
            return "none"
        if self.high == HIGHEST_VERSION:
            return f"{self.low}+"
        return f"{self.low}-{self.high}" if self.low != self.high else str(self.low)


@dataclass(slots=True)
class Field:
    """One field of a struct: its type, the versions that have it, its default."""

    name: str
    kind: str
    """Type of the value, or of an item of the array."""
    is_array: bool
    versions: Versions
    nullable: Versions = field(default_factory=Versions)
    tag: int = -1
    tagged: Versions = field(default_factory=Versions)
    default: Default = None
    ignorable: bool = False
    inflexible: bool = False
    struct: StructSchema | None = None
    attribute: str = field(init=False)
    """Name of the attribute: the field's name in snake_case."""

    def __post_init__(self) -> None:
        self.attribute = attribute_name(self.name)


@dataclass(slots=True)
class StructSchema:
    """Fields of a struct in the order of their definition."""

    name: str
    fields: list[Field] = field(default_factory=list)

    def of_version(self, version: int) -> list[Field]:
        """Return the fields that a version has outside its tagged section."""
        return [field for field in self.fields if version in field.versions and version not in field.tagged]

    def tagged_in(self, version: int) -> list[Field]:
        """Return the tagged fields of a version in the order of their tags."""
        tagged = (field for field in self.fields if version in field.versions and version in field.tagged)
        ordered = sorted(tagged, key=lambda field: field.tag)
        assert len({field.tag for field in ordered}) == len(ordered), f"{self.name} has a tag twice"
        return ordered


@dataclass(slots=True)
class MessageSchema:
    """Definition of a message in all its versions."""

    name: str
    kind: str
    """request, response, header or data."""
    api_key: int
    """-1 for a header and for data."""
    versions: Versions
    flexible: Versions
    root: StructSchema
    structs: dict[str, StructSchema]
    """Structs by name, without the root."""


_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def attribute_name(name: str) -> str:
    """Return a field's name as an attribute.

    >>> attribute_name("TopicId"), attribute_name("isKRaftController"), attribute_name("V0Host")
    ('topic_id', 'is_kraft_controller', 'v0_host')
    """
    return _WORDS.sub("_", name.replace("KRaft", "Kraft")).lower()


def _parse_default(kind: str, text: str) -> Default:
    if text == "null":
        return None
    if kind == "bool":
        return text == "true"
    return float(text) if kind == "float64" else int(text, 0)


def _parse_field(line: str, structs: dict[str, StructSchema]) -> Field:
    name, kind, versions, *options = line.split()
    is_array, kind = kind.startswith("[]"), kind.removeprefix("[]")
    parsed = Field(name, kind, is_array, Versions.parse(versions), default=() if is_array else _DEFAULTS.get(kind))
    words = iter(options)
    for word in words:
        if word == "null":
            parsed.nullable = Versions.parse(next(words))
        elif word == "tag":
            parsed.tag, parsed.tagged = int(next(words)), Versions.parse(next(words))
        elif word == "default":
            parsed.default = _parse_default("null" if is_array else kind, next(words))
        else:
            assert word in ("ignorable", "inflexible"), line
            setattr(parsed, word, True)
    if kind not in PRIMITIVES:
        parsed.struct = structs.setdefault(kind, StructSchema(kind))
    assert parsed.versions.low <= parsed.versions.high, f"{name} is in no version"
    assert (parsed.tag >= 0) == (parsed.tagged.high >= 0), f"{name} has a tag in no version, or none in some"
    assert parsed.default is not None or is_array or parsed.struct is not None or parsed.nullable.high >= 0, line
    return parsed


def parse_message(text: str) -> MessageSchema:
    """Return the schema of one message of the table.

    >>> schema = parse_message("request 17 SaslHandshakeRequest 0-1 flexible none\\n  Mechanism string 0+")
    >>> schema.api_key, schema.versions.high, schema.root.fields[0].name
    (17, 1, 'Mechanism')
    """
    head, *lines = text.splitlines()
    kind, *key, name, versions, _, flexible = head.split()
    root, structs = StructSchema(name), dict[str, StructSchema]()
    open_structs = [root]
    assert bool(key) == (kind in ("request", "response")), f"{name} is a {kind}"
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        if line.startswith("  struct "):
            owner = structs.setdefault(line.split()[1], StructSchema(line.split()[1]))
            open_structs = [root, owner]
            continue
        parsed = _parse_field(line, structs)
        assert 1 <= depth <= len(open_structs), f"{line!r} of {name} is in no struct"
        open_structs[depth - 1].fields.append(parsed)
        if parsed.struct is not None:
            open_structs[depth:] = [parsed.struct]
    assert name not in structs, f"{name} is a struct in itself"
    assert all(struct.fields for struct in structs.values()), f"a struct of {name} has no fields"
    return MessageSchema(
        name, kind, int(key[0]) if key else -1, Versions.parse(versions), Versions.parse(flexible), root, structs
    )


@cache
def _texts() -> dict[str, str]:
    """Return the table's text of each message by name."""
    texts = {}
    for text in re.split(r"\n(?=\S)", DEFINITIONS.strip()):
        head = text.partition("\n")[0].split()
        assert head[-4] not in texts, f"two definitions of {head[-4]}"
        texts[head[-4]] = text
    return texts


def message_names() -> list[str]:
    """Return the names of all messages in the order of the table."""
    return list(_texts())


@cache
def message_schema(name: str) -> MessageSchema:
    """Return the schema of a message by its name; KeyError if there is none.

    >>> message_schema("MetadataRequest").api_key
    3
    """
    return parse_message(_texts()[name])


@cache
def _by_api_key() -> dict[tuple[str, int], str]:
    heads = (text.partition("\n")[0].split() for text in _texts().values())
    return {(head[0], int(head[1])): head[2] for head in heads if head[0] in ("request", "response")}


def message_name(kind: str, api_key: int) -> str | None:
    """Return the name of the request or response of an API key, None if it is unknown.

    >>> message_name("response", 18)
    'ApiVersionsResponse'
    """
    assert kind in ("request", "response"), f"a {kind} has no API key"
    return _by_api_key().get((kind, api_key))
