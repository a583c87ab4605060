"""Codec of each request and its reply: the table of operations (simzk.zookeeper.operations) on the wire (§1.5).

Both ends of a connection, the differential test and the documentation use this table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from simzk.wire import multi
from simzk.wire.frames import CLIENT_INFOS, NAMES
from simzk.wire.multi import DATA_AND_STAT, NOTHING, PATH_AND_STAT
from simzk.zookeeper import operations
from simzk.zookeeper import requests as req
from simzk.zookeeper.jute import ACLS, BOOLEAN, BUFFER, INT, LONG, STAT, TEXT, Codec, MalformedError, record, vector


class Operation(NamedTuple):
    """Request class with its codecs.

    Attributes:
        rule: its row in simzk.zookeeper.operations.
        codec: codec of its body.
        reply: codec of the body of a reply without error; None for multi and multi-read, whose body depends on the
            request (`multi.write_results`).
    """

    rule: operations.Operation
    codec: Codec[Any]
    reply: Codec[Any] | None

    @property
    def opcode(self) -> int:
        """Return its opcode."""
        return self.rule.opcode

    @property
    def request(self) -> type:
        """Return its class."""
        return self.rule.request


def _listed(items: Codec[Any]) -> Codec[Any]:
    """Return the codec of a vector decoded as a list, as bodies of replies are."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = items.read(data, at)
        return (None if value is None else list(value)), at

    return Codec(read, items.write)


def _read_not_null(data: bytes, at: int) -> tuple[str, int]:
    text, at = TEXT.read(data, at)
    if text is None:
        raise MalformedError("a path is null")
    return text, at


# A deleteContainer with a null path is assigned no zxid, unlike any other write (seen on 3.9.5), so it is malformed.
_NOT_NULL: Codec[Any] = Codec(_read_not_null, TEXT.write)
_LIST = _listed(NAMES)
_PATH_AND_WATCH = (TEXT, BOOLEAN)
_ACL_AND_STAT: Codec[Any] = record(lambda *values: values, ACLS, STAT)
_LIST_AND_STAT: Codec[Any] = record(lambda *values: values, _LIST, STAT)
_PATH_VECTOR = vector(TEXT)


def _form(request: type, codec: Codec[Any], reply: Codec[Any] | None) -> Operation:
    return Operation(operations.BY_REQUEST[request], codec, reply)


OPERATIONS: tuple[Operation, ...] = (
    _form(req.Create, multi.CREATE, TEXT),
    _form(req.Delete, multi.DELETE, NOTHING),
    _form(req.Exists, record(req.Exists, *_PATH_AND_WATCH), STAT),
    _form(req.GetData, multi.GET_DATA, DATA_AND_STAT),
    _form(req.SetData, multi.SET_DATA, STAT),
    _form(req.GetACL, record(req.GetACL, TEXT), _ACL_AND_STAT),
    _form(req.SetACL, record(req.SetACL, TEXT, ACLS, INT), STAT),
    _form(req.GetChildren, multi.GET_CHILDREN, _LIST),
    _form(req.Sync, record(req.Sync, TEXT), TEXT),
    _form(req.Ping, record(req.Ping), NOTHING),
    _form(req.GetChildren2, record(req.GetChildren2, *_PATH_AND_WATCH), _LIST_AND_STAT),
    _form(req.Multi, multi.MULTI, None),
    _form(req.Create2, multi.CREATE_2, PATH_AND_STAT),
    _form(req.Reconfig, record(req.Reconfig, TEXT, TEXT, TEXT, LONG), DATA_AND_STAT),
    _form(req.CheckWatches, record(req.CheckWatches, TEXT, INT), NOTHING),
    _form(req.RemoveWatches, record(req.RemoveWatches, TEXT, INT), NOTHING),
    _form(req.CreateContainer, multi.CREATE_CONTAINER, PATH_AND_STAT),
    _form(req.DeleteContainer, record(req.DeleteContainer, _NOT_NULL), NOTHING),
    _form(req.CreateTTL, multi.CREATE_TTL, PATH_AND_STAT),
    _form(req.MultiRead, multi.MULTI_READ, None),
    _form(req.Auth, record(req.Auth, INT, TEXT, BUFFER), NOTHING),
    _form(req.SetWatches, record(req.SetWatches, LONG, *[_PATH_VECTOR] * 3), NOTHING),
    _form(req.Sasl, record(req.Sasl, BUFFER), BUFFER),
    _form(req.GetEphemerals, record(req.GetEphemerals, TEXT), _LIST),
    _form(req.GetAllChildrenNumber, record(req.GetAllChildrenNumber, TEXT), INT),
    _form(req.SetWatches2, record(req.SetWatches2, LONG, *[_PATH_VECTOR] * 5), NOTHING),
    _form(req.AddWatch, record(req.AddWatch, TEXT, INT), INT),
    _form(req.WhoAmI, record(req.WhoAmI), _listed(CLIENT_INFOS)),
    # Answered by a connect response, which has no reply header.
    _form(req.CreateSession, record(req.CreateSession, INT), NOTHING),
    _form(req.CloseSession, record(req.CloseSession), NOTHING),
)

BY_OPCODE: dict[int, Operation] = {operation.opcode: operation for operation in OPERATIONS}
BY_REQUEST: dict[type, Operation] = {operation.request: operation for operation in OPERATIONS}
assert BY_REQUEST.keys() == operations.BY_REQUEST.keys() - operations.of_kind(operations.Kind.PART)
