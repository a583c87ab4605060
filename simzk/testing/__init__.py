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
    "cases": ("KafkaClusterTestCase", "ZooKeeperTestCase"),
    "kafka_machine": ("KafkaClusterMachine", "MACHINE_SETTINGS", "assert_recovered", "heal"),
    "waiting": ("wait_until",),
    "zookeeper_machine": ("ZooKeeperMachine",),
}
"""Names by module; all others are in `strategies`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'simzk.testing' has no attribute {name!r}")
    # pytest loads the plugin of this package in every run, so Hypothesis is imported on first use only.
    from importlib import import_module

    home = next((module for module, names in _HOMES.items() if name in names), "strategies")
    return getattr(import_module(f"simzk.testing.{home}"), name)
