"""Tools for tests: the pytest plugin, Hypothesis strategies and state machines.

>>> from simzk.testing import KafkaClusterMachine, cluster_shapes, fault_schedules
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.testing.kafka_machine import KafkaClusterMachine
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

# pytest loads the plugin of this package in every run, so Hypothesis is imported on first use only.
_HOMES = {
    "KafkaClusterMachine": "simzk.testing.kafka_machine",
    **dict.fromkeys(
        (
            "ClusterShape",
            "Fault",
            "TopicShape",
            "cluster_shapes",
            "fault_schedules",
            "faults",
            "inflict",
            "play",
            "topics",
        ),
        "simzk.testing.strategies",
    ),
}

__all__ = [
    "ClusterShape",
    "Fault",
    "KafkaClusterMachine",
    "TopicShape",
    "cluster_shapes",
    "fault_schedules",
    "faults",
    "inflict",
    "play",
    "topics",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'simzk.testing' has no attribute {name!r}")
    return getattr(import_module(home), name)
