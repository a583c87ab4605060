"""Znodes kept in another form: a subtree held in columns, or whatever else is smaller than an object a node.

Rules of this module:
  - a node stands either in the tree's dictionary or in the backing, never in both, and no request can tell where;
  - a backing keeps a node only if it can give back exactly that node: its data byte for byte, its ACL, every number,
    its set of children with their order. Whatever does not fit stays an object (an *overlay*): nothing is lost;
  - what only reads is shown a node made for the occasion (`look`). What changes a node takes it out (`take`), changes
    it as any other, and when the transaction is applied it is offered back (`settle`).

So every rule of the tree (Stats, conditional writes, multis, watches, ACLs, quotas, digests, snapshots) stands once,
and that nodes in the backing behave as objects do rests on one law: what `settle` keeps, `look` and `take` give back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.zookeeper.znode import Znode


class Backing(Protocol):
    """Another form of the nodes below one path."""

    @property
    def prefix(self) -> str:
        """What every path in it begins with, the last slash included, such as "/brokers/topics/"."""

    def __len__(self) -> int:
        """How many nodes it holds."""

    def holds(self, path: str) -> bool:
        """Whether it holds the node at a path."""

    def look(self, path: str) -> Znode | None:
        """The node at a path if it is held: made anew, to be read and thrown away."""

    def take(self, path: str) -> Znode | None:
        """The node at a path if it is held, which it is no longer: the caller's from here on."""

    def settle(self, path: str, node: Znode) -> bool:
        """Keep a node that is not held, if it fits.

        Returns:
            whether it is held now; the object is then the backing's.
        """

    def forget(self, path: str) -> None:
        """There is no node at this path any more: it was taken, and is deleted."""

    def count_below(self, path: str) -> int:
        """How many nodes it holds below a path."""

    def data_size(self) -> int:
        """Characters of the paths and bytes of the data of all nodes that it holds, without making one of them."""

    def check(self) -> None:
        """Assert all its invariants."""


def node_sizes(nodes: Iterable[tuple[str, Znode]]) -> int:
    """Characters of the paths and bytes of the data of some nodes."""
    return sum(len(path) + len(node.data or b"") for path, node in nodes)


_get = dict.get
"""A dictionary's own, for the one that is more."""


class BackedNodes(dict[str, "Znode"]):
    """The dictionary of a tree's nodes, behind which a backing holds others.

    Getting a node by index takes it out of the backing, for who does so is about to change it; `get` only looks.
    """

    def __init__(self, nodes: dict[str, Znode], backing: Backing) -> None:
        super().__init__(nodes)
        self.backing = backing
        self._prefix = backing.prefix
        self._taken: list[str] = []

    def get(self, path: str, default: None = None) -> Znode | None:  # type: ignore[override]  # nobody gives a default
        node = _get(self, path)
        if node is None and path and path.startswith(self._prefix):  # the wire knows a null path too
            return self.backing.look(path)
        return node

    def __missing__(self, path: str) -> Znode:
        node = self.backing.take(path) if path.startswith(self._prefix) else None
        if node is None:
            raise KeyError(path)
        self._taken.append(path)
        self[path] = node
        return node

    def pop(self, path: str) -> Znode:  # type: ignore[override]  # nobody gives a default
        node = self[path]
        del self[path]
        return node

    def __contains__(self, path: object) -> bool:
        return super().__contains__(path) or (isinstance(path, str) and self._is_held(path))

    def _is_held(self, path: str) -> bool:
        return path.startswith(self._prefix) and self.backing.holds(path)

    def __len__(self) -> int:
        return super().__len__() + len(self.backing)

    def settle(self, paths: Iterable[str]) -> None:
        """A transaction is applied: what it touched goes to the backing where it fits.

        Args:
            paths: of all nodes that were made, changed or deleted, children before their parents or not.
        """
        taken, self._taken = self._taken, []
        for path in dict.fromkeys((*paths, *taken)):
            if not path.startswith(self._prefix):
                continue
            node = _get(self, path)
            if node is None:
                if not self.backing.holds(path):
                    self.backing.forget(path)
            elif self.backing.settle(path, node):
                del self[path]

    def settle_all(self) -> None:
        """Offer every object."""
        self.settle(list(self))

    def count_below(self, path: str) -> int:
        """How many nodes are below a path."""
        if path not in self:
            return 0
        start = f"{path}/"
        return sum(at.startswith(start) for at in self) + self.backing.count_below(path)

    def data_size(self) -> int:
        """Characters of all paths and bytes of all data; no node that is held is looked at."""
        return node_sizes(super().items()) + self.backing.data_size()

    def check(self) -> None:
        """Assert that no node stands twice, and nothing is left undecided."""
        assert not self._taken
        assert not any(map(self._is_held, self))
        self.backing.check()
