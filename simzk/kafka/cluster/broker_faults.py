"""Fault rules for the ZooKeeper sessions of simulated brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.simulation.faults.verbs import FaultVerbs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.simulation import History
    from simzk.simulation.faults.request_faults import FaultRule


class BrokerFaults(FaultVerbs[int]):
    """Faults on brokers' sessions: `KafkaCluster.zookeeper_faults`. A client is a broker id and means all its sessions.

    A controller of 2.1 and later writes with "transaction": a check of `/controller_epoch` and the write.

    Args:
        host: the server end of the brokers' connections.
        history: the history that records each fault.
        brokers: returns the ids of all brokers.

    >>> from simzk.kafka.cluster.cluster import KafkaCluster
    >>> cluster = KafkaCluster(brokers=3, seed=1)
    >>> _ = cluster.create_topic("t", assignment={0: [1, 2, 3]})
    >>> cluster.run_for(1)
    >>> rule = cluster.zookeeper_faults.drop_reply("transaction", path="/brokers/topics/t/partitions/0/state")
    >>> cluster.kill(1)
    >>> cluster.run_until_quiet()
    True
    >>> rule.fired, cluster.state("t", 0).leader
    (1, 2)
    """

    def __init__(self, host: ZooKeeperHost, history: History, brokers: Callable[[], list[int]]) -> None:
        super().__init__(host.rules)
        self._history = history
        self._brokers = brokers
        host.rules.on_fired = self._record

    def _session_of(self, client: int) -> Hashable:
        known = self._brokers()
        if client not in known:
            right = f"one of {', '.join(str(broker) for broker in known)}"
            raise ConfigError(f"broker {client} does not exist", where="client", right=right)
        return f"broker {client}"

    def _record(self, rule: FaultRule, who: tuple[Hashable, ...], operation: str, paths: tuple[str, ...]) -> None:
        self._history.record(str(who[0]), f"fault: {rule.action}", ", ".join(paths), "", operation)
