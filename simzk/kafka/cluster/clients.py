"""A producer beside a simulated cluster: one request for each call, to the leader, and what came of it.

Rules of the module (Kafka's producer; docs/reference/kafka.md §2.8):
  - it asks whoever leads according to ZooKeeper, as one with fresh metadata does, or the broker that it is told to;
  - it tries once: what a producer of Kafka would do with an error (most are tried again) is up to who calls;
  - with acks 0 nobody answers, and all is taken to be well;
  - a request that got no answer may have been served.

What clients of a simulated cluster do and are told: records, logs, and what a broker believes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal, NamedTuple

from simzk.errors import ConfigError
from simzk.kafka.broker.producing import ALL
from simzk.kafka.cluster.failures import Failures
from simzk.kafka.requests import Error, ProduceRequest, ProduceResponse
from simzk.kafka.rpc import REQUEST_TIMEOUT_MS, Connections, Disconnected
from simzk.kafka.topic_partition import TopicPartition
from simzk.simulation import History, Process, Scheduler

if TYPE_CHECKING:
    from simzk.kafka.broker.metadata_cache import BrokerMetadata
    from simzk.kafka.topic_partition import LeaderAndIsr
    from simzk.simulation import Future

if TYPE_CHECKING:
    from simzk.simulation import Task

    Acks = int | Literal["all"]

NAME = "producer"


class Producer:
    """Sends records.

    Args:
        scheduler: virtual time.
        connections: the ways to brokers.
        history: where it is told what came of each request.
    """

    def __init__(self, scheduler: Scheduler, connections: Connections, history: History) -> None:
        self.process = Process(scheduler, NAME)
        self.acknowledged: dict[TopicPartition, int] = {}
        self.last: dict[TopicPartition, Error] = {}
        self._connections = connections
        self._history = history
        connections.register(self.process, _serve_nothing)

    def send(
        self, partition: TopicPartition, records: int, acks: Acks, timeout_ms: int, broker: int | None
    ) -> Task[ProduceResponse]:
        """Send records to a broker; None where the partition has no leader."""
        wanted = ALL if acks == "all" else acks
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < ALL:
            raise ConfigError(f"acks are {acks!r}", where="acks", right='0, 1 or "all"')
        if records < 1:
            raise ConfigError(f"there are {records} records", where="records", right="1 or more")
        if timeout_ms < 1:
            raise ConfigError(f"the timeout is {timeout_ms} ms", where="timeout_ms", right="1 or more")
        request = ProduceRequest(partition, records, wanted, timeout_ms)
        return self.process.spawn(self._send(request, broker), f"produce to {partition}")

    async def _send(self, request: ProduceRequest, broker: int | None) -> ProduceResponse:
        if broker is None:
            return self._note(request, ProduceResponse(Error.LEADER_NOT_AVAILABLE))
        timeout_ms = request.timeout_ms + REQUEST_TIMEOUT_MS  # the broker's own is over first
        answer = self._connections.call(self.process, f"broker {broker}", request, timeout_ms)
        if request.acks == 0:
            answer.add_done_callback(_nobody_waits)
            return self._note(request, ProduceResponse(Error.NONE))
        try:
            response: ProduceResponse = await answer
        except Disconnected:
            response = ProduceResponse(Error.NETWORK_EXCEPTION)
        return self._note(request, response)

    def _note(self, request: ProduceRequest, response: ProduceResponse) -> ProduceResponse:
        partition, offset = request.partition, response.base_offset
        self.last[partition] = response.error
        if response.error == Error.NONE:
            self.acknowledged[partition] = self.acknowledged.get(partition, 0) + request.records
            where = f"from {offset} on" if offset >= 0 else "nobody was asked"
            self._history.record(NAME, "acknowledged", str(partition), f"{request.records} records", where)
        else:
            self._history.record(NAME, "refused", str(partition), f"{request.records} records", response.error.name)
        return response


def _nobody_waits(_: object) -> None:
    """The answer to a request with acks 0, or that its connection broke, is heard by nobody."""


def _serve_nothing(request: object, _respond: object) -> None:
    raise AssertionError(f"the producer was asked for {request!r}")


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

        >>> from simzk.kafka.cluster.cluster import KafkaCluster
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
        return self._running(broker).metadata.snapshot()

    def log(self, broker: int, topic: str, partition: int) -> ReplicaLog:
        """How far a broker's log of a partition goes, and up to where it believes that all in sync have it.

        Raises:
            ConfigError: there is no such broker, it does not run, or it has no such log open.
        """
        replica = self._running(broker).replicas.replicas.get(TopicPartition(topic, partition))
        if replica is None:
            raise ConfigError(f"broker {broker} has no log of {topic}-{partition}", right="a replica that it has")
        return ReplicaLog(replica.log_end, replica.high_watermark)
