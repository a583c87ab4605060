"""The pytest plugin: fixtures that any test may ask for once simzk is installed, with nothing to configure.

Rules of this module:
  - pytest loads it in every run of whoever has simzk installed: importing it imports nothing but pytest;
  - every fixture is a fresh object for each test, and leaves no thread behind.

`zookeeper` is a `simzk.ZooKeeper`, `kazoo_client` a started kazoo client of it, `kafka_cluster` a simulated cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kazoo.client import KazooClient

    import simzk


@pytest.fixture
def zookeeper() -> Iterator[simzk.ZooKeeper]:
    """A fresh in-memory ZooKeeper whose time stands still but for `zookeeper.advance(seconds)`."""
    import simzk

    with simzk.ZooKeeper() as server:
        yield server


@pytest.fixture
def kazoo_client(zookeeper: simzk.ZooKeeper) -> KazooClient:
    """kazoo's own client, started, on the test's `zookeeper`, which stops it when the test is over."""
    client = zookeeper.client()
    client.start()
    return client


@pytest.fixture
def kafka_cluster() -> Iterator[simzk.KafkaCluster]:
    """A simulated Kafka cluster of three brokers, in virtual time."""
    import simzk

    with simzk.KafkaCluster(brokers=3) as cluster:
        yield cluster
