"""The servers and clusters of the pytest fixtures: options, chance and real servers as the command line says.

Rules of this module:
  - options come from a mark or a factory, and are checked before anything is made;
  - a ZooKeeper is in memory unless an option needs TCP; with `--simzk-real` it is a chroot of real servers;
  - nothing is left after a test: no thread, no port, and no znode of real servers.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kazoo.client import KazooClient

    from simzk.api import KafkaCluster
    from simzk.kafka_server import KafkaServer
    from simzk.serve.verbs import TestServer
    from simzk.testing.remote_zookeeper import RemoteZooKeeper

T = TypeVar("T")

REAL = "--simzk-real"
TCP = "--simzk-tcp"
SEED = "--simzk-seed"

_IN_MEMORY = frozenset({"clock", "version", "sasl_users"})


class SharedZooKeeper(NamedTuple):
    """A server that several tests use, and the clients that live as long as it."""

    server: TestServer | RemoteZooKeeper
    kept: list[KazooClient]


SHARED = pytest.StashKey[list[SharedZooKeeper]]()
"""The servers that several tests use, in pytest's configuration."""


def marked(request: pytest.FixtureRequest, name: str) -> dict[str, object]:
    """Return the options of all marks of one name on a test, its class and its module; the closest mark wins.

    Raises:
        ConfigError: a mark has a positional argument.
    """
    options: dict[str, object] = {}
    for mark in reversed(list(request.node.iter_markers(name))):
        if mark.args:
            what = f"{', '.join(map(repr, mark.args))} has no name"
            raise ConfigError(what, where=f"pytest.mark.{name}", right="arguments such as version=...")
        options.update(mark.kwargs)
    return options


def check_zookeeper_options(options: Mapping[str, object]) -> None:
    """Raise a ConfigError if a ZooKeeper has no such options."""
    if options:  # without any, the TCP server is not imported
        from simzk.serve.zookeeper_server import ZooKeeperServer

        _check(options, ZooKeeperServer)


def check_cluster_options(options: Mapping[str, object]) -> None:
    """Raise a ConfigError if a Kafka cluster has no such options."""
    from simzk.api import KafkaCluster

    _check(options, KafkaCluster)


def _check(options: Mapping[str, object], made: Callable[..., object]) -> None:
    accepted = inspect.signature(made).parameters
    unknown = sorted(options.keys() - accepted.keys())
    if unknown:
        raise ConfigError("there is no such option", where=unknown[0], right=f"one of {', '.join(sorted(accepted))}")


def new_zookeeper(
    config: pytest.Config, options: Mapping[str, object], *, tcp: bool = False
) -> TestServer | RemoteZooKeeper:
    """Return a running ZooKeeper.

    Args:
        config: pytest's configuration, with the options of the command line.
        options: of `simzk.ZooKeeperServer`, by name.
        tcp: whether it listens on TCP even if its options do not need that.

    Raises:
        ConfigError: there is no such option, or it has an invalid value.
    """
    check_zookeeper_options(options)
    hosts = config.getoption(REAL)
    if hosts:
        from simzk.testing.remote_zookeeper import RemoteZooKeeper

        real = RemoteZooKeeper(hosts)
        wanted = str(options.get("version", ""))
        if wanted and not f"{real.version}.".startswith(f"{wanted}."):
            real.close()
            pytest.skip(f"the test is for ZooKeeper {wanted}, and {REAL} is {real.version}")
        return real
    if tcp or config.getoption(TCP) or not options.keys() <= _IN_MEMORY:
        from simzk.serve.zookeeper_server import ZooKeeperServer

        return ZooKeeperServer(**options)  # type: ignore[arg-type]  # the names were checked
    from simzk.serve.memory import ZooKeeper

    return ZooKeeper(**options)  # type: ignore[arg-type]  # the names were checked


def new_cluster(config: pytest.Config, options: Mapping[str, object]) -> KafkaCluster:
    """Return a booted cluster, with the seed of the command line unless the options have one.

    Args:
        config: pytest's configuration, with the options of the command line.
        options: of `simzk.KafkaCluster`, by name.

    Raises:
        ConfigError: there is no such option, or it has an invalid value.
    """
    from simzk.api import KafkaCluster

    return _with_seed(KafkaCluster, config, options)


def new_kafka_server(config: pytest.Config, options: Mapping[str, object]) -> KafkaServer:
    """Return a cluster on TCP ports, as `new_cluster` does; `options` are those of `simzk.KafkaServer`."""
    from simzk.kafka_server import KafkaServer

    return _with_seed(KafkaServer, config, options)


def _with_seed(made: Callable[..., T], config: pytest.Config, options: Mapping[str, object]) -> T:
    _check(options, made)
    return made(**{"seed": config.getoption(SEED) or 0, **options})
