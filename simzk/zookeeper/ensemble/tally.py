"""What a server of an ensemble counts of the history: what it proposed, learned, and looked for.

Source: ServerMetrics (proposal_count, learner_proposal_received_count, ...), BufferStats of the leader's proposals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.persistence.records import encode_transaction
from simzk.zookeeper.transactions import ErrorTxn

if TYPE_CHECKING:
    from simzk.zookeeper.transactions import Transaction

_NO_PROPOSAL = -1  # what is told of sizes before the first one


class Tally:
    """The counters of one server.

    Attributes:
        looked: how often it began to look for a leader.
        proposed: transactions that it made as the leader.
        learned: transactions of others that it applied.
        forwarded: requests that it had the leader make, since it began to follow.
        last_bytes, least_bytes, greatest_bytes: sizes of what it proposed; -1 before the first proposal.
    """

    __slots__ = ("forwarded", "greatest_bytes", "last_bytes", "learned", "least_bytes", "looked", "proposed")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """All counts begin anew, as the words srst and stat_reset ask for."""
        self.looked = self.proposed = self.learned = self.forwarded = 0
        self.reset_sizes()

    def reset_sizes(self) -> None:
        """A leader's sizes are those of its own time."""
        self.last_bytes = self.least_bytes = self.greatest_bytes = _NO_PROPOSAL

    def propose(self, transaction: Transaction) -> None:
        """One more proposal: a transaction as it is sent, with the digest of the tree where it changes the tree."""
        size = len(encode_transaction(transaction, None if isinstance(transaction.record, ErrorTxn) else 0))
        self.proposed += 1
        self.last_bytes = size
        if size > self.greatest_bytes:
            self.greatest_bytes = size
        if size < self.least_bytes or self.least_bytes < 0:
            self.least_bytes = size
