"""A pytest plugin: kazoo's own tests against an ensemble of ours, whose servers they stop and start themselves.

    python -m pytest -p tests.conformance.kazoo_suite.ensemble_plugin --pyargs kazoo.tests

Rules of this module:
  - the cluster of kazoo's harness is a `simzk serve` of three zoo.cfg files, a process of its own as kazoo's servers
    are, and helped by nothing; its servers are stopped and started by an AdminServer;
  - nothing is skipped: a quorum is lost, clients go on to other servers, members come and go, each server has a secure
    port and kazoo's user of SASL;
  - as with kazoo's own, another cluster takes its place where a test's environment asks for local sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.kazoo_suite import plugin
from tests.conformance.real_zookeeper import SUPER_DIGEST, free_ports

if TYPE_CHECKING:
    import pytest

SERVERS = (1, 2, 3)
PATIENCE_S = 60
TLS = Path(__file__).resolve().parents[2] / "serve" / "data" / "tls"
# The users that kazoo's harness has.
JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_super="super_secret"
  user_jaasuser="jaas_password";
};
"""
COMMON = {
    "tickTime": "2000",
    "initLimit": "10",
    "syncLimit": "5",
    "maxClientCnxns": "0",
    "forceSync": "no",
    "4lw.commands.whitelist": "*",
    "reconfigEnabled": "true",
    "readonlymode.enabled": "true",
    "extendedTypesEnabled": "true",
    "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
    "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "ssl.keyStore.location": str(TLS / "server-and-key.pem"),
    "ssl.trustStore.location": str(TLS / "authority.pem"),
    "clientPortAddress": "127.0.0.1",
    "secureClientPortAddress": "127.0.0.1",
    "admin.serverAddress": "127.0.0.1",
}


class Ensemble:
    """Three servers in a process of their own, kept in a folder that goes with them."""

    def __init__(self, *, local_sessions: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kazoo-ensemble-")
        ports = free_ports(5 * len(SERVERS))
        self.ports, self.secure_ports, self.admin_ports = (
            dict(zip(SERVERS, ports[at : at + len(SERVERS)], strict=True)) for at in (0, 3, 6)
        )
        peers = zip(SERVERS, ports[9:12], ports[12:15], strict=True)
        members = {f"server.{server}": f"127.0.0.1:{one}:{other}" for server, one, other in peers}
        common = {**COMMON, **members, "localSessionsEnabled": str(local_sessions).lower()}
        if local_sessions:
            common["localSessionsUpgradingEnabled"] = "true"
        jaas = Path(self._folder.name) / "jaas.conf"
        jaas.write_text(JAAS)
        files = [argument for server in SERVERS for argument in ("--config", str(self._file(server, common)))]
        command = [sys.executable, "-m", "simzk", "serve", *files, "--jaas", str(jaas)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"listening on "), "its AdminServers' ports were taken"

    def _file(self, server: int, common: dict[str, str]) -> Path:
        folder = Path(self._folder.name) / str(server)
        folder.mkdir()
        (folder / "myid").write_text(f"{server}\n")
        own = {
            "dataDir": str(folder),
            "clientPort": str(self.ports[server]),
            "secureClientPort": str(self.secure_ports[server]),
            "admin.serverPort": str(self.admin_ports[server]),
        }
        file = folder / "zoo.cfg"
        file.write_text("".join(f"{key}={value}\n" for key, value in {**common, **own}.items()))
        return file

    def tell(self, server: int, what: str) -> None:
        """Have a server stopped or started."""
        connection = HTTPConnection("127.0.0.1", self.admin_ports[server], timeout=PATIENCE_S)
        connection.request("POST", f"/faults/{what}?server={server}")
        response = connection.getresponse()
        reported = response.read()
        connection.close()
        assert (response.status, json.loads(reported)["error"]) == (200, None), reported

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


class EnsembleMember(plugin.Member):
    """One server of the ensemble, as kazoo's harness knows it."""

    def __init__(self, ensemble: Ensemble, server: int) -> None:
        self._ensemble = ensemble
        self._server = server
        self.running = True

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def secure_address(self) -> str:
        return f"127.0.0.1:{self._ensemble.secure_ports[self._server]}"

    @property
    def client_port(self) -> int:
        return self._ensemble.ports[self._server]

    def run(self) -> None:
        if not self.running:
            self._ensemble.tell(self._server, "start")
            self.running = True

    def stop(self) -> None:
        if self.running:
            self._ensemble.tell(self._server, "stop")
            self.running = False


class EnsembleSuite(plugin.Suite):
    """The cluster is an ensemble, made when the first test asks for it."""

    skipped = ()

    def __init__(self) -> None:
        super().__init__("")
        self._ensemble: Ensemble | None = None
        self._local_sessions = False

    def cluster(self) -> plugin.Cluster:
        local_sessions = os.environ.get("ZOOKEEPER_LOCAL_SESSION_RO") == "true"
        if local_sessions != self._local_sessions:
            self._local_sessions = local_sessions
            self._cluster = None
            self._close()
        return super().cluster()

    def _close(self) -> None:
        if self._ensemble is not None:
            self._ensemble.close()
            self._ensemble = None

    def make_cluster(self) -> plugin.Cluster:
        self._ensemble = Ensemble(local_sessions=self._local_sessions)
        return plugin.Cluster(EnsembleMember(self._ensemble, server) for server in SERVERS)

    def pytest_unconfigure(self) -> None:
        super().pytest_unconfigure()
        self._close()


def pytest_configure(config: pytest.Config) -> None:
    """Put the ensemble in the place of kazoo's own cluster."""
    os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.5")
    os.environ.setdefault(plugin.TLS_FOLDER, str(TLS))
    plugin.take_the_place_of_kazoos_cluster(config, EnsembleSuite())
