"""From a snapshot and the logs behind it to a tree and its sessions, as a server boots (§6).

Rules of this module:
  - no IO: nodes and log entries are handed in, in their order;
  - replaying is idempotent: a fuzzy snapshot shows some of what the log says next, and logs may overlap; so a node that
    exists is not created again, one that is gone not deleted again, and a parent's numbers only rise;
  - nothing that a log may say makes it fail: what does not fit the tree is passed over, and the digest shows it.

Source: FileTxnSnapLog.restore, DataTree.createNode, DataTree.deleteNode, ZooKeeperServer.loadData.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.paths import SPECIAL_PATHS, first_invalid, is_valid_path, parent_of
from simzk.zookeeper.persistence.digest import TreeDigest
from simzk.zookeeper.persistence.files import Damage, DamageKind
from simzk.zookeeper.persistence.lazy_nodes import SleepingNodes
from simzk.zookeeper.persistence.records import DIGEST_VERSION, LogEntry
from simzk.zookeeper.persistence.snapshot import SnapshotDigest, make_node
from simzk.zookeeper.transactions import (
    CloseSessionTxn,
    Create2Txn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteContainerTxn,
    DeleteTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    Transaction,
    touched_paths,
)
from simzk.zookeeper.tree import UNKNOWN_CVERSION, DataTree
from simzk.zookeeper.znode import MAX_TTL_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.zookeeper.persistence.snapshot import NodeBatch, SnapshotReader
    from simzk.zookeeper.requests import ACL
    from simzk.zookeeper.transactions import CreateRecord, Record


class Restoration:
    """A tree and its sessions in the making.

    Args:
        sleeping: for those who want some of its data, not to change it: what no log touches sleeps on as it was read,
            which takes a fifth of the time.

    Attributes:
        tree: as far as it was restored.
        sessions: session id -> timeout in ms.
        zxid: the last one applied.
        mismatch_zxid: the first transaction after which the tree's digest was not the one on disk, or None.

    >>> restoration = Restoration()
    >>> restoration.replay(LogEntry(Transaction(7, 0, 1, 0, CreateSessionTxn(30_000)), None))
    >>> restoration.sessions, restoration.zxid
    ({7: 30000}, 1)
    """

    def __init__(self, *, sleeping: bool = False) -> None:
        self.tree: DataTree = DataTree()
        self._sleeping = sleeping
        self._nodes: SleepingNodes | None = None
        self.sessions: dict[int, int] = {}
        self.zxid: int = 0
        self.mismatch_zxid: int | None = None
        self._digest: TreeDigest | None = TreeDigest(self.tree)
        self._is_patched = False
        self._fuzzy_until = 0
        self._expected = SnapshotDigest(0, DIGEST_VERSION, 0)

    def load(self, snapshot: SnapshotReader, zxid: int) -> Damage | None:
        """Take in a snapshot, before anything else.

        Args:
            snapshot: not yet iterated.
            zxid: the one in its file's name: transactions after it follow by `replay`.

        Returns:
            Why the snapshot is not to be believed; then all of this is to be thrown away.
        """
        newest = self.zxid = zxid
        if self._sleeping:
            self._nodes = SleepingNodes(snapshot.acls)
        self.tree = DataTree.bare() if self._nodes is None else self._nodes.tree
        for batch in snapshot.batches():
            bad = first_invalid(batch.paths)
            if bad is None:
                bad = self._plant(batch, snapshot.acls)
            if bad is not None:
                return Damage(DamageKind.RECORD, snapshot.offset - batch.bytes_behind(bad), None)
            newest = max(newest, batch.newest_zxid())
        if snapshot.damage is not None:
            return snapshot.damage
        self.sessions.update(snapshot.sessions)
        if snapshot.digest is not None and snapshot.digest.zxid >= max(zxid, 1):
            self._expected = snapshot.digest
            newest = max(newest, snapshot.digest.zxid)
        self._fuzzy_until = newest
        self._digest = None
        if newest == zxid:
            self._leave_fuzzy_range()
        return None

    def _plant(self, batch: NodeBatch, acls: Mapping[int, tuple[ACL, ...]]) -> int | None:
        """Put nodes where they stood; the place of the first that has no parent, None where all have."""
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
        """Apply one entry of a log; what the tree is known to have already is passed over."""
        transaction, logged_digest = entry
        if transaction.zxid <= self.zxid:
            return
        self.zxid = transaction.zxid
        record = transaction.record
        if isinstance(record, MultiTxn):
            steps: tuple[Record, ...] = () if record.failed else record.records
        else:
            steps = (record,)
        digest = self._digest
        for step in steps:
            applied = self._apply(transaction, step)
            if applied is not None and digest is not None:
                digest.refresh(touched_paths(applied))
        if digest is not None:
            if logged_digest is not None and digest.value != logged_digest and self.mismatch_zxid is None:
                self.mismatch_zxid = transaction.zxid
        elif self.zxid >= self._fuzzy_until:
            self._leave_fuzzy_range()

    def data(self, paths: Sequence[str]) -> list[bytes | None]:
        """The data at some paths, in their order; b"" of nodes that have none, None where no node is."""
        if self._nodes is not None:
            return self._nodes.data(paths)
        return [None if node is None else node.data or b"" for node in map(self.tree.get, paths)]

    def names(self, path: str) -> list[str]:
        """The names of the children of the node at a path, in any order; none where no node is."""
        if self._nodes is not None:
            return self._nodes.names(path)
        node = self.tree.get(path)
        return [] if node is None else node.child_names()

    def finish(self) -> TreeDigest:
        """Remove the ephemerals of sessions that are not known (ZooKeeperServer.loadData).

        Returns:
            The tree's digest, to be kept up to date from here on.
        """
        for session_id in [owner for owner in self.tree.ephemerals if owner not in self.sessions]:
            # It ends without a zxid: the real server does not log it either.
            ended = Transaction(session_id, 0, self.zxid, 0, CloseSessionTxn(()))
            applied = self._apply(ended, ended.record)
            if applied is not None and self._digest is not None:
                self._digest.refresh(touched_paths(applied))
        if self._digest is None or self._is_patched:
            self._digest = TreeDigest(self.tree, self._nodes)
        return self._digest

    @property
    def missing_until(self) -> int | None:
        """The zxid up to which the logs would have had to reach to mend a fuzzy snapshot, if they do not."""
        return self._fuzzy_until if self.zxid < self._fuzzy_until else None

    def _leave_fuzzy_range(self) -> None:
        """The tree is that of one zxid again: digests can be compared from here on."""
        self._digest = TreeDigest(self.tree, self._nodes)
        zxid, version, value = self._expected
        if zxid == self.zxid != 0 and version == DIGEST_VERSION and value != self._digest.value:
            self.mismatch_zxid = zxid

    # Replaying

    def _apply(self, transaction: Transaction, record: Record) -> Record | None:
        """Apply a record as far as it fits the tree; returns what was applied, None where nothing was."""
        fit = _FIT.get(record.__class__)
        fitting = None if fit is None else fit(self, transaction, record)
        if fitting is not None:
            self.tree.apply(transaction._replace(record=fitting))
        return fitting

    def _fit_create(self, transaction: Transaction, record: CreateRecord) -> CreateRecord | None:
        path = record.path
        parent = self.tree.get(parent_of(path))
        if parent is None or not is_valid_path(path):
            return None
        present = self.tree.get(path)
        if present is None:
            return record
        self._is_patched = True
        # The snapshot may have been written when this ACL was not yet known to it.
        self.tree.apply(transaction._replace(record=SetACLTxn(path, record.acl, present.aversion)))
        unknown = record.parent_cversion == UNKNOWN_CVERSION
        cversion = parent.cversion + 1 if unknown else record.parent_cversion
        if cversion > parent.cversion:
            parent.cversion, parent.pzxid = cversion, transaction.zxid
        return None

    def _fit_create_ttl(self, transaction: Transaction, record: CreateTTLTxn) -> CreateRecord | None:
        return self._fit_create(transaction, record) if 0 < record.ttl_ms <= MAX_TTL_MS else None

    def _fit_delete(self, transaction: Transaction, record: DeleteTxn | DeleteContainerTxn) -> Record | None:
        return record if self._make_deletable(transaction, record.path) else None

    def _make_deletable(self, transaction: Transaction, path: str) -> bool:
        """Whether there is a node to delete; what is below it goes, for it came later and will come again."""
        if path in SPECIAL_PATHS:
            return False
        if path not in self.tree:
            parent = self.tree.get(parent_of(path))
            if parent is not None:
                self._is_patched = True
                parent.pzxid = max(parent.pzxid, transaction.zxid)
            return False
        for below in [at for at, _ in self.tree.walk(path)][:0:-1]:
            self._is_patched = True
            self.tree.apply(transaction._replace(record=DeleteTxn(below)))
        return True

    def _fit_change(self, transaction: Transaction, record: SetDataTxn | SetACLTxn) -> Record | None:
        return record if record.path in self.tree else None

    def _fit_create_session(self, transaction: Transaction, record: CreateSessionTxn) -> Record:
        self.sessions[transaction.session_id] = record.timeout_ms
        return record

    def _fit_close_session(self, transaction: Transaction, record: CloseSessionTxn) -> Record:
        self.sessions.pop(transaction.session_id, None)
        # What the transaction lists, and what else the session owns: old logs list nothing (DataTree.killSession).
        owned = dict.fromkeys((*record.paths, *self.tree.ephemerals_of(transaction.session_id)))
        deletable = [path for path in owned if self._make_deletable(transaction, path)]
        # What was below another is gone by now.
        return CloseSessionTxn(tuple(path for path in deletable if path in self.tree))


_FIT: dict[type, Callable[..., Record | None]] = {
    CreateTxn: Restoration._fit_create,
    Create2Txn: Restoration._fit_create,
    CreateContainerTxn: Restoration._fit_create,
    CreateTTLTxn: Restoration._fit_create_ttl,
    DeleteTxn: Restoration._fit_delete,
    DeleteContainerTxn: Restoration._fit_delete,
    SetDataTxn: Restoration._fit_change,
    SetACLTxn: Restoration._fit_change,
    CreateSessionTxn: Restoration._fit_create_session,
    CloseSessionTxn: Restoration._fit_close_session,
}
"""What else there is (checks, errors) changes nothing but the zxid."""
