"""An in-memory ZooKeeper and a simulated Kafka cluster that start in milliseconds, break exactly as told, and repeat.

Rules of this module:
  - the doors that users import stand here by name and are loaded when they are first asked for (PEP 562), so that
    `import simzk` costs next to nothing and a bare install never meets a requirement that it has not got;
  - not even `typing` is imported, which takes three times as long as all the rest of this: it is loaded behind a door.
"""

from __future__ import annotations

from simzk.loading import load as _load

TYPE_CHECKING = False  # type checkers take this name for typing's

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


if not TYPE_CHECKING:  # a type checker is to know the doors by name, and no others

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = _load(home, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
