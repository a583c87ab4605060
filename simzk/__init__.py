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
    from simzk.kafka.replay.player import StepReport
    from simzk.kafka.replay.report import ReplayReport
    from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
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
    "BrokerTiming": "simzk.kafka.broker.timing",
    "ConfigError": "simzk.errors",
    "Event": "simzk.simulation.history",
    "History": "simzk.simulation.history",
    "KafkaCluster": "simzk.api",
    "KafkaServer": "simzk.kafka_server",
    "LayoutError": "simzk.errors",
    "LeaderAndIsr": "simzk.kafka.topic_partition",
    "RecordingError": "simzk.errors",
    "ReplayReport": "simzk.kafka.replay.report",
    "ReplicaAssignment": "simzk.kafka.topic_partition",
    "ScenarioError": "simzk.errors",
    "SimzkError": "simzk.errors",
    "StepReport": "simzk.kafka.replay.player",
    "TopicPartition": "simzk.kafka.topic_partition",
    "ZnodeError": "simzk.errors",
    "ZooKeeper": "simzk.serve.memory",
    "ZooKeeperServer": "simzk.serve.zookeeper_server",
    "linearizability": "simzk.testing.linearizability",
    "patch": "simzk.testing.kazoo_patch",
    "pytest": "simzk.pytest",
    "replay": "simzk.api",
}
_MODULES = {"linearizability", "pytest"}


if not TYPE_CHECKING:  # a type checker reads the public names above, and would accept any name here

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(home)
        value = module if name in _MODULES else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
