"""The tree as it will be once the earlier operations of a multi are applied: what its later ones are checked against.

Rules of this module:
  - nothing of the tree changes; changed nodes are noted as values over it (PrepRequestProcessor.ChangeRecord);
  - a multi that fails simply forgets its notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.tuples import NamedTuple
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.paths import parent_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.prepare import NodeView
    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.znode import Znode


class FutureNode(NamedTuple):
    """What checks must know of a node that is not in the tree yet, or not so."""

    data: bytes | None
    acl: tuple[ACL, ...]
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    child_count: int


class Outstanding:
    """The notes of one multi over a tree.

    Args:
        find: the tree's own look-up.
        session_id: who asks; the owner of ephemerals that are to be.
    """

    def __init__(self, find: Callable[[str], Znode | None], session_id: int) -> None:
        self._find = find
        self._session_id = session_id
        self._noted: dict[str, FutureNode | None] = {}

    def find(self, path: str) -> NodeView | None:
        """The node as it will be, or None where there will be none."""
        path = path or "/"
        if path in self._noted:
            return self._noted[path]
        return self._find(path)

    def note(self, record: txns.TreeRecord, *, ephemeral: bool) -> None:
        """From here on the tree is seen as it will be after this record too.

        Args:
            record: what will be done.
            ephemeral: whether the flags of a create say so. To what follows in its multi the node is ephemeral then,
                even if it is a container, whose kind comes from its opcode: so it is in the real server.
        """
        match record:
            case txns.SetDataTxn(path, data, version):
                self._noted[path] = self._future(path)._replace(data=data, version=version)
            case txns.DeleteTxn(path):
                parent = self._future(parent_of(path))
                self._noted[parent_of(path)] = parent._replace(child_count=parent.child_count - 1)
                self._noted[path] = None
            case txns.CheckTxn():
                pass
            case _:
                assert isinstance(record, txns.CreateRecord), "a multi holds creates, deletes, sets and checks"
                parent_path = parent_of(record.path)
                parent = self._future(parent_path)
                self._noted[parent_path] = parent._replace(
                    child_count=parent.child_count + 1, cversion=record.parent_cversion
                )
                owner = self._session_id if ephemeral else 0
                self._noted[record.path] = FutureNode(record.data, record.acl, 0, 0, 0, owner, 0)

    def _future(self, path: str) -> FutureNode:
        node = self.find(path)
        assert node is not None, "what a record changes was found when it was checked"
        if isinstance(node, FutureNode):
            return node
        return FutureNode(
            node.data, node.acl, node.version, node.cversion, node.aversion, node.ephemeral_owner, node.child_count
        )
