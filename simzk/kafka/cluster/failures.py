"""Faults at will between the brokers of a simulated cluster and their ZooKeeper.

What befalls a simulated cluster's brokers: killed, paused, expired, shut down, a log directory lost.

Every verb acts at the present instant; what comes of it comes while time passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.topic_partition import TopicPartition
from simzk.simulation.faults.verbs import FaultVerbs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from simzk.kafka.broker.broker import Broker
    from simzk.kafka.cluster.zookeeper_host import ZooKeeperHost
    from simzk.kafka.releases.cluster_releases import Releases
    from simzk.simulation import History
    from simzk.simulation.faults.request_faults import FaultRule
    from simzk.zookeeper.server import Server


class BrokerFaults(FaultVerbs[int]):
    """Faults on brokers' sessions: `KafkaCluster.zookeeper_faults`. A client is a broker's id, in all its sessions.

    A controller of 2.1 and later writes by "transaction": a check of `/controller_epoch`, and the write.

    Args:
        host: where the brokers' connections end.
        history: notes each rule that strikes.
        brokers: the ids that there are.

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
        host.rules.on_fired = self._tell

    def _session_of(self, client: int) -> Hashable:
        known = self._brokers()
        if client not in known:
            right = f"one of {', '.join(str(broker) for broker in known)}"
            raise ConfigError(f"broker {client} does not exist", where="client", right=right)
        return f"broker {client}"

    def _tell(self, rule: FaultRule, who: tuple[Hashable, ...], operation: str, paths: tuple[str, ...]) -> None:
        self._history.record(str(who[0]), f"fault: {rule.action}", ", ".join(paths), "", operation)


class Failures:
    """The verbs; the cluster has the brokers."""

    brokers: dict[int, Broker]
    history: History
    server: Server
    zookeeper_host: ZooKeeperHost
    _releases: Releases

    def kill(self, broker: int) -> None:
        """End a broker's process at once, as `kill -9` does; its session lives on until it expires.

        Raises:
            ConfigError: there is no such broker, or it is not running.
        """
        self._running(broker).kill()

    def restart(
        self,
        broker: int,
        *,
        version: str | None = None,
        inter_broker_protocol: str | None = None,
        port: int | None = None,
        rack: str | None = None,
    ) -> None:
        """Start a broker that is not running; while its old session stands it cannot register, and tries again.

        Args:
            broker: its id.
            version: the release that it runs from now on, as in a rolling upgrade; as before where not given.
            inter_broker_protocol: its `inter.broker.protocol.version` from now on; as before where not given.
            port, rack: where it listens and stands from now on; as before where not given.

        Raises:
            ConfigError: it runs, or cannot run so.
        """
        found = self._broker(broker)
        if found.alive:
            raise ConfigError(f"broker {broker} is running", right="a broker that is not")
        self._releases.change(broker, version, inter_broker_protocol)
        found.move(port, rack)
        found.start()

    def pause(self, broker: int, seconds: float | None = None) -> None:
        """Stop a broker's process for a time, or until `resume`, as a long collection of garbage or SIGSTOP does."""
        self._running(broker).process.pause(None if seconds is None else round(seconds * 1_000_000))
        self.history.record(f"broker {broker}", "paused", "", "", "" if seconds is None else f"for {seconds:g} s")

    def resume(self, broker: int) -> None:
        """Let a paused broker go on."""
        self._running(broker).process.resume()
        self.history.record(f"broker {broker}", "resumed")

    def expire(self, broker: int) -> None:
        """Expire a broker's session at once, as ZooKeeper does with one it has not heard of for long."""
        session = self._running(broker).session.session_id
        self.history.record(f"broker {broker}", "session expired by hand")
        self.server.expire(session, self.zookeeper_host.now_ms())
        self.zookeeper_host.send_output()

    def disconnect(self, broker: int) -> None:
        """Break a broker's connection to ZooKeeper; it comes back with its session."""
        self.history.record(f"broker {broker}", "disconnected from ZooKeeper")
        self._running(broker).session.break_connection()

    def shutdown(self, broker: int) -> None:
        """Stop a broker cleanly, as SIGTERM does: it moves its leaders, then ends its session."""
        self._running(broker).shut_down()

    def fail_log_dir(self, broker: int, directory: int | tuple[str, int]) -> None:
        """Let a log directory of a broker fail, as a disk does: what lies there is offline until the broker restarts.

        From 1.0 on the broker goes on with its other directories; without any left, or before that, it halts. When it
        starts again there is an empty directory in the place of the one that failed.

        Args:
            broker: its id.
            directory: which, from 0 on, or the one in which its replica of (topic, partition) lies.

        Raises:
            ConfigError: the broker does not run, or has no such directory, or it has failed already.
        """
        found = self._running(broker)
        live = found.log_dirs.live
        chosen = directory if isinstance(directory, int) else found.log_dirs.where(TopicPartition(*directory))
        if chosen not in live:
            named = f"directory {directory}" if isinstance(directory, int) else f"log of {directory[0]}-{directory[1]}"
            raise ConfigError(f"broker {broker} has no live {named}", where="directory", right=f"one of {live}")
        found.fail_log_dir(chosen)

    def _broker(self, broker: int) -> Broker:
        found = self.brokers.get(broker)
        if found is None:
            known = ", ".join(str(known) for known in self.brokers)
            raise ConfigError(f"broker {broker} does not exist", where="broker", right=f"one of {known}")
        return found

    def _running(self, broker: int) -> Broker:
        found = self._broker(broker)
        if not found.alive:
            raise ConfigError(f"broker {broker} is not running", where="broker", right="a broker that runs")
        return found
