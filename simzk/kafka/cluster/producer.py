"""Producer client of a simulated cluster, with one produce request per call.

Rules of this module (Kafka's producer; docs/reference/kafka.md §2.8):
  - the caller chooses the broker; a producer with fresh metadata sends to the leader that ZooKeeper names;
  - a request is sent once: retries, which Kafka's producer does for most errors, are up to the caller;
  - with acks 0 the broker sends no response, and the request counts as successful;
  - a request without a response may have been served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from simzk.errors import ConfigError
from simzk.kafka.broker.producing import ALL
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import AppendRequest, AppendResponse
from simzk.kafka.rpc import REQUEST_TIMEOUT_MS, Connections, Disconnected
from simzk.simulation import History, Process, Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Task

Acks = int | Literal["all"]
"""Replicas that must have a record before the leader acknowledges it: 0, 1 or "all"; any number up to 0.8.2."""

NAME = "producer"


class Producer:
    """A client that sends produce requests, whose outcomes `history` records.

    Args:
        identities: numbers of batches, each used once in the cluster.

    Attributes:
        acknowledged: number of acknowledged records by partition.
        last: error code of the last response by partition.
    """

    def __init__(
        self, scheduler: Scheduler, connections: Connections, history: History, identities: Iterator[int]
    ) -> None:
        self.process: Process = Process(scheduler, NAME)
        self.acknowledged: dict[TopicPartition, int] = {}
        self.last: dict[TopicPartition, ErrorCode] = {}
        self._connections = connections
        self._history = history
        self._identities = identities
        connections.register(self.process, _reject_request)

    def send(
        self, partition: TopicPartition, records: int, acks: Acks, timeout_ms: int, broker: int | None
    ) -> Task[AppendResponse]:
        """Send records to a broker; the response is LEADER_NOT_AVAILABLE if `broker` is None.

        Raises:
            ConfigError: the acks, the number of records or the timeout is out of range.
        """
        wanted = ALL if acks == "all" else acks
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < ALL:
            raise ConfigError(f"acks are {acks!r}", where="acks", right='0, 1 or "all"')
        if records < 1:
            raise ConfigError(f"there are {records} records", where="records", right="1 or more")
        if timeout_ms < 1:
            raise ConfigError(f"the timeout is {timeout_ms} ms", where="timeout_ms", right="1 or more")
        request = AppendRequest(partition, records, wanted, timeout_ms, identity=next(self._identities))
        return self.process.spawn(self._send(request, broker), f"produce to {partition}")

    async def _send(self, request: AppendRequest, broker: int | None) -> AppendResponse:
        if broker is None:
            return self._record(request, AppendResponse(ErrorCode.LEADER_NOT_AVAILABLE))
        timeout_ms = request.timeout_ms + REQUEST_TIMEOUT_MS  # longer than the broker's own timeout
        answer = self._connections.call(self.process, f"broker {broker}", request, timeout_ms)
        if request.acks == 0:
            answer.add_done_callback(lambda _: None)  # a failed future, of a lost connection, must be observed
            return self._record(request, AppendResponse(ErrorCode.NONE))
        try:
            response: AppendResponse = await answer
        except Disconnected:
            response = AppendResponse(ErrorCode.NETWORK_EXCEPTION)
        return self._record(request, response)

    def _record(self, request: AppendRequest, response: AppendResponse) -> AppendResponse:
        partition, offset = request.partition, response.base_offset
        self.last[partition] = response.error
        if response.error == ErrorCode.NONE:
            assert response.base_offset >= 0 or request.acks == 0, "an acknowledged record has an offset"
            self.acknowledged[partition] = self.acknowledged.get(partition, 0) + request.records
            where = f"from {offset} on" if offset >= 0 else "nobody was asked"
            self._history.record(NAME, "acknowledged", str(partition), f"{request.records} records", where)
        else:
            self._history.record(NAME, "refused", str(partition), f"{request.records} records", response.error.name)
        return response


def _reject_request(request: object, _respond: object) -> None:
    raise AssertionError(f"the producer serves no requests, but received {request!r}")
