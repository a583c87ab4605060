"""Transactions: the changes of checked writes, as the real server logs them (§6); the results of a multi (§1.6).

Rules of this module:
  - values only; one class per record of the transaction log, with its fields;
  - a transaction is complete: applied to equal trees, on a follower or in a replay, it makes equal trees;
  - a failed write is a transaction too, an `ErrorTxn`, because it consumes a zxid (§1.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.zookeeper.replies import OperationResult
from simzk.zookeeper.znode import parent_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.zookeeper.requests import ACL


class CreateTxn(NamedTuple):
    """Creation of a node by `Create`; the path has its sequence number, and the ACL is expanded.

    `parent_cversion` is the parent's new stored cversion, unless the present one is higher.
    """

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    ephemeral: bool
    parent_cversion: int


class Create2Txn(NamedTuple):
    """Creation of a node by `Create2`, whose reply has the Stat too."""

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    ephemeral: bool
    parent_cversion: int


class CreateContainerTxn(NamedTuple):
    """Creation of a container."""

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    parent_cversion: int


class CreateTTLTxn(NamedTuple):
    """Creation of a TTL node."""

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    parent_cversion: int
    ttl_ms: int


class DeleteTxn(NamedTuple):
    """Deletion of a znode."""

    path: str


class DeleteContainerTxn(NamedTuple):
    """Deletion of a znode by `DeleteContainer`."""

    path: str


class SetDataTxn(NamedTuple):
    """Replacement of data; `version` is the new one."""

    path: str
    data: bytes | None
    version: int


class SetACLTxn(NamedTuple):
    """Replacement of an ACL; `version` is the new aversion."""

    path: str
    acl: tuple[ACL, ...]
    version: int


class CheckTxn(NamedTuple):
    """Successful check; `version` is the node's plus 1, as in the real log (PrepRequestProcessor)."""

    path: str
    version: int


class CreateSessionTxn(NamedTuple):
    """Creation of a session."""

    timeout_ms: int


class CloseSessionTxn(NamedTuple):
    """End of a session; `paths` are its ephemerals in the order of deletion."""

    paths: tuple[str, ...]


class ErrorTxn(NamedTuple):
    """Failed write, which changes only the zxid."""

    error: int


CreateRecord = CreateTxn | Create2Txn | CreateContainerTxn | CreateTTLTxn
MultiRecord = CreateRecord | DeleteTxn | SetDataTxn | CheckTxn | ErrorTxn


class MultiTxn(NamedTuple):
    """Records of a multi. If one of them is an `ErrorTxn`, the multi failed and none is applied (§1.6)."""

    records: tuple[MultiRecord, ...]

    @property
    def failed(self) -> bool:
        """Return whether the multi failed."""
        return any(isinstance(record, ErrorTxn) for record in self.records)


TreeRecord = CreateRecord | DeleteTxn | DeleteContainerTxn | SetDataTxn | SetACLTxn | CheckTxn
Record = TreeRecord | MultiTxn | CreateSessionTxn | CloseSessionTxn | ErrorTxn


class Transaction(NamedTuple):
    """Transaction: session of the client, zxid, time in ms, and the record of the change.

    `cxid` is the xid of the client's request, 0 without one (expiry, sweeps, new sessions).
    """

    session_id: int
    cxid: int
    zxid: int
    time_ms: int
    record: Record


_NODE_AND_PARENT = frozenset((CreateTxn, Create2Txn, CreateContainerTxn, CreateTTLTxn, DeleteTxn, DeleteContainerTxn))


def touched_paths(record: Record) -> Sequence[str]:
    """Return the paths of the nodes that a record may change, with repetitions."""
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


def multi_results(record: Record, bodies: object) -> list[OperationResult] | None:
    """Return the results in the reply to a multi, from its record and the bodies that applying it returned.

    They are None if the request was rejected as a whole.
    """
    if isinstance(bodies, list):
        assert isinstance(record, MultiTxn)
        assert len(bodies) == len(record.records), "each operation of a multi that succeeded has a body"
        return [OperationResult(0, body) for body in bodies]
    if isinstance(record, MultiTxn):
        assert record.failed, "a multi that succeeded has bodies"
        # Operations before the failed one have error 0, although nothing was applied (§1.6).
        errors = [step.error if isinstance(step, ErrorTxn) else 0 for step in record.records]
        return [OperationResult(error, None) for error in errors]
    return None


if TYPE_CHECKING:
    from collections.abc import Callable

    OnTransaction = Callable[[Transaction], None]
    OnBatch = Callable[[Any], None]


class Observers(list["OnTransaction"]):
    """Functions called with each applied transaction.

    While each of them also has a batch form, a backing may apply many transactions at once and call the batch forms.
    """

    def __init__(self) -> None:
        super().__init__()
        self._batch_forms: dict[OnTransaction, OnBatch] = {}

    def add(self, on_transaction: OnTransaction, on_batch: OnBatch) -> None:
        """Add an observer with a batch form, which is called with the backing's own value for many transactions."""
        assert on_transaction not in self
        self.append(on_transaction)
        self._batch_forms[on_transaction] = on_batch

    @property
    def batch_forms(self) -> list[OnBatch] | None:
        """Return the batch forms of all observers; None if one has to see each transaction."""
        forms = [self._batch_forms.get(observer) for observer in self]
        return None if None in forms else [form for form in forms if form is not None]
