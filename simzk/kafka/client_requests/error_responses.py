"""Responses that report one error for everything that a request names (AbstractRequest.getErrorResponse).

Rules of this module:
  - the error is in the response's own error field if its version has one, otherwise in each item that stands for an
    item of the request: the first array with errors answers the first array of the request;
  - an item repeats the request's fields of the same name, and its topic, partition or group, however they are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simzk.kafka.protocol.classes import response_class, struct_classes
from simzk.kafka.protocol.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.protocol.errors import ErrorCode
    from simzk.kafka.protocol.schema import Field, StructSchema
    from simzk.kafka.protocol.structs import Message

ERRORS = frozenset({"ErrorCode", "PartitionErrorCode"})
TEXT = "ErrorMessage"
_NAMES = frozenset({"Name", "Topic", "TopicName", "GroupId", "TransactionalId", "Key"})
_NUMBERS = frozenset({"Index", "PartitionIndex", "Partition", "PartitionId"})
"""Names of the fields that say for which topic, partition or group an item is."""


def error_response(request: Message, version: int, code: ErrorCode, text: str) -> Message | None:
    """Return the response to a request with one error; None if this version of the response has no error field.

    Args:
        request: the request.
        version: its version.
        code: the error.
        text: the message, for versions that have a field for it.

    >>> from simzk.kafka.protocol.errors import ErrorCode
    >>> from simzk.kafka.protocol.messages import DeleteGroupsRequest, SaslHandshakeRequest
    >>> error_response(SaslHandshakeRequest(mechanism="PLAIN"), 1, ErrorCode.UNSUPPORTED_VERSION, "").error_code.name
    'UNSUPPORTED_VERSION'
    >>> error_response(DeleteGroupsRequest(groups_names=["a"]), 0, ErrorCode.NOT_COORDINATOR, "").results[0].group_id
    'a'
    """
    kind = response_class(request.MESSAGE.api_key)
    assert kind is not None, f"{request.MESSAGE.name} has no response"
    if not _has_error(kind.SCHEMA, version):
        return None
    filled = _filled(kind.SCHEMA, struct_classes(kind), request, version, code, text, is_item=False)
    assert isinstance(filled, kind)
    return filled


def _has_error(schema: StructSchema, version: int) -> bool:
    """Return whether a struct, or an item of its arrays, has an error code in a version."""
    present = (field for field in schema.fields if version in field.versions)
    return any(field.name in ERRORS or (field.struct and _has_error(field.struct, version)) for field in present)


def _filled(
    schema: StructSchema,
    classes: Mapping[str, type[Struct]],
    asked: Any,
    version: int,
    code: ErrorCode,
    text: str,
    *,
    is_item: bool = True,
) -> Struct:
    """Return a struct of the response with the error; `asked` is the struct or the value of the request."""
    fields = [field for field in schema.fields if version in field.versions]
    values: dict[str, Any] = {}
    for field in fields:
        if field.name in ERRORS:
            values[field.attribute] = code
        elif field.name == TEXT:
            values[field.attribute] = text
        elif is_item and field.struct is None and (value := _value(asked, field, version)) is not None:
            values[field.attribute] = value
    if ERRORS.isdisjoint(field.name for field in fields):
        arrays = (field for field in fields if field.struct and field.is_array and _has_error(field.struct, version))
        if (array := next(arrays, None)) is not None and array.struct is not None:
            items = _first_array(asked, version)
            made = [_filled(array.struct, classes, item, version, code, text) for item in items]
            values[array.attribute] = made
    return classes[schema.name](**values)


def _value(asked: Any, field: Field, version: int) -> object:
    """Return the request's value for a field of the response; None if it has none."""
    alike = next((names for names in (_NAMES, _NUMBERS) if field.name in names), frozenset({field.name}))
    if not isinstance(asked, Struct):  # an item of an array of names or numbers
        return asked if alike is (_NAMES if isinstance(asked, str) else _NUMBERS) else None
    found = (
        one
        for one in asked.SCHEMA.fields
        if version in one.versions and one.name in alike and (one.kind, one.is_array) == (field.kind, field.is_array)
    )
    return next((getattr(asked, one.attribute) for one in found), None)


def _first_array(asked: Any, version: int) -> Any:
    """Return the request's first array in a version; empty if it has none or it is null."""
    fields = asked.SCHEMA.fields if isinstance(asked, Struct) else ()
    arrays = (getattr(asked, field.attribute) for field in fields if field.is_array and version in field.versions)
    return next((array for array in arrays if array is not None), ())
