"""Reading and writing JSON as Kafka does: compact text in a given order; fields fetched with the path in every
complaint.

Rules of the module (docs/reference/kafka.md §1.1):
  - compact, no spaces, order of the fields as given: from 0.8.1 on every version writes so; 0.8.0 spaces and sorts;
  - a reader never guesses: a missing field, or one of another kind, is a `ZnodeError` with path, field and why.
"""

from __future__ import annotations

import json
from typing import TypeGuard

from simzk.errors import ZnodeError

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


def write(value: object) -> bytes:
    """Compact JSON, the keys in the order of the dictionaries.

    >>> write({"version": 1, "isr": [1, 2]})
    b'{"version":1,"isr":[1,2]}'
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def write_spaced(value: object) -> bytes:
    """JSON as Kafka 0.8.0 puts it together: spaced, the fields of an object sorted by their text, nothing escaped.

    >>> write_spaced({"version": 1, "isr": [1, 2]})
    b'{ "isr":[ 1, 2 ], "version":1 }'
    """
    return _spaced(value).encode()


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


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""One for all: `json.loads` with an option makes its own each time."""


class JsonObject:
    """A JSON object read from a znode, whose fields are fetched by kind.

    Args:
        path: of the znode; stands in every error.
        fields: the object.
        prefix: where in the document the object stands, such as `partitions[2].`.
    """

    def __init__(self, path: str, fields: dict[str, JsonValue], prefix: str = "") -> None:
        self.path = path
        self.fields = fields
        self._prefix = prefix

    def integer(self, field: str, default: int | None = None) -> int:
        """A whole number; `default` where the field is absent and a default is given."""
        value = self.fields.get(field)
        if value is None and default is not None and field not in self.fields:
            return default
        if not _is_int(value):
            raise self.wrong(field, "a whole number of 32 bits")
        return value

    def long(self, field: str) -> int:
        """A whole number of 64 bits."""
        value = self.fields.get(field)
        if not isinstance(value, int) or isinstance(value, bool) or not LONG_MIN <= value <= LONG_MAX:
            raise self.wrong(field, "a whole number of 64 bits")
        return value

    def text(self, field: str, default: str | None = None) -> str:
        """A string; `default` where the field is absent or null and a default is given."""
        value = self.fields.get(field)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.wrong(field, "a string")
        return value

    def integers(self, field: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        return self._integers(field, self.fields.get(field))

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.fields.get(field)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(field, "a list of strings")
        return tuple(str(item) for item in value)

    def objects(self, field: str) -> list[JsonObject]:
        """A list of objects."""
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
        """An object of strings."""
        value = self.fields.get(field)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.wrong(field, "an object of strings")
        return {key: str(item) for key, item in value.items()}

    def integers_by_partition(self, field: str) -> dict[int, tuple[int, ...]]:
        """An object from partition to a list of broker ids; an absent field is an empty one."""
        value = self.fields.get(field, {})
        if not isinstance(value, dict):
            raise self.wrong(field, "an object from partition to broker ids")
        found = {}
        for key, ids in value.items():
            if not key.isdigit():
                raise self.wrong(f"{field}.{key}", "the number of a partition")
            found[int(key)] = self._integers(f"{field}.{key}", ids)
        return found

    def wrong(self, field: str, right: str) -> ZnodeError:
        """The error for a field that is absent or not what it should be."""
        name = f"{self._prefix}{field}"
        value = self.fields.get(field.partition(".")[0].partition("[")[0])
        what = f"field {name} is missing" if value is None else f"field {name} is {json.dumps(value)}"
        return ZnodeError(what, where=self.path, right=right)

    def _integers(self, field: str, value: JsonValue) -> tuple[int, ...]:
        if not isinstance(value, list):
            raise self.wrong(field, "a list of whole numbers of 32 bits")
        ids = []
        for item in value:
            if not _is_int(item):
                raise self.wrong(field, "a list of whole numbers of 32 bits")
            ids.append(item)
        return tuple(ids)


def _is_int(value: JsonValue) -> TypeGuard[int]:
    """Whether it is a number that Kafka takes for an Int: whole, of 32 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX


def read_object(path: str, data: bytes | None) -> JsonObject:
    """The JSON object that a znode holds.

    Raises:
        ZnodeError: no data, not UTF-8, not JSON, or JSON of another kind.
    """
    value = read_value(path, data)
    if not isinstance(value, dict):
        raise ZnodeError(f"holds {json.dumps(value)[:60]}", where=path, right="a JSON object")
    return JsonObject(path, value)


def read_value(path: str, data: bytes | None) -> JsonValue:
    """The JSON value that a znode holds, of whatever kind."""
    if not data:
        raise ZnodeError("holds no data", where=path, right="JSON")
    try:
        value: JsonValue = _DECODER.decode(data.decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ZnodeError(f"holds {data[:60]!r}, which is no JSON ({error})", where=path, right="JSON") from None
    return value
