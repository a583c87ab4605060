"""Backing of a subtree: storage of znodes in another form than objects, such as columns.

Rules of this module:
  - a node is either in the tree's dictionary or in the backing, never in both, and no request can see which;
  - a backing stores a node only if it can return exactly that node: its data, its ACL, every number, and its children
    in their order. Any other node stays an object (an *overlay*);
  - a read gets a temporary node (`look`). A change takes the node out (`take`), changes it as any other node, and
    offers it back when the transaction is applied (`settle`).

So each rule of the tree (Stats, conditional writes, multis, watches, ACLs, quotas, digests, snapshots) exists once, and
nodes in a backing behave as objects by one law: `look` and `take` return exactly what `settle` stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.zookeeper.znode import Znode


class Backing(Protocol):
    """Other storage of the nodes below one path."""

    @property
    def prefix(self) -> str:
        """Return the prefix of all its paths with the last slash, such as "/brokers/topics/"."""

    def __len__(self) -> int:
        """Return the number of nodes in it."""

    def holds(self, path: str) -> bool:
        """Return whether the node at a path is in it."""

    def look(self, path: str) -> Znode | None:
        """Return a temporary copy of the node at a path, for reading, or None."""

    def take(self, path: str) -> Znode | None:
        """Remove and return the node at a path, or None."""

    def settle(self, path: str, node: Znode) -> bool:
        """Store a node if the backing can represent it exactly.

        Returns:
            Whether it is stored; the object then belongs to the backing.
        """

    def forget(self, path: str) -> None:
        """Note that the node at a path, removed by `take`, was deleted."""

    def count_below(self, path: str) -> int:
        """Return the number of nodes in it below a path."""

    def data_size(self) -> int:
        """Return the total size of paths and data of all nodes in it, without making nodes."""

    def check(self) -> None:
        """Assert all invariants of the backing."""


def node_sizes(nodes: Iterable[tuple[str, Znode]]) -> int:
    """Return the total number of characters of paths and bytes of data of nodes."""
    return sum(len(path) + len(node.data or b"") for path, node in nodes)


_get = dict.get
"""`dict.get`, which `BackedNodes` overrides."""


class BackedNodes(dict[str, "Znode"]):
    """Dictionary of a tree's nodes in front of a backing.

    `nodes[path]` takes the node out of the backing, because the caller is about to change it; `get` only looks.
    """

    def __init__(self, nodes: dict[str, Znode], backing: Backing) -> None:
        super().__init__(nodes)
        self.backing = backing
        self._prefix = backing.prefix
        self._taken: list[str] = []

    def get(self, path: str, default: None = None) -> Znode | None:  # type: ignore[override]  # no caller gives a default
        node = _get(self, path)
        if node is None and path and path.startswith(self._prefix):  # a path from the wire may be null
            return self.backing.look(path)
        return node

    def __missing__(self, path: str) -> Znode:
        node = self.backing.take(path) if path.startswith(self._prefix) else None
        if node is None:
            raise KeyError(path)
        self._taken.append(path)
        self[path] = node
        return node

    def pop(self, path: str) -> Znode:  # type: ignore[override]  # no caller gives a default
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
        """Offer the nodes that an applied transaction touched to the backing.

        Args:
            paths: paths of all created, changed and deleted nodes, in any order.
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
        """Offer every node to the backing."""
        self.settle(list(self))

    def count_below(self, path: str) -> int:
        """Return the number of nodes below a path."""
        if path not in self:
            return 0
        start = f"{path}/"
        return sum(at.startswith(start) for at in self) + self.backing.count_below(path)

    def data_size(self) -> int:
        """Return the total size of all paths and data, without making nodes of the backing."""
        return node_sizes(super().items()) + self.backing.data_size()

    def check(self) -> None:
        """Assert that no node is stored twice, and that every node taken out was offered back."""
        assert not self._taken, f"{self._taken} were not offered back"
        assert not any(map(self._is_held, self)), "a node is both an object and in the backing"
        self.backing.check()
