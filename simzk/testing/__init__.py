"""Tools for tests: the pytest plugin, base classes for unittest, waiting, Hypothesis strategies and state machines.

>>> from simzk.testing import KafkaClusterMachine, cluster_shapes, fault_schedules
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.testing.cases import KafkaClusterTestCase, ZooKeeperTestCase
    from simzk.testing.kafka_machine import MACHINE_SETTINGS, KafkaClusterMachine, assert_recovered, heal
    from simzk.testing.strategies import (
        ClusterShape,
        Fault,
        TopicShape,
        cluster_shapes,
        fault_schedules,
        faults,
        inflict,
        play,
        topics,
    )
    from simzk.testing.waiting import wait_until
    from simzk.testing.zookeeper_machine import ZooKeeperMachine

__all__ = [
    "MACHINE_SETTINGS",
    "ClusterShape",
    "Fault",
    "KafkaClusterMachine",
    "KafkaClusterTestCase",
    "TopicShape",
    "ZooKeeperMachine",
    "ZooKeeperTestCase",
    "assert_recovered",
    "cluster_shapes",
    "fault_schedules",
    "faults",
    "heal",
    "inflict",
    "play",
    "topics",
    "wait_until",
]

_HOMES = {
    "KafkaClusterMachine": "simzk.testing.kafka_machine",
    "KafkaClusterTestCase": "simzk.testing.cases",
    "MACHINE_SETTINGS": "simzk.testing.kafka_machine",
    "ZooKeeperMachine": "simzk.testing.zookeeper_machine",
    "ZooKeeperTestCase": "simzk.testing.cases",
    "assert_recovered": "simzk.testing.kafka_machine",
    "heal": "simzk.testing.kafka_machine",
    "wait_until": "simzk.testing.waiting",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'simzk.testing' has no attribute {name!r}")
    # pytest loads the plugin of this package in every run, so Hypothesis is imported on first use only.
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "simzk.testing.strategies")), name)
