"""Pytest plugin: fixtures, marks and options that are available once simzk is installed, without configuration.

Rules of this module:
  - pytest loads it in every run where simzk is installed, so importing it imports nothing heavy;
  - every test gets a new object, or a shared one in the state of a new one, and no thread is left after it;
  - in workers of pytest-xdist nothing is shared: each has its own servers, on free ports.

`zookeeper` is a `simzk.ZooKeeper`, `zookeeper_server` one on a TCP port, `kazoo_client` a started kazoo client of
`zookeeper`, `kafka_cluster` a simulated cluster, `kafka_server` one on TCP ports. `simzk.pytest` makes such fixtures
with other options.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import pytest

import simzk.testing.plain_imports  # first: pytest rewrites what is imported before it
import simzk.testing.pytest_version  # before what an old pytest cannot import
from simzk.errors import ConfigError
from simzk.testing.servers import SHARED, marked, new_cluster, new_kafka_server, new_zookeeper

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kazoo.client import KazooClient

    import simzk
    from simzk.testing.asyncio_clients import AiozkClients

pytest_plugins: tuple[str, ...] = ("simzk.testing.failure_report",)
"""The section "simzk" in the report of a failed test."""
_MARKS = (
    "zookeeper(version=..., servers=..., ...): options of zookeeper and zookeeper_server, as of simzk.ZooKeeperServer",
    "kafka(version=..., brokers=..., racks=..., config=..., ...): options of kafka_cluster and kafka_server",
)
_SEED_OF_WORKERS = "simzk_seed"


class XdistNode(Protocol):
    """A worker of pytest-xdist, as its controller sees it."""

    config: pytest.Config
    workerinput: dict[str, object]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    group = parser.getgroup("simzk", "fake ZooKeeper and simulated Kafka cluster")
    group.addoption(
        "--simzk-seed",
        default=None,
        metavar="N",
        help="Seed of simulated clusters that have no seed of their own, or `random` [default: 0].",
    )
    group.addoption(
        "--simzk-tcp",
        action="store_true",
        help="Let the fixture zookeeper, and what uses it, listen on TCP instead of in memory.",
    )
    group.addoption(
        "--simzk-real",
        default="",
        metavar="HOSTS",
        help="Run tests of the ZooKeeper fixtures against real servers, such as `127.0.0.1:2181`, each test in its own "
        "chroot. A test that uses a verb of simzk's own servers is skipped.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, and choose the seed."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    config.stash[SHARED] = []
    seed = getattr(config, "workerinput", {}).get(_SEED_OF_WORKERS, config.option.simzk_seed)
    if seed == "random":
        seed = int.from_bytes(os.urandom(4))
    try:
        config.option.simzk_seed = None if seed is None else int(seed)
    except ValueError:
        raise pytest.UsageError(f"--simzk-seed: {seed!r} is no number; expected a number or `random`") from None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: XdistNode) -> None:
    """Hand the seed to a worker of pytest-xdist, which reads the command line again."""
    node.workerinput[_SEED_OF_WORKERS] = node.config.option.simzk_seed


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the options that differ from the default, which a replay needs."""
    seed, hosts = config.option.simzk_seed, config.option.simzk_real
    return [f"simzk: --simzk-seed {seed}"] * (seed is not None) + [f"simzk: --simzk-real {hosts}"] * bool(hosts)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Bring shared servers into the state of new ones after each test."""
    result = yield
    for server, kept in item.config.stash[SHARED]:
        server.reset(keep=kept)
    return result


@pytest.fixture
def zookeeper(request: pytest.FixtureRequest) -> Iterator[simzk.ZooKeeper]:
    """An in-memory ZooKeeper; its time stands still except for `zookeeper.advance(seconds)`."""
    with new_zookeeper(request.config, marked(request, "zookeeper")) as server:
        yield server  # type: ignore[misc]  # with options one on TCP, which has the same verbs


@pytest.fixture
def zookeeper_server(request: pytest.FixtureRequest) -> Iterator[simzk.ZooKeeperServer]:
    """A ZooKeeper on a TCP port, `zookeeper_server.hosts`, for clients of any kind."""
    with new_zookeeper(request.config, marked(request, "zookeeper"), tcp=True) as server:
        yield server  # type: ignore[misc]  # with --simzk-real a RemoteZooKeeper, which has some of its verbs


@pytest.fixture
def kazoo_client(zookeeper: simzk.ZooKeeper) -> KazooClient:
    """A started kazoo client of the test's `zookeeper`, which stops it after the test."""
    client = zookeeper.client()
    client.start()
    return client


@pytest.fixture
def patched_kazoo(zookeeper: simzk.ZooKeeper) -> Iterator[simzk.ZooKeeper]:
    """The test's `zookeeper`, to which every `KazooClient` that the tested code creates connects."""
    import simzk

    with simzk.patch(zookeeper):
        yield zookeeper


@pytest.fixture
def aiozk_client(zookeeper_server: simzk.ZooKeeperServer) -> AiozkClients:
    """Opens asyncio clients of the test's `zookeeper_server`: `async with aiozk_client() as client`."""
    from simzk.testing.asyncio_clients import AiozkClients

    try:
        return AiozkClients(zookeeper_server.hosts)
    except ConfigError as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[simzk.KafkaCluster]:
    """A simulated Kafka cluster of three brokers, in virtual time."""
    with new_cluster(request.config, marked(request, "kafka")) as cluster:
        yield cluster


@pytest.fixture
def kafka_server(request: pytest.FixtureRequest) -> Iterator[simzk.KafkaServer]:
    """A simulated Kafka cluster of three brokers on TCP ports, for Kafka clients of any kind."""
    with new_kafka_server(request.config, marked(request, "kafka")) as server:
        yield server
