"""A tree's nodes of which most are still the snapshot's records: whoever asks for one wakes it (§6).

Rules of this module:
  - a node sleeps, as its record, or it is awake, as a `Znode`, never both. Asking for it by path wakes it for good, so
    that every rule of the tree works on it as on any other; what only looks at its data lets it sleep;
  - what somebody owns, and a quota's limits, never sleeps, for the tree keeps account of it elsewhere.

Restoring a directory touches few of a snapshot's nodes: those that the logs behind it change. A layout reads data only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.persistence.digest import batch_digests
from simzk.zookeeper.persistence.snapshot import is_owned, make_node
from simzk.zookeeper.quotas import LIMITS_NAME
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, Mapping, Sequence

    from simzk.zookeeper.persistence.snapshot import NodeBatch, Record
    from simzk.zookeeper.requests import ACL


class SleepingNodes(dict[str, Znode]):
    """The dictionary of a tree's nodes; what is in it as in any dictionary is awake.

    Args:
        acls: of the snapshot, by the id that records name.

    Attributes:
        tree: that has these nodes.
        digests: the parts of nodes in the tree's digest, of those that sleep.
    """

    def __init__(self, acls: Mapping[int, tuple[ACL, ...]]) -> None:
        super().__init__()
        self._acls = acls
        self._records: dict[str, Record] = {}
        self._names: dict[str, str | list[str]] = {}  # the children of those asleep: one, or a list of them
        self.digests: dict[str, int] = {}
        self.tree: DataTree = DataTree.bare(self)

    def add(self, batch: NodeBatch) -> int | None:
        """Take in nodes of a snapshot, parents first.

        Args:
            batch: of valid paths.

        Returns:
            The place of the first that has no parent, None where all have.
        """
        records, names = self._records, self._names
        may_be_odd = (
            batch.has_owned() or LIMITS_NAME in "\0".join(batch.paths) or not self.keys().isdisjoint(batch.paths)
        )
        self.digests.update(zip(batch.paths, batch_digests(batch), strict=True))
        for path, record in zip(batch.paths, zip(batch.data, batch.numbers, strict=True), strict=True):
            parent, _, name = path.rpartition("/")
            siblings = names.get(parent)
            if path in records or (may_be_odd and self._is_odd(path, name, record)):
                if path not in self and parent not in self:
                    return batch.paths.index(path)
                self.tree.plant(path, make_node(*record, self._acls), is_valid=True)
                self.digests.pop(path, None)
                continue
            if siblings is None:
                if parent in records:
                    names[parent] = name
                elif parent in self:
                    self[parent].add_child(name)
                else:
                    return batch.paths.index(path)
            elif isinstance(siblings, list):
                siblings.append(name)
            else:
                names[parent] = [siblings, name]
            records[path] = record
        return None

    def _is_odd(self, path: str, name: str, record: Record) -> bool:
        """Whether a node cannot sleep."""
        return is_owned(record) or name == LIMITS_NAME or super().__contains__(path)

    def data(self, paths: Sequence[str]) -> list[bytes | None]:
        """The data at some paths, in their order; b"" of nodes that have none, None where no node is."""
        found: list[bytes | None] = []
        for path in paths:
            record = self._records.get(path)
            if record is not None:
                found.append(record[0] or b"")
            else:
                node = super().get(path)
                found.append(None if node is None else node.data or b"")
        return found

    def names(self, path: str) -> list[str]:
        """The names of the children of the node at a path, in any order; none where no node is."""
        names = self._names.get(path, [])
        node = super().get(path)
        return node.child_names() if node is not None else [names] if isinstance(names, str) else list(names)

    def awake(self) -> Iterator[tuple[str, Znode]]:
        """The nodes that are awake, in any order."""
        return ((path, node) for path, node in super().items() if path)  # the root stands as "" too

    # What the tree uses of a dictionary

    def __missing__(self, path: str) -> Znode:
        record = self._records.pop(path, None)
        if record is None:
            raise KeyError(path)
        node = make_node(*record, self._acls)
        node.acl = self.tree.acls.keep(node.acl)
        del self.digests[path]
        names = self._names.pop(path, [])
        for name in [names] if isinstance(names, str) else names:
            node.add_child(name)
        self[path] = node
        return node

    def get(self, path: str, default: None = None) -> Znode | None:  # type: ignore[override]  # nobody gives a default
        return self[path] if path in self else None  # noqa: SIM401 - which is this very method

    def items(self) -> ItemsView[str, Znode]:  # type: ignore[override]  # of a dictionary it is a class of its own
        for path in list(self._records):
            self[path]
        return super().items()

    def pop(self, path: str) -> Znode:  # type: ignore[override]  # nobody gives a default
        node = self[path]
        del self[path]
        return node

    def __contains__(self, path: object) -> bool:
        return path in self._records or super().__contains__(path)

    def __len__(self) -> int:
        return super().__len__() + len(self._records)
