"""Local sessions: those that only the server knows where they began; what they may not do, and what makes them global.

Rules of this module:
  - a local session begins, ends and expires without a transaction, and is gone when its server has another role;
  - no other server takes it up;
  - who owns an ephemeral znode is known to all: a session that is to make one becomes global first, by a transaction of
    its own, or is refused (localSessionsUpgradingEnabled).

Source: UpgradeableSessionTracker, QuorumZooKeeperServer.checkUpgradeSession, LeaderSessionTracker.checkGlobalSession.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.prepare import FLAGS
from simzk.zookeeper.prepare_multi import prepare_multi
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from simzk.zookeeper.prepare import Asker
    from simzk.zookeeper.tree import DataTree


def makes_ephemeral(request: req.Request) -> bool:
    """Whether a request would make an ephemeral znode.

    >>> makes_ephemeral(req.Create("/a", b"", (), 1)), makes_ephemeral(req.Multi((req.Create("/a", b"", (), 3),)))
    (True, True)
    """
    if isinstance(request, req.Multi):
        return any(map(makes_ephemeral, request.operations))
    if not isinstance(request, req.Create | req.Create2):
        return False
    kind = FLAGS.get(request.flags)
    return kind is not None and kind.ephemeral


def refused_record(request: req.Request, asker: Asker, tree: DataTree, session_id: int, *, led: bool) -> txns.Record:
    """The record of a request that a local session may not make; `led` where its server is the leader.

    What a follower's multi may not do only the leader notices, to whom the session is one that is no more [V].
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
    return txns.MultiTxn((*before, txns.ErrorTxn(here), *rest))
