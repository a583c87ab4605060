"""What a follower hands to the leader, and what comes back; what a read-only server refuses.

Source: FollowerRequestProcessor, FinalRequestProcessor, ReadOnlyRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.multi_results import multi_results
from simzk.zookeeper.operations import BY_REQUEST, Kind, of_kind
from simzk.zookeeper.prepare import PREPARE
from simzk.zookeeper.prepare_multi import prepare_multi
from simzk.zookeeper.refused import RefusedError
from simzk.zookeeper.replies import Code, Reply

if TYPE_CHECKING:
    from simzk.zookeeper.prepare import Asker
    from simzk.zookeeper.tree import DataTree

_WRITES = of_kind(Kind.WRITE, Kind.SESSION)

_OF_ANY_SERVER = of_kind(Kind.SESSION, Kind.CONNECTION) - {req.Ping} | {
    req.DeleteContainer,
    req.Undecodable,
    req.Unimplemented,
}

_REFUSED = of_kind(Kind.WRITE, Kind.PART) | {req.Sync}
_REFUSED_OPCODES = frozenset(BY_REQUEST[kind].opcode for kind in _REFUSED)


def is_write(request: req.Request) -> bool:
    """Whether a request takes a zxid, so that the leader must see it."""
    return request.__class__ in _WRITES or (isinstance(request, req.Undecodable) and request.takes_zxid)


def is_of_any_server(request: req.Request) -> bool:
    """Whether a request is obeyed wherever its session has moved to: the real server forgets to ask [V].

    >>> is_of_any_server(req.Multi(())), is_of_any_server(req.Multi((req.Check("/", -1),)))
    (True, False)
    """
    return request.__class__ in _OF_ANY_SERVER or (isinstance(request, req.Multi) and not request.operations)


def is_refused_read_only(request: req.Request) -> bool:
    """Whether a read-only server answers NOT_READ_ONLY; it looks at no more than the opcode."""
    if isinstance(request, req.Undecodable | req.Unimplemented):
        return request.opcode in _REFUSED_OPCODES
    return request.__class__ in _REFUSED


def record_of(request: req.Request, asker: Asker, tree: DataTree, session_id: int) -> txns.Record:
    """What a write does to the leader's tree, checked; an `ErrorTxn` where it may not."""
    if isinstance(request, req.CloseSession):
        return txns.CloseSessionTxn(tuple(tree.ephemerals_of(session_id)))
    if isinstance(request, req.CreateSession):
        return txns.CreateSessionTxn(request.timeout_ms)
    if isinstance(request, req.Undecodable):
        return txns.ErrorTxn(Code.MARSHALLING_ERROR)
    try:
        if isinstance(request, req.Multi):
            return prepare_multi(request, asker, tree.find, session_id)
        return PREPARE[request.__class__](request, asker, tree.find)
    except RefusedError as refused:
        return txns.ErrorTxn(refused.code)


def reply_to(xid: int, request: req.Request, transaction: txns.Transaction, body: object) -> Reply:
    """The reply to a write once its transaction is applied; `body` is what applying it returned."""
    record = transaction.record
    error = record.error if isinstance(record, txns.ErrorTxn) else 0
    if isinstance(request, req.Multi):
        body = multi_results(record, body)
    elif isinstance(request, req.CloseSession):
        body = None
    return Reply(xid, transaction.zxid, error, body)
