"""The one table of ZooKeeper's requests (§1.5): opcode, request, codecs, kind and permission.

The server's and the client's end of a connection, the differential test and the documentation read this table.
"""

from __future__ import annotations

from typing import Any

from simzk.tuples import NamedTuple
from simzk.wire import multi
from simzk.wire.multi import DATA_AND_STAT, NOTHING, PATH_AND_STAT
from simzk.wire.records import CLIENT_INFOS, NAMES
from simzk.zookeeper import requests as req
from simzk.zookeeper.jute import BOOLEAN, BUFFER, INT, LONG, TEXT, Codec, MalformedError, record, vector
from simzk.zookeeper.jute_records import ACLS, STAT
from simzk.zookeeper.prepare import PREPARE


class Operation(NamedTuple):
    """One kind of request.

    Attributes:
        opcode: its number on the wire.
        request: its class.
        codec: of its body.
        reply: of the body of its reply where there was no error; None for the multis, whose body depends on what was
            asked (`multi.write_results`).
        permission: what a client must be permitted, and where, as §4 says it; empty for nothing.
    """

    opcode: int
    request: type
    codec: Codec[Any]
    reply: Codec[Any] | None
    permission: str = ""

    @property
    def is_write(self) -> bool:
        """Whether it consumes a zxid, even where it fails."""
        return self.request in PREPARE or self.request in (req.Multi, req.CloseSession)


def _listed(items: Codec[Any]) -> Codec[Any]:
    """A vector whose value is a list, as bodies of replies have it."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = items.read(data, at)
        return (None if value is None else list(value)), at

    return Codec(read, items.write)


def _read_not_null(data: bytes, at: int) -> tuple[str, int]:
    text, at = TEXT.read(data, at)
    if text is None:
        raise MalformedError("a null where the real server reads none")
    return text, at


# A null path of a deleteContainer takes no zxid, unlike with every other write (seen on 3.9.5): it does not parse.
_NOT_NULL: Codec[Any] = Codec(_read_not_null, TEXT.write)
_LIST = _listed(NAMES)
_PATH_AND_WATCH = (TEXT, BOOLEAN)
_ACL_AND_STAT: Codec[Any] = record(lambda *values: values, ACLS, STAT)
_LIST_AND_STAT: Codec[Any] = record(lambda *values: values, _LIST, STAT)
_PATH_VECTOR = vector(TEXT)

OPERATIONS: tuple[Operation, ...] = (
    Operation(1, req.Create, multi.CREATE, TEXT, "CREATE on the parent"),
    Operation(2, req.Delete, multi.DELETE, NOTHING, "DELETE on the parent"),
    Operation(3, req.Exists, record(req.Exists, *_PATH_AND_WATCH), STAT, "READ"),
    Operation(4, req.GetData, multi.GET_DATA, DATA_AND_STAT, "READ"),
    Operation(5, req.SetData, multi.SET_DATA, STAT, "WRITE"),
    Operation(6, req.GetACL, record(req.GetACL, TEXT), _ACL_AND_STAT, "READ or ADMIN"),
    Operation(7, req.SetACL, record(req.SetACL, TEXT, ACLS, INT), STAT, "ADMIN"),
    Operation(8, req.GetChildren, multi.GET_CHILDREN, _LIST, "READ"),
    Operation(9, req.Sync, record(req.Sync, TEXT), TEXT),
    Operation(11, req.Ping, record(req.Ping), NOTHING),
    Operation(12, req.GetChildren2, record(req.GetChildren2, *_PATH_AND_WATCH), _LIST_AND_STAT, "READ"),
    Operation(14, req.Multi, multi.MULTI, None, "what each operation needs"),
    Operation(15, req.Create2, multi.CREATE_2, PATH_AND_STAT, "CREATE on the parent"),
    Operation(
        16, req.Reconfig, record(req.Reconfig, TEXT, TEXT, TEXT, LONG), DATA_AND_STAT, "WRITE on /zookeeper/config"
    ),
    Operation(17, req.CheckWatches, record(req.CheckWatches, TEXT, INT), NOTHING),
    Operation(18, req.RemoveWatches, record(req.RemoveWatches, TEXT, INT), NOTHING),
    Operation(19, req.CreateContainer, multi.CREATE_CONTAINER, PATH_AND_STAT, "CREATE on the parent"),
    Operation(20, req.DeleteContainer, record(req.DeleteContainer, _NOT_NULL), NOTHING),
    Operation(21, req.CreateTTL, multi.CREATE_TTL, PATH_AND_STAT, "CREATE on the parent"),
    Operation(22, req.MultiRead, multi.MULTI_READ, None, "READ"),
    Operation(100, req.Auth, record(req.Auth, INT, TEXT, BUFFER), NOTHING),
    Operation(101, req.SetWatches, record(req.SetWatches, LONG, *[_PATH_VECTOR] * 3), NOTHING),
    Operation(102, req.Sasl, record(req.Sasl, BUFFER), BUFFER),
    Operation(103, req.GetEphemerals, record(req.GetEphemerals, TEXT), _LIST),
    Operation(104, req.GetAllChildrenNumber, record(req.GetAllChildrenNumber, TEXT), INT, "READ"),
    Operation(105, req.SetWatches2, record(req.SetWatches2, LONG, *[_PATH_VECTOR] * 5), NOTHING),
    Operation(106, req.AddWatch, record(req.AddWatch, TEXT, INT), INT),
    Operation(107, req.WhoAmI, record(req.WhoAmI), _listed(CLIENT_INFOS)),
    Operation(-11, req.CloseSession, record(req.CloseSession), NOTHING),
)

BY_OPCODE: dict[int, Operation] = {operation.opcode: operation for operation in OPERATIONS}
BY_REQUEST: dict[type, Operation] = {operation.request: operation for operation in OPERATIONS}
