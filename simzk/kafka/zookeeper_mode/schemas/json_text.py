r"""JSON of znodes: parsed as each Kafka release parses it, accessed by field and type, and written in Kafka's form.

Rules of parsing (docs/reference/kafka.md §1.1; kafka.utils.Json; recorded text by text in `tests/kafka/data/readers`):
  - 0.8.0 to 0.11 parse with Scala's own parser: invalid UTF-8 is replaced, control characters are allowed in strings,
    the whole text must be an object or a list with nothing behind it; a number that is no Int makes the reader fail;
  - 1.0 and later parse with Jackson: UTF-16 and UTF-32 are detected by their zeros, a byte order mark is skipped, text
    behind the value is ignored; numbers of any size are read;
  - no data is no JSON; from Jackson 2.10 on (2.2.2, 2.3.1 and later) it is a missing value, and every reader fails;
  - Jackson 2.15 and later (3.7 and later) reject numbers of more than 1000 characters and nesting deeper than 1000;
  - of a repeated field the last one counts;
  - Scala's parser returns immutable maps, whose order is that of hashes from five fields on; Jackson keeps the order of
    the text.

Rules of fields and of writing:
  - the output is compact and keeps the given order of fields, as from 0.8.1 on; 0.8.0 adds spaces and sorts;
  - a missing field, or a field of another type, is a `ZnodeError` that names path, field and reason.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal, TypeGuard

from simzk.errors import ZnodeError
from simzk.jvm.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, parse_int
from simzk.jvm.scala_collections import immutable_order
from simzk.kafka.releases.since import Profile, at_release, before, by_release, since

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

MAX_NUMBER_LENGTH: Final = 1000
MAX_DEPTH: Final = 1000
_SHOWN: Final = 60
_BLANKS: Final = " \t\n\r"
_CONTROLS: Final = "".join(map(chr, range(33)))
_LONG_NUMBER: Final = re.compile(rb"[0-9.eE+-]{%d}" % (MAX_NUMBER_LENGTH + 1))
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class NoJsonError(ZnodeError):
    """The data are not JSON: Kafka logs it and continues as if the znode were missing.

    Any other `ZnodeError` of a codec is an exception in Kafka, which ends the operation that reads the znode.
    """


class Reading(Profile):
    """Rules of a release for reading znodes: parser, limits, and the fields that are read."""

    parser: Literal["scala", "jackson"] = by_release("scala", ((1, 0), "jackson"))
    """JSON parser: Scala's own, or Jackson."""
    empty_is_missing: bool = since((2, 2))
    """No data is a missing value, which no reader accepts, rather than invalid JSON (Jackson 2.10)."""
    limits_sizes: bool = since((3, 7))
    """Long numbers and deep nesting are rejected (Jackson 2.15)."""
    accepts_old_forms: bool = before((1, 1))
    """`/controller` may be a bare number, and a registration may lack `jmx_port`."""
    requires_config_version: bool = before((1, 1))
    """A configuration must contain version 1."""
    has_reassignments: bool = since((2, 4))
    """Topic znodes contain `adding_replicas` and `removing_replicas` (KIP-455)."""
    has_topic_ids: bool = since((2, 8))
    """Topic znodes contain `topic_id` (KIP-516)."""
    has_recovery_state: bool = since((3, 2))
    """Partition states contain `leader_recovery_state` (KIP-704)."""
    has_broker_features: bool = since((2, 7))
    """Registrations contain `features` (KIP-584)."""
    accepts_forms_of_3_3: bool = since((3, 3))
    """`/feature` may be of version 2, which has no lowest level; a token may be of version 3."""
    rejects_unknown_acls: bool = before((2, 5))
    """Types, permissions and operations of ACLs must be known."""
    has_endpoints: bool = since((0, 9))
    """Registrations have a version and endpoints."""


LENIENT: Final = at_release(Reading, (3, 6)).replace(accepts_old_forms=True, empty_is_missing=False)
"""Accept everything that any release accepts: used for clusters of an unknown release."""


class _NotAnIntError(ValueError):
    """Number that is not a 32-bit integer, in text for Scala's parser."""


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _int_or_fail(text: str) -> int:
    if (number := parse_int(text)) is None:
        raise _NotAnIntError(text)
    return number


def _int_or_huge(text: str) -> int | float:
    """Parse a number; one that is too long for any field becomes infinite."""
    return int(text) if len(text) <= MAX_NUMBER_LENGTH else float("inf")


def _in_immutable_map(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return the fields of an object in the order of the immutable map that Scala's parser makes."""
    fields = dict(pairs)
    return {key: fields[key] for key in immutable_order(fields, "2.12")}


_EXACT: Final = json.JSONDecoder(parse_constant=_refuse_constant)
"""Shared decoder: `json.loads` with an option creates one for each call."""
_HUGE: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_int_or_huge)
_SCALA: Final = json.JSONDecoder(
    object_pairs_hook=_in_immutable_map,
    parse_constant=_refuse_constant,
    parse_int=_int_or_fail,
    parse_float=_int_or_fail,
    strict=False,
)


def shown(value: object) -> str:
    """Return the beginning of a JSON value for a message.

    >>> shown({"a": [1]}), len(shown("x" * 100))
    ('{"a": [1]}', 63)
    """
    try:
        text = json.dumps(value)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read_value(path: str, data: bytes | None, reading: Reading = LENIENT) -> JsonValue:
    r"""Parse the JSON value of a znode.

    Args:
        path: path of the znode; named in errors.
        data: data of the znode.
        reading: rules of the release.

    Raises:
        NoJsonError: the data are not JSON, or there are none.
        ZnodeError: Kafka's parser throws an exception.

    >>> read_value("/p", b'\xef\xbb\xbf{"a":1} and more')
    {'a': 1}
    """
    if data is None or not data.strip(b" \t\n\r"):
        what = "has no data" if not data else "has blank data"
        fails = data is None or reading.empty_is_missing
        raise (ZnodeError if fails else NoJsonError)(what, where=path, right="JSON")
    try:
        return _parse_as_scala(data) if reading.parser == "scala" else _parse_as_jackson(data, reading)
    except _NotAnIntError as error:
        raise ZnodeError(f"contains the number {shown(str(error))}", where=path, right="numbers of 32 bits") from None
    except (ValueError, RecursionError) as error:
        why = "too deep" if isinstance(error, RecursionError) else error
        what = f"contains {data[:_SHOWN]!r}, which is no JSON ({why})"
        raise NoJsonError(what, where=path, right="JSON") from None


def _parse_as_scala(data: bytes) -> JsonValue:
    text = data.decode(errors="replace").strip(_CONTROLS)
    if text[:1] not in ("{", "["):
        raise ValueError("neither an object nor a list")
    value: JsonValue = _SCALA.decode(text)
    return value


def _parse_as_jackson(data: bytes, reading: Reading) -> JsonValue:
    value: JsonValue
    try:
        value = _EXACT.decode(data.decode())
    except (ValueError, RecursionError):
        value = _parse_leniently(data)
    if reading.limits_sizes and len(data) > MAX_DEPTH:
        _reject_excess(data, value)
    return value


def _parse_leniently(data: bytes) -> JsonValue:
    """Parse text in other encodings, with text behind the value, or with numbers too long for Python."""
    text = data.decode(json.detect_encoding(data), errors="surrogateescape")
    begin = len(text) - len(text.lstrip(_BLANKS))
    value: JsonValue
    value, end = _HUGE.raw_decode(text, begin)
    if any("\udc80" <= character <= "\udcff" for character in text[begin:end]):
        raise ValueError("invalid UTF-8")
    is_scalar = not isinstance(value, dict | list | str)
    if is_scalar and end < len(text) and text[end] not in _BLANKS and text[end] != "\0":
        raise ValueError("text follows without a space")
    return value


def _reject_excess(data: bytes, value: JsonValue) -> None:
    """Raise ValueError for JSON that exceeds the limits of Jackson 2.15 (StreamReadConstraints)."""
    if _LONG_NUMBER.search(data) and _LONG_NUMBER.search(_STRING.sub(b"", data)):
        raise ValueError(f"a number of more than {MAX_NUMBER_LENGTH} characters")
    inside, depth = [value] if data.count(b"[") + data.count(b"{") > MAX_DEPTH else [], 0
    while level := [node for node in inside if isinstance(node, dict | list)]:
        inside = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH}")


def write(value: object) -> bytes:
    """Encode compact JSON in the order of the dictionaries; a lone surrogate becomes a question mark.

    >>> write({"version": 1, "isr": [1, 2]})
    b'{"version":1,"isr":[1,2]}'
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def write_spaced(value: object) -> bytes:
    """Encode JSON as Kafka 0.8.0 does: with spaces, fields sorted by their text, nothing escaped.

    >>> write_spaced({"version": 1, "isr": [1, 2]})
    b'{ "isr":[ 1, 2 ], "version":1 }'
    """
    return _spaced(value).encode(errors="replace")


def _spaced(value: object) -> str:
    match value:
        case dict():
            fields = sorted(f'"{key}":{_spaced(item)}' for key, item in value.items())
            return f"{{ {', '.join(fields)} }}"
        case list() | tuple():
            return f"[ {', '.join(map(_spaced, value))} ]"
        case str():
            return f'"{value}"'
    return str(value)


class JsonObject:
    """JSON object of a znode, with access to fields by type.

    Args:
        path: path of the znode; named in errors.
        fields: the object.
        prefix: place of the object in the document, such as `partitions[2].`.
    """

    def __init__(self, path: str, fields: dict[str, JsonValue], prefix: str = "") -> None:
        self.path = path
        self.fields = fields
        self._prefix = prefix

    def integer(self, field: str, default: int | None = None) -> int:
        """Return a 32-bit integer; `default` if it is given and the field is missing."""
        value = self.fields.get(field)
        if value is None and default is not None and field not in self.fields:
            return default
        if not is_int(value):
            raise self.wrong(field, "a whole number of 32 bits")
        return value

    def long(self, field: str) -> int:
        """Return a 64-bit integer."""
        value = self.fields.get(field)
        if not isinstance(value, int) or isinstance(value, bool) or not LONG_MIN <= value <= LONG_MAX:
            raise self.wrong(field, "a whole number of 64 bits")
        return value

    def text(self, field: str, default: str | None = None) -> str:
        """Return a string; `default` if it is given and the field is missing or null."""
        value = self.fields.get(field)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.wrong(field, "a string")
        return value

    def integers(self, field: str) -> tuple[int, ...]:
        """Return a list of 32-bit integers."""
        return self.integer_list(field, self.fields.get(field))

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self.fields.get(field)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(field, "a list of strings")
        return tuple(str(item) for item in value)

    def objects(self, field: str) -> list[JsonObject]:
        """Return a list of objects."""
        value = self.fields.get(field)
        if not isinstance(value, list):
            raise self.wrong(field, "a list of objects")
        found = []
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.wrong(f"{field}[{index}]", "an object")
            found.append(JsonObject(self.path, item, f"{self._prefix}{field}[{index}]."))
        return found

    def text_map(self, field: str) -> dict[str, str]:
        """Return an object of strings."""
        value = self.fields.get(field)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.wrong(field, "an object of strings")
        return {key: str(item) for key, item in value.items()}

    def object(self, field: str) -> dict[str, JsonValue]:
        """Return an object; empty if the field is missing."""
        value = self.fields.get(field, {})
        if not isinstance(value, dict):
            raise self.wrong(field, "an object")
        return value

    def wrong(self, field: str, right: str) -> ZnodeError:
        """Return the error for a missing or invalid field."""
        head = field if field in self.fields else field.partition(".")[0].partition("[")[0]
        what = f"is {shown(self.fields[head])}" if head in self.fields else "is missing"
        return ZnodeError(f"field {self._prefix}{field} {what}", where=self.path, right=right)

    def integer_list(self, field: str, value: JsonValue) -> tuple[int, ...]:
        """Return a value of `field` as a list of 32-bit integers."""
        ids = tuple(item for item in value if is_int(item)) if isinstance(value, list) else ()
        if not isinstance(value, list) or len(ids) != len(value):
            raise self.wrong(field, "a list of whole numbers of 32 bits")
        return ids


def read_object(path: str, data: bytes | None, reading: Reading = LENIENT) -> JsonObject:
    """Parse the JSON object of a znode.

    Raises:
        NoJsonError: the data are not JSON, or there are none.
        ZnodeError: the data are another JSON value.
    """
    value = read_value(path, data, reading)
    if not isinstance(value, dict):
        raise ZnodeError(f"contains {shown(value)}", where=path, right="a JSON object")
    return JsonObject(path, value)


def is_int(value: JsonValue) -> TypeGuard[int]:
    """Return whether a value is a 32-bit integer, as Kafka's Int."""
    return isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX
