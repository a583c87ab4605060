"""Tree of znodes, to which transactions are applied (§2).

Rules of this module:
  - one dictionary from path to znode; the root is stored as "" and as "/", as in the real server, so that "" is an
    alias of "/" for look-ups (§1.9);
  - only `apply`, `plant` and `restore` change the tree, and they cannot fail half-way: a request is checked before it
    becomes a transaction (prepare.py);
  - `apply` returns the changes, from which watches fire (watches.py);
  - a subtree may be stored in a backing (`mount`) without any other rule depending on it;
  - a node that no parent lists is an *orphan*. Requests are checked so that none is made, but a log can delete a
    parent before its children. An orphan is found by its path and counted, and is not part of a snapshot.

Rules of a backing, which stores znodes in another form than objects, such as columns:
  - a node is either in the tree's dictionary or in the backing, never in both, and no request can see which;
  - a backing stores a node only if it can return exactly that node: its data, its ACL, every number, and its children
    in their order. Any other node stays an object (an *overlay*);
  - a read gets a temporary node (`look`). A change takes the node out (`take`), changes it as any other node, and
    offers it back when the transaction is applied (`settle`). So each rule of the tree stands once.

Source: org.apache.zookeeper.server.DataTree.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simzk.jvm.hash_codes import long_hash
from simzk.jvm.hash_map import ConcurrentHashSet, HashOrderedSet
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.acl import READ_ACL, ACLCache
from simzk.zookeeper.quotas import Quotas
from simzk.zookeeper.replies import EventType
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.znode import (
    CONFIG_PATH,
    CONTAINER_OWNER,
    Znode,
    is_session,
    is_valid_path,
    parent_of,
    ttl_of,
    ttl_owner,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simzk.zookeeper.releases import Rules
    from simzk.zookeeper.replies import Stat
    from simzk.zookeeper.requests import ACL


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
        """Store a node if the backing can represent it exactly; return whether it did: it then owns the object."""

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
        """Offer the nodes that an applied transaction created, changed or deleted to the backing, in any order."""
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


UNKNOWN_CVERSION = -1
"""Marks a create of an old log without parent cversion: the parent's cversion plus 1 is used."""

_new = tuple.__new__
"""Makes a NamedTuple without the extra call of its constructor: every write makes four of them."""

# Looked up once: each access to an enumeration member is a search through the class.
_CREATED, _DELETED, _DATA_CHANGED = EventType.NODE_CREATED, EventType.NODE_DELETED, EventType.NODE_DATA_CHANGED

EPHEMERALS_CAPACITY = 16
"""Initial capacity of a session's set of ephemerals: Java's default."""


class Change(NamedTuple):
    """Change of one node, with the ACLs that its watchers need to read (§3, ACL filter).

    The fields of the parent are empty for a change of data, which does not notify watchers of the parent.
    """

    kind: EventType
    path: str
    acl: tuple[ACL, ...]
    parent_path: str
    parent_acl: tuple[ACL, ...]


class Applied(NamedTuple):
    """Result of applying a record: the body of the reply and the changes in order."""

    body: object
    changes: tuple[Change, ...]


class DataTree:
    """Znodes of one server.

    Args:
        rules: rules of the release; None for the newest.

    Attributes:
        orphans: paths of the nodes that no parent lists; nodes below are listed by them.
        wrapped: cversions of creates that did not raise that of the parent, by the parent's path, "" for the root; for
            `PendingCversions`, which clears it.

    >>> tree = DataTree()
    >>> tree.get("/zookeeper").child_names()
    ['config', 'quota']
    >>> tree.get("/").stat().cversion
    -1
    """

    def __init__(self, rules: Rules | None = None) -> None:
        self._init_empty(None, rules)
        # The initial tree (§2.4).
        for path in ("/zookeeper", "/zookeeper/quota"):
            self.plant(path, Znode(b"", OPEN_ACL, 0, 0, 0))
        if rules is None or rules.has_config_node:
            is_guarded = rules is None or rules.guards_config_node
            config = Znode(b"", READ_ACL if is_guarded else OPEN_ACL, 0, 0, 0)
            self.plant(CONFIG_PATH, config)
            config.aversion = -1 if is_guarded else 0

    @classmethod
    def bare(cls, nodes: dict[str, Znode] | None = None, rules: Rules | None = None) -> DataTree:
        """Return a tree with only a root, for restoring nodes; `nodes` is the empty dictionary to use."""
        tree = cls.__new__(cls)
        tree._init_empty(nodes, rules)
        return tree

    def _init_empty(self, nodes: dict[str, Znode] | None, rules: Rules | None) -> None:
        self._only_raises_cversions = rules is None or rules.only_raises_cversions
        self._deletes_orphans = rules is not None and rules.deletes_orphans
        self._nodes: dict[str, Znode] = {} if nodes is None else nodes
        self.find: Callable[[str], Znode | None] = self._nodes.get
        self._backed: BackedNodes | None = None
        self.acls: ACLCache = ACLCache()
        self.quotas: Quotas = Quotas(self.find)
        self._loaded_root_bytes = 0
        self._replaced_bytes = 0
        self.ephemerals: dict[int, HashOrderedSet] = {}
        self.owners: ConcurrentHashSet[int] = ConcurrentHashSet(long_hash)
        self.containers: ConcurrentHashSet[str] = ConcurrentHashSet()
        self.ttls: ConcurrentHashSet[str] = ConcurrentHashSet()
        self.orphans: set[str] = set()
        self.wrapped: dict[str, int] = {}
        self._nodes[""] = self._nodes["/"] = Znode(b"", OPEN_ACL, 0, 0, 0)

    def __len__(self) -> int:
        """Return the number of nodes as the real server counts them: the root twice (§2.4)."""
        return len(self._nodes)

    def __contains__(self, path: object) -> bool:
        return path in self._nodes

    def get(self, path: str) -> Znode | None:
        """Return the znode at `path`, or None."""
        return self.find(path)

    def stat(self, path: str) -> Stat | None:
        """Return the Stat of the znode at `path` as clients see it, or None."""
        node = self.find(path)
        return None if node is None else node.stat()

    def walk(self, path: str = "/") -> Iterator[tuple[str, Znode]]:
        """Yield all nodes at `path` and below, parents first, children in the real server's order.

        The tree may change meanwhile; the children are those that a node had when it was yielded, as in a real snapshot
        (DataTree.serializeNode copies both at once).
        """
        pending = [path]
        while pending:
            at = pending.pop()
            node = self.find(at)
            if node is not None:
                prefix = "" if at == "/" else at
                pending.extend(f"{prefix}/{name}" for name in reversed(node.child_names()))
                yield at, node

    def in_any_order(self) -> Iterator[tuple[str, Znode]]:
        """Yield all nodes, orphans too, in any order, which saves computing the order of children."""
        if self._backed is not None:
            return chain.from_iterable(map(self.walk, ("/", *self.orphans)))
        return ((path, node) for path, node in self._nodes.items() if path)  # the root is stored as "" too

    def mount(self, backing: Backing) -> None:
        """Store nodes below the backing's prefix in the backing if it accepts them; no answer of the tree changes.

        Args:
            backing: its prefix's own node is in the tree and lists the nodes already in the backing.
        """
        assert self._backed is None, "a tree has at most one backing"
        assert backing.prefix.endswith("/")
        assert not len(backing) or backing.prefix[:-1] in self._nodes, "the node above stored nodes is in the tree"
        self._nodes = self._backed = BackedNodes(self._nodes, backing)
        self.find = self.quotas.find = self._backed.get
        self._backed.settle(list(self._backed))

    @property
    def backing(self) -> Backing | None:
        """Return the mounted backing, or None."""
        return None if self._backed is None else self._backed.backing

    def descendant_count(self, path: str) -> int:
        """Return the number of nodes below `path` (DataTree.getAllChildrenNumber)."""
        if path in ("/", ""):
            # The real server counts paths with this prefix, and subtracts "" and "/" for "/" only.
            return len(self) - (2 if path else 1)
        if self._backed is not None:
            return self._backed.count_below(path)
        below = [orphan for orphan in self.orphans if orphan.startswith(f"{path}/")]
        count = sum(1 for root in (path, *below) for _ in self.walk(root)) - 1
        assert count >= 0, f"{path} does not exist"
        return count

    def data_size(self) -> int:
        """Return the total size of paths and data, with the root as "" and as "/" (DataTree.approximateDataSize).

        The real server (3.6 and later) updates the number with each write. That would make writes here 2 to 4 % slower;
        computing it costs 0.07 µs per znode, 0.02 µs in a columnar backing.
        """
        if self._backed is not None:
            return self._backed.data_size()
        return node_sizes(self._nodes.items())

    def reported_data_size(self) -> int:
        """Return the size that releases since 3.6 report (DataTree.nodeDataSize).

        They add what each write changes, the root once, and not what rewritten totals of quotas grow by; they do not
        subtract an orphan that a create replaces.
        """
        grown = len(self._nodes["/"].data or b"") - self._loaded_root_bytes
        return self.data_size() - self.quotas.unreported_bytes - grown + self._replaced_bytes

    def note_loaded(self) -> None:
        """Count totals of quotas and reported data anew, after all nodes of a snapshot were restored (§2.5)."""
        self._loaded_root_bytes = len(self._nodes["/"].data or b"")
        self.quotas.load()

    def ephemerals_of(self, session_id: int, *, copied: bool = True) -> list[str]:
        """Return the paths of a session's ephemerals in the order in which closing it deletes them (§2.6).

        It is that of a copy of their set, unless `copied` is False (`Rules.close_lists_ephemerals`).
        """
        owned = self.ephemerals.get(session_id)
        if owned is None:
            return []
        return owned.clone_ordered() if copied else owned.ordered()

    # Applying

    def apply(self, transaction: txns.Transaction) -> Applied:
        """Apply a transaction that was checked against this tree, with a zxid above all earlier ones."""
        record = transaction[4]
        applied = _APPLY[record.__class__](self, transaction, record)
        if self._backed is not None:
            self._backed.settle(txns.touched_paths(record))
        return applied

    def _apply_multi(self, transaction: txns.Transaction, record: txns.MultiTxn) -> Applied:
        if record.failed:
            return Applied(None, ())
        applied = [_APPLY[step.__class__](self, transaction, step) for step in record.records]
        return Applied([step.body for step in applied], tuple(change for step in applied for change in step.changes))

    def _create(self, transaction: txns.Transaction, record: txns.CreateRecord, owner: int) -> tuple[Znode, Change]:
        path, data, acl = record[:3]
        _, _, zxid, time_ms, _ = transaction
        parent_path, _, name = path.rpartition("/")
        nodes = self._nodes
        parent = nodes[parent_path]
        if path in nodes:
            self._replaced_bytes += len(path) + len(nodes[path].data or b"")
            self.drop_orphan(path)
        if acl is not OPEN_ACL:
            acl = self.acls.keep(acl)
        cversion = record.parent_cversion
        if cversion == UNKNOWN_CVERSION:
            cversion = parent.cversion + 1
        if cversion > parent.cversion or not self._only_raises_cversions:
            # A counter that wraps is not higher, and pzxid stays too (§2.2).
            parent.cversion = cversion
            parent.pzxid = zxid
        else:
            self.wrapped[parent_path] = cversion
        nodes[path] = node = Znode(data, acl, owner, zxid, time_ms)
        parent.add_child(name)
        if owner:
            self._own(path, owner)
        if parent_path.startswith("/zookeeper/"):
            self.quotas.node_created(parent_path, name)
        if self.quotas.armed:
            self.quotas.count(path, 1, len(data or b""))
        return node, _new(Change, (_CREATED, path, acl, parent_path or "/", parent.acl))

    def _own(self, path: str, owner: int) -> None:
        if owner not in self.ephemerals and is_session(owner):
            self.ephemerals[owner] = HashOrderedSet(EPHEMERALS_CAPACITY)
            self.owners.add(owner)
        owned = self._paths_of(owner)
        assert path not in owned, f"0x{owner:x} owns {path} already"
        owned.add(path)

    def drop_orphan(self, path: str) -> None:
        """Remove an orphan; the nodes that it lists become orphans."""
        assert path in self.orphans, f"a parent lists {path}"
        node = self._nodes.pop(path)
        self.acls.release(node.acl)
        if node.ephemeral_owner:
            self._disown(path, node.ephemeral_owner)
        self.orphans.discard(path)
        self.orphans.update(f"{path}/{name}" for name in node.child_names())

    def _disown(self, path: str, owner: int) -> None:
        if is_session(owner) and owner not in self.ephemerals:
            return  # its session ended when the parent was missing
        owned = self._paths_of(owner)
        assert path in owned, f"0x{owner:x} does not own {path}"
        owned.discard(path)

    def _paths_of(self, owner: int) -> HashOrderedSet | ConcurrentHashSet[str]:
        """Return the paths of the containers, of the TTL nodes or of the ephemerals of a session."""
        assert owner, "a persistent znode is nobody's"
        owned = self.ephemerals.get(owner)
        if owned is not None:
            return owned
        return self.containers if owner == CONTAINER_OWNER else self.ttls

    def _apply_create(self, transaction: txns.Transaction, record: txns.CreateTxn) -> Applied:
        _, change = self._create(transaction, record, transaction.session_id if record.ephemeral else 0)
        return _new(Applied, (record.path, (change,)))

    def _apply_other_create(self, transaction: txns.Transaction, record: txns.CreateRecord) -> Applied:
        if isinstance(record, txns.CreateTTLTxn):
            owner = ttl_owner(record.ttl_ms)
        elif isinstance(record, txns.CreateContainerTxn):
            owner = CONTAINER_OWNER
        else:
            owner = transaction.session_id if record.ephemeral else 0
        node, change = self._create(transaction, record, owner)
        return Applied((record.path, node.stat()), (change,))

    def _apply_delete(self, transaction: txns.Transaction, record: txns.DeleteTxn | txns.DeleteContainerTxn) -> Applied:
        (path,) = record
        _, _, zxid, _, _ = transaction
        parent_path, _, name = path.rpartition("/")
        nodes, quotas = self._nodes, self.quotas
        node, parent = nodes.pop(path), nodes[parent_path]
        siblings, acl = parent.children, node.acl
        if node.children:
            self.orphans.update(f"{path}/{below}" for below in node.child_names())
        if path in self.orphans:
            self.orphans.discard(path)
        else:
            assert siblings is not None
            count = len(siblings)
            siblings.discard(name)
            assert len(siblings) == count - 1, f"{parent_path} does not list {name}"
        if zxid > parent.pzxid:
            parent.pzxid = zxid
        if acl is not OPEN_ACL:
            self.acls.release(acl)
        if node.ephemeral_owner:
            self._disown(path, node.ephemeral_owner)
        if parent_path.startswith("/zookeeper/"):
            quotas.node_deleted(parent_path, name)
        if quotas.armed:
            quotas.count(path, -1, -len(node.data or b""))
        change = _new(Change, (_DELETED, path, acl, parent_path or "/", parent.acl))
        return _new(Applied, (None, (change,)))

    def _apply_set_data(self, transaction: txns.Transaction, record: txns.SetDataTxn) -> Applied:
        path, data, version = record
        _, _, zxid, time_ms, _ = transaction
        node = self._nodes[path]
        if self.quotas.armed:
            self.quotas.count(path, 0, len(data or b"") - len(node.data or b""))
        node.data = data
        node.version = version
        node.mzxid = zxid
        node.mtime_ms = time_ms
        return _new(Applied, (node.stat(), (_new(Change, (_DATA_CHANGED, path, node.acl, "", ())),)))

    def _apply_set_acl(self, transaction: txns.Transaction, record: txns.SetACLTxn) -> Applied:
        node = self._nodes[record.path]
        self.acls.release(node.acl)
        node.acl = self.acls.keep(record.acl)
        node.aversion = record.version
        return Applied(node.stat(), ())

    def _apply_close_session(self, transaction: txns.Transaction, record: txns.CloseSessionTxn) -> Applied:
        changes = [change for path in record.paths for change in self._delete_ephemeral(path, transaction)]
        # Old logs list no paths: delete what the session still owns (DataTree.killSession).
        owned = self.ephemerals_of(transaction.session_id)
        changes += [change for path in owned for change in self._delete_ephemeral(path, transaction)]
        left = self.ephemerals.pop(transaction.session_id, None)
        assert left is None or self.orphans.issuperset(left), f"0x{transaction.session_id:x} has ended and owns znodes"
        self.owners.discard(transaction.session_id)
        return Applied(None, tuple(changes))

    def _delete_ephemeral(self, path: str, transaction: txns.Transaction) -> tuple[Change, ...]:
        """Delete a node with its session; without its parent it stays, or nobody hears of it (DataTree.deleteNode)."""
        if self.orphans and parent_of(path) not in self._nodes:
            if self._deletes_orphans:
                self.drop_orphan(path)
            return ()
        return self._apply_delete(transaction, txns.DeleteTxn(path)).changes

    def _apply_nothing(self, transaction: txns.Transaction, record: txns.Record) -> Applied:
        return Applied(None, ())

    # Restoring

    def plant(self, path: str, node: Znode, *, is_valid: bool = False) -> None:
        """Restore a node from a snapshot or another source; the parent's numbers do not change.

        Args:
            path: path of the node; its parent must exist. An existing node is replaced, but keeps its children.
            node: new node without children.
            is_valid: whether the path was validated before.

        Raises:
            ValueError: the path is invalid, or the parent is missing.
        """
        if not is_valid and not is_valid_path(path):
            raise ValueError(f"{path!r} is no valid path of a znode")
        assert node.children is None, "a restored node gets its children when they are restored"
        nodes = self._nodes
        parent_path, _, name = path.rpartition("/")
        if path in nodes:
            present = nodes[path]  # by index, which takes it out of a backing, because it changes
            node.children = present.children
            self.acls.release(present.acl)
            if present.ephemeral_owner and path != "/":
                self._disown(path, present.ephemeral_owner)
        elif parent_path in nodes:
            nodes[parent_path].add_child(name)
        else:
            raise ValueError(f"{path!r} has no parent")
        node.acl = self.acls.keep(node.acl)
        nodes[path] = node
        if path == "/":
            nodes[""] = node
        if node.ephemeral_owner and path != "/":  # the root is nobody's, whatever its numbers say
            self._own(path, node.ephemeral_owner)
        self.quotas.node_planted(parent_path, name)
        if self._backed is not None:
            self._backed.settle((path, parent_path))

    def restore(self, path: str, data: bytes | None, stat: Stat) -> None:
        """Restore a node with the Stat that a client read, open to everybody; an initial node is replaced.

        Args:
            path: path of the node; its parent must exist.
            data: data of the node.
            stat: Stat as a client read it. Its `num_children` must be the number after all children are restored,
                because the stored cversion is computed from it (§2.1).

        Raises:
            ValueError: as `plant`.
        """
        node = Znode(data, OPEN_ACL, stat.ephemeral_owner, stat.czxid, stat.ctime_ms)
        node.mzxid, node.pzxid, node.mtime_ms = stat.mzxid, stat.pzxid, stat.mtime_ms
        node.version, node.aversion = stat.version, stat.aversion
        node.cversion = (stat.cversion + stat.num_children) // 2
        self.plant(path, node)

    def check(self) -> None:
        """Assert all invariants of the tree."""
        nodes = self._nodes
        assert nodes[""] is nodes["/"]
        walked = {path: node for root in ("/", *self.orphans) for path, node in self.walk(root)}
        assert len(walked) + 1 == len(nodes), "every node but an orphan is listed by its parent"
        listed = {f"{path.rstrip('/')}/{name}" for path, node in walked.items() for name in node.child_names()}
        assert listed.isdisjoint(self.orphans), "no parent lists an orphan"
        assert all(path in nodes for path in walked), "every listed child is there"
        if self._backed is not None:
            self._backed.check()
        assert self.data_size() == node_sizes([*walked.items(), ("", nodes["/"])])
        self.acls.check(node.acl for node in walked.values())
        owned: dict[int, set[str]] = {}
        for path, node in walked.items():
            if node.children is not None:
                node.children.check()
            owner = node.ephemeral_owner
            assert (owner == CONTAINER_OWNER) == (path in self.containers)
            assert (ttl_of(owner) is not None) == (path in self.ttls)
            if is_session(owner):
                assert not node.child_count, "ephemerals have no children"
                if path in self.orphans and owner not in self.ephemerals:
                    continue
                owned.setdefault(owner, set()).add(path)
        assert set(self.owners) == self.ephemerals.keys()
        for session_id, paths in self.ephemerals.items():
            paths.check()
            assert owned.pop(session_id, set()) == set(paths)
        assert not owned
        assert all(path in walked for path in (*self.containers, *self.ttls))


_APPLY: dict[type, Callable[..., Applied]] = {
    txns.CreateTxn: DataTree._apply_create,
    txns.Create2Txn: DataTree._apply_other_create,
    txns.CreateContainerTxn: DataTree._apply_other_create,
    txns.CreateTTLTxn: DataTree._apply_other_create,
    txns.DeleteTxn: DataTree._apply_delete,
    txns.DeleteContainerTxn: DataTree._apply_delete,
    txns.SetDataTxn: DataTree._apply_set_data,
    txns.SetACLTxn: DataTree._apply_set_acl,
    txns.CheckTxn: DataTree._apply_nothing,
    txns.MultiTxn: DataTree._apply_multi,
    txns.CreateSessionTxn: DataTree._apply_nothing,
    txns.CloseSessionTxn: DataTree._apply_close_session,
    txns.ErrorTxn: DataTree._apply_nothing,
}
