"""Pytest plugin: fixtures that are available once simzk is installed, without configuration.

Rules of this module:
  - pytest loads it in every run where simzk is installed, so importing it imports nothing but pytest;
  - every test gets a new object, and no thread is left after it.

`zookeeper` is a `simzk.ZooKeeper`, `kazoo_client` a started kazoo client of it, `kafka_cluster` a simulated cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kazoo.client import KazooClient

    import simzk

pytest_plugins = ("simzk.testing.failure_report",)
"""The section "simzk" in the report of a failed test."""


@pytest.fixture
def zookeeper() -> Iterator[simzk.ZooKeeper]:
    """An in-memory ZooKeeper; its time stands still except for `zookeeper.advance(seconds)`."""
    import simzk

    with simzk.ZooKeeper() as server:
        yield server


@pytest.fixture
def kazoo_client(zookeeper: simzk.ZooKeeper) -> KazooClient:
    """A started kazoo client of the test's `zookeeper`, which stops it after the test."""
    client = zookeeper.client()
    client.start()
    return client


@pytest.fixture
def kafka_cluster() -> Iterator[simzk.KafkaCluster]:
    """A simulated Kafka cluster of three brokers, in virtual time."""
    import simzk

    with simzk.KafkaCluster(brokers=3) as cluster:
        yield cluster
