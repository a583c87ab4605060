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
  - the history has the servers that are killed and started, and the leaders that are elected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.cluster.zookeeper_access import AT_THE_ROOT, Access
from simzk.kafka.cluster.zookeeper_host import ADDRESS, ServerList, ZooKeeperHost
from simzk.zookeeper.driver import Driver
from simzk.zookeeper.ensemble import Ensemble, EnsembleConfig

if TYPE_CHECKING:
    from simzk.kafka.cluster.cost_model import CostModel
    from simzk.simulation import History, Network, Scheduler
    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.ensemble import Member

ELECTION_MS = 500
"""Time from the loss of a leader to the next one, if it is not given: FastLeaderElection waits 200 ms for better votes,
and the new leader brings a majority to its history before it serves."""
SERVERS_MAX = 15
"""Limit of the number of servers."""


class MemberHost(ZooKeeperHost):
    """Connections of one server; its ensemble's host ticks for all of them."""

    def deliver_output(self) -> None:
        """Send the output of this server."""
        Driver.deliver_output(self)

    def halt(self) -> None:
        """Close all connections and reset those that are opened; what arrived during a pause is lost."""
        self.is_stopped = True
        self.is_frozen = False
        self._unread.clear()
        for link in list(self._links):
            self.drop(link)

    def read_on(self) -> None:
        """Process what arrived during a pause."""
        self.is_frozen = False
        while self._unread and not self.is_frozen:
            self._unread.popleft()()


class EnsembleHost(ZooKeeperHost):
    """Driver of the servers of an ensemble.

    Args:
        scheduler: virtual time.
        network: between the servers and their clients.
        servers: number of voting servers.
        config: configuration of each server.
        history: records servers and leaders.
        start_ms: the servers' clock when virtual time is 0.
        access: how the cluster's clients connect.
        cost_model: how long a server takes for requests; None if they cost nothing.

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
        access: Access = AT_THE_ROOT,
        cost_model: CostModel | None = None,
    ) -> None:
        if not 1 < servers <= SERVERS_MAX:
            what = f"an ensemble has {servers} servers"
            raise ConfigError(what, where="zookeeper_servers", right=f"1, or 2 to {SERVERS_MAX} for an ensemble")
        self.ensemble = Ensemble(
            EnsembleConfig(servers=servers, observers=1, server=config, election_ms=ELECTION_MS), now_ms=start_ms
        )
        self._members: dict[int, MemberHost] = {}
        self._history = history
        self._known_leader = self.leader
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
            self._members[number] = member

    @property
    def leader(self) -> int | None:
        """The number of the leading server; None while there is none."""
        leading: Member | None = self.ensemble.leading
        return None if leading is None else leading.server_id

    @property
    def killed(self) -> list[int]:
        """The numbers of the servers that do not run."""
        return sorted(self.ensemble.stopped)

    @property
    def takes_batches(self) -> bool:
        """Whether the servers accept batches: never."""
        return False

    def client_of(self, session_id: int) -> str | None:
        """Return the name on the network of the client that is connected with a session; None if nobody is."""
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
        self._history.record(f"{ADDRESS} {number}", "killed", "", "", "it led" if number == self.leader else "")
        self._known_leader = None if number == self.leader else self._known_leader
        self.ensemble.stop(number, self.now_ms(), outage_ms=outage_ms)
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
        member.is_stopped = self.is_stopped
        member.is_frozen = self.is_frozen
        self.ensemble.start(number, self.now_ms())
        self.send_output()

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
        assert not self.is_stopped
        self.is_frozen = False
        self.is_stopped = True
        for member in self._members.values():
            member.halt()
        self.send_output()

    def start(self) -> None:
        """Start stopped servers, which elect a leader, or resume paused ones; a killed server stays down."""
        running = [member for number, member in self._members.items() if number not in self.ensemble.stopped]
        if self.is_stopped:
            self.is_stopped = False
            for member in running:
                member.is_stopped = False
            self.server.restart(self.now_ms())
            self.send_output()
        elif self.is_frozen:
            self.is_frozen = False
            self.server.tick(self.now_ms())
            self.send_output()
            for member in running:
                member.read_on()

    def freeze(self) -> None:
        """Pause all servers until `start`: they read nothing, send nothing and expire no session."""
        assert not self.is_stopped
        self.is_frozen = True
        for number, member in self._members.items():
            member.is_frozen = number not in self.ensemble.stopped
