"""Decoders: for a message and a version, a function from bytes and a position to the message and the position after it.

Rules of the module:
  - a run of adjacent numbers, with the length that follows it, is one call of `struct.unpack_from`;
  - every length is compared with the bytes that are left before anything is allocated for it, as Kafka does;
  - the size of a tagged field that the definition names is read and ignored, as Kafka's generated `read` methods do;
  - records are views of the frame, everything else is copied;
  - text that is not UTF-8 becomes what Java makes of it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar, cast

from simzk.jvm.texts import decode_text
from simzk.kafka.protocol.classes import struct_classes
from simzk.kafka.protocol.encoding import LONGEST_STRING, SHORT
from simzk.kafka.protocol.schema import NUMBERS, Field, MessageSchema, StructSchema
from simzk.kafka.protocol.source import FieldGroup, FunctionSource, PackedValue
from simzk.kafka.protocol.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

S = TypeVar("S", bound=Struct)
Decoder: TypeAlias = Callable[[bytes, int], tuple[Struct, int]]

_VARINT_BITS = 28
"""Shift of the fifth and last byte of a varint (ByteUtils.readUnsignedVarint)."""


class MalformedMessageError(ValueError):
    """Bytes that no message has; the place is added by the caller."""


def read_unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it; beyond 31 bits it is negative, as Java's int is.

    >>> read_unsigned_varint(b"\\xac\\x02", 0)
    (300, 2)
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value if value < 1 << 31 else value - (1 << 32)), at
        if shift == _VARINT_BITS:
            raise MalformedMessageError("a varint has more than 5 bytes")
        shift += 7


def _long_length(data: bytes, at: int) -> tuple[int, int]:
    """Return a length in a flexible version, and the position after it; one is subtracted as from Java's int."""
    value, at = read_unsigned_varint(data, at)
    return (value - 1 if value > -(1 << 31) else (1 << 31) - 1), at


def _fail(count: int, left: int) -> NoReturn:
    """Raise the error for a length that is negative or exceeds the message."""
    if count >= 0:
        raise MalformedMessageError(f"length {count}, but {left} bytes are left")
    raise MalformedMessageError("null in a field that is not nullable" if count == -1 else f"negative length {count}")


def _unknown_tag(data: bytes, at: int, tag: int, others: Mapping[int, bytes] | None) -> tuple[dict[int, bytes], int]:
    """Return the unknown tags with one more, whose size is next, and the position after it."""
    size, at = read_unsigned_varint(data, at)
    end = at + size
    if size < 0 or end > len(data):
        _fail(size, len(data) - at)
    return {**(others or {}), tag & 0xFFFFFFFF: data[at:end]}, end


def _unknown_section(data: bytes, at: int) -> tuple[dict[int, bytes] | None, int]:
    """Return the tags of a struct that has no tagged fields, and the position after them."""
    assert data[at], "a section without tags is one byte, which the caller reads"
    unknown = None
    count, at = read_unsigned_varint(data, at)
    for _ in range(count):
        tag, at = read_unsigned_varint(data, at)
        unknown, at = _unknown_tag(data, at, tag, unknown)
    return unknown, at


def uuid_text(data: bytes) -> str:
    """Return 16 bytes as Kafka writes a UUID.

    >>> uuid_text(bytes(16))
    'AAAAAAAAAAAAAAAAAAAAAA'
    """
    assert len(data) == 16, f"a UUID has 16 bytes, these are {len(data)}"
    return base64.urlsafe_b64encode(data)[:22].decode()


@cache
def _array_unpackers(letter: str) -> list[Callable[..., tuple[object, ...]]]:
    return [struct.Struct(f">{count}{letter}").unpack_from for count in range(SHORT)]


@cache
def _unpacker(letters: str) -> Callable[..., tuple[object, ...]]:
    return struct.Struct(">" + letters).unpack_from


class _DecoderSource:
    """Source of the decoder of one version."""

    def __init__(
        self, message: MessageSchema, version: int, classes: Mapping[str, type[Struct]], title: str, arguments: str
    ) -> None:
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.classes = classes
        names: dict[str, object] = {
            "new": object.__new__, "varint": read_unsigned_varint, "fail": _fail,
            "MalformedError": MalformedMessageError, "text": decode_text, "uuid_text": uuid_text,
            "unpack_from": struct.unpack_from, "long_length": _long_length,
            "unknown_tag": _unknown_tag, "unknown_section": _unknown_section,
        }  # fmt: skip
        self.source = FunctionSource(title, f"decode({arguments})", names)
        self.run: list[PackedValue] = []

    def begin(self) -> None:
        """Write what every decoder begins with."""
        self.source.line("size = len(data)")
        if self.has_records(self.message.root):
            self.source.line("view = memoryview(data)")

    def compile(self) -> FunctionSource:
        self.begin()
        self.make(self.message.root, "m", "")
        self.flush()
        self.source.line("return m, at")
        return self.source

    def compile_rows(self, owner: StructSchema) -> FunctionSource:
        self.begin()
        self.source.line("at, rows = 0, []")
        with self.source.block("for _ in range(count):"):
            self.make(owner, "x", "")
            self.flush()
            self.source.line("rows.append(x)")
        self.source.line("return rows")
        return self.source

    def has_records(self, owner: StructSchema) -> bool:
        return any(
            field.kind == "records" or (field.struct is not None and self.has_records(field.struct))
            for field in owner.fields
        )

    def flush(self) -> None:
        """Write the code that unpacks the values collected so far."""
        if not self.run:
            return
        letters = "".join(part.letter for part in self.run)
        unpacker = self.source.constant("unpack_" + letters.replace("?", "o"), _unpacker(letters))
        targets = ", ".join(part.value for part in self.run) + ("," if len(self.run) == 1 else "")
        self.source.line(f"{targets} = {unpacker}(data, at)", FieldGroup(self.run[0].path, tuple(self.run)))
        self.source.line(f"at += {sum(part.size for part in self.run)}")
        for part in self.run:
            if part.letter == "16s":
                self.source.line(f"{part.value} = uuid_text({part.value})")
        self.run.clear()

    def make(self, owner: StructSchema, var: str, path: str) -> None:
        """Write the code that makes a struct and decodes its fields."""
        self.new(owner, var)
        absent = [field for field in owner.fields if self.version not in field.versions]
        tagged = owner.tagged_in(self.version)
        self.defaults([*absent, *tagged], var)
        for field in owner.of_version(self.version):
            self.field(field, f"{var}.{field.attribute}", f"{path}{field.name}")
        if self.flexible:
            self.flush()
            self.tagged(owner, tagged, var, path)

    def new(self, owner: StructSchema, var: str) -> None:
        """Write the line that makes a struct without fields."""
        self.source.line(f"{var} = new({self.source.constant(f'C_{owner.name}', self.classes[owner.name])})")

    def defaults(self, fields: list[Field], var: str) -> None:
        """Write the code that sets fields to their defaults, equal ones in one statement."""
        targets: dict[str, str] = {"None": f"{var}.unknown_tags = "}
        for field in fields:
            if field.struct is not None and not field.is_array and field.nullable.high < 0:
                inner = self.source.variable("s")
                self.new(field.struct, inner)
                self.source.line(f"{var}.{field.attribute} = {inner}")
                self.defaults(field.struct.fields, inner)
            else:
                default = repr(field.default)
                targets[default] = targets.get(default, "") + f"{var}.{field.attribute} = "
        for default, target in targets.items():
            self.source.line(target + default)

    def field(self, field: Field, target: str, path: str) -> None:
        """Write the code for one field."""
        flexible = self.flexible and not field.inflexible
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(field, target, path, flexible=flexible, nullable=nullable)
        elif field.struct is not None:
            self.struct(field, target, path, nullable=nullable)
        elif field.kind in NUMBERS:
            letter = NUMBERS[field.kind]
            self.run.append(PackedValue(letter, struct.calcsize(">" + letter), path, target))
        elif field.kind == "uuid":
            self.run.append(PackedValue("16s", 16, path, target))
        else:
            self.sized(field, target, path, flexible=flexible, nullable=nullable)

    def length(self, path: str, *, flexible: bool, letter: str) -> str:
        """Write the code that reads a length; return its variable, negative for null."""
        count = self.source.variable("n")
        if not flexible:
            self.run.append(PackedValue(letter, struct.calcsize(">" + letter), path, count))
        self.flush()
        if flexible:
            self.source.line(f"{count} = data[at]", path)
            with self.source.block(f"if {count} > 127:"):
                self.source.line(f"{count}, at = long_length(data, at)", path)
            with self.source.block("else:"):
                self.source.line(f"{count} -= 1; at += 1")
        return count

    @contextmanager
    def unless_null(self, count: str, target: str, *, nullable: bool) -> Iterator[None]:
        """Write the code for null, which is a negative length; what is written within the context is for the others."""
        if not nullable:
            yield
            return
        assert not self.run, "the length is read before it is compared"
        with self.source.block(f"if {count} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            yield
            self.flush()

    def check(self, count: str, path: str, *, unit: int) -> str:
        """Write the code that compares a length with the bytes left; return the variable of its end."""
        assert not self.run, "the length is read before it is compared"
        end = self.source.variable("e")
        self.source.line(f"{end} = at + {count}{f' * {unit}' if unit > 1 else ''}")
        with self.source.block(f"if {count} < 0 or {end} > size:"):
            self.source.line(f"fail({count}, size - at)", path)
        return end

    def sized(self, field: Field, target: str, path: str, *, flexible: bool, nullable: bool) -> None:
        """Write the code for a string, bytes or records."""
        is_string = field.kind == "string"
        count = self.length(path, flexible=flexible, letter="h" if is_string else "i")
        with self.unless_null(count, target, nullable=nullable):
            end = self.check(count, path, unit=1)
            if is_string and flexible:
                with self.source.block(f"if {count} > {LONGEST_STRING}:"):
                    too_long = f"a string of {{{count}}} bytes; the longest has {LONGEST_STRING}"
                    self.source.line(f"raise MalformedError(f'{too_long}')", path)
            value = {"string": f"text(data[at:{end}])", "bytes": f"data[at:{end}]"}.get(field.kind, f"view[at:{end}]")
            self.source.line(f"{target} = {value}; at = {end}")

    def array(self, field: Field, target: str, path: str, *, flexible: bool, nullable: bool) -> None:
        """Write the code for an array."""
        count = self.length(path, flexible=flexible, letter="i")
        with self.unless_null(count, target, nullable=nullable):
            if field.struct is None and field.kind in NUMBERS:
                self.numbers(field, target, count, path)
            else:
                self.items(field, target, count, path, flexible=flexible)

    def numbers(self, field: Field, target: str, count: str, path: str) -> None:
        """Write the code for an array of numbers, decoded at once."""
        letter = NUMBERS[field.kind]
        end = self.check(count, path, unit=struct.calcsize(">" + letter))
        unpackers = self.source.constant(f"arrays_{letter}", _array_unpackers(letter))
        short, long = f"{unpackers}[{count}](data, at)", f"unpack_from(f'>{{{count}}}{letter}', data, at)"
        self.source.line(f"{target} = list({short} if {count} < {SHORT} else {long}); at = {end}", path)

    def items(self, field: Field, target: str, count: str, path: str, *, flexible: bool) -> None:
        """Write the loop over the items of an array of structs, strings or uuids; each has at least one byte."""
        self.check(count, path, unit=1)
        items, item, index = (self.source.variable(prefix) for prefix in "vxi")
        self.source.line(f"{target} = {items} = []")
        path = f"{path}[{{{index}}}]"
        with self.source.block(f"for {index} in range({count}):"):
            if field.struct is not None:
                self.make(field.struct, item, path + ".")
            elif field.kind == "uuid":
                self.run.append(PackedValue("16s", 16, path, item))
            else:
                self.sized(field, item, path, flexible=flexible, nullable=False)
            self.flush()
            self.source.line(f"{items}.append({item})")

    def struct(self, field: Field, target: str, path: str, *, nullable: bool) -> None:
        """Write the code for a struct that is no item; a nullable one has a byte before it."""
        assert field.struct is not None
        inner = self.source.variable("s")
        present = self.length(path, flexible=False, letter="b") if nullable else ""
        with self.unless_null(present, target, nullable=nullable):
            self.make(field.struct, inner, path + ".")
            self.source.line(f"{target} = {inner}")

    def tagged(self, owner: StructSchema, fields: list[Field], var: str, path: str) -> None:
        """Write the code for the tagged section of a struct; Kafka rejects a tag that only other versions have."""
        assert not self.run, "the fields before the tagged ones are read"
        others = [field for field in owner.fields if field.tag >= 0 and field not in fields]
        if not fields and not others:
            with self.source.block("if data[at]:", path):
                self.source.line(f"{var}.unknown_tags, at = unknown_section(data, at)", path)
            with self.source.block("else:"):
                self.source.line("at += 1")
            return
        count, tag = (self.source.variable(prefix) for prefix in "nt")
        self.source.line(f"{count}, at = varint(data, at)", path)
        with self.source.block(f"for _ in range({count}):"):
            self.source.line(f"{tag}, at = varint(data, at)", path)
            for number, field in enumerate([*fields, *others]):
                with self.source.block(f"{'elif' if number else 'if'} {tag} == {field.tag}:"):
                    if number >= len(fields):
                        refusal = f"raise MalformedError('tag {field.tag} belongs to other versions')"
                        self.source.line(refusal, path + field.name)
                        continue
                    self.source.line("_, at = varint(data, at)", path + field.name)  # the size: Kafka does not check it
                    self.field(field, f"{var}.{field.attribute}", path + field.name)
                    self.flush()
            with self.source.block("else:"):
                self.source.line(f"{var}.unknown_tags, at = unknown_tag(data, at, {tag}, {var}.unknown_tags)", path)


def decoder_source(
    message: MessageSchema, version: int, title: str, classes: Mapping[str, type[Struct]]
) -> FunctionSource:
    """Return the source of `decode(data, at)` for one version.

    Args:
        message: the definition.
        version: one of its versions.
        title: name of the source in a traceback.
        classes: classes of the message and its structs by name.
    """
    return _DecoderSource(message, version, classes, title, "data, at").compile()


_rows_decoders: dict[tuple[type[Struct], int], object] = {}


def rows_decoder(kind: type[S], version: int) -> Callable[[bytes, int], list[S]]:
    """Return a function that decodes a number of structs, one after another, from bytes that are known to be valid."""
    if (kind, version) not in _rows_decoders:
        title = f"<rows of {kind.__qualname__} v{version}>"
        source = _DecoderSource(kind.MESSAGE, version, struct_classes(kind), title, "data, count")
        _rows_decoders[kind, version] = source.compile_rows(kind.SCHEMA).compile()
    return cast("Callable[[bytes, int], list[S]]", _rows_decoders[kind, version])
