"""What the znodes of topics and partitions have in common, and which of them may be held in columns.

Rules of this module:
  - a node of a kind that Kafka makes has no owner, and at most the one child that Kafka gives it;
  - a set of children that was never more than one is told by whether it is empty (hash_order.py: its capacity is the
    first one, and nothing is left of who came when).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.znode import CHILDREN_CAPACITY, Znode

if TYPE_CHECKING:
    from simzk.zookeeper.requests import ACL

FEW = 15
"""The highest aversion and cversion that is held: they are part of a form, of which there must not be many."""

NO_DATA = (None, b"")
"""The data of a node that only has children."""


def is_plain(node: Znode) -> bool:
    """Whether nobody owns a node, and its aversion may be part of a form."""
    return not node.ephemeral_owner and 0 <= node.aversion <= FEW


def only_child(node: Znode, name: str) -> bool | None:
    """Whether a plain node has the one child of this name, or none; None for any other node."""
    children = node.children
    if not is_plain(node) or (children is not None and children.capacity != CHILDREN_CAPACITY):
        return None
    if not children:
        return False
    return True if len(children) == 1 and name in children else None


def made(data: bytes | None, acl: tuple[ACL, ...], aversion: int, czxid: int, ctime_ms: int) -> Znode:
    """A node as it was when it was created, but for its aversion."""
    node = Znode(data, acl, 0, czxid, ctime_ms)
    node.aversion = aversion
    return node
