"""Handlers of clients' requests: what they are given, and their broker as they see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.kafka.broker.authorizer import CLUSTER
from simzk.kafka.metadata.plane import MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from simzk.kafka.broker.authorizer import Authorizer
    from simzk.kafka.broker.configs import TopicConfigs
    from simzk.kafka.broker.replica_logs import ReplicaLogs
    from simzk.kafka.client_requests.broker_faults import Silence
    from simzk.kafka.metadata.cache import MetadataCache
    from simzk.kafka.metadata.plane import EntityReader
    from simzk.kafka.protocol.structs import Message
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.simulation import Future, Process


ANONYMOUS = "User:ANONYMOUS"
"""Principal of a client without login and certificate."""


class Context(NamedTuple):
    """Version of a request, and the client that sent it.

    Attributes:
        version: version of the request.
        client_id: the id that the client gives itself.
        principal: principal of the connection, such as `User:alice`.
        by_token: whether the client has logged in by a delegation token.
        listener: name of the listener at which it has connected; empty for the one that is for clients.
    """

    version: int
    client_id: str | None
    principal: str = ANONYMOUS
    by_token: bool = False
    listener: str = ""


Answer = Callable[["Message | Silence | None"], None]
Handler = Callable[[Context, Any, Answer], None]
"""Handle a request; call the answer with the response, now or later, or with None to close the connection."""


@dataclass(frozen=True, eq=False)
class ServingBroker:
    """Parts of one broker, from one start of its process to the next.

    Args:
        id: the broker's id.
        version, config: its release and settings.
        process: its process, which runs handlers and timers.
        cache: its metadata cache.
        entities: reads configurations and topics.
        authorizer: what clients may do.
        replicas: its replicas.
        topic_configs: the configuration of topics.
        is_controller: returns whether it is the active controller.
        endpoint_of: returns host and port that a broker advertises at a listener; None if it has no such listener.
        now_ms: the clock, in milliseconds.
    """

    id: int
    version: KafkaVersion
    config: BrokerConfig
    process: Process
    cache: MetadataCache
    entities: EntityReader
    authorizer: Authorizer
    replicas: ReplicaLogs
    topic_configs: TopicConfigs
    is_controller: Callable[[], bool]
    endpoint_of: Callable[[int, str], tuple[str, int] | None]
    now_ms: Callable[[], int]

    def allows_on_cluster(self, operation: str, principal: str) -> bool:
        """Return whether a principal may do something with the cluster."""
        return self.authorizer.allows(operation, CLUSTER, principal)

    def spawn(self, work: Coroutine[Future[Any], None, object], what: str) -> None:
        """Run a handler that waits; it ends when the metadata are unavailable, and the client gets no response."""

        async def task() -> None:
            with suppress(MetadataUnavailableError):
                await work

        self.process.spawn(task(), what)

    def waiting(
        self, serve: Callable[[Context, Any, Answer], Coroutine[Future[Any], None, None]], what: str
    ) -> Handler:
        """Return a handler that waits, as `spawn` runs it."""
        return lambda context, request, answer: self.spawn(serve(context, request, answer), what)


@dataclass(eq=False)
class ClientApi(ABC):
    """Requests of clients to one broker, of some APIs."""

    broker: ServingBroker

    @property
    @abstractmethod
    def handlers(self) -> dict[int, Handler]:
        """The handlers by API key."""
