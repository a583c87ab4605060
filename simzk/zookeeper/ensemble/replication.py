"""Replication of one history in an ensemble: the committed transactions, their leader, and who applies them.

Rules of this module:
  - a position is a number of transactions: position 3 is after the third committed one;
  - a transaction is committed once the leader has made it, because the leader always has a connected majority, and all
    of it then has the transaction on disk. So an elected server, which has the longest history of a majority, has every
    committed transaction: no acknowledged write is ever lost. Proposals that a lost leader had not committed are not
    modelled: whether they survive is chance in a real ensemble, and no client was promised it;
  - the leader's transactions are the history; all other members apply all of them in order. A member that lags applies
    due transactions when it is called with the time;
  - zxids are the leader's epoch and a counter that restarts with it: `epoch << 32 | counter`;
  - a follower that its leader does not reach is *silent*. It counts as connected for `sync_limit_ms` (Learner reads
    with a timeout of syncLimit ticks, LearnerHandler.synced) and serves what needs no leader, from a stale tree.

Source: Leader, Learner, LearnerHandler, CommitProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.ensemble.roles import Role

if TYPE_CHECKING:
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.ensemble.membership import EnsembleConfig, Membership
    from simzk.zookeeper.ensemble.reachability import Reachability
    from simzk.zookeeper.ensemble.roles import ServerCounters

FORGET_AT = 1024
"""Number of kept transactions at which those applied by all members are dropped."""


class CommittedHistory:
    """Committed transactions that some member has yet to apply, by position in the history."""

    def __init__(self) -> None:
        self._kept: list[txns.Transaction] = []
        self._begin = 0

    @property
    def end(self) -> int:
        """Return the position after the last transaction."""
        return self._begin + len(self._kept)

    def __len__(self) -> int:
        """Return the number of transactions kept."""
        return len(self._kept)

    def append(self, transaction: txns.Transaction) -> None:
        """Append a committed transaction."""
        assert not self._kept or transaction.zxid > self._kept[-1].zxid, "zxids increase"
        self._kept.append(transaction)

    def __getitem__(self, position: int) -> txns.Transaction:
        """Return the transaction after a position."""
        assert position >= self._begin, f"position {position} was applied by all members and dropped"
        return self._kept[position - self._begin]

    def forget_before(self, position: int) -> None:
        """Drop the transactions before a position, which all members have applied."""
        assert self._begin <= position <= self.end
        del self._kept[: position - self._begin]
        self._begin = position


class Replica(Protocol):
    """Server of an ensemble, as far as replication needs it; its attributes are those of `Member`."""

    server_id: int
    role: Role
    tally: ServerCounters
    position: int
    logged: int

    def follow(self, now_ms: int) -> None:
        """Apply the committed transactions that are due."""

    def connection_of(self, session_id: int) -> Connection | None:
        """Return the open connection of a session, or None."""


R = TypeVar("R", bound=Replica)


class Replication(Generic[R]):
    """What the servers of an ensemble have in common.

    Args:
        config: configuration.
        membership: first membership.
        epoch: epoch of the last leader.
        reachability: which servers reach each other.

    Attributes:
        members: servers by id, from 1.
        history: committed transactions.
        epoch: epoch of the present or last leader.
        membership: voters and observers; those without a server here never run.
        leading: leader, or None.
        owners: id of the server that each session was last attached to.
        silent: followers that do not reach their leader, and since when in ms.
    """

    def __init__(self, config: EnsembleConfig, membership: Membership, epoch: int, reachability: Reachability) -> None:
        self.config: EnsembleConfig = config
        self.membership: Membership = membership
        self.epoch: int = epoch
        self.history: CommittedHistory = CommittedHistory()
        self.members: dict[int, R] = {}
        self.leading: R | None = None
        self.owners: dict[int, int] = {}
        self.silent: dict[int, int] = {}
        self._reachability = reachability

    def is_silent(self, member: R) -> bool:
        """Return whether a follower does not reach its leader, and neither has noticed."""
        return member.server_id in self.silent

    @property
    def can_commit(self) -> bool:
        """Return whether there is a leader that reaches a majority."""
        leader = self.leading
        if leader is None or leader.server_id in self._reachability.paused:
            return False
        assert leader.role is Role.LEADING
        if not self.silent:
            return True
        reached = [
            member
            for member in self.members.values()
            if member is leader or (member.role is Role.FOLLOWING and not self.is_silent(member))
        ]
        return self.has_quorum(reached, self.membership)

    def is_stalled(self, member: R) -> bool:
        """Return whether requests to a server that require the leader have to wait."""
        serves = member.role in (Role.LEADING, Role.FOLLOWING)
        return bool(self.silent) and serves and (self.is_silent(member) or not self.can_commit)

    def has_quorum(self, servers: list[R], membership: Membership) -> bool:
        """Return whether servers are a majority of the voters."""
        voters = membership.voters
        return sum(server.server_id in voters for server in servers) >= membership.quorum

    def can_adopt(self, membership: Membership) -> bool:
        """Return whether a majority of the new voters has the whole history (Leader.isQuorumSynced)."""
        synced = [member for member in self.members.values() if member.role in (Role.LEADING, Role.FOLLOWING)]
        return self.has_quorum(synced, membership)

    def commit(self, transaction: txns.Transaction) -> None:
        """Commit a transaction of the leader; its followers log it, and apply it by their lag."""
        leader = self.leading
        assert leader is not None
        assert leader.position == self.history.end, "a leader has applied the whole history"
        assert transaction.zxid >> 32 == self.epoch, f"zxid 0x{transaction.zxid:x} is not of epoch {self.epoch}"
        self.history.append(transaction)
        has_digest = self.config.server.rules.digests_trees and not isinstance(transaction.record, txns.ErrorTxn)
        leader.tally.propose(transaction, has_digest=has_digest)
        leader.position = leader.logged = self.history.end
        if isinstance(transaction.record, txns.CloseSessionTxn):
            self.owners.pop(transaction.session_id, None)
        for member in self.members.values():
            if member.role is Role.FOLLOWING and member.server_id not in self.silent:
                member.logged = self.history.end
                member.follow(transaction.time_ms)
        if len(self.history) >= FORGET_AT:
            self.history.forget_before(min(member.position for member in self.members.values()))

    def attended_connection(self, session_id: int) -> Connection | None:
        """Return the connection of a session, on any server, that its driver marked as attended, or None."""
        for member in self.members.values():
            connection = member.connection_of(session_id)
            if connection is not None and connection.attended:
                assert connection.session_id == session_id
                return connection
        return None
