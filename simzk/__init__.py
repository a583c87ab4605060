"""In-memory ZooKeeper and simulated Kafka cluster for tests: fast start, scripted faults, repeatable runs.

The public API is what this package exports, what `simzk.linearizability` exports, and the fixtures of the pytest
plugin. Every other module is internal and may change in any release.

Rules of this module:
  - public names are imported on first access (PEP 562), so that `import simzk` is cheap and works without the optional
    requirements (numpy for KafkaCluster);
  - neither `typing` nor `importlib` is imported at the top: each takes longer to import than the rest of this module.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers treat this name as typing.TYPE_CHECKING

if TYPE_CHECKING:
    from simzk import pytest
    from simzk.api import KafkaCluster, replay
    from simzk.errors import ConfigError, LayoutError, RecordingError, ScenarioError, SimzkError, ZnodeError
    from simzk.kafka.broker.timing import BrokerTiming
    from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
    from simzk.kafka.zookeeper_mode.replay.player import StepReport
    from simzk.kafka.zookeeper_mode.replay.report import ReplayReport
    from simzk.kafka_server import KafkaServer
    from simzk.serve.memory import ZooKeeper
    from simzk.serve.zookeeper_server import ZooKeeperServer
    from simzk.simulation.history import Event, History
    from simzk.testing import linearizability
    from simzk.testing.kazoo_patch import patch

__version__ = "0.1.0"

__all__ = [
    "BrokerTiming",
    "ConfigError",
    "Event",
    "History",
    "KafkaCluster",
    "KafkaServer",
    "LayoutError",
    "LeaderAndIsr",
    "RecordingError",
    "ReplayReport",
    "ReplicaAssignment",
    "ScenarioError",
    "SimzkError",
    "StepReport",
    "TopicPartition",
    "ZnodeError",
    "ZooKeeper",
    "ZooKeeperServer",
    "linearizability",
    "patch",
    "pytest",
    "replay",
]

_HOMES = {
    "simzk.api": ("KafkaCluster", "replay"),
    "simzk.errors": ("ConfigError", "LayoutError", "RecordingError", "ScenarioError", "SimzkError", "ZnodeError"),
    "simzk.kafka.broker.timing": ("BrokerTiming",),
    "simzk.kafka.zookeeper_mode.replay.player": ("StepReport",),
    "simzk.kafka.zookeeper_mode.replay.report": ("ReplayReport",),
    "simzk.kafka.topic_partition": ("LeaderAndIsr", "ReplicaAssignment", "TopicPartition"),
    "simzk.kafka_server": ("KafkaServer",),
    "simzk.pytest": ("pytest",),
    "simzk.serve.memory": ("ZooKeeper",),
    "simzk.serve.zookeeper_server": ("ZooKeeperServer",),
    "simzk.simulation.history": ("Event", "History"),
    "simzk.testing.kazoo_patch": ("patch",),
    "simzk.testing.linearizability": ("linearizability",),
}
"""The public names of each module."""
_MODULES = {"linearizability", "pytest"}


if not TYPE_CHECKING:  # a type checker reads the public names above, and would accept any name here

    def __getattr__(name: str) -> object:
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(home)
        value = module if name in _MODULES else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
