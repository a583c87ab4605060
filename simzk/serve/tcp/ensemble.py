"""An ensemble on TCP: a port a server, all on one event loop, under one lock.

Rules of this module:
  - each server is served as a single one is (server.py), by a driver of its own, with an AdminServer of its own; a
    request to one of them may leave output in all, so whoever flushes one flushes all;
  - a stopped server's port is closed, and opened again when it starts;
  - with data directories nothing is sent before all servers that follow have it on disk;
  - one timer serves all of them, on wall time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.serve.clock import WallClock, tick_origin_ms
from simzk.serve.tcp.event_loop import EventLoopServer
from simzk.serve.tcp.server import TcpServer
from simzk.serve.wire_driver import WireDriver
from simzk.zookeeper.ensemble import Ensemble, EnsembleConfig
from simzk.zookeeper.ensemble.membership import ANY_HOST, Endpoint, ServerLine

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from simzk.serve.admin_server.server import AdminServer, MetricsServer
    from simzk.serve.client_activity import ConnectionTraffic
    from simzk.serve.clock import Clock
    from simzk.serve.configuration.ensemble_plan import EnsemblePlan
    from simzk.serve.configuration.settings import Settings
    from simzk.serve.request_recorder import RequestRecorder
    from simzk.serve.storage.ensemble_directory import DynamicConfig, EnsembleDirectory
    from simzk.serve.verbs import EnsembleVerbs
    from simzk.wire.monitoring import Report
    from simzk.zookeeper.driver import Link
    from simzk.zookeeper.ensemble import Member
    from simzk.zookeeper.server import Server

# Measured on a real ensemble on a quiet machine: to elect a leader, and before it serves read-only clients (§7).
ELECTION_MS = 400
READ_ONLY_AFTER_MS = 2000
_ELECTION_ALGORITHM = 3  # FastLeaderElection, the only one there still is


class EnsembleDriver(WireDriver):
    """Driver of all servers of an ensemble: a test's verb finds a session wherever it is connected.

    Args:
        ensemble: the servers.
        clock: their time.
        persist: makes durable what the output of all servers acknowledges; raises OSError.

    Attributes:
        members: the driver of each server that was started, by number.
        on_sent: called after output was sent: a server may have a new deadline.
    """

    def __init__(self, ensemble: Ensemble, clock: Clock, persist: Callable[[], None]) -> None:
        super().__init__(next(iter(ensemble.members.values())), clock, persist=persist)
        self.ensemble = ensemble
        self.servers: tuple[int, ...] = tuple(ensemble.members)
        self.members: dict[int, WireDriver] = {}
        self.on_sent: Callable[[], None] = lambda: None

    def member(self, server: Member) -> WireDriver:
        """Return a new driver of one server, under the common lock."""
        assert server is self.ensemble.members[server.server_id], "a server of another ensemble"
        driver = WireDriver(server, self.clock, send=self.deliver_output, rules=self.rules, group=self)
        self.members[server.server_id] = driver
        return driver

    def record(self, recorder: RequestRecorder) -> None:
        """Record the requests to all servers; each session begins and ends once, in the history of the first."""
        super().record(recorder)
        for driver in self.members.values():
            driver.recorder = recorder

    def is_connected(self, session_id: int) -> bool:
        return any(driver.is_connected(session_id) for driver in self.members.values())

    def deliver_output(self) -> None:
        if not self.is_durable():
            return
        for driver in self.members.values():
            driver.deliver_output()
        self.on_sent()

    def open_links(self) -> list[Link]:
        return [link for driver in self.members.values() for link in driver.open_links()]

    def has_session(self, session_id: int) -> bool:
        with self.lock:
            return any(session_id in member.sessions for member in self.ensemble.members.values())

    def disconnect_session(self, session_id: int) -> None:
        with self.lock:
            for driver in self.members.values():
                driver.disconnect_session(session_id)

    def pause_session(self, session_id: int) -> None:
        with self.lock:
            super().pause_session(session_id)
            for driver in self.members.values():
                driver.pause_session(session_id)

    def resume_session(self, session_id: int) -> None:
        with self.lock:
            self._paused_sessions.discard(session_id)
            for driver in self.members.values():
                driver.resume_session(session_id)

    def move_session(self, session_id: int, server_id: int) -> None:
        """Close the connection of a session; only this server may accept it next, unless it is stopped."""
        with self.lock:
            target = self.members[server_id]
            if target.accepts_links:
                self.moving[session_id] = target
            self.disconnect_session(session_id)

    def close(self) -> None:
        super().close()
        for driver in self.members.values():
            driver.close()


class TcpMember(TcpServer):
    """One server of an ensemble on its port; `member` is its state machine."""

    def __init__(self, settings: Settings, clock: Clock, group: TcpEnsemble, member: Member) -> None:
        self._group = group
        self._member = member
        super().__init__(settings, clock)

    @property
    def ensemble_verbs(self) -> EnsembleVerbs:
        return self._group.verbs()

    def _load(self, settings: Settings) -> Server:
        # The ensemble keeps the directory open: a server that starts again goes on with it.
        directory = self._group.directory
        self.directory = None if directory is None else directory.of(self._member.server_id)
        return self._member

    def _new_driver(self, server: Server) -> WireDriver:
        return self._group.driver.member(self._member)

    def report(self) -> Report:
        """Return what monitoring commands report, with the place in the ensemble; hold the lock."""
        place = self._member.place
        if place.line.client is None:  # the ensemble's configuration names no client port: that of its file
            client = Endpoint(self.settings.address or ANY_HOST, self.port)
            place = place._replace(line=place.line._replace(client=client))
        return super().report()._replace(place=place, initial_configuration=None)

    def _conf(self, sizes_bytes: tuple[int, int]) -> dict[str, str | int]:
        place = self._member.place
        return {
            **super()._conf(sizes_bytes),
            "serverId": self._member.server_id,
            "initLimit": self.settings.init_limit,
            "syncLimit": self.settings.sync_limit,
            "electionAlg": _ELECTION_ALGORITHM,
            "electionPort": place.line.election_port,
            "quorumPort": place.line.peer.port,
            "peerType": int(place.observes),
        }

    def arm(self) -> None:
        self._group.arm()


class TcpEnsemble(EventLoopServer):
    """An ensemble, each server of a plan on its ports.

    Attributes:
        admins: the AdminServers by server, as configured; whoever starts the ensemble starts them too.
        metrics: likewise, the ports for Prometheus.
        names: the addresses by server, as clients write them.
        secure_names: those of the secure ports beside them.
        hosts, secure_hosts, name: these addresses as a client's hosts, and those of all ports.
        port: that of the first server.
        notices: warnings about the servers' files.

    Raises:
        ConfigError: it cannot listen, or its data directories cannot be used.
    """

    driver: EnsembleDriver

    def __init__(self, plan: EnsemblePlan, clock: Clock) -> None:
        super().__init__(clock)
        self.settings: Settings = plan.common
        self._plan = plan
        self._settings = dict(plan.settings)
        of_files = (notice for settings in plan.settings.values() for notice in settings.notices)
        self.notices: list[str] = [*plan.notices, *of_files]
        self.directory: EnsembleDirectory | None = None
        self.ensemble: Ensemble = self._load(self._config())
        self.use_driver(EnsembleDriver(self.ensemble, clock, self._persist))
        if isinstance(clock, WallClock):
            self.driver.on_sent = self.arm_anywhere
        self._tcp: dict[int, TcpMember] = {}
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
            self.close_storage()
            raise
        self.names: dict[int, str] = {server_id: tcp.hosts for server_id, tcp in self._tcp.items()}
        secure = {server_id: tcp.secure_hosts for server_id, tcp in self._tcp.items()}
        self.secure_names: dict[int, str] = {server_id: name for server_id, name in secure.items() if name}
        assert self.names.keys() == self.ensemble.members.keys(), "each server has a port"
        self.ports: dict[int, int] = {server_id: tcp.port for server_id, tcp in self._tcp.items()}
        self.hosts, self.secure_hosts = ",".join(self.names.values()), ",".join(self.secure_names.values())
        self.name = ",".join([*self.names.values(), *self.secure_names.values()])
        self.port = next(iter(self.ports.values()))
        if plan.membership is None:
            self._name_members()
        self._dynamic = self._dynamic_configs()

    def _config(self) -> EnsembleConfig:
        plan = self._plan
        server = plan.common.server._replace(tick_origin_ms=tick_origin_ms(self.clock))
        if plan.common.text is None:
            server = server._replace(reconfig_enabled=True)  # without a file nothing is restricted
        return EnsembleConfig(
            len(plan.settings) - plan.observers,
            server,
            election_ms=ELECTION_MS if isinstance(self.clock, WallClock) else 0,
            read_only=plan.read_only,
            read_only_after_ms=READ_ONLY_AFTER_MS,
            observers=plan.observers,
            local_sessions=plan.common.local_sessions,
            upgrades_sessions=plan.common.upgrades_sessions,
            membership=plan.membership,
            here=() if plan.membership is None else tuple(sorted(plan.settings)),
        )

    def _dynamic_configs(self) -> dict[int, DynamicConfig]:
        """Return the files that reconfigurations are written to; none if reconfiguration is disabled."""
        files = {server_id: settings.belonging for server_id, settings in self._settings.items()}
        if not self.settings.server.reconfig_enabled or None in files.values():
            return {}
        from simzk.serve.storage.ensemble_directory import DynamicConfig

        return {server_id: DynamicConfig(file) for server_id, file in files.items() if file is not None}

    def _name_members(self) -> None:
        # The servers share one process and need no ports between them; report those that a real ensemble has.
        address = self.settings.address or ANY_HOST
        voters = len(self.ports) - self._plan.observers
        assert voters > 0, "the plan has a server with a vote"
        lines = (
            ServerLine(
                server_id=server_id,
                peer=Endpoint(address, 2887 + server_id),
                election_port=3887 + server_id,
                observes=server_id > voters,
                client=Endpoint(address, port),
            )
            for server_id, port in self.ports.items()
        )
        self.ensemble.name_members(lines, self.clock.now_ms())

    def _load(self, config: EnsembleConfig) -> Ensemble:
        now_ms = self.clock.now_ms()
        if any(settings.data_directory is None for settings in self._settings.values()):
            return Ensemble(config, now_ms=now_ms)
        from simzk.serve.storage.ensemble_directory import DataPlace, EnsembleDirectory, make_folder

        if self._plan.folder is not None:
            make_folder(self._plan.folder, config.ids)
        places = {
            server_id: DataPlace(settings.data_directory, settings.log_directory, settings.storage)
            for server_id, settings in self._settings.items()
            if settings.data_directory is not None
        }
        assert places.keys() == self._settings.keys(), "all servers have a directory, or none"
        self.directory = self.storage = EnsembleDirectory(places)
        return self.directory.load(config, now_ms)

    def _persist(self) -> None:
        if self.directory is not None:
            self.directory.sync()
            for server_id, dynamic in self._dynamic.items():
                if server_id in self._tcp:
                    dynamic.write(self.ensemble.shared.membership)

    def _bind(self, server_id: int) -> None:
        """Bind a server's ports. One that chose any free port keeps it when it is started again."""
        settings = self._settings[server_id]
        tcp = self._tcp[server_id] = TcpMember(settings, self.clock, self, self.ensemble.members[server_id])
        assert settings.port in (0, tcp.port), "a server that starts again keeps its port"
        secure_port = None if settings.secure_port is None else tcp.secure_port
        self._settings[server_id] = settings._replace(port=tcp.port, secure_port=secure_port)

    def _bind_admin(self, server_id: int) -> None:
        settings = self._settings[server_id]
        if settings.metrics is not None:
            from simzk.serve.admin_server.server import MetricsServer

            self.metrics[server_id] = MetricsServer(self._tcp[server_id], settings.metrics)
        if settings.admin_port is None:
            return
        from simzk.serve.admin_server.server import AdminServer

        address, port = settings.admin_address, settings.admin_port
        try:
            self.admins[server_id] = AdminServer(self._tcp[server_id], address, port, settings.admin_path)
        except ConfigError as error:
            if settings.belonging is None:
                raise
            # Many files leave the default port, which only one server can bind: a real server goes on without.
            self.notices.append(f"server {server_id} has no AdminServer: {error}")

    async def start(self) -> None:
        """Accept connections on the running loop."""
        await super().start()
        self.driver.flush()  # writes the first membership
        for tcp in self._tcp.values():
            await tcp.start()

    def stop(self) -> None:
        """Refuse new connections, close those that are open, and write the last of the data; on the loop."""
        self.disarm()
        self.driver.on_sent = lambda: None
        self.driver.close()
        for tcp in self._tcp.values():
            tcp.stop()
        self.close_storage()

    @property
    def stopped_servers(self) -> list[int]:
        """Numbers of the servers that are stopped."""
        return [server_id for server_id in self.ensemble.members if server_id not in self._tcp]

    def traffic(self) -> dict[tuple[str, int], ConnectionTraffic]:
        """Return what was received and sent on each connection, by the client's address; on the loop."""
        return {address: one for tcp in self._tcp.values() for address, one in tcp.traffic().items()}

    def catch_up(self) -> None:
        """End all lags: requests that wait for a follower are answered."""
        with self.driver.lock:
            for server_id in self.ensemble.members:
                self.ensemble.lag(server_id, self.clock.now_ms())
            self.driver.flush()

    # Stop and start servers

    def verbs(self) -> EnsembleVerbs:
        """Return the verbs for its servers."""
        from simzk.serve.verbs import EnsembleVerbs

        assert self._loop is not None, "it has been started"
        return EnsembleVerbs(self, self.clock, self._loop)

    def stop_server(self, server_id: int, outage_ms: int | None = None) -> None:
        """Stop one server and close its port; on the loop."""
        assert self.is_on_loop, "sockets are closed on the loop's thread"
        with self.driver.lock:
            self.ensemble.stop(server_id, self.clock.now_ms(), outage_ms=outage_ms)
            self.driver.flush()
            assert server_id in self.ensemble.stopped, "a port is closed with its server"
        self._tcp.pop(server_id).stop()

    def start_server(self, server_id: int) -> asyncio.Task[None]:
        """Open a stopped server's port again, and start it; on the loop.

        Returns:
            A task that is done when connections are accepted.

        Raises:
            ConfigError: another process uses its port.
        """
        assert self.is_on_loop, "sockets are opened on the loop's thread"
        with self.driver.lock:
            self.ensemble.start(server_id, self.clock.now_ms())
            self.driver.flush()
        assert server_id not in self._tcp, "the port of a stopped server is closed"
        try:
            self._bind(server_id)
        except ConfigError:
            self.ensemble.stop(server_id, self.clock.now_ms())
            raise
        tcp = self._tcp[server_id]
        for served in (self.admins.get(server_id), self.metrics.get(server_id)):
            if served is not None:
                served.use_server(tcp)
        assert self._loop is not None
        accepting = self._loop.create_task(tcp.start())
        self._starting.add(accepting)  # the loop alone keeps no reference to a task
        accepting.add_done_callback(self._starting.discard)
        return accepting
