"""Who hears of each transaction of a server, and who can hear of many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.transactions import Transaction

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
