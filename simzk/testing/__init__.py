"""Tools for tests: the pytest plugin, base classes for unittest, waiting, Hypothesis strategies and state machines.

>>> from simzk.testing import KafkaClusterMachine, cluster_shapes, fault_schedules
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.testing.cases import KafkaClusterTestCase, ZooKeeperTestCase
    from simzk.testing.strategies import (
        ClusterShape,
        Fault,
        KafkaClusterMachine,
        TopicShape,
        cluster_shapes,
        fault_schedules,
        faults,
        inflict,
        play,
        topics,
    )
    from simzk.testing.waiting import wait_until

__all__ = [
    "ClusterShape",
    "Fault",
    "KafkaClusterMachine",
    "KafkaClusterTestCase",
    "TopicShape",
    "ZooKeeperTestCase",
    "cluster_shapes",
    "fault_schedules",
    "faults",
    "inflict",
    "play",
    "topics",
    "wait_until",
]

_HOMES = {
    "KafkaClusterTestCase": "simzk.testing.cases",
    "ZooKeeperTestCase": "simzk.testing.cases",
    "wait_until": "simzk.testing.waiting",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'simzk.testing' has no attribute {name!r}")
    # pytest loads the plugin of this package in every run, so Hypothesis is imported on first use only.
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "simzk.testing.strategies")), name)
