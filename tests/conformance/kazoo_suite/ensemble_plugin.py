"""A pytest plugin: kazoo's own tests against an ensemble of ours, whose servers they stop and start themselves.

    python -m pytest -p tests.conformance.kazoo_suite.ensemble_plugin --pyargs kazoo.tests

Rules of this module:
  - the cluster of kazoo's harness is a `ZooKeeperServer(servers=3, read_only=True)` of this process, on wall time;
  - nothing is skipped: a quorum is lost, clients go on to other servers, members come and go, each server has a secure
    port and kazoo's user of SASL;
  - as with kazoo's own, another cluster takes its place where a test's environment asks for local sessions;
  - a test that races with the server is given time by a fault.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk import ZooKeeperServer
from simzk.serve.tls import Tls
from tests.conformance.kazoo_suite import plugin
from tests.conformance.real_zookeeper import SUPER_DIGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from simzk.serve.client_faults import ClientFaults

SERVERS = (1, 2, 3)
TLS = Path(__file__).resolve().parents[2] / "serve" / "data" / "tls"
# Tests that race with a server as quick as ours, and how it is slowed for them.
SLOWED: dict[str, Callable[[ClientFaults], object]] = {
    # It cuts the connection, and expects the answer not to have come before.
    "test_connection_dropped": lambda faults: faults.hold("set"),
    # They wait, it may be for ever, for the instant between one owner of the lock and the next.
    "test_lock": lambda faults: faults.delay("delete", seconds=0.2, times=None),
    "test_rw_lock": lambda faults: faults.delay("delete", seconds=0.2, times=None),
}
SASL_USERS = {"super": "super_secret", "jaasuser": "jaas_password"}  # as kazoo's harness has them


class EnsembleMember(plugin.Member):
    """One server of the ensemble, as kazoo's harness knows it."""

    def __init__(self, ensemble: ZooKeeperServer, server: int) -> None:
        self._ensemble = ensemble.ensemble
        self._secure_address = ensemble.secure_hosts.split(",")[server - 1]
        self._server = server
        self.running = True

    @property
    def address(self) -> str:
        return self._ensemble.hosts(self._server)

    @property
    def secure_address(self) -> str:
        return self._secure_address

    @property
    def client_port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def run(self) -> None:
        if not self.running:
            self._ensemble.start(self._server)
            self.running = True

    def stop(self) -> None:
        if self.running:
            self._ensemble.stop(self._server)
            self.running = False


class EnsembleSuite(plugin.Suite):
    """The cluster is an ensemble, made when the first test asks for it."""

    skipped = ()

    def __init__(self) -> None:
        super().__init__("")
        self._server: ZooKeeperServer | None = None
        self._local_sessions = False

    def cluster(self) -> plugin.Cluster:
        local_sessions = os.environ.get("ZOOKEEPER_LOCAL_SESSION_RO") == "true"
        if local_sessions != self._local_sessions:
            self._local_sessions = local_sessions
            self._cluster = None
            self._close()
        return super().cluster()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def make_cluster(self) -> plugin.Cluster:
        self._server = ZooKeeperServer(
            servers=len(SERVERS),
            read_only=True,
            clock="wall",
            local_sessions=self._local_sessions,
            super_digest=SUPER_DIGEST,
            sasl_users=SASL_USERS,
            tls=Tls(TLS / "server.pem", TLS / "server.key", TLS / "authority.pem"),
            secure_port=0,
        )
        return plugin.Cluster(EnsembleMember(self._server, server) for server in SERVERS)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        if item.name not in SLOWED:
            return (yield)
        self.cluster()
        assert self._server is not None
        SLOWED[item.name](self._server.faults)
        try:
            return (yield)
        finally:
            self._server.faults.clear()

    def pytest_unconfigure(self) -> None:
        super().pytest_unconfigure()
        self._close()


def pytest_configure(config: pytest.Config) -> None:
    """Put the ensemble in the place of kazoo's own cluster."""
    os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.5")
    os.environ.setdefault(plugin.TLS_FOLDER, str(TLS))
    plugin.take_the_place_of_kazoos_cluster(config, EnsembleSuite())
