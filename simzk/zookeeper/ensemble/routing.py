"""Which server of an ensemble processes a request: any, the leader, one that is not read-only, the session's own.

Source: FollowerRequestProcessor, PrepRequestProcessor, ReadOnlyRequestProcessor, QuorumZooKeeperServer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.operations import BY_REQUEST, Kind, of_kind
from simzk.zookeeper.prepare import FLAGS, prepare_multi
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from simzk.zookeeper.prepare import Asker
    from simzk.zookeeper.tree import DataTree

_WRITES = of_kind(Kind.WRITE, Kind.SESSION)

_ACCEPTED_ANYWHERE = of_kind(Kind.SESSION, Kind.CONNECTION) - {req.Ping} | {
    req.DeleteContainer,
    req.Undecodable,
    req.Unimplemented,
}

_REJECTED_READ_ONLY = frozenset(BY_REQUEST[kind].opcode for kind in of_kind(Kind.WRITE, Kind.PART) | {req.Sync})


def is_write(request: req.Request) -> bool:
    """Return whether a request takes a zxid, so that the leader has to process it."""
    return request.__class__ in _WRITES or (isinstance(request, req.Undecodable) and request.takes_zxid)


def requires_leader(request: req.Request) -> bool:
    """Return whether a follower forwards a request to the leader.

    >>> requires_leader(req.Sync("/")), requires_leader(req.GetData("/", True)), requires_leader(req.Ping())
    (True, False, False)
    """
    return is_write(request) or isinstance(request, req.Sync | req.Check)


def is_accepted_anywhere(request: req.Request) -> bool:
    """Return whether a request is accepted on any server; the real server does not check its session's owner [V].

    >>> is_accepted_anywhere(req.Multi(())), is_accepted_anywhere(req.Multi((req.Check("/", -1),)))
    (True, False)
    """
    return request.__class__ in _ACCEPTED_ANYWHERE or (isinstance(request, req.Multi) and not request.operations)


def requires_write_access(request: req.Request) -> bool:
    """Return whether a read-only server answers NOT_READ_ONLY, which depends on the opcode alone."""
    if isinstance(request, req.Undecodable | req.Unimplemented):
        return request.opcode in _REJECTED_READ_ONLY
    return BY_REQUEST[request.__class__].opcode in _REJECTED_READ_ONLY


_EPHEMERAL_FLAGS = frozenset(flags for flags, meaning in FLAGS.items() if meaning.ephemeral)


def makes_ephemeral(request: req.Request) -> bool:
    """Return whether a request would create an ephemeral znode.

    >>> makes_ephemeral(req.Create("/a", b"", (), 1)), makes_ephemeral(req.Multi((req.Create("/a", b"", (), 3),)))
    (True, True)
    """
    if isinstance(request, req.Multi):
        return any(map(makes_ephemeral, request.operations))
    return isinstance(request, req.Create | req.Create2) and request.flags in _EPHEMERAL_FLAGS


def rejected_record(request: req.Request, asker: Asker, tree: DataTree, session_id: int, *, led: bool) -> txns.Record:
    """Return the record of a request that a local session is not allowed to make, given the tree of the leader.

    The multi of a follower (`led` is False) is rejected only by the leader, which does not have the session and reports
    it as expired [V].
    """
    if not isinstance(request, req.Multi):
        return txns.ErrorTxn(Code.EPHEMERAL_ON_LOCAL_SESSION)
    operations = request.operations
    at = next(index for index, operation in enumerate(operations) if makes_ephemeral(operation))
    before = prepare_multi(req.Multi(operations[:at]), asker, tree.find, session_id).records
    failed = any(isinstance(record, txns.ErrorTxn) for record in before)
    code = Code.EPHEMERAL_ON_LOCAL_SESSION if led else Code.SESSION_EXPIRED
    here = Code.RUNTIME_INCONSISTENCY if failed else code
    rest = [txns.ErrorTxn(Code.RUNTIME_INCONSISTENCY)] * (len(operations) - at - 1)
    assert len(before) + 1 + len(rest) == len(operations), "each operation has a record"
    return txns.MultiTxn((*before, txns.ErrorTxn(here), *rest))
