"""From a multi that a client asks for to its transaction: each operation is checked as if the earlier ones were done.

Rules of this module:
  - a multi that fails becomes a transaction too, whose records say which operation failed and with what (§1.6);
  - nothing changes here, and nothing needs to be undone.

Source: PrepRequestProcessor.pRequestHelper, its case of a multi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.outstanding import Outstanding
from simzk.zookeeper.prepare import FLAGS, PREPARE
from simzk.zookeeper.refused import RefusedError
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.prepare import Asker
    from simzk.zookeeper.requests import Multi
    from simzk.zookeeper.znode import Znode


def prepare_multi(request: Multi, asker: Asker, find: Callable[[str], Znode | None], session_id: int) -> txns.MultiTxn:
    """The record of the transaction that does what a multi asks, or says where it failed.

    Args:
        request: what is asked.
        asker: on whose behalf.
        find: the tree's own look-up.
        session_id: who asks.

    Raises:
        RefusedError: MARSHALLING_ERROR, where the request as a whole makes no sense to the real server.
    """
    operations = request.operations
    if None in [operation.path for operation in operations]:
        raise RefusedError(Code.MARSHALLING_ERROR)
    unknown = asker.rules.unknown
    if unknown and not unknown.isdisjoint(map(type, operations)):
        raise RefusedError(Code.MARSHALLING_ERROR)
    outstanding = Outstanding(find, session_id)
    records: list[txns.MultiRecord] = []
    unseen = len(operations)
    for operation in operations:
        unseen -= 1
        try:
            record = PREPARE[operation.__class__](operation, asker, outstanding.find)
        except RefusedError as refused:
            if refused.code == Code.MARSHALLING_ERROR:
                raise
            rest = [txns.ErrorTxn(Code.RUNTIME_INCONSISTENCY)] * unseen
            return txns.MultiTxn((*records, txns.ErrorTxn(refused.code), *rest))
        assert not isinstance(record, txns.DeleteContainerTxn | txns.SetACLTxn), "no multi holds these"
        records.append(record)
        if unseen:
            flags = getattr(operation, "flags", 0)
            outstanding.note(record, ephemeral=FLAGS[flags].ephemeral)
    return txns.MultiTxn(tuple(records))
