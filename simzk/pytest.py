"""Factories of pytest fixtures: a ZooKeeper, a kazoo client or a Kafka cluster with options, as public names.

>>> import simzk.pytest
>>> old_ensemble = simzk.pytest.zookeeper(servers=3, version="3.5.8", scope="session")
>>> old_client = simzk.pytest.kazoo_client("old_ensemble")
>>> old_cluster = simzk.pytest.kafka_cluster(version="2.8", brokers=5, racks=3)
"""

from __future__ import annotations

from simzk.testing.factories import kafka_cluster, kazoo_client, zookeeper

__all__ = ["kafka_cluster", "kazoo_client", "zookeeper"]
