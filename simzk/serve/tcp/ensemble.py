"""An ensemble on TCP: a port a server, all on one event loop, under one lock.

Rules of this module:
  - each server is served as a lone one is (tcp.py), by a host of its own, with an AdminServer of its own; what one of
    them does may leave output in all, so whoever flushes one flushes all;
  - a stopped server's port is closed, and opened again when it starts;
  - with a data directory nothing is sent before all servers that follow have it on disk;
  - one timer stands for all of them, on wall time.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, SimzkError
from simzk.serve.clock import WallClock
from simzk.serve.host import Host
from simzk.serve.tcp.deadline_timer import Alarm
from simzk.serve.tcp.server import TcpServer
from simzk.zookeeper.ensemble import Ensemble, EnsembleConfig
from simzk.zookeeper.ensemble.membership import ANY_HOST, Endpoint, ServerLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.admin_server.metrics import MetricsServer
    from simzk.serve.admin_server.server import AdminServer
    from simzk.serve.clock import Clock
    from simzk.serve.configuration.ensemble_plan import EnsemblePlan
    from simzk.serve.configuration.settings import Settings
    from simzk.serve.ensemble_verbs import EnsembleVerbs
    from simzk.serve.storage.directory_reader import Loss
    from simzk.serve.storage.dynamic_config import DynamicConfig
    from simzk.serve.storage.ensemble_directory import EnsembleDirectory
    from simzk.wire.statistics import Report
    from simzk.zookeeper.ensemble import Member
    from simzk.zookeeper.server import Server

# What a real ensemble needs on a quiet machine: to elect a leader, and before it serves read-only clients (§7).
ELECTION_MS = 400
READ_ONLY_AFTER_MS = 2000
_ELECTION_ALGORITHM = 3  # FastLeaderElection, the only one there still is


class MemberTcp(TcpServer):
    """One server of an ensemble on its port.

    Args:
        settings: how it is served.
        clock: what the ensemble is told as time.
        group: whose server it is.
        member: the state machine.
    """

    def __init__(self, settings: Settings, clock: Clock, group: EnsembleTcp, member: Member) -> None:
        self.ensemble = self._group = group
        self._member = member
        super().__init__(settings, clock)
        if group.directory is not None:
            self.directory = group.directory.of(member.server_id)
        self.host = self._watched(group.host.host_of(member))

    def _load(self, settings: Settings) -> Server:
        return self._member

    def report(self) -> Report:
        """Everything that monitoring commands tell, its place in the ensemble among it."""
        place = self._member.place
        if place.line.client is None:  # its own file says where
            client = Endpoint(self.settings.address or ANY_HOST, self.port)
            place = place._replace(line=place.line._replace(client=client))
        return super().report()._replace(place=place, initial_configuration=None)

    def _conf(self) -> dict[str, str | int]:
        place = self._member.place
        return {
            **super()._conf(),
            "serverId": self._member.server_id,
            "initLimit": self.settings.init_limit,
            "syncLimit": self.settings.sync_limit,
            "electionAlg": _ELECTION_ALGORITHM,
            "electionPort": place.line.election_port,
            "quorumPort": place.line.peer.port,
            "peerType": int(place.observes),
        }

    def _close_directory(self) -> None:
        pass  # it is kept as long as the ensemble is: a server that starts again goes on with it

    def arm(self) -> None:
        self._group.arm()


class EnsembleHost(Host):
    """All servers of an ensemble as one host: what a test does to a session finds it wherever it is attached.

    Args:
        ensemble: the servers.
        clock: what they are told as time.
        persist: puts on disk what is to be acknowledged; whether it could.
    """

    def __init__(self, ensemble: Ensemble, clock: Clock, persist: Callable[[], bool]) -> None:
        super().__init__(next(iter(ensemble.members.values())), clock, pump=self._send_all)
        self.ensemble = ensemble
        self._persist = persist
        self.servers = tuple(ensemble.members)
        self.hosts: dict[int, Host] = {}
        self.on_sent: Callable[[], None] = lambda: None

    def host_of(self, member: Member) -> Host:
        """A new host for a server, under the common lock."""
        host = self.hosts[member.server_id] = Host(member, self.clock, pump=self._send_all, rules=self.rules)
        host.lock, host.whole, host.moving = self.lock, self, self.moving
        for session_id in self._paused_sessions:
            host.pause(session_id)
        return host

    def _send_all(self) -> None:
        if not self._persist():
            return
        for server_id, host in self.hosts.items():
            for connection, outgoing in self.ensemble.members[server_id].take_output():
                host.deliver(connection, outgoing)
        self.on_sent()

    def knows(self, session_id: int) -> bool:
        with self.lock:
            return any(session_id in member.sessions for member in self.ensemble.members.values())

    def disconnect(self, session_id: int) -> None:
        with self.lock:
            for host in self.hosts.values():
                host.disconnect(session_id)

    def pause(self, session_id: int) -> None:
        with self.lock:
            self._paused_sessions.add(session_id)
            for host in self.hosts.values():
                host.pause(session_id)

    def resume(self, session_id: int) -> None:
        with self.lock:
            self._paused_sessions.discard(session_id)
            for host in self.hosts.values():
                host.resume(session_id)

    def move(self, session_id: int, server_id: int) -> None:
        with self.lock:
            target = self.hosts[server_id]
            if target.is_open:  # a server that is stopped takes up nobody
                self.moving[session_id] = target
            self.disconnect(session_id)

    def close(self) -> None:
        super().close()
        for host in self.hosts.values():
            host.close()


class EnsembleTcp:
    """Several servers with one history, each on a port.

    Args:
        plan: which servers.
        clock: what they are told as time.

    Attributes:
        admins: an AdminServer a server, where the settings ask for them; who starts this starts them too.
        metrics: likewise, ports for Prometheus.
        notices: what is to be said about the servers' files.

    Raises:
        ConfigError: it cannot listen, or its data directories cannot be used.
    """

    def __init__(self, plan: EnsemblePlan, clock: Clock) -> None:
        self.settings = plan.common
        self._plan = plan
        self._settings = dict(plan.settings)
        of_files = (notice for settings in plan.settings.values() for notice in settings.notices)
        self.notices = [*plan.notices, *of_files]
        self.directory: EnsembleDirectory | None = None
        self.failure: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self.ensemble = self._load(self._config())
        self.host = EnsembleHost(self.ensemble, clock, self._persist)
        self._alarm = Alarm(self.host)
        self.host.on_sent = self._arm_anywhere
        self._tcp: dict[int, MemberTcp] = {}
        self.admins: dict[int, AdminServer] = {}
        self.metrics: dict[int, MetricsServer] = {}
        self._starting: set[asyncio.Task[None]] = set()
        try:
            for server_id in self.ensemble.members:
                self._bind(server_id)
                self._bind_admin(server_id)
        except BaseException:
            for admin in (*self.admins.values(), *self.metrics.values()):
                admin.stop()
            for tcp in self._tcp.values():
                tcp.stop()
            self._close_directory()
            raise
        self.names = {server_id: tcp.hosts for server_id, tcp in self._tcp.items()}
        self.secure_names = {server_id: tcp.secure_hosts for server_id, tcp in self._tcp.items() if tcp.secure_hosts}
        self.ports = {server_id: tcp.port for server_id, tcp in self._tcp.items()}
        if plan.membership is None:
            self._name_members()
        self._dynamic = self._dynamic_configs()

    def _config(self) -> EnsembleConfig:
        plan = self._plan
        server = plan.common.server
        if plan.common.text is None:
            server = server._replace(reconfig_enabled=True)  # nothing is held back where no file does
        return EnsembleConfig(
            len(plan.settings) - plan.observers,
            server,
            election_ms=ELECTION_MS if isinstance(self._clock, WallClock) else 0,
            read_only=plan.read_only,
            read_only_after_ms=READ_ONLY_AFTER_MS,
            observers=plan.observers,
            local_sessions=plan.common.local_sessions,
            upgrades_sessions=plan.common.upgrades_sessions,
            membership=plan.membership,
            here=() if plan.membership is None else tuple(sorted(plan.settings)),
        )

    def _dynamic_configs(self) -> dict[int, DynamicConfig]:
        """The files in which reconfigurations are kept: none where nothing can be reconfigured."""
        files = {server_id: settings.belonging for server_id, settings in self._settings.items()}
        if not self.settings.server.reconfig_enabled or None in files.values():
            return {}
        from simzk.serve.storage.dynamic_config import DynamicConfig

        return {server_id: DynamicConfig(file) for server_id, file in files.items() if file is not None}

    def _name_members(self) -> None:
        # Nobody listens on ports for servers: they need none. Such as a real ensemble has stand in their places.
        address = self.settings.address or ANY_HOST
        voters = len(self.ports) - self._plan.observers
        self.ensemble.name_members(
            (
                ServerLine(
                    server_id=server_id,
                    peer=Endpoint(address, 2887 + server_id),
                    election_port=3887 + server_id,
                    observes=server_id > voters,
                    client=Endpoint(address, port),
                )
                for server_id, port in self.ports.items()
            ),
            self._clock.now_ms(),
        )

    def _load(self, config: EnsembleConfig) -> Ensemble:
        now_ms = self._clock.now_ms()
        places = {server_id: settings.data_directory for server_id, settings in self._settings.items()}
        if None in places.values():
            return Ensemble(config, now_ms=now_ms)
        from simzk.serve.storage.ensemble_directory import DataPlace, EnsembleDirectory, make_folder

        if self._plan.folder is not None:
            make_folder(self._plan.folder, config.ids)
        self.directory = EnsembleDirectory(
            {
                server_id: DataPlace(path, self._settings[server_id].log_directory, self._settings[server_id].storage)
                for server_id, path in places.items()
                if path is not None
            }
        )
        return self.directory.load(config, now_ms)

    def _persist(self) -> bool:
        """What is acknowledged is on disk before it is sent. Where a disk refuses, nothing is sent any more."""
        try:
            if self.directory is not None and self.failure is None:
                self.directory.sync()
                for server_id, dynamic in self._dynamic.items():
                    if server_id in self._tcp:
                        dynamic.keep(self.ensemble.membership)
        except OSError as error:
            self.failure = SimzkError(f"the data directory takes nothing more: {error}")
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._fail)
        return self.failure is None

    def _fail(self) -> None:
        self.host.close()
        self.on_failure()

    @property
    def losses(self) -> list[Loss]:
        """What the servers' data directories once held and do not."""
        return [] if self.directory is None else self.directory.losses

    def _bind(self, server_id: int) -> None:
        """Listen on a server's ports; on any free ones if it may choose, and on those ever after."""
        settings = self._settings[server_id]
        tcp = self._tcp[server_id] = MemberTcp(settings, self._clock, self, self.ensemble.members[server_id])
        secure_port = None if settings.secure_port is None else tcp.secure_port
        self._settings[server_id] = settings._replace(port=tcp.port, secure_port=secure_port)

    def _bind_admin(self, server_id: int) -> None:
        settings = self._settings[server_id]
        if settings.metrics is not None:
            from simzk.serve.admin_server.metrics import MetricsServer

            self.metrics[server_id] = MetricsServer(self._tcp[server_id], settings.metrics)
        if settings.admin_port is None:
            return
        from simzk.serve.admin_server.server import AdminServer

        tcp = self._tcp[server_id]
        try:
            admin = AdminServer(tcp, settings.admin_address, settings.admin_port, settings.admin_path)
        except ConfigError as error:
            if settings.belonging is None:
                raise
            # Files that leave it at the default port are many: a real server goes on without, too.
            self.notices.append(f"server {server_id} has no AdminServer: {error}")
            return
        self.admins[server_id] = admin

    @property
    def hosts(self) -> str:
        """Where all servers listen, as a client's hosts."""
        return ",".join(self.names.values())

    @property
    def secure_hosts(self) -> str:
        """The secure ports beside those, as a client's hosts; empty where there are none."""
        return ",".join(self.secure_names.values())

    @property
    def name(self) -> str:
        """All ports that clients can use."""
        return ",".join([*self.names.values(), *self.secure_names.values()])

    @property
    def port(self) -> int:
        """The first server's port."""
        return next(iter(self.ports.values()))

    async def start(self) -> None:
        """Begin to accept connections on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._alarm.start(self._loop)
        self._thread_id = threading.get_ident()
        self.host.flush()  # the first membership is kept from the start on
        for tcp in self._tcp.values():
            await tcp.start()

    def stop(self) -> None:
        """Refuse new connections and cut those that are open; on the loop."""
        self._alarm.cancel()
        self.host.on_sent = lambda: None
        self.host.close()
        for tcp in self._tcp.values():
            tcp.stop()
        self._close_directory()

    def _close_directory(self) -> None:
        if self.directory is not None:
            if self.failure is None:
                self.directory.close()
            else:
                self.directory.abandon()

    def resume(self, session_id: int) -> None:
        """End a session's pause; from any thread."""
        for tcp in list(self._tcp.values()):
            tcp.resume(session_id)
        self.host.resume(session_id)

    def catch_up(self) -> None:
        """Let nobody lag any more: what clients wait for is answered."""
        with self.host.lock:
            for server_id in self.ensemble.members:
                self.ensemble.lag(server_id, self._clock.now_ms())
            self.host.flush()

    @property
    def is_on_loop(self) -> bool:
        """Whether this is the thread of its loop."""
        return threading.get_ident() == self._thread_id

    # Servers that come and go

    def verbs(self) -> EnsembleVerbs:
        """What can be done to them."""
        from simzk.serve.ensemble_verbs import EnsembleVerbs

        assert self._loop is not None, "it has been started"
        return EnsembleVerbs(self, self._clock, self._loop)

    def stop_server(self, server_id: int, outage_ms: int | None = None) -> None:
        """Stop one server and close its port; on the loop."""
        with self.host.lock:
            self.ensemble.stop(server_id, self._clock.now_ms(), outage_ms=outage_ms)
            self.host.flush()
        self._tcp.pop(server_id).stop()

    def start_server(self, server_id: int) -> asyncio.Task[None]:
        """Open a stopped server's port again, and start it; on the loop.

        Returns:
            Done when connections are accepted; until then they wait.

        Raises:
            ConfigError: somebody else has taken its port.
        """
        with self.host.lock:
            self.ensemble.start(server_id, self._clock.now_ms())
            self.host.flush()
        try:
            self._bind(server_id)
        except ConfigError:
            self.ensemble.stop(server_id, self._clock.now_ms())
            raise
        tcp = self._tcp[server_id]
        if server_id in self.admins:
            self.admins[server_id].follow(tcp)
        if server_id in self.metrics:
            self.metrics[server_id].follow(tcp)
        assert self._loop is not None
        accepting = self._loop.create_task(tcp.start())
        self._starting.add(accepting)  # for the loop alone would not keep it
        accepting.add_done_callback(self._starting.discard)
        return accepting

    # Time

    def _arm_anywhere(self) -> None:
        if self._loop is None or not isinstance(self._clock, WallClock):
            return
        if self.is_on_loop:
            self.arm()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.arm)

    def arm(self) -> None:
        """See to it that the ensemble is woken when it next has something to do by itself; on the loop."""
        self._alarm.arm()
