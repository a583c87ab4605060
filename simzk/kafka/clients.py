"""What clients of a simulated cluster do and are told: records, logs, and what a broker believes."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.failures import Failures
from simzk.kafka.topic_partition import TopicPartition
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from simzk.kafka.broker.metadata_cache import BrokerMetadata
    from simzk.kafka.producer import Acks, Producer
    from simzk.kafka.protocol import ProduceResponse
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.simulation import Future


class ReplicaLog(NamedTuple):
    """The end of a replica's log, and its high watermark."""

    log_end: int
    high_watermark: int


class Clients(Failures):
    """The verbs; the cluster has brokers and a producer."""

    producer: Producer

    @abstractmethod
    def state(self, topic: str, partition: int) -> LeaderAndIsr:
        """Who leads a partition and who is in sync, as it stands in ZooKeeper."""

    def produce(
        self,
        topic: str,
        partition: int,
        records: int = 1,
        *,
        acks: Acks = 1,
        timeout_ms: int = 30_000,
        broker: int | None = None,
    ) -> Future[ProduceResponse]:
        """Send records to a partition's leader, once.

        Args:
            topic, partition: where to.
            records: how many.
            acks: how many replicas must have them: 0, 1 or "all" (those in the ISR, which must be as many as
                `min.insync.replicas` wants); up to 0.8.2 any number.
            timeout_ms: how long the leader may wait for them.
            broker: who is asked; by default who leads according to ZooKeeper.

        Returns:
            the answer, once time has passed: an error, or the offset of the first record.

        Raises:
            ConfigError: there is no such partition or broker, or acks, records or time that cannot be.

        >>> from simzk.kafka.cluster import KafkaCluster
        >>> cluster = KafkaCluster(brokers=3, seed=1)
        >>> _ = cluster.create_topic("orders", assignment={0: [1, 2]}, config={"min.insync.replicas": "2"})
        >>> cluster.run_for(1)
        >>> cluster.kill(2)
        >>> cluster.run_until_quiet()
        True
        >>> refused, taken = cluster.produce("orders", 0, acks="all"), cluster.produce("orders", 0, acks=1)
        >>> cluster.run_for(1)
        >>> refused.result().error.name, taken.result().error.name
        ('NOT_ENOUGH_REPLICAS', 'NONE')
        """
        leader = self.state(topic, partition).leader if broker is None else self._broker(broker).id
        known = leader if leader in self.brokers else None
        return self.producer.send(TopicPartition(topic, partition), records, acks, timeout_ms, known)

    def metadata(self, broker: int) -> BrokerMetadata:
        """What a broker believes of the cluster, as stale as the last word of a controller that reached it.

        Raises:
            ConfigError: there is no such broker, or it does not run.
        """
        return self._running(broker).metadata.seen()

    def log(self, broker: int, topic: str, partition: int) -> ReplicaLog:
        """How far a broker's log of a partition goes, and up to where it believes that all in sync have it.

        Raises:
            ConfigError: there is no such broker, it does not run, or it has no such log open.
        """
        replica = self._running(broker).replicas.replicas.get(TopicPartition(topic, partition))
        if replica is None:
            raise ConfigError(f"broker {broker} has no log of {topic}-{partition}", right="a replica that it has")
        return ReplicaLog(replica.log_end, replica.high_watermark)
