"""Ensemble of servers: faults, elections, expiry and reconfiguration of all of them (§7).

Rules of this module:
  - a leader without a majority steps down; until another is elected only read-only servers serve, if configured;
  - a server that is paused or cut off counts as connected for `sync_limit_ms`; so do all while a leader reaches no
    majority, or is paused;
  - time and chance are arguments; Zab's messages are not simulated;
  - each concept has a module: `replication` (the history and its leader), `member` (one server and its clients'
    requests), `routing`, `sessions`, `reachability`, `roles`, `membership`.

Source: QuorumPeer, Leader, FastLeaderElection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.zookeeper.ensemble.member import Member
from simzk.zookeeper.ensemble.membership import EnsembleConfig, Membership, in_java_order, parse_line
from simzk.zookeeper.ensemble.reachability import Reachability
from simzk.zookeeper.ensemble.replication import Replication
from simzk.zookeeper.ensemble.roles import EnsembleRole, Learner, Role
from simzk.zookeeper.znode import CONFIG_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simzk.zookeeper.ensemble.membership import ServerLine
    from simzk.zookeeper.persistence import Restoration


def _default_membership(config: EnsembleConfig) -> Membership:
    """Return a membership for a configuration without addresses."""
    kinds = {server_id: "participant" if server_id <= config.servers else "observer" for server_id in config.ids}
    lines = (parse_line(number, f"server-{number}:2888:3888:{kind};2181") for number, kind in kinds.items())
    return Membership(in_java_order(lines))


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
        shared: what they have in common.

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
        self._reachability = Reachability(self.config.ids)
        membership = self.config.membership or _default_membership(self.config)
        self.shared: Replication[Member] = Replication(self.config, membership, epoch, self._reachability)
        self._lines = {line.server_id: line for line in membership.lines}
        self.members: dict[int, Member] = self.shared.members
        for server_id in self.config.ids:
            restored = None if past is None else past[server_id]
            self.members[server_id] = Member(self.shared, self, server_id, now_ms, restored)
        assert len({member.zxid for member in self.members.values()}) == 1, "all servers start with the same history"
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
        self._reachability.paused.discard(server_id)
        member.change_role(Role.DOWN, now_ms)
        self._update_roles(now_ms, outage_ms)
        assert self.shared.leading is not member, "a stopped server does not lead"

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
        assert member.role is not Role.DOWN, "a started server looks for a leader at least"

    def pause(self, server_id: int, now_ms: int) -> None:
        """Suspend a server: it reaches no other one, and its driver passes nothing to it and sends nothing of it.

        Raises:
            SimzkError: the server does not exist, is stopped or is paused already.
        """
        member = self._member(server_id)
        if member.role is Role.DOWN or server_id in self._reachability.paused:
            what = f"server {server_id} is {'paused' if server_id in self._reachability.paused else 'stopped'} already"
            raise SimzkError(what, where="server", right="a server that runs")
        self._reachability.paused.add(server_id)
        self._update_roles(now_ms)

    def resume(self, server_id: int, now_ms: int) -> None:
        """Resume a paused server.

        Raises:
            SimzkError: the server does not exist or is not paused.
        """
        self._member(server_id)
        if server_id not in self._reachability.paused:
            raise SimzkError(f"server {server_id} is not paused", where="server", right="a paused server")
        self._reachability.paused.remove(server_id)
        self._update_roles(now_ms)

    def cut(self, *server_ids: int, now_ms: int) -> None:
        """Partition these servers from all others; they reach each other, and clients reach all servers.

        Raises:
            SimzkError: a server does not exist.
        """
        self._reachability.cut([self._member(server_id).server_id for server_id in server_ids])
        self._update_roles(now_ms)

    def heal(self, now_ms: int, *server_ids: int) -> None:
        """End all partitions between servers, or those of some servers.

        Raises:
            SimzkError: a server does not exist.
        """
        self._reachability.heal([self._member(server_id).server_id for server_id in server_ids] or self.members)
        self._update_roles(now_ms)

    @property
    def stopped(self) -> frozenset[int]:
        """Return the numbers of the servers that are stopped."""
        return frozenset(server_id for server_id, member in self.members.items() if member.role is Role.DOWN)

    @property
    def cut_off(self) -> frozenset[int]:
        """Return the numbers of the servers that `cut` partitioned from others."""
        return self._reachability.cut_off

    @property
    def paused(self) -> frozenset[int]:
        """Return the numbers of the servers that are paused."""
        return frozenset(self._reachability.paused)

    @property
    def awaits_servers(self) -> bool:
        """Return whether servers out of reach still count as connected."""
        return bool(self.shared.silent)

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
        voters = [member for member in electorate if member.server_id in self.shared.membership.voters]
        most = max(member.logged for member in voters)
        able = {member.server_id: member for member in voters if member.logged == most}
        if server_id is not None and server_id not in able:
            right = f"one of {', '.join(map(str, able))}"
            raise SimzkError(f"server {server_id} cannot be elected", where="server", right=right)
        self._depose(now_ms)
        self._install_leader(able[max(able) if server_id is None else server_id], electorate, now_ms)
        assert self.shared.leading is not None, "a majority has a leader"
        assert self.shared.leading.position == self.shared.history.end, "no committed transaction is lost"

    def restart(self, now_ms: int) -> None:
        """Restart all running servers at once."""
        self._reachability.paused.clear()
        self._depose(now_ms)
        self._update_roles(now_ms)

    # Leadership

    def _update_roles(self, now_ms: int, outage_ms: int | None = None) -> None:
        """Update the role of each server after a change of servers or partitions."""
        self._note_silence(now_ms)
        leader = self.shared.leading
        if leader is not None and not self._keeps(leader, now_ms):
            self._depose(now_ms)
            leader = None
        for member in self.members.values():
            if leader is not None and self._reaches(member, leader):
                if member is not leader and member.role is not Role.FOLLOWING:
                    member.join(now_ms)
            elif member.role is Role.FOLLOWING and not self._is_awaited(member, now_ms):
                member.change_role(Role.LOOKING, now_ms)
                self.shared.silent.pop(member.server_id, None)
        if leader is not None or not self._electorate():
            self._election_at_ms = None
        elif self._election_at_ms is None:
            self._election_at_ms = now_ms + (self.config.election_ms if outage_ms is None else outage_ms)
        self.tick(now_ms)
        for member in self.members.values():
            if member.role in (Role.LEADING, Role.FOLLOWING) and not self.shared.is_stalled(member):
                member.go_on(now_ms)

    def _note_silence(self, now_ms: int) -> None:
        leader = self.shared.leading
        silent = [
            member.server_id
            for member in self.members.values()
            if leader is not None and member.role is Role.FOLLOWING and not self._reaches(member, leader)
        ]
        self.shared.silent = {server_id: self.shared.silent.get(server_id, now_ms) for server_id in silent}

    def _keeps(self, leader: Member, now_ms: int) -> bool:
        """Return whether a leader runs and has a majority, which includes servers that went silent of late."""
        kept = [
            member
            for member in self.members.values()
            if member is leader or self._reaches(member, leader) or self._is_awaited(member, now_ms)
        ]
        return leader.role is not Role.DOWN and self.shared.has_quorum(kept, self.shared.membership)

    def _is_awaited(self, member: Member, now_ms: int) -> bool:
        since_ms = self.shared.silent.get(member.server_id)
        return since_ms is not None and now_ms - since_ms < self.config.sync_limit_ms

    def _reaches(self, member: Member, other: Member) -> bool:
        return member.role is not Role.DOWN and self._reachability.reaches(member.server_id, other.server_id)

    def _electorate(self) -> list[Member]:
        """Return the running servers of a connected majority; empty without one."""
        running = [member for member in self.members.values() if member.role is not Role.DOWN]
        for first in running:
            side = [member for member in running if self._reaches(member, first)]
            if self.shared.has_quorum(side, self.shared.membership):
                return side
        return []

    def _depose(self, now_ms: int) -> None:
        """Remove the leader; it and its followers look for another one."""
        self.shared.leading = None
        self.shared.silent.clear()
        self.shared.owners.clear()
        for member in self.members.values():
            if member.role in (Role.LEADING, Role.FOLLOWING):
                member.change_role(Role.LOOKING, now_ms)

    def _install_leader(self, leader: Member, electorate: list[Member], now_ms: int) -> None:
        assert leader.logged == self.shared.history.end, f"server {leader.server_id} lacks committed transactions"
        assert leader.server_id in self.shared.membership.voters
        assert leader in electorate
        assert self.shared.leading is None, "the old leader steps down first"
        self.shared.epoch += 1
        self._election_at_ms = None
        leader.change_role(Role.LOOKING, now_ms)
        leader.catch_up(now_ms)
        leader.lead(self.shared.epoch << 32, now_ms)
        self.shared.leading = leader
        self._set_first_version(self.shared.epoch << 32)
        leader.configure(now_ms)
        for member in electorate:
            if member is not leader:
                member.join(now_ms)

    # Sessions and time

    def expire(self, session_id: int, now_ms: int) -> bool:
        """Expire a session; return False if it is not live or no server can expire it."""
        for member in self.members.values():
            if session_id in member.sessions.local:
                member.expire_locally(session_id)
                return True
        leader = self.shared.leading
        return leader is not None and self.shared.can_commit and leader.expire_as_leader(session_id, now_ms)

    def tick(self, now_ms: int) -> None:
        """Perform what is due: elections, expiries, sweeps, and transactions that followers have yet to apply."""
        if self._election_at_ms is not None and self._election_at_ms <= now_ms:
            self.elect(now_ms)
        if self.shared.silent and now_ms - min(self.shared.silent.values()) >= self.config.sync_limit_ms:
            self._update_roles(now_ms)
            return
        if self.shared.leading is not None and self.shared.can_commit:
            self.shared.leading.tick_as_leader(now_ms)
        for member in self.members.values():
            if member.role is Role.FOLLOWING:
                member.follow(now_ms)
                member.tick_locally(now_ms)
            elif member.role is Role.READ_ONLY or (member.role is Role.LEADING and not self.shared.can_commit):
                # No quorum is needed for the end of a local session (LocalSessionTracker).
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
        if self.shared.silent:
            deadlines.append(min(self.shared.silent.values()) + self.config.sync_limit_ms)
        if self.shared.leading is not None and self.shared.can_commit:
            deadlines.append(self.shared.leading.leader_deadline_ms())
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
        assert self._lines.keys() >= self.members.keys(), "each server here has addresses"
        if self.config.membership is None:
            self.shared.membership = Membership(in_java_order(self._lines.values()))
        else:
            kept = self.shared.membership.lines
            moved = (line._replace(client=self._lines.get(line.server_id, line).client) for line in kept)
            self.shared.membership = self.shared.membership._replace(lines=tuple(moved))
        if self.shared.leading is not None:
            self._set_first_version(self.shared.leading.epoch << 32)
        for member in self.members.values():
            member.configure(now_ms)

    def _set_first_version(self, zxid: int) -> None:
        """Set the version of a first membership that can change: the first leader's first zxid (Leader.lead)."""
        if self.config.server.reconfig_enabled and not self.shared.membership.version:
            self.shared.membership = self.shared.membership._replace(version=zxid)

    def line_of(self, server_id: int) -> ServerLine:
        """Return the line of a server in the membership, or its last one."""
        now = (line for line in self.shared.membership.lines if line.server_id == server_id)
        return next(now, self._lines[server_id])

    def place_of(self, member: Member) -> EnsembleRole:
        """Return the role of a server for monitoring."""
        leader, membership = self.shared.leading, self.shared.membership
        follows = leader is not None and member.role in (Role.LEADING, Role.FOLLOWING)
        assert leader is None or leader.server_id in membership.voters, "a leader has a vote"
        learners = (one for one in self.members.values() if leader is member and one.role is Role.FOLLOWING)
        return EnsembleRole(
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

    def adopt(self, membership: Membership, now_ms: int) -> None:
        """Make a committed reconfiguration effective: servers with another role rejoin.

        A removed server goes on as a follower without a vote; a leader without a vote steps down.
        """
        assert self.shared.can_adopt(membership), "a majority of the new voters has the reconfiguration"
        before, self.shared.membership = self.shared.membership, membership
        for server_id, member in self.members.items():
            changes_role = (server_id in before.observers) != (server_id in membership.observers)
            if changes_role and member.role is Role.FOLLOWING:
                member.join(now_ms)
        if self.shared.leading is not None and self.shared.leading.server_id not in membership.voters:
            self._depose(now_ms)
        self._update_roles(now_ms)
        assert self.shared.leading is None or self.shared.leading.server_id in self.shared.membership.voters, (
            "a leader has a vote"
        )

    def _member(self, server_id: int) -> Member:
        if server_id not in self.members:
            raise SimzkError(f"server {server_id} does not exist", where="server", right=f"1 to {len(self.members)}")
        return self.members[server_id]

    def check(self) -> None:
        """Assert all invariants of the ensemble and its servers; servers at one position have equal trees."""
        end = self.shared.history.end
        if self.shared.leading is not None:
            assert self.shared.leading.role is Role.LEADING
            assert self.shared.leading.position == end
            assert self.shared.leading.zxid >> 32 == self.shared.epoch
            assert all(session_id in self.shared.leading.sessions for session_id in self.shared.owners)
        assert all(self.members[server_id].role is Role.FOLLOWING for server_id in self.shared.silent)
        assert self.shared.leading is not None or not self.shared.silent
        have_all = [member for member in self.members.values() if member.logged == end]
        assert self.shared.has_quorum(have_all, self.shared.membership), "a majority has the whole history"
        trees: dict[int, object] = {}
        for member in self.members.values():
            member.check()
            assert member.position <= member.logged <= end
            assert (member.role is Role.LEADING) == (member is self.shared.leading)
            tree = [
                (path, node.stat(), node.data, node.acl)
                for path, node in member.tree.walk()
                if path != CONFIG_PATH  # each server's own (§2.4)
            ]
            assert trees.setdefault(member.position, tree) == tree, "servers at one position have equal trees"
