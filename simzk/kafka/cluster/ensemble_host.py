"""Several ZooKeeper servers under a simulated cluster: an ensemble at the far end of a network, in virtual time.

Rules of this module:
  - each server has a host of its own for its connections; all act on one `Ensemble`, so a call on one of them may leave
    output in all;
  - a client chooses a server as ZooKeeper's Java client does: `ServerList`. All servers have one name on the network,
    so a cut between a client and ZooKeeper cuts it off from every server;
  - a further server, an observer that no broker connects to and that never fails, follows the history. The cluster's
    tree, its observers and kazoo clients in the test use it;
  - a killed server resets its connections and those that are opened. Without a majority of running servers there is no
    leader: no server accepts a session, and none expires;
  - a paused server keeps its connections, reads nothing and sends nothing. After a pause of less than
    `SYNC_LIMIT_TICKS` it goes on, and after a longer one it joins the ensemble anew, which breaks its connections;
  - a server can be cut off from the other servers, and from single clients. All that they send each other is then lost;
  - the history has the servers that are killed, started, paused, resumed, cut off and healed, and the elected leaders.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.cluster.zookeeper_access import AT_THE_ROOT, ZooKeeperAccess
from simzk.kafka.cluster.zookeeper_host import ADDRESS, ServerList, ZooKeeperHost
from simzk.zookeeper.driver import Driver
from simzk.zookeeper.ensemble import Ensemble, EnsembleConfig

if TYPE_CHECKING:
    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.simulation import History, Network, Scheduler, Timer
    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.ensemble import Member

ELECTION_MS = 500
"""Time from the loss of a leader to the next one, if it is not given: FastLeaderElection waits 200 ms for better votes,
and the new leader brings a majority to its history before it serves."""
SYNC_LIMIT_TICKS = 5
"""Ticks after which a silent server no longer counts as connected: syncLimit of zoo_sample.cfg."""
SERVERS_MAX = 15
"""Limit of the number of servers."""


class MemberHost(ZooKeeperHost):
    """Connections of one server; its ensemble's host ticks for all of them."""

    unreachable: set[str]

    def deliver_output(self) -> None:
        """Send the output of this server; a paused one sends it later."""
        if not self.is_frozen:
            Driver.deliver_output(self)


class EnsembleHost(ZooKeeperHost):
    """Driver of the servers of an ensemble.

    Args:
        scheduler, network, start_ms, access, cost_model: as for `ZooKeeperHost`.
        servers: number of voting servers.
        config: configuration of each server.
        history: records servers and leaders.

    Attributes:
        ensemble: the servers; the last one is the observer that the cluster's tree is read from.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        servers: int,
        config: ServerConfig,
        history: History,
        *,
        start_ms: int,
        access: ZooKeeperAccess = AT_THE_ROOT,
        cost_model: CostModel | None = None,
    ) -> None:
        if not 1 < servers <= SERVERS_MAX:
            what = f"an ensemble has {servers} servers"
            raise ConfigError(what, where="zookeeper_servers", right=f"1, or 2 to {SERVERS_MAX} for an ensemble")
        self.ensemble = Ensemble(
            EnsembleConfig(
                servers=servers,
                observers=1,
                server=config,
                election_ms=ELECTION_MS,
                sync_limit_ms=SYNC_LIMIT_TICKS * config.tick_time_ms,
            ),
            now_ms=start_ms,
        )
        self._members: dict[int, MemberHost] = {}
        self._history = history
        self._known_leader = self.leader
        self._pause_ends: dict[int, Timer] = {}
        super().__init__(
            scheduler,
            network,
            self.ensemble.members[servers + 1],
            start_ms=start_ms,
            access=access,
            cost_model=cost_model,
        )
        for number in range(1, servers + 1):
            member = MemberHost(
                scheduler,
                network,
                self.ensemble.members[number],
                start_ms=start_ms,
                access=access,
                cost_model=cost_model,
                rules=self.rules,
            )
            member.send_output = self.send_output
            member.unreachable = set()
            self._members[number] = member

    @property
    def leader(self) -> int | None:
        """The number of the leading server; None while there is none."""
        leading: Member | None = self.ensemble.shared.leading
        return None if leading is None else leading.server_id

    @property
    def killed(self) -> list[int]:
        """The numbers of the servers that do not run."""
        return sorted(self.ensemble.stopped)

    @property
    def states(self) -> dict[int, str]:
        """State of each voting server by number: running, paused or killed."""
        killed, paused = self.killed, self.paused
        return {
            number: "killed" if number in killed else "paused" if number in paused else "running"
            for number in self._members
        }

    @property
    def paused(self) -> list[int]:
        """The numbers of the servers that are paused one by one."""
        return [] if self.is_stopped else sorted(self.ensemble.paused)

    @property
    def cut_off(self) -> list[int]:
        """The numbers of the servers that are cut off from the other servers."""
        return sorted(self.ensemble.cut_off)

    @property
    def takes_batches(self) -> bool:
        """Whether the servers accept batches: never."""
        return False

    def client_of(self, session_id: int) -> str | None:
        found = (member.client_of(session_id) for member in self._members.values())
        return next((client for client in found if client is not None), None)

    def server_list(self, client: str) -> ServerList:
        """Return the servers in the order in which a client tries them: shuffled, as `zookeeper.connect` is."""
        stream, left = self.scheduler.stream(f"zookeeper servers/{client}"), list(self._members.values())
        return ServerList([left.pop(stream.below(len(left))) for _ in range(len(left))])

    def deliver_output(self) -> None:
        """Send the output of all servers, and schedule the next tick."""
        for member in self._members.values():
            member.deliver_output()
        super().deliver_output()
        leader, known = self.leader, self._known_leader
        if leader != known:
            self._known_leader = leader
            if leader is not None:
                self._history.record(ADDRESS, "leader elected", f"server {leader}")

    # Verbs

    def kill_server(self, number: int, outage_ms: int | None = None) -> None:
        """Stop a running server; if it leads, the others elect another one after `outage_ms`, or as usual.

        Raises:
            ConfigError: the server does not exist or does not run.
        """
        self._member(number, runs=True)
        self._record(number, "killed")
        assert not self._members[number].is_stopped or self.is_stopped, "a running server accepts connections"
        self._known_leader = None if number == self.leader else self._known_leader
        if number in self.paused:
            self._forget_pause(number)
            self._members[number].halt()  # what it has not sent is lost
        self.ensemble.stop(number, self.now_ms(), outage_ms=outage_ms)
        assert number in self.killed, f"server {number} goes on"
        self.send_output()
        self._members[number].halt()
        self.send_output()

    def start_server(self, number: int) -> None:
        """Start a server that does not run, with the history on its disk.

        Raises:
            ConfigError: the server does not exist or runs.
        """
        member = self._member(number, runs=False)
        self._history.record(f"{ADDRESS} {number}", "started")
        assert member.is_stopped, "a killed server has no connections"
        member.is_stopped = self.is_stopped
        member.is_frozen = self.is_frozen
        self.ensemble.start(number, self.now_ms())
        assert number not in self.killed, f"server {number} does not start"
        self.send_output()

    def pause_server(self, number: int, duration_us: int | None = None) -> None:
        """Suspend a running server for some time, or until `resume_server`; a kill ends the pause.

        Raises:
            ConfigError: the server does not exist, does not run or is paused already.
        """
        member = self._member(number, runs=True)
        if number in self.paused:
            raise ConfigError(f"server {number} is paused already", where="server", right="a server that is not")
        assert number not in self._pause_ends, "the end of an earlier pause is left"
        self._record(number, "paused")
        member.is_frozen = True
        self.ensemble.pause(number, self.now_ms())
        assert number in self.ensemble.paused, f"server {number} goes on"
        self.send_output()
        if duration_us is not None:
            resume = partial(self.resume_server, number)
            self._pause_ends[number] = self.scheduler.call_later(duration_us, ADDRESS, resume)

    def _forget_pause(self, number: int) -> None:
        """Cancel the end of a pause."""
        end = self._pause_ends.pop(number, None)
        if end is not None:
            end.cancel()

    def resume_server(self, number: int) -> None:
        """Resume a paused server: it processes what arrived in the meantime, or joins the ensemble anew.

        Raises:
            ConfigError: the server is not paused.
        """
        if number not in self.paused:
            right = f"one of {', '.join(map(str, self.paused))}" if self.paused else "no server is paused"
            raise ConfigError(f"server {number} is not paused", where="server", right=right)
        self._forget_pause(number)
        self._history.record(f"{ADDRESS} {number}", "resumed")
        member = self._members[number]
        member.is_frozen = self.is_frozen
        self.ensemble.resume(number, self.now_ms())
        assert number not in self.ensemble.paused, f"server {number} does not go on"
        self.send_output()
        if not member.is_frozen:
            member.read_on()

    def cut_server(self, number: int, client: str | None = None) -> None:
        """Cut a server off from all other servers, or from one client.

        Raises:
            ConfigError: the server does not exist.
        """
        member = self._known(number)
        if client is not None:
            self._history.record(f"{ADDRESS} {number}", "cut off", "", "", f"from {client}")
            member.unreachable.add(client)
            return
        self._record(number, "cut off")
        self.ensemble.cut(number, now_ms=self.now_ms())
        assert number in self.cut_off, f"server {number} reaches the others"
        self.send_output()

    def heal_server(self, number: int, client: str | None = None) -> None:
        """End the cuts between a server and the other servers and all clients, or one client.

        Raises:
            ConfigError: the server does not exist.
        """
        member = self._known(number)
        self._history.record(f"{ADDRESS} {number}", "healed", "", "", "" if client is None else f"to {client}")
        if client is not None:
            member.unreachable.discard(client)
            return
        member.unreachable.clear()
        self.ensemble.heal(self.now_ms(), number)
        assert number not in self.cut_off, f"server {number} does not reach the others"
        self.send_output()

    def heal_all(self) -> None:
        """Start killed servers, resume paused ones, and end all cuts."""
        for number, member in self._members.items():
            if number in self.ensemble.stopped:
                self.start_server(number)
            if number in self.paused:
                self.resume_server(number)
            if number in self.ensemble.cut_off or member.unreachable:
                self.heal_server(number)

    def _record(self, number: int, what: str) -> None:
        """Record what happens to a server, and whether it led."""
        self._history.record(f"{ADDRESS} {number}", what, "", "", "it led" if number == self.leader else "")

    def _known(self, number: int) -> MemberHost:
        if number not in self._members:
            right = f"one of {', '.join(map(str, self._members))}"
            raise ConfigError(f"server {number} does not exist", where="server", right=right)
        return self._members[number]

    def _member(self, number: int, *, runs: bool) -> MemberHost:
        fitting = [known for known in self._members if (known not in self.ensemble.stopped) == runs]
        if number not in fitting:
            right = f"one of {', '.join(map(str, fitting))}" if fitting else f"{'no server runs' * runs}"
            what = f"server {number} does not exist or {'does not run' if runs else 'runs'}"
            raise ConfigError(what, where="server", right=right or "all servers run")
        return self._members[number]

    # Stop and pause of all servers

    def stop(self) -> None:
        """Stop all servers: connections break, and no other is accepted until `start`."""
        assert not self.is_stopped, "the servers are stopped already"
        self.is_frozen = False
        self.is_stopped = True
        for number, member in self._members.items():
            self._forget_pause(number)
            member.halt()
        self.send_output()

    def start(self) -> None:
        """Start stopped servers, which elect a leader, or resume paused ones; a killed server stays down."""
        assert not (self.is_stopped and self.is_frozen), "stopped servers are not paused"
        running = [member for number, member in self._members.items() if number not in self.ensemble.stopped]
        if self.is_stopped:
            self.is_stopped = False
            for member in running:
                member.is_stopped = False
            self.server.restart(self.now_ms())
            self.send_output()
        elif self.is_frozen:
            self.is_frozen = False
            going_on = [member for number, member in self._members.items() if number not in self.paused]
            self.server.tick(self.now_ms())
            for member in going_on:
                member.is_frozen = False
            self.send_output()
            for member in going_on:
                member.read_on()

    def freeze(self) -> None:
        """Pause all servers until `start`: they read nothing, send nothing and expire no session."""
        assert not self.is_stopped, "stopped servers cannot be paused"
        self.is_frozen = True
        for number, member in self._members.items():
            member.is_frozen = number not in self.ensemble.stopped
