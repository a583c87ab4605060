"""The committed history: every transaction of the ensemble, in order, as long as somebody has yet to apply it.

Rules of this module:
  - a position is a number of transactions: position 3 is after the third that was ever committed;
  - committed is committed: nothing is ever taken back. What a real leader has proposed and not committed when it is
    lost has no place here: whether it survives is chance there, and nobody was told that it would.

An ensemble of servers: one committed history, a position a server, and who of them can speak with whom.

Rules of this module:
  - a transaction is committed once the leader has made it, for the leader always has a majority on its side; everybody
    on that side has it on disk then. So a majority has every committed transaction, and whoever is elected, by a
    majority, from those who have the most, has them all: nothing that was acknowledged is ever lost;
  - zxids are the leader's epoch and a counter that begins anew with it: `epoch << 32 | counter`;
  - a leader that has lost its majority is a leader no longer; nobody serves until another is elected, but read-only
    servers, where there are to be such;
  - who expires is decided by the leader's clock alone;
  - time and chance come in as arguments; Zab's messages are not played.

Source: QuorumPeer, Leader, Learner, FastLeaderElection; §7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.zookeeper.ensemble.config import EnsembleConfig
from simzk.zookeeper.ensemble.member import Member
from simzk.zookeeper.ensemble.membership import Membership, in_java_order, parse_line
from simzk.zookeeper.ensemble.place import Learner, Place, Role
from simzk.zookeeper.transactions import CloseSessionTxn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.ensemble.membership import ServerLine
    from simzk.zookeeper.persistence import Restoration
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


FORGET_AT = 1024
"""Transactions kept before it is looked whether all have applied them."""


def _numbered(config: EnsembleConfig) -> Membership:
    """Members of which nothing is known but their numbers."""
    kinds = {server_id: "participant" if server_id <= config.servers else "observer" for server_id in config.ids}
    return Membership(
        in_java_order(
            parse_line(server_id, f"server-{server_id}:2888:3888:{kinds[server_id]};2181") for server_id in kinds
        )
    )


class Ensemble:
    """Several servers that act as one.

    A driver treats each of `members` as the server that it is; whatever it does to one of them may leave output in
    all. Times must not go back.

    Args:
        config: how the ensemble behaves.
        now_ms: the time at which all servers start. The one with the greatest id leads first.
        past: what each server has on its disk, the same history each; None for new servers.
        epoch: of the last leader there was.

    Attributes:
        members: the servers by id, from 1.
        history: what is committed.
        epoch: how many leaders there have been.
        membership: who belongs to it and who has a vote; of those who are no servers here none ever runs.
        leading: the leader, or None while there is none.
        owners: the id of the server that each session was last attached to.

    >>> from simzk.zookeeper import requests as req
    >>> ensemble = Ensemble()
    >>> follower = ensemble.members[1]
    >>> connection = follower.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), now_ms=0)
    >>> follower.handle(connection, 1, req.Create("/a", b"", req.OPEN_ACL, 0), now_ms=5)
    >>> [(_, (connected, created))] = follower.take_output()
    >>> hex(connected.session_id)[:4], hex(created.zxid)
    ('0x10', '0x100000002')
    >>> [member.tree.get("/a") is not None for member in ensemble.members.values()]
    [True, True, True]
    """

    def __init__(
        self,
        config: EnsembleConfig | None = None,
        *,
        now_ms: int = 0,
        past: Mapping[int, Restoration] | None = None,
        epoch: int = 0,
    ) -> None:
        self.config: EnsembleConfig = config or EnsembleConfig()
        self.history: History = History()
        self.epoch: int = epoch
        self.membership: Membership = self.config.membership or _numbered(self.config)
        self._lines = {line.server_id: line for line in self.membership.lines}
        self.leading: Member | None = None
        self.owners: dict[int, int] = {}
        self.members: dict[int, Member] = {
            server_id: Member(self, server_id, now_ms, None if past is None else past[server_id])
            for server_id in self.config.ids
        }
        assert len({member.zxid for member in self.members.values()}) == 1, "one history"
        self._sides = dict.fromkeys(self.members, 0)
        self._sides_made = 0
        self._election_at_ms = now_ms if self._electorate() else None
        self.tick(now_ms)

    # What happens to servers

    def stop(self, server_id: int, now_ms: int, *, outage_ms: int | None = None) -> None:
        """A server is gone: its connections end; what it has on disk stays.

        Args:
            server_id: which one.
            now_ms: the present time.
            outage_ms: how long nobody leads if it was the leader; as configured where None.

        Raises:
            SimzkError: there is no such server, it is stopped already, or the time is negative.
        """
        member = self._member(server_id)
        if outage_ms is not None and outage_ms < 0:
            raise SimzkError(f"it cannot be without a leader for {outage_ms} ms", where="outage", right="0 or more")
        if member.role is Role.DOWN:
            raise SimzkError(f"server {server_id} is stopped already", where="server", right="a server that runs")
        member.take(Role.DOWN, now_ms)
        self._review(now_ms, outage_ms)

    def start(self, server_id: int, now_ms: int) -> None:
        """A stopped server is back, with what it has on disk.

        Raises:
            SimzkError: there is no such server, or it runs.
        """
        member = self._member(server_id)
        if member.role is not Role.DOWN:
            raise SimzkError(f"server {server_id} runs", where="server", right="a server that was stopped")
        member.take(Role.LOOKING, now_ms)
        self._review(now_ms)

    def cut(self, *server_ids: int, now_ms: int) -> None:
        """From now on these servers can speak with each other and with no others; clients reach them as before.

        Raises:
            SimzkError: there is no such server.
        """
        self._sides_made += 1
        for member in [self._member(server_id) for server_id in server_ids]:
            self._sides[member.server_id] = self._sides_made
        self._review(now_ms)

    def heal(self, now_ms: int) -> None:
        """All servers can speak with each other again."""
        self._sides = dict.fromkeys(self.members, 0)
        self._review(now_ms)

    def lag(self, server_id: int, now_ms: int, *, lag_ms: int = 0, transactions: int = 0) -> None:
        """From now on a server applies what is committed that much later, as long as it follows.

        By time, whoever writes through it or asks it to sync waits as long. By transactions, it comes to where they
        need it at once, and stays behind otherwise.

        Raises:
            SimzkError: there is no such server, or a lag is negative.
        """
        member = self._member(server_id)
        if lag_ms < 0 or transactions < 0:
            raise SimzkError("a server cannot be ahead of its leader", where="lag", right="0 or more")
        member.lag_ms, member.lag_transactions = lag_ms, transactions
        member.follow(now_ms)

    def elect(self, now_ms: int, server_id: int | None = None) -> None:
        """Elect a leader now: of those who have the whole history, this one, or the one with the greatest id.

        A leader that there is steps down first.

        Raises:
            SimzkError: no majority can speak with each other, the server is not among them or lacks transactions.
        """
        if server_id is not None:
            self._member(server_id)
        electorate = self._electorate()
        if not electorate:
            raise SimzkError("no majority of the servers can speak with each other", right="start() or heal() first")
        voters = [member for member in electorate if member.server_id in self.membership.voters]
        most = max(member.logged for member in voters)
        able = {member.server_id: member for member in voters if member.logged == most}
        if server_id is not None and server_id not in able:
            right = f"one of {', '.join(map(str, able))}"
            raise SimzkError(f"server {server_id} cannot be elected", where="server", right=right)
        self._depose(now_ms)
        self._enthrone(able[max(able) if server_id is None else server_id], electorate, now_ms)

    def restart(self, now_ms: int) -> None:
        """All servers that run stop and start at once."""
        self._depose(now_ms)
        self._review(now_ms)

    # Who leads

    def _review(self, now_ms: int, outage_ms: int | None = None) -> None:
        """See who can still do what he does, after something has happened to servers or between them."""
        leader = self.leading
        if leader is not None and leader not in self._electorate():
            self._depose(now_ms)
            leader = None
        for member in self.members.values():
            if leader is not None and self._reaches(member, leader):
                if member is not leader and member.role is not Role.FOLLOWING:
                    member.join(now_ms)
            elif member.role is Role.FOLLOWING:
                member.take(Role.LOOKING, now_ms)
        if leader is not None or not self._electorate():
            self._election_at_ms = None
        elif self._election_at_ms is None:
            self._election_at_ms = now_ms + (self.config.election_ms if outage_ms is None else outage_ms)
        self.tick(now_ms)

    def _reaches(self, member: Member, other: Member) -> bool:
        return member.role is not Role.DOWN and self._sides[member.server_id] == self._sides[other.server_id]

    def _electorate(self) -> list[Member]:
        """The servers that make a majority and can speak with each other; empty where there are none such."""
        running = [member for member in self.members.values() if member.role is not Role.DOWN]
        for first in running:
            side = [member for member in running if self._reaches(member, first)]
            if self._has_quorum(side, self.membership):
                return side
        return []

    def _has_quorum(self, servers: list[Member], membership: Membership) -> bool:
        voters = membership.voters
        return sum(server.server_id in voters for server in servers) >= membership.quorum

    def _depose(self, now_ms: int) -> None:
        """Nobody leads any more; who followed looks for another."""
        self.leading = None
        self.owners.clear()
        for member in self.members.values():
            if member.role in (Role.LEADING, Role.FOLLOWING):
                member.take(Role.LOOKING, now_ms)

    def _enthrone(self, leader: Member, electorate: list[Member], now_ms: int) -> None:
        assert leader.logged == self.history.end, "a majority has all that was committed"
        self.epoch += 1
        self._election_at_ms = None
        leader.take(Role.LOOKING, now_ms)
        leader.catch_up(now_ms)
        leader.lead(self.epoch << 32, now_ms)
        self.leading = leader
        self._establish(self.epoch << 32)
        leader.configure(now_ms)
        for member in electorate:
            if member is not leader:
                member.join(now_ms)

    def commit(self, transaction: Transaction) -> None:
        """The leader has made a transaction: whoever it can speak with has it, and applies it as his lag lets him."""
        leader = self.leading
        assert leader is not None
        self.history.append(transaction)
        leader.tally.propose(transaction)
        leader.position = leader.logged = self.history.end
        if isinstance(transaction.record, CloseSessionTxn):
            self.owners.pop(transaction.session_id, None)
        for member in self.members.values():
            if member.role is Role.FOLLOWING:
                member.logged = self.history.end
                member.follow(transaction.time_ms)
        if len(self.history) >= FORGET_AT:
            self.history.forget_before(min(member.position for member in self.members.values()))

    # Sessions and time

    def expire(self, session_id: int, now_ms: int) -> bool:
        """End a session now; whether there was such a session, and its server or a leader to end it."""
        for member in self.members.values():
            if session_id in member.sessions.local:
                member.expire_locally(session_id)
                return True
        leader = self.leading
        return leader is not None and leader.expire_as_leader(session_id, now_ms)

    def attended_connection(self, session_id: int) -> Connection | None:
        """The connection, on any server, whose driver sees to it that its session lives; or None."""
        for member in self.members.values():
            connection = member.connection_of(session_id)
            if connection is not None and connection.attended:
                return connection
        return None

    def tick(self, now_ms: int) -> None:
        """Let time do its work: elections, expiries, sweeps, and what followers have yet to apply."""
        if self._election_at_ms is not None and self._election_at_ms <= now_ms:
            self.elect(now_ms)
        if self.leading is not None:
            self.leading.tick_as_leader(now_ms)
        for member in self.members.values():
            if member.role is Role.FOLLOWING:
                member.follow(now_ms)
                member.tick_locally(now_ms)
            elif member.role is Role.READ_ONLY:
                member.tick_locally(now_ms)
            elif member.role is Role.LOOKING and self._turns_read_only_ms(member) <= now_ms:
                member.take(Role.READ_ONLY, now_ms)

    def _turns_read_only_ms(self, member: Member) -> float:
        if not self.config.read_only or (self._election_at_ms is not None and member in self._electorate()):
            return float("inf")
        return member.since_ms + self.config.read_only_after_ms

    def next_deadline_ms(self) -> int | None:
        """When `tick` will next have something to do if nothing else happens, or None."""
        deadlines = [self._election_at_ms]
        if self.leading is not None:
            deadlines.append(self.leading.leader_deadline_ms())
        for member in self.members.values():
            deadlines.append(member.due_ms())
            if member.role is Role.LOOKING and (turn_ms := self._turns_read_only_ms(member)) != float("inf"):
                deadlines.append(int(turn_ms))
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # Looking

    def name_members(self, lines: Iterable[ServerLine], now_ms: int) -> None:
        """Say where the servers are: the lines of /zookeeper/config, once they are known.

        Of a membership that is said elsewhere, or was kept, only what is said of their clients is new.
        """
        self._lines = {line.server_id: line for line in lines}
        if self.config.membership is None:
            self.membership = Membership(in_java_order(self._lines.values()))
        else:
            kept = self.membership.lines
            moved = (line._replace(client=self._lines.get(line.server_id, line).client) for line in kept)
            self.membership = self.membership._replace(lines=tuple(moved))
        if self.leading is not None:
            self._establish(self.leading.epoch << 32)
        for member in self.members.values():
            member.configure(now_ms)

    def _establish(self, zxid: int) -> None:
        """A first membership that can change has the first leader's first zxid for its version (Leader.lead)."""
        if self.config.server.reconfig_enabled and not self.membership.version:
            self.membership = self.membership._replace(version=zxid)

    def line_of(self, server_id: int) -> ServerLine:
        """Where a server is, or was when it last belonged to the ensemble."""
        now = (line for line in self.membership.lines if line.server_id == server_id)
        return next(now, self._lines[server_id])

    def place_of(self, member: Member) -> Place:
        """What a server tells of its place."""
        leader, membership = self.leading, self.membership
        follows = leader is not None and member.role in (Role.LEADING, Role.FOLLOWING)
        learners = (one for one in self.members.values() if leader is member and one.role is Role.FOLLOWING)
        return Place(
            line=self.line_of(member.server_id),
            observes=member.server_id in membership.observers,
            votes=member.server_id in membership.voters,
            membership=membership,
            leader=self.line_of(leader.server_id) if leader is not None and follows else None,
            since_ms=member.since_ms,
            tally=member.tally,
            local=member.sessions.local_sessions(),
            has_local=self.config.local_sessions,
            learners=[
                Learner(
                    line=self.line_of(one.server_id),
                    observes=one.server_id in membership.observers,
                    votes=one.server_id in membership.voters,
                    since_ms=one.since_ms,
                    learned=one.tally.learned,
                    forwarded=one.tally.forwarded,
                    zxid=one.zxid,
                )
                for one in learners
            ],
        )

    # Members that come and go

    def can_adopt(self, membership: Membership) -> bool:
        """Whether a majority of the new voters has all that is committed (Leader.isQuorumSynced)."""
        synced = [member for member in self.members.values() if member.role in (Role.LEADING, Role.FOLLOWING)]
        return self._has_quorum(synced, membership)

    def adopt(self, membership: Membership, now_ms: int) -> None:
        """A reconfiguration is committed: who has another part in it than before begins anew.

        Who is no member any more goes on as a follower without a vote; a leader without one gives up.
        """
        before, self.membership = self.membership, membership
        for server_id, member in self.members.items():
            turns = (server_id in before.observers) != (server_id in membership.observers)
            if turns and member.role is Role.FOLLOWING:
                member.join(now_ms)
        if self.leading is not None and self.leading.server_id not in membership.voters:
            self._depose(now_ms)
        self._review(now_ms)

    def _member(self, server_id: int) -> Member:
        if server_id not in self.members:
            raise SimzkError(f"there is no server {server_id}", where="server", right=f"1 to {len(self.members)}")
        return self.members[server_id]

    def check(self) -> None:
        """Assert all invariants of the ensemble and of its servers; those that are equally far are equal."""
        end = self.history.end
        if self.leading is not None:
            assert self.leading.role is Role.LEADING
            assert self.leading.position == end
            assert self.leading.zxid >> 32 == self.epoch
            assert all(session_id in self.leading.sessions for session_id in self.owners)
        have_all = [member for member in self.members.values() if member.logged == end]
        assert self._has_quorum(have_all, self.membership), "a majority has all that is committed"
        trees: dict[int, object] = {}
        for member in self.members.values():
            member.check()
            assert member.position <= member.logged <= end
            assert (member.role is Role.LEADING) == (member is self.leading)
            tree = [
                (path, node.stat(), node.data, node.acl)
                for path, node in member.tree.walk()
                if path != "/zookeeper/config"  # each server's own (§2.4)
            ]
            assert trees.setdefault(member.position, tree) == tree, "equal histories make equal trees"
