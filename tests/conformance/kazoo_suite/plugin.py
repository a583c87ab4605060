"""A pytest plugin: kazoo's own tests (kazoo.tests in its wheel, unmodified) against a server that is already running.

    simzk serve --port 2181 &
    ZOOKEEPER_HOSTS=127.0.0.1:2181 python -m pytest -p tests.conformance.kazoo_suite.plugin --pyargs kazoo.tests

Rules of this module:
  - kazoo's harness would start real servers by Java; in their place stand proxies of one server: a test that stops a
    server cuts the proxy's connections and closes its port, one that starts it again opens the same port;
  - tests of what no single server behind a proxy has (TLS by the harness's own authority, a JAAS file, a quorum to
    lose, a second member) are skipped with that reason; a real ZooKeeper skips the same;
  - a test counts as live once it asked for the cluster: the last line says how many of those passed, failed, skipped;
    the lines before it say how many passed in all, and name those that did not.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import threading
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# Where the server is, beside ZOOKEEPER_HOSTS: its TLS port, and a folder with client.key, client.pem, authority.pem;
# and whether it has kazoo's user of SASL.
SECURE_HOSTS, TLS_FOLDER, HAS_SASL = "ZOOKEEPER_SECURE_HOSTS", "ZOOKEEPER_TLS_FOLDER", "ZOOKEEPER_HAS_SASL"
OFFERED = {r"TestSSLClient": SECURE_HOSTS, r"test_sasl\.py": HAS_SASL}
SKIPPED = (
    (r"TestSSLClient", f"needs a TLS port: {SECURE_HOSTS}, {TLS_FOLDER}"),
    (r"test_sasl\.py", f"needs a server started with a JAAS file: {HAS_SASL}"),
    (r"TestReconfig.*(add_remove_observer|bad_input|no_super_auth)", "needs a member of an ensemble"),
    (r"TestReadOnlyMode", "needs an ensemble that loses its quorum"),
    (r"test_update_host_list", "needs two members, one of them stopped"),
)
CHUNK_BYTES = 65536


class Proxy:
    """A port that passes bytes to a server as long as it is open."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self.port = 0

    def run(self) -> None:
        """Open the port; the same one as before."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
            self.port = self._listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        """Close the port and cut what is open."""
        with self._lock:
            listener, self._listener = self._listener, None
            cut, self._open = self._open, set()
        for one in ([] if listener is None else [listener]) + list(cut):
            _shut(one)
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                upstream = socket.create_connection(self._target, 5)
            except OSError:
                client.close()
                continue
            upstream.settimeout(None)
            for one in (client, upstream):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._listener is not listener:
                    client.close()
                    upstream.close()
                    return
                self._open |= {client, upstream}
            for source, sink in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            _shut(one)
        with self._lock:
            self._open -= {source, sink}


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


class Member:
    """One server of the cluster, in the form of kazoo's harness (kazoo.testing.common.ManagedZooKeeper)."""

    peer_type = "participant"

    def __init__(self, host: str, port: int) -> None:
        self._proxy = Proxy((host, port))
        self._proxy.run()
        self.running = True

    @property
    def secure_address(self) -> str:
        return os.environ.get(SECURE_HOSTS, "127.0.0.1:1")

    @property
    def client_port(self) -> int:
        return self._proxy.port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._proxy.port}"

    def run(self) -> None:
        self._proxy.run()
        self.running = True

    def stop(self) -> None:
        self._proxy.stop()
        self.running = False

    def reset(self) -> None: ...

    def destroy(self) -> None: ...

    def get_logs(self, count: int = 100) -> list[str]:
        return []


class Cluster(list[Member]):
    """The cluster in the form of kazoo's harness (kazoo.testing.common.ZookeeperCluster)."""

    def start(self) -> None:
        for member in self:
            member.run()

    def stop(self) -> None: ...

    def terminate(self) -> None: ...

    def reset(self) -> None: ...

    def get_logs(self) -> list[str]:
        return []

    def get_ssl_client_configuration(self) -> dict[str, bytes]:
        files = {"client_key": "client.key", "client_cert": "client.pem", "ca_cert": "authority.pem"}
        return {name: (Path(os.environ[TLS_FOLDER]) / file).read_bytes() for name, file in files.items()}


class Suite:
    """The plugin's state: the cluster, which tests asked for it, and how they ended."""

    skipped: tuple[tuple[str, str], ...] = SKIPPED

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._cluster: Cluster | None = None
        self._live: set[str] = set()
        self._outcomes: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def cluster(self) -> Cluster:
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        if test and "(teardown)" not in test:
            self._live.add(test.rpartition(" ")[0])
        if self._cluster is None:
            self._cluster = self.make_cluster()
        return self._cluster

    def make_cluster(self) -> Cluster:
        """The cluster that the harness uses."""
        places = [host.rpartition(":") for host in self._hosts.split(",")]
        return Cluster(Member(host, int(port)) for host, _, port in places)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for pattern, reason in self.skipped:
                if re.search(pattern, item.nodeid) and OFFERED.get(pattern, "") not in os.environ:
                    item.add_marker(pytest.mark.skip(reason=reason))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path, _, name = report.location
        self._names[report.nodeid] = f"{Path(path).stem}.{name}"
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
        elif report.skipped:
            self._outcomes.setdefault(report.nodeid, "skipped")
        elif report.when == "call":
            self._outcomes.setdefault(report.nodeid, "passed")

    @property
    def summary(self) -> str:
        """How the tests that asked for a server ended."""
        live = [outcome for test, outcome in self._outcomes.items() if test in self._live or outcome == "skipped"]
        return ", ".join(f"{live.count(outcome)} {outcome}" for outcome in ("passed", "failed", "skipped"))

    def pytest_unconfigure(self) -> None:
        print(f"\npassed: {list(self._outcomes.values()).count('passed')}")
        for test, outcome in self._outcomes.items():
            if outcome != "passed":
                alone = "" if test in self._live or outcome == "skipped" else ", without a server"
                print(f"not passed: {self._names[test]} {outcome}{alone}")
        print(f"of the tests that talk to a server: {self.summary}")


def pytest_configure(config: pytest.Config) -> None:
    """Put proxies in the place of kazoo's own cluster."""
    hosts = os.environ.get("ZOOKEEPER_HOSTS")
    if hosts is None:
        raise pytest.UsageError("ZOOKEEPER_HOSTS=HOST:PORT says which server is tested")
    os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.5")
    take_the_place_of_kazoos_cluster(config, Suite(hosts))


def take_the_place_of_kazoos_cluster(config: pytest.Config, suite: Suite) -> None:
    """From now on kazoo's harness has the suite's cluster."""
    for name in ("OpenSSL", "jks"):  # imported by kazoo.testing for servers of its own only
        if find_spec(name) is None:
            sys.modules[name] = types.ModuleType(name)
    import kazoo.testing.harness as harness

    replaced: Any = harness
    replaced.get_global_cluster = suite.cluster
    config.pluginmanager.register(suite, "kazoo-suite")
