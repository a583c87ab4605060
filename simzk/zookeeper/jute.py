"""Jute, the encoding of ZooKeeper's records: big-endian numbers, texts and vectors with a length (§1.1, §6).

Rules of this module:
  - a codec is a pair: `read(data, at)` returns the value and the offset behind it, `write(out, value)` appends;
  - a reader raises `MalformedError` for bytes that do not decode, and nothing else;
  - a null is None: on the wire a length of -1;
  - readers and writers are flat, without calls where an expression does: every request and reply passes here;
  - the reader and writer of a record are compiled at their first use, so fetch them from the codec when needed.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from simzk.jvm.texts import UTF_8_ERRORS
from simzk.zookeeper.replies import Stat
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

T = TypeVar("T")


class MalformedError(Exception):
    """Bytes that do not decode."""


class TruncatedError(MalformedError):
    """Bytes that end within a record (EOFException)."""


class Codec(Generic[T]):
    """Reader and writer of values of one type."""

    def __init__(self, read: Callable[[bytes, int], tuple[T, int]], write: Callable[[bytearray, T], None]) -> None:
        self.read = read
        self.write = write

    def encode(self, value: T) -> bytes:
        """Return the bytes of a value."""
        out = bytearray()
        self.write(out, value)
        return bytes(out)

    def decode(self, data: bytes) -> T:
        """Return the value at the start of `data`; bytes behind it are ignored (§1.1)."""
        return self.read(data, 0)[0]


def _number(layout: str) -> Codec[int]:
    assert layout.startswith(">"), "numbers are big-endian"
    packed = struct.Struct(layout)
    unpack_from, pack, size = packed.unpack_from, packed.pack, packed.size

    def read(data: bytes, at: int) -> tuple[int, int]:
        try:
            return unpack_from(data, at)[0], at + size
        except struct.error:
            raise TruncatedError("the record ends within a number") from None

    def write(out: bytearray, value: int) -> None:
        out += pack(value)

    return Codec(read, write)


INT = _number(">i")
LONG = _number(">q")

_read_int, _write_int = INT.read, INT.write
_INT = struct.Struct(">i")
_unpack_int, _pack_int = _INT.unpack_from, _INT.pack


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    try:
        return data[at] != 0, at + 1
    except IndexError:
        raise TruncatedError("the record ends before a boolean") from None


def _read_buffer(data: bytes, at: int) -> tuple[bytes | None, int]:
    try:
        (length,) = _unpack_int(data, at)
    except struct.error:
        raise TruncatedError("the record ends within a length") from None
    at += 4
    end = at + length
    if length >= 0 and end <= len(data):
        return data[at:end], end
    if length == -1:
        return None, at
    raise (TruncatedError if length >= 0 else MalformedError)(f"length {length} is out of range")


def _write_buffer(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _pack_int(len(value))
        out += value


def _read_text(data: bytes, at: int) -> tuple[str | None, int]:
    encoded, at = _read_buffer(data, at)
    return (None if encoded is None else encoded.decode("utf-8", UTF_8_ERRORS)), at


def _write_text(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    try:
        encoded = value.encode("utf-8")
    except UnicodeEncodeError:
        encoded = _by_units(value)
    else:
        if len(encoded) > len(value) and max(value) > "\uffff":
            encoded = _by_units(value)
    out += _pack_int(len(encoded))
    out += encoded


def _by_units(value: str) -> bytes:
    """Return the UTF-8 of each UTF-16 unit by itself, as Java's BinaryOutputArchive writes characters beyond U+FFFF.

    That is no valid UTF-8, and Java's own reader does not decode it.
    """
    assert value, "an empty text has no character beyond U+FFFF"
    units = memoryview(value.encode("utf-16-le", "surrogatepass"))
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return b"".join(chr(int.from_bytes(pair, "little")).encode("utf-8", "surrogatepass") for pair in pairs)


def _read_path(data: bytes, at: int) -> tuple[str, int]:
    path, at = _read_text(data, at)
    if path is None:
        raise MalformedError("a path is null")
    return path, at


BOOLEAN: Codec[bool] = Codec(_read_boolean, lambda out, value: out.append(1 if value else 0))
BUFFER: Codec[bytes | None] = Codec(_read_buffer, _write_buffer)
TEXT: Codec[str | None] = Codec(_read_text, _write_text)
PATH: Codec[str] = Codec(_read_path, _write_text)


def vector(item: Codec[T]) -> Codec[tuple[T, ...] | None]:
    """Return the codec of a sequence of items with its length, or a null."""

    def read(data: bytes, at: int) -> tuple[tuple[T, ...] | None, int]:
        count, at = _read_int(data, at)
        if count == -1:
            return None, at
        if count > len(data) - at:
            # An item has at least one byte, so a larger count is rejected without reading items.
            raise TruncatedError(f"count {count} is out of range")
        items = []
        for _ in range(count):
            value, at = item.read(data, at)
            items.append(value)
        return tuple(items), at

    def write(out: bytearray, value: tuple[T, ...] | None) -> None:
        if value is None:
            out += b"\xff\xff\xff\xff"
            return
        _write_int(out, len(value))
        for element in value:
            item.write(out, element)

    return Codec(read, write)


_INLINED: dict[Codec[Any], tuple[str, ...]] = {
    TEXT: (
        "(length,) = unpack_int(data, at)",
        "end = at + 4 + length",
        "if length < 0 or end > size: return read_any(data, begin)",
        "{value} = data[at + 4 : end].decode()",
        "at = end",
    ),
    BUFFER: (
        "(length,) = unpack_int(data, at)",
        "end = at + 4 + length",
        "if length < 0 or end > size: return read_any(data, begin)",
        "{value} = data[at + 4 : end]",
        "at = end",
    ),
    INT: ("({value},) = unpack_int(data, at)", "at += 4"),
    BOOLEAN: ("{value} = data[at] != 0", "at += 1"),
}
"""Inlined readers of fields that are neither null nor malformed; any other codec is called."""


def record(make: Callable[..., T], *fields: Codec[Any]) -> Codec[T]:
    """Return the codec of a record: its fields in order, without framing; a value is a tuple of them.

    The reader and the writer are compiled, as `namedtuple` does with its methods. The reader decodes ordinary fields
    inline; a record with a null or a malformed field is read again field by field.

    >>> pair = record(lambda *values: values, TEXT, INT)
    >>> pair.decode(pair.encode(("a", 7))), pair.decode(pair.encode((None, 7)))
    (('a', 7), (None, 7))
    """
    return _Record(make, fields)


class _Record(Codec[T]):
    """Codec of a record, compiled at its first use."""

    def __init__(self, make: Callable[..., T], fields: tuple[Codec[Any], ...]) -> None:
        self._make = make
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        if name not in ("read", "write"):
            raise AttributeError(name)
        scope = _scope(self._make, self._fields)
        self.read, self.write = scope["read"], scope["write"]
        return scope[name]


def _scope(make: Callable[..., T], fields: tuple[Codec[Any], ...]) -> dict[str, Any]:
    """Return a namespace with the compiled reader and writer of a record."""

    def read_any(data: bytes, at: int) -> tuple[T, int]:
        values = []
        for field in fields:
            value, at = field.read(data, at)
            values.append(value)
        return make(*values), at

    is_tuple = isinstance(make, type) and issubclass(make, tuple)
    kinds = tuple(field if field in _INLINED else None for field in fields)
    scope: dict[str, Any] = {"make": make, "new": tuple.__new__, "read_any": read_any}
    scope |= {"unpack_int": _unpack_int, "slow_cases": _SLOW_CASES}
    for number, field in enumerate(fields):
        scope[f"read{number}"], scope[f"write{number}"] = field.read, field.write
    exec(_compiled(kinds, is_tuple), scope)
    assert {"read", "write"} <= scope.keys(), "the code defines both"
    return scope


_SLOW_CASES = (struct.error, IndexError, UnicodeDecodeError)


@lru_cache
def _compiled(kinds: tuple[Codec[Any] | None, ...], is_tuple: bool) -> CodeType:
    """Return the code of the reader and writer of records with such fields; None is a field whose codec is called."""
    assert _INLINED.keys() | {None} >= set(kinds), "any other codec is called"
    values = "".join(f"v{number}, " for number in range(len(kinds)))
    steps: list[str] = []
    for number, kind in enumerate(kinds):
        called = (f"{{value}}, at = read{number}(data, at)",)
        steps += [step.format(value=f"v{number}") for step in (called if kind is None else _INLINED[kind])]
    lines = [
        "def read(data, at):",
        "    begin, size = at, len(data)",
        "    try:",
        *(f"        {step}" for step in steps),
        f"        return {f'new(make, ({values}))' if is_tuple else f'make({values})'}, at",
        "    except slow_cases:",
        "        return read_any(data, begin)",
        "def write(out, value):",
        f"    ({values}) = value",
        *(f"    write{number}(out, v{number})" for number in range(len(kinds))),
    ]
    return compile("\n".join(lines), "<record>", "exec")


def packed(make: Callable[..., T], layout: str) -> Codec[T]:
    """Return the codec of a record of numbers, packed in one step."""
    assert layout.startswith(">"), "numbers are big-endian and not aligned"
    whole = struct.Struct(layout)
    unpack_from, pack, size = whole.unpack_from, whole.pack, whole.size

    def read(data: bytes, at: int) -> tuple[T, int]:
        try:
            return make(*unpack_from(data, at)), at + size
        except struct.error:
            raise TruncatedError("the record ends within its numbers") from None

    def write(out: bytearray, value: T) -> None:
        out += pack(*value)  # type: ignore[misc]

    return Codec(read, write)


STAT_LAYOUT = "qqqqiiiqiiq"
STAT: Codec[Stat] = packed(Stat, ">" + STAT_LAYOUT)

_ACL_VECTOR = vector(record(ACL, INT, record(Id, TEXT, TEXT)))
# Encoded by hand, so that _ACL_VECTOR is compiled only for other ACLs.
_OPEN_ACL_BYTES = INT.encode(len(OPEN_ACL)) + b"".join(
    INT.encode(perms) + TEXT.encode(scheme) + TEXT.encode(identity) for perms, (scheme, identity) in OPEN_ACL
)


def _read_acl(data: bytes, at: int) -> tuple[tuple[ACL, ...] | None, int]:
    end = at + len(_OPEN_ACL_BYTES)
    if data[at:end] == _OPEN_ACL_BYTES:
        # Nearly every node has this ACL; the tree compares it by identity.
        return OPEN_ACL, end
    return _ACL_VECTOR.read(data, at)


def _write_acl(out: bytearray, value: tuple[ACL, ...] | None) -> None:
    if value is OPEN_ACL:
        out += _OPEN_ACL_BYTES
    else:
        _ACL_VECTOR.write(out, value)


ACLS: Codec[tuple[ACL, ...] | None] = Codec(_read_acl, _write_acl)
