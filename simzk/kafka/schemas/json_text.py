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
from simzk.jvm.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from simzk.kafka.schemas.reading import LENIENT, JsonValue, Reading, read_value, shown


def write(value: object) -> bytes:
    """Compact JSON, the keys in the order of the dictionaries; half a surrogate pair becomes a question mark.

    >>> write({"version": 1, "isr": [1, 2]})
    b'{"version":1,"isr":[1,2]}'
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def write_spaced(value: object) -> bytes:
    """JSON as Kafka 0.8.0 puts it together: spaced, the fields of an object sorted by their text, nothing escaped.

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
        if not is_int(value):
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
        return self.integer_list(field, self.fields.get(field))

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

    def object(self, field: str) -> dict[str, JsonValue]:
        """An object; an absent one is empty."""
        value = self.fields.get(field, {})
        if not isinstance(value, dict):
            raise self.wrong(field, "an object")
        return value

    def wrong(self, field: str, right: str) -> ZnodeError:
        """The error for a field that is absent or not what it should be."""
        head = field if field in self.fields else field.partition(".")[0].partition("[")[0]
        what = f"is {shown(self.fields[head])}" if head in self.fields else "is missing"
        return ZnodeError(f"field {self._prefix}{field} {what}", where=self.path, right=right)

    def integer_list(self, field: str, value: JsonValue) -> tuple[int, ...]:
        """A value found under `field` as a list of whole numbers."""
        if not isinstance(value, list):
            raise self.wrong(field, "a list of whole numbers of 32 bits")
        ids = []
        for item in value:
            if not is_int(item):
                raise self.wrong(field, "a list of whole numbers of 32 bits")
            ids.append(item)
        return tuple(ids)


def read_object(path: str, data: bytes | None, reading: Reading = LENIENT) -> JsonObject:
    """The JSON object that a znode holds.

    Raises:
        NoJsonError: no data, or no JSON.
        ZnodeError: JSON of another kind.
    """
    value = read_value(path, data, reading)
    if not isinstance(value, dict):
        raise ZnodeError(f"holds {shown(value)}", where=path, right="a JSON object")
    return JsonObject(path, value)


def is_int(value: JsonValue) -> TypeGuard[int]:
    """Whether it is a number that Kafka takes for an Int: whole, of 32 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX
