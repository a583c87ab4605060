"""Base classes for `unittest`: a new ZooKeeper or Kafka cluster for each test method."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any, ClassVar

import simzk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kazoo.client import KazooClient


class ZooKeeperTestCase(unittest.TestCase):
    """Test case with a ZooKeeper in memory and a started kazoo client of it.

    Attributes:
        zookeeper_options: options of `simzk.ZooKeeper`, for a subclass to set.
        zookeeper: the server.
        kazoo_client: a started client of it.

    >>> class LockTest(ZooKeeperTestCase):
    ...     zookeeper_options = {"version": "3.5.8"}
    ...     def test_lock(self):
    ...         self.assertTrue(self.kazoo_client.Lock("/lock").acquire(timeout=5))
    ...         self.assertEqual(self.zookeeper.version, "3.5.8")
    >>> tests = unittest.defaultTestLoader.loadTestsFromTestCase(LockTest)
    >>> tests.run(unittest.TestResult())
    <unittest.result.TestResult run=1 errors=0 failures=0>
    """

    zookeeper_options: ClassVar[Mapping[str, Any]] = {}
    zookeeper: simzk.ZooKeeper
    kazoo_client: KazooClient

    def setUp(self) -> None:
        """Start the server and the client; they end after the test, whatever a subclass does in `tearDown`."""
        super().setUp()
        self.zookeeper = self.enterContext(simzk.ZooKeeper(**self.zookeeper_options))
        self.kazoo_client = self.zookeeper.client()
        self.kazoo_client.start()


class KafkaClusterTestCase(unittest.TestCase):
    """Test case with a simulated Kafka cluster.

    Attributes:
        kafka_options: options of `simzk.KafkaCluster`, for a subclass to set.
        kafka_cluster: the cluster.

    >>> class FailoverTest(KafkaClusterTestCase):
    ...     kafka_options = {"brokers": 2, "seed": 7}
    ...     def test_failover(self):
    ...         self.kafka_cluster.kill(1)
    ...         self.kafka_cluster.run_until(lambda: self.kafka_cluster.controller == 2)
    >>> tests = unittest.defaultTestLoader.loadTestsFromTestCase(FailoverTest)
    >>> tests.run(unittest.TestResult())
    <unittest.result.TestResult run=1 errors=0 failures=0>
    """

    kafka_options: ClassVar[Mapping[str, Any]] = {}
    kafka_cluster: simzk.KafkaCluster

    def setUp(self) -> None:
        """Boot the cluster; it is closed after the test."""
        super().setUp()
        self.kafka_cluster = self.enterContext(simzk.KafkaCluster(**self.kafka_options))
