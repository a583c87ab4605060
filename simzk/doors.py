"""The doors that join rooms: a simulated cluster that kazoo clients can talk to.

Rules of this module:
  - it may know every room, and is loaded only when somebody asks for one of its names;
  - a kazoo client's threads and the test's thread take turns at one server: whoever drives it holds its lock. What a
    client asks is applied at the present virtual instant, between two calls of the test.
"""

from __future__ import annotations

from functools import cached_property, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from simzk.errors import ConfigError

try:
    import numpy  # noqa: F401  # the partition table's; asked for here, where it can be said what to install
except ImportError as missing:
    raise ConfigError(
        "KafkaCluster needs numpy, which is not installed", right="pip install 'simzk[kafka]'"
    ) from missing

from simzk.kafka import cluster as kafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.memory import ZooKeeper

P = ParamSpec("P")
R = TypeVar("R")


def _in_turn(method: Callable[Concatenate[KafkaCluster, P], R]) -> Callable[Concatenate[KafkaCluster, P], R]:
    """The method, run while no kazoo client's request is: they share one server."""

    @wraps(method)
    def run(self: KafkaCluster, *args: P.args, **kwargs: P.kwargs) -> R:
        if "zookeeper" not in self.__dict__:
            return method(self, *args, **kwargs)
        with self.zookeeper.lock:
            return method(self, *args, **kwargs)

    return run


class KafkaCluster(kafka.KafkaCluster):
    __doc__ = kafka.KafkaCluster.__doc__

    @cached_property
    def zookeeper(self) -> ZooKeeper:
        """The cluster's ZooKeeper for kazoo clients: they see all that brokers write, and can join in.

        What a client asks is applied at the present virtual instant; the cluster reacts in the next `run_for`.
        """
        from simzk.serve.memory import ZooKeeper

        zookeeper = ZooKeeper(server=self.server, now_ms=lambda: self.now_ms, pump=self.pump)
        self.zookeeper_host.on_foreign_output = zookeeper.deliver
        return zookeeper

    def close(self) -> None:
        """Stop the kazoo clients of this cluster, then the cluster."""
        if "zookeeper" in self.__dict__:
            self.zookeeper.close()
        super().close()

    run_for = _in_turn(kafka.KafkaCluster.run_for)
    kill = _in_turn(kafka.KafkaCluster.kill)
    restart = _in_turn(kafka.KafkaCluster.restart)
    pause = _in_turn(kafka.KafkaCluster.pause)
    expire = _in_turn(kafka.KafkaCluster.expire)
    shutdown = _in_turn(kafka.KafkaCluster.shutdown)
    create_topic = _in_turn(kafka.KafkaCluster.create_topic)
    delete_topic = _in_turn(kafka.KafkaCluster.delete_topic)
    add_partitions = _in_turn(kafka.KafkaCluster.add_partitions)
    reassign = _in_turn(kafka.KafkaCluster.reassign)
    elect = _in_turn(kafka.KafkaCluster.elect)
    write_znode = _in_turn(kafka.KafkaCluster.write_znode)
    delete_znode = _in_turn(kafka.KafkaCluster.delete_znode)
