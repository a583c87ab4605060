"""What a server of an ensemble tells of its place in it: whom it follows, who follows it, and what has gone between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.zookeeper.ensemble.membership import Membership, ServerLine
    from simzk.zookeeper.ensemble.tally import Tally
    from simzk.zookeeper.sessions import Session


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
