"""Values of the protocol: messages and the structs in them, as objects with one attribute per field.

Rules of the module:
  - a class has the fields of all versions of its message; an object is encoded in any version. A field that a decoded
    version lacks has its default, as in Kafka's own classes;
  - array fields are sequences. A decoded array is a list, or `()` if its version lacks it; both are equal here;
  - tagged fields that the definition does not name are kept in `unknown_tags` and written again.

The classes themselves are made from the table on first use (`messages.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeGuard, dataclass_transform

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from simzk.kafka.protocol.schema import MessageSchema, StructSchema

Bytes: TypeAlias = bytes | bytearray | memoryview
"""Value of a field of type bytes or records. Decoded bytes are `bytes`, decoded records a view of the frame."""


class ProtocolError(SimzkError):
    """A message that cannot be decoded or encoded: which message, version, field and byte.

    Args:
        what: one sentence that says what is wrong.
        message: name of the message, such as MetadataRequest; empty if the header names none.
        version: version of the message, None if there is none.
        field: path of the field with indexes, such as Topics[2].Name; empty if no field is at fault.
        offset: byte in the frame or body at which decoding failed, None while encoding.

    >>> str(ProtocolError("negative length", message="MetadataRequest", version=9, field="Topics[0].Name", offset=6))
    'MetadataRequest v9, Topics[0].Name at byte 6: negative length'
    """

    def __init__(
        self, what: str, *, message: str = "", version: int | None = None, field: str = "", offset: int | None = None
    ) -> None:
        assert offset is None or offset >= 0, f"byte {offset}"
        self.message = message
        self.version = version
        self.field = field
        self.offset = offset
        name = message if version is None else f"{message} v{version}"
        place = ", ".join(part for part in (name, field) if part)
        super().__init__(what, where=place if offset is None else f"{place} at byte {offset}".lstrip())


class UnsupportedVersionError(ProtocolError):
    """A message in a version that its definition does not have, or a request with an unknown API key."""


def _is_array(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _equal(one: object, other: object) -> bool:
    if one == other:
        return True
    return _is_array(one) and _is_array(other) and len(one) == len(other) and all(map(_equal, one, other))


@dataclass_transform(kw_only_default=True)
class Struct:
    """Struct of a message. Keyword arguments set its fields; all others have their defaults."""

    __slots__ = ("unknown_tags",)

    SCHEMA: ClassVar[StructSchema]
    MESSAGE: ClassVar[MessageSchema]
    """Message that the struct belongs to."""
    unknown_tags: Mapping[int, bytes] | None

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in (*self.__slots__, "unknown_tags"))

    __hash__ = None  # type: ignore[assignment]  # the fields may change

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__qualname__}({fields})"


class Message(Struct):
    """Request, response, header or data of Kafka's protocol."""

    __slots__ = ()
