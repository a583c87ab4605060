"""Restoration of a tree and its sessions from a snapshot and the logs behind it, as a server boots (§6).

Rules of this module:
  - no IO: nodes and log entries are arguments, in their order;
  - replaying is idempotent: a fuzzy snapshot has part of what the log says next, and logs may overlap. So an existing
    node is not created again, a missing one not deleted again, and a parent's numbers only increase;
  - paths are not validated: a snapshot or a log may have a node of any path with a parent;
  - an entry that does not fit the tree is skipped, and the digest shows it; some entries, on which the real server
    fails, raise UnbootableError.

Source: FileTxnSnapLog.restore, DataTree.createNode, DataTree.deleteNode, ZooKeeperServer.loadData.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.acl import UNKNOWN_ACL, has_null
from simzk.zookeeper.persistence.files import Damage, DamageKind, UnbootableError
from simzk.zookeeper.persistence.records import DIGEST_VERSION, LogEntry
from simzk.zookeeper.persistence.snapshot import SnapshotDigest, TreeDigest, batch_digests, is_owned, make_node
from simzk.zookeeper.quotas import LIMITS_NAME
from simzk.zookeeper.tree import UNKNOWN_CVERSION, DataTree
from simzk.zookeeper.znode import MAX_TTL_MS, Znode, has_unknown_type, parent_of

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, Mapping, Sequence

    from simzk.zookeeper.persistence.snapshot import NodeBatch, SnapshotReader
    from simzk.zookeeper.persistence.snapshot import Record as NodeRecord
    from simzk.zookeeper.releases import Rules
    from simzk.zookeeper.requests import ACL


class LazyNodes(dict[str, Znode]):
    """Dictionary of a tree's nodes, most of them still undecoded records of a snapshot.

    A node is either a record or a `Znode`. A look-up by path decodes it for good, so that every rule of the tree works
    on it; `data` and `names` read records without decoding. Ephemerals, containers, TTL nodes and limits of quotas are
    decoded at once, because the tree indexes them.

    Restoring a directory decodes few nodes of a snapshot, those that the logs change; a layout reads only data.

    Args:
        acls: ACLs of the snapshot by the id in records.
        rules: rules of the release; None for the newest.

    Attributes:
        tree: tree of these nodes.
        digests: digests of undecoded nodes by path.
    """

    def __init__(self, acls: Mapping[int, tuple[ACL, ...]], rules: Rules | None = None) -> None:
        super().__init__()
        self._acls = acls
        self._records: dict[str, NodeRecord] = {}
        self._names: dict[str, str | list[str]] = {}  # children of undecoded nodes: one name, or a list
        self.digests: dict[str, int] = {}
        self.tree: DataTree = DataTree.bare(self, rules)

    def add(self, batch: NodeBatch) -> int | None:
        """Add nodes of a snapshot, parents first; return the index of the first one without a parent, or None."""
        records, names = self._records, self._names
        may_need_decoding = (
            batch.has_owned() or LIMITS_NAME in "\0".join(batch.paths) or not self.keys().isdisjoint(batch.paths)
        )
        self.digests.update(zip(batch.paths, batch_digests(batch), strict=True))
        for path, record in zip(batch.paths, zip(batch.data, batch.numbers, strict=True), strict=True):
            parent, _, name = path.rpartition("/")
            siblings = names.get(parent)
            decodes = may_need_decoding and (is_owned(record) or name == LIMITS_NAME or super().__contains__(path))
            if decodes or path in records:
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

    def data(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return the data at each path: b"" of a node without data, None for no node."""
        found: list[bytes | None] = []
        for path in paths:
            record = self._records.get(path)
            if record is not None:
                found.append(record[0] or b"")
            else:
                node = super().get(path)
                found.append(None if node is None else node.data or b"")
        assert len(found) == len(paths), "each path has its data"
        return found

    def names(self, path: str) -> list[str]:
        """Return the names of the children of a node in any order; none for no node."""
        names = self._names.get(path, [])
        assert path in self._records or not names, "a decoded node has its names itself"
        node = super().get(path)
        return node.child_names() if node is not None else [names] if isinstance(names, str) else list(names)

    def decoded(self) -> Iterator[tuple[str, Znode]]:
        """Return the decoded nodes in any order."""
        return ((path, node) for path, node in super().items() if path)  # the root is stored as "" too

    # Methods of a dictionary that the tree uses

    def __missing__(self, path: str) -> Znode:
        record = self._records.pop(path, None)
        if record is None:
            raise KeyError(path)
        assert path in self.digests, "an undecoded node has its digest"
        node = make_node(*record, self._acls)
        node.acl = self.tree.acls.keep(node.acl)
        del self.digests[path]
        names = self._names.pop(path, [])
        for name in [names] if isinstance(names, str) else names:
            node.add_child(name)
        self[path] = node
        return node

    def get(self, path: str, default: None = None) -> Znode | None:  # type: ignore[override]  # no caller gives a default
        return self[path] if path in self else None  # noqa: SIM401 - `get` is this method

    def items(self) -> ItemsView[str, Znode]:  # type: ignore[override]  # a dictionary returns a class of its own
        for path in list(self._records):
            self[path]
        return super().items()

    def pop(self, path: str) -> Znode:  # type: ignore[override]  # no caller gives a default
        node = self[path]
        del self[path]
        return node

    def __contains__(self, path: object) -> bool:
        return path in self._records or super().__contains__(path)

    def __len__(self) -> int:
        return super().__len__() + len(self._records)


class Restoration:
    """Tree and sessions while they are restored.

    Args:
        is_lazy: decode only nodes that logs change or that are looked up; a reader of some data needs a fifth of the
            time then.
        extended_types: whether there are TTL nodes (zookeeper.extendedTypesEnabled); without, a TTL node is an
            ephemeral of a session that does not exist.
        rules: rules of the release; None for the newest.

    Attributes:
        tree: tree restored so far.
        sessions: timeout in ms by session id.
        zxid: zxid of the last applied transaction.
        mismatch_zxid: zxid of the first transaction after which the tree's digest differs from the one on disk, or
            None.

    >>> restoration = Restoration()
    >>> restoration.replay(LogEntry(txns.Transaction(7, 0, 1, 0, txns.CreateSessionTxn(30_000)), None))
    >>> restoration.sessions, restoration.zxid
    ({7: 30000}, 1)
    """

    def __init__(self, *, is_lazy: bool = False, extended_types: bool = True, rules: Rules | None = None) -> None:
        self._extended_types = extended_types
        self._rules = rules
        self._has_begun = False
        self.tree: DataTree = DataTree(rules)
        self._is_lazy = is_lazy
        self._nodes: LazyNodes | None = None
        self.sessions: dict[int, int] = {}
        self.zxid: int = 0
        self.mismatch_zxid: int | None = None
        self._digest: TreeDigest | None = TreeDigest(self.tree)
        self._is_patched = False
        self._fuzzy_until = 0
        self._expected = SnapshotDigest(0, DIGEST_VERSION, 0)

    def load(self, snapshot: SnapshotReader, zxid: int) -> Damage | None:
        """Load a snapshot, before any other call.

        Args:
            snapshot: reader that was not iterated yet.
            zxid: zxid in its file's name; later transactions follow by `replay`.

        Returns:
            The damage of the snapshot, or None. After a damage this object is unusable.

        Raises:
            UnbootableError: the real server fails on it, without trying an older one.
        """
        assert not self._has_begun, "a snapshot is loaded before the logs"
        assert not self.sessions
        if snapshot.is_unbootable:
            raise UnbootableError("an ACL or a part of it is null")
        newest = self.zxid = zxid
        has_root = False
        if self._is_lazy:
            self._nodes = LazyNodes(snapshot.acls, self._rules)
        self.tree = DataTree.bare(rules=self._rules) if self._nodes is None else self._nodes.tree
        for batch in snapshot.batches():
            bad = first_orphan(batch.paths, has_root=has_root)
            has_root = True
            if bad is None:
                bad = self._plant(batch, snapshot.acls)
            if bad is not None:
                return Damage(DamageKind.RECORD, snapshot.offset - batch.bytes_behind(bad), None)
            if self._extended_types and batch.has_owned():
                for owner in batch.owners():
                    _check_owner(owner)
            newest = max(newest, batch.newest_zxid())
        if snapshot.damage is not None:
            return snapshot.damage
        if self._nodes is None:
            self.tree.note_loaded()
        self.sessions.update(snapshot.sessions)
        if snapshot.digest is not None and snapshot.digest.zxid >= max(zxid, 1):
            self._expected = snapshot.digest
            newest = max(newest, snapshot.digest.zxid)
        assert newest >= zxid, "the range of a fuzzy snapshot begins with its name"
        self._fuzzy_until = newest
        self._digest = None
        if newest == zxid:
            self._leave_fuzzy_range()
        return None

    def _plant(self, batch: NodeBatch, acls: Mapping[int, tuple[ACL, ...]]) -> int | None:
        """Restore nodes; return the index of the first one without a parent, or None."""
        if self._nodes is not None:
            return self._nodes.add(batch)
        plant = self.tree.plant
        for place, (path, data, numbers) in enumerate(zip(batch.paths, batch.data, batch.numbers, strict=True)):
            try:
                plant(path, make_node(data, numbers, acls), is_valid=True)
            except ValueError:
                return place
        return None

    def replay(self, entry: LogEntry) -> None:
        """Apply an entry of a log.

        Entries up to the snapshot are skipped; behind the first later one all are applied, whatever their zxids.

        Raises:
            UnbootableError: the real server fails on the entry.
        """
        transaction, logged_digest = entry
        if transaction.zxid <= self.zxid and not self._has_begun:
            return
        self._has_begun = True
        self.zxid = max(self.zxid, transaction.zxid)
        record = transaction.record
        if isinstance(record, txns.MultiTxn):
            steps: tuple[txns.Record, ...] = () if record.failed else record.records
        else:
            steps = (record,)
        digest = self._digest
        assert digest is None or self.missing_until is None, "a tree within the range of a fuzzy snapshot has no digest"
        for step in steps:
            applied = self._apply(transaction, step)
            if applied is not None and digest is not None:
                digest.refresh(txns.touched_paths(applied))
        if digest is not None:
            if logged_digest is not None and digest.value != logged_digest and self.mismatch_zxid is None:
                self.mismatch_zxid = transaction.zxid
        elif self.zxid >= self._fuzzy_until:
            self._leave_fuzzy_range()

    def data(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return the data at each path: b"" of a node without data, None for no node."""
        if self._nodes is not None:
            return self._nodes.data(paths)
        return [None if node is None else node.data or b"" for node in map(self.tree.get, paths)]

    def names(self, path: str) -> list[str]:
        """Return the names of the children of a node in any order; none for no node."""
        if self._nodes is not None:
            return self._nodes.names(path)
        node = self.tree.get(path)
        return [] if node is None else node.child_names()

    def finish(self) -> TreeDigest:
        """Remove the ephemerals of unknown sessions (ZooKeeperServer.loadData), and return the digest of the tree."""
        if not self._extended_types:
            for path in list(self.tree.ttls):
                self._is_patched = True
                self._apply(txns.Transaction(0, 0, self.zxid, 0, deleted := txns.DeleteTxn(path)), deleted)
        for session_id in [owner for owner in self.tree.ephemerals if owner not in self.sessions]:
            # Without a zxid: the real server does not log this either.
            ended = txns.Transaction(session_id, 0, self.zxid, 0, txns.CloseSessionTxn(()))
            applied = self._apply(ended, ended.record)
            if applied is not None and self._digest is not None:
                self._digest.refresh(txns.touched_paths(applied))
        assert self.tree.ephemerals.keys() <= self.sessions.keys(), "each ephemeral has a session"
        self.tree.wrapped.clear()
        if self._digest is None or self._is_patched:
            self._digest = self._new_digest()
        return self._digest

    @property
    def missing_until(self) -> int | None:
        """Return the zxid that the logs would have to reach to complete a fuzzy snapshot, or None if they do."""
        return self._fuzzy_until if self.zxid < self._fuzzy_until else None

    def _leave_fuzzy_range(self) -> None:
        """Start to compare digests: from here on the tree is that of one zxid."""
        assert self._digest is None, "the range of a fuzzy snapshot ends once"
        assert self.zxid >= self._fuzzy_until
        self._digest = self._new_digest()
        zxid, version, value = self._expected
        if zxid == self.zxid != 0 and version == DIGEST_VERSION and value != self._digest.value:
            self.mismatch_zxid = zxid

    def _new_digest(self) -> TreeDigest:
        if self._nodes is None:
            return TreeDigest(self.tree)
        return TreeDigest(self.tree, self._nodes.digests, self._nodes.decoded())

    # Replaying

    def _apply(self, transaction: txns.Transaction, record: txns.Record) -> txns.Record | None:
        """Apply the part of a record that fits the tree; return that part, or None."""
        fitting = self._fit(transaction, record)
        if fitting is not None:
            self.tree.apply(transaction._replace(record=fitting))
        return fitting

    def _fit(self, transaction: txns.Transaction, record: txns.Record) -> txns.Record | None:
        """Return the part of a record that fits the tree, or None."""
        match record:
            case txns.SetDataTxn(path=path):
                return record if path in self.tree else None
            case txns.SetACLTxn(path=path, acl=acl):
                if path not in self.tree:
                    return None
                _check_acl(acl)
                return record
            case txns.CreateTTLTxn(ttl_ms=ttl_ms) if not 0 < ttl_ms <= MAX_TTL_MS:
                raise UnbootableError(f"a time to live is {ttl_ms} ms")
            case txns.CreateTxn() | txns.Create2Txn() | txns.CreateContainerTxn() | txns.CreateTTLTxn():
                return self._fit_create(transaction, record)
            case txns.DeleteTxn(path) | txns.DeleteContainerTxn(path):
                return record if self._make_deletable(transaction, path) else None
            case txns.CreateSessionTxn(timeout_ms):
                self.sessions[transaction.session_id] = timeout_ms
                return record
            case txns.CloseSessionTxn():
                return self._fit_close_session(transaction, record)
        return None  # checks and errors change only the zxid

    def _fit_create(self, transaction: txns.Transaction, record: txns.CreateRecord) -> txns.CreateRecord | None:
        path = record.path
        parent = self.tree.get(_parent_of(path))
        if parent is None or path == "//":  # a child of the root without a name would be the root again
            return None
        if parent.acl is UNKNOWN_ACL:
            raise UnbootableError("the ACL of a parent is missing")
        _check_acl(record.acl)
        present = self.tree.get(path)
        if path in self.tree.orphans and self._rules is not None and self._rules.create_replaces_orphans:
            self._is_patched = True
            present = None
        if present is None:
            if self._extended_types and isinstance(record, txns.CreateTxn | txns.Create2Txn) and record.ephemeral:
                _check_owner(transaction.session_id)
            return record
        self._is_patched = True
        # A fuzzy snapshot may have been written without this ACL.
        self.tree.apply(transaction._replace(record=txns.SetACLTxn(path, record.acl, present.aversion)))
        unknown = record.parent_cversion == UNKNOWN_CVERSION
        cversion = parent.cversion + 1 if unknown else record.parent_cversion
        # For the opcode create alone (DataTree.processTxn): a snapshot has each parent together with its children.
        if isinstance(record, txns.CreateTxn) and cversion > parent.cversion:
            parent.cversion, parent.pzxid = cversion, transaction.zxid
        return None

    def _make_deletable(self, transaction: txns.Transaction, path: str, *, is_owned: bool = False) -> bool:
        """Return whether there is a node to delete, with its parent.

        Its children become orphans. If the session of the transaction owns it (`is_owned`), even the root is deleted.
        """
        parent, node = self.tree.get(_parent_of(path)), self.tree.get(path)
        if path == "/" and not is_owned:
            return False
        if parent is not None and node is not None and UNKNOWN_ACL in (parent.acl, node.acl):
            raise UnbootableError("the ACL of a deleted node or of its parent is missing")
        if node is None:
            if parent is not None:
                self._is_patched = True
                parent.pzxid = max(parent.pzxid, transaction.zxid)
            return False
        if parent is None and self._rules is not None and self._rules.deletes_orphans:
            self._is_patched = True
            self.tree.drop_orphan(path)
        return parent is not None

    def _fit_close_session(self, transaction: txns.Transaction, record: txns.CloseSessionTxn) -> txns.Record:
        self.sessions.pop(transaction.session_id, None)
        # The listed paths, and all others of the session: old logs list none (DataTree.killSession).
        owned = dict.fromkeys(self.tree.ephemerals_of(transaction.session_id))
        listed = dict.fromkeys((*record.paths, *owned))
        # A node below another listed one has no parent any more: the tree looks again, in the order of deletion.
        return txns.CloseSessionTxn(
            tuple(path for path in listed if self._make_deletable(transaction, path, is_owned=path in owned))
        )


def _parent_of(path: str) -> str:
    if "/" not in path:
        raise UnbootableError(f"the path {path!r} has no slash")
    return parent_of(path)


def _check_acl(acl: tuple[ACL, ...]) -> None:
    if has_null(acl):
        raise UnbootableError("a part of an ACL is null")


def _check_owner(owner: int) -> None:
    if has_unknown_type(owner):
        raise UnbootableError(f"no type of znode has the owner 0x{owner & (1 << 64) - 1:x}")


def first_orphan(paths: Sequence[str], *, has_root: bool) -> int | None:
    """Return the index of the first path that cannot have a parent, or None.

    The first node is the root; any other path begins with a slash, and no parent is "/" by its text.

    >>> first_orphan(["/", "/a", "/a//"], has_root=False), first_orphan(["/a", "//b", "c"], has_root=True)
    (None, 1)
    """
    if not has_root and paths and paths[0] != "/":
        return 0
    together = "\0".join(("", *paths))
    if together.count("\0") == together.count("\0/") == len(paths) and "\0//" not in together:
        return None
    return next((place for place, path in enumerate(paths) if path[:1] != "/" or path.startswith("//")), None)
