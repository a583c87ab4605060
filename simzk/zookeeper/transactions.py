"""Transactions: what a checked write will change, as the real server logs it (§6).

Rules of this module:
  - values only; one class a record of the transaction log, fields as the log has them;
  - a transaction is complete: whoever applies it to an equal tree gets an equal tree (a follower, a replay);
  - a failed write is a transaction too, an `ErrorTxn`, since it consumes a zxid (§1.5).

Who hears of each transaction of a server, and who can hear of many at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.zookeeper.paths import parent_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.zookeeper.requests import ACL


class CreateTxn(NamedTuple):
    """A node made by `Create`: its path with any sequence number, its ACL expanded.

    `parent_cversion` is the parent's new stored cversion; it is raised to that, never lowered.
    """

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    ephemeral: bool
    parent_cversion: int


class Create2Txn(NamedTuple):
    """The same as `CreateTxn`, made by `Create2`, whose answer tells the Stat too."""

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    ephemeral: bool
    parent_cversion: int


class CreateContainerTxn(NamedTuple):
    """A container is made."""

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    parent_cversion: int


class CreateTTLTxn(NamedTuple):
    """A TTL node is made."""

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    parent_cversion: int
    ttl_ms: int


class DeleteTxn(NamedTuple):
    """A znode is removed."""

    path: str


class DeleteContainerTxn(NamedTuple):
    """The same as `DeleteTxn`, made by `DeleteContainer`."""

    path: str


class SetDataTxn(NamedTuple):
    """`version` is the node's new one."""

    path: str
    data: bytes | None
    version: int


class SetACLTxn(NamedTuple):
    """`version` is the node's new aversion."""

    path: str
    acl: tuple[ACL, ...]
    version: int


class CheckTxn(NamedTuple):
    """A check that held; `version` is the node's plus 1, as the real log has it (PrepRequestProcessor)."""

    path: str
    version: int


class CreateSessionTxn(NamedTuple):
    """A session begins."""

    timeout_ms: int


class CloseSessionTxn(NamedTuple):
    """The end of a session; `paths` are its ephemerals in the order of their removal."""

    paths: tuple[str, ...]


class ErrorTxn(NamedTuple):
    """A write that failed: nothing changes but the zxid."""

    error: int


CreateRecord = CreateTxn | Create2Txn | CreateContainerTxn | CreateTTLTxn
MultiRecord = CreateRecord | DeleteTxn | SetDataTxn | CheckTxn | ErrorTxn


class MultiTxn(NamedTuple):
    """The records of a multi. Where one of them is an `ErrorTxn` the multi failed and none is applied (§1.6)."""

    records: tuple[MultiRecord, ...]

    @property
    def failed(self) -> bool:
        return any(isinstance(record, ErrorTxn) for record in self.records)


TreeRecord = CreateRecord | DeleteTxn | DeleteContainerTxn | SetDataTxn | SetACLTxn | CheckTxn
Record = TreeRecord | MultiTxn | CreateSessionTxn | CloseSessionTxn | ErrorTxn


class Transaction(NamedTuple):
    """One step of a server's history: who asked, the zxid, the time in ms, and what changes.

    `cxid` is the xid of the client's request, 0 where no client asked (expiry, sweeps, new sessions).
    """

    session_id: int
    cxid: int
    zxid: int
    time_ms: int
    record: Record


_NODE_AND_PARENT = frozenset((CreateTxn, Create2Txn, CreateContainerTxn, CreateTTLTxn, DeleteTxn, DeleteContainerTxn))


def touched_paths(record: Record) -> Sequence[str]:
    """The paths of the nodes that a record may change, some of them more than once."""
    kind = record.__class__
    if kind in _NODE_AND_PARENT:
        path: str = record.path  # type: ignore[union-attr]
        return path, parent_of(path)
    if isinstance(record, (SetDataTxn, SetACLTxn)):
        return (record.path,)
    if isinstance(record, MultiTxn):
        return [] if record.failed else [path for step in record.records for path in touched_paths(step)]
    if isinstance(record, CloseSessionTxn):
        return [at for path in record.paths for at in (path, parent_of(path))]
    assert isinstance(record, (CheckTxn, CreateSessionTxn, ErrorTxn))
    return ()


if TYPE_CHECKING:
    from collections.abc import Callable

    OnTransaction = Callable[[Transaction], None]
    OnBatch = Callable[[Any], None]


class Observers(list["OnTransaction"]):
    """Called with each transaction as it is applied.

    While every one of them also has a form for batches, a backing may apply many transactions as one, and tell it so.
    """

    def __init__(self) -> None:
        super().__init__()
        self._batch_forms: dict[OnTransaction, OnBatch] = {}

    def add(self, on_transaction: OnTransaction, on_batch: OnBatch) -> None:
        """Add one that takes both: `on_batch` is called with what the backing tells of many transactions."""
        self.append(on_transaction)
        self._batch_forms[on_transaction] = on_batch

    @property
    def batch_forms(self) -> list[OnBatch] | None:
        """Whom to tell of many transactions at once; None where somebody must hear of each."""
        forms = [self._batch_forms.get(observer) for observer in self]
        return None if None in forms else [form for form in forms if form is not None]
