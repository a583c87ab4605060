"""A pytest plugin: kazoo's own tests against an ensemble of ours, whose servers they stop and start themselves.

    python -m pytest -p tests.conformance.kazoo_suite.ensemble_plugin --pyargs kazoo.tests

Rules of this module:
  - the cluster of kazoo's harness is a `ZooKeeperServer(servers=3, read_only=True)` of this process, on wall time;
  - what it turns on beside plugin.py: a quorum that is lost, a client that goes on to another server, members that
    come and go.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from simzk import ZooKeeperServer
from tests.conformance.kazoo_suite import plugin
from tests.conformance.real_zookeeper import SUPER_DIGEST

if TYPE_CHECKING:
    import pytest

SERVERS = (1, 2, 3)
TURNED_ON = ("TestReadOnlyMode", "test_update_host_list", "TestReconfig")


class EnsembleMember(plugin.Member):
    """One server of the ensemble, as kazoo's harness knows it."""

    def __init__(self, ensemble: ZooKeeperServer, server: int) -> None:
        self._ensemble = ensemble.ensemble
        self._server = server
        self.running = True

    @property
    def address(self) -> str:
        return self._ensemble.hosts(self._server)

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

    skipped = tuple(row for row in plugin.SKIPPED if not any(name in row[0] for name in TURNED_ON))

    def __init__(self) -> None:
        super().__init__("")
        self._server: ZooKeeperServer | None = None

    def make_cluster(self) -> plugin.Cluster:
        self._server = ZooKeeperServer(servers=len(SERVERS), read_only=True, clock="wall", super_digest=SUPER_DIGEST)
        return plugin.Cluster(EnsembleMember(self._server, server) for server in SERVERS)

    def pytest_unconfigure(self) -> None:
        super().pytest_unconfigure()
        if self._server is not None:
            self._server.close()


def pytest_configure(config: pytest.Config) -> None:
    """Put the ensemble in the place of kazoo's own cluster."""
    os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.5")
    plugin.take_the_place_of_kazoos_cluster(config, EnsembleSuite())
