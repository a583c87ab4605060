"""Jute, the encoding of ZooKeeper's records: big-endian numbers, counted text and vectors (§1.1).

Rules of this module:
  - a codec is a pair: `read(data, at)` gives the value and the offset behind it, `write(out, value)` appends;
  - bytes that are no such value raise `MalformedError`, and nothing else ever leaves a reader;
  - a null is None where the wire has one: a length of -1;
  - every request and reply passes here, so readers and writers are flat: no call where an expression does;
  - a record's reader and writer are compiled when first asked for: whoever keeps one takes it when it is needed.

The records that both the wire and the files on disk are made of (§1.1, §6).
"""

from __future__ import annotations

import codecs
import re
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from simzk.zookeeper.replies import Stat
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

T = TypeVar("T")


class MalformedError(Exception):
    """Bytes that are not what they should be."""


class Codec(Generic[T]):
    """How a value of one type is read and written."""

    def __init__(self, read: Callable[[bytes, int], tuple[T, int]], write: Callable[[bytearray, T], None]) -> None:
        self.read = read
        self.write = write

    def encode(self, value: T) -> bytes:
        """The bytes of a value."""
        out = bytearray()
        self.write(out, value)
        return bytes(out)

    def decode(self, data: bytes) -> T:
        """The value at the start of `data`; what follows is not looked at (§1.1)."""
        return self.read(data, 0)[0]


def _number(layout: str) -> Codec[int]:
    packed = struct.Struct(layout)
    unpack_from, pack, size = packed.unpack_from, packed.pack, packed.size

    def read(data: bytes, at: int) -> tuple[int, int]:
        try:
            return unpack_from(data, at)[0], at + size
        except struct.error:
            raise MalformedError("the record ends within a number") from None

    def write(out: bytearray, value: int) -> None:
        out += pack(value)

    return Codec(read, write)


INT = _number(">i")
LONG = _number(">q")
BYTE = _number(">B")

_read_int, _write_int = INT.read, INT.write


_INT = struct.Struct(">i")
_unpack_int, _pack_int = _INT.unpack_from, _INT.pack


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    try:
        return data[at] != 0, at + 1
    except IndexError:
        raise MalformedError("the record ends before a boolean") from None


def _write_boolean(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def _read_buffer(data: bytes, at: int) -> tuple[bytes | None, int]:
    try:
        (length,) = _unpack_int(data, at)
    except struct.error:
        raise MalformedError("the record ends within a length") from None
    at += 4
    end = at + length
    if length >= 0 and end <= len(data):
        return data[at:end], end
    if length == -1:
        return None, at
    raise MalformedError("a length that cannot be")


def _write_buffer(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _pack_int(len(value))
        out += value


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """What Java's decoder puts in place of bytes that are not UTF-8: U+FFFD, and one only for an encoded surrogate."""
    assert isinstance(error, UnicodeDecodeError)
    start = error.start
    surrogate = re.match(_SURROGATE, error.object[start : start + 3])
    return "\ufffd", error.end if surrogate is None else start + surrogate.end()


_SURROGATE = b"\xed[\xa0-\xbf][\x80-\xbf]"
_ERRORS = "simzk-java"
codecs.register_error(_ERRORS, _replace_as_java)


def decode_text(data: bytes) -> str:
    r"""`new String(data, UTF_8)` of Java.

    >>> decode_text(b"a\xff\xed\xa0\xbd")
    'a\ufffd\ufffd'
    """
    return data.decode("utf-8", _ERRORS)


def _read_text(data: bytes, at: int) -> tuple[str | None, int]:
    try:
        (length,) = _unpack_int(data, at)
    except struct.error:
        raise MalformedError("the record ends within a length") from None
    at += 4
    end = at + length
    if length >= 0 and end <= len(data):
        return data[at:end].decode("utf-8", _ERRORS), end
    if length == -1:
        return None, at
    raise MalformedError("a length that cannot be")


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
    """UTF-8 of each UTF-16 unit by itself, which is how Java's BinaryOutputArchive writes what is beyond U+FFFF: not
    UTF-8 as the rest of the world has it, and not what it reads itself."""
    units = memoryview(value.encode("utf-16-le", "surrogatepass"))
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return b"".join(chr(int.from_bytes(pair, "little")).encode("utf-8", "surrogatepass") for pair in pairs)


BOOLEAN: Codec[bool] = Codec(_read_boolean, _write_boolean)
BUFFER: Codec[bytes | None] = Codec(_read_buffer, _write_buffer)
TEXT: Codec[str | None] = Codec(_read_text, _write_text)


def vector(item: Codec[T]) -> Codec[tuple[T, ...] | None]:
    """A counted sequence of items, or a null."""

    def read(data: bytes, at: int) -> tuple[tuple[T, ...] | None, int]:
        count, at = _read_int(data, at)
        if count == -1:
            return None, at
        if count > len(data) - at:
            # No item is shorter than a byte: what promises more is not read item by item to find out.
            raise MalformedError("a count that cannot be")
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


_WRITTEN_OUT: dict[Codec[Any], tuple[str, ...]] = {
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
"""How a field is read in place where it is neither null nor malformed; other codecs are called."""


def record(make: Callable[..., T], *fields: Codec[Any]) -> Codec[T]:
    """A record: its fields in order, without framing. A value of it is a tuple of them.

    Its reader and its writer are compiled, as `namedtuple` does with its methods. The reader takes ordinary fields in
    place; what has a null or is malformed is read anew, field by field.

    >>> pair = record(lambda *values: values, TEXT, INT)
    >>> pair.decode(pair.encode(("a", 7))), pair.decode(pair.encode((None, 7)))
    (('a', 7), (None, 7))
    """
    return _Record(make, fields)


class _Record(Codec[T]):
    """The codec of a record, which is compiled when it is first asked how to read or write."""

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
    """What defines a record's reader and writer, and both."""

    def read_any(data: bytes, at: int) -> tuple[T, int]:
        values = []
        for field in fields:
            value, at = field.read(data, at)
            values.append(value)
        return make(*values), at

    is_tuple = isinstance(make, type) and issubclass(make, tuple)
    kinds = tuple(field if field in _WRITTEN_OUT else None for field in fields)
    scope: dict[str, Any] = {"make": make, "new": tuple.__new__, "read_any": read_any}
    scope |= {"unpack_int": _unpack_int, "not_ordinary": _NOT_ORDINARY}
    for number, field in enumerate(fields):
        scope[f"read{number}"], scope[f"write{number}"] = field.read, field.write
    exec(_compiled(kinds, is_tuple), scope)
    return scope


_NOT_ORDINARY = (struct.error, IndexError, UnicodeDecodeError)


@lru_cache
def _compiled(kinds: tuple[Codec[Any] | None, ...], is_tuple: bool) -> CodeType:
    """What defines the reader and the writer of records with such fields; None is a field whose codec is called."""
    values = "".join(f"v{number}, " for number in range(len(kinds)))
    steps: list[str] = []
    for number, kind in enumerate(kinds):
        called = (f"{{value}}, at = read{number}(data, at)",)
        steps += [step.format(value=f"v{number}") for step in (called if kind is None else _WRITTEN_OUT[kind])]
    lines = [
        "def read(data, at):",
        "    begin, size = at, len(data)",
        "    try:",
        *(f"        {step}" for step in steps),
        f"        return {f'new(make, ({values}))' if is_tuple else f'make({values})'}, at",
        "    except not_ordinary:",
        "        return read_any(data, begin)",
        "def write(out, value):",
        f"    ({values}) = value",
        *(f"    write{number}(out, v{number})" for number in range(len(kinds))),
    ]
    return compile("\n".join(lines), "<record>", "exec")


def packed(make: Callable[..., T], layout: str) -> Codec[T]:
    """A record of numbers only, read and written at once."""
    whole = struct.Struct(layout)
    unpack_from, pack, size = whole.unpack_from, whole.pack, whole.size

    def read(data: bytes, at: int) -> tuple[T, int]:
        try:
            return make(*unpack_from(data, at)), at + size
        except struct.error:
            raise MalformedError("the record ends within its numbers") from None

    def write(out: bytearray, value: T) -> None:
        out += pack(*value)  # type: ignore[misc]

    return Codec(read, write)


STAT_LAYOUT = "qqqqiiiqiiq"
STAT: Codec[Stat] = packed(Stat, ">" + STAT_LAYOUT)

_ACL_VECTOR = vector(record(ACL, INT, record(Id, TEXT, TEXT)))
# As _ACL_VECTOR would write it, which need not be compiled before there is another.
_OPEN_ACL_BYTES = INT.encode(len(OPEN_ACL)) + b"".join(
    INT.encode(perms) + TEXT.encode(scheme) + TEXT.encode(identity) for perms, (scheme, identity) in OPEN_ACL
)


def _read_acl(data: bytes, at: int) -> tuple[tuple[ACL, ...] | None, int]:
    end = at + len(_OPEN_ACL_BYTES)
    if data[at:end] == _OPEN_ACL_BYTES:
        # Nearly every node has this one; the store knows it by identity.
        return OPEN_ACL, end
    return _ACL_VECTOR.read(data, at)


ACLS: Codec[tuple[ACL, ...] | None] = Codec(_read_acl, _ACL_VECTOR.write)
