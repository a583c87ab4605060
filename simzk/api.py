"""The doors that join rooms: a simulated cluster that kazoo clients can talk to.

Rules of this module:
  - it may know every room, and is loaded only when somebody asks for one of its names;
  - a kazoo client's threads and the test's thread take turns at one server: whoever drives it holds its lock. What a
    client asks is applied at the present virtual instant, between two calls of the test.
"""

from __future__ import annotations

from functools import cached_property, wraps
from inspect import getmembers, isfunction
from typing import TYPE_CHECKING

from simzk.errors import ConfigError

try:
    import numpy  # noqa: F401  # the partition table's; asked for here, where it can be said what to install
except ImportError as missing:
    raise ConfigError(
        "KafkaCluster needs numpy, which is not installed", right="pip install 'simzk[kafka]'"
    ) from missing

from simzk.kafka.cluster import cluster as kafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.memory.zookeeper import ZooKeeper


def _in_turn(method: Callable[..., object]) -> Callable[..., object]:
    """The method, run while no kazoo client's request is: they share one server, and what the cluster keeps of it."""

    @wraps(method)
    def run(self: KafkaCluster, *args: object, **kwargs: object) -> object:
        if "zookeeper" not in self.__dict__:
            return method(self, *args, **kwargs)
        with self.zookeeper.lock:
            return method(self, *args, **kwargs)

    return run


class KafkaCluster(kafka.KafkaCluster):
    """A simulated Kafka cluster in virtual time that kazoo clients can talk to.

    >>> with KafkaCluster(brokers=3) as cluster:
    ...     client = cluster.zookeeper.client()
    ...     client.start()
    ...     sorted(client.get_children("/brokers/ids"))
    ['1', '2', '3']
    """

    @cached_property
    def zookeeper(self) -> ZooKeeper:
        """The cluster's ZooKeeper for kazoo clients: they see all that brokers write, and can join in.

        What a client asks is applied at the present virtual instant; the cluster reacts in the next `run_for`.
        """
        from simzk.serve.memory.zookeeper import ZooKeeper

        host = self.zookeeper_host
        zookeeper = ZooKeeper(server=self.server, now_ms=lambda: self.now_ms, pump=self.pump, rules=host.rules)
        zookeeper.wake_by(host.wake_at)
        host.rules.lock = zookeeper.lock
        return zookeeper

    def close(self) -> None:
        """Stop the kazoo clients of this cluster, then the cluster."""
        if "zookeeper" in self.__dict__:
            self.zookeeper.close()
        super().close()


for _name, _method in getmembers(kafka.KafkaCluster, isfunction):
    if not _name.startswith("_") and _name not in vars(KafkaCluster):
        setattr(KafkaCluster, _name, _in_turn(_method))
