"""Factories of pytest fixtures with options, public as `simzk.pytest`.

Rules of this module:
  - a factory checks its options when it is called, at the collection of tests;
  - a server that several tests use is in the state of a new one before each test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from simzk.testing.servers import (
    SHARED,
    SharedZooKeeper,
    check_cluster_options,
    check_zookeeper_options,
    new_cluster,
    new_zookeeper,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kazoo.client import KazooClient

    from simzk.api import KafkaCluster
    from simzk.serve.verbs import TestServer
    from simzk.testing.remote_zookeeper import RemoteZooKeeper

Scope = Literal["session", "package", "module", "class", "function"]
"""How long a fixture lives, as in `pytest.fixture`."""


def zookeeper(
    *, servers: int = 1, version: str | None = None, scope: Scope = "function", tcp: bool = False, **options: object
) -> object:
    """Return a fixture: a ZooKeeper with options.

    With a wider scope than "function", one server serves several tests. After each test its clients are stopped, and
    its sessions, fault rules and znodes are removed, so that every test finds an empty tree.

    Args:
        servers: number of servers; more than 1 are an ensemble on TCP.
        version: ZooKeeper release; the newest if None.
        scope: how long one server lives.
        tcp: listen on a port although no option needs that.
        options: further options of `simzk.ZooKeeperServer`, or of `simzk.ZooKeeper` if it needs no port.

    Raises:
        ConfigError: there is no such option.

    Example, in a test module or conftest.py::

        import simzk.pytest

        old_ensemble = simzk.pytest.zookeeper(servers=3, version="3.5.8", scope="session")

        def test_it(old_ensemble):
            assert len(old_ensemble.ensemble.modes) == 3
    """
    if servers != 1:
        options["servers"] = servers
    if version is not None:
        options["version"] = version
    check_zookeeper_options(options)

    def fixture(request: pytest.FixtureRequest) -> Iterator[TestServer | RemoteZooKeeper]:
        """A ZooKeeper with options, from a factory."""
        with new_zookeeper(request.config, options, tcp=tcp) as server:
            if scope == "function":
                yield server
                return
            of_tests = request.config.stash[SHARED]
            of_tests.append(SharedZooKeeper(server, []))
            try:
                yield server
            finally:
                of_tests[:] = [shared for shared in of_tests if shared.server is not server]

    return pytest.fixture(scope=scope)(fixture)


def kazoo_client(zookeeper: str = "zookeeper", *, scope: Scope = "function", **options: object) -> object:
    """Return a fixture: a started kazoo client.

    Args:
        zookeeper: name of the fixture that it connects to.
        scope: how long it lives, at most as long as its server.
        options: of `KazooClient`, such as `timeout`.

    Example::

        ensemble = simzk.pytest.zookeeper(servers=3, scope="session")
        admin = simzk.pytest.kazoo_client("ensemble", auth_data=[("digest", "admin:secret")])
    """

    def fixture(request: pytest.FixtureRequest) -> Iterator[KazooClient]:
        """A started kazoo client with options, from a factory."""
        server: TestServer = request.getfixturevalue(zookeeper)
        client = server.client(**options)
        client.start()
        kept: list[KazooClient] = []
        if scope != "function":
            kept = next((shared.kept for shared in request.config.stash[SHARED] if shared.server is server), kept)
            kept.append(client)
        yield client
        if client in kept:
            kept.remove(client)
        from simzk.serve.client_stop import stop_clients, warn_of_blocked

        warn_of_blocked(stop_clients([client]))

    return pytest.fixture(scope=scope)(fixture)


def kafka_cluster(
    *,
    version: str | Mapping[int, str] = "3.9",
    brokers: int | Sequence[int] = 3,
    racks: int | Mapping[int, str] | None = None,
    config: Mapping[str, str | int | bool] | None = None,
    scope: Scope = "function",
    **options: object,
) -> object:
    """Return a fixture: a simulated Kafka cluster with options.

    Args:
        version: Kafka release of all brokers, or of each by id.
        brokers: number of brokers, or their ids.
        racks: number of racks, or the rack of each broker by id.
        config: Kafka settings that differ from the defaults.
        scope: how long one cluster lives. With a wider scope than "function" each test continues from the state that
            the test before it left.
        options: further options of `simzk.KafkaCluster`. Without `seed` it is that of `--simzk-seed`.

    Raises:
        ConfigError: there is no such option.

    Example::

        old_cluster = simzk.pytest.kafka_cluster(version="2.8", brokers=5, racks=3, config={"min.insync.replicas": 2})

        def test_it(old_cluster):
            assert old_cluster.live_brokers == [1, 2, 3, 4, 5]
    """
    options.update(version=version, brokers=brokers, racks=racks, config=config)
    check_cluster_options(options)

    def fixture(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
        """A simulated Kafka cluster with options, from a factory."""
        with new_cluster(request.config, options) as cluster:
            yield cluster

    return pytest.fixture(scope=scope)(fixture)
