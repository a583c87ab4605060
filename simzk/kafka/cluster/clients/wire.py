"""Connections of simulated clients to brokers, and what every client needs: leaders, coordinators, retries.

Rules of this module (NetworkClient of Kafka's clients):
  - a client has one connection to each broker; requests on it are answered in order;
  - a connection of which a message was lost delivers nothing more. A request without an answer in time closes it;
  - a client speaks the newest version of an API that all releases of the cluster accept, up to the one it names;
  - it asks a broker, chosen at random, for leaders and coordinators, whose metadata cache may be stale.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, cast

from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from simzk.kafka.protocol.structs import Message
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.rpc import Disconnected
from simzk.simulation import Future
from simzk.simulation.network import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.client_requests.broker_api import BrokerApi, ServedConnection
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Network, Process, RandomStream, Timer

M = TypeVar("M", bound=Message)

TIMEOUT_MS: Final = 5_000
"""How long a client waits for an answer, unless it says otherwise."""
BACKOFF_US: Final = 100_000
"""`retry.backoff.ms` of clients: 100 ms by default."""
GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1
"""Types of coordinator in FindCoordinator."""
_MANY_KEYS = 4
"""First version of FindCoordinator with a list of keys."""

NOT_COORDINATOR: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""Errors after which a client looks for the coordinator again."""


class ServingProcess(Protocol):
    """A broker, as its port shows it to clients."""

    @property
    def accepts_clients(self) -> bool:
        """Whether its port accepts connections."""

    @property
    def client_api(self) -> BrokerApi:
        """The APIs of its present process."""

    @property
    def version(self) -> KafkaVersion:
        """Its release."""


@dataclass(frozen=True, eq=False)
class Ports:
    """The brokers of a cluster, as clients reach them.

    Args:
        network: the network between clients and brokers.
        brokers: the brokers by id.
        now_ms: the clock, in ms since 1970, for the timestamps of records.
    """

    network: Network
    brokers: Mapping[int, ServingProcess]
    now_ms: Callable[[], int]

    def version(self, api_key: int, highest: int) -> int:
        """Return the newest version of an API that every broker accepts, but none above `highest`."""
        oldest = min(broker.version.number for broker in self.brokers.values())
        return min(accepted_versions(oldest)[api_key].high, highest)


class _Pending(NamedTuple):
    """A request that waits for its answer."""

    number: int
    kind: type[Message]
    version: int
    answer: Future[Message]
    timer: Timer


class Connection:
    """A connection of a client to a broker, both ends of it.

    Attributes:
        closed: whether the client has closed it, or has noted that the broker did.
    """

    def __init__(self, ports: Ports, process: Process, broker: int) -> None:
        end = f"broker {broker}"
        self.closed: bool = False
        self._ports = ports
        self._process = process
        self._broker = broker
        self._to_broker = Direction(ports.network, process.name, end)
        self._to_client = Direction(ports.network, end, process.name)
        self._pending: deque[_Pending] = deque()
        self._link: ServedConnection | None = None
        self._sent = 0
        self._to_broker.send(self._accept)

    # The client's side

    def call(self, request: Message, kind: type[M], version: int, timeout_ms: int) -> Future[M]:
        """Send a request; return a future of its answer, which fails with `Disconnected`."""
        assert not self.closed, "a closed connection sends nothing"
        self._sent += 1
        answer: Future[Message] = Future()
        timer = self._process.call_later(timeout_ms * 1000, self.close_by_client)
        self._pending.append(_Pending(self._sent, kind, version, answer, timer))
        name = self._process.name.replace(" ", "-")
        frame = encode_request(request, version, correlation_id=self._sent, client_id=name)
        self._to_broker.send(partial(self._receive, frame))
        return cast("Future[M]", answer)

    def close_by_client(self) -> None:
        """Close the connection; requests without an answer fail."""
        if not self.closed:
            self._to_broker.send(self._forget)
            self._note_end()

    def _answer(self, frame: bytes) -> None:
        if self.closed:
            return
        assert self._pending, "an answer has a request"
        number, kind, version, answer, timer = self._pending.popleft()
        timer.cancel()
        answered, _, response = decode_response(kind, version, frame)
        assert answered == number, f"request {number} is answered by the response to {answered}"
        answer.set_result(response)

    def _note_end(self) -> None:
        if self.closed:
            return
        self.closed = True
        pending, self._pending = self._pending, deque()
        for one in pending:
            one.timer.cancel()
            one.answer.set_exception(Disconnected(f"{self._process.name} to broker {self._broker}"))

    # The broker's side, a transport of its port

    def send(self, frame: bytes) -> None:
        """Send the frame of a response to the client."""
        self._to_client.send(partial(self._process.deliver, partial(self._answer, frame)))

    def close(self) -> None:
        """Tell the client that the broker has closed the connection."""
        self._link = None
        self._to_client.send(partial(self._process.deliver, self._note_end))

    def _accept(self) -> None:
        broker = self._ports.brokers[self._broker]
        if broker.accepts_clients:
            self._link = broker.client_api.connect(self)
        else:
            self.close()

    def _receive(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.receive(frame)

    def _forget(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.hang_up()


class CoordinatorLostError(Exception):
    """The broker is not, or not yet, the coordinator."""


class WireClient:
    """A client process with its connections.

    Args:
        process: the process.
        ports: the brokers.

    Attributes:
        stream: its chance.
    """

    def __init__(self, process: Process, ports: Ports) -> None:
        self.process: Process = process
        self.ports: Ports = ports
        self.stream: RandomStream = process.scheduler.stream(process.name)
        self.topic_ids: dict[str, str] = {}
        self._connections: dict[int, Connection] = {}
        self._leaders: dict[TopicPartition, int] = {}

    @property
    def now_us(self) -> int:
        """The present time."""
        return self.process.scheduler.now_us

    def kill(self) -> None:
        """End the process; its system closes the connections."""
        for connection in self._connections.values():
            connection.close_by_client()
        self.process.kill()

    def call(
        self, broker: int, request: Message, kind: type[M], highest: int, timeout_ms: int = TIMEOUT_MS
    ) -> Future[M]:
        """Send a request to a broker, in the newest version up to `highest`."""
        connection = self._connections.get(broker)
        if connection is None or connection.closed:
            connection = self._connections[broker] = Connection(self.ports, self.process, broker)
        version = self.ports.version(kind.MESSAGE.api_key or 0, highest)
        return connection.call(request, kind, version, timeout_ms)

    def hang_up(self, broker: int) -> None:
        """Close the connection to a broker, if there is one."""
        if broker in self._connections:
            self._connections.pop(broker).close_by_client()

    def any_broker(self) -> int:
        """Return a broker, chosen at random."""
        return self.stream.choice(list(self.ports.brokers))

    async def metadata(self, topic: str, broker: int | None = None) -> MetadataResponse:
        """Ask a broker for a topic, any one if none is named; raise `Disconnected` without an answer."""
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
        return await self.call(self.any_broker() if broker is None else broker, asked, MetadataResponse, 12)

    async def leader(self, partition: TopicPartition) -> int | None:
        """Return the leader of a partition, as a broker or this client knows it; None if there is none."""
        if partition in self._leaders:
            return self._leaders[partition]
        try:
            response = await self.metadata(partition.topic)
        except Disconnected:
            return None
        for topic in response.topics:
            if topic.name == partition.topic:
                self.topic_ids[partition.topic] = topic.topic_id
                for one in topic.partitions:
                    if one.partition_index == partition.partition and one.leader_id >= 0:
                        self._leaders[partition] = one.leader_id
        return self._leaders.get(partition)

    def forget_leader(self, partition: TopicPartition) -> None:
        """Ask for the leader of a partition before the next request to it."""
        self._leaders.pop(partition, None)

    async def coordinator(self, key: str, kind: int) -> int:
        """Return the coordinator of a group or of a transactional id.

        Raises:
            CoordinatorLostError: no broker is it at present.
            Disconnected: no answer came.
        """
        many = self.ports.version(10, 6) >= _MANY_KEYS
        one, listed = ("", [key]) if many else (key, [])
        asked = FindCoordinatorRequest(key=one, key_type=kind, coordinator_keys=listed)
        response = await self.call(self.any_broker(), asked, FindCoordinatorResponse, 6)
        found = response.coordinators[0] if many else response
        if found.error_code:
            raise CoordinatorLostError(ErrorCode(found.error_code).name)
        return found.node_id

    async def backoff(self) -> None:
        """Wait before a request is sent again."""
        await self.process.sleep(BACKOFF_US)
