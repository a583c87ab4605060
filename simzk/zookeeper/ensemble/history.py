"""The committed history: every transaction of the ensemble, in order, as long as somebody has yet to apply it.

Rules of this module:
  - a position is a number of transactions: position 3 is after the third that was ever committed;
  - committed is committed: nothing is ever taken back. What a real leader has proposed and not committed when it is
    lost has no place here: whether it survives is chance there, and nobody was told that it would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.zookeeper.transactions import Transaction


class History:
    """The transactions behind the position up to which everybody has applied them."""

    def __init__(self) -> None:
        self._kept: list[Transaction] = []
        self._begin = 0

    @property
    def end(self) -> int:
        """The position after the last transaction."""
        return self._begin + len(self._kept)

    def __len__(self) -> int:
        """How many transactions are kept."""
        return len(self._kept)

    def append(self, transaction: Transaction) -> None:
        """One more is committed."""
        assert not self._kept or transaction.zxid > self._kept[-1].zxid
        self._kept.append(transaction)

    def __getitem__(self, position: int) -> Transaction:
        """The transaction that follows a position."""
        assert position >= self._begin, "what everybody has applied is no longer kept"
        return self._kept[position - self._begin]

    def forget_before(self, position: int) -> None:
        """Everybody has applied what stands before this position."""
        assert self._begin <= position <= self.end
        del self._kept[: position - self._begin]
        self._begin = position
