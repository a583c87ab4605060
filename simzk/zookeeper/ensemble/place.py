"""What a server of an ensemble is doing.

What a server of an ensemble counts of the history: what it proposed, learned, and looked for.

Source: ServerMetrics (proposal_count, learner_proposal_received_count, ...), BufferStats of the leader's proposals.

What a server of an ensemble tells of its place in it: whom it follows, who follows it, and what has gone between.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.persistence.records import encode_transaction
from simzk.zookeeper.transactions import ErrorTxn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.zookeeper.ensemble.membership import Membership, ServerLine
    from simzk.zookeeper.sessions import Session
    from simzk.zookeeper.transactions import Transaction


class Role(Enum):
    """The states of a server; the values are what `srvr` calls its mode, empty while it does not serve."""

    LEADING = "leader"
    FOLLOWING = "follower"
    LOOKING = ""
    READ_ONLY = "read-only"
    DOWN = "down"

    @property
    def serves(self) -> bool:
        """Whether clients can have connections to a server in this state."""
        return self in _SERVING


_SERVING = (Role.LEADING, Role.FOLLOWING, Role.READ_ONLY)


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
    looked: int
    proposed: int
    learned: int
    forwarded: int
    last_bytes: int
    least_bytes: int
    greatest_bytes: int

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


class Learner(NamedTuple):
    """A server that follows, as its leader sees it.

    Attributes:
        line: where it is.
        observes: whether it is an observer.
        votes: whether it has a vote; one that left the ensemble follows on without.
        since_ms: since when it follows.
        learned: how many transactions it was told of.
        forwarded: how many requests it handed on.
        zxid: of the last transaction that it has.
    """

    line: ServerLine
    observes: bool
    votes: bool
    since_ms: int
    learned: int
    forwarded: int
    zxid: int


class Place(NamedTuple):
    """One server's place in its ensemble.

    Attributes:
        line: where it is.
        observes: whether it has no vote for being an observer.
        votes: whether it has one.
        membership: who belongs to the ensemble.
        leader: who leads; None for a server that looks, or serves read-only clients.
        since_ms: since when it does what it does.
        tally: its counters, live.
        local: its own sessions, which the others do not know.
        has_local: whether sessions are local in this ensemble.
        learners: of a leader, who follows.
    """

    line: ServerLine
    observes: bool
    votes: bool
    membership: Membership
    leader: ServerLine | None
    since_ms: int
    tally: Tally
    local: Sequence[Session]
    has_local: bool
    learners: Sequence[Learner]

    @property
    def leads(self) -> bool:
        """Whether it is the leader."""
        return self.leader is not None and self.leader.server_id == self.line.server_id

    @property
    def peer_state(self) -> str:
        """What mntr calls its state (QuorumPeer.getPeerState and ZabState)."""
        doing = "leading" if self.leads else "observing" if self.observes else "following"
        return f"{doing} - broadcast"
