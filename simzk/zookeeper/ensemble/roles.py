"""Roles of the servers of an ensemble, and what each reports of its place for monitoring.

Source: QuorumPeer.ServerState; ServerMetrics (proposal_count, learner_proposal_received_count, ...) and BufferStats of
the leader's proposals.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.persistence.records import encode_transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.zookeeper import transactions as txns
    from simzk.zookeeper.ensemble.membership import Membership, ServerLine
    from simzk.zookeeper.sessions import Session


class Role(Enum):
    """Roles of a server; a value is the mode in the word srvr, empty while it does not serve."""

    LEADING = "leader"
    FOLLOWING = "follower"
    LOOKING = ""
    READ_ONLY = "read-only"
    DOWN = "down"

    @property
    def serves(self) -> bool:
        """Return whether clients can connect to a server in this role."""
        return self not in (Role.LOOKING, Role.DOWN)


_NO_PROPOSAL = -1  # the size of proposals before the first one


@dataclass(slots=True)
class ServerCounters:
    """Counters of one server of an ensemble.

    Attributes:
        looked: number of times it began to look for a leader.
        proposed: number of transactions that it made as leader.
        learned: number of transactions of leaders that it applied.
        forwarded: number of requests forwarded to the leader since it became a follower.
        last_bytes, least_bytes, greatest_bytes: sizes of its proposals; -1 before the first.
    """

    looked: int = 0
    proposed: int = 0
    learned: int = 0
    forwarded: int = 0
    last_bytes: int = _NO_PROPOSAL
    least_bytes: int = _NO_PROPOSAL
    greatest_bytes: int = _NO_PROPOSAL

    def reset(self) -> None:
        """Reset all counters, as srst and stat_reset do."""
        self.looked = self.proposed = self.learned = self.forwarded = 0
        self.reset_sizes()

    def reset_sizes(self) -> None:
        """Reset the sizes of proposals, as a new leader does."""
        self.last_bytes = self.least_bytes = self.greatest_bytes = _NO_PROPOSAL

    def propose(self, transaction: txns.Transaction, *, has_digest: bool) -> None:
        """Count a proposal: a transaction as it is sent, with the tree's digest in releases that have it."""
        size = len(encode_transaction(transaction, 0 if has_digest else None))
        self.proposed += 1
        self.last_bytes = size
        self.greatest_bytes = max(size, self.greatest_bytes)
        self.least_bytes = size if self.least_bytes == _NO_PROPOSAL else min(size, self.least_bytes)
        assert 0 < self.least_bytes <= size <= self.greatest_bytes


class Learner(NamedTuple):
    """Follower or observer, as its leader sees it.

    Attributes:
        line: its addresses.
        observes: whether it is an observer.
        votes: whether it has a vote; a removed member follows without one.
        since_ms: time since which it follows.
        learned: number of transactions that it applied.
        forwarded: number of requests that it forwarded.
        zxid: zxid of its last transaction.
    """

    line: ServerLine
    observes: bool
    votes: bool
    since_ms: int
    learned: int
    forwarded: int
    zxid: int


class EnsembleRole(NamedTuple):
    """Role of one server in its ensemble, for monitoring.

    Attributes:
        line: its addresses.
        observes: whether it is an observer.
        votes: whether it has a vote.
        membership: members of the ensemble.
        leader: addresses of the leader; None for a server without one.
        since_ms: time since which the server has its role.
        tally: its live counters.
        local: its local sessions.
        has_local: whether the ensemble has local sessions.
        learners: followers and observers of a leader.
    """

    line: ServerLine
    observes: bool
    votes: bool
    membership: Membership
    leader: ServerLine | None
    since_ms: int
    tally: ServerCounters
    local: Sequence[Session]
    has_local: bool
    learners: Sequence[Learner]

    @property
    def leads(self) -> bool:
        """Return whether it is the leader."""
        return self.leader is not None and self.leader.server_id == self.line.server_id

    @property
    def peer_state(self) -> str:
        """Return its state in mntr (QuorumPeer.getPeerState and ZabState)."""
        state = "leading" if self.leads else "observing" if self.observes else "following"
        return f"{state} - broadcast"
