"""A `TcpServer` of any settings on a loop in a thread, for tests that need more than `simzk.ZooKeeperServer` offers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from simzk.serve.admin_server.server import AdminServer, MetricsServer
from simzk.serve.clock import Clock, StillClock
from simzk.serve.configuration.ensemble_plan import numbered
from simzk.serve.tcp.ensemble import TcpEnsemble
from simzk.serve.tcp.server import TcpServer
from simzk.serve.tcp.simulated_cluster import ClusterTcpServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from simzk.serve.admin_server.http import HttpServer
    from simzk.serve.configuration.ensemble_plan import EnsemblePlan
    from simzk.serve.configuration.settings import Settings
    from simzk.serve.tcp.simulated_cluster import Cluster


class _Running:
    """Servers and their HTTP servers on a loop in a thread."""

    def __init__(self, tcp: TcpServer | TcpEnsemble, admins: Iterable[HttpServer]) -> None:
        self._served = tcp
        self._admins = tuple(admins)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        self._served.stop()
        for admin in self._admins:
            admin.stop()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _start(self) -> None:
        await self._served.start()
        for admin in self._admins:
            await admin.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class Served(_Running):
    """A running server, and its AdminServer if configured."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.tcp = TcpServer(settings, clock)
        self.admin = None
        if settings.admin_port is not None:
            self.admin = AdminServer(self.tcp, settings.admin_address, settings.admin_port, settings.admin_path)
        self.metrics = None if settings.metrics is None else MetricsServer(self.tcp, settings.metrics)
        self.port = self.tcp.port
        super().__init__(self.tcp, [door for door in (self.admin, self.metrics) if door is not None])

    @property
    def admin_port(self) -> int:
        assert self.admin is not None
        return port_of(self.admin)

    @property
    def metrics_port(self) -> int:
        assert self.metrics is not None
        return port_of(self.metrics)


class ServedCluster(_Running):
    """A running server of a simulated cluster, and its AdminServer if configured."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self.tcp = ClusterTcpServer(settings, cluster)
        self.port = self.tcp.port
        self.admin = None
        if settings.admin_port is not None:
            address, port, path = settings.admin_address, settings.admin_port, settings.admin_path
            self.admin = AdminServer(self.tcp, address, port, path, brokers=self.tcp.brokers)
        super().__init__(self.tcp, [] if self.admin is None else [self.admin])

    @property
    def admin_port(self) -> int:
        assert self.admin is not None
        return port_of(self.admin)


class ServedEnsemble(_Running):
    """A running ensemble, and its AdminServers if configured."""

    def __init__(self, plan: EnsemblePlan, clock: Clock) -> None:
        self.tcp = TcpEnsemble(plan, clock)
        self.ports = self.tcp.ports
        self.admin_ports = {server: port_of(admin) for server, admin in self.tcp.admins.items()}
        super().__init__(self.tcp, [*self.tcp.admins.values(), *self.tcp.metrics.values()])


def port_of(admin: HttpServer) -> int:
    return int(admin.name.rpartition(":")[2])


@contextmanager
def served(settings: Settings, clock: Clock | None = None) -> Iterator[Served]:
    """Run a server during the block."""
    running = Served(settings, clock or StillClock())
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def running_ensemble(plan: EnsemblePlan, clock: Clock | None = None) -> Iterator[ServedEnsemble]:
    """Run an ensemble during the block."""
    running = ServedEnsemble(plan, clock or StillClock())
    try:
        yield running
    finally:
        running.stop()


def served_ensemble(
    settings: Settings, clock: Clock | None = None, *, servers: int = 3, observers: int = 0
) -> AbstractContextManager[ServedEnsemble]:
    """Run an ensemble of numbered servers during the block."""
    return running_ensemble(numbered(settings, servers, observers=observers), clock)
