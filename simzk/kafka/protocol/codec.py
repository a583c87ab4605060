"""Bytes of messages and back, without I/O: bodies, and frames of requests and responses with their headers.

Rules of the module:
  - a frame is what follows the four bytes of its length;
  - the functions for a message and version are compiled from the table on first use;
  - whatever is wrong with bytes or with a value raises `ProtocolError`, which names message, version, field and byte;
    its class is `UnsupportedVersionError` if the definitions lack the API key or the version;
  - bytes after the body of a request are ignored, as real brokers do (AbstractRequest.parseRequest). `decode` rejects
    them.

>>> from simzk.kafka.protocol.messages import MetadataRequest
>>> frame = encode_request(MetadataRequest(topics=None), 9, correlation_id=7, client_id="test")
>>> request = decode_request(frame)
>>> request.header.correlation_id, request.header.client_id, request.body == MetadataRequest(topics=None)
(7, 'test', True)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from simzk.kafka.protocol.classes import request_class, struct_classes
from simzk.kafka.protocol.decoding import Decoder, decoder_source
from simzk.kafka.protocol.encoding import Encoder, encoder_source
from simzk.kafka.protocol.messages import RequestHeader, ResponseHeader
from simzk.kafka.protocol.schema import NUMBERS
from simzk.kafka.protocol.structs import Bytes, Message, ProtocolError, UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.protocol.schema import MessageSchema
    from simzk.kafka.protocol.source import Failure, FunctionSource, PackedValue

M = TypeVar("M", bound=Message)

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7

_MISFITS = (ValueError, TypeError, AttributeError, OverflowError, struct.error, IndexError)
"""What a compiled function raises for wrong bytes or values; MalformedError and UnicodeError are ValueErrors."""


class RequestFrame(NamedTuple):
    """Decoded frame of a request."""

    header: RequestHeader
    body: Message


def encode(message: Message, version: int) -> bytes:
    """Return the body of a message in a version.

    Raises:
        UnsupportedVersionError: the message does not have this version.
        ProtocolError: a value does not fit its field, or is set in a field that the version lacks.

    >>> from simzk.kafka.protocol.messages import HeartbeatRequest
    >>> encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0).hex()
    '0001670000000100016d'
    """
    return _encoded((message, version))


def decode(kind: type[M], version: int, data: Bytes) -> M:
    """Return the message of a body.

    Raises:
        UnsupportedVersionError: the message does not have this version.
        ProtocolError: the bytes end too early or too late, or are no such message.

    >>> from simzk.kafka.protocol.messages import HeartbeatResponse
    >>> decode(HeartbeatResponse, 0, b"\\0\\x1b").error_code
    27
    """
    data = data if type(data) is bytes else bytes(data)
    message, end = decode_at(kind, version, data, 0)
    if end != len(data):
        what = f"{len(data) - end} bytes are left after the message"
        raise ProtocolError(what, message=kind.MESSAGE.name, version=version, offset=end)
    return message


def decode_at(kind: type[M], version: int, data: bytes, at: int) -> tuple[M, int]:
    """Return the message that begins at a position, and the position after it. Errors are those of `decode`."""
    function, source = _decoder(kind, version)  # type: ignore[arg-type]  # mypy: as if `kind` were an object of it
    try:
        message, end = function(data, at)
    except _MISFITS as error:
        failure = source.failure(error.__traceback__)
        if failure is None:
            raise
        raise _decoding_error(error, kind.MESSAGE, version, failure, len(data)) from None
    assert type(message) is kind
    assert at <= end <= len(data), f"the message ends at {end}"
    return message, end


def encode_request(body: Message, version: int, *, correlation_id: int, client_id: str | None) -> bytes:
    """Return the frame of a request.

    Raises:
        ProtocolError: as for `encode`.
    """
    schema = body.MESSAGE
    header = RequestHeader(
        request_api_key=schema.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return _encoded((header, request_header_version(schema, version)), (body, version))


def decode_request_header(frame: Bytes) -> tuple[RequestHeader, int]:
    """Return the header of a request's frame, and the position of the body.

    The version may be one that the API does not have: a broker needs the correlation id of an ApiVersions request in
    any version.

    Raises:
        UnsupportedVersionError: the API key is unknown.
        ProtocolError: the header is incomplete.

    >>> header, at = decode_request_header(bytes.fromhex("0012 0063 00000001 ffff 00"))
    >>> header.request_api_version, header.client_id, at
    (99, None, 11)
    """
    frame = frame if type(frame) is bytes else bytes(frame)
    if len(frame) < 4:
        what = f"the frame has {len(frame)} bytes, which is less than an API key and a version"
        raise ProtocolError(what, message="RequestHeader", offset=0)
    api_key, version = struct.unpack_from(">hh", frame)
    kind = request_class(api_key)
    if kind is None:
        raise UnsupportedVersionError(f"API key {api_key} is unknown", message="RequestHeader", offset=0)
    return decode_at(RequestHeader, request_header_version(kind.MESSAGE, version), frame, 0)


def decode_request(frame: Bytes) -> RequestFrame:
    """Return header and body of a request's frame; bytes after the body are ignored.

    Raises:
        UnsupportedVersionError: the API key is unknown, or the API does not have the version.
        ProtocolError: the frame ends too early, or is no such request.
    """
    frame = frame if type(frame) is bytes else bytes(frame)
    header, at = decode_request_header(frame)
    kind = request_class(header.request_api_key)
    assert kind is not None
    body, _ = decode_at(kind, header.request_api_version, frame, at)
    return RequestFrame(header, body)


def encode_response(body: Message, version: int, *, correlation_id: int, header_version: int | None = None) -> bytes:
    """Return the frame of a response.

    Args:
        body: the response.
        version: version of the body.
        correlation_id: that of the request.
        header_version: version of the header [default: that of the body's version]. It differs if the body is not in
            the requested version.

    Raises:
        ProtocolError: as for `encode`.
    """
    if header_version is None:
        header_version = response_header_version(body.MESSAGE, version)
    return _encoded((ResponseHeader(correlation_id=correlation_id), header_version), (body, version))


def decode_response(kind: type[M], version: int, frame: Bytes) -> tuple[int, int, M]:
    """Return correlation id, version and body of a response's frame.

    The version is the requested one, except for ApiVersions: a broker answers a version that it does not know in
    version 0, with the error UNSUPPORTED_VERSION.

    Raises:
        ProtocolError: as for `decode`.

    >>> from simzk.kafka.protocol.messages import ApiVersionsResponse
    >>> decode_response(ApiVersionsResponse, 3, bytes.fromhex("00000005 0023 00000000"))[:2]
    (5, 0)
    """
    frame = frame if type(frame) is bytes else bytes(frame)
    header, at = decode_at(ResponseHeader, response_header_version(kind.MESSAGE, version), frame, 0)
    if kind.MESSAGE.api_key == API_VERSIONS and frame[at : at + 2] == _UNSUPPORTED_VERSION:
        version = 0
    message, end = decode_at(kind, version, frame, at)
    if end != len(frame):
        what = f"{len(frame) - end} bytes are left after the message"
        raise ProtocolError(what, message=kind.MESSAGE.name, version=version, offset=end)
    return header.correlation_id, version, message


_UNSUPPORTED_VERSION = (35).to_bytes(2, "big")


def request_header_version(schema: MessageSchema, version: int) -> int:
    """Return the version of a request's header (ApiMessageType.requestHeaderVersion)."""
    assert schema.kind == "request", f"{schema.name} is no request"
    if schema.api_key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version in schema.flexible else 1


def response_header_version(schema: MessageSchema, version: int) -> int:
    """Return the version of a response's header (ApiMessageType.responseHeaderVersion).

    ApiVersions always has version 0: a client must read it before it knows which versions the broker has.
    """
    assert schema.kind == "response", f"{schema.name} is no response"
    return int(version in schema.flexible and schema.api_key != API_VERSIONS)


def _encoded(*parts: tuple[Message, int]) -> bytes:
    """Return the bodies of messages, each in its version, one after another."""
    pieces: list[Bytes] = []
    for message, version in parts:
        function, source = _encoder(type(message), version)  # type: ignore[arg-type]  # as in `decode_at`
        try:
            function(message, pieces.append)
        except _MISFITS as error:
            failure = source.failure(error.__traceback__)
            if failure is None:
                raise
            raise _encoding_error(error, message.MESSAGE, version, failure, source.names) from None
    try:
        return b"".join(pieces)
    except TypeError as error:
        raise ProtocolError(f"a field of type bytes or records has another value: {error}") from None


@cache
def _encoder(kind: type[Message], version: int) -> tuple[Encoder, FunctionSource]:
    schema = _supported(kind, version)
    source = encoder_source(schema, version, f"<encoder of {schema.name} v{version}>")
    return cast("Encoder", source.compile()), source


@cache
def _decoder(kind: type[Message], version: int) -> tuple[Decoder, FunctionSource]:
    schema = _supported(kind, version)
    source = decoder_source(schema, version, f"<decoder of {schema.name} v{version}>", struct_classes(kind))
    return cast("Decoder", source.compile()), source


def _supported(kind: type[Message], version: int) -> MessageSchema:
    schema = kind.MESSAGE
    if version not in schema.versions:
        what = f"the version does not exist; {schema.name} has {schema.versions}"
        raise UnsupportedVersionError(what, message=schema.name, version=version)
    return schema


def _path(template: str, variables: Mapping[str, object]) -> str:
    """Return a place's path with its loop variables filled in: `{i}` is an index, `{v:x}` is that of x in v."""

    def index(found: re.Match[str]) -> str:
        items, item = found.groups()
        if item is None:
            return str(variables.get(items, "?"))
        sequence = variables.get(items)
        assert isinstance(sequence, Iterable), items
        return str(next((at for at, one in enumerate(sequence) if one is variables.get(item)), "?"))

    return re.sub(r"\{(\w+)(?::(\w+))?\}", index, template)


def _decoding_error(
    error: Exception, schema: MessageSchema, version: int, failure: Failure, size: int
) -> ProtocolError:
    """Return the error for a line of a decoder that failed."""
    place, variables = failure
    at = variables["at"]
    assert isinstance(at, int)
    path, what = place.path, str(error)
    if isinstance(error, struct.error | IndexError):
        what = "the message ends too early"
        for part in place.parts:
            path = part.path
            if at + part.size > size:
                break
            at += part.size
    return ProtocolError(what, message=schema.name, version=version, field=_path(path, variables), offset=at)


def _encoding_error(
    error: Exception, schema: MessageSchema, version: int, failure: Failure, names: dict[str, object]
) -> ProtocolError:
    """Return the error for a line of an encoder that failed."""
    place, variables = failure
    path, what = place.path, str(error)
    for part in place.parts:
        path, found = part.path, _misfit(part, names, variables)
        if found is not None:
            path, what = path + found[0], found[1]
            break
    if "NoneType" in what:
        what = "null in a field that is not nullable"
    return ProtocolError(what, message=schema.name, version=version, field=_path(path, variables))


def _misfit(part: PackedValue, names: dict[str, object], variables: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the index (if it is an array) and the reason for which a value cannot be packed, None if it can."""
    try:
        value = eval(part.value, names, dict(variables))
    except _MISFITS as error:
        return "", str(error)
    values = value if part.size == 0 else [value]
    for index, item in enumerate(values):
        try:
            struct.pack(f">{part.letter}", item)
        except _MISFITS:
            return "" if part.size else f"[{index}]", f"{item!r} is no {_KINDS[part.letter]}"
    return None


_KINDS = {letter: kind for kind, letter in NUMBERS.items()}
