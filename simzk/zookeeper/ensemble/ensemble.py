"""Ensemble of servers: one committed history, the position of each server, partitions between servers (§7).

Rules of this module:
  - a transaction is committed once the leader has made it, because the leader always has a connected majority, and all
    of it then has the transaction on disk. So an elected server, which has the longest history of a majority, has every
    committed transaction: no acknowledged write is ever lost;
  - zxids are the leader's epoch and a counter that restarts with it: `epoch << 32 | counter`;
  - a leader without a majority steps down; until another is elected only read-only servers serve, if configured;
  - expiry is decided by the leader's clock alone;
  - time and chance are arguments; Zab's messages are not simulated.

Source: QuorumPeer, Leader, Learner, FastLeaderElection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.zookeeper.ensemble.member import History, Learner, Member, Place, Role
from simzk.zookeeper.ensemble.membership import EnsembleConfig, Membership, in_java_order, parse_line
from simzk.zookeeper.transactions import CloseSessionTxn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.ensemble.membership import ServerLine
    from simzk.zookeeper.persistence import Restoration
    from simzk.zookeeper.transactions import Transaction


FORGET_AT = 1024
"""Number of kept transactions at which those applied by all members are dropped."""


def _default_membership(config: EnsembleConfig) -> Membership:
    """Return a membership for a configuration without addresses."""
    kinds = {server_id: "participant" if server_id <= config.servers else "observer" for server_id in config.ids}
    return Membership(
        in_java_order(
            parse_line(server_id, f"server-{server_id}:2888:3888:{kinds[server_id]};2181") for server_id in kinds
        )
    )


class Ensemble:
    """Servers with one committed history.

    A driver uses each of `members` as a server; a call on one of them may leave output in all. Times must not decrease.

    Args:
        config: configuration.
        now_ms: time at which all servers start. The one with the greatest id is the first leader.
        past: restored state of each server, all with the same history; None for new servers.
        epoch: epoch of the last leader.

    Attributes:
        members: servers by id, from 1.
        history: committed transactions.
        epoch: epoch of the present or last leader.
        membership: voters and observers; those without a server here never run.
        leading: leader, or None.
        owners: id of the server that each session was last attached to.

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
        self.membership: Membership = self.config.membership or _default_membership(self.config)
        self._lines = {line.server_id: line for line in self.membership.lines}
        self.leading: Member | None = None
        self.owners: dict[int, int] = {}
        self.members: dict[int, Member] = {
            server_id: Member(self, server_id, now_ms, None if past is None else past[server_id])
            for server_id in self.config.ids
        }
        assert len({member.zxid for member in self.members.values()}) == 1, "all servers start with the same history"
        self._sides = dict.fromkeys(self.members, 0)
        self._sides_made = 0
        self._election_at_ms = now_ms if self._electorate() else None
        self.tick(now_ms)

    # Faults of servers

    def stop(self, server_id: int, now_ms: int, *, outage_ms: int | None = None) -> None:
        """Stop a server and close its connections; its disk stays.

        Args:
            server_id: id of the server.
            now_ms: present time.
            outage_ms: time without a leader if it was the leader; None for the configured one.

        Raises:
            SimzkError: the server does not exist or is stopped already, or the time is negative.
        """
        member = self._member(server_id)
        if outage_ms is not None and outage_ms < 0:
            raise SimzkError(f"an outage of {outage_ms} ms is negative", where="outage", right="0 or more")
        if member.role is Role.DOWN:
            raise SimzkError(f"server {server_id} is stopped already", where="server", right="a server that runs")
        member.change_role(Role.DOWN, now_ms)
        self._update_roles(now_ms, outage_ms)

    def start(self, server_id: int, now_ms: int) -> None:
        """Start a stopped server with the history on its disk.

        Raises:
            SimzkError: the server does not exist or runs already.
        """
        member = self._member(server_id)
        if member.role is not Role.DOWN:
            raise SimzkError(f"server {server_id} runs already", where="server", right="a server that was stopped")
        member.change_role(Role.LOOKING, now_ms)
        self._update_roles(now_ms)

    def cut(self, *server_ids: int, now_ms: int) -> None:
        """Partition these servers from all others; they reach each other, and clients reach all servers.

        Raises:
            SimzkError: a server does not exist.
        """
        self._sides_made += 1
        for member in [self._member(server_id) for server_id in server_ids]:
            self._sides[member.server_id] = self._sides_made
        self._update_roles(now_ms)

    def heal(self, now_ms: int) -> None:
        """End all partitions between servers."""
        self._sides = dict.fromkeys(self.members, 0)
        self._update_roles(now_ms)

    def lag(self, server_id: int, now_ms: int, *, lag_ms: int = 0, transactions: int = 0) -> None:
        """Delay the application of committed transactions on a server while it is a follower.

        With a lag in time, writes through it and syncs wait as long. With a lag in transactions, it applies what a
        write or a sync needs at once, and stays behind otherwise.

        Raises:
            SimzkError: the server does not exist, or a lag is negative.
        """
        member = self._member(server_id)
        if lag_ms < 0 or transactions < 0:
            raise SimzkError("a lag is negative", where="lag", right="0 or more")
        member.lag_ms, member.lag_transactions = lag_ms, transactions
        member.follow(now_ms)

    def elect(self, now_ms: int, server_id: int | None = None) -> None:
        """Elect a leader now: a given server, or the one with the greatest id among those with the whole history.

        A present leader steps down first.

        Raises:
            SimzkError: no majority is connected, or the server is not part of it or lacks transactions.
        """
        if server_id is not None:
            self._member(server_id)
        electorate = self._electorate()
        if not electorate:
            raise SimzkError("no majority of the servers is connected", right="start() or heal() first")
        voters = [member for member in electorate if member.server_id in self.membership.voters]
        most = max(member.logged for member in voters)
        able = {member.server_id: member for member in voters if member.logged == most}
        if server_id is not None and server_id not in able:
            right = f"one of {', '.join(map(str, able))}"
            raise SimzkError(f"server {server_id} cannot be elected", where="server", right=right)
        self._depose(now_ms)
        self._install_leader(able[max(able) if server_id is None else server_id], electorate, now_ms)

    def restart(self, now_ms: int) -> None:
        """Restart all running servers at once."""
        self._depose(now_ms)
        self._update_roles(now_ms)

    # Leadership

    def _update_roles(self, now_ms: int, outage_ms: int | None = None) -> None:
        """Update the role of each server after a change of servers or partitions."""
        leader = self.leading
        if leader is not None and leader not in self._electorate():
            self._depose(now_ms)
            leader = None
        for member in self.members.values():
            if leader is not None and self._reaches(member, leader):
                if member is not leader and member.role is not Role.FOLLOWING:
                    member.join(now_ms)
            elif member.role is Role.FOLLOWING:
                member.change_role(Role.LOOKING, now_ms)
        if leader is not None or not self._electorate():
            self._election_at_ms = None
        elif self._election_at_ms is None:
            self._election_at_ms = now_ms + (self.config.election_ms if outage_ms is None else outage_ms)
        self.tick(now_ms)

    def _reaches(self, member: Member, other: Member) -> bool:
        return member.role is not Role.DOWN and self._sides[member.server_id] == self._sides[other.server_id]

    def _electorate(self) -> list[Member]:
        """Return the running servers of a connected majority; empty without one."""
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
        """Remove the leader; it and its followers look for another one."""
        self.leading = None
        self.owners.clear()
        for member in self.members.values():
            if member.role in (Role.LEADING, Role.FOLLOWING):
                member.change_role(Role.LOOKING, now_ms)

    def _install_leader(self, leader: Member, electorate: list[Member], now_ms: int) -> None:
        assert leader.logged == self.history.end, f"server {leader.server_id} lacks committed transactions"
        self.epoch += 1
        self._election_at_ms = None
        leader.change_role(Role.LOOKING, now_ms)
        leader.catch_up(now_ms)
        leader.lead(self.epoch << 32, now_ms)
        self.leading = leader
        self._set_first_version(self.epoch << 32)
        leader.configure(now_ms)
        for member in electorate:
            if member is not leader:
                member.join(now_ms)

    def commit(self, transaction: Transaction) -> None:
        """Commit a transaction of the leader; its followers log it, and apply it by their lag."""
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
        """Expire a session; return False if it is not live or no server can expire it."""
        for member in self.members.values():
            if session_id in member.sessions.local:
                member.expire_locally(session_id)
                return True
        leader = self.leading
        return leader is not None and leader.expire_as_leader(session_id, now_ms)

    def attended_connection(self, session_id: int) -> Connection | None:
        """Return the connection of a session, on any server, that its driver marked as attended, or None."""
        for member in self.members.values():
            connection = member.connection_of(session_id)
            if connection is not None and connection.attended:
                return connection
        return None

    def tick(self, now_ms: int) -> None:
        """Perform what is due: elections, expiries, sweeps, and transactions that followers have yet to apply."""
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
            elif member.role is Role.LOOKING and self._read_only_at_ms(member) <= now_ms:
                member.change_role(Role.READ_ONLY, now_ms)

    def _read_only_at_ms(self, member: Member) -> float:
        if not self.config.read_only or (self._election_at_ms is not None and member in self._electorate()):
            return float("inf")
        return member.since_ms + self.config.read_only_after_ms

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next due action, or None."""
        deadlines = [self._election_at_ms]
        if self.leading is not None:
            deadlines.append(self.leading.leader_deadline_ms())
        for member in self.members.values():
            deadlines.append(member.due_ms())
            if member.role is Role.LOOKING and (at_ms := self._read_only_at_ms(member)) != float("inf"):
                deadlines.append(int(at_ms))
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # Membership

    def name_members(self, lines: Iterable[ServerLine], now_ms: int) -> None:
        """Set the addresses of the servers, the lines of /zookeeper/config, once they are known.

        A membership that was configured or restored takes over only the client addresses.
        """
        self._lines = {line.server_id: line for line in lines}
        if self.config.membership is None:
            self.membership = Membership(in_java_order(self._lines.values()))
        else:
            kept = self.membership.lines
            moved = (line._replace(client=self._lines.get(line.server_id, line).client) for line in kept)
            self.membership = self.membership._replace(lines=tuple(moved))
        if self.leading is not None:
            self._set_first_version(self.leading.epoch << 32)
        for member in self.members.values():
            member.configure(now_ms)

    def _set_first_version(self, zxid: int) -> None:
        """Set the version of a first membership that can change: the first leader's first zxid (Leader.lead)."""
        if self.config.server.reconfig_enabled and not self.membership.version:
            self.membership = self.membership._replace(version=zxid)

    def line_of(self, server_id: int) -> ServerLine:
        """Return the line of a server in the membership, or its last one."""
        now = (line for line in self.membership.lines if line.server_id == server_id)
        return next(now, self._lines[server_id])

    def place_of(self, member: Member) -> Place:
        """Return the role of a server for monitoring."""
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

    # Reconfiguration

    def can_adopt(self, membership: Membership) -> bool:
        """Return whether a majority of the new voters has the whole history (Leader.isQuorumSynced)."""
        synced = [member for member in self.members.values() if member.role in (Role.LEADING, Role.FOLLOWING)]
        return self._has_quorum(synced, membership)

    def adopt(self, membership: Membership, now_ms: int) -> None:
        """Make a committed reconfiguration effective: servers with another role rejoin.

        A removed server goes on as a follower without a vote; a leader without a vote steps down.
        """
        before, self.membership = self.membership, membership
        for server_id, member in self.members.items():
            changes_role = (server_id in before.observers) != (server_id in membership.observers)
            if changes_role and member.role is Role.FOLLOWING:
                member.join(now_ms)
        if self.leading is not None and self.leading.server_id not in membership.voters:
            self._depose(now_ms)
        self._update_roles(now_ms)

    def _member(self, server_id: int) -> Member:
        if server_id not in self.members:
            raise SimzkError(f"server {server_id} does not exist", where="server", right=f"1 to {len(self.members)}")
        return self.members[server_id]

    def check(self) -> None:
        """Assert all invariants of the ensemble and its servers; servers at one position have equal trees."""
        end = self.history.end
        if self.leading is not None:
            assert self.leading.role is Role.LEADING
            assert self.leading.position == end
            assert self.leading.zxid >> 32 == self.epoch
            assert all(session_id in self.leading.sessions for session_id in self.owners)
        have_all = [member for member in self.members.values() if member.logged == end]
        assert self._has_quorum(have_all, self.membership), "a majority has the whole history"
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
            assert trees.setdefault(member.position, tree) == tree, "servers at one position have equal trees"
