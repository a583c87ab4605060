"""In-memory ZooKeeper and simulated Kafka cluster for tests: fast start, scripted faults, repeatable runs.

Rules of this module:
  - public names are imported on first access (PEP 562), so that `import simzk` is cheap and works without the optional
    requirements (numpy for KafkaCluster, kazoo for ZooKeeper);
  - neither `typing` nor `importlib` is imported at the top: each takes longer to import than the rest of this module.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers treat this name as typing.TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.api import KafkaCluster
    from simzk.errors import ConfigError, LayoutError, ScenarioError, SimzkError, ZnodeError
    from simzk.serve.memory.zookeeper import ZooKeeper
    from simzk.serve.zookeeper_server import ZooKeeperServer

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "KafkaCluster",
    "LayoutError",
    "ScenarioError",
    "SimzkError",
    "ZnodeError",
    "ZooKeeper",
    "ZooKeeperServer",
]

_HOMES = {
    "ConfigError": "simzk.errors",
    "KafkaCluster": "simzk.api",
    "LayoutError": "simzk.errors",
    "ScenarioError": "simzk.errors",
    "SimzkError": "simzk.errors",
    "ZnodeError": "simzk.errors",
    "ZooKeeper": "simzk.serve.memory.zookeeper",
    "ZooKeeperServer": "simzk.serve.zookeeper_server",
}


if not TYPE_CHECKING:  # a type checker reads the public names above, and would accept any name here

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
