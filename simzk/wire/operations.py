"""Codecs of requests and replies: the table of operations (simzk.zookeeper.operations) on the wire (§1.5, §1.6).

Rules of multi and multi-read, whose bodies are operations or results in sequence, each after a header:
  - a request consists of writes or of reads, not both; any other operation makes it malformed. A multi-read of writes
    decodes, and the server rejects it, as the real one does;
  - the flags of a create decide its class here, because the real server does so while it decodes;
  - the type of a result decides how it is decoded, so a client needs only the bytes.

Source: org.apache.zookeeper.MultiOperationRecord, Op, MultiResponse.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.wire.frames import CLIENT_INFOS, MULTI_HEADER, NAMES, MultiHeader
from simzk.zookeeper import operations
from simzk.zookeeper import requests as req
from simzk.zookeeper.jute import ACLS, BOOLEAN, BUFFER, INT, LONG, PATH, STAT, TEXT, Codec, MalformedError, record
from simzk.zookeeper.releases import NEWEST, Rules, rules_of

if TYPE_CHECKING:
    from simzk.zookeeper.replies import OperationResult

CREATE = record(req.Create, TEXT, BUFFER, ACLS, INT)
CREATE_2 = record(req.Create2, TEXT, BUFFER, ACLS, INT)
CREATE_CONTAINER = record(req.CreateContainer, TEXT, BUFFER, ACLS, INT)
CREATE_TTL = record(req.CreateTTL, TEXT, BUFFER, ACLS, INT, LONG)
DELETE = record(req.Delete, TEXT, INT)
SET_DATA = record(req.SetData, TEXT, BUFFER, INT)
CHECK = record(req.Check, TEXT, INT)
GET_DATA = record(req.GetData, TEXT, BOOLEAN)
GET_CHILDREN = record(req.GetChildren, TEXT, BOOLEAN)

PATH_AND_STAT: Codec[Any] = record(lambda *values: values, TEXT, STAT)
DATA_AND_STAT: Codec[Any] = record(lambda *values: values, BUFFER, STAT)


NOTHING: Codec[None] = Codec(lambda data, at: (None, at), lambda out, value: None)


class MultiOperationCodec(NamedTuple):
    """Operation of a multi: its type and codec, and the type and codec of its result."""

    type: int
    codec: Codec[Any]
    result_type: int
    result: Codec[Any]


def _part(kind: type, codec: Codec[Any], result: Codec[Any], *, result_of: type | None = None) -> MultiOperationCodec:
    """Return the part for a class of request; its result has the type of `result_of`, by default its own."""
    return MultiOperationCodec(
        operations.BY_REQUEST[kind].opcode, codec, operations.BY_REQUEST[result_of or kind].opcode, result
    )


WRITE_PARTS: dict[type, MultiOperationCodec] = {
    req.Create: _part(req.Create, CREATE, TEXT),
    req.Create2: _part(req.Create2, CREATE_2, PATH_AND_STAT),
    # The results of these two have the type of create2 (§1.6).
    req.CreateContainer: _part(req.CreateContainer, CREATE_CONTAINER, PATH_AND_STAT, result_of=req.Create2),
    req.CreateTTL: _part(req.CreateTTL, CREATE_TTL, PATH_AND_STAT, result_of=req.Create2),
    req.Delete: _part(req.Delete, DELETE, NOTHING),
    req.SetData: _part(req.SetData, SET_DATA, STAT),
    req.Check: _part(req.Check, CHECK, NOTHING),
}
READ_PARTS: dict[type, MultiOperationCodec] = {
    req.GetData: _part(req.GetData, GET_DATA, DATA_AND_STAT),
    req.GetChildren: _part(req.GetChildren, GET_CHILDREN, NAMES),
}


class NullACLError(MalformedError):
    """Create without an ACL in a multi; the real server fails on it before it assigns a zxid."""


_ERROR_TYPE = -1
_END = MultiHeader(-1, True, -1)
_CONTAINER_FLAGS = 4
_TTL_FLAGS = (5, 6)


def _resolve(operation: Any) -> Any:
    """Return a decoded create as the class that its flags mean, as the real server does."""
    if isinstance(operation, req.CreateTTL):
        if operation.flags in _TTL_FLAGS:
            return operation
        # Without a TTL flag it is a plain create, and its time to live is dropped.
        operation = req.Create(*operation[:4])
    if getattr(operation, "flags", None) == _CONTAINER_FLAGS:
        return req.CreateContainer(*operation)
    return operation


def _check_create(operation: Any) -> None:
    """Raise MalformedError for a create that the real server cannot build (CreateOptions)."""
    if not isinstance(operation, req.Create | req.Create2 | req.CreateContainer):
        return
    if not 0 <= operation.flags <= _TTL_FLAGS[-1]:
        raise MalformedError("a create has invalid flags")
    if operation.acl is None:
        raise NullACLError("a create in a multi has no ACL")
    if operation.flags in _TTL_FLAGS:
        raise MalformedError("a create with a TTL flag has no time to live")


def _resolve_old(operation: Any, last_flags: int) -> Any:
    """Return a decoded create as the class that its flags mean before 3.7.2 and 3.8.2, whatever its opcode was."""
    if not isinstance(operation, req.Create | req.Create2 | req.CreateContainer | req.CreateTTL):
        return operation
    if isinstance(operation, req.CreateTTL) and operation.flags in _TTL_FLAGS:
        return operation
    return (req.CreateContainer if operation.flags == _CONTAINER_FLAGS <= last_flags else req.Create)(*operation[:4])


@cache
def multi_request(make: type[req.Multi | req.MultiRead], rules: Rules) -> Codec[Any]:
    """Return the codec of a multi or multi-read of a release.

    Both decode operations of either kind, and a mixture is malformed. A multi of reads is malformed only at its end:
    what stands in it before decides whether it takes a zxid (`NullACLError`).
    """
    parts = WRITE_PARTS if req.MultiRead in rules.unknown else {**WRITE_PARTS, **READ_PARTS}
    by_type = {part.type: (part.codec, kind in READ_PARTS) for kind, part in parts.items() if kind not in rules.unknown}
    keeps_opcodes, last_flags = rules.multi_keeps_opcodes, rules.last_flags

    def read(data: bytes, at: int) -> tuple[Any, int]:
        operations: list[Any] = []
        halves = set()
        header, at = MULTI_HEADER.read(data, at)
        while not header.done:
            if header.type not in by_type:
                raise MalformedError(f"operation type {header.type} is not allowed in this multi")
            codec, half = by_type[header.type]
            operation, at = codec.read(data, at)
            if keeps_opcodes:
                _check_create(operation)
                operations.append(_resolve(operation))
            else:
                operations.append(_resolve_old(operation, last_flags))
            halves.add(half)
            if len(halves) > 1:
                raise MalformedError("a multi mixes reads and writes")
            header, at = MULTI_HEADER.read(data, at)
        if make is req.Multi and True in halves:
            raise MalformedError("a multi consists of reads")
        return make(tuple(operations)), at

    def write(out: bytearray, value: Any) -> None:
        for operation in value.operations:
            part = parts[operation.__class__]
            MULTI_HEADER.write(out, MultiHeader(part.type, False, -1))
            part.codec.write(out, operation)
        MULTI_HEADER.write(out, _END)

    return Codec(read, write)


MULTI, MULTI_READ = (multi_request(make, rules_of(NEWEST)) for make in (req.Multi, req.MultiRead))


def write_results(
    out: bytearray, request: req.Multi | req.MultiRead | req.Undecodable, results: list[OperationResult]
) -> None:
    """Write the body of the reply to `request`."""
    if isinstance(request, req.Undecodable):
        MULTI_HEADER.write(out, _END)
        return
    parts = WRITE_PARTS if isinstance(request, req.Multi) else READ_PARTS
    assert len(results) <= len(request.operations)
    assert not results or isinstance(request, req.MultiRead) or len(results) == len(request.operations)
    # If a write fails, none is applied; the operations before it have error 0 in the reply (§1.6).
    all_failed = isinstance(request, req.Multi) and any(result.error for result in results)
    # A multi-read may stop half-way, with fewer results than operations.
    for operation, (error, body) in zip(request.operations, results, strict=False):
        if error or all_failed:
            MULTI_HEADER.write(out, MultiHeader(_ERROR_TYPE, False, error))
            INT.write(out, error)
        else:
            part = parts[operation.__class__]
            MULTI_HEADER.write(out, MultiHeader(part.result_type, False, 0))
            part.result.write(out, body)
    MULTI_HEADER.write(out, _END)


class OperationCodec(NamedTuple):
    """Request class with its codecs.

    Attributes:
        opcode: number on the wire.
        request: the class.
        codec: codec of its body.
        reply: codec of the body of a reply without error; None for multi and multi-read, whose body depends on the
            request (`write_results`).
    """

    opcode: int
    request: type
    codec: Codec[Any]
    reply: Codec[Any] | None


def _listed(items: Codec[Any]) -> Codec[Any]:
    """Return the codec of a vector decoded as a list, as bodies of replies are."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = items.read(data, at)
        return (None if value is None else list(value)), at

    return Codec(read, items.write)


_LIST = _listed(NAMES)
_PATH_AND_WATCH = (TEXT, BOOLEAN)
_ACL_AND_STAT: Codec[Any] = record(lambda *values: values, ACLS, STAT)
_LIST_AND_STAT: Codec[Any] = record(lambda *values: values, _LIST, STAT)


def _form(request: type, codec: Codec[Any], reply: Codec[Any] | None) -> OperationCodec:
    return OperationCodec(operations.BY_REQUEST[request].opcode, request, codec, reply)


OPERATIONS: tuple[OperationCodec, ...] = (
    _form(req.Create, CREATE, TEXT),
    _form(req.Delete, DELETE, NOTHING),
    _form(req.Exists, record(req.Exists, *_PATH_AND_WATCH), STAT),
    _form(req.GetData, GET_DATA, DATA_AND_STAT),
    _form(req.SetData, SET_DATA, STAT),
    _form(req.GetACL, record(req.GetACL, TEXT), _ACL_AND_STAT),
    _form(req.SetACL, record(req.SetACL, TEXT, ACLS, INT), STAT),
    _form(req.GetChildren, GET_CHILDREN, _LIST),
    _form(req.Sync, record(req.Sync, TEXT), TEXT),
    _form(req.Ping, record(req.Ping), NOTHING),
    _form(req.GetChildren2, record(req.GetChildren2, *_PATH_AND_WATCH), _LIST_AND_STAT),
    _form(req.Multi, MULTI, None),
    _form(req.Create2, CREATE_2, PATH_AND_STAT),
    _form(req.Reconfig, record(req.Reconfig, TEXT, TEXT, TEXT, LONG), DATA_AND_STAT),
    _form(req.CheckWatches, record(req.CheckWatches, TEXT, INT), NOTHING),
    _form(req.RemoveWatches, record(req.RemoveWatches, TEXT, INT), NOTHING),
    _form(req.CreateContainer, CREATE_CONTAINER, PATH_AND_STAT),
    # With a null path it is assigned no zxid, unlike any other write (seen on 3.9.5), so it is malformed.
    _form(req.DeleteContainer, record(req.DeleteContainer, PATH), NOTHING),
    _form(req.CreateTTL, CREATE_TTL, PATH_AND_STAT),
    _form(req.MultiRead, MULTI_READ, None),
    _form(req.Auth, record(req.Auth, INT, TEXT, BUFFER), NOTHING),
    _form(req.SetWatches, record(req.SetWatches, LONG, *[NAMES] * 3), NOTHING),
    _form(req.Sasl, record(req.Sasl, BUFFER), BUFFER),
    _form(req.GetEphemerals, record(req.GetEphemerals, TEXT), _LIST),
    _form(req.GetAllChildrenNumber, record(req.GetAllChildrenNumber, TEXT), INT),
    _form(req.SetWatches2, record(req.SetWatches2, LONG, *[NAMES] * 5), NOTHING),
    _form(req.AddWatch, record(req.AddWatch, TEXT, INT), INT),
    _form(req.WhoAmI, record(req.WhoAmI), _listed(CLIENT_INFOS)),
    # Answered by a connect response, which has no reply header.
    _form(req.CreateSession, record(req.CreateSession, INT), NOTHING),
    _form(req.CloseSession, record(req.CloseSession), NOTHING),
)

# Before 3.9 the whole frame is the path of a deleteContainer, which is no valid one.
_NO_CONTAINER: Codec[Any] = Codec(lambda data, at: (req.DeleteContainer(""), at), lambda out, value: None)

BY_OPCODE: dict[int, OperationCodec] = {operation.opcode: operation for operation in OPERATIONS}
BY_REQUEST: dict[type, OperationCodec] = {operation.request: operation for operation in OPERATIONS}
_CHECK_OPCODE = operations.BY_REQUEST[req.Check].opcode
_NUMBERED_FIRST = frozenset(
    operations.BY_REQUEST[kind].opcode
    for kind in operations.of_kind(operations.Kind.WRITE, operations.Kind.PART) - {req.Multi, req.Reconfig}
)
assert len(BY_OPCODE) == len(BY_REQUEST) == len(OPERATIONS)
assert BY_REQUEST.keys() == operations.BY_REQUEST.keys() - operations.of_kind(operations.Kind.PART)


def request_codec(opcode: int, rules: Rules) -> Codec[Any] | None:
    """Return the codec of a request as a release decodes it, or None for an opcode that it does not know."""
    operation = BY_OPCODE.get(opcode)
    if operation is None:
        return None if rules.refuses_check or opcode != _CHECK_OPCODE else CHECK
    if operation.request in rules.unknown:
        return None
    if operation.request is req.DeleteContainer and not rules.clients_delete_containers:
        return _NO_CONTAINER
    if operation.request in (req.Multi, req.MultiRead):
        return multi_request(operation.request, rules)
    return operation.codec


def undecodable(opcode: int, malformed: MalformedError, rules: Rules) -> req.Undecodable:
    """Return the request for a malformed body as a release processes it (§1.4)."""
    assert request_codec(opcode, rules) is not None, "a request that the release does not know is not decoded"
    if opcode == BY_REQUEST[req.Multi].opcode:
        lacks_acl = isinstance(malformed, NullACLError)
        return req.Undecodable(opcode, not lacks_acl, has_results=lacks_acl and not rules.decodes_before_zxid)
    if opcode == BY_REQUEST[req.CreateSession].opcode:
        return req.Undecodable(opcode, takes_zxid=True)
    return req.Undecodable(opcode, not rules.decodes_before_zxid and opcode in _NUMBERED_FIRST)
