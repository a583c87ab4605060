"""Clients in virtual time that delete records, and that create, change and delete topics.

Rules of this module (KafkaAdminClient):
  - an administrator works on topics that nobody else uses, one step after the other, and asks the controller again
    until it has an answer. So it knows which changes are there, and which may be;
  - a change that was confirmed is there in the end, unless a later one has changed it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from simzk.kafka.cluster.clients.readers import LATEST, FetchingClient
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from simzk.kafka.protocol.structs import Message
from simzk.kafka.rpc import Disconnected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.kafka.cluster.clients.wire import Ports
    from simzk.kafka.observation.client_ledger import ClientLedger
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Process

M = TypeVar("M", bound=Message)
T = TypeVar("T")

CONFIRMED_MS: Final = 10_000
"""How long the controller may wait until a change is there."""
ATTEMPTS_MAX: Final = 20
RETENTION: Final = "retention.ms"
_TOPIC_RESOURCE, _SET = 2, 0
_DELETES_BY_ID = 6
"""First version of DeleteTopics with names and ids."""
_UNCERTAIN: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR})
"""Errors after which a change may be there, or be refused by a broker that is not the controller."""


def delete_request(partition: TopicPartition, offset: int) -> DeleteRecordsRequest:
    """Return the request that deletes the records of a partition before an offset; -1 for all that are committed."""
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=partition.topic, partitions=[part])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=CONFIRMED_MS)


class RecordDeleter(FetchingClient):
    """A client that deletes the first records of partitions."""

    def __init__(
        self,
        process: Process,
        ports: Ports,
        ledger: ClientLedger,
        *,
        partitions: Sequence[TopicPartition],
        gap_us: int,
    ) -> None:
        super().__init__(process, ports)
        self._ledger = ledger
        self._partitions = partitions
        self._gap_us = gap_us
        process.spawn(self._run(), "record deleter")

    async def _run(self) -> None:
        while True:
            await self.process.sleep(self._gap_us)
            partition = self.stream.choice(self._partitions)
            try:
                await self._delete(partition)
            except Disconnected:
                self.forget_leader(partition)

    async def _delete(self, partition: TopicPartition) -> None:
        broker = await self.leader(partition)
        end = None if broker is None else await self.list_offset(broker, partition, LATEST)
        if broker is None or end is None:
            self.forget_leader(partition)
            return
        start = self._ledger.asked_to_delete.get(partition, 0)
        offset = start + self.stream.below(max(1, end - start + 1)) // 2
        request = delete_request(partition, offset)
        self._ledger.on_delete_sent(partition, offset)
        answer = await self.call(broker, request, DeleteRecordsResponse, 2, 2 * CONFIRMED_MS)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            self.forget_leader(partition)
        else:
            self._ledger.on_deleted(partition, offset, found.low_watermark, broker=broker)


class TopicState:
    """A topic of an administrator: what may be there. None stands for a topic that does not exist.

    Attributes:
        partitions: possible numbers of partitions.
        retention: possible values of `retention.ms`; empty for the default.
    """

    def __init__(self) -> None:
        self.partitions: set[int | None] = {None}
        self.retention: set[str] = {""}


class TopicAdministrator(FetchingClient):
    """An administrator of topics that it creates itself.

    Attributes:
        topics: its topics by name.
    """

    def __init__(self, process: Process, ports: Ports, ledger: ClientLedger, *, gap_us: int) -> None:
        super().__init__(process, ports)
        self.topics: dict[str, TopicState] = {}
        self._ledger = ledger
        self._gap_us = gap_us
        process.spawn(self._run(), "administrator")

    async def _run(self) -> None:
        while True:
            await self.process.sleep(self._gap_us)
            known = [name for name, topic in self.topics.items() if None not in topic.partitions]
            step = self.stream.below(6) if known else 0
            if step < 2:
                await self._create()
            else:
                name = self.stream.choice(known)
                await (self._add_partitions, self._set_retention, self._set_retention, self._delete)[step - 2](name)

    async def _ask(self, request: Message, kind: type[M], highest: int, code_of: Callable[[M], int]) -> ErrorCode:
        """Ask the controller; return the error, REQUEST_TIMED_OUT if the change may be there or not.

        An error that follows an attempt whose result is not known says nothing: the first attempt may be its reason.
        """
        is_uncertain = False
        for _ in range(ATTEMPTS_MAX):
            try:
                metadata = await self.metadata("__consumer_offsets")
                controller = metadata.controller_id
                if controller in self.ports.brokers:
                    answer = await self.call(controller, request, kind, highest, 2 * CONFIRMED_MS)
                    error = ErrorCode(code_of(answer))
                    if error is ErrorCode.NONE:
                        return error
                    if error not in _UNCERTAIN:
                        return ErrorCode.REQUEST_TIMED_OUT if is_uncertain else error
                    is_uncertain = is_uncertain or error is not ErrorCode.NOT_CONTROLLER
            except Disconnected:
                is_uncertain = True
            await self.process.sleep(self._gap_us)
        return ErrorCode.REQUEST_TIMED_OUT

    async def _create(self) -> None:
        name = f"{self.process.name.replace(' ', '-')}-{len(self.topics) + 1}"
        topic = self.topics[name] = TopicState()
        count = self.stream.between(1, 3)
        asked = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=2)
        request = CreateTopicsRequest(topics=[asked], timeout_ms=CONFIRMED_MS)
        before = self._note_sent(topic.partitions, count)
        error = await self._ask(request, CreateTopicsResponse, 7, lambda answer: answer.topics[0].error_code)
        if error is ErrorCode.TOPIC_ALREADY_EXISTS:
            self._ledger.administered.violate(f"{name} exists before it is created")
        self._note(topic.partitions, before, count, error)

    async def _delete(self, name: str) -> None:
        topic = self.topics[name]
        if self.ports.version(20, 6) >= _DELETES_BY_ID:
            state = DeleteTopicsRequest.DeleteTopicState(name=name)
            request = DeleteTopicsRequest(topics=[state], timeout_ms=CONFIRMED_MS)
        else:
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=CONFIRMED_MS)
        before = self._note_sent(topic.partitions, None)
        error = await self._ask(request, DeleteTopicsResponse, 6, lambda answer: answer.responses[0].error_code)
        self._note(topic.partitions, before, None, error)

    async def _add_partitions(self, name: str) -> None:
        topic = self.topics[name]
        count = max(one or 0 for one in topic.partitions) + 1
        asked = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[asked], timeout_ms=CONFIRMED_MS)
        before = self._note_sent(topic.partitions, count)
        error = await self._ask(request, CreatePartitionsResponse, 3, lambda answer: answer.results[0].error_code)
        self._note(topic.partitions, before, count, error)

    async def _set_retention(self, name: str) -> None:
        topic = self.topics[name]
        value = str(self.stream.between(100_000_000, 900_000_000))
        config = IncrementalAlterConfigsRequest.AlterableConfig(name=RETENTION, config_operation=_SET, value=value)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=name, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        before = self._note_sent(topic.retention, value)
        error = await self._ask(
            request, IncrementalAlterConfigsResponse, 1, lambda answer: answer.responses[0].error_code
        )
        self._note(topic.retention, before, value, error)

    def _note_sent(self, possible: set[T], value: T) -> set[T]:
        """Note what may be there from now on: this process may end before the answer. Return what was possible."""
        before = set(possible)
        possible.add(value)
        return before

    def _note(self, possible: set[T], before: set[T], value: T, error: ErrorCode) -> None:
        """Note what may be there after an answer: the new value, what was there before, or both."""
        if error is ErrorCode.NONE:
            self._ledger.counts["changes of administrators"] += 1
            possible.clear()
            possible.add(value)
        elif error is not ErrorCode.REQUEST_TIMED_OUT:
            possible.clear()
            possible.update(before)
