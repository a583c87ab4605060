"""Log of a run's znodes: the tree at its start, and each change of a znode's data with its virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.transactions import (
    CloseSessionTxn,
    Create2Txn,
    CreateContainerTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteContainerTxn,
    DeleteTxn,
    MultiTxn,
    SetDataTxn,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.server import Server
    from simzk.zookeeper.transactions import Record, Transaction


class ZnodeChange(NamedTuple):
    """A change of a znode: its virtual time, its path, and its data as text; None for a deleted znode."""

    at_us: int
    path: str
    data: str | None


class ZnodeLog:
    """Log of the znodes of a server, from its creation on.

    Args:
        server: the server. As long as the log observes it, batches of writes are applied one by one.
        now_us: returns the present virtual time in microseconds, the time of changes.

    Attributes:
        at_start: the data of the znodes at the start, by path, as text.
        changes: the changes in order; a deletion of a session's ephemerals is one change for each.
    """

    def __init__(self, server: Server, now_us: Callable[[], int]) -> None:
        self._server = server
        self._now_us = now_us
        self.at_start: dict[str, str] = {path: _text(node.data) for path, node in server.tree.walk()}
        self.changes: list[ZnodeChange] = []
        server.on_transaction.append(self._observe)

    def _observe(self, transaction: Transaction) -> None:
        record = transaction.record
        parts = (record,) if not isinstance(record, MultiTxn) else () if record.failed else record.records
        for part in parts:
            self._add(part)

    def _add(self, record: Record) -> None:
        now_us = self._now_us()
        match record:
            case CreateTxn() | Create2Txn() | CreateContainerTxn() | CreateTTLTxn() | SetDataTxn():
                self.changes.append(ZnodeChange(now_us, record.path, _text(record.data)))
            case DeleteTxn() | DeleteContainerTxn():
                self.changes.append(ZnodeChange(now_us, record.path, None))
            case CloseSessionTxn():
                self.changes += (ZnodeChange(now_us, path, None) for path in record.paths)

    def close(self) -> None:
        """Stop observing the server."""
        if self._observe in self._server.on_transaction:
            self._server.on_transaction.remove(self._observe)

    def to_json(self) -> dict[str, object]:
        """Return the log as JSON values: `at_start`, and `changes` of `at_us`, `path`, `data`."""
        return {"at_start": dict(self.at_start), "changes": [change._asdict() for change in self.changes]}


def _text(data: bytes | None) -> str:
    """Return data as text; bytes that are no UTF-8 are escaped."""
    return (data or b"").decode(errors="backslashreplace")
