"""A simulated cluster on wall time, for clients over TCP while a test breaks its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from simzk.scenarios.broker_control import BrokerControl

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.simulation.request_faults import FaultRules
    from simzk.zookeeper.server import Server
    from tests.serve.served import ServedCluster

T = TypeVar("T")


class LiveCluster:
    """A `Cluster` (simzk.serve.tcp.simulated_cluster).

    Args:
        cluster: whose virtual time follows the wall from now on.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self._host = cluster.zookeeper_host
        self.server: Server = self._host.server
        self.rules: FaultRules = self._host.rules
        self.brokers: BrokerControl = BrokerControl(cluster)

    def now_ms(self) -> int:
        return self._host.now_ms()

    def next_ms(self) -> float | None:
        next_us = self.cluster.scheduler.next_at_us
        return None if next_us is None else self._host.start_ms + next_us / 1000

    def run_until(self, at_ms: int) -> None:
        self.cluster.scheduler.run_until(self._host.when_us(at_ms))

    def wake_faults(self, at_ms: int) -> None:
        self._host.wake_at(at_ms)

    def pump(self) -> None:
        self._host.send_output()


class Operator:
    """Access of a test to a served cluster: broker failures and state."""

    def __init__(self, world: LiveCluster, served: ServedCluster) -> None:
        self._world = world
        self._served = served
        self.port = served.port

    def do(self, act: Callable[[KafkaCluster], T]) -> T:
        """Run a function on the cluster at the present instant and return its result."""
        with self._served.tcp.driver.lock:
            done = act(self._world.cluster)
            self._world.pump()
        self._served.tcp.call_on_loop(self._served.tcp.arm)
        return done

    def kill(self, broker: int) -> None:
        """Kill a broker and expire its session at once."""

        def end(cluster: KafkaCluster) -> None:
            session = cluster.brokers[broker].session.session_id
            cluster.kill(broker)
            cluster.server.expire(session, cluster.now_ms)

        self.do(end)
