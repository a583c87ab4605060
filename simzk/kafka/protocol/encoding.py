"""Encoders: for a message and a version, a function that appends the pieces of its body to a list.

Rules of the module:
  - a run of adjacent numbers, with the length that follows it, is one call of `struct.pack`;
  - a field that the version lacks must have its default, unless it is ignorable (as Kafka's generated `write` methods);
  - unknown tags are an error in a version that is not flexible;
  - a tagged field is written if it differs from its default. Unknown tags are written too, all in ascending order;
  - an array of structs may be `EncodedRows`, whose bytes are appended as they are.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, overload

from simzk.kafka.protocol.schema import NUMBERS, Field, MessageSchema, StructSchema
from simzk.kafka.protocol.source import FieldGroup, FunctionSource, PackedValue
from simzk.kafka.protocol.structs import Bytes, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

S = TypeVar("S", bound=Struct)
Encoder: TypeAlias = Callable[[Struct, Callable[[Bytes], None]], None]

SHORT = 64
"""Up to this length, packing functions of number arrays are made once."""
LONGEST_STRING = 0x7FFF
ABSENT = "the version lacks this field, and its value is not the default"

NO_TAGS = "the version has no tagged fields, and unknown ones are set"


class EncodedRows(Sequence[S], Generic[S]):
    """Array of structs that is already encoded; it is decoded only when an item is read.

    Args:
        kind: class of the structs.
        version: version in which they are encoded.
        whole: bytes of the array's structs, and perhaps of others.
        bounds: position of each struct in `whole`, and the end of the last one.
        decode: returns that many structs of bytes.
    """

    __slots__ = ("_bounds", "_decode", "_kind", "_rows", "_version", "_whole")

    def __init__(
        self,
        kind: type[S],
        version: int,
        whole: memoryview,
        bounds: Sequence[int],
        decode: Callable[[bytes, int], list[S]],
    ) -> None:
        assert 0 <= bounds[0] <= bounds[-1] <= len(whole), "the rows are a part of the bytes"
        self._kind = kind
        self._version = version
        self._whole = whole
        self._bounds = bounds
        self._decode = decode
        self._rows: list[S] | None = None

    def data(self, name: str, version: int) -> memoryview:
        """Return the bytes; ValueError if they are not of this struct and version."""
        if (self._kind.SCHEMA.name, self._version) != (name, version):
            raise ValueError(f"rows are encoded as {self._kind.__qualname__} v{self._version}")
        return self._whole[self._bounds[0] : self._bounds[-1]]

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, index: int) -> S: ...
    @overload
    def __getitem__(self, index: slice) -> EncodedRows[S]: ...
    def __getitem__(self, index: int | slice) -> S | EncodedRows[S]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            assert step == 1, "encoded rows can only be sliced without a step"
            bounds = self._bounds[start : max(start, stop) + 1]
            return EncodedRows(self._kind, self._version, self._whole, bounds, self._decode)
        if self._rows is None:
            self._rows = self._decode(bytes(self.data(self._kind.SCHEMA.name, self._version)), len(self))
            assert len(self._rows) == len(self), "as many rows are decoded as are encoded"
        return self._rows[index]


def unsigned_varint(value: int) -> bytes:
    """Return an unsigned varint.

    >>> unsigned_varint(300)
    b'\\xac\\x02'
    """
    assert 0 <= value < 1 << 32, f"{value} has no unsigned varint"
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


VARINTS = [unsigned_varint(value) for value in range(512)]


def _length(count: int) -> bytes:
    """Return the length of an array, a string or bytes in a flexible version; -1 is null."""
    return VARINTS[count + 1] if count < 511 else unsigned_varint(count + 1)


def _string_length(count: int) -> bytes:
    if count > LONGEST_STRING:
        raise ValueError(f"a string of {count} bytes; the longest has {LONGEST_STRING}")
    return _length(count)


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a UUID in Kafka's base64 form.

    >>> uuid_bytes("AAAAAAAAAAAAAAAAAAAAAQ")[-1]
    1
    """
    data = base64.urlsafe_b64decode(text + "==")
    if len(data) != 16 or len(text) != 22:
        raise ValueError(f"{text!r} is not a UUID of 22 characters in base64")
    return data


def _tagged_section(tags: list[tuple[int, bytes]], unknown: Mapping[int, bytes] | None) -> bytes:
    """Return the number of tags, and each tag with the size of its data."""
    if unknown:
        tags = sorted([*tags, *unknown.items()])
    pieces = [unsigned_varint(len(tags))]
    for tag, data in tags:
        pieces += (unsigned_varint(tag), unsigned_varint(len(data)), data)
    return b"".join(pieces)


@cache
def _array_packers(letter: str, *, flexible: bool) -> list[Callable[..., bytes]]:
    """Return functions that pack the length and the items of number arrays of each short length."""
    return [struct.Struct(f">{'B' if flexible else 'i'}{count}{letter}").pack for count in range(SHORT)]


@cache
def _packer(letters: str) -> Callable[..., bytes]:
    return struct.Struct(">" + letters).pack


class _EncoderSource:
    """Source of the encoder of one version."""

    def __init__(self, message: MessageSchema, version: int, title: str) -> None:
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        names: dict[str, object] = {
            "EncodedRows": EncodedRows, "length": _length, "string_length": _string_length, "pack": struct.pack,
            "tagged_section": _tagged_section, "uuid_bytes": uuid_bytes, "ABSENT": ABSENT,
            "NO_TAGS": NO_TAGS,
        }  # fmt: skip
        self.source = FunctionSource(title, "encode(m, out)", names)
        self.run: list[PackedValue] = []

    def compile(self) -> FunctionSource:
        self.fields(self.message.root, "m", "")
        self.flush()
        assert not self.run, "the last values are written"
        self.source.line("return")
        return self.source

    def flush(self) -> None:
        """Write the code that packs the values collected so far."""
        if not self.run:
            return
        letters = "".join(part.letter for part in self.run)
        packer = self.source.constant("pack_" + letters.replace("?", "o"), _packer(letters))
        values = ", ".join(part.value for part in self.run)
        self.source.line(f"out({packer}({values}))", FieldGroup(self.run[0].path, tuple(self.run)))
        self.run.clear()

    def fields(self, owner: StructSchema, var: str, path: str) -> None:
        """Write the code for a struct's fields and its tagged section; numbers at the end stay in the run."""
        self.absent(owner, var, path)
        for field in owner.of_version(self.version):
            self.field(field, f"{var}.{field.attribute}", f"{path}{field.name}")
        if self.flexible:
            self.tagged(owner, var, path)
        else:
            with self.source.block(f"if {var}.unknown_tags:"):
                self.source.line("raise ValueError(NO_TAGS)", path.removesuffix("."))

    def absent(self, owner: StructSchema, var: str, path: str) -> None:
        """Write the check of the fields that this version lacks."""
        for field in owner.fields:
            if self.version not in field.versions and not field.ignorable:
                with self.source.block(f"if {self.differs(field, f'{var}.{field.attribute}')}:", path + field.name):
                    self.source.line("raise ValueError(ABSENT)", path + field.name)

    def differs(self, field: Field, value: str) -> str:
        """Return the expression for "the value is not the default"."""
        if field.is_array:
            if field.default is None:
                return f"{value} is not None"
            return f"({value} is None or len({value}))" if field.nullable.high >= 0 else f"len({value})"
        if field.struct is None:
            return f"{value} is not None" if field.default is None else f"{value} != {field.default!r}"
        if field.nullable.high >= 0:
            return f"{value} is not None"
        parts = [self.differs(inner, f"{value}.{inner.attribute}") for inner in field.struct.fields]
        return f"({' or '.join([*parts, f'{value}.unknown_tags'])})"

    def field(self, field: Field, value: str, path: str) -> None:
        """Write the code for one field."""
        flexible = self.flexible and not field.inflexible
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(field, value, path, flexible=flexible, nullable=nullable)
        elif field.struct is not None:
            self.struct(field, value, path, nullable=nullable)
        elif field.kind in NUMBERS:
            letter = NUMBERS[field.kind]
            self.run.append(PackedValue(letter, struct.calcsize(">" + letter), path, value))
        elif field.kind == "uuid":
            self.run.append(PackedValue("16s", 16, path, f"uuid_bytes({value})"))
        else:
            self.sized(field, value, path, flexible=flexible, nullable=nullable)

    def sized(self, field: Field, value: str, path: str, *, flexible: bool, nullable: bool) -> None:
        """Write the code for a string, bytes or records."""
        is_string = field.kind == "string"
        data = self.source.variable("b")
        encode = f"{data} = {data}.encode()"
        self.source.line(f"{data} = {value}", path)
        count = f"len({data})"
        if nullable:
            count = self.source.variable("n")
            with self.source.block(f"if {data} is None:"):
                self.source.line(f"{count} = -1; {data} = b''")
            with self.source.block("else:"):
                if is_string:
                    self.source.line(encode, path)
                self.source.line(f"{count} = len({data})", path)
        elif is_string:
            self.source.line(encode, path)
        letter, varint = ("h", "string_length") if is_string else ("i", "length")
        self.length(count, path, flexible=flexible, letter=letter, varint=varint)
        self.source.line(f"out({data})")

    def array(self, field: Field, value: str, path: str, *, flexible: bool, nullable: bool) -> None:
        """Write the code for an array; null has length -1."""
        items = self.source.variable("v")
        self.source.line(f"{items} = {value}", path)
        with self.unless_null(items, b"\0" if flexible else b"\xff\xff\xff\xff", nullable=nullable):
            if field.struct is None and field.kind in NUMBERS:
                self.numbers(field, items, path, flexible=flexible)
            else:
                self.length(f"len({items})", path, flexible=flexible)
                self.items(field, items, path, flexible=flexible)

    @contextmanager
    def unless_null(self, value: str, null: bytes, *, nullable: bool) -> Iterator[None]:
        """Write the code for null; what is written within the context is for any other value."""
        if not nullable:
            yield
            return
        self.flush()
        with self.source.block(f"if {value} is None:"):
            self.source.line(f"out({null!r})")
        with self.source.block("else:"):
            yield
            self.flush()

    def length(self, count: str, path: str, *, flexible: bool, letter: str = "i", varint: str = "length") -> None:
        """Write the code for a length, which ends a run."""
        if flexible:
            self.flush()
            self.source.line(f"out({varint}({count}))", path)
        else:
            self.run.append(PackedValue(letter, struct.calcsize(">" + letter), path, count))
            self.flush()

    def numbers(self, field: Field, items: str, path: str, *, flexible: bool) -> None:
        """Write the code for an array of numbers: short ones with their length in one call."""
        self.flush()
        letter = NUMBERS[field.kind]
        packers = self.source.constant(f"arrays_{letter}", _array_packers(letter, flexible=flexible))
        place = FieldGroup(path, (PackedValue(letter, 0, path, items),))
        count = self.source.variable("n")
        self.source.line(f"{count} = len({items})", path)
        with self.source.block(f"if {count} < {SHORT}:"):
            self.source.line(f"out({packers}[{count}]({count}{' + 1' if flexible else ''}, *{items}))", place)
        with self.source.block("else:"):
            self.source.line(f"out(length({count}))" if flexible else f"out(pack('>i', {count}))", path)
            self.source.line(f"out(pack(f'>{{{count}}}{letter}', *{items}))", place)

    def items(self, field: Field, items: str, path: str, *, flexible: bool) -> None:
        """Write the loop over the items of an array of structs, strings or uuids."""
        item = self.source.variable("x")
        outer, path = path, f"{path}[{{{items}:{item}}}]"
        if field.struct is not None:
            with self.source.block(f"if type({items}) is EncodedRows:"):
                self.source.line(f"out({items}.data({field.struct.name!r}, {self.version}))", outer)
                self.source.line(f"{items} = ()")
        with self.source.block(f"for {item} in {items}:", path):
            if field.struct is not None:
                self.fields(field.struct, item, path + ".")
            elif field.kind == "uuid":
                self.source.line(f"out(uuid_bytes({item}))", path)
            else:
                self.sized(field, item, path, flexible=flexible, nullable=False)
            self.flush()

    def struct(self, field: Field, value: str, path: str, *, nullable: bool) -> None:
        """Write the code for a struct that is no item; a nullable one has a byte before it."""
        assert field.struct is not None
        inner = self.source.variable("s")
        self.source.line(f"{inner} = {value}", path)
        with self.unless_null(inner, b"\xff", nullable=nullable):
            if nullable:
                self.source.line("out(b'\\x01')")
            self.fields(field.struct, inner, path + ".")

    def tagged(self, owner: StructSchema, var: str, path: str) -> None:
        """Write the code for the tagged section of a struct."""
        self.flush()
        fields = owner.tagged_in(self.version)
        assert self.flexible, f"v{self.version} has no tagged fields"
        if not fields:
            unknown = f"tagged_section([], {var}.unknown_tags)"
            self.source.line(f"out({unknown} if {var}.unknown_tags else b'\\0')", path)
            return
        tags = self.source.variable("t")
        self.source.line(f"{tags} = []")
        for field in fields:
            value, inner = f"{var}.{field.attribute}", path + field.name
            with self.source.block(f"if {self.differs(field, value)}:", inner):
                pieces, outer = self.source.variable("p"), self.source.variable("o")
                self.source.line(f"{outer} = out; {pieces} = []; out = {pieces}.append")
                self.field(field, value, inner)
                self.flush()
                self.source.line(f"out = {outer}; {tags}.append(({field.tag}, b''.join({pieces})))", inner)
        unknown = f"{var}.unknown_tags"
        self.source.line(f"out(tagged_section({tags}, {unknown}) if {tags} or {unknown} else b'\\0')", path)


def encoder_source(message: MessageSchema, version: int, title: str) -> FunctionSource:
    """Return the source of `encode(message, append)` for one version.

    >>> from simzk.kafka.protocol.schema import message_schema
    >>> print(encoder_source(message_schema("SaslHandshakeRequest"), 1, "encode").text)
    def encode(m, out):
        b1 = m.mechanism
        b1 = b1.encode()
        out(pack_h_8(len(b1)))
        out(b1)
        if m.unknown_tags:
            raise ValueError(NO_TAGS)
        return
    """
    return _EncoderSource(message, version, title).compile()
